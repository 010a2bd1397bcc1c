// The table of the key-value engine: tags on chip, slots in memory. (Skeleton: the ports only.)
module kv_table
  import weft_pkg::*;
  import kv_pkg::*;
(
  input logic    clk_i,
  input logic    rst_ni,
  // Buckets less one. A change clears the table.
  input bucket_t bucket_mask_i,

  // Results come in the order of lookups. A result with a value (`found`, LookupRead or LookupFetch, and `value_bytes`) is
  // followed by its beats, without a pause once the result is offered.
  input  logic       lookup_valid_i,
  output logic       lookup_ready_o,
  input  lookup_t    lookup_i,
  output logic       result_valid_o,
  input  logic       result_ready_i,
  output looked_up_t result_o,
  output logic       result_value_valid_o,
  input  logic       result_value_ready_i,
  output beat_t      result_value_o,

  // Room for a key that may come: `reserve_done_o` 3 cycles or more after a reservation was taken, one at a time.
  input  logic    reserve_valid_i,
  output logic    reserve_ready_o,
  input  bucket_t reserve_bucket_i,
  output logic    reserve_done_o,
  output logic    reserve_granted_o,
  // Gives a reservation back.
  input  logic    release_valid_i,
  output logic    release_ready_o,
  input  bucket_t release_bucket_i,

  // Values (of puts with `value_bytes`) in the order of applies; an apply does not wait for its value.
  input  logic    apply_valid_i,
  output logic    apply_ready_o,
  input  apply_t  apply_i,
  input  logic    apply_value_valid_i,
  output logic    apply_value_ready_o,
  input  beat_t   apply_value_i,
  output logic    retired_valid_o,
  output stream_t retired_stream_o,

  // The first claimed way of a bucket from `scan_way_i` on.
  input  logic    scan_valid_i,
  output logic    scan_ready_o,
  input  bucket_t scan_bucket_i,
  input  way_t    scan_way_i,
  output logic    scan_done_o,
  output logic    scan_some_o,
  output way_t    scan_way_o,

  input  logic     journal_valid_i,
  output logic     journal_ready_o,
  input  journal_t journal_i,
  input  logic     journal_value_valid_i,
  output logic     journal_value_ready_o,
  input  beat_t    journal_value_i,
  output logic     journaled_valid_o,
  output stream_t  journaled_stream_o,

  // Frees all. Taken when nothing else is inside; `clear_done_o` says that it is over.
  input  logic clear_valid_i,
  output logic clear_ready_o,
  output logic clear_done_o,

  output logic               memory_aw_valid_o,
  input  logic               memory_aw_ready_i,
  output axi_address_t       memory_aw_o,
  output logic               memory_w_valid_o,
  input  logic               memory_w_ready_i,
  output write_beat_t        memory_w_o,
  input  logic               memory_b_valid_i,
  input  logic         [1:0] memory_b_response_i,
  output logic               memory_ar_valid_o,
  input  logic               memory_ar_ready_i,
  output axi_address_t       memory_ar_o,
  input  logic               memory_r_valid_i,
  output logic               memory_r_ready_o,
  input  axi_read_t          memory_r_i,

  output kv_table_events_t events_o,
  output logic             idle_o
);

  assign lookup_ready_o = 1'b0;
  assign result_valid_o = 1'b0;
  assign result_o = '0;
  assign result_value_valid_o = 1'b0;
  assign result_value_o = '0;
  assign reserve_ready_o = 1'b0;
  assign reserve_done_o = 1'b0;
  assign reserve_granted_o = 1'b0;
  assign release_ready_o = 1'b0;
  assign apply_ready_o = 1'b0;
  assign apply_value_ready_o = 1'b0;
  assign retired_valid_o = 1'b0;
  assign retired_stream_o = '0;
  assign scan_ready_o = 1'b0;
  assign scan_done_o = 1'b0;
  assign scan_some_o = 1'b0;
  assign scan_way_o = '0;
  assign journal_ready_o = 1'b0;
  assign journal_value_ready_o = 1'b0;
  assign journaled_valid_o = 1'b0;
  assign journaled_stream_o = '0;
  assign clear_ready_o = 1'b0;
  assign clear_done_o = 1'b0;
  assign memory_aw_valid_o = 1'b0;
  assign memory_aw_o = '0;
  assign memory_w_valid_o = 1'b0;
  assign memory_w_o = '0;
  assign memory_ar_valid_o = 1'b0;
  assign memory_ar_o = '0;
  assign memory_r_ready_o = 1'b0;
  assign events_o = '0;
  assign idle_o = 1'b1;

  wire unused = ^{
    clk_i,
    rst_ni,
    bucket_mask_i,
    lookup_valid_i,
    lookup_i,
    result_ready_i,
    result_value_ready_i,
    reserve_valid_i,
    reserve_bucket_i,
    release_valid_i,
    release_bucket_i,
    apply_valid_i,
    apply_i,
    apply_value_valid_i,
    apply_value_i,
    scan_valid_i,
    scan_bucket_i,
    scan_way_i,
    journal_valid_i,
    journal_i,
    journal_value_valid_i,
    journal_value_i,
    clear_valid_i,
    memory_aw_ready_i,
    memory_w_ready_i,
    memory_b_valid_i,
    memory_b_response_i,
    memory_ar_ready_i,
    memory_r_valid_i,
    memory_r_i
  };

endmodule
