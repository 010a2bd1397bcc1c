//! A log on a disk, as the host half of an engine uses it: records, and snapshots that are composed of parts.

use std::collections::VecDeque;
use std::fmt;

use weft_cluster::Incarnation;
use weft_kv::message::Cut;
use weft_store::{Damage, Disk, DiskError, Found, Parameters, RecoveryError, Refusal, Store};
use weft_txn::host::ReplayError;
use weft_waist::Epoch;

/// Sectors of a batch, 1 MiB, and of the log, 128 MiB: several times what engines have under way.
const BATCH_SECTORS: u32 = 256;
const LOG_SECTORS: u64 = 32_768;
/// Bytes of a chunk of a snapshot. A part may make it longer.
const CHUNK_BYTES: usize = 64 << 10;
/// A snapshot begins when this share of the log is in use, in thousandths.
const SNAPSHOT_AT: u64 = 250;

/// The sizes of a store whose snapshots have at most `bytes` bytes of parts.
pub(crate) fn store_parameters(bytes: usize) -> Parameters {
    // A tenth more for frames and the lengths of parts.
    let bytes = bytes / 10 * 11 + (1 << 20);
    Parameters::new(BATCH_SECTORS, LOG_SECTORS, bytes.div_ceil(weft_store::SECTOR) as u64)
}

/// What was found in a log that was opened.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// The parts of the newest snapshot, in order.
    pub parts: Vec<Vec<u8>>,
    /// The records behind it.
    pub records: Vec<Vec<u8>>,
}

impl Content {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.records.is_empty()
    }

    /// Reads a log, and returns its content and the store behind it.
    pub fn read(
        parameters: Parameters,
        disk: &mut (impl Disk + ?Sized),
    ) -> (Self, Result<Store, RecoveryError>) {
        let mut content = Self::default();
        let recovered = Store::recover(parameters, disk, |what| match what {
            Found::Record(_, record) => content.records.push(record.to_vec()),
            Found::Chunk(chunk) => content.parts.extend(parts(chunk).map(<[u8]>::to_vec)),
        });
        (content, recovered)
    }
}

/// Progress of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room for a part.
    Ready,
    /// The disk is behind.
    Behind,
    /// The snapshot has become too long, or the disk has failed: the snapshot is abandoned.
    Abandoned,
}

/// The log of an engine that was opened on a disk, or a new one.
#[derive(Debug)]
pub struct EngineLog {
    pub(crate) log: HostLog,
    /// The entries that were found in it, in the order in which they are replayed.
    pub(crate) found: Vec<Vec<u8>>,
}

impl EngineLog {
    /// The incarnation to which the data belongs.
    pub fn incarnation(&self) -> Incarnation {
        self.log.incarnation()
    }

    /// Why the data that was found in the log when it was opened cannot be used, if there was any.
    pub const fn loss(&self) -> Option<Loss> {
        self.log.loss()
    }

    /// Whether the log has data of the node.
    pub const fn has_data(&self) -> bool {
        !self.found.is_empty()
    }
}

/// Why a node begins with nothing although its disk had a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// What had been durable is damaged.
    #[error("{0}")]
    Damaged(Damage),
    /// The node had not finished its copy of the data.
    #[error("the node had not copied all data yet")]
    Incomplete,
}

/// What an engine that was restored from its log continues with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundAgain {
    /// The epoch in which the store had stopped, and how much of each stream of this epoch is there.
    Store(Cut),
    /// The epoch in which the node had last served transactions, and the records that were not applied to its tables.
    Transactions {
        /// The epoch.
        epoch: Epoch,
        /// Number of the records.
        unapplied: usize,
    },
    /// The log could not be replayed, so the node begins with nothing.
    Nothing(ReplayError),
}

impl fmt::Display for FoundAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(Cut { epoch, lengths }) => {
                let streams = lengths.iter().enumerate().filter(|(_, length)| **length > 0);
                let streams: Vec<_> = streams.map(|(leader, length)| format!("{leader}:{length}")).collect();
                let writes = if streams.is_empty() { "-".to_owned() } else { streams.join(",") };
                write!(f, "continues after {epoch} with all earlier epochs and writes {writes}")
            }
            Self::Transactions { epoch, unapplied } => {
                write!(
                    f,
                    "continues after {epoch} with its tables and {unapplied} records that are not in them yet"
                )
            }
            Self::Nothing(error) => write!(f, "begins with nothing: {error}"),
        }
    }
}

