// Extracts the Weft datagrams for this port from the MAC's frames, in parallel to receive_path, and splits them into
// messages.
//
// No part of a bad datagram leaves: beats are written into a buffer as they arrive, and released or dropped when the
// frame is complete. A peer's datagram is one from its IP address and Weft's UDP port; all others are clients'.
//
// Latency: 4 cycles from the last beat to a datagram's first message, 5 to its payload. Throughput: a beat every
// cycle, frames back to back; a message every 2 cycles or, in a datagram with several, one cycle and one for each
// beat of its payload. Order: kept. Stalls: the MAC is never stalled; a datagram that finds the buffer full is
// dropped and counted.
//
// Sources: RFC 791, 768; crates/wire/src/datagram.rs.
module datagram_receive
  import weft_pkg::*;
  import engines_pkg::*;
#(
  // Messages for engines with numbers below this are delivered.
  parameter int unsigned Engines = 1,
  // Capacity of the buffer in beats; a power of two.
  parameter int unsigned Beats   = 4096
) (
  input  logic                                     clk_i,
  input  logic                                     rst_ni,
  input  logic                                     enable_i,
  input  mac_address_t                             hardware_i,
  input  ipv4_address_t                            address_i,
  input  peer_t                    [ NodesMax-1:0] peers_i,
  // Frames without frame check sequence. All beats but the last are full. `error` belongs to the last beat.
  input  logic                                     rx_valid_i,
  input  logic                     [ BeatBits-1:0] rx_data_i,
  input  logic                     [BeatBytes-1:0] rx_keep_i,
  input  logic                                     rx_last_i,
  input  logic                                     rx_error_i,
  output logic                                     message_valid_o,
  input  logic                                     message_ready_i,
  output message_received_t                        message_o,
  // Payload of messages that have one, from byte 0 of a beat on; zeros behind its end.
  output logic                                     payload_valid_o,
  input  logic                                     payload_ready_i,
  output beat_t                                    payload_o,
  output datagram_receive_events_t                 events_o,
  output logic                                     idle_o
);

  typedef struct packed {
    logic                peer;
    node_t from;
    logic [BeatBits-1:0] data;
  } entry_t;

  logic   check_valid;
  logic   check_last;
  entry_t check_entry;
  logic   lost;
  logic   verdict_valid;
  logic   verdict_good;
  logic   front_valid;
  logic   front_ready;
  logic   front_last;
  entry_t front;
  logic   check_idle;
  logic   split_idle;
  logic   empty;

  datagram_check i_check (
    .clk_i,
    .rst_ni,
    .enable_i,
    .hardware_i,
    .address_i,
    .peers_i,
    .rx_valid_i,
    .rx_data_i,
    .rx_keep_i,
    .rx_last_i,
    .rx_error_i,
    .beat_valid_o   (check_valid),
    .beat_last_o    (check_last),
    .beat_o         (check_entry.data),
    .peer_o         (check_entry.peer),
    .from_o         (check_entry.from),
    .lost_i         (lost),
    .verdict_valid_o(verdict_valid),
    .verdict_good_o (verdict_good),
    .received_o     (events_o.datagrams_received),
    .malformed_o    (events_o.datagrams_malformed),
    .lost_o         (events_o.drop_datagram_buffer_full),
    .idle_o         (check_idle)
  );

  packet_fifo #(
    .T    (entry_t),
    .Depth(Beats),
    .Style("ultra")
  ) i_buffer (
    .clk_i,
    .rst_ni,
    .in_valid_i     (check_valid),
    .in_last_i      (check_last),
    .in_abort_i     (1'b0),
    .in_i           (check_entry),
    .in_lost_o      (lost),
    .verdict_valid_i(verdict_valid),
    .verdict_good_i (verdict_good),
    .out_valid_o    (front_valid),
    .out_ready_i    (front_ready),
    .out_last_o     (front_last),
    .out_o          (front),
    .level_o        (),
    .empty_o        (empty)
  );

  datagram_split #(
    .Engines(Engines)
  ) i_split (
    .clk_i,
    .rst_ni,
    .beat_valid_i    (front_valid),
    .beat_ready_o    (front_ready),
    .beat_last_i     (front_last),
    .beat_i          (front.data),
    .peer_i          (front.peer),
    .from_i          (front.from),
    .message_valid_o,
    .message_ready_i,
    .message_o,
    .payload_valid_o,
    .payload_ready_i,
    .payload_o,
    .without_engine_o(events_o.messages_without_engine),
    .malformed_o     (events_o.messages_malformed),
    .idle_o          (split_idle)
  );

  assign idle_o = check_idle && empty && split_idle;

endmodule
