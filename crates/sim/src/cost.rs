//! The costs of work: profiles of NICs, of a process on a host, and of the environment of a NIC that takes
//! its own time. Every constant has its source.
//!
//! A profile converts the work of a NIC ([`weft_nic::Work`]) to time. It determines when the output is ready
//! (latency) and when the next work may begin (occupancy), so an overloaded NIC falls behind like a real one.
//! [`cost_table_markdown`] prints all constants.

mod host;
mod procedures;
mod table;
#[cfg(test)]
mod tests;

pub use host::{
    HAMBAND_PROCESS, HOST_DATAGRAMS, HOST_PROCESS, HOST_PROCESSOR, HOST_TRANSACTION, HostCost, HostProcessor,
    TransactionCost, TwoCoreCost,
};
pub use procedures::procedure_time;
pub use table::cost_table_markdown;

use weft_time::Duration;

use crate::figure::{Figure, Unit};
use weft_waist::Accesses;

const NIC_KV_5_1: &str = "NIC-KV table 5.1, 128 B";
const NIC_KV_5_2: &str = "NIC-KV table 5.2, 128 B";
const NIC_KV_5_4: &str = "NIC-KV table 5.4: 512 ns more for 3,968 B more";
const NIC_KV_5_8_MAC: &str =
    "NIC-KV table 5.8, the smaller of read and write; the link charges what depends on size";
const NIC_KV_5_8: &str = "NIC-KV table 5.8, read";
const NIC_KV_5_8_MEMORY: &str =
    "NIC-KV table 5.8: controller and HBM; for 1 KB, to judge by the MAC times, which table 5.4 has for 1 KB";
const NIC_KV_5_12: &str = "NIC-KV table 5.12";
const XENIC_NIC: &str =
    "Xenic section 3.3: 71.8 Mops/s on 16 threads; how an operation divides is an estimate";
const XENIC_HOST: &str =
    "Xenic section 3.3: 23.0 Mops/s on 16 threads; how an operation divides is an estimate";
const XENIC_THREADS: &str = "Xenic section 3.3";
const XENIC_RIVALS: &str =
    "Xenic table 3, section 5.5: DrTM+H does 95 % of 5.43 M Smallbank transactions a second on 20 threads";
const XENIC_CORES: &str = "Xenic section 3: the card has 24";
const XENIC_SHARED: &str = "Xenic table 1: of one thread alone, each of 32 does 51 % of Coremark (14771 of 29193) and 78 % of hash_perf (84.0 of \
                            108.1 s); the mean. Table 3 agrees: FaSST has 95 % of what 32 threads do with 28 if it is 63 %";
const XENIC_COREMARK: &str = "Xenic table 1: Coremark on all threads, host to NIC";
const XENIC_APPLICATION: &str =
    "Xenic sections 5.5, 5.6: 2 application threads for 12.0 M Smallbank transactions a second, half each";
const XENIC_DMA: &str = "Xenic section 3.5";
const XENIC_DMA_RATE: &str = "Xenic section 3.5: 8.7 Mops/s; of one queue, since figure 3 has seven times 9.0 to 10.4 Mops/s of small writes \
                              to host memory, limited by the DMA engine";
const XENIC_BURST: &str = "Xenic section 3.3: the burst of the host's packet library";
const XENIC_VERBS: &str =
    "Xenic section 3.4: a CX5 does 15.0 Mops/s of WRITEs of 16 to 256 B with doorbell batching";
const SAFARDB_C_1: &str =
    "SafarDB table C.1: 309 ns from one card into the block RAM of the other, with the network";
const HAMBAND_CALL: &str = "Hamband's published results (fhoushmand/Hamband, infiniband/results): counter without updates, 3 to 8 nodes, \
                            67 to 70 ns for each operation";
const HAMBAND_UPDATE: &str =
    "the same with 20 % updates: by least squares an update takes 314 ns, and 272 ns for each peer";
const MU_PERMISSION: &str = "Mu (OSDI 2020), as measured there";
const DESIGN: &str = "Weft's gateware rules: 512-bit streams at 250 MHz, one beat per cycle";
const ESTIMATE: &str = "estimate";

