// Routes received datagrams to the engine that opened their port, or else to the host.
//
// The table of open ports is a hash table in RAM of 64 sets of four entries, which are compared at once. The hash is
// the port modulo 64. So any 256 consecutive ports fit, and a user can tell which ports share a set. An engine gets
// the payload from byte 0 of a beat on, with the sender's address and the time at which the frame arrived (detPU,
// 4.1.2 and 4.3.1); the host gets the whole frame.
//
// Latency: 2 cycles to the host; 5 from the last beat of a frame to its datagram. Throughput: one beat every cycle,
// and two extra cycles for each frame. Order: kept. Stalls: the input, while the host's side stalls. If a slow engine
// leaves no room, its datagram is dropped and counted.
module udp_sockets
  import weft_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_ni,
  // Datagrams to the port's address, as whole frames whose lengths have been checked, with the time of their first
  // beat.
  input  logic                frame_valid_i,
  output logic                frame_ready_o,
  input  beat_t               frame_i,
  input  cycles_t             frame_timestamp_i,
  // Frames to ports that no engine has opened.
  output logic                host_valid_o,
  input  logic                host_ready_i,
  output beat_t               host_o,
  output cycles_t             host_timestamp_o,
  // Datagrams for engines; the payload follows each datagram's header.
  output logic                datagram_valid_o,
  input  logic                datagram_ready_i,
  output datagram_received_t  datagram_o,
  output logic                payload_valid_o,
  input  logic                payload_ready_i,
  output beat_t               payload_o,
  // Opens or closes a port. `done` reports completion; `refused` with it means that the port's set is full.
  input  logic                entry_valid_i,
  output logic                entry_ready_o,
  input  socket_entry_t       entry_i,
  output logic                entry_done_o,
  output logic                entry_refused_o,
  output udp_sockets_events_t events_o,
  output logic                idle_o
);

  localparam int unsigned Ways = 4;
  localparam int unsigned Sets = 64;
  localparam int unsigned HeaderBytes = 42;
  localparam int unsigned RestBytes = BeatBytes - HeaderBytes;

  typedef logic [$clog2(Sets)-1:0] set_index_t;
  typedef logic [$clog2(Ways)-1:0] way_t;
  typedef socket_entry_t [Ways-1:0] set_t;

  typedef enum logic [2:0] {
    Clear,
    Idle,    // waits for the first beat of a frame, or for an entry
    Match,
    Host,    // the frame passes to the host
    Engine,  // the payload passes to the buffer
    Flush,   // the payload's last bytes pass to the buffer
    Skip,    // drops the bytes behind the datagram
    Enter
  } state_e;

  function automatic logic [15:0] half(logic [BeatBits-1:0] data, int unsigned at);
    return {data[8*at+:8], data[8*at+8+:8]};
  endfunction

  state_e               state_q;
  logic                 entering;
  logic                 entering_q;
  set_index_t           index_q;
  set_t                 read_set;
  set_t                 write_set;
  logic                 write;
  logic                 start;
  logic          [15:0] port;

  logic                 hit;
  way_t                 hit_way;
  logic                 room;
  way_t                 room_way;
  // verilator lint_off UNUSEDSIGNAL
  socket_entry_t        found_q;  // its port has been compared already
  // verilator lint_on UNUSEDSIGNAL
  logic                 hit_q;
  way_t                 way_q;
  logic                 room_q;

  assign entering = state_q == Idle ? entry_valid_i : entering_q;
  assign port = entering ? entry_i.port : half(frame_i.data, 36);
  assign start = state_q == Idle && (entry_valid_i || frame_valid_i);

  ram #(
    .T(set_t),
    .Depth(Sets)
  ) u_table (
    .clk_i,
    .write_i(write),
    .write_address_i(index_q),
    .write_data_i(write_set),
    .read_i(start),
    .read_address_i(set_index_t'(port)),
    .read_data_o(read_set)
  );

  always_comb begin
    hit = 1'b0;
    hit_way = '0;
    room = 1'b0;
    room_way = '0;
    for (int unsigned i = 0; i < Ways; i++) begin
      if (read_set[i].valid && read_set[i].port == port) begin
        hit = 1'b1;
        hit_way = way_t'(i);
      end
      if (!read_set[i].valid) begin
        room = 1'b1;
        room_way = way_t'(i);
      end
    end
  end

  always_comb begin
    write_set = read_set;
    write_set[way_q] = entry_i;
    // Closing a port that is not open has no effect.
    write = state_q == Enter && (hit_q || (room_q && entry_i.valid));
    if (state_q == Clear) begin
      write_set = '0;
      write = 1'b1;
    end
  end

  assign entry_ready_o = state_q == Enter;
  assign entry_done_o = state_q == Enter;
  assign entry_refused_o = state_q == Enter && entry_i.valid && !hit_q && !room_q;

  // Payload: the beats are shifted down by the headers' 42 bytes.
  logic               [8*RestBytes-1:0] rest_q;
  frame_bytes_t                         left_q;  // payload bytes that remain, including the next beat to the buffer
  logic                                 first_q;
  datagram_received_t                   info_q;
  logic                                 buffer_valid;
  beat_t                                buffer_beat;
  logic                                 take;
  logic                                 kept;
  logic                                 dropped;
  logic                                 unused_ready;
  logic                                 unused_verdict;
  logic                                 buffer_idle;

  assign host_valid_o = state_q == Host && frame_valid_i;
  assign host_o = frame_i;
  assign host_timestamp_o = frame_timestamp_i;

  always_comb begin
    unique case (state_q)
      Host:         frame_ready_o = host_ready_i;
      Engine, Skip: frame_ready_o = 1'b1;
      default:      frame_ready_o = 1'b0;
    endcase
  end

  assign take = frame_valid_i && frame_ready_o;

  frame_bytes_t payload_bytes;
  frame_bytes_t left;
  assign payload_bytes = frame_bytes_t'(half(frame_i.data, 38) - 16'd8);
  assign left = first_q ? payload_bytes : left_q;

  // The frame's first beat holds the first 22 bytes of the payload. If the payload has no more, they form a beat.
  // Otherwise each further beat of the frame completes one beat of the payload.
  logic ends;
  assign ends = first_q ? left <= frame_bytes_t'(RestBytes) : left <= frame_bytes_t'(BeatBytes);

  always_comb begin
    buffer_valid = (state_q == Engine && take && (!first_q || ends)) || state_q == Flush;
    buffer_beat.data = {frame_i.data[8*HeaderBytes-1:0], rest_q};
    if (state_q == Flush) buffer_beat.data = BeatBits'(rest_q);
    if (first_q) buffer_beat.data = BeatBits'(frame_i.data[BeatBits-1:8*HeaderBytes]);
    buffer_beat.last  = ends || state_q == Flush;
    buffer_beat.empty = buffer_beat.last ? 6'(7'd64 - 7'(left)) : '0;
    // An empty datagram occupies a beat of the buffer, which is dropped at the output.
    if (left == '0) buffer_beat.empty = '0;
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Match) begin
      hit_q   <= hit;
      way_q   <= hit ? hit_way : room_way;
      room_q  <= room;
      found_q <= read_set[hit_way];
    end
    if (state_q == Engine && take) begin
      rest_q <= frame_i.data[BeatBits-1:8*HeaderBytes];
      left_q <= first_q ? left : left - frame_bytes_t'(BeatBytes);
    end
  end

  datagram_received_t info;
  always_comb begin
    info = info_q;
    if (first_q) begin
      info = '{
          socket: found_q.socket,
          slot: found_q.slot,
          source: {half(frame_i.data, 26), half(frame_i.data, 28)},
          source_port: half(frame_i.data, 34),
          destination_port: half(frame_i.data, 36),
          bytes: payload_bytes,
          timestamp: frame_timestamp_i
      };
    end
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Engine && take && first_q) info_q <= info;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q    <= Clear;
      index_q    <= '0;
      entering_q <= 1'b0;
      first_q    <= 1'b1;
    end else begin
      unique case (state_q)
        Clear: begin
          index_q <= index_q + 1'b1;
          if (index_q == set_index_t'(Sets - 1)) state_q <= Idle;
        end
        Idle:
        if (start) begin
          index_q    <= set_index_t'(port);
          entering_q <= entry_valid_i;
          state_q    <= Match;
        end
        Match:
        if (entering_q) state_q <= Enter;
        else state_q <= hit ? Engine : Host;
        Enter: state_q <= Idle;
        Host:  if (take && frame_i.last) state_q <= Idle;
        Engine:
        if (take) begin
          first_q <= ends || frame_i.last;
          if (!ends && frame_i.last) begin
            state_q <= Flush;
            first_q <= 1'b0;
          end else if (ends) begin
            state_q <= frame_i.last ? Idle : Skip;
          end
        end
        Flush: begin
          state_q <= Idle;
          first_q <= 1'b1;
        end
        Skip:    if (take && frame_i.last) state_q <= Idle;
        default: state_q <= Idle;
      endcase
    end
  end

  logic               out_valid;
  logic               out_ready;
  beat_t              out_beat;
  datagram_received_t out_info;
  // The datagram's header has been delivered; its payload follows.
  logic               told_q;

  frame_buffer #(
    .Info(datagram_received_t)
  ) u_buffer (
    .clk_i,
    .rst_ni,
    .in_valid_i(buffer_valid),
    .in_ready_o(unused_ready),
    .in_i(buffer_beat),
    .in_info_i(info),
    .kept_o(kept),
    .dropped_o(dropped),
    .verdict_valid_i(kept),
    .verdict_good_i(1'b1),
    .verdict_i(1'b0),
    .out_valid_o(out_valid),
    .out_ready_i(out_ready),
    .out_o(out_beat),
    .out_info_o(out_info),
    .out_verdict_o(unused_verdict),
    .idle_o(buffer_idle)
  );

  assign datagram_valid_o = out_valid && !told_q;
  assign datagram_o = out_info;
  assign payload_valid_o = out_valid && told_q;
  assign payload_o = out_beat;
  assign out_ready = told_q ? payload_ready_i : datagram_ready_i && out_info.bytes == '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      told_q <= 1'b0;
    end else if (out_valid) begin
      if (!told_q && datagram_ready_i) told_q <= out_info.bytes != '0;
      if (told_q && payload_ready_i && out_beat.last) told_q <= 1'b0;
    end
  end

  assign events_o = '{datagrams_received: kept, drop_datagram_queue_full: dropped};
  assign idle_o   = state_q == Idle && !frame_valid_i && !entry_valid_i && buffer_idle;

endmodule
