// Measures how late the other nodes' messages arrive. Twin of crates/engines/rounds/src/lags.rs.
//
// Latency: 2 cycles. Throughput: a message every cycle. Stalls: never.
module round_lags
  import rounds_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       rst_ni,
  // Clears everything, including measurements of this cycle and the one before.
  input  logic                       clear_i,
  // A message of `from_i` arrived this many cycles later than the earliest possible time; earlier if negative.
  input  logic                       measure_i,
  input  member_t                    from_i,
  input  lag_t                       lag_i,
  // For each node: the lag of its last message; zero if unknown.
  output lag_t     [RoundsNodes-1:0] lags_o,
  output members_t                   known_o,
  // The largest lag; zero if none is positive.
  output lag_t                       largest_o
);

  logic measure_q;
  member_t from_q;
  lag_t lag_q;

  always_ff @(posedge clk_i) begin
    from_q <= from_i;
    lag_q  <= lag_i;
    if (!rst_ni || clear_i) begin
      measure_q <= 1'b0;
      lags_o    <= '0;
      known_o   <= '0;
      largest_o <= '0;
    end else begin
      measure_q <= measure_i;
      if (measure_q) begin
        lags_o[from_q]  <= lag_q;
        known_o[from_q] <= 1'b1;
        if (lag_q > largest_o) largest_o <= lag_q;
      end
    end
  end

endmodule
