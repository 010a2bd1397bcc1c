// Retransmission time-outs: computes the time-out of each queue pair from measured round trips.
//
// One packet of a queue pair at a time is measured, from the cycle in which it is sent to the cycle of the answer
// that acknowledges it. A packet that was sent more than once is not measured, because its answer may belong to
// either transmission. Mean and mean deviation are computed as in TCP (RFC 6298), in cycles. A time-out without an
// answer doubles the next one, up to the ceiling, which is the time-out of the queue pair's attributes and also its
// initial value; a new measurement ends the doubling. Times of more than 24 bits of cycles, 67 ms, also mean the
// ceiling.
//
// The stages are those of the requester's pipeline, whose interlock keeps events of one queue pair apart: read in
// stage 3, used in stages 4 and 5, changed in stage 6, written in stage 7. Never stalls.
module round_trip
  import weft_pkg::*;
#(
  // The shortest time-out, in cycles.
  parameter logic [23:0] Floor = 24'd4096
) (
  input logic      clk_i,
  input cycles_t   now_i,
  // Clears an entry.
  input logic      clear_i,
  input qp_index_t clear_qp_i,

  // Stage 3: the queue pair's entry is read.
  input logic      read_i,
  input qp_index_t read_qp_i,

  // Stage 4: the time-out code of the queue pair's attributes.
  input logic [4:0] code_i,

  // Stage 6: the deadline of a time-out that begins now; whether it is as long as the ceiling; the deadline of a
  // time-out as long as the ceiling.
  output cycles_t deadline_o,
  output logic    whole_o,
  output cycles_t whole_deadline_o,
  // Events. `back_i`: the requester goes back N; `timed_out_i`: a time-out shorter than the ceiling expired.
  input  logic    forget_i,
  input  logic    sent_i,
  input  psn_t    sent_psn_i,
  input  logic    answered_i,
  // One past the last acknowledged PSN.
  input  psn_t    end_i,
  input  logic    back_i,
  input  logic    timed_out_i,

  // Stage 7: the entry is written back.
  input logic      write_i,
  input qp_index_t write_qp_i
);

  typedef logic [23:0] interval_t;

  typedef struct packed {
    // The packet under measurement.
    logic        measuring;
    psn_t        psn;
    logic [27:0] since;
    // There has been a measurement.
    logic        known;
    interval_t   mean;
    interval_t   deviation;
    // The time-out, including its doublings; all ones: the ceiling.
    interval_t   interval;
  } entry_t;

  entry_t entry4;
  entry_t entry5_q;
  entry_t entry6_q;
  entry_t entry7_q;
  entry_t entry7;

  ram #(
    .T    (entry_t),
    .Depth(QueuePairs)
  ) u_entries (
    .clk_i,
    .write_i        (write_i || clear_i),
    .write_address_i(clear_i ? clear_qp_i : write_qp_i),
    .write_data_i   (clear_i ? '0 : entry7),
    .read_i,
    .read_address_i (read_qp_i),
    .read_data_o    (entry4)
  );

  // Stage 4: compares the time-out with the ceiling.

  cycles_t ceiling4;
  logic    whole4;
  logic    whole5_q;
  cycles_t wait5_q;
  cycles_t ceiling5_q;

  assign ceiling4 = 48'd1024 << code_i;
  assign whole4   = !entry4.known || entry4.interval == '1 || 48'(entry4.interval) >= ceiling4;

  always_ff @(posedge clk_i) begin
    entry5_q <= entry4;
    ceiling5_q <= ceiling4;
    whole5_q <= whole4;
    wait5_q <= whole4 ? ceiling4 : 48'(entry4.interval);
  end

  // Stage 5: computes the deadlines and the measured time.

  cycles_t          deadline6_q;
  cycles_t          whole_deadline6_q;
  logic      [27:0] sample5;
  interval_t        sample6_q;
  logic             whole6_q;

  assign sample5 = now_i[27:0] - entry5_q.since;
  assign deadline_o = deadline6_q;
  assign whole_deadline_o = whole_deadline6_q;
  assign whole_o = whole6_q;

  always_ff @(posedge clk_i) begin
    entry6_q <= entry5_q;
    deadline6_q <= now_i + wait5_q;
    whole_deadline6_q <= now_i + ceiling5_q;
    sample6_q <= sample5[27:24] != '0 ? '1 : sample5[23:0];
    whole6_q <= whole5_q;
  end

  // Stage 6: applies the events to the entry.

  logic      longer6;
  logic      measured6;
  logic      measured7_q;
  logic      longer7_q;
  interval_t error7_q;
  interval_t sample7_q;

  assign longer6   = sample6_q > entry6_q.mean;
  assign measured6 = answered_i && entry6_q.measuring && psn_before(entry6_q.psn, end_i);

  always_ff @(posedge clk_i) begin
    entry7_q <= entry6_q;
    measured7_q <= measured6;
    longer7_q <= longer6;
    error7_q <= longer6 ? sample6_q - entry6_q.mean : entry6_q.mean - sample6_q;
    sample7_q <= sample6_q;
    if (measured6 || back_i) begin
      entry7_q.measuring <= 1'b0;
    end else if (sent_i && !entry6_q.measuring) begin
      entry7_q.measuring <= 1'b1;
      entry7_q.psn <= sent_psn_i;
      entry7_q.since <= now_i[27:0];
    end
    if (timed_out_i) begin
      entry7_q.interval <= entry6_q.interval[23] ? '1 : {entry6_q.interval[22:0], 1'b0};
    end
    if (forget_i) entry7_q <= '0;
  end

  // Stage 7: computes mean, deviation and the new time-out.

  interval_t mean7;
  interval_t deviation7;
  logic [26:0] sum7;

  always_comb begin
    if (!entry7_q.known) begin
      mean7 = sample7_q;
      deviation7 = {1'b0, sample7_q[23:1]};
    end else begin
      mean7 = longer7_q ? entry7_q.mean + {3'd0, error7_q[23:3]} : entry7_q.mean - {3'd0, error7_q[23:3]};
      deviation7 = entry7_q.deviation - {2'd0, entry7_q.deviation[23:2]} + {2'd0, error7_q[23:2]};
    end
    sum7   = {3'd0, mean7} + {1'b0, deviation7, 2'd0};
    entry7 = entry7_q;
    if (measured7_q) begin
      entry7.known = 1'b1;
      entry7.mean = mean7;
      entry7.deviation = deviation7;
      if (sum7[26:24] != '0) entry7.interval = '1;
      else if (sum7[23:0] < Floor) entry7.interval = Floor;
      else entry7.interval = sum7[23:0];
    end
  end

endmodule
