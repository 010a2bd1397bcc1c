//! The data in files that are left of a cluster, where too few are left for the cluster to start with them.
//!
//! What is there is found by the engines themselves: each file is replayed into an engine, and these make a view of
//! their own, in which one file is enough for a recovery. So they exchange the entries that one of them lacks, as the
//! nodes of a cluster do after a loss of power, and end with the longest prefix of each stream.

use std::collections::VecDeque;
use std::io;

use weft_kv::journal::{HOST, Opening, What};
use weft_kv::message::{
    BACKUP_ENDS, BackupDescription, Kind, Lengths, Malformed, Reply, Request, Status, Write, backup_records,
};
use weft_kv::{Kv, Operation, Parameters, Role};
use weft_store::{Disk, DiskError, Operation as DiskOperation, RecoveryError};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NODES_MAX, NodeId,
    NodeSet, View,
};

use crate::kv::{in_order, store_parameters};
use crate::log::Content;

/// The caller that reads the data from an engine.
const READER: u32 = 1;
/// How often the engines' timers may fire before they have agreed. Nothing is lost between them, so few are needed.
const TIMERS_MAX: u32 = 10_000;

/// Why the file of a node is of no use.
#[derive(Debug, thiserror::Error)]
pub enum LeftError {
    /// It cannot be read, or is damaged.
    #[error(transparent)]
    Log(#[from] RecoveryError),
    /// A record is not one.
    #[error("a record is malformed: {0}")]
    Record(#[from] Malformed),
    /// The node never had all data.
    #[error("the node had not copied all data yet")]
    Incomplete,
}

/// What the file of one node has.
pub struct LeftNode {
    /// The node that has written the file.
    pub node: NodeId,
    /// The view of the epoch in which it stopped.
    pub view: View,
    /// How many writes of each leader in that epoch are in it. It has all of the epochs before.
    pub lengths: Lengths,
    engine: Kv,
    memory: Memory,
}

/// A file as a disk that is only read: what is written to it is dropped.
struct ReadOnly<F> {
    bytes: u64,
    read: F,
    flushes: u32,
}

impl<F: FnMut(u64, &mut [u8]) -> io::Result<()>> Disk for ReadOnly<F> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&mut self, _: u64, _: &[u8]) {}

    fn flush(&mut self) {
        self.flushes += 1;
    }

    fn poll(&mut self) -> Option<Result<(), DiskError>> {
        self.flushes = self.flushes.checked_sub(1)?;
        Some(Ok(()))
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        let failed =
            |error: io::Error| DiskError { operation: DiskOperation::Read, cause: error.to_string() };
        (self.read)(at, bytes).map_err(failed)
    }
}

