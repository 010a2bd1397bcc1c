//! Restoring the tables from the log on disk, when a process starts.
//!
//! First the snapshot's pages are loaded, or a founder's objects if there is no snapshot. Then the records that the
//! host had applied are applied again. A page may be newer than records that follow it, so a write counts only if it
//! is newer than the object. If the object is absent, a page has shown a later deletion, whose record follows: then
//! an insertion is undone by it, and a difference has nothing to change. The records that the host had not applied
//! go back into the ring: the next view change decides them.

use std::collections::VecDeque;

use weft_waist::Epoch;

use crate::host_port::{HostKind, LOG_TOKEN};
use crate::journal::{self, Entry, State};
use crate::log;
use crate::message::{Base, Held, Malformed, RecordPart, Verdict, Watermarks};
use crate::transaction::TransactionId;

use super::{Half, write_object};

/// Why a log cannot be replayed. The node then starts without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// An entry is malformed, or does not follow from those before it.
    #[error("an entry of the log is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// The table has no room for an object, or lacks the former value of one.
    #[error("an object of the log does not fit the table")]
    Astray,
}

/// Progress of a replay, and what it has found of attempts.
#[derive(Debug)]
pub struct Replay {
    window: u64,
    base: Base,
    decided: Watermarks,
    /// The latest attempt in each place of each coordinator's window.
    attempts: Vec<Option<Attempt>>,
    pending: VecDeque<Pending>,
    next_number: u64,
}

/// What the log has of an attempt.
#[derive(Clone, Debug)]
struct Attempt {
    held: Held,
    parts: Vec<RecordPart>,
}

/// A record that the host has not applied yet.
#[derive(Clone, Debug)]
struct Pending {
    number: u64,
    id: TransactionId,
    record: Vec<u8>,
}

impl Attempt {
    fn has_records(&self) -> bool {
        self.held.held != 0 || !self.parts.is_empty()
    }

    /// What the node knows of the attempt.
    fn held(&self) -> Held {
        let of_shard = |shard| self.parts.iter().filter(|part| part.shard == shard).count();
        let is_whole = |part: &&RecordPart| of_shard(part.shard) == usize::from(part.parts);
        let held =
            self.parts.iter().filter(is_whole).fold(self.held.held, |held, part| held | 1 << part.shard);
        Held { held, ..self.held }
    }
}

impl Replay {
    /// Nothing yet. `nodes`, `window`: parameters of the engine.
    pub fn new(nodes: usize, window: usize) -> Self {
        Self {
            window: window as u64,
            base: Base::default(),
            decided: Watermarks::default(),
            attempts: vec![None; nodes * window],
            pending: VecDeque::new(),
            next_number: 0,
        }
    }

    /// The last epoch in which the node served.
    pub const fn epoch(&self) -> Epoch {
        self.base.epoch
    }

    /// The number of the next record.
    pub const fn next_number(&self) -> u64 {
        self.next_number
    }

    /// The records that are not applied: the number, the attempt and the length of each.
    pub fn pending(&self) -> impl Iterator<Item = (u64, TransactionId, usize)> {
        self.pending.iter().map(|pending| (pending.number, pending.id, pending.record.len()))
    }

    fn begin(&mut self, base: Base) {
        self.base = base;
        self.decided = Watermarks::default();
        self.attempts.fill(None);
    }

    /// The place of an attempt, unless a later attempt has it. A coordinator reuses a place only when all attempts
    /// before the window are decided.
    fn attempt(&mut self, id: TransactionId) -> Result<Option<&mut Attempt>, Malformed> {
        let (window, coordinator) = (self.window, id.coordinator());
        let place = coordinator * window as usize + (id.sequence() & (window - 1)) as usize;
        let slot = self.attempts.get_mut(place).ok_or(Malformed::Field("identifier"))?;
        if id.epoch() == self.base.epoch {
            let first = (id.sequence() + 1).saturating_sub(window);
            self.decided[coordinator] = self.decided[coordinator].max(first);
        }
        let present = slot.as_ref().map(|attempt| attempt.held.id);
        if present.is_some_and(|present| present > id) {
            return Ok(None);
        }
        if present != Some(id) {
            let held = Held { id, shards: 0, held: 0, verdict: Verdict::Undecided };
            *slot = Some(Attempt { held, parts: Vec::new() });
        }
        Ok(slot.as_mut())
    }

    fn state(&mut self, state: &State<'_>) -> Result<(), Malformed> {
        self.begin(state.base);
        self.decided = state.decided;
        for held in state.held() {
            let held = held?;
            if let Some(attempt) = self.attempt(held.id)? {
                attempt.held = held;
            }
        }
        Ok(())
    }

