// The invariant CRC of RoCE v2 frames, at one beat every cycle (RoCE v2 annex, A17.3.3; InfiniBand volume 1, 7.8.1).
//
// The input is frames from their first Ethernet byte: no VLAN tag, an IPv4 header without options, UDP, BTH. The
// frame must end with the IPv4 packet: the source derives `empty` from the IPv4 length, so that Ethernet's padding is
// excluded. The last four bytes are the ICRC field:
//
//   Trailer = 0 (transmit): the field is zero, to be filled in. `crc_o` is the ICRC (its low byte goes first on the
//     wire), with `crc_valid_o` `Latency` cycles after the cycle of the last beat. `checked_*` are zero.
//   Trailer = 1 (receive): the field is the received ICRC. `checked_good_o` says whether it is right, with
//     `checked_valid_o` `Latency` cycles after the cycle of the last beat. It is false for a frame whose length is
//     not 14 + 4 n bytes, which no RoCE packet has. `crc_*` are zero.
//
// Latency: 3 cycles, for transmit 4: there the logic in front of this block shares the path, so a register cuts it.
// Throughput: a beat every cycle, frames back to back, gaps anywhere. Order: kept. Stalls: never.
//
// Method: a CRC is linear, so the contribution of a beat is one XOR over its 512 bits for each of the 32 bits of the
// register, however many bytes of the beat are used. A register of 32 bits passes from beat to beat.
// - Eight bytes of ones precede the covered bytes. With the CRC's start value, also ones, they give the same register
//   as ten zero bytes and four bytes of ones with a start value of zero. These 14 bytes replace Ethernet's header, so
//   no byte has to be moved.
// - Bytes behind the end count as zeros, and each multiplies the register by x^8. RoCE frames end 2 bytes behind a
//   multiple of 4, so the last beat has one of 16 fill levels. For transmit, a multiplication by a power of x^-32 and
//   one by a power of x^-128, each up to the third, remove the zeros. The 6 bytes that are always in excess (the ICRC
//   field and the last two bytes of a full beat) are folded into the constants. For receive, no correction is needed:
//   the register is compared with the residue of a good frame, multiplied by the power of x^8 that belongs to the
//   fill level.
// BALBOA (section 4.5) has parallel pipelines for full beats, for beats of 320 bits and for 32 bits at a time. Here
// one network serves every fill level, with the same latency.
module icrc
  import weft_pkg::*;
  import crc_pkg::*;
