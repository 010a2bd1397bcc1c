// Recognises Weft datagrams for this port among all received frames, and checks them.
//
// Beats of candidate frames leave unchanged; the verdict follows when the whole frame has passed. A candidate is a
// UDP datagram, not a fragment, to this port's MAC address, IP address and UDP port, with an IPv4 header without
// options. It is good if IPv4's checksum, all lengths, the datagram's header and trailer, and its CRC are right. A
// frame may be longer than its datagram, but by less than a beat: a datagram occupies at least 66 bytes of its frame,
// so Ethernet adds no padding.
//
// Latency: 1 cycle for beats, 2 from the last beat to the verdict, 3 to the event. Throughput: a beat every cycle.
// Stalls: never.
//
// Method: the CRC field is extracted from the beat. In the cycle in which the beat's contribution to the CRC register
// is computed, the field is multiplied by as many zero bits as the register has processed behind it.
//
// Sources: RFC 791, 768; crates/wire/src/datagram.rs for the datagram.
module datagram_check
  import weft_pkg::*;
  import engines_pkg::*;
#(
  parameter int unsigned FrameBytesMax = 9216
) (
  input  logic                          clk_i,
  input  logic                          rst_ni,
  input  logic                          enable_i,
  input  mac_address_t                  hardware_i,
  input  ipv4_address_t                 address_i,
  input  peer_t         [ NodesMax-1:0] peers_i,
  input  logic                          rx_valid_i,
  input  logic          [ BeatBits-1:0] rx_data_i,
  input  logic          [BeatBytes-1:0] rx_keep_i,
  input  logic                          rx_last_i,
  input  logic                          rx_error_i,
  output logic                          beat_valid_o,
  output logic                          beat_last_o,
  output logic          [ BeatBits-1:0] beat_o,
  // Valid with the first beat: whether the sender is a peer, and its node number.
  output logic                          peer_o,
  output node_t                         from_o,
  // Valid with the last beat: the buffer had no room for the frame, so no verdict must follow.
  input  logic                          lost_i,
  output logic                          verdict_valid_o,
  output logic                          verdict_good_o,
  output logic                          received_o,
  output logic                          malformed_o,
  output logic                          lost_o,
  output logic                          idle_o
);

  localparam logic [15:0] Magic = "WF";
  localparam logic [7:0] Version = 8'd2;
  localparam logic [15:0] UdpBytesMin = 16'd32;

  function automatic logic [7:0] at8(logic [BeatBits-1:0] data, int unsigned place);
    return data[8*place+:8];
  endfunction
  function automatic logic [15:0] at16(logic [BeatBits-1:0] data, int unsigned place);
    return {at8(data, place), at8(data, place + 1)};
  endfunction
  function automatic logic [31:0] at32(logic [BeatBits-1:0] data, int unsigned place);
    return {at16(data, place), at16(data, place + 2)};
  endfunction

  // Stage 0: masks the bytes of a beat that the CRC covers. They end 6 + 8 * `crc_at` bytes behind the start of a
  // beat.

  logic                 rx_first_q;
  logic [         15:0] rx_udp_bytes;
  // verilator lint_off UNUSEDSIGNAL
  // where the CRC begins; lengths that are excessive or no multiple of 8 are refused later
  logic [         15:0] rx_crc;
  // verilator lint_on UNUSEDSIGNAL
  logic [          2:0] crc_at_q;
  logic [          2:0] crc_at;
  // `left`: beats with covered bytes behind this one. `past`: a beat without covered bytes has arrived.
  logic [          7:0] left_q;
  logic                 past_q;
  logic                 rx_ends;
  logic                 rx_kept;
  logic                 rx_short;
  logic                 rx_whole;  // the CRC covers all of the beat, except headers
  logic [BeatBytes-1:0] rx_covered;

  assign rx_udp_bytes = at16(rx_data_i, 38);
  assign rx_crc = rx_udp_bytes + 16'd30;
  assign rx_short = rx_udp_bytes == UdpBytesMin;
  assign crc_at = crc_at_q;

  // The datagram ends in the beat in which the CRC begins, or in the next one if the CRC is split between both.
  assign rx_ends = !rx_first_q && !past_q && left_q == (crc_at == '1 ? 8'd0 : 8'd1);
  always_comb begin
    rx_kept = 1'b0;
    for (int unsigned i = 0; i < 8; i++) begin
      if (crc_at == 3'(i)) rx_kept = rx_keep_i[8*((i+1)%8)+1];
    end
  end

  assign rx_whole = left_q != 8'd1;
  always_comb begin
    for (int unsigned i = 0; i < BeatBytes; i++) begin
      if (rx_first_q) rx_covered[i] = i >= 42 && (i < 62 || !rx_short);
      else rx_covered[i] = rx_whole || i < 6 || (i < 62 && 3'((i - 6) / 8) < crc_at);
    end
    // The last two bytes of a beat are covered if the next beat has covered bytes, and otherwise not.
    if (!rx_first_q) rx_covered[63:62] = {2{rx_whole}};
  end

  logic valid_q, first_q, last_q, error_q, length_good_q, crc_on_q, crc_ends_q;
  logic [BeatBits-1:0] data_q;
  logic [BeatBits-1:0] covered_q;
  logic [31:0] rx_crc_field;
  logic [31:0] crc_q;

  // The CRC is in this beat, or split between the end of the previous beat and the start of this one; never in the
  // first.
  always_comb begin
    rx_crc_field = '0;
    for (int unsigned i = 0; i < 7; i++) begin
      if (crc_at == 3'(i)) rx_crc_field |= at32(rx_data_i, 8 * i + 6);
    end
    if (crc_at == '1) rx_crc_field |= {at16(data_q, 62), at16(rx_data_i, 0)};
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      rx_first_q <= 1'b1;
      valid_q    <= 1'b0;
    end else begin
      if (rx_valid_i) rx_first_q <= rx_last_i;
      valid_q <= rx_valid_i;
    end
    if (rx_valid_i) begin
      first_q       <= rx_first_q;
      last_q        <= rx_last_i;
      error_q       <= rx_error_i;
      length_good_q <= rx_ends && rx_kept;
      crc_on_q      <= rx_first_q || left_q != '0;
      crc_ends_q    <= rx_first_q || left_q == 8'd1;
      data_q        <= rx_data_i;
      crc_q         <= rx_crc_field;
      if (rx_first_q) begin
        crc_at_q <= rx_crc[5:3];
        left_q   <= rx_crc[13:6];
        past_q   <= 1'b0;
      end else if (left_q != '0) begin
        left_q <= left_q - 1'b1;
      end else begin
        past_q <= 1'b1;
      end
    end
  end

  for (genvar i = 0; i < BeatBytes; i++) begin : gen_covered
    always_ff @(posedge clk_i) begin
      if (!rx_covered[i]) covered_q[8*i+:8] <= '0;
      else covered_q[8*i+:8] <= rx_data_i[8*i+:8];
    end
  end

  // Stage 1: parses the first beat.

  logic ours_first, ours_q, ours, header_good, header_good_q;
  logic [15:0] udp_bytes;
  assign udp_bytes = at16(data_q, 38);
  assign ours_first = enable_i && {at16(
      data_q, 0
  ), at32(
      data_q, 2
  )} == hardware_i && at32(
      data_q, 12
  ) >> 8 == 32'h08_0045 && (at16(
      data_q, 20
  ) & 16'hbfff) == '0 && at8(
      data_q, 23
  ) == 8'd17 && at32(
      data_q, 30
  ) == address_i && at16(
      data_q, 36
  ) == DatagramPort;
  assign header_good = at16(
      data_q, 42
  ) == Magic && at8(
      data_q, 44
  ) == Version && at8(
      data_q, 45
  ) != '0 && at16(
      data_q, 46
  ) == udp_bytes - 16'd8 && at16(
      data_q, 48
  ) == '0 && at16(
      data_q, 16
  ) == udp_bytes + 16'd20 && udp_bytes[2:0] == '0 && udp_bytes >= UdpBytesMin && udp_bytes <= 16'(FrameBytesMax - 34);
  assign ours = first_q ? ours_first : ours_q;

  assign beat_valid_o = valid_q && ours;
  assign beat_last_o = last_q;
  assign beat_o = data_q;

  always_comb begin
    peer_o = 1'b0;
    from_o = '0;
    for (int unsigned i = NodesMax; i > 0; i--) begin
      if (peers_i[i-1].valid && peers_i[i-1].address == at32(data_q, 26)) begin
        peer_o = 1'b1;
        from_o = node_t'(i - 1);
      end
    end
    if (at16(data_q, 34) != DatagramPort) peer_o = 1'b0;
  end

  // IPv4's checksum, in two parts: constant fields, and fields that differ between datagrams.
  logic [17:0] fixed_sum_q;
  logic [16:0] sums_q[3];
  logic [18:0] sum_q;
  logic [16:0] folded;
  logic first_1_q, dont_fragment_q, sum_good;
  always_ff @(posedge clk_i) begin
    fixed_sum_q <= 18'(16'h4500) + 18'(8'd17) + 18'(address_i[31:16]) + 18'(address_i[15:0]);
    first_1_q   <= valid_q && first_q;
    if (valid_q && first_q) begin
      sums_q[0] <= 17'({at8(data_q, 22), at8(data_q, 15)}) + 17'(at16(data_q, 16));
      sums_q[1] <= 17'(at16(data_q, 18)) + 17'(at16(data_q, 24));
      sums_q[2] <= 17'(at16(data_q, 26)) + 17'(at16(data_q, 28));
      dont_fragment_q <= at8(data_q, 20) != '0;
    end
    if (first_1_q) begin
      sum_q <= (19'(sums_q[0]) + 19'(sums_q[1])) + (19'(sums_q[2]) + 19'(fixed_sum_q + {3'd0, dont_fragment_q, 14'd0}));
    end
  end
  assign folded   = 17'(sum_q[15:0]) + 17'(sum_q[18:16]);
  assign sum_good = folded == 17'h0_ffff;

  // The CRC field and the zeros in front of it.
  logic [31:0] crc_scaled;
  logic [31:0] crc_scaled_q;
  logic [31:0] crc_register;
  logic zeros, zeros_q;

  always_comb begin
    zeros = 1'b0;
    for (int unsigned i = 0; i < 8; i++) begin
      if (crc_at_q == 3'(i)) zeros |= data_q[8*(8*i+2)+:32] == '0;
    end
  end

  // The scaling to the end of the beat has three steps: two in front of the register, one behind it.
  logic        far_q;
  logic [31:0] crc_once;
  logic [31:0] crc_expected;
  crc_scale #(
    .Bits(64)
  ) i_scale_once (
    .scale_i   (!crc_at_q[0]),
    .register_i(~crc_q),
    .register_o(crc_once)
  );
  crc_scale #(
    .Bits(128)
  ) i_scale_twice (
    .scale_i   (!crc_at_q[1]),
    .register_i(crc_once),
    .register_o(crc_scaled)
  );
  crc_scale #(
    .Bits(256)
  ) i_scale_far (
    .scale_i   (far_q),
    .register_i(crc_scaled_q),
    .register_o(crc_expected)
  );

  datagram_crc i_crc (
    .clk_i,
    .rst_ni,
    .valid_i   (valid_q && crc_on_q),
    .first_i   (first_q),
    .data_i    (covered_q),
    .register_o(crc_register)
  );

  // Stage 2: the verdict.

  logic judged_q, stage_error_q, stage_length_good_q, stage_lost_q, good;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) judged_q <= 1'b0;
    else judged_q <= valid_q && last_q && ours;
    if (valid_q) begin
      if (first_q) begin
        ours_q        <= ours_first;
        header_good_q <= header_good;
      end
      if (crc_ends_q) zeros_q <= zeros;
      stage_error_q       <= error_q;
      stage_length_good_q <= length_good_q;
      stage_lost_q        <= lost_i;
      crc_scaled_q        <= crc_scaled;
      far_q               <= !crc_at_q[2];
    end
  end

  assign good = stage_length_good_q && !stage_error_q && header_good_q && zeros_q && sum_good
      && crc_register == crc_expected;
  assign verdict_valid_o = judged_q && !stage_lost_q;
  assign verdict_good_o = good;

  // Stage 3: counters. For the shortest frames the IPv4 checksum is known only in this stage. Wrong checksums of
  // longer frames are counted by the receive path.

  logic counted_q, good_q, error_stage_q, lost_stage_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) counted_q <= 1'b0;
    else counted_q <= judged_q;
    if (judged_q) begin
      good_q        <= good;
      error_stage_q <= stage_error_q;
      lost_stage_q  <= stage_lost_q;
    end
  end
  assign received_o = counted_q && good_q && !lost_stage_q;
  assign lost_o = counted_q && good_q && lost_stage_q;
  assign malformed_o = counted_q && !good_q && !error_stage_q && sum_good;

  assign idle_o = rx_first_q && !valid_q && !judged_q && !counted_q;

endmodule
