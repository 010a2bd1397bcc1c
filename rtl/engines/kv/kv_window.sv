// The windows of all streams: entries with their values, the index of pending entries, and the reads that wait for
// them.
//
// The slot of an entry is `(number - 1) modulo WindowEntries` of its stream; the entry stays there until it is
// overwritten. The user must keep `accepted - retired <= WindowEntries`, push the entries of a stream in the order of
// their numbers, and write the value of an entry before the entry is pushed. Values, entries with their index, and
// waiting reads are three independent parts; for latency and throughput see kv_values, kv_pending_index and
// kv_waiting_reads.
//
// Latency: a read of an entry takes 2 cycles; a find 2 if its list is empty, 3 if the newest entry of the list
// decides, and 2 more for each further one; a wait or take 2; the first beat of a value 2. Requests wait while their
// `ready_o` is low.
module kv_window
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
#(
  // Lists of the index for each stream, a power of two up to 1024.
  parameter int unsigned Lists = 512
) (
  input logic clk_i,
  input logic rst_ni,

  // Values. A write never stalls.
  input  logic                                      value_write_valid_i,
  input  stream_t                                   value_write_stream_i,
  input  window_place_t                             value_write_place_i,
  input  logic          [$clog2(ValueBeatsMax)-1:0] value_write_beat_i,
  input  logic          [             BeatBits-1:0] value_write_data_i,
  // Reader A has no gaps within a value.
  input  logic                                      value_read_a_valid_i,
  output logic                                      value_read_a_ready_o,
  input  stream_t                                   value_read_a_stream_i,
  input  window_place_t                             value_read_a_place_i,
  input  value_beats_t                              value_read_a_beats_i,   // not 0
  output logic                                      value_beat_a_valid_o,
  input  logic                                      value_beat_a_ready_i,
  output logic          [             BeatBits-1:0] value_beat_a_o,
  output logic                                      value_beat_a_last_o,
  input  logic                                      value_read_b_valid_i,
  output logic                                      value_read_b_ready_o,
  input  stream_t                                   value_read_b_stream_i,
  input  window_place_t                             value_read_b_place_i,
  input  value_beats_t                              value_read_b_beats_i,   // not 0
  output logic                                      value_beat_b_valid_o,
  input  logic                                      value_beat_b_ready_i,
  output logic          [             BeatBits-1:0] value_beat_b_o,
  output logic                                      value_beat_b_last_o,

  // Entries. `push_indexed_i`: the entry changes the table, so a find must see it.
  input  logic    push_valid_i,
  output logic    push_ready_o,
  input  stream_t push_stream_i,
  input  number_t push_number_i,
  input  entry_t  push_i,
  input  logic    push_indexed_i,
  // `read_*_o` is stable until the next read of the same port is done; A shares its output with `find_entry_o`.
  input  logic    read_a_valid_i,
  output logic    read_a_ready_o,
  input  stream_t read_a_stream_i,
  input  number_t read_a_number_i,
  output logic    read_a_done_o,
  output entry_t  read_a_o,
  input  logic    read_b_valid_i,
  output logic    read_b_ready_o,
  input  stream_t read_b_stream_i,
  input  number_t read_b_number_i,
  output logic    read_b_done_o,
  output entry_t  read_b_o,

  // Finds the newest unretired entry of a key: of all, of those below a number, or of the committed ones.
  input  logic     find_valid_i,
  output logic     find_ready_o,
  input  stream_t  find_stream_i,
  input  key_t     find_key_i,
  input  place_t   find_place_i,
  input  logic     find_committed_only_i,
  input  number_t  find_committed_i,       // committed length of that stream
  input  number_t  find_below_i,           // all ones: no limit
  output logic     find_done_o,
  output logic     find_hit_o,             // valid with `find_done_o`
  output number_t  find_number_o,
  output entry_t   find_entry_o,
  input  lengths_t retired_i,

  // Reads that wait for an entry; the most recent is taken first.
  input  logic    wait_valid_i,
  output logic    wait_ready_o,
  input  stream_t wait_stream_i,
  input  number_t wait_number_i,
  input  asker_t  wait_i,
  output logic    wait_done_o,
  output logic    wait_full_o,  // valid with `wait_done_o`: there was no room
  input  logic    take_valid_i,
  output logic    take_ready_o,
  input  stream_t take_stream_i,
  input  number_t take_number_i,
  output logic    take_done_o,
  output logic    take_some_o,  // valid with `take_done_o`: there was a read
  output asker_t  take_o,

  // Drops all entries and waiting reads: a new epoch begins, in which `retired_i` starts at 0.
  input  logic clear_valid_i,
  output logic clear_ready_o,
  output logic clear_done_o,

  output logic idle_o
);

  logic          clear;
  logic          clear_done_q;
  logic          index_idle;
  logic          waiting_idle;
  logic          values_idle;
  logic          pushed;
  window_place_t push_place;
  window_place_t wait_place;
  window_place_t take_place;

  assign pushed = push_valid_i && push_ready_o;
  assign push_place = window_place_t'(push_number_i - 1'b1);
  assign wait_place = window_place_t'(wait_number_i - 1'b1);
  assign take_place = window_place_t'(take_number_i - 1'b1);

  assign clear_ready_o = index_idle && waiting_idle;
  assign clear = clear_valid_i && clear_ready_o;
  assign clear_done_o = clear_done_q;
  assign idle_o = index_idle && waiting_idle && values_idle && !clear_done_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_done_q <= 1'b0;
    else clear_done_q <= clear;
  end

  kv_values i_values (
    .clk_i,
    .rst_ni,
    .write_valid_i  (value_write_valid_i),
    .write_stream_i (value_write_stream_i),
    .write_place_i  (value_write_place_i),
    .write_beat_i   (value_write_beat_i),
    .write_data_i   (value_write_data_i),
    .read_a_valid_i (value_read_a_valid_i),
    .read_a_ready_o (value_read_a_ready_o),
    .read_a_stream_i(value_read_a_stream_i),
    .read_a_place_i (value_read_a_place_i),
    .read_a_beats_i (value_read_a_beats_i),
    .beat_a_valid_o (value_beat_a_valid_o),
    .beat_a_ready_i (value_beat_a_ready_i),
    .beat_a_o       (value_beat_a_o),
    .beat_a_last_o  (value_beat_a_last_o),
    .read_b_valid_i (value_read_b_valid_i),
    .read_b_ready_o (value_read_b_ready_o),
    .read_b_stream_i(value_read_b_stream_i),
    .read_b_place_i (value_read_b_place_i),
    .read_b_beats_i (value_read_b_beats_i),
    .beat_b_valid_o (value_beat_b_valid_o),
    .beat_b_ready_i (value_beat_b_ready_i),
    .beat_b_o       (value_beat_b_o),
    .beat_b_last_o  (value_beat_b_last_o),
    .idle_o         (values_idle)
  );

  kv_pending_index #(
    .Lists(Lists)
  ) i_index (
    .clk_i,
    .rst_ni,
    .push_valid_i,
    .push_ready_o,
    .push_stream_i,
    .push_number_i,
    .push_i,
    .push_indexed_i,
    .read_a_valid_i,
    .read_a_ready_o,
    .read_a_stream_i,
    .read_a_number_i,
    .read_a_done_o,
    .read_a_o,
    .read_b_valid_i,
    .read_b_ready_o,
    .read_b_stream_i,
    .read_b_number_i,
    .read_b_done_o,
    .read_b_o,
    .find_valid_i,
    .find_ready_o,
    .find_stream_i,
    .find_key_i,
    .find_place_i,
    .find_committed_only_i,
    .find_committed_i,
    .find_below_i,
    .find_done_o,
    .find_hit_o,
    .find_number_o,
    .find_entry_o,
    .retired_i,
    .clear_i(clear),
    .idle_o (index_idle)
  );

  kv_waiting_reads i_waiting (
    .clk_i,
    .rst_ni,
    .push_i      (pushed),
    .push_stream_i,
    .push_place_i(push_place),
    .wait_valid_i,
    .wait_ready_o,
    .wait_stream_i,
    .wait_place_i(wait_place),
    .wait_i,
    .wait_done_o,
    .wait_full_o,
    .take_valid_i,
    .take_ready_o,
    .take_stream_i,
    .take_place_i(take_place),
    .take_done_o,
    .take_some_o,
    .take_o,
    .clear_i     (clear),
    .idle_o      (waiting_idle)
  );

endmodule
