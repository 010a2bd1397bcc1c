// Generates the counter events: what happened to a packet, and why it was dropped.
//
// Latency: 1 cycle.
module responder_events
  import weft_pkg::*;
  import responder_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic              valid_i,
  /* verilator lint_off UNUSEDSIGNAL */  // only the fields that decide a counter are read
  input  work_t             work_i,
  input  access_grant_t     grant_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic              call_i,
  // The packet is kept behind the gap, and it is the one that made the responder report the gap.
  input  logic              kept_i,
  input  logic              witnessed_i,
  // The grant is a refusal, and this refusal is the reason for the outcome.
  input  logic              check_failed_i,
  output responder_events_t events_o,
  // The queue pair of the packet that `congestion_marks` counts.
  output qp_index_t         marked_qp_o
);

  responder_events_t events_d;
  responder_events_t events_q;
  logic              packet;
  /* verilator lint_off UNUSEDSIGNAL */  // only one field decides a counter
  packet_argument_t  argument;
  /* verilator lint_on UNUSEDSIGNAL */
  logic              accept;
  logic              reached;

  // A packet that was kept was counted when it arrived.
  assign packet   = work_i.change.kind == EventHeader;
  assign argument = packet_argument_t'(work_i.change.argument);
  assign accept   = work_i.outcome == OutcomeAccept;
  // The packet has passed the checks that concern the queue pair as a whole.
  assign reached  = packet && work_i.outcome > OutcomeSource;
  assign events_o = events_q;

  always_comb begin
    events_d = '0;
    events_d.rcvd_pkts = packet;
    events_d.duplicate_request = work_i.outcome inside {OutcomeDuplicate, OutcomeAgain, OutcomeUnknownDuplicate};
    events_d.out_of_seq_request = work_i.outcome == OutcomeAhead;
    events_d.ack_deferred = accept && work_i.change.kind == EventKept && argument.deferred;
    events_d.send_rnr_err = work_i.outcome == OutcomeNotReady;
    events_d.rdma_recvs = accept && work_i.meaning.send && work_i.meaning.ends;
    events_d.sent_invalid_request = work_i.outcome inside {OutcomeInvalid, OutcomeForbidden, OutcomeLength};
    events_d.sent_access_error = work_i.outcome == OutcomeAccess;
    events_d.sent_operational_error = work_i.outcome == OutcomeProtection;
    events_d.violation_key = check_failed_i && grant_i.verdict == AccessUnknownKey;
    events_d.violation_domain = check_failed_i && grant_i.verdict == AccessWrongDomain;
    events_d.violation_bounds = check_failed_i && grant_i.verdict == AccessOutOfBounds;
    events_d.violation_permission = (check_failed_i && grant_i.verdict == AccessForbidden)
                                    || work_i.outcome == OutcomeForbidden;
    events_d.rpc_calls = accept && call_i;
    events_d.congestion_marks = reached && work_i.marked;
    events_d.drop_unknown_queue_pair = work_i.outcome == OutcomeUnknownQueuePair;
    events_d.drop_wrong_source = work_i.outcome == OutcomeSource;
    events_d.drop_wrong_state = work_i.outcome == OutcomeState;
    events_d.drop_partition_key = work_i.outcome == OutcomePartition;
    events_d.drop_malformed = work_i.outcome == OutcomeMalformed;
    events_d.drop_out_of_sequence = work_i.outcome == OutcomeAhead && work_i.state.gap != GapNone
                                    && !witnessed_i && !kept_i;
    events_d.drop_unknown_duplicate = work_i.outcome == OutcomeUnknownDuplicate;
    events_d.drop_no_credit = work_i.outcome == OutcomeNoCredit;
    events_d.drop_rpc_queue_full = work_i.outcome == OutcomeNoCall;
    events_d.drop_receive_request = work_i.change.kind == EventDropped;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) events_q <= '0;
    else events_q <= valid_i ? events_d : '0;
    marked_qp_o <= work_i.change.qp;
  end

endmodule