#(
  parameter bit          Trailer  = 1'b0,
  // Bytes behind the end of a last beat are zero on arrival; otherwise this block masks them.
  parameter bit          ZeroTail = 1'b0,
  // Read-only: for blocks that wait for a result.
  /* verilator lint_off UNUSEDPARAM */
  parameter int unsigned Latency  = Trailer ? 3 : 4
  /* verilator lint_on UNUSEDPARAM */
) (
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         valid_i,
  input  beat_t        beat_i,
  output logic         crc_valid_o,
  output logic  [31:0] crc_o,
  output logic         checked_valid_o,
  output logic         checked_good_o
);

  // Content of the register after a good frame, for each fill level of its last beat.
  function automatic logic [15:0][31:0] residues();
    logic [15:0][31:0] result;
    for (int unsigned i = 0; i < 16; i++) result[i] = later(Residue, 8 * (4 * i + 2));
    return result;
  endfunction

  // Header bytes that the ICRC excludes are set to ones, bytes outside the frame to zeros.

  logic                 first_q;
  logic [BeatBytes-1:0] keep;
  logic [ BeatBits-1:0] covered;

  assign keep = 64'hffff_ffff_ffff_ffff >> beat_i.empty;

  always_comb begin
    covered = beat_i.data;
    if (first_q) begin
      covered[8*14-1:0] = {32'hffff_ffff, 80'd0};
      covered[8*15+:8]  = 8'hff;  // type of service
      covered[8*22+:8]  = 8'hff;  // time to live
      covered[8*24+:16] = 16'hffff;  // IPv4 checksum
      covered[8*40+:16] = 16'hffff;  // UDP checksum
      covered[8*46+:8]  = 8'hff;  // BTH: the congestion bits and six reserved ones
    end
    if (!ZeroTail && beat_i.last) begin
      for (int unsigned i = 0; i < BeatBytes; i += 4) begin
        covered[8*i+:32] &= {{8{keep[i+3]}}, {8{keep[i+2]}}, {8{keep[i+1]}}, {8{keep[i]}}};
      end
    end
  end

  folded_t       folded;
  logic          folded_valid;
  logic          folded_first;
  logic          folded_last;
  logic    [5:0] folded_empty;

  if (Trailer) begin : gen_through
    assign folded = fold(covered);
    assign folded_valid = valid_i;
    assign folded_first = first_q;
    assign folded_last = beat_i.last;
    assign folded_empty = beat_i.empty;
  end else begin : gen_register
    folded_t       data_q;
    logic          valid_q;
    logic          first_of_frame_q;
    logic          last_q;
    logic    [5:0] empty_q;

    always_ff @(posedge clk_i) begin
      if (valid_i) begin
        data_q <= fold(covered);
        first_of_frame_q <= first_q;
        last_q <= beat_i.last;
        empty_q <= beat_i.empty;
      end
    end

    always_ff @(posedge clk_i) begin
      if (!rst_ni) valid_q <= 1'b0;
      else valid_q <= valid_i;
    end

    assign folded = data_q;
    assign folded_valid = valid_q;
    assign folded_first = first_of_frame_q;
    assign folded_last = last_q;
    assign folded_empty = empty_q;
  end

  // The contribution of the beat.

  logic        share_valid_q;
  logic        share_first_q;
  logic        share_last_q;
  logic [ 5:0] share_empty_q;
  logic [31:0] share_q;

  for (genvar i = 0; i < 32; i++) begin : gen_share
    localparam logic [BeatBits-1:0] Mask = beat_mask(5'(i), Trailer ? 0 : 48);
    always_ff @(posedge clk_i) begin
      if (folded_valid) share_q[i] <= ^(folded & Mask[BeatBits-1-:FoldedBits]);
    end
  end

  always_ff @(posedge clk_i) begin
    if (folded_valid) begin
      share_first_q <= folded_first;
      share_last_q  <= folded_last;
      share_empty_q <= folded_empty;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q       <= 1'b1;
      share_valid_q <= 1'b0;
    end else begin
      share_valid_q <= folded_valid;
      if (valid_i) first_q <= beat_i.last;
    end
  end

  // The CRC register.

  logic        state_last_q;
  /* verilator lint_off UNUSEDSIGNAL */  // for transmit, two bits have been used in an earlier stage
  logic [ 5:0] state_empty_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [31:0] state_d;
  logic [31:0] state_q;

  for (genvar i = 0; i < 32; i++) begin : gen_state
    // The previous register is treated as the first four bytes of the next beat.
    localparam logic [BeatBits-1:0] Mask = beat_mask(5'(i), 0);
    assign state_d[i] = share_q[i] ^ (!share_first_q & ^(state_q & Mask[31:0]));
  end

  always_ff @(posedge clk_i) begin
    if (share_valid_q) begin
      state_q <= state_d;
      state_empty_q <= share_empty_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) state_last_q <= 1'b0;
    else state_last_q <= share_valid_q && share_last_q;
  end

  // The result.

  if (Trailer) begin : gen_check

    localparam logic [15:0][31:0] Residues = residues();

    logic valid_q;
    logic good_q;

    always_ff @(posedge clk_i) begin
      if (state_last_q) good_q <= state_q == Residues[state_empty_q[5:2]] && state_empty_q[1:0] == 2'd2;
    end

    always_ff @(posedge clk_i) begin
      if (!rst_ni) valid_q <= 1'b0;
      else valid_q <= state_last_q;
    end

    assign checked_valid_o = valid_q;
    assign checked_good_o = good_q;
    assign crc_valid_o = 1'b0;
    assign crc_o = '0;

  end else begin : gen_crc

    // One half of the corrections is in front of the register, the other behind it.
    logic [31:0] half_d;
    logic [31:0] half_q;
    logic [31:0] whole;
    logic        valid_q;
    logic [31:0] crc_q;

    crc_scale #(
      .Bits     (32),
      .Divide   (1'b1),
      .ScaleBits(2)
    ) i_words (
      .scale_i   (share_empty_q[3:2]),
      .register_i(state_d),
      .register_o(half_d)
    );

    crc_scale #(
      .Bits     (128),
      .Divide   (1'b1),
      .ScaleBits(2)
    ) i_quarters (
      .scale_i   (state_empty_q[5:4]),
      .register_i(half_q),
      .register_o(whole)
    );

    always_ff @(posedge clk_i) begin
      if (share_valid_q && share_last_q) half_q <= half_d;
      if (state_last_q) crc_q <= ~whole;
    end

    always_ff @(posedge clk_i) begin
      if (!rst_ni) valid_q <= 1'b0;
      else valid_q <= state_last_q;
    end

    assign crc_valid_o = valid_q;
    assign crc_o = crc_q;
    assign checked_valid_o = 1'b0;
    assign checked_good_o = 1'b0;

    always_ff @(posedge clk_i) begin
      if (rst_ni && state_last_q) assert (state_empty_q[1:0] == 2'd2);
    end

  end

endmodule
