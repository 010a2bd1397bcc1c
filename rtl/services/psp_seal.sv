// Encrypts (seals) frames with PSP on their way to the MAC. Twin of `Psp::seal` in crates/service/src/psp.
//
// RoCE packets and Weft's datagrams are sent as PSP packets of the association for their destination. If there is
// none, or it has used up its frames, they are dropped and counted. Other frames pass. Every frame that leaves uses a
// new nonce, retransmissions too. Writing an association resets its nonce to 0, so it must be written only once with
// each key.
//
// Latency: 22 cycles from a frame's first beat to the first one of the sealed frame, with keys of 256 bits; 4 less
// with keys of 128. Throughput: a beat of the output every cycle. Order: kept. Stalls: when the output does. A frame
// whose beats arrive without gaps leaves without gaps.
module psp_seal
  import weft_pkg::*;
  import aes_pkg::*;
  import psp_pkg::*;
#(
  parameter int unsigned Rounds       = 14,
  parameter int unsigned Leaf         = 8,
  // Number of frames that one key may seal: 2 to the power of this.
  parameter int unsigned FramesPerKey = 32
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic          [15:0] port_i,              // UDP port of PSP
  // Configures associations, and their keys (as in `psp_crypt`).
  input  logic                 configure_i,
  input  association_t         configure_index_i,
  input  logic                 configure_enable_i,
  input  ipv4_address_t        configure_peer_i,
  input  logic          [31:0] configure_spi_i,
  input  logic                 key_write_i,
  input  association_t         key_index_i,
  input  logic          [ 4:0] key_place_i,
  input  block_t               key_i,
  input  logic                 in_valid_i,
  output logic                 in_ready_o,
  input  beat_t                in_i,
  output logic                 out_valid_o,
  input  logic                 out_ready_i,
  output beat_t                out_o,
  // Pulses: a frame was sealed; a frame was dropped for lack of an association; a frame was dropped because its key
  // is used up.
  output logic                 sealed_o,
  output logic                 refused_o,
  output logic                 used_up_o
);

  // Room for the beats in the pipeline and in the queue behind it.
  localparam int unsigned Depth = 32;

  typedef logic [8*UdpEnd-1:0] headers_t;

  // The frame whose first beat was accepted last.

  logic                             begins_q;
  logic          [    8*UdpEnd-1:0] headers_q;
  logic          [Associations-1:0] enabled_q;
  ipv4_address_t [Associations-1:0] peer_q;
  logic          [Associations-1:0] match_q;
  logic                             protected_q;
  association_t                     index;
  logic          [            31:0] spi;
  logic          [  FramesPerKey:0] counter;
  psp_plan_t                        plan;
  logic                             emit;
  logic                             slot_valid;
  psp_slot_t                        slot;
  psp_slot_t                        crypt;
  logic                             room;
  logic          [            15:0] port;

  assign port = at16(in_i.data, 36);

  always_ff @(posedge clk_i) begin
    if (in_valid_i && in_ready_o && begins_q) begin
      headers_q <= in_i.data[8*UdpEnd-1:0];
      for (int unsigned i = 0; i < Associations; i++) begin
        match_q[i] <= enabled_q[i] && peer_q[i] == {at16(in_i.data, 30), at16(in_i.data, 32)};
      end
      protected_q <= at16(
          in_i.data, 12
      ) == 16'h0800 && in_i.data[8*14+:8] == 8'h45 && in_i.data[8*23+:8] == 8'd17 && (at16(
          in_i.data, 20
      ) & 16'h3fff) == '0 && (port == RocePort || port == DatagramPort || at16(
          in_i.data, 34
      ) == DatagramPort);
    end
    if (configure_i) peer_q[configure_index_i] <= configure_peer_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      begins_q  <= 1'b1;
      enabled_q <= '0;
    end else begin
      if (in_valid_i && in_ready_o) begins_q <= in_i.last;
      if (configure_i) begin
        // A peer has one association at a time: a new one disables its predecessor in the same cycle.
        for (int unsigned i = 0; i < Associations; i++) begin
          if (configure_enable_i && peer_q[i] == configure_peer_i) enabled_q[i] <= 1'b0;
        end
        enabled_q[configure_index_i] <= configure_enable_i;
      end
    end
  end

  always_comb begin
    index = '0;
    for (int unsigned i = 0; i < Associations; i++) if (match_q[i]) index |= association_t'(i);
  end

  (* ram_style = "distributed" *)
  logic [31:0] spis[Associations];
  (* ram_style = "distributed" *)
  logic [FramesPerKey:0] frames[Associations];

  assign spi = spis[index];
  assign counter = frames[index];

  // The nonce is consumed in the cycle in which the first slot leaves. This suffices because a frame has at least two
  // slots.
  logic step;
  assign step = slot_valid && slot.first && slot.sealed;

  always_ff @(posedge clk_i) begin
    if (configure_i) spis[configure_index_i] <= configure_spi_i;
    if (configure_i || step) frames[configure_i?configure_index_i : index] <= configure_i ? '0 : counter + 1'b1;
  end

  // Within a frame the stored counter is one ahead.
  logic [FramesPerKey:0] counter_q;
  logic [FramesPerKey:0] counter_now;
  logic                  drop_q;
  logic                  drop_now;

  assign counter_now = slot.first ? counter : counter_q;
  assign drop_now = slot.first ? protected_q && (match_q == '0 || counter[FramesPerKey]) : drop_q;

  always_ff @(posedge clk_i) begin
    if (slot.first) begin
      counter_q <= counter;
      drop_q    <= drop_now;
    end
  end

  assign plan = '{
          sealed: protected_q,
          cause: PspAccepted,
          index: index,
          bytes: 14'({headers_q[8*16+:8], headers_q[8*17+:8]}) + 14'(EthernetBytes)
      };

  psp_slots #(
    .Open(1'b0)
  ) i_slots (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o,
    .in_i,
    .in_error_i  (1'b0),
    .plan_i      (plan),
    .room_i      (room && !configure_i),
    .slot_valid_o(emit),
    .slot_o      (slot)
  );

  assign slot_valid = emit && !drop_now;
  assign sealed_o   = step;
  assign refused_o  = emit && slot.first && drop_now && match_q == '0;
  assign used_up_o  = emit && slot.first && drop_now && match_q != '0;

  // The PSP header goes into the first slot. Byte 0 is in the low bits.

  logic [95:0] nonce;
  always_comb begin
    for (int unsigned i = 0; i < 4; i++) nonce[8*i+:8] = spi[8*(3-i)+:8];
    for (int unsigned i = 0; i < 8; i++) nonce[8*(4+i)+:8] = 8'(64'(counter_now) >> (8 * (7 - i)));
    crypt = slot;
    if (slot.first && slot.sealed) begin
      crypt.data[8*4+:96] = nonce;
      crypt.data[31:0] = {6'(Rounds == 14), 2'b01, 8'h00, 8'h01, 8'd17};
    end
  end

  logic                     done_valid;
  psp_slot_t                done;
  logic      [BeatBits-1:0] ring;

  psp_crypt #(
    .Open  (1'b0),
    .Rounds(Rounds),
    .Leaf  (Leaf)
  ) i_crypt (
    .clk_i,
    .rst_ni,
    .key_write_i,
    .key_index_i,
    .key_place_i,
    .key_i,
    .valid_i(slot_valid),
    .slot_i (crypt),
    .nonce_i(nonce),
    .valid_o(done_valid),
    .slot_o (done),
    .ring_o (ring)
  );

  // The headers in front of the PSP header, with the longer length and PSP's UDP port.

  headers_t        headers_new;
  headers_t        headers_out;
  logic     [15:0] total;
  logic     [16:0] sum;
  logic     [15:0] udp_bytes;

  assign total = {headers_q[8*16+:8], headers_q[8*17+:8]} + 16'(OverheadBytes);
  assign sum = {1'b0, ~{headers_q[8*24+:8], headers_q[8*25+:8]}} + 17'(OverheadBytes);
  assign udp_bytes = total - 16'd20;

  function automatic logic [15:0] swapped(logic [15:0] value);
    return {value[7:0], value[15:8]};
  endfunction

  always_comb begin
    headers_new = headers_q;
    headers_new[8*16+:16] = swapped(total);
    headers_new[8*24+:16] = swapped(~(sum[15:0] + 16'(sum[16])));
    headers_new[8*36+:16] = swapped(port_i);
    headers_new[8*38+:16] = swapped(udp_bytes);
    headers_new[8*40+:16] = '0;
  end

  fifo #(
    .T    (headers_t),
    .Depth(16)
  ) i_headers (
    .clk_i,
    .rst_ni,
    .in_valid_i (step),
    /* verilator lint_off PINCONNECTEMPTY */  // never full: fewer frames are in flight
    .in_ready_o (),
    /* verilator lint_on PINCONNECTEMPTY */
    .in_i       (headers_new),
    /* verilator lint_off PINCONNECTEMPTY */  // valid whenever the frame's first slot is
    .out_valid_o(),
    /* verilator lint_on PINCONNECTEMPTY */
    .out_ready_i(done_valid && done.first && done.sealed),
    .out_o      (headers_out),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed
    .level_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  // Inserts the tag and repacks slots into beats.

  logic  [BeatBits-1:0]                before_q;
  logic  [BeatBits-1:0]                former;
  logic  [BeatBits-1:0]                now;
  logic  [         1:0][BeatBytes-1:0] mask;
  beat_t                               beat;
  beat_t                               beat_q;
  logic                                beat_valid_q;

  assign mask = tag_mask(done.place);

  always_comb begin
    now = done.data;
    former = before_q;
    for (int unsigned i = 0; i < BeatBytes; i++) begin
      if (done.sealed && done.finish) begin
        if (done.place > 6'd48 ? mask[1][i] : mask[0][i]) now[8*i+:8] = ring[8*i+:8];
        if (done.place > 6'd48 && mask[0][i]) former[8*i+:8] = ring[8*i+:8];
      end
    end
    beat.last  = done.last;
    beat.empty = done.last ? done.empty : '0;
    beat.data  = now;
    if (done.sealed) beat.data = {now[8*22-1:0], done.first ? headers_out : former[BeatBits-1:8*22]};
  end

  always_ff @(posedge clk_i) begin
    if (done_valid) begin
      before_q <= now;
      beat_q   <= beat;
    end
    beat_valid_q <= rst_ni && done_valid;
  end

  logic [$clog2(Depth):0] under_way_q;

  fifo #(
    .T    (beat_t),
    .Depth(Depth)
  ) i_out (
    .clk_i,
    .rst_ni,
    .in_valid_i(beat_valid_q),
    /* verilator lint_off PINCONNECTEMPTY */  // never full: it has room for all beats in flight
    .in_ready_o(),
    /* verilator lint_on PINCONNECTEMPTY */
    .in_i      (beat_q),
    .out_valid_o,
    .out_ready_i,
    .out_o,
    /* verilator lint_off PINCONNECTEMPTY */  // not needed
    .level_o   ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  assign room = under_way_q < ($clog2(Depth) + 1)'(Depth);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) under_way_q <= '0;
    else
      under_way_q <= under_way_q + ($clog2(Depth) + 1)'(slot_valid) - ($clog2(Depth) + 1)'(out_valid_o && out_ready_i);
  end

endmodule
