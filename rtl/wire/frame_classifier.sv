// Classifies a frame by its first beat. Purely combinational.
//
// Fields behind the end of a short frame are read as well; the length check drops such a frame as malformed later.
// The card itself serves plain Ethernet II and IPv4 without options. Frames with VLAN tags or IP options, and
// fragments, go to the host.
module frame_classifier
  import weft_pkg::*;
(
  input  mac_address_t                 hardware_i,
  input  ipv4_address_t                address_i,
  input  logic          [BeatBits-1:0] data_i,
  // The destination MAC address is another station's.
  output logic                         for_others_o,
  output logic                         arp_o,
  output logic                         ipv4_o,
  // IPv4 with options.
  output logic                         options_o,
  // A complete ICMP message (or UDP datagram), that is, not a fragment.
  output logic                         icmp_o,
  output logic                         udp_o,
  // A UDP datagram to this port's address and RoCE v2's UDP port.
  output logic                         roce_o,
  // Class of a frame that is not RoCE.
  output other_class_e                 kind_o,
  // Malformed regardless of its length.
  output logic                         malformed_o
);

  localparam logic [15:0] EtherTypeIpv4 = 16'h0800;
  localparam logic [15:0] EtherTypeArp = 16'h0806;
  localparam logic [7:0] ProtocolIcmp = 8'd1;
  localparam logic [7:0] ProtocolUdp = 8'd17;
  localparam logic [15:0] RocePort = 16'd4791;

  function automatic logic [7:0] at8(logic [BeatBits-1:0] data, int unsigned place);
    return data[8*place+:8];
  endfunction
  function automatic logic [15:0] at16(logic [BeatBits-1:0] data, int unsigned place);
    return {at8(data, place), at8(data, place + 1)};
  endfunction
  function automatic logic [31:0] at32(logic [BeatBits-1:0] data, int unsigned place);
    return {at16(data, place), at16(data, place + 2)};
  endfunction

  logic multicast, ours;
  assign multicast = data_i[0];
  assign for_others_o = !multicast && {at16(data_i, 0), at32(data_i, 2)} != hardware_i;

  // ARP: Ethernet and IPv4 addresses, request or reply.
  logic arp_served;
  logic [47:0] arp_types;
  logic [15:0] arp_operation;
  assign arp_o = at16(data_i, 12) == EtherTypeArp;
  assign arp_types = {at32(data_i, 14), at16(data_i, 18)};
  assign arp_operation = at16(data_i, 20);
  assign arp_served = arp_types == {16'd1, EtherTypeIpv4, 8'd6, 8'd4}
                      && (arp_operation == 16'd1 || arp_operation == 16'd2);

  // IPv4.
  logic [3:0] version, header_words;
  logic reserved, fragment, plain;
  assign ipv4_o = at16(data_i, 12) == EtherTypeIpv4;
  assign {version, header_words} = at8(data_i, 14);
  assign reserved = data_i[8*20+7];
  assign fragment = (at16(data_i, 20) & 16'h3fff) != '0;
  assign options_o = ipv4_o && header_words > 4'd5;
  assign plain = ipv4_o && header_words == 4'd5 && !fragment;
  assign ours = at32(data_i, 30) == address_i;

  logic echo, echo_bad;
  assign icmp_o = plain && at8(data_i, 23) == ProtocolIcmp;
  assign echo = at8(data_i, 34) == 8'd8;
  assign echo_bad = (echo || at8(data_i, 34) == 8'd0) && at8(data_i, 35) != 8'd0;

  logic roce_port;
  assign udp_o = plain && at8(data_i, 23) == ProtocolUdp;
  assign roce_port = at16(data_i, 36) == RocePort;
  assign roce_o = udp_o && ours && roce_port && !for_others_o;

  always_comb begin
    kind_o = OtherHost;
    if (arp_o && arp_served) kind_o = OtherArp;
    else if (icmp_o && ours && echo) kind_o = OtherEcho;
    else if (udp_o && ours && !roce_port) kind_o = OtherDatagram;
  end

  assign malformed_o = (ipv4_o && (version != 4'd4 || header_words < 4'd5 || reserved)) || (icmp_o && echo_bad);

endmodule
