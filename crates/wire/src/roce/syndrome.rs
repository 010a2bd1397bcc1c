//! The syndrome of an acknowledgement: one byte that is positive, receiver-not-ready or negative.

/// The syndrome of an acknowledgement (clause 9.7.5.2, tables 44 to 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Positive. The 5-bit end-to-end credit count code is 31 if credits are not used.
    Ack {
        /// Credit count code, 0 to 31.
        credits: u8,
    },
    /// Receiver not ready: the requester must wait for the time that the 5-bit code stands for (table 45),
    /// and try again.
    RnrNak {
        /// Timer code, 0 to 31.
        timer: u8,
    },
    /// Negative.
    Nak(NakCode),
}

/// The reason of a NAK (table 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing.
    PsnSequenceError = 0,
    /// The request is malformed, or the responder does not support it.
    InvalidRequest = 1,
    /// The region's key, bounds, domain or permissions do not allow the access.
    RemoteAccessError = 2,
    /// The responder failed for a reason that is not the requester's fault.
    RemoteOperationalError = 3,
    /// For reliable datagrams only. It is never sent on a reliable connection, but is decoded so that it can
    /// be counted.
    InvalidRdRequest = 4,
}

/// The largest value of the five bits after the kind.
const VALUE_MAX: u8 = 31;

impl NakCode {
    /// The reason with this number; `None` for numbers that table 46 reserves.
    pub const fn from_u8(number: u8) -> Option<NakCode> {
        Some(match number {
            0 => NakCode::PsnSequenceError,
            1 => NakCode::InvalidRequest,
            2 => NakCode::RemoteAccessError,
            3 => NakCode::RemoteOperationalError,
            4 => NakCode::InvalidRdRequest,
            _ => return None,
        })
    }
}

impl Syndrome {
    /// A positive acknowledgement without end-to-end credits.
    pub const ACK: Syndrome = Syndrome::Ack { credits: VALUE_MAX };

    /// Decodes the byte: a reserved bit, two bits of kind, five of value. `None` for reserved values.
    pub const fn from_u8(byte: u8) -> Option<Syndrome> {
        let value = byte & VALUE_MAX;
        match byte >> 5 {
            0b000 => Some(Syndrome::Ack { credits: value }),
            0b001 => Some(Syndrome::RnrNak { timer: value }),
            0b011 => match NakCode::from_u8(value) {
                Some(code) => Some(Syndrome::Nak(code)),
                None => None,
            },
            _ => None,
        }
    }

    /// Encodes the byte.
    ///
    /// # Panics
    ///
    /// If the credit count or the timer exceeds 31.
    pub const fn to_u8(self) -> u8 {
        let (kind, value) = match self {
            Syndrome::Ack { credits } => (0b000, credits),
            Syndrome::RnrNak { timer } => (0b001, timer),
            Syndrome::Nak(code) => (0b011, code as u8),
        };
        assert!(value <= VALUE_MAX, "a syndrome's value has five bits");
        kind << 5 | value
    }
}

/// The minimum time in nanoseconds that a requester waits after a receiver-not-ready NAK with this timer code
/// (table 45): 10 us (code 1) to 655.36 ms (code 0). Bits above the lowest five are ignored.
pub const fn rnr_timer_ns(code: u8) -> u64 {
    /// Table 45, in its own unit of ten microseconds.
    const TENS_OF_MICROSECONDS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536,
        2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    TENS_OF_MICROSECONDS[(code & VALUE_MAX) as usize] * 10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syndromes_round_trip_and_reserved_ones_are_none() {
        let mut known = 0;
        for byte in 0..=u8::MAX {
            if let Some(syndrome) = Syndrome::from_u8(byte) {
                assert_eq!(syndrome.to_u8(), byte);
                known += 1;
            }
        }
        assert_eq!(known, 32 + 32 + 5);
        assert_eq!(Syndrome::ACK.to_u8(), 0x1f);
        assert_eq!(Syndrome::from_u8(0x2c), Some(Syndrome::RnrNak { timer: 12 }));
        assert_eq!(Syndrome::from_u8(0x60), Some(Syndrome::Nak(NakCode::PsnSequenceError)));
    }

    /// From code 1 on the times increase by a third or a half with each code. Code 0 is the longest time.
    #[test]
    fn timers_rise_and_zero_is_the_longest() {
        assert_eq!(rnr_timer_ns(1), 10_000);
        assert_eq!(rnr_timer_ns(12), 640_000);
        assert_eq!(rnr_timer_ns(31), 491_520_000);
        assert_eq!(rnr_timer_ns(0), 655_360_000);
        for code in 1..31 {
            assert!(rnr_timer_ns(code) < rnr_timer_ns(code + 1));
            assert!(rnr_timer_ns(code) < rnr_timer_ns(0));
        }
        for code in 3..30 {
            assert_eq!(rnr_timer_ns(code + 2), 2 * rnr_timer_ns(code), "the table doubles every two codes");
        }
    }
}
