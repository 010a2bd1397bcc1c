// View changes: collects from the full members the lengths of the streams of their last epoch (Sealed), and computes
// where those streams end. Twin of crates/engines/kv/src/view_change.rs, which gives the reasons, and of `Sealed` in
// message.rs.
//
// The reports of the members are stored in one block RAM, 64 words each: the required part of the head {base, its
// members, cuts}, then accepted lengths, then the cuts, each {epoch} and lengths. Lengths of nodes beyond the maximum
// are not stored, and are sent as zero. This node's own cuts are in a ring behind the reports; its report refers to
// the cuts that existed when it was made.
//
// Latency in cycles: ViewBegin 26, ViewHear one for each word, ViewTell two for each word, ViewDecide at most 300,
// CutRemember 9. Throughput: one command at a time; `command_i` is held until `answer_valid_o`. Stalls: the payload,
// while there is no ViewHear; ViewTell, while the message buffer has no room.
module kv_view_change
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  node_t                   node_i,
  input  epoch_t                  epoch_i,
  input  node_set_t               full_i,
  input  epoch_t                  base_i,
  input  node_set_t               base_members_i,
  // `accepted_i` is the length of `stream_o`, valid from the second cycle of each value of `stream_o`.
  output stream_t                 stream_o,
  input  number_t                 accepted_i,
  // The current command of a view change.
  input  logic                    command_valid_i,
  input  control_command_t        command_i,
  output logic                    answer_valid_o,
  output control_answer_t         answer_o,
  output lengths_t                lengths_o,
  output node_set_t               missing_o,
  input  logic                    word_valid_i,
  output logic                    word_ready_o,
  input  logic             [63:0] word_i,
  input  logic                    word_last_i,
  input  logic                    word_partial_i,
  input  logic                    room_i,
  output logic                    write_o,
  output logic             [ 7:0] write_index_o,
  output logic             [63:0] write_word_o,
  output logic                    close_valid_o,
  input  logic                    close_ready_i,
  output logic             [ 7:0] close_words_o
);

  localparam int unsigned CutsMax = 4;
  // Last index of the lengths in a message. Only the first `Streams` lengths are stored.
  localparam logic [3:0] LastNode = 4'(NodesMax - 1);

  typedef logic [5:0] place_t6;  // index of a word in a member's part of the memory
  localparam place_t6 HeadPlace = 6'd0;
  localparam place_t6 AcceptedPlace = 6'd1;
  localparam place_t6 CutsPlace = 6'd9;
  localparam place_t6 OwnCutPlace = 6'd48;  // each member's part holds one of this node's own cuts here

  // Lengths in comparisons, with one bit more than a number, since no node accepts more entries than 40 bits can
  // count.
  typedef logic [40:0] length_t;

  typedef enum logic [4:0] {
    Idle,
    BeginHead,
    BeginLengths,
    HearEpoch,
    HearHead,
    HearLengths,
    HearCut,
    HearBeyond,
    TellEpoch,
    TellHead,
    TellLengths,
    TellCut,
    TellClose,
    FindNewest,
    JudgeNewest,
    FindCut,
    FindCutEpoch,
    CutLength,
    LeastLength,
    NextLength,
    StoreLength,
    RememberEpoch,
    WriteLengths,   // from the first length to the last
    Answer
  } state_e;

  state_e state_q, state_d;
  logic phase_q, phase_d;  // a word was read, or a length requested
  logic [3:0] item_q, item_d;  // index of a node in a row of lengths
  stream_t member_q, member_d;  // the member whose report is examined
  place_t6 place_q, place_d;
  logic [2:0] cuts_q, cuts_d;  // cuts that remain
  logic [7:0] index_q, index_d;  // index of a word of the outgoing message
  logic bad_q, bad_d;
  control_verdict_e verdict_q, verdict_d;

  // Members whose report has been received.
  logic [Streams-1:0] full_q, heard_q;
  logic begun_q;
  logic [Streams-1:0] hearing;
  logic hears;

  // The node's own report.
  epoch_t base_q;
  node_set_t base_members_q;
  // The ring of cuts: the index of the newest cut, and their number; now, and at the time of the own report.
  logic [2:0] cut_head_q, own_head_q;
  logic [2:0] cut_count_q, own_count_q;

  // Temporary variables.
  epoch_t said_base_q;  // base in the received report
  epoch_t newest_q;  // the newest base of all reports
  node_set_t newest_members_q;
  node_set_t said_q;  // the members from which the sender has a report
  logic older_q;  // some base is older than the newest
  logic cut_q;  // the lengths are those of a cut that another member remembers
  stream_t cut_member_q;
  length_t least_q;
  lengths_t lengths_q;

  stream_t own;
  assign own = stream_t'(node_i);
  logic [Streams-1:0] missing;
  assign missing = full_q & ~heard_q;
  assign missing_o = node_set_t'(missing);
  assign lengths_o = lengths_q;
  assign hearing = (Streams)'(16'd1 << command_i.from);
  assign hears = command_i.take && |(hearing & full_q & ~heard_q);

  // Memory.

  logic write, read;
  stream_t write_member, read_member;
  place_t6 write_place, read_place;
  logic [63:0] write_word, word;

  ram #(
    .T    (logic [63:0]),
    .Depth(64 * Streams)
  ) i_words (
    .clk_i,
    .write_i        (write),
    .write_address_i({write_member, write_place}),
    .write_data_i   (write_word),
    .read_i         (read),
    .read_address_i ({read_member, read_place}),
    .read_data_o    (word)
  );

  epoch_t  word_base;
  length_t word_length;
  assign word_base   = word[63:32];
  assign word_length = {|word[63:40], word[39:0]};

  // Members are examined in ascending order.
  logic last_member, last_stream;
  assign last_member = member_q == '1;
  assign last_stream = item_q[2:0] == '1;
  assign stream_o = stream_t'(item_q);

  logic step_lengths;  // advances `lengths_q` by one
  number_t step_length;
  logic newer;
  assign newer = word_base > newest_q;

  always_comb begin
    state_d = state_q;
    phase_d = phase_q;
    item_d = item_q;
    member_d = member_q;
    place_d = place_q;
    cuts_d = cuts_q;
    index_d = index_q;
    bad_d = bad_q;
    verdict_d = verdict_q;
    write = 1'b0;
    write_member = command_i.command == CutRemember ? cut_head_q + 1'b1 : own;
    write_place = place_q;
    write_word = {24'd0, lengths_q[0]};
    read = 1'b0;
    read_member = member_q;
    read_place = place_q;
    word_ready_o = 1'b0;
    write_o = 1'b0;
    write_word_o = word;
    step_lengths = 1'b0;
    step_length = lengths_q[0];

    unique case (state_q)
      Idle: begin
        phase_d = 1'b0;
        item_d = '0;
        member_d = '0;
        index_d = '0;
        bad_d = 1'b0;
        verdict_d = ControlDone;
        place_d = HeadPlace;
        if (command_valid_i) begin
          unique case (command_i.command)
            ViewBegin: state_d = BeginHead;
            ViewHear: state_d = HearEpoch;
            ViewTell: state_d = begun_q && command_i.to != '0 ? TellEpoch : Answer;
            ViewDecide: begin
              state_d = FindNewest;
              if (!begun_q || missing_o != '0) begin
                verdict_d = ControlUndecided;
                state_d   = Answer;
              end
            end
            CutRemember: state_d = RememberEpoch;
            default: state_d = Answer;  // ViewForget, CutForget
          endcase
        end
      end

      // Writes the node's own report.
      BeginHead: begin
        write = 1'b1;
        write_word = {base_q, base_members_q, 16'd0};
        state_d = BeginLengths;
      end
      BeginLengths: begin
        phase_d = !phase_q;
        place_d = AcceptedPlace;
        step_length = accepted_i;
        if (phase_q) begin
          step_lengths = 1'b1;
          item_d = item_q + 1'b1;
          if (last_stream) begin
            item_d  = '0;
            state_d = WriteLengths;
          end
        end
      end

      // Stores the report of another member.
      HearEpoch, HearHead, HearLengths, HearCut, HearBeyond: begin
        word_ready_o = 1'b1;
        write_member = stream_t'(command_i.from);
        write_word   = word_i;
        if (word_valid_i) begin
          bad_d = bad_q || word_partial_i;
          unique case (state_q)
            HearEpoch: begin
              if (word_i[31:0] == '0 || word_i[31:0] >= word_i[63:32]) bad_d = 1'b1;
              state_d = HearHead;
            end
            HearHead: begin
              write = hears;
              write_word = {said_base_q, word_i[63:48], 8'd0, word_i[31:24]};
              place_d = place_q + 1'b1;
              cuts_d = word_i[26:24];
              if (word_i[31:24] > 8'(CutsMax)) bad_d = 1'b1;
              state_d = HearLengths;
            end
            HearLengths: begin
              write   = hears && !item_q[3];
              place_d = item_q[3] ? place_q : place_q + 1'b1;
              item_d  = item_q + 1'b1;
              if (item_q == LastNode) state_d = cuts_q == '0 ? HearBeyond : HearCut;
            end
            HearCut: begin
              write   = hears;
              place_d = place_q + 1'b1;
              cuts_d  = cuts_q - 1'b1;
              if (word_i[63:32] == '0) bad_d = 1'b1;
              state_d = HearLengths;
            end
            default: bad_d = 1'b1;
          endcase
          if (bad_d) state_d = HearBeyond;
          if (word_last_i) begin
            if (bad_d || state_d != HearBeyond) verdict_d = ControlMalformed;
            state_d = Answer;
          end
        end
      end

      // Sends the own report; its cuts are in a ring.
      TellEpoch: begin
        write_o = room_i;
        write_word_o = {epoch_i, base_q};
        cuts_d = own_count_q;
        if (room_i) begin
          index_d = index_q + 1'b1;
          state_d = TellHead;
        end
      end
      TellHead: begin
        write_o = 1'b1;
        write_word_o = {base_members_q, node_set_t'(heard_q), 8'(own_count_q), 24'd0};
        index_d = index_q + 1'b1;
        member_d = own;
        place_d = AcceptedPlace;
        state_d = TellLengths;
      end
      TellLengths, TellCut: begin
        phase_d = !phase_q;
        read = !phase_q;
        write_o = phase_q;
        if (item_q[3]) write_word_o = '0;
        if (state_q == TellCut) write_word_o[31:0] = '0;
        if (phase_q) begin
          index_d = index_q + 1'b1;
          place_d = place_q + 1'b1;
          if (state_q == TellCut) begin
            state_d = TellLengths;
          end else begin
            item_d = item_q + 1'b1;
            if (item_q == LastNode) begin
              // Newest cut first.
              member_d = cuts_q == own_count_q ? own_head_q : member_q - 1'b1;
              place_d  = OwnCutPlace;
              cuts_d   = cuts_q - 1'b1;
              state_d  = cuts_q == '0 ? TellClose : TellCut;
            end
          end
        end
      end
      TellClose: begin
        if (close_ready_i) state_d = Answer;
      end

      // Determines the ends of the streams.
      FindNewest: begin
        phase_d = !phase_q;
        read = !phase_q;
        if (phase_q) begin
          member_d = member_q + 1'b1;
          if (last_member) state_d = JudgeNewest;
        end
      end
      JudgeNewest: begin
        if (!newest_members_q[node_i]) begin
          verdict_d = ControlLost;
          state_d   = Answer;
        end else if ((full_q & ~newest_members_q[Streams-1:0]) != '0) begin
          // Another member is lost. Only the membership service can remove it, so there is no decision.
          verdict_d = ControlUndecided;
          state_d   = Answer;
        end else begin
          state_d = base_q == newest_q ? NextLength : FindCut;
        end
      end
      // This node's base is older than the newest. The cut of its base is taken from a member that remembers it.
      FindCut: begin
        phase_d = !phase_q;
        place_d = HeadPlace;
        read = !phase_q;
        cuts_d = word[2:0];
        if (phase_q) begin
          if (full_q[member_q] && word_base > base_q && word[2:0] != '0) begin
            place_d = CutsPlace;
            state_d = FindCutEpoch;
          end else begin
            member_d = member_q + 1'b1;
            if (last_member) begin
              verdict_d = ControlLost;
              state_d   = Answer;
            end
          end
        end
      end
      FindCutEpoch: begin
        phase_d = !phase_q;
        read = !phase_q;
        if (phase_q) begin
          cuts_d = cuts_q - 1'b1;
          if (word_base == base_q) begin
            place_d = place_q + 1'b1;
            state_d = NextLength;
          end else if (cuts_q != 3'd1) begin
            place_d = place_q + place_t6'(Streams + 1);
          end else begin
            member_d = member_q + 1'b1;
            place_d  = HeadPlace;
            state_d  = FindCut;
            if (last_member) begin
              verdict_d = ControlLost;
              state_d   = Answer;
            end
          end
        end
      end
      // For each stream: with a cut, its length must not exceed this node's; without, the minimum over all members is
      // used.
      NextLength: begin
        member_d = '0;
        state_d  = LeastLength;
        if (cut_q) begin
          member_d = cut_member_q;
          state_d  = CutLength;
        end
      end
      CutLength: begin
        phase_d = !phase_q;
        read = !phase_q;
        if (phase_q) begin
          place_d  = place_q + 1'b1;
          member_d = own;
          state_d  = LeastLength;
        end
      end
      LeastLength: begin
        phase_d = !phase_q;
        read = !phase_q;
        read_place = AcceptedPlace + place_t6'(item_q);
        if (phase_q) begin
          member_d = member_q + 1'b1;
          if (cut_q && word_length < least_q) begin
            verdict_d = ControlLost;
            state_d   = Answer;
          end else if (cut_q || last_member) begin
            state_d = StoreLength;
          end
        end
      end
      StoreLength: begin
        step_lengths = 1'b1;
        step_length = older_q && !cut_q ? '0 : number_t'(least_q);
        item_d = item_q + 1'b1;
        state_d = last_stream ? Answer : NextLength;
      end

      // Stores the last decision as a cut.
      RememberEpoch: begin
        write = 1'b1;
        write_place = OwnCutPlace;
        write_word = {base_q, base_members_q, 16'd0};
        place_d = OwnCutPlace + 1'b1;
        state_d = WriteLengths;
      end
      WriteLengths: begin
        write = 1'b1;
        step_lengths = 1'b1;
        place_d = place_q + 1'b1;
        item_d = item_q + 1'b1;
        if (last_stream) state_d = Answer;
      end

      Answer:  state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  assign close_valid_o = state_q == TellClose;
  assign write_index_o = index_q;
  assign close_words_o = index_q;
  assign answer_valid_o = state_q == Answer;
  assign answer_o = '{verdict: verdict_q, heard: said_q, asked: 1'b0, moved: 1'b0};

  always_ff @(posedge clk_i) begin
    phase_q <= phase_d;
    item_q <= item_d;
    member_q <= member_d;
    place_q <= place_d;
    cuts_q <= cuts_d;
    index_q <= index_d;
    bad_q <= bad_d;
    verdict_q <= verdict_d;

    if (state_q == Idle && command_valid_i && command_i.command == ViewBegin) begin
      base_q <= base_i;
      base_members_q <= base_members_i;
    end
    if (state_q == HearHead) said_q <= word_i[47:32];

    if (state_q == HearEpoch) said_base_q <= word_i[31:0];
    if (state_q == Idle) begin
      older_q <= 1'b0;
      cut_q <= 1'b0;
      newest_q <= '0;
    end
    if (state_q == FindNewest && phase_q && full_q[member_q]) begin
      // The first member with the newest base determines the base's members.
      if (newer) begin
        newest_q <= word_base;
        newest_members_q <= word[31:16];
      end
      if (newest_q != '0 && word_base != newest_q) older_q <= 1'b1;
    end
    if (state_q == FindCutEpoch && phase_q) begin
      cut_q <= 1'b1;
      cut_member_q <= member_q;
    end
    if (state_q == NextLength) least_q <= '1;
    else if (phase_q && (state_q == CutLength || (state_q == LeastLength && full_q[member_q] && word_length < least_q)))
      least_q <= word_length;
    if (step_lengths) lengths_q <= {step_length, lengths_q[Streams-1:1]};
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q     <= Idle;
      begun_q     <= 1'b0;
      full_q      <= '0;
      heard_q     <= '0;
      cut_head_q  <= '0;
      cut_count_q <= '0;
      own_head_q  <= '0;
      own_count_q <= '0;
    end else begin
      state_q <= state_d;
      if (state_q == Idle && command_valid_i && command_i.command inside {ViewForget, ViewBegin}) begin
        begun_q <= 1'b0;
        full_q  <= '0;
        heard_q <= '0;
      end
      if (state_q == BeginHead) begin
        begun_q     <= 1'b1;
        full_q      <= full_i[Streams-1:0];
        heard_q     <= (Streams)'(16'd1 << node_i);
        own_head_q  <= cut_head_q;
        own_count_q <= cut_count_q;
      end
      if (state_q == Answer && command_i.command == ViewHear && verdict_q == ControlDone && hears) begin
        heard_q <= heard_q | hearing;
      end
      if (state_q == RememberEpoch) cut_count_q <= cut_count_q == 3'(CutsMax) ? cut_count_q : cut_count_q + 1'b1;
      if (state_q == WriteLengths && last_stream && command_i.command == CutRemember) cut_head_q <= cut_head_q + 1'b1;
      if (state_q == Idle && command_valid_i && command_i.command == CutForget) cut_count_q <= '0;
    end
  end

endmodule
