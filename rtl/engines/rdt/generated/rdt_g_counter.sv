// The data type g-counter: a counter that only goes up.
// Written by `weft rdt generate`; do not edit.
//
// Latency: an answer is offered 2 cycles after its call. Throughput: a call every cycle.
// Order: calls take effect, and are answered, in the order in which they come.
// Stalls: while an answer waits.
module rdt_g_counter
  import rdt_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [ 3:0] replica_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic        call_valid_i,
  output logic        call_ready_o,
  input  rdt_call_t   call_i,
  output logic        answer_valid_o,
  input  logic        answer_ready_i,
  output rdt_answer_t answer_o,
  output logic        idle_o
);

  // Selectors.
  localparam logic [3:0] MethodIncrement = 4'd0;
  localparam logic [3:0] QueryValue = 4'd0;

  // Wide enough for every sum and difference of this type.
  typedef logic signed [65:0] number_t;

  function automatic number_t number(logic [63:0] word);
    return number_t'($signed(word));
  endfunction

  // Whether a number fits a word.
  function automatic logic fits(number_t value);
    return value == number(value[63:0]);
  endfunction

  // The state, and the state after the call in the second stage.
  // count
  logic [63:0] count_q, count_d;

  // The call in the second stage, and its answer.
  rdt_call_t call_q;
  rdt_answer_t answer_d, answer_q;
  logic valid_q, answer_valid_q, accept, execute, changes, busy, clearing;

  assign busy = 1'b0;
  assign clearing = 1'b0;
  assign execute = valid_q && !busy && (!answer_valid_q || answer_ready_i);
  assign call_ready_o = !clearing && (!valid_q || execute);
  assign accept = call_valid_i && call_ready_o;
  assign changes = execute && answer_d.outcome == RdtDone 
      && call_q.operation inside {RdtUpdate, RdtApply, RdtAbsorb};
  assign answer_valid_o = answer_valid_q;
  assign answer_o = answer_q;
  assign idle_o = !valid_q && !answer_valid_q && !busy;

  // The answer, and the state after the call if it takes effect.
  logic in_range, permissible, exact;
  always_comb begin
    in_range = 1'b1;
    permissible = 1'b1;
    exact = 1'b1;
    answer_d = '0;
    answer_d.arguments = call_q.arguments;
    count_d = count_q;
    case ({call_q.operation, call_q.selector})
      {RdtUpdate, MethodIncrement}, {RdtApply, MethodIncrement}: begin : update_increment
        // increment(amount)
        automatic number_t arg_amount;
        automatic number_t new_0;
        arg_amount = number(call_q.arguments[0]);
        if (arg_amount < 66'sd0 || arg_amount > 66'sd4294967295) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // count becomes count + amount
        new_0 = (number(count_q) + arg_amount);
        if (!fits(new_0)) exact = 1'b0;
        count_d = new_0[63:0];
      end
      {RdtAbsorb, MethodIncrement}: begin : absorb_increment
        // the summary of increment(total)
        automatic number_t arg_total;
        automatic number_t new_0;
        if (call_q.arguments[0] > 64'd0) in_range = 1'b0;
        if (number(call_q.summary[0]) < 66'sd0) in_range = 1'b0;
        if (number(call_q.arguments[1]) < number(call_q.summary[0])) in_range = 1'b0;
        if (number(call_q.arguments[1]) > 66'sd1152921504606846976) in_range = 1'b0;
        arg_total = number(call_q.arguments[1]) - number(call_q.summary[0]);
        // count becomes count + total
        new_0 = (number(count_q) + arg_total);
        if (!fits(new_0)) exact = 1'b0;
        count_d = new_0[63:0];
      end
      {RdtFold, MethodIncrement}: begin : fold_increment
        // added to the summary: increment(amount)
        automatic number_t arg_amount;
        automatic number_t word_0;
        arg_amount = number(call_q.arguments[0]);
        if (arg_amount < 66'sd0 || arg_amount > 66'sd4294967295) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        word_0 = number(call_q.summary[0]) + arg_amount;
        if (!fits(word_0) || word_0 > 66'sd1152921504606846976) exact = 1'b0;
        answer_d.summary[0] = word_0[63:0];
      end
      {RdtQuery, QueryValue}: begin : query_value
        // value()
        automatic number_t value;
        if (call_q.arguments[3:0] != '0) in_range = 1'b0;
        value = number(count_q);
        answer_d.value = value[63:0];
        exact = fits(value);
      end
      default: in_range = 1'b0;
    endcase
    if (!in_range) answer_d.outcome = RdtOutOfRange;
    else if (!permissible) answer_d.outcome = RdtRefused;
    else if (!exact) answer_d.outcome = RdtOverflow;
    else answer_d.outcome = RdtDone;
  end

  always_ff @(posedge clk_i) begin
    if (accept) call_q <= call_i;
    if (execute) answer_q <= answer_d;
    if (!rst_ni) begin
      valid_q <= 1'b0;
      answer_valid_q <= 1'b0;
      count_q <= '0;
    end else begin
      if (accept || execute) valid_q <= accept;
      if (execute || answer_ready_i) answer_valid_q <= execute;
      if (changes) count_q <= count_d;
    end
  end

endmodule
