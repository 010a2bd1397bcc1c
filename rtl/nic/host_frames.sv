// Frames to and from the host.
module host_frames
  import weft_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  // From the wire, from two sources.
  input  logic                frame_valid_i,
  output logic                frame_ready_o,
  input  beat_t               frame_i,
  input  cycles_t             frame_timestamp_i,
  // Frames to the host, whole ones only; length and time stamp are valid from the first beat to the last.
  output logic                to_host_valid_o,
  input  logic                to_host_ready_i,
  output beat_t               to_host_o,
  output frame_bytes_t        to_host_bytes_o,
  output cycles_t             to_host_timestamp_o,
  // Frames from the host.
  input  logic                from_host_valid_i,
  output logic                from_host_ready_o,
  input  beat_t               from_host_i,
  // Frames to the wire.
  output logic                out_valid_o,
  input  logic                out_ready_i,
  output beat_t               out_o,
  output host_frames_events_t events_o,
  output logic                idle_o
);

  assign frame_ready_o = 1'b1;
  assign to_host_valid_o = 1'b0;
  assign to_host_o = '0;
  assign to_host_bytes_o = '0;
  assign to_host_timestamp_o = '0;
  assign from_host_ready_o = 1'b1;
  assign out_valid_o = 1'b0;
  assign out_o = '0;
  assign events_o = '0;
  assign idle_o = 1'b1;

endmodule
