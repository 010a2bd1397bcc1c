// Builds the frames of the packets that requester and responses block send: Ethernet, IPv4, UDP and BTH from the
// queue pair table and this NIC's addresses, extended headers from the opcode, the payload from memory, pad and ICRC
// (InfiniBand volume 1, clauses 9.2 and 9.3; RoCE v2 annex, A17.3). Byte for byte equal to the frames of the soft
// transport.
//
// A packet's payload is requested from memory in the cycle in which the packet is accepted. The packet then waits, in
// order, with up to 128 others until its whole payload has arrived. Only then its frame begins, because a MAC cannot
// pause within a frame while memory, above all the host's, may. Arriving payloads are aligned and collected in a
// memory of 512 beats, room for seven of the longest. A payload of one or two beats is not delayed by this; one of
// 4096 bytes leaves 63 beats, a quarter of a microsecond, later than if it were forwarded at once. In exchange the
// block needs no timing guarantee from any memory.
//
// Latency, from the acceptance of a packet to the first beat of its frame: 7 cycles without payload. With payload: 5
// cycles and 4 for the ICRC after the last beat that memory returns (so 12 if a payload of one beat arrives 3 cycles
// after its request), and 1 more if the ICRC begins in the last beat but one. Throughput: a beat every cycle, without
// a gap between frames, while memory returns the payloads in time. Order: frames leave in the order in which packets
// are accepted; the two inputs alternate packet by packet. Stalls: the inputs, when 128 packets or 12 KiB wait or the
// memory accepts no command; payload data, when its memory is full; a frame, inside, only by `frame_ready_i`. There
// is no deadlock between packets and data: requested data always finds room in the end, because the frames in front
// of it leave.
module transmit_path
  import weft_pkg::*;
