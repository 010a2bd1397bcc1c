//! The tables of the gateware's preprocessing (`rtl/services/preprocess_pkg.sv`), computed from pipelines.
//!
//! In gates the order of operators is fixed: `fill`, `neg2zero` and `clamp`, any number of them in any order,
//! and then at most one of `log`, `modulus`, `bucketize` and `sigrid_hash`. The tables are bounded.

use super::operator::{BORDERS_MAX, MISSING, Operator};
use super::pipeline::Pipeline;

/// The largest number of pipelines.
pub const PIPELINES: usize = 16;
/// The largest number of columns of all pipelines.
pub const COLUMNS: usize = 512;
/// The largest number of different lists of borders.
pub const BORDER_SETS: usize = 16;

/// A divisor, from 1 to 2^31, with what replaces the division. `rtl/services/preprocess_remainder.sv` proves that
/// the remainder is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Divisor {
    /// The divisor.
    pub divisor: u32,
    /// (2^64 - 1) / divisor, rounded down.
    pub reciprocal: u64,
    /// The remainder of -2^63.
    pub bias: u32,
}

impl Divisor {
    const fn new(divisor: u32) -> Self {
        let bias = i64::MIN.rem_euclid(divisor as i64) as u32;
        Self { divisor, reciprocal: u64::MAX / divisor as u64, bias }
    }
}

/// The operator behind the limits of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// No operator.
    None,
    /// [`Operator::Log`] with this constant.
    Log(u32),
    /// [`Operator::Modulus`].
    Modulus(Divisor),
    /// [`Operator::Bucketize`] with the set of borders of this number.
    Bucketize(usize),
    /// [`Operator::SigridHash`].
    SigridHash {
        /// The salt.
        salt: i64,
        /// The upper bound.
        max: Divisor,
    },
}

/// The entry of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// What a missing value becomes.
    pub missing: i32,
    /// The lowest of what other values become.
    pub low: i32,
    /// The highest.
    pub high: i32,
    /// The operator on the result.
    pub last: Last,
}

/// The entry of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The index of the pipeline's first column.
    pub first: usize,
    /// The number of its columns.
    pub columns: Divisor,
}

/// Reason for which the gateware cannot run a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The table of pipelines is full.
    #[error("a card holds {PIPELINES} pipelines in gates, and all are in use")]
    Pipelines,
    /// The table of columns is full.
    #[error(
        "the pipeline has {needed} columns, and of the {COLUMNS} that a card holds in gates {free} are free"
    )]
    Columns {
        /// The pipeline's number of columns.
        needed: usize,
        /// The free ones.
        free: usize,
    },
    /// The table of borders is full.
    #[error(
        "column {0}: a card holds {BORDER_SETS} different lists of borders in gates, and all are in use; \
         choose the same borders for several columns"
    )]
    BorderSets(usize),
    /// The operators have another order than the gates.
    #[error(
        "column {column}: `{after}` cannot follow `{before}` in gates; a column has `fill`, `neg2zero` and `clamp` \
         first, and then at most one other operator"
    )]
    Order {
        /// The column.
        column: usize,
        /// The operator that must be the last one in gates.
        before: &'static str,
        /// The one behind it.
        after: &'static str,
    },
}

/// The tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The pipelines by their numbers.
    pub pipelines: Vec<Row>,
    /// The columns of all pipelines.
    pub columns: Vec<Column>,
    /// The sets of borders. Each has its borders in ascending order and then the largest number, which is below
    /// no value.
    pub borders: Vec<[i32; BORDERS_MAX]>,
}

impl Image {
    /// Adds a pipeline and returns its number.
    ///
    /// # Errors
    /// If the gateware cannot run it. Nothing is added then.
    pub fn load(&mut self, pipeline: &Pipeline) -> Result<u64, ImageError> {
        if self.pipelines.len() == PIPELINES {
            return Err(ImageError::Pipelines);
        }
        let (first, needed) = (self.columns.len(), pipeline.columns());
        let free = COLUMNS - first;
        if needed > free {
            return Err(ImageError::Columns { needed, free });
        }
        let mut borders = self.borders.clone();
        let columns = (0..needed)
            .map(|column| Column::new(column, pipeline.operators(column), &mut borders))
            .collect::<Result<Vec<_>, _>>()?;
        self.borders = borders;
        self.columns.extend(columns);
        self.pipelines.push(Row { first, columns: Divisor::new(needed as u32) });
        Ok(self.pipelines.len() as u64 - 1)
    }
}

impl Column {
    fn new(
        column: usize,
        operators: &[Operator],
        borders: &mut Vec<[i32; BORDERS_MAX]>,
    ) -> Result<Self, ImageError> {
        let is_limit = |operator: &&Operator| {
            matches!(operator, Operator::Fill(_) | Operator::NegativeToZero | Operator::Clamp { .. })
        };
        let (limits, rest) = operators.split_at(operators.iter().take_while(is_limit).count());
        // A limit keeps the order of numbers, and its results are a range. So what becomes of the ends says all. The
        // lowest number is no end: it is the missing value.
        let limited = |value| limits.iter().fold(value, |value, operator| operator.apply(value));
        let last = match rest {
            [] => Last::None,
            [operator] => Last::new(column, operator, borders)?,
            [before, after, ..] => {
                return Err(ImageError::Order { column, before: before.name(), after: after.name() });
            }
        };
        let [missing, low, high] = [MISSING, i32::MIN + 1, i32::MAX].map(limited);
        Ok(Self { missing, low, high, last })
    }
}

