// The rounds engine. Twin of crates/engines/rounds, whose documentation describes the protocol.
//
// Time is divided into rounds. In each round a node sends one message to every other member (round_broadcaster). The
// message carries the node's proposal for the instance that begins with the round, and the area of the algorithm
// (rounds_consensus, rounds_reduce) for earlier instances. The node receives one such message from every other member
// (round_parser). A message of the next round waits in its sender's slot until that round begins. When a round ends
// (round_timer), the algorithm takes a step; its decisions leave in order, and the callers of proposals are answered
// (round_requests). Members change by decisions (round_membership).
//
// Latency, when nothing waits: 4 cycles from the event of a round's end to the next round's message, and until the
// first message of that round takes effect; by then all instances have been stepped, decided, closed and opened. 2
// cycles from a message's event until it takes effect. Throughput: a message every cycle; one with a proposal takes
// as many cycles as it has beats. Order: events take effect in order; messages leave in the order of their causes.
// Stalls: all events, while a new round processes messages that arrived early, while missing proposals are requested,
// and while a Fetch is answered; all events but messages of rounds, while values are released.
module rounds
  import weft_pkg::*;
  import engines_pkg::*;
  import rounds_pkg::*;
#(
  parameter int unsigned       ProposalBytes = RoundsProposalBytes,
  parameter logic        [7:0] Algorithm     = RoundsAlgorithmConsensus
) (
  input logic clk_i,
  input logic rst_ni,
  input cycles_t now_i,
  // Events, each followed by its payload if it has bytes.
  input logic event_valid_i,
  output logic event_ready_o,
  input engine_event_t event_i,
  input logic payload_valid_i,
  output logic payload_ready_o,
  input beat_t payload_i,
  // Taken with EventConfigure.
  // verilator lint_off UNUSEDSIGNAL
  input engine_configuration_t configuration_i,
  // verilator lint_on UNUSEDSIGNAL
  // Constant after reset, in cycles, at most 31 bits: the length of a round, unless a call sets another, and the
  // shortest path delay between nodes.
  input cycles_t period_i,
  input cycles_t one_way_i,
  input logic [7:0] silence_i,  // rounds after which a member from which nothing is received is to be removed
  output engine_status_t status_o,
  // Messages, each followed by its payload, which has no gaps.
  output logic message_valid_o,
  input logic message_ready_i,
  output engine_message_t message_o,
  output logic body_valid_o,
  input logic body_ready_i,
  output beat_t body_o,
  // Sets or moves a timer; never stalls.
  output logic timer_valid_o,
  output logic [4:0] timer_tag_o,
  output cycles_t timer_at_o,
  // Memory port that every engine has. Unused, because proposals are stored on the chip.
  output logic memory_aw_valid_o,
  input logic memory_aw_ready_i,
  output axi_address_t memory_aw_o,
  output logic memory_w_valid_o,
  input logic memory_w_ready_i,
  output write_beat_t memory_w_o,
  input logic memory_b_valid_i,
  input logic [1:0] memory_b_response_i,
  output logic memory_ar_valid_o,
  input logic memory_ar_ready_i,
  output axi_address_t memory_ar_o,
  input logic memory_r_valid_i,
  output logic memory_r_ready_o,
  input axi_read_t memory_r_i,
  output rounds_events_t events_o,
  // The engine has nothing to do; its timers are kept outside.
  output logic idle_o
);

  // Phase of the node.
  rounds_phase_e phase_q;
  epoch_t configured_q;
  member_t node_q;
  // The members to start with, or the nodes to ask for admission. `asking_q`: a joining node has begun to ask.
  members_t contacts_q;
  logic asking_q;
  members_t self, others;  // the set with this node, and the contacts without it
  logic running;
  assign running = phase_q == RoundsRunning;

  // The current round, if one has begun, and the next.
  logic begun_q;
  round_t round_q, next_round_q;
  // Of the current round: members whose message was received, and members whose proposal was. Of the next round:
  // members whose message waits.
  members_t heard_q, had_q, early_q;
  // Members whose early message for the current round is still to be processed, except the one being processed.
  members_t replay_q;
  logic replay_waits_q;  // the set is not empty
  logic replaying_q;
  member_t replay_from_q;
  members_t replay_rest;
  assign replay_rest = replay_q & (replay_q - 1'b1);
  // The current operation is the message that has begun round 0.
  logic founded_q;
  // Proposals that the Fetch being answered still needs.
  logic serving_q;
  members_t serve_q, serve;
  member_t serve_proposer_q;  // the lowest proposer in the set

  logic subscribed_q;
  caller_t subscriber_q;

  typedef enum logic [1:0] {
    Listen,
    Announce,  // a round has begun: its message is sent
    Answer     // the second message in answer to a Start
  } state_e;

  state_e state_q;
  logic
      op_ready, op_runs, taken, clear, enter, advance, end_round, arm, fence, leave, accept, keep_early, observe, value;
  logic ends, founds, go, fetch, put, hear_subscriber, rejoin, ask, announces, stops;
  round_t first;
  rounds_epoch_t enter_epoch;
  members_t enter_members;
  cycles_t arm_at;
  rounds_context_t about;

  // ===== Operations =====

  rounds_op_t op;
  logic op_valid, op_fresh, op_may_run, beat_valid, malformed, malformed_round, stranger, parser_idle;
  member_t malformed_from;
  logic [2:0] beat_index;
  logic [BeatBits-1:0] beat;

  round_parser #(
    .ProposalBytes(ProposalBytes),
    .Algorithm    (Algorithm)
  ) i_parser (
    .clk_i,
    .rst_ni,
    .event_valid_i,
    .event_ready_o,
    .event_i,
    .payload_valid_i,
    .payload_ready_o,
    .payload_i,
    .round_i          (round_q),
    .next_round_i     (next_round_q),
    .op_o             (op),
    .op_valid_o       (op_valid),
    .op_ready_i       (op_ready),
    .op_follows_i     (op_runs && op.kind == RoundsOpRound && running),
    .op_fresh_o       (op_fresh),
    .op_may_run_i     (op_may_run),
    .beat_valid_o     (beat_valid),
    .beat_index_o     (beat_index),
    .beat_o           (beat),
    .malformed_o      (malformed),
    .malformed_round_o(malformed_round),
    .malformed_from_o (malformed_from),
    .stranger_o       (stranger),
    .idle_o           (parser_idle)
  );

  // A message of the current round: directly from the parser, or from its sender's slot.

  typedef struct packed {
    members_t            members;
    rounds_epoch_t       epoch;
    logic [AreaBits-1:0] area;
  } early_t;

  (* ram_style = "distributed" *)
  early_t early[RoundsNodes];
  early_t arriving, applied, waited_q;
  member_t applied_from;
  logic replaying, replays, same_epoch, current, following, late, is_contact;

  assign replaying = replaying_q || replay_waits_q;
  assign arriving = '{members: op.head.members, epoch: turn_16(op.head.epoch), area: op.area};
  assign applied_from = replaying_q ? replay_from_q : op.from;
  assign applied = replaying_q ? waited_q : arriving;
  assign is_contact = contacts_q[op.from];
  assign current = founded_q || (begun_q && op.current);
  assign following = !founded_q && op.following;
  assign late = op.late;

  always_ff @(posedge clk_i) begin
    if (keep_early) early[op.from] <= arriving;
    if (!replaying_q || replays) waited_q <= early[lowest(replay_q)];
  end

  // ===== Members =====

  rounds_epoch_t epoch;
  localparam logic DecidesChanges = Algorithm != RoundsAlgorithmReduce;

  members_t members, next_members, audience;
  logic wants_change;
  logic [5:0] ahead;
  logic is_member, has_left, change_valid, changes, decided, closed;
  change_t change, look_content, decided_change;
  age_t release_age;
  logic stored_change, look_change, decides_change;
  member_t release_proposer, decided_proposer;

  // Members whose messages are accepted, valid in all cycles but those in which a round begins.
  members_t speakers_q;
  always_ff @(posedge clk_i) speakers_q <= audience;

  assign change_valid = wants_change && DecidesChanges;
  assign is_member = (members & self) != '0;
  assign same_epoch = applied.epoch == epoch && applied.members == members;
  assign about = '{phase: phase_q, epoch: epoch, members: members};

  round_membership i_membership (
    .clk_i,
    .rst_ni,
    .node_i            (node_q),
    .silence_i,
    .start_i           (enter),
    .start_epoch_i     (enter_epoch),
    .start_members_i   (enter_members),
    .advance_i         (advance),
    .announce_i        (announces && DecidesChanges),
    .change_valid_o    (wants_change),
    .change_o          (change),
    .hear_i            (accept),
    .ask_i             (ask),
    .from_i            (applied_from),
    .leave_i           (leave),
    .decided_i         (decided && decides_change),
    .decided_proposer_i(decided_proposer),
    .decided_change_i  (decided_change),
    .decided_age_i     (release_age),
    .closed_i          (closed),
    .closed_age_i      (release_age),
    .epoch_o           (epoch),
    .members_o         (members),
    .ahead_o           (ahead),
    .next_o            (next_members),
    .audience_o        (audience),
    .left_o            (has_left),
    .changes_o         (changes)
  );

  // ===== The algorithm =====

  members_t row;
  logic [AreaBits-1:0] area;
  logic contradiction, busy, fails;
  // The algorithm's note, which is stored in place of a proposal of this node.
  logic noted;
  note_t note;
  proposal_write_t write;

  assign row = is_member ? had_q | self : '0;

  // ===== Time =====

  // The length of future rounds, and whether a call has set it.
  cycles_t period_q, period, round_begin;
  logic period_set_q, period_fits, set_period;
  assign period = cycles_t'(turn_32(beat[31:0]));
  assign period_fits = period >= cycles_t'(RoundsPeriodMin) && period <= cycles_t'(RoundsPeriodMax)
      && period > one_way_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || (taken && op.kind == RoundsOpReset)) period_set_q <= 1'b0;
    else if (set_period) period_set_q <= 1'b1;
    if (set_period) period_q <= period;
    else if (!period_set_q) period_q <= period_i;
  end

  // Members whose message was missing in the last round and has not arrived since.
  members_t missed_q, lags_known;
  logic measure, overdue, counts_late;
  lag_t lag, largest_lag;
  lag_t [RoundsNodes-1:0] lags;
  assign overdue = !founded_q && op.recent && op.behind == age_t'(1);

  logic expired, trimmed;
  cycles_t deadline, begin_of_sender, implied_begin;
  logic [5:0] rounds_until;
  // Results of long paths for a message before the first round, computed in the previous cycle.
  logic [36:0] until_q;
  logic near_q;

  // Estimate of when the sender of this message began its round (not before the true time); and the number of rounds
  // until this node's next one.
  assign rounds_until = running ? next_round_q[5:0] - 6'(turn_64(op.head.round)) : op.head.ahead;
  logic before_time;
  cycles_t sent;
  assign {before_time, sent} = {1'b0, now_i} - {1'b0, one_way_i};
  assign begin_of_sender = before_time ? '0 : sent;
  assign implied_begin = begin_of_sender + cycles_t'(until_q);

  always_ff @(posedge clk_i) begin
    until_q <= 37'(period_q[30:0]) * 37'(rounds_until);
    near_q  <= next_round_q - turn_64(op.head.round) < 64'd64;
  end

  // The end of the round before the first, as given by a Start (a caller's or another node's) or by a message of a
  // round.
  always_comb begin
    unique case (op.kind)
      RoundsOpCall: arm_at = now_i + one_way_i;
      RoundsOpStart: arm_at = now_i;
      default: arm_at = phase_q == RoundsReady ? begin_of_sender : implied_begin;
    endcase
  end

  round_timer i_timer (
    .clk_i,
    .now_i,
    .period_i  (period_q),
    .one_way_i,
    .renew_i   (set_period),
    .arm_i     (arm),
    .arm_at_i  (arm_at),
    .advance_i (advance),
    .observe_i (observe),
    .early_i   (following),
    .late_i    (overdue),
    .lag_o     (lag),
    .begin_o   (round_begin),
    .deadline_o(deadline),
    .expired_o (expired),
    .trimmed_o (trimmed)
  );

  round_lags i_lags (
    .clk_i,
    .rst_ni,
    .clear_i  (enter || set_period),
    .measure_i(measure),
    .from_i   (op.from),
    .lag_i    (lag),
    .lags_o   (lags),
    .known_o  (lags_known),
    .largest_o(largest_lag)
  );

  // ===== Proposals =====

  logic full, waiting, takes, own_some, asked, told, drain_valid, drain_ready, drain_begun, draining;
  proposal_place_t put_place, take_place, change_place, own_place;
  caller_t asked_caller;
  round_t  drain_instance;

  // The proposal whose slot is looked up.
  round_t look_instance, release_next;
  member_t look_proposer, value_proposer;
  logic look_own;
  proposal_place_t look_place, write_place, read_place;
  proposal_bytes_t stored_length, look_length;
  logic write_length, keep_beats, read;
  logic [BeatBits-1:0] write_data;
  logic [2:0] read_index;
  logic [BeatBits-1:0] read_data;

  round_requests i_requests (
    .clk_i,
    .rst_ni,
    .clear_i         (taken && op.kind == RoundsOpReset),
    .round_i         (round_q),
    .full_o          (full),
    .put_place_o     (put_place),
    .put_i           (put),
    .put_caller_i    (op.caller),
    .waiting_o       (waiting),
    .take_place_o    (take_place),
    .change_place_o  (change_place),
    .begin_i         (announces),
    .begin_change_i  (change_valid),
    .begin_take_i    (takes),
    .instance_i      (look_instance[3:0]),
    .some_o          (own_some),
    .place_o         (own_place),
    .asked_o         (asked),
    .caller_o        (asked_caller),
    .told_i          (told),
    .drain_i         (stops),
    .drain_valid_o   (drain_valid),
    .drain_ready_i   (drain_ready),
    .drain_begun_o   (drain_begun),
    .drain_instance_o(drain_instance),
    .draining_o      (draining)
  );

  assign takes = is_member && !change_valid && waiting;

  always_comb begin
    look_length = stored_length;
    look_change = stored_change;
    if (state_q == Announce) begin
      look_place = take_place;
    end else if (look_own) begin
      look_place = own_place;
      if (!own_some) begin
        look_length = '0;
        look_change = 1'b0;
      end
    end else begin
      look_place = {1'b0, look_instance[3:0], look_proposer};
    end
  end

  always_comb begin
    unique case (op.kind)
      RoundsOpCall: write_place = put_place;
      RoundsOpValue: write_place = {1'b0, op.head.round[59:56], value_proposer};
      default: write_place = {1'b0, op.head.round[59:56], op.from};
    endcase
    write = '{
        place: write_place,
        beat: beat_valid && keep_beats,
        index: beat_index,
        begins: beat[63:0],
        length: write_length,
        bytes: op.bytes
    };
    write_data = beat;
    if (announces) begin
      write.place  = change_place;
      write.beat   = change_valid || noted;
      write.index  = '0;
      write.length = change_valid || noted;
      write.bytes  = proposal_bytes_t'(noted ? RoundsNoteBytes : RoundsChangeBytes);
      write_data   = noted ? BeatBits'(note) : BeatBits'(change);
    end
  end

  proposal_store #(
    .ProposalBytes(ProposalBytes)
  ) i_store (
    .clk_i,
    .write_i       (write.beat),
    .write_place_i (write.place),
    .write_index_i (write.index),
    .write_data_i  (write_data),
    .write_length_i(write.length),
    .length_i      (write.bytes),
    .change_i      (announces ? change_valid : op.change),
    .place_i       (look_place),
    .length_o      (stored_length),
    .change_o      (stored_change),
    .content_o     (look_content),
    .read_i        (read),
    .read_place_i  (read_place),
    .read_index_i  (read_index),
    .read_data_o   (read_data)
  );

  // ===== Decisions =====

  logic releases_idle, asking, remembered_q, is_other_q, release_valid, release_ready;
  // Proposals held and missing for the instance of a Fetch or a Value. Valid from the second cycle on in which
  // nothing else happens.
  members_t held, lacking;
  logic settled, settled_q, looked, hears, wanted, round_runs, is_new, serves;
  rounds_send_t release_send;
  age_t look_age;
  // Rounds since the last one whose instance the node takes part in; 0 unless the node is leaving.
  age_t leaving_q;

  assign look_age = op.behind;
  assign value_proposer = op.head.epoch[2:0];
  assign wanted = remembered_q && lacking[value_proposer];

  // From an operation's second cycle on: whether the node still remembers its instance, and whether its sender is no
  // member.
  always_ff @(posedge clk_i) begin
    remembered_q <= begun_q && op.recent && op.behind >= leaving_q
        && 5'(op.behind) < 5'(leaving_q) + 5'(2 * RoundsWindow);
    is_other_q <= op.from != node_q;
  end

  // All algorithms have the same ports.
  if (Algorithm == RoundsAlgorithmReduce) begin : g_reduce
    rounds_reduce i_algorithm (
      .clk_i,
      .rst_ni,
      .node_i            (node_q),
      .clear_i           (clear),
      .first_i           (first),
      .round_i           (round_q),
      .members_i         (members),
      .begin_i           (announces),
      .own_i             (takes),
      .area_o            (area),
      .receive_i         (accept),
      .from_i            (applied_from),
      .area_i            (applied.area),
      .contradiction_o   (contradiction),
      .busy_o            (busy),
      .end_i             (end_round),
      .fails_o           (fails),
      .row_i             (row),
      .newest_i          (leaving_q),
      .write_i           (write),
      .note_place_i      (change_place),
      .note_valid_o      (noted),
      .note_o            (note),
      .go_i              (go),
      .fetch_i           (fetch),
      .idle_o            (releases_idle),
      .asking_o          (asking),
      .look_age_i        (look_age),
      .look_slot_i       (op.head.round[58:56]),
      .held_o            (held),
      .lacking_o         (lacking),
      .value_i           (value),
      .value_proposer_i  (value_proposer),
      .next_o            (release_next),
      .age_o             (release_age),
      .proposer_o        (release_proposer),
      .place_i           (look_place),
      .length_i          (look_length),
      .change_i          (look_change),
      .content_i         (look_content),
      .asked_i           (asked),
      .caller_i          (asked_caller),
      .told_o            (told),
      .context_i         (about),
      .subscribed_i      (subscribed_q),
      .subscriber_i      (subscriber_q),
      .send_valid_o      (release_valid),
      .send_ready_i      (release_ready),
      .send_o            (release_send),
      .decided_o         (decided),
      .decided_proposer_o(decided_proposer),
      .decides_change_o  (decides_change),
      .decided_change_o  (decided_change),
      .closed_o          (closed)
    );
  end else begin : g_consensus
    rounds_consensus i_algorithm (
      .clk_i,
      .rst_ni,
      .node_i            (node_q),
      .clear_i           (clear),
      .first_i           (first),
      .round_i           (round_q),
      .members_i         (members),
      .begin_i           (announces),
      .own_i             (takes),
      .area_o            (area),
      .receive_i         (accept),
      .from_i            (applied_from),
      .area_i            (applied.area),
      .contradiction_o   (contradiction),
      .busy_o            (busy),
      .end_i             (end_round),
      .fails_o           (fails),
      .row_i             (row),
      .newest_i          (leaving_q),
      .write_i           (write),
      .note_place_i      (change_place),
      .note_valid_o      (noted),
      .note_o            (note),
      .go_i              (go),
      .fetch_i           (fetch),
      .idle_o            (releases_idle),
      .asking_o          (asking),
      .look_age_i        (look_age),
      .look_slot_i       (op.head.round[58:56]),
      .held_o            (held),
      .lacking_o         (lacking),
      .value_i           (value),
      .value_proposer_i  (value_proposer),
      .next_o            (release_next),
      .age_o             (release_age),
      .proposer_o        (release_proposer),
      .place_i           (look_place),
      .length_i          (look_length),
      .change_i          (look_change),
      .content_i         (look_content),
      .asked_i           (asked),
      .caller_i          (asked_caller),
      .told_o            (told),
      .context_i         (about),
      .subscribed_i      (subscribed_q),
      .subscriber_i      (subscriber_q),
      .send_valid_o      (release_valid),
      .send_ready_i      (release_ready),
      .send_o            (release_send),
      .decided_o         (decided),
      .decided_proposer_o(decided_proposer),
      .decides_change_o  (decides_change),
      .decided_change_o  (decided_change),
      .closed_o          (closed)
    );
  end

  // ===== Control =====

  // Whether the host's configuration makes this node a founder or lets it join again; computed in the previous cycle.
  logic fitting, founds_q, rejoins_q, contradiction_q;
  assign fitting = (phase_q == RoundsIdle || phase_q == RoundsFenced || phase_q == RoundsLeft)
      && configuration_i.epoch > configured_q && configuration_i.full[NodesMax-1:RoundsNodes] == '0
      && !configuration_i.node[3]
      && count_members(
      configuration_i.full[RoundsNodes-1:0]
  ) <= member_count_t'(RoundsMembersMax);
  always_ff @(posedge clk_i) begin
    rejoins_q <= fitting && configuration_i.joining[configuration_i.node];
    founds_q  <= fitting && !configuration_i.joining[configuration_i.node] && configuration_i.full[configuration_i.node]
        && configuration_i.epoch == 32'd1 && phase_q == RoundsIdle;
    contradiction_q <= rst_ni && contradiction;
  end

  logic send_valid, send_ready;
  rounds_send_t send, announcement;
  rounds_status_e verdict;
  logic is_foreign;
  rounds_events_t events;

  always_comb begin
    announcement = signal(audience, RoundsMessageRound, 7'(RoundsHeadBytes), '0);
    if (change_valid) begin
      announcement.bytes = proposal_bytes_t'(RoundsChangeBytes);
      announcement.place = change_place;
    end else if (takes) begin
      announcement.bytes = look_length;
      announcement.place = look_place;
    end
    announcement.head = {
      next_members,
      Algorithm,
      turn_16(16'(announcement.bytes)),
      ahead,
      1'b0,
      change_valid,
      members,
      turn_16(epoch),
      turn_64(round_q)
    };
    announcement.area = area;
  end

  // Quorums of the current members.
  // verilator lint_off UNUSEDSIGNAL
  quorums_t quorums;
  // verilator lint_on UNUSEDSIGNAL
  member_count_t decision_quorum_q;
  assign quorums = quorums_of(members);
  always_ff @(posedge clk_i) decision_quorum_q <= quorums.decision;

  // The answer to the call Timing.
  logic [BeatBits-1:0] timings;
  always_comb begin
    timings = '0;
    timings[63:0] = begun_q ? turn_64(round_q) : '0;
    timings[127:64] = begun_q ? turn_64(64'(round_begin)) : '0;
    timings[159:128] = turn_32(period_q[31:0]);
    timings[191:160] = turn_32(one_way_i[31:0]);
    timings[223:192] = turn_32(largest_lag);
    timings[231:224] = 8'(node_q);
    timings[239:232] = missed_q & members & ~self;
    timings[247:240] = lags_known;
    timings[255:248] = members == '0 ? '0 : 8'(decision_quorum_q);
    for (int unsigned i = 0; i < RoundsNodes; i++) timings[256+32*i+:32] = turn_32(lags[i]);
  end

  // An operation that may change the released instances, or that sends a message, waits until all releases have been
  // sent. Except for the end of a round, it also waits one cycle for lookups.
  assign settled = state_q == Listen && !replaying && releases_idle;
  assign looked = settled_q && !op_fresh;
  // A message that may begin the node's first round waits one cycle for its checks.
  assign hears  = state_q == Listen && !replaying && (founded_q ? releases_idle : !asking)
      && ((running && begun_q) || !op_fresh);
  always_comb begin
    unique case (op.kind)
      RoundsOpRound: op_may_run = hears;
      // A round ends only when all its messages have been processed.
      RoundsOpTimer: op_may_run = settled && !busy;
      default: op_may_run = looked || state_q == Answer;
    endcase
    if (draining) op_may_run = 1'b0;
  end
  assign op_runs = op_valid && op_may_run;

  // The end of a round. A founder begins its first round at once.
  assign ends = op_valid && op.kind == RoundsOpTimer && running && expired && settled && !busy && !draining;
  assign fence = ends && begun_q && fails;
  assign end_round = ends && begun_q && !fails;
  assign advance = (ends && !fence) || founds;

  // A message of a round takes effect, is kept for the next round, or is an early one that takes effect now.
  assign round_runs = op_valid && op.kind == RoundsOpRound && !draining && hears;
  assign is_new = running && speakers_q[op.from] && (current ? !heard_q[op.from] : following && !early_q[op.from]);
  assign accept = (replays || (round_runs && is_new && current)) && same_epoch;
  assign keep_early = round_runs && is_new && !current;
  assign observe = round_runs && is_new && begun_q;
  assign measure = observe || counts_late;
  assign counts_late = round_runs && running && speakers_q[op.from] && overdue && missed_q[op.from];
  assign write_length = put || value || (round_runs && is_new && is_member);
  assign replays = replaying_q && state_q == Listen && !asking;
  assign taken = op_runs && op_ready;
  assign announces = state_q == Announce && !has_left && (send_ready || audience == '0);

  assign serves = remembered_q && held[serve_proposer_q] && is_other_q;
  assign serve = serving_q ? serve_q & (serve_q - 1'b1) : op.head.epoch[7:0];

  // Selects the instance to look up besides the one being released.
  always_comb begin
    look_instance = release_next;
    look_proposer = release_proposer;
    look_own = release_proposer == node_q;
    if (releases_idle) begin
      look_instance = turn_64(op.head.round);
      look_proposer = serve_proposer_q;
      look_own = serve_proposer_q == node_q;
    end
  end

  always_comb begin
    op_ready = 1'b0;
    send_valid = 1'b0;
    send = release_send;
    release_ready = 1'b0;
    drain_ready = 1'b0;
    clear = 1'b0;
    enter = 1'b0;
    enter_epoch = 16'd1;
    enter_members = contacts_q;
    first = '0;
    founds = 1'b0;
    arm = 1'b0;
    rejoin = 1'b0;
    ask = 1'b0;
    leave = 1'b0;
    value = 1'b0;
    put = 1'b0;
    hear_subscriber = 1'b0;
    set_period = 1'b0;
    go = 1'b0;
    fetch = 1'b0;
    verdict = RoundsOk;
    is_foreign = 1'b0;
    timer_valid_o = 1'b0;
    timer_at_o = deadline;
    events = '0;

    if (!releases_idle) begin
      send_valid = release_valid;
      release_ready = send_ready;
    end
    if (replays) begin
      events.dropped_contradiction = !same_epoch;
    end

    if (draining) begin
      send_valid = drain_valid;
      send = answer(
        asked_caller,
        phase_q == RoundsFenced && drain_begun ? RoundsRefusedFenced : RoundsNotRunning,
        about,
        drain_begun ? drain_instance : '0
      );
      drain_ready = send_ready;
    end else if (state_q == Announce) begin
      send_valid = audience != '0 && !has_left;
      send = announcement;
      timer_valid_o = announces;
      go = announces;
      fetch = announces;
    end else if (op_runs) begin
      op_ready = 1'b1;
      unique case (op.kind)
        RoundsOpReset: begin
          clear = 1'b1;
          enter = 1'b1;
          enter_epoch = '0;
          enter_members = '0;
        end

        RoundsOpConfigure: begin
          rejoin = rejoins_q;
          events.configurations_ignored = !rejoins_q && !founds_q;
        end

        RoundsOpTimer: begin
          if (running) begin
            if (ends && begun_q) events.unheard = count_members(members & ~self & ~heard_q);
          end else if (phase_q == RoundsJoining) begin
            send = signal(others, RoundsMessageJoin, 7'd8, '0);
            send_valid = others != '0;
            op_ready = send_ready;
            timer_valid_o = send_ready;
            timer_at_o = now_i + period_q;
          end
        end

        RoundsOpRound: begin
          if (running) begin
            if (!speakers_q[op.from]) begin
              events.dropped_not_member = 1'b1;
            end else begin
              if (!begun_q && late | following) begin
                // The node aligns its first round with the rounds of the others.
                arm = near_q && implied_begin < deadline;
                timer_valid_o = arm;
                timer_at_o = arm_at;
              end
              if (current || following) begin
                if (!is_new) begin
                  events.repeated = 1'b1;
                end else begin
                  events.early = !current;
                  events.dropped_contradiction = current && !same_epoch;
                end
              end else if (late) begin
                events.late = 1'b1;
              end else begin
                events.far_ahead = 1'b1;
              end
            end
          end else if (phase_q == RoundsReady && is_contact) begin
            if (op.first) begin
              // The message serves as a Start. The operation is kept, and is processed next as a message of the round
              // that it began.
              op_ready = 1'b0;
              enter = 1'b1;
              arm = 1'b1;
              founds = 1'b1;
            end else begin
              rejoin = 1'b1;
            end
          end else if (phase_q == RoundsJoining && is_contact && asking_q) begin
            if (op.invites && op.head.next[node_q]) begin
              enter = 1'b1;
              enter_epoch = turn_16(op.head.epoch) + 1'b1;
              enter_members = op.head.next;
              first = turn_64(op.head.round) + round_t'(op.head.ahead);
              arm = 1'b1;
              timer_valid_o = 1'b1;
              timer_at_o = arm_at;
            end
          end else begin
            events.dropped_not_member = 1'b1;
          end
        end

        RoundsOpFetch: begin
          send = signal(
            only(
              op.from
            ),
            RoundsMessageValue,
            7'(RoundsHeadBytes),
            value_head(
              look_instance, look_proposer, look_change, look_length)
          );
          send.bytes = look_length;
          send.place = look_place;
          if (!running) begin
            events.dropped_not_member = 1'b1;
          end else begin
            send_valid = serving_q && serve_q != '0 && serves;
            op_ready   = serving_q && serve_q == '0;
          end
        end

        RoundsOpValue: begin
          if (!running) begin
            events.dropped_not_member = 1'b1;
          end else if (wanted) begin
            value = 1'b1;
            go = 1'b1;
          end
        end

        RoundsOpStart: begin
          if (phase_q == RoundsReady && is_contact) begin
            enter = 1'b1;
            arm = 1'b1;
            founds = 1'b1;
          end else begin
            events.dropped_not_member = 1'b1;
          end
        end

        RoundsOpJoin: begin
          ask = running;
          events.dropped_not_member = !running;
        end

        default: begin
          // A call. Calls that change the node's membership are allowed only to its host.
          send_valid = 1'b1;
          op_ready   = send_ready;
          unique case (op.call)
            RoundsCallStart, RoundsCallLeave, RoundsCallSetPeriod, RoundsCallSubscribe:
            is_foreign = op.caller.kind != CallerHost;
            default: is_foreign = 1'b0;
          endcase
          if (is_foreign) begin
            verdict = RoundsBadRequest;
            events.dropped_not_member = send_ready;
          end else begin
            unique case (op.call)
              RoundsCallStart:
              if (state_q == Listen) begin
                verdict = phase_q == RoundsFenced ? RoundsRefusedFenced : RoundsNotRunning;
              end
              RoundsCallLeave: begin
                leave = running && send_ready;
                if (!running) verdict = phase_q == RoundsFenced ? RoundsRefusedFenced : RoundsNotRunning;
              end
              RoundsCallStatus, RoundsCallTiming: ;
              RoundsCallSetPeriod: begin
                set_period = op.period && period_fits && send_ready;
                if (!op.period) verdict = RoundsBadRequest;
                else if (!period_fits) verdict = RoundsOutOfRange;
              end
              RoundsCallSubscribe: begin
                hear_subscriber = op.empty && send_ready;
                if (!op.empty) verdict = RoundsBadRequest;
              end
              RoundsCallPropose: begin
                if (!op.fits) verdict = RoundsBadRequest;
                else if (!running) verdict = phase_q == RoundsFenced ? RoundsRefusedFenced : RoundsNotRunning;
                else if (full) verdict = RoundsBusy;
                else begin
                  // It is answered when its outcome is known.
                  send_valid = 1'b0;
                  op_ready = 1'b1;
                  put = 1'b1;
                end
              end
              default: verdict = RoundsBadRequest;
            endcase
          end
          send = answer(
            op.caller,
            verdict,
            about,
            begun_q && (is_foreign || !(op.call == RoundsCallSubscribe && op.empty)) ? round_q : '0
          );
          if (op.call == RoundsCallTiming) begin
            send.message = RoundsTimings;
            send.head_bytes = 7'(RoundsHeadBytes);
            {send.area, send.head} = timings;
          end
          if (op.call == RoundsCallStart && !is_foreign && phase_q == RoundsReady && state_q == Listen) begin
            // The other nodes are notified first, then the caller is answered.
            send = signal(others, RoundsMessageStart, 7'd8, '0);
            send_valid = others != '0;
            op_ready = 1'b0;
            enter = send_ready;
            arm = send_ready;
            timer_valid_o = send_ready;
            timer_at_o = arm_at;
          end
        end
      endcase
      if (rejoin) begin
        timer_valid_o = 1'b1;
        timer_at_o = now_i + (period_q << $clog2(2 * RoundsWindow));
      end
      if (enter) clear = 1'b1;
    end

    events.messages = accept;
  end

  // Whether the node would have processed the message that turns out to be malformed.
  logic is_read;
  assign is_read = running || (malformed_round && contacts_q[malformed_from]
      && (phase_q == RoundsReady || (phase_q == RoundsJoining && asking_q)));

  always_comb begin
    events_o = events;
    events_o.rounds = advance;
    events_o.fenced = fence;
    events_o.trimmed = trimmed;
    events_o.epochs = changes;
    events_o.decided = decided;
    events_o.dropped_malformed |= malformed && is_read;
    events_o.dropped_not_member |= stranger || (malformed && !is_read);
    events_o.dropped_contradiction |= contradiction_q;
  end

  assign stops = fence || (state_q == Announce && has_left);

  // The beats of a proposal pass before their operation is valid.
  always_comb begin
    unique case (op.kind)
      RoundsOpRound:
      // Beats are stored unless the proposal is already there; a node that leaves stores no more.
      keep_beats = running ? is_member && (current ? !heard_q[op.from] : following && !early_q[op.from])
          : phase_q == RoundsReady;
      RoundsOpValue: keep_beats = running && wanted;
      RoundsOpCall: keep_beats = running && op.call == RoundsCallPropose && op.fits && !full;
      default: keep_beats = 1'b0;
    endcase
  end

  assign timer_tag_o = '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q        <= Listen;
      phase_q        <= RoundsIdle;
      configured_q   <= '0;
      subscribed_q   <= 1'b0;
      begun_q        <= 1'b0;
      heard_q        <= '0;
      had_q          <= '0;
      early_q        <= '0;
      missed_q       <= '0;
      replay_q       <= '0;
      replay_waits_q <= 1'b0;
      replaying_q    <= 1'b0;
      founded_q      <= 1'b0;
      serving_q      <= 1'b0;
      leaving_q      <= '0;
    end else begin
      if (advance) state_q <= Announce;
      else if (state_q == Announce && (announces || has_left)) state_q <= Listen;
      else if (state_q == Listen && enter && op.kind == RoundsOpCall) state_q <= Answer;
      else if (state_q == Answer && taken) state_q <= Listen;

      if (taken && op.kind == RoundsOpReset) begin
        phase_q      <= RoundsIdle;
        configured_q <= '0;
        subscribed_q <= 1'b0;
      end else if (taken && op.kind == RoundsOpConfigure && !events.configurations_ignored) begin
        configured_q <= configuration_i.epoch;
        phase_q      <= rejoin ? RoundsJoining : RoundsReady;
      end else if (rejoin) begin
        phase_q <= RoundsJoining;
      end else if (enter) begin
        phase_q <= RoundsRunning;
      end else if (fence) begin
        phase_q <= RoundsFenced;
      end else if (stops) begin
        phase_q <= RoundsLeft;
      end

      if (hear_subscriber) subscribed_q <= 1'b1;
      if (enter && op.kind == RoundsOpRound && phase_q == RoundsReady) founded_q <= 1'b1;
      else if (taken) founded_q <= 1'b0;
      if (op_runs && op.kind == RoundsOpFetch && running && !serving_q) serving_q <= 1'b1;
      else if (taken) serving_q <= 1'b0;

      if (advance) begun_q <= 1'b1;
      else if (enter) begun_q <= 1'b0;

      if (enter) missed_q <= '0;
      else if (advance) missed_q <= begun_q ? ~heard_q : '0;
      else if (counts_late) missed_q[op.from] <= 1'b0;

      if (advance || enter) begin
        heard_q  <= '0;
        had_q    <= '0;
        early_q  <= '0;
        replay_q <= enter ? '0 : early_q;
        replay_waits_q <= !enter && early_q != '0;
      end else begin
        if (accept) begin
          heard_q[applied_from] <= 1'b1;
          had_q[applied_from]   <= members[applied_from];
        end
        if (keep_early) early_q[op.from] <= 1'b1;
        if (!replaying_q || replays) begin
          replaying_q    <= replay_waits_q;
          replay_q       <= replay_rest;
          replay_waits_q <= replay_rest != '0;
        end
      end

      if (enter) leaving_q <= '0;
      else if (announces) leaving_q <= is_member ? '0 : leaving_q + 1'b1;

    end

    if (enter) next_round_q <= first + round_t'(advance);
    else if (advance) next_round_q <= next_round_q + 1'b1;
    if (advance) round_q <= enter ? first : next_round_q;
    if (taken && op.kind == RoundsOpConfigure && !events.configurations_ignored) begin
      node_q     <= configuration_i.node[2:0];
      contacts_q <= configuration_i.full[RoundsNodes-1:0];
    end
    if (rejoin) asking_q <= 1'b0;
    else if (taken && op.kind == RoundsOpTimer) asking_q <= 1'b1;
    if (!replaying_q || replays) replay_from_q <= lowest(replay_q);
    if (hear_subscriber) subscriber_q <= op.caller;
    if (!serving_q || !serves || send_ready) begin
      serve_q          <= serve;
      serve_proposer_q <= lowest(serve);
    end
    self      <= only(node_q);
    others    <= contacts_q & ~self;
    settled_q <= settled;
  end

  // ===== Messages =====

  logic [4:0] level;

  round_broadcaster i_broadcaster (
    .clk_i,
    .rst_ni,
    .send_valid_i(send_valid),
    .send_ready_o(send_ready),
    .send_i      (send),
    .level_o     (level),
    .read_o      (read),
    .read_place_o(read_place),
    .read_index_o(read_index),
    .read_data_i (read_data),
    .message_valid_o,
    .message_ready_i,
    .message_o,
    .body_valid_o,
    .body_ready_i,
    .body_o
  );

  always_comb begin
    unique case (phase_q)
      RoundsRunning: status_o = '{epoch: epoch_t'(epoch), state: EngineFull};
      RoundsJoining: status_o = '{epoch: configured_q, state: EngineJoining};
      RoundsFenced, RoundsLeft: status_o = '{epoch: epoch_t'(epoch), state: EngineLost};
      default: status_o = '{epoch: configured_q, state: EngineStarting};
    endcase
  end

  assign idle_o = parser_idle && releases_idle && state_q == Listen && !replaying && !draining && level == '0;

  // The unused memory port.

  assign memory_aw_valid_o = 1'b0;
  assign memory_aw_o = '0;
  assign memory_w_valid_o = 1'b0;
  assign memory_w_o = '0;
  assign memory_ar_valid_o = 1'b0;
  assign memory_ar_o = '0;
  assign memory_r_ready_o = 1'b1;

  // verilator lint_off UNUSEDSIGNAL
  logic unused;
  assign unused = memory_aw_ready_i || memory_w_ready_i || memory_b_valid_i || (|memory_b_response_i)
      || memory_ar_ready_i || memory_r_valid_i || (|memory_r_i);
  // verilator lint_on UNUSEDSIGNAL

endmodule
