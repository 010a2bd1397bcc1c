//! Repeats NIC-KV's measurements on the key-value engine in gateware.
//!
//! Each latency has three parts, as in NIC-KV:
//!
//! - *MAC*: the time of a whole frame in or out. The simulated cards have no serial transceivers, so this time is taken
//!   from the paper.
//! - *Memory*: from an access's command to its last word or its response. The latencies are the paper's: 376 ns to read
//!   and 384 ns to write a value of 1 KiB.
//! - *Replication*: everything else, from the last beat of the incoming frame to the first beat of the outgoing frame,
//!   without the memory. It is counted in clock cycles of the Verilated gateware, and does not depend on the machine
//!   that simulates it.
//!
//! A follower acknowledges a write either when it has accepted the write into its window, an ordered queue in which
//! reads find accepted writes, or, if a bit is set, when the write is also in memory. Both modes are measured.

mod hbm;
pub mod occupancy;
mod paper;
mod passages;
mod plot;
mod result;
mod rig;
mod saturation;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use weft_gateware::{HbmTiming, Latency, MemoryTiming};
use weft_kv::{Operation, ReadPolicy};
use weft_sim::{FaultPlan, NetworkProfile};
use weft_time::Duration;

pub use self::hbm::HbmAccess;
pub use self::passages::{LeaderWrite, Passage};
pub use self::plot::page;
pub use self::result::{LossRun, NicKvResult, NodesRun, Placed, SaturationRun, SizeRun};
pub use self::saturation::Saturation;

use weft_bench::kv::simulated::{BenchLimit, ClusterParameters, NodeNic, SimulatedBench, SimulatedError};
use weft_harness::progress::Progress;
use weft_harness::{Planted, gateware};
use weft_workload::Load;
use weft_workload::{Workload, WorkloadError};

use self::passages::Measure;
use self::rig::{Setup, WIRE_BYTES_PER_S, answer_on_wire, copy_on_wire};
use self::saturation::{Network, Offered};

/// Bytes of the largest value that the engine in gateware supports.
pub const VALUE_BYTES_MAX: u32 = 1_024;

/// Bytes of the shortest value that workloads write.
pub const VALUE_BYTES_MIN: u32 = 8;

/// Words of the memory access for a value of 1 KiB: its header and the value.
const WORDS: u64 = 17;

/// Latency of the engine's memory: with it, the access for a value of 1 KiB takes as long as the paper
/// measured (tables 5.7 and 5.8).
const MEMORY: Latency = Latency {
    // The latency is to the first word; the other words follow, one per cycle.
    read_cycles: paper::READ.memory / CYCLE_NS - (WORDS - 1),
    // The first word follows a cycle after the address, and the latency is from the last word to the
    // response.
    write_cycles: paper::WRITE.memory / CYCLE_NS - WORDS,
};

/// Nanoseconds of a clock cycle.
const CYCLE_NS: u64 = 4;

/// Nodes of the paper's cluster: a leader and a follower.
const PAPER_NODES: usize = 2;

/// Numbers of nodes for which throughput is measured.
const SATURATED_NODES: [usize; 4] = [2, 3, 5, 8];

/// Largest number of nodes.
const NODES_MAX: usize = 8;

/// Outstanding operations that keep a node busy: few enough that the node's datagram buffer has room for all
/// waiting ones.
const SATURATING: u64 = 32;

/// Nodes of the runs under load and with faults.
const NODES: usize = 3;

/// Clients of the runs with lost frames.
const LOSS_CLIENTS: u32 = 16;

/// Buckets of the table that is filled, and bytes of its values.
const OCCUPIED_BUCKETS: u32 = 256;
const OCCUPIED_BYTES: usize = 100;

/// Probabilities with which each link loses a frame.
const LOSSES: [f64; 3] = [0.0, 0.001, 0.01];

/// Records of the simulated clusters.
const RECORDS: u64 = 100;

