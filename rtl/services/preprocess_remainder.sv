// The remainder of a signed number of 64 bits, from 0 on as numpy's, by multiplications.
//
// Latency: `PreprocessRemainderLatency` cycles. Throughput: a number every cycle.
//
// Method: let x be the dividend, N the divisor (1 to 2^31), u = x + 2^63, so that 0 <= u < 2^64, and
// R = floor((2^64 - 1) / N). The estimate of u / N is Q = floor(u R / 2^64).
//   N R >= 2^64 - 1 - (N - 1) = 2^64 - N, so 2^64 / N - 1 <= R < 2^64 / N.
//   Hence u / N - u R / 2^64 is at least 0 and at most u / 2^64 < 1, and u / N - 2 < Q <= u / N.
// So Q is the quotient or one less, and u - Q N is from 0 to 2 N - 1, which is below 2^32: its low 32 bits suffice, and
// so do those of Q. The dividend's remainder is that of (u - Q N) + (-2^63 mod N), which is below 3 N: at most two
// subtractions are left.
module preprocess_remainder
  import preprocess_pkg::*;
(
  input  logic                       clk_i,
  input  logic                [63:0] dividend_i,
  input  preprocess_divisor_t        divisor_i,
  output logic                [31:0] remainder_o
);

  typedef struct packed {
    logic [31:0] divisor;
    logic [30:0] bias;
    logic [31:0] low;
  } rest_t;

  rest_t        early;
  rest_t        late;
  rest_t        late_q;
  /* verilator lint_off UNUSEDSIGNAL */  // its low bits only carry
  logic  [95:0] estimate;
  /* verilator lint_on UNUSEDSIGNAL */
  logic  [31:0] multiple;

  multiplier #(
    .Bits(96)
  ) i_estimate (
    .clk_i,
    .a_i      ({!dividend_i[63], dividend_i[62:0]}),
    .b_i      (divisor_i.reciprocal),
    .product_o(estimate)
  );

  delay #(
    .T     (rest_t),
    .Cycles(3)
  ) i_early (
    .clk_i,
    .in_i ('{divisor: divisor_i.divisor, bias: divisor_i.bias, low: dividend_i[31:0]}),
    .out_o(early)
  );

  multiplier #(
    .ABits(32),
    .BBits(32),
    .Bits (32)
  ) i_multiple (
    .clk_i,
    .a_i      (estimate[95:64]),
    .b_i      (early.divisor),
    .product_o(multiple)
  );

  delay #(
    .T     (rest_t),
    .Cycles(3)
  ) i_late (
    .clk_i,
    .in_i (early),
    .out_o(late)
  );

  logic        [31:0] left_q;
  logic        [32:0] sum;
  logic signed [33:0] once;
  logic signed [33:0] twice;

  assign sum   = {1'b0, left_q} + 33'(late_q.bias);
  assign once  = {1'b0, sum} - 34'(late_q.divisor);
  assign twice = {1'b0, sum} - {1'b0, late_q.divisor, 1'b0};

  always_ff @(posedge clk_i) begin
    left_q <= late.low - multiple;
    late_q <= late;
    if (twice >= 0) remainder_o <= twice[31:0];
    else if (once >= 0) remainder_o <= once[31:0];
    else remainder_o <= sum[31:0];
  end

endmodule
