// Computes a transfer's number of beats, and whether it leaves the register file or the on-chip memory.
//
// Latency: 0 cycles.
module memory_bounds
  import weft_pkg::*;
#(
  parameter int unsigned OnChipBytes = 262_144  // a power of two, 8,192 or more
) (
  input  target_e         target_i,
  input  transfer_t       transfer_i,
  output logic            outside_o,
  output logic      [6:0] beats_o      // number of beats, less one
);

  localparam int unsigned RegisterBits = $clog2(512);
  localparam int unsigned OnChipBits = $clog2(OnChipBytes);

  // Every transfer has at least one byte. The address of its last byte is computed, not the address behind it: the
  // memories' sizes are powers of two, so a carry tells that the last byte is outside, without a test for zero.

  // Offset of the last byte from the start of the transfer's first beat.
  /* verilator lint_off UNUSEDSIGNAL */  // the position within the last beat, and offsets within the memories
  logic [        12:0] end_byte;
  logic [        13:0] register_last;
  logic [OnChipBits:0] on_chip_last;
  /* verilator lint_on UNUSEDSIGNAL */

  assign end_byte = 13'(transfer_i.address[5:0]) + transfer_i.bytes - 13'd1;
  assign beats_o = end_byte[12:6];
  assign register_last = 14'(transfer_i.address[RegisterBits-1:0]) + 14'(transfer_i.bytes) - 14'd1;
  assign on_chip_last = (OnChipBits + 1)'(transfer_i.address[OnChipBits-1:0]) + (OnChipBits + 1)'(transfer_i.bytes)
      - (OnChipBits + 1)'(1);

  always_comb begin
    unique case (target_i)
      TargetRegister: outside_o = transfer_i.address[47:RegisterBits] != '0 || register_last[13:RegisterBits] != '0;
      TargetOnChip:   outside_o = transfer_i.address[47:OnChipBits] != '0 || on_chip_last[OnChipBits];
      default:        outside_o = 1'b0;
    endcase
  end

endmodule
