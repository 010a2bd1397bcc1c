//! The host half of a node. It calls transactions, tries them again after a conflict, runs procedures that
//! stay on the host, and applies the log to the tables.

mod local;
mod replay;

pub use replay::{Replay, ReplayError};

use std::collections::{BTreeMap, VecDeque};
use std::mem::take;

use weft_time::{Duration, Instant};
use weft_waist::Epoch;

use crate::copy::{Merge, PageWriter};
use crate::host_port::{HostKind, HostMessage, LOG_TOKEN, NOBODY, TABLE, write};
use crate::key::Key;
use crate::log;
use crate::message::{Content, Cursor, Malformed, Mismatch, Page, Put, Status, Want, Write};
use crate::procedure::{Execution, Fault};
use crate::procedure::{Outcome, ProcedureId, Procedures, Request, Step, VALUE_MAX};
use crate::room::Room;
use crate::store::{Change, Full, Layout, Precision, Report, Shape, Table};
use crate::transaction::TransactionId;

/// Which transactions the host executes alone over its own table, if this node is the primary of all their
/// keys (Xenic 4.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// None: the card executes all of them.
    Nothing,
    /// Those whose procedure must run on the host anyway.
    Unshipped,
    /// All transactions.
    All,
}

/// Parameters of the host half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfParameters {
    /// The most transactions under way at a time.
    pub calls: usize,
    /// The most attempts of a transaction; after the last one it aborts.
    pub attempts: u32,
    /// The longest wait before the second attempt. It doubles with each further attempt, up to 16 times this.
    pub back_off: Duration,
    /// Which transactions the host executes alone.
    pub local: Local,
    /// Whether the card records attempts ([`crate::Parameters::record`]). If so, the host tells it all values
    /// that it has read.
    pub record: bool,
}

impl Default for HalfParameters {
    fn default() -> Self {
        Self {
            calls: 1024,
            attempts: 1000,
            // About as long as a lock is held under load. After a shorter wait the key would mostly still be
            // locked.
            back_off: Duration::from_us(32),
            local: Local::Unshipped,
            record: false,
        }
    }
}

/// Addresses of the host half's data in the host's memory, the same as the card's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfTables {
    /// Parameters of the table: its slots, segments, overflow pages and blocks.
    pub shape: Shape,
    /// First address of the table: a multiple of 64.
    pub table_address: u64,
    /// Precision of the card's index of a segment.
    pub precision: Precision,
    /// First address of the log.
    pub log_address: u64,
    /// Bytes of the log.
    pub log_bytes: usize,
}

impl HalfTables {
    /// Bytes of the table.
    ///
    /// # Panics
    /// If the shape is invalid.
    pub fn table_bytes(&self) -> usize {
        Layout::new(self.shape).expect("the shape of a table").bytes() as usize
    }
}

/// A transaction that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Ticket that [`Half::call`] returned.
    pub ticket: u64,
    /// Identifier of its last attempt.
    pub id: TransactionId,
    /// The outcome.
    pub outcome: Outcome,
    /// Number of attempts.
    pub attempts: u32,
}

/// Work of the host half since the last report. A world with simulated time converts it to time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostWork {
    /// Attempts passed to the card.
    pub started: u64,
    /// Outcomes received from the card.
    pub ended: u64,
    /// Runs of each procedure, by its number; those that have not run may be missing at the end.
    pub runs: Vec<u64>,
    /// Objects of the table that were read by procedures which the host executes alone.
    pub objects_read: u64,
    /// Records of the log applied.
    pub records_applied: u64,
    /// Writes in these records.
    pub writes_applied: u64,
    /// Objects read from the table for joining nodes, or applied to it while this node joined.
    pub objects_copied: u64,
}

impl HostWork {
    /// Sets all counts to zero, and keeps the buffer.
    fn clear(&mut self) {
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        *self = Self { runs, ..Self::default() };
    }

