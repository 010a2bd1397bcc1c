// Deadlines, one for each queue pair, with a scanner that examines one deadline every cycle and offers those that
// have expired.
//
// An expired deadline is offered at most `Entries` + 2 cycles after it is due, if the consumer accepts offers at
// once; only the scanner waits for an offer to be accepted. A deadline may be changed while it is offered, and one
// that is not changed is offered again in the next round, so the consumer compares each offer with its own state.
// Throughput: one setting a cycle, never stalls.
//
// A simulator that skips idle cycles reads from `earliest_o`, the earliest armed deadline, how far it may skip.
// `earliest_o` is valid if nothing was set since the scanner began its last whole round. If `armed_o` is low no
// deadline is armed. After reset all are disarmed, eight a cycle. No deadline may be set before `ready_o` is high,
// after `Entries` / 8 cycles.
module timers
  import weft_pkg::*;
#(
  // A power of two, at least 16.
  parameter int unsigned Entries = QueuePairs
) (
  input  logic                          clk_i,
  input  logic                          rst_ni,
  output logic                          ready_o,
  input  cycles_t                       now_i,
  input  logic                          set_i,
  input  logic    [$clog2(Entries)-1:0] set_index_i,
  input  logic                          set_armed_i,
  input  cycles_t                       set_deadline_i,
  output logic                          expired_valid_o,
  input  logic                          expired_ready_i,
  output logic    [$clog2(Entries)-1:0] expired_o,
  // At least one deadline is armed.
  output logic                          armed_o,
  output logic                          earliest_valid_o,
  output cycles_t                       earliest_o
);

  localparam int unsigned IndexBits = $clog2(Entries);

  // Index of the next word to clear after reset; the highest bit is set when all are cleared.
  logic [IndexBits-3:0] clear_q;

  assign ready_o = clear_q[IndexBits-3];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_q <= '0;
    else if (!ready_o) clear_q <= clear_q + 1'b1;
  end

  // Armed flags, eight to a word, since narrow RAMs waste LUTs; and the number of armed deadlines.
  (* ram_style = "distributed" *)
  logic [        7:0] armed     [Entries / 8];
  logic [IndexBits:0] count_q;
  logic [        7:0] set_word;
  logic [        7:0] set_bit;
  logic [        7:0] scan_word;
  logic               was_armed;

  assign set_word  = armed[set_index_i[IndexBits-1:3]];
  assign set_bit   = 8'd1 << set_index_i[2:0];
  assign was_armed = set_word[set_index_i[2:0]];
  assign armed_o   = count_q != '0;

  always_ff @(posedge clk_i) begin
    if (!ready_o) armed[clear_q[IndexBits-4:0]] <= '0;
    else if (set_i) armed[set_index_i[IndexBits-1:3]] <= set_armed_i ? set_word | set_bit : set_word & ~set_bit;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) count_q <= '0;
    else if (set_i && set_armed_i && !was_armed) count_q <= count_q + 1'b1;
    else if (set_i && !set_armed_i && was_armed) count_q <= count_q - 1'b1;
  end

  // The scanner: an entry is read in one cycle, compared in the next, and offered in the third.
  logic                    stall;
  logic    [IndexBits-1:0] scan_q;
  logic                    read_valid_q;
  logic    [IndexBits-1:0] read_index_q;
  logic                    read_armed_q;
  // The entry was not set in the cycle in which it was read.
  logic                    read_fresh_q;
  cycles_t                 deadline;
  logic                    expired_valid_q;
  logic    [IndexBits-1:0] expired_q;

  assign scan_word = armed[scan_q[IndexBits-1:3]];
  assign stall = expired_valid_q && !expired_ready_i;
  assign expired_valid_o = expired_valid_q;
  assign expired_o = expired_q;

  ram #(
    .T    (cycles_t),
    .Depth(Entries)
  ) u_deadlines (
    .clk_i,
    .write_i        (set_i),
    .write_address_i(set_index_i),
    .write_data_i   (set_deadline_i),
    .read_i         (!stall),
    .read_address_i (scan_q),
    .read_data_o    (deadline)
  );

  always_ff @(posedge clk_i) begin
    if (!stall) begin
      read_index_q <= scan_q;
      read_armed_q <= scan_word[scan_q[2:0]];
      expired_q <= read_index_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      scan_q          <= '0;
      read_valid_q    <= 1'b0;
      read_fresh_q    <= 1'b0;
      expired_valid_q <= 1'b0;
    end else begin
      if (set_i) read_fresh_q <= 1'b0;
      if (!stall && ready_o) begin
        scan_q          <= scan_q + 1'b1;
        read_valid_q    <= 1'b1;
        read_fresh_q    <= !set_i;
        expired_valid_q <= read_valid_q && read_armed_q && deadline <= now_i;
      end
    end
  end

  // The earliest deadline of those scanned since something was last set, and their number; the highest bit is set
  // when all have been scanned.
  logic    [IndexBits:0] seen_q;
  cycles_t               earliest_q;
  logic                  look;

  assign look = !stall && read_fresh_q && !seen_q[IndexBits];
  assign earliest_valid_o = seen_q[IndexBits] && armed_o;
  assign earliest_o = earliest_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni || set_i) begin
      seen_q     <= '0;
      earliest_q <= '1;
    end else if (look) begin
      seen_q <= seen_q + 1'b1;
      if (read_armed_q && deadline < earliest_q) earliest_q <= deadline;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (ready_o || !set_i)
      else $error("a deadline is set before all are disarmed");
      assert (!earliest_valid_o || earliest_q != '1)
      else $error("deadlines are armed but none was seen");
    end
  end

endmodule
