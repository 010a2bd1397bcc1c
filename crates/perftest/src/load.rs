//! The load of an RDMA benchmark, with all options checked and all defaults filled in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weft_results::World;
use weft_time::Duration;
use weft_verbs::{Operation, PathMtu, RemoteAddress};

use super::RdmaError;
use super::draw::draw;
use super::limits::QUEUE_PAIRS_MAX;
use crate::output::Verb;

/// The most memory, in bytes, that the messages of one side may take.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// The largest number of work requests of one queue pair.
const DEPTH_MAX: u32 = 8_192;

/// Number of READs and atomic operations outstanding on one queue pair, as in perftest.
pub(super) const OUTSTANDING_READS: u8 = 16;

/// The verb under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RdmaOperation {
    /// WRITE.
    Write,
    /// WRITE with immediate data.
    WriteImm,
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm,
    /// READ.
    Read,
    /// FETCH_ADD of 1 to one word per queue pair.
    FetchAdd,
    /// CMP_SWAP of one word per queue pair; each replaces a number with the next one.
    CmpSwap,
}

impl RdmaOperation {
    /// All verbs.
    pub const ALL: [Self; 7] =
        [Self::Write, Self::WriteImm, Self::Send, Self::SendImm, Self::Read, Self::FetchAdd, Self::CmpSwap];

    /// The name as users write it, for example `write_imm`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::WriteImm => "write_imm",
            Self::Send => "send",
            Self::SendImm => "send_imm",
            Self::Read => "read",
            Self::FetchAdd => "fetch_add",
            Self::CmpSwap => "cmp_swap",
        }
    }

    /// The verb of the perftest test that has the matching heading.
    pub(super) const fn verb(self) -> Verb {
        match self {
            Self::Write | Self::WriteImm => Verb::Write,
            Self::Send | Self::SendImm => Verb::Send,
            Self::Read => Verb::Read,
            Self::FetchAdd | Self::CmpSwap => Verb::Atomic,
        }
    }

    pub(super) const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CmpSwap)
    }

    /// Whether each message takes a receive request of the server.
    pub(super) const fn consumes_receive(self) -> bool {
        matches!(self, Self::WriteImm | Self::Send | Self::SendImm)
    }

    /// Whether the bytes are stored in the buffer of a receive request.
    pub(super) const fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::SendImm)
    }

    /// The operation for message `number` of a queue pair.
    pub(super) const fn request(self, number: u64, remote: RemoteAddress) -> Operation {
        let immediate = number as u32;
        match self {
            Self::Write => Operation::Write { remote, immediate: None },
            Self::WriteImm => Operation::Write { remote, immediate: Some(immediate) },
            Self::Send => Operation::Send { immediate: None },
            Self::SendImm => Operation::Send { immediate: Some(immediate) },
            Self::Read => Operation::Read { remote },
            Self::FetchAdd => Operation::FetchAdd { remote, add: 1 },
            Self::CmpSwap => Operation::CompareSwap { remote, compare: number, swap: number.wrapping_add(1) },
        }
    }
}

impl fmt::Display for RdmaOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RdmaOperation {
    type Err = RdmaError;

    fn from_str(name: &str) -> Result<Self, RdmaError> {
        let found = Self::ALL.into_iter().find(|operation| operation.name() == name);
        found.ok_or_else(|| RdmaError::UnknownOperation(name.to_owned()))
    }
}

/// Amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// This many messages, on all queue pairs together.
    Messages(u64),
    /// As many messages as can be posted in this time, which is virtual time in `sim`.
    Time(Duration),
}

/// One load from one client to one server. Both sides have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) operation: RdmaOperation,
    /// Number of bytes of a message; the largest number if sizes are random.
    pub(super) size: u32,
    /// Whether each message has a random size from 1 byte to `size`, uniformly distributed.
    pub(super) random_sizes: bool,
    /// Number of queue pairs that exist.
    pub(super) queue_pairs: u32,
    /// Number of queue pairs under load, spread evenly over all queue pairs.
    pub(super) busy: u32,
    /// Path MTU in bytes.
    pub(super) mtu: u32,
    /// Number of work requests outstanding on each queue pair under load, each with its own buffer.
    pub(super) depth: u32,
    pub(super) amount: Amount,
    /// Number of single messages that follow the load, to measure their latency.
    pub(super) latency_messages: u64,
    /// The interval, in messages, at which all bytes of a message are compared immediately. Of other
    /// messages, only stamps are compared.
    pub(super) compare_every: u64,
    pub(super) seed: u64,
    /// Settings of the transport for the world.
    pub(super) tuning: Tuning,
}

/// Settings of the transport for a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tuning {
    /// The local acknowledgement time-out, as a code.
    timeout: u8,
    /// Number of bytes in flight on one queue pair if nothing else limits them.
    window_bytes: u32,
    /// The largest number of packets in flight on one queue pair.
    window_packets_max: u32,
    /// Number of windows that the work requests of a queue pair fill by default.
    depth_windows: u32,
    /// Whether that number is divided among the queue pairs under load.
    depth_divided: bool,
    /// Number of packets that a queue pair sends when it has its turn.
    pub(super) burst_packets: u32,
}

