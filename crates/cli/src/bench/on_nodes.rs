//! Measurements of one engine's clients, for any engine, on simulated nodes or with real processes.

use clap::Args;
use weft_harness::Contest;
use weft_harness::progress::Progress;
use weft_net::Stop;
use weft_processes::{ProcessCallers, RealBenchError};
use weft_results::table::time_with_unit;
use weft_results::{MeasuredRun, World};
use weft_sim::{CostProfile, NetworkProfile, PlanError};
use weft_time::Duration;

use crate::failure::{Failure, Verdict};
use crate::ground::{ENGINE_PROFILES, Ground, NETWORKS, Offers};
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};
use crate::{parse, table, trace};

/// Time for which a real process polls before it sleeps.
const SPIN: Duration = Duration::from_us(50);

/// The environment of measurements on nodes.
#[derive(Debug)]
pub(crate) struct NodesGround;

impl Offers for NodesGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
    const PROFILES: &'static [CostProfile] = ENGINE_PROFILES;
    const FAULTS: Option<&'static str> =
        Some("Its times count from the start of the nodes; clients start at 20000 µs. Only with --world sim");
}

/// The engine of a measurement, and the options of the engine's clients.
pub(crate) trait WorkloadOptions: Args {
    /// The subcommand, as it is typed after `weft`: for example, `bench kv`.
    const KIND: &'static str;

    /// Measures this number of clients in the simulator. `replay` is the command that repeats the run.
    fn simulate(&self, contest: &Contest, clients: u32, replay: String) -> Result<MeasuredRun, PlanError>;

    /// Measures clients of real processes. `progress` is called with the number of calls that have ended.
    fn call(
        &self,
        callers: &ProcessCallers,
        replay: String,
        stop: &Stop,
        progress: impl FnMut(u64),
    ) -> Result<MeasuredRun, RealBenchError>;

    /// Adds the engine's options to the command that repeats the run.
    fn add_to(&self, line: CommandLine) -> CommandLine;
}

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct OnNodes<W: WorkloadOptions> {
    /// Simulator with virtual time (sim), or real processes over loopback (net)
    #[arg(long, value_name = "sim|net", default_value = "sim", value_parser = parse::world)]
    world: World,
    /// Number of nodes, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse::nodes)]
    nodes: usize,
    /// Number of clients, 1 to 256, each with one outstanding call
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    #[command(flatten)]
    workload: W,
    /// Duration in seconds, in sim virtual ones [default: 0.02 in sim, 2 in net]
    #[arg(long, value_name = "S", value_parser = parse::seconds,
          default_value_ifs([("world", "net".into(), None), (QUICK, IS_GIVEN, Some("0.002"))]))]
    seconds: Option<Duration>,
    #[command(flatten)]
    ground: Ground<NodesGround>,
}

impl<W: WorkloadOptions> Task for OnNodes<W> {
    type Found = MeasuredRun;

    const KIND: &'static str = W::KIND;
    const HGRM: Option<fn(&MeasuredRun) -> String> = Some(|run| run.latencies.to_hgrm());
    const PERFETTO: Option<fn(&MeasuredRun) -> Vec<u8>> = Some(|run| trace::of(&run.result));

    fn work(&self) -> Result<MeasuredRun, Failure> {
        let Self { nodes, clients, workload, ground, .. } = self;
        let (nodes, seed, replay) = (*nodes, ground.seed, self.command().to_string());
        match self.world {
            World::Sim => {
                let contest = Contest {
                    nodes,
                    network: ground.network(),
                    profile: ground.profile(),
                    plan: ground.plan()?,
                    length: self.seconds.unwrap_or(Duration::from_ms(20)),
                    warm_up: Duration::from_us(100),
                    seed,
                };
                workload.simulate(&contest, *clients, replay).map_err(|error| ground.at_plan(error))
            }
            World::Net if ground.faults.is_some() => {
                Err(Failure::new("--faults is for the simulator; leave it out or choose --world sim"))
            }
            World::Net => {
                ground.check_real()?;
                let callers = ProcessCallers {
                    nodes,
                    callers: *clients,
                    length: self.seconds.unwrap_or(Duration::from_secs(2)),
                    warm_up: Duration::from_ms(200),
                    spin: SPIN,
                    seed,
                };
                let mut progress = Progress::new("calls", 0);
                Ok(workload.call(&callers, replay, Stop::on_signals()?, |done| progress.set(done))?)
            }
        }
    }

    fn to_text(&self, MeasuredRun { result, .. }: &MeasuredRun) -> String {
        let mut text = table::one_run(result);
        for (kind, operation) in &result.by_operation {
            let [p50, p99] =
                [operation.latency.summary.p50_ns, operation.latency.summary.p99_ns].map(time_with_unit);
            text += &format!("  {kind:<11} p50 {p50}, p99 {p99}, refused {}\n", operation.failed);
        }
        text
    }

    fn holds(&self, run: &MeasuredRun) -> bool {
        table::verdict(&run.result) != Verdict::Violated
    }
}

impl<W: WorkloadOptions> OnNodes<W> {
    fn command(&self) -> CommandLine {
        let line = CommandLine::new(&format!("weft {}", W::KIND))
            .option("--world", self.world)
            .option("--nodes", self.nodes)
            .option("--clients", self.clients);
        let line = self.workload.add_to(line).given("--seconds", self.seconds.map(parse::seconds_text));
        self.ground.add_to(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::bench::lock::LockOptions;
    use crate::task::Reported;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        bench: Reported<OnNodes<LockOptions>>,
    }

    #[test]
    fn quick_shortens_virtual_time_only() {
        let seconds =
            |line: &str| Command::parse_from(line.split(' ')).bench.task.seconds.map(parse::seconds_text);
        assert_eq!(seconds("lock --quick").as_deref(), Some("0.002"));
        // Two milliseconds of real time would measure nothing.
        assert_eq!(seconds("lock --quick --world net"), None);
        assert_eq!(seconds("lock --quick --world net --seconds 3").as_deref(), Some("3"));
        assert_eq!(seconds("lock --world net"), None);
    }
}
