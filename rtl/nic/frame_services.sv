// What a port does with frames that are not RoCE, and the datagrams and host frames that it sends.
module frame_services
  import weft_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  cycles_t                   now_i,
  input  mac_address_t              hardware_i,
  input  ipv4_address_t             address_i,
  input  cycles_t                   age_limit_i,
  // Frames that are not RoCE, from the receive path: whole ones, in order.
  input  logic                      other_valid_i,
  output logic                      other_ready_o,
  input  beat_t                     other_i,
  // Valid with the first beat: 0 ARP, 1 echo request, 2 datagram, 3 for the host.
  input  logic                [1:0] other_class_i,
  input  cycles_t                   other_timestamp_i,
  output logic                      to_host_valid_o,
  input  logic                      to_host_ready_i,
  output beat_t                     to_host_o,
  output frame_bytes_t              to_host_bytes_o,
  output cycles_t                   to_host_timestamp_o,
  input  logic                      from_host_valid_i,
  output logic                      from_host_ready_o,
  input  beat_t                     from_host_i,
  output logic                      datagram_received_valid_o,
  input  logic                      datagram_received_ready_i,
  output datagram_received_t        datagram_received_o,
  output logic                      payload_received_valid_o,
  input  logic                      payload_received_ready_i,
  output beat_t                     payload_received_o,
  input  logic                      datagram_send_valid_i,
  output logic                      datagram_send_ready_o,
  input  datagram_send_t            datagram_send_i,
  input  logic                      payload_send_valid_i,
  output logic                      payload_send_ready_o,
  input  beat_t                     payload_send_i,
  input  logic                      neighbour_valid_i,
  output logic                      neighbour_ready_o,
  input  ipv4_address_t             neighbour_address_i,
  input  mac_address_t              neighbour_mac_i,
  input  logic                      socket_valid_i,
  output logic                      socket_ready_o,
  input  socket_entry_t             socket_i,
  output logic                      socket_done_o,
  output logic                      socket_refused_o,
  // To transmit_merge.
  output logic                      control_valid_o,
  input  logic                      control_ready_i,
  output beat_t                     control_o,
  output logic                      datagram_valid_o,
  input  logic                      datagram_ready_i,
  output beat_t                     datagram_o,
  output logic                      datagram_stamp_o,
  output logic                [7:0] datagram_tag_o,
  output logic                      host_valid_o,
  input  logic                      host_ready_i,
  output beat_t                     host_o,
  output frame_check_events_t       check_events_o,
  output arp_events_t               arp_events_o,
  output icmp_echo_events_t         echo_events_o,
  output udp_sockets_events_t       socket_events_o,
  output datagram_transmit_events_t datagram_events_o,
  output host_frames_events_t       host_events_o,
  output logic                      idle_o
);

  assign other_ready_o = 1'b1;
  assign to_host_valid_o = 1'b0;
  assign to_host_o = '0;
  assign to_host_bytes_o = '0;
  assign to_host_timestamp_o = '0;
  assign from_host_ready_o = 1'b1;
  assign datagram_received_valid_o = 1'b0;
  assign datagram_received_o = '0;
  assign payload_received_valid_o = 1'b0;
  assign payload_received_o = '0;
  assign datagram_send_ready_o = 1'b1;
  assign payload_send_ready_o = 1'b1;
  assign neighbour_ready_o = 1'b1;
  assign socket_ready_o = 1'b1;
  assign socket_done_o = 1'b0;
  assign socket_refused_o = 1'b0;
  assign control_valid_o = 1'b0;
  assign control_o = '0;
  assign datagram_valid_o = 1'b0;
  assign datagram_o = '0;
  assign datagram_stamp_o = 1'b0;
  assign datagram_tag_o = '0;
  assign host_valid_o = 1'b0;
  assign host_o = '0;
  assign check_events_o = '0;
  assign arp_events_o = '0;
  assign echo_events_o = '0;
  assign socket_events_o = '0;
  assign datagram_events_o = '0;
  assign host_events_o = '0;
  assign idle_o = 1'b1;

endmodule
