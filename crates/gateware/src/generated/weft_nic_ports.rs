/// What is driven before a rising edge: the inputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs {
    /// Port `rx_valid_i`.
    pub rx_valid_i: u8,
    /// Port `rx_last_i`.
    pub rx_last_i: u8,
    /// Port `rx_error_i`.
    pub rx_error_i: u8,
    /// Port `tx_ready_i`.
    pub tx_ready_i: u8,
    /// Port `axil_awvalid_i`.
    pub axil_awvalid_i: u8,
    /// Port `axil_awprot_i`.
    pub axil_awprot_i: u8,
    /// Port `axil_wvalid_i`.
    pub axil_wvalid_i: u8,
    /// Port `axil_wstrb_i`.
    pub axil_wstrb_i: u8,
    /// Port `axil_bready_i`.
    pub axil_bready_i: u8,
    /// Port `axil_arvalid_i`.
    pub axil_arvalid_i: u8,
    /// Port `axil_arprot_i`.
    pub axil_arprot_i: u8,
    /// Port `axil_rready_i`.
    pub axil_rready_i: u8,
    /// Port `host_rx_ready_i`.
    pub host_rx_ready_i: u8,
    /// Port `host_tx_valid_i`.
    pub host_tx_valid_i: u8,
    /// Port `datagram_received_ready_i`.
    pub datagram_received_ready_i: u8,
    /// Port `payload_received_ready_i`.
    pub payload_received_ready_i: u8,
    /// Port `datagram_send_valid_i`.
    pub datagram_send_valid_i: u8,
    /// Port `payload_send_valid_i`.
    pub payload_send_valid_i: u8,
    /// Port `post_valid_i`.
    pub post_valid_i: u8,
    /// Port `receive_post_valid_i`.
    pub receive_post_valid_i: u8,
    /// Port `completion_ready_i`.
    pub completion_ready_i: u8,
    /// Port `permission_valid_i`.
    pub permission_valid_i: u8,
    /// Port `permission_access_i`.
    pub permission_access_i: u8,
    /// Port `region_permission_valid_i`.
    pub region_permission_valid_i: u8,
    /// Port `region_permission_access_i`.
    pub region_permission_access_i: u8,
    /// Port `hbm_aw_ready_i`.
    pub hbm_aw_ready_i: u8,
    /// Port `hbm_w_ready_i`.
    pub hbm_w_ready_i: u8,
    /// Port `hbm_b_valid_i`.
    pub hbm_b_valid_i: u8,
    /// Port `hbm_b_response_i`.
    pub hbm_b_response_i: u8,
    /// Port `hbm_ar_ready_i`.
    pub hbm_ar_ready_i: u8,
    /// Port `hbm_r_valid_i`.
    pub hbm_r_valid_i: u8,
    /// Port `host_aw_ready_i`.
    pub host_aw_ready_i: u8,
    /// Port `host_w_ready_i`.
    pub host_w_ready_i: u8,
    /// Port `host_b_valid_i`.
    pub host_b_valid_i: u8,
    /// Port `host_b_response_i`.
    pub host_b_response_i: u8,
    /// Port `host_ar_ready_i`.
    pub host_ar_ready_i: u8,
    /// Port `host_r_valid_i`.
    pub host_r_valid_i: u8,
    /// Port `retransmission_aw_ready_i`.
    pub retransmission_aw_ready_i: u8,
    /// Port `retransmission_w_ready_i`.
    pub retransmission_w_ready_i: u8,
    /// Port `retransmission_b_valid_i`.
    pub retransmission_b_valid_i: u8,
    /// Port `retransmission_b_response_i`.
    pub retransmission_b_response_i: u8,
    /// Port `retransmission_ar_ready_i`.
    pub retransmission_ar_ready_i: u8,
    /// Port `retransmission_r_valid_i`.
    pub retransmission_r_valid_i: u8,
    /// Port `engine_aw_ready_i`.
    pub engine_aw_ready_i: u8,
    /// Port `engine_w_ready_i`.
    pub engine_w_ready_i: u8,
    /// Port `engine_b_valid_i`.
    pub engine_b_valid_i: u8,
    /// Port `engine_b_response_i`.
    pub engine_b_response_i: u8,
    /// Port `engine_ar_ready_i`.
    pub engine_ar_ready_i: u8,
    /// Port `engine_r_valid_i`.
    pub engine_r_valid_i: u8,
    /// Port `serve_valid_i`.
    pub serve_valid_i: u8,
    /// Port `serve_i`.
    pub serve_i: u8,
    /// Port `service_ready_i`.
    pub service_ready_i: u8,
    /// Port `served_valid_i`.
    pub served_valid_i: u8,
    /// Port `judged_valid_i`.
    pub judged_valid_i: u8,
    /// Port `judged_marked_i`.
    pub judged_marked_i: u8,
    /// Port `sniffer_ready_i`.
    pub sniffer_ready_i: u8,
    /// Port `axil_awaddr_i`.
    pub axil_awaddr_i: u16,
    /// Port `axil_araddr_i`.
    pub axil_araddr_i: u16,
    /// Port `permission_qp_i`.
    pub permission_qp_i: u16,
    /// Port `region_permission_index_i`.
    pub region_permission_index_i: u16,
    /// Port `serve_qp_i`.
    pub serve_qp_i: u16,
    /// Port `rx_data_i`.
    pub rx_data_i: [u32; 16],
    /// Port `axil_wdata_i`.
    pub axil_wdata_i: u32,
    /// Port `now_i`.
    pub now_i: u64,
    /// Port `rx_keep_i`.
    pub rx_keep_i: u64,
    /// Port `host_tx_i`.
    pub host_tx_i: [u32; 17],
    /// Port `datagram_send_i`.
    pub datagram_send_i: [u32; 3],
    /// Port `payload_send_i`.
    pub payload_send_i: [u32; 17],
    /// Port `post_i`.
    pub post_i: [u32; 15],
    /// Port `receive_post_i`.
    pub receive_post_i: [u32; 7],
    /// Port `hbm_r_i`.
    pub hbm_r_i: [u32; 17],
    /// Port `host_r_i`.
    pub host_r_i: [u32; 17],
    /// Port `retransmission_r_i`.
    pub retransmission_r_i: [u32; 17],
    /// Port `engine_r_i`.
    pub engine_r_i: [u32; 17],
    /// Port `served_i`.
    pub served_i: [u32; 21],
    /// Port `service_readings_i`.
    pub service_readings_i: [u32; 3],
    /// Port `queue_readings_i`.
    pub queue_readings_i: u64,
}

