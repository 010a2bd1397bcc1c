//! Numbers of queue pairs and keys of regions. Every NIC assigns them in the same way, so soft NIC and
//! gateware agree.

use weft_verbs::{QueuePairNumber, RegionKeys};
use weft_wire::roce::MASK_24;

/// Bits of an index that has `places` values.
const fn bits_of(places: usize) -> u32 {
    usize::BITS - places.saturating_sub(1).leading_zeros()
}

/// Allocates numbers of queue pairs.
///
/// A number is `generation << index_bits | index`. The index finds the queue pair without a search. The
/// generation is different for successive queue pairs with the same index, so packets of an earlier
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

    /// As [`QueuePairNumbers::new`], with more index bits than `places` needs, as for a table of fixed size.
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

    /// A number that is not in use; `None` if all are.
    pub fn allocate(&mut self) -> Option<QueuePairNumber> {
        let index = self.free.pop()?;
        // The specification reserves the numbers 0 and 1, so generations start with 1, or with 2 if the index
        // has no bits.
        let generations = (MASK_24 >> self.index_bits) + 1;
        let least = if self.index_bits == 0 { 2 } else { 1 };
        let generation = &mut self.generations[index as usize];
        *generation = ((*generation + 1) % generations).max(least);
        Some(QueuePairNumber(*generation << self.index_bits | index))
    }

    /// Releases the number of a queue pair that was destroyed.
    pub fn release(&mut self, number: QueuePairNumber) {
        self.free.push(self.index(number) as u32);
    }

    /// The index in a number. It may be outside the table.
    #[inline]
    pub const fn index(&self, number: QueuePairNumber) -> usize {
        (number.0 & ((1 << self.index_bits) - 1)) as usize
    }

    /// Number of indices.
    pub const fn places(&self) -> usize {
        self.generations.len()
    }
}

/// Allocates keys of regions.
///
/// A key is `tag << index_bits | index`. The index finds the region without a search. The tag is drawn anew
/// for every registration, so a key of an earlier registration does not open a later one.
#[derive(Debug)]
pub struct KeyNumbers {
    /// The latest keys of each index.
    before: Vec<RegionKeys>,
    free: Vec<u32>,
    index_bits: u32,
    tags: u64,
}

impl KeyNumbers {
    /// For at most `places` regions, 1 to 65,536. The tags are drawn from `seed`.
    pub fn new(places: usize, seed: u64) -> Self {
        Self::with_index_bits(places, bits_of(places), seed)
    }

    /// As [`KeyNumbers::new`], with more index bits than `places` needs, as for a table of fixed size.
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

    /// Keys that are not in use; `None` if all indices are.
    pub fn allocate(&mut self) -> Option<RegionKeys> {
        let index = self.free.pop()?;
        let before = self.before[index as usize];
        let lkey = self.draw(index, before.lkey);
        let rkey = self.draw(index, before.rkey);
        let keys = RegionKeys { lkey, rkey };
        self.before[index as usize] = keys;
        Some(keys)
    }

    /// Releases the keys of a region that was deregistered.
    pub fn release(&mut self, keys: RegionKeys) {
        self.free.push(self.index(keys.rkey) as u32);
    }

    /// The index in an lkey or rkey. It may be outside the table.
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
            // The splitmix64 generator: one addition and two multiplications give well-mixed bits.
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
