//! Replicated logs.

use std::collections::BTreeMap;
use std::thread;
use std::time;

use weft_session::{Seen, Window};
use weft_smr::client::{Client, Outcome, Task};
use weft_smr::log::{Answer, Append};
use weft_time::Duration;

use super::{Handle, UNEXPECTED_ANSWER};
use crate::requests::Requests;
use crate::{Error, Pending};

#[derive(Debug)]
pub(crate) enum LogRequest {
    Append(Vec<u8>),
    Read(u64),
    Status,
}

#[derive(Debug)]
pub(crate) enum LogReply {
    Appended(u64),
    Read(Read),
    Forgotten(u64),
    Status(Answer),
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index: the first entry has index 0.
    pub index: u64,
    /// Identity of the client that appended it.
    pub origin: u64,
    /// That client's number for the append. An append may be in the log at two indices; then only the lower one
    /// counts.
    pub sequence: u64,
    /// The bytes that were appended.
    pub content: Vec<u8>,
}

/// Result of reading an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The entry at this index, which is decided.
    Entry(Entry),
    /// The index is undecided, as far as the replica knows.
    NotYet {
        /// Number of entries that the replica knows to be decided.
        decided: u64,
    },
    /// There will never be an entry: a new leader has filled this index.
    Void,
}

pub(crate) enum LogRequests {}

impl Requests for LogRequests {
    type Half = Client;
    type Request = LogRequest;
    type Reply = LogReply;

    fn message_bytes(request: &LogRequest) -> usize {
        match request {
            LogRequest::Append(content) => Append::HEADER + content.len(),
            LogRequest::Read(_) => 8,
            LogRequest::Status => 0,
        }
    }

    fn task(request: &LogRequest) -> Task<'_> {
        match request {
            LogRequest::Append(content) => Task::Append(content),
            LogRequest::Read(index) => Task::Read(*index),
            LogRequest::Status => Task::Status,
        }
    }

    fn reply(outcome: Outcome<'_>, after: Duration) -> Result<LogReply, Error> {
        match outcome {
            Outcome::Appended { index } => Ok(LogReply::Appended(index)),
            Outcome::Entry { index, append: Append { origin, sequence, content } } => {
                let content = content.to_vec();
                Ok(LogReply::Read(Read::Entry(Entry { index, origin, sequence, content })))
            }
            Outcome::NotYet { decided } => Ok(LogReply::Read(Read::NotYet { decided })),
            Outcome::Void => Ok(LogReply::Read(Read::Void)),
            Outcome::Forgotten { index } => Ok(LogReply::Forgotten(index)),
            Outcome::Status(answer) => Ok(LogReply::Status(answer)),
            Outcome::BadRequest => Err(Error::Refused("what is appended does not fit into an entry")),
            Outcome::Unknown => Err(Error::Unknown { after }),
        }
    }
}

/// A handle of a replicated log. Up to 16 calls are outstanding at a time; further ones are queued. Outstanding
/// appends may be decided in any order: wait for the answer of one before you send another that must come after
/// it.
#[derive(Clone, Debug)]
pub struct Log {
    pub(crate) handle: Handle<LogRequests>,
}

impl Log {
    /// Appends an entry, exactly once, and returns its final index.
    pub fn append(&self, content: &[u8]) -> Pending<u64> {
        self.handle.ask(LogRequest::Append(content.to_vec()), |reply| match reply {
            LogReply::Appended(index) => Ok(index),
            _ => Err(UNEXPECTED_ANSWER),
        })
    }

    /// Reads an index. A decided entry never changes, but a replica may not know the newest ones yet; only the
    /// leader knows all.
    pub fn read(&self, index: u64) -> Pending<Read> {
        self.handle.ask(LogRequest::Read(index), |reply| match reply {
            LogReply::Read(read) => Ok(read),
            LogReply::Forgotten(index) => Err(Error::Forgotten { index }),
            _ => Err(UNEXPECTED_ANSWER),
        })
    }

    /// Progress of a replica: number of applied entries (`index`), number of entries known to be decided, and the
    /// leader.
    pub fn status(&self) -> Pending<Answer> {
        self.handle.ask(LogRequest::Status, |reply| match reply {
            LogReply::Status(answer) => Ok(answer),
            _ => Err(UNEXPECTED_ANSWER),
        })
    }

    /// An iterator over all entries from an index on, as they are decided. It skips second entries of the same
    /// append, as far as it has read the first.
    pub fn tail(&self, from: u64) -> Tail {
        Tail { log: self.clone(), next: from, seen: BTreeMap::new() }
    }
}

/// Number of clients whose appends a tail keeps in order to recognise second entries.
const ORIGINS: usize = 4_096;

/// Reads entries in order. See [`Log::tail`].
#[derive(Debug)]
pub struct Tail {
    log: Log,
    next: u64,
    /// By client: the index of its last entry, and its latest appends with their indices.
    seen: BTreeMap<u64, (u64, Window<u64>)>,
}

impl Tail {
    /// The index that is read next.
    pub const fn index(&self) -> u64 {
        self.next
    }

    /// Whether this is the first entry of its append.
    fn is_first(&mut self, entry: &Entry) -> bool {
        if self.seen.len() >= ORIGINS && !self.seen.contains_key(&entry.origin) {
            let oldest = self.seen.iter().min_by_key(|(_, (last, _))| *last).map(|(origin, _)| *origin);
            oldest.map(|origin| self.seen.remove(&origin));
        }
        let (last, window) = self.seen.entry(entry.origin).or_default();
        let is_new = window.find(entry.sequence) == Seen::New;
        if is_new {
            *last = entry.index;
            window.record(entry.sequence, entry.index);
        }
        is_new
    }

    /// The next entry; `None` if none is decided within `patience`.
    ///
    /// # Errors
    /// [`Error::Forgotten`] if the log no longer has the entry; another error if no replica answers.
    pub fn next_within(&mut self, patience: time::Duration) -> Result<Option<Entry>, Error> {
        let until = time::Instant::now() + patience;
        let mut pause = time::Duration::from_millis(1);
        loop {
            match self.log.read(self.next).wait()? {
                Read::Entry(entry) => {
                    self.next += 1;
                    if self.is_first(&entry) {
                        return Ok(Some(entry));
                    }
                }
                Read::Void => self.next += 1,
                Read::NotYet { .. } => {
                    let left = until.saturating_duration_since(time::Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    thread::sleep(pause.min(left));
                    pause = (2 * pause).min(time::Duration::from_millis(50));
                }
            }
        }
    }
}
