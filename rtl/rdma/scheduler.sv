// Round-robin scheduler over the queue pairs that have work. Each queue pair is in the line at most once.
//
// Latency: a queue pair that is activated while the line is empty has its turn in the next cycle. Throughput: one
// activation and one turn every cycle. Order: first activated, first served; an activation of a queue pair that is
// already in line does not move it. If a queue pair is activated in the cycle of its own turn, the activation counts
// as later, so no wake-up is lost. Stalls: input b while input a is used, and until `ready_o`; input a never, since
// the line has room for all.
//
// After reset a counter clears the flags, eight a cycle: `ready_o` is low for `QueuePairs` / 8 cycles, and no queue
// pair may be activated meanwhile. (Initial RAM contents would cover power-on only, not a later reset.)
module scheduler
  import weft_pkg::*;
(
  input  logic      clk_i,
  input  logic      rst_ni,
  output logic      ready_o,
  input  logic      activate_a_valid_i,
  input  qp_index_t activate_a_i,
  input  logic      activate_b_valid_i,
  output logic      activate_b_ready_o,
  input  qp_index_t activate_b_i,
  output logic      turn_valid_o,
  input  logic      turn_ready_i,
  output qp_index_t turn_o,
  // The line is empty.
  output logic      idle_o
);

  localparam int unsigned IndexBits = $bits(qp_index_t);

  // A queue pair is in line if its two flags differ. Joining the line inverts one flag and leaving it inverts the
  // other, so each RAM has one writer. Flags are stored eight to a word, since narrow RAMs waste LUTs; each writer
  // reads the word that it changes.
  localparam int unsigned Words = QueuePairs / 8;
  (* ram_style = "distributed" *)
  logic      [          7:0] joined      [Words];
  (* ram_style = "distributed" *)
  logic      [          7:0] left        [Words];

  // The word to clear next; the highest bit says that all are cleared.
  logic      [IndexBits-3:0] clear_q;
  logic      [  IndexBits:0] level;

  logic                      activate;
  qp_index_t                 index;
  logic                      leave;
  logic      [          7:0] joined_word;
  logic      [          7:0] left_word;
  logic                      in_line;
  logic                      join_line;

  assign ready_o = clear_q[IndexBits-3];
  assign activate_b_ready_o = ready_o && !activate_a_valid_i;
  assign activate = ready_o && (activate_a_valid_i || activate_b_valid_i);
  assign index = activate_a_valid_i ? activate_a_i : activate_b_i;

  assign leave = turn_valid_o && turn_ready_i;
  assign joined_word = joined[index[IndexBits-1:3]];
  assign left_word = left[index[IndexBits-1:3]];
  assign in_line = joined_word[index[2:0]] != left_word[index[2:0]] && !(leave && turn_o == index);
  assign join_line = activate && !in_line;
  assign idle_o = ready_o && !turn_valid_o;

  // The line, a ring. One bit more than an index distinguishes a full ring from an empty one. A queue pair that
  // leaves a full ring may join it again in the same cycle, into the slot that it leaves; `fifo` does not support
  // that.
  (* ram_style = "distributed" *)
  qp_index_t               line         [QueuePairs];
  logic      [IndexBits:0] head_q;
  // Index of the entry behind the head.
  logic      [IndexBits:0] second_q;
  logic      [IndexBits:0] tail_q;
  logic                    turn_valid_q;
  // The entry at the head, held in a register because long combinational paths start from it.
  qp_index_t               turn_q;

  assign level = tail_q - head_q;
  assign turn_valid_o = turn_valid_q;
  assign turn_o = turn_q;

  always_ff @(posedge clk_i) begin
    if (join_line) line[tail_q[IndexBits-1:0]] <= index;
    if (leave && tail_q != second_q) turn_q <= line[second_q[IndexBits-1:0]];
    else if (leave || !turn_valid_q) turn_q <= index;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q       <= '0;
      second_q     <= (IndexBits + 1)'(1);
      tail_q       <= '0;
      turn_valid_q <= 1'b0;
    end else begin
      if (join_line) tail_q <= tail_q + 1'b1;
      if (leave) begin
        head_q   <= head_q + 1'b1;
        second_q <= second_q + 1'b1;
      end
      turn_valid_q <= join_line || (turn_valid_q && !(leave && tail_q == second_q));
    end
  end

  always_ff @(posedge clk_i) begin
    if (!ready_o) joined[clear_q[IndexBits-4:0]] <= '0;
    else if (join_line) joined[index[IndexBits-1:3]] <= joined_word ^ (8'd1 << index[2:0]);
  end

  always_ff @(posedge clk_i) begin
    if (!ready_o) left[clear_q[IndexBits-4:0]] <= '0;
    else if (leave) left[turn_o[IndexBits-1:3]] <= left[turn_o[IndexBits-1:3]] ^ (8'd1 << turn_o[2:0]);
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) clear_q <= '0;
    else if (!ready_o) clear_q <= clear_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(join_line && level[IndexBits] && !leave))
      else $error("the line is longer than all queue pairs");
      assert (ready_o || !activate_a_valid_i)
      else $error("activation before the flags are cleared");
    end
  end

endmodule
