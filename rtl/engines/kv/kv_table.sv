// The table of the key-value engine: tags on chip, slots in memory.
//
// A bucket has 32 ways. kv_tags holds for each way an 11-bit tag, taken from the hash of its key, and the beats of
// its value. A key's slot is found by its tag, so a hit costs one access to memory and a miss mostly none. All
// operations take their turns at the tags in one order (kv_turns). Data that returns from memory becomes results
// (kv_lookups). Applies pass through the steps that kv_applies describes, and kv_memory writes.
//
// Memory: slot (bucket, way) is at ((bucket * Ways) + way) * SlotBytes: a beat with latest version(8), version(8),
// length(2), flags(1: 3), key at byte 24; then the value. Slots without a tag have arbitrary contents. The rings of
// the journal follow all slots.
//
// Hazards, and the block that resolves each:
// - A lookup reads a slot that a later apply overwrites, frees or gives to another key: the write waits for the data
//   of all lookups whose turn was before its decision (kv_applies, cleared). A lookup carries the number of beats to
//   read, and so reads the value that was there when it read the tags.
// - A lookup matches the tag of a slot that is being written, because the slot is its key's or has an equal tag: it
//   waits for the answer of memory (kv_turns). So the slot that it reads is complete, and never has its previous key.
// - An apply's search matches a slot that is being written: it is compared with the key on chip (kv_turns).
// - Writes to one slot: in the order of applies (kv_applies, kv_memory).
// - Applies of one bucket: the second searches when the first is decided (kv_applies), and sees its tag (kv_tags).
// - Turns of one bucket: none is between another's read and write of the row (kv_tags).
// - Several ways match a tag: all are read; at most one has the key.
// - A lookup has an older value than a write: the write is not retired before that lookup's result was taken.
//
// Latency: a lookup offers its address 3 cycles after it was accepted, and its result 2 cycles after the last beat; a
// lookup that needs no memory offers its result after 6. A reservation is answered 3 cycles after it was accepted.
// Throughput: a lookup every 2 cycles, if one way is read, and a beat every cycle; an apply takes two turns, about 4
// cycles, and its beats and two cycles to write. Order: results in the order of lookups, retirements in the order of
// applies, reservations and releases in order, journal records in order; the four are independent of each other.
// Stalls: lookups, while `LookupsMax` results or `ValueRoom` beats are not taken, and then all turns behind them;
// therefore the consumer of results must not wait for any other operation of this block. Applies, while `AppliesMax`
// are in progress.
module kv_table
  import weft_pkg::*;
  import kv_pkg::*;
  import kv_table_pkg::*;