    fn record(&mut self, number: u64, record: &[u8]) -> Result<(), Malformed> {
        let content = log::parse(record)?.content.ok_or(Malformed::Field("verdict"))?;
        let place = content.place;
        if let Some(attempt) = self.attempt(place.id)? {
            attempt.held.shards |= content.shards;
            attempt.parts.push(place);
        }
        self.pending.push_back(Pending { number, id: place.id, record: record.to_vec() });
        self.next_number = number + 1;
        Ok(())
    }

    /// An attempt takes no effect: its records are not to be applied.
    fn abort(&mut self, id: TransactionId) {
        self.pending.retain(|pending| pending.id != id);
    }
}

impl Half {
    /// Replays an entry of the log into the tables.
    ///
    /// # Errors
    /// The log cannot be replayed. The node must start without data.
    pub fn replay(
        &mut self,
        replay: &mut Replay,
        entry: &[u8],
        memory: &mut [u8],
    ) -> Result<(), ReplayError> {
        match Entry::parse(entry)? {
            Entry::State(state) => {
                self.clear(memory);
                self.merge = None;
                replay.state(&state)?;
            }
            Entry::Page(page) => {
                let (tables, table) = self.tables.as_mut().ok_or(ReplayError::Astray)?;
                let into = &mut memory[tables.table_address as usize..][..table.layout().bytes() as usize];
                for put in page.puts.iter() {
                    write_object(table, into, &put).map_err(|_| ReplayError::Astray)?;
                }
            }
            Entry::Record { number, record } => replay.record(number, record)?,
            Entry::Applied { number } => {
                replay.next_number = replay.next_number.max(number);
                while replay.pending.front().is_some_and(|pending| pending.number < number)
                    && let Some(pending) = replay.pending.pop_front()
                {
                    let record = log::parse(&pending.record)?;
                    if !self.apply_writes(&record, true, memory) {
                        return Err(ReplayError::Astray);
                    }
                }
            }
            Entry::Dropped { id } => {
                replay.abort(id);
                if let Some(attempt) = replay.attempt(id)? {
                    (attempt.held.held, attempt.held.shards) = (0, 0);
                    attempt.parts.clear();
                }
            }
            Entry::Verdicts(verdicts) => {
                for verdict in verdicts.iter() {
                    let (id, verdict) = verdict?;
                    if let Some(attempt) = replay.attempt(id)? {
                        attempt.held.verdict = verdict;
                    }
                    if verdict == Verdict::Aborted {
                        replay.abort(id);
                    }
                }
                // The node knew of all other attempts with records that every node has them as decided.
                let others = replay.attempts.iter_mut().flatten();
                for attempt in others.filter(|attempt| attempt.held.verdict == Verdict::Undecided) {
                    attempt.held.verdict = Verdict::Committed;
                }
            }
            Entry::Opening { base } => {
                if !replay.pending.is_empty() {
                    return Err(Malformed::Field("opening").into());
                }
                replay.begin(base);
            }
        }
        Ok(())
    }

    /// Ends a replay: puts the records that are not applied into the ring, and tells the card what it must know.
    ///
    /// # Errors
    /// As [`Half::replay`].
    pub fn end_replay(&mut self, replay: &Replay, memory: &mut [u8]) -> Result<(), ReplayError> {
        let (tables, table) = self.tables.as_ref().ok_or(ReplayError::Astray)?;
        let all: usize = replay.pending.iter().map(|pending| pending.record.len()).sum();
        if all > tables.log_bytes {
            return Err(Malformed::Length.into());
        }
        let ring = tables.log_address as usize;
        let mut at = ring;
        for Pending { record, .. } in &replay.pending {
            memory[at..at + record.len()].copy_from_slice(record);
            at += record.len();
        }
        (self.applied, self.restored) = (0, all as u64);
        self.changed = (0..table.layout().segments()).collect();
        let mut state = Vec::new();
        let with_records = replay.attempts.iter().flatten().filter(|attempt| attempt.has_records());
        let held = with_records.map(Attempt::held);
        journal::state(&mut state, &replay.base, &replay.decided, held);
        self.tell(LOG_TOKEN, HostKind::Restore, state);
        for Pending { number, record, .. } in &replay.pending {
            let entry = [&journal::record(*number)[..], record].concat();
            self.tell(LOG_TOKEN, HostKind::Restore, entry);
        }
        let mut report = 0u64.to_be_bytes().to_vec();
        self.report_changes(memory, &mut report);
        self.tell(LOG_TOKEN, HostKind::Applied, report);
        self.tell(LOG_TOKEN, HostKind::Restored, Vec::new());
        Ok(())
    }

