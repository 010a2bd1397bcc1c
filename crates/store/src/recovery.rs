//! Recovery of the content of a disk.

use crate::disk::{Disk, DiskError, SECTOR};
use crate::frame::{Frame, HEADER, Kind, VERSION, sectors_of, version, word};
use crate::layout::{GENERATIONS, Parameters, bytes, planted};
use crate::snapshot::{Superblock, Tip};
use crate::store::{Flight, PREFIX, Store};

/// Items that recovery finds, in this order: the chunks of the newest snapshot, then the records after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A chunk of the snapshot.
    Chunk(&'a [u8]),
    /// A record with its number. The snapshot may already reflect the first ones.
    Record(u64, &'a [u8]),
}

/// Durable content of a disk that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// All superblocks are damaged, or two contradict each other.
    #[error("no superblock is intact")]
    Superblocks,
    /// This chunk of the newest snapshot is damaged.
    #[error("chunk {0} of the snapshot is damaged")]
    Chunk(u64),
    /// The records of the log from this number on are damaged; they were durable.
    #[error("the log is damaged from record {0} on")]
    Records(u64),
}

/// Why recovery failed. Items found before the failure must not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// There has never been a store on the disk.
    #[error("the disk is blank")]
    Blank,
    /// The store was written in another version of the format. It is left as it is.
    #[error("the store was written by another version of Weft")]
    Version,
    /// The disk is too small, or the store on it has other sizes.
    #[error("the store has other sizes than those that are configured")]
    Sizes,
    /// Durable content is missing or damaged.
    #[error("{0}")]
    Damaged(Damage),
    /// The disk has failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// A batch that recovery has read.
#[derive(Default)]
struct Batch {
    position: u64,
    number: u64,
    first: u64,
    /// Whether the log's copy was damaged, and the mirror's was used.
    from_mirror: bool,
    sectors: Vec<u8>,
}

impl Store {
    /// Recovers the store on a disk, and calls `visit` with each item found. The store can be used at once. The
    /// last batch is durable only once [`Store::durable`] says so.
    ///
    /// Why there is no usable store. A damaged disk is never used in part: its node fetches the data from its
    /// peers.
    ///
    /// # Panics
    /// If the parameters are out of range.
    pub fn recover(
        parameters: Parameters,
        disk: &mut (impl Disk + ?Sized),
        mut visit: impl FnMut(Found<'_>),
    ) -> Result<Self, RecoveryError> {
        if let Err(error) = parameters.check() {
            panic!("{error}");
        }
        if is_other_version(&parameters, disk)? {
            return Err(RecoveryError::Version);
        }
        if disk.bytes() < parameters.disk_bytes() {
            return Err(RecoveryError::Sizes);
        }
        let (identity, superblock) = newest_superblock(&parameters, disk)?;
        if !superblock.fits(&parameters) {
            return Err(RecoveryError::Sizes);
        }
        let mut reader = Reader { parameters, identity, disk, sectors: Vec::new() };
        reader.read_snapshot(&superblock, &mut visit)?;
        let mut store = Self::at(parameters, identity, &superblock);
        let (tip, before, last) = reader.read_log(superblock.start, &mut visit)?;
        store.tip = tip;
        store.durable = last.first.max(superblock.start.record);
        // The copy that was read may be only in the kernel's memory, or the other copy may be damaged: write both
        // again. Until that is flushed, nothing else is written: what the superblock frees may still be needed.
        store.write_superblock(superblock, disk);
        if before.from_mirror {
            store.write_log(before.position, &before.sectors, disk);
        }
        if !last.sectors.is_empty() {
            store.write_log(last.position, &last.sectors, disk);
            disk.write(parameters.mirror_at(last.number), &last.sectors);
        }
        disk.flush();
        store.flight = Some(Flight { records: tip.record, superblock: None });
        Ok(store)
    }
}

/// Whether the disk has a store of another version of the format. In every version the first sectors are superblocks.
fn is_other_version(parameters: &Parameters, disk: &mut (impl Disk + ?Sized)) -> Result<bool, DiskError> {
    let mut versions = [None; GENERATIONS as usize];
    let mut sector = [0; SECTOR];
    for (generation, found) in (0..).zip(&mut versions) {
        let [at, _] = parameters.superblocks_at(generation);
        if at + SECTOR as u64 <= disk.bytes() {
            disk.read(at, &mut sector)?;
            *found = version(&sector);
        }
    }
    Ok(versions.iter().any(Option::is_some) && !versions.contains(&Some(VERSION)))
}

fn newest_superblock(
    parameters: &Parameters,
    disk: &mut (impl Disk + ?Sized),
) -> Result<(u128, Superblock), RecoveryError> {
    let mut newest: Option<(u128, Superblock)> = None;
    let mut is_blank = true;
    let mut contradiction = false;
    let mut sector = [0; SECTOR];
    for at in (0..GENERATIONS).flat_map(|generation| parameters.superblocks_at(generation)) {
        disk.read(at, &mut sector)?;
        is_blank &= sector.iter().all(|byte| *byte == 0);
        let Some((identity, superblock)) = Superblock::decode(&sector, at) else { continue };
        if let Some((known, other)) = newest {
            contradiction |= known != identity;
            contradiction |= other.generation == superblock.generation && other != superblock;
        }
        if newest.is_none_or(|(_, other)| superblock.generation > other.generation) {
            newest = Some((identity, superblock));
        }
    }
    match newest {
        Some(found) if !contradiction => Ok(found),
        None if is_blank => Err(RecoveryError::Blank),
        _ => Err(RecoveryError::Damaged(Damage::Superblocks)),
    }
}

struct Reader<'a, D: ?Sized> {
    parameters: Parameters,
    identity: u128,
    disk: &'a mut D,
    /// The sectors that were last read.
    sectors: Vec<u8>,
}

