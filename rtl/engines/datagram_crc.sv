// The register of the CRC-32 over a Weft datagram, at one beat of its frame every cycle.
//
// Beats are those of the frame: the datagram begins at byte 42 of the first. Bytes that the CRC does not cover are
// zero: Ethernet's, IPv4's and UDP's headers in front, the CRC itself and what follows behind. The register is valid
// for the two bytes that are always too many in a last beat less: a CRC ends 2 bytes behind a multiple of 8, and so
// begins 6 behind one. Those who use it correct the 0 to 7 times 8 bytes behind that (crc_scale).
//
// Latency: 1 cycle. Throughput: a beat every cycle, datagrams back to back, gaps anywhere. Stalls: never.
//
// How: as icrc does it. A beat's share is one XOR network for all fills, behind the foldings of crc_pkg. The start
// value of ones is a share of its own, which the first beat adds.
//
// Source: IEEE 802.3, 3.2.9, for the start value and the complement.
module datagram_crc
  import weft_pkg::*;
  import crc_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_ni,
  input  logic                valid_i,
  input  logic                first_i,
  input  logic [BeatBits-1:0] data_i,
  // Behind the last beat that was given, one cycle later.
  output crc_t                register_o
);

  localparam int unsigned DatagramAt = 42;
  localparam int unsigned TooManyBits = 16;

  folded_t folded;
  assign folded = fold(data_i);

  logic share_valid_q;
  logic share_first_q;
  crc_t share_q;
  crc_t register_q;

  for (genvar i = 0; i < 32; i++) begin : gen_bit
    localparam logic [BeatBits-1:0] Mask = beat_mask(5'(i), TooManyBits);
    // A register counts as the first four bytes of the beat behind it, and the start value as those of the datagram.
    localparam logic [BeatBits-1:0] MaskBehind = beat_mask(5'(i), 0);
    localparam logic Start = ^Mask[8*DatagramAt+:32];
    always_ff @(posedge clk_i) begin
      if (valid_i) share_q[i] <= ^(folded & Mask[BeatBits-1-:FoldedBits]);
    end
    // The register is kept divided by a power of x, which the step from beat to beat does not change.
    assign register_o[i] = share_valid_q
        ? share_q[i] ^ (share_first_q ? Start : ^(register_q & MaskBehind[31:0])) : register_q[i];
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) share_first_q <= first_i;
    if (share_valid_q) register_q <= register_o;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) share_valid_q <= 1'b0;
    else share_valid_q <= valid_i;
  end

endmodule
