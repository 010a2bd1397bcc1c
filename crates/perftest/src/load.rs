//! The load of an RDMA benchmark, checked and with every choice made.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weft_harness::result::World;
use weft_time::Duration;
use weft_verbs::{Operation, PathMtu, RemoteAddress};

use super::RdmaError;
use super::draw::draw;
use super::limits::QUEUE_PAIRS_MAX;
use crate::output::Verb;

/// The most memory that the messages of one side may take, in bytes.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// The most work requests of one queue pair.
const DEPTH_MAX: u32 = 8_192;

/// READs and atomics outstanding on one queue pair, as in perftest.
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
    /// CMP_SWAP of one word per queue pair from each number to the next.
    CmpSwap,
}

impl RdmaOperation {
    /// All verbs.
    pub const ALL: [Self; 7] =
        [Self::Write, Self::WriteImm, Self::Send, Self::SendImm, Self::Read, Self::FetchAdd, Self::CmpSwap];

    /// As users write it: `write_imm`.
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

    /// The perftest test whose heading fits.
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

    /// Whether each message takes one of the server's receive requests.
    pub(super) const fn consumes_receive(self) -> bool {
        matches!(self, Self::WriteImm | Self::Send | Self::SendImm)
    }

    /// Whether the bytes come to lie in a receive request.
    pub(super) const fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::SendImm)
    }

    /// The work of message `number` of a queue pair.
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
    /// So many messages, over all queue pairs.
    Messages(u64),
    /// As many as can be posted in this time: virtual time in `sim`.
    Time(Duration),
}

/// One load, from one client to one server: the same on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) operation: RdmaOperation,
    /// Bytes of a message; the most, if sizes are random.
    pub(super) size: u32,
    /// Whether each message has a size of its own, from 1 byte to `size`, all alike likely.
    pub(super) random_sizes: bool,
    /// Queue pairs that exist.
    pub(super) queue_pairs: u32,
    /// Queue pairs that work, spread evenly over those that exist.
    pub(super) busy: u32,
    /// Path MTU in bytes.
    pub(super) mtu: u32,
    /// Work requests outstanding on each queue pair that works, each with a buffer of its own.
    pub(super) depth: u32,
    pub(super) amount: Amount,
    /// Messages that follow one at a time, to measure their latency.
    pub(super) latency_messages: u64,
    /// Every so many messages all bytes of one are compared at once; the others by their stamps.
    pub(super) compare_every: u64,
    pub(super) seed: u64,
    /// Settings of the world.
    pub(super) tuning: Tuning,
}

/// Settings of the transport for a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tuning {
    /// Code of the local acknowledgement time-out.
    timeout: u8,
    /// Bytes that are on their way on one queue pair if nothing else limits them.
    window_bytes: u32,
    /// The most packets that are.
    window_packets_max: u32,
    /// Number of windows that the work requests of a queue pair fill by default.
    depth_windows: u32,
    /// Whether that is divided among the queue pairs that work.
    depth_divided: bool,
    /// Packets that a queue pair sends in its turn.
    pub(super) burst_packets: u32,
}

impl Tuning {
    /// Virtual time: a window that covers the wire's round trip many times, and turns of one packet. The time-out is
    /// 4.2 ms.
    pub(super) const SIM: Self = Self {
        timeout: 10,
        window_bytes: 256 << 10,
        window_packets_max: 2_048,
        depth_windows: 2,
        depth_divided: false,
        burst_packets: 1,
    };

    /// Two processes that may have to wait for their core, and sockets that send up to 15 packets of 4,096 bytes as
    /// one: both ends have work while a window is on its way, and the messages of one stay in a second-level cache, on
    /// however many queue pairs they are. The time-out is 67 ms.
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

    /// Work requests of `size` bytes on each of `busy` queue pairs, unless somebody chooses.
    pub(super) fn default_depth(&self, size: u32, busy: u32) -> u32 {
        let together = (self.depth_windows * self.window_bytes / size.max(1)).clamp(8, 4_096);
        if self.depth_divided { together.div_ceil(busy.max(1)) } else { together }
    }
}

impl Load {
    /// Checks what a user chose.
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

    /// Bytes of message `number` of working queue pair `flow`.
    pub(super) fn size_of(&self, flow: u32, number: u64) -> u32 {
        if !self.random_sizes {
            return self.size;
        }
        1 + (draw(!self.seed, flow.into(), number) % u64::from(self.size)) as u32
    }

    /// Packets of a message; the most, if sizes are random.
    pub(super) fn packets(&self) -> u32 {
        self.size.div_ceil(self.mtu)
    }

    /// Packets on their way on one queue pair.
    pub(super) fn window_packets(&self) -> u32 {
        (self.tuning.window_bytes / self.size.min(self.mtu)).clamp(64, self.tuning.window_packets_max)
    }

    /// From one buffer to the next: whole cache lines.
    pub(super) fn stride(&self) -> u64 {
        u64::from(self.size).next_multiple_of(64)
    }

    /// Receive requests of a queue pair: twice the sender's depth, since an acknowledgement may reach the sender before
    /// the server's host has posted the next one.
    pub(super) fn receive_depth(&self) -> u32 {
        if self.operation.consumes_receive() { 2 * self.depth } else { 0 }
    }

    /// Every so many work requests one completes visibly, as perftest's `--cq-mod`.
    pub(super) fn signal_every(&self) -> u64 {
        u64::from(self.depth / 4).clamp(1, 64)
    }

    /// The place of working queue pair `flow` among all that exist.
    pub(super) fn place(&self, flow: u32) -> usize {
        (u64::from(flow) * u64::from(self.queue_pairs) / u64::from(self.busy)) as usize
    }
}
