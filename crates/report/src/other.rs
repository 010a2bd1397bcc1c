//! Sections about results of all other kinds: the description that they contain, their figures as tables, and
//! curves for tables that depend on a quantity.
//!
//! The only known keys are those that all results have. A list of records becomes a table. Its columns are
//! the keys of the records, and the ends of the keys determine the units.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value};
use weft_results::ResultError;
use weft_results::table::{grouped, three_digits, time_with_unit, with_prefix};

use super::curves::{self, Axis, Figure, Line, Point};
use super::markup::Markup;
use super::{cells, headings};

/// The largest number of rows that are shown.
const ROWS_MAX: usize = 64;
/// The largest number of columns that are shown.
const COLUMNS_MAX: usize = 16;
/// The largest depth of nested lists in a result.
const DEPTH_MAX: usize = 4;
/// Quantities that a table may depend on. The first one that the table has is used.
const OVER: [&str; 8] =
    ["outstanding", "clients", "size_bytes", "bytes", "nodes", "qps", "period_ns", "percent"];
/// The ends of the keys of values that are drawn as functions of that quantity.
const DRAWN: [&str; 5] = ["_per_s", "_per_us", "_per_server", "p50_ns", "p99_ns"];
/// Lines of a figure: each of five colours twice.
const LINES_MAX: usize = 10;
/// The keys that all results have. The title of a section shows their values.
const ENVELOPE: [&str; 6] = ["format", "kind", "machine", "replay", "checked", "violated"];

/// Results, from all files, of kinds that have no special section in a report.
#[derive(Clone, Debug, Default)]
pub struct OtherResults(Vec<Map<String, Value>>);

impl OtherResults {
    /// Adds the result in `text`, the content of the file `path`, if it is the result of a command.
    ///
    /// # Errors
    /// If the text is something else or is incomplete.
    pub fn take(&mut self, text: &str, path: &Path) -> Result<(), ResultError> {
        match serde_json::from_str(text) {
            Ok(Value::Object(result)) if is_result(&result) => self.0.push(result),
            Err(error) if error.is_eof() => return Err(ResultError::Truncated { path: path.into() }),
            _ => return Err(ResultError::Foreign { path: path.into() }),
        }
        Ok(())
    }

    /// Whether there is no result.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The verdicts of the checks.
    fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.0.iter().map(Verdict::of)
    }

    /// Whether every result was checked and is correct.
    pub(super) fn hold(&self) -> bool {
        self.verdicts().all(|verdict| verdict == Verdict::Good)
    }

    /// Whether a result reports a violation.
    pub(super) fn are_violated(&self) -> bool {
        self.verdicts().any(|verdict| verdict == Verdict::Bad)
    }

    /// Writes a section for each result.
    pub(super) fn sections(&self, page: &mut Markup) {
        for result in &self.0 {
            section(page, result);
        }
    }
}

/// What the check of a result has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Open,
    Bad,
}

impl Verdict {
    fn of(result: &Map<String, Value>) -> Self {
        match (result.get("violated").and_then(Value::as_bool), text(result, "checked")) {
            (Some(false), "" | "not checked" | "not_checked" | "undecided") | (None, _) => Self::Open,
            (Some(false), _) => Self::Good,
            (Some(true), _) => Self::Bad,
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Open => "open",
            Self::Bad => "bad",
        }
    }
}

fn is_result(result: &Map<String, Value>) -> bool {
    text(result, "format").starts_with("weft-") && !text(result, "kind").is_empty()
}

fn text<'a>(result: &'a Map<String, Value>, key: &str) -> &'a str {
    result.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn section(page: &mut Markup, result: &Map<String, Value>) {
    page.raw("<section>\n<div class=\"title\">").element(
        "h2",
        &[],
        &format!("weft {}", text(result, "kind")),
    );
    let empty = Map::new();
    let machine = result.get("machine").and_then(Value::as_object).unwrap_or(&empty);
    // The results of `weft bench rdma` have a text that begins with the kind.
    let described = text(result, "machine");
    let kind = described.split_once(':').map_or(text(machine, "kind"), |(kind, _)| kind);
    let (basis, badge) = match kind.to_lowercase().as_str() {
        "verilated" => ("Verilated", "badge verilated"),
        "real" => ("real", "badge real"),
        "counted" => ("counted", "badge"),
        _ => ("simulated", "badge simulated"),
    };
    page.element("span", &[("class", badge.into())], basis);
    page.element("span", &[("class", Verdict::of(result).class().into())], text(result, "checked"));
    let models = ["network", "profile", "description"].map(|key| (key, text(machine, key)));
    let models = models.into_iter().filter(|(_, name)| !name.is_empty());
    let mut models: Vec<_> = models.map(|(key, name)| format!("{key} {name}")).collect();
    models.extend((!described.is_empty()).then(|| described.to_owned()));
    page.element("span", &[("class", "soft".into())], &models.join(", ")).raw("</div>\n");
    facts(page, result);
    let mut tables = Vec::new();
    for (key, value) in result {
        collect(&words(key), value, DEPTH_MAX, &mut tables);
    }
    for (title, rows) in tables {
        table(page, &title, &rows);
        latency_over_throughput(page, &title, &rows);
        figures(page, &title, &rows);
    }
    page.raw("<h3>Repeat</h3>").element("code", &[], text(result, "replay")).raw("\n</section>\n");
}

