// Joins packets with the judgements of services: holds the consequences of a packet until it is judged, and tells
// whether it or an earlier packet of its message is marked.
//
// Elements enter and leave with those of the queue of consequences, so both have the same element at the head.
//
// Latency: a judgement that is waited for counts in the second cycle after it. Throughput: a packet every cycle.
// Stalls: never; `hold_o` stalls the consequences.
module placement_marks
  import weft_pkg::*;
#(
  // Depth of the queue of consequences.
  parameter int unsigned Depth = 512
) (
  input logic clk_i,
  input logic rst_ni,

  // An element enters. `served`: its payload goes through the services; `starts`: it has the first payload of its
  // message.
  input logic in_valid_i,
  input logic in_served_i,
  input logic in_starts_i,

  // A judgement, in the order of the packets that have gone through the services.
  input logic judged_valid_i,
  input logic judged_marked_i,

  // The element at the head leaves. It belongs to this queue pair.
  input  logic      retire_i,
  input  qp_index_t qp_i,
  // It has not been judged.
  output logic      hold_o,
  // It or an earlier packet of its message is marked.
  output logic      marked_o
);

  typedef struct packed {
    logic served;
    logic starts;
  } packet_t;

  packet_t                  head;
  logic                     head_valid;
  logic                     room;
  logic                     judged;
  logic                     judged_room;
  logic                     judgement;
  // Queue pairs of whose present or last message a packet is marked.
  logic    [QueuePairs-1:0] marked_q;

  ram_fifo #(
    .T    (packet_t),
    .Depth(Depth)
  ) i_packets (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o (room),
    .in_i       ({in_served_i, in_starts_i}),
    .out_valid_o(head_valid),
    .out_ready_i(retire_i),
    .out_o      (head),
    /* verilator lint_off PINCONNECTEMPTY */  // that of the queue of consequences says the same
    .empty_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  // At most one judgement for each element in the other queue, which holds one more than its depth.
  ram_fifo #(
    .T    (logic),
    .Depth(2 * Depth)
  ) i_judgements (
    .clk_i,
    .rst_ni,
    .in_valid_i (judged_valid_i),
    .in_ready_o (judged_room),
    .in_i       (judged_marked_i),
    .out_valid_o(judged),
    .out_ready_i(retire_i && head.served),
    .out_o      (judgement),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed
    .empty_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign hold_o   = head.served && !judged;
  assign marked_o = (head.served && judgement) || (marked_q[qp_i] && !head.starts);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) marked_q <= '0;
    else begin
      if (retire_i) marked_q[qp_i] <= marked_o;
      assert (!in_valid_i || room);
      assert (!judged_valid_i || judged_room);
      assert (!retire_i || (head_valid && !hold_o));
    end
  end

endmodule
