//! The client half: numbering, routing and repeating requests.
//!
//! The client is pure, as the engine is: the caller passes in the time and the replies, and the client returns
//! which message to send to which node. A request without a final answer within [`ClientParameters::give_up`] ends
//! as [`Outcome::Unknown`]: it may have taken effect, or may still do so.

use weft_session::{CallId, ClientHalf};
use weft_time::{Duration, Instant};
use weft_waist::{Epoch, NodeId, NodeSet, View};

use crate::message::{
    BACKUP_ENDS, BackupDescription, Kind, Malformed, Operation, Reply, Request, SCAN_COUNTS, SESSION_WINDOW,
    Status,
};
use crate::parameters::KEY_BYTES_MAX;
use crate::placement::{backup_server, mix, partition};

/// The client's number for a request, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task<'a> {
    /// Read a key.
    Get {
        /// Key to read.
        key: &'a [u8],
    },
    /// Write a key.
    Put {
        /// Key to write.
        key: &'a [u8],
        /// At least one byte.
        value: &'a [u8],
    },
    /// Remove a key.
    Delete {
        /// Key to remove.
        key: &'a [u8],
    },
    /// Remove a key if it has the expected version.
    CompareAndDelete {
        /// Key to compare and remove.
        key: &'a [u8],
        /// Expected version, which is not 0.
        expected: u64,
    },
    /// List the keys that a node has. A key that is present during the whole scan is listed; a key that is written
    /// or removed meanwhile may be listed or not.
    Scan {
        /// The node that executes the scan. Its keys are those of this node; any full member has all.
        at: NodeId,
        /// The slot of the table at which the scan starts: 0, or [`Outcome::Scanned::next`] of an earlier scan of
        /// this node.
        from: u32,
        /// Return only the number of keys.
        counts: bool,
    },
    /// Begin to read a copy of the whole table as it is at one instant after the start of this request. The node keeps
    /// one such backup at a time.
    BeginBackup,
    /// Read a part of a backup. Of two parts that are outstanding the numbers differ by less than [`SESSION_WINDOW`].
    BackupPart {
        /// The node that has the backup.
        at: NodeId,
        /// The backup: [`Outcome::BackupBegun::backup`].
        backup: u32,
        /// Number of the part, from 1; or [`BACKUP_DONE`](crate::message::BACKUP_DONE): the node may drop the backup.
        part: u32,
    },
    /// Write a key if it has the expected version.
    CompareAndSet {
        /// Key to compare and write.
        key: &'a [u8],
        /// Expected version; 0 expects that the key is absent.
        expected: u64,
        /// At least one byte.
        value: &'a [u8],
    },
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The key has this value.
    Value {
        /// The version at which the value was written.
        version: u64,
        /// The value, in the reply's bytes.
        value: &'a [u8],
    },
    /// A put, delete or compare-and-set took effect, with this version.
    Done {
        /// The version of the write.
        version: u64,
    },
    /// The result of a scan.
    Scanned {
        /// Slot at which the next scan continues; 0 if the end of the table is reached.
        next: u32,
        /// The keys, each padded to whole 64-bit words; or, if only counted, their number in 8 big-endian bytes.
        found: &'a [u8],
    },
    /// A backup has begun.
    BackupBegun {
        /// The number by which its parts are requested.
        backup: u32,
        /// What it reflects, and which node has it.
        description: BackupDescription,
    },
    /// A part of a backup.
    BackupPart {
        /// The slot up to which the table is copied.
        copied: u32,
        /// No content follows.
        is_last: bool,
        /// Whole records: see [`backup_records`](crate::message::backup_records).
        records: &'a [u8],
    },
    /// The node does not have this backup: begin another one.
    NoBackup {
        /// Writes have changed more of the table than the node keeps for the reader.
        is_overrun: bool,
    },
    /// The key is absent: nothing to read or delete.
    NotFound,
    /// The key has another version than a compare-and-set or compare-and-delete expected.
    Mismatch {
        /// Current version; 0 if the key is absent.
        version: u64,
    },
    /// The key's bucket has no free slot. Nothing changed.
    TableFull,
    /// The cluster has a session for as many clients as it can hold. Nothing changed.
    SessionsFull,
    /// Key or value have a wrong size. Nothing changed.
    BadRequest,
    /// No answer in time: the request may have taken effect or may still do so.
    Unknown,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The request that has ended, as numbered by the client.
    pub request: RequestId,
    /// How the request has ended.
    pub outcome: Outcome<'a>,
}