/// A log on a disk.
pub(crate) struct HostLog {
    store: Store,
    disk: Box<dyn Disk + Send>,
    /// Records that the store has not accepted yet.
    waiting: VecDeque<Vec<u8>>,
    /// The chunk that is being filled with parts of a snapshot.
    chunk: Vec<u8>,
    loss: Option<Loss>,
    failure: Option<DiskError>,
}

impl fmt::Debug for HostLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostLog").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl HostLog {
    /// Opens the log on a disk. If there is none, if it is damaged, or if its content is not `complete`, a new one is
    /// made, for a node that starts without data in incarnation `fresh`. `wait` returns when a flush may have ended.
    ///
    /// # Errors
    /// The disk fails, or has a log of an engine with other sizes.
    pub fn open(
        parameters: Parameters,
        mut disk: Box<dyn Disk + Send>,
        fresh: Incarnation,
        mut wait: impl FnMut(),
        complete: impl FnOnce(&Content) -> bool,
    ) -> Result<(Self, Content), RecoveryError> {
        let (content, recovered) = Content::read(parameters, &mut *disk);
        let (kept, loss) = match recovered {
            Ok(store) if complete(&content) => (Some(store), None),
            Ok(_) if content.is_empty() => (None, None),
            Ok(_) => (None, Some(Loss::Incomplete)),
            Err(RecoveryError::Blank) => (None, None),
            Err(RecoveryError::Damaged(damage)) => (None, Some(Loss::Damaged(damage))),
            Err(error) => return Err(error),
        };
        let (mut store, content) = match kept {
            Some(store) => (store, content),
            None => (Store::format(parameters, fresh.get().into(), &mut *disk), Content::default()),
        };
        store.pump(&mut *disk)?;
        while !store.is_idle() {
            wait();
            store.pump(&mut *disk)?;
        }
        let chunk = Vec::with_capacity(CHUNK_BYTES);
        Ok((Self { store, disk, waiting: VecDeque::new(), chunk, loss, failure: None }, content))
    }

    /// As [`EngineLog::loss`].
    pub const fn loss(&self) -> Option<Loss> {
        self.loss
    }

    /// The incarnation to which the data belongs.
    pub fn incarnation(&self) -> Incarnation {
        u64::try_from(self.store.identity()).ok().and_then(Incarnation::new).unwrap_or(Incarnation::FIRST)
    }

    /// The error of the disk that makes the node stop, if there was one.
    pub const fn failure(&self) -> Option<&DiskError> {
        self.failure.as_ref()
    }

    /// The store itself.
    #[cfg(test)]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Forgets everything: the node's next incarnation starts without data.
    pub fn start_over(&mut self, incarnation: Incarnation) {
        self.forget_all_in_memory();
        self.store.start_over(incarnation.get().into(), &mut *self.disk);
    }

    /// Forgets what the store has not accepted.
    pub fn forget_all_in_memory(&mut self) {
        self.waiting.clear();
        self.chunk.clear();
    }

    /// Adds a record.
    pub fn append(&mut self, record: &[u8]) {
        // Usually the store's batch accepts the record at once.
        let is_taken = self.waiting.is_empty() && self.store.append(record).is_ok();
        if !is_taken {
            self.waiting.push_back(record.to_vec());
        }
    }

    /// The number of the next record.
    pub fn next_record(&self) -> u64 {
        self.store.next_record() + self.waiting.len() as u64
    }

    /// All records below this number are durable.
    pub fn durable(&self) -> u64 {
        self.store.durable()
    }

    /// Whether nothing is being written, or waits to be.
    #[cfg(feature = "planted-bugs")]
    pub fn is_idle(&self) -> bool {
        self.store.is_idle()
    }

    /// All records below this number were accepted by the store; the others wait.
    pub fn accepted(&self) -> u64 {
        self.store.next_record()
    }

    /// Whether the store has accepted all records.
    pub fn has_accepted_all(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives the store the records that wait.
    pub fn append_waiting(&mut self) {
        while let Some(record) = self.waiting.front() {
            match self.store.append(record) {
                Ok(_) => drop(self.waiting.pop_front()),
                Err(_) => break,
            }
        }
    }

    /// Moves writes and flushes forward as far as possible. Returns whether the disk works.
    pub fn pump(&mut self) -> bool {
        match self.store.pump(&mut *self.disk) {
            Ok(()) => true,
            Err(error) => {
                self.failure.get_or_insert(error);
                false
            }
        }
    }

    // Snapshots.

    /// Whether the log is so full that a snapshot should begin.
    pub fn wants_snapshot(&self) -> bool {
        self.store.fullness() >= SNAPSHOT_AT
    }

    /// Begins a snapshot, which must reflect all records so far that the store has accepted. False while another is
    /// being written.
    pub fn begin_snapshot(&mut self) -> bool {
        self.store.begin_snapshot().is_ok()
    }

    /// Whether a snapshot is being written.
    pub fn is_writing_snapshot(&self) -> bool {
        self.store.is_writing_snapshot()
    }

    /// Adds a part to the snapshot, for which there must be room.
    pub fn add_part(&mut self, part: &[&[u8]]) {
        let length: usize = part.iter().map(|bytes| bytes.len()).sum();
        self.chunk.extend_from_slice(&(length as u32).to_le_bytes());
        part.iter().for_each(|bytes| self.chunk.extend_from_slice(bytes));
    }

    /// Adds a record that waits as a part, counted from the first one that waits.
    pub fn add_waiting(&mut self, place: usize) {
        let record = std::mem::take(&mut self.waiting[place]);
        self.add_part(&[&record]);
        self.waiting[place] = record;
    }

    /// Drops the parts that were not written yet.
    pub fn drop_parts(&mut self) {
        self.chunk.clear();
    }

    /// Whether a part can be added before the disk has done more.
    pub const fn may_add(&self) -> bool {
        self.chunk.len() < CHUNK_BYTES
    }

    /// Whether there is room for a part. Writes the chunk if it is full.
    pub fn room(&mut self) -> Room {
        if self.chunk.len() < CHUNK_BYTES { Room::Ready } else { self.put_chunk() }
    }

    /// Ends the snapshot, once its last chunk can be written. Once it is durable, it replaces the records that it
    /// reflects.
    pub fn end_snapshot(&mut self) -> Room {
        let last = if self.chunk.is_empty() { Room::Ready } else { self.put_chunk() };
        if last == Room::Ready {
            self.store.end_snapshot();
        }
        last
    }

    /// Abandons the snapshot, unless it has ended.
    pub fn abandon_snapshot(&mut self) {
        self.chunk.clear();
        self.store.abandon_snapshot();
    }

    fn put_chunk(&mut self) -> Room {
        match self.store.put_chunk(&self.chunk) {
            Ok(()) => {
                self.chunk.clear();
                Room::Ready
            }
            Err(Refusal::Busy) => Room::Behind,
            // The area is full or the disk has failed; the next pump reports a failed disk.
            Err(Refusal::Full | Refusal::TooLong | Refusal::Failed) => {
                self.abandon_snapshot();
                Room::Abandoned
            }
        }
    }
}