/// The cost profile of a kind of NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostProfile {
    /// Name of the profile.
    pub name: &'static str,
    /// What the profile stands for, in a few words.
    pub summary: &'static str,
    /// What the figures are based on, for readers of results made with them.
    pub basis: &'static str,
    /// Latencies, in sequence, from a frame's last bit on the wire to the start of the work on it.
    pub receive: &'static [Figure],
    /// Latencies, in sequence, from the end of the work to the frame's first bit on the wire.
    pub transmit: &'static [Figure],
    /// What executes the work.
    pub execution: Execution,
    /// The most waiting frames that one batch takes.
    pub burst_frames: Figure,
    /// The most bytes of frames that wait for the work on them to begin. Frames that do not fit are dropped.
    pub receive_buffer_bytes: Figure,
    /// Costs of the engines' memory.
    pub memory: MemoryCost,
    /// The bus that every frame crosses, if the work is done beyond it.
    pub wire_bus: Option<BusCost>,
    /// The bus between the NIC and its host.
    pub host_bus: Option<BusCost>,
    /// Costs of the host's memory, for engines that keep a part of their state there.
    pub host_memory: Option<MemoryCost>,
    /// Costs of copies between the host's memory and the engines', if engines may request them.
    pub dma: Option<DmaCost>,
}

/// What executes a NIC's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Gateware: frames stream through at one beat per cycle, in both directions at once. Messages take their
    /// own time.
    Pipeline {
        /// Length of a clock cycle.
        cycle: Figure,
        /// Bytes that a cycle moves in each direction.
        beat_bytes: Figure,
        /// Cycles from one message to the next.
        message_cycles: Figure,
    },
    /// Cores: each handles one thing at a time, and all share the work.
    Cores {
        /// Number of threads that share the work.
        threads: Figure,
        /// Time to receive a frame.
        frame_receive: Figure,
        /// Time to handle a message.
        message: Figure,
        /// Time to send a frame.
        frame_send: Figure,
        /// Time that a card's core needs for work that takes a core of the host 100.
        cpu_time_percent: Figure,
    },
    /// A card that does verbs only, without a processor. Its latencies are in `receive`, `transmit` and the bus.
    Verbs {
        /// Interval between two frames that the card builds.
        operation: Figure,
        /// Latency of a read of the host's memory, from the request to the first word: for the data of a
        /// READ, and for payload that was not passed along with its request.
        host_read: Figure,
        /// The most payload bytes that are passed along with a request.
        inline_bytes: Figure,
    },
    /// Gateware that is computed cycle by cycle. It takes its own time, and its work is not charged. Only the
    /// memory around it is modelled.
    Clocked {
        /// Length of a clock cycle.
        cycle: Figure,
        /// Latency of a read of the host's memory, from the address to the first word.
        host_read: Figure,
        /// Latency of a write to the host's memory, from the last word until the host sees it.
        host_write: Figure,
    },
}

/// Costs of the engines' memory.
///
/// The reads of one message depend on each other, so their latencies add up; those of different messages
/// overlap. Writes overlap each other. An answer waits for all writes, even if a real NIC could send it
/// earlier: the model is never too fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCost {
    /// Latency of a read burst.
    pub read: Figure,
    /// Latency of a write burst.
    pub write: Figure,
    /// Time that a channel takes for each byte.
    pub byte: Figure,
    /// Number of channels, which share the bytes evenly.
    pub channels: Figure,
    /// Latency of a read burst of data that was read just before, if there are caches.
    pub repeated: Option<Figure>,
}

impl MemoryCost {
    /// Time of the sequential reads of `messages` messages. The messages share the reads evenly, and the
    /// reads of different messages overlap.
    pub(crate) fn reads(&self, accesses: &Accesses, messages: u64) -> Duration {
        let each = |reads: u64| reads.div_ceil(messages.max(1));
        let repeated = self.repeated.unwrap_or(self.read);
        self.read.duration() * each(accesses.reads) + repeated.duration() * each(accesses.repeated)
    }
}

/// Costs of a PCIe bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusCost {
    /// Latencies towards the host, in sequence.
    pub to_host: &'static [Figure],
    /// Latencies towards the card, in sequence.
    pub to_card: &'static [Figure],
    /// Rate of each direction.
    pub rate: Figure,
}

