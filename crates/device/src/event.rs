//! What a device tells without being asked.

use crate::CompletionQueueNumber;

/// Something that a program can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A completion for which an event had been requested.
    Completion(CompletionQueueNumber),
    /// A completion queue has overrun.
    CompletionQueueError(CompletionQueueNumber),
    /// A queue pair that was ready to receive got its first message.
    Established(u32),
    /// A send queue that was to be drained has nothing left.
    SendQueueDrained(u32),
    /// A peer's request was refused, and the queue pair is in ERROR.
    RequestError(u32),
    /// A peer's request was refused for want of permission, and the queue pair is in ERROR.
    AccessError(u32),
    /// A queue pair in ERROR takes nothing more from its shared receive queue.
    LastRequestReached(u32),
    /// A shared receive queue has fewer requests than its limit.
    LimitReached(u32),
}
