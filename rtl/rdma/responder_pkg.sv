// Types that the parts of the responder share.
package responder_pkg;

  import weft_pkg::*;

  // What goes through the pipeline: a request packet, or a change of a queue pair's state. Since both take the same
  // way, each packet meets either the state before a change or the state after it.
  typedef enum logic [3:0] {
    EventHeader,
    EventPost,     // of a receive request
    EventReset,
    EventInit,
    EventReceive,
    EventAccess,
    EventError,    // asked for by the driver
    EventFail,     // found by the requester or the responses
    EventFlush,    // of the oldest receive request
    EventQuery,
    EventDropped,  // a receive request for which there is no place
    EventNothing
  } event_e;

  typedef struct packed {
    event_e      kind;
    logic        control;   // tell the driver that it is done
    qp_index_t   qp;
    logic [23:0] argument;
  } event_t;

  typedef enum logic [1:0] {
    InboundIdle,
    InboundSend,
    InboundWrite
  } inbound_e;

  localparam int unsigned ReceiveBits = $clog2(ReceiveQueueDepth);
  localparam int unsigned ResourceBits = $clog2(ResponderResources);

  // One bit more than an index tells a full ring from an empty one.
  typedef logic [ReceiveBits:0] receive_count_t;
  typedef logic [ResourceBits:0] resource_count_t;

  // All that is kept of a queue pair, besides its receive requests and what duplicates need.
  typedef struct packed {
    responder_state_e state;
    access_t access;
    psn_t             expected;
    // PSNs from `expected` to behind the last that came too early and was dropped; 0: there is no gap. A distance,
    // since a PSN would mean another packet after half a round.
    psn_t             dropped;
    // The peer has been told to send again from `expected`; until that arrives, later packets are dropped.
    logic             gap_reported;
    // The packet that told of the gap. If it comes again, the peer has gone back, and what it went back for has been
    // lost once more.
    logic             witness_valid;
    psn_t             witness;
    psn_t             msn;
    // The message of which the next packet is expected: where it goes, and how much of it is there.
    inbound_e         inbound;
    logic [63:0]      address;
    logic [31:0]      key;
    logic [31:0]      length;
    logic [31:0]      done;
    receive_count_t   head;
    receive_count_t   tail;
    // Where the next READ or atomic is kept, below the number of resources that the queue pair has, and how many are.
    resource_index_t  resource;
    resource_count_t  saved;
    // READs and atomics accepted, ever, modulo a power of two above the greatest difference to those that have been
    // answered, which `responder_answered` counts.
    resource_count_t  issued;
  } state_t;

  // What is kept of a READ or atomic to answer its duplicates (clause 9.7.4.2: responder resources). The outcome of an
  // atomic is kept by the placement block.
  typedef struct packed {
    psn_t        first;
    psn_t        packets;
    logic        atomic;
    logic [63:0] address;
    logic [31:0] rkey;
    logic [31:0] length;
  } saved_t;

  // A receive request in its ring.
  typedef struct packed {
    logic [63:0] id;
    logic [63:0] address;
    logic [31:0] length;
    logic [31:0] lkey;
  } receive_t;

  // What an opcode means.
  typedef struct packed {
    logic known;
    logic send;
    logic write;
    logic read;
    logic atomic;
    logic starts;     // first packet of its message
    logic ends;       // last packet of its message
    logic immediate;
  } meaning_t;

  function automatic meaning_t meaning(logic [7:0] opcode);
    meaning_t result = '0;
    unique case (opcode)
      SendFirst, SendMiddle, SendLast, SendLastImmediate, SendOnly, SendOnlyImmediate: result.send = 1'b1;
      WriteFirst, WriteMiddle, WriteLast, WriteLastImmediate, WriteOnly, WriteOnlyImmediate: result.write = 1'b1;
      ReadRequest: result.read = 1'b1;
      CompareSwap, FetchAdd: result.atomic = 1'b1;
      default: ;
    endcase
    result.known = result.send || result.write || result.read || result.atomic;
    unique case (opcode)
      SendMiddle, SendLast, SendLastImmediate, WriteMiddle, WriteLast, WriteLastImmediate: ;
      default: result.starts = 1'b1;
    endcase
    unique case (opcode)
      SendFirst, SendMiddle, WriteFirst, WriteMiddle: ;
      default: result.ends = 1'b1;
    endcase
    unique case (opcode)
      SendLastImmediate, SendOnlyImmediate, WriteLastImmediate, WriteOnlyImmediate: result.immediate = 1'b1;
      default: ;
    endcase
    return result;
  endfunction

  // How a packet fared up to a stage; the first that applies.
  typedef enum logic [4:0] {
    OutcomeNone,              // not a packet
    OutcomeMalformed,
    OutcomeUnknownQueuePair,
    OutcomePartition,
    OutcomeState,
    OutcomeSource,
    OutcomeAhead,
    OutcomeDuplicate,         // of a SEND or WRITE
    OutcomeAgain,             // a duplicate READ or atomic that is answered again
    OutcomeUnknownDuplicate,
    OutcomeInvalid,
    OutcomeForbidden,         // by the queue pair's own flags
    OutcomeNotReady,
    OutcomeLength,            // a SEND longer than its receive request
    OutcomeProtection,        // a SEND to where its receive request does not lie
    OutcomeAccess,
    OutcomeNoCredit,
    OutcomeNoCall,
    OutcomeAccept
  } outcome_e;

  // A verdict in the queue, where fields that never mean something together share bits.
  typedef struct packed {
    logic            packet;
    place_e          place;
    target_e         target;
    logic            write_through;
    address_t        address;
    payload_bytes_t  bytes;
    logic [6:0]      offset;
    logic [63:0]     first;          // the word to swap or add; id of a receive request; address of a READ
    logic [63:0]     second;         // the word to compare; immediate data below; rkey and length of a READ
    logic [63:0]     base;           // of a WRITE
    logic [31:0]     length;         // of a message
    logic            snoop;
    logic            begins;         // the packet is its message's first
    qp_index_t       qp;
    logic            complete;
    status_e         status;
    logic            write;          // a WRITE with immediate data completed
    logic            immediate;
    logic            call;
    logic [3:0]      slot;
    answer_e         answer;
    logic            duplicate;
    psn_t            psn;
    psn_t            next;
    psn_t            msn;
    logic [7:0]      syndrome;
    resource_index_t resource;
    logic            marker;
  } verdict_t;

  // A packet or change of state on its way through the pipeline, once all RAMs have been read.
  typedef struct packed {
    event_t change;
    meaning_t meaning;
    outcome_e outcome;
    // A packet whose turn it is; while `outcome` is none, the grant decides what becomes of it.
    logic turn;
    logic check;  // the grant counts
    logic silent;  // a WRITE of no bytes: it needs no permission, but calls an engine where it has one
    logic allowed;  // by the queue pair's own flags
    logic refuse_after;  // an invalid request, if the access is granted
    logic empty;  // there is no receive request
    logic fetch_add;
    logic acknowledge_request;
    logic marked;
    logic [4:0] rnr_timer;
    resource_count_t resources;
    payload_bytes_t bytes;
    logic [6:0] offset;
    address_t address;
    logic [63:0] first;  // as in verdict_t
    logic [63:0] second;
    resource_index_t resource;
    resource_index_t next_resource;  // behind `state.resource`
    psn_t psn;  // of the answer
    psn_t arrived;  // of the packet
    logic witnessed;  // it is the one that told of the gap
    // What `state` becomes if the packet is accepted, or if it came too early.
    logic [31:0] done;
    psn_t packets;
    psn_t expected;
    psn_t dropped;
    // As it was before, except where a message that begins goes to: that means nothing unless it is accepted.
    state_t state;
  } work_t;

  // Facts about a packet whose turn it is.
  typedef struct packed {
    logic invalid_order;
    logic invalid_payload;
    logic short_of_rest;
    logic is_rest;
    logic beyond_rest;
    logic too_long;
    logic no_resource;
    logic misaligned;
    logic overflow;
    logic has_payload;
    logic length_zero;
    logic partial;          // a READ whose last response is not full
    psn_t full;             // packets of a READ that are
  } facts_t;

endpackage
