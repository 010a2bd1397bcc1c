// Takes frames from the MAC, drops the bad ones, and sorts the good ones: RoCE packets with their headers read, and others.
module receive_path
  import weft_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  cycles_t              now_i,
  // Addresses of this port.
  input  mac_address_t         hardware_i,
  input  ipv4_address_t        address_i,
  // Frames without frame check sequence. `error` belongs to the last beat.
  input  logic                 rx_valid_i,
  input  logic [BeatBits-1:0]  rx_data_i,
  input  logic [BeatBytes-1:0] rx_keep_i,
  input  logic                 rx_last_i,
  input  logic                 rx_error_i,
  // RoCE packets: headers, and whole frames in the same order.
  output logic                 header_valid_o,
  input  logic                 header_ready_i,
  output roce_header_t         header_o,
  output logic                 frame_valid_o,
  input  logic                 frame_ready_i,
  output beat_t                frame_o,
  // Other frames. `info` is valid with every beat of its frame.
  output logic                 other_valid_o,
  input  logic                 other_ready_i,
  output beat_t                other_o,
  output other_frame_t         other_info_o,
  output receive_path_events_t events_o,
  output logic                 idle_o
);

  assign header_valid_o = 1'b0;
  assign header_o = '0;
  assign frame_valid_o = 1'b0;
  assign frame_o = '0;
  assign other_valid_o = 1'b0;
  assign other_o = '0;
  assign other_info_o = '0;
  assign events_o = '0;
  assign idle_o = 1'b1;

endmodule
