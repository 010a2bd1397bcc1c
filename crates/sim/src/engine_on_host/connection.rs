//! A queue pair of an engine on a host, as its process sees it across the bus.

use std::collections::VecDeque;

use weft_time::Instant;
use weft_verbs::{Completion, CompletionStatus, QueuePairNumber};

/// A queue pair of the engine.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) queue_pair: QueuePairNumber,
    /// Last command to the card about it.
    pub(super) told_at: Instant,
    /// The requests that have not completed, in the order in which the card gets them.
    pub(super) outstanding: VecDeque<Outstanding>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    /// Time at which the card receives it.
    pub(super) at: Instant,
    /// Tells it from all others.
    pub(super) serial: u64,
    /// The engine's.
    pub(super) tag: u64,
}

impl Connection {
    pub(super) fn new(queue_pair: QueuePairNumber) -> Self {
        Self { queue_pair, told_at: Instant::ZERO, outstanding: VecDeque::new() }
    }

    /// A request that the card gets at `at`. Threads may post one after the other what the card gets the other way
    /// round.
    pub(super) fn post(&mut self, at: Instant, serial: u64, tag: u64) {
        let place = self.outstanding.partition_point(|other| other.at <= at);
        self.outstanding.insert(place, Outstanding { at, serial, tag });
    }

    /// The tag of the request that has ended; `None` if it was posted before the queue pair was connected again.
    pub(super) fn complete(&mut self, completion: &Completion) -> Option<u64> {
        // A request that the card refuses ends before those that it has taken.
        let place = self.outstanding.iter().position(|posted| posted.serial == completion.id)?;
        let Outstanding { tag, .. } = self.outstanding.remove(place)?;
        if completion.status == CompletionStatus::Success {
            // Whatever was posted earlier has succeeded, too, and did not ask to be told.
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
