//! `weft sim kv`: fault campaigns of the key-value store.

use clap::Args;
use weft_bench::kv::simulated::{Campaign, CampaignResult, NodeNic};
use weft_harness::progress::Progress;
use weft_results::NicModel;
use weft_results::table::{Column, Table, grouped};
use weft_sim::FaultKinds;

use super::findings::{self, list, live_within};
use super::nodes::CampaignGround;
use super::seeds::SeedOptions;
use crate::bench::node_nic::NodeNicOptions;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::ground::Ground;
use crate::parse::Seeds;
use crate::replay::CommandLine;
use crate::task::{Files, Histories, Task};
use crate::{faults, parse};

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
    /// Plant this known bug around the engines, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_node_bug)]
    node_bug: Option<weft_harness::NodeBug>,
    /// Plant this known bug between the engine and its disk, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_disk_bug)]
    disk_bug: Option<weft_bench::kv::simulated::DiskBug>,
}

impl Task for KvCampaign {
    type Found = CampaignResult;

    const KIND: &'static str = "sim kv";
    const HISTORY: Option<Histories<CampaignResult>> = Some(|result| result.histories.iter().collect());

    fn work(&self) -> Result<CampaignResult, Failure> {
        self.work_for(&Files::default())
    }

    fn work_for(&self, files: &Files<Self>) -> Result<CampaignResult, Failure> {
        self.seeds.check()?;
        let campaign = Campaign { keep_histories: files.history.is_some(), ..self.campaign()? };
        let mut progress = Progress::new("seeds", self.seeds.chosen().count());
        campaign.run(|seed| self.command(&Seeds(seed..=seed)).to_string(), |done| progress.set(done)).map_err(
            |error| match &self.faults {
                Faults::Plan(path) => Failure::at(path, error),
                Faults::Kinds(_) => error.into(),
            },
        )
    }

    fn to_text(&self, result: &CampaignResult) -> String {
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
            grouped(result.operations),
            grouped(result.views),
            grouped(result.lost_acknowledged_writes),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        let disks = result.disks.map_or(String::new(), |disks| {
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
            result.nic,
            result.engine_on,
            list(&result.faults),
            live_within(result.live_within_ns, result.live_within_bound_ns),
            findings::sealed(result.psp.as_ref()),
            findings::to_text(&result.findings, &self.command(&self.seeds.chosen()), |()| String::new()),
        )
    }

    fn holds(&self, result: &CampaignResult) -> bool {
        result.findings.violations_found == 0
    }
}

impl KvCampaign {
    fn campaign(&self) -> Result<Campaign, Failure> {
        let (kinds, plan) = match &self.faults {
            Faults::Kinds(kinds) => (*kinds, None),
            Faults::Plan(path) => (FaultKinds::NONE, Some(faults::plan(path)?)),
        };
        let nic = self.choose_nic()?;
        if kinds.has_disks() && !matches!(nic, NodeNic::Soft(_)) {
            return Err(Failure::new(
                "nodes with disks have NICs in software: leave out --nic, or faults of disks",
            ));
        }
        Ok(Campaign {
            nodes: self.nodes,
            seeds: self.seeds.chosen().0,
            kinds,
            plan,
            nic,
            network: self.ground.network(),
            psp: self.psp,
            keep_histories: false,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            #[cfg(feature = "planted-bugs")]
            node_bug: self.node_bug,
            #[cfg(feature = "planted-bugs")]
            disk_bug: self.disk_bug,
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
            .given("--node-bug", self.node_bug.map(weft_harness::NodeBug::name))
            .given("--disk-bug", self.disk_bug.map(weft_bench::kv::simulated::DiskBug::name));
        line
    }
}
