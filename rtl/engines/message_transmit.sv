// Sends an engine's messages, each in a datagram of its own.
module message_transmit
  import weft_pkg::*;
  import engines_pkg::*;
#(
  // The slot of the engine, at the sender and at the receiver.
  parameter logic [7:0] Engine = 8'd0,
  // A longer UDP payload is not sent.
  parameter int unsigned DatagramBytesMax = 1472
) (
  input  logic                                    clk_i,
  input  logic                                    rst_ni,
  input  mac_address_t                            hardware_i,
  input  ipv4_address_t                           address_i,
  input  peer_t                    [NodesMax-1:0] peers_i,
  // All learned addresses of stations are forgotten.
  input  logic                                    forget_i,
  // A peer's datagram has come from this station. Always taken.
  input  logic                                    learn_valid_i,
  input  node_t                                   learn_node_i,
  input  mac_address_t                            learn_mac_i,
  input  logic                                    message_valid_i,
  output logic                                    message_ready_o,
  input  engine_message_t                         message_i,
  // None for a message without a payload. Does not pause.
  input  logic                                    body_valid_i,
  output logic                                    body_ready_o,
  input  beat_t                                   body_i,
  // To the neighbour table of `arp`.
  output logic                                    lookup_valid_o,
  input  logic                                    lookup_ready_i,
  output ipv4_address_t                           lookup_o,
  input  logic                                    result_valid_i,
  output logic                                    result_ready_o,
  input  logic                                    result_hit_i,
  input  mac_address_t                            result_mac_i,
  output logic                                    out_valid_o,
  input  logic                                    out_ready_i,
  output beat_t                                   out_o,
  output message_transmit_events_t                events_o,
  output logic                                    idle_o
);

  assign message_ready_o = 1'b1;
  assign body_ready_o = 1'b1;
  assign lookup_valid_o = 1'b0;
  assign lookup_o = '0;
  assign result_ready_o = 1'b1;
  assign out_valid_o = 1'b0;
  assign out_o = '0;
  assign events_o = '0;
  assign idle_o = 1'b1;

endmodule
