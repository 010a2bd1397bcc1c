//! Errors in calls of the device.

use thiserror::Error;
use weft_verbs::ApiError;

/// Reason for which a call was refused. The call has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The transport has refused the call.
    #[error(transparent)]
    Transport(#[from] ApiError),
    /// Other objects still use the object.
    #[error("the object is still in use")]
    Busy,
    /// There is no such object.
    #[error("no such {0}")]
    Unknown(&'static str),
    /// The queue already holds as many requests as it was created for.
    #[error("the queue is full")]
    QueueFull,
    /// The list has more elements than the queue was created for.
    #[error("a list of this queue has at most {0} elements")]
    TooManyElements(usize),
    /// The request has more inline bytes than the queue was created for.
    #[error("a request of this queue has at most {0} inline bytes")]
    InlineTooLong(usize),
    /// The message is longer than messages can be.
    #[error("the message is too long")]
    MessageTooLong,
    /// The program has no memory at an address that the request names.
    #[error("the program has no memory there")]
    Fault,
    /// The state or the service of the queue pair does not allow the call, or an attribute is missing or out
    /// of range.
    #[error("invalid: {0}")]
    Invalid(&'static str),
    /// The device cannot have this many.
    #[error("too many: {0}")]
    TooMany(&'static str),
}
