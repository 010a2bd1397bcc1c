// The waist in gates: what an engine is told and what it answers, the same vocabulary as crates/waist.
//
// An engine takes one stream of events, each followed by its payload if it has one, and gives one stream of messages,
// each followed by its payload. Payloads lie from byte 0 of a beat on; all beats but the last are full. Nothing in
// them pauses: an engine offers a message only when its payload follows without a gap, because a frame on the wire
// cannot wait.
package engines_pkg;

  import weft_pkg::*;

  // The most nodes in a cluster.
  localparam int unsigned NodesMax = 16;

  // Datagrams between engines: crates/wire/src/datagram.rs.
  localparam logic [15:0] DatagramPort = 16'd4793;

  typedef logic [3:0] node_t;
  typedef logic [NodesMax-1:0] node_set_t;
  typedef logic [31:0] epoch_t;
  // Of one engine's message.
  typedef logic [15:0] message_bytes_t;

  // The caller, and therefore the destination of the reply.
  typedef enum logic [1:0] {
    CallerEndpoint,  // a client on the network
    CallerHost,  // this node's host; its token is in `address`
    CallerQueuePair  // a peer that wrote to an RPC region; `address` is the queue pair, above its incarnation
  } caller_kind_e;

  typedef struct packed {
    caller_kind_e  kind;
    mac_address_t  mac;      // of the station that the request came from: the answer goes back there
    ipv4_address_t address;
    logic [15:0]   port;
  } caller_t;

  // Number of resets of a queue pair: a reply reaches the incarnation that called, or none.
  typedef logic [7:0] incarnation_t;

  // The word of a call or an answer over a queue pair that names the operation.
  localparam int unsigned RpcWordBytes = 8;
  // Answers that one queue pair may have on their way, and the most bytes of one, with its word.
  localparam int unsigned Replies = 16;
  localparam int unsigned ReplyBytes = 2048;

  typedef logic [$clog2(Replies)-1:0] reply_index_t;

  // A buffer for an answer.
  typedef struct packed {
    qp_index_t    qp;
    incarnation_t incarnation;
    reply_index_t index;
  } reply_slot_t;

  typedef enum logic [2:0] {
    EventReset,      // everything is to be as at power-on
    EventConfigure,  // the configuration has changed
    EventCall,
    EventDeliver,
    EventDone,       // what was posted has ended
    EventTimer
  } engine_event_e;

  typedef struct packed {
    engine_event_e  kind;
    logic           last;     // nothing follows at once from the same batch
    node_t from;              // EventDeliver: the peer
    caller_t        caller;   // EventCall
    logic [7:0]     message;  // kind of the message, in the engine's own numbering
    message_bytes_t bytes;    // of the payload that follows
    logic [63:0]    tag;      // EventDone: of the post; EventTimer: of the timer
    logic [4:0]     status;   // EventDone
  } engine_event_t;

  typedef struct packed {
    logic           reply;    // to `caller`; otherwise to all of `to`
    node_set_t      to;
    caller_t        caller;
    logic [7:0]     message;  // its kind
    message_bytes_t bytes;    // of the payload that follows
  } engine_message_t;

  // The host's settings; the engine takes them with the event.
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
    EngineSynced,    // joining, and all data has come
    EngineFull,
    EngineLost
  } engine_state_e;

  typedef struct packed {
    epoch_t        epoch;
    engine_state_e state;
  } engine_status_t;

  // A peer, as the host has set it.
  typedef struct packed {
    logic          valid;
    ipv4_address_t address;
  } peer_t;

  // A message of a datagram, as it comes in. Its payload follows.
  typedef struct packed {
    logic           last;     // the next message of the datagram, if any, is for another engine
    logic           peer;     // a peer's, `from`; otherwise a client's, `caller`
    node_t from;
    caller_t        caller;
    logic [7:0]     engine;
    logic [7:0]     message;
    message_bytes_t bytes;
  } message_received_t;

  // Registers that the engine's slot reads.
  typedef struct packed {
    logic                  enable;                    // Weft datagrams are the engine's
    logic                  acknowledge_after_memory;
    logic [2:0]            planted_bug;
    logic [15:0]           bucket_mask;
    logic [31:0]           retransmit;                // cycles
    logic [31:0]           retransmit_max;
    engine_configuration_t configuration;
    logic                  configure;                 // these two, and those that end in `valid`, are pulses
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
    address_t              reply_base;                // of the buffers of answers over queue pairs, in HBM
    logic [31:0]           reply_lkey;
  } engine_registers_t;

  // And what they read there.
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
    logic rpc_malformed;            // without a word that names the operation
    logic calls_without_buffer;     // too long, or there is none
  } queue_pair_calls_events_t;

  // Events of queue_pair_replies.
  typedef struct packed {
    logic replies_without_buffer;  // too long, or there is none
    logic replies_refused;         // by their queue pair
  } queue_pair_replies_events_t;

  // Events of datagram_receive.
  typedef struct packed {
    logic datagrams_received;
    logic datagrams_malformed;
    logic drop_datagram_buffer_full;
    logic messages_without_engine;
    logic messages_malformed;         // the rest of its datagram is dropped with it
  } datagram_receive_events_t;

  // Events of message_transmit.
  typedef struct packed {
    logic datagrams_sent;
    logic messages_without_peer;       // once for each
    logic messages_without_neighbour;  // once for each
    logic messages_too_large;
  } message_transmit_events_t;

endpackage
