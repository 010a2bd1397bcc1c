//! Requests that arrived beyond a gap. They are kept until the missing ones have arrived.
//!
//! All queue pairs of a NIC share one pool of entries, which is allocated with the NIC. The packets kept for
//! a queue pair form a list in the order of their PSNs. No byte of a packet is stored before its turn:
//! programs poll memory, so bytes must not become visible before bytes that were sent earlier.

use weft_wire::roce::{AtomicEth, Bth, Packet, Reth};

/// Index of no entry.
const NONE: u32 = u32::MAX;

/// Payload bytes that each entry is allocated with: the longest path MTU.
const PAYLOAD_BYTES: usize = 4_096;

/// A request that is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    bth: Bth,
    reth: Option<Reth>,
    atomic: Option<AtomicEth>,
    immediate: Option<u32>,
    payload: Vec<u8>,
}

impl Kept {
    /// The packet, as it arrived.
    pub(crate) fn packet(&self) -> Packet<'_> {
        Packet {
            reth: self.reth,
            atomic: self.atomic,
            immediate: self.immediate,
            ..Packet::new(self.bth, &self.payload)
        }
    }
}

#[derive(Debug)]
struct Place {
    /// The next entry of the same queue pair, or the next free entry.
    next: u32,
    sequence: u64,
    kept: Option<Kept>,
    /// The buffer, while the entry is free.
    spare: Vec<u8>,
}

/// The entries of all queue pairs of one NIC.
#[derive(Debug)]
pub(crate) struct ReorderPool {
    places: Vec<Place>,
    free: u32,
}

impl ReorderPool {
    /// A pool of `places` entries; without entries, no packets are kept.
    pub(crate) fn new(places: usize) -> Self {
        let place = |index: usize| Place {
            next: if index + 1 < places { index as u32 + 1 } else { NONE },
            sequence: 0,
            kept: None,
            spare: Vec::with_capacity(PAYLOAD_BYTES),
        };
        Self { places: (0..places).map(place).collect(), free: if places == 0 { NONE } else { 0 } }
    }

    fn next(&self, place: u32) -> u32 {
        self.places[place as usize].next
    }

    fn sequence(&self, place: u32) -> u64 {
        self.places[place as usize].sequence
    }
}

/// The packets that are kept for one queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reorder {
    first: u32,
    last: u32,
}

