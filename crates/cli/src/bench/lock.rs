//! `weft bench lock`: what it takes to acquire, renew and release a lock, in either world.

use clap::Args;
use weft_bench::ProcessCallers;
use weft_bench::lock::{Workload, real, simulated};
use weft_harness::Contest;
use weft_harness::progress::Progress;
use weft_harness::result::{MeasuredRun, World};
use weft_net::Stop;
use weft_sim::{CostProfile, NetworkProfile};
use weft_time::Duration;

use crate::failure::{Failure, Verdict};
use crate::ground::{ENGINE_PROFILES, Ground, NETWORKS, Offers};
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};
use crate::{parse, table, trace};

const CLIENTS: u32 = 16;
const NODES: usize = 3;
const TTL_MS: u64 = 1_000;
/// Time for which a real process polls before it sleeps.
const SPIN: Duration = Duration::from_us(50);

/// Definitions of the measurements.
const DEFINITIONS: &str = "\
Each client acquires a lock, renews it --renewals times, and releases it, one call after the other. In the simulator \
the engine is on the card and the clients' sessions are on its host, which each call crosses the bus to. A grant and a \
release wait for every live replica, a renewal for none. Checked: no two clients hold a lock at the same time, and \
tokens only grow.";

/// What runs of the locks stand on.
#[derive(Debug)]
pub(crate) struct LockGround;

impl Offers for LockGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
    const PROFILES: &'static [CostProfile] = ENGINE_PROFILES;
    const FAULTS: Option<&'static str> = Some("Fault plan in TOML, in sim; clients begin at 20000 µs");
}

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct LockOptions {
    /// Simulator with virtual time (sim), or real processes over loopback (net)
    #[arg(long, value_name = "sim|net", default_value = "sim", value_parser = parse::world)]
    world: World,
    /// Number of nodes, 1 to 16
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::nodes)]
    nodes: usize,
    /// Number of clients, 1 to 256, each with one outstanding call
    #[arg(long, value_name = "N", default_value_t = CLIENTS, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// Number of locks that the clients share; 0 gives each client its own
    #[arg(long, value_name = "N", default_value_t = 0)]
    locks: u64,
    /// Number of renewals of each acquisition
    #[arg(long, value_name = "N", default_value_t = 1)]
    renewals: u64,
    /// Time to live in ms
    #[arg(long, value_name = "MS", default_value_t = TTL_MS, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    ttl_ms: u64,
    /// Duration in seconds, in sim virtual ones [default: 0.02 in sim, 2 in net]
    #[arg(long, value_name = "S", value_parser = parse::seconds, default_value_if(QUICK, IS_GIVEN, "0.002"))]
    seconds: Option<Duration>,
    #[command(flatten)]
    ground: Ground<LockGround>,
}

impl Task for LockOptions {
    type Found = MeasuredRun;

    const KIND: &'static str = "bench lock";
    const HGRM: Option<fn(&MeasuredRun) -> String> = Some(|run| run.latencies.to_hgrm());
    const PERFETTO: Option<fn(&MeasuredRun) -> Vec<u8>> = Some(|run| trace::of(&run.result));

    fn work(&self) -> Result<MeasuredRun, Failure> {
        let replay = self.command().to_string();
        let (nodes, workload, seed) = (self.nodes, self.workload(), self.ground.seed);
        match self.world {
            World::Sim => {
                let length = self.seconds.unwrap_or(Duration::from_ms(20));
                let (network, profile) = (self.ground.network(), self.ground.profile());
                let (warm_up, plan) = (Duration::from_us(100), self.ground.plan()?);
                let contest = Contest { nodes, network, profile, plan, length, warm_up, seed };
                simulated::measure(&contest, workload, replay).map_err(|error| self.ground.at_plan(error))
            }
            World::Net if self.ground.faults.is_some() => {
                Err(Failure::new("--faults is for the simulator; leave it out or choose --world sim"))
            }
            World::Net => {
                self.ground.check_real()?;
                let length = self.seconds.unwrap_or(Duration::from_secs(2));
                let (warm_up, spin) = (Duration::from_ms(200), SPIN);
                let callers = ProcessCallers { nodes, callers: self.clients, length, warm_up, spin };
                let mut progress = Progress::new("calls", 0);
                let run = (seed, replay);
                Ok(real::measure(&callers, workload, run, Stop::on_signals()?, |done| progress.set(done))?)
            }
        }
    }

    fn to_text(&self, MeasuredRun { result, .. }: &MeasuredRun) -> String {
        let mut text = table::one_run(result);
        for (kind, operation) in &result.by_operation {
            let [p50, p99] = [operation.latency.summary.p50_ns, operation.latency.summary.p99_ns]
                .map(weft_harness::table::time_with_unit);
            text += &format!("  {kind:<11} p50 {p50}, p99 {p99}, refused {}\n", operation.failed);
        }
        text
    }

    fn holds(&self, run: &MeasuredRun) -> bool {
        table::verdict(&run.result) != Verdict::Violated
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
        let line = CommandLine::new("weft bench lock")
            .option("--world", self.world)
            .option("--nodes", self.nodes)
            .option("--clients", self.clients)
            .unless(0, "--locks", self.locks)
            .unless(1, "--renewals", self.renewals)
            .unless(TTL_MS, "--ttl-ms", self.ttl_ms)
            .given("--seconds", self.seconds.map(parse::seconds_text));
        self.ground.add_to(line)
    }
}
