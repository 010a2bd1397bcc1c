// Counts the bytes of a flow that equal the lowest byte of the value. Twin of
// crates/service/src/services/@name@.rs.
//
// Kind: tap. Latency: 2 cycles from a packet's last beat to its verdict, which is their number in the packet.
// Throughput: a beat every cycle. Order: verdicts leave in the order of their packets. Stalls: never. `state_o`
// follows `state_i` and `accepted_i` in the same cycle.
module @name@_service
  import weft_pkg::*;
  import services_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 valid_i,
  /* verilator lint_off UNUSEDSIGNAL */  // of the value only the lowest byte is used, of the beat not the flow
  input  logic          [63:0] value_i,
  input  service_beat_t        beat_i,
  /* verilator lint_on UNUSEDSIGNAL */
  output logic          [31:0] verdict_o,
  input  logic          [63:0] state_i,
  input  logic          [31:0] accepted_i,
  output logic          [63:0] state_o
);

  logic                 valid_q;
  logic                 last_q;
  logic [BeatBytes-1:0] equal_q;
  logic [         31:0] sum_q;
  logic [         31:0] sum;

  assign sum = sum_q + 32'($countones(equal_q));

  always_ff @(posedge clk_i) begin
    last_q <= beat_i.last;
    for (int unsigned lane = 0; lane < BeatBytes; lane++) begin
      equal_q[lane] <= beat_i.strobe[lane] && beat_i.data[8*lane+:8] == value_i[7:0];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      sum_q   <= '0;
    end else begin
      valid_q <= valid_i;
      if (valid_q) begin
        sum_q     <= last_q ? '0 : sum;
        verdict_o <= sum;
      end
    end
  end

  assign state_o = state_i + 64'(accepted_i);

endmodule
