//! The interface between a synchronous algorithm and the engine that runs its rounds.
//!
//! The engine ([`crate::Rounds`]) runs the rounds. It starts all nodes together, ends every round in time, sends
//! each member's message, sorts out messages that are malformed, duplicate, early or late, and follows changes of
//! the members. It calls the algorithm for each step of a round, and the algorithm fills its own *area* of the
//! next message. So an algorithm can be read, and proved, as it is written in a paper.

use weft_waist::Message;

use crate::members::Members;
use crate::message::{Malformed, Proposal};
use crate::parameters::Parameters;

/// A synchronous algorithm: pure, of bounded size, with all memory allocated when it is made.
pub trait Algorithm {
    /// Number in its messages that tells them from those of other algorithms.
    const ID: u8;

    /// Whether the algorithm decides changes of the members: then the engine proposes changes when they are
    /// needed.
    const DECIDES_CHANGES: bool;

    /// An algorithm that is not started yet, with all the memory that it will need.
    fn new(parameters: &Parameters) -> Self;

    /// Bytes of its area in every message: always the same.
    fn area_bytes(&self) -> usize;

    /// Node `node` starts or restarts; its first round is `first`.
    fn start(&mut self, node: usize, first: u64);

    /// Round `round` begins, with these members. If this node is a member, it proposes `proposal`, which the
    /// engine puts into the message. The algorithm fills `area`, which is zero before.
    fn begin(&mut self, round: u64, members: Members, proposal: &Proposal<'_>, area: &mut [u8]);

    /// Takes another node's message of the running round, at most one of each node. The message may also be from a
    /// node that is no longer a member, or not yet.
    ///
    /// # Errors
    /// No correct node could send this. The engine counts it.
    fn receive(&mut self, from: usize, area: &[u8], proposal: &Proposal<'_>) -> Result<(), Contradiction>;

    /// Ends the running round: messages that have not arrived by now are lost.
    ///
    /// # Errors
    /// The algorithm cannot go on: the node stops until it joins again.
    fn end(&mut self) -> Result<(), MustStop>;

    /// Called after the next round has begun: reports decisions, and does all work that need not precede that
    /// round's message.
    fn settle(&mut self, output: &mut dyn Output);

    /// Takes a message of the algorithm itself, sent outside rounds.
    ///
    /// # Errors
    /// The algorithm does not know such a message.
    fn deliver(
        &mut self,
        from: usize,
        message: Message<'_>,
        output: &mut dyn Output,
    ) -> Result<(), Malformed> {
        let _ = (from, message, output);
        Err(Malformed::Field("kind"))
    }
}

/// Receives an algorithm's decisions and the messages that it sends outside rounds.
pub trait Output {
    /// Sends a message outside rounds.
    fn send(&mut self, to: Members, kind: u8, payload: &[&[u8]]);

    /// Reports a decision. Instances come in order; all nodes report the same decisions.
    fn decide(&mut self, decision: &Decision<'_>);

    /// Reports that nothing more is decided in this instance.
    fn close(&mut self, instance: u64);
}

/// A proposal that was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The instance: the round in which it was proposed.
    pub instance: u64,
    /// The member that proposed it.
    pub proposer: usize,
    /// The proposal. If it is a change of the members, the engine applies it.
    pub proposal: Proposal<'a>,
}

/// A message that no correct node could send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

/// The node has missed too many messages in time: the assumption of synchrony does not hold for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MustStop;
