// The engine interface in the gateware: events for an engine and its messages, with the vocabulary of crates/waist.
//
// An engine receives one stream of events, each followed by its payload if it has one, and sends one stream of
// messages, each followed by its payload. Payloads start at byte 0 of a beat; all beats but the last are full. A
// payload has no gaps: an engine offers a message only when it can send the payload without a pause, because a frame
// on the wire cannot pause.
package engines_pkg;

  import weft_pkg::*;

  // The maximum number of nodes in a cluster.
  localparam int unsigned NodesMax = 16;

  // Datagrams between engines: crates/wire/src/datagram.rs.
  localparam logic [15:0] DatagramPort = 16'd4793;

  typedef logic [3:0] node_t;
  typedef logic [NodesMax-1:0] node_set_t;
  typedef logic [31:0] epoch_t;
  // Length of one message of an engine.
  typedef logic [15:0] message_bytes_t;

  // The caller, and therefore the destination of the reply.
  typedef enum logic [1:0] {
    CallerEndpoint,  // a client on the network
    CallerHost,  // this node's host; its token is in `address`
    // a peer that wrote to an RPC region; `address` holds the queue pair, and above it the queue pair's incarnation
    CallerQueuePair
  } caller_kind_e;

  typedef struct packed {
    caller_kind_e  kind;
    mac_address_t  mac;      // MAC address from which the request came, and to which the answer goes
    ipv4_address_t address;
    logic [15:0]   port;
  } caller_t;

  // Number of resets of a queue pair, modulo 256. A reply is sent only to the incarnation that made the call.
  typedef logic [7:0] incarnation_t;

  // Size of the word that names the operation of a call or the kind of an answer over a queue pair.
  localparam int unsigned RpcWordBytes = 8;
  // Limits: answers in flight on one queue pair, and the size of one in bytes, including its word.
  localparam int unsigned Replies = 16;
  localparam int unsigned ReplyBytes = 2048;

  typedef logic [$clog2(Replies)-1:0] reply_index_t;

  // A buffer for an answer over a queue pair.
  typedef struct packed {
    qp_index_t    qp;
    incarnation_t incarnation;
    reply_index_t index;
  } reply_slot_t;

  typedef enum logic [2:0] {
    EventReset,      // return to the state at power-on
    EventConfigure,  // the configuration changed
    EventCall,
    EventDeliver,
    EventDone,       // a posted work request completed
    EventTimer
  } engine_event_e;

  typedef struct packed {
    engine_event_e  kind;
    logic           last;     // no further event of the same batch follows immediately
    node_t from;              // EventDeliver: the peer
    caller_t        caller;   // EventCall
    logic [7:0]     message;  // kind of the message, in the engine's own numbering
    message_bytes_t bytes;    // of the payload that follows
    logic [63:0]    tag;      // EventDone: tag of the work request; EventTimer: number of the timer
    logic [4:0]     status;   // EventDone
  } engine_event_t;

  typedef struct packed {
    logic           reply;    // 1: to `caller`; 0: to all nodes in `to`
    node_set_t      to;
    caller_t        caller;
    logic [7:0]     message;  // kind of the message
    message_bytes_t bytes;    // of the payload that follows
  } engine_message_t;

  // The host's settings, valid with EventConfigure.
  typedef struct packed {
    node_t     node;
    epoch_t    epoch;
    node_set_t full;
    node_set_t joining;
    cycles_t   lease_until;
  } engine_configuration_t;

  typedef enum logic [2:0] {
    EngineStarting,
    EngineJoining,
    EngineSynced,    // joining, and all state has been transferred
    EngineFull,
    EngineLost
  } engine_state_e;

  typedef struct packed {
    epoch_t        epoch;
    engine_state_e state;
  } engine_status_t;

  // A peer, as the host configured it.
  typedef struct packed {
    logic          valid;
    ipv4_address_t address;
  } peer_t;

  // A message of a received datagram. Its payload follows.
  typedef struct packed {
    logic           last;     // the next message of the datagram, if any, is for another engine
    logic           peer;     // 1: from the peer `from`; 0: from the client `caller`
    node_t from;
    caller_t        caller;
    logic [7:0]     engine;
    logic [7:0]     message;
    message_bytes_t bytes;
  } message_received_t;

  // Registers that control the engine and its slot.
  typedef struct packed {
    logic                  enable;                    // Weft datagrams are delivered to the engine
    logic                  acknowledge_after_memory;
    logic [2:0]            planted_bug;
    logic [15:0]           bucket_mask;
    logic [31:0]           retransmit;                // cycles
    logic [31:0]           retransmit_max;
    engine_configuration_t configuration;
    // a pulse, as are `reset` and all fields that end in `valid` or `done`
    logic                  configure;
    logic                  reset;
    logic                  peer_valid;
    node_t                 peer_node;
    peer_t                 peer;
    logic                  word_valid;
    logic [31:0]           word;
    logic                  call_valid;
    logic [31:0]           token;
    logic [7:0]            kind;
    message_bytes_t        bytes;
    logic                  answer_next;
    logic                  answer_done;
    address_t              reply_base;                // start of the buffers for answers over queue pairs, in HBM
    logic [31:0]           reply_lkey;
  } engine_registers_t;

  // Registers that the engine and its slot provide.
  typedef struct packed {
    engine_status_t status;
    logic           busy;
    logic           call_busy;
    logic           answered;
    logic [31:0]    answer_token;
    logic [7:0]     answer_kind;
    message_bytes_t answer_bytes;
    logic [31:0]    answer_word;
  } engine_readings_t;

  // Events of engine_slot.
  typedef struct packed {logic messages_delivered;} engine_slot_events_t;

  // Events of queue_pair_calls.
  typedef struct packed {
    logic messages_without_engine;
    logic rpc_malformed;            // no word names the operation
    logic calls_without_buffer;     // too long, or no free buffer
  } queue_pair_calls_events_t;

  // Events of queue_pair_replies.
  typedef struct packed {
    logic replies_without_buffer;  // too long, or no free buffer
    logic replies_refused;         // refused by their queue pair
  } queue_pair_replies_events_t;

  // Events of datagram_receive.
  typedef struct packed {
    logic datagrams_received;
    logic datagrams_malformed;
    logic drop_datagram_buffer_full;
    logic messages_without_engine;
    logic messages_malformed;         // counted once; all later messages of the datagram are dropped, too
  } datagram_receive_events_t;

  // Events of message_transmit.
  typedef struct packed {
    logic datagrams_sent;
    logic messages_without_peer;       // counted once for each peer
    logic messages_without_neighbour;  // counted once for each peer
    logic messages_too_large;
  } message_transmit_events_t;

endpackage
