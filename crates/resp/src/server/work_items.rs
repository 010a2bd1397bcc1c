//! Work items, each one action on one key; and scans of the store.

use weft_kv::{Outcome, Task};

use super::{Now, RespServer, failure};
use crate::action::{Action, Condition, Expiry};
use crate::command::Combine;
use crate::glob;
use crate::record;
use crate::reply::{Reply, write_bytes};
use crate::rounds::foreign;
use crate::store::Token;

/// The most keys in one answer.
const KEYS_MAX: usize = 1 << 20;
/// The most parts of the table that one `SCAN` goes through.
const PAGES_MAX: u32 = 16;

/// A command that is not answered yet, or whose answer waits for those of earlier commands.
pub(super) enum Pending {
    Answer(Reply),
    WorkItems(Combining),
}

/// The answers of a command's work items.
pub(super) struct Combining {
    combine: Combine,
    left: usize,
    replies: Vec<Reply>,
}

impl Combining {
    pub fn new(combine: Combine, count: usize) -> Self {
        let kept = if combine == Combine::One { 0 } else { count };
        Self { combine, left: count, replies: vec![Reply::Nil; kept] }
    }

    /// Adds an answer. Returns the command's answer if this was the last one.
    fn take(&mut self, part: usize, reply: Reply) -> Option<Reply> {
        self.left -= 1;
        if self.combine == Combine::One {
            return Some(reply);
        }
        self.replies[part] = reply;
        if self.left > 0 {
            return None;
        }
        let replies = std::mem::take(&mut self.replies);
        let error = replies.iter().find(|reply| matches!(reply, Reply::Error(_)));
        Some(match (self.combine, error) {
            (Combine::All, _) => Reply::Array(
                // As in Redis, where a key of another type counts as absent.
                replies
                    .into_iter()
                    .map(|reply| if matches!(reply, Reply::Error(_)) { Reply::Nil } else { reply })
                    .collect(),
            ),
            (_, Some(error)) => error.clone(),
            (Combine::Sum, None) => Reply::Number(
                replies.iter().map(|reply| if let Reply::Number(number) = reply { *number } else { 0 }).sum(),
            ),
            (_, None) => Reply::OK,
        })
    }
}

/// A work item: one action on one key.
pub(super) struct WorkItem {
    /// Index and number of the connection. Another connection may get the same index later.
    connection: (u32, u64),
    command: u64,
    part: usize,
    key: Box<[u8]>,
    hash: u64,
    action: Action,
    /// When the key expires, for a value that is being written.
    expires_ms: Option<u64>,
}

/// The first request to the store for a work item.
enum FirstRequest {
    Read,
    Put,
    PutIfAbsent,
    Delete,
    Round,
}

const fn first_request(action: &Action) -> FirstRequest {
    match action {
        Action::Set { expiry: Expiry::Keep, .. } | Action::Set { returns: true, .. } => FirstRequest::Round,
        Action::Set { condition: Condition::Always, counts: false, .. } => FirstRequest::Put,
        Action::Set { condition: Condition::Absent, .. } => FirstRequest::PutIfAbsent,
        Action::Delete => FirstRequest::Delete,
        action if action.reads() => FirstRequest::Read,
        _ => FirstRequest::Round,
    }
}

impl RespServer {
    /// Begins a work item, or queues it behind earlier ones on the same key.
    pub(super) fn submit(
        &mut self,
        now: Now,
        id: u32,
        command: u64,
        part: usize,
        key: Box<[u8]>,
        action: Action,
    ) {
        let connection = self.connections.get_mut(id).expect("the caller has found it");
        // Work items whose keys have the same hash wait for each other, so a collision costs only time.
        let hash = weft_kv::hash(&key);
        let in_round = matches!(first_request(&action), FirstRequest::Round);
        // Work items of the same round keep their order, so they need not wait for each other.
        let has_to_wait =
            connection.running.iter().any(|&(other, joined)| other == hash && !(joined && in_round))
                || connection
                    .waiting
                    .iter()
                    .any(|&number| self.work_items.get(number).is_some_and(|work| work.hash == hash));
        let connection_number = connection.number;
        let work = WorkItem {
            connection: (id, connection_number),
            command,
            part,
            key,
            hash,
            action,
            expires_ms: None,
        };
        let number = self.work_items.add(work);
        if has_to_wait {
            connection.waiting.push_back(number);
        } else {
            connection.running.push((hash, in_round));
            self.start(now, number);
        }
    }

    fn start(&mut self, now: Now, number: u32) {
        let work = self.work_items.get_mut(number).expect("a work item is there until it ends");
        let key = &*work.key;
        let task = match (first_request(&work.action), &work.action) {
            (FirstRequest::Put | FirstRequest::PutIfAbsent, Action::Set { value, expiry, condition, .. }) => {
                let expires_ms = if let Expiry::At(at) = expiry { Some(*at) } else { None };
                work.expires_ms = expires_ms;
                self.encoded.clear();
                record::write(value, expires_ms, &mut self.encoded);
                let value = &*self.encoded;
                match condition {
                    Condition::Absent => Task::CompareAndSet { key, expected: 0, value },
                    _ => Task::Put { key, value },
                }
            }
            (FirstRequest::Delete, _) => Task::Delete { key },
            (FirstRequest::Read, _) => Task::Get { key },
            _ => return self.join(now, number),
        };
        self.store.ask(now.instant, task, Token::Work(number));
    }

