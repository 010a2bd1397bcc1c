//! The program on the host of a NIC, and its commands to the NIC.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use weft_nic::{HostCommand, HostEvent, Nic};
use weft_service::psp;
use weft_time::{Duration, Instant};
use weft_verbs::{Modify, QueuePairNumber, ReceiveRequest, WorkRequest};
use weft_waist::Configuration;

/// Bytes that a command or an event moves across the bus in addition to its content (NIC-KV section 5.3.1: a
/// descriptor has 8 to 16 bytes, depending on the direction).
const DESCRIPTOR_BYTES: usize = 16;

/// Bytes of a security association: key, SPI and the peer's address.
const ASSOCIATION_BYTES: usize = 40;

/// The program on the host of a NIC. Its commands to the NIC take time. Its own work takes no time, unless it
/// reports that work and runs where it is charged ([`crate::HostThreads`], [`crate::EngineOnHost`]).
pub trait Host {
    /// Handles an event of the NIC.
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands);

    /// When the program must be woken.
    fn next_deadline(&self) -> Option<Instant>;

    /// Handles the deadline.
    fn wake(&mut self, now: Instant, commands: &mut Commands);

    /// CPU time of the program's own work since the last call of this function.
    fn take_cpu_time(&mut self) -> CpuTime {
        CpuTime::default()
    }
}

/// CPU time of a program's work, on cores of a reference host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// The total, as time of one core.
    pub total: Duration,
    /// The longest part that must be done sequentially. Threads may share the rest.
    pub longest: Duration,
}

impl CpuTime {
    /// Work that one thread must do.
    pub const fn of(duration: Duration) -> Self {
        Self { total: duration, longest: duration }
    }

    /// Adds work that another thread may do in parallel.
    pub fn add(&mut self, duration: Duration) {
        self.add_pieces(1, duration);
    }

    /// Adds `pieces` pieces of work that take `each`; any number of threads may share them.
    pub fn add_pieces(&mut self, pieces: u64, each: Duration) {
        if pieces > 0 {
            self.total += each * pieces;
            self.longest = self.longest.max(each);
        }
    }
}

/// Commands of a host to its NIC.
#[derive(Debug, Default)]
pub struct Commands {
    pub(crate) queue: VecDeque<Command>,
    /// Buffers for reuse.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) host_memory: Vec<u8>,
    /// Number of writes by verbs to the host's memory since the program last asked, and when the latest
    /// reached the card.
    pub(crate) host_writes: (u64, Instant),
}

/// A [`HostCommand`] that owns its bytes.
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

    /// The host's memory, [`weft_verbs::Target::Host`] for the NIC's verbs; empty if the NIC has none. A
    /// program that takes the vector must put it back before it returns.
    ///
    /// Writes of verbs are here as soon as the NIC has them, not when they have crossed the bus. A program
    /// that must not see them earlier can ask [`Commands::take_host_writes`].
    pub fn host_memory(&mut self) -> &mut Vec<u8> {
        &mut self.host_memory
    }

    /// Number of writes by verbs to the host's memory since the last call, and when the latest reached the card.
    pub fn take_host_writes(&mut self) -> (u64, Instant) {
        std::mem::take(&mut self.host_writes)
    }

    /// Removes the oldest command, for a host that is between a program and the NIC.
    pub(crate) fn take(&mut self) -> Option<Command> {
        self.queue.pop_front()
    }

    /// Passes on a command of a program behind this host.
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
    /// Bytes on the bus, if payload of at most `inline_bytes` bytes is passed along with a request.
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

    /// Passes the command to the NIC, and returns its buffer.
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
