//! Fault campaigns of transactions: for each seed a cluster with random faults and with crashes at steps of
//! the protocol, which is checked.

mod books;
mod cluster;
mod host;
mod steps;

use std::collections::BTreeMap;

use serde::Serialize;
use weft_applications::Workload;
use weft_applications::WorkloadName;
use weft_applications::retwis::Retwis;
use weft_applications::smallbank::Smallbank;
use weft_applications::tpcc::{Scale, Tpcc};
#[cfg(feature = "planted-bugs")]
use weft_harness::NodeBug;
use weft_harness::Planted;
use weft_harness::{Findings, Judgement, Partings, add_faults, add_live_within, random_plan};
use weft_sim::{FaultKind, FaultKinds, Stream};
use weft_time::{Duration, Instant};
use weft_txn::host::Local;

use self::cluster::{Cluster, ClusterParameters, LEASE};
use self::steps::StepCrash;

/// The machine of the membership service.
const SERVICE: [&str; 1] = ["membership0"];
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
/// Time from the last answer until no transaction is in progress.
const QUIET_WITHIN: Duration = Duration::from_ms(5);
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

/// Parameters of the runs.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The workload; `None`: Smallbank and Retwis alternate with the seed, but runs with full logs have
    /// new-order.
    pub workload: Option<WorkloadName>,
    /// Nodes of each cluster, 2 to 16.
    pub nodes: usize,
    /// Replicas of each shard, f + 1: at least 2, and at most all nodes.
    pub replication: usize,
    /// One run per seed.
    pub seeds: std::ops::RangeInclusive<u64>,
    /// Kinds of injected faults.
    pub kinds: FaultKinds,
    /// Whether every replica of one shard crashes after all faults.
    pub lose_shard: bool,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_txn::PlantedBug>,
    /// Bug planted in the node's program or in the membership service.
    #[cfg(feature = "planted-bugs")]
    pub node_bug: Option<NodeBug>,
}

/// Results of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CampaignResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Nodes of each cluster.
    pub nodes: u32,
    /// Replicas of each shard.
    pub replication: u32,
    /// The first seed.
    pub seed: u64,
    /// Runs made.
    pub seeds_run: u64,
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
    /// Views published.
    pub views: u64,
    /// Partial partitions that began while no other fault was active, and during which the other nodes were
    /// seen to serve in time.
    pub partial_partitions_checked: u64,
    /// Restarts of nodes.
    pub restarts: u64,
    /// Crashes at a step of the protocol, by the kind of the message before the crash.
    pub step_crashes: BTreeMap<&'static str, u64>,
    /// Faults injected, by kind. Crashes include those at steps.
    pub faults: BTreeMap<String, u64>,
    /// The longest time of all runs from the last fault until the clients of every node had committed again.
    pub live_within_ns: u64,
    /// The bound on this time.
    pub live_within_bound_ns: u64,
    /// `strictly serializable`, or `violation`.
    pub checked: &'static str,
    /// Violations.
    #[serde(flatten)]
    pub findings: Findings,
}

impl Campaign {
    /// The workload of a seed.
    fn workload_of(&self, seed: u64) -> WorkloadName {
        // New-order has long records, which fill the logs.
        let usual = [WorkloadName::Retwis, WorkloadName::Smallbank][(seed % 2) as usize];
        let full_logs = self.steps_of(seed).iter().any(|crash| crash.step.wants_full_logs());
        self.workload.unwrap_or(if full_logs { WorkloadName::TpccNewOrder } else { usual })
    }

    /// The crashes at steps of the protocol in a seed's run.
    fn steps_of(&self, seed: u64) -> Vec<StepCrash> {
        if !self.kinds.contains(FaultKind::Crash) {
            return Vec::new();
        }
        StepCrash::of_seed(seed, Instant::ZERO + FAULTS_FROM, Instant::ZERO + FAULTS_UNTIL)
    }

    /// Time at which all faults are over.
    fn faults_until(&self) -> Duration {
        let are_partings = self.kinds == FaultKinds::NONE.with(FaultKind::PartialPartition);
        if are_partings { PARTINGS_UNTIL } else { FAULTS_UNTIL }
    }

    fn make_workload(&self, seed: u64) -> Box<dyn Workload> {
        let scale = Scale { shards: self.nodes, warehouses: 1, items: TPCC_ITEMS, customers: TPCC_CUSTOMERS };
        match self.workload_of(seed) {
            WorkloadName::Smallbank => Box::new(Smallbank::new(self.nodes, SMALLBANK_ACCOUNTS)),
            WorkloadName::Retwis => Box::new(Retwis::new(self.nodes, RETWIS_KEYS)),
            WorkloadName::TpccNewOrder => Box::new(Tpcc::new_order_only(scale)),
            WorkloadName::Tpcc => Box::new(Tpcc::new(scale)),
        }
    }

