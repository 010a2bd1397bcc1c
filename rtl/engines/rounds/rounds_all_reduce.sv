// The rounds engine with the all-reduce as its algorithm (rounds_reduce). Twin of `Rounds<Reduce>` of
// crates/engines/rounds.
//
// Latency, throughput, order, stalls: those of rounds.
module rounds_all_reduce
  import weft_pkg::*;
  import engines_pkg::*;
  import rounds_pkg::*;
#(
  parameter int unsigned ProposalBytes = RoundsProposalBytes
) (
  input logic clk_i,
  input logic rst_ni,
  input cycles_t now_i,
  // Events, each followed by its payload if it has bytes.
  input logic event_valid_i,
  output logic event_ready_o,
  input engine_event_t event_i,
  input logic payload_valid_i,
  output logic payload_ready_o,
  input beat_t payload_i,
  // Taken with EventConfigure.
  input engine_configuration_t configuration_i,
  // Constant after reset, in cycles, at most 31 bits: the length of a round, unless a call sets another, and the
  // shortest path delay between nodes.
  input cycles_t period_i,
  input cycles_t one_way_i,
  input logic [7:0] silence_i,  // rounds after which a member from which nothing is received is to be removed
  output engine_status_t status_o,
  // Messages, each followed by its payload, which has no gaps.
  output logic message_valid_o,
  input logic message_ready_i,
  output engine_message_t message_o,
  output logic body_valid_o,
  input logic body_ready_i,
  output beat_t body_o,
  // Sets or moves a timer; never stalls.
  output logic timer_valid_o,
  output logic [4:0] timer_tag_o,
  output cycles_t timer_at_o,
  // Memory port that every engine has. Unused, because proposals are stored on the chip.
  output logic memory_aw_valid_o,
  input logic memory_aw_ready_i,
  output axi_address_t memory_aw_o,
  output logic memory_w_valid_o,
  input logic memory_w_ready_i,
  output write_beat_t memory_w_o,
  input logic memory_b_valid_i,
  input logic [1:0] memory_b_response_i,
  output logic memory_ar_valid_o,
  input logic memory_ar_ready_i,
  output axi_address_t memory_ar_o,
  input logic memory_r_valid_i,
  output logic memory_r_ready_o,
  input axi_read_t memory_r_i,
  output rounds_events_t events_o,
  // The engine has nothing to do; its timers are kept outside.
  output logic idle_o
);

  rounds #(
    .ProposalBytes(ProposalBytes),
    .Algorithm    (RoundsAlgorithmReduce)
  ) i_rounds (
    .*
  );

endmodule
