//! `weft sim kv`: fault campaigns of the key-value store.

use clap::{Args, ValueEnum};
use weft_bench::disks::has_disks;
use weft_bench::kv::simulated::{NodeNic, StoreFigures, StoreSubject};
use weft_cluster::KvConfig;
use weft_harness::MACHINES_IN_GATES;
use weft_results::table::grouped;
use weft_time::Duration;

use super::campaign::{CampaignGround, Conduct, EngineOptions, Found, NodesOption};
use super::faults::{DISK_FAULTS, FaultsOption};
use crate::bench::node_nic::NodeNicOptions;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::ground::Ground;
use crate::parse;
use crate::replay::CommandLine;
use crate::task::Histories;

/// Number of keepers with `--keepers`.
const KEEPERS: usize = 3;

/// Options of the store.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct KvOptions {
    #[command(flatten)]
    nic: NodeNicOptions,
    #[command(flatten)]
    ground: Ground<CampaignGround>,
    /// Encrypt all frames between nodes and clients with PSP (the PSP Security Protocol) and rotate the keys; an
    /// observer checks that no nonce is used twice
    #[arg(long)]
    psp: bool,
    /// Let three keepers hold the membership service in turn, with its state in a register on three coordinators,
    /// rather than one process with a state file; all of them suffer the faults `outage` and `pause`
    #[arg(long, conflicts_with = "psp")]
    keepers: bool,
    /// With faults of disks: how many nodes must have a write on disk, a majority to all [default: by seed]
    #[arg(long, value_name = "NUMBER", value_parser = parse::nodes)]
    durable_copies: Option<usize>,
    /// With faults of disks: whether a write is answered once it is on disk, or before that [default: sync]
    #[arg(long, value_enum, value_name = "sync|async", hide_possible_values = true)]
    durability: Option<Durability>,
    /// With --durability async: how long, in milliseconds of virtual time, a write may be on too few disks before its
    /// leader takes no further one [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    lag_ms: Option<u64>,
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_bug)]
    planted_bug: Option<weft_kv::PlantedBug>,
    /// Plant this known bug between the engine and its disk, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_disk_bug)]
    disk_bug: Option<weft_bench::kv::simulated::DiskBug>,
}

/// Checks that cards in gates can have the keys of all machines: those of the nodes and of at least one of clients.
fn fit_keys_into_gates(nic: &NodeNic, nodes: usize) -> Result<(), Failure> {
    match nic {
        NodeNic::Rtl(_) if nodes >= MACHINES_IN_GATES => Err(Failure::new(format!(
            "with --psp the gateware has keys for {MACHINES_IN_GATES} machines, of which one is for clients; \
             choose at most {} nodes, or --nic soft",
            MACHINES_IN_GATES - 1
        ))),
        NodeNic::RtlBeforeHost => Err(Failure::new(
            "with --engine host the host installs no keys in the card; leave out --engine host, or --psp",
        )),
        NodeNic::Rtl(_) | NodeNic::Soft(_) => Ok(()),
    }
}

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Durability {
    /// Once it is on disk at enough nodes.
    Sync,
    /// Before that.
    Async,
}

impl Durability {
    const fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Async => "async",
        }
    }
}

impl KvOptions {
    /// Checks the options of nodes with disks; returns how long disks may lag, if writes are answered before they are
    /// on disk.
    fn disk_lag(&self, nodes: usize, has_disks: bool) -> Result<Option<Duration>, Failure> {
        let needs_disks = [
            ("--durable-copies", self.durable_copies.is_some()),
            ("--durability", self.durability.is_some()),
            ("--lag-ms", self.lag_ms.is_some()),
        ];
        if let Some((option, _)) = needs_disks.iter().find(|(_, is_given)| *is_given && !has_disks) {
            return Err(Failure::new(format!(
                "{option} is for nodes with disks: give faults of disks, such as --faults all,disk, or leave it out"
            )));
        }
        let possible = KvConfig::durable_copies_of(nodes);
        if self.durable_copies.is_some_and(|copies| !possible.contains(&copies)) {
            let (least, most) = possible.into_inner();
            return Err(Failure::new(format!("with {nodes} nodes give --durable-copies {least} to {most}")));
        }
        let is_async = self.durability == Some(Durability::Async);
        if self.lag_ms.is_some() && !is_async {
            return Err(Failure::new(
                "--lag-ms is for writes that are answered before they are on disk: add --durability async",
            ));
        }
        Ok(is_async.then(|| Duration::from_ms(self.lag_ms.unwrap_or(1))))
    }
}

