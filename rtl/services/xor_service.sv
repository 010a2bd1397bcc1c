// XORs payload with an 8-byte value, repeated: the byte at offset n is combined with byte n % 8 of the value. Twin of
// crates/service/src/services/xor.rs.
//
// Kind: map. Latency: 1 cycle. Throughput: a beat every cycle. Order: kept. Stalls: never. A beat begins at a
// multiple of 64, so each lane always uses the same byte of the value.
module xor_service
  import weft_pkg::*;
  import services_pkg::*;
(
  input  logic                         clk_i,
  input  logic          [        63:0] value_i,
  /* verilator lint_off UNUSEDSIGNAL */  // this map uses neither flow nor offset
  input  service_beat_t                beat_i,
  /* verilator lint_on UNUSEDSIGNAL */
  output logic          [BeatBits-1:0] data_o
);

  always_ff @(posedge clk_i) data_o <= beat_i.data ^ {BeatBytes / 8{value_i}};

endmodule
