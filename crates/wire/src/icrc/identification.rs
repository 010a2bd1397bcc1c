//! Solves an ICRC for the IPv4 identification.
//!
//! A CRC is linear. If two packets differ only in the identification, their ICRCs differ by the difference of
//! the identifications times a power of x (which depends on the number of bytes after it), modulo the CRC's
//! polynomial. That power has an inverse, so the difference of the ICRCs gives the difference of the
//! identifications: 32 bits, of which 16 must be zero. If nothing is known of the identification, these 16
//! bits are all that is left of the check.

/// Ethernet's polynomial. The least significant bit is the coefficient of x^31.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// `POWERS[i][v]` is x to the power of -8 v 16^i: it undoes the effect of v 16^i zero bytes.
const POWERS: [[u32; 16]; 4] = powers();

const fn powers() -> [[u32; 16]; 4] {
    let mut table = [[ONE; 16]; 4];
    let mut byte = ONE;
    let mut bit = 0;
    while bit < 8 {
        byte = without_zero_bit(byte);
        bit += 1;
    }
    let mut place = 0;
    while place < table.len() {
        let mut digit = 1;
        while digit < 16 {
            table[place][digit] = multiply(table[place][digit - 1], byte);
            digit += 1;
        }
        byte = multiply(table[place][15], byte);
        place += 1;
    }
    table
}

/// The state of the CRC register before a zero bit was shifted in.
const fn without_zero_bit(state: u32) -> u32 {
    if state & ONE == 0 { state << 1 } else { (state ^ POLYNOMIAL) << 1 | 1 }
}

/// The product of two polynomials, modulo Ethernet's.
const fn multiply(mut one: u32, other: u32) -> u32 {
    let mut product = 0;
    let mut place = 32;
    while place > 0 {
        place -= 1;
        // Iterates over the coefficients of `other` from x^0 on, and multiplies `one` by x each time.
        product ^= one & (other >> place & 1).wrapping_neg();
        one = one >> 1 ^ POLYNOMIAL & (one & 1).wrapping_neg();
    }
    product
}

/// The XOR of two identifications whose ICRCs differ by `difference`. `bytes`: the number of bytes covered by
/// the ICRC from the identification on. `None` if no two identifications have such ICRCs.
pub(super) fn solve(difference: u32, bytes: usize) -> Option<u16> {
    let bytes = u16::try_from(bytes).expect("a datagram");
    let mut register = difference;
    for (place, powers) in POWERS.iter().enumerate() {
        register = multiply(register, powers[usize::from(bytes >> (4 * place) & 15)]);
    }
    // The register's least significant byte is the first byte.
    u16::try_from(register).ok().map(u16::swap_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_gives_the_bits_that_caused_it() {
        for bytes in [2, 3, 24, 255, 256, 4_124, 65_535] {
            for bits in [0, 1, 0x8000, 0x1234, 0xffff] {
                let mut covered = vec![0; bytes];
                let before = crc32fast::hash(&covered);
                covered[..2].copy_from_slice(&u16::to_be_bytes(bits));
                let difference = before ^ crc32fast::hash(&covered);
                assert_eq!(solve(difference, bytes), Some(bits), "{bits:#x} before {bytes} bytes");
            }
        }
    }

    /// 16 of 32 check bits are left: one in 65,536 differences of ICRCs is the difference of two
    /// identifications.
    #[test]
    fn no_other_difference_has_a_solution() {
        let differences = (0..1_u32 << 20).map(|number| number.wrapping_mul(0x9e37_79b1));
        let solved = differences.filter(|&difference| solve(difference, 1_052).is_some()).count();
        assert!((1..64).contains(&solved), "{solved} of 2^20, where 16 are expected");
    }
}
