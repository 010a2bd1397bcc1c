// Merges all frames into the stream to the MAC, round-robin by whole frames, and pads short frames with zeros to 60
// bytes.
//
// RoCE, the engines' messages and all other sources take turns; the other sources share their turn round-robin. A
// source has the full rate while the others are idle, and RoCE and the engines each get at least every third frame.
//
// A source that pauses within a frame pauses the wire. Therefore all sources but the transport and the engines send
// whole frames from a buffer.
//
// Latency: 1 cycle. Throughput: one beat every cycle, also from frame to frame. Order: kept for each source. Stalls:
// a source during another one's turn, and when the MAC stalls.
module transmit_merge
  import weft_pkg::*;
(
  input  logic                                   clk_i,
  input  logic                                   rst_ni,
  input  cycles_t                                now_i,
  input  logic                                   roce_valid_i,
  output logic                                   roce_ready_o,
  input  beat_t                                  roce_i,
  // Messages of engines.
  input  logic                                   engine_valid_i,
  output logic                                   engine_ready_o,
  input  beat_t                                  engine_i,
  // Replies of ARP and ICMP.
  input  logic                                   control_valid_i,
  output logic                                   control_ready_o,
  input  beat_t                                  control_i,
  input  logic                                   datagram_valid_i,
  output logic                                   datagram_ready_o,
  input  beat_t                                  datagram_i,
  // Valid with the first beat.
  input  logic                                   datagram_stamp_i,
  input  logic                   [          7:0] datagram_tag_i,
  input  logic                                   host_valid_i,
  output logic                                   host_ready_o,
  input  beat_t                                  host_i,
  output logic                                   mac_valid_o,
  input  logic                                   mac_ready_i,
  output logic                   [ BeatBits-1:0] mac_data_o,
  output logic                   [BeatBytes-1:0] mac_keep_o,
  output logic                                   mac_last_o,
  // Cycle in which the first beat of a marked datagram left. There is no ready: it is valid for one cycle.
  output logic                                   stamp_valid_o,
  output logic                   [          7:0] stamp_tag_o,
  output cycles_t                                stamp_o,
  output transmit_merge_events_t                 events_o,
  output logic                                   idle_o
);

  localparam int unsigned FrameBytesMin = 60;

  logic rest_valid;
  logic rest_ready;
  logic rest_last;
  beat_t rest;
  logic [1:0] rest_grant;
  logic in_valid;
  logic in_ready;
  logic in_last;
  logic unused_last;
  beat_t in;
  logic [1:0] in_grant;

  arbiter #(
    .T(beat_t),
    .N(3)
  ) u_rest (
    .clk_i,
    .rst_ni,
    .in_valid_i({host_valid_i, datagram_valid_i, control_valid_i}),
    .in_ready_o({host_ready_o, datagram_ready_o, control_ready_o}),
    .in_i({host_i, datagram_i, control_i}),
    .in_last_i({host_i.last, datagram_i.last, control_i.last}),
    .out_valid_o(rest_valid),
    .out_ready_i(rest_ready),
    .out_o(rest),
    .out_last_o(rest_last),
    .grant_o(rest_grant)
  );

  arbiter #(
    .T(beat_t),
    .N(3)
  ) u_all (
    .clk_i,
    .rst_ni,
    .in_valid_i({rest_valid, engine_valid_i, roce_valid_i}),
    .in_ready_o({rest_ready, engine_ready_o, roce_ready_o}),
    .in_i({rest, engine_i, roce_i}),
    .in_last_i({rest_last, engine_i.last, roce_i.last}),
    .out_valid_o(in_valid),
    .out_ready_i(in_ready),
    .out_o(in),
    .out_last_o(unused_last),
    .grant_o(in_grant)
  );

  logic                 first_q;
  logic                 valid_q;
  logic                 last_q;
  logic [ BeatBits-1:0] data_q;
  logic [BeatBytes-1:0] keep_q;
  logic                 stamp_q;
  logic [          7:0] tag_q;
  logic [          6:0] bytes;
  logic                 short_frame;

  assign in_last = in.last;
  assign in_ready = !valid_q || mac_ready_i;
  assign bytes = 7'd64 - 7'(in.empty);
  assign short_frame = first_q && in_last && bytes < 7'(FrameBytesMin);

  always_ff @(posedge clk_i) begin
    if (in_valid && in_ready) begin
      last_q  <= in_last;
      stamp_q <= first_q && in_grant == 2'd2 && rest_grant == 2'd1 && datagram_stamp_i;
      tag_q   <= datagram_tag_i;
      for (int unsigned i = 0; i < BeatBytes; i++) begin
        keep_q[i] <= !in_last || 7'(i) < bytes || (short_frame && i < FrameBytesMin);
        data_q[8*i+:8] <= (short_frame && 7'(i) >= bytes) ? '0 : in.data[8*i+:8];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q <= 1'b1;
      valid_q <= 1'b0;
    end else begin
      if (in_ready) valid_q <= in_valid;
      if (in_valid && in_ready) first_q <= in_last;
    end
  end

  assign mac_valid_o = valid_q;
  assign mac_data_o = data_q;
  assign mac_keep_o = keep_q;
  assign mac_last_o = last_q;
  assign stamp_valid_o = valid_q && mac_ready_i && stamp_q;
  assign stamp_tag_o = tag_q;
  assign stamp_o = now_i;
  assign events_o = '{frames_sent: valid_q && mac_ready_i && last_q};
  assign idle_o = !valid_q && !in_valid && first_q;

endmodule
