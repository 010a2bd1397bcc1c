//! The client half: appends exactly once at whatever replica leads, and reads.
//!
//! Pure, as the engine is: it is told the time and the answers, and says what to send to whom. An append that gets no
//! final answer within [`ClientParameters::give_up`] ends as [`Outcome::Unknown`]: it stands in the log once, or
//! never, or may still come to stand there.
//!
//! Appends are numbered by one counter, and [`crate::log`] knows which numbers stand in the log, whoever leads. So an
//! append is repeated under the same number, at any replica. An answer says which append it answers, since it may
//! come twice and late. Reads are asked by index; an entry never changes, so any replica that has it may answer.

use weft_time::{Duration, Instant};

use crate::log::{Answer, Append, Call, SESSION_WINDOW, Status, Subject};
use crate::message::Malformed;
use crate::slot::word;

/// The client's number for a call, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Parameters of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientParameters {
    /// Identity, not 0: no other client, past or present, may have the same.
    pub origin: u64,
    /// Replicas, at least 1.
    pub nodes: usize,
    /// Whom to ask first.
    pub first: usize,
    /// Time until an unanswered request is repeated; doubles each time.
    pub timeout: Duration,
    /// The longest such wait.
    pub timeout_max: Duration,
    /// Pause after a replica did not do what was requested; doubles each time up to `timeout_max`.
    pub pause: Duration,
    /// When a call is given up.
    pub give_up: Duration,
}

impl ClientParameters {
    /// Usual times, for a network within a building.
    pub const fn new(origin: u64, nodes: usize) -> Self {
        Self {
            origin,
            nodes,
            first: 0,
            timeout: Duration::from_ms(50),
            timeout_max: Duration::from_ms(500),
            pause: Duration::from_us(500),
            give_up: Duration::from_secs(5),
        }
    }
}

/// A call of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task<'a> {
    /// Append these bytes.
    Append(&'a [u8]),
    /// Asks for the entry at this index.
    Read(u64),
    /// Asks the first replica for its progress.
    Status,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The append is decided, at this index for ever.
    Appended {
        /// The index.
        index: u64,
    },
    /// An entry.
    Entry {
        /// The index.
        index: u64,
        /// The client that appended it, its number, and the content. One append may occur at two indices: the first one
        /// counts.
        append: Append<'a>,
    },
    /// There is no entry at this index yet, as far as the replica knows.
    NotYet {
        /// Number of entries that the replica knows to be decided.
        decided: u64,
    },
    /// There is no entry at this index and never will be.
    Void,
    /// The replicas do not keep this entry any more.
    Forgotten,
    /// Progress of a replica.
    Status(Answer),
    /// The entry is too long for the log. Nothing has happened.
    BadRequest,
    /// No final answer in time. An append may or may not be in the log, or get there later; a read may be repeated.
    Unknown,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The call.
    pub call: CallId,
    /// Its outcome.
    pub outcome: Outcome<'a>,
}

#[derive(Clone, Debug)]
struct Open {
    id: CallId,
    kind: Call,
    subject: Subject,
    payload: Vec<u8>,
    target: usize,
    /// A replica has named another one since the last deadline.
    redirected: bool,
    due: bool,
    attempts: u32,
    at: Instant,
    give_up_at: Instant,
}

/// A client of one log, with at most [`SESSION_WINDOW`] calls under way.
///
/// Call [`Client::poll_transmit`] until it says `None` after everything that may have made it want to send.
#[derive(Clone, Debug)]
pub struct Client {
    parameters: ClientParameters,
    /// The leader, as far as the client knows.
    leader: usize,
    last: u64,
    /// The last append.
    sequence: u64,
    open: Vec<Open>,
}

impl Client {
    /// A client that has asked nothing.
    ///
    /// # Panics
    /// If there is no replica, `first` is none, or the origin is 0.
    pub fn new(parameters: ClientParameters) -> Self {
        assert!(parameters.first < parameters.nodes, "a client asks one of the replicas");
        assert!(parameters.origin != 0, "answers to reads have origin 0");
        Self { parameters, leader: parameters.first, last: 0, sequence: 0, open: Vec::new() }
    }

    /// Calls under way.
    pub fn outstanding(&self) -> usize {
        self.open.len()
    }

    /// Whether [`Client::start`] takes another call: an append whose number is a window ahead of one that is under
    /// way has to wait.
    pub fn can_start(&self) -> bool {
        let place = (self.sequence + 1) % SESSION_WINDOW;
        let is_taken = |open: &Open| match open.subject {
            Subject::Append { sequence, .. } => sequence % SESSION_WINDOW == place,
            Subject::Read(_) | Subject::Other => false,
        };
        self.open.len() < SESSION_WINDOW as usize && !self.open.iter().any(is_taken)
    }

