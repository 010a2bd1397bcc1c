// Reads transfers from an AXI4 memory, and single words for atomics.
//
// A burst is requested only when the data FIFO has room for its beats. So the read channel never stalls, even if the
// consumer does.
//
// Latency: an address is offered 1 cycle after its command; a beat leaves 2 cycles after it arrived, a word 1 cycle.
// Throughput: a beat every cycle with up to 512 beats in 256 bursts in flight. Order: beats in the order of commands;
// words overtake waiting commands. Stalls: commands, while the FIFO has no room for their beats.
module axi_reader
  import weft_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic                command_valid_i,
  output logic                command_ready_o,
  input  logic [        41:0] command_word_i,   // address / 64
  input  logic [         6:0] command_beats_i,  // number of beats, less one; at most 63
  output logic                beat_valid_o,
  input  logic                beat_ready_i,
  output logic [BeatBits-1:0] beat_o,

  // Reads of single words, one at a time.
  input  logic        word_valid_i,
  output logic        word_ready_o,
  input  logic [44:0] word_index_i,       // address / 8
  output logic        word_data_valid_o,
  output logic [63:0] word_data_o,

  output logic fault_o,
  output logic idle_o,

  output logic         ar_valid_o,
  input  logic         ar_ready_i,
  output axi_address_t ar_o,
  input  logic         r_valid_i,
  output logic         r_ready_o,
  input  axi_read_t    r_i
);

  localparam int unsigned FifoBeats = 512;

  logic               burst_valid;
  logic               burst_ready;
  axi_address_t       burst;
  logic               burst_last;
  // Free entries of the FIFO, less the beats that have been requested.
  logic         [9:0] free_q;
  logic               address_free;
  logic               take_word;
  logic               take_burst;
  logic               under_way_ready;
  logic               under_way_valid;
  logic               under_way_word;
  logic         [8:0] under_way_level;
  logic         [2:0] word_index_q;
  logic               take_beat;
  logic               fifo_ready;
  logic               fifo_empty;

  axi_bursts i_bursts (
    .clk_i,
    .rst_ni,
    .command_valid_i,
    .command_ready_o,
    .command_word_i,
    .command_beats_i,
    .burst_valid_o(burst_valid),
    .burst_ready_i(burst_ready),
    .burst_o      (burst),
    .burst_last_o (burst_last)
  );

  assign address_free = (!ar_valid_o || ar_ready_i) && under_way_ready;
  assign word_ready_o = address_free;
  assign take_word = word_valid_i && address_free;
  assign burst_ready = address_free && !word_valid_i && free_q > 10'(burst.length);
  assign take_burst = burst_valid && burst_ready;

  // For each burst in flight: whether it is the read of a word.
  fifo #(
    .T    (logic),
    .Depth(256)
  ) i_under_way (
    .clk_i,
    .rst_ni,
    .in_valid_i (take_word || take_burst),
    .in_ready_o (under_way_ready),
    .in_i       (take_word),
    .out_valid_o(under_way_valid),
    .out_ready_i(r_valid_i && r_i.last),
    .out_o      (under_way_word),
    .level_o    (under_way_level)
  );

  assign r_ready_o = 1'b1;
  assign take_beat = r_valid_i && !under_way_word;
  assign fault_o = r_valid_i && r_i.response != '0;
  assign idle_o = !command_valid_i && under_way_level == '0 && fifo_empty;

  ram_fifo #(
    .T    (logic [BeatBits-1:0]),
    .Depth(FifoBeats)
  ) i_fifo (
    .clk_i,
    .rst_ni,
    .in_valid_i (take_beat),
    .in_ready_o (fifo_ready),
    .in_i       (r_i.data),
    .out_valid_o(beat_valid_o),
    .out_ready_i(beat_ready_i),
    .out_o      (beat_o),
    .empty_o    (fifo_empty)
  );

  always_ff @(posedge clk_i) begin
    if (take_word) begin
      ar_o         <= '{address: {word_index_i[44:3], 6'd0}, length: 8'd0};
      word_index_q <= word_index_i[2:0];
    end else if (take_burst) begin
      ar_o <= burst;
    end
    if (r_valid_i && under_way_word) word_data_o <= r_i.data[64*word_index_q+:64];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      ar_valid_o        <= 1'b0;
      free_q            <= 10'(FifoBeats);
      word_data_valid_o <= 1'b0;
    end else begin
      if (take_word || take_burst) ar_valid_o <= 1'b1;
      else if (ar_ready_i) ar_valid_o <= 1'b0;
      free_q <= free_q - (take_burst ? 10'(burst.length) + 10'd1 : 10'd0) + 10'(beat_valid_o && beat_ready_i);
      word_data_valid_o <= r_valid_i && under_way_word;
      assert (!take_beat || fifo_ready);
      assert (!r_valid_i || under_way_valid);
    end
  end

  // Only the writer needs to know which burst is the last.
  wire unused_burst_last = burst_last;

endmodule
