// Retransmission timers of the engine, all in one block. Twin of `Pace` in crates/engines/kv/src/stream.rs.
//
// A pace (timer with back-off) waits for an interval without progress; the interval doubles, up to a limit, each time
// it expires. The timer is only ever moved to an earlier time; when it fires, it checks the clock. So progress, which
// is frequent, moves no timer.
//
// One command may combine several actions, in this order: `fire` (the timer has fired), `progress` (some progress was
// made, or waiting begins), `arm` (set the timer, unless it is set to that time or an earlier one). Latency: 2 cycles
// to `done_o` and to the timer. Throughput: one command every 2 cycles. Order: kept.
module kv_pace
  import weft_pkg::*;
  import kv_pkg::*;
#(
  parameter int unsigned N = 16  // a power of two
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  cycles_t                 now_i,
  // The first and the longest interval, in cycles; at most 32 bits.
  input  cycles_t                 first_i,
  input  cycles_t                 most_i,
  // Stops the timer.
  input  logic                    forget_i,
  input  logic                    command_valid_i,
  output logic                    command_ready_o,
  input  logic    [$clog2(N)-1:0] pace_i,
  input  logic                    fire_i,
  input  logic                    progress_i,
  input  logic                    arm_i,
  output logic                    done_o,
  // Valid with `done_o` after `fire`: a retransmission is due.
  output logic                    due_o,
  output logic                    timer_valid_o,
  output logic    [$clog2(N)-1:0] timer_o,
  output cycles_t                 timer_at_o,
  output logic                    idle_o
);

  typedef struct packed {
    logic [31:0] length;
    cycles_t     since;
  } interval_t;

  (* ram_style = "distributed" *)
  interval_t                 intervals[N];
  (* ram_style = "distributed" *)
  cycles_t                   sets     [N];
  logic      [        N-1:0] set_q;

  logic                      busy_q;
  logic      [$clog2(N)-1:0] pace_q;
  logic fire_q, progress_q, arm_q;
  interval_t interval_q;
  cycles_t   due_at_q;
  cycles_t   set_at_q;
  cycles_t   now_q;

  // The first of the two cycles reads the pace, the second updates it.

  assign command_ready_o = !busy_q;

  interval_t begun;
  assign begun = progress_i ? '{length: first_i[31:0], since: now_i} : intervals[pace_i];

  always_ff @(posedge clk_i) begin
    if (command_valid_i && !busy_q) begin
      pace_q     <= pace_i;
      fire_q     <= fire_i;
      progress_q <= progress_i;
      arm_q      <= arm_i;
      now_q      <= now_i;
      set_at_q   <= sets[pace_i];
      interval_q <= begun;
      due_at_q   <= begun.since + 48'(begun.length);
    end
  end

  logic late;
  assign due_o = fire_q && set_q[pace_q] && now_q >= due_at_q;
  assign late = arm_q && (!set_q[pace_q] || set_at_q > due_at_q);
  assign done_o = busy_q;
  assign timer_valid_o = busy_q && late;
  assign timer_o = pace_q;
  assign timer_at_o = due_at_q;
  assign idle_o = !busy_q;

  interval_t written;
  logic [32:0] doubled;
  assign doubled = {interval_q.length, 1'b0};
  always_comb begin
    written = interval_q;
    if (due_o) begin
      written.since  = now_q;
      written.length = doubled > {1'b0, most_i[31:0]} ? most_i[31:0] : doubled[31:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (busy_q && (progress_q || due_o)) intervals[pace_q] <= written;
    if (timer_valid_o) sets[pace_q] <= due_at_q;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q <= 1'b0;
      set_q  <= '0;
    end else begin
      busy_q <= command_valid_i && !busy_q;
      if (busy_q && fire_q) set_q[pace_q] <= 1'b0;
      if (busy_q && late) set_q[pace_q] <= 1'b1;
      if (forget_i) set_q <= '0;
    end
  end

  // After it has fired, a pace is armed by a later command, when the messages that are due have been sent.
  always_ff @(posedge clk_i) begin
    if (rst_ni && command_valid_i) assert (!fire_i || !progress_i && !arm_i);
  end

endmodule
