// Rare operations: view changes and state transfers, as commands of kv_streams, one at a time.
//
// Commands run alone: all writes are in the table before a command begins, and no other block uses the table or the
// sessions until the command is answered. Commands process data word by word. Outgoing messages are composed in a
// common buffer.
//
// A command is held until it is answered. The answer also accepts it: `command_ready_o` is `answer_valid_o`.
//
// Latency: from a few cycles (TransferStop) to about 3,000 (TransferGive). Throughput: one command at a time. Order:
// messages leave in the order of the commands. Stalls: a command waits until the previous one is answered. The answer
// does not wait for the messages to leave, so `idle_o` may come later.
module kv_control
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
(
  input  logic                      clk_i,
  input  logic                      rst_ni,
  input  bucket_t                   bucket_mask_i,
  // The view. Constant while a command is executed.
  input  node_t                     node_i,
  input  epoch_t                    epoch_i,
  input  node_set_t                 full_i,
  // The epoch in which the node last took part, and its members: for ViewBegin.
  input  epoch_t                    base_i,
  input  node_set_t                 base_members_i,
  // Lengths of `stream_o`, valid from the second cycle of each value of `stream_o`.
  output stream_t                   stream_o,
  input  number_t                   accepted_i,
  input  number_t                   committed_i,
  // Leader of `partition_o`, with the same latency.
  output partition_t                partition_o,
  input  node_t                     leader_i,
  input  logic                      command_valid_i,
  output logic                      command_ready_o,
  input  control_command_t          command_i,
  // Payload of ViewHear and TransferTake, from byte 0; `last` and `empty` mark the end. The whole payload is
  // consumed, whatever the answer.
  input  logic                      payload_valid_i,
  output logic                      payload_ready_o,
  input  beat_t                     payload_i,
  // Valid for one cycle for every command.
  output logic                      answer_valid_o,
  output control_answer_t           answer_o,
  // Final lengths of the streams: valid from ViewDecide's answer ControlDone until the next ViewDecide.
  output lengths_t                  lengths_o,
  // Full members whose report has not been received.
  output node_set_t                 missing_o,
  // Joining: a state transfer is required. Complete: a transfer has finished, so no more is required.
  output logic                      joining_o,
  output logic                      complete_o,
  // The member that is asked for state.
  output stream_t                   source_o,
  // During TransferTake: the stream `source_o` is to be applied up to `commit_o`. Done when all of it is in the
  // table.
  output logic                      commit_valid_o,
  output number_t                   commit_o,
  input  logic                      commit_done_i,
  // Hash of a key; the result comes in any later cycle; one at a time.
  output logic                      hash_valid_o,
  output key_t                      hash_key_o,
  input  logic                      hash_done_i,
  input  place_t                    hash_place_i,
  // To kv_table.
  output logic                      scan_valid_o,
  input  logic                      scan_ready_i,
  output bucket_t                   scan_bucket_o,
  output way_t                      scan_way_o,
  input  logic                      scan_done_i,
  input  logic                      scan_some_i,
  input  way_t                      scan_way_i,
  output logic                      lookup_valid_o,
  input  logic                      lookup_ready_i,
  output lookup_t                   lookup_o,
  input  logic                      result_valid_i,
  output logic                      result_ready_o,
  input  looked_up_t                result_i,
  input  logic                      result_value_valid_i,
  output logic                      result_value_ready_o,
  input  beat_t                     result_value_i,
  output logic                      apply_valid_o,
  input  logic                      apply_ready_i,
  output apply_t                    apply_o,
  output logic                      apply_value_valid_o,
  input  logic                      apply_value_ready_i,
  output beat_t                     apply_value_o,
  // To kv_sessions.
  output logic                      session_valid_o,
  input  logic                      session_ready_i,
  output session_request_t          session_o,
  input  logic                      session_answer_valid_i,
  input  session_answer_t           session_answer_i,
  input  logic                      word_valid_i,
  output logic                      word_ready_o,
  input  logic               [63:0] word_i,
  input  logic                      word_last_i,
  // Messages to kv_outgoing: no header, all ValueAttached. Beats are zero behind the last byte and have no gaps.
  output logic                      outgoing_valid_o,
  input  logic                      outgoing_ready_i,
  output outgoing_t                 outgoing_o,
  output logic                      attached_valid_o,
  input  logic                      attached_ready_i,
  output beat_t                     attached_o,
  output kv_control_events_t        events_o,
  output logic                      idle_o
);

  logic view_command, join_command, donate_command;
  assign view_command   = command_valid_i && command_i.command <= CutForget;
  assign donate_command = command_valid_i && command_i.command == TransferGive;
  assign join_command   = command_valid_i && !view_command && command_i.command != TransferGive;

  // Words of a payload, for the command that reads them: of a view change or of a joining node.

  logic word_valid, word_last, word_partial, view_word_ready, join_word_ready;
  logic [63:0] word;
  kv_beats_to_words i_payload (
    .clk_i,
    .rst_ni,
    .beat_valid_i  (payload_valid_i),
    .beat_ready_o  (payload_ready_o),
    .beat_i        (payload_i),
    .word_valid_o  (word_valid),
    .word_ready_i  (view_word_ready || join_word_ready),
    .word_o        (word),
    .word_last_o   (word_last),
    .word_partial_o(word_partial)
  );

  // One command at a time writes messages; the buffer takes those of the current one.

  typedef struct packed {
    logic        write;
    logic [7:0]  index;
    logic [63:0] word;
    logic        close;
    logic [7:0]  words;
  } compose_t;

  compose_t view_message, join_message, donate_message, message;
  logic room, close_ready, buffer_idle;
  kind_e message_kind;
  node_set_t message_to;

  always_comb begin
    message = view_message;
    message_kind = KindSealed;
    message_to = command_i.to;
    if (donate_command) begin
      message = donate_message;
      message_kind = KindStateChunk;
      message_to = node_set_t'(1) << command_i.from;
    end else if (join_command) begin
      message = join_message;
      message_kind = KindStateRequest;
      message_to = node_set_t'(1) << source_o;
    end
  end

  kv_message_buffer i_buffer (
    .clk_i,
    .rst_ni,
    .room_o       (room),
    .write_i      (message.write),
    .write_index_i(message.index),
    .write_word_i (message.word),
    .close_valid_i(message.close),
    .close_ready_o(close_ready),
    .close_to_i   (message_to),
    .close_kind_i (message_kind),
    .close_words_i(message.words),
    .outgoing_valid_o,
    .outgoing_ready_i,
    .outgoing_o,
    .attached_valid_o,
    .attached_ready_i,
    .attached_o,
    .idle_o       (buffer_idle)
  );

  logic view_answer_valid, join_answer_valid, donate_answer_valid;
  control_answer_t view_answer, join_answer;
  stream_t view_stream;

  kv_view_change i_view_change (
    .clk_i,
    .rst_ni,
    .node_i,
    .epoch_i,
    .full_i,
    .base_i,
    .base_members_i,
    .stream_o       (view_stream),
    .accepted_i,
    .command_valid_i(view_command),
    .command_i,
    .answer_valid_o (view_answer_valid),
    .answer_o       (view_answer),
    .lengths_o,
    .missing_o,
    .word_valid_i   (word_valid),
    .word_ready_o   (view_word_ready),
    .word_i         (word),
    .word_last_i    (word_last),
    .word_partial_i (word_partial),
    .room_i         (room),
    .write_o        (view_message.write),
    .write_index_o  (view_message.index),
    .write_word_o   (view_message.word),
    .close_valid_o  (view_message.close),
    .close_ready_i  (close_ready),
    .close_words_o  (view_message.words)
  );

  logic join_session_valid, donate_session_valid;
  session_request_t join_session, donate_session;

  kv_transfer_join i_join (
    .clk_i,
    .rst_ni,
    .epoch_i,
    .full_i,
    .accepted_i,
    .committed_i,
    .partition_o,
    .leader_i,
    .command_valid_i(join_command),
    .command_i,
    .answer_valid_o (join_answer_valid),
    .answer_o       (join_answer),
    .joining_o,
    .complete_o,
    .source_o,
    .word_valid_i   (word_valid),
    .word_ready_o   (join_word_ready),
    .word_i         (word),
    .word_last_i    (word_last),
    .word_partial_i (word_partial),
    .commit_valid_o,
    .commit_o,
    .commit_done_i,
    .hash_valid_o,
    .hash_key_o,
    .hash_done_i,
    .hash_place_i,
    .apply_valid_o,
    .apply_ready_i,
    .apply_o,
    .apply_value_valid_o,
    .apply_value_ready_i,
    .apply_value_o,
    .session_valid_o(join_session_valid),
    .session_ready_i,
    .session_o      (join_session),
    .session_answer_valid_i,
    .room_i         (room),
    .write_o        (join_message.write),
    .write_index_o  (join_message.index),
    .write_word_o   (join_message.word),
    .close_valid_o  (join_message.close),
    .close_ready_i  (close_ready),
    .installed_o    (events_o.chunks_installed),
    .stale_o        (events_o.chunks_stale),
    .malformed_o    (events_o.dropped_malformed),
    .wrong_role_o   (events_o.dropped_wrong_role),
    .contradiction_o(events_o.dropped_contradiction)
  );
  assign join_message.words = 8'd2;

  kv_transfer_donate i_donate (
    .clk_i,
    .rst_ni,
    .bucket_mask_i,
    .node_i,
    .epoch_i,
    .full_i,
    .committed_i,
    .command_valid_i(donate_command),
    .command_i,
    .answer_valid_o (donate_answer_valid),
    .scan_valid_o,
    .scan_ready_i,
    .scan_bucket_o,
    .scan_way_o,
    .scan_done_i,
    .scan_some_i,
    .scan_way_i,
    .lookup_valid_o,
    .lookup_ready_i,
    .lookup_o,
    .result_valid_i,
    .result_ready_o,
    .result_i,
    .result_value_valid_i,
    .result_value_ready_o,
    .result_value_i,
    .session_valid_o(donate_session_valid),
    .session_ready_i,
    .session_o      (donate_session),
    .session_answer_valid_i,
    .session_answer_i,
    .word_valid_i,
    .word_ready_o,
    .word_i,
    .word_last_i,
    .room_i         (room),
    .write_o        (donate_message.write),
    .write_index_o  (donate_message.index),
    .write_word_o   (donate_message.word),
    .close_valid_o  (donate_message.close),
    .close_ready_i  (close_ready),
    .close_words_o  (donate_message.words),
    .sent_o         (events_o.chunks_sent)
  );

  always_comb begin
    stream_o = view_stream;
    if (donate_command) stream_o = stream_t'(node_i);
    else if (join_command) stream_o = source_o;
  end
  assign session_valid_o = join_session_valid || donate_session_valid;
  // Each of the two sets the fields that the other's command does not use to zero.
  always_comb begin
    session_o = join_session;
    session_o.index = donate_session.index;
    if (donate_command) session_o.command = SessionExport;
  end
  assign answer_valid_o  = view_answer_valid || join_answer_valid || donate_answer_valid;
  assign command_ready_o = answer_valid_o;
  always_comb begin
    answer_o = '{verdict: ControlDone, heard: '0, asked: 1'b0, moved: 1'b0};
    if (view_answer_valid) answer_o = view_answer;
    if (join_answer_valid) answer_o = join_answer;
  end
  assign idle_o = !command_valid_i && buffer_idle;

endmodule
