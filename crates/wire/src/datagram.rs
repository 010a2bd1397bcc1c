//! Weft's own datagram: many small engine messages in one UDP payload.
//!
//! NIC-KV (4.2.4) puts one operation into each datagram. On 100 Gb/s links, and through system calls too, a
//! packet costs more than an operation. So here a datagram holds a sequence of messages:
//!
//! ```text
//!  0       2     3     4       6       8
//!  ├ magic ┼ ver ┼ msgs┼ bytes ┼ zero  ┤                               header, 8 bytes
//!  ├ engine┼ kind ┼ length (2) ┼ zero (4)┤ payload, padded to 8 bytes  for each message
//!  ├ zero (4)      ┼ CRC-32 (4)    ┤                                   trailer, 8 bytes
//! ```
//!
//! All integers are big-endian. `bytes` counts the whole datagram. The CRC-32 (IEEE 802.3, as in the ICRC)
//! covers everything before it. It is needed because the 16-bit UDP checksum misses one in 65,536 corrupted
//! datagrams, which is too many for a reliable store. The CRC is at the end, so that a card can transmit the
//! first bytes before it has the last ones. The UDP checksum may be omitted (zero, RFC 768). Every message
//! starts on an 8-byte boundary, so that fields never cross a boundary in a gateware parser.
//!
//! A datagram has at least one message, and its pad bytes are zero.

use crate::ParseError;
use crate::bytes::{be16, be32, take};

/// UDP destination port of Weft datagrams.
pub const UDP_PORT: u16 = 4793;

/// Bytes of the datagram's header.
pub const HEADER_BYTES: usize = 8;

/// Bytes after the last message: the CRC, and padding that aligns it.
pub const TRAILER_BYTES: usize = 8;

/// Bytes of each message's header.
pub const MESSAGE_HEADER_BYTES: usize = 8;

/// The most messages in one datagram.
pub const MESSAGES_MAX: usize = 255;

/// The first two bytes: `WF`.
pub const MAGIC: u16 = u16::from_be_bytes(*b"WF");

/// The version of the layout.
pub const VERSION: u8 = 2;

/// The most bytes of a datagram: the maximum of UDP over IPv4, 65,507, rounded down to a multiple of 8.
pub const BYTES_MAX: usize = 65_504;

const CRC_BYTES: usize = 4;

/// One message of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Slot of the destination engine in the NIC.
    pub engine: u8,
    /// Kind of the message, in that engine's own numbering.
    pub kind: u8,
    /// Content, in that engine's own layout; at most 65,535 bytes.
    pub payload: &'a [u8],
}

/// Bytes that a message takes in a datagram if its payload has `payload_bytes` bytes.
pub const fn message_bytes(payload_bytes: usize) -> usize {
    MESSAGE_HEADER_BYTES + payload_bytes.next_multiple_of(8)
}

/// A datagram that was completely checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    count: u8,
    body: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Checks the header, the CRC and the bounds of every message, so that [`Datagram::messages`] cannot
    /// fail.
    ///
    /// # Errors
    ///
    /// `Truncated` if the datagram, or a message in it, exceeds the bytes; `BadField` for a wrong magic or
    /// version, a non-zero reserved or pad byte, no message at all, or bytes after the last message;
    /// `BadChecksum` if the CRC is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Datagram<'a>, ParseError> {
        let (header, rest) = take::<HEADER_BYTES>(bytes)?;
        require("datagram magic", be16(header, 0).into(), MAGIC.into())?;
        require("datagram version", header[2].into(), VERSION.into())?;
        let claimed = usize::from(be16(header, 4));
        if claimed > bytes.len() {
            return Err(ParseError::Truncated { have: bytes.len(), need: claimed });
        }
        require("datagram bytes", claimed as u64, bytes.len() as u64)?;
        let (body, trailer) = rest
            .split_last_chunk::<TRAILER_BYTES>()
            .ok_or(ParseError::Truncated { have: bytes.len(), need: HEADER_BYTES + TRAILER_BYTES })?;
        if be32(trailer, 4) != crc32fast::hash(&bytes[..bytes.len() - CRC_BYTES]) {
            return Err(ParseError::BadChecksum { which: "datagram" });
        }
        require("datagram reserved", (u64::from(be16(header, 6)) << 32) | u64::from(be32(trailer, 0)), 0)?;
        let count = header[3];
        if count == 0 {
            return Err(ParseError::BadField { field: "datagram messages", value: 0 });
        }
        let mut rest = body;
        for _ in 0..count {
            rest = check_message(rest)?;
        }
        require("datagram bytes beyond the last message", rest.len() as u64, 0)?;
        Ok(Datagram { count, body })
    }

    /// The messages, in the order in which they were pushed.
    pub fn messages(&self) -> Messages<'a> {
        Messages { left: self.count, rest: self.body }
    }
}