/// What is sampled before a rising edge: the outputs of the top level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs {
    /// Port `tx_valid_o`.
    pub tx_valid_o: u8,
    /// Port `tx_last_o`.
    pub tx_last_o: u8,
    /// Port `axil_awready_o`.
    pub axil_awready_o: u8,
    /// Port `axil_wready_o`.
    pub axil_wready_o: u8,
    /// Port `axil_bvalid_o`.
    pub axil_bvalid_o: u8,
    /// Port `axil_bresp_o`.
    pub axil_bresp_o: u8,
    /// Port `axil_arready_o`.
    pub axil_arready_o: u8,
    /// Port `axil_rvalid_o`.
    pub axil_rvalid_o: u8,
    /// Port `axil_rresp_o`.
    pub axil_rresp_o: u8,
    /// Port `host_rx_valid_o`.
    pub host_rx_valid_o: u8,
    /// Port `host_tx_ready_o`.
    pub host_tx_ready_o: u8,
    /// Port `datagram_received_valid_o`.
    pub datagram_received_valid_o: u8,
    /// Port `payload_received_valid_o`.
    pub payload_received_valid_o: u8,
    /// Port `datagram_send_ready_o`.
    pub datagram_send_ready_o: u8,
    /// Port `payload_send_ready_o`.
    pub payload_send_ready_o: u8,
    /// Port `stamp_valid_o`.
    pub stamp_valid_o: u8,
    /// Port `stamp_tag_o`.
    pub stamp_tag_o: u8,
    /// Port `post_ready_o`.
    pub post_ready_o: u8,
    /// Port `receive_post_ready_o`.
    pub receive_post_ready_o: u8,
    /// Port `completion_valid_o`.
    pub completion_valid_o: u8,
    /// Port `permission_ready_o`.
    pub permission_ready_o: u8,
    /// Port `marker_o`.
    pub marker_o: u8,
    /// Port `placed_o`.
    pub placed_o: u8,
    /// Port `hbm_aw_valid_o`.
    pub hbm_aw_valid_o: u8,
    /// Port `hbm_w_valid_o`.
    pub hbm_w_valid_o: u8,
    /// Port `hbm_ar_valid_o`.
    pub hbm_ar_valid_o: u8,
    /// Port `hbm_r_ready_o`.
    pub hbm_r_ready_o: u8,
    /// Port `host_aw_valid_o`.
    pub host_aw_valid_o: u8,
    /// Port `host_w_valid_o`.
    pub host_w_valid_o: u8,
    /// Port `host_ar_valid_o`.
    pub host_ar_valid_o: u8,
    /// Port `host_r_ready_o`.
    pub host_r_ready_o: u8,
    /// Port `retransmission_aw_valid_o`.
    pub retransmission_aw_valid_o: u8,
    /// Port `retransmission_w_valid_o`.
    pub retransmission_w_valid_o: u8,
    /// Port `retransmission_ar_valid_o`.
    pub retransmission_ar_valid_o: u8,
    /// Port `retransmission_r_ready_o`.
    pub retransmission_r_ready_o: u8,
    /// Port `engine_aw_valid_o`.
    pub engine_aw_valid_o: u8,
    /// Port `engine_w_valid_o`.
    pub engine_w_valid_o: u8,
    /// Port `engine_ar_valid_o`.
    pub engine_ar_valid_o: u8,
    /// Port `engine_r_ready_o`.
    pub engine_r_ready_o: u8,
    /// Port `service_valid_o`.
    pub service_valid_o: u8,
    /// Port `served_ready_o`.
    pub served_ready_o: u8,
    /// Port `sniffer_valid_o`.
    pub sniffer_valid_o: u8,
    /// Port `engine_answered_o`.
    pub engine_answered_o: u8,
    /// Port `engine_call_busy_o`.
    pub engine_call_busy_o: u8,
    /// Port `idle_o`.
    pub idle_o: u8,
    /// Port `armed_o`.
    pub armed_o: u8,
    /// Port `earliest_valid_o`.
    pub earliest_valid_o: u8,
    /// Port `host_rx_bytes_o`.
    pub host_rx_bytes_o: u16,
    /// Port `marker_qp_o`.
    pub marker_qp_o: u16,
    /// Port `tx_data_o`.
    pub tx_data_o: [u32; 16],
    /// Port `axil_rdata_o`.
    pub axil_rdata_o: u32,
    /// Port `tx_keep_o`.
    pub tx_keep_o: u64,
    /// Port `host_rx_o`.
    pub host_rx_o: [u32; 17],
    /// Port `host_rx_timestamp_o`.
    pub host_rx_timestamp_o: u64,
    /// Port `datagram_received_o`.
    pub datagram_received_o: [u32; 5],
    /// Port `payload_received_o`.
    pub payload_received_o: [u32; 17],
    /// Port `stamp_o`.
    pub stamp_o: u64,
    /// Port `completion_o`.
    pub completion_o: [u32; 5],
    /// Port `hbm_aw_o`.
    pub hbm_aw_o: u64,
    /// Port `hbm_w_o`.
    pub hbm_w_o: [u32; 19],
    /// Port `hbm_ar_o`.
    pub hbm_ar_o: u64,
    /// Port `host_aw_o`.
    pub host_aw_o: u64,
    /// Port `host_w_o`.
    pub host_w_o: [u32; 19],
    /// Port `host_ar_o`.
    pub host_ar_o: u64,
    /// Port `retransmission_aw_o`.
    pub retransmission_aw_o: u64,
    /// Port `retransmission_w_o`.
    pub retransmission_w_o: [u32; 19],
    /// Port `retransmission_ar_o`.
    pub retransmission_ar_o: u64,
    /// Port `engine_aw_o`.
    pub engine_aw_o: u64,
    /// Port `engine_w_o`.
    pub engine_w_o: [u32; 19],
    /// Port `engine_ar_o`.
    pub engine_ar_o: u64,
    /// Port `service_o`.
    pub service_o: [u32; 21],
    /// Port `service_registers_o`.
    pub service_registers_o: u64,
    /// Port `queue_registers_o`.
    pub queue_registers_o: [u32; 5],
    /// Port `sniffer_o`.
    pub sniffer_o: [u32; 17],
    /// Port `engine_status_o`.
    pub engine_status_o: u64,
    /// Port `earliest_o`.
    pub earliest_o: u64,
}
