// Sizes and types of the rounds engine: the twin of crates/engines/rounds, whose documentation tells the protocol.
//
// Everything that is called a set has one bit for each node. Bytes of messages lie in a beat as on the wire, byte 0 in the
// lowest lane; integers of messages are big-endian.
package rounds_pkg;

  import weft_pkg::*;
  import engines_pkg::*;

  // Sizes. All nodes of a cluster use the same; `Parameters` of the Rust twin must be set to them.
  localparam int unsigned RoundsNodes = 8;
  localparam int unsigned RoundsWindow = 4;  // K: instances in flight, and rounds in which each of them may decide
  localparam int unsigned RoundsProposalBytes = 448;
  localparam int unsigned RoundsQueue = 8;  // proposals of this node that wait for their round
  // Of a round, a Value or a Decided: the proposal begins in the beat behind it.
  localparam int unsigned RoundsHeadBytes = 64;

  typedef logic [2:0] member_t;
  typedef logic [RoundsNodes-1:0] members_t;
  typedef logic [63:0] round_t;
  typedef logic [15:0] rounds_epoch_t;
  typedef logic [9:0] proposal_bytes_t;
  typedef logic [3:0] member_count_t;
  // An instance's age, in rounds since its own: 1 to `2 * RoundsWindow - 1` of those that are not released.
  typedef logic [3:0] age_t;

  // Messages between engines.
  typedef enum logic [7:0] {
    RoundsMessageRound = 8'd1,
    RoundsMessageFetch = 8'd2,
    RoundsMessageValue = 8'd3,
    RoundsMessageStart = 8'd4,
    RoundsMessageJoin  = 8'd5
  } rounds_message_e;

  // Calls and, with the same numbers, their replies; `Decided` is a reply to the subscriber.
  typedef enum logic [7:0] {
    RoundsCallPropose   = 8'd1,
    RoundsCallStart     = 8'd2,
    RoundsCallStatus    = 8'd3,
    RoundsCallSubscribe = 8'd4,
    RoundsCallLeave     = 8'd5,
    RoundsReplyDecided  = 8'd6
  } rounds_call_e;

  typedef enum logic [7:0] {
    RoundsAccepted      = 8'd0,
    RoundsBusy          = 8'd1,
    RoundsNotRunning    = 8'd2,
    RoundsRefusedFenced = 8'd3,
    RoundsMalformed     = 8'd4
  } rounds_status_e;

  typedef enum logic [2:0] {
    RoundsIdle,
    RoundsStarting,  // waits for its own first round
    RoundsRunning,
    RoundsJoining,
    RoundsFenced
  } rounds_phase_e;

  // Flags in the head of a Round and of a Value.
  localparam int unsigned RoundsFlagProposal = 0;  // of a member of the round's instance: this is its proposal
  localparam int unsigned RoundsFlagChange = 1;  // the proposal is a change of the members: two bytes, add and remove

  localparam logic [7:0] RoundsAlgorithmConsensus = 8'd1;

  // The first 16 bytes of a Round, from the last byte to the first.
  typedef struct packed {
    logic [7:0]  spare;
    logic [7:0]  algorithm;
    logic [15:0] bytes;      // of the proposal
    logic [7:0]  flags;
    members_t    members;
    logic [15:0] epoch;
    round_t      round;
  } round_head_t;

  // What a round says about one instance, from the last byte to the first.
  typedef struct packed {
    logic [7:0]     spare;
    logic [4:0]     unused;
    logic           valid;      // the sender takes part in the instance
    logic           decided;
    logic           locked;
    members_t       decision;
    members_t       suspected;
    members_t [7:0] rows;       // of each node, whose proposals it has; 0: not known
  } record_t;

  localparam int unsigned RecordBits = 96;
  localparam int unsigned AreaBits = RecordBits * RoundsWindow;

  // How many it takes.
  typedef struct packed {
    member_count_t decision;   // locked nodes that decide: a strict majority
    member_count_t tolerated;  // suspected nodes beyond which a node no longer decides by itself
    member_count_t holders;    // of a proposal that is decided
  } quorums_t;

  // One instance of the consensus at one node.
  typedef struct packed {
    logic           valid;
    members_t       members;
    quorums_t       quorums;
    members_t [7:0] rows;
    members_t       suspected;
    members_t       accepted;      // from whom, in this round
    logic           locked;
    members_t       heard_locked;
    logic           decided;
    members_t       decision;
    logic           adopted;       // in this round
    members_t       adoption;
  } instance_t;

  // Where a proposal lies: of another node by instance and proposer, one's own by its number.
  typedef logic [7:0] proposal_place_t;
  typedef logic [4:0] own_place_t;

  // What an event became.
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
    logic                too_long;   // a call's proposal
    proposal_bytes_t     bytes;      // of the proposal that follows
    logic                current;    // a Round of this round
    logic                following;  // of the next one
    logic                late;       // of one before
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
    round_head_t         head;
    logic [AreaBits-1:0] area;
  } rounds_send_t;

  // Events of rounds, named as the counters of crates/engines/rounds.
  typedef struct packed {
    logic       rounds;
    logic       messages_accepted;
    logic       messages_early;
    logic [2:0] instances_decided;
    logic       values_released;
    logic       values_fetched;
    logic       values_served;
    logic       dropped_malformed;
    logic       dropped_late;
    logic       dropped_far_ahead;
    logic       dropped_duplicate;
    logic       dropped_not_running;
    logic       dropped_other_epoch;
    logic [2:0] contradictions;
    logic       refused_busy;
    logic       refused_not_running;
    logic       fences;
  } rounds_events_t;

  function automatic member_count_t count_members(members_t set);
    member_count_t count = '0;
    for (int unsigned i = 0; i < RoundsNodes; i++) count += member_count_t'(set[i]);
    return count;
  endfunction

  // The set of one node.
  function automatic members_t only(member_t node);
    return members_t'(1) << node;
  endfunction

  // The lowest of a set that is not empty.
  function automatic member_t lowest(members_t set);
    member_t found = '0;
    for (int unsigned i = RoundsNodes; i > 0; i--) if (set[i-1]) found = member_t'(i - 1);
    return found;
  endfunction

  // As many faults as can be tolerated, with the least quorums for them.
  function automatic quorums_t quorums_of(members_t members);
    member_count_t count = count_members(members);
    quorums_t quorums;
    quorums.decision  = (count >> 1) + 1'b1;
    quorums.tolerated = (count - 1'b1) >> 1;
    quorums.holders   = quorums.tolerated + 1'b1;
    return quorums;
  endfunction

  // An integer of two or eight bytes between the order of the lanes and its own.
  function automatic logic [15:0] turn_16(logic [15:0] value);
    return {value[7:0], value[15:8]};
  endfunction

  function automatic logic [63:0] turn_64(logic [63:0] value);
    logic [63:0] turned;
    for (int unsigned i = 0; i < 8; i++) turned[8*i+:8] = value[8*(7-i)+:8];
    return turned;
  endfunction

endpackage
