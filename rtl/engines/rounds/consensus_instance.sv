// One instance of the consensus in one of its rounds: what a record changes, and what the end of the round does.
//
// Instances move from place to place as they grow older, so the number of the round that an instance is in, `Round`,
// is the place's own: at the end of a round the place gives away what its instance has become, `ended_o`, and takes
// the one that comes from the younger place. The rules are those of crates/engines/rounds/src/instance.rs.
//
// Latency: a record or the end of a round counts from the next cycle on, for the end of a round from the one behind
// that: a round may not end in the cycle behind a record. Throughput: a record every cycle. Stalls: never.
module consensus_instance
  import rounds_pkg::*;
#(
  parameter int unsigned Round = 0
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  member_t       node_i,
  // Forgets the instance.
  input  logic          clear_i,
  input  logic          end_round_i,
  input  instance_t     next_i,
  // Neither in the cycle in which the round ends, nor in the one before.
  input  logic          receive_i,
  input  member_t       from_i,
  // verilator lint_off UNUSEDSIGNAL
  input  round_record_t record_i,
  // verilator lint_on UNUSEDSIGNAL
  output instance_t     state_o,
  output round_record_t record_o,
  // State if the round ends now, and whether that decides it; not in the cycle behind a record.
  output instance_t     ended_o,
  output logic          decides_o,
  // With a record that says what cannot be.
  output logic          contradiction_o
);

  instance_t state_q, received;
  members_t self, from;  // the node does not change while it has instances
  always_ff @(posedge clk_i) self <= only(node_i);
  assign from = only(from_i);
  assign state_o = state_q;

  assign record_o = '{
          spare: '0,
          unused: '0,
          valid: state_q.valid,
          decided: state_q.decided,
          locked: state_q.locked,
          decision: state_q.decision,
          suspected: state_q.suspected,
          rows: state_q.rows
      };

  // A record. What cannot be true changes nothing; suspicion is mutual; a decision holds whoever tells it.

  logic takes_part, plausible, accepted;
  members_t told, given, false_rows;
  assign takes_part = state_q.valid && record_i.valid && (state_q.members & ~self & from) != '0;
  assign told = record_i.decided ? record_i.decision : '0;

  always_comb begin
    for (int unsigned k = 0; k < RoundsNodes; k++) begin
      given[k] = record_i.rows[k] != '0;
      // Contradictions in a row: members of others, or not as it is known.
      false_rows[k] = (record_i.rows[k] & ~state_q.members) != '0 || (given[k] && !record_i.rows[k][k])
          || (given[k] && state_q.rows[k] != '0 && record_i.rows[k] != state_q.rows[k]);
    end
    plausible = (from & given) != '0 && (record_i.suspected & (from | ~state_q.members)) == '0
        && (told & ~state_q.members) == '0;
    if (false_rows != '0) plausible = 1'b0;
    if (record_i.decided && state_q.decided && state_q.decision != told) plausible = 1'b0;
    if (record_i.decided && state_q.adopted && state_q.adoption != told) plausible = 1'b0;
  end

  assign accepted = (state_q.suspected & from) == '0 && (record_i.suspected & self) == '0;

  always_comb begin
    received = state_q;
    if (takes_part && plausible) begin
      if (record_i.decided) begin
        received.adopted  = 1'b1;
        received.adoption = told;
      end
      if (accepted) begin
        received.accepted |= from;
        received.rows |= record_i.rows;
        if (record_i.locked) received.heard_locked |= from;
      end
    end
  end

  assign contradiction_o = receive_i && takes_part && !plausible;

  // The end of the round.

  members_t suspected, held, common, some;
  member_count_t suspects;
  logic passive, locked, agreed, decides;
  // Results of long paths, as of the cycle before.
  members_t held_q;
  logic locked_q, decides_q;

  assign suspected = state_q.suspected | (state_q.members & ~state_q.accepted & ~self);
  assign suspects = count_members(suspected);
  // A member that trusts too few leaves locking and deciding to the others.
  assign passive = suspects > state_q.quorums.tolerated;
  // A locked member knows all rows that any member will ever know, and so does a member that hears and trusts it.
  assign locked = state_q.locked || (!passive && (suspects <= member_count_t'(Round) || state_q.heard_locked != '0));
  assign agreed = locked && count_members(state_q.heard_locked) + 1'b1 >= state_q.quorums.decision;

  always_comb begin
    common = '1;
    some   = '0;
    for (int unsigned k = 0; k < RoundsNodes; k++) begin
      if (state_q.members[k]) common &= state_q.rows[k];
      some |= state_q.rows[k];
    end
    for (int unsigned p = 0; p < RoundsNodes; p++) begin
      members_t holders;
      for (int unsigned k = 0; k < RoundsNodes; k++) holders[k] = state_q.rows[k][p];
      held[p] = count_members(holders) >= state_q.quorums.holders;
    end
  end

  // Where the rows of all members are equal (`common == some`), all hold their content: `held` is that row.
  assign decides   = state_q.valid && !state_q.decided && (state_q.adopted || (!passive && (agreed || common == some)));
  assign decides_o = state_q.valid && decides_q;

  always_ff @(posedge clk_i) begin
    held_q    <= held;
    locked_q  <= locked;
    decides_q <= decides;
  end

  always_comb begin
    ended_o = state_q;
    ended_o.suspected = suspected;
    ended_o.accepted = '0;
    ended_o.locked = locked_q;
    ended_o.adopted = 1'b0;
    ended_o.adoption = '0;
    if (decides_o) begin
      ended_o.decided  = 1'b1;
      ended_o.decision = state_q.adopted ? state_q.adoption : held_q;
    end
    // A place without an instance gives none away.
    if (!state_q.valid) ended_o = '0;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) state_q <= '0;
    else if (end_round_i) state_q <= next_i;
    else if (receive_i) state_q <= received;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(end_round_i && receive_i))
      else $error("a record comes in while its round ends");
    end
  end

endmodule
