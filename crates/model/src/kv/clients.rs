//! The clients: the operations that they call, and whether the answers are right.

use std::fmt;

use serde::Serialize;
use weft_check::{Action, History, Operation, Options, Outcome, Verdict, check};
use weft_kv::message::{self, Reply, Request};
use weft_kv::{Status, partition};

use super::NODES;

pub(super) const CLIENTS: usize = 2;
/// The most operations of a client.
const CALLS_MAX: usize = 4;

/// An operation that a client calls on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Read the value.
    Get,
    /// Write a value that no other operation writes.
    Put,
    /// Remove the key.
    Delete,
    /// Write such a value if the key is absent.
    Create,
}

impl Call {
    /// Whether the operation only reads.
    pub(super) const fn reads(self) -> bool {
        matches!(self, Self::Get)
    }

    const fn operation(self) -> message::Operation {
        match self {
            Self::Get => message::Operation::Get,
            Self::Put => message::Operation::Put,
            Self::Delete => message::Operation::Delete,
            Self::Create => message::Operation::CompareAndSet,
        }
    }

    const fn has_value(self) -> bool {
        matches!(self, Self::Put | Self::Create)
    }

    const fn action(self, value: u64) -> Action {
        match self {
            Self::Get => Action::Get,
            Self::Put => Action::Put { value },
            Self::Delete => Action::Delete,
            Self::Create => Action::CompareAndSet { expected: 0, value },
        }
    }

    /// What a reply says of the operation, or `None` if it says that the client should repeat it.
    fn outcome(self, reply: &Reply<'_>) -> Option<Outcome> {
        let version = reply.version;
        Some(match (self, reply.status) {
            (_, Status::NotServing | Status::NotLeader | Status::Busy) => return None,
            (Self::Get, Status::Ok) => {
                let value = reply.value.try_into().expect("clients write values of 8 bytes");
                Outcome::Found { version, value: u64::from_be_bytes(value) }
            }
            (Self::Get | Self::Delete, Status::NotFound) => Outcome::NotFound,
            (Self::Put | Self::Create, Status::Ok) => Outcome::Written { version },
            (Self::Delete, Status::Ok) => Outcome::Deleted { version },
            (Self::Create, Status::Mismatch) => Outcome::Mismatch { version },
            (_, status) => panic!("{self:?} is answered with {status:?}"),
        })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Create => "create",
        })
    }
}

/// A key. In the first view, node 0 leads the first one and node 1 the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// The first key.
    A,
    /// The second key.
    B,
}

impl Key {
    /// The key's bytes.
    pub(super) fn bytes(self) -> [u8; 8] {
        let leads = |number: &u64| partition(&number.to_be_bytes()) % NODES as u32 == self as u32;
        (0..).find(leads).expect("each node leads a third").to_be_bytes()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "a",
            Self::B => "b",
        })
    }
}

/// The operations that each client calls, one after the other, with their keys.
pub type Programs = [&'static [(Call, Key)]; CLIENTS];

/// An operation that a client has begun.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Begun {
    /// The operations that had been answered before, as a bit mask over all operations of all clients.
    before: u8,
    outcome: Option<Outcome>,
}

/// The clients, with the operations that they have begun.
///
/// What is kept of the times of invocations and answers is their order, as far as it matters to linearizability. So
/// two runs that clients cannot tell apart lead to one state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Clients {
    begun: [Vec<Begun>; CLIENTS],
    is_linearizable: bool,
    is_repeatable: bool,
}

/// The bit of an operation in masks.
const fn bit(client: usize, place: usize) -> u8 {
    1 << (client * CALLS_MAX + place)
}

/// The value that an operation writes. 0 is no value.
const fn value(client: usize, place: usize) -> u64 {
    (client * CALLS_MAX + place + 1) as u64
}

impl Clients {
    pub(super) fn new(programs: &Programs) -> Self {
        assert!(
            programs.iter().all(|program| program.len() <= CALLS_MAX),
            "masks have a bit for each operation"
        );
        Self { begun: Default::default(), is_linearizable: true, is_repeatable: true }
    }

    /// Whether all answers so far have an order that explains them.
    pub(super) const fn is_linearizable(&self) -> bool {
        self.is_linearizable
    }

    /// Whether no update has got two different answers.
    pub(super) const fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// Whether a client has an answer to all of its operations.
    pub(super) fn has_ended(&self, programs: &Programs, client: usize) -> bool {
        let begun = &self.begun[client];
        begun.len() == programs[client].len() && begun.iter().all(|call| call.outcome.is_some())
    }

    /// The operation that a client can begin, once it has an answer to the one before: its place in the program.
    pub(super) fn next(&self, programs: &Programs, client: usize) -> Option<usize> {
        let begun = &self.begun[client];
        let is_free = begun.last().is_none_or(|call| call.outcome.is_some());
        (is_free && begun.len() < programs[client].len()).then_some(begun.len())
    }

    /// Number of operations that a client has begun.
    pub(super) fn begun(&self, client: usize) -> usize {
        self.begun[client].len()
    }

