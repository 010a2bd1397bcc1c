// A deep FIFO in block RAM.
//
// Latency: 2 cycles. Throughput: one element every cycle. Order: first in, first out. Stalls: its input when the RAM
// holds `Depth` elements; one more may lie at the output.
module block_ram_fifo #(
  parameter type         T     = logic [7:0],
  parameter int unsigned Depth = 512           // a power of two
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic in_valid_i,
  output logic in_ready_o,
  input  T     in_i,
  output logic out_valid_o,
  input  logic out_ready_i,
  output T     out_o,
  output logic empty_o
);

  localparam int unsigned IndexBits = $clog2(Depth);

  logic [IndexBits:0] head_q;
  logic [IndexBits:0] tail_q;
  logic [IndexBits:0] level;
  logic               write;
  logic               read;
  // The output register of the RAM holds an element.
  logic               out_valid_q;

  assign level = tail_q - head_q;
  assign in_ready_o = !level[IndexBits];
  assign out_valid_o = out_valid_q;
  assign empty_o = !out_valid_q && level == '0;
  assign write = in_valid_i && in_ready_o;
  // The element that is written in this cycle cannot be read yet: `tail_q` does not count it.
  assign read = level != '0 && (!out_valid_q || out_ready_i);

  ram #(
    .T    (T),
    .Depth(Depth)
  ) i_ram (
    .clk_i,
    .write_i        (write),
    .write_address_i(tail_q[IndexBits-1:0]),
    .write_data_i   (in_i),
    .read_i         (read),
    .read_address_i (head_q[IndexBits-1:0]),
    .read_data_o    (out_o)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q      <= '0;
      tail_q      <= '0;
      out_valid_q <= 1'b0;
    end else begin
      if (write) tail_q <= tail_q + 1'b1;
      if (read) head_q <= head_q + 1'b1;
      out_valid_q <= read || (out_valid_q && !out_ready_i);
    end
  end

endmodule
