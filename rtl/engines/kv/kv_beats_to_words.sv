// Splits a payload into 64-bit words, with the first byte in the top bits.
//
// A payload starts at byte 0 of a beat, has at least one byte, and ends with a beat that is marked `last`; all other
// beats are full. Excess bytes of the last word are those of the beat.
//
// Latency: 0 cycles, combinational from beat to word. Throughput: one word every cycle, a beat every 8. Order: kept.
// Stalls: a beat, until its last word is accepted.
module kv_beats_to_words
  import weft_pkg::*;
(
  input  logic         clk_i,
  input  logic         rst_ni,
  input  logic         beat_valid_i,
  output logic         beat_ready_o,
  input  beat_t        beat_i,
  output logic         word_valid_o,
  input  logic         word_ready_i,
  output logic  [63:0] word_o,
  // The word is the last of the payload.
  output logic         word_last_o,
  // The word is incomplete.
  output logic         word_partial_o
);

  logic [2:0] lane_q;
  logic [5:0] bytes;  // bytes of the beat, less one
  assign bytes = 6'(BeatBytes - 1) - beat_i.empty;

  logic end_of_beat;
  logic [63:0] word;
  assign word = beat_i.data[{lane_q, 6'd0}+:64];
  assign end_of_beat = lane_q == bytes[5:3];
  assign word_valid_o = beat_valid_i;
  assign beat_ready_o = word_ready_i && end_of_beat;
  assign word_last_o = beat_i.last && end_of_beat;
  assign word_partial_o = end_of_beat && bytes[2:0] != '1;

  for (genvar i = 0; i < 8; i++) begin : gen_bytes
    assign word_o[63-8*i-:8] = word[8*i+:8];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) lane_q <= '0;
    else if (word_valid_o && word_ready_i) lane_q <= end_of_beat ? '0 : lane_q + 1'b1;
  end

endmodule
