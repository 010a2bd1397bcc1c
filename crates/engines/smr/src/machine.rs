//! The state machine that a log replicates, and the resources of its group.

use weft_time::Instant;
use weft_waist::{Effects, Memory};

/// Resources of a group or the pulse while it handles an event.
pub struct Ports<'a> {
    /// Time of the event.
    pub now: Instant,
    /// Collects the messages and work requests that the engine sends.
    pub effects: &'a mut Effects,
    /// Memory of the engine, into which peers write.
    pub memory: &'a mut Memory,
    /// The state machine to which decided entries are applied.
    pub machine: &'a mut dyn StateMachine,
}

/// The replicated state: equal at all replicas that have applied the same number of entries.
pub trait StateMachine {
    /// Applies entry `index`, which is decided. A `ticket` means that this replica has proposed the entry and has
    /// led ever since, so a caller may wait for the answer. Returns whether the entry was applied. If not (because
    /// something else is lacking), the group calls it again at the next poll.
    fn apply(&mut self, index: u64, entry: &[u8], ticket: Option<u64>, effects: &mut Effects) -> bool;

    /// This replica has stopped leading. Its proposal with that ticket may or may not be decided.
    fn abandoned(&mut self, ticket: u64, effects: &mut Effects);

    /// Writes a snapshot of the state before entry `next`, and returns its length in bytes.
    fn snapshot(&mut self, next: u64, into: &mut [u8]) -> usize;

    /// Replaces the state by another replica's snapshot of the state before entry `next`. Returns whether it did.
    /// If not (because the bytes lack something), the group calls it again at the next poll and applies no entry
    /// until then; the other replicas keep the entries that this one lacks.
    fn restore(&mut self, next: u64, from: &[u8], effects: &mut Effects) -> bool;
}
