//! Events of a cluster of processes over time, for reports.

use weft_kv::{PARTITIONS, Role};
use weft_net::{Announcement, Announcer};
use weft_waist::NodeId;

use weft_results::{Lane, LeadSpan, Mark, MarkKind, NodeState, StateSpan};

/// The time at which the process of a node was killed or restarted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    pub node: u32,
    pub down: bool,
}

/// Begin and end of a run, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub begin_ns: u64,
    pub end_ns: u64,
}

impl Span {
    fn contains(self, at_ns: u64) -> bool {
        (self.begin_ns..=self.end_ns).contains(&at_ns)
    }

    /// Time since the beginning of the run, clamped to the run.
    fn place(self, at_ns: u64) -> u64 {
        at_ns.clamp(self.begin_ns, self.end_ns) - self.begin_ns
    }

    /// Divides the run into spans of equal state. `changes` are times with the new state, ascending; empty
    /// spans are left out.
    fn cut<T: Copy + PartialEq>(
        self,
        start: T,
        changes: impl Iterator<Item = (u64, T)>,
    ) -> Vec<(u64, u64, T)> {
        let mut spans: Vec<(u64, u64, T)> = Vec::new();
        let mut add = |from: u64, to: u64, state: T| match spans.last_mut() {
            Some(last) if last.2 == state => last.1 = to,
            _ if to > from => spans.push((from, to, state)),
            _ => {}
        };
        let (mut from, mut state) = (0, start);
        for (at_ns, next) in changes {
            let at = self.place(at_ns);
            add(from, at, state);
            (from, state) = (at, next);
        }
        add(from, self.place(self.end_ns), state);
        spans
    }
}

/// Faults, repairs and view changes within the run.
pub(super) fn marks(announcements: &[Announcement], turns: &[Turn], span: Span) -> Vec<Mark> {
    let views = announcements.iter().filter(|said| said.announcer == Announcer::Membership).map(|said| {
        let view = said.view;
        let label = format!("{}: full {:?}, joining {:?}", view.epoch, view.full, view.joining);
        (said.at_ns, MarkKind::ViewChange, None, label)
    });
    let turns = turns.iter().map(|turn| {
        let (kind, verb) =
            if turn.down { (MarkKind::Fault, "is killed") } else { (MarkKind::Repair, "restarts") };
        (turn.at_ns, kind, Some(turn.node), format!("node{} {verb}", turn.node))
    });
    let mut marks: Vec<Mark> = views
        .chain(turns)
        .filter(|(at_ns, ..)| span.contains(*at_ns))
        .map(|(at_ns, kind, node, label)| Mark { at_ns: span.place(at_ns), kind, node, label })
        .collect();
    marks.sort_by_key(|mark| mark.at_ns);
    marks
}

/// State and leadership of each node over time.
pub(super) fn lanes(nodes: u32, announcements: &[Announcement], turns: &[Turn], span: Span) -> Vec<Lane> {
    (0..nodes)
        .map(|index| {
            let node = NodeId::new(index as usize).expect("a cluster has at most 16 nodes");
            Lane {
                name: format!("node{index}"),
                states: states(node, announcements, turns, span),
                leads: leads(node, announcements, span),
            }
        })
        .collect()
}

fn states(node: NodeId, announcements: &[Announcement], turns: &[Turn], span: Span) -> Vec<StateSpan> {
    let said = announcements.iter().filter_map(|said| match said.announcer {
        Announcer::Node(speaker, role) if speaker == node => {
            let state = match role {
                Role::Full => NodeState::Serving,
                Role::Joining | Role::Sealed => NodeState::Joining,
                Role::Outside | Role::Lost => NodeState::Fenced,
            };
            Some((said.at_ns, state))
        }
        _ => None,
    });
    let turns = turns.iter().filter(|turn| turn.node as usize == node.index());
    let turned = turns.map(|turn| (turn.at_ns, if turn.down { NodeState::Down } else { NodeState::Joining }));
    let mut changes: Vec<(u64, NodeState)> = said.chain(turned).collect();
    changes.sort_by_key(|(at_ns, _)| *at_ns);
    span.cut(NodeState::Joining, changes.into_iter())
        .into_iter()
        .map(|(from_ns, to_ns, state)| StateSpan { from_ns, to_ns, state })
        .collect()
}

