// Sends an engine's messages, each in a datagram of its own: to a set of peers in ascending order, or back to a
// caller.
//
// The payload is transferred once, however many peers there are. Its beats are stored in a buffer, where they wait
// for the CRC, and are read again for each frame. Headers and the CRC are inserted at the output. UDP's checksum is
// zero, since the datagram has a stronger one. A peer that is not configured, or whose MAC address cannot be found,
// gets no frame, and is counted.
//
// Latency: 5 cycles from a message to its frame's first beat, if its payload arrives with it or in the next cycle and
// the MAC address is known. Throughput: a beat of a frame every cycle, without a gap between messages. Order: kept.
// Stalls: the input, while 16 messages or about 400 beats wait; all messages, during a lookup in the neighbour table.
// A frame has no gap if its payload has none.
//
// Sources: RFC 791, 768; crates/wire/src/datagram.rs.
module message_transmit
  import weft_pkg::*;
  import engines_pkg::*;
#(
  // The slot of the engine, at the sender and at the receiver.
  parameter logic [7:0] Engine = 8'd0,
  // Maximum size of a UDP payload in bytes; a longer one is not sent.
  parameter int unsigned DatagramBytesMax = 1472
) (
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  mac_address_t             hardware_i,
  input  ipv4_address_t            address_i,
  // A peer is configured, which also clears its MAC address. Never stalls.
  input  logic                     peer_valid_i,
  input  node_t                    peer_node_i,
  input  peer_t                    peer_i,
  // A peer's datagram arrived from this MAC address. Never stalls.
  input  logic                     learn_valid_i,
  input  node_t                    learn_node_i,
  input  mac_address_t             learn_mac_i,
  input  logic                     message_valid_i,
  output logic                     message_ready_o,
  input  engine_message_t          message_i,
  // Payload. A message without a payload has no beat. Must not pause.
  input  logic                     body_valid_i,
  output logic                     body_ready_o,
  input  beat_t                    body_i,
  // To the neighbour table of `arp`.
  output logic                     lookup_valid_o,
  input  logic                     lookup_ready_i,
  output ipv4_address_t            lookup_o,
  input  logic                     result_valid_i,
  output logic                     result_ready_o,
  input  logic                     result_hit_i,
  input  mac_address_t             result_mac_i,
  output logic                     out_valid_o,
  input  logic                     out_ready_i,
  output beat_t                    out_o,
  output message_transmit_events_t events_o,
  output logic                     idle_o
);

  localparam int unsigned HeaderBytes = 42;
  // Capacity for waiting payload in beats; a power of two.
  localparam int unsigned Depth = 512;
  localparam int unsigned IndexBits = $clog2(Depth);
  // Beats of the longest frame.
  localparam int unsigned BeatsMax = (HeaderBytes + DatagramBytesMax + BeatBytes - 1) / BeatBytes;
  // The longest payload: without the datagram's header and trailer and the message's header.
  localparam int unsigned BytesMax = (DatagramBytesMax - 24) / 8 * 8;
  localparam logic [15:0] VersionAndService = 16'h4500;
  localparam logic [15:0] DontFragment = 16'h4000;
  localparam logic [15:0] TimeToLiveAndUdp = 16'h4011;

  // One bit more than an index, to distinguish a full memory from an empty one.
  typedef logic [IndexBits:0] pointer_t;

  // Input of messages.

  pointer_t                tail_q;  // next beat to write
  pointer_t                front_q;  // first beat of the message that is being sent
  pointer_t                level;
  logic                    room;
  logic                    too_large;
  logic                    accept;
  logic                    pack_ready;
  logic                    queue_ready;
  logic                    beat_valid;
  logic     [BeatBits-1:0] beat;
  logic                    crc_in_valid;
  logic     [        31:0] crc_in;
  logic                    pack_idle;
  logic                    route_idle;
  logic     [         7:0] words_in;

  assign level = tail_q - front_q;
  // The margin covers one more message that may be in the pipeline.
  assign room = level <= pointer_t'(Depth - 2 * BeatsMax - 2);
  assign too_large = message_i.bytes > message_bytes_t'(BytesMax);
  assign message_ready_o = pack_ready && queue_ready && room;
  assign accept = message_valid_i && message_ready_o;
  assign words_in = 8'(message_i.bytes >> 3) + 8'(message_i.bytes[2:0] != '0);

  message_pack #(
    .Engine(Engine)
  ) i_pack (
    .clk_i,
    .rst_ni,
    .message_valid_i(accept),
    .message_ready_o(pack_ready),
    .message_i      (message_i.message),
    .bytes_i        (message_i.bytes),
    .drop_i         (too_large),
    .body_valid_i,
    .body_ready_o,
    .body_i,
    .beat_valid_o   (beat_valid),
    .beat_o         (beat),
    .crc_valid_o    (crc_in_valid),
    .crc_o          (crc_in),
    .idle_o         (pack_idle)
  );

  logic                 route_valid;
  logic                 route_ready;
  logic                 route_send;
  logic                 route_final;
  mac_address_t         route_mac;
  ipv4_address_t        route_destination;
  logic          [15:0] route_port;
  logic          [15:0] route_checksum;
  logic          [ 7:0] route_words;

  message_route i_route (
    .clk_i,
    .rst_ni,
    .address_i,
    .peer_valid_i,
    .peer_node_i,
    .peer_i,
    .learn_valid_i,
    .learn_node_i,
    .learn_mac_i,
    .message_valid_i    (accept && !too_large),
    .message_ready_o    (queue_ready),
    .reply_i            (message_i.reply),
    .to_i               (message_i.to),
    .mac_i              (message_i.caller.mac),
    .caller_i           (message_i.caller.address),
    .port_i             (message_i.caller.port),
    .words_i            (words_in),
    .lookup_valid_o,
    .lookup_ready_i,
    .lookup_o,
    .result_valid_i,
    .result_ready_o,
    .result_hit_i,
    .result_mac_i,
    .route_valid_o      (route_valid),
    .route_ready_i      (route_ready),
    .send_o             (route_send),
    .final_o            (route_final),
    .mac_o              (route_mac),
    .destination_o      (route_destination),
    .port_o             (route_port),
    .checksum_o         (route_checksum),
    .words_o            (route_words),
    .without_peer_o     (events_o.messages_without_peer),
    .without_neighbour_o(events_o.messages_without_neighbour),
    .idle_o             (route_idle)
  );

  // Output of frames: the beats are read again for each frame.

  typedef struct packed {
    logic first;
    logic crc;    // the CRC begins in this beat
    logic rest;   // the beat holds the remaining bytes of the CRC only
    logic last;
    logic done;   // the message ends with this beat
  } step_t;

  pointer_t                fetch_q;  // next beat to read
  logic                    begun_q;
  logic     [         4:0] left_q;  // beats behind this one, except one with remaining bytes of a CRC
  logic     [         4:0] left;
  logic                    rest_q;  // the next beat holds the remaining bytes of the CRC
  logic                    there;
  logic                    fetch;
  logic                    forgo;  // the message is not sent at all
  logic                    leaves;
  logic                    crc_valid;
  logic     [        31:0] crc_register;
  logic     [        31:0] crc_complement;
  logic     [        31:0] crc;
  logic                    crc_taken;
  logic     [         2:0] crc_at;  // the CRC begins at offset 8 * `crc_at` + 6
  logic     [         5:0] unused_level;
  step_t                   step;
  step_t                   step_q;
  logic                    step_valid_q;
  logic                    step_ready;
  logic                    ends;
  logic     [BeatBits-1:0] stored;
  logic     [BeatBits-1:0] data;
  logic                    out_valid_q;
  beat_t                   out_q;

  ram #(
    .T    (logic [BeatBits-1:0]),
    .Depth(Depth)
  ) i_beats (
    .clk_i,
    .write_i        (beat_valid),
    .write_address_i(tail_q[IndexBits-1:0]),
    .write_data_i   (beat),
    .read_i         (fetch && !step.rest),
    .read_address_i (fetch_q[IndexBits-1:0]),
    .read_data_o    (stored)
  );

  fifo #(
    .T    (logic [31:0]),
    .Depth(32)
  ) i_crcs (
    .clk_i,
    .rst_ni,
    .in_valid_i (crc_in_valid),
    .in_ready_o (),
    .in_i       (crc_in),
    .out_valid_o(crc_valid),
    .out_ready_i(crc_taken),
    .out_o      (crc_register),
    .level_o    (unused_level)
  );

  // A payload of n beats makes a frame of n + 1 beats, because all but 6 bytes of each beat are shifted into the
  // next.
  assign left = begun_q ? left_q : 5'((9'(route_words) + 9'd7) >> 3);
  assign crc_at = route_words[2:0] - 3'd1;
  assign there = rest_q || fetch_q != tail_q;
  assign fetch = route_valid && route_send && there && (!step_valid_q || step_ready);
  assign step.first = !begun_q;
  assign step.crc = !rest_q && left == '0;
  assign step.rest = rest_q;
  assign step.last = rest_q || (left == '0 && crc_at != '1);
  assign step.done = route_final;
  assign ends = fetch && step.last;
  assign forgo = route_valid && !route_send && crc_valid && !step_valid_q;
  assign route_ready = ends || forgo;
  assign step_ready = !out_valid_q || out_ready_i;
  assign leaves = step_valid_q && step_ready;
  assign crc_taken = forgo || (leaves && step_q.last && step_q.done);

  pointer_t after;  // one past the message's last beat
  assign after = step.rest ? fetch_q : fetch_q + 1'b1;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      tail_q       <= '0;
      front_q      <= '0;
      fetch_q      <= '0;
      begun_q      <= 1'b0;
      rest_q       <= 1'b0;
      step_valid_q <= 1'b0;
      out_valid_q  <= 1'b0;
    end else begin
      if (beat_valid) tail_q <= tail_q + 1'b1;
      if (ends) fetch_q <= route_final ? after : front_q;
      else if (forgo) fetch_q <= front_q + pointer_t'(left) + 1'b1;
      else if (fetch) fetch_q <= after;
      if (ends && route_final) front_q <= after;
      else if (forgo) front_q <= front_q + pointer_t'(left) + 1'b1;
      if (fetch) begin
        begun_q <= !ends;
        rest_q  <= !ends && left == '0;
      end
      if (fetch) step_valid_q <= 1'b1;
      else if (step_ready) step_valid_q <= 1'b0;
      if (leaves) out_valid_q <= 1'b1;
      else if (out_ready_i) out_valid_q <= 1'b0;
    end
    if (fetch) begin
      left_q <= left - 1'b1;
      step_q <= step;
    end
  end

  // Insertion of headers and CRC. A frame has at least two beats, so its route is still valid while its first beat
  // leaves, but may be gone with the last.

  logic [8*HeaderBytes-1:0] header;  // the first byte on the left
  logic [             15:0] datagram_bytes;
  logic [              2:0] crc_at_q;

  assign datagram_bytes = 16'({route_words, 3'd0}) + 16'd24;
  assign header = {
    route_mac,
    hardware_i,
    16'h0800,
    VersionAndService,
    datagram_bytes + 16'd28,
    16'h0,
    DontFragment,
    TimeToLiveAndUdp,
    route_checksum,
    address_i,
    route_destination,
    DatagramPort,
    route_port,
    datagram_bytes + 16'd8,
    16'h0
  };

  always_ff @(posedge clk_i) begin
    if (fetch) crc_at_q <= crc_at;
  end

  crc_scale #(
    .Bits  (256),
    .Divide(1'b1)
  ) i_scale (
    .scale_i   (!crc_at_q[2]),
    .register_i(crc_register),
    .register_o(crc_complement)
  );
  assign crc = ~crc_complement;

  always_comb begin
    data = stored;
    if (step_q.first) begin
      for (int unsigned i = 0; i < HeaderBytes; i++) data[8*i+:8] = header[8*(HeaderBytes-1-i)+:8];
    end
    for (int unsigned i = 0; i < 4; i++) begin
      for (int unsigned word = 0; word < 8; word++) begin
        if (step_q.crc && crc_at_q == 3'(word) && 8 * word + 6 + i < BeatBytes) begin
          data[8*((8*word+6+i)%BeatBytes)+:8] = crc[8*(3-i)+:8];
        end
      end
    end
    if (step_q.rest) data[15:0] = {crc[7:0], crc[15:8]};
  end

  always_ff @(posedge clk_i) begin
    if (leaves) begin
      out_q.last  <= step_q.last;
      out_q.empty <= !step_q.last ? '0 : step_q.rest ? 6'd62 : 6'd54 - {crc_at_q, 3'd0};
      out_q.data  <= data;
    end
  end

  assign out_valid_o = out_valid_q;
  assign out_o = out_q;
  assign events_o.datagrams_sent = ends;
  assign events_o.messages_too_large = accept && too_large;
  assign idle_o = pack_idle && route_idle && !step_valid_q && !out_valid_q;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(leaves && (step_q.crc || step_q.rest)) || crc_valid)
      else $error("a CRC is there when it is needed");
      assert (!(crc_in_valid && unused_level[5]))
      else $error("there are no more CRCs than messages");
    end
  end

  if (BeatsMax > 30 || 4 * BeatsMax > Depth) begin : gen_check
    $error("a message is too long for the buffer");
  end

endmodule
