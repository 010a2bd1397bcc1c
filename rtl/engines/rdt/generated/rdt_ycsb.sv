// The data type ycsb: records by key, in each of which the last writer wins.
// Elements: 70 Key.
// Written by `weft rdt generate`; do not edit.
//
// Latency: an answer is offered 2 cycles after its call. Throughput: a call every cycle.
// Order: calls take effect, and are answered, in the order in which they come.
// Stalls: while an answer waits, and after reset, until RAM is cleared.
module rdt_ycsb
  import rdt_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic [ 3:0] replica_i,
  input  logic        call_valid_i,
  output logic        call_ready_o,
  input  rdt_call_t   call_i,
  output logic        answer_valid_o,
  input  logic        answer_ready_i,
  output rdt_answer_t answer_o,
  output logic        idle_o
);

  // Selectors.
  localparam logic [3:0] MethodPut = 4'd0;
  localparam logic [3:0] QueryGet = 4'd0;

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
  // value of Key: 70 rows in RAM
  logic [0:0] value_write;
  logic [0:0][63:0] value_row, value_d;
  logic value_busy, value_clearing;
  // written of Key: 70 rows in RAM
  logic [0:0] written_write;
  logic [0:0][63:0] written_row, written_d;
  logic written_busy, written_clearing;

  // The call in the second stage, and its answer.
  rdt_call_t call_q;
  rdt_answer_t answer_d, answer_q;
  logic valid_q, answer_valid_q, accept, execute, changes, busy, clearing;

  assign busy = value_busy || written_busy;
  assign clearing = value_clearing || written_clearing;
  assign execute = valid_q && !busy && (!answer_valid_q || answer_ready_i);
  assign call_ready_o = !clearing && (!valid_q || execute);
  assign accept = call_valid_i && call_ready_o;
  assign changes = execute && answer_d.outcome == RdtDone 
      && call_q.operation inside {RdtUpdate, RdtApply, RdtAbsorb};
  assign answer_valid_o = answer_valid_q;
  assign answer_o = answer_q;
  assign idle_o = !valid_q && !answer_valid_q && !busy;

  logic [0:0][6:0] value_address;
  always_comb begin
    value_address[0] = call_i.arguments[0][0+:7];
  end

  rdt_memory #(
    .Rows (32'd70),
    .Width(32'd64),
    .Ports(32'd1)
  ) i_value (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (value_address),
    .row_o     (value_row),
    .write_i   (changes ? value_write : '0),
    .row_i     (value_d),
    .busy_o    (value_busy),
    .clearing_o(value_clearing)
  );

  logic [0:0][6:0] written_address;
  always_comb begin
    written_address[0] = call_i.arguments[0][0+:7];
  end

  rdt_memory #(
    .Rows (32'd70),
    .Width(32'd64),
    .Ports(32'd1)
  ) i_written (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (written_address),
    .row_o     (written_row),
    .write_i   (changes ? written_write : '0),
    .row_i     (written_d),
    .busy_o    (written_busy),
    .clearing_o(written_clearing)
  );

  // The answer, and the state after the call if it takes effect.
  logic in_range, permissible, exact;
  always_comb begin
    in_range = 1'b1;
    permissible = 1'b1;
    exact = 1'b1;
    answer_d = '0;
    answer_d.arguments = call_q.arguments;
    value_d = value_row;
    value_write = '0;
    written_d = written_row;
    written_write = '0;
    case ({call_q.operation, call_q.selector})
      {RdtUpdate, MethodPut}, {RdtApply, MethodPut}: begin : update_put
        // put(key, value, stamp)
        automatic number_t arg_value;
        automatic number_t arg_stamp;
        automatic number_t new_0;
        automatic number_t new_1;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_value = number(call_q.arguments[1]);
        if (arg_value < -66'sd4294967295 || arg_value > 66'sd4294967295) in_range = 1'b0;
        arg_stamp = number(call_q.arguments[2]);
        // stamp: the next stamp of this replica
        if (call_q.operation == RdtUpdate) arg_stamp = number_t'({(number(written_row[0]) >>> 4) + 66'sd1, replica_i});
        answer_d.arguments[2] = arg_stamp[63:0];
        if (arg_stamp < 66'sd0 || arg_stamp > 66'sd36028797018963967) in_range = 1'b0;
        if (call_q.arguments[3:3] != '0) in_range = 1'b0;
        // value(key) becomes (value if written(key) < stamp, otherwise value(key))
        new_0 = ((number(written_row[0]) < arg_stamp) ? arg_value : number(value_row[0]));
        if (!fits(new_0)) exact = 1'b0;
        // written(key) becomes (stamp if written(key) < stamp, otherwise written(key))
        new_1 = ((number(written_row[0]) < arg_stamp) ? arg_stamp : number(written_row[0]));
        if (!fits(new_1)) exact = 1'b0;
        value_d[0] = new_0[63:0];
        written_d[0] = new_1[63:0];
        value_write[0] = 1'b1;
        written_write[0] = 1'b1;
      end
      {RdtAbsorb, MethodPut}: begin : absorb_put
        // the summary of put(key, stamp, value)
        automatic number_t arg_stamp;
        automatic number_t arg_value;
        automatic number_t new_0;
        automatic number_t new_1;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (number(call_q.summary[0]) < 66'sd0) in_range = 1'b0;
        if (number(call_q.arguments[1]) < number(call_q.summary[0])) in_range = 1'b0;
        if (number(call_q.arguments[1]) > 66'sd36028797018963967) in_range = 1'b0;
        arg_stamp = number(call_q.arguments[1]);
        if (number(call_q.arguments[2]) < -66'sd4294967295) in_range = 1'b0;
        if (number(call_q.arguments[2]) > 66'sd4294967295) in_range = 1'b0;
        arg_value = number(call_q.arguments[2]);
        // value(key) becomes (value if written(key) < stamp, otherwise value(key))
        new_0 = ((number(written_row[0]) < arg_stamp) ? arg_value : number(value_row[0]));
        if (!fits(new_0)) exact = 1'b0;
        // written(key) becomes (stamp if written(key) < stamp, otherwise written(key))
        new_1 = ((number(written_row[0]) < arg_stamp) ? arg_stamp : number(written_row[0]));
        if (!fits(new_1)) exact = 1'b0;
        value_d[0] = new_0[63:0];
        written_d[0] = new_1[63:0];
        value_write[0] = 1'b1;
        written_write[0] = 1'b1;
      end
      {RdtFold, MethodPut}: begin : fold_put
        // added to the summary: put(key, value, stamp)
        automatic logic [6:0] arg_key;
        automatic number_t arg_value;
        automatic number_t arg_stamp;
        automatic number_t word_0;
        automatic number_t word_1;
        arg_key = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        arg_value = number(call_q.arguments[1]);
        if (arg_value < -66'sd4294967295 || arg_value > 66'sd4294967295) in_range = 1'b0;
        arg_stamp = number(call_q.arguments[2]);
        if (arg_stamp < 66'sd0 || arg_stamp > 66'sd36028797018963967) in_range = 1'b0;
        if (call_q.arguments[3:3] != '0) in_range = 1'b0;
        answer_d.value = 64'(arg_key);
        word_0 = arg_stamp;
        word_1 = arg_value;
        answer_d.summary = call_q.summary;
        if (word_0 > number(call_q.summary[0])) begin
          answer_d.summary[0] = word_0[63:0];
          answer_d.summary[1] = word_1[63:0];
        end
      end
      {RdtQuery, QueryGet}: begin : query_get
        // get(key)
        automatic number_t value;
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        value = number(value_row[0]);
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
