//! The activity of a cluster in a run: completed operations over time, states of the nodes, and faults.

use weft_results::{Lane, Mark, MarkKind, NodeState, StateSpan, Timeline, since_ns};
use weft_sim::{Fault, FaultPlan};
use weft_time::{Duration, Instant};
use weft_waist::EngineState;

use crate::ClusterHost;

/// The events of a run, with their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// Operations completed in each bucket of time.
    pub timeline: Timeline,
    /// The faults of the plan.
    pub marks: Vec<Mark>,
    /// The state of each node.
    pub lanes: Vec<Lane>,
    answered: u64,
    looked: Instant,
}

impl Activity {
    /// The activity of a run that begins at time zero, under the faults of a plan. [`Activity::look`] must be
    /// called at least once in each bucket.
    pub fn new(nodes: usize, bucket: Duration, plan: &FaultPlan) -> Self {
        let lane =
            |node| Lane { name: ClusterHost::node(node).name(), states: Vec::new(), leads: Vec::new() };
        let mut marks: Vec<Mark> = plan.faults.iter().flat_map(marks).collect();
        marks.sort_by_key(|mark| mark.at_ns);
        Self {
            timeline: Timeline { bucket_ns: bucket.as_ns(), measured_from_ns: 0, operations: Vec::new() },
            marks,
            lanes: (0..nodes).map(lane).collect(),
            answered: 0,
            looked: Instant::ZERO,
        }
    }

    /// Records that `answered` operations have completed by `now`, and the states of the nodes since the last
    /// call.
    pub fn look(&mut self, now: Instant, answered: u64, state: impl Fn(usize) -> NodeState) {
        let [from_ns, to_ns] = [self.looked, now].map(|at| since_ns(Instant::ZERO, at));
        let bucket = (to_ns.saturating_sub(1) / self.timeline.bucket_ns.max(1)) as usize;
        if self.timeline.operations.len() <= bucket {
            self.timeline.operations.resize(bucket + 1, 0);
        }
        self.timeline.operations[bucket] += answered.saturating_sub(self.answered);
        for (node, lane) in self.lanes.iter_mut().enumerate() {
            let state = state(node);
            match lane.states.last_mut() {
                Some(span) if span.state == state => span.to_ns = to_ns,
                _ => lane.states.push(StateSpan { from_ns, to_ns, state }),
            }
        }
        (self.answered, self.looked) = (answered, now);
    }
}

/// The state of a node whose engine is in this state.
pub const fn node_state(engine: EngineState) -> NodeState {
    match engine {
        EngineState::Full | EngineState::Sealed => NodeState::Serving,
        EngineState::Joining { .. } | EngineState::Starting | EngineState::Restored => NodeState::Joining,
        EngineState::Lost => NodeState::Fenced,
    }
}

/// The beginning of a fault and, if it has a duration, its end.
fn marks(fault: &Fault) -> impl Iterator<Item = Mark> {
    let (machine, ends) = match fault {
        Fault::Crash { machine, .. } => (Some(machine), false),
        Fault::Restart { machine, .. } => (Some(machine), true),
        Fault::Pause { machine, .. } | Fault::Outage { machine, .. } => (Some(machine), false),
        _ => (None, false),
    };
    let node = machine.and_then(|machine| machine.strip_prefix("node")?.parse().ok());
    let of = machine.map_or_else(String::new, |machine| format!(" of {machine}"));
    let name = if matches!(fault, Fault::Restart { .. }) { "restart" } else { fault.kind().name() };
    let mark = move |at: Instant, ends: bool| {
        let (kind, verb) = if ends { (MarkKind::Repair, "ends") } else { (MarkKind::Fault, "begins") };
        let label =
            if fault.begin() == fault.end() { format!("{name}{of}") } else { format!("{name}{of} {verb}") };
        Mark { at_ns: since_ns(Instant::ZERO, at), kind, node, label }
    };
    let end = (fault.end() > fault.begin()).then(|| mark(fault.end(), true));
    [mark(fault.begin(), ends)].into_iter().chain(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_states_and_faults_stand_where_they_were() {
        let us = |us| Instant::ZERO + Duration::from_us(us);
        let plan = "[[fault]]\nkind = \"crash\"\nat_us = 15\nmachine = \"node1\"\n\
             [[fault]]\nkind = \"restart\"\nat_us = 25\nmachine = \"node1\"\n\
             [[fault]]\nkind = \"loss\"\nfrom_us = 5\nuntil_us = 9\nprobability = 0.5\n";
        let mut activity = Activity::new(2, Duration::from_us(10), &FaultPlan::parse(plan).unwrap());
        for (at, answered, second) in [
            (10, 7, NodeState::Serving),
            (20, 9, NodeState::Down),
            (30, 9, NodeState::Down),
            (40, 19, NodeState::Serving),
        ] {
            activity.look(us(at), answered, |node| if node == 1 { second } else { NodeState::Serving });
        }
        assert_eq!(
            (activity.timeline.bucket_ns, &activity.timeline.operations[..]),
            (10_000, &[7, 2, 0, 10][..])
        );
        let spans = |node: usize| {
            activity.lanes[node].states.iter().map(|span| (span.from_ns, span.to_ns)).collect::<Vec<_>>()
        };
        assert_eq!(spans(0), [(0, 40_000)]);
        assert_eq!(spans(1), [(0, 10_000), (10_000, 30_000), (30_000, 40_000)]);
        let marks: Vec<_> =
            activity.marks.iter().map(|mark| (mark.at_ns, mark.label.as_str(), mark.node)).collect();
        let expected = [
            (5_000, "loss begins", None),
            (9_000, "loss ends", None),
            (15_000, "crash of node1", Some(1)),
            (25_000, "restart of node1", Some(1)),
        ];
        assert_eq!(marks, expected);
    }
}
