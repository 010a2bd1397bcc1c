// Answers of the engine to calls over queue pairs: each is written into a reply buffer in memory and sent from there
// by a SEND.
//
// An answer is an 8-byte word, big-endian, that names its kind, and its content. The buffers of a queue pair are
// consecutive from `registers_i.reply_base` on, which is 56 bytes behind a multiple of 64. So the word is at the end
// of its beat, and the content needs no realignment. When an answer is in memory, its SEND is posted, unless the
// queue pair has been reset in the meantime: a new connection must not get answers to calls of an earlier one. A
// buffer is in use until the SEND completes or is refused, or the queue pair is reset.
//
// Latency: 5 cycles from an answer to its first beat at the memory; 1 cycle from the response to the last write to
// the post. Throughput: an answer in 5 cycles and one for each beat; a post in 3 cycles. Order: kept. Stalls: the
// engine, while memory accepts no write, or 64 answers wait for memory or for their post. An answer that finds no
// buffer, is too long, or is for an earlier incarnation is dropped and counted.
//
// Twin: crates/nic/src/card.rs.
module queue_pair_replies
  import weft_pkg::*;
  import engines_pkg::*;
(
  input  logic                              clk_i,
  input  logic                              rst_ni,
  input  address_t                          base_i,
  input  logic                       [31:0] lkey_i,
  input  logic                              message_valid_i,
  output logic                              message_ready_o,
  // verilator lint_off UNUSEDSIGNAL
  input  engine_message_t                   message_i,           // of the caller only the queue pair is used
  // verilator lint_on UNUSEDSIGNAL
  input  logic                              body_valid_i,
  output logic                              body_ready_o,
  input  beat_t                             body_i,
  // Requests a buffer of the queue pair from reply_slots.
  output logic                              take_valid_o,
  input  logic                              take_ready_i,
  output qp_index_t                         take_qp_o,
  output incarnation_t                      take_incarnation_o,
  input  logic                              take_stale_i,
  input  logic                              take_full_i,
  input  reply_index_t                      take_index_i,
  // Checks with reply_slots whether an answer's queue pair still has the incarnation that made the call. `forget` is
  // a pulse: a queue pair is reset.
  output logic                              check_valid_o,
  input  logic                              check_ready_i,
  output reply_slot_t                       check_o,
  input  logic                              check_stale_i,
  input  logic                              forget_valid_i,
  output logic                              give_back_valid_o,
  input  logic                              give_back_ready_i,
  output reply_slot_t                       give_back_o,
  output logic                              write_valid_o,
  input  logic                              write_ready_i,
  output write_command_t                    write_o,
  output logic                              write_data_valid_o,
  input  logic                              write_data_ready_i,
  output write_beat_t                       write_data_o,
  input  logic                              written_i,
  output logic                              post_valid_o,
  input  logic                              post_ready_i,
  input  logic                              post_refused_i,
  output work_request_t                     post_o,
  // Completions of the SENDs only.
  input  logic                              completion_valid_i,
  output logic                              completion_ready_o,
  // verilator lint_off UNUSEDSIGNAL
  input  completion_t                       completion_i,        // the status is ignored
  // verilator lint_on UNUSEDSIGNAL
  output queue_pair_replies_events_t        events_o,
  output logic                              idle_o
);

  localparam int unsigned WaitingMax = 64;

  typedef enum logic [2:0] {
    StateIdle,
    StateCommand,
    StateWord,
    StateBody,
    StateDrop
  } state_e;

  typedef struct packed {
    reply_slot_t    slot;
    payload_bytes_t bytes;
  } waiting_t;

  state_e            state_q;
  reply_slot_t       slot_q;
  logic        [7:0] kind_q;
  waiting_t          waits_q;
  logic              empty_q;  // the answer has no content
  logic              too_long;
  logic              granted;
  logic              refused;
  logic              room;
  logic              begins;
  logic              body_ends;

  // Start of an answer: requests a buffer.

  assign too_long = message_i.bytes > message_bytes_t'(ReplyBytes - RpcWordBytes);
  assign take_valid_o = state_q == StateIdle && message_valid_i && !too_long && room;
  assign take_qp_o = qp_index_t'(message_i.caller.address);
  assign take_incarnation_o = incarnation_t'(message_i.caller.address >> $bits(qp_index_t));
  assign granted = take_valid_o && take_ready_i && !take_stale_i && !take_full_i;
  assign refused = state_q == StateIdle && message_valid_i
      && (too_long || (take_valid_o && take_ready_i && (take_stale_i || take_full_i)));
  // The message is accepted at once; its body follows.
  assign begins = granted || refused;
  assign message_ready_o = begins;
  assign body_ends = body_valid_i && body_ready_o && body_i.last;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= StateIdle;
    end else begin
      unique case (state_q)
        StateIdle: begin
          if (granted) state_q <= StateCommand;
          else if (refused && message_i.bytes != '0) state_q <= StateDrop;
        end
        StateCommand: if (write_ready_i) state_q <= StateWord;
        StateWord: if (write_data_ready_i) state_q <= empty_q ? StateIdle : StateBody;
        default: if (body_ends) state_q <= StateIdle;
      endcase
    end
    if (begins) begin
      slot_q <= '{qp: take_qp_o, incarnation: take_incarnation_o, index: take_index_i};
      kind_q <= message_i.message;
      waits_q <= '{
          slot: '{qp: take_qp_o, incarnation: take_incarnation_o, index: take_index_i},
          bytes: payload_bytes_t'(message_i.bytes) + payload_bytes_t'(RpcWordBytes)
      };
      empty_q <= message_i.bytes == '0;
    end
  end

  // The write into memory.

  function automatic address_t place(address_t base, reply_slot_t slot);
    return base + address_t'({slot.qp, slot.index, ($clog2(ReplyBytes))'(0)});
  endfunction

  assign write_valid_o = state_q == StateCommand;
  assign write_o = '{
          target: TargetHbm,
          write_through: 1'b0,
          transfer: '{address: place(base_i, slot_q), bytes: waits_q.bytes}
      };
  assign write_data_valid_o = state_q == StateWord || (state_q == StateBody && body_valid_i);
  assign body_ready_o = state_q == StateDrop || (state_q == StateBody && write_data_ready_i);

  always_comb begin
    if (state_q == StateWord) begin
      write_data_o.last   = empty_q;
      write_data_o.strobe = {(RpcWordBytes)'('1), (BeatBytes - RpcWordBytes)'('0)};
      write_data_o.data   = {kind_q, (BeatBits - 8)'('0)};
    end else begin
      write_data_o.last   = body_i.last;
      write_data_o.strobe = '1 >> (body_i.last ? body_i.empty : '0);
      write_data_o.data   = body_i.data;
    end
  end

  // The SEND, when the answer is in memory.

  waiting_t                        waits;
  logic                            waits_valid;
  logic     [$clog2(WaitingMax):0] waiting_level;
  logic     [$clog2(WaitingMax):0] written_q;
  logic                            posted;
  logic                            drops;

  // The margin covers one more message that may be on its way into the queue.
  assign room = waiting_level < ($clog2(WaitingMax) + 1)'(WaitingMax - 1);

  fifo #(
    .T    (waiting_t),
    .Depth(WaitingMax)
  ) i_waiting (
    .clk_i,
    .rst_ni,
    .in_valid_i (write_valid_o && write_ready_i),
    .in_ready_o (),
    .in_i       (waits_q),
    .out_valid_o(waits_valid),
    .out_ready_i(posted || drops),
    .out_o      (waits),
    .level_o    (waiting_level)
  );

  // Buffers are released by SENDs that complete and by SENDs that are refused. One entry is reserved for the latter.
  localparam int unsigned GiveBacks = 4;

  logic                       returns;
  logic [$clog2(GiveBacks):0] give_back_level;

  // The oldest answer is checked while it is written. The check is repeated if a reset may have come after it. If its
  // post is already offered, it is not repeated: the post precedes the reconnection of the queue pair, and the reset
  // removes it from the send queue.
  logic                       checked_q;
  logic                       stale_q;
  logic                       forget_q;
  logic                       is_written;

  assign check_valid_o = waits_valid && !checked_q;
  assign check_o = waits.slot;
  assign is_written = waits_valid && written_q != '0 && checked_q;
  assign drops = is_written && stale_q && !refused;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || posted || drops) checked_q <= 1'b0;
    else if ((forget_valid_i || forget_q) && !post_valid_o) checked_q <= 1'b0;
    else if (check_valid_o && check_ready_i) checked_q <= 1'b1;
    if (check_valid_o && check_ready_i) stale_q <= check_stale_i;
    forget_q <= forget_valid_i;
  end

  assign post_valid_o = is_written && !stale_q && give_back_level < ($clog2(GiveBacks) + 1)'(GiveBacks);
  assign posted = post_valid_o && post_ready_i;
  assign returns = posted && post_refused_i;
  assign completion_ready_o = !returns && give_back_level < ($clog2(GiveBacks) + 1)'(GiveBacks - 1);

  fifo #(
    .T    (reply_slot_t),
    .Depth(GiveBacks)
  ) i_give_backs (
    .clk_i,
    .rst_ni,
    .in_valid_i (returns || (completion_valid_i && completion_ready_o)),
    .in_ready_o (),
    .in_i       (returns ? waits.slot : reply_slot_t'(completion_i.id)),
    .out_valid_o(give_back_valid_o),
    .out_ready_i(give_back_ready_i),
    .out_o      (give_back_o),
    .level_o    (give_back_level)
  );

  always_comb begin
    post_o = '0;
    post_o.qp = waits.slot.qp;
    post_o.id = {1'b1, (63 - $bits(reply_slot_t))'(0), waits.slot};
    post_o.operation = OperationSend;
    post_o.signaled = 1'b1;
    post_o.local_address = 64'(place(base_i, waits.slot));
    post_o.length = 32'(waits.bytes);
    post_o.lkey = lkey_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) written_q <= '0;
    else written_q <= written_q + ($clog2(WaitingMax) + 1)'(written_i) - ($clog2(WaitingMax) + 1)'(posted || drops);
  end

  always_comb begin
    events_o = '0;
    events_o.replies_without_buffer = refused && (too_long || !take_stale_i);
    events_o.replies_refused = (refused && !too_long && take_stale_i) || drops || returns;
  end

  assign idle_o = state_q == StateIdle && !message_valid_i && !waits_valid && !give_back_valid_o && !completion_valid_i;

  always_ff @(posedge clk_i) begin
    if (rst_ni)
      assert (!(write_valid_o && write_ready_i && waiting_level[$clog2(WaitingMax)]))
      else $error("an answer without a place in the queue");
  end

endmodule