(
  input  logic                  clk_i,
  input  logic                  rst_ni,
  // This NIC's own addresses; constant while packets are sent.
  input  mac_address_t          hardware_i,
  input  ipv4_address_t         address_i,
  // Requests are sent as ECN-capable.
  input  logic                  rate_control_i,
  // Packets to send, of the requester and of the responses block.
  input  logic                  request_valid_i,
  output logic                  request_ready_o,
  input  transmit_t             request_i,
  input  logic                  response_valid_i,
  output logic                  response_ready_o,
  input  transmit_t             response_i,
  // Read port of the queue pair table: data one cycle after the read, stable until the next read.
  output logic                  table_read_o,
  output qp_index_t             table_index_o,
  input  queue_pair_t           table_data_i,
  // Memory read port: data is returned in the order of the requests.
  output logic                  read_valid_o,
  input  logic                  read_ready_i,
  output read_command_t         read_o,
  input  logic                  data_valid_i,
  output logic                  data_ready_o,
  // The length of each transfer is known, so these fields are not read.
  /* verilator lint_off UNUSEDSIGNAL */
  input  beat_t                 data_i,
  /* verilator lint_on UNUSEDSIGNAL */
  // Frames without FCS.
  output logic                  frame_valid_o,
  input  logic                  frame_ready_i,
  output beat_t                 frame_o,
  output transmit_path_events_t events_o,
  output logic                  idle_o
);

  import transmit_pkg::*;

  // Limits for waiting packets: their number, and the 32-bit words that they have in total. 12 KiB is a microsecond
  // on the wire, which is longer than the latency of any memory. More would be wasteful: if a packet before them is
  // lost, all packets that wait here are sent in vain.
  localparam int unsigned Waiting = 128;
  localparam logic [13:0] WaitingWords = 14'd3072;
  // Room for waiting payload, in beats.
  localparam int unsigned PayloadBeats = 512;

  // Packets, alternately from both inputs.

  transmit_t        transmit;
  logic             transmit_valid;
  logic             transmit_ready;
  packet_t          packet_in;
  logic             packet_in_ready;
  logic             align_in_ready;
  logic             reads;
  logic             room;
  logic      [13:0] waiting_q;

  arbiter #(
    .T(transmit_t),
    .N(2)
  ) i_arbiter (
    .clk_i,
    .rst_ni,
    .in_valid_i ({response_valid_i, request_valid_i}),
    .in_ready_o ({response_ready_o, request_ready_o}),
    .in_i       ({response_i, request_i}),
    .in_last_i  (2'b11),
    .out_valid_o(transmit_valid),
    .out_ready_i(transmit_ready),
    .out_o      (transmit),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed here
    .out_last_o (),
    .grant_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign packet_in = encode(transmit);
  assign reads = packet_in.has_payload;
  assign room = packet_in_ready && align_in_ready && waiting_q < WaitingWords;
  assign transmit_ready = room && (read_ready_i || !reads);

  assign read_valid_o = transmit_valid && reads && room;
  assign read_o = '{
          source: transmit.source,
          transfer: '{address: transmit.source_address, bytes: transmit.bytes},
          keep: transmit.keep,
          keep_address: transmit.keep_address
      };

  // Packets that wait for their payload.

  packet_t packet;
  logic    packet_valid;
  logic    packet_ready;
  logic    packets_empty;

  ram_fifo #(
    .T     (packet_t),
    .Depth (Waiting),
    .Bypass(1'b1)
  ) i_packets (
    .clk_i,
    .rst_ni,
    .in_valid_i (transmit_valid && transmit_ready),
    .in_ready_o (packet_in_ready),
    .in_i       (packet_in),
    .out_valid_o(packet_valid),
    .out_ready_i(packet_ready),
    .out_o      (packet),
    .empty_o    (packets_empty)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      waiting_q <= '0;
    end else begin
      waiting_q <= waiting_q + (transmit_valid && transmit_ready ? 14'(packet_in.words) : '0)
          - (packet_valid && packet_ready ? 14'(packet.words) : '0);
    end
  end

  // Alignment of payloads to their position in the frame.

  typedef struct packed {
    logic [5:0] from;
    logic [5:0]       to;
    payload_bytes_t   bytes;
  } align_t;

  typedef struct packed {
    logic                last;
    logic [BeatBits-1:0] data;
  } payload_t;

  align_t   align;
  logic     align_valid;
  logic     align_ready;
  payload_t aligned;
  logic     aligned_valid;
  logic     aligned_ready;
  payload_t payload;
  logic     payload_valid;
  logic     payload_ready;

  fifo #(
    .T    (align_t),
    .Depth(Waiting)
  ) i_aligns (
    .clk_i,
    .rst_ni,
    .in_valid_i(transmit_valid && transmit_ready && reads),
    .in_ready_o(align_in_ready),
    // Destination offset: behind 54 bytes and the extended headers.
    .in_i({transmit.source_address[5:0], 6'd54 + {1'b0, extension_words(transmit.opcode), 2'b00}, transmit.bytes}),
    .out_valid_o(align_valid),
    .out_ready_i(align_ready),
    .out_o(align),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed here
    .level_o()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  realign i_realign (
    .clk_i,
    .rst_ni,
    .command_valid_i(align_valid),
    .command_ready_o(align_ready),
    .from_i         (align.from),
    .to_i           (align.to),
    .bytes_i        (align.bytes),
    .in_valid_i     (data_valid_i),
    .in_ready_o     (data_ready_o),
    .in_data_i      (data_i.data),
    .out_valid_o    (aligned_valid),
    .out_ready_i    (aligned_ready),
    .out_data_o     (aligned.data),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed here
    .out_strobe_o   (),
    /* verilator lint_on PINCONNECTEMPTY */
    .out_last_o     (aligned.last)
  );

  ram_fifo #(
    .T    (payload_t),
    .Depth(PayloadBeats)
  ) i_payloads (
    .clk_i,
    .rst_ni,
    .in_valid_i (aligned_valid),
    .in_ready_o (aligned_ready),
    .in_i       (aligned),
    .out_valid_o(payload_valid),
    .out_ready_i(payload_ready),
    .out_o      (payload),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed here
    .empty_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  // Complete payloads whose frame has not begun: at most one for each beat.
  logic [$clog2(PayloadBeats)+1:0] complete_q;
  logic                            completes;
  logic                            begins;

  assign completes = aligned_valid && aligned_ready && aligned.last;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) complete_q <= '0;
    else if (completes && !begins) complete_q <= complete_q + 1'b1;
    else if (begins && !completes) complete_q <= complete_q - 1'b1;
  end

  // Frames.

  header_t header;
  logic    header_valid;
  logic    header_ready;
  logic    headers_idle;
  beat_t   beat;
  logic    beat_valid;
  logic    straddles;
  logic    straddled;
  logic    beat_room;
  logic    insert_idle;

  header_builder i_headers (
    .clk_i,
    .rst_ni,
    .address_i,
    .rate_control_i,
    .packet_valid_i(packet_valid),
    .packet_ready_o(packet_ready),
    .packet_i      (packet),
    .table_read_o,
    .table_index_o,
    .table_data_i,
    .header_valid_o(header_valid),
    .header_ready_i(header_ready),
    .header_o      (header),
    .idle_o        (headers_idle)
  );

  frame_builder i_frames (
    .clk_i,
    .rst_ni,
    .hardware_i,
    .address_i,
    .header_valid_i    (header_valid),
    .header_ready_o    (header_ready),
    .header_i          (header),
    .payload_complete_i(complete_q != '0 && payload_valid),
    .payload_begin_o   (begins),
    .payload_valid_i   (payload_valid),
    .payload_ready_o   (payload_ready),
    .payload_i         (payload.data),
    .payload_last_i    (payload.last),
    .room_i            (beat_room),
    .beat_valid_o      (beat_valid),
    .beat_o            (beat),
    .straddles_o       (straddles),
    .straddled_o       (straddled)
  );

  icrc_insert i_insert (
    .clk_i,
    .rst_ni,
    .room_o      (beat_room),
    .beat_valid_i(beat_valid),
    .beat_i      (beat),
    .straddles_i (straddles),
    .straddled_i (straddled),
    .frame_valid_o,
    .frame_ready_i,
    .frame_o,
    .idle_o      (insert_idle)
  );

  assign events_o.sent_pkts = frame_valid_o && frame_ready_i && frame_o.last;
  assign events_o.np_cnp_sent = transmit_valid && transmit_ready && transmit.opcode == CongestionNotification;
  // Payload in flight needs no check: its packet is still in the queue.
  assign idle_o = packets_empty && headers_idle && insert_idle;

  always_ff @(posedge clk_i) begin
    if (rst_ni && transmit_valid) begin
      assert (transmit.bytes <= 13'd4096)
      else $error("more payload than any path MTU allows");
    end
  end

endmodule