/// Costs of the queues that copy between the host's memory and the card's.
///
/// A core submits several copies at once to a queue, a vector, which completes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaCost {
    /// Number of queues that work in parallel.
    pub queues: Figure,
    /// The most copies of one direction in a vector.
    pub vector: Figure,
    /// Time of a core to submit a vector.
    pub submission: Figure,
    /// Time from the submission to the completion of a vector of copies from the host, in an idle queue.
    pub read: Figure,
    /// The same for copies to the host.
    pub write: Figure,
    /// Interval between two copies of one queue.
    pub operation: Figure,
}

/// 8 GT/s on 16 lanes in 128b/130b coding.
const PCIE_GEN3_X16: Figure =
    Figure::rate("PCIe rate", 126_030_769_230, "PCIe 3.0, 16 lanes; NIC-KV's card and Xenic's CX5");
const PCIE_GEN3_X8: Figure = Figure::rate("PCIe rate", 63_015_384_615, "PCIe 3.0, 8 lanes; Xenic section 5");

/// The queues of a PCIe DMA subsystem, as NIC-KV has measured them.
const QDMA: BusCost = BusCost {
    to_host: &[
        Figure::time("QDMA, to host", 360_000, NIC_KV_5_12),
        Figure::time("PCIe, to host", 288_000, NIC_KV_5_2),
    ],
    to_card: &[
        Figure::time("descriptor fetch", 540_000, NIC_KV_5_1),
        Figure::time("PCIe, to card", 560_000, NIC_KV_5_2),
        Figure::time("QDMA, to card", 504_000, NIC_KV_5_12),
    ],
    rate: PCIE_GEN3_X16,
};

const RECEIVE_BUFFER: Figure =
    Figure { name: "receive buffer", value: 1 << 20, unit: Unit::Bytes, source: ESTIMATE };

const INLINE: Figure = Figure {
    name: "payload along with the request, at most",
    value: 220,
    unit: Unit::Bytes,
    source: "perftest's default for latencies",
};

/// HBM on the card.
const HBM: MemoryCost = MemoryCost {
    read: Figure::time("memory read", 376_000, NIC_KV_5_8_MEMORY),
    write: Figure::time("memory write", 384_000, NIC_KV_5_8_MEMORY),
    // The value for reads, rounded up. Writes take 125 ps: 32 bytes, one beat of an HBM channel, per cycle of
    // 4 ns.
    byte: Figure::time("memory byte, per channel", 130, NIC_KV_5_4),
    channels: Figure::count("memory channels", 4, "estimate; the card has 32"),
    repeated: None,
};

/// The host's memory, accessed by a card across the bus.
const HOST_MEMORY: MemoryCost = MemoryCost {
    read: Figure::time("host memory, read", 560_000, NIC_KV_5_2),
    write: Figure::time("host memory, write", 288_000, NIC_KV_5_2),
    byte: Figure::time("host memory, byte", 64, "PCIe 3.0, 16 lanes, rounded up"),
    channels: Figure::count("host memory, buses", 1, "a card is in one slot"),
    repeated: None,
};

/// Memory behind a cache hierarchy.
const DRAM: MemoryCost = MemoryCost {
    read: Figure::time("memory read", 100_000, "estimate: a DRAM access that misses the caches"),
    write: Figure::time("memory write", 0, "estimate: a store does not wait"),
    byte: Figure::time("memory byte, per channel", 50, "estimate: DDR4-2666, 21.3 GB/s, rounded up"),
    channels: Figure::count("memory channels", 2, ESTIMATE),
    repeated: Some(Figure::time(
        "memory read, repeated",
        30_000,
        "estimate: what all cores' last cache has, 66 cycles of 2.2 GHz",
    )),
};

