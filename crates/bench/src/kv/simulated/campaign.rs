//! Fault campaigns of the key-value store.

use std::ops::AddAssign;

use serde::Serialize;
use weft_check::{Lag, Options, Start, Verdict, check_with_cuts, lines};
use weft_cluster::KvConfig;
use weft_harness::{
    Campaign, CampaignResult, Cluster as Nodes, DRIFT_PPM, NODE_TIMES, Subject, Times, Trial,
};
use weft_kv::ReadPolicy;
use weft_results::NicModel;
use weft_sim::{FaultPlan, NetworkProfile, PlanError};
use weft_time::{Duration, Instant};
use weft_waist::View;
use weft_workload::{Distribution, Workload};
use weft_workload::{Limit, Load};

use super::cluster::{Cluster, ClusterParameters};
#[cfg(feature = "planted-bugs")]
use super::disks::DiskBug;
use super::nodes::{NodeBuilder, NodeNic};
use crate::disks::{DiskFigures, DiskRegime, has_disks};
use crate::kv::Phase;

/// Bound on the time from the last fault until every node serves again, and on the time that the operations
/// take after that.
const LIVE_WITHIN: Duration = NODE_TIMES.live_within.expect("nodes serve again");
/// Time for which the workload continues without faults after that.
const CALM: Duration = Duration::from_ms(5);
/// Interval between two checks of whether all operations have ended.
const SLICE: Duration = Duration::from_us(500);
/// Load of a campaign, over all clients.
const LOAD: Load = Load::Open { clients: 24, operations_per_s: 60_000.0 };
/// Number of records: few, so that clients access the same records, but more than one bucket holds.
const RECORDS: u64 = 64;

/// The store as the subject of a campaign, with 1 to 16 nodes.
#[derive(Clone, Debug)]
pub struct StoreSubject {
    /// NIC of the nodes.
    pub nic: NodeNic,
    /// Network between the machines.
    pub network: NetworkProfile,
    /// Whether frames are sealed by PSP.
    pub psp: bool,
    /// How many nodes have a write on disk when it is answered, if they have disks; `None`: a majority to all, by
    /// seed.
    pub durable_copies: Option<usize>,
    /// If nodes with disks answer writes before these are on disk: how long the disks may lag.
    pub disk_lag: Option<Duration>,
    /// Whether the result keeps the histories, 64 bytes for each operation.
    pub keep_histories: bool,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_kv::PlantedBug>,
    /// Bug planted between the engine and its disk.
    #[cfg(feature = "planted-bugs")]
    pub disk_bug: Option<DiskBug>,
}

/// Figures of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StoreFigures {
    /// The NIC.
    pub nic: NicModel,
    /// Place of the engines: on the `nic`, or in software on the `host`.
    pub engine_on: &'static str,
    /// Network between the machines.
    pub network: &'static str,
    /// Cost profile of the nodes.
    pub profile: &'static str,
    /// Operations in all histories.
    pub operations: u64,
    /// Acknowledged writes that were lost at the end.
    pub lost_acknowledged_writes: u64,
    /// Effects of disk faults, if nodes have disks.
    #[serde(flatten)]
    pub disks: Option<DiskFigures>,
    /// Number of runs whose history is linearizable, and of those whose history is not.
    #[serde(skip)]
    linearizable: u64,
    #[serde(skip)]
    violated: u64,
    /// The histories, if they are kept. A run that an assertion ends has none.
    #[serde(skip)]
    pub histories: Vec<lines::Run>,
}

impl AddAssign for StoreFigures {
    fn add_assign(&mut self, run: Self) {
        let Self {
            nic: _,
            engine_on: _,
            network: _,
            profile: _,
            operations,
            lost_acknowledged_writes,
            disks,
            linearizable,
            violated,
            histories,
        } = run;
        self.operations += operations;
        self.lost_acknowledged_writes += lost_acknowledged_writes;
        if let Some((sum, run)) = self.disks.as_mut().zip(disks) {
            *sum += run;
        }
        self.linearizable += linearizable;
        self.violated += violated;
        self.histories.extend(histories);
    }
}

