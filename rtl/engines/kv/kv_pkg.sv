// Sizes and types of the key-value engine: the twin of crates/engines/kv, whose documentation describes the protocol.
package kv_pkg;

  import weft_pkg::*;
  import engines_pkg::*;

  // Sizes. All nodes of a cluster use the same; `Parameters` of the Rust twin must be set to them.
  localparam int unsigned KeyBytes = 8;  // 8, 16, ... 40: header and key of a slot are one beat
  localparam int unsigned ValueBytesMax = 1024;
  localparam int unsigned Streams = 8;  // nodes of a cluster
  localparam int unsigned WindowEntries = 256;
  localparam int unsigned WaitingReads = 256;
  localparam int unsigned BucketsMax = 16_384;
  localparam int unsigned Ways = 32;
  localparam int unsigned SessionsMax = 256;  // that a leader admits
  localparam int unsigned SessionRoom = 2048;  // SessionsMax + (Streams - 1) * WindowEntries
  localparam int unsigned SessionPlaces = 16;
  localparam int unsigned Burst = 64;  // writes that are sent again at once
  localparam int unsigned ChunkBytes = 1280;  // payload of a StateChunk
  localparam int unsigned ChunksMax = 16;  // that answer one StateRequest
  localparam int unsigned ScanMax = 1024;  // buckets or session places that are looked at for one StateRequest
  localparam cycles_t Retransmit = 500_000;  // 2 ms
  localparam cycles_t RetransmitMax = 16_000_000;  // 64 ms
  localparam cycles_t SessionIdle = 48'd15_000_000_000;  // 60 s

  localparam int unsigned KeyBits = 8 * KeyBytes;
  localparam int unsigned ValueBeatsMax = ValueBytesMax / BeatBytes;  // 16
  localparam int unsigned Partitions = 256;
  // A slot in memory: a beat of header and key, then the value from the next beat on.
  localparam int unsigned SlotBytes = BeatBytes + ValueBytesMax;

  typedef logic [KeyBits-1:0] key_t;  // the first byte on top
  typedef logic [$clog2(Streams)-1:0] stream_t;
  typedef logic [39:0] number_t;  // of a write in its stream, from 1
  typedef logic [63:0] version_t;  // epoch, then number in 40 bits
  typedef logic [$clog2(WindowEntries)-1:0] window_place_t;  // (number - 1) modulo WindowEntries
  typedef logic [$clog2(BucketsMax)-1:0] bucket_t;
  typedef logic [$clog2(Ways)-1:0] way_t;
  typedef logic [10:0] tag_t;  // never 0
  typedef logic [10:0] value_bytes_t;  // 0 to ValueBytesMax
  typedef logic [4:0] value_beats_t;
  typedef logic [7:0] partition_t;
  typedef number_t [Streams-1:0] lengths_t;

  // Where a key belongs, all from its hash: bucket = low bits (masked by the table's size), way = bits 32 to 36,
  // tag = bits 53 to 63, 1 if they are zero. The partition is the low 8 bits of the bucket.
  typedef struct packed {
    bucket_t bucket;
    way_t    way;
    tag_t    tag;
  } place_t;

  // Content of a way of a bucket, on chip. All zero: free.
  typedef struct packed {
    value_beats_t beats;  // of the committed value
    tag_t         tag;
  } tag_entry_t;

  typedef enum logic [7:0] {
    KindRequest = 8'd1,
    KindReply = 8'd2,
    KindWrite = 8'd3,
    KindAcknowledge = 8'd4,
    KindCommit = 8'd5,
    KindSealed = 8'd6,
    KindStateRequest = 8'd7,
    KindStateChunk = 8'd8
  } kind_e;

  typedef enum logic [2:0] {
    Get = 3'd1,
    Put = 3'd2,
    Delete = 3'd3,
    CompareAndSet = 3'd4
  } operation_kind_e;

  typedef enum logic [3:0] {
    StatusOk = 4'd0,
    StatusNotFound = 4'd1,
    StatusMismatch = 4'd2,
    StatusTableFull = 4'd3,
    StatusBusy = 4'd4,
    StatusNotLeader = 4'd5,
    StatusNotServing = 4'd6,
    StatusSessionsFull = 4'd7,
    StatusBadRequest = 4'd8
  } reply_status_e;

  typedef enum logic [2:0] {
    RoleOutside,
    RoleJoining,
    RoleSealed,
    RoleFull,
    RoleLost
  } role_e;

  // Client and request, for the reply.
  typedef struct packed {
    caller_t     caller;
    logic [63:0] client;
    logic [63:0] request;
  } asker_t;

  // Operations that the intake makes of events.
  typedef enum logic [3:0] {
    OpReset,
    OpConfigure,
    OpRequest,
    OpBadRequest,    // to be refused; `asker` says to whom, if `identified`
    OpWrite,
    OpAcknowledge,
    OpCommit,
    OpSealed,        // the payload follows as beats
    OpStateRequest,
    OpStateChunk,    // the payload follows as beats
    OpTimer,
    OpMalformed,     // to be counted
    OpNothing        // ends a batch, maybe
  } op_kind_e;

  typedef struct packed {
    op_kind_e        kind;
    logic            last;
    node_t from;
    logic            identified;   // OpBadRequest
    asker_t          asker;        // OpRequest, OpBadRequest; of OpWrite client and request
    operation_kind_e operation;
    reply_status_e   status;       // OpWrite
    epoch_t          epoch;
    number_t         number;       // OpWrite; what does not fit in 40 bits makes the message malformed
    number_t         accepted;     // OpAcknowledge
    number_t         committed;    // OpWrite, OpAcknowledge, OpCommit
    logic            gap;          // OpAcknowledge
    logic            asks;         // OpAcknowledge
    version_t        version;      // OpWrite; of OpRequest the expected one
    key_t            key;
    place_t          place;
    value_bytes_t    value_bytes;  // OpRequest, OpWrite: the value follows as beats
    logic [31:0]     attempt;      // OpStateRequest
    logic            sessions;     // OpStateRequest
    logic [31:0]     position;     // OpStateRequest
    logic [4:0]      timer;        // OpTimer: the tag
  } op_t;

  // An accepted write in the window.
  typedef struct packed {
    operation_kind_e operation;
    reply_status_e   status;
    logic            led;          // by this node: `asker.caller` is to be answered
    asker_t          asker;
    version_t        version;
    key_t            key;
    place_t          place;
    value_bytes_t    value_bytes;
    logic            reserved;     // a way of its bucket is reserved for it
  } entry_t;

  // Messages that go out: `header` (a whole number of 64-bit words, first byte in the lowest lane), then a value.
  typedef enum logic [1:0] {
    ValueNone,
    ValueWindow,   // of an entry of a window
    ValueAttached  // as beats of a stream beside the message
  } value_source_e;

  typedef struct packed {
    logic          reply;
    node_set_t     to;
    caller_t       caller;
    kind_e         message;
    logic [511:0]  header;
    logic [6:0]    header_bytes;  // 0 to 64
    value_source_e source;
    logic [15:0]   value_bytes;
    stream_t       stream;        // ValueWindow
    window_place_t place;         // ValueWindow
  } outgoing_t;

  // Lookups in the table.
  typedef enum logic [1:0] {
    LookupRead,  // the value of a key
    LookupFind,  // its version only
    LookupPass,  // nothing: keeps its turn among the others
    LookupFetch  // the slot at (bucket, way) of `place`
  } lookup_kind_e;

  typedef struct packed {
    lookup_kind_e kind;
    key_t         key;
    place_t       place;
    asker_t       asker;
  } lookup_t;

  typedef struct packed {
    lookup_kind_e kind;
    logic         found;
    key_t         key;          // of the slot, for LookupFetch; else as asked
    place_t       place;        // as asked
    version_t     version;
    value_bytes_t value_bytes;
    asker_t       asker;
  } looked_up_t;

  // Operations on the table.
  typedef struct packed {
    logic         deletes;
    logic         newer_only;   // only if the slot is absent or has a lower version
    key_t         key;
    place_t       place;
    version_t     version;
    value_bytes_t value_bytes;  // the value follows as beats
    logic         reserved;     // gives the bucket's reservation back
    logic         counts;       // an entry of `stream`, to be reported as retired
    stream_t      stream;
  } apply_t;

  // Sessions.
  typedef enum logic [2:0] {
    SessionBegin,   // look up; if never seen and `room`, admit the client and mark the request pending
    SessionRecord,  // the request was applied and ended so
    SessionCancel,  // the request is no longer in this node's window
    SessionExport,  // the session at place `index`, as words
    SessionClear    // forget all
  } session_command_e;

  typedef struct packed {
    session_command_e command;
    logic             room;     // SessionBegin
    logic [63:0]      client;
    logic [63:0]      request;
    reply_status_e    status;   // SessionRecord
    version_t         version;  // SessionRecord
    logic [31:0]      index;    // SessionExport
  } session_request_t;

  typedef enum logic [2:0] {
    SeenAdmitted,   // never seen, and now pending
    SeenNoRoom,     // never seen, and there was no `room`
    SeenRefused,    // never seen, and the node remembers as many clients as it can
    SeenRecorded,
    SeenIgnored,    // pending or superseded
    SessionUsed,    // SessionExport: the words follow
    SessionUnused,  // SessionExport: nothing there
    SessionEnd      // SessionExport: behind the last place
  } session_verdict_e;

  typedef struct packed {
    session_verdict_e verdict;
    reply_status_e    status;
    version_t         version;
  } session_answer_t;

  // Planted bugs, for tests of the checkers only; the twins of `PlantedBug` in crates/engines/kv.
  typedef enum logic [2:0] {
    BugNone,
    BugAcknowledgeBeforeReplicating,
    BugStaleReadAtFollower,
    BugLostUpdateOnFailover,
    BugDuplicateApply,
    BugEpochNotChecked
  } planted_bug_e;

  // Commands of kv_streams to kv_control, one at a time.
  typedef enum logic [3:0] {
    ViewForget,     // no view change has taken place
    ViewBegin,      // with the node's own word
    ViewHear,       // what `from` says; its payload follows. Counts only with `take`
    ViewTell,       // the node's own word, to all of `to`
    ViewDecide,     // where do the streams end?
    CutRemember,    // the last decision was carried out
    CutForget,      // all of them
    TransferBegin,  // everything has to come
    TransferStop,   // nothing has to come; with `take`, attempts are counted anew
    TransferAsk,    // asks again, with a new attempt
    TransferTake,   // a chunk of `from`; its payload follows. Counts only with `take`
    TransferGive    // answers `from`
  } control_command_e;

  typedef struct packed {
    control_command_e command;
    logic             take;
    node_t from;
    node_set_t        to;
    logic [31:0]      attempt;   // TransferGive
    logic             sessions;  // TransferGive
    logic [31:0]      position;  // TransferGive
  } control_command_t;

  typedef enum logic [1:0] {
    ControlDone,
    ControlMalformed,  // ViewHear, TransferTake: the header; nothing was taken
    ControlUndecided,  // ViewDecide
    ControlLost        // ViewDecide
  } control_verdict_e;

  typedef struct packed {
    control_verdict_e verdict;
    node_set_t        heard;    // ViewHear: whom the sender has heard
    logic             asked;    // a StateRequest was sent
    logic             moved;    // TransferTake: the chunk was installed
  } control_answer_t;

  // Events of kv_control.
  typedef struct packed {
    logic chunks_sent;
    logic chunks_installed;
    logic chunks_stale;
    logic dropped_malformed;      // a chunk's records; what ControlMalformed says, kv_streams counts
    logic dropped_wrong_role;     // a chunk of a node that is no full member
    logic dropped_contradiction;  // a chunk of what this node has not accepted
  } kv_control_events_t;

  // Events of kv, named as the counters of crates/engines/kv/src/counters.rs; how many in this cycle where more than
  // one is possible. The last ones are of the gates alone.
  typedef struct packed {
    logic [1:0] reads;
    logic       reads_waited;
    logic       writes_led;
    logic       writes_followed;
    logic       entries_applied;
    logic       entries_cut;
    logic       duplicates_answered;
    logic       duplicates_ignored;
    logic       writes_repeated;
    logic       gaps;
    logic       writes_resent;
    logic       view_changes;
    logic       chunks_sent;
    logic       chunks_installed;
    logic       chunks_stale;
    logic       refused_bad_request;
    logic       refused_busy;
    logic       refused_not_leader;
    logic       refused_not_serving;
    logic       refused_sessions_full;
    logic       table_full;
    logic [1:0] dropped_malformed;
    logic       dropped_old_epoch;
    logic       dropped_future_epoch;
    logic [1:0] dropped_wrong_role;
    logic [1:0] dropped_contradiction;
    logic       configurations_ignored;
    logic       sessions_evicted_early;
    logic       reads_from_window;       // of `reads`
    logic       reads_in_one_access;     // of the memory
    logic       applies_without_room;    // must not happen
  } kv_events_t;

  // Entry for a node's journal in memory, which an acknowledgement promises: its value follows as beats.
  typedef struct packed {
    stream_t             stream;
    window_place_t       place;
    value_bytes_t        value_bytes;
    logic [BeatBits-1:0] header;
  } journal_t;

  // Events of kv_table.
  typedef struct packed {
    logic lookups;                    // for a value
    logic lookup_accesses;            // of memory, for a value
    logic lookup_hits;
    logic lookup_hits_in_one_access;  // of memory
    logic apply_full;                 // a committed put found no way; must not happen
    logic memory_fault;               // an error response of AXI4
  } kv_table_events_t;

  // The mix of crates/engines/kv/src/placement.rs, `kv_mix_half` twice: rounds 0 and 1, then 2 and 3. Where `second`
  // is a constant, half a mix is four LUTs a bit and four levels.
  function automatic logic [63:0] kv_rotate(logic [63:0] word, int unsigned by);
    return word << by | word >> (64 - by);
  endfunction

  function automatic logic [63:0] kv_mix_half(logic [63:0] word, logic second);
    logic [63:0] x = word;
    x ^= second ? 64'ha409_3822_299f_31d0 : 64'h243f_6a88_85a3_08d3;
    x ^= (second ? kv_rotate(x, 22) : kv_rotate(x, 2)) ^ (second ? kv_rotate(x, 20) : kv_rotate(x, 24));
    x ^= (second ? kv_rotate(x, 53) : kv_rotate(x, 27)) & ~(second ? kv_rotate(x, 39) : kv_rotate(x, 11));
    x ^= second ? 64'h082e_fa98_ec4e_6c89 : 64'h1319_8a2e_0370_7344;
    x ^= (second ? kv_rotate(x, 38) : kv_rotate(x, 60)) ^ (second ? kv_rotate(x, 1) : kv_rotate(x, 10));
    x ^= (second ? kv_rotate(x, 39) : kv_rotate(x, 17)) & ~(second ? kv_rotate(x, 44) : kv_rotate(x, 5));
    return x;
  endfunction

  function automatic logic [63:0] kv_mix(logic [63:0] word);
    return kv_mix_half(kv_mix_half(word, 1'b0), 1'b1);
  endfunction

  // A length modulo twice the window: distances within a window are exact.
  typedef logic [$clog2(WindowEntries):0] window_count_t;

  // Events of kv_lookup_reply.
  typedef struct packed {logic reads;} kv_lookup_reply_events_t;

  // Events of kv_committer.
  typedef struct packed {
    logic entries_applied;
    logic reads;
    logic reads_waited;
  } kv_committer_events_t;

endpackage