impl CostProfile {
    /// An FPGA on the data path.
    pub const FPGA: Self = Self {
        name: "fpga",
        summary: "engine on an FPGA NIC, application on its host",
        basis: "estimate until the gateware twin has measured it",
        receive: &[
            Figure::time("MAC, receive", 71_000, NIC_KV_5_8_MAC),
            Figure::time("parser and engine, receive", 152_000, NIC_KV_5_8),
        ],
        transmit: &[
            Figure::time("engine and deparser, transmit", 120_000, NIC_KV_5_8),
            Figure::time("MAC, transmit", 71_000, NIC_KV_5_8_MAC),
        ],
        execution: Execution::Pipeline {
            cycle: Figure::time("clock cycle", 4_000, DESIGN),
            beat_bytes: Figure { name: "beat", value: 64, unit: Unit::Bytes, source: DESIGN },
            message_cycles: Figure::count("cycles per message", 4, ESTIMATE),
        },
        burst_frames: Figure::count("frames taken together", 1, "a pipeline takes them as they come"),
        receive_buffer_bytes: RECEIVE_BUFFER,
        memory: HBM,
        wire_bus: None,
        host_bus: Some(QDMA),
        host_memory: Some(HOST_MEMORY),
        dma: None,
    };

    /// An FPGA with the application on it as well: its calls of engines do not cross a bus.
    pub const FPGA_APPLICATION: Self = Self {
        name: "fpga-application",
        summary: "engine and application on the FPGA NIC",
        host_bus: None,
        ..Self::FPGA
    };

    /// The same card and application, with the latency that SafarDB has measured between its cards: one way
    /// into the other card's block RAM, including the network. So it must be used with a network of zero
    /// latency. Work that does not involve the network costs the same as in `fpga`.
    pub const FPGA_SAFARDB: Self = Self {
        name: "fpga-safardb",
        summary: "engine and application on an FPGA NIC with the latencies that SafarDB measured",
        receive: &[Figure::time("passage, receive, with half of the network", 155_000, SAFARDB_C_1)],
        transmit: &[Figure::time("passage, transmit, with half of the network", 154_000, SAFARDB_C_1)],
        ..Self::FPGA_APPLICATION
    };

    /// The card of `fpga-safardb`, with the application on its host.
    pub const FPGA_SAFARDB_HOST: Self = Self {
        summary: "engine on an FPGA NIC with the latencies that SafarDB measured, application on its host",
        host_bus: Some(QDMA),
        ..Self::FPGA_SAFARDB
    };

    /// The cores of a SmartNIC on the data path.
    pub const CORES: Self = Self {
        name: "cores",
        summary: "engine on 16 threads of a SmartNIC's cores",
        basis: "built from published measurements; the division of an operation and the memory are estimates",
        receive: &[Figure::time(
            "MAC, receive",
            88_000,
            "NIC-KV table 5.12, for want of a figure for this card",
        )],
        transmit: &[Figure::time(
            "MAC, transmit",
            162_000,
            "NIC-KV table 5.12, for want of a figure for this card",
        )],
        execution: Execution::Cores {
            threads: Figure::count("threads", 16, XENIC_THREADS),
            frame_receive: Figure::time("frame, receive", 89_136, XENIC_NIC),
            message: Figure::time("message", 44_568, XENIC_NIC),
            frame_send: Figure::time("frame, send", 89_136, XENIC_NIC),
            cpu_time_percent: Figure::count("CPU time, of a host core's 100", 326, XENIC_COREMARK),
        },
        burst_frames: Figure::count("frames taken together", 64, XENIC_BURST),
        receive_buffer_bytes: RECEIVE_BUFFER,
        memory: DRAM,
        wire_bus: None,
        host_bus: Some(BusCost {
            to_host: &[
                Figure::time("DMA submission", 190_000, "Xenic section 3.5"),
                Figure::time("DMA write", 570_000, "Xenic section 3.5"),
            ],
            to_card: &[
                Figure::time("DMA submission", 190_000, "Xenic section 3.5"),
                Figure::time("DMA read", 1_295_000, "Xenic section 3.5"),
            ],
            rate: PCIE_GEN3_X8,
        }),
        host_memory: None,
        dma: Some(DmaCost {
            queues: Figure::count("DMA queues", 8, XENIC_DMA),
            vector: Figure::count("DMA, copies in a vector", 15, XENIC_DMA),
            submission: Figure::time("DMA submission of a vector", 190_000, XENIC_DMA),
            read: Figure::time("DMA read", 1_295_000, XENIC_DMA),
            write: Figure::time("DMA write", 570_000, XENIC_DMA),
            operation: Figure::time("DMA copy, per queue", 114_943, XENIC_DMA_RATE),
        }),
    };

