// The requester side of all queue pairs: send queues, scheduler, requester, timers, completer.
//
//   posts -> send_queue -> scheduler -> requester -> packets to send
//   headers, time-outs, commands ------> requester -> verdicts -> (placement) -> advances -> completer -> completions
//
// Latency: 12 cycles from a post to its packet, 8 from a header to its verdict, 4 from an advance to its completion.
// Throughput: one post in 3 cycles; one turn or header a cycle, of the same queue pair one in 8 cycles; one advance
// with one completion in 2 cycles. Order and stalls: see the blocks. For 513 cycles after reset it accepts nothing.
module request_side
  import weft_pkg::*;
#(
  parameter logic        [15:0] PartitionKey        = 16'hffff,
  // An acknowledgement is requested at least once in this many packets.
  parameter int unsigned        AcknowledgeInterval = 16,
  // 0: the window is constant; 1: additive increase, multiplicative decrease.
  parameter bit                 AdditiveIncrease    = 1'b0,
  // Packets that a queue pair may have outstanding: 1 to WindowPackets.
  parameter int unsigned        WindowLimit         = WindowPackets
) (
  input logic    clk_i,
  input logic    rst_ni,
  input cycles_t now_i,
  // Queue pairs that receive congestion notifications limit their rate.
  input logic    rate_control_i,

  input  logic          post_valid_i,
  output logic          post_ready_o,
  input  work_request_t post_i,
  // Valid with `ready`: the post is dropped.
  output logic          post_refused_o,
  // Commands of the driver. Done is a pulse when every later event meets the new state.
  input  logic          control_valid_i,
  output logic          control_ready_o,
  input  control_t      control_i,
  output logic          control_done_o,
  // The responder found a fault: this queue pair enters ERROR.
  input  logic          fail_valid_i,
  output logic          fail_ready_o,
  input  qp_index_t     fail_i,
  // A request of this side failed: the responder of this queue pair must enter ERROR.
  output logic          fail_valid_o,
  input  logic          fail_ready_i,
  output qp_index_t     fail_o,

  input  logic         header_valid_i,
  output logic         header_ready_o,
  input  roce_header_t header_i,

  // Read ports of the queue pair table, one for packets and one for posts: data one cycle after the read.
  output logic            table_read_o,
  output qp_index_t       table_index_o,
  input  queue_pair_t     table_data_i,
  output logic            post_table_read_o,
  output qp_index_t       post_table_index_o,
  input  queue_pair_t     post_table_data_i,
  // The region table: the grant three cycles after the request.
  output logic            check_valid_o,
  output access_request_t check_o,
  input  access_grant_t   grant_i,

  output logic       verdict_valid_o,
  input  logic       verdict_ready_i,
  output placement_t verdict_o,
  // Advances return from the placement block when everything before them is visible.
  input  logic       advance_valid_i,
  output logic       advance_ready_o,
  input  qp_index_t  advance_qp_i,
  input  advance_t   advance_i,

  output logic        transmit_valid_o,
  input  logic        transmit_ready_i,
  output transmit_t   transmit_o,
  output logic        completion_valid_o,
  input  logic        completion_ready_i,
  output completion_t completion_o,

  // The earliest deadline, for a simulator that skips idle cycles: see `timers`.
  output logic    armed_o,
  output logic    earliest_valid_o,
  output cycles_t earliest_o,

  // Valid may be a pulse or held until done; the answer holds until the next query.
  input  logic             query_valid_i,
  input  qp_index_t        query_index_i,
  output logic             query_done_o,
  output requester_query_t query_o,

  // Pulse: a response of this queue pair arrived with a congestion mark.
  output logic                 marked_o,
  output qp_index_t            marked_qp_o,
  output request_side_events_t events_o,
  // Nothing is in progress: no request, packet or event. Timers may run.
  output logic                 idle_o
);

  logic                 queue_ready;
  logic                 requester_ready;
  logic                 completer_ready;
  logic                 scheduler_ready;
  logic                 timers_ready;
  logic                 ready;
  logic                 queue_idle;
  logic                 requester_idle;
  logic                 completer_idle;
  logic                 scheduler_idle;
  logic                 control_idle;

  control_t             command;
  logic                 queue_command_valid;
  logic                 queue_command_ready;
  logic                 command_valid;
  logic                 command_ready;
  logic                 command_done;
  logic                 forgotten;
  logic                 post_activate_valid;
  logic                 post_activate_ready;
  qp_index_t            post_activate;
  logic                 activate_valid;
  qp_index_t            activate;
  logic                 turn_valid;
  logic                 turn_ready;
  logic                 turn_blocked;
  qp_index_t            turn;
  logic                 timer_set;
  qp_index_t            timer_index;
  logic                 timer_armed;
  cycles_t              timer_deadline;
  logic                 expired_valid;
  logic                 expired_ready;
  qp_index_t            expired;
  logic                 head_write;
  qp_index_t            head_index;
  send_serial_t         head;
  logic                 ends_read;
  qp_index_t            ends_index;
  send_serial_t         ends_head;
  send_tail_t           ends_tail;
  logic                 plan_read;
  qp_index_t            plan_index;
  send_serial_t         plan_serial;
  send_plan_t           plan;
  logic                 wait_read;
  send_serial_t         wait_serial;
  send_wait_t           waits;
  logic                 wire_read;
  qp_index_t            wire_index;
  send_serial_t         wire_serial;
  send_wire_t           wires;
  logic                 tail_read;
  qp_index_t            tail_index;
  send_serial_t         tail;
  logic                 end_read;
  qp_index_t            end_index;
  send_serial_t         end_serial;
  send_end_t            ends;
  logic                 rdma_sends;
  logic                 post_overflow;
  logic                 post_invalid;
  logic                 post_wrong_state;
  logic                 post_ready;
  logic                 rate_ready;
  logic                 rate_idle;
  logic                 rate_activate_valid;
  qp_index_t            rate_activate;
  logic                 activate_b_ready;
  logic                 line_turn_valid;
  logic                 line_turn_ready;
  logic                 notified;
  qp_index_t            congested_qp;
  logic                 sent;
  // Only the fields that determine the length are read.
  // verilator lint_off UNUSEDSIGNAL
  requester_packet_t    sent_packet;
  // verilator lint_on UNUSEDSIGNAL
  logic                 timers_armed;
  logic                 timers_earliest_valid;
  cycles_t              timers_earliest;
  logic                 rate_armed;
  logic                 rate_earliest_valid;
  cycles_t              rate_earliest;

  request_side_events_t requester_events;

  assign ready = queue_ready && requester_ready && completer_ready && scheduler_ready && timers_ready && rate_ready;
  assign post_ready_o = post_ready;
  assign idle_o = ready && queue_idle && requester_idle && completer_idle && scheduler_idle && control_idle
      && rate_idle;

  always_comb begin
    events_o = requester_events;
    events_o.rdma_sends = rdma_sends;
    events_o.post_overflow = post_overflow;
    events_o.post_invalid = post_invalid;
    events_o.post_wrong_state = post_wrong_state;
  end

  request_control u_control (
    .clk_i,
    .rst_ni,
    .ready_i          (ready),
    .control_valid_i,
    .control_ready_o,
    .control_i,
    .control_done_o,
    .fail_valid_i,
    .fail_ready_o,
    .fail_i,
    .queue_valid_o    (queue_command_valid),
    .queue_ready_i    (queue_command_ready),
    .requester_valid_o(command_valid),
    .requester_ready_i(command_ready),
    .requester_done_i (command_done),
    .command_o        (command),
    .forgotten_i      (forgotten),
    .idle_o           (control_idle)
  );

  send_queue u_queue (
    .clk_i,
    .rst_ni,
    .ready_o           (queue_ready),
    .post_valid_i      (post_valid_i && ready),
    .post_ready_o      (post_ready),
    .post_i,
    .post_refused_o,
    .table_read_o      (post_table_read_o),
    .table_index_o     (post_table_index_o),
    .table_data_i      (post_table_data_i),
    .command_valid_i   (queue_command_valid),
    .command_ready_o   (queue_command_ready),
    .command_i         (command),
    .activate_valid_o  (post_activate_valid),
    .activate_ready_i  (post_activate_ready),
    .activate_o        (post_activate),
    .head_write_i      (head_write),
    .head_index_i      (head_index),
    .head_i            (head),
    .ends_read_i       (ends_read),
    .ends_index_i      (ends_index),
    .ends_head_o       (ends_head),
    .ends_tail_o       (ends_tail),
    .plan_read_i       (plan_read),
    .plan_index_i      (plan_index),
    .plan_serial_i     (plan_serial),
    .plan_o            (plan),
    .wait_read_i       (wait_read),
    .wait_serial_i     (wait_serial),
    .wait_o            (waits),
    .wire_read_i       (wire_read),
    .wire_index_i      (wire_index),
    .wire_serial_i     (wire_serial),
    .wire_o            (wires),
    .tail_read_i       (tail_read),
    .tail_index_i      (tail_index),
    .tail_o            (tail),
    .end_read_i        (end_read),
    .end_index_i       (end_index),
    .end_serial_i      (end_serial),
    .end_o             (ends),
    .rdma_sends_o      (rdma_sends),
    .post_overflow_o   (post_overflow),
    .post_invalid_o    (post_invalid),
    .post_wrong_state_o(post_wrong_state),
    .idle_o            (queue_idle)
  );

  scheduler u_scheduler (
    .clk_i,
    .rst_ni,
    .ready_o           (scheduler_ready),
    .activate_a_valid_i(activate_valid),
    .activate_a_i      (activate),
    .activate_b_valid_i(post_activate_valid || rate_activate_valid),
    .activate_b_ready_o(activate_b_ready),
    .activate_b_i      (rate_activate_valid ? rate_activate : post_activate),
    .turn_valid_o      (line_turn_valid),
    .turn_ready_i      (line_turn_ready),
    .turn_o            (turn),
    .idle_o            (scheduler_idle)
  );

  assign post_activate_ready = activate_b_ready && !rate_activate_valid;

  // Number of 4-byte words behind the packet's base transport header.
  logic [10:0] sent_words;
  assign sent_words = sent_packet.bytes[12:2] + 11'(sent_packet.bytes[1:0] != '0) + 11'(transmit_pkg::extension_words(
      sent_packet.opcode
  ));

  rate_control u_rate_control (
    .clk_i,
    .rst_ni,
    .ready_o          (rate_ready),
    .now_i,
    .turn_valid_i     (line_turn_valid),
    .turn_ready_o     (line_turn_ready),
    .turn_i           (turn),
    .turn_valid_o     (turn_valid),
    .turn_ready_i     (turn_ready),
    .turn_blocked_o   (turn_blocked),
    .sent_i           (sent),
    .sent_qp_i        (sent_packet.qp),
    .sent_words_i     (sent_words),
    .notification_i   (notified && rate_control_i),
    .notification_qp_i(congested_qp),
    .forget_i         (command_valid && command_ready),
    .forget_qp_i      (command.qp),
    .activate_valid_o (rate_activate_valid),
    .activate_ready_i (activate_b_ready),
    .activate_o       (rate_activate),
    .armed_o          (rate_armed),
    .earliest_valid_o (rate_earliest_valid),
    .earliest_o       (rate_earliest),
    .idle_o           (rate_idle)
  );
  assign marked_qp_o = congested_qp;

  // The earlier of the two deadlines.
  assign armed_o = timers_armed || rate_armed;
  assign earliest_valid_o = armed_o && (!timers_armed || timers_earliest_valid) && (!rate_armed || rate_earliest_valid);
  assign earliest_o = rate_armed && (!timers_armed || rate_earliest < timers_earliest) ?
      rate_earliest : timers_earliest;

  timers u_timers (
    .clk_i,
    .rst_ni,
    .ready_o         (timers_ready),
    .now_i,
    .set_i           (timer_set),
    .set_index_i     (timer_index),
    .set_armed_i     (timer_armed),
    .set_deadline_i  (timer_deadline),
    .expired_valid_o (expired_valid),
    .expired_ready_i (expired_ready),
    .expired_o       (expired),
    .armed_o         (timers_armed),
    .earliest_valid_o(timers_earliest_valid),
    .earliest_o      (timers_earliest)
  );

  requester #(
    .PartitionKey       (PartitionKey),
    .AcknowledgeInterval(AcknowledgeInterval),
    .AdditiveIncrease   (AdditiveIncrease),
    .WindowLimit        (WindowLimit)
  ) u_requester (
    .clk_i,
    .rst_ni,
    .ready_o         (requester_ready),
    .now_i,
    .turn_valid_i    (turn_valid),
    .turn_ready_o    (turn_ready),
    .turn_i          (turn),
    .turn_blocked_i  (turn_blocked),
    .header_valid_i,
    .header_ready_o,
    .header_i,
    .expired_valid_i (expired_valid),
    .expired_ready_o (expired_ready),
    .expired_i       (expired),
    .command_valid_i (command_valid),
    .command_ready_o (command_ready),
    .command_i       (command),
    .command_done_o  (command_done),
    .query_valid_i,
    .query_index_i,
    .query_done_o,
    .query_o,
    .table_read_o,
    .table_index_o,
    .table_data_i,
    .ends_read_o     (ends_read),
    .ends_index_o    (ends_index),
    .ends_head_i     (ends_head),
    .ends_tail_i     (ends_tail),
    .plan_read_o     (plan_read),
    .plan_index_o    (plan_index),
    .plan_serial_o   (plan_serial),
    .plan_i          (plan),
    .wait_read_o     (wait_read),
    .wait_serial_o   (wait_serial),
    .wait_i          (waits),
    .wire_read_o     (wire_read),
    .wire_index_o    (wire_index),
    .wire_serial_o   (wire_serial),
    .wire_i          (wires),
    .check_valid_o,
    .check_o,
    .grant_i,
    .activate_valid_o(activate_valid),
    .activate_o      (activate),
    .timer_set_o     (timer_set),
    .timer_index_o   (timer_index),
    .timer_armed_o   (timer_armed),
    .timer_deadline_o(timer_deadline),
    .verdict_valid_o,
    .verdict_ready_i,
    .verdict_o,
    .transmit_valid_o,
    .transmit_ready_i,
    .transmit_o,
    .fail_valid_o,
    .fail_ready_i,
    .fail_o,
    .marked_o,
    .notified_o      (notified),
    .congested_qp_o  (congested_qp),
    .sent_o          (sent),
    .sent_packet_o   (sent_packet),
    .events_o        (requester_events),
    .idle_o          (requester_idle)
  );

  completer u_completer (
    .clk_i,
    .rst_ni,
    .ready_o     (completer_ready),
    .advance_valid_i,
    .advance_ready_o,
    .advance_qp_i,
    .advance_i,
    .head_write_o(head_write),
    .head_index_o(head_index),
    .head_o      (head),
    .tail_read_o (tail_read),
    .tail_index_o(tail_index),
    .tail_i      (tail),
    .end_read_o  (end_read),
    .end_index_o (end_index),
    .end_serial_o(end_serial),
    .end_i       (ends),
    .completion_valid_o,
    .completion_ready_i,
    .completion_o,
    .forgotten_o (forgotten),
    .idle_o      (completer_idle)
  );

endmodule
