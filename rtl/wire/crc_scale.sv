// Multiplies a CRC's register by x^Bits, or divides it: so many zeros behind what it covers, or taken back. Or leaves
// it as it is. Purely combinational.
module crc_scale
  import crc_pkg::*;
#(
  parameter int unsigned Bits   = 64,
  parameter bit          Divide = 1'b0
) (
  input  logic scale_i,
  input  crc_t register_i,
  output crc_t register_o
);

  for (genvar i = 0; i < 32; i++) begin : gen_bit
    localparam crc_t Mask = scale_mask(5'(i), Bits, Divide);
    assign register_o[i] = scale_i ? ^(register_i & Mask) : register_i[i];
  end

endmodule
