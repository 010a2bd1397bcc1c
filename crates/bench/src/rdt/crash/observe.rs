//! One run, observed in small steps: the answers over time, and the events after the crash.

use serde::Serialize;
use weft_harness::node_id;
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, NodeSet};

use super::{Crash, parameters};
use crate::rdt::cluster::Cluster;
use crate::rdt::measure::{Measured, RdtBench};
use crate::rdt::system::System;
use crate::smr::FailOver;

/// Time without an answer after which a run counts as stuck.
const STUCK_AFTER: Duration = Duration::from_ms(1_000);
/// Maximum number of buckets of a timeline.
const BUCKETS: u64 = 80;
/// Length of a timeline, in units of the time from the crash until it was handled. One unit is before the
/// crash.
const SHOWN: u64 = 8;
/// Minimum length of a unit, in steps.
const SHOWN_STEPS: u64 = 40;

/// Label that replaces "taken for dead" if a survivor suspected the node even before the crash.
pub(super) const SUSPECTED_BEFORE: &str = "taken for dead before the crash";

/// An event after the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// Description of the event.
    pub label: &'static str,
    /// Time of the event, in nanoseconds after the crash.
    pub at_ns: u64,
}

/// Operations answered around the crash, at all nodes together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// Begin of the timeline, in nanoseconds before the crash.
    pub before_ns: u64,
    /// Width of a bucket, in nanoseconds.
    pub bucket_ns: u64,
    /// Answers in each bucket.
    pub operations: Vec<u64>,
    /// Answers to conflicting calls in each bucket.
    pub ordered: Vec<u64>,
}

/// Results of an observed run.
#[derive(Debug)]
pub(super) struct Run {
    pub measured: Measured,
    /// Start of the first client.
    pub began: Instant,
    /// Observations of the crash, if there was one.
    pub seen: Option<Seen>,
}

/// Observations of a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub node: usize,
    pub marks: Vec<Mark>,
    pub timeline: Timeline,
    pub fail_over: Option<FailOver>,
}

/// Interval between two observations, which is the resolution of times of answers and suspicions.
const fn step(system: System) -> Duration {
    match system {
        System::Hamband => Duration::from_us(2),
        _ => Duration::from_ns(100),
    }
}

/// Answers so far: all, and those to conflicting calls.
type Answers = (u64, u64);

/// Time since which a survivor has suspected the victim without interruption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Suspicion {
    since: Option<Instant>,
}

impl Suspicion {
    fn look(&mut self, now: Instant, suspected: bool) {
        self.since = if suspected { self.since.or(Some(now)) } else { None };
    }
}

/// Observes a crash: when a survivor suspects the victim, and when a new leader has decided a call.
struct CrashMonitor {
    crash: Crash,
    /// Whether the victim led a group.
    led: bool,
    suspicion: Suspicion,
    /// Time since which the survivor has suspected the victim. It is before the crash if the victim was only
    /// slow at first.
    noticed: Option<Instant>,
    first_commit: Option<Instant>,
    /// Number of answers to conflicting calls when the new leader began to lead.
    answered_before: Option<u64>,
    /// Times of the leadership in which the first call was decided. There may be later leaderships.
    fail_over: Option<FailOver>,
}

impl CrashMonitor {
    fn new(crash: Crash) -> Self {
        Self {
            crash,
            led: false,
            suspicion: Suspicion::default(),
            noticed: None,
            first_commit: None,
            answered_before: None,
            fail_over: None,
        }
    }

    /// The survivor that leads after the crash.
    const fn next(&self) -> usize {
        if self.crash.node == 0 { 1 } else { 0 }
    }

    fn look(&mut self, now: Instant, cluster: &Cluster, (_, ordered): Answers) {
        let Some(engine) = cluster.engine(self.next()) else { return };
        let victim = NodeId::new(self.crash.node).expect("it is one of the nodes");
        self.suspicion.look(now, !engine.pulse().alive().contains(victim));
        if now < self.crash.instant() {
            self.led = cluster.leads(self.crash.node);
            return;
        }
        self.noticed = self.noticed.or(self.suspicion.since);
        if self.led && self.first_commit.is_none() && cluster.leads(self.next()) {
            let before = *self.answered_before.get_or_insert(ordered);
            if ordered > before {
                self.first_commit = Some(now);
                self.fail_over = Some(self.times(now, engine.group(0).timeline()));
            }
        }
    }

