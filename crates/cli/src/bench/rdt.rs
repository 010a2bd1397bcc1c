//! `weft bench rdt`: measures replicated data types under their workloads, and checks every step.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use weft_bench::rdt::{
    Callers, Card, Commit, Configuration, Mix, RdtBench, RdtResult, Sizes, Sweep, SweepResult, System,
    TypeName,
};
use weft_harness::progress::Progress;
use weft_sim::{CostProfile, Fault, NetworkProfile};

use crate::failure::Failure;
use crate::ground::{Ground, NETWORKS, Offers};
use crate::replay::CommandLine;
use crate::task::{Files, IS_GIVEN, QUICK, Task};
use crate::{parse, trace};

const NODES: Nodes = Nodes { least: 3, most: 3 };
/// The most replicas: the engines store a set of replicas in one byte.
const REPLICAS_MAX: usize = 8;
const UPDATES: u8 = 20;
const OPERATIONS: u64 = 100_000;
const KEYS: usize = Sizes::LARGE.keys;

/// The environment of measurements of data types.
#[derive(Debug)]
pub(crate) struct RdtGround;

impl Offers for RdtGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
    /// Cards that run the application. Systems whose application runs on the host have the same card.
    const PROFILES: &'static [CostProfile] = &[CostProfile::FPGA_APPLICATION, CostProfile::FPGA_SAFARDB];
    const FAULTS: Option<&'static str> = Some(
        "Its times count from the start of the last client. Only for weft and, without restarts and outages, hamband",
    );
}

/// Definitions and method of the measurements.
const DEFINITIONS: &str = "\
The operations are divided among the nodes; each node has one client, with --outstanding operations at a time. In \
`weft` and `hamband` a client calls its own replica, and queries are answered from that replica's state. Response \
time is from request to answer. Throughput is all operations divided by the time of the slowest replica.

Commit rules: `majority` answers a conflict-free call when a majority has it in memory, so the crash of a minority \
cannot lose it. `local` answers it as soon as it has taken effect at its own replica: if that replica crashes before \
another one has received the call, the call is lost, and so is everything that this replica has answered since. The \
remaining replicas still converge and keep the invariant. Under either rule, conflicting calls are answered when a \
majority has them in its logs.

In `waverunner` and `weft-log` every operation, including queries, goes through one log and is answered when a \
majority has it, so the object is linearizable. All clients call the leader's application, which runs on the host \
behind the bus in `waverunner` and on the card in `weft-log`.

When a node crashes under --faults, the other clients take over the operations that its client had not started; the \
client's outstanding operations stay unanswered. A node of `weft` that restarts copies the object from the others; a \
process of `hamband` does not come back, and the machines of `waverunner` and `weft-log` do not fail.

Several types, numbers of nodes, commit rules or systems give a table; each system is compared with the first. A \
reference model repeats all calls for each replica and checks convergence, the invariant after every step, \
exactly-once effect, one order, which respects real time, of the calls that conflict, and the answers of queries. \
Systems with one log are checked for linearizability.";

/// Data types, separated by commas.
#[derive(Clone, Debug, PartialEq)]
struct Types(Vec<TypeName>);

impl FromStr for Types {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(TypeName::of_safardb().collect()));
        }
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if TypeName::of_safardb().eq(self.0.iter().copied()) {
            return f.write_str("all");
        }
        f.write_str(&self.0.iter().map(|name| name.name()).collect::<Vec<_>>().join(","))
    }
}

/// A range of numbers of nodes, including both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Nodes {
    least: usize,
    most: usize,
}

