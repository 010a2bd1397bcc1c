// Broadcasts each element to all `N` outputs, which may accept it in different cycles.
//
// Latency: none; `in_ready_o` depends on `out_ready_i`. Throughput: one element every cycle in which all outputs are
// ready. Order: kept at each output. Stalls: its input until the last output has taken the element.
module broadcast #(
  parameter int unsigned N = 2
) (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         in_valid_i,
  output logic         in_ready_o,
  // Only the handshake passes through this block; the element itself is wired past it.
  output logic [N-1:0] out_valid_o,
  input  logic [N-1:0] out_ready_i
);

  // Outputs that have accepted the current element while others have not.
  logic [N-1:0] served_q;

  assign out_valid_o = in_valid_i ? ~served_q : '0;
  assign in_ready_o  = &(served_q | out_ready_i);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) served_q <= '0;
    else if (in_valid_i) served_q <= in_ready_o ? '0 : served_q | out_ready_i;
  end

endmodule
