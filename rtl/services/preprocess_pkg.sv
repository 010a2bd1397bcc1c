// Types of the preprocessing of rows. crates/service/src/preprocess/image.rs computes the contents of the tables.
package preprocess_pkg;

  // Capacity of the tables. All pipelines share the columns.
  localparam int unsigned PreprocessPipelines = 16;
  localparam int unsigned PreprocessColumns = 512;
  localparam int unsigned PreprocessBorderSets = 16;
  localparam int unsigned PreprocessBorders = 64;

  // Values of a beat.
  localparam int unsigned PreprocessLanes = 16;

  // Latencies in cycles. All results of operators are delayed to that of the slowest.
  localparam int unsigned PreprocessColumnsLatency = 11;
  localparam int unsigned PreprocessHashLatency = 12;
  localparam int unsigned PreprocessRemainderLatency = 8;
  localparam int unsigned PreprocessBucketizeLatency = 8;
  localparam int unsigned PreprocessLogLatency = 20;
  localparam int unsigned PreprocessOperatorLatency = PreprocessHashLatency + PreprocessRemainderLatency;
  localparam int unsigned PreprocessLaneLatency = 3 + PreprocessOperatorLatency;
  localparam int unsigned PreprocessLatency = PreprocessColumnsLatency + PreprocessLaneLatency;

  typedef logic [8:0] preprocess_column_index_t;
  typedef logic [3:0] preprocess_set_t;

  // Stands for a missing value; the lowest number.
  localparam logic [31:0] PreprocessMissing = 32'h8000_0000;

  // A divisor from 1 to 2^31 with what replaces the division: floor((2^64 - 1) / divisor), and -2^63 mod divisor.
  typedef struct packed {
    logic [31:0] divisor;
    logic [63:0] reciprocal;
    logic [30:0] bias;
  } preprocess_divisor_t;

  // A pipeline: the index of its first column, and the number of its columns as a divisor.
  typedef struct packed {
    preprocess_column_index_t first;
    preprocess_divisor_t columns;
  } preprocess_pipeline_t;

  // The operator behind the limits.
  typedef enum logic [2:0] {
    PreprocessNone       = 3'd0,
    PreprocessLog        = 3'd1,
    PreprocessModulus    = 3'd2,
    PreprocessBucketize  = 3'd3,
    PreprocessSigridHash = 3'd4
  } preprocess_operator_e;

  // A column: the feature of a missing value before the operator, the limits of all others, and the operator with its
  // operand: the constant of the logarithm, the number of the set of borders, or the salt of the hash. A modulus and a
  // hash have a divisor in another table.
  typedef struct packed {
    logic [31:0] missing;
    logic [31:0] low;
    logic [31:0] high;
    preprocess_operator_e operation;
    logic [63:0] operand;
  } preprocess_column_t;

  typedef enum logic [1:0] {
    PreprocessTablePipelines = 2'd0,
    PreprocessTableColumns   = 2'd1,
    PreprocessTableDivisors  = 2'd2,
    PreprocessTableBorders   = 2'd3
  } preprocess_table_e;

  // A write to a table. The entry is in the low bits of `data`. The divisor of a column has the column's index. A
  // border has the address {set, index}.
  typedef struct packed {
    preprocess_table_e entries;
    logic [9:0] address;
    logic [162:0] data;
  } preprocess_write_t;

endpackage
