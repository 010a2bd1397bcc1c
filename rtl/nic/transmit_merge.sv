// Merges all frames into the stream of the MAC.
module transmit_merge
  import weft_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  cycles_t                now_i,
  input  logic                   roce_valid_i,
  output logic                   roce_ready_o,
  input  beat_t                  roce_i,
  // Answers of ARP and ICMP.
  input  logic                   control_valid_i,
  output logic                   control_ready_o,
  input  beat_t                  control_i,
  input  logic                   datagram_valid_i,
  output logic                   datagram_ready_o,
  input  beat_t                  datagram_i,
  input  logic                   datagram_stamp_i,
  input  logic             [7:0] datagram_tag_i,
  input  logic                   host_valid_i,
  output logic                   host_ready_o,
  input  beat_t                  host_i,
  output logic                   mac_valid_o,
  input  logic                   mac_ready_i,
  output logic [BeatBits-1:0]    mac_data_o,
  output logic [BeatBytes-1:0]   mac_keep_o,
  output logic                   mac_last_o,
  // When the first beat of a marked datagram left. Nobody holds it back: it is valid for one cycle.
  output logic                   stamp_valid_o,
  output logic             [7:0] stamp_tag_o,
  output cycles_t                stamp_o,
  output transmit_merge_events_t events_o,
  output logic                   idle_o
);

  assign roce_ready_o = 1'b1;
  assign control_ready_o = 1'b1;
  assign datagram_ready_o = 1'b1;
  assign host_ready_o = 1'b1;
  assign mac_valid_o = 1'b0;
  assign mac_data_o = '0;
  assign mac_keep_o = '0;
  assign mac_last_o = 1'b0;
  assign stamp_valid_o = 1'b0;
  assign stamp_tag_o = '0;
  assign stamp_o = '0;
  assign events_o = '0;
  assign idle_o = 1'b1;

endmodule
