//! Reasons why a run of processes fails, and the machine that it runs on.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use weft_check::DecodeError;
use weft_net::BindError;
use weft_net::process::ProcessError;
use weft_results::ResultError;
use weft_time::Duration;

/// Reason why a run over real sockets failed.
#[derive(Debug, Error)]
pub enum RealBenchError {
    /// The parameters are invalid.
    #[error("{0}")]
    Invalid(String),
    /// A process has failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A file of the run cannot be read or written.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A result file cannot be written.
    #[error(transparent)]
    Result(#[from] ResultError),
    /// The file of a history is damaged.
    #[error("a history cannot be read: {0}")]
    History(#[from] DecodeError),
    /// There are more operations than one history holds.
    #[error("the histories cannot be joined: {0}; run for a shorter time")]
    Joined(#[from] weft_check::RecordError),
    /// The parent or a child has received an unknown message.
    #[error("a process of the run was told what it does not understand: {0}")]
    Garbled(String),
    /// A node has not become a full member again in time.
    #[error("not every node was a full member {0} after the workload; a machine that is less busy may help")]
    NotWhole(Duration),
    /// The user has interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// A system call has failed that every run needs.
    #[error("the system fails: {0}")]
    System(#[from] io::Error),
}

/// An error for an unknown command or answer. Parent and child are the same program, so this happens only if
/// somebody else writes to the pipe.
pub(crate) fn garbled(error: impl std::fmt::Display) -> RealBenchError {
    RealBenchError::Garbled(error.to_string())
}

/// Description of the processor and its cores.
pub(crate) fn machine_description() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = model.map_or("unknown processor", |(_, name)| name);
    format!("{model}, {cores} cores shared by all processes; UDP over loopback")
}