    /// The same card with all of its cores in use.
    pub const CORES_ALL: Self = Self {
        name: "cores-all",
        summary: "engine on all 24 threads of a SmartNIC's cores",
        execution: Execution::Cores {
            threads: Figure::count("threads", 24, XENIC_CORES),
            frame_receive: Figure::time("frame, receive", 89_136, XENIC_NIC),
            message: Figure::time("message", 44_568, XENIC_NIC),
            frame_send: Figure::time("frame, send", 89_136, XENIC_NIC),
            cpu_time_percent: Figure::count("CPU time, of a host core's 100", 326, XENIC_COREMARK),
        },
        ..Self::CORES
    };

    /// The host's CPU, with a card behind PCIe and kernel bypass.
    pub const HOST_CARD: Self = Self {
        name: "host-card",
        summary: "engine on the host, behind a NIC that bypasses the kernel",
        basis: "built from published measurements; the division of an operation and the memory are estimates",
        receive: &[Figure::time("MAC, receive", 88_000, NIC_KV_5_12)],
        transmit: &[Figure::time("MAC, transmit", 162_000, NIC_KV_5_12)],
        execution: Execution::Cores {
            threads: Figure::count("threads", 16, XENIC_THREADS),
            frame_receive: Figure::time("frame, receive", 278_261, XENIC_HOST),
            message: Figure::time("message", 139_130, XENIC_HOST),
            frame_send: Figure::time("frame, send", 278_261, XENIC_HOST),
            cpu_time_percent: Figure::count("CPU time, of a host core's 100", 100, "it is one"),
        },
        burst_frames: Figure::count("frames taken together", 64, XENIC_BURST),
        receive_buffer_bytes: RECEIVE_BUFFER,
        memory: DRAM,
        wire_bus: Some(QDMA),
        host_bus: None,
        host_memory: None,
        dma: None,
    };

    /// A commodity RDMA card. The card executes verbs between the memories of two hosts; all other work is
    /// done by the hosts' CPUs ([`HOST_PROCESS`]).
    pub const RDMA_CARD: Self = Self {
        name: "rdma-card",
        summary: "RDMA NIC without an engine",
        basis: "built from published measurements; held to SafarDB table 2.1",
        receive: &[Figure::time("MAC, receive", 88_000, NIC_KV_5_12)],
        transmit: &[Figure::time("MAC, transmit", 162_000, NIC_KV_5_12)],
        execution: Execution::Verbs {
            operation: Figure::time("frame built", 66_667, XENIC_VERBS),
            host_read: Figure::time("host memory, read", 560_000, NIC_KV_5_2),
            inline_bytes: INLINE,
        },
        burst_frames: Figure::count("frames taken together", 1, "a card takes them as they come"),
        receive_buffer_bytes: RECEIVE_BUFFER,
        memory: DRAM,
        wire_bus: None,
        host_bus: Some(BusCost {
            to_host: &[Figure::time("PCIe, to host: completions, frames", 288_000, NIC_KV_5_2)],
            to_card: &[Figure::time(
                "PCIe, to card: doorbell with its request",
                288_000,
                "NIC-KV table 5.2, 128 B: a posted write, as the one to the host is",
            )],
            rate: PCIE_GEN3_X16,
        }),
        host_memory: None,
        dma: None,
    };

    /// The same card with many queue pairs in use. The published rate of a single card is for few queue
    /// pairs. With many, the card fills the link, so its rate is that of the smallest frames: the model is
    /// never slower than a real card may be.
    pub const RDMA_CARD_PARALLEL: Self = Self {
        name: "rdma-card-parallel",
        summary: "RDMA NIC with many queue pairs, without an engine",
        execution: Execution::Verbs {
            operation: Figure::time(
                "frame built",
                6_720,
                "the smallest frame at 100 Gb/s: DrTM+H saturates the network (Xenic sections 5.2, 5.4, 5.5)",
            ),
            host_read: Figure::time("host memory, read", 560_000, NIC_KV_5_2),
            inline_bytes: INLINE,
        },
        ..Self::RDMA_CARD
    };

