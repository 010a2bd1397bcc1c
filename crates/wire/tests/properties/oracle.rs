//! An independent implementation encodes the same values to the same bytes.

use etherparse::{
    ArpHardwareId, ArpOperation, ArpPacket, EtherType, Ethernet2Header, IcmpEchoHeader, Icmpv4Header,
    Icmpv4Type, IpDscp, IpEcn, IpNumber, Ipv4Header, NetHeaders, PacketHeaders, TransportHeader, UdpHeader,
};
use proptest::prelude::*;

use weft_wire::arp::{Arp, Operation};
use weft_wire::frame;
use weft_wire::icmp::{Echo, EchoKind};
use weft_wire::ipv4::Ipv4;
use weft_wire::udp::Udp;

use crate::strategies::*;

/// The same IPv4 header as a type of the other implementation.
fn other_ipv4(ipv4: &Ipv4, payload_bytes: usize) -> Ipv4Header {
    let mut header = Ipv4Header::new(
        payload_bytes as u16,
        ipv4.time_to_live,
        IpNumber(ipv4.protocol),
        ipv4.source.octets(),
        ipv4.destination.octets(),
    )
    .unwrap();
    header.dscp = IpDscp::try_new(ipv4.type_of_service >> 2).unwrap();
    header.ecn = IpEcn::try_new(ipv4.type_of_service & 3).unwrap();
    header.identification = ipv4.identification;
    header.dont_fragment = ipv4.dont_fragment;
    header.header_checksum = header.calc_header_checksum();
    header
}

proptest! {
    #[test]
    fn ethernet_bytes_are_equal(header in ethernet()) {
        let other = Ethernet2Header {
            source: header.source.0,
            destination: header.destination.0,
            ether_type: EtherType(header.ether_type),
        };
        prop_assert_eq!(header.to_bytes(), other.to_bytes());
    }

    #[test]
    fn ipv4_bytes_are_equal(header in ipv4(), payload_bytes in 0..65_515usize) {
        prop_assert_eq!(&header.to_bytes(payload_bytes)[..], &other_ipv4(&header, payload_bytes).to_bytes()[..]);
    }

    #[test]
    fn udp_bytes_are_equal(ipv4 in ipv4(), (source_port, destination_port) in any::<(u16, u16)>(), payload in payload(100)) {
        let udp = Udp { source_port, destination_port };
        let other_ipv4 = other_ipv4(&Ipv4 { protocol: 17, ..ipv4 }, 8 + payload.len());
        let without = UdpHeader::without_ipv4_checksum(source_port, destination_port, payload.len()).unwrap();
        prop_assert_eq!(udp.to_bytes(payload.len()), without.to_bytes());
        let with = UdpHeader::with_ipv4_checksum(source_port, destination_port, &other_ipv4, &payload).unwrap();
        prop_assert_eq!(udp.to_bytes_with_checksum(&ipv4, &payload), with.to_bytes());
    }

    #[test]
    fn arp_bytes_are_equal(arp in arp()) {
        let other = ArpPacket::new(
            ArpHardwareId::ETHERNET,
            EtherType::IPV4,
            match arp.operation {
                Operation::Request => ArpOperation::REQUEST,
                Operation::Reply => ArpOperation::REPLY,
            },
            &arp.sender.hardware.0,
            &arp.sender.address.octets(),
            &arp.target.hardware.0,
            &arp.target.address.octets(),
        )
        .unwrap();
        prop_assert_eq!(&arp.to_bytes()[..], &other.to_bytes()[..]);
        prop_assert_eq!(Arp::parse(&other.to_bytes()), Ok(arp));
    }

    #[test]
    fn echo_bytes_are_equal(kind in echo_kind(), (identifier, sequence) in any::<(u16, u16)>(), payload in payload(100)) {
        let header = IcmpEchoHeader { id: identifier, seq: sequence };
        let other = Icmpv4Header::with_checksum(
            match kind {
                EchoKind::Request => Icmpv4Type::EchoRequest(header),
                EchoKind::Reply => Icmpv4Type::EchoReply(header),
            },
            &payload,
        );
        let mut bytes = Vec::new();
        Echo { kind, identifier, sequence, payload: &payload }.emit(&mut bytes);
        prop_assert_eq!(bytes, [&other.to_bytes()[..], &payload].concat());
    }

    /// The other implementation decodes whole frames, padding included, to the same values.
    #[test]
    fn frames_are_taken_apart_alike(flow in flow(), payload in payload(100)) {
        let mut bytes = Vec::new();
        frame::emit_udp_frame(&mut bytes, &flow, &payload);
        let headers = PacketHeaders::from_ethernet_slice(&bytes).unwrap();
        let Some(NetHeaders::Ipv4(ipv4, _)) = headers.net else {
            return Err(TestCaseError::fail("not IPv4"));
        };
        let Some(TransportHeader::Udp(udp)) = headers.transport else {
            return Err(TestCaseError::fail("not UDP"));
        };
        prop_assert_eq!(headers.payload.slice(), &payload[..]);
        prop_assert_eq!(ipv4.header_checksum, ipv4.calc_header_checksum());
        prop_assert_eq!(udp.checksum, udp.calc_checksum_ipv4(&ipv4, &payload).unwrap());
        prop_assert_eq!((udp.source_port, udp.destination_port), (flow.source.port, flow.destination.port));
    }
}
