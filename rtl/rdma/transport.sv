// The RoCE v2 transport: reliable connections, from received headers to frames to send, and the memories of the
// regions.
//
// Dispatch gives a received packet to responder or requester, which decides within 8 cycles what happens to it. The
// placement block executes these decisions in packet order. When the data is visible, it forwards the consequences to
// the responses block, the completer or the host. Packets to send come from the responses block and the requester and
// are merged in the transmit path. Every block processes one packet a cycle, unless its header says otherwise.
module transport
  import weft_pkg::*;
  import services_pkg::*;
  import responder_pkg::*;
#(
  parameter int unsigned OnChipBytes      = 262_144,
  parameter int unsigned HostCreditBytes  = 32_768,
  parameter int unsigned RpcCredits       = 16,
  parameter bit          AdditiveIncrease = 1'b0,
  // Places for requests that arrived behind a gap, up to 64; 0: none is kept.
  parameter int unsigned ReorderPlaces    = 32,
  // Payloads of requests can go through services.
  parameter bit          Services         = 1'b0
) (
  input logic                clk_i,
  input logic                rst_ni,
  input cycles_t             now_i,
  input mac_address_t        hardware_i,
  input ipv4_address_t       address_i,
  // Enables rate control: queue pairs that receive congestion notifications limit their rate, and requests are
  // ECN-capable.
  input logic                rate_control_i,
  // Responses say that a missing part of a READ may be requested alone.
  input logic                read_parts_i,
  // At most so many requests behind gaps are kept.
  input logic          [6:0] reorder_packets_i,

  // From the wire: headers of good packets, and their frames in the same order.
  input  logic         header_valid_i,
  output logic         header_ready_o,
  input  roce_header_t header_i,
  input  logic         receive_valid_i,
  output logic         receive_ready_o,
  input  beat_t        receive_i,
  // To the wire.
  output logic         frame_valid_o,
  input  logic         frame_ready_i,
  output beat_t        frame_o,

  // Commands of the driver. `control_done_o` is a pulse when an operation has taken effect everywhere.
  input  logic             table_write_valid_i,
  output logic             table_write_ready_o,
  input  queue_pair_t      table_write_i,
  input  logic             region_write_valid_i,
  output logic             region_write_ready_o,
  input  region_index_t    region_write_index_i,
  input  region_t          region_write_i,
  input  logic             control_valid_i,
  output logic             control_ready_o,
  input  control_t         control_i,
  output logic             control_done_o,
  input  logic             query_valid_i,
  output logic             query_ready_o,
  input  qp_index_t        query_qp_i,
  output logic             query_done_o,
  output responder_query_t responder_query_o,
  output requester_query_t requester_query_o,

  // Posts of the host and of engines, and their completions.
  input  logic             post_valid_i,
  output logic             post_ready_o,
  input  work_request_t    post_i,
  input  logic             receive_post_valid_i,
  output logic             receive_post_ready_o,
  input  receive_request_t receive_post_i,
  output logic             completion_valid_o,
  input  logic             completion_ready_i,
  output completion_t      completion_o,
  input  logic             engine_post_valid_i,
  output logic             engine_post_ready_o,
  input  work_request_t    engine_post_i,
  output logic             engine_post_refused_o,      // valid with `ready`: the post is dropped
  output logic             engine_completion_valid_o,
  input  logic             engine_completion_ready_i,
  output completion_t      engine_completion_o,

  // Services for the payload of requests: see `placement_services`. Unused unless `Services`.
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

  // WRITEs into RPC regions: first their beats, then the call. Done is a pulse when the engine has taken a call,
  // which makes room for another.
  output logic      snoop_valid_o,
  input  logic      snoop_ready_i,
  output rpc_beat_t snoop_o,
  output logic      call_valid_o,
  input  logic      call_ready_i,
  output rpc_call_t call_o,
  input  logic      call_done_i,

  // Writes of engines into the memories of the regions. `Written` pulses once for each, in order.
  input  logic           engine_write_valid_i,
  output logic           engine_write_ready_o,
  input  write_command_t engine_write_i,
  input  logic           engine_write_data_valid_i,
  output logic           engine_write_data_ready_o,
  input  write_beat_t    engine_write_data_i,
  output logic           engine_written_o,

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

  // For a simulator that skips cycles in which nothing happens.
  output logic    armed_o,
  output logic    earliest_valid_o,
  output cycles_t earliest_o,

  output responder_events_t     responder_events_o,
  output responses_events_t     responses_events_o,
  output request_side_events_t  request_side_events_o,
  output placement_events_t     placement_events_o,
  output memory_events_t        memory_events_o,
  output transmit_path_events_t transmit_path_events_o,
  output logic                  idle_o
);

  // Tables.

  localparam int unsigned TablePorts = 6;
  localparam int unsigned TableResponder = 0;
  localparam int unsigned TableResponses = 1;
  localparam int unsigned TableRequester = 2;
  localparam int unsigned TablePost = 3;
  localparam int unsigned TableTransmit = 4;
  localparam int unsigned TableCompletion = 5;
  localparam int unsigned CheckPorts = 3;

  logic                             table_ready;
  logic            [TablePorts-1:0] table_read;
  qp_index_t       [TablePorts-1:0] table_index;
  queue_pair_t     [TablePorts-1:0] table_data;
  logic                             regions_ready;
  logic                             region_write_ready;
  logic            [CheckPorts-1:0] check_valid;
  access_request_t [CheckPorts-1:0] check;
  access_grant_t   [CheckPorts-1:0] grant;

  queue_pair_table #(
    .ReadPorts(TablePorts)
  ) u_queue_pair_table (
    .clk_i,
    .rst_ni,
    .ready_o      (table_ready),
    .write_i      (table_write_valid_i && table_ready),
    .write_index_i(qp_index_t'(table_write_i.number)),
    .write_data_i (table_write_i),
    .read_i       (table_read),
    .read_index_i (table_index),
    .read_data_o  (table_data)
  );
  assign table_write_ready_o = table_ready;

  region_table #(
    .CheckPorts(CheckPorts)
  ) u_region_table (
    .clk_i,
    .rst_ni,
    .ready_o            (regions_ready),
    .write_i            (region_write_valid_i && regions_ready),
    .write_ready_o      (region_write_ready),
    .write_index_i      (region_write_index_i),
    .write_data_i       (region_write_i),
    .permission_i       (region_permission_valid_i),
    .permission_index_i (region_permission_index_i),
    .permission_access_i(region_permission_access_i),
    .request_valid_i    (check_valid),
    .request_i          (check),
    .grant_o            (grant)
  );
  assign region_write_ready_o = region_write_ready && regions_ready;

  // A control goes to requester, responder and marker. It is done when all three are: each reports it, or is done on
  // acceptance. A change of access rights is done when its marker leaves the placement block: then all data allowed
  // before it is in memory, and so is the data that an earlier change of a region allowed. An engine and the driver
  // must not change the access rights of one queue pair at the same time.

  localparam int unsigned Controlled = 3;

  logic      [Controlled-1:0] control_valid;
  logic      [Controlled-1:0] control_ready;
  logic                       responder_control_done;
  logic                       requester_control_done;
  logic                       control_pending_q;
  logic                       control_access_q;
  qp_index_t                  control_qp_q;
  logic      [           2:0] control_waits_q;  // for requester, responder and marker

  broadcast #(
    .N(Controlled)
  ) u_control (
    .clk_i,
    .rst_ni,
    .in_valid_i (control_valid_i && !control_pending_q),
    .in_ready_o (control_ready_o),
    .out_valid_o(control_valid),
    .out_ready_i(control_ready)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      control_pending_q <= 1'b0;
      control_waits_q   <= '1;
    end else begin
      if (control_valid_i && control_ready_o) begin
        control_pending_q <= 1'b1;
        control_access_q  <= control_i.operation == ControlAccess;
        control_qp_q      <= control_i.qp;
      end
      if (control_done_o) begin
        control_pending_q <= 1'b0;
        control_waits_q   <= '1;
      end else begin
        if (requester_control_done) control_waits_q[0] <= 1'b0;
        if (responder_control_done) control_waits_q[1] <= 1'b0;
        if (control_pending_q && (!control_access_q || marker_o && marker_qp_o == control_qp_q)) begin
          control_waits_q[2] <= 1'b0;
        end
      end
    end
  end
  assign control_done_o = control_pending_q && control_waits_q == '0;

  // A query goes to requester and responder and is done when both have answered.

  logic       responder_query_done;
  logic       requester_query_done;
  logic [1:0] query_waits_q;
  logic       query_pending_q;

  assign query_ready_o = !query_pending_q;
  assign query_done_o  = query_pending_q && query_waits_q == '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      query_pending_q <= 1'b0;
      query_waits_q   <= '0;
    end else if (query_valid_i && query_ready_o) begin
      query_pending_q <= 1'b1;
      query_waits_q   <= 2'b11;
    end else begin
      if (query_done_o) query_pending_q <= 1'b0;
      if (responder_query_done) query_waits_q[0] <= 1'b0;
      if (requester_query_done) query_waits_q[1] <= 1'b0;
    end
  end

  // A fault found by one part of a queue pair puts its other parts into ERROR: the requester's faults go to the
  // responder, the responder's to the requester, those of the responses block to both. Each source reports at most
  // one fault for a queue pair until it is reset, so these queues cannot overflow.

  localparam int unsigned Faults = 3;
  localparam int unsigned Requester = 0;
  localparam int unsigned Responder = 1;
  localparam int unsigned Responses = 2;

  logic      [Faults-1:0] fault_valid;
  logic      [Faults-1:0] fault_ready;
  qp_index_t [Faults-1:0] fault;
  logic      [Faults-1:0] held_valid;
  logic      [Faults-1:0] held_ready;
  qp_index_t [Faults-1:0] held;
  // Copies of the faults of the responses block: 0 for the responder, 1 for the requester.
  logic      [       1:0] copy_valid;
  logic      [       1:0] copy_ready;
  logic                   to_responder_valid;
  logic                   to_responder_ready;
  qp_index_t              to_responder;
  logic                   to_requester_valid;
  logic                   to_requester_ready;
  qp_index_t              to_requester;

  for (genvar source = 0; source < Faults; source++) begin : gen_faults
    fifo #(
      .T    (qp_index_t),
      .Depth(QueuePairs)
    ) u_faults (
      .clk_i,
      .rst_ni,
      .in_valid_i (fault_valid[source]),
      .in_ready_o (fault_ready[source]),
      .in_i       (fault[source]),
      .out_valid_o(held_valid[source]),
      .out_ready_i(held_ready[source]),
      .out_o      (held[source]),
      .level_o    ()
    );
  end

  broadcast #(
    .N(2)
  ) u_copies (
    .clk_i,
    .rst_ni,
    .in_valid_i (held_valid[Responses]),
    .in_ready_o (held_ready[Responses]),
    .out_valid_o(copy_valid),
    .out_ready_i(copy_ready)
  );

  arbiter #(
    .T(qp_index_t),
    .N(2)
  ) u_to_responder (
    .clk_i,
    .rst_ni,
    .in_valid_i ({copy_valid[0], held_valid[Requester]}),
    .in_ready_o ({copy_ready[0], held_ready[Requester]}),
    .in_i       ({held[Responses], held[Requester]}),
    .in_last_i  ('1),
    .out_valid_o(to_responder_valid),
    .out_ready_i(to_responder_ready),
    .out_o      (to_responder),
    .out_last_o (),
    .grant_o    ()
  );

  arbiter #(
    .T(qp_index_t),
    .N(2)
  ) u_to_requester (
    .clk_i,
    .rst_ni,
    .in_valid_i ({copy_valid[1], held_valid[Responder]}),
    .in_ready_o ({copy_ready[1], held_ready[Responder]}),
    .in_i       ({held[Responses], held[Responder]}),
    .in_last_i  ('1),
    .out_valid_o(to_requester_valid),
    .out_ready_i(to_requester_ready),
    .out_o      (to_requester),
    .out_last_o (),
    .grant_o    ()
  );

  // Receive side.

  qp_index_t                       marked_request_qp;
  logic                            marked_response;
  qp_index_t                       marked_response_qp;
  logic                            notification_point_ready;
  logic                            notification_point_idle;
  logic                            notify_valid;
  logic                            notify_ready;
  qp_index_t                       notify;

  logic                            request_valid;
  logic                            request_ready;
  logic                            response_valid;
  logic                            response_ready;
  roce_header_t                    header;
  logic                            order_valid;
  logic                            order_ready;
  logic                            order_requester;
  logic                            responder_verdict_valid;
  logic                            responder_verdict_ready;
  placement_t                      responder_verdict;
  logic                            requester_verdict_valid;
  logic                            requester_verdict_ready;
  placement_t                      requester_verdict;
  logic                            credit_return_valid;
  payload_bytes_t                  credit_return;
  logic                            credit_return_requester;
  logic                            answered_valid;
  qp_index_t                       answered_qp;
  logic                            answer_valid;
  logic                            answer_ready;
  qp_index_t                       answer_qp;
  answer_t                         answer;
  logic                            advance_valid;
  logic                            advance_ready;
  qp_index_t                       advance_qp;
  advance_t                        advance;

  logic                            kept_valid;
  logic                            kept_ready;
  roce_header_t                    kept_header;
  reorder_place_t                  kept_place;
  logic                            kept_deferred;
  logic                            keeps;
  logic                            reserve;
  roce_header_t                    reserve_header;
  logic                            room;
  reorder_place_t                  room_place;
  qp_index_t                       search_qp;
  psn_t                            search_psn;
  logic                            search_found;
  logic                            search_any;
  logic                            release_kept;
  logic                            reorder_valid;
  reorder_command_t                reorder_command;
  logic                            reorder_write;
  reorder_place_t                  reorder_write_place;
  logic             [         5:0] reorder_write_index;
  logic                            reorder_write_last;
  logic             [BeatBits-1:0] reorder_write_data;
  logic                            reorder_run;
  reorder_place_t                  reorder_place;
  logic             [         5:0] reorder_end;
  logic                            reorder_frame_valid;
  logic                            reorder_frame_ready;
  logic                            reorder_frame_last;
  logic             [BeatBits-1:0] reorder_frame_data;
  logic                            reorder_idle;

  if (ReorderPlaces != 0) begin : gen_reorder
    assign keeps = reorder_packets_i != '0;

    reorder #(
      .Places(ReorderPlaces)
    ) u_reorder (
      .clk_i,
      .rst_ni,
      .limit_i          (reorder_packets_i),
      .reserve_i        (reserve),
      .reserve_header_i (reserve_header),
      .room_o           (room),
      .room_place_o     (room_place),
      .search_qp_i      (search_qp),
      .search_psn_i     (search_psn),
      .found_o          (search_found),
      .any_o            (search_any),
      .command_valid_i  (reorder_valid),
      .command_i        (reorder_command),
      .release_i        (release_kept),
      .header_valid_o   (kept_valid),
      .header_ready_i   (kept_ready),
      .header_o         (kept_header),
      .header_place_o   (kept_place),
      .header_deferred_o(kept_deferred),
      .write_i          (reorder_write),
      .write_place_i    (reorder_write_place),
      .write_index_i    (reorder_write_index),
      .write_last_i     (reorder_write_last),
      .write_data_i     (reorder_write_data),
      .frame_run_i      (reorder_run),
      .frame_place_i    (reorder_place),
      .frame_end_i      (reorder_end),
      .frame_valid_o    (reorder_frame_valid),
      .frame_ready_i    (reorder_frame_ready),
      .frame_last_o     (reorder_frame_last),
      .frame_data_o     (reorder_frame_data),
      .idle_o           (reorder_idle)
    );
  end else begin : gen_no_reorder
    assign keeps = 1'b0;
    assign room = 1'b0;
    assign room_place = '0;
    assign search_found = 1'b0;
    assign search_any = 1'b0;
    assign kept_valid = 1'b0;
    assign kept_header = '0;
    assign kept_place = '0;
    assign kept_deferred = 1'b0;
    assign reorder_frame_valid = 1'b0;
    assign reorder_frame_last = 1'b0;
    assign reorder_frame_data = '0;
    assign reorder_idle = 1'b1;
    logic unused_reorder;
    assign unused_reorder = &{1'b0, reorder_packets_i, kept_ready, reserve, reserve_header, search_qp, search_psn,
                              release_kept, reorder_valid, reorder_command, reorder_write, reorder_write_place,
                              reorder_write_index, reorder_write_last, reorder_write_data, reorder_run,
                              reorder_place, reorder_end, reorder_frame_ready};
  end

  logic dispatch_ready;
  dispatch u_dispatch (
    .clk_i,
    .rst_ni,
    .header_valid_i   (header_valid_i && table_ready && regions_ready),
    .header_ready_o   (dispatch_ready),
    .header_i,
    .kept_valid_i     (kept_valid),
    .kept_ready_o     (kept_ready),
    .kept_i           (kept_header),
    .request_valid_o  (request_valid),
    .request_ready_i  (request_ready),
    .response_valid_o (response_valid),
    .response_ready_i (response_ready),
    .header_o         (header),
    .order_valid_o    (order_valid),
    .order_ready_i    (order_ready),
    .order_requester_o(order_requester)
  );
  assign header_ready_o = dispatch_ready && table_ready && regions_ready;

  logic responder_idle;
  responder #(
    .HostCreditBytes(HostCreditBytes),
    .RpcCredits     (RpcCredits)
  ) u_responder (
    .clk_i,
    .rst_ni,
    .control_valid_i      (control_valid[0]),
    .control_ready_o      (control_ready[0]),
    .control_i,
    .control_done_o       (responder_control_done),
    .permission_valid_i,
    .permission_ready_o,
    .permission_qp_i,
    .permission_access_i,
    .fail_valid_i         (to_responder_valid),
    .fail_ready_o         (to_responder_ready),
    .fail_i               (to_responder),
    .fail_valid_o         (fault_valid[Responder]),
    .fail_ready_i         (fault_ready[Responder]),
    .fail_o               (fault[Responder]),
    .receive_valid_i      (receive_post_valid_i),
    .receive_ready_o      (receive_post_ready_o),
    .receive_i            (receive_post_i),
    .header_valid_i       (request_valid),
    .header_ready_o       (request_ready),
    .header_i             (header),
    .header_kept_i        (kept_valid),
    .header_deferred_i    (kept_deferred),
    .header_place_i       (kept_place),
    .keeps_i              (keeps),
    .reserve_o            (reserve),
    .reserve_header_o     (reserve_header),
    .room_i               (room),
    .room_place_i         (room_place),
    .search_qp_o          (search_qp),
    .search_psn_o         (search_psn),
    .found_i              (search_found),
    .any_i                (search_any),
    .reorder_valid_o      (reorder_valid),
    .reorder_o            (reorder_command),
    .release_o            (release_kept),
    .table_read_o         (table_read[TableResponder]),
    .table_index_o        (table_index[TableResponder]),
    .table_data_i         (table_data[TableResponder]),
    .check_valid_o        (check_valid[0]),
    .check_o              (check[0]),
    .grant_i              (grant[0]),
    // Data that the requester writes to the host was requested by this side, so it uses no credit.
    .credit_return_valid_i(credit_return_valid && !credit_return_requester),
    .credit_return_i      (credit_return),
    .rpc_free_i           (call_done_i),
    .answered_valid_i     (answered_valid),
    .answered_qp_i        (answered_qp),
    .verdict_valid_o      (responder_verdict_valid),
    .verdict_ready_i      (responder_verdict_ready),
    .verdict_o            (responder_verdict),
    .query_valid_i        (query_valid_i && query_ready_o),
    .query_index_i        (query_qp_i),
    .query_done_o         (responder_query_done),
    .query_o              (responder_query_o),
    .events_o             (responder_events_o),
    .marked_qp_o          (marked_request_qp),
    .idle_o               (responder_idle)
  );

  // Memory, and the placement of data into it.

  logic           write_valid;
  logic           write_ready;
  write_command_t write;
  logic           write_data_valid;
  logic           write_data_ready;
  write_beat_t    write_data;
  logic           written;
  assign placed_o = written;
  logic                 word_valid;
  logic                 word_ready;
  target_e              word_target;
  address_t             word_address;
  logic                 word_data_valid;
  logic          [63:0] word_data;
  logic                 read_valid;
  logic                 read_ready;
  read_command_t        read;
  logic                 data_valid;
  logic                 data_ready;
  beat_t                data;
  logic                 receive_completion_valid;
  logic                 receive_completion_ready;
  completion_t          receive_completion;

  logic                 placement_idle;
  placement #(
    .Services(Services)
  ) u_placement (
    .clk_i,
    .rst_ni,
    .order_valid_i            (order_valid),
    .order_ready_o            (order_ready),
    .order_requester_i        (order_requester),
    .responder_valid_i        (responder_verdict_valid),
    .responder_ready_o        (responder_verdict_ready),
    .responder_i              (responder_verdict),
    .requester_valid_i        (requester_verdict_valid),
    .requester_ready_o        (requester_verdict_ready),
    .requester_i              (requester_verdict),
    .frame_valid_i            (receive_valid_i),
    .frame_ready_o            (receive_ready_o),
    .frame_i                  (receive_i),
    .reorder_write_o          (reorder_write),
    .reorder_write_place_o    (reorder_write_place),
    .reorder_write_index_o    (reorder_write_index),
    .reorder_write_last_o     (reorder_write_last),
    .reorder_write_data_o     (reorder_write_data),
    .reorder_run_o            (reorder_run),
    .reorder_place_o          (reorder_place),
    .reorder_end_o            (reorder_end),
    .reorder_valid_i          (reorder_frame_valid),
    .reorder_ready_o          (reorder_frame_ready),
    .reorder_last_i           (reorder_frame_last),
    .reorder_data_i           (reorder_frame_data),
    .write_valid_o            (write_valid),
    .write_ready_i            (write_ready),
    .write_o                  (write),
    .write_data_valid_o       (write_data_valid),
    .write_data_ready_i       (write_data_ready),
    .write_data_o             (write_data),
    .written_i                (written),
    .word_valid_o             (word_valid),
    .word_ready_i             (word_ready),
    .word_target_o            (word_target),
    .word_address_o           (word_address),
    .word_data_valid_i        (word_data_valid),
    .word_data_i              (word_data),
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
    .snoop_valid_o,
    .snoop_ready_i,
    .snoop_o,
    .completion_valid_o       (receive_completion_valid),
    .completion_ready_i       (receive_completion_ready),
    .completion_o             (receive_completion),
    .call_valid_o,
    .call_ready_i,
    .call_o,
    .answer_valid_o           (answer_valid),
    .answer_ready_i           (answer_ready),
    .answer_qp_o              (answer_qp),
    .answer_o                 (answer),
    .advance_valid_o          (advance_valid),
    .advance_ready_i          (advance_ready),
    .advance_qp_o             (advance_qp),
    .advance_o                (advance),
    .marker_o,
    .marker_qp_o,
    .credit_return_valid_o    (credit_return_valid),
    .credit_return_o          (credit_return),
    .credit_return_requester_o(credit_return_requester),
    .events_o                 (placement_events_o),
    .idle_o                   (placement_idle)
  );

  logic           memory_write_valid;
  logic           memory_write_ready;
  write_command_t memory_write;
  logic           memory_write_data_valid;
  logic           memory_write_data_ready;
  write_beat_t    memory_write_data;
  logic           memory_written;
  logic           writes_idle;

  write_merge #(
    .N(2)
  ) u_writes (
    .clk_i,
    .rst_ni,
    .in_valid_i      ({engine_write_valid_i, write_valid}),
    .in_ready_o      ({engine_write_ready_o, write_ready}),
    .in_i            ({engine_write_i, write}),
    .in_data_valid_i ({engine_write_data_valid_i, write_data_valid}),
    .in_data_ready_o ({engine_write_data_ready_o, write_data_ready}),
    .in_data_i       ({engine_write_data_i, write_data}),
    .in_written_o    ({engine_written_o, written}),
    .out_valid_o     (memory_write_valid),
    .out_ready_i     (memory_write_ready),
    .out_o           (memory_write),
    .out_data_valid_o(memory_write_data_valid),
    .out_data_ready_i(memory_write_data_ready),
    .out_data_o      (memory_write_data),
    .out_written_i   (memory_written),
    .idle_o          (writes_idle)
  );

  logic memory_idle;
  memory #(
    .OnChipBytes(OnChipBytes)
  ) u_memory (
    .clk_i,
    .rst_ni,
    .write_valid_i     (memory_write_valid),
    .write_ready_o     (memory_write_ready),
    .write_i           (memory_write),
    .write_data_valid_i(memory_write_data_valid),
    .write_data_ready_o(memory_write_data_ready),
    .write_data_i      (memory_write_data),
    .written_o         (memory_written),
    .read_valid_i      (read_valid),
    .read_ready_o      (read_ready),
    .read_i            (read),
    .data_valid_o      (data_valid),
    .data_ready_i      (data_ready),
    .data_o            (data),
    .word_valid_i      (word_valid),
    .word_ready_o      (word_ready),
    .word_target_i     (word_target),
    .word_address_i    (word_address),
    .word_data_valid_o (word_data_valid),
    .word_data_o       (word_data),
    .registers_o,
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
    .events_o          (memory_events_o),
    .idle_o            (memory_idle)
  );

  // Send side.

  logic          merged_post_valid;
  logic          merged_post_ready;
  work_request_t merged_post;
  logic          transmit_request_valid;
  logic          transmit_request_ready;
  transmit_t     transmit_request;
  logic          transmit_response_valid;
  logic          transmit_response_ready;
  transmit_t     transmit_response;
  logic          request_completion_valid;
  logic          request_completion_ready;
  completion_t   request_completion;

  arbiter #(
    .T(work_request_t),
    .N(2)
  ) u_posts (
    .clk_i,
    .rst_ni,
    .in_valid_i ({engine_post_valid_i, post_valid_i}),
    .in_ready_o ({engine_post_ready_o, post_ready_o}),
    .in_i       ({engine_post_i, post_i}),
    .in_last_i  ('1),
    .out_valid_o(merged_post_valid),
    .out_ready_i(merged_post_ready),
    .out_o      (merged_post),
    .out_last_o (),
    .grant_o    ()
  );

  logic request_side_idle;
  request_side #(
    .AdditiveIncrease(AdditiveIncrease)
  ) u_request_side (
    .clk_i,
    .rst_ni,
    .now_i,
    .rate_control_i,
    .post_valid_i      (merged_post_valid),
    .post_ready_o      (merged_post_ready),
    .post_i            (merged_post),
    .post_refused_o    (engine_post_refused_o),
    .control_valid_i   (control_valid[1]),
    .control_ready_o   (control_ready[1]),
    .control_i,
    .control_done_o    (requester_control_done),
    .fail_valid_i      (to_requester_valid),
    .fail_ready_o      (to_requester_ready),
    .fail_i            (to_requester),
    .fail_valid_o      (fault_valid[Requester]),
    .fail_ready_i      (fault_ready[Requester]),
    .fail_o            (fault[Requester]),
    .header_valid_i    (response_valid),
    .header_ready_o    (response_ready),
    .header_i          (header),
    .table_read_o      (table_read[TableRequester]),
    .table_index_o     (table_index[TableRequester]),
    .table_data_i      (table_data[TableRequester]),
    .post_table_read_o (table_read[TablePost]),
    .post_table_index_o(table_index[TablePost]),
    .post_table_data_i (table_data[TablePost]),
    .check_valid_o     (check_valid[1]),
    .check_o           (check[1]),
    .grant_i           (grant[1]),
    .verdict_valid_o   (requester_verdict_valid),
    .verdict_ready_i   (requester_verdict_ready),
    .verdict_o         (requester_verdict),
    .advance_valid_i   (advance_valid),
    .advance_ready_o   (advance_ready),
    .advance_qp_i      (advance_qp),
    .advance_i         (advance),
    .transmit_valid_o  (transmit_request_valid),
    .transmit_ready_i  (transmit_request_ready),
    .transmit_o        (transmit_request),
    .completion_valid_o(request_completion_valid),
    .completion_ready_i(request_completion_ready),
    .completion_o      (request_completion),
    .armed_o,
    .earliest_valid_o,
    .earliest_o,
    .query_valid_i     (query_valid_i && query_ready_o),
    .query_index_i     (query_qp_i),
    .query_done_o      (requester_query_done),
    .query_o           (requester_query_o),
    .marked_o          (marked_response),
    .marked_qp_o       (marked_response_qp),
    .events_o          (request_side_events_o),
    .idle_o            (request_side_idle)
  );

  logic responses_idle;
  responses u_responses (
    .clk_i,
    .rst_ni,
    .read_parts_i,
    .answer_valid_i  (answer_valid),
    .answer_ready_o  (answer_ready),
    .answer_qp_i     (answer_qp),
    .answer_i        (answer),
    .control_valid_i (control_valid[2]),
    .control_ready_o (control_ready[2]),
    .control_i,
    .table_read_o    (table_read[TableResponses]),
    .table_index_o   (table_index[TableResponses]),
    .table_data_i    (table_data[TableResponses]),
    .check_valid_o   (check_valid[2]),
    .check_o         (check[2]),
    .grant_i         (grant[2]),
    .notify_valid_i  (notify_valid),
    .notify_ready_o  (notify_ready),
    .notify_i        (notify),
    .transmit_valid_o(transmit_response_valid),
    .transmit_ready_i(transmit_response_ready),
    .transmit_o      (transmit_response),
    .fail_valid_o    (fault_valid[Responses]),
    .fail_ready_i    (fault_ready[Responses]),
    .fail_o          (fault[Responses]),
    .answered_valid_o(answered_valid),
    .answered_qp_o   (answered_qp),
    .events_o        (responses_events_o),
    .idle_o          (responses_idle)
  );

  // Congestion notifications to peers.

  notification_point u_notification_point (
    .clk_i,
    .rst_ni,
    .ready_o       (notification_point_ready),
    .now_i,
    .request_i     (responder_events_o.congestion_marks),
    .request_qp_i  (marked_request_qp),
    .response_i    (marked_response),
    .response_qp_i (marked_response_qp),
    .forget_i      (control_valid_i && control_ready_o && control_i.operation == ControlReset),
    .forget_qp_i   (control_i.qp),
    .notify_valid_o(notify_valid),
    .notify_ready_i(notify_ready),
    .notify_o      (notify),
    .idle_o        (notification_point_idle)
  );

  logic transmit_path_idle;
  transmit_path u_transmit_path (
    .clk_i,
    .rst_ni,
    .hardware_i,
    .address_i,
    .rate_control_i,
    .request_valid_i (transmit_request_valid),
    .request_ready_o (transmit_request_ready),
    .request_i       (transmit_request),
    .response_valid_i(transmit_response_valid),
    .response_ready_o(transmit_response_ready),
    .response_i      (transmit_response),
    .table_read_o    (table_read[TableTransmit]),
    .table_index_o   (table_index[TableTransmit]),
    .table_data_i    (table_data[TableTransmit]),
    .read_valid_o    (read_valid),
    .read_ready_i    (read_ready),
    .read_o          (read),
    .data_valid_i    (data_valid),
    .data_ready_o    (data_ready),
    .data_i          (data),
    .frame_valid_o,
    .frame_ready_i,
    .frame_o,
    .events_o        (transmit_path_events_o),
    .idle_o          (transmit_path_idle)
  );

  // Completions.

  completion_t completion;
  logic        router_idle;
  completion_router u_completion_router (
    .clk_i,
    .rst_ni,
    .request_valid_i(request_completion_valid),
    .request_ready_o(request_completion_ready),
    .request_i      (request_completion),
    .receive_valid_i(receive_completion_valid),
    .receive_ready_o(receive_completion_ready),
    .receive_i      (receive_completion),
    .table_read_o   (table_read[TableCompletion]),
    .table_index_o  (table_index[TableCompletion]),
    .table_data_i   (table_data[TableCompletion]),
    .host_valid_o   (completion_valid_o),
    .host_ready_i   (completion_ready_i),
    .engine_valid_o (engine_completion_valid_o),
    .engine_ready_i (engine_completion_ready_i),
    .completion_o   (completion),
    .idle_o         (router_idle)
  );
  assign completion_o = completion;
  assign engine_completion_o = completion;

  assign idle_o = table_ready && regions_ready && notification_point_ready && notification_point_idle
                && responder_idle && reorder_idle && placement_idle && memory_idle && writes_idle
                && request_side_idle && responses_idle && transmit_path_idle && router_idle
                && !header_valid_i && !receive_valid_i && !order_valid && held_valid == '0
                && !control_valid_i && !control_pending_q && !query_pending_q;

endmodule
