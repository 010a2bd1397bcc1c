// The rounds engine: the twin of crates/engines/rounds, whose documentation tells the protocol.
//
// Time is cut into rounds. In each of them a node sends one message to every other (round_broadcaster), which carries its proposal
// for the instance that begins with the round and the state of the instances that began before (consensus_window, the algorithm);
// and it takes one from every other (round_parser). Messages of the next round wait in a place for each peer until it
// begins. When a round ends (round_timer) all instances take a step at once, and what is decided goes out (round_releases).
//
// Latency, when nothing waits: 4 cycles from the event of a round's end to the next round's message and to the first message that
// is accepted in it, with all instances stepped, decided, left and opened; 2 from a message's event until it counts.
// Throughput: a message every cycle, one with a proposal in as many as it has beats. Order: events take effect in their order;
// messages leave in the order in which they were caused. Stalls: its events while a proposal passes, while a new round takes
// up what came early, and, but for messages of rounds, while values are given out.
module rounds
  import weft_pkg::*;
  import engines_pkg::*;
  import rounds_pkg::*;
#(
  parameter int unsigned ProposalBytes = RoundsProposalBytes
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
  // These stay as they are from reset on: a round's length, and a message's way; cycles of at most 32 bits.
  input cycles_t period_i,
  input cycles_t delay_i,
  output engine_status_t status_o,
  // Messages, each followed by its payload, which never pauses once begun.
  output logic message_valid_o,
  input logic message_ready_i,
  output engine_message_t message_o,
  output logic body_valid_o,
  input logic body_ready_i,
  output beat_t body_o,
  // Sets a timer, or moves it; always taken.
  output logic timer_valid_o,
  output logic [4:0] timer_tag_o,
  output cycles_t timer_at_o,
  // Its proposals lie on the chip.
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
  // Nothing is inside; timers are outside.
  output logic idle_o
);

  // What a node is.
  rounds_phase_e phase_q;
  logic configured_q;
  member_t node_q;
  members_t self, members_q;
  epoch_t configured_epoch_q;
  rounds_epoch_t epoch_q;
  round_t round_q, next_round_q;
  assign self = only(node_q);

  // Of the present round: from whom a message has come, and whose proposals are here. Of the next one: whose message waits.
  members_t heard_q, had_q, early_q;
  // Messages that have waited for this round.
  members_t replay_q;

  logic subscribed_q;
  caller_t subscriber_q;

  // ===== Operations =====

  rounds_op_t op;
  logic op_valid, op_ready, beat_valid, malformed, parser_idle;
  logic [2:0] beat_index;
  logic [BeatBits-1:0] beat;

  round_parser #(
    .ProposalBytes(ProposalBytes)
  ) i_parser (
    .clk_i,
    .rst_ni,
    .event_valid_i,
    .event_ready_o,
    .event_i,
    .payload_valid_i,
    .payload_ready_o,
    .payload_i,
    .node_i      (node_q),
    .round_i     (round_q),
    .next_round_i(next_round_q),
    .op_o        (op),
    .op_valid_o  (op_valid),
    .op_ready_i  (op_ready),
    .beat_valid_o(beat_valid),
    .beat_index_o(beat_index),
    .beat_o      (beat),
    .malformed_o (malformed),
    .idle_o      (parser_idle)
  );

  // A message of a round, as it comes or from its place.

  typedef struct packed {
    logic                proposal;
    members_t            members;
    rounds_epoch_t       epoch;
    logic [AreaBits-1:0] area;
  } early_t;

  (* ram_style = "distributed" *)
  early_t early[RoundsNodes];
  early_t arriving, applied;
  member_t applied_from;
  logic replaying, running, same_epoch, accept, keep_early, is_duplicate;

  assign running = phase_q == RoundsRunning;
  assign replaying = replay_q != '0;
  assign arriving = '{
          proposal: op.head.flags[RoundsFlagProposal],
          members: op.head.members,
          epoch: turn_16(op.head.epoch),
          area: op.area
      };
  assign applied_from = replaying ? lowest(replay_q) : op.from;
  assign applied = replaying ? early[applied_from] : arriving;
  assign same_epoch = applied.epoch == epoch_q && applied.members == members_q;
  assign is_duplicate = op.current ? heard_q[op.from] : early_q[op.from];

  always_ff @(posedge clk_i) begin
    if (keep_early) early[op.from] <= arriving;
  end

  // ===== The algorithm =====

  instance_t [RoundsWindow-1:0] instances;
  instance_t leaving;
  logic clear, end_round, begin_round;
  members_t row;
  logic [AreaBits-1:0] area;
  logic [2:0] decided, contradictions;

  assign row = had_q | self;

  consensus_window i_window (
    .clk_i,
    .rst_ni,
    .node_i          (node_q),
    .clear_i         (clear),
    .receive_i       (accept),
    .from_i          (applied_from),
    .area_i          (applied.area),
    .end_round_i     (end_round),
    .row_i           (row),
    .members_i       (members_q),
    .area_o          (area),
    .instances_o     (instances),
    .leaving_o       (leaving),
    .decided_o       (decided),
    .contradictions_o(contradictions)
  );

  // ===== Time =====

  logic expired, start;
  cycles_t deadline;

  round_timer i_timer (
    .clk_i,
    .now_i,
    .period_i,
    .start_i   (start),
    .delay_i,
    .begin_i   (begin_round && phase_q == RoundsIdle),
    .next_i    (end_round || (begin_round && phase_q == RoundsStarting)),
    .early_i   (keep_early),
    .deadline_o(deadline),
    .expired_o (expired)
  );

  // ===== Proposals =====

  // Of this node: where the next one comes to lie, which is the next to be sent, and what each round has taken.
  own_place_t put_q, take_q;
  own_place_t waiting;
  (* ram_style = "distributed" *)
  logic [$bits(own_place_t):0] own[16];
  assign waiting = put_q - take_q;

  proposal_place_t write_place, look_place, read_place;
  logic write_length, look_change, read, keep_beats;
  proposal_bytes_t stored_length, look_length;
  logic [2:0] read_index;
  logic [BeatBits-1:0] read_data;
  // Of which proposal the length is looked up.
  logic [3:0] look_instance;
  member_t look_proposer;
  logic [$bits(own_place_t):0] look_own;

  function automatic proposal_place_t place_of_own(own_place_t place);
    return {1'b1, 2'b00, place};
  endfunction

  assign look_own = own[look_instance];
  always_comb begin
    if (look_proposer == node_q) begin
      look_place  = place_of_own(look_own[$bits(own_place_t)-1:0]);
      look_length = look_own[$bits(own_place_t)] ? stored_length : '0;
    end else begin
      look_place  = {1'b0, look_instance, look_proposer};
      look_length = stored_length;
    end
  end

  always_comb begin
    unique case (op.kind)
      RoundsOpCall:  write_place = place_of_own(put_q);
      RoundsOpValue: write_place = {1'b0, op.head.round[59:56], op.head.epoch[2:0]};
      default:       write_place = {1'b0, op.head.round[59:56], op.from};
    endcase
  end

  proposal_store #(
    .ProposalBytes(ProposalBytes)
  ) i_store (
    .clk_i,
    .write_i       (beat_valid && keep_beats),
    .write_place_i (write_place),
    .write_index_i (beat_index),
    .write_data_i  (beat),
    .write_length_i(write_length),
    .length_i      (op.bytes),
    .change_i      (op.kind != RoundsOpCall && op.head.flags[RoundsFlagChange]),
    .place_i       (look_place),
    .length_o      (stored_length),
    .change_o      (look_change),
    .read_i        (read),
    .read_place_i  (read_place),
    .read_index_i  (read_index),
    .read_data_o   (read_data)
  );

  // ===== What is decided =====

  logic
      releases_idle,
      asking,
      value_wanted,
      value,
      asked_held,
      release_valid,
      release_ready,
      released,
      changed,
      go,
      fetch;
  round_t release_next, release_instance;
  age_t release_age, asked_age;
  member_t release_proposer;
  rounds_send_t release_send;
  round_t asked_behind;
  logic asked_known;

  assign asked_behind = round_q - turn_64(op.head.round);
  assign asked_age = age_t'(asked_behind);
  assign asked_known = asked_behind != '0 && asked_behind < 64'(2 * RoundsWindow) && asked_held;

  round_releases i_releases (
    .clk_i,
    .rst_ni,
    .clear_i         (clear),
    .node_i          (node_q),
    .round_i         (round_q),
    .instances_i     (instances),
    .end_round_i     (end_round),
    .leaving_i       (leaving),
    .row_i           (row),
    .go_i            (go),
    .fetch_i         (fetch),
    .idle_o          (releases_idle),
    .asking_o        (asking),
    .next_o          (release_next),
    .age_o           (release_age),
    .value_instance_i(turn_64(op.head.round)),
    .value_proposer_i(op.head.epoch[2:0]),
    .value_wanted_o  (value_wanted),
    .value_i         (value),
    .asked_age_i     (asked_age),
    .asked_proposer_i(op.head.epoch[2:0]),
    .asked_held_o    (asked_held),
    .place_instance_o(release_instance),
    .place_proposer_o(release_proposer),
    .place_i         (look_place),
    .length_i        (look_length),
    .change_i        (look_change),
    .subscribed_i    (subscribed_q),
    .subscriber_i    (subscriber_q),
    .send_valid_o    (release_valid),
    .send_ready_i    (release_ready),
    .send_o          (release_send),
    .released_o      (released),
    .changed_o       (changed)
  );

  // ===== What happens =====

  typedef enum logic [1:0] {
    Listen,
    Announce,  // the round has begun: its message leaves
    Answer     // the second message of an operation
  } state_e;

  state_e state_q;
  logic listens, send_valid, send_ready, fails, stuck, fence, taken, op_runs;
  rounds_send_t send, announcement, reply;
  logic [7:0] verdict;
  members_t targets, peers;
  rounds_events_t events;

  // To every member that has an instance with this node.
  always_comb begin
    targets = (|(members_q & self)) ? members_q : '0;
    for (int unsigned i = 0; i < RoundsWindow; i++) if (instances[i].valid) targets |= instances[i].members;
    targets &= ~self;
  end
  assign peers = members_q & ~self;

  always_comb begin
    announcement = '0;
    announcement.to = targets;
    announcement.message = RoundsMessageRound;
    announcement.head_bytes = 7'(RoundsHeadBytes);
    announcement.bytes = look_length;
    announcement.place = look_place;
    announcement.head = '{
        spare: '0,
        algorithm: RoundsAlgorithmConsensus,
        bytes: turn_16(16'(announcement.bytes)),
        flags: 8'(|(members_q & self)),
        members: members_q,
        epoch: turn_16(epoch_q),
        round: turn_64(round_q)
    };
    announcement.area = area;
  end

  always_comb begin
    reply = '0;
    reply.reply = 1'b1;
    reply.caller = op.caller;
    reply.message = op.call;
    reply.head_bytes = 7'd8;
    reply.head.round = 64'(verdict);
    if (op.call == RoundsCallStatus) begin
      reply.head_bytes = 7'(RoundsHeadBytes);
      reply.head.round = turn_64(round_q);
      {reply.head.spare, reply.head.algorithm, reply.head.bytes, reply.head.flags, reply.head.members,
       reply.head.epoch} = turn_64(release_next);
      reply.area[15:0] = turn_16(epoch_q);
      reply.area[23:16] = members_q;
      reply.area[31:24] = 8'(phase_q);
      reply.area[39:32] = instances[RoundsWindow-1].suspected;
    end
  end

  // The oldest instance has left without a decision, or would have to be released by now.
  assign fails = leaving.valid && !leaving.decided;
  assign stuck = release_age == age_t'(2 * RoundsWindow - 1);
  assign listens = state_q == Listen && !replaying;
  // Operations that may change what is given out, or send something, wait until all of it has left.
  assign op_runs = op_valid && (state_q == Answer || (listens && (op.kind == RoundsOpRound ? !asking : releases_idle)));

  always_comb begin
    op_ready = 1'b0;
    send_valid = 1'b0;
    send = release_send;
    release_ready = 1'b0;
    clear = 1'b0;
    end_round = 1'b0;
    begin_round = 1'b0;
    start = 1'b0;
    fence = 1'b0;
    accept = 1'b0;
    keep_early = 1'b0;
    keep_beats = 1'b0;
    write_length = 1'b0;
    value = 1'b0;
    go = 1'b0;
    fetch = 1'b0;
    verdict = RoundsAccepted;
    timer_valid_o = 1'b0;
    look_instance = release_instance[3:0];
    look_proposer = release_proposer;
    events = '0;
    events.dropped_malformed = malformed;

    if (!releases_idle) begin
      send_valid = release_valid;
      release_ready = send_ready;
    end
    if (replaying && state_q == Listen && !asking) begin
      accept = same_epoch;
      events.dropped_other_epoch = !same_epoch;
    end

    if (state_q == Announce) begin
      send_valid = targets != '0;
      send = announcement;
      look_instance = round_q[3:0];
      look_proposer = node_q;
      if (send_ready) begin
        timer_valid_o = 1'b1;
        go = 1'b1;
        fetch = 1'b1;
      end
    end else if (op_runs) begin
      op_ready = 1'b1;
      unique case (op.kind)
        RoundsOpReset: clear = 1'b1;

        RoundsOpConfigure: ;

        RoundsOpTimer: begin
          if (expired && running) begin
            fence = fails || stuck;
            end_round = !fence;
          end else if (expired && phase_q == RoundsStarting) begin
            begin_round = 1'b1;
          end
        end

        RoundsOpRound: begin
          if (!running) events.dropped_not_running = 1'b1;
          else if (op.late) events.dropped_late = 1'b1;
          else if (!op.current && !op.following) events.dropped_far_ahead = 1'b1;
          else if (is_duplicate) events.dropped_duplicate = 1'b1;
          else if (op.following) begin
            keep_early = 1'b1;
            events.messages_early = 1'b1;
          end else if (same_epoch) accept = 1'b1;
          else events.dropped_other_epoch = 1'b1;
          write_length = accept || keep_early;
        end

        RoundsOpFetch: begin
          look_instance = 4'(turn_64(op.head.round));
          look_proposer = op.head.epoch[2:0];
          send = '{
              reply: 1'b0,
              to: only(op.from),
              caller: '0,
              message: RoundsMessageValue,
              head_bytes: 7'(RoundsHeadBytes),
              bytes: look_length,
              place: look_place,
              head: '0,
              area: '0
          };
          send.head.round = op.head.round;
          send.head.epoch = op.head.epoch;
          send.head.flags[RoundsFlagChange] = look_change;
          send.head.bytes = turn_16(16'(look_length));
          if (!running) events.dropped_not_running = 1'b1;
          else if (!asked_known || op.head.epoch[7:3] != '0) events.dropped_late = 1'b1;
          else begin
            send_valid = 1'b1;
            op_ready = send_ready;
            events.values_served = send_ready;
          end
        end

        RoundsOpValue: begin
          if (!running) events.dropped_not_running = 1'b1;
          else if (!value_wanted || op.head.epoch[7:3] != '0) events.dropped_late = 1'b1;
          else begin
            value = 1'b1;
            write_length = 1'b1;
            go = 1'b1;
            events.values_fetched = 1'b1;
          end
        end

        RoundsOpStart: begin
          if (phase_q != RoundsIdle || !configured_q) events.dropped_not_running = 1'b1;
          else if ({8'd0, op.head.round[23:16], turn_16(op.head.round[15:0])} != {8'd0, members_q, epoch_q})
            events.dropped_other_epoch = 1'b1;
          else begin_round = 1'b1;
        end

        RoundsOpJoin: ;

        default: begin
          // A call.
          send_valid = 1'b1;
          send = reply;
          op_ready = send_ready;
          if (op.call == RoundsCallStatus || op.call == RoundsCallSubscribe) verdict = RoundsAccepted;
          else if (phase_q == RoundsFenced) verdict = RoundsRefusedFenced;
          else if (op.call == RoundsCallPropose) begin
            if (op.too_long) verdict = RoundsMalformed;
            else if (!running) verdict = RoundsNotRunning;
            else if (waiting == own_place_t'(RoundsQueue)) verdict = RoundsBusy;
            else write_length = send_ready;
            events.refused_not_running = send_ready && verdict == RoundsNotRunning;
            events.refused_busy = send_ready && verdict == RoundsBusy;
          end else if (op.call == RoundsCallStart) begin
            if (state_q == Listen && (phase_q != RoundsIdle || !configured_q)) begin
              verdict = RoundsNotRunning;
              events.refused_not_running = send_ready;
            end else if (state_q == Listen) begin
              // First the peers are told, then the caller.
              send = '0;
              send.to = peers;
              send.message = RoundsMessageStart;
              send.head_bytes = 7'd8;
              send.head.round[15:0] = turn_16(epoch_q);
              send.head.round[23:16] = members_q;
              send_valid = peers != '0;
              op_ready = 1'b0;
              start = send_ready;
              timer_valid_o = 1'b0;
            end else begin
              timer_valid_o = send_ready;
            end
          end else verdict = RoundsMalformed;
        end
      endcase
    end

    // The beats of a proposal pass before their operation does.
    unique case (op.kind)
      RoundsOpRound:
      keep_beats = running && !is_duplicate && (op.following || (op.current && same_epoch)) && !replaying;
      RoundsOpValue: keep_beats = running && value_wanted && releases_idle;
      RoundsOpCall:
      keep_beats = running && op.call == RoundsCallPropose && !op.too_long && waiting != own_place_t'(RoundsQueue);
      default: ;
    endcase

    events.rounds = begin_round || end_round;
    events.messages_accepted = accept;
    events.instances_decided = decided;
    events.contradictions = contradictions;
    events.values_released = released;
    events.fences = fence;
    if (begin_round) clear = 1'b1;
  end

  assign taken = op_runs && op_ready;
  assign timer_tag_o = '0;
  assign timer_at_o = deadline;
  assign events_o = events;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q            <= Listen;
      phase_q            <= RoundsIdle;
      configured_q       <= 1'b0;
      configured_epoch_q <= '0;
      subscribed_q       <= 1'b0;
      heard_q            <= '0;
      had_q              <= '0;
      early_q            <= '0;
      replay_q           <= '0;
      put_q              <= '0;
      take_q             <= '0;
      round_q            <= '0;
      next_round_q       <= 64'd1;
      epoch_q            <= '0;
      members_q          <= '0;
    end else begin
      if (begin_round || end_round) state_q <= Announce;
      else if (start) state_q <= Answer;
      else if (state_q == Announce ? send_ready : taken) state_q <= Listen;

      if (taken && op.kind == RoundsOpReset) begin
        phase_q            <= RoundsIdle;
        configured_q       <= 1'b0;
        configured_epoch_q <= '0;
        subscribed_q       <= 1'b0;
        put_q              <= '0;
        take_q             <= '0;
        round_q            <= '0;
        next_round_q       <= 64'd1;
        epoch_q            <= '0;
        members_q          <= '0;
        heard_q            <= '0;
        had_q              <= '0;
        early_q            <= '0;
      end
      if (taken && op.kind == RoundsOpConfigure && phase_q == RoundsIdle) begin
        configured_q       <= 1'b1;
        configured_epoch_q <= configuration_i.epoch;
        epoch_q            <= configuration_i.epoch[15:0];
        members_q          <= configuration_i.full[RoundsNodes-1:0];
      end
      if (start) phase_q <= RoundsStarting;
      if (begin_round) phase_q <= RoundsRunning;
      if (fence) phase_q <= RoundsFenced;

      if (taken && op.kind == RoundsOpCall && op.call == RoundsCallSubscribe) subscribed_q <= 1'b1;

      if (end_round) begin
        round_q      <= next_round_q;
        next_round_q <= next_round_q + 1'b1;
      end
      if (begin_round || end_round) begin
        heard_q  <= '0;
        had_q    <= '0;
        early_q  <= '0;
        replay_q <= end_round ? early_q : '0;
      end else begin
        if (accept) begin
          heard_q[applied_from] <= 1'b1;
          had_q[applied_from]   <= applied.proposal && members_q[applied_from];
        end
        if (keep_early) early_q[op.from] <= 1'b1;
        if (replaying && state_q == Listen && !asking) replay_q[applied_from] <= 1'b0;
      end

      if (taken && op.kind == RoundsOpCall && op.call == RoundsCallPropose && write_length) put_q <= put_q + 1'b1;
      if ((begin_round || end_round) && waiting != '0) take_q <= take_q + 1'b1;
    end
    if (taken && op.kind == RoundsOpConfigure && phase_q == RoundsIdle) node_q <= member_t'(configuration_i.node);
    if (taken && op.kind == RoundsOpCall && op.call == RoundsCallSubscribe) subscriber_q <= op.caller;
    if (begin_round) own[0] <= {waiting != '0, take_q};
    else if (end_round) own[next_round_q[3:0]] <= {waiting != '0, take_q};
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
    status_o.epoch = configured_epoch_q;
    unique case (phase_q)
      RoundsRunning: status_o.state = EngineFull;
      RoundsJoining: status_o.state = EngineJoining;
      RoundsFenced:  status_o.state = EngineLost;
      default:       status_o.state = EngineStarting;
    endcase
  end

  assign idle_o = parser_idle && releases_idle && state_q == Listen && !replaying && level == '0;

  // The memory port of every engine.

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
      || memory_ar_ready_i || memory_r_valid_i || (|memory_r_i) || changed;
  // verilator lint_on UNUSEDSIGNAL

endmodule
