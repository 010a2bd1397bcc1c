//! Superblocks: which snapshot is the newest, and where the log begins behind it.

use crate::disk::SECTOR;
use crate::frame::{Frame, HEADER, Kind, long, wide};
use crate::layout::Parameters;

/// Beginning of a batch, and the position before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tip {
    /// Position in the log, in bytes: it grows without bound.
    pub(crate) position: u64,
    /// Number of the batch.
    pub(crate) number: u64,
    /// The checksum of the batch before it.
    pub(crate) parent: u128,
    /// Its first record.
    pub(crate) record: u64,
}

/// A snapshot on the disk. Number 0 is of an empty store and has no chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) number: u64,
    pub(crate) chunks: u64,
    /// Of its last chunk.
    pub(crate) checksum: u128,
}

/// The state that recovery begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) generation: u64,
    pub(crate) snapshot: Snapshot,
    /// The first batch that the snapshot may not reflect.
    pub(crate) start: Tip,
    /// Sectors of a batch, the log, a snapshot.
    pub(crate) sizes: [u64; 3],
}

const PAYLOAD: usize = 96;

impl Superblock {
    pub(crate) fn new(parameters: &Parameters, generation: u64, snapshot: Snapshot, start: Tip) -> Self {
        Self { generation, snapshot, start, sizes: sizes(parameters) }
    }

    /// The sector of the copy at `at`.
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

    /// Decodes the copy at `at`, and returns the store's identity with it.
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

    /// Whether it is of a store with these sizes.
    pub(crate) fn fits(&self, parameters: &Parameters) -> bool {
        self.sizes == sizes(parameters)
    }
}

fn sizes(parameters: &Parameters) -> [u64; 3] {
    [u64::from(parameters.batch_sectors), parameters.log_sectors, parameters.snapshot_sectors]
}
