// Gives the datagrams that arrive to who has opened their port.
module udp_sockets
  import weft_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  // Datagrams to the port's address, whole frames, with the time of their first beat.
  input  logic                frame_valid_i,
  output logic                frame_ready_o,
  input  beat_t               frame_i,
  input  cycles_t             frame_timestamp_i,
  // Frames to ports that no engine has opened.
  output logic                host_valid_o,
  input  logic                host_ready_i,
  output beat_t               host_o,
  output cycles_t             host_timestamp_o,
  // Datagrams for engines; the payload follows its datagram, or comes at the same time.
  output logic                datagram_valid_o,
  input  logic                datagram_ready_i,
  output datagram_received_t  datagram_o,
  output logic                payload_valid_o,
  input  logic                payload_ready_i,
  output beat_t               payload_o,
  // Opens or closes a port; `done` says when, `refused` that the table is full there.
  input  logic                entry_valid_i,
  output logic                entry_ready_o,
  input  socket_entry_t       entry_i,
  output logic                entry_done_o,
  output logic                entry_refused_o,
  output udp_sockets_events_t events_o,
  output logic                idle_o
);

  assign frame_ready_o = 1'b1;
  assign host_valid_o = 1'b0;
  assign host_o = '0;
  assign host_timestamp_o = '0;
  assign datagram_valid_o = 1'b0;
  assign datagram_o = '0;
  assign payload_valid_o = 1'b0;
  assign payload_o = '0;
  assign entry_ready_o = 1'b1;
  assign entry_done_o = 1'b0;
  assign entry_refused_o = 1'b0;
  assign events_o = '0;
  assign idle_o = 1'b1;

endmodule
