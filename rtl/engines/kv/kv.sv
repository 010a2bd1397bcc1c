// The key-value engine. Twin of crates/engines/kv, whose documentation describes the protocol.
//
// Each event is converted into an operation (kv_intake). Operations are executed one after another (kv_streams). What
// they commit is applied afterwards to the table and the sessions and answered to the callers (kv_committer).
// Messages leave through kv_outgoing.
//
// Latency, when nothing else is in progress: a Write is acknowledged 7 cycles after its event, an Acknowledge commits
// 7 cycles after its event. Order: events are executed in order; messages to one node leave in the order of their
// causes. Stalls: events, while an operation is executed and while messages are not accepted.
module kv
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
#(
  parameter bit PlantedBugs = 1'b0  // enables `planted_bug_i`
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
  input engine_configuration_t configuration_i,
  // Constant after reset.
  input bucket_t bucket_mask_i,
  input cycles_t retransmit_i,  // interval before the first retransmission; cycles of at most 32 bits
  input cycles_t retransmit_max_i,
  input logic acknowledge_after_memory_i,
  input planted_bug_e planted_bug_i,
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
  output kv_events_t events_o,
  // The engine has nothing to do; its timers are kept outside.
  output logic idle_o
);

  // ===== Operations =====

  logic op_valid, op_ready, value_valid, value_ready, moved_ready, controlled, intake_idle;
  op_t   op;
  beat_t value;

  kv_intake i_intake (
    .clk_i,
    .rst_ni,
    .bucket_mask_i,
    .event_valid_i,
    .event_ready_o,
    .event_i,
    .payload_valid_i,
    .payload_ready_o,
    .payload_i,
    .op_valid_o   (op_valid),
    .op_ready_i   (op_ready),
    .op_o         (op),
    .value_valid_o(value_valid),
    .value_ready_i(value_ready),
    .value_o      (value),
    .idle_o       (intake_idle)
  );

  // State of kv_streams.
  node_t     node;
  epoch_t    epoch;
  node_set_t full;
  epoch_t    base;
  node_set_t base_members;
  logic serves, restart, streams_idle;
  lengths_t committed, retired;
  kv_events_t streams_events;

  // Requests to kv_outgoing from kv_streams (0), kv_committer (1), kv_lookup_reply (2) and kv_control (3).
  logic [3:0] request_valid, request_ready, attached_valid, attached_ready;
  outgoing_t     [                      3:0] request;
  beat_t         [                      3:0] attached;
  logic                                      reading_valid;
  stream_t                                   reading_stream;
  window_place_t                             reading_place;
  logic                                      outgoing_idle;

  // ===== Windows =====

  logic                                      value_write_valid;
  stream_t                                   value_write_stream;
  window_place_t                             value_write_place;
  logic          [$clog2(ValueBeatsMax)-1:0] value_write_beat;
  logic          [             BeatBits-1:0] value_write_data;

  logic value_read_a_valid, value_read_a_ready, value_beat_a_valid, value_beat_a_ready;
  logic value_read_b_valid, value_read_b_ready, value_beat_b_valid, value_beat_b_ready, value_beat_b_last;
  stream_t value_read_a_stream, value_read_b_stream;
  window_place_t value_read_a_place, value_read_b_place;
  value_beats_t value_read_a_beats, value_read_b_beats;
  logic [BeatBits-1:0] value_beat_a, value_beat_b;

  logic push_valid, push_ready, push_indexed;
  stream_t push_stream;
  number_t push_number;
  entry_t  push;

  logic read_a_valid, read_a_ready, read_a_done, read_b_valid, read_b_ready, read_b_done;
  stream_t read_a_stream, read_b_stream;
  number_t read_a_number, read_b_number;
  entry_t read_a, read_b;

  logic find_valid, find_ready, find_committed_only, find_done, find_hit;
  stream_t find_stream;
  key_t    find_key;
  place_t  find_place;
  number_t find_committed, find_number;

  logic wait_valid, wait_ready, wait_done, wait_full;
  stream_t wait_stream;
  number_t wait_number;
  asker_t  wait_asker;

  // kv_committer takes waiting reads, and so does kv_streams while kv_committer is idle.
  logic take_ready, take_done, take_some, streams_take_valid, committer_take_valid;
  stream_t streams_take_stream, committer_take_stream;
  number_t streams_take_number, committer_take_number;
  asker_t take;

  logic   take_streams_q;  // kv_streams had the last turn
  always_ff @(posedge clk_i) begin
    if (take_ready) take_streams_q <= streams_take_valid;
  end

  logic window_clear_valid, window_clear_ready, window_clear_done, window_idle;

  kv_window i_window (
    .clk_i,
    .rst_ni,
    .value_write_valid_i  (value_write_valid),
    .value_write_stream_i (value_write_stream),
    .value_write_place_i  (value_write_place),
    .value_write_beat_i   (value_write_beat),
    .value_write_data_i   (value_write_data),
    .value_read_a_valid_i (value_read_a_valid),
    .value_read_a_ready_o (value_read_a_ready),
    .value_read_a_stream_i(value_read_a_stream),
    .value_read_a_place_i (value_read_a_place),
    .value_read_a_beats_i (value_read_a_beats),
    .value_beat_a_valid_o (value_beat_a_valid),
    .value_beat_a_ready_i (value_beat_a_ready),
    .value_beat_a_o       (value_beat_a),
    .value_beat_a_last_o  (),
    .value_read_b_valid_i (value_read_b_valid),
    .value_read_b_ready_o (value_read_b_ready),
    .value_read_b_stream_i(value_read_b_stream),
    .value_read_b_place_i (value_read_b_place),
    .value_read_b_beats_i (value_read_b_beats),
    .value_beat_b_valid_o (value_beat_b_valid),
    .value_beat_b_ready_i (value_beat_b_ready),
    .value_beat_b_o       (value_beat_b),
    .value_beat_b_last_o  (value_beat_b_last),
    .push_valid_i         (push_valid),
    .push_ready_o         (push_ready),
    .push_stream_i        (push_stream),
    .push_number_i        (push_number),
    .push_i               (push),
    .push_indexed_i       (push_indexed),
    .read_a_valid_i       (read_a_valid),
    .read_a_ready_o       (read_a_ready),
    .read_a_stream_i      (read_a_stream),
    .read_a_number_i      (read_a_number),
    .read_a_done_o        (read_a_done),
    .read_a_o             (read_a),
    .read_b_valid_i       (read_b_valid),
    .read_b_ready_o       (read_b_ready),
    .read_b_stream_i      (read_b_stream),
    .read_b_number_i      (read_b_number),
    .read_b_done_o        (read_b_done),
    .read_b_o             (read_b),
    .find_valid_i         (find_valid),
    .find_ready_o         (find_ready),
    .find_stream_i        (find_stream),
    .find_key_i           (find_key),
    .find_place_i         (find_place),
    .find_committed_only_i(find_committed_only),
    .find_committed_i     (find_committed),
    .find_below_i         ('1),
    .find_done_o          (find_done),
    .find_hit_o           (find_hit),
    .find_number_o        (find_number),
    .find_entry_o         (),
    .retired_i            (retired),
    .wait_valid_i         (wait_valid),
    .wait_ready_o         (wait_ready),
    .wait_stream_i        (wait_stream),
    .wait_number_i        (wait_number),
    .wait_i               (wait_asker),
    .wait_done_o          (wait_done),
    .wait_full_o          (wait_full),
    .take_valid_i         (streams_take_valid || committer_take_valid),
    .take_ready_o         (take_ready),
    .take_stream_i        (streams_take_valid ? streams_take_stream : committer_take_stream),
    .take_number_i        (streams_take_valid ? streams_take_number : committer_take_number),
    .take_done_o          (take_done),
    .take_some_o          (take_some),
    .take_o               (take),
    .clear_valid_i        (window_clear_valid),
    .clear_ready_o        (window_clear_ready),
    .clear_done_o         (window_clear_done),
    .idle_o               (window_idle)
  );

  // ===== Sessions: one request at a time, from kv_streams (0), kv_control (1) or kv_committer (2) =====

  logic [2:0] session_valid, session_ready, session_turn, session_owner_q, session_answered;
  session_request_t [2:0] session;
  logic session_busy_q, sessions_valid, sessions_ready, sessions_answer_valid, sessions_idle, evicted_early;
  session_request_t sessions_request;
  session_answer_t  sessions_answer;
  logic word_valid, word_ready, word_last;
  logic [63:0] word;

  assign session_turn = session_valid & (~session_valid + 3'd1);
  assign sessions_valid = session_valid != '0 && !session_busy_q;
  assign sessions_request = session_turn[0] ? session[0] : session_turn[1] ? session[1] : session[2];
  assign session_ready = sessions_ready && !session_busy_q ? session_turn : '0;
  assign session_answered = sessions_answer_valid ? session_owner_q : '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      session_busy_q  <= 1'b0;
      session_owner_q <= '0;
    end else if (sessions_valid && sessions_ready) begin
      session_busy_q  <= 1'b1;
      session_owner_q <= session_turn;
    end else if (sessions_answer_valid) begin
      session_busy_q <= 1'b0;
    end
  end

  kv_sessions i_sessions (
    .clk_i,
    .rst_ni,
    .now_i,
    .request_valid_i(sessions_valid),
    .request_ready_o(sessions_ready),
    .request_i      (sessions_request),
    .answer_valid_o (sessions_answer_valid),
    .answer_o       (sessions_answer),
    .word_valid_o   (word_valid),
    .word_ready_i   (word_ready),
    .word_o         (word),
    .word_last_o    (word_last),
    .evicted_early_o(evicted_early),
    .idle_o         (sessions_idle)
  );

  // ===== The table: kv_control uses it only while kv_streams and kv_committer do not =====

  logic lookup_ready, streams_lookup_valid, control_lookup_valid;
  lookup_t streams_lookup, control_lookup;
  logic result_valid, result_ready, result_value_valid, result_value_ready;
  logic streams_result_ready, control_result_ready, reply_result_ready;
  logic control_result_value_ready, reply_result_value_ready;
  looked_up_t result;
  beat_t      result_value;

  // A value follows its result. It belongs to the last result that was taken, or to the one that is offered.
  logic result_fetch, result_read, value_fetched_q, control_takes_values;
  assign result_read = result.kind == LookupRead;
  assign result_fetch = result.kind == LookupFetch;
  assign result_ready = result_read ? reply_result_ready : result_fetch ? control_result_ready : streams_result_ready;
  assign result_value_ready = control_takes_values ? control_result_value_ready : reply_result_value_ready;
  assign control_takes_values = value_fetched_q || result_valid && result_fetch;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) value_fetched_q <= 1'b0;
    else if (result_valid && result_ready) value_fetched_q <= result_fetch;
  end

  logic reserve_valid, reserve_ready, reserve_done, reserve_granted, release_valid, release_ready;
  bucket_t reserve_bucket, release_bucket;

  logic apply_ready, committer_apply_valid, control_apply_valid, apply_value_ready;
  apply_t committer_apply, control_apply;
  logic control_apply_value_valid;
  beat_t control_apply_value;
  logic retired_valid;
  stream_t retired_stream;

  logic scan_valid, scan_ready, scan_done, scan_some;
  bucket_t scan_bucket;
  way_t scan_way, scanned_way;

  logic journal_valid, journal_ready, journal_value_valid, journal_value_ready, journaled_valid;
  journal_t journal;
  beat_t    journal_value;
  stream_t  journaled_stream;

  logic table_clear_valid, table_clear_ready, table_clear_done, table_idle;
  kv_table_events_t table_events;

  assign value_beat_b_ready = apply_value_ready;

  kv_table i_table (
    .clk_i,
    .rst_ni,
    .bucket_mask_i,
    .lookup_valid_i(streams_lookup_valid || control_lookup_valid),
    .lookup_ready_o(lookup_ready),
    .lookup_i(control_lookup_valid ? control_lookup : streams_lookup),
    .result_valid_o(result_valid),
    .result_ready_i(result_ready),
    .result_o(result),
    .result_value_valid_o(result_value_valid),
    .result_value_ready_i(result_value_ready),
    .result_value_o(result_value),
    .reserve_valid_i(reserve_valid),
    .reserve_ready_o(reserve_ready),
    .reserve_bucket_i(reserve_bucket),
    .reserve_done_o(reserve_done),
    .reserve_granted_o(reserve_granted),
    .release_valid_i(release_valid),
    .release_ready_o(release_ready),
    .release_bucket_i(release_bucket),
    .apply_valid_i(committer_apply_valid || control_apply_valid),
    .apply_ready_o(apply_ready),
    .apply_i(control_apply_valid ? control_apply : committer_apply),
    .apply_value_valid_i(value_beat_b_valid || control_apply_value_valid),
    .apply_value_ready_o(apply_value_ready),
    .apply_value_i(value_beat_b_valid ?
    '{last: value_beat_b_last, empty: '0, data: value_beat_b}
    : control_apply_value),
    .retired_valid_o(retired_valid),
    .retired_stream_o(retired_stream),
    .scan_valid_i(scan_valid),
    .scan_ready_o(scan_ready),
    .scan_bucket_i(scan_bucket),
    .scan_way_i(scan_way),
    .scan_done_o(scan_done),
    .scan_some_o(scan_some),
    .scan_way_o(scanned_way),
    .journal_valid_i(journal_valid),
    .journal_ready_o(journal_ready),
    .journal_i(journal),
    .journal_value_valid_i(journal_value_valid),
    .journal_value_ready_o(journal_value_ready),
    .journal_value_i(journal_value),
    .journaled_valid_o(journaled_valid),
    .journaled_stream_o(journaled_stream),
    .clear_valid_i(table_clear_valid),
    .clear_ready_o(table_clear_ready),
    .clear_done_o(table_clear_done),
    .memory_aw_valid_o,
    .memory_aw_ready_i,
    .memory_aw_o,
    .memory_w_valid_o,
    .memory_w_ready_i,
    .memory_w_o,
    .memory_b_valid_i,
    .memory_b_response_i,
    .memory_ar_valid_o,
    .memory_ar_ready_i,
    .memory_ar_o,
    .memory_r_valid_i,
    .memory_r_ready_o,
    .memory_r_i,
    .events_o(table_events),
    .idle_o(table_idle)
  );

  kv_lookup_reply_events_t reply_events;

  kv_lookup_reply i_lookup_reply (
    .epoch_i             (epoch),
    .full_i              (full),
    .result_valid_i      (result_valid && result_read),
    .result_ready_o      (reply_result_ready),
    .result_i            (result),
    .result_value_valid_i(result_value_valid && !control_takes_values),
    .result_value_ready_o(reply_result_value_ready),
    .result_value_i      (result_value),
    .outgoing_valid_o    (request_valid[2]),
    .outgoing_ready_i    (request_ready[2]),
    .outgoing_o          (request[2]),
    .attached_valid_o    (attached_valid[2]),
    .attached_ready_i    (attached_ready[2]),
    .attached_o          (attached[2]),
    .events_o            (reply_events)
  );

  // ===== View changes and state transfer =====

  logic command_valid, answer_valid, control_payload_ready, joining, transferred, commit_valid, commit_done;
  logic             control_idle;
  control_command_t command;
  control_answer_t  answer;
  lengths_t         cut_lengths;
  node_set_t        missing;
  stream_t control_stream, source;
  number_t control_accepted, control_committed, commit;
  partition_t control_partition;
  node_t      control_leader;
  logic hash_valid, hash_done;
  key_t hash_key;
  place_t hash_place;
  kv_control_events_t control_events;

  kv_control i_control (
    .clk_i,
    .rst_ni,
    .bucket_mask_i,
    .node_i                (node),
    .epoch_i               (epoch),
    .full_i                (full),
    .base_i                (base),
    .base_members_i        (base_members),
    .stream_o              (control_stream),
    .accepted_i            (control_accepted),
    .committed_i           (control_committed),
    .partition_o           (control_partition),
    .leader_i              (control_leader),
    .command_valid_i       (command_valid),
    .command_ready_o       (),
    .command_i             (command),
    .payload_valid_i       (value_valid && controlled),
    .payload_ready_o       (control_payload_ready),
    .payload_i             (value),
    .answer_valid_o        (answer_valid),
    .answer_o              (answer),
    .lengths_o             (cut_lengths),
    .missing_o             (missing),
    .joining_o             (joining),
    .complete_o            (transferred),
    .source_o              (source),
    .commit_valid_o        (commit_valid),
    .commit_o              (commit),
    .commit_done_i         (commit_done),
    .hash_valid_o          (hash_valid),
    .hash_key_o            (hash_key),
    .hash_done_i           (hash_done),
    .hash_place_i          (hash_place),
    .scan_valid_o          (scan_valid),
    .scan_ready_i          (scan_ready),
    .scan_bucket_o         (scan_bucket),
    .scan_way_o            (scan_way),
    .scan_done_i           (scan_done),
    .scan_some_i           (scan_some),
    .scan_way_i            (scanned_way),
    .lookup_valid_o        (control_lookup_valid),
    .lookup_ready_i        (lookup_ready),
    .lookup_o              (control_lookup),
    .result_valid_i        (result_valid && result_fetch),
    .result_ready_o        (control_result_ready),
    .result_i              (result),
    .result_value_valid_i  (result_value_valid && control_takes_values),
    .result_value_ready_o  (control_result_value_ready),
    .result_value_i        (result_value),
    .apply_valid_o         (control_apply_valid),
    .apply_ready_i         (apply_ready),
    .apply_o               (control_apply),
    .apply_value_valid_o   (control_apply_value_valid),
    .apply_value_ready_i   (apply_value_ready && !value_beat_b_valid),
    .apply_value_o         (control_apply_value),
    .session_valid_o       (session_valid[1]),
    .session_ready_i       (session_ready[1]),
    .session_o             (session[1]),
    .session_answer_valid_i(session_answered[1]),
    .session_answer_i      (sessions_answer),
    .word_valid_i          (word_valid),
    .word_ready_o          (word_ready),
    .word_i                (word),
    .word_last_i           (word_last),
    .outgoing_valid_o      (request_valid[3]),
    .outgoing_ready_i      (request_ready[3]),
    .outgoing_o            (request[3]),
    .attached_valid_o      (attached_valid[3]),
    .attached_ready_i      (attached_ready[3]),
    .attached_o            (attached[3]),
    .events_o              (control_events),
    .idle_o                (control_idle)
  );

  kv_hash i_hash (
    .clk_i,
    .rst_ni,
    .bucket_mask_i,
    .key_valid_i  (hash_valid),
    .key_i        (hash_key),
    .place_valid_o(hash_done),
    .place_o      (hash_place)
  );

  // ===== Execution and commits =====

  logic committer_idle;
  kv_committer_events_t committer_events;

  assign value_ready = controlled ? control_payload_ready : moved_ready;

  kv_streams #(
    .PlantedBugs(PlantedBugs)
  ) i_streams (
    .clk_i,
    .rst_ni,
    .now_i,
    .retransmit_i,
    .retransmit_max_i,
    .op_valid_i            (op_valid),
    .op_ready_o            (op_ready),
    .op_i                  (op),
    .value_valid_i         (value_valid && !controlled),
    .value_ready_o         (moved_ready),
    .value_i               (value),
    .value_controlled_o    (controlled),
    .configuration_i,
    .acknowledge_after_memory_i,
    .planted_bug_i,
    .status_o,
    .node_o                (node),
    .epoch_o               (epoch),
    .full_o                (full),
    .base_o                (base),
    .base_members_o        (base_members),
    .serves_o              (serves),
    .committed_o           (committed),
    .restart_o             (restart),
    .committer_idle_i      (committer_idle),
    .drained_i             (committer_idle && table_idle),
    .value_write_valid_o   (value_write_valid),
    .value_write_stream_o  (value_write_stream),
    .value_write_place_o   (value_write_place),
    .value_write_beat_o    (value_write_beat),
    .value_write_data_o    (value_write_data),
    .push_valid_o          (push_valid),
    .push_ready_i          (push_ready),
    .push_stream_o         (push_stream),
    .push_number_o         (push_number),
    .push_o                (push),
    .push_indexed_o        (push_indexed),
    .read_valid_o          (read_a_valid),
    .read_ready_i          (read_a_ready),
    .read_stream_o         (read_a_stream),
    .read_number_o         (read_a_number),
    .read_done_i           (read_a_done),
    .read_i                (read_a),
    .find_valid_o          (find_valid),
    .find_ready_i          (find_ready),
    .find_stream_o         (find_stream),
    .find_key_o            (find_key),
    .find_place_o          (find_place),
    .find_committed_only_o (find_committed_only),
    .find_committed_o      (find_committed),
    .find_done_i           (find_done),
    .find_hit_i            (find_hit),
    .find_number_i         (find_number),
    .retired_o             (retired),
    .wait_valid_o          (wait_valid),
    .wait_ready_i          (wait_ready),
    .wait_stream_o         (wait_stream),
    .wait_number_o         (wait_number),
    .wait_o                (wait_asker),
    .wait_done_i           (wait_done),
    .wait_full_i           (wait_full),
    .take_valid_o          (streams_take_valid),
    .take_ready_i          (take_ready),
    .take_stream_o         (streams_take_stream),
    .take_number_o         (streams_take_number),
    .take_done_i           (take_done && take_streams_q),
    .take_some_i           (take_some),
    .take_i                (take),
    .window_clear_valid_o  (window_clear_valid),
    .window_clear_ready_i  (window_clear_ready),
    .window_clear_done_i   (window_clear_done),
    .session_valid_o       (session_valid[0]),
    .session_ready_i       (session_ready[0]),
    .session_o             (session[0]),
    .session_answer_valid_i(session_answered[0]),
    .session_answer_i      (sessions_answer),
    .lookup_valid_o        (streams_lookup_valid),
    .lookup_ready_i        (lookup_ready),
    .lookup_o              (streams_lookup),
    .result_valid_i        (result_valid && !result_read && !result_fetch),
    .result_ready_o        (streams_result_ready),
    .result_i              (result),
    .reserve_valid_o       (reserve_valid),
    .reserve_ready_i       (reserve_ready),
    .reserve_bucket_o      (reserve_bucket),
    .reserve_done_i        (reserve_done),
    .reserve_granted_i     (reserve_granted),
    .release_valid_o       (release_valid),
    .release_ready_i       (release_ready),
    .release_bucket_o      (release_bucket),
    .retired_valid_i       (retired_valid),
    .retired_stream_i      (retired_stream),
    .journal_valid_o       (journal_valid),
    .journal_ready_i       (journal_ready),
    .journal_o             (journal),
    .journal_value_valid_o (journal_value_valid),
    .journal_value_ready_i (journal_value_ready),
    .journal_value_o       (journal_value),
    .journaled_valid_i     (journaled_valid),
    .journaled_stream_i    (journaled_stream),
    .table_clear_valid_o   (table_clear_valid),
    .table_clear_ready_i   (table_clear_ready),
    .table_clear_done_i    (table_clear_done),
    .command_valid_o       (command_valid),
    .command_o             (command),
    .answer_valid_i        (answer_valid),
    .answer_i              (answer),
    .lengths_i             (cut_lengths),
    .missing_i             (missing),
    .joining_i             (joining),
    .transferred_i         (transferred),
    .control_stream_i      (control_stream),
    .control_accepted_o    (control_accepted),
    .control_committed_o   (control_committed),
    .control_partition_i   (control_partition),
    .control_leader_o      (control_leader),
    .control_idle_i        (control_idle),
    .commit_valid_i        (commit_valid),
    .commit_stream_i       (source),
    .commit_i              (commit),
    .commit_done_o         (commit_done),
    .outgoing_valid_o      (request_valid[0]),
    .outgoing_ready_i      (request_ready[0]),
    .outgoing_o            (request[0]),
    .reading_valid_i       (reading_valid),
    .reading_stream_i      (reading_stream),
    .reading_place_i       (reading_place),
    .timer_valid_o,
    .timer_tag_o,
    .timer_at_o,
    .events_o              (streams_events),
    .idle_o                (streams_idle)
  );

  kv_committer i_committer (
    .clk_i,
    .rst_ni,
    .committed_i        (committed),
    .restart_i          (restart),
    .reached_o          (),
    .epoch_i            (epoch),
    .full_i             (full),
    .serves_i           (serves),
    .read_valid_o       (read_b_valid),
    .read_ready_i       (read_b_ready),
    .read_stream_o      (read_b_stream),
    .read_number_o      (read_b_number),
    .read_done_i        (read_b_done),
    .read_i             (read_b),
    .take_valid_o       (committer_take_valid),
    .take_ready_i       (take_ready),
    .take_stream_o      (committer_take_stream),
    .take_number_o      (committer_take_number),
    .take_done_i        (take_done && !take_streams_q),
    .take_some_i        (take_some),
    .take_i             (take),
    .session_valid_o    (session_valid[2]),
    .session_ready_i    (session_ready[2]),
    .session_o          (session[2]),
    .outgoing_valid_o   (request_valid[1]),
    .outgoing_ready_i   (request_ready[1]),
    .outgoing_o         (request[1]),
    .apply_valid_o      (committer_apply_valid),
    .apply_ready_i      (apply_ready),
    .apply_o            (committer_apply),
    .value_read_valid_o (value_read_b_valid),
    .value_read_ready_i (value_read_b_ready),
    .value_read_stream_o(value_read_b_stream),
    .value_read_place_o (value_read_b_place),
    .value_read_beats_o (value_read_b_beats),
    .events_o           (committer_events),
    .idle_o             (committer_idle)
  );

  // ===== Messages =====

  assign attached_valid[1:0] = '0;
  assign attached[1:0] = '0;

  kv_outgoing #(
    .N(4)
  ) i_outgoing (
    .clk_i,
    .rst_ni,
    .request_valid_i    (request_valid),
    .request_ready_o    (request_ready),
    .request_i          (request),
    .attached_valid_i   (attached_valid),
    .attached_ready_o   (attached_ready),
    .attached_i         (attached),
    .value_read_valid_o (value_read_a_valid),
    .value_read_ready_i (value_read_a_ready),
    .value_read_stream_o(value_read_a_stream),
    .value_read_place_o (value_read_a_place),
    .value_read_beats_o (value_read_a_beats),
    .value_beat_valid_i (value_beat_a_valid),
    .value_beat_ready_o (value_beat_a_ready),
    .value_beat_i       (value_beat_a),
    .message_valid_o,
    .message_ready_i,
    .message_o,
    .body_valid_o,
    .body_ready_i,
    .body_o,
    .reading_valid_o    (reading_valid),
    .reading_stream_o   (reading_stream),
    .reading_place_o    (reading_place),
    .idle_o             (outgoing_idle)
  );

  assign idle_o = intake_idle && streams_idle && window_idle && sessions_idle && !session_busy_q && table_idle
      && control_idle
      && committer_idle && outgoing_idle;

  always_comb begin
    events_o = streams_events;
    events_o.reads = streams_events.reads + 2'(committer_events.reads) + 2'(reply_events.reads);
    events_o.reads_waited = committer_events.reads_waited;
    events_o.entries_applied = committer_events.entries_applied;
    events_o.chunks_sent = control_events.chunks_sent;
    events_o.chunks_installed = control_events.chunks_installed;
    events_o.chunks_stale = control_events.chunks_stale;
    events_o.dropped_malformed = streams_events.dropped_malformed + 2'(control_events.dropped_malformed);
    events_o.dropped_wrong_role = streams_events.dropped_wrong_role + 2'(control_events.dropped_wrong_role);
    events_o.dropped_contradiction = streams_events.dropped_contradiction + 2'(control_events.dropped_contradiction);
    events_o.sessions_evicted_early = evicted_early;
    events_o.reads_in_one_access = table_events.lookup_hits_in_one_access;
    events_o.applies_without_room = table_events.apply_full;
  end

  // ===== Checks =====

  // Applies come from the committer or from a state transfer, and their values follow over one port. Only one of the
  // two may use the port at a time, until its last beat.
  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(committer_apply_valid || value_beat_b_valid) || !(control_apply_valid || control_apply_value_valid))
      else $error("a chunk is installed while the committer applies an entry");
    end
  end

endmodule
