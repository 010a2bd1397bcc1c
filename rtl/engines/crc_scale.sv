// Multiplies the register of a CRC-32 by x^(64 n) or divides it: so many bytes of zeros, 8 n, behind what it covers, or taken
// back. Purely combinational; the coefficient of x^31 is in bit 0.
module crc_scale #(
  parameter bit Divide = 1'b0
) (
  input  logic [ 2:0] steps_i,
  input  logic [31:0] register_i,
  output logic [31:0] register_o
);

  localparam logic [31:0] Polynomial = 32'hedb8_8320;

  // The bits of a register that bit `place` of the result depends on.
  function automatic logic [31:0] mask_of(logic [4:0] place, int unsigned bits);
    logic [31:0] mask = '0;
    for (int unsigned i = 0; i < 32; i++) begin
      logic [31:0] column;
      column = 32'd1 << i;
      for (int unsigned bit_index = 0; bit_index < bits; bit_index++) begin
        if (Divide) column = column[31] ? ((column ^ Polynomial) << 1) | 32'd1 : column << 1;
        else column = column[0] ? (column >> 1) ^ Polynomial : column >> 1;
      end
      mask[i] = column[place];
    end
    return mask;
  endfunction

  logic [31:0] once, twice;
  for (genvar i = 0; i < 32; i++) begin : gen_bit
    localparam logic [31:0] Mask = mask_of(5'(i), 64);
    localparam logic [31:0] MaskTwo = mask_of(5'(i), 128);
    localparam logic [31:0] MaskFour = mask_of(5'(i), 256);
    assign once[i] = steps_i[0] ? ^(register_i & Mask) : register_i[i];
    assign twice[i] = steps_i[1] ? ^(once & MaskTwo) : once[i];
    assign register_o[i] = steps_i[2] ? ^(twice & MaskFour) : twice[i];
  end

endmodule