    fn join(&mut self, now: Now, number: u32) {
        let context = self.round_context(now);
        let work = self.work_items.get(number).expect("a work item is there until it ends");
        self.rounds.join(&context, &mut self.store, &work.key, number, work.action.clone());
        self.spread_news(now);
    }

    /// Handles the end of a work item's request to the store.
    pub(super) fn work_ended(&mut self, now: Now, number: u32, outcome: Outcome<'_>) {
        let work = self.work_items.get(number).expect("a work item is there until it ends");
        let reply = match (&work.action, outcome) {
            (action, Outcome::NotFound) if action.reads() => action.read(None, now.unix_ms),
            (action, Outcome::Value { value, .. }) => match record::read(value) {
                None => foreign(),
                Some((_, expires_ms)) if self.round_context(now).is_over(expires_ms) => {
                    return self.join(now, number);
                }
                Some((value, _)) if *action == Action::Get => return self.finish_with(now, number, value),
                held => action.read(held, now.unix_ms),
            },
            (Action::Delete, Outcome::NotFound) => Reply::Number(0),
            (Action::Delete, Outcome::Done { .. }) => Reply::Number(1),
            (Action::Set { counts, .. }, Outcome::Done { version }) => {
                let reply = if *counts { Reply::Number(1) } else { Reply::OK };
                if let Some(at_ms) = work.expires_ms {
                    let key = work.key.clone();
                    self.expires(now, &key, version, at_ms);
                }
                reply
            }
            // The present value may be expired, so a round has to check it.
            (Action::Set { .. }, Outcome::Mismatch { .. }) => return self.join(now, number),
            (_, outcome) => failure(outcome),
        };
        self.finish(now, number, reply);
    }

    pub(super) fn watched(&mut self, number: u32, version: u64) {
        let work = self.work_items.get(number).expect("a work item is there until it ends");
        let (place, connection) = work.connection;
        let key = work.key.clone();
        if let Some(connection) = self.connections.get_mut(place).filter(|it| it.number == connection) {
            connection.watched.push((key, version));
        }
    }

    /// Answers a get with its value. If no earlier command is unanswered, the value is written to the output at
    /// once.
    fn finish_with(&mut self, now: Now, number: u32, value: &[u8]) {
        let work = self.work_items.get(number).expect("a work item is there until it ends");
        let (place, connection) = work.connection;
        let found = self.connections.get_mut(place).filter(|it| it.number == connection);
        if let Some(connection) = found
            && work.command == connection.first
            && matches!(&connection.pending[0], Pending::WorkItems(combining) if combining.combine == Combine::One)
        {
            write_bytes(value, &mut connection.output);
            connection.pending.pop_front();
            connection.first += 1;
            let work = self.work_items.remove(number).expect("it was just there");
            self.release(now, &work);
        } else {
            self.finish(now, number, Reply::bytes(value));
        }
    }

    /// Ends a work item with its answer.
    pub(super) fn finish(&mut self, now: Now, number: u32, reply: Reply) {
        let work = self.work_items.remove(number).expect("a work item ends once");
        self.answer(work.connection, work.command, work.part, reply);
        self.release(now, &work);
    }

    /// Adds an answer to a command.
    fn answer(&mut self, (place, number): (u32, u64), command: u64, part: usize, reply: Reply) {
        let Some(connection) = self.connections.get_mut(place).filter(|it| it.number == number) else {
            return;
        };
        let pending = &mut connection.pending[(command - connection.first) as usize];
        let Pending::WorkItems(combining) = pending else { unreachable!("a command is answered once") };
        if let Some(reply) = combining.take(part, reply) {
            *pending = Pending::Answer(reply);
        }
    }

    /// Begins the work items that waited for this one.
    fn release(&mut self, now: Now, work: &WorkItem) {
        let (place, number) = work.connection;
        let Some(connection) = self.connections.get_mut(place).filter(|it| it.number == number) else {
            return;
        };
        if let Some(at) = connection.running.iter().position(|(hash, _)| *hash == work.hash) {
            connection.running.swap_remove(at);
        }
        connection.drain();
        let mut at = 0;
        while let Some(connection) = self.connections.get_mut(place)
            && let Some(&waiting) = connection.waiting.get(at)
        {
            let Some(next) = self.work_items.get(waiting).filter(|next| next.hash == work.hash) else {
                at += 1;
                continue;
            };
            let in_round = matches!(first_request(&next.action), FirstRequest::Round);
            if connection.running.iter().any(|&(other, joined)| other == work.hash && !(joined && in_round)) {
                break;
            }
            connection.waiting.remove(at);
            connection.running.push((work.hash, in_round));
            self.start(now, waiting);
        }
        self.note_ready(place);
    }

    // Scans.