    /// The gateware, computed cycle by cycle. Its pipeline and MAC need no constants: a frame is sent when
    /// the gateware has produced its last beat, and is received when its last bit has arrived.
    pub const GATEWARE: Self = Self {
        name: "gateware",
        summary: "the gateware, cycle by cycle",
        basis: "the SystemVerilog itself, cycle by cycle; memory and PCIe as others have measured them; no transceivers",
        receive: &[],
        transmit: &[],
        execution: Execution::Clocked {
            cycle: Figure::time("clock cycle", 4_000, DESIGN),
            host_read: Figure::time("host memory, read", 560_000, NIC_KV_5_2),
            host_write: Figure::time("host memory, write", 288_000, NIC_KV_5_2),
        },
        burst_frames: Figure::count("frames taken together", 1, "a pipeline takes them as they come"),
        receive_buffer_bytes: RECEIVE_BUFFER,
        memory: HBM,
        wire_bus: None,
        host_bus: Some(QDMA),
        host_memory: None,
        dma: None,
    };

    /// Software on the host of a NIC that is simulated separately. Cores and memory are those of `host-card`;
    /// MAC and bus are those of that NIC. All of its constants are in the table.
    pub const HOST_SOFTWARE: Self = Self {
        name: "host-software",
        summary: "software on the host of a NIC that is a machine of its own",
        receive: &[],
        transmit: &[],
        wire_bus: None,
        ..Self::HOST_CARD
    };

    /// All profiles that a user may choose for a soft NIC.
    pub const ALL: [Self; 5] =
        [Self::FPGA, Self::FPGA_APPLICATION, Self::CORES, Self::HOST_CARD, Self::RDMA_CARD];

    /// All profiles that the table shows.
    const TABLE: [Self; 5] = [Self::FPGA, Self::CORES, Self::HOST_CARD, Self::RDMA_CARD, Self::GATEWARE];

    /// The profile with this name, among those that a user may choose.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// All constants, in the order of the table, each with the part that it belongs to.
    pub fn figures(&self) -> Vec<(&'static str, Figure)> {
        let mut figures = Vec::new();
        let mut add = |part, list: &[Figure]| figures.extend(list.iter().map(|&figure| (part, figure)));
        add("receive", self.receive);
        match self.execution {
            Execution::Pipeline { cycle, beat_bytes, message_cycles } => {
                add("work", &[cycle, beat_bytes, message_cycles]);
            }
            Execution::Cores { threads, frame_receive, message, frame_send, cpu_time_percent } => {
                add("work", &[threads, frame_receive, message, frame_send, cpu_time_percent]);
            }
            Execution::Verbs { operation, host_read, inline_bytes } => {
                add("work", &[operation, host_read, inline_bytes]);
            }
            Execution::Clocked { cycle, host_read, host_write } => {
                add("work", &[cycle, host_read, host_write])
            }
        }
        add("work", &[self.burst_frames, self.receive_buffer_bytes]);
        // A card that only does verbs has no engine, and so no engine memory.
        if !matches!(self.execution, Execution::Verbs { .. }) {
            add("memory", &[self.memory.read, self.memory.write, self.memory.byte, self.memory.channels]);
            add("memory", self.memory.repeated.as_slice());
        }
        add("transmit", self.transmit);
        for (part, bus) in [("wire bus", self.wire_bus), ("host bus", self.host_bus)] {
            if let Some(bus) = bus {
                add(part, bus.to_host);
                add(part, bus.to_card);
                add(part, &[bus.rate]);
            }
        }
        if let Some(MemoryCost { read, write, byte, channels, repeated }) = self.host_memory {
            add("host memory", &[read, write, byte, channels]);
            add("host memory", repeated.as_slice());
        }
        if let Some(DmaCost { queues, vector, submission, read, write, operation }) = self.dma {
            add("host memory", &[queues, vector, submission, read, write, operation]);
        }
        figures
    }
}

/// The sum of sequential latencies.
pub(crate) fn total(figures: &[Figure]) -> Duration {
    figures.iter().fold(Duration::ZERO, |sum, figure| sum + figure.duration())
}
