// The natural logarithm of a value plus a constant, as float32. Twin of crates/service/src/preprocess/log.rs, which
// explains the method and gives the bounds of each term.
//
// Latency: `PreprocessLogLatency` cycles. Throughput: a value every cycle.
module preprocess_log
  import preprocess_pkg::*;
  import preprocess_log_pkg::*;
(
  input  logic        clk_i,
  input  logic [31:0] value_i,
  input  logic [30:0] constant_i,
  output logic [31:0] float_o
);

  // The sum has 56 fraction bits and is below 2^5.
  typedef logic [60:0] sum_t;
  typedef sum_t [31:0] multiples_t;

  function automatic multiples_t multiples();
    multiples_t result;
    for (int unsigned i = 0; i < 32; i++) result[i] = 61'(i) * 61'(PreprocessLn2);
    return result;
  endfunction

  localparam multiples_t Ln2Multiples = multiples();

  function automatic logic [4:0] highest(logic [31:0] number);
    logic [4:0] result = '0;
    for (int unsigned i = 0; i < 32; i++) if (number[i]) result = 5'(i);
    return result;
  endfunction

  // Cycle 1: the number. Cycle 2: its exponent, and whether it is at most 1. Cycle 3: m, with 31 fraction bits, from 1
  // on. Cycle 4: the table's 1/m and -ln of it.
  logic                [32:0] number_1_q;
  logic                [31:0] number_2_q;
  logic                [ 4:0] exponent_2_q;
  logic                       is_small_2_q;
  logic                [31:0] m_3_q;
  logic                [31:0] m_4_q;
  preprocess_log_row_t        row_4_q;

  always_ff @(posedge clk_i) begin
    number_1_q   <= {value_i[31], value_i} + {2'b0, constant_i};
    number_2_q   <= number_1_q[31:0];
    exponent_2_q <= highest(number_1_q[31:0]);
    is_small_2_q <= number_1_q[32] || number_1_q[31:1] == '0;
    m_3_q        <= number_2_q << (5'd31 - exponent_2_q);
    m_4_q        <= m_3_q;
    row_4_q      <= PreprocessLogTable[m_3_q[30:21]];
  end

  // Cycle 8: z = m r - 1, with 51 fraction bits; its magnitude is below 2^-10.
  /* verilator lint_off UNUSEDSIGNAL */  // the 1 is subtracted by leaving out the highest bits
  logic        [51:0] product;
  /* verilator lint_on UNUSEDSIGNAL */
  logic signed [41:0] z_8_q;
  logic signed [41:0] z_11;
  logic        [40:0] magnitude;

  multiplier #(
    .ABits(32),
    .BBits(20)
  ) i_product (
    .clk_i,
    .a_i      (m_4_q),
    .b_i      (row_4_q.reciprocal),
    .product_o(product)
  );

  always_ff @(posedge clk_i) z_8_q <= product[41:0];
  assign magnitude = z_8_q[41] ? 41'(-z_8_q) : z_8_q[40:0];

  delay #(
    .T     (logic signed [41:0]),
    .Cycles(3)
  ) i_z (
    .clk_i,
    .in_i (z_8_q),
    .out_o(z_11)
  );

  // Cycle 11: z^2. Cycle 14: z^3 and z^4 / 4. Cycle 17: z^3 / 3.
  /* verilator lint_off UNUSEDSIGNAL */  // what is rounded off
  logic        [81:0] square_product;
  logic signed [51:0] cube_product;
  logic        [21:0] fourth_product;
  logic signed [56:0] third_product;
  /* verilator lint_on UNUSEDSIGNAL */
  logic        [34:0] square;

  assign square = square_product[80:46];

  multiplier #(
    .ABits(41),
    .BBits(41)
  ) i_square (
    .clk_i,
    .a_i      (magnitude),
    .b_i      (magnitude),
    .product_o(square_product)
  );

  multiplier #(
    .ABits (27),
    .BBits (25),
    .Signed(1'b1)
  ) i_cube (
    .clk_i,
    .a_i      (z_11[41:15]),
    .b_i      (square[34:10]),
    .product_o(cube_product)
  );

  multiplier #(
    .ABits(11),
    .BBits(11)
  ) i_fourth (
    .clk_i,
    .a_i      (square[34:24]),
    .b_i      (square[34:24]),
    .product_o(fourth_product)
  );

  multiplier #(
    .ABits (26),
    .BBits (31),
    .Signed(1'b1)
  ) i_third (
    .clk_i,
    .a_i      (cube_product[51:26]),
    .b_i      (31'h5555_5555),
    .product_o(third_product)
  );

  // The terms are added as they come, the last in cycle 18.
  typedef struct packed {
    logic [4:0] exponent;
    logic       is_small;
  } kind_t;

  kind_t                        kind_8;
  logic                         is_small_19;
  logic  [$bits(sum_t)-1-5 : 0] logarithm_8;
  sum_t                         sum_9_q;
  sum_t                         sum_11;
  sum_t                         sum_12_q;
  sum_t                         sum_14;
  sum_t                         sum_15_q;
  sum_t                         sum_17;
  sum_t                         sum_18_q;

  delay #(
    .T     (kind_t),
    .Cycles(6)
  ) i_kind (
    .clk_i,
    .in_i ('{exponent: exponent_2_q, is_small: is_small_2_q}),
    .out_o(kind_8)
  );

  delay #(
    .T     (logic [55:0]),
    .Cycles(4)
  ) i_logarithm (
    .clk_i,
    .in_i (row_4_q.logarithm),
    .out_o(logarithm_8)
  );

  delay #(
    .T     (sum_t),
    .Cycles(2)
  ) i_sum_11 (
    .clk_i,
    .in_i (sum_9_q),
    .out_o(sum_11)
  );

  delay #(
    .T     (sum_t),
    .Cycles(2)
  ) i_sum_14 (
    .clk_i,
    .in_i (sum_12_q),
    .out_o(sum_14)
  );

  delay #(
    .T     (sum_t),
    .Cycles(2)
  ) i_sum_17 (
    .clk_i,
    .in_i (sum_15_q),
    .out_o(sum_17)
  );

  delay #(
    .T     (logic),
    .Cycles(11)
  ) i_small (
    .clk_i,
    .in_i (kind_8.is_small),
    .out_o(is_small_19)
  );

  always_ff @(posedge clk_i) begin
    sum_9_q  <= Ln2Multiples[kind_8.exponent] + sum_t'(logarithm_8) + {{14{z_8_q[41]}}, z_8_q, 5'b0};
    sum_12_q <= sum_11 - sum_t'(square[34:1]);
    sum_15_q <= sum_14 - sum_t'(fourth_product[21:10]);
    sum_18_q <= sum_17 + {{36{third_product[56]}}, third_product[56:32]};
  end

  // Cycle 19: the highest bit that is set is bit 55 to 60, because the number is at least ln 2. The 23 bits below it
  // are kept. Cycle 20: rounded to nearest, ties to even. A carry out of the mantissa increases the exponent.
  logic [ 2:0] top;
  logic [22:0] kept;
  logic        half;
  logic        sticky;
  logic [ 2:0] top_19_q;
  logic [22:0] kept_19_q;
  logic        rounds_up_19_q;

  always_comb begin
    top = '0;
    for (int unsigned i = 1; i < 6; i++) if (sum_18_q[55+i]) top = 3'(i);
    {kept, half, sticky} = '0;
    for (int unsigned i = 0; i < 6; i++) begin
      if (top == 3'(i)) begin
        kept   = sum_18_q[32+i+:23];
        half   = sum_18_q[31+i];
        sticky = (sum_18_q & ((61'd1 << (31 + i)) - 1)) != '0;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    top_19_q <= top;
    kept_19_q <= kept;
    rounds_up_19_q <= half && (sticky || kept[0]);
    float_o <= is_small_19 ? '0 : {8'd126 + 8'(top_19_q), kept_19_q} + 32'(rounds_up_19_q);
  end

endmodule