    /// Requests the next part of the table.
    pub(super) fn scan_from(&mut self, now: Now, number: u32, from: u32) {
        let scan = self.scans.get(number).expect("a scan is there until it ends");
        let counts = matches!(scan.kind, ScanKind::Count(_));
        let at = self.parameters.own;
        self.store.ask(now.instant, Task::Scan { at, from, counts }, Token::Scan(number));
    }

    /// Handles the end of a request of a scan: a part of the table, or a removal.
    pub(super) fn scan_ended(&mut self, now: Now, number: u32, outcome: Outcome<'_>) {
        let scan = self.scans.get_mut(number).expect("a scan is there until it ends");
        let (page, keys) = match outcome {
            Outcome::Scanned { next, found } => (Some(next), found),
            Outcome::Done { .. } | Outcome::NotFound if matches!(scan.kind, ScanKind::Flush { left, .. } if left > 0) => {
                (None, &[][..])
            }
            outcome => return self.end_scan(number, failure(outcome)),
        };
        let field = self.parameters.key_bytes.next_multiple_of(8);
        let keys = || keys.chunks_exact(field).filter_map(weft_kv::key::read);
        match &mut scan.kind {
            ScanKind::Count(count) => {
                let Outcome::Scanned { next, found } = outcome else { unreachable!("nothing else is asked") };
                *count += found.try_into().map_or(0, u64::from_be_bytes);
                let count = *count;
                match next {
                    0 => self.end_scan(number, Reply::Number(count as i64)),
                    next => self.scan_from(now, number, next),
                }
            }
            ScanKind::All { pattern, found } => {
                found.extend(keys().filter(|key| glob::matches(pattern, key)).map(Reply::bytes));
                if found.len() > KEYS_MAX {
                    return self.end_scan(
                        number,
                        Reply::error("ERR there are too many keys for one answer: use SCAN"),
                    );
                }
                match page {
                    Some(0) => {
                        let found = std::mem::take(found);
                        self.end_scan(number, Reply::Array(found));
                    }
                    page => self.scan_from(now, number, page.expect("nothing else is asked")),
                }
            }
            ScanKind::Page { pattern, count, strings, found, pages, .. } => {
                let next = page.expect("nothing else is asked");
                *pages += 1;
                found.extend(keys().filter(|key| *strings && glob::matches(pattern, key)).map(Reply::bytes));
                if next != 0 && found.len() < *count && *pages < PAGES_MAX {
                    return self.scan_from(now, number, next);
                }
                let found = std::mem::take(found);
                let reply = Reply::Array(vec![Reply::bytes(next.to_string()), Reply::Array(found)]);
                self.end_scan(number, reply);
            }
            ScanKind::Flush { next, left } => {
                match page {
                    Some(page) => {
                        *next = Some(page);
                        // Keys that were not written through a Redis server are not removed.
                        let fields: Vec<Box<[u8]>> = keys()
                            .filter_map(|key| super::store_key(key, self.parameters.key_bytes).ok())
                            .collect();
                        *left = fields.len();
                        for key in &fields {
                            self.store.ask(now.instant, Task::Delete { key }, Token::Scan(number));
                        }
                    }
                    None => *left -= 1,
                }
                let scan = self.scans.get(number).expect("it was just there");
                match scan.kind {
                    ScanKind::Flush { next: Some(0), left: 0 } => self.end_scan(number, Reply::OK),
                    ScanKind::Flush { next: Some(next), left: 0 } => self.scan_from(now, number, next),
                    _ => {}
                }
            }
        }
    }

    fn end_scan(&mut self, number: u32, reply: Reply) {
        let scan = self.scans.get_mut(number).expect("a scan is there until it ends");
        // A failed scan ends only when its outstanding removals have ended.
        if let ScanKind::Flush { left, .. } = &mut scan.kind
            && matches!(reply, Reply::Error(_))
            && *left > 1
        {
            *left -= 1;
            scan.failure = Some(reply);
            return;
        }
        let scan = self.scans.remove(number).expect("it was just there");
        let reply = scan.failure.unwrap_or(reply);
        self.answer(scan.connection, scan.command, 0, reply);
        let (place, number) = scan.connection;
        if let Some(connection) = self.connections.get_mut(place).filter(|it| it.number == number) {
            connection.drain();
        }
        self.note_ready(place);
    }
}

/// The purpose of a scan.
pub(super) enum ScanKind {
    /// Count the keys; the number so far.
    Count(u64),
    /// Return all keys that match a pattern.
    All { pattern: Vec<u8>, found: Vec<Reply> },
    /// Return some keys that match a pattern, and where to continue.
    Page { from: u32, pattern: Vec<u8>, count: usize, strings: bool, found: Vec<Reply>, pages: u32 },
    /// Remove all keys: where to continue once the outstanding removals have ended.
    Flush { next: Option<u32>, left: usize },
}

/// A command that scans the table.
pub(super) struct Scan {
    connection: (u32, u64),
    command: u64,
    kind: ScanKind,
    failure: Option<Reply>,
}

impl Scan {
    pub const fn new(connection: (u32, u64), command: u64, kind: ScanKind) -> Self {
        Self { connection, command, kind, failure: None }
    }
}
