//! The requester's end of a connection to a peer: requests for the connection, and outstanding work requests on
//! it.
//!
//! Between two replicas there is, per group, one queue pair for the requests of each of them. So the replica that
//! makes the requests also decides when to reconnect. A connection is never used again if it has failed, or if
//! work requests are outstanding on it when the replica makes a new request for permission: nothing posted under
//! an old permission may be executed under a new one.

use std::collections::VecDeque;

use weft_time::Instant;
use weft_verbs::{CompletionStatus, LocalBuffer, Operation, QueuePairNumber, RemoteAddress, WorkRequest};
use weft_waist::Effects;

use crate::message::{PSN_MASK, Request};

/// Distance between the last PSN of a connection and the first of the next, larger than the range of PSNs in
/// flight.
const PSN_GAP: u32 = 1 << 20;

/// What the host has set up for one connection to a peer, either a replication group's or the heartbeat's:
/// queue pairs, addresses and memory keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wiring {
    /// The local queue pair on which this node makes requests of the peer.
    pub request: QueuePairNumber,
    /// The local queue pair on which the peer makes requests of this node.
    pub respond: QueuePairNumber,
    /// Virtual address of byte 0 of this node's engine memory.
    pub local_address: u64,
    /// The local key of a region over this node's engine memory.
    pub lkey: u32,
    /// Virtual address of byte 0 of the peer's engine memory.
    pub remote_address: u64,
    /// The remote key of a region over the peer's engine memory that peers may read and write.
    pub rkey: u32,
    /// The remote key of a region over the same memory in which a WRITE also calls the engine.
    pub call_rkey: u32,
    /// The most payload bytes in a packet.
    pub path_mtu: u32,
}

/// One transfer between this node's engine memory and a peer's: offsets and a number of bytes.
#[derive(Clone, Copy, Debug)]
pub enum Transfer {
    /// A WRITE from local to remote memory.
    Write {
        /// Offset of the data in this node's memory.
        from: usize,
        /// Offset of the destination in the peer's memory.
        to: usize,
        /// Length in bytes.
        bytes: usize,
        /// If set, the WRITE also calls the peer's engine, with this kind.
        call: Option<u32>,
    },
    /// A READ from remote to local memory.
    Read {
        /// Offset of the data in the peer's memory.
        from: usize,
        /// Offset of the destination in this node's memory.
        to: usize,
        /// Length in bytes.
        bytes: usize,
    },
}

/// Whether requests may be made on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection is requested or granted.
    Idle,
    /// A request for a connection has been sent to the peer.
    Asked,
    /// The peer has granted the last request.
    Up,
}

/// Outcome of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended<W> {
    /// The work request succeeded.
    Done(W),
    /// The connection has failed.
    Failed,
    /// The work request belongs to an earlier connection.
    Stale,
}

/// The requester's end of a connection. A `W` states the purpose of a work request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link<W> {
    /// Whether requests may be made.
    pub state: State,
    /// Number of the last request for a connection; its upper half is this node's incarnation.
    number: u64,
    connection: u64,
    /// Whether the local end is connected and nothing has failed.
    usable: bool,
    /// PSN of the next request.
    psn: u32,
    sequence: u64,
    posted: VecDeque<(u64, W)>,
    /// When the last request for a connection was sent.
    pub asked_at: Instant,
}

impl<W: Copy> Link<W> {
    /// A link that has at most `posts_max` work requests outstanding.
    pub fn new(posts_max: usize) -> Self {
        Self {
            state: State::Idle,
            number: 0,
            connection: 0,
            usable: false,
            psn: 0,
            sequence: 0,
            posted: VecDeque::with_capacity(posts_max),
            asked_at: Instant::ZERO,
        }
    }

    /// Starts a new incarnation of this node.
    pub fn start(&mut self, incarnation: u32) {
        let lives = u64::from(incarnation) << 32;
        self.posted.clear();
        (self.state, self.usable, self.number, self.connection) = (State::Idle, false, lives, lives);
        // The first PSN depends on the incarnation, so that packets of the former incarnation's connection are not
        // valid.
        self.psn = incarnation.wrapping_mul(0x35_a7f1) & PSN_MASK;
    }

