// Composes a message and holds it until it is accepted. All message headers are built here.
//
// Latency: 1 cycle. Throughput: a message every cycle. Order: kept. Stalls: while the previous message is not
// accepted.
module kv_compose
  import weft_pkg::BeatBits;
  import engines_pkg::*;
  import kv_pkg::*;
  import kv_messages_pkg::*;
  import kv_streams_pkg::*;
(
  input  logic            clk_i,
  input  logic            rst_ni,
  input  epoch_t          epoch_i,
  input  node_set_t       full_i,
  input  logic            say_valid_i,
  output logic            say_ready_o,
  input  say_t            say_i,
  // Client, request, key and operation of the message.
  input  asker_t          asker_i,
  input  key_t            key_i,
  input  operation_kind_e operation_i,
  // The value that is arriving in the window has no beat yet.
  input  logic            hold_i,
  output logic            outgoing_valid_o,
  input  logic            outgoing_ready_i,
  output outgoing_t       outgoing_o,
  output logic            busy_o
);

  logic valid_q, gone;
  outgoing_t message_q;

  // A value that leaves while it arrives has its first beat in the window; the others follow as fast as they are
  // read.
  assign outgoing_valid_o = valid_q && !(message_q.source == ValueWindow && hold_i);
  assign gone = outgoing_valid_o && outgoing_ready_i;
  assign outgoing_o = message_q;
  assign say_ready_o = !valid_q || gone;
  assign busy_o = valid_q;

  // The 64-bit words of all kinds of messages.
  logic is_reply, is_write;
  assign is_reply = say_i.kind == KindReply;
  assign is_write = say_i.kind == KindWrite;
  logic [63:0] word0, word1, word2, word3, word4;
  logic [511:0] text;
  always_comb begin
    word0 = {epoch_i, 6'd0, say_i.asks, say_i.gap, 24'd0};
    if (is_reply) word0 = {8'(say_i.status), 8'd0, 16'(say_i.value_bytes), epoch_i};
    if (is_write) word0 = {epoch_i, 8'(operation_i), 8'(say_i.status), 16'(say_i.value_bytes)};
    word1 = is_reply ? asker_i.client : 64'(say_i.number);
    word2 = is_reply ? asker_i.request : 64'(say_i.committed);
    word3 = is_reply ? say_i.version : asker_i.client;
    word4 = is_reply ? {full_i, 48'd0} : asker_i.request;
  end
  assign text = 512'({word0, word1, word2, word3, word4, say_i.version, key_i}) << (512 - 384 - KeyBits);

  logic [6:0] bytes;
  always_comb begin
    unique case (say_i.kind)
      KindReply: bytes = 7'(ReplyHeaderBytes);
      KindWrite: bytes = 7'(WriteHeaderBytes);
      KindAcknowledge: bytes = 7'(AcknowledgeBytes);
      default: bytes = 7'(CommitBytes);
    endcase
  end

  // Bytes behind the message's header are zero.
  logic [BeatBits-1:0] header;
  always_comb begin
    header = lanes(text);
    if (!is_write) header[BeatBits-1:8*ReplyHeaderBytes] = '0;
    if (!is_write && !is_reply) header[8*ReplyHeaderBytes-1:8*AcknowledgeBytes] = '0;
    if (say_i.kind == KindCommit) header[8*AcknowledgeBytes-1:8*CommitBytes] = '0;
  end

  always_ff @(posedge clk_i) begin
    if (say_valid_i && say_ready_o) begin
      message_q <= '{
          reply: is_reply,
          to: say_i.to,
          caller: asker_i.caller,
          message: say_i.kind,
          header: header,
          header_bytes: bytes,
          source: say_i.value_bytes == '0 ? ValueNone : ValueWindow,
          value_bytes: 16'(say_i.value_bytes),
          stream: say_i.stream,
          place: say_i.place
      };
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= 1'b0;
    else if (say_valid_i) valid_q <= 1'b1;
    else if (gone) valid_q <= 1'b0;
  end

endmodule
