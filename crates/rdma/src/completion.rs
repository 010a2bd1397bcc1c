//! The completion queue.

use std::collections::VecDeque;

use weft_verbs::{ApiError, Completion, QueuePairNumber};

/// All completions of one NIC, oldest first, in bounded space.
///
/// A post reserves an entry for the completion of its request, so the queue cannot overrun.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    entries: VecDeque<Completion>,
    depth: usize,
    reserved: usize,
}

impl CompletionQueue {
    pub(crate) fn new(depth: usize) -> Self {
        Self { entries: VecDeque::with_capacity(depth), depth, reserved: 0 }
    }

    /// Reserves an entry for a request that is being posted.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Result<(), ApiError> {
        if self.entries.len() + self.reserved >= self.depth {
            return Err(ApiError::CompletionQueueFull);
        }
        self.reserved += 1;
        Ok(())
    }

    /// Releases `places` reserved entries, whose requests ended without a completion.
    #[inline]
    pub(crate) fn release(&mut self, places: usize) {
        self.reserved = self.reserved.checked_sub(places).expect("only reserved places are released");
    }

    /// Fills one reserved entry with a completion.
    #[inline]
    pub(crate) fn push(&mut self, completion: Completion) {
        self.release(1);
        self.entries.push_back(completion);
    }

    /// Removes all completions of one queue pair.
    pub(crate) fn forget(&mut self, queue_pair: QueuePairNumber) {
        self.entries.retain(|completion| completion.queue_pair != queue_pair);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Completion> {
        self.entries.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_the_post_and_not_the_completion() {
        let mut queue = CompletionQueue::new(1);
        queue.reserve().unwrap();
        assert_eq!(queue.reserve(), Err(ApiError::CompletionQueueFull));
        queue.release(1);
        queue.reserve().unwrap();
    }
}
