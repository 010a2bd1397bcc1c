//! `weft bench kv`: the replicated key-value store under load, in either world.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use weft_bench::kv::simulated::{
    BenchLimit, CaptureWindow, ClusterParameters, SimulatedBench, SimulatedError, SimulatedRun,
};
use weft_check::{History, Start, lines};
use weft_harness::Planted;
use weft_harness::progress::Progress;
use weft_kv::{Parameters, ReadPolicy};
use weft_net::Stop;
use weft_processes::kv::{RealBench, RealRun};
use weft_results::NicModel;
use weft_results::histogram::Latencies;
use weft_results::{MeasuredRun, RunResult, World};
use weft_sim::{CostProfile, FaultPlan, NetworkProfile};
use weft_time::Duration;
use weft_workload::Load;
use weft_workload::{Distribution, Workload};

use super::node_nic::NodeNicOptions;
use crate::failure::{Failure, Verdict};
use crate::ground::{ENGINE_PROFILES, Ground, NETWORKS, Offers};
use crate::output::Staging;
use crate::replay::CommandLine;
use crate::task::{Histories, IS_GIVEN, QUICK, Task};
use crate::{faults, memory, parse, table, trace};

const OPERATIONS: u64 = 1_000_000;
/// Operations of a run with the gateware. The gateware is computed cycle by cycle, so these take about half a
/// minute.
const OPERATIONS_RTL: u64 = 50_000;
/// Memory of a run's history for each operation, in bytes: 64 for the record, and a third of the vector's next
/// doubling.
const OPERATION_BYTES: u64 = 96;
const CLIENTS: u32 = 32;
const NODES: usize = 3;

/// Default warm-up: the first operations, and in real processes the first cache misses.
const SIMULATED_WARM_UP_US: u64 = 100;
const REAL_WARM_UP_US: u64 = 200_000;

/// Lease of real nodes. It is long enough that a node on a busy machine does not lose it.
const REAL_LEASE: Duration = Duration::from_ms(500);
/// Time for which a real process polls before it sleeps.
const REAL_SPIN: Duration = Duration::from_us(50);

/// The environment of runs of the key-value store.
#[derive(Debug)]
pub(crate) struct KvGround;

impl Offers for KvGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
    const PROFILES: &'static [CostProfile] = ENGINE_PROFILES;
    const FAULTS: Option<&'static str> = Some(
        "Its times count from the start of the nodes; with --world net, from the start of the workload, and the plan may only crash one node and restart it",
    );
}

/// The run, and its captures.
#[derive(Clone, Debug, Args)]
pub(crate) struct KvArguments {
    #[command(flatten)]
    pub(crate) options: KvOptions,
    /// Write one pcapng file per port into DIR, in sim
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
}

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct KvOptions {
    /// Simulator with virtual time (sim), or real processes over loopback (net)
    #[arg(long, value_name = "sim|net", default_value = "sim", value_parser = parse::world)]
    pub(crate) world: World,
    #[command(flatten)]
    pub(crate) nic: NodeNicOptions,
    /// Number of nodes, 1 to 16
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::nodes)]
    pub(crate) nodes: usize,
    /// Workload: ycsb-a, ycsb-b, ycsb-c, ycsb-d, ycsb-f, put, get or mixed (40 % gets, 30 % puts, 10 % deletes, 20
    /// % compare-and-set)
    #[arg(long, value_name = "NAME", default_value = "ycsb-a", value_parser = parse::workload)]
    pub(crate) workload: String,
    /// Number of operations of all clients together [default: 1000000; with --nic rtl: 50000]
    #[arg(long = "ops", visible_alias = "operations", value_name = "N", conflicts_with = "seconds",
          value_parser = clap::value_parser!(u64).range(1..), default_value_if(QUICK, IS_GIVEN, "5000"))]
    pub(crate) operations: Option<u64>,
    /// Duration in seconds instead of --ops; in sim, virtual seconds
    #[arg(long, value_name = "S", value_parser = parse::seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Number of clients, 1 to 1024, each with one outstanding operation
    #[arg(long, value_name = "N", default_value_t = CLIENTS, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: u32,
    /// Open loop: operations that arrive per second, for all clients together (a Poisson process); one that finds
    /// no free client waits, and its latency includes the wait. Without this option each client sends its next
    /// operation after the answer (closed loop)
    #[arg(long, value_name = "OPS_PER_S", value_parser = parse::rate)]
    pub(crate) open_loop: Option<f64>,
    /// Value size in bytes, 8 to 1024 [default: 1000]
    #[arg(long, value_name = "N", value_parser = parse::value_bytes)]
    pub(crate) value_bytes: Option<usize>,
    /// Number of records loaded before the workload starts [default: 1000]
    #[arg(long, value_name = "N", value_parser = parse::records)]
    pub(crate) records: Option<u64>,
    /// Distribution of keys: uniform, zipfian or latest [default: the workload's]
    #[arg(long, value_name = "NAME")]
    pub(crate) distribution: Option<Distribution>,
    /// Replica that answers reads: any (one that holds all data) or leader (the key's leader)
    #[arg(long, value_name = "any|leader", default_value = "any", value_parser = parse::reads)]
    pub(crate) reads: ReadPolicy,
    #[command(flatten)]
    pub(crate) ground: Ground<KvGround>,
    /// Warm-up in µs, whose operations are not measured [default: 100 in sim, 200000 in net]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(..=600_000_000))]
    pub(crate) warm_up_us: Option<u64>,
    /// Number of processes that share the clients evenly, with --world net [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: Option<u32>,
    /// Seal all datagrams under a cluster key, with --world net
    #[arg(long)]
    pub(crate) sealed: bool,
}

