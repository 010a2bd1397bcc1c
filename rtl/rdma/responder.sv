// Skeleton: the ports are final, the function follows.
module responder
  import weft_pkg::*;
#(
  // Payload bytes that may be on their way to the host; 0: any number.
  parameter int unsigned HostCreditBytes = 32768,
  // Calls of engines that may be on their way or waiting.
  parameter int unsigned RpcCredits      = 16,
  parameter logic [15:0] PartitionKey    = 16'hffff
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  // From the driver. Done is a pulse when all later packets meet the new state.
  input  logic               control_valid_i,
  output logic               control_ready_o,
  input  control_t           control_i,
  output logic               control_done_o,
  // From an engine: as ControlAccess, with priority.
  input  logic               permission_valid_i,
  output logic               permission_ready_o,
  input  qp_index_t          permission_qp_i,
  input  access_t            permission_access_i,
  // The requester or the responses found a fault: this queue pair enters ERROR.
  input  logic               fail_valid_i,
  output logic               fail_ready_o,
  input  qp_index_t          fail_i,
  // A request was refused: the requester of this queue pair must enter ERROR.
  output logic               fail_valid_o,
  input  logic               fail_ready_i,
  output qp_index_t          fail_o,

  input  logic               receive_valid_i,
  output logic               receive_ready_o,
  input  receive_request_t   receive_i,
  input  logic               header_valid_i,
  output logic               header_ready_o,
  input  roce_header_t       header_i,

  // The table of queue pairs: data one cycle after read.
  output logic               table_read_o,
  output qp_index_t          table_index_o,
  input  queue_pair_t        table_data_i,
  // The region table: the grant three cycles after the request.
  output logic               check_valid_o,
  output access_request_t    check_o,
  input  access_grant_t      grant_i,

  // Payload bytes that have reached the host.
  input  logic               credit_return_valid_i,
  input  payload_bytes_t     credit_return_i,
  // One call has left the queue of calls: a pulse.
  input  logic               rpc_free_i,
  // A READ or atomic has been answered completely, or its answer given up: a pulse.
  input  logic               answered_valid_i,
  input  qp_index_t          answered_qp_i,
  input  logic               answered_duplicate_i,

  output logic               verdict_valid_o,
  input  logic               verdict_ready_i,
  output placement_t         verdict_o,

  // Valid may be a pulse or held until done; the answer holds until the next query.
  input  logic               query_valid_i,
  input  qp_index_t          query_index_i,
  output logic               query_done_o,
  output responder_query_t   query_o,

  output responder_events_t  events_o,
  output logic               idle_o
);

  assign control_ready_o = 1'b0;
  assign control_done_o = 1'b0;
  assign permission_ready_o = 1'b0;
  assign fail_ready_o = 1'b0;
  assign fail_valid_o = 1'b0;
  assign fail_o = '0;
  assign receive_ready_o = 1'b0;
  assign header_ready_o = 1'b0;
  assign table_read_o = 1'b0;
  assign table_index_o = '0;
  assign check_valid_o = 1'b0;
  assign check_o = '0;
  assign verdict_valid_o = 1'b0;
  assign verdict_o = '0;
  assign query_done_o = 1'b0;
  assign query_o = '0;
  assign events_o = '0;
  assign idle_o = 1'b1;

  logic unused;
  assign unused = ^{clk_i, rst_ni, control_valid_i, control_i, permission_valid_i, permission_qp_i,
                    permission_access_i, fail_valid_i, fail_i, fail_ready_i, receive_valid_i, receive_i,
                    header_valid_i, header_i, table_data_i, grant_i, credit_return_valid_i,
                    credit_return_i, rpc_free_i, answered_valid_i, answered_qp_i, answered_duplicate_i,
                    verdict_ready_i, query_valid_i, query_index_i};

endmodule
