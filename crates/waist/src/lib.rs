//! The waist: what every protocol engine is, and all that it may touch.
//!
//! An engine is a pure state machine. It is told [`Event`]s and answers with [`Effect`]s; it reads and writes
//! the card memory that it was given, and nothing else: no socket, clock, thread or random source. The same
//! vocabulary is a bundle of streams in gateware, so an engine has a twin there and the two can be compared
//! effect by effect and memory byte by memory byte.
//!
//! # Contract
//!
//! - [`Engine::handle`] is called with events one at a time and with a `now` that never runs backwards. It
//!   returns after a bounded amount of work and allocates nothing.
//! - Effects take place in the order in which they were emitted, all of them after the event.
//! - Messages ([`Effect::Send`], [`Effect::Reply`]) may be lost, duplicated, delayed and reordered; content is intact.
//! - A timer fires at or after its time, once, unless set again before. A late timer is not an error.
//! - Near memory ([`Memory`]) is accessed in the middle of an event; the world charges the time that it costs by
//!   delaying the event's effects. What takes long or may fail (verbs on a queue pair, the host's memory behind a
//!   bus) is an effect whose outcome comes back as [`Event::Done`].
//! - An engine says beforehand what it needs beyond the core of the waist ([`Engine::needs`]): verbs, the host's
//!   memory.
//! - An engine posts on, opens, closes and connects the queue pairs that it was given, and no others. Peers may read
//!   and write its memory by verbs where a region says so ([`engine_address`]), between any two events.

mod capabilities;
mod effects;
mod membership;
mod memory;

pub use capabilities::{Capabilities, Unmet};
pub use effects::{DMA_LINE, Effect, Effects};
pub use membership::{Configuration, EngineState, EngineStatus, Epoch, NODES_MAX, NodeId, NodeSet, View};
pub use memory::{Accesses, ENGINE_MEMORY, Memory, engine_address, engine_of};

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_time::Instant;
use weft_verbs::{CompletionStatus, QueuePairNumber};

/// A protocol engine. See the crate's documentation for the contract.
pub trait Engine {
    /// Capabilities that engines of this type need at most.
    const NEEDS: Capabilities = Capabilities::CORE;

    /// Capabilities that this engine needs. They are checked when a card or a process is put together; an undeclared
    /// effect is a bug in the engine.
    fn needs(&self) -> Capabilities {
        Self::NEEDS
    }

    /// Takes one event and emits its effects, reading and writing the engine's memory on the way.
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>);

    /// Status registers: the engine's epoch and its state in that epoch.
    fn status(&self) -> EngineStatus;

    /// Named counters, in a fixed order, of what happened and of what was refused and why.
    fn counters(&self) -> Vec<(&'static str, u64)>;

    /// Whether something here waits for `peer` to answer, for operators: `None` if nothing does, else a mark that
    /// changes whenever `peer` gets on. A peer whose mark stays the same for long holds this engine up. An engine that
    /// goes on without any one of its peers waits for none.
    fn waits_for(&self, peer: NodeId) -> Option<u64> {
        let _ = peer;
        None
    }
}

/// Output of an engine and its access to memory while it handles an event.
pub struct Io<'a> {
    /// Collects the engine's effects.
    pub effects: &'a mut Effects,
    /// The card memory that it was given.
    pub memory: &'a mut Memory,
}

/// An event for an engine.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The host has reset the engine: it is as at power-on, its memory is zero and its timers are off.
    Reset,
    /// The host has set the membership registers: a new view, or the same view with a longer lease.
    Configure(Configuration),
    /// A client, this node's host or a queue pair asks for something.
    Call {
        /// Destination of the reply.
        caller: Caller,
        /// The request.
        message: Message<'a>,
        /// No further message of the same batch follows: a good moment to acknowledge all of it.
        last: bool,
    },
    /// A peer's engine of the same kind says something.
    Deliver {
        /// The sender. The NIC has checked it against the peer's address.
        from: NodeId,
        /// The message.
        message: Message<'a>,
        /// As in [`Event::Call`].
        last: bool,
    },
    /// Something that the engine started with [`Effect::Post`], [`Effect::HostRead`] or [`Effect::HostWrite`] has
    /// ended.
    Done {
        /// The tag that it was started with.
        tag: u64,
        /// Status of the completion.
        status: CompletionStatus,
    },
    /// A timer that the engine set has fired.
    Timer {
        /// The tag that it was set with.
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

/// The caller, and therefore the destination of the reply. Opaque to engines; ordered so that it can be a key.
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
    /// A peer that wrote to one of the engine's RPC regions; the reply is a SEND on this local queue pair. Above the
    /// 24 bits of its number stand 8 of its incarnation, so that an answer finds the connection that has asked, or
    /// nobody.
    QueuePair(QueuePairNumber),
}

impl From<SocketAddrV4> for Caller {
    fn from(address: SocketAddrV4) -> Self {
        Self::Endpoint { address: *address.ip(), port: address.port() }
    }
}
