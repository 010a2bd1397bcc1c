//! Fault campaigns: for each seed a cluster with random faults, which is checked.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_cluster::{AgentParameters, ServiceParameters};
#[cfg(feature = "planted-bugs")]
use weft_harness::NodeBug;
use weft_harness::{Findings, Judgement, Planted, add_faults, add_live_within, random_plan};
use weft_sim::{FaultKinds, NetworkProfile, Stream};
use weft_time::{Duration, Instant};

use super::cluster::{Cluster, ClusterParameters};
use super::host::Pace;
use super::system::{Card, Commit, Configuration, System};
use super::type_name::TypeName;
use super::workload::{Sizes, Workload};

/// Time of the first fault; the cluster has been running for some time by then.
const FAULTS_FROM: Duration = Duration::from_us(300);
/// Time at which all faults are over.
const FAULTS_UNTIL: Duration = Duration::from_us(3_000);
/// Length of a lease: short enough that many leases end in a run. Objects do not rely on leases, but a
/// restarted node waits for the end of the lease of its previous incarnation.
const LEASE: Duration = Duration::from_us(300);
/// Interval of the heartbeats of a node without a lease.
const IDLE_INTERVAL: Duration = Duration::from_us(20);
/// The machine of the membership service.
const MEMBERSHIP: [&str; 1] = ["membership0"];
/// Bound on the time from the last fault until every node serves again, and has answered operations requested
/// after the fault.
const SERVES_WITHIN: Duration = Duration::from_ms(3);
/// Time from the last request until all operations are answered and every replica has all calls.
pub const DELIVERED_WITHIN: Duration = Duration::from_ms(2);
/// Interval between two checks of a run.
const SLICE: Duration = Duration::from_us(20);
/// Maximum clock drift, in parts per million.
const DRIFT_PPM: u32 = 50;
/// Percentage of operations that call a method: more than in measurements, because a campaign tests calls.
const UPDATES: u8 = 50;
/// Maximum pause between two operations of a client.
const PAUSE_MAX_NS: u64 = 4_000;

/// Parameters of the runs.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The data type; `None`: each seed has the next type.
    pub name: Option<TypeName>,
    /// How calls reach the objects; `None`: the configuration alternates with the seed.
    pub configuration: Option<Configuration>,
    /// Replicas, 3 to 8.
    pub nodes: usize,
    /// One run per seed.
    pub seeds: std::ops::RangeInclusive<u64>,
    /// Kinds of injected faults.
    pub kinds: FaultKinds,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_rdt::replica::PlantedBug>,
    /// Bug planted in the node's program or in the membership service.
    #[cfg(feature = "planted-bugs")]
    pub node_bug: Option<NodeBug>,
}

/// Results of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CampaignResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Replicas of each cluster.
    pub nodes: u32,
    /// The first seed.
    pub seed: u64,
    /// Runs made.
    pub seeds_run: u64,
    /// Runs by data type.
    pub types: BTreeMap<&'static str, u64>,
    /// Calls made, over all runs.
    pub calls: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Calls without an answer because their node failed.
    pub unanswered: u64,
    /// Queries.
    pub queries: u64,
    /// Effects of calls at replicas, each of which was checked.
    pub steps: u64,
    /// Restarts of nodes.
    pub restarts: u64,
    /// Views published.
    pub views: u64,
    /// Number of times that a node became leader of a group.
    pub terms: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// The longest time of all runs from the last fault until every node had answered operations requested
    /// after it.
    pub live_within_ns: u64,
    /// The bound on this time.
    pub live_within_bound_ns: u64,
    /// `holds`, or `violation`.
    pub checked: &'static str,
    /// Violations.
    #[serde(flatten)]
    pub findings: Findings<SeedChoice>,
}

/// Attributes of the run of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SeedChoice {
    /// Data type of the run.
    #[serde(rename = "type")]
    pub name: &'static str,
    /// Configuration of the run.
    pub configuration: Configuration,
}

