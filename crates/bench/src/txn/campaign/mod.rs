//! Fault campaigns of transactions: random faults, and crashes at steps of the protocol.

mod books;
mod cluster;
mod host;
mod steps;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;
use weft_applications::Workload;
use weft_applications::WorkloadName;
use weft_applications::retwis::Retwis;
use weft_applications::smallbank::Smallbank;
use weft_applications::tpcc::{Scale, Tpcc};
use weft_check::lines::{self, TransactionsRun};
use weft_harness::{Campaign, Cluster as Nodes, Subject, Times, Trial, add_counts};
use weft_sim::{FaultKind, FaultKinds, FaultPlan, PlanError, Stream};
use weft_time::{Duration, Instant};
use weft_txn::LOADED;
use weft_txn::host::Local;
use weft_verbs::Target;

use self::cluster::{Cluster, ClusterParameters, LEASE, NodeBuilder, engine, half};
use self::steps::StepCrash;
use crate::disks::has_disks;

/// Time of the first fault; the cluster has been running for some time by then.
const FAULTS_FROM: Duration = Duration::from_ms(1);
/// Time at which all faults are over.
const FAULTS_UNTIL: Duration = Duration::from_ms(6);
/// End of faults in runs that have only partial partitions. These runs are longer, because the check of a
/// partial partition takes several leases.
const PARTINGS_UNTIL: Duration = Duration::from_ms(21);
/// Bound on the time from the last fault until the clients of every node commit again. In the worst case the
/// lease of an unreachable node ends, a view without the node is published, the node learns that it must
/// rejoin, joins in a second view, copies its shards, and is full in a third. Each step waits for a heartbeat
/// or for the minimum interval between views.
const LIVE_WITHIN: Duration = LEASE.saturating_mul(20);
/// The same for nodes with disks: each of these steps also waits for some flushes of a disk, which may be slow until
/// shortly before.
const LIVE_WITHIN_ON_DISKS: Duration = LEASE.saturating_mul(80);
/// Time from the last answer until no transaction is in progress.
const QUIET_WITHIN: Duration = Duration::from_ms(5);
/// The same for nodes with disks, whose logs may be full of transactions that wait for the disks of two nodes.
const QUIET_WITHIN_ON_DISKS: Duration = Duration::from_ms(25);
/// Interval between two checks of a run.
const SLICE: Duration = Duration::from_us(20);
/// Number of objects of each server: small, so that transactions conflict.
const SMALLBANK_ACCOUNTS: u64 = 60;
const RETWIS_KEYS: u64 = 60;
const TPCC_ITEMS: u32 = 40;
const TPCC_CUSTOMERS: u32 = 10;
/// Maximum number of objects that are added to a node, with TPC-C.
const TPCC_INSERTS: u64 = 20_000;
/// Clients of each node, and their maximum pause between two calls.
const LANES_MAX: u64 = 6;
/// Clients of each node in runs with full logs: so many that some find no room in the log.
const LANES_FULL_LOGS: usize = 12;
const PAUSE_FULL_LOGS: Duration = Duration::from_us(1);
const PAUSE_MAX_NS: u64 = 60_000;

/// Transactions as the subject of a campaign, with 2 to 16 nodes.
#[derive(Clone, Copy, Debug)]
pub struct TransactionsSubject {
    /// The workload; `None`: Smallbank and Retwis alternate with the seed, but runs with full logs have
    /// new-order.
    pub workload: Option<WorkloadName>,
    /// Replicas of each shard, f + 1: at least 2, and at most all nodes.
    pub replication: usize,
    /// Whether every replica of one shard crashes after all faults.
    pub lose_shard: bool,
    /// Whether the result keeps the histories.
    pub keep_histories: bool,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_txn::PlantedBug>,
}

/// Figures of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TransactionFigures {
    /// Replicas of each shard.
    pub replication: u32,
    /// Runs by workload.
    pub workloads: BTreeMap<&'static str, u64>,
    /// Transactions that committed, over all runs.
    pub committed: u64,
    /// Calls that their procedure aborted.
    pub aborted: u64,
    /// Calls without an answer because their node failed.
    pub unanswered: u64,
    /// Attempts with an unknown outcome that took effect.
    pub unknown_but_seen: u64,
    /// Calls that were answered with the message that a shard is lost.
    pub unavailable: u64,
    /// Restarts of nodes.
    pub restarts: u64,
    /// Crashes at a step of the protocol, by the kind of the message before the crash.
    pub step_crashes: BTreeMap<&'static str, u64>,
    /// Number of power failures of several nodes at once, if nodes have disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cuts: Option<u64>,
    /// The histories, if they are kept. A run that an assertion ends has none.
    #[serde(skip)]
    pub histories: Vec<lines::Run>,
}

