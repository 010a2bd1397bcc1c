// Types that the parts of the responder share.
package responder_pkg;

  import weft_pkg::*;

  // The events in the pipeline: a request packet, or a change of a queue pair's state. Both take the same path, so
  // each packet meets either the state before a change or the state after it.
  typedef enum logic [3:0] {
    EventHeader,
    EventPost,     // a receive request is posted
    EventReset,
    EventInit,
    EventReceive,
    EventAccess,
    EventError,    // commanded by the driver
    EventFail,     // a fault that the requester or the responses block found
    EventFlush,    // flushes the oldest receive request
    EventQuery,
    EventDropped,  // a receive request that finds the queue full
    EventNothing,
    EventKept      // a request packet that was kept behind a gap
  } event_e;

  typedef struct packed {
    event_e      kind;
    logic        control;   // report to the driver when it is done
    qp_index_t   qp;
    logic [23:0] argument;
  } event_t;

  // The argument of the events of packets.
  typedef struct packed {
    logic [15:0]    unused;
    // EventKept: the packet before this one has left its acknowledgement to this one.
    logic           deferred;
    // EventHeader: `place` is reserved for the packet.
    logic           reserved;
    reorder_place_t place;
  } packet_argument_t;

  // What the responder tells `reorder` about each event.
  typedef struct packed {
    reorder_place_t place;
    logic           reserved;  // `place` was reserved for the packet; it becomes free, unless the packet is kept
    logic           keep;
    logic           payload;   // of the packet that is kept: it follows
    logic           refused;   // there was no place for the packet
    logic           returned;  // the packet came from `place`, which becomes free
    logic           next;      // the packet that was found is next in turn
    logic           deferred;  // with the acknowledgement of the one before it
    logic           clear;     // nothing of the queue pair is kept any more
  } reorder_command_t;

  // What is known about the expected packet.
  typedef enum logic [1:0] {
    GapNone,     // no later packet has arrived
    GapRepair,   // a NAK has told the peer, which sends it again alone, because later packets are kept
    GapGoBack,   // a NAK has told the peer, which sends it and all later packets again
    GapNotReady  // there was no receive request for it: the peer sends it and all later packets again
  } gap_e;

  typedef enum logic [1:0] {
    InboundIdle,
    InboundSend,
    InboundWrite
  } inbound_e;

  localparam int unsigned ReceiveBits = $clog2(ReceiveQueueDepth);
  localparam int unsigned ResourceBits = $clog2(ResponderResources);

  // One bit more than an index, to distinguish a full ring from an empty one.
  typedef logic [ReceiveBits:0] receive_count_t;
  typedef logic [ResourceBits:0] resource_count_t;

  // The whole receive state of a queue pair, except its receive requests and the resources that duplicates need.
  typedef struct packed {
    responder_state_e state;
    access_t access;
    psn_t             expected;
    // Number of PSNs from `expected` up to and including the last packet that came too early; 0: there is no gap.
    // Stored as a distance, because a PSN would become ambiguous when PSNs wrap around.
    psn_t             early;
    gap_e             gap;
    // A packet behind the gap found no place. The peer sends it again with all behind it, so those are not kept either.
    // Otherwise the places would fill with packets that are separated by others, each of them a gap of its own.
    logic             overflow;
    // The packet that made the responder report the gap: that with PSN `witness`, or any that the peer must have sent
    // before (`witness_repeated`): one that is kept, or the one right behind the gap. If it arrives again, the peer has
    // gone back N, and the packet that it went back for has been lost once more.
    logic             witness_valid;
    logic             witness_repeated;
    psn_t             witness;
    psn_t             msn;
    // The message that is being received: the address of its next packet, and how much of it has arrived.
    inbound_e         inbound;
    logic [63:0]      address;
    logic [31:0]      key;
    logic [31:0]      length;
    logic [31:0]      done;
    receive_count_t   head;
    receive_count_t   tail;
    // Resource for the next READ or atomic, less than the queue pair's number of resources; and how many are in use.
    resource_index_t  resource;
    resource_count_t  saved;
    // Count of READs and atomics ever accepted. It wraps, but its modulus exceeds the largest difference from the
    // count of answered ones in `responder_answered`.
    resource_count_t  issued;
  } state_t;

  // A kept READ or atomic, to answer its duplicates (clause 9.7.4.2: responder resources). The placement block keeps
  // the result of an atomic.
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

  // Properties of an opcode.
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

  // Result of the checks up to a stage. The enumeration has the order of the checks; the first that applies is
  // reported.
  typedef enum logic [4:0] {
    OutcomeNone,              // no packet, or not decided yet
    OutcomeMalformed,
    OutcomeUnknownQueuePair,
    OutcomePartition,
    OutcomeState,
    OutcomeSource,
    OutcomeAhead,
    OutcomeDuplicate,         // of a SEND or WRITE
    OutcomeAgain,             // a duplicate READ or atomic that is answered again
    OutcomeUnknownDuplicate,
    OutcomeOvertaken,         // was kept, and has arrived again and been executed before its turn
    OutcomeInvalid,
    OutcomeForbidden,         // forbidden by the queue pair's own access flags
    OutcomeNotReady,
    OutcomeLength,            // a SEND longer than the buffer of its receive request
    OutcomeProtection,        // a SEND whose receive request is not inside a valid region
    OutcomeAccess,
    OutcomeNoCredit,
    OutcomeNoCall,
    OutcomeAccept
  } outcome_e;

  // A verdict in the queue. Fields that are never used together share bits.
  typedef struct packed {
    logic            packet;
    logic            reordered;
    reorder_place_t  reorder_place;
    place_e          place;
    target_e         target;
    logic            write_through;
    address_t        address;
    payload_bytes_t  bytes;
    logic [6:0]      offset;
    logic [31:0]     message_offset;
    logic [63:0]     first;           // word to swap or add; or id of a receive request; or address of a READ
    // word to compare; or immediate data in the low bits; or rkey and length of a READ
    logic [63:0]     second;
    logic [63:0]     base;            // start of a WRITE
    logic [31:0]     length;          // of a message
    logic            snoop;
    logic            begins;          // the packet is the first of its message
    qp_index_t       qp;
    logic            complete;
    status_e         status;
    logic            write;           // a WRITE with immediate data completed
    logic            immediate;
    logic            call;
    logic [3:0]      slot;
    answer_e         answer;
    logic            duplicate;
    logic            part;
    psn_t            psn;
    psn_t            next;
    psn_t            msn;
    logic [7:0]      syndrome;
    resource_index_t resource;
    logic            report;
    logic            kept;
    logic            marker;
  } verdict_t;

  // A packet or change of state in the pipeline, after all RAMs have been read.
  typedef struct packed {
    event_t change;
    meaning_t meaning;
    outcome_e outcome;
    // The packet has the expected PSN. While `outcome` is OutcomeNone, the grant decides.
    logic turn;
    logic check;  // the outcome depends on the grant
    logic silent;  // a WRITE of no bytes: needs no access rights, but calls the engine of an RPC region
    logic allowed;  // by the queue pair's own access flags
    logic refuse_after;  // the request is invalid, which is reported only if the access is granted
    logic part;  // a duplicate READ that ends before the original does
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
    resource_index_t next_resource;  // the one after `state.resource`
    psn_t psn;  // PSN of the answer
    psn_t arrived;  // PSN of the packet
    logic witnessed;  // the packet is the one that made the responder report the gap
    logic keepable;  // the packet may be kept behind the gap
    logic refused;  // but there is no place for it
    // New values of fields of `state`, if the packet is accepted or came too early.
    logic [31:0] done;
    psn_t packets;
    psn_t expected;
    psn_t early;
    // The state before the packet, except the address of a message that begins, which is only used if the packet is
    // accepted.
    state_t state;
  } work_t;

  // Facts about a packet that has the expected PSN.
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
    logic partial;          // a READ whose last response packet is not full
    psn_t full;             // number of full response packets of a READ
  } facts_t;

endpackage
