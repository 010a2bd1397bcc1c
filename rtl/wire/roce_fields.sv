// Parses the transport headers of RoCE v2 packets (InfiniBand volume 1, clauses 9.2 and 9.3) while their beats pass.
//
// `packet_o` holds the fields from the cycle after the packet's last beat (or after its second, if it has more) until
// the first beat of the next packet arrives. Latency: 1 cycle. Throughput: a beat every cycle. Stalls: never.
module roce_fields
  import weft_pkg::*;
(
  input  logic                        clk_i,
  input  logic                        valid_i,
  input  logic                        first_i,
  // The beat is the second of its frame.
  input  logic                        second_i,
  input  logic         [BeatBits-1:0] data_i,
  output roce_packet_t                packet_o,
  // Neither a packet of the reliable connection nor a congestion notification; or another version; or a reserved
  // syndrome.
  output logic                        malformed_o,
  output logic                        has_payload_o,
  // Bytes of a UDP datagram that are not payload: UDP header, BTH, extended headers, pad, ICRC.
  output logic         [         5:0] overhead_o
);

  localparam int unsigned BthAt = 42;
  localparam int unsigned ExtendedAt = 54;

  logic [7:0] opcode;
  logic reth, atomic, aeth, original, immediate, payload, reserved;
  assign opcode = data_i[8*BthAt+:8];
  always_comb begin
    reth      = 1'b0;
    atomic    = 1'b0;
    aeth      = 1'b0;
    original  = 1'b0;
    immediate = 1'b0;
    payload   = 1'b0;
    reserved  = 1'b0;
    unique case (opcode)
      SendFirst, SendMiddle, SendLast, SendOnly, WriteMiddle, WriteLast, ReadResponseMiddle: payload = 1'b1;
      SendLastImmediate, SendOnlyImmediate, WriteLastImmediate: {payload, immediate} = 2'b11;
      WriteFirst, WriteOnly: {payload, reth} = 2'b11;
      WriteOnlyImmediate: {payload, reth, immediate} = 3'b111;
      ReadRequest: reth = 1'b1;
      ReadResponseFirst, ReadResponseLast, ReadResponseOnly: {payload, aeth} = 2'b11;
      Acknowledge: aeth = 1'b1;
      AtomicAcknowledge: {aeth, original} = 2'b11;
      CompareSwap, FetchAdd: atomic = 1'b1;
      CongestionNotification: reserved = 1'b1;
      default: ;
    endcase
  end

  // Length of the extended headers in 4-byte words.
  logic [2:0] words;
  assign words = reth ? (immediate ? 3'd5 : 3'd4) : reserved ? 3'd4 : atomic ? 3'd7 : original ? 3'd3
      : 3'(aeth || immediate);

  // Known syndromes: an acknowledgement with any credit count, an RNR NAK with any timer, or a NAK with one of five
  // codes (tables 44 to 46).
  logic [7:0] syndrome;
  logic       syndrome_known;
  assign syndrome = data_i[8*ExtendedAt+:8];
  assign syndrome_known = syndrome[7:6] == 2'b00 || (syndrome[7:5] == 3'b011 && syndrome[4:0] <= 5'd4);

  logic solicited, unused_migration;
  logic [1:0] pad;
  logic [3:0] version;
  assign {solicited, unused_migration, pad, version} = data_i[8*(BthAt+1)+:8];

  always_ff @(posedge clk_i) begin
    if (valid_i && first_i) begin
      packet_o.opcode <= opcode;
      packet_o.solicited <= solicited;
      packet_o.acknowledge_request <= data_i[8*(BthAt+8)+7];
      // RoCE v2 ignores the congestion bits of the BTH (annex A17) and uses those of the IPv4 header (RFC 3168,
      // section 5).
      packet_o.marked <= data_i[8*15+:2] == 2'b11;
      packet_o.partition_key <= {data_i[8*(BthAt+2)+:8], data_i[8*(BthAt+3)+:8]};
      packet_o.destination_qp <= {data_i[8*(BthAt+5)+:8], data_i[8*(BthAt+6)+:8], data_i[8*(BthAt+7)+:8]};
      packet_o.psn <= {data_i[8*(BthAt+9)+:8], data_i[8*(BthAt+10)+:8], data_i[8*(BthAt+11)+:8]};
      packet_o.source <= {data_i[8*26+:8], data_i[8*27+:8], data_i[8*28+:8], data_i[8*29+:8]};
      packet_o.words <= words;
      packet_o.original <= original;
      packet_o.far_immediate <= reth;
      malformed_o <= (opcode > FetchAdd && !reserved) || version != '0 || (aeth && !syndrome_known);
      has_payload_o <= payload;
      overhead_o <= 6'd24 + {1'b0, words, 2'b00} + 6'(pad);
      for (int place = 0; place < BeatBytes - ExtendedAt; place++) begin
        packet_o.extended[8*(27-place)+:8] <= data_i[8*(ExtendedAt+place)+:8];
      end
    end
    if (valid_i && second_i) begin
      for (int place = BeatBytes - ExtendedAt; place < 28; place++) begin
        packet_o.extended[8*(27-place)+:8] <= data_i[8*(ExtendedAt+place-BeatBytes)+:8];
      end
    end
  end

endmodule
