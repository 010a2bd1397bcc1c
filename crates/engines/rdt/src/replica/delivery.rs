//! Other replicas' non-conflicting calls: how summaries are applied and ring entries delivered.

use weft_smr::Delivery;
use weft_waist::{Io, Memory};

use super::Replica;
use super::layout::{COUNT_MAX, Entry, SUMMARY_BYTES, Summary};
use super::observer::Observer;
use super::parameters::Path;

impl<W: Observer> Replica<W> {
    /// The index of a summary among those of its origin; `None` if its origin, method or slot does not exist.
    pub(super) fn place_of(&self, summary: &Summary) -> Option<usize> {
        let (origin, method) = (usize::from(summary.origin), usize::from(summary.method));
        let known = origin < self.parameters.nodes && self.state.paths.get(method) == Some(&Path::Summary);
        let shape = if known { self.state.kind.summary(method) } else { None };
        let slots = shape.map_or(0, |shape| shape.slots);
        ((summary.slot as usize) < slots).then(|| self.layout.place(method, summary.slot as usize))
    }

    /// Applies a summary if it is newer than the one applied before in its slot. Its `complete` count is used
    /// in any case, since an earlier copy from another peer does not have that count.
    pub(super) fn take_in(&mut self, summary: &Summary) {
        let Some(place) = self.place_of(summary) else {
            self.state.counters.malformed += 1;
            return;
        };
        let place = usize::from(summary.origin) * self.layout.slots + place;
        let here = &self.state.absorbed[place];
        let is_newer = summary.count > here.count;
        // A summary that shrinks or is out of range cannot be a later one of that slot, whoever wrote it.
        let (method, slot) = (usize::from(summary.method), summary.slot as usize);
        let is_plausible = summary.complete <= summary.count
            && summary.count <= COUNT_MAX
            && (!is_newer || self.state.kind.extends(method, slot, &here.words, &summary.words));
        if !is_plausible {
            self.state.counters.malformed += 1;
            return;
        }
        if is_newer {
            self.state.absorb(summary, place);
        }
        self.state.complete(usize::from(summary.origin), summary.complete);
    }

    /// A peer has written a summary and notifies this replica.
    pub(super) fn summary_came(&mut self, payload: &[u8]) {
        match Summary::parse(payload) {
            Some(summary) if usize::from(summary.origin) != self.me() => {
                self.take_in(&summary);
                self.state.tell_absorbed(usize::from(summary.origin) % weft_smr::NODES_MAX);
            }
            _ => self.state.counters.malformed += 1,
        }
    }

    /// Reads the summaries of all other origins from memory.
    pub(super) fn scan(&mut self, io: &mut Io<'_>) {
        if self.layout.slots == 0 {
            return;
        }
        for origin in self.others() {
            self.scan_of(origin, io);
            self.state.tell_absorbed(origin);
        }
    }

    /// Reads the summaries of some other origins from memory, as many as the parameters allow, in rotation.
    pub(super) fn scan_some(&mut self, io: &mut Io<'_>) {
        let others = self.parameters.nodes - 1;
        let slots = self.layout.slots.max(1);
        if self.parameters.scan / slots >= others {
            self.scan(io);
            return;
        }
        for _ in 0..(self.parameters.scan / slots).max(1) {
            self.scanned = (self.scanned + 1) % self.parameters.nodes;
            if self.scanned == self.me() {
                self.scanned = (self.scanned + 1) % self.parameters.nodes;
            }
            self.scan_of(self.scanned, io);
            self.state.tell_absorbed(self.scanned);
        }
    }

    /// Reads all summaries of an origin from memory.
    pub(super) fn scan_of(&mut self, origin: usize, io: &mut Io<'_>) {
        io.memory.read(self.layout.summary(origin, 0), self.layout.summaries_bytes());
        for place in 0..self.layout.slots {
            let at = self.layout.summary(origin, place);
            let summary = Summary::parse(&io.memory.image()[at..at + SUMMARY_BYTES]);
            if let Some(summary) = summary
                && (summary.count > self.state.absorbed[origin * self.layout.slots + place].count
                    || summary.complete > self.state.summaries[origin])
            {
                if usize::from(summary.origin) == origin && self.place_of(&summary) == Some(place) {
                    self.take_in(&summary);
                } else {
                    self.state.counters.malformed += 1;
                }
            }
        }
    }

