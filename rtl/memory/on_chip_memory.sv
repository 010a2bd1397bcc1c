// Memory on the chip, in rows of 64 bytes, with one write port and one read port.
//
// Latency: a read returns its row after 2 cycles; a read requested in the cycle after a write sees that write.
// Throughput: one write and one read every cycle. Never stalls. The contents at power-on are undefined.
module on_chip_memory
  import weft_pkg::*;
#(
  parameter int unsigned Bytes = 262_144,  // a power of two
  // "block" or "ultra".
  parameter              Style = "ultra"
) (
  input  logic                               clk_i,
  input  logic                               write_i,
  input  logic [$clog2(Bytes/BeatBytes)-1:0] write_row_i,
  input  logic [              BeatBytes-1:0] write_strobe_i,
  input  logic [               BeatBits-1:0] write_data_i,
  input  logic                               read_i,
  input  logic [$clog2(Bytes/BeatBytes)-1:0] read_row_i,
  output logic [               BeatBits-1:0] read_data_o
);

  (* ram_style = Style *)
  logic [BeatBits-1:0] memory [Bytes/BeatBytes];
  // UltraRAM reaches its full clock rate only with its output register.
  logic [BeatBits-1:0] row_q;
  logic                read_q;

  always_ff @(posedge clk_i) begin
    if (write_i) begin
      for (int unsigned i = 0; i < BeatBytes; i++) begin
        if (write_strobe_i[i]) memory[write_row_i][8*i+:8] <= write_data_i[8*i+:8];
      end
    end
    if (read_i) row_q <= memory[read_row_i];
    read_q <= read_i;
    if (read_q) read_data_o <= row_q;
  end

endmodule
