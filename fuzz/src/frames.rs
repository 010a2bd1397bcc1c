//! Frames, RoCE packets and Weft datagrams: a valid input is encoded again, and must parse to the same.

use weft_wire::datagram::{self, Builder, Datagram};
use weft_wire::ethernet::{ETHER_TYPE_IPV4, Ethernet};
use weft_wire::frame::{self, Endpoint, Flow, Frame};
use weft_wire::icrc;
use weft_wire::ipv4::{self, Ipv4};
use weft_wire::roce::{self, DatagramPacket, Packet};
use weft_wire::udp::Udp;

/// A frame unchanged, and with valid checksums, which a search would not find by itself.
pub fn frame(data: &[u8]) {
    check_frame(data);
    let mut repaired = data.to_vec();
    set_checksums(&mut repaired);
    check_frame(&repaired);
}

/// The packet in a RoCE datagram, from the BTH to the last pad byte.
pub fn packet(data: &[u8]) {
    check_packet(data);
}

/// A Weft datagram unchanged, and with a valid CRC.
pub fn datagram(data: &[u8]) {
    check_datagram(data);
    let mut repaired = data.to_vec();
    set_datagram_crc(&mut repaired);
    check_datagram(&repaired);
}

fn check_frame(bytes: &[u8]) {
    let Ok(parsed) = Frame::parse(bytes) else { return };
    let mut again = Vec::new();
    match parsed {
        Frame::Arp { ethernet, arp } => {
            frame::emit_arp_frame(&mut again, ethernet.destination, &arp);
            let Ok(Frame::Arp { arp: reparsed, .. }) = Frame::parse(&again) else {
                panic!("not ARP: {again:02x?}")
            };
            assert_eq!(reparsed, arp);
        }
        Frame::Echo { ethernet, ipv4, echo } => {
            frame::emit_echo_frame(&mut again, &ethernet, &ipv4, &echo);
            assert_eq!(Frame::parse(&again), Ok(parsed));
        }
        Frame::Udp { ethernet, ipv4, udp, payload } => {
            let flow = flow(&ethernet, &ipv4, &udp);
            frame::emit_udp_frame(&mut again, &flow, payload);
            check_same_flow(&again, &flow, payload);
            match udp.destination_port {
                roce::UDP_PORT => {
                    if let Ok(packet) = icrc::Path::new(&ipv4, &udp).verify(payload) {
                        check_roce_frame(&flow, packet);
                    }
                }
                datagram::UDP_PORT => check_datagram(payload),
                _ => {}
            }
        }
        Frame::Other => {}
    }
}

fn flow(ethernet: &Ethernet, ipv4: &Ipv4, udp: &Udp) -> Flow {
    Flow {
        source: Endpoint { hardware: ethernet.source, address: ipv4.source, port: udp.source_port },
        destination: Endpoint {
            hardware: ethernet.destination,
            address: ipv4.destination,
            port: udp.destination_port,
        },
        type_of_service: ipv4.type_of_service,
    }
}

fn check_same_flow(bytes: &[u8], expected: &Flow, expected_payload: &[u8]) {
    let Ok(Frame::Udp { ethernet, ipv4, udp, payload }) = Frame::parse(bytes) else {
        panic!("not UDP: {bytes:02x?}");
    };
    assert_eq!(flow(&ethernet, &ipv4, &udp), *expected);
    assert_eq!(payload, expected_payload);
}

fn check_roce_frame(flow: &Flow, bytes: &[u8]) {
    let Some(packet) = check_packet(bytes) else { return };
    let mut again = Vec::new();
    frame::emit_roce_frame(&mut again, flow, &packet);
    let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(&again) else {
        panic!("not UDP: {again:02x?}");
    };
    let covered = icrc::Path::new(&ipv4, &udp).verify(payload).expect("the ICRC is right");
    assert_eq!(Packet::parse(covered), Ok(packet));
}

