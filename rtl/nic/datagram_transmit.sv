// Sends UDP datagrams.
module datagram_transmit
  import weft_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  mac_address_t              hardware_i,
  input  ipv4_address_t             address_i,
  input  logic                      datagram_valid_i,
  output logic                      datagram_ready_o,
  input  datagram_send_t            datagram_i,
  // Payload of the datagrams, each from byte 0 of a beat.
  input  logic                      payload_valid_i,
  output logic                      payload_ready_o,
  input  beat_t                     payload_i,
  // To the neighbour table of `arp`.
  output logic                      lookup_valid_o,
  input  logic                      lookup_ready_i,
  output ipv4_address_t             lookup_o,
  input  logic                      result_valid_i,
  output logic                      result_ready_o,
  input  logic                      result_hit_i,
  input  mac_address_t              result_mac_i,
  output logic                      out_valid_o,
  input  logic                      out_ready_i,
  output beat_t                     out_o,
  // Valid with the first beat: tell when the frame leaves.
  output logic                      out_stamp_o,
  output logic                [7:0] out_tag_o,
  output datagram_transmit_events_t events_o,
  output logic                      idle_o
);

  assign datagram_ready_o = 1'b1;
  assign payload_ready_o = 1'b1;
  assign lookup_valid_o = 1'b0;
  assign lookup_o = '0;
  assign result_ready_o = 1'b1;
  assign out_valid_o = 1'b0;
  assign out_o = '0;
  assign out_stamp_o = 1'b0;
  assign out_tag_o = '0;
  assign events_o = '0;
  assign idle_o = 1'b1;

endmodule
