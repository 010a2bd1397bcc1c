// The sending side of a state transfer: answers a StateRequest with up to 16 chunks. Twin of the code in
// crates/engines/kv/src/engine.rs that serves a joining node.
//
// One answer examines at most 1,024 buckets or session places. It ends there, at the end of the table or sessions, or
// with the sixteenth chunk; a chunk ends with the last record that fits. A walker fetches slots ahead of the words
// that are written, so the latency of memory counts only once. Slots that were fetched and not sent are dropped at
// the end.
//
// Latency in cycles: about one for each word of slots; a bucket without slots costs one lookup in kv_table, and a
// bucket that this node does not lead costs one cycle. 16 chunks of slots with values of 64 bytes: about 2,700.
// Throughput: one command at a time; `command_i` is held until `answer_valid_o`. Stalls: while the table, the
// sessions or the message buffer does.
module kv_transfer_donate
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_messages_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  bucket_t                 bucket_mask_i,
  input  node_t                   node_i,
  input  epoch_t                  epoch_i,
  input  node_set_t               full_i,
  // The length of the node's own stream that is in the table.
  input  number_t                 committed_i,
  // TransferGive.
  input  logic                    command_valid_i,
  input  control_command_t        command_i,
  output logic                    answer_valid_o,
  output logic                    scan_valid_o,
  input  logic                    scan_ready_i,
  output bucket_t                 scan_bucket_o,
  output way_t                    scan_way_o,
  input  logic                    scan_done_i,
  input  logic                    scan_some_i,
  input  way_t                    scan_way_i,
  output logic                    lookup_valid_o,
  input  logic                    lookup_ready_i,
  output lookup_t                 lookup_o,
  input  logic                    result_valid_i,
  output logic                    result_ready_o,
  input  looked_up_t              result_i,
  input  logic                    result_value_valid_i,
  output logic                    result_value_ready_o,
  input  beat_t                   result_value_i,
  output logic                    session_valid_o,
  input  logic                    session_ready_i,
  output session_request_t        session_o,
  input  logic                    session_answer_valid_i,
  input  session_answer_t         session_answer_i,
  input  logic                    word_valid_i,
  output logic                    word_ready_o,
  input  logic             [63:0] word_i,
  input  logic                    word_last_i,
  input  logic                    room_i,
  output logic                    write_o,
  output logic             [ 7:0] write_index_o,
  output logic             [63:0] write_word_o,
  output logic                    close_valid_o,
  input  logic                    close_ready_i,
  output logic             [ 7:0] close_words_o,
  output logic                    sent_o
);

  localparam int unsigned KeyWords = KeyBits / 64;
  localparam int unsigned WayBits = $clog2(Ways);
  localparam int unsigned BucketBits = $bits(bucket_t);
  localparam int unsigned ScanBits = $clog2(ScanMax);
  localparam int unsigned ChunkWords = ChunkBytes / 8;
  localparam logic [7:0] HeaderWords = 8'd4;
  localparam logic [7:0] SessionWords = 8'(1 + 3 * SessionPlaces);
  localparam logic [4:0] LastChunk = 5'(ChunksMax - 1);

  // The walker iterates over the buckets and fetches their slots.

  typedef enum logic [2:0] {
    WalkRest,
    WalkAlign,    // advances to the node that leads the first bucket
    WalkBucket,
    WalkScan,
    WalkScanned,
    WalkFetch
  } walk_e;

  walk_e walk_q, walk_d;
  logic walk_start, walk_stop;
  logic walk_ended;  // no more slots will be fetched
  logic next_bucket;
  logic [BucketBits:0] bucket_q;  // one bit more than an index, to represent the end
  way_t way_q;
  logic [ScanBits:0] looked_q;
  logic [5:0] ahead_q;  // slots that were requested and not taken; at most 32
  logic lookup_taken, result_taken;

  // The members lead the buckets in turn, as in `View::leader`.
  logic [3:0] members, members_q;
  logic [2:0] rank, rank_q;
  partition_t turn_q;
  logic [Streams-1:0] below;
  assign below = full_i[Streams-1:0] & ~(Streams'('1) << node_i);
  assign members = count_ones(full_i[Streams-1:0]);
  assign rank = 3'(count_ones(below));
  always_ff @(posedge clk_i) begin
    members_q <= members;
    rank_q <= rank;
  end

  // Population count as a tree, since a chain of adders would be slow.
  function automatic logic [3:0] count_ones(logic [Streams-1:0] set);
    logic [3:0][1:0] pairs;
    for (int unsigned i = 0; i < 4; i++) pairs[i] = 2'(set[2*i]) + 2'(set[2*i+1]);
    return 4'(3'(pairs[0]) + 3'(pairs[1])) + 4'(3'(pairs[2]) + 3'(pairs[3]));
  endfunction

  logic at_end;
  logic out_of_table;
  assign at_end = bucket_q > (BucketBits + 1)'(bucket_mask_i);
  assign out_of_table = command_i.position[31:WayBits] > (32 - WayBits)'(bucket_mask_i);

  always_comb begin
    walk_d = walk_q;
    next_bucket = 1'b0;
    unique case (walk_q)
      WalkRest:  if (walk_start && !out_of_table) walk_d = WalkAlign;
      WalkAlign: if (turn_q < partition_t'(members_q)) walk_d = WalkBucket;
      WalkBucket: begin
        if (at_end || looked_q[ScanBits] || walk_stop) walk_d = WalkRest;
        else if (turn_q == partition_t'(rank_q)) walk_d = WalkScan;
        else next_bucket = 1'b1;
      end
      WalkScan: begin
        if (scan_ready_i) walk_d = WalkScanned;
      end
      WalkScanned:
      if (scan_done_i) begin
        walk_d = scan_some_i && !walk_stop ? WalkFetch : WalkBucket;
        next_bucket = walk_d == WalkBucket;
      end
      WalkFetch: begin
        if (lookup_taken) begin
          walk_d = way_q == '1 ? WalkBucket : WalkScan;
          next_bucket = walk_d == WalkBucket;
        end
      end
      default:   walk_d = WalkRest;
    endcase
  end

  assign lookup_taken = lookup_valid_o && lookup_ready_i;
  assign result_taken = result_valid_i && result_ready_o;

  always_ff @(posedge clk_i) begin
    if (walk_start) begin
      bucket_q <= (BucketBits + 1)'(command_i.position[WayBits+:BucketBits]);
      way_q <= command_i.position[WayBits-1:0];
      looked_q <= '0;
      turn_q <= partition_t'(command_i.position[WayBits+:BucketBits]);
    end else begin
      if (walk_q == WalkAlign && walk_d == WalkAlign) turn_q <= turn_q - partition_t'(members_q);
      if (walk_q == WalkScanned && scan_done_i) way_q <= scan_way_i;
      if (lookup_taken) way_q <= way_q + 1'b1;
      if (next_bucket) begin
        bucket_q <= bucket_q + 1'b1;
        way_q <= '0;
        looked_q <= looked_q + 1'b1;
        turn_q <= turn_q + 1'b1 == partition_t'(members_q) || bucket_q[$bits(
            partition_t
        )-1:0] == '1 ? '0 : turn_q + 1'b1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      walk_q  <= WalkRest;
      ahead_q <= '0;
    end else begin
      walk_q  <= walk_d;
      ahead_q <= ahead_q + 6'(lookup_taken) - 6'(result_taken);
    end
  end

  assign walk_ended = walk_q == WalkRest && ahead_q == '0;
  // `valid` depends on the state only.
  assign scan_valid_o = walk_q == WalkScan;
  assign lookup_valid_o = walk_q == WalkFetch && !ahead_q[5];
  assign scan_bucket_o = bucket_t'(bucket_q);
  assign scan_way_o = way_q;
  assign lookup_o = '{
          kind: LookupFetch,
          key: '0,
          place: '{bucket: bucket_t'(bucket_q), way: way_q, tag: '0},
          asker: '0
      };

  // The composer of messages.

  typedef enum logic [3:0] {
    Idle,
    Room,
    Slot,
    SlotLength,
    SlotKey,
    SlotValue,
    SessionAsk,
    SessionAnswer,
    SessionCopy,
    Header,
    Close,
    Drain,
    DrainSession,
    Answer
  } state_e;

  state_e state_q, state_d;
  logic [7:0] words_q, words_d;  // words of the current chunk, with its header
  logic [6:0] count_q, count_d;  // remaining words: of the key or value, or of the header
  logic [4:0] chunk_q;
  logic ended_q, ended_d;  // the current chunk is the last
  logic used_q, used_d;  // words of a session wait
  logic [31:0] from_q;
  logic [31:0] next_q, next_d;  // position behind the chunk; and of the current session
  logic [ScanBits:0] places_q, places_d;  // session places examined

  logic [7:0] slot_words;
  logic slot_fits, session_fits, last_chunk;
  logic [2:0] lane_q;
  logic [63:0] value_lanes, value_word;
  logic last_value_word;
  assign slot_words = 8'((12'(result_i.value_bytes) + 12'd7) >> 3) + 8'(2 + KeyWords);
  assign slot_fits = 9'(words_q) + 9'(slot_words) <= 9'(ChunkWords);
  assign session_fits = words_q <= 8'(ChunkWords) - SessionWords;
  assign last_chunk = chunk_q == LastChunk;

  // Words of the value. The last beat is zero behind the value's end.
  assign value_lanes = result_value_i.data[{lane_q, 6'd0}+:64];
  assign last_value_word = count_q == '0;
  assign value_word = word_lanes(value_lanes);

  always_comb begin
    state_d = state_q;
    words_d = words_q;
    count_d = count_q;
    ended_d = ended_q;
    used_d = used_q;
    next_d = next_q;
    places_d = places_q;
    walk_start = 1'b0;
    walk_stop = 1'b0;
    result_ready_o = 1'b0;
    result_value_ready_o = 1'b0;
    word_ready_o = 1'b0;
    write_o = 1'b0;
    write_index_o = words_q;
    write_word_o = result_i.version;
    sent_o = 1'b0;
    unique case (state_q)
      Idle: begin
        ended_d  = 1'b0;
        used_d   = 1'b0;
        next_d   = command_i.position;
        places_d = '0;
        if (command_valid_i) begin
          walk_start = !command_i.sessions;
          state_d = Room;
        end
      end
      Room: begin
        words_d = HeaderWords;
        count_d = '0;
        if (room_i) state_d = !command_i.sessions ? Slot : used_q ? SessionCopy : SessionAsk;
      end

      // A slot as words: version, length, key, value.
      Slot: begin
        count_d = 7'(KeyWords - 1);
        next_d  = 32'({result_i.place.bucket, result_i.place.way});
        if (!result_valid_i) begin
          if (walk_ended) begin
            next_d  = at_end || out_of_table ? TransferEnd : 32'({bucket_q, {WayBits{1'b0}}});
            ended_d = 1'b1;
            state_d = Header;
          end
        end else if (!result_i.found) begin
          result_ready_o = 1'b1;
        end else if (!slot_fits) begin
          ended_d = last_chunk;
          state_d = Header;
        end else begin
          write_o = 1'b1;
          words_d = words_q + 1'b1;
          state_d = SlotLength;
        end
        if (state_d == Header) count_d = '0;
      end
      SlotLength: begin
        write_o = 1'b1;
        write_word_o = {16'(result_i.value_bytes), 48'd0};
        words_d = words_q + 1'b1;
        state_d = SlotKey;
      end
      SlotKey: begin
        write_o = 1'b1;
        write_word_o = KeyWords == 1 ? 64'(result_i.key) : 64'(result_i.key >> {count_q[2:0], 6'd0});
        words_d = words_q + 1'b1;
        count_d = count_q - 1'b1;
        if (count_q == '0) begin
          count_d = 7'((result_i.value_bytes - 1'b1) >> 3);
          state_d = SlotValue;
        end
      end
      SlotValue: begin
        write_word_o = value_word;
        if (result_value_valid_i) begin
          write_o = 1'b1;
          words_d = words_q + 1'b1;
          count_d = count_q - 1'b1;
          result_value_ready_o = last_value_word || lane_q == '1;
          result_ready_o = last_value_word;
          if (last_value_word) state_d = Slot;
        end
      end

      SessionAsk: begin
        if (session_ready_i) state_d = SessionAnswer;
      end
      SessionAnswer: begin
        if (session_answer_valid_i) begin
          used_d  = session_answer_i.verdict == SessionUsed;
          state_d = SessionAsk;
          if (session_answer_i.verdict == SessionEnd) next_d = TransferEnd;
          if (session_answer_i.verdict == SessionEnd || places_q[ScanBits]) begin
            ended_d = 1'b1;
            state_d = Header;
          end else if (used_d) begin
            state_d = SessionCopy;
            if (!session_fits) begin
              ended_d = last_chunk;
              state_d = Header;
            end
          end else begin
            next_d   = next_q + 1'b1;
            places_d = places_q + 1'b1;
          end
        end
      end
      SessionCopy: begin
        word_ready_o = 1'b1;
        write_word_o = word_i;
        if (word_valid_i) begin
          write_o = 1'b1;
          words_d = words_q + 1'b1;
          if (word_last_i) begin
            used_d   = 1'b0;
            next_d   = next_q + 1'b1;
            places_d = places_q + 1'b1;
            state_d  = SessionAsk;
          end
        end
      end

      Header: begin
        write_o = 1'b1;
        write_index_o = 8'(count_q);
        count_d = count_q + 1'b1;
        unique case (count_q[1:0])
          2'd0: write_word_o = {epoch_i, command_i.attempt};
          2'd1: write_word_o = {7'd0, command_i.sessions, 7'd0, ended_q, 16'd0, from_q};
          2'd2: write_word_o = {next_q, 32'd0};
          default: begin
            write_word_o = {24'd0, committed_i};
            state_d = Close;
          end
        endcase
      end
      Close: begin
        if (close_ready_i) begin
          sent_o  = 1'b1;
          state_d = !ended_q ? Room : used_q ? DrainSession : Drain;
        end
      end

      // Drops the slots that were fetched and not sent.
      Drain: begin
        walk_stop = 1'b1;
        if (result_valid_i) begin
          result_value_ready_o = result_i.found;
          result_ready_o = !result_i.found || (result_value_valid_i && result_value_i.last);
        end
        if (walk_ended && !result_valid_i) state_d = Answer;
      end
      DrainSession: begin
        word_ready_o = 1'b1;
        if (word_valid_i && word_last_i) state_d = Answer;
      end
      Answer:  state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  assign session_valid_o = state_q == SessionAsk;
  assign close_valid_o = state_q == Close;
  assign answer_valid_o = state_q == Answer;
  assign close_words_o = words_q;
  assign session_o = '{
          command: SessionExport,
          room: 1'b0,
          client: '0,
          request: '0,
          status: StatusOk,
          version: '0,
          index: next_q
      };

  always_ff @(posedge clk_i) begin
    words_q  <= words_d;
    count_q  <= count_d;
    ended_q  <= ended_d;
    used_q   <= used_d;
    places_q <= places_d;
    next_q   <= next_d;
    if (state_q == Room) from_q <= next_q;
    if (state_q == Idle) begin
      chunk_q <= '0;
    end else if (sent_o) begin
      chunk_q <= chunk_q + 1'b1;
    end
    if (state_q == SlotKey) lane_q <= '0;
    else if (state_q == SlotValue && result_value_valid_i) lane_q <= lane_q + 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) state_q <= Idle;
    else state_q <= state_d;
  end

endmodule
