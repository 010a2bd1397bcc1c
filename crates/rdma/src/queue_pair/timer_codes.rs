//! The durations of the timer codes in a queue pair's attributes.

use weft_time::Duration;
use weft_wire::roce::rnr_timer_ns;

/// The local acknowledgement time-out for a code from 1 to 31: 4.096 us times 2 to the power of the code
/// (clause 9.9.2.1.2). `None`, no time-out, for code 0.
pub const fn local_ack_timeout(code: u8) -> Option<Duration> {
    match code {
        0 => None,
        code => Some(Duration::from_ns(4_096 << (code & 31))),
    }
}

/// The time for which a requester waits after a receiver-not-ready NAK with timer code 0 to 31 (table 45).
pub const fn rnr_timer(code: u8) -> Duration {
    Duration::from_ns(rnr_timer_ns(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stand_for_the_times_of_the_specification() {
        assert_eq!(local_ack_timeout(0), None);
        assert_eq!(local_ack_timeout(1), Some(Duration::from_ns(8_192)));
        assert_eq!(local_ack_timeout(14), Some(Duration::from_ns(67_108_864)));
        assert_eq!(rnr_timer(0), Duration::from_us(655_360));
        assert_eq!(rnr_timer(12), Duration::from_us(640));
        assert_eq!(rnr_timer(31), Duration::from_us(491_520));
    }
}
