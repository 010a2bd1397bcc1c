//! Fault campaigns of the rounds: random faults of a few nodes.

use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

use serde::Serialize;
use weft_check::{Options, Verdict};
use weft_cluster::{AgentParameters, ServiceParameters};
use weft_harness::{Campaign, Cluster as Nodes, Subject, Times, Trial};
use weft_node::RoundsPauses;
use weft_results::NicModel;
use weft_rounds::Quorums;
use weft_rounds::message::Phase;
use weft_sim::{CostProfile, Fault, FaultPlan, LinkDirection, NetworkProfile, PlanError, Stream};
use weft_time::{Duration, Instant};
use weft_waist::EngineState;

use super::DRIFT_PPM;
use super::cluster::{Cluster, ClusterParameters, RoundsNodes};
use super::engines::{EngineParameters, Service, parameters_for};
use super::host::HostLoad;
use super::values::Batch;

/// The round period for a number of nodes, with a margin. It grows with the number of messages that a node
/// sends and receives in a round.
const fn period_of(nodes: usize) -> Duration {
    Duration::from_ns(if nodes <= 5 { 2_400 } else { 3_000 })
}

/// Time of the first fault; the cluster has been running for some time by then.
const FAULTS_FROM_US: u64 = 150;
/// Time at which all faults are over.
const FAULTS_UNTIL_US: u64 = 2_000;
/// Length of a lease: short enough that many leases end in a run. Rounds do not rely on leases, but a
/// restarted node waits for the end of the lease of its previous incarnation.
const LEASE: Duration = Duration::from_us(200);
/// Interval of key rotation where frames are sealed. It is longer than a lease, so that a node with a lease
/// is never two generations behind.
const ROTATION: Duration = Duration::from_us(500);
/// Interval of the heartbeats of a node without a lease.
const IDLE_INTERVAL: Duration = Duration::from_us(10);
/// Every node is configured with the first view before the first round begins. An excluded node waits until
/// its earlier messages have expired before it requests to rejoin.
const PAUSES: RoundsPauses =
    RoundsPauses { start_after: Duration::from_us(30), return_after: Duration::from_us(50) };
/// Interval between two looks at a run.
const STEP: Duration = Duration::from_us(100);
/// Bound on the time from the last fault until every restarted node is a member again. The other nodes remove
/// it because it is silent; it pauses, requests to rejoin, and is added with a delay of three windows.
pub const MEMBER_WITHIN: Duration = Duration::from_us(1_000);
/// Time from the last proposal until all proposals are decided at all nodes.
pub const DECIDED_WITHIN: Duration = Duration::from_us(100);
/// A node that learns of no decision within this time counts as stalled.
const STILL_AFTER: Duration = Duration::from_us(50);
/// The machine of the membership service.
const MEMBERSHIP: &str = "membership0";
/// Maximum size of a proposal in bytes: room for several requests to the register.
const PROPOSAL_BYTES: usize = 256;
/// In the runs of seeds that are divisible by this number, more nodes fail than the cluster tolerates.
const BEYOND_EVERY: u64 = 4;

/// Kinds of injected faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// Omissions and crashes, and also late, duplicated and corrupted messages and pauses.
    #[default]
    All,
    /// Messages from and to some nodes are lost.
    Omission,
    /// Some nodes crash, and some of them restart with empty memory.
    Crash,
    /// No faults.
    None,
}

impl FaultClass {
    /// All classes.
    pub const ALL: [Self; 4] = [Self::All, Self::Omission, Self::Crash, Self::None];

    /// Name of the class.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Omission => "omission",
            Self::Crash => "crash",
            Self::None => "none",
        }
    }
}

impl fmt::Display for FaultClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FaultClass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|class| class.name() == text)
            .ok_or_else(|| format!("there are no faults `{text}`; choose all, omission, crash or none"))
    }
}

/// The faults of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The nodes that fail in the run. All faults concern these nodes or their links.
    pub faulty: Vec<usize>,
    /// Whether more nodes fail than the cluster tolerates. Then the cluster may stop, but its nodes must not
    /// disagree.
    pub beyond: bool,
    /// The faults.
    pub plan: FaultPlan,
}

