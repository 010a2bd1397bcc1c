// The memories behind the regions, and the retransmission buffer.
module memory
  import weft_pkg::*;
#(
  parameter int unsigned OnChipBytes = 262_144
) (
  input  logic           clk_i,
  input  logic           rst_ni,

  // Writes.
  input  logic           write_valid_i,
  output logic           write_ready_o,
  input  write_command_t write_i,
  input  logic           write_data_valid_i,
  output logic           write_data_ready_o,
  input  write_beat_t    write_data_i,
  // One pulse for each write command, in their order, when its data is visible to reads.
  output logic           written_o,

  // Reads for transmit.
  input  logic           read_valid_i,
  output logic           read_ready_o,
  input  read_command_t  read_i,
  output logic           data_valid_o,
  input  logic           data_ready_i,
  output beat_t          data_o,

  // Reads of one word for atomics, one at a time. The answer is a pulse.
  input  logic           word_valid_i,
  output logic           word_ready_o,
  input  target_e        word_target_i,
  input  address_t       word_address_i,  // a multiple of 8
  output logic           word_data_valid_o,
  output logic [63:0]    word_data_o,

  // The register file: row n holds bytes 64n to 64n + 63.
  output logic [7:0][BeatBits-1:0] registers_o,

  // AXI4 masters.
  output logic           hbm_aw_valid_o,
  input  logic           hbm_aw_ready_i,
  output axi_address_t   hbm_aw_o,
  output logic           hbm_w_valid_o,
  input  logic           hbm_w_ready_i,
  output write_beat_t    hbm_w_o,
  input  logic           hbm_b_valid_i,
  input  logic [1:0]     hbm_b_response_i,
  output logic           hbm_ar_valid_o,
  input  logic           hbm_ar_ready_i,
  output axi_address_t   hbm_ar_o,
  input  logic           hbm_r_valid_i,
  output logic           hbm_r_ready_o,
  input  axi_read_t      hbm_r_i,

  output logic           host_aw_valid_o,
  input  logic           host_aw_ready_i,
  output axi_address_t   host_aw_o,
  output logic           host_w_valid_o,
  input  logic           host_w_ready_i,
  output write_beat_t    host_w_o,
  input  logic           host_b_valid_i,
  input  logic [1:0]     host_b_response_i,
  output logic           host_ar_valid_o,
  input  logic           host_ar_ready_i,
  output axi_address_t   host_ar_o,
  input  logic           host_r_valid_i,
  output logic           host_r_ready_o,
  input  axi_read_t      host_r_i,

  output logic           retransmission_aw_valid_o,
  input  logic           retransmission_aw_ready_i,
  output axi_address_t   retransmission_aw_o,
  output logic           retransmission_w_valid_o,
  input  logic           retransmission_w_ready_i,
  output write_beat_t    retransmission_w_o,
  input  logic           retransmission_b_valid_i,
  input  logic [1:0]     retransmission_b_response_i,
  output logic           retransmission_ar_valid_o,
  input  logic           retransmission_ar_ready_i,
  output axi_address_t   retransmission_ar_o,
  input  logic           retransmission_r_valid_i,
  output logic           retransmission_r_ready_o,
  input  axi_read_t      retransmission_r_i,

  output memory_events_t events_o,
  // No command, beat or burst is under way.
  output logic           idle_o
);

  /* verilator lint_off UNUSED */
  wire unused = &{1'b0, OnChipBytes, clk_i, rst_ni, write_valid_i, write_i, write_data_valid_i, write_data_i,
      read_valid_i, read_i, data_ready_i, word_valid_i, word_target_i, word_address_i, hbm_aw_ready_i, hbm_w_ready_i,
      hbm_b_valid_i, hbm_b_response_i, hbm_ar_ready_i, hbm_r_valid_i, hbm_r_i, host_aw_ready_i, host_w_ready_i,
      host_b_valid_i, host_b_response_i, host_ar_ready_i, host_r_valid_i, host_r_i, retransmission_aw_ready_i,
      retransmission_w_ready_i, retransmission_b_valid_i, retransmission_b_response_i, retransmission_ar_ready_i,
      retransmission_r_valid_i, retransmission_r_i};
  /* verilator lint_on UNUSED */
  assign {write_ready_o, write_data_ready_o, written_o, read_ready_o, data_valid_o, data_o, word_ready_o,
      word_data_valid_o, word_data_o, registers_o, events_o, idle_o} = '0;
  assign {hbm_aw_valid_o, hbm_aw_o, hbm_w_valid_o, hbm_w_o, hbm_ar_valid_o, hbm_ar_o, hbm_r_ready_o} = '0;
  assign {host_aw_valid_o, host_aw_o, host_w_valid_o, host_w_o, host_ar_valid_o, host_ar_o, host_r_ready_o} = '0;
  assign {retransmission_aw_valid_o, retransmission_aw_o, retransmission_w_valid_o, retransmission_w_o,
      retransmission_ar_valid_o, retransmission_ar_o, retransmission_r_ready_o} = '0;

endmodule
