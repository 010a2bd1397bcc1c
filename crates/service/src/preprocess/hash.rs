//! The hash that TorchArrow calls `sigrid_hash`: mixes 64 bits with a salt and maps them to a range.

/// Thomas Wang's mixing function for 64 bits.
const fn mix(mut key: u64) -> u64 {
    key = (!key).wrapping_add(key << 21);
    key ^= key >> 24;
    key = key.wrapping_add(key << 3).wrapping_add(key << 8);
    key ^= key >> 14;
    key = key.wrapping_add(key << 2).wrapping_add(key << 4);
    key ^= key >> 28;
    key.wrapping_add(key << 31)
}

/// Combines 128 bits to 64, as CityHash combines two hashes.
const fn combine(upper: u64, lower: u64) -> u64 {
    const FACTOR: u64 = 0x9ddf_ea08_eb38_2d69;
    let mut a = (lower ^ upper).wrapping_mul(FACTOR);
    a ^= a >> 47;
    let mut b = (upper ^ a).wrapping_mul(FACTOR);
    b ^= b >> 47;
    b.wrapping_mul(FACTOR)
}

/// The hash of `value`, from 0 to `max` - 1. It is the remainder of a signed division that rounds down.
pub(crate) fn sigrid_hash(value: i64, salt: i64, max: u32) -> u32 {
    let hash = combine(salt as u64, mix(value as u64)) as i64;
    hash.rem_euclid(max.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values from TorchArrow: from its documentation, and from its tests, where the values are 0 to
    /// 15.
    #[test]
    fn the_hash_is_that_of_torcharrow() {
        let hash = |value| sigrid_hash(value, 0, 100);
        assert_eq!([1, 2, 3, 5, 8, 10, 11].map(hash), [60, 54, 54, 4, 67, 2, 25]);
        let tested = [6, 60, 54, 54, 9, 4, 91, 11, 67, 79, 2, 25, 92, 98, 83, 66];
        assert!((0..).map(hash).zip(tested).all(|(found, expected)| found == expected));
    }
}
