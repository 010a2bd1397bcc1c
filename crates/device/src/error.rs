//! What a program can do wrong.

use thiserror::Error;
use weft_verbs::ApiError;

/// A call that was refused and changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The transport refuses.
    #[error(transparent)]
    Transport(#[from] ApiError),
    /// The object is still used by others.
    #[error("the object is still in use")]
    Busy,
    /// There is no such object.
    #[error("no such {0}")]
    Unknown(&'static str),
    /// The queue holds as many requests as it was created for.
    #[error("the queue is full")]
    QueueFull,
    /// The list is longer than the queue was created for.
    #[error("a list of this queue has at most {0} elements")]
    TooManyElements(usize),
    /// More inline bytes than the queue was created for.
    #[error("a request of this queue has at most {0} inline bytes")]
    InlineTooLong(usize),
    /// Longer than any message.
    #[error("the message is too long")]
    MessageTooLong,
    /// The program has no such memory.
    #[error("the program has no memory there")]
    Fault,
    /// The queue pair's state or service does not allow it, or an attribute is missing or out of range.
    #[error("invalid: {0}")]
    Invalid(&'static str),
    /// More than the device can have.
    #[error("too many: {0}")]
    TooMany(&'static str),
}