    /// Time at which the crash was handled: the new leader has decided a call, or a survivor suspects the
    /// victim.
    fn is_over_at(&self) -> Option<Instant> {
        if self.led { self.first_commit } else { self.noticed }
    }

    fn times(&self, first: Instant, leadership: weft_smr::Timeline) -> FailOver {
        let crashed = self.crash.instant();
        let between = |from: Instant, to: Instant| to.saturating_since(from).as_ns();
        FailOver {
            detected_ns: between(crashed, leadership.asked),
            permission_ns: between(leadership.asked, leadership.granted),
            takeover_ns: between(leadership.granted, leadership.leading),
            first_commit_ns: between(leadership.leading, first),
            total_ns: between(crashed, first),
        }
    }

    fn marks(&self) -> Vec<Mark> {
        let crash = self.crash.instant();
        let mut marks = vec![Mark { label: "crash", at_ns: 0 }];
        marks.extend(self.noticed.map(|at| {
            let label = if at < crash { SUSPECTED_BEFORE } else { "taken for dead" };
            Mark { label, at_ns: at.saturating_since(crash).as_ns() }
        }));
        if let Some(times) = &self.fail_over {
            let granted = times.detected_ns + times.permission_ns;
            marks.extend([
                Mark { label: "permission asked for", at_ns: times.detected_ns },
                Mark { label: "granted by a majority", at_ns: granted },
                Mark { label: "leads", at_ns: granted + times.takeover_ns },
                Mark { label: "first commit", at_ns: times.total_ns },
            ]);
        }
        marks
    }

    fn seen(&self, answers: &[Answers], begin: Instant, step: Duration) -> Seen {
        let crash = self.crash.instant().saturating_since(begin).as_ns();
        let length = self.is_over_at().map_or(0, |at| at.saturating_since(self.crash.instant()).as_ns());
        let timeline = Timeline::around(crash, length, answers, step.as_ns());
        Seen { node: self.crash.node, marks: self.marks(), timeline, fail_over: self.fail_over }
    }
}

impl Timeline {
    /// The timeline around a crash `crash` ns after the first observation, which was handled `length` ns
    /// later. Observations are `step` ns apart.
    fn around(crash: u64, length: u64, answers: &[Answers], step: u64) -> Self {
        let part = length.div_ceil(step).max(SHOWN_STEPS);
        let steps_per_bucket = (SHOWN * part).div_ceil(BUCKETS);
        let crash = crash / step;
        // The crash is at the boundary of two buckets.
        let before = (part / steps_per_bucket).min(crash / steps_per_bucket) * steps_per_bucket;
        let first = crash - before;
        let last = (crash + (SHOWN - 1) * part).min(answers.len().saturating_sub(1) as u64);
        let at = |index: u64| answers[index as usize];
        let starts = (first..).step_by(steps_per_bucket as usize);
        let buckets = starts
            .take_while(|start| start + steps_per_bucket <= last)
            .map(|start| (at(start), at(start + steps_per_bucket)));
        let (operations, ordered) = buckets.map(|(from, to)| (to.0 - from.0, to.1 - from.1)).unzip();
        Self { before_ns: before * step, bucket_ns: steps_per_bucket * step, operations, ordered }
    }
}

/// Time at which the last client of a run with these parameters begins, after all connections are made.
pub(super) fn begins_at(bench: &RdtBench) -> Instant {
    let (mut cluster, _) = begin(bench, None);
    loop {
        cluster.machines.run_for(step(bench.system));
        let began: Vec<Instant> = cluster.books.borrow().nodes.iter().map(|node| node.began).collect();
        let last = began.iter().copied().max().unwrap_or(Instant::ZERO);
        if !began.contains(&Instant::ZERO) || cluster.machines.now() > Instant::ZERO + STUCK_AFTER {
            return last;
        }
    }
}

/// Makes a cluster and runs it until its clients begin. Returns the cluster and that time.
fn begin(bench: &RdtBench, crash: Option<Crash>) -> (Cluster, Instant) {
    let mut cluster = Cluster::new(&parameters(bench, crash)).expect("the plan names a node");
    let begin = Instant::ZERO + cluster.connecting();
    cluster.books.borrow_mut().begins_at = begin;
    cluster.machines.run_until(begin);
    (cluster, begin)
}