/// A part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Cycles of operations on idle cards: tables 5.7, 5.8, 5.9 and 5.11.
    Passages,
    /// Latency of the transport between MAC and HBM: tables 5.3 and 5.4.
    Hbm,
    /// The highest throughput of a node.
    Saturation,
    /// Latency at different throughputs.
    Curve,
    /// Writes in clusters of 2 to 8 nodes.
    Nodes,
    /// Latency and throughput when links lose frames.
    Loss,
    /// The engine in software on the host instead of the NIC: table 5.13.
    Software,
    /// Memory accesses of reads, as the table fills.
    Occupancy,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 8] = [
        Self::Passages,
        Self::Hbm,
        Self::Saturation,
        Self::Curve,
        Self::Nodes,
        Self::Loss,
        Self::Software,
        Self::Occupancy,
    ];

    /// Name of the part.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passages => "passages",
            Self::Hbm => "hbm",
            Self::Saturation => "saturation",
            Self::Curve => "curve",
            Self::Nodes => "nodes",
            Self::Loss => "loss",
            Self::Software => "software",
            Self::Occupancy => "occupancy",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown part `{text}`; known are {names}")
        })
    }
}

/// Why a measurement has no result.
#[derive(Debug, Error)]
pub enum NicKvError {
    /// The value size is out of range.
    #[error(
        "values have {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} bytes: the engine in gates holds no longer ones"
    )]
    ValueBytes,
    /// The engines did not reach the state in which they serve clients.
    #[error("the engines in gates do not begin to serve: the gateware has a fault")]
    NotFounded,
    /// A request was not answered.
    #[error("a request is not answered: the gateware has a fault")]
    Unanswered,
    /// An answer had another status than success, or another value than the one that was written.
    #[error("an answer is wrong: the gateware has a fault")]
    WrongAnswer,
    /// One of the events that delimit a latency's parts did not happen.
    #[error("a passage has no {0}: the gateware has a fault")]
    Unseen(&'static str),
    /// A simulated cluster failed.
    #[error(transparent)]
    Simulated(#[from] SimulatedError),
    /// A workload was refused.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct NicKvBench {
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Whether runs are shorter. Then tail latencies are less exact.
    pub quick: bool,
    /// Seed of the keys and of the simulated clusters.
    pub seed: u64,
    /// The parts to measure.
    pub parts: Vec<Part>,
    /// The command that repeats the measurement.
    pub replay: String,
}

impl NicKvBench {
    /// Runs the measurement, with progress on standard error.
    ///
    /// # Errors
    /// See [`NicKvError`].
    pub fn run(&self) -> Result<NicKvResult, NicKvError> {
        if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&self.value_bytes) {
            return Err(NicKvError::ValueBytes);
        }
        let mut result = NicKvResult::new(self);
        let is_chosen = |part| self.parts.contains(&part);
        if is_chosen(Part::Passages) {
            result.sizes = self.sizes()?;
        }
        if is_chosen(Part::Hbm) {
            let _progress = self.progress("MAC and HBM", 0);
            result.hbm = hbm::measure(gateware::hbm(), &paper::SIZES)?;
        }
        if is_chosen(Part::Saturation) {
            result.saturation = self.saturation()?;
        }
        if is_chosen(Part::Curve) {
            result.curve = self.curve()?;
        }
        if is_chosen(Part::Nodes) {
            result.nodes = self.nodes()?;
        }
        if is_chosen(Part::Loss) {
            result.loss = LOSSES.iter().map(|loss| self.loss(*loss)).collect::<Result<_, _>>()?;
        }
        if is_chosen(Part::Software) {
            let hardware = self.placed("engine on the NIC", NodeNic::RTL)?;
            result.software = vec![hardware, self.placed("engine on the host", NodeNic::RtlBeforeHost)?];
        }
        if is_chosen(Part::Occupancy) {
            let mut progress = self.progress("occupancy", 4);
            let reads = self.of(4_000) as usize;
            let done = |done| progress.set(done);
            result.occupancy = occupancy::measure(OCCUPIED_BUCKETS, OCCUPIED_BYTES, reads, self.seed, done)?;
        }
        result.conclude();
        Ok(result)
    }

    fn progress(&self, what: &str, total: u64) -> Progress {
        Progress::new(&format!("nic-kv, {what}"), total)
    }

    /// Setup of idle cards: their memory has exactly the latency that the paper measured.
    fn idle(&self, nodes: usize, acknowledge_after_memory: bool) -> Setup {
        Setup { nodes, memory: MemoryTiming::Fixed(MEMORY), acknowledge_after_memory, seed: self.seed }
    }

    /// Setup of cards under load: accesses compete for the channels, banks and rows of the memory.
    fn loaded(&self, nodes: usize) -> Setup {
        let memory = MemoryTiming::Hbm(HbmTiming::WIDE_PORT);
        Setup { nodes, memory, acknowledge_after_memory: false, seed: self.seed }
    }

    /// Number of operations of a run: an eighth of `operations` if the run is to be quick.
    const fn of(&self, operations: u64) -> u64 {
        if self.quick { operations.div_ceil(8) } else { operations }
    }

    fn samples(&self) -> usize {
        if self.quick { 2 } else { 8 }
    }

    fn sizes(&self) -> Result<Vec<SizeRun>, NicKvError> {
        let mut sizes: Vec<u32> = paper::SIZES.into_iter().filter(|size| *size <= VALUE_BYTES_MAX).collect();
        sizes.push(self.value_bytes);
        sizes.sort_unstable();
        sizes.dedup();
        let mut progress = self.progress("idle cards", sizes.len() as u64);
        let mut runs = Vec::new();
        for (done, bytes) in (1..).zip(sizes) {
            runs.push(self.size(bytes)?);
            progress.set(done);
        }
        Ok(runs)
    }

    fn size(&self, bytes: u32) -> Result<SizeRun, NicKvError> {
        let measure =
            |after_memory| Measure::new(self.idle(PAPER_NODES, after_memory), bytes as usize, self.samples());
        let mut at_acceptance = measure(false)?;
        Ok(SizeRun {
            bytes,
            read: at_acceptance.read()?,
            write: at_acceptance.write()?,
            write_after_memory: measure(true)?.write()?,
        })
    }

    fn saturation(&self) -> Result<Vec<SaturationRun>, NicKvError> {
        let saturated = |what, nodes, operation, value_bytes, operations| {
            self.saturated(what, nodes, operation, value_bytes, self.of(operations))
        };
        Ok(vec![
            saturated("gets of 64 bytes", 1, Operation::Get, 64, 40_000)?,
            saturated("gets", 1, Operation::Get, self.value_bytes, 12_000)?,
            saturated("leader writes", NODES, Operation::Put, self.value_bytes, 6_000)?,
        ])
    }

    fn saturated(
        &self,
        what: &str,
        nodes: usize,
        operation: Operation,
        value_bytes: u32,
        operations: u64,
    ) -> Result<SaturationRun, NicKvError> {
        let mut progress = self.progress(what, operations);
        let bytes = value_bytes as usize;
        let mut network = Network::new(&self.loaded(nodes), bytes)?;
        let offered = Offered { operation, outstanding: SATURATING, operations };
        let load = network.saturate(&offered, |done| progress.set(done))?;
        let limit = limit(operation, nodes, bytes);
        Ok(SaturationRun::new(what, operation, nodes, value_bytes, limit, load))
    }

    fn curve(&self) -> Result<Vec<SaturationRun>, NicKvError> {
        let mut runs = Vec::new();
        let loads = [
            ("gets of 64 bytes", 1, Operation::Get, 64),
            ("gets", 1, Operation::Get, self.value_bytes),
            ("leader writes", NODES, Operation::Put, self.value_bytes),
        ];
        for (what, nodes, operation, value_bytes) in loads {
            let mut progress = self.progress(what, 9);
            let bytes = value_bytes as usize;
            let mut network = Network::new(&self.loaded(nodes), bytes)?;
            let limit = limit(operation, nodes, bytes);
            for step in 0..=8 {
                let outstanding = 1 << step;
                let operations = self.of(400).max(outstanding * if self.quick { 3 } else { 12 });
                let load = network.saturate(&Offered { operation, outstanding, operations }, |_| {})?;
                runs.push(SaturationRun::new(what, operation, nodes, value_bytes, limit, load));
                progress.set(step + 1);
            }
        }
        Ok(runs)
    }

    fn nodes(&self) -> Result<Vec<NodesRun>, NicKvError> {
        let mut progress = self.progress("2 to 8 nodes", NODES_MAX as u64 - 1);
        let mut runs = Vec::new();
        for nodes in 2..=NODES_MAX {
            let measured =
                |after| Measure::new(self.idle(nodes, after), self.value_bytes as usize, 2)?.write();
            let saturation = match SATURATED_NODES.contains(&nodes) {
                true => {
                    let operations = self.of(3_000);
                    Some(self.saturated("writes", nodes, Operation::Put, self.value_bytes, operations)?)
                }
                false => None,
            };
            runs.push(NodesRun { nodes, write: measured(false)?, saturation });
            progress.set(nodes as u64 - 1);
        }
        Ok(runs)
    }

    /// Runs a cluster in the simulator, with a switch between the links, and checks its history.
    fn cluster(
        &self,
        workload: &str,
        clients: u32,
        nic: NodeNic,
        plan: FaultPlan,
        operations: u64,
    ) -> Result<SimulatedBench, NicKvError> {
        let workload =
            Workload::parse(workload)?.with_records(RECORDS)?.with_value_bytes(self.value_bytes as usize)?;
        Ok(SimulatedBench {
            cluster: ClusterParameters {
                keepers: 1,
                nodes: NODES,
                workload,
                load: Load::Closed { clients },
                reads: ReadPolicy::AnyReplica,
                seed: self.seed,
                nic,
                network: NetworkProfile::SWITCH,
                psp: false,
                plan,
                disks: None,
                durable_copies: 0,
                disk_lag: None,
                #[cfg(feature = "planted-bugs")]
                planted_bug: None,
                planted: Planted::default(),
                #[cfg(feature = "planted-bugs")]
                disk_bug: None,
            },
            limit: BenchLimit::Operations(operations),
            warm_up: Duration::from_us(20),
            capture: None,
            replay: self.replay.clone(),
        })
    }

    fn loss(&self, loss: f64) -> Result<LossRun, NicKvError> {
        let plan = if loss > 0.0 { everywhere(loss) } else { FaultPlan::default() };
        let operations = self.of(8_000);
        let mut progress = self.progress(&format!("{} % lost", 100.0 * loss), operations);
        let run = self
            .cluster("ycsb-a", LOSS_CLIENTS, NodeNic::RTL, plan, operations)?
            .run(|done| progress.set(done))?;
        Ok(LossRun::new(loss, &run.result))
    }

    fn placed(&self, what: &str, nic: NodeNic) -> Result<Placed, NicKvError> {
        let operations = self.of(800);
        let mut progress = self.progress(what, operations);
        let run = self
            .cluster("ycsb-a", 1, nic, FaultPlan::default(), operations)?
            .run(|done| progress.set(done))?;
        Ok(Placed::new(nic.engine_on(), &run.result))
    }
}