/// Which node a client sends its reads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPolicy {
    /// The leader of the key: its answer never waits for another write.
    Leader,
    /// All full members, round robin.
    AnyReplica,
    /// This node as long as it is a full member, for example the nearest one.
    Prefer(NodeId),
}

/// Parameters of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientParameters {
    /// Identity of the client, not 0: no other client, past or present, may have the same. Later clients should
    /// have higher identities, because a node refuses low ones that it may have forgotten.
    pub client: u64,
    /// The nodes of the cluster.
    pub nodes: NodeSet,
    /// Bytes of a key: the same as in the engines' parameters.
    pub key_bytes: usize,
    /// Which node to send reads to.
    pub reads: ReadPolicy,
    /// Time until an unanswered request is repeated; doubles each time.
    pub timeout: Duration,
    /// Upper limit of the doubled time-out.
    pub timeout_max: Duration,
    /// Pause before a request is sent again after a node answered that it is busy or may not serve; it doubles
    /// each time, up to `timeout_max`.
    pub pause: Duration,
    /// Time after which an unanswered request ends as [`Outcome::Unknown`]. Together with the lifetime of a
    /// datagram it must stay below the engines' `session_idle`. Otherwise a node could forget the record of a
    /// request and execute its repetition.
    pub give_up: Duration,
}

impl ClientParameters {
    /// Client `client` of the nodes in `nodes`, with the defaults: 8-byte keys, reads at the leader, 10 ms to 200
    /// ms between attempts, 500 us pause, time-out of a request after 20 s.
    pub fn new(client: u64, nodes: NodeSet) -> Self {
        Self {
            client,
            nodes,
            key_bytes: 8,
            reads: ReadPolicy::Leader,
            timeout: Duration::from_ms(10),
            timeout_max: Duration::from_ms(200),
            pause: Duration::from_us(500),
            give_up: Duration::from_secs(20),
        }
    }
}

/// An outstanding request.
#[derive(Clone, Debug)]
struct Outstanding {
    /// The client's identity when this request was sent; [`Client::ask_beyond`] may have changed it since.
    client: u64,
    request: u64,
    operation: Operation,
    partition: u32,
    /// The encoded request. The buffer is reused by later requests.
    payload: Vec<u8>,
    target: NodeId,
    gives_up: Instant,
    deadline: Instant,
    /// Number of deadlines that have passed.
    attempts: u32,
    /// Whether a node has redirected this request since the last deadline.
    redirected: bool,
    /// Whether only this node can answer the request.
    is_bound: bool,
}

/// A client of the store, with at most [`SESSION_WINDOW`] requests outstanding.
///
/// After each call of [`Client::start`], [`Client::receive`] or [`Client::handle_deadline`], call
/// [`Client::poll_transmit`] until it returns `None`: these calls can queue messages.
#[derive(Clone, Debug)]
pub struct Client {
    parameters: ClientParameters,
    view: View,
    next: u64,
    /// Outstanding requests, indexed by request number modulo the window. The vector grows up to the window.
    slots: Vec<Outstanding>,
    outstanding: u16,
    transmit: u16,
    has_written: bool,
    /// Nodes that still have to receive the message that this client leaves.
    leaving: NodeSet,
    /// A lower bound of the deadlines of outstanding requests.
    earliest: Instant,
}

impl Client {
    /// A client that has the list of nodes, but no view yet.
    ///
    /// # Panics
    /// If there is no node.
    pub fn new(parameters: ClientParameters) -> Self {
        assert!(!parameters.nodes.is_empty(), "a client needs a node to ask");
        let view = View { epoch: Epoch(0), full: parameters.nodes, joining: NodeSet::EMPTY };
        Self {
            parameters,
            view,
            next: 1,
            slots: Vec::new(),
            outstanding: 0,
            transmit: 0,
            has_written: false,
            leaving: NodeSet::EMPTY,
            earliest: Instant::FAR_FUTURE,
        }
    }

