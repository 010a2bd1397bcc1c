// Queues the requester's verdicts and expands them into placements.
//
// Latency: 1 cycle. Throughput: one a cycle. Order: kept. Never stalls: the producer must check the level for room
// before it pushes.
module requester_verdicts
  import weft_pkg::*;
#(
  parameter int unsigned Depth = 32
) (
  input  logic                                 clk_i,
  input  logic                                 rst_ni,
  input  logic                                 push_i,
  input  requester_verdict_t                   push_data_i,
  output logic               [$clog2(Depth):0] level_o,
  output logic                                 verdict_valid_o,
  input  logic                                 verdict_ready_i,
  output placement_t                           verdict_o
);

  requester_verdict_t verdict_out;

  fifo #(
    .T(requester_verdict_t),
    .Depth(Depth)
  ) u_verdicts (
    .clk_i,
    .rst_ni,
    .in_valid_i (push_i),
    // The producer checks the level before it pushes.
    // verilator lint_off PINCONNECTEMPTY
    .in_ready_o (),
    // verilator lint_on PINCONNECTEMPTY
    .in_i       (push_data_i),
    .out_valid_o(verdict_valid_o),
    .out_ready_i(verdict_ready_i),
    .out_o      (verdict_out),
    .level_o    (level_o)
  );

  always_comb begin
    verdict_o = '0;
    verdict_o.packet = verdict_out.packet;
    verdict_o.place = verdict_out.place ? PlaceWrite : PlaceNothing;
    verdict_o.target = verdict_out.target;
    verdict_o.write_through = verdict_out.write_through;
    verdict_o.address = verdict_out.address;
    verdict_o.bytes = verdict_out.bytes;
    verdict_o.offset = verdict_out.offset;
    verdict_o.swap_or_add = verdict_out.original;
    verdict_o.consequence.qp = verdict_out.qp;
    verdict_o.consequence.advance = verdict_out.advance;
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni)
      assert (!(push_i && level_o[$clog2(Depth)]))
      else $error("no room for what is pushed");
  end

endmodule