/// Operations per second that a node's outgoing link can carry: answers and copies, each in a frame of its own.
fn limit(operation: Operation, nodes: usize, value_bytes: usize) -> f64 {
    let bytes = match operation {
        Operation::Get => answer_on_wire(value_bytes),
        _ => (nodes as u64 - 1) * copy_on_wire(value_bytes) + answer_on_wire(0),
    };
    WIRE_BYTES_PER_S / bytes as f64
}

/// A fault plan in which each link loses each frame with this probability during the whole run.
fn everywhere(loss: f64) -> FaultPlan {
    let text = format!("[[fault]]\nkind = \"loss\"\nfrom_us = 0\nuntil_us = 50000\nprobability = {loss}\n");
    FaultPlan::parse(&text).expect("a plan as the documentation has it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_the_papers() {
        assert_eq!((MEMORY.read_cycles + WORDS - 1) * CYCLE_NS, 376);
        assert_eq!((MEMORY.write_cycles + WORDS) * CYCLE_NS, 384);
        assert_eq!(u64::from(paper::BYTES).div_ceil(64) + 1, WORDS);
        assert_eq!(CYCLE_NS, weft_gateware::CYCLE.as_ns());
    }

    #[test]
    fn parts_have_names() {
        for part in Part::ALL {
            assert_eq!(part.name().parse(), Ok(part));
        }
        assert!("everything".parse::<Part>().unwrap_err().contains("passages, hbm"));
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let bench = |value_bytes| NicKvBench {
            value_bytes,
            quick: true,
            seed: 1,
            parts: Vec::new(),
            replay: String::new(),
        };
        assert!(bench(1_025).run().unwrap_err().to_string().contains("8 to 1024 bytes"));
        assert!(bench(7).run().is_err());
        assert!(bench(1_024).run().is_ok());
    }

    #[test]
    fn limits_follow_from_frames() {
        assert_eq!(limit(Operation::Get, 1, 1_024), 12.5e9 / 1_154.0);
        assert_eq!(limit(Operation::Put, 3, 1_024), 12.5e9 / (2.0 * 1_170.0 + 130.0));
    }

    #[test]
    fn losses_are_a_plan() {
        assert_eq!(everywhere(0.001).faults.len(), 1);
    }
}