(
  input logic    clk_i,
  input logic    rst_ni,
  // Number of buckets, less one. A change clears the table.
  input bucket_t bucket_mask_i,

  // Results come in the order of lookups. A result with a value (`found`, LookupRead or LookupFetch, and
  // `value_bytes` not zero) is followed by its beats, without a gap once the result is offered.
  input  logic       lookup_valid_i,
  output logic       lookup_ready_o,
  input  lookup_t    lookup_i,
  output logic       result_valid_o,
  input  logic       result_ready_i,
  output looked_up_t result_o,
  output logic       result_value_valid_o,
  input  logic       result_value_ready_i,
  output beat_t      result_value_o,

  // Reserves a way for a key that may be added: `reserve_done_o` 3 cycles after the reservation was accepted, or
  // later while turns wait; in order.
  input  logic    reserve_valid_i,
  output logic    reserve_ready_o,
  input  bucket_t reserve_bucket_i,
  output logic    reserve_done_o,
  output logic    reserve_granted_o,
  // Releases a reservation.
  input  logic    release_valid_i,
  output logic    release_ready_o,
  input  bucket_t release_bucket_i,

  // Applies. Values (of puts with `value_bytes`) come in the order of applies; an apply does not wait for its value.
  input  logic    apply_valid_i,
  output logic    apply_ready_o,
  input  apply_t  apply_i,
  input  logic    apply_value_valid_i,
  output logic    apply_value_ready_o,
  input  beat_t   apply_value_i,
  output logic    retired_valid_o,
  output stream_t retired_stream_o,

  // Finds the first claimed way of a bucket, from `scan_way_i` on.
  input  logic    scan_valid_i,
  output logic    scan_ready_o,
  input  bucket_t scan_bucket_i,
  input  way_t    scan_way_i,
  output logic    scan_done_o,
  output logic    scan_some_o,
  output way_t    scan_way_o,

  input  logic     journal_valid_i,
  output logic     journal_ready_o,
  input  journal_t journal_i,
  input  logic     journal_value_valid_i,
  output logic     journal_value_ready_o,
  input  beat_t    journal_value_i,
  output logic     journaled_valid_o,
  output stream_t  journaled_stream_o,

  // Frees all ways. Accepted when no apply is in progress; `clear_done_o` reports the end. Also done after reset.
  input  logic clear_valid_i,
  output logic clear_ready_o,
  output logic clear_done_o,

  output logic               memory_aw_valid_o,
  input  logic               memory_aw_ready_i,
  output axi_address_t       memory_aw_o,
  output logic               memory_w_valid_o,
  input  logic               memory_w_ready_i,
  output write_beat_t        memory_w_o,
  input  logic               memory_b_valid_i,
  input  logic         [1:0] memory_b_response_i,
  output logic               memory_ar_valid_o,
  input  logic               memory_ar_ready_i,
  output axi_address_t       memory_ar_o,
  input  logic               memory_r_valid_i,
  output logic               memory_r_ready_o,
  input  axi_read_t          memory_r_i,

  output kv_table_events_t events_o,
  output logic             idle_o
);

  logic                         turn_valid;
  logic                         turn_ready;
  turn_t                        turn;
  logic                         probe_valid;
  logic                         probe_ready;
  probe_t                       probe;

  logic                         tags_write_valid;
  tags_write_t                  tags_write;
  logic                         tags_clear_ready;
  logic                         opened_valid;
  opened_t                      opened;
  logic                         lookup_room;
  logic                         record_valid;
  logic                         record_ready;
  record_t                      record;
  logic                         room;
  logic                         room_take;
  value_beats_t                 room_take_beats;
  version_t                     version;
  logic                         newer_only;
  logic                         probed_valid;
  probed_t                      probed;

  logic                         look_valid;
  logic                         look_ready;
  logic                         look_taken;
  logic                         decide_valid;
  logic                         decide_ready;
  turn_t                        decide;
  logic                         deletes;
  logic                         reserved;
  value_beats_t                 beats;
  logic                         decide_taken;
  logic                         decided_valid;
  decided_t                     decided;
  ways_t                        left;
  way_t                         left_way;
  logic                         next_valid;
  bucket_t                      next_bucket;
  way_t                         written_way;
  logic                         written_hit;
  apply_index_t                 written_index;
  apply_index_t                 same_index;
  logic                         same;

  lookup_count_t                issued;
  lookup_count_t                completed;
  lookup_count_t                taken;

  logic                         slot_valid;
  logic                         slot_ready;
  slot_write_t                  slot;
  logic                         beat_read;
  logic          [         3:0] beat_index;
  logic          [BeatBits-1:0] beat;
  logic                         slot_answered;

  logic                         read_fault;
  logic                         write_fault;
  logic                         tags_idle;
  logic                         lookups_idle;
  logic                         applies_idle;
  logic                         memory_idle;

  // Arbitration. Short operations, and operations for which others wait, have priority; lookups and applies
  // alternate.

  logic                         take_reserve;
  logic                         take_decide;
  logic                         take_release;
  logic                         take_lookup;
  logic                         take_look;
  logic                         take_scan;
  logic                         look_next_q;  // an apply has the next turn, if one waits

  assign take_reserve = reserve_valid_i;
  assign take_decide  = decide_valid && !take_reserve;
  assign take_release = release_valid_i && !decide_valid && !take_reserve;

  logic lookup_waits;
  logic look_waits;
  logic others;
  assign lookup_waits = lookup_valid_i && lookup_room;
  assign look_waits = look_valid;
  assign others = reserve_valid_i || decide_valid || release_valid_i;
  assign take_look = !others && look_waits && (look_next_q || !lookup_waits);
  assign take_lookup = !others && lookup_waits && !take_look;
  assign take_scan = scan_valid_i && !others && !lookup_waits && !look_waits;

  always_comb begin
    turn = '0;
    turn.lookup = lookup_i.kind;
    turn.newer_only = apply_i.newer_only;
    turn.found = decide.found;
    turn.found_way = decide.found_way;
    turn.stale = decide.stale;
    if (take_reserve || take_release) begin
      turn.kind   = take_reserve ? TurnReserve : TurnRelease;
      turn.bucket = take_reserve ? reserve_bucket_i : release_bucket_i;
    end else if (take_decide) begin
      turn.kind   = TurnDecide;
      turn.bucket = decide.bucket;
      turn.way    = decide.way;
      turn.tag    = decide.tag;
    end else if (take_look) begin
      turn.kind   = TurnApply;
      turn.bucket = apply_i.place.bucket;
      turn.way    = apply_i.place.way;
      turn.tag    = apply_i.place.tag;
    end else if (take_lookup) begin
      turn.kind   = TurnLookup;
      turn.bucket = lookup_i.place.bucket;
      turn.way    = lookup_i.place.way;
      turn.tag    = lookup_i.place.tag;
    end else begin
      turn.kind   = TurnScan;
      turn.bucket = scan_bucket_i;
      turn.way    = scan_way_i;
    end
  end

  assign turn_valid = others || take_look || take_lookup || take_scan;
  assign reserve_ready_o = take_reserve && turn_ready;
  assign decide_ready = take_decide && turn_ready;
  assign release_ready_o = take_release && turn_ready;
  assign look_ready = take_look && turn_ready;
  assign lookup_ready_o = take_lookup && turn_ready;
  assign scan_ready_o = take_scan && turn_ready;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) look_next_q <= 1'b0;
    else if (turn_ready && (take_look || take_lookup)) look_next_q <= take_lookup;
  end

  assign opened_valid = (take_look || take_lookup) && turn_ready;
  assign opened = '{apply: take_look, lookup: lookup_i.kind, key: take_look ? apply_i.key : lookup_i.key};

  assign clear_ready_o = tags_clear_ready && applies_idle;
  assign idle_o = tags_idle && lookups_idle && applies_idle && memory_idle;
  assign events_o.memory_fault = read_fault || write_fault;

  kv_tags i_tags (
    .clk_i,
    .rst_ni,
    .bucket_mask_i,
    .turn_valid_i (turn_valid),
    .turn_ready_o (turn_ready),
    .turn_i       (turn),
    .probe_valid_o(probe_valid),
    .probe_ready_i(probe_ready),
    .probe_o      (probe),
    .left_i       (left),
    .way_i        (left_way),
    .next_valid_o (next_valid),
    .next_bucket_o(next_bucket),
    .write_valid_i(tags_write_valid),
    .write_i      (tags_write),
    .clear_valid_i(clear_valid_i && applies_idle),
    .clear_ready_o(tags_clear_ready),
    .clear_done_o,
    .idle_o       (tags_idle)
  );

  kv_turns i_turns (
    .clk_i,
    .rst_ni,
    .probe_valid_i    (probe_valid),
    .probe_ready_o    (probe_ready),
    .probe_i          (probe),
    .left_o           (left),
    .way_o            (left_way),
    .write_valid_o    (tags_write_valid),
    .write_o          (tags_write),
    .reserve_done_o,
    .reserve_granted_o,
    .scan_done_o,
    .scan_some_o,
    .scan_way_o,
    .deletes_i        (deletes),
    .reserved_i       (reserved),
    .beats_i          (beats),
    .decide_taken_o   (decide_taken),
    .decided_valid_o  (decided_valid),
    .decided_o        (decided),
    .full_o           (events_o.apply_full),
    .written_way_o    (written_way),
    .written_hit_i    (written_hit),
    .written_index_i  (written_index),
    .same_index_o     (same_index),
    .same_i           (same),
    .look_taken_o     (look_taken),
    .record_valid_o   (record_valid),
    .record_ready_i   (record_ready),
    .record_o         (record),
    .room_i           (room),
    .room_take_o      (room_take),
    .room_take_beats_o(room_take_beats),
    .issued_o         (issued),
    .ar_valid_o       (memory_ar_valid_o),
    .ar_ready_i       (memory_ar_ready_i),
    .ar_o             (memory_ar_o)
  );

  kv_lookups i_lookups (
    .clk_i,
    .rst_ni,
    .lookup_room_o       (lookup_room),
    .opened_valid_i      (opened_valid),
    .opened_i            (opened),
    .lookup_place_i      (lookup_i.place),
    .lookup_asker_i      (lookup_i.asker),
    .record_valid_i      (record_valid),
    .record_ready_o      (record_ready),
    .record_i            (record),
    .room_o              (room),
    .room_take_i         (room_take),
    .room_take_beats_i   (room_take_beats),
    .r_valid_i           (memory_r_valid_i),
    .r_ready_o           (memory_r_ready_o),
    .r_i                 (memory_r_i),
    .version_i           (version),
    .newer_only_i        (newer_only),
    .probed_valid_o      (probed_valid),
    .probed_o            (probed),
    .result_valid_o,
    .result_ready_i,
    .result_o,
    .result_value_valid_o,
    .result_value_ready_i,
    .result_value_o,
    .completed_o         (completed),
    .taken_o             (taken),
    .lookups_o           (events_o.lookups),
    .accesses_o          (events_o.lookup_accesses),
    .hits_o              (events_o.lookup_hits),
    .hits_in_one_access_o(events_o.lookup_hits_in_one_access),
    .fault_o             (read_fault),
    .idle_o              (lookups_idle)
  );

  kv_applies i_applies (
    .clk_i,
    .rst_ni,
    .apply_valid_i,
    .apply_ready_o,
    .apply_i,
    .value_valid_i  (apply_value_valid_i),
    .value_ready_o  (apply_value_ready_o),
    .value_i        (apply_value_i),
    .retired_valid_o,
    .retired_stream_o,
    .look_valid_o   (look_valid),
    .look_ready_i   (look_ready),
    .version_o      (version),
    .newer_only_o   (newer_only),
    .probed_valid_i (probed_valid),
    .probed_i       (probed),
    .decide_valid_o (decide_valid),
    .decide_ready_i (decide_ready),
    .decide_o       (decide),
    .deletes_o      (deletes),
    .reserved_o     (reserved),
    .beats_o        (beats),
    .decide_taken_i (decide_taken),
    .decided_valid_i(decided_valid),
    .decided_i      (decided),
    .next_valid_i   (next_valid),
    .next_bucket_i  (next_bucket),
    .written_way_i  (written_way),
    .written_hit_o  (written_hit),
    .written_index_o(written_index),
    .same_index_i   (same_index),
    .same_o         (same),
    .look_taken_i   (look_taken),
    .issued_i       (issued),
    .completed_i    (completed),
    .taken_i        (taken),
    .write_valid_o  (slot_valid),
    .write_ready_i  (slot_ready),
    .write_o        (slot),
    .beat_read_i    (beat_read),
    .beat_index_i   (beat_index),
    .beat_o         (beat),
    .answered_i     (slot_answered),
    .idle_o         (applies_idle)
  );

  kv_memory i_memory (
    .clk_i,
    .rst_ni,
    .slot_valid_i   (slot_valid),
    .slot_ready_o   (slot_ready),
    .slot_i         (slot),
    .beat_read_o    (beat_read),
    .beat_index_o   (beat_index),
    .beat_i         (beat),
    .slot_answered_o(slot_answered),
    .journal_valid_i,
    .journal_ready_o,
    .journal_i,
    .journal_value_valid_i,
    .journal_value_ready_o,
    .journal_value_i,
    .journaled_valid_o,
    .journaled_stream_o,
    .fault_o        (write_fault),
    .idle_o         (memory_idle),
    .aw_valid_o     (memory_aw_valid_o),
    .aw_ready_i     (memory_aw_ready_i),
    .aw_o           (memory_aw_o),
    .w_valid_o      (memory_w_valid_o),
    .w_ready_i      (memory_w_ready_i),
    .w_o            (memory_w_o),
    .b_valid_i      (memory_b_valid_i),
    .b_response_i   (memory_b_response_i)
  );

endmodule
