//! Pacing of congestion notifications to the sender of marked packets.

use weft_time::{Duration, Instant};

/// The minimum time between two notifications of one queue pair (`N` of DCQCN, section 3.1).
pub const NOTIFICATION_INTERVAL: Duration = Duration::from_us(50);

/// The notification point of one queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NotificationPoint {
    /// No notification is sent before this time.
    quiet_until: Instant,
}

impl NotificationPoint {
    /// Called when a marked packet has arrived. Returns whether its sender must be notified now.
    pub(crate) fn on_marked(&mut self, now: Instant) -> bool {
        let due = now >= self.quiet_until;
        if due {
            self.quiet_until = now + NOTIFICATION_INTERVAL;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_notification_in_an_interval() {
        let mut point = NotificationPoint::default();
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let due: Vec<u64> = (0..200).filter(|&us| point.on_marked(at(us))).collect();
        assert_eq!(due, [0, 50, 100, 150]);
    }
}