    /// Number of work requests that have not completed.
    pub fn outstanding(&self) -> usize {
        self.posted.len()
    }

    /// Requests a connection: the present one, if it has not failed and nothing is outstanding on it, or a new
    /// one.
    pub fn ask(&mut self, now: Instant, group: u8, wiring: &Wiring, effects: &mut Effects) -> Request {
        if !self.usable || !self.posted.is_empty() {
            self.reset(wiring, effects);
        }
        self.number += 1;
        (self.state, self.asked_at) = (State::Asked, now);
        Request { group, number: self.number, connection: self.connection, psn: self.psn }
    }

    fn reset(&mut self, wiring: &Wiring, effects: &mut Effects) {
        self.psn = (self.psn + PSN_GAP) & PSN_MASK;
        self.connection += 1;
        self.posted.clear();
        self.usable = true;
        effects.connect(wiring.request, self.psn, 0);
    }

    /// Gives up the permission. A connection with outstanding work requests is reset, so that they are not
    /// retransmitted from memory that other replicas may write from now on.
    pub fn release(&mut self, wiring: &Wiring, effects: &mut Effects) {
        if !self.posted.is_empty() {
            self.reset(wiring, effects);
        }
        self.state = State::Idle;
    }

    /// Handles a grant by the peer. Returns whether it is for the latest request.
    pub fn granted(&mut self, number: u64) -> bool {
        let granted = self.state == State::Asked && number == self.number;
        if granted {
            self.state = State::Up;
        }
        granted
    }

    /// Marks the connection as unusable.
    pub fn fail(&mut self) {
        (self.state, self.usable) = (State::Idle, false);
    }

    /// Posts a transfer; `tag` is the upper part of its tag, from [`tag`].
    pub fn post(&mut self, what: W, transfer: Transfer, tag: u64, wiring: &Wiring, effects: &mut Effects) {
        debug_assert_eq!(self.state, State::Up);
        let (local, bytes, operation) = match transfer {
            Transfer::Write { from, to, bytes, call } => {
                let rkey = if call.is_some() { wiring.call_rkey } else { wiring.rkey };
                let remote = RemoteAddress { address: wiring.remote_address + to as u64, rkey };
                (from, bytes, Operation::Write { remote, immediate: call })
            }
            Transfer::Read { from, to, bytes } => {
                let address = wiring.remote_address + from as u64;
                (to, bytes, Operation::Read { remote: RemoteAddress { address, rkey: wiring.rkey } })
            }
        };
        self.sequence += 1;
        self.posted.push_back((self.sequence, what));
        self.psn = (self.psn + (bytes as u32).div_ceil(wiring.path_mtu).max(1)) & PSN_MASK;
        let local = LocalBuffer {
            address: wiring.local_address + local as u64,
            length: bytes as u32,
            lkey: wiring.lkey,
        };
        effects
            .post(wiring.request, WorkRequest::new(tag | (self.sequence & SEQUENCE_MASK), operation, local));
    }

    /// Handles a completion.
    pub fn done(&mut self, tag: u64, status: CompletionStatus) -> Ended<W> {
        match self.posted.front() {
            Some((sequence, _)) if sequence & SEQUENCE_MASK == tag & SEQUENCE_MASK => {}
            _ => return Ended::Stale,
        }
        let (_, what) = self.posted.pop_front().expect("it was just looked at");
        if status == CompletionStatus::Success && self.usable {
            Ended::Done(what)
        } else if self.state == State::Up {
            self.fail();
            Ended::Failed
        } else {
            self.usable = false;
            Ended::Stale
        }
    }
}

/// The part of a tag that identifies a work request of a link.
const SEQUENCE_MASK: u64 = (1 << 40) - 1;

/// The upper part of the tag of a group's work requests to a peer; the lower part is their sequence number.
pub fn tag(group: u8, peer: usize) -> u64 {
    u64::from(group) << 48 | (peer as u64) << 40
}

/// The group and the peer in a tag.
pub fn tagged(tag: u64) -> (u8, usize) {
    ((tag >> 48) as u8, (tag >> 40 & 0xff) as usize)
}
