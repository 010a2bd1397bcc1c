//! The program on the host of a NIC, and what it asks of it.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use weft_nic::{HostCommand, HostEvent, Nic};
use weft_service::psp;
use weft_time::{Duration, Instant};
use weft_verbs::{Modify, QueuePairNumber, ReceiveRequest, WorkRequest};
use weft_waist::Configuration;

/// What a command or an event moves over the bus beside its content (NIC-KV section 5.3.1: a descriptor has 8 to
/// 16 bytes, depending on the direction).
const DESCRIPTOR_BYTES: usize = 16;

/// Of a security association: key, SPI and the peer's address.
const ASSOCIATION_BYTES: usize = 40;

/// The program on the host of a NIC. What it does through the NIC takes time; its own work takes none, unless it says
/// so and runs where that is charged ([`crate::HostThreads`], [`crate::EngineOnHost`]).
pub trait Host {
    /// Something has come from the NIC.
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands);

    /// When the program must be woken.
    fn next_deadline(&self) -> Option<Instant>;

    /// The deadline has come.
    fn wake(&mut self, now: Instant, commands: &mut Commands);

    /// The program's own work since the last call.
    fn take_labour(&mut self) -> Labour {
        Labour::default()
    }
}

/// Work of a program on its host's cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labour {
    /// All work, on one core.
    pub total: Duration,
    /// The most of it that must be done one after the other: threads may share the rest.
    pub longest: Duration,
}

impl Labour {
    /// Something that must be done by one thread.
    pub const fn of(duration: Duration) -> Self {
        Self { total: duration, longest: duration }
    }

    /// Adds what another thread may do meanwhile.
    pub fn add(&mut self, duration: Duration) {
        self.add_pieces(1, duration);
    }

    /// Adds so many things that take `each`, by as many threads as there are.
    pub fn add_pieces(&mut self, pieces: u64, each: Duration) {
        if pieces > 0 {
            self.total += each * pieces;
            self.longest = self.longest.max(each);
        }
    }
}

/// Commands of a host on the way to its NIC.
#[derive(Debug, Default)]
pub struct Commands {
    pub(crate) queue: VecDeque<Command>,
    /// Buffers to use again.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) host_memory: Vec<u8>,
    /// Number of writes by verbs to the host's memory since the program asked, and when the latest reached the card.
    pub(crate) host_writes: (u32, Instant),
}

/// A [`HostCommand`] with its bytes.
#[derive(Debug)]
pub(crate) enum Command {
    Reset { engine: u8 },
    Configure { engine: u8, configuration: Configuration },
    Transmit(Vec<u8>),
    Call { engine: u8, token: u32, kind: u8, payload: Vec<u8> },
    Respond { engine: u8, to: SocketAddrV4, kind: u8, payload: Vec<u8> },
    PostSend(QueuePairNumber, WorkRequest),
    PostReceive(QueuePairNumber, ReceiveRequest),
    Modify(QueuePairNumber, Modify),
    Associate(psp::Change),
}

impl Commands {
    /// Sends a command to the NIC.
    pub fn submit(&mut self, command: HostCommand<'_>) {
        let command = match command {
            HostCommand::Reset { engine } => Command::Reset { engine },
            HostCommand::Configure { engine, configuration } => Command::Configure { engine, configuration },
            HostCommand::Transmit(frame) => Command::Transmit(self.copy(frame)),
            HostCommand::Call { engine, token, kind, payload } => {
                Command::Call { engine, token, kind, payload: self.copy(payload) }
            }
            HostCommand::Respond { engine, to, kind, payload } => {
                Command::Respond { engine, to, kind, payload: self.copy(payload) }
            }
            HostCommand::PostSend(queue_pair, request) => Command::PostSend(queue_pair, request),
            HostCommand::PostReceive(queue_pair, request) => Command::PostReceive(queue_pair, request),
            HostCommand::Modify(queue_pair, change) => Command::Modify(queue_pair, change),
            HostCommand::Associate(change) => Command::Associate(change),
        };
        self.queue.push_back(command);
    }

    /// The host's memory, which verbs of its NIC reach as [`weft_verbs::Target::Host`]; empty if the NIC keeps none.
    /// Whoever takes it out puts it back before the program returns.
    ///
    /// What verbs store is here as soon as the NIC has it, and not when it has crossed the bus: a program that should
    /// be no sooner than that asks [`Commands::take_host_writes`].
    pub fn host_memory(&mut self) -> &mut Vec<u8> {
        &mut self.host_memory
    }

    /// Number of writes by verbs to the host's memory since the last call, and when the latest reached the card.
    pub fn take_host_writes(&mut self) -> (u32, Instant) {
        std::mem::take(&mut self.host_writes)
    }

    /// The oldest command, for a host between a program and the NIC.
    pub(crate) fn take(&mut self) -> Option<Command> {
        self.queue.pop_front()
    }

    /// Passes on what a program behind this host has asked of the NIC.
    pub(crate) fn pass_on(&mut self, command: Command) {
        self.queue.push_back(command);
    }

    fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }
}

impl Command {
    /// Bytes on the bus, if the payload of a request of at most `inline_bytes` goes along.
    pub(crate) fn bytes(&self, inline_bytes: u64) -> usize {
        DESCRIPTOR_BYTES
            + match self {
                Self::Transmit(bytes)
                | Self::Call { payload: bytes, .. }
                | Self::Respond { payload: bytes, .. } => bytes.len(),
                Self::PostSend(_, request) if u64::from(request.local.length) <= inline_bytes => {
                    request.local.length as usize
                }
                Self::Reset { .. }
                | Self::Configure { .. }
                | Self::PostSend(..)
                | Self::PostReceive(..)
                | Self::Modify(..) => 0,
                Self::Associate(_) => ASSOCIATION_BYTES,
            }
    }

    /// Gives the command to the NIC, and its buffer back.
    pub(crate) fn submit_to(self, nic: &mut impl Nic, now: Instant) -> Option<Vec<u8>> {
        match self {
            Self::Reset { engine } => nic.submit(now, HostCommand::Reset { engine }),
            Self::Configure { engine, configuration } => {
                nic.submit(now, HostCommand::Configure { engine, configuration });
            }
            Self::Transmit(frame) => {
                nic.submit(now, HostCommand::Transmit(&frame));
                return Some(frame);
            }
            Self::Call { engine, token, kind, payload } => {
                nic.submit(now, HostCommand::Call { engine, token, kind, payload: &payload });
                return Some(payload);
            }
            Self::Respond { engine, to, kind, payload } => {
                nic.submit(now, HostCommand::Respond { engine, to, kind, payload: &payload });
                return Some(payload);
            }
            Self::PostSend(queue_pair, request) => {
                nic.submit(now, HostCommand::PostSend(queue_pair, request))
            }
            Self::PostReceive(queue_pair, request) => {
                nic.submit(now, HostCommand::PostReceive(queue_pair, request));
            }
            Self::Modify(queue_pair, change) => nic.submit(now, HostCommand::Modify(queue_pair, change)),
            Self::Associate(change) => nic.submit(now, HostCommand::Associate(change)),
        }
        None
    }
}

/// Bytes of an event on the bus.
pub(crate) fn event_bytes(event: &HostEvent) -> usize {
    DESCRIPTOR_BYTES
        + match event {
            HostEvent::Frame(bytes)
            | HostEvent::Reply { payload: bytes, .. }
            | HostEvent::Request { payload: bytes, .. } => bytes.len(),
            HostEvent::Completion(_) | HostEvent::Status { .. } => 0,
        }
}
