// The sending half of the responder: what the peers are due, queue pair by queue pair.
module responses
  import weft_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,
  // What the peers are due, in order, when its data is visible.
  input  logic              answer_valid_i,
  output logic              answer_ready_o,
  input  qp_index_t         answer_qp_i,
  input  answer_t           answer_i,
  input  logic              control_valid_i,
  output logic              control_ready_o,
  input  control_t          control_i,
  // Of the queue pair table: data one cycle later.
  output logic              table_read_o,
  output qp_index_t         table_index_o,
  input  queue_pair_t       table_data_i,
  // Of the region table: the grant three cycles later.
  output logic              check_valid_o,
  output access_request_t   check_o,
  input  access_grant_t     grant_i,
  output logic              transmit_valid_o,
  input  logic              transmit_ready_i,
  output transmit_t         transmit_o,
  // The responder must take this queue pair to the ERROR state.
  output logic              fail_valid_o,
  input  logic              fail_ready_i,
  output qp_index_t         fail_o,
  // The answer to a READ or atomic has been sent, given up or forgotten; one pulse for each.
  output logic              answered_valid_o,
  output qp_index_t         answered_qp_o,
  output logic              answered_duplicate_o,
  output responses_events_t events_o,
  output logic              idle_o
);

  assign answer_ready_o = 1'b0;
  assign control_ready_o = 1'b0;
  assign table_read_o = 1'b0;
  assign table_index_o = '0;
  assign check_valid_o = 1'b0;
  assign check_o = '0;
  assign transmit_valid_o = 1'b0;
  assign transmit_o = '0;
  assign fail_valid_o = 1'b0;
  assign fail_o = '0;
  assign answered_valid_o = 1'b0;
  assign answered_qp_o = '0;
  assign answered_duplicate_o = 1'b0;
  assign events_o = '0;
  assign idle_o = 1'b1;

  logic unused;
  assign unused = ^{clk_i, rst_ni, answer_valid_i, answer_qp_i, answer_i, control_valid_i, control_i, table_data_i,
                    grant_i, transmit_ready_i, fail_ready_i};

endmodule
