// Says whether a packet holds executable code. Twin of crates/service/src/inspect.
//
// Kind: tap. Latency: `InspectLatency` cycles from a packet's last beat to its verdict, which has the score of the best
// run of bytes. Throughput: a beat every cycle. Order: verdicts leave in the order of their packets. Stalls: never.
// `state_o` follows `state_i` and `accepted_i` in the same cycle. A packet has up to 4,096 bytes.
//
//     beat ─► inspect_scores ─► inspect_segments ─► the packet's run and best ─► verdict
module inspect_service
  import weft_pkg::*;
  import services_pkg::*;
  import inspect_pkg::*;
  import inspect_tables_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 valid_i,
  input  service_beat_t        beat_i,
  output logic          [31:0] verdict_o,
  input  logic          [63:0] state_i,
  input  logic          [31:0] accepted_i,
  output logic          [63:0] state_o
);

  localparam int unsigned Cycles = InspectScoresLatency + InspectSegmentLatency;

  // What passes beside the scores.
  typedef struct packed {
    logic last;
    // Lane 0 of the beat is at offset 0 of the message.
    logic zero;
  } passing_t;

  passing_t                       passing;
  logic           [   Cycles-1:0] valid_q;
  inspect_score_t [BeatBytes-1:0] scores;
  logic signed    [         14:0] sum;
  logic           [         13:0] prefix;
  logic           [         13:0] suffix;
  logic           [         13:0] best;

  inspect_scores i_scores (
    .clk_i,
    .rst_ni,
    .valid_i,
    .beat_i,
    .scores_o(scores)
  );

  inspect_segments #(
    .Scores(BeatBytes)
  ) i_segments (
    .clk_i,
    .scores_i(scores),
    .sum_o   (sum),
    .prefix_o(prefix),
    .suffix_o(suffix),
    .best_o  (best)
  );

  delay #(
    .T     (passing_t),
    .Cycles(Cycles)
  ) i_passing (
    .clk_i,
    .in_i ('{last: beat_i.last, zero: beat_i.word == '0 && beat_i.strobe[0]}),
    .out_o(passing)
  );

  always_ff @(posedge clk_i) valid_q <= rst_ni ? {valid_q[Cycles-2:0], valid_i} : '0;

  // The packet until the last beat: the best run to its end, the best run, and whether it began at offset 0.
  inspect_sum_t        run_q;
  inspect_sum_t        best_q;
  logic                begins_q;
  logic signed  [20:0] longer;
  inspect_sum_t        run;
  inspect_sum_t        across;
  inspect_sum_t        better;
  inspect_sum_t        next;
  logic                begins;

  assign longer = signed'({1'b0, run_q}) + 21'(sum);
  assign run    = longer > signed'({7'b0, suffix}) ? longer[19:0] : 20'(suffix);
  assign across = run_q + 20'(prefix);
  assign better = best_q > 20'(best) ? best_q : 20'(best);
  assign next   = across > better ? across : better;
  assign begins = begins_q || passing.zero;

  always_ff @(posedge clk_i) begin
    if (valid_q[Cycles-1]) begin
      verdict_o <= inspect_verdict_t'{flagged: next >= InspectThreshold, begins: begins, score: 30'(next)};
      run_q     <= passing.last ? '0 : run;
      best_q    <= passing.last ? '0 : next;
      begins_q  <= !passing.last && begins;
    end
    if (!rst_ni) begin
      run_q    <= '0;
      best_q   <= '0;
      begins_q <= 1'b0;
    end
  end

  inspect_verdict_t        accepted;
  inspect_state_t          state;
  logic                    is_higher;
  logic             [31:0] message_score;

  assign accepted      = accepted_i;
  assign state         = state_i;
  assign is_higher     = accepted.begins || 32'(accepted.score) > state.message_score;
  assign message_score = is_higher ? 32'(accepted.score) : state.message_score;
  assign state_o       = {state.flagged + 32'(accepted.flagged), message_score};

endmodule
