// Splits good Weft datagrams, given as their frames, into messages.
//
// A message's header leaves first, and its payload follows; the payload may be offered before the header is accepted.
// A malformed message (its length exceeds the datagram, or a reserved byte is not zero) ends the processing of its
// datagram. The messages before it have been delivered, as if the sender had sent only those. Excess bytes behind the
// last message are counted, too. Padding is not checked; it leaves as zeros.
//
// A message is marked `last` if the next message of its datagram is for another engine, is malformed, or does not
// exist. It is held until that is known, but at most until 32 beats of its payload wait: then it is marked as the
// last.
//
// Latency: from the first beat to the message, 1 cycle, and 2 to its payload, if it is the only message. Throughput:
// a datagram with one message takes as many cycles as beats; in others a message takes a cycle and one for each beat
// of its payload, and at least 2. Order: kept. Stalls: the input, while two messages or 32 beats of payload wait.
module datagram_split
  import weft_pkg::*;
  import engines_pkg::*;
#(
  parameter int unsigned Engines = 1
) (
  input  logic                             clk_i,
  input  logic                             rst_ni,
  input  logic                             beat_valid_i,
  output logic                             beat_ready_o,
  input  logic                             beat_last_i,
  input  logic              [BeatBits-1:0] beat_i,
  // Valid with the first beat.
  input  logic                             peer_i,
  input  node_t                            from_i,
  output logic                             message_valid_o,
  input  logic                             message_ready_i,
  output message_received_t                message_o,
  output logic                             payload_valid_o,
  input  logic                             payload_ready_i,
  output beat_t                            payload_o,
  output logic                             without_engine_o,
  output logic                             malformed_o,
  output logic                             idle_o
);

  localparam int unsigned EngineBits = Engines > 1 ? $clog2(Engines) : 1;
  // Number of 8-byte words in a datagram.
  typedef logic [10:0] words_t;

  typedef struct packed {
    logic                  valid;
    logic                  last;     // it is known to be the last
    logic [EngineBits-1:0] engine;
    logic [7:0]            message;
    message_bytes_t        bytes;
  } pending_t;

  function automatic logic [15:0] at16(logic [BeatBits-1:0] data, int unsigned place);
    return {data[8*place+:8], data[8*place+8+:8]};
  endfunction

  typedef enum logic [1:0] {
    Start,
    Header,
    Payload,
    Skip
  } state_e;

  state_e state_q, state_d;
  // The beat in which the next word begins; the beat behind it is at the input.
  logic           [BeatBits-1:0] low_q;
  logic                          low_last_q;
  logic           [         2:0] at_q;
  words_t                        left_q;  // words of messages that remain in the datagram
  logic           [         7:0] count_q;  // messages that remain in it
  words_t                        words_q;  // words that remain of the payload
  message_bytes_t                bytes_q;
  logic                          mine_q;
  logic                          peer_q;
  node_t                         from_q;
  caller_t                       caller_q;
  pending_t held_q, pending_q;

  logic          front;  // at the start of a datagram
  logic   [63:0] header;  // the first byte on the left
  logic   [ 7:0] engine;
  logic   [15:0] bytes;
  logic          known;
  words_t        left;
  logic   [ 7:0] count;
  logic   [13:0] need;
  logic          bad;
  logic          final_header;
  logic          decode;  // a header is consumed, good or bad
  logic          mine;
  logic          step;  // a beat of payload is consumed
  logic   [ 3:0] step_words;
  logic   [ 3:0] sum_at;
  logic          step_ends;
  logic          shift;
  logic          done_low_last;
  logic          ends;  // nothing of the datagram remains
  logic          buffer_ready;
  logic          taken;
  logic          room;

  // Headers.

  assign front = state_q == Start;
  always_comb begin
    header = '0;
    for (int unsigned i = 0; i < 64; i += 8) begin
      header[56-i+:8] = beat_i[8*50+i+:8];
      if (!front) begin
        header[56-i+:8] = '0;
        for (int unsigned word = 0; word < 8; word++) begin
          if (at_q == 3'(word)) begin
            header[56-i+:8] = i / 8 + 8 * word + 2 < 64 ? low_q[(8*(8*word+2)+i)%BeatBits+:8]
                                                        : beat_i[(8*(8*word+2)+i)%BeatBits+:8];
          end
        end
      end
    end
  end

  assign engine = header[63:56];
  assign bytes = header[47:32];
  assign left = front ? words_t'(at16(beat_i, 46) >> 3) - words_t'(2) : left_q;
  assign count = front ? beat_i[8*45+:8] : count_q;
  assign need = 14'(bytes >> 3) + 14'(bytes[2:0] != '0) + 14'd1;
  assign bad = need > 14'(left) || header[31:0] != '0;
  assign final_header = count == 8'd1;
  assign known = 32'(engine) < Engines;
  assign mine = known && !bad;

  // A message whose `last` depends on the next header is moved on when that header arrives.
  assign room = front ? !held_q.valid && !pending_q.valid : !pending_q.valid || (!pending_q.last && !held_q.valid);

  always_comb begin
    decode = 1'b0;
    unique case (state_q)
      Start:   decode = beat_valid_i && room;
      // Bytes of the datagram behind the last word are ignored.
      Header:  decode = room && (beat_valid_i || at_q != '1 || left_q == '0);
      default: decode = 1'b0;
    endcase
  end

  // Payloads.

  assign step_ends = words_q <= words_t'(8);
  assign step_words = step_ends ? words_q[3:0] : 4'd8;
  assign sum_at = 4'(at_q) + step_words;
  assign step = state_q == Payload && (beat_valid_i || !sum_at[3]) && (buffer_ready || !mine_q);

  logic [         5:0] payload_empty;
  logic [BeatBits-1:0] payload_data;
  assign payload_empty = step_ends ? -bytes_q[5:0] : '0;

  word_realign i_realign (
    .low_i  (low_q),
    .high_i (beat_i),
    .word_i (at_q),
    .empty_i(payload_empty),
    .data_o (payload_data)
  );

  logic [5:0] unused_level;
  fifo #(
    .T    (beat_t),
    .Depth(32)
  ) i_payloads (
    .clk_i,
    .rst_ni,
    .in_valid_i (step && mine_q),
    .in_ready_o (buffer_ready),
    .in_i       ('{last: step_ends, empty: payload_empty, data: payload_data}),
    .out_valid_o(payload_valid_o),
    .out_ready_i(payload_ready_i),
    .out_o      (payload_o),
    .level_o    (unused_level)
  );

  // Position in the datagram.

  logic decode_bad, over;
  assign decode_bad = decode && bad;
  assign shift = (state_q == Header && decode && !bad && at_q == '1) || (step && sum_at[3]);
  assign done_low_last = shift ? beat_last_i : low_last_q;
  // A datagram must end with its last message.
  assign over = decode && !bad && final_header && need != 14'(left);

  always_comb begin
    state_d = state_q;
    ends    = 1'b0;
    if (decode) begin
      if (bad) ends = 1'b1;
      else if (need != 14'd1) state_d = Payload;
      else if (final_header) ends = 1'b1;
      else state_d = Header;
    end else if (step && step_ends) begin
      if (count_q == '0) ends = 1'b1;
      else state_d = Header;
    end else if (state_q == Skip && beat_valid_i && beat_last_i) begin
      state_d = Start;
    end
    if (ends) state_d = (front ? beat_last_i : done_low_last) ? Start : Skip;
  end

  assign beat_ready_o = (front && decode) || shift || state_q == Skip;

  always_ff @(posedge clk_i) begin
    if (beat_valid_i && beat_ready_o) begin
      low_q      <= beat_i;
      low_last_q <= beat_last_i;
    end
    if (front && decode) begin
      peer_q           <= peer_i;
      from_q           <= from_i;
      caller_q.kind    <= CallerEndpoint;
      caller_q.mac     <= {at16(beat_i, 6), at16(beat_i, 8), at16(beat_i, 10)};
      caller_q.address <= {at16(beat_i, 26), at16(beat_i, 28)};
      caller_q.port    <= at16(beat_i, 34);
    end
    if (decode) begin
      at_q    <= front ? 3'd7 : at_q + 3'd1;
      left_q  <= left - words_t'(need);
      count_q <= count - 8'd1;
      words_q <= words_t'(need - 14'd1);
      bytes_q <= bytes;
      mine_q  <= mine;
    end else if (step) begin
      at_q    <= sum_at[2:0];
      words_q <= words_q - words_t'(8);
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) state_q <= Start;
    else state_q <= state_d;
  end

  // Messages.

  pending_t offered;
  assign offered = held_q.valid ? held_q : pending_q;
  assign message_valid_o = held_q.valid || (pending_q.valid && pending_q.last);
  assign taken = message_valid_o && message_ready_i;
  assign message_o = '{
          last: offered.last,
          peer: peer_q,
          from : from_q,
          caller: caller_q,
          engine: 8'(offered.engine),
          message: offered.message,
          bytes: offered.bytes
      };

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      held_q.valid    <= 1'b0;
      pending_q.valid <= 1'b0;
    end else begin
      if (taken && held_q.valid) held_q.valid <= 1'b0;
      if (taken && !held_q.valid) pending_q.valid <= 1'b0;
      if (decode && mine) begin
        held_q.valid    <= pending_q.valid;
        pending_q.valid <= 1'b1;
      end
    end
    if (decode && mine) begin
      held_q.last       <= pending_q.engine != engine[EngineBits-1:0];
      held_q.engine     <= pending_q.engine;
      held_q.message    <= pending_q.message;
      held_q.bytes      <= pending_q.bytes;
      pending_q.last    <= final_header;
      pending_q.engine  <= engine[EngineBits-1:0];
      pending_q.message <= header[55:48];
      pending_q.bytes   <= bytes;
    end else if ((decode && !mine) || (state_q == Payload && mine_q && !buffer_ready)) begin
      pending_q.last <= 1'b1;
    end
  end

  assign without_engine_o = decode && !bad && !known;
  assign malformed_o = decode_bad || over;
  assign idle_o = front && !beat_valid_i && !held_q.valid && !pending_q.valid && !payload_valid_o;

endmodule
