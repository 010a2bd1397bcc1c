// Delays a value.
//
// Latency: `Cycles` cycles. Throughput: a value every cycle. The values of the first `Cycles` cycles are undefined.
module delay #(
  parameter type         T      = logic [7:0],
  parameter int unsigned Cycles = 1
) (
  input  logic clk_i,
  input  T     in_i,
  output T     out_o
);

  // Without a reset, so that it becomes shift registers in LUTs.
  T values_q[Cycles];

  assign out_o = values_q[Cycles-1];

  always_ff @(posedge clk_i) begin
    values_q[0] <= in_i;
    for (int unsigned i = 1; i < Cycles; i++) values_q[i] <= values_q[i-1];
  end

endmodule
