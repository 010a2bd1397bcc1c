// Property of fifo: whatever source and consumer do, every element leaves once and in order, and the handshake holds.
//
// The input is a sequence of numbers. If the output is the same sequence, nothing was lost, duplicated or reordered.
module fifo_formal #(
  parameter int unsigned Depth = 8
) (
  input logic clk_i,
  input logic in_valid_i,
  input logic out_ready_i
);

  localparam int unsigned Bits = $clog2(Depth) + 2;
  typedef logic [Bits-1:0] number_t;

  logic    rst_n = 1'b0;
  number_t put = '0;
  number_t taken = '0;
  logic    in_ready;
  logic    out_valid;
  number_t out;
  logic [$clog2(Depth):0] level;

  always_ff @(posedge clk_i) rst_n <= 1'b1;

  fifo #(
    .T    (number_t),
    .Depth(Depth)
  ) dut (
    .clk_i,
    .rst_ni     (rst_n),
    .in_valid_i,
    .in_ready_o (in_ready),
    .in_i       (put),
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_o      (out),
    .level_o    (level)
  );

  always_ff @(posedge clk_i) begin
    if (rst_n && in_valid_i && in_ready) put <= put + 1'b1;
    if (rst_n && out_valid && out_ready_i) taken <= taken + 1'b1;
  end

  logic    stalled = 1'b0;
  number_t stalled_out;
  always_ff @(posedge clk_i) begin
    stalled     <= rst_n && out_valid && !out_ready_i;
    stalled_out <= out;
  end

  always_comb begin
    if (rst_n) begin
      assert (level == put - taken);
      assert (level <= Depth);
      assert (in_ready == (level < Depth));
      if (out_valid) assert (out == taken);
      if (stalled) assert (out_valid && out == stalled_out);
      // Invariant on the contents, for the induction.
      for (int unsigned i = 0; i < Depth; i++) begin
        if (i < level) assert (dut.memory[3'(dut.head_q+i)] == number_t'(taken + i));
      end
      cover (level == Depth);
      cover (taken == number_t'(Depth + 1));
    end
  end

endmodule
