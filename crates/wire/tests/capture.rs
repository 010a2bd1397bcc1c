//! Checks the codecs against real traffic between two Linux machines with soft RoCE (see `data/README.md`).

use std::collections::BTreeMap;

use pcap_file::pcap::PcapReader;
use weft_wire::ParseError;
use weft_wire::frame::Frame;
use weft_wire::icrc::{self, Path};
use weft_wire::ipv4::Ipv4;
use weft_wire::roce::{self, Opcode, Packet};
use weft_wire::udp::Udp;

/// Offsets of the headers in an Ethernet frame that carries UDP over IPv4 without options.
const IPV4_AT: usize = 14;
const UDP_AT: usize = IPV4_AT + 20;

fn frames() -> Vec<Vec<u8>> {
    let capture = include_bytes!("data/rxe.pcap");
    let mut reader = PcapReader::new(&capture[..]).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    frames
}

/// The RoCE v2 datagrams of a capture: frame, headers, UDP payload.
fn roce(frames: &[Vec<u8>]) -> impl Iterator<Item = (&[u8], Ipv4, Udp, &[u8])> {
    frames.iter().filter_map(|frame| match Frame::parse(frame).unwrap() {
        Frame::Udp { ipv4, udp, payload, .. } if udp.destination_port == roce::UDP_PORT => {
            Some((&frame[..], ipv4, udp, payload))
        }
        _ => None,
    })
}

#[test]
fn every_frame_is_told_apart() {
    let mut kinds = BTreeMap::new();
    for frame in frames() {
        let kind = match Frame::parse(&frame).unwrap() {
            Frame::Arp { .. } => "arp",
            Frame::Echo { .. } => "echo",
            Frame::Udp { .. } => "udp",
            Frame::Other => "other",
        };
        *kinds.entry(kind).or_insert(0) += 1;
    }
    assert_eq!(kinds, BTreeMap::from([("arp", 2), ("other", 236), ("udp", 134)]));
}

#[test]
fn every_icrc_verifies_whatever_the_opcode() {
    let frames = frames();
    let mut verified = 0;
    for (frame, ipv4, udp, payload) in roce(&frames) {
        let path = Path::new(&ipv4, &udp);
        let packet = path.verify(payload).expect("the ICRC that Linux sent");
        let ipv4_header = frame[IPV4_AT..UDP_AT].try_into().unwrap();
        let udp_header = frame[UDP_AT..UDP_AT + 8].try_into().unwrap();
        assert_eq!(icrc::verify(ipv4_header, udp_header, payload), Ok(packet));
        let mut appended = packet.to_vec();
        path.append(&mut appended, 0);
        assert_eq!(appended, payload);
        verified += 1;
    }
    assert_eq!(verified, 134);
}

/// Linux increments the identification of its packets, which a UDP socket does not report to a receiver.
#[test]
fn every_identification_is_solved_from_the_icrc() {
    let frames = frames();
    let mut solved = 0;
    for (_, ipv4, udp, payload) in roce(&frames) {
        let path = Path { identification: 0, ..Path::new(&ipv4, &udp) };
        let packet = &payload[..payload.len() - icrc::BYTES];
        assert_eq!(path.solve(payload), Ok((packet, ipv4.identification)));
        solved += usize::from(ipv4.identification != 0);
    }
    assert_eq!(solved, 134);
}

#[test]
fn every_packet_of_a_reliable_connection_is_emitted_as_it_came() {
    let frames = frames();
    let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
    let mut datagrams = 0;
    for (_, ipv4, udp, payload) in roce(&frames) {
        let bytes = Path::new(&ipv4, &udp).verify(payload).unwrap();
        match Packet::parse(bytes) {
            Ok(packet) => {
                let mut emitted = Vec::new();
                packet.emit(&mut emitted);
                assert_eq!(emitted, bytes, "{packet:?}");
                *counts.entry(packet.bth.opcode as u8).or_default() += 1;
            }
            // A packet of the connection manager: unreliable datagram, SEND ONLY.
            Err(error) => {
                assert_eq!(error, ParseError::BadField { field: "BTH.OpCode", value: 0x64 });
                datagrams += 1;
            }
        }
    }
    assert_eq!(datagrams, 10);
    use Opcode::*;
    let expected = [
        (SendFirst, 5),
        (SendMiddle, 5),
        (SendLast, 5),
        (SendOnly, 18),
        (WriteFirst, 5),
        (WriteMiddle, 5),
        (WriteLast, 5),
        (WriteOnly, 2),
        (ReadRequest, 7),
        (ReadResponseFirst, 5),
        (ReadResponseMiddle, 5),
        (ReadResponseLast, 5),
        (ReadResponseOnly, 2),
        (Acknowledge, 30),
        (AtomicAcknowledge, 10),
        (CompareSwap, 5),
        (FetchAdd, 5),
    ];
    assert_eq!(counts, expected.map(|(opcode, count)| (opcode as u8, count)).into());
}

/// If any single bit from the IPv4 header to the ICRC is flipped, a checksum detects it. The exceptions are
/// fields that routers may change and that only IPv4's own checksum covers.
#[test]
fn every_flipped_bit_is_noticed() {
    let frames = frames();
    for (frame, ..) in roce(&frames) {
        for bit in IPV4_AT * 8..frame.len() * 8 {
            let mut corrupted = frame.to_vec();
            corrupted[bit / 8] ^= 1 << (bit % 8);
            let accepted = match Frame::parse(&corrupted) {
                Ok(Frame::Udp { ipv4, udp, payload, .. }) if udp.destination_port == roce::UDP_PORT => {
                    Path::new(&ipv4, &udp).verify(payload).is_ok()
                }
                _ => false,
            };
            let congestion = bit / 8 == UDP_AT + 8 + 4;
            assert!(!accepted || congestion, "bit {} of byte {}", bit % 8, bit / 8);
        }
    }
}
