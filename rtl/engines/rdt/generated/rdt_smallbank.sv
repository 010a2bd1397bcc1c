// The data type smallbank: accounts with a savings and a checking balance.
// Elements: 70 Account.
// Written by `weft rdt generate`; do not edit.
//
// Latency: an answer is offered 2 cycles after its call. Throughput: a call every cycle.
// sendPayment writes 2 rows of one field, and takes 2 cycles.
// amalgamate writes 2 rows of one field, and takes 2 cycles.
// Order: calls take effect, and are answered, in the order in which they come.
// Stalls: while an answer waits, and after reset, until RAM is cleared.
module rdt_smallbank
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
  localparam logic [3:0] MethodDepositChecking = 4'd0;
  localparam logic [3:0] MethodTransactSavings = 4'd1;
  localparam logic [3:0] MethodSendPayment = 4'd2;
  localparam logic [3:0] MethodWriteCheck = 4'd3;
  localparam logic [3:0] MethodAmalgamate = 4'd4;
  localparam logic [3:0] QueryBalance = 4'd0;

  // Wide enough for every sum and difference of this type.
  typedef logic signed [66:0] number_t;

  function automatic number_t number(logic [63:0] word);
    return number_t'($signed(word));
  endfunction

  // Whether a number fits a word.
  function automatic logic fits(number_t value);
    return value == number(value[63:0]);
  endfunction

  // The state, and the state after the call in the second stage.
  // savings of Account: 70 rows in RAM
  logic [0:0] savings_write;
  logic [0:0][63:0] savings_row, savings_d;
  logic savings_busy, savings_clearing;
  // checking of Account: 70 rows in RAM
  logic [1:0] checking_write;
  logic [1:0][63:0] checking_row, checking_d;
  logic checking_busy, checking_clearing;

  // The call in the second stage, and its answer.
  rdt_call_t call_q;
  rdt_answer_t answer_d, answer_q;
  logic valid_q, answer_valid_q, accept, execute, changes, busy, clearing;

  assign busy = savings_busy || checking_busy;
  assign clearing = savings_clearing || checking_clearing;
  assign execute = valid_q && !busy && (!answer_valid_q || answer_ready_i);
  assign call_ready_o = !clearing && (!valid_q || execute);
  assign accept = call_valid_i && call_ready_o;
  assign changes = execute && answer_d.outcome == RdtDone 
      && call_q.operation inside {RdtUpdate, RdtApply, RdtAbsorb};
  assign answer_valid_o = answer_valid_q;
  assign answer_o = answer_q;
  assign idle_o = !valid_q && !answer_valid_q && !busy;

  logic [0:0][6:0] savings_address;
  always_comb begin
    savings_address[0] = call_i.arguments[0][0+:7];
  end

  rdt_memory #(
    .Rows (32'd70),
    .Width(32'd64),
    .Ports(32'd1)
  ) i_savings (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (savings_address),
    .row_o     (savings_row),
    .write_i   (changes ? savings_write : '0),
    .row_i     (savings_d),
    .busy_o    (savings_busy),
    .clearing_o(savings_clearing)
  );

  logic [1:0][6:0] checking_address;
  always_comb begin
    checking_address[0] = call_i.arguments[0][0+:7];
    checking_address[1] = call_i.arguments[1][0+:7];
  end

  rdt_memory #(
    .Rows (32'd70),
    .Width(32'd64),
    .Ports(32'd2)
  ) i_checking (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (checking_address),
    .row_o     (checking_row),
    .write_i   (changes ? checking_write : '0),
    .row_i     (checking_d),
    .busy_o    (checking_busy),
    .clearing_o(checking_clearing)
  );

  // The answer, and the state after the call if it takes effect.
  logic in_range, permissible, exact;
  always_comb begin
    in_range = 1'b1;
    permissible = 1'b1;
    exact = 1'b1;
    answer_d = '0;
    answer_d.arguments = call_q.arguments;
    savings_d = savings_row;
    savings_write = '0;
    checking_d = checking_row;
    checking_write = '0;
    case ({call_q.operation, call_q.selector})
      {RdtUpdate, MethodDepositChecking}, {RdtApply, MethodDepositChecking}: begin : update_deposit_checking
        // depositChecking(account, amount)
        automatic number_t arg_amount;
        automatic number_t new_0;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_amount = number(call_q.arguments[1]);
        if (arg_amount < 67'sd0 || arg_amount > 67'sd4294967295) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        // checking(account) becomes checking(account) + amount
        new_0 = (number(checking_row[0]) + arg_amount);
        if (!fits(new_0)) exact = 1'b0;
        checking_d[0] = new_0[63:0];
        checking_write[0] = 1'b1;
      end
      {RdtAbsorb, MethodDepositChecking}: begin : absorb_deposit_checking
        // the summary of depositChecking(account, total)
        automatic number_t arg_total;
        automatic number_t new_0;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (number(call_q.summary[0]) < 67'sd0) in_range = 1'b0;
        if (number(call_q.arguments[1]) < number(call_q.summary[0])) in_range = 1'b0;
        if (number(call_q.arguments[1]) > 67'sd1152921504606846976) in_range = 1'b0;
        arg_total = number(call_q.arguments[1]) - number(call_q.summary[0]);
        // checking(account) becomes checking(account) + total
        new_0 = (number(checking_row[0]) + arg_total);
        if (!fits(new_0)) exact = 1'b0;
        checking_d[0] = new_0[63:0];
        checking_write[0] = 1'b1;
      end
      {RdtFold, MethodDepositChecking}: begin : fold_deposit_checking
        // added to the summary: depositChecking(account, amount)
        automatic logic [6:0] arg_account;
        automatic number_t arg_amount;
        automatic number_t word_0;
        arg_account = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_amount = number(call_q.arguments[1]);
        if (arg_amount < 67'sd0 || arg_amount > 67'sd4294967295) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        answer_d.value = 64'(arg_account);
        word_0 = number(call_q.summary[0]) + arg_amount;
        if (!fits(word_0) || word_0 > 67'sd1152921504606846976) exact = 1'b0;
        answer_d.summary[0] = word_0[63:0];
      end
      {RdtUpdate, MethodTransactSavings}, {RdtApply, MethodTransactSavings}: begin : update_transact_savings
        // transactSavings(account, amount)
        automatic number_t arg_amount;
        automatic number_t new_0;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_amount = number(call_q.arguments[1]);
        if (arg_amount < -67'sd4294967295 || arg_amount > 67'sd4294967295) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        // the savings cover the amount: 0 <= savings(account) + amount
        if (!(67'sd0 <= (number(savings_row[0]) + arg_amount))) permissible = 1'b0;
        // the account covers the amount: 0 <= savings(account) + checking(account) + amount
        if (!(67'sd0 <= ((number(savings_row[0]) + number(checking_row[0])) + arg_amount))) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // savings(account) becomes savings(account) + amount
        new_0 = (number(savings_row[0]) + arg_amount);
        if (!fits(new_0)) exact = 1'b0;
        savings_d[0] = new_0[63:0];
        savings_write[0] = 1'b1;
      end
      {RdtUpdate, MethodSendPayment}, {RdtApply, MethodSendPayment}: begin : update_send_payment
        // sendPayment(from, to, amount)
        automatic logic [6:0] arg_from;
        automatic logic [6:0] arg_to;
        automatic number_t arg_amount;
        automatic number_t new_0;
        automatic number_t new_1;
        arg_from = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_to = call_q.arguments[1][6:0];
        if (call_q.arguments[1] > 64'd69) in_range = 1'b0;
        arg_amount = number(call_q.arguments[2]);
        if (arg_amount < 67'sd0 || arg_amount > 67'sd4294967295) in_range = 1'b0;
        if (call_q.arguments[3:3] != '0) in_range = 1'b0;
        // the accounts differ: not from = to
        if (!(!(32'(arg_from) == 32'(arg_to)))) permissible = 1'b0;
        // the checking balance covers it: amount <= checking(from)
        if (!(arg_amount <= number(checking_row[0]))) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // checking(from) becomes checking(from) - amount
        new_0 = (number(checking_row[0]) - arg_amount);
        if (!fits(new_0)) exact = 1'b0;
        // checking(to) becomes checking(to) + amount
        new_1 = (number(checking_row[1]) + arg_amount);
        if (!fits(new_1)) exact = 1'b0;
        checking_d[0] = new_0[63:0];
        if (call_q.arguments[1][0+:7] == call_q.arguments[0][0+:7]) checking_d[1] = new_0[63:0];
        if (call_q.arguments[0][0+:7] == call_q.arguments[1][0+:7]) checking_d[0] = new_1[63:0];
        checking_d[1] = new_1[63:0];
        checking_write[0] = 1'b1;
        checking_write[1] = 1'b1;
      end
      {RdtUpdate, MethodWriteCheck}, {RdtApply, MethodWriteCheck}: begin : update_write_check
        // writeCheck(account, amount)
        automatic number_t arg_amount;
        automatic number_t new_0;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_amount = number(call_q.arguments[1]);
        if (arg_amount < 67'sd0 || arg_amount > 67'sd4294967295) in_range = 1'b0;
        if (call_q.arguments[3:2] != '0) in_range = 1'b0;
        // the account covers the check: amount <= savings(account) + checking(account)
        if (!(arg_amount <= (number(savings_row[0]) + number(checking_row[0])))) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // checking(account) becomes checking(account) - amount
        new_0 = (number(checking_row[0]) - arg_amount);
        if (!fits(new_0)) exact = 1'b0;
        checking_d[0] = new_0[63:0];
        checking_write[0] = 1'b1;
      end
      {RdtUpdate, MethodAmalgamate}, {RdtApply, MethodAmalgamate}: begin : update_amalgamate
        // amalgamate(from, to, savings, checking)
        automatic logic [6:0] arg_from;
        automatic logic [6:0] arg_to;
        automatic number_t arg_savings;
        automatic number_t arg_checking;
        automatic number_t new_0;
        automatic number_t new_1;
        automatic number_t new_2;
        arg_from = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_to = call_q.arguments[1][6:0];
        if (call_q.arguments[1] > 64'd69) in_range = 1'b0;
        arg_savings = number(call_q.arguments[2]);
        // savings: savings(from)
        if (call_q.operation == RdtUpdate) arg_savings = number(savings_row[0]);
        answer_d.arguments[2] = arg_savings[63:0];
        if (arg_savings < -67'sd1152921504606846976 || arg_savings > 67'sd1152921504606846976) in_range = 1'b0;
        arg_checking = number(call_q.arguments[3]);
        // checking: checking(from)
        if (call_q.operation == RdtUpdate) arg_checking = number(checking_row[0]);
        answer_d.arguments[3] = arg_checking[63:0];
        if (arg_checking < -67'sd1152921504606846976 || arg_checking > 67'sd1152921504606846976) in_range = 1'b0;
        // the accounts differ: not from = to
        if (!(!(32'(arg_from) == 32'(arg_to)))) permissible = 1'b0;
        // what moves is not negative: (0 <= savings and 0 <= savings + checking)
        if (!((67'sd0 <= arg_savings) && (67'sd0 <= (arg_savings + arg_checking)))) permissible = 1'b0;
        // the savings cover it: savings <= savings(from)
        if (!(arg_savings <= number(savings_row[0]))) permissible = 1'b0;
        // the account covers it: savings + checking <= savings(from) + checking(from)
        if (!((arg_savings + arg_checking) <= (number(savings_row[0]) + number(checking_row[0])))) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // savings(from) becomes savings(from) - savings
        new_0 = (number(savings_row[0]) - arg_savings);
        if (!fits(new_0)) exact = 1'b0;
        // checking(from) becomes checking(from) - checking
        new_1 = (number(checking_row[0]) - arg_checking);
        if (!fits(new_1)) exact = 1'b0;
        // checking(to) becomes checking(to) + savings + checking
        new_2 = (number(checking_row[1]) + (arg_savings + arg_checking));
        if (!fits(new_2)) exact = 1'b0;
        savings_d[0] = new_0[63:0];
        checking_d[0] = new_1[63:0];
        if (call_q.arguments[1][0+:7] == call_q.arguments[0][0+:7]) checking_d[1] = new_1[63:0];
        if (call_q.arguments[0][0+:7] == call_q.arguments[1][0+:7]) checking_d[0] = new_2[63:0];
        checking_d[1] = new_2[63:0];
        savings_write[0] = 1'b1;
        checking_write[0] = 1'b1;
        checking_write[1] = 1'b1;
      end
      {RdtQuery, QueryBalance}: begin : query_balance
        // balance(account)
        automatic number_t value;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        value = (number(savings_row[0]) + number(checking_row[0]));
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
    end else begin
      if (accept || execute) valid_q <= accept;
      if (execute || answer_ready_i) answer_valid_q <= execute;
    end
  end

endmodule
