// What a node remembers of its clients, so that no request takes effect twice.
module kv_sessions
  import weft_pkg::*;
  import kv_pkg::*;
#(
  parameter int unsigned Limit    = SessionsMax,  // clients that SessionBegin admits
  parameter int unsigned Capacity = SessionRoom,  // clients that are remembered; a power of two
  parameter cycles_t     Idle     = SessionIdle   // a client silent for longer makes room
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  cycles_t          now_i,
  input  logic             request_valid_i,
  output logic             request_ready_o,
  input  session_request_t request_i,
  // One for each request, in order; not held.
  output logic             answer_valid_o,
  output session_answer_t  answer_o,
  // The words of an export, after its answer.
  output logic             word_valid_o,
  input  logic             word_ready_i,
  output logic [63:0]      word_o,
  output logic             word_last_o,
  // A client was forgotten before it was idle for long enough.
  output logic             evicted_early_o,
  output logic             idle_o
);

  assign {request_ready_o, answer_valid_o, answer_o, word_valid_o, word_o, word_last_o, evicted_early_o} = '0;
  assign idle_o = 1'b1;

endmodule
