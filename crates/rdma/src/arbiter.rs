//! The arbiter, which decides the order in which queue pairs send.

use std::collections::VecDeque;

/// Round-robin arbitration among the queue pairs that have something to send.
///
/// Only active queue pairs are in the list, so idle ones cost nothing.
#[derive(Debug)]
pub(crate) struct Arbiter {
    order: VecDeque<u32>,
    active: Vec<bool>,
}

impl Arbiter {
    pub(crate) fn new(queue_pairs: usize) -> Self {
        Self { order: VecDeque::with_capacity(queue_pairs), active: vec![false; queue_pairs] }
    }

    /// Appends queue pair `index` to the list, unless it is in the list already.
    #[inline]
    pub(crate) fn activate(&mut self, index: usize) {
        if !std::mem::replace(&mut self.active[index], true) {
            self.order.push_back(index as u32);
        }
    }

    /// Removes the first queue pair from the list and returns it.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<usize> {
        let index = self.order.pop_front()? as usize;
        self.active[index] = false;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round_and_nobody_stands_twice_in_line() {
        let mut arbiter = Arbiter::new(3);
        for index in [2, 0, 2, 0] {
            arbiter.activate(index);
        }
        assert_eq!(arbiter.next(), Some(2));
        arbiter.activate(2);
        assert_eq!(arbiter.next(), Some(0));
        assert_eq!(arbiter.next(), Some(2));
        assert_eq!(arbiter.next(), None);
    }
}
