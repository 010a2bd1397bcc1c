// Receives frames from the MAC, drops the bad ones, and separates the good ones into RoCE packets, whose headers it
// parses, and other frames.
//
// A frame is good if its lengths are consistent and its checksums are right: IPv4's, UDP's (unless it has none),
// ICMP's and the ICRC. The definition of malformed frames, and the order of the checks, are those of crates/wire and
// crates/nic. No part of a bad frame leaves this block: a frame is written into a buffer as it arrives, and released
// or dropped when it is complete.
//
// Latency: from the cycle of a frame's last beat to its header and first beat, 6 cycles. Throughput: a beat every
// cycle, frames back to back, smallest ones too. Order: RoCE packets stay in order, and so do other frames. Stalls:
// the MAC is never stalled. A frame that finds its buffer full is dropped and counted. A header may be accepted
// before or after its frame.
//
// Sources: IEEE 802.3, RFC 791, 768, 792, 826; InfiniBand volume 1, chapter 9, and its annex A17 (RoCE v2).
module receive_path
  import weft_pkg::*;
#(
  // Capacities of the buffers: beats of RoCE packets and of other frames; powers of two.
  parameter int unsigned RoceBeats     = 1024,
  parameter int unsigned OtherBeats    = 512,
  parameter int unsigned RocePackets   = 512,
  parameter int unsigned OtherFrames   = 512,
  // Longest frame in bytes; a longer one is malformed. A multiple of the beat.
  parameter int unsigned FrameBytesMax = 9216
) (
  input  logic                                 clk_i,
  input  logic                                 rst_ni,
  input  cycles_t                              now_i,
  // Addresses of this port.
  input  mac_address_t                         hardware_i,
  input  ipv4_address_t                        address_i,
  // Frames without frame check sequence. All beats but the last are full. `error` belongs to the last beat.
  input  logic                                 rx_valid_i,
  input  logic                 [ BeatBits-1:0] rx_data_i,
  input  logic                 [BeatBytes-1:0] rx_keep_i,
  input  logic                                 rx_last_i,
  input  logic                                 rx_error_i,
  // RoCE packets: headers, and whole frames in the same order.
  output logic                                 header_valid_o,
  input  logic                                 header_ready_i,
  output roce_header_t                         header_o,
  output logic                                 frame_valid_o,
  input  logic                                 frame_ready_i,
  output beat_t                                frame_o,
  // Other frames. `info` is valid with every beat of its frame.
  output logic                                 other_valid_o,
  input  logic                                 other_ready_i,
  output beat_t                                other_o,
  output other_frame_t                         other_info_o,
  output receive_path_events_t                 events_o,
  output logic                                 idle_o
);

  localparam int unsigned BeatsMax = FrameBytesMax / BeatBytes;
  localparam int unsigned IndexBits = $clog2(BeatsMax + 1);
  // Offsets of headers in a frame with an IPv4 header without options.
  localparam int unsigned Ipv4At = 14;
  localparam int unsigned UdpAt = 34;

  function automatic logic [15:0] at16(logic [BeatBits-1:0] data, int unsigned place);
    return {data[8*place+:8], data[8*place+8+:8]};
  endfunction

  // Stage 0: beats from the MAC; computes how much of the frame a checksum covers.

  logic rx_first_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) rx_first_q <= 1'b1;
    else if (rx_valid_i) rx_first_q <= rx_last_i;
  end

  // `keep` marks bytes from the front of the beat on.
  logic [5:0] rx_empty;
  always_comb begin
    rx_empty = '0;
    for (int unsigned place = 0; place < BeatBytes; place++) begin
      if (rx_keep_i[place] && (place == BeatBytes - 1 || !rx_keep_i[(place+1)%BeatBytes])) begin
        rx_empty |= 6'(BeatBytes - 1 - place);
      end
    end
  end

  // The checksum to verify is that of an IPv4 header with options, or else UDP's or ICMP's. Packets with IP options
  // go to the host, which verifies their contents. Offsets count from the frame's first byte.
  logic rx_options, rx_udp;
  logic [15:0] rx_total_bytes, rx_udp_bytes, rx_begin, rx_covered, rx_end;
  assign rx_options = rx_data_i[8*Ipv4At+:4] != 4'd5;
  assign rx_udp = rx_data_i[8*(Ipv4At+9)+:8] == 8'd17;
  assign rx_total_bytes = at16(rx_data_i, Ipv4At + 2);
  assign rx_udp_bytes = at16(rx_data_i, UdpAt + 4);
  always_comb begin
    rx_begin   = 16'(Ipv4At);
    rx_covered = rx_total_bytes;
    if (rx_options) begin
      rx_covered = 16'({rx_data_i[8*Ipv4At+:4], 2'b00});
    end else if (rx_udp) begin
      rx_begin   = 16'(UdpAt);
      rx_covered = rx_udp_bytes;
    end
  end
  assign rx_end = rx_begin + rx_covered;

  logic valid_q, first_q, last_q, error_q;
  logic [BeatBits-1:0] data_q;
  logic [5:0] empty_q;
  // Index of the beat in its frame; saturates at BeatsMax.
  logic [IndexBits-1:0] index_q;
  // Number of covered bytes from this beat on, and the mask of those in this beat.
  logic [15:0] rest_q;
  logic [BeatBytes-1:0] mask_q;
  cycles_t stamp_q;

  logic [15:0] rx_rest;
  logic [BeatBytes-1:0] rx_mask;
  always_comb begin
    if (rx_first_q) rx_rest = rx_end;
    else if (rest_q[15:6] == '0) rx_rest = '0;
    else rx_rest = {rest_q[15:6] - 10'd1, rest_q[5:0]};
  end
  always_comb begin
    for (int unsigned place = 0; place < BeatBytes; place++) begin
      rx_mask[place] = rx_rest[15:6] != '0 || 6'(place) < rx_rest[5:0];
    end
    // UDP's sum also covers the IPv4 addresses, which are in its pseudo header.
    if (rx_first_q) begin
      rx_mask[13:0] = '0;
      if (!rx_options) rx_mask[25:14] = '0;
      if (!rx_options && !rx_udp) rx_mask[33:26] = '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= 1'b0;
    else valid_q <= rx_valid_i;
    if (rx_valid_i) begin
      first_q <= rx_first_q;
      last_q  <= rx_last_i;
      error_q <= rx_error_i;
      data_q  <= rx_data_i;
      empty_q <= rx_empty;
      rest_q  <= rx_rest;
      mask_q  <= rx_mask;
      if (rx_first_q) stamp_q <= now_i;
      if (rx_first_q) index_q <= '0;
      else if (index_q != IndexBits'(BeatsMax)) index_q <= index_q + 1'b1;
    end
  end

  // Stage A: classifies the frame and chooses its buffer.

  logic for_others, arp, ipv4, options, icmp, udp, roce_first, malformed_first;
  other_class_e kind;
  frame_classifier i_classifier (
    .hardware_i,
    .address_i,
    .data_i      (data_q),
    .for_others_o(for_others),
    .arp_o       (arp),
    .ipv4_o      (ipv4),
    .options_o   (options),
    .icmp_o      (icmp),
    .udp_o       (udp),
    .roce_o      (roce_first),
    .kind_o      (kind),
    .malformed_o (malformed_first)
  );

  // Properties found in the first beat, stable until the next frame's.
  logic for_others_q, arp_q, ipv4_q, icmp_q, udp_q, roce_q, malformed_q, summed_q, plain_q;
  other_class_e  kind_q;
  logic [3:0]    header_words_q;
  logic [15:0] total_bytes_q, udp_bytes_q, source_port_q, destination_port_q;
  mac_address_t  source_mac_q;
  ipv4_address_t source_q;
  always_ff @(posedge clk_i) begin
    if (valid_q && first_q) begin
      for_others_q       <= for_others;
      arp_q              <= arp;
      ipv4_q             <= ipv4;
      icmp_q             <= icmp;
      udp_q              <= udp;
      roce_q             <= roce_first;
      kind_q             <= kind;
      malformed_q        <= malformed_first;
      // A UDP datagram may have no checksum.
      summed_q           <= options || icmp || (udp && at16(data_q, UdpAt + 6) != '0);
      plain_q            <= ipv4 && !options;
      header_words_q     <= data_q[8*Ipv4At+:4];
      total_bytes_q      <= at16(data_q, Ipv4At + 2);
      udp_bytes_q        <= at16(data_q, UdpAt + 4);
      source_port_q      <= at16(data_q, UdpAt);
      destination_port_q <= at16(data_q, UdpAt + 2);
      source_mac_q       <= {at16(data_q, 6), at16(data_q, 8), at16(data_q, 10)};
      source_q           <= {at16(data_q, 26), at16(data_q, 28)};
    end
  end

  logic roce, other, ends, oversized;
  assign roce = first_q ? roce_first : roce_q;
  assign other = first_q ? !roce_first && !for_others : !roce_q && !for_others_q;
  assign ends = valid_q && last_q;
  assign oversized = index_q == IndexBits'(BeatsMax);

  // Stage B, the cycle after a frame's last beat: its length is known.

  logic b_ends_q, b_error_q, b_oversized_q, b_roce_lost_q, b_other_lost_q;
  frame_bytes_t b_bytes_q;
  cycles_t      b_stamp_q;
  logic roce_lost, other_lost, roce_full, other_full;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) b_ends_q <= 1'b0;
    else b_ends_q <= ends;
    if (ends) begin
      b_error_q      <= error_q;
      b_oversized_q  <= oversized;
      b_roce_lost_q  <= roce_lost;
      b_other_lost_q <= other_lost;
      b_bytes_q      <= frame_bytes_t'({index_q, ~empty_q}) + 1'b1;
      b_stamp_q      <= stamp_q;
    end
  end

  roce_packet_t packet;
  logic packet_malformed, has_payload;
  logic [5:0] overhead;
  roce_fields i_fields (
    .clk_i,
    .valid_i      (valid_q),
    .first_i      (first_q),
    .second_i     (!first_q && index_q == IndexBits'(1)),
    .data_i       (data_q),
    .packet_o     (packet),
    .malformed_o  (packet_malformed),
    .has_payload_o(has_payload),
    .overhead_o   (overhead)
  );

  // Lengths according to the headers, without Ethernet's.
  logic [16:0] udp_total, payload_bytes;
  logic truncated, ip_malformed, malformed, icrc_wrong, roce_malformed;
  assign udp_total = 17'(udp_bytes_q) + 17'd20;
  assign payload_bytes = 17'(udp_bytes_q) - 17'(overhead);
  assign truncated = 17'(b_bytes_q) < 17'(total_bytes_q) + 17'(Ipv4At);
  assign ip_malformed =
      b_bytes_q < 14'd34 || 16'({header_words_q, 2'b00}) > total_bytes_q || truncated
      || ((icmp_q || udp_q) && total_bytes_q < 16'd28)
      || (udp_q && (udp_bytes_q < 16'd8 || udp_total > 17'(total_bytes_q)));

  assign malformed = b_oversized_q || malformed_q || (arp_q && b_bytes_q < 14'd42) || (ipv4_q && ip_malformed);
  // The ICRC covers IPv4's length, so a UDP datagram shorter than its IP packet cannot be an intact RoCE packet.
  assign icrc_wrong = udp_bytes_q < 16'd24 || udp_total != 17'(total_bytes_q);
  // The upper bits of the payload's length are its sign and values that no valid header gives.
  assign roce_malformed = packet_malformed || payload_bytes[16:13] != '0 || (!has_payload && payload_bytes[12:0] != '0);

  // Stages C and D: the findings about the frame wait for its checksums.
  typedef struct packed {
    logic error;
    logic headless;        // shorter than an Ethernet header
    logic for_others;
    logic malformed;
    logic summed;          // UDP's, ICMP's or the IPv4 header's checksum (with options) must be right
    logic plain;           // the checksum of a plain IPv4 header must be right
    logic roce;
    logic icrc_wrong;      // the ICRC is missing or not at its position
    logic roce_malformed;
    logic roce_lost;
    logic other_lost;
  } outcome_t;
  outcome_t b_outcome, c_outcome_q, d_outcome_q;
  logic c_valid_q, d_valid_q;

  assign b_outcome = '{
          error: b_error_q,
          headless: b_bytes_q < 14'd14,
          for_others: for_others_q,
          malformed: malformed,
          summed: summed_q,
          plain: plain_q,
          roce: roce_q,
          icrc_wrong: icrc_wrong,
          roce_malformed: roce_malformed,
          roce_lost: b_roce_lost_q,
          other_lost: b_other_lost_q
      };

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      c_valid_q <= 1'b0;
      d_valid_q <= 1'b0;
    end else begin
      c_valid_q <= b_ends_q;
      d_valid_q <= c_valid_q;
    end
    if (b_ends_q) c_outcome_q <= b_outcome;
    if (c_valid_q) d_outcome_q <= c_outcome_q;
  end

  // Checksums, all valid in stage D.

  logic [15:0] udp_length_swapped;
  logic        sum_good;
  assign udp_length_swapped = data_q[8*(UdpAt+4)+:16];
  internet_checksum i_sum (
    .clk_i,
    .valid_i(valid_q),
    .first_i(first_q),
    .data_i (data_q),
    .mask_i (mask_q),
    // Protocol and length of the pseudo header, as 16-bit words in wire order.
    .seed_i (udp ? 17'h0_1100 + 17'(udp_length_swapped) : '0),
    .good_o (sum_good)
  );

  // Checksum of an IPv4 header without options: ten words.
  logic b_first_q, c_first_q;
  logic [16:0] b_pairs_q[5];
  logic [18:0] c_sum_q;
  logic [16:0] d_sum_q;
  always_ff @(posedge clk_i) begin
    b_first_q <= valid_q && first_q;
    c_first_q <= b_first_q;
    if (valid_q && first_q) begin
      for (int unsigned pair = 0; pair < 5; pair++) begin
        b_pairs_q[pair] <= 17'(data_q[8*(Ipv4At+4*pair)+:16]) + 17'(data_q[8*(Ipv4At+4*pair+2)+:16]);
      end
    end
    if (b_first_q) begin
      c_sum_q <= 19'(b_pairs_q[0]) + 19'(b_pairs_q[1]) + 19'(b_pairs_q[2]) + 19'(b_pairs_q[3]) + 19'(b_pairs_q[4]);
    end
    if (c_first_q) d_sum_q <= 17'(c_sum_q[15:0]) + 17'(c_sum_q[18:16]);
  end

  // The ICRC ends the datagram. Ethernet's padding may follow, even in further beats.
  beat_t icrc_beat;
  logic unused_crc_valid;
  logic [31:0] unused_crc;
  logic icrc_valid, icrc_checked, icrc_good, icrc_good_q, icrc_right;
  assign icrc_valid = valid_q && (first_q || rest_q != '0);
  assign icrc_beat.last = last_q || rest_q <= 16'(BeatBytes);
  assign icrc_beat.empty = rest_q <= 16'(BeatBytes) ? -rest_q[5:0] : '0;
  assign icrc_beat.data = data_q;
  icrc #(
    .Trailer(1'b1)
  ) i_icrc (
    .clk_i,
    .rst_ni,
    .valid_i        (icrc_valid),
    .beat_i         (icrc_beat),
    .crc_valid_o    (unused_crc_valid),
    .crc_o          (unused_crc),
    .checked_valid_o(icrc_checked),
    .checked_good_o (icrc_good)
  );
  always_ff @(posedge clk_i) begin
    if (icrc_checked) icrc_good_q <= icrc_good;
  end
  assign icrc_right = icrc_checked ? icrc_good : icrc_good_q;

  // The verdict. The first reason that applies is counted.

  receive_path_events_t events_d, events_q;
  logic roce_verdict_q, other_verdict_q, other_good, other_good_q, checksum_wrong;
  assign checksum_wrong = (d_outcome_q.summed && !sum_good) || (d_outcome_q.plain && d_sum_q != 17'h0_ffff);
  always_comb begin
    events_d   = '0;
    other_good = 1'b0;
    if (d_valid_q) begin
      events_d.frames_received = 1'b1;
      if (d_outcome_q.error) events_d.drop_receive_error = 1'b1;
      else if (d_outcome_q.headless) events_d.frames_malformed = 1'b1;
      else if (d_outcome_q.for_others) events_d.frames_for_others = 1'b1;
      else if (d_outcome_q.malformed || checksum_wrong) events_d.frames_malformed = 1'b1;
      else if (!d_outcome_q.roce) begin
        events_d.drop_other_buffer_full = d_outcome_q.other_lost;
        other_good = !d_outcome_q.other_lost;
      end else if (d_outcome_q.icrc_wrong || !icrc_right) events_d.icrc_errors = 1'b1;
      else if (d_outcome_q.roce_malformed) events_d.roce_malformed = 1'b1;
      else if (d_outcome_q.roce_lost) events_d.drop_receive_buffer_full = 1'b1;
      else events_d.roce_received = 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      events_q        <= '0;
      roce_verdict_q  <= 1'b0;
      other_verdict_q <= 1'b0;
      other_good_q    <= 1'b0;
    end else begin
      events_q        <= events_d;
      roce_verdict_q  <= d_valid_q && d_outcome_q.roce && !d_outcome_q.roce_lost;
      other_verdict_q <= d_valid_q && !d_outcome_q.roce && !d_outcome_q.for_others && !d_outcome_q.other_lost;
      other_good_q    <= other_good;
    end
  end
  assign events_o = events_q;

  // Buffer of RoCE packets: their beats, and their headers.

  logic [$clog2(RoceBeats):0] unused_frames_level;
  logic unused_headers_in_lost, unused_headers_out_last;

  typedef struct packed {
    roce_packet_t packet;
    logic [12:0]  payload_bytes;
  } roce_entry_t;

  roce_entry_t entry, front;
  logic [$clog2(RocePackets):0] roce_level;
  logic frames_empty, headers_empty;

  packet_fifo #(
    .T    (logic [$bits(beat_t)-2:0]),
    .Depth(RoceBeats)
  ) i_frames (
    .clk_i,
    .rst_ni,
    .in_valid_i     (valid_q && roce),
    .in_last_i      (last_q),
    .in_abort_i     (oversized || (last_q && roce_full)),
    .in_i           ({empty_q, data_q}),
    .in_lost_o      (roce_lost),
    .verdict_valid_i(roce_verdict_q),
    .verdict_good_i (events_q.roce_received),
    .out_valid_o    (frame_valid_o),
    .out_ready_i    (frame_ready_i),
    .out_last_o     (frame_o.last),
    .out_o          ({frame_o.empty, frame_o.data}),
    .level_o        (unused_frames_level),
    .empty_o        (frames_empty)
  );

  assign entry = '{packet: packet, payload_bytes: payload_bytes[12:0]};
  packet_fifo #(
    .T    (roce_entry_t),
    .Depth(RocePackets)
  ) i_headers (
    .clk_i,
    .rst_ni,
    .in_valid_i     (b_ends_q && roce_q && !b_roce_lost_q),
    .in_last_i      (1'b1),
    .in_abort_i     (1'b0),
    .in_i           (entry),
    .in_lost_o      (unused_headers_in_lost),
    .verdict_valid_i(roce_verdict_q),
    .verdict_good_i (events_q.roce_received),
    .out_valid_o    (header_valid_o),
    .out_ready_i    (header_ready_i),
    .out_last_o     (unused_headers_out_last),
    .out_o          (front),
    .level_o        (roce_level),
    .empty_o        (headers_empty)
  );
  // One slot less, because one header may be on its way to the FIFO.
  assign roce_full = roce_level >= ($clog2(RocePackets) + 1)'(RocePackets - 1);

  logic [223:0] extended;
  logic [ 63:0] swap_or_add;
  logic [ 31:0] immediate;
  assign extended = front.packet.extended;
  assign swap_or_add = front.packet.original ? extended[191:128] : extended[127:64];
  assign immediate = front.packet.far_immediate ? extended[95:64] : extended[223:192];
  assign header_o = '{
          opcode: front.packet.opcode,
          solicited: front.packet.solicited,
          acknowledge_request: front.packet.acknowledge_request,
          marked: front.packet.marked,
          partition_key: front.packet.partition_key,
          destination_qp: front.packet.destination_qp,
          psn: front.packet.psn,
          source: front.packet.source,
          address: extended[223:160],
          rkey: extended[159:128],
          length: extended[127:96],
          swap_or_add: swap_or_add,
          compare: extended[63:0],
          immediate: immediate,
          syndrome: extended[223:216],
          msn: extended[215:192],
          payload_offset: 7'd54 + 7'({front.packet.words, 2'b00}),
          payload_bytes: front.payload_bytes
      };

  // Buffer of other frames: their beats, and their attributes.

  logic [$clog2(OtherBeats):0] unused_others_level;
  logic unused_infos_in_lost, unused_infos_out_last;

  other_frame_t                         info;
  logic         [$clog2(OtherFrames):0] other_level;
  logic others_empty, infos_empty, info_valid, other_valid, other_taken;

  packet_fifo #(
    .T    (logic [$bits(beat_t)-2:0]),
    .Depth(OtherBeats)
  ) i_others (
    .clk_i,
    .rst_ni,
    .in_valid_i     (valid_q && other),
    .in_last_i      (last_q),
    .in_abort_i     (oversized || (last_q && other_full)),
    .in_i           ({empty_q, data_q}),
    .in_lost_o      (other_lost),
    .verdict_valid_i(other_verdict_q),
    .verdict_good_i (other_good_q),
    .out_valid_o    (other_valid),
    .out_ready_i    (other_ready_i && info_valid),
    .out_last_o     (other_o.last),
    .out_o          ({other_o.empty, other_o.data}),
    .level_o        (unused_others_level),
    .empty_o        (others_empty)
  );

  assign info = '{
          kind: kind_q,
          bytes: b_bytes_q,
          timestamp: b_stamp_q,
          source_mac: source_mac_q,
          source: source_q,
          source_port: source_port_q,
          destination_port: destination_port_q,
          payload_bytes: frame_bytes_t'(udp_bytes_q) - 14'd8
      };
  packet_fifo #(
    .T    (other_frame_t),
    .Depth(OtherFrames)
  ) i_infos (
    .clk_i,
    .rst_ni,
    .in_valid_i     (b_ends_q && !roce_q && !for_others_q && !b_other_lost_q),
    .in_last_i      (1'b1),
    .in_abort_i     (1'b0),
    .in_i           (info),
    .in_lost_o      (unused_infos_in_lost),
    .verdict_valid_i(other_verdict_q),
    .verdict_good_i (other_good_q),
    .out_valid_o    (info_valid),
    .out_ready_i    (other_taken && other_o.last),
    .out_last_o     (unused_infos_out_last),
    .out_o          (other_info_o),
    .level_o        (other_level),
    .empty_o        (infos_empty)
  );
  assign other_full = other_level >= ($clog2(OtherFrames) + 1)'(OtherFrames - 1);
  assign other_valid_o = other_valid && info_valid;
  assign other_taken = other_valid_o && other_ready_i;

  assign idle_o = rx_first_q && !valid_q && !b_ends_q && !c_valid_q && !d_valid_q
                  && !roce_verdict_q && !other_verdict_q && events_q == '0
                  && frames_empty && headers_empty && others_empty && infos_empty;

  // Assertions.

  always_ff @(posedge clk_i) begin
    if (rst_ni && rx_valid_i) begin
      assert (rx_keep_i[0] && (rx_keep_i & (rx_keep_i + 1'b1)) == '0)
      else $error("kept bytes with a gap");
      assert (rx_last_i || (&rx_keep_i))
      else $error("a beat within a frame that is not full");
    end
  end

endmodule