/// The parts in a chunk; each is preceded by its length.
fn parts(mut chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = chunk.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        chunk = rest;
        Some(part)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use weft_store::SimulatedDisk;

    use super::*;

    /// A disk that outlives the process that uses it.
    #[derive(Clone)]
    pub(crate) struct Shared(pub Arc<Mutex<SimulatedDisk>>);

    impl Shared {
        /// An empty disk for a store of these sizes.
        pub fn new(sizes: &Parameters, seed: u64) -> Self {
            Self(Arc::new(Mutex::new(SimulatedDisk::new(sizes.disk_bytes(), seed))))
        }

        /// Waits until a flush may have ended.
        pub fn wait(&self) {
            assert!(self.0.lock().unwrap().step(), "something is being written");
        }
    }

    impl Disk for Shared {
        fn bytes(&self) -> u64 {
            self.0.lock().unwrap().bytes()
        }
        fn write(&mut self, at: u64, bytes: &[u8]) {
            self.0.lock().unwrap().write(at, bytes);
        }
        fn flush(&mut self) {
            self.0.lock().unwrap().flush();
        }
        fn poll(&mut self) -> Option<Result<(), DiskError>> {
            self.0.lock().unwrap().poll()
        }
        fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
            self.0.lock().unwrap().read(at, bytes)
        }
    }
}
