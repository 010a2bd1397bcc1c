// The leader's record of its stream's followers. Twin of `Leading` in crates/engines/kv/src/stream.rs.
//
// Numbers are stored modulo 1024, four windows. They are unambiguous because a follower's acknowledged number lies
// between the committed and the accepted length. The number up to which entries were resent is raised to the
// acknowledged number if it is below it, which changes no decision.
//
// Latency: the entries to resend are valid from the second cycle after `tell_i` on, `ahead_o` in the second cycle
// after it. Throughput: a command every 2 cycles.
module kv_ledger
  import kv_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,
  // A stream begins with these followers, none of which has any entry.
  input  logic                  begin_i,
  input  logic    [Streams-1:0] followers_i,
  output logic    [Streams-1:0] followers_o,
  // `from_i` acknowledges `to_i`; with `resend_i` it requests its next burst.
  input  logic                  tell_i,
  input  logic                  resend_i,
  input  stream_t               from_i,
  input  number_t               to_i,           // at most the accepted length
  input  logic                  old_i,          // it is below the committed length
  input  logic                  gap_i,
  // Lengths of the node's own stream; stable until the next cycle.
  input  number_t               accepted_i,
  input  number_t               committed_i,
  // Valid until the next `tell_i`: the `again_count_o` writes after `after_o` are to be resent.
  output logic                  again_o,
  output logic    [        9:0] after_o,
  output logic    [        6:0] again_count_o,
  // By how much the lowest acknowledged length of all followers exceeds `committed_i`; valid if there are followers.
  output logic    [        8:0] ahead_o
);

  typedef logic [9:0] short_t;

  typedef struct packed {
    short_t resent;   // the last number of the latest burst that was resent
    short_t recover;  // the last number sent before that burst; entries up to it must be resent as well
  } bursts_t;

  (* ram_style = "distributed" *)
  bursts_t bursts[Streams];
  logic [Streams-1:0] begun_q;  // `bursts` is of this epoch; otherwise it counts as 0
  logic [Streams-1:0] followers_q;
  short_t [Streams-1:0] has_q;  // each follower's acknowledged length

  // First cycle: the follower's new acknowledged length.

  short_t had, has, above_had;
  logic newer;
  assign had = has_q[from_i];
  assign above_had = to_i[9:0] - had;
  assign newer = !old_i && !above_had[9];
  assign has = !resend_i && newer ? to_i[9:0] : had;

  logic told_q, resend_q, newer_q, gap_q;
  stream_t from_q;
  bursts_t kept_q;
  short_t  told_has_q;

  always_ff @(posedge clk_i) begin
    if (tell_i) begin
      from_q        <= from_i;
      told_has_q    <= has;
      kept_q        <= begun_q[from_i] ? bursts[from_i] : '0;
      resend_q      <= resend_i;
      newer_q       <= newer;
      gap_q         <= gap_i;
      has_q[from_i] <= has;
    end
    if (begin_i) has_q <= '0;
  end

  // Second cycle: decides whether entries are resent to the follower.

  short_t lacks, above_resent, below_recover;
  logic again;
  logic [6:0] count;
  bursts_t kept;
  assign above_resent = told_has_q - kept_q.resent;
  assign below_recover = kept_q.recover - told_has_q;
  assign kept.resent = above_resent[9] ? kept_q.resent : told_has_q;
  assign kept.recover = below_recover[9] ? told_has_q : kept_q.recover;
  assign lacks = accepted_i[9:0] - told_has_q;
  assign count = lacks > short_t'(Burst) ? 7'(Burst) : lacks[6:0];
  assign again = lacks != '0 && (resend_q || newer_q && !above_resent[9]
      && (gap_q || !below_recover[9] && below_recover != '0));

  always_ff @(posedge clk_i) begin
    if (told_q) begin
      bursts[from_q] <= again ? '{resent: told_has_q + 10'(count), recover: accepted_i[9:0]} : kept;
      again_o        <= again;
      again_count_o  <= count;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      told_q      <= 1'b0;
      begun_q     <= '0;
      followers_q <= '0;
    end else begin
      told_q <= tell_i;
      if (tell_i) begun_q[from_i] <= 1'b1;
      if (begin_i) begin
        begun_q     <= '0;
        followers_q <= followers_i;
      end
    end
  end

  assign followers_o = followers_q;
  assign after_o = told_has_q;

  // The minimum over the followers, in two cycles.

  typedef logic [8:0] ahead_t;
  ahead_t [Streams-1:0] ahead;
  ahead_t [1:0] half_q;

  function automatic ahead_t lesser(ahead_t a, ahead_t b);
    return a < b ? a : b;
  endfunction

  always_comb begin
    for (int unsigned i = 0; i < Streams; i++) begin
      automatic short_t difference = has_q[i] - committed_i[9:0];
      ahead[i] = !followers_q[i] ? '1 : difference[9] ? '0 : difference[8:0];
    end
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < 2; i++) begin
      half_q[i] <= lesser(lesser(ahead[4*i], ahead[4*i+1]), lesser(ahead[4*i+2], ahead[4*i+3]));
    end
  end

  assign ahead_o = lesser(half_q[0], half_q[1]);

endmodule
