//! The client half: proposes, each proposal once, and reads what is decided.
//!
//! Calls travel by [`weft_session`]; the node's half is [`crate::Front`]. A proposal is made at one node. If that
//! node stops before its instance is decided, the others may decide it or not: the client is told so, and asks nobody
//! else. Decisions have a place in one order, the same at all nodes; any node tells those that it keeps.

use weft_session::{Body, ClientParameters, Completion as SessionCompletion, Ended, Malformed, Verdict};
use weft_time::Instant;

pub use weft_session::CallId;

use crate::front::{DECISIONS, Decisions, Position, READ, read};
use crate::message::{Answer, Call, Phase, Status};

/// Messages between clients and nodes are of this kind or above; those of the engine are below.
pub const FIRST_KIND: u8 = weft_session::Kind::FIRST;

/// A call of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task<'a> {
    /// Propose these bytes, at least one.
    Propose(&'a [u8]),
    /// Asks for decisions after this place, or from the beginning.
    Read(Option<Position>),
    /// Asks for the node's progress.
    Status,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The proposal is decided.
    Decided {
        /// In this instance.
        instance: u64,
    },
    /// The instance decided without the proposal, which has had no effect: propose it again.
    Dropped {
        /// The instance.
        instance: u64,
    },
    /// The node has fenced itself: the others may have decided the proposal, or may still do so.
    Fenced,
    /// Decisions, in order.
    Decisions(Decisions<'a>),
    /// Progress of a node.
    Status(Answer),
    /// The proposal is empty or longer than the cluster takes. Nothing has happened.
    BadRequest,
    /// No node took the call in time. Nothing has happened.
    NotBegun,
    /// The node that was called does not answer any more: the proposal is decided once, or never will be, or may
    /// still be.
    Unknown,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The call.
    pub call: CallId,
    /// The node that was asked last.
    pub node: usize,
    /// Its outcome.
    pub outcome: Outcome<'a>,
}

/// A client of the rounds. Pure, as [`weft_session::Client`] is, and used like that.
#[derive(Clone, Debug)]
pub struct Client {
    session: weft_session::Client,
    /// The outstanding calls that propose.
    proposals: Vec<CallId>,
}

/// Meaning of an answer to a proposal.
fn judge(body: Body<'_>) -> Verdict {
    if body.kind != Call::Answer as u8 {
        return Verdict::Final;
    }
    match Answer::parse(body.bytes) {
        Ok(Answer { status: Status::Busy, .. }) => Verdict::Later,
        // A leaving node answers all proposals in an instance alike: they may be decided. The others were not begun.
        Ok(Answer { status: Status::NotRunning, phase: Phase::Left, number: 1.., .. }) => Verdict::Final,
        Ok(Answer { status: Status::NotRunning, .. }) => Verdict::Elsewhere,
        _ => Verdict::Final,
    }
}

impl Client {
    /// A client that has called nothing.
    ///
    /// # Panics
    /// As [`weft_session::Client::new`].
    pub fn new(parameters: ClientParameters) -> Self {
        Self { session: weft_session::Client::new(parameters), proposals: Vec::new() }
    }

    /// Calls under way.
    pub fn outstanding(&self) -> usize {
        self.session.outstanding()
    }

    /// Whether [`Client::start`] takes another call.
    pub fn can_start(&self) -> bool {
        self.session.can_start()
    }

    /// Begins a call, at `node` only if one is named. `None` if as many are under way as may be.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn start(&mut self, now: Instant, node: Option<usize>, task: Task<'_>) -> Option<CallId> {
        match task {
            Task::Propose(bytes) => {
                let call = self.session.start(now, node, Body { kind: Call::Propose as u8, bytes })?;
                self.proposals.push(call);
                Some(call)
            }
            Task::Read(after) => {
                self.session.start_repeatable(now, node, Body { kind: READ, bytes: &read(after) })
            }
            Task::Status => {
                self.session.start_repeatable(now, node, Body { kind: Call::Status as u8, bytes: &[] })
            }
        }
    }

    /// Takes a message from a node; says which call has ended, if one has.
    ///
    /// # Errors
    /// The bytes are no message.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        node: usize,
        message: (u8, &'a [u8]),
    ) -> Result<Option<Completion<'a>>, Malformed> {
        let completion = self.session.receive(now, node, message, judge)?;
        Ok(completion.map(|completion| self.end(completion)))
    }

    fn end<'a>(&mut self, completion: SessionCompletion<'a>) -> Completion<'a> {
        let SessionCompletion { call, node, ended } = completion;
        let place = self.proposals.iter().position(|proposal| *proposal == call);
        place.map(|place| self.proposals.swap_remove(place));
        let outcome = match ended {
            Ended::NotBegun => Outcome::NotBegun,
            Ended::Answer(body) if body.kind == DECISIONS && place.is_none() => {
                Decisions::parse(body.bytes).map_or(Outcome::Unknown, Outcome::Decisions)
            }
            Ended::Answer(body) if body.kind == Call::Answer as u8 => match Answer::parse(body.bytes) {
                Ok(answer) if place.is_none() => Outcome::Status(answer),
                Ok(Answer { status: Status::Ok, number, .. }) => Outcome::Decided { instance: number },
                Ok(Answer { status: Status::Dropped, number, .. }) => Outcome::Dropped { instance: number },
                Ok(Answer { status: Status::Fenced, .. }) => Outcome::Fenced,
                Ok(Answer { status: Status::BadRequest, .. }) => Outcome::BadRequest,
                // A malformed message may have been an answer.
                _ => Outcome::Unknown,
            },
            Ended::Answer(_) | Ended::Unknown => Outcome::Unknown,
        };
        Completion { call, node, outcome }
    }

    /// When [`Client::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.session.next_deadline()
    }

    /// Handles what is due. Ends one call at a time, so call it until it returns `None`.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<Completion<'static>> {
        let completion = self.session.handle_deadline(now)?;
        Some(self.end(completion))
    }

    /// The next message to send: appends its content to `out`, and returns the node and the kind.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.session.poll_transmit(out)
    }
}