impl Schedule {
    /// The random schedule of a seed.
    pub fn random(seed: u64, nodes: usize, class: FaultClass) -> Self {
        let mut random = Stream::new(seed, "rounds faults", 0);
        let tolerated = Quorums::tolerated(nodes);
        let beyond = class != FaultClass::None && seed.is_multiple_of(BEYOND_EVERY);
        let count = match class {
            FaultClass::None => 0,
            _ if beyond => random.between(tolerated as u64 + 1, nodes as u64) as usize,
            // In most runs, as many nodes fail as the cluster tolerates.
            _ => tolerated - usize::from(tolerated > 1 && random.below(4) == 0),
        };
        let mut others: Vec<usize> = (0..nodes).collect();
        let mut faulty: Vec<usize> =
            (0..count).map(|_| others.swap_remove(random.below(others.len() as u64) as usize)).collect();
        faulty.sort_unstable();
        let mut faults = Vec::new();
        for &node in &faulty {
            let (mut omits, mut crashes) = (class == FaultClass::Omission, class == FaultClass::Crash);
            if class == FaultClass::All {
                let draw = random.below(4);
                (omits, crashes) = (draw > 0, draw < 2);
            }
            if omits {
                for _ in 0..random.between(1, 4) {
                    faults.push(omission(&mut random, class, node, nodes));
                }
            }
            if crashes {
                crash(&mut random, node, &mut faults);
            }
        }
        if class == FaultClass::All && random.below(2) == 0 {
            faults.push(duplication(&mut random));
        }
        if matches!(class, FaultClass::All | FaultClass::Crash) && random.below(2) == 0 {
            faults.extend(outage(&mut random));
        }
        Self { faulty, beyond, plan: FaultPlan { faults } }
    }
}

/// Draws a period within the time of faults: from a single round to a quarter of that time.
fn period(random: &mut Stream) -> (u64, u64) {
    let total = FAULTS_UNTIL_US - FAULTS_FROM_US;
    let most = [8, 40, 200, total / 4][random.below(4) as usize];
    let length = random.between(1, most);
    let from = FAULTS_FROM_US + random.between(0, total - length);
    (from, from + length)
}

/// A fault that loses or delays messages from or to a node.
fn omission(random: &mut Stream, class: FaultClass, node: usize, nodes: usize) -> Fault {
    let (from_us, until_us) = period(random);
    let name = |node: usize| format!("node{node}");
    let direction =
        [LinkDirection::Both, LinkDirection::FromMachine, LinkDirection::ToMachine][random.below(3) as usize];
    let probability = [0.02, 0.2, 0.5, 1.0][random.below(4) as usize];
    let machine = Some(name(node));
    match random.below(if class == FaultClass::All { 6 } else { 2 }) {
        0 => Fault::Loss { from_us, until_us, probability, machine, direction },
        1 => {
            let other = name((node + random.between(1, nodes as u64 - 1) as usize) % nodes);
            let (from, to) = if random.below(2) == 0 { (name(node), other) } else { (other, name(node)) };
            Fault::OneWayCut { from_us, until_us, from, to }
        }
        // Some messages are late within their round, others by one round or several.
        2 => Fault::Reordering {
            from_us,
            until_us,
            probability,
            delay_us: random.between(1, 8),
            machine,
            direction,
        },
        3 => Fault::Corruption { from_us, until_us, probability, caught_by_fcs: 0.5, machine, direction },
        4 => Fault::SlowLink {
            from_us,
            until_us,
            rate_percent: random.between(1, 10) as u8,
            machine,
            direction,
        },
        _ => Fault::Pause { from_us, until_us: from_us + random.between(1, 20), machine: name(node) },
    }
}

/// Adds a crash of a node, in half of the cases with a restart.
fn crash(random: &mut Stream, node: usize, faults: &mut Vec<Fault>) {
    let at_us = random.between(FAULTS_FROM_US, FAULTS_UNTIL_US - 1);
    faults.push(Fault::Crash { at_us, machine: format!("node{node}") });
    if random.below(2) == 0 {
        let back = random.between(at_us + 1, FAULTS_UNTIL_US);
        faults.push(Fault::Restart { at_us: back, machine: format!("node{node}") });
    }
}

