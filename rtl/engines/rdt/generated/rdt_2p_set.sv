// The data type 2p-set: a set from which an element is removed for ever.
// Elements: 2000 Item.
// Written by `weft rdt generate`; do not edit.
//
// Latency: an answer is offered 2 cycles after its call. Throughput: a call every cycle.
// Order: calls take effect, and are answered, in the order in which they come.
// Stalls: while an answer waits, and after reset, until RAM is cleared.
module rdt_2p_set
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
  localparam logic [3:0] MethodInsert = 4'd0;
  localparam logic [3:0] MethodRemove = 4'd1;
  localparam logic [3:0] QueryContains = 4'd0;

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
  // added of Item: 32 rows in RAM
  logic [0:0] added_write;
  logic [0:0][63:0] added_row, added_d;
  logic added_busy, added_clearing;
  // removed of Item: 32 rows in RAM
  logic [0:0] removed_write;
  logic [0:0][63:0] removed_row, removed_d;
  logic removed_busy, removed_clearing;

  // The call in the second stage, and its answer.
  rdt_call_t call_q;
  rdt_answer_t answer_d, answer_q;
  logic valid_q, answer_valid_q, accept, execute, changes, busy, clearing;

  assign busy = added_busy || removed_busy;
  assign clearing = added_clearing || removed_clearing;
  assign execute = valid_q && !busy && (!answer_valid_q || answer_ready_i);
  assign call_ready_o = !clearing && (!valid_q || execute);
  assign accept = call_valid_i && call_ready_o;
  assign changes = execute && answer_d.outcome == RdtDone 
      && call_q.operation inside {RdtUpdate, RdtApply, RdtAbsorb};
  assign answer_valid_o = answer_valid_q;
  assign answer_o = answer_q;
  assign idle_o = !valid_q && !answer_valid_q && !busy;

  logic [0:0][4:0] added_address;
  always_comb begin
    added_address[0] = call_i.arguments[0][6+:5];
    case ({call_i.operation, call_i.selector}) inside
      {RdtAbsorb, MethodInsert}: added_address[0] = call_i.arguments[0][0+:5];
      default: ;
    endcase
  end

  rdt_memory #(
    .Rows (32'd32),
    .Width(32'd64),
    .Ports(32'd1)
  ) i_added (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (added_address),
    .row_o     (added_row),
    .write_i   (changes ? added_write : '0),
    .row_i     (added_d),
    .busy_o    (added_busy),
    .clearing_o(added_clearing)
  );

  logic [0:0][4:0] removed_address;
  always_comb begin
    removed_address[0] = call_i.arguments[0][6+:5];
    case ({call_i.operation, call_i.selector}) inside
      {RdtAbsorb, MethodRemove}: removed_address[0] = call_i.arguments[0][0+:5];
      default: ;
    endcase
  end

  rdt_memory #(
    .Rows (32'd32),
    .Width(32'd64),
    .Ports(32'd1)
  ) i_removed (
    .clk_i,
    .rst_ni,
    .read_i    (accept),
    .address_i (removed_address),
    .row_o     (removed_row),
    .write_i   (changes ? removed_write : '0),
    .row_i     (removed_d),
    .busy_o    (removed_busy),
    .clearing_o(removed_clearing)
  );

  // The answer, and the state after the call if it takes effect.
  logic in_range, permissible, exact;
  always_comb begin
    in_range = 1'b1;
    permissible = 1'b1;
    exact = 1'b1;
    answer_d = '0;
    answer_d.arguments = call_q.arguments;
    added_d = added_row;
    added_write = '0;
    removed_d = removed_row;
    removed_write = '0;
    case ({call_q.operation, call_q.selector})
      {RdtUpdate, MethodInsert}, {RdtApply, MethodInsert}: begin : update_insert
        // insert(item)
        automatic logic [10:0] arg_item;
        arg_item = call_q.arguments[0][10:0];
        if (call_q.arguments[0] > 64'd1999) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // added(item) becomes true
        added_d[0][arg_item[5:0]] = 1'b1;
        added_write[0] = 1'b1;
      end
      {RdtAbsorb, MethodInsert}: begin : absorb_insert
        // the summary of insert(elements)
        automatic logic [63:0] arg_elements;
        if (call_q.arguments[0] > 64'd31) in_range = 1'b0;
        if ((call_q.summary[0] & ~call_q.arguments[1]) != '0) in_range = 1'b0;
        if (call_q.arguments[0] == 64'd31 && call_q.arguments[1][63:16] != '0) in_range = 1'b0;
        arg_elements = call_q.arguments[1];
        added_d[0] = added_d[0] | arg_elements[63:0];
        added_write[0] = 1'b1;
      end
      {RdtFold, MethodInsert}: begin : fold_insert
        // added to the summary: insert(item)
        automatic logic [10:0] arg_item;
        automatic logic [63:0] member;
        arg_item = call_q.arguments[0][10:0];
        if (call_q.arguments[0] > 64'd1999) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        member = 64'(arg_item);
        answer_d.value = member >> 6;
        answer_d.summary[0] = call_q.summary[0] | 64'd1 << member[5:0];
      end
      {RdtUpdate, MethodRemove}, {RdtApply, MethodRemove}: begin : update_remove
        // remove(item)
        automatic logic [10:0] arg_item;
        arg_item = call_q.arguments[0][10:0];
        if (call_q.arguments[0] > 64'd1999) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // the item was added: added(item)
        if (!added_row[0][arg_item[5:0]]) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // removed(item) becomes true
        removed_d[0][arg_item[5:0]] = 1'b1;
        removed_write[0] = 1'b1;
      end
      {RdtAbsorb, MethodRemove}: begin : absorb_remove
        // the summary of remove(elements)
        automatic logic [63:0] arg_elements;
        if (call_q.arguments[0] > 64'd31) in_range = 1'b0;
        if ((call_q.summary[0] & ~call_q.arguments[1]) != '0) in_range = 1'b0;
        if (call_q.arguments[0] == 64'd31 && call_q.arguments[1][63:16] != '0) in_range = 1'b0;
        arg_elements = call_q.arguments[1];
        removed_d[0] = removed_d[0] | arg_elements[63:0];
        removed_write[0] = 1'b1;
      end
      {RdtFold, MethodRemove}: begin : fold_remove
        // added to the summary: remove(item)
        automatic logic [10:0] arg_item;
        automatic logic [63:0] member;
        arg_item = call_q.arguments[0][10:0];
        if (call_q.arguments[0] > 64'd1999) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        member = 64'(arg_item);
        answer_d.value = member >> 6;
        answer_d.summary[0] = call_q.summary[0] | 64'd1 << member[5:0];
      end
      {RdtQuery, QueryContains}: begin : query_contains
        // contains(item)
        automatic logic [10:0] arg_item;
        arg_item = call_q.arguments[0][10:0];
        if (call_q.arguments[0] > 64'd1999) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        answer_d.value = 64'((added_row[0][arg_item[5:0]] && (!removed_row[0][arg_item[5:0]])));
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
