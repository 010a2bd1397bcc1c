// The register file and the on-chip memory behind one write port, one read port for transfers and one for words.
//
// Reads are served from a copy of the registers in block RAM, because a multiplexer over all registers would cost
// more.
//
// Latency: a write is visible to reads that are requested in the cycle after it, and at `registers_o`; the first beat
// of a read arrives 4 cycles after its command, a word also after 4. Throughput: a write and a beat every cycle.
// Order: beats in the order of commands. Stalls: commands, while the beats of earlier ones are not accepted.
module local_memory
  import weft_pkg::*;
#(
  parameter int unsigned OnChipBytes = 262_144,
  localparam int unsigned RowBits = $clog2(OnChipBytes / BeatBytes)
) (
  input logic clk_i,
  input logic rst_ni,

  input logic                 write_i,
  input logic                 write_on_chip_i,  // 0: the register file
  input logic [  RowBits-1:0] write_row_i,
  input logic [BeatBytes-1:0] write_strobe_i,
  input logic [ BeatBits-1:0] write_data_i,

  input  logic                command_valid_i,
  output logic                command_ready_o,
  input  logic                command_outside_i,  // outside the memory: reads as zero
  input  logic                command_on_chip_i,
  input  logic [ RowBits-1:0] command_row_i,
  input  logic [         6:0] command_beats_i,    // number of beats, less one
  output logic                beat_valid_o,
  input  logic                beat_ready_i,
  output logic [BeatBits-1:0] beat_o,

  // Read of one word. Never stalls.
  input  logic               word_i,
  input  logic               word_outside_i,
  input  logic               word_on_chip_i,
  input  logic [RowBits+2:0] word_index_i,
  output logic               word_data_valid_o,
  output logic [       63:0] word_data_o,

  output logic [7:0][BeatBits-1:0] registers_o,
  output logic                     idle_o
);

  localparam int unsigned FifoBeats = 16;

  typedef struct packed {
    logic       beat;
    logic       word;
    logic       outside;
    logic       on_chip;
    logic [2:0] word_index;
  } read_t;

  logic  [         6:0] index_q;
  // Free entries of the FIFO, less the beats that are being read.
  logic  [         4:0] free_q;
  logic                 issue;
  logic                 issue_last;
  logic                 on_chip;
  logic  [ RowBits-1:0] row;
  read_t [         1:0] reads_q;
  logic  [BeatBits-1:0] on_chip_row;
  logic  [BeatBits-1:0] register_row;
  logic  [BeatBits-1:0] data;
  logic                 fifo_ready;
  logic  [         4:0] fifo_level;

  assign issue = command_valid_i && !word_i && free_q != '0;
  assign issue_last = index_q == command_beats_i;
  assign command_ready_o = issue && issue_last;
  assign on_chip = word_i ? word_on_chip_i : command_on_chip_i;
  assign row = word_i ? word_index_i[RowBits+2:3] : command_row_i + RowBits'(index_q);

  register_file i_register_file (
    .clk_i,
    .write_i    (write_i && !write_on_chip_i),
    .write_row_i(write_row_i[2:0]),
    .write_strobe_i,
    .write_data_i,
    .registers_o
  );

  on_chip_memory #(
    .Bytes(512),
    .Style("block")
  ) i_register_copy (
    .clk_i,
    .write_i    (write_i && !write_on_chip_i),
    .write_row_i(write_row_i[2:0]),
    .write_strobe_i,
    .write_data_i,
    .read_i     ((word_i || issue) && !on_chip),
    .read_row_i (row[2:0]),
    .read_data_o(register_row)
  );

  on_chip_memory #(
    .Bytes(OnChipBytes)
  ) i_on_chip_memory (
    .clk_i,
    .write_i    (write_i && write_on_chip_i),
    .write_row_i,
    .write_strobe_i,
    .write_data_i,
    .read_i     ((word_i || issue) && on_chip),
    .read_row_i (row),
    .read_data_o(on_chip_row)
  );

  assign data = reads_q[1].outside ? '0 : reads_q[1].on_chip ? on_chip_row : register_row;

  fifo #(
    .T    (logic [BeatBits-1:0]),
    .Depth(FifoBeats)
  ) i_fifo (
    .clk_i,
    .rst_ni,
    .in_valid_i (reads_q[1].beat),
    .in_ready_o (fifo_ready),
    .in_i       (data),
    .out_valid_o(beat_valid_o),
    .out_ready_i(beat_ready_i),
    .out_o      (beat_o),
    .level_o    (fifo_level)
  );

  always_ff @(posedge clk_i) begin
    if (reads_q[1].word) word_data_o <= data[64*reads_q[1].word_index+:64];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      index_q           <= '0;
      free_q            <= 5'(FifoBeats);
      reads_q           <= '0;
      word_data_valid_o <= 1'b0;
    end else begin
      if (issue) index_q <= issue_last ? '0 : index_q + 1'b1;
      free_q <= free_q - 5'(issue) + 5'(beat_valid_o && beat_ready_i);
      reads_q[0] <= '{
          beat: issue,
          word: word_i,
          outside: word_i ? word_outside_i : command_outside_i,
          on_chip: on_chip,
          word_index: word_index_i[2:0]
      };
      reads_q[1] <= reads_q[0];
      word_data_valid_o <= reads_q[1].word;
      assert (!reads_q[1].beat || fifo_ready);
    end
  end

  assign idle_o = !command_valid_i && fifo_level == '0 && !reads_q[0].beat && !reads_q[0].word && !reads_q[1].beat
      && !reads_q[1].word;

endmodule
