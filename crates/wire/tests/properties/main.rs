//! Encoded packets decode to themselves, and invalid ones are rejected without a panic.

mod oracle;
mod strategies;

use std::net::Ipv4Addr;

use proptest::prelude::*;
use strategies::*;
use weft_wire::ParseError;
use weft_wire::arp::{Arp, Operation, Station};
use weft_wire::datagram::{self, Builder, Datagram};
use weft_wire::ethernet::{ETHER_TYPE_IPV4, Ethernet, FRAME_BYTES_MIN, MacAddress};
use weft_wire::frame::{self, Frame};
use weft_wire::icmp::{Echo, EchoKind};
use weft_wire::icrc::{self, Path};
use weft_wire::ipv4::{self, Ipv4};
use weft_wire::roce::{self, Packet};
use weft_wire::udp::Udp;

/// Decodes bytes as each kind of packet. The transport relies on this: a packet that was decoded can be
/// encoded again, and is then the same packet.
fn parse_as_everything(bytes: &[u8]) {
    let _ = Ethernet::parse(bytes);
    let _ = Arp::parse(bytes);
    let _ = Echo::parse(bytes);
    if let Ok((ipv4, payload)) = Ipv4::parse(bytes) {
        let _ = Udp::parse(payload, &ipv4);
    }
    if let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(bytes) {
        let path = Path::new(&ipv4, &udp);
        if let Ok(packet) = path.verify(payload) {
            assert_eq!(path.solve(payload), Ok((packet, ipv4.identification)));
        }
        let _ = Packet::parse(payload);
        let _ = Datagram::parse(payload);
    }
    if let Ok(packet) = Packet::parse(bytes) {
        let mut emitted = Vec::new();
        packet.emit(&mut emitted);
        assert_eq!(emitted.len(), bytes.len());
        assert_eq!(Packet::parse(&emitted), Ok(packet));
    }
    if let Ok(datagram) = Datagram::parse(bytes) {
        let messages = datagram.messages();
        assert_eq!(messages.len(), messages.count());
    }
}

/// No truncated frame is accepted.
fn refuses_every_truncation(frame: &[u8], packet_end: usize) {
    for length in 0..packet_end {
        let result = Frame::parse(&frame[..length]);
        assert!(
            matches!(result, Err(ParseError::Truncated { .. })),
            "{length} of {packet_end} bytes: {result:?}"
        );
        parse_as_everything(&frame[..length]);
    }
}