/// The run of a seed.
pub struct StoreTrial {
    cluster: Cluster,
    seed: u64,
    keeps_history: bool,
    disks: Option<DiskRegime>,
    disk_lag: Option<Duration>,
    /// Time at which the clients begin no more operations.
    until: Instant,
}

/// Whether the run of this seed may damage any number of disks: every fourth does.
const fn regime(seed: u64) -> DiskRegime {
    if seed.is_multiple_of(4) { DiskRegime::Arbitrary } else { DiskRegime::OneGoodCopy }
}

/// How many nodes have a write on disk when it is answered, in the run of this seed.
fn copies(nodes: usize, seed: u64) -> usize {
    let mut possible = KvConfig::durable_copies_of(nodes);
    let count = possible.clone().count();
    possible.nth((seed / 4) as usize % count).expect("there are so many")
}

/// A lag of the disks in nanoseconds, as long as any node's clock may show it.
const fn on_any_clock(lag: Duration) -> u64 {
    lag.as_ns() + lag.as_ns() * DRIFT_PPM as u64 / 1_000_000 + 1
}

/// The stream of a write: its epoch, and the leader of its key.
fn stream_of(views: &[(Instant, View)], key: &[u8], version: weft_check::Version) -> u64 {
    let epoch = weft_kv::epoch_of(version);
    let view = views.iter().map(|(_, view)| view).find(|view| view.epoch == epoch);
    let leader = view.and_then(|view| view.leader(weft_kv::partition(key)));
    u64::from(epoch.0) << 8 | leader.map_or(0, |leader| leader.index() as u64)
}

impl StoreSubject {
    /// A store on these NICs, in a network of one switch.
    pub const fn new(nic: NodeNic) -> Self {
        Self {
            nic,
            network: NetworkProfile::SWITCH,
            psp: false,
            durable_copies: None,
            disk_lag: None,
            keep_histories: false,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            #[cfg(feature = "planted-bugs")]
            disk_bug: None,
        }
    }
}

impl Subject for StoreSubject {
    type Trial = StoreTrial;
    type Figures = StoreFigures;
    type About = ();

    fn times(&self, _: &Campaign) -> Times {
        NODE_TIMES
    }

    fn figures(&self, runs: &Campaign) -> StoreFigures {
        StoreFigures {
            nic: self.nic.model(),
            engine_on: self.nic.engine_on(),
            network: self.network.name,
            profile: self.nic.profile().name,
            disks: has_disks(runs).then(DiskFigures::default),
            ..StoreFigures::default()
        }
    }

    fn about(&self, _: &Campaign, _: u64) {}

    fn plan(&self, runs: &Campaign, seed: u64) -> FaultPlan {
        runs.plan_of(seed, 1, NODE_TIMES.faults)
    }

    fn trial(&self, runs: &Campaign, seed: u64, plan: &FaultPlan) -> Result<StoreTrial, PlanError> {
        let workload = Workload::parse("mixed")
            .and_then(|workload| workload.with_records(RECORDS))
            .and_then(|workload| workload.with_value_bytes(64))
            .expect("the workload of campaigns exists")
            .with_distribution(Distribution::Zipfian);
        let disks = has_disks(runs).then(|| regime(seed));
        let cluster = Cluster::new(&ClusterParameters {
            nodes: runs.nodes,
            keepers: runs.keepers,
            workload,
            load: LOAD,
            reads: ReadPolicy::AnyReplica,
            seed,
            nic: self.nic,
            network: self.network,
            psp: self.psp,
            plan: plan.clone(),
            disks,
            durable_copies: disks.map_or(0, |_| self.durable_copies.unwrap_or(copies(runs.nodes, seed))),
            disk_lag: self.disk_lag,
            planted: runs.planted,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            #[cfg(feature = "planted-bugs")]
            disk_bug: self.disk_bug,
        })?;
        let (keeps_history, disk_lag) = (self.keep_histories, self.disk_lag);
        Ok(StoreTrial { cluster, seed, keeps_history, disks, disk_lag, until: Instant::ZERO })
    }

