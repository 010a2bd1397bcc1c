// Decrypts and verifies (opens) PSP frames from the MAC. Twin of `Psp::open` in crates/service/src/psp.
//
// The output is the frame that the sender sealed. A frame that must not be accepted (plaintext where PSP is required,
// an unknown SPI, a wrong source, version or tag, a counter that was received before or is too old) leaves with
// `out_error_o` at its last beat, like a frame with a wrong check sequence, so the consumer drops it. Other frames
// pass. A wrong IPv4 checksum stays wrong.
//
// Latency: 18 cycles from a frame's first beat to the first one of the opened frame, with keys of 256 bits and beats
// without gaps; 4 less with keys of 128. Throughput: a beat every cycle. Order: kept. Stalls: never.
module psp_open
  import weft_pkg::*;
  import aes_pkg::*;
  import psp_pkg::*;
#(
  parameter int unsigned Rounds = 14,
  parameter int unsigned Leaf   = 8
) (
  input  logic                          clk_i,
  input  logic                          rst_ni,
  input  logic          [         15:0] port_i,              // UDP port of PSP
  // Configures an association, indexed by the low bits of its SPI, and its keys (as in `psp_crypt`). This also clears
  // its replay window.
  input  logic                          configure_i,
  input  association_t                  configure_index_i,
  input  logic                          configure_enable_i,
  input  ipv4_address_t                 configure_peer_i,
  input  logic          [         31:0] configure_spi_i,
  input  logic                          key_write_i,
  input  association_t                  key_index_i,
  input  logic          [          4:0] key_place_i,
  input  block_t                        key_i,
  // Frames, with the signals between MAC and receive path.
  input  logic                          rx_valid_i,
  input  logic          [ BeatBits-1:0] rx_data_i,
  input  logic          [BeatBytes-1:0] rx_keep_i,
  input  logic                          rx_last_i,
  input  logic                          rx_error_i,
  output logic                          out_valid_o,
  output logic          [ BeatBits-1:0] out_data_o,
  output logic          [BeatBytes-1:0] out_keep_o,
  output logic                          out_last_o,
  output logic                          out_error_o,
  // Pulses: a frame was opened; a frame was refused, for this cause.
  output logic                          opened_o,
  output logic                          refused_o,
  output psp_cause_e                    cause_o
);

  // Bytes of a frame's first beat that are parsed, and bytes of the output in front of the text.
  localparam int unsigned ReadBytes = 58;
  localparam int unsigned FrontBytes = 34;
  localparam int unsigned Window = 128;

  typedef logic [8*FrontBytes-1:0] front_t;

  // The frame whose first beat was accepted last.

  logic                            begins_q;
  logic                            single_q;
  logic         [ 8*ReadBytes-1:0] read_q;
  logic         [Associations-1:0] enabled_q;
  logic         [            15:0] total;
  logic         [            15:0] port;
  logic         [            31:0] spi;
  logic                            is_udp;
  logic                            is_psp;
  psp_cause_e                      cause;
  association_t                    index;
  psp_plan_t                       plan;
  beat_t                           in;
  logic                            slot_valid;
  psp_slot_t                       slot;

  assign in = '{last: rx_last_i, empty: rx_last_i ? unused_bytes(rx_keep_i) : '0, data: rx_data_i};

  always_ff @(posedge clk_i) begin
    if (rx_valid_i && begins_q) begin
      read_q   <= rx_data_i[8*ReadBytes-1:0];
      single_q <= rx_last_i;
    end
    if (!rst_ni) begin
      begins_q  <= 1'b1;
      enabled_q <= '0;
    end else begin
      if (rx_valid_i) begins_q <= rx_last_i;
      if (configure_i) enabled_q[configure_index_i] <= configure_enable_i;
    end
  end

  (* ram_style = "distributed" *)
  logic [63:0] bound[Associations];

  always_ff @(posedge clk_i) begin
    if (configure_i) bound[configure_index_i] <= {configure_peer_i, configure_spi_i};
  end

  function automatic logic [15:0] read16(logic [8*ReadBytes-1:0] bytes, int unsigned place);
    return {bytes[8*place+:8], bytes[8*place+8+:8]};
  endfunction

  assign total = read16(read_q, 16);
  assign port = read16(read_q, 36);
  assign spi = {read16(read_q, 46), read16(read_q, 48)};
  assign index = spi[$bits(association_t)-1:0];
  // UDP over IPv4 and not a fragment.
  assign is_udp = read16(
      read_q, 12
  ) == 16'h0800 && read_q[8*14+:8] == 8'h45 && read_q[8*23+:8] == 8'd17 && (read16(
      read_q, 20
  ) & 16'h3fff) == '0;
  assign is_psp = is_udp && port == port_i;
  always_comb begin
    cause = PspAccepted;
    if (is_psp) begin
      // A complete frame has at least UDP, PSP header, inner UDP header and tag. This is the only PSP header layout
      // supported, with either version.
      if (single_q || total < 16'd68 || total >= 16'd16_000 || read_q[8*42+:26] != {2'b01, 8'h00, 8'h01, 8'd17}
          || read_q[8*45+3+:5] != '0) begin
        cause = PspMalformed;
      end else if (!enabled_q[index] || bound[index][31:0] != spi) begin
        cause = PspUnknownSpi;
      end else if (bound[index][63:32] != {read16(read_q, 26), read16(read_q, 28)}) begin
        cause = PspWrongPeer;
      end else if (read_q[8*45+2] != (Rounds == 14)) begin
        cause = PspWrongVersion;
      end
    end else if (is_udp && (port == RocePort || port == DatagramPort || read16(read_q, 34) == DatagramPort)) begin
      cause = PspPlaintext;
    end
  end

  assign plan = '{
          sealed: is_psp && cause == PspAccepted,
          cause: cause,
          index: index,
          bytes: 14'(total) + 14'(EthernetBytes)
      };

  psp_slots #(
    .Open(1'b1)
  ) i_slots (
    .clk_i,
    .rst_ni,
    .in_valid_i  (rx_valid_i),
    /* verilator lint_off PINCONNECTEMPTY */  // never stalls
    .in_ready_o  (),
    /* verilator lint_on PINCONNECTEMPTY */
    .in_i        (in),
    .in_error_i  (rx_error_i),
    .plan_i      (plan),
    .room_i      (1'b1),
    .slot_valid_o(slot_valid),
    .slot_o      (slot)
  );

  logic                     done_valid;
  psp_slot_t                done;
  logic      [BeatBits-1:0] ring;

  psp_crypt #(
    .Open  (1'b1),
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
    .slot_i (slot),
    .nonce_i(read_q[8*46+:96]),
    .valid_o(done_valid),
    .slot_o (done),
    .ring_o (ring)
  );

  // Ethernet and IPv4 headers with the shorter length.

  front_t        front_new;
  front_t        front_out;
  logic   [15:0] total_new;
  logic   [16:0] sum;

  assign total_new = total - 16'(OverheadBytes);
  assign sum = {1'b0, ~read16(read_q, 24)} + {1'b0, ~16'(OverheadBytes)};

  always_comb begin
    front_new = read_q[8*FrontBytes-1:0];
    front_new[8*16+:16] = {total_new[7:0], total_new[15:8]};
    {front_new[8*24+:8], front_new[8*25+:8]} = ~(sum[15:0] + 16'(sum[16]));
  end

  fifo #(
    .T    (front_t),
    .Depth(16)
  ) i_fronts (
    .clk_i,
    .rst_ni,
    .in_valid_i (slot_valid && slot.first && slot.sealed),
    /* verilator lint_off PINCONNECTEMPTY */  // never full: fewer frames are in flight
    .in_ready_o (),
    /* verilator lint_on PINCONNECTEMPTY */
    .in_i       (front_new),
    /* verilator lint_off PINCONNECTEMPTY */  // valid whenever the frame's first slot is
    .out_valid_o(),
    /* verilator lint_on PINCONNECTEMPTY */
    .out_ready_i(done_valid && done.first && done.sealed),
    .out_o      (front_out),
    /* verilator lint_off PINCONNECTEMPTY */  // not needed
    .level_o    ()
    /* verilator lint_on PINCONNECTEMPTY */
  );

  // The tag is compared, and slots are repacked into beats.

  logic      [BeatBits-1:0]                before_q;
  logic      [        63:0]                counter_q;
  logic                                    right_q;
  logic                                    right;
  logic      [         1:0][BeatBytes-1:0] mask;
  logic                                    done_valid_q;
  /* verilator lint_off UNUSEDSIGNAL */  // some fields are unused
  psp_slot_t                               done_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic      [BeatBits-1:0]                data_q;

  assign mask = tag_mask(done.place);

  always_comb begin
    right = right_q;
    if (done.finish) begin
      right = 1'b1;
      for (int unsigned i = 0; i < BeatBytes; i++) begin
        if (done.place > 6'd48 ? mask[1][i] : mask[0][i]) right &= done.data[8*i+:8] == ring[8*i+:8];
        if (done.place > 6'd48 && mask[0][i]) right &= before_q[8*i+:8] == ring[8*i+:8];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (done_valid) begin
      before_q <= done.data;
      right_q  <= right;
      done_q   <= done;
      data_q   <= done.data;
      if (done.sealed) begin
        data_q <= {done.data[8*46-1:0], before_q[BeatBits-1:8*46]};
        if (done.first) begin
          data_q[8*FrontBytes-1:0] <= front_out;
          data_q[BeatBits-1:8*FrontBytes] <= done.data[8*46-1:8*16];
          for (int unsigned i = 0; i < 8; i++) counter_q[8*i+:8] <= done.data[8*(15-i)+:8];
        end
      end
    end
    done_valid_q <= rst_ni && done_valid;
  end

  // Replay window: counters that have arrived. Bit c % 128 is that of counter c.

  (* ram_style = "distributed" *)
  logic [      63:0] highests    [Associations];
  (* ram_style = "distributed" *)
  logic [Window-1:0] arriveds    [Associations];

  logic [      63:0] highest;
  logic [Window-1:0] arrived;
  logic [      63:0] ahead;
  logic [      63:0] behind;
  logic              newer;
  logic              allowed;
  logic              accept;
  logic [Window-1:0] kept;
  logic [Window-1:0] arrived_new;

  assign highest = highests[done_q.index];
  assign arrived = arriveds[done_q.index];
  assign ahead   = counter_q - highest;
  assign behind  = highest - counter_q;
  assign newer   = counter_q > highest;
  assign allowed = newer || (behind < 64'(Window) && !arrived[counter_q[6:0]]);
  // A frame that ends in a cycle in which the host configures associations is dropped, because its counter could not
  // be recorded.
  assign accept  = done_valid_q && done_q.last && done_q.sealed && !done_q.error && right_q && allowed && !configure_i;

  always_comb begin
    // Clears the bits from `highest` + 1 up to the new counter. Until now they stood for older counters, which leave
    // the window.
    kept = arrived;
    for (int unsigned i = 0; i < Window; i++) begin
      if (newer && (ahead >= 64'(Window) || 7'(i) - highest[6:0] - 7'd1 < ahead[6:0])) kept[i] = 1'b0;
    end
    arrived_new = kept;
    arrived_new[counter_q[6:0]] = 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (configure_i || accept) begin
      highests[configure_i?configure_index_i : done_q.index] <= configure_i ? '0 : newer ? counter_q : highest;
      arriveds[configure_i?configure_index_i : done_q.index] <= configure_i ? '0 : arrived_new;
    end
  end

  assign out_valid_o = done_valid_q;
  assign out_data_o = data_q;
  assign out_last_o = done_q.last;
  assign out_keep_o = done_q.last ? {BeatBytes{1'b1}} >> done_q.empty : '1;
  assign out_error_o = done_q.error || (done_q.last && done_q.sealed && !accept);
  assign opened_o = accept;
  assign refused_o = done_valid_q && done_q.last && out_error_o;
  assign cause_o = done_q.error || !done_q.sealed ? done_q.cause : right_q ? PspReplayed : PspBadTag;

endmodule
