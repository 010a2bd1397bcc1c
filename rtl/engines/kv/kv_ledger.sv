// What a leader knows of the followers of its stream: the twin of `Leading` in crates/engines/kv/src/stream.rs.
//
// Latency: what is to be sent again from the cycle after `tell_i` on, `ahead_o` two cycles after it. Throughput: a command every
// cycle.
module kv_ledger
  import engines_pkg::*;
  import kv_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,
  // A stream begins, with these followers, none of which has anything.
  input  logic                  begin_i,
  input  logic    [Streams-1:0] followers_i,
  output logic    [Streams-1:0] followers_o,
  // `from_i` acknowledges `to_i`, or with `resend_i` its next burst is asked for.
  input  logic                  tell_i,
  input  logic                  resend_i,
  input  stream_t               from_i,
  input  number_t               to_i,
  input  logic                  gap_i,
  // Of the node's own stream.
  input  number_t               accepted_i,
  input  number_t               committed_i,
  // Last until the next `tell_i`: the writes after `after_o` up to `last_o` are to be sent again.
  output logic                  again_o,
  output number_t               after_o,
  output number_t               last_o,
  // By how much the shortest of the followers exceeds `committed_i`; of meaning if there are followers.
  output logic    [        8:0] ahead_o
);

  // Numbers that are compared here are at most a window apart, so 10 bits order them.
  typedef logic [9:0] short_t;

  (* ram_style = "distributed" *)
  number_t accepted[Streams];  // how much the follower has acknowledged
  (* ram_style = "distributed" *)
  number_t resent[Streams];  // the last number of the latest burst that was sent again
  (* ram_style = "distributed" *)
  number_t recover[Streams];  // what had been sent before that burst was: up to there it needs more
  logic [Streams-1:0] begun_q;  // the above is of this epoch; if not it counts as 0
  logic [Streams-1:0] followers_q;
  short_t short_q[Streams];
  logic again_q;
  number_t after_q, last_q;

  logic begun, again;
  number_t had, had_resent, had_recover, has, last;
  short_t lacks;
  assign begun = begun_q[from_i];
  assign had = begun ? accepted[from_i] : '0;
  assign had_resent = begun ? resent[from_i] : '0;
  assign had_recover = begun ? recover[from_i] : '0;

  logic newer;
  assign newer = to_i >= had;
  assign has   = !resend_i && newer ? to_i : had;
  assign lacks = accepted_i[9:0] - has[9:0];
  assign last  = has + (lacks > short_t'(Burst) ? number_t'(Burst) : number_t'(lacks));
  assign again = lacks != '0 && (resend_i || newer && to_i >= had_resent && (gap_i || to_i < had_recover));

  always_ff @(posedge clk_i) begin
    if (tell_i) begin
      accepted[from_i] <= has;
      resent[from_i]   <= again ? last : had_resent;
      recover[from_i]  <= again ? accepted_i : had_recover;
      short_q[from_i]  <= has[9:0];
      after_q          <= has;
      last_q           <= last;
    end
    if (begin_i) begin
      for (int unsigned i = 0; i < Streams; i++) short_q[i] <= '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      begun_q     <= '0;
      followers_q <= '0;
      again_q     <= 1'b0;
    end else begin
      if (tell_i) begin
        begun_q[from_i] <= 1'b1;
        again_q         <= again;
      end
      if (begin_i) begin
        begun_q     <= '0;
        followers_q <= followers_i;
      end
    end
  end

  assign followers_o = followers_q;
  assign again_o = again_q;
  assign after_o = after_q;
  assign last_o = last_q;

  // The shortest, in two cycles.

  typedef logic [8:0] ahead_t;
  ahead_t ahead [  Streams];
  ahead_t pair_q[Streams/2];

  function automatic ahead_t lesser(ahead_t a, ahead_t b);
    return a < b ? a : b;
  endfunction

  always_comb begin
    for (int unsigned i = 0; i < Streams; i++) begin
      short_t difference;
      difference = short_q[i] - committed_i[9:0];
      ahead[i]   = !followers_q[i] ? '1 : difference[9] ? '0 : difference[8:0];
    end
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned i = 0; i < Streams / 2; i++) pair_q[i] <= lesser(ahead[2*i], ahead[2*i+1]);
  end

  assign ahead_o = lesser(lesser(pair_q[0], pair_q[1]), lesser(pair_q[2], pair_q[3]));

endmodule
