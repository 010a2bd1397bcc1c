//! The state that a process keeps of an engine's queue pair on the card.

use std::collections::VecDeque;

use weft_time::Instant;
use weft_verbs::{Completion, CompletionStatus, QueuePairNumber};

/// A queue pair of the engine.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) queue_pair: QueuePairNumber,
    /// When the last command about the queue pair reaches the card.
    pub(super) told_at: Instant,
    /// Outstanding requests, in the order in which the card receives them.
    pub(super) outstanding: VecDeque<Outstanding>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    /// When the card receives the request.
    pub(super) at: Instant,
    /// A unique number of the request.
    pub(super) serial: u64,
    /// The engine's tag.
    pub(super) tag: u64,
}

impl Connection {
    pub(super) fn new(queue_pair: QueuePairNumber) -> Self {
        Self { queue_pair, told_at: Instant::ZERO, outstanding: VecDeque::new() }
    }

    /// Adds a request that the card receives at `at`. If several threads post, the card may receive requests
    /// in another order than they were posted.
    pub(super) fn post(&mut self, at: Instant, serial: u64, tag: u64) {
        let place = self.outstanding.partition_point(|other| other.at <= at);
        self.outstanding.insert(place, Outstanding { at, serial, tag });
    }

    /// The tag of the request that has completed; `None` if it was posted before the queue pair was last
    /// connected.
    pub(super) fn complete(&mut self, completion: &Completion) -> Option<u64> {
        // A request that the card refuses completes before accepted ones.
        let place = self.outstanding.iter().position(|posted| posted.serial == completion.id)?;
        let Outstanding { tag, .. } = self.outstanding.remove(place)?;
        if completion.status == CompletionStatus::Success {
            // Earlier requests have succeeded too; they were unsignalled.
            self.outstanding.drain(..place);
        }
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use weft_verbs::CompletionOpcode;

    use super::*;

    #[test]
    fn what_two_threads_have_posted_ends_in_the_order_of_the_card() {
        let queue_pair = QueuePairNumber(1);
        let mut connection = Connection::new(queue_pair);
        for (at, serial, tag) in [(20, 1, 100), (10, 2, 200), (10, 3, 300)] {
            connection.post(Instant::from_ps(at), serial, tag);
        }
        let mut ended = |id| {
            connection.complete(&Completion {
                id,
                status: CompletionStatus::Success,
                opcode: CompletionOpcode::Write,
                queue_pair,
                bytes: 0,
                immediate: None,
                vendor_error: 0,
            })
        };
        assert_eq!([2, 3, 1, 1].map(&mut ended), [Some(200), Some(300), Some(100), None]);
    }
}
