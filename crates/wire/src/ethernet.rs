//! Ethernet II.

use std::fmt;

use crate::ParseError;
use crate::bytes::{be16, take};

/// EtherType of IPv4.
pub const ETHER_TYPE_IPV4: u16 = 0x0800;

/// EtherType of ARP.
pub const ETHER_TYPE_ARP: u16 = 0x0806;

/// The shortest frame, without its frame check sequence (IEEE 802.3: 64 bytes with it).
pub const FRAME_BYTES_MIN: usize = 60;

/// A 48-bit hardware address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The broadcast address.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// Whether the address stands for several stations.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// The header, 14 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Hardware address of the receiver.
    pub destination: MacAddress,
    /// Hardware address of the sender.
    pub source: MacAddress,
    /// Protocol of the payload. Values below 0x0600 are lengths of IEEE 802.3 frames.
    pub ether_type: u16,
}

impl Ethernet {
    /// Bytes on the wire.
    pub const BYTES: usize = 14;

    /// Decodes the header. Returns it and the bytes after it, which may end with padding.
    ///
    /// # Errors
    ///
    /// `Truncated` if there are fewer than 14 bytes.
    pub fn parse(bytes: &[u8]) -> Result<(Ethernet, &[u8]), ParseError> {
        let (header, rest) = take::<{ Self::BYTES }>(bytes)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *header;
        let ethernet = Ethernet {
            destination: MacAddress([d0, d1, d2, d3, d4, d5]),
            source: MacAddress([s0, s1, s2, s3, s4, s5]),
            ether_type: be16(header, 12),
        };
        Ok((ethernet, rest))
    }

    /// Encodes the header.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..6].copy_from_slice(&self.destination.0);
        bytes[6..12].copy_from_slice(&self.source.0);
        bytes[12..14].copy_from_slice(&self.ether_type.to_be_bytes());
        bytes
    }

    /// The header of an answer that `hardware` sends. (The request's destination may have been the broadcast
    /// address.)
    pub fn answered_by(&self, hardware: MacAddress) -> Ethernet {
        Ethernet { destination: self.source, source: hardware, ether_type: self.ether_type }
    }
}