impl AddAssign for TransactionFigures {
    fn add_assign(&mut self, run: Self) {
        let Self {
            replication: _,
            workloads,
            committed,
            aborted,
            unanswered,
            unknown_but_seen,
            unavailable,
            restarts,
            step_crashes,
            power_cuts,
            histories,
        } = run;
        add_counts(&mut self.workloads, workloads);
        self.committed += committed;
        self.aborted += aborted;
        self.unanswered += unanswered;
        self.unknown_but_seen += unknown_but_seen;
        self.unavailable += unavailable;
        self.restarts += restarts;
        add_counts(&mut self.step_crashes, step_crashes);
        if let Some((sum, run)) = self.power_cuts.as_mut().zip(power_cuts) {
            *sum += run;
        }
        self.histories.extend(histories);
    }
}

/// The run of a seed.
pub struct TransactionTrial {
    cluster: Cluster,
    seed: u64,
    workload: WorkloadName,
    keeps_history: bool,
    /// The shard that is lost at the end, if any.
    loses: Option<usize>,
    /// Nodes that do not serve, because all replicas of their shard are lost.
    out: Vec<usize>,
    /// Commits at each node when the faults were over.
    committed_before: Vec<u64>,
}

impl Default for TransactionsSubject {
    fn default() -> Self {
        Self {
            workload: None,
            replication: 2,
            lose_shard: false,
            keep_histories: false,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }
}

impl TransactionsSubject {
    /// The workload of a seed.
    fn workload_of(&self, runs: &Campaign, seed: u64) -> WorkloadName {
        // New-order has long records, which fill the logs.
        let usual = [WorkloadName::Retwis, WorkloadName::Smallbank][(seed % 2) as usize];
        let full_logs = steps_of(runs, seed).iter().any(|crash| crash.step.wants_full_logs());
        self.workload.unwrap_or(if full_logs { WorkloadName::TpccNewOrder } else { usual })
    }

    fn parameters(&self, runs: &Campaign, seed: u64, plan: &FaultPlan) -> (ClusterParameters, Option<usize>) {
        let mut random = Stream::new(seed, "txn campaign", 0);
        let mut host = Stream::new(seed, "txn host execution", 0);
        let inserts = match self.workload_of(runs, seed) {
            WorkloadName::Smallbank | WorkloadName::Retwis => 0,
            WorkloadName::TpccNewOrder | WorkloadName::Tpcc => TPCC_INSERTS,
        };
        let tight_logs = steps_of(runs, seed).iter().any(|crash| crash.step.wants_full_logs());
        let lanes = random.between(1, LANES_MAX) as usize;
        let pause = Duration::from_ns(random.between(1_000, PAUSE_MAX_NS));
        let parameters = ClusterParameters {
            nodes: runs.nodes,
            replication: self.replication,
            inserts,
            lanes: if tight_logs { LANES_FULL_LOGS } else { lanes },
            pause: if tight_logs { PAUSE_FULL_LOGS } else { pause },
            // Either enough entries for all objects, or so few that some are evicted.
            index_entries: [512, 64][random.below(2) as usize],
            tight_logs,
            multi_hop: random.below(2) > 0,
            local: [Local::All, Local::Unshipped, Local::Nothing][host.below(3) as usize],
            seed,
            plan: plan.clone(),
            has_disks: has_disks(runs),
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            planted: runs.planted,
        };
        (parameters, self.lose_shard.then(|| random.below(runs.nodes as u64) as usize))
    }
}

const fn live_within(has_disks: bool) -> Duration {
    if has_disks { LIVE_WITHIN_ON_DISKS } else { LIVE_WITHIN }
}

/// The crashes at steps of the protocol in a seed's run.
fn steps_of(runs: &Campaign, seed: u64) -> Vec<StepCrash> {
    if !runs.kinds.contains(FaultKind::Crash) {
        return Vec::new();
    }
    StepCrash::of_seed(seed, Instant::ZERO + FAULTS_FROM, Instant::ZERO + FAULTS_UNTIL)
}

fn make_workload(name: WorkloadName, nodes: usize) -> Box<dyn Workload> {
    let scale = Scale { shards: nodes, warehouses: 1, items: TPCC_ITEMS, customers: TPCC_CUSTOMERS };
    match name {
        WorkloadName::Smallbank => Box::new(Smallbank::new(nodes, SMALLBANK_ACCOUNTS)),
        WorkloadName::Retwis => Box::new(Retwis::new(nodes, RETWIS_KEYS)),
        WorkloadName::TpccNewOrder => Box::new(Tpcc::new_order_only(scale)),
        WorkloadName::Tpcc => Box::new(Tpcc::new(scale)),
    }
}

impl Subject for TransactionsSubject {
    type Trial = TransactionTrial;
    type Figures = TransactionFigures;
    type About = ();

