//! Reads a file as tables and keys: checks that all are known and each value has its form, and reports errors with
//! their lines.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{Default, Form, Key, TABLES, Table};
use super::line::line_of;
use super::{earlier, engines};
use crate::identity::ClusterName;
use crate::place::{Host, Place};
use crate::text::Text;

/// A file whose tables and keys are all known.
pub(super) struct Document<'a> {
    text: &'a str,
    root: DeTable<'a>,
}

/// A table of the file.
pub(super) struct Section<'d> {
    text: &'d str,
    table: &'static Table,
    /// Index in an array of tables.
    number: Option<usize>,
    line: usize,
    /// `None` if the file does not have the table.
    entries: Option<&'d DeTable<'d>>,
}

impl<'a> Document<'a> {
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let root = DeTable::parse(text).map_err(|error| super::one_line(text, &error))?.into_inner();
        earlier::refuse(text, &root)?;
        for (name, value) in &root {
            let Some(table) = TABLES.iter().find(|table| name.as_ref() == table.name) else {
                let headers: Vec<_> = TABLES.iter().map(|table| table.header()).collect();
                let line = line_of(text, name);
                let what =
                    if value.as_ref().is_table() || value.as_ref().is_array() { "table" } else { "key" };
                let known = headers.join(", ");
                return Err(format!(
                    "line {line}: `{name}`: there is no such {what}; the tables are {known}"
                ));
            };
            let is_right = match value.as_ref() {
                DeValue::Table(_) => !table.is_array,
                DeValue::Array(tables) => table.is_array && tables.iter().all(|one| one.as_ref().is_table()),
                _ => false,
            };
            if !is_right {
                let line = line_of(text, name);
                let times = if table.is_array { "one for each" } else { "once" };
                let header = table.header();
                return Err(format!("line {line}: `{name}`: write {header}, {times}, and its keys below it"));
            }
        }
        Ok(Self { text, root })
    }

    /// A table that is there at most once; if the file does not have it, a section without keys.
    pub fn table(&self, table: &'static Table) -> Result<Section<'_>, String> {
        let found = self.root.get(table.name);
        let entries = found.and_then(|found| found.as_ref().as_table());
        let line = found.map_or(1, |found| line_of(self.text, found));
        let section = Section { text: self.text, table, number: None, line, entries };
        if entries.is_none() && table.is_required {
            return Err(format!("there is no {}: {}", table.header(), table.meaning));
        }
        section.refuse_unknown()?;
        Ok(section)
    }

    /// Every table of an array, in the order of the file.
    pub fn tables(&self, table: &'static Table) -> Result<Vec<Section<'_>>, String> {
        let found = self.root.get(table.name).and_then(|found| found.as_ref().as_array());
        let of = |(number, found): (usize, &'_ Spanned<DeValue<'a>>)| (number, line_of(self.text, found));
        let mut sections = Vec::new();
        for (number, one) in found.into_iter().flat_map(|found| found.iter()).enumerate() {
            let (number, line) = of((number, one));
            let entries = one.as_ref().as_table();
            let section = Section { text: self.text, table, number: Some(number), line, entries };
            section.refuse_unknown()?;
            sections.push(section);
        }
        Ok(sections)
    }
}

impl Section<'_> {
    /// Whether the file has the table.
    pub fn is_there(&self) -> bool {
        self.entries.is_some()
    }

    /// The table as the file names it: `[kv]`, `[[node]] 1`.
    fn place(&self) -> String {
        match self.number {
            Some(number) => format!("{} {number}", self.table.header()),
            None => self.table.header(),
        }
    }

    /// Whether the file has the key.
    pub fn has(&self, key: &Key) -> bool {
        self.find(key).is_some()
    }

    fn find(&self, key: &Key) -> Option<&Spanned<DeValue<'_>>> {
        self.entries?.get(key.name)
    }

    /// An error about the whole table.
    pub fn refuse_table(&self, reason: impl std::fmt::Display) -> String {
        format!("line {}: {}: {reason}", self.line, self.place())
    }

    /// An error about a key's value.
    pub fn refuse(&self, key: &Key, reason: impl std::fmt::Display) -> String {
        let (place, name) = (self.place(), key.name);
        match self.find(key) {
            Some(found) => {
                let line = line_of(self.text, found);
                let written = shown(self.text.get(found.span()).unwrap_or_default());
                format!("line {line}: {place} {name} = {written}: {reason}")
            }
            None => format!("line {}: {place} {name}: {reason}", self.line),
        }
    }

    fn refuse_form(&self, key: &Key) -> String {
        self.refuse(key, format_args!("give {}", key.wanted()))
    }

    fn refuse_unknown(&self) -> Result<(), String> {
        let Some(entries) = self.entries else { return Ok(()) };
        let is_known = |name: &str| self.table.keys.iter().any(|key| key.name == name);
        let Some((name, _)) = entries.iter().find(|(name, _)| !is_known(name.as_ref())) else {
            return Ok(());
        };
        let line = line_of(self.text, name);
        let (place, name) = (self.place(), shown(name.as_ref()));
        let advice = earlier::advice(self.table.name, &name).map_or_else(
            || {
                let known: Vec<_> = self.table.keys.iter().map(|key| key.name).collect();
                format!("there is no such key; choose {}", known.join(", "))
            },
            str::to_owned,
        );
        Err(format!("line {line}: {place} {name}: {advice}"))
    }

    /// The number of a key that is in the file, or the key's default if that is a number.
    pub fn optional_number(&self, key: &Key) -> Result<Option<u64>, String> {
        let Form::Number { least, most } = key.form else { unreachable!("{} is a number", key.name) };
        let Some(found) = self.find(key) else {
            return match key.default {
                Default::Number(number) => Ok(Some(number)),
                Default::Required => Err(self.missing(key)),
                _ => Ok(None),
            };
        };
        match number_in(found.as_ref(), least..=most) {
            Some(number) => Ok(Some(number)),
            None => Err(self.refuse_form(key)),
        }
    }

    /// The numbers of a key that is in the file.
    pub fn numbers(&self, key: &Key) -> Result<Option<Vec<u64>>, String> {
        let Form::Numbers { least, most } = key.form else { unreachable!("{} is an array", key.name) };
        let Some(found) = self.find(key) else { return Ok(None) };
        let number = |one: &Spanned<DeValue<'_>>| number_in(one.as_ref(), least..=most);
        let numbers = found.as_ref().as_array().and_then(|array| array.iter().map(number).collect());
        numbers.map(Some).ok_or_else(|| self.refuse_form(key))
    }

    /// The number of a key that is required or has a default.
    pub fn number(&self, key: &Key) -> Result<u64, String> {
        Ok(self.optional_number(key)?.expect("such a key has a number"))
    }

    /// A number of 32 bits, as [`Section::number`].
    pub fn number_u32(&self, key: &Key) -> Result<u32, String> {
        Ok(u32::try_from(self.number(key)?).expect("the key's range says so"))
    }

    /// The text of a key that is in the file, or the key's default if that is a text.
    pub fn optional_text(&self, key: &Key) -> Result<Option<&str>, String> {
        let Some(found) = self.find(key) else {
            return match key.default {
                Default::Text(text) => Ok(Some(text)),
                Default::Required => Err(self.missing(key)),
                _ => Ok(None),
            };
        };
        let is_right = |text: &&str| match key.form {
            Form::Number { .. } | Form::Numbers { .. } => unreachable!("{} is a text", key.name),
            Form::Text { most } => (1..=most).contains(&text.len()) && Text::new(text).is_some(),
            Form::ClusterName => ClusterName::new(text).is_some(),
            Form::Name => engines::is_name(text),
            Form::File | Form::Folder => !text.is_empty() && !text.contains('\0'),
            Form::Host => text.parse::<Host>().is_ok(),
            Form::Place => text.parse::<Place>().is_ok(),
        };
        match found.as_ref().as_str().filter(is_right) {
            Some(text) => Ok(Some(text)),
            None => Err(self.refuse_form(key)),
        }
    }

    /// The text of a key that is required or has a default.
    pub fn text(&self, key: &Key) -> Result<&str, String> {
        Ok(self.optional_text(key)?.expect("such a key has a text"))
    }

    /// The text of a key, parsed as a `T`.
    pub fn parsed<T: std::str::FromStr>(&self, key: &Key) -> Result<T, String> {
        self.text(key)?.parse().map_err(|_| self.refuse_form(key))
    }

    /// The file name of a key, if the key is in the file.
    pub fn file(&self, key: &Key) -> Result<Option<PathBuf>, String> {
        Ok(self.optional_text(key)?.map(PathBuf::from))
    }

    /// An error about a key that the file should have.
    pub fn missing(&self, key: &Key) -> String {
        self.refuse_table(format_args!("`{}` is missing; give {}", key.name, key.wanted()))
    }
}

/// A number of the file that is in a range.
fn number_in(value: &DeValue<'_>, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok().filter(|number| range.contains(number))
}

/// A piece of the file, shortened and made printable for a line of an error message.
fn shown(piece: &str) -> String {
    const MOST: usize = 48;
    let is_plain = |character: &char| !character.is_control();
    let mut shown: String = piece.chars().filter(is_plain).take(MOST).collect();
    if piece.chars().filter(is_plain).count() > MOST {
        shown.push('…');
    }
    shown
}
