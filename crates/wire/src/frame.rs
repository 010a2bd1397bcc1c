//! Whole Ethernet frames, as a NIC's port receives and sends them.

use std::net::Ipv4Addr;

use crate::ParseError;
use crate::arp::Arp;
use crate::ethernet::{ETHER_TYPE_ARP, ETHER_TYPE_IPV4, Ethernet, FRAME_BYTES_MIN, MacAddress};
use crate::icmp::Echo;
use crate::icrc;
use crate::ipv4::{self, Ipv4};
use crate::roce::{self, Packet};
use crate::udp::Udp;

/// A frame, decoded as far as a Weft NIC needs.
///
/// The NIC's dispatcher must check whether the addresses are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Address resolution.
    Arp {
        /// Ethernet header.
        ethernet: Ethernet,
        /// The packet.
        arp: Arp,
    },
    /// ICMP echo.
    Echo {
        /// Ethernet header.
        ethernet: Ethernet,
        /// IPv4 header.
        ipv4: Ipv4,
        /// The message.
        echo: Echo<'a>,
    },
    /// A UDP datagram to any port.
    Udp {
        /// Ethernet header.
        ethernet: Ethernet,
        /// IPv4 header.
        ipv4: Ipv4,
        /// UDP header.
        udp: Udp,
        /// Payload of the datagram.
        payload: &'a [u8],
    },
    /// Any other frame, such as TCP, IPv6, VLAN tags, IPv4 fragments and options. The NIC passes it to the
    /// host.
    Other,
}

impl<'a> Frame<'a> {
    /// Decodes a frame without its frame check sequence. Padding after the IPv4 packet is ignored.
    ///
    /// # Errors
    ///
    /// The error of the first invalid header. `Unsupported` is no error here: the result is [`Frame::Other`].
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, ParseError> {
        match parse(bytes) {
            Err(ParseError::Unsupported { .. }) => Ok(Frame::Other),
            result => result,
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Frame<'_>, ParseError> {
    let (ethernet, packet) = Ethernet::parse(bytes)?;
    match ethernet.ether_type {
        ETHER_TYPE_ARP => Ok(Frame::Arp { ethernet, arp: Arp::parse(packet)? }),
        ETHER_TYPE_IPV4 => {
            let (ipv4, payload) = Ipv4::parse(packet)?;
            match ipv4.protocol {
                ipv4::PROTOCOL_ICMP => Ok(Frame::Echo { ethernet, ipv4, echo: Echo::parse(payload)? }),
                ipv4::PROTOCOL_UDP => {
                    let (udp, payload) = Udp::parse(payload, &ipv4)?;
                    Ok(Frame::Udp { ethernet, ipv4, udp, payload })
                }
                _ => Ok(Frame::Other),
            }
        }
        _ => Ok(Frame::Other),
    }
}

/// One end of a UDP flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Hardware address of the NIC, or of the router to it.
    pub hardware: MacAddress,
    /// IPv4 address.
    pub address: Ipv4Addr,
    /// UDP port.
    pub port: u16,
}

/// The two ends of a flow of datagrams, and the type of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The sender.
    pub source: Endpoint,
    /// The receiver.
    pub destination: Endpoint,
    /// Type of service: six bits of differentiated services, two of congestion notification.
    pub type_of_service: u8,
}

impl Flow {
    /// The flow in the other direction.
    pub fn reversed(&self) -> Flow {
        Flow { source: self.destination, destination: self.source, ..*self }
    }

    fn ethernet(&self) -> Ethernet {
        Ethernet {
            destination: self.destination.hardware,
            source: self.source.hardware,
            ether_type: ETHER_TYPE_IPV4,
        }
    }

    /// The identification is 0: a packet that must not be fragmented needs none (RFC 6864, 4.1).
    fn ipv4(&self) -> Ipv4 {
        Ipv4 {
            type_of_service: self.type_of_service,
            identification: 0,
            dont_fragment: true,
            time_to_live: ipv4::TIME_TO_LIVE,
            protocol: ipv4::PROTOCOL_UDP,
            source: self.source.address,
            destination: self.destination.address,
        }
    }