/// Random bytes, and bytes that begin like a RoCE packet, a datagram or an IPv4 frame, so that later checks
/// are reached too.
fn hostile_bytes() -> impl Strategy<Value = Vec<u8>> {
    let started_as = |start: Vec<u8>| {
        payload(200).prop_map(move |rest| {
            let mut bytes = start.clone();
            bytes.extend(rest);
            bytes
        })
    };
    prop_oneof![
        payload(200),
        (0..0x15u8).prop_flat_map(move |opcode| started_as(vec![opcode, 0])),
        started_as(b"WF\x01".to_vec()),
        started_as([&[0; 12][..], &[0x08, 0x00, 0x45]].concat()),
        started_as(vec![0, 1, 8, 0, 6, 4, 0]),
    ]
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in hostile_bytes()) {
        parse_as_everything(&bytes);
    }

    /// Valid frames with some bytes overwritten pass checks at which random bytes fail.
    #[test]
    fn damaged_frames_never_panic(
        flow in roce_flow(),
        packet in packet(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = Vec::new();
        frame::emit_roce_frame(&mut bytes, &flow, &packet.packet());
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        parse_as_everything(&bytes);
        parse_as_everything(&bytes[14 + 20 + 8..]);
    }

    #[test]
    fn ethernet_round_trips(header in ethernet(), payload in payload(60)) {
        let bytes = [&header.to_bytes()[..], &payload].concat();
        prop_assert_eq!(Ethernet::parse(&bytes), Ok((header, &payload[..])));
    }

    #[test]
    fn arp_round_trips(arp in arp(), padding in payload(18)) {
        prop_assert_eq!(Arp::parse(&[&arp.to_bytes()[..], &padding].concat()), Ok(arp));
    }

    #[test]
    fn ipv4_round_trips(header in ipv4(), payload in payload(60), padding in payload(18)) {
        let bytes = [&header.to_bytes(payload.len())[..], &payload, &padding].concat();
        prop_assert_eq!(Ipv4::parse(&bytes), Ok((header, &payload[..])));
    }

    #[test]
    fn every_flipped_bit_of_an_ipv4_header_is_noticed(header in ipv4(), payload in payload(8), bit in 0..160usize) {
        let mut bytes = [&header.to_bytes(payload.len())[..], &payload].concat();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Ipv4::parse(&bytes).is_err());
    }

    #[test]
    fn echo_round_trips_and_every_flipped_bit_is_noticed(
        kind in echo_kind(),
        (identifier, sequence) in any::<(u16, u16)>(),
        payload in payload(60),
        bit in any::<prop::sample::Index>(),
    ) {
        let echo = Echo { kind, identifier, sequence, payload: &payload };
        let mut bytes = Vec::new();
        echo.emit(&mut bytes);
        prop_assert_eq!(Echo::parse(&bytes), Ok(echo));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Echo::parse(&bytes), Err(ParseError::BadChecksum { which: "ICMP" }));
    }

    /// With the checksum, and without as in RoCE v2. With a checksum a flipped bit is detected, unless it
    /// makes the checksum zero, which means that there is none. A flipped bit of the length changes the range
    /// that the checksum covers, so one in 65,536 passes; such bits are excluded here.
    #[test]
    fn udp_round_trips_and_flipped_bits_are_noticed(
        ipv4 in ipv4(),
        (source_port, destination_port) in any::<(u16, u16)>(),
        payload in payload(60),
        bit in any::<prop::sample::Index>(),
    ) {
        let udp = Udp { source_port, destination_port };
        let without = [&udp.to_bytes(payload.len())[..], &payload].concat();
        prop_assert_eq!(Udp::parse(&without, &ipv4), Ok((udp, &payload[..])));
        let mut with = [&udp.to_bytes_with_checksum(&ipv4, &payload)[..], &payload].concat();
        prop_assert_ne!(&with[6..8], &[0, 0]);
        prop_assert_eq!(Udp::parse(&with, &ipv4), Ok((udp, &payload[..])));
        let bit = bit.index(with.len() * 8);
        prop_assume!(!(4..6).contains(&(bit / 8)));
        with[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Udp::parse(&with, &ipv4).is_err() || with[6..8] == [0, 0]);
    }

    #[test]
    fn packets_round_trip(packet in packet()) {
        let packet = packet.packet();
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        prop_assert_eq!(bytes.len(), packet.wire_bytes());
        prop_assert!(bytes.len().is_multiple_of(4));
        prop_assert_eq!(Packet::parse(&bytes), Ok(packet));
    }

    /// Frames are appended to the buffer, are at least as long as Ethernet requires, and their padding is not
    /// taken for payload.
    #[test]
    fn udp_frames_round_trip(flow in flow(), payload in payload(300), before in payload(3)) {
        let mut bytes = before.clone();
        frame::emit_udp_frame(&mut bytes, &flow, &payload);
        prop_assert_eq!(&bytes[..before.len()], &before[..]);
        let bytes = &bytes[before.len()..];
        prop_assert_eq!(bytes.len(), (14 + 20 + 8 + payload.len()).max(FRAME_BYTES_MIN));
        let Ok(Frame::Udp { ethernet, ipv4, udp, payload: parsed }) = Frame::parse(bytes) else {
            return Err(TestCaseError::fail("not a UDP frame"));
        };
        prop_assert_eq!(parsed, &payload[..]);
        prop_assert_eq!((ethernet.source, ethernet.destination), (flow.source.hardware, flow.destination.hardware));
        prop_assert_eq!((ipv4.source, ipv4.destination), (flow.source.address, flow.destination.address));
        prop_assert_eq!((udp.source_port, udp.destination_port), (flow.source.port, flow.destination.port));
        prop_assert_eq!(ipv4.type_of_service, flow.type_of_service);
        refuses_every_truncation(bytes, 14 + 20 + 8 + payload.len());
    }

    #[test]
    fn roce_frames_round_trip_and_every_truncation_is_refused(flow in roce_flow(), packet in packet()) {
        let packet = packet.packet();
        let mut bytes = Vec::new();
        frame::emit_roce_frame(&mut bytes, &flow, &packet);
        let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(&bytes) else {
            return Err(TestCaseError::fail("not a UDP frame"));
        };
        let transport = Path::new(&ipv4, &udp).verify(payload).unwrap();
        prop_assert_eq!(transport.len() + icrc::BYTES, payload.len());
        prop_assert_eq!(Packet::parse(transport), Ok(packet));
        prop_assert_eq!(frame::Flow { source: flow.destination, destination: flow.source, ..flow }, flow.reversed());
        refuses_every_truncation(&bytes, 14 + 20 + 8 + payload.len());
        for length in 0..transport.len() {
            parse_as_everything(&transport[..length]);
        }
    }

    #[test]
    fn arp_frames_round_trip(destination in mac_address(), arp in arp()) {
        let mut bytes = Vec::new();
        frame::emit_arp_frame(&mut bytes, destination, &arp);
        prop_assert_eq!(bytes.len(), FRAME_BYTES_MIN);
        let Ok(Frame::Arp { ethernet, arp: parsed }) = Frame::parse(&bytes) else {
            return Err(TestCaseError::fail("not an ARP frame"));
        };
        prop_assert_eq!(parsed, arp);
        prop_assert_eq!((ethernet.destination, ethernet.source), (destination, arp.sender.hardware));
        refuses_every_truncation(&bytes, 14 + 28);
    }

    #[test]
    fn echo_frames_round_trip(
        ethernet in ethernet(),
        ipv4 in ipv4(),
        kind in echo_kind(),
        (identifier, sequence) in any::<(u16, u16)>(),
        payload in payload(60),
    ) {
        let ethernet = Ethernet { ether_type: ETHER_TYPE_IPV4, ..ethernet };
        let ipv4 = Ipv4 { protocol: ipv4::PROTOCOL_ICMP, ..ipv4 };
        let echo = Echo { kind, identifier, sequence, payload: &payload };
        let mut bytes = Vec::new();
        frame::emit_echo_frame(&mut bytes, &ethernet, &ipv4, &echo);
        prop_assert_eq!(Frame::parse(&bytes), Ok(Frame::Echo { ethernet, ipv4, echo }));
        refuses_every_truncation(&bytes, 14 + 20 + 8 + payload.len());
    }

    /// For any identification and any guess, the identification is computed from the ICRC. A datagram with an
    /// error is rejected, or gets another identification.
    #[test]
    fn the_identification_is_solved_from_the_icrc(
        mut path in path(),
        packet in prop::collection::vec(any::<u8>(), 12..5_000),
        guess: u16,
        bit: prop::sample::Index,
    ) {
        let mut datagram = packet.clone();
        path.append(&mut datagram, 0);
        let identification = std::mem::replace(&mut path.identification, guess);
        prop_assert_eq!(path.solve(&datagram), Ok((&packet[..], identification)));
        let bit = bit.index(datagram.len() * 8);
        datagram[bit / 8] ^= 1 << (bit % 8);
        let is_covered = bit / 8 != 4; // not the BTH byte with the congestion bits
        let solved = path.solve(&datagram).map(|(_, identification)| identification);
        prop_assert!(!is_covered || solved != Ok(identification));
    }

    #[test]
    fn datagrams_hold_what_fits(
        capacity in 24..2000usize,
        messages in prop::collection::vec((any::<(u8, u8)>(), payload(200)), 0..40),
    ) {
        let mut builder = Builder::new(capacity);
        let mut packed = Vec::new();
        for ((engine, kind), payload) in &messages {
            let fits = builder.bytes() + datagram::message_bytes(payload.len()) <= capacity;
            prop_assert_eq!(builder.try_push(*engine, *kind, payload), fits);
            if fits {
                packed.push(datagram::Message { engine: *engine, kind: *kind, payload });
            }
        }
        prop_assert_eq!(builder.is_empty(), packed.is_empty());
        if !packed.is_empty() {
            let bytes = builder.finish();
            prop_assert!(bytes.len() <= capacity);
            let parsed: Vec<_> = Datagram::parse(bytes).unwrap().messages().collect();
            prop_assert_eq!(parsed, packed);
            for length in 0..bytes.len() {
                prop_assert!(Datagram::parse(&bytes[..length]).is_err());
            }
        }
    }
}