/// Requires a field to have the value `expected`.
fn require(field: &'static str, value: u64, expected: u64) -> Result<(), ParseError> {
    if value == expected { Ok(()) } else { Err(ParseError::BadField { field, value }) }
}

/// Checks the first message, and returns the bytes after it.
fn check_message(bytes: &[u8]) -> Result<&[u8], ParseError> {
    let (header, rest) = take::<MESSAGE_HEADER_BYTES>(bytes)?;
    require("message reserved", be32(header, 4).into(), 0)?;
    let length = usize::from(be16(header, 2));
    let padded = length.next_multiple_of(8);
    let (content, after) =
        rest.split_at_checked(padded).ok_or(ParseError::Truncated { have: rest.len(), need: padded })?;
    for &pad in &content[length..] {
        require("message pad", pad.into(), 0)?;
    }
    Ok(after)
}

/// Iterator over the messages of a [`Datagram`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    left: u8,
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        self.left = self.left.checked_sub(1)?;
        // The datagram was checked, so neither split fails.
        let (header, rest) = self.rest.split_first_chunk::<MESSAGE_HEADER_BYTES>()?;
        let length = usize::from(be16(header, 2));
        let (content, after) = rest.split_at_checked(length.next_multiple_of(8))?;
        self.rest = after;
        Some(Message { engine: header[0], kind: header[1], payload: &content[..length] })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for Messages<'_> {}

/// Packs messages into a datagram, in a buffer that is reused.
///
/// ```
/// use weft_wire::datagram::{Builder, Datagram};
///
/// let mut builder = Builder::new(1472);
/// assert!(builder.try_push(0, 7, b"put"));
/// let datagram = Datagram::parse(builder.finish()).unwrap();
/// assert_eq!(datagram.messages().next().unwrap().payload, b"put");
/// builder.clear();
/// assert!(builder.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    /// Header and messages; after [`Builder::finish`], the trailer too.
    bytes: Vec<u8>,
    /// End of the messages.
    end: usize,
    capacity: usize,
    messages: u8,
}

impl Builder {
    /// A builder for datagrams of at most `capacity_bytes` bytes: the path's MTU less 28 bytes of IPv4 and
    /// UDP headers.
    ///
    /// # Panics
    ///
    /// If the capacity is too small for one empty message or exceeds [`BYTES_MAX`].
    pub fn new(capacity_bytes: usize) -> Builder {
        assert!(
            (HEADER_BYTES + MESSAGE_HEADER_BYTES + TRAILER_BYTES..=BYTES_MAX).contains(&capacity_bytes),
            "a datagram of {capacity_bytes} bytes"
        );
        let mut bytes = Vec::with_capacity(capacity_bytes);
        bytes.resize(HEADER_BYTES, 0);
        Builder { bytes, end: HEADER_BYTES, capacity: capacity_bytes, messages: 0 }
    }

    /// Adds a message. Returns `false`, without any change, if it does not fit.
    #[must_use = "a message that does not fit is not in the datagram"]
    pub fn try_push(&mut self, engine: u8, kind: u8, payload: &[u8]) -> bool {
        self.try_push_parts(engine, kind, &[payload])
    }

    /// Adds a message whose payload is the concatenation of `parts`. Returns `false`, without any change, if
    /// it does not fit.
    #[must_use = "a message that does not fit is not in the datagram"]
    pub fn try_push_parts(&mut self, engine: u8, kind: u8, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if self.payload_room().is_none_or(|room| length > room) {
            return false;
        }
        self.bytes.truncate(self.end);
        let [length_high, length_low] = (length as u16).to_be_bytes();
        self.bytes.extend_from_slice(&[engine, kind, length_high, length_low, 0, 0, 0, 0]);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.end = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(self.end, 0);
        self.messages += 1;
        true
    }