impl Last {
    fn new(
        column: usize,
        operator: &Operator,
        sets: &mut Vec<[i32; BORDERS_MAX]>,
    ) -> Result<Self, ImageError> {
        Ok(match operator {
            Operator::Log(constant) => Self::Log(*constant),
            Operator::Modulus(modulus) => Self::Modulus(Divisor::new(*modulus)),
            Operator::SigridHash { salt, max } => Self::SigridHash { salt: *salt, max: Divisor::new(*max) },
            Operator::Bucketize(borders) => {
                let mut set = [i32::MAX; BORDERS_MAX];
                set[..borders.len()].copy_from_slice(borders);
                let number = sets.iter().position(|known| *known == set).unwrap_or(sets.len());
                if number == BORDER_SETS {
                    return Err(ImageError::BorderSets(column));
                }
                if number == sets.len() {
                    sets.push(set);
                }
                Self::Bucketize(number)
            }
            Operator::Fill(_) | Operator::NegativeToZero | Operator::Clamp { .. } => {
                unreachable!("limits come before the last operator")
            }
        })
    }

    /// The divisor of the operator, if it has one.
    pub const fn divisor(&self) -> Option<Divisor> {
        match self {
            Self::Modulus(divisor) | Self::SigridHash { max: divisor, .. } => Some(*divisor),
            Self::None | Self::Log(_) | Self::Bucketize(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(columns: usize, operators: &str) -> Pipeline {
        format!("row = {{ int32 = {columns} }}\ncolumns.\"0..={}\" = [{operators}]", columns - 1)
            .parse()
            .unwrap()
    }

    /// Fill, neg2zero and clamp in any order are one replacement and one clamp.
    #[test]
    fn limits_in_any_order_are_one_clamp() {
        let edges = [i32::MIN, i32::MIN + 1, -7, -1, 0, 1, 7, i32::MAX - 1, i32::MAX];
        let mut operators = vec![Operator::NegativeToZero];
        for (index, &low) in edges.iter().enumerate() {
            operators.push(Operator::Fill(low));
            operators.extend(edges[index..].iter().map(|&high| Operator::Clamp { low, high }));
        }
        for first in &operators {
            for second in &operators {
                for third in [&Operator::Fill(5), &Operator::NegativeToZero] {
                    let chain = [first.clone(), second.clone(), third.clone()];
                    let Column { missing, low, high, .. } = Column::new(0, &chain, &mut Vec::new()).unwrap();
                    for value in edges {
                        let expected = chain.iter().fold(value, |value, operator| operator.apply(value));
                        let found = if value == MISSING { missing } else { value.clamp(low, high) };
                        assert_eq!(found, expected, "{chain:?} of {value}");
                    }
                }
            }
        }
    }

    /// The quotient that the gates estimate is right or one too small.
    #[test]
    fn a_reciprocal_estimates_quotients() {
        for divisor in [1, 2, 3, 7, 1_000_000, (1 << 31) - 1, 1 << 31] {
            let Divisor { reciprocal, bias, .. } = Divisor::new(divisor);
            let numbers = [0, 1, u64::MAX, 1 << 63, u64::MAX / u64::from(divisor) * u64::from(divisor)];
            for number in numbers.into_iter().flat_map(|n| [n.saturating_sub(1), n, n.saturating_add(1)]) {
                let estimate = (u128::from(number) * u128::from(reciprocal)) >> 64;
                let missing = u128::from(number / u64::from(divisor)) - estimate;
                assert!(missing <= 1, "{number} / {divisor}");
                let dividend = (number ^ 1 << 63) as i64;
                let left = number - estimate as u64 * u64::from(divisor) + u64::from(bias);
                assert_eq!(left % u64::from(divisor), dividend.rem_euclid(divisor.into()) as u64);
            }
        }
    }

    #[test]
    fn presets_are_compiled() {
        let mut image = Image::default();
        for (number, name) in (0..).zip(Pipeline::PRESETS) {
            assert_eq!(image.load(&Pipeline::preset(name).unwrap()), Ok(number));
        }
        assert_eq!(image.pipelines[1].first, 40);
        let dense = Column { missing: 0, low: 0, high: i32::MAX, last: Last::Log(1) };
        assert_eq!(image.columns[1..=13], [dense; 13]);
        assert_eq!(image.columns[87].last, Last::Modulus(Divisor::new(8_192)));
    }

    #[test]
    fn what_gates_cannot_do_is_refused() {
        let mut image = Image::default();
        let refused = |image: &mut Image, pipeline: &Pipeline| {
            let before = image.clone();
            let error = image.load(pipeline).unwrap_err();
            assert_eq!(*image, before, "a refused pipeline changes nothing");
            error.to_string()
        };
        let says = refused(&mut image, &pipeline(2, "\"modulus 9\", \"clamp 0 5\""));
        assert!(says.starts_with("column 0: `clamp` cannot follow `modulus` in gates;"), "{says}");
        for size in 1..=16 {
            let borders: Vec<String> = (0..size).map(|border| border.to_string()).collect();
            image.load(&pipeline(2, &format!("\"bucketize {}\"", borders.join(" ")))).unwrap();
        }
        assert_eq!(image.borders.len(), BORDER_SETS, "columns with the same borders share a set");
        assert!(refused(&mut image, &pipeline(2, "\"neg2zero\"")).starts_with("a card holds 16 pipelines"));
        image.pipelines.clear();
        assert!(refused(&mut image, &pipeline(1, "\"bucketize 77\"")).contains("16 different lists"));
        image.load(&pipeline(256, "\"bucketize 0 1\"")).unwrap();
        let says = refused(&mut image, &pipeline(256, "\"neg2zero\""));
        assert_eq!(
            says,
            "the pipeline has 256 columns, and of the 512 that a card holds in gates 224 are free"
        );
    }
}
