//! Placement of a key: its partition, bucket, slot and tag, all from one hash.

use weft_waist::{NodeId, NodeSet};

/// Partitions of the key space. [`weft_waist::View::leader`] maps each to the node that leads it.
pub const PARTITIONS: u32 = 256;

/// Hashes a key: nodes, clients and gateware of all versions must compute the same hash.
///
/// The key is padded with zeros to whole big-endian 64-bit words *w*. From *h* = 0, each word makes
/// *h* = mix(*h* xor *w*). mix is four rounds of
///
/// ```text
/// x ^= C
/// x ^= rotl(x, A) ^ rotl(x, B)
/// x ^= rotl(x, D) & ~rotl(x, E)
///
/// C = 243f6a8885a308d3, 13198a2e03707344, a4093822299f31d0, 082efa98ec4e6c89    (the digits of pi)
/// (A, B, D, E) = (2, 24, 27, 11), (60, 10, 17, 5), (22, 20, 53, 39), (38, 1, 39, 44)
/// ```
///
/// A round is two levels of gates and there is no multiplication, so a card mixes a word in two cycles. There is no
/// seed, because placement is public: a client computes it too.
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

/// The member from which clients read backups: the last of the full ones.
pub(crate) fn backup_server(full: NodeSet) -> Option<NodeId> {
    full.iter().last()
}

pub(crate) const fn mix(mut x: u64) -> u64 {
    const ROUNDS: [(u64, [u32; 4]); 4] = [
        (0x243f_6a88_85a3_08d3, [2, 24, 27, 11]),
        (0x1319_8a2e_0370_7344, [60, 10, 17, 5]),
        (0xa409_3822_299f_31d0, [22, 20, 53, 39]),
        (0x082e_fa98_ec4e_6c89, [38, 1, 39, 44]),
    ];
    let mut round = 0;
    while round < ROUNDS.len() {
        let (constant, [a, b, d, e]) = ROUNDS[round];
        x ^= constant;
        x ^= x.rotate_left(a) ^ x.rotate_left(b);
        x ^= x.rotate_left(d) & !x.rotate_left(e);
        round += 1;
    }
    x
}

/// Placement of a key in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Bucket: the low bits of the hash, so that all keys of a bucket are of one partition.
    pub bucket: u32,
    /// The way of the bucket at which the search for a free one starts: bits 32 up of the hash.
    pub way: u32,
    /// Tag of the key in its bucket: the top 11 bits, 1 if they are zero, since zero means free.
    pub tag: u16,
}

impl Placement {
    /// Placement of `key` in a table with `buckets` buckets and `ways` ways, both powers of two.
    pub fn of(key: &[u8], buckets: u32, ways: u32) -> Self {
        let hash = hash(key);
        Self {
            bucket: hash as u32 & (buckets - 1),
            way: (hash >> 32) as u32 & (ways - 1),
            tag: ((hash >> 53) as u16).max(1),
        }
    }

    /// The partition to which the bucket belongs.
    pub fn partition(self) -> u32 {
        self.bucket % PARTITIONS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fixed() {
        // Part of the wire contract: clients and gateware compute the same.
        assert_eq!(mix(0), 0x5f30_8fd5_da79_e7d3);
        assert_eq!(mix(1), 0x8894_6673_58bb_ce2d);
        assert_eq!(hash(&1u64.to_be_bytes()), mix(1));
        assert_eq!(hash(&[1; 16]), mix(mix(0x0101_0101_0101_0101) ^ 0x0101_0101_0101_0101));
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
