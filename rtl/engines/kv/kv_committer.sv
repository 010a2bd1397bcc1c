// Applies committed entries. For each entry: the session's record, the reply to its caller, the replies to reads that
// wait for the entry, and the change of the table. Twin of `Kv::commit_to` of crates/engines/kv/src/engine.rs.
//
// The caller's reply comes first, together with the session's record; no reads wait for an entry of this node's own
// stream. The change of the table comes after all replies that take their value from the window have been passed on,
// because the table's report frees the entry's slot in the window. Each entry makes exactly one apply that is
// counted. For an entry without a change this is a delete of versions below 0, which has no effect.
//
// Latency: 2 cycles from a new committed length to the reply and the other actions, when nothing else is in progress.
// Throughput: an entry in 3 cycles; if reads may wait for it, in 6 and 4 for each read. Order: within a stream by
// number; streams take turns. Stalls: when one of the blocks that it uses does.
module kv_committer
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_messages_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  // Committed length of each stream. The entries up to there can be read.
  /* verilator lint_off UNUSEDSIGNAL */  // the low bits suffice for differences
  input  lengths_t                    committed_i,
  /* verilator lint_on UNUSEDSIGNAL */
  // All streams restart: `committed_i` is zero from the next cycle on. Only while `idle_o`.
  input  logic                        restart_i,
  // For each stream: the length that has been applied, modulo twice the window.
  output window_count_t [Streams-1:0] reached_o,

  // The view, and whether the node may answer reads.
  input epoch_t    epoch_i,
  input node_set_t full_i,
  input logic      serves_i,

  // Read port of the window's entries. Data is stable until the next read. Numbers are modulo twice the window as
  // well.
  output logic    read_valid_o,
  input  logic    read_ready_i,
  output stream_t read_stream_o,
  output number_t read_number_o,
  input  logic    read_done_i,
  input  entry_t  read_i,
  // Waiting reads.
  output logic    take_valid_o,
  input  logic    take_ready_i,
  output stream_t take_stream_o,
  output number_t take_number_o,
  input  logic    take_done_i,
  input  logic    take_some_i,
  input  asker_t  take_i,

  // Session requests. The answers to SessionRecord are ignored.
  output logic             session_valid_o,
  input  logic             session_ready_i,
  output session_request_t session_o,
  output logic             outgoing_valid_o,
  input  logic             outgoing_ready_i,
  output outgoing_t        outgoing_o,
  output logic             apply_valid_o,
  input  logic             apply_ready_i,
  output apply_t           apply_o,
  // Starts the transfer of the value, whose beats go directly from the window to the table.
  output logic             value_read_valid_o,
  input  logic             value_read_ready_i,
  output stream_t          value_read_stream_o,
  output window_place_t    value_read_place_o,
  output value_beats_t     value_read_beats_o,

  output kv_committer_events_t events_o,
  output logic                 idle_o
);

  // Selects the next entry: of the next stream in turn that has one.

  typedef enum logic [1:0] {
    Pick,
    Read,
    Handle
  } state_e;

  state_e                      state_q;
  window_count_t [Streams-1:0] reached_q;
  logic          [Streams-1:0] pending;
  stream_t                     stream_q;
  stream_t                     pick;
  // The current entry.
  window_count_t               number_q;
  logic                        handle;
  logic                        finish;

  always_comb begin
    for (int unsigned i = 0; i < Streams; i++) begin
      pending[i] = committed_i[i][$bits(window_count_t)-1:0] != reached_q[i];
    end
    pick = stream_q;
    for (int unsigned i = Streams; i > 0; i--) begin
      if (pending[i-1]) pick = stream_t'(i - 1);
    end
    for (int unsigned i = Streams; i > 0; i--) begin
      if (pending[i-1] && stream_t'(i - 1) > stream_q) pick = stream_t'(i - 1);
    end
  end

  assign read_valid_o = state_q == Pick && |pending;
  assign read_stream_o = pick;
  assign read_number_o = number_t'(window_count_t'(reached_q[pick] + 1'b1));
  assign handle = state_q == Handle || (state_q == Read && read_done_i);
  assign reached_o = reached_q;
  assign idle_o = state_q == Pick && pending == '0;

  always_ff @(posedge clk_i) begin
    if (read_valid_o && read_ready_i) begin
      stream_q <= pick;
      number_q <= read_number_o[$bits(window_count_t)-1:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || restart_i) begin
      reached_q <= '0;
    end else if (finish) begin
      for (int unsigned i = 0; i < Streams; i++) begin
        if (stream_q == stream_t'(i)) reached_q[i] <= number_q;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= Pick;
    end else begin
      if (read_valid_o && read_ready_i) state_q <= Read;
      if (handle) state_q <= finish ? Pick : Handle;
    end
  end

  // Actions on the entry, required or done.

  typedef struct packed {
    logic answer;  // the caller was answered
    logic record;
    logic asked;   // a waiting read was requested
    logic taken;   // a waiting read was taken, and is to be answered
    logic reads;   // all waiting reads were answered
    logic apply;
    logic value;   // the transfer of its value was started
  } progress_t;

  progress_t progress_d, progress_q;

  window_place_t place;
  logic          changes;
  logic          deletes;
  logic          has_value;
  logic          may_apply;

  assign place = window_place_t'(number_q - 1'b1);
  assign changes = read_i.status == StatusOk;
  assign deletes = read_i.operation == Delete;
  assign has_value = changes && !deletes && read_i.value_bytes != '0;
  // Reads wait only for entries of other streams that change the table.
  assign may_apply = read_i.led || !changes || progress_q.reads;

  assign session_valid_o = handle && !progress_q.record;
  assign session_o = '{
          command: SessionRecord,
          room: 1'b0,
          client: read_i.asker.client,
          request: read_i.asker.request,
          status: read_i.status,
          version: read_i.version,
          index: '0
      };

  assign take_valid_o = handle && !may_apply && !progress_q.asked && !progress_q.taken;
  assign take_stream_o = stream_q;
  assign take_number_o = number_t'(number_q);

  // A read gets the value if there is one and the node may still serve reads. A reply that was offered does not
  // change.
  logic serves_q;
  logic reads_value;
  assign reads_value = serves_q && !deletes;

  always_ff @(posedge clk_i) begin
    if (take_done_i) serves_q <= serves_i;
  end

  assign outgoing_valid_o = handle && (read_i.led ? !progress_q.answer : progress_q.taken);
  always_comb begin
    if (read_i.led) begin
      outgoing_o = plain_reply(read_i.asker, read_i.status, read_i.version, epoch_i, full_i);
    end else begin
      outgoing_o = reply(
        take_i,
        reads_value ? StatusOk : serves_q ? StatusNotFound : StatusNotServing,
        reads_value ? read_i.version : '0,
        epoch_i,
        full_i,
        ValueWindow,
        reads_value ? read_i.value_bytes : '0,
        stream_q,
        place
      );
    end
  end

  assign apply_valid_o = handle && may_apply && !progress_q.apply;
  assign apply_o = '{
          deletes: deletes || !changes,
          newer_only: !changes,
          key: read_i.key,
          place: read_i.place,
          version: changes ? read_i.version : '0,
          value_bytes: has_value ? read_i.value_bytes : '0,
          reserved: read_i.reserved,
          counts: 1'b1,
          stream: stream_q
      };

  value_bytes_t value_last;
  assign value_last = read_i.value_bytes - 1'b1;
  assign value_read_valid_o = handle && may_apply && has_value && !progress_q.value;
  assign value_read_stream_o = stream_q;
  assign value_read_place_o = place;
  assign value_read_beats_o = value_beats_t'(value_last[10:6]) + 1'b1;

  always_comb begin
    progress_d = progress_q;
    if (session_valid_o && session_ready_i) progress_d.record = 1'b1;
    if (outgoing_valid_o && outgoing_ready_i) begin
      progress_d.answer = 1'b1;
      progress_d.taken  = 1'b0;
    end
    if (take_valid_o && take_ready_i) progress_d.asked = 1'b1;
    if (take_done_i) begin
      progress_d.asked = 1'b0;
      progress_d.taken = take_some_i;
      progress_d.reads = !take_some_i;
    end
    if (apply_valid_o && apply_ready_i) progress_d.apply = 1'b1;
    if (value_read_valid_o && value_read_ready_i) progress_d.value = 1'b1;
    finish = handle && progress_d.record && progress_d.apply && (progress_d.value || !has_value)
        && (progress_d.answer || !read_i.led);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || finish) progress_q <= '0;
    else progress_q <= progress_d;
  end

  assign events_o.entries_applied = finish && changes;
  assign events_o.reads = outgoing_valid_o && outgoing_ready_i && !read_i.led;
  assign events_o.reads_waited = events_o.reads;

endmodule
