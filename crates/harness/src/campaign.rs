//! Fault campaigns: one run of a cluster for each seed, each with random faults, and each checked against the
//! guarantees of its engine.
//!
//! An engine's part is a [`Subject`], which makes a [`Trial`] for each seed. [`Campaign::run`] conducts it:
//!
//! 1. It runs the cluster until all faults are over, and looks at it in small steps.
//! 2. It waits until every node serves again.
//! 3. The trial ends its load and lets the cluster settle.
//! 4. The trial judges what it has recorded.
//!
//! Runs are made on several threads at once, each in one of them from the building of its world to its judgement.
//! A run counts for itself, and the counts are added in the order of the seeds.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::{AddAssign, Range, RangeInclusive};

use serde::Serialize;
use weft_sim::{FaultKinds, FaultPlan, PlanError, PlanShape};
use weft_time::{Duration, Instant};

use crate::findings::Judgement;
use crate::jobs::in_order;
use crate::partings::Partings;
use crate::{Builder, Cluster, ClusterHost, Findings, Planted, Sealed, SimulatedNode, add_counts, faults_of};

/// The runs of a campaign.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Nodes of each cluster.
    pub nodes: usize,
    /// One run per seed.
    pub seeds: RangeInclusive<u64>,
    /// Maximum number of runs at the same time. The result is the same for any number.
    pub jobs: NonZeroUsize,
    /// Kinds of faults in random plans.
    pub kinds: FaultKinds,
    /// A fixed plan instead of random ones.
    pub plan: Option<FaultPlan>,
    /// Number of keepers of the membership service; 1 if it is one process.
    pub keepers: usize,
    /// The bug that is planted around the engines, if any.
    pub planted: Planted,
}

/// Times of a run, from its beginning.
#[derive(Clone, Debug)]
pub struct Times {
    /// Time in which random faults begin and end.
    pub faults: Range<Duration>,
    /// The part of the run that may have faults lasts at least until then.
    pub faulty_until: Duration,
    /// Length of a lease, if nodes serve by leases. Then no node may serve after it has left the view, and
    /// the cluster must serve during partial partitions.
    pub lease: Option<Duration>,
    /// Bound on the time from the last fault until [`Trial::is_live`]. `None`: the trial has bounds of its own.
    pub live_within: Option<Duration>,
    /// Interval between two checks of a run.
    pub step: Duration,
}

/// An engine's part of a campaign.
pub trait Subject: Sync {
    /// The run of a seed.
    type Trial: Trial<Figures = Self::Figures>;
    /// Figures of the result that only this engine has. Those of several runs are added.
    type Figures: Default + AddAssign + Send + Serialize;
    /// Attributes of a run that are stated with its violations.
    type About: Send + Serialize;

    /// The times of a run.
    fn times(&self, runs: &Campaign) -> Times;

    /// The figures before a run.
    fn figures(&self, runs: &Campaign) -> Self::Figures {
        let _ = runs;
        Self::Figures::default()
    }

    /// Attributes of the run of a seed.
    fn about(&self, runs: &Campaign, seed: u64) -> Self::About;

    /// The faults of a seed.
    fn plan(&self, runs: &Campaign, seed: u64) -> FaultPlan {
        runs.plan_of(seed, 0, self.times(runs).faults)
    }

    /// The run of a seed with these faults.
    ///
    /// # Errors
    /// The plan does not fit the cluster.
    fn trial(&self, runs: &Campaign, seed: u64, plan: &FaultPlan) -> Result<Self::Trial, PlanError>;

    /// The verdict if the property holds in all runs.
    fn holds(&self) -> &'static str;

    /// The verdict on all runs.
    fn verdict(&self, result: &CampaignResult<Self::Figures, Self::About>) -> &'static str {
        result.findings.checked(self.holds())
    }
}

/// One run: a cluster with its load.
pub trait Trial {
    /// Builds the nodes of the cluster.
    type Nodes: Builder<Node: SimulatedNode>;
    /// See [`Subject::Figures`].
    type Figures;

    /// The cluster.
    fn cluster(&self) -> &Cluster<Self::Nodes>;

    /// Runs the simulation until `until`.
    fn run_until(&mut self, until: Instant);

    /// Begins the load. The faults are over at `faults_end`.
    fn begin(&mut self, faults_end: Instant) {
        let _ = faults_end;
    }

    /// Notes that the plan has no more faults. Returns the time since which there are no faults at all.
    fn faults_are_over(&mut self) -> Instant {
        self.now()
    }

    /// Whether every node serves, and clients have got answers since the last fault where the trial knows.
    fn is_live(&mut self) -> bool {
        self.cluster().is_whole()
    }

    /// Whether the cluster has rightly stopped for good.
    fn has_halted(&self) -> bool {
        false
    }

    /// State of the nodes as text, to explain why they do not serve.
    fn describe(&self) -> String {
        self.cluster().describe()
    }

