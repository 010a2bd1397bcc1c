// A node's sessions: its record of the clients' requests, so that no request takes effect twice. Twin of
// crates/engines/kv/src/session.rs, which describes the rules. Only the data structures differ:
//
// - The map from clients to slots stores the clients and their home indices in the map. So one step takes one cycle,
//   in a probe as well as in closing the gap behind a removed client (linear probing with backward shift: Knuth, The
//   Art of Computer Programming, volume 3, section 6.4, algorithm R). The map is cleared after reset and by
//   SessionClear.
// - Each session has flags that say which of its 16 records and 16 pending requests are valid, so a new session need
//   not be cleared.
//
// A request's client is hashed while the previous request is executed.
//
// Latency, if no other request is in progress and the client is at its home index: 5 cycles from a request to its
// answer, and 1 more for each further step of the probe. If a client must be removed first, some 10 more and the time
// of its probe and gap. SessionClear takes twice `Capacity` cycles, and so does reset. Throughput: a request of a
// known client every 4 cycles; an export has 49 words, one every cycle. Order: kept. Stalls: the input; an export,
// with its words.
module kv_sessions
  import weft_pkg::cycles_t;
  import kv_pkg::*;
#(
  parameter int unsigned Limit    = SessionsMax,  // clients that SessionBegin admits
  parameter int unsigned Capacity = SessionRoom,  // sessions that are stored; a power of two
  parameter cycles_t     Idle     = SessionIdle   // a session idle for longer may be evicted
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  cycles_t                 now_i,
  // Numbers of requests start at 1.
  input  logic                    request_valid_i,
  output logic                    request_ready_o,
  input  session_request_t        request_i,
  // Answers: one for each request, in order, valid for one cycle. That of SessionRecord, SessionCancel and
  // SessionClear only confirms completion.
  output logic                    answer_valid_o,
  output session_answer_t         answer_o,
  // Words of an export that was answered SessionUsed: the client; then for each record the request, the version and
  // {status, 0}.
  output logic                    word_valid_o,
  input  logic                    word_ready_i,
  output logic             [63:0] word_o,
  output logic                    word_last_o,
  // A session was evicted before it had been idle for `Idle`.
  output logic                    evicted_early_o,
  output logic                    idle_o
);

  localparam int unsigned MapDepth = 2 * Capacity;

  typedef logic [$clog2(Capacity)-1:0] index_t;
  typedef logic [$clog2(Capacity):0] count_t;
  typedef logic [$clog2(MapDepth)-1:0] home_t;
  typedef logic [$clog2(SessionPlaces)-1:0] slot_t;

  typedef struct packed {
    logic        used;
    index_t      index;
    home_t       home;
    logic [63:0] client;
  } mapping_t;

  typedef struct packed {
    logic        used;
    home_t       home;
    logic [63:0] client;
  } owner_t;

  typedef struct packed {
    logic [SessionPlaces-1:0] recorded;
    logic [SessionPlaces-1:0] pending;
  } flags_t;

  // The low bits of a request's number are its slot, so only the upper bits are stored.
  typedef logic [63:$clog2(SessionPlaces)] request_t;

  typedef struct packed {
    request_t request;
    version_t version;
    reply_status_e status;
  } record_t;

  typedef enum logic [4:0] {
    Wipe,
    Ready,
    Probe,       // a map entry has been read
    Compare,     // the record and the pending request of the slot have been read
    Decide,      // the record and the pending request have been compared
    Absent,      // the client is not in the map
    Oldest,      // the flags of the oldest session have been read
    Age,         // the time for which the oldest session has been idle has been read
    Walk,        // the flags of a candidate for eviction have been read
    Insert,
    Evict,       // evicts the session `index_q`, whose owner and links have been read
    EvictProbe,  // a map entry has been read
    Shift,       // the map entry behind the gap has been read
    Again,       // repeats the request from the start
    Look,        // looks up a slot, for an export
    Used,        // whether the slot is in use has been read
    Words,
    WordsEnd
  } state_e;

  state_e state_d, state_q;

  // The request whose client is being hashed.
  logic                                 next_valid_q;
  session_request_t                     next_q;
  logic             [             63:0] mixed_q;
  home_t                                next_home;
  logic                                 next_taken;

  // The request that is being executed.
  /* verilator lint_off UNUSEDSIGNAL */  // the upper bits of an index are evaluated earlier
  session_request_t                     request_q;
  /* verilator lint_on UNUSEDSIGNAL */
  home_t                                home_q;
  slot_t                                slot;
  logic                                 begins;
  logic                                 records;
  logic                                 cancels;
  logic                                 clears_q;  // the map is being cleared for SessionClear, and not after reset

  // Index at which the map is read, cleared or gets the client; index of the gap that is being closed.
  home_t                                at_q;
  home_t                                at_next;
  home_t                                gap_q;
  logic                                 map_read;
  home_t                                map_address;
  logic                                 map_write;
  mapping_t                             map_data;
  mapping_t                             mapping;
  logic                                 found;
  logic                                 moves;
  // The slot of the current session.
  index_t                               index_q;
  owner_t                               owner;
  flags_t                               flags;
  flags_t                               flags_new;
  cycles_t                              active;
  cycles_t                              age_q;
  logic                                 some_pending_q;
  record_t                              record;
  request_t                             pending;
  logic             [SessionPlaces-1:0] slot_bit;

  // Results of the comparison.
  logic                                 recorded_same_q;
  logic                                 recorded_later_q;
  logic                                 pending_same_q;
  logic                                 pending_later_q;
  logic                                 never;
  logic                                 admits;
  logic                                 touches;
  logic                                 stores;

  index_t                               newest;
  index_t                               oldest;
  index_t                               spare;
  index_t                               newer;
  count_t                               count;
  count_t                               mark;
  logic                                 full;
  logic                                 links_q;

  logic                                 answer;
  session_verdict_e                     verdict;
  logic                                 answer_valid_q;
  session_verdict_e                     verdict_q;

  // State of an export.
  slot_t                                word_slot_q;
  slot_t                                word_slot_next;
  // 0: the client; otherwise request, version and status of a record
  logic             [              1:0] word_part_q;
  logic                                 word_valid_q;
  logic                                 word_last_q;
  logic                                 word_free;
  logic             [             63:0] word_q;

  // Hashing.

  assign next_home = home_t'(kv_mix_half(mixed_q, 1'b1));
  assign request_ready_o = !next_valid_q || next_taken;
  assign next_taken = state_q == Ready && next_valid_q;

  always_ff @(posedge clk_i) begin
    if (request_valid_i && request_ready_o) begin
      next_q  <= request_i;
      mixed_q <= kv_mix_half(request_i.client, 1'b0);
    end
    if (next_taken) begin
      request_q <= next_q;
      home_q <= next_home;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) next_valid_q <= 1'b0;
    else if (request_ready_o) next_valid_q <= request_valid_i;
  end

  // State machine.

  assign slot = slot_t'(request_q.request);
  assign begins = request_q.command == SessionBegin;
  assign records = request_q.command == SessionRecord;
  assign cancels = request_q.command == SessionCancel;
  assign found = mapping.used && mapping.client == request_q.client;
  assign full = count >= (begins ? count_t'(Limit) : count_t'(Capacity));
  // A map entry may move to the gap if the gap is not in front of the entry's home index.
  assign moves = home_t'(at_q - mapping.home) >= home_t'(at_q - gap_q);
  assign never = !recorded_same_q && !recorded_later_q && !pending_same_q && !pending_later_q;
  assign admits = begins && never && request_q.room;
  assign touches = admits || records;
  assign word_free = !word_valid_q || word_ready_i;

  always_comb begin
    state_d = state_q;
    answer  = 1'b0;
    verdict = SeenAdmitted;
    unique case (state_q)
      Wipe: begin
        if (at_q == '1) begin
          state_d = Ready;
          answer  = clears_q;
        end
      end
      Ready: begin
        if (next_valid_q) begin
          unique case (next_q.command)
            SessionExport: state_d = Look;
            SessionClear: state_d = Wipe;
            default: state_d = Probe;
          endcase
        end
      end
      Probe: begin
        if (found) state_d = Compare;
        else if (!mapping.used) state_d = Absent;
      end
      Compare: state_d = Decide;
      Decide: begin
        state_d = Ready;
        answer  = 1'b1;
        if (recorded_same_q) verdict = SeenRecorded;
        else if (!never) verdict = SeenIgnored;
        else if (!request_q.room) verdict = SeenNoRoom;
      end
      Absent: begin
        state_d = begins ? Oldest : Walk;
        verdict = SeenNoRoom;
        if (cancels || (begins && !request_q.room)) begin
          state_d = Ready;
          answer  = 1'b1;
        end else if (!full) begin
          state_d = Insert;
        end
      end
      Oldest: state_d = Age;
      Age: begin
        verdict = SeenRefused;
        if (!some_pending_q && age_q > Idle) begin
          state_d = Evict;
        end else begin
          state_d = Ready;
          answer  = 1'b1;
        end
      end
      Walk: if (flags.pending == '0) state_d = Evict;
      Insert: begin
        state_d = Ready;
        answer  = 1'b1;
      end
      Evict: state_d = EvictProbe;
      EvictProbe: if (mapping.index == index_q && mapping.used) state_d = Shift;
      Shift: if (!mapping.used) state_d = Again;
      Again: state_d = Probe;
      Look: begin
        state_d = Used;
        if (request_q.index >= 32'(mark)) begin
          state_d = Ready;
          answer  = 1'b1;
          verdict = SessionEnd;
        end
      end
      Used: begin
        state_d = owner.used ? Words : Ready;
        answer  = 1'b1;
        verdict = owner.used ? SessionUsed : SessionUnused;
      end
      Words: if (word_free && word_part_q == 2'd3 && word_slot_q == '1) state_d = WordsEnd;
      WordsEnd: if (word_ready_i) state_d = Ready;
      default: state_d = Ready;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= Wipe;
      answer_valid_q <= 1'b0;
      links_q <= 1'b0;
      clears_q <= 1'b0;
    end else begin
      state_q <= state_d;
      answer_valid_q <= answer;
      if (next_taken) clears_q <= next_q.command == SessionClear;
      // Linking as the newest comes one cycle after unlinking or taking.
      links_q <= (state_q == Decide && touches && index_q != newest) || state_q == Insert;
    end
    if (answer) verdict_q <= verdict;
  end

  assign answer_valid_o = answer_valid_q;
  // The record stays at its memory's output until the next request is probed.
  assign answer_o = '{verdict: verdict_q, status: record.status, version: record.version};
  assign evicted_early_o = state_q == Walk && state_d == Evict;
  assign idle_o = state_q == Ready && !next_valid_q && !answer_valid_q && !links_q;

  // The map.

  assign at_next = at_q + 1'b1;

  always_comb begin
    map_read = 1'b1;
    unique case (state_q)
      Ready: begin
        map_read = next_valid_q;
        map_address = next_home;
      end
      Evict: map_address = owner.home;
      Again: map_address = home_q;
      default: begin
        map_read = state_q == Probe || state_q == EvictProbe || state_q == Shift;
        map_address = at_next;
      end
    endcase
  end

  assign map_write = state_q == Wipe || state_q == Insert || (state_q == Shift && (!mapping.used || moves));

  always_comb begin
    map_data = mapping;
    if (state_q == Insert) map_data = '{1'b1, index_q, home_q, request_q.client};
    if (state_q == Wipe) map_data.used = 1'b0;
  end

  ram #(
    .T    (mapping_t),
    .Depth(MapDepth),
    .Style("ultra")
  ) i_map (
    .clk_i,
    .write_i        (map_write),
    .write_address_i(state_q == Shift ? gap_q : at_q),
    .write_data_i   (map_data),
    .read_i         (map_read),
    .read_address_i (map_address),
    .read_data_o    (mapping)
  );

  always_ff @(posedge clk_i) begin
    if (state_q == EvictProbe || (state_q == Shift && moves)) gap_q <= at_q;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      at_q <= '0;
    end else begin
      unique case (state_q)
        Wipe: at_q <= at_next;
        Ready: at_q <= next_q.command == SessionClear ? '0 : next_home;
        Probe: if (state_d == Probe) at_q <= at_next;
        Absent, Compare, Decide, Insert: at_q <= at_q;
        default: at_q <= map_address;
      endcase
    end
  end

  // Places: their owners, the order of their activity, and their contents.

  logic   list_read;
  index_t list_index;

  // The slot whose links are read. In `Probe`: that of the client, if found. In `Absent`: the spare slot, or the
  // oldest, which is the first candidate for eviction.
  always_comb begin
    list_read = 1'b1;
    unique case (state_q)
      Probe:  list_index = mapping.index;
      Absent: list_index = full ? oldest : spare;
      Walk: begin
        list_read  = state_d == Walk;
        list_index = newer;
      end
      default: begin
        list_read  = state_q == Look;
        list_index = index_q;
      end
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (next_taken) index_q <= index_t'(next_q.index);
    else if (state_q == Probe || state_q == Absent || (state_q == Walk && state_d == Walk)) index_q <= list_index;
  end

  ram #(
    .T    (owner_t),
    .Depth(Capacity)
  ) i_owners (
    .clk_i,
    .write_i        (state_q == Insert || state_q == Evict),
    .write_address_i(index_q),
    .write_data_i   ('{state_q == Insert, home_q, request_q.client}),
    .read_i         (list_read),
    .read_address_i (list_index),
    .read_data_o    (owner)
  );

  kv_session_order #(
    .Capacity(Capacity)
  ) i_order (
    .clk_i,
    .rst_ni,
    .read_i      (list_read),
    .read_index_i(list_index),
    .newer_o     (newer),
    .index_i     (index_q),
    .unlink_i    ((state_q == Decide && touches && index_q != newest) || state_q == Evict),
    .link_i      (links_q),
    .give_i      (state_q == EvictProbe && state_d == Shift),
    .take_i      (state_q == Insert),
    .clear_i     (state_q == Wipe && at_q == '1),
    .newest_o    (newest),
    .oldest_o    (oldest),
    .spare_o     (spare),
    .count_o     (count),
    .mark_o      (mark)
  );

  ram #(
    .T    (cycles_t),
    .Depth(Capacity)
  ) i_active (
    .clk_i,
    .write_i        (state_q == Insert || (state_q == Decide && touches)),
    .write_address_i(index_q),
    .write_data_i   (now_i),
    .read_i         (state_q == Absent),
    .read_address_i (list_index),
    .read_data_o    (active)
  );

  always_ff @(posedge clk_i) begin
    if (state_q == Oldest) begin
      age_q <= now_i - active;
      some_pending_q <= flags.pending != '0;
    end
  end

  // Flags, records and pending requests.

  assign slot_bit = SessionPlaces'(1) << slot;
  assign stores   = records && !recorded_same_q && !recorded_later_q;

  always_comb begin
    flags_new = flags;
    if (state_q == Insert) flags_new = '0;
    if (state_q == Insert ? records : stores) flags_new.recorded |= slot_bit;
    if (state_q == Insert ? begins : admits) flags_new.pending |= slot_bit;
    if (state_q == Decide && (records || cancels) && pending_same_q) flags_new.pending &= ~slot_bit;
  end

  ram #(
    .T    (flags_t),
    .Depth(Capacity)
  ) i_flags (
    .clk_i,
    .write_i        (state_q == Insert || state_q == Decide),
    .write_address_i(index_q),
    .write_data_i   (flags_new),
    .read_i         (list_read),
    .read_address_i (list_index),
    .read_data_o    (flags)
  );

  kv_deep_ram #(
    .T    (record_t),
    .Depth(Capacity * SessionPlaces)
  ) i_records (
    .clk_i,
    .write_i        ((state_q == Insert && records) || (state_q == Decide && stores)),
    .write_address_i({index_q, slot}),
    .write_data_i   ('{request_t'(request_q.request >> $bits(slot_t)), request_q.version, request_q.status}),
    .read_i         (state_q == Probe || state_q == Used || (state_q == Words && word_free && word_part_q == 2'd3)),
    .read_address_i (state_q == Probe ? {mapping.index, slot} : {index_q, word_slot_next}),
    .read_data_o    (record)
  );

  kv_deep_ram #(
    .T    (request_t),
    .Depth(Capacity * SessionPlaces)
  ) i_pending (
    .clk_i,
    .write_i        ((state_q == Insert && begins) || (state_q == Decide && admits)),
    .write_address_i({index_q, slot}),
    .write_data_i   (request_t'(request_q.request >> $bits(slot_t))),
    .read_i         (state_q == Probe),
    .read_address_i ({mapping.index, slot}),
    .read_data_o    (pending)
  );

  request_t request;
  assign request = request_q.request[63:$bits(slot_t)];

  always_ff @(posedge clk_i) begin
    if (state_q == Compare) begin
      recorded_same_q  <= flags.recorded[slot] && record.request == request;
      recorded_later_q <= flags.recorded[slot] && record.request > request;
      pending_same_q   <= flags.pending[slot] && pending == request;
      pending_later_q  <= flags.pending[slot] && pending > request;
    end
  end

  // Words of an export. The record of `word_slot_q` is at its memory's output; with its last word the next one is
  // read.

  assign word_valid_o = word_valid_q;
  assign word_o = word_q;
  assign word_last_o = word_last_q;
  assign word_slot_next = state_q == Words ? word_slot_q + 1'b1 : '0;

  always_ff @(posedge clk_i) begin
    if (state_q == Words && word_free) begin
      unique case (word_part_q)
        2'd0: word_q <= owner.client;
        2'd1: word_q <= {record.request, word_slot_q};
        2'd2: word_q <= record.version;
        default: word_q <= {4'd0, record.status, 56'd0};
      endcase
      if (word_part_q != 2'd0 && !flags.recorded[word_slot_q]) word_q <= '0;
      word_last_q <= state_d == WordsEnd;
    end
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Used) begin
      word_slot_q <= '0;
      word_part_q <= 2'd0;
    end else if (state_q == Words && word_free) begin
      word_part_q <= word_part_q == 2'd3 ? 2'd1 : word_part_q + 1'b1;
      if (word_part_q == 2'd3) word_slot_q <= word_slot_next;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) word_valid_q <= 1'b0;
    else if (word_free) word_valid_q <= state_q == Words;
  end

  // Assertions.

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!(request_valid_i && request_i.command inside {SessionBegin, SessionRecord, SessionCancel}) ||
              request_i.request != '0)
      else $error("requests have numbers from 1");
      assert (!(state_q == Absent && state_d == Insert) || count < count_t'(Capacity))
      else $error("no place is free");
      assert (state_q != EvictProbe || mapping.used)
      else $error("the map has lost a client");
    end
  end

endmodule
