//! Converts rows of integers to features, in place.

use std::ops::RangeInclusive;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::operator::{NoOperator, Operator};
use crate::shapes::Map;

/// Number of bytes of a value, before and after the pipeline.
const VALUE_BYTES: usize = 4;
/// The largest number of columns of a row.
const COLUMNS_MAX: usize = 256;
/// The largest number of operators of a column.
const OPERATORS_MAX: usize = 8;

/// Operators for each column of rows of little-endian int32.
///
/// The column of a value is computed from the value's offset in the message. So a row may begin in one packet
/// and end in the next one, and a retransmitted packet gives the same result. A value is not changed if the
/// packet does not contain all of its bytes. Packets are cut at multiples of 256 bytes, so this happens only
/// to an incomplete value at the end of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// For each column, the index of its operators in `chains`.
    columns: Vec<u16>,
    chains: Vec<Vec<Operator>>,
}

/// Reason for which a text does not declare a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PipelineError {
    /// The text is not TOML.
    #[error("line {line}: {message}")]
    Toml {
        /// The line number, from 1 on.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// An unknown key.
    #[error("`{0}` means nothing here; a pipeline has `row` and `columns`")]
    UnknownKey(String),
    /// `row` is missing or wrong.
    #[error("`row` must be `row = {{ int32 = N }}` with 1 to {COLUMNS_MAX} columns")]
    Row,
    /// `columns` is wrong.
    #[error("`columns` must be a table such as `columns.\"1..=13\" = [\"neg2zero\", \"log 1\"]`")]
    Columns,
    /// The columns do not exist or are not written correctly.
    #[error("columns \"{0}\": choose a number or a range such as 1..=13, below {1}")]
    Range(String, usize),
    /// A column has two lists of operators.
    #[error("columns \"{0}\": column {1} has operators already")]
    Twice(String, usize),
    /// The value is not a valid list of operators.
    #[error("columns \"{0}\": give a list of 1 to {OPERATORS_MAX} operators")]
    Operators(String),
    /// An operator is wrong.
    #[error("columns \"{0}\": {1}")]
    Operator(String, NoOperator),
    /// An operator follows one whose result is a float32.
    #[error("columns \"{0}\": `log` makes a float32, so it comes last")]
    BehindFloat(String),
    /// There is no preset with this name.
    #[error("there is no preset `{0}`; choose criteo or balboa")]
    UnknownPreset(String),
}

impl Pipeline {
    /// The names of the presets.
    pub const PRESETS: [&str; 2] = ["criteo", "balboa"];

    /// A built-in pipeline: `criteo` (a label, 13 dense and 26 sparse columns) or `balboa` (16 dense and 32
    /// sparse columns, as in BALBOA's measurement).
    ///
    /// # Errors
    /// If there is no such preset.
    pub fn preset(name: &str) -> Result<Self, PipelineError> {
        Ok(Self::preset_text(name)?.parse().expect("presets are right"))
    }

    /// The declaration of a built-in pipeline.
    ///
    /// # Errors
    /// If there is no such preset.
    pub fn preset_text(name: &str) -> Result<&'static str, PipelineError> {
        match name {
            "criteo" => Ok(include_str!("presets/criteo.toml")),
            "balboa" => Ok(include_str!("presets/balboa.toml")),
            _ => Err(PipelineError::UnknownPreset(name.to_owned())),
        }
    }

    /// Number of bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.columns.len() * VALUE_BYTES
    }

    /// Number of columns of a row.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The operators of a column.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn operators(&self, column: usize) -> &[Operator] {
        &self.chains[usize::from(self.columns[column])]
    }

    /// Replaces the values in `bytes` with features. The first byte is at `offset` of its message.
    pub fn transform(&self, offset: u64, bytes: &mut [u8]) {
        let skipped = (offset.wrapping_neg() % VALUE_BYTES as u64) as usize;
        let Some(bytes) = bytes.get_mut(skipped..) else { return };
        let first = offset.wrapping_add(skipped as u64) / VALUE_BYTES as u64;
        let mut column = (first % self.columns.len() as u64) as usize;
        for value in bytes.as_chunks_mut::<VALUE_BYTES>().0 {
            let chain = &self.chains[usize::from(self.columns[column])];
            let feature =
                chain.iter().fold(i32::from_le_bytes(*value), |value, operator| operator.apply(value));
            *value = feature.to_le_bytes();
            column = if column + 1 == self.columns.len() { 0 } else { column + 1 };
        }
    }
}

impl Map for Pipeline {
    fn map(&self, _value: u64, offset: u64, bytes: &mut [u8]) {
        self.transform(offset, bytes);
    }
}

/// The columns that a key refers to.
fn range(key: &str, columns: usize) -> Option<RangeInclusive<usize>> {
    let number = |text: &str| text.trim().parse().ok();
    let range = match key.split_once("..=") {
        Some((first, last)) => number(first)?..=number(last)?,
        None => number(key)?..=number(key)?,
    };
    (!range.is_empty() && *range.end() < columns).then_some(range)
}

fn row(value: &DeValue<'_>) -> Option<usize> {
    let table = value.as_table().filter(|table| table.len() == 1)?;
    let number = table.get("int32")?.get_ref().as_integer()?;
    let columns = usize::from_str_radix(number.as_str(), number.radix()).ok()?;
    (1..=COLUMNS_MAX).contains(&columns).then_some(columns)
}

fn operators(key: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<Operator>, PipelineError> {
    let none = || PipelineError::Operators(key.to_owned());
    let list = value.get_ref().as_array().ok_or_else(none)?;
    if list.is_empty() || list.len() > OPERATORS_MAX {
        return Err(none());
    }
    let mut operators: Vec<Operator> = Vec::with_capacity(list.len());
    for text in list {
        let text = text.get_ref().as_str().ok_or_else(none)?;
        if operators.last().is_some_and(Operator::makes_float) {
            return Err(PipelineError::BehindFloat(key.to_owned()));
        }
        operators.push(text.parse().map_err(|error| PipelineError::Operator(key.to_owned(), error))?);
    }
    Ok(operators)
}

impl FromStr for Pipeline {
    type Err = PipelineError;

    fn from_str(text: &str) -> Result<Self, PipelineError> {
        let document = DeTable::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
            PipelineError::Toml { line, message: error.message().lines().collect::<Vec<_>>().join("; ") }
        })?;
        let document = document.get_ref();
        let known = |key: &&str| ["row", "columns"].contains(key);
        if let Some(key) = document.keys().map(|key| key.get_ref().as_ref()).find(|key| !known(key)) {
            return Err(PipelineError::UnknownKey(key.to_owned()));
        }
        let columns = document.get("row").and_then(|value| row(value.get_ref())).ok_or(PipelineError::Row)?;
        // Chain 0 has no operators.
        let mut pipeline = Self { columns: vec![0; columns], chains: vec![Vec::new()] };
        let Some(named) = document.get("columns") else { return Ok(pipeline) };
        let named = named.get_ref().as_table().ok_or(PipelineError::Columns)?;
        for (key, value) in named.iter() {
            let key: &str = key.get_ref();
            let range = range(key, columns).ok_or_else(|| PipelineError::Range(key.to_owned(), columns))?;
            let chain = pipeline.chains.len() as u16;
            pipeline.chains.push(operators(key, value)?);
            for column in range {
                if pipeline.columns[column] != 0 {
                    return Err(PipelineError::Twice(key.to_owned(), column));
                }
                pipeline.columns[column] = chain;
            }
        }
        Ok(pipeline)
    }
}