impl Campaign {
    /// Runs the campaign. `progress` is called with the number of finished seeds; `replay` returns the command that
    /// repeats the run of a seed.
    pub fn run(&self, replay: impl Fn(u64) -> String, mut progress: impl FnMut(u64)) -> CampaignResult {
        let mut result = CampaignResult {
            world: "sim",
            nodes: self.nodes as u32,
            seed: *self.seeds.start(),
            live_within_bound_ns: SERVES_WITHIN.as_ns(),
            ..CampaignResult::default()
        };
        let mut findings = Findings::default();
        for seed in self.seeds.clone() {
            let run = Run::new(self, seed);
            let ClusterParameters { workload, configuration, .. } = &run.parameters;
            let about = SeedChoice { name: workload.name().name(), configuration: *configuration };
            *result.types.entry(about.name).or_insert(0) += 1;
            findings.add(seed, about, || run.make(&mut result), &replay);
            result.seeds_run += 1;
            progress(result.seeds_run);
        }
        result.checked = findings.checked("holds");
        CampaignResult { findings, ..result }
    }
}

/// The run of one seed.
struct Run {
    parameters: ClusterParameters,
}

impl Run {
    fn new(campaign: &Campaign, seed: u64) -> Self {
        let mut random = Stream::new(seed, "rdt campaign", 0);
        let names: Vec<TypeName> = TypeName::all().collect();
        let turn = |count: usize| seed as usize % count;
        let name = campaign.name.unwrap_or(names[turn(names.len())]);
        let configurations = Configuration::ALL;
        // The configuration changes with another period than the type, so that all combinations occur.
        let configuration = campaign.configuration.unwrap_or(
            configurations[(seed as usize / names.len() + turn(names.len())) % configurations.len()],
        );
        let nodes = campaign.nodes;
        let pace = Pace {
            outstanding: random.between(1, 4) as usize,
            pause: Duration::from_ns(random.between(200, PAUSE_MAX_NS)),
        };
        let parameters = ClusterParameters {
            nodes,
            system: System::Weft,
            configuration,
            commit: Commit::Majority,
            card: Card::Fpga,
            network: NetworkProfile::DETPU,
            drift_ppm: Some(DRIFT_PPM),
            workload: Workload::new(name, nodes, UPDATES, Sizes::SMALL, 0.5, seed),
            pace,
            heartbeat: None,
            quota: vec![u64::MAX; nodes],
            redistribute: false,
            service: Some((
                ServiceParameters::new(nodes, LEASE),
                AgentParameters { idle_interval: IDLE_INTERVAL, ..AgentParameters::default() },
            )),
            planted: Planted {
                #[cfg(feature = "planted-bugs")]
                bug: campaign.node_bug,
            },
            split: None,
            seed,
            plan: random_plan(
                seed,
                nodes,
                &MEMBERSHIP,
                &MEMBERSHIP,
                FAULTS_FROM..FAULTS_UNTIL,
                campaign.kinds,
            ),
            #[cfg(feature = "planted-bugs")]
            planted_bug: campaign.planted_bug,
        };
        Self { parameters }
    }

    /// Runs the cluster, adds its counts to the result, and returns the violations.
    fn make(&self, result: &mut CampaignResult) -> Judgement {
        let mut wrong = Vec::new();
        let mut cluster = Cluster::new(&self.parameters).expect("the plan names nodes");
        let begin = Instant::ZERO + FAULTS_FROM;
        let last_fault = self.parameters.plan.ends_at().max(begin);
        cluster.run_until(last_fault);
        let serves = self.serves_within(&mut cluster, last_fault);
        add_live_within(&mut result.live_within_ns, serves.as_ref().ok().copied());
        wrong.extend(serves.err());
        cluster.set_quota(0);
        wrong.extend(self.delivered_within(&mut cluster));
        cluster.read_everywhere();
        cluster.run_for(Duration::from_us(100));
        let states: Vec<_> =
            (0..self.parameters.nodes).filter_map(|node| Some((node, cluster.object(node)?))).collect();
        let mut books = cluster.books.borrow_mut();
        books.check.end(states, |_| true);
        let report = books.check.report();
        wrong.extend(report.violations.iter().map(ToString::to_string));
        wrong.append(&mut books.wrong);
        result.calls += report.calls;
        result.refused += report.refused;
        result.unanswered += report.unanswered;
        result.queries += report.queries;
        result.steps += report.steps;
        result.restarts +=
            books.nodes.iter().map(|node| u64::from(node.lives.saturating_sub(1))).sum::<u64>();
        result.views += cluster.machines.views().len() as u64;
        result.terms += cluster.sum("terms");
        add_faults(&mut result.faults, &cluster.machines.world);
        Judgement::of(&cluster.machines.world, wrong)
    }

