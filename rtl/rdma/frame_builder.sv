// Joins headers and payload into frames. The ICRC field is zero.
//
// The beats of the payload arrive aligned: each byte is at its position in the frame's beat, and all other bytes are
// zero. A frame begins only when its whole payload has arrived, so it never stalls inside.
//
// Latency: 0 cycles. Throughput: one beat every cycle, without a gap between frames. Order: kept. Stalls: while
// `room_i` is low, and between frames while a payload is incomplete.
module frame_builder
  import weft_pkg::*;
  import transmit_pkg::*;
(
  input  logic                         clk_i,
  input  logic                         rst_ni,
  // This NIC's addresses.
  input  mac_address_t                 hardware_i,
  input  ipv4_address_t                address_i,
  input  logic                         header_valid_i,
  output logic                         header_ready_o,
  input  header_t                      header_i,
  // Valid between frames: the payload at the front of the queue is complete.
  input  logic                         payload_complete_i,
  output logic                         payload_begin_o,
  // The beat at the front of the payload queue.
  input  logic                         payload_valid_i,
  output logic                         payload_ready_o,
  input  logic          [BeatBits-1:0] payload_i,
  input  logic                         payload_last_i,
  input  logic                         room_i,
  output logic                         beat_valid_o,
  // Undefined while `beat_valid_o` is low.
  output beat_t                        beat_o,
  // The ICRC of this beat's frame begins in the last beat but one.
  output logic                         straddles_o,
  // The ICRC begins in this beat, and this beat is not the last.
  output logic                         straddled_o
);

  localparam int unsigned FixedBytes = 54;  // Ethernet, IPv4, UDP, BTH
  // Bits of extended headers that fit in the first beat.
  localparam int unsigned NearBits = BeatBits - 8 * FixedBytes;

  typedef logic [8*FixedBytes-1:0] fixed_t;

  function automatic fixed_t wire_order(fixed_t value);
    fixed_t result;
    for (int unsigned i = 0; i < FixedBytes; i++) begin
      result[8*i+:8] = value[8*(FixedBytes-1-i)+:8];
    end
    return result;
  endfunction

  logic       first_q;
  logic       second_q;
  logic [6:0] left_q;  // beats behind this one; undefined for the first beat
  logic       more_q;  // this beat has payload; undefined for the first beat
  logic [6:0] left;
  logic       last;
  logic       go;
  logic       with_payload;

  assign left = first_q ? header_i.beats : left_q;
  assign last = left == '0;
  assign go = header_valid_i && room_i && (!first_q || !header_i.packet.has_payload || payload_complete_i);
  // Taken from a register, because the long combinational path of the ICRC starts here.
  assign with_payload = first_q ? header_i.payload_first : more_q;

  assign header_ready_o = go && last;
  assign payload_begin_o = go && first_q && header_i.packet.has_payload;
  assign payload_ready_o = go && with_payload;
  assign beat_valid_o = go;
  assign straddles_o = header_i.empty == 6'd62;
  assign straddled_o = straddles_o && left == 7'd1;

  always_ff @(posedge clk_i) begin
    if (go) begin
      left_q   <= left - 1'b1;
      more_q   <= (first_q ? header_i.packet.has_payload : more_q) && !(with_payload && payload_last_i);
      second_q <= first_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) first_q <= 1'b1;
    else if (go) first_q <= last;
  end

  logic   [15:0] checksum;
  logic   [15:0] total_bytes;
  logic   [15:0] udp_bytes;
  fixed_t        fixed;

  logic          notification;

  assign notification = header_i.packet.opcode == CongestionNotification;
  assign checksum = ~(header_i.partial_sum[15:0] + 16'(header_i.partial_sum[16]));
  assign total_bytes = 16'(header_i.total_bytes);
  assign udp_bytes = 16'(header_i.total_bytes - 13'd20);

  always_comb begin
    fixed = wire_order(
      {
        header_i.destination_mac,
        hardware_i,
        16'h0800,  // IPv4
        8'h45,  // header of five words
        header_i.type_of_service,
        total_bytes,
        16'h0000,  // identification: a packet that must not be fragmented needs none
        16'h4000,  // do not fragment
        8'd64,  // time to live
        8'd17,  // UDP
        checksum,
        address_i,
        header_i.destination,
        header_i.source_port,
        16'd4791,  // RoCE v2
        udp_bytes,
        16'h0000,  // no checksum
        header_i.packet.opcode,
        header_i.packet.solicited,
        !notification,  // the migration bit: set ("migrated"), except in notifications
        header_i.packet.pad,
        4'd0,  // version
        16'hffff,  // partition key
        1'b0,
        notification,  // BECN, backward congestion (annex A17.9.3)
        6'd0,
        header_i.destination_qp,
        header_i.packet.acknowledge_request,
        7'd0,
        header_i.packet.psn
      }
    );
  end

  always_comb begin
    beat_o = '0;
    beat_o.last = last;
    if (last) beat_o.empty = header_i.empty;
    if (with_payload) beat_o.data = payload_i;
    if (first_q) begin
      beat_o.data |= {header_i.packet.extension[NearBits-1:0], fixed};
    end else if (second_q) begin
      beat_o.data |= BeatBits'(header_i.packet.extension[8*ExtensionBytes-1:NearBits]);
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni && go && with_payload) begin
      assert (payload_valid_i)
      else $error("a frame began without its payload");
    end
    if (rst_ni && go && last && header_i.packet.has_payload) begin
      assert (with_payload ? payload_last_i : !first_q && !more_q)
      else $error("payload behind the frame");
    end
  end

endmodule
