// Executes the verdicts of responder and requester on received packets: moves payloads from the receive buffer to
// memory, performs atomics, and forwards the consequences when the data is visible.
//
// Verdicts with a packet are taken in packet order, which the order bits give. Verdicts without a packet are taken as
// soon as they are at the head of their stream, before those with one. From there on one order holds for writes,
// snoops and consequences. An atomic waits until all writes before it are visible, and stalls everything behind it
// until it has read its word. The results of atomics are kept for duplicates, indexed by queue pair and responder
// resource.
//
// Latency: 5 cycles from verdict and frame to the beat of a 64-byte write at the memory port; 1 cycle from
// `written_i` to the consequence; 2 cycles from a verdict with nothing to write to its consequence; an atomic takes
// the read of its word and 5 cycles more. Throughput: one beat of a frame every cycle without a gap between frames,
// and one verdict every cycle. Stalls: verdicts stall during an atomic, while 512 packets wait for their turn, or
// when memory accepts no more writes. Everything behind a packet stalls while its completion, call, answer or advance
// is not accepted; then the receive buffer fills up and arriving packets are dropped. To avoid deadlock, a consumer
// must accept its consequences without waiting for another of these ports.
//
// Source: InfiniBand volume 1, clauses 9.7.5.1.2 and 9.8 (an acknowledgement follows the effect), 9.4.5 (atomics).
//
// A request that the responder keeps goes no further: its payload leaves for its place, and its consequences do not
// wait for that. When it is next in turn, it comes again, with its payload from there.
//
// A responder's verdict never carries an `advance`. A requester's verdict never carries a completion, call, answer,
// snoop or atomic. The block ignores these fields.
module placement
  import weft_pkg::*;
  import services_pkg::*;