    fn count_run(&mut self, procedure: ProcedureId) {
        let number = usize::from(procedure.0);
        if self.runs.len() <= number {
            self.runs.resize(number + 1, 0);
        }
        self.runs[number] += 1;
    }
}

/// A message to the card: `HostCommand::Call`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToCard {
    /// Identifies the call: the card's answer carries it.
    pub token: u32,
    /// Kind of the message, a [`HostKind`].
    pub kind: u8,
    /// Content of the message.
    pub payload: Vec<u8>,
}

/// Messages to the card that are queued.
#[derive(Debug)]
enum Outgoing {
    Message(ToCard),
    /// A call that the host executes alone when it is taken from the queue.
    Execute(usize),
}

#[derive(Debug)]
struct Called {
    ticket: u64,
    request: Request,
    execution: Execution,
    attempts: u32,
    retry_at: Option<Instant>,
}

/// The host half of a node. It is pure: the world passes in messages, the time and the host's memory.
#[derive(Debug)]
pub struct Half {
    procedures: Procedures,
    parameters: HalfParameters,
    called: Vec<Option<Called>>,
    free: Vec<usize>,
    tickets: u64,
    retries: BTreeMap<(Instant, usize), ()>,
    to_card: VecDeque<Outgoing>,
    finished: VecDeque<Finished>,
    work: HostWork,
    /// `None` if the engine holds the tables itself.
    tables: Option<(HalfTables, Table)>,
    applied: u64,
    /// Log position up to which records were restored from the disk. The table may have newer objects than these.
    restored: u64,
    /// The shards whose primary this node is, as its card reported last.
    serves: u16,
    /// Segments of the table that have changed since the last report to the card.
    changed: Vec<u32>,
    record: Vec<u8>,
    /// Buffers of former messages and calls, for reuse.
    spare: Vec<Vec<u8>>,
    executions: Vec<Execution>,
    /// Present while the node joins, when pages of the table and log records arrive in any order.
    merge: Option<Merge>,
}

impl Half {
    /// A host half with nothing under way. `tables`: present if the host holds the node's table.
    ///
    /// # Panics
    /// If the table's shape is invalid.
    pub fn new(procedures: Procedures, parameters: HalfParameters, tables: Option<HalfTables>) -> Self {
        Self {
            procedures,
            parameters,
            called: Vec::new(),
            free: Vec::new(),
            tickets: 0,
            retries: BTreeMap::new(),
            to_card: VecDeque::new(),
            finished: VecDeque::new(),
            work: HostWork::default(),
            tables: tables
                .map(|tables| (tables, Table::new(Layout::new(tables.shape).expect("the shape of a table")))),
            applied: 0,
            restored: 0,
            serves: 0,
            changed: Vec::new(),
            record: Vec::new(),
            spare: Vec::new(),
            executions: Vec::new(),
            merge: None,
        }
    }