    /// Ends the load and lets the cluster settle. There were no faults since `faults_end`. Adds violations to
    /// `wrong`.
    fn settle(&mut self, faults_end: Instant, wrong: &mut Vec<String>);

    /// Checks what was recorded, and adds it to the figures of the run. Adds violations to `wrong`.
    fn judge(self, figures: &mut Self::Figures, wrong: &mut Vec<String>);

    /// The time of the world.
    fn now(&self) -> Instant {
        self.cluster().now()
    }

    /// Runs the simulation for this time.
    fn run_for(&mut self, time: Duration) {
        self.run_until(self.now() + time);
    }

    /// Runs in steps until `is_done` holds, at most until `until`. Returns whether it holds.
    fn wait(&mut self, step: Duration, until: Instant, mut is_done: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            if is_done(self) {
                return true;
            }
            if self.now() >= until {
                return false;
            }
            self.run_for(step);
        }
    }
}

/// Results of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CampaignResult<Figures, About = ()> {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Nodes of each cluster.
    pub nodes: u32,
    /// The first seed.
    pub seed: u64,
    /// Runs made.
    pub seeds_run: u64,
    /// Figures that only this engine has.
    #[serde(flatten)]
    pub figures: Figures,
    /// Views published.
    pub views: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Partial partitions that began while no other fault was active, and during which the other nodes were
    /// seen to serve in time; if nodes serve by leases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_partitions_checked: Option<u64>,
    /// Time until all nodes served again, if that is measured.
    #[serde(flatten)]
    pub live: Option<LiveWithin>,
    /// Counts of sealed frames, if frames are sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psp: Option<Sealed>,
    /// The property that holds in all runs, or `violation`.
    pub checked: &'static str,
    /// Violations.
    #[serde(flatten)]
    pub findings: Findings<About>,
}

/// Time from the last fault until all nodes served again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveWithin {
    /// The bound on this time.
    #[serde(rename = "live_within_bound_ns")]
    pub bound_ns: u64,
    /// The longest time of all runs, or `u64::MAX` if it exceeded the bound in a run.
    #[serde(rename = "live_within_ns")]
    pub slowest_ns: u64,
}

impl LiveWithin {
    fn new(bound: Duration) -> Self {
        Self { bound_ns: bound.as_ns(), slowest_ns: 0 }
    }
}

impl AddAssign for LiveWithin {
    fn add_assign(&mut self, Self { bound_ns: _, slowest_ns }: Self) {
        self.slowest_ns = self.slowest_ns.max(slowest_ns);
    }
}

impl<Figures: AddAssign, About> CampaignResult<Figures, About> {
    /// Adds the counts of another run.
    fn add(&mut self, run: Self) {
        self.figures += run.figures;
        self.views += run.views;
        add_counts(&mut self.faults, run.faults);
        add_some(&mut self.partial_partitions_checked, run.partial_partitions_checked);
        add_some(&mut self.live, run.live);
        add_some(&mut self.psp, run.psp);
    }
}

/// Adds what a run has counted, if it has.
fn add_some<T: AddAssign>(sum: &mut Option<T>, run: Option<T>) {
    match (sum, run) {
        (Some(sum), Some(run)) => *sum += run,
        (sum @ None, run) => *sum = run,
        (Some(_), None) => {}
    }
}

impl Campaign {
    /// A campaign with all kinds of faults of networks and nodes, which makes one run at a time.
    pub fn new(nodes: usize, seeds: RangeInclusive<u64>) -> Self {
        Self {
            nodes,
            seeds,
            jobs: NonZeroUsize::MIN,
            kinds: FaultKinds::ALL,
            plan: None,
            keepers: 1,
            planted: Planted::default(),
        }
    }

    /// The fixed plan, or the random one of a seed with faults in `period`. Nodes may crash and lose their
    /// memory, the membership service may crash and keeps its stored state, machines of `clients` do not
    /// crash. Nodes have disks if there are faults of disks.
    pub fn plan_of(&self, seed: u64, clients: usize, period: Range<Duration>) -> FaultPlan {
        self.plan_among(seed, |_| true, clients, period)
    }

    /// Like [`Campaign::plan_of`], but only the nodes for which `may_fail` holds fail. The others always reach each
    /// other.
    pub fn plan_among(
        &self,
        seed: u64,
        may_fail: impl Fn(usize) -> bool,
        clients: usize,
        period: Range<Duration>,
    ) -> FaultPlan {
        if let Some(plan) = &self.plan {
            return plan.clone();
        }
        let (failing, steady): (Vec<_>, Vec<_>) = (0..self.nodes).partition(|&node| may_fail(node));
        let [crashable, steady] = [failing, steady]
            .map(|nodes| nodes.into_iter().map(|node| ClusterHost::node(node).name()).collect::<Vec<_>>());
        let durable: Vec<_> =
            ClusterHost::membership(self.keepers).into_iter().map(ClusterHost::name).collect();
        let clients = (0..clients).map(|index| ClusterHost::Clients(index as u8).name());
        let shape = PlanShape {
            disks: if self.kinds.has_disks() { crashable.clone() } else { Vec::new() },
            machines: crashable.iter().chain(&durable).cloned().chain(clients).collect(),
            crashable,
            durable,
            steady,
            from_us: period.start.as_ns() / 1_000,
            until_us: period.end.as_ns() / 1_000,
            kinds: self.kinds,
        };
        FaultPlan::random(seed, &shape)
    }

