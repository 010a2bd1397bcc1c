//! `weft bench rdt-crash`: a replica crashes in the middle of a run, and the other replicas do its remaining
//! operations.

use clap::Args;
use weft_bench::rdt::{Commit, CrashBench, CrashReport, System, TypeName, Victim, has_leader};
use weft_harness::progress::Progress;
use weft_sim::NetworkProfile;

use crate::failure::Failure;
use crate::ground::{Ground, NETWORKS, Offers};
use crate::parse;
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};

const NODES: usize = 4;
const OPERATIONS: u64 = 40_000;
const UPDATES: &str = "15,20,25";
const SYSTEMS: &str = "weft,hamband";
const FAIL_OVERS: u64 = 40;

/// The environment of these measurements.
#[derive(Debug)]
pub(crate) struct CrashGround;

impl Offers for CrashGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
}

/// Definitions and method of the measurements.
const DEFINITIONS: &str = "\
Each pair of runs shares a seed: one without a crash, one with a crash at half of the time. After the crash the \
other clients take over the operations that the crashed node's client had not begun; those that it had begun stay \
unanswered. Response time is the mean from request to answer; throughput is all operations divided by the time of \
the slowest replica.

Fail-over: from the crash of the leader to the first conflicting call that the next leader decides and answers. \
Permission switch: from the new leader's request until a majority of nodes has revoked the old permission, granted \
the new one and acknowledged it. Every run is checked: no answered call is lost, none takes effect twice, and all \
checks of `weft bench rdt` hold.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RdtCrashOptions {
    /// Victim of the crash: replica (of a type without leaders), follower or leader [default: each in turn]
    #[arg(long, value_name = "WHO")]
    crash: Option<Victim>,
    /// Data type, one of those of `weft rdt list` [default: 2p-set for a replica, account for a follower or leader]
    #[arg(long = "type", value_name = "TYPE")]
    name: Option<TypeName>,
    /// Percentages of operations that call a method, separated by commas
    #[arg(long, value_name = "LIST", default_value = UPDATES, default_value_if(QUICK, IS_GIVEN, "20"), value_parser = parse::percentages)]
    updates: parse::Percentages,
    /// Systems: weft (on the card), hamband (on the host beside an RDMA card), or both
    #[arg(long = "system", alias = "systems", value_name = "LIST", default_value = SYSTEMS, value_delimiter = ',')]
    systems: Vec<System>,
    /// When a call without conflicts is answered: majority (a majority has it in memory) or local (it has taken
    /// effect at its own replica)
    #[arg(long, value_name = "RULE", default_value_t)]
    commit: Commit,
    /// Number of replicas, 3 to 8
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::replicas)]
    nodes: usize,
    /// Number of operations of all clients together, in each run
    #[arg(long, value_name = "N", default_value_t = OPERATIONS, default_value_if(QUICK, IS_GIVEN, "500"), value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    ops: u64,
    /// Number of further leader crashes, for the distribution of fail-over times
    #[arg(long, value_name = "N", default_value_t = FAIL_OVERS, default_value_if(QUICK, IS_GIVEN, "1"))]
    fail_overs: u64,
    #[command(flatten)]
    ground: Ground<CrashGround>,
}

impl Task for RdtCrashOptions {
    type Found = CrashReport;

    const KIND: &'static str = "bench rdt-crash";

    fn work(&self) -> Result<CrashReport, Failure> {
        let bench = self.bench()?;
        let mut progress = Progress::new("runs", bench.runs());
        Ok(bench.run(self.command().to_string(), |done| progress.set(done)))
    }

    fn to_text(&self, result: &CrashReport) -> String {
        result.to_text()
    }

    fn holds(&self, result: &CrashReport) -> bool {
        result.checked == "holds"
    }
}

