//! The order of events: future events, and deadlines of machines.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use weft_time::Instant;

/// Future events in a total order: by time, and for equal times in the order in which they were scheduled.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    heap: BinaryHeap<Scheduled<T>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Scheduled<T> {
    at: Instant,
    sequence: u64,
    event: T,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0 }
    }

    pub(crate) fn schedule(&mut self, at: Instant, event: T) {
        self.heap.push(Scheduled { at, sequence: self.scheduled, event });
        self.scheduled += 1;
    }

    /// The time of the next event; the far future if there is none.
    pub(crate) fn next_at(&self) -> Instant {
        self.heap.peek().map_or(Instant::FAR_FUTURE, |next| next.at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Instant, T)> {
        self.heap.pop().map(|next| (next.at, next.event))
    }
}

impl<T> Ord for Scheduled<T> {
    /// The earliest event is the greatest, because `BinaryHeap` returns the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<T> PartialOrd for Scheduled<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Scheduled<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Scheduled<T> {}

/// One deadline per machine, in a tournament tree. A machine moves its deadline at almost every event; a heap
/// cannot move entries, and would collect stale ones.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// `nodes[1]` is the earliest deadline. The children of `nodes[i]` are `nodes[2 i]` and `nodes[2 i + 1]`.
    /// The upper half has the machines' own deadlines.
    nodes: Vec<Instant>,
}

impl Deadlines {
    /// Makes room for `machines` machines, and keeps existing deadlines.
    pub(crate) fn resize(&mut self, machines: usize) {
        let leaves = machines.next_power_of_two();
        let kept = self.nodes.split_off(self.nodes.len() / 2);
        self.nodes = vec![Instant::FAR_FUTURE; 2 * leaves];
        for (machine, at) in kept.into_iter().take(machines).enumerate() {
            self.set(machine, at);
        }
    }

    /// Sets a machine's deadline. The far future removes it.
    pub(crate) fn set(&mut self, machine: usize, at: Instant) {
        let mut node = self.nodes.len() / 2 + machine;
        self.nodes[node] = at;
        while node > 1 {
            node /= 2;
            let earliest = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == earliest {
                break;
            }
            self.nodes[node] = earliest;
        }
    }

    /// The earliest deadline and its machine; of equal deadlines, that of the machine with the lowest number.
    pub(crate) fn first(&self) -> Option<(Instant, usize)> {
        let earliest = *self.nodes.get(1)?;
        if earliest == Instant::FAR_FUTURE {
            return None;
        }
        let leaves = self.nodes.len() / 2;
        let mut node = 1;
        while node < leaves {
            node *= 2;
            if self.nodes[node] != earliest {
                node += 1;
            }
        }
        Some((earliest, node - leaves))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_times_keep_the_order_of_scheduling() {
        let mut queue = EventQueue::new();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b')] {
            queue.schedule(Instant::from_ps(at), name);
        }
        assert_eq!(queue.next_at(), Instant::from_ps(1));
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, "abcd");
        assert_eq!(queue.next_at(), Instant::FAR_FUTURE);
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_a_scan(moves in proptest::collection::vec((0usize..11, 0u64..20), 0..100)) {
            let mut tree = Deadlines::default();
            tree.resize(5);
            tree.resize(11);
            let mut model = [Instant::FAR_FUTURE; 11];
            for (machine, at) in moves {
                let at = if at == 0 { Instant::FAR_FUTURE } else { Instant::from_ps(at) };
                tree.set(machine, at);
                model[machine] = at;
                let expected = model.iter().enumerate().map(|(index, &at)| (at, index)).min().unwrap();
                prop_assert_eq!(tree.first(), (expected.0 < Instant::FAR_FUTURE).then_some(expected));
            }
        }
    }
}
