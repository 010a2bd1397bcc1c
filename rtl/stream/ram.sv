// A memory with one write port and one read port, which becomes block RAM or UltraRAM.
//
// Latency of a read: 1 cycle. A read of the word that is written in the same cycle returns the old word. The contents
// at power-on are undefined.
module ram #(
  parameter type         T     = logic   [7:0],
  parameter int unsigned Depth = 512,
  // "block" or "ultra".
  parameter              Style = "block"
) (
  input  logic                     clk_i,
  input  logic                     write_i,
  input  logic [$clog2(Depth)-1:0] write_address_i,
  input  T                         write_data_i,
  input  logic                     read_i,
  input  logic [$clog2(Depth)-1:0] read_address_i,
  // Holds its value until the next read.
  output T                         read_data_o
);

  (* ram_style = Style *)
  T memory[Depth];

  always_ff @(posedge clk_i) begin
    if (write_i) memory[write_address_i] <= write_data_i;
    if (read_i) read_data_o <= memory[read_address_i];
  end

endmodule
