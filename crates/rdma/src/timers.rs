//! Timers, one for each queue pair, ordered by deadline.

use weft_time::Instant;

/// Position of a timer that does not run.
const ABSENT: u32 = u32::MAX;

/// A binary heap of deadlines that keeps the position of each queue pair's entry. So a deadline is moved in
/// logarithmic time, and the heap has no stale entries. Its memory is allocated once.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: Vec<(Instant, u32)>,
    places: Vec<u32>,
}

impl Timers {
    pub(crate) fn new(queue_pairs: usize) -> Self {
        Self { heap: Vec::with_capacity(queue_pairs), places: vec![ABSENT; queue_pairs] }
    }

    /// The earliest deadline.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.heap.first().map(|&(at, _)| at)
    }

    /// The queue pair with the earliest deadline, if that is not after `now`.
    pub(crate) fn expired(&self, now: Instant) -> Option<usize> {
        self.heap.first().filter(|&&(at, _)| at <= now).map(|&(_, index)| index as usize)
    }

    /// Sets, moves or (`None`) stops the timer of queue pair `index`.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, at: Option<Instant>) {
        let place = self.places[index];
        match (place, at) {
            (ABSENT, None) => {}
            (ABSENT, Some(at)) => {
                self.heap.push((at, index as u32));
                self.rise(self.heap.len() - 1);
            }
            (place, Some(at)) => {
                let place = place as usize;
                let before = std::mem::replace(&mut self.heap[place].0, at);
                if at < before {
                    self.rise(place);
                } else if at > before {
                    self.sink(place);
                }
            }
            (place, None) => {
                let place = place as usize;
                self.places[index] = ABSENT;
                let last = self.heap.pop().expect("the entry is in the heap");
                if place < self.heap.len() {
                    self.heap[place] = last;
                    self.places[last.1 as usize] = place as u32;
                    self.rise(place);
                    self.sink(self.places[last.1 as usize] as usize);
                }
            }
        }
    }

    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let left = 2 * place + 1;
            let Some(&first) = self.heap.get(left) else { break };
            let (child, smaller) = match self.heap.get(left + 1) {
                Some(&second) if second < first => (left + 1, second),
                _ => (left, first),
            };
            if entry <= smaller {
                break;
            }
            self.put(place, smaller);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Instant, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// After any sequence of settings the earliest deadline is first; of equal deadlines, the one with
        /// the lowest queue pair index.
        #[test]
        fn the_earliest_is_first(settings in prop::collection::vec((0..20usize, prop::option::of(0..50u64)), 1..200)) {
            let mut timers = Timers::new(20);
            let mut model = [None; 20];
            for (index, at) in settings {
                timers.set(index, at.map(Instant::from_ps));
                model[index] = at;
                let first = model.iter().enumerate().filter_map(|(index, at)| at.map(|at| (at, index))).min();
                prop_assert_eq!(timers.first(), first.map(|(at, _)| Instant::from_ps(at)));
                prop_assert_eq!(timers.expired(Instant::FAR_FUTURE), first.map(|(_, index)| index));
                prop_assert_eq!(timers.heap.len(), model.iter().flatten().count());
            }
        }
    }
}
