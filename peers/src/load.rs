//! The load that is offered to a peer.

use clap::ValueEnum;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Serialize;

/// Bytes of every key, as in Weft.
pub const KEY_BYTES: usize = 8;

/// Where a pipeline of Redis waits for its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Behind each write, so that the client knows of each whether it is replicated
    Each,
    /// Behind the last write of a pipeline
    Last,
}

/// A load of writes in closed loops.
#[derive(Clone, Debug)]
pub struct Load {
    /// Number of clients, each with one write or one pipeline outstanding.
    pub clients: u32,
    /// Writes of a pipeline: a client sends them, then waits for all of them.
    pub pipeline: u32,
    /// Where the pipeline waits for the replicas.
    pub wait: Wait,
    /// Bytes of each value.
    pub value_bytes: u32,
    /// Seconds of the measurement.
    pub seconds: u32,
    /// Number of records. Writes choose records uniformly.
    pub records: u64,
}

impl Load {
    /// The value of every write: bytes that cannot be compressed.
    pub fn value(&self) -> Vec<u8> {
        let mut value = vec![0; self.value_bytes as usize];
        Xoshiro256PlusPlus::seed_from_u64(0).fill_bytes(&mut value);
        value
    }

    /// The keys to write, without end. Every call returns the same sequence.
    pub fn keys(&self) -> Keys {
        Keys { random: Xoshiro256PlusPlus::seed_from_u64(1), records: self.records }
    }
}

/// Uniformly chosen keys.
#[derive(Debug)]
pub struct Keys {
    random: Xoshiro256PlusPlus,
    records: u64,
}

impl Keys {
    /// The next key: the record's number in network byte order.
    pub fn next(&mut self) -> [u8; KEY_BYTES] {
        // The upper half of the product replaces a remainder. Its deviation from uniform is at most records /
        // 2^64.
        let product = u128::from(self.random.next_u64()) * u128::from(self.records);
        ((product >> 64) as u64).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_uniform_over_the_records() {
        let load =
            Load { clients: 1, pipeline: 1, wait: Wait::Last, value_bytes: 1, seconds: 1, records: 10 };
        let mut keys = load.keys();
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[u64::from_be_bytes(keys.next()) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }
}
