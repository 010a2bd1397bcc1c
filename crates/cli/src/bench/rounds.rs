//! `weft bench rounds`: finds the shortest stable period of rounds, and measures decisions at it.

use clap::Args;
use weft_bench::rounds::{Batch, DRIFT_PPM, PROPOSAL_BYTES_MAX, RoundsBench, RoundsResult};
use weft_harness::progress::Progress;
use weft_results::NicModel;
use weft_sim::{CostProfile, NetworkProfile};
use weft_time::Duration;

use crate::failure::Failure;
use crate::ground::{Ground, Offers};
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};
use crate::{parse, trace};

const NODES: usize = 3;
const VALUE_BYTES: usize = 64;
const ROUNDS: u64 = 100_000;
const GATES_PERIOD_NS: u64 = 2_000;

/// The environment of measurements of rounds. The first network, the default, is that of the published
/// measurements.
#[derive(Debug)]
pub(crate) struct RoundsGround;

impl Offers for RoundsGround {
    const NETWORKS: &'static [NetworkProfile] =
        &[NetworkProfile::DETPU, NetworkProfile::SWITCH, NetworkProfile::ZERO];
    const PROFILES: &'static [CostProfile] = &[CostProfile::FPGA, CostProfile::CORES, CostProfile::HOST_CARD];
    const FAULTS: Option<&'static str> = Some(
        "Requires --period-ns. Its times count from the start of the nodes; the measurement starts 50 µs and 50 rounds later",
    );
}

/// Definitions and method of the measurements.
const DEFINITIONS: &str = "\
Every node proposes once in every round, and every host checks the decisions that it receives against those of all \
others. A period is stable if, in a whole run, no message was late, no member was suspected and no node fenced \
itself. Without --period-ns, the command searches for the lowest stable period, measures at that period, and also \
lists shorter periods, which are unstable. Network `detpu`: 1,387 to 1,410 ns between the MACs, uniformly \
distributed, plus serialization on two links; `zero`: serialization only.

With --faults no period is stable, so --period-ns is required. The command makes two runs, one of --rounds rounds for \
throughput and one for latency, and both meet the fault plan. The outstanding proposals of a node that crashes stay \
unanswered; a proposal that too few members received is dropped, and its host is notified. A node that restarts, or \
that was excluded for 50 µs, requests to rejoin.";

/// The measurement, and its outputs.
#[derive(Clone, Debug, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RoundsArguments {
    #[command(flatten)]
    options: RoundsOptions,
    /// Show the figures of the detPU paper beside the result
    #[arg(long)]
    compare: bool,
}

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
struct RoundsOptions {
    /// Consensus engine: soft (in software) or rtl (the gateware, simulated cycle by cycle)
    #[arg(long, value_name = "soft|rtl", default_value = "soft", value_parser = parse::nic)]
    nic: NicModel,
    /// Number of nodes, 2 to 8
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::members)]
    nodes: usize,
    /// Value size in bytes
    #[arg(long, value_name = "N", default_value_t = VALUE_BYTES, value_parser = parse::value_bytes)]
    value_bytes: usize,
    /// Number of values in each proposal
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::positive)]
    values_per_proposal: usize,
    /// Round period in ns, a multiple of 4 [default: the lowest stable one, which is searched for; 2000 with --nic
    /// rtl or --quick]
    #[arg(long, value_name = "NS", value_parser = parse::cycles, default_value_if(QUICK, IS_GIVEN, "2000"))]
    period_ns: Option<u64>,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = ROUNDS, default_value_if(QUICK, IS_GIVEN, "500"), value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    rounds: u64,
    /// Consensus instances in flight, 4 or 8 [default: the fewest that the nodes need]
    #[arg(long, value_name = "4|8", value_parser = parse::window)]
    window: Option<u64>,
    /// Largest clock drift in ppm
    #[arg(long, value_name = "PPM", default_value_t = DRIFT_PPM, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    drift_ppm: u32,
    #[command(flatten)]
    ground: Ground<RoundsGround>,
}

impl Task for RoundsArguments {
    type Found = RoundsResult;

    const KIND: &'static str = "bench rounds";
    const PERFETTO: Option<fn(&RoundsResult) -> Vec<u8>> =
        Some(|result| trace::of_activity(&result.measured.activity));
    const HGRM: Option<fn(&RoundsResult) -> String> = Some(|result| result.latencies.to_hgrm());