    /// The longest payload, in bytes, that one more message may have; `None` if not even an empty message
    /// fits.
    pub fn payload_room(&self) -> Option<usize> {
        if usize::from(self.messages) == MESSAGES_MAX {
            return None;
        }
        (self.capacity & !7).checked_sub(self.bytes() + MESSAGE_HEADER_BYTES)
    }

    /// Writes the header and the trailer, and returns the datagram. Afterwards more messages may be added,
    /// and `finish` called again.
    ///
    /// # Panics
    ///
    /// If there is no message.
    pub fn finish(&mut self) -> &[u8] {
        assert!(!self.is_empty(), "a datagram without messages");
        let total = self.bytes() as u16;
        self.bytes.truncate(self.end);
        self.bytes[0..2].copy_from_slice(&MAGIC.to_be_bytes());
        self.bytes[2] = VERSION;
        self.bytes[3] = self.messages;
        self.bytes[4..6].copy_from_slice(&total.to_be_bytes());
        self.bytes.extend_from_slice(&[0; TRAILER_BYTES - CRC_BYTES]);
        let crc = crc32fast::hash(&self.bytes);
        self.bytes.extend_from_slice(&crc.to_be_bytes());
        &self.bytes
    }

    /// Finishes the datagram and exchanges it for the content of `other`, which is dropped: no byte is copied.
    /// The builder then has no messages, and the buffer of `other`.
    ///
    /// # Panics
    ///
    /// If there is no message.
    pub fn take(&mut self, other: &mut Vec<u8>) {
        self.finish();
        std::mem::swap(&mut self.bytes, other);
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
        self.clear();
    }