    /// The client's identity.
    pub fn id(&self) -> u64 {
        self.parameters.client
    }

    /// The newest view that a node has reported; before the first reply, epoch 0 with all nodes.
    pub fn view(&self) -> View {
        self.view
    }

    /// Whether a reply addressed to client number `client` is for this client. Its number may have changed since
    /// it started ([`Status::Forgotten`]).
    pub fn owns_client_number(&self, client: u64) -> bool {
        let is_under_way = |index: usize| self.outstanding >> index & 1 == 1;
        let mut slots = self.slots.iter().enumerate();
        client == self.parameters.client
            || slots.any(|(index, slot)| is_under_way(index) && slot.client == client)
    }

    /// Number of outstanding requests.
    pub fn outstanding(&self) -> usize {
        self.outstanding.count_ones() as usize
    }

    /// Whether [`Client::start`] takes another request.
    pub fn can_start(&self) -> bool {
        self.outstanding >> (self.next % SESSION_WINDOW) & 1 == 0
    }

    /// Starts a request. Returns `None` if the request [`SESSION_WINDOW`] numbers earlier is still outstanding.
    ///
    /// # Panics
    /// If the key is not of the size that the client was made for, or the value is longer than 65,535 bytes.
    pub fn start(&mut self, now: Instant, task: Task<'_>) -> Option<RequestId> {
        if !self.can_start() {
            return None;
        }
        let no_key = [0; KEY_BYTES_MAX];
        let (operation, key, expected, value) = match task {
            Task::Get { key } => (Operation::Get, key, 0, &[][..]),
            Task::Put { key, value } => (Operation::Put, key, 0, value),
            Task::Delete { key } => (Operation::Delete, key, 0, &[][..]),
            Task::CompareAndSet { key, expected, value } => (Operation::CompareAndSet, key, expected, value),
            Task::CompareAndDelete { key, expected } => (Operation::CompareAndDelete, key, expected, &[][..]),
            Task::Scan { from, counts, .. } => {
                let counts = if counts { SCAN_COUNTS } else { 0 };
                (Operation::Scan, &no_key[..self.parameters.key_bytes], u64::from(from) | counts, &[][..])
            }
            Task::BeginBackup => (Operation::Backup, &no_key[..self.parameters.key_bytes], 0, &[][..]),
            Task::BackupPart { backup, part, .. } => {
                assert!(part > 0, "the first part is that of another task");
                let place = u64::from(backup) << 32 | u64::from(part);
                (Operation::Backup, &no_key[..self.parameters.key_bytes], place, &[][..])
            }
        };
        assert_eq!(key.len(), self.parameters.key_bytes, "keys have one size");
        assert!(value.len() <= usize::from(u16::MAX), "a value's length is a 16-bit field");
        let request = self.next;
        self.next += 1;
        let index = (request % SESSION_WINDOW) as usize;
        while self.slots.len() <= index {
            self.slots.push(Outstanding {
                client: 0,
                request: 0,
                operation: Operation::Get,
                partition: 0,
                payload: Vec::new(),
                target: self.parameters.nodes.iter().next().expect("there is a node"),
                gives_up: Instant::ZERO,
                deadline: Instant::FAR_FUTURE,
                attempts: 0,
                redirected: false,
                is_bound: false,
            });
        }
        let header =
            Request { operation, client: self.parameters.client, request, expected, key, value }.header();
        let partition = partition(key);
        let target = match task {
            Task::Scan { at, .. } | Task::BackupPart { at, .. } => at,
            _ => self.choose(operation, partition, request),
        };
        let slot = &mut self.slots[index];
        slot.payload.clear();
        slot.payload.extend_from_slice(&header);
        slot.payload.extend_from_slice(key);
        slot.payload.resize(Request::HEADER + key.len().next_multiple_of(8), 0);
        slot.payload.extend_from_slice(value);
        (slot.request, slot.operation, slot.partition, slot.target) = (request, operation, partition, target);
        slot.client = self.parameters.client;
        self.has_written |= !operation.reads();
        (slot.attempts, slot.redirected) = (0, false);
        slot.is_bound = matches!(task, Task::BackupPart { .. });
        slot.gives_up = now + self.parameters.give_up;
        slot.deadline = (now + self.parameters.timeout).min(slot.gives_up);
        self.earliest = self.earliest.min(slot.deadline);
        self.outstanding |= 1 << index;
        self.transmit |= 1 << index;
        Some(RequestId(request))
    }