    fn times(&self, runs: &Campaign) -> Times {
        let are_partings = runs.kinds == FaultKinds::NONE.with(FaultKind::PartialPartition);
        Times {
            faults: FAULTS_FROM..if are_partings { PARTINGS_UNTIL } else { FAULTS_UNTIL },
            faulty_until: FAULTS_UNTIL,
            lease: Some(LEASE),
            live_within: Some(live_within(has_disks(runs))),
            step: SLICE,
        }
    }

    fn figures(&self, runs: &Campaign) -> TransactionFigures {
        TransactionFigures {
            replication: self.replication as u32,
            power_cuts: has_disks(runs).then_some(0),
            ..TransactionFigures::default()
        }
    }

    fn about(&self, _: &Campaign, _: u64) {}

    fn trial(&self, runs: &Campaign, seed: u64, plan: &FaultPlan) -> Result<TransactionTrial, PlanError> {
        let (parameters, loses) = self.parameters(runs, seed, plan);
        let workload = self.workload_of(runs, seed);
        let cluster = Cluster::new(&parameters, make_workload(workload, runs.nodes), steps_of(runs, seed))?;
        Ok(TransactionTrial {
            cluster,
            seed,
            workload,
            keeps_history: self.keep_histories,
            loses,
            out: Vec::new(),
            committed_before: Vec::new(),
        })
    }

    fn holds(&self) -> &'static str {
        "strictly serializable"
    }
}

impl TransactionTrial {
    fn nodes(&self) -> std::ops::Range<usize> {
        0..self.cluster.machines.nodes()
    }

    /// A figure of each node.
    fn figure(&self, of: impl Fn(&books::NodeRecord) -> u64) -> Vec<u64> {
        self.cluster.books.borrow().nodes.iter().map(of).collect()
    }

    fn committed(&self) -> Vec<u64> {
        self.figure(|node| node.committed)
    }

    /// The nodes that should serve and do not, or whose clients do not commit. A transaction that is
    /// outstanding when the faults are over may have begun before, so each client must commit two on average.
    fn stuck(&self) -> Vec<usize> {
        let more = 2 * self.cluster.parameters().lanes as u64;
        let committed = self.committed();
        let commits = |node: usize| committed[node] >= self.committed_before[node] + more;
        let is_live = |node: usize| self.cluster.machines.serves_in_view(node) && commits(node);
        self.nodes().filter(|node| !self.out.contains(node) && !is_live(*node)).collect()
    }

    /// Crashes all replicas of a shard; they restart with empty memory. Calls for this shard must be answered
    /// with the message that it is lost, and calls for other shards must continue.
    fn lose(&mut self, shard: usize, wrong: &mut Vec<String>) {
        let (nodes, replication) = (self.nodes().len(), self.cluster.parameters().replication);
        self.out = (0..replication).map(|step| (shard + step) % nodes).collect();
        self.cluster.books.borrow_mut().may_lose = true;
        let unavailable = |trial: &Self| trial.figure(|node| node.unavailable);
        let before = unavailable(self);
        for node in &self.out {
            self.cluster.crash_anyway(*node);
        }
        self.run_for(SLICE);
        self.out.iter().for_each(|node| self.cluster.restart(*node));
        self.committed_before = self.committed();
        let until = self.now() + LIVE_WITHIN;
        if !self.wait(SLICE, until, Self::is_live) {
            let state = self.describe();
            wrong.push(format!("{LIVE_WITHIN} after the loss of a shard not all others serve: {state}"));
        }
        // After some time, the clients of every node have made a call for the shard.
        let untold = |trial: &Self| -> Vec<usize> {
            let after = unavailable(trial);
            trial.nodes().filter(|&node| after[node] <= before[node]).collect()
        };
        self.wait(SLICE, until, |trial| untold(trial).is_empty());
        for node in untold(self) {
            wrong.push(format!("the clients of node{node} were not told that shard {shard} is lost"));
        }
        for (_, node) in self.cluster.machines.running() {
            let lost: Vec<usize> = engine(node).lost_shards().collect();
            if lost != [shard] {
                wrong.push(format!("shard {shard} is lost, and a node says {lost:?}"));
            }
        }
    }

