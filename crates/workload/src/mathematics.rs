//! Logarithm, exponential and power, computed with correctly rounded operations only.
//!
//! The standard library's functions call the machine's C library, whose last bit differs between libraries, processors
//! and constants that the compiler evaluates. A workload must be the same everywhere, so these functions use nothing
//! but IEEE 754 addition, multiplication and division, in a fixed order. For the arguments that workloads use, the
//! relative error stays below 1e-14; the tests compare with the standard library.

/// The natural logarithm of 2 is `LN_2_HIGH + LN_2_LOW`; the high part has 32 trailing zero bits, so that its
/// product with a small integer is exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// The natural logarithm of a positive, finite, normal number.
pub fn natural_logarithm(x: f64) -> f64 {
    assert!(x.is_normal() && x > 0.0, "the logarithm of {x} is not defined here");
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh s with s = (m - 1) / (m + 1); |s| <= 0.172, so eleven terms reach the last bit.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut series = 0.0;
    for odd in (1..=11).rev().map(|i| f64::from(2 * i + 1)) {
        series = (series + 1.0 / odd) * square;
    }
    let exponent = exponent as f64;
    exponent * LN_2_HIGH + (2.0 * (s + s * series) + exponent * LN_2_LOW)
}

/// `e` to the power `x`, for `x` between -700 and 700.
pub fn exponential(x: f64) -> f64 {
    assert!(x.abs() <= 700.0, "the exponential of {x} is not defined here");
    let halvings = (x * std::f64::consts::LOG2_E).round();
    let rest = (x - halvings * LN_2_HIGH) - halvings * LN_2_LOW;
    // |rest| <= 0.35: the Taylor series to the fourteenth power reaches the last bit.
    let mut series = 1.0;
    for i in (1..=14).rev().map(f64::from) {
        series = 1.0 + series * rest / i;
    }
    series * f64::from_bits(((halvings as i64 + 1023) as u64) << 52)
}

/// `base` to the power `exponent`, for a positive base.
pub fn power(base: f64, exponent: f64) -> f64 {
    exponential(exponent * natural_logarithm(base))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(ours: f64, reference: f64, relative: f64) -> bool {
        (ours - reference).abs() <= relative * reference.abs().max(f64::MIN_POSITIVE)
    }

    #[test]
    fn ln_2_is_split_without_loss() {
        assert_eq!(LN_2_HIGH + LN_2_LOW, std::f64::consts::LN_2);
        assert_eq!(LN_2_HIGH.to_bits() & 0xf_ffff, 0);
    }

    #[test]
    fn exact_points() {
        assert_eq!(natural_logarithm(1.0), 0.0);
        assert_eq!(exponential(0.0), 1.0);
        assert_eq!(power(0.5, 1.0), 0.5);
    }

    /// These bits must be the same in debug and release builds and on every machine.
    #[test]
    fn bits_are_fixed() {
        assert_eq!(natural_logarithm(10.0).to_bits(), 10f64.ln().to_bits());
        assert_eq!(power(0.5, 0.99).to_bits(), 0x3fe0_1c7d_6c40_4f0c);
    }

    proptest! {
        #[test]
        fn agrees_with_the_standard_library(x in 1e-9..1e12f64, y in -20.0..20.0f64) {
            prop_assert!((natural_logarithm(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1.0));
            prop_assert!(close(exponential(y), y.exp(), 1e-14));
        }

        #[test]
        fn powers_agree_with_the_standard_library(base in 0.5..1.0f64, exponent in 0.0..100.0f64) {
            prop_assert!(close(power(base, exponent), base.powf(exponent), 1e-13));
        }
    }
}
