//! Errors of a call: the reason, and what may have happened all the same.

use std::io;

use thiserror::Error;
use weft_net::BindError;
use weft_time::Duration;

/// Reason for which no client could be made.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The description of the cluster is wrong.
    #[error("the description of the cluster: {0}")]
    Cluster(String),
    /// No port could be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system grants no descriptor or thread.
    #[error("the system has no room for a client: {0}")]
    System(#[from] io::Error),
}

/// Reason for which a call has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The call cannot be made like this. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// The cluster refuses. Nothing has happened.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// No node took the call in time. Nothing has happened.
    #[error("no node took the call within {after}, and nothing has happened: see whether the nodes run")]
    NotBegun {
        /// Time after which it was given up.
        after: Duration,
    },
    /// Whoever was asked does not answer, or does not know. An update has taken effect once or never, or may still do
    /// so.
    #[error(
        "no answer within {after}, or none that tells; what was to be changed may have been, once: read it before trying again"
    )]
    Unknown {
        /// Time after which it would have been given up.
        after: Duration,
    },
    /// The client was closed or has lost its port. What was called may have happened, once.
    #[error("the client is closed; what was called may have happened")]
    Closed,
    /// The entry is not kept any more.
    #[error("entry {index} is not kept any more: begin at a later one")]
    Forgotten {
        /// The index.
        index: u64,
    },
}

impl Error {
    /// Whether what was to be changed may have been changed, or may still be.
    pub const fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Closed)
    }
}
