// Adds the lowest byte of the value to each byte of the payload. Twin of crates/service/src/services/@name@.rs.
//
// Kind: map. Latency: 1 cycle. Throughput: a beat every cycle. Order: kept. Stalls: never.
module @name@_service
  import weft_pkg::*;
  import services_pkg::*;
(
  input  logic                         clk_i,
  /* verilator lint_off UNUSEDSIGNAL */  // of the value only the lowest byte is used, of the beat only the data
  input  logic          [        63:0] value_i,
  input  service_beat_t                beat_i,
  /* verilator lint_on UNUSEDSIGNAL */
  output logic          [BeatBits-1:0] data_o
);

  always_ff @(posedge clk_i) begin
    for (int unsigned lane = 0; lane < BeatBytes; lane++) begin
      data_o[8*lane+:8] <= beat_i.data[8*lane+:8] + value_i[7:0];
    end
  end

endmodule
