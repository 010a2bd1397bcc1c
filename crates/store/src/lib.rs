//! A write-ahead log with snapshots, and its recovery.
//!
//! [`Store`] is a pure state machine over a [`Disk`]: it submits writes and flushes, and polls whether a flush has
//! ended. It has no clock, file or thread, and its memory is bounded. The simulator gives it a [`SimulatedDisk`],
//! a node a file and a thread.
//!
//! # Guarantees
//!
//! Records are numbered 0, 1, 2, … [`Store::recover`] finds all records below [`Store::durable`], in order and
//! unchanged, or reports what is [damaged](Damage). It finds nothing that was not appended. Of the records that
//! were appended and are not durable yet, it finds a prefix, possibly none.
//!
//! # Group commit
//!
//! Records that are appended during a flush wait in one *batch*. When the flush has ended, the batch is written
//! and flushed. So at most one batch is in flight, and all batches before it are durable.
//!
//! # A torn tail, or damage?
//!
//! If a batch at the end of the log cannot be read, there are two possible reasons. Its write was interrupted by a
//! power cut: then it must be cut off. Or it was acknowledged and has been damaged since: then it must not. A
//! checksum alone cannot distinguish these cases (Alagappan et al., Protocol-Aware Recovery, FAST 2018). Therefore
//! every batch is written twice before the same flush: into the log, and into a *mirror* that holds the last two
//! batches. If one of the two copies is intact, it is used, and the other copy is repaired. If neither is, the
//! flush cannot have ended, unless two places of the disk have failed. A damaged batch that is older than the
//! mirror is followed by other batches, so it is recognised as damage, too. So one fault never shortens the log.
//!
//! # Layout of the disk
//!
//! ```text
//!   superblocks   2 sectors: one generation, and the one before
//!   mirror        the last two batches
//!   superblocks   2 sectors: their second copies, so far away that no misdirected write reaches both
//!   snapshots     two areas: the newest complete snapshot, and the one that is being written
//!   log           a ring; records older than the newest snapshot may be overwritten
//! ```
//!
//! Every frame has the identity of the store, its kind, its number, its position, the checksum of the frame before
//! it, and a checksum over all of these. So a frame that was written to a wrong position, or is left from an
//! earlier lap of the ring, is not mistaken for the right one.
//!
//! # Failing disks
//!
//! After an error of a write or a flush the store does nothing more: the kernel's copy of the file is in an
//! unknown state then, and a repeated flush may succeed without having written anything (Rebello et al., ATC
//! 2020). The node stops. A recovered store writes its superblock and its last batch again, because recovery may
//! have read them from the kernel's memory and not from the disk.

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
