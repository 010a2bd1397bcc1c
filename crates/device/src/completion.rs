//! Completion queues, and what programs find there.

use std::collections::VecDeque;

use weft_verbs::{CompletionOpcode, CompletionStatus};

/// A completion queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompletionQueueNumber(pub usize);

/// The end of a request: `ibv_wc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkCompletion {
    /// The program's tag.
    pub id: u64,
    /// How it ended.
    pub status: CompletionStatus,
    /// What it was.
    pub opcode: CompletionOpcode,
    /// Bytes received or read.
    pub bytes: u32,
    /// What came with the message.
    pub immediate: Option<u32>,
    /// On which queue pair.
    pub queue_pair: u32,
    /// Who sent the datagram, which begins with 40 bytes for a global route header; `None` on connections.
    pub source: Option<u32>,
    /// The syndrome of a refusal.
    pub vendor_error: u32,
}

/// Which completion raises an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// None.
    #[default]
    No,
    /// The next message that its sender marked, or the next failure.
    Solicited,
    /// The next.
    Next,
}

/// What came of a completion.
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
    /// It has overrun, and takes no more.
    broken: bool,
    /// Queue pairs that complete here.
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

    /// A request for the next completion stands above one for a solicited one.
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
