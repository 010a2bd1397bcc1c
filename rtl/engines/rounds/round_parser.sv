// Converts events into operations: one complete, well-formed message in each handshake.
//
// The operation holds the fields of the message's head and how its round relates to the current one: the same, the
// next, or an earlier one. While the operation is shown, the beats of its proposal pass (`beat_*`), so the consumer
// can tell where to store them. With the last beat the operation becomes valid. Malformed messages are dropped and
// counted, but calls are always delivered.
//
// Latency: 2 cycles from an event to its operation, if its payload is available. Throughput: a message of one beat
// every cycle; one with a proposal takes as many cycles as it has beats. Order: kept. Stalls: while the operation is
// not accepted, and for one extra cycle behind any operation but a Round, because that operation may begin a new
// round.
module round_parser
  import weft_pkg::*;
  import engines_pkg::*;
  import rounds_pkg::*;
#(
  parameter int unsigned       ProposalBytes = RoundsProposalBytes,
  parameter logic        [7:0] Algorithm     = RoundsAlgorithmConsensus
) (
  input  logic                         clk_i,
  input  logic                         rst_ni,
  input  logic                         event_valid_i,
  output logic                         event_ready_o,
  input  engine_event_t                event_i,
  input  logic                         payload_valid_i,
  output logic                         payload_ready_o,
  input  beat_t                        payload_i,
  // The current round and the next.
  input  round_t                       round_i,
  input  round_t                       next_round_i,
  // The current operation; shown before it is valid.
  output rounds_op_t                   op_o,
  output logic                         op_valid_o,
  input  logic                         op_ready_i,
  // The operation is a Round that is accepted, so the next message may be parsed at once.
  input  logic                         op_follows_i,
  // First cycle of an operation that waits only for its own beats.
  output logic                         op_fresh_o,
  input  logic                         op_may_run_i,
  // Beats of the operation's proposal.
  output logic                         beat_valid_o,
  output logic          [         2:0] beat_index_o,
  output logic          [BeatBits-1:0] beat_o,
  // A malformed message was dropped, which was a Round or not; or one of a node number beyond the limit. Valid in the
  // cycle after its head.
  output logic                         malformed_o,
  output logic                         malformed_round_o,
  output member_t                      malformed_from_o,
  output logic                         stranger_o,
  output logic                         idle_o
);

  // verilator lint_off UNUSEDSIGNAL
  engine_event_t event_q;  // tags and statuses are not used
  // verilator lint_on UNUSEDSIGNAL
  logic event_valid_q;
  rounds_op_t op_d, op_q;
  logic op_valid_q, complete_q, fresh_q;
  // From the event's length: the bytes behind the head, and whether the length is within the limit.
  logic [15:0] behind_head_q;
  logic bounded_q;
  logic is_value_q;  // a Value, whose flags and length are at other offsets
  logic body_q;  // beats are still due: of the current operation, or, without one, of a dropped message
  logic [2:0] index_q;
  logic takes, free, loads, body_ends, has_head, well_formed, is_operation;
  round_head_t head;
  logic [15:0] proposal;
  logic is_change;

  assign takes = op_valid_o && op_ready_i;
  assign free = !op_valid_q || op_follows_i;
  // A call has no head.
  assign has_head = event_q.kind == EventDeliver && event_q.bytes != '0;
  assign loads = event_valid_q && !body_q && free && (!has_head || payload_valid_i);
  assign body_ends = body_q && payload_valid_i && payload_ready_o && payload_i.last;

  assign event_ready_o = !event_valid_q || loads;
  assign payload_ready_o = body_q ? !op_valid_q || (payload_i.last ? op_ready_i : op_may_run_i) : loads && has_head;
  assign op_valid_o = op_valid_q && (complete_q || (body_q && payload_valid_i && payload_i.last));
  assign op_o = op_q;
  // A beat that waits to be accepted does not change.
  assign beat_valid_o = body_q && op_valid_q && payload_valid_i && op_may_run_i;
  assign beat_index_o = index_q;
  assign beat_o = payload_i.data;
  assign op_fresh_o = fresh_q;
  assign idle_o = !event_valid_q && !op_valid_q && !body_q;

  // Checks of a head: its lengths are consistent, and its kind's fields are valid.

  logic fits, agrees;
  round_t behind;
  assign behind = round_i - turn_64(head.round);
  assign head = round_head_t'(payload_i.data[$bits(round_head_t)-1:0]);
  assign proposal = turn_16(is_value_q ? payload_i.data[95:80] : head.bytes);
  assign is_change = is_value_q ? payload_i.data[72] : head.change;
  assign agrees = is_value_q ? turn_16(payload_i.data[95:80]) == behind_head_q : turn_16(head.bytes) == behind_head_q;
  assign fits = bounded_q && agrees && (!is_change || behind_head_q == 16'(RoundsChangeBytes));

  always_comb begin
    unique case (event_q.message)
      // Round numbers are below 2^62.
      RoundsMessageRound: well_formed = fits && head.algorithm == Algorithm && payload_i.data[7:6] == '0;
      RoundsMessageValue: well_formed = Algorithm == RoundsAlgorithmConsensus && fits && payload_i.data[71:67] == '0;
      RoundsMessageFetch: well_formed = Algorithm == RoundsAlgorithmConsensus && event_q.bytes == 16'd16;
      // Messages without content.
      RoundsMessageStart, RoundsMessageJoin: well_formed = 1'b1;
      default: well_formed = 1'b0;
    endcase
    if (!has_head && event_q.message != RoundsMessageStart && event_q.message != RoundsMessageJoin) well_formed = 1'b0;
  end

  always_comb begin
    is_operation = 1'b1;
    op_d = '0;
    op_d.from = event_q.from[2:0];
    op_d.caller = event_q.caller;
    op_d.call = event_q.message;
    op_d.behind = age_t'(behind);
    op_d.recent = behind < round_t'(4 * RoundsWindow);
    op_d.fits = event_q.bytes != '0 && event_q.bytes <= 16'(ProposalBytes);
    op_d.empty = event_q.bytes == '0;
    op_d.period = event_q.bytes == 16'(RoundsPeriodBytes);
    op_d.head = head;
    op_d.area = payload_i.data[$bits(round_head_t)+:AreaBits];
    op_d.first = head.round == '0;
    op_d.invites = head.ahead != '0 && count_members(head.next) <= member_count_t'(RoundsMembersMax);
    op_d.current = head.round == turn_64(round_i);
    op_d.following = head.round == turn_64(next_round_i);
    op_d.late = turn_64(head.round) < next_round_i;
    unique case (event_q.kind)
      EventReset:     op_d.kind = RoundsOpReset;
      EventConfigure: op_d.kind = RoundsOpConfigure;
      EventTimer: begin
        op_d.kind = RoundsOpTimer;
        is_operation = event_q.tag == '0;
      end
      EventCall: begin
        op_d.kind  = RoundsOpCall;
        op_d.bytes = proposal_bytes_t'(event_q.bytes);
      end
      EventDeliver: begin
        op_d.bytes   = proposal_bytes_t'(proposal);
        op_d.change  = is_change;
        is_operation = well_formed && !event_q.from[3];
        unique case (event_q.message)
          RoundsMessageFetch: op_d.kind = RoundsOpFetch;
          RoundsMessageValue: op_d.kind = RoundsOpValue;
          RoundsMessageStart: op_d.kind = RoundsOpStart;
          RoundsMessageJoin:  op_d.kind = RoundsOpJoin;
          default:            op_d.kind = RoundsOpRound;
        endcase
      end
      default:        is_operation = 1'b0;
    endcase
  end

  always_ff @(posedge clk_i) begin
    malformed_o       <= rst_ni && loads && event_q.kind == EventDeliver && !event_q.from[3] && !well_formed;
    malformed_round_o <= event_q.message == RoundsMessageRound;
    malformed_from_o  <= event_q.from[2:0];
    stranger_o        <= rst_ni && loads && event_q.kind == EventDeliver && event_q.from[3];
  end

  always_ff @(posedge clk_i) begin
    if (event_ready_o) begin
      event_q <= event_i;
      behind_head_q <= event_i.bytes - message_bytes_t'(RoundsHeadBytes);
      bounded_q     <= event_i.bytes >= message_bytes_t'(RoundsHeadBytes)
          && event_i.bytes <= message_bytes_t'(RoundsHeadBytes + ProposalBytes);
    end
    if (event_ready_o) is_value_q <= event_i.message == RoundsMessageValue;
    fresh_q <= loads;
    if (loads) begin
      op_q    <= op_d;
      index_q <= '0;
    end else if (beat_valid_o && payload_ready_o) begin
      index_q <= index_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      event_valid_q <= 1'b0;
      op_valid_q    <= 1'b0;
      complete_q    <= 1'b0;
      body_q        <= 1'b0;
    end else begin
      if (event_ready_o) event_valid_q <= event_valid_i;
      if (loads) begin
        op_valid_q <= is_operation;
        complete_q <= has_head ? payload_i.last : event_q.bytes == '0;
        body_q     <= has_head ? !payload_i.last : event_q.bytes != '0;
      end else begin
        if (takes) op_valid_q <= 1'b0;
        if (body_ends) body_q <= 1'b0;
      end
    end
  end

endmodule