    /// Runs the campaign. `progress` is called with the number of runs made, and `replay` returns the command
    /// that repeats the run of a seed; both are called in this thread.
    ///
    /// # Errors
    /// The given plan does not fit the cluster.
    pub fn run<S: Subject>(
        &self,
        subject: &S,
        replay: impl Fn(u64) -> String,
        mut progress: impl FnMut(u64),
    ) -> Result<CampaignResult<S::Figures, S::About>, PlanError> {
        let times = subject.times(self);
        let run = |seed| {
            let plan = subject.plan(self, seed);
            let trial = subject.trial(self, seed, &plan)?;
            let mut counts = self.no_runs(subject, &times);
            let judgement = conduct(trial, &times, &plan, &mut counts);
            Ok((counts, judgement))
        };
        let mut result = self.no_runs(subject, &times);
        in_order(self.seeds.clone(), self.jobs, run, |seed, run| {
            let judgement = match run {
                Ok(run) => {
                    let (counts, judgement) = run?;
                    result.add(counts);
                    judgement
                }
                Err(panic) => Judgement::of_panic(&*panic),
            };
            result.findings.add(seed, subject.about(self, seed), judgement, &replay);
            result.seeds_run += 1;
            progress(result.seeds_run);
            Ok(())
        })?;
        result.checked = subject.verdict(&result);
        Ok(result)
    }

    /// The result before the first run.
    fn no_runs<S: Subject>(&self, subject: &S, times: &Times) -> CampaignResult<S::Figures, S::About> {
        CampaignResult {
            world: "sim",
            nodes: self.nodes as u32,
            seed: *self.seeds.start(),
            seeds_run: 0,
            figures: subject.figures(self),
            views: 0,
            faults: BTreeMap::new(),
            partial_partitions_checked: times.lease.map(|_| 0),
            live: times.live_within.map(LiveWithin::new),
            psp: None,
            checked: "",
            findings: Findings::default(),
        }
    }
}

/// Conducts the run of a seed. Enters its counts, of which there are none yet.
fn conduct<T: Trial, About>(
    mut trial: T,
    times: &Times,
    plan: &FaultPlan,
    counts: &mut CampaignResult<T::Figures, About>,
) -> Judgement {
    let mut wrong = Vec::new();
    let end = plan.ends_at().max(Instant::ZERO + times.faulty_until);
    trial.begin(end);
    let mut partings = times.lease.map(|lease| Partings::new(plan, trial.cluster().nodes(), lease));
    while trial.now() < end {
        let next = (trial.now() + times.step).min(end);
        trial.run_until(next);
        if let Some(partings) = &mut partings {
            let cluster = trial.cluster();
            wrong.extend(partings.look(cluster));
            wrong.extend(cluster.contradiction().filter(|_| wrong.is_empty()));
            if let Some(node) = cluster.serving_outside().filter(|_| wrong.is_empty()) {
                let what = "serves by its lease, and the newest view is without it";
                wrong.push(format!("at {next} node{node} {what}"));
            }
        }
    }
    let end = trial.faults_are_over();
    if let Some(live) = &mut counts.live {
        let bound = Duration::from_ns(live.bound_ns);
        let is_live = trial.wait(times.step, end + bound, T::is_live);
        if !trial.has_halted() {
            live.slowest_ns = if is_live { trial.now().saturating_since(end).as_ns() } else { u64::MAX };
            if !is_live {
                let state = trial.describe();
                wrong.push(format!("not every node serves again within {bound} of the last fault: {state}"));
            }
        }
    }
    trial.settle(end, &mut wrong);

    let cluster = trial.cluster();
    counts.views = cluster.views().len() as u64;
    counts.partial_partitions_checked = partings.map(|partings| partings.checked());
    counts.faults = faults_of(&cluster.world);
    if let Some(watch) = &cluster.watch {
        let watch = watch.borrow();
        wrong.extend(watch.wrong());
        counts.psp = Some(Sealed::of(&watch, cluster.counters()));
    }
    let mut judgement = Judgement::of(&cluster.world, wrong);
    trial.judge(&mut counts.figures, &mut judgement.wrong);
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_not_live_in_time_is_the_slowest() {
        let mut live = LiveWithin::new(Duration::from_ns(10));
        for (run, slowest) in [(9, 9), (7, 9), (u64::MAX, u64::MAX), (7, u64::MAX)] {
            live += LiveWithin { slowest_ns: run, ..live };
            assert_eq!(live, LiveWithin { bound_ns: 10, slowest_ns: slowest });
        }
    }
}
