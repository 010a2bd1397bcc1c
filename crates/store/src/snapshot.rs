//! Superblocks: they refer to the newest snapshot and to the part of the log that follows it.

use crate::disk::SECTOR;
use crate::frame::{Frame, HEADER, Kind, long, wide};
use crate::layout::Parameters;

/// The position at which a batch begins, with the state of the log before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tip {
    /// Position in the log, in bytes: it grows without bound.
    pub(crate) position: u64,
    /// Number of the batch.
    pub(crate) number: u64,
    /// The checksum of the batch before it.
    pub(crate) parent: u128,
    /// Number of its first record.
    pub(crate) record: u64,
}

/// A snapshot on the disk. Number 0 stands for the empty store and has no chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) number: u64,
    pub(crate) chunks: u64,
    /// Checksum of its last chunk.
    pub(crate) checksum: u128,
}

/// The state with which recovery begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) generation: u64,
    pub(crate) snapshot: Snapshot,
    /// The first batch that the snapshot may not reflect.
    pub(crate) start: Tip,
    /// Numbers of sectors of a batch, of the log, and of a snapshot.
    pub(crate) sizes: [u64; 3],
}

const PAYLOAD: usize = 96;

impl Superblock {
    pub(crate) fn new(parameters: &Parameters, generation: u64, snapshot: Snapshot, start: Tip) -> Self {
        Self { generation, snapshot, start, sizes: sizes(parameters) }
    }

    /// Encodes the copy at `at` as a sector.
    pub(crate) fn encode(&self, identity: u128, at: u64) -> [u8; SECTOR] {
        let mut sector = [0; SECTOR];
        let Self { generation, snapshot, start, sizes } = *self;
        let longs = [snapshot.number, snapshot.chunks, start.position, start.number, start.record];
        for (place, value) in longs.into_iter().chain(sizes).enumerate() {
            sector[HEADER + 8 * place..][..8].copy_from_slice(&value.to_le_bytes());
        }
        for (place, value) in [snapshot.checksum, start.parent].into_iter().enumerate() {
            sector[HEADER + 64 + 16 * place..][..16].copy_from_slice(&value.to_le_bytes());
        }
        let frame = Frame {
            kind: Kind::Superblock,
            identity,
            number: generation,
            at,
            first: 0,
            records: 0,
            length: PAYLOAD as u32,
            parent: 0,
        };
        frame.seal(&mut sector);
        sector
    }

    /// Decodes the copy at `at`; returns the store's identity with it.
    pub(crate) fn decode(sector: &[u8], at: u64) -> Option<(u128, Self)> {
        let frame = Frame::parse(sector)?;
        let (payload, _) = frame.check(sector)?;
        if frame.kind != Kind::Superblock || frame.at != at || payload.len() != PAYLOAD {
            return None;
        }
        let value = |place: usize| long(payload, 8 * place);
        let superblock = Self {
            generation: frame.number,
            snapshot: Snapshot { number: value(0)?, chunks: value(1)?, checksum: wide(payload, 64)? },
            start: Tip {
                position: value(2)?,
                number: value(3)?,
                record: value(4)?,
                parent: wide(payload, 80)?,
            },
            sizes: [value(5)?, value(6)?, value(7)?],
        };
        let aligned = superblock.start.position.is_multiple_of(SECTOR as u64);
        aligned.then_some((frame.identity, superblock))
    }

    /// Whether the store has these sizes.
    pub(crate) fn fits(&self, parameters: &Parameters) -> bool {
        self.sizes == sizes(parameters)
    }
}

fn sizes(parameters: &Parameters) -> [u64; 3] {
    [u64::from(parameters.batch_sectors), parameters.log_sectors, parameters.snapshot_sectors]
}
