// The requester of all queue pairs: makes request packets from work requests, and evaluates responses and
// acknowledgements.
//
// One pipeline of seven stages processes all events of all queue pairs: a turn to send, a response or
// acknowledgement, a time-out, a command, a query. The send queue holds the posted requests in the order of their
// PSNs. A cursor points at the next packet to send. Going back N means moving the cursor back to the oldest
// unacknowledged packet. The request of that packet is not known at that moment. Therefore the cursor's serial number
// is set to that of the oldest request that has not completed (`resync`), and the next turns skip the requests that
// end before the cursor. An acknowledgement that overtakes the cursor is handled in the same way, so neither case
// needs a search.
//
// Latency: 8 cycles from an event to its packet, verdict and activation. Throughput: one event a cycle; events of one
// queue pair follow each other every 8 cycles, since an event waits while another event of its queue pair is in the
// pipeline. Order: headers stay in order, and so do verdicts; all events of one queue pair stay in order. Commands
// have the highest priority, then queries and time-outs; headers and turns alternate. Stalls: all inputs while the
// verdict queue might not have room for the events in flight; turns also while packets might not; the region check
// never stalls. After reset the states are cleared, one a cycle, until `ready_o` is high.
//
// A missing response need not cost those behind it, if the peer says that it answers for a part of a READ without
// ending its answer to the whole (`acknowledge_request` in a response). Then responses behind the missing one are
// stored, too, if an earlier READ with missing responses does not write to the same memory, and `early` notes which.
// The missing ones in front of the first of these are requested alone (`repair`). When the oldest response arrives and
// others are here, a further event (`EventTake`) counts them as received, those of one READ at a time, and then
// requests what is missing next. No other event of the queue pair is processed in between. What was stored stays when
// the requester goes back N: no response is stored twice.
//
// In the same way, a lost request need not cost those behind it, if the peer keeps them and says so in its NAK (the
// same bit): only the oldest unacknowledged packet is sent again. Its request is found like that of the cursor.
//
// Payload from the host's memory is retransmitted from the retransmission buffer (BALBOA 4.2): its first transmission
// stores a copy in the slot of its queue pair and PSN. The window ensures that outstanding PSNs with payload use
// different slots, that is, differ modulo the number of slots.
//
// Sources: InfiniBand volume 1, clauses 9.7.5 (responses), 9.7.6 (retries), 9.7.8 (ordering, READ resources), 9.9.2
// (faults).
module requester
  import weft_pkg::*;
  import requester_pkg::*;
