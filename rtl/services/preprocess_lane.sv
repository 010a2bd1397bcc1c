// Converts the values of one lane: looks up the column, and applies its limits and its operator.
//
// Latency: `PreprocessLaneLatency` cycles. Throughput: a value every cycle. A column must not be in use while it is
// written.
//
//   columns ─► limits ─┬─► hash ─┐                    ┌─► one of the results
//                      ├─────────┴─► remainder ───────┤
//                      ├─► log ───────────────────────┤
//                      ├─► bucketize ─────────────────┤
//                      └──────────────────────────────┘
//
// All operators compute on every value, and one result is selected. A value that is not to be converted passes as that
// of a column without operators.
module preprocess_lane
  import preprocess_pkg::*;
(
  input  logic                            clk_i,
  input  logic                            write_valid_i,
  input  preprocess_write_t               write_i,
  // Whether the value is to be converted.
  input  logic                            apply_i,
  input  preprocess_column_index_t        column_i,
  input  logic                     [31:0] value_i,
  output logic                     [31:0] feature_o
);

  // Cycle 1: the column. Cycle 2: the limited value.
  logic                        apply_1_q;
  logic                 [31:0] value_1_q;
  preprocess_column_t          column_1;
  logic                 [31:0] value_2;
  preprocess_operator_e        operator_2_q;
  logic                 [63:0] operand_2_q;

  ram #(
    .T    (preprocess_column_t),
    .Depth(PreprocessColumns)
  ) i_columns (
    .clk_i,
    .write_i        (write_valid_i && write_i.entries == PreprocessTableColumns),
    .write_address_i(write_i.address[$bits(preprocess_column_index_t)-1:0]),
    .write_data_i   (write_i.data),
    .read_i         (1'b1),
    .read_address_i (column_i),
    .read_data_o    (column_1)
  );

  preprocess_limits i_limits (
    .clk_i,
    .value_i  (value_1_q),
    .missing_i(apply_1_q ? column_1.missing : PreprocessMissing),
    .low_i    (apply_1_q ? column_1.low : PreprocessMissing),
    .high_i   (apply_1_q ? column_1.high : ~PreprocessMissing),
    .value_o  (value_2)
  );

  always_ff @(posedge clk_i) begin
    apply_1_q    <= apply_i;
    value_1_q    <= value_i;
    operator_2_q <= apply_1_q ? column_1.operation : PreprocessNone;
    operand_2_q  <= column_1.operand;
  end

  // Behind the hash: its value or the limited one is divided. Then the results of all operators.

  localparam int unsigned Hash = PreprocessHashLatency;
  localparam int unsigned Rest = PreprocessOperatorLatency - Hash;

  typedef struct packed {
    preprocess_operator_e operation;
    logic [31:0]          value;
  } limited_t;

  limited_t                        limited_hash;
  limited_t                        limited;
  preprocess_column_index_t        column_hash;
  preprocess_divisor_t             divisor;
  logic                     [63:0] hash;
  logic                     [63:0] dividend;
  logic                     [31:0] remainder;
  logic                     [31:0] logarithm;
  logic                     [ 6:0] count;
  logic                     [ 6:0] counted;

  delay #(
    .T     (limited_t),
    .Cycles(Hash)
  ) i_limited_hash (
    .clk_i,
    .in_i ('{operation: operator_2_q, value: value_2}),
    .out_o(limited_hash)
  );

  delay #(
    .T     (limited_t),
    .Cycles(Rest)
  ) i_limited (
    .clk_i,
    .in_i (limited_hash),
    .out_o(limited)
  );

  preprocess_hash i_hash (
    .clk_i,
    .value_i(value_2),
    .salt_i (operand_2_q),
    .hash_o (hash)
  );

  // The memory of divisors is read a cycle before they are needed.
  delay #(
    .T     (preprocess_column_index_t),
    .Cycles(2 + Hash - 1)
  ) i_column (
    .clk_i,
    .in_i (column_i),
    .out_o(column_hash)
  );

  ram #(
    .T    (preprocess_divisor_t),
    .Depth(PreprocessColumns)
  ) i_divisors (
    .clk_i,
    .write_i        (write_valid_i && write_i.entries == PreprocessTableDivisors),
    .write_address_i(write_i.address[$bits(preprocess_column_index_t)-1:0]),
    .write_data_i   (write_i.data[$bits(preprocess_divisor_t)-1:0]),
    .read_i         (1'b1),
    .read_address_i (column_hash),
    .read_data_o    (divisor)
  );

  assign dividend = limited_hash.operation == PreprocessSigridHash
      ? hash : {{32{limited_hash.value[31]}}, limited_hash.value};

  preprocess_remainder i_remainder (
    .clk_i,
    .dividend_i (dividend),
    .divisor_i  (divisor),
    .remainder_o(remainder)
  );

  preprocess_log i_log (
    .clk_i,
    .value_i   (value_2),
    .constant_i(operand_2_q[30:0]),
    .float_o   (logarithm)
  );

  preprocess_bucketize i_bucketize (
    .clk_i,
    .write_valid_i,
    .write_i,
    .value_i(value_2),
    .set_i  (operand_2_q[$bits(preprocess_set_t)-1:0]),
    .count_o(count)
  );

  delay #(
    .T     (logic [6:0]),
    .Cycles(PreprocessOperatorLatency - PreprocessBucketizeLatency)
  ) i_counted (
    .clk_i,
    .in_i (count),
    .out_o(counted)
  );

  always_ff @(posedge clk_i) begin
    unique case (limited.operation)
      PreprocessLog: feature_o <= logarithm;
      PreprocessModulus, PreprocessSigridHash: feature_o <= remainder;
      PreprocessBucketize: feature_o <= 32'(counted);
      default: feature_o <= limited.value;
    endcase
  end

endmodule
