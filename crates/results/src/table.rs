//! Short aligned tables, and numbers in readable form.

use std::collections::BTreeMap;
use std::fmt;

/// A table with one line of headings. Columns are as wide as their widest cell.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// The heading of a column, and the side on which its cells are aligned.
#[derive(Clone, Debug)]
pub struct Column {
    heading: String,
    right: bool,
}

impl Column {
    /// A column of words.
    pub fn words(heading: &str) -> Self {
        Self { heading: heading.into(), right: false }
    }

    /// A column of numbers, with their unit in the heading.
    pub fn numbers(heading: &str, unit: &str) -> Self {
        let heading = if unit.is_empty() { heading.into() } else { format!("{heading} {unit}") };
        Self { heading, right: true }
    }
}

impl Table {
    /// An empty table.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the row does not have exactly one cell for each column.
    pub fn row<T: ToString>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Self {
        let cells: Vec<_> = cells.into_iter().map(|cell| cell.to_string()).collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
        self
    }
}

/// A table under construction, with a row for each item. Each column is added with a function that returns
/// its cells.
#[derive(Clone, Debug)]
pub struct TableOf<T> {
    items: Vec<T>,
    table: Table,
}

impl Table {
    /// A table with a row for each of these items, and no column yet.
    pub fn of<T>(items: impl IntoIterator<Item = T>) -> TableOf<T> {
        let items: Vec<T> = items.into_iter().collect();
        TableOf { table: Self { columns: Vec::new(), rows: vec![Vec::new(); items.len()] }, items }
    }
}

impl<T> TableOf<T> {
    /// Adds a column of words.
    #[must_use]
    pub fn words<S: ToString>(self, heading: &str, cell: impl Fn(&T) -> S) -> Self {
        self.column(Column::words(heading), cell)
    }

    /// Adds a column of numbers, with their unit in the heading.
    #[must_use]
    pub fn numbers<S: ToString>(self, heading: &str, unit: &str, cell: impl Fn(&T) -> S) -> Self {
        self.column(Column::numbers(heading, unit), cell)
    }

    fn column<S: ToString>(mut self, column: Column, cell: impl Fn(&T) -> S) -> Self {
        self.table.columns.push(column);
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.push(cell(item).to_string());
        }
        self
    }
}

impl<T> fmt::Display for TableOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |i: usize| {
            let cells = self.rows.iter().map(|row| row[i].chars().count());
            cells.chain([self.columns[i].heading.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for ((cell, column), &width) in cells.zip(&self.columns).zip(&widths) {
                line.push_str("  ");
                line.push_str(&if column.right {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                });
            }
            line.truncate(line.trim_end().len());
            line
        };
        writeln!(f, "{}", line(&mut self.columns.iter().map(|column| column.heading.as_str())))?;
        let rules: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
        writeln!(f, "{}", line(&mut rules.iter().map(String::as_str)))?;
        for row in &self.rows {
            writeln!(f, "{}", line(&mut row.iter().map(String::as_str)))?;
        }
        Ok(())
    }
}

/// A whole number with commas between thousands: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with at least three significant digits: `0.0123`, `1.23`, `45.6`, `1,234`.
pub fn three_digits(number: f64) -> String {
    let magnitude = number.abs();
    if (99.95..1e18).contains(&magnitude) {
        let sign = if number < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(magnitude.round() as u64));
    }
    let digits = match magnitude {
        m if m >= 9.995 || m == 0.0 => 1,
        m if m >= 0.9995 => 2,
        m if m >= 0.09995 => 3,
        _ => 4,
    };
    format!("{number:.digits$}")
}

/// Nanoseconds in microseconds, as a number without its unit.
pub fn microseconds(ns: u64) -> String {
    three_digits(ns as f64 / 1e3)
}

/// A duration with a suitable unit: `850 ns`, `12.3 µs`, `1.50 ms`, `2.00 s`.
pub fn time_with_unit(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", three_digits(ns as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", three_digits(ns as f64 / 1e6)),
        _ => format!("{} s", three_digits(ns as f64 / 1e9)),
    }
}

/// A rate or count with a suitable prefix: `950`, `12.3 k`, `4.56 M`.
pub fn with_prefix(number: f64) -> String {
    match number {
        n if n < 1e3 && n.fract() == 0.0 => format!("{n}"),
        n if n < 1e3 => three_digits(n),
        n if n < 1e6 => format!("{} k", three_digits(n / 1e3)),
        n if n < 1e9 => format!("{} M", three_digits(n / 1e6)),
        n => format!("{} G", three_digits(n / 1e9)),
    }
}

/// The line `faults      crash 1, loss 20` under a table: the injected faults by kind and, if the run counts
/// any, their consequences. It is empty if there were no faults.
pub fn faults_line(faults: &BTreeMap<String, u64>, consequences: &str) -> String {
    let injected = faults.iter().filter(|(_, count)| **count > 0);
    let words: Vec<_> = injected.map(|(kind, count)| format!("{kind} {count}")).collect();
    let separator = if consequences.is_empty() { "" } else { ": " };
    match words.is_empty() {
        true => String::new(),
        false => format!("  faults      {}{separator}{consequences}\n", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned() {
        let mut table = Table::new([
            Column::words("run"),
            Column::numbers("throughput", "ops/s"),
            Column::numbers("p50", "µs"),
            Column::words("checked"),
        ]);
        table.row(["simulated", "1,234,567", "4.20", "linearizable"]).row(["real", "987", "123", "-"]);
        assert_eq!(
            table.to_string(),
            "  run        throughput ops/s  p50 µs  checked\n  \
             ─────────  ────────────────  ──────  ────────────\n  \
             simulated         1,234,567    4.20  linearizable\n  \
             real                    987     123  -\n"
        );
    }

    #[test]
    #[should_panic(expected = "a cell for each column")]
    fn a_short_row_is_a_mistake() {
        Table::new([Column::words("a"), Column::words("b")]).row(["x"]);
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(three_digits(0.012_34), "0.0123");
        assert_eq!(three_digits(9.999), "10.0");
        assert_eq!(three_digits(99.96), "100");
        assert_eq!(three_digits(-1234.4), "-1,234");
        assert_eq!(microseconds(12_345), "12.3");
        assert_eq!(time_with_unit(850), "850 ns");
        assert_eq!(time_with_unit(1_500_000), "1.50 ms");
        assert_eq!(with_prefix(950.0), "950");
        assert_eq!(with_prefix(4_560_000.0), "4.56 M");
    }
}