impl Default for KvOptions {
    /// The options of `weft bench kv` when none is given.
    fn default() -> Self {
        Self {
            world: World::Sim,
            nic: NodeNicOptions::default(),
            nodes: NODES,
            workload: "ycsb-a".into(),
            operations: None,
            seconds: None,
            ground: Ground::default(),
            clients: CLIENTS,
            open_loop: None,
            value_bytes: None,
            records: None,
            distribution: None,
            reads: ReadPolicy::AnyReplica,
            warm_up_us: None,
            processes: None,
            sealed: false,
        }
    }
}

/// A run with its history.
#[derive(Debug, Serialize)]
pub(crate) struct RecordedRun {
    #[serde(flatten)]
    run: MeasuredRun,
    #[serde(skip)]
    history: lines::Run,
}

impl RecordedRun {
    fn new(result: RunResult, latencies: Latencies, history: History) -> Self {
        let history = lines::KeyValueRun { start: Start::Empty, seed: None, history }.into();
        Self { run: MeasuredRun { result, latencies }, history }
    }
}

impl Task for KvArguments {
    type Found = RecordedRun;

    const KIND: &'static str = "bench kv";
    const HGRM: Option<fn(&RecordedRun) -> String> = Some(|found| found.run.latencies.to_hgrm());
    const PERFETTO: Option<fn(&RecordedRun) -> Vec<u8>> = Some(|found| trace::of(&found.run.result));
    const HISTORY: Option<Histories<RecordedRun>> = Some(|found| vec![&found.history]);

    fn work(&self) -> Result<RecordedRun, Failure> {
        let Self { options, pcap } = self;
        options.check()?;
        match options.world {
            World::Sim => {
                let capture = pcap.as_deref().map(Staging::new).transpose()?;
                let place = capture.as_ref().map(|staging| (staging.path().to_owned(), CaptureWindow::ALL));
                let SimulatedRun { result, latencies, history, .. } =
                    options.run_simulated(options.ground.plan()?, place)?;
                if let Some(staging) = capture {
                    staging.publish()?;
                }
                Ok(RecordedRun::new(result, latencies, history))
            }
            World::Net if pcap.is_some() => {
                Err(Failure::new("--pcap is for the simulator; capture real sockets with tcpdump -i lo"))
            }
            World::Net => {
                let RealRun { result, latencies, history, .. } = options.run_real()?;
                Ok(RecordedRun::new(result, latencies, history))
            }
        }
    }

    fn to_text(&self, found: &RecordedRun) -> String {
        let mut text = table::one_run(&found.run.result);
        if let Some(path) = &self.pcap {
            text += &format!("  written     {} (captures)\n", path.display());
        }
        text
    }

    fn holds(&self, found: &RecordedRun) -> bool {
        table::verdict(&found.run.result) != Verdict::Violated
    }
}

impl KvOptions {
    /// Rejects options that contradict each other.
    fn check(&self) -> Result<(), Failure> {
        if self.world == World::Net {
            self.ground.check_real()?;
        }
        if self.world == World::Net && self.nic.nic == NicModel::Rtl {
            return Err(Failure::new(
                "the gateware is computed in the simulator only; choose --world sim or --nic soft",
            ));
        }
        if self.world == World::Sim && self.processes.is_some() {
            return Err(Failure::new("--processes is for real sockets; leave it out or choose --world net"));
        }
        if self.world == World::Sim && self.sealed {
            return Err(Failure::new("--sealed is for real sockets; leave it out or choose --world net"));
        }
        self.check_memory(memory::available())
    }

