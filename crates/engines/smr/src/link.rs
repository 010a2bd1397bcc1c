//! The requester's end of a connection to a peer: asking for it, and what is outstanding on it.
//!
//! Between two replicas there is one queue pair for the requests of each, per group, so that who makes the requests
//! also decides when the connection begins anew. A connection that has failed, or on which something is outstanding
//! when a new request for permission is made, is never used again: what was posted under an old permission must not
//! be carried out under a new one.

use std::collections::VecDeque;

use weft_time::Instant;
use weft_verbs::{CompletionStatus, LocalBuffer, Operation, QueuePairNumber, RemoteAddress, WorkRequest};
use weft_waist::Effects;

use crate::message::{PSN_MASK, Request};

/// PSNs between where a connection ends and the next one begins: further than the packets reach that may be under way.
const PSN_GAP: u32 = 1 << 20;

/// Connection of a group or the pulse to a peer: queue pairs and keys, as the host has set them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wiring {
    /// The local queue pair on which this node makes requests of the peer.
    pub request: QueuePairNumber,
    /// The local queue pair on which the peer makes requests of this node.
    pub respond: QueuePairNumber,
    /// The address of byte 0 of this node's engine memory, as verbs see it.
    pub local_address: u64,
    /// The key of a region over that memory.
    pub lkey: u32,
    /// The address of byte 0 of the peer's engine memory.
    pub remote_address: u64,
    /// The key of a region over that memory which peers may read and write.
    pub rkey: u32,
    /// The key of a region over it in which a WRITE calls the engine as well.
    pub call_rkey: u32,
    /// The most bytes in a packet.
    pub path_mtu: u32,
}

/// One transfer between this node's engine memory and a peer's: offsets and a number of bytes.
#[derive(Clone, Copy, Debug)]
pub enum Transfer {
    /// From here to there.
    Write {
        /// Offset here.
        from: usize,
        /// Offset there.
        to: usize,
        /// Length in bytes.
        bytes: usize,
        /// The peer's engine is called as well, with this kind.
        call: Option<u32>,
    },
    /// From there to here.
    Read {
        /// Offset there.
        from: usize,
        /// Offset here.
        to: usize,
        /// Length in bytes.
        bytes: usize,
    },
}

/// Whether requests may be made on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not usable.
    Idle,
    /// The peer was asked.
    Asked,
    /// The peer has granted the last request.
    Up,
}

/// Outcome of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended<W> {
    /// It was carried out.
    Done(W),
    /// The connection has failed.
    Failed,
    /// It belongs to an earlier connection.
    Stale,
}

/// The requester's end of a connection. `W` says what a work request is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link<W> {
    /// Whether requests may be made.
    pub state: State,
    /// Of the last request; its upper half is this node's incarnation.
    number: u64,
    connection: u64,
    /// The local end is connected and nothing has failed.
    usable: bool,
    /// The next PSN.
    psn: u32,
    sequence: u64,
    posted: VecDeque<(u64, W)>,
    /// When the peer was last asked.
    pub asked_at: Instant,
}

impl<W: Copy> Link<W> {
    /// A link on which so many work requests may be outstanding.
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

    /// A life begins.
    pub fn start(&mut self, incarnation: u32) {
        let lives = u64::from(incarnation) << 32;
        self.posted.clear();
        (self.state, self.usable, self.number, self.connection) = (State::Idle, false, lives, lives);
        // PSNs of the former incarnation's connection are void.
        self.psn = incarnation.wrapping_mul(0x35_a7f1) & PSN_MASK;
    }

    /// Work requests that have not ended.
    pub fn outstanding(&self) -> usize {
        self.posted.len()
    }

    /// Asks for a connection, the present one if it is as good as new.
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

    /// Gives the permission up. Outstanding requests are not resent from memory that others may write from now on.
    pub fn release(&mut self, wiring: &Wiring, effects: &mut Effects) {
        if !self.posted.is_empty() {
            self.reset(wiring, effects);
        }
        self.state = State::Idle;
    }

    /// The peer grants a request. Says whether it is the last one.
    pub fn granted(&mut self, number: u64) -> bool {
        let granted = self.state == State::Asked && number == self.number;
        if granted {
            self.state = State::Up;
        }
        granted
    }

    /// The connection is not to be used any more.
    pub fn fail(&mut self) {
        (self.state, self.usable) = (State::Idle, false);
    }

    /// Posts a transfer; `tag` is the upper half of its tag.
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

    /// Something that was posted has ended.
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

/// The part of a tag that tells the work requests of a link apart.
const SEQUENCE_MASK: u64 = (1 << 40) - 1;

/// The tag of a group's work request to a peer, without its sequence.
pub fn tag(group: u8, peer: usize) -> u64 {
    u64::from(group) << 48 | (peer as u64) << 40
}

/// The group and peer of a tag.
pub fn tagged(tag: u64) -> (u8, usize) {
    ((tag >> 48) as u8, (tag >> 40 & 0xff) as usize)
}
