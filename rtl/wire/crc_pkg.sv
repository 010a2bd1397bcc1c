// The arithmetic of the CRC-32 of Ethernet, which InfiniBand's invariant CRC and Weft's datagrams use as well.
//
// A register holds the coefficient of x^31 in bit 0, since bits arrive in that order on the wire. A CRC is linear:
// each of the register's 32 bits after a beat is an XOR of some bits of the beat and of the register; the same holds
// for a register followed by zeros. The functions below compute the masks of these bits at elaboration.
//
// Source: IEEE 802.3, 3.2.9, for the polynomial.
package crc_pkg;

  import weft_pkg::*;

  typedef logic [31:0] crc_t;

  localparam crc_t Polynomial = 32'hedb8_8320;
  // Content of a register that started with all ones, after any message and the complement of its CRC.
  localparam crc_t Residue = 32'hdebb_20e3;

  // Multiplies by x^bits.
  function automatic crc_t later(crc_t register, int unsigned bits);
    crc_t result = register;
    for (int unsigned i = 0; i < bits; i++) begin
      result = result[0] ? (result >> 1) ^ Polynomial : result >> 1;
    end
    return result;
  endfunction

  // Divides by x^bits.
  function automatic crc_t earlier(crc_t register, int unsigned bits);
    crc_t result = register;
    for (int unsigned i = 0; i < bits; i++) begin
      result = result[31] ? ((result ^ Polynomial) << 1) | 32'd1 : result << 1;
    end
    return result;
  endfunction

  // Mask of the beat's bits that determine bit `place` of the register after the beat, with `too_many` zero bits
  // taken back. The previous register is treated as the first four bytes of the next beat.
  function automatic logic [BeatBits-1:0] beat_mask(logic [4:0] place, int unsigned too_many);
    logic [BeatBits-1:0] mask = '0;
    crc_t column = earlier(32'd1, too_many);
    for (int unsigned i = 0; i < BeatBits; i++) begin
      column = later(column, 1);
      mask[BeatBits-1-i] = column[place];
    end
    return mask;
  endfunction

  // Mask of the register's bits that determine bit `place` after a multiplication by x^bits, or a division by it.
  function automatic crc_t scale_mask(logic [4:0] place, int unsigned bits, bit divide);
    crc_t mask = '0;
    for (int unsigned i = 0; i < 32; i++) begin
      crc_t column;
      column  = divide ? earlier(32'd1 << i, bits) : later(32'd1 << i, bits);
      mask[i] = column[place];
    end
    return mask;
  endfunction

  // Folds a beat. If the polynomial divides x^D plus a sum of lower powers, x^D may be replaced by that sum. A search
  // found such sums with few terms. With them, one or two LUTs for each remaining bit remove most of the beat. High
  // powers are in the low bits.
  localparam int unsigned FoldedBits = 224;
  typedef logic [FoldedBits-1:0] folded_t;

  function automatic folded_t fold(logic [BeatBits-1:0] beat);
    logic [319:0] once;
    // x^318 = x^121 + x^91 + x^71 + x^12 + x^10 + 1
    once = beat[511:192]
        ^ (320'(beat[191:0]) << (318 - 0 - 192)) ^ (320'(beat[191:0]) << (318 - 10 - 192))
        ^ (320'(beat[191:0]) << (318 - 12 - 192)) ^ (320'(beat[191:0]) << (318 - 71 - 192))
        ^ (320'(beat[191:0]) << (318 - 91 - 192)) ^ (320'(beat[191:0]) << (318 - 121 - 192));
    // x^212 = x^83 + x^74 + x^62 + x^43 + x^29 + 1
    return once[319:96]
        ^ (224'(once[95:0]) << (212 - 0 - 96)) ^ (224'(once[95:0]) << (212 - 29 - 96))
        ^ (224'(once[95:0]) << (212 - 43 - 96)) ^ (224'(once[95:0]) << (212 - 62 - 96))
        ^ (224'(once[95:0]) << (212 - 74 - 96)) ^ (224'(once[95:0]) << (212 - 83 - 96));
  endfunction

endpackage
