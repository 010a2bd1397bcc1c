// What happens rarely: view changes and the transfer of state, one command of kv_streams at a time.
//
// Commands run alone: all writes are in the table before one begins, and nothing else touches table and sessions until its
// answer. Everything inside is done word by word. The messages that go out are composed in a common buffer.
//
// Latency: from a few cycles (TransferStop) to about 3,000 (TransferGive). Throughput: one command at a time. Order: messages go
// out in the order of the commands. Stalls: takes a command when the one before is answered; the answer does not wait until
// the messages are out, so `idle_o` may come later.
module kv_control
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
(
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  bucket_t                         bucket_mask_i,
  // The view. All of this stays as it is while a command runs.
  input  node_t                           node_i,
  input  epoch_t                          epoch_i,
  input  node_set_t                       full_i,
  // The epoch that the node took part in last: for ViewBegin.
  input  epoch_t                          base_i,
  input  node_set_t                       base_members_i,
  // Lengths of `stream_o`, at the latest from the second clock edge on after it has changed.
  output stream_t                         stream_o,
  input  number_t                         accepted_i,
  input  number_t                         committed_i,
  // Who leads `partition_o`, likewise.
  output partition_t                      partition_o,
  input  node_t                           leader_i,
  input  logic                            command_valid_i,
  output logic                            command_ready_o,
  input  control_command_t                command_i,
  // Of ViewHear and TransferTake, from byte 0; `keep` tells the end. Taken as a whole, whatever comes of it.
  input  logic                            payload_valid_i,
  output logic                            payload_ready_o,
  input  beat_t                           payload_i,
  // One cycle for every command.
  output logic                            answer_valid_o,
  output control_answer_t                 answer_o,
  // Where the streams end, after ViewDecide has answered ControlDone and until the next ViewDecide.
  output lengths_t                        lengths_o,
  // Full members that have not been heard.
  output node_set_t                       missing_o,
  // Something has to come, or nothing has to any more since everything came.
  output logic                            joining_o,
  output logic                            complete_o,
  // What has come: all of these streams; of `source_o`, if joining, what is before the cursor, and its bucket if the way is not 0.
  output logic              [Streams-1:0] done_o,
  output stream_t                         source_o,
  output bucket_t                         cursor_bucket_o,
  output way_t                            cursor_way_o,
  // During TransferTake: `source_o` is to be applied up to there. Answered when the committer has handed on all of it.
  output logic                            commit_valid_o,
  output number_t                         commit_o,
  input  logic                            commit_done_i,
  // The place of a key, in any later cycle; one at a time.
  output logic                            hash_valid_o,
  output key_t                            hash_key_o,
  input  logic                            hash_done_i,
  input  place_t                          hash_place_i,
  // To kv_table.
  output logic                            scan_valid_o,
  input  logic                            scan_ready_i,
  output bucket_t                         scan_bucket_o,
  output way_t                            scan_way_o,
  input  logic                            scan_done_i,
  input  logic                            scan_some_i,
  input  way_t                            scan_way_i,
  output logic                            lookup_valid_o,
  input  logic                            lookup_ready_i,
  output lookup_t                         lookup_o,
  input  logic                            result_valid_i,
  output logic                            result_ready_o,
  input  looked_up_t                      result_i,
  input  logic                            result_value_valid_i,
  output logic                            result_value_ready_o,
  input  beat_t                           result_value_i,
  output logic                            apply_valid_o,
  input  logic                            apply_ready_i,
  output apply_t                          apply_o,
  output logic                            apply_value_valid_o,
  input  logic                            apply_value_ready_i,
  output beat_t                           apply_value_o,
  // To kv_sessions.
  output logic                            session_valid_o,
  input  logic                            session_ready_i,
  output session_request_t                session_o,
  input  logic                            session_answer_valid_i,
  input  session_answer_t                 session_answer_i,
  input  logic                            word_valid_i,
  output logic                            word_ready_o,
  input  logic              [       63:0] word_i,
  input  logic                            word_last_i,
  // To kv_outgoing: no header, all ValueAttached; behind the last byte the beats are zero. The beats never pause.
  output logic                            outgoing_valid_o,
  input  logic                            outgoing_ready_i,
  output outgoing_t                       outgoing_o,
  output logic                            attached_valid_o,
  input  logic                            attached_ready_i,
  output beat_t                           attached_o,
  output kv_control_events_t              events_o,
  output logic                            idle_o
);

endmodule
