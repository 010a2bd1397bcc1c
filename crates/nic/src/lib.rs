//! The `Nic` trait, and the soft NIC that assembles wire, transport and engines.
//!
//! A NIC is a black box with a frame port, a host port and a clock. A world drives it and knows nothing
//! of what is inside, so the soft NIC and a Verilated one are interchangeable.
//!
//! # Contract
//!
//! Put something in ([`Nic::receive_frame`], [`Nic::submit`], [`Nic::handle_deadline`]), then drain what comes out
//! ([`Nic::poll_frame`], [`Nic::poll_host`] and [`Nic::poll_dma`] until `None`), then ask [`Nic::next_deadline`] when
//! to come back with nothing new. `now` never runs backwards. What is not drained waits; nothing is lost inside. Inputs
//! may be batched before draining: messages to one destination then share datagrams.

mod attached;
mod card;
mod counters;
mod dma;
mod driver;
mod egress;
mod engine_host;
mod memory;
mod neighbours;
mod no_engine;
mod ownership;
mod replies;
mod slot;
mod soft;
mod waiting;

pub use attached::{AttachedMemory, attached_address};
pub use card::{Card, CardConfig};
pub use dma::{DmaDirection, DmaRequest};
pub use driver::RdmaDriver;
pub use egress::Egress;
pub use engine_host::{EngineHost, Ports, Sender, messages};
pub use memory::PayloadPlace;
pub use no_engine::NoEngine;
pub use ownership::Peering;
pub use soft::{SoftNic, SoftNicConfig};

use std::net::SocketAddrV4;

use weft_service::psp;
use weft_time::{Duration, Instant};
use weft_verbs::{Completion, Modify, QueuePairNumber, ReceiveRequest, WorkRequest};
use weft_waist::{Accesses, Configuration, EngineStatus};

/// A network card. See the crate's documentation for the contract.
pub trait Nic {
    /// A frame, without preamble and frame check sequence, has arrived on the port. Frames that the NIC does not
    /// serve itself go to the host untouched.
    fn receive_frame(&mut self, now: Instant, frame: &[u8]);

    /// The host asks for something.
    fn submit(&mut self, now: Instant, command: HostCommand<'_>);

    /// When [`Nic::handle_deadline`] must be called if nothing else happens before.
    fn next_deadline(&self) -> Option<Instant>;

    /// Handles what is due at `now`. A call before the deadline has no effect.
    fn handle_deadline(&mut self, now: Instant);

    /// Appends the next frame to send to `frame`, which the caller has cleared; `false` if there is none.
    fn poll_frame(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool;

    /// The next thing for the host.
    fn poll_host(&mut self) -> Option<HostEvent>;

    /// The next copy between the host's memory and an engine's, for the world to carry out. A NIC whose engines have no
    /// such effect returns none.
    fn poll_dma(&mut self) -> Option<DmaRequest> {
        None
    }

    /// The labour of the event whose effect was polled last: the world hands that effect on so much later, when a core
    /// has done the work.
    fn labour(&self) -> Duration {
        Duration::ZERO
    }

    /// Carries out a copy that [`Nic::poll_dma`] has given: an input, after which the NIC is drained. The bytes are
    /// taken now.
    fn complete_dma(&mut self, now: Instant, request: &DmaRequest) {
        unreachable!("nobody has asked for {request:?} at {now}")
    }

    /// Work done since the last call, for worlds that charge time for it. A clocked NIC takes its own time and reports
    /// none.
    fn take_work(&mut self) -> Work;

    /// The memory of the host behind [`weft_verbs::Target::Host`], if the NIC keeps it: a world lends it to the host's
    /// program.
    fn host_memory(&mut self) -> Option<&mut Vec<u8>> {
        None
    }

    /// Named counters in a fixed order: traffic by kind, and everything that was dropped, by cause.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}

/// A request of the host to its NIC.
#[derive(Clone, Debug)]
pub enum HostCommand<'a> {
    /// Reset an engine and its memory: it starts empty, as at power-on.
    Reset {
        /// The engine's slot.
        engine: u8,
    },
    /// Write the membership registers of an engine.
    Configure {
        /// The engine's slot.
        engine: u8,
        /// New content of the registers.
        configuration: Configuration,
    },
    /// Send an ordinary frame unchanged.
    Transmit(&'a [u8]),
    /// Call an engine.
    Call {
        /// The engine's slot.
        engine: u8,
        /// Comes back with the reply.
        token: u32,
        /// The message's kind, in the engine's numbering.
        kind: u8,
        /// Content of the message.
        payload: &'a [u8],
    },
    /// Answer a client whose request arrived as [`HostEvent::Request`]. A message that fits no datagram is counted and
    /// dropped.
    Respond {
        /// Slot of the answering host half.
        engine: u8,
        /// The client.
        to: SocketAddrV4,
        /// The message's kind, in the numbering of the engine's clients.
        kind: u8,
        /// Content of the message.
        payload: &'a [u8],
    },
    /// Post to a send queue; a refusal comes back as a completion in error. The highest bit of the request's tag is the
    /// card's own and must be zero.
    PostSend(QueuePairNumber, WorkRequest),
    /// Post to a receive queue.
    PostReceive(QueuePairNumber, ReceiveRequest),
    /// Change a queue pair, as [`RdmaDriver::modify_queue_pair`] does; a refusal is counted. Completions that wait
    /// stay.
    Modify(QueuePairNumber, Modify),
    /// Change the security associations of the frame port; a refusal is counted. A card that does not seal frames has
    /// none, and counts it as a refusal, too.
    Associate(psp::Change),
}

/// A notification of a NIC to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// A frame that the NIC does not serve itself.
    Frame(Vec<u8>),
    /// A work request of the host has ended.
    Completion(Completion),
    /// The status registers of an engine have changed.
    Status {
        /// The engine's slot.
        engine: u8,
        /// Content of the status registers.
        status: EngineStatus,
    },
    /// An engine has answered a call of the host.
    Reply {
        /// The engine's slot.
        engine: u8,
        /// The call's token.
        token: u32,
        /// The message's kind, in the engine's numbering.
        kind: u8,
        /// Content of the message.
        payload: Vec<u8>,
    },
    /// A client's message to a slot whose clients the host serves ([`Card::serve_clients_on_host`]).
    Request {
        /// The slot.
        engine: u8,
        /// The client.
        from: SocketAddrV4,
        /// The message's kind, in the numbering of the engine's clients.
        kind: u8,
        /// Content of the message.
        payload: Vec<u8>,
    },
}

/// Work of a NIC: the simulator's cost profiles turn it into time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Frames parsed.
    pub frames_received: u32,
    /// Frames built.
    pub frames_sent: u32,
    /// Engine messages handled.
    pub messages: u32,
    /// Accesses of engines to card memory.
    pub memory: Accesses,
    /// What engines say that their events have cost beyond that, as time of a host's core.
    pub labour: Duration,
    /// The most of it that one event has cost.
    pub labour_longest: Duration,
    /// Accesses of engines to what they keep in the host's memory.
    pub host_state: Accesses,
    /// Accesses of verbs to HBM: responses wait for them, and nothing else does.
    pub verbs: Accesses,
    /// Bytes that verbs have read from the host's memory.
    pub host_memory: HostReads,
    /// Number of writes by verbs to the host's memory.
    pub host_writes: u32,
}

/// Reads of the host's memory by verbs for the frames that were built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostReads {
    /// Responses to READs that were begun.
    pub responses: u32,
    /// Bytes in the first packet of a request, the largest: a card may have had them along with the request.
    pub request_bytes: u32,
}
