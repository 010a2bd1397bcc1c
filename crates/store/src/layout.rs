//! Layout of the disk.

use crate::disk::SECTOR;
use crate::frame::HEADER;
#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;

/// Number of generations of the superblock. Each has two copies, one before the mirror and one behind it.
pub(crate) const GENERATIONS: u64 = 2;
/// Number of batches in the mirror.
const MIRRORED: u64 = 2;
/// Number of areas for snapshots.
const AREAS: u64 = 2;
/// The longest batch: 1 GiB.
const BATCH_SECTORS_MAX: u32 = 1 << 18;
/// The longest log and the longest snapshot: 1 PiB.
const SECTORS_MAX: u64 = 1 << 38;

/// The sizes of a store. They are fixed when it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Sectors of the longest batch of records, and of the longest chunk of a snapshot.
    pub batch_sectors: u32,
    /// Sectors of the log: at least two batches.
    pub log_sectors: u64,
    /// Sectors of the longest snapshot.
    pub snapshot_sectors: u64,
    /// A deliberate bug to run with.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
}

/// Why sizes are out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadParameters {
    /// The size of a batch.
    #[error("a batch has 1 to {BATCH_SECTORS_MAX} sectors")]
    Batch,
    /// The size of the log.
    #[error("a log has at least two batches and at most {SECTORS_MAX} sectors")]
    Log,
    /// The size of a snapshot.
    #[error("a snapshot has 1 to {SECTORS_MAX} sectors")]
    Snapshot,
}

impl Parameters {
    /// Parameters of a store with these numbers of sectors for a batch, the log and a snapshot.
    pub const fn new(batch_sectors: u32, log_sectors: u64, snapshot_sectors: u64) -> Self {
        Self {
            batch_sectors,
            log_sectors,
            snapshot_sectors,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }

    /// Checks that a store can have these sizes.
    ///
    /// # Errors
    /// The first size that is out of range.
    pub fn check(&self) -> Result<(), BadParameters> {
        if !(1..=BATCH_SECTORS_MAX).contains(&self.batch_sectors) {
            Err(BadParameters::Batch)
        } else if !(2 * u64::from(self.batch_sectors)..=SECTORS_MAX).contains(&self.log_sectors) {
            Err(BadParameters::Log)
        } else if !(1..=SECTORS_MAX).contains(&self.snapshot_sectors) {
            Err(BadParameters::Snapshot)
        } else {
            Ok(())
        }
    }

    /// Bytes of disk that the store needs.
    pub const fn disk_bytes(&self) -> u64 {
        self.log_at(0) + self.log_bytes()
    }

    /// Range of bytes of the log on the disk.
    pub const fn log_place(&self) -> std::ops::Range<u64> {
        self.log_at(0)..self.disk_bytes()
    }

    /// The longest payload of a batch or of a chunk.
    pub(crate) const fn payload_max(&self) -> usize {
        self.batch_bytes() - HEADER
    }

    pub(crate) const fn batch_bytes(&self) -> usize {
        self.batch_sectors as usize * SECTOR
    }

    pub(crate) const fn log_bytes(&self) -> u64 {
        bytes(self.log_sectors)
    }

    pub(crate) const fn snapshot_bytes(&self) -> u64 {
        bytes(self.snapshot_sectors)
    }

    /// Positions of the two copies of a generation of the superblock. The mirror lies between them, so no single
    /// write, wherever it goes, reaches both.
    pub(crate) const fn superblocks_at(&self, generation: u64) -> [u64; 2] {
        let first = bytes(generation % GENERATIONS);
        [first, first + bytes(GENERATIONS + self.mirror_sectors())]
    }

    const fn mirror_sectors(&self) -> u64 {
        MIRRORED * self.batch_sectors as u64
    }

    /// Position behind the superblocks and the mirror.
    const fn head_bytes(&self) -> u64 {
        bytes(2 * GENERATIONS + self.mirror_sectors())
    }

    /// Position of a batch in the mirror.
    pub(crate) const fn mirror_at(&self, number: u64) -> u64 {
        bytes(GENERATIONS + number % MIRRORED * self.batch_sectors as u64)
    }

    /// First byte of the area for a snapshot.
    pub(crate) const fn area_at(&self, snapshot: u64) -> u64 {
        self.head_bytes() + bytes(snapshot % AREAS * self.snapshot_sectors)
    }

    /// Position on the disk of a position in the log.
    pub(crate) const fn log_at(&self, position: u64) -> u64 {
        self.head_bytes() + bytes(AREAS * self.snapshot_sectors) + position % self.log_bytes()
    }

    /// `length` bytes of the log from `position` on, as one or two ranges of the disk: (position, length) of each.
    pub(crate) fn pieces(&self, position: u64, length: usize) -> [(u64, usize); 2] {
        let until_end = self.log_bytes() - position % self.log_bytes();
        let first = length.min(usize::try_from(until_end).unwrap_or(usize::MAX));
        [(self.log_at(position), first), (self.log_at(0), length - first)]
    }

    #[cfg(feature = "planted-bugs")]
    pub(crate) fn planted(&self, bug: PlantedBug) -> bool {
        self.planted_bug == Some(bug)
    }
}

/// Whether a deliberate bug is switched on.
macro_rules! planted {
    ($parameters:expr, $bug:ident) => {{
        #[cfg(feature = "planted-bugs")]
        let planted = $parameters.planted($crate::planted::PlantedBug::$bug);
        #[cfg(not(feature = "planted-bugs"))]
        let planted = false;
        planted
    }};
}
pub(crate) use planted;

pub(crate) const fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR as u64
}
