//! What the author of a synchronous algorithm writes, and what that is given.
//!
//! The engine ([`crate::Rounds`]) keeps the rounds: it starts all nodes together, ends every round in time, sends
//! each member's message, sorts out what is malformed, repeated, early or late, and follows changes of the members.
//! An algorithm is told what happens in a round, and fills its own *area* of the next message. So it can be read, and
//! proved, as it stands in a paper.

use weft_waist::Message;

use crate::members::Members;
use crate::message::{Malformed, Proposal};
use crate::parameters::Parameters;

/// A synchronous algorithm: pure, bounded, allocated when it is made.
pub trait Algorithm {
    /// Distinguishes its messages from those of other algorithms.
    const ID: u8;

    /// Whether it decides changes of the members: then the engine proposes them when there is reason to.
    const DECIDES_CHANGES: bool;

    /// An algorithm that takes part in nothing yet, with all the space that it will need.
    fn new(parameters: &Parameters) -> Self;

    /// Bytes of its area in every message: always the same.
    fn area_bytes(&self) -> usize;

    /// The node `node` begins, or begins anew, with round `first`.
    fn start(&mut self, node: usize, first: u64);

    /// Round `round` begins, with these members. If this node is one of them it proposes `proposal`, which the engine
    /// sends along. Fills `area`, which is zero.
    fn begin(&mut self, round: u64, members: Members, proposal: &Proposal<'_>, area: &mut [u8]);

    /// Another node's message of the running round, at most one of each. A node that is no member any more, or not
    /// yet, may be heard, too.
    ///
    /// # Errors
    /// What it says cannot be true. The engine counts it.
    fn receive(&mut self, from: usize, area: &[u8], proposal: &Proposal<'_>) -> Result<(), Contradiction>;

    /// The running round ends: what is not here now is lost.
    ///
    /// # Errors
    /// The algorithm cannot go on: the node stops until it joins anew.
    fn end(&mut self) -> Result<(), Fence>;

    /// After the next round has begun: reports decisions, and does all work that need not precede that round's message.
    fn settle(&mut self, output: &mut dyn Output);

    /// A message of the algorithm's own, outside rounds.
    ///
    /// # Errors
    /// It is none that the algorithm knows.
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

/// Sink of an algorithm's decisions and of its own messages.
pub trait Output {
    /// Sends a message outside rounds.
    fn send(&mut self, to: Members, kind: u8, payload: &[&[u8]]);

    /// Something is decided. Instances come in order; all nodes decide the same.
    fn decide(&mut self, decision: &Decision<'_>);

    /// Nothing more is decided in this instance.
    fn close(&mut self, instance: u64);
}

/// Something that was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// In which instance: the round in which it was proposed.
    pub instance: u64,
    /// The proposer.
    pub proposer: usize,
    /// The proposal. The engine carries out a change.
    pub proposal: Proposal<'a>,
}

/// A message that cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

/// The assumption of synchrony does not hold for this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence;
