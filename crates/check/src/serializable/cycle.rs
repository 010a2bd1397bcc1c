//! The shortest cycle in a strongly connected component (a "knot"), and its description.

use std::collections::{BTreeMap, VecDeque};

use super::graph::{Edge, Graph, for_each_dependency};
use super::report::{Anomaly, Dependency, Step, Violation};
use super::settle::Settled;

/// Number of nodes that may be visited for one knot. In a larger knot the cycle found may not be the shortest.
const EFFORT: usize = 20_000_000;

const FAR: u32 = u32::MAX;

/// Finds short cycles in a graph of dependencies.
pub(super) struct Finder<'a> {
    graph: &'a Graph,
    distance: Vec<u32>,
    parent: Vec<u32>,
    touched: Vec<u32>,
    member: Vec<bool>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(graph: &'a Graph) -> Self {
        let nodes = graph.nodes();
        Self {
            graph,
            distance: vec![FAR; nodes],
            parent: vec![FAR; nodes],
            touched: Vec::new(),
            member: vec![false; nodes],
        }
    }

    /// The transactions of a short cycle within the knot, in order.
    pub(super) fn shortest(&mut self, knot: &[u32], real_time: bool) -> Vec<u32> {
        knot.iter().for_each(|&node| self.member[node as usize] = true);
        let mut best: Vec<u32> = Vec::new();
        let mut effort = EFFORT;
        for &root in knot.iter().take_while(|&&node| self.graph.is_transaction(node)) {
            let limit = if best.is_empty() { FAR } else { best.len() as u32 };
            if let Some(found) = self.around(root, real_time, limit, &mut effort) {
                best = found;
            }
            // A cycle has at least two transactions. If the effort is used up, the cycle found so far is returned.
            if best.len() == 2 || (effort == 0 && !best.is_empty()) {
                break;
            }
        }
        knot.iter().for_each(|&node| self.member[node as usize] = false);
        assert!(best.len() > 1, "every transaction of a knot comes before itself");
        best
    }

    /// The shortest cycle through `root`, if it has fewer than `limit` transactions. Nodes for moments in time add
    /// nothing to the length, so the order in real time between two transactions counts as one step.
    fn around(&mut self, root: u32, real_time: bool, limit: u32, effort: &mut usize) -> Option<Vec<u32>> {
        let mut queue = VecDeque::from([root]);
        self.distance[root as usize] = 0;
        self.touched.push(root);
        let mut last = None;
        'search: while let Some(node) = queue.pop_front() {
            let distance = self.distance[node as usize];
            if distance + 1 >= limit {
                break;
            }
            *effort = effort.saturating_sub(1);
            let mut index = 0;
            while let Some(next) = self.graph.successor(node, index, real_time) {
                index += 1;
                if !self.member[next as usize] {
                    continue;
                }
                if next == root {
                    last = Some(node);
                    break 'search;
                }
                let step = u32::from(self.graph.is_transaction(next));
                if distance + step < self.distance[next as usize] {
                    if self.distance[next as usize] == FAR {
                        self.touched.push(next);
                    }
                    self.distance[next as usize] = distance + step;
                    self.parent[next as usize] = node;
                    if step == 0 { queue.push_front(next) } else { queue.push_back(next) }
                }
            }
        }
        let cycle = last.map(|mut node| {
            let mut cycle = Vec::new();
            while node != root {
                if self.graph.is_transaction(node) {
                    cycle.push(node);
                }
                node = self.parent[node as usize];
            }
            cycle.push(root);
            cycle.reverse();
            cycle
        });
        for node in self.touched.drain(..) {
            self.distance[node as usize] = FAR;
        }
        cycle.filter(|cycle| (cycle.len() as u32) < limit)
    }
}

/// Converts cycles to violations: adds the dependency that is the reason for each step.
pub(super) fn describe(settled: &Settled, cycles: &[Vec<u32>]) -> Vec<Violation> {
    let steps = |cycle: &[u32]| -> Vec<(u32, u32)> {
        (0..cycle.len()).map(|index| (cycle[index], cycle[(index + 1) % cycle.len()])).collect()
    };
    // For each step, choose the most telling dependency between the two transactions: one on a write before one on
    // a read.
    let mut reasons: BTreeMap<(u32, u32), Option<Edge>> =
        cycles.iter().flat_map(|cycle| steps(cycle)).map(|step| (step, None)).collect();
    if !reasons.is_empty() {
        for_each_dependency(settled, |edge| {
            if let Some(reason) = reasons.get_mut(&(edge.from, edge.to)) {
                match reason {
                    Some(known) if known.dependency <= edge.dependency => {}
                    _ => *reason = Some(edge),
                }
            }
        });
    }
    let recorded = |node: u32| &settled.transactions[node as usize];
    cycles
        .iter()
        .map(|cycle| {
            let steps: Vec<Step> = steps(cycle)
                .into_iter()
                .map(|(from, to)| {
                    let (dependency, key, before, after) = match reasons[&(from, to)] {
                        Some(edge) => (edge.dependency, edge.key, edge.before, edge.after),
                        None => (Dependency::RealTime, 0, recorded(from).ended, recorded(to).started),
                    };
                    Step { from: recorded(from).id, to: recorded(to).id, dependency, key, before, after }
                })
                .collect();
            Violation::Cycle { anomaly: anomaly(&steps), steps }
        })
        .collect()
}

fn anomaly(steps: &[Step]) -> Anomaly {
    let count = |dependency| steps.iter().filter(|step| step.dependency == dependency).count();
    match (count(Dependency::RealTime), count(Dependency::ReadWrite), count(Dependency::WriteRead)) {
        (1.., _, _) => Anomaly::Stale,
        (0, 0, 0) => Anomaly::DirtyWrite,
        (0, 0, _) => Anomaly::CircularInformationFlow,
        (0, 1, 0) if steps.len() == 2 && steps[0].key == steps[1].key => Anomaly::LostUpdate,
        (0, 1, _) => Anomaly::ReadSkew,
        (0, _, _) => Anomaly::WriteSkew,
    }
}
