//! The client half: appends exactly once, at whichever replica leads, and reads.
//!
//! The client is pure, as the engine is: the caller passes in the time and the answers, and the client returns
//! which message to send to which replica. An append without a final answer within [`ClientParameters::give_up`]
//! ends as [`Outcome::Unknown`]: it is in the log once, or never, or may still get there.
//!
//! One counter numbers the appends, and the replicated state of [`crate::log`] records which numbers are in the
//! log. So an append can be repeated under the same number at any replica, whoever leads. An answer names the
//! append that it answers, since it may arrive twice and late. Reads name an index; a decided entry never changes,
//! so any replica that has it may answer.

use weft_session::{CallId, ClientHalf};
use weft_time::{Duration, Instant};
use weft_waist::NodeSet;

use crate::log::{Answer, Append, Call, SESSION_WINDOW, Status, Subject};
use crate::message::{Malformed, node};
use crate::slot::word;

/// Parameters of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientParameters {
    /// Identity, not 0: no other client, past or present, may have the same.
    pub origin: u64,
    /// Replicas, at least 1.
    pub nodes: usize,
    /// Replica to send the first request to.
    pub first: usize,
    /// Time until an unanswered request is repeated; doubles each time.
    pub timeout: Duration,
    /// Upper limit of the doubled time-out.
    pub timeout_max: Duration,
    /// Pause after a replica refused a request; it doubles each time, up to `timeout_max`.
    pub pause: Duration,
    /// Time after which an unanswered call ends as [`Outcome::Unknown`].
    pub give_up: Duration,
}

impl ClientParameters {
    /// Default times, for a network within a building.
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
    /// Read the entry at this index.
    Read(u64),
    /// Ask replica `first` for its progress.
    Status,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The append is decided; its index never changes.
    Appended {
        /// Index of the append in the log.
        index: u64,
    },
    /// The requested entry.
    Entry {
        /// Index of the entry in the log.
        index: u64,
        /// The client that appended the entry, the client's number for it, and the content. One append may be at
        /// two indices; then the lower one counts.
        append: Append<'a>,
    },
    /// As far as the replica knows, no entry is decided at this index yet.
    NotYet {
        /// Number of entries that the replica knows to be decided.
        decided: u64,
    },
    /// There is no entry at this index and never will be.
    Void,
    /// The replicas have recycled the slot of this entry, or all of them have got a snapshot instead of it.
    Forgotten {
        /// Index of the entry in the log.
        index: u64,
    },
    /// Progress of a replica.
    Status(Answer),
    /// The entry is too long for the log. Nothing has happened.
    BadRequest,
    /// No final answer in time. An append may or may not be in the log, or get there later; a read may be repeated.
    Unknown,
}

#[derive(Clone, Debug)]
struct Open {
    id: CallId,
    kind: Call,
    subject: Subject,
    payload: Vec<u8>,
    target: usize,
    /// Whether a replica has redirected this call since the last deadline.
    redirected: bool,
    /// Replicas that got a snapshot instead of the entry to read.
    skipped: NodeSet,
    due: bool,
    attempts: u32,
    at: Instant,
    give_up_at: Instant,
}

/// A client of one log, with at most [`SESSION_WINDOW`] calls outstanding.
#[derive(Clone, Debug)]
pub struct Client {
    parameters: ClientParameters,
    /// The leader, as far as the client knows.
    leader: usize,
    last: u64,
    /// Sequence number of the last append.
    sequence: u64,
    open: Vec<Open>,
}

impl Client {
    /// A client without calls.
    ///
    /// # Panics
    /// If there is no replica, `first` is not the index of a replica, or the origin is 0.
    pub fn new(parameters: ClientParameters) -> Self {
        assert!(parameters.first < parameters.nodes, "a client asks one of the replicas");
        assert!(parameters.origin != 0, "answers to reads have origin 0");
        Self { parameters, leader: parameters.first, last: 0, sequence: 0, open: Vec::new() }
    }

    /// Number of outstanding calls.
    pub fn outstanding(&self) -> usize {
        self.open.len()
    }

