//! Sections of the page about replicated data types: measurements by share of updates and number of nodes,
//! crashes, and hybrid placement.
//!
//! A file contains the results of one command. Only the fields that are shown are read, so other fields may
//! be added to the results.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use weft_results::table::{three_digits, time_with_unit};
use weft_results::{Mark, MarkKind, ResultError, Timeline};

use super::bars::{self, Bars};
use super::curves::{self, Axis, Figure, Line, Point};
use super::markup::Markup;
use super::timeline::{self, Shown};
use super::{CHART_WIDTH, cells, headings};

/// Results about data types from all files.
#[derive(Clone, Debug, Default)]
pub struct DataTypes {
    measured: Vec<Measured>,
    crashes: Vec<Crashes>,
    hybrids: Vec<Hybrid>,
}

/// A measurement of `weft bench rdt`.
#[derive(Clone, Debug, Deserialize)]
struct Measured {
    #[serde(rename = "type")]
    name: String,
    system: String,
    configuration: String,
    commit: String,
    nodes: u64,
    updates_percent: u64,
    response: Mean,
    operations_per_us: f64,
    checked: String,
    replay: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Mean {
    mean_ns: f64,
}

/// Result of `weft bench rdt-crash`.
#[derive(Clone, Debug, Deserialize)]
struct Crashes {
    nodes: u64,
    commit: String,
    experiments: Vec<Crash>,
    fail_overs: Vec<FailOvers>,
    checked: String,
    replay: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Crash {
    crash: String,
    #[serde(rename = "type")]
    name: String,
    system: String,
    updates_percent: u64,
    without: Outcome,
    with: Outcome,
    marks: Vec<Moment>,
    timeline: Around,
}

#[derive(Clone, Debug, Deserialize)]
struct Outcome {
    response: Mean,
    operations_per_us: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Moment {
    label: String,
    at_ns: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Around {
    before_ns: u64,
    bucket_ns: u64,
    operations: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct FailOvers {
    system: String,
    each: Vec<FailOver>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct FailOver {
    permission_ns: u64,
    total_ns: u64,
}

/// Result of `weft bench rdt-hybrid`.
#[derive(Clone, Debug, Deserialize)]
struct Hybrid {
    nodes: u64,
    commit: String,
    points: Vec<HybridPoint>,
    checked: String,
    replay: String,
}

#[derive(Clone, Debug, Deserialize)]
struct HybridPoint {
    #[serde(rename = "type")]
    name: String,
    updates_percent: u64,
    on_card_percent: u64,
    skew: f64,
    summarize: u64,
    response: Mean,
    operations_per_us: f64,
}

impl DataTypes {
    /// Adds the results in `text`, the content of the file `path`. Returns `false` if it contains other
    /// results.
    ///
    /// # Errors
    /// If the results lack a field.
    pub fn take(&mut self, text: &str, path: &Path) -> Result<bool, ResultError> {
        let Ok(mut value) = serde_json::from_str::<Value>(text) else { return Ok(false) };
        let damaged =
            |error: serde_json::Error| ResultError::Damaged { path: path.into(), reason: error.to_string() };
        let has = |value: &Value, field| value.get(field).is_some();
        let is_measured = |value: &Value| has(value, "class") && has(value, "updates_percent");
        match value.get("result").and_then(Value::as_str) {
            Some("rdt-crash") => self.crashes.push(serde_json::from_value(value).map_err(damaged)?),
            Some("rdt-hybrid") => self.hybrids.push(serde_json::from_value(value).map_err(damaged)?),
            Some("rdt-sweep") => {
                let all: Vec<Measured> = serde_json::from_value(value["runs"].take()).map_err(damaged)?;
                self.measured.extend(all);
            }
            _ if is_measured(&value) => self.measured.push(serde_json::from_value(value).map_err(damaged)?),
            // Several measurements in one file.
            _ if value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_measured)) => {
                let all: Vec<Measured> = serde_json::from_value(value).map_err(damaged)?;
                self.measured.extend(all);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether there is no measurement.
    pub fn is_empty(&self) -> bool {
        self.measured.is_empty() && self.crashes.is_empty() && self.hybrids.is_empty()
    }

    /// The verdicts of the checks.
    fn checks(&self) -> impl Iterator<Item = &str> {
        let measured = self.measured.iter().map(|measured| measured.checked.as_str());
        let crashes = self.crashes.iter().map(|crashes| crashes.checked.as_str());
        let hybrids = self.hybrids.iter().map(|hybrid| hybrid.checked.as_str());
        measured.chain(crashes).chain(hybrids)
    }

    /// Whether the check of every run found no violation.
    pub(super) fn hold(&self) -> bool {
        self.checks().all(|checked| checked == "holds")
    }

    /// Writes all sections.
    pub(super) fn sections(&self, page: &mut Markup) {
        let mut names: Vec<&str> = self.measured.iter().map(|measured| measured.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let of: Vec<_> = self.measured.iter().filter(|measured| measured.name == name).collect();
            measured_section(page, name, &of);
        }
        for crashes in &self.crashes {
            crash_section(page, crashes);
        }
        for hybrid in &self.hybrids {
            hybrid_section(page, hybrid);
        }
    }
}

fn begin(page: &mut Markup, title: &str, checked: &str, description: &str) {
    page.raw("<section>\n<div class=\"title\">").element("h2", &[], title);
    page.element("span", &[("class", "badge simulated".into())], "simulated");
    let class = if checked == "holds" { "good" } else { "bad" };
    page.element(
        "span",
        &[("class", class.into())],
        if checked == "holds" { "all rules hold" } else { checked },
    );
    page.element("span", &[("class", "soft".into())], description).raw("</div>\n");
}

fn end(page: &mut Markup, replays: &[&str]) {
    page.raw("<h3>Repeat</h3>");
    for replay in replays {
        page.element("code", &[], replay).line_break();
    }
    page.raw("</section>\n");
}

/// A point of a line: the line, its position, and the two values that are shown.
struct Sample {
    line: String,
    x: f64,
    response_ns: f64,
    operations_per_us: f64,
}

/// Two charts, for response time and throughput as functions of one quantity.
fn pair_of_charts(page: &mut Markup, over: &str, axis: &str, samples: &[Sample]) {
    let mut names: Vec<&str> = Vec::new();
    for sample in samples {
        if !names.contains(&sample.line.as_str()) {
            names.push(&sample.line);
        }
    }
    let lines = |y: fn(&Sample) -> f64, show: fn(f64) -> String| -> Vec<Line> {
        let line = |name: &&str| {
            let mut of: Vec<&Sample> = samples.iter().filter(|sample| sample.line == *name).collect();
            of.sort_by(|one, other| one.x.total_cmp(&other.x));
            let point = |sample: &&Sample| {
                let title = format!("{name}, {} {axis}: {}", three_digits(sample.x), show(y(sample)));
                Point { x: sample.x, y: y(sample), title }
            };
            Line { name: (*name).to_owned(), points: of.iter().map(point).collect() }
        };
        names.iter().map(line).collect()
    };
    let axis = |label: &str| Axis { label: label.to_owned(), is_logarithmic: false };
    let figures = [
        (
            "Mean response time",
            "µs",
            lines(|sample| sample.response_ns / 1e3, |us| time_with_unit((us * 1e3).round() as u64)),
        ),
        (
            "Throughput",
            "op/µs",
            lines(|sample| sample.operations_per_us, |rate| format!("{} operations/µs", three_digits(rate))),
        ),
    ];
    for (title, unit, lines) in figures {
        let figure = Figure { title: format!("{title} over {over}"), x: axis(over), y: axis(unit), lines };
        if let Some(chart) = curves::chart(&figure) {
            page.element("h3", &[], &figure.title).raw("<figure>").append(chart).raw("</figure>\n");
        }
    }
}

/// The values that occur, in ascending order and without repetition.
fn distinct<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn measured_section(page: &mut Markup, name: &str, all: &[&Measured]) {
    let checked = all.iter().map(|one| one.checked.as_str()).find(|checked| *checked != "holds");
    let nodes = distinct(all.iter().map(|one| one.nodes));
    let updates = distinct(all.iter().map(|one| one.updates_percent));
    begin(page, name, checked.unwrap_or("holds"), &format!("{} measurements", all.len()));
    let whole = |one: &Measured| {
        let Measured { system, configuration, commit, .. } = one;
        format!("{system}, {configuration}, {commit}")
    };
    // A parameter that has the same value everywhere needs no label.
    let several_commits = all.iter().any(|other| other.commit != all[0].commit);
    let line = |one: &Measured| {
        let differs =
            |other: &&Measured| other.system == one.system && other.configuration != one.configuration;
        let mut parts = vec![one.system.as_str()];
        parts.extend(all.iter().any(differs).then_some(one.configuration.as_str()));
        parts.extend(several_commits.then_some(one.commit.as_str()));
        parts.join(", ")
    };
    let sample = |one: &Measured, line: String, x: u64| Sample {
        line,
        x: x as f64,
        response_ns: one.response.mean_ns,
        operations_per_us: one.operations_per_us,
    };
    // If both vary, each chart uses the largest value of the other quantity.
    if updates.len() > 1 {
        let most = nodes.last().copied().unwrap_or_default();
        let of = all.iter().filter(|one| one.nodes == most);
        let samples: Vec<_> = of.map(|one| sample(one, line(one), one.updates_percent)).collect();
        pair_of_charts(page, &format!("share of updates, %, at {most} nodes"), "% updates", &samples);
    }
    if nodes.len() > 1 {
        let most = updates.last().copied().unwrap_or_default();
        let of = all.iter().filter(|one| one.updates_percent == most);
        let samples: Vec<_> = of.map(|one| sample(one, line(one), one.nodes)).collect();
        pair_of_charts(page, &format!("nodes, at {most} % updates"), "nodes", &samples);
    }
    page.raw("<h3>Results</h3>");
    headings(
        page,
        &[
            ("system", ""),
            ("nodes", ""),
            ("updates", "%"),
            ("response", "ns"),
            ("throughput", "op/µs"),
            ("checked", ""),
        ],
    );
    let mut rows = all.to_vec();
    rows.sort_by_key(|one| (whole(one), one.updates_percent, one.nodes));
    for one in rows {
        let class = if one.checked == "holds" { "good" } else { "bad" };
        let row = [
            whole(one),
            one.nodes.to_string(),
            one.updates_percent.to_string(),
            three_digits(one.response.mean_ns),
            three_digits(one.operations_per_us),
        ];
        let row = row.iter().map(|cell| ("", cell.as_str()));
        cells(page, row.chain([(class, one.checked.as_str())]));
    }
    page.raw("</table></div>\n");
    let replays: Vec<&str> = all.iter().map(|one| one.replay.as_str()).collect();
    end(page, &replays);
}

fn crash_section(page: &mut Markup, crashes: &Crashes) {
    let description = format!("{} nodes, commit {}", crashes.nodes, crashes.commit);
    begin(page, "A replica crashes", &crashes.checked, &description);
    let experiments = &crashes.experiments;
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for crash in experiments {
        if !kinds.contains(&(&crash.crash, &crash.name)) {
            kinds.push((&crash.crash, &crash.name));
        }
    }
    for &(victim, name) in &kinds {
        page.element("h2", &[], &format!("The {victim} of {name}"));
        let of = || experiments.iter().filter(|crash| crash.crash == victim && crash.name == name);
        if distinct(of().map(|crash| crash.updates_percent)).len() > 1 {
            let pairs = of().flat_map(|crash| [(crash, false), (crash, true)]);
            let sample = |(crash, crashed): (&Crash, bool)| {
                let outcome = if crashed { &crash.with } else { &crash.without };
                Sample {
                    line: format!("{}{}", crash.system, if crashed { ", crash" } else { "" }),
                    x: crash.updates_percent as f64,
                    response_ns: outcome.response.mean_ns,
                    operations_per_us: outcome.operations_per_us,
                }
            };
            let samples: Vec<_> = pairs.map(sample).collect();
            pair_of_charts(page, "share of updates, %", "% updates", &samples);
        }
        // One line over time for each system: the one with the largest share of updates.
        let most = of().map(|crash| crash.updates_percent).max();
        for crash in of().filter(|crash| Some(crash.updates_percent) == most) {
            if let Some(chart) = around(crash) {
                let title = format!(
                    "Throughput around the crash, operations/s: {}, {} % updates",
                    crash.system, crash.updates_percent
                );
                page.element("h3", &[], &title).raw("<figure>").append(chart).raw("</figure>\n");
            }
        }
    }
    fail_overs(page, &crashes.fail_overs);
    end(page, &[&crashes.replay]);
}

/// A chart of answers and events around the crash.
fn around(crash: &Crash) -> Option<Markup> {
    let Around { before_ns, bucket_ns, operations } = &crash.timeline;
    if *bucket_ns == 0 || operations.is_empty() {
        return None;
    }
    let timeline = Timeline { bucket_ns: *bucket_ns, measured_from_ns: 0, operations: operations.clone() };
    let mark = |moment: &Moment| Mark {
        at_ns: before_ns + moment.at_ns,
        kind: match moment.label.as_str() {
            "crash" => MarkKind::Fault,
            "first commit" => MarkKind::Repair,
            _ => MarkKind::ViewChange,
        },
        node: None,
        label: match moment.at_ns {
            0 => moment.label.clone(),
            after => format!("{}: {}", moment.label, time_with_unit(after)),
        },
    };
    let measured_to_ns = bucket_ns * operations.len() as u64;
    let marks: Vec<Mark> = crash.marks.iter().map(mark).filter(|mark| mark.at_ns <= measured_to_ns).collect();
    let axis =
        format!("time; the crash is at {}, and what follows is told from there", time_with_unit(*before_ns));
    timeline::draw(
        CHART_WIDTH,
        &Shown { timeline: &timeline, measured_to_ns, lanes: &[], marks: &marks, axis: &axis },
    )
}

fn fail_overs(page: &mut Markup, all: &[FailOvers]) {
    let switch = "Permission switch: from the request to a majority of grants";
    let whole = "Fail-over: from the crash of the leader to the next one's first commit";
    for (title, is_switch) in [(switch, true), (whole, false)] {
        let time = |times: &FailOver| if is_switch { times.permission_ns } else { times.total_ns };
        let bars =
            all.iter().map(|of| Bars { name: &of.system, times_ns: of.each.iter().map(time).collect() });
        let bars: Vec<Bars<'_>> = bars.collect();
        if let Some(chart) = bars::chart(CHART_WIDTH, "time, and how often", &bars) {
            page.element("h3", &[], title).raw("<figure>").append(chart).raw("</figure>\n");
        }
    }
}

fn hybrid_section(page: &mut Markup, hybrid: &Hybrid) {
    let description = format!("{} nodes, commit {}", hybrid.nodes, hybrid.commit);
    begin(page, "State on the card and on the host", &hybrid.checked, &description);
    let mut kinds: Vec<&str> = Vec::new();
    for point in &hybrid.points {
        if !kinds.contains(&point.name.as_str()) {
            kinds.push(&point.name);
        }
    }
    for name in kinds {
        let of: Vec<&HybridPoint> = hybrid.points.iter().filter(|point| point.name == name).collect();
        let updates = distinct(of.iter().map(|point| point.updates_percent));
        let on_card = distinct(of.iter().map(|point| point.on_card_percent));
        let skews = distinct(of.iter().map(|point| (point.skew * 1e3).round() as u64));
        let folds = distinct(of.iter().map(|point| point.summarize));
        // A parameter that has the same value everywhere needs no label.
        let line = |point: &HybridPoint, over_skew: bool| {
            let mut parts = Vec::new();
            if updates.len() > 1 {
                parts.push(format!("{} % updates", point.updates_percent));
            }
            if over_skew && on_card.len() > 1 {
                parts.push(format!("{} % on card", point.on_card_percent));
            }
            if !over_skew && skews.len() > 1 {
                parts.push(format!("skew {}", point.skew));
            }
            if folds.len() > 1 {
                parts.push(format!("{} folded", point.summarize));
            }
            if parts.is_empty() { name.to_owned() } else { parts.join(", ") }
        };
        let over_skew = skews.len() > on_card.len();
        let sample = |point: &&HybridPoint| Sample {
            line: line(point, over_skew),
            x: if over_skew { point.skew } else { point.on_card_percent as f64 },
            response_ns: point.response.mean_ns,
            operations_per_us: point.operations_per_us,
        };
        let samples: Vec<_> = of.iter().map(sample).collect();
        page.element("h2", &[], name);
        let (over, unit) = if over_skew {
            ("skew of the keys' popularity", "skew")
        } else {
            ("accesses to keys on the card, %", "% on the card")
        };
        pair_of_charts(page, over, unit, &samples);
    }
    end(page, &[&hybrid.replay]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;

    const CRASH: &str = r#"{"result": "rdt-crash", "nodes": 4, "commit": "majority", "checked": "holds", "replay": "weft a < b",
        "experiments": [{"crash": "leader", "type": "account", "system": "weft", "updates_percent": 20,
            "without": {"response": {"mean_ns": 700.0}, "operations_per_us": 4.0},
            "with": {"response": {"mean_ns": 800.0}, "operations_per_us": 3.5},
            "marks": [{"label": "crash", "at_ns": 0}, {"label": "leads", "at_ns": 20000}],
            "timeline": {"before_ns": 10000, "bucket_ns": 1000, "operations": [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 4]}}],
        "fail_overs": [{"system": "weft", "each": [{"permission_ns": 1500, "total_ns": 30000}]}]}"#;

    fn measured(nodes: u64, updates: u64) -> String {
        format!(
            r#"{{"type": "account", "class": "wrdt", "system": "weft", "configuration": "rpc", "commit": "majority",
            "nodes": {nodes}, "updates_percent": {updates}, "response": {{"mean_ns": {}.5}}, "operations_per_us": 5.0,
            "checked": "holds", "replay": "weft bench rdt"}}"#,
            600 + 10 * nodes + updates
        )
    }

    fn taken(texts: &[&str]) -> DataTypes {
        let mut types = DataTypes::default();
        for text in texts {
            assert!(types.take(text, Path::new("x.json")).unwrap(), "{text}");
        }
        types
    }

    #[test]
    fn each_result_is_shown() {
        let hybrid = r#"{"result": "rdt-hybrid", "nodes": 3, "commit": "majority", "checked": "holds", "replay": "weft bench rdt-hybrid",
            "points": [{"type": "ycsb", "updates_percent": 5, "on_card_percent": 20, "skew": 0.0, "summarize": 1,
                "response": {"mean_ns": 900.0}, "operations_per_us": 3.0},
                {"type": "ycsb", "updates_percent": 5, "on_card_percent": 80, "skew": 0.0, "summarize": 1,
                "response": {"mean_ns": 300.0}, "operations_per_us": 9.0}]}"#;
        let several = format!("[{}, {}]", measured(3, 25), measured(5, 15));
        let sweep = format!(r#"{{"result": "rdt-sweep", "runs": [{}]}}"#, measured(5, 20));
        let types = taken(&[&measured(3, 15), &several, &sweep, CRASH, hybrid]);
        assert_eq!(types.measured.len(), 4);
        assert!(types.hold() && !types.is_empty());
        let html = page("x", &[], &types, &crate::Transactions::default(), &crate::OtherResults::default());
        for expected in [
            "The leader of account",
            "leads: 20.0 µs",
            "Permission switch",
            "weft, rpc, majority",
            "over nodes, at 25 % updates",
            "at 5 nodes",
            "weft a &lt; b",
            "accesses to keys on the card",
            "class=\"verdict good\"",
        ] {
            assert!(html.contains(expected), "{expected}");
        }
    }

    #[test]
    fn other_results_are_left_out_and_results_without_a_field_are_refused() {
        let mut types = DataTypes::default();
        for text in ["", "[]", "{}", "[1]", r#"{"format": "weft-result-1"}"#] {
            assert!(!types.take(text, Path::new("x")).unwrap(), "{text}");
        }
        let error = types.take(r#"{"result": "rdt-crash"}"#, Path::new("x.json")).unwrap_err();
        assert!(error.to_string().contains("x.json"), "{error}");
        assert!(types.is_empty());
    }

    #[test]
    fn a_violation_is_not_hidden() {
        let types = taken(&[&CRASH.replace("\"holds\"", "\"violation\"")]);
        assert!(!types.hold());
        assert!(
            page("x", &[], &types, &crate::Transactions::default(), &crate::OtherResults::default())
                .contains("class=\"verdict bad\"")
        );
    }
}
