// Properties of ram_fifo: every element leaves once and in order, through the RAM or past it, without needless delay,
// and the handshake holds.
module ram_fifo_formal #(
  parameter int unsigned Depth = 4
) (
  input logic clk_i,
  input logic in_valid_i,
  input logic out_ready_i
);

  localparam int unsigned IndexBits = $clog2(Depth);
  typedef logic [IndexBits+1:0] number_t;

  logic rst_n = 1'b0;
  always_ff @(posedge clk_i) rst_n <= 1'b1;

  for (genvar bypass = 0; bypass < 2; bypass++) begin : gen_fifo

    number_t put = '0;
    number_t taken = '0;
    logic    in_ready;
    logic    out_valid;
    number_t out;
    logic    empty;

    ram_fifo #(
      .T     (number_t),
      .Depth (Depth),
      .Bypass(bypass)
    ) dut (
      .clk_i,
      .rst_ni     (rst_n),
      .in_valid_i,
      .in_ready_o (in_ready),
      .in_i       (put),
      .out_valid_o(out_valid),
      .out_ready_i,
      .out_o      (out),
      .empty_o    (empty)
    );

    always_ff @(posedge clk_i) begin
      if (rst_n && in_valid_i && in_ready) put <= put + 1'b1;
      if (rst_n && out_valid && out_ready_i) taken <= taken + 1'b1;
    end

    logic    stalled = 1'b0;
    number_t stalled_out;
    // In the cycle before, the output was empty although an element was in the RAM or, to bypass it, at the input.
    logic    late = 1'b0;
    always_ff @(posedge clk_i) begin
      stalled     <= rst_n && out_valid && !out_ready_i;
      stalled_out <= out;
      late        <= rst_n && !out_valid && (!empty || (bypass != 0 && in_valid_i && in_ready));
    end

    number_t held;
    number_t level;
    assign held  = put - taken;
    assign level = number_t'(dut.level);

    always_comb begin
      if (rst_n) begin
        assert (held == level + number_t'(out_valid));
        assert (held <= Depth + 1);
        assert (empty == (held == 0));
        assert (in_ready || held >= Depth);
        assert (!late || out_valid);
        if (out_valid) assert (out == taken);
        if (stalled) assert (out_valid && out == stalled_out);
        // Invariants on the contents, for the induction.
        assert (level <= Depth);
        if (bypass != 0) assert (out_valid || level == 0);
        for (int unsigned i = 0; i < Depth; i++) begin
          if (i < level) begin
            assert (dut.i_ram.memory[IndexBits'(dut.head_q+i)] == number_t'(taken + number_t'(out_valid) + i));
          end
        end
        cover (held == Depth + 1);
        cover (taken == number_t'(Depth + 2));
      end
    end

  end

endmodule