    /// Runs the campaign. `progress` is called with the number of finished seeds; `replay` returns the command that
    /// repeats the run of a seed.
    pub fn run(&self, replay: impl Fn(u64) -> String, mut progress: impl FnMut(u64)) -> CampaignResult {
        let mut result = CampaignResult {
            world: "sim",
            nodes: self.nodes as u32,
            replication: self.replication as u32,
            seed: *self.seeds.start(),
            live_within_bound_ns: LIVE_WITHIN.as_ns(),
            ..CampaignResult::default()
        };
        let mut findings = Findings::default();
        for seed in self.seeds.clone() {
            *result.workloads.entry(self.workload_of(seed).name()).or_insert(0) += 1;
            let run = || Run::new(self, seed).make(self.make_workload(seed), &mut result);
            findings.add(seed, (), run, &replay);
            result.seeds_run += 1;
            progress(result.seeds_run);
        }
        result.checked = findings.checked("strictly serializable");
        CampaignResult { findings, ..result }
    }
}

/// The run of one seed.
struct Run {
    parameters: ClusterParameters,
    steps: Vec<StepCrash>,
    /// The shard that is lost at the end, if any.
    loses: Option<usize>,
}

impl Run {
    fn new(campaign: &Campaign, seed: u64) -> Self {
        let (mut random, mut host) =
            (Stream::new(seed, "txn campaign", 0), Stream::new(seed, "txn host execution", 0));
        let period = FAULTS_FROM..campaign.faults_until();
        let inserts = match campaign.workload_of(seed) {
            WorkloadName::Smallbank | WorkloadName::Retwis => 0,
            WorkloadName::TpccNewOrder | WorkloadName::Tpcc => TPCC_INSERTS,
        };
        let steps = campaign.steps_of(seed);
        let tight_logs = steps.iter().any(|crash| crash.step.wants_full_logs());
        let lanes = random.between(1, LANES_MAX) as usize;
        let pause = Duration::from_ns(random.between(1_000, PAUSE_MAX_NS));
        Self {
            parameters: ClusterParameters {
                nodes: campaign.nodes,
                replication: campaign.replication,
                inserts,
                lanes: if tight_logs { LANES_FULL_LOGS } else { lanes },
                pause: if tight_logs { PAUSE_FULL_LOGS } else { pause },
                // Either enough entries for all objects, or so few that some are evicted.
                index_entries: [512, 64][random.below(2) as usize],
                tight_logs,
                multi_hop: random.below(2) > 0,
                local: [Local::All, Local::Unshipped, Local::Nothing][host.below(3) as usize],
                seed,
                plan: random_plan(seed, campaign.nodes, &SERVICE, &SERVICE, period, campaign.kinds),
                #[cfg(feature = "planted-bugs")]
                planted_bug: campaign.planted_bug,
                planted: Planted {
                    #[cfg(feature = "planted-bugs")]
                    bug: campaign.node_bug,
                },
            },
            steps,
            loses: campaign.lose_shard.then(|| random.below(campaign.nodes as u64) as usize),
        }
    }

    /// Runs the cluster, adds its counts to the result, and returns the violations.
    fn make(self, workload: Box<dyn Workload>, result: &mut CampaignResult) -> Judgement {
        let mut wrong = Vec::new();
        let cluster = Cluster::new(&self.parameters, workload, self.steps.clone());
        let mut cluster = cluster.expect("the plan names nodes");
        let end = self.parameters.plan.ends_at().max(Instant::ZERO + FAULTS_UNTIL);
        let mut partings = Partings::new(&self.parameters.plan, self.parameters.nodes, LEASE);
        while cluster.now() < end {
            cluster.run_until((cluster.now() + SLICE).min(end));
            let look = || cluster.machines.while_parted(|node| cluster.serves(node));
            wrong.extend(partings.look(cluster.now(), look));
        }
        result.partial_partitions_checked += partings.checked();
        let last_fault = cluster.no_more_steps();
        cluster.run_until(last_fault);
        let live = self.live_within(&mut cluster, last_fault, &[]);
        add_live_within(&mut result.live_within_ns, live.as_ref().ok().copied());
        wrong.extend(live.err());
        if let Some(shard) = self.loses
            && wrong.is_empty()
        {
            wrong.extend(self.lose(&mut cluster, shard));
        }
        wrong.extend(self.quiet_within(&mut cluster));
        cluster.take_records();
        let held = self.held(&cluster);
        let mut books = cluster.books.borrow_mut();
        if wrong.is_empty() {
            books.compare(&held);
        }
        let report = books.check(&held);
        wrong.append(&mut books.wrong);
        wrong.extend(report.violations.iter().map(ToString::to_string));
        if report.is_violated() && report.violations.is_empty() {
            wrong.push(format!("the history is wrong: {report:?}"));
        }
        for node in &books.nodes {
            result.committed += node.committed;
            result.aborted += node.aborted;
            result.unanswered += node.unanswered;
            result.unavailable += node.unavailable;
            result.restarts += node.lives - 1;
        }
        result.unknown_but_seen += report.unknown_but_seen;
        result.views += u64::from(cluster.machines.view().epoch.0);
        for (step, count) in &cluster.step_crashes {
            *result.step_crashes.entry(step).or_insert(0) += count;
        }
        add_faults(&mut result.faults, &cluster.machines.world);
        Judgement::of(&cluster.machines.world, wrong)
    }

