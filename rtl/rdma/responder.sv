// The receiving half of the responder. It decides for each request packet whether it is executed, refused, answered
// again or dropped, and keeps the receive state of all queue pairs (InfiniBand volume 1, clauses 9.7.4 and 9.7.5).
//
// Latency: a verdict follows its header after 7 cycles. A change of access rights by an engine is accepted with the
// packets, and applies to all packets accepted from the second cycle after it; up to 6 cycles later if a packet of
// its queue pair is in the pipeline. Throughput: one packet a cycle of different queue pairs, one in 7 cycles of the
// same; one receive request in 3 cycles, one control in 9. Ordering: verdicts are in the order of the headers; the
// events of one queue pair are processed in the order in which they were accepted. A RESET waits until the
// completions of receive requests that a fault flushed have been reported. Headers stall while the output is full;
// while the next header's queue pair has another packet in the pipeline; for up to 20 cycles to look up a duplicate
// on a queue pair that keeps READs or atomics; while more than 8 queue pairs wait to be flushed; and in the first
// `QueuePairs` cycles after reset, in which all queue pairs are put into state RESET.
//
// A duplicate SEND or WRITE is acknowledged up to, and excluding, the oldest READ or atomic behind it. The requester
// retransmits because it has completed nothing from there on. Some requesters take an acknowledgement of a READ's own
// PSN as its completion, although its data never came. A READ or atomic that is no longer kept has completed, because
// the requester may not have more READs and atomics outstanding than there are resources.
//
// Pipeline stages. An interlock keeps events of one queue pair apart, so no forwarding is needed:
//   0  accept; read state, attributes, answered READs
//   1  compare PSN, source, state; read or write the ring of receive requests
//   2  request the access check; look up a duplicate (waits)
//   3  decide all that does not depend on the grant
//   4  compute the state that follows an accepted packet
//   5  the grant has arrived: decide
//   6  write the state back; push the verdict into the output queue
module responder
  import weft_pkg::*;
  import responder_pkg::*;
