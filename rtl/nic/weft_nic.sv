// The network card: transport, ordinary networking, an engine, registers, counters and sniffer, between a MAC, a host
// and memory.
//
// Receive: MAC -> receive path; RoCE goes to the transport, other frames go to the frame services, which answer ARP
// and echo requests, give datagrams of open sockets to engines and all other frames to the host. Transmit: RoCE
// frames, replies, datagrams and frames of the host take turns. Receive never stalls; a frame that finds no room is
// dropped and counted.
module weft_nic
  import weft_pkg::*;
  import engines_pkg::*;
  import events_pkg::*;
  import services_pkg::*;
#(
  parameter int unsigned OnChipBytes      = 262_144,
  parameter int unsigned HostCreditBytes  = 32_768,
  parameter int unsigned RpcCredits       = 16,
  parameter bit          AdditiveIncrease = 1'b0,
  // Places for requests that arrived behind a gap, up to 64; 0: none is kept.
  parameter int unsigned ReorderPlaces    = 32,
  // 0: the card has RoCE and ordinary networking only, and a WRITE into an RPC region calls no engine.
  parameter bit          Engine           = 1'b1,
  // 1: the payload of requests can go through services, which are outside of the card.
  parameter bit          Services         = 1'b0,
  // Enables the engine's planted bugs, for tests of checkers only.
  parameter bit          PlantedBugs      = 1'b0
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

  localparam int unsigned Counters = $bits(nic_events_t);
  localparam int unsigned QueryWords = 16;

  mac_address_t          hardware;
  ipv4_address_t         address;
  logic                  rate_control;
  logic                  read_parts;
  logic            [6:0] reorder_packets;
  cycles_t               age_limit;
  sniffer_config_t       sniffer_config;
  nic_events_t           events;

  // Receive.

  logic                  header_valid;
  logic                  header_ready;
  roce_header_t          header;
  logic                  receive_valid;
  logic                  receive_ready;
  beat_t                 receive;
  logic                  other_valid;
  logic                  other_ready;
  beat_t                 other;
  other_frame_t          other_info;
  logic                  receive_path_idle;

  receive_path u_receive_path (
    .clk_i,
    .rst_ni,
    .now_i,
    .hardware_i    (hardware),
    .address_i     (address),
    .rx_valid_i,
    .rx_data_i,
    .rx_keep_i,
    .rx_last_i,
    .rx_error_i,
    .header_valid_o(header_valid),
    .header_ready_i(header_ready),
    .header_o      (header),
    .frame_valid_o (receive_valid),
    .frame_ready_i (receive_ready),
    .frame_o       (receive),
    .other_valid_o (other_valid),
    .other_ready_i (other_ready),
    .other_o       (other),
    .other_info_o  (other_info),
    .events_o      (events.receive_path),
    .idle_o        (receive_path_idle)
  );

  // Registers.

  logic                                     table_write_valid;
  logic                                     table_write_ready;
  queue_pair_t                              table_write;
  logic                                     region_write_valid;
  logic                                     region_write_ready;
  region_index_t                            region_write_index;
  region_t                                  region_write;
  logic                                     control_valid;
  logic                                     control_ready;
  control_t                                 control;
  logic                                     control_done;
  logic                                     neighbour_valid;
  logic                                     neighbour_ready;
  ipv4_address_t                            neighbour_address;
  mac_address_t                             neighbour_mac;
  logic                                     socket_valid;
  logic                                     socket_ready;
  socket_entry_t                            socket;
  logic                                     socket_done;
  logic                                     socket_refused;
  logic                                     query_valid;
  logic                                     query_ready;
  qp_index_t                                query_qp;
  logic                                     query_done;
  responder_query_t                         responder_query;
  requester_query_t                         requester_query;
  logic              [   32*QueryWords-1:0] query_state;
  logic                                     counter_valid;
  logic                                     counter_ready;
  logic              [$clog2(Counters)-1:0] counter_index;
  logic                                     counter_done;
  logic              [                63:0] counter_value;
  engine_registers_t                        engine_registers;
  engine_readings_t                         engine_readings;

  // The responder's state begins at word 0, the requester's at word 8.
  assign query_state = {(16 * QueryWords)'(requester_query), (16 * QueryWords)'(responder_query)};

  register_block #(
    .QueryWords(QueryWords),
    .Counters  (Counters)
  ) u_register_block (
    .clk_i,
    .rst_ni,
    .now_i,
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
    .hardware_o          (hardware),
    .address_o           (address),
    .rate_control_o      (rate_control),
    .read_parts_o        (read_parts),
    .reorder_packets_o   (reorder_packets),
    .age_limit_o         (age_limit),
    .sniffer_o           (sniffer_config),
    .table_write_valid_o (table_write_valid),
    .table_write_ready_i (table_write_ready),
    .table_write_o       (table_write),
    .region_write_valid_o(region_write_valid),
    .region_write_ready_i(region_write_ready),
    .region_write_index_o(region_write_index),
    .region_write_o      (region_write),
    .control_valid_o     (control_valid),
    .control_ready_i     (control_ready),
    .control_o           (control),
    .control_done_i      (control_done),
    .neighbour_valid_o   (neighbour_valid),
    .neighbour_ready_i   (neighbour_ready),
    .neighbour_address_o (neighbour_address),
    .neighbour_mac_o     (neighbour_mac),
    .socket_valid_o      (socket_valid),
    .socket_ready_i      (socket_ready),
    .socket_o            (socket),
    .socket_done_i       (socket_done),
    .socket_refused_i    (socket_refused),
    .query_valid_o       (query_valid),
    .query_ready_i       (query_ready),
    .query_qp_o          (query_qp),
    .query_done_i        (query_done),
    .query_state_i       (query_state),
    .counter_valid_o     (counter_valid),
    .counter_ready_i     (counter_ready),
    .counter_index_o     (counter_index),
    .counter_done_i      (counter_done),
    .counter_value_i     (counter_value),
    .engine_o            (engine_registers),
    .engine_i            (engine_readings),
    .queues_o            (queue_registers_o),
    .queues_i            (queue_readings_i),
    .services_o          (service_registers_o),
    .services_i          (service_readings_i),
    .idle_i              (idle_o)
  );

  counters #(
    .N(Counters)
  ) u_counters (
    .clk_i,
    .rst_ni,
    .events_i     (events),
    .read_valid_i (counter_valid),
    .read_ready_o (counter_ready),
    .read_index_i (counter_index),
    .value_valid_o(counter_done),
    .value_o      (counter_value)
  );

  // Transport.

  logic           snoop_valid;
  logic           snoop_ready;
  rpc_beat_t      snoop;
  logic           call_valid;
  logic           call_ready;
  rpc_call_t      call;
  logic           call_done;
  logic           reply_write_valid;
  logic           reply_write_ready;
  write_command_t reply_write;
  logic           reply_write_data_valid;
  logic           reply_write_data_ready;
  write_beat_t    reply_write_data;
  logic           reply_written;
  logic           engine_post_valid;
  logic           engine_post_ready;
  logic           engine_post_refused;
  work_request_t  engine_post;
  logic           engine_completion_valid;
  logic           engine_completion_ready;
  completion_t    engine_completion;
  logic           roce_valid;
  logic           roce_ready;
  beat_t          roce;
  logic           transport_idle;
  logic           transport_armed;
  logic           transport_earliest_valid;
  cycles_t        transport_earliest;

  transport #(
    .OnChipBytes     (OnChipBytes),
    .HostCreditBytes (HostCreditBytes),
    .RpcCredits      (RpcCredits),
    .AdditiveIncrease(AdditiveIncrease),
    .ReorderPlaces   (ReorderPlaces),
    .Services        (Services)
  ) u_transport (
    .clk_i,
    .rst_ni,
    .now_i,
    .hardware_i               (hardware),
    .address_i                (address),
    .rate_control_i           (rate_control),
    .read_parts_i             (read_parts),
    .reorder_packets_i        (reorder_packets),
    .header_valid_i           (header_valid),
    .header_ready_o           (header_ready),
    .header_i                 (header),
    .receive_valid_i          (receive_valid),
    .receive_ready_o          (receive_ready),
    .receive_i                (receive),
    .frame_valid_o            (roce_valid),
    .frame_ready_i            (roce_ready),
    .frame_o                  (roce),
    .table_write_valid_i      (table_write_valid),
    .table_write_ready_o      (table_write_ready),
    .table_write_i            (table_write),
    .region_write_valid_i     (region_write_valid),
    .region_write_ready_o     (region_write_ready),
    .region_write_index_i     (region_write_index),
    .region_write_i           (region_write),
    .control_valid_i          (control_valid),
    .control_ready_o          (control_ready),
    .control_i                (control),
    .control_done_o           (control_done),
    .query_valid_i            (query_valid),
    .query_ready_o            (query_ready),
    .query_qp_i               (query_qp),
    .query_done_o             (query_done),
    .responder_query_o        (responder_query),
    .requester_query_o        (requester_query),
    .post_valid_i,
    .post_ready_o,
    .post_i,
    .receive_post_valid_i,
    .receive_post_ready_o,
    .receive_post_i,
    .completion_valid_o,
    .completion_ready_i,
    .completion_o,
    .engine_post_valid_i      (engine_post_valid),
    .engine_post_ready_o      (engine_post_ready),
    .engine_post_i            (engine_post),
    .engine_post_refused_o    (engine_post_refused),
    .engine_completion_valid_o(engine_completion_valid),
    .engine_completion_ready_i(engine_completion_ready),
    .engine_completion_o      (engine_completion),
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
    .snoop_valid_o            (snoop_valid),
    .snoop_ready_i            (snoop_ready),
    .snoop_o                  (snoop),
    .call_valid_o             (call_valid),
    .call_ready_i             (call_ready),
    .call_o                   (call),
    .call_done_i              (call_done),
    .engine_write_valid_i     (reply_write_valid),
    .engine_write_ready_o     (reply_write_ready),
    .engine_write_i           (reply_write),
    .engine_write_data_valid_i(reply_write_data_valid),
    .engine_write_data_ready_o(reply_write_data_ready),
    .engine_write_data_i      (reply_write_data),
    .engine_written_o         (reply_written),
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
    .armed_o                  (transport_armed),
    .earliest_valid_o         (transport_earliest_valid),
    .earliest_o               (transport_earliest),
    .responder_events_o       (events.responder),
    .responses_events_o       (events.responses),
    .request_side_events_o    (events.request_side),
    .placement_events_o       (events.placement),
    .memory_events_o          (events.memory),
    .transmit_path_events_o   (events.transmit_path),
    .idle_o                   (transport_idle)
  );

  // The engine. It receives its datagrams directly from the MAC, beside the receive path, so the receive path's
  // copies of them must not go to the host. Calls over queue pairs come from the transport, and their answers go back
  // to it.

  logic          engine_frame_valid;
  logic          engine_frame_ready;
  beat_t         engine_frame;
  logic          engine_lookup_valid;
  logic          engine_lookup_ready;
  ipv4_address_t engine_lookup;
  logic          engine_result_valid;
  logic          engine_result_ready;
  logic          engine_result_hit;
  mac_address_t  engine_result_mac;
  logic          engine_armed;
  logic          engine_earliest_valid;
  cycles_t       engine_earliest;
  logic          engine_idle;
  logic          for_engine;
  logic          services_ready;

  if (Engine) begin : g_engine
    engines #(
      .PlantedBugs(PlantedBugs)
    ) u_engines (
      .clk_i,
      .rst_ni,
      .now_i,
      .hardware_i         (hardware),
      .address_i          (address),
      .registers_i        (engine_registers),
      .readings_o         (engine_readings),
      .rx_valid_i,
      .rx_data_i,
      .rx_keep_i,
      .rx_last_i,
      .rx_error_i,
      .frame_valid_o      (engine_frame_valid),
      .frame_ready_i      (engine_frame_ready),
      .frame_o            (engine_frame),
      .lookup_valid_o     (engine_lookup_valid),
      .lookup_ready_i     (engine_lookup_ready),
      .lookup_o           (engine_lookup),
      .result_valid_i     (engine_result_valid),
      .result_ready_o     (engine_result_ready),
      .result_hit_i       (engine_result_hit),
      .result_mac_i       (engine_result_mac),
      .snoop_valid_i      (snoop_valid),
      .snoop_ready_o      (snoop_ready),
      .snoop_i            (snoop),
      .rpc_valid_i        (call_valid),
      .rpc_ready_o        (call_ready),
      .rpc_i              (call),
      .rpc_done_o         (call_done),
      .write_valid_o      (reply_write_valid),
      .write_ready_i      (reply_write_ready),
      .write_o            (reply_write),
      .write_data_valid_o (reply_write_data_valid),
      .write_data_ready_i (reply_write_data_ready),
      .write_data_o       (reply_write_data),
      .written_i          (reply_written),
      .post_valid_o       (engine_post_valid),
      .post_ready_i       (engine_post_ready),
      .post_refused_i     (engine_post_refused),
      .post_o             (engine_post),
      .completion_valid_i (engine_completion_valid),
      .completion_ready_o (engine_completion_ready),
      .completion_i       (engine_completion),
      .forget_valid_i     (control_valid && control_ready && control.operation == ControlReset),
      .forget_qp_i        (control.qp),
      .memory_aw_valid_o  (engine_aw_valid_o),
      .memory_aw_ready_i  (engine_aw_ready_i),
      .memory_aw_o        (engine_aw_o),
      .memory_w_valid_o   (engine_w_valid_o),
      .memory_w_ready_i   (engine_w_ready_i),
      .memory_w_o         (engine_w_o),
      .memory_b_valid_i   (engine_b_valid_i),
      .memory_b_response_i(engine_b_response_i),
      .memory_ar_valid_o  (engine_ar_valid_o),
      .memory_ar_ready_i  (engine_ar_ready_i),
      .memory_ar_o        (engine_ar_o),
      .memory_r_valid_i   (engine_r_valid_i),
      .memory_r_ready_o   (engine_r_ready_o),
      .memory_r_i         (engine_r_i),
      .armed_o            (engine_armed),
      .earliest_valid_o   (engine_earliest_valid),
      .earliest_o         (engine_earliest),
      .receive_events_o   (events.datagram_receive),
      .calls_events_o     (events.queue_pair_calls),
      .replies_events_o   (events.queue_pair_replies),
      .slot_events_o      (events.engine_slot),
      .transmit_events_o  (events.message_transmit),
      .kv_events_o        (events.kv),
      .idle_o             (engine_idle)
    );
  end else begin : g_no_engine
    // Without an engine, calls are accepted and reported done one cycle later, as the port requires.
    logic call_done_q;

    always_ff @(posedge clk_i) begin
      if (!rst_ni) call_done_q <= 1'b0;
      else call_done_q <= call_valid && call_ready;
    end

    assign call_done = call_done_q;
    assign call_ready = 1'b1;
    assign snoop_ready = 1'b1;
    assign engine_readings = '0;
    assign {engine_frame_valid, engine_frame} = '0;
    assign {engine_lookup_valid, engine_lookup, engine_result_ready} = '0;
    assign {reply_write_valid, reply_write, reply_write_data_valid, reply_write_data} = '0;
    assign {engine_post_valid, engine_post} = '0;
    assign engine_completion_ready = 1'b1;
    assign {engine_aw_valid_o, engine_aw_o, engine_w_valid_o, engine_w_o} = '0;
    assign {engine_ar_valid_o, engine_ar_o, engine_r_ready_o} = '0;
    assign {engine_armed, engine_earliest_valid, engine_earliest} = '0;
    assign events.datagram_receive = '0;
    assign events.queue_pair_calls = '0;
    assign events.queue_pair_replies = '0;
    assign events.engine_slot = '0;
    assign events.message_transmit = '0;
    assign events.kv = '0;
    assign engine_idle = 1'b1;

    wire unused_from_card = &{
      engine_registers, snoop_valid, snoop, call, reply_write_ready, reply_write_data_ready, reply_written,
      engine_post_ready, engine_post_refused, engine_completion_valid, engine_completion, engine_frame_ready,
      engine_lookup_ready, engine_result_valid, engine_result_hit, engine_result_mac, engine_aw_ready_i,
      engine_w_ready_i, engine_b_valid_i, engine_b_response_i, engine_ar_ready_i, engine_r_valid_i, engine_r_i
    };
  end

  assign engine_status_o = engine_readings.status;
  assign engine_answered_o = engine_readings.answered;
  assign engine_call_busy_o = engine_readings.call_busy;

  // Timers: the earlier of the transport's and the engine's.
  assign armed_o = transport_armed || engine_armed;
  assign earliest_valid_o = armed_o && (!transport_armed || transport_earliest_valid)
      && (!engine_armed || engine_earliest_valid);
  assign earliest_o = engine_armed && (!transport_armed || engine_earliest < transport_earliest) ?
      engine_earliest : transport_earliest;

  assign for_engine = Engine && engine_registers.enable && other_info.kind == OtherDatagram
      && other_info.destination_port == DatagramPort;
  assign other_ready = for_engine || services_ready;

  // Ordinary networking.

  logic        answer_valid;
  logic        answer_ready;
  beat_t       answer;
  logic        datagram_valid;
  logic        datagram_ready;
  beat_t       datagram;
  logic        datagram_stamp;
  logic  [7:0] datagram_tag;
  logic        host_valid;
  logic        host_ready;
  beat_t       host;
  logic        services_idle;

  frame_services u_frame_services (
    .clk_i,
    .rst_ni,
    .now_i,
    .hardware_i           (hardware),
    .address_i            (address),
    .age_limit_i          (age_limit),
    .other_valid_i        (other_valid && !for_engine),
    .other_ready_o        (services_ready),
    .other_i              (other),
    .other_class_i        (other_info.kind),
    .other_timestamp_i    (other_info.timestamp),
    .to_host_valid_o      (host_rx_valid_o),
    .to_host_ready_i      (host_rx_ready_i),
    .to_host_o            (host_rx_o),
    .to_host_bytes_o      (host_rx_bytes_o),
    .to_host_timestamp_o  (host_rx_timestamp_o),
    .from_host_valid_i    (host_tx_valid_i),
    .from_host_ready_o    (host_tx_ready_o),
    .from_host_i          (host_tx_i),
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
    .engine_lookup_valid_i(engine_lookup_valid),
    .engine_lookup_ready_o(engine_lookup_ready),
    .engine_lookup_i      (engine_lookup),
    .engine_result_valid_o(engine_result_valid),
    .engine_result_ready_i(engine_result_ready),
    .engine_result_hit_o  (engine_result_hit),
    .engine_result_mac_o  (engine_result_mac),
    .neighbour_valid_i    (neighbour_valid),
    .neighbour_ready_o    (neighbour_ready),
    .neighbour_address_i  (neighbour_address),
    .neighbour_mac_i      (neighbour_mac),
    .socket_valid_i       (socket_valid),
    .socket_ready_o       (socket_ready),
    .socket_i             (socket),
    .socket_done_o        (socket_done),
    .socket_refused_o     (socket_refused),
    .control_valid_o      (answer_valid),
    .control_ready_i      (answer_ready),
    .control_o            (answer),
    .datagram_valid_o     (datagram_valid),
    .datagram_ready_i     (datagram_ready),
    .datagram_o           (datagram),
    .datagram_stamp_o     (datagram_stamp),
    .datagram_tag_o       (datagram_tag),
    .host_valid_o         (host_valid),
    .host_ready_i         (host_ready),
    .host_o               (host),
    .arp_events_o         (events.arp),
    .echo_events_o        (events.icmp_echo),
    .socket_events_o      (events.udp_sockets),
    .datagram_events_o    (events.datagram_transmit),
    .host_events_o        (events.host_frames),
    .idle_o               (services_idle)
  );

  // Transmit.

  logic merge_idle;

  transmit_merge u_transmit_merge (
    .clk_i,
    .rst_ni,
    .now_i,
    .roce_valid_i    (roce_valid),
    .roce_ready_o    (roce_ready),
    .roce_i          (roce),
    .control_valid_i (answer_valid),
    .control_ready_o (answer_ready),
    .control_i       (answer),
    .datagram_valid_i(datagram_valid),
    .datagram_ready_o(datagram_ready),
    .datagram_i      (datagram),
    .datagram_stamp_i(datagram_stamp),
    .datagram_tag_i  (datagram_tag),
    .engine_valid_i  (engine_frame_valid),
    .engine_ready_o  (engine_frame_ready),
    .engine_i        (engine_frame),
    .host_valid_i    (host_valid),
    .host_ready_o    (host_ready),
    .host_i          (host),
    .mac_valid_o     (tx_valid_o),
    .mac_ready_i     (tx_ready_i),
    .mac_data_o      (tx_data_o),
    .mac_keep_o      (tx_keep_o),
    .mac_last_o      (tx_last_o),
    .stamp_valid_o,
    .stamp_tag_o,
    .stamp_o,
    .events_o        (events.transmit_merge),
    .idle_o          (merge_idle)
  );

  // Sniffer, at the MAC's signals.

  logic sniffer_idle;

  sniffer u_sniffer (
    .clk_i,
    .rst_ni,
    .now_i,
    .config_i        (sniffer_config),
    .receive_valid_i (rx_valid_i),
    .receive_i       ({rx_last_i, unused_bytes(rx_keep_i), rx_data_i}),
    .transmit_valid_i(tx_valid_o && tx_ready_i),
    .transmit_i      ({tx_last_o, unused_bytes(tx_keep_o), tx_data_o}),
    .out_valid_o     (sniffer_valid_o),
    .out_ready_i     (sniffer_ready_i),
    .out_o           (sniffer_o),
    .events_o        (events.sniffer),
    .idle_o          (sniffer_idle)
  );

  assign idle_o = receive_path_idle && transport_idle && services_idle && merge_idle && sniffer_idle && engine_idle;

endmodule
