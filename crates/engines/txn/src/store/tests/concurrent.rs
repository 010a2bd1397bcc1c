//! A reader that sees each line at a different moment, while the host changes the table.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;

/// Memory that records every write of a line.
#[derive(Clone)]
struct Recorded {
    bytes: Vec<u8>,
    writes: Vec<(u64, Vec<u8>)>,
}

impl Lines for Recorded {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let line = LINE as u64;
        assert_eq!(at / line, (at + bytes.len() as u64 - 1) / line, "a write stays within a line");
        self.writes.push((at, bytes.to_vec()));
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// Variants of how host and reader behave.
#[derive(Clone, Copy, Debug)]
struct Conduct {
    /// Whether the host starts each change at the free slot.
    from_free_end: bool,
    /// Whether the reader compares the stamps between neighbouring slots.
    seams: bool,
    /// Whether the reader compares the stamps of a record's lines.
    stamps: bool,
    /// Whether all lines of a read are seen at one moment.
    at_once: bool,
}

/// The behaviour as documented.
const RIGHT: Conduct = Conduct { from_free_end: true, seams: true, stamps: true, at_once: false };

/// A table, a list of changes as line writes, and the possible states of each key during them.
struct Scene {
    layout: Layout,
    /// The memory after each write.
    states: Vec<Vec<u8>>,
    /// For each change, the index of its last write, and the objects afterwards. The first item is the
    /// initial state.
    moments: Vec<(usize, Model)>,
    hints: Vec<Index<u64>>,
}

impl Scene {
    fn new(shape: Shape, before: &[Operation], changes: &[Operation], conduct: Conduct) -> Self {
        let layout = Layout::new(shape).unwrap();
        let mut memory = Recorded { bytes: vec![0; layout.bytes() as usize], writes: Vec::new() };
        let (mut table, mut model, mut version) = (Table::new(layout), Model::new(), 0);
        for &operation in before {
            version += 1;
            apply(&mut table, &mut memory, &mut model, operation, version);
        }
        let hints = [Precision::Highest, Precision::Runs].map(|precision| {
            let parameters = IndexParameters { precision, ahead: 0, entries: 1, value_bytes_max: VALUE };
            let mut index = Index::new(layout, parameters);
            for segment in 0..layout.segments() {
                index.report(&table.report(&memory.bytes, segment, precision));
            }
            index
        });
        let (mut states, mut moments) = (vec![memory.bytes.clone()], vec![(0, model.clone())]);
        for &operation in changes {
            version += 1;
            memory.writes.clear();
            apply(&mut table, &mut memory, &mut model, operation, version);
            if !conduct.from_free_end {
                memory.writes.reverse();
            }
            for (at, bytes) in memory.writes.drain(..) {
                let mut state = states.last().unwrap().clone();
                state[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                states.push(state);
            }
            // Also records the state after the whole change.
            states.push(memory.bytes.clone());
            moments.push((states.len() - 1, model.clone()));
        }
        Self { layout, states, moments, hints: hints.into() }
    }

    /// The states that `key` may have had between the start of the scene and the write `until`.
    fn possible(&self, key: Key, until: usize) -> Vec<Object> {
        let over = self.moments.partition_point(|&(end, _)| end < until);
        self.moments[..=over.min(self.moments.len() - 1)]
            .iter()
            .map(|(_, model)| model.get(&key).cloned())
            .collect()
    }

    /// A look-up that starts with the scene. `None` if it still restarted long after the last change.
    fn look_up(
        &self,
        random: &mut Xoshiro256PlusPlus,
        key: Key,
        hint: Hint,
        conduct: Conduct,
    ) -> Option<(Object, usize)> {
        let mut below = |bound: usize| (random.next_u64() % bound as u64) as usize;
        let mut buffer = [0; VALUE];
        let (mut lookup, mut region) = Lookup::new(&self.layout, key, hint);
        let mut now = 0;
        for _ in 0..200 {
            let until = now + below(self.states.len() - now);
            let mut bytes = vec![0; region.length];
            let mut at = region.at;
            while at < region.at + region.length as u64 {
                let end = (at / LINE as u64 + 1) * LINE as u64;
                let end = end.min(region.at + region.length as u64);
                let moment = if conduct.at_once { until } else { now + below(until - now + 1) };
                let state = &self.states[moment];
                let there = (at - region.at) as usize..(end - region.at) as usize;
                bytes[there].copy_from_slice(&state[at as usize..end as usize]);
                at = end;
            }
            self.overlook(conduct, region, &mut bytes);
            now = until;
            match lookup.take(&self.layout, &bytes, &mut buffer) {
                Next::Read(next) => region = next,
                Next::Found(version, length) => {
                    return Some((Some((version, buffer[..length].to_vec())), now));
                }
                Next::Absent => return Some((None, now)),
            }
        }
        None
    }

    /// Alters the bytes so that the reader cannot see the stamps that `conduct` tells it to ignore.
    fn overlook(&self, conduct: Conduct, region: Region, bytes: &mut [u8]) {
        let slot_bytes = self.layout.shape().slot_bytes;
        let is_slots = region.objects > 0 && region.length == region.objects as usize * slot_bytes;
        if !is_slots {
            return;
        }
        for record in bytes.chunks_exact_mut(slot_bytes) {
            if !conduct.seams {
                record[18..22].fill(0);
            }
            if !conduct.stamps {
                let stamp = [record[16], record[17]];
                record.chunks_mut(LINE).skip(1).for_each(|line| line[..2].copy_from_slice(&stamp));
            }
        }
    }
}

/// Plays random scenes. Returns the number of look-ups with a result that was never true, and the number of
/// all look-ups.
fn wrong(conduct: Conduct, scenes: u32) -> (u32, u32) {
    let (mut wrong, mut lookups) = (0, 0);
    for seed in 0..scenes {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed.into());
        let mut below = |bound: u64| random.next_u64() % bound;
        let shape = Shape {
            slots: 24,
            segment_slots: [1, 4, 8][below(3) as usize],
            displacement: [Some(4), Some(8), None][below(3) as usize],
            slot_bytes: [32, 64, 128][below(3) as usize],
            pages: 4,
            page_slots: 2,
            blocks: 6,
            value_bytes_max: VALUE,
        };
        let keys = 34;
        let mut operation = |puts: u64| {
            let length = [0, 5, 8, 40, 90, 200][below(6) as usize];
            if below(4) < puts {
                Operation::Put { key: below(keys), length }
            } else {
                Operation::Remove { key: below(keys) }
            }
        };
        let before: Vec<_> = (0..90).map(|_| operation(3)).collect();
        let changes: Vec<_> = (0..4).map(|_| operation(2)).collect();
        let scene = Scene::new(shape, &before, &changes, conduct);
        for number in 0..keys {
            let hints = scene.hints.iter().map(|index| index.hint(key(number))).chain([Hint::NONE]);
            for hint in hints {
                for _ in 0..6 {
                    let Some((found, until)) = scene.look_up(&mut random, key(number), hint, conduct) else {
                        panic!("a lookup ends when the table rests");
                    };
                    lookups += 1;
                    wrong += u32::from(!scene.possible(key(number), until).contains(&found));
                }
            }
        }
    }
    (wrong, lookups)
}

#[test]
fn a_reader_never_misses_an_object_nor_sees_a_torn_one() {
    let (wrong, lookups) = wrong(RIGHT, 400);
    assert!(lookups > 200_000, "{lookups}");
    assert_eq!(wrong, 0);
}

/// The purpose of the write order. With it, a reader that sees all lines of a read at one moment must compare
/// stamps only between two reads of the same look-up.
#[test]
fn the_order_of_writes_keeps_an_object_in_sight() {
    let at_once = Conduct { seams: false, at_once: true, ..RIGHT };
    let backwards = Conduct { from_free_end: false, ..at_once };
    let (right, backwards) = (wrong(at_once, 60).0, wrong(backwards, 60).0);
    assert!(right < 8 && backwards > 20 * right.max(1), "{right} {backwards}");
}

#[test]
fn a_reader_without_seams_is_caught() {
    assert!(wrong(Conduct { seams: false, ..RIGHT }, 60).0 > 0);
}

#[test]
fn a_reader_without_stamps_is_caught() {
    assert!(wrong(Conduct { stamps: false, ..RIGHT }, 60).0 > 0);
}
