// Builds the beats of a datagram's frame from a message, and computes its CRC.
//
// Each beat has the alignment that it will have in the frame: the datagram begins at byte 42 of the first beat, the
// payload at byte 58. The headers in front of the datagram and the CRC are not inserted here. A message with n beats
// of payload has n + 1 beats; the CRC may need one more.
//
// Latency: 2 cycles from a message to its first beat, if the payload is available; 1 cycle from the last beat to its
// CRC. Throughput: a beat every cycle, without a gap between messages. Stalls: the input, while a message is
// processed.
module message_pack
  import weft_pkg::*;
  import engines_pkg::*;
#(
  parameter logic [7:0] Engine = 8'd0
) (
  input  logic                          clk_i,
  input  logic                          rst_ni,
  input  logic                          message_valid_i,
  output logic                          message_ready_o,
  input  logic           [         7:0] message_i,
  input  message_bytes_t                bytes_i,
  // The message is dropped: its payload is consumed and no beat is made.
  input  logic                          drop_i,
  input  logic                          body_valid_i,
  output logic                          body_ready_o,
  input  beat_t                         body_i,
  // There is no ready: the beats are never stalled.
  output logic                          beat_valid_o,
  output logic           [BeatBits-1:0] beat_o,
  // The CRC register. If the covered bytes end in the first half of a beat, the user must still divide out 32 bytes
  // of zeros.
  output logic                          crc_valid_o,
  output logic           [        31:0] crc_o,
  output logic                          idle_o
);

  localparam int unsigned HeaderBytes = 58;
  localparam int unsigned RoomBytes = BeatBytes - HeaderBytes;

  logic                               busy_q;
  logic                               drop_q;
  logic                               first_q;  // no beat has been made yet
  logic                               flush_q;  // the whole payload has arrived
  logic                               empty_q;
  logic           [              7:0] message_q;
  message_bytes_t                     bytes_q;
  logic           [             12:0] words;
  logic                               make;
  logic                               ends;
  logic                               take;

  // The header of the datagram and of its message, the first byte on the left.
  logic           [            127:0] header;
  logic           [    BeatBytes-1:0] keep;
  logic           [8*HeaderBytes-1:0] carry_q;
  logic           [     BeatBits-1:0] beat_q;
  logic                               beat_valid_q;
  logic                               beat_first_q;
  logic                               beat_last_q;
  logic                               last_share_q;
  logic           [              1:0] steps_q;
  logic           [              1:0] steps_share_q;

  assign words = 13'(bytes_q >> 3) + 13'(bytes_q[2:0] != '0);
  assign header = {"WF", 8'd2, 8'd1, {words, 3'd0} + 16'd24, 16'd0, Engine, message_q, bytes_q, 32'd0};
  assign keep = '1 >> body_i.empty;

  assign body_ready_o = busy_q && !flush_q && !empty_q;
  assign take = body_valid_i && body_ready_o;
  assign ends = busy_q && (flush_q || empty_q || (drop_q && take && body_i.last));
  assign make = busy_q && !drop_q && (flush_q || empty_q || take);
  assign message_ready_o = !busy_q || ends;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      busy_q       <= 1'b0;
      beat_valid_q <= 1'b0;
      last_share_q <= 1'b0;
    end else begin
      if (message_ready_o) busy_q <= message_valid_i;
      beat_valid_q <= make;
      last_share_q <= beat_valid_q && beat_last_q;
    end
    if (message_valid_i && message_ready_o) begin
      drop_q    <= drop_i;
      first_q   <= 1'b1;
      flush_q   <= 1'b0;
      empty_q   <= bytes_i == '0;
      message_q <= message_i;
      bytes_q   <= bytes_i;
    end else if (take) begin
      first_q <= 1'b0;
      flush_q <= body_i.last;
    end
    if (make) begin
      beat_first_q <= first_q;
      beat_last_q  <= ends;
      steps_q      <= -words[1:0];
    end
    if (beat_valid_q) steps_share_q <= steps_q;
  end

  for (genvar i = 0; i < HeaderBytes; i++) begin : gen_front
    always_ff @(posedge clk_i) begin
      if (take) begin
        if (!keep[i+RoomBytes] && body_i.last) carry_q[8*i+:8] <= '0;
        else carry_q[8*i+:8] <= body_i.data[8*(i+RoomBytes)+:8];
      end
      if (make) begin
        if (i < 42) begin
          if (first_q) beat_q[8*i+:8] <= '0;
          else beat_q[8*i+:8] <= carry_q[8*i+:8];
        end else begin
          beat_q[8*i+:8] <= first_q ? header[8*(HeaderBytes-1-i)%128+:8] : carry_q[8*i+:8];
        end
      end
    end
  end
  for (genvar i = 0; i < RoomBytes; i++) begin : gen_back
    always_ff @(posedge clk_i) begin
      if (make) begin
        if (!take || (body_i.last && !keep[i])) beat_q[8*(i+HeaderBytes)+:8] <= '0;
        else beat_q[8*(i+HeaderBytes)+:8] <= body_i.data[8*i+:8];
      end
    end
  end

  // The CRC.
  logic [31:0] register_before;
  logic [31:0] register_once;
  logic [31:0] crc_register;

  datagram_crc i_crc (
    .clk_i,
    .rst_ni,
    .valid_i   (beat_valid_q),
    .first_i   (beat_first_q),
    .data_i    (beat_q),
    .register_o(register_before)
  );
  crc_scale #(
    .Bits  (64),
    .Divide(1'b1)
  ) i_scale_once (
    .scale_i   (steps_share_q[0]),
    .register_i(register_before),
    .register_o(register_once)
  );
  crc_scale #(
    .Bits  (128),
    .Divide(1'b1)
  ) i_scale_twice (
    .scale_i   (steps_share_q[1]),
    .register_i(register_once),
    .register_o(crc_register)
  );

  assign beat_valid_o = beat_valid_q;
  assign beat_o = beat_q;
  assign crc_valid_o = last_share_q;
  assign crc_o = crc_register;
  assign idle_o = !busy_q && !beat_valid_q && !last_share_q;

  logic [15:0] given_q;
  always_ff @(posedge clk_i) begin
    if (take) given_q <= (first_q ? '0 : given_q) + 16'(BeatBytes);
    if (rst_ni && take && body_i.last) begin
      assert ((first_q ? '0 : given_q) + 16'(BeatBytes) - 16'(body_i.empty) == bytes_q)
      else $error("a payload is as long as its message says");
    end
  end

endmodule
