// The segment of some scores: their sum, and the best run of them from the start, to the end, and anywhere. A run may
// be empty. Twin of crates/service/src/inspect/segment.rs, as a tree: two halves, and what joins them.
//
// Latency: a cycle for each level, $clog2(Scores). Throughput: a segment every cycle.
module inspect_segments
  import inspect_pkg::*;
#(
  // A power of two.
  parameter  int unsigned Scores = 64,
  // Of the sum. Runs are not negative and have one less.
  localparam int unsigned Bits   = $bits(inspect_score_t) + $clog2(Scores)
) (
  /* verilator lint_off UNUSEDSIGNAL */  // a leaf has no register
  input  logic                        clk_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  inspect_score_t [Scores-1:0] scores_i,
  output logic signed    [  Bits-1:0] sum_o,
  output logic           [  Bits-2:0] prefix_o,
  output logic           [  Bits-2:0] suffix_o,
  output logic           [  Bits-2:0] best_o
);

  if (Scores == 1) begin : gen_leaf

    assign sum_o    = scores_i[0];
    assign prefix_o = scores_i[0] < 0 ? '0 : scores_i[0][Bits-2:0];
    assign suffix_o = prefix_o;
    assign best_o   = prefix_o;

  end else begin : gen_join

    localparam int unsigned Half = Scores / 2;

    logic signed [1:0][Bits-2:0] sum;
    logic        [1:0][Bits-3:0] prefix;
    logic        [1:0][Bits-3:0] suffix;
    logic        [1:0][Bits-3:0] best;

    for (genvar i = 0; i < 2; i++) begin : gen_half
      inspect_segments #(
        .Scores(Half)
      ) i_half (
        .clk_i,
        .scores_i(scores_i[Half*i+:Half]),
        .sum_o   (sum[i]),
        .prefix_o(prefix[i]),
        .suffix_o(suffix[i]),
        .best_o  (best[i])
      );
    end

    // The whole of one half with a run of the other; negative if the sum is very low.
    logic signed [Bits-1:0] long_prefix;
    logic signed [Bits-1:0] long_suffix;
    logic        [Bits-2:0] across;
    logic        [Bits-3:0] better;

    assign long_prefix = Bits'(signed'(sum[0])) + signed'({2'b0, prefix[1]});
    assign long_suffix = Bits'(signed'(sum[1])) + signed'({2'b0, suffix[0]});
    assign across      = (Bits - 1)'(suffix[0]) + (Bits - 1)'(prefix[1]);
    assign better      = best[0] > best[1] ? best[0] : best[1];

    always_ff @(posedge clk_i) begin
      sum_o    <= Bits'(signed'(sum[0])) + Bits'(signed'(sum[1]));
      prefix_o <= long_prefix > signed'({2'b0, prefix[0]}) ? long_prefix[Bits-2:0] : (Bits - 1)'(prefix[0]);
      suffix_o <= long_suffix > signed'({2'b0, suffix[1]}) ? long_suffix[Bits-2:0] : (Bits - 1)'(suffix[1]);
      best_o   <= across > (Bits - 1)'(better) ? across : (Bits - 1)'(better);
    end

  end

endmodule
