//! The interface through which a store uses a disk.

use std::fmt;

/// Bytes of a sector. Writes begin and end at multiples of it, and a write never changes other sectors.
pub const SECTOR: usize = 4096;

/// A disk, or a file of fixed length.
///
/// Writes and flushes are executed in the order in which they are submitted. A flush covers all writes before it;
/// an error of one of them is reported by that flush.
pub trait Disk {
    /// Size of the disk in bytes.
    fn bytes(&self) -> u64;

    /// Starts a write. Both the position and the length are multiples of [`SECTOR`] and within the disk.
    fn write(&mut self, at: u64, bytes: &[u8]);

    /// Starts a flush, which makes all writes before it durable.
    fn flush(&mut self);

    /// The result of the oldest flush that was not polled yet, if it has ended.
    fn poll(&mut self) -> Option<Result<(), DiskError>>;

    /// Reads, and blocks until the data is there: a store reads only during recovery.
    ///
    /// # Errors
    /// The disk's error.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), DiskError>;
}

/// Kind of a disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read of any length.
    Read,
    /// A write, which is not durable before the next flush.
    Write,
    /// A flush, which makes all earlier writes durable.
    Flush,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
        })
    }
}

/// An error of a disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk failed to {operation}: {cause}")]
pub struct DiskError {
    /// The operation that failed.
    pub operation: Operation,
    /// The disk's error message.
    pub cause: String,
}
