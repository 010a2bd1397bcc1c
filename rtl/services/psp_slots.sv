// Cuts frames into the slots of `psp_crypt`.
//
// To seal, slots are shifted by 18 bytes against beats, so that the first slot has 16 bytes of room for the PSP
// header in front of the text, which begins with the UDP header. To open, the shift is 42 bytes, and the first slot
// begins with the PSP header. `plan_i` is the plan for the frame whose first beat was accepted last. It is valid from
// the cycle after that beat.
//
// Latency: 1 cycle from a frame's first beat to its first slot, if the second beat follows at once or the frame has
// one beat. Throughput: a slot every cycle. Order: kept. Stalls: when there is no room, and while a frame has more
// slots than beats.
module psp_slots
  import weft_pkg::*;
  import psp_pkg::*;
#(
  parameter bit Open = 1'b0
) (
  input logic clk_i,
  input logic rst_ni,
  input logic in_valid_i,
  output logic in_ready_o,
  input beat_t in_i,
  input logic in_error_i,
  input psp_plan_t plan_i,
  input logic room_i,
  output logic slot_valid_o,
  output psp_slot_t slot_o
);

  localparam int unsigned Skip = Open ? UdpEnd : UdpEnd - 24;

  // The beat that waits for the next one.
  logic                valid_q;
  logic                first_q;  // no slot of its frame has left
  logic                ended_q;  // it is the last of its frame
  logic                beyond_q;  // the current slot is behind the last beat
  logic                skip_q;  // further beats of this frame are ignored
  logic                error_q;
  logic                mac_error_q;
  logic [         5:0] empty_q;
  logic [BeatBits-1:0] data_q;
  logic [         7:0] number_q;
  logic [        13:0] seen_q;  // bytes of the frame in the beats before the next one

  logic                emit;
  logic                final_slot;
  logic                take;
  logic                short;
  logic                error;
  logic                mac_error;
  // Bytes that remain, this slot included: of the output, and of header and text.
  logic [        14:0] out_left;
  logic [        14:0] used_left;
  logic [        13:0] out_bytes;
  logic [        13:0] used_bytes;
  /* verilator lint_off UNUSEDSIGNAL */  // only its low bits are read
  logic [        13:0] remainder;
  /* verilator lint_on UNUSEDSIGNAL */

  assign out_bytes = Open ? plan_i.bytes - 14'(OverheadBytes) : plan_i.bytes + 14'(OverheadBytes);
  // Header and text, without the bytes in front of them and the tag.
  assign used_bytes = plan_i.bytes - (Open ? 14'd58 : 14'd18);
  assign out_left = {1'b0, out_bytes} - {1'b0, number_q, 6'd0};
  assign used_left = {1'b0, used_bytes} - {1'b0, number_q, 6'd0};
  assign remainder = out_bytes;

  assign emit = valid_q && room_i && (ended_q || in_valid_i);
  assign final_slot = plan_i.sealed ? out_left[14] || out_left <= 15'd64 || (Open && ended_q) : ended_q;
  assign in_ready_o = skip_q || !valid_q || (room_i && (!ended_q || final_slot));
  assign take = in_valid_i && in_ready_o;

  // The frame ends before the length in its header.
  assign short = seen_q + (14'd64 - 14'(in_i.empty)) < plan_i.bytes;
  assign mac_error = ended_q ? mac_error_q : in_error_i;

  always_comb begin
    error = plan_i.cause != PspAccepted;
    if (Open) begin
      if (ended_q) error |= error_q;
      else error |= in_error_i || !in_i.last || (plan_i.sealed && short);
      if (plan_i.sealed && out_left > 15'd64) error = 1'b1;
    end
  end

  always_comb begin
    slot_o = '0;
    slot_o.first = first_q;
    slot_o.last = final_slot;
    slot_o.sealed = plan_i.sealed;
    slot_o.index = plan_i.index;
    slot_o.number = number_q;
    slot_o.error = final_slot && error;
    slot_o.cause = plan_i.cause;
    // The frame is shorter or longer than its header says.
    if (Open && plan_i.sealed && final_slot && error && !mac_error) slot_o.cause = PspMalformed;
    slot_o.text  = used_bytes - 14'd16;
    slot_o.place = used_bytes[5:0];
    if (plan_i.sealed) begin
      if (!used_left[14] && used_left != '0) begin
        slot_o.used = used_left >= 15'd64 ? 7'd64 : used_left[6:0];
        slot_o.ends = used_left <= 15'd64;
      end
      slot_o.finish = (!used_left[14] && used_left <= 15'd48) || used_left > 15'h7ff0;
      slot_o.empty = 6'd0 - remainder[5:0];
      slot_o.data[8*(BeatBytes-Skip)-1:0] = data_q[BeatBits-1:8*Skip];
      if (!ended_q) slot_o.data[BeatBits-1:8*(BeatBytes-Skip)] = in_i.data[8*Skip-1:0];
      if (beyond_q) slot_o.data = '0;
    end else begin
      slot_o.empty = empty_q;
      slot_o.data  = data_q;
    end
  end

  assign slot_valid_o = emit;

  always_ff @(posedge clk_i) begin
    if (take) begin
      data_q      <= in_i.data;
      empty_q     <= in_i.empty;
      mac_error_q <= in_error_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q  <= 1'b0;
      first_q  <= 1'b1;
      ended_q  <= 1'b0;
      beyond_q <= 1'b0;
      skip_q   <= 1'b0;
      error_q  <= 1'b0;
      number_q <= '0;
      seen_q   <= '0;
    end else begin
      if (emit) begin
        first_q  <= final_slot;
        number_q <= final_slot ? '0 : number_q + 1'b1;
        // The frame has more slots than beats.
        beyond_q <= ended_q && !final_slot;
        if (final_slot) valid_q <= 1'b0;
      end
      if (take) begin
        // The last slot needs no further beat, so later beats of the frame are skipped.
        if (skip_q || (emit && final_slot && !ended_q)) begin
          skip_q <= !in_i.last;
        end else begin
          valid_q <= 1'b1;
          ended_q <= in_i.last;
          // From a frame's second beat on, the plan is that of this frame.
          error_q <= in_error_i || (seen_q != '0 && plan_i.sealed && short);
        end
        seen_q <= in_i.last ? '0 : seen_q + 14'd64;
      end
    end
  end

endmodule