    fn udp(&self) -> Udp {
        Udp { source_port: self.source.port, destination_port: self.destination.port }
    }
}

/// Appends a frame with a UDP datagram, which has a UDP checksum.
///
/// # Panics
///
/// If the payload exceeds [`crate::udp::PAYLOAD_BYTES_MAX`].
pub fn emit_udp_frame(out: &mut Vec<u8>, flow: &Flow, payload: &[u8]) {
    let start = out.len();
    let ipv4 = flow.ipv4();
    out.extend_from_slice(&flow.ethernet().to_bytes());
    out.extend_from_slice(&ipv4.to_bytes(Udp::BYTES + payload.len()));
    out.extend_from_slice(&flow.udp().to_bytes_with_checksum(&ipv4, payload));
    out.extend_from_slice(payload);
    pad(out, start);
}

/// Appends a frame with a RoCE v2 packet, with its ICRC and without a UDP checksum.
///
/// # Panics
///
/// If the flow's destination port is not [`roce::UDP_PORT`]; and as [`Packet::emit`].
pub fn emit_roce_frame(out: &mut Vec<u8>, flow: &Flow, packet: &Packet) {
    emit_roce(out, flow, packet.wire_bytes(), |out| packet.emit(out));
}

/// As [`emit_roce_frame`], for a packet that is encoded already: its bytes from the BTH to the last pad byte.
///
/// # Panics
///
/// If the flow's destination port is not [`roce::UDP_PORT`], or the bytes are too few for a BTH.
pub fn emit_roce_bytes_frame(out: &mut Vec<u8>, flow: &Flow, packet: &[u8]) {
    emit_roce(out, flow, packet.len(), |out| out.extend_from_slice(packet));
}

fn emit_roce(out: &mut Vec<u8>, flow: &Flow, packet_bytes: usize, emit_packet: impl FnOnce(&mut Vec<u8>)) {
    assert_eq!(flow.destination.port, roce::UDP_PORT, "RoCE v2 has a port of its own");
    let start = out.len();
    let ipv4 = flow.ipv4();
    let payload_bytes = packet_bytes + icrc::BYTES;
    out.extend_from_slice(&flow.ethernet().to_bytes());
    out.extend_from_slice(&ipv4.to_bytes(Udp::BYTES + payload_bytes));
    out.extend_from_slice(&flow.udp().to_bytes(payload_bytes));
    let packet_start = out.len();
    emit_packet(out);
    icrc::Path::new(&ipv4, &flow.udp()).append(out, packet_start);
    pad(out, start);
}

/// Appends a frame with an ARP packet from its sender to `destination`.
pub fn emit_arp_frame(out: &mut Vec<u8>, destination: MacAddress, arp: &Arp) {
    let start = out.len();
    let ethernet = Ethernet { destination, source: arp.sender.hardware, ether_type: ETHER_TYPE_ARP };
    out.extend_from_slice(&ethernet.to_bytes());
    out.extend_from_slice(&arp.to_bytes());
    pad(out, start);
}

/// Appends a frame with an ICMP echo message.
///
/// # Panics
///
/// If the headers are of another protocol, or the message exceeds an IPv4 packet.
pub fn emit_echo_frame(out: &mut Vec<u8>, ethernet: &Ethernet, ipv4: &Ipv4, echo: &Echo) {
    assert_eq!(ethernet.ether_type, ETHER_TYPE_IPV4);
    assert_eq!(ipv4.protocol, ipv4::PROTOCOL_ICMP);
    let start = out.len();
    out.extend_from_slice(&ethernet.to_bytes());
    out.extend_from_slice(&ipv4.to_bytes(Echo::BYTES + echo.payload.len()));
    echo.emit(out);
    pad(out, start);
}

/// Pads the frame that begins at `start` to the minimum length of Ethernet.
fn pad(out: &mut Vec<u8>, start: usize) {
    let bytes = (out.len() - start).max(FRAME_BYTES_MIN);
    out.resize(start + bytes, 0);
}
