// Writes transfers to an AXI4 memory.
//
// Latency: a command's address is offered 2 cycles after the command; beats pass in the same cycle. A burst's beats
// may be offered before its address is accepted, but never before the cycle in which a ready slave would see the
// address. Throughput: a beat every cycle, a transfer every cycle. Order: everything stays in order. Stalls:
// commands, while 256 bursts are unanswered or the address channel stalls; beats, with the data channel.
module axi_writer
  import weft_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic        command_valid_i,
  output logic        command_ready_o,
  input  logic [41:0] command_word_i,   // address / 64
  input  logic [ 6:0] command_beats_i,  // number of beats, less one; at most 63

  // Data beats of the commands.
  input  logic              beat_valid_i,
  output logic              beat_ready_o,
  input  write_beat_t       beat_i,
  input  logic        [5:0] beat_word_i,   // bits 11:6 of the beat's address

  // Pulse, once for each command, when the memory has answered all its bursts.
  output logic done_o,
  output logic fault_o,
  output logic idle_o,

  output logic               aw_valid_o,
  input  logic               aw_ready_i,
  output axi_address_t       aw_o,
  output logic               w_valid_o,
  input  logic               w_ready_i,
  output write_beat_t        w_o,
  input  logic               b_valid_i,
  input  logic         [1:0] b_response_i
);

  typedef struct packed {
    logic [41:0] word;
    logic [6:0]  beats;
  } command_t;

  command_t           command;
  logic               command_valid;
  logic               command_ready;
  logic         [4:0] command_level;
  logic               burst_valid;
  logic               burst_ready;
  axi_address_t       burst;
  logic               burst_last;
  logic               unanswered_ready;
  logic               unanswered_valid;
  logic               unanswered_last;
  logic         [8:0] unanswered_level;

  fifo #(
    .T    (command_t),
    .Depth(16)
  ) i_commands (
    .clk_i,
    .rst_ni,
    .in_valid_i (command_valid_i),
    .in_ready_o (command_ready_o),
    .in_i       ({command_word_i, command_beats_i}),
    .out_valid_o(command_valid),
    .out_ready_i(command_ready),
    .out_o      (command),
    .level_o    (command_level)
  );

  axi_bursts i_bursts (
    .clk_i,
    .rst_ni,
    .command_valid_i(command_valid),
    .command_ready_o(command_ready),
    .command_word_i (command.word),
    .command_beats_i(command.beats),
    .burst_valid_o  (burst_valid),
    .burst_ready_i  (burst_ready),
    .burst_o        (burst),
    .burst_last_o   (burst_last)
  );

  assign burst_ready = (!aw_valid_o || aw_ready_i) && unanswered_ready;

  // For each unanswered burst: whether it is the last of its transfer.
  fifo #(
    .T    (logic),
    .Depth(256)
  ) i_unanswered (
    .clk_i,
    .rst_ni,
    .in_valid_i (burst_valid && burst_ready),
    .in_ready_o (unanswered_ready),
    .in_i       (burst_last),
    .out_valid_o(unanswered_valid),
    .out_ready_i(b_valid_i),
    .out_o      (unanswered_last),
    .level_o    (unanswered_level)
  );

  assign w_valid_o = beat_valid_i;
  assign beat_ready_o = w_ready_i;
  assign w_o = '{last: beat_i.last || beat_word_i == '1, strobe: beat_i.strobe, data: beat_i.data};

  assign done_o = b_valid_i && unanswered_last;
  assign fault_o = b_valid_i && b_response_i != '0;
  assign idle_o = command_level == '0 && unanswered_level == '0;

  always_ff @(posedge clk_i) begin
    if (burst_valid && burst_ready) aw_o <= burst;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      aw_valid_o <= 1'b0;
    end else begin
      if (burst_valid && burst_ready) aw_valid_o <= 1'b1;
      else if (aw_ready_i) aw_valid_o <= 1'b0;
      assert (!b_valid_i || unanswered_valid);
    end
  end

endmodule
