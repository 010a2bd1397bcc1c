// Sizes and types of the rounds engine. Twin of crates/engines/rounds, whose documentation describes the protocol.
//
// A set has one bit for each node. Bytes of messages are in a beat in wire order, byte 0 in the lowest lane; their
// integers are big-endian. The layouts are those of crates/engines/rounds/src/message.rs.
package rounds_pkg;

  import weft_pkg::*;
  import engines_pkg::*;

  // Sizes. They must be equal at all nodes of a cluster, and equal to `Parameters` of the Rust twin.
  localparam int unsigned RoundsNodes = 8;
  // K: instances in flight, and the rounds in which an instance must decide
  localparam int unsigned RoundsWindow = 4;
  localparam int unsigned RoundsProposalBytes = 448;
  localparam int unsigned RoundsQueue = 8;  // proposals of this node that wait for their round
  localparam int unsigned RoundsSilenceMax = 254;  // rounds
  // Length of a round in cycles of 4 ns. It must also exceed the shortest path delay.
  localparam int unsigned RoundsPeriodMin = 8;
  localparam int unsigned RoundsPeriodMax = 250_000_000;
  localparam int unsigned RoundsPeriodBytes = 8;  // of the call that sets the period
  // Size of the head of a Round, a Value or a Decided. The proposal begins in the next beat.
  localparam int unsigned RoundsHeadBytes = 64;
  localparam int unsigned RoundsChangeBytes = 8;
  // Rounds from the decision of a change of members to its effect.
  localparam int unsigned RoundsChangeDelay = 3 * RoundsWindow;
  // Maximum number of members. With t failures among them an instance needs t + 2 rounds, which must not exceed the
  // window.
  localparam int unsigned RoundsMembersMax = 6;

  typedef logic [2:0] member_t;
  typedef logic [RoundsNodes-1:0] members_t;
  typedef logic [63:0] round_t;
  typedef logic [15:0] rounds_epoch_t;
  typedef logic [9:0] proposal_bytes_t;
  typedef logic [3:0] member_count_t;
  // Age of an instance: rounds since its own round. A running node remembers ages 0 to `2 * RoundsWindow - 1`.
  typedef logic [3:0] age_t;
  // Lag of a message in cycles.
  typedef logic signed [31:0] lag_t;

  // Messages between engines.
  typedef enum logic [7:0] {
    RoundsMessageRound = 8'd1,
    RoundsMessageFetch = 8'd2,
    RoundsMessageValue = 8'd3,
    RoundsMessageStart = 8'd4,
    RoundsMessageJoin  = 8'd5
  } rounds_message_e;

  typedef enum logic [7:0] {
    RoundsCallStart     = 8'd16,
    RoundsCallStatus    = 8'd17,
    RoundsCallPropose   = 8'd18,
    RoundsCallSubscribe = 8'd19,
    RoundsCallLeave     = 8'd20,
    RoundsCallSetPeriod = 8'd21,
    RoundsCallTiming    = 8'd22,
    RoundsAnswer        = 8'd24,  // the answer to each of these calls but the last
    RoundsDecided       = 8'd25,  // a decision, for the subscriber
    RoundsTimings       = 8'd26   // the answer to the last call
  } rounds_call_e;

  // Outcome of a call.
  typedef enum logic [2:0] {
    RoundsOk,
    RoundsDropped,        // the instance decided without this proposal
    RoundsBusy,
    RoundsNotRunning,
    RoundsRefusedFenced,
    RoundsBadRequest,
    RoundsOutOfRange
  } rounds_status_e;

  typedef enum logic [2:0] {
    RoundsIdle,
    RoundsReady,    // a founder that waits for the start
    RoundsJoining,
    RoundsRunning,
    RoundsFenced,
    RoundsLeft
  } rounds_phase_e;

  localparam logic [7:0] RoundsAlgorithmConsensus = 8'd1;
  localparam logic [7:0] RoundsAlgorithmReduce = 8'd3;

  // The first 16 bytes of a Round, from the last byte to the first.
  typedef struct packed {
    members_t      next;       // the members `ahead` rounds later
    logic [7:0]    algorithm;
    logic [15:0]   bytes;      // of the proposal
    logic [5:0]    ahead;      // 0: no change of members is pending
    logic          unused;
    logic          change;     // the proposal is a change of the members
    members_t      members;    // members of the instance that begins in this round
    rounds_epoch_t epoch;
    round_t        round;
  } round_head_t;

  // Start of a proposal that is a change of the members. Its other bytes are zero.
  typedef struct packed {
    members_t remove;
    members_t add;
  } change_t;

  // Record of an instance in a Round, from the last byte to the first.
  typedef struct packed {
    logic [7:0]     spare;
    logic [4:0]     unused;
    logic           valid;      // the sender takes part in the instance
    logic           decided;
    logic           locked;
    members_t       decision;
    members_t       suspected;
    members_t [7:0] rows;       // for each node: the members whose proposals it has; 0: unknown
  } round_record_t;

  localparam int unsigned RecordBits = 96;
  localparam int unsigned AreaBits = RecordBits * RoundsWindow;

  // Sizes of quorums.
  typedef struct packed {
    member_count_t decision;   // number of locked members that decide: a strict majority
    member_count_t tolerated;  // a node that suspects more members than this no longer locks or decides by itself
    member_count_t holders;    // number of members that must hold a decided proposal
  } quorums_t;

  // One instance of the consensus at one node.
  typedef struct packed {
    logic           valid;
    members_t       members;
    quorums_t       quorums;
    members_t [7:0] rows;
    members_t       suspected;
    members_t       accepted;      // members whose records were accepted in this round
    logic           locked;
    members_t       heard_locked;
    logic           decided;
    members_t       decision;
    logic           adopted;       // a decision was adopted in this round
    members_t       adoption;
  } instance_t;

  // Slot of a proposal: another node's by instance and proposer, this node's own by number, a change by instance.
  typedef logic [7:0] proposal_place_t;
  typedef logic [4:0] own_place_t;

  // Input of the store: a beat of a proposal, its length, and in `begins` the proposal's first bytes.
  typedef struct packed {
    proposal_place_t place;
    logic            beat;
    logic [2:0]      index;
    logic [63:0]     begins;
    logic            length;
    proposal_bytes_t bytes;
  } proposal_write_t;

  // Bytes of a number in the all-reduce, and of a note, which an algorithm stores in place of a proposal.
  localparam int unsigned RoundsNumberBytes = 8;
  localparam int unsigned RoundsNoteBytes = 24;
  typedef logic [8*RoundsNoteBytes-1:0] note_t;

  // A member's reduction of the numbers received in a round.
  typedef struct packed {
    members_t    contributors;  // members that gave a number
    members_t    heard;
    logic [63:0] maximum;       // 0 if there is none
    logic [63:0] total;         // their sum modulo 2^64
  } reduction_t;

  // Operations, to which events are converted.
  typedef enum logic [3:0] {
    RoundsOpReset,
    RoundsOpConfigure,
    RoundsOpTimer,
    RoundsOpRound,
    RoundsOpFetch,
    RoundsOpValue,
    RoundsOpStart,
    RoundsOpJoin,
    RoundsOpCall
  } rounds_op_e;

  typedef struct packed {
    rounds_op_e          kind;
    member_t from;
    caller_t             caller;
    logic [7:0]          call;
    logic                fits;       // for a call: its length may be that of a proposal
    logic                empty;      // for a call: it has no bytes
    logic                period;     // for a call: its length is that of a period
    logic                change;
    proposal_bytes_t     bytes;      // of the proposal that follows
    logic                current;    // for a Round: of the current round
    logic                following;  // for a Round: of the next round
    logic                late;       // for a Round: of an earlier round
    logic                first;      // for a Round: of round 0
    logic                invites;    // it names members for the start, no more than allowed
    logic                recent;     // its instance is remembered; `behind` is its age
    age_t                behind;
    round_head_t         head;
    logic [AreaBits-1:0] area;
  } rounds_op_t;

  // A message to be sent: a head, and a proposal if `bytes` is not zero.
  typedef struct packed {
    logic                reply;
    members_t            to;
    caller_t             caller;
    logic [7:0]          message;
    logic [6:0]          head_bytes;
    proposal_bytes_t     bytes;
    proposal_place_t     place;
    logic [127:0]        head;
    logic [AreaBits-1:0] area;
  } rounds_send_t;

  // State of the node, as reported in an answer.
  typedef struct packed {
    rounds_phase_e phase;
    rounds_epoch_t epoch;
    members_t      members;
  } rounds_context_t;

  // Events of rounds, named as the counters of crates/engines/rounds/src/counters.rs; fields of several bits are
  // counts.
  typedef struct packed {
    logic          rounds;
    logic          messages;
    logic          early;
    logic          late;
    logic          far_ahead;
    logic          repeated;
    logic          trimmed;
    member_count_t unheard;
    logic          decided;
    logic          epochs;
    logic          fenced;
    logic          dropped_malformed;
    logic          dropped_not_member;
    logic          dropped_contradiction;
    logic          configurations_ignored;
  } rounds_events_t;

  function automatic member_count_t count_members(members_t set);
    member_count_t count = '0;
    for (int unsigned i = 0; i < RoundsNodes; i++) count += member_count_t'(set[i]);
    return count;
  endfunction

  // The set that contains only `node`.
  function automatic members_t only(member_t node);
    return members_t'(1) << node;
  endfunction

  // The lowest node of a non-empty set.
  function automatic member_t lowest(members_t set);
    member_t found = '0;
    for (int unsigned i = RoundsNodes; i > 0; i--) if (set[i-1]) found = member_t'(i - 1);
    return found;
  endfunction

  // Quorums for the largest number of faults that this number of members tolerates.
  function automatic quorums_t quorums_of(members_t members);
    member_count_t count = count_members(members);
    quorums_t quorums;
    quorums.decision  = (count >> 1) + 1'b1;
    quorums.tolerated = (count - 1'b1) >> 1;
    quorums.holders   = quorums.tolerated + 1'b1;
    return quorums;
  endfunction

  // Reverses the bytes of an integer, between lane order and big-endian.
  function automatic logic [15:0] turn_16(logic [15:0] value);
    return {value[7:0], value[15:8]};
  endfunction

  function automatic logic [31:0] turn_32(logic [31:0] value);
    return {turn_16(value[15:0]), turn_16(value[31:16])};
  endfunction

  function automatic logic [63:0] turn_64(logic [63:0] value);
    logic [63:0] turned;
    for (int unsigned i = 0; i < 8; i++) turned[8*i+:8] = value[8*(7-i)+:8];
    return turned;
  endfunction

  // Heads of messages.

  function automatic logic [127:0] fetch_head(round_t number, members_t wanted);
    return {56'd0, wanted, turn_64(number)};
  endfunction

  function automatic logic [127:0] value_head(round_t number, member_t proposer, logic change, proposal_bytes_t bytes);
    return {32'd0, turn_16(16'(bytes)), 7'd0, change, 5'd0, proposer, turn_64(number)};
  endfunction

  function automatic logic [127:0] answer_head(rounds_status_e status, rounds_context_t about, round_t number);
    return {turn_64(number), 24'd0, about.members, turn_16(about.epoch), 5'd0, about.phase, 5'd0, status};
  endfunction

  // A reduction in the layout of messages.
  function automatic note_t reduction_words(reduction_t reduction);
    return {48'd0, reduction.contributors, reduction.heard, turn_64(reduction.maximum), turn_64(reduction.total)};
  endfunction

  // An answer without a proposal.
  function automatic rounds_send_t answer(caller_t caller, rounds_status_e status, rounds_context_t about,
                                          round_t number);
    rounds_send_t send = '0;
    send.reply = 1'b1;
    send.caller = caller;
    send.message = RoundsAnswer;
    send.head_bytes = 7'd16;
    send.head = answer_head(status, about, number);
    return send;
  endfunction

  // A decided proposal for the subscriber.
  function automatic rounds_send_t decided_value(caller_t subscriber, round_t number, member_t proposer, logic change,
                                                 proposal_bytes_t bytes, proposal_place_t place);
    rounds_send_t send = '0;
    send.reply = 1'b1;
    send.caller = subscriber;
    send.message = RoundsDecided;
    send.head_bytes = 7'(RoundsHeadBytes);
    send.head = value_head(number, proposer, change, bytes);
    send.bytes = bytes;
    send.place = place;
    return send;
  endfunction

  // A message to other nodes without a proposal.
  function automatic rounds_send_t signal(members_t to, rounds_message_e message, logic [6:0] bytes,
                                          logic [127:0] head);
    rounds_send_t send = '0;
    send.to = to;
    send.message = message;
    send.head_bytes = bytes;
    send.head = head;
    return send;
  endfunction

endpackage