impl LeftNode {
    /// Reads the file of a node whose store has these parameters: `bytes` bytes, of which `read` reads a part at a
    /// position.
    ///
    /// # Errors
    /// Why it is of no use.
    pub fn read(
        parameters: &Parameters,
        bytes: u64,
        read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> Result<Self, LeftError> {
        let mut disk = ReadOnly { bytes, read, flushes: 0 };
        let (content, recovered) = Content::read(store_parameters(parameters), &mut disk);
        recovered?;
        let found = in_order(content);
        // One member is enough to recover from: see `Parameters::durable_copies`.
        let parameters = Parameters { durable_copies: NODES_MAX, disk_lag: None, ..parameters.clone() };
        let mut memory = Memory::new(parameters.memory_bytes());
        let mut engine = Kv::new(parameters.clone());
        let mut extent: Option<(NodeId, View, Lengths)> = None;
        let mut effects = Effects::default();
        let mut tell = |kind: Kind, payload: &[u8]| {
            let message = Message { kind: kind as u8, payload };
            let event = Event::Call { caller: Caller::Host(HOST), message, last: true };
            engine.handle(Instant::ZERO, event, &mut Io { effects: &mut effects, memory: &mut memory });
        };
        for record in &found {
            note(record, parameters.key_bytes.next_multiple_of(8), &mut extent)?;
            tell(Kind::Restore, record);
        }
        tell(Kind::Restored, &[]);
        let (node, view, lengths) = extent.ok_or(LeftError::Incomplete)?;
        match engine.role() {
            Role::Sealed => Ok(Self { node, view, lengths, engine, memory }),
            _ => Err(LeftError::Incomplete),
        }
    }
}

/// Notes how far a record takes the log of its node.
fn note(
    record: &[u8],
    key_field: usize,
    extent: &mut Option<(NodeId, View, Lengths)>,
) -> Result<(), Malformed> {
    let (what, stream, content) = What::of(record)?;
    match what {
        What::State | What::Opening => {
            let (Opening { node, view, closed }, _) = Opening::parse(content)?;
            if extent.is_none_or(|(_, known, _)| view.epoch > known.epoch) {
                // A snapshot gives the lengths of its own epoch, an opening those of the epoch before.
                let lengths = if what == What::State { closed.lengths } else { [0; NODES_MAX] };
                *extent = Some((node, view, lengths));
            }
        }
        What::Entry => {
            let write = Write::parse(content, key_field)?;
            if let Some((_, view, lengths)) = extent
                && view.epoch == write.epoch
                && let Some(length) = lengths.get_mut(stream)
            {
                *length = (*length).max(write.number);
            }
        }
        What::Slots | What::Sessions | What::Complete | What::Sealed | What::Kept => {}
    }
    Ok(())
}

/// Engines with the content of files, and what is under way between them.
pub struct Salvage {
    nodes: Vec<LeftNode>,
    view: View,
    now: Instant,
    /// Messages from one engine to another, and records that its host has logged.
    under_way: VecDeque<(usize, Source, u8, Vec<u8>)>,
    timers: Vec<(Instant, usize, u32)>,
    logged: Vec<u64>,
    answers: Vec<Vec<u8>>,
}

enum Source {
    Peer(NodeId),
    Host,
}

/// The engines did not agree: the files contradict each other.
#[derive(Debug, thiserror::Error)]
#[error(
    "the files contradict each other: they are not of one cluster, or one is an older copy; give fewer of them"
)]
pub struct Contradiction;

impl Salvage {
    /// Takes the longest prefix of each stream from these nodes, which have stopped in the same epoch.
    ///
    /// # Errors
    /// The files contradict each other.
    ///
    /// # Panics
    /// If there is none, or they have stopped in different epochs.
    pub fn new(nodes: Vec<LeftNode>) -> Result<Self, Contradiction> {
        let newest = nodes.iter().map(|left| left.view.epoch).max().expect("a file is left");
        assert!(nodes.iter().all(|left| left.view.epoch == newest), "the files are of one epoch");
        let full: NodeSet = nodes.iter().map(|left| left.node).collect();
        let view = View { epoch: Epoch(newest.0 + 1), full, joining: NodeSet::EMPTY };
        let mut salvage = Self {
            logged: vec![0; nodes.len()],
            nodes,
            view,
            now: Instant::ZERO,
            under_way: VecDeque::new(),
            timers: Vec::new(),
            answers: Vec::new(),
        };
        for index in 0..salvage.nodes.len() {
            let node = salvage.nodes[index].node;
            let configuration = Configuration { node, view, lease_until: Instant::FAR_FUTURE };
            salvage.handle(index, Event::Configure(configuration));
        }
        for _ in 0..TIMERS_MAX {
            salvage.settle();
            let roles = || salvage.nodes.iter().map(|left| left.engine.role());
            if roles().all(|role| role == Role::Full) {
                return Ok(salvage);
            }
            if roles().any(|role| role == Role::Lost) {
                break;
            }
            salvage.now += Duration::from_ms(1);
            let (due, later) =
                std::mem::take(&mut salvage.timers).into_iter().partition(|(at, ..)| *at <= salvage.now);
            salvage.timers = later;
            let due: Vec<(Instant, usize, u32)> = due;
            for (_, index, tag) in due {
                salvage.handle(index, Event::Timer { tag });
            }
        }
        Err(Contradiction)
    }

    /// The epoch of the files, and how many writes of each leader in it are found.
    pub fn extent(&self) -> (Epoch, Lengths) {
        let of = |stream: usize| self.nodes.iter().map(|left| left.lengths[stream]).max().unwrap_or(0);
        (Epoch(self.view.epoch.0 - 1), std::array::from_fn(of))
    }

