//! Shared receive queues: receive requests that several queue pairs take.

use std::collections::VecDeque;

use weft_verbs::{ApiError, ReceiveRequest};

use crate::completion::CompletionQueue;

/// A shared receive queue of this NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedReceiveQueueNumber(pub(crate) u32);

#[derive(Debug)]
struct Queue {
    requests: VecDeque<ReceiveRequest>,
    depth: usize,
}

/// All shared receive queues of one NIC.
#[derive(Debug, Default)]
pub(crate) struct SharedReceives {
    queues: Vec<Option<Queue>>,
}

impl SharedReceives {
    pub(crate) fn create(&mut self, depth: u32) -> SharedReceiveQueueNumber {
        let depth = depth as usize;
        let queue = Some(Queue { requests: VecDeque::with_capacity(depth), depth });
        let free = self.queues.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.queues.push(None);
            self.queues.len() - 1
        });
        self.queues[index] = queue;
        SharedReceiveQueueNumber(index as u32)
    }

    pub(crate) fn destroy(&mut self, number: SharedReceiveQueueNumber, completions: &mut CompletionQueue) {
        if let Some(queue) = self.queues.get_mut(number.0 as usize).and_then(Option::take) {
            completions.release(queue.requests.len());
        }
    }

    pub(crate) fn post(
        &mut self,
        number: SharedReceiveQueueNumber,
        request: ReceiveRequest,
        completions: &mut CompletionQueue,
    ) -> Result<(), ApiError> {
        let queue = self.queues.get_mut(number.0 as usize).and_then(Option::as_mut);
        let queue = queue.ok_or(ApiError::UnknownSharedReceiveQueue)?;
        if queue.requests.len() == queue.depth {
            return Err(ApiError::QueueFull(queue.depth));
        }
        completions.reserve()?;
        queue.requests.push_back(request);
        Ok(())
    }

    /// Removes the oldest request and returns it. The queue pair that takes it completes it.
    pub(crate) fn take(&mut self, number: SharedReceiveQueueNumber) -> Option<ReceiveRequest> {
        self.queues.get_mut(number.0 as usize)?.as_mut()?.requests.pop_front()
    }

    pub(crate) fn queued(&self, number: SharedReceiveQueueNumber) -> usize {
        let queue = self.queues.get(number.0 as usize).and_then(Option::as_ref);
        queue.map_or(0, |queue| queue.requests.len())
    }
}
