//! The engine interface: what a protocol engine is, and everything that it may access.
//!
//! An engine is a pure state machine. It handles [`Event`]s and emits [`Effect`]s. It reads and writes the
//! card memory that it was given, and nothing else: no socket, clock, thread or random source. In gateware
//! the same interface is a bundle of streams. So an engine has a twin there, and the two can be compared
//! effect by effect and memory byte by memory byte.
//!
//! # Contract
//!
//! - [`Engine::handle`] is called with one event at a time, and with a `now` that never decreases. It returns
//!   after a bounded amount of work and allocates nothing.
//! - Effects take place in the order in which they were emitted, all of them after the event.
//! - Messages ([`Effect::Send`], [`Effect::Reply`]) may be lost, duplicated, delayed and reordered; their
//!   content is intact.
//! - A timer fires once, at or after its time, unless it is set again before. A late timer is no error.
//! - Card memory ([`Memory`]) is accessed during an event; the world charges the time by delaying the event's
//!   effects. Operations that take long or may fail (verbs on a queue pair, copies of the host's memory
//!   across a bus) are effects whose outcome comes back as [`Event::Done`].
//! - What an engine computes beyond that, such as a procedure of the user's, it notes ([`Effects::computed`]). It does
//!   not know how long that takes: a world with simulated time does.
//! - An engine declares what it needs beyond the core of the interface ([`Engine::needs`]): verbs, the host's
//!   memory.
//! - An engine posts on, opens, closes and connects the queue pairs that it was given, and no others. Between
//!   any two events peers may read and write its memory by verbs, where a region allows it
//!   ([`engine_address`]).

mod capabilities;
mod effects;
mod membership;
mod memory;

pub use capabilities::{Capabilities, Unmet};
pub use effects::{Computation, DMA_LINE, Effect, Effects};
pub use membership::{Configuration, EngineState, EngineStatus, Epoch, NODES_MAX, NodeId, NodeSet, View};
pub use memory::{Accesses, ENGINE_MEMORY, Memory, engine_address, engine_of};

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_time::Instant;
use weft_verbs::{CompletionStatus, QueuePairNumber};

/// A protocol engine. See the crate's documentation for the contract.
pub trait Engine {
    /// The capabilities that engines of this type need at most.
    const NEEDS: Capabilities = Capabilities::CORE;

    /// The capabilities that this engine needs. They are checked when a card or a process is assembled. An
    /// effect that was not declared is a bug in the engine.
    fn needs(&self) -> Capabilities {
        Self::NEEDS
    }

    /// Handles one event: emits its effects, and may read and write the engine's memory.
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>);

    /// The status registers: the engine's epoch and its state in that epoch.
    fn status(&self) -> EngineStatus;

    /// Named counters in a fixed order: counts of what the engine did, and of what it refused and for which
    /// reason.
    fn counters(&self) -> Vec<(&'static str, u64)>;

    /// Whether the engine waits for an answer of `peer`; for operators. `None` if it does not. Otherwise a
    /// mark that changes whenever `peer` makes progress: a peer whose mark stays the same for long delays
    /// this engine. An engine that does not depend on any single peer waits for none.
    fn waits_for(&self, peer: NodeId) -> Option<u64> {
        let _ = peer;
        None
    }
}

/// What an engine uses while it handles an event: its effects and its memory.
pub struct Io<'a> {
    /// Collects the engine's effects.
    pub effects: &'a mut Effects,
    /// The engine's card memory.
    pub memory: &'a mut Memory,
}

/// An event for an engine.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The host has reset the engine: its state is as after power-on, its memory is zero and its timers are
    /// off.
    Reset,
    /// The host has set the membership registers: a new view, or the same view with a longer lease.
    Configure(Configuration),
    /// A client, this node's host or a queue pair makes a request.
    Call {
        /// Destination of the reply.
        caller: Caller,
        /// The request.
        message: Message<'a>,
        /// Whether no further message of the same batch follows. If so, the engine may acknowledge the whole
        /// batch.
        last: bool,
    },
    /// A message of a peer's engine of the same kind.
    Deliver {
        /// The sender. The NIC has checked its address.
        from: NodeId,
        /// The message.
        message: Message<'a>,
        /// As in [`Event::Call`].
        last: bool,
    },
    /// An operation that the engine started by [`Effect::Post`], [`Effect::HostRead`] or
    /// [`Effect::HostWrite`] has completed.
    Done {
        /// The tag of the effect.
        tag: u64,
        /// Status of the completion.
        status: CompletionStatus,
    },
    /// A timer has fired.
    Timer {
        /// The timer's tag.
        tag: u32,
    },
}

/// A message to or from an engine: a kind, numbered by the engine, and a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Kind of the message, in the engine's numbering.
    pub kind: u8,
    /// Content of the message.
    pub payload: &'a [u8],
}

/// The caller, to which the reply goes. Opaque to engines; ordered, so that it can be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller {
    /// A client on the network, by its UDP address.
    Endpoint {
        /// IPv4 address.
        address: Ipv4Addr,
        /// UDP port.
        port: u16,
    },
    /// This node's host, by a token of its choice.
    Host(u32),
    /// A peer that wrote to one of the engine's RPC regions. The reply is a SEND on this local queue pair.
    /// The upper 8 bits hold the queue pair's incarnation, above the 24 bits of its number. So a late reply
    /// goes to the connection that has called, or nowhere.
    QueuePair(QueuePairNumber),
}

impl From<SocketAddrV4> for Caller {
    fn from(address: SocketAddrV4) -> Self {
        Self::Endpoint { address: *address.ip(), port: address.port() }
    }
}
