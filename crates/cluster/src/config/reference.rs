//! Generates the part of `docs/configuration.md` that describes every table and key.

use std::fmt::Write as _;

use super::engines::ENGINES_MAX;
use super::keys::{Default, Form, Key, TABLES, Table};

/// A Markdown table for every table of the file, with a row for every key.
pub fn configuration_reference() -> String {
    let mut text = String::new();
    for table in TABLES {
        let times = match (table.is_required, table.is_array) {
            (true, true) => "once or more",
            (true, false) => "required",
            (false, true) => "any number of times",
            (false, false) => "optional",
        };
        let _ = writeln!(text, "## `{}`\n\n{} ({times})\n", table.header(), table.meaning);
        let _ = writeln!(text, "| key | value | unit | default | meaning |\n|---|---|---|---|---|");
        for key in table.keys {
            let (value, unit) = (value(key), unit(key));
            let _ = writeln!(
                text,
                "| `{}` | {value} | {unit} | {} | {} |",
                key.name,
                default(key, table),
                key.meaning
            );
        }
        text.push('\n');
    }
    let _ = writeln!(text, "There are 1 to {ENGINES_MAX} engines: as many as a card has slots.");
    text
}

fn value(key: &Key) -> String {
    match key.form {
        Form::Number { least, most } => format!("{least} to {most}"),
        Form::Numbers { least, most } => format!("array of numbers, {least} to {most}"),
        Form::File => "name of a file".to_owned(),
        Form::Folder => "name of a folder".to_owned(),
        Form::Host => "IPv4 or IPv6 address, or host name".to_owned(),
        Form::Place => "address or host name, and port; an IPv6 address in `[]`".to_owned(),
        Form::Text { .. } | Form::ClusterName | Form::Name => key.wanted().replace(" in quotes", ""),
    }
}

/// Unit, from the ending of the key's name.
fn unit(key: &Key) -> &'static str {
    let units = [("_bytes", "bytes"), ("_ms", "ms"), ("_us", "µs"), ("_keys", "keys")];
    units.iter().find(|(ending, _)| key.name.ends_with(ending)).map_or("", |(_, unit)| unit)
}

fn default(key: &Key, table: &Table) -> String {
    match key.default {
        Default::Required if table.is_required => "required".to_owned(),
        Default::Required => "required in the table".to_owned(),
        Default::Number(number) => number.to_string(),
        Default::Text(text) => format!("`{text}`"),
        Default::Told(words) => words.to_owned(),
    }
}