impl Tuning {
    /// For virtual time: the window is many times what the wire's round trip needs, and a turn is one packet.
    /// The time-out is 4.2 ms.
    pub(super) const SIM: Self = Self {
        timeout: 10,
        window_bytes: 256 << 10,
        window_packets_max: 2_048,
        depth_windows: 2,
        depth_divided: false,
        burst_packets: 1,
    };

    /// For two processes that may have to wait for a core, with sockets that send up to 15 packets of 4,096
    /// bytes in one call. Both ends have work while a window is in flight. The messages of one window fit in
    /// a second-level cache, however many queue pairs they are on. The time-out is 67 ms.
    pub(super) const NET: Self = Self {
        timeout: 14,
        window_bytes: 1 << 20,
        window_packets_max: 4_096,
        depth_windows: 1,
        depth_divided: true,
        burst_packets: 16,
    };

    pub(super) const fn of(world: World) -> Self {
        match world {
            World::Sim => Self::SIM,
            World::Net => Self::NET,
        }
    }

    pub(super) const fn timeout(&self) -> u8 {
        self.timeout
    }

    /// The default number of work requests of `size` bytes on each of `busy` queue pairs.
    pub(super) fn default_depth(&self, size: u32, busy: u32) -> u32 {
        let together = (self.depth_windows * self.window_bytes / size.max(1)).clamp(8, 4_096);
        if self.depth_divided { together.div_ceil(busy.max(1)) } else { together }
    }
}

impl Load {
    /// Checks the user's options.
    pub(super) fn check(&self) -> Result<(), RdmaError> {
        let Self { operation, size, queue_pairs, busy, mtu, depth, .. } = *self;
        if size == 0 {
            return Err(RdmaError::EmptyMessage);
        }
        if operation.is_atomic() && size != 8 {
            return Err(RdmaError::AtomicSize(size));
        }
        if operation.is_atomic() && self.random_sizes {
            return Err(RdmaError::AtomicRandomSizes);
        }
        if !PathMtu::ALL.iter().any(|known| known.bytes() == mtu) {
            return Err(RdmaError::Mtu(mtu));
        }
        if !(1..=QUEUE_PAIRS_MAX).contains(&queue_pairs) {
            return Err(RdmaError::QueuePairs(queue_pairs));
        }
        if !(1..=queue_pairs).contains(&busy) {
            return Err(RdmaError::BusyQueuePairs { busy, queue_pairs });
        }
        if !(1..=DEPTH_MAX).contains(&depth) {
            return Err(RdmaError::Depth(depth));
        }
        let bytes = u64::from(busy) * u64::from(depth) * self.stride();
        if bytes > MEMORY_BYTES_MAX / 2 {
            return Err(RdmaError::Memory { bytes, limit: MEMORY_BYTES_MAX / 2 });
        }
        if matches!(self.amount, Amount::Messages(0) | Amount::Time(Duration::ZERO)) {
            return Err(RdmaError::NothingToDo);
        }
        Ok(())
    }

    pub(super) fn path_mtu(&self) -> PathMtu {
        let known = PathMtu::ALL.into_iter().find(|known| known.bytes() == self.mtu);
        known.expect("checked before anything else")
    }

    /// Number of bytes of message `number` of queue pair `flow`, counted among those under load.
    pub(super) fn size_of(&self, flow: u32, number: u64) -> u32 {
        if !self.random_sizes {
            return self.size;
        }
        1 + (draw(!self.seed, flow.into(), number) % u64::from(self.size)) as u32
    }

    /// Number of packets of a message; the largest number if sizes are random.
    pub(super) fn packets(&self) -> u32 {
        self.size.div_ceil(self.mtu)
    }

    /// Number of packets in flight on one queue pair.
    pub(super) fn window_packets(&self) -> u32 {
        (self.tuning.window_bytes / self.size.min(self.mtu)).clamp(64, self.tuning.window_packets_max)
    }

    /// Distance from one buffer to the next: a whole number of cache lines.
    pub(super) fn stride(&self) -> u64 {
        u64::from(self.size).next_multiple_of(64)
    }

    /// Number of receive requests of a queue pair: twice the sender's depth, because an acknowledgement may
    /// reach the sender before the server's host has posted the next receive request.
    pub(super) fn receive_depth(&self) -> u32 {
        if self.operation.consumes_receive() { 2 * self.depth } else { 0 }
    }

    /// The interval, in work requests, at which one has a visible completion, as with perftest's `--cq-mod`.
    pub(super) fn signal_every(&self) -> u64 {
        u64::from(self.depth / 4).clamp(1, 64)
    }

    /// The index, among all queue pairs, of queue pair `flow` of those under load.
    pub(super) fn place(&self, flow: u32) -> usize {
        (u64::from(flow) * u64::from(self.queue_pairs) / u64::from(self.busy)) as usize
    }
}
