// When the present round ends. A round lasts a period, less what a faster peer has shown to be needed to keep up with it.
//
// A message of the next round that comes e cycles before this round's end trims it by e / 2, by an eighth of the period at
// most; what is trimmed decays by a quarter from round to round. A round's end follows from the end before it and
// not from when that was noticed, so that nothing adds up.
//
// Latency: 1 cycle. Throughput: one of its inputs every cycle. Stalls: never.
module round_timer
  import weft_pkg::*;
(
  input  logic    clk_i,
  input  cycles_t now_i,
  // It stays as it is from reset on: cycles of at most 32 bits.
  input  cycles_t period_i,
  // The first round begins at `delay_i` from now: for it, the round before ends then.
  input  logic    start_i,
  input  cycles_t delay_i,
  // The first round begins now.
  input  logic    begin_i,
  // The next round begins.
  input  logic    next_i,
  // A message of the next round has come.
  input  logic    early_i,
  output cycles_t deadline_o,
  output logic    expired_o
);

  cycles_t deadline_q;
  logic [28:0] trim_q;

  cycles_t left;
  logic [28:0] wanted;
  assign expired_o = now_i >= deadline_q;
  assign deadline_o = deadline_q;
  assign left = deadline_q - now_i;
  assign wanted = (left >> 1) > (period_i >> 3) ? period_i[31:3] : left[29:1];

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      deadline_q <= now_i + delay_i;
      trim_q     <= '0;
    end else if (begin_i) begin
      deadline_q <= now_i + period_i;
      trim_q     <= '0;
    end else if (next_i) begin
      deadline_q <= deadline_q + period_i - cycles_t'(trim_q);
      trim_q     <= trim_q - (trim_q >> 2);
    end else if (early_i && !expired_o && wanted > trim_q) begin
      trim_q <= wanted;
    end
  end

endmodule
