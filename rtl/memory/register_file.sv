// 512 bytes of registers that engines see as wires, without a read.
//
// Latency: a write is visible in the next cycle. Throughput: one write every cycle. Never stalls. The contents at
// power-on are those of the flip-flops; a reset keeps them, as it keeps all memory.
module register_file
  import weft_pkg::*;
(
  input  logic                               clk_i,
  input  logic                               write_i,
  input  logic [          2:0]               write_row_i,
  input  logic [BeatBytes-1:0]               write_strobe_i,
  input  logic [ BeatBits-1:0]               write_data_i,
  // Row n holds bytes 64n to 64n + 63.
  output logic [          7:0][BeatBits-1:0] registers_o
);

  for (genvar row = 0; row < 8; row++) begin : gen_rows
    logic [BeatBits-1:0] row_q;
    assign registers_o[row] = row_q;
    always_ff @(posedge clk_i) begin
      if (write_i && write_row_i == row) begin
        for (int unsigned i = 0; i < BeatBytes; i++) begin
          if (write_strobe_i[i]) row_q[8*i+:8] <= write_data_i[8*i+:8];
        end
      end
    end
  end

endmodule
