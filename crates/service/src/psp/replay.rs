//! The replay window: which counters of an association have arrived.

/// A sliding window of counters (RFC 4303, 3.4.3). Each counter is accepted once, unless it is older than the
/// window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    highest: u64,
    /// Counter `c` uses bit `c % 128`. Bits of counters above the highest are not used yet.
    arrived: u128,
}

impl ReplayWindow {
    /// Number of counters that the window remembers.
    pub const FRAMES: u64 = 128;

    /// Whether a frame with this counter may be accepted.
    pub fn allows(&self, counter: u64) -> bool {
        counter > self.highest
            || (self.highest - counter < Self::FRAMES && self.arrived >> (counter % Self::FRAMES) & 1 == 0)
    }

    /// Records that a frame with this counter has been accepted. [`ReplayWindow::allows`] must be true for
    /// it.
    pub fn accept(&mut self, counter: u64) {
        if counter > self.highest {
            // The counters between have not arrived. They use the bits of counters that leave the window.
            let steps = counter - self.highest;
            self.arrived = if steps >= Self::FRAMES {
                0
            } else {
                let between = ((1_u128 << steps) - 1).rotate_left(((self.highest + 1) % Self::FRAMES) as u32);
                self.arrived & !between
            };
            self.highest = counter;
        }
        self.arrived |= 1 << (counter % Self::FRAMES);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The window decides as a set of all counters would.
        #[test]
        fn every_counter_once(
            steps in prop::collection::vec((0_u64..400, 0_u64..300), 1..400),
            base in 0_u64..1 << 62,
        ) {
            let (mut window, mut seen) = (ReplayWindow::default(), BTreeSet::new());
            let (mut at, mut highest) = (base, 0);
            for (forward, back) in steps {
                at += forward / 4;
                let counter = at.saturating_sub(back);
                let expected = !seen.contains(&counter)
                    && (counter > highest || highest - counter < ReplayWindow::FRAMES);
                prop_assert_eq!(window.allows(counter), expected);
                if expected {
                    window.accept(counter);
                    seen.insert(counter);
                    highest = highest.max(counter);
                }
            }
        }
    }

    #[test]
    fn the_ends_of_the_counter_are_ordinary() {
        let mut window = ReplayWindow::default();
        for counter in [0, 1, u64::MAX - 1, u64::MAX] {
            assert!(window.allows(counter));
            window.accept(counter);
            assert!(!window.allows(counter));
        }
        assert!(!window.allows(u64::MAX - 128) && window.allows(u64::MAX - 127));
    }
}