    /// The node to send a request to first, by the view and the read policy that the client has.
    fn choose(&self, operation: Operation, partition: u32, request: u64) -> NodeId {
        let full = self.view.full;
        let replica = match self.parameters.reads {
            _ if operation == Operation::Backup => backup_server(full),
            _ if !operation.reads() => None,
            ReadPolicy::Leader => None,
            ReadPolicy::AnyReplica => {
                full.nth((self.parameters.client.wrapping_add(request) % full.len().max(1) as u64) as usize)
            }
            ReadPolicy::Prefer(node) => full.contains(node).then_some(node),
        };
        let any = || self.parameters.nodes.iter().next().expect("there is a node");
        replica.or_else(|| self.view.leader(partition)).unwrap_or_else(any)
    }

    /// Returns the next message to send as (destination, kind), and appends its content to `payload`.
    pub fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(NodeId, u8)> {
        if self.transmit == 0 {
            let node = self.leaving.nth(0)?;
            self.leaving = self.leaving.without(node);
            payload.extend_from_slice(&self.parameters.client.to_be_bytes());
            return Some((node, Kind::Leave as u8));
        }
        let index = self.transmit.trailing_zeros() as usize;
        self.transmit &= self.transmit - 1;
        let slot = &self.slots[index];
        payload.extend_from_slice(&slot.payload);
        Some((slot.target, Kind::Request as u8))
    }