    /// Calls `visit` with each key and its value.
    ///
    /// # Errors
    /// That of `visit`.
    ///
    /// # Panics
    /// If the engine does not give its data.
    pub fn for_each<E>(&mut self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>) -> Result<(), E> {
        let index =
            (0..self.nodes.len()).max_by_key(|index| self.nodes[*index].node).expect("a file is left");
        let key_bytes = self.nodes[index].engine.parameters().key_bytes;
        let description = BackupDescription::parse(self.ask(index, 1, 0).value).expect("a backup has begun");
        assert_eq!(description.node, self.nodes[index].node);
        for part in 1.. {
            let reply = self.ask(index, 1 + part, 1 << 32 | part);
            for record in backup_records(reply.value, key_bytes) {
                let (key, value) = record.expect("an engine sends whole records");
                visit(key, value)?;
            }
            if reply.version & BACKUP_ENDS != 0 {
                break;
            }
        }
        Ok(())
    }

    /// Asks an engine for a part of a backup.
    fn ask(&mut self, index: usize, request: u64, expected: u64) -> Reply<'_> {
        let key = vec![0; self.nodes[index].engine.parameters().key_bytes.next_multiple_of(8)];
        let request =
            Request { operation: Operation::Backup, client: 1, request, expected, key: &key, value: &[] };
        let payload = [&request.header()[..], &key].concat();
        let message = Message { kind: Kind::Request as u8, payload: &payload };
        self.answers.clear();
        self.handle(index, Event::Call { caller: Caller::Host(READER), message, last: true });
        let answer = self.answers.first().expect("an engine answers at once");
        let reply = Reply::parse(answer).expect("an engine sends whole messages");
        assert_eq!(reply.status, Status::Ok, "a full member alone has a backup at once");
        reply
    }

    fn handle(&mut self, index: usize, event: Event<'_>) {
        let mut effects = Effects::default();
        let left = &mut self.nodes[index];
        left.engine.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut left.memory });
        let from = left.node;
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload;
                    for peer in to.iter() {
                        let place = self.nodes.iter().position(|left| left.node == peer);
                        let message = |to| (to, Source::Peer(from), *kind, payload.to_vec());
                        self.under_way.extend(place.map(message));
                    }
                }
                // The record would be durable: there is nothing to be lost.
                Effect::Reply { to: Caller::Host(HOST), .. } => {
                    self.logged[index] += 1;
                    let count = self.logged[index].to_be_bytes().to_vec();
                    self.under_way.push_back((index, Source::Host, Kind::Durable as u8, count));
                }
                Effect::Reply { kind, payload, .. } => {
                    self.answers.push(effects.message(*kind, payload).payload.to_vec());
                }
                Effect::SetTimer { tag, at } => {
                    self.timers.retain(|(_, other, known)| (*other, *known) != (index, *tag));
                    self.timers.push((*at, index, *tag));
                }
                Effect::Post { .. }
                | Effect::Access { .. }
                | Effect::Connect { .. }
                | Effect::HostRead { .. }
                | Effect::HostWrite { .. } => unreachable!("the store has no queue pairs"),
            }
        }
    }

    /// Delivers what is under way, until nothing is.
    fn settle(&mut self) {
        while let Some((to, source, kind, payload)) = self.under_way.pop_front() {
            let message = Message { kind, payload: &payload };
            self.handle(
                to,
                match source {
                    Source::Peer(from) => Event::Deliver { from, message, last: true },
                    Source::Host => Event::Call { caller: Caller::Host(HOST), message, last: true },
                },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weft_store::{SimulatedDisk, Store};

    use super::*;

    fn parameters() -> Parameters {
        Parameters {
            buckets: 256,
            ways: 4,
            value_bytes_max: 24,
            window: 16,
            durable_copies: 2,
            ..Parameters::default()
        }
    }

    fn node(index: usize) -> NodeId {
        NodeId::new(index).unwrap()
    }

    /// The file of a node of three that has the first `lengths` writes of nodes 0 and 1 in epoch 2.
    fn file(index: usize, lengths: [u64; 2]) -> Vec<u8> {
        let sizes = store_parameters(&parameters());
        let mut disk = SimulatedDisk::new(sizes.disk_bytes(), 1);
        let mut store = Store::format(sizes, 7, &mut disk);
        let view = |epoch| View { epoch: Epoch(epoch), full: NodeSet::first(3), joining: NodeSet::EMPTY };
        for epoch in 1..=2 {
            let closed = Opening::FOUNDED;
            let closed =
                if epoch == 1 { closed } else { weft_kv::message::Cut { epoch: Epoch(1), ..closed } };
            let opening = Opening { node: node(index), view: view(epoch), closed };
            store.append(&[&What::Opening.head(0)[..], &opening.encode()].concat()).unwrap();
        }
        for (stream, length) in lengths.into_iter().enumerate() {
            // Keys that the node leads.
            let leads =
                |key: &u64| view(2).leader(weft_kv::partition(&key.to_be_bytes())) == Some(node(stream));
            for (number, key) in (1..=length).zip((0u64..).filter(leads)) {
                let write = Write {
                    epoch: Epoch(2),
                    operation: Operation::Put,
                    status: Status::Ok,
                    number,
                    committed: 0,
                    client: 5,
                    request: number,
                    version: weft_kv::version(Epoch(2), number),
                    key: &key.to_be_bytes(),
                    value: &[number as u8; 9],
                };
                let head = What::Entry.head(stream);
                store.append(&[&head[..], &write.header(), write.key, write.value].concat()).unwrap();
            }
        }
        store.pump(&mut disk).unwrap();
        while !store.is_idle() {
            assert!(disk.step());
            store.pump(&mut disk).unwrap();
        }
        let mut bytes = vec![0; disk.bytes() as usize];
        disk.read(0, &mut bytes).unwrap();
        bytes
    }

    fn left(bytes: &[u8]) -> Result<LeftNode, LeftError> {
        LeftNode::read(&parameters(), bytes.len() as u64, |at, part| {
            part.copy_from_slice(&bytes[at as usize..][..part.len()]);
            Ok(())
        })
    }

    /// How many writes of nodes 0 and 1 are found in these files together.
    fn found(files: &[Vec<u8>]) -> [usize; 2] {
        let mut salvage = Salvage::new(files.iter().map(|file| left(file).unwrap()).collect()).unwrap();
        assert_eq!(salvage.extent().0, Epoch(2));
        let mut content = BTreeMap::new();
        salvage
            .for_each(|key, value| {
                content.insert(key.to_vec(), value.to_vec());
                Ok::<_, ()>(())
            })
            .unwrap();
        [0, 1].map(|index| {
            let full = View { epoch: Epoch(2), full: NodeSet::first(3), joining: NodeSet::EMPTY };
            content.keys().filter(|key| full.leader(weft_kv::partition(key)) == Some(node(index))).count()
        })
    }

    #[test]
    fn the_longest_prefix_of_each_stream_is_found() {
        let files = [file(0, [20, 3]), file(1, [17, 9]), file(2, [0, 12])];
        assert_eq!(found(&files[..1]), [20, 3]);
        assert_eq!(found(&files[1..2]), [17, 9]);
        assert_eq!(found(&files[..2]), [20, 9]);
        assert_eq!(found(&files), [20, 12]);
        let one = left(&files[1]).unwrap();
        assert_eq!((one.node, one.view.epoch, &one.lengths[..3]), (node(1), Epoch(2), &[17, 9, 0][..]));
    }

    #[test]
    fn a_file_of_no_use_says_why() {
        let sizes = store_parameters(&parameters());
        let says = |bytes: &[u8]| left(bytes).err().unwrap().to_string();
        assert_eq!(says(&vec![0; sizes.disk_bytes() as usize]), "the disk is blank");
        let mut damaged = file(0, [20, 3]);
        damaged[sizes.log_place().start as usize..].fill(1);
        damaged[8192..8192 + 2 * 256 * 4096].fill(1);
        assert!(!says(&damaged).is_empty());
        assert_eq!(says(&[1; 4096]), "the store has other sizes than those that are configured");
    }
}
