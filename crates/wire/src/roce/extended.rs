//! The extended transport headers.

use super::{MASK_24, Syndrome};
use crate::ParseError;
use crate::bytes::{be24, be32, be64};

/// RDMA extended transport header, 16 bytes (clause 9.3.3). The first packet of a WRITE and a READ request
/// have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address in the region.
    pub address: u64,
    /// Remote key of the region.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub length: u32,
}

impl Reth {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// Decodes the header. All values are valid.
    #[inline]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Reth {
        Reth { address: be64(bytes, 0), rkey: be32(bytes, 8), length: be32(bytes, 12) }
    }

    /// Encodes the header.
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// Atomic extended transport header, 28 bytes (clause 9.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// Virtual address of the 8-byte word; a multiple of 8.
    pub address: u64,
    /// Remote key of the region.
    pub rkey: u32,
    /// The value to store (CMP_SWAP) or to add (FETCH_ADD).
    pub swap_or_add: u64,
    /// The value to compare with; for FETCH_ADD zero and ignored.
    pub compare: u64,
}

impl AtomicEth {
    /// Bytes on the wire.
    pub const BYTES: usize = 28;

    /// Decodes the header. A misaligned address is kept: the responder refuses it with a NAK.
    #[inline]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> AtomicEth {
        AtomicEth {
            address: be64(bytes, 0),
            rkey: be32(bytes, 8),
            swap_or_add: be64(bytes, 12),
            compare: be64(bytes, 20),
        }
    }

    /// Encodes the header.
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.swap_or_add.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.compare.to_be_bytes());
        bytes
    }
}

/// ACK extended transport header, 4 bytes (clause 9.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// Kind of the acknowledgement.
    pub syndrome: Syndrome,
    /// Message sequence number, 24 bits: the number of messages that the responder has completed.
    pub msn: u32,
}

impl Aeth {
    /// Bytes on the wire.
    pub const BYTES: usize = 4;

    /// Decodes the header.
    ///
    /// # Errors
    ///
    /// `BadField` if the syndrome is reserved.
    #[inline]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Aeth, ParseError> {
        let syndrome = Syndrome::from_u8(bytes[0])
            .ok_or(ParseError::BadField { field: "AETH.Syndrome", value: bytes[0].into() })?;
        Ok(Aeth { syndrome, msn: be24(bytes, 1) })
    }

    /// Encodes the header.
    ///
    /// # Panics
    ///
    /// If a field exceeds its bits.
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        assert!(self.msn <= MASK_24, "message sequence number {:#x}", self.msn);
        (u32::from(self.syndrome.to_u8()) << 24 | self.msn).to_be_bytes()
    }
}
