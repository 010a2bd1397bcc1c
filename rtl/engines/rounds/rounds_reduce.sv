// The all-reduce as an algorithm of rounds: in every round the sum and the maximum of one number for each member.
//
// Twin of crates/engines/rounds/src/reduce.rs. In a round each member proposes its number, 8 bytes; in the next round
// it reports its reduction of the numbers that it received. If the reports of all members are equal, the reduction is
// decided in place of a proposal; otherwise the round has no result. The ports are those of rounds_consensus; ports
// that only the consensus needs are unused.
//
// Latency: a message's number takes effect 3 cycles after the message, and the round must not end before that
// (`busy_o`). Throughput: a message every cycle. Order: of rounds. Stalls: when its messages do.
module rounds_reduce
  import engines_pkg::*;
  import rounds_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
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
  input  logic                           begin_i,
  input  logic                           own_i,
  output logic            [AreaBits-1:0] area_o,
  // A peer's message of this round, and whether it is invalid.
  input  logic                           receive_i,
  input  member_t                        from_i,
  input  logic            [AreaBits-1:0] area_i,
  output logic                           contradiction_o,
  // The round ends. `end_i` must be low while messages are still being processed (`busy_o`). `fails_o`: the algorithm
  // cannot continue.
  output logic                           busy_o,
  input  logic                           end_i,
  output logic                           fails_o,
  // Proposals that the node has for the instance of the current round, and the age of the newest instance in which it
  // takes part.
  input  members_t                       row_i,
  input  age_t                           newest_i,
  input  proposal_write_t                write_i,
  // Where the algorithm's note is stored when the message leaves.
  input  proposal_place_t                note_place_i,
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
  // verilator lint_on UNUSEDSIGNAL
);

  localparam int unsigned ReductionBits = $bits(reduction_t);

  // Encoding: one bit marks Idle.
  typedef enum logic [2:0] {
    Idle   = 3'd4,
    Look   = 3'd0,  // whether a caller waits for the outcome of this node's number
    Decide,
    Tell,           // answers that caller
    Close
  } state_e;

  state_e state_q;
  round_t first_q, instance_q;
  // This node's reductions of the current and of the last round, and the members that reported an equal one.
  reduction_t running_q, last_q;
  members_t agreeing_q;
  // The round before the last. It is closed with this result if the result has a contributor.
  logic pending_q;
  reduction_t result_q;
  proposal_place_t place_q;
  // A caller waits for the outcome of this node's number.
  logic asked_q;

  // The next number to be added: its sender, and whether it is present.
  logic received_q, adds_q, counts_q;
  member_t from_q, member_q;
  logic [63:0] number_q;
  proposal_place_t read_place;

  (* ram_style = "distributed" *)
  logic [63:0] numbers[1<<$bits(proposal_place_t)];
  (* ram_style = "distributed" *)
  logic eight[1<<$bits(proposal_place_t)];

  assign read_place = begin_i ? place_i : {1'b0, round_i[3:0], from_q};

  always_ff @(posedge clk_i) begin
    if (write_i.beat && write_i.index == '0) numbers[write_i.place] <= turn_64(write_i.begins);
    if (write_i.length) eight[write_i.place] <= write_i.bytes == proposal_bytes_t'(RoundsNumberBytes);
  end

  // A member's report of the last round; its spare bytes are ignored.
  logic [ReductionBits-1:0] told, last;
  assign told = area_i[ReductionBits-1:0];
  assign last = ReductionBits'(reduction_words(last_q));

  assign busy_o = received_q || adds_q;
  assign area_o = AreaBits'(reduction_words(last_q));
  assign contradiction_o = 1'b0;
  assign fails_o = 1'b0;

  // Decisions.

  logic some, complete, done;

  assign some = result_q.contributors != '0;
  assign complete = (members_i & ~(last_q.heard & agreeing_q)) == '0;
  assign note_valid_o = pending_q && some;
  assign note_o = reduction_words(result_q);
  // Three cycles after the end of the round, every member that gave a number learns that it was included.
  always_ff @(posedge clk_i) begin
    proposer_o <= result_q.contributors[node_i] ? node_i : lowest(result_q.contributors);
  end
  assign next_o = instance_q;
  assign age_o  = age_t'(2);
  assign idle_o = state_q[2];

  always_comb begin
    unique case (state_q)
      Decide:  send_valid_o = subscribed_i;
      Tell:    send_valid_o = 1'b1;
      Close:   send_valid_o = asked_q;
      default: send_valid_o = 1'b0;
    endcase
    send_o = answer(caller_i, state_q == Tell ? RoundsOk : RoundsDropped, context_i, instance_q);
    if (state_q == Decide) begin
      send_o = decided_value(subscriber_i, instance_q, proposer_o, 1'b0, proposal_bytes_t'(RoundsNoteBytes), place_q);
    end
  end

  assign done = !send_valid_o || send_ready_i;
  assign told_o = (state_q == Tell || state_q == Close) && send_valid_o && send_ready_i;
  assign decided_o = state_q == Decide && done;
  assign decided_proposer_o = proposer_o;
  assign closed_o = state_q == Close && done;

  // Members do not change, and proposals are never fetched.
  assign decides_change_o = 1'b0;
  assign decided_change_o = '0;
  assign asking_o = 1'b0;
  assign held_o = '0;
  assign lacking_o = '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      state_q    <= Idle;
      pending_q  <= 1'b0;
      received_q <= 1'b0;
      adds_q     <= 1'b0;
      running_q  <= '0;
      last_q     <= '0;
      agreeing_q <= only(node_i);
    end else begin
      unique case (state_q)
        Idle: if (go_i && pending_q) state_q <= Look;
        Look: state_q <= some ? Decide : Close;
        Decide: if (done) state_q <= proposer_o == node_i && asked_q ? Tell : Close;
        Tell: if (done) state_q <= Close;
        default: if (done) state_q <= Idle;
      endcase
      received_q <= receive_i;
      adds_q     <= received_q || begin_i;
      if (end_i) begin
        pending_q  <= round_i != first_q;
        running_q  <= '0;
        last_q     <= running_q;
        agreeing_q <= only(node_i);
      end else begin
        if (closed_o) pending_q <= 1'b0;
        if (adds_q) begin
          running_q.heard[member_q] <= 1'b1;
          if (counts_q) begin
            running_q.contributors[member_q] <= 1'b1;
            running_q.total <= running_q.total + number_q;
            if (number_q > running_q.maximum) running_q.maximum <= number_q;
          end
        end
        if (receive_i && told == last) agreeing_q[from_i] <= 1'b1;
      end
    end
    if (clear_i) first_q <= first_i;
    if (end_i) begin
      instance_q <= round_i - 1'b1;
      result_q   <= complete ? last_q : '0;
    end
    if (begin_i) place_q <= note_place_i;
    if (state_q == Look) asked_q <= asked_i;
    else if (told_o) asked_q <= 1'b0;
    from_q   <= from_i;
    member_q <= begin_i ? node_i : from_q;
    number_q <= numbers[read_place];
    counts_q <= eight[read_place] && (!begin_i || own_i);
  end

endmodule
