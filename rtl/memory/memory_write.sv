// Routes writes to their targets, and reports when each is visible.
//
// A write goes to its target; a write-through also goes to HBM. A write that leaves the register file or the on-chip
// memory is not performed anywhere.
//
// Latency: a beat reaches its target 1 cycle after its arrival; `written_o` follows 1 cycle after the last beat is
// stored, or 1 cycle after the answer of AXI4. Throughput: a beat every cycle, a command every cycle. Order: beats in
// the order of commands, also across targets; pulses in the order of commands. Stalls: commands, while beats of the
// previous command are missing or when about 250 writes are not visible yet; beats, with the data channel of their
// target.
module memory_write
  import weft_pkg::*;
#(
  parameter int unsigned OnChipBytes = 262_144,
  localparam int unsigned RowBits = $clog2(OnChipBytes / BeatBytes)
) (
  input logic clk_i,
  input logic rst_ni,

  input  logic           write_valid_i,
  output logic           write_ready_o,
  input  write_command_t write_i,
  input  logic           write_data_valid_i,
  output logic           write_data_ready_o,
  input  write_beat_t    write_data_i,
  output logic           written_o,

  // To the local memory.
  output logic                 local_write_o,
  output logic                 local_on_chip_o,
  output logic [  RowBits-1:0] local_row_o,
  output logic [BeatBytes-1:0] local_strobe_o,
  output logic [ BeatBits-1:0] local_data_o,

  // To the AXI4 writers, which share the command and the beat.
  output logic        [41:0] command_word_o,
  output logic        [ 6:0] command_beats_o,
  output write_beat_t        beat_o,
  output logic        [ 5:0] beat_word_o,
  output logic               hbm_command_valid_o,
  input  logic               hbm_command_ready_i,
  output logic               hbm_beat_valid_o,
  input  logic               hbm_beat_ready_i,
  input  logic               hbm_done_i,
  output logic               host_command_valid_o,
  input  logic               host_command_ready_i,
  output logic               host_beat_valid_o,
  input  logic               host_beat_ready_i,
  input  logic               host_done_i,

  output logic fault_o,
  output logic idle_o
);

  localparam int unsigned UnansweredDepth = 256;

  typedef struct packed {
    logic local_memory;
    logic hbm;
    logic host;
  } places_t;

  typedef struct packed {
    logic hbm;
    logic host;
  } answers_t;

  // The command whose beats are arriving.
  logic                      current_valid_q;
  places_t                   current_places_q;
  logic                      current_on_chip_q;
  logic        [RowBits-1:0] current_word_q;
  // The beat at the output.
  logic                      beat_valid_q;
  write_beat_t               beat_q;
  answers_t                  beat_answers_q;
  places_t                   beat_pending_q;
  logic                      beat_on_chip_q;
  logic        [RowBits-1:0] beat_word_q;

  logic                      outside;
  places_t                   places;
  logic                      take_command;
  logic                      take_beat;
  logic                      beat_done;
  logic                      push;
  answers_t                  answers;
  logic                      answers_valid;
  logic                      answers_ready;
  logic        [        8:0] answers_level;
  logic        [        8:0] hbm_done_q;
  logic        [        8:0] host_done_q;

  // Commands.

  memory_bounds #(
    .OnChipBytes(OnChipBytes)
  ) i_bounds (
    .target_i  (write_i.target),
    .transfer_i(write_i.transfer),
    .outside_o (outside),
    .beats_o   (command_beats_o)
  );

  always_comb begin
    places = '0;
    unique case (write_i.target)
      TargetRegister, TargetOnChip: places.local_memory = 1'b1;
      TargetHbm: places.hbm = 1'b1;
      default: places.host = 1'b1;
    endcase
    if (write_i.write_through) places.hbm = 1'b1;
    if (outside) places = '0;
  end

  // A command is accepted only if the FIFO of answers has room for its write and for the two before it that may not
  // have reached the FIFO: one whose beats are arriving, and one at the output. Two more slots stay free.
  assign write_ready_o = (!current_valid_q || (take_beat && write_data_i.last)) && hbm_command_ready_i
      && host_command_ready_i && answers_level < 9'(UnansweredDepth - 4);
  assign take_command = write_valid_i && write_ready_o;
  assign command_word_o = write_i.transfer.address[47:6];
  assign hbm_command_valid_o = take_command && places.hbm;
  assign host_command_valid_o = take_command && places.host;
  assign fault_o = take_command && outside;

  // Beats.

  assign write_data_ready_o = current_valid_q && (!beat_valid_q || beat_done);
  assign take_beat = write_data_valid_i && write_data_ready_o;
  assign beat_done = beat_valid_q && (!beat_pending_q.hbm || hbm_beat_ready_i)
      && (!beat_pending_q.host || host_beat_ready_i);
  assign beat_o = beat_q;
  assign beat_word_o = beat_word_q[5:0];
  assign hbm_beat_valid_o = beat_valid_q && beat_pending_q.hbm;
  assign host_beat_valid_o = beat_valid_q && beat_pending_q.host;
  assign local_write_o = beat_valid_q && beat_pending_q.local_memory;
  assign local_on_chip_o = beat_on_chip_q;
  assign local_row_o = beat_word_q;
  assign local_strobe_o = beat_q.strobe;
  assign local_data_o = beat_q.data;

  always_ff @(posedge clk_i) begin
    if (take_command) begin
      current_places_q  <= places;
      current_on_chip_q <= write_i.target == TargetOnChip;
      current_word_q    <= write_i.transfer.address[RowBits+5:6];
    end else if (take_beat) begin
      current_word_q <= current_word_q + 1'b1;
    end
    if (take_beat) begin
      beat_q         <= write_data_i;
      beat_answers_q <= '{hbm: current_places_q.hbm, host: current_places_q.host};
      beat_on_chip_q <= current_on_chip_q;
      beat_word_q    <= current_word_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      current_valid_q <= 1'b0;
      beat_valid_q    <= 1'b0;
      beat_pending_q  <= '0;
    end else begin
      if (take_command) current_valid_q <= 1'b1;
      else if (take_beat && write_data_i.last) current_valid_q <= 1'b0;
      if (take_beat) begin
        beat_valid_q   <= 1'b1;
        beat_pending_q <= current_places_q;
      end else begin
        if (beat_done) beat_valid_q <= 1'b0;
        beat_pending_q.local_memory <= 1'b0;
        if (hbm_beat_ready_i) beat_pending_q.hbm <= 1'b0;
        if (host_beat_ready_i) beat_pending_q.host <= 1'b0;
      end
    end
  end

  // Writes that are not visible yet.

  assign push = beat_done && beat_q.last;

  fifo #(
    .T    (answers_t),
    .Depth(UnansweredDepth)
  ) i_answers (
    .clk_i,
    .rst_ni,
    .in_valid_i (push),
    .in_ready_o (answers_ready),
    .in_i       (beat_answers_q),
    .out_valid_o(answers_valid),
    .out_ready_i(written_o),
    .out_o      (answers),
    .level_o    (answers_level)
  );

  // AXI4 answers may arrive before the turn of their write, so they are counted.
  assign written_o = answers_valid && (!answers.hbm || hbm_done_q != '0) && (!answers.host || host_done_q != '0);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      hbm_done_q  <= '0;
      host_done_q <= '0;
    end else begin
      hbm_done_q  <= hbm_done_q + 9'(hbm_done_i) - 9'(written_o && answers.hbm);
      host_done_q <= host_done_q + 9'(host_done_i) - 9'(written_o && answers.host);
      assert (!push || answers_ready);
    end
  end

  assign idle_o = !write_valid_i && !write_data_valid_i && !current_valid_q && !beat_valid_q && !answers_valid;

`ifndef SYNTHESIS
  // Check: a command has as many beats as words.
  logic [6:0] beats_left_q;
  always_ff @(posedge clk_i) begin
    if (take_command) beats_left_q <= command_beats_o;
    else if (take_beat) beats_left_q <= beats_left_q - 1'b1;
    if (rst_ni && take_beat) assert (write_data_i.last == (beats_left_q == '0));
  end
`endif

endmodule
