// Gives out what is decided, in order, and asks for what of it is lacking.
//
// An instance is released when it is decided, all before it are, and all proposals of its decision are here; then these go out
// in the order of their proposers. Of each instance that lacks some, they are asked of one member that has any, another one in
// every round. Here is kept whose proposals the node has, and what instances have decided that have left the window.
//
// Latency: the first value 2 cycles after `go_i`; if something is lacking, one cycle later for each instance that is not released.
// Throughput: a value every cycle, a cycle more where its caller is told, and one for each instance. Order: of instances. Stalls:
// when its messages do.
module round_releases
  import engines_pkg::*;
  import rounds_pkg::*;
(
  input  logic                               clk_i,
  input  logic                               rst_ni,
  // Forgets all; the next instance is `first_i`.
  input  logic                               clear_i,
  input  round_t                             first_i,
  input  member_t                            node_i,
  input  round_t                             round_i,
  input  instance_t       [RoundsWindow-1:0] instances_i,
  // The round ends: the instance that leaves, and whose proposals the node has of the round's own.
  input  logic                               end_round_i,
  input  instance_t                          leaving_i,
  input  members_t                           row_i,
  // Asks for what is lacking if `fetch_i`, and releases what can be released.
  input  logic                               go_i,
  input  logic                               fetch_i,
  output logic                               idle_o,
  // What instances know must stay as it is, since it may still be asked about.
  output logic                               asking_o,
  // A proposal of an instance of some age: whether it is here, whether it is lacking; and it has come.
  input  age_t                               look_age_i,
  input  member_t                            look_proposer_i,
  output logic                               held_o,
  output logic                               lacking_o,
  input  logic                               value_i,
  // The proposal that is to be given out, and what others know of it.
  output round_t                             next_o,
  output age_t                               age_o,
  output member_t                            proposer_o,
  input  proposal_place_t                    place_i,
  input  proposal_bytes_t                    length_i,
  input  logic                               change_i,
  // Of this node's own: someone waits for what becomes of it, and is told.
  input  logic                               asked_i,
  input  caller_t                            caller_i,
  output logic                               told_o,
  input  rounds_context_t                    context_i,
  // Who is told of all.
  input  logic                               subscribed_i,
  input  caller_t                            subscriber_i,
  output logic                               send_valid_o,
  input  logic                               send_ready_i,
  output rounds_send_t                       send_o,
  // Something is decided; all of an instance is released.
  output logic                               decided_o,
  output logic                               closed_o
);

  typedef enum logic [2:0] {
    Idle,
    Ask,      // the instance of age `ask_q`
    Look,
    Release,
    Tell,     // the caller of the proposal that has just been released
    Close
  } state_e;

  typedef logic [$clog2(RoundsWindow)-1:0] place_t;

  typedef struct packed {
    logic           valid;
    members_t       decision;
    members_t       members;
    members_t [7:0] rows;
  } left_t;

  state_e state_q;
  round_t next_q;
  age_t age_q, ask_q;
  members_t todo_q;
  // Whose proposals are here: of instances in the window, and of those that have left it.
  members_t [RoundsWindow-1:0] held_q;
  members_t [RoundsWindow-1:0] left_held_q;

  (* ram_style = "distributed" *)
  left_t left[RoundsWindow];

  // The instance that leaves is as old as the window is long, so it has the number of the round in so few bits.
  place_t leaves_at;
  assign leaves_at = place_t'(round_i);
  always_ff @(posedge clk_i) begin
    if (end_round_i) left[leaves_at] <= '{leaving_i.valid, leaving_i.decision, leaving_i.members, leaving_i.rows};
  end

  // The instance that is looked at: one that a peer speaks of, one that may lack something, or the next to be released.

  age_t age;
  logic in_window, decided;
  place_t place, left_place;
  left_t left_one;
  members_t decision, held, lacking, members;
  members_t [RoundsNodes-1:0] rows;

  assign age = state_q == Idle ? look_age_i : state_q == Ask ? ask_q : age_q;
  assign in_window = age <= age_t'(RoundsWindow);
  assign place = place_t'(RoundsWindow - 32'(age));
  assign left_place = place_t'(round_i) - place_t'(age);
  assign left_one = left[left_place];
  always_comb begin
    if (in_window) begin
      decided  = instances_i[place].decided && age != '0;
      decision = instances_i[place].decision;
      members  = instances_i[place].members;
      rows     = instances_i[place].rows;
      held     = held_q[place];
    end else begin
      decided  = left_one.valid;
      decision = left_one.decision;
      members  = left_one.members;
      rows     = left_one.rows;
      held     = left_held_q[left_place];
    end
    // Of the round's own instance it is not decided what will be held.
    if (age == '0) held = row_i;
  end
  assign lacking = decided ? decision & ~held : '0;
  assign held_o = look_age_i < age_t'(2 * RoundsWindow) && held[look_proposer_i];
  assign lacking_o = look_age_i < age_t'(2 * RoundsWindow) && lacking[look_proposer_i];

  // Whether anything may be lacking: an instance that has left the window unreleased, or one of those in it.
  logic lacks;
  always_comb begin
    lacks = age_q > age_t'(RoundsWindow);
    for (int unsigned i = 0; i < RoundsWindow; i++) begin
      if (instances_i[i].decided && (instances_i[i].decision & ~held_q[i]) != '0) lacks = 1'b1;
    end
  end
  assign asking_o = state_q == Ask;

  // Whom to ask: of those that have any of it, or else of all, the one whose turn it is.

  members_t any_holder, candidates;
  member_count_t count;
  member_t rank, source;

  always_comb begin
    for (int unsigned k = 0; k < RoundsNodes; k++) any_holder[k] = (rows[k] & lacking) != '0;
    candidates = (any_holder != '0 ? any_holder : members) & ~only(node_i);
    count = count_members(candidates);
    rank = turn_of(round_i[5:0], node_i, count);
    source = nth(candidates, rank);
  end

  // (round modulo 64 + node) modulo count; each of the first two remainders is a table of few inputs.
  function automatic member_t turn_of(logic [5:0] round, member_t node, member_count_t of);
    member_t turn = '0;
    for (int unsigned m = 2; m < RoundsNodes; m++) begin
      logic [3:0] sum = 4'(round % 6'(m)) + 4'(node % 3'(m));
      if (of == member_count_t'(m)) turn = member_t'(sum >= 4'(m) ? sum - 4'(m) : sum);
    end
    return turn;
  endfunction

  function automatic member_t nth(members_t set, member_t place_in_it);
    members_t rest = set;
    for (int unsigned i = 0; i < RoundsNodes - 1; i++) if (i < 32'(place_in_it)) rest &= rest - 1'b1;
    return lowest(rest);
  endfunction

  // What goes out.

  logic asks, done, last, some, own;

  assign proposer_o = lowest(todo_q);
  assign own = proposer_o == node_i;
  assign some = length_i != '0;
  assign last = (todo_q & (todo_q - 1'b1)) == '0;
  assign asks = lacking != '0 && candidates != '0;

  always_comb begin
    unique case (state_q)
      Ask: send_valid_o = asks;
      Release: send_valid_o = todo_q != '0 && some && subscribed_i;
      Tell: send_valid_o = 1'b1;
      Close: send_valid_o = asked_i;
      default: send_valid_o = 1'b0;
    endcase
    unique case (state_q)
      Ask: send_o = signal(only(source), RoundsMessageFetch, 7'd16, fetch_head(round_i - round_t'(ask_q), lacking));
      Release: begin
        send_o = answer(subscriber_i, RoundsOk, context_i, next_q);
        send_o.message = RoundsDecided;
        send_o.head_bytes = 7'(RoundsHeadBytes);
        send_o.head = value_head(next_q, proposer_o, change_i, length_i);
        send_o.bytes = length_i;
        send_o.place = place_i;
      end
      default: send_o = answer(caller_i, state_q == Tell ? RoundsOk : RoundsDropped, context_i, next_q);
    endcase
  end

  assign done = !send_valid_o || send_ready_i;
  assign told_o = (state_q == Tell || state_q == Close) && send_valid_o && send_ready_i;
  assign decided_o = state_q == Release && todo_q != '0 && some && done;
  assign closed_o = state_q == Close && done;
  assign idle_o = state_q == Idle;
  assign next_o = next_q;
  assign age_o = age_q;

  always_ff @(posedge clk_i) begin
    unique case (state_q)
      Idle: ask_q <= age_q;
      Ask: if (done) ask_q <= ask_q - 1'b1;
      Look: todo_q <= decision;
      Release: if (done) todo_q <= todo_q & (todo_q - 1'b1);
      default: ;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      state_q     <= Idle;
      age_q       <= '0;
      held_q      <= '0;
      left_held_q <= '0;
    end else begin
      unique case (state_q)
        Idle: if (go_i) state_q <= fetch_i && lacks ? Ask : Look;
        Ask: if (done && ask_q == age_t'(1)) state_q <= Look;
        Look: state_q <= decided && lacking == '0 ? Release : Idle;
        Release:
        if (done) begin
          if (todo_q != '0 && own && asked_i && some && !change_i) state_q <= Tell;
          else if (last) state_q <= Close;
        end
        Tell: if (done) state_q <= todo_q == '0 ? Close : Release;
        default: if (done) state_q <= Look;
      endcase
      if (closed_o) age_q <= age_q - 1'b1;
      if (end_round_i) begin
        age_q                  <= age_q + 1'b1;
        held_q                 <= {row_i, held_q[RoundsWindow-1:1]};
        left_held_q[leaves_at] <= held_q[0];
      end else if (value_i) begin
        if (in_window) held_q[place][look_proposer_i] <= 1'b1;
        else left_held_q[left_place][look_proposer_i] <= 1'b1;
      end
    end
    if (clear_i) next_q <= first_i;
    else if (closed_o) next_q <= next_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(end_round_i && state_q != Idle))
      else $error("a round ends while values of the one before are given out");
    end
  end

endmodule