fn leads(node: NodeId, announcements: &[Announcement], span: Span) -> Vec<LeadSpan> {
    let views = announcements.iter().filter(|said| said.announcer == Announcer::Membership);
    let changes = views.map(|said| {
        let leads = |partition: &u32| said.view.leader(*partition) == Some(node);
        let led = (0..PARTITIONS).filter(leads).count() as u32;
        (said.at_ns, (u64::from(said.view.epoch.0), led))
    });
    span.cut((0, 0), changes)
        .into_iter()
        .filter(|(_, _, (epoch, _))| *epoch > 0)
        .map(|(from_ns, to_ns, (epoch, led))| LeadSpan { from_ns, to_ns, epoch, led, partitions: PARTITIONS })
        .collect()
}

#[cfg(test)]
mod tests {
    use weft_waist::{Epoch, NodeSet, View};

    use super::*;

    fn node(index: usize) -> NodeId {
        NodeId::new(index).unwrap()
    }

    #[test]
    fn a_killed_node_leads_nothing_until_it_is_back() {
        let view = |epoch, nodes: &[usize], joining: &[usize]| View {
            epoch: Epoch(epoch),
            full: nodes.iter().map(|&index| node(index)).collect(),
            joining: joining.iter().map(|&index| node(index)).collect::<NodeSet>(),
        };
        let views = [
            (50, view(1, &[0, 1], &[])),
            (140, view(2, &[0], &[])),
            (170, view(3, &[0], &[1])),
            (180, view(4, &[0, 1], &[])),
        ];
        let mut said: Vec<Announcement> = views
            .iter()
            .map(|&(at_ns, view)| Announcement { announcer: Announcer::Membership, view, at_ns })
            .collect();
        for (at_ns, view, role) in
            [(60, views[0].1, Role::Full), (171, views[2].1, Role::Joining), (181, views[3].1, Role::Full)]
        {
            said.push(Announcement { announcer: Announcer::Node(node(1), role), view, at_ns });
        }
        said.sort_by_key(|said| said.at_ns);
        let turns = [Turn { at_ns: 120, node: 1, down: true }, Turn { at_ns: 160, node: 1, down: false }];
        let span = Span { begin_ns: 100, end_ns: 200 };

        let labels: Vec<(u64, String)> =
            marks(&said, &turns, span).into_iter().map(|mark| (mark.at_ns, mark.label)).collect();
        let expected = [
            (20, "node1 is killed"),
            (40, "epoch 2: full {0}, joining {}"),
            (60, "node1 restarts"),
            (70, "epoch 3: full {0}, joining {1}"),
            (80, "epoch 4: full {0, 1}, joining {}"),
        ];
        assert_eq!(labels, expected.map(|(at, label)| (at, label.to_owned())));

        let lane = &lanes(2, &said, &turns, span)[1];
        let states: Vec<_> = lane.states.iter().map(|span| (span.from_ns, span.to_ns, span.state)).collect();
        assert_eq!(
            states,
            [
                (0, 20, NodeState::Serving),
                (20, 60, NodeState::Down),
                (60, 81, NodeState::Joining),
                (81, 100, NodeState::Serving)
            ]
        );
        let leads: Vec<_> = lane.leads.iter().map(|span| (span.from_ns, span.epoch, span.led)).collect();
        assert_eq!(leads, [(0, 1, PARTITIONS / 2), (40, 2, 0), (70, 3, 0), (80, 4, PARTITIONS / 2)]);
    }
}
