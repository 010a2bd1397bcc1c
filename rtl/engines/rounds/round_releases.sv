// Gives out what is decided, in order, and asks for what of it is lacking.
//
// An instance is released when it is decided, all before it are, and all proposals of its decision are here; then they go to
// the subscriber in the order of their proposers. When the oldest waits for proposals, each is asked of one member that has
// it, another one in every round. Who has proposals is kept here, and what the instances have decided that have left the window.
//
// Latency: the first value 2 cycles after `go_i`. Throughput: a value every cycle, and one cycle more for each instance. Order: of
// instances. Stalls: when its messages do.
module round_releases
  import engines_pkg::*;
  import rounds_pkg::*;
(
  input  logic                               clk_i,
  input  logic                               rst_ni,
  input  logic                               clear_i,
  input  member_t                            node_i,
  input  round_t                             round_i,
  input  instance_t       [RoundsWindow-1:0] instances_i,
  // The round ends: the instance that leaves, and whose proposals the node has of the round's own.
  input  logic                               end_round_i,
  input  instance_t                          leaving_i,
  input  members_t                           row_i,
  // Releases what can be; and asks for the rest.
  input  logic                               go_i,
  input  logic                               fetch_i,
  output logic                               idle_o,
  // It may yet ask, by what instances know now.
  output logic                               asking_o,
  // The oldest that is not released, and its age.
  output round_t                             next_o,
  output age_t                               age_o,
  // A proposal that has been fetched: whether it is wanted; and it is here.
  input  round_t                             value_instance_i,
  input  member_t                            value_proposer_i,
  output logic                               value_wanted_o,
  input  logic                               value_i,
  // Whether a proposal of an instance of some age is here.
  input  age_t                               asked_age_i,
  input  member_t                            asked_proposer_i,
  output logic                               asked_held_o,
  // Which proposal it looks at, and what the store has of it.
  output round_t                             place_instance_o,
  output member_t                            place_proposer_o,
  input  proposal_place_t                    place_i,
  input  proposal_bytes_t                    length_i,
  input  logic                               change_i,
  // To whom.
  input  logic                               subscribed_i,
  input  caller_t                            subscriber_i,
  output logic                               send_valid_o,
  input  logic                               send_ready_i,
  output rounds_send_t                       send_o,
  // A value leaves; a change of the members is decided, the first of its instance and of those that count.
  output logic                               released_o,
  output logic                               changed_o
);

  typedef enum logic [1:0] {
    Idle,
    Look,
    Release,
    Fetch
  } state_e;

  typedef logic [$clog2(RoundsWindow)-1:0] place_t;

  typedef struct packed {
    members_t       decision;
    members_t       members;
    members_t [7:0] rows;
  } left_t;

  state_e state_q;
  logic fetch_q;
  round_t next_q;
  age_t age_q;
  members_t todo_q;
  // Whose proposals are here: in the window, and behind it.
  members_t [RoundsWindow-1:0] held_q;
  members_t [RoundsWindow-1:0] left_held_q;

  // Those that have left and are not released, by their numbers.
  (* ram_style = "distributed" *)
  left_t left[RoundsWindow];
  left_t left_head;
  assign left_head = left[next_q[$bits(place_t)-1:0]];
  // The oldest in the window is as old as the window is long, in the round that ends.
  place_t leaves_at;
  assign leaves_at = round_i[$bits(place_t)-1:0];
  always_ff @(posedge clk_i) begin
    if (end_round_i) left[leaves_at] <= '{leaving_i.decision, leaving_i.members, leaving_i.rows};
  end

  // The oldest that is not released.

  logic in_window, decided;
  place_t place;
  members_t decision, held, lacking, members;
  members_t [RoundsNodes-1:0] rows;

  assign in_window = age_q <= age_t'(RoundsWindow);
  assign place = place_t'(RoundsWindow - 32'(age_q));
  always_comb begin
    if (in_window) begin
      decided  = instances_i[place].decided && age_q != '0;
      decision = instances_i[place].decision;
      members  = instances_i[place].members;
      rows     = instances_i[place].rows;
      held     = held_q[place];
    end else begin
      decided  = 1'b1;
      decision = left_head.decision;
      members  = left_head.members;
      rows     = left_head.rows;
      held     = left_held_q[next_q[$bits(place_t)-1:0]];
    end
  end
  assign lacking = decision & ~held;

  assign value_wanted_o = decided && value_instance_i == next_q && lacking[value_proposer_i];

  // Whether something is asked for before the state is `Idle` again: of those in the window, or, to be sure, of one behind it.
  always_comb begin
    asking_o = state_q != Idle && !in_window;
    for (int unsigned i = 0; i < RoundsWindow; i++) begin
      if (state_q != Idle && instances_i[i].decided && (instances_i[i].decision & ~held_q[i]) != '0) asking_o = 1'b1;
    end
  end

  // Requests of peers.

  members_t asked_held;
  place_t   asked_at;
  assign asked_at = place_t'(round_i - round_t'(asked_age_i));
  always_comb begin
    if (asked_age_i <= age_t'(RoundsWindow)) asked_held = held_q[place_t'(RoundsWindow-32'(asked_age_i))];
    else asked_held = left_held_q[asked_at];
    asked_held_o = asked_held[asked_proposer_i];
  end

  // What leaves.

  member_t proposer, source;
  members_t holders, others, candidates, behind;
  logic done, last;

  assign proposer = lowest(todo_q);
  assign last = (todo_q & (todo_q - 1'b1)) == '0;
  assign place_instance_o = next_q;
  assign place_proposer_o = proposer;

  always_comb begin
    for (int unsigned k = 0; k < RoundsNodes; k++) holders[k] = rows[k][proposer];
    others = members & ~only(node_i);
    candidates = others & holders;
    if (candidates == '0) candidates = others;
    // Cyclic, from another one in every round.
    behind = candidates & (members_t'('1) << round_i[2:0]);
    source = lowest(behind != '0 ? behind : candidates);
  end

  always_comb begin
    send_o = '0;
    send_o.head.round = turn_64(next_q);
    // The proposer lies where a round has its epoch.
    send_o.head.epoch = {8'd0, 5'd0, proposer};
    if (state_q == Fetch) begin
      send_o.to = only(source);
      send_o.message = RoundsMessageFetch;
      send_o.head_bytes = 7'd16;
    end else begin
      send_o.reply = 1'b1;
      send_o.caller = subscriber_i;
      send_o.message = RoundsReplyDecided;
      send_o.head_bytes = 7'(RoundsHeadBytes);
      send_o.bytes = length_i;
      send_o.place = place_i;
      send_o.head.flags[RoundsFlagChange] = change_i;
      send_o.head.bytes = turn_16(16'(length_i));
    end
  end

  assign send_valid_o = state_q == Fetch || (state_q == Release && todo_q != '0 && length_i != '0 && subscribed_i);
  assign done = !send_valid_o || send_ready_i;
  assign released_o = state_q == Release && todo_q != '0 && length_i != '0 && done;
  assign changed_o = released_o && change_i;
  assign idle_o = state_q == Idle;
  assign next_o = next_q;
  assign age_o = age_q;

  always_ff @(posedge clk_i) begin
    unique case (state_q)
      Idle: fetch_q <= fetch_i;
      Look: todo_q <= lacking == '0 ? decision : lacking;
      default: if (done) todo_q <= todo_q & (todo_q - 1'b1);
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || clear_i) begin
      state_q <= Idle;
      next_q  <= '0;
      age_q   <= '0;
      held_q  <= '0;
    end else begin
      unique case (state_q)
        Idle: if (go_i) state_q <= Look;
        Look: begin
          if (!decided) state_q <= Idle;
          else if (lacking == '0) state_q <= Release;
          else state_q <= fetch_q ? Fetch : Idle;
        end
        Release:
        if (done && last) begin
          state_q <= Look;
          next_q  <= next_q + 1'b1;
          age_q   <= age_q - 1'b1;
        end
        default: if (done && last) state_q <= Idle;
      endcase
      if (end_round_i) begin
        age_q  <= age_q + 1'b1;
        held_q <= {row_i, held_q[RoundsWindow-1:1]};
      end else if (value_i && in_window) begin
        held_q[place][value_proposer_i] <= 1'b1;
      end
    end
    if (end_round_i) left_held_q[leaves_at] <= held_q[0];
    else if (value_i && !in_window) left_held_q[next_q[$bits(place_t)-1:0]][value_proposer_i] <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(end_round_i && state_q != Idle))
      else $error("a round ends while values of the one before are given out");
    end
  end

endmodule