/// A NIC's answers repeat the request's fields, with two exceptions: the answer to a broadcast comes from one
/// station, and the time to live is reset.
#[test]
fn requests_are_answered() {
    let [asker, answerer] = [MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2])];
    let [asker_address, answerer_address] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    assert!(MacAddress::BROADCAST.is_multicast() && !asker.is_multicast());

    let question = Arp {
        operation: Operation::Request,
        sender: Station { hardware: asker, address: asker_address },
        target: Station { hardware: MacAddress::default(), address: answerer_address },
    };
    let answer = Arp {
        operation: Operation::Reply,
        sender: Station { hardware: answerer, address: answerer_address },
        target: question.sender,
    };
    assert_eq!(question.answered_by(answerer), answer);

    let ethernet =
        Ethernet { destination: MacAddress::BROADCAST, source: asker, ether_type: ETHER_TYPE_IPV4 };
    assert_eq!(ethernet.answered_by(answerer), Ethernet { destination: asker, source: answerer, ..ethernet });
    let ipv4 = Ipv4 {
        type_of_service: 0,
        identification: 7,
        dont_fragment: true,
        time_to_live: 3,
        protocol: ipv4::PROTOCOL_ICMP,
        source: asker_address,
        destination: answerer_address,
    };
    let back = Ipv4 { source: answerer_address, destination: asker_address, time_to_live: 64, ..ipv4 };
    assert_eq!(ipv4.answered(), back);
    let echo = Echo { kind: EchoKind::Request, identifier: 1, sequence: 2, payload: b"ping" };
    assert_eq!(echo.answered(), Echo { kind: EchoKind::Reply, ..echo });
}