impl FromStr for Nodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        match (least.parse(), most.trim_start_matches('=').parse()) {
            (Ok(least), Ok(most)) if (2..=most).contains(&least) && most <= REPLICAS_MAX => {
                Ok(Self { least, most })
            }
            _ => Err(format!("choose 2 to {REPLICAS_MAX} nodes, or some of these: 3..{REPLICAS_MAX}")),
        }
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, most } = self;
        if least == most { write!(f, "{least}") } else { write!(f, "{least}..{most}") }
    }
}

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RdtOptions {
    /// Data types, separated by commas: g-counter, pn-counter, lww-register, g-set, pn-set, 2p-set, account,
    /// courseware, project, movie, auction, ycsb, smallbank; or all, the first eleven
    #[arg(long = "type", value_name = "TYPES")]
    types: Types,
    /// Workload of the type: a, b or c for ycsb, standard for smallbank; sets --updates and --skew
    #[arg(long, value_name = "NAME", conflicts_with_all = ["updates", "skew"])]
    workload: Option<Mix>,
    /// Percentage of operations that call a method; the others are queries
    #[arg(long, value_name = "N", default_value_t = UPDATES, value_parser = clap::value_parser!(u8).range(0..=100))]
    updates: u8,
    /// Number of replicas, 2 to 8, or a range: 3..8
    #[arg(long, value_name = "N", default_value_t = NODES)]
    nodes: Nodes,
    /// Number of operations of all clients together
    #[arg(long, value_name = "N", default_value_t = OPERATIONS, default_value_if(QUICK, IS_GIVEN, "2000"), value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    ops: u64,
    /// Systems, separated by commas: weft (engine and client on the card), hamband (engine and client on the host,
    /// beside an RDMA card), waverunner (one log on the card, the client on the host), weft-log (one log and the
    /// client on the card)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "weft")]
    system: Vec<System>,
    /// Former name of --profile
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "profile")]
    card: Option<Card>,
    /// How calls reach the other replicas: write (RDMA WRITE into memory, from which the engine reads at each
    /// access), buffered (the same, but the engine polls that memory and keeps a copy on chip) or rpc (the arriving
    /// frame calls the engine) [default: rpc; for hamband, buffered]
    #[arg(long, value_name = "NAME")]
    configuration: Option<Configuration>,
    /// When a call without conflicts is answered: majority (a majority has it in memory), local (it has taken
    /// effect at its own replica), or both, separated by commas
    #[arg(long, value_name = "RULES", value_delimiter = ',', default_value = "majority")]
    commit: Vec<Commit>,
    /// Which clients make which calls: all (every client makes all kinds), or leader (as in Hamband's workloads:
    /// the leader's client makes all conflicting calls and the followers' clients the others; whoever has fewer
    /// calls makes more queries)
    #[arg(long, value_name = "WHO", default_value_t)]
    callers: Callers,
    /// Outstanding operations of each client
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    outstanding: u8,
    /// Number of records (ycsb) or accounts (smallbank)
    #[arg(long, value_name = "N", default_value_t = KEYS, value_parser = parse::keys)]
    keys: usize,
    /// Zipf skew of the keys, 0 to 2
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = parse::skew)]
    skew: f64,
    #[command(flatten)]
    ground: Ground<RdtGround>,
}

/// Result of the measurements.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Found {
    /// Result of one measurement.
    One(Box<RdtResult>),
    /// Results of several measurements.
    Sweep(SweepResult),
}

impl Task for RdtOptions {
    type Found = Found;

    const KIND: &'static str = "bench rdt";
    const PERFETTO: Option<fn(&Found) -> Vec<u8>> = Some(|found| match found {
        Found::One(result) => trace::of_activity(&result.measured.activity),
        Found::Sweep(_) => unreachable!("refused before the run"),
    });
    const HGRM: Option<fn(&Found) -> String> = Some(|found| match found {
        Found::One(result) => result.measured.latencies.to_hgrm(),
        Found::Sweep(_) => unreachable!("refused before the run"),
    });

    fn work_for(&self, files: &Files<Self>) -> Result<Found, Failure> {
        let given = [(files.hgrm.is_some(), "--hgrm"), (files.perfetto.is_some(), "--perfetto")];
        if let Some((_, name)) = given.into_iter().find(|(given, _)| *given && self.sweep().runs() > 1) {
            return Err(Failure::new(format!(
                "{name} is for one measurement; choose one type, number of nodes, commit rule and system"
            )));
        }
        self.work()
    }

