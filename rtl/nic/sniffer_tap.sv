// Observes one direction and stores the frames that pass the filter, truncated to the snap length.
//
// Latency: 4 cycles from a frame's last beat to its first beat at the output. Throughput: one beat every cycle.
// Order: kept. Stalls: never; a frame that finds no room is dropped and counted.
module sniffer_tap
  import weft_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  cycles_t         now_i,
  // Both must be stable from the first beat of a frame to its last; otherwise its stored part is undefined.
  input  logic            enable_i,
  // verilator lint_off UNUSEDSIGNAL
  input  sniffer_config_t config_i,         // its directions are evaluated outside, into `enable_i`
  // verilator lint_on UNUSEDSIGNAL
  input  logic            valid_i,
  input  beat_t           beat_i,
  output logic            out_valid_o,
  input  logic            out_ready_i,
  output beat_t           out_o,
  // Valid with every beat: when the frame's first beat passed, bytes stored, and bytes that the frame had.
  output cycles_t         out_timestamp_o,
  output frame_bytes_t    out_captured_o,
  output frame_bytes_t    out_original_o,
  output logic            taken_o,
  output logic            dropped_o,
  output logic            idle_o
);

  localparam logic [15:0] PortRoce = 16'd4791;

  typedef struct packed {
    cycles_t      timestamp;
    frame_bytes_t captured;
    frame_bytes_t original;
  } record_t;

  function automatic logic [15:0] half(logic [BeatBits-1:0] data, int unsigned at);
    return {data[8*at+:8], data[8*at+8+:8]};
  endfunction

  function automatic logic [31:0] word(logic [BeatBits-1:0] data, int unsigned at);
    return {half(data, at), half(data, at + 2)};
  endfunction

  // Result of the filter for a first beat.
  logic ipv4;
  logic roce;
  logic match;

  assign ipv4 = half(beat_i.data, 12) == 16'h0800;
  assign roce = ipv4 && beat_i.data[8*14+:8] == 8'h45 && beat_i.data[8*23+:8] == 8'd17 && half(
      beat_i.data, 36
  ) == PortRoce;
  assign match = (!config_i.roce_only || roce) && (!config_i.match_qp || (roce && {beat_i.data[8*47+:8], half(
      beat_i.data, 48
  )} == config_i.qp)) && (!config_i.match_address || (ipv4 && (word(
      beat_i.data, 26
  ) == config_i.address || word(
      beat_i.data, 30
  ) == config_i.address)));

  logic         first_q;
  logic         enabled_q;
  logic         enabled;
  logic         matched_q;
  logic         matched;
  cycles_t      timestamp_q;
  frame_bytes_t before_q;
  frame_bytes_t ahead;
  frame_bytes_t whole;
  // `cut`: the part to store has ended, and the frame has not. `held`: that part found room.
  logic         cut_q;
  logic         held_q;
  logic         reaches;
  logic         write;
  beat_t        stored;
  logic         kept;
  logic         dropped;
  logic         judge_q;
  record_t      record_q;
  record_t      out_record;
  logic         unused_ready;
  logic         unused_info;
  logic         buffer_idle;

  assign enabled = first_q ? enable_i : enabled_q;
  assign matched = first_q ? match : matched_q;
  assign ahead   = first_q ? '0 : before_q;
  assign whole   = ahead + frame_bytes_t'(BeatBytes) - frame_bytes_t'(beat_i.empty);
  assign reaches = config_i.snap != '0 && ahead + frame_bytes_t'(BeatBytes) >= config_i.snap;
  assign write   = valid_i && enabled && matched && (first_q || !cut_q);

  always_comb begin
    stored = beat_i;
    stored.last = beat_i.last || reaches;
  end

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      enabled_q <= enabled;
      matched_q <= matched;
      before_q  <= ahead + frame_bytes_t'(BeatBytes);
      cut_q     <= (!first_q && cut_q) || reaches;
      if (write && stored.last) held_q <= kept;
      if (first_q) timestamp_q <= now_i;
      if (beat_i.last) begin
        record_q.original  <= whole;
        record_q.captured  <= (config_i.snap != '0 && whole > config_i.snap) ? config_i.snap : whole;
        record_q.timestamp <= first_q ? now_i : timestamp_q;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q <= 1'b1;
      judge_q <= 1'b0;
    end else begin
      if (valid_i) first_q <= beat_i.last;
      judge_q <= valid_i && beat_i.last && enabled && matched && (write ? kept : held_q);
    end
  end

  frame_buffer #(
    .Verdict(record_t)
  ) u_buffer (
    .clk_i,
    .rst_ni,
    .in_valid_i(write),
    .in_ready_o(unused_ready),
    .in_i(stored),
    .in_info_i(1'b0),
    .kept_o(kept),
    .dropped_o(dropped),
    .verdict_valid_i(judge_q),
    .verdict_good_i(1'b1),
    .verdict_i(record_q),
    .out_valid_o,
    .out_ready_i,
    .out_o,
    .out_info_o(unused_info),
    .out_verdict_o(out_record),
    .idle_o(buffer_idle)
  );

  assign out_timestamp_o = out_record.timestamp;
  assign out_captured_o = out_record.captured;
  assign out_original_o = out_record.original;
  assign taken_o = judge_q;
  assign dropped_o = dropped;
  assign idle_o = first_q && buffer_idle;

endmodule
