//! The state machine of a store: appending, group commit, snapshots.

use crate::disk::{Disk, DiskError, SECTOR};
use crate::frame::{Frame, HEADER, Kind, sectors_of};
use crate::layout::{Parameters, bytes, planted};
use crate::snapshot::{Snapshot, Superblock, Tip};

/// Bytes before each record in a batch: its length.
pub(crate) const PREFIX: usize = 4;

/// Why a record or a chunk is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The disk is behind: call [`Store::pump`] and try again.
    #[error("the disk has not caught up")]
    Busy,
    /// The log, or the area for a snapshot, is full. A log has room again after a snapshot.
    #[error("there is no room")]
    Full,
    /// The record or chunk is longer than a batch.
    #[error("it is longer than a batch")]
    TooLong,
    /// The disk has failed: the store does nothing more.
    #[error("the disk has failed")]
    Failed,
}

/// A write-ahead log with snapshots. See the crate's documentation.
#[derive(Debug)]
pub struct Store {
    pub(crate) parameters: Parameters,
    pub(crate) identity: u128,
    /// Where the batch that is being filled begins.
    pub(crate) tip: Tip,
    /// The batch that is being filled, with room for its header.
    pub(crate) batch: Vec<u8>,
    pub(crate) batch_records: u32,
    /// Where recovery would begin: the log before it is free.
    pub(crate) start: Tip,
    /// All records below this number are durable.
    pub(crate) durable: u64,
    pub(crate) generation: u64,
    pub(crate) snapshot: Snapshot,
    pub(crate) writing: Option<Writing>,
    /// The chunk to be written next, with room for its header; empty if there is none.
    pub(crate) chunk: Vec<u8>,
    pub(crate) flight: Option<Flight>,
    pub(crate) failed: Option<DiskError>,
    /// Flushes of a former store on the same disk that have not ended yet.
    old_flights: u32,
}

/// A snapshot that is being written.
#[derive(Debug)]
pub(crate) struct Writing {
    snapshot: Snapshot,
    start: Tip,
    /// Number of sectors of its chunks so far.
    sectors: u64,
    ended: bool,
}

/// What a flush in progress makes durable.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) records: u64,
    pub(crate) superblock: Option<Superblock>,
}

impl Store {
    pub(crate) fn at(parameters: Parameters, identity: u128, superblock: &Superblock) -> Self {
        let mut batch = Vec::with_capacity(parameters.batch_bytes());
        batch.resize(HEADER, 0);
        Self {
            parameters,
            identity,
            tip: superblock.start,
            batch,
            batch_records: 0,
            start: superblock.start,
            durable: superblock.start.record,
            generation: superblock.generation,
            snapshot: superblock.snapshot,
            writing: None,
            chunk: Vec::with_capacity(parameters.batch_bytes()),
            flight: None,
            failed: None,
            old_flights: 0,
        }
    }

    /// Creates an empty store on a disk, replacing any content. The store exists once [`Store::is_idle`].
    /// `identity` distinguishes its frames from those of every other store: choose it at random.
    ///
    /// # Panics
    /// If the parameters are out of range, or the disk is too small for them.
    pub fn format(parameters: Parameters, identity: u128, disk: &mut (impl Disk + ?Sized)) -> Self {
        if let Err(error) = parameters.check() {
            panic!("{error}");
        }
        assert!(disk.bytes() >= parameters.disk_bytes(), "the disk is too small");
        let superblock = Superblock::new(&parameters, 1, Snapshot::default(), Tip::default());
        let mut store = Self::at(parameters, identity, &superblock);
        for generation in 0..2 {
            store.write_superblock(Superblock { generation, ..superblock }, disk);
        }
        store.flight = Some(Flight { records: 0, superblock: None });
        disk.flush();
        store
    }

    /// Creates an empty store with another identity on the same disk, as [`Store::format`] does. The store first
    /// waits for the flushes that are in progress.
    pub fn start_over(&mut self, identity: u128, disk: &mut (impl Disk + ?Sized)) {
        let flights = self.old_flights + u32::from(self.flight.is_some());
        *self = Self { failed: self.failed.take(), ..Self::format(self.parameters, identity, disk) };
        self.old_flights = flights;
    }

    /// Identity of the store, which distinguishes its frames from those of other stores.
    pub fn identity(&self) -> u128 {
        self.identity
    }

    /// The number of the next record.
    pub fn next_record(&self) -> u64 {
        self.tip.record + u64::from(self.batch_records)
    }