    /// Calls a transaction, and returns its ticket. `None` if the maximum number is under way.
    pub fn call(&mut self, request: Request) -> Option<u64> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.called.len() < self.parameters.calls => {
                self.called.push(None);
                self.called.len() - 1
            }
            None => return None,
        };
        self.tickets += 1;
        let ticket = self.tickets;
        let execution = self.executions.pop().unwrap_or_default();
        self.called[slot] = Some(Called { ticket, request, execution, attempts: 0, retry_at: None });
        self.begin(slot);
        Some(ticket)
    }

    /// Number of transactions that are outstanding.
    pub fn under_way(&self) -> usize {
        self.called.len() - self.free.len()
    }

    fn begin(&mut self, slot: usize) {
        let called = self.called[slot].as_mut().expect("it is under way");
        called.attempts += 1;
        called.retry_at = None;
        self.work.started += 1;
        if self.called[slot].as_ref().is_some_and(|called| self.is_local(called)) {
            return self.to_card.push_back(Outgoing::Execute(slot));
        }
        let payload = self.spare.pop().unwrap_or_default();
        let message = self.ask_card(slot, payload);
        self.to_card.push_back(Outgoing::Message(message));
    }

    /// Makes a message by which the card executes a call from its start.
    fn ask_card(&mut self, slot: usize, mut payload: Vec<u8>) -> ToCard {
        let called = self.called[slot].as_mut().expect("it is under way");
        let request = &called.request;
        // The card finds errors in the request and reports them, so they are ignored here.
        let _ = called.execution.begin(&request.input, request.accesses.as_slice());
        let wants = request.accesses.as_slice().iter().enumerate();
        let wants = wants.map(|(index, &access)| Want { index: index as u8, access });
        write::begin(&mut payload, request.procedure, &request.input, wants);
        ToCard { token: slot as u32, kind: HostKind::Begin as u8, payload }
    }

    fn tell(&mut self, token: u32, kind: HostKind, payload: Vec<u8>) {
        self.to_card.push_back(Outgoing::Message(ToCard { token, kind: kind as u8, payload }));
    }

    /// Handles a message of the card (`HostEvent::Reply`). `memory`: the host's memory.
    ///
    /// # Errors
    /// If the message is malformed, or is not one of this engine.
    pub fn receive(
        &mut self,
        now: Instant,
        token: u32,
        kind: u8,
        payload: &[u8],
        memory: &mut [u8],
    ) -> Result<(), Malformed> {
        self.handle(now, token, HostMessage::parse(kind, payload)?, memory)
    }

    /// As [`Half::receive`], for a decoded message.
    ///
    /// # Errors
    /// If the message is not one of this engine.
    pub fn handle(
        &mut self,
        now: Instant,
        token: u32,
        message: HostMessage<'_>,
        memory: &mut [u8],
    ) -> Result<(), Malformed> {
        match message {
            HostMessage::Outcome { id, status, reason, answer } => {
                self.outcome(now, token, id, status, reason, answer)
            }
            HostMessage::Run { id, got } => {
                if let Some(Some(called)) = self.called.get_mut(token as usize) {
                    for got in got.iter() {
                        called.execution.fetch(got.index.into(), got.read, got.new, got.value);
                    }
                    self.run(token, id);
                }
            }
            HostMessage::Decided { upto } => self.apply(upto, memory),
            HostMessage::Clear => self.clear(memory),
            HostMessage::Read { epoch, peer, bytes, shard, from } => {
                self.read_page((epoch, peer), shard, from, bytes, memory);
            }
            HostMessage::Keep { epoch, page } => self.keep_page(epoch, &page, memory),
            HostMessage::Whole { .. } => self.merge = None,
            HostMessage::Serves { shards } if self.tables.is_some() => self.serves = shards,
            // They are for the host's log.
            HostMessage::Stored { .. } | HostMessage::Entry { .. } | HostMessage::State { .. } => {}
            _ => return Err(Malformed::Kind),
        }
        Ok(())
    }

    fn run(&mut self, token: u32, id: TransactionId) {
        let called = self.called[token as usize].as_mut().expect("the caller has looked");
        let procedure = self.procedures.get(called.request.procedure).expect("the card has looked");
        self.work.count_run(called.request.procedure);
        let execution = &mut called.execution;
        let before = execution.accesses().len();
        let mut payload = self.spare.pop().unwrap_or_default();
        match execution.run(procedure) {
            Ok(step) => {
                let added = execution.accesses().iter().enumerate().skip(before);
                let added = added.map(|(index, &access)| Want { index: index as u8, access });
                let writes = local::writes(execution);
                write::ran(&mut payload, id, step, added, writes, execution.answered());
            }
            // The procedure broke its contract. `More` without a new key breaks it too, so the card reports a
            // fault.
            Err(_) => {
                write::ran(&mut payload, id, Step::More, std::iter::empty(), std::iter::empty(), &[]);
            }
        }
        self.tell(token, HostKind::Ran, payload);
    }

    fn outcome(
        &mut self,
        now: Instant,
        token: u32,
        id: TransactionId,
        status: Status,
        reason: u8,
        answer: &[u8],
    ) {
        let slot = token as usize;
        let Some(Some(called)) = self.called.get_mut(slot) else { return };
        self.work.ended += 1;
        let outcome = match status {
            Status::Ok if reason == 1 => Outcome::Unanswered,
            Status::Ok => Outcome::Committed { answer: answer.to_vec() },
            Status::Aborted => Outcome::Aborted { reason, answer: answer.to_vec() },
            Status::Faulty => Outcome::Faulty(Fault::parse(reason).unwrap_or(Fault::WrongStep)),
            // No node serves the shard now. A later view will have one that does.
            Status::Unavailable if reason != NOBODY => return self.retry(now, slot, id),
            Status::Unavailable => Outcome::Unavailable,
            Status::Full if reason == TABLE => Outcome::Full,
            Status::Conflict | Status::Full | Status::More if called.attempts < self.parameters.attempts => {
                return self.retry(now, slot, id);
            }
            Status::Conflict | Status::Full | Status::More => Outcome::Conflict,
        };
        let (ticket, attempts) = (called.ticket, called.attempts);
        self.executions.extend(self.called[slot].take().map(|called| called.execution));
        self.free.push(slot);
        self.finished.push_back(Finished { ticket, id, outcome, attempts });
    }

    /// Tries a transaction again after a back-off time, which is a hash of the attempt's identifier.
    fn retry(&mut self, now: Instant, slot: usize, id: TransactionId) {
        let called = self.called[slot].as_mut().expect("the caller has looked");
        let longest =
            self.parameters.back_off.saturating_mul(1 << (called.attempts - 1).min(4)).as_ps().max(1);
        let mixed = (id.bits() ^ called.ticket.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let at = now + Duration::from_ps(1 + mixed % longest);
        called.retry_at = Some(at);
        self.retries.insert((at, slot), ());
    }

    /// Applies the log up to position `upto`, and acknowledges that to the card.
    fn apply(&mut self, upto: u64, memory: &mut [u8]) {
        while self.applied < upto {
            self.apply_record(memory);
        }
        assert_eq!(self.applied, upto, "the log is applied record by record");
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.extend_from_slice(&upto.to_be_bytes());
        self.report_changes(memory, &mut payload);
        self.tell(LOG_TOKEN, HostKind::Applied, payload);
    }

    /// Writes a report to the card: the free room of the table, and the positions of objects in segments that
    /// have changed since the last report.
    fn report_changes(&mut self, memory: &[u8], payload: &mut Vec<u8>) {
        let Some((tables, table)) = &self.tables else { panic!("the card has the tables of this node") };
        table.room().write(payload);
        self.changed.sort_unstable();
        self.changed.dedup();
        let bytes = &memory[tables.table_address as usize..][..table.layout().bytes() as usize];
        for segment in self.changed.drain(..) {
            payload.extend_from_slice(&table.report(bytes, segment, tables.precision).encode());
        }
    }

    fn apply_record(&mut self, memory: &mut [u8]) {
        let Some((tables, _)) = &self.tables else { panic!("the card has the tables of this node") };
        let ring = &memory[tables.log_address as usize..][..tables.log_bytes];
        let mut bytes = take(&mut self.record);
        bytes.clear();
        bytes.extend_from_slice(log::record_at(ring, self.applied));
        let record = log::parse(&bytes).expect("written by the card");
        if !self.apply_writes(&record, self.applied < self.restored, memory) {
            self.tell(LOG_TOKEN, HostKind::Mismatch, Vec::new());
        }
        self.applied += record.length as u64;
        self.work.records_applied += 1;
        self.record = bytes;
    }

    /// Applies the writes of a record to the table, and returns whether all of them fit. `is_replayed`: the table may
    /// have newer objects, or lack those that a later record deletes.
    fn apply_writes(&mut self, record: &log::Record<'_>, is_replayed: bool, memory: &mut [u8]) -> bool {
        let Some((tables, table)) = &mut self.tables else { panic!("the card has the tables of this node") };
        let into = &mut memory[tables.table_address as usize..][..table.layout().bytes() as usize];
        let mut all_fit = true;
        for write in record.writes() {
            let mut value = [0; VALUE_MAX];
            if is_replayed {
                let present = table.get(into, write.key, &mut value).map(|(version, _)| version);
                let is_difference = matches!(write.content, Content::Changed(_));
                if present.map_or(is_difference, |present| present >= write.version) {
                    continue;
                }
            }
            let Ok(put) = complete(table, into, &write, &mut value) else {
                all_fit = false;
                continue;
            };
            if self.merge.as_mut().is_some_and(|merge| !merge.is_newer(table, into, &put)) {
                continue;
            }
            let Ok(change) = write_object(table, into, &put) else {
                all_fit = false;
                continue;
            };
            self.changed.extend(change.segments.into_iter().flat_map(|(first, last)| first..=last));
            self.work.writes_applied += 1;
        }
        all_fit
    }

    // Copying a table from this node to a rejoining node, and on a rejoining node.

    /// Empties the table.
    fn clear(&mut self, memory: &mut [u8]) {
        let Some((tables, table)) = &mut self.tables else { panic!("the card has the tables of this node") };
        if table.objects() > 0 {
            memory[tables.table_address as usize..][..table.layout().bytes() as usize].fill(0);
            *table = Table::new(*table.layout());
        }
        self.changed.clear();
        self.serves = 0;
        self.merge = Some(Merge::default());
    }

    /// Reads a page of the table for a joining node.
    fn read_page(
        &mut self,
        (epoch, peer): (Epoch, usize),
        shard: usize,
        from: Cursor,
        bytes: usize,
        memory: &[u8],
    ) {
        let Some((tables, table)) = &self.tables else { panic!("the card has the tables of this node") };
        let table_bytes = &memory[tables.table_address as usize..][..table.layout().bytes() as usize];
        let mut payload = epoch.0.to_be_bytes().to_vec();
        payload.push(peer as u8);
        let page = PageWriter::new(&mut payload, shard, from, bytes);
        self.work.objects_copied += page.fill_from(table, table_bytes).0;
        self.tell(LOG_TOKEN, HostKind::Page, payload);
    }

    /// Appends a page of the table to a message, of at most `bytes` bytes, and returns where the next page begins.
    ///
    /// # Panics
    /// If the host half holds no table.
    pub fn write_page(
        &self,
        out: &mut Vec<u8>,
        shard: usize,
        from: Cursor,
        bytes: usize,
        memory: &[u8],
    ) -> Cursor {
        let (tables, table) = self.tables.as_ref().expect("the host half keeps the table");
        let table_bytes = &memory[tables.table_address as usize..][..table.layout().bytes() as usize];
        PageWriter::new(out, shard, from, bytes).fill_from(table, table_bytes).1
    }

    /// Applies a page of a shard to the table.
    fn keep_page(&mut self, epoch: Epoch, page: &Page<'_>, memory: &mut [u8]) {
        let Some((tables, table)) = &mut self.tables else { panic!("the card has the tables of this node") };
        let into = &mut memory[tables.table_address as usize..][..table.layout().bytes() as usize];
        for put in page.puts.iter() {
            if self.merge.as_mut().is_some_and(|merge| merge.is_newer(table, into, &put)) {
                let Ok(change) = write_object(table, into, &put) else {
                    return self.tell(LOG_TOKEN, HostKind::Mismatch, Vec::new());
                };
                self.changed.extend(change.segments.into_iter().flat_map(|(first, last)| first..=last));
                self.work.objects_copied += 1;
            }
        }
        let mut payload = epoch.0.to_be_bytes().to_vec();
        payload.push(page.shard as u8);
        page.next.write(&mut payload);
        self.report_changes(memory, &mut payload);
        self.tell(LOG_TOKEN, HostKind::Kept, payload);
    }

    /// Loads an object, before the node is configured.
    ///
    /// # Panics
    /// If the host half holds no table, or the table has no room.
    pub fn load(&mut self, memory: &mut [u8], key: Key, value: &[u8]) {
        let (tables, table) = self.tables.as_mut().expect("the host half keeps the table");
        let into = &mut memory[tables.table_address as usize..][..table.layout().bytes() as usize];
        let put = Put { key, version: crate::LOADED, value: Some(value) };
        write_object(table, into, &put).expect("a table that has room for what it begins with");
    }

    /// Positions of objects in the table, segment by segment. The card gets them after loading.
    pub fn reports<'a>(&'a self, memory: &'a [u8]) -> impl Iterator<Item = Report> + 'a {
        self.tables.iter().flat_map(move |(tables, table)| {
            let bytes = &memory[tables.table_address as usize..][..table.layout().bytes() as usize];
            (0..table.layout().segments()).map(move |segment| table.report(bytes, segment, tables.precision))
        })
    }

    /// Free room of the table. The card gets it after loading. `None` if the engine holds the tables itself.
    pub fn room(&self) -> Option<Room> {
        self.tables.as_ref().map(|(_, table)| table.room())
    }

    /// Calls `each` with every object of the table.
    pub fn for_each(&self, memory: &[u8], each: impl FnMut(Key, crate::Version, &[u8])) {
        if let Some((tables, table)) = &self.tables {
            table.for_each(&memory[tables.table_address as usize..][..table.layout().bytes() as usize], each);
        }
    }

    /// When [`Half::wake`] has work to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.retries.first_key_value().map(|((at, _), ())| *at)
    }

    /// Starts the attempts whose back-off time is over.
    pub fn wake(&mut self, now: Instant) {
        while let Some(entry) = self.retries.first_entry()
            && entry.key().0 <= now
        {
            let slot = entry.remove_entry().0.1;
            self.begin(slot);
        }
    }

    /// The next message to the card. A call that the host executes alone is executed now, over `memory`, the
    /// host's memory. The caller may return the message's buffer by [`Half::give_back`].
    pub fn poll_card(&mut self, memory: &[u8]) -> Option<ToCard> {
        match self.to_card.pop_front()? {
            Outgoing::Message(message) => Some(message),
            Outgoing::Execute(slot) => Some(self.execute(slot, memory)),
        }
    }

    /// Takes back the buffer of a message that was passed on, for reuse.
    pub fn give_back(&mut self, message: ToCard) {
        let mut payload = message.payload;
        payload.clear();
        self.spare.push(payload);
    }

    /// The next transaction that has ended.
    pub fn poll_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Replaces `work` with the work since the last call of this function.
    pub fn take_work(&mut self, work: &mut HostWork) {
        work.clear();
        std::mem::swap(&mut self.work, work);
    }
}

