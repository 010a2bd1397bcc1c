//! Messages between a client and the host half of a node. They travel as Weft datagrams, so the network may
//! lose, repeat or delay them.
//!
//! ```text
//! Hello     client(8)
//! Welcome   client(8) session(8)
//! Call      client(8) session(8) sequence(8)  procedure(2) length(2) input  count(1) { as in Execute }
//! Answered  client(8) session(8) sequence(8)  status(1) reason(1) id  length(2) answer
//! ```
//!
//! All integers are big-endian. `session` is the number of the session. `id` is encoded as in the
//! messages between engines.

use crate::message::{Item, Malformed, Reader, Want, write_id};
use crate::procedure::Fault;
use crate::procedure::{ANSWER_MAX, Accesses, INPUT_MAX, KEYS_MAX, Outcome, ProcedureId, Request};
use crate::transaction::TransactionId;

/// The kinds of messages between clients and nodes. Engines and hosts use lower numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ClientKind {
    /// To the node: a client asks for a session.
    Hello = 96,
    /// To the node: call a transaction.
    Call = 97,
    /// To the client: its session is open, and has this number (`session`).
    Welcome = 112,
    /// To the client: the outcome of its call.
    Answered = 113,
}

/// The node's answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The transaction has ended. The identifier is that of its last attempt.
    Ended(TransactionId, Outcome),
    /// The node has not begun the call and never will: it does not serve at present, or it has too many
    /// calls.
    Refused,
}

/// A decoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above says what the fields are")]
pub enum ClientMessage {
    Hello { client: u64 },
    Welcome { client: u64, session: u64 },
    Call { client: u64, session: u64, sequence: u64, request: Request },
    Answered { client: u64, session: u64, sequence: u64, answer: Answer },
}

/// How outcomes are encoded.
const COMMITTED: u8 = 0;
const UNANSWERED: u8 = 1;
const ABORTED: u8 = 2;
const CONFLICT: u8 = 3;
const UNAVAILABLE: u8 = 4;
const FAULTY: u8 = 5;
const UNKNOWN: u8 = 6;
const REFUSED: u8 = 7;
const FULL: u8 = 8;

impl ClientMessage {
    /// Decodes a message.
    ///
    /// # Errors
    /// If the message is malformed.
    pub fn parse(kind: u8, payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        let r = &mut reader;
        let message = match kind {
            kind if kind == ClientKind::Hello as u8 => Self::Hello { client: r.u64()? },
            kind if kind == ClientKind::Welcome as u8 => {
                Self::Welcome { client: r.u64()?, session: r.u64()? }
            }
            kind if kind == ClientKind::Call as u8 => Self::Call {
                client: r.u64()?,
                session: r.u64()?,
                sequence: r.u64()?,
                request: read_request(r)?,
            },
            kind if kind == ClientKind::Answered as u8 => Self::Answered {
                client: r.u64()?,
                session: r.u64()?,
                sequence: r.u64()?,
                answer: read_answer(r)?,
            },
            _ => return Err(Malformed::Kind),
        };
        reader.finish()?;
        Ok(message)
    }

    /// Appends the encoded message to `out`, and returns its kind.
    pub fn encode(&self, out: &mut Vec<u8>) -> ClientKind {
        let mut numbers = |numbers: &[u64]| {
            numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        };
        match self {
            Self::Hello { client } => {
                numbers(&[*client]);
                ClientKind::Hello
            }
            Self::Welcome { client, session } => {
                numbers(&[*client, *session]);
                ClientKind::Welcome
            }
            Self::Call { client, session, sequence, request } => {
                numbers(&[*client, *session, *sequence]);
                write_request(out, request);
                ClientKind::Call
            }
            Self::Answered { client, session, sequence, answer } => {
                numbers(&[*client, *session, *sequence]);
                write_answer(out, answer);
                ClientKind::Answered
            }
        }
    }
}

fn read_request(r: &mut Reader<'_>) -> Result<Request, Malformed> {
    let procedure = ProcedureId(r.u16()?);
    let length = usize::from(r.u16()?);
    if length > INPUT_MAX {
        return Err(Malformed::Field("length"));
    }
    let input = r.bytes(length)?.to_vec();
    let count = usize::from(r.u8()?);
    if count > KEYS_MAX {
        return Err(Malformed::Field("count"));
    }
    let mut accesses = Accesses::default();
    for _ in 0..count {
        let access = Want::read(r)?.access;
        accesses.add(access.key, access.mode).map_err(|_| Malformed::Field("key"))?;
    }
    Ok(Request { procedure, input, accesses })
}