    /// Reads the next entries of an origin's ring from memory, and delivers those that have arrived.
    pub(super) fn look_into_ring(&mut self, origin: usize, io: &mut Io<'_>) {
        let at = self.layout.entry(origin, self.state.entries[origin] + 1);
        io.memory.read(at, self.layout.entry_bytes());
        while self.deliver_next(origin, io.memory) {
            let at = self.layout.entry(origin, self.state.entries[origin] + 1);
            io.memory.read(at, self.layout.entry_bytes());
        }
    }

    /// Delivers entries of a ring as long as their dependencies have taken effect. Charges no memory access:
    /// a card keeps entries that came by RPC on chip, and so the next entry of each ring once it has read it.
    pub(super) fn deliver_ring(&mut self, origin: usize, memory: &mut Memory) {
        let is_known = |replica: &Self| {
            replica.parameters.entries == Delivery::WriteThrough
                || replica.state.joining
                || !replica.is_alive(origin)
        };
        while is_known(self) && self.deliver_next(origin, memory) {}
    }

    pub(super) fn deliver_next(&mut self, origin: usize, memory: &Memory) -> bool {
        let number = self.state.entries[origin] + 1;
        let at = self.layout.entry(origin, number);
        let bytes = &memory.image()[at..at + self.layout.entry_bytes()];
        let Some(entry) = Entry::parse(bytes, number, &self.layout) else { return false };
        if usize::from(entry.origin) != origin {
            self.state.counters.malformed += 1;
            return false;
        }
        let delivered = self.state.deliver(&entry);
        self.state.counters.blocked += u64::from(!delivered);
        delivered
    }
}

#[cfg(test)]
mod tests {
    use weft_time::Instant;
    use weft_waist::Effects;

    use super::*;
    use crate::replica::vector::Vector;
    use crate::replica::{Phase, ReplicaParameters, SCANNED_MAX, Summaries};
    use crate::{Bounds, MethodSet, Type};

    /// A joining node has copied a call of its own former incarnation. The calls that it depends on arrive
    /// later, from their origin. Nothing else arrives then that would make the node examine its own ring, and
    /// without the call it does not become full.
    #[test]
    fn a_joining_replica_applies_its_own_calls_after_their_dependencies() {
        let kind = Type::shipped("2p-set", &Bounds::uniform(4)).unwrap();
        let [insert, remove] = ["insert", "remove"].map(|name| kind.definition().method(name).unwrap());
        let parameters = ReplicaParameters { reduce: MethodSet::EMPTY, ..ReplicaParameters::new(kind, 3) };
        let mut replica: Replica = Replica::new(parameters);
        let mut memory = Memory::new(replica.parameters.memory_bytes());
        (replica.phase, replica.state.joining) = (Phase::Joining, true);
        let mut write = |origin: usize, method: usize, depends: Vector| {
            let entry = Entry {
                number: 1,
                origin: origin as u8,
                method: method as u8,
                incarnation: 1,
                sequence: 1,
                arguments: [1, 0, 0, 0],
                depends,
            };
            let at = replica.layout.entry(origin, 1);
            let mut bytes = vec![0; replica.layout.entry_bytes()];
            entry.write(&mut bytes, &replica.layout);
            memory.write(at, &bytes);
            replica.state.moved = true;
            replica.settle(Instant::ZERO, &mut Io { effects: &mut Effects::default(), memory: &mut memory });
            [replica.state.entries[0], replica.state.entries[1]]
        };
        let mut depends = Vector::default();
        depends.entries[1] = 1;
        assert_eq!(write(0, remove, depends), [0, 0]);
        assert_eq!(write(1, insert, Vector::default()), [1, 1]);
    }

