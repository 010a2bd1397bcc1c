// Types between the parts of kv_table.
package kv_table_pkg;

  import weft_pkg::*;
  import kv_pkg::*;

  // Maximum number of applies between their acceptance and their retirement.
  localparam int unsigned AppliesMax = 16;
  // Maximum number of lookups between their acceptance and the acceptance of their result.
  localparam int unsigned LookupsMax = 128;
  // Room for beats of values that were requested from memory or wait to be accepted.
  localparam int unsigned ValueRoom = 512;

  typedef logic [$clog2(AppliesMax)-1:0] apply_index_t;
  // One bit more than an index, to distinguish a full ring from an empty one.
  typedef logic [$clog2(AppliesMax):0] apply_pointer_t;
  // A count of lookups, modulo four times the maximum, so that the sign of a difference shows which one is earlier.
  typedef logic [$clog2(LookupsMax)+1:0] lookup_count_t;
  typedef logic [Ways-1:0] ways_t;
  // Number of ways of a bucket that are claimed or reserved.
  typedef logic [$clog2(Ways)+1:0] used_t;

  // A slot in memory: its bucket and way.
  typedef struct packed {
    bucket_t bucket;
    way_t    way;
  } slot_t;

  // Operations on a bucket's tags; each takes its turn.
  typedef enum logic [2:0] {
    TurnLookup,
    TurnApply,    // searches the slot of an apply
    TurnDecide,   // decides an apply: claims, frees or keeps its slot
    TurnReserve,
    TurnRelease,
    TurnScan
  } turn_kind_e;

  typedef struct packed {
    turn_kind_e   kind;
    lookup_kind_e lookup;      // TurnLookup
    bucket_t      bucket;
    way_t         way;         // the first way to examine; for LookupFetch the requested one
    tag_t         tag;
    logic         newer_only;  // TurnApply
    logic         found;       // TurnDecide: the key has the slot at `found_way`
    way_t         found_way;
    logic         stale;       // TurnDecide: the slot's version is not older than the apply's
  } turn_t;

  // A turn, and the contents of its bucket.
  typedef struct packed {
    turn_t        turn;
    ways_t        matching;  // TurnLookup, TurnApply: ways that remain to be read
    ways_t        claimed;
    way_t         way;       // the next one of them; valid if there is only one, or once it was selected
    value_beats_t beats;     // length of its value; if several ways match, at least that of the longest
    used_t        used;
  } probe_t;

  // Update of a row by a turn.
  typedef struct packed {
    bucket_t    bucket;
    logic       some;    // a way changes, in addition to the count
    way_t       way;
    tag_entry_t entry;
    used_t      used;
  } tags_write_t;

  // The data that a turn expects from memory, if any. Records are in the order of turns.
  typedef struct packed {
    logic apply;
    logic burst;     // a burst of read data is to come
    logic header;    // the burst begins with the header of a slot
    logic last;      // last record of this turn
    logic resolved;  // the key is known to have the slot at `way`, without reading
    way_t way;
  } record_t;

  // Keys to compare with the returning data, in the order of turns.
  typedef struct packed {
    logic         apply;
    lookup_kind_e lookup;
    key_t         key;
  } opened_t;

  // Result of an apply's search.
  typedef struct packed {
    logic found;
    way_t way;
    logic stale;
  } probed_t;

  // The decision about an apply.
  typedef struct packed {
    logic writes;  // writes the slot at `way`
    way_t way;
  } decided_t;

  // A slot to write.
  typedef struct packed {
    slot_t        slot;
    key_t         key;
    version_t     version;
    value_bytes_t value_bytes;
  } slot_write_t;

  // The first way of a set, or 0 for an empty set. Computed in groups of four, to have few logic levels.
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

  // Reverses the bytes of a beat.
  function automatic logic [BeatBits-1:0] swap_bytes(logic [BeatBits-1:0] beat);
    logic [BeatBits-1:0] swapped;
    for (int unsigned i = 0; i < BeatBytes; i++) swapped[8*i+:8] = beat[BeatBits-8*i-1-:8];
    return swapped;
  endfunction

endpackage