    fn work(&self) -> Result<RoundsResult, Failure> {
        let bench = self.options.bench()?;
        // The number of rounds that the search takes is unknown beforehand.
        let mut progress = Progress::new("rounds", 0);
        let result = bench.run(self.options.command().to_string(), |done| progress.set(done));
        result.map_err(|error| self.options.ground.at_plan(error))
    }

    fn to_text(&self, result: &RoundsResult) -> String {
        result.to_text(self.compare)
    }

    fn holds(&self, result: &RoundsResult) -> bool {
        result.checked == "agree"
    }
}

impl RoundsOptions {
    fn bench(&self) -> Result<RoundsBench, Failure> {
        if self.ground.faults.is_some() && self.period_ns.is_none() {
            return Err(Failure::new(
                "under faults no period is stable, so none is searched; give --period-ns with --faults",
            ));
        }
        let batch = Batch { value_bytes: self.value_bytes, values: self.values_per_proposal };
        if batch.bytes() > PROPOSAL_BYTES_MAX {
            return Err(Failure::new(format!(
                "a proposal of {} bytes; one message holds {PROPOSAL_BYTES_MAX}: choose fewer or shorter values",
                batch.bytes()
            )));
        }
        let window = parse::window_for(self.window, self.nodes)?;
        parse::fit_into_gates(self.nic, self.nodes, window, batch.bytes())?;
        // With gateware the search would take hours. So its shortest period, which was measured without a
        // network, is used.
        let period_ns = self.period_ns.or((self.nic == NicModel::Rtl).then_some(GATES_PERIOD_NS));
        Ok(RoundsBench {
            nic: self.nic,
            nodes: self.nodes,
            batch,
            network: self.ground.network(),
            profile: self.ground.profile(),
            window,
            period: period_ns.map(Duration::from_ns),
            rounds: self.rounds,
            drift_ppm: self.drift_ppm,
            plan: self.ground.plan()?,
            seed: self.ground.seed,
        })
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let Self {
            nic,
            nodes,
            value_bytes,
            values_per_proposal,
            period_ns,
            rounds,
            window,
            drift_ppm,
            ground,
        } = self;
        let line = CommandLine::new("weft bench rounds")
            .unless(NicModel::Soft, "--nic", *nic)
            .unless(NODES, "--nodes", *nodes)
            .unless(VALUE_BYTES, "--value-bytes", *value_bytes)
            .unless(1, "--values-per-proposal", *values_per_proposal)
            .given("--period-ns", *period_ns)
            .unless(ROUNDS, "--rounds", *rounds)
            .given("--window", *window)
            .unless(DRIFT_PPM, "--drift-ppm", *drift_ppm);
        ground.add_to(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Rounds {
        #[command(flatten)]
        arguments: RoundsArguments,
    }

    fn parse(line: &str) -> Result<RoundsOptions, clap::Error> {
        Rounds::try_parse_from(line.split(' ')).map(|parsed| parsed.arguments.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "rounds --seed 7",
            "rounds --period-ns 2400 --faults plan.toml --seed 7",
            "rounds --nic rtl --nodes 5 --value-bytes 8 --values-per-proposal 3 --period-ns 2000 --rounds 200 --window 8 --drift-ppm 0 --network zero --seed 9",
        ] {
            if weft_bench::GATEWARE || !line.contains("--nic rtl") {
                assert_eq!(parse(line).unwrap().command().to_string(), format!("weft bench {line}"));
            }
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in [
            "rounds --nodes 1",
            "rounds --nodes 9",
            "rounds --value-bytes 7",
            "rounds --period-ns 2001",
            "rounds --network ethernet",
            "rounds --window 5",
            "rounds --values-per-proposal 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let long = parse("rounds --value-bytes 448 --values-per-proposal 4").unwrap();
        assert!(long.bench().unwrap_err().to_string().contains("1792 bytes"));
        let short = parse("rounds --nodes 7 --window 4").unwrap();
        assert!(short.bench().unwrap_err().to_string().contains("--window 8"));
        let searched = parse("rounds --faults plan.toml").unwrap();
        assert!(searched.bench().unwrap_err().to_string().contains("give --period-ns"));
        assert_eq!(parse("rounds --nodes 7").unwrap().bench().unwrap().window, 8);
    }
}
