//! Errors of a call: the reason, and whether the call may have taken effect.

use std::io;

use thiserror::Error;
use weft_net::{BindError, DirectoryError, KeyFileError};
use weft_time::Duration;

/// Why a client could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The description of the cluster is invalid.
    #[error("the description of the cluster: {0}")]
    Cluster(String),
    /// No port could be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The cluster key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The nodes' hosts have no addresses.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The system grants no more descriptors or threads.
    #[error("the system has no room for a client: {0}")]
    System(#[from] io::Error),
}

/// Why a call has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The call is invalid. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// The cluster refuses the call. Nothing has happened.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// No node accepted the call in time. Nothing has happened.
    #[error("no node took the call within {after}, and nothing has happened: see whether the nodes run")]
    NotBegun {
        /// Time after which the call ended.
        after: Duration,
    },
    /// The nodes seal their datagrams under a key that this client does not have. Nothing has happened.
    #[error("the nodes reject the datagrams of this client, and nothing has happened: {0}")]
    KeyMismatch(&'static str),
    /// The node that got the call does not answer, or does not know its outcome. An update has taken effect once,
    /// or never, or may still do so.
    #[error(
        "no answer within {after}, or none that tells; what was to be changed may have been, once: read it before trying again"
    )]
    Unknown {
        /// Time-out of the call.
        after: Duration,
    },
    /// The client was closed or has lost its port. The call may have taken effect, once.
    #[error("the client is closed; what was called may have happened")]
    Closed,
    /// The node does not have the backup any more.
    #[error("{}", match is_overrun {
        true => "writes have changed more of the store than the node keeps for the reader of a backup: read it nearer to \
                 the node, or when there are fewer writes",
        false => "the node has restarted or lost the data that the backup was read from: begin another one",
    })]
    BackupEnded {
        /// Writes have changed more than the node keeps for the reader.
        is_overrun: bool,
    },
    /// The log no longer has the entry.
    #[error("entry {index} is not kept any more: begin at a later one")]
    Forgotten {
        /// Index of the entry that was requested.
        index: u64,
    },
}

impl Error {
    /// Whether an update may have taken effect, or may still do so.
    pub const fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Closed)
    }
}
