// Decides which nodes take part in which instance. Twin of crates/engines/rounds/src/membership.rs.
//
// Members change by decisions. A decided change applies `RoundsChangeDelay` instances later, when every running node
// has released it; if several are decided in that time, the first one applies. A node proposes to add a node whose
// request to join it has received, and to remove a member from which it has received nothing for some rounds. A
// member is removed when it asks for it, or when so many members accuse it that at least one of them is correct.
// Latency: 1 cycle; a decided change takes effect after 3, and updates the change to be proposed after 4. Throughput:
// one of the inputs every cycle. Stalls: never.
module round_membership
  import rounds_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_ni,
  input  member_t             node_i,
  // In rounds: a member not received from for this long is to be removed. Constant after reset.
  input  logic          [7:0] silence_i,
  // The node takes part from the next round on, with these members.
  input  logic                start_i,
  input  rounds_epoch_t       start_epoch_i,
  input  members_t            start_members_i,
  // The next round begins.
  input  logic                advance_i,
  // In the cycle after `advance_i`: if there is a change to propose in the new round, it has been taken.
  input  logic                announce_i,
  output logic                change_valid_o,
  output change_t             change_o,
  // Members whose messages were received in the current round; nodes that ask to be added; this node wants to leave.
  input  logic                hear_i,
  input  logic                ask_i,
  input  member_t             from_i,
  input  logic                leave_i,
  // A change was decided, in an instance of this age.
  input  logic                decided_i,
  input  member_t             decided_proposer_i,
  input  change_t             decided_change_i,
  input  age_t                decided_age_i,
  // All decisions of an instance of this age have been released.
  input  logic                closed_i,
  input  age_t                closed_age_i,
  // Epoch and members of the instance of the current round. If `ahead_o` is not 0, the members change in that many
  // rounds.
  output rounds_epoch_t       epoch_o,
  output members_t            members_o,
  output logic          [5:0] ahead_o,
  output members_t            next_o,
  // The nodes that a message of this round must reach.
  output members_t            audience_o,
  // The node was removed, and all instances in which it took part are over.
  output logic                left_o,
  // The round that begins is the first with new members.
  output logic                changes_o
);

  typedef logic [4:0] rounds_t;

  rounds_epoch_t epoch_q;
  members_t members_q, former_q, next_q, joining_q, silent;
  logic [3:0] ahead_q;
  logic begun_q, leaving_q, proposed_q;
  // Rounds since the last change of members, saturated; rounds since the node last proposed a change.
  rounds_t since_q;
  age_t proposed_age_q;
  // For each node: rounds since a message of it was last received, or since it became a member.
  logic [RoundsNodes-1:0][7:0] unheard_q;
  // For each node: the members that accuse it, according to decided changes.
  members_t [RoundsNodes-1:0] accusers_q, accusers;
  // A decided change passes through two cycles after its arrival: its accusations are counted, then it applies.
  logic known_q, applies_q;
  change_t known_change_q;
  logic [3:0] known_ahead_q, applies_ahead_q;
  members_t added_q, goes_q;

  // Computed in the previous cycle, which is safe because nothing else changes when a round begins: the set with this
  // node, and the nodes that it accuses already.
  members_t self, accused_q;
  logic accused_self_q;
  members_t decided_members, coming, goes;
  member_count_t decided_count;
  member_count_t holders_q;  // quorum of the current members
  logic eligible, known, counts, fits;

  // verilator lint_off UNUSEDSIGNAL
  quorums_t quorums;
  // verilator lint_on UNUSEDSIGNAL
  assign quorums = quorums_of(members_q);
  assign epoch_o = epoch_q;
  assign members_o = members_q;
  assign ahead_o = 6'(ahead_q);
  assign next_o = ahead_q != '0 ? next_q : '0;
  assign coming = members_q | next_o;
  assign audience_o = (coming | (since_q >> $clog2(RoundsWindow) == '0 ? former_q : '0)) & ~self;
  assign left_o = (members_q & self) == '0 && since_q >> $clog2(2 * RoundsWindow) != '0;
  assign changes_o = advance_i && begun_q && ahead_q == 4'd1;

  always_comb begin
    for (int unsigned i = 0; i < RoundsNodes; i++) silent[i] = unheard_q[i] > silence_i;
    silent &= ~self & ~accused_q;
  end

  // There is room for another member.
  assign fits = count_members(members_q) < member_count_t'(RoundsMembersMax);
  assign eligible = ahead_q == '0 && !proposed_q && (members_q & self) != '0;
  assign change_o.add = joining_q & ~members_q;
  assign change_o.remove = (members_q & silent) | (leaving_q && !accused_self_q ? self & members_q : '0);
  assign change_valid_o = eligible && change_o != '0;

  // A change that was decided before the last one took effect is ignored.
  assign known = decided_i && ahead_q == '0 && rounds_t'(decided_age_i) <= since_q;

  always_comb begin
    for (int unsigned i = 0; i < RoundsNodes; i++) begin
      accusers[i] = accusers_q[i] | (decided_change_i.remove[i] ? only(decided_proposer_i) : '0);
      goes[i] = accusers_q[i][i] || count_members(accusers_q[i] & members_q) >= holders_q;
    end
  end

  assign decided_members = (members_q | added_q) & ~(goes_q & members_q);
  assign decided_count = count_members(decided_members);
  assign counts = applies_q && decided_members != members_q && decided_count != '0
      && decided_count <= member_count_t'(RoundsMembersMax);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      epoch_q    <= '0;
      members_q  <= '0;
      former_q   <= '0;
      ahead_q    <= '0;
      joining_q  <= '0;
      begun_q    <= 1'b0;
      leaving_q  <= 1'b0;
      proposed_q <= 1'b0;
      since_q    <= '0;
    end else if (start_i) begin
      epoch_q    <= start_epoch_i;
      members_q  <= start_members_i;
      former_q   <= start_members_i;
      ahead_q    <= '0;
      joining_q  <= '0;
      // A node that starts with a round of its own does both in one cycle.
      begun_q    <= advance_i;
      leaving_q  <= 1'b0;
      proposed_q <= 1'b0;
      since_q    <= '0;
    end else begin
      if (advance_i) begun_q <= 1'b1;
      if (advance_i && begun_q) begin
        if (since_q != '1) since_q <= since_q + 1'b1;
        if (ahead_q != '0) ahead_q <= ahead_q - 1'b1;
        if (changes_o) begin
          since_q   <= '0;
          epoch_q   <= epoch_q + 1'b1;
          former_q  <= members_q;
          members_q <= next_q;
        end
      end
      if (counts) ahead_q <= applies_ahead_q;
      if (announce_i && eligible) joining_q <= '0;
      else if (ask_i && (coming & only(from_i)) == '0 && fits) joining_q <= joining_q | only(from_i);
      if (announce_i && change_valid_o) proposed_q <= 1'b1;
      else if (closed_i && proposed_q && closed_age_i == proposed_age_q) proposed_q <= 1'b0;
      if (leave_i) leaving_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    self <= only(node_i);
    for (int unsigned i = 0; i < RoundsNodes; i++) accused_q[i] <= accusers_q[i][node_i];
    accused_self_q <= accusers_q[node_i][node_i];
    holders_q <= quorums.holders;
    if (start_i || counts) accusers_q <= '0;
    else if (known) accusers_q <= accusers;
    // A change that is decided right after one that applies is ignored.
    known_q         <= rst_ni && known && !counts && !start_i;
    known_change_q  <= decided_change_i;
    known_ahead_q   <= 4'(RoundsChangeDelay) - decided_age_i;
    applies_q       <= rst_ni && known_q && !counts && !start_i;
    applies_ahead_q <= known_ahead_q;
    added_q         <= known_change_q.add & ~known_change_q.remove;
    goes_q          <= goes;
    if (counts) next_q <= decided_members;
    if (announce_i && change_valid_o) proposed_age_q <= '0;
    else if (advance_i) proposed_age_q <= proposed_age_q + 1'b1;
    for (int unsigned i = 0; i < RoundsNodes; i++) begin
      if (start_i || (changes_o && next_q[i] && !members_q[i]) || (hear_i && from_i == member_t'(i)))
        unheard_q[i] <= '0;
      else if (advance_i && begun_q && unheard_q[i] != '1) unheard_q[i] <= unheard_q[i] + 1'b1;
    end
  end

endmodule
