// Determines when the current round ends. A round lasts one period, shortened as needed to follow the fastest member.
//
// A message that arrives sooner than the shortest path allows shows that its sender began its round earlier, by that
// lead. A later round is shortened by a quarter of the largest lead, but by at most an eighth of the period. The rule
// and its reason are in crates/engines/rounds/src/timer.rs. Each round's end is computed from the previous end, and
// not from the time when that end was processed, so delays do not accumulate.
//
// Latency: 1 cycle. Throughput: one of its inputs every cycle. Stalls: never.
module round_timer
  import weft_pkg::*;
  import rounds_pkg::*;
(
  input  logic    clk_i,
  input  cycles_t now_i,
  // In cycles, at most 31 bits. The path delay is constant after reset; a new period takes effect with `renew_i`.
  input  cycles_t period_i,
  input  cycles_t one_way_i,
  // The period changes from the next round on. Leads observed before do not shorten a round.
  input  logic    renew_i,
  // Sets the end of the current round to `arm_at_i`; used before the first round.
  input  logic    arm_i,
  input  cycles_t arm_at_i,
  // The next round begins. With `arm_i` as well, the current one counts as ending now.
  input  logic    advance_i,
  // A message arrived, of the current round, of the next one (`early`) or of the last one (`late`, which does not
  // count as a lead).
  input  logic    observe_i,
  input  logic    early_i,
  input  logic    late_i,
  // How much later the message arrived than over the shortest path from a member whose rounds begin at the same time
  // as this node's.
  output lag_t    lag_o,
  output cycles_t begin_o,
  output cycles_t deadline_o,
  output logic    expired_o,   // valid one cycle late
  // The round that begins is shortened.
  output logic    trimmed_o
);

  cycles_t last_q, begin_q, deadline_q, lead;
  logic [28:0] trim_q, wanted;

  assign deadline_o = deadline_q;
  assign trimmed_o = advance_i && !arm_i && trim_q != '0;

  // Leads are far below 2^47 cycles, so the sign bit shows whether there is one.
  assign lead = (early_i ? deadline_q : begin_q) + one_way_i - now_i;
  assign lag_o = now_i[31:0] - one_way_i[31:0] - (early_i ? deadline_q[31:0] : late_i ? last_q[31:0] : begin_q[31:0]);
  assign begin_o = begin_q;
  assign wanted = lead[47:2] > 46'(period_i[31:3]) ? period_i[31:3] : lead[30:2];

  always_ff @(posedge clk_i) begin
    // Once the deadline has passed, `expired_o` stays high until the deadline moves.
    expired_o <= now_i >= deadline_q && !advance_i && !arm_i;
    if (advance_i) last_q <= begin_q;
    if (advance_i) begin
      begin_q    <= arm_i ? arm_at_i : deadline_q;
      deadline_q <= arm_i ? arm_at_i + period_i : deadline_q + (period_i - cycles_t'(trim_q));
      trim_q     <= '0;
    end else if (arm_i) begin
      deadline_q <= arm_at_i;
      trim_q     <= '0;
    end else if (renew_i) begin
      trim_q <= '0;
    end else if (observe_i && !lead[47] && wanted > trim_q) begin
      trim_q <= wanted;
    end
  end

endmodule
