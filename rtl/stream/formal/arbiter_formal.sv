// Properties of arbiter: packets leave whole, one element at a time, and each input's in order; an offered element
// stays offered; and an input waits for at most one packet of each other input.
module arbiter_formal #(
  parameter int unsigned N = 3
) (
  input logic         clk_i,
  input logic [N-1:0] offer_i,
  input logic [N-1:0] last_i,
  input logic         out_ready_i
);

  typedef logic [3:0] number_t;
  typedef struct packed {
    logic [1:0] from;
    number_t    number;
  } element_t;
  typedef logic [1:0] index_t;

  logic             rst_n = 1'b0;
  logic     [N-1:0] offered = '0;
  logic     [N-1:0] offered_last = '0;
  logic     [N-1:0] in_valid;
  logic     [N-1:0] in_ready;
  logic     [N-1:0] in_last;
  element_t [N-1:0] in;
  number_t  [N-1:0] put;
  logic             out_valid;
  element_t         out;
  logic             out_last;
  index_t           grant;

  initial put = '0;

  // Assumed of the sources: they hold what they offer. Elements are numbered.
  assign in_valid = offer_i | offered;
  assign in_last  = (offered & offered_last) | (~offered & last_i);
  always_comb begin
    for (int unsigned i = 0; i < N; i++) in[i] = '{from : index_t'(i), number: put[i]};
  end

  arbiter #(
    .T(element_t),
    .N(N)
  ) dut (
    .clk_i,
    .rst_ni     (rst_n),
    .in_valid_i (in_valid),
    .in_ready_o (in_ready),
    .in_i       (in),
    .in_last_i  (in_last),
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_o      (out),
    .out_last_o (out_last),
    .grant_o    (grant)
  );

  logic                  stalled = 1'b0;
  element_t              stalled_out;
  logic                  stalled_last;
  // A packet of input `owner` has begun to leave and has not ended.
  logic                  open = 1'b0;
  index_t                owner = '0;
  // For each input: packets of other inputs that have ended since it began to offer one.
  logic     [N-1:0][1:0] waited = '0;

  always_ff @(posedge clk_i) begin
    rst_n        <= 1'b1;
    offered      <= rst_n ? in_valid & ~in_ready : '0;
    offered_last <= in_last;
    stalled      <= rst_n && out_valid && !out_ready_i;
    stalled_out  <= out;
    stalled_last <= out_last;
    if (rst_n && out_valid && out_ready_i) begin
      open  <= !out_last;
      owner <= grant;
    end
    for (int unsigned i = 0; i < N; i++) begin
      if (rst_n && in_valid[i] && in_ready[i]) put[i] <= put[i] + 1'b1;
      if (!rst_n || !in_valid[i] || grant == index_t'(i)) waited[i] <= '0;
      else if (out_valid && out_ready_i && out_last) waited[i] <= waited[i] + 1'b1;
    end
  end

  // Upper bound of the turns before that of `i`.
  function automatic int unsigned distance(index_t turn, int unsigned i);
    return (i + N - 1 - 32'(turn)) % N;
  endfunction

  always_comb begin
    if (rst_n) begin
      assert (32'(grant) < N);
      // An element is offered exactly if an input may send one: the owner during a packet, otherwise any.
      assert (out_valid == (open ? in_valid[owner] : in_valid != '0));
      assert ($countones(in_ready) <= 1);
      assert ((in_valid & in_ready) == (out_valid && out_ready_i ? N'(1) << grant : '0));
      if (open) assert (grant == owner);
      if (out_valid) begin
        assert (out == in[grant] && out.from == grant);
        assert (out_last == in_last[grant]);
      end
      if (stalled) assert (out_valid && out == stalled_out && out_last == stalled_last);
      for (int unsigned i = 0; i < N; i++) begin
        assert (32'(waited[i]) < N);
        // With each packet that ends, a waiting input comes closer to its grant. The input of the packet that is
        // leaving is granted already.
        if (waited[i] != '0) begin
          assert (offered[i] && dut.grant_q != index_t'(i));
          assert (32'(waited[i]) + distance(dut.grant_q, i) + 32'(dut.held_q) < N);
        end
      end

      // Invariants for the induction.
      assert (32'(dut.grant_q) < N);
      assert (dut.held_q == (open || stalled));
      if (open) assert (dut.grant_q == owner);
      if (stalled) begin
        assert (offered[dut.grant_q] && stalled_out.from == dut.grant_q);
        assert (stalled_out.number == put[dut.grant_q] && stalled_last == offered_last[dut.grant_q]);
      end

      cover (waited[0] == 2'(N - 1));
      cover (open && owner == index_t'(1) && &in_valid);
    end
  end

endmodule
