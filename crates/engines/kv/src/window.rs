//! The undecided part of a stream: entries that are accepted and not yet known to be committed.

use weft_waist::Caller;

use crate::message::{Operation, Status};
use crate::parameters::Parameters;
use crate::table::SlotNumber;

/// Marks the end of a list of waiting reads.
pub(crate) const NO_READER: u32 = u32::MAX;

/// One accepted write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub operation: Operation,
    pub status: Status,
    pub client: u64,
    pub request: u64,
    pub version: u64,
    /// The slot of the table that the write claimed; `None` if it changes nothing, or if the node is still
    /// joining.
    pub slot: Option<SlotNumber>,
    /// At the leader, the client to answer.
    pub caller: Option<Caller>,
    /// Index in the pool of [`crate::waiting`] of the first read that waits for this write.
    pub waiting: u32,
    pub value_length: u16,
}

impl Entry {
    /// Whether the entry changes the table.
    pub fn changes(&self) -> bool {
        self.status == Status::Ok
    }
}

/// A ring of entries with their keys and values. In every epoch entries are numbered from 1.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    capacity: usize,
    key_field: usize,
    stride: usize,
    committed: u64,
    accepted: u64,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Window {
    /// The memory is reserved, not touched, so a stream without a leader costs only address space.
    pub fn new(parameters: &Parameters) -> Self {
        let key_field = parameters.key_field();
        let stride = key_field + parameters.value_bytes_max.next_multiple_of(8);
        Self {
            capacity: parameters.window,
            key_field,
            stride,
            committed: 0,
            accepted: 0,
            entries: Vec::with_capacity(parameters.window),
            bytes: vec![0; stride * parameters.window],
        }
    }

    /// Length of the stream that is known to be committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Accepted length of the stream.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether nothing is undecided.
    pub fn is_empty(&self) -> bool {
        self.committed == self.accepted
    }

    /// Whether no further entry fits.
    pub fn is_full(&self) -> bool {
        self.accepted - self.committed >= self.capacity as u64
    }

    /// Begins a new stream.
    pub fn reset(&mut self) {
        (self.committed, self.accepted) = (0, 0);
    }

    /// Continues a stream whose first `committed` entries are committed, and which has no other accepted ones.
    pub fn resume(&mut self, committed: u64) {
        const UNUSED: Entry = Entry {
            operation: Operation::Put,
            status: Status::Ok,
            client: 0,
            request: 0,
            version: 0,
            slot: None,
            caller: None,
            waiting: NO_READER,
            value_length: 0,
        };
        (self.committed, self.accepted) = (committed, committed);
        // The next entry may be at any index of the ring, so the ring is filled.
        self.entries.resize(self.capacity, UNUSED);
    }

    fn place(&self, number: u64) -> usize {
        ((number - 1) % self.capacity as u64) as usize
    }

    /// Accepts the next entry and returns its number.
    ///
    /// # Panics
    /// If the window is full; check [`Window::is_full`] first.
    pub fn push(&mut self, entry: Entry, key: &[u8], value: &[u8]) -> u64 {
        assert!(!self.is_full(), "the engine asks for room before it accepts");
        self.accepted += 1;
        let place = self.place(self.accepted);
        // Entries are appended until the ring has been filled once; after that, they are overwritten.
        if place == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[place] = entry;
        }
        let bytes = &mut self.bytes[place * self.stride..][..self.stride];
        bytes[..key.len()].copy_from_slice(key);
        bytes[key.len()..key.len() + value.len()].copy_from_slice(value);
        self.accepted
    }

    /// An undecided entry with its key and value.
    ///
    /// # Panics
    /// If entry `number` is already committed, or not accepted.
    pub fn get(&self, number: u64) -> (&Entry, &[u8], &[u8]) {
        assert!(self.committed < number && number <= self.accepted, "entry {number} is not undecided");
        let place = self.place(number);
        let entry = &self.entries[place];
        let (key, rest) = self.bytes[place * self.stride..][..self.stride].split_at(self.key_field);
        (entry, key, &rest[..entry.value_length.into()])
    }

    /// As [`Window::get`], to change the entry.
    pub fn entry_mut(&mut self, number: u64) -> &mut Entry {
        assert!(self.committed < number && number <= self.accepted, "entry {number} is not undecided");
        let place = self.place(number);
        &mut self.entries[place]
    }

    /// Marks the oldest undecided entry as committed.
    pub fn commit_next(&mut self) {
        assert!(self.committed < self.accepted, "what is committed was accepted");
        self.committed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(request: u64) -> Entry {
        Entry {
            operation: Operation::Put,
            status: Status::Ok,
            client: 1,
            request,
            version: request,
            slot: None,
            caller: None,
            waiting: NO_READER,
            value_length: 3,
        }
    }

    #[test]
    fn a_ring_of_numbered_entries() {
        let mut window = Window::new(&Parameters { window: 3, ..Parameters::default() });
        for round in 0..5u64 {
            for step in 1..=3 {
                let number = round * 3 + step;
                assert_eq!(window.push(entry(number), &number.to_be_bytes(), &[number as u8; 3]), number);
            }
            assert!(window.is_full());
            for step in 1..=3 {
                let number = round * 3 + step;
                let (entry, key, value) = window.get(number);
                assert_eq!(
                    (entry.request, key, value),
                    (number, &number.to_be_bytes()[..], &[number as u8; 3][..])
                );
                window.commit_next();
            }
            assert!(window.is_empty());
        }
        window.reset();
        assert_eq!(window.push(entry(1), &[0; 8], &[1; 3]), 1);
    }
}