    /// Tells the card that the node has no usable data.
    pub fn abandon_replay(&mut self) {
        self.tell(LOG_TOKEN, HostKind::Mismatch, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use weft_time::Instant;
    use weft_waist::{NODES_MAX, NodeId, NodeSet};

    use super::*;
    use crate::host::{HalfParameters, HalfTables};
    use crate::host_port::HostMessage;
    use crate::key::{Key, Version};
    use crate::message::{List, Put, Reader, Replacement, write_list};
    use crate::procedure::Procedures;
    use crate::store::{Precision, Shape};

    const TABLES: HalfTables = HalfTables {
        shape: Shape {
            slots: 16,
            segment_slots: 4,
            displacement: Some(4),
            slot_bytes: 64,
            pages: 4,
            page_slots: 4,
            blocks: 8,
            value_bytes_max: 256,
        },
        table_address: 4096,
        precision: Precision::Runs,
        log_address: 0,
        log_bytes: 4096,
    };

    fn id(sequence: u64) -> TransactionId {
        TransactionId::new(NodeId::new(1).unwrap(), Epoch(1), sequence)
    }

    fn base() -> Base {
        Base { epoch: Epoch(1), full: NodeSet::first(2), joining: NodeSet::EMPTY }
    }

    fn put(local: u64, version: u64, value: Option<&[u8]>) -> Put<'_> {
        Put { key: Key::new(0, local), version: Version::from_bits(version), value }
    }

    /// An entry with a record of attempt `sequence` that makes one change.
    fn record(number: u64, sequence: u64, change: Replacement<'_>) -> Vec<u8> {
        let mut list = vec![1];
        change.write_shorter(&mut list);
        let writes = List::<crate::message::Write<'_>>::read(&mut Reader(&list)).unwrap();
        let (mut record, place) = (Vec::new(), RecordPart { id: id(sequence), shard: 0, part: 0, parts: 1 });
        log::encode(&mut record, &place, 1, writes.iter());
        [&journal::record(number)[..], &record].concat()
    }

    fn page(puts: &[Put<'_>]) -> Vec<u8> {
        let mut entry = vec![journal::PAGE, 0];
        entry.extend_from_slice(&[0; 12]);
        entry.extend_from_slice(&u32::MAX.to_be_bytes());
        entry.extend_from_slice(&[0; 8]);
        write_list(&mut entry, puts.iter().map(|put| Put { ..*put }));
        entry
    }

    /// A host that has replayed these entries: its objects, and its messages to the card.
    struct Replayed {
        half: Half,
        memory: Vec<u8>,
        replay: Replay,
    }

    fn replayed(entries: &[Vec<u8>]) -> Result<Replayed, ReplayError> {
        let mut half = Half::new(Procedures::new(Vec::new()), HalfParameters::default(), Some(TABLES));
        let mut memory = vec![0; 4096 + TABLES.table_bytes()];
        let mut replay = Replay::new(2, 4);
        entries.iter().try_for_each(|entry| half.replay(&mut replay, entry, &mut memory))?;
        half.end_replay(&replay, &mut memory)?;
        Ok(Replayed { half, memory, replay })
    }

    impl Replayed {
        fn objects(&self) -> Vec<(u64, u64, Vec<u8>)> {
            let mut objects = Vec::new();
            self.half.for_each(&self.memory, |key, version, value| {
                objects.push((key.local(), version.bits(), value.to_vec()));
            });
            objects.sort();
            objects
        }

        /// What the card is told of attempts.
        fn held(&mut self) -> Vec<Held> {
            let state = self.half.poll_card(&self.memory).expect("the state comes first");
            let Ok(HostMessage::Restore(Entry::State(state))) =
                HostMessage::parse(state.kind, &state.payload)
            else {
                panic!("it is a state")
            };
            state.held().map(Result::unwrap).collect()
        }
    }

    fn state(held: &[Held]) -> Vec<u8> {
        let mut entry = Vec::new();
        journal::state(&mut entry, &base(), &[0; NODES_MAX], held.iter().copied());
        entry
    }

    /// The page shows object 1 as record 1 left it, object 2 as before record 2, and no object 3, which record 4
    /// deletes.
    #[test]
    fn pages_may_be_newer_than_records_that_follow() {
        let (old, new) = ([1; 100], [&[2][..], &[1; 99]].concat());
        let changes = |local, version, base: u64| Replacement {
            put: put(local, version, Some(&new)),
            read: Some((Version::from_bits(base), &old)),
        };
        let entries = [
            state(&[]),
            page(&[put(1, 20, Some(&new)), put(2, 10, Some(&old))]),
            record(1, 1, changes(1, 20, 10)),
            record(2, 2, changes(2, 21, 10)),
            record(3, 3, changes(3, 22, 10)),
            record(4, 3, Replacement { put: put(3, 23, None), read: None }),
            journal::applied(3).to_vec(),
        ];
        let mut replayed = replayed(&entries).unwrap();
        assert_eq!(replayed.objects(), [(1, 20, new.clone()), (2, 21, new.clone())]);
        // Records 3 and 4 are in the ring again, and are applied once they are decided.
        let upto: usize = replayed.replay.pending().map(|(_, _, length)| length).sum();
        let decided = (upto as u64).to_be_bytes();
        replayed
            .half
            .receive(Instant::ZERO, LOG_TOKEN, HostKind::Decided as u8, &decided, &mut replayed.memory)
            .unwrap();
        assert_eq!(replayed.objects(), [(1, 20, new.clone()), (2, 21, new)]);
        let kinds: Vec<u8> = std::iter::from_fn(|| replayed.half.poll_card(&replayed.memory))
            .map(|message| message.kind)
            .collect();
        assert!(!kinds.contains(&(HostKind::Mismatch as u8)));
    }

    #[test]
    fn aborted_records_are_not_applied() {
        let insert = |number, sequence| {
            record(number, sequence, Replacement { put: put(sequence, 10, Some(b"value")), read: None })
        };
        let mut marks = Vec::new();
        journal::verdicts(&mut marks, [(id(2), Verdict::Aborted), (id(3), Verdict::Committed)].into_iter());
        let entries = [
            state(&[]),
            insert(1, 1),
            insert(2, 2),
            journal::dropped(id(1)).to_vec(),
            insert(3, 3),
            marks,
            journal::applied(4).to_vec(),
        ];
        let mut replayed = replayed(&entries).unwrap();
        assert_eq!(replayed.objects(), [(3, 10, b"value".to_vec())]);
        let verdicts: Vec<_> =
            replayed.held().iter().map(|held| (held.id, held.held, held.verdict)).collect();
        assert_eq!(verdicts, [(id(2), 1, Verdict::Aborted), (id(3), 1, Verdict::Committed)]);
        assert_eq!(replayed.replay.next_number(), 4);
    }

    /// All nodes knew that attempt 1 was decided, but the host had not written yet that it has applied the record.
    #[test]
    fn attempts_that_a_view_change_does_not_mark_are_committed() {
        let insert =
            |number| record(number, number, Replacement { put: put(number, 10, Some(b"value")), read: None });
        let mut marks = Vec::new();
        journal::verdicts(&mut marks, [(id(2), Verdict::Aborted)].into_iter());
        let held = replayed(&[state(&[]), insert(1), insert(2), marks]).unwrap().held();
        let verdicts: Vec<_> = held.iter().map(|held| (held.id, held.verdict)).collect();
        assert_eq!(verdicts, [(id(1), Verdict::Committed), (id(2), Verdict::Aborted)]);
    }

    /// Attempts 1 and 5 have the same place in a window of four.
    #[test]
    fn a_later_attempt_in_its_place_says_that_an_attempt_is_decided() {
        let insert =
            |number| record(number, number, Replacement { put: put(number, 10, Some(b"value")), read: None });
        let known = Held { id: id(1), shards: 3, held: 2, verdict: Verdict::Committed };
        let mut both = replayed(&[state(&[known]), insert(1), insert(5)]).unwrap();
        assert_eq!(both.replay.decided[1], 2);
        let held: Vec<_> = both.held().iter().map(|held| held.id).collect();
        assert_eq!(held, [id(5)]);
        let mut one = replayed(&[state(&[known]), insert(1)]).unwrap();
        assert_eq!(one.held(), [Held { held: 3, ..known }], "of the snapshot, and of the record");
    }

    #[test]
    fn what_does_not_follow_is_refused() {
        let insert = record(0, 1, Replacement { put: put(1, 10, Some(b"value")), read: None });
        let mut opening = Vec::new();
        journal::opening(&mut opening, &base());
        let refused = |entries: &[Vec<u8>]| replayed(entries).err();
        let malformed = |field| Some(ReplayError::Malformed(Malformed::Field(field)));
        assert_eq!(refused(&[opening.clone(), insert.clone(), opening.clone()]), malformed("opening"));
        let many = (0..100).map(|_| insert.clone());
        assert_eq!(refused(&many.collect::<Vec<_>>()), Some(ReplayError::Malformed(Malformed::Length)));
        let full: Vec<_> = (0..40).map(|local| page(&[put(local, 10, Some(&[7; 200]))])).collect();
        assert_eq!(refused(&full), Some(ReplayError::Astray));
    }
}
