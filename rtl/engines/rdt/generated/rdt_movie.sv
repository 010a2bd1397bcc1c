// The data type movie: the movies and the customers of a theatre.
// Elements: 70 Customer, 70 Movie.
// Written by `weft rdt generate`; do not edit.
//
// Latency: an answer is offered 2 cycles after its call. Throughput: a call every cycle.
// Order: calls take effect, and are answered, in the order in which they come.
// Stalls: while an answer waits.
module rdt_movie
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
  localparam logic [3:0] MethodAddCustomer = 4'd0;
  localparam logic [3:0] MethodDeleteCustomer = 4'd1;
  localparam logic [3:0] MethodAddMovie = 4'd2;
  localparam logic [3:0] MethodDeleteMovie = 4'd3;
  localparam logic [3:0] QueryHasCustomer = 4'd0;
  localparam logic [3:0] QueryHasMovie = 4'd1;

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
  // customers of Customer
  logic [69:0] customers_q, customers_d;
  // movies of Movie
  logic [69:0] movies_q, movies_d;

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
    customers_d = customers_q;
    movies_d = movies_q;
    case ({call_q.operation, call_q.selector})
      {RdtUpdate, MethodAddCustomer}, {RdtApply, MethodAddCustomer}: begin : update_add_customer
        // addCustomer(customer)
        automatic logic [6:0] arg_customer;
        arg_customer = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // customers(customer) becomes true
        customers_d[arg_customer] = 1'b1;
      end
      {RdtUpdate, MethodDeleteCustomer}, {RdtApply, MethodDeleteCustomer}: begin : update_delete_customer
        // deleteCustomer(customer)
        automatic logic [6:0] arg_customer;
        arg_customer = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // the customer exists: customers(customer)
        if (!customers_q[arg_customer]) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // customers(customer) becomes false
        customers_d[arg_customer] = 1'b0;
      end
      {RdtUpdate, MethodAddMovie}, {RdtApply, MethodAddMovie}: begin : update_add_movie
        // addMovie(movie)
        automatic logic [6:0] arg_movie;
        arg_movie = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // movies(movie) becomes true
        movies_d[arg_movie] = 1'b1;
      end
      {RdtUpdate, MethodDeleteMovie}, {RdtApply, MethodDeleteMovie}: begin : update_delete_movie
        // deleteMovie(movie)
        automatic logic [6:0] arg_movie;
        arg_movie = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        // the movie exists: movies(movie)
        if (!movies_q[arg_movie]) permissible = 1'b0;
        // A call that was checked elsewhere is not checked again.
        if (call_q.operation == RdtApply) permissible = 1'b1;
        // movies(movie) becomes false
        movies_d[arg_movie] = 1'b0;
      end
      {RdtQuery, QueryHasCustomer}: begin : query_has_customer
        // hasCustomer(customer)
        automatic logic [6:0] arg_customer;
        arg_customer = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        answer_d.value = 64'(customers_q[arg_customer]);
      end
      {RdtQuery, QueryHasMovie}: begin : query_has_movie
        // hasMovie(movie)
        automatic logic [6:0] arg_movie;
        arg_movie = call_q.arguments[0][6:0];
        if (call_q.arguments[0] > 64'd69) in_range = 1'b0;
        if (call_q.arguments[3:1] != '0) in_range = 1'b0;
        answer_d.value = 64'(movies_q[arg_movie]);
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
      customers_q <= '0;
      movies_q <= '0;
    end else begin
      if (accept || execute) valid_q <= accept;
      if (execute || answer_ready_i) answer_valid_q <= execute;
      if (changes) customers_q <= customers_d;
      if (changes) movies_q <= movies_d;
    end
  end

endmodule
