// The sending half of the responder: what the peers are due, queue pair by queue pair.
//
// The responses to READs and atomics leave first, in the order of the answers; then the one acknowledgement or refusal
// that may be pending. An acknowledgement speaks for everything before it, so a later one takes the place of an earlier
// one and a response that of all of them (InfiniBand volume 1, clauses 9.7.5.1.2 and 9.7.5.1.3): that is all the
// coalescing there is. Each turn of a queue pair makes one packet, so queue pairs and kinds of answers interleave.
// A READ is cut at the path MTU, and each of its packets is checked again, since the permission may have gone
// meanwhile: then the peer is told at the packet that is missing, and unless the READ was a duplicate, for which the
// requester may no longer wait, the queue pair fails.
//
// Which answers count: those from ControlReceive to ControlReset, ControlError or failure. Others are taken and
// forgotten, with their pulse of `answered_*`. AnswerNone only notes congestion. An acknowledgement of a duplicate does
// not hide a refusal, and none that comes late, for a PSN before the pending one, changes anything. An answer other
// than a refusal whose syndrome is SyndromeSequenceError is of a request with a gap behind it: a refusal that is still
// due then becomes one of the packet after that request.
//
// Latency: 9 cycles from an answer to its (first) packet if nothing else happens. Throughput: one event (answer or
// packet) a cycle for different queue pairs; of one queue pair an answer every 2 cycles, a packet every 7. Stalls: an
// answer waits for events of its queue pair under way, and every other cycle for packets; never for
// `transmit_ready_i` or `fail_ready_i`. After reset the state is cleared, one queue pair a cycle.
//
// Pipeline: 0 choose an event; 1 state read, answers change and write it; turns: 2 oldest answer read, 3 cut off a
// packet, write the state, ask for the check, 6 the grant: packet or failure. An event waits in front while one of its
// queue pair has not written the state (stages 1 to 3); turns also wait for the grant of the packet before.
module responses
  import weft_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,
  // What the peers are due, in order, when its data is visible.
  input  logic              answer_valid_i,
  output logic              answer_ready_o,
  input  qp_index_t         answer_qp_i,
  // An atomic's resource is the responder's matter; an address outside 48 bits is that of a READ of no bytes.
  // verilator lint_off UNUSEDSIGNAL
  input  answer_t           answer_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic              control_valid_i,
  output logic              control_ready_o,
  // None of the changes that count here has an argument that does.
  // verilator lint_off UNUSEDSIGNAL
  input  control_t          control_i,
  // verilator lint_on UNUSEDSIGNAL
  // Of the queue pair table: data one cycle later.
  output logic              table_read_o,
  output qp_index_t         table_index_o,
  // Path MTU and domain.
  // verilator lint_off UNUSEDSIGNAL
  input  queue_pair_t       table_data_i,
  // verilator lint_on UNUSEDSIGNAL
  // Of the region table: the grant three cycles later.
  output logic              check_valid_o,
  output access_request_t   check_o,
  // Verdict and target.
  // verilator lint_off UNUSEDSIGNAL
  input  access_grant_t     grant_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic              transmit_valid_o,
  input  logic              transmit_ready_i,
  output transmit_t         transmit_o,
  // The responder must take this queue pair to the ERROR state.
  output logic              fail_valid_o,
  input  logic              fail_ready_i,
  output qp_index_t         fail_o,
  // The answer to a READ or atomic has been sent, given up or forgotten; one pulse for each.
  output logic              answered_valid_o,
  output qp_index_t         answered_qp_o,
  output logic              answered_duplicate_o,
  output responses_events_t events_o,
  output logic              idle_o
);

  // Answers to READs and atomics that one queue pair can have waiting: originals and duplicates.
  localparam int unsigned RingDepth = 2 * ResponderResources;
  localparam int unsigned RingBits = $clog2(RingDepth);
  localparam int unsigned QueuePairBits = $bits(qp_index_t);
  // Packets between a turn and the taker of `transmit_o`.
  localparam int unsigned Credits = 16;

  typedef enum logic [1:0] {
    PendingNone,
    PendingAcknowledge,
    PendingRefuse
  } pending_e;

  typedef struct packed {
    // Answers count.
    logic                open;
    // The ring of answers: the oldest, and how many there are.
    logic [RingBits-1:0] head;
    logic [RingBits:0]   count;
    // So many of the oldest are dropped instead of sent.
    logic [RingBits:0]   forgotten;
    // Bytes of the oldest that have been sent, and the PSN of its next packet if there are any.
    logic [31:0]         offset;
    psn_t                next;
    pending_e            pending;
    psn_t                psn;
    logic [7:0]          syndrome;
    // The refusal is of the packet after the last response to an original.
    logic                follow;
    psn_t                msn;
    // A request met congestion, which the next packet says.
    logic                marked;
  } state_t;

  typedef struct packed {
    address_t    address;
    logic [31:0] rkey;
    logic [31:0] length;
  } read_t;

  typedef struct packed {
    logic  atomic;
    logic  duplicate;
    psn_t  psn;
    // Of an atomic: the original value in the low bits.
    read_t read;
  } entry_t;

  // A packet of which the check failed.
  typedef struct packed {
    qp_index_t qp;
    logic      duplicate;
    logic      last;
    logic      marked;
    psn_t      psn;
  } failure_t;

  // What differs between the packets that this block sends.
  typedef struct packed {
    qp_index_t      qp;
    opcode_e        opcode;
    psn_t           psn;
    logic           marked;
    logic [7:0]     syndrome;
    psn_t           msn;
    payload_bytes_t bytes;
    target_e        target;
    // An atomic's original value, or the address of the payload.
    logic [63:0]    value;
  } packet_t;

  typedef enum logic [1:0] {
    EventFailure,
    EventControl,
    EventAnswer,
    EventTurn
  } event_e;

  // Clearing of the state after reset; the highest bit says that all is cleared.
  logic [QueuePairBits:0] clear_q;
  logic                   cleared;

  assign cleared = clear_q[QueuePairBits];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_q <= '0;
    else if (!cleared) clear_q <= clear_q + 1'b1;
  end

  // Stages.
  logic valid1_q, valid2_q, valid3_q, valid4_q, valid5_q, valid6_q;
  qp_index_t qp1_q, qp2_q, qp3_q, qp4_q, qp5_q, qp6_q;
  event_e    event1_q;

  // Stage 0: whose event is next.

  logic      turn_valid;
  qp_index_t turn;
  logic      failure_valid;
  failure_t  failure;
  logic      control_matters;
  logic      answer_matters;
  logic      room;
  logic      failure_free;
  logic      take_failure;
  logic      take_control;
  logic      take_answer;
  logic      take_turn;
  logic      take;
  logic      was_answer_q;
  qp_index_t qp0;
  event_e    event0;

  // Whether an event of `qp` has not yet written the state.
  function automatic logic writing(qp_index_t qp);
    return (valid1_q && qp == qp1_q) || (valid2_q && qp == qp2_q) || (valid3_q && qp == qp3_q);
  endfunction

  // Whether a packet of `qp` waits for its grant.
  function automatic logic checking(qp_index_t qp);
    return (valid4_q && qp == qp4_q) || (valid5_q && qp == qp5_q) || (valid6_q && qp == qp6_q);
  endfunction

  assign control_matters = control_i.operation inside {ControlReset, ControlReceive, ControlError};
  assign answer_matters  = answer_i.kind != AnswerNone || answer_i.congestion;

  // All but turns write in stage 1, turns in stage 3: they must not meet.
  logic may_write1;
  assign may_write1 = cleared && !valid2_q;

  // Failures are rare: all turns wait for them, so that nothing overtakes a refusal.
  logic turn_allowed;
  assign turn_allowed = turn_valid && cleared && room && !failure_valid && !writing(turn) && !checking(turn);

  assign take_failure = failure_valid && may_write1 && failure_free && !writing(failure.qp);
  // What was failing must not reach into the time after the change, so all of it is waited for.
  assign take_control = control_valid_i && control_matters && may_write1 && !failure_valid && !writing(
      control_i.qp
  ) && !checking(
      control_i.qp
  );
  // Every other event can be a turn. Whether the turn is held up is not asked: that would be a long path.
  assign take_answer = answer_valid_i && answer_matters && may_write1 && !take_failure && !take_control && !writing(
      answer_qp_i
  ) && !(was_answer_q && turn_valid && room);
  assign take_turn = turn_allowed && !take_failure && !take_control && !take_answer;
  assign take = take_failure || take_control || take_answer || take_turn;

  assign answer_ready_o = take_answer || !answer_matters;
  assign control_ready_o = take_control || !control_matters;

  always_comb begin
    if (take_failure) begin
      qp0 = failure.qp;
      event0 = EventFailure;
    end else if (take_control) begin
      qp0 = control_i.qp;
      event0 = EventControl;
    end else if (take_answer) begin
      qp0 = answer_qp_i;
      event0 = EventAnswer;
    end else begin
      qp0 = turn;
      event0 = EventTurn;
    end
  end

  assign table_read_o  = turn_valid;
  assign table_index_o = turn;

  // Stage 1: the state. All but turns change it now.

  state_t    state;
  state_t    changed;
  logic      write1;
  // The resource is the responder's matter.
  // verilator lint_off UNUSEDSIGNAL
  answer_t   answer_q;
  // verilator lint_on UNUSEDSIGNAL
  logic      last_q;
  logic      receive_q;
  logic      push;
  entry_t    push_entry;
  logic      deferred;
  logic      late;
  logic      gap;
  logic      active1;
  logic      drop1;
  logic      respond1;
  logic      acknowledge1;
  logic      state_write;
  qp_index_t state_write_qp;
  state_t    state_written;

  ram #(
    .T    (state_t),
    .Depth(QueuePairs)
  ) u_state (
    .clk_i,
    .write_i        (state_write),
    .write_address_i(state_write_qp),
    .write_data_i   (state_written),
    .read_i         (take),
    .read_address_i (qp0),
    .read_data_o    (state)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid1_q     <= 1'b0;
      was_answer_q <= 1'b0;
    end else begin
      valid1_q     <= take;
      was_answer_q <= take_answer;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      qp1_q <= qp0;
      event1_q <= event0;
    end
    if (take_answer) answer_q <= answer_i;
    if (take_control) receive_q <= control_i.operation == ControlReceive;
    if (take_failure) begin
      answer_q.psn <= failure.psn;
      answer_q.duplicate <= failure.duplicate;
      answer_q.congestion <= failure.marked;
      last_q <= failure.last;
    end
  end

  assign write1 = valid1_q && event1_q != EventTurn;
  assign late = (state.pending != PendingNone && psn_before(
      answer_q.psn, state.psn
  )) || (state.pending == PendingRefuse && answer_q.duplicate);
  assign gap = state.pending == PendingRefuse && answer_q.syndrome == SyndromeSequenceError;

  always_comb begin
    changed = state;
    push = 1'b0;
    deferred = 1'b0;
    unique case (event1_q)
      EventFailure: begin
        changed.pending = PendingRefuse;
        changed.psn = answer_q.psn;
        changed.syndrome = SyndromeRemoteAccess;
        changed.follow = 1'b0;
        // The packet was not sent, so the mark that it carried has not been either.
        changed.marked = state.marked || answer_q.congestion;
        if (!answer_q.duplicate) begin
          changed.open = 1'b0;
          changed.forgotten = state.count;
        end else if (!last_q) begin
          changed.head   = state.head + 1'b1;
          changed.count  = state.count - 1'b1;
          changed.offset = '0;
        end
      end
      EventControl: begin
        changed.open = receive_q;
        changed.forgotten = state.count;
        changed.pending = PendingNone;
        changed.msn = '0;
        changed.marked = 1'b0;
      end
      EventAnswer: begin
        if (state.open) begin
          changed.marked = state.marked || answer_q.congestion;
          if (answer_q.kind != AnswerNone) changed.msn = answer_q.msn;
        end
        unique case (answer_q.kind)
          AnswerAcknowledge: begin
            if (state.open && !late) begin
              changed.pending = gap ? PendingRefuse : PendingAcknowledge;
              changed.psn = gap ? answer_q.psn + 1'b1 : answer_q.psn;
              changed.syndrome = SyndromeSequenceError;
              changed.follow = 1'b0;
              deferred = state.pending == PendingAcknowledge && !answer_q.duplicate;
            end
          end
          AnswerRefuse: begin
            if (state.open) begin
              changed.pending = PendingRefuse;
              changed.psn = answer_q.psn;
              changed.syndrome = answer_q.syndrome;
              changed.follow = 1'b0;
            end
          end
          AnswerRead, AnswerAtomic: begin
            push = 1'b1;
            changed.count = state.count + 1'b1;
            if (!state.open) begin
              changed.forgotten = state.forgotten + 1'b1;
            end else if (!answer_q.duplicate) begin
              // How many packets the response has is known when it has been cut.
              changed.pending = gap ? PendingRefuse : PendingNone;
              changed.psn = answer_q.psn;
              changed.syndrome = SyndromeSequenceError;
              changed.follow = gap;
              deferred = state.pending == PendingAcknowledge;
            end
          end
          default: ;
        endcase
      end
      default: ;
    endcase
  end

  always_comb begin
    push_entry.atomic = answer_q.kind == AnswerAtomic;
    push_entry.duplicate = answer_q.duplicate;
    push_entry.psn = answer_q.psn;
    if (answer_q.kind == AnswerAtomic) begin
      push_entry.read = read_t'(answer_q.original);
    end else begin
      push_entry.read = '{
          address: answer_q.address[$bits(address_t)-1:0],
          rkey: answer_q.rkey,
          length: answer_q.length
      };
    end
  end

  // There is something to send after the change. As `changed` says too, but known earlier.
  assign active1 = event1_q == EventFailure || state.count != '0
                   || (event1_q == EventAnswer
                       && (state.pending != PendingNone || push
                           || (state.open && answer_q.kind inside {AnswerAcknowledge, AnswerRefuse})));

  assign drop1 = state.forgotten != '0;
  assign respond1 = state.forgotten == '0 && state.count != '0;
  assign acknowledge1 = state.count == '0 && state.pending != PendingNone;

  // Stage 2: the oldest answer of a turn, and what of it is left.

  entry_t        entry;
  state_t        state2_q;
  logic          drop2_q;
  logic          respond2_q;
  logic          acknowledge2_q;
  logic   [ 2:0] path_mtu2_q;
  logic   [15:0] domain2_q;
  logic          turn1;

  assign turn1 = valid1_q && event1_q == EventTurn;

  ram #(
    .T    (entry_t),
    .Depth(QueuePairs * RingDepth),
    .Style("ultra")
  ) u_ring (
    .clk_i,
    .write_i        (write1 && push),
    .write_address_i({qp1_q, state.head + state.count[RingBits-1:0]}),
    .write_data_i   (push_entry),
    .read_i         (turn1),
    .read_address_i ({qp1_q, state.head}),
    .read_data_o    (entry)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid2_q <= 1'b0;
    else valid2_q <= turn1;
  end

  always_ff @(posedge clk_i) begin
    if (turn1) begin
      qp2_q <= qp1_q;
      state2_q <= state;
      drop2_q <= drop1;
      respond2_q <= respond1;
      acknowledge2_q <= acknowledge1;
      path_mtu2_q <= table_data_i.path_mtu;
      domain2_q <= table_data_i.domain;
    end
  end

  // Stage 3: cut off a packet.

  state_t                state3_q;
  // The PSN and the address have been computed from here in stage 2.
  // verilator lint_off UNUSEDSIGNAL
  entry_t                entry3_q;
  // verilator lint_on UNUSEDSIGNAL
  logic                  drop3_q;
  logic                  respond3_q;
  logic                  acknowledge3_q;
  logic           [15:0] domain3_q;
  payload_bytes_t        mtu3_q;
  logic                  begun3_q;
  psn_t                  psn3_q;
  address_t              address3_q;
  logic           [31:0] left3_q;
  state_t                after;
  logic                  last3;
  payload_bytes_t        bytes3;
  packet_t               packet3;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid3_q <= 1'b0;
    else valid3_q <= valid2_q;
  end

  always_ff @(posedge clk_i) begin
    if (valid2_q) begin
      qp3_q <= qp2_q;
      state3_q <= state2_q;
      entry3_q <= entry;
      drop3_q <= drop2_q;
      respond3_q <= respond2_q;
      acknowledge3_q <= acknowledge2_q;
      domain3_q <= domain2_q;
      mtu3_q <= payload_bytes_t'(128) << path_mtu2_q;
      begun3_q <= state2_q.offset != '0;
      psn3_q <= state2_q.offset != '0 ? state2_q.next : entry.psn;
      address3_q <= entry.read.address + address_t'(state2_q.offset);
      left3_q <= entry.read.length - state2_q.offset;
    end
  end

  assign last3  = entry3_q.atomic || left3_q <= 32'(mtu3_q);
  assign bytes3 = left3_q <= 32'(mtu3_q) ? left3_q[$bits(payload_bytes_t)-1:0] : mtu3_q;

  always_comb begin
    after = state3_q;
    if (drop3_q) after.forgotten = state3_q.forgotten - 1'b1;
    if (drop3_q || (respond3_q && last3)) begin
      after.head   = state3_q.head + 1'b1;
      after.count  = state3_q.count - 1'b1;
      after.offset = '0;
    end else if (respond3_q) begin
      after.offset = state3_q.offset + 32'(mtu3_q);
      after.next   = psn3_q + 1'b1;
    end
    if (respond3_q && last3 && state3_q.follow && !entry3_q.duplicate) after.psn = psn3_q + 1'b1;
    if (acknowledge3_q) after.pending = PendingNone;
    if (acknowledge3_q || respond3_q) after.marked = 1'b0;
  end

  always_comb begin
    packet3 = '{
        qp: qp3_q,
        opcode: Acknowledge,
        psn: state3_q.psn,
        marked: state3_q.marked,
        syndrome: SyndromeAck,
        msn: state3_q.msn,
        bytes: '0,
        target: TargetRegister,
        value: 64'(address3_q)
    };
    if (acknowledge3_q) begin
      if (state3_q.pending == PendingRefuse) packet3.syndrome = state3_q.syndrome;
    end else begin
      packet3.psn = psn3_q;
      if (entry3_q.atomic) begin
        packet3.opcode = AtomicAcknowledge;
        packet3.value  = {entry3_q.read.rkey, entry3_q.read.length};
      end else begin
        packet3.bytes = bytes3;
        unique case ({
          begun3_q, last3
        })
          2'b01: packet3.opcode = ReadResponseOnly;
          2'b00: packet3.opcode = ReadResponseFirst;
          2'b10: packet3.opcode = ReadResponseMiddle;
          2'b11: packet3.opcode = ReadResponseLast;
        endcase
      end
    end
  end

  logic checked3;
  // A READ of no bytes needs no permission (clause 9.7.4.1.5).
  assign checked3 = respond3_q && !entry3_q.atomic && left3_q != '0;
  assign check_valid_o = valid3_q && checked3;
  assign check_o = '{
          remote: 1'b1,
          key: entry3_q.read.rkey,
          domain: domain3_q,
          address: 64'(address3_q),
          bytes: 32'(bytes3),
          needs: '{remote_read: 1'b1, default: 1'b0}
      };

  assign state_write = !cleared || write1 || valid3_q;
  always_comb begin
    if (!cleared) begin
      state_write_qp = clear_q[QueuePairBits-1:0];
      state_written  = '0;
    end else if (valid3_q) begin
      state_write_qp = qp3_q;
      state_written  = after;
    end else begin
      state_write_qp = qp1_q;
      state_written  = changed;
    end
  end

  logic scheduler_ready;
  logic scheduler_idle;
  logic unused_ready;

  scheduler u_scheduler (
    .clk_i,
    .rst_ni,
    .ready_o           (scheduler_ready),
    .activate_a_valid_i((write1 && active1) || (valid3_q && (after.count != '0 || after.pending != PendingNone))),
    .activate_a_i      (state_write_qp),
    .activate_b_valid_i(1'b0),
    .activate_b_ready_o(unused_ready),
    .activate_b_i      ('0),
    .turn_valid_o      (turn_valid),
    .turn_ready_i      (take_turn),
    .turn_o            (turn),
    .idle_o            (scheduler_idle)
  );

  // Stages 4 to 6: waiting for the grant.

  packet_t packet4_q, packet5_q, packet6_q;
  // A packet is to be sent; its payload is checked; it comes from the ring, is the last of its answer, which is a
  // duplicate.
  typedef struct packed {
    logic send;
    logic checked;
    logic answer;
    logic last;
    logic duplicate;
  } manner_t;
  manner_t manner3, manner4_q, manner5_q, manner6_q;

  assign manner3 = '{
          send: respond3_q || acknowledge3_q,
          checked: checked3,
          answer: respond3_q || drop3_q,
          last: drop3_q || last3,
          duplicate: entry3_q.duplicate
      };

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid4_q <= 1'b0;
      valid5_q <= 1'b0;
      valid6_q <= 1'b0;
    end else begin
      valid4_q <= valid3_q;
      valid5_q <= valid4_q;
      valid6_q <= valid5_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid3_q) begin
      packet4_q <= packet3;
      manner4_q <= manner3;
    end
    if (valid4_q) begin
      packet5_q <= packet4_q;
      manner5_q <= manner4_q;
    end
    if (valid5_q) begin
      packet6_q <= packet5_q;
      manner6_q <= manner5_q;
    end
  end

  assign qp4_q = packet4_q.qp;
  assign qp5_q = packet5_q.qp;
  assign qp6_q = packet6_q.qp;

  // Stage 6: packet or failure.

  logic    refused;
  logic    send;
  logic    fail;
  packet_t packet6;

  assign refused = manner6_q.checked && grant_i.verdict != AccessGranted;
  assign send = valid6_q && manner6_q.send && !refused;
  assign fail = valid6_q && refused;

  always_comb begin
    packet6 = packet6_q;
    packet6.target = grant_i.target;
  end

  // What is left of an original that failed is forgotten turn by turn.
  assign answered_valid_o = valid6_q && manner6_q.answer && (manner6_q.last || (refused && manner6_q.duplicate));
  assign answered_qp_o = qp6_q;
  assign answered_duplicate_o = manner6_q.duplicate;

  packet_t                     out;
  logic    [$clog2(Credits):0] out_level;
  logic                        unused_out_ready;

  fifo #(
    .T    (packet_t),
    .Depth(Credits)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (send),
    .in_ready_o (unused_out_ready),
    .in_i       (packet6),
    .out_valid_o(transmit_valid_o),
    .out_ready_i(transmit_ready_i),
    .out_o      (out),
    .level_o    (out_level)
  );

  always_comb begin
    transmit_o = '0;
    transmit_o.qp = out.qp;
    transmit_o.opcode = out.opcode;
    transmit_o.psn = out.psn;
    transmit_o.backward_congestion = out.marked;
    transmit_o.swap_or_add = out.value;
    transmit_o.syndrome = out.syndrome;
    transmit_o.msn = out.msn;
    transmit_o.bytes = out.bytes;
    transmit_o.source.target = out.target;
    transmit_o.source_address = out.value[$bits(address_t)-1:0];
  end

  // Room for the packets of turns under way.
  logic [$clog2(Credits):0] used_q;
  logic                     give_back;

  assign room = !used_q[$clog2(Credits)];
  assign give_back = transmit_valid_o && transmit_ready_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) used_q <= '0;
    else used_q <= used_q + (take_turn ? 5'd1 : 5'd0) - (give_back ? 5'd1 : 5'd0) - (valid6_q && !send ? 5'd1 : 5'd0);
  end

  // Failures: turns wait for them, so there are no more than stages.
  logic      [3:0] unused_failures;
  logic            failures_ready;
  logic            fail_valid_q;
  qp_index_t       fail_q;

  fifo #(
    .T    (failure_t),
    .Depth(8)
  ) u_failures (
    .clk_i,
    .rst_ni,
    .in_valid_i(fail),
    .in_ready_o(failures_ready),
    .in_i(
    '{
        qp: qp6_q,
        duplicate: manner6_q.duplicate,
        last: manner6_q.last,
        marked: packet6_q.marked,
        psn: packet6_q.psn
    }
    ),
    .out_valid_o(failure_valid),
    .out_ready_i(take_failure),
    .out_o(failure),
    .level_o(unused_failures)
  );

  assign failure_free = failure.duplicate || !fail_valid_q;
  assign fail_valid_o = fail_valid_q;
  assign fail_o = fail_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) fail_valid_q <= 1'b0;
    else if (take_failure && !failure.duplicate) fail_valid_q <= 1'b1;
    else if (fail_ready_i) fail_valid_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (take_failure && !failure.duplicate) fail_q <= failure.qp;
  end

  always_comb begin
    events_o = '0;
    events_o.ack_deferred = write1 && deferred;
    events_o.sent_access_error = fail;
    events_o.violation_key = fail && grant_i.verdict == AccessUnknownKey;
    events_o.violation_domain = fail && grant_i.verdict == AccessWrongDomain;
    events_o.violation_bounds = fail && grant_i.verdict == AccessOutOfBounds;
    events_o.violation_permission = fail && grant_i.verdict == AccessForbidden;
  end

  assign idle_o = cleared && used_q == '0 && !valid1_q && !failure_valid && !fail_valid_q && scheduler_idle;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(write1 && push && state.count[RingBits]))
      else $error("more answers than resources");
      assert (!(write1 && valid3_q))
      else $error("two events write the state");
      assert (!write1 || active1 == (changed.count != '0 || changed.pending != PendingNone))
      else $error("what is to be sent is not what is said");
      assert (failures_ready || !fail)
      else $error("more failures than stages");
      assert (used_q >= out_level)
      else $error("packets without room");
      assert (!cleared || scheduler_ready)
      else $error("the scheduler is not ready");
      assert (!(valid3_q && respond3_q && !entry3_q.atomic
                && !(mtu3_q inside {13'd256, 13'd512, 13'd1024, 13'd2048, 13'd4096})))
      else $error("path MTU outside 1 to 5");
    end
  end

endmodule
