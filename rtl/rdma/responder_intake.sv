// Merges all events other than packets that change the state of queue pairs, one at a time. Priority: changes of
// access rights, control, faults, flushes, queries, receive requests.
//
// Latency: 1 cycle. Throughput: one event in 2 cycles; at most one each of control, receive request, flush and query
// in progress. Order: kept within each source. Stalls: all sources but flushes while `quiet_i` is low; all sources
// while an event waits.
module responder_intake
  import weft_pkg::*;
  import responder_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,
  // There is room in the list of queue pairs to flush.
  input logic quiet_i,

  input  logic      permission_valid_i,
  output logic      permission_ready_o,
  input  qp_index_t permission_qp_i,
  input  access_t   permission_access_i,
  input  logic      control_valid_i,
  output logic      control_ready_o,
  input  control_t  control_i,
  // `done`: the control has taken effect. `again`: it must be repeated once its queue pair's receive requests are
  // flushed.
  input  logic      control_done_i,
  input  logic      control_again_i,
  input  logic      fail_valid_i,
  output logic      fail_ready_o,
  input  qp_index_t fail_i,
  // Stays valid until `flushed_i`.
  input  logic      flush_valid_i,
  input  qp_index_t flush_i,
  input  logic      flushed_i,
  input  logic      query_valid_i,
  input  qp_index_t query_i,
  input  logic      query_done_i,
  // Stays valid until `posted_i`, because the pipeline reads the request directly from this input.
  input  logic      post_valid_i,
  input  qp_index_t post_i,
  input  logic      posted_i,

  output logic   event_valid_o,
  input  logic   event_ready_i,
  output event_t event_o,
  output logic   idle_o
);

  logic      valid_q;
  event_t    event_q;
  event_t    event_d;
  logic      flush_busy_q;
  logic      control_busy_q;
  logic      post_busy_q;
  logic      control_waits;
  logic      query_wait_q;
  logic      query_busy_q;
  qp_index_t query_q;
  logic      pick_permission;
  logic      pick_control;
  logic      pick_fail;
  logic      pick_flush;
  logic      pick_query;
  logic      pick_post;

  assign permission_ready_o = !valid_q && quiet_i;
  assign pick_permission = permission_valid_i && permission_ready_o;
  assign control_ready_o = control_done_i;
  // A control that must be repeated is picked again when nothing is left to flush.
  assign control_waits = control_valid_i && !control_busy_q && !flush_valid_i;
  assign pick_control = control_waits && permission_ready_o && !permission_valid_i;
  assign fail_ready_o = permission_ready_o && !permission_valid_i && !control_waits;
  assign pick_fail = fail_valid_i && fail_ready_o;
  assign pick_flush = flush_valid_i && !flush_busy_q && !valid_q && !pick_permission && !pick_control && !pick_fail;
  assign pick_query = query_wait_q && fail_ready_o && !fail_valid_i && !pick_flush;
  assign pick_post = post_valid_i && !post_busy_q && fail_ready_o && !fail_valid_i && !pick_flush && !query_wait_q;

  always_comb begin
    event_d = '{kind: EventPost, control: 1'b0, qp: post_i, argument: '0};
    if (pick_permission) begin
      event_d.kind = EventAccess;
      event_d.qp = permission_qp_i;
      event_d.argument = 24'(permission_access_i);
    end else if (pick_control) begin
      unique case (control_i.operation)
        ControlReset:   event_d.kind = EventReset;
        ControlInit:    event_d.kind = EventInit;
        ControlReceive: event_d.kind = EventReceive;
        ControlAccess:  event_d.kind = EventAccess;
        ControlError:   event_d.kind = EventError;
        default:        event_d.kind = EventNothing;
      endcase
      event_d.control = 1'b1;
      event_d.qp = control_i.qp;
      event_d.argument = control_i.argument;
    end else if (pick_fail) begin
      event_d.kind = EventFail;
      event_d.qp   = fail_i;
    end else if (pick_flush) begin
      event_d.kind = EventFlush;
      event_d.qp   = flush_i;
    end else if (pick_query) begin
      event_d.kind = EventQuery;
      event_d.qp   = query_q;
    end
  end

  assign event_valid_o = valid_q;
  assign event_o = event_q;
  assign idle_o = !valid_q && !flush_busy_q && !control_busy_q && !post_busy_q && !query_wait_q && !query_busy_q;

  always_ff @(posedge clk_i) begin
    if (!valid_q) event_q <= event_d;
    if (!query_wait_q && !query_busy_q) query_q <= query_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q        <= 1'b0;
      flush_busy_q   <= 1'b0;
      post_busy_q    <= 1'b0;
      control_busy_q <= 1'b0;
      query_wait_q   <= 1'b0;
      query_busy_q   <= 1'b0;
    end else begin
      if (valid_q) valid_q <= !event_ready_i;
      else valid_q <= pick_permission || pick_control || pick_fail || pick_flush || pick_query || pick_post;
      if (pick_flush) flush_busy_q <= 1'b1;
      else if (flushed_i) flush_busy_q <= 1'b0;
      if (pick_control) control_busy_q <= 1'b1;
      else if (control_done_i || control_again_i) control_busy_q <= 1'b0;
      if (pick_post) post_busy_q <= 1'b1;
      else if (posted_i) post_busy_q <= 1'b0;
      // A query whose valid is held until done is not taken twice.
      if (query_valid_i && !query_wait_q && !query_busy_q && !query_done_i) query_wait_q <= 1'b1;
      else if (pick_query) query_wait_q <= 1'b0;
      if (pick_query) query_busy_q <= 1'b1;
      else if (query_done_i) query_busy_q <= 1'b0;
    end
  end

endmodule
