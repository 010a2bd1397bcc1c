// Extracts 64 bytes from two consecutive beats, starting at a word of 8 bytes, and clears the bytes behind the end.
//
// Words begin 2 bytes behind a multiple of 8, as in frames of Weft datagrams: word n is bytes 8 n + 2 to 8 n + 9.
// Purely combinational: two selections in series.
module word_realign
  import weft_pkg::*;
(
  input  logic [BeatBits-1:0] low_i,
  input  logic [BeatBits-1:0] high_i,
  input  logic [         2:0] word_i,
  // Number of bytes behind the end.
  input  logic [         5:0] empty_i,
  output logic [BeatBits-1:0] data_o
);

  // Words 0 to 14 of both beats. The last word of the second beat is incomplete and not needed.
  logic [14:0][63:0] words;
  // The words from the selected even word on.
  logic [8:0][63:0] even;
  logic [BeatBytes-1:0] keep;

  assign words = (15 * 64)'({high_i, low_i} >> 16);

  // A selection among four takes one LUT for each bit if no two bits share a part of it. Therefore the first
  // selection pairs the outer shifts and the inner shifts; see realign.
  logic outer, upper;
  assign outer = word_i[2] == word_i[1];
  assign upper = word_i[2];
  always_comb begin
    for (int unsigned i = 0; i < 9; i++) begin
      even[i] = outer ? (upper ? words[i+6] : words[i]) : (upper ? words[i+4] : words[i+2]);
    end
  end

  assign keep = '1 >> empty_i;

  always_comb begin
    for (int unsigned i = 0; i < BeatBytes; i++) begin
      data_o[8*i+:8] = keep[i] ? (word_i[0] ? even[i/8+1][8*(i%8)+:8] : even[i/8][8*(i%8)+:8]) : '0;
    end
  end

endmodule
