// The byte layouts of the key-value engine's messages. Twin of crates/engines/kv/src/message.rs, which lists the
// fields.
//
// The functions here build a header in reading order, with the first byte in the top bits. `lanes` converts it to the
// order of a beat, with byte 0 in the lowest lane. All integers are big-endian.
package kv_messages_pkg;

  import weft_pkg::BeatBits;
  import weft_pkg::BeatBytes;
  import engines_pkg::*;
  import kv_pkg::*;

  // Header sizes: the bytes before the value. They include the key, where there is one.
  localparam int unsigned RequestHeaderBytes = 32 + KeyBytes;
  localparam int unsigned ReplyHeaderBytes = 40;
  localparam int unsigned WriteHeaderBytes = 48 + KeyBytes;
  localparam int unsigned StateChunkHeaderBytes = 32;
  // Sizes of complete messages.
  localparam int unsigned AcknowledgeBytes = 24;
  localparam int unsigned CommitBytes = 16;
  localparam int unsigned StateRequestBytes = 16;
  // Sizes of a Sealed without cuts, and of each cut.
  localparam int unsigned SealedHeaderBytes = 16 + 8 * NodesMax;
  localparam int unsigned SealedCutBytes = 8 + 8 * NodesMax;
  localparam int unsigned SealedCutsMax = 4;

  // Value of `next` in the last StateChunk.
  localparam logic [31:0] TransferEnd = '1;

  // Converts between reading order (first byte on top) and a beat (first byte in the lowest lane). Its own inverse.
  function automatic logic [BeatBits-1:0] lanes(logic [BeatBits-1:0] text);
    logic [BeatBits-1:0] beat;
    for (int unsigned i = 0; i < BeatBytes; i++) beat[8*i+:8] = text[BeatBits-1-8*i-:8];
    return beat;
  endfunction

  // Reverses the bytes of one word.
  function automatic logic [63:0] word_lanes(logic [63:0] word);
    logic [63:0] turned;
    for (int unsigned i = 0; i < 8; i++) turned[8*i+:8] = word[63-8*i-:8];
    return turned;
  endfunction

  // Headers as beats, padded with zeros.

  function automatic logic [BeatBits-1:0] request_header(operation_kind_e operation, value_bytes_t value_bytes,
                                                         logic [63:0] client, logic [63:0] request, version_t expected,
                                                         key_t key);
    return lanes(BeatBits'({8'(operation), 8'd0, 16'(value_bytes), 32'd0, client, request, expected, key})
                 << (BeatBits - 8 * RequestHeaderBytes));
  endfunction

  function automatic logic [BeatBits-1:0] reply_header(reply_status_e status, value_bytes_t value_bytes, epoch_t epoch,
                                                       logic [63:0] client, logic [63:0] request, version_t version,
                                                       node_set_t full);
    return lanes(BeatBits'({8'(status), 8'd0, 16'(value_bytes), epoch, client, request, version, full, 48'd0})
                 << (BeatBits - 8 * ReplyHeaderBytes));
  endfunction

  function automatic logic [BeatBits-1:0] write_header(
      epoch_t epoch, operation_kind_e operation, reply_status_e status, value_bytes_t value_bytes, number_t number,
      number_t committed, logic [63:0] client, logic [63:0] request, version_t version, key_t key);
    return lanes(BeatBits'({epoch, 8'(operation), 8'(status), 16'(value_bytes), 64'(number), 64'(committed), client,
                            request, version, key}) << (BeatBits - 8 * WriteHeaderBytes));
  endfunction

  function automatic logic [BeatBits-1:0] acknowledge_header(epoch_t epoch, logic gap, logic asks, number_t accepted,
                                                             number_t committed);
    return lanes(
        BeatBits'({epoch, 6'd0, asks, gap, 24'd0, 64'(accepted), 64'(committed)}) << (BeatBits - 8 * AcknowledgeBytes));
  endfunction

  function automatic logic [BeatBits-1:0] commit_header(epoch_t epoch, number_t committed);
    return lanes(BeatBits'({epoch, 32'd0, 64'(committed)}) << (BeatBits - 8 * CommitBytes));
  endfunction

  function automatic logic [BeatBits-1:0] state_request_header(epoch_t epoch, logic [31:0] attempt, logic sessions,
                                                               logic [31:0] from);
    return lanes(BeatBits'({epoch, attempt, 8'(sessions), 24'd0, from}) << (BeatBits - 8 * StateRequestBytes));
  endfunction

  // The header in front of the records.
  function automatic logic [BeatBits-1:0] state_chunk_header(epoch_t epoch, logic [31:0] attempt, logic sessions,
                                                             logic last, logic [31:0] from, logic [31:0] next,
                                                             number_t tag);
    return lanes(BeatBits'({epoch, attempt, 8'(sessions), 8'(last), 16'd0, from, next, 32'd0, 64'(tag)})
                 << (BeatBits - 8 * StateChunkHeaderBytes));
  endfunction

  // Complete messages, in the form that kv_outgoing takes.

  // The reply to `asker`; its value, if it has one, is read from `source`.
  function automatic outgoing_t reply(asker_t asker, reply_status_e status, version_t version, epoch_t epoch,
                                      node_set_t full, value_source_e source, value_bytes_t value_bytes,
                                      stream_t stream, window_place_t place);
    outgoing_t message;
    message.reply = 1'b1;
    message.to = '0;
    message.caller = asker.caller;
    message.message = KindReply;
    message.header = reply_header(status, value_bytes, epoch, asker.client, asker.request, version, full);
    message.header_bytes = 7'(ReplyHeaderBytes);
    message.source = source;
    message.value_bytes = 16'(value_bytes);
    message.stream = stream;
    message.place = place;
    return message;
  endfunction

  // The reply to `asker` without a value.
  function automatic outgoing_t plain_reply(asker_t asker, reply_status_e status, version_t version, epoch_t epoch,
                                            node_set_t full);
    return reply(asker, status, version, epoch, full, ValueNone, '0, '0, '0);
  endfunction

  // Entry `number` of `stream`, with its value if it has one.
  function automatic outgoing_t write(node_set_t to, epoch_t epoch, entry_t entry, stream_t stream, number_t number,
                                      number_t committed);
    outgoing_t message;
    message.reply = 1'b0;
    message.to = to;
    message.caller = '0;
    message.message = KindWrite;
    message.header = write_header(
        epoch,
        entry.operation,
        entry.status,
        entry.value_bytes,
        number,
        committed,
        entry.asker.client,
        entry.asker.request,
        entry.version,
        entry.key
    );
    message.header_bytes = 7'(WriteHeaderBytes);
    message.source = entry.value_bytes == '0 ? ValueNone : ValueWindow;
    message.value_bytes = 16'(entry.value_bytes);
    message.stream = stream;
    message.place = window_place_t'(number - 1'b1);
    return message;
  endfunction

  // A message that consists of its header.
  function automatic outgoing_t short_message(node_set_t to, kind_e message_kind, logic [BeatBits-1:0] header,
                                              logic [6:0] header_bytes);
    outgoing_t message;
    message.reply = 1'b0;
    message.to = to;
    message.caller = '0;
    message.message = message_kind;
    message.header = header;
    message.header_bytes = header_bytes;
    message.source = ValueNone;
    message.value_bytes = '0;
    message.stream = '0;
    message.place = '0;
    return message;
  endfunction

endpackage
