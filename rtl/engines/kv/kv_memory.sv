// Writes slots of the key-value table and records of its journal to memory, alternately.
//
// A record goes to `place` of its stream's ring, behind all slots: its index is BucketsMax * Ways + stream *
// WindowEntries + place, at 17 beats each.
//
// Latency: 2 cycles from a slot or record to its first beat, 3 to its address. Throughput: n beats in n + 2 cycles,
// with several writes in progress. Order: writes are issued and answered in the order in which they were accepted.
// Stalls: with the memory; a record also with its value.
module kv_memory
  import weft_pkg::*;
  import kv_pkg::*;
  import kv_table_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  // A slot. It is accepted with its last beat.
  input  logic                       slot_valid_i,
  output logic                       slot_ready_o,
  input  slot_write_t                slot_i,
  output logic                       beat_read_o,
  output logic        [         3:0] beat_index_o,
  input  logic        [BeatBits-1:0] beat_i,
  output logic                       slot_answered_o,

  // A record. It is accepted with its header.
  input  logic     journal_valid_i,
  output logic     journal_ready_o,
  input  journal_t journal_i,
  input  logic     journal_value_valid_i,
  output logic     journal_value_ready_o,
  input  beat_t    journal_value_i,
  output logic     journaled_valid_o,
  output stream_t  journaled_stream_o,

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

  localparam int unsigned JournalBase = BucketsMax * Ways;
  localparam int unsigned IndexBits = $clog2(JournalBase) + 1;

  typedef struct packed {
    logic    journal;
    stream_t stream;
  } writer_t;

  typedef enum logic [1:0] {
    Choose,
    Header,
    Value
  } state_e;

  state_e                       state_q;
  logic                         journal_q;  // the current write is a record
  logic                         journal_next_q;  // the next turn, when both wait, is the journal's
  logic                         journal;
  logic                         choose;
  logic         [IndexBits-1:0] index_q;
  value_bytes_t                 bytes;
  value_beats_t                 left_q;  // beats of the value that remain
  logic                         command_valid;
  logic                         command_ready;
  logic                         commanded_q;
  logic         [         41:0] word;
  logic         [          5:0] beat_word_q;
  logic         [          5:0] beat_word;
  write_beat_t                  beat;
  logic                         beat_valid;
  logic                         beat_ready;
  logic                         beat_moves;
  logic                         done;
  logic                         writers_ready;
  writer_t                      writer;
  logic                         writer_idle;
  logic         [          3:0] beat_index_q;

  assign journal = journal_valid_i && (journal_next_q || !slot_valid_i);
  assign choose = state_q == Choose && (slot_valid_i || journal_valid_i) && writers_ready;
  assign bytes = journal ? journal_i.value_bytes : slot_i.value_bytes;

  assign word = 42'({index_q, 4'b0}) + 42'(index_q);
  assign command_valid = state_q != Choose && !commanded_q;
  assign beat_word = state_q == Header ? word[5:0] : beat_word_q;

  // Header beats. A slot's "latest accepted version" is the committed one.
  logic [BeatBits-1:0] slot_header;
  assign slot_header = swap_bytes(
      {
        slot_i.version,
        slot_i.version,
        5'd0,
        slot_i.value_bytes,
        8'd3,
        40'd0,
        slot_i.key,
        (BeatBits - 192 - KeyBits)'(0)
      }
  );

  // The first beat may be sent with the command, but not before it.
  logic command_seen;
  assign command_seen = commanded_q || command_ready;

  always_comb begin
    beat.strobe = '1;
    beat.last   = left_q == '0;
    if (state_q == Header) beat.data = journal_q ? journal_i.header : slot_header;
    else beat.data = journal_q ? journal_value_i.data : beat_i;
    beat_valid = (state_q == Header && command_seen) || (state_q == Value && (!journal_q || journal_value_valid_i));
  end

  assign beat_moves = beat_valid && beat_ready;
  assign journal_ready_o = state_q == Header && journal_q && beat_moves;
  assign journal_value_ready_o = state_q == Value && journal_q && beat_ready;
  assign slot_ready_o = !journal_q && beat_moves && beat.last;
  // The value's first beat is read when the write is selected, each further one when its predecessor leaves.
  assign beat_read_o = choose || (beat_moves && state_q == Value);
  assign beat_index_o = state_q == Value ? beat_index_q : '0;

  fifo #(
    .T    (writer_t),
    .Depth(64)
  ) i_writers (
    .clk_i,
    .rst_ni,
    .in_valid_i (choose),
    .in_ready_o (writers_ready),
    .in_i       ({journal, journal_i.stream}),
    .out_valid_o(),
    .out_ready_i(done),
    .out_o      (writer),
    .level_o    ()
  );

  axi_writer i_writer (
    .clk_i,
    .rst_ni,
    .command_valid_i(command_valid),
    .command_ready_o(command_ready),
    .command_word_i (word),
    .command_beats_i(7'(left_q)),
    .beat_valid_i   (beat_valid),
    .beat_ready_o   (beat_ready),
    .beat_i         (beat),
    .beat_word_i    (beat_word),
    .done_o         (done),
    .fault_o,
    .idle_o         (writer_idle),
    .aw_valid_o,
    .aw_ready_i,
    .aw_o,
    .w_valid_o,
    .w_ready_i,
    .w_o,
    .b_valid_i,
    .b_response_i
  );

  assign slot_answered_o = done && !writer.journal;
  assign journaled_valid_o = done && writer.journal;
  assign journaled_stream_o = writer.stream;
  assign idle_o = state_q == Choose && writer_idle;

  always_ff @(posedge clk_i) begin
    if (choose) begin
      index_q <= IndexBits'(slot_i.slot);
      if (journal) index_q <= IndexBits'(JournalBase) | IndexBits'({journal_i.stream, journal_i.place});
      journal_q <= journal;
      left_q <= value_beats_t'((bytes + 11'd63) >> 6);
      beat_index_q <= 4'd1;
    end
    if (beat_moves) begin
      beat_word_q <= beat_word + 1'b1;
      if (left_q != '0) left_q <= left_q - 1'b1;
      if (state_q == Value) beat_index_q <= beat_index_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q        <= Choose;
      commanded_q    <= 1'b0;
      journal_next_q <= 1'b0;
    end else begin
      if (choose) journal_next_q <= !journal;
      if (command_valid && command_ready) commanded_q <= 1'b1;
      if (choose) state_q <= Header;
      else if (beat_moves) begin
        state_q <= beat.last ? Choose : Value;
        if (beat.last) commanded_q <= 1'b0;
      end
    end
  end

endmodule