impl RdtCrashOptions {
    fn bench(&self) -> Result<CrashBench, Failure> {
        if let Some(log) = self.systems.iter().find(|system| system.is_ordered()) {
            return Err(Failure::new(format!("in {log} no node is crashed; choose --system weft,hamband")));
        }
        let experiments = self.experiments()?;
        let a_leader_crashes = experiments.iter().any(|(victim, _)| *victim == Victim::Leader);
        if a_leader_crashes && self.updates.0.contains(&0) {
            return Err(Failure::new(
                "without updates nothing tells that another one leads; give --updates from 1, or choose --crash replica or follower",
            ));
        }
        Ok(CrashBench {
            experiments,
            systems: self.systems.clone(),
            updates: self.updates.0.clone(),
            commit: self.commit,
            nodes: self.nodes,
            operations: self.ops,
            fail_overs: self.fail_overs,
            network: self.ground.network(),
            seed: self.ground.seed,
        })
    }

    /// The kinds of victims and the data types to measure, as far as the options restrict them.
    fn experiments(&self) -> Result<Vec<(Victim, TypeName)>, Failure> {
        let suits = |victim: Victim, name: TypeName| has_leader(name) == (victim != Victim::Replica);
        let victims: Vec<Victim> = match (self.crash, self.name) {
            (Some(victim), Some(name)) if !suits(victim, name) => {
                let instead = if has_leader(name) { "--crash follower or leader" } else { "--crash replica" };
                return Err(Failure::new(format!(
                    "{name} has {} leader; choose {instead}",
                    if has_leader(name) { "a" } else { "no" }
                )));
            }
            (Some(victim), _) => vec![victim],
            (None, Some(name)) => Victim::ALL.into_iter().filter(|victim| suits(*victim, name)).collect(),
            (None, None) => Victim::ALL.to_vec(),
        };
        let name = |victim: Victim| self.name.unwrap_or_else(|| victim.usual_type());
        Ok(victims.into_iter().map(|victim| (victim, name(victim))).collect())
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let Self { crash, name, updates, systems, commit, nodes, ops, fail_overs, ground } = self;
        let systems: Vec<_> = systems.iter().map(|system| system.name()).collect();
        let line = CommandLine::new("weft bench rdt-crash")
            .given("--crash", *crash)
            .given("--type", *name)
            .unless(UPDATES, "--updates", updates.to_string().as_str())
            .unless(SYSTEMS, "--system", systems.join(",").as_str())
            .unless(Commit::Majority, "--commit", *commit)
            .unless(NODES, "--nodes", *nodes)
            .unless(OPERATIONS, "--ops", *ops)
            .unless(FAIL_OVERS, "--fail-overs", *fail_overs);
        ground.add_to(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct RdtCrash {
        #[command(flatten)]
        options: RdtCrashOptions,
    }

    fn parse(line: &str) -> Result<RdtCrashOptions, clap::Error> {
        RdtCrash::try_parse_from(line.split(' ')).map(|parsed| parsed.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "rdt-crash --seed 7",
            "rdt-crash --crash leader --type movie --updates 5,50 --system weft --commit local --nodes 5 --ops 1000 --fail-overs 0 --network detpu --seed 9",
        ] {
            assert_eq!(parse(line).unwrap().command().to_string(), format!("weft bench {line}"));
        }
    }

    #[test]
    fn the_victim_suits_the_type() {
        let experiments = |line| parse(line).unwrap().experiments();
        assert_eq!(experiments("rdt-crash").unwrap().len(), 3);
        assert_eq!(experiments("rdt-crash --type pn-set").unwrap().len(), 1);
        assert_eq!(experiments("rdt-crash --type auction").unwrap().len(), 2);
        let error = experiments("rdt-crash --crash leader --type pn-set").unwrap_err();
        assert!(error.to_string().contains("--crash replica"));
        let error = experiments("rdt-crash --crash replica --type account").unwrap_err();
        assert!(error.to_string().contains("--crash follower or leader"));
        assert!(parse("rdt-crash --system waverunner").unwrap().bench().is_err());
        assert!(parse("rdt-crash --updates 5,0").unwrap().bench().is_err());
        assert!(parse("rdt-crash --crash follower --updates 5,0").unwrap().bench().is_ok());
        for line in [
            "rdt-crash --crash node",
            "rdt-crash --nodes 2",
            "rdt-crash --updates 5,101",
            "rdt-crash --updates x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
