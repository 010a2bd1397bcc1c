//! Packet sequence numbers.
//!
//! On the wire a PSN has 24 bits and wraps. Internally, sequence numbers have 64 bits, so they compare as
//! plain integers. [`extend`] recovers the 64 bits from the 24 bits on the wire.

use weft_wire::roce::MASK_24;

/// Size of the 24-bit PSN space.
const ROUND: u64 = 1 << 24;

/// The 64-bit sequence number of the first packet of a connection whose PSN on the wire is `psn`.
///
/// It lies in the second round of PSNs, so that there is half a round of lower numbers.
pub(crate) fn initial(psn: u32) -> u64 {
    ROUND + u64::from(psn & MASK_24)
}

/// The 24 bits of the sequence number that are on the wire.
pub(crate) fn wire(sequence: u64) -> u32 {
    (sequence % ROUND) as u32
}

/// The sequence number whose low 24 bits are `psn`, and that is less than half a round before `near`, or at
/// most half a round after it (clause 9.7.2: the duplicate and the valid region).
pub(crate) fn extend(psn: u32, near: u64) -> u64 {
    let ahead = u64::from(psn.wrapping_sub(wire(near)) & MASK_24);
    if ahead < ROUND / 2 { near + ahead } else { (near + ahead).saturating_sub(ROUND) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extends_across_the_wrap_in_both_directions() {
        let near = initial(0xff_fffe);
        assert_eq!(extend(0xff_fffe, near), near);
        assert_eq!(extend(0x00_0001, near), near + 3);
        assert_eq!(extend(0xff_fff0, near), near - 14);
        assert_eq!(extend(0xff_fffe, near + 5), near);
    }

    #[test]
    fn splits_the_space_in_halves() {
        let near = initial(0);
        assert_eq!(extend(0x7f_ffff, near), near + 0x7f_ffff);
        assert_eq!(extend(0x80_0000, near), near - 0x80_0000);
    }
}
