// Converts rows of int32 to features, in place. Twin of crates/service/src/preprocess/pipeline.rs.
//
// Kind: map. Latency: `PreprocessLatency` cycles. Throughput: a beat every cycle. Order: kept. Stalls: never. The
// tables of a pipeline must not be in use while they are written.
//
// A value is converted if the packet has all of its four bytes. Such a value is in one beat, because beats begin at
// multiples of 64, and then all bytes of its lane are strobed.
module preprocess_service
  import weft_pkg::*;
  import preprocess_pkg::*;
  import services_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  logic                     write_valid_i,
  input  preprocess_write_t        write_i,
  input  logic                     valid_i,
  // Whether the beat is to be converted, and by which pipeline, which need not exist.
  input  logic                     apply_i,
  input  logic              [63:0] pipeline_i,
  input  service_beat_t            beat_i,
  output logic                     valid_o,
  output service_beat_t            beat_o
);

  // What passes beside the data.
  typedef struct packed {
    flow_t flow;
    logic [57:0]          word;
    logic                 last;
    logic [BeatBytes-1:0] strobe;
  } passing_t;

  // What waits for its columns.
  typedef struct packed {
    logic [PreprocessLanes-1:0] apply;
    logic [BeatBits-1:0]        data;
  } values_t;

  logic                     [PreprocessLatency-1:0] valid_q;
  passing_t                                         passing;
  values_t                                          values;
  values_t                                          found;
  logic                                             loaded;
  preprocess_column_index_t [  PreprocessLanes-1:0] columns;

  preprocess_columns i_columns (
    .clk_i,
    .rst_ni,
    .write_valid_i,
    .write_i,
    .pipeline_i,
    .word_i   (beat_i.word),
    .loaded_o (loaded),
    .columns_o(columns)
  );

  assign values.data = beat_i.data;

  delay #(
    .T     (values_t),
    .Cycles(PreprocessColumnsLatency)
  ) i_values (
    .clk_i,
    .in_i (values),
    .out_o(found)
  );

  for (genvar lane = 0; lane < PreprocessLanes; lane++) begin : gen_lane

    assign values.apply[lane] = apply_i && beat_i.strobe[4*lane+:4] == '1;

    preprocess_lane i_lane (
      .clk_i,
      .write_valid_i,
      .write_i,
      .apply_i  (found.apply[lane] && loaded),
      .column_i (columns[lane]),
      .value_i  (found.data[32*lane+:32]),
      .feature_o(beat_o.data[32*lane+:32])
    );

  end

  delay #(
    .T     (passing_t),
    .Cycles(PreprocessLatency)
  ) i_passing (
    .clk_i,
    .in_i ('{flow : beat_i.flow, word: beat_i.word, last: beat_i.last, strobe: beat_i.strobe}),
    .out_o(passing)
  );

  assign beat_o.flow = passing.flow;
  assign beat_o.word = passing.word;
  assign beat_o.last = passing.last;
  assign beat_o.strobe = passing.strobe;
  assign valid_o = valid_q[PreprocessLatency-1];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[PreprocessLatency-2:0], valid_i};
  end

endmodule
