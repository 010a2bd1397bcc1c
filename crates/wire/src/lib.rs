//! Frames and headers, byte by byte.
//!
//! Everything here is a pure function between bytes and values: no time, no input or output, no state.
//! (The capture writer, [`pcapng`], writes to whatever `std::io::Write` its caller hands it.)
//! Parsers take untrusted bytes, never panic and never read past the end; what they reject they name
//! ([`ParseError`]). Emitters append to a `Vec<u8>` that the caller reuses.

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

/// Reason for which bytes from the network are refused.
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
    /// A field holds a value that its standard does not allow here.
    #[error("field `{field}` holds {value:#x}")]
    BadField {
        /// The standard's name of the field.
        field: &'static str,
        /// The invalid value.
        value: u64,
    },
    /// A checksum does not match the bytes that it covers.
    #[error("wrong {which} checksum")]
    BadChecksum {
        /// `IPv4`, `UDP`, `ICMP`, `ICRC` or `datagram`.
        which: &'static str,
    },
    /// The bytes may well be valid, but use a part of their standard that Weft leaves to the host.
    #[error("{what} are left to the host")]
    Unsupported {
        /// What was found, in the plural: `IPv4 fragments`.
        what: &'static str,
    },
}