    /// A malformed summary of a peer is counted, changes nothing and stops nothing.
    #[test]
    fn a_summary_that_cannot_follow_is_refused() {
        let kind = Type::shipped("g-counter", &Bounds::uniform(4)).unwrap();
        let mut replica: Replica = Replica::new(ReplicaParameters::new(kind, 3));
        let summary =
            Summary { count: 1, complete: 1, origin: 1, method: 0, slot: 0, words: [5, 0], incarnation: 1 };
        replica.summary_came(&summary.encode());
        assert_eq!(replica.state.object.query(0, &Default::default()), 5);
        let wrong = [
            Summary { count: 2, words: [4, 0], ..summary },
            Summary { count: 2, words: [i64::MAX, 0], ..summary },
            Summary { count: 2, words: [-1, 0], ..summary },
            Summary { count: 2, method: 1, ..summary },
            Summary { count: 2, slot: 1, ..summary },
            Summary { count: 2, origin: 3, ..summary },
            Summary { count: 2, complete: 3, ..summary },
            Summary { count: 1 << 32, ..summary },
        ];
        for (refused, summary) in (1..).zip(wrong) {
            replica.summary_came(&summary.encode());
            assert_eq!(replica.state.counters.malformed, refused, "{summary:?}");
            assert_eq!(replica.state.object.query(0, &Default::default()), 5, "{summary:?}");
        }
        replica.summary_came(&Summary { count: 2, words: [7, 0], ..summary }.encode());
        assert_eq!(replica.state.object.query(0, &Default::default()), 7);
    }

    /// A poll does not read more memory if there are more nodes, and polls read the summaries of all origins
    /// in rotation.
    #[test]
    fn a_look_at_many_nodes_takes_no_longer() {
        for nodes in 3..=8 {
            let kind = Type::shipped("pn-set", &Bounds::uniform(32)).unwrap();
            let parameters = ReplicaParameters {
                summaries: Summaries::Buffered,
                entries: Delivery::WriteThrough,
                ..ReplicaParameters::new(kind, nodes)
            };
            let mut memory = Memory::new(parameters.memory_bytes());
            let mut replica: Replica = Replica::new(parameters);
            assert_eq!(replica.layout.slots, SCANNED_MAX);
            for origin in 1..nodes {
                let summary = Summary {
                    count: 1,
                    complete: 1,
                    origin: origin as u8,
                    words: [1, 0],
                    ..Summary::default()
                };
                let at = replica.layout.summary(origin, 0);
                memory.image_mut()[at..at + SUMMARY_BYTES].copy_from_slice(&summary.encode());
            }
            for look in 1..nodes {
                let mut effects = Effects::default();
                replica.poll(Instant::ZERO, &mut Io { effects: &mut effects, memory: &mut memory });
                let read = memory.take_accesses();
                assert_eq!(
                    (read.reads, read.bytes),
                    (1, (SCANNED_MAX * SUMMARY_BYTES) as u64),
                    "look {look}"
                );
                assert_eq!(replica.state.summaries.iter().sum::<u64>(), look as u64, "{nodes} nodes");
            }
        }
    }

    /// A copy from another peer may arrive before the origin's own summary. The `complete` count of the
    /// latter still counts.
    #[test]
    fn what_is_complete_counts_after_a_copy_too() {
        let kind = Type::shipped("g-counter", &Bounds::uniform(4)).unwrap();
        let mut replica: Replica = Replica::new(ReplicaParameters::new(kind, 3));
        let summary =
            Summary { count: 3, complete: 3, origin: 1, method: 0, slot: 0, words: [5, 0], incarnation: 1 };
        replica.take_in(&Summary { complete: 0, ..summary });
        assert_eq!((replica.state.absorbed[replica.layout.slots].count, replica.state.summaries[1]), (3, 0));
        replica.summary_came(&summary.encode());
        assert_eq!(replica.state.summaries[1], 3);
        assert_eq!(replica.state.object.query(0, &Default::default()), 5);
    }
}
