// Finds the column of each value of a beat: its index in the tables of columns.
//
// Latency: `PreprocessColumnsLatency` cycles. Throughput: a beat every cycle. Stalls: never. A pipeline must not be in
// use while it is written.
//
// Method: the value in lane l of a beat has number 16 word + l in its message. Its column is the remainder of a
// division of this number by the number of columns, so it depends on nothing but the offset.
module preprocess_columns
  import preprocess_pkg::*;
(
  input  logic                                           clk_i,
  input  logic                                           rst_ni,
  input  logic                                           write_valid_i,
  /* verilator lint_off UNUSEDSIGNAL */  // the entry is narrower than the widest one
  input  preprocess_write_t                              write_i,
  /* verilator lint_on UNUSEDSIGNAL */
  // The number of the pipeline, which need not exist.
  input  logic                     [               63:0] pipeline_i,
  // The offset of the beat, divided by 64.
  input  logic                     [               57:0] word_i,
  // Whether the pipeline exists; otherwise the columns are arbitrary.
  output logic                                           loaded_o,
  output preprocess_column_index_t [PreprocessLanes-1:0] columns_o
);

  localparam int unsigned IndexBits = $clog2(PreprocessPipelines);

  typedef logic [15:0][3:0] remainders_t;

  // The lane modulo a number of columns below 16.
  function automatic remainders_t remainders(int unsigned lane);
    remainders_t result;
    result[0] = '0;
    for (int unsigned divisor = 1; divisor < 16; divisor++) result[divisor] = 4'(lane % divisor);
    return result;
  endfunction

  logic                                           write;
  logic                 [PreprocessPipelines-1:0] loaded_q;
  preprocess_pipeline_t                           row;
  logic                 [                   57:0] word_q;
  logic                                           is_loaded_q;

  assign write = write_valid_i && write_i.entries == PreprocessTablePipelines;

  ram #(
    .T    (preprocess_pipeline_t),
    .Depth(PreprocessPipelines),
    .Style("distributed")
  ) i_pipelines (
    .clk_i,
    .write_i        (write),
    .write_address_i(write_i.address[IndexBits-1:0]),
    .write_data_i   (write_i.data[$bits(preprocess_pipeline_t)-1:0]),
    .read_i         (1'b1),
    .read_address_i (pipeline_i[IndexBits-1:0]),
    .read_data_o    (row)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) loaded_q <= '0;
    else if (write) loaded_q[write_i.address[IndexBits-1:0]] <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    word_q <= word_i;
    is_loaded_q <= pipeline_i[63:IndexBits] == '0 && loaded_q[pipeline_i[IndexBits-1:0]];
  end

  // The column of lane 0.

  typedef struct packed {
    logic                     is_loaded;
    preprocess_column_index_t first;
    logic [8:0]               columns;
  } row_t;

  row_t        found;
  /* verilator lint_off UNUSEDSIGNAL */  // there are at most 256 columns
  logic [31:0] base;
  /* verilator lint_on UNUSEDSIGNAL */

  preprocess_remainder i_remainder (
    .clk_i,
    .dividend_i ({2'b0, word_q, 4'b0}),
    .divisor_i  (row.columns),
    .remainder_o(base)
  );

  delay #(
    .T     (row_t),
    .Cycles(PreprocessRemainderLatency)
  ) i_row (
    .clk_i,
    .in_i ('{is_loaded: is_loaded_q, first: row.first, columns: row.columns.divisor[8:0]}),
    .out_o(found)
  );

  // The other lanes.

  row_t found_q;

  for (genvar lane = 0; lane < PreprocessLanes; lane++) begin : gen_lane

    localparam remainders_t Remainders = remainders(lane);

    logic [3:0] distance;
    logic [9:0] sum;
    logic [8:0] column_q;

    assign distance = found.columns[8:4] != '0 ? 4'(lane) : Remainders[found.columns[3:0]];
    assign sum = {2'b0, base[7:0]} + 10'(distance);

    always_ff @(posedge clk_i) begin
      column_q <= sum >= {1'b0, found.columns} ? 9'(sum - {1'b0, found.columns}) : sum[8:0];
      columns_o[lane] <= found_q.first + column_q;
    end

  end

  always_ff @(posedge clk_i) begin
    found_q  <= found;
    loaded_o <= found_q.is_loaded;
  end

endmodule
