// Derives the consequences of a packet's outcome or of a change of state: the verdict and the queue pair's new state.
//
// Combinational: the last stage of the responder.
module responder_conclude
  import weft_pkg::*;
  import responder_pkg::*;
(
  /* verilator lint_off UNUSEDSIGNAL */  // fields that only earlier stages read
  input work_t         work_i,
  // Valid for an accepted packet.
  input access_grant_t grant_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input logic          call_i,
  input logic          takes_receive_i,
  // `found`: the packet, if it is early, is kept already; otherwise the packet behind it is. `any`: some packet of the
  // queue pair is.
  input logic          found_i,
  input logic          any_i,

  output verdict_t         verdict_o,
  // There is a verdict to queue.
  output logic             queued_o,
  output state_t           state_o,
  // Keep the READ or atomic, for its duplicates.
  output logic             save_o,
  output saved_t           saved_o,
  // The queue pair enters ERROR because of this packet.
  output logic             refused_o,
  // The event is a RESET that must be repeated once the receive requests are flushed.
  output logic             again_o,
  // Receive requests are left to flush.
  output logic             left_o,
  output reorder_command_t reorder_o,
  // As in `responder_events`.
  output logic             kept_o,
  output logic             witnessed_o
);

  logic             packet;
  logic             accept;
  logic             response;
  logic             flush;

  /* verilator lint_off UNUSEDSIGNAL */
  packet_argument_t argument;
  /* verilator lint_on UNUSEDSIGNAL */
  logic             again;

  assign argument = packet_argument_t'(work_i.change.argument);
  assign again = work_i.change.kind == EventKept;
  assign packet = again || work_i.change.kind == EventHeader;
  assign accept = work_i.outcome == OutcomeAccept;
  assign response = work_i.meaning.read || work_i.meaning.atomic;
  assign again_o = work_i.change.kind == EventReset && work_i.state.state == ResponderError && !work_i.empty;
  assign flush = work_i.change.kind == EventFlush && work_i.state.state == ResponderError && !work_i.empty;

  always_comb begin
    unique case (work_i.outcome)
      OutcomeInvalid, OutcomeForbidden, OutcomeLength, OutcomeProtection, OutcomeAccess: refused_o = 1'b1;
      default: refused_o = 1'b0;
    endcase
  end

  // The verdict.

  logic ahead;
  logic report;
  logic reserved;
  logic keep;
  // The packet behind this one is kept, or missing although later ones have come.
  logic next;
  logic missing;

  assign ahead = work_i.outcome == OutcomeAhead;
  assign witnessed_o = work_i.witnessed || (work_i.state.witness_valid && work_i.state.witness_repeated && found_i);
  assign report = ahead && (work_i.state.gap == GapNone || witnessed_o);
  assign reserved = work_i.change.kind == EventHeader && argument.reserved;
  assign keep = reserved && !found_i;
  assign kept_o = work_i.keepable && (reserved || found_i);
  assign next = accept && found_i;
  assign missing = accept && !found_i && work_i.early != '0;

  always_comb begin
    verdict_o = '{
        packet: packet,
        reordered: again,
        reorder_place: argument.place,
        place: PlaceNothing,
        target: grant_i.target,
        write_through: grant_i.write_through,
        address: work_i.address,
        bytes: work_i.bytes,
        offset: work_i.offset,
        message_offset: work_i.state.done,
        first: work_i.first,
        second: work_i.second,
        base: work_i.state.address,
        length: work_i.meaning.send ? work_i.done : work_i.state.length,
        snoop: 1'b0,
        begins: work_i.meaning.starts,
        qp: work_i.change.qp,
        complete: flush,
        status: StatusFlushed,
        write: work_i.meaning.write,
        immediate: work_i.meaning.immediate,
        call: 1'b0,
        slot: grant_i.slot,
        answer: AnswerNone,
        duplicate: 1'b0,
        part: 1'b0,
        psn: work_i.psn,
        next: work_i.expected,
        msn: work_i.state.msn,
        syndrome: SyndromeAck,
        resource: work_i.resource,
        report: missing && work_i.state.gap == GapRepair,
        kept: accept ? any_i : kept_o,
        marker: work_i.change.kind == EventAccess
    };
    unique case (work_i.outcome)
      OutcomeAhead: begin
        if (report) verdict_o.answer = AnswerRefuse;
        verdict_o.syndrome = SyndromeSequenceError;
        if (keep && work_i.bytes != '0) verdict_o.place = PlaceReorder;
      end
      // The acknowledgement that was left to this packet is sent without it.
      OutcomeOvertaken, OutcomeNoCredit, OutcomeNoCall: begin
        if (again && argument.deferred) verdict_o.answer = AnswerAcknowledge;
        verdict_o.psn = work_i.arrived - 1'b1;
      end
      OutcomeDuplicate: begin
        verdict_o.answer = AnswerAcknowledge;
        verdict_o.duplicate = 1'b1;
      end
      OutcomeAgain: begin
        verdict_o.answer = work_i.meaning.read ? AnswerRead : AnswerAtomic;
        verdict_o.duplicate = 1'b1;
        verdict_o.part = work_i.part;
      end
      OutcomeNotReady: begin
        verdict_o.answer   = AnswerRefuse;
        verdict_o.syndrome = {SyndromeRnrPrefix, work_i.rnr_timer};
      end
      OutcomeInvalid, OutcomeForbidden: begin
        verdict_o.answer   = AnswerRefuse;
        verdict_o.syndrome = SyndromeInvalidRequest;
      end
      OutcomeAccess: begin
        verdict_o.answer   = AnswerRefuse;
        verdict_o.syndrome = SyndromeRemoteAccess;
      end
      OutcomeLength: begin
        verdict_o.answer   = AnswerRefuse;
        verdict_o.syndrome = SyndromeInvalidRequest;
        verdict_o.complete = 1'b1;
        verdict_o.status   = StatusLocalLength;
      end
      OutcomeProtection: begin
        verdict_o.answer   = AnswerRefuse;
        verdict_o.syndrome = SyndromeRemoteOperational;
        verdict_o.complete = 1'b1;
        verdict_o.status   = StatusLocalProtection;
      end
      OutcomeAccept: begin
        if (work_i.meaning.ends) verdict_o.msn = work_i.state.msn + 1'b1;
        if (work_i.meaning.read) verdict_o.answer = AnswerRead;
        else if (work_i.meaning.atomic) verdict_o.answer = AnswerAtomic;
        else if (verdict_o.report || (work_i.acknowledge_request && !next)) verdict_o.answer = AnswerAcknowledge;
        if (missing && work_i.state.gap != GapNone) verdict_o.syndrome = SyndromeSequenceError;
        if (work_i.meaning.atomic) verdict_o.place = work_i.fetch_add ? PlaceFetchAdd : PlaceCompareSwap;
        else if (!work_i.meaning.read && work_i.bytes != '0) verdict_o.place = PlaceWrite;
        verdict_o.snoop = work_i.meaning.write && work_i.bytes != '0 && grant_i.rpc;
        verdict_o.call = call_i;
        verdict_o.complete = takes_receive_i;
        verdict_o.status = StatusSuccess;
      end
      default: ;
    endcase
  end

  // The state that follows.

  always_comb begin
    state_o = work_i.state;
    unique case (work_i.outcome)
      OutcomeAhead: begin
        state_o.early = work_i.early;
        if (work_i.keepable && !kept_o) state_o.overflow = 1'b1;
        if (report) begin
          state_o.gap = kept_o ? GapRepair : GapGoBack;
          state_o.witness_valid = 1'b1;
          state_o.witness_repeated = 1'b0;
          state_o.witness = work_i.arrived;
        end
      end
      OutcomeNotReady: begin
        state_o.gap = GapNotReady;
        state_o.witness_valid = 1'b0;
      end
      // The packet was dropped on purpose, not lost on the wire. It is recovered by the requester's time-out.
      OutcomeNoCredit, OutcomeNoCall: begin
        state_o.witness_valid = 1'b0;
        if (again) begin
          state_o.gap = GapNone;
          state_o.overflow = 1'b0;
        end
      end
      OutcomeAccept: begin
        state_o.expected = work_i.expected;
        state_o.early = work_i.early;
        // The packet that is next decides what follows.
        if (verdict_o.report) begin
          state_o.gap = any_i ? GapRepair : GapGoBack;
          state_o.witness_valid = 1'b1;
          state_o.witness_repeated = 1'b1;
        end else if (!next) begin
          state_o.gap = GapNone;
          state_o.overflow = 1'b0;
        end
        state_o.msn  = verdict_o.msn;
        state_o.done = work_i.done;
        if (work_i.meaning.ends) state_o.inbound = InboundIdle;
        else state_o.inbound = work_i.meaning.send ? InboundSend : InboundWrite;
        if (response) begin
          state_o.resource = work_i.next_resource;
          if (work_i.state.saved < work_i.resources) state_o.saved = work_i.state.saved + 1'b1;
          state_o.issued = work_i.state.issued + 1'b1;
        end
      end
      default: ;
    endcase
    if (verdict_o.complete) state_o.head = work_i.state.head + 1'b1;
    if (refused_o) state_o.state = ResponderError;
    unique case (work_i.change.kind)
      EventReset:
      if (!again_o) begin
        state_o.state  = ResponderReset;
        state_o.access = '0;
        state_o.head   = work_i.state.tail;
      end
      EventInit:
      if (work_i.state.state == ResponderReset || work_i.state.state == ResponderInit) begin
        state_o.state  = ResponderInit;
        state_o.access = access_t'(work_i.change.argument[$bits(access_t)-1:0]);
      end
      EventReceive:
      if (work_i.state.state == ResponderInit) begin
        state_o.state = ResponderReady;
        state_o.expected = work_i.change.argument;
        state_o.early = '0;
        state_o.gap = GapNone;
        state_o.overflow = 1'b0;
        state_o.witness_valid = 1'b0;
        state_o.msn = '0;
        state_o.inbound = InboundIdle;
        state_o.saved = '0;
        // The new connection may have another number of resources.
        state_o.resource = '0;
      end
      EventAccess:
      if (work_i.state.state == ResponderInit || work_i.state.state == ResponderReady) begin
        state_o.access = access_t'(work_i.change.argument[$bits(access_t)-1:0]);
      end
      EventError: state_o.state = ResponderError;
      EventFail: if (work_i.state.state == ResponderReady) state_o.state = ResponderError;
      default: ;
    endcase
  end

  assign save_o = accept && response;
  assign saved_o = '{
          first: work_i.state.expected,
          packets: work_i.packets,
          atomic: work_i.meaning.atomic,
          address: work_i.first,
          rkey: work_i.second[63:32],
          length: work_i.second[31:0]
      };

  // After a wait for a receive request, the peer sends everything again.
  logic clear;
  assign clear = state_o.state != ResponderReady || work_i.outcome == OutcomeNotReady;

  assign reorder_o = '{
          place: argument.place,
          reserved: reserved,
          keep: keep,
          payload: work_i.bytes != '0,
          refused: work_i.refused && !found_i,
          returned: again,
          next: next,
          deferred: work_i.acknowledge_request && !response,
          clear: clear
      };

  assign queued_o = packet || flush || verdict_o.marker;
  assign left_o = state_o.state == ResponderError && state_o.head != state_o.tail;

endmodule
