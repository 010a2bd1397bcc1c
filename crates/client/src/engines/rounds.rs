//! Consensus in rounds.

use weft_rounds::Position;
use weft_rounds::client::{Client, Outcome, Task};
use weft_rounds::message::Answer;
use weft_time::Duration;

use super::{Handle, UNEXPECTED_ANSWER, refused};
use crate::requests::Requests;
use crate::{Error, Pending};

#[derive(Debug)]
pub(crate) enum RoundsRequest {
    Propose(Vec<u8>),
    Read(Option<Position>),
    Status,
}

#[derive(Debug)]
pub(crate) enum RoundsReply {
    Proposal(Proposal),
    Decisions(DecisionList),
    Status(Answer),
}

/// Outcome of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// The proposal is decided.
    Decided {
        /// The instance in which it is decided.
        instance: u64,
    },
    /// The instance was decided without the proposal, which had no effect: propose it again.
    Dropped {
        /// The instance that was decided without the proposal.
        instance: u64,
    },
}

/// A decided proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Position in the order of all decisions: its instance and its proposer.
    pub place: Position,
    /// The proposal's bytes.
    pub proposal: Vec<u8>,
}

/// Decided proposals, in order, as many as fit into a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionList {
    /// Whether the node lacks decisions before the first of these.
    pub forgotten: bool,
    /// The decisions. Empty if the node has none that follow.
    pub decisions: Vec<Decision>,
}

pub(crate) enum RoundsRequests {}

impl Requests for RoundsRequests {
    type Half = Client;
    type Request = RoundsRequest;
    type Reply = RoundsReply;

    fn message_bytes(request: &RoundsRequest) -> usize {
        let body = match request {
            RoundsRequest::Propose(proposal) => proposal.len(),
            RoundsRequest::Read(_) => 16,
            RoundsRequest::Status => 0,
        };
        weft_session::Message::OVERHEAD + body
    }

    fn task(request: &RoundsRequest) -> Task<'_> {
        match request {
            RoundsRequest::Propose(proposal) => Task::Propose(proposal),
            RoundsRequest::Read(after) => Task::Read(*after),
            RoundsRequest::Status => Task::Status,
        }
    }

    fn reply(outcome: Outcome<'_>, after: Duration) -> Result<RoundsReply, Error> {
        match outcome {
            Outcome::Decided { instance } => Ok(RoundsReply::Proposal(Proposal::Decided { instance })),
            Outcome::Dropped { instance } => Ok(RoundsReply::Proposal(Proposal::Dropped { instance })),
            Outcome::Decisions(decisions) => {
                let decision = |decided: weft_rounds::Decided<'_>| Decision {
                    place: decided.place,
                    proposal: decided.proposal.to_vec(),
                };
                let list = decisions.iter().map(decision).collect();
                Ok(RoundsReply::Decisions(DecisionList { forgotten: decisions.forgotten, decisions: list }))
            }
            Outcome::Status(answer) => Ok(RoundsReply::Status(answer)),
            Outcome::BadRequest => Err(Error::Refused("the proposal is longer than the cluster takes")),
            Outcome::NotBegun => Err(Error::NotBegun { after }),
            Outcome::Fenced | Outcome::Unknown => Err(Error::Unknown { after }),
        }
    }
}

/// A handle of a cluster's rounds. Up to 16 calls are outstanding at a time; further ones are queued.
#[derive(Clone, Debug)]
pub struct Rounds {
    pub(crate) handle: Handle<RoundsRequests>,
}

impl Rounds {
    /// Proposes these bytes, at least one byte, at one node. They are decided at most once.
    pub fn propose(&self, proposal: &[u8]) -> Pending<Proposal> {
        if proposal.is_empty() {
            return refused(Error::Invalid("a proposal has at least one byte".into()));
        }
        self.handle.ask(RoundsRequest::Propose(proposal.to_vec()), |reply| match reply {
            RoundsReply::Proposal(proposal) => Ok(proposal),
            _ => Err(UNEXPECTED_ANSWER),
        })
    }

    /// Reads the decisions after this position; with `None`, from the beginning.
    pub fn read(&self, after: Option<Position>) -> Pending<DecisionList> {
        self.handle.ask(RoundsRequest::Read(after), |reply| match reply {
            RoundsReply::Decisions(list) => Ok(list),
            _ => Err(UNEXPECTED_ANSWER),
        })
    }

    /// State of a node: its phase, epoch, members and round.
    pub fn status(&self) -> Pending<Answer> {
        self.handle.ask(RoundsRequest::Status, |reply| match reply {
            RoundsReply::Status(answer) => Ok(answer),
            _ => Err(UNEXPECTED_ANSWER),
        })
    }
}
