// A FIFO of packets that get a verdict after they have been written: good packets leave, bad ones are dropped.
//
// A packet is a run of elements that ends with `in_last_i`. The input never stalls. A packet that does not fit, or is
// aborted, is dropped as a whole (`in_lost_o` with its last element). Every other packet needs a verdict, in order,
// at any time from the cycle after its last element on.
//
// Latency: 1 cycle from the verdict to the first element, if the packet was complete 2 cycles before it. Throughput:
// one element every cycle on both sides, without a gap between packets; skipping an element of a bad packet takes a
// cycle, too, but no more than its arrival took. Order: kept. Stalls: the input never stalls.
module packet_fifo #(
  parameter type         T     = logic   [7:0],
  // Capacity in elements; a power of two.
  parameter int unsigned Depth = 1024,
  // "block" or "ultra".
  parameter              Style = "block"
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,
  input  logic                   in_valid_i,
  input  logic                   in_last_i,
  // Drops the packet. May be set with any of its elements.
  input  logic                   in_abort_i,
  input  T                       in_i,
  // With the last element: the packet was dropped, and must not get a verdict.
  output logic                   in_lost_o,
  input  logic                   verdict_valid_i,
  input  logic                   verdict_good_i,
  output logic                   out_valid_o,
  input  logic                   out_ready_i,
  output logic                   out_last_o,
  output T                       out_o,
  // Number of slots in use.
  output logic [$clog2(Depth):0] level_o,
  // The FIFO is empty.
  output logic                   empty_o
);

  localparam int unsigned IndexBits = $clog2(Depth);
  // One bit more than an index, to distinguish a full memory from an empty one.
  typedef logic [IndexBits:0] pointer_t;

  // Indices of elements: next to write; first of the packet that is being written; next to read from memory; next to
  // leave.
  pointer_t tail_q, start_q, fetch_q, front_q;
  // The packet that is being written has been dropped.
  logic lost_q;

  // Write side.

  logic full, lost;
  assign level_o = tail_q - front_q;
  assign full = level_o[IndexBits];
  assign lost = lost_q || full || in_abort_i;
  assign in_lost_o = lost;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      tail_q  <= '0;
      start_q <= '0;
      lost_q  <= 1'b0;
    end else if (in_valid_i) begin
      lost_q <= lost && !in_last_i;
      if (!lost) tail_q <= tail_q + 1'b1;
      else if (in_last_i) tail_q <= start_q;
      if (!lost && in_last_i) start_q <= tail_q + 1'b1;
    end
  end

  // Read side. The memory's output register holds the element at the front. Elements are read before their verdict,
  // but only those of complete packets, because an incomplete packet may still be dropped.

  logic loaded_q;
  logic known, good, pop, fetch;
  assign out_valid_o = loaded_q && known && good;
  assign pop = loaded_q && known && (!good || out_ready_i);
  assign fetch = fetch_q != start_q && (!loaded_q || pop);
  assign empty_o = level_o == '0;

  ram #(
    .T    (logic [$bits(T):0]),
    .Depth(Depth),
    .Style(Style)
  ) i_elements (
    .clk_i,
    .write_i        (in_valid_i && !full),
    .write_address_i(tail_q[IndexBits-1:0]),
    .write_data_i   ({in_last_i, in_i}),
    .read_i         (fetch),
    .read_address_i (fetch_q[IndexBits-1:0]),
    .read_data_o    ({out_last_o, out_o})
  );

  // Verdicts of the packets inside. There is always room, since each packet has at least one element.
  ram_fifo #(
    .T     (logic),
    .Depth (Depth),
    .Bypass(1'b1)
  ) i_verdicts (
    .clk_i,
    .rst_ni,
    .in_valid_i (verdict_valid_i),
    .in_ready_o (),
    .in_i       (verdict_good_i),
    .out_valid_o(known),
    .out_ready_i(pop && out_last_o),
    .out_o      (good),
    .empty_o    ()
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      fetch_q  <= '0;
      front_q  <= '0;
      loaded_q <= 1'b0;
    end else begin
      if (fetch) fetch_q <= fetch_q + 1'b1;
      if (pop) front_q <= front_q + 1'b1;
      if (fetch) loaded_q <= 1'b1;
      else if (pop) loaded_q <= 1'b0;
    end
  end

  // Checks.

  pointer_t written_q;  // number of packets that wait for a verdict
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      written_q <= '0;
    end else begin
      written_q <= written_q + (IndexBits + 1)'(in_valid_i && in_last_i && !lost) - (IndexBits + 1)'(verdict_valid_i);
      assert (!verdict_valid_i || written_q != '0)
      else $error("a verdict without a packet");
      assert (level_o <= (IndexBits + 1)'(Depth))
      else $error("more elements than places");
    end
  end

endmodule
