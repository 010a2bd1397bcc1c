//! Numbers of queue pairs and keys of regions, assigned alike by every NIC so that twins agree.

use weft_verbs::{QueuePairNumber, RegionKeys};
use weft_wire::roce::MASK_24;

/// Bits that tell `places` places apart.
const fn bits_of(places: usize) -> u32 {
    usize::BITS - places.saturating_sub(1).leading_zeros()
}

/// Numbers of queue pairs.
///
/// A number is `generation << index_bits | index`: the index finds the queue pair without a search, and the generation
/// makes the numbers of queue pairs that follow each other in one place differ, so that packets of an earlier
/// connection do not reach a later one.
#[derive(Debug)]
pub struct QueuePairNumbers {
    generations: Vec<u32>,
    free: Vec<u32>,
    index_bits: u32,
}

impl QueuePairNumbers {
    /// For at most `places` queue pairs, 1 to 65,536.
    pub fn new(places: usize) -> Self {
        Self::with_index_bits(places, bits_of(places))
    }

    /// As [`QueuePairNumbers::new`], with an index of more bits than `places` need, as a table of fixed size has it.
    ///
    /// # Panics
    /// If the bits are too few for the places, or leave none for the generation.
    pub fn with_index_bits(places: usize, index_bits: u32) -> Self {
        assert!(
            (bits_of(places)..24).contains(&index_bits),
            "an index of {index_bits} bits for {places} places"
        );
        Self { generations: vec![0; places], free: (0..places as u32).rev().collect(), index_bits }
    }

    /// A number that is not in use; `None` if all places are.
    pub fn allocate(&mut self) -> Option<QueuePairNumber> {
        let index = self.free.pop()?;
        // Numbers 0 and 1 are the specification's own, so the first generation is 1, or 2 if the index has no bits.
        let generations = (MASK_24 >> self.index_bits) + 1;
        let least = if self.index_bits == 0 { 2 } else { 1 };
        let generation = &mut self.generations[index as usize];
        *generation = ((*generation + 1) % generations).max(least);
        Some(QueuePairNumber(*generation << self.index_bits | index))
    }

    /// The queue pair of this number is gone: its place may be used again.
    pub fn release(&mut self, number: QueuePairNumber) {
        self.free.push(self.index(number) as u32);
    }

    /// Index that a number refers to. It may lie beyond the table.
    #[inline]
    pub const fn index(&self, number: QueuePairNumber) -> usize {
        (number.0 & ((1 << self.index_bits) - 1)) as usize
    }

    /// Number of indices.
    pub const fn places(&self) -> usize {
        self.generations.len()
    }
}

/// Keys of regions.
///
/// A key is `tag << index_bits | index`: the index finds the region without a search, and the tag, drawn
/// anew for every registration, keeps a key of an earlier registration from opening a later one.
#[derive(Debug)]
pub struct KeyNumbers {
    /// The keys that each place had last.
    before: Vec<RegionKeys>,
    free: Vec<u32>,
    index_bits: u32,
    tags: u64,
}

impl KeyNumbers {
    /// For at most `places` regions, 1 to 65,536; `seed` decides the tags.
    pub fn new(places: usize, seed: u64) -> Self {
        Self::with_index_bits(places, bits_of(places), seed)
    }

    /// As [`KeyNumbers::new`], with an index of more bits than `places` need, as a table of fixed size has it.
    ///
    /// # Panics
    /// If the bits are too few for the places, or leave none for the tag.
    pub fn with_index_bits(places: usize, index_bits: u32, seed: u64) -> Self {
        assert!(
            (bits_of(places)..32).contains(&index_bits),
            "an index of {index_bits} bits for {places} places"
        );
        let before = vec![RegionKeys { lkey: 0, rkey: 0 }; places];
        Self { before, free: (0..places as u32).rev().collect(), index_bits, tags: seed }
    }

    /// Keys that are not in use; `None` if all places are.
    pub fn allocate(&mut self) -> Option<RegionKeys> {
        let index = self.free.pop()?;
        let before = self.before[index as usize];
        let lkey = self.draw(index, before.lkey);
        let rkey = self.draw(index, before.rkey);
        let keys = RegionKeys { lkey, rkey };
        self.before[index as usize] = keys;
        Some(keys)
    }

    /// The region of these keys is gone: its place may be used again.
    pub fn release(&mut self, keys: RegionKeys) {
        self.free.push(self.index(keys.rkey) as u32);
    }

    /// Index that an lkey or rkey refers to. It may lie beyond the table.
    #[inline]
    pub const fn index(&self, key: u32) -> usize {
        (key & ((1 << self.index_bits) - 1)) as usize
    }

    /// Number of indices.
    pub const fn places(&self) -> usize {
        self.before.len()
    }

    /// A key for `index` that differs from the one before.
    fn draw(&mut self, index: u32, before: u32) -> u32 {
        loop {
            // The splitmix64 generator: one addition, two multiplications, well mixed.
            self.tags = self.tags.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = self.tags;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let key = ((word >> 32) as u32) << self.index_bits | index;
            if key != before {
                return key;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_its_place_and_is_not_the_one_before() {
        let mut numbers = QueuePairNumbers::new(4);
        let all: Vec<_> = std::iter::from_fn(|| numbers.allocate()).collect();
        assert_eq!(all, [4, 5, 6, 7].map(QueuePairNumber));
        numbers.release(QueuePairNumber(6));
        assert_eq!(numbers.allocate(), Some(QueuePairNumber(10)));
    }

    #[test]
    fn a_wider_index_leaves_the_places_as_they_are() {
        let mut numbers = QueuePairNumbers::with_index_bits(2, 9);
        assert_eq!(numbers.allocate(), Some(QueuePairNumber(0x200)));
        assert_eq!(numbers.allocate(), Some(QueuePairNumber(0x201)));
        assert_eq!(numbers.allocate(), None);
    }

    #[test]
    fn generations_begin_anew_and_leave_out_the_special_numbers() {
        let mut numbers = QueuePairNumbers::with_index_bits(1, 22);
        let seen: Vec<u32> = (0..5)
            .map(|_| {
                let number = numbers.allocate().unwrap();
                numbers.release(number);
                number.0 >> 22
            })
            .collect();
        assert_eq!(seen, [1, 2, 3, 1, 2]);
        assert_eq!(QueuePairNumbers::new(1).allocate(), Some(QueuePairNumber(2)));
    }
}
