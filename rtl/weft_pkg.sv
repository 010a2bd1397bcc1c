// Types that the blocks of the gateware share.
//
// Conventions, for all blocks:
// - One clock `clk_i`, one synchronous active-low reset `rst_ni`.
// - A stream is `*_valid`, `*_ready` and a payload. A source holds valid and payload until ready, and valid never
//   waits for ready.
// - Byte 0 of a frame or of a memory word is in bits 7:0 of a beat. Fields of headers are kept in host order here (the
//   most significant bit on the left), whatever their order on the wire.
// - Time is an input, counted in clock cycles: no block keeps a clock of its own, so that a simulator may skip cycles
//   in which nothing happens.

// Sizes of a build. A flow that wants others defines these.
`ifndef WEFT_QUEUE_PAIRS
`define WEFT_QUEUE_PAIRS 512
`endif
`ifndef WEFT_REGIONS
`define WEFT_REGIONS 1024
`endif

package weft_pkg;

  // Sizes.

  localparam int unsigned BeatBytes = 64;
  localparam int unsigned BeatBits = 8 * BeatBytes;
  // Queue pairs, regions, and the requests that one queue can hold. Powers of two.
  localparam int unsigned QueuePairs = `WEFT_QUEUE_PAIRS;
  localparam int unsigned Regions = `WEFT_REGIONS;
  localparam int unsigned SendQueueDepth = 64;
  localparam int unsigned ReceiveQueueDepth = 64;
  // READs and atomics that a peer may have outstanding on one queue pair, and whose outcome is kept.
  localparam int unsigned ResponderResources = 16;
  // Request packets that one queue pair may have on the wire.
  localparam int unsigned WindowPackets = 64;
  // Bytes of one place in the retransmission buffer: the longest payload and one beat for its alignment, rounded up.
  localparam int unsigned RetransmissionSlotBytes = 8192;

  typedef logic [$clog2(QueuePairs)-1:0] qp_index_t;
  typedef logic [$clog2(Regions)-1:0] region_index_t;
  typedef logic [$clog2(SendQueueDepth)-1:0] send_index_t;
  typedef logic [$clog2(ReceiveQueueDepth)-1:0] receive_index_t;
  typedef logic [$clog2(ResponderResources)-1:0] resource_index_t;

  typedef logic [23:0] psn_t;
  typedef logic [23:0] qpn_t;
  typedef logic [47:0] mac_address_t;
  typedef logic [31:0] ipv4_address_t;
  // Bytes in the address space of a target. Addresses on the wire have 64 bits; one that does not fit is out of bounds.
  typedef logic [47:0] address_t;
  // Bytes of payload in one packet: 0 to 4096.
  typedef logic [12:0] payload_bytes_t;
  // Clock cycles since power-on.
  typedef logic [47:0] cycles_t;

  // Whether `a` is before `b` in the 24-bit circle: the half round before `b` is earlier, `b` and the half round
  // after it are not (InfiniBand volume 1, clause 9.7.2).
  function automatic logic psn_before(psn_t a, psn_t b);
    psn_t difference = a - b;
    return difference[23];
  endfunction

  // Streams of bytes.

  typedef struct packed {
    logic                last;
    // Unused bytes at the end of a last beat.
    logic [5:0]          empty;
    logic [BeatBits-1:0] data;
  } beat_t;

  // The unused bytes at the end of a beat whose used bytes are marked from byte 0 on without a hole.
  function automatic logic [5:0] unused_bytes(logic [BeatBytes-1:0] keep);
    logic [5:0] unused = '0;
    for (int unsigned i = 0; i + 1 < BeatBytes; i++) begin
      if (keep[i] && !keep[i+1]) unused |= 6'(BeatBytes - 1 - i);
    end
    return unused;
  endfunction

  // Opcodes of the reliable connection (clause 9.2, table 38).

  typedef enum logic [7:0] {
    SendFirst              = 8'h00,
    SendMiddle             = 8'h01,
    SendLast               = 8'h02,
    SendLastImmediate      = 8'h03,
    SendOnly               = 8'h04,
    SendOnlyImmediate      = 8'h05,
    WriteFirst             = 8'h06,
    WriteMiddle            = 8'h07,
    WriteLast              = 8'h08,
    WriteLastImmediate     = 8'h09,
    WriteOnly              = 8'h0a,
    WriteOnlyImmediate     = 8'h0b,
    ReadRequest            = 8'h0c,
    ReadResponseFirst      = 8'h0d,
    ReadResponseMiddle     = 8'h0e,
    ReadResponseLast       = 8'h0f,
    ReadResponseOnly       = 8'h10,
    Acknowledge            = 8'h11,
    AtomicAcknowledge      = 8'h12,
    CompareSwap            = 8'h13,
    FetchAdd               = 8'h14,
    // Not of the reliable connection (annex A17.9.3).
    CongestionNotification = 8'h81
  } opcode_e;

  // Syndromes of acknowledgements (clause 9.7.5.2.1).
  localparam logic [7:0] SyndromeAck = 8'h1f;  // no end-to-end credits
  localparam logic [2:0] SyndromeRnrPrefix = 3'b001;  // with the timer code in the low 5 bits
  localparam logic [7:0] SyndromeSequenceError = 8'h60;
  localparam logic [7:0] SyndromeInvalidRequest = 8'h61;
  localparam logic [7:0] SyndromeRemoteAccess = 8'h62;
  localparam logic [7:0] SyndromeRemoteOperational = 8'h63;
  localparam logic [7:0] SyndromeInvalidReadRequest = 8'h64;

  // What the receive path has read in the headers of a RoCE packet whose ICRC is right and whose lengths agree. Fields
  // that the opcode does not have are undefined.
  typedef struct packed {
    logic [7:0]    opcode;
    logic          solicited;
    logic          acknowledge_request;
    logic          marked;               // the IP header says "congestion experienced"
    logic [15:0]   partition_key;
    qpn_t          destination_qp;
    psn_t          psn;
    ipv4_address_t source;
    logic [63:0]   address;              // of RETH or AtomicETH
    logic [31:0]   rkey;                 // of RETH or AtomicETH
    logic [31:0]   length;               // of RETH
    logic [63:0]   swap_or_add;          // of AtomicETH; of AtomicAckETH: the original value
    logic [63:0]   compare;              // of AtomicETH
    logic [31:0]   immediate;
    logic [7:0]    syndrome;             // of AETH
    logic [23:0]   msn;                  // of AETH
    logic [6:0]    payload_offset;       // of the payload's first byte in the frame: 54 to 82
    logic [12:0]   payload_bytes;        // without pad and ICRC; up to 8191, what the path MTU allows is checked later
  } roce_header_t;

  // Attributes of a queue pair: what the driver writes before it starts the queue pair, and nobody else.

  typedef struct packed {
    qpn_t          number;              // this queue pair's, as it appears on the wire; its low bits are its index
    qpn_t          destination_qp;
    ipv4_address_t destination;
    mac_address_t  destination_mac;
    logic [15:0]   source_port;         // UDP
    logic [15:0]   domain;              // protection domain
    logic [2:0]    path_mtu;            // ibv_mtu: 1 is 256 bytes, 5 is 4096
    logic [4:0]    max_dest_rd_atomic;  // 0 to 16
    logic [4:0]    max_rd_atomic;       // 0 to 16
    logic [4:0]    min_rnr_timer;
    logic [4:0]    timeout;             // local acknowledgement time-out, code of clause 9.9.2.1.2; 0: none
    logic [2:0]    retry_count;
    logic [2:0]    rnr_retry;           // 7: no limit
    logic          engine;              // completions go to the engine port instead of the host
  } queue_pair_t;

  // ibv_access_flags.
  typedef struct packed {
    logic remote_atomic;
    logic remote_read;
    logic remote_write;
    logic local_write;
  } access_t;

  // What the driver or an engine asks of a queue pair's state machines.
  typedef enum logic [2:0] {
    ControlReset,    // forget everything, without completions
    ControlInit,     // take receive requests; argument: access in the low 4 bits
    ControlReceive,  // INIT to RTR; argument: the PSN of the first request expected
    ControlSend,     // RTR to RTS; argument: the PSN of the first request to send
    ControlAccess,   // change what the peer may do; argument: access in the low 4 bits
    ControlError     // end all requests flushed
  } control_e;

  typedef struct packed {
    control_e    operation;
    qp_index_t   qp;
    logic [23:0] argument;
  } control_t;

  // Memory.

  typedef enum logic [1:0] {
    TargetRegister = 2'd0,
    TargetOnChip   = 2'd1,
    TargetHbm      = 2'd2,
    TargetHost     = 2'd3
  } target_e;

  // Where the payload of a packet to send comes from: a target, or the retransmission buffer.
  typedef struct packed {
    logic    retransmission;  // the address is one in the retransmission buffer; target is ignored
    target_e target;
  } source_t;

  typedef struct packed {
    logic            valid;
    logic [31:0]     lkey;           // both keys have the region's index in their low bits
    logic [31:0]     rkey;
    logic [15:0]     domain;
    address_t        base;
    logic [48:0]     length;
    access_t access;
    target_e         target;
    logic            write_through;  // writes go to the same address of HBM too
    logic            rpc;            // each completed WRITE calls engine `slot`
    logic [3:0]      slot;
  } region_t;

  // Why an access is refused; the first that applies.
  typedef enum logic [2:0] {
    AccessGranted,
    AccessUnknownKey,
    AccessWrongDomain,
    AccessOutOfBounds,
    AccessForbidden
  } access_verdict_e;

  typedef struct packed {
    logic        remote;   // `key` is an rkey, otherwise an lkey
    logic [31:0] key;
    logic [15:0] domain;
    logic [63:0] address;
    logic [31:0] bytes;
    access_t     needs;    // all of these
  } access_request_t;

  typedef struct packed {
    access_verdict_e verdict;
    target_e         target;
    logic            write_through;
    logic            rpc;
    logic [3:0]      slot;
  } access_grant_t;

  // One packet's worth of memory. A transfer covers `bytes` from `address` on and has as many beats as 64-byte words
  // it touches: beats lie as in memory, so the first byte is at `address % 64` of the first beat.
  typedef struct packed {
    address_t       address;
    payload_bytes_t bytes;    // 1 to 4096
  } transfer_t;

  typedef struct packed {
    logic                 last;
    logic [BeatBytes-1:0] strobe;
    logic [BeatBits-1:0]  data;
  } write_beat_t;

  // Requests.

  typedef enum logic [2:0] {
    OperationSend        = 3'd0,
    OperationWrite       = 3'd1,
    OperationRead        = 3'd2,
    OperationCompareSwap = 3'd3,
    OperationFetchAdd    = 3'd4
  } operation_e;

  // What a user posts to a send queue: ibv_send_wr with one local buffer.
  typedef struct packed {
    qp_index_t   qp;
    logic [63:0] id;
    operation_e  operation;
    logic        signaled;
    logic        fence;
    logic        solicited;
    logic        has_immediate;
    logic [31:0] immediate;
    logic [63:0] local_address;
    logic [31:0] length;
    logic [31:0] lkey;
    logic [63:0] remote_address;
    logic [31:0] rkey;
    logic [63:0] swap_or_add;
    logic [63:0] compare;
  } work_request_t;

  // What a user posts to a receive queue: ibv_recv_wr with one local buffer.
  typedef struct packed {
    qp_index_t   qp;
    logic [63:0] id;
    logic [63:0] address;
    logic [31:0] length;
    logic [31:0] lkey;
  } receive_request_t;

  // ibv_wc_status, by number.
  typedef enum logic [4:0] {
    StatusSuccess          = 5'd0,
    StatusLocalLength      = 5'd1,
    StatusLocalOperation   = 5'd2,
    StatusLocalProtection  = 5'd4,
    StatusFlushed          = 5'd5,
    StatusBadResponse      = 5'd7,
    StatusRemoteInvalid    = 5'd9,
    StatusRemoteAccess     = 5'd10,
    StatusRemoteOperation  = 5'd11,
    StatusRetryExceeded    = 5'd12,
    StatusRnrRetryExceeded = 5'd13
  } status_e;

  // ibv_wc.
  typedef struct packed {
    qp_index_t   qp;
    logic [63:0] id;
    status_e     status;
    logic [7:0]  opcode;         // ibv_wc_opcode
    logic [31:0] bytes;
    logic        has_immediate;
    logic [31:0] immediate;
    logic [7:0]  vendor_error;
  } completion_t;

  // Queues in the host's memory (work_queues.sv): what the registers say, and what they read.
  typedef struct packed {
    logic        enable;
    logic        interrupt_enable;     // asserted while a completion is there that the host has not taken
    logic [3:0]  post_size;            // log2 of the entries
    logic [3:0]  completion_size;
    address_t    post_base;            // multiples of 64
    address_t    completion_base;
    logic [15:0] post_produced;        // entries that the host has written since the queues were enabled
    logic [15:0] completion_consumed;  // entries that the host has taken
  } queue_registers_t;

  typedef struct packed {
    logic        running;
    logic        overrun;              // the host announced more entries than the queue has
    logic        fault;                // memory answered with an error
    logic [15:0] post_consumed;        // entries that may be written anew
    logic [15:0] completion_produced;  // entries that the host may read
  } queue_readings_t;

  // An entry of the post queue, and one of the completion queue: 64 bytes, little-endian, first field on top.
  typedef struct packed {
    logic [63:0] compare;
    logic [63:0] swap_or_add;
    logic [31:0] unused;
    logic [31:0] rkey;
    logic [63:0] remote_address;
    logic [31:0] lkey;
    logic [31:0] length;
    logic [63:0] local_address;
    logic [63:0] id;
    logic [31:0] immediate;
    logic [15:0] qp;
    logic [3:0]  unused_flags;
    logic        has_immediate;
    logic        solicited;
    logic        fence;
    logic        signaled;
    logic [7:0]  operation;       // operation_e, or PostedReceive
  } posted_entry_t;

  localparam logic [7:0] PostedReceive = 8'd5;

  typedef struct packed {
    logic [6:0]   unused_phase;
    logic         phase;          // of this pass through the queue: 1 in the first
    logic [327:0] unused;
    logic [7:0]   vendor_error;
    logic [6:0]   unused_flags;
    logic         has_immediate;
    logic [7:0]   opcode;         // ibv_wc_opcode
    logic [7:0]   status;         // ibv_wc_status
    logic [15:0]  qp;
    logic [31:0]  immediate;
    logic [31:0]  bytes;
    logic [63:0]  id;
  } completed_entry_t;

  // A completed WRITE into an RPC region.
  typedef struct packed {
    logic [3:0]  slot;
    qp_index_t   qp;
    target_e     target;
    logic [63:0] address;
    logic [31:0] length;
    logic        has_immediate;
    logic [31:0] immediate;
  } rpc_call_t;

  // A beat of a packet of a WRITE into an RPC region, as it goes into memory.
  typedef struct packed {
    qp_index_t   qp;
    logic        begins;   // the packet is its message's first
    logic        ends;     // the packet is its message's last: its call follows
    address_t    address;  // of the beat's byte 0: a multiple of 64
    write_beat_t beat;
  } rpc_beat_t;

  // What happens to a received packet. Requester and responder decide it; the placement block carries it out, in the
  // order of the packets, and passes on what follows only when the payload is visible in memory. So
  // nobody is told of data that is not there yet, and a READ sees the WRITEs before it.

  // The responder tells the responses block what the peer is due.
  typedef enum logic [2:0] {
    AnswerNone,
    AnswerAcknowledge,  // everything up to and including `psn`, unless a later answer says so first
    AnswerRefuse,       // a NAK with `syndrome` for `psn`
    AnswerRead,         // `length` bytes at `address`; the first response packet has `psn`
    AnswerAtomic        // `original`, with `psn`
  } answer_e;

  typedef struct packed {
    answer_e         kind;
    logic            duplicate;  // of a request that was carried out before
    psn_t            psn;
    psn_t            next;       // unless a duplicate: of the request behind this one
    psn_t            msn;        // messages carried out so far
    logic [7:0]      syndrome;
    resource_index_t resource;   // where a READ or atomic, and what an atomic found, is kept for its duplicates
    logic [63:0]     address;
    logic [31:0]     rkey;
    logic [31:0]     length;
    logic [63:0]     original;   // filled in by the placement block, also for duplicates
  } answer_t;

  // The requester tells the completer how far a send queue has come.
  typedef enum logic [1:0] {
    AdvanceNone,
    AdvanceTo,     // requests that end at or before `psn` (exclusive) have succeeded
    AdvanceFault,  // as AdvanceTo; then the oldest request fails with `status` and the others are flushed
    AdvanceFlush   // all requests are flushed
  } advance_e;

  typedef struct packed {
    advance_e   kind;
    psn_t       psn;
    status_e    status;
    logic [7:0] vendor_error;
  } advance_t;

  typedef struct packed {
    qp_index_t   qp;
    logic        complete;    // a receive request ends
    completion_t completion;
    logic        call;
    rpc_call_t   rpc;
    answer_t     answer;
    advance_t    advance;
    logic        marker;      // a change of permission takes effect for all that follows
  } consequence_t;

  typedef enum logic [1:0] {
    PlaceNothing,
    PlaceWrite,       // the payload goes to memory
    PlaceFetchAdd,    // the 8-byte word at `address` is read, what it held kept in resource `answer.resource`, ...
    PlaceCompareSwap  // ... and changed
  } place_e;

  typedef struct packed {
    logic           packet;         // takes the next packet out of the receive buffer; otherwise there is none
    place_e         place;
    target_e        target;
    logic           write_through;
    address_t       address;
    payload_bytes_t bytes;          // PlaceWrite: 1 to 4096
    logic [6:0]     offset;         // of the payload in the frame
    logic [63:0]    swap_or_add;
    logic [63:0]    compare;
    logic           snoop;          // the payload goes to the engines' dispatcher too
    logic           begins;         // the packet is its message's first
    consequence_t   consequence;
  } placement_t;

  // Memory ports.

  typedef struct packed {
    target_e   target;
    logic      write_through;
    transfer_t transfer;
  } write_command_t;

  typedef struct packed {
    source_t source;
    transfer_t transfer;
    logic keep;  // what is read is copied to the retransmission buffer, at `keep_address`
    // A multiple of RetransmissionSlotBytes; the copy begins at `transfer.address % 64` behind it.
    address_t keep_address;
  } read_command_t;

  // Channels of AXI4, 512 bits wide, without identifiers: all is in order. Bursts are incrementing, of whole words, and
  // do not cross 4 KiB.
  typedef struct packed {
    address_t   address;  // a multiple of 64
    logic [7:0] length;   // beats less one
  } axi_address_t;

  typedef struct packed {
    logic                last;
    logic [1:0]          response;
    logic [BeatBits-1:0] data;
  } axi_read_t;

  // A packet to send.

  typedef struct packed {
    qp_index_t      qp;
    opcode_e        opcode;
    psn_t           psn;
    logic           acknowledge_request;
    logic           solicited;
    logic [63:0]    remote_address;       // RETH or AtomicETH
    logic [31:0]    rkey;
    logic [31:0]    length;               // RETH
    logic [63:0]    swap_or_add;          // AtomicETH; AtomicAckETH: the original value
    logic [63:0]    compare;              // AtomicETH
    logic [31:0]    immediate;
    logic [7:0]     syndrome;             // AETH
    logic [23:0]    msn;                  // AETH
    payload_bytes_t bytes;                // of payload; 0: none
    source_t        source;
    address_t       source_address;
    logic           keep;                 // the payload is copied to the retransmission buffer, at `keep_address`
    address_t       keep_address;
  } transmit_t;

  // Datagrams and other traffic beside the transport.

  typedef logic [7:0] socket_index_t;
  // Bytes of a frame or datagram: up to jumbo frames.
  typedef logic [13:0] frame_bytes_t;

  // Who takes the datagrams to a local UDP port.
  typedef struct packed {
    logic          valid;   // otherwise the port is closed again: its datagrams go to the host
    logic [15:0]   port;
    logic [3:0]    slot;    // of the engine
    socket_index_t socket;  // what the engine calls it
  } socket_entry_t;

  // A datagram that an engine receives; its payload follows, byte 0 first.
  typedef struct packed {
    socket_index_t socket;
    logic [3:0]    slot;
    ipv4_address_t source;
    logic [15:0]   source_port;
    logic [15:0]   destination_port;
    frame_bytes_t  bytes;             // of payload; 0: no beat follows
    cycles_t       timestamp;         // when the first beat of the frame came in
  } datagram_received_t;

  // A datagram to send; its payload follows, byte 0 first.
  typedef struct packed {
    ipv4_address_t destination;
    logic [15:0]   destination_port;
    logic [15:0]   source_port;
    frame_bytes_t  bytes;             // of payload; 0: no beat follows
    logic          stamp;             // say when its first beat left, with `tag`
    logic [7:0]    tag;
  } datagram_send_t;

  // What the sniffer takes.
  typedef struct packed {
    logic          receive;
    logic          transmit;
    logic          roce_only;
    logic          match_qp;       // RoCE packets to `qp` only
    qpn_t          qp;
    logic          match_address;  // IPv4 packets from or to `address` only
    ipv4_address_t address;
    frame_bytes_t  snap;           // bytes kept of each frame
  } sniffer_config_t;

  // Events of arp.
  typedef struct packed {
    logic arp_replies;
    logic arp_requests;
  } arp_events_t;

  // Events of icmp_echo.
  typedef struct packed {logic echo_replies;} icmp_echo_events_t;

  // Events of udp_sockets.
  typedef struct packed {
    logic datagrams_received;
    logic drop_datagram_queue_full;
  } udp_sockets_events_t;

  // Events of datagram_transmit.
  typedef struct packed {
    logic datagrams_sent;
    logic neighbour_unresolved;
  } datagram_transmit_events_t;

  // Events of host_frames.
  typedef struct packed {
    logic frames_to_host;
    logic frames_from_host;
    logic drop_host_queue_full;
    logic drop_host_frame_size;  // the host gave a frame that is longer than any may be
  } host_frames_events_t;

  // Events of transmit_merge.
  typedef struct packed {logic frames_sent;} transmit_merge_events_t;

  // Events of sniffer.
  typedef struct packed {
    logic sniffed_received;
    logic sniffed_sent;
    logic drop_sniffed_received;
    logic drop_sniffed_sent;
  } sniffer_events_t;

  // Events of memory.
  typedef struct packed {
    logic memory_fault;  // an access outside the register file or the on-chip memory, or an error response of AXI4
  } memory_events_t;

  // Events of placement.
  typedef struct packed {
    logic placement_stall;  // a cycle in which a verdict waited for memory or for a consumer of consequences
  } placement_events_t;

  // What the responder tells of a queue pair.
  typedef enum logic [1:0] {
    ResponderReset,
    ResponderInit,
    ResponderReady,  // RTR or RTS
    ResponderError
  } responder_state_e;

  typedef struct packed {
    responder_state_e state;
    access_t access;
    psn_t             expected;
    logic [6:0]       receives;  // receive requests that have not completed
  } responder_query_t;

  // Events of responder.
  typedef struct packed {
    logic rcvd_pkts;                // requests; the others are request_side's
    logic duplicate_request;
    logic out_of_seq_request;
    logic send_rnr_err;
    logic rdma_recvs;
    logic sent_invalid_request;
    logic sent_access_error;
    logic sent_operational_error;
    logic violation_key;
    logic violation_domain;
    logic violation_bounds;
    logic violation_permission;
    logic rpc_calls;
    logic congestion_marks;
    logic drop_unknown_queue_pair;
    logic drop_wrong_source;
    logic drop_wrong_state;
    logic drop_partition_key;
    logic drop_malformed;
    logic drop_out_of_sequence;
    logic drop_unknown_duplicate;
    logic drop_no_credit;
    logic drop_rpc_queue_full;
    logic drop_receive_request;     // one that the driver should not have posted; not a counter of the soft twin
  } responder_events_t;

  // Frames that are not RoCE.

  typedef enum logic [1:0] {
    OtherArp,       // a request or a reply, for Ethernet and IPv4, about whatever address
    OtherEcho,      // an echo request to this port's address
    OtherDatagram,  // a UDP datagram to this port's address, to any port but that of RoCE v2
    OtherHost       // what the port does not serve itself
  } other_class_e;

  // What the receive path tells about one of them. All checksums in its headers are right.
  typedef struct packed {
    other_class_e  kind;
    frame_bytes_t  bytes;             // of the whole frame, with padding
    cycles_t       timestamp;         // when the first beat came in
    mac_address_t  source_mac;
    ipv4_address_t source;            // of an echo or a datagram
    logic [15:0]   source_port;       // of a datagram
    logic [15:0]   destination_port;  // of a datagram
    frame_bytes_t  payload_bytes;     // of a datagram; it begins at byte 42 of the frame
  } other_frame_t;

  // Events of receive_path.
  typedef struct packed {
    logic frames_received;           // all that end, good or not
    logic frames_for_others;
    logic frames_malformed;          // wrong header, length or checksum below RoCE, or longer than any frame may be
    logic icrc_errors;
    logic roce_malformed;
    logic roce_received;
    logic drop_receive_error;        // the MAC said so
    logic drop_receive_buffer_full;  // a good RoCE packet found no room
    logic drop_other_buffer_full;    // another good frame found no room
  } receive_path_events_t;

  // Events of responses.
  typedef struct packed {
    logic ack_deferred;          // an acknowledgement was merged into a later one or into a response
    logic sent_access_error;
    logic violation_key;
    logic violation_domain;
    logic violation_bounds;
    logic violation_permission;
  } responses_events_t;

  // Events of transmit_path.
  typedef struct packed {
    logic sent_pkts;
    logic np_cnp_sent;  // congestion notifications
  } transmit_path_events_t;

  // What the driver may ask of a queue pair's requester.
  typedef enum logic [1:0] {
    RequesterReset,
    RequesterReady,  // ready to send
    RequesterError
  } requester_state_e;

  typedef struct packed {
    requester_state_e state;
    psn_t             next_psn;  // of the next packet to send
    logic [6:0]       queued;    // requests that have not completed: 0 to SendQueueDepth
    logic [6:0]       window;    // packets that may be outstanding
  } requester_query_t;

  // Events of request_side.
  typedef struct packed {
    logic rcvd_pkts;                // responses; the others are responder's
    logic rcvd_rnr_err;
    logic rcvd_seq_err;
    logic retry_exceeded_err;
    logic retry_rnr_exceeded_err;
    logic completer_retry_err;
    logic send_err;
    logic rdma_sends;
    logic ack_timeout;
    logic implied_nak_seq_err;
    logic rcvd_invalid_request;
    logic rcvd_access_error;
    logic rcvd_operational_error;
    logic violation_key;            // of the own user
    logic violation_domain;
    logic violation_bounds;
    logic violation_permission;
    logic congestion_marks;         // marked packets, and notifications
    logic drop_unknown_queue_pair;
    logic drop_wrong_source;
    logic drop_wrong_state;
    logic drop_partition_key;
    logic drop_malformed;
    logic drop_ghost_response;
    logic drop_stale_response;
    logic drop_reserved_syndrome;
    logic post_overflow;            // a request that the driver should not have posted; these three are not
    logic post_invalid;             // counters of the soft twin, which refuses such calls
    logic post_wrong_state;
  } request_side_events_t;

  // A RoCE packet's headers inside the receive path: extended headers as they lie in the frame.
  typedef struct packed {
    logic [7:0]    opcode;
    logic          solicited;
    logic          acknowledge_request;
    logic          marked;
    logic [15:0]   partition_key;
    qpn_t          destination_qp;
    psn_t          psn;
    ipv4_address_t source;
    logic [2:0]    words;                // of extended headers, each of 4 bytes
    logic          original;             // AtomicAckETH is there
    logic          far_immediate;        // the immediate value lies behind a RETH
    logic [223:0]  extended;             // the first byte on the left
  } roce_packet_t;

  // Between the blocks of the requester side.

  // Requests of one queue pair are counted; the low bits are a request's place in the queue, one bit more tells a full
  // queue from an empty one.
  typedef logic [$clog2(SendQueueDepth):0] send_serial_t;

  // The end of a queue.
  typedef struct packed {
    logic         open;      // requests may be posted
    send_serial_t tail;      // of the next request to be posted
    psn_t         next_psn;  // of its first packet
  } send_tail_t;

  // What of a request decides about its packets.
  typedef struct packed {
    operation_e  operation;
    logic        signaled;
    logic        fence;
    logic        solicited;
    logic        has_immediate;
    logic [63:0] local_address;
    logic [31:0] length;
    logic [31:0] lkey;
    psn_t        first;          // PSN of its first packet; of a READ, of its first response
    psn_t        limit;          // one past its last PSN
  } send_plan_t;

  // What of a request goes into headers as it is.
  typedef struct packed {
    logic [63:0] remote_address;
    logic [31:0] rkey;
    logic [63:0] swap_or_add;  // or the immediate in its low bits: no request has both
    logic [63:0] compare;
  } send_wire_t;

  // What a request's completion needs.
  typedef struct packed {
    logic [63:0] id;
    operation_e  operation;
    logic        signaled;
    logic [31:0] length;
    psn_t        limit;
  } send_end_t;

  // What a request may have to wait for before its first packet.
  typedef struct packed {
    logic fence;
    logic has_response;
  } send_wait_t;

  // What the requester decides of a placement.
  typedef struct packed {
    qp_index_t      qp;
    logic           packet;
    logic           place;
    target_e        target;
    logic           write_through;
    address_t       address;
    payload_bytes_t bytes;
    logic [6:0]     offset;
    logic [63:0]    original;
    advance_t       advance;
  } requester_verdict_t;

  // What the requester decides of a packet to send.
  typedef struct packed {
    qp_index_t      qp;
    opcode_e        opcode;
    psn_t           psn;
    logic           request;
    logic           solicited;
    logic [63:0]    remote_address;
    logic [31:0]    rkey;
    logic [31:0]    length;
    logic [63:0]    swap_or_add;
    logic [63:0]    compare;
    payload_bytes_t bytes;
    logic           again;
    target_e        target;
    address_t       address;
  } requester_packet_t;

endpackage
