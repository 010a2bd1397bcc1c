// Buffer in which messages are composed word by word, and from which they leave as beats without gaps.
//
// A message is written word by word from word 0 on, and then closed. Its last beat is padded with zeros. `room_o`
// guarantees room for one message of up to 248 words, and must be high before its first word is written.
//
// Latency: 4 cycles from closing to the first beat, and one for each word of padding. Throughput: one word in and one
// beat out every cycle. Order: of closing. Stalls: `close_ready_o`, during padding or while 32 messages wait.
module kv_message_buffer
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
(
  input  logic             clk_i,
  input  logic             rst_ni,
  output logic             room_o,
  input  logic             write_i,
  input  logic      [ 7:0] write_index_i,
  input  logic      [63:0] write_word_i,
  input  logic             close_valid_i,
  output logic             close_ready_o,
  // Destinations, kind and length of the message being closed.
  input  node_set_t        close_to_i,
  input  kind_e            close_kind_i,
  // In words; never 0.
  input  logic      [ 7:0] close_words_i,
  output logic             outgoing_valid_o,
  input  logic             outgoing_ready_i,
  output outgoing_t        outgoing_o,
  output logic             attached_valid_o,
  input  logic             attached_ready_i,
  output beat_t            attached_o,
  // No closed message is in the buffer.
  output logic             idle_o
);

  localparam int unsigned Depth = 512;  // in beats: the depth of one block RAM for each word of a beat
  localparam int unsigned IndexBits = $clog2(Depth);
  localparam int unsigned Words = BeatBytes / 8;

  typedef struct packed {
    node_set_t  to;
    kind_e      kind;
    logic [7:0] words;
  } message_t;

  // Indices of beats, with one bit more: first of the message being written; next to read; first that has not left.
  logic [IndexBits:0] base_q, fetch_q, front_q;
  logic [IndexBits:0] level;
  assign level  = base_q - front_q;
  // Room for one more message, which has at most 32 beats.
  assign room_o = !level[IndexBits] && level[IndexBits-1:5] != '1;

  // Composition. When a message is closed, its last beat is padded, and then the message is queued.

  logic filling_q;
  logic [7:0] fill_q;
  logic full_beat;
  logic write;
  logic [7:0] write_index;
  logic [63:0] write_word;
  logic [IndexBits-1:0] write_beat;
  logic waiting_ready;
  message_t closed, waiting;
  logic waiting_valid, waiting_take;

  assign full_beat = fill_q[2:0] == '0;
  assign write = write_i || (filling_q && !full_beat);
  assign write_index = filling_q ? fill_q : write_index_i;
  assign write_word = filling_q ? '0 : write_word_i;
  assign write_beat = base_q[IndexBits-1:0] + IndexBits'(write_index[7:3]);
  assign close_ready_o = filling_q && full_beat && waiting_ready;
  assign closed = '{to: close_to_i, kind: close_kind_i, words: close_words_i};

  always_ff @(posedge clk_i) begin
    if (close_valid_i && !filling_q) fill_q <= close_words_i;
    else if (!full_beat) fill_q <= fill_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      filling_q <= 1'b0;
      base_q    <= '0;
    end else begin
      filling_q <= close_valid_i && !close_ready_o;
      if (close_ready_o) base_q <= base_q + (IndexBits + 1)'(fill_q[7:3]);
    end
  end

  fifo #(
    .T    (message_t),
    .Depth(32)
  ) i_waiting (
    .clk_i,
    .rst_ni,
    .in_valid_i (close_valid_i && filling_q && full_beat),
    .in_ready_o (waiting_ready),
    .in_i       (closed),
    .out_valid_o(waiting_valid),
    .out_ready_i(waiting_take),
    .out_o      (waiting),
    .level_o    ()
  );

  // Output. A message is offered when its first beat has been read.

  logic loaded_q, offered_q, told_q;
  logic [4:0] beats_q;  // beats that remain to be read
  logic [4:0] beats;  // beats of the current message, less one
  logic begin_message, next_beat, read;
  assign beats = 5'((waiting.words - 1'b1) >> 3);
  assign begin_message = waiting_valid && !offered_q;
  assign next_beat = loaded_q && attached_ready_i;
  assign read = begin_message || (next_beat && beats_q != '0);
  // Both the message and its beats have been accepted.
  assign waiting_take = offered_q && (told_q || outgoing_ready_i) && (!loaded_q || (attached_ready_i && beats_q == '0));

  for (genvar i = 0; i < Words; i++) begin : gen_words
    logic [63:0] word;
    ram #(
      .T    (logic [63:0]),
      .Depth(Depth)
    ) i_words (
      .clk_i,
      .write_i        (write && write_index[2:0] == 3'(i)),
      .write_address_i(write_beat),
      .write_data_i   (write_word),
      .read_i         (read),
      .read_address_i (fetch_q[IndexBits-1:0]),
      .read_data_o    (word)
    );
    for (genvar j = 0; j < 8; j++) begin : gen_bytes
      assign attached_o.data[64*i+8*j+:8] = word[63-8*j-:8];
    end
  end
  assign attached_o.last = beats_q == '0;
  assign attached_o.empty = attached_o.last ? {3'd0 - waiting.words[2:0], 3'd0} : '0;
  assign attached_valid_o = loaded_q;
  assign outgoing_valid_o = offered_q && !told_q;
  assign outgoing_o = '{
          reply: 1'b0,
          to: waiting.to,
          caller: '0,
          message: waiting.kind,
          header: '0,
          header_bytes: '0,
          source: ValueAttached,
          value_bytes: {5'd0, waiting.words, 3'd0},
          stream: '0,
          place: '0
      };
  assign idle_o = !waiting_valid;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      fetch_q   <= '0;
      front_q   <= '0;
      loaded_q  <= 1'b0;
      offered_q <= 1'b0;
      told_q    <= 1'b0;
      beats_q   <= '0;
    end else begin
      if (read) fetch_q <= fetch_q + 1'b1;
      if (next_beat) front_q <= front_q + 1'b1;
      if (begin_message) beats_q <= beats;
      else if (read) beats_q <= beats_q - 1'b1;
      if (begin_message) loaded_q <= 1'b1;
      else if (next_beat && beats_q == '0) loaded_q <= 1'b0;
      if (begin_message) offered_q <= 1'b1;
      else if (waiting_take) offered_q <= 1'b0;
      told_q <= offered_q && !waiting_take && (told_q || outgoing_ready_i);
    end
  end

endmodule
