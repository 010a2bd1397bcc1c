// Multiplies a CRC register by x^(Bits * scale), which appends that many zero bits, or divides by it, which removes
// them. Purely combinational: one XOR for each scale and a selection between them, so two bits of scale take no more
// logic levels than one.
module crc_scale
  import crc_pkg::*;
#(
  parameter int unsigned Bits      = 64,
  parameter bit          Divide    = 1'b0,
  parameter int unsigned ScaleBits = 1
) (
  input  logic [ScaleBits-1:0] scale_i,
  input  crc_t                 register_i,
  output crc_t                 register_o
);

  for (genvar i = 0; i < 32; i++) begin : gen_bit
    logic [2**ScaleBits-1:0] scaled;
    for (genvar scale = 0; scale < 2 ** ScaleBits; scale++) begin : gen_scale
      localparam crc_t Mask = scale_mask(5'(i), Bits * scale, Divide);
      assign scaled[scale] = ^(register_i & Mask);
    end
    assign register_o[i] = scaled[scale_i];
  end

endmodule
