// The memories behind the regions, and the retransmission buffer.
//
// Registers and on-chip memory are inside this block. HBM, the host and the retransmission buffer are AXI4 slaves
// that answer in order. A write is visible to every read whose command arrives in the cycle after `written_o` or
// later. Accesses outside the register file or the on-chip memory write nothing, not even to HBM, and read zeros.
//
// Latency: a write to registers or on-chip memory is visible 2 cycles after its last beat is accepted, and
// `written_o` pulses in the same cycle. A write to AXI4 offers a beat 1 cycle after it arrives, and is reported 1
// cycle after the answer. A read of registers or on-chip memory takes 5 cycles. A read of AXI4 offers its address
// after 2 cycles and forwards a beat 3 cycles after its arrival. Throughput: a beat every cycle in each direction at
// once; a 64-byte command every cycle. Order: reads complete in the order of their commands, and writes do too. A
// write of more than one beat is not atomic to reads. Stalls: writes, with the AXI4 data channel of their target;
// reads, when their consumer or the copy to the retransmission buffer stalls. The read of a word waits only for the
// bursts in flight at its memory. AXI4: up to 256 bursts in flight on each channel; write data may be offered before
// its address is accepted.
module memory
  import weft_pkg::*;
#(
  parameter int unsigned OnChipBytes = 262_144
) (
  input logic clk_i,
  input logic rst_ni,

  // Writes.
  input  logic           write_valid_i,
  output logic           write_ready_o,
  input  write_command_t write_i,
  input  logic           write_data_valid_i,
  output logic           write_data_ready_o,
  input  write_beat_t    write_data_i,
  // Pulse, once for each write command and in their order, when its data is visible to reads.
  output logic           written_o,

  // Reads for transmit.
  input  logic          read_valid_i,
  output logic          read_ready_o,
  input  read_command_t read_i,
  output logic          data_valid_o,
  input  logic          data_ready_i,
  output beat_t         data_o,

  // Reads of one word, for atomics, one at a time. The data is valid for one cycle.
  input  logic            word_valid_i,
  output logic            word_ready_o,
  input  target_e         word_target_i,
  input  address_t        word_address_i,     // a multiple of 8
  output logic            word_data_valid_o,
  output logic     [63:0] word_data_o,

  // The register file: row n holds bytes 64n to 64n + 63.
  output logic [7:0][BeatBits-1:0] registers_o,

  // AXI4 masters.
  output logic               hbm_aw_valid_o,
  input  logic               hbm_aw_ready_i,
  output axi_address_t       hbm_aw_o,
  output logic               hbm_w_valid_o,
  input  logic               hbm_w_ready_i,
  output write_beat_t        hbm_w_o,
  input  logic               hbm_b_valid_i,
  input  logic         [1:0] hbm_b_response_i,
  output logic               hbm_ar_valid_o,
  input  logic               hbm_ar_ready_i,
  output axi_address_t       hbm_ar_o,
  input  logic               hbm_r_valid_i,
  output logic               hbm_r_ready_o,
  input  axi_read_t          hbm_r_i,

  output logic               host_aw_valid_o,
  input  logic               host_aw_ready_i,
  output axi_address_t       host_aw_o,
  output logic               host_w_valid_o,
  input  logic               host_w_ready_i,
  output write_beat_t        host_w_o,
  input  logic               host_b_valid_i,
  input  logic         [1:0] host_b_response_i,
  output logic               host_ar_valid_o,
  input  logic               host_ar_ready_i,
  output axi_address_t       host_ar_o,
  input  logic               host_r_valid_i,
  output logic               host_r_ready_o,
  input  axi_read_t          host_r_i,

  output logic               retransmission_aw_valid_o,
  input  logic               retransmission_aw_ready_i,
  output axi_address_t       retransmission_aw_o,
  output logic               retransmission_w_valid_o,
  input  logic               retransmission_w_ready_i,
  output write_beat_t        retransmission_w_o,
  input  logic               retransmission_b_valid_i,
  input  logic         [1:0] retransmission_b_response_i,
  output logic               retransmission_ar_valid_o,
  input  logic               retransmission_ar_ready_i,
  output axi_address_t       retransmission_ar_o,
  input  logic               retransmission_r_valid_i,
  output logic               retransmission_r_ready_o,
  input  axi_read_t          retransmission_r_i,

  output memory_events_t events_o,
  // No command, beat or burst is in progress.
  output logic           idle_o
);

  localparam int unsigned RowBits = $clog2(OnChipBytes / BeatBytes);

  // Writes.

  logic                        local_write;
  logic                        local_write_on_chip;
  logic        [  RowBits-1:0] local_write_row;
  logic        [BeatBytes-1:0] local_write_strobe;
  logic        [ BeatBits-1:0] local_write_data;
  logic        [         41:0] write_word;
  logic        [          6:0] write_beats;
  write_beat_t                 write_beat;
  logic        [          5:0] write_beat_word;
  logic                        write_fault;
  logic                        write_idle;
  logic                        hbm_write_valid;
  logic                        hbm_write_ready;
  logic                        hbm_write_beat_valid;
  logic                        hbm_write_beat_ready;
  logic                        hbm_write_done;
  logic                        hbm_write_fault;
  logic                        hbm_write_idle;
  logic                        host_write_valid;
  logic                        host_write_ready;
  logic                        host_write_beat_valid;
  logic                        host_write_beat_ready;
  logic                        host_write_done;
  logic                        host_write_fault;
  logic                        host_write_idle;

  memory_write #(
    .OnChipBytes(OnChipBytes)
  ) i_write (
    .clk_i,
    .rst_ni,
    .write_valid_i,
    .write_ready_o,
    .write_i,
    .write_data_valid_i,
    .write_data_ready_o,
    .write_data_i,
    .written_o,
    .local_write_o       (local_write),
    .local_on_chip_o     (local_write_on_chip),
    .local_row_o         (local_write_row),
    .local_strobe_o      (local_write_strobe),
    .local_data_o        (local_write_data),
    .command_word_o      (write_word),
    .command_beats_o     (write_beats),
    .beat_o              (write_beat),
    .beat_word_o         (write_beat_word),
    .hbm_command_valid_o (hbm_write_valid),
    .hbm_command_ready_i (hbm_write_ready),
    .hbm_beat_valid_o    (hbm_write_beat_valid),
    .hbm_beat_ready_i    (hbm_write_beat_ready),
    .hbm_done_i          (hbm_write_done),
    .host_command_valid_o(host_write_valid),
    .host_command_ready_i(host_write_ready),
    .host_beat_valid_o   (host_write_beat_valid),
    .host_beat_ready_i   (host_write_beat_ready),
    .host_done_i         (host_write_done),
    .fault_o             (write_fault),
    .idle_o              (write_idle)
  );

  axi_writer i_hbm_writer (
    .clk_i,
    .rst_ni,
    .command_valid_i(hbm_write_valid),
    .command_ready_o(hbm_write_ready),
    .command_word_i (write_word),
    .command_beats_i(write_beats),
    .beat_valid_i   (hbm_write_beat_valid),
    .beat_ready_o   (hbm_write_beat_ready),
    .beat_i         (write_beat),
    .beat_word_i    (write_beat_word),
    .done_o         (hbm_write_done),
    .fault_o        (hbm_write_fault),
    .idle_o         (hbm_write_idle),
    .aw_valid_o     (hbm_aw_valid_o),
    .aw_ready_i     (hbm_aw_ready_i),
    .aw_o           (hbm_aw_o),
    .w_valid_o      (hbm_w_valid_o),
    .w_ready_i      (hbm_w_ready_i),
    .w_o            (hbm_w_o),
    .b_valid_i      (hbm_b_valid_i),
    .b_response_i   (hbm_b_response_i)
  );

  axi_writer i_host_writer (
    .clk_i,
    .rst_ni,
    .command_valid_i(host_write_valid),
    .command_ready_o(host_write_ready),
    .command_word_i (write_word),
    .command_beats_i(write_beats),
    .beat_valid_i   (host_write_beat_valid),
    .beat_ready_o   (host_write_beat_ready),
    .beat_i         (write_beat),
    .beat_word_i    (write_beat_word),
    .done_o         (host_write_done),
    .fault_o        (host_write_fault),
    .idle_o         (host_write_idle),
    .aw_valid_o     (host_aw_valid_o),
    .aw_ready_i     (host_aw_ready_i),
    .aw_o           (host_aw_o),
    .w_valid_o      (host_w_valid_o),
    .w_ready_i      (host_w_ready_i),
    .w_o            (host_w_o),
    .b_valid_i      (host_b_valid_i),
    .b_response_i   (host_b_response_i)
  );

  // Reads.

  logic                       local_command_valid;
  logic                       local_command_ready;
  logic                       local_command_outside;
  logic                       local_command_on_chip;
  logic        [ RowBits-1:0] local_command_row;
  logic        [         6:0] local_command_beats;
  logic                       local_beat_valid;
  logic                       local_beat_ready;
  logic        [BeatBits-1:0] local_beat;
  logic                       local_idle;
  logic                       hbm_command_valid;
  logic                       hbm_command_ready;
  logic        [        41:0] hbm_command_word;
  logic        [         6:0] hbm_command_beats;
  logic                       hbm_beat_valid;
  logic                       hbm_beat_ready;
  logic        [BeatBits-1:0] hbm_beat;
  logic                       hbm_read_fault;
  logic                       hbm_read_idle;
  logic                       host_command_valid;
  logic                       host_command_ready;
  logic        [        41:0] host_command_word;
  logic        [         6:0] host_command_beats;
  logic                       host_beat_valid;
  logic                       host_beat_ready;
  logic        [BeatBits-1:0] host_beat;
  logic                       host_read_fault;
  logic                       host_read_idle;
  logic                       retransmission_command_valid;
  logic                       retransmission_command_ready;
  logic        [        41:0] retransmission_command_word;
  logic        [         6:0] retransmission_command_beats;
  logic                       retransmission_beat_valid;
  logic                       retransmission_beat_ready;
  logic        [BeatBits-1:0] retransmission_beat;
  logic                       retransmission_read_fault;
  logic                       retransmission_read_idle;
  logic                       copy_command_valid;
  logic                       copy_command_ready;
  logic        [        41:0] copy_command_word;
  logic        [         6:0] copy_command_beats;
  logic                       copy_valid;
  logic                       copy_ready;
  write_beat_t                copy_beat;
  logic        [         5:0] copy_word;
  logic                       copy_done;
  logic                       copy_fault;
  logic                       copy_idle;
  logic                       read_fault;
  logic                       read_idle;

  memory_read #(
    .OnChipBytes(OnChipBytes)
  ) i_read (
    .clk_i,
    .rst_ni,
    .read_valid_i,
    .read_ready_o,
    .read_i,
    .data_valid_o,
    .data_ready_i,
    .data_o,
    .local_command_valid_o         (local_command_valid),
    .local_command_ready_i         (local_command_ready),
    .local_command_outside_o       (local_command_outside),
    .local_command_on_chip_o       (local_command_on_chip),
    .local_command_row_o           (local_command_row),
    .local_command_beats_o         (local_command_beats),
    .local_beat_valid_i            (local_beat_valid),
    .local_beat_ready_o            (local_beat_ready),
    .local_beat_i                  (local_beat),
    .hbm_command_valid_o           (hbm_command_valid),
    .hbm_command_ready_i           (hbm_command_ready),
    .hbm_command_word_o            (hbm_command_word),
    .hbm_command_beats_o           (hbm_command_beats),
    .hbm_beat_valid_i              (hbm_beat_valid),
    .hbm_beat_ready_o              (hbm_beat_ready),
    .hbm_beat_i                    (hbm_beat),
    .host_command_valid_o          (host_command_valid),
    .host_command_ready_i          (host_command_ready),
    .host_command_word_o           (host_command_word),
    .host_command_beats_o          (host_command_beats),
    .host_beat_valid_i             (host_beat_valid),
    .host_beat_ready_o             (host_beat_ready),
    .host_beat_i                   (host_beat),
    .retransmission_command_valid_o(retransmission_command_valid),
    .retransmission_command_ready_i(retransmission_command_ready),
    .retransmission_command_word_o (retransmission_command_word),
    .retransmission_command_beats_o(retransmission_command_beats),
    .retransmission_beat_valid_i   (retransmission_beat_valid),
    .retransmission_beat_ready_o   (retransmission_beat_ready),
    .retransmission_beat_i         (retransmission_beat),
    .copy_command_valid_o          (copy_command_valid),
    .copy_command_ready_i          (copy_command_ready),
    .copy_command_word_o           (copy_command_word),
    .copy_command_beats_o          (copy_command_beats),
    .copy_valid_o                  (copy_valid),
    .copy_ready_i                  (copy_ready),
    .copy_o                        (copy_beat),
    .copy_word_o                   (copy_word),
    .copy_done_i                   (copy_done),
    .fault_o                       (read_fault),
    .idle_o                        (read_idle)
  );

  axi_writer i_retransmission_writer (
    .clk_i,
    .rst_ni,
    .command_valid_i(copy_command_valid),
    .command_ready_o(copy_command_ready),
    .command_word_i (copy_command_word),
    .command_beats_i(copy_command_beats),
    .beat_valid_i   (copy_valid),
    .beat_ready_o   (copy_ready),
    .beat_i         (copy_beat),
    .beat_word_i    (copy_word),
    .done_o         (copy_done),
    .fault_o        (copy_fault),
    .idle_o         (copy_idle),
    .aw_valid_o     (retransmission_aw_valid_o),
    .aw_ready_i     (retransmission_aw_ready_i),
    .aw_o           (retransmission_aw_o),
    .w_valid_o      (retransmission_w_valid_o),
    .w_ready_i      (retransmission_w_ready_i),
    .w_o            (retransmission_w_o),
    .b_valid_i      (retransmission_b_valid_i),
    .b_response_i   (retransmission_b_response_i)
  );

  // Reads of single words.

  logic        word_busy_q;
  logic        word_take;
  logic        word_outside;
  logic        word_to_local;
  logic        hbm_word_ready;
  logic        host_word_ready;
  logic        local_word_valid;
  logic [63:0] local_word;
  logic        hbm_word_valid;
  logic [63:0] hbm_word;
  logic        host_word_valid;
  logic [63:0] host_word;

  memory_bounds #(
    .OnChipBytes(OnChipBytes)
  ) i_word_bounds (
    .target_i  (word_target_i),
    .transfer_i({word_address_i, payload_bytes_t'(8)}),
    .outside_o (word_outside),
    /* verilator lint_off PINCONNECTEMPTY */  // always one beat
    .beats_o   ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign word_to_local = word_target_i == TargetRegister || word_target_i == TargetOnChip;
  assign word_ready_o = !word_busy_q
      && (word_to_local || (word_target_i == TargetHbm ? hbm_word_ready : host_word_ready));
  assign word_take = word_valid_i && word_ready_o;
  assign word_data_valid_o = local_word_valid || hbm_word_valid || host_word_valid;
  assign word_data_o = local_word_valid ? local_word : hbm_word_valid ? hbm_word : host_word;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      word_busy_q <= 1'b0;
    end else begin
      if (word_take) word_busy_q <= 1'b1;
      else if (word_data_valid_o) word_busy_q <= 1'b0;
      assert (!word_valid_i || word_address_i[2:0] == '0);
    end
  end

  // The memories.

  local_memory #(
    .OnChipBytes(OnChipBytes)
  ) i_local (
    .clk_i,
    .rst_ni,
    .write_i          (local_write),
    .write_on_chip_i  (local_write_on_chip),
    .write_row_i      (local_write_row),
    .write_strobe_i   (local_write_strobe),
    .write_data_i     (local_write_data),
    .command_valid_i  (local_command_valid),
    .command_ready_o  (local_command_ready),
    .command_outside_i(local_command_outside),
    .command_on_chip_i(local_command_on_chip),
    .command_row_i    (local_command_row),
    .command_beats_i  (local_command_beats),
    .beat_valid_o     (local_beat_valid),
    .beat_ready_i     (local_beat_ready),
    .beat_o           (local_beat),
    .word_i           (word_take && word_to_local),
    .word_outside_i   (word_outside),
    .word_on_chip_i   (word_target_i == TargetOnChip),
    .word_index_i     (word_address_i[RowBits+5:3]),
    .word_data_valid_o(local_word_valid),
    .word_data_o      (local_word),
    .registers_o,
    .idle_o           (local_idle)
  );

  axi_reader i_hbm_reader (
    .clk_i,
    .rst_ni,
    .command_valid_i  (hbm_command_valid),
    .command_ready_o  (hbm_command_ready),
    .command_word_i   (hbm_command_word),
    .command_beats_i  (hbm_command_beats),
    .beat_valid_o     (hbm_beat_valid),
    .beat_ready_i     (hbm_beat_ready),
    .beat_o           (hbm_beat),
    .word_valid_i     (word_valid_i && !word_busy_q && word_target_i == TargetHbm),
    .word_ready_o     (hbm_word_ready),
    .word_index_i     (word_address_i[47:3]),
    .word_data_valid_o(hbm_word_valid),
    .word_data_o      (hbm_word),
    .fault_o          (hbm_read_fault),
    .idle_o           (hbm_read_idle),
    .ar_valid_o       (hbm_ar_valid_o),
    .ar_ready_i       (hbm_ar_ready_i),
    .ar_o             (hbm_ar_o),
    .r_valid_i        (hbm_r_valid_i),
    .r_ready_o        (hbm_r_ready_o),
    .r_i              (hbm_r_i)
  );

  axi_reader i_host_reader (
    .clk_i,
    .rst_ni,
    .command_valid_i  (host_command_valid),
    .command_ready_o  (host_command_ready),
    .command_word_i   (host_command_word),
    .command_beats_i  (host_command_beats),
    .beat_valid_o     (host_beat_valid),
    .beat_ready_i     (host_beat_ready),
    .beat_o           (host_beat),
    .word_valid_i     (word_valid_i && !word_busy_q && word_target_i == TargetHost),
    .word_ready_o     (host_word_ready),
    .word_index_i     (word_address_i[47:3]),
    .word_data_valid_o(host_word_valid),
    .word_data_o      (host_word),
    .fault_o          (host_read_fault),
    .idle_o           (host_read_idle),
    .ar_valid_o       (host_ar_valid_o),
    .ar_ready_i       (host_ar_ready_i),
    .ar_o             (host_ar_o),
    .r_valid_i        (host_r_valid_i),
    .r_ready_o        (host_r_ready_o),
    .r_i              (host_r_i)
  );

  axi_reader i_retransmission_reader (
    .clk_i,
    .rst_ni,
    .command_valid_i  (retransmission_command_valid),
    .command_ready_o  (retransmission_command_ready),
    .command_word_i   (retransmission_command_word),
    .command_beats_i  (retransmission_command_beats),
    .beat_valid_o     (retransmission_beat_valid),
    .beat_ready_i     (retransmission_beat_ready),
    .beat_o           (retransmission_beat),
    /* verilator lint_off PINCONNECTEMPTY */  // atomics never read this memory
    .word_valid_i     (1'b0),
    .word_ready_o     (),
    .word_index_i     ('0),
    .word_data_valid_o(),
    .word_data_o      (),
    /* verilator lint_on PINCONNECTEMPTY */
    .fault_o          (retransmission_read_fault),
    .idle_o           (retransmission_read_idle),
    .ar_valid_o       (retransmission_ar_valid_o),
    .ar_ready_i       (retransmission_ar_ready_i),
    .ar_o             (retransmission_ar_o),
    .r_valid_i        (retransmission_r_valid_i),
    .r_ready_o        (retransmission_r_ready_o),
    .r_i              (retransmission_r_i)
  );

  assign events_o.memory_fault = write_fault || read_fault || (word_take && word_outside) || hbm_write_fault
      || host_write_fault || copy_fault || hbm_read_fault || host_read_fault || retransmission_read_fault;
  assign idle_o = write_idle && hbm_write_idle && host_write_idle && copy_idle && read_idle && local_idle
      && hbm_read_idle && host_read_idle && retransmission_read_idle && !word_busy_q && !word_valid_i;

endmodule
