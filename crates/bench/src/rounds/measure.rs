//! Measures the lowest stable round period, the throughput at this period, and failures below it.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_harness::activity::{Activity, node_state};
use weft_harness::{Planted, faults_of};
use weft_node::RoundsPauses;
use weft_results::NicModel;
use weft_results::NodeState;
use weft_results::histogram::Latencies;
use weft_sim::{CostProfile, FaultPlan, NetworkProfile, PlanError};
use weft_time::Duration;
use weft_waist::EngineState;

use super::cluster::{Cluster, ClusterParameters};
use super::engines::{EngineParameters, Service, parameters_for};
use super::host::HostLoad;
use super::path::CYCLE;
use super::values::Batch;

/// Warm-up rounds. In them the cluster starts and decides its first proposals.
const WARM_UP_ROUNDS: u64 = 50;
/// Rounds of one run in the search for the lowest stable period: long enough that clocks with a drift of 50
/// parts per million differ by more than the latency of a message.
const SEARCH_ROUNDS: u64 = 50_000;
/// Rounds at each period below the lowest stable one.
const BELOW_ROUNDS: u64 = 20_000;
/// Periods that are measured below the lowest stable one, as differences in cycles.
const BELOW_CYCLES: [u64; 5] = [1, 4, 16, 64, 128];
/// Interval at which the activity is recorded, in rounds.
const LOOK_ROUNDS: u64 = 10;
/// Interval between two checks of a run, in rounds.
const SLICE_ROUNDS: u64 = 1_000;
/// Outstanding proposals of a node: as many as engines queue, so that every round has a proposal although a
/// round is much shorter than a round trip to the host.
const OUTSTANDING: usize = 16;
/// Outstanding proposals of a node with an engine in gateware.
const OUTSTANDING_GATES: usize = 8;
/// Rounds of the run in which each node has one outstanding proposal, so that latency includes no queueing
/// time.
const LATENCY_ROUNDS: u64 = 5_000;

/// Every node is configured before the first round begins. An excluded node does not rejoin, so that it is
/// counted.
const PAUSES: RoundsPauses =
    RoundsPauses { start_after: Duration::from_us(20), return_after: Duration::from_secs(3_600) };
/// Under faults, an excluded node requests to rejoin.
const PAUSES_UNDER_FAULTS: RoundsPauses = RoundsPauses { return_after: Duration::from_us(50), ..PAUSES };

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct RoundsBench {
    /// The engine's implementation.
    pub nic: NicModel,
    /// Nodes, 2 to 8.
    pub nodes: usize,
    /// Content of a proposal. Every node makes one proposal in every round.
    pub batch: Batch,
    /// Network between the cards.
    pub network: NetworkProfile,
    /// Cost profile of the cards.
    pub profile: CostProfile,
    /// Instances in flight, 4 or 8.
    pub window: u64,
    /// The round period; `None`: the command searches for the lowest stable period.
    pub period: Option<Duration>,
    /// Rounds of the measurement.
    pub rounds: u64,
    /// Maximum clock drift, in parts per million.
    pub drift_ppm: u32,
    /// Faults of each run, with times from the start of the run. With faults, the period must be given,
    /// because no period is stable under faults.
    pub plan: FaultPlan,
    /// Seed of clocks, delays and values.
    pub seed: u64,
}

/// Result of a run at one period.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeriodResult {
    /// The period.
    pub period_ns: u64,
    /// Rounds that every node has run.
    pub rounds: u64,
    /// Whether no message was late, no message was missing, and no node has fenced itself.
    pub stable: bool,
    /// Messages that arrived after their round.
    pub late_messages: u64,
    /// Number of messages that were missing in their round, over all members.
    pub unheard: u64,
    /// Nodes that have fenced themselves.
    pub nodes_fenced: u64,
    /// Number of nodes whose status reports that they have fenced themselves. It must equal `nodes_fenced`.
    pub nodes_that_say_so: u64,
    /// Nodes that were removed by the others.
    pub nodes_removed: u64,
    /// Rounds that were shortened to follow faster clocks, over all nodes.
    pub rounds_trimmed: u64,
    /// Disagreements between the logs of two nodes, or between a log and the proposals.
    pub disagreements: u64,
    /// Proposals decided, each counted once.
    pub decided: u64,
    /// Proposals whose instances were closed without them.
    pub dropped: u64,
    /// Proposals without an answer because their node crashed.
    pub unanswered: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Virtual time of the measurement.
    pub virtual_ns: u64,
    /// Latency from a host's proposal to the answer that it is decided, including PCIe in both directions,
    /// queueing, and the wait for the next round.
    #[serde(skip)]
    pub(super) latency: Latencies,
    /// Decisions over time.
    #[serde(skip)]
    pub activity: Activity,
    /// Hash of the event log of the run.
    pub log_hash: String,
}

