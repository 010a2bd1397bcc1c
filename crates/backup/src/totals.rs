//! What a backup contains, in numbers.

use xxhash_rust::xxh3::Xxh3;

/// Numbers about keys and values, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of keys.
    pub keys: u64,
    /// Bytes of all keys, without padding, and values.
    pub bytes: u64,
    /// Bytes of the longest key, without padding.
    pub longest_key: u32,
    /// Bytes of the longest value.
    pub longest_value: u32,
    /// A digest of the content, equal for equal keys and values. It depends neither on their order nor on the padding.
    pub digest: u64,
}

/// A key without its padding: the zeros at its end.
pub fn trimmed(key: &[u8]) -> &[u8] {
    let length = key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &key[..length]
}

impl Totals {
    /// Adds a key and its value.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let key = trimmed(key);
        self.keys += 1;
        self.bytes += (key.len() + value.len()) as u64;
        self.longest_key = self.longest_key.max(key.len() as u32);
        self.longest_value = self.longest_value.max(value.len() as u32);
        let mut hasher = Xxh3::new();
        hasher.update(&(key.len() as u64).to_le_bytes());
        hasher.update(key);
        hasher.update(value);
        self.digest = self.digest.wrapping_add(hasher.digest());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_order_nor_padding_changes_the_digest() {
        let of = |records: &[(&[u8], &[u8])]| {
            let mut totals = Totals::default();
            records.iter().for_each(|(key, value)| totals.add(key, value));
            totals
        };
        let one = of(&[(b"ab\0\0", b"1"), (b"c\0\0\0", b"22")]);
        assert_eq!(one, of(&[(b"c\0", b"22"), (b"ab", b"1")]));
        assert_eq!((one.keys, one.bytes, one.longest_key, one.longest_value), (2, 6, 2, 2));
        for other in [of(&[(b"a", b"b1"), (b"c", b"22")]), of(&[(b"ab", b"2"), (b"c", b"22")])] {
            assert_ne!(one.digest, other.digest);
        }
    }
}
