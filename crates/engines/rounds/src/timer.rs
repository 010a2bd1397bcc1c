//! The timer that ends rounds: a fixed period, shortened to follow the fastest member.

use weft_time::{Duration, Instant};

/// Durations are whole cycles of the card's 250 MHz clock, so that software and gateware compute the same.
pub(crate) const CYCLE: Duration = Duration::from_ns(4);

/// The round of a message, relative to the running one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Last,
    Running,
    Next,
}

/// The round timer.
///
/// A message that arrives sooner than the shortest one-way delay allows was sent by a member that began its round
/// earlier, by that *lead*. The timer shortens a later round by a quarter of the largest lead, but by at most an
/// eighth of the period, so that all members follow the fastest. It is a quarter because a correction shows in the
/// leads only after the next round: a larger part would overshoot.
#[derive(Clone, Debug)]
pub(crate) struct RoundTimer {
    period: Duration,
    one_way: Duration,
    last: Instant,
    begin: Instant,
    deadline: Instant,
    trim: Duration,
}

impl RoundTimer {
    pub fn new(period: Duration, one_way: Duration) -> Self {
        let (begin, deadline) = (Instant::ZERO, Instant::FAR_FUTURE);
        Self { period, one_way, last: begin, begin, deadline, trim: Duration::ZERO }
    }

    /// Length of future rounds.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Sets the length from the next round on. The running round ends as planned; leads measured in it shorten no
    /// later round.
    pub fn set_period(&mut self, period: Duration) {
        (self.period, self.trim) = (period, Duration::ZERO);
    }

    /// When the running round began.
    pub fn begin(&self) -> Instant {
        self.begin
    }

    /// Sets when the first round begins.
    pub fn arm(&mut self, begin: Instant) {
        (self.deadline, self.trim) = (begin, Duration::ZERO);
    }

    /// When the running round ends and the next one begins.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Begins the next round, at the deadline, not when the timer happened to fire. Returns whether the round is
    /// shortened.
    pub fn advance(&mut self) -> bool {
        let trim = std::mem::take(&mut self.trim);
        (self.last, self.begin) = (self.begin, self.deadline);
        self.deadline = self.begin + (self.period - trim);
        trim > Duration::ZERO
    }

    /// When a round was due to begin.
    fn begin_of(&self, of: Of) -> Instant {
        match of {
            Of::Last => self.last,
            Of::Running => self.begin,
            Of::Next => self.deadline,
        }
    }

    /// The lag, in cycles, of a message that arrives now: relative to a message that took the shortest one-way
    /// delay, from a member that began its round when this node did. Negative if it is sooner.
    pub fn lag(&self, now: Instant, of: Of) -> i32 {
        let expected = self.begin_of(of) + self.one_way;
        let ps = now.as_ps().wrapping_sub(expected.as_ps()).cast_signed();
        (ps / CYCLE.as_ps().cast_signed()) as i32
    }

    /// Notes the arrival of a message of the running round, or an early one of the next.
    pub fn observe(&mut self, now: Instant, of: Of) {
        let begin = self.begin_of(of);
        let lead = (begin + self.one_way).saturating_since(now);
        self.trim = self.trim.max(whole_cycles(lead / 4)).min(whole_cycles(self.period / 8));
    }

    /// When the sender of a message that arrives now began its round, or slightly later.
    pub fn begin_of_sender(&self, now: Instant) -> Instant {
        Instant::from_ps(now.as_ps().saturating_sub(self.one_way.as_ps()))
    }
}

fn whole_cycles(duration: Duration) -> Duration {
    CYCLE * (duration.as_ps() / CYCLE.as_ps())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(count: u64) -> Duration {
        CYCLE * count
    }

    /// How far a slow member is behind a fast one at the beginning of each round, if it is behind by `behind` at
    /// first and its clock loses `drift` cycles a round.
    fn slow_member_lags(mut behind: u64, drift: u64, rounds: usize) -> Vec<u64> {
        let (period, one_way) = (400, 300);
        let mut timer = RoundTimer::new(cycles(period), cycles(one_way));
        let mut fast = 1_000;
        timer.arm(Instant::ZERO + cycles(fast + behind));
        (0..rounds)
            .map(|_| {
                timer.advance();
                let begin = timer.begin;
                behind = (begin - (Instant::ZERO + cycles(fast))).as_ps() / CYCLE.as_ps();
                let arrival = Instant::ZERO + cycles(fast + one_way);
                timer.observe(arrival, if arrival < begin { Of::Next } else { Of::Running });
                timer.deadline += cycles(drift);
                fast += period;
                behind
            })
            .collect()
    }

    #[test]
    fn a_lead_is_made_good_without_overshooting() {
        let behind = slow_member_lags(100, 0, 12);
        assert_eq!(behind[..4], [100, 100, 75, 50]);
        assert!(behind.is_sorted_by(|earlier, later| earlier >= later), "{behind:?}");
        assert!(behind[11] <= 3, "{behind:?}");
    }

    #[test]
    fn a_slow_clock_stays_near() {
        // One cycle in 400 is 2,500 parts per million, fifty times the tolerance of a card's oscillator.
        assert!(slow_member_lags(0, 1, 1_000).iter().all(|behind| *behind <= 8));
    }

    #[test]
    fn a_node_far_behind_gains_an_eighth_of_a_period_each_round() {
        let behind = slow_member_lags(350, 0, 6);
        assert_eq!(behind[..5], [350, 350, 300, 250, 200]);
    }

    #[test]
    fn a_new_period_begins_with_the_next_round() {
        let mut timer = RoundTimer::new(cycles(400), cycles(300));
        timer.arm(Instant::ZERO);
        timer.advance();
        timer.observe(Instant::ZERO, Of::Running);
        timer.set_period(cycles(40));
        assert_eq!(timer.deadline(), Instant::ZERO + cycles(400));
        assert!(!timer.advance(), "the trim was the longer round's");
        assert_eq!(timer.deadline(), Instant::ZERO + cycles(440));
        let now = Instant::ZERO + cycles(720);
        assert_eq!([Of::Last, Of::Running, Of::Next].map(|of| timer.lag(now, of)), [420, 20, -20]);
    }

    #[test]
    fn a_node_that_is_ahead_keeps_its_period() {
        let mut timer = RoundTimer::new(cycles(400), cycles(300));
        timer.arm(Instant::ZERO);
        timer.advance();
        timer.observe(Instant::ZERO + cycles(330), Of::Running);
        assert!(!timer.advance());
        assert_eq!(timer.deadline(), Instant::ZERO + cycles(800));
    }
}
