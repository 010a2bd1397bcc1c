// A deep FIFO in block RAM. With `Bypass`, an element that arrives while the FIFO is empty goes past the RAM.
//
// Latency: 2 cycles; with `Bypass`, 1 while the RAM is empty, otherwise 2 after the previous element. Throughput: one
// element every cycle. Order: first in, first out. Stalls: the input, while the RAM holds `Depth` elements; one more
// may be in the output register.
module ram_fifo #(
  parameter type         T      = logic [7:0],
  parameter int unsigned Depth  = 512,          // a power of two
  parameter bit          Bypass = 1'b0
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
  logic               free;
  logic               bypass;
  logic               write;
  logic               read;
  // The output register (that of the RAM, or the bypass register) holds an element.
  logic               out_valid_q;
  T                   stored;

  assign level = tail_q - head_q;
  assign in_ready_o = !level[IndexBits];
  assign out_valid_o = out_valid_q;
  assign empty_o = !out_valid_q && level == '0;
  assign free = !out_valid_q || out_ready_i;
  assign write = in_valid_i && in_ready_o && !bypass;
  // The element that is written in this cycle cannot be read yet: `tail_q` does not count it.
  assign read = free && level != '0;

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
    .read_data_o    (stored)
  );

  if (Bypass) begin : gen_bypass
    logic stored_q;  // the element at the output came through the RAM
    T     bypass_q;
    assign bypass = free && level == '0 && in_valid_i;
    assign out_o  = stored_q ? stored : bypass_q;
    always_ff @(posedge clk_i) begin
      if (bypass) bypass_q <= in_i;
      if (free) stored_q <= read;
    end
  end else begin : gen_through
    assign bypass = 1'b0;
    assign out_o  = stored;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_q      <= '0;
      tail_q      <= '0;
      out_valid_q <= 1'b0;
    end else begin
      if (write) tail_q <= tail_q + 1'b1;
      if (read) head_q <= head_q + 1'b1;
      if (free) out_valid_q <= read || bypass;
    end
  end

endmodule
