//! `weft bench smr`: measures appends to the replicated log, and the time until another node leads after a
//! crash.

use clap::Args;
use weft_bench::smr::{SmrBench, SmrResult};
use weft_harness::progress::Progress;
use weft_results::table::{Column, Table, faults_line, grouped, time_with_unit};
use weft_sim::{CostProfile, NetworkProfile};
use weft_time::Duration;

use crate::failure::Failure;
use crate::ground::{Ground, Offers};
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};
use crate::{parse, trace};

/// The environment of measurements of the log. The defaults are the network of the published measurements to compare
/// with, and the application on the card.
#[derive(Debug)]
pub(crate) struct SmrGround;

impl Offers for SmrGround {
    const NETWORKS: &'static [NetworkProfile] =
        &[NetworkProfile::DETPU, NetworkProfile::SWITCH, NetworkProfile::ZERO];
    const PROFILES: &'static [CostProfile] =
        &[CostProfile::FPGA_APPLICATION, CostProfile::FPGA, CostProfile::CORES, CostProfile::HOST_CARD];
    const FAULTS: Option<&'static str> =
        Some("Its times count from the start of the nodes; appends are measured from 100 to 2100 µs");
    const SEED: Option<u64> = Some(1);
}

/// Definitions of the figures.
const DEFINITIONS: &str = "\
In the default profile the log and the application that appends to it run on the NIC; the default network has the \
latency that detPU measured. An append is answered when a majority has it in memory. Fail-over: from the crash of the \
leader until the next leader has answered its first append. Permission switch: from the new leader's request until a \
majority of nodes has revoked the old permission, granted the new one and acknowledged it.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct SmrOptions {
    /// Number of nodes, 3 to 8, or 2 with --crashes 0
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse::members)]
    nodes: usize,
    /// Outstanding appends at the leader, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    outstanding: u8,
    /// Number of leaders to crash, each in a run of its own
    #[arg(long, value_name = "N", default_value_t = 50, default_value_if(QUICK, IS_GIVEN, "2"))]
    crashes: u64,
    #[command(flatten)]
    ground: Ground<SmrGround>,
}

impl Task for SmrOptions {
    type Found = SmrResult;

    const KIND: &'static str = "bench smr";
    const PERFETTO: Option<fn(&SmrResult) -> Vec<u8>> = Some(|result| trace::of_activity(&result.activity));
    const HGRM: Option<fn(&SmrResult) -> String> = Some(|result| result.latencies.to_hgrm());

    fn work(&self) -> Result<SmrResult, Failure> {
        if self.nodes < 3 && self.crashes > 0 {
            return Err(Failure::new(
                "of two nodes none leads without the other; choose --nodes 3 or --crashes 0",
            ));
        }
        let bench = SmrBench {
            nodes: self.nodes,
            outstanding: self.outstanding.into(),
            network: self.ground.network(),
            profile: self.ground.profile(),
            plan: self.ground.plan()?,
            length: Duration::from_ms(2),
            crashes: self.crashes,
            seed: self.ground.seed,
        };
        let mut progress = Progress::new("runs", 1 + self.crashes);
        bench.run(|done| progress.set(done)).map_err(|error| self.ground.at_plan(error))
    }

    fn to_text(&self, result: &SmrResult) -> String {
        let mut table = Table::new([
            Column::words(""),
            Column::numbers("min", ""),
            Column::numbers("p50", ""),
            Column::numbers("p99", ""),
            Column::numbers("max", ""),
        ]);
        let rows = [
            ("append", result.latency_ns),
            ("fail-over", result.fail_over_ns),
            ("permission switch", result.permission_switch_ns),
        ];
        for (name, quantiles) in rows {
            let [min, p50, p99, max] =
                [quantiles.min, quantiles.p50, quantiles.p99, quantiles.max].map(time_with_unit);
            table.row([name.to_owned(), min, p50, p99, max]);
        }
        let command = CommandLine::new("weft bench smr")
            .option("--nodes", self.nodes)
            .option("--outstanding", self.outstanding)
            .option("--crashes", self.crashes);
        let command = self.ground.add_to(command);
        let faults = faults_line(&result.faults, "");
        format!(
            "{table}\n  nodes       {}, profile {}, network {}\n  appends     {} in a second, {} under way\n{faults}  checked     {}\n  repeat      {command}\n",
            result.nodes,
            result.profile,
            result.network,
            grouped(result.appends_per_s as u64),
            result.outstanding,
            result.checked,
        )
    }

    fn holds(&self, result: &SmrResult) -> bool {
        result.checked == "linearizable"
    }
}
