//! A write-ahead log with snapshots, and its recovery.
//!
//! [`Store`] is a pure state machine over [`Disk`]: it submits writes and flushes and is told when a flush has ended.
//! It has no clock, file or thread, and its memory is bounded. The simulator gives it a [`SimulatedDisk`], a node a
//! file and a thread.
//!
//! # What it promises
//!
//! Records are numbered 0, 1, 2, … All below [`Store::durable`] are found again by [`Store::recover`], in order and
//! unchanged, or recovery says what is [damaged](Damage). Nothing is found that was not appended. What was appended
//! and is not durable yet is found up to some record, or not at all.
//!
//! # Group commit
//!
//! Records that are appended while a flush is on its way wait in one *batch*. When the flush has ended, the batch is
//! written and flushed. So at most one batch is on its way, and all batches before it are durable.
//!
//! # A torn tail, or damage?
//!
//! A batch that cannot be read at the end of the log is either one that a power cut has interrupted, and then it must
//! be cut off, or one that was acknowledged and has been damaged, and then it must not be. A checksum alone cannot tell
//! them apart (Alagappan et al., Protocol-Aware Recovery, FAST 2018). Here every batch is written twice before the same
//! flush: into the log, and into a *mirror* that holds the last two batches. If one of the two copies is intact, the
//! batch is taken, and the other copy is repaired. If neither is, the flush cannot have ended, unless two places of the
//! disk have failed. A damaged batch that is older than the mirror is followed by others: that is damage, too. So one
//! fault never shortens the log.
//!
//! # Where everything lies
//!
//! ```text
//!   superblocks   4 sectors: two copies of one generation, two copies of the one before
//!   mirror        the last two batches
//!   snapshots     two areas: the newest whole snapshot, and the one that is being written
//!   log           a ring; what is older than the newest snapshot is free
//! ```
//!
//! Every frame carries the identity of the store, its kind, its number, where it belongs, the checksum of the frame
//! before it, and a checksum over all that. So a frame that was written to a wrong place, or is left from an earlier
//! lap of the ring, is not taken for the one that belongs there.
//!
//! # Failing disks
//!
//! After an error of a write or a flush the store does nothing more: what the kernel holds of the file is unknown then,
//! and a flush that is repeated may succeed without having written anything (Rebello et al., ATC 2020). The node stops.
//! A recovered store writes its last batch again, because it may have been read from memory and not from the disk.

mod disk;
mod frame;
mod layout;
#[cfg(feature = "planted-bugs")]
mod planted;
mod recovery;
mod simulated;
mod snapshot;
mod store;

pub use disk::{Disk, DiskError, Operation, SECTOR};
pub use layout::{BadParameters, Parameters};
#[cfg(feature = "planted-bugs")]
pub use planted::PlantedBug;
pub use recovery::{Damage, Found, RecoveryError};
pub use simulated::{SimulatedDisk, WriteFault};
pub use store::{Refusal, Store};
