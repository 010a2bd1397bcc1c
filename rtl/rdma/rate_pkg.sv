// Types and constants of rate control, as in crates/rdma/src/rate.
package rate_pkg;

  import weft_pkg::*;

  // A rate, in units of one byte per 65,536 ns.
  typedef logic [19:0] rate_t;

  localparam rate_t LineRate = 20'd819_200;
  localparam rate_t RateMin = 20'd819;
  localparam logic [15:0] AlphaMax = 16'hffff;
  localparam int unsigned GainShift = 6;
  localparam logic [3:0] RecoverySteps = 4'd5;
  localparam rate_t Additive = 20'd1_311;
  localparam rate_t Hyper = 20'd13_107;
  // The number of bytes that makes one increase step is 2 to the power of this.
  localparam int unsigned StepBits = 20;
  // The time that one byte takes, in 2^-16 cycles of 4 ns.
  typedef logic [20:0] byte_time_t;

  // Events that change a rate.
  typedef enum logic [1:0] {
    RateNotification,
    RatePeriod,        // a period without a notification
    RateBytes          // bytes were sent
  } rate_event_e;

  // The rate state of a queue pair. At the line rate only `current` is defined.
  typedef struct packed {
    rate_t               current;
    rate_t               target;
    logic [15:0]         alpha;
    logic [3:0]          timer_steps;
    logic [3:0]          byte_steps;
    logic [StepBits-1:0] bytes;
  } rate_state_t;

endpackage