impl PeriodResult {
    /// Decided proposals per second of virtual time.
    pub fn proposals_per_s(&self) -> f64 {
        if self.virtual_ns == 0 { 0.0 } else { self.decided as f64 * 1e9 / self.virtual_ns as f64 }
    }
}

/// Called with the number of rounds run.
pub(super) type Ran<'a> = &'a mut dyn FnMut(u64);

impl RoundsBench {
    /// Searches for the lowest stable period by bisection.
    pub(super) fn search(&self, ran: Ran<'_>) -> Result<Duration, PlanError> {
        let tried = Self { rounds: SEARCH_ROUNDS.min(self.rounds), ..self.clone() };
        let mut stable = |cycles: u64| Ok(tried.run_at(CYCLE * cycles, true, ran)?.stable);
        let least = self.least_one_way().as_ps() / CYCLE.as_ps();
        let (mut low, mut high) = (least, 2 * least.max(64));
        while !stable(high)? {
            (low, high) = (high, 2 * high);
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if stable(middle)? { high = middle } else { low = middle }
        }
        Ok(CYCLE * high)
    }

    /// Makes runs with periods below a stable one.
    pub(super) fn below(&self, period: Duration, ran: Ran<'_>) -> Result<Vec<PeriodResult>, PlanError> {
        let short = Self { rounds: BELOW_ROUNDS, ..self.clone() };
        let least = self.least_one_way();
        let periods =
            BELOW_CYCLES.iter().map(|&cycles| period.as_ps().saturating_sub(CYCLE.as_ps() * cycles));
        let periods = periods.map(Duration::from_ps).filter(|&period| period > least);
        periods.map(|period| short.run_at(period, false, ran)).collect()
    }

    fn least_one_way(&self) -> Duration {
        parameters_for(&self.profile, &self.network, self.window, Duration::from_ms(1), 8).one_way
    }

    /// Latencies from a host's proposal to the answer that it is decided, at this period and with one outstanding
    /// proposal of each node.
    pub(super) fn latency(&self, period: Duration, ran: Ran<'_>) -> Result<Latencies, PlanError> {
        Ok(Self { rounds: LATENCY_ROUNDS, ..self.clone() }.run_with(period, 1, false, ran)?.latency)
    }

    /// Makes a run with this period. With `until_unstable`, the run ends at the first check at which a node
    /// is missing.
    pub(super) fn run_at(
        &self,
        period: Duration,
        until_unstable: bool,
        ran: Ran<'_>,
    ) -> Result<PeriodResult, PlanError> {
        let outstanding = match self.nic {
            NicModel::Soft => OUTSTANDING,
            NicModel::Rtl => OUTSTANDING_GATES,
        };
        self.run_with(period, outstanding, until_unstable, ran)
    }

    fn run_with(
        &self,
        period: Duration,
        outstanding: usize,
        until_unstable: bool,
        ran: Ran<'_>,
    ) -> Result<PeriodResult, PlanError> {
        let engine = parameters_for(&self.profile, &self.network, self.window, period, self.batch.bytes());
        let parameters = ClusterParameters {
            nodes: self.nodes,
            network: self.network,
            profile: self.profile,
            drift_ppm: self.drift_ppm,
            load: Some(HostLoad { batch: self.batch, outstanding }),
            engine: EngineParameters { nic: self.nic, service: Service::Streams, parameters: engine },
            service: None,
            pauses: if self.plan.faults.is_empty() { PAUSES } else { PAUSES_UNDER_FAULTS },
            rotation: None,
            planted: Planted::default(),
            seed: self.seed,
            plan: self.plan.clone(),
        };
        let cluster = Cluster::new(&parameters)?;
        let ends_with = match (self.plan.faults.is_empty(), until_unstable) {
            (false, _) => Ends::InTime,
            (true, true) => Ends::Unstable,
            (true, false) => Ends::Stopped,
        };
        let activity = Activity::new(self.nodes, period * LOOK_ROUNDS, &self.plan);
        Ok(Run { cluster, period, nodes: self.nodes, activity }.measure(self.rounds, ends_with, ran))
    }
}

