// Types within the transmit path.
package transmit_pkg;

  import weft_pkg::*;

  // The longest extended headers: an AtomicETH.
  localparam int unsigned ExtensionBytes = 28;
  typedef logic [8*ExtensionBytes-1:0] extension_t;

  // A packet that waits for its payload and for its turn to be sent.
  typedef struct packed {
    qp_index_t   qp;
    opcode_e     opcode;
    psn_t        psn;
    logic        acknowledge_request;
    logic        solicited;
    logic        has_payload;
    // The payload begins in the frame's second beat.
    logic        second;
    logic [1:0]  pad;
    // 32-bit words of extended headers, payload and pad. The frame is 58 bytes longer.
    logic [10:0] words;
    // The extended headers in wire order, followed by zeros.
    extension_t  extension;
  } packet_t;

  // Values for the headers in a frame's first two beats.
  typedef struct packed {
    packet_t       packet;
    mac_address_t  destination_mac;
    ipv4_address_t destination;
    logic [7:0]    type_of_service;
    logic [15:0]   source_port;
    qpn_t          destination_qp;
    logic [12:0]   total_bytes;      // of the IPv4 packet
    // One's complement sum of the IPv4 header, before the last end-around carry.
    logic [16:0]   partial_sum;
    logic          payload_first;    // the payload begins in the frame's first beat
    logic [6:0]    beats;            // number of beats, less one
    logic [5:0]    empty;
  } header_t;

  // The IP type-of-service byte. Congestion notifications are sent in class 6, so that switches serve them first.
  // Requests are ECN-capable if rates are controlled.
  function automatic logic [7:0] type_of_service(opcode_e opcode, logic rate_control);
    if (opcode == CongestionNotification) return 8'hc0;
    return rate_control && (opcode < ReadResponseFirst || opcode > AtomicAcknowledge) ? 8'h02 : 8'h00;
  endfunction

  // Reverses the bytes: the first byte on the wire goes to the lowest bits.
  function automatic extension_t wire_order(extension_t value);
    extension_t result;
    for (int unsigned i = 0; i < ExtensionBytes; i++) begin
      result[8*i+:8] = value[8*(ExtensionBytes-1-i)+:8];
    end
    return result;
  endfunction

  // Number of 32-bit words of extended headers (clause 9.2.2, table 38).
  function automatic logic [2:0] extension_words(opcode_e opcode);
    unique case (opcode)
      WriteFirst, WriteOnly, ReadRequest:                                 return 3'd4;  // RETH
      WriteOnlyImmediate:                                                 return 3'd5;  // RETH, ImmDt
      SendLastImmediate, SendOnlyImmediate, WriteLastImmediate:           return 3'd1;  // ImmDt
      CompareSwap, FetchAdd:                                              return 3'd7;  // AtomicETH
      ReadResponseFirst, ReadResponseLast, ReadResponseOnly, Acknowledge: return 3'd1;  // AETH
      AtomicAcknowledge:                                                  return 3'd3;  // AETH, AtomicAckETH
      CongestionNotification:                                             return 3'd4;  // reserved
      default:                                                            return 3'd0;
    endcase
  endfunction

  // The payload's address is not part of the frame.
  /* verilator lint_off UNUSEDSIGNAL */
  function automatic packet_t encode(transmit_t transmit);
    /* verilator lint_on UNUSEDSIGNAL */
    packet_t packet;
    packet.qp = transmit.qp;
    packet.opcode = transmit.opcode;
    packet.psn = transmit.psn;
    packet.acknowledge_request = transmit.acknowledge_request;
    packet.solicited = transmit.solicited;
    packet.has_payload = transmit.bytes != '0;
    packet.second = extension_words(transmit.opcode) >= 3'd3;
    packet.pad = -transmit.bytes[1:0];
    packet.words = transmit.bytes[12:2] + 11'(transmit.bytes[1:0] != '0) + 11'(extension_words(transmit.opcode));
    unique case (transmit.opcode)
      WriteFirst, WriteOnly, ReadRequest:
      packet.extension = {transmit.remote_address, transmit.rkey, transmit.length, 96'd0};
      WriteOnlyImmediate:
      packet.extension = {transmit.remote_address, transmit.rkey, transmit.length, transmit.immediate, 64'd0};
      SendLastImmediate, SendOnlyImmediate, WriteLastImmediate: packet.extension = {transmit.immediate, 192'd0};
      CompareSwap, FetchAdd:
      packet.extension = {transmit.remote_address, transmit.rkey, transmit.swap_or_add, transmit.compare};
      ReadResponseFirst, ReadResponseLast, ReadResponseOnly, Acknowledge:
      packet.extension = {transmit.syndrome, transmit.msn, 192'd0};
      AtomicAcknowledge: packet.extension = {transmit.syndrome, transmit.msn, transmit.swap_or_add, 128'd0};
      default: packet.extension = '0;
    endcase
    packet.extension = wire_order(packet.extension);
    return packet;
  endfunction

endpackage
