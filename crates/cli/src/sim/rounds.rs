//! `weft sim rounds`: fault campaigns of the rounds engine.

use clap::Args;
use weft_bench::rounds::{
    DECIDED_WITHIN, FaultClass, MEMBER_WITHIN, RoundsFigures, RoundsSubject, SeedFailures, Service,
};
use weft_harness::CampaignResult;
use weft_harness::progress::Progress;
use weft_results::NicModel;
use weft_results::table::{Column, Table, grouped};
use weft_sim::FaultKinds;

use super::findings::{self, list};
use super::node_bug::NodeBugOption;
use super::seeds::SeedOptions;
use crate::failure::Failure;
use crate::parse::{self, Seeds};
use crate::replay::CommandLine;
use crate::task::Task;

/// Checks of a run.
const DEFINITIONS: &str = "\
In each run some nodes fail: they crash, or their messages are lost, late or corrupted; the membership service may \
crash and come back, too. In three runs of four at most as many nodes fail as the cluster tolerates: nodes that have \
not failed must not stop, and must decide everything that they propose. In every fourth run more fail: nodes may then \
stop, but must report that. In all runs the logs must agree, hold each proposal at most once, and hold nothing that \
was not proposed. With --service register, clients read, write, delete and compare-and-set one register, and their \
history must be linearizable.";

/// Parameters of a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RoundsCampaign {
    /// Number of nodes, 2 to 8
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse::members)]
    nodes: usize,
    #[command(flatten)]
    seeds: SeedOptions,
    /// Class of faults: all, omission, crash or none
    #[arg(long, value_name = "CLASS", default_value = "all")]
    faults: FaultClass,
    /// Consensus instances in flight, 4 or 8 [default: the fewest that the nodes need]
    #[arg(long, value_name = "4|8", value_parser = parse::window)]
    window: Option<u64>,
    /// Consensus engine: soft (in software) or rtl (the gateware, simulated cycle by cycle)
    #[arg(long, value_name = "soft|rtl", default_value = "soft", value_parser = parse::nic)]
    nic: NicModel,
    /// What runs on top of the consensus: streams (each node proposes and reads decisions) or register (one
    /// linearizable register with clients)
    #[arg(long, value_name = "streams|register", default_value_t)]
    service: Service,
    /// Encrypt all frames between nodes and clients with PSP (the PSP Security Protocol) and rotate the keys; an
    /// observer checks that no nonce is used twice
    #[arg(long)]
    psp: bool,
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_rounds_bug)]
    planted_bug: Option<weft_rounds::PlantedBug>,
    #[command(flatten)]
    node_bug: NodeBugOption,
}

impl Task for RoundsCampaign {
    type Found = CampaignResult<RoundsFigures, SeedFailures>;

    const KIND: &'static str = "sim rounds";

    fn work(&self) -> Result<Self::Found, Failure> {
        self.seeds.check()?;
        let subject = self.subject()?;
        let runs = self.seeds.runs(self.nodes, FaultKinds::NONE, None, &self.node_bug);
        let mut progress = Progress::new("seeds", self.seeds.chosen().count());
        let replay = |seed| self.command(&Seeds(seed..=seed)).to_string();
        Ok(runs.run(&subject, replay, |done| progress.set(done))?)
    }

    fn to_text(&self, result: &Self::Found) -> String {
        let figures = &result.figures;
        let mut table = Table::new([
            Column::numbers("runs", ""),
            Column::numbers("beyond t", ""),
            Column::numbers("rounds", ""),
            Column::numbers(if figures.operations > 0 { "operations" } else { "decided" }, ""),
            Column::numbers("fences", ""),
            Column::numbers("violations", ""),
            Column::words("checked"),
        ]);
        table.row([
            grouped(result.seeds_run),
            grouped(figures.seeds_beyond),
            grouped(figures.rounds),
            grouped(figures.decided.max(figures.operations)),
            grouped(figures.fences),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        format!(
            "{table}\n  nodes       {}, of which {} may fail; window {}, engine {}\n  faults      {}\n  \
             in time     decided everywhere within {DECIDED_WITHIN}, members again within {MEMBER_WITHIN} of the last fault\n{}{}",
            result.nodes,
            figures.tolerated,
            figures.window,
            figures.nic,
            list(&result.faults),
            findings::sealed(result.psp.as_ref()),
            findings::to_text(&result.findings, &self.command(&self.seeds.chosen()), |run| {
                format!(", nodes {:?} fail", run.faulty)
            }),
        )
    }

    fn holds(&self, result: &Self::Found) -> bool {
        result.findings.violations_found == 0
    }
}

impl RoundsCampaign {
    fn subject(&self) -> Result<RoundsSubject, Failure> {
        let window = parse::window_for(self.window, self.nodes)?;
        parse::fit_into_gates(self.nic, self.nodes, window, 0)?;
        if self.nic == NicModel::Rtl && self.service == Service::Register {
            return Err(Failure::new(
                "the register is software only; choose --service streams or --nic soft",
            ));
        }
        Ok(RoundsSubject {
            faults: self.faults,
            window,
            nic: self.nic,
            service: self.service,
            psp: self.psp,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        })
    }

    /// The command that repeats the runs of these seeds.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let Self { nodes, seeds: _, faults, window, nic, service, psp, .. } = self;
        let line = CommandLine::new("weft sim rounds")
            .option("--nodes", nodes)
            .option("--seeds", seeds)
            .option("--faults", faults)
            .given("--window", *window)
            .unless(NicModel::Soft, "--nic", *nic)
            .unless(Service::Streams, "--service", *service)
            .flag("--psp", *psp);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_rounds::PlantedBug::name));
        self.node_bug.add_to(line)
    }
}