/// An outage of the membership service, which restarts with its state file. It does not count as a failure of
/// a node.
fn outage(random: &mut Stream) -> [Fault; 2] {
    let (at_us, back_us) = period(random);
    let machine = || MEMBERSHIP.to_owned();
    [Fault::Crash { at_us, machine: machine() }, Fault::Restart { at_us: back_us, machine: machine() }]
}

/// Duplicates of messages at all nodes. They do not count as a failure, because duplicates are ignored.
fn duplication(random: &mut Stream) -> Fault {
    let (from_us, until_us) = period(random);
    Fault::Duplication {
        from_us,
        until_us,
        probability: 0.2,
        delay_us: random.between(1, 8),
        machine: None,
        direction: LinkDirection::Both,
    }
}

/// The rounds as the subject of a campaign, with 2 to 8 nodes. Their faults are of a class, not of the kinds
/// of the campaign.
#[derive(Clone, Copy, Debug)]
pub struct RoundsSubject {
    /// Kinds of injected faults.
    pub faults: FaultClass,
    /// Instances in flight.
    pub window: u64,
    /// The engine's implementation.
    pub nic: NicModel,
    /// The service of the engines.
    pub service: Service,
    /// Whether frames are sealed by PSP.
    pub psp: bool,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_rounds::PlantedBug>,
}

/// Figures of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RoundsFigures {
    /// The engine's implementation: `soft` or `rtl`.
    pub nic: NicModel,
    /// Failing nodes that the cluster tolerates.
    pub tolerated: u32,
    /// Instances in flight.
    pub window: u64,
    /// Number of runs with more failing nodes than the cluster tolerates. In these runs, only agreement is
    /// checked, and that no node hangs.
    pub seeds_beyond: u64,
    /// Rounds of all nodes.
    pub rounds: u64,
    /// Proposals decided, each counted once.
    pub decided: u64,
    /// Operations of clients on the register.
    pub operations: u64,
    /// Number of times that a node has fenced itself. Only failing nodes may, and any node in runs with too
    /// many failures.
    pub fences: u64,
    /// Membership changes, summed over the nodes that run at the end.
    pub epochs: u64,
}

impl AddAssign for RoundsFigures {
    fn add_assign(&mut self, run: Self) {
        let Self {
            nic: _,
            tolerated: _,
            window: _,
            seeds_beyond,
            rounds,
            decided,
            operations,
            fences,
            epochs,
        } = run;
        self.seeds_beyond += seeds_beyond;
        self.rounds += rounds;
        self.decided += decided;
        self.operations += operations;
        self.fences += fences;
        self.epochs += epochs;
    }
}

/// Attributes of the run of a seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeedFailures {
    /// Nodes that fail.
    pub faulty: Vec<usize>,
}

/// The run of a seed. Its properties depend on its failures.
pub struct RoundsTrial {
    cluster: Cluster,
    schedule: Schedule,
}

impl Subject for RoundsSubject {
    type Trial = RoundsTrial;
    type Figures = RoundsFigures;
    type About = SeedFailures;

    fn times(&self, _: &Campaign) -> Times {
        let [from, until] = [FAULTS_FROM_US, FAULTS_UNTIL_US].map(Duration::from_us);
        Times { faults: from..until, faulty_until: from, lease: None, live_within: None, step: STEP }
    }

    fn figures(&self, runs: &Campaign) -> RoundsFigures {
        let tolerated = Quorums::tolerated(runs.nodes) as u32;
        RoundsFigures { nic: self.nic, tolerated, window: self.window, ..RoundsFigures::default() }
    }

    fn about(&self, runs: &Campaign, seed: u64) -> SeedFailures {
        SeedFailures { faulty: Schedule::random(seed, runs.nodes, self.faults).faulty }
    }

    fn plan(&self, runs: &Campaign, seed: u64) -> FaultPlan {
        Schedule::random(seed, runs.nodes, self.faults).plan
    }