/// Condition on which a run ends before all nodes have run its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// A node is missing at a check.
    Unstable,
    /// All nodes have stopped.
    Stopped,
    /// The time of the rounds has passed. Under faults, a node may have run fewer rounds.
    InTime,
}

/// One run at one period.
struct Run {
    cluster: Cluster,
    period: Duration,
    nodes: usize,
    activity: Activity,
}

impl Run {
    fn measure(mut self, rounds: u64, ends_with: Ends, ran: Ran<'_>) -> PeriodResult {
        // The start of the cluster takes a time that does not depend on the period.
        self.cluster.machines.run_for(Duration::from_us(50) + self.period * WARM_UP_ROUNDS);
        let begin = self.cluster.machines.now();
        let (first, entries) = (self.rounds(), self.cluster.books.borrow().agreement.entries());
        let dropped = {
            let mut books = self.cluster.books.borrow_mut();
            books.latencies = Default::default();
            books.dropped
        };
        let mut done = 0;
        while done < rounds {
            let slice = SLICE_ROUNDS.min(rounds - done);
            self.run_rounds(slice);
            if ends_with == Ends::InTime {
                done += slice;
                ran(slice);
                continue;
            }
            let before = done;
            done = self.rounds() - first;
            ran(done - before);
            let troubled = self.cluster.machines.sum("late") + self.cluster.machines.sum("fenced") > 0;
            let is_over = troubled && ends_with == Ends::Unstable;
            if is_over || self.stopped() == self.nodes as u64 || done == 0 {
                break;
            }
        }
        let end = self.cluster.machines.now();
        // Give stopped nodes time to answer the status request that their hosts send; their phases are
        // counted below.
        let decided = self.cluster.books.borrow().agreement.entries() - entries;
        self.cluster.machines.run_for(Duration::from_us(20));
        let cluster = &self.cluster;
        let books = cluster.books.borrow();
        let phases = |wanted| {
            books
                .nodes
                .iter()
                .filter(|node| node.state == EngineState::Lost && node.phase == Some(wanted))
                .count() as u64
        };
        let (late, unheard) = (cluster.machines.sum("late"), cluster.machines.sum("unheard"));
        let stopped = self.stopped();
        PeriodResult {
            period_ns: self.period.as_ns(),
            rounds: self.rounds(),
            stable: late + unheard + stopped == 0 && done > 0,
            late_messages: late,
            unheard,
            nodes_fenced: cluster.machines.sum("fenced"),
            nodes_that_say_so: phases(weft_rounds::message::Phase::Fenced),
            nodes_removed: phases(weft_rounds::message::Phase::Left),
            rounds_trimmed: cluster.machines.sum("trimmed"),
            disagreements: books.agreement.disagreements_found(),
            decided,
            dropped: books.dropped - dropped,
            unanswered: books.unanswered,
            faults: faults_of(&cluster.machines.world),
            virtual_ns: (end - begin).as_ns(),
            latency: books.latencies.clone(),
            activity: self.activity.clone(),
            log_hash: cluster.machines.world.log_hash().to_string(),
        }
    }

    /// Runs this number of rounds, and records the activity.
    fn run_rounds(&mut self, rounds: u64) {
        let end = self.cluster.machines.now() + self.period * rounds;
        while self.cluster.machines.now() < end {
            let next = (self.cluster.machines.now() + self.period * LOOK_ROUNDS).min(end);
            self.cluster.machines.run_until(next);
            let books = self.cluster.books.borrow();
            self.activity.look(next, books.agreement.entries(), |node| {
                match self.cluster.machines.node(node).is_some() {
                    true => node_state(books.nodes[node].state),
                    false => NodeState::Down,
                }
            });
        }
    }

    /// Number of rounds that every node has run.
    fn rounds(&self) -> u64 {
        (0..self.nodes).filter_map(|node| self.cluster.counter(node, "rounds")).min().unwrap_or(0)
    }

