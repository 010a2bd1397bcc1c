// The sending half of the responder: keeps for each queue pair which answers its peer is owed, and sends them.
//
// Responses to READs and atomics leave first, in the order of the requests; then the one acknowledgement or refusal
// that may be pending. An acknowledgement covers everything before it, so a later acknowledgement replaces an earlier
// one, and a response replaces all pending acknowledgements (InfiniBand volume 1, clauses 9.7.5.1.2 and 9.7.5.1.3).
// There is no other coalescing. Each turn of a queue pair makes one packet, so queue pairs and kinds of answers
// interleave. A READ is cut at the path MTU. Each of its packets is checked again, since the access rights may have
// been revoked. If the check fails, the peer gets a NAK at the PSN of the missing packet, and the queue pair fails,
// unless the READ was a duplicate, for which the requester may no longer wait.
//
// Each responder resource has at most one pending response. A duplicate requests a part of the data of its resource.
// If that reaches to the READ's end, its response replaces the pending one, begun or not: the requester has lost a
// packet of the older response and would drop the others. The progress of other resources is kept. If it ends before
// the READ does, the requester lacks only this part and keeps what it has of the rest: the part is sent next, and all
// pending responses go on behind it. A queue pair has one such part: a later one, or a duplicate that reaches to the
// end, replaces it. With `read_parts_i`, responses tell the requester that it may ask for parts, by the bit of the BTH
// that asks for an acknowledgement in a request. A new request that takes a resource drops the resource's pending
// response, which can only be one to a duplicate. A response is `fresh` until the request has been answered completely
// once, even if a duplicate restarted it.
//
// Answers are processed from ControlReceive until ControlReset, ControlError or a failure. At other times they are
// accepted and dropped, with their pulse of `answered_*`. AnswerNone is ignored. An acknowledgement of a duplicate
// does not replace a refusal. An acknowledgement for a PSN before the pending one changes nothing. An answer that is
// not a refusal and whose syndrome is SyndromeSequenceError belongs to a request with a gap behind it: if a refusal
// is still pending, the refusal's PSN becomes that of the packet after that request. With `report`, such a refusal
// becomes pending in any case. The NAK of a gap says by the bit of the BTH that asks for an acknowledgement in a
// request whether requests behind it are kept.
//
// Latency: 9 cycles from an answer to its first packet if nothing else is pending. Throughput: one event (answer or
// packet) a cycle for different queue pairs; of one queue pair an answer every 2 cycles, a packet every 7. Stalls: an
// answer waits for events of its queue pair in the pipeline, and every other cycle for packets; never for
// `transmit_ready_i` or `fail_ready_i`. After reset the state is cleared, one queue pair a cycle.
//
// Pipeline stages: 0 choose an event; 1 the state is read, answers change and write it; for turns: 1 choose the
// oldest response, 2 read it, 3 cut off a packet, write the state and the remaining response, request the access
// check, 6 the grant arrives: packet or failure. An event waits at the input while an event of its queue pair has not
// written the state (stages 1 to 3). A turn also waits for the grant of the packet before.
module responses
  import weft_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,
  // Responses say that a part of a READ may be requested again.
  input  logic              read_parts_i,
  // Answers to the peers, in order. Each arrives when its data is visible.
  input  logic              answer_valid_i,
  output logic              answer_ready_o,
  input  qp_index_t         answer_qp_i,
  // Only a READ of no bytes can have an address of more than 48 bits.
  // verilator lint_off UNUSEDSIGNAL
  input  answer_t           answer_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic              control_valid_i,
  output logic              control_ready_o,
  // The changes that matter to this block have no argument.
  // verilator lint_off UNUSEDSIGNAL
  input  control_t          control_i,
  // verilator lint_on UNUSEDSIGNAL
  // Read port of the queue pair table: data one cycle after the read.
  output logic              table_read_o,
  output qp_index_t         table_index_o,
  // Only path MTU and domain are read.
  // verilator lint_off UNUSEDSIGNAL
  input  queue_pair_t       table_data_i,
  // verilator lint_on UNUSEDSIGNAL
  // Read port of the region table: the grant three cycles after the request.
  output logic              check_valid_o,
  output access_request_t   check_o,
  // Only verdict and target are read.
  // verilator lint_off UNUSEDSIGNAL
  input  access_grant_t     grant_i,
  // verilator lint_on UNUSEDSIGNAL
  // Congestion notifications to send, interleaved with the responses.
  input  logic              notify_valid_i,
  output logic              notify_ready_o,
  input  qp_index_t         notify_i,
  output logic              transmit_valid_o,
  input  logic              transmit_ready_i,
  output transmit_t         transmit_o,
  // This queue pair's access check failed: its responder must enter ERROR.
  output logic              fail_valid_o,
  input  logic              fail_ready_i,
  output qp_index_t         fail_o,
  // Pulse, exactly one for each READ or atomic: its first response has been sent, abandoned or dropped.
  output logic              answered_valid_o,
  output qp_index_t         answered_qp_o,
  output responses_events_t events_o,
  output logic              idle_o
);

  localparam int unsigned ResourceBits = $clog2(ResponderResources);
  localparam int unsigned QueuePairBits = $bits(qp_index_t);
  // Slots for packets between their turn and the consumer of `transmit_o`.
  localparam int unsigned Credits = 16;
  // Of these, only as many are used as keep the transmit path busy: if a response is lost, all packets behind it are
  // sent in vain.
  localparam int unsigned Waiting = 6;
  // The most congestion notification packets that wait for the consumer of `transmit_o`, in addition to the `Waiting`
  // packets.
  localparam int unsigned Notifications = 8;

  typedef enum logic [1:0] {
    PendingNone,
    PendingAcknowledge,
    PendingRefuse
  } pending_e;

  typedef logic [ResponderResources-1:0] resources_t;

  typedef struct packed {
    // Answers are processed; while this is 0, they are dropped.
    logic                  open;
    // The resources with a pending response, and those of them whose response is fresh.
    resources_t            due;
    resources_t            fresh;
    // A part of a READ is pending.
    logic                  part;
    // Resource of the newest READ or atomic. Walking round the ring from the one behind it leads to the oldest first.
    resource_index_t       newest;
    // Number of fresh responses that were dropped and whose pulse of `answered_*` is still outstanding.
    logic [ResourceBits:0] forgotten;
    pending_e              pending;
    psn_t                  psn;
    logic [7:0]            syndrome;
    logic                  kept;
    psn_t                  msn;
  } state_t;

  typedef struct packed {
    address_t    address;
    logic [31:0] rkey;
    logic [31:0] length;
  } read_t;

  // The remaining part of a response.
  typedef struct packed {
    logic  atomic;
    logic  begun;
    psn_t  psn;
    // For an atomic: the original value in the low bits.
    read_t read;
  } entry_t;

  // A packet whose access check failed.
  typedef struct packed {
    qp_index_t       qp;
    resource_index_t resource;
    logic            fresh;
    logic            part;
    psn_t            psn;
  } failure_t;

  // The fields that differ between the packets of this block.
  typedef struct packed {
    qp_index_t      qp;
    opcode_e        opcode;
    psn_t           psn;
    logic [7:0]     syndrome;
    logic           kept;
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

  // Index of the next state to clear after reset; the highest bit is set when all are cleared.
  logic [QueuePairBits:0] clear_q;
  logic                   cleared;

  assign cleared = clear_q[QueuePairBits];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_q <= '0;
    else if (!cleared) clear_q <= clear_q + 1'b1;
  end

  // Pipeline registers.
  logic valid1_q, valid2_q, valid3_q, valid4_q, valid5_q, valid6_q;
  qp_index_t qp1_q, qp2_q, qp3_q, qp4_q, qp5_q, qp6_q;
  event_e    event1_q;

  // Stage 0: chooses the next event.

  logic      turn_valid;
  qp_index_t turn;
  logic      failure_valid;
  failure_t  failure;
  logic      control_matters;
  logic      answer_matters;
  logic      rare_waits;
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

  // Whether an event of `qp` is in a stage before its write of the state.
  function automatic logic writing(qp_index_t qp);
    return (valid1_q && qp == qp1_q) || (valid2_q && qp == qp2_q) || (valid3_q && qp == qp3_q);
  endfunction

  // Whether a packet of `qp` waits for its access check.
  function automatic logic checking(qp_index_t qp);
    return (valid4_q && qp == qp4_q) || (valid5_q && qp == qp5_q) || (valid6_q && qp == qp6_q);
  endfunction

  assign control_matters = control_i.operation inside {ControlReset, ControlReceive, ControlError};
  assign answer_matters  = answer_i.kind != AnswerNone;

  // Turns write the state in stage 3, all other events in stage 1. The two must not coincide.
  logic may_write1;
  assign may_write1 = cleared && !valid2_q;

  // All turns wait for a pending failure, so that no packet overtakes the refusal. Failures are rare.
  logic turn_allowed;
  assign turn_allowed = turn_valid && cleared && room && !failure_valid && !writing(turn) && !checking(turn);

  assign take_failure = failure_valid && may_write1 && failure_free && !writing(failure.qp);
  // A control waits for all failures, so that no failure from before the control takes effect after it.
  assign take_control = control_valid_i && control_matters && may_write1 && !failure_valid && !writing(
      control_i.qp
  ) && !checking(
      control_i.qp
  );
  // Answers and turns alternate. To keep the path short, this ignores whether a turn has to wait; failures and
  // controls, which are rare, are ignored as well.
  assign rare_waits = failure_valid || (control_valid_i && control_matters);
  assign take_answer = answer_valid_i && answer_matters && may_write1 && !rare_waits && !writing(
      answer_qp_i
  ) && !(was_answer_q && turn_valid && room);
  assign take_turn = turn_allowed && !rare_waits && !take_answer;
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

  // Stage 1: the state has been read. All events except turns change it now.

  state_t    state;
  state_t    changed;
  logic      write1;
  // Only a READ of no bytes can have an address of more than 48 bits.
  // verilator lint_off UNUSEDSIGNAL
  answer_t   answer_q;
  // verilator lint_on UNUSEDSIGNAL
  logic      receive_q;
  logic      push;
  entry_t    push_entry;
  logic      deferred;
  logic      late;
  logic      gap;
  logic      response;
  logic      active1;
  logic      drop1;
  logic      part1;
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
      answer_q.duplicate <= !failure.fresh;
      answer_q.part <= failure.part;
      answer_q.resource <= failure.resource;
    end
  end

  assign write1 = valid1_q && event1_q != EventTurn;
  assign late = (state.pending != PendingNone && psn_before(
      answer_q.psn, state.psn
  )) || (state.pending == PendingRefuse && answer_q.duplicate);
  assign gap = (state.pending == PendingRefuse && answer_q.syndrome == SyndromeSequenceError) || answer_q.report;
  assign response = answer_q.kind == AnswerRead || answer_q.kind == AnswerAtomic;

  // All pending responses are dropped. The dropped fresh responses are reported to the responder later, one in each
  // turn.
  logic                  forget;
  logic [ResourceBits:0] newly_forgotten;
  assign forget = event1_q == EventControl || (event1_q == EventFailure && !answer_q.duplicate);

  always_comb begin
    changed = state;
    push = 1'b0;
    deferred = 1'b0;
    unique case (event1_q)
      EventFailure: begin
        changed.pending = PendingRefuse;
        changed.psn = answer_q.psn;
        changed.syndrome = SyndromeRemoteAccess;
        changed.kept = 1'b0;
        // Meanwhile a new request may have taken the resource of the duplicate.
        if (!answer_q.duplicate) changed.open = 1'b0;
        else if (answer_q.part) changed.part = 1'b0;
        else if (!state.fresh[answer_q.resource]) changed.due[answer_q.resource] = 1'b0;
      end
      EventControl: begin
        changed.open = receive_q;
        changed.pending = PendingNone;
        changed.msn = '0;
      end
      EventAnswer: begin
        if (state.open) begin
          if (answer_q.kind != AnswerNone) changed.msn = answer_q.msn;
        end
        unique case (answer_q.kind)
          AnswerAcknowledge: begin
            if (state.open && !late) begin
              changed.pending = gap ? PendingRefuse : PendingAcknowledge;
              changed.psn = gap ? answer_q.next : answer_q.psn;
              changed.syndrome = SyndromeSequenceError;
              changed.kept = answer_q.kept;
              deferred = state.pending == PendingAcknowledge && !answer_q.duplicate;
            end
          end
          AnswerRefuse: begin
            if (state.open) begin
              changed.pending = PendingRefuse;
              changed.psn = answer_q.psn;
              changed.syndrome = answer_q.syndrome;
              changed.kept = answer_q.kept;
            end
          end
          AnswerRead, AnswerAtomic: begin
            if (state.open) begin
              push = 1'b1;
              if (!answer_q.part) changed.due[answer_q.resource] = 1'b1;
              if (answer_q.duplicate) changed.part = answer_q.part;
            end
            if (state.open && !answer_q.duplicate) begin
              changed.fresh[answer_q.resource] = 1'b1;
              changed.newest = answer_q.resource;
              changed.pending = gap ? PendingRefuse : PendingNone;
              changed.psn = answer_q.next;
              changed.syndrome = SyndromeSequenceError;
              changed.kept = answer_q.kept;
              deferred = state.pending == PendingAcknowledge;
            end
          end
          default: ;
        endcase
      end
      default: ;
    endcase
    if (forget) begin
      changed.due   = '0;
      changed.fresh = '0;
      changed.part  = 1'b0;
    end
    changed.forgotten = state.forgotten + newly_forgotten;
  end

  always_comb begin
    newly_forgotten = '0;
    if (forget) newly_forgotten = (ResourceBits + 1)'($countones(state.fresh));
    else if (event1_q == EventAnswer && response && !answer_q.duplicate && !state.open) newly_forgotten[0] = 1'b1;
  end

  always_comb begin
    push_entry.atomic = answer_q.kind == AnswerAtomic;
    push_entry.begun = 1'b0;
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

  // Something is left to send after the change. The same follows from `changed`, but later in the cycle.
  assign active1 = event1_q == EventFailure || state.forgotten != '0 || state.fresh != '0
                   || (event1_q == EventAnswer
                       && (state.pending != PendingNone || state.due != '0 || state.part
                           || (response && !answer_q.duplicate)
                           || (state.open && (response || answer_q.kind inside {AnswerAcknowledge, AnswerRefuse}))));

  assign drop1 = state.forgotten != '0;
  assign part1 = state.forgotten == '0 && state.part;
  assign respond1 = state.forgotten == '0 && (state.due != '0 || state.part);
  assign acknowledge1 = state.forgotten == '0 && state.due == '0 && !state.part && state.pending != PendingNone;

  // The oldest response: the first pending resource, walking round the ring from the one behind the newest.
  resource_index_t resource1;

  always_comb begin
    resource1 = '0;
    for (int resource = ResponderResources - 1; resource >= 0; resource--) begin
      if (state.due[resource]) resource1 = resource_index_t'(resource);
    end
    for (int resource = ResponderResources - 1; resource >= 0; resource--) begin
      if (state.due[resource] && resource_index_t'(resource) > state.newest) resource1 = resource_index_t'(resource);
    end
  end

  // Stage 2: the remaining part of the response is read.

  entry_t                 due_entry;
  entry_t                 part_entry;
  entry_t                 entry;
  resource_index_t        resource2_q;
  state_t                 state2_q;
  logic                   drop2_q;
  logic                   part2_q;
  logic                   respond2_q;
  logic                   acknowledge2_q;
  logic            [ 2:0] path_mtu2_q;
  logic            [15:0] domain2_q;
  logic                   turn1;
  // The remaining part after stage 3.
  logic                   part3_q;
  logic                   respond3_q;
  logic                   last3;
  resource_index_t        resource3_q;
  entry_t                 left3;

  assign turn1 = valid1_q && event1_q == EventTurn;

  ram #(
    .T    (entry_t),
    .Depth(QueuePairs * ResponderResources),
    .Style("ultra")
  ) u_entries (
    .clk_i,
    .write_i        ((write1 && push && !answer_q.part) || (valid3_q && respond3_q && !part3_q && !last3)),
    .write_address_i(valid3_q ? {qp3_q, resource3_q} : {qp1_q, answer_q.resource}),
    .write_data_i   (valid3_q ? left3 : push_entry),
    .read_i         (turn1),
    .read_address_i ({qp1_q, resource1}),
    .read_data_o    (due_entry)
  );

  ram #(
    .T    (entry_t),
    .Depth(QueuePairs)
  ) u_parts (
    .clk_i,
    .write_i        ((write1 && push && answer_q.part) || (valid3_q && part3_q && !last3)),
    .write_address_i(valid3_q ? qp3_q : qp1_q),
    .write_data_i   (valid3_q ? left3 : push_entry),
    .read_i         (turn1),
    .read_address_i (qp1_q),
    .read_data_o    (part_entry)
  );

  assign entry = part2_q ? part_entry : due_entry;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid2_q <= 1'b0;
    else valid2_q <= turn1;
  end

  always_ff @(posedge clk_i) begin
    if (turn1) begin
      qp2_q <= qp1_q;
      resource2_q <= resource1;
      state2_q <= state;
      drop2_q <= drop1;
      part2_q <= part1;
      respond2_q <= respond1;
      acknowledge2_q <= acknowledge1;
      path_mtu2_q <= table_data_i.path_mtu;
      domain2_q <= table_data_i.domain;
    end
  end

  payload_bytes_t mtu2;
  resources_t     others2;
  logic           other_part2;

  assign mtu2 = payload_bytes_t'(128) << path_mtu2_q;

  always_comb begin
    others2 = state2_q.due;
    if (respond2_q && !part2_q) others2[resource2_q] = 1'b0;
  end
  assign other_part2 = state2_q.part && !part2_q;

  // Stage 3: cut off a packet.

  state_t                state3_q;
  entry_t                entry3_q;
  logic                  fresh3_q;
  // `short`: at most one packet remains. `others`: other responses are pending, or this one if the turn is not used
  // for it.
  logic                  short3_q;
  logic                  others3_q;
  logic                  drop3_q;
  logic                  acknowledge3_q;
  logic           [15:0] domain3_q;
  payload_bytes_t        mtu3_q;
  state_t                after;
  payload_bytes_t        bytes3;
  packet_t               packet3;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid3_q <= 1'b0;
    else valid3_q <= valid2_q;
  end

  always_ff @(posedge clk_i) begin
    if (valid2_q) begin
      qp3_q <= qp2_q;
      resource3_q <= resource2_q;
      state3_q <= state2_q;
      entry3_q <= entry;
      fresh3_q <= !part2_q && state2_q.fresh[resource2_q];
      short3_q <= entry.read.length <= 32'(mtu2);
      others3_q <= others2 != '0 || other_part2;
      drop3_q <= drop2_q;
      part3_q <= part2_q;
      respond3_q <= respond2_q;
      acknowledge3_q <= acknowledge2_q;
      domain3_q <= domain2_q;
      mtu3_q <= mtu2;
    end
  end

  assign last3  = entry3_q.atomic || short3_q;
  assign bytes3 = short3_q ? entry3_q.read.length[$bits(payload_bytes_t)-1:0] : mtu3_q;

  always_comb begin
    left3 = entry3_q;
    left3.begun = 1'b1;
    left3.psn = entry3_q.psn + 1'b1;
    // The low 8 bits do not change, since every path MTU is a multiple of 256 bytes.
    left3.read.address[$bits(address_t)-1:8] = entry3_q.read.address[$bits(address_t)-1:8] + 40'(mtu3_q[12:8]);
    left3.read.length[31:8] = entry3_q.read.length[31:8] - 24'(mtu3_q[12:8]);
  end

  always_comb begin
    after = state3_q;
    if (drop3_q) after.forgotten = state3_q.forgotten - 1'b1;
    if (part3_q && last3) begin
      after.part = 1'b0;
    end else if (respond3_q && last3) begin
      after.due[resource3_q]   = 1'b0;
      after.fresh[resource3_q] = 1'b0;
    end
    if (acknowledge3_q) after.pending = PendingNone;
  end

  always_comb begin
    packet3 = '{
        qp: qp3_q,
        opcode: Acknowledge,
        psn: state3_q.psn,
        syndrome: SyndromeAck,
        kept: 1'b0,
        msn: state3_q.msn,
        bytes: '0,
        target: TargetRegister,
        value: 64'(entry3_q.read.address)
    };
    if (acknowledge3_q) begin
      if (state3_q.pending == PendingRefuse) begin
        packet3.syndrome = state3_q.syndrome;
        packet3.kept = state3_q.kept;
      end
    end else begin
      packet3.psn = entry3_q.psn;
      if (entry3_q.atomic) begin
        packet3.opcode = AtomicAcknowledge;
        packet3.value  = {entry3_q.read.rkey, entry3_q.read.length};
      end else begin
        packet3.bytes = bytes3;
        unique case ({
          entry3_q.begun, last3
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
  // A READ of no bytes needs no access rights (clause 9.7.4.1.5).
  assign checked3 = respond3_q && !entry3_q.atomic && entry3_q.read.length != '0;
  assign check_valid_o = valid3_q && checked3;
  assign check_o = '{
          remote: 1'b1,
          key: entry3_q.read.rkey,
          domain: domain3_q,
          address: 64'(entry3_q.read.address),
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

  logic active3;
  // Something is left to send. The same follows from `after`, but later in the cycle.
  always_comb begin
    active3 = respond3_q && (!last3 || others3_q || state3_q.pending != PendingNone);
    if (drop3_q) active3 = state3_q.forgotten[ResourceBits:1] != '0 || others3_q || state3_q.pending != PendingNone;
  end

  logic scheduler_ready;
  logic scheduler_idle;
  logic unused_ready;

  scheduler u_scheduler (
    .clk_i,
    .rst_ni,
    .ready_o           (scheduler_ready),
    .activate_a_valid_i((write1 && active1) || (valid3_q && active3)),
    .activate_a_i      (state_write_qp),
    .activate_b_valid_i(1'b0),
    .activate_b_ready_o(unused_ready),
    // This input is unused. It gets the same index as input a, so that the scheduler's selection between the two
    // costs no logic.
    .activate_b_i      (state_write_qp),
    .turn_valid_o      (turn_valid),
    .turn_ready_i      (take_turn),
    .turn_o            (turn),
    .idle_o            (scheduler_idle)
  );

  // Stages 4 to 6: waiting for the grant.

  packet_t packet4_q, packet5_q, packet6_q;
  // `send`: there is a packet to send. `checked`: its payload needs the grant. `fresh`: it belongs to a fresh
  // response. `answered`: it completes the answer to a request, or reports a dropped fresh response.
  typedef struct packed {
    logic            send;
    logic            checked;
    logic            fresh;
    logic            answered;
    logic            part;
    resource_index_t resource;
  } manner_t;
  manner_t manner3, manner4_q, manner5_q, manner6_q;

  assign manner3 = '{
          send: respond3_q || acknowledge3_q,
          checked: checked3,
          fresh: fresh3_q,
          answered: drop3_q || (respond3_q && last3 && fresh3_q),
          part: part3_q,
          resource: resource3_q
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
  logic    notifies;
  logic    fail;
  packet_t packet6;

  assign refused = manner6_q.checked && grant_i.verdict != AccessGranted;
  assign send = valid6_q && manner6_q.send && !refused;
  assign fail = valid6_q && refused;

  always_comb begin
    packet6 = packet6_q;
    packet6.target = grant_i.target;
    if (!valid6_q) begin
      packet6 = '0;
      packet6.qp = notify_i;
      packet6.opcode = CongestionNotification;
    end
  end

  // The rest of a failed fresh response is dropped and reported in later turns.
  assign answered_valid_o = valid6_q && manner6_q.answered;
  assign answered_qp_o = qp6_q;

  packet_t                       out;
  logic    [$clog2(Credits)+1:0] out_level;
  logic                          unused_out_ready;

  fifo #(
    .T    (packet_t),
    .Depth(2 * Credits)
  ) u_out (
    .clk_i,
    .rst_ni,
    .in_valid_i (send || notifies),
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
    transmit_o.acknowledge_request = out.kept || (read_parts_i
        && out.opcode inside {ReadResponseFirst, ReadResponseMiddle, ReadResponseLast, ReadResponseOnly,
        AtomicAcknowledge});
    transmit_o.swap_or_add = out.value;
    transmit_o.syndrome = out.syndrome;
    transmit_o.msn = out.msn;
    transmit_o.bytes = out.bytes;
    transmit_o.source.target = out.target;
    transmit_o.source_address = out.value[$bits(address_t)-1:0];
  end

  // Reserves slots for the packets of turns in the pipeline.
  logic [      $clog2(Credits):0] used_q;
  logic                           give_back;
  logic                           leaves;
  logic [$clog2(Notifications):0] notified_q;

  assign room = used_q < 5'(Waiting);
  assign leaves = transmit_valid_o && transmit_ready_i;
  assign give_back = leaves && out.opcode != CongestionNotification;
  // A notification leaves when stage 6 has no response, which happens every few cycles: the turns cannot exceed the
  // wire's rate for long.
  assign notify_ready_o = !valid6_q && !notified_q[$clog2(Notifications)];
  assign notifies = notify_valid_i && notify_ready_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) notified_q <= '0;
    else notified_q <= notified_q + 4'(notifies) - 4'(leaves && !give_back);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) used_q <= '0;
    else used_q <= used_q + (take_turn ? 5'd1 : 5'd0) - (give_back ? 5'd1 : 5'd0) - (valid6_q && !send ? 5'd1 : 5'd0);
  end

  // Failures. Turns wait for them, so there are never more failures than stages.
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
    '{qp: qp6_q, resource: manner6_q.resource, fresh: manner6_q.fresh, part: manner6_q.part, psn: packet6_q.psn}
    ),
    .out_valid_o(failure_valid),
    .out_ready_i(take_failure),
    .out_o(failure),
    .level_o(unused_failures)
  );

  assign failure_free = !failure.fresh || !fail_valid_q;
  assign fail_valid_o = fail_valid_q;
  assign fail_o = fail_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) fail_valid_q <= 1'b0;
    else if (take_failure && failure.fresh) fail_valid_q <= 1'b1;
    else if (fail_ready_i) fail_valid_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (take_failure && failure.fresh) fail_q <= failure.qp;
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

  assign idle_o = cleared && used_q == '0 && notified_q == '0 && !valid1_q && !failure_valid && !fail_valid_q
      && scheduler_idle;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(write1 && push && !answer_q.duplicate && state.fresh[answer_q.resource]))
      else $error("a new request takes the resource of one that has not been answered");
      assert (!state_write || (state_written.fresh & ~state_written.due) == '0)
      else $error("a fresh response that is not due");
      assert (!state_write || 32'(state_written.forgotten) + $countones(state_written.fresh) <= ResponderResources)
      else $error("more fresh responses than resources");
      assert (!(valid3_q && respond3_q) || (part3_q ? state3_q.part : state3_q.due[resource3_q]))
      else $error("a response that is not due");
      assert (!(write1 && event1_q == EventAnswer && answer_q.part)
              || (answer_q.duplicate && answer_q.kind == AnswerRead))
      else $error("a part of what was not asked for before");
      assert (!valid3_q || active3 == (after.forgotten != '0 || after.due != '0 || after.part
                                       || after.pending != PendingNone))
      else $error("what is left to send is not what is said");
      assert (!(write1 && valid3_q))
      else $error("two events write the state");
      assert (!write1 || active1 == (changed.forgotten != '0 || changed.due != '0 || changed.part
                                     || changed.pending != PendingNone))
      else $error("what is to be sent is not what is said");
      assert (failures_ready || !fail)
      else $error("more failures than stages");
      assert (6'(used_q) + 6'(notified_q) >= out_level)
      else $error("packets without room");
      assert (!cleared || scheduler_ready)
      else $error("the scheduler is not ready");
      assert (!(valid3_q && respond3_q && !entry3_q.atomic
                && !(mtu3_q inside {13'd256, 13'd512, 13'd1024, 13'd2048, 13'd4096})))
      else $error("path MTU outside 1 to 5");
    end
  end

endmodule
