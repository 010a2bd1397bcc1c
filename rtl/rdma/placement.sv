// Carries out what requester and responder decide about received packets.
module placement
  import weft_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,

  // Whose the next packet is, one bit for each header: 0 the responder's, 1 the requester's.
  input  logic              order_valid_i,
  output logic              order_ready_o,
  input  logic              order_requester_i,

  input  logic              responder_valid_i,
  output logic              responder_ready_o,
  input  placement_t        responder_i,
  input  logic              requester_valid_i,
  output logic              requester_ready_o,
  input  placement_t        requester_i,

  // Whole frames from Ethernet byte 0, one for each verdict with a packet, in the order of the order bits.
  input  logic              frame_valid_i,
  output logic              frame_ready_o,
  input  beat_t             frame_i,

  // Memory.
  output logic              write_valid_o,
  input  logic              write_ready_i,
  output write_command_t    write_o,
  output logic              write_data_valid_o,
  input  logic              write_data_ready_i,
  output write_beat_t       write_data_o,
  input  logic              written_i,
  output logic              word_valid_o,
  input  logic              word_ready_i,
  output target_e           word_target_o,
  output address_t          word_address_o,
  input  logic              word_data_valid_i,
  input  logic [63:0]       word_data_i,

  // The writes into an engine's region, beat by beat, before the call.
  output logic              snoop_valid_o,
  input  logic              snoop_ready_i,
  output write_beat_t       snoop_o,
  output address_t          snoop_address_o,  // of the beat's byte 0: a multiple of 64
  output logic [3:0]        snoop_slot_o,

  // Consequences.
  output logic              completion_valid_o,
  input  logic              completion_ready_i,
  output completion_t       completion_o,
  output logic              call_valid_o,
  input  logic              call_ready_i,
  output rpc_call_t         call_o,
  output logic              answer_valid_o,
  input  logic              answer_ready_i,
  output qp_index_t         answer_qp_o,
  output answer_t           answer_o,
  output logic              advance_valid_o,
  input  logic              advance_ready_i,
  output qp_index_t         advance_qp_o,
  output advance_t          advance_o,
  output logic              marker_o,
  output qp_index_t         marker_qp_o,

  // Bytes of a responder's write to the host that are done.
  output logic              credit_return_valid_o,
  output payload_bytes_t    credit_return_o,

  output placement_events_t events_o,
  output logic              idle_o
);

  /* verilator lint_off UNUSED */
  wire unused = &{1'b0, clk_i, rst_ni, order_valid_i, order_requester_i, responder_valid_i, responder_i,
      requester_valid_i, requester_i, frame_valid_i, frame_i, write_ready_i, write_data_ready_i, written_i, word_ready_i,
      word_data_valid_i, word_data_i, snoop_ready_i, completion_ready_i, call_ready_i, answer_ready_i, advance_ready_i};
  /* verilator lint_on UNUSED */
  assign {order_ready_o, responder_ready_o, requester_ready_o, frame_ready_o, write_valid_o, write_o,
      write_data_valid_o, write_data_o, word_valid_o, word_address_o, snoop_valid_o, snoop_o, snoop_address_o,
      snoop_slot_o, completion_valid_o, completion_o, call_valid_o, call_o, answer_valid_o, answer_qp_o, answer_o,
      advance_valid_o, advance_qp_o, advance_o, marker_o, marker_qp_o, credit_return_valid_o, credit_return_o,
      events_o, idle_o} = '0;
  assign word_target_o = TargetRegister;

endmodule