    /// Begins a call. `None` if [`Client::can_start`] says no.
    pub fn start(&mut self, now: Instant, task: Task<'_>) -> Option<CallId> {
        if !self.can_start() {
            return None;
        }
        let (kind, subject, payload) = match task {
            Task::Append(content) => {
                self.sequence += 1;
                let (origin, sequence) = (self.parameters.origin, self.sequence);
                let append = Append { origin, sequence, content };
                let payload = [&append.header()[..], content].concat();
                (Call::Append, Subject::Append { origin, sequence }, payload)
            }
            Task::Read(index) => (Call::Read, Subject::Read(index), index.to_be_bytes().to_vec()),
            Task::Status => (Call::Status, Subject::Other, Vec::new()),
        };
        self.last += 1;
        let give_up_at = now + self.parameters.give_up;
        self.open.push(Open {
            id: CallId(self.last),
            kind,
            subject,
            payload,
            target: self.leader,
            redirected: false,
            due: true,
            attempts: 0,
            at: (now + self.parameters.timeout).min(give_up_at),
            give_up_at,
        });
        Some(CallId(self.last))
    }

    /// Takes an answer of a replica. `None` if no call has ended with it.
    ///
    /// # Errors
    /// The bytes are no answer.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        node: usize,
        kind: u8,
        payload: &'a [u8],
    ) -> Result<Option<Completion<'a>>, Malformed> {
        if kind == Call::Entry as u8 {
            let (head, entry) =
                payload.split_at_checked(8).ok_or(Malformed::Length { have: payload.len(), need: 8 })?;
            let (index, append) = (word(head, 0), Append::parse(entry)?);
            let place = self.open.iter().position(|open| open.subject == Subject::Read(index));
            return Ok(place.map(|place| self.end(place, Outcome::Entry { index, append })));
        }
        if kind != Call::Answer as u8 {
            return Err(Malformed::Kind(kind));
        }
        let (answer, subject) = payload
            .split_at_checked(Answer::BYTES)
            .ok_or(Malformed::Length { have: payload.len(), need: Answer::BYTES + Subject::BYTES })?;
        let (answer, subject) = (Answer::parse(answer)?, Subject::parse(subject)?);
        let Some(place) = self.open.iter().position(|open| open.subject == subject) else { return Ok(None) };
        let outcome = match (self.open[place].kind, answer.status) {
            (Call::Append, Status::Ok) => {
                self.leader = node;
                Outcome::Appended { index: answer.index }
            }
            (Call::Status, Status::Ok) => Outcome::Status(answer),
            (Call::Read, Status::NoEntry) => Outcome::NotYet { decided: answer.decided },
            (Call::Read, Status::Void) => Outcome::Void,
            (Call::Read, Status::Forgotten) => Outcome::Forgotten,
            (_, Status::BadRequest) => Outcome::BadRequest,
            (Call::Append, Status::NotLeader | Status::Busy | Status::Abandoned) => {
                self.redirect(now, place, node, &answer);
                return Ok(None);
            }
            // No replica answers that request so.
            _ => return Ok(None),
        };
        Ok(Some(self.end(place, outcome)))
    }

    /// A replica did not append: ask the one that it points to at once, or somebody after a pause.
    fn redirect(&mut self, now: Instant, place: usize, from: usize, answer: &Answer) {
        let (nodes, pause, longest) =
            (self.parameters.nodes, self.parameters.pause, self.parameters.timeout_max);
        let open = &mut self.open[place];
        if open.target != from {
            // It has been sent elsewhere already.
            return;
        }
        let named = answer.leader.filter(|&leader| leader < nodes && leader != from);
        if answer.status == Status::NotLeader {
            if let Some(leader) = named {
                (open.target, self.leader) = (leader, leader);
            }
            if named.is_some() && !open.redirected {
                (open.redirected, open.due) = (true, true);
                open.at = (now + self.parameters.timeout).min(open.give_up_at);
                return;
            }
        }
        // It repeats after the pause; handle_deadline goes on to the next replica only if none is named.
        open.redirected = answer.status != Status::NotLeader || named.is_some();
        open.at = (now + pause.saturating_mul(1 << open.attempts.min(16)).min(longest)).min(open.give_up_at);
    }

    fn end<'a>(&mut self, place: usize, outcome: Outcome<'a>) -> Completion<'a> {
        Completion { call: self.open.swap_remove(place).id, outcome }
    }

    /// When [`Client::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.open.iter().map(|open| open.at).min()
    }

    /// Asks again for what got no answer in time, and gives up what is too old. Ends one call at a time, so call it
    /// until it says
    /// `None`.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<Completion<'static>> {
        let parameters = self.parameters;
        let mut place = 0;
        while place < self.open.len() {
            let open = &mut self.open[place];
            if open.give_up_at <= now {
                return Some(self.end(place, Outcome::Unknown));
            }
            if open.at <= now {
                open.attempts += 1;
                if !std::mem::take(&mut open.redirected) {
                    // Not the silent replica, or the one that knows no leader: the next one.
                    open.target = (open.target + 1) % parameters.nodes;
                    self.leader = open.target;
                }
                let factor = 1 << open.attempts.min(16);
                let timeout = parameters.timeout.saturating_mul(factor).min(parameters.timeout_max);
                open.at = (now + timeout).min(open.give_up_at);
                open.due = true;
            }
            place += 1;
        }
        None
    }

    /// The next message to send: to whom and its kind; its content is appended to `payload`.
    pub fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(usize, u8)> {
        let open = self.open.iter_mut().find(|open| open.due)?;
        open.due = false;
        payload.extend_from_slice(&open.payload);
        Some((open.target, open.kind as u8))
    }
}