    fn trial(&self, runs: &Campaign, seed: u64, plan: &FaultPlan) -> Result<RoundsTrial, PlanError> {
        let (nodes, network) = (runs.nodes, NetworkProfile::DETPU);
        let load = HostLoad { batch: Batch { value_bytes: 64, values: 1 }, outstanding: 8 };
        let parameters =
            parameters_for(&CostProfile::FPGA, &network, self.window, period_of(nodes), PROPOSAL_BYTES);
        #[cfg(feature = "planted-bugs")]
        let parameters = weft_rounds::Parameters { planted_bug: self.planted_bug, ..parameters };
        let cluster = Cluster::new(&ClusterParameters {
            nodes,
            network,
            profile: CostProfile::FPGA,
            drift_ppm: DRIFT_PPM,
            load: (self.service == Service::Streams).then_some(load),
            engine: EngineParameters { nic: self.nic, service: self.service, parameters },
            service: Some((
                ServiceParameters::new(nodes, LEASE),
                AgentParameters { idle_interval: IDLE_INTERVAL, ..AgentParameters::default() },
            )),
            pauses: PAUSES,
            rotation: self.psp.then_some(ROTATION),
            planted: runs.planted,
            seed,
            plan: plan.clone(),
        })?;
        Ok(RoundsTrial { cluster, schedule: Schedule::random(seed, nodes, self.faults) })
    }

    fn holds(&self) -> &'static str {
        match self.service {
            Service::Streams => "agree",
            Service::Register => "linearizable",
        }
    }
}

impl Trial for RoundsTrial {
    type Nodes = RoundsNodes;
    type Figures = RoundsFigures;

    fn cluster(&self) -> &Nodes<RoundsNodes> {
        &self.cluster.machines
    }

    fn run_until(&mut self, until: Instant) {
        self.cluster.machines.run_until(until);
    }

    fn settle(&mut self, faults_end: Instant, wrong: &mut Vec<String>) {
        self.run_until(faults_end + MEMBER_WITHIN);
        // This is checked while nodes still propose: a node that is stalled now will not recover.
        wrong.extend(self.stalled());
        self.cluster.end_load();
        self.run_for(DECIDED_WITHIN);
    }

    fn judge(self, figures: &mut RoundsFigures, wrong: &mut Vec<String>) {
        wrong.extend(self.outcome());
        wrong.extend(self.register());
        figures.seeds_beyond += u64::from(self.schedule.beyond);
        figures.rounds += self.cluster.machines.sum("rounds");
        figures.decided += self.cluster.books.borrow().agreement.entries();
        figures.operations += self.cluster.clients().map_or(0, |clients| clients.history().len() as u64);
        figures.fences += self.cluster.machines.sum("fenced");
        figures.epochs += self.cluster.machines.sum("epochs");
    }
}

impl RoundsTrial {
    fn nodes(&self) -> std::ops::Range<usize> {
        0..self.cluster.machines.nodes()
    }

    /// The nodes that must have all properties.
    fn correct(&self) -> Vec<usize> {
        let faulty = |node: &usize| self.schedule.beyond || self.schedule.faulty.contains(node);
        self.nodes().filter(|node| !faulty(node)).collect()
    }

    /// Checks that no node is stalled without having fenced itself, and that all restarted nodes are members.
    fn stalled(&self) -> Vec<String> {
        let books = self.cluster.books.borrow();
        let mut wrong = Vec::new();
        for node in self.nodes().filter(|&node| self.cluster.machines.node(node).is_some()) {
            let known = &books.nodes[node];
            let since = self.cluster.machines.local_now(node).saturating_since(known.decided_at);
            match known.state {
                EngineState::Full if since > STILL_AFTER && self.cluster.clients().is_none() => wrong
                    .push(format!("node{node} runs, is not fenced, and was told of no decision for {since}")),
                EngineState::Joining { .. } if !self.schedule.beyond => {
                    wrong.push(format!(
                        "node{node} came back and is no member {MEMBER_WITHIN} after the last fault"
                    ));
                }
                _ => {}
            }
        }
        if let Some(clients) = self.cluster.clients()
            && !self.schedule.beyond
        {
            let since = self.cluster.machines.now().saturating_since(clients.answered_at());
            if since > STILL_AFTER {
                wrong.push(format!("no client of the register was answered for {since}"));
            }
        }
        wrong
    }

