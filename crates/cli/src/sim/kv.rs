//! `weft sim kv`: fault campaigns of the key-value store.

use clap::Args;
use weft_bench::kv::simulated::{NodeNic, StoreFigures, StoreSubject};
use weft_harness::CampaignResult;
use weft_harness::progress::Progress;
use weft_results::NicModel;
use weft_results::table::{Column, Table, grouped};

use super::findings::{self, list, live_within};
use super::node_bug::NodeBugOption;
use super::nodes::CampaignGround;
use super::seeds::SeedOptions;
use crate::bench::node_nic::NodeNicOptions;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::ground::Ground;
use crate::parse::{self, Seeds};
use crate::replay::CommandLine;
use crate::task::{Files, Histories, Task};

/// Parameters of a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct KvCampaign {
    /// Number of nodes, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse::nodes)]
    nodes: usize,
    #[command(flatten)]
    seeds: SeedOptions,
    /// Kinds of faults, separated by commas. Network and nodes: loss, duplication, reordering, corruption,
    /// partition, one_way_cut, crash, pause, slow_link, outage (of the membership service), partial_partition;
    /// `all` means these. Disks: power, torn, lost, misdirect, rot, io_error, full, slow_disk; `disk` means these,
    /// and any of them gives the nodes disks. Or none, or the path of a fault plan in TOML. docs/fault-plans.md
    /// describes each
    #[arg(long, value_name = "KINDS|PLAN.toml", default_value = "all")]
    faults: Faults,
    #[command(flatten)]
    nic: NodeNicOptions,
    #[command(flatten)]
    ground: Ground<CampaignGround>,
    /// Encrypt all frames between nodes and clients with PSP (the PSP Security Protocol) and rotate the keys; an
    /// observer checks that no nonce is used twice
    #[arg(long)]
    psp: bool,
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_bug)]
    planted_bug: Option<weft_kv::PlantedBug>,
    #[command(flatten)]
    node_bug: NodeBugOption,
    /// Plant this known bug between the engine and its disk, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_disk_bug)]
    disk_bug: Option<weft_bench::kv::simulated::DiskBug>,
}

impl Task for KvCampaign {
    type Found = CampaignResult<StoreFigures>;

    const KIND: &'static str = "sim kv";
    const HISTORY: Option<Histories<Self::Found>> = Some(|result| result.figures.histories.iter().collect());

    fn work(&self) -> Result<Self::Found, Failure> {
        self.work_for(&Files::default())
    }

    fn work_for(&self, files: &Files<Self>) -> Result<Self::Found, Failure> {
        self.seeds.check()?;
        let subject = StoreSubject { keep_histories: files.history.is_some(), ..self.subject()? };
        let (kinds, plan) = self.faults.chosen()?;
        if kinds.has_disks() && !matches!(subject.nic, NodeNic::Soft(_)) {
            return Err(Failure::new(
                "nodes with disks have NICs in software: leave out --nic, or faults of disks",
            ));
        }
        let runs = self.seeds.runs(self.nodes, kinds, plan, &self.node_bug);
        let mut progress = Progress::new("seeds", self.seeds.chosen().count());
        let replay = |seed| self.command(&Seeds(seed..=seed)).to_string();
        runs.run(&subject, replay, |done| progress.set(done)).map_err(|error| self.faults.misfit(error))
    }

    fn to_text(&self, result: &Self::Found) -> String {
        let figures = &result.figures;
        let mut table = Table::new([
            Column::numbers("runs", ""),
            Column::numbers("operations", ""),
            Column::numbers("views", ""),
            Column::numbers("lost writes", ""),
            Column::numbers("violations", ""),
            Column::words("checked"),
        ]);
        table.row([
            grouped(result.seeds_run),
            grouped(figures.operations),
            grouped(result.views),
            grouped(figures.lost_acknowledged_writes),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        let disks = figures.disks.map_or(String::new(), |disks| {
            format!(
                "  disks       {} cuts of power, {} durable writes lost; {} of {} runs damaged any disk, {} lost all\n",
                grouped(disks.power_cuts),
                grouped(disks.durable_writes_lost),
                grouped(disks.arbitrary_runs),
                grouped(result.seeds_run),
                grouped(disks.halted_runs),
            )
        });
        format!(
            "{table}\n  nic         {}, engines on the {}\n  faults      {}\n{disks}  every node  serves again {}\n{}{}",
            figures.nic,
            figures.engine_on,
            list(&result.faults),
            live_within(result.live),
            findings::sealed(result.psp.as_ref()),
            findings::to_text(&result.findings, &self.command(&self.seeds.chosen()), |()| String::new()),
        )
    }

    fn holds(&self, result: &Self::Found) -> bool {
        result.findings.violations_found == 0
    }
}

impl KvCampaign {
    fn subject(&self) -> Result<StoreSubject, Failure> {
        Ok(StoreSubject {
            network: self.ground.network(),
            psp: self.psp,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            #[cfg(feature = "planted-bugs")]
            disk_bug: self.disk_bug,
            ..StoreSubject::new(self.choose_nic()?)
        })
    }

    fn choose_nic(&self) -> Result<NodeNic, Failure> {
        let nic = self.nic.choose(self.nodes, self.ground.profile)?;
        if self.psp && nic.model() == NicModel::Rtl {
            return Err(Failure::new(
                "the gateware of campaigns does not seal frames yet; choose --nic soft or leave --psp out",
            ));
        }
        Ok(nic)
    }

    /// The command that repeats the runs of these seeds.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let Self { nodes, seeds: _, faults, nic, ground, psp, .. } = self;
        let line = CommandLine::new("weft sim kv")
            .option("--nodes", nodes)
            .option("--seeds", seeds)
            .option("--faults", faults);
        let line = ground.add_to(nic.add_to(line)).flag("--psp", *psp);
        #[cfg(feature = "planted-bugs")]
        let line = line
            .given("--planted-bug", self.planted_bug.map(weft_kv::PlantedBug::name))
            .given("--disk-bug", self.disk_bug.map(weft_bench::kv::simulated::DiskBug::name));
        self.node_bug.add_to(line)
    }
}
