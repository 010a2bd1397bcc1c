// The key-value engine: the twin of crates/engines/kv, whose documentation tells the protocol.
//
// An event becomes an operation (kv_intake), operations are carried out one after another (kv_streams), and what they commit
// is carried to the table, the sessions and the callers behind them (kv_committer). Messages leave through kv_outgoing.
//
// Latency, when nothing else is inside: a Write is acknowledged 7 cycles after its event, an Acknowledge commits 7 cycles
// after it. Order: events are carried out in their order; messages to one node leave in the order in which they were caused.
// Stalls: its events while an operation is being carried out, and while messages are not taken.
module kv
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
#(
  parameter bit PlantedBugs = 1'b0  // whether `planted_bug_i` counts
) (
  input  logic                        clk_i,
  input  logic                        rst_ni,
  input  cycles_t                     now_i,
  // Events, each followed by its payload if it has bytes.
  input  logic                        event_valid_i,
  output logic                        event_ready_o,
  input  engine_event_t               event_i,
  input  logic                        payload_valid_i,
  output logic                        payload_ready_o,
  input  beat_t                       payload_i,
  // Taken with EventConfigure.
  input  engine_configuration_t       configuration_i,
  // These stay as they are from reset on.
  input  bucket_t                     bucket_mask_i,
  input  logic                        acknowledge_after_memory_i,
  input  planted_bug_e                planted_bug_i,
  output engine_status_t              status_o,
  // Messages, each followed by its payload, which never pauses once begun.
  output logic                        message_valid_o,
  input  logic                        message_ready_i,
  output engine_message_t             message_o,
  output logic                        body_valid_o,
  input  logic                        body_ready_i,
  output beat_t                       body_o,
  // Sets a timer, or moves it; always taken.
  output logic                        timer_valid_o,
  output logic                  [4:0] timer_tag_o,
  output cycles_t                     timer_at_o,
  output logic                        memory_aw_valid_o,
  input  logic                        memory_aw_ready_i,
  output axi_address_t                memory_aw_o,
  output logic                        memory_w_valid_o,
  input  logic                        memory_w_ready_i,
  output write_beat_t                 memory_w_o,
  input  logic                        memory_b_valid_i,
  input  logic                  [1:0] memory_b_response_i,
  output logic                        memory_ar_valid_o,
  input  logic                        memory_ar_ready_i,
  output axi_address_t                memory_ar_o,
  input  logic                        memory_r_valid_i,
  output logic                        memory_r_ready_o,
  input  axi_read_t                   memory_r_i,
  output kv_events_t                  events_o,
  // Nothing is inside; timers are outside.
  output logic                        idle_o
);

  assign event_ready_o = 1'b1;
  assign payload_ready_o = 1'b1;
  assign status_o = '{epoch: '0, state: EngineStarting};
  assign message_valid_o = 1'b0;
  assign message_o = '0;
  assign body_valid_o = 1'b0;
  assign body_o = '0;
  assign timer_valid_o = 1'b0;
  assign timer_tag_o = '0;
  assign timer_at_o = '0;
  assign memory_aw_valid_o = 1'b0;
  assign memory_aw_o = '0;
  assign memory_w_valid_o = 1'b0;
  assign memory_w_o = '0;
  assign memory_ar_valid_o = 1'b0;
  assign memory_ar_o = '0;
  assign memory_r_ready_o = 1'b1;
  assign events_o = '0;
  assign idle_o = 1'b1;

  // A skeleton: nothing is looked at.
  logic unused;
  assign unused = &{1'b0, clk_i, rst_ni, now_i, event_valid_i, event_i, payload_valid_i, payload_i, configuration_i,
                    bucket_mask_i, acknowledge_after_memory_i, planted_bug_i, message_ready_i, body_ready_i,
                    memory_aw_ready_i, memory_w_ready_i, memory_b_valid_i, memory_b_response_i, memory_ar_ready_i,
                    memory_r_valid_i, memory_r_i, 1'(PlantedBugs)};

endmodule
