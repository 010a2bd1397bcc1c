//! `weft sim rounds`: fault campaigns of the rounds engine.

use clap::Args;
use weft_bench::progress::Progress;
use weft_bench::rdma::NicModel;
use weft_bench::rounds::{Campaign, CampaignResult, DECIDED_WITHIN, FaultClass, MEMBER_WITHIN, Service};
use weft_bench::table::{Column, Table, grouped};

use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};
use crate::parse::{self, Seeds};
use crate::replay::CommandLine;

/// What is asked of a run.
const DEFINITIONS: &str = "\
In each run some nodes fail, at most as many as the cluster tolerates: they crash, or messages from and to them are lost, late or \
corrupted. All logs must agree, hold each proposal at most once and only what was proposed; nodes that have not failed must not \
stop, and decide all that they propose. Every fourth seed has more failures than are tolerated: then nodes may stop, but must say \
so, and still agree. With --service register clients read, write, delete and compare-and-set one register, and what they are \
told must be linearizable.";

/// Which runs to make.
#[derive(Clone, Debug, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RoundsCampaignArguments {
    #[command(flatten)]
    options: RoundsCampaignOptions,
    /// Write the result as one JSON object (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

/// What decides a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
struct RoundsCampaignOptions {
    /// Nodes of each cluster, 2 to 8
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse::members)]
    nodes: usize,
    /// One run for each seed: a range, both ends included, or one number
    #[arg(long, visible_alias = "seed", value_name = "FIRST..LAST", default_value = "1..20")]
    seeds: Seeds,
    /// all, omission, crash or none
    #[arg(long, value_name = "CLASS", default_value = "all")]
    faults: FaultClass,
    /// Instances in flight, 4 or 8 [default: as few as the nodes need]
    #[arg(long, value_name = "4|8", value_parser = parse::window)]
    window: Option<u64>,
    /// Which engine: in software, or in gates, cycle by cycle
    #[arg(long, value_name = "soft|rtl", default_value = "soft", value_parser = parse::nic)]
    nic: NicModel,
    /// What the engines serve: streams of proposals and decisions, or a register with clients of its own
    #[arg(long, value_name = "streams|register", default_value_t)]
    service: Service,
    /// A known bug to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_rounds_bug)]
    planted_bug: Option<weft_rounds::PlantedBug>,
}

impl RoundsCampaignArguments {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let Self { options, json } = self;
        output::check_json(json.as_ref())?;
        let campaign = options.campaign()?;
        let mut progress = Progress::new("seeds", options.seeds.count());
        let result =
            campaign.run(|seed| options.command(&Seeds(seed..=seed)).to_string(), |done| progress.set(done));
        drop(progress);
        output::deliver(json.as_ref(), || result.to_json(), &options.to_text(&result))?;
        Ok(if result.findings.violations_found == 0 { Verdict::Good } else { Verdict::Violated })
    }
}

impl RoundsCampaignOptions {
    fn campaign(&self) -> Result<Campaign, Failure> {
        let window = parse::window_for(self.window, self.nodes)?;
        parse::fit_into_gates(self.nic, self.nodes, window, 0)?;
        if self.nic == NicModel::Rtl && self.service == Service::Register {
            return Err(Failure::new(
                "the register is software only; choose --service streams or --nic soft",
            ));
        }
        Ok(Campaign {
            nodes: self.nodes,
            seeds: self.seeds.0.clone(),
            faults: self.faults,
            window,
            nic: self.nic,
            service: self.service,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        })
    }

    /// The command that repeats some of the runs.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let Self { nodes, seeds: _, faults, window, nic, service, .. } = self;
        let line = CommandLine::new("weft sim rounds")
            .option("--nodes", nodes)
            .option("--seeds", seeds)
            .option("--faults", faults)
            .given("--window", *window)
            .unless(NicModel::Soft, "--nic", *nic)
            .unless(Service::Streams, "--service", *service);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_rounds::PlantedBug::name));
        line
    }

    /// What a campaign says to people.
    fn to_text(&self, result: &CampaignResult) -> String {
        let faults = result.faults.iter().filter(|(_, count)| **count > 0);
        let faults: Vec<_> = faults.map(|(kind, count)| format!("{kind} {}", grouped(*count))).collect();
        let faults = if faults.is_empty() { "none".to_owned() } else { faults.join(", ") };
        let mut table = Table::new([
            Column::numbers("runs", ""),
            Column::numbers("beyond t", ""),
            Column::numbers("rounds", ""),
            Column::numbers(if result.operations > 0 { "operations" } else { "decided" }, ""),
            Column::numbers("fences", ""),
            Column::numbers("violations", ""),
            Column::words("checked"),
        ]);
        table.row([
            grouped(result.seeds_run),
            grouped(result.seeds_beyond),
            grouped(result.rounds),
            grouped(result.decided.max(result.operations)),
            grouped(result.fences),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        let mut text = format!(
            "{table}\n  nodes       {}, of which {} may fail; window {}, engine {}\n  faults      {faults}\n  \
             in time     decided everywhere within {DECIDED_WITHIN}, members again within {MEMBER_WITHIN} of the last fault\n  \
             log hash    {}\n  repeat      {}\n",
            result.nodes,
            result.tolerated,
            result.window,
            result.nic,
            result.findings.log_hash,
            self.command(&self.seeds)
        );
        for violation in &result.findings.violations {
            text += &format!(
                "\nseed {}, nodes {:?} fail: {}\n  repeat  {}\n",
                violation.seed, violation.about.faulty, violation.what, violation.replay
            );
        }
        text
    }
}
