//! Completion queues and their completions.

use std::collections::VecDeque;

use weft_verbs::{CompletionOpcode, CompletionStatus};

/// The number of a completion queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompletionQueueNumber(pub usize);

/// The completion of a request: `ibv_wc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The program's tag (`wr_id`).
    pub id: u64,
    /// Whether the request succeeded, or why it failed.
    pub status: CompletionStatus,
    /// The operation of the request.
    pub opcode: CompletionOpcode,
    /// Number of bytes received, or read from the peer.
    pub bytes: u32,
    /// Immediate data that came with the message.
    pub immediate: Option<u32>,
    /// Number of the queue pair on which the request was posted.
    pub queue_pair: u32,
    /// The queue pair that sent the datagram. The datagram's first 40 bytes are room for a global route
    /// header. `None` on connections.
    pub source: Option<u32>,
    /// If the peer refused the request, the syndrome byte of its acknowledgement.
    pub vendor_error: u32,
}

/// Which completion of a queue raises an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// None.
    #[default]
    No,
    /// The next completion of a message that its sender marked as solicited, or the next failed completion.
    Solicited,
    /// The next completion.
    Next,
}

/// What adding a completion to a queue has caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Quiet,
    Notify,
    Overrun,
}

#[derive(Debug)]
pub(crate) struct CompletionQueue {
    entries: VecDeque<WorkCompletion>,
    depth: usize,
    notify: Notify,
    /// Whether the queue has overrun. It then accepts no more completions.
    broken: bool,
    /// Number of uses of this queue by queue pairs, for sending or for receiving.
    pub(crate) users: usize,
}

impl CompletionQueue {
    pub(crate) fn new(depth: usize) -> Self {
        Self { entries: VecDeque::new(), depth, notify: Notify::No, broken: false, users: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(crate) fn resize(&mut self, depth: usize) {
        self.depth = depth;
    }

    /// Requests an event. A pending request for the next completion is not replaced by one for a solicited
    /// completion.
    pub(crate) fn request(&mut self, notify: Notify) {
        if self.notify != Notify::Next {
            self.notify = notify;
        }
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.notify != Notify::No
    }

    pub(crate) fn push(&mut self, completion: WorkCompletion, solicited: bool) -> Pushed {
        if self.broken {
            return Pushed::Quiet;
        }
        if self.entries.len() == self.depth {
            self.broken = true;
            return Pushed::Overrun;
        }
        self.entries.push_back(completion);
        let failed = completion.status != CompletionStatus::Success;
        let notify = match self.notify {
            Notify::No => false,
            Notify::Solicited => solicited || failed,
            Notify::Next => true,
        };
        if notify {
            self.notify = Notify::No;
            return Pushed::Notify;
        }
        Pushed::Quiet
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<WorkCompletion> {
        self.entries.pop_front()
    }

    pub(crate) fn forget(&mut self, queue_pair: u32) {
        self.entries.retain(|completion| completion.queue_pair != queue_pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(status: CompletionStatus) -> WorkCompletion {
        WorkCompletion {
            id: 1,
            status,
            opcode: CompletionOpcode::Receive,
            bytes: 0,
            immediate: None,
            queue_pair: 7,
            source: None,
            vendor_error: 0,
        }
    }

    #[test]
    fn one_request_raises_one_event() {
        let mut queue = CompletionQueue::new(8);
        let fine = completion(CompletionStatus::Success);
        assert_eq!(queue.push(fine, true), Pushed::Quiet);
        queue.request(Notify::Solicited);
        assert_eq!(queue.push(fine, false), Pushed::Quiet);
        assert_eq!(queue.push(fine, true), Pushed::Notify);
        assert_eq!(queue.push(fine, true), Pushed::Quiet);
        queue.request(Notify::Solicited);
        assert_eq!(queue.push(completion(CompletionStatus::WorkRequestFlushed), false), Pushed::Notify);
        queue.request(Notify::Next);
        queue.request(Notify::Solicited);
        assert_eq!(queue.push(fine, false), Pushed::Notify);
    }

    #[test]
    fn an_overrun_is_told_once_and_breaks_the_queue() {
        let mut queue = CompletionQueue::new(1);
        let fine = completion(CompletionStatus::Success);
        assert_eq!(queue.push(fine, false), Pushed::Quiet);
        assert_eq!(queue.push(fine, false), Pushed::Overrun);
        assert!(queue.pop().is_some());
        assert_eq!(queue.push(fine, false), Pushed::Quiet);
        assert!(queue.pop().is_none() && queue.is_broken());
    }
}