    /// Checks that every node serves and answers after the last fault.
    fn serves_within(&self, cluster: &mut Cluster, last_fault: Instant) -> Result<Duration, String> {
        let answered = |cluster: &Cluster| -> Vec<u64> {
            cluster.books.borrow().nodes.iter().map(|node| node.updates_answered()).collect()
        };
        let before = answered(cluster);
        // Operations that are outstanding now may have been requested before the last fault. Two further
        // answers belong to later requests.
        let more = self.parameters.pace.outstanding as u64 + 2;
        while cluster.now() < last_fault + SERVES_WITHIN {
            cluster.run_for(SLICE);
            let after = answered(cluster);
            let serves = |node: usize| cluster.object(node).is_some() && after[node] >= before[node] + more;
            if (0..self.parameters.nodes).all(serves) {
                return Ok(cluster.now() - last_fault);
            }
        }
        let after = answered(cluster);
        let stuck: Vec<String> = (0..self.parameters.nodes)
            .filter(|&node| cluster.object(node).is_none() || after[node] < before[node] + more)
            .map(|node| {
                let state = cluster.engine(node).map(|engine| weft_waist::Engine::status(engine).state);
                format!("node{node} ({state:?}, {} updates answered since)", after[node] - before[node])
            })
            .collect();
        Err(format!("{SERVES_WITHIN} after the last fault not all nodes serve: {}", stuck.join(", ")))
    }

    /// Checks that all operations are answered and reach all replicas after the last request.
    fn delivered_within(&self, cluster: &mut Cluster) -> Option<String> {
        let until = cluster.now() + DELIVERED_WITHIN;
        while cluster.now() < until {
            cluster.run_for(SLICE);
            cluster.nudge();
            let books = cluster.books.borrow();
            if books.all_done() && !books.check.lacks(|node| cluster.engine(node).is_some()) {
                return None;
            }
        }
        let books = cluster.books.borrow();
        let open: Vec<String> = (0..self.parameters.nodes)
            .filter(|&node| !books.nodes[node].is_done)
            .map(|node| format!("node{node}"))
            .collect();
        (!open.is_empty())
            .then(|| format!("{DELIVERED_WITHIN} after the last question {} has no answer", open.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(seeds: std::ops::RangeInclusive<u64>) -> Campaign {
        Campaign {
            name: None,
            configuration: None,
            nodes: 3,
            seeds,
            kinds: FaultKinds::ALL,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            #[cfg(feature = "planted-bugs")]
            node_bug: None,
        }
    }

    #[test]
    fn without_faults_all_is_answered() {
        let campaign = Campaign { kinds: FaultKinds::NONE, ..campaign(1..=4) };
        let result = campaign.run(|seed| seed.to_string(), |_| {});
        assert_eq!((result.checked, result.unanswered, result.restarts), ("holds", 0, 0), "{result:?}");
        assert!(result.calls > 500 && result.live_within_ns < 1_000_000, "{result:?}");
    }

    /// Without faults, heartbeats arrive in time with any number of nodes, so no running node is suspected
    /// and no leader is replaced.
    #[test]
    fn without_faults_nobody_is_replaced() {
        let groups = |seed: u64| {
            let run = Run::new(&campaign(seed..=seed), seed);
            run.parameters.workload.subject().kind().group_count() as u64
        };
        for nodes in 3..=8 {
            let campaign = Campaign { kinds: FaultKinds::NONE, nodes, ..campaign(1..=33) };
            let result = campaign.run(|seed| seed.to_string(), |_| {});
            assert_eq!(result.checked, "holds", "{result:?}");
            assert_eq!(result.terms, campaign.seeds.clone().map(groups).sum::<u64>(), "{nodes} nodes");
        }
    }

    #[test]
    fn under_faults_all_rules_hold() {
        let result = campaign(1..=8).run(|seed| seed.to_string(), |_| {});
        assert_eq!(result.checked, "holds", "{result:?}");
        assert!(result.restarts > 0 && result.faults["loss"] > 0 && result.types.len() == 8, "{result:?}");
        assert_eq!(result, campaign(1..=8).run(|seed| seed.to_string(), |_| {}));
    }
}
