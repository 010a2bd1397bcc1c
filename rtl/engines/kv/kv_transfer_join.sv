// The receiving side of a state transfer: requests from one full member after the other the buckets that the member
// leads, then from the first member the sessions, and installs them. Twin of the code in
// crates/engines/kv/src/transfer.rs and engine.rs for a joining node.
//
// A chunk is stored and then read twice: the whole chunk is validated before any part of it is installed. Between the
// two, the stream of the member that sent it is committed up to the chunk's tag. A slot is installed if it is newer
// than the table's.
//
// Latency of a chunk in cycles: one for each word to store it, then about two for each word and 10 for each record.
// Throughput: one command at a time; `command_i` is held until `answer_valid_o`. Stalls: the payload, while there is
// no TransferTake; a chunk, while the table, the sessions, the committer or the message buffer does.
module kv_transfer_join
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_messages_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  epoch_t                  epoch_i,
  input  node_set_t               full_i,
  // Lengths of the stream `source_o`.
  input  number_t                 accepted_i,
  input  number_t                 committed_i,
  // `leader_i` is the leader of `partition_o`, valid from the second cycle of each value of `partition_o`.
  output partition_t              partition_o,
  input  node_t                   leader_i,
  // The command: TransferBegin, TransferStop, TransferAsk or TransferTake.
  input  logic                    command_valid_i,
  input  control_command_t        command_i,
  output logic                    answer_valid_o,
  output control_answer_t         answer_o,
  output logic                    joining_o,
  output logic                    complete_o,
  output stream_t                 source_o,
  input  logic                    word_valid_i,
  output logic                    word_ready_o,
  input  logic             [63:0] word_i,
  input  logic                    word_last_i,
  input  logic                    word_partial_i,
  output logic                    commit_valid_o,
  output number_t                 commit_o,
  input  logic                    commit_done_i,
  output logic                    hash_valid_o,
  output key_t                    hash_key_o,
  input  logic                    hash_done_i,
  input  place_t                  hash_place_i,
  output logic                    apply_valid_o,
  input  logic                    apply_ready_i,
  output apply_t                  apply_o,
  output logic                    apply_value_valid_o,
  input  logic                    apply_value_ready_i,
  output beat_t                   apply_value_o,
  output logic                    session_valid_o,
  input  logic                    session_ready_i,
  output session_request_t        session_o,
  input  logic                    session_answer_valid_i,
  // StateRequests, to the message buffer.
  input  logic                    room_i,
  output logic                    write_o,
  output logic             [ 7:0] write_index_o,
  output logic             [63:0] write_word_o,
  output logic                    close_valid_o,
  input  logic                    close_ready_i,
  output logic                    installed_o,
  output logic                    stale_o,
  output logic                    malformed_o,
  output logic                    wrong_role_o,
  output logic                    contradiction_o
);

  // Longest chunk in words, without its header.
  localparam int unsigned StoreWords = 512;
  localparam int unsigned StoreBits = $clog2(StoreWords);
  localparam int unsigned KeyWords = KeyBits / 64;
  localparam int unsigned BeatWords = BeatBytes / 8;

  typedef enum logic [4:0] {
    Idle,
    Header,          // stores the words of the chunk
    Judge,           // validates the header
    NextRecord,
    Length,
    Key,
    Hash,
    Leader,
    ApplyHeader,
    Value,
    ValueFill,
    ValueBeat,
    SessionRequest,
    SessionVersion,
    SessionStatus,
    SessionSend,
    SessionWait,
    AllRead,
    Commit,
    Installed,
    AskFirst,
    AskSecond,
    AskClose,
    Answer
  } state_e;

  state_e state_q, state_d;

  // Parts of the state that have arrived, and the sources of the missing parts.
  logic joining_q, complete_q;
  logic [Streams-1:0] done_q, done_d;
  logic sessions_q;
  stream_t source_q, source_d;
  logic [31:0] cursor_q;
  logic [31:0] attempt_q;

  // The current chunk.
  logic bad_q, bad_d;  // some word of it is invalid
  logic other_q;  // it does not answer the current request
  logic sessions_unknown_q;  // its `what` is neither slots nor sessions
  logic last_q;
  logic [31:0] from_q, next_q;
  number_t tag_q;
  logic tag_beyond_q;  // the tag has more than 40 bits
  logic install_q, install_d;  // second reading: installs the records
  logic [1:0] header_q;  // words of the header that have arrived
  logic header_done_q;

  // The current record.
  logic [63:0] version_q;  // version of a slot, or of a request in a session
  key_t key_q;
  logic [63:0] client_q;
  logic [63:0] request_q;
  reply_status_e status_q;
  value_bytes_t bytes_q;
  place_t place_q;
  logic hash_asked_q;
  logic [6:0] count_q, count_d;  // remaining words of the key, then of the value; or places of a session

  // Results: a StateRequest was sent; the verdict.
  logic asked_q, asked_d;
  logic moved_q;
  control_verdict_e verdict_q, verdict_d;

  logic [Streams-1:0] full;
  assign full = full_i[Streams-1:0];
  assign joining_o = joining_q;
  assign complete_o = complete_q;
  assign source_o = source_q;

  // Memory for the words of a chunk.

  logic [StoreBits:0] stored_q, fetch_q;
  logic store, fetch;
  logic store_loaded_q, store_take, store_last;
  logic rewind;
  logic [63:0] word;

  ram #(
    .T    (logic [63:0]),
    .Depth(StoreWords)
  ) i_store (
    .clk_i,
    .write_i        (store),
    .write_address_i(stored_q[StoreBits-1:0]),
    .write_data_i   (word_i),
    .read_i         (fetch),
    .read_address_i (fetch_q[StoreBits-1:0]),
    .read_data_o    (word)
  );

  assign fetch = fetch_q != stored_q && (!store_loaded_q || store_take) && !rewind;
  // The current word is the last one stored.
  assign store_last = fetch_q == stored_q;

  always_ff @(posedge clk_i) begin
    if (rewind) fetch_q <= '0;
    else if (fetch) fetch_q <= fetch_q + 1'b1;
    if (state_q == Idle) stored_q <= '0;
    else if (store) stored_q <= stored_q + 1'b1;
    if (rewind) store_loaded_q <= 1'b0;
    else if (fetch) store_loaded_q <= 1'b1;
    else if (store_take) store_loaded_q <= 1'b0;
  end

  // Source of the next part, after the update `done_d`.

  logic [Streams-1:0] open;
  stream_t lowest_open, lowest_full;
  assign open = full & ~done_d;
  always_comb begin
    lowest_open = '0;
    lowest_full = '0;
    for (int unsigned i = Streams; i > 0; i--) begin
      if (open[i-1]) lowest_open = stream_t'(i - 1);
      if (full[i-1]) lowest_full = stream_t'(i - 1);
    end
  end
  assign source_d = open == '0 ? lowest_full : lowest_open;

  // Conversion of a value from words to beats.
  logic [BeatWords-1:0][63:0] value_q;
  logic [2:0] value_words_q;
  logic value_shift, value_last_q;
  // The padding behind the value is not zero. Every correct node sends zeros there, so the chunk is refused.
  logic padded;
  always_comb begin
    padded = 1'b0;
    for (int unsigned i = 1; i < 8; i++) begin
      if (bytes_q[2:0] != '0 && 3'(i) >= bytes_q[2:0] && word[63-8*i-:8] != '0) padded = 1'b1;
    end
  end

  // The chunk is the expected answer. Other chunks are late, duplicate, or follow a lost one.
  logic answers;
  assign answers = joining_q && command_i.from == node_t'(source_q) && !other_q && from_q == cursor_q;

  logic begin_transfer, finish_source;
  logic ends;
  assign ends = next_q == TransferEnd;

  always_comb begin
    state_d = state_q;
    bad_d = bad_q;
    install_d = install_q;
    count_d = count_q;
    asked_d = asked_q;
    verdict_d = verdict_q;
    done_d = done_q;
    word_ready_o = 1'b0;
    store = 1'b0;
    store_take = 1'b0;
    rewind = 1'b0;
    begin_transfer = 1'b0;
    finish_source = 1'b0;
    value_shift = 1'b0;
    write_o = 1'b0;
    write_index_o = 8'd0;
    write_word_o = {epoch_i, attempt_q};
    installed_o = 1'b0;
    stale_o = 1'b0;
    malformed_o = 1'b0;
    wrong_role_o = 1'b0;
    contradiction_o = 1'b0;

    unique case (state_q)
      Idle: begin
        bad_d = 1'b0;
        install_d = 1'b0;
        asked_d = 1'b0;
        verdict_d = ControlDone;
        rewind = 1'b1;
        if (command_valid_i) begin
          unique case (command_i.command)
            TransferBegin: begin
              begin_transfer = 1'b1;
              done_d = '0;
              state_d = full == '0 ? Answer : AskFirst;
            end
            TransferAsk: state_d = joining_q ? AskFirst : Answer;
            TransferTake: state_d = Header;
            default: state_d = Answer;  // TransferStop needs no other action
          endcase
        end
      end

      Header: begin
        word_ready_o = 1'b1;
        rewind = 1'b1;
        if (word_valid_i) begin
          // Chunks that do not fit into the store are invalid.
          store = header_done_q && !stored_q[StoreBits];
          bad_d = bad_q || word_partial_i || (header_done_q && stored_q[StoreBits]);
          if (word_last_i) begin
            state_d = Judge;
            if (!header_done_q && (header_q != 2'd3 || word_partial_i)) begin
              verdict_d = ControlMalformed;
              state_d   = Answer;
            end
          end
        end
      end
      Judge: begin
        state_d = Answer;
        if (sessions_unknown_q || next_q <= from_q) begin
          verdict_d = ControlMalformed;
        end else if (command_i.take) begin
          if (!full[command_i.from[$bits(stream_t)-1:0]] || command_i.from >= node_t'(Streams)) begin
            wrong_role_o = 1'b1;
          end else if (answers) begin
            state_d = AskFirst;
            if (sessions_q) state_d = NextRecord;
            else if (!tag_beyond_q && tag_q < committed_i) stale_o = 1'b1;
            else if (tag_beyond_q || tag_q > accepted_i) contradiction_o = 1'b1;
            else state_d = NextRecord;
          end
        end
      end

      // A slot as words: version, length, key, value.
      NextRecord: begin
        count_d = '0;
        if (store_loaded_q && !bad_q) begin
          store_take = 1'b1;
          state_d = sessions_q ? SessionRequest : Length;
          if (store_last) bad_d = 1'b1;
        end else if (store_last) begin
          if (install_q) state_d = Installed;
          else state_d = AllRead;
        end
        if (bad_q) state_d = AllRead;
      end
      Length: begin
        count_d = 7'(KeyWords - 1);
        if (store_loaded_q) begin
          store_take = 1'b1;
          state_d = Key;
          if (word[63:48] == '0 || word[63:48] > 16'(ValueBytesMax) || store_last) bad_d = 1'b1;
        end
        if (bad_d) state_d = NextRecord;
      end
      Key: begin
        if (store_loaded_q) begin
          store_take = 1'b1;
          count_d = count_q - 1'b1;
          if (count_q == '0) state_d = Hash;
          if (store_last) bad_d = 1'b1;
        end
        if (bad_d) state_d = NextRecord;
      end
      Hash: begin
        count_d = '0;
        if (hash_done_i) state_d = Leader;
      end
      Leader: begin
        // The leader is known in the second of three cycles.
        count_d = count_q + 1'b1;
        if (count_q[0]) begin
          count_d = 7'((bytes_q - 1'b1) >> 3);
          state_d = install_q ? ApplyHeader : Value;
          if (leader_i != node_t'(source_q)) begin
            bad_d   = 1'b1;
            state_d = NextRecord;
          end
        end
      end
      ApplyHeader: begin
        if (apply_ready_i) state_d = Value;
      end
      Value: begin
        if (store_loaded_q) begin
          store_take = 1'b1;
          value_shift = 1'b1;
          count_d = count_q - 1'b1;
          if (count_q == '0) state_d = install_q ? ValueFill : NextRecord;
          else if (install_q && value_words_q == '1) state_d = ValueBeat;
          if (count_q != '0 ? store_last : padded) begin
            bad_d   = 1'b1;
            state_d = NextRecord;
          end
        end
      end
      // After the last word of a value.
      ValueFill: begin
        value_shift = value_words_q != '0;
        if (!value_shift) state_d = ValueBeat;
      end
      ValueBeat: begin
        if (apply_value_ready_i) state_d = value_last_q ? NextRecord : Value;
      end

      // A session as words: the client, then for each of its records the request, the version and the status.
      SessionRequest: begin
        if (store_loaded_q) begin
          store_take = 1'b1;
          state_d = SessionVersion;
          if (store_last) bad_d = 1'b1;
        end
        if (bad_d) state_d = NextRecord;
      end
      SessionVersion: begin
        if (store_loaded_q) begin
          store_take = 1'b1;
          state_d = SessionStatus;
          if (store_last) bad_d = 1'b1;
        end
        if (bad_d) state_d = NextRecord;
      end
      SessionStatus: begin
        if (store_loaded_q) begin
          store_take = 1'b1;
          count_d = count_q + 1'b1;
          // Only a status with which a write can end is valid.
          if (word[63:56] > 8'(StatusTableFull) || (store_last && count_q != 7'(SessionPlaces - 1))) bad_d = 1'b1;
          state_d = SessionSend;
        end
        if (bad_d) state_d = NextRecord;
      end
      SessionSend: begin
        if (session_valid_o) begin
          if (session_ready_i) state_d = SessionWait;
        end else begin
          state_d = count_q == 7'(SessionPlaces) ? NextRecord : SessionRequest;
        end
      end
      SessionWait: if (session_answer_valid_i) state_d = count_q == 7'(SessionPlaces) ? NextRecord : SessionRequest;

      // The first reading of all records is complete.
      AllRead: begin
        rewind = 1'b1;
        install_d = 1'b1;
        state_d = NextRecord;
        if (bad_q) begin
          malformed_o = 1'b1;
          state_d = AskFirst;
        end else if (!sessions_q && tag_q != committed_i) begin
          state_d = Commit;
        end
      end
      Commit: begin
        if (commit_done_i) state_d = NextRecord;
      end
      Installed: begin
        installed_o   = 1'b1;
        finish_source = ends;
        if (ends && !sessions_q) done_d[source_q] = 1'b1;
        state_d = last_q && !(ends && sessions_q) ? AskFirst : Answer;
      end

      AskFirst: begin
        write_o = room_i;
        write_word_o = {epoch_i, attempt_q + 32'd1};
        if (room_i) state_d = AskSecond;
      end
      AskSecond: begin
        write_o = 1'b1;
        write_index_o = 8'd1;
        write_word_o = {7'd0, sessions_q, 24'd0, cursor_q};
        state_d = AskClose;
      end
      AskClose: begin
        asked_d = 1'b1;
        if (close_ready_i) state_d = Answer;
      end
      Answer:  state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    bad_q <= bad_d;
    install_q <= install_d;
    count_q <= count_d;
    asked_q <= asked_d;
    moved_q <= (moved_q && state_q != Idle) || installed_o;
    verdict_q <= verdict_d;

    if (state_q == Idle) begin
      header_q <= '0;
      header_done_q <= 1'b0;
    end else if (state_q == Header && word_valid_i) begin
      header_q <= header_q + 1'b1;
      if (header_q == 2'd3) header_done_q <= 1'b1;
      if (!header_done_q) begin
        unique case (header_q)
          2'd0: other_q <= word_i[31:0] != attempt_q;
          2'd1: begin
            sessions_unknown_q <= word_i[63:57] != '0;
            if (word_i[56] != sessions_q) other_q <= 1'b1;
            last_q <= word_i[48];
            from_q <= word_i[31:0];
          end
          2'd2: next_q <= word_i[63:32];
          default: begin
            tag_q <= word_i[39:0];
            tag_beyond_q <= word_i[63:40] != '0;
          end
        endcase
      end
    end

    if (state_q == NextRecord) client_q <= word;
    if (state_q == NextRecord || state_q == SessionVersion) version_q <= word;
    if (state_q == Length) bytes_q <= value_bytes_t'(word[63:48]);
    if (state_q == Key && store_loaded_q) key_q <= key_t'({key_q, word});
    if (state_q == SessionRequest) request_q <= word;
    if (state_q == SessionStatus) status_q <= reply_status_e'(word[59:56]);
    hash_asked_q <= state_q == Hash;
    if (hash_done_i) place_q <= hash_place_i;

    if (state_q == Leader) value_words_q <= '0;
    else if (value_shift) value_words_q <= value_words_q + 1'b1;
    if (value_shift && install_q) begin
      value_q <= {state_q == Value ? word_lanes(word) : 64'd0, value_q[BeatWords-1:1]};
    end
    if (state_q == Value) value_last_q <= count_q == '0;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q    <= Idle;
      joining_q  <= 1'b0;
      complete_q <= 1'b0;
      done_q     <= '0;
      attempt_q  <= '0;
    end else begin
      state_q <= state_d;
      done_q  <= done_d;
      if (begin_transfer || (state_q == Idle && command_valid_i && command_i.command == TransferStop)) begin
        joining_q  <= begin_transfer && full != '0;
        complete_q <= 1'b0;
        done_q     <= '0;
      end else if (finish_source && sessions_q) begin
        joining_q  <= 1'b0;
        complete_q <= 1'b1;
      end
      if (state_q == AskFirst && room_i) attempt_q <= attempt_q + 1'b1;
      else if (state_q == Idle && command_valid_i && command_i.command == TransferStop && command_i.take)
        attempt_q <= '0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (begin_transfer || finish_source) begin
      source_q   <= source_d;
      sessions_q <= open == '0;
      cursor_q   <= '0;
    end else if (state_q == Installed) begin
      cursor_q <= next_q;
    end
  end

  // `valid` depends on the state only.
  assign hash_valid_o = state_q == Hash && !hash_asked_q;
  assign apply_valid_o = state_q == ApplyHeader;
  assign apply_value_valid_o = state_q == ValueBeat;
  assign session_valid_o = state_q == SessionSend && install_q && request_q != '0;
  assign commit_valid_o = state_q == Commit;
  assign close_valid_o = state_q == AskClose;
  assign partition_o = partition_t'(place_q.bucket);
  assign commit_o = tag_q;
  assign hash_key_o = key_q;
  assign apply_o = '{
          deletes: 1'b0,
          newer_only: 1'b1,
          key: key_q,
          place: place_q,
          version: version_q,
          value_bytes: bytes_q,
          reserved: 1'b0,
          counts: 1'b0,
          stream: '0
      };
  assign apply_value_o = '{last: value_last_q, empty: value_last_q ? 6'd0 - bytes_q[5:0] : '0, data: value_q};
  assign session_o = '{
          command: SessionRecord,
          room: 1'b0,
          client: client_q,
          request: request_q,
          status: status_q,
          version: version_q,
          index: '0
      };
  assign answer_valid_o = state_q == Answer;
  assign answer_o = '{verdict: verdict_q, heard: '0, asked: asked_q, moved: moved_q};

endmodule
