// The register of the CRC-32 over a Weft datagram, at one beat of its frame every cycle.
//
// Beats are those of the frame: the datagram begins at byte 42 of the first. Bytes that the CRC does not cover are zero:
// Ethernet's, IPv4's and UDP's headers in front, the CRC itself and what follows behind. The register is valid for the two bytes
// that are always too many in a last beat less: a CRC ends 2 bytes behind a multiple of 8, and so begins 6 behind one. Those
// who use it correct the 0 to 7 times 8 bytes behind that (crc_scale).
//
// Latency: 1 cycle to `next_o`, 2 to `register_o`. Throughput: a beat every cycle, datagrams back to back, gaps anywhere. Stalls:
// never.
//
// How: as icrc does it. A beat's share is one XOR network for all fills; two foldings with multiples of the polynomial that have few
// terms take most of the beat away before it. The start value of ones is a share of its own, which the first beat adds.
//
// Source: IEEE 802.3, 3.2.9, for the polynomial, its start value and its complement.
module datagram_crc
  import weft_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic                valid_i,
  input  logic                first_i,
  input  logic [BeatBits-1:0] data_i,
  // Behind the last beat that was given, seen one cycle and two cycles later. The coefficient of x^31 is in bit 0.
  output logic [        31:0] next_o,
  output logic [        31:0] register_o
);

  localparam logic [31:0] Polynomial = 32'hedb8_8320;
  localparam int unsigned DatagramAt = 42;
  localparam int unsigned TooManyBits = 16;

  // Multiplies by x^bits.
  function automatic logic [31:0] later(logic [31:0] register, int unsigned bits);
    logic [31:0] result = register;
    for (int unsigned i = 0; i < bits; i++) begin
      result = result[0] ? (result >> 1) ^ Polynomial : result >> 1;
    end
    return result;
  endfunction

  // Divides by x^bits.
  function automatic logic [31:0] earlier(logic [31:0] register, int unsigned bits);
    logic [31:0] result = register;
    for (int unsigned i = 0; i < bits; i++) begin
      result = result[31] ? ((result ^ Polynomial) << 1) | 32'd1 : result << 1;
    end
    return result;
  endfunction

  // The bits of a beat that bit `place` of the register depends on, behind the beat and `too_many` zero bits less.
  function automatic logic [BeatBits-1:0] beat_mask(logic [4:0] place, int unsigned too_many);
    logic [BeatBits-1:0] mask = '0;
    logic [31:0] column = earlier(32'd1, too_many);
    for (int unsigned i = 0; i < BeatBits; i++) begin
      column = later(column, 1);
      mask[BeatBits-1-i] = column[place];
    end
    return mask;
  endfunction

  // Folded: high powers of x come first, in the low bits, and are replaced by sums of lower ones; see icrc.
  // 512 bits to 320 with x^318 = x^121 + x^91 + x^71 + x^12 + x^10 + 1, then to 224 with
  // x^212 = x^83 + x^74 + x^62 + x^43 + x^29 + 1.
  logic [319:0] folded_once;
  logic [223:0] folded;

  assign folded_once = data_i[511:192]
      ^ (320'(data_i[191:0]) << (318 - 0 - 192)) ^ (320'(data_i[191:0]) << (318 - 10 - 192))
      ^ (320'(data_i[191:0]) << (318 - 12 - 192)) ^ (320'(data_i[191:0]) << (318 - 71 - 192))
      ^ (320'(data_i[191:0]) << (318 - 91 - 192)) ^ (320'(data_i[191:0]) << (318 - 121 - 192));
  assign folded = folded_once[319:96]
      ^ (224'(folded_once[95:0]) << (212 - 0 - 96)) ^ (224'(folded_once[95:0]) << (212 - 29 - 96))
      ^ (224'(folded_once[95:0]) << (212 - 43 - 96)) ^ (224'(folded_once[95:0]) << (212 - 62 - 96))
      ^ (224'(folded_once[95:0]) << (212 - 74 - 96)) ^ (224'(folded_once[95:0]) << (212 - 83 - 96));

  logic        share_valid_q;
  logic        share_first_q;
  logic [31:0] share_q;
  logic [31:0] register_q;

  for (genvar i = 0; i < 32; i++) begin : gen_bit
    localparam logic [BeatBits-1:0] Mask = beat_mask(5'(i), TooManyBits);
    // A register counts as the first four bytes of the beat behind it, and the start value as those of the datagram.
    localparam logic [BeatBits-1:0] MaskBehind = beat_mask(5'(i), 0);
    localparam logic Start = ^Mask[8*DatagramAt+:32];
    always_ff @(posedge clk_i) begin
      if (valid_i) share_q[i] <= ^(folded & Mask[BeatBits-1-:224]);
    end
    // What is held is divided by a power of x, which the way from beat to beat does not change.
    assign next_o[i] = share_valid_q
        ? share_q[i] ^ (share_first_q ? Start : ^(register_q & MaskBehind[31:0])) : register_q[i];
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) share_first_q <= first_i;
    if (share_valid_q) register_q <= next_o;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) share_valid_q <= 1'b0;
    else share_valid_q <= valid_i;
  end

  assign register_o = register_q;

endmodule
