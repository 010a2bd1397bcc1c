// Types and constants of rates: those of crates/rdma/src/rate.
package rate_pkg;

  import weft_pkg::*;

  // A rate, in bytes in 65,536 ns.
  typedef logic [19:0] rate_t;

  localparam rate_t LineRate = 20'd819_200;
  localparam rate_t RateMin = 20'd819;
  localparam logic [15:0] AlphaMax = 16'hffff;
  localparam int unsigned GainShift = 6;
  localparam logic [3:0] RecoverySteps = 4'd5;
  localparam rate_t Additive = 20'd1_311;
  localparam rate_t Hyper = 20'd13_107;
  // Times a step: 2 to the power of this many bytes.
  localparam int unsigned StepBits = 20;
  // How long a byte takes, in 2^-16 cycles of 4 ns.
  typedef logic [20:0] byte_time_t;

  // What happens to a rate.
  typedef enum logic [1:0] {
    RateNotification,
    RatePeriod,        // a period without a notification
    RateBytes          // bytes were sent
  } rate_event_e;

  // The rate machine of a queue pair; at the line rate nothing else counts.
  typedef struct packed {
    rate_t               current;
    rate_t               target;
    logic [15:0]         alpha;
    logic [3:0]          timer_steps;
    logic [3:0]          byte_steps;
    logic [StepBits-1:0] bytes;
  } rate_state_t;

endpackage