impl EngineOptions for KvOptions {
    type Faults = Faults;
    type Figures = StoreFigures;
    type About = ();

    const KIND: &'static str = "sim kv";
    const NODES: NodesOption =
        NodesOption { help: "Number of nodes, 1 to 16", default: "5", parse: parse::nodes };
    const FAULTS: FaultsOption<Faults> = DISK_FAULTS;
    const HISTORY: Option<Histories<Found<Self>>> = Some(|found| found.figures.histories.iter().collect());

    fn run(&self, mut conduct: Conduct<'_, Faults>) -> Result<Found<Self>, Failure> {
        if self.keepers {
            conduct.runs.keepers = KEEPERS;
        }
        let nic = self.nic.choose(conduct.runs.nodes, self.ground.profile)?;
        if self.psp {
            fit_keys_into_gates(&nic, conduct.runs.nodes)?;
        }
        if conduct.runs.kinds.has_disks() && !matches!(nic, NodeNic::Soft(_)) {
            return Err(Failure::new(
                "nodes with disks have NICs in software: leave out --nic, or faults of disks",
            ));
        }
        let disk_lag = self.disk_lag(conduct.runs.nodes, has_disks(&conduct.runs))?;
        conduct.of(&StoreSubject {
            durable_copies: self.durable_copies,
            disk_lag,
            network: self.ground.network(),
            psp: self.psp,
            keep_histories: conduct.keeps_histories,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            #[cfg(feature = "planted-bugs")]
            disk_bug: self.disk_bug,
            ..StoreSubject::new(nic)
        })
    }

    fn add_to(&self, line: CommandLine) -> CommandLine {
        let line =
            self.ground.add_to(self.nic.add_to(line)).flag("--psp", self.psp).flag("--keepers", self.keepers);
        let line = line
            .given("--durable-copies", self.durable_copies)
            .given("--durability", self.durability.map(Durability::name))
            .given("--lag-ms", self.lag_ms);
        #[cfg(feature = "planted-bugs")]
        let line = line
            .given("--planted-bug", self.planted_bug.map(weft_kv::PlantedBug::name))
            .given("--disk-bug", self.disk_bug.map(weft_bench::kv::simulated::DiskBug::name));
        line
    }

    fn counts(&self, found: &Found<Self>) -> Vec<(&'static str, u64)> {
        let StoreFigures { operations, lost_acknowledged_writes, .. } = found.figures;
        vec![("operations", operations), ("views", found.views), ("lost writes", lost_acknowledged_writes)]
    }

    fn cluster(&self, found: &Found<Self>) -> Option<(&'static str, String)> {
        let StoreFigures { nic, engine_on, .. } = &found.figures;
        Some(("nic", format!("{nic}, engines on the {engine_on}")))
    }

    fn notes(&self, found: &Found<Self>) -> Vec<(&'static str, String)> {
        let disks = found.figures.disks.iter();
        disks
            .map(|disks| {
                let text = format!(
                    "{} cuts of power, {} durable writes lost, {} others; {} of {} runs damaged any disk, {} lost all",
                    grouped(disks.power_cuts),
                    grouped(disks.durable_writes_lost),
                    grouped(disks.undurable_writes_lost),
                    grouped(disks.arbitrary_runs),
                    grouped(found.seeds_run),
                    grouped(disks.halted_runs),
                );
                ("disks", text)
            })
            .collect()
    }
}
