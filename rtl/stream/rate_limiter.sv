// A token bucket: lets events pass at a bounded average rate, with bounded bursts.
//
// Every `PeriodCycles` cycles one more event may pass, and up to `Burst` permissions add up. Latency: none. Stalls: its input
// while no permission is left. It counts cycles of the given time and not of its own clock, so that time may jump.
module rate_limiter
  import weft_pkg::cycles_t;
#(
  parameter int unsigned PeriodCycles = 64,
  parameter int unsigned Burst        = 4
) (
  input  logic    clk_i,
  input  logic    rst_ni,
  input  cycles_t now_i,
  input  logic    in_valid_i,
  output logic    in_ready_o,
  output logic    out_valid_o,
  input  logic    out_ready_i
);

  localparam int unsigned Bits = $clog2(Burst + 1);

  logic    [Bits-1:0] permissions_q;
  cycles_t            next_q;  // when the next permission comes
  logic               due;
  logic               pass;

  assign out_valid_o = in_valid_i && permissions_q != '0;
  assign in_ready_o  = out_ready_i && permissions_q != '0;
  assign pass        = out_valid_o && out_ready_i;
  assign due         = now_i >= next_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      permissions_q <= Bits'(Burst);
      next_q        <= '0;
    end else begin
      if (due) next_q <= now_i + cycles_t'(PeriodCycles);
      if (due && !pass && permissions_q < Bits'(Burst)) permissions_q <= permissions_q + 1'b1;
      else if (pass && !due) permissions_q <= permissions_q - 1'b1;
    end
  end

endmodule