    fn work(&self) -> Result<Found, Failure> {
        self.check()?;
        let sweep = self.sweep();
        let plan = self.ground.plan()?;
        let runs = sweep.runs() as u64;
        let mut progress = Progress::new("operations", self.ops * runs);
        let mut before = 0;
        let mut run = |name, nodes, commit, system| {
            let one = self.one(name, nodes, commit, system);
            let result =
                one.bench().run(&plan, one.command().to_string(), |done| progress.set(before + done));
            before += self.ops;
            result.map_err(|error| self.ground.at_plan(error))
        };
        Ok(if runs == 1 {
            Found::One(Box::new(run(sweep.types[0], sweep.nodes[0], sweep.commits[0], sweep.systems[0])?))
        } else {
            Found::Sweep(sweep.run(self.command().to_string(), run)?)
        })
    }

    fn to_text(&self, result: &Found) -> String {
        match result {
            Found::One(result) => result.to_text(),
            Found::Sweep(result) => result.to_text(),
        }
    }

    fn holds(&self, result: &Found) -> bool {
        match result {
            Found::One(result) => result.checked == "holds",
            Found::Sweep(result) => result.checked == "holds",
        }
    }
}

impl RdtOptions {
    /// Rejects combinations of options that cannot be measured.
    fn check(&self) -> Result<(), Failure> {
        if self.system.contains(&System::Hamband) && self.configuration == Some(Configuration::Rpc) {
            return Err(Failure::new(
                "an RDMA card calls no engine; choose --configuration write or buffered",
            ));
        }
        let log = self.system.iter().find(|system| system.is_ordered());
        if let Some(log) = log
            && (self.commit.contains(&Commit::Local)
                || self.configuration.is_some()
                || self.callers == Callers::Leader)
        {
            return Err(Failure::new(format!(
                "in {log} every operation stands in one log and waits for a majority; leave out --commit local, --configuration and \
                 --callers leader"
            )));
        }
        if self.ground.faults.is_some() {
            if let Some(log) = log {
                return Err(Failure::new(format!(
                    "no machine of {log} fails here; leave it out of --system, or choose `weft bench smr --faults`"
                )));
            }
            let comes_back = |fault: &Fault| matches!(fault, Fault::Restart { .. } | Fault::Outage { .. });
            if self.system.contains(&System::Hamband) && self.ground.plan()?.faults.iter().any(comes_back) {
                return Err(self
                    .ground
                    .at_plan("a process of hamband does not come back; plan no restart or outage"));
            }
            if self.callers == Callers::Leader {
                return Err(Failure::new("faults change leaders; leave out --callers leader or --faults"));
            }
        }
        if let Some(mix) = self.workload
            && self.types.0.iter().any(|name| name.name() != mix.of)
        {
            return Err(Failure::new(format!("workload {mix} is one of {0}; choose --type {0}", mix.of)));
        }
        let keyless = self.types.0.iter().all(|name| name.class() != "keyed");
        if keyless && (self.keys != KEYS || self.skew != 0.0) {
            return Err(Failure::new(format!(
                "{} has no keys; leave out --keys and --skew, or choose --type ycsb or smallbank",
                self.types
            )));
        }
        Ok(())
    }

    fn sweep(&self) -> Sweep {
        Sweep {
            types: self.types.0.clone(),
            nodes: (self.nodes.least..=self.nodes.most).collect(),
            commits: self.commit.clone(),
            systems: self.system.clone(),
        }
    }

    /// The options of a single measurement, out of those for several.
    fn one(&self, name: TypeName, nodes: usize, commit: Commit, system: System) -> Self {
        Self {
            types: Types(vec![name]),
            nodes: Nodes { least: nodes, most: nodes },
            commit: vec![commit],
            system: vec![system],
            ..self.clone()
        }
    }

    fn chosen_card(&self) -> Card {
        let named =
            if self.ground.profile() == CostProfile::FPGA_SAFARDB { Card::Safardb } else { Card::Fpga };
        self.card.unwrap_or(named)
    }