#(
  parameter logic        [15:0] PartitionKey        = 16'hffff,
  parameter int unsigned        AcknowledgeInterval = 16,
  parameter bit                 AdditiveIncrease    = 1'b0,
  parameter int unsigned        WindowLimit         = WindowPackets
) (
  input  logic    clk_i,
  input  logic    rst_ni,
  output logic    ready_o,
  input  cycles_t now_i,

  // Events.
  input  logic             turn_valid_i,
  output logic             turn_ready_o,
  input  qp_index_t        turn_i,
  // Rate control allows no packet in this turn. It activates the queue pair again when it allows the next packet.
  input  logic             turn_blocked_i,
  input  logic             header_valid_i,
  output logic             header_ready_o,
  // Responses do not have a request's header fields.
  // verilator lint_off UNUSEDSIGNAL
  input  roce_header_t     header_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic             expired_valid_i,
  output logic             expired_ready_o,
  input  qp_index_t        expired_i,
  // ControlReset, ControlSend or ControlError. Done is a pulse when the command has taken effect.
  input  logic             command_valid_i,
  output logic             command_ready_o,
  input  control_t         command_i,
  output logic             command_done_o,
  input  logic             query_valid_i,
  input  qp_index_t        query_index_i,
  output logic             query_done_o,
  output requester_query_t query_o,

  // Read ports: data after 1 cycle.
  output logic         table_read_o,
  output qp_index_t    table_index_o,
  // The other attributes are for the responder and the transmit path.
  // verilator lint_off UNUSEDSIGNAL
  input  queue_pair_t  table_data_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic         ends_read_o,
  output qp_index_t    ends_index_o,
  input  send_serial_t ends_head_i,
  // The flag `open` is only used for posts.
  // verilator lint_off UNUSEDSIGNAL
  input  send_tail_t   ends_tail_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic         plan_read_o,
  output qp_index_t    plan_index_o,
  output send_serial_t plan_serial_o,
  input  send_plan_t   plan_i,
  output logic         wait_read_o,
  output send_serial_t wait_serial_o,
  input  send_wait_t   wait_i,
  output logic         wire_read_o,
  output qp_index_t    wire_index_o,
  output send_serial_t wire_serial_o,
  input  send_wire_t   wire_i,

  // The region table: the grant three cycles after the request.
  output logic            check_valid_o,
  output access_request_t check_o,
  // A requester calls no engine, so the grant's RPC fields are unused.
  // verilator lint_off UNUSEDSIGNAL
  input  access_grant_t   grant_i,
  // verilator lint_on UNUSEDSIGNAL

  // Outputs.
  output logic       activate_valid_o,
  output qp_index_t  activate_o,
  output logic       timer_set_o,
  output qp_index_t  timer_index_o,
  output logic       timer_armed_o,
  output cycles_t    timer_deadline_o,
  output logic       verdict_valid_o,
  input  logic       verdict_ready_i,
  output placement_t verdict_o,
  output logic       transmit_valid_o,
  input  logic       transmit_ready_i,
  output transmit_t  transmit_o,
  output logic       fail_valid_o,
  input  logic       fail_ready_i,
  output qp_index_t  fail_o,

  // Pulses: a marked packet (or a notification) arrived for the queue pair `congested_qp_o`.
  output logic                 marked_o,
  output logic                 notified_o,
  output qp_index_t            congested_qp_o,
  // Pulse: this packet was made. It is sent later, in order.
  output logic                 sent_o,
  output requester_packet_t    sent_packet_o,
  output request_side_events_t events_o,
  output logic                 idle_o
);

  localparam int unsigned IndexBits = $bits(qp_index_t);
  // The value of `rnr_retry` that means "no limit".
  localparam logic [2:0] RnrRetryWithoutLimit = 3'd7;

  typedef enum logic [1:0] {
    WaitNothing,
    WaitAcknowledgement,
    WaitReceiverReady
  } wait_e;

  typedef enum logic [2:0] {
    EventTurn,
    EventHeader,
    EventTake,
    EventTimeOut,
    EventCommand,
    EventQuery
  } event_e;

  // A response is stored out of order only if it comes fewer PSNs than this behind the oldest missing one.
  localparam int unsigned EarlyResponses = 64;
  localparam int unsigned EarlyBits = $clog2(EarlyResponses);
  typedef logic [EarlyResponses-1:0] early_t;
  // A distance up to `EarlyResponses`.
  typedef logic [EarlyBits:0] early_count_t;

  // The requester's state of one queue pair.
  typedef struct packed {
    requester_state_e state;
    // PSN of the next packet to send, and the serial number of its request. While `resync`, the serial number may be
    // that of an earlier request.
    psn_t             cursor;
    send_serial_t     cursor_serial;
    logic             resync;
    // The first packet of the request at the cursor has been sent.
    logic             begun;
    // The oldest PSN that is not acknowledged.
    psn_t             unacknowledged;
    // One past the highest PSN ever sent.
    psn_t             sent;
    // The ring of READs and atomics that have been sent and not completed: their number, the ring's first index, and
    // for the oldest one its serial number and the PSN of its next response.
    logic [4:0]       awaited;
    resource_index_t  awaited_first;
    send_serial_t     response_serial;
    psn_t             response;
    // Whether the response with PSN `response` + N has been stored. That of bit 0 is to be taken; so it is clear in
    // all events but `EventTake`.
    early_t           early;
    // The oldest unacknowledged packet is to be sent again, alone: for a READ, the missing responses in front of the
    // first early one are requested. Whether this is the first time, and the serial number of its request, or of an
    // earlier one.
    logic             repair;
    logic             repair_first;
    send_serial_t     repair_serial;
    // `implied`: a missing response for which the requester has already gone back. `witness`: the first response
    // behind the gap that arrived after that. If the witness arrives again, the missing response, which was requested
    // before it, has been lost once more.
    logic             implied_valid;
    psn_t             implied;
    logic             witness_valid;
    psn_t             witness;
    logic [2:0]       retries;
    logic [2:0]       rnr_retries;
    wait_e            timer;
    cycles_t          deadline;
    // The timer runs for the whole time-out of the attributes, and not for the shorter measured time-out.
    logic             whole;
    // One past the last packet, since the requester last went back, for which an answer was requested.
    psn_t             asked;
    // Packets sent since the last one that requested an acknowledgement.
    logic [6:0]       since_request;
    // The request at the cursor cannot be executed. It fails when all requests before it have completed. The field
    // below is its first PSN.
    logic             failed;
    psn_t             failed_first;
    logic [6:0]       window;
    logic [7:0]       window_acknowledged;
  } state_t;

  // The header fields that travel through the pipeline.
  typedef struct packed {
    logic        notification;
    logic        acknowledge;
    // The peer needs only what is missing: it answers for a part of a READ without ending its answer to the whole, or
    // keeps the requests behind a gap.
    logic        selective;
    logic        atomic;
    logic        marked;
    psn_t        psn;
    logic [7:0]  syndrome;
    logic [6:0]  offset;
    logic [12:0] bytes;
  } answer_header_t;

  // The attributes that travel through the pipeline.
  typedef struct packed {
    logic [15:0] domain;
    logic [2:0]  path_mtu;
    logic [4:0]  max_rd_atomic;
    logic [4:0]  timeout;
    logic [2:0]  retry_count;
    logic [2:0]  rnr_retry;
  } attributes_t;

  // Index of the next state to clear after reset; the highest bit is set when all are cleared.
  logic [IndexBits:0] clear_q;

  assign ready_o = clear_q[IndexBits];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_q <= '0;
    else if (!ready_o) clear_q <= clear_q + 1'b1;
  end

  // Stage 0: accepts one event whose queue pair is not in the pipeline. The queue pair's state and attributes and its
  // queue's head and tail are read.

  localparam int unsigned Stages = 7;
  localparam int unsigned OutputDepth = 32;
  // Output slots that must be free before an event enters: one for itself, one for each event in flight, and one
  // because the level is that of the previous cycle.
  localparam int unsigned Reserve = Stages + 2;
  // The limit for packets that wait or are in the pipeline when a turn enters.
  localparam int unsigned TransmitDepth = 5;

  logic      [Stages:1] valid_q;
  // The valid stages that hold a turn.
  logic      [Stages:1] turns_q;
  qp_index_t [Stages:1] qp_q;
  logic      [     5:0] verdict_level;
  logic      [     5:0] transmit_level;
  logic      [     5:0] fail_level;
  logic                 room;
  logic                 room_q;
  // Whether takes wait: `take_valid`, from a register, because it is in front of the longest paths.
  logic                 take_waits_q;
  logic                 take_valid;
  logic                 take_enters7;
  logic      [     3:0] take_level;
  qp_index_t            take_qp;
  logic                 transmit_room;
  logic      [     5:0] transmit_used;
  logic                 transmit_room_q;
  logic                 transmit_tight_q;
  event_e               event1_q;
  logic                 blocked1_q;
  logic                 query_wanted_q;
  logic                 query_busy_q;
  qp_index_t            query_index_q;
  logic                 header_turn_q;
  qp_index_t            header_qp;
  logic                 header_free;
  logic                 turn_free;
  logic                 turn_waits;
  logic                 expired_free;
  logic                 command_free;
  logic                 query_free;
  logic                 enter;
  event_e               enter_event;
  qp_index_t            enter_qp;

  // Whether no event of this queue pair is in the pipeline.
  function automatic logic free(qp_index_t qp, logic [Stages:1] valids, qp_index_t [Stages:1] qps);
    free = 1'b1;
    for (int stage = 1; stage <= Stages; stage++) begin
      if (valids[stage] && qps[stage] == qp) free = 1'b0;
    end
  endfunction

  assign header_qp = header_i.destination_qp[IndexBits-1:0];
  // What was stored early is taken before any other event enters.
  assign room = ready_o && room_q && !take_waits_q;
  // Only as many packets are made in advance as keep the transmit path busy: if a packet is lost, all that wait
  // behind it are sent in vain. The comparisons are registered and thus describe the previous cycle. If a turn has
  // entered since (`turns_q[1]`), the comparison with the lower limit applies.
  assign transmit_used = transmit_level + 6'($countones(turns_q));
  assign transmit_room = turns_q[1] ? !transmit_tight_q : transmit_room_q;
  assign command_free = command_valid_i && room && free(command_i.qp, valid_q, qp_q);
  assign query_free = query_wanted_q && room && free(query_index_q, valid_q, qp_q);
  assign expired_free = expired_valid_i && room && free(expired_i, valid_q, qp_q);
  assign header_free = header_valid_i && room && free(header_qp, valid_q, qp_q);
  assign turn_free = turn_valid_i && room && transmit_room && free(turn_i, valid_q, qp_q);
  // This does not test whether the turn's queue pair is free, to keep the path short. If it is not free, a header
  // waits one cycle in vain.
  assign turn_waits = turn_valid_i && transmit_room;

  always_comb begin
    enter = 1'b1;
    enter_event = EventCommand;
    enter_qp = command_i.qp;
    if (take_waits_q) begin
      enter = room_q;
      enter_event = EventTake;
      enter_qp = take_qp;
    end else if (command_free) begin
      // The defaults above are those of a command.
    end else if (query_free) begin
      enter_event = EventQuery;
      enter_qp = query_index_q;
    end else if (expired_free) begin
      enter_event = EventTimeOut;
      enter_qp = expired_i;
    end else if (header_free && (header_turn_q || !turn_waits)) begin
      enter_event = EventHeader;
      enter_qp = header_qp;
    end else if (turn_free) begin
      enter_event = EventTurn;
      enter_qp = turn_i;
    end else begin
      enter = 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    room_q <= verdict_level < 6'(OutputDepth - Reserve) && fail_level < 6'(OutputDepth - Reserve);
    transmit_room_q <= transmit_used < 6'(TransmitDepth);
    transmit_tight_q <= transmit_used >= 6'(TransmitDepth - 1);
  end

  assign command_ready_o = enter && enter_event == EventCommand;
  assign expired_ready_o = enter && enter_event == EventTimeOut;
  // The same as `enter && enter_event == EventHeader`, with fewer levels of logic.
  assign header_ready_o = header_free && (header_turn_q || !turn_waits)
      && !command_free && !query_free && !expired_free;
  assign turn_ready_o = enter && enter_event == EventTurn;

  assign table_read_o = enter;
  assign table_index_o = enter_qp;
  assign ends_read_o = enter;
  assign ends_index_o = enter_qp;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q        <= '0;
      turns_q        <= '0;
      header_turn_q  <= 1'b0;
      query_wanted_q <= 1'b0;
      query_busy_q   <= 1'b0;
    end else begin
      // A query ends in stage 1.
      valid_q <= {valid_q[Stages-1:2], valid_q[1] && event1_q != EventQuery, enter};
      turns_q <= {turns_q[Stages-1:1], turn_ready_o};
      header_turn_q <= !header_ready_o;
      if (query_valid_i && !query_busy_q && !query_done_o) begin
        query_wanted_q <= 1'b1;
        query_busy_q   <= 1'b1;
      end else begin
        if (enter && enter_event == EventQuery) query_wanted_q <= 1'b0;
        if (query_done_o) query_busy_q <= 1'b0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (query_valid_i && !query_busy_q) query_index_q <= query_index_i;
    if (enter) qp_q[1] <= enter_qp;
    for (int stage = 2; stage <= Stages; stage++) begin
      if (valid_q[stage-1]) qp_q[stage] <= qp_q[stage-1];
    end
  end

  function automatic state_t cleared();
    cleared = '0;
    cleared.window = 7'(WindowLimit);
  endfunction

  // The index of the lowest bit that is set, or the number of bits.
  function automatic early_count_t lowest(early_t bits);
    logic [EarlyResponses/8-1:0] bytes;
    logic [       EarlyBits-4:0] byte_index = '0;
    logic [                 7:0] eight;
    logic [                 2:0] index = '0;
    for (int part = 0; part < EarlyResponses / 8; part++) bytes[part] = bits[8*part+:8] != '0;
    for (int part = EarlyResponses / 8 - 1; part >= 0; part--) if (bytes[part]) byte_index = (EarlyBits - 3)'(part);
    eight = bits[8*byte_index+:8];
    for (int part = 7; part >= 0; part--) if (eight[part]) index = 3'(part);
    return bytes == '0 ? early_count_t'(EarlyResponses) : {1'b0, byte_index, index};
  endfunction

  state_t state1;
  state_t state_write;
  logic   write7;

  ram #(
    .T    (state_t),
    .Depth(QueuePairs)
  ) u_states (
    .clk_i,
    .write_i        (write7 || !ready_o),
    .write_address_i(ready_o ? qp_q[7] : clear_q[IndexBits-1:0]),
    .write_data_i   (ready_o ? state_write : cleared()),
    .read_i         (enter),
    .read_address_i (enter_qp),
    .read_data_o    (state1)
  );

  // Original values of atomics, in a ring indexed by time. This works because the pipeline never stalls.
  logic [ 2:0] step_q;
  (* ram_style = "distributed" *)
  logic [63:0] original[8];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) step_q <= '0;
    else step_q <= step_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (header_ready_o) original[step_q] <= header_i.swap_or_add;
  end

  // Stage 1: the state has been read. Distances from the oldest unacknowledged PSN are computed, and a request is
  // read: for a turn the one at the cursor, for a header the one that the response belongs to, and else the one that
  // the oldest missing response belongs to.

  control_t                                command1_q;
  answer_header_t                          header1_q;
  qpn_t                                    destination1_q;
  logic           [                  15:0] partition1_q;
  ipv4_address_t                           source1_q;
  send_serial_t                            start1;
  send_serial_t                            serial1;
  // Only the sign bit is read.
  // verilator lint_off UNUSEDSIGNAL
  send_serial_t                            lag1;
  // verilator lint_on UNUSEDSIGNAL
  logic                                    repair1;
  send_serial_t                            found_serial1;
  send_serial_t                            second_serial1;
  psn_t                                    second_first1;
  logic           [ResponderResources-1:0] earlier1;

  always_ff @(posedge clk_i) begin
    if (enter) begin
      event1_q   <= enter_event;
      blocked1_q <= turn_blocked_i;
      command1_q <= command_i;
    end
    if (header_ready_o) begin
      header1_q.notification <= header_i.opcode == CongestionNotification;
      header1_q.acknowledge <= header_i.opcode == Acknowledge;
      header1_q.selective <= header_i.acknowledge_request;
      header1_q.atomic <= header_i.opcode == AtomicAcknowledge;
      header1_q.marked <= header_i.marked && header_i.opcode != CongestionNotification;
      header1_q.psn <= header_i.psn;
      header1_q.syndrome <= header_i.syndrome;
      header1_q.offset <= header_i.opcode == AtomicAcknowledge ? 7'd127 : header_i.payload_offset;
      header1_q.bytes <= header_i.opcode == AtomicAcknowledge ? 13'd8 : header_i.payload_bytes;
      destination1_q <= header_i.destination_qp;
      partition1_q <= header_i.partition_key;
      source1_q <= header_i.source;
    end
  end

  assign repair1 = event1_q == EventTurn && state1.repair;
  assign start1 = repair1 ? state1.repair_serial : state1.cursor_serial;
  assign lag1 = ends_head_i - start1;
  // A search starts at the queue's head if the head is past the serial number, because requests before the head may
  // have been overwritten.
  assign serial1 = (repair1 || state1.resync) && !lag1[$bits(send_serial_t)-1] ? ends_head_i : start1;

  assign plan_read_o = valid_q[1];
  assign plan_index_o = qp_q[1];
  always_comb begin
    plan_serial_o = state1.response_serial;
    if (event1_q == EventTurn) plan_serial_o = serial1;
    else if (event1_q == EventHeader) plan_serial_o = found_serial1;
  end
  assign wait_read_o   = valid_q[1];
  assign wait_serial_o = event1_q == EventTurn ? serial1 + 1'b1 : serial1;

  // Reasons to drop a packet that do not depend on PSNs, in the order of the checks.
  logic unknown1;
  logic partition1;
  logic wrong_state1;
  logic wrong_source1;

  // The specification reserves the lowest queue pair numbers: an entry with such a number is unused.
  assign unknown1 = table_data_i.number != destination1_q || destination1_q[23:$bits(qp_index_t)] == '0;
  // Keys match if their low 15 bits are equal and at least one of the two has full membership (clause 10.9.3).
  assign partition1 = !header1_q.notification
      && (partition1_q[14:0] != PartitionKey[14:0] || !(partition1_q[15] || PartitionKey[15]));
  assign wrong_state1 = !header1_q.notification && state1.state != RequesterReady;
  assign wrong_source1 = table_data_i.destination != source1_q;

  logic query_done_q;

  assign query_done_o = query_done_q;

  always_ff @(posedge clk_i) begin
    query_done_q <= rst_ni && valid_q[1] && event1_q == EventQuery;
    if (valid_q[1] && event1_q == EventQuery) begin
      query_o.state <= state1.state;
      query_o.next_psn <= state1.state == RequesterReady ? state1.cursor : ends_tail_i.next_psn;
      query_o.queued <= ends_tail_i.tail - ends_head_i;
      query_o.window <= state1.window;
    end
  end

  // Data of an event that is used in all stages from the second on.
  typedef struct packed {
    event_e         kind;
    control_t       command;
    answer_header_t header;
    attributes_t    attributes;
    state_t         state;
    send_serial_t   head;
    send_serial_t   tail;
    send_serial_t   serial;
  } common_t;

  common_t common2_q;
  common_t common3_q;
  common_t common4_q;
  common_t common5_q;
  common_t common6_q;
  // Synthesis removes the fields that this stage does not read.
  // verilator lint_off UNUSEDSIGNAL
  common_t common7_q;
  // verilator lint_on UNUSEDSIGNAL

  typedef struct packed {
    // Distances from the oldest unacknowledged PSN.
    psn_t psn;
    psn_t sent;
    psn_t response;
    psn_t cursor;
    psn_t failed;
    psn_t implied;
    psn_t asked;
  } distances_t;

  distances_t                            distances2_q;
  distances_t                            distances3_q;
  distances_t                            distances4_q;
  // Synthesis removes the fields that this stage does not read.
  // verilator lint_off UNUSEDSIGNAL
  distances_t                            distances5_q;
  // verilator lint_on UNUSEDSIGNAL
  logic                                  live2_q;
  logic                                  unknown2_q;
  logic                                  partition2_q;
  logic                                  wrong_state2_q;
  logic                                  wrong_source2_q;
  logic                                  exists2_q;
  logic                                  blocked2_q;
  logic                                  sent_before2_q;
  logic                                  response_before2_q;
  logic                                  expired2_q;
  psn_t                                  base2_q;
  logic                                  repair2_q;
  // From the oldest missing response to this one.
  psn_t                                  ahead2_q;
  logic         [ResponderResources-1:0] earlier2_q;
  // Of the request behind the oldest one that is awaited: its serial number, and the distance of its first response
  // from the oldest missing one.
  send_serial_t                          second_serial2_q;
  psn_t                                  second_first2_q;

  always_ff @(posedge clk_i) begin
    if (valid_q[1]) begin
      common2_q.kind <= event1_q;
      common2_q.command <= command1_q;
      common2_q.header <= header1_q;
      common2_q.attributes <= '{
          domain: table_data_i.domain,
          path_mtu: table_data_i.path_mtu,
          max_rd_atomic: table_data_i.max_rd_atomic,
          timeout: table_data_i.timeout,
          retry_count: table_data_i.retry_count,
          rnr_retry: table_data_i.rnr_retry
      };
      common2_q.state <= state1;
      common2_q.head <= ends_head_i;
      common2_q.tail <= ends_tail_i.tail;
      common2_q.serial <= serial1;
      distances2_q <= '{
          psn: header1_q.psn - state1.unacknowledged,
          sent: state1.sent - state1.unacknowledged,
          response: state1.response - state1.unacknowledged,
          cursor: state1.cursor - state1.unacknowledged,
          failed: state1.failed_first - state1.unacknowledged,
          implied: state1.implied - state1.unacknowledged,
          asked: state1.asked - state1.unacknowledged
      };
      unknown2_q <= event1_q == EventHeader && unknown1;
      partition2_q <= event1_q == EventHeader && !unknown1 && partition1;
      wrong_state2_q <= event1_q == EventHeader && !unknown1 && !partition1 && wrong_state1;
      wrong_source2_q <= event1_q == EventHeader && !unknown1 && !partition1 && !wrong_state1 && wrong_source1;
      live2_q <= event1_q == EventHeader && !unknown1 && !partition1 && !wrong_state1 && !wrong_source1;
      exists2_q <= serial1 != ends_tail_i.tail;
      blocked2_q <= blocked1_q;
      // The packet has been sent before, so this is a retransmission. A READ or atomic is then in the ring already.
      sent_before2_q <= repair1 || psn_before(state1.cursor, state1.sent);
      response_before2_q <= state1.awaited != '0 && psn_before(state1.response, state1.cursor);
      expired2_q <= event1_q == EventTimeOut && state1.timer != WaitNothing && state1.deadline <= now_i;
      base2_q <= state1.response;
      if (event1_q == EventTurn) base2_q <= state1.repair ? state1.unacknowledged : state1.cursor;
      else if (event1_q == EventHeader) base2_q <= header1_q.psn;
      repair2_q <= repair1;
      ahead2_q <= header1_q.psn - state1.response;
      earlier2_q <= earlier1;
      second_serial2_q <= second_serial1;
      second_first2_q <= second_first1;
    end
  end

  // Stage 2: the request has been read. Decides whether the packet at the cursor may be sent, and what kind of answer
  // arrived.

  psn_t                to_limit2;
  psn_t                packet2;
  logic         [31:0] offset2;
  logic                has_response2;
  logic                skip2;
  logic                may_send2;
  logic                ready2;
  logic                fenced2;
  logic                full2;
  logic                in_range2;
  logic                stale2;
  logic                ghost2;
  logic                known2;
  logic                reserved2;
  logic                answered2;
  psn_t                end2;
  logic                missing2;
  logic                due2;
  logic                expected2;
  logic                gap2;
  logic                early2;
  logic                misplaced2;
  logic         [28:0] rnr_interval2;
  early_count_t        steps2;

  function automatic logic responds(operation_e operation);
    return operation inside {OperationRead, OperationCompareSwap, OperationFetchAdd};
  endfunction

  // Time in cycles of 4 ns that a requester waits after a receiver-not-ready NAK (clause 9.7.5.2.8, table 45).
  function automatic logic [28:0] rnr_cycles(logic [4:0] code);
    unique case (code)
      5'd0: return 29'd163840000;
      5'd1: return 29'd2500;
      5'd2: return 29'd5000;
      5'd3: return 29'd7500;
      5'd4: return 29'd10000;
      5'd5: return 29'd15000;
      5'd6: return 29'd20000;
      5'd7: return 29'd30000;
      5'd8: return 29'd40000;
      5'd9: return 29'd60000;
      5'd10: return 29'd80000;
      5'd11: return 29'd120000;
      5'd12: return 29'd160000;
      5'd13: return 29'd240000;
      5'd14: return 29'd320000;
      5'd15: return 29'd480000;
      5'd16: return 29'd640000;
      5'd17: return 29'd960000;
      5'd18: return 29'd1280000;
      5'd19: return 29'd1920000;
      5'd20: return 29'd2560000;
      5'd21: return 29'd3840000;
      5'd22: return 29'd5120000;
      5'd23: return 29'd7680000;
      5'd24: return 29'd10240000;
      5'd25: return 29'd15360000;
      5'd26: return 29'd20480000;
      5'd27: return 29'd30720000;
      5'd28: return 29'd40960000;
      5'd29: return 29'd61440000;
      5'd30: return 29'd81920000;
      default: return 29'd122880000;
    endcase
  endfunction

  assign has_response2 = responds(plan_i.operation);
  assign to_limit2 = plan_i.limit - base2_q;
  assign packet2 = base2_q - plan_i.first;
  always_comb begin
    unique case (common2_q.attributes.path_mtu)
      3'd1: offset2 = {packet2, 8'd0};
      3'd2: offset2 = {packet2[22:0], 9'd0};
      3'd3: offset2 = {packet2[21:0], 10'd0};
      3'd4: offset2 = {packet2[20:0], 11'd0};
      default: offset2 = {packet2[19:0], 12'd0};
    endcase
  end

  // How many responses have been stored that are next in order, or how many are missing before the first one that has.
  assign steps2 = lowest(common2_q.kind == EventTake ? ~common2_q.state.early : common2_q.state.early);

  // The request ends before the cursor.
  assign skip2 = to_limit2 == '0 || to_limit2[23];
  // A fence, and a shortage of responder resources, can only hold up the first packet of a request.
  assign fenced2 = base2_q == plan_i.first && plan_i.fence && response_before2_q;
  assign full2 = has_response2 && !sent_before2_q && common2_q.state.awaited >= common2_q.attributes.max_rd_atomic;
  assign may_send2 = common2_q.state.state == RequesterReady && common2_q.state.timer != WaitReceiverReady
      && !common2_q.state.failed && exists2_q;
  always_comb begin
    ready2 = may_send2 && !(common2_q.state.resync && skip2)
        && distances2_q.cursor < 24'(common2_q.state.window) && !fenced2 && !full2 && !blocked2_q;
    if (repair2_q) begin
      ready2 = common2_q.state.state == RequesterReady && common2_q.state.timer != WaitReceiverReady && !skip2
          && !blocked2_q;
    end
  end

  assign stale2 = live2_q && !common2_q.header.notification && distances2_q.psn[23];
  assign ghost2 = live2_q && !common2_q.header.notification && !distances2_q.psn[23]
      && distances2_q.psn >= distances2_q.sent;
  assign in_range2 = live2_q && !common2_q.header.notification && !distances2_q.psn[23]
      && distances2_q.psn < distances2_q.sent;
  assign known2 = common2_q.header.syndrome[7:5] inside {3'b000, SyndromeRnrPrefix}
      || (common2_q.header.syndrome[7:5] == 3'b011 && common2_q.header.syndrome[4:0] <= 5'd4);
  assign reserved2 = common2_q.header.syndrome == SyndromeInvalidReadRequest;
  assign answered2 = in_range2 && common2_q.header.acknowledge && known2 && !reserved2;
  // A negative acknowledgement confirms that every request before its PSN was executed.
  assign end2 = common2_q.header.syndrome[7:5] == 3'b000 ? distances2_q.psn + 1'b1 : distances2_q.psn;
  assign due2 = common2_q.state.awaited != '0;
  assign missing2 = due2 && distances2_q.response < end2;
  assign expected2 = in_range2 && !common2_q.header.acknowledge && due2 && distances2_q.psn == distances2_q.response;
  assign gap2 = in_range2 && !common2_q.header.acknowledge && due2 && distances2_q.psn > distances2_q.response;
  // The response is behind a missing one, and within reach, and has not been stored.
  assign early2 = gap2 && common2_q.header.selective && !common2_q.state.failed && !skip2
      && common2_q.state.timer != WaitReceiverReady && ahead2_q < 24'(EarlyResponses)
      && !common2_q.state.early[ahead2_q[EarlyBits-1:0]];
  assign misplaced2 = in_range2 && (common2_q.header.acknowledge ? !known2
      : !(due2 && distances2_q.psn >= distances2_q.response));
  assign rnr_interval2 = rnr_cycles(common2_q.header.syndrome[4:0]);

  send_plan_t                            plan3_q;
  send_plan_t                            plan4_q;
  // Synthesis removes the fields that this stage does not read.
  // verilator lint_off UNUSEDSIGNAL
  send_plan_t                            plan5_q;
  // verilator lint_on UNUSEDSIGNAL
  send_wait_t                            wait3_q;
  send_serial_t                          second_serial3_q;
  psn_t                                  second_first3_q;
  logic         [ResponderResources-1:0] earlier3_q;
  logic                                  go3_q;
  logic                                  skip3_q;
  logic                                  settled3_q;
  logic                                  last3_q;
  logic                                  first3_q;
  logic                                  has_response3_q;
  logic                                  sent_before3_q;
  logic                                  response_before3_q;
  logic                                  at_head3_q;
  logic         [                  31:0] offset3_q;
  logic                                  live3_q;
  logic                                  answered3_q;
  logic                                  missing3_q;
  logic                                  expected3_q;
  logic                                  gap3_q;
  logic                                  early3_q;
  psn_t                                  ahead3_q;
  early_count_t                          steps3_q;
  psn_t                                  to_limit3_q;
  logic                                  repair3_q;
  logic                                  expired3_q;
  psn_t                                  end3_q;
  logic                                  exists3_q;
  logic         [                  28:0] interval3_q;

  always_ff @(posedge clk_i) begin
    if (valid_q[2]) begin
      common3_q <= common2_q;
      distances3_q <= distances2_q;
      plan3_q <= plan_i;
      wait3_q <= wait_i;
      second_serial3_q <= second_serial2_q;
      second_first3_q <= second_first2_q;
      earlier3_q <= earlier2_q;
      go3_q <= common2_q.kind == EventTurn && ready2;
      skip3_q <= common2_q.kind == EventTurn && skip2
          && (repair2_q ? common2_q.state.state == RequesterReady : may_send2 && common2_q.state.resync);
      // The search for the cursor's request has reached the end of the queue.
      settled3_q <= common2_q.kind == EventTurn && common2_q.state.state == RequesterReady && common2_q.state.resync
          && !exists2_q && !repair2_q;
      last3_q <= to_limit2 == 24'd1;
      first3_q <= base2_q == plan_i.first;
      has_response3_q <= has_response2;
      sent_before3_q <= sent_before2_q;
      response_before3_q <= response_before2_q;
      // All earlier requests are acknowledged.
      at_head3_q <= repair2_q || distances2_q.cursor <= packet2;
      offset3_q <= offset2;
      live3_q <= live2_q;
      answered3_q <= answered2;
      missing3_q <= missing2;
      expected3_q <= expected2;
      gap3_q <= gap2;
      early3_q <= early2;
      ahead3_q <= ahead2_q;
      steps3_q <= steps2;
      to_limit3_q <= to_limit2;
      repair3_q <= repair2_q;
      expired3_q <= expired2_q;
      end3_q <= end2;
      exists3_q <= exists2_q;
      interval3_q <= rnr_interval2;
    end
  end

  // Stage 3: computes the packet's memory address, how far an answer acknowledges, and the faults of a response.

  logic          [63:0] address3;
  logic          [31:0] rest3;
  logic          [12:0] mtu3;
  logic          [12:0] part3;
  logic          [31:0] needed3;
  logic                 stopped3;
  logic                 bad_response3;
  logic                 bad_length3;
  logic                 check3;
  logic          [31:0] length3;
  logic          [31:0] missing_bytes3;
  logic                 stores3;
  logic                 rest_of_request3;
  logic                 takes3;
  logic                 pop3;
  psn_t                 second_ahead3;
  early_count_t         shift3;
  psn_t                 advance3;
  // Only the lines are kept.
  // verilator lint_off UNUSEDSIGNAL
  logic          [31:0] last_byte3;
  // verilator lint_on UNUSEDSIGNAL
  buffer_lines_t        lines3;

  assign mtu3 = 13'd128 << common3_q.attributes.path_mtu;
  assign address3 = plan3_q.local_address + 64'(offset3_q);
  assign rest3 = plan3_q.length - offset3_q;
  assign part3 = last3_q ? rest3[12:0] : mtu3;
  // For a READ, the region must have room for all the data that is still missing.
  assign needed3 = go3_q && has_response3_q ? rest3 : 32'(part3);
  // The failure of the request at the cursor takes precedence.
  assign stopped3 = common3_q.state.failed && distances3_q.failed <= distances3_q.psn;
  assign bad_response3 = common3_q.header.atomic != (plan3_q.operation != OperationRead);
  assign bad_length3 = part3 != common3_q.header.bytes;
  // The responses that are next in order, or are missing, are all that are left of their request.
  assign rest_of_request3 = 24'(steps3_q) >= to_limit3_q;
  always_comb begin
    unique case (common3_q.attributes.path_mtu)
      3'd1: missing_bytes3 = {17'd0, steps3_q, 8'd0};
      3'd2: missing_bytes3 = {16'd0, steps3_q, 9'd0};
      3'd3: missing_bytes3 = {15'd0, steps3_q, 10'd0};
      3'd4: missing_bytes3 = {14'd0, steps3_q, 11'd0};
      default: missing_bytes3 = {13'd0, steps3_q, 12'd0};
    endcase
  end
  always_comb begin
    length3 = plan3_q.length;
    if (plan3_q.operation == OperationRead) begin
      length3 = repair3_q && common3_q.state.early != '0 && !rest_of_request3 ? missing_bytes3 : rest3;
    end
  end
  assign stores3 = early3_q && !bad_response3 && !bad_length3;
  assign check3 = (go3_q || stores3 || (expected3_q && !stopped3 && !bad_response3 && !bad_length3))
      && plan3_q.length != '0;
  assign last_byte3 = 32'(plan3_q.local_address[5:0]) + plan3_q.length - 1'b1;
  assign lines3 = '{
          wide: plan3_q.length[31:BufferLineBits+5] != '0,
          first: plan3_q.local_address[BufferLineBits+5:6],
          more: plan3_q.length == '0 ? '0 : last_byte3[BufferLineBits+4:6]
      };
  // Responses that were stored early are taken, up to the end of their request.
  assign takes3 = common3_q.kind == EventTake && common3_q.state.early[0];
  assign pop3 = takes3 ? rest_of_request3 : expected3_q && last3_q;
  // By how much the oldest missing response moves; further than any early one is as good as any such distance.
  assign second_ahead3 = second_first3_q - common3_q.state.response;
  always_comb begin
    shift3 = takes3 ? steps3_q : early_count_t'(1);
    if (pop3) begin
      shift3 = common3_q.state.awaited != 5'd1 && second_ahead3 < 24'(EarlyResponses)
          ? second_ahead3[EarlyBits:0] : early_count_t'(EarlyResponses);
    end
  end
  always_comb begin
    advance3 = '0;
    if (answered3_q) advance3 = missing3_q ? distances3_q.response : end3_q;
    // A valid response acknowledges itself and everything before it (clause 9.7.5.1.3).
    else if (expected3_q) advance3 = distances3_q.psn + 1'b1;
    else if (takes3) advance3 = distances3_q.response + (rest_of_request3 ? to_limit3_q : 24'(steps3_q));
    else if (gap3_q || common3_q.kind == EventTake) advance3 = distances3_q.response;
  end

  access_request_t check4_q;
  logic            check_valid4_q;
  logic            refuses4;
  logic            check_valid5_q;
  logic            check_valid6_q;
  logic            check_valid7_q;

  assign check_valid_o = check_valid4_q;
  assign check_o = check4_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      check_valid4_q <= 1'b0;
    end else begin
      check_valid4_q <= valid_q[3] && check3;
    end
    check_valid5_q <= check_valid4_q && !refuses4;
    check_valid6_q <= check_valid5_q;
    check_valid7_q <= check_valid6_q;
    if (valid_q[3]) begin
      check4_q <= '{
          remote: 1'b0,
          key: plan3_q.lkey,
          domain: common3_q.attributes.domain,
          address: address3,
          bytes: needed3,
          needs: '{local_write: !go3_q || has_response3_q, default: 1'b0}
      };
    end
  end

  // Data of a packet to send, from stage 4 on.
  typedef struct packed {
    logic          go;
    logic          again;
    logic          last;
    logic          first;
    logic          has_response;
    logic          new_awaited;
    logic          at_head;
    logic          request;        // asks for an acknowledgement
    logic          more;           // another packet may follow in the next turn
    psn_t          next_cursor;
    psn_t          next_sent;
    logic [31:0]   offset;
    logic [47:0]   address;
    logic [12:0]   bytes;
    logic [31:0]   length;         // for the RETH
    operation_e    operation;
    logic          has_immediate;
    logic          solicited;
    psn_t          plan_first;
    buffer_lines_t lines;          // of the local buffer
  } packet_t;

  packet_t packet4_q;
  packet_t packet5_q;
  packet_t packet6_q;
  // Synthesis removes the fields that this stage does not read.
  // verilator lint_off UNUSEDSIGNAL
  packet_t packet7_q;
  // verilator lint_on UNUSEDSIGNAL
  psn_t    next_cursor3;

  assign next_cursor3 = has_response3_q ? plan3_q.limit
      : (repair3_q ? common3_q.state.unacknowledged : common3_q.state.cursor) + 1'b1;

  // Findings about an answer or a time-out, from stage 4 on.
  typedef struct packed {
    logic         live;
    logic         answered;
    logic         missing;
    logic         expected;
    logic         gap;
    logic         stores;           // the response is stored although one before it is missing
    logic         before_early;     // no response before it has been stored
    logic         takes;            // responses that were stored are taken
    logic         lacks;            // all that were stored and are next have been taken
    logic         stopped;
    logic         bad_response;
    logic         bad_length;
    logic         pop;              // the last response of the oldest request arrives or is taken
    logic         expired;
    logic         skip;
    logic         settled;
    logic         exists;
    logic         response_before;
    psn_t         advance;
    early_count_t ahead;            // from the oldest missing response to this one, if it is stored
    early_count_t shift;            // by how much the oldest missing response moves
    send_serial_t second_serial;
    psn_t         second_first;
    send_wait_t   waits;
    // When the wait after an RNR NAK ends.
    cycles_t      deadline;
  } finding_t;

  logic [ResponderResources-1:0] earlier4_q;
  finding_t finding4_q;
  finding_t finding5_q;
  finding_t finding6_q;
  // Synthesis removes the fields that this stage does not read.
  // verilator lint_off UNUSEDSIGNAL
  finding_t finding7_q;
  // verilator lint_on UNUSEDSIGNAL

  always_ff @(posedge clk_i) begin
    if (valid_q[3]) begin
      common4_q <= common3_q;
      distances4_q <= distances3_q;
      earlier4_q <= earlier3_q;
      plan4_q <= plan3_q;
      packet4_q <= '{
          go: go3_q,
          again: sent_before3_q,
          last: last3_q,
          first: first3_q,
          has_response: has_response3_q,
          new_awaited: has_response3_q && !sent_before3_q,
          at_head: at_head3_q,
          request: 1'b0,
          more: 1'b0,
          next_cursor: next_cursor3,
          next_sent: psn_before(common3_q.state.sent, next_cursor3) ? next_cursor3 : common3_q.state.sent,
          offset: offset3_q,
          address: address3[47:0],
          bytes: part3,
          length: length3,
          operation: plan3_q.operation,
          has_immediate: plan3_q.has_immediate && last3_q,
          solicited: plan3_q.solicited && (last3_q || has_response3_q),
          plan_first: plan3_q.first,
          lines: lines3
      };
      finding4_q <= '{
          live: live3_q,
          answered: answered3_q,
          missing: missing3_q,
          expected: expected3_q,
          gap: gap3_q,
          stores: stores3,
          before_early: ahead3_q < 24'(steps3_q),
          takes: takes3,
          lacks: common3_q.kind == EventTake && !takes3,
          stopped: expected3_q && stopped3,
          bad_response: bad_response3,
          bad_length: bad_length3,
          pop: pop3,
          expired: expired3_q,
          skip: skip3_q,
          settled: settled3_q,
          exists: exists3_q,
          response_before: response_before3_q,
          advance: advance3,
          ahead: ahead3_q[EarlyBits:0],
          shift: shift3,
          second_serial: second_serial3_q,
          second_first: second_first3_q,
          waits: wait3_q,
          deadline: now_i + 48'(interval3_q)
      };
    end
  end

  logic ring_write7;
  logic overlap4;

  requester_awaited u_awaited (
    .clk_i,
    .read_i         (enter),
    .read_qp_i      (enter_qp),
    .oldest_i       (state1.awaited_first),
    .count_i        (state1.awaited),
    .psn_i          (header1_q.psn),
    .serial_o       (found_serial1),
    .earlier_o      (earlier1),
    .second_serial_o(second_serial1),
    .second_first_o (second_first1),
    .lines_read_i   (valid_q[3]),
    .lines_qp_i     (qp_q[3]),
    .lines_i        (packet4_q.lines),
    .places_i       (earlier4_q),
    .overlap_o      (overlap4),
    .write_i        (ring_write7),
    .write_qp_i     (qp_q[7]),
    .write_place_i  (common7_q.state.awaited_first + common7_q.state.awaited[3:0]),
    .write_serial_i (common7_q.serial),
    .write_first_i  (packet7_q.plan_first),
    .write_lines_i  (packet7_q.lines)
  );

  // Stage 4: comparisons. For a packet: the cursor after it. For a response: whether its memory is free.

  logic         advances5_q;
  logic         reaches_failed5_q;
  logic         behind5_q;
  logic         beyond5_q;
  logic         implied_same5_q;
  // An answer was requested and has not arrived.
  logic         asked5_q;
  logic         witness_same5_q;
  psn_t         cursor_distance5_q;
  logic         response_before_next5_q;
  logic         next_before_sent5_q;
  logic   [4:0] next_awaited5_q;
  // Responses behind a missing one have been stored, and which, after this event.
  logic         any_early5_q;
  early_t       early5_q;
  early_t       early4;
  // The requester has gone back for the oldest missing response.
  logic         implied_here5_q;
  psn_t         next_response4;
  logic   [6:0] interval4;
  logic   [6:0] interval5_q;

  // What an earlier request will write must not overwrite this response.
  assign refuses4 = finding4_q.stores && overlap4;
  always_comb begin
    early4 = common4_q.state.early;
    if (finding4_q.stores && !overlap4) early4[finding4_q.ahead[EarlyBits-1:0]] = 1'b1;
    if (finding4_q.expected || finding4_q.takes) early4 = common4_q.state.early >> finding4_q.shift;
  end

  assign next_response4 = common4_q.state.awaited == '0 ? common4_q.state.cursor : common4_q.state.response;
  // An acknowledgement is requested at least four times in a window. So even if the window is halved meanwhile, the
  // requester never waits for an acknowledgement that no packet requested.
  always_comb begin
    interval4 = {2'd0, common4_q.state.window[6:2]};
    if (interval4 > 7'(AcknowledgeInterval)) interval4 = 7'(AcknowledgeInterval);
    if (interval4 == '0) interval4 = 7'd1;
  end

  always_ff @(posedge clk_i) begin
    if (valid_q[4]) begin
      common5_q <= common4_q;
      distances5_q <= distances4_q;
      plan5_q <= plan4_q;
      packet5_q <= packet4_q;
      finding5_q <= finding4_q;
      if (refuses4) finding5_q.stores <= 1'b0;
      any_early5_q <= common4_q.state.early != '0;
      early5_q <= early4;
      implied_here5_q <= common4_q.state.implied_valid && distances4_q.implied == distances4_q.response;
      advances5_q <= finding4_q.advance != '0;
      reaches_failed5_q <= common4_q.state.failed && finding4_q.advance != '0
          && distances4_q.failed <= finding4_q.advance;
      behind5_q <= distances4_q.cursor < finding4_q.advance;
      beyond5_q <= distances4_q.cursor > finding4_q.advance;
      implied_same5_q <= common4_q.state.implied_valid && distances4_q.implied == finding4_q.advance;
      asked5_q <= !distances4_q.asked[23] && distances4_q.asked > finding4_q.advance;
      witness_same5_q <= common4_q.state.witness_valid && common4_q.header.psn == common4_q.state.witness;
      cursor_distance5_q <= packet4_q.next_cursor - common4_q.state.unacknowledged;
      response_before_next5_q <= psn_before(next_response4, packet4_q.next_cursor);
      next_before_sent5_q <= psn_before(packet4_q.next_cursor, common4_q.state.sent);
      next_awaited5_q <= common4_q.state.awaited + 5'(packet4_q.new_awaited);
      interval5_q <= interval4;
    end
  end

  // Stage 5: decisions. Whether another packet follows this one, and whether this one requests an acknowledgement.

  logic               ends5;
  send_serial_t       next_serial5;
  logic               more5;
  logic         [6:0] since5;
  logic               request5;
  logic               header_fault5;
  logic               waits5;
  logic               go_back5;
  logic               refused5;
  logic               sequence5;
  logic               rnr5;
  logic               implied5;
  logic               time_out5;
  logic               retry5;
  logic               repair5;
  logic               kept5;
  logic               spends5;
  logic               exceeded5;
  logic               rnr_exceeded5;
  logic         [2:0] retries5;
  logic         [2:0] rnr_retries5;
  logic               answer5;

  assign ends5 = packet5_q.last || packet5_q.has_response;
  assign next_serial5 = ends5 ? common5_q.serial + 1'b1 : common5_q.serial;
  assign more5 = next_serial5 != common5_q.tail && cursor_distance5_q < 24'(common5_q.state.window)
      && !(ends5 && finding5_q.waits.fence && next_awaited5_q != '0 && response_before_next5_q)
      && !(ends5 && finding5_q.waits.has_response && !next_before_sent5_q
           && next_awaited5_q >= common5_q.attributes.max_rd_atomic);
  assign since5 = common5_q.state.since_request + 1'b1;
  assign request5 = (ends5 && plan5_q.signaled) || since5 >= interval5_q || !more5 || common5_q.state.repair;

  assign retries5 = advances5_q ? common5_q.attributes.retry_count : common5_q.state.retries;
  assign rnr_retries5 = advances5_q ? common5_q.attributes.rnr_retry : common5_q.state.rnr_retries;
  // The syndrome is evaluated unless an earlier response is missing or the request at the cursor fails now.
  assign answer5 = finding5_q.answered && !finding5_q.missing && !reaches_failed5_q;
  // While the requester waits after an RNR NAK, it will retransmit everything anyway. Some responders also report a
  // sequence error, for the gap that the refused request leaves. That report must neither end the wait nor cost a
  // retry.
  assign waits5 = common5_q.state.timer == WaitReceiverReady && !advances5_q;
  assign implied5 = ((finding5_q.answered && finding5_q.missing) || finding5_q.gap || finding5_q.lacks)
      && !reaches_failed5_q && !waits5;
  // Responses that have been stored cannot come again. Instead, a response in front of them, behind a missing one,
  // tells once that the missing one has been lost again.
  assign go_back5 = implied5 && (!implied_same5_q
      || (finding5_q.gap && (any_early5_q ? finding5_q.before_early && !common5_q.state.witness_valid
                             : witness_same5_q)));
  assign sequence5 = answer5 && common5_q.header.syndrome == SyndromeSequenceError;
  assign rnr5 = answer5 && common5_q.header.syndrome[7:5] == SyndromeRnrPrefix;
  assign refused5 = answer5 && common5_q.header.syndrome[7:5] == 3'b011 && !sequence5;
  assign time_out5 = finding5_q.expired && common5_q.state.timer == WaitAcknowledgement;
  assign retry5 = go_back5 || (sequence5 && !waits5) || time_out5;
  // Only what is missing is sent or requested again, and the cursor stays.
  assign kept5 = sequence5 && !waits5 && common5_q.header.selective;
  assign repair5 = kept5 || (go_back5 && (any_early5_q || finding5_q.stores)) || (time_out5 && any_early5_q);
  // A time-out shorter than that of the attributes does not count against `retry_count`.
  assign spends5 = retry5 && (common5_q.state.whole || !time_out5);
  assign exceeded5 = spends5 && retries5 == '0;
  assign rnr_exceeded5 = rnr5 && common5_q.attributes.rnr_retry != RnrRetryWithoutLimit && rnr_retries5 == '0;
  assign header_fault5 = reaches_failed5_q && !finding5_q.expected;

  typedef struct packed {
    logic         fault;            // regardless of the region check
    status_e      status;
    logic [7:0]   vendor_error;
    logic         own;              // the fault is in the response itself, which then acknowledges nothing
    logic         advances;
    logic         rewind;
    logic         beyond;
    logic         asked;
    logic         implied;
    logic         implied_first;    // the requester has not yet gone back for it
    logic         implied_here;     // it has gone back for the oldest missing response
    logic         any_early;        // responses behind a missing one have been stored
    early_t       early;            // which, after this event
    logic         retry;            // the requester goes back or repairs, and a retry is left
    logic         repair;           // it repairs
    logic         kept;             // because the peer keeps what is behind a lost request
    logic         gap;
    logic         time_out;
    logic         rnr;              // RNR NAK, and a retry is left
    logic [2:0]   retries;
    logic [2:0]   rnr_retries;
    psn_t         unacknowledged;
    psn_t         cursor_distance;
    send_serial_t next_serial;
    logic [6:0]   since;
    logic [4:0]   next_awaited;
    logic [4:0]   less_awaited;
  } decision_t;

  decision_t decision5;
  decision_t decision6_q;
  // Synthesis removes the fields that this stage does not read.
  // verilator lint_off UNUSEDSIGNAL
  decision_t decision7_q;
  // verilator lint_on UNUSEDSIGNAL

  always_comb begin
    decision5 = '0;
    decision5.status = StatusLocalProtection;
    if (finding5_q.expected) begin
      decision5.own   = finding5_q.stopped || finding5_q.bad_response || finding5_q.bad_length;
      decision5.fault = decision5.own || reaches_failed5_q;
      if (!finding5_q.stopped) begin
        if (finding5_q.bad_response) decision5.status = StatusBadResponse;
        else if (finding5_q.bad_length) decision5.status = StatusLocalLength;
      end
    end else if (header_fault5) begin
      decision5.fault = 1'b1;
    end else if (exceeded5) begin
      decision5.fault  = 1'b1;
      decision5.status = StatusRetryExceeded;
    end else if (rnr_exceeded5) begin
      decision5.fault = 1'b1;
      decision5.status = StatusRnrRetryExceeded;
      decision5.vendor_error = common5_q.header.syndrome;
    end else if (refused5) begin
      decision5.fault = 1'b1;
      decision5.vendor_error = common5_q.header.syndrome;
      unique case (common5_q.header.syndrome)
        SyndromeInvalidRequest: decision5.status = StatusRemoteInvalid;
        SyndromeRemoteAccess: decision5.status = StatusRemoteAccess;
        default: decision5.status = StatusRemoteOperation;
      endcase
    end
    decision5.advances = advances5_q;
    decision5.implied = implied5;
    decision5.implied_first = !implied_same5_q;
    decision5.implied_here = implied_here5_q;
    decision5.any_early = any_early5_q;
    decision5.early = early5_q;
    decision5.retry = retry5 && !exceeded5;
    decision5.repair = repair5 && !exceeded5;
    decision5.kept = kept5;
    decision5.gap = decision5.retry && common5_q.kind != EventTimeOut;
    decision5.time_out = decision5.retry && common5_q.kind == EventTimeOut;
    decision5.rnr = rnr5 && !rnr_exceeded5;
    decision5.rewind = behind5_q || (decision5.retry && !decision5.repair) || decision5.rnr;
    decision5.beyond = beyond5_q;
    decision5.asked = asked5_q;
    decision5.retries = decision5.retry && spends5 ? retries5 - 1'b1 : retries5;
    decision5.rnr_retries = decision5.rnr && common5_q.attributes.rnr_retry != RnrRetryWithoutLimit
        ? rnr_retries5 - 1'b1 : rnr_retries5;
    decision5.unacknowledged = common5_q.state.unacknowledged + finding5_q.advance;
    // Distance of the cursor, if it does not move, from the new oldest PSN.
    decision5.cursor_distance = distances5_q.cursor - finding5_q.advance;
    decision5.next_serial = next_serial5;
    decision5.since = since5;
    decision5.next_awaited = next_awaited5_q;
    decision5.less_awaited = common5_q.state.awaited - 1'b1;
  end

  // Fields that are only copied into headers are read late, so that no flip-flops hold them in earlier stages.
  assign wire_read_o   = valid_q[5] && packet5_q.go;
  assign wire_index_o  = qp_q[5];
  assign wire_serial_o = common5_q.serial;

  always_ff @(posedge clk_i) begin
    if (valid_q[5]) begin
      common6_q <= common5_q;
      packet6_q <= packet5_q;
      packet6_q.request <= request5;
      packet6_q.more <= more5;
      finding6_q <= finding5_q;
      decision6_q <= decision5;
    end
  end

  // Stage 6: computes the state after the event, on the assumption that the region check grants access.

  state_t            next6;
  state_t            next7_q;
  logic              received6;  // the oldest missing response has arrived, now or before
  logic              moves6;  // and with it, all of its request
  logic              take6;  // stored responses may be next in order, or behind what is missing next
  logic              take7_q;
  logic              waiting6;  // behind a fence, or for a responder resource, as far as known in this stage
  logic              ready6;
  // Whether a turn is useful, and whether it is unless the request at the cursor has to wait.
  logic              candidate6;
  logic              candidate_unless6;
  logic              candidate7_q;
  logic              candidate_unless7_q;
  logic              waiting7_q;
  logic              timer_set6;
  logic              timer_set7_q;
  advance_t          advance6;
  advance_t          advance7_q;
  cycles_t           soon6;
  cycles_t           whole_deadline6;
  logic              soon_whole6;
  logic              asks6;
  logic              repairs6;  // what is missing is sent or requested again
  logic              retreat7;
  logic       [ 6:0] window6;
  logic       [ 7:0] window_acknowledged6;
  // Synthesis removes the fields that this stage does not read.
  // verilator lint_off UNUSEDSIGNAL
  send_wire_t        wire7_q;
  // verilator lint_on UNUSEDSIGNAL
  logic       [63:0] remote7_q;

  congestion #(
    .AdditiveIncrease(AdditiveIncrease),
    .Limit           (WindowLimit)
  ) u_congestion (
    .window_i      (common6_q.state.window),
    .acknowledged_i(common6_q.state.window_acknowledged),
    .mark_i        (finding6_q.live && common6_q.header.notification),
    .packets_i     (finding6_q.advance > 24'd64 ? 7'd64 : finding6_q.advance[6:0]),
    .gap_i         (decision6_q.gap),
    .time_out_i    (decision6_q.time_out),
    .window_o      (window6),
    .acknowledged_o(window_acknowledged6)
  );

  assign asks6 = packet6_q.request || packet6_q.has_response;
  assign repairs6 = common6_q.kind == EventTurn && common6_q.state.repair;

  round_trip u_round_trip (
    .clk_i,
    .now_i,
    .clear_i(!ready_o),
    .clear_qp_i(clear_q[IndexBits-1:0]),
    .read_i(valid_q[3]),
    .read_qp_i(qp_q[3]),
    .code_i(common4_q.attributes.timeout),
    .deadline_o(soon6),
    .whole_o(soon_whole6),
    .whole_deadline_o(whole_deadline6),
    .forget_i(common6_q.kind == EventCommand),
    // First repairs are measured too, so that time-outs follow the round trip even while there are only repairs.
    .sent_i(common6_q.kind == EventTurn && packet6_q.go && asks6
            && (repairs6 ? common6_q.state.repair_first : !packet6_q.again)),
    .sent_psn_i(repairs6 ? common6_q.state.unacknowledged : common6_q.state.cursor),
    .answered_i(common6_q.kind inside {EventHeader, EventTake} && decision6_q.advances),
    .end_i(decision6_q.unacknowledged),
    .back_i(common6_q.kind inside {EventHeader, EventTake, EventTimeOut} && (decision6_q.rewind || decision6_q.repair)),
    .timed_out_i(common6_q.kind == EventTimeOut && decision6_q.time_out && !common6_q.state.whole),
    .write_i(write7 && !retreat7),
    .write_qp_i(qp_q[7])
  );

  assign received6 = finding6_q.expected || finding6_q.takes;
  assign moves6 = received6 && finding6_q.pop;
  assign take6 = received6 && next6.early != '0;

  always_comb begin
    next6 = common6_q.state;
    timer_set6 = 1'b0;
    advance6 = '{
        kind: AdvanceNone,
        psn: decision6_q.unacknowledged,
        status: decision6_q.status,
        vendor_error: decision6_q.vendor_error
    };
    waiting6 = 1'b0;
    unique case (common6_q.kind)
      EventTurn: begin
        if (common6_q.state.state == RequesterError && common6_q.head != common6_q.tail) begin
          advance6.kind   = AdvanceFlush;
          advance6.status = StatusFlushed;
        end
        if (packet6_q.go) begin
          next6.repair = 1'b0;
          if (!repairs6) begin
            next6.cursor = packet6_q.next_cursor;
            next6.cursor_serial = decision6_q.next_serial;
            next6.resync = 1'b0;
            next6.begun = !(packet6_q.last || packet6_q.has_response);
            next6.sent = packet6_q.next_sent;
          end
          if (packet6_q.new_awaited) begin
            next6.awaited = decision6_q.next_awaited;
            if (common6_q.state.awaited == '0) begin
              next6.response_serial = common6_q.serial;
              next6.response = common6_q.state.cursor;
            end
          end
          next6.since_request = packet6_q.request ? '0 : decision6_q.since;
          if (asks6 && (!decision6_q.asked || psn_before(common6_q.state.asked, packet6_q.next_cursor))) begin
            next6.asked = packet6_q.next_cursor;
          end
          // The timer starts only when an answer is requested, because the responder sends none before.
          if ((common6_q.state.timer == WaitNothing || (asks6 && !decision6_q.asked))
              && common6_q.attributes.timeout != '0) begin
            timer_set6 = 1'b1;
            next6.timer = WaitAcknowledgement;
            next6.deadline = asks6 || decision6_q.asked ? soon6 : whole_deadline6;
            next6.whole = (asks6 || decision6_q.asked) ? soon_whole6 : 1'b1;
          end
        end else if (finding6_q.skip && repairs6) begin
          next6.repair_serial = common6_q.serial + 1'b1;
        end else if (finding6_q.skip) begin
          next6.cursor_serial = common6_q.serial + 1'b1;
        end else if (finding6_q.settled) begin
          next6.cursor_serial = common6_q.serial;
          next6.resync = 1'b0;
          next6.begun = 1'b0;
        end
      end
      EventHeader, EventTake, EventTimeOut: begin
        if (finding6_q.live || common6_q.kind != EventHeader) begin
          next6.window = window6;
          next6.window_acknowledged = window_acknowledged6;
        end
        next6.unacknowledged = decision6_q.unacknowledged;
        if (decision6_q.advances) next6.repair = 1'b0;
        next6.retries = decision6_q.retries;
        next6.rnr_retries = decision6_q.rnr_retries;
        // Update of the ring of READs and atomics.
        next6.early = decision6_q.early;
        if (received6) begin
          next6.response = common6_q.state.response + 24'(finding6_q.shift);
          // The request for the missing responses, if it has been sent, covers those behind this one.
          if (finding6_q.expected && decision6_q.any_early && decision6_q.implied_here && !common6_q.state.repair) begin
            next6.implied = common6_q.state.response + 1'b1;
          end
        end
        if (moves6) begin
          next6.awaited = decision6_q.less_awaited;
          next6.awaited_first = common6_q.state.awaited_first + 1'b1;
          next6.response_serial = finding6_q.second_serial;
          next6.response = finding6_q.second_first;
          next6.implied_valid = 1'b0;
        end
        if (decision6_q.implied) begin
          next6.implied_valid = 1'b1;
          next6.implied = decision6_q.unacknowledged;
          if (decision6_q.any_early || finding6_q.stores) begin
            next6.witness_valid = decision6_q.any_early && !decision6_q.implied_first
                && (common6_q.state.witness_valid || decision6_q.repair);
          end else if (decision6_q.implied_first || (finding6_q.gap && !common6_q.state.witness_valid)) begin
            next6.witness_valid = finding6_q.gap;
            next6.witness = common6_q.header.psn;
          end
        end
        if (decision6_q.repair) begin
          // A requester that has already gone back sends the packet anyway.
          next6.repair = decision6_q.beyond;
          next6.repair_first = common6_q.kind != EventTimeOut && (decision6_q.kept || decision6_q.implied_first);
          next6.repair_serial = decision6_q.kept ? common6_q.head : common6_q.state.response_serial;
        end
        if (decision6_q.rewind) begin
          next6.repair = 1'b0;
          next6.cursor = decision6_q.unacknowledged;
          next6.cursor_serial = common6_q.head;
          next6.resync = 1'b1;
          next6.failed = 1'b0;
          // The first retransmitted packet asks for an acknowledgement, because possibly only the acknowledgement was
          // lost.
          next6.since_request = 7'(WindowLimit);
          next6.asked = decision6_q.unacknowledged;
        end
        if (common6_q.kind == EventTimeOut) begin
          // The scanner offers a deadline until it is changed, and its offer may be older than the last change; so
          // the timer is set again in either case.
          timer_set6 = 1'b1;
          if (finding6_q.expired) begin
            next6.timer = WaitNothing;
            if (common6_q.state.timer == WaitAcknowledgement) begin
              // Late responses of the interrupted stream that are still in flight must not cost another retry.
              next6.implied_valid = common6_q.state.awaited != '0;
              next6.implied = common6_q.state.response;
              next6.witness_valid = 1'b0;
            end
          end
        end else if (decision6_q.rnr) begin
          timer_set6 = 1'b1;
          next6.timer = WaitReceiverReady;
          next6.deadline = finding6_q.deadline;
        end else if (decision6_q.retry) begin
          timer_set6  = 1'b1;
          next6.timer = WaitNothing;
        end else if (decision6_q.advances) begin
          timer_set6 = 1'b1;
          next6.timer = decision6_q.beyond && common6_q.attributes.timeout != '0 ? WaitAcknowledgement : WaitNothing;
          next6.deadline = decision6_q.asked ? soon6 : whole_deadline6;
          next6.whole = decision6_q.asked ? soon_whole6 : 1'b1;
        end else if (finding6_q.gap && next6.early == '0 && common6_q.state.timer == WaitAcknowledgement) begin
          // Responses still arrive, so the timer restarts. An interrupted stream of responses ends, so a lost request
          // is still detected.
          timer_set6 = 1'b1;
          next6.deadline = decision6_q.asked ? soon6 : whole_deadline6;
          next6.whole = decision6_q.asked ? soon_whole6 : 1'b1;
        end
        if (decision6_q.advances) advance6.kind = AdvanceTo;
        if (decision6_q.fault) begin
          advance6.kind = AdvanceFault;
          if (decision6_q.own) advance6.psn = common6_q.header.psn;
        end
        // Whether the request at the cursor still has to wait. Computed anew, because this response changed the
        // oldest missing response.
        waiting6 = !next6.resync && !next6.begun
            && ((finding6_q.waits.fence && next6.awaited != '0
                 && (moves6 ? psn_before(finding6_q.second_first, common6_q.state.cursor) : finding6_q.response_before))
            || (finding6_q.waits.has_response && !psn_before(common6_q.state.cursor, common6_q.state.sent) &&
                next6.awaited >= common6_q.attributes.max_rd_atomic));
      end
      EventCommand: begin
        timer_set6 = 1'b1;
        next6.timer = WaitNothing;
        next6.awaited = '0;
        next6.early = '0;
        next6.repair = 1'b0;
        next6.failed = 1'b0;
        next6.resync = 1'b0;
        next6.begun = 1'b0;
        unique case (common6_q.command.operation)
          ControlSend: begin
            next6 = cleared();
            next6.state = RequesterReady;
            next6.cursor = common6_q.command.argument;
            next6.cursor_serial = common6_q.head;
            next6.unacknowledged = common6_q.command.argument;
            next6.sent = common6_q.command.argument;
            next6.asked = common6_q.command.argument;
            next6.retries = common6_q.attributes.retry_count;
            next6.rnr_retries = common6_q.attributes.rnr_retry;
            // Requests may have been posted already.
            next6.resync = 1'b1;
          end
          ControlReset: begin
            next6.state = RequesterReset;
            advance6.kind = AdvanceFlush;
            advance6.status = StatusSuccess;
          end
          default: begin
            next6.state = RequesterError;
            if (common6_q.state.state == RequesterReady) begin
              advance6.kind   = AdvanceFlush;
              advance6.status = StatusFlushed;
            end
          end
        endcase
      end
      default: ;
    endcase
    // Whether a turn is useful now, apart from the window. After going back it is useful as long as there are
    // requests.
    ready6 = next6.state == RequesterReady && next6.timer != WaitReceiverReady;
    candidate6 = ready6 && next6.repair;
    candidate_unless6 = ready6 && !next6.failed
        && (next6.resync ? next6.cursor_serial != common6_q.tail : finding6_q.exists);
    if (common6_q.kind == EventTurn) begin
      candidate_unless6 = 1'b0;
      // Whether the packet at the cursor may be sent after a repair is left to the next turn.
      candidate6 = (packet6_q.go && (packet6_q.more || repairs6))
          || (finding6_q.skip && (repairs6 || next6.cursor_serial != common6_q.tail));
    end
  end

  always_ff @(posedge clk_i) begin
    if (valid_q[6]) begin
      common7_q <= common6_q;
      packet7_q <= packet6_q;
      finding7_q <= finding6_q;
      decision7_q <= decision6_q;
      next7_q <= next6;
      candidate7_q <= candidate6;
      candidate_unless7_q <= candidate_unless6;
      waiting7_q <= waiting6;
      timer_set7_q <= timer_set6;
      take7_q <= take6;
      advance7_q <= advance6;
      if (packet6_q.go) begin
        wire7_q   <= wire_i;
        remote7_q <= wire_i.remote_address + 64'(packet6_q.offset);
      end
    end
  end

  // Stage 7: the grant has arrived. All effects take place here.

  logic     denied7;
  logic     fault7;
  logic     sends7;
  logic     window_open7;
  advance_t outcome7;

  assign denied7 = check_valid7_q && grant_i.verdict != AccessGranted;
  assign fault7 = (common7_q.kind inside {EventHeader, EventTake, EventTimeOut} && decision7_q.fault)
      || (denied7 && (finding7_q.expected || finding7_q.stores || packet7_q.at_head));
  assign sends7 = common7_q.kind == EventTurn && packet7_q.go && !denied7;
  // The packet was denied: its request, at the cursor, fails when all requests before it have completed.
  assign retreat7 = common7_q.kind == EventTurn && denied7;
  assign write7 = valid_q[7];

  always_comb begin
    state_write = retreat7 ? common7_q.state : next7_q;
    if (retreat7) begin
      state_write.failed = 1'b1;
      state_write.failed_first = packet7_q.plan_first;
    end
    if (fault7) begin
      state_write.state   = RequesterError;
      state_write.awaited = '0;
      state_write.early   = '0;
      state_write.repair  = 1'b0;
      state_write.timer   = WaitNothing;
      state_write.failed  = 1'b0;
      state_write.resync  = 1'b0;
      state_write.begun   = 1'b0;
    end
  end

  always_comb begin
    outcome7 = advance7_q;
    if (denied7) begin
      outcome7.status = StatusLocalProtection;
      outcome7.vendor_error = '0;
      if (finding7_q.expected) begin
        outcome7.kind = AdvanceFault;
        outcome7.psn  = common7_q.header.psn;
      end else if (finding7_q.stores) begin
        outcome7.kind = AdvanceFault;
        outcome7.psn  = next7_q.unacknowledged;
      end else if (packet7_q.at_head) begin
        outcome7.kind = AdvanceFault;
        outcome7.psn  = common7_q.state.unacknowledged;
      end
    end
  end

  assign ring_write7  = valid_q[7] && sends7 && packet7_q.new_awaited;

  assign take_enters7 = valid_q[7] && take7_q && !fault7;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) take_waits_q <= 1'b0;
    else take_waits_q <= take_enters7 || take_level > 4'd1 || (take_level == 4'd1 && !room_q);
  end

  // At most as many takes wait as there are stages, since nothing else enters meanwhile.
  fifo #(
    .T    (qp_index_t),
    .Depth(8)
  ) u_takes (
    .clk_i,
    .rst_ni,
    .in_valid_i (take_enters7),
    // verilator lint_off PINCONNECTEMPTY
    .in_ready_o (),
    // verilator lint_on PINCONNECTEMPTY
    .in_i       (qp_q[7]),
    .out_valid_o(take_valid),
    .out_ready_i(room_q),
    .out_o      (take_qp),
    .level_o    (take_level)
  );

  // The window is counted from the new oldest PSN. After going back nothing is outstanding. A repair needs no window.
  assign window_open7 = next7_q.resync || next7_q.repair || decision7_q.cursor_distance < 24'(next7_q.window);

  logic      activate_q;
  qp_index_t activate_qp_q;
  logic      timer_set_q;
  qp_index_t timer_qp_q;
  logic      timer_armed_q;
  cycles_t   timer_deadline_q;
  logic      command_done_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      activate_q     <= 1'b0;
      timer_set_q    <= 1'b0;
      command_done_q <= 1'b0;
    end else begin
      activate_q <= valid_q[7] && (candidate7_q || (candidate_unless7_q && !waiting7_q)) && !fault7 && !retreat7
          && (common7_q.kind == EventTurn || window_open7);
      timer_set_q <= valid_q[7] && ((timer_set7_q && !retreat7) || fault7);
      command_done_q <= valid_q[7] && common7_q.kind == EventCommand;
    end
    if (valid_q[7]) begin
      activate_qp_q <= qp_q[7];
      timer_qp_q <= qp_q[7];
      timer_armed_q <= next7_q.timer != WaitNothing && !fault7;
      timer_deadline_q <= next7_q.deadline;
    end
  end

  assign activate_valid_o = activate_q;
  assign activate_o = activate_qp_q;
  assign timer_set_o = timer_set_q;
  assign timer_index_o = timer_qp_q;
  assign timer_armed_o = timer_armed_q;
  assign timer_deadline_o = timer_deadline_q;
  assign command_done_o = command_done_q;

  // Verdicts.

  requester_verdict_t verdict_in;
  logic               verdict_push;

  assign verdict_push = valid_q[7] && (common7_q.kind == EventHeader || outcome7.kind != AdvanceNone);
  assign verdict_in = '{
          qp: qp_q[7],
          packet: common7_q.kind == EventHeader,
          place: (finding7_q.expected || finding7_q.stores) && check_valid7_q && !denied7 && !decision7_q.own,
          target: grant_i.target,
          write_through: grant_i.write_through,
          address: packet7_q.address,
          bytes: common7_q.header.bytes,
          offset: common7_q.header.offset,
          original: original[step_q-3'(Stages)],
          advance: outcome7
      };

  requester_verdicts u_verdicts (
    .clk_i,
    .rst_ni,
    .push_i(verdict_push),
    .push_data_i(verdict_in),
    .level_o(verdict_level),
    .verdict_valid_o,
    .verdict_ready_i,
    .verdict_o
  );

  // Packets to send.

  requester_packet_t outgoing_in;
  opcode_e           opcode7;
  logic              payload7;

  always_comb begin
    unique case (packet7_q.operation)
      OperationSend:
      unique case ({
        packet7_q.first, packet7_q.last
      })
        2'b11:   opcode7 = packet7_q.has_immediate ? SendOnlyImmediate : SendOnly;
        2'b10:   opcode7 = SendFirst;
        2'b01:   opcode7 = packet7_q.has_immediate ? SendLastImmediate : SendLast;
        default: opcode7 = SendMiddle;
      endcase
      OperationWrite:
      unique case ({
        packet7_q.first, packet7_q.last
      })
        2'b11:   opcode7 = packet7_q.has_immediate ? WriteOnlyImmediate : WriteOnly;
        2'b10:   opcode7 = WriteFirst;
        2'b01:   opcode7 = packet7_q.has_immediate ? WriteLastImmediate : WriteLast;
        default: opcode7 = WriteMiddle;
      endcase
      OperationRead: opcode7 = ReadRequest;
      OperationCompareSwap: opcode7 = CompareSwap;
      default: opcode7 = FetchAdd;
    endcase
  end

  assign payload7 = !packet7_q.has_response && packet7_q.bytes != '0;
  assign outgoing_in = '{
          qp: qp_q[7],
          opcode: opcode7,
          psn: common7_q.state.repair ? common7_q.state.unacknowledged : common7_q.state.cursor,
          request: packet7_q.request,
          solicited: packet7_q.solicited,
          remote_address: remote7_q,
          rkey: wire7_q.rkey,
          length: packet7_q.length,
          swap_or_add: wire7_q.swap_or_add,
          compare: packet7_q.operation == OperationCompareSwap ? wire7_q.compare : '0,
          bytes: payload7 ? packet7_q.bytes : '0,
          again: packet7_q.again,
          target: payload7 ? grant_i.target : TargetRegister,
          address: packet7_q.address
      };

  requester_packets u_packets (
    .clk_i,
    .rst_ni,
    .push_i(valid_q[7] && sends7),
    .push_data_i(outgoing_in),
    .level_o(transmit_level),
    .transmit_valid_o,
    .transmit_ready_i,
    .transmit_o
  );

  fifo #(
    .T    (qp_index_t),
    .Depth(OutputDepth)
  ) u_fails (
    .clk_i,
    .rst_ni,
    .in_valid_i (valid_q[7] && fault7),
    // verilator lint_off PINCONNECTEMPTY
    .in_ready_o (),
    // verilator lint_on PINCONNECTEMPTY
    .in_i       (qp_q[7]),
    .out_valid_o(fail_valid_o),
    .out_ready_i(fail_ready_i),
    .out_o      (fail_o),
    .level_o    (fail_level)
  );

  assign sent_o = valid_q[7] && sends7;
  assign sent_packet_o = outgoing_in;

  always_ff @(posedge clk_i) begin
    marked_o <= rst_ni && valid_q[2] && live2_q && common2_q.header.marked;
    notified_o <= rst_ni && valid_q[2] && live2_q && common2_q.header.notification;
    congested_qp_o <= qp_q[2];
  end

  // Counter events, each raised where it is detected.
  request_side_events_t events_q;

  assign events_o = events_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      events_q <= '0;
    end else begin
      events_q <= '0;
      if (valid_q[2]) begin
        events_q.rcvd_pkts <= common2_q.kind == EventHeader;
        events_q.drop_unknown_queue_pair <= unknown2_q;
        events_q.drop_partition_key <= partition2_q;
        events_q.drop_wrong_state <= wrong_state2_q;
        events_q.drop_wrong_source <= wrong_source2_q;
        events_q.congestion_marks <= live2_q && (common2_q.header.marked || common2_q.header.notification);
        events_q.drop_stale_response <= stale2;
        events_q.drop_ghost_response <= ghost2;
        events_q.drop_malformed <= misplaced2;
        events_q.drop_reserved_syndrome <= in_range2 && common2_q.header.acknowledge && reserved2;
      end
      if (valid_q[5]) begin
        events_q.rcvd_rnr_err <= rnr5;
        events_q.rcvd_seq_err <= sequence5;
        events_q.rcvd_invalid_request <= refused5 && common5_q.header.syndrome == SyndromeInvalidRequest;
        events_q.rcvd_access_error <= refused5 && common5_q.header.syndrome == SyndromeRemoteAccess;
        events_q.rcvd_operational_error <= refused5 && common5_q.header.syndrome == SyndromeRemoteOperational;
        events_q.implied_nak_seq_err <= go_back5;
        events_q.ack_timeout <= finding5_q.expired && common5_q.state.timer == WaitAcknowledgement;
        events_q.retry_exceeded_err <= exceeded5;
        events_q.retry_rnr_exceeded_err <= rnr_exceeded5;
        events_q.completer_retry_err <= decision5.retry || decision5.rnr;
      end
      if (valid_q[7] && denied7) begin
        events_q.send_err <= 1'b1;
        events_q.violation_key <= grant_i.verdict == AccessUnknownKey;
        events_q.violation_domain <= grant_i.verdict == AccessWrongDomain;
        events_q.violation_bounds <= grant_i.verdict == AccessOutOfBounds;
        events_q.violation_permission <= grant_i.verdict == AccessForbidden;
      end
    end
  end

  assign idle_o = ready_o && valid_q == '0 && !turn_valid_i && !header_valid_i && !expired_valid_i && !command_valid_i
      && !query_valid_i && !query_busy_q && !take_waits_q && !verdict_valid_o && !transmit_valid_o && !fail_valid_o
      && !activate_q && !timer_set_q;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (take_waits_q == take_valid)
      else $error("the register of waiting takes differs from their queue");
    end
    if (rst_ni && valid_q[7]) begin
      assert (!verdict_level[5] && !transmit_level[5] && !fail_level[5] && !(take_level[3] && take7_q))
      else $error("no room for an effect");
      assert (common7_q.state.awaited <= 5'(ResponderResources))
      else $error("more is awaited than is allowed");
      if (common7_q.state.state == RequesterReady) begin
        assert (!psn_before(common7_q.state.cursor, common7_q.state.unacknowledged))
        else $error("the cursor lies before what is acknowledged");
        assert (!psn_before(common7_q.state.sent, common7_q.state.cursor))
        else $error("the cursor lies behind all that was sent");
        if (common7_q.state.early != '0) begin
          assert (common7_q.state.awaited != '0)
          else $error("a response was stored that nobody awaits");
          assert (common7_q.kind == EventTake
                  || (!common7_q.state.early[0] && common7_q.state.unacknowledged == common7_q.state.response))
          else $error("an event overtakes the responses that are to be taken");
        end
        assert (!common7_q.state.repair || psn_before(common7_q.state.unacknowledged, common7_q.state.cursor))
        else $error("a repair of what is not outstanding");
        assert (!(common7_q.kind == EventHeader && common7_q.state.timer == WaitReceiverReady && !decision7_q.advances
                  && next7_q.timer != WaitReceiverReady))
        else $error("a wait for the receiver ends before its time");
      end
    end
  end

endmodule
