//! Address resolution between Ethernet and IPv4 (RFC 826).

use std::net::Ipv4Addr;

use crate::ParseError;
use crate::bytes::{be16, take};
use crate::ethernet::{ETHER_TYPE_IPV4, MacAddress};

/// Hardware type of Ethernet.
const HARDWARE_ETHERNET: u16 = 1;

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// ARP request or ARP reply.
    pub operation: Operation,
    /// Addresses of the sender.
    pub sender: Station,
    /// Addresses of the target. In a request the target's hardware address is unknown, and has no meaning.
    pub target: Station,
}

/// ARP request or ARP reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Operation {
    /// Request: which station has the target's IPv4 address?
    Request = 1,
    /// Reply: the sender has the IPv4 address that was requested.
    Reply = 2,
}

/// A hardware address and the IPv4 address that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Hardware address.
    pub hardware: MacAddress,
    /// IPv4 address.
    pub address: Ipv4Addr,
}

impl Arp {
    /// Bytes on the wire.
    pub const BYTES: usize = 28;

    /// Decodes a packet. Bytes after it are padding.
    ///
    /// # Errors
    ///
    /// `Truncated` if there are fewer than 28 bytes; `Unsupported` for other hardware, protocols or
    /// operations.
    pub fn parse(bytes: &[u8]) -> Result<Arp, ParseError> {
        let (packet, _padding) = take::<{ Self::BYTES }>(bytes)?;
        let ethernet_ipv4 = be16(packet, 0) == HARDWARE_ETHERNET
            && be16(packet, 2) == ETHER_TYPE_IPV4
            && packet[4] == 6
            && packet[5] == 4;
        if !ethernet_ipv4 {
            return Err(ParseError::Unsupported { what: "ARP for other than Ethernet and IPv4" });
        }
        let operation = match be16(packet, 6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(ParseError::Unsupported { what: "ARP operations but request and reply" }),
        };
        Ok(Arp { operation, sender: station(packet, 8), target: station(packet, 18) })
    }

    /// Encodes the packet.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..2].copy_from_slice(&HARDWARE_ETHERNET.to_be_bytes());
        bytes[2..4].copy_from_slice(&ETHER_TYPE_IPV4.to_be_bytes());
        bytes[4] = 6;
        bytes[5] = 4;
        bytes[6..8].copy_from_slice(&(self.operation as u16).to_be_bytes());
        bytes[8..14].copy_from_slice(&self.sender.hardware.0);
        bytes[14..18].copy_from_slice(&self.sender.address.octets());
        bytes[18..24].copy_from_slice(&self.target.hardware.0);
        bytes[24..28].copy_from_slice(&self.target.address.octets());
        bytes
    }

    /// The reply to a request: the requested IPv4 address is at `hardware`.
    pub fn answered_by(&self, hardware: MacAddress) -> Arp {
        Arp {
            operation: Operation::Reply,
            sender: Station { hardware, address: self.target.address },
            target: self.sender,
        }
    }
}

fn station(packet: &[u8; Arp::BYTES], at: usize) -> Station {
    let mut hardware = [0; 6];
    hardware.copy_from_slice(&packet[at..at + 6]);
    let [a, b, c, d] = [packet[at + 6], packet[at + 7], packet[at + 8], packet[at + 9]];
    Station { hardware: MacAddress(hardware), address: Ipv4Addr::new(a, b, c, d) }
}
