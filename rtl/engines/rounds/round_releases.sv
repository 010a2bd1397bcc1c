// Releases decisions in order, and fetches the proposals that the node lacks for them.
//
// An instance is released when it is decided, all earlier instances are released, and all proposals of its decision
// have arrived. These then leave in the order of their proposers. For each instance that lacks proposals, the node
// asks one member that has some; if that did not help, it asks all of them in every round. This block also stores
// which members' proposals the node has, and the decisions of instances that have left the window.
//
// Latency: the first value 4 cycles after `go_i`; with missing proposals, two cycles more for each instance that is
// not released. Throughput: a value every cycle, one cycle more if its caller is answered, and four for each
// instance. Order: of instances. Stalls: when its messages do.
module round_releases
  import engines_pkg::*;
  import rounds_pkg::*;
(
  input  logic                               clk_i,
  input  logic                               rst_ni,
  // Clears everything; the next instance is `first_i`.
  input  logic                               clear_i,
  input  round_t                             first_i,
  input  member_t                            node_i,
  input  round_t                             round_i,
  input  instance_t       [RoundsWindow-1:0] instances_i,
  // End of the round: the instance that leaves the window, and the proposals that the node has for the instance of
  // the round.
  input  logic                               end_round_i,
  input  instance_t                          leaving_i,
  input  members_t                           row_i,
  // Age of the newest instance in which the node takes part.
  input  age_t                               newest_i,
  // Asks for missing proposals if `fetch_i`, then releases as many instances as possible.
  input  logic                               go_i,
  input  logic                               fetch_i,
  output logic                               idle_o,
  // Instances must not change meanwhile, because requests about them are still being made.
  output logic                               asking_o,
  // Lookup of an instance by age, while nothing is released: present and missing proposals, one cycle later. Also
  // used for proposals that arrive as Values.
  input  age_t                               look_age_i,
  // its number, modulo the number of remembered instances
  input  logic            [             2:0] look_slot_i,
  output members_t                           held_o,
  output members_t                           lacking_o,
  input  logic                               value_i,
  input  member_t                            value_proposer_i,
  // The instance that is being released, its next proposal, and what other blocks know about that proposal.
  output round_t                             next_o,
  output age_t                               age_o,
  output member_t                            proposer_o,
  input  proposal_place_t                    place_i,
  input  proposal_bytes_t                    length_i,
  input  logic                               change_i,
  input  change_t                            content_i,
  // For this node's own proposals: a caller waits for the outcome, and is to be answered.
  input  logic                               asked_i,
  input  caller_t                            caller_i,
  output logic                               told_o,
  input  rounds_context_t                    context_i,
  // The client that subscribed to all decisions.
  input  logic                               subscribed_i,
  input  caller_t                            subscriber_i,
  output logic                               send_valid_o,
  input  logic                               send_ready_i,
  output rounds_send_t                       send_o,
  // Pulses: a proposal is decided (its proposer, and whether it is a change of members); all of an instance is
  // released.
  output logic                               decided_o,
  output member_t                            decided_proposer_o,
  output logic                               decides_change_o,
  output change_t                            decided_change_o,
  output logic                               closed_o
);

  // Encoding: one bit marks Idle, another one the states that ask for proposals.
  typedef enum logic [4:0] {
    Idle    = 5'd16,
    Ask     = 5'd8,   // finds what the instance of age `ask_q` lacks
    Holders,          // finds the members that have any of it
    Whom,             // selects the members that may have it
    Turn,             // selects the member whose turn it is
    Walk,             // steps to that member
    Fetch,
    Look    = 5'd0,   // looks at the next instance to be released
    Judge,            // decides whether it can be released
    Release,          // releases the proposal found, while the next one is looked up
    Tell,             // answers the caller of the proposal that has just been released
    Close
  } state_e;

  localparam int unsigned Remembered = 2 * RoundsWindow;

  typedef logic [$clog2(RoundsWindow)-1:0] place_t;
  typedef logic [$clog2(Remembered)-1:0] left_place_t;

  typedef struct packed {
    members_t       decision;
    members_t       members;
    members_t [7:0] rows;
  } left_t;

  typedef struct packed {
    member_t         proposer;
    proposal_place_t place;
    proposal_bytes_t length;
    logic            change;
    change_t         content;
  } found_t;

  state_e state_q;
  round_t next_q;
  age_t age_q, ask_q;
  left_place_t ask_slot_q;
  members_t todo_q;
  member_t proposer_q;  // the lowest proposer in `todo_q`
  // The proposal found before that one.
  logic found_valid_q;
  found_t found_q;
  // Next request: the missing proposals, the members that have any of them, and the members to ask.
  members_t wanted_q, holders_q, targets_q;
  member_t rank_q;
  // Proposals that the node has: for instances in the window, and for those that have left it.
  members_t [RoundsWindow-1:0] held_q;
  members_t [Remembered-1:0] left_held_q;
  // For each instance: missing proposals have been requested once.
  logic [RoundsWindow-1:0] asked_q;
  logic [Remembered-1:0] left_asked_q;

  (* ram_style = "distributed" *)
  left_t left[Remembered];

  left_place_t leaves_at;
  logic leaves;
  assign leaves_at = left_place_t'(round_i) - left_place_t'(RoundsWindow);
  assign leaves = end_round_i && leaving_i.valid;
  always_ff @(posedge clk_i) begin
    if (leaves) left[leaves_at] <= '{leaving_i.decision, leaving_i.members, leaving_i.rows};
  end

  // The instance that is looked at: the one that a peer asks about, the one that may lack proposals, or the next to
  // be released.

  age_t age;
  logic asks, in_window, decided, again;
  place_t place;
  left_place_t left_place;
  left_t left_one;
  members_t decision, held, lacking, members;
  members_t [RoundsNodes-1:0] rows;

  assign asks = state_q == Ask || state_q == Holders || state_q == Whom;
  assign age = state_q == Idle ? look_age_i : asks ? ask_q : age_q;
  // An instance that has left the window is stored by its number, which is the round less its age.
  assign left_place = state_q == Idle ? look_slot_i : asks ? ask_slot_q : left_place_t'(next_q);
  assign place = -place_t'(age);
  assign left_one = left[left_place];
  always_comb begin
    in_window = 1'b0;
    for (int unsigned i = 0; i <= RoundsWindow; i++) if (age == age_t'(i)) in_window = 1'b1;
  end
  always_comb begin
    if (in_window) begin
      decided  = instances_i[place].decided && age != '0;
      decision = instances_i[place].decision;
      members  = instances_i[place].members;
      rows     = instances_i[place].rows;
      held     = held_q[place];
      again    = asked_q[place];
    end else begin
      decided  = age >= newest_i;
      decision = left_one.decision;
      members  = left_one.members;
      rows     = left_one.rows;
      held     = left_held_q[left_place];
      again    = left_asked_q[left_place];
    end
    // For the instance of the current round, the set is not final.
    if (age == '0) held = row_i;
  end
  assign lacking = decided ? decision & ~held : '0;
  // Results of the previous cycle.
  logic decided_q;
  members_t decision_q, lacking_q;
  assign lacking_o = lacking_q;
  always_ff @(posedge clk_i) begin
    held_o     <= held;
    lacking_q  <= lacking;
    decided_q  <= decided;
    decision_q <= decision;
  end

  // Whether any proposal may be missing: of an unreleased instance that has left the window, or of one in it.
  logic lacks;
  always_comb begin
    lacks = age_q > age_t'(RoundsWindow);
    for (int unsigned i = 0; i < RoundsWindow; i++) begin
      if (instances_i[i].decided && (instances_i[i].decision & ~held_q[i]) != '0) lacks = 1'b1;
    end
  end
  assign asking_o = state_q[3];

  // Members to ask: first the next one of those that have any of it (or, if none is known, of all members), later
  // all.

  members_t holders, behind_lowest;

  always_comb begin
    for (int unsigned k = 0; k < RoundsNodes; k++) holders[k] = (rows[k] & lacking_q) != '0;
  end

  // (round modulo 64 + node) modulo count: the remainders of both terms come from tables with few inputs.
  typedef logic [63:0][2:0] table_t;

  function automatic table_t remainders(int unsigned by);
    table_t made;
    for (int unsigned i = 0; i < 64; i++) made[i] = 3'(i % by);
    return made;
  endfunction

  function automatic member_t turn_of(logic [5:0] round, member_t node, member_count_t of);
    member_t turn = '0;
    for (int unsigned m = 2; m < RoundsNodes; m++) begin
      table_t table_of_m = remainders(m);
      logic [3:0] sum = 4'(table_of_m[round]) + 4'(table_of_m[6'(node)]);
      if (of == member_count_t'(m)) turn = member_t'(sum >= 4'(m) ? sum - 4'(m) : sum);
    end
    return turn;
  endfunction

  assign behind_lowest = targets_q & (targets_q - 1'b1);

  // Outgoing messages.

  logic done, finds, some, tells;
  members_t rest;

  assign proposer_o = proposer_q;
  assign rest = todo_q & (todo_q - 1'b1);
  // A proposal of no bytes is empty and not reported.
  assign some = found_valid_q && found_q.length != '0;
  assign tells = some && found_q.proposer == node_i && asked_i && !found_q.change;
  assign finds = state_q == Release && (!some || !subscribed_i || send_ready_i);

  always_comb begin
    unique case (state_q)
      Fetch: send_valid_o = targets_q != '0;
      Release: send_valid_o = some && subscribed_i;
      Tell: send_valid_o = 1'b1;
      Close: send_valid_o = asked_i;
      default: send_valid_o = 1'b0;
    endcase
    unique case (state_q)
      Fetch: send_o = signal(targets_q, RoundsMessageFetch, 7'd16, fetch_head(round_i - round_t'(ask_q), wanted_q));
      Release:
      send_o = decided_value(subscriber_i, next_q, found_q.proposer, found_q.change, found_q.length, found_q.place);
      default: send_o = answer(caller_i, state_q == Tell ? RoundsOk : RoundsDropped, context_i, next_q);
    endcase
  end

  assign done = !send_valid_o || send_ready_i;
  assign told_o = (state_q == Tell || state_q == Close) && send_valid_o && send_ready_i;
  assign decided_o = finds && some;
  assign decided_proposer_o = found_q.proposer;
  assign decides_change_o = found_q.change;
  assign decided_change_o = found_q.content;
  assign closed_o = state_q == Close && done;
  assign idle_o = state_q[4];
  assign next_o = next_q;
  assign age_o = age_q;

  always_ff @(posedge clk_i) begin
    unique case (state_q)
      Idle: begin
        ask_q      <= age_q;
        ask_slot_q <= left_place_t'(next_q);
      end
      Holders: begin
        wanted_q  <= lacking_q;
        holders_q <= holders;
        if (lacking_q == '0) begin
          ask_q      <= ask_q - 1'b1;
          ask_slot_q <= ask_slot_q + 1'b1;
        end
      end
      Whom:    targets_q <= (holders_q != '0 ? holders_q : members) & ~only(node_i);
      Turn:    rank_q <= turn_of(round_i[5:0], node_i, count_members(targets_q));
      Walk: begin
        targets_q <= rank_q == '0 ? targets_q & ~behind_lowest : behind_lowest;
        rank_q    <= rank_q - 1'b1;
      end
      Fetch:
      if (done) begin
        ask_q      <= ask_q - 1'b1;
        ask_slot_q <= ask_slot_q + 1'b1;
      end
      Judge: begin
        todo_q        <= decision_q;
        proposer_q    <= lowest(decision_q);
        found_valid_q <= 1'b0;
      end
      Release:
      if (finds) begin
        todo_q        <= rest;
        proposer_q    <= lowest(rest);
        found_valid_q <= todo_q != '0;
        found_q       <= '{proposer_q, place_i, length_i, change_i, content_i};
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      state_q     <= Idle;
      age_q       <= '0;
      held_q      <= '0;
      left_held_q <= '0;
      asked_q     <= '0;
    end else begin
      unique case (state_q)
        Idle: if (go_i) state_q <= fetch_i && lacks ? Ask : Look;
        Ask: state_q <= Holders;
        Holders: begin
          if (lacking_q != '0) state_q <= Whom;
          else state_q <= ask_q == age_t'(1) ? Look : Ask;
        end
        Whom: state_q <= again ? Fetch : Turn;
        Turn: state_q <= Walk;
        Walk: if (rank_q == '0) state_q <= Fetch;
        Fetch: if (done) state_q <= ask_q == age_t'(1) ? Look : Ask;
        Look: state_q <= Judge;
        Judge: state_q <= decided_q && lacking_q == '0 ? Release : Idle;
        Release:
        if (finds) begin
          if (tells) state_q <= Tell;
          else if (todo_q == '0) state_q <= Close;
        end
        Tell: if (done) state_q <= found_valid_q ? Release : Close;
        default: if (done) state_q <= Look;
      endcase
      if (closed_o) age_q <= age_q - 1'b1;
      if (end_round_i) begin
        age_q   <= age_q + 1'b1;
        held_q  <= {row_i, held_q[RoundsWindow-1:1]};
        asked_q <= {1'b0, asked_q[RoundsWindow-1:1]};
        if (leaves) left_held_q[leaves_at] <= held_q[0];
        if (leaves) left_asked_q[leaves_at] <= asked_q[0];
      end else if (state_q == Whom) begin
        if (in_window) asked_q[place] <= 1'b1;
        else left_asked_q[left_place] <= 1'b1;
      end else if (value_i) begin
        if (in_window) held_q[place][value_proposer_i] <= 1'b1;
        else left_held_q[left_place][value_proposer_i] <= 1'b1;
      end
    end
    if (clear_i) next_q <= first_i;
    else if (closed_o) next_q <= next_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(end_round_i && state_q != Idle))
      else $error("a round ends while values of the one before are given out");
      assert (state_q == Idle || left_place_t'(next_q) == left_place_t'(round_i) - left_place_t'(age_q))
      else $error("the next instance is not as old as it should be");
    end
  end

endmodule
