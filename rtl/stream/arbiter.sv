// Merges streams of packets into one, round-robin, packet by packet.
//
// A packet keeps the output from its first element to its last, and an element that has been offered stays offered.
// After a packet the grant goes to the next higher input that offers an element, wrapping around. So an input waits
// for at most one packet of each other input.
//
// Latency: 0 cycles; the choice is combinational, from `in_valid_i` to `out_o` and from `out_ready_i` to `in_ready_o`.
// Throughput: one element every cycle, also from packet to packet. Order: kept for each input. Stalls: an input while
// another is granted, and when the output does.
module arbiter #(
  parameter type         T = logic [7:0],
  parameter int unsigned N = 2
) (
  input  logic                               clk_i,
  input  logic                               rst_ni,
  input  logic [                      N-1:0] in_valid_i,
  output logic [                      N-1:0] in_ready_o,
  input  T     [                      N-1:0] in_i,
  input  logic [                      N-1:0] in_last_i,
  output logic                               out_valid_o,
  input  logic                               out_ready_i,
  output T                                   out_o,
  output logic                               out_last_o,
  // The input that `out_o` comes from.
  output logic [(N > 1 ? $clog2(N) : 1)-1:0] grant_o
);

  typedef logic [(N > 1 ? $clog2(N) : 1)-1:0] index_t;

  // The input that is granted, or was granted last.
  index_t grant_q;
  // The granted input has offered an element that was not accepted, or is in the middle of a packet.
  logic   held_q;

  always_comb begin
    grant_o = grant_q;
    if (!held_q) begin
      // The lowest input that offers an element, unless an input above the last granted one does: then the lowest of
      // these.
      for (int unsigned i = N; i > 0; i--) begin
        if (in_valid_i[i-1]) grant_o = index_t'(i - 1);
      end
      for (int unsigned i = N; i > 0; i--) begin
        if (in_valid_i[i-1] && i - 1 > 32'(grant_q)) grant_o = index_t'(i - 1);
      end
    end
  end

  assign out_valid_o = in_valid_i[grant_o];
  assign out_o = in_i[grant_o];
  assign out_last_o = in_last_i[grant_o];

  always_comb begin
    in_ready_o = '0;
    in_ready_o[grant_o] = out_ready_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      grant_q <= '0;
      held_q  <= 1'b0;
    end else if (out_valid_o) begin
      grant_q <= grant_o;
      held_q  <= !(out_ready_i && out_last_o);
    end
  end

  always_ff @(posedge clk_i) begin
    if (rst_ni) assert (!held_q || grant_o == grant_q);
  end

endmodule
