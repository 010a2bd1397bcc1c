// The reaction point of all queue pairs: limits the rate of queue pairs that received congestion notifications. Twin
// of crates/rdma/src/rate/pace.rs.
//
//   scheduler -> turns (blocked?) -> requester -> packets -> charges -> time of the next packet, rate_machine
//   notifications, ends of periods -> rate_machine; limited queue pairs circulate in a ring until their time has come
//
// A queue pair at the line rate is not in the ring; its turns and packets pass without delay. A limited queue pair
// whose next packet is not due is blocked: the requester sends nothing in its turns, and the queue pair is activated
// when the packet is due. A packet is charged only after the requester has made it, so a second packet may leave
// before the first charge blocks the queue pair. The second is charged as well, so the mean rate is right.
//
// Latency: a turn passes in the same cycle; a charge blocks 7 cycles after its packet. A packet that is due leaves
// late by at most 6 cycles for each limited queue pair, and 36 for each whose period ends meanwhile; later packets
// make up for a delay of up to a microsecond. Throughput: a charge in 9 cycles. Order: none. Stalls: turns stall
// while eight charges wait.
//
// After reset the states are cleared, one a cycle, until `ready_o` is high.
module rate_control
  import weft_pkg::*;
  import rate_pkg::*;
#(
  // 55 us in cycles of 4 ns (DCQCN, section 5.2).
  parameter int unsigned Period = 13_750,
  // 1,024 ns in cycles: the longest backlog that a queue pair may catch up after it was idle.
  parameter int unsigned Burst  = 256
) (
  input  logic             clk_i,
  input  logic             rst_ni,
  output logic             ready_o,
  input  cycles_t          now_i,
  // Turns, from the scheduler to the requester.
  input  logic             turn_valid_i,
  output logic             turn_ready_o,
  input  qp_index_t        turn_i,
  output logic             turn_valid_o,
  input  logic             turn_ready_i,
  // The next packet of this turn's queue pair is not due. This signal is valid later in the cycle than the turn, so
  // the arbitration between events must not depend on it.
  output logic             turn_blocked_o,
  // Pulse: a request packet was made. `sent_words_i` counts its 4-byte words behind the base transport header.
  input  logic             sent_i,
  input  qp_index_t        sent_qp_i,
  input  logic      [10:0] sent_words_i,
  // Pulse: a congestion notification was received.
  input  logic             notification_i,
  input  qp_index_t        notification_qp_i,
  // Pulse: the queue pair changes its state, so its rate returns to the line rate. At most one pulse in eight cycles.
  input  logic             forget_i,
  input  qp_index_t        forget_qp_i,
  // Activations for the scheduler.
  output logic             activate_valid_o,
  input  logic             activate_ready_i,
  output qp_index_t        activate_o,
  // For a simulator that skips cycles in which nothing happens; see `timers`.
  output logic             armed_o,
  output logic             earliest_valid_o,
  output cycles_t          earliest_o,
  output logic             idle_o
);

  localparam int unsigned IndexBits = $bits(qp_index_t);
  // Bytes of a packet beside its words: preamble, Ethernet, IPv4, UDP, BTH, ICRC, frame check sequence and gap.
  localparam logic [12:0] Framing = 13'd82;

  // Times in cycles. The low 32 bits suffice, because a limited queue pair is back at the line rate long before they
  // wrap.
  typedef logic [31:0] time_t;

  typedef struct packed {
    logic        limited;
    logic        blocked;
    logic        in_ring;
    rate_state_t rate;
    byte_time_t  byte_time;
    // When the next packet is due, in 2^-16 cycles.
    logic [47:0] next;
    time_t       period_ends;
  } entry_t;

  typedef struct packed {
    qp_index_t   qp;
    logic [10:0] words;
  } charge_t;

  typedef enum logic [1:0] {
    KindForget,
    KindNotification,
    KindCharge,
    KindScan
  } kind_e;

  typedef enum logic [2:0] {
    StepPick,
    StepRead,
    StepLook,
    StepMachine,
    StepNext,
    StepJudge,
    StepWrite
  } step_e;

  function automatic logic earlier(time_t one, time_t other);
    // verilator lint_off UNUSEDSIGNAL
    time_t difference;
    // verilator lint_on UNUSEDSIGNAL
    difference = one - other;
    return difference[31];
  endfunction

  step_e                   step_q;
  kind_e                   kind_q;
  qp_index_t               qp_q;
  logic      [       12:0] bytes_q;
  entry_t                  entry_q;
  entry_t                  stored;
  logic                    was_blocked_q;
  logic                    was_in_ring_q;
  logic                    write;
  time_t                   now_q;

  logic      [IndexBits:0] clear_q;
  assign ready_o = clear_q[IndexBits];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_q <= '0;
    else if (!ready_o) clear_q <= clear_q + 1'b1;
    now_q <= now_i[31:0];
  end

  // Flags of the queue pairs: limited, and blocked. Eight to a word.

  (* ram_style = "distributed" *)
  logic [7:0] limited   [QueuePairs/8];
  (* ram_style = "distributed" *)
  logic [7:0] blocked   [QueuePairs/8];
  logic [7:0] qp_bit;
  logic [7:0] turn_word;
  logic [7:0] sent_word;
  logic       room;

  assign qp_bit = 8'd1 << qp_q[2:0];
  assign turn_word = blocked[turn_i[IndexBits-1:3]];
  assign sent_word = limited[sent_qp_i[IndexBits-1:3]];
  assign turn_blocked_o = turn_word[turn_i[2:0]];
  assign turn_valid_o = turn_valid_i && room;
  assign turn_ready_o = turn_ready_i && room;

  always_ff @(posedge clk_i) begin
    if (!ready_o) limited[clear_q[IndexBits-1:3]] <= '0;
    else if (write) begin
      limited[qp_q[IndexBits-1:3]] <= entry_q.limited ? limited[qp_q[IndexBits-1:3]] | qp_bit
          : limited[qp_q[IndexBits-1:3]] & ~qp_bit;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!ready_o) blocked[clear_q[IndexBits-1:3]] <= '0;
    else if (write) begin
      blocked[qp_q[IndexBits-1:3]] <= entry_q.blocked ? blocked[qp_q[IndexBits-1:3]] | qp_bit
          : blocked[qp_q[IndexBits-1:3]] & ~qp_bit;
    end
  end

  // Pending work.

  logic                    waits;
  logic                    comes;
  logic                    rests;
  time_t                   until_earliest;
  charge_t                 charge;
  charge_t                 charge_in_q;
  logic                    charge_in_valid_q;
  logic                    charge_valid;
  logic      [        5:0] charge_level;
  logic                    notification_valid;
  qp_index_t               notification_qp;
  logic                    forget_valid;
  qp_index_t               forget_qp;
  logic                    pick;
  logic                    ring_valid;
  qp_index_t               ring_qp;
  logic      [IndexBits:0] ring_level;
  logic                    ring_push;
  qp_index_t               chosen;
  kind_e                   kind;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) charge_in_valid_q <= 1'b0;
    else charge_in_valid_q <= sent_i && sent_word[sent_qp_i[2:0]];
    charge_in_q <= '{qp: sent_qp_i, words: sent_words_i};
  end

  // At most eight packets are in flight behind the gate that stops turns.
  always_ff @(posedge clk_i) begin
    room <= charge_level < 6'd8;
  end

  fifo #(
    .T    (charge_t),
    .Depth(32)
  ) u_charges (
    .clk_i,
    .rst_ni,
    .in_valid_i (charge_in_valid_q),
    // verilator lint_off PINCONNECTEMPTY
    .in_ready_o (),
    // verilator lint_on PINCONNECTEMPTY
    .in_i       (charge_in_q),
    .out_valid_o(charge_valid),
    .out_ready_i(pick && kind == KindCharge),
    .out_o      (charge),
    .level_o    (charge_level)
  );

  // A notification that finds the FIFO full is dropped, with the effect of a notification lost on the wire.
  fifo #(
    .T    (qp_index_t),
    .Depth(16)
  ) u_notifications (
    .clk_i,
    .rst_ni,
    .in_valid_i (notification_i && ready_o),
    // verilator lint_off PINCONNECTEMPTY
    .in_ready_o (),
    // verilator lint_on PINCONNECTEMPTY
    .in_i       (notification_qp_i),
    .out_valid_o(notification_valid),
    .out_ready_i(pick && kind == KindNotification),
    .out_o      (notification_qp),
    // verilator lint_off PINCONNECTEMPTY
    .level_o    ()
    // verilator lint_on PINCONNECTEMPTY
  );

  fifo #(
    .T    (qp_index_t),
    .Depth(8)
  ) u_forgets (
    .clk_i,
    .rst_ni,
    .in_valid_i (forget_i && ready_o),
    // verilator lint_off PINCONNECTEMPTY
    .in_ready_o (),
    // verilator lint_on PINCONNECTEMPTY
    .in_i       (forget_qp_i),
    .out_valid_o(forget_valid),
    .out_ready_i(pick && kind == KindForget),
    .out_o      (forget_qp),
    // verilator lint_off PINCONNECTEMPTY
    .level_o    ()
    // verilator lint_on PINCONNECTEMPTY
  );

  // The ring: each limited queue pair is in it once.
  fifo #(
    .T    (qp_index_t),
    .Depth(QueuePairs)
  ) u_ring (
    .clk_i,
    .rst_ni,
    .in_valid_i (ring_push),
    // verilator lint_off PINCONNECTEMPTY
    .in_ready_o (),
    // verilator lint_on PINCONNECTEMPTY
    .in_i       (qp_q),
    .out_valid_o(ring_valid),
    .out_ready_i(pick && kind == KindScan),
    .out_o      (ring_qp),
    .level_o    (ring_level)
  );

  // A round through the ring starts when the earliest of all deadlines is reached. The round also finds the next
  // earliest deadline.

  logic  [IndexBits:0] left_q;
  logic                known_q;
  time_t               earliest_q;
  time_t               deadline;
  logic                first_q;

  assign armed_o = known_q;
  assign earliest_valid_o = known_q;
  assign until_earliest = earliest_q - now_i[31:0];
  assign earliest_o = now_i + 48'(until_earliest);
  assign deadline = entry_q.blocked && earlier(
      entry_q.next[47:16], entry_q.period_ends
  ) ? entry_q.next[47:16] + 1'b1 : entry_q.period_ends;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      left_q  <= '0;
      known_q <= 1'b0;
    end else begin
      if (pick && kind == KindScan) begin
        left_q <= left_q - 1'b1;
      end else if (step_q == StepPick && known_q && left_q == '0 && !earlier(now_q, earliest_q)) begin
        left_q  <= ring_level;
        known_q <= 1'b0;
      end else if (write && entry_q.limited) begin
        known_q <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (write && entry_q.limited && (!known_q || earlier(deadline, earliest_q))) earliest_q <= deadline;
  end

  // Events are processed one after the other.

  always_comb begin
    if (forget_valid) kind = KindForget;
    else if (notification_valid) kind = KindNotification;
    else if (charge_valid) kind = KindCharge;
    else kind = KindScan;
  end

  always_comb begin
    unique case (kind)
      KindForget: chosen = forget_qp;
      KindNotification: chosen = notification_qp;
      KindCharge: chosen = charge.qp;
      default: chosen = ring_qp;
    endcase
  end

  assign waits  = forget_valid || notification_valid || charge_valid || left_q != '0;
  assign pick   = ready_o && step_q == StepPick && waits;
  assign comes  = charge_in_valid_q || sent_i || notification_i || forget_i;
  assign rests  = !known_q || earlier(now_i[31:0], earliest_q);
  assign idle_o = ready_o && step_q == StepPick && !waits && !comes && rests;

  ram #(
    .T    (entry_t),
    .Depth(QueuePairs)
  ) u_entries (
    .clk_i,
    .write_i        (!ready_o || write),
    .write_address_i(ready_o ? qp_q : clear_q[IndexBits-1:0]),
    .write_data_i   (ready_o ? entry_q : '0),
    .read_i         (pick),
    .read_address_i (chosen),
    .read_data_o    (stored)
  );

  logic               start;
  logic               done;
  rate_state_t        rate;
  byte_time_t         byte_time;
  rate_state_t        rate_in;
  logic               period_over;
  logic               packet_due;
  logic        [33:0] cost_q;
  time_t              allowed;
  logic        [47:0] lead;

  assign period_over = !earlier(now_q, entry_q.period_ends);
  assign packet_due = earlier(entry_q.next[47:16], now_q);
  assign allowed = now_q - 32'(Burst);
  assign lead = entry_q.next - {now_q, 16'd0};
  assign start = step_q == StepLook && (kind_q == KindNotification || (kind_q == KindCharge && entry_q.limited)
      || (kind_q == KindScan && entry_q.limited && period_over));

  always_comb begin
    rate_in = entry_q.rate;
    if (!entry_q.limited) rate_in.current = LineRate;
  end

  rate_machine u_machine (
    .clk_i,
    .rst_ni,
    .start_i    (start),
    .event_i    (kind_q == KindNotification ? RateNotification : kind_q == KindCharge ? RateBytes : RatePeriod),
    .bytes_i    (bytes_q),
    .state_i    (rate_in),
    .byte_time_i(entry_q.byte_time),
    .done_o     (done),
    .state_o    (rate),
    .byte_time_o(byte_time)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      step_q <= StepPick;
    end else begin
      unique case (step_q)
        StepPick: if (pick) step_q <= StepRead;
        StepRead: step_q <= StepLook;
        StepLook: step_q <= start ? StepMachine : kind_q == KindCharge ? StepPick : StepJudge;
        StepMachine: if (done) step_q <= kind_q == KindCharge ? StepNext : StepJudge;
        StepNext: step_q <= StepJudge;
        StepJudge: step_q <= StepWrite;
        StepWrite: if (!activate_valid_o || activate_ready_i) step_q <= StepPick;
        default: step_q <= StepPick;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    first_q <= step_q == StepJudge;
    unique case (step_q)
      StepPick: begin
        qp_q <= chosen;
        kind_q <= kind;
        bytes_q <= {charge.words, 2'b00} + Framing;
      end
      StepRead: begin
        entry_q <= stored;
        was_blocked_q <= stored.blocked;
        was_in_ring_q <= stored.in_ring;
      end
      StepLook: begin
        cost_q <= 34'(bytes_q) * 34'(entry_q.byte_time);
        unique case (kind_q)
          KindForget: entry_q.limited <= 1'b0;
          KindNotification: begin
            if (!entry_q.limited) entry_q.next <= {now_q, 16'd0};
            entry_q.period_ends <= now_q + 32'(Period);
          end
          KindCharge: if (earlier(entry_q.next[47:16], allowed)) entry_q.next <= {allowed, 16'd0};
          default: if (start) entry_q.period_ends <= now_q + 32'(Period);
        endcase
      end
      StepMachine: begin
        entry_q.rate <= rate;
        entry_q.byte_time <= byte_time;
        if (done) entry_q.limited <= rate.current != LineRate;
      end
      StepNext: entry_q.next <= entry_q.next + 48'(cost_q);
      StepJudge: begin
        entry_q.in_ring <= entry_q.limited || (was_in_ring_q && kind_q != KindScan);
        unique case (kind_q)
          KindCharge: entry_q.blocked <= entry_q.limited && !lead[47] && lead != '0;
          KindScan: entry_q.blocked <= entry_q.limited && was_blocked_q && !packet_due;
          default: entry_q.blocked <= entry_q.limited && was_blocked_q;
        endcase
      end
      default:  ;
    endcase
  end

  assign write = step_q == StepWrite && first_q;
  assign ring_push = write && entry_q.limited && (kind_q == KindScan || !was_in_ring_q);
  assign activate_valid_o = step_q == StepWrite && (kind_q == KindForget || (was_blocked_q && !entry_q.blocked));
  assign activate_o = qp_q;

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(ring_push && ring_level[IndexBits]))
      else $error("the ring is longer than all queue pairs");
      assert (!(charge_in_valid_q && charge_level == 6'd32))
      else $error("no room for a charge");
      assert (!(pick && kind == KindScan && !ring_valid))
      else $error("a round is longer than the ring");
    end
  end

endmodule