/// Makes a run, with a crash if one is given.
pub(super) fn run(bench: &RdtBench, crash: Option<Crash>) -> Run {
    let (mut cluster, begin) = begin(bench, crash);
    let groups: Vec<usize> = {
        let books = cluster.books.borrow();
        let kind = books.check.specification().kind();
        (0..kind.method_count()).filter(|method| kind.coordination(*method).group.is_some()).collect()
    };
    let step = step(bench.system);
    let mut watch = crash.map(CrashMonitor::new);
    let mut answers: Vec<Answers> = vec![(0, 0)];
    let mut answered_at = begin;
    let mut wrong = Vec::new();
    while !cluster.books.borrow().all_done() {
        cluster.machines.run_for(step);
        let now = cluster.machines.now();
        if crash.is_some_and(|crash| now >= crash.instant() && now < crash.instant() + step * 2) {
            // A client without operations may have received operations of the crashed node's client.
            cluster.nudge();
        }
        let so_far = count(&cluster, &groups);
        if answers.last().is_some_and(|last| last.0 < so_far.0) {
            answered_at = now;
        }
        answers.push(so_far);
        if let Some(watch) = &mut watch {
            watch.look(now, &cluster, so_far);
        }
        if now.saturating_since(answered_at) > STUCK_AFTER {
            wrong.push(format!("nothing was answered for {STUCK_AFTER}"));
            break;
        }
    }
    let seen = watch.as_ref().map(|watch| watch.seen(&answers, begin, step));
    let began = cluster.books.borrow().nodes.iter().map(|node| node.began).min().unwrap_or(begin);
    if crash.is_some_and(|crash| cluster.engine(crash.node).is_some()) {
        wrong.push("no node has crashed".to_owned());
    }
    let stopped = crash.map_or(NodeSet::EMPTY, |crash| NodeSet::EMPTY.with(node_id(crash.node)));
    let mut measured = bench.conclude(&mut cluster, stopped);
    measured.wrong.append(&mut wrong);
    Run { measured, began, seen }
}

fn count(cluster: &Cluster, groups: &[usize]) -> Answers {
    let books = cluster.books.borrow();
    books.nodes.iter().fold((0, 0), |(all, ordered), node| {
        let of_groups: u64 = groups.iter().map(|method| node.updates[*method].operations()).sum();
        (all + node.queries.operations() + node.updates_answered(), ordered + of_groups)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspicion_counts_from_its_last_beginning() {
        let us = |us| Instant::ZERO + Duration::from_us(us);
        let mut suspicion = Suspicion::default();
        let sequence = [
            (1, true, Some(1)),
            (2, true, Some(1)),
            (3, false, None),
            (4, true, Some(4)),
            (5, true, Some(4)),
        ];
        for (at, suspected, since) in sequence {
            suspicion.look(us(at), suspected);
            assert_eq!(suspicion.since, since.map(us));
        }
    }

    #[test]
    fn buckets_hold_what_was_answered_around_the_crash() {
        // Each step until the crash at step 100 has ten answers, the next 50 steps have none, and later steps
        // have five.
        let mut answers = vec![(0, 0)];
        for step in 0..1_000 {
            let (all, ordered) = answers[step];
            let more = match step {
                ..100 => 10,
                100..150 => 0,
                _ => 5,
            };
            answers.push((all + more, ordered + more / 5));
        }
        let timeline = Timeline::around(10_000, 5_000, &answers, 100);
        assert_eq!((timeline.before_ns, timeline.bucket_ns), (5_000, 500));
        assert!(timeline.operations[..10].iter().all(|bucket| *bucket == 50));
        assert!(timeline.operations[10..20].iter().all(|bucket| *bucket == 0));
        assert!(timeline.operations[20..].iter().all(|bucket| *bucket == 25));
        assert_eq!(timeline.ordered.len(), timeline.operations.len());
        // The crash is at the very start.
        let timeline = Timeline::around(0, 100, &answers, 100);
        assert_eq!((timeline.before_ns, timeline.operations[0]), (0, 40));
    }
}
