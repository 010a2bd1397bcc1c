// Types of the services on the data path.
package services_pkg;

  import weft_pkg::*;
  import inspect_pkg::*;
  import preprocess_pkg::*;

  // Latencies of `services` in cycles: of a beat, and from a packet's last beat to its verdict.
  localparam int unsigned ServiceLatency = 3 + PreprocessLatency;
  localparam int unsigned ServiceTapLatency = 1 + InspectLatency;

  // Services that change or observe payload. The numbers are those of crates/service/src/services/mod.rs.
  typedef enum logic [3:0] {
    MapNone       = 4'd0,
    MapXor        = 4'd1,
    MapPreprocess = 4'd2
  } map_e;

  typedef enum logic [3:0] {
    TapNone    = 4'd0,
    TapCount   = 4'd1,
    TapInspect = 4'd2
  } tap_e;

  // One direction of one queue pair.
  typedef struct packed {
    qp_index_t qp;
    logic      transmit;
  } flow_t;

  // Configuration of a flow.
  typedef struct packed {
    map_e        map;
    tap_e        tap;
    logic [63:0] value;
  } setting_t;

  // What a tap's verdict does besides changing the flow's state. The numbers are those of
  // crates/service/src/services/mod.rs.
  typedef enum logic [3:0] {
    ActionNone = 4'd0,
    ActionMark = 4'd1   // marks the receive completion of a message with a packet whose level reaches the threshold
  } action_e;

  typedef struct packed {
    action_e     action;
    logic [31:0] threshold;
  } rule_t;

  // `vendor_error` of a receive request that has succeeded, if a packet of its message is marked.
  localparam logic [7:0] CompletionMarked = 8'd1;

  // Registers of `service_port` that a driver writes: parts of a value, or a command that uses them.
  typedef enum logic [3:0] {
    ServiceFlow      = 4'd0,  // bit 0: transmit; above it the queue pair
    ServiceKinds     = 4'd1,  // bits 3 to 0: `map_e`; bits 7 to 4: `tap_e`; bits 11 to 8: `action_e`
    ServiceValueLow  = 4'd2,
    ServiceValueHigh = 4'd3,
    ServiceConfigure = 4'd4,  // sets the services of the flow, and clears its state
    ServiceRead      = 4'd5,  // reads the state of the flow
    ServiceEntry     = 4'd6,  // bits 9 to 0: the address; bits 11 and 10: `preprocess_table_e`; writes the entry
    ServiceThreshold = 4'd7,  // of the action
    ServiceEntry0    = 4'd8   // the first of six words of an entry, the lowest first
  } service_register_e;

  localparam int unsigned ServiceEntryWords = 6;

  // The driver's write to a register of `service_port`, and what it reads.
  typedef struct packed {
    logic              valid;
    service_register_e index;
    logic [31:0]       data;
  } service_registers_t;

  typedef struct packed {
    logic        present;
    logic        busy;     // a command is being executed; meanwhile writes are ignored
    logic [63:0] state;    // of the flow that was read last
  } service_readings_t;

  // A beat of a packet's payload. Bytes are aligned by their offset in the message (or in the region, for the
  // response of a READ): offset n is in lane n % 64. The bytes of a packet are contiguous.
  typedef struct packed {
    flow_t flow;
    logic [57:0]          word;    // offset of lane 0, divided by 64
    logic                 last;    // last beat of the packet
    logic [BeatBytes-1:0] strobe;
    logic [BeatBits-1:0]  data;
  } service_beat_t;

  // Verdict of a tap on a packet.
  typedef struct packed {
    flow_t flow;
    logic [31:0] verdict;
  } tap_verdict_t;

endpackage
