//! A stream of random numbers, and data generated from a seed. The agent in the guest computes the same data.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True in `per_mille` of 1,000 cases.
    pub const fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1_000) < per_mille as u64
    }
}

/// Fills `bytes` with pseudo-random bytes of `seed`.
pub fn fill(bytes: &mut [u8], seed: u64) {
    let mut random = Random::new(seed);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
    }
}

/// FNV-1a over words of 64 bits, the last one padded with zeros.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_hash_are_those_of_the_agent() {
        // The agent's answer to `fill 0 1048576 7` and `hash 0 1048576`.
        let mut bytes = vec![0; 1 << 20];
        fill(&mut bytes, 7);
        assert_eq!(hash(&bytes), 10_661_724_526_144_584_437);
    }
}
