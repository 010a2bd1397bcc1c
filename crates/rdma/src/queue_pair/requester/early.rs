//! Responses that arrived out of order and are already stored in memory.

/// Responses are stored out of order only within this distance from the expected one.
const SPAN: u64 = 512;

const WORDS: usize = SPAN as usize / 64;

/// A ring of bits, one for each sequence number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Early {
    words: [u64; WORDS],
    count: u32,
}

impl Early {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether the response `sequence` is within the ring's range while `expected` is due.
    pub(super) fn reaches(expected: u64, sequence: u64) -> bool {
        sequence - expected < SPAN
    }

    fn bit(sequence: u64) -> (usize, u64) {
        ((sequence % SPAN / 64) as usize, 1 << (sequence % 64))
    }

    pub(super) fn contains(&self, sequence: u64) -> bool {
        let (word, bit) = Self::bit(sequence);
        self.words[word] & bit != 0
    }

    pub(super) fn note(&mut self, sequence: u64) {
        let (word, bit) = Self::bit(sequence);
        self.count += u32::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Clears the bit of a response, and returns whether it was set.
    pub(super) fn take(&mut self, sequence: u64) -> bool {
        let (word, bit) = Self::bit(sequence);
        let came = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        self.count -= u32::from(came);
        came
    }

    /// Number of the `packets` responses from `first` on that are missing, up to the first one that has
    /// arrived.
    pub(super) fn missing(&self, first: u64, packets: u32) -> u32 {
        if self.is_empty() {
            return packets;
        }
        let within = packets.min(SPAN as u32);
        (0..within).find(|&packet| self.contains(first + u64::from(packet))).unwrap_or(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_noted_once_and_taken_once() {
        let mut early = Early::default();
        assert!(Early::reaches(1_000, 1_511) && !Early::reaches(1_000, 1_512));
        early.note(1_003);
        early.note(1_003);
        early.note(1_511);
        assert!(early.contains(1_003) && !early.contains(1_004));
        assert_eq!(early.missing(1_000, 2), 2);
        assert_eq!(early.missing(1_000, 20), 3);
        assert_eq!(early.missing(1_004, 20), 20);
        assert!(early.take(1_003) && !early.take(1_003));
        assert!(!early.is_empty());
        assert!(early.take(1_511));
        assert!(early.is_empty());
        assert_eq!(early.missing(1_000, 1 << 20), 1 << 20);
    }
}
