// Queues verdicts until the placement block takes them, and expands each into a placement.
//
// Latency: 1 cycle. Throughput: one a cycle. Order: kept. Never stalls: the responder has reserved a slot for each
// verdict.
module responder_output
  import weft_pkg::*;
  import responder_pkg::*;
#(
  parameter int unsigned Depth = 16  // a power of two
) (
  input  logic                         clk_i,
  input  logic                         rst_ni,
  input  logic                         verdict_valid_i,
  input  verdict_t                     verdict_i,
  output logic                         verdict_valid_o,
  input  logic                         verdict_ready_i,
  output placement_t                   verdict_o,
  output logic       [$clog2(Depth):0] level_o
);

  logic     ready;
  verdict_t out;

  fifo #(
    .T    (verdict_t),
    .Depth(Depth)
  ) u_verdicts (
    .clk_i,
    .rst_ni,
    .in_valid_i (verdict_valid_i),
    .in_ready_o (ready),
    .in_i       (verdict_i),
    .out_valid_o(verdict_valid_o),
    .out_ready_i(verdict_ready_i),
    .out_o      (out),
    .level_o
  );

  always_comb begin
    verdict_o = '0;
    verdict_o.packet = out.packet;
    verdict_o.reordered = out.reordered;
    verdict_o.reorder_place = out.reorder_place;
    verdict_o.place = out.place;
    verdict_o.target = out.target;
    verdict_o.write_through = out.write_through;
    verdict_o.address = out.address;
    verdict_o.bytes = out.bytes;
    verdict_o.offset = out.offset;
    verdict_o.message_offset = out.message_offset;
    verdict_o.swap_or_add = out.first;
    verdict_o.compare = out.second;
    verdict_o.snoop = out.snoop;
    verdict_o.begins = out.snoop && out.begins;
    verdict_o.consequence.qp = out.qp;
    verdict_o.consequence.complete = out.complete;
    verdict_o.consequence.completion = '{
        qp: out.qp,
        id: out.first,
        status: out.status,
        opcode: {7'h40, out.write},  // IBV_WC_RECV or IBV_WC_RECV_RDMA_WITH_IMM
        bytes: out.length,
        has_immediate: out.immediate,
        immediate: out.second[31:0],
        vendor_error: '0
    };
    verdict_o.consequence.call = out.call;
    verdict_o.consequence.rpc = '{
        slot: out.slot,
        qp: out.qp,
        target: out.target,
        address: out.base,
        length: out.length,
        has_immediate: out.immediate,
        immediate: out.second[31:0]
    };
    verdict_o.consequence.answer = '{
        kind: out.answer,
        duplicate: out.duplicate,
        part: out.part,
        psn: out.psn,
        next: out.next,
        msn: out.msn,
        syndrome: out.syndrome,
        resource: out.resource,
        address: out.first,
        rkey: out.second[63:32],
        length: out.second[31:0],
        original: '0,
        report: out.report,
        kept: out.kept
    };
    verdict_o.consequence.marker = out.marker;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni)
      assert (!verdict_valid_i || ready)
      else $error("a verdict without a place");
  end

endmodule
