// Types between the parts of kv_streams.
package kv_streams_pkg;

  import engines_pkg::*;
  import kv_pkg::*;

  typedef logic [Streams-1:0] stream_set_t;

  // Timers: those of followed streams have the numbers of the streams; then come these.
  localparam logic [4:0] TimerLead = 5'd16;
  localparam logic [4:0] TimerSeal = 5'd17;
  localparam logic [4:0] TimerTransfer = 5'd18;

  // Paces: those of followed streams first, then these. The tag of their timers is higher by 16 - `Streams`.
  typedef logic [3:0] pace_t;
  localparam pace_t PaceLead = 4'd8;
  localparam pace_t PaceSeal = 4'd9;
  localparam pace_t PaceTransfer = 4'd10;

  // To kv_pace.
  typedef struct packed {
    pace_t pace;
    logic  fire;
    logic  progress;
    logic  arm;
  } pace_command_t;

  // Role of a node, and its view.
  typedef struct packed {
    node_t     node;
    epoch_t    epoch;
    node_set_t full;
    node_set_t joining;
    role_e     role;
    logic      complete;      // the node's table is complete
    epoch_t    base;          // epoch of the streams in the windows; 0 if there is none
    node_set_t base_members;
  } membership_t;

  // Change of role and view.
  typedef struct packed {
    logic  lease;     // takes node and lease from the configuration
    logic  view;      // takes the view from the configuration
    logic  base;      // makes the view's epoch the base
    logic  nothing;   // clears the base
    logic  forgets;   // with `nothing`: clears everything else, too
    role_e role;      // new role, as is the next field
    logic  complete;
  } membership_change_t;

  // An operation, and how its epoch and numbers relate to the node's view and to its stream.
  typedef struct packed {
    op_kind_e    kind;
    node_t from;
    stream_t     stream;
    logic        leads;         // a Request whose key this node leads
    logic        older;         // its epoch is older than the node's
    logic        newer;
    logic        other_stream;  // its epoch is another one, so it is dropped (`is_other_stream`)
    logic        follows;       // it comes from a stream that this node follows
    logic        accepts;       // a Write that is the next of its stream; it is accepted if there is room
    logic        repeated;      // a Write that was accepted before
    logic        gaps;          // a Write that is not the next
    logic        empty;         // no entry of the stream is undecided
    logic        advances;      // it raises the committed length
    logic        reaches;       // it commits all accepted entries
    logic        beyond;        // it acknowledges more than was accepted
    logic        behind;        // it acknowledges less than was committed
  } look_t;

  // Change of a stream's lengths.
  typedef struct packed {
    stream_t stream;
    logic    accepts;
    number_t accepted;
    logic    commits;
    number_t committed;
  } lengths_change_t;

  // The source of the client, request, key and operation of a message.
  typedef enum logic [1:0] {
    AboutOp,
    AboutEntry,  // an entry that was read
    AboutTaken   // a waiting read that was taken
  } about_e;

  // A message to be composed. Fields that its kind does not have are ignored.
  typedef struct packed {
    kind_e         kind;
    node_set_t     to;
    reply_status_e status;
    version_t      version;
    value_bytes_t  value_bytes;  // of the value at `place` of `stream`
    stream_t       stream;
    window_place_t place;
    logic          asks;
    logic          gap;
    number_t       number;
    number_t       committed;
  } say_t;

endpackage
