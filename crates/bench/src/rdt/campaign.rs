//! Fault campaigns of replicated data types.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;
use weft_cluster::{AgentParameters, ServiceParameters};
use weft_harness::{Campaign, Cluster as Nodes, Subject, Times, Trial, add_counts};
use weft_sim::{FaultPlan, NetworkProfile, PlanError, Stream};
use weft_time::{Duration, Instant};

use super::cluster::{Cluster, ClusterParameters, Replicas};
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

/// The data types as the subject of a campaign, with 3 to 8 replicas.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectSubject {
    /// The data type; `None`: each seed has the next type.
    pub name: Option<TypeName>,
    /// How calls reach the objects; `None`: the configuration alternates with the seed.
    pub configuration: Option<Configuration>,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_rdt::replica::PlantedBug>,
}

/// Figures of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObjectFigures {
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
    /// Number of times that a node became leader of a group.
    pub terms: u64,
}

impl AddAssign for ObjectFigures {
    fn add_assign(&mut self, run: Self) {
        let Self { types, calls, refused, unanswered, queries, steps, restarts, terms } = run;
        add_counts(&mut self.types, types);
        self.calls += calls;
        self.refused += refused;
        self.unanswered += unanswered;
        self.queries += queries;
        self.steps += steps;
        self.restarts += restarts;
        self.terms += terms;
    }
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

/// The run of a seed.
pub struct ObjectTrial {
    cluster: Cluster,
    /// Answers to updates at each node when the faults were over.
    answered_before: Vec<u64>,
}

impl ObjectSubject {
    /// The data type and the configuration of a seed.
    fn choice(&self, seed: u64) -> (TypeName, Configuration) {
        let names: Vec<TypeName> = TypeName::all().collect();
        let turn = seed as usize % names.len();
        // The configuration changes with another period than the type, so that all combinations occur.
        let configurations = Configuration::ALL;
        let configuration = configurations[(seed as usize / names.len() + turn) % configurations.len()];
        (self.name.unwrap_or(names[turn]), self.configuration.unwrap_or(configuration))
    }

    fn parameters(&self, runs: &Campaign, seed: u64, plan: &FaultPlan) -> ClusterParameters {
        let (nodes, (name, configuration)) = (runs.nodes, self.choice(seed));
        let mut random = Stream::new(seed, "rdt campaign", 0);
        let pace = Pace {
            outstanding: random.between(1, 4) as usize,
            pause: Duration::from_ns(random.between(200, PAUSE_MAX_NS)),
        };
        ClusterParameters {
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
            planted: runs.planted,
            split: None,
            seed,
            plan: plan.clone(),
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        }
    }
}

impl Subject for ObjectSubject {
    type Trial = ObjectTrial;
    type Figures = ObjectFigures;
    type About = SeedChoice;

    fn times(&self, _: &Campaign) -> Times {
        Times {
            faults: FAULTS_FROM..FAULTS_UNTIL,
            faulty_until: FAULTS_FROM,
            lease: None,
            live_within: Some(SERVES_WITHIN),
            step: SLICE,
        }
    }

    fn about(&self, _: &Campaign, seed: u64) -> SeedChoice {
        let (name, configuration) = self.choice(seed);
        SeedChoice { name: name.name(), configuration }
    }

    fn trial(&self, runs: &Campaign, seed: u64, plan: &FaultPlan) -> Result<ObjectTrial, PlanError> {
        let cluster = Cluster::new(&self.parameters(runs, seed, plan))?;
        Ok(ObjectTrial { cluster, answered_before: Vec::new() })
    }

    fn holds(&self) -> &'static str {
        "holds"
    }
}

impl ObjectTrial {
    /// Answers to updates at each node.
    fn answered(&self) -> Vec<u64> {
        self.cluster.books.borrow().nodes.iter().map(|node| node.updates_answered()).collect()
    }

    /// Whether each node serves and has answered operations requested after the last fault. Operations that
    /// were outstanding then may have been requested before it; two further answers belong to later requests.
    fn serving(&self) -> Vec<bool> {
        let more = self.cluster.parameters().pace.outstanding as u64 + 2;
        let after = self.answered().into_iter().zip(&self.answered_before).enumerate();
        after
            .map(|(node, (after, before))| self.cluster.object(node).is_some() && after >= before + more)
            .collect()
    }
}

impl Trial for ObjectTrial {
    type Nodes = Replicas;
    type Figures = ObjectFigures;

    fn cluster(&self) -> &Nodes<Replicas> {
        &self.cluster.machines
    }

    fn run_until(&mut self, until: Instant) {
        self.cluster.machines.run_until(until);
    }

    fn faults_are_over(&mut self) -> Instant {
        self.answered_before = self.answered();
        self.now()
    }

