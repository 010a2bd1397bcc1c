// Merges the completions of send requests and receive requests, and gives each to the owner of its queue pair, which
// is the host or an engine. Completions of SENDs that the card itself posted (tags with the highest bit set) go to
// the engine port whoever owns the queue pair.
//
// Latency: 3 cycles. Throughput: one completion every cycle. Order: kept for each source and owner. Stalls: when the
// owner of the oldest completion is not ready.
module completion_router
  import weft_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic        request_valid_i,
  output logic        request_ready_o,
  input  completion_t request_i,
  input  logic        receive_valid_i,
  output logic        receive_ready_o,
  input  completion_t receive_i,
  // Read port of the queue pair table: data one cycle after the read.
  output logic        table_read_o,
  output qp_index_t   table_index_o,
  input  queue_pair_t table_data_i,
  output logic        host_valid_o,
  input  logic        host_ready_i,
  output logic        engine_valid_o,
  input  logic        engine_ready_i,
  output completion_t completion_o,
  output logic        idle_o
);

  logic              merged_valid;
  logic              merged_ready;
  completion_t       merged;
  logic              looking_q;  // the table's data arrives in this cycle
  completion_t       looking_completion_q;
  logic              out_valid;
  logic              out_ready;
  logic              out_engine;
  logic        [2:0] level;

  typedef struct packed {
    logic        engine;
    completion_t completion;
  } routed_t;

  routed_t routed;
  logic    of_card;

  // The card's own SENDs have the highest bit of the tag set. The opcode's bit 7 marks receive completions
  // (IBV_WC_RECV is 128).
  assign of_card = looking_completion_q.id[63] && !looking_completion_q.opcode[7];

  arbiter #(
    .T(completion_t),
    .N(2)
  ) u_merge (
    .clk_i,
    .rst_ni,
    .in_valid_i ({receive_valid_i, request_valid_i}),
    .in_ready_o ({receive_ready_o, request_ready_o}),
    .in_i       ({receive_i, request_i}),
    .in_last_i  ('1),
    .out_valid_o(merged_valid),
    .out_ready_i(merged_ready),
    .out_o      (merged),
    .out_last_o (),
    .grant_o    ()
  );

  // Room for the completions in the FIFO and for the one whose table entry is being read.
  assign merged_ready  = level + 3'(looking_q) < 3'd4;
  assign table_read_o  = merged_valid && merged_ready;
  assign table_index_o = merged.qp;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) looking_q <= 1'b0;
    else looking_q <= table_read_o;
    if (table_read_o) looking_completion_q <= merged;
  end

  fifo #(
    .T    (routed_t),
    .Depth(4)
  ) u_routed (
    .clk_i,
    .rst_ni,
    .in_valid_i (looking_q),
    .in_ready_o (),
    .in_i       ({table_data_i.engine || of_card, looking_completion_q}),
    .out_valid_o(out_valid),
    .out_ready_i(out_ready),
    .out_o      (routed),
    .level_o    (level)
  );

  assign out_engine     = routed.engine;
  assign completion_o   = routed.completion;
  assign host_valid_o   = out_valid && !out_engine;
  assign engine_valid_o = out_valid && out_engine;
  assign out_ready      = out_engine ? engine_ready_i : host_ready_i;
  assign idle_o         = !merged_valid && !looking_q && !out_valid;

endmodule
