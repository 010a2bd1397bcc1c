//! Messages between clients and nodes, byte by byte. They are sent as messages of Weft datagrams.
//!
//! ```text
//! Hello     client(8)
//! Welcome   client(8) session(8)
//! Call      client(8) session(8) sequence(8)  kind(1) zero(7)            request to the engine
//! Answered  client(8) session(8) sequence(8)  kind(1) status(1) zero(6)  the engine's answer
//! ```
//!
//! `session` is the number of the session.
//!
//! Integers are big-endian. The engine defines the kinds in a Call and an Answered, and the content that follows.

use thiserror::Error;

/// Kind of a message between a client and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// To the node: a client requests a session.
    Hello = 96,
    /// To the node: a call.
    Call = 97,
    /// To the client: the number of its session.
    Welcome = 112,
    /// To the client: the outcome of its call.
    Answered = 113,
}

impl Kind {
    /// The lowest kind of messages that clients send; the kinds of engines are lower.
    pub const FIRST: u8 = Self::Hello as u8;
}

/// State of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The engine has answered.
    Answer = 0,
    /// The call was not begun and never will be.
    NotBegun = 1,
    /// The node does not know: the call may have begun in a former session.
    Unknown = 2,
}

/// A call to an engine or its answer: a kind and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body<'a> {
    /// The engine's kind of call or answer.
    pub kind: u8,
    /// Content of the call or answer.
    pub bytes: &'a [u8],
}

impl Body<'_> {
    /// An empty body.
    pub const NONE: Self = Self { kind: 0, bytes: &[] };
}

/// A message between a client and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above says what the fields are")]
pub enum Message<'a> {
    Hello { client: u64 },
    Welcome { client: u64, session: u64 },
    Call { client: u64, session: u64, sequence: u64, body: Body<'a> },
    Answered { client: u64, session: u64, sequence: u64, status: Status, body: Body<'a> },
}

/// Why bytes are no valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// There is no such kind.
    #[error("no message is of kind {0}")]
    Kind(u8),
    /// The message is shorter or longer than its kind requires.
    #[error("{have} bytes where {need} are needed")]
    Length {
        /// Length of the bytes.
        have: usize,
        /// Bytes that the kind needs.
        need: usize,
    },
    /// There is no such status.
    #[error("no call ends with status {0}")]
    Status(u8),
}

/// Bytes before the body.
const HEAD: usize = 32;

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl<'a> Message<'a> {
    /// Bytes that a call or an answer has beside its body.
    pub const OVERHEAD: usize = HEAD;

    /// Decodes a message.
    ///
    /// # Errors
    /// An unknown kind or status, or a wrong length.
    pub fn parse(kind: u8, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let exactly = |need: usize| {
            if bytes.len() == need { Ok(()) } else { Err(Malformed::Length { have: bytes.len(), need }) }
        };
        let at_least_head = || {
            if bytes.len() >= HEAD {
                Ok(())
            } else {
                Err(Malformed::Length { have: bytes.len(), need: HEAD })
            }
        };
        if kind == Kind::Hello as u8 {
            exactly(8)?;
            return Ok(Self::Hello { client: word(bytes, 0) });
        }
        if kind == Kind::Welcome as u8 {
            exactly(16)?;
            return Ok(Self::Welcome { client: word(bytes, 0), session: word(bytes, 8) });
        }
        if kind != Kind::Call as u8 && kind != Kind::Answered as u8 {
            return Err(Malformed::Kind(kind));
        }
        at_least_head()?;
        let (client, session, sequence) = (word(bytes, 0), word(bytes, 8), word(bytes, 16));
        let body = Body { kind: bytes[24], bytes: &bytes[HEAD..] };
        if kind == Kind::Call as u8 {
            return Ok(Self::Call { client, session, sequence, body });
        }
        let known = [Status::Answer, Status::NotBegun, Status::Unknown];
        let status = known.into_iter().find(|status| *status as u8 == bytes[25]);
        let status = status.ok_or(Malformed::Status(bytes[25]))?;
        Ok(Self::Answered { client, session, sequence, status, body })
    }

    /// Appends the encoded content to `out`, and returns the kind.
    pub fn encode(&self, out: &mut Vec<u8>) -> Kind {
        let mut words = |words: &[u64]| {
            words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        };
        let (kind, status, body) = match *self {
            Self::Hello { client } => {
                words(&[client]);
                return Kind::Hello;
            }
            Self::Welcome { client, session } => {
                words(&[client, session]);
                return Kind::Welcome;
            }
            Self::Call { client, session, sequence, body } => {
                words(&[client, session, sequence]);
                (Kind::Call, 0, body)
            }
            Self::Answered { client, session, sequence, status, body } => {
                words(&[client, session, sequence]);
                (Kind::Answered, status as u8, body)
            }
        };
        out.extend_from_slice(&[body.kind, status, 0, 0, 0, 0, 0, 0]);
        out.extend_from_slice(body.bytes);
        kind
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let (client, session, sequence) = (1, 2, 3);
        let body = Body { kind: 40, bytes: b"content" };
        let answered = |status| Message::Answered { client, session, sequence, status, body };
        for message in [
            Message::Hello { client },
            Message::Welcome { client, session },
            Message::Call { client, session, sequence, body },
            answered(Status::Answer),
            answered(Status::NotBegun),
            answered(Status::Unknown),
        ] {
            let mut bytes = Vec::new();
            let kind = message.encode(&mut bytes) as u8;
            assert_eq!(Message::parse(kind, &bytes), Ok(message));
            assert!(Message::parse(kind, &bytes[..7]).is_err());
            assert_eq!(Message::parse(95, &bytes), Err(Malformed::Kind(95)));
        }
        assert_eq!(Message::parse(113, &[3; 40]), Err(Malformed::Status(3)));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written(kind in 90u8..120, bytes in prop::collection::vec(0u8..4, 0..60)) {
            if let Ok(message) = Message::parse(kind, &bytes) {
                let mut again = Vec::new();
                prop_assert_eq!(message.encode(&mut again) as u8, kind);
                prop_assert_eq!(Message::parse(kind, &again), Ok(message));
            }
        }
    }
}
