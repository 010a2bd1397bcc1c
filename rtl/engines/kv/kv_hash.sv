// Computes the position of a key in the table (bucket, way and tag) from its hash.
//
// The hash starts at zero; each 64-bit word of the key is XORed into it and mixed:
// crates/engines/kv/src/placement.rs.
//
// Latency: 2 cycles for each 64-bit word of the key. Throughput: a key every cycle. Order: kept. Never stalls.
module kv_hash
  import weft_pkg::*;
  import kv_pkg::*;
(
  input  logic    clk_i,
  input  logic    rst_ni,
  // Number of buckets, less one; the number is a power of two.
  input  bucket_t bucket_mask_i,
  input  logic    key_valid_i,
  input  key_t    key_i,
  output logic    place_valid_o,
  // Stable until the next result.
  output place_t  place_o
);

  localparam int unsigned Words = KeyBits / 64;

  // Pipeline stages, one before each word and one behind the last: the hash so far, and the remaining words, the next
  // one on top.
  logic [64*(Words+1)-1:0] hash;
  logic [         Words:0] valid;
  key_t [         Words:0] key;

  assign hash[63:0] = '0;
  assign valid[0] = key_valid_i;
  assign key[0] = key_i;

  for (genvar word = 0; word < Words; word++) begin : g_word
    logic        half_valid_q;
    logic        valid_q;
    logic [63:0] half_q;
    logic [63:0] hash_q;
    key_t        half_key_q;
    key_t        key_q;

    always_ff @(posedge clk_i) begin
      if (valid[word]) begin
        half_q     <= kv_mix_half(hash[64*word+:64] ^ key[word][KeyBits-1-:64], 1'b0);
        half_key_q <= key_t'({key[word], 64'd0});
      end
      if (half_valid_q) begin
        hash_q <= kv_mix_half(half_q, 1'b1);
        key_q  <= half_key_q;
      end
    end

    always_ff @(posedge clk_i) begin
      if (!rst_ni) begin
        half_valid_q <= 1'b0;
        valid_q      <= 1'b0;
      end else begin
        half_valid_q <= valid[word];
        valid_q      <= half_valid_q;
      end
    end

    assign hash[64*(word+1)+:64] = hash_q;
    assign valid[word+1] = valid_q;
    assign key[word+1] = key_q;
  end

  assign place_valid_o = valid[Words];

  logic [63:0] whole;
  assign whole = hash[64*Words+:64];
  assign place_o = '{
          bucket: whole[$bits(bucket_t)-1:0] & bucket_mask_i,
          way: whole[36:32],
          tag: whole[63:53] == '0 ? tag_t'(1) : whole[63:53]
      };

  // The words that remain at the end of the pipeline.
  wire unused_key = ^key[Words];

endmodule
