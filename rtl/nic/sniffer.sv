// Captures the frames that pass the port in the pcapng format (draft-ietf-opsawg-pcapng): BALBOA, 4.7.
//
// Each frame that passes the filter becomes an Enhanced Packet Block, as in the soft NIC's captures: interface 0 for
// received frames and 1 for sent ones, direction in `epb_flags`, time of the first beat in nanoseconds (`if_tsresol`
// 9; a cycle is 4 ns). Software writes the section header and the two interface blocks, and appends the blocks that
// leave here.
//
// Latency: 6 cycles from a frame's last beat to the first of its block. Throughput: one beat every cycle, and one or
// two extra cycles for each frame. Order: kept for each direction. Blocks of the two directions alternate, so their
// time stamps may be out of order. Stalls: never the port; a frame that finds no room is dropped and counted.
module sniffer
  import weft_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  cycles_t         now_i,
  // Must change only while no frame passes; `snap` 0 keeps frames whole.
  input  sniffer_config_t config_i,
  // Beats that pass on the two sides of the MAC. The sniffer only observes them.
  input  logic            receive_valid_i,
  input  beat_t           receive_i,
  input  logic            transmit_valid_i,
  input  beat_t           transmit_i,
  // Blocks, each starting at byte 0 of a beat.
  output logic            out_valid_o,
  input  logic            out_ready_i,
  output beat_t           out_o,
  output sniffer_events_t events_o,
  output logic            idle_o
);

  localparam int unsigned HeaderBytes = 28;
  localparam int unsigned RoomBytes = BeatBytes - HeaderBytes;
  localparam int unsigned TailWords = 4;
  localparam int unsigned Words = BeatBytes / 4;
  // Width of a block's length: a block is slightly longer than its frame.
  localparam int unsigned BlockBits = $bits(frame_bytes_t) + 1;

  typedef struct packed {
    beat_t        beat;
    cycles_t      timestamp;
    frame_bytes_t captured;
    frame_bytes_t original;
  } item_t;

  typedef logic [BlockBits-1:0] block_bytes_t;

  item_t                 receive_item;
  item_t                 transmit_item;
  logic            [1:0] item_valid;
  logic            [1:0] item_ready;
  logic            [1:0] tap_idle;
  sniffer_events_t       events;

  sniffer_tap u_receive (
    .clk_i,
    .rst_ni,
    .now_i,
    .enable_i(config_i.receive),
    .config_i,
    .valid_i(receive_valid_i),
    .beat_i(receive_i),
    .out_valid_o(item_valid[0]),
    .out_ready_i(item_ready[0]),
    .out_o(receive_item.beat),
    .out_timestamp_o(receive_item.timestamp),
    .out_captured_o(receive_item.captured),
    .out_original_o(receive_item.original),
    .taken_o(events.sniffed_received),
    .dropped_o(events.drop_sniffed_received),
    .idle_o(tap_idle[0])
  );

  sniffer_tap u_transmit (
    .clk_i,
    .rst_ni,
    .now_i,
    .enable_i(config_i.transmit),
    .config_i,
    .valid_i(transmit_valid_i),
    .beat_i(transmit_i),
    .out_valid_o(item_valid[1]),
    .out_ready_i(item_ready[1]),
    .out_o(transmit_item.beat),
    .out_timestamp_o(transmit_item.timestamp),
    .out_captured_o(transmit_item.captured),
    .out_original_o(transmit_item.original),
    .taken_o(events.sniffed_sent),
    .dropped_o(events.drop_sniffed_sent),
    .idle_o(tap_idle[1])
  );

  logic  in_valid;
  logic  in_ready;
  // verilator lint_off UNUSEDSIGNAL
  item_t in;  // `empty` of the last beat is ignored: the lengths determine it
  // verilator lint_on UNUSEDSIGNAL
  logic  in_last;
  logic  in_transmit;

  arbiter #(
    .T(item_t),
    .N(2)
  ) u_turns (
    .clk_i,
    .rst_ni,
    .in_valid_i(item_valid),
    .in_ready_o(item_ready),
    .in_i({transmit_item, receive_item}),
    .in_last_i({transmit_item.beat.last, receive_item.beat.last}),
    .out_valid_o(in_valid),
    .out_ready_i(in_ready),
    .out_o(in),
    .out_last_o(in_last),
    .grant_o(in_transmit)
  );

  // The block header is prepended, which shifts the frame by 28 bytes. Padding to 4 bytes and the trailer follow the
  // frame.
  logic                             first_q;
  logic                             flush_q;
  logic                             out_valid_q;
  beat_t                            out_q;
  logic         [8*HeaderBytes-1:0] rest_q;
  logic         [8*HeaderBytes-1:0] header;
  logic         [8*HeaderBytes-1:0] front;
  logic         [     BeatBits-1:0] data;
  logic         [     BeatBits-1:0] finished;
  block_bytes_t                     padded;
  block_bytes_t                     total;
  // Bytes of this block that remain, this beat included: in total, and those in front of the padding.
  block_bytes_t                     left;
  block_bytes_t                     left_q;
  block_bytes_t                     body;
  block_bytes_t                     body_q;
  block_bytes_t                     total_q;
  logic                             transmit_q;
  logic                             ends;
  logic                             step;

  assign padded = (block_bytes_t'(in.captured) + block_bytes_t'(3)) & ~block_bytes_t'(3);
  assign total = first_q ? padded + block_bytes_t'(HeaderBytes + 4 * TailWords) : total_q;
  assign left = first_q ? total : left_q;
  assign body = first_q ? block_bytes_t'(in.captured) + block_bytes_t'(HeaderBytes) : body_q;
  assign ends = left <= block_bytes_t'(BeatBytes);
  assign in_ready = !flush_q && (!out_valid_q || out_ready_i);
  assign step = (in_valid || flush_q) && (!out_valid_q || out_ready_i);

  assign header = {
    32'(in.original),
    32'(in.captured),
    {in.timestamp[29:0], 2'b0},
    {14'b0, in.timestamp[47:30]},
    32'(in_transmit),
    32'(total),
    32'd6
  };
  assign front = first_q ? header : rest_q;
  assign data = {in.beat.data[8*RoomBytes-1:0], front};

  logic [3:0][31:0] tail;
  logic             outbound;
  assign outbound = first_q ? in_transmit : transmit_q;
  assign tail = {32'(total), 32'd0, outbound ? 32'd2 : 32'd1, 32'h0004_0002};

  // Number of the block's words behind this one; saturated.
  logic [4:0] words_left;
  logic [4:0] behind;
  always_comb begin
    words_left = left >= block_bytes_t'(BeatBytes + 4 * TailWords) ? 5'(Words + TailWords) : 5'(left >> 2);
    for (int unsigned i = 0; i < Words; i++) begin
      behind = words_left - 5'(i) - 5'd1;
      for (int unsigned j = 0; j < 4; j++) begin
        finished[32*i+8*j+:8] = block_bytes_t'(4 * i + j) < body ? data[32*i+8*j+:8] : '0;
      end
      if (5'(i) < words_left && behind < 5'(TailWords)) begin
        finished[32*i+:32] = tail[2'(TailWords-1)-behind[1:0]];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (step) begin
      out_q.data  <= finished;
      out_q.last  <= ends;
      out_q.empty <= ends ? 6'(block_bytes_t'(BeatBytes) - left) : '0;
      left_q      <= left - block_bytes_t'(BeatBytes);
      body_q      <= body > block_bytes_t'(BeatBytes) ? body - block_bytes_t'(BeatBytes) : '0;
      total_q     <= total;
      transmit_q  <= outbound;
      rest_q      <= in.beat.data[BeatBits-1:8*RoomBytes];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q     <= 1'b1;
      flush_q     <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      if (out_ready_i) out_valid_q <= 1'b0;
      if (step) begin
        out_valid_q <= 1'b1;
        first_q     <= ends;
        flush_q     <= !flush_q && in_last && !ends;
      end
    end
  end

  assign out_valid_o = out_valid_q;
  assign out_o = out_q;
  assign events_o = events;
  assign idle_o = &tap_idle && !out_valid_q && !flush_q && first_q && !receive_valid_i && !transmit_valid_i;

endmodule