    /// Checks that after the last fault every node except those in `out` serves, and that its clients commit.
    fn live_within(
        &self,
        cluster: &mut Cluster,
        last_fault: Instant,
        out: &[usize],
    ) -> Result<Duration, String> {
        let committed = |cluster: &Cluster| -> Vec<u64> {
            cluster.books.borrow().nodes.iter().map(|node| node.committed).collect()
        };
        let before = committed(cluster);
        // A transaction that is outstanding now may have begun before the last fault. So each client must
        // commit two on average.
        let more = 2 * self.parameters.lanes as u64;
        let live = |cluster: &Cluster, node: usize| {
            cluster.serves(node) && committed(cluster)[node] >= before[node] + more
        };
        let nodes = || (0..self.parameters.nodes).filter(|node| !out.contains(node));
        loop {
            if nodes().all(|node| live(cluster, node)) {
                return Ok(cluster.now() - last_fault);
            }
            if cluster.now() >= last_fault + LIVE_WITHIN {
                let stuck: Vec<String> = nodes()
                    .filter(|node| !live(cluster, *node))
                    .map(|node| format!("node{node} ({} committed)", committed(cluster)[node] - before[node]))
                    .collect();
                return Err(format!(
                    "{LIVE_WITHIN} after the last fault not all nodes serve: {}; {}",
                    stuck.join(", "),
                    cluster.describe()
                ));
            }
            cluster.run_for(SLICE);
        }
    }

    /// Crashes all replicas of a shard; they restart with empty memory. Calls for this shard must be answered
    /// with the message that it is lost, and calls for other shards must continue.
    fn lose(&self, cluster: &mut Cluster, shard: usize) -> Vec<String> {
        let Self { parameters: ClusterParameters { nodes, replication, .. }, .. } = self;
        let out: Vec<usize> = (0..*replication).map(|step| (shard + step) % nodes).collect();
        cluster.books.borrow_mut().may_lose = true;
        let told = |cluster: &Cluster| -> Vec<u64> {
            cluster.books.borrow().nodes.iter().map(|node| node.unavailable).collect()
        };
        let before = told(cluster);
        for node in &out {
            cluster.crash_anyway(*node);
        }
        cluster.run_for(SLICE);
        out.iter().for_each(|node| cluster.restart(*node));
        let now = cluster.now();
        let mut wrong: Vec<String> = self.live_within(cluster, now, &out).err().into_iter().collect();
        // After some time, the clients of every node have made a call for the shard.
        let until = now + LIVE_WITHIN;
        let is_told = |cluster: &Cluster, node: usize| told(cluster)[node] > before[node];
        while cluster.now() < until && !(0..*nodes).all(|node| is_told(cluster, node)) {
            cluster.run_for(SLICE);
        }
        for node in (0..*nodes).filter(|node| !is_told(cluster, *node)) {
            wrong.push(format!("the clients of node{node} were not told that shard {shard} is lost"));
        }
        for node in (0..*nodes).filter_map(|node| cluster.node(node)) {
            let lost: Vec<usize> = node.engine().lost_shards().collect();
            if lost != [shard] {
                wrong.push(format!("shard {shard} is lost, and a node says {lost:?}"));
            }
        }
        wrong
    }

    /// Checks that all transactions end after the last call, and that no lock remains.
    fn quiet_within(&self, cluster: &mut Cluster) -> Option<String> {
        cluster.books.borrow_mut().stopped = true;
        let until = cluster.now() + QUIET_WITHIN;
        let is_quiet = |cluster: &Cluster, node: usize| {
            let node = cluster.node(node).expect("all are back");
            node.half().under_way() == 0 && node.engine().is_quiet()
        };
        while cluster.now() < until {
            cluster.run_for(SLICE);
            if (0..self.parameters.nodes).all(|node| is_quiet(cluster, node)) {
                return None;
            }
        }
        Some(format!("{QUIET_WITHIN} after the last call something is under way: {}", cluster.describe()))
    }

    /// The objects of full nodes, by shard.
    fn held(&self, cluster: &Cluster) -> Vec<Vec<(usize, books::Held)>> {
        let ClusterParameters { nodes, replication, .. } = self.parameters;
        let mut held: Vec<Vec<(usize, books::Held)>> = vec![Vec::new(); nodes];
        for node in (0..nodes).filter(|node| cluster.serves(*node)) {
            let mut shards = vec![books::Held::default(); nodes];
            cluster.node(node).expect("it serves").for_each_object(|key, version, value| {
                shards[key.shard()].insert(key, (version, value.to_vec()));
            });
            for (shard, objects) in shards.into_iter().enumerate() {
                if (node + nodes - shard) % nodes < replication {
                    held[shard].push((node, objects));
                } else if !objects.is_empty() {
                    let what = format!("node{node} holds something of shard {shard}");
                    cluster.books.borrow_mut().wrong.push(what);
                }
            }
        }
        held
    }
}