    fn holds(&self) -> &'static str {
        "linearizable"
    }

    /// The worst verdict of all histories. A run that an assertion ends has none.
    fn verdict(&self, result: &CampaignResult<StoreFigures>) -> &'static str {
        match result.figures {
            StoreFigures { violated: 1.., .. } => "violation",
            StoreFigures { linearizable, .. } if linearizable < result.seeds_run => "undecided",
            _ => self.holds(),
        }
    }
}

impl Trial for StoreTrial {
    type Nodes = NodeBuilder;
    type Figures = StoreFigures;

    fn cluster(&self) -> &Nodes<NodeBuilder> {
        &self.cluster.machines
    }

    fn run_until(&mut self, until: Instant) {
        self.cluster.run_until(until);
    }

    fn begin(&mut self, faults_end: Instant) {
        let (loaded_by, until) = (NODE_TIMES.faults.start, faults_end + LIVE_WITHIN + CALM);
        self.cluster.begin(|_| Phase::Load);
        let loaded = self.cluster.finish(SLICE, Instant::ZERO + loaded_by, |_| {});
        assert!(loaded, "a cluster without faults loads {RECORDS} records in {loaded_by}");
        self.cluster.begin(|_| Phase::Run { limit: Limit::Until(until), warm_up: Duration::ZERO });
        self.until = until;
    }

    fn has_halted(&self) -> bool {
        self.disks == Some(DiskRegime::Arbitrary)
            && self.cluster.machines.phase() == Some(weft_cluster::Phase::Halted)
    }

    fn settle(&mut self, _: Instant, wrong: &mut Vec<String>) {
        if self.has_halted() {
            return;
        }
        let mut has_finished = self.cluster.finish(SLICE, self.until + LIVE_WITHIN, |_| {});
        if has_finished {
            self.cluster.begin(|_| Phase::ReadBack);
            has_finished = self.cluster.finish(SLICE, self.now() + LIVE_WITHIN, |_| {});
        }
        if !has_finished {
            wrong.push("some operations were not answered although all faults were over".to_owned());
            return;
        }
        let digests = self.cluster.digests();
        if self.cluster.machines.is_whole() && digests.windows(2).any(|pair| pair[0] != pair[1]) {
            wrong.push(format!("the nodes hold different data in the end: digests {digests:016x?}"));
        }
    }

    fn judge(self, figures: &mut StoreFigures, wrong: &mut Vec<String>) {
        let has_halted = self.has_halted();
        let power_cuts = self.cluster.machines.world.fault_counts().power;
        let views = self.cluster.machines.views();
        let cuts = if self.disk_lag.is_some() { self.cluster.cuts() } else { Vec::new() };
        let (_, history) = self.cluster.into_parts();
        let stream = |key: &[u8], version| stream_of(&views, key, version);
        let lag_ns = self.disk_lag.map_or(0, on_any_clock);
        let checked = check_with_cuts(&history, &cuts, &Lag { lag_ns, stream: &stream }, &Options::default());
        let report = checked.report;
        figures.operations += report.operations;
        figures.lost_acknowledged_writes += report.lost_acknowledged_writes;
        figures.linearizable +=
            u64::from(report.verdict == Verdict::Linearizable && checked.violation.is_none());
        let is_violated = report.verdict == Verdict::Violation || checked.violation.is_some();
        figures.violated += u64::from(is_violated);
        if let Some(disks) = &mut figures.disks {
            disks.power_cuts += power_cuts;
            // What the check lets a cut lose was not durable at enough members; all other answered writes were.
            disks.durable_writes_lost += report.lost_acknowledged_writes;
            disks.undurable_writes_lost += checked.lost_writes;
            disks.arbitrary_runs += u64::from(self.disks == Some(DiskRegime::Arbitrary));
            disks.halted_runs += u64::from(has_halted);
        }
        if report.lost_acknowledged_writes > 0 {
            wrong.push(format!("{} acknowledged writes are lost", report.lost_acknowledged_writes));
        }
        wrong.extend(checked.violation);
        wrong.extend(report.violations.iter().map(ToString::to_string));
        if report.verdict == Verdict::Undecided {
            wrong.push("the check gave up".to_owned());
        }
        if self.keeps_history {
            let run = lines::KeyValueRun { start: Start::Empty, seed: Some(self.seed), history };
            figures.histories.push(run.into());
        }
    }
}
