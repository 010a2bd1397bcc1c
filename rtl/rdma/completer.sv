// Completes work requests in the order in which they were posted.
//
// An advance says up to which PSN a send queue has succeeded. The completer walks the queue from its oldest request
// and makes a completion for each request that has ended, if the request is signaled or failed. Latency: 4 cycles
// from an advance to its first completion. Throughput: 1 cycle for each advance and 1 for each request that the walk
// examines; an advance that ends exactly at the end of a request examines no further one. Order: that of the
// advances. Stalls: the input stalls during a walk, once two more advances are held; a walk stalls while its
// completions are not accepted.
//
// This block owns the heads of the queues. After reset it clears them, one a cycle, until `ready_o` is high.
module completer
  import weft_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  output logic ready_o,

  input  logic      advance_valid_i,
  output logic      advance_ready_o,
  input  qp_index_t advance_qp_i,
  // AdvanceFlush with StatusSuccess drops all requests without completions: the queue pair was reset.
  input  advance_t  advance_i,

  output logic         head_write_o,
  output qp_index_t    head_index_o,
  output send_serial_t head_o,

  // Read ports of the send queue: 1 cycle.
  output logic         tail_read_o,
  output qp_index_t    tail_index_o,
  input  send_serial_t tail_i,
  output logic         end_read_o,
  output qp_index_t    end_index_o,
  output send_serial_t end_serial_o,
  input  send_end_t    end_i,

  output logic        completion_valid_o,
  input  logic        completion_ready_i,
  output completion_t completion_o,

  // Pulse: all requests of a queue were dropped.
  output logic forgotten_o,
  output logic idle_o
);

  localparam int unsigned IndexBits = $bits(qp_index_t);
  localparam int unsigned CompletionDepth = 32;

  // Index of the next head to clear after reset; the highest bit is set when all are cleared.
  logic [IndexBits:0] clear_q;

  assign ready_o = clear_q[IndexBits];

  // The next advance. The head and tail of its queue have just been read.
  logic               next_valid_q;
  qp_index_t          next_qp_q;
  advance_t           next_q;
  send_serial_t       next_head;
  // The advance being executed: it examines the request `serial`, whose data has been read if `look`.
  logic               walk_valid_q;
  logic               look_q;
  logic               fault_shown_q;
  qp_index_t          walk_qp_q;
  advance_t           walk_q;
  send_serial_t       serial_q;
  send_serial_t       tail_q;

  logic               accept;
  logic               step;
  logic               load;
  logic               ended;
  logic               takes;
  logic               last;
  logic               forget;
  logic               push;
  logic               room;
  send_serial_t       following;
  completion_t        completion;
  logic         [5:0] level;
  logic               completion_valid;

  // An advance of the queue pair whose head is about to be written must wait until the write is done.
  assign accept = advance_valid_i && advance_ready_o;
  assign advance_ready_o = ready_o && (!next_valid_q || load)
      && !(next_valid_q && next_qp_q == advance_qp_i)
      && !(walk_valid_q && walk_qp_q == advance_qp_i);
  assign tail_read_o = accept;
  assign tail_index_o = advance_qp_i;

  assign forget = walk_q.kind == AdvanceFlush && walk_q.status == StatusSuccess;
  // Whether the request has completed successfully.
  assign ended = !psn_before(walk_q.psn, end_i.limit) && walk_q.kind != AdvanceFlush && !fault_shown_q;
  assign takes = ended || walk_q.kind inside {AdvanceFault, AdvanceFlush};
  assign following = serial_q + 1'b1;

  // The walk: the first request is read; then each request is examined while the next one is read.
  always_comb begin
    push = 1'b0;
    last = 1'b0;
    if (walk_valid_q && !look_q) begin
      last = forget || serial_q == tail_q || walk_q.kind == AdvanceNone;
    end else if (walk_valid_q) begin
      push = takes && !(ended && !end_i.signaled);
      last = !takes || following == tail_q || (walk_q.kind == AdvanceTo && end_i.limit == walk_q.psn);
    end
  end

  assign room = !level[5] && level[4:0] != 5'd31;
  assign step = walk_valid_q && (!look_q || room);
  assign load = next_valid_q && (!walk_valid_q || (step && last));
  assign end_read_o = step && !last;
  assign end_index_o = walk_qp_q;
  assign end_serial_o = look_q ? following : serial_q;

  // The head is written with each request, because a driver may post another request as soon as it sees the
  // completion.
  assign head_write_o = !ready_o || (step && (look_q ? takes : forget));
  assign head_index_o = ready_o ? walk_qp_q : clear_q[IndexBits-1:0];
  always_comb begin
    if (!ready_o) head_o = '0;
    else head_o = look_q ? following : tail_q;
  end
  assign forgotten_o = step && !look_q && forget;

  always_comb begin
    completion = '0;
    completion.qp = walk_qp_q;
    completion.id = end_i.id;
    // The numbers of ibv_wc_opcode are those of operation_e.
    completion.opcode = {5'd0, end_i.operation};
    if (!(end_i.operation inside {OperationSend, OperationWrite})) completion.bytes = end_i.length;
    if (ended) begin
      completion.status = StatusSuccess;
    end else if (walk_q.kind == AdvanceFault && !fault_shown_q) begin
      completion.status = walk_q.status;
      completion.vendor_error = walk_q.vendor_error;
    end else begin
      completion.status = StatusFlushed;
    end
  end

  always_ff @(posedge clk_i) begin
    if (accept) begin
      next_qp_q <= advance_qp_i;
      next_q <= advance_i;
    end
    if (load) begin
      walk_qp_q <= next_qp_q;
      walk_q <= next_q;
      serial_q <= next_head;
      tail_q <= tail_i;
    end else if (step && look_q && !last) begin
      serial_q <= following;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      clear_q       <= '0;
      next_valid_q  <= 1'b0;
      walk_valid_q  <= 1'b0;
      look_q        <= 1'b0;
      fault_shown_q <= 1'b0;
    end else begin
      if (!ready_o) clear_q <= clear_q + 1'b1;
      if (accept) next_valid_q <= 1'b1;
      else if (load) next_valid_q <= 1'b0;
      if (load) begin
        walk_valid_q  <= 1'b1;
        look_q        <= 1'b0;
        fault_shown_q <= 1'b0;
      end else if (step) begin
        walk_valid_q <= !last;
        look_q       <= !last;
        if (look_q && !ended) fault_shown_q <= 1'b1;
      end
    end
  end

  ram #(
    .T    (send_serial_t),
    .Depth(QueuePairs)
  ) u_heads (
    .clk_i,
    .write_i        (head_write_o),
    .write_address_i(head_index_o),
    .write_data_i   (head_o),
    .read_i         (accept),
    .read_address_i (advance_qp_i),
    .read_data_o    (next_head)
  );

  fifo #(
    .T    (completion_t),
    .Depth(CompletionDepth)
  ) u_completions (
    .clk_i,
    .rst_ni,
    .in_valid_i (push && step),
    // Flow control is by `room`, which is computed from the FIFO's level.
    // verilator lint_off PINCONNECTEMPTY
    .in_ready_o (),
    // verilator lint_on PINCONNECTEMPTY
    .in_i       (completion),
    .out_valid_o(completion_valid),
    .out_ready_i(completion_ready_i),
    .out_o      (completion_o),
    .level_o    (level)
  );

  assign completion_valid_o = completion_valid;
  assign idle_o = ready_o && !advance_valid_i && !next_valid_q && !walk_valid_q && !completion_valid;

endmodule
