// Sends the engine's messages: takes requests of several blocks round-robin, and joins headers and values.
//
// A value follows the header: at byte 40 (Reply) or, for a value from a window, also at byte 56 (Write). A requester
// may attach a value to a header of 40 bytes, or a whole payload without a header. The beats of values are zero
// behind their end, and so are the beats that leave. A value in a window is requested when its request is the next to
// be sent, which may be before the current message has ended. A message is offered when the first beat of its value
// has arrived; the others must follow without a gap.
//
// Latency: 1 cycle from a request without a value to its message and first beat; with a value, the message leaves in
// the cycle in which the value's first beat arrives. Throughput: a beat every cycle, also from message to message.
// Order: kept for each requester. Stalls: requests, until their message is the next to be sent.
module kv_outgoing
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_messages_pkg::*;
#(
  parameter int unsigned         N             = 4,
  // Set of requesters with headers of more than 40 bytes, ...
  parameter logic        [N-1:0] HasLongHeader = N'(4'b0001),
  // ... that attach values to a header of 40 bytes, ...
  parameter logic        [N-1:0] AttachesValue = N'(4'b0100),
  // ... or that attach whole payloads without a header. Each of the last two sets has at most one member.
  parameter logic        [N-1:0] AttachesWhole = N'(4'b1000)
) (
  input  logic                           clk_i,
  input  logic                           rst_ni,
  // A request with `value_bytes` 0 has no value, whatever its source.
  input  logic            [       N-1:0] request_valid_i,
  output logic            [       N-1:0] request_ready_o,
  input  outgoing_t       [       N-1:0] request_i,
  // Attached values, each after its request; all beats but the last are full, and there are no gaps.
  input  logic            [       N-1:0] attached_valid_i,
  output logic            [       N-1:0] attached_ready_o,
  input  beat_t           [       N-1:0] attached_i,
  // Reads of values in windows, in the order of requests; the beats of one value have no gaps.
  output logic                           value_read_valid_o,
  input  logic                           value_read_ready_i,
  output stream_t                        value_read_stream_o,
  output window_place_t                  value_read_place_o,
  output value_beats_t                   value_read_beats_o,
  input  logic                           value_beat_valid_i,
  output logic                           value_beat_ready_o,
  input  logic            [BeatBits-1:0] value_beat_i,
  output logic                           message_valid_o,
  input  logic                           message_ready_i,
  output engine_message_t                message_o,
  output logic                           body_valid_o,
  input  logic                           body_ready_i,
  output beat_t                          body_o,
  // The window slot that an accepted request still reads, and that must not be overwritten.
  output logic                           reading_valid_o,
  output stream_t                        reading_stream_o,
  output window_place_t                  reading_place_o,
  output logic                           idle_o
);

  localparam int unsigned IndexBits = $clog2(N);
  typedef logic [BeatBits-1:0] data_t;
  // Bit offset of a value behind a short header, and behind a long one.
  localparam int unsigned Near = 8 * ReplyHeaderBytes;
  localparam int unsigned Far = 8 * WriteHeaderBytes;
  // Number of beats of a message.
  typedef logic [4:0] count_t;

  // Selection of the next request.

  logic some, take, free, wants_window, value_some;
  logic      [IndexBits-1:0] grant;
  outgoing_t [          3:0] choice;
  outgoing_t                 request;
  logic                      asked_q;
  /* verilator lint_off UNUSEDSIGNAL */  // values have at most 1 KiB
  logic      [         15:0] value_last;
  /* verilator lint_on UNUSEDSIGNAL */

  arbiter #(
    .T(logic),
    .N(N)
  ) i_arbiter (
    .clk_i,
    .rst_ni,
    .in_valid_i (request_valid_i),
    .in_ready_o (request_ready_o),
    .in_i       ('0),
    .in_last_i  ('1),
    .out_valid_o(some),
    .out_ready_i(take),
    .out_o      (),
    .out_last_o (),
    .grant_o    (grant)
  );

  // Requesters without a header, or with a short one, are left out of the multiplexers of the parts that they do not
  // have.
  always_comb begin
    for (int unsigned i = 0; i < 4; i++) begin
      choice[i] = i < N ? request_i[i%N] : '0;
      if (i >= N || AttachesWhole[i%N]) choice[i].header = '0;
      if (i >= N || !HasLongHeader[i%N]) choice[i].header[BeatBits-1:Near] = '0;
    end
  end
  assign request = grant[1] ? (grant[0] ? choice[3] : choice[2]) : (grant[0] ? choice[1] : choice[0]);

  assign value_some = request.value_bytes != '0;
  assign value_last = request.value_bytes - 16'd1;
  assign wants_window = value_some && request.source == ValueWindow;
  assign value_read_valid_o = some && wants_window && !asked_q;
  assign value_read_stream_o = request.stream;
  assign value_read_place_o = request.place;
  assign value_read_beats_o = value_beats_t'(value_last[10:6]) + 1'b1;
  assign take = some && free && (!wants_window || asked_q || value_read_ready_i);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) asked_q <= 1'b0;
    else if (take) asked_q <= 1'b0;
    else if (value_read_valid_o && value_read_ready_i) asked_q <= 1'b1;
  end

  // The current message.

  logic busy_q, message_done_q, body_done_q;
  logic message_fire, body_fire, body_last, finish;
  // Source of the current message's value.
  logic value_q, window_q, table_q, whole_q;
  // The value is at byte 56.
  logic                   far_q;
  logic                   reply_q;
  node_set_t              to_q;
  caller_t                caller_q;
  kind_e                  kind_q;
  message_bytes_t         bytes_q;
  count_t                 index_q;
  count_t                 value_last_q;
  stream_t                stream_q;
  window_place_t          place_q;
  // Whether the current beat needs a beat of the value, and whether that is available.
  logic                   takes_value;
  logic                   value_valid;
  logic                   offer;
  /* verilator lint_off UNUSEDSIGNAL */  // a message has at most 2 KiB
  message_bytes_t         last_byte;
  /* verilator lint_on UNUSEDSIGNAL */
  logic           [N-1:0] owner;

  assign free = !busy_q || finish;
  assign finish = (message_done_q || message_fire) && (body_done_q || (body_fire && body_last));
  assign message_fire = message_valid_o && message_ready_i;
  assign body_fire = body_valid_o && body_ready_i;
  assign last_byte = bytes_q - 1'b1;
  assign body_last = index_q == count_t'(last_byte[10:6]);
  assign takes_value = value_q && index_q <= value_last_q;
  assign offer = busy_q && (!takes_value || value_valid);
  assign message_valid_o = busy_q && !message_done_q && (offer || index_q != '0 || body_done_q);
  assign body_valid_o = offer && !body_done_q;
  assign message_o = '{reply: reply_q, to: to_q, caller: caller_q, message: 8'(kind_q), bytes: bytes_q};
  assign reading_valid_o = busy_q && window_q && takes_value;
  assign reading_stream_o = stream_q;
  assign reading_place_o = place_q;
  assign idle_o = !busy_q && !some;

  always_ff @(posedge clk_i) begin
    if (take) begin
      reply_q      <= request.reply;
      to_q         <= request.to;
      caller_q     <= request.caller;
      kind_q       <= request.message;
      bytes_q      <= request.value_bytes + 16'(request.header_bytes);
      value_q      <= value_some && request.source != ValueNone;
      window_q     <= request.source == ValueWindow;
      table_q      <= request.source == ValueAttached && AttachesValue[grant];
      whole_q      <= request.source == ValueAttached && AttachesWhole[grant];
      far_q        <= request.message == KindWrite;
      value_last_q <= value_last[10:6];
      stream_q     <= request.stream;
      place_q      <= request.place;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) index_q <= '0;
    else if (body_fire) index_q <= index_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q         <= 1'b0;
      message_done_q <= 1'b0;
      body_done_q    <= 1'b0;
    end else begin
      if (free) busy_q <= take;
      if (free) begin
        message_done_q <= 1'b0;
        body_done_q    <= 1'b0;
      end else begin
        if (message_fire) message_done_q <= 1'b1;
        if (body_fire && body_last) body_done_q <= 1'b1;
      end
    end
  end

  // The value.

  data_t attached_value;
  data_t attached_whole;
  logic  attached_valid;

  always_comb begin
    attached_value = '0;
    attached_whole = '0;
    attached_valid = 1'b0;
    for (int unsigned i = 0; i < N; i++) begin
      if (AttachesValue[i]) attached_value |= attached_i[i].data;
      if (AttachesWhole[i]) attached_whole |= attached_i[i].data;
      owner[i] = (AttachesValue[i] && table_q) || (AttachesWhole[i] && whole_q);
      attached_valid |= owner[i] && attached_valid_i[i];
    end
  end

  assign value_valid = window_q ? value_beat_valid_i : attached_valid;
  assign value_beat_ready_o = busy_q && window_q && takes_value && !body_done_q && body_ready_i;
  assign attached_ready_o = busy_q && takes_value && !body_done_q && body_ready_i ? owner : '0;

  // The lower part of a beat: of the header, or what is left of the previous beat of the value.

  logic [Near-1:0] header_q;
  logic [Near-1:0] rest_q;
  // Zero except in a Write.
  logic [Far-1:Near] middle_q;
  // The current beat is the first of its message.
  logic first_q;

  always_ff @(posedge clk_i) begin
    if (take) header_q <= request.header[Near-1:0];
    if (body_fire && value_q) begin
      if (far_q) rest_q <= value_beat_i[BeatBits-Far+:Near];
      else if (window_q) rest_q <= value_beat_i[BeatBits-1-:Near];
      else rest_q <= attached_value[BeatBits-1-:Near];
    end
    if (take) middle_q <= request.header[Far-1:Near];
    else if (body_fire && far_q) middle_q <= value_beat_i[BeatBits-1-:Far-Near];
    if (take) first_q <= 1'b1;
    else if (body_fire) first_q <= 1'b0;
  end

  // Source of the bytes from `Near` to `Far`: the lower part, if it is long or no value follows; otherwise the value.
  typedef enum logic [1:0] {
    MiddleFront,
    MiddleWindow,
    MiddleTable,
    MiddleWhole
  } middle_e;
  middle_e middle;

  always_comb begin
    middle = MiddleFront;
    if (whole_q) middle = MiddleWhole;
    else if (takes_value && !far_q) middle = window_q ? MiddleWindow : MiddleTable;
  end

  always_comb begin
    body_o.data[Near-1:0] = whole_q ? attached_whole[Near-1:0] : (first_q ? header_q : rest_q);
    unique case (middle)
      MiddleFront:  body_o.data[Far-1:Near] = middle_q;
      MiddleWindow: body_o.data[Far-1:Near] = value_beat_i[Far-Near-1:0];
      MiddleTable:  body_o.data[Far-1:Near] = attached_value[Far-Near-1:0];
      default:      body_o.data[Far-1:Near] = attached_whole[Far-1:Near];
    endcase
    body_o.data[BeatBits-1:Far] = '0;
    unique case (middle)
      MiddleFront:  if (takes_value) body_o.data[BeatBits-1:Far] = value_beat_i[BeatBits-Far-1:0];
      MiddleWindow: body_o.data[BeatBits-1:Far] = value_beat_i[Far-Near+:BeatBits-Far];
      MiddleTable:  body_o.data[BeatBits-1:Far] = attached_value[Far-Near+:BeatBits-Far];
      default:      body_o.data[BeatBits-1:Far] = attached_whole[BeatBits-1:Far];
    endcase
  end

  assign body_o.last  = body_last;
  assign body_o.empty = body_last ? -bytes_q[5:0] : '0;

  // Assertions.

  always_ff @(posedge clk_i) begin
    if (rst_ni && take) begin
      assert (request.source != ValueWindow || request.header_bytes == 7'(far_header(request.message)))
      else $error("a value of a window stands at byte 40 or 56");
      assert (request.source != ValueAttached || AttachesValue[grant] || AttachesWhole[grant])
      else $error("this requester attaches nothing");
    end
    if (rst_ni && busy_q && index_q != '0 && !body_done_q) begin
      assert (offer)
      else $error("a payload pauses");
    end
  end

  function automatic int unsigned far_header(kind_e kind);
    return kind == KindWrite ? WriteHeaderBytes : ReplyHeaderBytes;
  endfunction

endmodule