    /// Whether no transaction is in progress, and no lock remains.
    fn is_quiet(&self) -> bool {
        let mut running = self.cluster.machines.running();
        running.all(|(_, node)| half(node).under_way() == 0 && engine(node).is_quiet())
    }

    /// The objects of full nodes, by shard.
    fn held(&self) -> Vec<Vec<(usize, books::Held)>> {
        let (nodes, replication) = (self.nodes().len(), self.cluster.parameters().replication);
        let mut held: Vec<Vec<(usize, books::Held)>> = vec![Vec::new(); nodes];
        for (node, running) in self.cluster.machines.running() {
            if !self.cluster.machines.serves_in_view(node) {
                continue;
            }
            let mut shards = vec![books::Held::default(); nodes];
            half(running).for_each(running.nic().card().image(Target::Host), |key, version, value| {
                shards[key.shard()].insert(key, (version, value.to_vec()));
            });
            for (shard, objects) in shards.into_iter().enumerate() {
                if (node + nodes - shard) % nodes < replication {
                    held[shard].push((node, objects));
                } else if !objects.is_empty() {
                    let what = format!("node{node} holds something of shard {shard}");
                    self.cluster.books.borrow_mut().wrong.push(what);
                }
            }
        }
        held
    }
}

impl Trial for TransactionTrial {
    type Nodes = NodeBuilder;
    type Figures = TransactionFigures;

    fn cluster(&self) -> &Nodes<NodeBuilder> {
        &self.cluster.machines
    }

    fn run_until(&mut self, until: Instant) {
        self.cluster.run_until(until);
    }

    fn faults_are_over(&mut self) -> Instant {
        let last_fault = self.cluster.no_more_steps();
        self.run_until(last_fault);
        self.committed_before = self.committed();
        last_fault
    }

    fn is_live(&mut self) -> bool {
        self.stuck().is_empty()
    }

    fn describe(&self) -> String {
        let committed = self.committed();
        let since = |node: usize| committed[node] - self.committed_before[node];
        let stuck = self.stuck().into_iter().map(|node| format!("node{node} ({} committed)", since(node)));
        format!("{}; {}", stuck.collect::<Vec<_>>().join(", "), self.cluster.machines.describe())
    }

    fn settle(&mut self, _: Instant, wrong: &mut Vec<String>) {
        if let Some(shard) = self.loses.filter(|_| wrong.is_empty()) {
            self.lose(shard, wrong);
        }
        self.cluster.books.borrow_mut().stopped = true;
        let has_disks = self.cluster.parameters().has_disks;
        let within = if has_disks { QUIET_WITHIN_ON_DISKS } else { QUIET_WITHIN };
        let until = self.now() + within;
        self.run_for(SLICE);
        if !self.wait(SLICE, until, |trial| trial.is_quiet()) {
            let of = |(index, node)| {
                let (calls, quiet) = (half(node).under_way(), engine(node).is_quiet());
                format!("node{index} has {calls} calls, quiet {quiet}")
            };
            let busy = self.cluster.machines.running().map(of).collect::<Vec<_>>().join(", ");
            wrong.push(format!("{within} after the last call something is under way: {busy}"));
        }
    }

    fn judge(mut self, figures: &mut TransactionFigures, wrong: &mut Vec<String>) {
        self.cluster.take_records();
        let held = self.held();
        let mut books = self.cluster.books.borrow_mut();
        if wrong.is_empty() {
            books.compare(&held);
        }
        if let Some(power_cuts) = &mut figures.power_cuts {
            *power_cuts += self.cluster.machines.world.fault_counts().power;
        }
        let history = books.history();
        if self.keeps_history {
            let (initial_version, seed) = (LOADED.bits(), Some(self.seed));
            let transactions = history.records();
            figures.histories.push(TransactionsRun { initial_version, seed, transactions }.into());
        }
        let report = books::check(history, &held);
        wrong.append(&mut books.wrong);
        wrong.extend(report.violations.iter().map(ToString::to_string));
        if report.is_violated() && report.violations.is_empty() {
            wrong.push(format!("the history is wrong: {report:?}"));
        }
        *figures.workloads.entry(self.workload.name()).or_insert(0) += 1;
        for node in &books.nodes {
            figures.committed += node.committed;
            figures.aborted += node.aborted;
            figures.unanswered += node.unanswered;
            figures.unavailable += node.unavailable;
            figures.restarts += node.lives - 1;
        }
        figures.unknown_but_seen += report.unknown_but_seen;
        add_counts(&mut figures.step_crashes, self.cluster.step_crashes);
    }
}
