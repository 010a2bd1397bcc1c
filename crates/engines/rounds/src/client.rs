//! The client half: proposes each proposal once, and reads decisions.
//!
//! Calls use [`weft_session`]; the node's half is [`crate::ClientServer`]. A client makes a proposal at one node. If
//! that node stops before the proposal's instance is decided, the other nodes may or may not decide it: the client gets
//! the answer [`Outcome::Fenced`] and tries no other node. Decisions have a position in one order, the same at all
//! nodes; any node answers reads with the decisions that it keeps.

use weft_session::{Body, Calls, Ended, NewCall, SessionClient, Verdict};
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

/// A client of the rounds.
pub type Client = SessionClient<RoundsCalls>;

/// The calls of the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundsCalls;

impl Calls for RoundsCalls {
    type Task<'a> = Task<'a>;
    type Outcome<'a> = Outcome<'a>;
    /// Whether the call is a proposal.
    type Note = bool;

    fn begin(&self, _: Instant, _: usize, task: Task<'_>, bytes: &mut Vec<u8>) -> NewCall<bool> {
        let kind = match task {
            Task::Propose(proposal) => {
                bytes.extend_from_slice(proposal);
                Call::Propose as u8
            }
            Task::Read(after) => {
                bytes.extend_from_slice(&read(after));
                READ
            }
            Task::Status => Call::Status as u8,
        };
        let is_proposal = matches!(task, Task::Propose(_));
        NewCall { kind, node: None, is_repeatable: !is_proposal, note: is_proposal }
    }

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

    fn end<'a>(&self, _: Instant, is_proposal: bool, ended: Ended<'a>) -> Outcome<'a> {
        match ended {
            Ended::NotBegun => Outcome::NotBegun,
            Ended::Answer(body) if body.kind == DECISIONS && !is_proposal => {
                Decisions::parse(body.bytes).map_or(Outcome::Unknown, Outcome::Decisions)
            }
            Ended::Answer(body) if body.kind == Call::Answer as u8 => match Answer::parse(body.bytes) {
                Ok(answer) if !is_proposal => Outcome::Status(answer),
                Ok(Answer { status: Status::Ok, number, .. }) => Outcome::Decided { instance: number },
                Ok(Answer { status: Status::Dropped, number, .. }) => Outcome::Dropped { instance: number },
                Ok(Answer { status: Status::Fenced, .. }) => Outcome::Fenced,
                Ok(Answer { status: Status::BadRequest, .. }) => Outcome::BadRequest,
                // The malformed message may have been meant as an answer, so the outcome is unknown.
                _ => Outcome::Unknown,
            },
            Ended::Answer(_) | Ended::Unknown => Outcome::Unknown,
        }
    }
}
