// Passes the commands that change a queue pair's state to the send queue, the requester and the completer, one
// command at a time.
//
// The send queue gets a command first, so that no request is posted to a queue that is being closed. A reset is done
// when the completer has dropped the requests, because the placement block may still hold older advances of the queue
// pair. Latency: about 15 cycles; a reset takes as long as the placement block needs for those advances. Throughput:
// one command at a time. Order: of arrival; a failure that the responder found goes before a command of the driver.
// Stalls: while a command is executed.
module request_control
  import weft_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,
  input logic ready_i,

  input  logic      control_valid_i,
  output logic      control_ready_o,
  input  control_t  control_i,
  output logic      control_done_o,
  input  logic      fail_valid_i,
  output logic      fail_ready_o,
  input  qp_index_t fail_i,

  output logic     queue_valid_o,
  input  logic     queue_ready_i,
  output logic     requester_valid_o,
  input  logic     requester_ready_i,
  input  logic     requester_done_i,
  output control_t command_o,
  input  logic     forgotten_i,
  output logic     idle_o
);

  typedef enum logic [2:0] {
    StepIdle,
    StepQueue,
    StepRequester,
    StepEffect,
    StepForget,
    StepDone
  } step_e;

  step_e    step_q;
  step_e    step_d;
  control_t command_q;
  logic     by_driver_q;
  logic     take;
  logic     concerns;

  assign take = ready_i && step_q == StepIdle;
  assign fail_ready_o = take;
  assign control_ready_o = take && !fail_valid_i;
  // The other operations concern the responder.
  assign concerns = control_i.operation inside {ControlReset, ControlSend, ControlError};
  assign command_o = command_q;
  assign queue_valid_o = step_q == StepQueue;
  assign requester_valid_o = step_q == StepRequester;
  assign control_done_o = step_q == StepDone && by_driver_q;
  assign idle_o = step_q == StepIdle && !control_valid_i && !fail_valid_i;

  always_comb begin
    step_d = step_q;
    unique case (step_q)
      StepIdle: begin
        if (take && fail_valid_i) step_d = StepQueue;
        else if (take && control_valid_i) step_d = concerns ? StepQueue : StepDone;
      end
      StepQueue: if (queue_ready_i) step_d = StepRequester;
      StepRequester: if (requester_ready_i) step_d = StepEffect;
      StepEffect: if (requester_done_i) step_d = command_q.operation == ControlReset ? StepForget : StepDone;
      StepForget: if (forgotten_i) step_d = StepDone;
      StepDone: step_d = StepIdle;
      default: step_d = StepIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) step_q <= StepIdle;
    else step_q <= step_d;
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      by_driver_q <= !fail_valid_i;
      command_q   <= fail_valid_i ? '{operation: ControlError, qp: fail_i, argument: '0} : control_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(forgotten_i && !(step_q inside {StepEffect, StepForget})))
      else $error("nobody asked to forget");
      assert (!(forgotten_i && step_q == StepEffect))
      else $error("forgotten before the requester was done");
    end
  end

endmodule
