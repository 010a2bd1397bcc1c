//! Effects: the answers of an engine to an event.

use std::ops::Range;

use weft_time::{Duration, Instant};
use weft_verbs::{AccessFlags, QueuePairNumber, WorkRequest};

use crate::{Caller, Message, NodeSet};

/// One effect that an engine asks for. Payloads lie in the [`Effects`] that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a message to the same engine of every node in the set.
    Send {
        /// To whom; the sender itself is never in it.
        to: NodeSet,
        /// The message's kind.
        kind: u8,
        /// Range of the payload in the effects' bytes.
        payload: Range<usize>,
    },
    /// Answer a call.
    Reply {
        /// Whom to answer.
        to: Caller,
        /// The message's kind.
        kind: u8,
        /// Range of the payload in the effects' bytes.
        payload: Range<usize>,
    },
    /// Fire a timer at `at`, or move the timer of the same tag there.
    SetTimer {
        /// Tag of the timer.
        tag: u32,
        /// When the timer fires.
        at: Instant,
    },
    /// Post a work request on a queue pair of this engine; its completion comes back as `Event::Done`, also if it is
    /// refused.
    Post {
        /// On which queue pair.
        queue_pair: QueuePairNumber,
        /// The work request. Its `id` is the tag, whose highest bit is zero.
        request: WorkRequest,
    },
    /// Change what the peer may do through a queue pair of this engine, from the next packet on. Nothing happens in
    /// the states RESET and ERROR, in which the peer may do nothing.
    Access {
        /// Through which queue pair.
        queue_pair: QueuePairNumber,
        /// Operations that are allowed from now on.
        access: AccessFlags,
    },
    /// Take a queue pair of this engine from whatever state it is in through RESET to RTS, towards the peer that it
    /// was assigned for. The peer may READ, and nothing else. No `Event::Done` comes any more for what was posted
    /// before.
    Connect {
        /// The queue pair.
        queue_pair: QueuePairNumber,
        /// PSN of this end's first request, 24 bits.
        send_psn: u32,
        /// PSN of the peer's first request, 24 bits.
        receive_psn: u32,
    },
    /// Copy bytes of the host's memory into the engine's memory; ends as `Event::Done`.
    ///
    /// The bytes are taken at some moment between the effect and its end. What the host writes meanwhile may be there
    /// in part: only an aligned line of [`DMA_LINE`] bytes is taken as a whole.
    HostRead {
        /// Comes back with the end.
        tag: u64,
        /// From where in the host's memory.
        host: u64,
        /// To where in the engine's memory.
        memory: u64,
        /// Length in bytes.
        length: u32,
    },
    /// Copy bytes of the engine's memory into the host's memory; ends as `Event::Done`, when the host sees them.
    ///
    /// The bytes are taken at some moment between the effect and its end: the engine leaves them alone until then.
    /// The host may see a part of them before, line by line.
    HostWrite {
        /// Comes back with the end.
        tag: u64,
        /// From where in the engine's memory.
        memory: u64,
        /// To where in the host's memory.
        host: u64,
        /// Length in bytes.
        length: u32,
    },
}

/// Bytes that a read or write of the host's memory moves as a whole, where they are aligned: a cache line of the host.
pub const DMA_LINE: usize = 64;

/// The effects of one event, in order, with the bytes of their payloads. Cleared and used again, so that
/// an engine allocates nothing once the first events have grown it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    list: Vec<Effect>,
    bytes: Vec<u8>,
    labour: Duration,
}

impl Effects {
    /// Sends to every node in `to`; does nothing if it is empty. `payload` is the concatenation of its parts.
    pub fn send(&mut self, to: NodeSet, kind: u8, payload: &[&[u8]]) {
        if !to.is_empty() {
            let payload = self.append(payload);
            self.list.push(Effect::Send { to, kind, payload });
        }
    }

    /// Answers a call. `payload` is the concatenation of its parts.
    pub fn reply(&mut self, to: Caller, kind: u8, payload: &[&[u8]]) {
        let payload = self.append(payload);
        self.list.push(Effect::Reply { to, kind, payload });
    }

    /// Sets a timer.
    pub fn set_timer(&mut self, tag: u32, at: Instant) {
        self.list.push(Effect::SetTimer { tag, at });
    }

    /// Posts a work request.
    pub fn post(&mut self, queue_pair: QueuePairNumber, request: WorkRequest) {
        self.list.push(Effect::Post { queue_pair, request });
    }

    /// Changes what the peer may do through a queue pair.
    pub fn access(&mut self, queue_pair: QueuePairNumber, access: AccessFlags) {
        self.list.push(Effect::Access { queue_pair, access });
    }

    /// Connects a queue pair afresh, whatever state it is in.
    pub fn connect(&mut self, queue_pair: QueuePairNumber, send_psn: u32, receive_psn: u32) {
        self.list.push(Effect::Connect { queue_pair, send_psn, receive_psn });
    }

    /// Copies bytes of the host's memory into the engine's memory.
    pub fn host_read(&mut self, tag: u64, host: u64, memory: u64, length: u32) {
        self.list.push(Effect::HostRead { tag, host, memory, length });
    }

    /// Copies bytes of the engine's memory into the host's memory.
    pub fn host_write(&mut self, tag: u64, memory: u64, host: u64, length: u32) {
        self.list.push(Effect::HostWrite { tag, memory, host, length });
    }

    /// Says that the event has cost `labour` of a host's core, beyond what handling an event and accessing memory
    /// cost anyway. The world makes of it what it takes where the engine runs.
    pub fn labour(&mut self, labour: Duration) {
        self.labour += labour;
    }

    /// The labour of the event.
    pub const fn total_labour(&self) -> Duration {
        self.labour
    }

    /// The effects in the order in which they were emitted.
    pub fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.list.iter()
    }

    /// The message of a [`Effect::Send`] or [`Effect::Reply`] of this very list.
    pub fn message(&self, kind: u8, payload: &Range<usize>) -> Message<'_> {
        Message { kind, payload: &self.bytes[payload.clone()] }
    }

    /// Whether there is no effect.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Forgets all effects and keeps the space.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
        self.labour = Duration::ZERO;
    }

    fn append(&mut self, parts: &[&[u8]]) -> Range<usize> {
        let start = self.bytes.len();
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        start..self.bytes.len()
    }
}
