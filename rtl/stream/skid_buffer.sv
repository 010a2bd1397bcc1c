// Cuts all combinational paths between the two sides of a stream.
//
// Latency: 1 cycle. Throughput: one element every cycle. Order: kept. Stalls: its input while it holds two elements.
module skid_buffer #(
  parameter type T = logic [7:0]
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic in_valid_i,
  output logic in_ready_o,
  input  T     in_i,
  output logic out_valid_o,
  input  logic out_ready_i,
  output T     out_o
);

  logic out_valid_q;
  T     out_q;
  // Holds what came in the cycle in which the output stalled.
  logic spare_valid_q;
  T     spare_q;

  assign in_ready_o = !spare_valid_q;
  assign out_valid_o = out_valid_q;
  assign out_o = out_q;

  always_ff @(posedge clk_i) begin
    if (!out_valid_q || out_ready_i) begin
      out_q <= spare_valid_q ? spare_q : in_i;
    end
    if (!spare_valid_q) spare_q <= in_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      out_valid_q   <= 1'b0;
      spare_valid_q <= 1'b0;
    end else if (!out_valid_q || out_ready_i) begin
      out_valid_q   <= spare_valid_q || in_valid_i;
      spare_valid_q <= 1'b0;
    end else if (in_valid_i && !spare_valid_q) begin
      spare_valid_q <= 1'b1;
    end
  end

endmodule