/// Writes the single values of a result.
fn facts(page: &mut Markup, result: &Map<String, Value>) {
    let mut alone = BTreeMap::new();
    for (key, value) in result.iter().filter(|(key, _)| !ENVELOPE.contains(&key.as_str())) {
        flatten(key, value, &mut alone);
    }
    page.raw("<h3>The result</h3><dl class=\"facts\">");
    for (key, value) in &alone {
        let shown = shown(key, value);
        page.raw("<div>").element("dt", &[], &words(key)).element("dd", &[], &shown).raw("</div>");
    }
    page.raw("</dl>\n");
}

/// Collects the single values in `value`, with their keys.
fn flatten(key: &str, value: &Value, all: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(&format!("{key} {name}"), value, all));
        }
        Value::Array(values) if values.iter().any(|value| value.is_object() || value.is_array()) => {}
        Value::Array(values) if values.len() > 12 => {}
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(|value| shown(key, value)).collect();
            all.insert(key.to_owned(), values.join(", ").into());
        }
        Value::Null => {}
        single => {
            all.insert(key.to_owned(), single.clone());
        }
    }
}

type Row = BTreeMap<String, Value>;

/// Collects the lists of records in `value`, each as the rows of a table.
fn collect(title: &str, value: &Value, depth: usize, tables: &mut Vec<(String, Vec<Row>)>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                collect(&format!("{title}: {}", words(key)), value, depth - 1, tables);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            let records = || values.iter().filter_map(Value::as_object);
            let row = |record: &Map<String, Value>| {
                let mut row = Row::new();
                record.iter().for_each(|(key, value)| flatten(key, value, &mut row));
                row
            };
            tables.push((title.to_owned(), records().map(row).collect()));
            for (number, record) in (1..).zip(records()).take(ROWS_MAX) {
                for (key, value) in record {
                    collect(&format!("{title} {number}: {}", words(key)), value, depth - 1, tables);
                }
            }
        }
        _ => {}
    }
}

fn table(page: &mut Markup, title: &str, rows: &[Row]) {
    let mut columns: Vec<&str> = Vec::new();
    for key in rows.iter().flat_map(BTreeMap::keys) {
        if !columns.contains(&key.as_str()) && columns.len() < COLUMNS_MAX {
            columns.push(key);
        }
    }
    if columns.is_empty() {
        return;
    }
    // Columns of names come before columns of numbers.
    columns.sort_by_key(|column| !rows.iter().any(|row| row.get(*column).is_some_and(Value::is_string)));
    page.element("h3", &[], title);
    let names: Vec<_> = columns.iter().map(|column| words(column)).collect();
    headings(page, &names.iter().map(|name| (name.as_str(), "")).collect::<Vec<_>>());
    for row in rows.iter().take(ROWS_MAX) {
        let shown: Vec<_> = columns
            .iter()
            .map(|column| row.get(*column).map_or_else(|| "–".to_owned(), |value| shown(column, value)))
            .collect();
        cells(page, shown.iter().map(|cell| ("", cell.as_str())));
    }
    page.raw("</table></div>\n");
    if rows.len() > ROWS_MAX {
        let rest = format!("and {} more, which the file has", grouped((rows.len() - ROWS_MAX) as u64));
        page.element("p", &[("class", "soft".into())], &rest);
    }
}

