//! Effects: what an engine requests in response to an event.

use std::ops::Range;

use weft_time::Instant;
use weft_verbs::{AccessFlags, QueuePairNumber, WorkRequest};

use crate::{Caller, Message, NodeSet};

/// One effect. Its payload is in the [`Effects`] that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a message to the same engine at every node in the set.
    Send {
        /// The receivers. The sender itself is never one of them.
        to: NodeSet,
        /// The message's kind.
        kind: u8,
        /// Range of the payload in the effects' bytes.
        payload: Range<usize>,
    },
    /// Answer a call.
    Reply {
        /// The caller to answer.
        to: Caller,
        /// The message's kind.
        kind: u8,
        /// Range of the payload in the effects' bytes.
        payload: Range<usize>,
    },
    /// Set a timer to fire at `at`. A timer with the same tag is moved.
    SetTimer {
        /// Tag of the timer.
        tag: u32,
        /// When the timer fires.
        at: Instant,
    },
    /// Post a work request on a queue pair of this engine. Its completion comes back as `Event::Done`, even
    /// if the post is refused.
    Post {
        /// The queue pair.
        queue_pair: QueuePairNumber,
        /// The work request. Its `id` is the tag, whose highest bit is zero.
        request: WorkRequest,
    },
    /// Change the peer's permissions on a queue pair of this engine, from the next packet on. Has no effect
    /// in the states RESET and ERROR, in which the peer has no permissions.
    Access {
        /// The queue pair.
        queue_pair: QueuePairNumber,
        /// Operations that the peer may perform from now on.
        access: AccessFlags,
    },
    /// Take a queue pair of this engine, in whatever state it is, through RESET to RTS, connected to its
    /// assigned peer. Then the peer may only READ. Requests posted before cause no further `Event::Done`.
    Connect {
        /// The queue pair.
        queue_pair: QueuePairNumber,
        /// PSN of this end's first request, 24 bits.
        send_psn: u32,
        /// PSN of the peer's first request, 24 bits.
        receive_psn: u32,
    },
    /// Copy bytes from the host's memory to the engine's memory. `Event::Done` reports the completion.
    ///
    /// The bytes are read at some moment between the effect and its completion. If the host writes meanwhile,
    /// the copy may have some of the new bytes: only an aligned line of [`DMA_LINE`] bytes is copied
    /// atomically.
    HostRead {
        /// Tag that `Event::Done` returns.
        tag: u64,
        /// Source address in the host's memory.
        host: u64,
        /// Destination address in the engine's memory.
        memory: u64,
        /// Length in bytes.
        length: u32,
    },
    /// Copy bytes from the engine's memory to the host's memory. `Event::Done` reports the completion, when
    /// the host can see the bytes.
    ///
    /// The bytes are read at some moment between the effect and its completion, so the engine must not change
    /// them until then. The host may see some lines before others.
    HostWrite {
        /// Tag that `Event::Done` returns.
        tag: u64,
        /// Source address in the engine's memory.
        memory: u64,
        /// Destination address in the host's memory.
        host: u64,
        /// Length in bytes.
        length: u32,
    },
}

/// Something that an engine has computed in an event, beyond handling the event and accessing memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computation {
    /// One run of the user's procedure with this number.
    Procedure(u16),
    /// A record was applied to tables that the engine holds itself.
    Apply,
    /// This number of bytes was compared with others.
    Compare(u64),
}

/// Bytes that a copy reads or writes atomically if they are aligned: a cache line of the host.
pub const DMA_LINE: usize = 64;

/// The effects of one event, in order, with the bytes of their payloads. The structure is reused, so that an
/// engine allocates nothing once the first events have grown it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    list: Vec<Effect>,
    bytes: Vec<u8>,
    computations: Vec<Computation>,
}

impl Effects {
    /// Emits a message to every node in `to`; does nothing if the set is empty. `payload` is the
    /// concatenation of its parts.
    ///
    /// A message travels in one datagram, so an engine divides what is longer: a network with an MTU of 1500 bytes has
    /// room for 1,448 bytes of payload. The card drops a longer message and counts it as `messages_too_large`.
    pub fn send(&mut self, to: NodeSet, kind: u8, payload: &[&[u8]]) {
        if !to.is_empty() {
            let payload = self.append(payload);
            self.list.push(Effect::Send { to, kind, payload });
        }
    }

    /// Emits the answer to a call. `payload` is the concatenation of its parts.
    pub fn reply(&mut self, to: Caller, kind: u8, payload: &[&[u8]]) {
        let payload = self.append(payload);
        self.list.push(Effect::Reply { to, kind, payload });
    }

    /// Emits the setting of a timer.
    pub fn set_timer(&mut self, tag: u32, at: Instant) {
        self.list.push(Effect::SetTimer { tag, at });
    }

    /// Emits the post of a work request.
    pub fn post(&mut self, queue_pair: QueuePairNumber, request: WorkRequest) {
        self.list.push(Effect::Post { queue_pair, request });
    }

    /// Emits a change of the peer's permissions on a queue pair.
    pub fn access(&mut self, queue_pair: QueuePairNumber, access: AccessFlags) {
        self.list.push(Effect::Access { queue_pair, access });
    }

    /// Emits the reset and connection of a queue pair.
    pub fn connect(&mut self, queue_pair: QueuePairNumber, send_psn: u32, receive_psn: u32) {
        self.list.push(Effect::Connect { queue_pair, send_psn, receive_psn });
    }

    /// Emits a copy from the host's memory to the engine's memory.
    pub fn host_read(&mut self, tag: u64, host: u64, memory: u64, length: u32) {
        self.list.push(Effect::HostRead { tag, host, memory, length });
    }

    /// Emits a copy from the engine's memory to the host's memory.
    pub fn host_write(&mut self, tag: u64, memory: u64, host: u64, length: u32) {
        self.list.push(Effect::HostWrite { tag, memory, host, length });
    }

    /// Notes a computation. It is no effect: a world with simulated time converts it to the time that it takes where
    /// the engine runs, and delays the effects of the event by it. Other worlds ignore it.
    pub fn computed(&mut self, computation: Computation) {
        self.computations.push(computation);
    }

    /// The computations of the event.
    pub fn computations(&self) -> &[Computation] {
        &self.computations
    }

    /// The effects in the order in which they were emitted.
    pub fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.list.iter()
    }

    /// The message of a [`Effect::Send`] or [`Effect::Reply`] in this list.
    pub fn message(&self, kind: u8, payload: &Range<usize>) -> Message<'_> {
        Message { kind, payload: &self.bytes[payload.clone()] }
    }

    /// Whether there is no effect.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes all effects and keeps the buffers.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
        self.computations.clear();
    }

    fn append(&mut self, parts: &[&[u8]]) -> Range<usize> {
        let start = self.bytes.len();
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        start..self.bytes.len()
    }
}
