// Sends UDP datagrams: adds IPv4 and UDP headers with checksums, and the destination's MAC address from the neighbour
// table.
//
// A datagram to a neighbour that is not in the table is dropped and counted; the table sends an ARP request instead.
//
// Latency: 10 cycles from the last beat of the payload to the first of the frame, if the neighbour's address is known
// by then. Throughput: one beat every cycle, and 10 extra cycles for each datagram. Order: kept. Stalls: the input,
// while a datagram is prepared, and while 512 beats or 64 datagrams wait.
module datagram_transmit
  import weft_pkg::*;
(
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  mac_address_t                    hardware_i,
  input  ipv4_address_t                   address_i,
  input  logic                            datagram_valid_i,
  output logic                            datagram_ready_o,
  input  datagram_send_t                  datagram_i,
  // Payload of the datagrams, each starting at byte 0 of a beat; an empty datagram has no beat.
  input  logic                            payload_valid_i,
  output logic                            payload_ready_o,
  input  beat_t                           payload_i,
  // To the neighbour table of `arp`.
  output logic                            lookup_valid_o,
  input  logic                            lookup_ready_i,
  output ipv4_address_t                   lookup_o,
  input  logic                            result_valid_i,
  output logic                            result_ready_o,
  input  logic                            result_hit_i,
  input  mac_address_t                    result_mac_i,
  output logic                            out_valid_o,
  input  logic                            out_ready_i,
  output beat_t                           out_o,
  // Valid with the first beat: report when the frame leaves.
  output logic                            out_stamp_o,
  output logic                      [7:0] out_tag_o,
  output datagram_transmit_events_t       events_o,
  output logic                            idle_o
);

  localparam int unsigned HeaderBytes = 42;
  localparam int unsigned RoomBytes = BeatBytes - HeaderBytes;
  localparam logic [15:0] VersionAndService = 16'h4500;
  localparam logic [15:0] DontFragment = 16'h4000;
  localparam logic [7:0] TimeToLive = 8'd64;
  localparam logic [7:0] ProtocolUdp = 8'd17;

  typedef enum logic [2:0] {
    Idle,
    Add,      // sums the words of the headers, first step
    Seed,     // second step
    Payload,
    Wait      // waits for the sum and the neighbour
  } state_e;

  typedef struct packed {
    mac_address_t mac;
    logic [15:0]  ip_checksum;
    logic [15:0]  udp_checksum;
  } verdict_t;

  state_e                state_q;
  datagram_send_t        header_q;
  logic                  first_q;
  logic                  asked_q;
  logic                  told_q;
  logic                  hit_q;
  mac_address_t          mac_q;
  logic                  summed_q;
  logic           [15:0] sum_q;
  logic           [17:0] source_sum_q;
  logic           [17:0] destination_sum_q;
  logic           [18:0] port_sum_q;
  logic           [18:0] length_sum_q;
  logic           [19:0] udp_seed_q;
  logic           [19:0] ip_sum_q;

  logic                  buffer_ready;
  logic                  in_valid;
  beat_t                 in_beat;
  logic                  take;
  logic                  sum_valid;
  logic           [15:0] sum;
  logic                  judge;
  verdict_t              verdict;
  logic           [15:0] udp_length;

  assign datagram_ready_o = state_q == Idle;
  assign udp_length = 16'(header_q.bytes) + 16'd8;

  // Neighbour lookup.
  assign lookup_valid_o = state_q != Idle && !asked_q;
  assign lookup_o = header_q.destination;
  assign result_ready_o = state_q != Idle && !told_q;

  // Payload. An empty datagram occupies one beat of the buffer as well.
  always_comb begin
    in_valid = state_q == Payload && (payload_valid_i || header_q.bytes == '0);
    in_beat  = payload_i;
    if (header_q.bytes == '0) begin
      in_beat.last  = 1'b1;
      in_beat.empty = '0;
    end
  end
  assign take = in_valid && buffer_ready;
  assign payload_ready_o = state_q == Payload && header_q.bytes != '0 && buffer_ready;

  logic [BeatBytes-1:0] mask;
  always_comb begin
    for (int unsigned i = 0; i < BeatBytes; i++) begin
      mask[i] = header_q.bytes != '0 && i < BeatBytes - 32'(in_beat.empty);
    end
  end

  beat_sum u_sum (
    .clk_i,
    .rst_ni,
    .valid_i(take),
    .first_i(first_q),
    .last_i(in_beat.last),
    .data_i(in_beat.data),
    .mask_i(mask),
    .seed_i(udp_seed_q),
    .result_valid_o(sum_valid),
    .result_o(sum)
  );

  function automatic logic [15:0] fold(logic [19:0] value);
    logic [16:0] folded = 17'(value[15:0]) + 17'(value[19:16]);
    return folded[15:0] + 16'(folded[16]);
  endfunction

  assign judge = state_q == Wait && told_q && summed_q;
  assign verdict.mac = mac_q;
  assign verdict.ip_checksum = ~fold(ip_sum_q);
  // A checksum of zero would mean that the datagram has none.
  assign verdict.udp_checksum = sum_q == 16'hffff ? 16'hffff : ~sum_q;

  always_ff @(posedge clk_i) begin
    if (datagram_valid_i && datagram_ready_o) header_q <= datagram_i;
    if (state_q == Add) begin
      source_sum_q <= 18'(address_i[31:16]) + 18'(address_i[15:0]);
      destination_sum_q <= 18'(header_q.destination[31:16]) + 18'(header_q.destination[15:0]);
      port_sum_q <= 19'(header_q.source_port) + 19'(header_q.destination_port);
      // The length counts twice: in the pseudo header and in the UDP header.
      length_sum_q <= {2'b0, udp_length, 1'b0} + 19'(ProtocolUdp);
    end
    if (state_q == Seed) begin
      udp_seed_q <= (20'(source_sum_q) + 20'(destination_sum_q)) + (20'(port_sum_q) + 20'(length_sum_q));
      ip_sum_q <= (20'(source_sum_q) + 20'(destination_sum_q)) + (20'(udp_length)
          + 20'd20 + 20'(VersionAndService) + 20'(DontFragment) + 20'({TimeToLive, ProtocolUdp}));
    end
    if (result_valid_i && result_ready_o) begin
      hit_q <= result_hit_i;
      mac_q <= result_mac_i;
    end
    if (sum_valid) sum_q <= sum;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q  <= Idle;
      first_q  <= 1'b1;
      asked_q  <= 1'b0;
      told_q   <= 1'b0;
      summed_q <= 1'b0;
    end else begin
      if (lookup_valid_o && lookup_ready_i) asked_q <= 1'b1;
      if (result_valid_i && result_ready_o) told_q <= 1'b1;
      if (sum_valid) summed_q <= 1'b1;
      if (take) first_q <= in_beat.last;
      unique case (state_q)
        Idle:    if (datagram_valid_i) state_q <= Add;
        Add:     state_q <= Seed;
        Seed:    state_q <= Payload;
        Payload: if (take && in_beat.last) state_q <= Wait;
        Wait:
        if (judge) begin
          state_q  <= Idle;
          asked_q  <= 1'b0;
          told_q   <= 1'b0;
          summed_q <= 1'b0;
        end
        default: state_q <= Idle;
      endcase
    end
  end

  // Frames that wait to be sent.
  logic           wait_valid;
  logic           wait_ready;
  // verilator lint_off UNUSEDSIGNAL
  beat_t          wait_beat;  // its length is in the header
  // verilator lint_on UNUSEDSIGNAL
  datagram_send_t wait_header;
  verdict_t       wait_verdict;
  logic           buffer_idle;
  logic           kept;
  logic           dropped;

  frame_buffer #(
    .Info(datagram_send_t),
    .Verdict(verdict_t),
    .Stall(1'b1)
  ) u_buffer (
    .clk_i,
    .rst_ni,
    .in_valid_i(in_valid),
    .in_ready_o(buffer_ready),
    .in_i(in_beat),
    .in_info_i(header_q),
    .kept_o(kept),
    .dropped_o(dropped),
    .verdict_valid_i(judge),
    .verdict_good_i(hit_q),
    .verdict_i(verdict),
    .out_valid_o(wait_valid),
    .out_ready_i(wait_ready),
    .out_o(wait_beat),
    .out_info_o(wait_header),
    .out_verdict_o(wait_verdict),
    .idle_o(buffer_idle)
  );

  // The headers are prepended, which shifts the payload by 42 bytes.
  logic         [8*HeaderBytes-1:0] header;  // first byte on the left
  logic         [8*HeaderBytes-1:0] front;
  logic         [8*HeaderBytes-1:0] rest_q;
  logic                             out_first_q;
  logic                             flush_q;
  frame_bytes_t                     left;
  frame_bytes_t                     left_q;
  logic                             ends;
  logic                             step;
  logic                             out_valid_q;
  beat_t                            out_q;
  logic                             out_stamp_q;
  logic         [              7:0] out_tag_q;

  assign header = {
    wait_verdict.mac,
    hardware_i,
    16'h0800,
    VersionAndService,
    16'(wait_header.bytes) + 16'd28,
    16'h0,
    DontFragment,
    TimeToLive,
    ProtocolUdp,
    wait_verdict.ip_checksum,
    address_i,
    wait_header.destination,
    wait_header.source_port,
    wait_header.destination_port,
    16'(wait_header.bytes) + 16'd8,
    wait_verdict.udp_checksum
  };

  always_comb begin
    front = rest_q;
    if (out_first_q) begin
      for (int unsigned i = 0; i < HeaderBytes; i++) front[8*i+:8] = header[8*(HeaderBytes-1-i)+:8];
    end
  end

  // Bytes of the frame that remain, this beat included.
  assign left = out_first_q ? wait_header.bytes + frame_bytes_t'(HeaderBytes) : left_q;
  assign ends = left <= frame_bytes_t'(BeatBytes);
  assign step = (wait_valid || flush_q) && (!out_valid_q || out_ready_i);
  assign wait_ready = !flush_q && (!out_valid_q || out_ready_i);

  always_ff @(posedge clk_i) begin
    if (step) begin
      out_q.data  <= {wait_beat.data[8*RoomBytes-1:0], front};
      out_q.last  <= ends;
      out_q.empty <= ends ? 6'(frame_bytes_t'(BeatBytes) - left) : '0;
      out_stamp_q <= wait_header.stamp;
      out_tag_q   <= wait_header.tag;
      left_q      <= left - frame_bytes_t'(BeatBytes);
      rest_q      <= wait_beat.data[BeatBits-1:8*RoomBytes];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      out_first_q <= 1'b1;
      flush_q     <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      if (out_ready_i) out_valid_q <= 1'b0;
      if (step) begin
        out_valid_q <= 1'b1;
        out_first_q <= ends;
        flush_q     <= !flush_q && wait_beat.last && !ends;
      end
    end
  end

  assign out_valid_o = out_valid_q;
  assign out_o = out_q;
  assign out_stamp_o = out_stamp_q;
  assign out_tag_o = out_tag_q;
  assign events_o = '{datagrams_sent: judge && hit_q, neighbour_unresolved: judge && !hit_q};
  assign idle_o = state_q == Idle && !datagram_valid_i && buffer_idle && !out_valid_q && !flush_q;

  frame_bytes_t given_q;
  always_ff @(posedge clk_i) begin
    if (take) given_q <= (first_q ? '0 : given_q) + frame_bytes_t'(BeatBytes);
    if (rst_ni) begin
      assert (!(take && in_beat.last) || header_q.bytes == '0
          || (first_q ? '0 : given_q) + frame_bytes_t'(BeatBytes) - frame_bytes_t'(in_beat.empty)
              == header_q.bytes)
      else $error("a datagram is as long as its header says");
      assert (!dropped && (kept || !(take && in_beat.last)))
      else $error("any datagram has room in the buffer");
    end
  end

endmodule
