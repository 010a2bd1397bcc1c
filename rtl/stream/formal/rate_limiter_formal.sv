// rate_limiter: in any stretch of time no more passes than the burst and one for each period; nobody waits for ever.
module rate_limiter_formal
  import weft_pkg::cycles_t;
#(
  parameter int unsigned PeriodCycles = 4,
  parameter int unsigned Burst        = 2
) (
  input logic clk_i,
  input logic in_valid_i,
  input logic out_ready_i,
  input logic begin_i
);

  logic          rst_n = 1'b0;
  cycles_t       now = '0;
  logic          in_ready;
  logic          out_valid;
  // A window of observation that begins at any time: how long it is, and what has passed in it.
  logic          observing = 1'b0;
  logic    [7:0] observed_cycles = '0;
  logic    [7:0] observed_events = '0;
  logic    [3:0] waited = '0;

  rate_limiter #(
    .PeriodCycles(PeriodCycles),
    .Burst       (Burst)
  ) dut (
    .clk_i,
    .rst_ni     (rst_n),
    .now_i      (now),
    .in_valid_i,
    .in_ready_o (in_ready),
    .out_valid_o(out_valid),
    .out_ready_i
  );

  always_ff @(posedge clk_i) begin
    rst_n <= 1'b1;
    now   <= now + 1'b1;
    if (rst_n && begin_i) observing <= 1'b1;
    if (rst_n && (observing || begin_i)) begin
      observed_cycles <= observed_cycles + 1'b1;
      if (out_valid && out_ready_i) observed_events <= observed_events + 1'b1;
    end
    waited <= rst_n && in_valid_i && out_ready_i && !out_valid ? waited + 1'b1 : '0;
  end

  always_comb begin
    if (rst_n) begin
      assert (out_valid == (in_valid_i && dut.permissions_q != 0));
      assert (in_ready == (out_ready_i && dut.permissions_q != 0));
      assert (observed_events <= Burst + (observed_cycles + PeriodCycles) / PeriodCycles);
      assert (waited <= PeriodCycles);
      cover (observed_events == Burst + 2);
    end
  end

endmodule
