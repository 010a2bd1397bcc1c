// Counts the payload bytes of a flow. Twin of crates/service/src/services/count.rs.
//
// Kind: tap. Latency: 2 cycles from a packet's last beat to its verdict, which is the number of its bytes.
// Throughput: a beat every cycle. Order: verdicts leave in the order of their packets. Stalls: never. `state_o`
// follows `state_i` and `accepted_i` in the same cycle.
module count_service
  import weft_pkg::*;
  import services_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 valid_i,
  /* verilator lint_off UNUSEDSIGNAL */  // this tap uses neither flow nor data
  input  service_beat_t        beat_i,
  /* verilator lint_on UNUSEDSIGNAL */
  output logic          [31:0] verdict_o,
  input  logic          [63:0] state_i,
  input  logic          [31:0] accepted_i,
  output logic          [63:0] state_o
);

  logic        valid_q;
  logic        last_q;
  logic [ 6:0] bytes_q;
  logic [31:0] sum_q;

  always_ff @(posedge clk_i) begin
    last_q  <= beat_i.last;
    bytes_q <= 7'($countones(beat_i.strobe));
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      sum_q   <= '0;
    end else begin
      valid_q <= valid_i;
      if (valid_q) begin
        sum_q     <= last_q ? '0 : sum_q + 32'(bytes_q);
        verdict_o <= sum_q + 32'(bytes_q);
      end
    end
  end

  assign state_o = state_i + 64'(accepted_i);

endmodule
