// Splits a transfer into AXI4 bursts. A burst must not cross a 4 KiB boundary, so a transfer has one or two.
//
// Latency: 0 cycles. Throughput: one burst every cycle. Source: AMBA AXI4 specification, A3.4.1.
module axi_bursts
  import weft_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic                command_valid_i,
  output logic                command_ready_o,
  input  logic         [41:0] command_word_i,   // address / 64
  input  logic         [ 6:0] command_beats_i,  // number of beats, less one; at most 63
  output logic                burst_valid_o,
  input  logic                burst_ready_i,
  output axi_address_t        burst_o,
  // This is the last burst of its transfer.
  output logic                burst_last_o
);

  logic       second_q;
  logic [6:0] end_word;  // one past the last word, counted from the 4 KiB page in which the transfer begins
  logic       crosses;

  assign end_word = 7'(command_word_i[5:0]) + command_beats_i;
  assign crosses = end_word[6];
  assign burst_valid_o = command_valid_i;
  assign burst_last_o = second_q || !crosses;
  assign command_ready_o = burst_ready_i && burst_last_o;

  always_comb begin
    if (second_q) begin
      burst_o.address = {command_word_i[41:6] + 36'd1, 12'd0};
      burst_o.length  = 8'(end_word[5:0]);
    end else begin
      burst_o.address = {command_word_i, 6'd0};
      burst_o.length  = crosses ? 8'(~command_word_i[5:0]) & 8'h3f : 8'(command_beats_i);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      second_q <= 1'b0;
    end else if (burst_valid_o && burst_ready_i) begin
      second_q <= !burst_last_o;
      assert (12'(burst_o.address[11:6]) + 12'(burst_o.length) < 12'd64);
    end
  end

endmodule
