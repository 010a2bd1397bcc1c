//! The machine above a log.

use weft_time::Instant;
use weft_waist::{Effects, Memory};

/// Resources of a group or the pulse while it handles an event.
pub struct Ports<'a> {
    /// The time.
    pub now: Instant,
    /// Collects effects.
    pub effects: &'a mut Effects,
    /// The engine's memory.
    pub memory: &'a mut Memory,
    /// The replicated state.
    pub machine: &'a mut dyn StateMachine,
}

/// The replicated state: the same at all replicas that have applied as many entries.
pub trait StateMachine {
    /// Entry `index` is decided. `ticket`: this replica has proposed it and leads ever since, so somebody may wait
    /// for the answer. Says whether it has taken it; if not (something else is lacking) it is told again at the next
    /// poll.
    fn apply(&mut self, index: u64, entry: &[u8], ticket: Option<u64>, effects: &mut Effects) -> bool;

    /// This replica leads no longer. Its proposals with that ticket may or may not be decided.
    fn abandoned(&mut self, ticket: u64, effects: &mut Effects);

    /// Writes the state before entry `next`, and returns its length in bytes.
    fn snapshot(&mut self, next: u64, into: &mut [u8]) -> usize;

    /// The state is replaced by what another replica had before entry `next`. Says whether it is; if not (the bytes
    /// do not say all that is needed) it is told again at the next poll, and until then has applied nothing more:
    /// others keep what it lacks.
    fn restore(&mut self, next: u64, from: &[u8], effects: &mut Effects) -> bool;
}
