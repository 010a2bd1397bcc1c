//! A checker that no nonce is used twice with the same key.

use std::collections::BTreeMap;

/// Error: a nonce was used before with the same key. With the two frames, an attacker can compute information
/// about both plaintexts and the authentication key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the nonce of SPI {spi:#010x} and counter {counter} was used twice with key {key}")]
pub struct Repeated {
    /// The number that the simulated world has given to the key.
    pub key: u64,
    /// The SPI.
    pub spi: u32,
    /// The counter.
    pub counter: u64,
}

/// The nonces of all frames that were sent, by key. A run of consecutive counters takes no more memory than
/// one counter.
#[derive(Clone, Debug, Default)]
pub struct Nonces {
    /// By key and SPI: the first and last counter of each run of consecutive counters.
    runs: BTreeMap<(u64, u32), BTreeMap<u64, u64>>,
    frames: u64,
}

impl Nonces {
    /// Number of observed frames.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Records that a frame was sent with this nonce. Each key that was ever installed has a number, which
    /// the caller assigns.
    ///
    /// # Errors
    /// If a frame was sent before with the same nonce and key.
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
