// Answers a read with the table's result: the value with its version, or that the key is absent.
//
// Latency: none; the table's result is passed to kv_outgoing directly, the value's beats beside the message.
// Throughput: that of the table and of kv_outgoing. Order: kept. Stalls: when kv_outgoing does.
module kv_lookup_reply
  import weft_pkg::*;
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_messages_pkg::*;
(
  // The current view.
  input  epoch_t                  epoch_i,
  input  node_set_t               full_i,
  // Results of LookupRead only. The value follows its result without a gap.
  input  logic                    result_valid_i,
  output logic                    result_ready_o,
  input  looked_up_t              result_i,
  input  logic                    result_value_valid_i,
  output logic                    result_value_ready_o,
  input  beat_t                   result_value_i,
  // The value is attached.
  output logic                    outgoing_valid_o,
  input  logic                    outgoing_ready_i,
  output outgoing_t               outgoing_o,
  output logic                    attached_valid_o,
  input  logic                    attached_ready_i,
  output beat_t                   attached_o,
  output kv_lookup_reply_events_t events_o
);

  assign outgoing_valid_o = result_valid_i;
  assign result_ready_o = outgoing_ready_i;
  assign outgoing_o = reply(
      result_i.asker,
      result_i.found ? StatusOk : StatusNotFound,
      result_i.found ? result_i.version : '0,
      epoch_i,
      full_i,
      ValueAttached,
      result_i.found ? result_i.value_bytes : '0,
      '0,
      '0
  );
  assign attached_valid_o = result_value_valid_i;
  assign result_value_ready_o = attached_ready_i;
  assign attached_o = result_value_i;
  assign events_o.reads = result_valid_i && outgoing_ready_i;

endmodule