    /// Whether another call can start: the next append has to wait while the one [`SESSION_WINDOW`] numbers
    /// earlier is outstanding.
    pub fn can_start(&self) -> bool {
        let place = (self.sequence + 1) % SESSION_WINDOW;
        let is_taken = |open: &Open| match open.subject {
            Subject::Append { sequence, .. } => sequence % SESSION_WINDOW == place,
            Subject::Read(_) | Subject::Other => false,
        };
        self.open.len() < SESSION_WINDOW as usize && !self.open.iter().any(is_taken)
    }

    /// Processes an answer of a replica. Returns `None` if it completes no call.
    fn answered<'a>(
        &mut self,
        now: Instant,
        node: usize,
        (kind, payload): (u8, &'a [u8]),
    ) -> Result<Option<(CallId, Outcome<'a>)>, Malformed> {
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
            (Call::Read, Status::Skipped) if !self.skipped_by_all(now, place, node) => return Ok(None),
            (Call::Read, Status::Forgotten | Status::Skipped) => Outcome::Forgotten { index: answer.index },
            (_, Status::BadRequest) => Outcome::BadRequest,
            (Call::Append, Status::NotLeader | Status::Busy | Status::Abandoned) => {
                self.redirect(now, place, node, &answer);
                return Ok(None);
            }
            // No replica gives this status to this request: ignore the answer.
            _ => return Ok(None),
        };
        Ok(Some(self.end(place, outcome)))
    }

    /// A replica did not append: send the call at once to the replica that the answer names, or after a pause to
    /// any.
    fn redirect(&mut self, now: Instant, place: usize, from: usize, answer: &Answer) {
        let (nodes, pause, longest) =
            (self.parameters.nodes, self.parameters.pause, self.parameters.timeout_max);
        let open = &mut self.open[place];
        if open.target != from {
            // Another answer has already redirected the call.
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
        // The call is sent again after the pause. handle_deadline moves to the next replica only if the answer
        // named none.
        open.redirected = answer.status != Status::NotLeader || named.is_some();
        open.at = (now + pause.saturating_mul(1 << open.attempts.min(16)).min(longest)).min(open.give_up_at);
    }

    /// A replica does not have the entry to read. Returns whether none has it. Otherwise the call goes to the next
    /// replica that has not said so.
    fn skipped_by_all(&mut self, now: Instant, place: usize, from: usize) -> bool {
        let ClientParameters { nodes, timeout, .. } = self.parameters;
        let open = &mut self.open[place];
        open.skipped = open.skipped.with(node(from));
        let mut others = (1..nodes).map(|distance| (from + distance) % nodes);
        let next = others.find(|&other| !open.skipped.contains(node(other)));
        if let Some(next) = next
            && open.target == from
        {
            (open.target, open.due) = (next, true);
            open.at = (now + timeout).min(open.give_up_at);
        }
        next.is_none()
    }

    fn end<'a>(&mut self, place: usize, outcome: Outcome<'a>) -> (CallId, Outcome<'a>) {
        (self.open.swap_remove(place).id, outcome)
    }
}

impl ClientHalf for Client {
    type Task<'a> = Task<'a>;
    type Outcome<'a> = Outcome<'a>;

    fn start(&mut self, now: Instant, task: Task<'_>) -> Option<CallId> {
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
            skipped: NodeSet::EMPTY,
            due: true,
            attempts: 0,
            at: (now + self.parameters.timeout).min(give_up_at),
            give_up_at,
        });
        Some(CallId(self.last))
    }

    fn receive<'a>(
        &mut self,
        now: Instant,
        node: usize,
        message: (u8, &'a [u8]),
    ) -> Option<(CallId, Outcome<'a>)> {
        self.answered(now, node, message).ok()?
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.open.iter().map(|open| open.at).min()
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<(CallId, Outcome<'static>)> {
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
                    // The replica was silent, or knows no leader: try the next one.
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

    fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(usize, u8)> {
        let open = self.open.iter_mut().find(|open| open.due)?;
        open.due = false;
        payload.extend_from_slice(&open.payload);
        Some((open.target, open.kind as u8))
    }
}
