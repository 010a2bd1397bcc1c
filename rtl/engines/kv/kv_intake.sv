// Converts an event into an operation: parses the header of its message, validates it as
// crates/engines/kv/src/message.rs does, and computes the position of its key in the table.
//
// An invalid Request becomes OpBadRequest; any other message that is invalid for its kind becomes OpMalformed. Their
// payload is consumed and dropped. Numbers of more than 40 bits and overlong values are treated as invalid, too. (The
// Rust twin accepts such numbers, and refuses a Write with an overlong value at another place, but correct peers send
// neither.) The contents of Sealed and StateChunk are checked by kv_control; here they only must not be empty.
//
// Values are shifted to byte 0 and are zero behind their end; the payload of OpSealed and OpStateChunk is passed on
// unchanged. The beats follow their operation, and all of them must be accepted before the next operation comes.
//
// Latency: 3 cycles from an event, if its payload is available at once, to its operation; 1 more to the first beat.
// Throughput: an operation in 3 cycles, or a beat every cycle; dropped payload takes a cycle for each beat. Order:
// kept. Stalls: the event, while an operation or its beats are not accepted. `op_o` is wired from the header beat, so
// it is stable only until the operation is accepted.
module kv_intake
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_messages_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  // Number of buckets of the table, less one.
  input  bucket_t       bucket_mask_i,
  // Events, each followed by its payload if it has bytes. The payload may come early.
  input  logic          event_valid_i,
  output logic          event_ready_o,
  input  engine_event_t event_i,
  input  logic          payload_valid_i,
  output logic          payload_ready_o,
  input  beat_t         payload_i,
  output logic          op_valid_o,
  input  logic          op_ready_i,
  output op_t           op_o,
  output logic          value_valid_o,
  input  logic          value_ready_i,
  output beat_t         value_o,
  output logic          idle_o
);

  if (KeyBytes != 8) begin : g_key_bytes
    $fatal(1, "the places of fields are those of keys of 8 bytes");
  end

  typedef logic [BeatBits-1:0] data_t;

  // Class of the message, from its kind alone.
  typedef enum logic [3:0] {
    MessageNone,
    MessageRequest,
    MessageWrite,
    MessageAcknowledge,
    MessageCommit,
    MessageWhole,         // Sealed or StateChunk
    MessageStateRequest,
    MessageUnknown
  } message_e;

  // The event, and the current beat of its payload.
  logic          event_valid_q;
  engine_event_t event_q;
  logic          beat_valid_q;
  beat_t         beat_q;

  // The operation has been decoded for one cycle (`looked_q`) or for two cycles (`ready_q`).
  logic looked_q, ready_q;
  // The operation's beats are being forwarded (`give_q`) or dropped (`swallow_q`).
  logic give_q, swallow_q;

  logic complete, take, gives, rests, finish;
  logic give, give_last, swallow, load;

  assign complete = event_valid_q && (event_q.bytes == '0 || beat_valid_q) && !give_q && !swallow_q;
  assign op_valid_o = ready_q;
  assign take = ready_q && op_ready_i;
  // The payload has more beats to drop than the current one.
  assign rests = event_q.bytes != '0 && !beat_q.last;
  assign give = value_valid_o && value_ready_i;
  assign swallow = swallow_q && payload_valid_i;
  assign finish = (take && !gives && !rests) || (give && give_last) || (swallow && payload_i.last);
  assign event_ready_o = !event_valid_q || finish;
  assign idle_o = !event_valid_q && !beat_valid_q;

  always_comb begin
    payload_ready_o = !beat_valid_q || (take && !gives && event_q.bytes != '0 && beat_q.last);
    if (give_q) payload_ready_o = value_ready_i && beat_valid_q && !beat_q.last;
    if (swallow_q) payload_ready_o = 1'b1;
  end

  assign load = payload_valid_i && payload_ready_o && !swallow_q && !(give_q && give_last);

  always_ff @(posedge clk_i) begin
    if (event_valid_i && event_ready_o) event_q <= event_i;
    if (load) beat_q <= payload_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      event_valid_q <= 1'b0;
      beat_valid_q  <= 1'b0;
      looked_q      <= 1'b0;
      ready_q       <= 1'b0;
      give_q        <= 1'b0;
      swallow_q     <= 1'b0;
    end else begin
      if (event_ready_o) event_valid_q <= event_valid_i;
      if (load) beat_valid_q <= 1'b1;
      else if (give || (take && !gives && event_q.bytes != '0)) beat_valid_q <= 1'b0;
      looked_q <= complete && !take;
      ready_q  <= complete && looked_q && !take;
      if (take) begin
        give_q    <= gives;
        swallow_q <= !gives && rests;
      end else if (finish) begin
        give_q    <= 1'b0;
        swallow_q <= 1'b0;
      end
    end
  end

  // The header. Fields of different kinds whose offsets differ by the same amount share one selection.

  message_e message;
  always_comb begin
    message = MessageNone;
    if (event_q.kind == EventCall) begin
      message = event_q.message == KindRequest ? MessageRequest : MessageUnknown;
    end else if (event_q.kind == EventDeliver) begin
      unique case (event_q.message)
        KindWrite:                  message = MessageWrite;
        KindAcknowledge:            message = MessageAcknowledge;
        KindCommit:                 message = MessageCommit;
        KindSealed, KindStateChunk: message = MessageWhole;
        KindStateRequest:           message = MessageStateRequest;
        default:                    message = MessageUnknown;
      endcase
    end
  end

  logic is_call;
  assign is_call = event_q.kind == EventCall;

  // The word that begins at byte `at`.
  function automatic logic [63:0] word(data_t data, int unsigned at);
    return word_lanes(data[8*at+:64]);
  endfunction

  logic [63:0] first, second, third;
  logic [63:0] client, request, version, key;
  logic [ 7:0] operation;
  logic [15:0] value_bytes;
  assign first = word(beat_q.data, 0);
  assign second = word(beat_q.data, 8);
  assign third = word(beat_q.data, 16);
  assign client = is_call ? second : word(beat_q.data, 24);
  assign request = is_call ? third : word(beat_q.data, 32);
  assign version = is_call ? word(beat_q.data, 24) : word(beat_q.data, 40);
  assign key = is_call ? word(beat_q.data, 32) : word(beat_q.data, 48);
  assign operation = is_call ? first[63:56] : first[31:24];
  assign value_bytes = is_call ? first[47:32] : first[15:0];

  place_t place;

  kv_hash i_hash (
    .clk_i,
    .rst_ni,
    .bucket_mask_i,
    .key_valid_i  (complete && !looked_q),
    .key_i        (key),
    .place_valid_o(),
    .place_o      (place)
  );

  // Results of the first cycle.
  typedef struct packed {
    logic            identified;
    logic [16:0]     rest;                // bytes of the message without its value
    operation_kind_e operation;
    logic            operation_known;
    logic            reserved_zero;
    logic            status_known;
    logic            status_ok;
    logic            value_some;
    logic            value_fits;
    logic            request_some;
    logic            version_some;
    logic            number_some;
    logic            second_fits;
    logic            third_fits;
    logic            committed_accepted;
    logic            flags_known;
    logic            what_known;
  } finding_t;

  finding_t finding_q;
  message_e message_q;
  logic good, has_value;
  logic [16:0] rest;

  always_ff @(posedge clk_i) begin
    if (complete && !looked_q) begin
      message_q <= message;
      finding_q.identified <= event_q.bytes >= 16'd32;
      // For a message without a value this is its full length.
      finding_q.rest <= 17'(event_q.bytes)
          - (message == MessageRequest || message == MessageWrite ? 17'(value_bytes) : 17'd0);
      finding_q.operation <= operation_kind_e'(operation[2:0]);
      finding_q.operation_known <= operation >= (is_call ? 8'(Get) : 8'(Put)) && operation <= 8'(CompareAndSet);
      finding_q.reserved_zero <= first[55:48] == '0 && first[31:0] == '0;
      finding_q.status_known <= first[23:16] <= 8'(StatusTableFull);
      finding_q.status_ok <= first[17:16] == '0;
      finding_q.value_some <= value_bytes != '0;
      finding_q.value_fits <= value_bytes <= 16'(ValueBytesMax);
      finding_q.request_some <= request != '0;
      finding_q.version_some <= version != '0;
      finding_q.number_some <= second[39:0] != '0;
      finding_q.second_fits <= second[63:40] == '0;
      finding_q.third_fits <= third[63:40] == '0;
      finding_q.committed_accepted <= third[39:0] <= second[39:0];
      finding_q.flags_known <= first[31:26] == '0;
      finding_q.what_known <= second[63:57] == '0;
    end
  end

  assign rest = finding_q.rest;

  always_comb begin
    has_value = finding_q.operation == Put || finding_q.operation == CompareAndSet;
    good = 1'b0;
    unique case (message_q)
      MessageRequest: begin
        good = rest == 17'(RequestHeaderBytes) && finding_q.operation_known && finding_q.reserved_zero
            && finding_q.request_some && finding_q.value_some == has_value && finding_q.value_fits
            && (!finding_q.version_some || finding_q.operation == CompareAndSet);
      end
      MessageWrite: begin
        good = rest == 17'(WriteHeaderBytes) && finding_q.operation_known && finding_q.status_known
            && finding_q.number_some && finding_q.second_fits && finding_q.third_fits && finding_q.request_some
            && finding_q.value_some == (has_value && finding_q.status_ok) && finding_q.value_fits;
      end
      MessageAcknowledge: begin
        good = rest == 17'(AcknowledgeBytes) && finding_q.flags_known && finding_q.second_fits
            && finding_q.third_fits && finding_q.committed_accepted;
      end
      MessageCommit: good = rest == 17'(CommitBytes) && finding_q.second_fits;
      MessageStateRequest: good = rest == 17'(StateRequestBytes) && finding_q.what_known;
      MessageWhole: good = rest != '0;
      default: ;
    endcase
  end

  // Results of the second cycle.
  op_kind_e kind_q, kind_d;
  logic gives_q;

  always_comb begin
    kind_d = OpMalformed;
    unique case (event_q.kind)
      EventReset:     kind_d = OpReset;
      EventConfigure: kind_d = OpConfigure;
      EventTimer:     kind_d = OpTimer;
      EventDone:      kind_d = OpNothing;
      default: begin
        if (message_q == MessageRequest) begin
          kind_d = good ? OpRequest : OpBadRequest;
        end else if (good) begin
          unique case (event_q.message)
            KindWrite:        kind_d = OpWrite;
            KindAcknowledge:  kind_d = OpAcknowledge;
            KindCommit:       kind_d = OpCommit;
            KindSealed:       kind_d = OpSealed;
            KindStateRequest: kind_d = OpStateRequest;
            default:          kind_d = OpStateChunk;
          endcase
        end
      end
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (looked_q && !ready_q) begin
      kind_q <= kind_d;
      gives_q <= good && (message_q == MessageWhole
          || ((message_q == MessageRequest || message_q == MessageWrite) && finding_q.value_some));
    end
  end

  assign gives = gives_q;

  assign op_o = '{
          kind: kind_q,
          last: event_q.last || (event_q.kind != EventCall && event_q.kind != EventDeliver),
          from : event_q.from,
          identified: finding_q.identified,
          asker: '{caller: event_q.caller, client: client, request: request},
          operation: finding_q.operation,
          status: reply_status_e'(first[19:16]),
          epoch: first[63:32],
          number: second[39:0],
          accepted: second[39:0],
          committed: message_q == MessageCommit ? second[39:0] : third[39:0],
          gap: first[24],
          asks: first[25],
          version: version,
          key: key,
          place: place,
          value_bytes: value_bytes[10:0],
          attempt: first[31:0],
          sessions: second[56],
          position: second[31:0],
          timer: event_q.tag[4:0]
      };

  // The value: the upper part of the current beat and the lower part of the next one.

  logic whole_q, call_q;
  // Beats behind the one that is offered; bytes used in the last one, 0 if it is full.
  value_beats_t left_q, left_d;
  logic [5:0] used_q, used_d;
  // Mask of the used bytes of the offered beat. It is computed one cycle ahead, so data and mask fit one LUT.
  logic [BeatBytes-1:0] keep_q;

  assign left_d = take ? value_beats_t'((value_bytes[10:0] - 11'd1) >> 6) : left_q - 1'b1;
  assign used_d = take ? value_bytes[5:0] : used_q;

  always_ff @(posedge clk_i) begin
    if (take) begin
      whole_q <= message_q == MessageWhole;
      call_q  <= is_call;
    end
    if (take || give) begin
      left_q <= left_d;
      used_q <= used_d;
      if (left_d != '0 || used_d == '0 || (take ? message_q == MessageWhole : whole_q)) begin
        keep_q <= '1;
      end else begin
        for (int unsigned i = 0; i < BeatBytes; i++) keep_q[i] <= 6'(i) < used_d;
      end
    end
  end

  data_t shifted;
  localparam int unsigned CallShift = 8 * RequestHeaderBytes;
  localparam int unsigned WriteShift = 8 * WriteHeaderBytes;

  always_comb begin
    if (whole_q) shifted = beat_q.data;
    else if (call_q) shifted = {payload_i.data[CallShift-1:0], beat_q.data[BeatBits-1:CallShift]};
    else shifted = {payload_i.data[WriteShift-1:0], beat_q.data[BeatBits-1:WriteShift]};
    for (int unsigned i = 0; i < BeatBytes; i++) begin
      value_o.data[8*i+:8] = keep_q[i] ? shifted[8*i+:8] : '0;
    end
  end

  assign give_last = whole_q ? beat_q.last : left_q == '0;
  assign value_valid_o = give_q && beat_valid_q && (beat_q.last || payload_valid_i);
  assign value_o.last = give_last;
  assign value_o.empty = give_last ? (whole_q ? beat_q.empty : -used_q) : '0;

endmodule
