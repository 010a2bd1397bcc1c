//! `weft bench lock`: what it takes to acquire, renew and release a lock, in either world.

use clap::Args;
use weft_bench::lock::Workload;
use weft_bench::lock::real::RealBench;
use weft_bench::lock::simulated::SimulatedBench;
use weft_harness::progress::Progress;
use weft_harness::result::{RunResult, World};
use weft_net::Stop;
use weft_sim::CostProfile;
use weft_time::Duration;

use crate::failure::{Failure, Verdict};
use crate::replay::CommandLine;
use crate::task::Task;
use crate::{parse, table};

const CLIENTS: u32 = 16;
const NODES: usize = 3;
const SEED: u64 = 7;
const TTL_MS: u64 = 1_000;
/// Time for which a real process polls before it sleeps.
const SPIN: Duration = Duration::from_us(50);

/// Definitions of the measurements.
const DEFINITIONS: &str = "\
Each client acquires a lock, renews it as often as is said, and releases it, one call after the other. In the simulator \
the engine is on the card and the clients' sessions are on its host, which each call crosses the bus to. A grant and a \
release wait for every live replica, a renewal for none. Checked: no two clients hold a lock at the same time, and \
tokens only grow.";

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct LockOptions {
    /// Virtual time (sim) or real processes over loopback (net)
    #[arg(long, value_name = "sim|net", default_value = "sim", value_parser = parse::world)]
    world: World,
    /// Nodes of the cluster, 1 to 16
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::nodes)]
    nodes: usize,
    /// Clients, each with one call under way, 1 to 256
    #[arg(long, value_name = "N", default_value_t = CLIENTS, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// Locks that the clients share; 0: each has one of its own
    #[arg(long, value_name = "N", default_value_t = 0)]
    locks: u64,
    /// Renewals of each acquisition
    #[arg(long, value_name = "N", default_value_t = 1)]
    renewals: u64,
    /// The time to live, in ms
    #[arg(long, value_name = "MS", default_value_t = TTL_MS, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    ttl_ms: u64,
    /// For how long: virtual seconds in sim [default: 0.02 in sim, 2 in net]
    #[arg(long, value_name = "S", value_parser = parse::seconds)]
    seconds: Option<Duration>,
    /// What the cards cost, in sim [default: fpga]
    #[arg(long, value_name = "NAME", value_parser = parse::profile)]
    profile: Option<String>,
    /// Decides who wants which lock and, in sim, everything
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
}

impl Task for LockOptions {
    type Found = RunResult;

    const KIND: &'static str = "bench lock";

    fn work(&self) -> Result<RunResult, Failure> {
        let replay = self.command().to_string();
        let (nodes, workload, seed) = (self.nodes, self.workload(), self.seed);
        match self.world {
            World::Sim => {
                let length = self.seconds.unwrap_or(Duration::from_ms(20));
                let named = |name: &String| CostProfile::named(name).expect("the parser knows it");
                let profile = self.profile.as_ref().map_or(CostProfile::FPGA, named);
                let warm_up = Duration::from_us(100);
                Ok(SimulatedBench { nodes, workload, length, warm_up, profile, seed }.run(replay))
            }
            World::Net if self.profile.is_some() => {
                Err(Failure::new("--profile is for the simulator; leave it out or choose --world sim"))
            }
            World::Net => {
                let length = self.seconds.unwrap_or(Duration::from_secs(2));
                let bench =
                    RealBench { nodes, workload, length, warm_up: Duration::from_ms(200), spin: SPIN, seed };
                let mut progress = Progress::new("calls", 0);
                Ok(bench.run(replay, Stop::on_signals()?, |done| progress.set(done))?)
            }
        }
    }

    fn to_text(&self, result: &RunResult) -> String {
        let mut text = table::one_run(result);
        for (kind, operation) in &result.by_operation {
            let [p50, p99] = [operation.latency.summary.p50_ns, operation.latency.summary.p99_ns]
                .map(weft_harness::table::time_with_unit);
            text += &format!("  {kind:<11} p50 {p50}, p99 {p99}, refused {}\n", operation.failed);
        }
        text
    }

    fn holds(&self, result: &RunResult) -> bool {
        table::verdict(result) != Verdict::Violated
    }
}

impl LockOptions {
    const fn workload(&self) -> Workload {
        Workload {
            clients: self.clients,
            locks: self.locks,
            ttl: Duration::from_ms(self.ttl_ms),
            renewals: self.renewals,
            pause: Duration::ZERO,
        }
    }

    fn command(&self) -> CommandLine {
        CommandLine::new("weft bench lock")
            .option("--world", self.world)
            .option("--nodes", self.nodes)
            .option("--clients", self.clients)
            .unless(0, "--locks", self.locks)
            .unless(1, "--renewals", self.renewals)
            .unless(TTL_MS, "--ttl-ms", self.ttl_ms)
            .given("--seconds", self.seconds.map(parse::seconds_text))
            .given("--profile", self.profile.as_ref())
            .option("--seed", self.seed)
    }
}
