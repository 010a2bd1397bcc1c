// The consensus as an algorithm of rounds: the instances in flight, and the release of their decisions.
//
// The ports are those of every algorithm (rounds_reduce is another one), in the order of their use in a round: the
// area of the round's own message, the areas of the others' messages, the end of the round, the decisions. A node
// takes part in an instance from the instance's round to the end of the window. The decision is released in order,
// when all its proposals have arrived.
//
// Latency, throughput: those of consensus_window and round_releases. A round must not end while `busy_o` is high.
module rounds_consensus
  import engines_pkg::*;
  import rounds_pkg::*;
(
  input  logic                           clk_i,
  input  logic                           rst_ni,
  input  member_t                        node_i,
  // Clears everything; the node begins with round `first_i`.
  input  logic                           clear_i,
  input  round_t                         first_i,
  // The current round and the members of its instance.
  input  round_t                         round_i,
  input  members_t                       members_i,
  // The message of the round leaves, with this area. `own_i`: it carries a proposal of this node, in slot `place_i`.
  // verilator lint_off UNUSEDSIGNAL
  input  logic                           begin_i,
  input  logic                           own_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic            [AreaBits-1:0] area_o,
  // A peer's message of this round, and whether it is invalid.
  input  logic                           receive_i,
  input  member_t                        from_i,
  input  logic            [AreaBits-1:0] area_i,
  output logic                           contradiction_o,
  // The round ends. `end_i` must be low while messages are still being processed (`busy_o`). `fails_o`: the algorithm
  // cannot continue, so the node must fence itself.
  output logic                           busy_o,
  input  logic                           end_i,
  output logic                           fails_o,
  // Proposals that the node has for the instance of the current round, and the age of the newest instance in which it
  // takes part.
  input  members_t                       row_i,
  input  age_t                           newest_i,
  // verilator lint_off UNUSEDSIGNAL
  input  proposal_write_t                write_i,
  // Where the algorithm's note is stored when the message leaves.
  input  proposal_place_t                note_place_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic                           note_valid_o,
  output note_t                          note_o,
  // Asks for missing proposals if `fetch_i`, then releases as many instances as possible. While it asks (`asking_o`),
  // no message of a round may arrive.
  input  logic                           go_i,
  input  logic                           fetch_i,
  output logic                           idle_o,
  output logic                           asking_o,
  // Lookup of the instance that a peer asks about, while nothing is released: present and missing proposals, one
  // cycle later.
  input  age_t                           look_age_i,
  input  logic            [         2:0] look_slot_i,
  output members_t                       held_o,
  output members_t                       lacking_o,
  input  logic                           value_i,
  input  member_t                        value_proposer_i,
  // The instance that is being released, and what other blocks know about its proposals.
  output round_t                         next_o,
  output age_t                           age_o,
  output member_t                        proposer_o,
  input  proposal_place_t                place_i,
  input  proposal_bytes_t                length_i,
  input  logic                           change_i,
  input  change_t                        content_i,
  input  logic                           asked_i,
  input  caller_t                        caller_i,
  output logic                           told_o,
  input  rounds_context_t                context_i,
  input  logic                           subscribed_i,
  input  caller_t                        subscriber_i,
  output logic                           send_valid_o,
  input  logic                           send_ready_i,
  output rounds_send_t                   send_o,
  output logic                           decided_o,
  output member_t                        decided_proposer_o,
  output logic                           decides_change_o,
  output change_t                        decided_change_o,
  output logic                           closed_o
);

  instance_t [RoundsWindow-1:0] instances;
  instance_t leaving;
  // Number of instances in which the node takes part and that are not released.
  logic [3:0] outstanding_q;

  consensus_window i_window (
    .clk_i,
    .rst_ni,
    .node_i,
    .clear_i,
    .receive_i,
    .from_i,
    .area_i,
    .end_round_i(end_i),
    .row_i,
    .members_i,
    .area_o,
    .instances_o(instances),
    .leaving_o  (leaving),
    .contradiction_o
  );

  // Fails if the oldest instance leaves undecided, or if its slot is needed while an older instance is not released.
  assign fails_o = (leaving.valid && !leaving.decided) || outstanding_q == 4'(2 * RoundsWindow);

  always_ff @(posedge clk_i) begin
    busy_o <= rst_ni && receive_i;
    if (!rst_ni || clear_i) outstanding_q <= '0;
    else if (begin_i) outstanding_q <= outstanding_q + 4'((members_i & only(node_i)) != '0);
    else if (closed_o) outstanding_q <= outstanding_q - 1'b1;
  end

  // Only proposals are decided, so there is no note.
  assign note_valid_o = 1'b0;
  assign note_o = '0;

  round_releases i_releases (
    .clk_i,
    .rst_ni,
    .clear_i,
    .first_i,
    .node_i,
    .round_i,
    .instances_i(instances),
    .end_round_i(end_i),
    .leaving_i  (leaving),
    .row_i,
    .newest_i,
    .go_i,
    .fetch_i,
    .idle_o,
    .asking_o,
    .look_age_i,
    .look_slot_i,
    .held_o,
    .lacking_o,
    .value_i,
    .value_proposer_i,
    .next_o,
    .age_o,
    .proposer_o,
    .place_i,
    .length_i,
    .change_i,
    .content_i,
    .asked_i,
    .caller_i,
    .told_o,
    .context_i,
    .subscribed_i,
    .subscriber_i,
    .send_valid_o,
    .send_ready_i,
    .send_o,
    .decided_o,
    .decided_proposer_o,
    .decides_change_o,
    .decided_change_o,
    .closed_o
  );

endmodule
