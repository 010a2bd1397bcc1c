//! The natural logarithm of an integer as float32, computed only with integers, because gateware can do this
//! in a fixed number of steps.
//!
//! Let n = 2^e m with 1 <= m < 2, and let r be an approximation of 1/m from a table that is indexed by the
//! first ten fraction bits of m. Then ln n = e ln 2 - ln r + ln(1 + z), where z = m r - 1 is exact and
//! smaller than 2^-10.9. Four terms of the series of ln(1 + z) give an error below 2^-52. The sum is rounded
//! once, to nearest, ties to even. So nearly every result is the float32 that is nearest to the logarithm,
//! and every other result is next to it.
//!
//! The gateware (`rtl/services/preprocess_log.sv`) computes the same terms with the same table, which a test
//! writes for it.

/// Number of fraction bits of the sum.
const SUM_BITS: u32 = 56;
/// Number of fraction bits of m.
const M_BITS: u32 = 31;
/// Number of fraction bits of r.
const RECIPROCAL_BITS: u32 = 20;
/// Number of fraction bits of z.
const Z_BITS: u32 = M_BITS + RECIPROCAL_BITS;
const TABLE_BITS: u32 = 10;
/// Number of fraction bits in the computation of the table.
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
    // t is at most a third, so each term is less than a ninth of the previous term.
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

/// The bits of ln n as float32, within 1 ulp. Values below 1 are treated as 1, so a feature is never infinite
/// or NaN.
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

/// z^2 with [`SUM_BITS`] fraction bits.
const fn square(z: i64) -> i64 {
    ((z as i128 * z as i128) >> (2 * Z_BITS - SUM_BITS)) as i64
}

const fn half_square(z: i64) -> i64 {
    square(z) >> 1
}

/// z^3 / 3, from factors with 46 and 36 fraction bits, because the term is below 2^-34.
const fn third_of_cube(z: i64) -> i64 {
    let cube = (square(z) >> (SUM_BITS - 46)) * (z >> (Z_BITS - 36));
    ((cube >> (46 + 36 - SUM_BITS)) * 0x5555_5555) >> 32
}

/// z^4 / 4, from factors with 32 fraction bits, because the term is below 2^-45.
const fn quarter_of_fourth(z: i64) -> i64 {
    let short = square(z) >> (SUM_BITS - 32);
    (short * short) >> (2 * 32 - SUM_BITS + 2)
}

/// The bits of a number as float32, rounded to nearest, ties to even. The number has [`SUM_BITS`] fraction
/// bits and is at least 2^-16.
fn float_bits(sum: u64) -> u32 {
    let top = sum.ilog2();
    let shift = top - 23;
    let rounding = (1 << (shift - 1)) - 1 + (sum >> shift & 1);
    let mantissa = (sum + rounding) >> shift;
    // If rounding increases the mantissa to 2^24, the carry increases the exponent.
    ((127 + top - SUM_BITS) << 23) + (mantissa as u32 - (1 << 23))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    /// The table as a package of the gateware.
    fn log_package() -> String {
        let mut rows = String::new();
        for (index, Entry { reciprocal, logarithm }) in TABLE.into_iter().enumerate() {
            let comma = if index + 1 < TABLE.len() { "," } else { "" };
            writeln!(rows, "    {{20'h{reciprocal:05x}, 56'h{logarithm:014x}}}{comma}").unwrap();
        }
        let entries = TABLE.len();
        format!(
            r"// Generated from crates/service/src/preprocess/log.rs: UPDATE=1 cargo test -p weft-service log_table
package preprocess_log_pkg;

  // ln 2, with {SUM_BITS} fraction bits.
  localparam logic [55:0] PreprocessLn2 = 56'h{LN_2:014x};

  // An approximation of 1/m with {RECIPROCAL_BITS} fraction bits, and minus its logarithm with {SUM_BITS}.
  typedef struct packed {{
    logic [19:0] reciprocal;
    logic [55:0] logarithm;
  }} preprocess_log_row_t;

  // For each value of the first {TABLE_BITS} fraction bits of m.
  localparam preprocess_log_row_t PreprocessLogTable[{entries}] = '{{
{rows}  }};

endpackage
"
        )
    }

    #[test]
    fn the_log_table_of_the_gateware_is_this_one() {
        let path = "rtl/services/generated/preprocess_log_pkg.sv";
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        if env::var_os("UPDATE").is_some() {
            fs::write(&file, log_package()).unwrap();
        }
        let command = "UPDATE=1 cargo test -p weft-service log_table";
        let kept = fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == log_package(), "{path} is out of date; write it again with {command}");
    }

    /// Distance to the logarithm in double precision, in units of the last place of the result.
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

    /// Every number that a column and a constant can give. Takes minutes in an unoptimised build.
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
