// The rate of one queue pair after an event, by DCQCN (SIGCOMM 2015, sections 3.1 and 3.3): bit by bit what
// crates/rdma/src/rate/machine.rs computes.
//
// The state is an input together with the event. When done, the new state and the time of one byte are stable until
// the next start. A state whose rate is the line rate counts as the initial state; its other fields are ignored.
// Latency: 30 cycles if the rate changes, 4 if not. Throughput: one event at a time. Stalls: never.
module rate_machine
  import rate_pkg::*;
(
  input  logic               clk_i,
  input  logic               rst_ni,
  // Must be low while the machine is busy.
  input  logic               start_i,
  input  rate_event_e        event_i,
  input  logic        [12:0] bytes_i,
  input  rate_state_t        state_i,
  input  byte_time_t         byte_time_i,
  // Pulse.
  output logic               done_o,
  output rate_state_t        state_o,
  output byte_time_t         byte_time_o
);

  typedef enum logic [2:0] {
    StepIdle,
    StepMultiply,
    StepChange,
    StepBound,
    StepTarget,
    StepRate,
    StepDivide,
    StepDone
  } step_e;

  // Bits of the quotient.
  localparam int unsigned Digits = 21;

  step_e                    step_q;
  rate_event_e              event_q;
  logic        [      12:0] bytes_q;
  rate_state_t              state_q;
  byte_time_t               byte_time_q;
  logic        [      35:0] product_q;
  logic        [StepBits:0] bytes_sum_q;
  // Operand of the rate increase.
  rate_t                    more_q;
  // The time of a byte is 2^30 / rate. The first ten digits of the quotient are always zero, because every rate is
  // large enough.
  rate_t                    remainder_q;
  logic        [       4:0] digits_q;
  logic        [      20:0] shifted;
  logic                     fits;
  logic        [       3:0] fewer;
  logic        [       3:0] most;
  logic        [       3:0] beyond;
  logic        [      20:0] target_sum;
  logic        [      20:0] rate_sum;
  rate_t                    cut;
  rate_t                    rate_after_cut;

  assign done_o = step_q == StepDone;
  assign state_o = state_q;
  assign byte_time_o = byte_time_q;

  assign shifted = {remainder_q, 1'b0};
  assign fits = shifted >= {1'b0, state_q.current};
  assign fewer = state_q.timer_steps < state_q.byte_steps ? state_q.timer_steps : state_q.byte_steps;
  assign most = state_q.timer_steps < state_q.byte_steps ? state_q.byte_steps : state_q.timer_steps;
  assign beyond = fewer - RecoverySteps;
  assign target_sum = {1'b0, state_q.target} + {1'b0, more_q};
  assign rate_sum = {1'b0, state_q.current} + {1'b0, state_q.target} + 21'd1;
  assign cut = {1'b0, product_q[35:17]};
  assign rate_after_cut = state_q.current - cut;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      step_q <= StepIdle;
    end else begin
      unique case (step_q)
        StepIdle: if (start_i) step_q <= StepMultiply;
        StepMultiply: step_q <= StepChange;
        StepChange: begin
          if (event_q == RateBytes && !bytes_sum_q[StepBits]) step_q <= StepDone;
          else step_q <= StepBound;
        end
        StepBound: step_q <= event_q == RateNotification ? StepDivide : StepTarget;
        StepTarget: step_q <= StepRate;
        StepRate: step_q <= StepDivide;
        StepDivide: if (digits_q == 5'(Digits - 1)) step_q <= StepDone;
        StepDone: step_q <= StepIdle;
        default: step_q <= StepIdle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    unique case (step_q)
      StepIdle:
      if (start_i) begin
        event_q <= event_i;
        bytes_q <= bytes_i;
        state_q <= state_i;
        byte_time_q <= byte_time_i;
        if (state_i.current == LineRate) begin
          state_q <= '{current: LineRate, target: LineRate, alpha: AlphaMax, default: '0};
        end
      end
      StepMultiply: begin
        product_q   <= 36'(state_q.current) * 36'(state_q.alpha);
        bytes_sum_q <= {1'b0, state_q.bytes} + (StepBits + 1)'(bytes_q);
      end
      StepChange: begin
        unique case (event_q)
          RateNotification: begin
            state_q.target <= state_q.current;
            state_q.current <= rate_after_cut;
            state_q.alpha <= state_q.alpha - (state_q.alpha >> GainShift);
            state_q.timer_steps <= '0;
            state_q.byte_steps <= '0;
            state_q.bytes <= '0;
          end
          RatePeriod: begin
            state_q.alpha <= state_q.alpha - (state_q.alpha >> GainShift) - 16'(state_q.alpha[GainShift-1:0] != '0);
            if (state_q.timer_steps != '1) state_q.timer_steps <= state_q.timer_steps + 1'b1;
          end
          default: begin
            state_q.bytes <= bytes_sum_q[StepBits-1:0];
            if (bytes_sum_q[StepBits] && state_q.byte_steps != '1) state_q.byte_steps <= state_q.byte_steps + 1'b1;
          end
        endcase
      end
      StepBound: begin
        if (event_q == RateNotification) begin
          if (state_q.current < RateMin) state_q.current <= RateMin;
          state_q.alpha <= state_q.alpha > AlphaMax - 16'(1 << (16 - GainShift)) ? AlphaMax
              : state_q.alpha + 16'(1 << (16 - GainShift));
        end
        more_q <= fewer > RecoverySteps ? Hyper * 20'(beyond) : most >= RecoverySteps ? Additive : '0;
      end
      StepTarget: state_q.target <= target_sum > {1'b0, LineRate} ? LineRate : target_sum[19:0];
      StepRate: state_q.current <= rate_sum[20:1];
      StepDivide: begin
        byte_time_q <= {byte_time_q[Digits-2:0], fits};
      end
      default: ;
    endcase
    if (step_q == StepDivide) begin
      remainder_q <= fits ? 20'(shifted - {1'b0, state_q.current}) : shifted[19:0];
      digits_q <= digits_q + 1'b1;
    end else begin
      remainder_q <= 20'd512;
      digits_q <= '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!start_i || step_q == StepIdle)
      else $error("an event before the last one is done");
      assert (!done_o || (state_q.current >= RateMin && state_q.current <= LineRate))
      else $error("a rate out of its bounds");
    end
  end

endmodule
