//! Events of a simulated cluster over time, for reports.

use weft_harness::activity::node_state;
use weft_harness::{ClusterHost, StatusChange, node_id};
use weft_kv::PARTITIONS;
use weft_results::{Lane, LeadSpan, Mark, MarkKind, NodeState, StateSpan, since_ns};
use weft_time::Instant;
use weft_waist::{NodeId, View};

use super::cluster::Cluster;
use super::turns::Turn;

/// Events and states of the part of a run from `begin` to `end`.
pub(super) fn of(cluster: &Cluster, begin: Instant, end: Instant) -> (Vec<Mark>, Vec<Lane>) {
    let within = |at: Instant| at >= begin && at <= end;
    let mut marks: Vec<(Instant, Mark)> = Vec::new();
    let views = cluster.machines.views();
    for (at, view) in views.iter().filter(|(at, _)| within(*at)) {
        let label = format!("{}: full {:?}, joining {:?}", view.epoch, view.full, view.joining);
        marks
            .push((*at, Mark { at_ns: since_ns(begin, *at), kind: MarkKind::ViewChange, node: None, label }));
    }
    let turns = cluster.turns.borrow();
    for turn in turns.0.iter().filter(|turn| within(turn.at)) {
        let (kind, verb) =
            if turn.down { (MarkKind::Fault, "crashes") } else { (MarkKind::Repair, "restarts") };
        let label = format!("{} {verb}", cluster.machines.world.name(turn.machine));
        let node = Some(turn.machine.index() as u32);
        marks.push((turn.at, Mark { at_ns: since_ns(begin, turn.at), kind, node, label }));
    }
    marks.sort_by_key(|(at, _)| *at);
    let lanes = (0..cluster.machines.nodes()).map(|node| {
        let turns = turns.0.iter().filter(|turn| turn.machine.index() == node);
        Lane {
            name: ClusterHost::node(node).name(),
            states: states(&cluster.status_changes(node), turns, begin, end),
            leads: leads(node_id(node), &views, begin, end),
        }
    });
    (marks.into_iter().map(|(_, mark)| mark).collect(), lanes.collect())
}

/// States of a node, from its status registers and its crashes.
fn states<'a>(
    changes: &[StatusChange],
    turns: impl Iterator<Item = &'a Turn>,
    begin: Instant,
    end: Instant,
) -> Vec<StateSpan> {
    let mut points: Vec<(Instant, NodeState)> =
        changes.iter().map(|change| (change.at, node_state(change.status.state))).collect();
    points.extend(turns.map(|turn| (turn.at, if turn.down { NodeState::Down } else { NodeState::Joining })));
    points.sort_by_key(|(at, _)| *at);
    let mut spans: Vec<StateSpan> = Vec::new();
    let mut current = NodeState::Joining;
    let mut from = begin;
    for (at, state) in points.into_iter().chain([(end, NodeState::Down)]) {
        let at = at.clamp(begin, end);
        if state == current && at < end {
            continue;
        }
        if at > from {
            spans.push(StateSpan {
                from_ns: since_ns(begin, from),
                to_ns: since_ns(begin, at),
                state: current,
            });
        }
        (current, from) = (state, at);
    }
    spans
}

/// Number of partitions that a node leads in each view.
fn leads(node: NodeId, views: &[(Instant, View)], begin: Instant, end: Instant) -> Vec<LeadSpan> {
    let ends = views.iter().skip(1).map(|(at, _)| *at).chain([end]);
    views
        .iter()
        .zip(ends)
        .map(|((from, view), to)| (view, (*from).clamp(begin, end), to.clamp(begin, end)))
        .filter(|(_, from, to)| from < to)
        .map(|(view, from, to)| LeadSpan {
            from_ns: since_ns(begin, from),
            to_ns: since_ns(begin, to),
            epoch: view.epoch.0.into(),
            led: (0..PARTITIONS).filter(|&partition| view.leader(partition) == Some(node)).count() as u32,
            partitions: PARTITIONS,
        })
        .collect()
}