/// Curves as functions of the quantity that the table depends on, with one line for each system that the
/// table names.
fn figures(page: &mut Markup, title: &str, rows: &[Row]) {
    let number =
        |row: &Row, key: &str| row.get(key).and_then(Value::as_f64).filter(|number| number.is_finite());
    let goes_over = |key: &&str| {
        let mut values = rows.iter().filter_map(|row| number(row, key));
        let first = values.next();
        first.is_some() && values.any(|value| Some(value) != first)
    };
    let Some(over) = OVER.into_iter().find(goes_over) else { return };
    let drawn = |key: &&String| DRAWN.iter().any(|end| key.ends_with(end));
    let mut keys: Vec<&String> = rows.iter().flat_map(BTreeMap::keys).filter(drawn).collect();
    keys.sort_unstable();
    keys.dedup();
    let names = names_of_lines(rows, &number, over);
    for key in keys {
        let mut lines: Vec<Line> = Vec::new();
        for row in rows {
            let (Some(x), Some(y)) = (number(row, over), number(row, key)) else { continue };
            let name = names.iter().filter_map(|name| row.get(*name)?.as_str()).collect::<Vec<_>>().join(" ");
            let point =
                Point { x, y, title: format!("{name} {}: {}", three_digits(x), shown(key, &row[key])) };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { name, points: vec![point] }),
            }
        }
        lines.iter_mut().for_each(|line| line.points.sort_by(|one, other| one.x.total_cmp(&other.x)));
        let unit = if key.ends_with("_ns") { "ns" } else { "" };
        let axis = |label: &str| Axis { label: label.to_owned(), is_logarithmic: false };
        let title = format!("{title}: {} over {}", words(key), words(over));
        draw(page, Figure { title, x: axis(&words(over)), y: axis(unit), lines });
    }
}

/// The keys whose texts name the line that a row is a point of. A text that few rows share, such as the hash of a log,
/// names a point and no line.
fn names_of_lines<'a>(
    rows: &'a [Row],
    number: &impl Fn(&Row, &str) -> Option<f64>,
    over: &str,
) -> Vec<&'a str> {
    let places: BTreeSet<u64> = rows.iter().filter_map(|row| number(row, over)).map(f64::to_bits).collect();
    let mut texts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, value) in rows.iter().flatten().filter(|(key, _)| !ENVELOPE.contains(&key.as_str())) {
        texts.entry(key).or_default().extend(value.as_str());
    }
    // A line has a point at each place; some points may be missing.
    let names_lines = |texts: &[&str]| {
        let different = texts.iter().collect::<BTreeSet<_>>().len();
        different > 0 && 2 * different * places.len() <= 3 * texts.len()
    };
    texts.retain(|_, texts| names_lines(texts));
    // What is the same in all rows tells no lines apart, unless there is nothing else.
    let tells_apart = |texts: &[&str]| texts.iter().any(|text| *text != texts[0]);
    if texts.values().any(|texts| tells_apart(texts)) {
        texts.retain(|_, texts| tells_apart(texts));
    }
    texts.into_keys().collect()
}

/// Draws the first lines of a figure, and says how many there are besides.
fn draw(page: &mut Markup, mut figure: Figure) {
    let more = figure.lines.len().saturating_sub(LINES_MAX);
    figure.lines.truncate(LINES_MAX);
    if let Some(chart) = curves::chart(&figure) {
        page.element("h3", &[], &figure.title).raw("<figure>").append(chart).raw("</figure>\n");
        if more > 0 {
            page.element("p", &[], &format!("{more} more lines are in the table only."));
        }
    }
}

/// Latency as a function of throughput, with one line for each system, if rows contain both for several
/// loads.
fn latency_over_throughput(page: &mut Markup, title: &str, rows: &[Row]) {
    let number = |row: &Row, key: &str| row.get(key).and_then(Value::as_f64).filter(|it| it.is_finite());
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let (Some(x), Some(ns)) = (number(row, "throughput_ops_per_s"), number(row, "p50_ns")) else {
            return;
        };
        let (Some(engine), Some(clients)) =
            (row.get("engine").and_then(Value::as_str), number(row, "clients"))
        else {
            return;
        };
        let title = format!(
            "{engine}, {clients} clients: {}/s, {}",
            with_prefix(x),
            time_with_unit(ns.round() as u64)
        );
        let point = Point { x, y: ns / 1e3, title };
        match lines.iter_mut().find(|line| line.name == engine) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name: engine.to_owned(), points: vec![point] }),
        }
    }
    let figure = Figure {
        title: format!("{title}: median latency over throughput"),
        x: Axis { label: "operations a second".to_owned(), is_logarithmic: false },
        y: Axis { label: "µs".to_owned(), is_logarithmic: true },
        lines,
    };
    draw(page, figure);
}

/// A key as words, without the unit, which is shown with the value.
fn words(key: &str) -> String {
    key.strip_suffix("_ns").unwrap_or(key).replace("_per_", "/").replace('_', " ")
}

