//! Why a membership service does not run.

use std::io;
use std::path::PathBuf;

use weft_cluster::DurableError;
use weft_register::StateError;

use crate::{BindError, KeyFileError};

/// Why a membership service does not run.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// Its port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The cluster key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The state file exists and cannot be read.
    #[error("state file {}: cannot be read: {source}", path.display())]
    Unreadable {
        /// Path of the state file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The state file exists, but is damaged or belongs to another cluster.
    #[error(
        "state file {}: {source}; restore the file: to remove it and restart every node loses all data",
        path.display()
    )]
    Unusable {
        /// Path of the state file.
        path: PathBuf,
        /// What is wrong with its content.
        source: DurableError,
    },
    /// The state cannot be stored, so the service may grant nothing that it could forget.
    #[error("state file {}: cannot be written: {source}; the service does not run without, because it must not forget", path.display())]
    Unwritable {
        /// Path of the state file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A coordinator's state file is not there.
    #[error(
        "state file {}: it is not there; restore the file that weft init --keepers wrote, as this node left it: a \
         coordinator that forgets its promises ends the cluster's agreement",
        path.display()
    )]
    Forgotten {
        /// Path of the state file.
        path: PathBuf,
    },
    /// A coordinator's state file is damaged, or another coordinator's.
    #[error("state file {}: {source}; restore the file of this node's coordinator", path.display())]
    NoCoordinator {
        /// Path of the state file.
        path: PathBuf,
        /// What is wrong with its content.
        source: StateError,
    },
    /// The socket cannot be used any more.
    #[error("the network fails: {0}")]
    Network(#[from] io::Error),
}