    fn is_live(&mut self) -> bool {
        self.serving().into_iter().all(|serves| serves)
    }

    fn describe(&self) -> String {
        let after = self.answered();
        let stuck = self.serving().into_iter().enumerate().filter(|(_, serves)| !serves);
        let stuck = stuck.map(|(node, _)| {
            let state = self.cluster.engine(node).map(|engine| weft_waist::Engine::status(engine).state);
            let since = after[node] - self.answered_before[node];
            format!("node{node} ({state:?}, {since} updates answered since)")
        });
        stuck.collect::<Vec<_>>().join(", ")
    }

    /// Waits until all operations are answered and have reached all replicas.
    fn settle(&mut self, _: Instant, wrong: &mut Vec<String>) {
        self.cluster.set_quota(0);
        let until = self.now() + DELIVERED_WITHIN;
        self.run_for(SLICE);
        self.wait(SLICE, until, |trial| {
            trial.cluster.nudge();
            let books = trial.cluster.books.borrow();
            books.all_done() && !books.check.lacks(|node| trial.cluster.engine(node).is_some())
        });
        let books = self.cluster.books.borrow();
        let open = books.nodes.iter().enumerate().filter(|(_, node)| !node.is_done);
        let open: Vec<String> = open.map(|(node, _)| format!("node{node}")).collect();
        drop(books);
        if !open.is_empty() {
            let open = open.join(", ");
            wrong.push(format!("{DELIVERED_WITHIN} after the last question {open} has no answer"));
        }
        self.cluster.read_everywhere();
        self.run_for(Duration::from_us(100));
    }

    fn judge(self, figures: &mut ObjectFigures, wrong: &mut Vec<String>) {
        let Self { cluster, .. } = self;
        let nodes = 0..cluster.machines.nodes();
        let states: Vec<_> = nodes.filter_map(|node| Some((node, cluster.object(node)?))).collect();
        let mut books = cluster.books.borrow_mut();
        books.check.end(states, |_| true);
        let report = books.check.report();
        wrong.extend(report.violations.iter().map(ToString::to_string));
        wrong.append(&mut books.wrong);
        *figures.types.entry(cluster.parameters().workload.name().name()).or_insert(0) += 1;
        figures.calls += report.calls;
        figures.refused += report.refused;
        figures.unanswered += report.unanswered;
        figures.queries += report.queries;
        figures.steps += report.steps;
        let restarts = books.nodes.iter().map(|node| u64::from(node.lives.saturating_sub(1)));
        figures.restarts += restarts.sum::<u64>();
        figures.terms += cluster.machines.sum("terms");
    }
}

#[cfg(test)]
mod tests {
    use weft_harness::CampaignResult;
    use weft_sim::FaultKinds;

    use super::*;

    fn run(runs: &Campaign) -> CampaignResult<ObjectFigures, SeedChoice> {
        runs.run(&ObjectSubject::default(), |seed| seed.to_string(), |_| {}).expect("random plans fit")
    }

    #[test]
    fn without_faults_all_is_answered() {
        let result = run(&Campaign { kinds: FaultKinds::NONE, ..Campaign::new(3, 1..=4) });
        let ObjectFigures { unanswered, restarts, calls, .. } = result.figures;
        assert_eq!((result.checked, unanswered, restarts), ("holds", 0, 0), "{result:?}");
        assert!(calls > 500 && result.live.unwrap().slowest_ns < 1_000_000, "{result:?}");
    }

    /// Without faults, heartbeats arrive in time with any number of nodes, so no running node is suspected
    /// and no leader is replaced.
    #[test]
    fn without_faults_nobody_is_replaced() {
        // All types on the fewest nodes and on the most, and a part of them on each number between.
        for (nodes, seeds) in [(3, 1..=33), (4, 1..=8), (5, 9..=16), (6, 17..=24), (7, 25..=33), (8, 1..=33)]
        {
            let runs = Campaign { kinds: FaultKinds::NONE, ..Campaign::new(nodes, seeds) };
            let groups = |seed: u64| {
                let parameters = ObjectSubject::default().parameters(&runs, seed, &FaultPlan::default());
                parameters.workload.subject().kind().group_count() as u64
            };
            let result = run(&runs);
            assert_eq!(result.checked, "holds", "{result:?}");
            assert_eq!(result.figures.terms, runs.seeds.clone().map(groups).sum::<u64>(), "{nodes} nodes");
        }
    }

    #[test]
    fn under_faults_all_rules_hold() {
        let result = run(&Campaign::new(3, 1..=8));
        assert_eq!(result.checked, "holds", "{result:?}");
        assert!(
            result.figures.restarts > 0 && result.faults["loss"] > 0 && result.figures.types.len() == 8,
            "{result:?}"
        );
        assert_eq!(result, run(&Campaign::new(3, 1..=8)));
    }
}
