// One consensus instance during one of its rounds: processes the records of other members and the end of the round.
//
// Instances move from slot to slot as they grow older, so each slot always holds instances in the same round,
// `Round`. At the end of a round a slot hands its instance on as `ended_o`, and takes the instance of the younger
// slot. The rules are those of crates/engines/rounds/src/instance.rs.
//
// Latency: a record takes effect in the next cycle. The result of the end of the round is computed one cycle ahead,
// so a round must not end in the cycle after a record. Throughput: a record every cycle. Stalls: never.
module consensus_instance
  import rounds_pkg::*;
#(
  parameter int unsigned Round = 0
) (
  input  logic          clk_i,
  input  logic          rst_ni,
  input  member_t       node_i,
  // Clears the instance.
  input  logic          clear_i,
  input  logic          end_round_i,
  input  instance_t     next_i,
  // Must be low in the cycle in which the round ends, and in the cycle before.
  input  logic          receive_i,
  input  member_t       from_i,
  // verilator lint_off UNUSEDSIGNAL
  input  round_record_t record_i,
  // verilator lint_on UNUSEDSIGNAL
  output instance_t     state_o,
  output round_record_t record_o,
  // The state if the round ended now, and whether that end decides the instance; invalid in the cycle after a record.
  output instance_t     ended_o,
  output logic          decides_o,
  // Valid with a record: it contradicts what the node knows.
  output logic          contradiction_o
);

  instance_t state_q, received;
  members_t self, from;  // the node's number does not change while it has instances
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

  // A record. One that contradicts what is known changes nothing; suspicion is mutual; a decision is adopted from any
  // member.

  logic takes_part, plausible, accepted;
  members_t told, given, false_rows;
  assign takes_part = state_q.valid && record_i.valid && (state_q.members & ~self & from) != '0;
  assign told = record_i.decided ? record_i.decision : '0;

  always_comb begin
    for (int unsigned k = 0; k < RoundsNodes; k++) begin
      given[k] = record_i.rows[k] != '0;
      // Contradictions in a row: it names nodes that are no members, lacks its own node, or differs from the known
      // row.
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
  // Results of long paths, computed in the cycle before.
  members_t held_q;
  logic locked_q, decides_q;

  assign suspected = state_q.suspected | (state_q.members & ~state_q.accepted & ~self);
  assign suspects = count_members(suspected);
  // A member that suspects too many others neither locks nor decides; it leaves that to the others.
  assign passive = suspects > state_q.quorums.tolerated;
  // A locked member knows all rows that any member will ever know. So does a member that receives from it and trusts
  // it.
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

  // If the rows of all members are equal (`common == some`), all members hold the proposals in that row: `held` is
  // the row.
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
    // A slot without an instance passes on an empty one.
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
