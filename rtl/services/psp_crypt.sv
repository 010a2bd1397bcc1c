// Encrypts or decrypts slots with AES-GCM, and computes their tags.
//
// Every slot of a sealed frame carries the nonce. With the slot that has `finish`, `ring_o` is the tag, rotated so
// that its first byte is at the slot's `place`. Slots that are not sealed pass unchanged.
//
// Latency: 19 cycles to seal, 16 to open, with keys of 256 bits; 4 less with keys of 128. Throughput: a slot every
// cycle. Order: kept. Stalls: never.
module psp_crypt
  import weft_pkg::*;
  import aes_pkg::*;
  import psp_pkg::*;
#(
  parameter bit          Open   = 1'b0,
  parameter int unsigned Rounds = 14,
  parameter int unsigned Leaf   = 8
) (
  input  logic                        clk_i,
  input  logic                        rst_ni,
  input  logic                        key_write_i,
  input  association_t                key_index_i,
  // 0 to 14: round keys of AES. 16 to 19: powers of the hash key, the first power at 16.
  input  logic         [         4:0] key_place_i,
  input  block_t                      key_i,
  input  logic                        valid_i,
  input  psp_slot_t                   slot_i,
  input  logic         [        95:0] nonce_i,
  output logic                        valid_o,
  output psp_slot_t                   slot_o,
  output logic         [BeatBits-1:0] ring_o
);

  // Latencies of the cipher and of the hash in cycles.
  localparam int unsigned CipherLatency = Rounds + 1;
  localparam int unsigned HashLatency = 3;

  // Key stream. Counter 1 encrypts the tag; its block is at the position of the PSP header, which is not encrypted.

  block_t [3:0] counters;
  block_t [3:0] stream;

  always_comb begin
    for (int unsigned i = 0; i < 4; i++) begin
      counters[i][11:0] = nonce_i;
      counters[i][12] = '0;
      counters[i][13] = '0;
      {counters[i][14], counters[i][15]} = {6'd0, slot_i.number, 2'(i)} + 16'd1;
    end
  end

  aes_pipeline #(
    .Rounds(Rounds),
    .Lanes (4),
    .Keys  (Associations)
  ) i_aes (
    .clk_i,
    .rst_ni,
    .key_write_i(key_write_i && !key_place_i[4]),
    .key_index_i,
    .key_round_i(key_place_i[3:0]),
    .key_i,
    .valid_i    (1'b1),
    .index_i    (slot_i.index),
    .blocks_i   (counters),
    /* verilator lint_off PINCONNECTEMPTY */  // slots are delayed in parallel
    .valid_o    (),
    /* verilator lint_on PINCONNECTEMPTY */
    .blocks_o   (stream)
  );

  psp_slot_t [CipherLatency:1] wait_q;
  logic [CipherLatency:1] wait_valid_q;

  always_ff @(posedge clk_i) begin
    wait_q <= {wait_q[CipherLatency-1:1], slot_i};
    if (!rst_ni) wait_valid_q <= '0;
    else wait_valid_q <= {wait_valid_q[CipherLatency-1:1], valid_i};
  end

  psp_slot_t crossed;
  psp_slot_t crossed_q;
  logic crossed_valid_q;
  block_t mask_q;

  always_comb begin
    crossed = wait_q[CipherLatency];
    for (int unsigned i = 0; i < BeatBytes; i++) begin
      if (crossed.sealed && 7'(i) < crossed.used && !(crossed.first && i < 16)) begin
        crossed.data[8*i+:8] ^= stream[i/16][i%16];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    crossed_q <= crossed;
    if (wait_valid_q[CipherLatency] && crossed.first) mask_q <= stream[0];
    crossed_valid_q <= rst_ni && wait_valid_q[CipherLatency];
  end

  // The hash covers the ciphertext: it is computed behind the cipher to seal, and in front of it to open.

  logic            hash_valid;
  /* verilator lint_off UNUSEDSIGNAL */  // some fields are unused
  psp_slot_t       hash_slot;
  /* verilator lint_on UNUSEDSIGNAL */
  logic      [2:0] blocks;
  logic      [2:0] count;
  block_t    [3:0] group;
  block_t          lengths;
  block_t          hash;
  block_t          mask;

  if (Open) begin : gen_open
    assign hash_slot = wait_q[CipherLatency+1-HashLatency];
    assign hash_valid = wait_valid_q[CipherLatency+1-HashLatency];
    assign slot_o = crossed_q;
    assign valid_o = crossed_valid_q;
    assign mask = mask_q;
  end else begin : gen_seal
    psp_slot_t [HashLatency:1] behind_q;
    logic [HashLatency:1] behind_valid_q;
    block_t [HashLatency:1] behind_mask_q;

    always_ff @(posedge clk_i) begin
      behind_q <= {behind_q[HashLatency-1:1], crossed_q};
      behind_mask_q <= {behind_mask_q[HashLatency-1:1], mask_q};
      if (!rst_ni) behind_valid_q <= '0;
      else behind_valid_q <= {behind_valid_q[HashLatency-1:1], crossed_valid_q};
    end

    assign hash_slot = crossed_q;
    assign hash_valid = crossed_valid_q;
    assign slot_o = behind_q[HashLatency];
    assign valid_o = behind_valid_q[HashLatency];
    assign mask = behind_mask_q[HashLatency];
  end

  assign blocks = 3'((hash_slot.used + 7'd15) >> 4);
  assign count  = hash_slot.finish ? blocks + 3'd1 : blocks;

  // The last block of the hash: bit lengths of the header and of the text.
  always_comb begin
    lengths = '0;
    lengths[7] = 8'h80;
    {lengths[13], lengths[14], lengths[15]} = {7'd0, hash_slot.text, 3'd0};
    for (int unsigned i = 0; i < 4; i++) begin
      for (int unsigned j = 0; j < 16; j++) begin
        group[i][j] = 7'(16 * i + j) < hash_slot.used ? hash_slot.data[8*(16*i+j)+:8] : '0;
      end
      if (hash_slot.finish && 3'(i) == blocks) group[i] = lengths;
    end
  end

  ghash #(
    .Keys(Associations),
    .Leaf(Leaf)
  ) i_hash (
    .clk_i,
    .rst_ni,
    .key_write_i(key_write_i && key_place_i[4]),
    .key_index_i,
    .key_power_i(key_place_i[1:0]),
    .key_i,
    .valid_i    (hash_valid && hash_slot.sealed && count != '0),
    .index_i    (hash_slot.index),
    .first_i    (hash_slot.first),
    .last_i     (hash_slot.finish),
    .count_i    (count),
    .blocks_i   (group),
    /* verilator lint_off PINCONNECTEMPTY */  // arrives together with its slot
    .valid_o    (),
    /* verilator lint_on PINCONNECTEMPTY */
    .hash_o     (hash)
  );

  // The tag at its position, in a ring of 64 bytes.
  always_comb begin
    ring_o = BeatBits'(hash ^ mask);
    for (int unsigned step = 0; step < 6; step++) begin
      if (slot_o.place[step]) ring_o = (ring_o << (8 << step)) | (ring_o >> (BeatBits - (8 << step)));
    end
  end

endmodule
