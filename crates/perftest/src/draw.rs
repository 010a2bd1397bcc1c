//! Pseudo-random bits computed without state.

/// The mixing function of the generator splitmix64: changing any input bit changes half of the output bits on
/// average.
pub(super) const fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Pseudo-random bits computed from a seed and two numbers.
pub(super) const fn draw(seed: u64, one: u64, other: u64) -> u64 {
    mix(seed ^ mix(one ^ mix(other)))
}