/// # Panics
/// If the input is longer than [`INPUT_MAX`].
fn write_request(out: &mut Vec<u8>, request: &Request) {
    assert!(request.input.len() <= INPUT_MAX, "an input has at most {INPUT_MAX} bytes");
    out.extend_from_slice(&request.procedure.0.to_be_bytes());
    out.extend_from_slice(&(request.input.len() as u16).to_be_bytes());
    out.extend_from_slice(&request.input);
    let accesses = request.accesses.as_slice();
    out.push(accesses.len() as u8);
    for (index, &access) in accesses.iter().enumerate() {
        Want { index: index as u8, access }.write(out);
    }
}

fn read_answer(r: &mut Reader<'_>) -> Result<Answer, Malformed> {
    let (status, reason, id) = (r.u8()?, r.u8()?, r.id()?);
    let length = usize::from(r.u16()?);
    if length > ANSWER_MAX {
        return Err(Malformed::Field("length"));
    }
    let answer = r.bytes(length)?.to_vec();
    let outcome = match status {
        COMMITTED => Outcome::Committed { answer },
        UNANSWERED => Outcome::Unanswered,
        ABORTED => Outcome::Aborted { reason, answer },
        CONFLICT => Outcome::Conflict,
        FULL => Outcome::Full,
        UNAVAILABLE => Outcome::Unavailable,
        FAULTY => Outcome::Faulty(Fault::parse(reason).ok_or(Malformed::Field("reason"))?),
        UNKNOWN => Outcome::Unknown,
        REFUSED => return Ok(Answer::Refused),
        _ => return Err(Malformed::Field("status")),
    };
    Ok(Answer::Ended(id, outcome))
}

fn write_answer(out: &mut Vec<u8>, answer: &Answer) {
    const NOTHING: &[u8] = &[];
    let none = TransactionId::none(weft_waist::NodeId::new(0).expect("there is a node 0"));
    let (id, status, reason, answer) = match answer {
        Answer::Refused => (none, REFUSED, 0, NOTHING),
        Answer::Ended(id, outcome) => {
            let (status, reason, answer) = match outcome {
                Outcome::Committed { answer } => (COMMITTED, 0, &answer[..]),
                Outcome::Unanswered => (UNANSWERED, 0, NOTHING),
                Outcome::Aborted { reason, answer } => (ABORTED, *reason, &answer[..]),
                Outcome::Conflict => (CONFLICT, 0, NOTHING),
                Outcome::Full => (FULL, 0, NOTHING),
                Outcome::Unavailable => (UNAVAILABLE, 0, NOTHING),
                Outcome::Faulty(fault) => (FAULTY, *fault as u8, NOTHING),
                Outcome::Unknown => (UNKNOWN, 0, NOTHING),
            };
            (*id, status, reason, answer)
        }
    };
    out.extend_from_slice(&[status, reason]);
    write_id(out, id);
    out.extend_from_slice(&(answer.len() as u16).to_be_bytes());
    out.extend_from_slice(answer);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_waist::{Epoch, NodeId};

    use super::*;
    use crate::key::Key;
    use crate::procedure::Mode;

    fn id() -> TransactionId {
        TransactionId::new(NodeId::new(2).unwrap(), Epoch(3), 77)
    }

    #[test]
    fn messages_read_back() {
        let mut accesses = Accesses::default();
        for (key, mode) in
            [(Key::new(0, 7), Mode::Read), (Key::new(2, 9), Mode::Update), (Key::new(1, 1), Mode::Write)]
        {
            accesses.add(key, mode).unwrap();
        }
        let request = Request { procedure: ProcedureId(5), input: vec![1, 2, 3], accesses };
        let outcomes = [
            Outcome::Committed { answer: vec![9; ANSWER_MAX] },
            Outcome::Unanswered,
            Outcome::Aborted { reason: 4, answer: vec![1] },
            Outcome::Conflict,
            Outcome::Full,
            Outcome::Unavailable,
            Outcome::Faulty(Fault::NoSuchProcedure),
            Outcome::Unknown,
        ];
        let ended = outcomes.map(|outcome| Answer::Ended(id(), outcome)).into_iter();
        let answers = ended.chain([Answer::Refused]);
        let (client, session, sequence) = (1, 2, 3);
        let answered = answers.map(|answer| ClientMessage::Answered { client, session, sequence, answer });
        let others = [
            ClientMessage::Hello { client },
            ClientMessage::Welcome { client, session },
            ClientMessage::Call { client, session, sequence, request },
        ];
        for message in answered.chain(others) {
            let mut bytes = Vec::new();
            let kind = message.encode(&mut bytes);
            assert_eq!(ClientMessage::parse(kind as u8, &bytes), Ok(message.clone()));
            for length in 0..bytes.len() {
                assert!(ClientMessage::parse(kind as u8, &bytes[..length]).is_err(), "{message:?}");
            }
            bytes.push(0);
            assert!(ClientMessage::parse(kind as u8, &bytes).is_err(), "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(kind in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            for kind in [kind, 96, 97, 112, 113] {
                if let Ok(message) = ClientMessage::parse(kind, &bytes) {
                    message.encode(&mut Vec::new());
                }
            }
        }
    }
}
