//! The operators that transform values of a column.

use std::str::FromStr;

use super::hash::sigrid_hash;
use super::log::ln_bits;

/// The value that represents a missing value.
pub const MISSING: i32 = i32::MIN;

/// The largest number of borders of an operator.
pub(crate) const BORDERS_MAX: usize = 64;

/// An operator on a 32-bit integer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Replaces [`MISSING`] with this value.
    Fill(i32),
    /// Replaces negative values with 0.
    NegativeToZero,
    /// The natural logarithm of the value plus this constant, as float32, within 1 ulp. A sum below 1 is
    /// treated as 1.
    Log(u32),
    /// The remainder of a division by this number; never negative, as in numpy.
    Modulus(u32),
    /// The value of a range that is nearest.
    Clamp {
        /// The lowest value.
        low: i32,
        /// The highest value.
        high: i32,
    },
    /// The number of these borders that are below the value, as in TorchArrow. Borders are in ascending
    /// order.
    Bucketize(Box<[i32]>),
    /// TorchArrow's hash, from 0 to `max` - 1.
    SigridHash {
        /// Makes the hashes of different columns different.
        salt: i64,
        /// Upper bound of the range, which is not part of it.
        max: u32,
    },
}

/// Error for a text that is not an operator. The message shows the valid form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoOperator(String);

impl Operator {
    /// Applies the operator to a value. A float32 is returned as its bits.
    #[inline]
    pub fn apply(&self, value: i32) -> i32 {
        match self {
            Self::Fill(with) => {
                if value == MISSING {
                    *with
                } else {
                    value
                }
            }
            Self::NegativeToZero => value.max(0),
            Self::Log(constant) => ln_bits(i64::from(value) + i64::from(*constant)) as i32,
            Self::Modulus(modulus) => i64::from(value).rem_euclid(i64::from(*modulus)) as i32,
            Self::Clamp { low, high } => value.clamp(*low, *high),
            Self::Bucketize(borders) => borders.iter().filter(|border| **border < value).count() as i32,
            Self::SigridHash { salt, max } => sigrid_hash(value.into(), *salt, *max) as i32,
        }
    }

    /// The name of the operator, as in a declaration.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fill(_) => "fill",
            Self::NegativeToZero => "neg2zero",
            Self::Log(_) => "log",
            Self::Modulus(_) => "modulus",
            Self::Clamp { .. } => "clamp",
            Self::Bucketize(_) => "bucketize",
            Self::SigridHash { .. } => "sigrid_hash",
        }
    }

    /// Whether the result is a float32.
    pub const fn makes_float(&self) -> bool {
        matches!(self, Self::Log(_))
    }
}

/// The largest upper bound, because results are signed integers of 32 bits.
const UPPER_MAX: u32 = 1 << 31;

fn upper(number: u32) -> Option<u32> {
    (1..=UPPER_MAX).contains(&number).then_some(number)
}

fn parse(name: &str, words: &[&str]) -> Option<Operator> {
    let one = || match words {
        [word] => Some(*word),
        _ => None,
    };
    Some(match name {
        "fill" => Operator::Fill(one()?.parse().ok()?),
        "neg2zero" if words.is_empty() => Operator::NegativeToZero,
        "log" => Operator::Log(one()?.parse().ok().filter(|constant| *constant < UPPER_MAX)?),
        "modulus" => Operator::Modulus(upper(one()?.parse().ok()?)?),
        "clamp" => {
            let [low, high] = words else { return None };
            let (low, high) = (low.parse().ok()?, high.parse().ok()?);
            (low <= high).then_some(Operator::Clamp { low, high })?
        }
        "bucketize" => {
            let borders: Box<[i32]> = words.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
            let ascends = borders.is_sorted_by(|a, b| a < b);
            (ascends && (1..=BORDERS_MAX).contains(&borders.len())).then_some(Operator::Bucketize(borders))?
        }
        "sigrid_hash" => {
            let named = |name: &str| {
                let mut values = words.iter().filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
                values.next().filter(|_| words.len() == 2)
            };
            let salt = named("salt")?.parse().ok()?;
            Operator::SigridHash { salt, max: upper(named("max")?.parse().ok()?)? }
        }
        _ => return None,
    })
}

/// The name and the written form of each operator.
const FORMS: [(&str, &str); 7] = [
    ("fill", "`fill VALUE`"),
    ("neg2zero", "`neg2zero`"),
    ("log", "`log CONSTANT`, from 0 to 2147483647"),
    ("modulus", "`modulus N`, from 1 to 2147483648"),
    ("clamp", "`clamp LOW HIGH`, of which LOW is not above HIGH"),
    ("bucketize", "`bucketize BORDER...`, 1 to 64 that ascend"),
    ("sigrid_hash", "`sigrid_hash salt=S max=N`, N from 1 to 2147483648"),
];

impl FromStr for Operator {
    type Err = NoOperator;

    fn from_str(text: &str) -> Result<Self, NoOperator> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        parse(name, &words).ok_or_else(|| {
            NoOperator(match FORMS.iter().find(|(known, _)| *known == name) {
                Some((_, form)) => format!("`{text}` is not written as {form}"),
                None => {
                    let known = FORMS.map(|(known, _)| known).join(", ");
                    format!("there is no operator `{name}`; choose {known}")
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str, value: i32) -> i32 {
        text.parse::<Operator>().unwrap().apply(value)
    }

    #[test]
    fn operators_do_what_their_names_say() {
        assert_eq!([MISSING, -1, 5].map(|value| apply("fill -7", value)), [-7, -1, 5]);
        assert_eq!([MISSING, -1, 0, 5].map(|value| apply("neg2zero", value)), [0, 0, 0, 5]);
        assert_eq!([-9, 0, 8, 9].map(|value| apply("modulus 8", value)), [7, 0, 0, 1]);
        assert_eq!(apply("modulus 2147483648", MISSING), 0);
        assert_eq!([-9, 3, 99].map(|value| apply("clamp -5 7", value)), [-5, 3, 7]);
        assert_eq!(f32::from_bits(apply("log 1", 1) as u32), std::f32::consts::LN_2);
        assert_eq!([-5, 0].map(|value| apply("log 1", value)), [0, 0]);
    }

    /// Expected values from TorchArrow's documentation.
    #[test]
    fn buckets_are_those_of_torcharrow() {
        let buckets = [1, 2, 3, 5, 8, 10, 11].map(|value| apply("bucketize 2 5 10", value));
        assert_eq!(buckets, [0, 0, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn what_is_no_operator_is_said_in_one_line() {
        for text in [
            "",
            "lg 1",
            "fill",
            "fill 1 2",
            "fill x",
            "fill 2147483648",
            "neg2zero 1",
            "log",
            "log -1",
            "log 2147483648",
            "modulus 0",
            "modulus 2147483649",
            "clamp 2 1",
            "clamp 1",
            "bucketize",
            "bucketize 1 1",
            "bucketize 2 1",
            "sigrid_hash 0 100",
            "sigrid_hash salt=1",
            "sigrid_hash salt=1 max=0",
            "sigrid_hash salt=1 max=1 max=2",
            "sigrid_hash salt=x max=1",
        ] {
            let error = text.parse::<Operator>().expect_err(text).to_string();
            assert!(!error.contains('\n') && error.len() < 160, "{error}");
        }
        assert!(
            format!("bucketize {}", (0..65).map(|n| n.to_string()).collect::<Vec<_>>().join(" "))
                .parse::<Operator>()
                .is_err()
        );
    }
}