    /// A client begins its next operation.
    pub(super) fn begin(&mut self, client: usize) {
        let mut before = 0;
        for (client, begun) in self.begun.iter().enumerate() {
            let answered = begun.iter().enumerate().filter(|(_, call)| call.outcome.is_some());
            before |= answered.map(|(place, _)| bit(client, place)).fold(0, |mask, bit| mask | bit);
        }
        self.begun[client].push(Begun { before, outcome: None });
    }

    /// The request of an operation, encoded.
    pub(super) fn request(programs: &Programs, client: usize, place: usize) -> Vec<u8> {
        let (call, key) = programs[client][place];
        let value = value(client, place).to_be_bytes();
        let request = Request {
            operation: call.operation(),
            client: 1 + client as u64,
            request: 1 + place as u64,
            expected: 0,
            key: &key.bytes(),
            value: if call.has_value() { &value } else { &[] },
        };
        [&request.header()[..], request.key, request.value].concat()
    }

    /// A reply arrives at a client.
    pub(super) fn answer(&mut self, programs: &Programs, client: usize, reply: &Reply<'_>) {
        let place = reply.request as usize - 1;
        let (call, _) = programs[client][place];
        let Some(outcome) = call.outcome(reply) else { return };
        match self.begun[client][place].outcome {
            None => {
                self.begun[client][place].outcome = Some(outcome);
                self.is_linearizable &= self.check(programs);
            }
            Some(former) => self.is_repeatable &= call.reads() || former == outcome,
        }
    }

    fn check(&self, programs: &Programs) -> bool {
        // The masks of what was answered before grow with time, so their order is that of the invocations.
        let mut moments: Vec<u8> = self.begun.iter().flatten().map(|call| call.before).collect();
        moments.sort_unstable_by_key(|mask| mask.count_ones());
        moments.dedup();
        let mut history = History::with_capacity(moments.len());
        for (client, begun) in self.begun.iter().enumerate() {
            for (place, call) in begun.iter().enumerate() {
                let invoked = moments.iter().position(|mask| *mask == call.before).expect("it is a moment");
                let returned = moments.iter().position(|mask| mask & bit(client, place) != 0);
                let returned = 2 * returned.unwrap_or(moments.len()) as u64 - 1;
                let reply = call.outcome.map(|outcome| weft_check::Reply { returned_ns: returned, outcome });
                let (action, key) = programs[client][place];
                let operation = Operation {
                    client: client as u32,
                    key: &key.bytes(),
                    invoked_ns: 2 * invoked as u64,
                    action: action.action(value(client, place)),
                    reply,
                };
                history.record(operation).expect("it was invoked before it returned");
            }
        }
        check(&history, &Options::default()).verdict == Verdict::Linearizable
    }

    /// The operations as text, with their answers.
    pub(super) fn describe(&self, programs: &Programs) -> String {
        let mut text = String::new();
        for (client, begun) in self.begun.iter().enumerate() {
            for (call, (action, key)) in begun.iter().zip(programs[client]) {
                let outcome =
                    call.outcome.map_or_else(|| "no answer".to_owned(), |outcome| outcome.to_string());
                text += &format!("client {client}: {action} {key}: {outcome}\n");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use weft_waist::{Epoch, NodeSet};

    use super::*;

    const PROGRAMS: Programs = [&[(Call::Put, Key::A)], &[(Call::Get, Key::A), (Call::Get, Key::A)]];

    fn reply(status: Status, request: u64, version: u64, value: &[u8]) -> Reply<'_> {
        Reply { status, client: 1, request, version, epoch: Epoch(1), full: NodeSet::first(3), value }
    }

    #[test]
    fn a_read_that_goes_back_in_time_is_found() {
        let written = value(0, 0).to_be_bytes();
        let found = reply(Status::Ok, 1, 5, &written);
        let mut clients = Clients::new(&PROGRAMS);
        clients.begin(0);
        clients.begin(1);
        clients.answer(&PROGRAMS, 1, &found);
        assert!(clients.is_linearizable(), "the put may have taken effect before its answer");
        clients.begin(1);
        clients.answer(&PROGRAMS, 1, &reply(Status::NotServing, 2, 0, &[]));
        assert_eq!(clients.next(&PROGRAMS, 1), None, "it has no answer");
        clients.answer(&PROGRAMS, 1, &reply(Status::NotFound, 2, 0, &[]));
        assert!(!clients.is_linearizable());
    }

    #[test]
    fn a_read_after_an_answered_write_sees_it() {
        for (order, is_linearizable) in [([0, 1], false), ([1, 0], true)] {
            let mut clients = Clients::new(&PROGRAMS);
            for client in order {
                clients.begin(client);
                if client == 0 {
                    clients.answer(&PROGRAMS, 0, &reply(Status::Ok, 1, 5, &[]));
                }
            }
            clients.answer(&PROGRAMS, 1, &reply(Status::NotFound, 1, 0, &[]));
            assert_eq!(clients.is_linearizable(), is_linearizable, "{order:?}");
        }
    }

    #[test]
    fn an_update_has_one_answer() {
        let mut clients = Clients::new(&PROGRAMS);
        clients.begin(0);
        for (version, is_repeatable) in [(5, true), (5, true), (6, false)] {
            clients.answer(&PROGRAMS, 0, &reply(Status::Ok, 1, version, &[]));
            assert_eq!(clients.is_repeatable(), is_repeatable);
        }
    }
}
