//! The dependency graph of transactions, and its cycles.

use super::history::{Event, NEVER};
use super::report::Dependency;
use super::settle::{OfKey, Settled};

/// A direct dependency between two different transactions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) dependency: Dependency,
    pub(super) key: u64,
    /// The version that `from` read or wrote, and that of `to`.
    pub(super) before: u64,
    pub(super) after: u64,
}

/// Calls `visit` for each direct dependency. Each write depends on the one before it, so dependencies on earlier
/// writes follow from these.
pub(super) fn for_each_dependency(settled: &Settled, mut visit: impl FnMut(Edge)) {
    settled.for_each_key(|OfKey { key, reads, writes }| {
        let mut edge = |from: &Event, to: &Event, dependency| {
            if from.transaction != to.transaction {
                let (before, after) = (from.version, to.version);
                visit(Edge { from: from.transaction, to: to.transaction, dependency, key, before, after });
            }
        };
        for pair in writes.windows(2) {
            edge(&pair[0], &pair[1], Dependency::WriteWrite);
        }
        let mut before = 0;
        for read in reads {
            while writes.get(before).is_some_and(|write| write.version <= read.version) {
                before += 1;
            }
            if let Some(write) = before.checked_sub(1).map(|index| &writes[index]) {
                edge(write, read, Dependency::WriteRead);
            }
            // If the transaction itself wrote the next version, the write after it depends on its own write.
            if let Some(write) = writes.get(before) {
                edge(read, write, Dependency::ReadWrite);
            }
        }
    });
}

/// Nodes are the transactions, from 0, and behind them the moments at which a transaction ended, in order. A
/// transaction has an edge to the moment of its end. A moment has edges to the next moment, and to the
/// transactions that started after it but not after the next.
pub(super) struct Graph {
    transactions: u32,
    /// For each transaction, the index in `dependents` of its first dependent; then the length of `dependents`.
    offsets: Vec<usize>,
    dependents: Vec<u32>,
    /// For each transaction, its moment, if it ended.
    moments: Vec<Option<u32>>,
    /// The transactions in the order of their starts.
    by_start: Vec<u32>,
    /// For each moment, the index in `by_start` of the first transaction that started after it; then the length of
    /// `by_start`.
    started_after: Vec<u32>,
}

impl Graph {
    pub(super) fn new(settled: &Settled) -> Self {
        let transactions = &settled.transactions;
        let count = transactions.len();
        let mut offsets = vec![0; count + 1];
        for_each_dependency(settled, |edge| offsets[edge.from as usize + 1] += 1);
        for index in 0..count {
            offsets[index + 1] += offsets[index];
        }
        let mut dependents = vec![0; offsets[count]];
        let mut next = offsets.clone();
        for_each_dependency(settled, |edge| {
            let place = &mut next[edge.from as usize];
            dependents[*place] = edge.to;
            *place += 1;
        });

        let all = 0..count as u32;
        let mut by_start: Vec<u32> = all.clone().collect();
        by_start.sort_unstable_by_key(|&node| (transactions[node as usize].started, node));
        let mut by_end: Vec<u32> = all.filter(|&node| transactions[node as usize].ended != NEVER).collect();
        by_end.sort_unstable_by_key(|&node| (transactions[node as usize].ended, node));
        let mut moments = vec![None; count];
        let mut started_after = Vec::with_capacity(by_end.len() + 1);
        let mut started = 0;
        for (moment, &node) in by_end.iter().enumerate() {
            moments[node as usize] = Some(moment as u32);
            let end = transactions[node as usize].ended;
            while by_start.get(started).is_some_and(|&node| transactions[node as usize].started <= end) {
                started += 1;
            }
            started_after.push(started as u32);
        }
        started_after.push(count as u32);
        Self { transactions: count as u32, offsets, dependents, moments, by_start, started_after }
    }

    /// Number of direct dependencies between transactions, without those of real time.
    pub(super) fn dependencies(&self) -> usize {
        self.dependents.len()
    }

    /// Whether a node is a transaction.
    pub(super) fn is_transaction(&self, node: u32) -> bool {
        node < self.transactions
    }

    /// Number of nodes in the graph: transactions, and moments in real time.
    pub(super) fn nodes(&self) -> usize {
        self.transactions as usize + self.started_after.len() - 1
    }

    /// The `index`-th successor of `node`, including those in real time if `real_time`.
    pub(super) fn successor(&self, node: u32, index: usize, real_time: bool) -> Option<u32> {
        if self.is_transaction(node) {
            let node = node as usize;
            let dependents = &self.dependents[self.offsets[node]..self.offsets[node + 1]];
            return match dependents.get(index) {
                Some(&dependent) => Some(dependent),
                None if index == dependents.len() && real_time => {
                    self.moments[node].map(|moment| self.transactions + moment)
                }
                None => None,
            };
        }
        let moment = (node - self.transactions) as usize;
        let (first, end) = (self.started_after[moment] as usize, self.started_after[moment + 1] as usize);
        match (first + index).cmp(&end) {
            std::cmp::Ordering::Less => Some(self.by_start[first + index]),
            std::cmp::Ordering::Equal => Some(node + 1).filter(|&next| (next as usize) < self.nodes()),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// The strongly connected components of more than one node, called knots: each node in one precedes itself
    /// (Tarjan, "Depth-first search and linear graph algorithms", SIAM Journal on Computing 1972). Each is sorted,
    /// so its transactions come first.
    pub(super) fn knots(&self, real_time: bool) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = u32::MAX;
        /// Marks a node that is in a finished component.
        const DONE: u32 = u32::MAX - 1;
        let nodes = if real_time { self.nodes() } else { self.transactions as usize };
        // For each node, the lowest number on the stack that it is known to reach.
        let mut lowest = vec![UNSEEN; nodes];
        let mut stack = Vec::new();
        let mut path: Vec<(u32, usize, u32)> = Vec::new();
        let mut knots = Vec::new();
        let mut numbered = 0;
        for root in 0..nodes as u32 {
            if lowest[root as usize] != UNSEEN {
                continue;
            }
            let mut enter = Some(root);
            loop {
                if let Some(node) = enter.take() {
                    lowest[node as usize] = numbered;
                    path.push((node, 0, numbered));
                    stack.push(node);
                    numbered += 1;
                }
                let Some((node, index, number)) = path.last_mut() else { break };
                if let Some(next) = self.successor(*node, *index, real_time) {
                    *index += 1;
                    match lowest[next as usize] {
                        UNSEEN => enter = Some(next),
                        DONE => {}
                        reached => lowest[*node as usize] = lowest[*node as usize].min(reached),
                    }
                    continue;
                }
                let (node, number) = (*node, *number);
                path.pop();
                let reached = lowest[node as usize];
                if let Some((parent, _, _)) = path.last() {
                    lowest[*parent as usize] = lowest[*parent as usize].min(reached);
                }
                if reached == number {
                    let begin = stack.iter().rposition(|&member| member == node).expect("is on the stack");
                    let mut knot = stack.split_off(begin);
                    knot.iter().for_each(|&member| lowest[member as usize] = DONE);
                    if knot.len() > 1 {
                        knot.sort_unstable();
                        knots.push(knot);
                    }
                }
            }
        }
        knots.sort_unstable();
        knots
    }
}
