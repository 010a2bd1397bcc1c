//! The interface of a disk for a store.

use std::fmt;

/// Bytes of a sector. Writes begin and end at multiples of it, and no write changes a sector that it does not name.
pub const SECTOR: usize = 4096;

/// A disk, or a file of fixed length.
///
/// Writes and flushes are carried out in the order in which they are submitted. A flush covers all writes before it; an
/// error of one of them is the error of that flush.
pub trait Disk {
    /// Size in bytes.
    fn bytes(&self) -> u64;

    /// Begins to write. Both the place and the length are multiples of [`SECTOR`] and lie within the disk.
    fn write(&mut self, at: u64, bytes: &[u8]);

    /// Begins to make durable all that was written before.
    fn flush(&mut self);

    /// Whether the oldest flush that has not been polled yet has ended, and how.
    fn poll(&mut self) -> Option<Result<(), DiskError>>;

    /// Reads, and waits for it: a store reads only while it recovers.
    ///
    /// # Errors
    /// What the disk says.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), DiskError>;
}

/// Kind of a disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To flush.
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

/// A disk has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk failed to {operation}: {cause}")]
pub struct DiskError {
    /// The operation.
    pub operation: Operation,
    /// The disk's error message.
    pub cause: String,
}
