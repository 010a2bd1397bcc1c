//! Reads at a follower that wait for an accepted write to be decided.

use weft_waist::Caller;

use crate::window::NO_READER;

/// A read whose key has an undecided write. The window's entry of that write holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitingRead {
    pub caller: Caller,
    pub client: u64,
    pub request: u64,
    /// The next read that waits for the same entry.
    next: u32,
}

/// A bounded pool of waiting reads, with one linked list per window entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitingReads {
    capacity: usize,
    pool: Vec<WaitingRead>,
    free: Vec<u32>,
}

impl WaitingReads {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, pool: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity) }
    }

    /// Inserts a read at the head of the list that starts at `first`; returns the new head, or `None` if the pool
    /// is full.
    pub fn add(&mut self, first: u32, caller: Caller, client: u64, request: u64) -> Option<u32> {
        let read = WaitingRead { caller, client, request, next: first };
        if let Some(index) = self.free.pop() {
            self.pool[index as usize] = read;
            return Some(index);
        }
        (self.pool.len() < self.capacity).then(|| {
            self.pool.push(read);
            self.pool.len() as u32 - 1
        })
    }

    /// Removes the first read from the list that starts at `first`, and moves `first` to the next.
    pub fn take(&mut self, first: &mut u32) -> Option<WaitingRead> {
        if *first == NO_READER {
            return None;
        }
        let read = self.pool[*first as usize];
        self.free.push(*first);
        *first = read.next;
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_share_a_bounded_pool() {
        let mut waiting = WaitingReads::new(2);
        let mut list = waiting.add(NO_READER, Caller::Host(0), 1, 1).unwrap();
        list = waiting.add(list, Caller::Host(0), 1, 2).unwrap();
        assert_eq!(waiting.add(list, Caller::Host(0), 1, 3), None);
        assert_eq!(waiting.take(&mut list).unwrap().request, 2);
        let mut other = waiting.add(NO_READER, Caller::Host(0), 1, 4).unwrap();
        assert_eq!(waiting.take(&mut list).unwrap().request, 1);
        assert!(waiting.take(&mut list).is_none());
        assert_eq!(waiting.take(&mut other).unwrap().request, 4);
    }
}
