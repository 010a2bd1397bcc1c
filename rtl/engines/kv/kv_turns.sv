// Executes the turns at the tags, one at a time: reads the slots that match, decides applies, and counts the ways in
// use.
//
// A lookup, or the search of an apply, reads every way that matches: the lookup with the value, the search only the
// header, which has the key. When all bursts are requested, the turn is over. A way whose slot is being written
// (decided, and the write not answered) is not read. A lookup waits for the write to be answered. A search compares
// its key with the key that is being written, which decides; it waits only if it also needs the version
// (`newer_only`).
//
// The waits cannot deadlock: a write waits only for reads that were requested before its decision. No decision passes
// a turn that waits, so no write can come to wait for that turn.
//
// Latency: a burst is offered, or a reservation answered, in the cycle in which the probe arrives. Throughput: a turn
// every cycle, except that a turn with reads takes two cycles for one matching way, four for two, and so on, and one
// more if it reads across 4 KiB. Stalls: while the address channel stalls, while there is no room for a value of
// maximum length, and as above.
module kv_turns
  import weft_pkg::*;
  import kv_pkg::*;
  import kv_table_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic        probe_valid_i,
  output logic        probe_ready_o,
  input  probe_t      probe_i,
  output ways_t       left_o,
  output way_t        way_o,
  output logic        write_valid_o,
  output tags_write_t write_o,

  output logic reserve_done_o,
  output logic reserve_granted_o,
  output logic scan_done_o,
  output logic scan_some_o,
  output way_t scan_way_o,

  // Fields of the apply to be decided.
  input  logic         deletes_i,
  input  logic         reserved_i,
  input  value_beats_t beats_i,
  // The decision on the apply. `decide_taken_o` pulses at the end of its turn; the result follows one cycle later.
  output logic         decide_taken_o,
  output logic         decided_valid_o,
  output decided_t     decided_o,
  output logic         full_o,

  // Whether the slot at this way of the probe is being written.
  output way_t         written_way_o,
  input  logic         written_hit_i,
  input  apply_index_t written_index_i,
  // Whether the apply that searches for its slot has the same key as that apply.
  output apply_index_t same_index_o,
  input  logic         same_i,
  output logic         look_taken_o,

  output logic    record_valid_o,
  input  logic    record_ready_i,
  output record_t record_o,

  // Room for the beats of a value of maximum length; and the beats that are reserved.
  input  logic         room_i,
  output logic         room_take_o,
  output value_beats_t room_take_beats_o,

  // Number of lookups whose turn is over.
  output lookup_count_t issued_o,

  output logic         ar_valid_o,
  input  logic         ar_ready_i,
  output axi_address_t ar_o
);

  // The next one of several ways was selected.
  logic  chosen_q;
  // The first burst of that way was requested.
  logic  second_q;
  // The slot at that way is being written, so the keys are compared on chip.
  logic  compare_q;
  // The way of the key is known.
  logic  resolved_q;
  // All reads have been requested and announced to kv_lookups.
  logic  finished_q;

  ways_t left;
  way_t  way;
  ways_t others;
  logic  lookup;
  logic  search;
  logic  reads_value;
  logic  none;
  logic  chosen;
  logic  burst_valid;
  logic  burst_last;
  logic  drop;  // the way was read, or need not be read
  logic  close;

  assign left = probe_i.matching;
  assign way = probe_i.way;
  assign lookup = probe_i.turn.kind == TurnLookup;
  assign search = probe_i.turn.kind == TurnApply;
  assign reads_value = lookup && probe_i.turn.lookup != LookupFind;
  assign none = left == '0;

  always_comb begin
    others = left;
    others[way] = 1'b0;
  end

  // The way that comes with the probe is valid if it is the only one that matches.
  assign chosen = chosen_q || others == '0;

  // Decisions.

  ways_t claimable;
  ways_t behind;
  way_t  first_behind;
  way_t  first_free;
  logic  some_behind;
  logic  overwrites;
  logic  claims;
  logic  frees;
  logic  full;
  logic  decide;

  assign decide = probe_valid_i && probe_i.turn.kind == TurnDecide;
  assign claimable = probe_i.turn.kind == TurnScan ? probe_i.claimed : ~probe_i.claimed;
  always_comb begin
    for (int unsigned i = 0; i < Ways; i++) behind[i] = claimable[i] && way_t'(i) >= probe_i.turn.way;
  end
  assign some_behind = behind != '0;
  assign first_behind = first_way(behind);
  assign first_free = some_behind ? first_behind : first_way(claimable);

  assign overwrites = !deletes_i && probe_i.turn.found && !probe_i.turn.stale;
  assign claims = !deletes_i && !probe_i.turn.found && !(&probe_i.claimed);
  assign full = !deletes_i && !probe_i.turn.found && &probe_i.claimed;
  assign frees = deletes_i && probe_i.turn.found && !probe_i.turn.stale;

  logic granted;
  assign granted = probe_i.used < used_t'(Ways);
  assign reserve_done_o = probe_valid_i && probe_i.turn.kind == TurnReserve;
  assign reserve_granted_o = granted;
  assign decide_taken_o = decide;
  assign look_taken_o = probe_valid_i && search && probe_ready_o;

  way_t decided_way;
  assign decided_way = probe_i.turn.found ? probe_i.turn.found_way : first_free;

  always_ff @(posedge clk_i) begin
    if (probe_valid_i) begin
      write_o.bucket <= probe_i.turn.bucket;
      write_o.some   <= decide && (overwrites || claims || frees);
      write_o.way    <= decided_way;
      write_o.entry  <= deletes_i ? '0 : {beats_i, probe_i.turn.tag};
      unique case (probe_i.turn.kind)
        TurnReserve: write_o.used <= probe_i.used + used_t'(granted);
        TurnRelease: write_o.used <= probe_i.used - used_t'(probe_i.used != '0);
        default:
        write_o.used <= probe_i.used + used_t'(claims) - used_t'(frees)
                                     - used_t'(reserved_i && (claims || probe_i.used != '0));
      endcase
      decided_o.writes <= overwrites || claims;
      scan_some_o <= some_behind;
      scan_way_o <= first_behind;
    end
  end

  assign decided_o.way = write_o.way;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      write_valid_o   <= 1'b0;
      decided_valid_o <= 1'b0;
      scan_done_o     <= 1'b0;
      full_o          <= 1'b0;
    end else begin
      write_valid_o <= probe_valid_i && probe_i.turn.kind inside {TurnDecide, TurnReserve, TurnRelease};
      decided_valid_o <= decide;
      scan_done_o <= probe_valid_i && probe_i.turn.kind == TurnScan;
      full_o <= decide && full;
    end
  end

  // Reads.

  logic  [41:0] word;
  slot_t        slot;
  logic         admitted;
  logic         offered_q;

  assign slot = '{bucket: probe_i.turn.bucket, way: way};
  assign written_way_o = way;

  // A slot has 17 beats, so its word index is the slot's index times 17.
  assign word = 42'({slot, 4'b0}) + 42'(slot);
  assign admitted = probe_valid_i && (lookup || search) && !none && chosen && !compare_q;
  // An offer stays valid until accepted. Room is reported a cycle late and may seem to shrink, so it is checked only
  // before the offer.
  assign burst_valid = admitted
                    && (offered_q || (record_ready_i && (second_q || (!written_hit_i && (room_i || !reads_value)))));

  axi_bursts i_bursts (
    .clk_i,
    .rst_ni,
    .command_valid_i(burst_valid),
    .command_ready_o(),
    .command_word_i (word),
    .command_beats_i(reads_value ? 7'(probe_i.beats) : 7'd0),
    .burst_valid_o  (ar_valid_o),
    .burst_ready_i  (ar_ready_i),
    .burst_o        (ar_o),
    .burst_last_o   (burst_last)
  );

  logic asked;
  assign asked = burst_valid && ar_ready_i;
  assign room_take_o = asked && !second_q && reads_value;
  assign room_take_beats_o = probe_i.beats;

  // A search ends with a record of its own, because its result may be known without a read.
  assign close = probe_valid_i && (lookup || search) && none && !finished_q && record_ready_i;
  assign record_valid_o = asked || close;
  assign record_o = '{
          apply: search,
          burst: !none,
          header: !second_q,
          last: none || (lookup && burst_last && others == '0),
          resolved: resolved_q,
          way: way
      };

  logic compare;
  assign compare = admitted && search && written_hit_i && !probe_i.turn.newer_only;
  assign drop = (asked && burst_last) || (compare_q && !same_i);

  // The turn ends one cycle after the last address, so that later turns do not depend combinationally on the memory's
  // ready.
  assign probe_ready_o = !(lookup || search) || (none && (finished_q || record_ready_i));

  always_comb begin
    left_o = left;
    if (drop) left_o = others;
    else if (compare_q) left_o = '0;
    way_o = !chosen && !none ? first_way(left) : way;
  end

  always_ff @(posedge clk_i) begin
    if (compare) same_index_o <= written_index_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      chosen_q   <= 1'b0;
      second_q   <= 1'b0;
      compare_q  <= 1'b0;
      resolved_q <= 1'b0;
      finished_q <= 1'b0;
      issued_o   <= '0;
    end else if (probe_valid_i) begin
      chosen_q   <= !drop && !probe_ready_o && (chosen_q || (!chosen && !none));
      second_q   <= asked ? !burst_last : second_q;
      compare_q  <= compare;
      resolved_q <= !probe_ready_o && (resolved_q || (compare_q && same_i));
      finished_q <= !probe_ready_o && (finished_q || (asked && record_o.last));
      if (lookup && probe_ready_o) issued_o <= issued_o + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) offered_q <= 1'b0;
    else offered_q <= ar_valid_o && !ar_ready_i;
  end

  // Assertions.

  axi_address_t offer_q;
  always_ff @(posedge clk_i) begin
    offer_q <= ar_o;
    if (rst_ni) begin
      assert (!offered_q || (ar_valid_o && ar_o == offer_q))
      else $error("an address changed before it was taken");
    end
  end

endmodule
