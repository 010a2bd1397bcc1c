//! The replay window: which counters of an association have arrived.

/// A sliding window of counters (RFC 4303, 3.4.3). Each counter is accepted once, unless it is older than the
/// window, which remembers 64 counters a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayWindow<const WORDS: usize = 2> {
    highest: u64,
    /// Counter `c` uses bit `c % FRAMES`. Bits of counters above the highest are not used yet.
    arrived: [u64; WORDS],
}

impl<const WORDS: usize> Default for ReplayWindow<WORDS> {
    fn default() -> Self {
        const { assert!(WORDS.is_power_of_two(), "every counter has one bit, also where counters end") };
        Self { highest: 0, arrived: [0; WORDS] }
    }
}

impl<const WORDS: usize> ReplayWindow<WORDS> {
    /// Number of counters that the window remembers.
    pub const FRAMES: u64 = 64 * WORDS as u64;

    /// Whether a frame with this counter may be accepted.
    pub fn allows(&self, counter: u64) -> bool {
        let (word, bit) = Self::place(counter);
        counter > self.highest
            || (self.highest - counter < Self::FRAMES && self.arrived[word] >> bit & 1 == 0)
    }

    /// Records that a frame with this counter has been accepted. [`ReplayWindow::allows`] must be true for
    /// it.
    pub fn accept(&mut self, counter: u64) {
        if counter > self.highest {
            // The counters between have not arrived. They use the bits of counters that leave the window.
            if counter - self.highest >= Self::FRAMES {
                self.arrived = [0; WORDS];
            } else {
                for between in self.highest + 1..=counter {
                    let (word, bit) = Self::place(between);
                    self.arrived[word] &= !(1 << bit);
                }
            }
            self.highest = counter;
        }
        let (word, bit) = Self::place(counter);
        self.arrived[word] |= 1 << bit;
    }

    /// The word of a counter, and its bit there.
    fn place(counter: u64) -> (usize, u32) {
        ((counter / 64) as usize % WORDS, (counter % 64) as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The window decides as a set of all counters would.
    fn every_counter_once<const WORDS: usize>(steps: &[(u64, u64)], base: u64) -> Result<(), TestCaseError> {
        let (mut window, mut seen) = (ReplayWindow::<WORDS>::default(), BTreeSet::new());
        let (mut at, mut highest) = (base, 0);
        for (forward, back) in steps {
            at += forward / 4;
            let counter = at.saturating_sub(*back);
            let expected = !seen.contains(&counter)
                && (counter > highest || highest - counter < ReplayWindow::<WORDS>::FRAMES);
            prop_assert_eq!(window.allows(counter), expected);
            if expected {
                window.accept(counter);
                seen.insert(counter);
                highest = highest.max(counter);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn every_counter_is_accepted_once(
            steps in prop::collection::vec((0_u64..400, 0_u64..300), 1..400),
            base in 0_u64..1 << 62,
        ) {
            every_counter_once::<1>(&steps, base)?;
            every_counter_once::<2>(&steps, base)?;
            every_counter_once::<32>(&steps, base)?;
        }
    }

    #[test]
    fn the_ends_of_the_counter_are_ordinary() {
        let mut window = ReplayWindow::<2>::default();
        for counter in [0, 1, u64::MAX - 1, u64::MAX] {
            assert!(window.allows(counter));
            window.accept(counter);
            assert!(!window.allows(counter));
        }
        assert!(!window.allows(u64::MAX - 128) && window.allows(u64::MAX - 127));
    }
}