    /// Processes a reply. Returns `None` if the request is still outstanding, or if the reply matches no
    /// outstanding request.
    ///
    /// # Errors
    /// The bytes are no reply.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        kind: u8,
        payload: &'a [u8],
    ) -> Result<Option<Completion<'a>>, Malformed> {
        if kind != Kind::Reply as u8 {
            return Err(Malformed::Field("kind"));
        }
        let reply = Reply::parse(payload)?;
        let advanced = reply.epoch > self.view.epoch && !reply.full.is_empty();
        if advanced {
            self.view = View { epoch: reply.epoch, full: reply.full, joining: NodeSet::EMPTY };
        }
        let index = (reply.request % SESSION_WINDOW) as usize;
        let known = self.outstanding >> index & 1 == 1
            && self.slots[index].client == reply.client
            && self.slots[index].request == reply.request;
        if !known {
            return Ok(None);
        }
        let operation = self.slots[index].operation;
        let outcome = match reply.status {
            Status::Ok if operation == Operation::Scan => {
                let next = u32::try_from(reply.version).map_err(|_| Malformed::Field("version"))?;
                Outcome::Scanned { next, found: reply.value }
            }
            Status::Ok if operation == Operation::Get => {
                Outcome::Value { version: reply.version, value: reply.value }
            }
            Status::Ok if operation == Operation::Backup && self.slots[index].is_bound => {
                Outcome::BackupPart {
                    copied: reply.version as u32,
                    is_last: reply.version & BACKUP_ENDS != 0,
                    records: reply.value,
                }
            }
            Status::Ok if operation == Operation::Backup => Outcome::BackupBegun {
                backup: reply.request as u32,
                description: BackupDescription::parse(reply.value)?,
            },
            Status::Ok => Outcome::Done { version: reply.version },
            Status::NoBackup => Outcome::NoBackup { is_overrun: reply.version != 0 },
            Status::NotFound => Outcome::NotFound,
            Status::Mismatch => Outcome::Mismatch { version: reply.version },
            Status::TableFull => Outcome::TableFull,
            Status::SessionsFull => Outcome::SessionsFull,
            Status::BadRequest => Outcome::BadRequest,
            Status::NotLeader | Status::NotServing | Status::Busy => {
                self.redirect(now, index, reply.status, advanced);
                return Ok(None);
            }
            // No deadline has passed, so only this node has the request, and it will refuse every copy of it.
            Status::Forgotten if self.slots[index].attempts == 0 => {
                if self.ask_beyond(index, reply.version) {
                    return Ok(None);
                }
                Outcome::SessionsFull
            }
            Status::Forgotten => Outcome::Unknown,
        };
        Ok(Some(self.end(index, outcome)))
    }

    /// A node refused the request: sends it at once to the node that the reply points to, or after a pause to any
    /// node.
    fn redirect(&mut self, now: Instant, index: usize, status: Status, advanced: bool) {
        let slot = &self.slots[index];
        let target = match slot.is_bound {
            true => slot.target,
            false => self.choose(slot.operation, slot.partition, slot.request),
        };
        let slot = &mut self.slots[index];
        if status != Status::Busy && target != slot.target && (advanced || !slot.redirected) {
            slot.target = target;
            slot.redirected = true;
            self.transmit |= 1 << index;
            return;
        }
        if self.transmit >> index & 1 == 1 {
            // Another reply has already queued the request for another node.
            return;
        }
        let pause =
            self.parameters.pause.saturating_mul(1 << slot.attempts.min(16)).min(self.parameters.timeout_max);
        slot.deadline = slot.deadline.min(now + pause);
        self.earliest = self.earliest.min(slot.deadline);
    }

    /// Handles [`Status::Forgotten`]: the node cannot tell this client from one that it has forgotten, so it has
    /// not executed the request. Takes a client number beyond the horizon and sends the request again under it.
    /// Requests that are outstanding at other nodes keep the former number. Returns `false` if no higher number
    /// exists.
    fn ask_beyond(&mut self, index: usize, horizon: u64) -> bool {
        let former = self.parameters.client;
        if former <= horizon {
            // The step is hashed, because other clients may receive the same horizon at the same time.
            let step = 1 + (mix(former ^ horizon.rotate_left(32)) >> 32);
            let Some(client) = horizon.checked_add(step) else { return false };
            self.parameters.client = client;
        }
        let slot = &mut self.slots[index];
        slot.client = self.parameters.client;
        slot.payload[8..16].copy_from_slice(&slot.client.to_be_bytes());
        self.transmit |= 1 << index;
        true
    }

    /// Ends the client: [`Client::poll_transmit`] then sends the nodes a message on which they drop its session.
    pub fn leave(&mut self) {
        if self.has_written {
            self.leaving = self.parameters.nodes;
        }
    }

    fn end<'a>(&mut self, index: usize, outcome: Outcome<'a>) -> Completion<'a> {
        self.outstanding &= !(1 << index);
        self.transmit &= !(1 << index);
        if self.outstanding == 0 {
            self.earliest = Instant::FAR_FUTURE;
        }
        Completion { request: RequestId(self.slots[index].request), outcome }
    }

    /// When [`Client::handle_deadline`] must be called; nothing may be due yet then. `None` if nothing is
    /// outstanding.
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.outstanding != 0).then_some(self.earliest)
    }

    /// Sends a request again that was not answered in time, or ends one that has reached its time-out. One call
    /// ends at most one request: call it until it returns `None`.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<Completion<'static>> {
        if self.outstanding == 0 || now < self.earliest {
            return None;
        }
        self.earliest = Instant::FAR_FUTURE;
        let mut given_up = None;
        for index in (0..self.slots.len()).filter(|index| self.outstanding >> index & 1 == 1) {
            let slot = &mut self.slots[index];
            if slot.gives_up <= now {
                given_up = Some(index);
                self.earliest = now;
                continue;
            }
            if slot.deadline <= now {
                slot.attempts += 1;
                slot.redirected = false;
                if !slot.is_bound {
                    // The node was silent: try the next one. It may have a newer view, or redirect to the leader.
                    let nodes = self.parameters.nodes;
                    let rank = nodes.iter().position(|node| node == slot.target).unwrap_or(0);
                    slot.target = nodes.nth((rank + 1) % nodes.len()).expect("there is a node");
                }
                let factor = 1 << slot.attempts.min(16);
                let timeout = self.parameters.timeout.saturating_mul(factor).min(self.parameters.timeout_max);
                slot.deadline = (now + timeout).min(slot.gives_up);
                self.transmit |= 1 << index;
            }
            self.earliest = self.earliest.min(slot.deadline);
        }
        given_up.map(|index| self.end(index, Outcome::Unknown))
    }
}

impl ClientHalf for Client {
    type Task<'a> = Task<'a>;
    type Outcome<'a> = Outcome<'a>;

