// The sequencer of the key-value engine: executes one operation after another. Twin of
// crates/engines/kv/src/engine.rs; each part below names its function there.
//
// It holds the lengths of the streams, and uses the blocks around it for everything else. kv_committer applies what
// this block commits: replies, sessions, table. kv_exclusive executes the operations that change the view or transfer
// state, which run alone. kv_membership holds the node's role and view.
//
// Writes of this node's own stream are executed in the order of their requests. A write that needs its key's version
// and does not find it in the window waits for the table, and no later operation overtakes it.
//
// Latency, from the cycle in which an operation is offered and if nothing stalls: a get that misses the window is
// looked up after 4 cycles; a Write is acknowledged after 4; an Acknowledge commits after 4; a put is sent 4 cycles
// after the answer of the session table, which is requested after 1. Throughput: a get in 5 cycles. Order: kept.
module kv_streams
  import weft_pkg::BeatBits;
  import weft_pkg::beat_t;
  import weft_pkg::cycles_t;
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_messages_pkg::write_header;
  import kv_streams_pkg::*;
#(
  parameter bit PlantedBugs = 1'b0
) (
  input  logic                                              clk_i,
  input  logic                                              rst_ni,
  input  cycles_t                                           now_i,
  input  cycles_t                                           retransmit_i,
  input  cycles_t                                           retransmit_max_i,
  // Operations. An operation with a value is followed by the value's beats, without a gap.
  input  logic                                              op_valid_i,
  output logic                                              op_ready_o,
  input  op_t                                               op_i,
  input  logic                                              value_valid_i,
  output logic                                              value_ready_o,
  input  beat_t                                             value_i,
  // The beats go to kv_control.
  output logic                                              value_controlled_o,
  input  engine_configuration_t                             configuration_i,
  input  logic                                              acknowledge_after_memory_i,
  input  planted_bug_e                                      planted_bug_i,
  output engine_status_t                                    status_o,
  // The view, and the node's role in it.
  output node_t                                             node_o,
  output epoch_t                                            epoch_o,
  output node_set_t                                         full_o,
  output epoch_t                                            base_o,
  output node_set_t                                         base_members_o,
  output logic                                              serves_o,
  // To kv_committer.
  output lengths_t                                          committed_o,
  output logic                                              restart_o,
  input  logic                                              committer_idle_i,
  // Committer, table and lookups are idle.
  input  logic                                              drained_i,
  // To kv_window.
  output logic                                              value_write_valid_o,
  output stream_t                                           value_write_stream_o,
  output window_place_t                                     value_write_place_o,
  output logic                  [$clog2(ValueBeatsMax)-1:0] value_write_beat_o,
  output logic                  [             BeatBits-1:0] value_write_data_o,
  output logic                                              push_valid_o,
  input  logic                                              push_ready_i,
  output stream_t                                           push_stream_o,
  output number_t                                           push_number_o,
  output entry_t                                            push_o,
  output logic                                              push_indexed_o,
  output logic                                              read_valid_o,
  input  logic                                              read_ready_i,
  output stream_t                                           read_stream_o,
  output number_t                                           read_number_o,
  input  logic                                              read_done_i,
  // Also the entry that a find found.
  input  entry_t                                            read_i,
  output logic                                              find_valid_o,
  input  logic                                              find_ready_i,
  output stream_t                                           find_stream_o,
  output key_t                                              find_key_o,
  output place_t                                            find_place_o,
  output logic                                              find_committed_only_o,
  output number_t                                           find_committed_o,
  input  logic                                              find_done_i,
  input  logic                                              find_hit_i,
  input  number_t                                           find_number_i,
  output lengths_t                                          retired_o,
  output logic                                              wait_valid_o,
  input  logic                                              wait_ready_i,
  output stream_t                                           wait_stream_o,
  output number_t                                           wait_number_o,
  output asker_t                                            wait_o,
  input  logic                                              wait_done_i,
  input  logic                                              wait_full_i,
  output logic                                              take_valid_o,
  input  logic                                              take_ready_i,
  output stream_t                                           take_stream_o,
  output number_t                                           take_number_o,
  input  logic                                              take_done_i,
  input  logic                                              take_some_i,
  input  asker_t                                            take_i,
  output logic                                              window_clear_valid_o,
  input  logic                                              window_clear_ready_i,
  input  logic                                              window_clear_done_i,
  // To kv_sessions.
  output logic                                              session_valid_o,
  input  logic                                              session_ready_i,
  output session_request_t                                  session_o,
  input  logic                                              session_answer_valid_i,
  input  session_answer_t                                   session_answer_i,
  // To kv_table. Results are those of LookupFind.
  output logic                                              lookup_valid_o,
  input  logic                                              lookup_ready_i,
  output lookup_t                                           lookup_o,
  input  logic                                              result_valid_i,
  output logic                                              result_ready_o,
  input  looked_up_t                                        result_i,
  output logic                                              reserve_valid_o,
  input  logic                                              reserve_ready_i,
  output bucket_t                                           reserve_bucket_o,
  input  logic                                              reserve_done_i,
  input  logic                                              reserve_granted_i,
  output logic                                              release_valid_o,
  input  logic                                              release_ready_i,
  output bucket_t                                           release_bucket_o,
  input  logic                                              retired_valid_i,
  input  stream_t                                           retired_stream_i,
  output logic                                              journal_valid_o,
  input  logic                                              journal_ready_i,
  output journal_t                                          journal_o,
  output logic                                              journal_value_valid_o,
  input  logic                                              journal_value_ready_i,
  output beat_t                                             journal_value_o,
  input  logic                                              journaled_valid_i,
  input  stream_t                                           journaled_stream_i,
  output logic                                              table_clear_valid_o,
  input  logic                                              table_clear_ready_i,
  input  logic                                              table_clear_done_i,
  // To kv_control.
  output logic                                              command_valid_o,
  output control_command_t                                  command_o,
  input  logic                                              answer_valid_i,
  input  control_answer_t                                   answer_i,
  input  lengths_t                                          lengths_i,
  input  node_set_t                                         missing_i,
  input  logic                                              joining_i,
  input  logic                                              transferred_i,
  input  stream_t                                           control_stream_i,
  output number_t                                           control_accepted_o,
  output number_t                                           control_committed_o,
  input  partition_t                                        control_partition_i,
  output node_t                                             control_leader_o,
  input  logic                                              control_idle_i,
  input  logic                                              commit_valid_i,
  input  stream_t                                           commit_stream_i,
  input  number_t                                           commit_i,
  output logic                                              commit_done_o,
  // To kv_outgoing, which may still be reading a slot of a window.
  output logic                                              outgoing_valid_o,
  input  logic                                              outgoing_ready_i,
  output outgoing_t                                         outgoing_o,
  input  logic                                              reading_valid_i,
  input  stream_t                                           reading_stream_i,
  input  window_place_t                                     reading_place_i,
  output logic                                              timer_valid_o,
  output logic                  [                      4:0] timer_tag_o,
  output cycles_t                                           timer_at_o,
  output kv_events_t                                        events_o,
  output logic                                              idle_o
);

  // One-hot states.
  typedef enum logic [29:0] {
    // Any operation: reads, effects, and its last message.
    Start = 30'd1 << 0,
    Act = 30'd1 << 1,
    SendReply = 30'd1 << 2,
    End = 30'd1 << 3,
    // Requests.
    Find = 30'd1 << 4,
    Lookup = 30'd1 << 5,
    Wait = 30'd1 << 6,
    Begin = 30'd1 << 7,
    Execute = 30'd1 << 8,
    Seek = 30'd1 << 9,
    Reserve = 30'd1 << 10,
    Room = 30'd1 << 11,
    Push = 30'd1 << 12,
    Cancel = 30'd1 << 13,
    CommitAlone = 30'd1 << 14,
    // Acknowledgements and resends.
    Ledger = 30'd1 << 15,
    LedgerCommit = 30'd1 << 16,
    Resend = 30'd1 << 17,
    ResendNext = 30'd1 << 18,
    ResendSend = 30'd1 << 19,
    Asked = 30'd1 << 20,
    AskedSend = 30'd1 << 21,
    // Timers.
    Fired = 30'd1 << 22,
    FollowerAsks = 30'd1 << 23,
    Bursts = 30'd1 << 24,
    BurstsTell = 30'd1 << 25,
    BurstsTold = 30'd1 << 26,
    BurstsKnown = 30'd1 << 27,
    Rearm = 30'd1 << 28,
    // An operation that runs alone: kv_exclusive executes it.
    Alone = 30'd1 << 29
  } state_e;

  state_e state_d;
  // The initial value is for simulators, which would otherwise see several states active before reset.
  /* verilator lint_off PROCASSINIT */
  state_e state_q = Start;
  /* verilator lint_on PROCASSINIT */
  // The state that follows Resend.
  state_e resent_q, resent_d;

  function automatic logic at(state_e state);
    return |(state_q & state);
  endfunction

  function automatic logic planted(planted_bug_e bug);
    return PlantedBugs && planted_bug_i == bug;
  endfunction

  // ===== The current operation =====

  // An operation that has a value is accepted before its value; these results stay valid.
  look_t look;

  // ===== The node =====

  membership_t membership;
  membership_change_t change, alone_change;
  logic renews_lease;
  logic serves;
  logic same_view, older_view, newer_view;
  logic fill, filling;
  partition_t leader_partition;
  stream_t    leader;

  role_e role;
  stream_t own;
  assign role = membership.role;
  assign own = membership.node[2:0];

  assign node_o = membership.node;
  assign epoch_o = membership.epoch;
  assign full_o = membership.full;
  assign base_o = membership.base;
  assign base_members_o = membership.base_members;
  assign serves_o = serves;

  always_comb begin
    change = alone_change;
    if (renews_lease) change.lease = 1'b1;
  end

  // This flag is one cycle late, which does no harm.
  logic controls_q;
  always_ff @(posedge clk_i) controls_q <= at(Alone);
  assign leader_partition = controls_q ? control_partition_i : op_i.place.bucket[7:0];
  assign control_leader_o = node_t'(leader);

  kv_membership i_membership (
    .clk_i,
    .rst_ni,
    .now_i,
    .configuration_i,
    .careless_i  (planted(BugEpochNotChecked)),
    .change_i    (change),
    .membership_o(membership),
    .serves_o    (serves),
    .status_o,
    .same_view_o (same_view),
    .older_view_o(older_view),
    .newer_view_o(newer_view),
    .fill_i      (fill),
    .filling_o   (filling),
    .partition_i (leader_partition),
    .leader_o    (leader)
  );

  // ===== Lengths of the streams =====

  stream_t due_first_q;  // the lowest stream in due_q, if due_known_q
  logic due_known_q, due_sent;
  stream_set_t due_q, due_d;
  stream_t start_stream;

  window_count_t [Streams-1:0] retired;
  window_count_t unjournaled;

  stream_t length_stream;
  number_t accepted, committed, following;
  logic accepted_write, committed_write, lengths_clear;
  number_t accepted_next, committed_next;
  lengths_change_t lengths_change, alone_lengths_change;
  stream_t alone_stream;
  always_comb begin
    lengths_change = '{
        stream: look.stream,
        accepts: accepted_write,
        accepted: accepted_next,
        commits: committed_write,
        committed: committed_next
    };
    if (at(Alone)) lengths_change = alone_lengths_change;
  end
  always_comb begin
    unique case (1'b1)
      |(state_q & Start): length_stream = start_stream;
      |(state_q & End): length_stream = due_q != '0 ? due_first_q : own;
      |(state_q & Alone): length_stream = alone_stream;
      default: length_stream = look.stream;
    endcase
  end

  kv_lengths i_lengths (
    .clk_i,
    .rst_ni,
    .change_i       (lengths_change),
    .clear_i        (lengths_clear),
    .retired_valid_i,
    .retired_stream_i,
    .journaled_valid_i,
    .journaled_stream_i,
    .stream_i       (length_stream),
    .accepted_o     (accepted),
    .committed_o    (committed),
    .unjournaled_o  (unjournaled),
    .all_committed_o(committed_o),
    .all_retired_o  (retired)
  );

  assign following = accepted + 1'b1;
  assign restart_o = lengths_clear;
  always_comb begin
    for (int unsigned i = 0; i < Streams; i++) retired_o[i] = number_t'(retired[i]);
  end
  assign control_accepted_o  = accepted;
  assign control_committed_o = committed;

  function automatic window_count_t distance(number_t from, number_t to);
    return to[8:0] - from[8:0];
  endfunction

  // ===== Subject of the current operation, read in Start =====

  number_t look_accepted_q, look_committed_q;  // lengths of the operation's stream
  logic taken_q, taken_d;
  logic last_q, last_d;  // the operation ends a batch

  logic op_takes, op_keeps_value;
  assign op_ready_o = op_takes;

  logic has_value;
  assign has_value = (op_i.kind == OpRequest || op_i.kind == OpWrite) && op_i.value_bytes != '0;

  kv_look i_look (
    .clk_i,
    .look_i      (at(Start) && op_valid_i),
    .op_i,
    .membership_i(membership),
    .leader_i    (leader),
    .careless_i  (planted(BugEpochNotChecked)),
    .stream_o    (start_stream),
    .accepted_i  (accepted),
    .committed_i (committed),
    .look_o      (look)
  );

  // Comparisons of lengths, valid if the stream was the same in the previous cycle.
  logic empty_now_q;
  logic settled_q;  // all committed entries are in the table's memory
  logic lags_q;  // the sender of the operation knows a smaller committed length
  window_count_t undecided_q;
  always_ff @(posedge clk_i) begin
    empty_now_q <= accepted == committed;
    settled_q <= retired[look.stream] == committed[8:0];
    lags_q <= op_i.committed < committed;
    undecided_q <= distance(committed, accepted);
    if (at(Start) || at(Act)) begin
      look_accepted_q  <= accepted;
      look_committed_q <= committed;
    end
  end

  // Whether `from` is a valid node number for this engine.
  logic from_known;
  stream_t from;
  assign from = look.from[2:0];
  assign from_known = !look.from[3];

  logic message_valid, message_free, message_load;

  // ===== Incoming values =====

  logic journal_valid_q, journal_valid_d;

  logic storing, before_first;

  kv_value_store i_value_store (
    .clk_i,
    .rst_ni,
    .begin_i        (op_takes),
    .some_i         (has_value),
    .keeps_i        (op_keeps_value),
    .stream_i       (look.stream),
    .place_i        (window_place_t'(push_number_o - 1'b1)),
    .journals_i     (journal_valid_d),
    .value_valid_i,
    .value_ready_o,
    .value_i,
    .write_valid_o  (value_write_valid_o),
    .write_stream_o (value_write_stream_o),
    .write_place_o  (value_write_place_o),
    .write_beat_o   (value_write_beat_o),
    .write_data_o   (value_write_data_o),
    .journal_valid_o(journal_value_valid_o),
    .journal_ready_i(journal_value_ready_i),
    .journal_o      (journal_value_o),
    .busy_o         (storing),
    .before_first_o (before_first)
  );

  // Whether a message in kv_outgoing still reads the value in the slot that the next entry would overwrite.
  stream_t place_stream;
  assign place_stream = at(Start) ? start_stream : look.stream;
  window_place_t next_place;
  logic          place_read;
  assign next_place = window_place_t'(accepted);
  assign place_read = reading_valid_i && reading_stream_i == place_stream && reading_place_i == next_place
      || message_valid && outgoing_o.source == ValueWindow && outgoing_o.stream == place_stream
      && outgoing_o.place == next_place;
  // Whether the slot of the next entry is free, that is, its previous entry is in the table's memory; and whether the
  // window has room for another undecided entry. Both are one cycle late, which only delays an operation.
  logic place_free_q, room_q;
  always_ff @(posedge clk_i) begin
    place_free_q <= !((accepted[8:0] - retired[place_stream]) >= 9'(WindowEntries)) && !place_read;
    room_q       <= distance(committed, accepted) < 9'(WindowEntries) && accepted != '1 - 1'b1;
  end

  // ===== The follower's acknowledgements =====

  stream_set_t gap_q, gap_d;
  // The committed length of the node's own stream exceeds the one that the followers have received.
  logic behind_q, behind_d;
  always_ff @(posedge clk_i) begin
    for (int unsigned i = Streams; i > 0; i--) begin
      if (due_q[i-1]) due_first_q <= stream_t'(i - 1);
    end
    due_known_q <= due_q != '0 && !due_sent;
  end

  // Accepted entries that are not in the journal yet are not acknowledged.
  logic    journaling;
  number_t acknowledged_q;  // the length that may be acknowledged, one cycle late
  logic    due_steady_q;
  always_ff @(posedge clk_i) begin
    acknowledged_q <= accepted - number_t'(unjournaled);
    due_steady_q   <= at(End) && due_known_q && !due_sent;
  end
  assign journaling = acknowledge_after_memory_i;
  assign journal_valid_o = journal_valid_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      journal_valid_q <= 1'b0;
    end else begin
      if (journal_ready_i) journal_valid_q <= 1'b0;
      if (journal_valid_d) journal_valid_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (journal_valid_d) begin
      journal_o <= '{
          stream: look.stream,
          place: window_place_t'(push_number_o - 1'b1),
          value_bytes: op_i.value_bytes,
          header:
          write_header
          (
              op_i.epoch,
              op_i.operation,
              op_i.status,
              op_i.value_bytes,
              op_i.number,
              op_i.committed,
              op_i.asker.client,
              op_i.asker.request,
              op_i.version,
              op_i.key
          )
      };
    end
  end

  // ===== The leader's ledger =====

  stream_t burst_to_q, burst_to_d;

  logic begins, stops;  // streams restart, or end
  logic ledger_tell, ledger_resend;
  stream_t ledger_from;
  stream_set_t followers, new_followers;
  node_set_t followers_to;
  logic again;
  logic [9:0] again_after, again_ahead;
  logic [6:0] again_count;
  window_count_t ahead;
  always_comb begin
    new_followers = membership.full[Streams-1:0] | membership.joining[Streams-1:0];
    new_followers[own] = 1'b0;
  end
  assign followers_to  = node_set_t'(followers);
  assign ledger_resend = !at(Act);
  assign ledger_from   = at(Act) ? from : burst_to_q;

  kv_ledger i_ledger (
    .clk_i,
    .rst_ni,
    .begin_i      (begins),
    .followers_i  (new_followers),
    .followers_o  (followers),
    .tell_i       (ledger_tell),
    .resend_i     (ledger_resend),
    .from_i       (ledger_from),
    .to_i         (op_i.accepted),
    .old_i        (look.behind),
    .gap_i        (op_i.gap),
    .accepted_i   (look_accepted_q),
    .committed_i  (look_committed_q),
    .again_o      (again),
    .after_o      (again_after),
    .again_count_o(again_count),
    .ahead_o      (ahead)
  );
  assign again_ahead = again_after - look_committed_q[9:0];
  number_t committed_ahead;
  assign committed_ahead = look_committed_q + (at(Resend) ? number_t'(again_ahead) : number_t'(ahead));

  // ===== Paces =====

  logic pace_valid, pace_ready, pace_fire, pace_progress, pace_arm, pace_done, pace_due, pace_idle;
  logic alone_pace_valid;
  pace_t pace, timer;
  pace_command_t pace_command, alone_pace;
  always_comb begin
    pace_command = '{pace: pace, fire: pace_fire, progress: pace_progress, arm: pace_arm};
    if (at(Alone)) pace_command = alone_pace;
  end

  kv_pace #(
    .N(16)
  ) i_pace (
    .clk_i,
    .rst_ni,
    .now_i,
    .first_i        (retransmit_i),
    .most_i         (retransmit_max_i),
    .forget_i       (change.forgets),
    .command_valid_i(pace_valid || alone_pace_valid),
    .command_ready_o(pace_ready),
    .pace_i         (pace_command.pace),
    .fire_i         (pace_command.fire),
    .progress_i     (pace_command.progress),
    .arm_i          (pace_command.arm),
    .done_o         (pace_done),
    .due_o          (pace_due),
    .timer_valid_o,
    .timer_o        (timer),
    .timer_at_o,
    .idle_o         (pace_idle)
  );

  assign timer_tag_o = timer[3] ? {2'b10, timer[2:0]} : {2'b00, timer[2:0]};

  pace_t op_pace;  // the pace whose timer fired
  always_comb begin
    unique case (op_i.timer)
      TimerLead: op_pace = PaceLead;
      TimerSeal: op_pace = PaceSeal;
      TimerTransfer: op_pace = PaceTransfer;
      default: op_pace = {1'b0, op_i.timer[2:0]};
    endcase
  end

  // ===== Result of a write =====

  logic session_sent_q, session_sent_d, session_known_q, session_known_d;
  logic reserve_sent_q, reserve_sent_d, reserve_known_q, reserve_known_d;
  logic find_sent_q, find_sent_d, find_known_q, find_known_d;
  logic granted_q, granted_d;
  session_verdict_e verdict_q;
  // Status of the reply and of the entry.
  reply_status_e status_q, status_d;
  version_t version_q;  // version in the session's record
  logic answered_q, answered_d;  // the record is the answer to the request
  // The newest accepted state of the key, if known.
  logic exists_q, exists_d;
  version_t current_q, current_d;  // the version, if the key exists
  logic found_q, found_d;  // the version was found in the window
  number_t found_number_q;
  logic retried_q, retried_d;

  logic is_get, is_put;
  assign is_get = op_i.operation == Get;
  assign is_put = op_i.operation == Put;
  version_t written;
  assign written = {membership.epoch[23:0], following};

  logic release_q, release_d;
  bucket_t release_bucket_q;
  assign release_valid_o  = release_q;
  assign release_bucket_o = release_bucket_q;

  // ===== Following: replicated, committed =====

  number_t told_committed;  // the smaller of the message's committed and this node's accepted length
  logic fits, empty_then;
  assign told_committed = look.reaches ? look_accepted_q : op_i.committed;
  // With this message no entry is undecided any more.
  assign empty_then = look.empty || look.advances && look.reaches;
  assign fits = room_q || look.advances;

  // ===== Resends =====

  number_t resend_number_q, resend_number_d;  // number of the last entry that was handled
  logic [6:0] resends_q, resends_d;  // remaining entries of the burst
  logic read_known_q, read_known_d;  // the entry has been read, and stays valid
  stream_set_t bursts_q, bursts_d;

  // ===== Operations that run alone =====

  logic alone_done, alone_takes, alone_quiet;
  logic exclusive_sweeps, sweep_drops_all, sweep_drops, sweep_done;
  logic sweep_read, sweep_cancels, sweep_refuses, sweep_releases, sweep_cut;
  logic session_clear;
  stream_t exclusive_stream, sweep_stream;
  window_count_t sweep_number;
  kv_events_t alone_events;

  assign alone_quiet  = drained_i && !message_valid && !storing && !release_q && !journal_valid_q;
  assign alone_stream = exclusive_sweeps ? sweep_stream : exclusive_stream;
  assign sweep_drops  = exclusive_sweeps && sweep_drops_all;

  kv_exclusive i_exclusive (
    .clk_i,
    .rst_ni,
    .valid_i              (at(Alone)),
    .done_o               (alone_done),
    .op_i,
    .kind_i               (look.kind),
    .from_i               (look.from),
    .older_i              (look.older),
    .newer_i              (look.newer),
    .takes_o              (alone_takes),
    .taken_i              (taken_q),
    .configuration_i,
    .forgets_cut_i        (planted(BugLostUpdateOnFailover)),
    .believes_cut_i       (planted(BugAcknowledgeBeforeReplicating) || planted(BugEpochNotChecked)),
    .quiet_i              (alone_quiet),
    .committer_idle_i,
    .drained_i,
    .membership_i         (membership),
    .change_o             (alone_change),
    .fill_o               (fill),
    .filling_i            (filling),
    .stops_o              (stops),
    .begins_o             (begins),
    .clears_o             (lengths_clear),
    .stream_o             (exclusive_stream),
    .accepted_i           (accepted),
    .committed_i          (committed),
    .lengths_change_o     (alone_lengths_change),
    .pace_valid_o         (alone_pace_valid),
    .pace_ready_i         (pace_ready),
    .pace_o               (alone_pace),
    .sweep_valid_o        (exclusive_sweeps),
    .sweep_drops_o        (sweep_drops_all),
    .sweep_done_i         (sweep_done),
    .window_clear_valid_o,
    .window_clear_ready_i,
    .window_clear_done_i,
    .session_clear_valid_o(session_clear),
    .session_clear_ready_i(session_ready_i),
    .session_clear_done_i (session_answer_valid_i),
    .table_clear_valid_o,
    .table_clear_ready_i,
    .table_clear_done_i,
    .value_controlled_o,
    .command_valid_o,
    .command_o,
    .answer_valid_i,
    .answer_i,
    .cut_lengths_i        (lengths_i),
    .missing_i,
    .transferred_i,
    .control_stream_i,
    .control_idle_i,
    .commit_valid_i,
    .commit_stream_i,
    .commit_i,
    .commit_done_o,
    .events_o             (alone_events)
  );

  kv_sweep i_sweep (
    .clk_i,
    .rst_ni,
    .valid_i       (exclusive_sweeps),
    .drops_i       (sweep_drops_all),
    .done_o        (sweep_done),
    .stream_o      (sweep_stream),
    .accepted_i    (window_count_t'(accepted)),
    .committed_i   (window_count_t'(committed)),
    .number_o      (sweep_number),
    .read_valid_o  (sweep_read),
    .read_ready_i,
    .read_done_i,
    .led_i         (read_i.led),
    .reserved_i    (read_i.reserved),
    .take_valid_o,
    .take_ready_i,
    .take_done_i,
    .take_some_i,
    .release_o     (sweep_releases),
    .releasing_i   (release_q),
    .cancel_valid_o(sweep_cancels),
    .cancel_ready_i(session_ready_i),
    .cancel_done_i (session_answer_valid_i),
    .refuse_valid_o(sweep_refuses),
    .refuse_ready_i(message_free),
    .cut_o         (sweep_cut)
  );

  // ===== Messages =====

  about_e about;
  asker_t asker;
  say_t   say;

  always_comb begin
    about = AboutOp;
    if (at(ResendSend) || sweep_drops) about = AboutEntry;
    else if (at(Alone)) about = AboutTaken;
  end

  always_comb begin
    unique case (about)
      AboutEntry: asker = read_i.asker;
      AboutTaken: asker = take_i;
      default: asker = op_i.asker;
    endcase
  end

  kv_compose i_compose (
    .clk_i,
    .rst_ni,
    .epoch_i    (membership.epoch),
    .full_i     (membership.full),
    .say_valid_i(message_load),
    .say_ready_o(message_free),
    .say_i      (say),
    .asker_i    (asker),
    .key_i      (about == AboutEntry ? read_i.key : op_i.key),
    .operation_i(about == AboutEntry ? read_i.operation : op_i.operation),
    .hold_i     (before_first),
    .outgoing_valid_o,
    .outgoing_ready_i,
    .outgoing_o,
    .busy_o     (message_valid)
  );

  // ===== Requests to the other blocks: they depend on the state only, so that there are no combinational loops =====

  logic in_act, act_serves, act_writes;
  assign in_act = at(Act);
  assign act_serves = in_act && op_i.kind == OpRequest && serves;
  assign act_writes = act_serves && !is_get && look.leads;

  // If the key exists after all pending writes, it has a way of its bucket, or will have one before its next write is
  // applied. A put of any other key reserves a way, whatever the table holds.
  logic begin_reserves;
  assign begin_reserves = at(
      Begin
  ) && is_put && !reserve_sent_q && (find_done_i && !find_hit_i || find_known_q && !exists_q);

  // Used in Execute.
  logic admitted, has_way, execute_asks;
  assign admitted = verdict_q == SeenAdmitted || planted(
      BugDuplicateApply
  ) && verdict_q != SeenNoRoom && verdict_q != SeenRefused;
  assign has_way = exists_q || granted_q;
  assign execute_asks = at(Execute) && !release_q && admitted && !(is_put && has_way) && !found_q && !retried_q;

  assign find_valid_o = act_serves && (is_get || look.leads) || at(Begin) && !find_sent_q;
  assign find_stream_o = look.stream;
  assign find_key_o = op_i.key;
  assign find_place_o = op_i.place;
  assign find_committed_o = committed;
  assign find_committed_only_o = is_get && (look.leads || planted(BugStaleReadAtFollower));

  assign wait_valid_o = at(Wait) && !session_sent_q;
  assign wait_stream_o = look.stream;
  assign wait_number_o = found_number_q;
  assign wait_o = op_i.asker;

  assign session_valid_o = act_writes || (at(Begin) || at(Cancel)) && !session_sent_q || sweep_cancels || session_clear;
  always_comb begin
    session_o = '{
        command: SessionBegin,
        room: room_q,
        client: asker.client,
        request: asker.request,
        status: StatusOk,
        version: '0,
        index: '0
    };
    if (at(Cancel) || sweep_cancels) session_o.command = SessionCancel;
    if (session_clear) session_o.command = SessionClear;
  end

  assign reserve_valid_o = begin_reserves || at(Reserve) && !reserve_sent_q;
  assign reserve_bucket_o = op_i.place.bucket;

  assign lookup_valid_o = at(Find) && find_done_i && !find_hit_i || at(Lookup) && !found_q || execute_asks;
  assign lookup_o = '{
          kind: at(Execute) ? LookupFind : LookupRead,
          key: op_i.key,
          place: op_i.place,
          asker: op_i.asker
      };

  // An entry is accepted: by a follower, or by the leader itself.
  logic act_accepts;
  assign act_accepts   = in_act && look.accepts && fits && (!journaling || !journal_valid_q);
  assign push_valid_o  = (act_accepts || at(Push) && message_free) && pace_ready && place_free_q;
  assign push_stream_o = look.stream;
  assign push_number_o = in_act ? op_i.number : following;
  logic leads;  // the entry belongs to this node's stream
  assign leads = look.kind == OpRequest;
  always_comb begin
    push_o.operation = op_i.operation;
    push_o.status = leads ? status_q : op_i.status;
    push_o.led = leads;
    push_o.asker = op_i.asker;
    push_o.version = op_i.version;
    if (leads)
      push_o.version = status_q == StatusOk ? written : status_q == StatusMismatch && exists_q ? current_q : '0;
    push_o.key = op_i.key;
    push_o.place = op_i.place;
    push_o.value_bytes = push_indexed_o ? op_i.value_bytes : '0;
    push_o.reserved = leads && granted_q;
  end
  assign push_indexed_o = (leads ? status_q : op_i.status) == StatusOk;

  assign read_valid_o   = at(ResendNext) && resends_q != '0 || sweep_read;
  assign read_stream_o  = at(Alone) ? sweep_stream : look.stream;
  assign read_number_o  = at(Alone) ? number_t'(sweep_number) : resend_number_q + 1'b1;
  assign take_stream_o  = sweep_stream;
  assign take_number_o  = number_t'(sweep_number);

  assign result_ready_o = at(Seek);

  // ===== State machine =====

  kv_events_t events;
  always_comb begin
    events_o = events | alone_events;
    events_o.entries_cut = sweep_cut;
  end

  always_comb begin
    state_d = state_q;
    resent_d = resent_q;
    renews_lease = 1'b0;
    taken_d = taken_q;
    last_d = last_q;
    op_takes = 1'b0;
    op_keeps_value = 1'b0;
    due_d = due_q;
    gap_d = gap_q;
    behind_d = behind_q;
    release_d = release_q && !release_ready_i;

    accepted_write = 1'b0;
    accepted_next = following;
    committed_write = 1'b0;
    committed_next = following;

    journal_valid_d = 1'b0;

    ledger_tell = 1'b0;
    pace_valid = 1'b0;
    pace = PaceLead;
    pace_fire = 1'b0;
    pace_progress = 1'b0;
    pace_arm = 1'b0;
    due_sent = 1'b0;

    session_sent_d = session_sent_q;
    session_known_d = session_known_q;
    reserve_sent_d = reserve_sent_q;
    reserve_known_d = reserve_known_q;
    find_sent_d = find_sent_q;
    find_known_d = find_known_q;
    granted_d = granted_q;
    status_d = status_q;
    exists_d = exists_q;
    found_d = found_q;
    current_d = current_q;
    retried_d = retried_q;
    answered_d = answered_q;

    resend_number_d = resend_number_q;
    read_known_d = read_known_q;
    resends_d = resends_q;
    burst_to_d = burst_to_q;
    bursts_d = bursts_q;

    message_load = 1'b0;
    say = '{
        kind: KindReply,
        to: node_set_t'(16'd1) << look.stream,
        status: status_q,
        version: push_o.version,
        value_bytes: '0,
        stream: look.stream,
        place: window_place_t'(found_number_q - 1'b1),
        asks: 1'b0,
        gap: 1'b0,
        number: accepted,
        committed: committed
    };

    events = '0;

    unique case (1'b1)

      // ----- Any operation -----

      |(state_q & Start): begin
        taken_d = !op_valid_i;
        last_d = !op_valid_i || op_i.last;
        session_sent_d = 1'b0;
        session_known_d = 1'b0;
        reserve_sent_d = 1'b0;
        reserve_known_d = 1'b0;
        find_sent_d = 1'b0;
        find_known_d = 1'b0;
        granted_d = 1'b0;
        retried_d = 1'b0;
        answered_d = 1'b0;
        if (op_valid_i) state_d = Act;
        else if (journaling && due_q != '0) state_d = End;
      end

      |(state_q & Act): begin
        unique case (op_i.kind)
          OpNothing: state_d = End;

          OpMalformed: begin
            events.dropped_malformed = 2'd1;
            state_d = End;
          end

          OpBadRequest: begin
            events.refused_bad_request = 1'b1;
            status_d = StatusBadRequest;
            state_d = op_i.identified ? SendReply : End;
          end

          // `call`: a request of a client.
          OpRequest: begin
            if (!serves) begin
              events.refused_not_serving = 1'b1;
              status_d = StatusNotServing;
              state_d = SendReply;
            end else if (is_get) begin
              if (find_ready_i) state_d = Find;
            end else if (!look.leads) begin
              events.refused_not_leader = 1'b1;
              status_d = StatusNotLeader;
              state_d = SendReply;
            end else begin
              session_sent_d = session_ready_i;
              find_sent_d = find_ready_i;
              state_d = Begin;
            end
          end

          // `replicated`: an entry of another leader's stream.
          OpWrite: begin
            accepted_next = op_i.number;
            committed_next = told_committed;
            pace = {1'b0, look.stream};
            pace_progress = look.advances || empty_then;
            pace_arm = 1'b1;
            if (look.other_stream || !look.follows) begin
              events.dropped_old_epoch = look.older;
              events.dropped_future_epoch = look.newer;
              events.dropped_wrong_role = 2'(!look.other_stream);
              op_takes = 1'b1;
              state_d = End;
            end else if (!look.accepts || !fits) begin
              pace_progress = look.advances;
              pace_arm = look.advances && !empty_then;
              pace_valid = look.advances;
              if (!look.advances || pace_ready) begin
                events.dropped_old_epoch = look.older;
                events.dropped_future_epoch = look.newer;
                events.writes_repeated = look.repeated;
                events.gaps = !look.repeated && look.gaps;
                events.dropped_contradiction = 2'(!look.repeated && !look.gaps);
                committed_write = look.advances;
                due_d[look.stream] = 1'b1;
                if (!look.repeated && look.gaps) gap_d[look.stream] = 1'b1;
                op_takes = 1'b1;
                state_d  = End;
              end
            end else if (push_valid_o && push_ready_i) begin
              events.dropped_old_epoch = look.older;
              events.dropped_future_epoch = look.newer;
              events.writes_followed = 1'b1;
              pace_valid = 1'b1;
              committed_write = look.advances;
              accepted_write = 1'b1;
              journal_valid_d = journaling;
              if (!journaling) due_d[look.stream] = 1'b1;
              op_takes = 1'b1;
              op_keeps_value = 1'b1;
              state_d = End;
            end
          end

          OpCommit: begin
            committed_next = told_committed;
            pace = {1'b0, look.stream};
            pace_progress = 1'b1;
            pace_arm = !empty_then;
            pace_valid = !look.other_stream && look.follows && look.advances;
            if (!pace_valid || pace_ready) begin
              events.dropped_old_epoch = look.older;
              events.dropped_future_epoch = look.newer;
              events.dropped_wrong_role = 2'(!look.other_stream && !look.follows);
              committed_write = pace_valid;
              state_d = End;
            end
          end

          // `acknowledged`: a follower reports the length that it has accepted.
          OpAcknowledge: begin
            events.dropped_old_epoch = look.older;
            events.dropped_future_epoch = look.newer;
            if (look.other_stream) begin
              state_d = End;
            end else if (role != RoleFull || !from_known || !followers[from]) begin
              events.dropped_wrong_role = 2'd1;
              state_d = End;
            end else if (look.beyond) begin
              events.dropped_contradiction = 2'd1;
              state_d = End;
            end else begin
              ledger_tell = 1'b1;
              state_d = Ledger;
            end
          end

          OpTimer: begin
            pace = op_pace;
            pace_fire = 1'b1;
            pace_valid = op_i.timer < 5'(Streams) || op_i.timer >= TimerLead && op_i.timer <= TimerTransfer;
            if (!pace_valid) state_d = End;
            else if (pace_ready) state_d = Fired;
          end

          OpConfigure: begin
            state_d = End;
            if (newer_view) state_d = Alone;
            else if (!older_view && same_view) renews_lease = 1'b1;
            else events.configurations_ignored = 1'b1;
          end

          OpReset, OpSealed, OpStateChunk: state_d = Alone;

          OpStateRequest: begin
            events.dropped_old_epoch = look.older;
            events.dropped_future_epoch = look.newer;
            state_d = End;
            if (!look.older && !look.newer) begin
              if (role == RoleFull && membership.joining[look.from]) state_d = Alone;
              else events.dropped_wrong_role = 2'd1;
            end
          end

          default: state_d = End;
        endcase
      end

      |(state_q & SendReply): begin
        message_load = 1'b1;
        say.version  = answered_q ? version_q : '0;
        if (message_free) begin
          op_takes = 1'b1;
          state_d  = End;
        end
      end

      // `end_batch`: acknowledges the streams in `due_q`, once for a batch.
      |(state_q & End): begin
        if (last_q && due_q != '0) begin
          // `acknowledge`: to the leader of the first of these streams.
          message_load = due_known_q && (due_steady_q || !journaling);
          say.kind = KindAcknowledge;
          say.to = node_set_t'(16'd1) << due_first_q;
          say.gap = gap_q[due_first_q];
          say.number = journaling ? acknowledged_q : accepted;
          if (message_free && message_load) begin
            due_sent = 1'b1;
            due_d[due_first_q] = 1'b0;
            gap_d[due_first_q] = 1'b0;
          end
        end else if (last_q && behind_q) begin
          message_load = followers != '0 && role == RoleFull;
          say.kind = KindCommit;
          say.number = committed;
          say.to = followers_to;
          if (message_free) behind_d = 1'b0;
        end else begin
          op_takes = !taken_q && op_valid_i;
          state_d  = Start;
        end
      end

      // ----- Reads -----

      |(state_q & Find): begin
        if (find_done_i) begin
          if (!find_hit_i) begin
            state_d = lookup_ready_i ? End : Lookup;
            if (lookup_ready_i && !(last_q && (due_q != '0 || behind_q))) begin
              op_takes = 1'b1;
              state_d  = Start;
            end
          end else if (find_number_i > look_committed_q) begin
            state_d = Wait;
          end else begin
            events.reads = 2'd1;
            events.reads_from_window = 1'b1;
            state_d = Lookup;
          end
        end
      end

      // The read is answered from the table or from the window.
      |(state_q & Lookup): begin
        message_load = found_q;
        say.value_bytes = read_i.operation == Delete ? '0 : read_i.value_bytes;
        say.status = read_i.operation == Delete ? StatusNotFound : StatusOk;
        say.version = read_i.operation == Delete ? '0 : read_i.version;
        if (found_q ? message_free : lookup_ready_i) state_d = End;
      end

      |(state_q & Wait): begin
        if (wait_ready_i) session_sent_d = 1'b1;
        status_d = StatusBusy;
        if (wait_done_i) begin
          events.refused_busy = wait_full_i;
          state_d = wait_full_i ? SendReply : End;
        end
      end

      // ----- Writes: write, execute -----

      |(state_q & Begin): begin
        if (session_ready_i) session_sent_d = 1'b1;
        if (begin_reserves && reserve_ready_i) reserve_sent_d = 1'b1;
        if (find_ready_i) find_sent_d = 1'b1;
        if (session_known_q && find_known_q && (!is_put || exists_q || reserve_known_q)) state_d = Execute;
      end

      |(state_q & Execute): begin
        reserve_known_d = 1'b0;
        reserve_sent_d  = 1'b0;
        if (release_q) begin
          // At most one reservation may be in the process of being released.
          state_d = Execute;
        end else if (!admitted) begin
          release_d = granted_q;
          if (verdict_q == SeenNoRoom) begin
            events.refused_busy = 1'b1;
            status_d = StatusBusy;
          end else if (verdict_q == SeenRefused) begin
            events.refused_sessions_full = 1'b1;
            status_d = StatusSessionsFull;
          end else begin
            answered_d = 1'b1;
            events.duplicates_answered = verdict_q == SeenRecorded;
            events.duplicates_ignored = verdict_q == SeenIgnored;
          end
          state_d = verdict_q == SeenIgnored ? End : SendReply;
        end else if (is_put && has_way) begin
          status_d = StatusOk;
          state_d  = Push;
        end else if (!found_q && !retried_q) begin
          // The table must be looked up. For a put, the bucket may also be full, unless the key exists.
          if (lookup_ready_i) state_d = Seek;
        end else if (op_i.operation == Delete) begin
          status_d = StatusOk;
          if (!exists_q) begin
            status_d = StatusNotFound;
          end
          state_d = Push;
        end else if (op_i.operation == CompareAndSet
            && (exists_q ? current_q != op_i.version : op_i.version != '0)) begin
          status_d = StatusMismatch;
          state_d  = Push;
        end else begin
          status_d = StatusOk;
          state_d  = exists_q ? Push : Reserve;
        end
      end

      |(state_q & Seek): begin
        if (result_valid_i) begin
          exists_d  = result_i.found;
          current_d = result_i.version;
          retried_d = 1'b1;
          state_d   = Execute;
        end
      end

      // A new key: checks whether the bucket has room. The answer is final once all committed entries have been
      // applied.
      |(state_q & Reserve): begin
        if (reserve_ready_i) reserve_sent_d = 1'b1;
        if (reserve_known_q) begin
          reserve_sent_d  = 1'b0;
          reserve_known_d = 1'b0;
          if (granted_q) state_d = Push;
          else if (session_sent_q) state_d = Room;  // not retried yet
          else if (empty_now_q) begin
            events.table_full = 1'b1;
            status_d = StatusTableFull;
            state_d = Push;
          end else begin
            events.refused_busy = 1'b1;
            status_d = StatusBusy;
            state_d = Cancel;
          end
        end
      end

      |(state_q & Room): begin
        session_sent_d = 1'b0;
        if (settled_q && !release_q) state_d = Reserve;
      end

      |(state_q & Cancel): begin
        if (session_ready_i) session_sent_d = 1'b1;
        if (session_sent_q && session_answer_valid_i) state_d = SendReply;
      end

      |(state_q & Push): begin
        say.kind = KindWrite;
        say.number = following;
        say.to = followers_to;
        say.value_bytes = status_q == StatusOk ? op_i.value_bytes : '0;
        say.place = next_place;
        pace = PaceLead;
        pace_progress = empty_now_q;
        pace_arm = followers != '0;
        if (push_valid_o && push_ready_i) begin
          events.writes_led = 1'b1;
          pace_valid = 1'b1;
          message_load = followers != '0;
          accepted_write = 1'b1;
          op_takes = 1'b1;
          op_keeps_value = status_q == StatusOk;
          if (followers != '0) behind_d = 1'b0;
          state_d = followers == '0 || planted(BugAcknowledgeBeforeReplicating) ? CommitAlone : End;
        end
      end

      // The commit waits until the whole value is in the window, so that the committer does not read it too early.
      |(state_q & CommitAlone): begin
        committed_next = accepted;
        if (!storing) begin
          committed_write = 1'b1;
          behind_d = 1'b1;
          state_d = End;
        end
      end

      // ----- Acknowledgements -----

      |(state_q & Ledger): state_d = LedgerCommit;

      |(state_q & LedgerCommit): begin
        committed_next = committed_ahead;
        pace = PaceLead;
        pace_progress = 1'b1;
        pace_arm = undecided_q != ahead;
        pace_valid = ahead != '0;
        if (!pace_valid || pace_ready) begin
          committed_write = pace_valid;
          if (pace_valid) behind_d = 1'b1;
          burst_to_d = from;
          resent_d = Asked;
          state_d = again ? Resend : Asked;
        end
      end

      // `send_again`: sends a follower entries that it lacks.
      |(state_q & Resend): begin
        // Committed entries are not resent.
        resend_number_d = committed_ahead;
        resends_d = again_ahead[9] ? '0 : again_count;
        state_d = ResendNext;
      end

      |(state_q & ResendNext): begin
        if (resends_q == '0) begin
          state_d = resent_q;
        end else begin
          if (read_ready_i) begin
            resend_number_d = resend_number_q + 1'b1;
            resends_d = resends_q - 1'b1;
            read_known_d = 1'b0;
            state_d = ResendSend;
          end
        end
      end

      |(state_q & ResendSend): begin
        say.kind = KindWrite;
        say.status = read_i.status;
        say.version = read_i.version;
        say.value_bytes = read_i.value_bytes;
        say.number = resend_number_q;
        say.to = node_set_t'(16'd1) << burst_to_q;
        say.place = window_place_t'(resend_number_q - 1'b1);
        if (read_done_i) read_known_d = 1'b1;
        message_load = read_known_q;
        if (read_known_q && message_free) begin
          events.writes_resent = 1'b1;
          state_d = ResendNext;
        end
      end

      |(state_q & Asked): state_d = op_i.asks ? AskedSend : End;

      |(state_q & AskedSend): begin
        say.kind = KindCommit;
        say.number = committed;
        say.to = node_set_t'(16'd1) << from;
        message_load = lags_q;
        if (!message_load || message_free) state_d = End;
      end

      // ----- Timers -----

      |(state_q & Fired): begin
        bursts_d = followers;
        if (pace_done) begin
          unique case (op_i.timer)
            TimerLead: begin
              state_d = End;
              if (role == RoleFull && !empty_now_q) state_d = pace_due ? Bursts : Rearm;
            end
            TimerSeal: begin
              state_d = End;
              if (role == RoleSealed) state_d = pace_due ? Alone : Rearm;
            end
            TimerTransfer: begin
              state_d = End;
              if (role == RoleJoining && joining_i) state_d = pace_due ? Alone : Rearm;
            end
            default: begin
              state_d = End;
              if ((role == RoleFull || role == RoleJoining) && node_t'(look.stream) != membership.node && !empty_now_q)
                state_d = pace_due ? FollowerAsks : Rearm;
            end
          endcase
        end
      end

      |(state_q & FollowerAsks): begin
        message_load = 1'b1;
        say.kind = KindAcknowledge;
        say.asks = 1'b1;
        say.gap = gap_q[look.stream];
        say.number = journaling ? acknowledged_q : accepted;
        if (message_free) begin
          gap_d[look.stream] = 1'b0;
          state_d = Rearm;
        end
      end

      // Sends the next burst to every follower that lacks entries.
      |(state_q & Bursts): begin
        for (int unsigned i = Streams; i > 0; i--) begin
          if (bursts_q[i-1]) burst_to_d = stream_t'(i - 1);
        end
        state_d = bursts_q == '0 ? Rearm : BurstsTell;
      end

      |(state_q & BurstsTell): begin
        ledger_tell = 1'b1;
        bursts_d[burst_to_q] = 1'b0;
        resent_d = Bursts;
        state_d = BurstsTold;
      end

      |(state_q & BurstsTold): state_d = BurstsKnown;

      |(state_q & BurstsKnown): state_d = again ? Resend : Bursts;

      |(state_q & Rearm): begin
        pace = op_pace;
        pace_arm = 1'b1;
        pace_valid = 1'b1;
        if (pace_ready) state_d = End;
      end

      // ----- Alone -----

      |(state_q & Alone): begin
        op_takes = alone_takes;
        message_load = sweep_refuses;
        say.status = StatusNotServing;
        say.version = '0;
        events.refused_not_serving = sweep_refuses && message_free;
        if (sweep_releases) release_d = 1'b1;
        if (alone_done) state_d = look.kind == OpTimer ? Rearm : End;
      end

      default: state_d = Start;
    endcase

    if (op_takes && !at(Find) && !at(End)) taken_d = 1'b1;

    if (stops) begin
      due_d = '0;
      gap_d = '0;
      behind_d = 1'b0;
    end
    // Entries that have just reached the journal must be acknowledged.
    if (journaled_valid_i) due_d[journaled_stream_i] = 1'b1;

    // Answers may arrive before the state that waits for them.
    if (session_answer_valid_i) session_known_d = 1'b1;
    if (reserve_done_i) begin
      reserve_known_d = 1'b1;
      granted_d = reserve_granted_i;
    end
    if (find_done_i) begin
      find_known_d = 1'b1;
      found_d = find_hit_i;
      exists_d = find_hit_i && read_i.operation != Delete;
      current_d = read_i.version;
    end
  end

  // ===== Registers =====

  assign idle_o = at(
      Start
  ) && !op_valid_i && !message_valid && !storing && pace_idle && !release_q && !journal_valid_q &&
      !(journaling && due_q != '0);

  always_ff @(posedge clk_i) begin
    resent_q        <= resent_d;
    taken_q         <= taken_d;
    last_q          <= last_d;
    status_q        <= status_d;
    exists_q        <= exists_d;
    found_q         <= found_d;
    current_q       <= current_d;
    retried_q       <= retried_d;
    answered_q      <= answered_d;
    granted_q       <= granted_d;
    session_sent_q  <= session_sent_d;
    session_known_q <= session_known_d;
    reserve_sent_q  <= reserve_sent_d;
    reserve_known_q <= reserve_known_d;
    find_sent_q     <= find_sent_d;
    find_known_q    <= find_known_d;
    read_known_q    <= read_known_d;
    resends_q       <= resends_d;
    resend_number_q <= resend_number_d;
    burst_to_q      <= burst_to_d;
    bursts_q        <= bursts_d;
    if (find_done_i) found_number_q <= find_number_i;
    if (release_d && !release_q) release_bucket_q <= at(Execute) ? op_i.place.bucket : read_i.place.bucket;
    if (at(Begin) && session_answer_valid_i) begin
      verdict_q <= session_answer_i.verdict;
      status_q  <= session_answer_i.status;
      version_q <= session_answer_i.version;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q   <= Start;
      due_q     <= '0;
      gap_q     <= '0;
      behind_q  <= 1'b0;
      release_q <= 1'b0;
    end else begin
      state_q   <= state_d;
      due_q     <= due_d;
      gap_q     <= gap_d;
      behind_q  <= behind_d;
      release_q <= release_d;
    end
  end

endmodule
