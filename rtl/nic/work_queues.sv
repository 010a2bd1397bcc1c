// Work queues in the host's memory: fetches the entries that the host wrote to a post queue, and writes completions
// to a completion queue. `posted_entry_t` and `completed_entry_t` define the entries; the register group `queues` of
// registers.rdl controls the block.
//
// The host writes entries, then writes the total number of entries to the doorbell `post_produced`. A completion
// entry is new when its phase differs from that of the previous pass; the host writes to `completion_consumed` how
// many entries it has read. An entry with an unknown operation or queue pair is not posted and completes with
// StatusLocalOperation. Other errors, such as a request for a full queue, are the driver's duty to avoid. If the
// host's memory answers a read with an error, posting stops, because the data read may be arbitrary; completions
// continue.
//
// Latency: 2 cycles from the doorbell to the address of a read, 2 from its data to a post; 2 from a completion to the
// address of its write. Throughput: an entry every cycle. Order: posts stay in order, and so do completions. Stalls:
// posts, while the card accepts none, so one queue pair can stall another; completions, while the completion queue is
// full.
module work_queues
  import weft_pkg::*;
(
  input  logic             clk_i,
  input  logic             rst_ni,
  input  queue_registers_t registers_i,
  output queue_readings_t  readings_o,
  output logic             interrupt_o,

  output logic             post_valid_o,
  input  logic             post_ready_i,
  output work_request_t    post_o,
  output logic             receive_post_valid_o,
  input  logic             receive_post_ready_i,
  output receive_request_t receive_post_o,
  input  logic             completion_valid_i,
  output logic             completion_ready_o,
  input  completion_t      completion_i,

  output logic               aw_valid_o,
  input  logic               aw_ready_i,
  output axi_address_t       aw_o,
  output logic               w_valid_o,
  input  logic               w_ready_i,
  output write_beat_t        w_o,
  input  logic               b_valid_i,
  input  logic         [1:0] b_response_i,
  output logic               ar_valid_o,
  input  logic               ar_ready_i,
  output axi_address_t       ar_o,
  input  logic               r_valid_i,
  output logic               r_ready_o,
  input  axi_read_t          r_i,

  output logic idle_o
);

  typedef logic [15:0] index_t;

  // Index in a queue of entry number `index`.
  function automatic index_t place(logic [3:0] size, index_t index);
    return index & ~(index_t'('1) << size);
  endfunction

  logic          running_q;
  logic          overrun_q;
  logic          fault_q;
  logic          reader_idle;
  logic          reader_fault;
  logic          writer_idle;
  logic          writer_fault;

  // Fetch: reads as many announced entries at once as are contiguous up to the end of the queue, at most 64.

  index_t        fetched_q;
  index_t        available;
  index_t        to_end;
  logic          over;
  logic          fetch;
  logic          fetch_valid_q;
  logic          fetch_ready;
  logic   [41:0] fetch_word_q;
  logic   [ 6:0] fetch_beats_q;
  logic   [ 6:0] fetch_entries;

  assign available = registers_i.post_produced - fetched_q;
  assign to_end = (index_t'(1) << registers_i.post_size) - place(registers_i.post_size, fetched_q);
  // Whether the host announced more entries than the queue holds.
  assign over = index_t'(registers_i.post_produced - readings_o.post_consumed) > (index_t'(1) << registers_i.post_size);

  assign fetch = running_q && available != '0 && !over && !overrun_q && !fault_q;

  always_comb begin
    fetch_entries = 7'd64;
    if (available < 16'd64) fetch_entries = available[6:0];
    if (to_end < index_t'(fetch_entries)) fetch_entries = to_end[6:0];
  end

  always_ff @(posedge clk_i) begin
    if (!fetch_valid_q || fetch_ready) begin
      fetch_word_q  <= registers_i.post_base[47:6] + 42'(place(registers_i.post_size, fetched_q));
      fetch_beats_q <= fetch_entries - 7'd1;
    end
  end

  // A command that was offered stays until it is accepted, even if the queues are disabled meanwhile.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) fetch_valid_q <= 1'b0;
    else if (!fetch_valid_q || fetch_ready) fetch_valid_q <= fetch;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || !running_q) begin
      fetched_q <= '0;
      overrun_q <= 1'b0;
    end else begin
      if (over) overrun_q <= 1'b1;
      if (fetch && (!fetch_valid_q || fetch_ready)) fetched_q <= fetched_q + index_t'(fetch_entries);
    end
  end

  logic                         entry_valid;
  logic                         entry_ready;
  // The layout has unused fields.
  // verilator lint_off UNUSEDSIGNAL
  posted_entry_t                entry;
  // verilator lint_on UNUSEDSIGNAL
  logic          [BeatBits-1:0] entry_beat;

  assign entry = posted_entry_t'(entry_beat);

  axi_reader u_reader (
    .clk_i,
    .rst_ni,
    .command_valid_i  (fetch_valid_q),
    .command_ready_o  (fetch_ready),
    .command_word_i   (fetch_word_q),
    .command_beats_i  (fetch_beats_q),
    .beat_valid_o     (entry_valid),
    .beat_ready_i     (entry_ready),
    .beat_o           (entry_beat),
    .word_valid_i     (1'b0),
    .word_ready_o     (),
    .word_index_i     ('0),
    .word_data_valid_o(),
    .word_data_o      (),
    .fault_o          (reader_fault),
    .idle_o           (reader_idle),
    .ar_valid_o,
    .ar_ready_i,
    .ar_o,
    .r_valid_i,
    .r_ready_o,
    .r_i
  );

  // Posting. The entry at the front is converted.

  logic      is_request;
  logic      is_receive;
  logic      is_refused;
  logic      posts;
  logic      offers;
  logic      stopped_q;
  logic      completed_ready;
  index_t    consumed_q;
  qp_index_t entry_qp;

  assign entry_qp = qp_index_t'(entry.qp);
  assign is_refused = entry.operation > PostedReceive || entry.qp >= 16'(QueuePairs);
  assign is_receive = entry.operation == PostedReceive && !is_refused;
  assign is_request = !is_receive && !is_refused;
  assign posts = entry_valid && running_q && !stopped_q;
  assign post_valid_o = posts && is_request;
  assign receive_post_valid_o = posts && is_receive;
  assign offers = (post_valid_o && !post_ready_i) || (receive_post_valid_o && !receive_post_ready_i);

  always_comb begin
    entry_ready = completed_ready;
    if (is_request) entry_ready = post_ready_i;
    if (is_receive) entry_ready = receive_post_ready_i;
    if (!running_q || stopped_q) entry_ready = 1'b1;
  end

  // After an error nothing is posted. A beat takes two cycles through the reader. So an entry that is already offered
  // when the error is seen was read before it, and stays offered until it is accepted.
  always_ff @(posedge clk_i) begin
    if (!rst_ni || !running_q) stopped_q <= 1'b0;
    else if ((fault_q || reader_fault || writer_fault) && !offers) stopped_q <= 1'b1;
  end

  assign post_o = '{
          qp: entry_qp,
          id: entry.id,
          operation: operation_e'(entry.operation[2:0]),
          signaled: entry.signaled,
          fence: entry.fence,
          solicited: entry.solicited,
          has_immediate: entry.has_immediate,
          immediate: entry.immediate,
          local_address: entry.local_address,
          length: entry.length,
          lkey: entry.lkey,
          remote_address: entry.remote_address,
          rkey: entry.rkey,
          swap_or_add: entry.swap_or_add,
          compare: entry.compare
      };
  assign receive_post_o = '{
          qp: entry_qp,
          id: entry.id,
          address: entry.local_address,
          length: entry.length,
          lkey: entry.lkey
      };

  always_ff @(posedge clk_i) begin
    if (!rst_ni || !running_q) consumed_q <= '0;
    else if (posts && entry_ready) consumed_q <= consumed_q + 1'b1;
  end

  // Completions. Those of refused entries have priority.

  index_t                 written_q;
  index_t                 visible_q;
  logic                   has_place;
  logic                   refuse;
  logic                   write;
  logic                   command_ready;
  logic                   queue_ready;
  completed_entry_t       completed;
  write_beat_t            beat;
  logic                   beat_valid;
  logic                   beat_ready;
  write_beat_t            beat_out;
  logic                   written;
  logic             [4:0] beat_level;

  assign has_place = index_t'(written_q - registers_i.completion_consumed)
      < (index_t'(1) << registers_i.completion_size);
  assign completed_ready = has_place && command_ready && queue_ready;
  assign refuse = posts && is_refused;
  assign completion_ready_o = !running_q || (completed_ready && !refuse);
  assign write = running_q && completed_ready && (refuse || completion_valid_i);

  always_comb begin
    completed = '0;
    completed.phase = !written_q[registers_i.completion_size];
    if (refuse) begin
      completed.id     = entry.id;
      completed.qp     = entry.qp;
      completed.status = 8'(StatusLocalOperation);
    end else begin
      completed.id            = completion_i.id;
      completed.bytes         = completion_i.bytes;
      completed.immediate     = completion_i.immediate;
      completed.qp            = 16'(completion_i.qp);
      completed.status        = 8'(completion_i.status);
      completed.opcode        = completion_i.opcode;
      completed.has_immediate = completion_i.has_immediate;
      completed.vendor_error  = completion_i.vendor_error;
    end
  end

  assign beat = '{last: 1'b1, strobe: '1, data: completed};

  fifo #(
    .T    (write_beat_t),
    .Depth(16)
  ) u_beats (
    .clk_i,
    .rst_ni,
    .in_valid_i (write),
    .in_ready_o (queue_ready),
    .in_i       (beat),
    .out_valid_o(beat_valid),
    .out_ready_i(beat_ready),
    .out_o      (beat_out),
    .level_o    (beat_level)
  );

  // A burst has one beat, so it cannot cross a page and its word index does not matter.
  axi_writer u_writer (
    .clk_i,
    .rst_ni,
    .command_valid_i(write),
    .command_ready_o(command_ready),
    .command_word_i (registers_i.completion_base[47:6] + 42'(place(registers_i.completion_size, written_q))),
    .command_beats_i('0),
    .beat_valid_i   (beat_valid),
    .beat_ready_o   (beat_ready),
    .beat_i         (beat_out),
    .beat_word_i    ('0),
    .done_o         (written),
    .fault_o        (writer_fault),
    .idle_o         (writer_idle),
    .aw_valid_o,
    .aw_ready_i,
    .aw_o,
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_response_i
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni || !running_q) begin
      written_q <= '0;
      visible_q <= '0;
    end else begin
      if (write) written_q <= written_q + 1'b1;
      if (written) visible_q <= visible_q + 1'b1;
    end
  end

  // State registers.

  always_ff @(posedge clk_i) begin
    if (!rst_ni) running_q <= 1'b0;
    else running_q <= registers_i.enable && (running_q || idle_o);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) fault_q <= 1'b0;
    else if (reader_fault || writer_fault) fault_q <= 1'b1;
    else if (!running_q) fault_q <= 1'b0;
  end

  assign readings_o = '{
          running: running_q,
          overrun: overrun_q,
          fault: fault_q,
          post_consumed: consumed_q,
          completion_produced: visible_q
      };
  assign interrupt_o = registers_i.interrupt_enable && running_q && visible_q != registers_i.completion_consumed;
  assign idle_o = !fetch_valid_q && reader_idle && !entry_valid && writer_idle && beat_level == '0 && !write;

endmodule