    /// All records below this number are durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Number of the newest durable snapshot; 0 if there is none.
    pub fn snapshot(&self) -> u64 {
        self.snapshot.number
    }

    /// Whether nothing is being written, or waits to be.
    pub fn is_idle(&self) -> bool {
        let snapshot_waits = self.writing.as_ref().is_some_and(|writing| writing.ended);
        self.flight.is_none() && self.batch_records == 0 && self.chunk.is_empty() && !snapshot_waits
    }

    /// The share of the log that is in use, in thousandths. A snapshot should begin at a half at the latest.
    pub fn fullness(&self) -> u64 {
        (self.tip.position - self.start.position).saturating_mul(1_000) / self.parameters.log_bytes()
    }

    /// The longest record, and the longest chunk of a snapshot, in bytes.
    pub fn record_max(&self) -> usize {
        self.parameters.payload_max() - PREFIX
    }

    /// Appends a record and returns its number. It is durable once [`Store::durable`] exceeds that number.
    ///
    /// # Errors
    /// Why the record is refused; nothing has changed then.
    pub fn append(&mut self, record: &[u8]) -> Result<u64, Refusal> {
        if self.failed.is_some() {
            return Err(Refusal::Failed);
        }
        if record.len() > self.record_max() {
            return Err(Refusal::TooLong);
        }
        let length = self.batch.len() + PREFIX + record.len();
        if length > self.parameters.batch_bytes() {
            return Err(Refusal::Busy);
        }
        let end = self.tip.position + bytes(length.div_ceil(SECTOR) as u64);
        if end - self.start.position > self.parameters.log_bytes() {
            return Err(Refusal::Full);
        }
        self.batch.extend_from_slice(&(record.len() as u32).to_le_bytes());
        self.batch.extend_from_slice(record);
        self.batch_records += 1;
        Ok(self.next_record() - 1)
    }

    /// Begins a snapshot. It must reflect all records below [`Store::next_record`], and may reflect later ones;
    /// recovery finds later ones again after the snapshot.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while another is being written.
    pub fn begin_snapshot(&mut self) -> Result<(), Refusal> {
        if self.failed.is_some() {
            return Err(Refusal::Failed);
        }
        if self.writing.is_some() {
            return Err(Refusal::Busy);
        }
        let snapshot = Snapshot { number: self.snapshot.number + 1, chunks: 0, checksum: 0 };
        self.writing = Some(Writing { snapshot, start: self.tip, sectors: 0, ended: false });
        Ok(())
    }

    /// Whether a snapshot is being written.
    pub fn is_writing_snapshot(&self) -> bool {
        self.writing.is_some()
    }

    /// Adds a chunk to the snapshot.
    ///
    /// # Errors
    /// Why the chunk is refused. With [`Refusal::Full`] the snapshot has become too long: it is abandoned, and the
    /// previous one stays.
    ///
    /// # Panics
    /// If no snapshot has begun, or it has ended.
    pub fn put_chunk(&mut self, content: &[u8]) -> Result<(), Refusal> {
        if self.failed.is_some() {
            return Err(Refusal::Failed);
        }
        let writing = self.writing.as_mut().filter(|writing| !writing.ended).expect("a snapshot has begun");
        if content.len() > self.parameters.payload_max() {
            return Err(Refusal::TooLong);
        }
        if !self.chunk.is_empty() {
            return Err(Refusal::Busy);
        }
        if writing.sectors + sectors_of(content.len()) as u64 > self.parameters.snapshot_sectors {
            self.writing = None;
            return Err(Refusal::Full);
        }
        self.chunk.resize(HEADER, 0);
        self.chunk.extend_from_slice(content);
        Ok(())
    }

    /// Abandons the snapshot that is being written, if there is one and it has not ended. The previous one stays.
    pub fn abandon_snapshot(&mut self) {
        if self.writing.take_if(|writing| !writing.ended).is_some() {
            self.chunk.clear();
        }
    }

    /// Ends the snapshot. Once it is durable, it replaces the previous one and all records that it reflects.
    ///
    /// # Panics
    /// If no snapshot has begun.
    pub fn end_snapshot(&mut self) {
        let writing = self.writing.as_mut().expect("a snapshot has begun");
        writing.ended = true;
        if planted!(self.parameters, ReleasedEarly) {
            self.start = writing.start;
        }
    }

