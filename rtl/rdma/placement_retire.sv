// Holds the consequences of packets until their writes are visible, and forwards them in order.
//
// Latency: 2 cycles when the queue is empty; otherwise 1 cycle after the write of the packet in front is visible.
// Throughput: one packet every cycle. Order: that of the packets, across all consumers. Stalls: a consumer that does
// not accept the front consequence stalls all others, and so does a packet that the services have not judged; the input
// stalls while 512 packets wait.
module placement_retire
  import weft_pkg::*;
(
  input logic clk_i,
  input logic rst_ni,

  input  logic           in_valid_i,
  output logic           in_ready_o,
  input  logic           in_writes_i,      // waits for one `written_i`
  input  logic           in_credit_i,      // a write to the host
  input  logic           in_requester_i,   // decided by the requester
  input  payload_bytes_t in_bytes_i,
  input  consequence_t   in_consequence_i,

  input logic written_i,

  // The packet in front waits for the services.
  input  logic      hold_i,
  output logic      retire_o,
  output qp_index_t retire_qp_o,

  output logic           completion_valid_o,
  input  logic           completion_ready_i,
  output completion_t    completion_o,
  output logic           call_valid_o,
  input  logic           call_ready_i,
  output rpc_call_t      call_o,
  output logic           answer_valid_o,
  input  logic           answer_ready_i,
  output qp_index_t      answer_qp_o,
  output answer_t        answer_o,
  output logic           advance_valid_o,
  input  logic           advance_ready_i,
  output qp_index_t      advance_qp_o,
  output advance_t       advance_o,
  output logic           marker_o,
  output qp_index_t      marker_qp_o,
  output logic           credit_return_valid_o,
  output payload_bytes_t credit_return_o,
  output logic           credit_return_requester_o,

  output logic idle_o
);

  localparam int unsigned Depth = 512;

  typedef struct packed {
    logic           writes;
    logic           credit;
    logic           requester;
    payload_bytes_t bytes;
    consequence_t   consequence;
  } retire_t;

  typedef struct packed {
    logic completion;
    logic call;
    logic answer;
    logic advance;
  } consumers_t;

  retire_t          head;
  logic             head_valid;
  logic             empty;
  // Writes that are visible and whose consequences have not been forwarded: at most `Depth` for the packets in this
  // queue, plus those in flight outside it.
  logic       [9:0] written_q;
  logic             turn;
  logic             retire;
  consumers_t       due;
  consumers_t       taken_q;
  consumers_t       takes;

  ram_fifo #(
    .T    (retire_t),
    .Depth(Depth)
  ) i_fifo (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_i       ({in_writes_i, in_credit_i, in_requester_i, in_bytes_i, in_consequence_i}),
    .out_valid_o(head_valid),
    .out_ready_i(retire),
    .out_o      (head),
    .empty_o    (empty)
  );

  assign turn = head_valid && (!head.writes || written_q != '0) && !hold_i;
  assign due = '{
          completion: head.consequence.complete,
          call: head.consequence.call,
          answer: head.consequence.answer.kind != AnswerNone,
          advance: head.consequence.advance.kind != AdvanceNone
      };
  assign takes = '{
          completion: completion_ready_i,
          call: call_ready_i,
          answer: answer_ready_i,
          advance: advance_ready_i
      };
  assign retire = turn && (due & ~taken_q & ~takes) == '0;

  assign completion_valid_o = turn && due.completion && !taken_q.completion;
  assign completion_o = head.consequence.completion;
  assign retire_o = retire;
  assign retire_qp_o = head.consequence.qp;
  assign call_valid_o = turn && due.call && !taken_q.call;
  assign call_o = head.consequence.rpc;
  assign answer_valid_o = turn && due.answer && !taken_q.answer;
  assign answer_qp_o = head.consequence.qp;
  assign answer_o = head.consequence.answer;
  assign advance_valid_o = turn && due.advance && !taken_q.advance;
  assign advance_qp_o = head.consequence.qp;
  assign advance_o = head.consequence.advance;
  assign marker_o = retire && head.consequence.marker;
  assign marker_qp_o = head.consequence.qp;
  assign credit_return_valid_o = retire && head.credit;
  assign credit_return_o = head.bytes;
  assign credit_return_requester_o = head.requester;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      written_q <= '0;
      taken_q   <= '0;
    end else begin
      written_q <= written_q + 10'(written_i) - 10'(retire && head.writes);
      if (retire) taken_q <= '0;
      else if (turn) taken_q <= taken_q | takes;
      assert (written_q <= 10'(Depth + 1));
    end
  end

  assign idle_o = empty;

endmodule
