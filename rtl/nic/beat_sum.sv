// Sums the 16-bit words of selected bytes of a frame in one's complement (RFC 1071).
//
// Latency: 5 cycles from the last beat to the result. Throughput: one beat every cycle. Never stalls.
module beat_sum
  import weft_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 valid_i,
  input  logic                 first_i,
  input  logic                 last_i,
  input  logic [ BeatBits-1:0] data_i,
  // Mask of the bytes to sum.
  input  logic [BeatBytes-1:0] mask_i,
  // Initial value of the sum, valid with the first beat.
  input  logic [         19:0] seed_i,
  output logic                 result_valid_o,
  output logic [         15:0] result_o
);

  // Adder tree: sums of two words; sums of eight of these; the accumulator. Only the first adder is in the first
  // cycle, because beats arrive late in that cycle.
  logic        valid_1_q;
  logic        first_1_q;
  logic        last_1_q;
  logic [16:0] sums_1_q   [16];
  logic [19:0] seed_1_q;
  logic        valid_2_q;
  logic        first_2_q;
  logic        last_2_q;
  logic [19:0] sums_2_q   [ 2];
  logic [19:0] seed_2_q;
  logic        last_3_q;
  // Width for 32 words in each of 256 beats, and the seed.
  logic [30:0] total_3_q;
  logic        last_4_q;
  logic [16:0] folded_4_q;
  logic        last_5_q;
  logic [15:0] folded_5_q;

  // The first byte of a 16-bit word is its high byte.
  function automatic logic [16:0] word(logic [15:0] data, logic [1:0] mask);
    return {1'b0, data[7:0] & {8{mask[0]}}, data[15:8] & {8{mask[1]}}};
  endfunction

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      for (int unsigned pair = 0; pair < 16; pair++) begin
        sums_1_q[pair] <= word(data_i[32*pair+:16], mask_i[4*pair+:2]) +
            word(data_i[32*pair+16+:16], mask_i[4*pair+2+:2]);
      end
      seed_1_q  <= seed_i;
      first_1_q <= first_i;
    end
    if (valid_1_q) begin
      for (int unsigned half = 0; half < 2; half++) begin
        sums_2_q[half] <= ((20'(sums_1_q[8*half]) + 20'(sums_1_q[8*half+1]))
            + (20'(sums_1_q[8*half+2]) + 20'(sums_1_q[8*half+3])))
            + ((20'(sums_1_q[8*half+4]) + 20'(sums_1_q[8*half+5]))
            + (20'(sums_1_q[8*half+6]) + 20'(sums_1_q[8*half+7])));
      end
      seed_2_q  <= seed_1_q;
      first_2_q <= first_1_q;
    end
    if (valid_2_q) begin
      total_3_q <= (31'(sums_2_q[0]) + 31'(sums_2_q[1])) + (first_2_q ? 31'(seed_2_q) : total_3_q);
    end
    folded_4_q <= 17'(total_3_q[15:0]) + 17'(total_3_q[30:16]);
    folded_5_q <= folded_4_q[15:0] + 16'(folded_4_q[16]);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_1_q <= 1'b0;
      valid_2_q <= 1'b0;
      last_1_q  <= 1'b0;
      last_2_q  <= 1'b0;
      last_3_q  <= 1'b0;
      last_4_q  <= 1'b0;
      last_5_q  <= 1'b0;
    end else begin
      valid_1_q <= valid_i;
      valid_2_q <= valid_1_q;
      last_1_q  <= valid_i && last_i;
      last_2_q  <= last_1_q;
      last_3_q  <= last_2_q;
      last_4_q  <= last_3_q;
      last_5_q  <= last_4_q;
    end
  end

  assign result_valid_o = last_5_q;
  assign result_o = folded_5_q;

endmodule
