//! Costs of hosts: their processors and processes.

use super::{
    DRAM, ESTIMATE, Figure, HAMBAND_CALL, HAMBAND_UPDATE, MU_PERMISSION, NIC_KV_5_2, XENIC_APPLICATION,
    XENIC_HOST, XENIC_RIVALS, XENIC_SHARED,
};

/// Costs of an engine in a process on a host, which runs on one core and handles one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCost {
    /// Time to handle a call or a message.
    pub operation: Figure,
    /// Time to receive a frame.
    pub frame_receive: Figure,
    /// Time to send a frame.
    pub frame_send: Figure,
    /// Time to post a work request, to take a completion, or to check a timer.
    pub verb: Figure,
    /// Time of one read burst of memory.
    pub memory_read: Figure,
    /// The same for data that was read just before.
    pub repeated_read: Figure,
    /// Time to change the peer's permissions on a queue pair.
    pub access: Figure,
    /// Time to reset a queue pair and connect it again.
    pub connect: Figure,
}

/// A process on a core of the host of `host-card`, with an RDMA card.
pub const HOST_PROCESS: HostCost = HostCost {
    operation: Figure::time("message", 139_130, XENIC_HOST),
    frame_receive: Figure::time("frame, receive", 278_261, XENIC_HOST),
    frame_send: Figure::time("frame, send", 278_261, XENIC_HOST),
    verb: Figure::time("request posted, completion taken or timer seen", 50_000, ESTIMATE),
    memory_read: DRAM.read,
    repeated_read: DRAM.repeated.expect("behind caches"),
    access: Figure::time("queue pair, access flags", 88_000_000, MU_PERMISSION),
    connect: Figure::time("queue pair, reset and connected", 1_216_000_000, MU_PERMISSION),
};

/// The same process if it exchanges messages by datagrams of the RDMA card, as FaSST does, and DrTM+H too.
pub const HOST_DATAGRAMS: HostCost = HostCost {
    operation: Figure::time("message, of datagrams", 97_000, XENIC_RIVALS),
    frame_receive: Figure::time("frame, receive, of datagrams", 194_000, XENIC_RIVALS),
    frame_send: Figure::time("frame, send, of datagrams", 194_000, XENIC_RIVALS),
    ..HOST_PROCESS
};

impl HostCost {
    /// All constants, in the order of the table.
    pub fn figures(&self) -> [Figure; 8] {
        let Self { operation, frame_receive, frame_send, verb, memory_read, repeated_read, access, connect } =
            *self;
        [operation, frame_receive, frame_send, verb, memory_read, repeated_read, access, connect]
    }
}

/// Costs that differ in a process of two threads, each on its own core. The first handles the application's
/// calls and the completions of their requests. The second handles timers, polls memory and receives
/// messages. Each handles one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoCoreCost {
    /// Time to handle a call.
    pub call: Figure,
    /// Additional time of a call that posts or sends something.
    pub update: Figure,
    /// Time to post a work request or to take a completion.
    pub verb: Figure,
    /// Time to check a timer.
    pub timer: Figure,
    /// Time of one read burst of memory that no verb has written since it was last read.
    pub cache_read: Figure,
    /// Latency from a write of the card to the host's memory until a core sees it.
    pub visible: Figure,
}

/// The process of Hamband.
pub const HAMBAND_PROCESS: TwoCoreCost = TwoCoreCost {
    call: Figure::time("call", 70_000, HAMBAND_CALL),
    update: Figure::time("call that posts or sends, in addition", 244_000, HAMBAND_UPDATE),
    verb: Figure::time("request posted, or completion taken", 136_000, HAMBAND_UPDATE),
    timer: Figure::time("timer seen", 50_000, ESTIMATE),
    cache_read: Figure::time(
        "memory read, unchanged since",
        5_000,
        "estimate: a line in the core's own cache",
    ),
    visible: Figure::time("PCIe, to where a core sees what a verb has written", 288_000, NIC_KV_5_2),
};

impl TwoCoreCost {
    /// All constants, in the order of the table.
    pub fn figures(&self) -> [Figure; 6] {
        let Self { call, update, verb, timer, cache_read, visible } = *self;
        [call, update, verb, timer, cache_read, visible]
    }
}

/// The processor of a host, whose cores run two threads each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostProcessor {
    /// Number of cores.
    pub cores: Figure,
    /// Speed of a thread while the other thread of its core is busy, in per cent of its speed alone.
    pub shared_percent: Figure,
}

/// The processor on which Xenic and its baselines were measured.
pub const HOST_PROCESSOR: HostProcessor = HostProcessor {
    cores: Figure::count("cores, of two threads each", 16, "Xenic section 5"),
    shared_percent: Figure::count("a thread beside another on its core, of 100", 64, XENIC_SHARED),
};

impl HostProcessor {
    /// Throughput of `threads` busy threads together, in per cent of one thread alone. Each has its own core
    /// as long as there are enough cores. The processor has at most two threads for each core.
    pub fn capacity_percent(&self, threads: u32) -> u64 {
        let (cores, threads) = (self.cores.value, u64::from(threads).min(2 * self.cores.value));
        let pairs = threads.saturating_sub(cores);
        (threads - 2 * pairs) * 100 + 2 * pairs * self.shared_percent.value
    }

    /// All constants, in the order of the table.
    pub fn figures(&self) -> [Figure; 2] {
        [self.cores, self.shared_percent]
    }
}

/// Costs of transactions in the host's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionCost {
    /// Time to start a transaction.
    pub start: Figure,
    /// Time to handle an outcome.
    pub end: Figure,
    /// Time to apply one object of the log to the table.
    pub apply: Figure,
    /// Time to compare 1,024 bytes of two values that are in the core's caches.
    pub compare: Figure,
}

/// The costs on the host on which Xenic was measured. They are upper bounds, since its threads could not have
/// handled the load otherwise.
pub const HOST_TRANSACTION: TransactionCost = TransactionCost {
    start: Figure::time("transaction, start", 83_333, XENIC_APPLICATION),
    end: Figure::time("transaction, end", 83_333, XENIC_APPLICATION),
    apply: Figure::time(
        "object of the log, applied",
        59_524,
        "Xenic sections 5.5, 5.6: 3 worker threads for 12.0 M transactions a second of 1.4 written objects at 3 replicas",
    ),
    compare: Figure::time(
        "1,024 B of a value, compared with the former one",
        80_000,
        "estimate: 128 pairs of words, 0.6 ns each",
    ),
};

impl TransactionCost {
    /// All constants, in the order of the table.
    pub fn figures(&self) -> [Figure; 4] {
        [self.start, self.end, self.apply, self.compare]
    }
}
