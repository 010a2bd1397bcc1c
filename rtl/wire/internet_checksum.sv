// Verifies Internet checksums (RFC 1071) in frames, at one beat every cycle.
//
// The sum covers the bytes that `mask_i` selects, which are whole 16-bit words at even offsets of a frame, and
// `seed_i`, which is given with the first beat. The seed holds terms that are not in the frame, or not as often as
// they count, such as parts of a pseudo header. Words are summed as they are in a beat, low byte first. This gives
// the byte-swapped sum (RFC 1071, 2(B)), and the verdict is the same.
//
// Latency: `good_o` is valid 3 cycles after the cycle of the last beat. Throughput: a beat every cycle, frames back to
// back, gaps anywhere. Stalls: never.
module internet_checksum
  import weft_pkg::*;
#(
  // Read-only: for blocks that wait for a result.
  parameter int unsigned Latency = 3
) (
  input  logic                 clk_i,
  input  logic                 valid_i,
  input  logic                 first_i,
  input  logic [ BeatBits-1:0] data_i,
  input  logic [BeatBytes-1:0] mask_i,
  input  logic [         16:0] seed_i,
  output logic                 good_o
);

  localparam int unsigned Groups = 8;
  localparam int unsigned GroupWords = BeatBytes / 2 / Groups;

  logic [15:0] words[BeatBytes / 2];
  for (genvar word = 0; word < BeatBytes / 2; word++) begin : gen_words
    assign words[word] = data_i[16*word+:16] & {{8{mask_i[2*word+1]}}, {8{mask_i[2*word]}}};
  end

  // Cycle 1: adds words in groups.

  logic        valid_q;
  logic        first_q;
  logic [16:0] seed_q;
  logic [17:0] groups_q[Groups];

  always_ff @(posedge clk_i) begin
    valid_q <= valid_i;
    if (valid_i) begin
      first_q <= first_i;
      seed_q  <= seed_i;
      for (int unsigned group = 0; group < Groups; group++) begin
        groups_q[group] <= (18'(words[GroupWords*group]) + 18'(words[GroupWords*group+1]))
                           + (18'(words[GroupWords*group+2]) + 18'(words[GroupWords*group+3]));
      end
    end
  end

  // Cycle 2: adds the groups to the frame's sum. The sum's upper part, the carries, is folded in with the next beat.

  logic [21:0] sum_q;
  logic [21:0] carried;
  logic [21:0] beat_sum;
  assign carried = first_q ? 22'(seed_q) : 22'(sum_q[15:0]) + 22'(sum_q[21:16]);
  always_comb begin
    beat_sum = carried;
    for (int unsigned group = 0; group < Groups; group++) beat_sum += 22'(groups_q[group]);
  end
  always_ff @(posedge clk_i) begin
    if (valid_q) sum_q <= beat_sum;
  end

  // Cycle 3: folds the sum. The checksum is right if the sum is all ones. One more carry cannot produce all ones, so
  // it is ignored.

  logic [16:0] folded_q;
  always_ff @(posedge clk_i) folded_q <= 17'(sum_q[15:0]) + 17'(sum_q[21:16]);
  assign good_o = folded_q == 17'h0_ffff;

  always_ff @(posedge clk_i) begin
    assert (Latency == 3)
    else $error("the latency is fixed");
  end

endmodule
