//! Where a key belongs: its partition, bucket, slot and tag, all from one hash.

/// Partitions of the key space. [`weft_waist::View::leader`] maps each to the node that leads it.
pub const PARTITIONS: u32 = 256;

/// Hashes a key: the same at every node and client, now and in gateware.
///
/// The key is padded with zeros to whole big-endian 64-bit words *w*. From *h* = 0, each word makes
/// *h* = mix(*h* xor *w*), where mix(*x*) is: *x* ^= *x* >> 32, *x* *= C, *x* ^= *x* >> 29, *x* *= C, *x* ^= *x* >> 32 with
/// C = 0xd6e8feb86659fd93. Two pipelined multiplications per word; no seed, because placement is public: a client
/// computes it too.
pub fn hash(key: &[u8]) -> u64 {
    let mut hash = 0;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash ^ u64::from_be_bytes(word));
    }
    hash
}

/// The partition of a key: the low 8 bits of its hash.
pub fn partition(key: &[u8]) -> u32 {
    (hash(key) % u64::from(PARTITIONS)) as u32
}

pub(crate) const fn mix(mut x: u64) -> u64 {
    const C: u64 = 0xd6e8_feb8_6659_fd93;
    x ^= x >> 32;
    x = x.wrapping_mul(C);
    x ^= x >> 29;
    x = x.wrapping_mul(C);
    x ^ x >> 32
}

/// Where a key belongs in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Its bucket: the low bits of the hash, so that all keys of a bucket are of one partition.
    pub bucket: u32,
    /// The way of the bucket that is looked at first: bits 32 up.
    pub way: u32,
    /// What the bucket's tags hold for it: the top 16 bits, 1 if they are zero, since zero means free.
    pub tag: u16,
}

impl Placement {
    /// Of a key in a table of so many buckets and ways, both powers of two.
    pub fn of(key: &[u8], buckets: u32, ways: u32) -> Self {
        let hash = hash(key);
        Self {
            bucket: hash as u32 & (buckets - 1),
            way: (hash >> 32) as u32 & (ways - 1),
            tag: ((hash >> 48) as u16).max(1),
        }
    }

    /// The partition of its bucket.
    pub fn partition(self) -> u32 {
        self.bucket % PARTITIONS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fixed() {
        // Part of the wire contract: clients and gateware compute the same. Computed with an independent
        // arbitrary-precision implementation of the formula above.
        assert_eq!(hash(&1u64.to_be_bytes()), 0xc58a_e07d_43cf_358d);
        assert_eq!(hash(b"user1"), hash(b"user1\0\0\0"));
        assert_ne!(hash(b"user1"), hash(b"user2"));
    }

    #[test]
    fn partitions_are_even_and_independent_of_the_table_size() {
        let mut counts = [0u32; PARTITIONS as usize];
        for key in 0..25_600u64 {
            let key = key.to_be_bytes();
            counts[partition(&key) as usize] += 1;
            assert_eq!(Placement::of(&key, 1 << 12, 32).partition(), partition(&key));
            assert_eq!(Placement::of(&key, 256, 1).partition(), partition(&key));
        }
        assert!(counts.iter().all(|&count| (50..=160).contains(&count)), "{counts:?}");
    }
}
