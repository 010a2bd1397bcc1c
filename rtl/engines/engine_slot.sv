// The slot of an engine in the card: merges everything that happens into one stream of events, and routes the
// engine's messages to their destinations.
//
// Priority: the host's reset, then its configuration, then timers, then completions of posted work requests. Messages
// in datagrams, calls of the host and calls over queue pairs come last, round-robin. The engine's timers are kept in
// this block.
//
// Latency: 0 cycles in both directions. Throughput: an event or a beat of payload every cycle; an event with a
// payload waits until the previous payload has passed. Order: kept for each source. Stalls: the sources, while the
// engine is busy; the engine, while the path of its message is.
module engine_slot
  import weft_pkg::*;
  import engines_pkg::*;
#(
  parameter int unsigned Timers = 32
) (
  input logic clk_i,
  input logic rst_ni,
  input cycles_t now_i,
  // From the host's registers: pulses, and the current configuration.
  input logic reset_i,
  input logic configure_i,
  input engine_configuration_t configuration_i,
  // A reset or a configuration has not reached the engine yet.
  output logic busy_o,
  input logic datagram_valid_i,
  output logic datagram_ready_o,
  input message_received_t datagram_i,
  input logic datagram_payload_valid_i,
  output logic datagram_payload_ready_o,
  input beat_t datagram_payload_i,
  input logic call_valid_i,
  output logic call_ready_o,
  input engine_event_t call_i,
  input logic call_payload_valid_i,
  output logic call_payload_ready_o,
  input beat_t call_payload_i,
  input logic queue_pair_call_valid_i,
  output logic queue_pair_call_ready_o,
  input engine_event_t queue_pair_call_i,
  input logic queue_pair_payload_valid_i,
  output logic queue_pair_payload_ready_o,
  input beat_t queue_pair_payload_i,
  // The completion of a work request that an engine has posted.
  input logic done_valid_i,
  output logic done_ready_o,
  // verilator lint_off UNUSEDSIGNAL
  input completion_t done_i,  // the engine gets only tag and status
  // verilator lint_on UNUSEDSIGNAL
  output logic event_valid_o,
  input logic event_ready_i,
  output engine_event_t event_o,
  output logic payload_valid_o,
  input logic payload_ready_i,
  output beat_t payload_o,
  // The configuration, for the engine to take with its event.
  output engine_configuration_t configuration_o,
  input logic timer_valid_i,
  input logic [$clog2(Timers)-1:0] timer_tag_i,
  input cycles_t timer_at_i,
  input logic message_valid_i,
  output logic message_ready_o,
  input engine_message_t message_i,
  input logic body_valid_i,
  output logic body_ready_o,
  input beat_t body_i,
  output logic network_valid_o,
  input logic network_ready_i,
  output logic network_body_valid_o,
  input logic network_body_ready_i,
  output logic host_valid_o,
  input logic host_ready_i,
  output logic host_body_valid_o,
  input logic host_body_ready_i,
  output logic queue_pair_valid_o,
  input logic queue_pair_ready_i,
  output logic queue_pair_body_valid_o,
  input logic queue_pair_body_ready_i,
  // Shared by all three destinations.
  output engine_message_t message_o,
  output beat_t body_o,
  output logic armed_o,
  output logic earliest_valid_o,
  output cycles_t earliest_o,
  output engine_slot_events_t events_o,
  output logic idle_o
);

  // Events.

  typedef enum logic [2:0] {
    FromNobody,
    FromReset,
    FromConfigure,
    FromTimer,
    FromDone,
    FromCaller  // `caller` is the kind of caller
  } source_e;

  // Kinds of callers, by their numbers. Messages of peers arrive in datagrams, like the calls of endpoints.
  localparam int unsigned Callers = 3;
  typedef logic [1:0] caller_index_t;

  logic                                       reset_q;
  logic                                       configure_q;
  engine_configuration_t                      configuration_q;
  logic                                       expired_valid;
  logic                                       expired_ready;
  logic                  [$clog2(Timers)-1:0] expired;
  logic                                       timers_ready;
  logic                                       forget_q;  // all timers are to be disarmed, after a reset
  logic                  [$clog2(Timers)-1:0] forget_index_q;
  logic                                       disarm_q;  // a timer that fired is to be disarmed
  logic                  [$clog2(Timers)-1:0] disarm_index_q;
  logic                  [       Callers-1:0] calling;
  engine_event_t         [       Callers-1:0] calls;
  logic                  [       Callers-1:0] call_payload_valid;
  beat_t                 [       Callers-1:0] call_payload;
  caller_index_t                              caller;
  caller_index_t                              caller_q;  // the caller that had the last turn, or that waits

  // `passing`: the payload of an accepted event is being transferred, so another event with a payload has to wait.
  // `passed`: the whole payload was transferred before its event was accepted.
  logic                                       passing_q;
  logic                                       passed_q;
  logic                                       carries;
  logic                                       ends;
  caller_index_t                              passing_caller_q;
  caller_index_t                              passing_caller;
  logic                                       passes;

  source_e                                    source;
  // The source of the current offer. An offer stands until it is accepted.
  source_e                                    offered_q;
  logic                                       waiting_q;
  logic                                       taken;

  always_comb begin
    calling = '0;
    calling[CallerEndpoint] = datagram_valid_i;
    calling[CallerHost] = call_valid_i;
    calling[CallerQueuePair] = queue_pair_call_valid_i;
    calls[CallerEndpoint] = '0;
    calls[CallerEndpoint].kind = datagram_i.peer ? EventDeliver : EventCall;
    calls[CallerEndpoint].last = datagram_i.last;
    calls[CallerEndpoint].from = datagram_i.from;
    calls[CallerEndpoint].caller = datagram_i.caller;
    calls[CallerEndpoint].message = datagram_i.message;
    calls[CallerEndpoint].bytes = datagram_i.bytes;
    calls[CallerHost] = call_i;
    calls[CallerQueuePair] = queue_pair_call_i;
    call_payload_valid[CallerEndpoint] = datagram_payload_valid_i;
    call_payload_valid[CallerHost] = call_payload_valid_i;
    call_payload_valid[CallerQueuePair] = queue_pair_payload_valid_i;
    call_payload[CallerEndpoint] = datagram_payload_i;
    call_payload[CallerHost] = call_payload_i;
    call_payload[CallerQueuePair] = queue_pair_payload_i;
    // The lowest caller with an event, unless a caller above the last one has one: then the lowest of these.
    caller = caller_q;
    if (!waiting_q) begin
      for (int unsigned i = Callers; i > 0; i--) if (calling[i-1]) caller = caller_index_t'(i - 1);
      for (int unsigned i = Callers; i > 0; i--) begin
        if (calling[i-1] && i - 1 > 32'(caller_q)) caller = caller_index_t'(i - 1);
      end
    end
  end

  always_comb begin
    source = FromNobody;
    if (waiting_q) begin
      source = offered_q;
    end else if (forget_q || !timers_ready) begin
      source = FromNobody;
    end else if (reset_q) begin
      source = FromReset;
    end else if (configure_q) begin
      source = FromConfigure;
    end else if (expired_valid && !disarm_q) begin
      source = FromTimer;
    end else if (done_valid_i) begin
      source = FromDone;
    end else if (!passing_q && calling != '0) begin
      source = FromCaller;
    end
  end

  always_comb begin
    event_o = '0;
    event_o.last = 1'b1;
    unique case (source)
      FromReset:     event_o.kind = EventReset;
      FromConfigure: event_o.kind = EventConfigure;
      FromTimer: begin
        event_o.kind = EventTimer;
        event_o.tag  = 64'(expired);
      end
      FromDone: begin
        event_o.kind   = EventDone;
        event_o.tag    = done_i.id;
        event_o.status = done_i.status;
      end
      default:       event_o = calls[caller];
    endcase
  end

  assign event_valid_o = source != FromNobody;
  assign taken = event_valid_o && event_ready_i;
  assign expired_ready = taken && source == FromTimer;
  assign done_ready_o = taken && source == FromDone;
  assign datagram_ready_o = taken && source == FromCaller && caller == caller_index_t'(CallerEndpoint);
  assign call_ready_o = taken && source == FromCaller && caller == caller_index_t'(CallerHost);
  assign queue_pair_call_ready_o = taken && source == FromCaller && caller == caller_index_t'(CallerQueuePair);
  assign configuration_o = configuration_q;
  assign busy_o = reset_q || configure_q || forget_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      reset_q     <= 1'b0;
      configure_q <= 1'b0;
      waiting_q   <= 1'b0;
      forget_q    <= 1'b0;
      caller_q    <= '0;
    end else begin
      reset_q     <= reset_i || (reset_q && !(taken && source == FromReset));
      configure_q <= configure_i || (configure_q && !(taken && source == FromConfigure));
      waiting_q   <= event_valid_o && !event_ready_i;
      if (taken && source == FromReset) forget_q <= 1'b1;
      else if (forget_index_q == '1 && !disarm_q) forget_q <= 1'b0;
      if (source == FromCaller) caller_q <= caller;
    end
    if (configure_i) configuration_q <= configuration_i;
    offered_q <= source;
    if (forget_q && !disarm_q) forget_index_q <= forget_index_q + 1'b1;
    else forget_index_q <= '0;
  end

  // A payload is offered together with its event, and may be transferred before the event is accepted.
  assign carries = source == FromCaller && event_o.bytes != '0;
  assign passing_caller = passing_q ? passing_caller_q : caller;
  assign passes = passing_q || (carries && !passed_q);
  assign payload_o = call_payload[passing_caller];
  assign payload_valid_o = passes && call_payload_valid[passing_caller];
  assign datagram_payload_ready_o = passes && passing_caller == caller_index_t'(CallerEndpoint) && payload_ready_i;
  assign call_payload_ready_o = passes && passing_caller == caller_index_t'(CallerHost) && payload_ready_i;
  assign queue_pair_payload_ready_o = passes && passing_caller == caller_index_t'(CallerQueuePair) && payload_ready_i;
  assign ends = payload_valid_o && payload_ready_i && payload_o.last;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      passing_q <= 1'b0;
      passed_q  <= 1'b0;
    end else begin
      passing_q <= passing_q ? !ends : taken && carries && !passed_q && !ends;
      passed_q  <= passed_q ? !taken : carries && !passing_q && !taken && ends;
    end
    passing_caller_q <= passing_caller;
  end

  // Timers. A timer that fired is disarmed until it is set again.

  logic                      set;
  logic [$clog2(Timers)-1:0] set_index;

  // The engine may set a timer in any cycle. Disarming uses the cycles in which it sets none.
  assign set = timer_valid_i || disarm_q || forget_q;
  assign set_index = timer_valid_i ? timer_tag_i : disarm_q ? disarm_index_q : forget_index_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) disarm_q <= 1'b0;
    else if (expired_ready) disarm_q <= 1'b1;
    else if (!timer_valid_i || timer_tag_i == disarm_index_q) disarm_q <= 1'b0;
    if (expired_ready) disarm_index_q <= expired;
  end

  timers #(
    .Entries(Timers)
  ) u_timers (
    .clk_i,
    .rst_ni,
    .now_i,
    .ready_o        (timers_ready),
    .set_i          (set),
    .set_index_i    (set_index),
    .set_armed_i    (timer_valid_i),
    .set_deadline_i (timer_at_i),
    .expired_valid_o(expired_valid),
    .expired_ready_i(expired_ready),
    .expired_o      (expired),
    .armed_o,
    .earliest_valid_o,
    .earliest_o
  );

  // Messages.

  // Messages to peers take the same path as those to endpoints.
  logic         following_q;  // the body of an accepted message is being transferred
  logic         followed_q;  // the whole body was transferred before its message was accepted
  logic         body_ends;
  logic         message_taken;
  caller_kind_e way;
  caller_kind_e following_way_q;
  caller_kind_e body_way;
  logic         body_open;
  logic         ready;
  logic         body_ready;

  assign way = message_i.reply ? message_i.caller.kind : CallerEndpoint;
  assign message_o = message_i;
  assign body_o = body_i;
  assign network_valid_o = message_valid_i && !following_q && way == CallerEndpoint;
  assign host_valid_o = message_valid_i && !following_q && way == CallerHost;
  assign queue_pair_valid_o = message_valid_i && !following_q && way == CallerQueuePair;
  assign message_ready_o = !following_q && ready;

  always_comb begin
    unique case (way)
      CallerHost:      ready = host_ready_i;
      CallerQueuePair: ready = queue_pair_ready_i;
      default:         ready = network_ready_i;
    endcase
    unique case (body_way)
      CallerHost:      body_ready = host_body_ready_i;
      CallerQueuePair: body_ready = queue_pair_body_ready_i;
      default:         body_ready = network_body_ready_i;
    endcase
  end

  // As with events, a body is offered together with its message, and may be transferred before the message is
  // accepted.
  assign body_open = following_q || (message_valid_i && message_i.bytes != '0 && !followed_q);
  assign body_way = following_q ? following_way_q : way;
  assign network_body_valid_o = body_open && body_valid_i && body_way == CallerEndpoint;
  assign host_body_valid_o = body_open && body_valid_i && body_way == CallerHost;
  assign queue_pair_body_valid_o = body_open && body_valid_i && body_way == CallerQueuePair;
  assign body_ready_o = body_open && body_ready;
  assign body_ends = body_valid_i && body_ready_o && body_i.last;
  assign message_taken = message_valid_i && message_ready_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      following_q <= 1'b0;
      followed_q  <= 1'b0;
    end else begin
      following_q <= following_q ? !body_ends : message_taken && message_i.bytes != '0 && !followed_q && !body_ends;
      followed_q  <= followed_q ? !message_taken : body_open && !following_q && !message_taken && body_ends;
    end
    following_way_q <= body_way;
  end

  always_comb begin
    events_o = '0;
    events_o.messages_delivered = taken && source == FromCaller;
  end

  assign idle_o = !event_valid_o && !busy_o && !passes && !following_q && !message_valid_i && !disarm_q && timers_ready
      && !(earliest_valid_o && earliest_o <= now_i);

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(timer_valid_i && forget_q))
      else $error("an engine sets a timer before it knows of its reset");
      assert (!(passing_q && taken && source == FromCaller))
      else $error("an event overtakes a payload");
    end
  end

endmodule
