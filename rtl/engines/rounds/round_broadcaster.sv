// Sends messages, each to all its targets. A message with its list of targets waits in a queue here, so the engine
// does not have to wait for the network.
//
// Latency: 1 cycle to the message and its head; a proposal follows without a gap. Throughput: a beat every cycle,
// without a gap between messages. Order: kept. Stalls: the input, while `Depth` messages wait.
module round_broadcaster
  import weft_pkg::*;
  import engines_pkg::*;
  import rounds_pkg::*;
#(
  parameter int unsigned Depth = 16
) (
  input  logic                              clk_i,
  input  logic                              rst_ni,
  input  logic                              send_valid_i,
  output logic                              send_ready_o,
  input  rounds_send_t                      send_i,
  // Number of waiting messages.
  output logic            [$clog2(Depth):0] level_o,
  // Read port of the proposal store.
  output logic                              read_o,
  output proposal_place_t                   read_place_o,
  output logic            [            2:0] read_index_o,
  input  logic            [   BeatBits-1:0] read_data_i,
  output logic                              message_valid_o,
  input  logic                              message_ready_i,
  output engine_message_t                   message_o,
  output logic                              body_valid_o,
  input  logic                              body_ready_i,
  output beat_t                             body_o
);

  rounds_send_t send;
  logic valid, ends, message_ends, body_ends, moves, is_head;
  logic message_done_q, body_done_q;
  logic [3:0] beat_q;  // 0 is the head; then come the beats of the proposal
  // Index of the proposal's last beat, and that beat's unused bytes. Both are known while the head leaves.
  logic [3:0] last_beat_q;
  logic [5:0] tail_q;

  fifo #(
    .T    (rounds_send_t),
    .Depth(Depth)
  ) i_waiting (
    .clk_i,
    .rst_ni,
    .in_valid_i (send_valid_i),
    .in_ready_o (send_ready_o),
    .in_i       (send_i),
    .out_valid_o(valid),
    .out_ready_i(ends),
    .out_o      (send),
    .level_o
  );

  assign message_valid_o = valid && !message_done_q;
  assign body_valid_o = valid && !body_done_q;
  assign message_ends = message_done_q || message_ready_i;
  assign moves = body_valid_o && body_ready_i;
  assign body_ends = body_done_q || (moves && body_o.last);
  assign ends = valid && message_ends && body_ends;

  always_comb begin
    message_o = '0;
    message_o.reply = send.reply;
    message_o.to = node_set_t'(send.to);
    message_o.caller = send.caller;
    message_o.message = send.message;
    message_o.bytes = message_bytes_t'(send.head_bytes) + message_bytes_t'(send.bytes);
  end

  assign is_head = beat_q == '0;

  always_ff @(posedge clk_i) begin
    last_beat_q <= 4'((send.bytes + proposal_bytes_t'(BeatBytes - 1)) >> 6);
    tail_q      <= -send.bytes[5:0];
  end

  always_comb begin
    body_o.last  = is_head ? send.bytes == '0 : beat_q == last_beat_q;
    // The last beat of a proposal may be partly unused.
    body_o.empty = '0;
    if (body_o.last) body_o.empty = is_head ? 6'(7'(BeatBytes) - send.head_bytes) : tail_q;
    body_o.data = '0;
    if (is_head) begin
      body_o.data = {send.area, send.head};
    end else begin
      for (int unsigned i = 0; i < BeatBytes; i++) begin
        if (!body_o.last || i < BeatBytes - 32'(tail_q)) body_o.data[8*i+:8] = read_data_i[8*i+:8];
      end
    end
  end

  // A beat is read while the previous one leaves.
  assign read_o = moves && !body_o.last;
  assign read_place_o = send.place;
  assign read_index_o = beat_q[2:0];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      message_done_q <= 1'b0;
      body_done_q    <= 1'b0;
      beat_q         <= '0;
    end else begin
      message_done_q <= valid && message_ends && !ends;
      body_done_q    <= valid && body_ends && !ends;
      if (moves) beat_q <= body_o.last ? '0 : beat_q + 1'b1;
    end
  end

endmodule
