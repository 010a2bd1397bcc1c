// Properties of consensus_instance, whatever records arrive: an instance decides at most once and never changes its
// decision. It decides only if another member has decided, if a majority is locked, or if all rows are equal. Locks
// and suspicions are permanent, and a known row does not change.
//
// The harness has one slot of a window. An instance may enter it in any state that the previous slot can hand on; the
// same property is proved of the state that this slot hands on. Any record may arrive, and the round may end in any
// cycle except those in which, or right after which, the instance has changed.
module consensus_instance_formal
  import rounds_pkg::*;
#(
  parameter int unsigned Round = 1
) (
  input logic          clk_i,
  input member_t       node_i,
  input logic          end_round_i,
  input instance_t     next_i,
  input logic          receive_i,
  input member_t       from_i,
  input round_record_t record_i
);

  logic rst_n = 1'b0;
  always_ff @(posedge clk_i) rst_n <= 1'b1;

  // Assumption: a node keeps its number.
  member_t node;
  always_ff @(posedge clk_i) begin
    node <= node_i;
    if (rst_n) assume (node_i == node);
  end

  instance_t is, ended, was;
  logic decides, received;

  consensus_instance #(
    .Round(Round)
  ) dut (
    .clk_i,
    .rst_ni         (rst_n),
    .node_i,
    .clear_i        (1'b0),
    .end_round_i,
    .next_i,
    .receive_i,
    .from_i,
    .record_i,
    .state_o        (is),
    .record_o       (),
    .ended_o        (ended),
    .decides_o      (decides),
    .contradiction_o()
  );

  // Reachable states.
  function automatic logic possible(instance_t state, member_t self);
    logic good = state.members[self] && state.quorums == quorums_of(state.members) && state.rows[self][self];
    good &= ((state.suspected | state.accepted | state.heard_locked) & ~state.members) == '0;
    good &= ((state.decision | state.adoption) & ~state.members) == '0;
    for (int unsigned k = 0; k < RoundsNodes; k++) begin
      good &= (state.rows[k] & ~state.members) == '0;
      good &= state.rows[k] == '0 || (state.members[k] && state.rows[k][k]);
    end
    good &= state.adopted ? !state.decided || state.adoption == state.decision : state.adoption == '0;
    good &= state.decided || state.decision == '0;
    return good || state == '0;
  endfunction

  // Number of members locked together with this node, and number of members that it suspects.
  logic [3:0] locked_members, suspects;
  logic equal;
  always_comb begin
    locked_members = 4'd1;
    suspects = '0;
    equal = 1'b1;
    for (int unsigned k = 0; k < RoundsNodes; k++) begin
      locked_members += 4'(is.heard_locked[k]);
      suspects += 4'(ended.suspected[k]);
      if (is.members[k] && (is.rows[k] != is.rows[node_i] || is.rows[k] == '0)) equal = 1'b0;
    end
  end

  // The result of the end of the round is valid one cycle after the instance's last change.
  logic settled;
  always_ff @(posedge clk_i) settled <= rst_n && !end_round_i && !receive_i;

  always_comb begin
    assume (!(end_round_i && (receive_i || !settled)));
    assume (possible(next_i, node_i) && next_i.accepted == '0 && !next_i.adopted);
  end

  always_comb begin
    if (rst_n) begin
      assert (possible(is, node_i));
    end
    if (rst_n && settled) begin
      assert (possible(ended, node_i) && ended.accepted == '0 && !ended.adopted);
    end
    if (rst_n && settled && is.valid) begin
      // Properties of the end of the round.
      assert (ended.valid && ended.members == is.members && ended.rows == is.rows);
      assert (ended.decided == (is.decided || decides));
      if (is.decided) assert (!decides && ended.decision == is.decision);
      if (is.locked) assert (ended.locked);
      assert (ended.suspected == (is.suspected | (is.members & ~is.accepted & ~(members_t'(1) << node_i))));
      if (decides && is.adopted) assert (ended.decision == is.adoption);
      if (decides && !is.adopted) begin
        assert ((ended.locked && 5'(locked_members) > 5'(is.quorums.decision - 1'b1)) || equal);
        // A member that suspects too many others does not decide by itself.
        assert (suspects <= is.quorums.tolerated);
      end
      if (ended.locked && !is.locked) assert (suspects <= 4'(Round) || is.heard_locked != '0);
    end
  end

  // Properties of a record.
  always_ff @(posedge clk_i) begin
    was      <= is;
    received <= rst_n && !end_round_i;
  end
  always_comb begin
    if (rst_n && received && was.valid) begin
      assert (is.valid && is.decided == was.decided && is.decision == was.decision && is.locked == was.locked);
      assert (is.suspected == was.suspected && is.members == was.members);
      assert ((was.accepted & ~is.accepted) == '0 && ((is.accepted & ~was.accepted) & was.suspected) == '0);
      if (was.adopted) assert (is.adopted && is.adoption == was.adoption);
      for (int unsigned k = 0; k < RoundsNodes; k++) begin
        if (was.rows[k] != '0) assert (is.rows[k] == was.rows[k]);
      end
    end
    if (rst_n) begin
      cover (settled && is.valid && decides && !is.adopted && !equal && is.members == '1);
      cover (settled && is.valid && decides && is.adopted);
    end
  end

endmodule
