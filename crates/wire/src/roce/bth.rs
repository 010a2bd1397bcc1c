//! The base transport header, with which every packet begins.

use super::{MASK_24, Opcode};
use crate::ParseError;
use crate::bytes::{be16, be24};

/// Base transport header, 12 bytes (clause 9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// Opcode of the packet.
    pub opcode: Opcode,
    /// The receiver should raise an event when the message is complete.
    pub solicited: bool,
    /// Path migration state.
    pub migration: bool,
    /// Zero bytes, 0 to 3, that follow the payload so that it ends on a 4-byte boundary.
    pub pad: u8,
    /// Partition key; `0xffff` is the default partition with full membership.
    pub partition_key: u16,
    /// Forward and backward explicit congestion notification. Reserved in RoCE v2, where the IP header has
    /// the congestion bits (annex A17). The only exception is the backward bit of a congestion notification,
    /// which is set.
    pub congestion: Congestion,
    /// Destination queue pair, 24 bits.
    pub destination: u32,
    /// The requester requests an acknowledgement of this packet.
    pub acknowledge: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

/// The two congestion bits of the base transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    /// This packet met congestion (FECN).
    pub forward: bool,
    /// A packet in the other direction met congestion (BECN).
    pub backward: bool,
}

impl Bth {
    /// Bytes on the wire.
    pub const BYTES: usize = 12;

    /// Decodes the header. Reserved bits are ignored, as the specification requires of a receiver.
    ///
    /// # Errors
    ///
    /// `BadField` if the opcode is not one of [`Opcode::ALL`], or the transport header version is not zero.
    #[inline]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Bth, ParseError> {
        let opcode = Opcode::from_u8(bytes[0])
            .ok_or(ParseError::BadField { field: "BTH.OpCode", value: bytes[0].into() })?;
        let version = bytes[1] & 0x0f;
        if version != 0 {
            return Err(ParseError::BadField { field: "BTH.TVer", value: version.into() });
        }
        Ok(Bth {
            opcode,
            solicited: bytes[1] & 0x80 != 0,
            migration: bytes[1] & 0x40 != 0,
            pad: bytes[1] >> 4 & 3,
            partition_key: be16(bytes, 2),
            congestion: Congestion { forward: bytes[4] & 0x80 != 0, backward: bytes[4] & 0x40 != 0 },
            destination: be24(bytes, 5),
            acknowledge: bytes[8] & 0x80 != 0,
            psn: be24(bytes, 9),
        })
    }

    /// Encodes the header, with reserved bits zero.
    ///
    /// # Panics
    ///
    /// If `pad` exceeds 3, or a 24-bit field exceeds 24 bits.
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        assert!(self.pad <= 3, "{} pad bytes", self.pad);
        assert!(self.destination <= MASK_24, "queue pair {:#x}", self.destination);
        assert!(self.psn <= MASK_24, "packet sequence number {:#x}", self.psn);
        let bit = |set: bool, position: u32| u8::from(set) << position;
        let [key_high, key_low] = self.partition_key.to_be_bytes();
        let [_, destination @ ..] = self.destination.to_be_bytes();
        let [_, psn @ ..] = self.psn.to_be_bytes();
        [
            self.opcode as u8,
            bit(self.solicited, 7) | bit(self.migration, 6) | self.pad << 4,
            key_high,
            key_low,
            bit(self.congestion.forward, 7) | bit(self.congestion.backward, 6),
            destination[0],
            destination[1],
            destination[2],
            bit(self.acknowledge, 7),
            psn[0],
            psn[1],
            psn[2],
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each field, set alone, is at the position that clause 9.2 gives.
    #[test]
    fn fields_land_where_the_specification_draws_them() {
        let none = Bth {
            opcode: Opcode::SendFirst,
            solicited: false,
            migration: false,
            pad: 0,
            partition_key: 0,
            congestion: Congestion::default(),
            destination: 0,
            acknowledge: false,
            psn: 0,
        };
        assert_eq!(none.to_bytes(), [0; 12]);
        let forward = Congestion { forward: true, backward: false };
        let backward = Congestion { forward: false, backward: true };
        for (bth, at, value) in [
            (Bth { opcode: Opcode::FetchAdd, ..none }, 0, 0x14),
            (Bth { solicited: true, ..none }, 1, 0x80),
            (Bth { migration: true, ..none }, 1, 0x40),
            (Bth { pad: 3, ..none }, 1, 0x30),
            (Bth { partition_key: 0x8000, ..none }, 2, 0x80),
            (Bth { congestion: forward, ..none }, 4, 0x80),
            (Bth { congestion: backward, ..none }, 4, 0x40),
            (Bth { destination: 0x01_0000, ..none }, 5, 1),
            (Bth { acknowledge: true, ..none }, 8, 0x80),
            (Bth { psn: 0x01_0000, ..none }, 9, 1),
        ] {
            let mut expected = [0; 12];
            expected[at] = value;
            assert_eq!(bth.to_bytes(), expected);
            assert_eq!(Bth::from_bytes(&expected), Ok(bth));
        }
    }

    #[test]
    fn other_services_and_versions_are_refused() {
        let mut bytes = [0; 12];
        bytes[0] = 0x64; // unreliable datagram, SEND ONLY
        assert_eq!(Bth::from_bytes(&bytes), Err(ParseError::BadField { field: "BTH.OpCode", value: 0x64 }));
        bytes[0] = 4;
        bytes[1] = 1;
        assert_eq!(Bth::from_bytes(&bytes), Err(ParseError::BadField { field: "BTH.TVer", value: 1 }));
    }
}
