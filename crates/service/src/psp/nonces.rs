//! A checker: no nonce is used twice with a key.

use std::collections::BTreeMap;

/// A nonce that was used before with the same key: from the two frames, both plaintexts and the key of the tag can be
/// computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the nonce of SPI {spi:#010x} and counter {counter} was used twice with key {key}")]
pub struct Repeated {
    /// The key, in the numbering of the world.
    pub key: u64,
    /// The SPI.
    pub spi: u32,
    /// The counter.
    pub counter: u64,
}

/// The nonces of all frames that have left, by key. Neighbouring counters take no more room than one.
#[derive(Clone, Debug, Default)]
pub struct Nonces {
    /// By key and SPI: first and last counter of each run.
    runs: BTreeMap<(u64, u32), BTreeMap<u64, u64>>,
    frames: u64,
}

impl Nonces {
    /// Frames that were observed.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// A frame has left with this nonce. Keys have numbers that the world gives: one to each key that was ever
    /// installed.
    ///
    /// # Errors
    /// If a frame has left before with the same nonce and key.
    pub fn observe(&mut self, key: u64, spi: u32, counter: u64) -> Result<(), Repeated> {
        self.frames += 1;
        let runs = self.runs.entry((key, spi)).or_default();
        let before = runs.range(..=counter).next_back().map(|(first, last)| (*first, *last));
        if before.is_some_and(|(_, last)| last >= counter) {
            return Err(Repeated { key, spi, counter });
        }
        let joins = before.filter(|(_, last)| last + 1 == counter);
        let first = joins.map_or(counter, |(first, _)| first);
        let next = counter.checked_add(1).and_then(|next| runs.remove(&next));
        runs.insert(first, next.unwrap_or(counter));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_and_repetitions_are_found_everywhere_in_them() {
        let mut nonces = Nonces::default();
        for counter in [5, 3, 4, 0, 1, 2, u64::MAX] {
            nonces.observe(1, 7, counter).unwrap();
        }
        assert_eq!(nonces.runs[&(1, 7)].len(), 2);
        for counter in [0, 2, 5, u64::MAX] {
            assert_eq!(nonces.observe(1, 7, counter), Err(Repeated { key: 1, spi: 7, counter }));
        }
        nonces.observe(1, 8, 0).unwrap();
        nonces.observe(2, 7, 0).unwrap();
        assert_eq!(nonces.frames(), 13);
    }
}
