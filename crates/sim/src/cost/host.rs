//! Costs of hosts: their processors, and the processes on them.

use super::{
    DRAM, ESTIMATE, Figure, HAMBAND_CALL, HAMBAND_UPDATE, MU_PERMISSION, NIC_KV_5_2, XENIC_APPLICATION,
    XENIC_HOST, XENIC_RIVALS, XENIC_SHARED,
};

/// Costs of an engine in a process on a host, on one core, which does one thing after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCost {
    /// To handle a call or a message.
    pub operation: Figure,
    /// To take a frame in.
    pub frame_receive: Figure,
    /// To send a frame out.
    pub frame_send: Figure,
    /// To post a work request, take a completion or look at a timer.
    pub verb: Figure,
    /// To read memory: one burst.
    pub memory_read: Figure,
    /// To read what was read moments before.
    pub repeated_read: Figure,
    /// To change what a peer may do through a queue pair.
    pub access: Figure,
    /// To reset a queue pair and connect it again.
    pub connect: Figure,
}

/// A process on a core of the host that `host-card` stands for, beside an RDMA card.
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

/// The same process where it exchanges its messages by datagrams of the RDMA card (FaSST's way, which DrTM+H has, too).
pub const HOST_DATAGRAMS: HostCost = HostCost {
    operation: Figure::time("message, of datagrams", 97_000, XENIC_RIVALS),
    frame_receive: Figure::time("frame, receive, of datagrams", 194_000, XENIC_RIVALS),
    frame_send: Figure::time("frame, send, of datagrams", 194_000, XENIC_RIVALS),
    ..HOST_PROCESS
};

impl HostCost {
    /// Every constant, in the order of the table.
    pub fn figures(&self) -> [Figure; 8] {
        let Self { operation, frame_receive, frame_send, verb, memory_read, repeated_read, access, connect } =
            *self;
        [operation, frame_receive, frame_send, verb, memory_read, repeated_read, access, connect]
    }
}

/// What differs in a process of two threads, a core each: the first has the application's calls and the completions
/// of what they post; the second looks at timers and at memory, and takes messages. Each does one thing after the
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoCoreCost {
    /// To handle a call.
    pub call: Figure,
    /// Additional time of a call that posts or sends something.
    pub update: Figure,
    /// To post a work request or to take a completion.
    pub verb: Figure,
    /// To look at a timer.
    pub timer: Figure,
    /// To read memory that no verb has written since it was read last: one burst.
    pub cache_read: Figure,
    /// From where the card writes into the host's memory to where a core sees it.
    pub visible: Figure,
}

/// A process of Hamband.
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
    /// Every constant, in the order of the table.
    pub fn figures(&self) -> [Figure; 6] {
        let Self { call, update, verb, timer, cache_read, visible } = *self;
        [call, update, verb, timer, cache_read, visible]
    }
}

/// The processor of a host, whose cores run two threads each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostProcessor {
    /// Cores.
    pub cores: Figure,
    /// Speed of a thread while the other one of its core is busy, in per cent of its speed alone.
    pub shared_percent: Figure,
}

/// The one that Xenic and its rivals were measured on.
pub const HOST_PROCESSOR: HostProcessor = HostProcessor {
    cores: Figure::count("cores, of two threads each", 16, "Xenic section 5"),
    shared_percent: Figure::count("a thread beside another on its core, of 100", 64, XENIC_SHARED),
};

impl HostProcessor {
    /// What so many busy threads do together, in hundredths of what one does alone: each has a core to itself as long
    /// as there are cores. The processor has no more threads than two for each core.
    pub fn capacity_percent(&self, threads: u32) -> u64 {
        let (cores, threads) = (self.cores.value, u64::from(threads).min(2 * self.cores.value));
        let pairs = threads.saturating_sub(cores);
        (threads - 2 * pairs) * 100 + 2 * pairs * self.shared_percent.value
    }

    /// Every constant, in the order of the table.
    pub fn figures(&self) -> [Figure; 2] {
        [self.cores, self.shared_percent]
    }
}

/// Costs of transactions in the host program beside the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionCost {
    /// To start one.
    pub start: Figure,
    /// To take its outcome.
    pub end: Figure,
    /// To apply one object of the log to the table.
    pub apply: Figure,
    /// To find out where 1,024 bytes have changed, both values in the core's caches.
    pub compare: Figure,
}

/// Of the host that Xenic was measured on: what its threads do at most, since no fewer would have done.
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
    /// Every constant, in the order of the table.
    pub fn figures(&self) -> [Figure; 4] {
        [self.start, self.end, self.apply, self.compare]
    }
}