impl Reorder {
    pub(crate) const fn new() -> Self {
        Self { first: NONE, last: NONE }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Whether the packet is kept.
    pub(crate) fn holds(&self, sequence: u64, pool: &ReorderPool) -> bool {
        let mut at = self.first;
        while at != NONE && pool.sequence(at) < sequence {
            at = pool.next(at);
        }
        at != NONE && pool.sequence(at) == sequence
    }

    /// Sequence number of the first packet that is kept.
    fn first(&self, pool: &ReorderPool) -> Option<u64> {
        (self.first != NONE).then(|| pool.sequence(self.first))
    }

    /// Keeps a packet, unless it is kept already. Returns whether it is kept now.
    pub(crate) fn keep(&mut self, sequence: u64, packet: &Packet<'_>, pool: &mut ReorderPool) -> bool {
        // Usually the packet follows all others.
        let mut before = NONE;
        if self.last != NONE && pool.sequence(self.last) <= sequence {
            before = self.last;
        } else {
            let mut at = self.first;
            while at != NONE && pool.sequence(at) <= sequence {
                (before, at) = (at, pool.next(at));
            }
        }
        if before != NONE && pool.sequence(before) == sequence {
            return true;
        }
        if pool.free == NONE || packet.payload.len() > PAYLOAD_BYTES {
            return false;
        }
        let index = pool.free;
        let behind = if before == NONE { self.first } else { pool.next(before) };
        let place = &mut pool.places[index as usize];
        pool.free = place.next;
        let mut payload = std::mem::take(&mut place.spare);
        payload.clear();
        payload.extend_from_slice(packet.payload);
        place.kept = Some(Kept {
            bth: packet.bth,
            reth: packet.reth,
            atomic: packet.atomic,
            immediate: packet.immediate,
            payload,
        });
        place.sequence = sequence;
        place.next = behind;
        if before == NONE {
            self.first = index;
        } else {
            pool.places[before as usize].next = index;
        }
        if behind == NONE {
            self.last = index;
        }
        true
    }

    /// Removes the packet `expected` and returns it. Packets with lower sequence numbers are dropped.
    pub(crate) fn take(&mut self, expected: u64, pool: &mut ReorderPool) -> Option<(u32, Kept)> {
        while self.first(pool)? < expected {
            let (place, kept) = self.pop(pool);
            self.give_back(place, kept, pool);
        }
        (self.first(pool)? == expected).then(|| self.pop(pool))
    }

    /// Frees the entry of a packet that was taken out.
    pub(crate) fn give_back(&self, place: u32, kept: Kept, pool: &mut ReorderPool) {
        let free = pool.free;
        let entry = &mut pool.places[place as usize];
        entry.spare = kept.payload;
        entry.next = free;
        pool.free = place;
    }

    /// Drops all packets.
    pub(crate) fn clear(&mut self, pool: &mut ReorderPool) {
        while !self.is_empty() {
            let (place, kept) = self.pop(pool);
            self.give_back(place, kept, pool);
        }
    }

    fn pop(&mut self, pool: &mut ReorderPool) -> (u32, Kept) {
        let index = self.first;
        let place = &mut pool.places[index as usize];
        self.first = place.next;
        if self.first == NONE {
            self.last = NONE;
        }
        (index, place.kept.take().expect("a place in a list holds a packet"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_wire::roce::{Congestion, Opcode};

    use super::*;

    fn bth(psn: u32) -> Bth {
        Bth {
            opcode: Opcode::SendOnly,
            solicited: false,
            migration: true,
            pad: 0,
            partition_key: 0xffff,
            congestion: Congestion::default(),
            destination: 2,
            acknowledge: false,
            psn,
        }
    }

    proptest! {
        /// Two queue pairs with one pool keep the same packets as a sorted map, and every entry is freed.
        #[test]
        fn packets_come_out_in_order_and_once(steps in prop::collection::vec((0..2usize, 0..40u64, 0..8u8), 1..200)) {
            const PLACES: usize = 6;
            let mut pool = ReorderPool::new(PLACES);
            let mut lists = [Reorder::new(); 2];
            let mut models = [const { std::collections::BTreeMap::new() }; 2];
            for (list, sequence, step) in steps {
                let used: usize = models.iter().map(std::collections::BTreeMap::len).sum();
                match step {
                    0..6 => {
                        let payload = vec![step; sequence as usize];
                        let packet = Packet::new(bth(sequence as u32), &payload);
                        let kept = lists[list].keep(sequence, &packet, &mut pool);
                        prop_assert_eq!(kept, used < PLACES || models[list].contains_key(&sequence));
                        if kept {
                            models[list].entry(sequence).or_insert(payload);
                        }
                    }
                    6 => {
                        models[list].retain(|&at, _| at >= sequence);
                        let expected = models[list].remove(&sequence);
                        let found = lists[list].take(sequence, &mut pool);
                        let payload = found.as_ref().map(|(_, kept)| kept.packet().payload.to_vec());
                        prop_assert_eq!(payload, expected);
                        if let Some((place, kept)) = found {
                            lists[list].give_back(place, kept, &mut pool);
                        }
                    }
                    _ => {
                        lists[list].clear(&mut pool);
                        models[list].clear();
                    }
                }
                prop_assert_eq!(lists[list].first(&pool), models[list].keys().next().copied());
                prop_assert_eq!(lists[list].holds(sequence, &pool), models[list].contains_key(&sequence));
            }
        }
    }

    #[test]
    fn without_places_nothing_is_kept() {
        let mut pool = ReorderPool::new(0);
        assert!(!Reorder::new().keep(5, &Packet::new(bth(5), &[]), &mut pool));
    }
}
