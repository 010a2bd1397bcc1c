//! Strictly serializable histories: transactions overlap in time, and each takes effect at one moment.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_check::serializable::{Access, Fate, History, Transaction, TransactionId};

/// Parameters of a history.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    pub transactions: u64,
    pub keys: u64,
    /// Number of keys that each transaction reads; it also writes half of them.
    pub accesses: usize,
    /// The most moments between the start and the end of a transaction.
    pub overlap: u64,
    /// Number of a transaction with a stale read: one of its reads is replaced by the previous version of a key
    /// whose last writer ended before the transaction started.
    pub stale: Option<u64>,
}

impl Synthetic {
    /// Generates the history.
    pub fn generate(&self, seed: u64) -> History {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = |bound: u64| random.next_u64() % bound;
        let mut versions = vec![[0u64; 2]; self.keys as usize];
        let mut history = History::default();
        let access = |key: u64, version: u64| Access::present(key, version, &version.to_le_bytes());
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for sequence in 0..self.transactions {
            reads.clear();
            writes.clear();
            let mut stale = self.stale == Some(sequence);
            while reads.len() < self.accesses {
                let key = below(self.keys);
                if reads.iter().any(|read: &Access| read.key == key) {
                    continue;
                }
                let [before, latest] = versions[key as usize];
                let ended = latest + 2 * self.overlap < sequence;
                let version = if stale && before > 0 && ended { before } else { latest };
                stale &= version == latest;
                reads.push(access(key, version));
                if reads.len() % 2 == 0 {
                    versions[key as usize] = [latest, sequence + 1];
                    writes.push(access(key, sequence + 1));
                }
            }
            assert!(!stale, "no key had two versions, the latest of them long ago");
            // The transaction takes effect at moment 10 (sequence + overlap), between its start and its end.
            let moment = 10 * (sequence + self.overlap);
            let started_ps = moment - below(10 * self.overlap);
            let fate = Fate::Committed { ended_ps: moment + below(10 * self.overlap) };
            let id = TransactionId { coordinator: (sequence % 6) as u16, epoch: 1, sequence };
            history.record(&Transaction { id, started_ps, fate, reads: &reads, writes: &writes });
        }
        history
    }
}
