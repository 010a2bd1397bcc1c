// PSP between the MAC and a card: `psp_open` for received frames, `psp_seal` for sent ones, and the driver's
// registers. Twin of `weft_service::psp::Psp` on the path of the soft NIC.
//
// The registers are write-only, so no key can be read back. The driver expands the keys itself. It writes a value of
// four words, lowest bits first, and then a command. To write a key, the value is a round key of AES (places 0 to 14)
// or a power of the hash key (16 to 19), with byte 0 in the low bits. To configure an association, word 0 is the
// peer's address and word 1 the SPI. An association to open has as its index the low bits of its SPI. To seal, the
// association that was configured last for the peer is used, starting with nonce 0. The driver reuses an index only
// when no frame sealed with it is in flight.
//
// Latency: 18 cycles to open and 22 to seal, with keys of 256 bits; 4 less each with keys of 128. Throughput: a beat
// a cycle in each direction. Order: kept. Stalls: receive never, transmit when the MAC does.
module psp_port
  import weft_pkg::*;
  import aes_pkg::*;
  import psp_pkg::*;
#(
  parameter int unsigned Rounds       = 14,
  parameter int unsigned Leaf         = 8,
  // Number of frames that one key may seal: 2 to the power of this.
  parameter int unsigned FramesPerKey = 32
) (
  input logic clk_i,
  input logic rst_ni,

  // Writes of the driver: `psp_register_e`.
  input logic        write_valid_i,
  input logic [ 2:0] write_register_i,
  input logic [31:0] write_data_i,

  // MAC.
  input  logic                 rx_valid_i,
  input  logic [ BeatBits-1:0] rx_data_i,
  input  logic [BeatBytes-1:0] rx_keep_i,
  input  logic                 rx_last_i,
  input  logic                 rx_error_i,
  output logic                 tx_valid_o,
  input  logic                 tx_ready_i,
  output logic [ BeatBits-1:0] tx_data_o,
  output logic [BeatBytes-1:0] tx_keep_o,
  output logic                 tx_last_o,

  // The card.
  output logic                  card_rx_valid_o,
  output logic  [ BeatBits-1:0] card_rx_data_o,
  output logic  [BeatBytes-1:0] card_rx_keep_o,
  output logic                  card_rx_last_o,
  output logic                  card_rx_error_o,
  input  logic                  card_tx_valid_i,
  output logic                  card_tx_ready_o,
  input  beat_t                 card_tx_i,

  output psp_events_t events_o,
  // No frame is inside.
  output logic        idle_o
);

  // Upper bound of the cycles that a beat spends inside, while nothing stalls.
  localparam int unsigned Flight = 63;

  // Registers.

  logic         [ 3:0][31:0] value_q;
  logic         [15:0]       port_q;
  psp_command_t              command;
  logic                      key_write_q;
  logic                      configure_q;
  psp_command_t              command_q;

  assign command = psp_command_t'(write_data_i[$bits(psp_command_t)-1:0]);

  always_ff @(posedge clk_i) begin
    if (write_valid_i && !write_register_i[2]) value_q[write_register_i[1:0]] <= write_data_i;
    command_q <= command;
    if (!rst_ni) begin
      port_q      <= 16'd1000;
      key_write_q <= 1'b0;
      configure_q <= 1'b0;
    end else begin
      if (write_valid_i && write_register_i == PspPort) port_q <= write_data_i[15:0];
      key_write_q <= write_valid_i && write_register_i == PspCommand && !command.configure;
      configure_q <= write_valid_i && write_register_i == PspCommand && command.configure;
    end
  end

  // Receive.

  logic       opened;
  logic       refused;
  psp_cause_e cause;

  psp_open #(
    .Rounds(Rounds),
    .Leaf  (Leaf)
  ) i_open (
    .clk_i,
    .rst_ni,
    .port_i            (port_q),
    .configure_i       (configure_q && !command_q.seal),
    .configure_index_i (command_q.index),
    .configure_enable_i(command_q.enable),
    .configure_peer_i  (value_q[0]),
    .configure_spi_i   (value_q[1]),
    .key_write_i       (key_write_q && !command_q.seal),
    .key_index_i       (command_q.index),
    .key_place_i       (command_q.place),
    .key_i             (value_q),
    .rx_valid_i,
    .rx_data_i,
    .rx_keep_i,
    .rx_last_i,
    .rx_error_i,
    .out_valid_o       (card_rx_valid_o),
    .out_data_o        (card_rx_data_o),
    .out_keep_o        (card_rx_keep_o),
    .out_last_o        (card_rx_last_o),
    .out_error_o       (card_rx_error_o),
    .opened_o          (opened),
    .refused_o         (refused),
    .cause_o           (cause)
  );

  // Transmit.

  beat_t sealed;
  logic  was_sealed;
  logic  was_refused;
  logic  was_used_up;

  psp_seal #(
    .Rounds      (Rounds),
    .Leaf        (Leaf),
    .FramesPerKey(FramesPerKey)
  ) i_seal (
    .clk_i,
    .rst_ni,
    .port_i            (port_q),
    .configure_i       (configure_q && command_q.seal),
    .configure_index_i (command_q.index),
    .configure_enable_i(command_q.enable),
    .configure_peer_i  (value_q[0]),
    .configure_spi_i   (value_q[1]),
    .key_write_i       (key_write_q && command_q.seal),
    .key_index_i       (command_q.index),
    .key_place_i       (command_q.place),
    .key_i             (value_q),
    .in_valid_i        (card_tx_valid_i),
    .in_ready_o        (card_tx_ready_o),
    .in_i              (card_tx_i),
    .out_valid_o       (tx_valid_o),
    .out_ready_i       (tx_ready_i),
    .out_o             (sealed),
    .sealed_o          (was_sealed),
    .refused_o         (was_refused),
    .used_up_o         (was_used_up)
  );

  assign tx_data_o = sealed.data;
  assign tx_keep_o = sealed.last ? {BeatBytes{1'b1}} >> sealed.empty : '1;
  assign tx_last_o = sealed.last;

  assign events_o = '{
          psp_sealed: was_sealed,
          psp_opened: opened,
          psp_without_association: was_refused,
          psp_key_used_up: was_used_up,
          psp_plaintext: refused && cause == PspPlaintext,
          psp_malformed: refused && cause == PspMalformed,
          psp_unknown_spi: refused && cause == PspUnknownSpi,
          psp_wrong_peer: refused && cause == PspWrongPeer,
          psp_wrong_version: refused && cause == PspWrongVersion,
          psp_bad_tag: refused && cause == PspBadTag,
          psp_replayed: refused && cause == PspReplayed
      };

  // A countdown since the last beat entered. A beat that waits at the output restarts it.

  logic [$clog2(Flight+1)-1:0] flight_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) flight_q <= '0;
    else if (rx_valid_i || card_tx_valid_i || tx_valid_o) flight_q <= '1;
    else if (flight_q != '0) flight_q <= flight_q - 1'b1;
  end

  assign idle_o = flight_q == '0;

endmodule
