//! Large random histories that a correct register has answered.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_check::{Action, Operation, Outcome, Reply};

/// Parameters of the clients. Each client calls again as soon as it is answered.
pub struct Synthetic {
    pub operations: usize,
    pub clients: usize,
    /// Keys are drawn with YCSB's Zipfian skew, 0.99.
    pub keys: usize,
    /// Gets, puts and deletes per 1,000 operations; the others are compare-and-sets.
    pub per_mille: [u64; 3],
    /// Operations per 1,000 that lose their reply; half of these do not take effect.
    pub lost_per_mille: u64,
    /// The most by which a version exceeds the one before.
    pub version_step: u64,
}

impl Synthetic {
    /// YCSB A (half gets, half puts) on a thousand keys by 64 clients; one reply in a thousand is lost.
    pub fn ycsb_a(operations: usize) -> Self {
        Self {
            operations,
            clients: 64,
            keys: 1_000,
            per_mille: [500, 500, 0],
            lost_per_mille: 1,
            version_step: 1,
        }
    }

    /// The operations in the order in which they take effect, each at a random time within its interval.
    pub fn generate(&self, seed: u64) -> Vec<Operation<'static>> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut cumulative: Vec<f64> = Vec::with_capacity(self.keys);
        for rank in 1..=self.keys {
            cumulative.push(cumulative.last().unwrap_or(&0.0) + (rank as f64).powf(-0.99));
        }
        let names: Vec<&'static [u8]> =
            (0..self.keys as u64).map(|key| &*Box::leak(Box::new(key.to_le_bytes())) as &[u8]).collect();
        let mut free_at = vec![0u64; self.clients];
        let mut calls = Vec::with_capacity(self.operations);
        for call in 0..self.operations {
            let client = call % self.clients;
            let invoked = free_at[client] + 1 + random.next_u64() % 500;
            let point = invoked + random.next_u64() % 10_000;
            free_at[client] = point + random.next_u64() % 10_000;
            let drawn = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * cumulative[self.keys - 1];
            let key = cumulative.partition_point(|&sum| sum < drawn).min(self.keys - 1);
            calls.push((point, invoked, free_at[client], client as u32, key));
        }
        calls.sort_unstable();
        // For each key: the greatest version, and the version and value if it is present.
        let mut held = vec![(0u64, None::<(u64, u64)>); self.keys];
        let mut operations = Vec::with_capacity(self.operations);
        for (value, (_, invoked_ns, returned_ns, client, key)) in (1..).zip(calls) {
            let (greatest, present) = &mut held[key];
            let (action, outcome) = self.act(&mut random, *greatest, *present, value);
            let lost = random.next_u64() % 1_000 < self.lost_per_mille;
            if !(lost && random.next_u64().is_multiple_of(2)) {
                match (action, outcome) {
                    (_, Outcome::Written { version }) => {
                        (*greatest, *present) = (version, Some((version, value)))
                    }
                    (_, Outcome::Deleted { version }) => (*greatest, *present) = (version, None),
                    _ => {}
                }
            }
            let reply = (!lost).then_some(Reply { returned_ns, outcome });
            operations.push(Operation { client, key: names[key], invoked_ns, action, reply });
        }
        operations
    }

    fn act(
        &self,
        random: &mut Xoshiro256PlusPlus,
        greatest: u64,
        present: Option<(u64, u64)>,
        value: u64,
    ) -> (Action, Outcome) {
        let version = greatest + 1 + random.next_u64() % self.version_step;
        let [gets, puts, deletes] = self.per_mille;
        let current = present.map_or(0, |(version, _)| version);
        match random.next_u64() % 1_000 {
            die if die < gets => (
                Action::Get,
                present.map_or(Outcome::NotFound, |(version, value)| Outcome::Found { version, value }),
            ),
            die if die < gets + puts => (Action::Put { value }, Outcome::Written { version }),
            die if die < gets + puts + deletes => {
                (Action::Delete, present.map_or(Outcome::NotFound, |_| Outcome::Deleted { version }))
            }
            _ if random.next_u64().is_multiple_of(2) => {
                (Action::CompareAndSet { expected: current, value }, Outcome::Written { version })
            }
            _ => (
                Action::CompareAndSet { expected: greatest + 1, value },
                Outcome::Mismatch { version: current },
            ),
        }
    }
}