    /// Rejects a run whose tables and history would not fit into memory. About half of a table's memory is
    /// never touched, so only half is counted.
    fn check_memory(&self, available: Option<u64>) -> Result<(), Failure> {
        let workload = self.workload()?;
        let (records, value_bytes) = (workload.records(), workload.value_bytes());
        let table = Parameters { value_bytes_max: value_bytes, ..Parameters::for_keys(2 * records) };
        let tables = table.memory_bytes() as u64 / 2 * self.nodes as u64;
        let operations = if self.seconds.is_some() { 0 } else { self.operations() };
        let needed = tables.saturating_add(operations.saturating_mul(OPERATION_BYTES));
        match available {
            Some(available) if needed > available => Err(Failure::new(format!(
                "{records} records of {value_bytes} bytes on {} nodes and {operations} operations take about {} MiB, and {} MiB are free; \
                 choose fewer records, nodes or operations, or shorter values",
                self.nodes,
                needed >> 20,
                available >> 20
            ))),
            _ => Ok(()),
        }
    }

    /// The workload with the parameters that the options set.
    pub(crate) fn workload(&self) -> Result<Workload, Failure> {
        let mut workload = Workload::parse(&self.workload)?;
        if let Some(records) = self.records {
            workload = workload.with_records(records)?;
        }
        if let Some(bytes) = self.value_bytes {
            workload = workload.with_value_bytes(bytes)?;
        }
        if let Some(distribution) = self.distribution {
            workload = workload.with_distribution(distribution);
        }
        Ok(workload)
    }

    fn load(&self) -> Load {
        match self.open_loop {
            None => Load::Closed { clients: self.clients },
            Some(operations_per_s) => Load::Open { clients: self.clients, operations_per_s },
        }
    }

    fn warm_up(&self, default_us: u64) -> Duration {
        Duration::from_us(self.warm_up_us.unwrap_or(default_us))
    }

    fn limit(&self) -> BenchLimit {
        match self.seconds {
            Some(time) => BenchLimit::After(time),
            None => BenchLimit::Operations(self.operations()),
        }
    }

    fn operations(&self) -> u64 {
        self.operations.unwrap_or(match self.nic.nic {
            NicModel::Soft => OPERATIONS,
            NicModel::Rtl => OPERATIONS_RTL,
        })
    }

    /// The progress of a run, in operations. If the run is limited by time, their number is unknown.
    fn progress(&self) -> Progress {
        let operations = if self.seconds.is_some() { 0 } else { self.operations() };
        Progress::new(&self.workload, operations)
    }

