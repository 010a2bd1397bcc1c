// RoCE only, with the signals that a shell expects: the card without an engine, with its queues in the host's memory.
//
// AXI4-Stream to and from a MAC, AXI4-Lite for registers, AXI4 to memory and to a DMA bridge. The host posts work
// requests and receives completions through `work_queues`. Frames other than RoCE, ARP and echo requests are dropped,
// because there is no path to a host's network stack. `s_axis_rx` has no ready: the card accepts a beat in every
// cycle. `tuser` marks a frame that the MAC found bad. There are four AXI4 masters: `hbm` and `host` hold the
// regions; `retransmission` holds copies of data sent from host memory (docs/integration.md gives its size); `queues`
// accesses the queues in host memory.
//
// Write responses are accepted in every cycle. Every channel must answer in order, since all identifiers are 0.
module roce_top
  import weft_pkg::*;
  import engines_pkg::*;
  import services_pkg::*;
#(
  parameter int unsigned OnChipBytes      = 262_144,
  parameter int unsigned HostCreditBytes  = 32_768,
  parameter bit          AdditiveIncrease = 1'b0,
  // Services for the payload of SENDs and WRITEs that arrive, and whether the large ones are among them.
  parameter bit          Services         = 1'b0,
  parameter bit          Preprocess       = 1'b1,
  parameter bit          Inspect          = 1'b1
) (
  input logic clk,
  input logic rst_n,

  input  logic         s_axis_rx_tvalid,
  input  logic [511:0] s_axis_rx_tdata,
  input  logic [ 63:0] s_axis_rx_tkeep,
  input  logic         s_axis_rx_tlast,
  input  logic         s_axis_rx_tuser,
  output logic         m_axis_tx_tvalid,
  input  logic         m_axis_tx_tready,
  output logic [511:0] m_axis_tx_tdata,
  output logic [ 63:0] m_axis_tx_tkeep,
  output logic         m_axis_tx_tlast,

  input  logic        s_axil_awvalid,
  output logic        s_axil_awready,
  input  logic [11:0] s_axil_awaddr,
  input  logic [ 2:0] s_axil_awprot,
  input  logic        s_axil_wvalid,
  output logic        s_axil_wready,
  input  logic [31:0] s_axil_wdata,
  input  logic [ 3:0] s_axil_wstrb,
  output logic        s_axil_bvalid,
  input  logic        s_axil_bready,
  output logic [ 1:0] s_axil_bresp,
  input  logic        s_axil_arvalid,
  output logic        s_axil_arready,
  input  logic [11:0] s_axil_araddr,
  input  logic [ 2:0] s_axil_arprot,
  output logic        s_axil_rvalid,
  input  logic        s_axil_rready,
  output logic [31:0] s_axil_rdata,
  output logic [ 1:0] s_axil_rresp,

  output logic         m_axi_hbm_awvalid,
  input  logic         m_axi_hbm_awready,
  output logic [ 47:0] m_axi_hbm_awaddr,
  output logic [  7:0] m_axi_hbm_awlen,
  output logic [  2:0] m_axi_hbm_awsize,
  output logic [  1:0] m_axi_hbm_awburst,
  output logic         m_axi_hbm_awid,
  output logic         m_axi_hbm_awlock,
  output logic [  3:0] m_axi_hbm_awcache,
  output logic [  2:0] m_axi_hbm_awprot,
  output logic         m_axi_hbm_wvalid,
  input  logic         m_axi_hbm_wready,
  output logic [511:0] m_axi_hbm_wdata,
  output logic [ 63:0] m_axi_hbm_wstrb,
  output logic         m_axi_hbm_wlast,
  input  logic         m_axi_hbm_bvalid,
  output logic         m_axi_hbm_bready,
  input  logic         m_axi_hbm_bid,
  input  logic [  1:0] m_axi_hbm_bresp,
  output logic         m_axi_hbm_arvalid,
  input  logic         m_axi_hbm_arready,
  output logic [ 47:0] m_axi_hbm_araddr,
  output logic [  7:0] m_axi_hbm_arlen,
  output logic [  2:0] m_axi_hbm_arsize,
  output logic [  1:0] m_axi_hbm_arburst,
  output logic         m_axi_hbm_arid,
  output logic         m_axi_hbm_arlock,
  output logic [  3:0] m_axi_hbm_arcache,
  output logic [  2:0] m_axi_hbm_arprot,
  input  logic         m_axi_hbm_rvalid,
  output logic         m_axi_hbm_rready,
  input  logic         m_axi_hbm_rid,
  input  logic [511:0] m_axi_hbm_rdata,
  input  logic [  1:0] m_axi_hbm_rresp,
  input  logic         m_axi_hbm_rlast,

  output logic         m_axi_host_awvalid,
  input  logic         m_axi_host_awready,
  output logic [ 47:0] m_axi_host_awaddr,
  output logic [  7:0] m_axi_host_awlen,
  output logic [  2:0] m_axi_host_awsize,
  output logic [  1:0] m_axi_host_awburst,
  output logic         m_axi_host_awid,
  output logic         m_axi_host_awlock,
  output logic [  3:0] m_axi_host_awcache,
  output logic [  2:0] m_axi_host_awprot,
  output logic         m_axi_host_wvalid,
  input  logic         m_axi_host_wready,
  output logic [511:0] m_axi_host_wdata,
  output logic [ 63:0] m_axi_host_wstrb,
  output logic         m_axi_host_wlast,
  input  logic         m_axi_host_bvalid,
  output logic         m_axi_host_bready,
  input  logic         m_axi_host_bid,
  input  logic [  1:0] m_axi_host_bresp,
  output logic         m_axi_host_arvalid,
  input  logic         m_axi_host_arready,
  output logic [ 47:0] m_axi_host_araddr,
  output logic [  7:0] m_axi_host_arlen,
  output logic [  2:0] m_axi_host_arsize,
  output logic [  1:0] m_axi_host_arburst,
  output logic         m_axi_host_arid,
  output logic         m_axi_host_arlock,
  output logic [  3:0] m_axi_host_arcache,
  output logic [  2:0] m_axi_host_arprot,
  input  logic         m_axi_host_rvalid,
  output logic         m_axi_host_rready,
  input  logic         m_axi_host_rid,
  input  logic [511:0] m_axi_host_rdata,
  input  logic [  1:0] m_axi_host_rresp,
  input  logic         m_axi_host_rlast,

  output logic         m_axi_retransmission_awvalid,
  input  logic         m_axi_retransmission_awready,
  output logic [ 47:0] m_axi_retransmission_awaddr,
  output logic [  7:0] m_axi_retransmission_awlen,
  output logic [  2:0] m_axi_retransmission_awsize,
  output logic [  1:0] m_axi_retransmission_awburst,
  output logic         m_axi_retransmission_awid,
  output logic         m_axi_retransmission_awlock,
  output logic [  3:0] m_axi_retransmission_awcache,
  output logic [  2:0] m_axi_retransmission_awprot,
  output logic         m_axi_retransmission_wvalid,
  input  logic         m_axi_retransmission_wready,
  output logic [511:0] m_axi_retransmission_wdata,
  output logic [ 63:0] m_axi_retransmission_wstrb,
  output logic         m_axi_retransmission_wlast,
  input  logic         m_axi_retransmission_bvalid,
  output logic         m_axi_retransmission_bready,
  input  logic         m_axi_retransmission_bid,
  input  logic [  1:0] m_axi_retransmission_bresp,
  output logic         m_axi_retransmission_arvalid,
  input  logic         m_axi_retransmission_arready,
  output logic [ 47:0] m_axi_retransmission_araddr,
  output logic [  7:0] m_axi_retransmission_arlen,
  output logic [  2:0] m_axi_retransmission_arsize,
  output logic [  1:0] m_axi_retransmission_arburst,
  output logic         m_axi_retransmission_arid,
  output logic         m_axi_retransmission_arlock,
  output logic [  3:0] m_axi_retransmission_arcache,
  output logic [  2:0] m_axi_retransmission_arprot,
  input  logic         m_axi_retransmission_rvalid,
  output logic         m_axi_retransmission_rready,
  input  logic         m_axi_retransmission_rid,
  input  logic [511:0] m_axi_retransmission_rdata,
  input  logic [  1:0] m_axi_retransmission_rresp,
  input  logic         m_axi_retransmission_rlast,

  output logic         m_axi_queues_awvalid,
  input  logic         m_axi_queues_awready,
  output logic [ 47:0] m_axi_queues_awaddr,
  output logic [  7:0] m_axi_queues_awlen,
  output logic [  2:0] m_axi_queues_awsize,
  output logic [  1:0] m_axi_queues_awburst,
  output logic         m_axi_queues_awid,
  output logic         m_axi_queues_awlock,
  output logic [  3:0] m_axi_queues_awcache,
  output logic [  2:0] m_axi_queues_awprot,
  output logic         m_axi_queues_wvalid,
  input  logic         m_axi_queues_wready,
  output logic [511:0] m_axi_queues_wdata,
  output logic [ 63:0] m_axi_queues_wstrb,
  output logic         m_axi_queues_wlast,
  input  logic         m_axi_queues_bvalid,
  output logic         m_axi_queues_bready,
  input  logic         m_axi_queues_bid,
  input  logic [  1:0] m_axi_queues_bresp,
  output logic         m_axi_queues_arvalid,
  input  logic         m_axi_queues_arready,
  output logic [ 47:0] m_axi_queues_araddr,
  output logic [  7:0] m_axi_queues_arlen,
  output logic [  2:0] m_axi_queues_arsize,
  output logic [  1:0] m_axi_queues_arburst,
  output logic         m_axi_queues_arid,
  output logic         m_axi_queues_arlock,
  output logic [  3:0] m_axi_queues_arcache,
  output logic [  2:0] m_axi_queues_arprot,
  input  logic         m_axi_queues_rvalid,
  output logic         m_axi_queues_rready,
  input  logic         m_axi_queues_rid,
  input  logic [511:0] m_axi_queues_rdata,
  input  logic [  1:0] m_axi_queues_rresp,
  input  logic         m_axi_queues_rlast,

  // Interrupt, level-sensitive: the host's memory holds a completion that the host has not consumed.
  output logic irq
);

  localparam logic [2:0] BurstSize = 3'd6;
  localparam logic [1:0] BurstIncrementing = 2'd1;
  // Modifiable and bufferable, as AMD's interconnects require (AXI4, A4.4).
  localparam logic [3:0] CacheNormal = 4'b0011;
  localparam logic [2:0] ProtectionData = 3'b000;

  cycles_t now_q;

  always_ff @(posedge clk) begin
    if (!rst_n) now_q <= '0;
    else now_q <= now_q + 1'b1;
  end

  axi_address_t hbm_aw;
  axi_address_t hbm_ar;
  write_beat_t  hbm_w;

  assign m_axi_hbm_awaddr = hbm_aw.address;
  assign m_axi_hbm_awlen = hbm_aw.length;
  assign m_axi_hbm_awsize = BurstSize;
  assign m_axi_hbm_awburst = BurstIncrementing;
  assign m_axi_hbm_awid = 1'b0;
  assign m_axi_hbm_awlock = 1'b0;
  assign m_axi_hbm_awcache = CacheNormal;
  assign m_axi_hbm_awprot = ProtectionData;
  assign m_axi_hbm_wdata = hbm_w.data;
  assign m_axi_hbm_wstrb = hbm_w.strobe;
  assign m_axi_hbm_wlast = hbm_w.last;
  assign m_axi_hbm_bready = 1'b1;
  assign m_axi_hbm_araddr = hbm_ar.address;
  assign m_axi_hbm_arlen = hbm_ar.length;
  assign m_axi_hbm_arsize = BurstSize;
  assign m_axi_hbm_arburst = BurstIncrementing;
  assign m_axi_hbm_arid = 1'b0;
  assign m_axi_hbm_arlock = 1'b0;
  assign m_axi_hbm_arcache = CacheNormal;
  assign m_axi_hbm_arprot = ProtectionData;

  axi_address_t host_aw;
  axi_address_t host_ar;
  write_beat_t  host_w;

  assign m_axi_host_awaddr = host_aw.address;
  assign m_axi_host_awlen = host_aw.length;
  assign m_axi_host_awsize = BurstSize;
  assign m_axi_host_awburst = BurstIncrementing;
  assign m_axi_host_awid = 1'b0;
  assign m_axi_host_awlock = 1'b0;
  assign m_axi_host_awcache = CacheNormal;
  assign m_axi_host_awprot = ProtectionData;
  assign m_axi_host_wdata = host_w.data;
  assign m_axi_host_wstrb = host_w.strobe;
  assign m_axi_host_wlast = host_w.last;
  assign m_axi_host_bready = 1'b1;
  assign m_axi_host_araddr = host_ar.address;
  assign m_axi_host_arlen = host_ar.length;
  assign m_axi_host_arsize = BurstSize;
  assign m_axi_host_arburst = BurstIncrementing;
  assign m_axi_host_arid = 1'b0;
  assign m_axi_host_arlock = 1'b0;
  assign m_axi_host_arcache = CacheNormal;
  assign m_axi_host_arprot = ProtectionData;

  axi_address_t retransmission_aw;
  axi_address_t retransmission_ar;
  write_beat_t  retransmission_w;

  assign m_axi_retransmission_awaddr = retransmission_aw.address;
  assign m_axi_retransmission_awlen = retransmission_aw.length;
  assign m_axi_retransmission_awsize = BurstSize;
  assign m_axi_retransmission_awburst = BurstIncrementing;
  assign m_axi_retransmission_awid = 1'b0;
  assign m_axi_retransmission_awlock = 1'b0;
  assign m_axi_retransmission_awcache = CacheNormal;
  assign m_axi_retransmission_awprot = ProtectionData;
  assign m_axi_retransmission_wdata = retransmission_w.data;
  assign m_axi_retransmission_wstrb = retransmission_w.strobe;
  assign m_axi_retransmission_wlast = retransmission_w.last;
  assign m_axi_retransmission_bready = 1'b1;
  assign m_axi_retransmission_araddr = retransmission_ar.address;
  assign m_axi_retransmission_arlen = retransmission_ar.length;
  assign m_axi_retransmission_arsize = BurstSize;
  assign m_axi_retransmission_arburst = BurstIncrementing;
  assign m_axi_retransmission_arid = 1'b0;
  assign m_axi_retransmission_arlock = 1'b0;
  assign m_axi_retransmission_arcache = CacheNormal;
  assign m_axi_retransmission_arprot = ProtectionData;

  axi_address_t queues_aw;
  axi_address_t queues_ar;
  write_beat_t  queues_w;

  assign m_axi_queues_awaddr = queues_aw.address;
  assign m_axi_queues_awlen = queues_aw.length;
  assign m_axi_queues_awsize = BurstSize;
  assign m_axi_queues_awburst = BurstIncrementing;
  assign m_axi_queues_awid = 1'b0;
  assign m_axi_queues_awlock = 1'b0;
  assign m_axi_queues_awcache = CacheNormal;
  assign m_axi_queues_awprot = ProtectionData;
  assign m_axi_queues_wdata = queues_w.data;
  assign m_axi_queues_wstrb = queues_w.strobe;
  assign m_axi_queues_wlast = queues_w.last;
  assign m_axi_queues_bready = 1'b1;
  assign m_axi_queues_araddr = queues_ar.address;
  assign m_axi_queues_arlen = queues_ar.length;
  assign m_axi_queues_arsize = BurstSize;
  assign m_axi_queues_arburst = BurstIncrementing;
  assign m_axi_queues_arid = 1'b0;
  assign m_axi_queues_arlock = 1'b0;
  assign m_axi_queues_arcache = CacheNormal;
  assign m_axi_queues_arprot = ProtectionData;

  queue_registers_t   queue_registers;
  queue_readings_t    queue_readings;
  logic               post_valid;
  logic               post_ready;
  work_request_t      post;
  logic               receive_post_valid;
  logic               receive_post_ready;
  receive_request_t   receive_post;
  logic               completion_valid;
  logic               completion_ready;
  completion_t        completion;

  service_registers_t service_registers;
  service_readings_t  service_readings;
  logic               serve_valid;
  qp_index_t          serve_qp;
  logic               serve;
  logic               service_valid;
  logic               service_ready;
  service_beat_t      service;
  logic               served_valid;
  logic               served_ready;
  service_beat_t      served;
  logic               judged_valid;
  logic               judged_marked;

  weft_nic #(
    .OnChipBytes     (OnChipBytes),
    .HostCreditBytes (HostCreditBytes),
    .AdditiveIncrease(AdditiveIncrease),
    .Engine          (1'b0),
    .Services        (Services)
  ) u_weft_nic (
    .clk_i(clk),
    .rst_ni(rst_n),
    .now_i(now_q),
    .rx_valid_i(s_axis_rx_tvalid),
    .rx_data_i(s_axis_rx_tdata),
    .rx_keep_i(s_axis_rx_tkeep),
    .rx_last_i(s_axis_rx_tlast),
    .rx_error_i(s_axis_rx_tuser),
    .tx_valid_o(m_axis_tx_tvalid),
    .tx_ready_i(m_axis_tx_tready),
    .tx_data_o(m_axis_tx_tdata),
    .tx_keep_o(m_axis_tx_tkeep),
    .tx_last_o(m_axis_tx_tlast),
    .axil_awvalid_i(s_axil_awvalid),
    .axil_awready_o(s_axil_awready),
    .axil_awaddr_i(s_axil_awaddr),
    .axil_awprot_i(s_axil_awprot),
    .axil_wvalid_i(s_axil_wvalid),
    .axil_wready_o(s_axil_wready),
    .axil_wdata_i(s_axil_wdata),
    .axil_wstrb_i(s_axil_wstrb),
    .axil_bvalid_o(s_axil_bvalid),
    .axil_bready_i(s_axil_bready),
    .axil_bresp_o(s_axil_bresp),
    .axil_arvalid_i(s_axil_arvalid),
    .axil_arready_o(s_axil_arready),
    .axil_araddr_i(s_axil_araddr),
    .axil_arprot_i(s_axil_arprot),
    .axil_rvalid_o(s_axil_rvalid),
    .axil_rready_i(s_axil_rready),
    .axil_rdata_o(s_axil_rdata),
    .axil_rresp_o(s_axil_rresp),
    .host_rx_valid_o(),
    .host_rx_ready_i(1'b1),
    .host_rx_o(),
    .host_rx_bytes_o(),
    .host_rx_timestamp_o(),
    .host_tx_valid_i(1'b0),
    .host_tx_ready_o(),
    .host_tx_i('0),
    .datagram_received_valid_o(),
    .datagram_received_ready_i(1'b1),
    .datagram_received_o(),
    .payload_received_valid_o(),
    .payload_received_ready_i(1'b1),
    .payload_received_o(),
    .datagram_send_valid_i(1'b0),
    .datagram_send_ready_o(),
    .datagram_send_i('0),
    .payload_send_valid_i(1'b0),
    .payload_send_ready_o(),
    .payload_send_i('0),
    .stamp_valid_o(),
    .stamp_tag_o(),
    .stamp_o(),
    .post_valid_i(post_valid),
    .post_ready_o(post_ready),
    .post_i(post),
    .receive_post_valid_i(receive_post_valid),
    .receive_post_ready_o(receive_post_ready),
    .receive_post_i(receive_post),
    .completion_valid_o(completion_valid),
    .completion_ready_i(completion_ready),
    .completion_o(completion),
    .permission_valid_i(1'b0),
    .permission_ready_o(),
    .permission_qp_i('0),
    .permission_access_i('0),
    .region_permission_valid_i(1'b0),
    .region_permission_index_i('0),
    .region_permission_access_i('0),
    .marker_o(),
    .marker_qp_o(),
    .registers_o(),
    .placed_o(),
    .hbm_aw_valid_o(m_axi_hbm_awvalid),
    .hbm_aw_ready_i(m_axi_hbm_awready),
    .hbm_aw_o(hbm_aw),
    .hbm_w_valid_o(m_axi_hbm_wvalid),
    .hbm_w_ready_i(m_axi_hbm_wready),
    .hbm_w_o(hbm_w),
    .hbm_b_valid_i(m_axi_hbm_bvalid),
    .hbm_b_response_i(m_axi_hbm_bresp),
    .hbm_ar_valid_o(m_axi_hbm_arvalid),
    .hbm_ar_ready_i(m_axi_hbm_arready),
    .hbm_ar_o(hbm_ar),
    .hbm_r_valid_i(m_axi_hbm_rvalid),
    .hbm_r_ready_o(m_axi_hbm_rready),
    .hbm_r_i({m_axi_hbm_rlast, m_axi_hbm_rresp, m_axi_hbm_rdata}),
    .host_aw_valid_o(m_axi_host_awvalid),
    .host_aw_ready_i(m_axi_host_awready),
    .host_aw_o(host_aw),
    .host_w_valid_o(m_axi_host_wvalid),
    .host_w_ready_i(m_axi_host_wready),
    .host_w_o(host_w),
    .host_b_valid_i(m_axi_host_bvalid),
    .host_b_response_i(m_axi_host_bresp),
    .host_ar_valid_o(m_axi_host_arvalid),
    .host_ar_ready_i(m_axi_host_arready),
    .host_ar_o(host_ar),
    .host_r_valid_i(m_axi_host_rvalid),
    .host_r_ready_o(m_axi_host_rready),
    .host_r_i({m_axi_host_rlast, m_axi_host_rresp, m_axi_host_rdata}),
    .retransmission_aw_valid_o(m_axi_retransmission_awvalid),
    .retransmission_aw_ready_i(m_axi_retransmission_awready),
    .retransmission_aw_o(retransmission_aw),
    .retransmission_w_valid_o(m_axi_retransmission_wvalid),
    .retransmission_w_ready_i(m_axi_retransmission_wready),
    .retransmission_w_o(retransmission_w),
    .retransmission_b_valid_i(m_axi_retransmission_bvalid),
    .retransmission_b_response_i(m_axi_retransmission_bresp),
    .retransmission_ar_valid_o(m_axi_retransmission_arvalid),
    .retransmission_ar_ready_i(m_axi_retransmission_arready),
    .retransmission_ar_o(retransmission_ar),
    .retransmission_r_valid_i(m_axi_retransmission_rvalid),
    .retransmission_r_ready_o(m_axi_retransmission_rready),
    .retransmission_r_i({m_axi_retransmission_rlast, m_axi_retransmission_rresp, m_axi_retransmission_rdata}),
    .engine_aw_valid_o(),
    .engine_aw_ready_i(1'b1),
    .engine_aw_o(),
    .engine_w_valid_o(),
    .engine_w_ready_i(1'b1),
    .engine_w_o(),
    .engine_b_valid_i(1'b0),
    .engine_b_response_i('0),
    .engine_ar_valid_o(),
    .engine_ar_ready_i(1'b1),
    .engine_ar_o(),
    .engine_r_valid_i(1'b0),
    .engine_r_ready_o(),
    .engine_r_i('0),
    .serve_valid_i(serve_valid),
    .serve_qp_i(serve_qp),
    .serve_i(serve),
    .service_valid_o(service_valid),
    .service_ready_i(service_ready),
    .service_o(service),
    .served_valid_i(served_valid),
    .served_ready_o(served_ready),
    .served_i(served),
    .judged_valid_i(judged_valid),
    .judged_marked_i(judged_marked),
    .service_registers_o(service_registers),
    .service_readings_i(service_readings),
    .queue_registers_o(queue_registers),
    .queue_readings_i(queue_readings),
    .sniffer_valid_o(),
    .sniffer_ready_i(1'b1),
    .sniffer_o(),
    .engine_status_o(),
    .engine_answered_o(),
    .engine_call_busy_o(),
    .idle_o(),
    .armed_o(),
    .earliest_valid_o(),
    .earliest_o()
  );

  if (Services) begin : gen_services
    // A register stage in each direction, so that the services can be placed away from the transport.
    logic          queued_valid;
    logic          queued_ready;
    service_beat_t queued;
    logic          mapped_valid;
    logic          mapped_ready;
    service_beat_t mapped;

    fifo #(
      .T(service_beat_t),
      .Depth(2)
    ) u_to_services (
      .clk_i(clk),
      .rst_ni(rst_n),
      .in_valid_i(service_valid),
      .in_ready_o(service_ready),
      .in_i(service),
      .out_valid_o(queued_valid),
      .out_ready_i(queued_ready),
      .out_o(queued),
      .level_o()
    );

    service_port #(
      .Preprocess(Preprocess),
      .Inspect(Inspect)
    ) u_service_port (
      .clk_i(clk),
      .rst_ni(rst_n),
      .registers_i(service_registers),
      .readings_o(service_readings),
      .serve_valid_o(serve_valid),
      .serve_qp_o(serve_qp),
      .serve_o(serve),
      .service_valid_i(queued_valid),
      .service_ready_o(queued_ready),
      .service_i(queued),
      .served_valid_o(mapped_valid),
      .served_ready_i(mapped_ready),
      .served_o(mapped),
      .judged_valid_o(judged_valid),
      .judged_marked_o(judged_marked),
      .idle_o()
    );

    fifo #(
      .T(service_beat_t),
      .Depth(2)
    ) u_from_services (
      .clk_i(clk),
      .rst_ni(rst_n),
      .in_valid_i(mapped_valid),
      .in_ready_o(mapped_ready),
      .in_i(mapped),
      .out_valid_o(served_valid),
      .out_ready_i(served_ready),
      .out_o(served),
      .level_o()
    );
  end else begin : gen_no_services
    assign service_readings = '0;
    assign serve_valid = 1'b0;
    assign serve_qp = '0;
    assign serve = 1'b0;
    assign service_ready = 1'b1;
    assign served_valid = 1'b0;
    assign served = '0;
    assign judged_valid = 1'b0;
    assign judged_marked = 1'b0;
    wire unused = &{service_registers, service_valid, service, served_ready};
  end

  work_queues u_work_queues (
    .clk_i(clk),
    .rst_ni(rst_n),
    .registers_i(queue_registers),
    .readings_o(queue_readings),
    .interrupt_o(irq),
    .post_valid_o(post_valid),
    .post_ready_i(post_ready),
    .post_o(post),
    .receive_post_valid_o(receive_post_valid),
    .receive_post_ready_i(receive_post_ready),
    .receive_post_o(receive_post),
    .completion_valid_i(completion_valid),
    .completion_ready_o(completion_ready),
    .completion_i(completion),
    .aw_valid_o(m_axi_queues_awvalid),
    .aw_ready_i(m_axi_queues_awready),
    .aw_o(queues_aw),
    .w_valid_o(m_axi_queues_wvalid),
    .w_ready_i(m_axi_queues_wready),
    .w_o(queues_w),
    .b_valid_i(m_axi_queues_bvalid),
    .b_response_i(m_axi_queues_bresp),
    .ar_valid_o(m_axi_queues_arvalid),
    .ar_ready_i(m_axi_queues_arready),
    .ar_o(queues_ar),
    .r_valid_i(m_axi_queues_rvalid),
    .r_ready_o(m_axi_queues_rready),
    .r_i({m_axi_queues_rlast, m_axi_queues_rresp, m_axi_queues_rdata}),
    .idle_o()
  );

  // Every identifier is 0.
  wire unused_ids = &{
    m_axi_hbm_bid, m_axi_hbm_rid, m_axi_host_bid, m_axi_host_rid, m_axi_retransmission_bid,
    m_axi_retransmission_rid, m_axi_queues_bid, m_axi_queues_rid
  };

endmodule
