// Frames to and from the host: all traffic that the card does not handle itself.
//
// Both directions store whole frames, so a slow host stalls neither other received traffic nor the wire. A frame to
// the host that finds no room is dropped and counted; frames from the host wait.
//
// Latency: 2 cycles from a frame's last beat to its first beat on the other side. Throughput: one beat every cycle,
// and one extra cycle for each frame. Order: kept. Stalls: from the wire never; from the host, while 512 beats or 64
// frames wait.
module host_frames
  import weft_pkg::*;
(
  input  logic                clk_i,
  input  logic                rst_ni,
  // Frames from the wire; the time stamp is valid with the first beat.
  input  logic                frame_valid_i,
  output logic                frame_ready_o,
  input  beat_t               frame_i,
  input  cycles_t             frame_timestamp_i,
  // Frames to the host; length and time stamp are valid with every beat.
  output logic                to_host_valid_o,
  input  logic                to_host_ready_i,
  output beat_t               to_host_o,
  output frame_bytes_t        to_host_bytes_o,
  output cycles_t             to_host_timestamp_o,
  // Frames from the host, without padding and frame check sequence.
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

  typedef struct packed {
    frame_bytes_t bytes;
    cycles_t      timestamp;
  } info_t;

  // Of the frame that is arriving: time stamp, and bytes before this beat.
  logic               first_q;
  cycles_t            timestamp_q;
  frame_bytes_t       before_q;
  info_t              info;
  info_t              out_info;
  logic               to_kept;
  logic               to_dropped;
  logic               to_idle;
  logic               from_kept;
  logic               from_dropped;
  logic               from_idle;
  logic         [2:0] unused;

  assign info.timestamp = first_q ? frame_timestamp_i : timestamp_q;
  assign info.bytes = (first_q ? '0 : before_q) + frame_bytes_t'(BeatBytes) - frame_bytes_t'(frame_i.empty);

  always_ff @(posedge clk_i) begin
    if (frame_valid_i) begin
      if (first_q) timestamp_q <= frame_timestamp_i;
      before_q <= (first_q ? '0 : before_q) + frame_bytes_t'(BeatBytes);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q <= 1'b1;
    end else if (frame_valid_i) begin
      first_q <= frame_i.last;
    end
  end

  frame_buffer #(
    .Info(info_t)
  ) u_to_host (
    .clk_i,
    .rst_ni,
    .in_valid_i(frame_valid_i),
    .in_ready_o(frame_ready_o),
    .in_i(frame_i),
    .in_info_i(info),
    .kept_o(to_kept),
    .dropped_o(to_dropped),
    .verdict_valid_i(to_kept),
    .verdict_good_i(1'b1),
    .verdict_i(1'b0),
    .out_valid_o(to_host_valid_o),
    .out_ready_i(to_host_ready_i),
    .out_o(to_host_o),
    .out_info_o(out_info),
    .out_verdict_o(unused[0]),
    .idle_o(to_idle)
  );

  assign to_host_bytes_o = out_info.bytes;
  assign to_host_timestamp_o = out_info.timestamp;

  frame_buffer #(
    .Stall(1'b1)
  ) u_from_host (
    .clk_i,
    .rst_ni,
    .in_valid_i(from_host_valid_i),
    .in_ready_o(from_host_ready_o),
    .in_i(from_host_i),
    .in_info_i(1'b0),
    .kept_o(from_kept),
    .dropped_o(from_dropped),
    .verdict_valid_i(from_kept),
    .verdict_good_i(1'b1),
    .verdict_i(1'b0),
    .out_valid_o,
    .out_ready_i,
    .out_o,
    .out_info_o(unused[1]),
    .out_verdict_o(unused[2]),
    .idle_o(from_idle)
  );

  assign events_o = '{
          frames_to_host: to_kept,
          frames_from_host: from_kept,
          drop_host_queue_full: to_dropped,
          drop_host_frame_size: from_dropped
      };
  assign idle_o = to_idle && from_idle && first_q;

endmodule