#[test]
fn what_is_not_for_weft_is_the_hosts() {
    let mut other_type = vec![0; 60];
    other_type[12..14].copy_from_slice(&0x86ddu16.to_be_bytes());
    assert_eq!(Frame::parse(&other_type), Ok(Frame::Other), "IPv6");

    let tcp = Ipv4 {
        type_of_service: 0,
        identification: 1,
        dont_fragment: false,
        time_to_live: 64,
        protocol: 6,
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
    };
    let ethernet =
        Ethernet { destination: Default::default(), source: Default::default(), ether_type: ETHER_TYPE_IPV4 };
    let framed = |header: &[u8]| [&ethernet.to_bytes()[..], header, &[0; 20]].concat();
    assert_eq!(Frame::parse(&framed(&tcp.to_bytes(20))), Ok(Frame::Other), "TCP");

    // A fragment of a UDP datagram, and one with an option (end of list): the position of the checksum moves
    // with them.
    let udp = Ipv4 { protocol: ipv4::PROTOCOL_UDP, ..tcp };
    let mut fragment = udp.to_bytes(20);
    fragment[6] = 0x20;
    fragment[10] -= 0x20;
    assert_eq!(
        Ipv4::parse(&framed(&fragment)[14..]),
        Err(ParseError::Unsupported { what: "IPv4 fragments" })
    );
    assert_eq!(Frame::parse(&framed(&fragment)), Ok(Frame::Other));
    let mut optioned = [&udp.to_bytes(20)[..], &[0; 4]].concat();
    optioned[0] = 0x46;
    optioned[10] -= 1;
    assert_eq!(Ipv4::parse(&framed(&optioned)[14..]), Err(ParseError::Unsupported { what: "IPv4 options" }));
    assert_eq!(Frame::parse(&framed(&optioned)), Ok(Frame::Other));
}

#[test]
#[should_panic(expected = "RoCE v2 has a port of its own")]
fn roce_goes_to_its_own_port() {
    let end = frame::Endpoint { hardware: Default::default(), address: [10, 0, 0, 1].into(), port: 1 };
    let flow = frame::Flow { source: end, destination: end, type_of_service: 0 };
    let bth = roce::Bth::from_bytes(&[0x04, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0]).unwrap();
    frame::emit_roce_frame(&mut Vec::new(), &flow, &Packet::new(bth, &[]));
}