    fn start(&mut self, now: Instant, task: Task<'_>) -> Option<CallId> {
        Self::start(self, now, task).map(|request| CallId(request.0))
    }

    fn receive<'a>(
        &mut self,
        now: Instant,
        _: usize,
        (kind, payload): (u8, &'a [u8]),
    ) -> Option<(CallId, Outcome<'a>)> {
        let Completion { request, outcome } = Self::receive(self, now, kind, payload).ok()??;
        Some((CallId(request.0), outcome))
    }

    fn next_deadline(&self) -> Option<Instant> {
        Self::next_deadline(self)
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<(CallId, Outcome<'static>)> {
        let Completion { request, outcome } = Self::handle_deadline(self, now)?;
        Some((CallId(request.0), outcome))
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        Self::poll_transmit(self, out).map(|(node, kind)| (node.index(), kind))
    }

    fn leave(&mut self) {
        Self::leave(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 8] = 7u64.to_be_bytes();

    fn client() -> Client {
        Client::new(ClientParameters::new(9, NodeSet::first(3)))
    }

    fn reply(status: Status, request: u64, epoch: u32, full: NodeSet, value: &[u8]) -> Vec<u8> {
        let reply = Reply { status, client: 9, request, version: 5, epoch: Epoch(epoch), full, value };
        [&reply.header()[..], value].concat()
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn sent(client: &mut Client) -> Vec<usize> {
        let mut payload = Vec::new();
        std::iter::from_fn(|| client.poll_transmit(&mut payload).map(|(node, _)| node.index())).collect()
    }

    fn receive(client: &mut Client, now: Instant, payload: &[u8]) -> bool {
        client.receive(now, Kind::Reply as u8, payload).unwrap().is_some()
    }

    #[test]
    fn a_reply_ends_its_request_once() {
        let mut client = client();
        let request = client.start(ms(0), Task::Get { key: &KEY }).unwrap();
        let mut payload = Vec::new();
        client.poll_transmit(&mut payload).unwrap();
        assert_eq!(Request::parse(&payload, 8).unwrap().key, KEY);
        let bytes = reply(Status::Ok, 1, 1, NodeSet::first(3), b"v");
        let completion = client.receive(ms(1), Kind::Reply as u8, &bytes).unwrap();
        let outcome = Outcome::Value { version: 5, value: b"v" };
        assert_eq!(completion, Some(Completion { request, outcome }));
        assert!(!receive(&mut client, ms(1), &bytes), "a duplicate");
        assert_eq!(client.next_deadline(), None);
    }

    #[test]
    fn a_client_that_would_be_taken_for_a_forgotten_one_continues_beyond_the_horizon() {
        let mut client = client();
        let asks = |client: &mut Client| {
            let mut payload = Vec::new();
            let (_, kind) = client.poll_transmit(&mut payload).expect("it asks");
            assert_eq!(kind, Kind::Request as u8);
            Request::identity(&payload).unwrap()
        };
        let forgotten = |id: u64, request: u64, horizon: u64| {
            let (epoch, full) = (Epoch(1), NodeSet::first(3));
            let (status, value) = (Status::Forgotten, &[][..]);
            Reply { status, client: id, request, version: horizon, epoch, full, value }.header().to_vec()
        };
        for request in 1..=3 {
            client.start(ms(0), Task::Put { key: &KEY, value: b"v" }).unwrap();
            assert_eq!(asks(&mut client), (9, request));
        }
        assert!(!receive(&mut client, ms(1), &forgotten(9, 1, 50)));
        let (beyond, request) = asks(&mut client);
        assert!(beyond > 50 && request == 1, "{beyond}");
        // Request 2 is repeated under the new identity, as request 1 was. Request 3 was executed under the old one.
        assert!(!receive(&mut client, ms(1), &forgotten(9, 2, 50)));
        assert_eq!(asks(&mut client), (beyond, 2));
        assert!(receive(&mut client, ms(1), &reply(Status::Ok, 3, 1, NodeSet::first(3), &[])));
        assert!(
            !receive(&mut client, ms(1), &reply(Status::Ok, 2, 1, NodeSet::first(3), &[])),
            "no answer to it"
        );
        // A request that was also sent to another node may be executed there: its outcome is unknown.
        client.start(ms(10), Task::Put { key: &KEY, value: b"v" }).unwrap();
        asks(&mut client);
        client.handle_deadline(ms(20));
        asks(&mut client);
        let refused = forgotten(beyond, 4, u64::MAX);
        let ended = client.receive(ms(21), Kind::Reply as u8, &refused).unwrap().unwrap();
        assert_eq!(ended.outcome, Outcome::Unknown);
    }

    #[test]
    fn a_client_that_has_written_says_goodbye_to_every_node() {
        let mut reader = client();
        reader.leave();
        assert_eq!(sent(&mut reader), [0; 0], "no node remembers it");
        let mut writer = client();
        writer.start(ms(0), Task::Put { key: &KEY, value: b"v" }).unwrap();
        sent(&mut writer);
        writer.leave();
        let mut payload = Vec::new();
        assert_eq!(writer.poll_transmit(&mut payload).map(|(_, kind)| kind), Some(Kind::Leave as u8));
        assert_eq!(payload, 9u64.to_be_bytes());
        assert_eq!(sent(&mut writer), [1, 2]);
    }

    #[test]
    fn the_window_is_that_of_the_session() {
        let mut client = client();
        for request in 1..=16 {
            assert_eq!(client.start(ms(0), Task::Delete { key: &KEY }), Some(RequestId(request)));
        }
        assert_eq!(client.start(ms(0), Task::Delete { key: &KEY }), None);
        assert!(receive(&mut client, ms(0), &reply(Status::Ok, 2, 1, NodeSet::first(3), &[])));
        assert_eq!(client.start(ms(0), Task::Delete { key: &KEY }), None, "request 1 is outstanding");
        assert!(receive(&mut client, ms(0), &reply(Status::Ok, 1, 1, NodeSet::first(3), &[])));
        assert_eq!(client.start(ms(0), Task::Delete { key: &KEY }), Some(RequestId(17)));
    }

    #[test]
    fn a_newer_view_redirects_at_once() {
        let mut client = client();
        client.start(ms(0), Task::Delete { key: &KEY }).unwrap();
        let first = sent(&mut client)[0];
        let full = NodeSet::first(3).without(NodeId::new(first).unwrap());
        assert!(!receive(&mut client, ms(1), &reply(Status::NotLeader, 1, 2, full, &[])));
        let leader = View { epoch: Epoch(2), full, joining: NodeSet::EMPTY }.leader(partition(&KEY)).unwrap();
        assert_eq!(sent(&mut client), [leader.index()]);
        assert!(!receive(&mut client, ms(1), &reply(Status::NotLeader, 1, 2, full, &[])));
        assert_eq!(sent(&mut client), [0; 0], "it is the leader that said so: wait");
        assert!(client.next_deadline().unwrap() <= ms(2));
    }

    #[test]
    fn silence_is_asked_again_of_all_nodes_and_given_up() {
        let mut client = client();
        client.start(ms(0), Task::Put { key: &KEY, value: b"v" }).unwrap();
        let mut asked = sent(&mut client);
        let outcome = loop {
            let now = client.next_deadline().unwrap();
            let completion = client.handle_deadline(now);
            asked.extend(sent(&mut client));
            if let Some(completion) = completion {
                assert_eq!(now, ms(20_000));
                break completion.outcome;
            }
        };
        assert_eq!(outcome, Outcome::Unknown);
        assert!((0..3).all(|node| asked.contains(&node)), "{asked:?}");
        assert!(asked.len() < 120, "it backs off: {}", asked.len());
    }

    #[test]
    fn busy_waits_and_asks_again() {
        let mut client = client();
        client.start(ms(0), Task::Put { key: &KEY, value: b"v" }).unwrap();
        sent(&mut client);
        assert!(!receive(&mut client, ms(1), &reply(Status::Busy, 1, 1, NodeSet::first(3), &[])));
        assert_eq!(sent(&mut client), [0; 0]);
        let now = client.next_deadline().unwrap();
        assert_eq!(now, ms(1) + Duration::from_us(500));
        assert_eq!(client.handle_deadline(now), None);
        assert_eq!(sent(&mut client).len(), 1);
    }
}
