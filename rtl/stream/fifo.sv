// A small FIFO in distributed RAM.
//
// Latency: 1 cycle. Throughput: one element every cycle, also when full or empty on one side. Order: first in, first
// out. Stalls: its input when `Depth` elements are held.
module fifo #(
  parameter type         T     = logic [7:0],
  parameter int unsigned Depth = 16            // a power of two
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   in_valid_i,
  output logic                   in_ready_o,
  input  T                       in_i,
  output logic                   out_valid_o,
  input  logic                   out_ready_i,
  output T                       out_o,
  // Number of elements held.
  output logic [$clog2(Depth):0] level_o
);

  localparam int unsigned IndexBits = $clog2(Depth);

  (* ram_style = "distributed" *)
  T                   memory [Depth];
  // One bit more than an index, to distinguish a full FIFO from an empty one.
  logic [IndexBits:0] head_q;
  logic [IndexBits:0] tail_q;

  assign level_o = tail_q - head_q;
  assign in_ready_o = !level_o[IndexBits];
  assign out_valid_o = level_o != '0;
  assign out_o = memory[head_q[IndexBits-1:0]];

  always_ff @(posedge clk_i) begin
    if (in_valid_i && in_ready_o) memory[tail_q[IndexBits-1:0]] <= in_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q <= '0;
      tail_q <= '0;
    end else begin
      if (in_valid_i && in_ready_o) tail_q <= tail_q + 1'b1;
      if (out_valid_o && out_ready_i) head_q <= head_q + 1'b1;
    end
  end

endmodule