/// Completes a write: a difference is applied to the value that the table has.
fn complete<'a>(
    table: &Table,
    memory: &[u8],
    write: &Write<'a>,
    value: &'a mut [u8; VALUE_MAX],
) -> Result<Put<'a>, Mismatch> {
    let Content::Changed(difference) = &write.content else {
        return Ok(write.whole().expect("it is no difference"));
    };
    let (former, length) = table.get(memory, write.key, value).ok_or(Mismatch)?;
    difference.apply(Some(former), &mut value[..length])?;
    Ok(Put { key: write.key, version: write.version, value: Some(&value[..length]) })
}

/// Applies a write to the table.
fn write_object(table: &mut Table, memory: &mut [u8], put: &Put<'_>) -> Result<Change, Full> {
    match put.value {
        Some(value) => table.put(memory, put.key, put.version, value),
        None => Ok(table.remove(memory, put.key)),
    }
}

#[cfg(test)]
mod tests {
    use weft_waist::NodeId;

    use super::*;
    use crate::LOADED;
    use crate::message::{RecordPart, Replacement, Verdict};

    const ROW: [u8; 200] = [1; 200];
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
        table_address: 0,
        precision: Precision::Runs,
        log_address: 1 << 16,
        log_bytes: 4096,
    };

    /// A host whose table has `rows` rows applies a record of `replacement`. Returns the rows that the table
    /// has then, and the kinds of the messages to the card.
    fn applied(rows: u64, replacement: Replacement<'_>) -> (Vec<(Key, Vec<u8>)>, Vec<u8>) {
        let mut half = Half::new(Procedures::new(Vec::new()), HalfParameters::default(), Some(TABLES));
        let mut memory = vec![0; (1 << 16) + TABLES.log_bytes];
        (1..=rows).for_each(|local| half.load(&mut memory, Key::new(0, local), &ROW));
        let mut list = vec![1];
        replacement.write_shorter(&mut list);
        let writes = crate::message::List::<Write<'_>>::read(&mut crate::message::Reader(&list)).unwrap();
        let id = TransactionId::new(NodeId::new(1).unwrap(), Epoch(1), 0);
        let mut record = Vec::new();
        log::encode(&mut record, &RecordPart { id, shard: 0, part: 0, parts: 1 }, 1, writes.iter());
        record[4] = Verdict::Committed as u8;
        memory[1 << 16..][..record.len()].copy_from_slice(&record);
        let upto = (record.len() as u64).to_be_bytes();
        half.receive(Instant::ZERO, LOG_TOKEN, HostKind::Decided as u8, &upto, &mut memory).unwrap();
        let mut objects = Vec::new();
        half.for_each(&memory, |key, _, row| objects.push((key, row.to_vec())));
        (objects, std::iter::from_fn(|| half.poll_card(&memory)).map(|message| message.kind).collect())
    }

    fn put(local: u64, value: &[u8]) -> Put<'_> {
        Put { key: Key::new(0, local), version: crate::Version::from_bits(1 << 40), value: Some(value) }
    }

    /// Applies a change of one byte, as a difference to version `base`, to a table of one row. Returns the
    /// row afterwards, and the kinds of the messages to the card.
    fn changed(base: crate::Version) -> (Vec<u8>, Vec<u8>) {
        let mut new = ROW;
        new[100] = 2;
        let (mut objects, reports) = applied(1, Replacement { put: put(1, &new), read: Some((base, &ROW)) });
        (objects.remove(0).1, reports)
    }

    #[test]
    fn a_row_changes_where_the_log_says_so() {
        let (row, reports) = changed(LOADED);
        assert_eq!((row[99], row[100], row[101]), (1, 2, 1));
        assert_eq!(reports, [HostKind::Applied as u8]);
    }

    /// The row's version in this table is not the one that the difference names. The row stays unchanged, and
    /// the card is notified.
    #[test]
    fn a_change_of_another_version_is_reported() {
        let (row, reports) = changed(crate::Version::from_bits(9));
        assert_eq!(row, ROW);
        assert_eq!(reports, [HostKind::Mismatch as u8, HostKind::Applied as u8]);
    }

    /// Each row takes a block, and the table has eight.
    #[test]
    fn what_finds_no_room_is_reported() {
        let (objects, reports) = applied(8, Replacement { put: put(9, &ROW), read: None });
        assert!(objects.len() == 8 && objects.iter().all(|(key, _)| key.local() != 9));
        assert_eq!(reports, [HostKind::Mismatch as u8, HostKind::Applied as u8]);
        let (objects, reports) = applied(7, Replacement { put: put(9, &ROW), read: None });
        assert_eq!((objects.len(), reports), (8, vec![HostKind::Applied as u8]));
    }
}
