//! Frames and headers, byte by byte.
//!
//! All functions convert between bytes and values, and are pure: they have no time, no input or output, no
//! state. (The capture writer, [`pcapng`], writes to the caller's `std::io::Write`.) Parsers take untrusted
//! bytes, never panic and never read beyond the end. They reject invalid bytes with a [`ParseError`] that
//! says why. Emitters append to a `Vec<u8>` that the caller reuses.

pub mod arp;
pub mod datagram;
pub mod ethernet;
pub mod frame;
pub mod icmp;
pub mod icrc;
pub mod ipv4;
pub mod pcapng;
pub mod roce;
pub mod udp;

mod bytes;
mod checksum;

use thiserror::Error;

/// The reason why bytes from the network are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before the header does.
    #[error("truncated: {have} bytes where {need} are needed")]
    Truncated {
        /// Bytes present.
        have: usize,
        /// Bytes that the header needs.
        need: usize,
    },
    /// A field has a value that its standard does not allow here.
    #[error("field `{field}` holds {value:#x}")]
    BadField {
        /// The standard's name of the field.
        field: &'static str,
        /// The invalid value.
        value: u64,
    },
    /// A checksum does not match the bytes.
    #[error("wrong {which} checksum")]
    BadChecksum {
        /// `IPv4`, `UDP`, `ICMP`, `ICRC` or `datagram`.
        which: &'static str,
    },
    /// The bytes may be valid, but they use a part of the standard that Weft leaves to the host.
    #[error("{what} are left to the host")]
    Unsupported {
        /// The unsupported feature, in the plural: `IPv4 fragments`.
        what: &'static str,
    },
}
