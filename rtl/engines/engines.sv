// The card's engine with its connections. Events come from the MAC in Weft datagrams, from queue pairs as WRITEs into
// RPC regions, and from the host through registers. Messages leave on the same three paths. The host's registers also
// configure the engine.
//
// Latency, throughput and stalls are those of the blocks: datagram_receive, queue_pair_calls, host_calls,
// engine_slot, the engine, message_transmit, queue_pair_replies.
module engines
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
#(
  // Enables planted bugs, for tests of checkers only.
  parameter bit PlantedBugs = 1'b0
) (
  input  logic                                       clk_i,
  input  logic                                       rst_ni,
  input  cycles_t                                    now_i,
  input  mac_address_t                               hardware_i,
  input  ipv4_address_t                              address_i,
  input  engine_registers_t                          registers_i,
  output engine_readings_t                           readings_o,
  // Frames of the MAC, in parallel to the receive path; never stalled.
  input  logic                                       rx_valid_i,
  input  logic                       [ BeatBits-1:0] rx_data_i,
  input  logic                       [BeatBytes-1:0] rx_keep_i,
  input  logic                                       rx_last_i,
  input  logic                                       rx_error_i,
  output logic                                       frame_valid_o,
  input  logic                                       frame_ready_i,
  output beat_t                                      frame_o,
  output logic                                       lookup_valid_o,
  input  logic                                       lookup_ready_i,
  output ipv4_address_t                              lookup_o,
  input  logic                                       result_valid_i,
  output logic                                       result_ready_o,
  input  logic                                       result_hit_i,
  input  mac_address_t                               result_mac_i,
  // Calls by WRITEs: first their beats, then the call. Done is a pulse when the engine has taken a call.
  input  logic                                       snoop_valid_i,
  output logic                                       snoop_ready_o,
  input  rpc_beat_t                                  snoop_i,
  input  logic                                       rpc_valid_i,
  output logic                                       rpc_ready_o,
  input  rpc_call_t                                  rpc_i,
  output logic                                       rpc_done_o,
  // Answers to these calls: written into the memory of the regions, then sent as SENDs.
  output logic                                       write_valid_o,
  input  logic                                       write_ready_i,
  output write_command_t                             write_o,
  output logic                                       write_data_valid_o,
  input  logic                                       write_data_ready_i,
  output write_beat_t                                write_data_o,
  input  logic                                       written_i,
  output logic                                       post_valid_o,
  input  logic                                       post_ready_i,
  input  logic                                       post_refused_i,
  output work_request_t                              post_o,
  input  logic                                       completion_valid_i,
  output logic                                       completion_ready_o,
  input  completion_t                                completion_i,
  // Pulse: a queue pair is reset.
  input  logic                                       forget_valid_i,
  input  qp_index_t                                  forget_qp_i,
  // The engine's memory.
  output logic                                       memory_aw_valid_o,
  input  logic                                       memory_aw_ready_i,
  output axi_address_t                               memory_aw_o,
  output logic                                       memory_w_valid_o,
  input  logic                                       memory_w_ready_i,
  output write_beat_t                                memory_w_o,
  input  logic                                       memory_b_valid_i,
  input  logic                       [          1:0] memory_b_response_i,
  output logic                                       memory_ar_valid_o,
  input  logic                                       memory_ar_ready_i,
  output axi_address_t                               memory_ar_o,
  input  logic                                       memory_r_valid_i,
  output logic                                       memory_r_ready_o,
  input  axi_read_t                                  memory_r_i,
  output logic                                       armed_o,
  output logic                                       earliest_valid_o,
  output cycles_t                                    earliest_o,
  output datagram_receive_events_t                   receive_events_o,
  output queue_pair_calls_events_t                   calls_events_o,
  output queue_pair_replies_events_t                 replies_events_o,
  output engine_slot_events_t                        slot_events_o,
  output message_transmit_events_t                   transmit_events_o,
  output kv_events_t                                 kv_events_o,
  output logic                                       idle_o
);

  // Peers.

  peer_t [NodesMax-1:0] peers_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) peers_q <= '0;
    else if (registers_i.peer_valid) peers_q[registers_i.peer_node] <= registers_i.peer;
  end

  // Datagrams.

  logic              received_valid;
  logic              received_ready;
  message_received_t received;
  logic              received_payload_valid;
  logic              received_payload_ready;
  beat_t             received_payload;
  logic              receive_idle;

  datagram_receive u_datagram_receive (
    .clk_i,
    .rst_ni,
    .enable_i       (registers_i.enable),
    .hardware_i,
    .address_i,
    .peers_i        (peers_q),
    .rx_valid_i,
    .rx_data_i,
    .rx_keep_i,
    .rx_last_i,
    .rx_error_i,
    .message_valid_o(received_valid),
    .message_ready_i(received_ready),
    .message_o      (received),
    .payload_valid_o(received_payload_valid),
    .payload_ready_i(received_payload_ready),
    .payload_o      (received_payload),
    .events_o       (receive_events_o),
    .idle_o         (receive_idle)
  );

  // Calls of the host.

  logic            call_valid;
  logic            call_ready;
  engine_event_t   call;
  logic            call_payload_valid;
  logic            call_payload_ready;
  beat_t           call_payload;
  logic            answer_valid;
  logic            answer_ready;
  logic            answer_body_valid;
  logic            answer_body_ready;
  engine_message_t routed;
  beat_t           routed_body;
  logic            calls_idle;

  host_calls u_host_calls (
    .clk_i,
    .rst_ni,
    .word_valid_i        (registers_i.word_valid),
    .word_i              (registers_i.word),
    .go_i                (registers_i.call_valid),
    .token_i             (registers_i.token),
    .kind_i              (registers_i.kind),
    .bytes_i             (registers_i.bytes),
    .busy_o              (readings_o.call_busy),
    .call_valid_o        (call_valid),
    .call_ready_i        (call_ready),
    .call_o              (call),
    .call_payload_valid_o(call_payload_valid),
    .call_payload_ready_i(call_payload_ready),
    .call_payload_o      (call_payload),
    .answer_valid_i      (answer_valid),
    .answer_ready_o      (answer_ready),
    .answer_i            (routed),
    .answer_body_valid_i (answer_body_valid),
    .answer_body_ready_o (answer_body_ready),
    .answer_body_i       (routed_body),
    .answered_o          (readings_o.answered),
    .answer_token_o      (readings_o.answer_token),
    .answer_kind_o       (readings_o.answer_kind),
    .answer_bytes_o      (readings_o.answer_bytes),
    .answer_word_o       (readings_o.answer_word),
    .answer_next_i       (registers_i.answer_next),
    .answer_done_i       (registers_i.answer_done),
    .idle_o              (calls_idle)
  );

  // Calls over queue pairs and their answers.

  logic          lookup_valid;
  logic          lookup_ready;
  qp_index_t     lookup_qp;
  incarnation_t  lookup_incarnation;
  logic          take_valid;
  logic          take_ready;
  qp_index_t     take_qp;
  incarnation_t  take_incarnation;
  logic          take_stale;
  logic          take_full;
  logic          check_valid;
  logic          check_ready;
  reply_slot_t   check;
  logic          check_stale;
  reply_index_t  take_index;
  logic          give_back_valid;
  logic          give_back_ready;
  reply_slot_t   give_back;
  logic          remote_valid;
  logic          remote_ready;
  engine_event_t remote;
  logic          remote_payload_valid;
  logic          remote_payload_ready;
  beat_t         remote_payload;
  logic          reply_valid;
  logic          reply_ready;
  logic          reply_body_valid;
  logic          reply_body_ready;
  logic          of_reply;
  logic          reply_completion_ready;
  logic          done_ready;
  logic          remote_idle;
  logic          replies_idle;
  logic          slots_idle;

  queue_pair_calls u_queue_pair_calls (
    .clk_i,
    .rst_ni,
    .enable_i            (registers_i.enable),
    .forget_valid_i,
    .forget_qp_i,
    .snoop_valid_i,
    .snoop_ready_o,
    .snoop_i,
    .call_valid_i        (rpc_valid_i),
    .call_ready_o        (rpc_ready_o),
    .call_i              (rpc_i),
    .call_done_o         (rpc_done_o),
    .lookup_valid_o      (lookup_valid),
    .lookup_ready_i      (lookup_ready),
    .lookup_qp_o         (lookup_qp),
    .lookup_incarnation_i(lookup_incarnation),
    .event_valid_o       (remote_valid),
    .event_ready_i       (remote_ready),
    .event_o             (remote),
    .payload_valid_o     (remote_payload_valid),
    .payload_ready_i     (remote_payload_ready),
    .payload_o           (remote_payload),
    .events_o            (calls_events_o),
    .idle_o              (remote_idle)
  );

  reply_slots u_reply_slots (
    .clk_i,
    .rst_ni,
    .forget_valid_i,
    .forget_qp_i,
    .give_back_valid_i (give_back_valid),
    .give_back_ready_o (give_back_ready),
    .give_back_i       (give_back),
    .call_valid_i      (lookup_valid),
    .call_ready_o      (lookup_ready),
    .call_qp_i         (lookup_qp),
    .call_incarnation_o(lookup_incarnation),
    .check_valid_i     (check_valid),
    .check_ready_o     (check_ready),
    .check_i           (check),
    .check_stale_o     (check_stale),
    .take_valid_i      (take_valid),
    .take_ready_o      (take_ready),
    .take_qp_i         (take_qp),
    .take_incarnation_i(take_incarnation),
    .take_stale_o      (take_stale),
    .take_full_o       (take_full),
    .take_index_o      (take_index),
    .idle_o            (slots_idle)
  );

  queue_pair_replies u_queue_pair_replies (
    .clk_i,
    .rst_ni,
    .base_i            (registers_i.reply_base),
    .lkey_i            (registers_i.reply_lkey),
    .message_valid_i   (reply_valid),
    .message_ready_o   (reply_ready),
    .message_i         (routed),
    .body_valid_i      (reply_body_valid),
    .body_ready_o      (reply_body_ready),
    .body_i            (routed_body),
    .take_valid_o      (take_valid),
    .take_ready_i      (take_ready),
    .take_qp_o         (take_qp),
    .take_incarnation_o(take_incarnation),
    .take_stale_i      (take_stale),
    .take_full_i       (take_full),
    .take_index_i      (take_index),
    .check_valid_o     (check_valid),
    .check_ready_i     (check_ready),
    .check_o           (check),
    .check_stale_i     (check_stale),
    .forget_valid_i,
    .give_back_valid_o (give_back_valid),
    .give_back_ready_i (give_back_ready),
    .give_back_o       (give_back),
    .write_valid_o,
    .write_ready_i,
    .write_o,
    .write_data_valid_o,
    .write_data_ready_i,
    .write_data_o,
    .written_i,
    .post_valid_o,
    .post_ready_i,
    .post_refused_i,
    .post_o,
    .completion_valid_i(completion_valid_i && of_reply),
    .completion_ready_o(reply_completion_ready),
    .completion_i,
    .events_o          (replies_events_o),
    .idle_o            (replies_idle)
  );

  // The card's own SENDs have the highest bit of their tags set; no other requests do.
  assign of_reply = completion_i.id[63] && !completion_i.opcode[7];
  assign completion_ready_o = of_reply ? reply_completion_ready : done_ready;

  // The slot and the engine in it.

  logic                        event_valid;
  logic                        event_ready;
  engine_event_t               event_;
  logic                        payload_valid;
  logic                        payload_ready;
  beat_t                       payload;
  engine_configuration_t       configuration;
  logic                        message_valid;
  logic                        message_ready;
  engine_message_t             message;
  logic                        body_valid;
  logic                        body_ready;
  beat_t                       body;
  logic                        timer_valid;
  logic                  [4:0] timer_tag;
  cycles_t                     timer_at;
  logic                        network_valid;
  logic                        network_ready;
  logic                        network_body_valid;
  logic                        network_body_ready;
  logic                        slot_idle;
  logic                        engine_idle;
  logic                        transmit_idle;
  kv_events_t                  kv_events;

  engine_slot u_engine_slot (
    .clk_i,
    .rst_ni,
    .now_i,
    .reset_i                   (registers_i.reset),
    .configure_i               (registers_i.configure),
    .configuration_i           (registers_i.configuration),
    .busy_o                    (readings_o.busy),
    .datagram_valid_i          (received_valid),
    .datagram_ready_o          (received_ready),
    .datagram_i                (received),
    .datagram_payload_valid_i  (received_payload_valid),
    .datagram_payload_ready_o  (received_payload_ready),
    .datagram_payload_i        (received_payload),
    .call_valid_i              (call_valid),
    .call_ready_o              (call_ready),
    .call_i                    (call),
    .call_payload_valid_i      (call_payload_valid),
    .call_payload_ready_o      (call_payload_ready),
    .call_payload_i            (call_payload),
    .queue_pair_call_valid_i   (remote_valid),
    .queue_pair_call_ready_o   (remote_ready),
    .queue_pair_call_i         (remote),
    .queue_pair_payload_valid_i(remote_payload_valid),
    .queue_pair_payload_ready_o(remote_payload_ready),
    .queue_pair_payload_i      (remote_payload),
    .done_valid_i              (completion_valid_i && !of_reply),
    .done_ready_o              (done_ready),
    .done_i                    (completion_i),
    .event_valid_o             (event_valid),
    .event_ready_i             (event_ready),
    .event_o                   (event_),
    .payload_valid_o           (payload_valid),
    .payload_ready_i           (payload_ready),
    .payload_o                 (payload),
    .configuration_o           (configuration),
    .timer_valid_i             (timer_valid),
    .timer_tag_i               (timer_tag),
    .timer_at_i                (timer_at),
    .message_valid_i           (message_valid),
    .message_ready_o           (message_ready),
    .message_i                 (message),
    .body_valid_i              (body_valid),
    .body_ready_o              (body_ready),
    .body_i                    (body),
    .network_valid_o           (network_valid),
    .network_ready_i           (network_ready),
    .network_body_valid_o      (network_body_valid),
    .network_body_ready_i      (network_body_ready),
    .host_valid_o              (answer_valid),
    .host_ready_i              (answer_ready),
    .host_body_valid_o         (answer_body_valid),
    .host_body_ready_i         (answer_body_ready),
    .queue_pair_valid_o        (reply_valid),
    .queue_pair_ready_i        (reply_ready),
    .queue_pair_body_valid_o   (reply_body_valid),
    .queue_pair_body_ready_i   (reply_body_ready),
    .message_o                 (routed),
    .body_o                    (routed_body),
    .armed_o,
    .earliest_valid_o,
    .earliest_o,
    .events_o                  (slot_events_o),
    .idle_o                    (slot_idle)
  );

  kv #(
    .PlantedBugs(PlantedBugs)
  ) u_kv (
    .clk_i,
    .rst_ni,
    .now_i,
    .event_valid_i             (event_valid),
    .event_ready_o             (event_ready),
    .event_i                   (event_),
    .payload_valid_i           (payload_valid),
    .payload_ready_o           (payload_ready),
    .payload_i                 (payload),
    .configuration_i           (configuration),
    .bucket_mask_i             (bucket_t'(registers_i.bucket_mask)),
    .retransmit_i              (cycles_t'(registers_i.retransmit)),
    .retransmit_max_i          (cycles_t'(registers_i.retransmit_max)),
    .acknowledge_after_memory_i(registers_i.acknowledge_after_memory),
    .planted_bug_i             (planted_bug_e'(registers_i.planted_bug)),
    .status_o                  (readings_o.status),
    .message_valid_o           (message_valid),
    .message_ready_i           (message_ready),
    .message_o                 (message),
    .body_valid_o              (body_valid),
    .body_ready_i              (body_ready),
    .body_o                    (body),
    .timer_valid_o             (timer_valid),
    .timer_tag_o               (timer_tag),
    .timer_at_o                (timer_at),
    .memory_aw_valid_o,
    .memory_aw_ready_i,
    .memory_aw_o,
    .memory_w_valid_o,
    .memory_w_ready_i,
    .memory_w_o,
    .memory_b_valid_i,
    .memory_b_response_i,
    .memory_ar_valid_o,
    .memory_ar_ready_i,
    .memory_ar_o,
    .memory_r_valid_i,
    .memory_r_ready_o,
    .memory_r_i,
    .events_o                  (kv_events),
    .idle_o                    (engine_idle)
  );

  message_transmit u_message_transmit (
    .clk_i,
    .rst_ni,
    .hardware_i,
    .address_i,
    .peer_valid_i   (registers_i.peer_valid),
    .peer_node_i    (registers_i.peer_node),
    .peer_i         (registers_i.peer),
    .learn_valid_i  (received_valid && received_ready && received.peer),
    .learn_node_i   (received.from),
    .learn_mac_i    (received.caller.mac),
    .message_valid_i(network_valid),
    .message_ready_o(network_ready),
    .message_i      (routed),
    .body_valid_i   (network_body_valid),
    .body_ready_o   (network_body_ready),
    .body_i         (routed_body),
    .lookup_valid_o,
    .lookup_ready_i,
    .lookup_o,
    .result_valid_i,
    .result_ready_o,
    .result_hit_i,
    .result_mac_i,
    .out_valid_o    (frame_valid_o),
    .out_ready_i    (frame_ready_i),
    .out_o          (frame_o),
    .events_o       (transmit_events_o),
    .idle_o         (transmit_idle)
  );

  // Some events occur up to twice in a cycle, but a counter counts bits, so a count of two becomes two bits.
  function automatic logic [1:0] each(logic [1:0] count);
    return {count[1], |count};
  endfunction

  always_comb begin
    kv_events_o = kv_events;
    kv_events_o.reads = each(kv_events.reads);
    kv_events_o.dropped_malformed = each(kv_events.dropped_malformed);
    kv_events_o.dropped_wrong_role = each(kv_events.dropped_wrong_role);
    kv_events_o.dropped_contradiction = each(kv_events.dropped_contradiction);
  end

  assign idle_o = receive_idle && calls_idle && remote_idle && replies_idle && slots_idle && slot_idle && engine_idle
      && transmit_idle;

endmodule
