// Counts the free units of a bounded resource.
//
// Latency: 1 cycle from a change to `available_o`. Throughput: one take and one return every cycle. The user must not
// take more than is available, nor return more than was taken.
module credit_counter #(
  parameter int unsigned Credits   = 64,
  parameter int unsigned CountBits = 8    // bits of the count in one take or return
) (
  input  logic                         clk_i,
  input  logic                         rst_ni,
  input  logic                         take_i,
  input  logic [        CountBits-1:0] take_count_i,
  input  logic                         return_i,
  input  logic [        CountBits-1:0] return_count_i,
  output logic [$clog2(Credits+1)-1:0] available_o
);

  localparam int unsigned Bits = $clog2(Credits + 1);

  logic [Bits-1:0] available_q;
  logic [  Bits:0] available_d;

  assign available_o = available_q;
  assign available_d = {1'b0, available_q} - (take_i ? (Bits + 1)'(take_count_i) : '0)
                     + (return_i ? (Bits + 1)'(return_count_i) : '0);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) available_q <= Bits'(Credits);
    else available_q <= available_d[Bits-1:0];
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) begin
      assert (!take_i || (Bits + 1)'(take_count_i) <= {1'b0, available_q})
      else $error("more is taken than there is");
      assert (available_d <= (Bits + 1)'(Credits))
      else $error("more comes back than was taken");
    end
  end

endmodule