    /// Checks that the history of the register is linearizable.
    fn register(&self) -> Vec<String> {
        let Some(clients) = self.cluster.clients() else { return Vec::new() };
        let report = weft_check::check(&clients.history(), &Options::default());
        let mut wrong: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        if report.lost_acknowledged_writes > 0 {
            wrong.push(format!("{} acknowledged writes are lost", report.lost_acknowledged_writes));
        }
        if report.verdict == Verdict::Undecided {
            wrong.push("the check of the register gave up".to_owned());
        }
        wrong
    }

    /// Checks that all nodes agree, and that nodes without failures have decided all proposals.
    fn outcome(&self) -> Vec<String> {
        let books = self.cluster.books.borrow();
        let mut wrong: Vec<String> =
            books.agreement.disagreements().iter().map(ToString::to_string).collect();
        let entries = books.agreement.entries();
        for node in self.correct() {
            let known = &books.nodes[node];
            if known.state != EngineState::Full {
                let phase = match known.phase {
                    Some(Phase::Fenced) => "has fenced itself",
                    Some(Phase::Left) => "was removed",
                    _ => "does not run",
                };
                wrong.push(format!("node{node}, which has not failed, {phase} (round {})", known.round));
                continue;
            }
            let position = books.agreement.position(node).unwrap_or(0);
            if position != entries {
                wrong.push(format!(
                    "node{node}, which has not failed, decided {position} entries of {entries}"
                ));
            }
            let lost = books.agreement.undecided(node) + books.agreement.passed_over(node);
            if lost + known.dropped > 0 {
                wrong.push(format!("{lost} proposals of node{node}, which has not failed, were not decided"));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the fault concerns one of the failing nodes or its link.
    fn touches(fault: &Fault, faulty: &[usize]) -> bool {
        let fails = |name: &String| faulty.iter().any(|node| *name == format!("node{node}"));
        match fault {
            Fault::Loss { machine, .. }
            | Fault::Reordering { machine, .. }
            | Fault::Corruption { machine, .. }
            | Fault::SlowLink { machine, .. } => machine.as_ref().is_some_and(fails),
            Fault::OneWayCut { from, to, .. } => fails(from) || fails(to),
            Fault::Crash { machine, .. } | Fault::Restart { machine, .. } if machine == MEMBERSHIP => true,
            Fault::Crash { machine, .. }
            | Fault::Restart { machine, .. }
            | Fault::Pause { machine, .. }
            | Fault::Outage { machine, .. } => fails(machine),
            Fault::Duplication { .. } => true,
            Fault::Partition { .. } | Fault::PartialPartition { .. } => false,
            fault => unreachable!("rounds have no disks: {fault:?}"),
        }
    }

    #[test]
    fn schedules_strike_only_who_fails_and_as_many_as_they_say() {
        let mut kinds = std::collections::BTreeSet::new();
        for nodes in 2..=8 {
            let tolerated = (nodes - 1) / 2;
            for seed in 0..200 {
                for class in FaultClass::ALL {
                    let schedule = Schedule::random(seed, nodes, class);
                    assert_eq!(schedule.plan.check(), Ok(()));
                    assert_eq!(schedule.beyond, schedule.faulty.len() > tolerated, "{schedule:?}");
                    assert!(
                        schedule.plan.faults.iter().all(|fault| touches(fault, &schedule.faulty)),
                        "{schedule:?}"
                    );
                    assert!(
                        schedule.plan.ends_at() <= Instant::ZERO + Duration::from_us(FAULTS_UNTIL_US + 20)
                    );
                    assert_eq!(schedule, Schedule::random(seed, nodes, class));
                    kinds.extend(schedule.plan.faults.iter().map(|fault| fault.kind().name()));
                }
            }
        }
        assert_eq!(kinds.len(), 8, "all but partitions: {kinds:?}");
    }
}
