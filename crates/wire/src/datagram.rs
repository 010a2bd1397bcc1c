//! Weft's own datagram: many small engine messages in one UDP payload.
//!
//! NIC-KV (4.2.4) puts one operation into one datagram. On 100 Gb/s links and through system calls
//! alike the cost of a packet exceeds that of an operation, so here a datagram is a sequence:
//!
//! ```text
//!  0       2     3     4       6       8               12              16
//!  ├ magic ┼ ver ┼ msgs┼ bytes ┼ zero  ┼ CRC-32        ┼ zero          ┤ header, 16 bytes
//!  ├ engine┼ kind ┼ length (2) ┼ zero (4)┤ payload, padded to 8 bytes  │ for each message
//! ```
//!
//! All integers are big-endian. `bytes` counts the whole datagram. The CRC-32 (IEEE 802.3, as the ICRC)
//! covers the datagram with the CRC's own field as zero: the 16-bit UDP checksum passes one in 65,536
//! corrupted datagrams, which is too many for a store that calls itself safe.
//! Every message starts on an 8-byte boundary so that a gateware parser never straddles fields.

/// UDP destination port of Weft datagrams.
pub const UDP_PORT: u16 = 4793;

/// Bytes of the datagram's header.
pub const HEADER_BYTES: usize = 16;

/// Bytes of each message's header.
pub const MESSAGE_HEADER_BYTES: usize = 8;

/// The most messages in one datagram.
pub const MESSAGES_MAX: usize = 255;

/// One message of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Which engine it is for: its slot in the NIC.
    pub engine: u8,
    /// What it is, in that engine's own numbering.
    pub kind: u8,
    /// Its content, in that engine's own layout; at most 65,535 bytes.
    pub payload: &'a [u8],
}
