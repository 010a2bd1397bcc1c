// The network card with PSP between it and the MAC: `weft_nic` unchanged behind `psp_port`.
//
// RoCE packets and engines' datagrams are sent and received only with PSP encryption; other frames pass unchanged.
// The sniffer sees frames in plaintext. There is a register behind decryption, and a queue of two beats in front of
// encryption.
//
// Latency in addition to the card's: 19 cycles to receive, 23 to send, with keys of 256 bits.
module weft_nic_psp
  import weft_pkg::*;
  import engines_pkg::*;
  import events_pkg::*;
  import psp_pkg::*;
  import services_pkg::*;
#(
  parameter int unsigned OnChipBytes      = 262_144,
  parameter int unsigned HostCreditBytes  = 32_768,
  parameter int unsigned RpcCredits       = 16,
  parameter bit          AdditiveIncrease = 1'b0,
  parameter bit          Engine           = 1'b1,
  parameter bit          Services         = 1'b0,
  // Enables the engine's planted bugs, for tests of checkers only.
  parameter bit          PlantedBugs      = 1'b0,
  // Rounds of AES: 14 for keys of 256 bits, 10 for keys of 128. Leaf: see `carryless_multiplier`.
  parameter int unsigned Rounds           = 14,
  parameter int unsigned Leaf             = 8
) (
  input logic    clk_i,
  input logic    rst_ni,
  input cycles_t now_i,

  // MAC: frames without preamble and frame check sequence.
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

  // Associations and keys, which are write-only: `psp_register_e`.
  input  logic               psp_write_valid_i,
  input  logic        [ 2:0] psp_write_register_i,
  input  logic        [31:0] psp_write_data_i,
  output psp_events_t        psp_events_o,

  // Registers, AXI4-Lite: rtl/nic/registers.rdl.
  input  logic        axil_awvalid_i,
  output logic        axil_awready_o,
  input  logic [11:0] axil_awaddr_i,
  input  logic [ 2:0] axil_awprot_i,
  input  logic        axil_wvalid_i,
  output logic        axil_wready_o,
  input  logic [31:0] axil_wdata_i,
  input  logic [ 3:0] axil_wstrb_i,
  output logic        axil_bvalid_o,
  input  logic        axil_bready_i,
  output logic [ 1:0] axil_bresp_o,
  input  logic        axil_arvalid_i,
  output logic        axil_arready_o,
  input  logic [11:0] axil_araddr_i,
  input  logic [ 2:0] axil_arprot_i,
  output logic        axil_rvalid_o,
  input  logic        axil_rready_i,
  output logic [31:0] axil_rdata_o,
  output logic [ 1:0] axil_rresp_o,

  // Frames to and from the host; length and time stamp are stable from the first beat to the last.
  output logic         host_rx_valid_o,
  input  logic         host_rx_ready_i,
  output beat_t        host_rx_o,
  output frame_bytes_t host_rx_bytes_o,
  output cycles_t      host_rx_timestamp_o,
  input  logic         host_tx_valid_i,
  output logic         host_tx_ready_o,
  input  beat_t        host_tx_i,

  // Datagrams of engines' sockets.
  output logic                     datagram_received_valid_o,
  input  logic                     datagram_received_ready_i,
  output datagram_received_t       datagram_received_o,
  output logic                     payload_received_valid_o,
  input  logic                     payload_received_ready_i,
  output beat_t                    payload_received_o,
  input  logic                     datagram_send_valid_i,
  output logic                     datagram_send_ready_o,
  input  datagram_send_t           datagram_send_i,
  input  logic                     payload_send_valid_i,
  output logic                     payload_send_ready_o,
  input  beat_t                    payload_send_i,
  output logic                     stamp_valid_o,
  output logic               [7:0] stamp_tag_o,
  output cycles_t                  stamp_o,

  // Posts of the host, and their completions.
  input  logic             post_valid_i,
  output logic             post_ready_o,
  input  work_request_t    post_i,
  input  logic             receive_post_valid_i,
  output logic             receive_post_ready_o,
  input  receive_request_t receive_post_i,
  output logic             completion_valid_o,
  input  logic             completion_ready_i,
  output completion_t      completion_o,

  // An engine changes a peer's access rights, through a queue pair or in a region (SafarDB, design principle 3). The
  // marker reports that a change for a queue pair is in force, and that all data allowed before it is in memory. A
  // change for a region is in force for the next packet; a later change for any queue pair serves as its fence.
  input  logic          permission_valid_i,
  output logic          permission_ready_o,
  input  qp_index_t     permission_qp_i,
  input  access_t       permission_access_i,
  input  logic          region_permission_valid_i,
  input  region_index_t region_permission_index_i,
  input  access_t       region_permission_access_i,
  output logic          marker_o,
  output qp_index_t     marker_qp_o,

  output logic [7:0][BeatBits-1:0] registers_o,
  // Pulse: the oldest write in flight (of a WRITE, SEND, READ response or atomic) has become visible in memory. For
  // latency measurements.
  output logic                     placed_o,

  output logic               hbm_aw_valid_o,
  input  logic               hbm_aw_ready_i,
  output axi_address_t       hbm_aw_o,
  output logic               hbm_w_valid_o,
  input  logic               hbm_w_ready_i,
  output write_beat_t        hbm_w_o,
  input  logic               hbm_b_valid_i,
  input  logic         [1:0] hbm_b_response_i,
  output logic               hbm_ar_valid_o,
  input  logic               hbm_ar_ready_i,
  output axi_address_t       hbm_ar_o,
  input  logic               hbm_r_valid_i,
  output logic               hbm_r_ready_o,
  input  axi_read_t          hbm_r_i,
  output logic               host_aw_valid_o,
  input  logic               host_aw_ready_i,
  output axi_address_t       host_aw_o,
  output logic               host_w_valid_o,
  input  logic               host_w_ready_i,
  output write_beat_t        host_w_o,
  input  logic               host_b_valid_i,
  input  logic         [1:0] host_b_response_i,
  output logic               host_ar_valid_o,
  input  logic               host_ar_ready_i,
  output axi_address_t       host_ar_o,
  input  logic               host_r_valid_i,
  output logic               host_r_ready_o,
  input  axi_read_t          host_r_i,
  output logic               retransmission_aw_valid_o,
  input  logic               retransmission_aw_ready_i,
  output axi_address_t       retransmission_aw_o,
  output logic               retransmission_w_valid_o,
  input  logic               retransmission_w_ready_i,
  output write_beat_t        retransmission_w_o,
  input  logic               retransmission_b_valid_i,
  input  logic         [1:0] retransmission_b_response_i,
  output logic               retransmission_ar_valid_o,
  input  logic               retransmission_ar_ready_i,
  output axi_address_t       retransmission_ar_o,
  input  logic               retransmission_r_valid_i,
  output logic               retransmission_r_ready_o,
  input  axi_read_t          retransmission_r_i,
  // The engine's memory.
  output logic               engine_aw_valid_o,
  input  logic               engine_aw_ready_i,
  output axi_address_t       engine_aw_o,
  output logic               engine_w_valid_o,
  input  logic               engine_w_ready_i,
  output write_beat_t        engine_w_o,
  input  logic               engine_b_valid_i,
  input  logic         [1:0] engine_b_response_i,
  output logic               engine_ar_valid_o,
  input  logic               engine_ar_ready_i,
  output axi_address_t       engine_ar_o,
  input  logic               engine_r_valid_i,
  output logic               engine_r_ready_o,
  input  axi_read_t          engine_r_i,

  // Services for the payload of requests: see rtl/rdma/placement_services.sv. Unused unless `Services`.
  input  logic          serve_valid_i,
  input  qp_index_t     serve_qp_i,
  input  logic          serve_i,
  output logic          service_valid_o,
  input  logic          service_ready_i,
  output service_beat_t service_o,
  input  logic          served_valid_i,
  output logic          served_ready_o,
  input  service_beat_t served_i,
  input  logic          judged_valid_i,
  input  logic          judged_marked_i,

  // For `service_port`, if the card has services.
  output service_registers_t service_registers_o,
  input  service_readings_t  service_readings_i,

  // For `work_queues`, if the card has queues in the host's memory.
  output queue_registers_t queue_registers_o,
  input  queue_readings_t  queue_readings_i,

  // Captured frames, as pcapng blocks.
  output logic  sniffer_valid_o,
  input  logic  sniffer_ready_i,
  output beat_t sniffer_o,

  // Interrupt sources of the engine: its status, and the answer to a call. A call is accepted only while none is
  // `busy`.
  output engine_status_t engine_status_o,
  output logic           engine_answered_o,
  output logic           engine_call_busy_o,

  // For a simulator that skips idle cycles: nothing is in progress; a timer is armed; and the next deadline, if
  // known.
  output logic    idle_o,
  output logic    armed_o,
  output logic    earliest_valid_o,
  output cycles_t earliest_o
);

  logic                  opened_valid;
  logic  [ BeatBits-1:0] opened_data;
  logic  [BeatBytes-1:0] opened_keep;
  logic                  opened_last;
  logic                  opened_error;
  logic                  card_rx_valid_q;
  logic  [ BeatBits-1:0] card_rx_data_q;
  logic  [BeatBytes-1:0] card_rx_keep_q;
  logic                  card_rx_last_q;
  logic                  card_rx_error_q;
  logic                  card_tx_valid;
  logic                  card_tx_ready;
  logic  [ BeatBits-1:0] card_tx_data;
  logic  [BeatBytes-1:0] card_tx_keep;
  logic                  card_tx_last;
  logic                  card_idle;
  logic                  queued_valid;
  logic                  queued_ready;
  beat_t                 queued;
  logic                  psp_idle;

  psp_port #(
    .Rounds(Rounds),
    .Leaf  (Leaf)
  ) u_psp_port (
    .clk_i,
    .rst_ni,
    .write_valid_i(psp_write_valid_i),
    .write_register_i(psp_write_register_i),
    .write_data_i(psp_write_data_i),
    .rx_valid_i,
    .rx_data_i,
    .rx_keep_i,
    .rx_last_i,
    .rx_error_i,
    .tx_valid_o,
    .tx_ready_i,
    .tx_data_o,
    .tx_keep_o,
    .tx_last_o,
    .card_rx_valid_o(opened_valid),
    .card_rx_data_o(opened_data),
    .card_rx_keep_o(opened_keep),
    .card_rx_last_o(opened_last),
    .card_rx_error_o(opened_error),
    .card_tx_valid_i(queued_valid),
    .card_tx_ready_o(queued_ready),
    .card_tx_i(queued),
    .events_o(psp_events_o),
    .idle_o(psp_idle)
  );

  always_ff @(posedge clk_i) begin
    card_rx_data_q  <= opened_data;
    card_rx_keep_q  <= opened_keep;
    card_rx_last_q  <= opened_last;
    card_rx_error_q <= opened_error;
    card_rx_valid_q <= rst_ni && opened_valid;
  end

  fifo #(
    .T(beat_t),
    .Depth(2)
  ) u_queue (
    .clk_i,
    .rst_ni,
    .in_valid_i(card_tx_valid),
    .in_ready_o(card_tx_ready),
    .in_i({card_tx_last, card_tx_last ? unused_bytes(card_tx_keep) : '0, card_tx_data}),
    .out_valid_o(queued_valid),
    .out_ready_i(queued_ready),
    .out_o(queued),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed
    .level_o()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign idle_o = card_idle && psp_idle && !queued_valid && !card_rx_valid_q;

  weft_nic #(
    .OnChipBytes(OnChipBytes),
    .HostCreditBytes(HostCreditBytes),
    .RpcCredits(RpcCredits),
    .AdditiveIncrease(AdditiveIncrease),
    .Engine(Engine),
    .Services(Services),
    .PlantedBugs(PlantedBugs)
  ) u_weft_nic (
    .clk_i,
    .rst_ni,
    .now_i,
    .rx_valid_i(card_rx_valid_q),
    .rx_data_i(card_rx_data_q),
    .rx_keep_i(card_rx_keep_q),
    .rx_last_i(card_rx_last_q),
    .rx_error_i(card_rx_error_q),
    .tx_valid_o(card_tx_valid),
    .tx_ready_i(card_tx_ready),
    .tx_data_o(card_tx_data),
    .tx_keep_o(card_tx_keep),
    .tx_last_o(card_tx_last),
    .axil_awvalid_i,
    .axil_awready_o,
    .axil_awaddr_i,
    .axil_awprot_i,
    .axil_wvalid_i,
    .axil_wready_o,
    .axil_wdata_i,
    .axil_wstrb_i,
    .axil_bvalid_o,
    .axil_bready_i,
    .axil_bresp_o,
    .axil_arvalid_i,
    .axil_arready_o,
    .axil_araddr_i,
    .axil_arprot_i,
    .axil_rvalid_o,
    .axil_rready_i,
    .axil_rdata_o,
    .axil_rresp_o,
    .host_rx_valid_o,
    .host_rx_ready_i,
    .host_rx_o,
    .host_rx_bytes_o,
    .host_rx_timestamp_o,
    .host_tx_valid_i,
    .host_tx_ready_o,
    .host_tx_i,
    .datagram_received_valid_o,
    .datagram_received_ready_i,
    .datagram_received_o,
    .payload_received_valid_o,
    .payload_received_ready_i,
    .payload_received_o,
    .datagram_send_valid_i,
    .datagram_send_ready_o,
    .datagram_send_i,
    .payload_send_valid_i,
    .payload_send_ready_o,
    .payload_send_i,
    .stamp_valid_o,
    .stamp_tag_o,
    .stamp_o,
    .post_valid_i,
    .post_ready_o,
    .post_i,
    .receive_post_valid_i,
    .receive_post_ready_o,
    .receive_post_i,
    .completion_valid_o,
    .completion_ready_i,
    .completion_o,
    .permission_valid_i,
    .permission_ready_o,
    .permission_qp_i,
    .permission_access_i,
    .region_permission_valid_i,
    .region_permission_index_i,
    .region_permission_access_i,
    .marker_o,
    .marker_qp_o,
    .registers_o,
    .placed_o,
    .hbm_aw_valid_o,
    .hbm_aw_ready_i,
    .hbm_aw_o,
    .hbm_w_valid_o,
    .hbm_w_ready_i,
    .hbm_w_o,
    .hbm_b_valid_i,
    .hbm_b_response_i,
    .hbm_ar_valid_o,
    .hbm_ar_ready_i,
    .hbm_ar_o,
    .hbm_r_valid_i,
    .hbm_r_ready_o,
    .hbm_r_i,
    .host_aw_valid_o,
    .host_aw_ready_i,
    .host_aw_o,
    .host_w_valid_o,
    .host_w_ready_i,
    .host_w_o,
    .host_b_valid_i,
    .host_b_response_i,
    .host_ar_valid_o,
    .host_ar_ready_i,
    .host_ar_o,
    .host_r_valid_i,
    .host_r_ready_o,
    .host_r_i,
    .retransmission_aw_valid_o,
    .retransmission_aw_ready_i,
    .retransmission_aw_o,
    .retransmission_w_valid_o,
    .retransmission_w_ready_i,
    .retransmission_w_o,
    .retransmission_b_valid_i,
    .retransmission_b_response_i,
    .retransmission_ar_valid_o,
    .retransmission_ar_ready_i,
    .retransmission_ar_o,
    .retransmission_r_valid_i,
    .retransmission_r_ready_o,
    .retransmission_r_i,
    .engine_aw_valid_o,
    .engine_aw_ready_i,
    .engine_aw_o,
    .engine_w_valid_o,
    .engine_w_ready_i,
    .engine_w_o,
    .engine_b_valid_i,
    .engine_b_response_i,
    .engine_ar_valid_o,
    .engine_ar_ready_i,
    .engine_ar_o,
    .engine_r_valid_i,
    .engine_r_ready_o,
    .engine_r_i,
    .serve_valid_i,
    .serve_qp_i,
    .serve_i,
    .service_valid_o,
    .service_ready_i,
    .service_o,
    .served_valid_i,
    .served_ready_o,
    .served_i,
    .judged_valid_i,
    .judged_marked_i,
    .service_registers_o,
    .service_readings_i,
    .queue_registers_o,
    .queue_readings_i,
    .sniffer_valid_o,
    .sniffer_ready_i,
    .sniffer_o,
    .engine_status_o,
    .engine_answered_o,
    .engine_call_busy_o,
    .idle_o(card_idle),
    .armed_o,
    .earliest_valid_o,
    .earliest_o
  );

endmodule