impl<D: Disk + ?Sized> Reader<'_, D> {
    /// Reads a frame into `sectors` if it is intact and `is_expected` accepts its header. `pieces` returns the
    /// frame's ranges of the disk for a given length.
    fn read_frame(
        &mut self,
        pieces: impl Fn(usize) -> [(u64, usize); 2],
        is_expected: impl Fn(&Frame) -> bool,
    ) -> Result<Option<(Frame, u128)>, DiskError> {
        self.read(pieces(SECTOR), SECTOR)?;
        let Some(frame) = Frame::parse(&self.sectors) else { return Ok(None) };
        let length = sectors_of(frame.length as usize) * SECTOR;
        let fits = length <= self.parameters.batch_bytes();
        if !fits || frame.identity != self.identity || !is_expected(&frame) {
            return Ok(None);
        }
        self.read(pieces(length), length)?;
        let checked = frame.check(&self.sectors).map(|(_, checksum)| (frame, checksum));
        if checked.is_none() && planted!(self.parameters, ChecksumIgnored) {
            return Ok(Some((frame, 0)));
        }
        Ok(checked)
    }

    fn read(&mut self, pieces: [(u64, usize); 2], length: usize) -> Result<(), DiskError> {
        self.sectors.resize(length, 0);
        let mut rest = &mut self.sectors[..];
        for (at, length) in pieces {
            let (piece, behind) = rest.split_at_mut(length);
            if !piece.is_empty() {
                self.disk.read(at, piece)?;
            }
            rest = behind;
        }
        Ok(())
    }

    fn payload(&self, frame: &Frame) -> &[u8] {
        &self.sectors[HEADER..][..frame.length as usize]
    }

    fn read_snapshot(
        &mut self,
        superblock: &Superblock,
        visit: &mut impl FnMut(Found<'_>),
    ) -> Result<(), RecoveryError> {
        let snapshot = superblock.snapshot;
        let (area, room) = (self.parameters.area_at(snapshot.number), self.parameters.snapshot_bytes());
        let (mut offset, mut parent) = (0, 0);
        for number in 0..snapshot.chunks {
            let damage = RecoveryError::Damaged(Damage::Chunk(number));
            if offset == room {
                return Err(damage);
            }
            let at = area + offset;
            let is_expected = |frame: &Frame| {
                frame.kind == Kind::Chunk
                    && (frame.number, frame.at, frame.first) == (number, at, snapshot.number)
                    && frame.parent == parent
                    && bytes(sectors_of(frame.length as usize) as u64) <= room - offset
            };
            let found = self.read_frame(|length| [(at, length), (0, 0)], is_expected)?;
            let (frame, checksum) = found.ok_or(damage)?;
            visit(Found::Chunk(self.payload(&frame)));
            parent = checksum;
            offset += self.sectors.len() as u64;
        }
        let is_whole = parent == snapshot.checksum;
        is_whole.then_some(()).ok_or(RecoveryError::Damaged(Damage::Chunk(snapshot.chunks)))
    }

    /// Reads the log from `start` to its end. Returns where the next batch begins, and the last two batches.
    fn read_log(
        &mut self,
        start: Tip,
        visit: &mut impl FnMut(Found<'_>),
    ) -> Result<(Tip, Batch, Batch), RecoveryError> {
        let mut tip = start;
        let (mut before, mut last) = (Batch::default(), Batch::default());
        while tip.position - start.position < self.parameters.log_bytes() {
            let room = self.parameters.log_bytes() - (tip.position - start.position);
            let parameters = self.parameters;
            let is_next = |frame: &Frame| {
                let follows = (frame.number, frame.at, frame.first) == (tip.number, tip.position, tip.record)
                    && frame.parent == tip.parent;
                frame.kind == Kind::Batch
                    && (follows || planted!(parameters, ChainIgnored))
                    && bytes(sectors_of(frame.length as usize) as u64) <= room
            };
            let in_log = |length| parameters.pieces(tip.position, length);
            let in_mirror = |length| [(parameters.mirror_at(tip.number), length), (0, 0)];
            let mut found = self.read_frame(in_log, is_next)?;
            let from_mirror = found.is_none();
            if from_mirror && !planted!(parameters, MirrorIgnored) {
                found = self.read_frame(in_mirror, is_next)?;
            }
            let Some((frame, checksum)) = found else { break };
            let Some(next) = tip.after(&frame, self.sectors.len(), checksum) else { break };
            if !records(self.payload(&frame), tip.record, frame.records, visit) {
                // The checksum is correct, so the frame was written like this: by another version of the store.
                return Err(RecoveryError::Damaged(Damage::Records(tip.record)));
            }
            std::mem::swap(&mut before, &mut last);
            let sectors = std::mem::replace(&mut self.sectors, std::mem::take(&mut last.sectors));
            last =
                Batch { position: tip.position, number: tip.number, first: tip.record, from_mirror, sectors };
            tip = next;
        }
        if !planted!(self.parameters, DamageTruncated) && self.is_behind(&tip)? {
            return Err(RecoveryError::Damaged(Damage::Records(tip.record)));
        }
        Ok((tip, before, last))
    }

    /// Whether some intact batch shows that the one at `tip` was durable, because later batches are written only
    /// after that.
    fn is_behind(&mut self, tip: &Tip) -> Result<bool, DiskError> {
        let parameters = self.parameters;
        let in_mirror = [tip.number, tip.number.wrapping_add(1)].map(|number| parameters.mirror_at(number));
        for at in in_mirror {
            let is_later = |frame: &Frame| frame.kind == Kind::Batch && frame.number > tip.number;
            if self.read_frame(|length| [(at, length), (0, 0)], is_later)?.is_some() {
                return Ok(true);
            }
        }
        for position in (0..parameters.log_sectors).map(bytes) {
            let is_later = |frame: &Frame| {
                let place = frame.at % parameters.log_bytes();
                frame.kind == Kind::Batch && frame.number > tip.number && place == position
            };
            if self.read_frame(|length| parameters.pieces(position, length), is_later)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Tip {
    /// The tip after a batch at this one; `None` if the numbers overflow.
    fn after(&self, frame: &Frame, length: usize, checksum: u128) -> Option<Self> {
        Some(Self {
            position: self.position.checked_add(length as u64)?,
            number: self.number.checked_add(1)?,
            parent: checksum,
            record: self.record.checked_add(u64::from(frame.records))?,
        })
    }
}

/// Calls `visit` with the records of a batch; returns whether it has exactly `count`.
fn records(payload: &[u8], first: u64, count: u32, visit: &mut impl FnMut(Found<'_>)) -> bool {
    let mut rest = payload;
    for record in 0..u64::from(count) {
        let Some(length) = word(rest, 0) else { return false };
        let Some(bytes) = rest.get(PREFIX..).and_then(|behind| behind.get(..length as usize)) else {
            return false;
        };
        visit(Found::Record(first + record, bytes));
        rest = &rest[PREFIX + bytes.len()..];
    }
    rest.is_empty()
}
