// When the present round ends. A round lasts a period, less what it takes to follow the fastest member.
//
// A message that comes sooner than the shortest way takes tells that its sender has begun its round sooner by that
// lead. A later round is shortened by a quarter of the largest lead, by an eighth of the period at most: the rule and
// its reason are in crates/engines/rounds/src/timer.rs. A round's end follows from the end before it and not from
// when that was noticed, so that nothing adds up.
//
// Latency: 1 cycle. Throughput: one of its inputs every cycle. Stalls: never.
module round_timer
  import weft_pkg::*;
  import rounds_pkg::*;
(
  input  logic    clk_i,
  input  cycles_t now_i,
  // Cycles of at most 31 bits. The path delay is constant from reset on; a new period comes with `renew_i`.
  input  cycles_t period_i,
  input  cycles_t one_way_i,
  // From the next round on the period is another one: nothing that was observed so far shortens a round.
  input  logic    renew_i,
  // The present round ends at `arm_at_i`: the time before the first round.
  input  logic    arm_i,
  input  cycles_t arm_at_i,
  // The next round begins; the present one was to end now if `arm_i` comes with it.
  input  logic    advance_i,
  // A message has come, of the present round, of the next one, or, not observed, of the last one.
  input  logic    observe_i,
  input  logic    early_i,
  input  logic    late_i,
  // Lateness against the shortest path from a member whose rounds begin when this node's do.
  output lag_t    lag_o,
  output cycles_t begin_o,
  output cycles_t deadline_o,
  output logic    expired_o,   // the cycle before
  // The round that begins is shortened.
  output logic    trimmed_o
);

  cycles_t last_q, begin_q, deadline_q, lead;
  logic [28:0] trim_q, wanted;

  assign deadline_o = deadline_q;
  assign trimmed_o = advance_i && !arm_i && trim_q != '0;

  // Leads are far below 2^47 cycles: the sign tells whether there is one.
  assign lead = (early_i ? deadline_q : begin_q) + one_way_i - now_i;
  assign lag_o = now_i[31:0] - one_way_i[31:0] - (early_i ? deadline_q[31:0] : late_i ? last_q[31:0] : begin_q[31:0]);
  assign begin_o = begin_q;
  assign wanted = lead[47:2] > 46'(period_i[31:3]) ? period_i[31:3] : lead[30:2];

  always_ff @(posedge clk_i) begin
    // Time goes on: what has been reached stays so until the deadline moves.
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
