// The invariant CRC of RoCE v2 frames, at one beat every cycle (RoCE v2 annex, A17.3.3; InfiniBand volume 1, 7.8.1).
//
// Takes frames from their first Ethernet byte on: no VLAN tag, an IPv4 header without options, UDP, BTH. The frame must
// end where the IPv4 packet does: whoever feeds it sets `empty` from the IPv4 length, so that Ethernet's padding is not
// part of it. Its last four bytes are the place of the ICRC:
//
//   Trailer = 0 (transmit): they are zeros, to be filled in. `crc_o` is the ICRC (its low byte goes first on the wire),
//     with `crc_valid_o` `Latency` cycles after the cycle of the last beat. `checked_*` are zero.
//   Trailer = 1 (receive): they are the received ICRC. `checked_good_o` says whether it is right, with
//     `checked_valid_o` `Latency` cycles after the cycle of the last beat. False for a frame whose length is not
//     14 + 4 n bytes: no RoCE packet has one. `crc_*` are zero.
//
// Latency: 3 cycles, to transmit 4: there what makes the beats is a part of the path, and a register cuts it.
// Throughput: a beat every cycle, frames back to back, gaps anywhere. Order: kept. Stalls: never.
//
// How: a CRC is linear, so a beat's share is one XOR over its 512 bits for each of the 32 bits of the register,
// whatever the fill of the beat, and a register of 32 bits goes from beat to beat.
// - Eight bytes of ones stand in front of what is covered. With the CRC's start value, also ones, they leave what ten
//   zero bytes and four bytes of ones leave with a start value of zero: so they take the place of the 14 bytes of
//   Ethernet's header, and nothing has to be moved.
// - Bytes behind the end count as zeros, and each has multiplied the register by x^8. RoCE frames end 2 bytes behind
//   a multiple of 4, so there are 16 fills. To transmit, a multiplication by a power of x^-32 and one by a power of
//   x^-128, up to the third, take the zeros back; the 6 bytes that are always too many (the ICRC's place and the last
//   two bytes of a full beat) are part of the constants. To check, the register is compared with what the CRC leaves
//   behind its own value, multiplied by the power of x^8 that belongs to the fill: no correction at all.
// BALBOA (section 4.5) has parallel pipelines for full beats, for beats of 320 bits and for 32 bits at a time; here one
// network serves every fill, with the same latency.
module icrc
  import weft_pkg::*;
  import crc_pkg::*;
#(
  parameter bit          Trailer  = 1'b0,
  // Bytes behind the end in a last beat are zero already; otherwise they are masked here.
  parameter bit          ZeroTail = 1'b0,
  // Not to be changed: for blocks that wait for a result.
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

  // Content of the register behind a good frame, by the fill of its last beat.
  function automatic logic [15:0][31:0] residues();
    logic [15:0][31:0] result;
    for (int unsigned i = 0; i < 16; i++) result[i] = later(Residue, 8 * (4 * i + 2));
    return result;
  endfunction

  // Bytes that the CRC does not cover are set to ones, bytes that are not part of it to zeros.

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

  // The beat's share.

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

  // The register.

  logic        state_last_q;
  /* verilator lint_off UNUSEDSIGNAL */  // to transmit, two bits have been seen to before
  logic [ 5:0] state_empty_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic [31:0] state_d;
  logic [31:0] state_q;

  for (genvar i = 0; i < 32; i++) begin : gen_state
    // A register counts as the first four bytes of the beat behind it.
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

    // Half of the corrections is made on the way into the register, half behind it.
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