    /// Removes all messages, and keeps the buffer.
    pub fn clear(&mut self) {
        self.end = HEADER_BYTES;
        self.messages = 0;
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Bytes of the datagram so far, header and trailer included.
    pub fn bytes(&self) -> usize {
        self.end + TRAILER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<u8> {
        let mut builder = Builder::new(1472);
        assert!(builder.try_push(1, 2, b"seven b"));
        assert!(builder.try_push(3, 4, b""));
        assert!(builder.try_push_parts(5, 6, &[b"eight", b" by"]));
        builder.finish().to_vec()
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let bytes = three();
        assert_eq!(bytes.len(), HEADER_BYTES + 16 + 8 + 16 + TRAILER_BYTES);
        let messages: Vec<_> = Datagram::parse(&bytes).unwrap().messages().collect();
        assert_eq!(
            messages,
            [
                Message { engine: 1, kind: 2, payload: b"seven b" },
                Message { engine: 3, kind: 4, payload: b"" },
                Message { engine: 5, kind: 6, payload: b"eight by" },
            ]
        );
    }

    #[test]
    fn a_datagram_byte_by_byte() {
        // An independent implementation has computed the CRC.
        let expected: &[u8] = &[
            b'W', b'F', 2, 3, 0, 56, 0, 0, // magic, version, messages, bytes
            1, 2, 0, 7, 0, 0, 0, 0, b's', b'e', b'v', b'e', b'n', b' ', b'b',
            0, // engine, kind, length, payload
            3, 4, 0, 0, 0, 0, 0, 0, // no payload
            5, 6, 0, 8, 0, 0, 0, 0, b'e', b'i', b'g', b'h', b't', b' ', b'b', b'y', //
            0, 0, 0, 0, 0xf4, 0x2f, 0xa9, 0x49, // CRC
        ];
        assert_eq!(three(), expected);
    }

    #[test]
    fn a_finished_datagram_takes_further_messages() {
        let mut builder = Builder::new(1472);
        assert!(builder.try_push(1, 2, b"seven b"));
        assert_eq!(builder.finish().len(), builder.bytes());
        assert!(builder.try_push(3, 4, b""));
        assert!(builder.try_push_parts(5, 6, &[b"eight", b" by"]));
        assert_eq!(builder.finish(), three());
    }

    #[test]
    fn a_datagram_is_taken_and_the_next_one_begins() {
        let mut builder = Builder::new(1472);
        let mut taken = b"longer than a header".to_vec();
        for _ in 0..2 {
            assert!(builder.try_push(1, 2, b"seven b"));
            assert!(builder.try_push(3, 4, b""));
            assert!(builder.try_push_parts(5, 6, &[b"eight", b" by"]));
            let address = builder.finish().as_ptr();
            builder.take(&mut taken);
            assert!(builder.is_empty());
            assert_eq!((taken.as_ptr(), &taken), (address, &three()));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_is_rejected() {
        let bytes = three();
        for bit in 0..bytes.len() * 8 {
            let mut corrupted = bytes.clone();
            corrupted[bit / 8] ^= 1 << (bit % 8);
            assert!(Datagram::parse(&corrupted).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(matches!(Datagram::parse(&bytes[..length]), Err(ParseError::Truncated { .. })));
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(
            Datagram::parse(&longer),
            Err(ParseError::BadField { field: "datagram bytes", value: bytes.len() as u64 })
        );
    }

    /// Datagrams with a correct CRC and one wrong field each: each field has its own check.
    #[test]
    fn a_right_crc_does_not_excuse_wrong_fields() {
        for (at, value, field) in [
            (0, 0, "datagram magic"),
            (2, 1, "datagram version"),
            (3, 0, "datagram messages"),
            (3, 2, "datagram bytes beyond the last message"),
            (6, 1, "datagram reserved"),
            (HEADER_BYTES + 16 + 8 + 16, 1, "datagram reserved"),
            (HEADER_BYTES + 4, 1, "message reserved"),
            (HEADER_BYTES + 15, 1, "message pad"),
        ] {
            let mut bytes = three();
            bytes[at] = value;
            reseal(&mut bytes);
            match Datagram::parse(&bytes) {
                Err(ParseError::BadField { field: named, .. }) => assert_eq!(named, field),
                other => panic!("{field}: {other:?}"),
            }
        }
        for (at, value) in [(3, 4), (HEADER_BYTES + 2, 0xff)] {
            let mut bytes = three();
            bytes[at] = value;
            reseal(&mut bytes);
            assert!(matches!(Datagram::parse(&bytes), Err(ParseError::Truncated { .. })), "byte {at}");
        }
    }

    fn reseal(bytes: &mut [u8]) {
        let (content, crc) = bytes.split_last_chunk_mut::<CRC_BYTES>().unwrap();
        *crc = crc32fast::hash(content).to_be_bytes();
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut builder = Builder::new(HEADER_BYTES + 2 * MESSAGE_HEADER_BYTES + TRAILER_BYTES + 13);
        assert_eq!(builder.payload_room(), Some(16));
        assert!(!builder.try_push(0, 0, &[1; 17]));
        assert!(builder.is_empty());
        assert!(builder.try_push(0, 0, &[1; 8]));
        assert_eq!(builder.payload_room(), Some(0));
        assert!(builder.try_push(0, 0, &[]));
        assert_eq!(builder.payload_room(), None);
        assert!(!builder.try_push(0, 0, &[]));
        assert_eq!(Datagram::parse(builder.finish()).unwrap().messages().len(), 2);
    }

    #[test]
    fn the_count_of_messages_is_bounded_and_the_buffer_does_not_grow() {
        let mut builder = Builder::new(BYTES_MAX);
        let buffer = builder.bytes.as_ptr();
        for _ in 0..2 {
            for _ in 0..MESSAGES_MAX {
                assert!(builder.try_push(0, 0, &[]));
            }
            assert!(!builder.try_push(0, 0, &[]));
            assert_eq!(Datagram::parse(builder.finish()).unwrap().messages().len(), MESSAGES_MAX);
            builder.clear();
            let longest = builder.payload_room().unwrap();
            assert!(builder.try_push(0, 0, &vec![7; longest]));
            assert_eq!(builder.finish().len(), BYTES_MAX);
            builder.clear();
        }
        assert_eq!(builder.bytes.as_ptr(), buffer);
    }
}
