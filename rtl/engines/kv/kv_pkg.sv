// Sizes and types of the key-value engine. Twin of crates/engines/kv, whose documentation describes the protocol.
package kv_pkg;

  import weft_pkg::*;
  import engines_pkg::*;

  // Sizes. They must be equal at all nodes of a cluster, and equal to `Parameters` of the Rust twin.
  localparam int unsigned KeyBytes = 8;  // a multiple of 8, at most 40: header and key of a slot are one beat
  localparam int unsigned ValueBytesMax = 1024;
  localparam int unsigned Streams = 8;  // nodes of a cluster
  localparam int unsigned WindowEntries = 256;
  localparam int unsigned WaitingReads = 256;
  localparam int unsigned BucketsMax = 16_384;
  localparam int unsigned Ways = 32;
  localparam int unsigned SessionsMax = 256;  // clients that a leader admits
  localparam int unsigned SessionRoom = 2048;  // SessionsMax + (Streams - 1) * WindowEntries
  localparam int unsigned SessionPlaces = 16;
  localparam int unsigned Burst = 64;  // writes in one burst of retransmissions
  localparam int unsigned ChunkBytes = 1280;  // payload of a StateChunk
  localparam int unsigned ChunksMax = 16;  // maximum number of chunks in answer to one StateRequest
  localparam int unsigned ScanMax = 1024;  // buckets or session places examined for one StateRequest
  localparam cycles_t Retransmit = 500_000;  // 2 ms
  localparam cycles_t RetransmitMax = 16_000_000;  // 64 ms
  localparam cycles_t SessionIdle = 48'd15_000_000_000;  // 60 s

  localparam int unsigned KeyBits = 8 * KeyBytes;
  localparam int unsigned ValueBeatsMax = ValueBytesMax / BeatBytes;  // 16
  localparam int unsigned Partitions = 256;
  // A slot in memory: a beat of header and key, then the value from the next beat on.
  localparam int unsigned SlotBytes = BeatBytes + ValueBytesMax;

  typedef logic [KeyBits-1:0] key_t;  // first byte in the top bits
  typedef logic [$clog2(Streams)-1:0] stream_t;
  typedef logic [39:0] number_t;  // number of a write in its stream, from 1
  typedef logic [63:0] version_t;  // epoch, then the number in 40 bits
  typedef logic [$clog2(WindowEntries)-1:0] window_place_t;  // (number - 1) modulo WindowEntries
  typedef logic [$clog2(BucketsMax)-1:0] bucket_t;
  typedef logic [$clog2(Ways)-1:0] way_t;
  typedef logic [10:0] tag_t;  // never 0
  typedef logic [10:0] value_bytes_t;  // 0 to ValueBytesMax
  typedef logic [4:0] value_beats_t;
  typedef logic [7:0] partition_t;
  typedef number_t [Streams-1:0] lengths_t;

  // The position of a key, from its hash: bucket = low bits (masked by the table's size), way = bits 32 to 36, tag =
  // bits 53 to 63, or 1 if those are zero. The partition is the low 8 bits of the bucket.
  typedef struct packed {
    bucket_t bucket;
    way_t    way;
    tag_t    tag;
  } place_t;

  // On-chip entry of one way of a bucket. All zero: the way is free.
  typedef struct packed {
    value_beats_t beats;  // length of the committed value in beats
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

  // Client and request to which a reply belongs.
  typedef struct packed {
    caller_t     caller;
    logic [63:0] client;
    logic [63:0] request;
  } asker_t;

  // Operations, to which the intake converts events.
  typedef enum logic [3:0] {
    OpReset,
    OpConfigure,
    OpRequest,
    OpBadRequest,    // an invalid request; the reply goes to `asker` if it is `identified`
    OpWrite,
    OpAcknowledge,
    OpCommit,
    OpSealed,        // the payload follows as beats
    OpStateRequest,
    OpStateChunk,    // the payload follows as beats
    OpTimer,
    OpMalformed,     // a malformed message, which is only counted
    OpNothing        // an event without an operation; it may end a batch
  } op_kind_e;

  // An operation. The comment of a field names the kinds of operations that use it.
  typedef struct packed {
    op_kind_e        kind;
    logic            last;
    node_t from;
    logic            identified;   // OpBadRequest
    asker_t          asker;        // OpRequest, OpBadRequest; for OpWrite client and request
    operation_kind_e operation;
    reply_status_e   status;       // OpWrite
    epoch_t          epoch;
    number_t         number;       // OpWrite; a number of more than 40 bits makes the message malformed
    number_t         accepted;     // OpAcknowledge
    number_t         committed;    // OpWrite, OpAcknowledge, OpCommit
    logic            gap;          // OpAcknowledge
    logic            asks;         // OpAcknowledge
    version_t        version;      // OpWrite: its version; OpRequest: the expected version
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
    logic            led;          // this node leads it, so `asker.caller` is to be answered
    asker_t          asker;
    version_t        version;
    key_t            key;
    place_t          place;
    value_bytes_t    value_bytes;
    logic            reserved;     // a way of the entry's bucket is reserved for it
  } entry_t;

  // Outgoing messages: `header` (a whole number of 64-bit words, first byte in the lowest lane), then a value.
  typedef enum logic [1:0] {
    ValueNone,
    ValueWindow,   // the value of an entry in a window
    ValueAttached  // sent as beats beside the message
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
    LookupRead,  // reads the value of a key
    LookupFind,  // reads its version only
    LookupPass,  // reads nothing: keeps its position in the order of results
    LookupFetch  // reads the slot at (bucket, way) of `place`
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
    key_t         key;          // LookupFetch: the key of the slot; otherwise the requested key
    place_t       place;        // as requested
    version_t     version;
    value_bytes_t value_bytes;
    asker_t       asker;
  } looked_up_t;

  // Changes of the table.
  typedef struct packed {
    logic         deletes;
    logic         newer_only;   // only if the slot is absent or has a lower version
    key_t         key;
    place_t       place;
    version_t     version;
    value_bytes_t value_bytes;  // the value follows as beats
    logic         reserved;     // releases the bucket's reservation
    logic         counts;       // it is an entry of `stream`, to be reported as retired
    stream_t      stream;
  } apply_t;

  // Sessions.
  typedef enum logic [2:0] {
    SessionBegin,   // looks up the request; admits a new client if `room`, and marks the request pending
    SessionRecord,  // the request was applied, with this result
    SessionCancel,  // the request is no longer in this node's window
    SessionExport,  // outputs the session at place `index` as words
    SessionClear    // clears all sessions
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
    SeenAdmitted,   // a new request, now marked pending
    SeenNoRoom,     // a new client, and there was no `room`
    SeenRefused,    // a new client, and the node has reached its limit of sessions
    SeenRecorded,
    SeenIgnored,    // pending or superseded
    SessionUsed,    // SessionExport: the words follow
    SessionUnused,  // SessionExport: the slot is unused
    SessionEnd      // SessionExport: `index` is past the last slot
  } session_verdict_e;

  typedef struct packed {
    session_verdict_e verdict;
    reply_status_e    status;
    version_t         version;
  } session_answer_t;

  // Planted bugs, for tests of the checkers only. Twins of `PlantedBug` in crates/engines/kv.
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
    ViewForget,     // resets the state of view changes
    ViewBegin,      // starts a view change; stores the node's own report
    ViewHear,       // the report of `from`, as payload. Only evaluated with `take`
    ViewTell,       // sends the node's own report to all of `to`
    ViewDecide,     // determines where the streams end
    CutRemember,    // the last decision was executed: remembers it
    CutForget,      // drops all remembered cuts
    TransferBegin,  // starts a transfer of the whole state
    TransferStop,   // ends the transfer; with `take`, attempts are numbered from the start
    TransferAsk,    // repeats the request under a new attempt number
    TransferTake,   // a chunk of `from`, as payload. Only evaluated with `take`
    TransferGive    // answers the StateRequest of `from`
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
    ControlMalformed,  // ViewHear, TransferTake: malformed header; nothing was changed
    ControlUndecided,  // ViewDecide: the cut cannot be decided yet
    ControlLost        // ViewDecide: the node is lost
  } control_verdict_e;

  typedef struct packed {
    control_verdict_e verdict;
    node_set_t        heard;    // ViewHear: the nodes from which the sender has a report
    logic             asked;    // a StateRequest was sent
    logic             moved;    // TransferTake: the chunk was installed
  } control_answer_t;

  // Events of kv_control.
  typedef struct packed {
    logic chunks_sent;
    logic chunks_installed;
    logic chunks_stale;
    // malformed records of a chunk; kv_streams counts the malformed headers (ControlMalformed)
    logic dropped_malformed;
    logic dropped_wrong_role;     // a chunk of a node that is not a full member
    logic dropped_contradiction;  // a chunk of entries that this node has not accepted
  } kv_control_events_t;

  // Events of kv, named as the counters of crates/engines/kv/src/counters.rs; fields of several bits are counts. The
  // last three exist in the gateware only.
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
    logic       reads_from_window;       // those of `reads` that the window answered
    logic       reads_in_one_access;     // reads with a single access to memory
    logic       applies_without_room;    // must not happen
  } kv_events_t;

  // A record for the node's journal in memory. It must be written before the entry is acknowledged. Its value follows
  // as beats.
  typedef struct packed {
    stream_t             stream;
    window_place_t       place;
    value_bytes_t        value_bytes;
    logic [BeatBits-1:0] header;
  } journal_t;

  // Events of kv_table.
  typedef struct packed {
    logic lookups;                    // lookups of a value
    logic lookup_accesses;            // memory accesses for these lookups
    logic lookup_hits;
    logic lookup_hits_in_one_access;  // hits with a single access to memory
    logic apply_full;                 // a committed put found no free way; must not happen
    logic memory_fault;               // an error response of AXI4
  } kv_table_events_t;

  // The mix function of crates/engines/kv/src/placement.rs is `kv_mix_half` applied twice: rounds 0 and 1, then 2 and
  // 3. With a constant `second`, half a mix takes four LUTs for each bit and four logic levels.
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

  // A length modulo twice the window, which suffices for exact differences within a window.
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
