// Services on the path of payload, selected by queue pair and direction. A map changes payload, a tap observes it.
// Twin of crates/service/src/services/mod.rs.
//
// A flow without a setting passes unchanged. A tap's finding leaves as a verdict, once for each packet. When the
// transport has accepted the packet, the user returns the verdict, and only then the flow's state changes and the
// packet is judged: marked or not.
//
// Latency: `ServiceLatency` cycles from an input beat to the same output beat; `ServiceTapLatency` from a packet's
// last beat to its verdict; 2 cycles from an accepted verdict to its judgement. Throughput: a beat every cycle. Order:
// kept. Stalls: verdicts never; beats only while the output's queue is full because `out_ready_i` is low. After reset
// no beat is accepted until all settings are cleared, one each cycle.
//
// A new service is an instance below, and a line in the selection of results. The preprocessing is behind the other
// maps and passes the beats of other flows unchanged, so all beats have the same latency. All verdicts have that of the
// inspection.
module services
  import weft_pkg::*;
  import inspect_pkg::*;
  import preprocess_pkg::*;
  import services_pkg::*;
#(
  // 0 leaves the preprocessing out, and the latency is 3 cycles. Its flows then pass unchanged.
  parameter bit Preprocess = 1'b1,
  // 0 leaves the inspection out, and verdicts take 3 cycles. Those of its flows are then 0.
  parameter bit Inspect = 1'b1
) (
  input  logic                     clk_i,
  input  logic                     rst_ni,
  // Changes a flow's setting and clears its state. The setting applies from the next beat on; the flow must have no
  // packet in flight.
  input  logic                     configure_valid_i,
  output logic                     configure_ready_o,
  input  flow_t                    configure_flow_i,
  input  setting_t                 configure_i,
  input  rule_t                    configure_rule_i,
  input  logic                     in_valid_i,
  output logic                     in_ready_o,
  input  service_beat_t            in_i,
  output logic                     out_valid_o,
  input  logic                     out_ready_i,
  output service_beat_t            out_o,
  output logic                     verdict_valid_o,
  output tap_verdict_t             verdict_o,
  input  logic                     accept_valid_i,
  output logic                     accept_ready_o,
  input  tap_verdict_t             accept_i,
  // Follows each accepted verdict: whether the packet is marked.
  output logic                     judged_valid_o,
  output logic                     judged_marked_o,
  // The state is valid with `read_done_o`.
  input  logic                     read_valid_i,
  output logic                     read_ready_o,
  input  flow_t                    read_flow_i,
  output logic                     read_done_o,
  output logic              [63:0] read_state_o,
  // Writes to the tables of the preprocessing, whose pipelines must not be in use.
  input  logic                     preprocess_write_valid_i,
  input  preprocess_write_t        preprocess_write_i
);

  localparam int unsigned Flows = 2 * QueuePairs;
  localparam int unsigned FlowBits = $clog2(Flows);
  // Queue of beats behind the maps, with room for all beats in flight in front of it.
  localparam int unsigned InFlight = Preprocess ? ServiceLatency - 1 : 2;
  localparam int unsigned Depth = 2 ** $clog2(InFlight + 6);

  typedef enum logic [1:0] {
    AccessNone,
    AccessAccept,
    AccessRead
  } access_e;

  // Pending access to a flow's state.
  access_e               access_q;

  // Settings, written by `configure` and by the sweep after reset.

  logic     [FlowBits:0] sweep_q;
  logic                  sweeping;
  logic                  write;
  flow_t                 write_flow;
  setting_t              write_setting;
  rule_t                 write_rule;

  assign sweeping = !sweep_q[FlowBits];
  assign configure_ready_o = !sweeping && access_q == AccessNone;
  assign write = sweeping || (configure_valid_i && configure_ready_o);
  assign write_flow = sweeping ? sweep_q[FlowBits-1:0] : configure_flow_i;
  assign write_setting = sweeping ? '0 : configure_i;
  assign write_rule = sweeping ? '0 : configure_rule_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) sweep_q <= '0;
    else if (sweeping) sweep_q <= sweep_q + 1'b1;
  end

  // Beats: the setting is read in the first cycle, XOR and the taps compute in the second, the preprocessing follows.

  logic                            take;
  logic                            looked_q;
  service_beat_t                   looked_beat_q;
  setting_t                        setting;
  logic                            mapped_q;
  service_beat_t                   mapped_beat_q;
  map_e                            map_q;
  logic          [           63:0] value_q;
  logic          [   BeatBits-1:0] xored;
  service_beat_t                   mapped_beat;
  logic                            done;
  service_beat_t                   done_beat;
  logic          [$clog2(Depth):0] level;

  assign in_ready_o = !sweeping && level < ($clog2(Depth) + 1)'(Depth - InFlight);
  assign take = in_valid_i && in_ready_o;

  ram #(
    .T    (setting_t),
    .Depth(Flows)
  ) i_settings (
    .clk_i,
    .write_i        (write),
    .write_address_i(write_flow),
    .write_data_i   (write_setting),
    .read_i         (take),
    .read_address_i (in_i.flow),
    .read_data_o    (setting)
  );

  xor_service i_xor (
    .clk_i,
    .value_i(setting.value),
    .beat_i (looked_beat_q),
    .data_o (xored)
  );

  always_ff @(posedge clk_i) begin
    if (take) looked_beat_q <= in_i;
    mapped_beat_q <= looked_beat_q;
    map_q <= setting.map;
    value_q <= setting.value;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      looked_q <= 1'b0;
      mapped_q <= 1'b0;
    end else begin
      looked_q <= take;
      mapped_q <= looked_q;
    end
  end

  always_comb begin
    mapped_beat = mapped_beat_q;
    if (map_q == MapXor) mapped_beat.data = xored;
  end

  if (Preprocess) begin : gen_preprocess
    preprocess_service i_preprocess (
      .clk_i,
      .rst_ni,
      .write_valid_i(preprocess_write_valid_i),
      .write_i      (preprocess_write_i),
      .valid_i      (mapped_q),
      .apply_i      (map_q == MapPreprocess),
      .pipeline_i   (value_q),
      .beat_i       (mapped_beat),
      .valid_o      (done),
      .beat_o       (done_beat)
    );
  end else begin : gen_none
    assign done = mapped_q;
    assign done_beat = mapped_beat;
  end

  fifo #(
    .T    (service_beat_t),
    .Depth(Depth)
  ) i_out (
    .clk_i,
    .rst_ni,
    .in_valid_i(done),
    /* verilator lint_off PINCONNECTEMPTY */  // flow control uses its level
    .in_ready_o(),
    /* verilator lint_on PINCONNECTEMPTY */
    .in_i      (done_beat),
    .out_valid_o,
    .out_ready_i,
    .out_o,
    .level_o   (level)
  );

  // Taps.

  localparam int unsigned CountLatency = 2;
  localparam int unsigned TapLatency = Inspect ? InspectLatency : CountLatency;

  // What passes beside a tap.
  typedef struct packed {
    tap_e tap;
    flow_t flow;
  } tapped_t;

  tap_verdict_t                  accept_q;
  tapped_t                       tapped;
  logic         [TapLatency-1:0] tap_last_q;
  logic         [          31:0] counted_early;
  logic         [          31:0] counted;
  logic         [          31:0] inspected;
  logic         [          63:0] state;
  logic         [          63:0] state_counted;
  logic         [          63:0] state_inspected;

  count_service i_count (
    .clk_i,
    .rst_ni,
    .valid_i   (looked_q),
    .beat_i    (looked_beat_q),
    .verdict_o (counted_early),
    .state_i   (state),
    .accepted_i(accept_q.verdict),
    .state_o   (state_counted)
  );

  if (Inspect) begin : gen_inspect
    inspect_service i_inspect (
      .clk_i,
      .rst_ni,
      .valid_i   (looked_q),
      .beat_i    (looked_beat_q),
      .verdict_o (inspected),
      .state_i   (state),
      .accepted_i(accept_q.verdict),
      .state_o   (state_inspected)
    );

    delay #(
      .T     (logic [31:0]),
      .Cycles(TapLatency - CountLatency)
    ) i_counted (
      .clk_i,
      .in_i (counted_early),
      .out_o(counted)
    );
  end else begin : gen_no_inspect
    assign inspected = '0;
    assign state_inspected = state;
    assign counted = counted_early;
  end

  delay #(
    .T     (tapped_t),
    .Cycles(TapLatency)
  ) i_tapped (
    .clk_i,
    .in_i ('{tap: setting.tap, flow : looked_beat_q.flow}),
    .out_o(tapped)
  );

  always_ff @(posedge clk_i) begin
    tap_last_q <= rst_ni ? {tap_last_q[TapLatency-2:0], looked_q && looked_beat_q.last} : '0;
  end

  assign verdict_valid_o = tap_last_q[TapLatency-1];

  always_comb begin
    verdict_o = '{flow : tapped.flow, verdict: '0};
    if (tapped.tap == TapCount) verdict_o.verdict = counted;
    if (tapped.tap == TapInspect) verdict_o.verdict = inspected;
  end

  // States: one access every other cycle, and no setting changes in between, so no access overtakes another. A new
  // setting clears the state; a returned verdict updates it.

  // What is read with a state.
  typedef struct packed {
    tap_e  tap;
    rule_t rule;
  } judge_t;

  judge_t judge;
  tap_e   accept_tap;
  logic   reads;

  assign accept_tap = judge.tap;

  assign read_ready_o = access_q == AccessNone && !write && !accept_valid_i;
  assign accept_ready_o = access_q == AccessNone && !write;
  assign reads = (accept_valid_i && accept_ready_o) || (read_valid_i && read_ready_o);

  always_ff @(posedge clk_i) begin
    if (reads) accept_q <= accept_valid_i ? accept_i : '{flow : read_flow_i, verdict: '0};
    if (!rst_ni) access_q <= AccessNone;
    else if (reads) access_q <= accept_valid_i ? AccessAccept : AccessRead;
    else access_q <= AccessNone;
  end

  ram #(
    .T    (judge_t),
    .Depth(Flows)
  ) i_judges (
    .clk_i,
    .write_i        (write),
    .write_address_i(write_flow),
    .write_data_i   ({write_setting.tap, write_rule}),
    .read_i         (reads),
    .read_address_i (accept_valid_i ? accept_i.flow : read_flow_i),
    .read_data_o    (judge)
  );

  logic         state_write;
  flow_t        state_flow;
  logic  [63:0] state_data;

  assign state_write = write || (access_q == AccessAccept && accept_tap != TapNone);
  assign state_flow  = write ? write_flow : accept_q.flow;
  assign state_data  = write ? '0 : accept_tap == TapInspect ? state_inspected : state_counted;

  ram #(
    .T    (logic [63:0]),
    .Depth(Flows)
  ) i_states (
    .clk_i,
    .write_i        (state_write),
    .write_address_i(state_flow),
    .write_data_i   (state_data),
    .read_i         (reads),
    .read_address_i (accept_valid_i ? accept_i.flow : read_flow_i),
    .read_data_o    (state)
  );

  // Actions. The level of an inspection is its score.

  logic [31:0] found;
  logic        marks;

  assign found = accept_tap == TapInspect ? {2'd0, accept_q.verdict[29:0]} : accept_q.verdict;
  assign marks = accept_tap != TapNone && judge.rule.action == ActionMark && found >= judge.rule.threshold;

  always_ff @(posedge clk_i) begin
    judged_valid_o  <= rst_ni && access_q == AccessAccept;
    judged_marked_o <= marks;
  end

  assign read_done_o  = access_q == AccessRead;
  assign read_state_o = state;

endmodule
