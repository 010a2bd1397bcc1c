//! The natural logarithm of a whole number as float32, by integers alone: what gates compute in fixed steps.
//!
//! With n = 2^e m and 1 <= m < 2, and r an approximation of 1/m from a table over the first ten bits behind the point
//! of m: ln n = e ln 2 - ln r + ln(1 + z), where z = m r - 1 is exact and smaller than 2^-10.9. Four terms of the
//! series of ln(1 + z) leave an error below 2^-52, and the sum is rounded once, to nearest, ties to even. Nearly
//! every result is therefore the float32 nearest to the logarithm; one that is not lies next to it.

/// Bits behind the point of the sum.
const SUM_BITS: u32 = 56;
/// Bits behind the point of m.
const M_BITS: u32 = 31;
/// Bits behind the point of r.
const RECIPROCAL_BITS: u32 = 20;
/// Bits behind the point of z.
const Z_BITS: u32 = M_BITS + RECIPROCAL_BITS;
const TABLE_BITS: u32 = 10;
/// Bits behind the point where the table is computed.
const FINE_BITS: u32 = 62;

/// An approximation r of 1/m, and -ln r.
#[derive(Clone, Copy)]
struct Entry {
    reciprocal: u32,
    logarithm: u64,
}

const TABLE: [Entry; 1 << TABLE_BITS] = table();
const LN_2: u64 = logarithm(2, 1);

/// ln(a/b) for b <= a <= 2b: 2 artanh((a - b) / (a + b)).
const fn logarithm(a: u128, b: u128) -> u64 {
    let t = ((a - b) << FINE_BITS) / (a + b);
    let square = (t * t) >> FINE_BITS;
    let (mut power, mut sum, mut k) = (t, 0, 1);
    // t is at most a third: each term is less than a ninth of the one before.
    while power > 0 {
        sum += power / k;
        power = (power * square) >> FINE_BITS;
        k += 2;
    }
    let rounding = 1 << (FINE_BITS - SUM_BITS - 1);
    ((2 * sum + rounding) >> (FINE_BITS - SUM_BITS)) as u64
}

const fn table() -> [Entry; 1 << TABLE_BITS] {
    let mut table = [Entry { reciprocal: 0, logarithm: 0 }; 1 << TABLE_BITS];
    let mut index = 0;
    while index < table.len() {
        // The middle of the interval, in units of half an interval.
        let (scaled, middle) =
            (1_u64 << (RECIPROCAL_BITS + TABLE_BITS + 1), (2 << TABLE_BITS) + 2 * index as u64 + 1);
        let reciprocal = ((scaled + middle / 2) / middle) as u32;
        let logarithm = logarithm(1 << RECIPROCAL_BITS, reciprocal as u128);
        table[index] = Entry { reciprocal, logarithm };
        index += 1;
    }
    table
}

/// The bits of ln n as float32, within 1 ulp. What is below 1 counts as 1: a feature is never infinite or not a number.
pub(crate) fn ln_bits(n: i64) -> u32 {
    if n <= 1 {
        return 0;
    }
    let n = n as u64;
    let exponent = n.ilog2();
    let m = (n << (63 - exponent)) >> (63 - M_BITS);
    let Entry { reciprocal, logarithm } = TABLE[(m >> (M_BITS - TABLE_BITS)) as usize & (TABLE.len() - 1)];
    let z = (m * u64::from(reciprocal)) as i64 - (1 << Z_BITS);
    let series = (z << (SUM_BITS - Z_BITS)) - half_square(z) + third_of_cube(z) - quarter_of_fourth(z);
    let sum = u64::from(exponent) * LN_2 + logarithm.wrapping_add_signed(series);
    float_bits(sum)
}

/// z^2 with [`SUM_BITS`] bits behind the point.
const fn square(z: i64) -> i64 {
    ((z as i128 * z as i128) >> (2 * Z_BITS - SUM_BITS)) as i64
}

const fn half_square(z: i64) -> i64 {
    square(z) >> 1
}

/// Of factors with 46 and 36 bits behind the point: the term is below 2^-34.
const fn third_of_cube(z: i64) -> i64 {
    let cube = (square(z) >> (SUM_BITS - 46)) * (z >> (Z_BITS - 36));
    ((cube >> (46 + 36 - SUM_BITS)) * 0x5555_5555) >> 32
}

/// Of factors with 32 bits behind the point: the term is below 2^-45.
const fn quarter_of_fourth(z: i64) -> i64 {
    let short = square(z) >> (SUM_BITS - 32);
    (short * short) >> (2 * 32 - SUM_BITS + 2)
}

/// A number with [`SUM_BITS`] bits behind the point, at least 2^-16 and rounded to nearest, ties to even.
fn float_bits(sum: u64) -> u32 {
    let top = sum.ilog2();
    let shift = top - 23;
    let rounding = (1 << (shift - 1)) - 1 + (sum >> shift & 1);
    let mantissa = (sum + rounding) >> shift;
    // A mantissa that was rounded up to 2^24 carries into the exponent.
    ((127 + top - SUM_BITS) << 23) + (mantissa as u32 - (1 << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance to the double's logarithm in units of the last place of the result.
    fn error(n: i64) -> f64 {
        let (found, expected) = (f32::from_bits(ln_bits(n)), (n as f64).ln());
        let place = f64::from(f32::from_bits(found.to_bits() + 1)) - f64::from(found);
        (f64::from(found) - expected).abs() / place
    }

    fn worst(numbers: impl Iterator<Item = i64>) -> (f64, i64) {
        numbers.map(|n| (error(n), n)).fold((0.0, 0), |worst, one| if one.0 > worst.0 { one } else { worst })
    }

    #[test]
    fn the_logarithm_is_within_a_unit_of_the_last_place() {
        assert_eq!([i64::MIN, -1, 0, 1].map(ln_bits), [0; 4]);
        assert!((LN_2 as f64 / 2_f64.powi(SUM_BITS as i32) - std::f64::consts::LN_2).abs() < 2_f64.powi(-53));
        let small = worst(2..1 << 20);
        let far = worst((0..1 << 20).map(|k: i64| (k * 4_093 + 12_345) % ((1 << 32) - 2) + 2));
        let edges =
            worst((1..32).flat_map(|bit| [(1_i64 << bit) - 1, 1 << bit, (1 << bit) + 1]).filter(|n| *n > 1));
        for (error, n) in [small, far, edges] {
            assert!(error < 0.500_001, "ln {n} is off by {error} units");
        }
    }

    /// Every number that a column and a constant can make: minutes in an unoptimised build.
    #[test]
    #[ignore = "all 2^32 numbers: run it in release"]
    fn every_logarithm_is_within_a_unit_of_the_last_place() {
        let numbers = 2..(1_i64 << 32) - 1;
        let (error, n) = worst(numbers.clone());
        let others = numbers.filter(|n| ln_bits(*n) != ((*n as f64).ln() as f32).to_bits()).count();
        println!("the worst is ln {n}, {error} units off; {others} are not what rounding a double's makes");
        assert!(error < 0.500_001);
    }
}
