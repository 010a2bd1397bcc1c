//! The client half: proposes each proposal once, and reads decisions.
//!
//! Calls use [`weft_session`]; the node's half is [`crate::ClientServer`]. A client makes a proposal at one node. If
//! that node stops before the proposal's instance is decided, the other nodes may or may not decide it: the client gets
//! the answer [`Outcome::Fenced`] and tries no other node. Decisions have a position in one order, the same at all
//! nodes; any node answers reads with the decisions that it keeps.

use weft_session::{Body, ClientParameters, Completion as SessionCompletion, Ended, Malformed, Verdict};
use weft_time::Instant;

pub use weft_session::CallId;

use crate::client_server::{DECISIONS, Decisions, Position, READ, read};
use crate::message::{Answer, Call, Phase, Status};

/// Messages between clients and nodes have this kind or a higher one; the engine's own kinds are lower.
pub const FIRST_KIND: u8 = weft_session::Kind::FIRST;

/// A call of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task<'a> {
    /// Propose these bytes, at least one byte.
    Propose(&'a [u8]),
    /// Read the decisions after this position, or from the beginning.
    Read(Option<Position>),
    /// Ask for the node's progress.
    Status,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The proposal is decided.
    Decided {
        /// The instance in which it is decided.
        instance: u64,
    },
    /// The instance decided without the proposal, which has had no effect: propose it again.
    Dropped {
        /// The instance that was decided without the proposal.
        instance: u64,
    },
    /// The node has fenced itself: the others may have decided the proposal, or may still do so.
    Fenced,
    /// Decisions after the requested position, in order.
    Decisions(Decisions<'a>),
    /// Progress of a node.
    Status(Answer),
    /// The proposal is empty or longer than the cluster allows. Nothing has happened.
    BadRequest,
    /// No node accepted the call in time. Nothing has happened.
    NotBegun,
    /// The node that took the call does not answer any more. The proposal may be decided, once, now or later, or
    /// never.
    Unknown,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The call that has ended, as numbered by the client.
    pub call: CallId,
    /// The node to which the call was sent last.
    pub node: usize,
    /// How the call has ended.
    pub outcome: Outcome<'a>,
}

/// A client of the rounds. It is pure and used like [`weft_session::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    session: weft_session::Client,
    /// The outstanding calls that are proposals.
    proposals: Vec<CallId>,
}

/// Decides what an answer to a proposal means for the session.
fn judge(body: Body<'_>) -> Verdict {
    if body.kind != Call::Answer as u8 {
        return Verdict::Final;
    }
    match Answer::parse(body.bytes) {
        Ok(Answer { status: Status::Busy, .. }) => Verdict::Later,
        // A node that leaves gives this answer, with the instance's number, to all proposals of an instance: they
        // may be decided. Proposals without an instance were not begun.
        Ok(Answer { status: Status::NotRunning, phase: Phase::Left, number: 1.., .. }) => Verdict::Final,
        Ok(Answer { status: Status::NotRunning, .. }) => Verdict::Elsewhere,
        _ => Verdict::Final,
    }
}

impl Client {
    /// A client that has made no calls.
    ///
    /// # Panics
    /// As [`weft_session::Client::new`].
    pub fn new(parameters: ClientParameters) -> Self {
        Self { session: weft_session::Client::new(parameters), proposals: Vec::new() }
    }

    /// Number of outstanding calls.
    pub fn outstanding(&self) -> usize {
        self.session.outstanding()
    }

    /// Whether [`Client::start`] accepts another call.
    pub fn can_start(&self) -> bool {
        self.session.can_start()
    }

    /// Starts a call, at `node` only if one is given. Returns `None` if as many calls as allowed are outstanding.
    ///
    /// # Panics
    /// If `node` is not a node of the cluster.
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

    /// Processes a message from a node; returns the call that it completes, if any.
    ///
    /// # Errors
    /// The bytes are no valid message.
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
                // The malformed message may have been meant as an answer, so the outcome is unknown.
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

    /// Handles one call whose deadline has passed. Call it until it returns `None`.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<Completion<'static>> {
        let completion = self.session.handle_deadline(now)?;
        Some(self.end(completion))
    }

    /// The next message to send: appends its content to `out`, and returns (node, kind).
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.session.poll_transmit(out)
    }
}
