// The CRC-32 register over a Weft datagram, at one beat of its frame every cycle.
//
// Beats are those of the frame: the datagram begins at byte 42 of the first. Bytes that the CRC does not cover must
// be zero: the headers of Ethernet, IPv4 and UDP, and the CRC and everything behind it. A CRC begins 6 bytes, and
// ends 2 bytes, behind a multiple of 8. The output therefore excludes the last two bytes of a beat, and the user
// corrects it for the other 0 to 7 groups of 8 zero bytes (crc_scale).
//
// Latency: 1 cycle. Throughput: a beat every cycle, datagrams back to back, gaps anywhere. Stalls: never.
//
// Method: as in icrc. One XOR network computes a beat's contribution for all fill levels, behind the foldings of
// crc_pkg. The start value of ones is a separate contribution, added in the first beat.
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
  // The register after the last beat, one cycle after that beat.
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
    // The previous register is treated as the first four bytes of the next beat, and the start value as the first
    // four of the datagram.
    localparam logic [BeatBits-1:0] MaskBehind = beat_mask(5'(i), 0);
    localparam logic Start = ^Mask[8*DatagramAt+:32];
    always_ff @(posedge clk_i) begin
      if (valid_i) share_q[i] <= ^(folded & Mask[BeatBits-1-:FoldedBits]);
    end
    // The register is stored divided by a constant power of x. The step from beat to beat commutes with that
    // division.
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