    /// Polls the disk's results and submits what is due.
    ///
    /// # Errors
    /// The disk has failed, now or earlier: the node must stop.
    pub fn pump(&mut self, disk: &mut (impl Disk + ?Sized)) -> Result<(), DiskError> {
        loop {
            if let Some(error) = &self.failed {
                return Err(error.clone());
            }
            if self.flight.is_some() {
                match disk.poll() {
                    None => return Ok(()),
                    Some(Ok(())) if self.old_flights > 0 => self.old_flights -= 1,
                    Some(Err(error)) if !planted!(self.parameters, FlushErrorIgnored) => {
                        self.failed = Some(error)
                    }
                    Some(_) => self.land(),
                }
            } else if !self.launch(disk) {
                return Ok(());
            }
        }
    }

    fn land(&mut self) {
        let Some(flight) = self.flight.take() else { return };
        self.durable = self.durable.max(flight.records);
        if let Some(superblock) = flight.superblock {
            self.generation = superblock.generation;
            self.snapshot = superblock.snapshot;
            self.start = superblock.start;
            self.writing = None;
        }
    }

    /// Submits what waits to be written; returns whether there was anything.
    fn launch(&mut self, disk: &mut (impl Disk + ?Sized)) -> bool {
        let mut superblock = None;
        let has_batch = self.batch_records > 0;
        if has_batch {
            self.write_batch(disk);
        }
        let has_chunk = !self.chunk.is_empty();
        if has_chunk {
            self.write_chunk(disk);
        }
        let mut writes = has_batch || has_chunk;
        let may_name = !has_chunk || planted!(self.parameters, NamedEarly);
        if let Some(writing) = self.writing.as_ref().filter(|writing| writing.ended && may_name) {
            // The chunks are durable, so the superblock may refer to them.
            let (snapshot, start) = (writing.snapshot, writing.start);
            let next = Superblock::new(&self.parameters, self.generation + 1, snapshot, start);
            self.write_superblock(next, disk);
            superblock = Some(next);
            writes = true;
        }
        if writes {
            self.flight = Some(Flight { records: self.tip.record, superblock });
            disk.flush();
            if planted!(self.parameters, AcknowledgeBeforeFlush) {
                self.durable = self.tip.record;
            }
        }
        writes
    }

    fn write_batch(&mut self, disk: &mut (impl Disk + ?Sized)) {
        let length = self.batch.len() - HEADER;
        self.batch.resize(bytes(sectors_of(length) as u64) as usize, 0);
        let frame = Frame {
            kind: Kind::Batch,
            identity: self.identity,
            number: self.tip.number,
            at: self.tip.position,
            first: self.tip.record,
            records: self.batch_records,
            length: length as u32,
            parent: self.tip.parent,
        };
        let checksum = frame.seal(&mut self.batch);
        self.write_log(self.tip.position, &self.batch, disk);
        disk.write(self.parameters.mirror_at(self.tip.number), &self.batch);
        self.tip = Tip {
            position: self.tip.position + self.batch.len() as u64,
            number: self.tip.number + 1,
            parent: checksum,
            record: self.next_record(),
        };
        self.batch_records = 0;
        self.batch.truncate(HEADER);
    }

    pub(crate) fn write_log(&self, position: u64, batch: &[u8], disk: &mut (impl Disk + ?Sized)) {
        let mut rest = batch;
        for (at, length) in self.parameters.pieces(position, batch.len()) {
            let (piece, behind) = rest.split_at(length);
            if !piece.is_empty() {
                disk.write(at, piece);
            }
            rest = behind;
        }
    }

    fn write_chunk(&mut self, disk: &mut (impl Disk + ?Sized)) {
        let writing = self.writing.as_mut().expect("a chunk belongs to a snapshot");
        let length = self.chunk.len() - HEADER;
        let sectors = sectors_of(length) as u64;
        self.chunk.resize(bytes(sectors) as usize, 0);
        let at = self.parameters.area_at(writing.snapshot.number) + bytes(writing.sectors);
        let frame = Frame {
            kind: Kind::Chunk,
            identity: self.identity,
            number: writing.snapshot.chunks,
            at,
            first: writing.snapshot.number,
            records: 0,
            length: length as u32,
            parent: writing.snapshot.checksum,
        };
        writing.snapshot.checksum = frame.seal(&mut self.chunk);
        writing.snapshot.chunks += 1;
        writing.sectors += sectors;
        disk.write(at, &self.chunk);
        self.chunk.clear();
    }

    pub(crate) fn write_superblock(&self, superblock: Superblock, disk: &mut (impl Disk + ?Sized)) {
        for at in self.parameters.superblocks_at(superblock.generation) {
            disk.write(at, &superblock.encode(self.identity, at));
        }
    }
}
