//! The time-out of a requester, estimated from measured round trips.
//!
//! One packet at a time is measured, from its transmission to the answer that acknowledges it. A packet that
//! was sent more than once is not measured, because the answer could be to either copy. Mean and mean
//! deviation are maintained as in TCP (RFC 6298), in integers. A time-out without an answer doubles the next
//! one, up to the time-out of verbs, which is the ceiling. A new measurement resets the doubling.

use weft_time::{Duration, Instant};

/// The largest estimate that is used; above it the ceiling applies. It is 2^24 cycles of 4 ns, the range of
/// the gateware's counter.
const LIMIT: Duration = Duration::from_ns(4 << 24);

/// The requester's estimate of the round trip to its peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// The packet that is being measured, and when it was sent.
    measured: Option<(u64, Instant)>,
    /// Mean and mean deviation of the round trip.
    estimate: Option<(Duration, Duration)>,
    doublings: u32,
}

impl RoundTrip {
    /// Called when a packet that requests an answer is sent for the first time.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, sequence: u64) {
        if self.measured.is_none() {
            self.measured = Some((sequence, now));
        }
    }

    /// Called when packets are sent again. Then an answer could be to either copy, so the measurement ends.
    pub(super) fn went_back(&mut self) {
        self.measured = None;
    }

    /// Called when all packets before `end` were answered.
    #[inline]
    pub(super) fn answered(&mut self, now: Instant, end: u64) {
        let Some((_, sent)) = self.measured.filter(|&(sequence, _)| sequence < end) else { return };
        self.measured = None;
        self.doublings = 0;
        let sample = now.saturating_since(sent);
        self.estimate = Some(match self.estimate {
            None => (sample, sample / 2),
            Some((mean, deviation)) => {
                let error = if sample > mean { sample - mean } else { mean - sample };
                let mean = if sample > mean { mean + error / 8 } else { mean - error / 8 };
                (mean, deviation - deviation / 4 + error / 4)
            }
        });
    }

    /// The time without an answer after which packets are sent again: at least `floor`, at most `ceiling`.
    pub(super) fn timeout(&self, floor: Duration, ceiling: Duration) -> Duration {
        let Some((mean, deviation)) = self.estimate else { return ceiling };
        let timeout = (mean + deviation * 4).max(floor);
        let timeout = timeout.saturating_mul(1 << self.doublings);
        if timeout < LIMIT { timeout.min(ceiling) } else { ceiling }
    }

    /// Called when a time-out shorter than the ceiling has expired. The next time-out is twice as long.
    pub(super) fn timed_out(&mut self) {
        self.doublings += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOR: Duration = Duration::from_us(16);
    const CEILING: Duration = Duration::from_ms(4);

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn nothing_is_known_before_the_first_answer() {
        let mut way = RoundTrip::default();
        assert_eq!(way.timeout(FLOOR, CEILING), CEILING);
        way.sent(at(0), 5);
        way.answered(at(9), 5);
        assert_eq!(way.timeout(FLOOR, CEILING), CEILING, "what is before 5 says nothing about 5");
        way.answered(at(20), 6);
        assert_eq!(way.timeout(FLOOR, CEILING), Duration::from_us(20 + 4 * 10));
    }

    #[test]
    fn the_time_out_follows_the_way() {
        let mut way = RoundTrip::default();
        for step in 0..100 {
            way.sent(at(1_000 * step), step);
            way.answered(at(1_000 * step + 100), step + 1);
        }
        let settled = way.timeout(FLOOR, CEILING);
        assert!((Duration::from_us(99)..Duration::from_us(110)).contains(&settled), "{settled}");
        way.sent(at(200_000), 100);
        way.answered(at(200_800), 101);
        assert!(way.timeout(FLOOR, CEILING) > Duration::from_us(800), "one long way is enough");
        for step in 101..300 {
            way.sent(at(1_000_000 + step), step);
            way.answered(at(1_000_000 + step), step + 1);
        }
        assert_eq!(way.timeout(FLOOR, CEILING), FLOOR);
    }

    #[test]
    fn what_was_sent_twice_is_not_measured() {
        let mut way = RoundTrip::default();
        way.sent(at(0), 1);
        way.went_back();
        way.answered(at(50), 2);
        assert_eq!(way.timeout(FLOOR, CEILING), CEILING);
        way.sent(at(60), 2);
        way.sent(at(65), 3);
        way.answered(at(68), 4);
        assert_eq!(way.timeout(FLOOR, CEILING), Duration::from_us(8 + 4 * 4), "the first of the two");
    }

    #[test]
    fn time_outs_double_up_to_the_ceiling_until_something_is_measured() {
        let mut way = RoundTrip::default();
        way.sent(at(0), 1);
        way.answered(at(1), 2);
        for doublings in 0..8 {
            assert_eq!(way.timeout(FLOOR, CEILING), FLOOR * (1 << doublings));
            way.timed_out();
        }
        assert_eq!(way.timeout(FLOOR, CEILING), CEILING, "16 us, doubled eight times");
        way.answered(at(9_000), 3);
        assert_eq!(way.timeout(FLOOR, CEILING), CEILING, "it was not measured");
        way.sent(at(9_000), 3);
        way.answered(at(9_001), 4);
        assert_eq!(way.timeout(FLOOR, CEILING), FLOOR);
    }
}