/// Packets of the unreliable services must be encoded to the same bytes.
fn check_unreliable(bytes: &[u8]) {
    let mut again = Vec::new();
    if let Ok(packet) = Packet::parse_unreliable(bytes) {
        packet.emit_unreliable(&mut again);
        assert_eq!(Packet::parse_unreliable(&again), Ok(packet));
    }
    if let Ok(packet) = DatagramPacket::parse(bytes) {
        again.clear();
        packet.emit(&mut again);
        let parsed = DatagramPacket::parse(&again);
        assert_eq!(parsed.map(|again| (again.source, again.payload)), Ok((packet.source, packet.payload)));
    }
}

fn check_packet(bytes: &[u8]) -> Option<Packet<'_>> {
    check_unreliable(bytes);
    let packet = Packet::parse(bytes).ok()?;
    let mut again = Vec::new();
    packet.emit(&mut again);
    assert_eq!(again.len(), bytes.len());
    assert_eq!(again.len(), packet.wire_bytes());
    assert_eq!(Packet::parse(&again), Ok(packet));
    Some(packet)
}

/// The encoding of a datagram is unique, so it must be encoded to the same bytes.
fn check_datagram(bytes: &[u8]) {
    let Ok(datagram) = Datagram::parse(bytes) else { return };
    let mut builder = Builder::new(datagram::BYTES_MAX);
    let count = datagram.messages().len();
    for message in datagram.messages() {
        assert!(builder.try_push(message.engine, message.kind, message.payload));
    }
    assert_eq!(builder.finish(), bytes);
    assert_eq!(datagram.messages().count(), count);
}

/// Sets the checksums of all headers that can be parsed.
pub fn set_checksums(frame: &mut [u8]) {
    const IPV4_AT: usize = Ethernet::BYTES;
    let is_ipv4 = frame.get(12..IPV4_AT).is_some_and(|kind| kind == ETHER_TYPE_IPV4.to_be_bytes());
    if !is_ipv4 || frame.len() < IPV4_AT + Ipv4::BYTES {
        return;
    }
    let header_bytes = usize::from(frame[IPV4_AT] & 15) * 4;
    if let Some(header) = frame.get_mut(IPV4_AT..IPV4_AT + header_bytes) {
        set_checksum(header, 10);
    }
    let total = usize::from(u16::from_be_bytes([frame[IPV4_AT + 2], frame[IPV4_AT + 3]]));
    let protocol = frame[IPV4_AT + 9];
    let Some(body) = frame.get_mut(IPV4_AT + header_bytes..IPV4_AT + total) else { return };
    match protocol {
        ipv4::PROTOCOL_ICMP => set_checksum(body, 2),
        ipv4::PROTOCOL_UDP if body.len() >= Udp::BYTES => {
            // Zero means that there is no checksum.
            body[6..8].fill(0);
            if let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(frame) {
                let (start, length) = (IPV4_AT + Ipv4::BYTES + Udp::BYTES, payload.len());
                let payload = start..start + length;
                match udp.destination_port {
                    roce::UDP_PORT => set_icrc(&mut frame[payload], &icrc::Path::new(&ipv4, &udp)),
                    datagram::UDP_PORT => set_datagram_crc(&mut frame[payload]),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Computes the internet checksum (RFC 1071) of `bytes`, and stores it at `at`.
fn set_checksum(bytes: &mut [u8], at: usize) {
    let Some(field) = bytes.get_mut(at..at + 2) else { return };
    field.fill(0);
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[at..at + 2].copy_from_slice(&(!sum as u16).to_be_bytes());
}

fn set_icrc(payload: &mut [u8], path: &icrc::Path) {
    if payload.len() < roce::Bth::BYTES + icrc::BYTES {
        return;
    }
    let (packet, field) = payload.split_at_mut(payload.len() - icrc::BYTES);
    field.copy_from_slice(&path.icrc(packet).to_le_bytes());
}

fn set_datagram_crc(bytes: &mut [u8]) {
    if let Some((content, crc)) = bytes.split_last_chunk_mut() {
        *crc = crc32fast::hash(content).to_be_bytes();
    }
}