#(
  // Payload bytes that may be in flight to the host; 0: no limit.
  parameter int unsigned        HostCreditBytes = 32768,
  // Calls of engines that may be in flight or queued.
  parameter int unsigned        RpcCredits      = 16,
  parameter logic        [15:0] PartitionKey    = 16'hffff
) (
  input logic clk_i,
  input logic rst_ni,

  // Commands of the driver. Done is a pulse when all later packets meet the new state. A change of access rights also
  // puts a marker among the verdicts.
  input  logic      control_valid_i,
  output logic      control_ready_o,
  input  control_t  control_i,
  output logic      control_done_o,
  // Commands of an engine: like ControlAccess, with priority.
  input  logic      permission_valid_i,
  output logic      permission_ready_o,
  input  qp_index_t permission_qp_i,
  input  access_t   permission_access_i,
  // The requester or the responses block found a fault: this queue pair enters ERROR.
  input  logic      fail_valid_i,
  output logic      fail_ready_o,
  input  qp_index_t fail_i,
  // The responder refused a request: the requester of this queue pair must enter ERROR.
  output logic      fail_valid_o,
  input  logic      fail_ready_i,
  output qp_index_t fail_o,

  input  logic             receive_valid_i,
  output logic             receive_ready_o,
  input  receive_request_t receive_i,
  input  logic             header_valid_i,
  output logic             header_ready_o,
  input  roce_header_t     header_i,
  // The request was kept in this place until now; `deferred`: the one before it has left its acknowledgement to it.
  input  logic             header_kept_i,
  input  logic             header_deferred_i,
  input  reorder_place_t   header_place_i,

  // Requests behind a gap are kept, if there is room (see `reorder`).
  input  logic             keeps_i,
  output logic             reserve_o,
  output roce_header_t     reserve_header_o,
  input  logic             room_i,
  input  reorder_place_t   room_place_i,
  output qp_index_t        search_qp_o,
  output psn_t             search_psn_o,
  input  logic             found_i,
  input  logic             any_i,
  output logic             reorder_valid_o,
  output reorder_command_t reorder_o,
  // The host has room for the payloads of some kept requests. They come faster than packets from the wire, so they
  // wait for it, and are not dropped.
  output logic             release_o,

  // Read port of the queue pair table: data one cycle after the read.
  output logic            table_read_o,
  output qp_index_t       table_index_o,
  /* verilator lint_off UNUSEDSIGNAL */  // fields that only the requester uses
  input  queue_pair_t     table_data_i,
  /* verilator lint_on UNUSEDSIGNAL */
  // The region table: the grant three cycles after the request.
  output logic            check_valid_o,
  output access_request_t check_o,
  input  access_grant_t   grant_i,

  // Payload bytes that have reached the host.
  input logic           credit_return_valid_i,
  input payload_bytes_t credit_return_i,
  // Pulse: one call has left the queue of calls.
  input logic           rpc_free_i,
  // Pulse, exactly one for each READ or atomic: its first response has been sent, abandoned or dropped.
  input logic           answered_valid_i,
  input qp_index_t      answered_qp_i,

  // An AnswerAcknowledge with `duplicate` set does not replace a pending refusal. Any other answer, not itself a
  // refusal, whose `syndrome` is SyndromeSequenceError belongs to a packet with a gap behind it: if a refusal is
  // still pending, the refusal's PSN becomes that of the next packet.
  output logic       verdict_valid_o,
  input  logic       verdict_ready_i,
  output placement_t verdict_o,

  // Valid may be a pulse or held until done; the answer holds until the next query.
  input  logic             query_valid_i,
  input  qp_index_t        query_index_i,
  output logic             query_done_o,
  output responder_query_t query_o,

  output responder_events_t events_o,
  // The queue pair of the packet that `congestion_marks` counts.
  output qp_index_t         marked_qp_o,
  output logic              idle_o
);

  localparam int unsigned VerdictDepth = 16;
  localparam int unsigned ListDepth = 16;

  // Data of the reads made in the cycle before.
  state_t                                   read_state;
  resource_count_t                          read_answered;
  receive_t                                 read_receive;

  logic                                     s1_valid_q;
  logic                                     s2_valid_q;
  logic                                     s3_valid_q;
  logic                                     s4_valid_q;
  logic                                     s5_valid_q;
  logic                                     s6_valid_q;
  event_t                                   s1_event_q;
  work_t                                    s3_q;
  work_t                                    s4_q;
  work_t                                    s5_q;
  /* verilator lint_off UNUSEDSIGNAL */  // fields that only earlier stages read
  work_t                                    s6_q;
  /* verilator lint_on UNUSEDSIGNAL */
  qp_index_t                                s2_qp;

  // Stage 2 waits for the lookup of a duplicate; stages 0 and 1 wait with it.
  logic                                     wait_lookup;
  // Stage 6 holds a RESET that must be repeated once the receive requests are flushed.
  logic                                     s6_again;

  // Stage 0: accepts an event and reads the state of its queue pair.

  // Index of the next queue pair to put into state RESET; the highest bit is set when all are.
  logic            [  $clog2(QueuePairs):0] clear_q;
  logic                                     ready;
  // Verdicts in the output queue, plus slots reserved for verdicts still in the pipeline.
  logic            [$clog2(VerdictDepth):0] reserved_q;
  logic                                     open;
  logic                                     quiet;
  logic                                     side_valid;
  logic                                     side_ready;
  event_t                                   side;
  qp_index_t                                header_qp;
  logic                                     accept;
  event_t                                   accepted;
  logic            [   $clog2(ListDepth):0] flush_level;
  logic            [   $clog2(ListDepth):0] fail_level;
  logic                                     flush_valid;
  qp_index_t                                flush_qp;
  logic                                     flush_new;
  logic                                     posted;
  logic                                     intake_idle;

  assign ready = clear_q[$clog2(QueuePairs)];
  // The list must also hold every queue pair that an event in the pipeline could still add.
  assign quiet = ready && flush_level <= 5'd8;

  responder_intake u_intake (
    .clk_i,
    .rst_ni,
    .quiet_i        (quiet),
    .permission_valid_i,
    .permission_ready_o,
    .permission_qp_i,
    .permission_access_i,
    .control_valid_i,
    .control_ready_o,
    .control_i,
    .control_done_i (s6_valid_q && s6_q.change.control && !s6_again),
    .control_again_i(s6_valid_q && s6_again),
    .fail_valid_i,
    .fail_ready_o,
    .fail_i,
    .flush_valid_i  (flush_valid),
    .flush_i        (flush_qp),
    .flushed_i      (s6_valid_q && s6_q.change.kind == EventFlush),
    .query_valid_i,
    .query_i        (query_index_i),
    .query_done_i   (query_done_o),
    .post_valid_i   (receive_valid_i),
    .post_i         (receive_i.qp),
    .posted_i       (posted),
    .event_valid_o  (side_valid),
    .event_ready_i  (side_ready),
    .event_o        (side),
    .idle_o         (intake_idle)
  );

  function automatic logic same(logic valid, qp_index_t one, qp_index_t other);
    return valid && one == other;
  endfunction

  function automatic logic in_flight(qp_index_t qp, logic [6:1] valid, qp_index_t [6:1] stages);
    logic result = 1'b0;
    for (int unsigned stage = 1; stage <= 6; stage++) result |= same(valid[stage], qp, stages[stage]);
    return result;
  endfunction

  logic      [6:1] stage_valid;
  qp_index_t [6:1] stage_qp;

  assign stage_valid = {s6_valid_q, s5_valid_q, s4_valid_q, s3_valid_q, s2_valid_q, s1_valid_q};
  assign stage_qp = {s6_q.change.qp, s5_q.change.qp, s4_q.change.qp, s3_q.change.qp, s2_qp, s1_event_q.qp};
  assign header_qp = header_i.destination_qp[$bits(qp_index_t)-1:0];
  assign open = ready && !wait_lookup && reserved_q < 5'(VerdictDepth);
  assign side_ready = open && !in_flight(side.qp, stage_valid, stage_qp);
  assign header_ready_o = open && !(side_valid && side_ready) && quiet && fail_level <= 5'd8 && !in_flight(
      header_qp, stage_valid, stage_qp
  );
  assign accept = (side_valid && side_ready) || (header_valid_i && header_ready_o);

  always_comb begin
    accepted = side;
    if (!(side_valid && side_ready)) begin
      accepted = '{
          kind: header_kept_i ? EventKept : EventHeader,
          control: 1'b0,
          qp: header_qp,
          argument: packet_argument_t'{deferred: header_deferred_i, place: header_place_i, default: '0}
      };
    end
  end

  assign table_read_o  = accept;
  assign table_index_o = accepted.qp;

  responder_answered u_answered (
    .clk_i,
    .rst_ni,
    .clear_i    (!ready),
    .clear_qp_i (clear_q[$clog2(QueuePairs)-1:0]),
    .pulse_i    (answered_valid_i),
    .pulse_qp_i (answered_qp_i),
    .read_i     (accept),
    .read_qp_i  (accepted.qp),
    .read_data_o(read_answered)
  );

  state_t write_state;

  ram #(
    .T    (state_t),
    .Depth(QueuePairs)
  ) u_state (
    .clk_i,
    .write_i        (!ready || s6_valid_q),
    .write_address_i(ready ? s6_q.change.qp : clear_q[$clog2(QueuePairs)-1:0]),
    .write_data_i   (ready ? write_state : '0),
    .read_i         (accept),
    .read_address_i (accepted.qp),
    .read_data_o    (read_state)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_q <= '0;
    else if (!ready) clear_q <= clear_q + 1'b1;
  end

  // Stage 1: compares PSN, source and state; reads or writes the ring of receive requests.

  roce_header_t   s1_header_q;
  logic           s1_packet;
  logic           s1_kept;
  meaning_t       s1_meaning;
  outcome_e       s1_outcome;
  logic           s1_turn;
  logic           s1_lookup;
  psn_t           s1_distance;
  logic           s1_same_partition;
  receive_count_t s1_receives;
  logic           s1_post;
  logic           s1_response;

  assign s1_kept = s1_event_q.kind == EventKept;
  assign s1_packet = s1_kept || s1_event_q.kind == EventHeader;
  assign s1_meaning = meaning(s1_header_q.opcode);
  assign s1_response = s1_meaning.read || s1_meaning.atomic;
  assign s1_distance = s1_header_q.psn - read_state.expected;
  // Keys match if their low 15 bits do and at least one has full membership (clause 10.9.3).
  assign s1_same_partition = s1_header_q.partition_key[14:0] == PartitionKey[14:0]
                             && (s1_header_q.partition_key[15] || PartitionKey[15]);

  always_comb begin
    s1_outcome = OutcomeNone;
    s1_turn = 1'b0;
    s1_lookup = 1'b0;
    if (!s1_packet) s1_outcome = OutcomeNone;
    else if (!s1_meaning.known) s1_outcome = OutcomeMalformed;
    // The lowest queue pair numbers are reserved by the specification.
    else if (table_data_i.number != s1_header_q.destination_qp || s1_header_q.destination_qp[23:$bits(
            qp_index_t
        )] == '0)
      s1_outcome = OutcomeUnknownQueuePair;
    else if (!s1_same_partition) s1_outcome = OutcomePartition;
    else if (read_state.state != ResponderReady) s1_outcome = OutcomeState;
    else if (table_data_i.destination != s1_header_q.source) s1_outcome = OutcomeSource;
    else if (s1_distance == '0) s1_turn = 1'b1;
    else if (s1_kept) s1_outcome = OutcomeOvertaken;
    else if (!s1_distance[23]) s1_outcome = OutcomeAhead;
    else begin
      s1_outcome = s1_response ? OutcomeUnknownDuplicate : OutcomeDuplicate;
      s1_lookup  = read_state.saved != '0;
    end
  end

  assign s1_receives = read_state.tail - read_state.head;
  assign s1_post = read_state.state != ResponderReset && !s1_receives[ReceiveBits];
  assign posted = s1_valid_q && s1_event_q.kind == EventPost && !wait_lookup;
  assign receive_ready_o = posted;

  ram #(
    .T    (receive_t),
    .Depth(QueuePairs * ReceiveQueueDepth),
    .Style("ultra")
  ) u_receives (
    .clk_i,
    .write_i        (posted && s1_post),
    .write_address_i({s1_event_q.qp, read_state.tail[ReceiveBits-1:0]}),
    .write_data_i   ('{id: receive_i.id, address: receive_i.address, length: receive_i.length, lkey: receive_i.lkey}),
    .read_i         (s1_valid_q && !wait_lookup),
    .read_address_i ({s1_event_q.qp, read_state.head[ReceiveBits-1:0]}),
    .read_data_o    (read_receive)
  );

  always_ff @(posedge clk_i) begin
    if (!wait_lookup && accept) begin
      s1_event_q <= accepted;
      if (accepted.kind inside {EventHeader, EventKept}) s1_header_q <= header_i;
    end
  end

  // Stage 2: requests the access check, and looks up a duplicate.

  event_t                 s2_event_q;
  /* verilator lint_off UNUSEDSIGNAL */  // fields that stage 1 has used, and fields that only responses have
  roce_header_t           s2_header_q;
  /* verilator lint_on UNUSEDSIGNAL */
  meaning_t               s2_meaning_q;
  state_t                 s2_state_q;
  outcome_e               s2_outcome_q;
  logic                   s2_turn_q;
  logic                   s2_lookup_q;
  psn_t                   s2_distance_q;
  logic                   s2_empty_q;
  logic                   s2_response_q;
  resource_count_t        s2_waiting_q;
  logic            [15:0] s2_domain_q;
  logic            [ 2:0] s2_path_mtu_q;
  resource_count_t        s2_resources_q;
  logic            [ 4:0] s2_rnr_timer_q;
  // Address of the message's next packet; the highest bit means that it is past the end of the address space.
  logic            [64:0] s2_next_q;
  logic            [31:0] s2_rest_q;

  always_ff @(posedge clk_i) begin
    if (!wait_lookup && s1_valid_q) begin
      s2_event_q   <= s1_event_q;
      s2_state_q   <= read_state;
      s2_outcome_q <= s1_outcome;
      s2_turn_q    <= s1_turn;
      s2_lookup_q  <= s1_lookup;
      if (posted) begin
        if (s1_post) s2_state_q.tail <= read_state.tail + 1'b1;
        else s2_event_q.kind <= EventDropped;
      end
      s2_empty_q   <= s1_receives == '0;
      s2_meaning_q <= s1_packet ? s1_meaning : '0;
      if (s1_packet) begin
        s2_header_q    <= s1_header_q;
        s2_distance_q  <= s1_distance;
        s2_response_q  <= s1_response;
        s2_waiting_q   <= read_state.issued - read_answered;
        s2_domain_q    <= table_data_i.domain;
        s2_path_mtu_q  <= table_data_i.path_mtu;
        s2_resources_q <= table_data_i.max_dest_rd_atomic;
        s2_rnr_timer_q <= table_data_i.min_rnr_timer;
        s2_next_q      <= {1'b0, read_state.address} + 65'(read_state.done);
        s2_rest_q      <= read_state.length - read_state.done;
      end
    end
  end

  logic            lookup_done;
  logic            lookup_found;
  logic            lookup_part;
  resource_index_t lookup_resource;
  psn_t            lookup_behind;
  logic            save;
  saved_t          saved;

  assign s2_qp = s2_event_q.qp;
  assign wait_lookup = s2_valid_q && s2_lookup_q && !lookup_done;

  responder_lookup u_lookup (
    .clk_i,
    .rst_ni,
    .save_i         (save),
    .save_qp_i      (s6_q.change.qp),
    .save_resource_i(s6_q.state.resource),
    .save_data_i    (saved),
    .start_i        (s2_valid_q && s2_lookup_q),
    .qp_i           (s2_event_q.qp),
    .resource_i     (s2_state_q.resource),
    .resources_i    (s2_resources_q),
    .saved_i        (s2_state_q.saved),
    .expected_i     (s2_state_q.expected),
    .response_i     (s2_response_q),
    .psn_i          (s2_header_q.psn),
    .distance_i     (s2_distance_q),
    .atomic_i       (s2_meaning_q.atomic),
    .address_i      (s2_header_q.address),
    .rkey_i         (s2_header_q.rkey),
    .length_i       (s2_header_q.length),
    .path_mtu_i     (s2_path_mtu_q),
    .done_o         (lookup_done),
    .found_o        (lookup_found),
    .part_o         (lookup_part),
    .resource_o     (lookup_resource),
    .behind_o       (lookup_behind)
  );

  // Path MTU codes 1 to 5 mean 256 to 4096 bytes.
  payload_bytes_t s2_mtu;
  assign s2_mtu = 13'd128 << s2_path_mtu_q;

  outcome_e        s2_outcome;
  psn_t            s2_psn;
  resource_count_t s2_behind_resource;

  assign s2_outcome = s2_lookup_q && lookup_found ? OutcomeAgain : s2_outcome_q;
  assign s2_behind_resource = resource_count_t'(s2_state_q.resource) + 1'b1;

  // PSN of the answer: the last request executed, or for a duplicate the last one that may be acknowledged; or the
  // packet itself.
  always_comb begin
    s2_psn = s2_state_q.expected;
    if (s2_outcome_q == OutcomeDuplicate) s2_psn = (s2_lookup_q ? lookup_behind : s2_state_q.expected) - 1'b1;
    else if (s2_lookup_q) s2_psn = s2_header_q.psn;
  end

  access_t        s2_needs;
  logic    [31:0] s2_check_bytes;
  logic    [63:0] s2_address;

  always_comb begin
    s2_needs = '0;
    s2_needs.local_write = s2_meaning_q.send;
    s2_needs.remote_write = s2_meaning_q.write;
    s2_needs.remote_read = s2_meaning_q.read;
    s2_needs.remote_atomic = s2_meaning_q.atomic;
    // The first packet of a WRITE is checked for the whole range, so that no part of a WRITE that leaves its region
    // is stored. Each further packet is checked again, because the access rights may have changed.
    if (s2_meaning_q.atomic) s2_check_bytes = 32'd8;
    else if (s2_meaning_q.send || !s2_meaning_q.starts) s2_check_bytes = 32'(s2_header_q.payload_bytes);
    else s2_check_bytes = s2_header_q.length;
    if (!s2_meaning_q.starts) s2_address = s2_next_q[63:0];
    else if (s2_meaning_q.send) s2_address = read_receive.address;
    else s2_address = s2_header_q.address;
  end

  assign check_valid_o = s2_valid_q && s2_turn_q;

  always_comb begin
    check_o = '{
        remote: !s2_meaning_q.send,
        key: s2_header_q.rkey,
        domain: s2_domain_q,
        address: s2_address,
        bytes: s2_check_bytes,
        needs: s2_needs
    };
    if (!s2_meaning_q.starts) check_o.key = s2_state_q.key;
    else if (s2_meaning_q.send) check_o.key = read_receive.lkey;
  end

  logic                  s2_length_zero;
  payload_bytes_t        s2_payload;
  logic                  s2_full;
  logic                  s2_over;
  logic           [31:0] s2_rest;
  psn_t                  s2_packets;
  logic           [31:0] s2_tail;

  assign s2_payload = s2_header_q.payload_bytes;
  assign s2_full = s2_payload == s2_mtu;
  assign s2_over = s2_payload > s2_mtu;
  assign s2_length_zero = s2_header_q.length == '0;
  // Bytes of the message that are missing, this packet's included.
  assign s2_rest = !s2_meaning_q.starts ? s2_rest_q : s2_meaning_q.send ? read_receive.length : s2_header_q.length;
  assign s2_packets = psn_t'((s2_header_q.length >> 7) >> s2_path_mtu_q);
  assign s2_tail = s2_header_q.length & (32'(s2_mtu) - 1'b1);

  // A packet behind a gap gets a place to be kept in.

  logic   s2_keepable;
  logic   s2_reserves;
  event_t s2_event;

  assign s2_keepable = keeps_i && s2_outcome_q == OutcomeAhead && s2_state_q.gap != GapNotReady && !s2_over;
  assign s2_reserves = s2_keepable && !s2_state_q.overflow && room_i;
  assign reserve_o = s2_valid_q && s2_reserves;
  assign reserve_header_o = s2_header_q;

  always_comb begin
    s2_event = s2_event_q;
    if (s2_keepable) s2_event.argument = packet_argument_t'{reserved: s2_reserves, place: room_place_i, default: '0};
  end

  facts_t s2_facts;

  always_comb begin
    s2_facts.invalid_order = s2_meaning_q.starts != (s2_state_q.inbound == InboundIdle)
                             || (!s2_meaning_q.starts
                                 && s2_state_q.inbound != (s2_meaning_q.send ? InboundSend : InboundWrite));
    // A FIRST or MIDDLE packet is full, a LAST packet is not empty, and no packet exceeds the path MTU.
    s2_facts.invalid_payload = s2_meaning_q.ends ? s2_over || (s2_payload == '0 && !s2_meaning_q.starts) : !s2_full;
    s2_facts.short_of_rest = 32'(s2_payload) < s2_rest;
    s2_facts.is_rest = 32'(s2_payload) == s2_rest;
    s2_facts.beyond_rest = 32'(s2_payload) > s2_rest;
    s2_facts.too_long = s2_header_q.length[31] && s2_header_q.length[30:0] != '0;
    s2_facts.no_resource = s2_waiting_q >= s2_resources_q;
    s2_facts.misaligned = s2_header_q.address[2:0] != '0;
    s2_facts.overflow = s2_next_q[64] && !s2_meaning_q.starts;
    s2_facts.has_payload = s2_payload != '0;
    s2_facts.length_zero = s2_length_zero;
    s2_facts.partial = s2_tail != '0;
    s2_facts.full = s2_packets;
  end

  // Stage 3: decides all that does not depend on the grant of the access check.

  facts_t s3_facts_q;
  psn_t   s3_distance_q;

  always_ff @(posedge clk_i) begin
    if (s2_valid_q && !wait_lookup) begin
      s3_facts_q <= s2_facts;
      s3_distance_q <= s2_distance_q;
      s3_q.change <= s2_event;
      s3_q.keepable <= s2_keepable;
      s3_q.refused <= s2_keepable && !room_i;
      s3_q.meaning <= s2_meaning_q;
      s3_q.outcome <= s2_outcome;
      s3_q.turn <= s2_turn_q;
      s3_q.allowed  <= (s2_needs & {s2_state_q.access.remote_atomic, s2_state_q.access.remote_read,
                                    s2_state_q.access.remote_write, 1'b1}) != '0;
      s3_q.empty <= s2_empty_q;
      s3_q.fetch_add <= s2_header_q.opcode == FetchAdd;
      s3_q.acknowledge_request <= s2_header_q.acknowledge_request;
      s3_q.marked <= s2_header_q.marked;
      s3_q.rnr_timer <= s2_rnr_timer_q;
      s3_q.resources <= s2_resources_q;
      s3_q.bytes <= s2_payload;
      s3_q.offset <= s2_header_q.payload_offset;
      s3_q.address <= s2_address[47:0];
      s3_q.first     <= s2_meaning_q.read ? s2_header_q.address
                        : s2_meaning_q.atomic ? s2_header_q.swap_or_add : read_receive.id;
      s3_q.second    <= s2_meaning_q.read ? {s2_header_q.rkey, s2_header_q.length}
                        : s2_meaning_q.atomic ? s2_header_q.compare : 64'(s2_header_q.immediate);
      s3_q.resource <= s2_lookup_q ? lookup_resource : s2_state_q.resource;
      s3_q.next_resource <= s2_behind_resource >= s2_resources_q ? '0 : s2_behind_resource[ResourceBits-1:0];
      s3_q.psn <= s2_psn;
      s3_q.arrived <= s2_header_q.psn;
      s3_q.witnessed <= s2_state_q.witness_valid
                        && (s2_state_q.witness_repeated
                            ? s2_distance_q == 24'd1 : s2_state_q.witness == s2_header_q.psn);
      s3_q.state <= s2_state_q;
      // Defaults; later stages set these fields.
      s3_q.check <= 1'b0;
      s3_q.silent <= 1'b0;
      s3_q.refuse_after <= 1'b0;
      s3_q.part <= lookup_part;
      s3_q.done <= '0;
      s3_q.packets <= '0;
      s3_q.expected <= '0;
      s3_q.early <= '0;
      if (s2_turn_q && s2_meaning_q.starts) begin
        s3_q.state.address <= s2_address;
        s3_q.state.key     <= s2_meaning_q.send ? read_receive.lkey : s2_header_q.rkey;
        s3_q.state.length  <= s2_meaning_q.send ? read_receive.length : s2_header_q.length;
        s3_q.state.done    <= '0;
      end
    end
  end

  outcome_e s3_outcome;
  logic     s3_check;
  logic     s3_refuse_after;

  responder_judge u_judge (
    .work_i        (s3_q),
    .facts_i       (s3_facts_q),
    .outcome_o     (s3_outcome),
    .check_o       (s3_check),
    .refuse_after_o(s3_refuse_after)
  );

  psn_t s3_packets;

  always_comb begin
    s3_packets = psn_t'(1);
    if (s3_q.meaning.read && !s3_facts_q.length_zero) s3_packets = s3_facts_q.full + psn_t'(s3_facts_q.partial);
  end

  // Stage 4: computes the state that follows an accepted packet.

  psn_t s4_early;

  always_ff @(posedge clk_i) begin
    if (s3_valid_q) begin
      s4_q <= s3_q;
      s4_q.outcome <= s3_outcome;
      s4_q.check <= s3_check;
      s4_q.silent <= s3_q.meaning.write && s3_q.meaning.starts && s3_facts_q.length_zero;
      s4_q.refuse_after <= s3_refuse_after;
      s4_q.packets <= s3_packets;
      // How far early packets reach if this one is early.
      s4_q.early <= s3_distance_q + 1'b1;
      s4_q.done <= s3_q.state.done + 32'(s3_q.bytes);
    end
  end

  always_comb begin
    s4_early = s4_q.early > s4_q.state.early ? s4_q.early : s4_q.state.early;
    if (s4_q.turn) s4_early = s4_q.state.early > s4_q.packets ? s4_q.state.early - s4_q.packets : '0;
  end

  // Stage 5: the grant of the access check has arrived.

  logic     s5_granted;
  logic     s5_call;
  logic     s5_takes_receive;
  logic     s5_to_host;
  logic     s5_host_enough;
  logic     s5_rpc_enough;
  outcome_e s5_outcome;
  logic     s5_check_failed;

  always_ff @(posedge clk_i) begin
    if (s4_valid_q) begin
      s5_q <= s4_q;
      s5_q.expected <= s4_q.state.expected + s4_q.packets;
      s5_q.early <= s4_early;
    end
  end

  assign s5_granted = s5_q.check && grant_i.verdict == AccessGranted && (!s5_q.silent || s5_q.allowed);
  assign s5_call = s5_q.meaning.write && s5_q.meaning.ends && s5_granted && grant_i.rpc;
  // A call passes its immediate data to the engine, so it consumes no receive request.
  assign s5_takes_receive = s5_q.meaning.ends
                            && (s5_q.meaning.send || (s5_q.meaning.write && s5_q.meaning.immediate && !s5_call));
  assign s5_to_host = (s5_q.meaning.send || s5_q.meaning.write) && s5_q.bytes != '0 && grant_i.target == TargetHost;
  assign s5_check_failed = s5_q.check && !s5_q.silent && grant_i.verdict != AccessGranted;

  always_comb begin
    s5_outcome = s5_q.outcome;
    if (s5_q.turn && s5_q.outcome == OutcomeNone) begin
      if (s5_check_failed) s5_outcome = s5_q.meaning.send ? OutcomeProtection : OutcomeAccess;
      else if (s5_q.refuse_after) s5_outcome = OutcomeInvalid;
      else if (s5_takes_receive && s5_q.empty) s5_outcome = OutcomeNotReady;
      else if (s5_call && !s5_rpc_enough) s5_outcome = OutcomeNoCall;
      else if (s5_to_host && !s5_host_enough) s5_outcome = OutcomeNoCredit;
      else s5_outcome = OutcomeAccept;
    end
  end

  logic s5_host_half;

  always_ff @(posedge clk_i) release_o <= s5_host_half;

  responder_credits #(
    .HostCreditBytes(HostCreditBytes),
    .RpcCredits     (RpcCredits)
  ) u_credits (
    .clk_i,
    .rst_ni,
    .host_bytes_i       (s5_q.bytes),
    .host_enough_o      (s5_host_enough),
    .host_half_o        (s5_host_half),
    .host_spend_i       (s5_valid_q && s5_outcome == OutcomeAccept && s5_to_host),
    .host_return_valid_i(credit_return_valid_i),
    .host_return_i      (credit_return_i),
    .rpc_enough_o       (s5_rpc_enough),
    .rpc_spend_i        (s5_valid_q && s5_outcome == OutcomeAccept && s5_call),
    .rpc_return_i       (rpc_free_i)
  );

  // Stage 6: writes the state back, and pushes the verdict into the output queue.

  access_grant_t s6_grant_q;
  logic          s6_call_q;
  logic          s6_takes_receive_q;
  logic          s6_check_failed_q;

  always_ff @(posedge clk_i) begin
    if (s5_valid_q) begin
      s6_q <= s5_q;
      s6_q.outcome <= s5_outcome;
      s6_grant_q <= grant_i;
      s6_call_q <= s5_call;
      s6_takes_receive_q <= s5_takes_receive;
      s6_check_failed_q <= s5_check_failed && s5_q.turn && s5_q.outcome == OutcomeNone;
    end
  end

  // The packet behind an executed one, or an early packet itself.
  assign search_qp_o = s5_q.change.qp;
  assign search_psn_o = s5_q.turn ? s5_q.expected : s5_q.arrived;
  assign reorder_valid_o = s6_valid_q;

  verdict_t verdict;
  logic     s6_kept;
  logic     s6_witnessed;
  logic     s6_save;
  logic     s6_refused;
  logic     s6_queued;
  logic     s6_left;

  responder_conclude u_conclude (
    .work_i         (s6_q),
    .grant_i        (s6_grant_q),
    .call_i         (s6_call_q),
    .takes_receive_i(s6_takes_receive_q),
    .found_i,
    .any_i,
    .verdict_o      (verdict),
    .queued_o       (s6_queued),
    .state_o        (write_state),
    .save_o         (s6_save),
    .saved_o        (saved),
    .refused_o      (s6_refused),
    .again_o        (s6_again),
    .left_o         (s6_left),
    .reorder_o,
    .kept_o         (s6_kept),
    .witnessed_o    (s6_witnessed)
  );

  assign save = s6_valid_q && s6_save;

  // Outputs.

  logic [$clog2(VerdictDepth):0] level;
  logic                          pop;

  responder_output #(
    .Depth(VerdictDepth)
  ) u_output (
    .clk_i,
    .rst_ni,
    .verdict_valid_i(s6_valid_q && s6_queued),
    .verdict_i      (verdict),
    .verdict_valid_o,
    .verdict_ready_i,
    .verdict_o,
    .level_o        (level)
  );

  assign pop = verdict_valid_o && verdict_ready_i;

  logic fail_room;
  logic flush_room;

  fifo #(
    .T    (qp_index_t),
    .Depth(ListDepth)
  ) u_fails (
    .clk_i,
    .rst_ni,
    .in_valid_i (s6_valid_q && s6_refused),
    .in_ready_o (fail_room),
    .in_i       (s6_q.change.qp),
    .out_valid_o(fail_valid_o),
    .out_ready_i(fail_ready_i),
    .out_o      (fail_o),
    .level_o    (fail_level)
  );

  // Queue pairs in ERROR that have receive requests to flush. A queue pair is added when it enters ERROR and with
  // every receive request posted in ERROR, and is removed when it has none left.
  assign flush_new = s6_valid_q && s6_left && s6_q.change.kind != EventFlush
                     && (s6_q.state.state != ResponderError || s6_q.change.kind == EventPost);

  fifo #(
    .T    (qp_index_t),
    .Depth(ListDepth)
  ) u_flushes (
    .clk_i,
    .rst_ni,
    .in_valid_i (flush_new),
    .in_ready_o (flush_room),
    .in_i       (s6_q.change.qp),
    .out_valid_o(flush_valid),
    .out_ready_i(s6_valid_q && s6_q.change.kind == EventFlush && !s6_left),
    .out_o      (flush_qp),
    .level_o    (flush_level)
  );

  always_ff @(posedge clk_i) begin
    if (s6_valid_q && s6_q.change.kind == EventQuery) begin
      query_o <= '{
          state: s6_q.state.state,
          access : s6_q.state.access,
          expected: s6_q.state.expected,
          receives: s6_q.state.tail - s6_q.state.head
      };
    end
  end

  responder_events u_events (
    .clk_i,
    .rst_ni,
    .valid_i       (s6_valid_q),
    .work_i        (s6_q),
    .grant_i       (s6_grant_q),
    .call_i        (s6_call_q),
    .kept_i        (s6_kept),
    .witnessed_i   (s6_witnessed),
    .check_failed_i(s6_check_failed_q),
    .events_o,
    .marked_qp_o
  );

  assign idle_o = ready && intake_idle && stage_valid == '0 && !verdict_valid_o && !fail_valid_o && !flush_valid;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      s1_valid_q     <= 1'b0;
      s2_valid_q     <= 1'b0;
      s3_valid_q     <= 1'b0;
      s4_valid_q     <= 1'b0;
      s5_valid_q     <= 1'b0;
      s6_valid_q     <= 1'b0;
      reserved_q     <= '0;
      control_done_o <= 1'b0;
      query_done_o   <= 1'b0;
    end else begin
      if (!wait_lookup) begin
        s1_valid_q <= accept;
        s2_valid_q <= s1_valid_q;
      end
      s3_valid_q     <= s2_valid_q && !wait_lookup;
      s4_valid_q     <= s3_valid_q;
      s5_valid_q     <= s4_valid_q;
      s6_valid_q     <= s5_valid_q;
      reserved_q     <= reserved_q + 5'(accept) - 5'(pop) - 5'(s6_valid_q && !s6_queued);
      control_done_o <= s6_valid_q && s6_q.change.control && !s6_again;
      query_done_o   <= s6_valid_q && s6_q.change.kind == EventQuery;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(s6_valid_q && s6_refused) || fail_room)
      else $error("a refusal without a place");
      assert (!flush_new || flush_room)
      else $error("a flush without a place");
      assert (!(s6_valid_q && s6_q.change.kind inside {EventHeader, EventKept}) || s6_q.outcome != OutcomeNone)
      else $error("a packet without an outcome");
      assert (!save || resource_count_t'(s6_q.state.resource) < s6_q.resources)
      else $error("a resource that the queue pair does not have");
      assert (!(s6_valid_q && verdict.complete) || !s6_q.empty)
      else $error("a completion without a receive request");
      assert (reserved_q >= level && reserved_q <= 5'(VerdictDepth))
      else $error("more verdicts than places");
    end
  end

endmodule
