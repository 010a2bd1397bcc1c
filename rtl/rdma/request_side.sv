// Skeleton: the ports are final, the function follows.
module request_side
  import weft_pkg::*;
#(
  parameter logic [15:0] PartitionKey        = 16'hffff,
  // Packets after which an acknowledgement is asked for.
  parameter int unsigned AcknowledgeInterval = 16,
  // 0: always the whole window; 1: additive increase, multiplicative decrease.
  parameter bit          AdditiveIncrease    = 1'b0,
  // Packets that a queue pair may have outstanding: 1 to WindowPackets.
  parameter int unsigned WindowLimit         = WindowPackets
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  cycles_t              now_i,

  input  logic                 post_valid_i,
  output logic                 post_ready_o,
  input  work_request_t        post_i,
  // From the driver. Done is a pulse when all that comes later meets the new state.
  input  logic                 control_valid_i,
  output logic                 control_ready_o,
  input  control_t             control_i,
  output logic                 control_done_o,
  // The responder refused a request: this queue pair enters ERROR.
  input  logic                 fail_valid_i,
  output logic                 fail_ready_o,
  input  qp_index_t            fail_i,
  // A request of ours failed: the responder of this queue pair must enter ERROR.
  output logic                 fail_valid_o,
  input  logic                 fail_ready_i,
  output qp_index_t            fail_o,

  input  logic                 header_valid_i,
  output logic                 header_ready_o,
  input  roce_header_t         header_i,

  // The table of queue pairs: data one cycle after read. One port for packets, one for posts.
  output logic                 table_read_o,
  output qp_index_t            table_index_o,
  input  queue_pair_t          table_data_i,
  output logic                 post_table_read_o,
  output qp_index_t            post_table_index_o,
  input  queue_pair_t          post_table_data_i,
  // The region table: the grant three cycles after the request.
  output logic                 check_valid_o,
  output access_request_t      check_o,
  input  access_grant_t        grant_i,

  output logic                 verdict_valid_o,
  input  logic                 verdict_ready_i,
  output placement_t           verdict_o,
  // Comes back from the placement when all before it is visible.
  input  logic                 advance_valid_i,
  output logic                 advance_ready_o,
  input  qp_index_t            advance_qp_i,
  input  advance_t             advance_i,

  output logic                 transmit_valid_o,
  input  logic                 transmit_ready_i,
  output transmit_t            transmit_o,
  output logic                 completion_valid_o,
  input  logic                 completion_ready_i,
  output completion_t          completion_o,

  // The earliest deadline, for a simulator that skips idle cycles: see `timers`.
  output logic                 armed_o,
  output logic                 earliest_valid_o,
  output cycles_t              earliest_o,

  // Valid may be a pulse or held until done; the answer holds until the next query.
  input  logic                 query_valid_i,
  input  qp_index_t            query_index_i,
  output logic                 query_done_o,
  output requester_query_t     query_o,

  output request_side_events_t events_o,
  // Nothing inside: no request, packet or event. Timers may run.
  output logic                 idle_o
);

  assign post_ready_o = 1'b0;
  assign control_ready_o = 1'b0;
  assign control_done_o = 1'b0;
  assign fail_ready_o = 1'b0;
  assign fail_valid_o = 1'b0;
  assign fail_o = '0;
  assign header_ready_o = 1'b0;
  assign table_read_o = 1'b0;
  assign table_index_o = '0;
  assign post_table_read_o = 1'b0;
  assign post_table_index_o = '0;
  assign check_valid_o = 1'b0;
  assign check_o = '0;
  assign verdict_valid_o = 1'b0;
  assign verdict_o = '0;
  assign advance_ready_o = 1'b0;
  assign transmit_valid_o = 1'b0;
  assign transmit_o = '0;
  assign completion_valid_o = 1'b0;
  assign completion_o = '0;
  assign armed_o = 1'b0;
  assign earliest_valid_o = 1'b0;
  assign earliest_o = '0;
  assign query_done_o = 1'b0;
  assign query_o = '0;
  assign events_o = '0;
  assign idle_o = 1'b1;

  // verilator lint_off UNUSEDSIGNAL
  logic unused;
  assign unused = ^{clk_i, rst_ni, now_i, post_valid_i, post_i, control_valid_i, control_i, fail_valid_i, fail_i,
                    fail_ready_i, header_valid_i, header_i, table_data_i, post_table_data_i, grant_i, verdict_ready_i,
                    advance_valid_i, advance_qp_i, advance_i, transmit_ready_i, completion_ready_i, query_valid_i,
                    query_index_i};
  // verilator lint_on UNUSEDSIGNAL

endmodule
