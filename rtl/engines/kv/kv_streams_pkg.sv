// Types between the parts of kv_streams.
package kv_streams_pkg;

  import engines_pkg::*;
  import kv_pkg::*;

  typedef logic [Streams-1:0] stream_set_t;

  // Timers: those of followed streams are numbered as the streams, then these.
  localparam logic [4:0] TimerLead = 5'd16;
  localparam logic [4:0] TimerSeal = 5'd17;
  localparam logic [4:0] TimerTransfer = 5'd18;

  // Paces: those of followed streams first, then these. Their timers' tags are 16 higher less `Streams`.
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
    logic      complete;      // its table is
    epoch_t    base;          // whose streams the windows hold, 0 if there is none
    node_set_t base_members;
  } membership_t;

  // Change of role and view.
  typedef struct packed {
    logic  lease;     // node and lease are the configuration's
    logic  view;      // the view is
    logic  base;      // the view's epoch is the base
    logic  nothing;   // there is no base
    logic  forgets;   // with `nothing`: nor anything else
    role_e role;      // from now on, as the next
    logic  complete;
  } membership_change_t;

  // An operation, and the relation of its numbers to those of its stream.
  typedef struct packed {
    op_kind_e    kind;
    node_t from;
    stream_t     stream;
    logic        leads;         // a Request: this node leads its key
    logic        older;         // its epoch is
    logic        newer;
    logic        other_stream;  // is_other_stream
    logic        follows;       // it comes from a stream that this node follows
    logic        accepts;       // a Write that is the next of its stream; if there is room
    logic        repeated;      // accepted before
    logic        gaps;          // not the next
    logic        empty;         // nothing is undecided
    logic        advances;      // more is committed than was known
    logic        reaches;       // all that is accepted is
    logic        beyond;        // more is acknowledged than is accepted
    logic        behind;        // less than is committed
  } look_t;

  // Change of a stream's lengths.
  typedef struct packed {
    stream_t stream;
    logic    accepts;
    number_t accepted;
    logic    commits;
    number_t committed;
  } lengths_change_t;

  // From what client, request, key and operation of a message come.
  typedef enum logic [1:0] {
    AboutOp,
    AboutEntry,  // that was read
    AboutTaken   // a read that waited
  } about_e;

  // A message that is to be put together; what its kind does not have is not looked at.
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
