// Calls of the engine by WRITEs into RPC regions. The beats of a message arrive packet by packet, interleaved with
// those of other queue pairs. This block reassembles each message, and offers it as an event when its call says that
// it is in memory.
//
// The operation is the immediate value, or else the first 8 bytes, big-endian. The event carries the data of the
// WRITE, not the contents of memory, which may have changed since. A message may touch 32 beats of memory (1985 bytes
// at any alignment). A longer one, or one that finds no buffer, is dropped and counted. A queue pair holds a buffer
// while it sends a message; a reset of the queue pair also releases it.
//
// Latency: 13 cycles from a call to its event. Throughput: a packet takes a cycle more than it has beats; a call 13
// cycles and one for each beat. Order: that of the calls. Stalls: the beats, for a cycle before each packet. A slow
// engine never stalls them, since there is room for all calls that the transport sends before `call_done_o`. After
// reset it takes a cycle for each queue pair.
//
// Twin: crates/nic/src/card.rs.
module queue_pair_calls
  import weft_pkg::*;
  import engines_pkg::*;
#(
  // Buffers for messages that are being reassembled or wait for the engine; a power of two.
  parameter int unsigned Buffers = 128,
  // Calls that the transport has outstanding at most; a power of two.
  parameter int unsigned Calls = 16,
  // The slot number of the engine.
  parameter logic [3:0] Slot = 4'd0
) (
  input logic clk_i,
  input logic rst_ni,
  input logic enable_i,
  // Pulse: a queue pair is reset. There must be at least 80 cycles between two pulses, so that each takes effect.
  input logic forget_valid_i,
  input qp_index_t forget_qp_i,
  input logic snoop_valid_i,
  output logic snoop_ready_o,
  // verilator lint_off UNUSEDSIGNAL
  input rpc_beat_t snoop_i,  // the address's low bits give the beat's index in its buffer
  // verilator lint_on UNUSEDSIGNAL
  input logic call_valid_i,
  output logic call_ready_o,
  input rpc_call_t call_i,
  output logic call_done_o,
  // The incarnation of the queue pair, from reply_slots.
  output logic lookup_valid_o,
  input logic lookup_ready_i,
  output qp_index_t lookup_qp_o,
  input incarnation_t lookup_incarnation_i,
  output logic event_valid_o,
  input logic event_ready_i,
  output engine_event_t event_o,
  output logic payload_valid_o,
  input logic payload_ready_i,
  output beat_t payload_o,
  output queue_pair_calls_events_t events_o,
  output logic idle_o
);

  localparam int unsigned BufferBeats = 32;
  localparam int unsigned BufferBits = $clog2(Buffers);
  localparam int unsigned BeatIndexBits = $clog2(BufferBeats);

  typedef logic [BufferBits-1:0] buffer_t;
  typedef logic [BeatIndexBits-1:0] beat_index_t;
  // One more bit, which marks a beat behind the buffer's end.
  typedef logic [BeatIndexBits:0] word_t;

  // The message that a queue pair is sending.
  typedef struct packed {
    logic    held;    // it has a buffer
    logic    lost;    // beats are missing
    buffer_t buffer;
    word_t   start;   // word index in memory of its first beat
  } message_t;

  // Free buffers.

  logic    free_valid;
  buffer_t free;
  logic    free_take;
  logic    free_give;
  buffer_t free_given;

  fifo #(
    .T    (buffer_t),
    .Depth(Buffers)
  ) i_free (
    .clk_i,
    .rst_ni,
    .in_valid_i (free_give),
    .in_ready_o (),
    .in_i       (free_given),
    .out_valid_o(free_valid),
    .out_ready_i(free_take),
    .out_o      (free),
    .level_o    ()
  );

  // Reassembly: a packet's first beat waits while its message is looked up.

  typedef enum logic [1:0] {
    GatherClear,
    GatherLook,
    GatherTake,
    GatherForget
  } gather_e;

  gather_e   gather_q;
  logic      forget_q;
  qp_index_t forget_qp_q;
  qp_index_t clear_q;
  logic      first_q;  // the first beat of the packet
  message_t  stored;
  message_t  message_q;
  message_t  message;
  word_t     word;
  word_t     offset;
  logic      ends;
  logic      gathered_valid;
  logic      gathered_take;
  logic      write;
  logic      message_write;
  qp_index_t message_write_qp;
  message_t  message_written;
  logic      forgets;
  logic      release_valid;  // the buffer of a call that is finished
  buffer_t   release_buffer;

  assign word = word_t'(snoop_i.address >> $clog2(BeatBytes));

  always_comb begin
    message = first_q ? stored : message_q;
    if (first_q && snoop_i.begins) begin
      message.lost  = !stored.held && !free_valid;
      message.held  = stored.held || free_valid;
      message.start = word;
      if (!stored.held) message.buffer = free;
    end else if (!message.held) begin
      // Its queue pair was reset after the message had begun.
      message.lost = 1'b1;
    end
    offset = word - message.start;
    if (offset[BeatIndexBits]) message.lost = 1'b1;
  end

  assign snoop_ready_o = gather_q == GatherTake;
  assign write = snoop_valid_i && snoop_ready_o;
  assign ends = write && snoop_i.beat.last;
  assign free_take = write && first_q && snoop_i.begins && !stored.held && free_valid;
  // A buffer released by a finished call has priority.
  assign forgets = gather_q == GatherForget && !release_valid;
  assign gathered_valid = ends && snoop_i.ends;

  always_comb begin
    free_give  = 1'b1;
    free_given = release_buffer;
    if (gather_q == GatherClear) begin
      free_give  = 32'(clear_q) < Buffers;
      free_given = buffer_t'(clear_q);
    end else if (!release_valid) begin
      free_give  = forgets && stored.held;
      free_given = stored.buffer;
    end
  end

  always_comb begin
    message_write = 1'b1;
    message_write_qp = snoop_i.qp;
    message_written = message;
    unique case (gather_q)
      GatherClear: begin
        message_write_qp = clear_q;
        message_written  = '0;
      end
      GatherForget: begin
        message_write = forgets;
        message_write_qp = forget_qp_q;
        message_written = '0;
      end
      default: begin
        message_write = ends;
        if (snoop_i.ends) message_written = '0;
      end
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      gather_q <= GatherClear;
      forget_q <= 1'b0;
      clear_q  <= '0;
    end else begin
      forget_q <= forget_valid_i || (forget_q && !forgets);
      unique case (gather_q)
        GatherClear: begin
          clear_q <= clear_q + 1'b1;
          if (clear_q == '1) gather_q <= GatherLook;
        end
        GatherLook: begin
          if (forget_q) gather_q <= GatherForget;
          else if (snoop_valid_i) gather_q <= GatherTake;
        end
        GatherTake: if (ends) gather_q <= GatherLook;
        default: if (forgets) gather_q <= GatherLook;
      endcase
    end
    if (forget_valid_i) forget_qp_q <= forget_qp_i;
    first_q <= gather_q == GatherLook || (first_q && !write);
    if (write) message_q <= message;
  end

  ram #(
    .T    (message_t),
    .Depth(QueuePairs)
  ) i_messages (
    .clk_i,
    .write_i        (message_write),
    .write_address_i(message_write_qp),
    .write_data_i   (message_written),
    .read_i         (gather_q == GatherLook),
    .read_address_i (forget_q ? forget_qp_q : snoop_i.qp),
    .read_data_o    (stored)
  );

  // Complete messages and the calls, in the same order. A call of no bytes has no beats.

  logic                        gathered_known;
  message_t                    complete;
  logic                        call_known;
  rpc_call_t                   call;
  logic      [$clog2(Calls):0] unused_level;

  fifo #(
    .T    (message_t),
    .Depth(Calls)
  ) i_gathered (
    .clk_i,
    .rst_ni,
    .in_valid_i (gathered_valid),
    .in_ready_o (),
    .in_i       (message),
    .out_valid_o(gathered_known),
    .out_ready_i(gathered_take),
    .out_o      (complete),
    .level_o    (unused_level)
  );

  fifo #(
    .T    (rpc_call_t),
    .Depth(Calls)
  ) i_calls (
    .clk_i,
    .rst_ni,
    .in_valid_i (call_valid_i),
    .in_ready_o (call_ready_o),
    .in_i       (call_i),
    .out_valid_o(call_known),
    .out_ready_i(call_done_o),
    .out_o      (call),
    .level_o    ()
  );

  // Calls, one after the other. A message is realigned so that the word that names the operation, if there is one, is
  // at the end of a beat and the payload begins the next beat.

  typedef enum logic [2:0] {
    CallIdle,
    CallJudge,
    CallWord,
    CallOffer,
    CallPass,   // the event was accepted, and its payload is still being transferred
    CallDrain,  // drops a message that no engine takes
    CallDone
  } call_e;

  call_e                         call_q;
  call_e                         call_d;
  incarnation_t                  incarnation_q;
  logic                          has_bytes;
  logic                          named;  // a word of the message names the operation
  logic                          nobody;
  logic                          run_start;
  logic           [         7:0] kind_q;
  logic                          payload_left_q;  // part of the payload has not been transferred
  logic                          aligned_valid;
  logic                          aligned_ready;
  logic                          aligned_last;
  logic           [BeatBits-1:0] aligned;
  logic                          payload_ends;
  message_bytes_t                payload_bytes;

  assign has_bytes = call.length != '0;
  assign named = !call.has_immediate;
  assign nobody = !enable_i || call.slot != Slot;
  assign lookup_valid_o = call_q == CallIdle && call_known && (gathered_known || !has_bytes);
  assign lookup_qp_o = call.qp;
  assign payload_bytes = message_bytes_t'(call.length) - (named ? message_bytes_t'(RpcWordBytes) : '0);

  always_comb begin
    call_d = call_q;
    run_start = 1'b0;
    events_o = '0;
    unique case (call_q)
      CallIdle:  if (lookup_valid_o && lookup_ready_i) call_d = CallJudge;
      CallJudge: begin
        call_d = CallDone;
        if (named ? call.length < 32'(RpcWordBytes) : call.immediate[31:8] != '0) begin
          events_o.rpc_malformed = 1'b1;
        end else if (has_bytes && complete.lost) begin
          events_o.calls_without_buffer = 1'b1;
        end else if (named) begin
          call_d = CallWord;
          run_start = 1'b1;
        end else if (nobody) begin
          events_o.messages_without_engine = 1'b1;
        end else begin
          call_d = CallOffer;
          run_start = has_bytes;
        end
      end
      CallWord: begin
        if (aligned_valid) begin
          call_d = aligned_last ? CallDone : CallDrain;
          if (aligned[BeatBits-9-:8*(RpcWordBytes-1)] != '0) events_o.rpc_malformed = 1'b1;
          else if (nobody) events_o.messages_without_engine = 1'b1;
          else call_d = CallOffer;
        end
      end
      CallOffer: begin
        if (event_ready_i) call_d = payload_left_q && !payload_ends ? CallPass : CallDone;
      end
      CallPass:  if (payload_ends) call_d = CallDone;
      CallDrain: if (aligned_valid && aligned_last) call_d = CallDone;
      default:   call_d = CallIdle;
    endcase
  end

  assign event_valid_o = call_q == CallOffer;
  assign payload_valid_o = (call_q == CallOffer || call_q == CallPass) && payload_left_q && aligned_valid;
  assign payload_ends = payload_valid_o && payload_ready_i && aligned_last;
  assign aligned_ready = call_q == CallWord || call_q == CallDrain || (payload_valid_o && payload_ready_i);
  assign call_done_o = call_q == CallDone;
  assign gathered_take = call_done_o && has_bytes;
  assign release_valid = gathered_take && complete.held;
  assign release_buffer = complete.buffer;

  always_comb begin
    event_o = '0;
    event_o.kind = EventCall;
    event_o.last = 1'b1;
    event_o.caller.kind = CallerQueuePair;
    event_o.caller.address = ipv4_address_t'({incarnation_q, call.qp});
    event_o.message = kind_q;
    event_o.bytes = payload_bytes;
    payload_o.last = aligned_last;
    payload_o.empty = aligned_last ? 6'(-payload_bytes) : '0;
    payload_o.data = aligned;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) call_q <= CallIdle;
    else call_q <= call_d;
    if (call_q == CallIdle) incarnation_q <= lookup_incarnation_i;
    if (call_q == CallJudge) begin
      kind_q <= call.immediate[7:0];
      payload_left_q <= has_bytes;
    end
    if (call_q == CallWord && aligned_valid) begin
      kind_q <= aligned[BeatBits-1-:8];
      payload_left_q <= !aligned_last;
    end
    if (payload_ends) payload_left_q <= 1'b0;
  end

  // Beats of the message, from its buffer to their new alignment.

  localparam int unsigned Ahead = 8;
  localparam int unsigned WordPlace = BeatBytes - RpcWordBytes;

  logic                          run_ready;
  logic                          reading_q;
  logic        [            1:0] arriving_q;  // reads in flight
  beat_index_t                   read_q;
  beat_index_t                   read_end_q;
  logic                          read;
  logic        [   BeatBits-1:0] row;
  logic                          ahead_valid;
  logic                          ahead_ready;
  logic        [   BeatBits-1:0] ahead;
  logic        [$clog2(Ahead):0] ahead_level;

  on_chip_memory #(
    .Bytes(Buffers * BufferBeats * BeatBytes)
  ) i_buffers (
    .clk_i,
    .write_i       (write && !message.lost),
    .write_row_i   ({message.buffer, offset[BeatIndexBits-1:0]}),
    .write_strobe_i(snoop_i.beat.strobe),
    .write_data_i  (snoop_i.beat.data),
    .read_i        (read),
    .read_row_i    ({complete.buffer, read_q}),
    .read_data_o   (row)
  );

  assign read = reading_q && ahead_level + ($clog2(
      Ahead
  ) + 1)'(arriving_q[0]) + ($clog2(
      Ahead
  ) + 1)'(arriving_q[1]) < ($clog2(
      Ahead
  ) + 1)'(Ahead);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      reading_q  <= 1'b0;
      arriving_q <= '0;
    end else begin
      if (run_start) reading_q <= 1'b1;
      else if (read && read_q == read_end_q) reading_q <= 1'b0;
      arriving_q <= {arriving_q[0], read};
    end
    if (run_start) begin
      read_q <= '0;
      read_end_q <= beat_index_t'((11'(call.address[5:0]) + call.length[10:0] - 11'd1) >> $clog2(BeatBytes));
    end else if (read) begin
      read_q <= read_q + 1'b1;
    end
  end

  fifo #(
    .T    (logic [BeatBits-1:0]),
    .Depth(Ahead)
  ) i_ahead (
    .clk_i,
    .rst_ni,
    .in_valid_i (arriving_q[1]),
    .in_ready_o (),
    .in_i       (row),
    .out_valid_o(ahead_valid),
    .out_ready_i(ahead_ready),
    .out_o      (ahead),
    .level_o    (ahead_level)
  );

  realign i_realign (
    .clk_i,
    .rst_ni,
    .command_valid_i(run_start),
    .command_ready_o(run_ready),
    .from_i         (call.address[5:0]),
    .to_i           (named ? 6'(WordPlace) : '0),
    .bytes_i        (call.length[12:0]),
    .in_valid_i     (ahead_valid),
    .in_ready_o     (ahead_ready),
    .in_data_i      (ahead),
    .out_valid_o    (aligned_valid),
    .out_ready_i    (aligned_ready),
    .out_data_o     (aligned),
    .out_strobe_o   (),
    .out_last_o     (aligned_last)
  );

  assign idle_o = gather_q == GatherLook && !forget_q && !snoop_valid_i && !call_valid_i && !call_known;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(gathered_valid && unused_level[$clog2(Calls)]))
      else $error("more messages than the transport may let in");
      assert (!run_start || run_ready)
      else $error("a message before the one in front of it has gone");
      assert (!(call_valid_i && !call_ready_o))
      else $error("more calls than the transport may let in");
      assert (!(run_start && !complete.held && !complete.lost))
      else $error("a message without a buffer");
    end
  end

endmodule