    /// The first of the measurements that the options name.
    fn bench(&self) -> RdtBench {
        let system = self.system[0];
        let usual = match system {
            System::Hamband => Configuration::Buffered,
            System::Weft | System::Waverunner | System::WeftLog => Configuration::Rpc,
        };
        let (updates, skew) = self.workload.map_or((self.updates, self.skew), |mix| (mix.updates, mix.skew));
        RdtBench {
            name: self.types.0[0],
            system,
            card: self.chosen_card(),
            configuration: self.configuration.unwrap_or(usual),
            commit: self.commit[0],
            callers: self.callers,
            nodes: self.nodes.least,
            updates,
            operations: self.ops,
            outstanding: self.outstanding.into(),
            keys: self.keys,
            skew,
            network: self.ground.network(),
            seed: self.ground.seed,
        }
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let Self {
            types,
            workload,
            updates,
            nodes,
            ops,
            system,
            card,
            configuration,
            commit,
            callers,
            outstanding,
            keys,
            skew,
            ground,
        } = self;
        let line = CommandLine::new("weft bench rdt")
            .option("--type", types)
            .given("--workload", *workload)
            .unless(UPDATES, "--updates", *updates)
            .unless(NODES, "--nodes", *nodes)
            .unless(OPERATIONS, "--ops", *ops)
            .unless("weft".to_string(), "--system", list(system))
            .given("--card", *card)
            .given("--configuration", *configuration)
            .unless("majority".to_string(), "--commit", list(commit))
            .unless(Callers::All, "--callers", *callers)
            .unless(1, "--outstanding", *outstanding)
            .unless(KEYS, "--keys", *keys)
            .unless(0.0, "--skew", *skew);
        ground.add_to(line)
    }
}

/// Names, separated by commas.
fn list(names: &[impl fmt::Display]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Rdt {
        #[command(flatten)]
        options: RdtOptions,
    }

    fn parse(line: &str) -> Result<RdtOptions, clap::Error> {
        Rdt::try_parse_from(line.split(' ')).map(|parsed| parsed.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "rdt --type account --seed 7",
            "rdt --type account --faults plan.toml --seed 7",
            "rdt --type all --nodes 3..8 --ops 4000000 --system weft,hamband --commit majority,local --seed 7",
            "rdt --type ycsb --workload a --system weft,weft-log,waverunner --card safardb --seed 7",
            "rdt --type ycsb,smallbank --updates 50 --nodes 8 --ops 4000000 --system hamband --configuration write --commit local --callers leader --outstanding 4 --keys 1000 --skew 1.2 --network detpu --seed 9",
        ] {
            let options = parse(line).unwrap();
            options.check().unwrap();
            assert_eq!(options.command().to_string(), format!("weft bench {line}"));
        }
    }

    #[test]
    fn a_sweep_is_made_of_measurements_of_their_own() {
        let all = parse("rdt --type all --nodes 3..8 --system weft,hamband --commit majority,local").unwrap();
        assert_eq!(all.sweep().runs(), 11 * 6 * 2 * 2);
        let one = all.one(all.types.0[6], 8, Commit::Local, System::Hamband);
        let line = "weft bench rdt --type account --nodes 8 --system hamband --commit local --seed 7";
        assert_eq!(one.command().to_string(), line);
        assert_eq!(one.bench().configuration, Configuration::Buffered);
        let mix = parse("rdt --type ycsb --workload b").unwrap().bench();
        assert_eq!((mix.updates, mix.skew), (5, 0.99));
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in [
            "rdt",
            "rdt --type bank",
            "rdt --type account,",
            "rdt --type account --nodes 9",
            "rdt --type account --nodes 8..3",
            "rdt --type account --nodes 1..3",
            "rdt --type account --updates 101",
            "rdt --type ycsb --skew 2.5",
            "rdt --type ycsb --workload d",
            "rdt --type ycsb --workload a --updates 5",
            "rdt --type account --system raft",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        for (line, what) in [
            ("rdt --type account --system hamband --configuration rpc", "buffered"),
            ("rdt --type account --system waverunner --commit local", "one log"),
            ("rdt --type account --system weft,weft-log --configuration write", "one log"),
            ("rdt --type account --system waverunner --callers leader", "--callers"),
            ("rdt --type account --system weft,waverunner --faults plan.toml", "bench smr --faults"),
            ("rdt --type account --callers leader --faults plan.toml", "--callers leader"),
            ("rdt --type account --workload a", "--type ycsb"),
            ("rdt --type ycsb --workload standard", "--type smallbank"),
        ] {
            let refusal = parse(line).unwrap().check().unwrap_err().to_string();
            assert!(refusal.contains(what), "{line}: {refusal}");
        }
    }
}
