// Properties of broadcast: every output gets every element once and in order, and each obeys the handshake.
module broadcast_formal #(
  parameter int unsigned N = 3
) (
  input logic         clk_i,
  input logic         offer_i,
  input logic [N-1:0] out_ready_i
);

  typedef logic [3:0] number_t;

  logic            rst_n = 1'b0;
  logic            offered = 1'b0;
  number_t         put = '0;
  number_t [N-1:0] taken = '0;
  logic            in_valid;
  logic            in_ready;
  logic    [N-1:0] out_valid;
  logic    [N-1:0] stalled = '0;

  // Assumed of the source: it holds what it offers.
  assign in_valid = offer_i || offered;

  broadcast #(
    .N(N)
  ) dut (
    .clk_i,
    .rst_ni     (rst_n),
    .in_valid_i (in_valid),
    .in_ready_o (in_ready),
    .out_valid_o(out_valid),
    .out_ready_i
  );

  always_ff @(posedge clk_i) begin
    rst_n   <= 1'b1;
    offered <= rst_n && in_valid && !in_ready;
    if (rst_n && in_valid && in_ready) put <= put + 1'b1;
    for (int unsigned i = 0; i < N; i++) begin
      if (rst_n && out_valid[i] && out_ready_i[i]) taken[i] <= taken[i] + 1'b1;
      stalled[i] <= rst_n && out_valid[i] && !out_ready_i[i];
    end
  end

  always_comb begin
    if (rst_n) begin
      for (int unsigned i = 0; i < N; i++) begin
        // An output either waits for the current element or has taken it already.
        assert (taken[i] == number_t'(put + number_t'(dut.served_q[i])));
        if (stalled[i]) assert (out_valid[i]);
      end
      assert (dut.served_q != '1);
      assert (dut.served_q == '0 || in_valid);
      cover (put == 3 && dut.served_q == 3'b101);
    end
  end

endmodule
