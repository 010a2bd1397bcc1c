//! The `Nic` trait, and the soft NIC, which consists of wire formats, transport and engines.
//!
//! A NIC is a black box with a frame port, a host port and a clock. A world drives it through the trait only,
//! so the soft NIC and a Verilated NIC are interchangeable.
//!
//! # Contract
//!
//! After an input ([`Nic::receive_frame`], [`Nic::submit`], [`Nic::handle_deadline`]), drain the outputs
//! ([`Nic::poll_frame`], [`Nic::poll_host`] and [`Nic::poll_dma`] until `None`). Then [`Nic::next_deadline`]
//! returns when to call again if there is no other input. `now` never decreases. Outputs that are not drained
//! stay queued; the NIC loses nothing. Inputs may be batched before draining: messages to one destination
//! then share datagrams.

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
use weft_waist::{Accesses, Computation, Configuration, EngineStatus};

/// A network card. See the crate's documentation for the contract.
pub trait Nic {
    /// A frame, without preamble and frame check sequence, has arrived at the port. Frames that the NIC does
    /// not handle itself go to the host unchanged.
    fn receive_frame(&mut self, now: Instant, frame: &[u8]);

    /// Executes a command of the host.
    fn submit(&mut self, now: Instant, command: HostCommand<'_>);

    /// When [`Nic::handle_deadline`] must be called if there is no other input before.
    fn next_deadline(&self) -> Option<Instant>;

    /// Handles deadlines that have expired at `now`. A call before the deadline has no effect.
    fn handle_deadline(&mut self, now: Instant);

    /// Appends the next frame to send to `frame`, which the caller has cleared. Returns `false` if there is
    /// none.
    fn poll_frame(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool;

    /// The next event for the host.
    fn poll_host(&mut self) -> Option<HostEvent>;

    /// The next copy between the host's memory and an engine's, which the world must execute. A NIC whose
    /// engines do not request copies returns none.
    fn poll_dma(&mut self) -> Option<DmaRequest> {
        None
    }

    /// CPU time of the event whose output was polled last, as the card's [`Meter`] says. The world delivers
    /// that output later by this time, when a core has done the work.
    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Executes a copy that [`Nic::poll_dma`] has returned. The bytes are copied now. This is an input, after
    /// which the NIC must be drained.
    fn complete_dma(&mut self, now: Instant, request: &DmaRequest) {
        unreachable!("nobody has asked for {request:?} at {now}")
    }

    /// Work done since the last call, for worlds that charge time for it. A clocked NIC takes its own time
    /// and reports no work.
    fn take_work(&mut self) -> Work;

    /// The host's memory, [`weft_verbs::Target::Host`], if the NIC holds it. A world lends it to the host's
    /// program.
    fn host_memory(&mut self) -> Option<&mut Vec<u8>> {
        None
    }

    /// Named counters in a fixed order: traffic by kind, and dropped packets by cause.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}

/// A command of the host to its NIC.
#[derive(Clone, Debug)]
pub enum HostCommand<'a> {
    /// Reset an engine and its memory, so that its state is as after power-on.
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
    /// Transmit a frame unchanged.
    Transmit(&'a [u8]),
    /// Call an engine.
    Call {
        /// The engine's slot.
        engine: u8,
        /// Identifies the call; the reply returns it.
        token: u32,
        /// The message's kind, in the engine's numbering.
        kind: u8,
        /// Content of the message.
        payload: &'a [u8],
    },
    /// Reply to a client whose request arrived as [`HostEvent::Request`]. A message that is too long for a
    /// datagram is dropped and counted.
    Respond {
        /// Slot of the engine whose host half replies.
        engine: u8,
        /// The client.
        to: SocketAddrV4,
        /// The message's kind, in the numbering of the engine's clients.
        kind: u8,
        /// Content of the message.
        payload: &'a [u8],
    },
    /// Post a work request; a refusal comes back as a completion with an error. The highest bit of the
    /// request's tag is reserved for the card, and must be zero.
    PostSend(QueuePairNumber, WorkRequest),
    /// Post a receive request.
    PostReceive(QueuePairNumber, ReceiveRequest),
    /// Change a queue pair, as [`RdmaDriver::modify_queue_pair`] does. A refusal is counted. Pending
    /// completions stay queued.
    Modify(QueuePairNumber, Modify),
    /// Change the security associations of the frame port. A refusal is counted; a card that does not encrypt
    /// frames refuses every change.
    Associate(psp::Change),
}

/// An event that a NIC reports to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// A frame that the NIC does not handle itself.
    Frame(Vec<u8>),
    /// A work request of the host has completed.
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

/// Says how long computations of engines take on a core of a reference host. A world with simulated time hands one to
/// its cards ([`Card::set_meter`]); a card without a meter reports no CPU time.
pub trait Meter: std::fmt::Debug + Send {
    /// CPU time of the computations of one event.
    fn cpu_time(&self, computations: &[Computation]) -> Duration;
}

/// Work of a NIC, which the simulator's cost profiles convert to time. Other worlds never take it, so it grows as long
/// as the NIC runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Frames decoded.
    pub frames_received: u64,
    /// Frames encoded.
    pub frames_sent: u64,
    /// Engine messages handled.
    pub messages: u64,
    /// Accesses of engines to card memory.
    pub memory: Accesses,
    /// CPU time of the engines' computations, as the card's [`Meter`] says: on a reference host.
    pub cpu_time: Duration,
    /// Accesses of engines to data that they keep in the host's memory.
    pub host_state: Accesses,
    /// Accesses of verbs to HBM. Only responses wait for them.
    pub verbs: Accesses,
    /// Bytes that verbs have read from the host's memory.
    pub host_memory: HostReads,
    /// Number of writes by verbs to the host's memory.
    pub host_writes: u64,
}

/// Reads of the host's memory by verbs, for frames that were encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostReads {
    /// Number of READ responses that were started.
    pub responses: u64,
    /// The most bytes in the first packet of a request. A card may have got these bytes along with the
    /// request.
    pub request_bytes: u32,
}
