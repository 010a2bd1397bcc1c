//! The undecided part of a stream: entries that are accepted and not yet known to be committed.

use weft_waist::Caller;

use crate::message::{Operation, Status};
use crate::parameters::Parameters;
use crate::table::SlotNumber;

/// Marks the end of a list of waiting reads.
pub(crate) const NO_READER: u32 = u32::MAX;

/// One accepted write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// A ring of entries with their keys and values. In every epoch entries are numbered from 1. Where the hosts keep
/// logs, the ring also has the last committed entries, because another member may lack them after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    /// The most undecided entries in regular operation.
    capacity: usize,
    /// Number of entries in the ring.
    kept: usize,
    /// The number of the oldest entry in the ring; 1 more than the accepted length if there is none.
    first: u64,
    /// The number of the last entry that was put back into the ring.
    put_back: u64,
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
            kept: parameters.kept_entries(),
            first: 1,
            put_back: 0,
            key_field,
            stride,
            committed: 0,
            accepted: 0,
            entries: Vec::with_capacity(parameters.kept_entries()),
            bytes: vec![0; stride * parameters.kept_entries()],
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

    /// Whether the ring has no place for another undecided entry. A member that fetches entries which it lacks may
    /// have more of them than a leader accepts.
    pub fn is_exhausted(&self) -> bool {
        self.accepted - self.committed >= self.kept as u64
    }

    /// Begins a new stream.
    pub fn reset(&mut self) {
        (self.committed, self.accepted, self.first) = (0, 0, 1);
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
        (self.first, self.put_back) = (committed + 1, 0);
        // The next entry may be at any index of the ring, so the ring is filled.
        self.entries.resize(self.kept, UNUSED);
    }

    /// Puts a committed entry back into the ring after [`Window::resume`]. Entries come in order up to the committed
    /// length; those before a gap are useless.
    pub fn put_back(&mut self, number: u64, entry: Entry, key: &[u8], value: &[u8]) {
        if number == 0 || number > self.committed || number + self.kept as u64 <= self.accepted {
            return;
        }
        if self.put_back == 0 || number != self.put_back + 1 {
            self.first = number;
        }
        self.put_back = number;
        self.write(number, entry, key, value);
    }

    fn place(&self, number: u64) -> usize {
        ((number - 1) % self.kept as u64) as usize
    }

    /// Accepts the next entry and returns its number.
    ///
    /// # Panics
    /// If the window is full; check [`Window::is_full`] first.
    pub fn push(&mut self, entry: Entry, key: &[u8], value: &[u8]) -> u64 {
        assert!(!self.is_exhausted(), "the engine asks for room before it accepts");
        self.accepted += 1;
        self.first = self.first.max((self.accepted + 1).saturating_sub(self.kept as u64));
        self.write(self.accepted, entry, key, value);
        self.accepted
    }

    fn write(&mut self, number: u64, entry: Entry, key: &[u8], value: &[u8]) {
        let place = self.place(number);
        // Entries are appended until the ring has been filled once; after that, they are overwritten.
        if place == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[place] = entry;
        }
        let bytes = &mut self.bytes[place * self.stride..][..self.stride];
        bytes[..key.len()].copy_from_slice(key);
        bytes[key.len()..key.len() + value.len()].copy_from_slice(value);
    }

    /// An undecided entry with its key and value.
    ///
    /// # Panics
    /// If entry `number` is already committed, or not accepted.
    pub fn get(&self, number: u64) -> (&Entry, &[u8], &[u8]) {
        assert!(self.committed < number && number <= self.accepted, "entry {number} is not undecided");
        self.at(number)
    }

    fn at(&self, number: u64) -> (&Entry, &[u8], &[u8]) {
        let place = self.place(number);
        let entry = &self.entries[place];
        let (key, rest) = self.bytes[place * self.stride..][..self.stride].split_at(self.key_field);
        (entry, key, &rest[..entry.value_length.into()])
    }

    /// An accepted entry, committed or not, if the ring still has it.
    pub fn kept(&self, number: u64) -> Option<(&Entry, &[u8], &[u8])> {
        (self.first <= number && number <= self.accepted).then(|| self.at(number))
    }

    /// The number of the oldest entry in the ring.
    pub fn first(&self) -> u64 {
        self.first
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
    fn what_a_snapshot_has_kept_is_in_the_ring_again() {
        let parameters = Parameters { window: 2, durable_copies: 1, ..Parameters::default() };
        let mut window = Window::new(&parameters);
        let put_back = |window: &mut Window, numbers: std::ops::RangeInclusive<u64>| {
            for number in numbers {
                window.put_back(number, entry(number), &number.to_be_bytes(), &[number as u8; 3]);
            }
            (window.first()..30).map_while(|number| Some(window.kept(number)?.0.request)).collect::<Vec<_>>()
        };
        window.resume(20);
        assert_eq!(put_back(&mut window, 5..=21), (9..=20).collect::<Vec<_>>(), "the ring has 12 places");
        window.resume(20);
        put_back(&mut window, 10..=14);
        assert_eq!(put_back(&mut window, 16..=20), (16..=20).collect::<Vec<_>>(), "15 is missing");
        window.resume(3);
        window.put_back(1, entry(1), &[0; 8], &[1; 3]);
        assert_eq!(window.first(), 1);
        assert_eq!(window.push(entry(4), &[0; 8], &[4; 3]), 4);
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
