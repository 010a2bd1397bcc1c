// The all-reduce as an algorithm of rounds: the sum and the maximum of one number per member, for every round.
//
// The twin of crates/engines/rounds/src/reduce.rs. In a round each member proposes its number, 8 bytes; in the next
// one it tells what it makes of those that it heard. If all members tell the same, that is decided in place of a
// proposal; if not, the round has no result. It has the ports of rounds_consensus; what that alone needs is not used.
//
// Latency: a message's number counts 3 cycles after it, and a round may not end before that (`busy_o`). Throughput: a
// message every cycle. Order: of rounds. Stalls: when its messages do.
module rounds_reduce
  import engines_pkg::*;
  import rounds_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic                           clk_i,
  input  logic                           rst_ni,
  input  member_t                        node_i,
  // Forgets all; the node begins with round `first_i`.
  input  logic                           clear_i,
  input  round_t                         first_i,
  // The present round and the members of its instance.
  input  round_t                         round_i,
  input  members_t                       members_i,
  // The message of the round leaves, with this area; and with a proposal of this node, which `place_i` tells.
  input  logic                           begin_i,
  input  logic                           own_i,
  output logic            [AreaBits-1:0] area_o,
  // A peer's message of this round, and whether it is invalid.
  input  logic                           receive_i,
  input  member_t                        from_i,
  input  logic            [AreaBits-1:0] area_i,
  output logic                           contradiction_o,
  // The end of the round, not while what came in it is still looked at; and the algorithm cannot go on behind it.
  output logic                           busy_o,
  input  logic                           end_i,
  output logic                           fails_o,
  // Proposals that the node has of the present round, and the age of the newest instance in which it takes part.
  input  members_t                       row_i,
  input  age_t                           newest_i,
  input  proposal_write_t                write_i,
  // The algorithm's own words are stored there when the message leaves.
  input  proposal_place_t                note_place_i,
  output logic                           note_valid_o,
  output note_t                          note_o,
  // Releases what can be released, and asks for missing proposals if `fetch_i`; while it asks no message of a round may
  // come.
  input  logic                           go_i,
  input  logic                           fetch_i,
  output logic                           idle_o,
  output logic                           asking_o,
  // Of the instance of a peer's question, while nothing is released: present and missing proposals, a cycle later.
  input  age_t                           look_age_i,
  input  logic            [         2:0] look_slot_i,
  output members_t                       held_o,
  output members_t                       lacking_o,
  input  logic                           value_i,
  input  member_t                        value_proposer_i,
  // Released decisions, and the knowledge of others about them.
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

  // One bit marks idle.
  typedef enum logic [2:0] {
    Idle   = 3'd4,
    Look   = 3'd0,  // whether a caller waits for what becomes of this node's number
    Decide,
    Tell,           // that caller
    Close
  } state_e;

  state_e state_q;
  round_t first_q, instance_q;
  // This node's reduction of the present round and of the last one, and the members with the same one.
  reduction_t running_q, last_q;
  members_t agreeing_q;
  // Of the round before the last: it is to be closed, with this result if somebody contributes to it.
  logic pending_q;
  reduction_t result_q;
  proposal_place_t place_q;
  // The caller of this node's number waits for the outcome.
  logic asked_q;

  // The number that comes next: of whom, and whether there is one.
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

  // A member's report of the last round; its spare bytes have no meaning.
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
  // All members that gave a number learn that it counts, three cycles after the end of the round.
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

  // Members do not change, and no proposal is asked for again.
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
