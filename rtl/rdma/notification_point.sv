// The notification point of all queue pairs: decides which queue pair sends its peer a congestion notification packet
// (CNP), at most one in each interval.
//
// Latency: 4 cycles from a marked packet to its notification. Throughput: a marked packet in 2 cycles. Order: kept.
// Stalls: never. Marks that arrive faster, or while notifications are not accepted, may be dropped; the next marked
// packet triggers the notification instead.
//
// After reset the times of the last notifications are cleared, one a cycle, until `ready_o` is high.
module notification_point
  import weft_pkg::*;
#(
  // 50 us in cycles of 4 ns (DCQCN, section 3.1).
  parameter int unsigned Interval = 12_500
) (
  input  logic      clk_i,
  input  logic      rst_ni,
  output logic      ready_o,
  input  cycles_t   now_i,
  // Pulses: a request (or a response) carried a congestion mark.
  input  logic      request_i,
  input  qp_index_t request_qp_i,
  input  logic      response_i,
  input  qp_index_t response_qp_i,
  // Pulse: the queue pair was reset.
  input  logic      forget_i,
  input  qp_index_t forget_qp_i,
  output logic      notify_valid_o,
  input  logic      notify_ready_i,
  output qp_index_t notify_o,
  output logic      idle_o
);

  localparam int unsigned IndexBits = $bits(qp_index_t);
  localparam int unsigned Sources = 3;

  // Index of the next time to clear after reset; the highest bit is set when all are cleared.
  logic      [IndexBits:0] clear_q;
  logic      [Sources-1:0] valid;
  logic      [Sources-1:0] ready;
  qp_index_t [Sources-1:0] qp;
  logic      [Sources-1:0] pushed;
  qp_index_t [Sources-1:0] pushed_qp;
  logic                    look_q;
  logic                    forget_q;
  qp_index_t               qp_q;
  qp_index_t               chosen;
  logic                    take;
  cycles_t                 quiet_until;
  logic                    due;
  logic                    room;

  assign ready_o = clear_q[IndexBits];
  assign pushed = {response_i, request_i, forget_i};
  assign pushed_qp = {response_qp_i, request_qp_i, forget_qp_i};

  for (genvar source = 0; source < Sources; source++) begin : gen_sources
    fifo #(
      .T    (qp_index_t),
      .Depth(8)
    ) u_marked (
      .clk_i,
      .rst_ni,
      .in_valid_i (pushed[source] && ready_o),
      // verilator lint_off PINCONNECTEMPTY
      .in_ready_o (),
      // verilator lint_on PINCONNECTEMPTY
      .in_i       (pushed_qp[source]),
      .out_valid_o(valid[source]),
      .out_ready_i(ready[source]),
      .out_o      (qp[source]),
      // verilator lint_off PINCONNECTEMPTY
      .level_o    ()
      // verilator lint_on PINCONNECTEMPTY
    );
  end

  // One in two cycles, so the write of the previous one precedes the next read.
  assign take = ready_o && !look_q && room && valid != '0;
  assign ready = !take ? '0 : valid[0] ? 3'b001 : valid[1] ? 3'b010 : 3'b100;
  assign chosen = valid[0] ? qp[0] : valid[1] ? qp[1] : qp[2];
  assign due = look_q && !forget_q && now_i >= quiet_until;

  ram #(
    .T    (cycles_t),
    .Depth(QueuePairs)
  ) u_quiet (
    .clk_i,
    .write_i        (!ready_o || due || look_q && forget_q),
    .write_address_i(ready_o ? qp_q : clear_q[IndexBits-1:0]),
    .write_data_i   (due ? now_i + cycles_t'(Interval) : '0),
    .read_i         (take),
    .read_address_i (chosen),
    .read_data_o    (quiet_until)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      clear_q <= '0;
      look_q  <= 1'b0;
    end else begin
      if (!ready_o) clear_q <= clear_q + 1'b1;
      look_q <= take;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      qp_q <= chosen;
      forget_q <= valid[0];
    end
  end

  fifo #(
    .T    (qp_index_t),
    .Depth(8)
  ) u_notifications (
    .clk_i,
    .rst_ni,
    .in_valid_i (due),
    .in_ready_o (room),
    .in_i       (qp_q),
    .out_valid_o(notify_valid_o),
    .out_ready_i(notify_ready_i),
    .out_o      (notify_o),
    // verilator lint_off PINCONNECTEMPTY
    .level_o    ()
    // verilator lint_on PINCONNECTEMPTY
  );

  assign idle_o = ready_o && valid == '0 && !look_q && !notify_valid_o && pushed == '0;

endmodule