fn shown(key: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(ns) if is_time(key) => time_with_unit(ns),
            Some(count) if key.ends_with("seed") => count.to_string(),
            Some(count) => grouped(count),
            None => number.as_f64().map_or_else(String::new, |number| {
                if is_time(key) && (0.0..1e18).contains(&number) {
                    time_with_unit(number.round() as u64)
                } else {
                    three_digits(number)
                }
            }),
        },
        other => other.to_string(),
    }
}

/// Whether a value is a time, according to its key or to the key of the record that contains it.
fn is_time(key: &str) -> bool {
    key.split(' ').any(|part| part.ends_with("_ns"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: &str = r#"{"format": "weft-bench-toy-1", "kind": "bench toy", "checked": "holds", "violated": false, "seed": 1234,
        "machine": {"kind": "simulated", "network": "detpu"}, "replay": "weft bench toy <x>",
        "latency_ns": {"p50": 1500, "p99": 2500},
        "points": [{"system": "a<b", "outstanding": 1, "operations_per_s": 10.5, "latency": {"p50_ns": 900}},
                   {"system": "a<b", "outstanding": 4, "operations_per_s": 30.5, "latency": {"p50_ns": 1900}}]}"#;

    fn drawn(text: &str) -> String {
        let mut others = OtherResults::default();
        others.take(text, Path::new("toy.json")).unwrap();
        let mut page = Markup::new();
        others.sections(&mut page);
        page.finish()
    }

    #[test]
    fn a_result_of_any_kind_has_its_figures_tables_and_curves() {
        let html = drawn(SWEEP);
        for expected in [
            "weft bench toy</h2>",
            "network detpu",
            "<dt>latency ns p50</dt><dd>1.50 µs</dd>",
            "<dd>1234</dd>",
            "a&lt;b",
            "weft bench toy &lt;x&gt;",
            "points: operations/s over outstanding",
            "points: latency p50 over outstanding",
            "<svg",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }

    /// The page of a comparison of engines over two numbers of clients.
    fn compared(engines: &[&str]) -> String {
        let points: Vec<_> = engines
            .iter()
            .enumerate()
            .flat_map(|(number, engine)| {
                [1, 8].map(|clients| {
                    format!(
                        r#"{{"engine": "{engine}", "clients": {clients}, "throughput_ops_per_s": {}, "p50_ns": 900,
                            "checked": "holds", "log_hash": "{:016x}"}}"#,
                        clients * (number + 1),
                        clients * 100 + number
                    )
                })
            })
            .collect();
        drawn(&format!(
            r#"{{"format": "weft-bench-toy-1", "kind": "bench toy", "checked": "holds", "points": [{}]}}"#,
            points.join(",")
        ))
    }

    #[test]
    fn a_line_has_all_points_of_its_system() {
        let engines = ["queue", "kv", "smr", "rdt", "txn", "lock"];
        let html = compared(&engines);
        // Throughput and latency over clients, and latency over throughput: a line for each engine.
        assert_eq!(html.matches("class=\"series").count(), 3 * engines.len(), "{html}");
        for engine in engines {
            assert_eq!(html.matches(&format!(">{engine}</text>")).count(), 3, "{engine}: {html}");
        }
        assert!(!html.contains("more lines"), "{html}");
    }

    #[test]
    fn lines_that_are_not_drawn_are_counted() {
        let html = compared(&["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]);
        assert_eq!(html.matches("class=\"series").count(), 3 * LINES_MAX, "{html}");
        assert_eq!(html.matches("2 more lines are in the table only.").count(), 3, "{html}");
    }

    #[test]
    fn what_no_command_wrote_is_refused() {
        for text in
            ["[]", "{}", r#"{"format": "weft-toy-1"}"#, r#"{"format": "toy", "kind": "bench toy"}"#, "hello"]
        {
            let refused = OtherResults::default().take(text, Path::new("toy.json"));
            assert_eq!(refused, Err(ResultError::Foreign { path: "toy.json".into() }), "{text}");
        }
        let cut = OtherResults::default().take(&SWEEP[..99], Path::new("toy.json"));
        assert_eq!(cut, Err(ResultError::Truncated { path: "toy.json".into() }));
    }

    #[test]
    fn verdicts_are_told_apart() {
        let verdict = |from: &str, to: &str| {
            let mut others = OtherResults::default();
            others.take(&SWEEP.replace(from, to), Path::new("toy.json")).unwrap();
            (others.hold(), others.are_violated())
        };
        assert_eq!(verdict("holds", "agree"), (true, false));
        assert_eq!(verdict("holds", "undecided"), (false, false));
        assert_eq!(verdict("false", "true"), (false, true));
        assert_eq!(verdict("\"violated\": false,", ""), (false, false));
    }
}
