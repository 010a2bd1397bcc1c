//! Pacing of a rate-limited queue pair's request packets.

use weft_time::{Duration, Instant};

use super::machine::RateMachine;

/// Bytes on the wire that surround a packet: from the preamble to the UDP header, and from the ICRC to the
/// inter-packet gap.
pub const FRAMING_BYTES: u32 = 70;

/// The time for which an idle queue pair accumulates permission to send: it may then send at once what its
/// rate allows in this time.
pub const BURST_NS: u64 = 1_024;

/// The period of the rate timer and of the congestion estimate (`T` and `K` of DCQCN, section 5.2).
pub const PERIOD: Duration = Duration::from_us(55);

/// Times in this module are in units of 2^-14 ns.
const FRACTION_BITS: u32 = 14;

/// The reaction point of one queue pair: limits its rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReactionPoint {
    machine: RateMachine,
    byte_time: u64,
    /// When the next packet is due.
    next: u64,
    /// Whether the next packet must wait until [`ReactionPoint::deadline`] was handled.
    blocked: bool,
    /// The end of the present timer period, while the rate is limited.
    period_ends: Instant,
}

fn pace_time(now: Instant) -> u64 {
    now.as_ns() << FRACTION_BITS
}

impl ReactionPoint {
    /// Whether the next packet must wait.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    #[cfg(test)]
    fn rate(&self) -> u32 {
        self.machine.current
    }

    /// Handles a congestion notification.
    pub(crate) fn on_notification(&mut self, now: Instant) {
        if !self.machine.is_limited() {
            self.next = pace_time(now);
        }
        self.machine.on_notification();
        self.byte_time = self.machine.byte_time().into();
        self.period_ends = now + PERIOD;
    }

    /// Called when a packet was sent that has `bytes` bytes from the base transport header to the pad.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u32) {
        if !self.machine.is_limited() {
            return;
        }
        let bytes = bytes + FRAMING_BYTES;
        let now = pace_time(now);
        let earliest = now.saturating_sub(BURST_NS << FRACTION_BITS);
        self.next = self.next.max(earliest) + u64::from(bytes) * self.byte_time;
        self.machine.on_bytes(bytes);
        self.byte_time = self.machine.byte_time().into();
        self.blocked = self.machine.is_limited() && self.next > now;
    }

    /// When [`ReactionPoint::handle_deadline`] must be called.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if !self.machine.is_limited() {
            return None;
        }
        let next = Instant::ZERO + Duration::from_ns(self.next.div_ceil(1 << FRACTION_BITS));
        Some(if self.blocked { self.period_ends.min(next) } else { self.period_ends })
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if self.machine.is_limited() && self.period_ends <= now {
            self.period_ends = now + PERIOD;
            self.machine.on_timer();
            self.byte_time = self.machine.byte_time().into();
        }
        self.blocked &= self.machine.is_limited() && self.next > pace_time(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends packets of 1,000 bytes on the wire as fast as the reaction point allows. Returns how many were
    /// sent in `time`.
    fn sent_within(point: &mut ReactionPoint, begin: Instant, time: Duration) -> u64 {
        let (mut now, mut sent) = (begin, 0);
        while now < begin + time {
            if point.is_blocked() {
                now = point.deadline().expect("a queue pair that is blocked has a deadline");
                point.handle_deadline(now);
            } else {
                point.on_sent(now, 1_000 - FRAMING_BYTES);
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn a_limited_queue_pair_sends_at_its_rate() {
        let mut point = ReactionPoint::default();
        for _ in 0..5 {
            point.on_notification(Instant::ZERO);
        }
        let rate = point.rate();
        // Less than a period of the timer, so that the rate is constant.
        let sent = sent_within(&mut point, Instant::ZERO, Duration::from_us(50)) * 1_000;
        let due = u64::from(rate) * 50_000 / 65_536;
        assert!(sent.abs_diff(due) <= 2_000, "{sent} bytes instead of {due}");
    }

    #[test]
    fn what_was_not_sent_is_caught_up_with_for_one_microsecond_at_most() {
        let mut point = ReactionPoint::default();
        (0..5).for_each(|_| point.on_notification(Instant::ZERO));
        let late = Instant::ZERO + Duration::from_us(40);
        let mut burst = 0;
        while !point.is_blocked() {
            point.on_sent(late, 84 - FRAMING_BYTES);
            burst += 84;
        }
        let due = u64::from(point.rate()) * BURST_NS / 65_536;
        assert!((due..=due + 168).contains(&burst), "{burst} bytes, {due} due");
    }

    #[test]
    fn at_the_line_rate_nothing_waits() {
        let mut point = ReactionPoint::default();
        for _ in 0..1_000 {
            point.on_sent(Instant::ZERO, 4_096);
            assert!(!point.is_blocked() && point.deadline().is_none());
        }
    }
}
