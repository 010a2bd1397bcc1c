//! Events that a device reports.

use crate::CompletionQueueNumber;

/// An event that a program can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A completion for which an event was requested has been added to a queue.
    Completion(CompletionQueueNumber),
    /// A completion queue has overrun.
    CompletionQueueError(CompletionQueueNumber),
    /// A queue pair in RTR has received its first message.
    Established(u32),
    /// A send queue that was to be drained has been drained.
    SendQueueDrained(u32),
    /// An invalid request of the peer was refused, and the queue pair is in ERROR.
    RequestError(u32),
    /// A request of the peer was refused for lack of permission, and the queue pair is in ERROR.
    AccessError(u32),
    /// A queue pair in ERROR takes no more requests from its shared receive queue.
    LastRequestReached(u32),
    /// A shared receive queue has fewer requests than its limit.
    LimitReached(u32),
}