    /// Number of nodes that have stopped.
    fn stopped(&self) -> u64 {
        let books = self.cluster.books.borrow();
        books.nodes.iter().filter(|node| node.state == EngineState::Lost).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(network: NetworkProfile) -> RoundsBench {
        RoundsBench {
            nic: NicModel::Soft,
            nodes: 3,
            batch: Batch { value_bytes: 64, values: 1 },
            network,
            profile: CostProfile::FPGA,
            window: 4,
            period: None,
            rounds: 2_000,
            drift_ppm: super::super::DRIFT_PPM,
            plan: FaultPlan::default(),
            seed: 7,
        }
    }

    /// Number of decisions of three nodes that propose in every round.
    fn full(result: &PeriodResult) -> u64 {
        3 * result.virtual_ns / result.period_ns
    }

    #[test]
    fn three_nodes_are_stable_at_two_microseconds_and_decide_one_proposal_each_a_round() {
        let result = bench(NetworkProfile::DETPU).run_at(Duration::from_us(2), false, &mut |_| {}).unwrap();
        assert!(result.stable && result.disagreements == 0, "{result:?}");
        assert!(result.decided.abs_diff(full(&result)) < 20, "{result:?}");
        assert!(result.rounds_trimmed > 0, "clocks drift: {result:?}");
    }

    #[test]
    fn a_period_that_is_too_short_fences_and_says_so_and_nobody_disagrees() {
        let bench = bench(NetworkProfile::DETPU);
        let period = bench.search(&mut |_| {}).unwrap();
        assert!(period <= Duration::from_us(2), "{period}");
        let below = bench.below(period, &mut |_| {}).unwrap();
        assert!(below.iter().all(|result| result.disagreements == 0), "{below:?}");
        let last = below.last().unwrap();
        assert!(last.nodes_fenced == 3 && last.nodes_that_say_so == 3, "{last:?}");
    }

    #[test]
    fn without_a_network_rounds_are_shorter_and_still_full() {
        let bench = bench(NetworkProfile::ZERO);
        let period = bench.search(&mut |_| {}).unwrap();
        assert!(period < Duration::from_us(1), "{period}");
        let result = bench.run_at(period, false, &mut |_| {}).unwrap();
        assert!(result.decided.abs_diff(full(&result)) < 200, "{result:?}");
    }

    #[test]
    fn progress_counts_the_rounds_of_all_runs() {
        let mut told = Vec::new();
        let bench = RoundsBench { period: Some(Duration::from_us(3)), ..bench(NetworkProfile::DETPU) };
        bench.run(String::new(), |rounds| told.push(rounds)).unwrap();
        assert!(told.is_sorted() && told.len() > 2, "{told:?}");
        let all = bench.rounds + LATENCY_ROUNDS;
        assert!((all..all + 2 * SLICE_ROUNDS).contains(told.last().unwrap()), "{told:?}");
    }

    #[test]
    fn five_nodes_go_on_while_one_is_down_and_take_it_back() {
        let plan = FaultPlan::parse(
            "[[fault]]\nkind = \"crash\"\nat_us = 1000\nmachine = \"node4\"\n\
             [[fault]]\nkind = \"restart\"\nat_us = 2000\nmachine = \"node4\"\n",
        );
        let faultless = RoundsBench { nodes: 5, window: 8, ..bench(NetworkProfile::DETPU) };
        let faulty = RoundsBench { plan: plan.unwrap(), ..faultless.clone() };
        let [faultless, faulty] = [faultless, faulty]
            .map(|bench| bench.run_at(Duration::from_ns(2_400), false, &mut |_| {}).unwrap());
        assert_eq!((faulty.faults["crash"], faulty.faults["restart"], faulty.disagreements), (1, 1, 0));
        assert!(faulty.unanswered > 0 && faulty.unheard > 0 && faultless.unanswered == 0, "{faulty:?}");
        // Four of five nodes continue while one node is down, which is a fifth of the time, and while it
        // rejoins.
        let share = faulty.decided as f64 / faultless.decided as f64;
        assert!((0.85..0.99).contains(&share), "{} of {}", faulty.decided, faultless.decided);
    }

    #[test]
    fn faults_strike_machines_that_there_are() {
        let plan = FaultPlan::parse("[[fault]]\nkind = \"crash\"\nat_us = 9\nmachine = \"node3\"\n");
        let bench = RoundsBench { plan: plan.unwrap(), ..bench(NetworkProfile::DETPU) };
        let refused = bench.run_at(Duration::from_us(2), false, &mut |_| {}).unwrap_err().to_string();
        assert!(refused.contains("node3"), "{refused}");
    }
}