    /// Runs the workload in the simulator, with progress on standard error.
    pub(crate) fn run_simulated(
        &self,
        plan: FaultPlan,
        capture: Option<(PathBuf, CaptureWindow)>,
    ) -> Result<SimulatedRun, Failure> {
        let bench = SimulatedBench {
            cluster: ClusterParameters {
                keepers: 1,
                nodes: self.nodes,
                workload: self.workload()?,
                load: self.load(),
                reads: self.reads,
                seed: self.ground.seed,
                nic: self.nic.choose(self.nodes, self.ground.profile)?,
                network: self.ground.network(),
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
            limit: self.limit(),
            warm_up: self.warm_up(SIMULATED_WARM_UP_US),
            capture,
            replay: self.command().to_string(),
        };
        let mut progress = self.progress();
        bench.run(|done| progress.set(done)).map_err(|error| match error {
            SimulatedError::Plan(error) => self.ground.at_plan(error),
            error => error.into(),
        })
    }

    /// Runs the workload over real sockets, with progress on standard error.
    pub(crate) fn run_real(&self) -> Result<RealRun, Failure> {
        let bench = RealBench {
            nodes: self.nodes as u32,
            workload: self.workload()?,
            load: self.load(),
            client_processes: self.processes.unwrap_or(1),
            limit: self.limit(),
            warm_up: self.warm_up(REAL_WARM_UP_US),
            seed: self.ground.seed,
            reads: self.reads,
            kill: faults::kill(&self.ground.plan()?)?,
            lease: REAL_LEASE,
            spin: REAL_SPIN,
            sealed: self.sealed,
            replay: self.command().to_string(),
        };
        let mut progress = self.progress();
        Ok(bench.run(Stop::on_signals()?, |done| progress.set(done))?)
    }

    /// The command that repeats the run.
    pub(crate) fn command(&self) -> CommandLine {
        let Self {
            world,
            nic,
            nodes,
            workload,
            operations: _,
            seconds,
            clients,
            open_loop,
            value_bytes,
            records,
            distribution,
            reads,
            ground,
            warm_up_us,
            processes,
            sealed,
        } = self;
        let line = CommandLine::new("weft bench kv").option("--world", world);
        let line = nic.add_to(line).option("--nodes", nodes).option("--workload", workload);
        let line = match seconds {
            Some(time) => line.option("--seconds", parse::seconds_text(*time)),
            None => line.option("--ops", self.operations()),
        };
        ground
            .add_to(line)
            .unless(CLIENTS, "--clients", *clients)
            .given("--open-loop", *open_loop)
            .given("--value-bytes", *value_bytes)
            .given("--records", *records)
            .given("--distribution", *distribution)
            .unless("any", "--reads", parse::reads_name(*reads))
            .given("--warm-up-us", *warm_up_us)
            .given("--processes", *processes)
            .flag("--sealed", *sealed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use weft_waist::NodeSet;

    use super::super::node_nic::EnginePlace;
    use super::*;

    #[derive(Parser)]
    struct Kv {
        #[command(flatten)]
        arguments: KvArguments,
    }

    fn parse(words: &[&str]) -> KvOptions {
        Kv::try_parse_from(words).map(|kv| kv.arguments.options).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Options that a command line without quotes gives.
    fn parse_line(line: &CommandLine) -> KvOptions {
        let line = line.to_string();
        let words: Vec<&str> = line.strip_prefix("weft bench ").expect("its beginning").split(' ').collect();
        parse(&words)
    }

    #[test]
    fn tables_that_do_not_fit_are_refused() {
        let options = KvOptions { records: Some(1_000_000), ..KvOptions::default() };
        assert_eq!(options.check_memory(None), Ok(()));
        assert_eq!(options.check_memory(Some(64 << 30)), Ok(()));
        let refused = options.check_memory(Some(4 << 30)).unwrap_err().to_string();
        assert!(refused.contains("4096 MiB are free"), "{refused}");
        assert_eq!(KvOptions::default().check_memory(Some(128 << 20)), Ok(()));
        let endless = KvOptions { operations: Some(u64::MAX), ..KvOptions::default() };
        let refused = endless.check_memory(Some(64 << 30)).unwrap_err().to_string();
        assert!(refused.contains("fewer records, nodes or operations"), "{refused}");
    }

    #[test]
    fn defaults_are_what_help_says() {
        assert_eq!(parse(&["kv"]), KvOptions::default());
    }

    #[test]
    fn the_command_that_repeats_a_run_says_all_of_it() {
        let everything = KvOptions {
            nodes: 5,
            workload: "put".into(),
            seconds: Some(Duration::from_ns(120_000_001)),
            clients: 64,
            open_loop: Some(123_456.75),
            value_bytes: Some(64),
            records: Some(99),
            distribution: Some(Distribution::Latest),
            reads: ReadPolicy::Leader,
            ground: Ground {
                network: Some(NetworkProfile::DETPU),
                profile: Some(CostProfile::HOST_CARD),
                faults: Some("plan.toml".into()),
                seed: u64::MAX,
                ..Ground::default()
            },
            warm_up_us: Some(0),
            ..KvOptions::default()
        };
        let real =
            KvOptions { world: World::Net, processes: Some(4), operations: Some(5), ..KvOptions::default() };
        let gateware = |engine, rtl_nodes| KvOptions {
            nic: NodeNicOptions { nic: NicModel::Rtl, engine, rtl_nodes },
            operations: Some(OPERATIONS_RTL),
            ..KvOptions::default()
        };
        let gates = gateware(EnginePlace::Nic, Some(NodeSet::from_bits(0b101)));
        for options in [everything, real, gates, gateware(EnginePlace::Host, None)] {
            if weft_bench::GATEWARE || options.nic.nic == NicModel::Soft {
                assert_eq!(parse_line(&options.command()), options);
            }
        }
        let default = KvOptions { operations: Some(OPERATIONS), ..KvOptions::default() };
        assert_eq!(parse_line(&KvOptions::default().command()), default);
    }
}
