// Types between the parts of kv_table.
package kv_table_pkg;

  import weft_pkg::*;
  import kv_pkg::*;

  // Applies between their beginning and their retirement.
  localparam int unsigned AppliesMax = 16;
  // Lookups between their beginning and the taking of their result.
  localparam int unsigned LookupsMax = 128;
  // Beats of values that have been asked for or wait to be taken.
  localparam int unsigned ValueRoom = 512;

  typedef logic [$clog2(AppliesMax)-1:0] apply_index_t;
  // One bit more than an index tells a full ring from an empty one.
  typedef logic [$clog2(AppliesMax):0] apply_pointer_t;
  // Lookups counted, modulo four times as many as there can be, so that the sign of a difference tells which is
  // earlier.
  typedef logic [$clog2(LookupsMax)+1:0] lookup_count_t;
  typedef logic [Ways-1:0] ways_t;
  // Ways of a bucket that are claimed or reserved.
  typedef logic [$clog2(Ways)+1:0] used_t;

  // A slot in memory: its bucket, its way.
  typedef struct packed {
    bucket_t bucket;
    way_t    way;
  } slot_t;

  // Whatever needs a bucket's tags takes its turn at them.
  typedef enum logic [2:0] {
    TurnLookup,
    TurnApply,    // looks for the slot of an apply
    TurnDecide,   // claims, frees or keeps it
    TurnReserve,
    TurnRelease,
    TurnScan
  } turn_kind_e;

  typedef struct packed {
    turn_kind_e   kind;
    lookup_kind_e lookup;      // TurnLookup
    bucket_t      bucket;
    way_t         way;         // to begin with; of LookupFetch the one that is asked for
    tag_t         tag;
    logic         newer_only;  // TurnApply
    logic         found;       // TurnDecide: the key has the slot `found_way`
    way_t         found_way;
    logic         stale;       // TurnDecide: and what it holds is not older
  } turn_t;

  // A turn with what its bucket holds.
  typedef struct packed {
    turn_t        turn;
    ways_t        matching;  // TurnLookup, TurnApply: ways that are still to be read
    ways_t        claimed;
    way_t         way;       // of them the one that is next, if there is only one or it was chosen
    value_beats_t beats;     // of the value there; of several that match at least those of the longest
    used_t        used;
  } probe_t;

  // Change by a turn.
  typedef struct packed {
    bucket_t    bucket;
    logic       some;    // a way changes, too
    way_t       way;
    tag_entry_t entry;
    used_t      used;
  } tags_write_t;

  // Data returning from memory, or none, in the order of turns.
  typedef struct packed {
    logic apply;
    logic burst;     // a burst of read data
    logic header;    // which begins with the header of a slot
    logic last;      // nothing more of this turn
    logic resolved;  // the key has the slot `way`, as is known without a look
    way_t way;
  } record_t;

  // Keys to compare returning data with, in the order of turns.
  typedef struct packed {
    logic         apply;
    lookup_kind_e lookup;
    key_t         key;
  } opened_t;

  // Result of an apply's turn.
  typedef struct packed {
    logic found;
    way_t way;
    logic stale;
  } probed_t;

  // A decision about an apply.
  typedef struct packed {
    logic writes;  // the slot at `way`
    way_t way;
  } decided_t;

  // A slot that is to be written.
  typedef struct packed {
    slot_t        slot;
    key_t         key;
    version_t     version;
    value_bytes_t value_bytes;
  } slot_write_t;

  // The first way of a set, 0 of an empty one: by groups of four, so that it is shallow.
  function automatic way_t first_way(ways_t ways);
    logic [Ways/4-1:0] groups;
    logic [$clog2(Ways/4)-1:0] group = '0;
    logic [3:0] four;
    logic [1:0] one;
    for (int unsigned i = 0; i < Ways / 4; i++) groups[i] = |ways[4*i+:4];
    for (int unsigned i = Ways / 4; i > 0; i--) begin
      if (groups[i-1]) group = ($clog2(Ways / 4))'(i - 1);
    end
    four = ways[{group, 2'b00}+:4];
    one  = four[0] ? 2'd0 : four[1] ? 2'd1 : four[2] ? 2'd2 : 2'd3;
    return {group, one};
  endfunction

  // The first byte on top becomes the lowest byte.
  function automatic logic [BeatBits-1:0] swap_bytes(logic [BeatBits-1:0] beat);
    logic [BeatBits-1:0] swapped;
    for (int unsigned i = 0; i < BeatBytes; i++) swapped[8*i+:8] = beat[BeatBits-8*i-1-:8];
    return swapped;
  endfunction

endpackage