#(
  // Payloads of requests can go through services.
  parameter bit Services = 1'b0
) (
  input logic clk_i,
  input logic rst_ni,

  // Which state machine the next packet went to, one bit for each header: 0 is the responder, 1 the requester.
  input  logic order_valid_i,
  output logic order_ready_o,
  input  logic order_requester_i,

  input  logic       responder_valid_i,
  output logic       responder_ready_o,
  input  placement_t responder_i,
  input  logic       requester_valid_i,
  output logic       requester_ready_o,
  /* verilator lint_off UNUSEDSIGNAL */  // fields that only the responder uses
  input  placement_t requester_i,
  /* verilator lint_on UNUSEDSIGNAL */

  // Whole frames from Ethernet byte 0, one for each verdict with a packet, in the order of the order bits.
  input  logic  frame_valid_i,
  output logic  frame_ready_o,
  /* verilator lint_off UNUSEDSIGNAL */  // the verdict says where the payload ends
  input  beat_t frame_i,
  /* verilator lint_on UNUSEDSIGNAL */

  // Payloads of requests that the responder keeps: see `reorder`.
  output logic                          reorder_write_o,
  output reorder_place_t                reorder_write_place_o,
  output logic           [         5:0] reorder_write_index_o,
  output logic                          reorder_write_last_o,
  output logic           [BeatBits-1:0] reorder_write_data_o,
  output logic                          reorder_run_o,
  output reorder_place_t                reorder_place_o,
  output logic           [         5:0] reorder_end_o,
  input  logic                          reorder_valid_i,
  output logic                          reorder_ready_o,
  input  logic                          reorder_last_i,
  input  logic           [BeatBits-1:0] reorder_data_i,

  // Memory.
  output logic                  write_valid_o,
  input  logic                  write_ready_i,
  output write_command_t        write_o,
  output logic                  write_data_valid_o,
  input  logic                  write_data_ready_i,
  output write_beat_t           write_data_o,
  input  logic                  written_i,
  output logic                  word_valid_o,
  input  logic                  word_ready_i,
  output target_e               word_target_o,
  output address_t              word_address_o,
  input  logic                  word_data_valid_i,
  input  logic           [63:0] word_data_i,

  // Services, and the queue pairs whose requests they process: see `placement_services`. Unused unless `Services`.
  /* verilator lint_off UNUSEDSIGNAL */  // some without services
  input  logic          serve_valid_i,
  input  qp_index_t     serve_qp_i,
  input  logic          serve_i,
  output logic          service_valid_o,
  input  logic          service_ready_i,
  output service_beat_t service_o,
  input  logic          served_valid_i,
  output logic          served_ready_o,
  input  service_beat_t served_i,
  // One judgement for each packet that has gone through the services, in their order.
  input  logic          judged_valid_i,
  input  logic          judged_marked_i,
  /* verilator lint_on UNUSEDSIGNAL */

  // Beats of writes into an engine's RPC region, before the call.
  output logic      snoop_valid_o,
  input  logic      snoop_ready_i,
  output rpc_beat_t snoop_o,

  // Consequences.
  output logic        completion_valid_o,
  input  logic        completion_ready_i,
  output completion_t completion_o,
  output logic        call_valid_o,
  input  logic        call_ready_i,
  output rpc_call_t   call_o,
  output logic        answer_valid_o,
  input  logic        answer_ready_i,
  output qp_index_t   answer_qp_o,
  output answer_t     answer_o,
  output logic        advance_valid_o,
  input  logic        advance_ready_i,
  output qp_index_t   advance_qp_o,
  output advance_t    advance_o,
  output logic        marker_o,
  output qp_index_t   marker_qp_o,

  // Bytes of a write to the host whose consequences have been forwarded, and whether the requester decided it.
  output logic           credit_return_valid_o,
  output payload_bytes_t credit_return_o,
  output logic           credit_return_requester_o,

  output placement_events_t events_o,
  output logic              idle_o
);

  localparam int unsigned QueueDepth = 16;
  // Depth of the queues whose elements wait for their data. With services there are as many as the services hold.
  localparam int unsigned RunDepth = Services ? 64 : QueueDepth;
  // An offset at which no payload begins. It means that the verdict itself holds the word to write.
  localparam logic [6:0] OffsetOfWord = 7'd127;

  typedef struct packed {
    logic           word;
    logic [63:0]    value;
    logic           frame;
    logic           move;
    logic           first;
    logic [6:0]     last;
    // The payload comes from this place, without a frame around it.
    logic           reordered;
    reorder_place_t place;
  } control_t;

  typedef struct packed {
    logic [5:0] from;
    logic [5:0]       to;
    payload_bytes_t   bytes;
  } run_t;

  // Where the beats of a payload go beside memory, or instead of it.
  typedef struct packed {
    logic           keep;    // to this place
    reorder_place_t place;
    logic           snoop;
    qp_index_t      qp;
    logic           begins;
    logic           ends;
    logic [41:0]    word;    // address / 64
  } snoop_t;

  typedef enum logic [2:0] {
    StateIdle,
    StateRead,     // requests the word
    StateWait,     // waits for the word
    StateCompute,
    StateRecall,   // reads the kept result of the original
    StateRecalled,
    StateFinish
  } state_e;

  // The verdict to take next.

  logic                  from_requester;
  logic                  verdict_valid;
  logic                  verdict_packet;
  place_e                place;
  target_e               target;
  logic                  write_through;
  address_t              address;
  payload_bytes_t        bytes;
  logic           [ 6:0] offset;
  logic           [63:0] value;
  consequence_t          consequence;
  state_e                state_q;
  logic                  room;
  logic                  take;

  // During an atomic its verdict stays at the head of the responder's stream.
  assign from_requester = state_q == StateIdle && !(responder_valid_i && !responder_i.packet)
      && ((requester_valid_i && !requester_i.packet) || order_requester_i);
  assign verdict_packet = from_requester ? requester_i.packet : responder_i.packet;
  assign verdict_valid = (from_requester ? requester_valid_i : responder_valid_i)
      && (!verdict_packet || (order_valid_i && order_requester_i == from_requester));
  assign responder_ready_o = take && !from_requester;
  assign requester_ready_o = take && from_requester;
  assign order_ready_o = take && verdict_packet;

  assign target = from_requester ? requester_i.target : responder_i.target;
  assign write_through = from_requester ? requester_i.write_through : responder_i.write_through;
  assign address = from_requester ? requester_i.address : responder_i.address;
  assign offset = from_requester ? requester_i.offset : responder_i.offset;

  always_comb begin
    place = responder_i.place;
    if (from_requester) place = requester_i.place == PlaceWrite ? PlaceWrite : PlaceNothing;
  end

  // Atomics.

  logic        atomic;
  logic        recall;
  logic        word;
  logic        writes;
  logic        keep;
  // There is a payload or a word to move.
  logic        moves;
  logic        reordered;
  logic [63:0] original_q;
  logic [63:0] sum_q;
  logic        equal_q;
  logic [63:0] kept;
  // Writes that memory has accepted and that are not visible yet.
  logic [ 9:0] unwritten_q;

  assign atomic = place == PlaceFetchAdd || place == PlaceCompareSwap;
  // A duplicate of an atomic, which gets the same answer as the original.
  assign recall = !from_requester && place == PlaceNothing && responder_i.consequence.answer.kind == AnswerAtomic;
  assign word = atomic || offset == OffsetOfWord;
  assign keep = place == PlaceReorder;
  assign moves = writes || keep;
  assign reordered = !from_requester && responder_i.reordered;
  assign writes = place == PlaceWrite || place == PlaceFetchAdd || (place == PlaceCompareSwap && equal_q);

  always_comb begin
    value = requester_i.swap_or_add;
    if (place == PlaceFetchAdd) value = sum_q;
    else if (!from_requester) value = responder_i.swap_or_add;
  end
  assign bytes = word ? payload_bytes_t'(8) : from_requester ? requester_i.bytes : responder_i.bytes;

  assign word_valid_o = state_q == StateRead;
  assign word_target_o = responder_i.target;
  assign word_address_o = responder_i.address;
  assign take = verdict_valid && room && (state_q == StateFinish || (state_q == StateIdle && !atomic && !recall));

  ram #(
    .T    (logic [63:0]),
    .Depth(QueuePairs * ResponderResources),
    .Style("ultra")
  ) i_kept (
    .clk_i,
    .write_i        (take && atomic),
    .write_address_i({responder_i.consequence.qp, responder_i.consequence.answer.resource}),
    .write_data_i   (original_q),
    .read_i         (state_q == StateRecall),
    .read_address_i ({responder_i.consequence.qp, responder_i.consequence.answer.resource}),
    .read_data_o    (kept)
  );

  always_ff @(posedge clk_i) begin
    if (word_data_valid_i) original_q <= word_data_i;
    else if (state_q == StateRecalled) original_q <= kept;
    if (state_q == StateCompute) begin
      sum_q   <= original_q + responder_i.swap_or_add;
      equal_q <= original_q == responder_i.compare;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q     <= StateIdle;
      unwritten_q <= '0;
    end else begin
      unique case (state_q)
        StateIdle: begin
          if (verdict_valid && atomic && unwritten_q == '0) state_q <= StateRead;
          else if (verdict_valid && recall) state_q <= StateRecall;
        end
        StateRead: if (word_ready_i) state_q <= StateWait;
        StateWait: if (word_data_valid_i) state_q <= StateCompute;
        StateRecall: state_q <= StateRecalled;
        StateCompute, StateRecalled: state_q <= StateFinish;
        default: if (take) state_q <= StateIdle;
      endcase
      unwritten_q <= unwritten_q + 10'(take && writes) - 10'(written_i);
      assert (!written_i || unwritten_q != '0);
    end
  end

  // Taking a verdict pushes into four queues at once.

  logic                                                   controls_ready;
  logic                                                   runs_ready;
  logic                                                   writes_ready;
  logic                                                   snoops_ready;
  logic                                                   retire_ready;
  control_t                                               control_in;
  control_t                                               control;
  logic                                                   control_valid;
  logic                                                   control_ready;
  run_t                                                   run;
  logic                                                   run_valid;
  logic                                                   run_ready;
  snoop_t                                                 snoop;
  logic                                                   snoop_valid;
  logic                                                   snoop_pop;
  logic                                                   retire_idle;
  logic        [$clog2(QueueDepth):0]                     controls_level;
  logic        [                 2:0][$clog2(RunDepth):0] levels;
  logic                                                   hold;
  completion_t                                            completion;
  /* verilator lint_off UNUSEDSIGNAL */  // without services
  logic                                                   retire;
  qp_index_t                                              retire_qp;
  /* verilator lint_on UNUSEDSIGNAL */
  logic                                                   services_ready;
  logic                                                   services_idle;
  // Offset of the run's first byte in the first beat of its data.
  logic        [                 5:0]                     from;

  assign room = controls_ready && runs_ready && writes_ready && snoops_ready && services_ready && retire_ready;

  /* verilator lint_off UNUSEDSIGNAL */  // the last byte's position within its beat
  logic [12:0] last_byte;
  /* verilator lint_on UNUSEDSIGNAL */
  assign last_byte = 13'(offset) + bytes - 13'd1;

  assign control_in = '{
          word: writes && word,
          value: value,
          frame: verdict_packet && (!reordered || !word),
          move: moves && !word,
          first: offset[6],
          last: last_byte[12:6],
          reordered: reordered,
          place: responder_i.reorder_place
      };

  fifo #(
    .T    (control_t),
    .Depth(QueueDepth)
  ) i_controls (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && (moves || (verdict_packet && !reordered))),
    .in_ready_o (controls_ready),
    .in_i       (control_in),
    .out_valid_o(control_valid),
    .out_ready_i(control_ready),
    .out_o      (control),
    .level_o    (controls_level)
  );

  fifo #(
    .T    (run_t),
    .Depth(RunDepth)
  ) i_runs (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && moves),
    .in_ready_o (runs_ready),
    .in_i       ({from, keep ? 6'd0 : address[5:0], bytes}),
    .out_valid_o(run_valid),
    .out_ready_i(run_ready),
    .out_o      (run),
    .level_o    (levels[0])
  );

  fifo #(
    .T    (write_command_t),
    .Depth(RunDepth)
  ) i_writes (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && writes),
    .in_ready_o (writes_ready),
    .in_i       ({target, write_through, address, bytes}),
    .out_valid_o(write_valid_o),
    .out_ready_i(write_ready_i),
    .out_o      (write_o),
    .level_o    (levels[1])
  );

  snoop_t snoop_in;

  assign snoop_in = '{
          keep: keep,
          place: responder_i.reorder_place,
          snoop: !from_requester && responder_i.snoop,
          qp: responder_i.consequence.qp,
          begins: responder_i.begins,
          ends: responder_i.consequence.call,
          word: address[47:6]
      };

  fifo #(
    .T    (snoop_t),
    .Depth(RunDepth)
  ) i_snoops (
    .clk_i,
    .rst_ni,
    .in_valid_i (take && moves),
    .in_ready_o (snoops_ready),
    .in_i       (snoop_in),
    .out_valid_o(snoop_valid),
    .out_ready_i(snoop_pop),
    .out_o      (snoop),
    .level_o    (levels[2])
  );

  always_comb begin
    consequence = responder_i.consequence;
    consequence.answer.original = original_q;
    consequence.advance = requester_i.consequence.advance;
    if (from_requester) begin
      consequence.qp = requester_i.consequence.qp;
      consequence.complete = 1'b0;
      consequence.call = 1'b0;
      consequence.answer.kind = AnswerNone;
      consequence.marker = requester_i.consequence.marker;
    end else begin
      consequence.advance.kind = AdvanceNone;
    end
  end

  placement_retire i_retire (
    .clk_i,
    .rst_ni,
    .in_valid_i      (take),
    .in_ready_o      (retire_ready),
    .in_writes_i     (writes),
    .in_credit_i     (place == PlaceWrite && target == TargetHost),
    .in_requester_i  (from_requester),
    .in_bytes_i      (bytes),
    .in_consequence_i(consequence),
    .written_i,
    .hold_i          (hold),
    .retire_o        (retire),
    .retire_qp_o     (retire_qp),
    .completion_valid_o,
    .completion_ready_i,
    .completion_o    (completion),
    .call_valid_o,
    .call_ready_i,
    .call_o,
    .answer_valid_o,
    .answer_ready_i,
    .answer_qp_o,
    .answer_o,
    .advance_valid_o,
    .advance_ready_i,
    .advance_qp_o,
    .advance_o,
    .marker_o,
    .marker_qp_o,
    .credit_return_valid_o,
    .credit_return_o,
    .credit_return_requester_o,
    .idle_o          (retire_idle)
  );

  // Payloads of frames on their way to memory.

  logic                       payload_valid;
  logic                       payload_ready;
  logic        [BeatBits-1:0] payload;
  logic                       data_valid;
  logic                       data_ready;
  logic        [BeatBits-1:0] data;
  logic                       aligned_valid;
  logic                       aligned_ready;
  write_beat_t                aligned;

  // A frame of the receive buffer, or a payload that was kept.
  logic                       frame_ready;
  logic                       kept_frame;

  assign kept_frame = control.reordered;
  assign reorder_run_o = control_valid && control.frame && control.reordered;
  assign reorder_place_o = control.place;
  assign reorder_end_o = control.last[5:0];
  assign frame_ready_o = frame_ready && !kept_frame;
  assign reorder_ready_o = frame_ready && kept_frame;

  placement_frames i_frames (
    .clk_i,
    .rst_ni,
    .control_valid_i(control_valid),
    .control_ready_o(control_ready),
    .control_word_i (control.word),
    .control_value_i(control.value),
    .control_frame_i(control.frame),
    .control_move_i (control.move),
    .control_first_i(control.first),
    .control_last_i (control.last),
    .frame_valid_i  (kept_frame ? reorder_valid_i : frame_valid_i),
    .frame_ready_o  (frame_ready),
    .frame_last_i   (kept_frame ? reorder_last_i : frame_i.last),
    .frame_data_i   (kept_frame ? reorder_data_i : frame_i.data),
    .out_valid_o    (payload_valid),
    .out_ready_i    (payload_ready),
    .out_data_o     (payload)
  );

  if (Services) begin : gen_services
    // The payload of a SEND or WRITE, on its way to memory.
    logic request;
    logic served;
    logic marked;

    assign request = !from_requester && place == PlaceWrite && !word;

    placement_services #(
      .RunDepth(RunDepth)
    ) i_services (
      .clk_i,
      .rst_ni,
      .serve_valid_i,
      .serve_qp_i,
      .serve_i,
      .run_valid_i         (take && moves),
      .run_ready_o         (services_ready),
      .run_request_i       (request),
      .run_qp_i            (responder_i.consequence.qp),
      .run_message_offset_i(responder_i.message_offset),
      .run_from_i          (word ? 6'd0 : offset[5:0]),
      .run_bytes_i         (bytes),
      .run_from_o          (from),
      .run_served_o        (served),
      .in_valid_i          (payload_valid),
      .in_ready_o          (payload_ready),
      .in_data_i           (payload),
      .service_valid_o,
      .service_ready_i,
      .service_o,
      .served_valid_i,
      .served_ready_o,
      .served_i,
      .out_valid_o         (data_valid),
      .out_ready_i         (data_ready),
      .out_data_o          (data),
      .idle_o              (services_idle)
    );

    placement_marks i_marks (
      .clk_i,
      .rst_ni,
      .in_valid_i (take),
      .in_served_i(served),
      .in_starts_i(request && responder_i.message_offset == '0),
      .judged_valid_i,
      .judged_marked_i,
      .retire_i   (retire),
      .qp_i       (retire_qp),
      .hold_o     (hold),
      .marked_o   (marked)
    );

    // A message without payload has no packet that could be marked.
    always_comb begin
      completion_o = completion;
      if (marked && completion.status == StatusSuccess && completion.bytes != '0) begin
        completion_o.vendor_error = CompletionMarked;
      end
    end
  end else begin : gen_no_services
    assign from = word ? 6'd0 : offset[5:0];
    assign hold = 1'b0;
    assign completion_o = completion;
    assign services_ready = 1'b1;
    assign services_idle = 1'b1;
    assign service_valid_o = 1'b0;
    assign service_o = '0;
    assign served_ready_o = 1'b0;
    assign data_valid = payload_valid;
    assign payload_ready = data_ready;
    assign data = payload;
  end

  realign i_realign (
    .clk_i,
    .rst_ni,
    .command_valid_i(run_valid),
    .command_ready_o(run_ready),
    .from_i         (run.from),
    .to_i           (run.to),
    .bytes_i        (run.bytes),
    .in_valid_i     (data_valid),
    .in_ready_o     (data_ready),
    .in_data_i      (data),
    .out_valid_o    (aligned_valid),
    .out_ready_i    (aligned_ready),
    .out_data_o     (aligned.data),
    .out_strobe_o   (aligned.strobe),
    .out_last_o     (aligned.last)
  );

  // The engine takes a beat before memory does or in the same cycle, so no write becomes visible before the engine
  // has seen it.
  logic       snoop_done_q;
  logic [6:0] snoop_index_q;

  assign snoop_valid_o = aligned_valid && snoop.snoop && !snoop_done_q;
  assign snoop_o = '{
          qp: snoop.qp,
          begins: snoop.begins,
          ends: snoop.ends,
          address: {snoop.word + 42'(snoop_index_q), 6'd0},
          beat: aligned
      };
  assign write_data_valid_o = aligned_valid && !snoop.keep && (!snoop.snoop || snoop_done_q || snoop_ready_i);
  assign write_data_o = aligned;
  assign aligned_ready = snoop.keep || (write_data_ready_i && (!snoop.snoop || snoop_done_q || snoop_ready_i));
  assign reorder_write_o = aligned_valid && snoop.keep;
  assign reorder_write_place_o = snoop.place;
  assign reorder_write_index_o = snoop_index_q[5:0];
  assign reorder_write_last_o = aligned.last;
  assign reorder_write_data_o = aligned.data;
  assign snoop_pop = aligned_valid && aligned_ready && aligned.last;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      snoop_done_q  <= 1'b0;
      snoop_index_q <= '0;
    end else if (aligned_valid) begin
      snoop_done_q <= !aligned_ready && (snoop_done_q || (snoop.snoop && snoop_ready_i));
      if (aligned_ready) snoop_index_q <= aligned.last ? '0 : snoop_index_q + 1'b1;
      assert (snoop_valid);
    end
  end

  assign events_o.placement_stall = verdict_valid && !room;
  assign idle_o = !responder_valid_i && !requester_valid_i && !order_valid_i && state_q == StateIdle
      && controls_level == '0 && levels == '0 && services_idle && unwritten_q == '0 && retire_idle && !frame_valid_i;

  always_ff @(posedge clk_i) begin
    if (rst_ni && responder_valid_i) begin
      assert (responder_i.consequence.advance.kind == AdvanceNone);
    end
    if (rst_ni && requester_valid_i) begin
      assert (!requester_i.consequence.complete && !requester_i.consequence.call);
      assert (requester_i.consequence.answer.kind == AnswerNone && !requester_i.snoop);
      assert (requester_i.place == PlaceNothing || requester_i.place == PlaceWrite);
    end
    if (rst_ni && verdict_valid && place == PlaceWrite) begin
      assert (bytes != '0 && (word || verdict_packet));
    end
  end

endmodule
