// Answers ICMP echo requests (RFC 792).
//
// The reply is made in the request's first beat: source and destination are swapped and the checksums updated (RFC
// 1624, equation 3). All other bytes pass unchanged, and bytes behind the IPv4 packet are cut off. If all words of a
// reply are zero, its updated checksum is 0, whereas a new computation would give 0xffff; both are valid.
//
// Latency: 1 cycle. Throughput: one beat every cycle. Order: kept. Stalls: the input when the output does.
module icmp_echo
  import weft_pkg::*;
(
  input  logic              clk_i,
  input  logic              rst_ni,
  input  mac_address_t      hardware_i,
  // Echo requests to the port's address.
  input  logic              frame_valid_i,
  output logic              frame_ready_o,
  input  beat_t             frame_i,
  output logic              out_valid_o,
  input  logic              out_ready_i,
  output beat_t             out_o,
  output icmp_echo_events_t events_o,
  output logic              idle_o
);

  localparam logic [7:0] TimeToLive = 8'd64;

  function automatic logic [15:0] half(logic [BeatBits-1:0] data, int unsigned at);
    return {data[8*at+:8], data[8*at+8+:8]};
  endfunction

  function automatic logic [15:0] swap(logic [15:0] value);
    return {value[7:0], value[15:8]};
  endfunction

  function automatic logic [15:0] add(logic [15:0] a, logic [15:0] b);
    logic [16:0] sum = 17'(a) + 17'(b);
    return sum[15:0] + 16'(sum[16]);
  endfunction

  // `checksum` after `old_word` in the data was replaced by `new_word`.
  function automatic logic [15:0] updated(logic [15:0] checksum, logic [15:0] old_word, logic [15:0] new_word);
    return ~add(add(~checksum, ~old_word), new_word);
  endfunction

  logic                 first_q;
  // The rest of this frame is behind the IPv4 packet.
  logic                 behind_q;
  // Bytes of the packet that remain, this beat included.
  logic  [        16:0] left_q;
  logic  [        16:0] left;
  logic                 ends;
  logic                 take;
  logic                 out_valid_q;
  beat_t                out_q;
  logic  [BeatBits-1:0] turned;

  assign frame_ready_o = !out_valid_q || out_ready_i;
  assign take = frame_valid_i && frame_ready_o;
  assign left = first_q ? 17'(half(frame_i.data, 16)) + 17'd14 : left_q;
  assign ends = left <= 17'd64 || frame_i.last;

  always_comb begin
    turned = frame_i.data;
    turned[47:0] = frame_i.data[95:48];
    for (int unsigned i = 0; i < 6; i++) turned[48+8*i+:8] = hardware_i[8*(5-i)+:8];
    turned[8*22+:8] = TimeToLive;
    turned[8*24+:16] =
        swap(updated(half(frame_i.data, 24), half(frame_i.data, 22), {TimeToLive, frame_i.data[8*23+:8]}));
    turned[8*26+:32] = frame_i.data[8*30+:32];
    turned[8*30+:32] = frame_i.data[8*26+:32];
    turned[8*34+:8] = 8'd0;
    turned[8*36+:16] = swap(updated(half(frame_i.data, 36), half(frame_i.data, 34), {8'd0, frame_i.data[8*35+:8]}));
  end

  always_ff @(posedge clk_i) begin
    if (take && !behind_q) begin
      left_q      <= left - 17'd64;
      out_q.data  <= first_q ? turned : frame_i.data;
      out_q.last  <= ends;
      out_q.empty <= !ends ? '0 : (left <= 17'd64) ? 6'(17'd64 - left) : frame_i.empty;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      first_q     <= 1'b1;
      behind_q    <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      if (out_ready_i) out_valid_q <= 1'b0;
      if (take) begin
        first_q  <= frame_i.last;
        behind_q <= !frame_i.last && (behind_q || ends);
        if (!behind_q) out_valid_q <= 1'b1;
      end
    end
  end

  assign out_valid_o = out_valid_q;
  assign out_o = out_q;
  assign events_o = '{echo_replies: take && first_q};
  assign idle_o = first_q && !out_valid_q && !frame_valid_i;

endmodule
