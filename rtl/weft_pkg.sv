// Types that the blocks of the gateware share.
//
// Conventions, for all blocks:
// - One clock `clk_i`, one synchronous active-low reset `rst_ni`.
// - A stream is `*_valid`, `*_ready` and a payload. A source holds valid and payload until ready, and valid never
//   waits for ready.
// - Byte 0 of a frame or of a memory word is in bits 7:0 of a beat. Fields of headers are kept in host order here (the
//   most significant bit on the left), whatever their order on the wire.
// - Time is an input, counted in clock cycles. No block keeps a clock of its own, so a simulator may skip the cycles
//   in which nothing happens.

// Sizes of a build. A build flow that needs other sizes defines these macros before this file.
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
  // Number of queue pairs and of memory regions in the card. Powers of two.
  localparam int unsigned QueuePairs = `WEFT_QUEUE_PAIRS;
  localparam int unsigned Regions = `WEFT_REGIONS;
  localparam int unsigned SendQueueDepth = 64;
  localparam int unsigned ReceiveQueueDepth = 64;
  // READs and atomics that a peer may have outstanding on one queue pair, and whose results are kept for duplicates.
  localparam int unsigned ResponderResources = 16;
  // Request packets that one queue pair may have on the wire.
  localparam int unsigned WindowPackets = 64;
  // Bytes of one slot of the retransmission buffer: the longest payload plus one beat for its alignment, rounded up.
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

  // Whether `a` precedes `b` in the circular 24-bit PSN space. The 2^23 PSNs behind `b` precede it; `b` itself and
  // the PSNs after it do not (InfiniBand volume 1, clause 9.7.2).
  function automatic logic psn_before(psn_t a, psn_t b);
    psn_t difference = a - b;
    return difference[23];
  endfunction

  // Streams of bytes.

  typedef struct packed {
    logic                last;
    // Number of unused bytes at the end of the last beat.
    logic [5:0]          empty;
    logic [BeatBits-1:0] data;
  } beat_t;

  // Number of unused bytes at the end of a beat. `keep` marks the used bytes, which begin at byte 0 and leave no gap.
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
    // Congestion notification packet (CNP): not an opcode of the reliable connection (annex A17.9.3).
    CongestionNotification = 8'h81
  } opcode_e;

  // Syndromes of acknowledgements (clause 9.7.5.2.1).
  localparam logic [7:0] SyndromeAck = 8'h1f;  // no end-to-end credits
  localparam logic [2:0] SyndromeRnrPrefix = 3'b001;  // upper 3 bits; the low 5 bits hold the timer code
  localparam logic [7:0] SyndromeSequenceError = 8'h60;
  localparam logic [7:0] SyndromeInvalidRequest = 8'h61;
  localparam logic [7:0] SyndromeRemoteAccess = 8'h62;
  localparam logic [7:0] SyndromeRemoteOperational = 8'h63;
  localparam logic [7:0] SyndromeInvalidReadRequest = 8'h64;

  // Header fields that the receive path parsed from a RoCE packet. Its ICRC is right and its lengths are consistent.
  // Fields that the opcode does not have are undefined.
  typedef struct packed {
    logic [7:0]    opcode;
    logic          solicited;
    logic          acknowledge_request;
    logic          marked;               // the IP header says "congestion experienced" (ECN)
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
    logic [6:0]    payload_offset;       // offset of the payload's first byte in the frame: 54 to 82
    logic [12:0]   payload_bytes;        // without pad and ICRC; up to 8191, checked against the path MTU later
  } roce_header_t;

  // Attributes of a queue pair. Only the driver writes them, before it starts the queue pair.

  typedef struct packed {
    qpn_t          number;              // of this queue pair, as on the wire; its low bits are its index
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

  // Commands of the driver or of an engine to the state machines of a queue pair.
  typedef enum logic [2:0] {
    ControlReset,    // drop all requests and state, without completions
    ControlInit,     // accept receive requests; argument: access in the low 4 bits
    ControlReceive,  // INIT to RTR; argument: the PSN of the first request expected
    ControlSend,     // RTR to RTS; argument: the PSN of the first request to send
    ControlAccess,   // change the peer's access rights; argument: access in the low 4 bits
    ControlError     // flush all requests
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

  // Where the payload of a packet to send is read from: a target of regions, or the retransmission buffer.
  typedef struct packed {
    logic    retransmission;  // the address is in the retransmission buffer; target is ignored
    target_e target;
  } source_t;

  typedef struct packed {
    logic            valid;
    logic [31:0]     lkey;           // the region's index is in the low bits of both keys
    logic [31:0]     rkey;
    logic [15:0]     domain;
    address_t        base;
    logic [48:0]     length;
    access_t access;
    target_e         target;
    logic            write_through;  // writes also go to the same address of HBM
    logic            rpc;            // each completed WRITE is a call of the engine in `slot`
    logic [3:0]      slot;
  } region_t;

  // Why an access is refused. Checks are made in this order; the first that fails is reported.
  typedef enum logic [2:0] {
    AccessGranted,
    AccessUnknownKey,
    AccessWrongDomain,
    AccessOutOfBounds,
    AccessForbidden
  } access_verdict_e;

  typedef struct packed {
    logic        remote;   // `key` is an rkey; otherwise it is an lkey
    logic [31:0] key;
    logic [15:0] domain;
    logic [63:0] address;
    logic [31:0] bytes;
    access_t     needs;    // the region must grant all of these rights
  } access_request_t;

  typedef struct packed {
    access_verdict_e verdict;
    target_e         target;
    logic            write_through;
    logic            rpc;
    logic [3:0]      slot;
  } access_grant_t;

  // A memory transfer of one packet. It covers `bytes` from `address` on, with one beat for each 64-byte word that it
  // touches. Beats are aligned as in memory: the first byte is at `address % 64` of the first beat.
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

  // Queues in the host's memory (work_queues.sv): the registers that the host writes, and those that it reads.
  typedef struct packed {
    logic        enable;
    // the interrupt is asserted while a completion waits that the host has not consumed
    logic        interrupt_enable;
    logic [3:0]  post_size;            // log2 of the entries
    logic [3:0]  completion_size;
    address_t    post_base;            // multiples of 64
    address_t    completion_base;
    logic [15:0] post_produced;        // entries that the host has written since the queues were enabled
    logic [15:0] completion_consumed;  // entries that the host has consumed
  } queue_registers_t;

  typedef struct packed {
    logic        running;
    logic        overrun;              // the host announced more entries than the post queue has
    logic        fault;                // memory answered with an error
    logic [15:0] post_consumed;        // entries read by the card: the host may overwrite them
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
    logic         phase;          // of this pass through the queue: 1 in the first pass, then it alternates
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

  // A completed WRITE into an RPC region, which calls the engine in `slot`.
  typedef struct packed {
    logic [3:0]  slot;
    qp_index_t   qp;
    target_e     target;
    logic [63:0] address;
    logic [31:0] length;
    logic        has_immediate;
    logic [31:0] immediate;
  } rpc_call_t;

  // One beat, as it is written to memory, of a packet of a WRITE into an RPC region.
  typedef struct packed {
    qp_index_t   qp;
    logic        begins;   // the packet is the first of its message
    logic        ends;     // the packet is the last of its message: its call follows
    address_t    address;  // of the beat's byte 0: a multiple of 64
    write_beat_t beat;
  } rpc_beat_t;

  // What is done with a received packet. Requester and responder decide; the placement block executes their decisions
  // in packet order. It forwards the consequences (completion, call, answer) only when the payload is visible in
  // memory. So no receiver is notified of data that is not in memory yet, and a READ sees the WRITEs before it.

  // Commands of the responder to the responses block: what to answer to the peer.
  typedef enum logic [2:0] {
    AnswerNone,
    AnswerAcknowledge,  // acknowledge up to and including `psn`; may be merged into a later answer
    AnswerRefuse,       // a NAK with `syndrome` for `psn`
    AnswerRead,         // `length` bytes at `address`; the first response packet has `psn`
    AnswerAtomic        // `original`, with `psn`
  } answer_e;

  typedef struct packed {
    answer_e         kind;
    logic            duplicate;  // the request is a duplicate, already executed
    logic            part;       // it is a READ that ends before the original does
    psn_t            psn;
    psn_t            next;       // PSN of the request behind this one; undefined for duplicates
    psn_t            msn;        // messages executed so far
    logic [7:0]      syndrome;
    // slot that keeps this READ or atomic, and an atomic's original value, for duplicates
    resource_index_t resource;
    logic [63:0]     address;
    logic [31:0]     rkey;
    logic [31:0]     length;
    logic [63:0]     original;   // filled in by the placement block, also for duplicates
    logic            report;     // the packet behind this one is missing, which a NAK must say
    logic            kept;       // a NAK of a gap says that requests behind it are kept
  } answer_t;

  // Messages of the requester to the completer: how far a send queue has come.
  typedef enum logic [1:0] {
    AdvanceNone,
    AdvanceTo,     // requests that end at or before `psn` (exclusive) have succeeded
    AdvanceFault,  // as AdvanceTo; then the oldest request fails with `status` and all later ones are flushed
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
    logic        complete;    // a receive request completes
    completion_t completion;
    logic        call;
    rpc_call_t   rpc;
    answer_t     answer;
    advance_t    advance;
    logic        marker;      // a change of access rights, which applies to all packets behind it
  } consequence_t;

  typedef enum logic [2:0] {
    PlaceNothing,
    PlaceWrite,        // the payload goes to memory
    PlaceFetchAdd,     // add to the 8-byte word at `address`; its original value goes to resource `answer.resource`
    PlaceCompareSwap,  // the same with a compare and swap
    PlaceReorder       // the payload goes to `reorder_place`, until the request is next in turn
  } place_e;

  // A place for a request that arrived behind a gap: see `reorder`. A card may have fewer.
  typedef logic [5:0] reorder_place_t;

  typedef struct packed {
    // consumes the next packet; otherwise the decision is about no packet
    logic           packet;
    // the packet comes from `reorder_place`, not from the receive buffer
    logic           reordered;
    reorder_place_t reorder_place;
    place_e         place;
    target_e        target;
    logic           write_through;
    address_t       address;
    payload_bytes_t bytes;           // PlaceWrite: 1 to 4096
    logic [6:0]     offset;          // of the payload in the frame
    logic [31:0]    message_offset;  // of the payload in its message; of requests only
    logic [63:0]    swap_or_add;
    logic [63:0]    compare;
    logic           snoop;           // the payload also goes to the engines' dispatcher
    logic           begins;          // the packet is the first of its message
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
    logic keep;  // the data read is also copied to the retransmission buffer, at `keep_address`
    // A multiple of RetransmissionSlotBytes; the copy's first byte is at this address plus `transfer.address % 64`.
    address_t keep_address;
  } read_command_t;

  // Channels of AXI4, 512 bits wide, without identifiers, so all transactions stay in order. Bursts are incrementing,
  // consist of whole words, and do not cross 4 KiB.
  typedef struct packed {
    address_t   address;  // a multiple of 64
    logic [7:0] length;   // number of beats, less one
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
    // the payload is also copied to the retransmission buffer, at `keep_address`
    logic           keep;
    address_t       keep_address;
  } transmit_t;

  // Datagrams and other traffic beside the transport.

  typedef logic [7:0] socket_index_t;
  // Bytes of a frame or datagram: up to jumbo frames.
  typedef logic [13:0] frame_bytes_t;

  // An entry of the table of UDP sockets: the receiver of datagrams to a local UDP port.
  typedef struct packed {
    logic          valid;   // otherwise the socket is closed: datagrams to the port go to the host
    logic [15:0]   port;
    logic [3:0]    slot;    // the engine's slot
    socket_index_t socket;  // the engine's number for this socket
  } socket_entry_t;

  // A datagram that an engine receives; its payload follows, byte 0 first.
  typedef struct packed {
    socket_index_t socket;
    logic [3:0]    slot;
    ipv4_address_t source;
    logic [15:0]   source_port;
    logic [15:0]   destination_port;
    frame_bytes_t  bytes;             // of payload; 0: no beat follows
    cycles_t       timestamp;         // cycle in which the frame's first beat arrived
  } datagram_received_t;

  // A datagram to send; its payload follows, byte 0 first.
  typedef struct packed {
    ipv4_address_t destination;
    logic [15:0]   destination_port;
    logic [15:0]   source_port;
    frame_bytes_t  bytes;             // of payload; 0: no beat follows
    logic          stamp;             // report, with `tag`, the cycle in which the first beat leaves
    logic [7:0]    tag;
  } datagram_send_t;

  // Filter of the sniffer.
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
    logic drop_host_frame_size;  // the host sent a frame longer than the maximum
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

  // State of a queue pair's responder, as the driver reads it.
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
    logic rcvd_pkts;                // request packets; request_side counts the responses
    logic duplicate_request;
    logic out_of_seq_request;
    logic ack_deferred;             // of a request that was kept behind this one; responses counts the others
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
    // a receive request that the driver should not have posted; the soft twin has no such counter
    logic drop_receive_request;
  } responder_events_t;

  // Frames that are not RoCE.

  typedef enum logic [1:0] {
    OtherArp,       // a request or reply for Ethernet and IPv4, about any address
    OtherEcho,      // an echo request to this port's address
    OtherDatagram,  // a UDP datagram to this port's address, to any UDP port except RoCE v2's
    OtherHost       // all other frames: the host handles them
  } other_class_e;

  // Description of a frame that is not RoCE, from the receive path. All checksums in its headers are right.
  typedef struct packed {
    other_class_e  kind;
    frame_bytes_t  bytes;             // of the whole frame, including padding
    cycles_t       timestamp;         // cycle in which the first beat arrived
    mac_address_t  source_mac;
    ipv4_address_t source;            // of an echo or a datagram
    logic [15:0]   source_port;       // of a datagram
    logic [15:0]   destination_port;  // of a datagram
    frame_bytes_t  payload_bytes;     // of a datagram; it begins at byte 42 of the frame
  } other_frame_t;

  // Events of receive_path.
  typedef struct packed {
    logic frames_received;           // every frame that ends, good or bad
    logic frames_for_others;
    // wrong header, length or checksum below RoCE, or longer than the longest frame allowed
    logic frames_malformed;
    logic icrc_errors;
    logic roce_malformed;
    logic roce_received;
    logic drop_receive_error;        // the MAC marked the frame as bad
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

  // State of a queue pair's requester, as the driver reads it.
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
    logic rcvd_pkts;                // response packets; responder counts the requests
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
    logic violation_key;            // an access by the local user, not the peer (also the next three)
    logic violation_domain;
    logic violation_bounds;
    logic violation_permission;
    logic congestion_marks;         // packets with a congestion mark, and congestion notifications
    logic drop_unknown_queue_pair;
    logic drop_wrong_source;
    logic drop_wrong_state;
    logic drop_partition_key;
    logic drop_malformed;
    logic drop_ghost_response;
    logic drop_stale_response;
    logic drop_reserved_syndrome;
    logic post_overflow;            // driver error; the soft twin refuses such calls and does not count these three
    logic post_invalid;
    logic post_wrong_state;
  } request_side_events_t;

  // Header fields of a RoCE packet inside the receive path. Extended headers keep the frame's byte order.
  typedef struct packed {
    logic [7:0]    opcode;
    logic          solicited;
    logic          acknowledge_request;
    logic          marked;
    logic [15:0]   partition_key;
    qpn_t          destination_qp;
    psn_t          psn;
    ipv4_address_t source;
    logic [2:0]    words;                // length of the extended headers, in units of 4 bytes
    logic          original;             // has an AtomicAckETH
    logic          far_immediate;        // the immediate value is behind a RETH
    logic [223:0]  extended;             // the first byte on the left
  } roce_packet_t;

  // Between the blocks of the requester side.

  // Serial number of a request on its queue pair. The low bits are the request's index in the queue; the extra top
  // bit distinguishes a full queue from an empty one.
  typedef logic [$clog2(SendQueueDepth):0] send_serial_t;

  // State of the tail of a send queue.
  typedef struct packed {
    logic         open;      // requests may be posted
    send_serial_t tail;      // serial number of the next request to be posted
    psn_t         next_psn;  // PSN of that request's first packet
  } send_tail_t;

  // Fields of a request that determine its packets.
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

  // Fields of a request that are copied into headers unchanged.
  typedef struct packed {
    logic [63:0] remote_address;
    logic [31:0] rkey;
    logic [63:0] swap_or_add;  // or the immediate in its low bits: no request has both
    logic [63:0] compare;
  } send_wire_t;

  // Fields of a request that its completion needs.
  typedef struct packed {
    logic [63:0] id;
    operation_e  operation;
    logic        signaled;
    logic [31:0] length;
    psn_t        limit;
  } send_end_t;

  // Fields of a request that say whether its first packet must wait for earlier requests.
  typedef struct packed {
    logic fence;
    logic has_response;
  } send_wait_t;

  // The requester's decision about a placement.
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

  // The requester's decision about a packet to send.
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
