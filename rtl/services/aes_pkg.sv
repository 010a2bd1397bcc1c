// The arithmetic of AES (FIPS 197). A block is 16 bytes, byte 0 in bits 7:0.
package aes_pkg;

  typedef logic [15:0][7:0] block_t;
  typedef logic [255:0][7:0] table_t;

  function automatic logic [7:0] doubled(logic [7:0] value);
    return {value[6:0], 1'b0} ^ (value[7] ? 8'h1b : 8'h00);
  endfunction

  // The S-box: the inverse, then an affine map. 3 generates the multiplicative group and 0xf6 is its inverse, so the
  // powers of both run through all values and their inverses.
  function automatic table_t substitutions();
    table_t       result;
    logic   [7:0] value = 8'h01;
    logic   [7:0] inverse = 8'h01;
    result[0] = 8'h63;
    for (int unsigned i = 0; i < 255; i++) begin
      result[value] = inverse ^ {inverse[6:0], inverse[7]} ^ {inverse[5:0], inverse[7:6]}
          ^ {inverse[4:0], inverse[7:5]} ^ {inverse[3:0], inverse[7:4]} ^ 8'h63;
      value = value ^ doubled(value);
      // Division by 3 is multiplication by 0xf6, that is, by x^7 + x^6 + x^5 + x^4 + x^2 + x.
      inverse = inverse ^ {inverse[6:0], 1'b0};
      inverse = inverse ^ {inverse[5:0], 2'b0};
      inverse = inverse ^ {inverse[3:0], 4'b0};
      if (inverse[7]) inverse = inverse ^ 8'h09;
    end
    return result;
  endfunction

  localparam table_t Substitutions = substitutions();

  // A round: SubBytes, ShiftRows, MixColumns (not in the last round), AddRoundKey.
  function automatic block_t round(block_t state, block_t key, bit last);
    block_t shifted;
    block_t mixed;
    for (int unsigned i = 0; i < 16; i++) shifted[i] = Substitutions[state[(5*i)%16]];
    for (int unsigned i = 0; i < 16; i++) begin
      mixed[i] = doubled(shifted[i] ^ shifted[(i&12)|((i+1)&3)]) ^ shifted[(i&12)|((i+1)&3)] ^
          shifted[(i&12)|((i+2)&3)] ^ shifted[(i&12)|((i+3)&3)];
    end
    return (last ? shifted : mixed) ^ key;
  endfunction

endpackage
