// Handles frames that are not RoCE. Received: ARP, echo requests, datagrams for engines, everything else for the
// host. Sent: the datagrams of engines and the frames of the host.
//
// Latency, throughput and order: see the parts. Frames of one class stay in order; different classes may overtake
// each other. Stalls: the receive path's buffer stalls while an ARP or echo reply cannot leave. A slow host or engine
// stalls nothing: its frames are dropped and counted.
module frame_services
  import weft_pkg::*;
(
  input  logic                            clk_i,
  input  logic                            rst_ni,
  input  cycles_t                         now_i,
  input  mac_address_t                    hardware_i,
  input  ipv4_address_t                   address_i,
  input  cycles_t                         age_limit_i,
  // Frames that are not RoCE, from the receive path: whole ones, in order.
  input  logic                            other_valid_i,
  output logic                            other_ready_o,
  input  beat_t                           other_i,
  // Fields of `other_frame_t`, valid with every beat.
  input  other_class_e                    other_class_i,
  input  cycles_t                         other_timestamp_i,
  output logic                            to_host_valid_o,
  input  logic                            to_host_ready_i,
  output beat_t                           to_host_o,
  output frame_bytes_t                    to_host_bytes_o,
  output cycles_t                         to_host_timestamp_o,
  input  logic                            from_host_valid_i,
  output logic                            from_host_ready_o,
  input  beat_t                           from_host_i,
  output logic                            datagram_received_valid_o,
  input  logic                            datagram_received_ready_i,
  output datagram_received_t              datagram_received_o,
  output logic                            payload_received_valid_o,
  input  logic                            payload_received_ready_i,
  output beat_t                           payload_received_o,
  input  logic                            datagram_send_valid_i,
  output logic                            datagram_send_ready_o,
  input  datagram_send_t                  datagram_send_i,
  input  logic                            payload_send_valid_i,
  output logic                            payload_send_ready_o,
  input  beat_t                           payload_send_i,
  // Neighbour lookups for an engine's messages.
  input  logic                            engine_lookup_valid_i,
  output logic                            engine_lookup_ready_o,
  input  ipv4_address_t                   engine_lookup_i,
  output logic                            engine_result_valid_o,
  input  logic                            engine_result_ready_i,
  output logic                            engine_result_hit_o,
  output mac_address_t                    engine_result_mac_o,
  input  logic                            neighbour_valid_i,
  output logic                            neighbour_ready_o,
  input  ipv4_address_t                   neighbour_address_i,
  input  mac_address_t                    neighbour_mac_i,
  input  logic                            socket_valid_i,
  output logic                            socket_ready_o,
  input  socket_entry_t                   socket_i,
  output logic                            socket_done_o,
  output logic                            socket_refused_o,
  // To transmit_merge.
  output logic                            control_valid_o,
  input  logic                            control_ready_i,
  output beat_t                           control_o,
  output logic                            datagram_valid_o,
  input  logic                            datagram_ready_i,
  output beat_t                           datagram_o,
  output logic                            datagram_stamp_o,
  output logic                      [7:0] datagram_tag_o,
  output logic                            host_valid_o,
  input  logic                            host_ready_i,
  output beat_t                           host_o,
  output arp_events_t                     arp_events_o,
  output icmp_echo_events_t               echo_events_o,
  output udp_sockets_events_t             socket_events_o,
  output datagram_transmit_events_t       datagram_events_o,
  output host_frames_events_t             host_events_o,
  output logic                            idle_o
);

  typedef struct packed {
    beat_t   beat;
    cycles_t timestamp;
  } stamped_t;

  // Routes each class to its block.
  logic arp_ready;
  logic echo_ready;
  logic sockets_ready;
  logic straight_ready;

  always_comb begin
    unique case (other_class_i)
      OtherArp:      other_ready_o = arp_ready;
      OtherEcho:     other_ready_o = echo_ready;
      OtherDatagram: other_ready_o = sockets_ready;
      default:       other_ready_o = straight_ready;
    endcase
  end

  logic          lookup_valid;
  logic          lookup_ready;
  ipv4_address_t lookup;
  logic          result_valid;
  logic          result_ready;
  logic          result_hit;
  mac_address_t  result_mac;
  logic          datagram_lookup_valid;
  logic          datagram_lookup_ready;
  ipv4_address_t datagram_lookup;
  logic          datagram_result_valid;
  logic          datagram_result_ready;

  neighbour_lookups u_neighbour_lookups (
    .clk_i,
    .rst_ni,
    .lookup_valid_i({engine_lookup_valid_i, datagram_lookup_valid}),
    .lookup_ready_o({engine_lookup_ready_o, datagram_lookup_ready}),
    .lookup_i      ({engine_lookup_i, datagram_lookup}),
    .result_valid_o({engine_result_valid_o, datagram_result_valid}),
    .result_ready_i({engine_result_ready_i, datagram_result_ready}),
    .lookup_valid_o(lookup_valid),
    .lookup_ready_i(lookup_ready),
    .lookup_o      (lookup),
    .result_valid_i(result_valid),
    .result_ready_o(result_ready)
  );

  assign engine_result_hit_o = result_hit;
  assign engine_result_mac_o = result_mac;
  logic  arp_valid;
  logic  arp_out_ready;
  beat_t arp_beat;
  logic  arp_idle;

  arp u_arp (
    .clk_i,
    .rst_ni,
    .now_i,
    .hardware_i,
    .address_i,
    .age_limit_i,
    .frame_valid_i(other_valid_i && other_class_i == OtherArp),
    .frame_ready_o(arp_ready),
    .frame_i(other_i),
    .out_valid_o(arp_valid),
    .out_ready_i(arp_out_ready),
    .out_o(arp_beat),
    .lookup_valid_i(lookup_valid),
    .lookup_ready_o(lookup_ready),
    .lookup_i(lookup),
    .result_valid_o(result_valid),
    .result_ready_i(result_ready),
    .result_hit_o(result_hit),
    .result_mac_o(result_mac),
    .entry_valid_i(neighbour_valid_i),
    .entry_ready_o(neighbour_ready_o),
    .entry_address_i(neighbour_address_i),
    .entry_mac_i(neighbour_mac_i),
    .events_o(arp_events_o),
    .idle_o(arp_idle)
  );

  logic  echo_valid;
  logic  echo_out_ready;
  beat_t echo_beat;
  logic  echo_idle;

  icmp_echo u_echo (
    .clk_i,
    .rst_ni,
    .hardware_i,
    .frame_valid_i(other_valid_i && other_class_i == OtherEcho),
    .frame_ready_o(echo_ready),
    .frame_i(other_i),
    .out_valid_o(echo_valid),
    .out_ready_i(echo_out_ready),
    .out_o(echo_beat),
    .events_o(echo_events_o),
    .idle_o(echo_idle)
  );

  logic unused_control_last;
  logic unused_control_grant;

  arbiter #(
    .T(beat_t),
    .N(2)
  ) u_control (
    .clk_i,
    .rst_ni,
    .in_valid_i({echo_valid, arp_valid}),
    .in_ready_o({echo_out_ready, arp_out_ready}),
    .in_i({echo_beat, arp_beat}),
    .in_last_i({echo_beat.last, arp_beat.last}),
    .out_valid_o(control_valid_o),
    .out_ready_i(control_ready_i),
    .out_o(control_o),
    .out_last_o(unused_control_last),
    .grant_o(unused_control_grant)
  );

  stamped_t closed;  // datagrams to ports that no engine has opened
  logic     closed_valid;
  logic     closed_ready;
  logic     sockets_idle;

  udp_sockets u_sockets (
    .clk_i,
    .rst_ni,
    .frame_valid_i(other_valid_i && other_class_i == OtherDatagram),
    .frame_ready_o(sockets_ready),
    .frame_i(other_i),
    .frame_timestamp_i(other_timestamp_i),
    .host_valid_o(closed_valid),
    .host_ready_i(closed_ready),
    .host_o(closed.beat),
    .host_timestamp_o(closed.timestamp),
    .datagram_valid_o(datagram_received_valid_o),
    .datagram_ready_i(datagram_received_ready_i),
    .datagram_o(datagram_received_o),
    .payload_valid_o(payload_received_valid_o),
    .payload_ready_i(payload_received_ready_i),
    .payload_o(payload_received_o),
    .entry_valid_i(socket_valid_i),
    .entry_ready_o(socket_ready_o),
    .entry_i(socket_i),
    .entry_done_o(socket_done_o),
    .entry_refused_o(socket_refused_o),
    .events_o(socket_events_o),
    .idle_o(sockets_idle)
  );

  stamped_t straight;
  stamped_t up;
  logic     up_valid;
  logic     up_ready;
  logic     unused_up_last;
  logic     unused_up_grant;
  logic     host_idle;
  assign straight = '{beat: other_i, timestamp: other_timestamp_i};

  arbiter #(
    .T(stamped_t),
    .N(2)
  ) u_up (
    .clk_i,
    .rst_ni,
    .in_valid_i({other_valid_i && other_class_i == OtherHost, closed_valid}),
    .in_ready_o({straight_ready, closed_ready}),
    .in_i({straight, closed}),
    .in_last_i({straight.beat.last, closed.beat.last}),
    .out_valid_o(up_valid),
    .out_ready_i(up_ready),
    .out_o(up),
    .out_last_o(unused_up_last),
    .grant_o(unused_up_grant)
  );

  host_frames u_host (
    .clk_i,
    .rst_ni,
    .frame_valid_i(up_valid),
    .frame_ready_o(up_ready),
    .frame_i(up.beat),
    .frame_timestamp_i(up.timestamp),
    .to_host_valid_o,
    .to_host_ready_i,
    .to_host_o,
    .to_host_bytes_o,
    .to_host_timestamp_o,
    .from_host_valid_i,
    .from_host_ready_o,
    .from_host_i,
    .out_valid_o(host_valid_o),
    .out_ready_i(host_ready_i),
    .out_o(host_o),
    .events_o(host_events_o),
    .idle_o(host_idle)
  );

  logic datagram_idle;

  datagram_transmit u_datagram (
    .clk_i,
    .rst_ni,
    .hardware_i,
    .address_i,
    .datagram_valid_i(datagram_send_valid_i),
    .datagram_ready_o(datagram_send_ready_o),
    .datagram_i(datagram_send_i),
    .payload_valid_i(payload_send_valid_i),
    .payload_ready_o(payload_send_ready_o),
    .payload_i(payload_send_i),
    .lookup_valid_o(datagram_lookup_valid),
    .lookup_ready_i(datagram_lookup_ready),
    .lookup_o(datagram_lookup),
    .result_valid_i(datagram_result_valid),
    .result_ready_o(datagram_result_ready),
    .result_hit_i(result_hit),
    .result_mac_i(result_mac),
    .out_valid_o(datagram_valid_o),
    .out_ready_i(datagram_ready_i),
    .out_o(datagram_o),
    .out_stamp_o(datagram_stamp_o),
    .out_tag_o(datagram_tag_o),
    .events_o(datagram_events_o),
    .idle_o(datagram_idle)
  );

  assign idle_o = !other_valid_i && arp_idle && echo_idle && sockets_idle && host_idle
      && datagram_idle && !from_host_valid_i;

endmodule
