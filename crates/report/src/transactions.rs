//! Sections of the page about transactions: latency as a function of throughput, the effect of each part of
//! the design, and how few threads are enough.
//!
//! Only the fields that are shown are read from a file, so other fields may be added to the results.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use weft_results::ResultError;
use weft_results::table::{grouped, microseconds, three_digits, time_with_unit, with_prefix};

use super::curves::{self, Axis, Figure, Line};
use super::latency::{grid_line, label_at};
use super::markup::{Markup, coordinate};
use super::scale::{Scale, linear_ticks};
use super::{CHART_WIDTH, cells, headings};

/// Results about transactions from all files.
#[derive(Clone, Debug, Default)]
pub struct Transactions {
    measured: Vec<Measured>,
    steps: Vec<Steps>,
    threads: Vec<Threads>,
}

/// A measurement of `weft bench txn`.
#[derive(Clone, Debug, Deserialize)]
struct Measured {
    workload: String,
    scale: String,
    system: String,
    nodes: u64,
    replication: u64,
    host_threads: u64,
    without: Vec<String>,
    points: Vec<Point>,
    peak_throughput_per_server: f64,
    median_latency_low_load_ns: u64,
    checked: String,
    replay: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Point {
    outstanding: u64,
    throughput_per_server: f64,
    latency: Latency,
    link_percent: f64,
    nic_percent: f64,
    host_percent: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Latency {
    p50_ns: u64,
    p99_ns: u64,
}

/// Result of `weft bench txn-steps`.
#[derive(Clone, Debug, Deserialize)]
struct Steps {
    nodes: u64,
    panels: Vec<Panel>,
    checked: String,
    replay: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Panel {
    quantity: Quantity,
    workload: String,
    scale: String,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Quantity {
    Throughput,
    Latency,
}

#[derive(Clone, Debug, Deserialize)]
struct Step {
    name: String,
    peak_throughput_per_server: f64,
    median_latency_low_load_ns: u64,
    of_baseline: f64,
    published: Option<f64>,
}

/// Result of `weft bench txn-threads`.
#[derive(Clone, Debug, Deserialize)]
struct Threads {
    nodes: u64,
    rows: Vec<Few>,
    checked: String,
    replay: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Few {
    workload: String,
    system: String,
    peak_throughput_per_server: f64,
    host_threads: u64,
    nic_cores: Option<u64>,
    normalised: f64,
    published: Option<f64>,
}

impl Transactions {
    /// Adds the results in `text`, the content of the file `path`. Returns `false` if it contains other
    /// results.
    ///
    /// # Errors
    /// If the results lack a field.
    pub fn take(&mut self, text: &str, path: &Path) -> Result<bool, ResultError> {
        let Ok(value) = serde_json::from_str::<Value>(text) else { return Ok(false) };
        let damaged =
            |error: serde_json::Error| ResultError::Damaged { path: path.into(), reason: error.to_string() };
        match value.get("result").and_then(Value::as_str) {
            Some("txn-steps") => self.steps.push(serde_json::from_value(value).map_err(damaged)?),
            Some("txn-threads") => self.threads.push(serde_json::from_value(value).map_err(damaged)?),
            _ if value.get("median_latency_low_load_ns").is_some() => {
                self.measured.push(serde_json::from_value(value).map_err(damaged)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether there is no measurement.
    pub fn is_empty(&self) -> bool {
        self.measured.is_empty() && self.steps.is_empty() && self.threads.is_empty()
    }

    /// The verdicts of the checks.
    fn checks(&self) -> impl Iterator<Item = &str> {
        let measured = self.measured.iter().map(|measured| measured.checked.as_str());
        let steps = self.steps.iter().map(|steps| steps.checked.as_str());
        measured.chain(steps).chain(self.threads.iter().map(|threads| threads.checked.as_str()))
    }

    /// Whether every run was checked and no check found a violation.
    pub(super) fn hold(&self) -> bool {
        self.checks().all(|checked| checked == "holds")
    }

    /// Whether a check has found a violation.
    pub(super) fn are_violated(&self) -> bool {
        self.checks().any(|checked| checked != "holds" && checked != "not checked")
    }

    /// Writes all sections.
    pub(super) fn sections(&self, page: &mut Markup) {
        let mut workloads: Vec<&str> = Vec::new();
        for measured in &self.measured {
            if !workloads.contains(&measured.workload.as_str()) {
                workloads.push(&measured.workload);
            }
        }
        for workload in workloads {
            let of: Vec<_> = self.measured.iter().filter(|measured| measured.workload == workload).collect();
            measured_section(page, workload, &of);
        }
        self.steps.iter().for_each(|steps| steps_section(page, steps));
        self.threads.iter().for_each(|threads| threads_section(page, threads));
    }
}

fn begin<'a>(page: &mut Markup, title: &str, mut checks: impl Iterator<Item = &'a str>, description: &str) {
    page.raw("<section>\n<div class=\"title\">").element("h2", &[], title);
    page.element("span", &[("class", "badge simulated".into())], "simulated");
    let (class, checked) = match checks.find(|checked| *checked != "holds") {
        None => ("good", "strictly serializable"),
        Some("not checked") => ("open", "not checked"),
        Some(other) => ("bad", other),
    };
    page.element("span", &[("class", class.into())], checked);
    page.element("span", &[("class", "soft".into())], description).raw("</div>\n");
}

fn end<'a>(page: &mut Markup, replays: impl Iterator<Item = &'a str>) {
    page.raw("<h3>Repeat</h3>");
    for replay in replays {
        page.element("code", &[], replay).line_break();
    }
    page.raw("</section>\n");
}

/// Name of a measurement that distinguishes it from others of its workload.
fn name(measured: &Measured) -> String {
    let mut name = measured.system.clone();
    if !measured.without.is_empty() {
        name += &format!(" without {}", measured.without.join(", "));
    }
    name
}

fn measured_section(page: &mut Markup, workload: &str, all: &[&Measured]) {
    let first = all[0];
    let description = format!("{}, {} servers, {} replicas", first.scale, first.nodes, first.replication);
    let checks = all.iter().map(|measured| measured.checked.as_str());
    begin(page, &format!("Transactions of {workload}"), checks, &description);
    let line = |measured: &&Measured| {
        let points = measured.points.iter().map(|point| curves::Point {
            x: point.throughput_per_server,
            y: point.latency.p50_ns as f64 / 1e3,
            title: format!(
                "{}, {} under way: {} transactions/s, {}",
                name(measured),
                point.outstanding,
                with_prefix(point.throughput_per_server),
                time_with_unit(point.latency.p50_ns)
            ),
        });
        Line { name: name(measured), points: points.collect() }
    };
    // A figure can show at most five lines that differ clearly.
    for some in all.chunks(5) {
        let figure = Figure {
            title: format!("Median latency over throughput of {workload}"),
            x: Axis { label: "committed transactions a second, per server".into(), is_logarithmic: false },
            y: Axis { label: "µs".into(), is_logarithmic: true },
            lines: some.iter().map(line).collect(),
        };
        if let Some(chart) = curves::chart(&figure) {
            page.element("h3", &[], &figure.title).raw("<figure>").append(chart).raw("</figure>\n");
        }
    }
    page.raw("<h3>Results</h3>");
    headings(
        page,
        &[
            ("system", ""),
            ("host threads", ""),
            ("peak", "transactions/s/server"),
            ("median at low load", "µs"),
            ("p99 at the peak", "µs"),
            ("NIC at the peak", "%"),
            ("host at the peak", "%"),
            ("link at the peak", "%"),
            ("checked", ""),
        ],
    );
    for measured in all {
        let highest =
            |one: &&Point, other: &&Point| one.throughput_per_server.total_cmp(&other.throughput_per_server);
        let peak = measured.points.iter().max_by(highest);
        let of_peak = |of: fn(&Point) -> String| peak.map_or_else(|| "–".to_owned(), of);
        let row = [
            name(measured),
            grouped(measured.host_threads),
            with_prefix(measured.peak_throughput_per_server),
            microseconds(measured.median_latency_low_load_ns),
            of_peak(|point| microseconds(point.latency.p99_ns)),
            of_peak(|point| three_digits(point.nic_percent)),
            of_peak(|point| three_digits(point.host_percent)),
            of_peak(|point| three_digits(point.link_percent)),
        ];
        let class = if measured.checked == "holds" { "good" } else { "bad" };
        let row = row.iter().map(|cell| ("", cell.as_str()));
        cells(page, row.chain([(class, measured.checked.as_str())]));
    }
    page.raw("</table></div>\n");
    end(page, all.iter().map(|measured| measured.replay.as_str()));
}

fn steps_section(page: &mut Markup, steps: &Steps) {
    let description = format!("{} servers; multiples of the baseline, beside Xenic's figure 9", steps.nodes);
    begin(page, "What each part adds", std::iter::once(steps.checked.as_str()), &description);
    for panel in &steps.panels {
        let (head, value): (_, fn(&Step) -> String) = match panel.quantity {
            Quantity::Throughput => ("Throughput at the peak", |step| {
                format!("{} transactions/s/server", with_prefix(step.peak_throughput_per_server))
            }),
            Quantity::Latency => {
                ("Median latency at low load", |step| time_with_unit(step.median_latency_low_load_ns))
            }
        };
        let title = format!("{head}, {}: {}", panel.workload, panel.scale);
        page.element("h3", &[], &title)
            .raw("<figure>")
            .append(bars(&title, &panel.steps, value))
            .raw("</figure>\n");
    }
    end(page, std::iter::once(steps.replay.as_str()));
}

const ROW: f64 = 40.0;
const BAR: f64 = 14.0;
const NAMES: f64 = 240.0;
const VALUES: f64 = 210.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 44.0;

/// Two bars for each step, the measured and the published value, as multiples of the baseline.
fn bars(title: &str, steps: &[Step], value: impl Fn(&Step) -> String) -> Markup {
    let all = steps.iter().flat_map(|step| [Some(step.of_baseline), step.published]).flatten();
    let most = all.filter(|multiple| multiple.is_finite()).fold(1.0, f64::max);
    let (ticks, end) = linear_ticks(most, 6);
    let x = Scale::new((0.0, end), (NAMES, CHART_WIDTH - VALUES));
    let bottom = TOP + ROW * steps.len() as f64;
    let mut svg = Markup::new();
    let view = format!("0 0 {CHART_WIDTH} {}", bottom + BOTTOM);
    svg.open("svg", &[("viewBox", view.into()), ("role", "img".into()), ("aria-label", title.into())]);
    for tick in ticks {
        let at = x.at(tick);
        grid_line(&mut svg, (at, at), (TOP, bottom));
        label_at(&mut svg, (at, bottom + 18.0), "middle", &format!("{}×", three_digits(tick)));
    }
    let middle = (NAMES + CHART_WIDTH - VALUES) / 2.0;
    label_at(&mut svg, (middle, bottom + 38.0), "middle", "of the baseline: above measured, below Xenic's");
    for (index, step) in steps.iter().enumerate() {
        let top = TOP + ROW * index as f64 + (ROW - 2.0 * BAR) / 2.0;
        label_at(&mut svg, (NAMES - 10.0, top + BAR + 4.0), "end", &step.name);
        let shown = value(step);
        let both = [(Some(step.of_baseline), "bar s0", "measured"), (step.published, "bar s1", "published")];
        for (place, (multiple, class, whose)) in both.into_iter().enumerate() {
            let Some(multiple) = multiple.filter(|multiple| multiple.is_finite()) else { continue };
            let rectangle = [
                ("class", class.into()),
                ("x", coordinate(NAMES)),
                ("y", coordinate(top + BAR * place as f64)),
                ("width", coordinate(x.at(multiple) - NAMES)),
                ("height", coordinate(BAR - 1.0)),
            ];
            svg.titled("rect", &rectangle, &format!("{}, {whose}: {}×", step.name, three_digits(multiple)));
        }
        let longest = step.of_baseline.max(step.published.unwrap_or(0.0)).min(end);
        label_at(&mut svg, (x.at(longest) + 8.0, top + BAR + 4.0), "start", &shown);
    }
    svg.close("svg").line_break();
    svg
}

fn threads_section(page: &mut Markup, threads: &Threads) {
    let description =
        format!("{} servers; what leaves 95 % of the peak, beside Xenic's table 3", threads.nodes);
    begin(page, "How few threads suffice", std::iter::once(threads.checked.as_str()), &description);
    headings(
        page,
        &[
            ("workload", ""),
            ("system", ""),
            ("peak", "transactions/s/server"),
            ("host threads", ""),
            ("NIC cores", ""),
            ("normalised", "threads"),
            ("Xenic's", "threads"),
        ],
    );
    for row in &threads.rows {
        let row = [
            row.workload.clone(),
            row.system.clone(),
            with_prefix(row.peak_throughput_per_server),
            grouped(row.host_threads),
            row.nic_cores.map_or_else(|| "–".to_owned(), grouped),
            three_digits(row.normalised),
            row.published.map_or_else(|| "–".to_owned(), three_digits),
        ];
        cells(page, row.iter().map(|cell| ("", cell.as_str())));
    }
    page.raw("</table></div>\n");
    end(page, std::iter::once(threads.replay.as_str()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataTypes, page};

    fn measured(system: &str, checked: &str) -> String {
        let point = |outstanding: u64, p50: u64| {
            format!(
                r#"{{"outstanding": {outstanding}, "throughput_per_server": {outstanding}000.5, "latency": {{"p50_ns": {p50}, "p99_ns": 90000}},
                "link_percent": 1.5, "nic_percent": 20.0, "host_percent": 3.0}}"#
            )
        };
        format!(
            r#"{{"workload": "retwis", "scale": "9 keys", "system": "{system}", "nodes": 6, "replication": 3, "host_threads": 32,
            "without": [], "points": [{}, {}], "peak_throughput_per_server": 64000.5, "median_latency_low_load_ns": 8000,
            "checked": "{checked}", "replay": "weft bench txn a < b"}}"#,
            point(1, 8_000),
            point(64, 50_000)
        )
    }

    const STEPS: &str = r#"{"result": "txn-steps", "nodes": 6, "checked": "holds", "replay": "weft bench txn-steps", "panels": [
        {"quantity": "throughput", "workload": "retwis", "scale": "9 keys", "steps": [
            {"name": "baseline", "peak_throughput_per_server": 1e6, "median_latency_low_load_ns": 20000, "of_baseline": 1.0, "published": 1.0},
            {"name": "+ combined", "peak_throughput_per_server": 1.5e6, "median_latency_low_load_ns": 15000, "of_baseline": 1.5, "published": null}]},
        {"quantity": "latency", "workload": "smallbank", "scale": "9 accounts", "steps": [
            {"name": "baseline", "peak_throughput_per_server": 1e6, "median_latency_low_load_ns": 20000, "of_baseline": 1.0, "published": 1.0}]}]}"#;

    const THREADS: &str = r#"{"result": "txn-threads", "nodes": 6, "checked": "holds", "replay": "weft bench txn-threads", "rows": [
        {"workload": "retwis", "system": "weft", "peak_throughput_per_server": 1e6, "host_threads": 4, "nic_cores": 12, "normalised": 7.72,
        "published": 9.9}, {"workload": "retwis", "system": "fasst", "peak_throughput_per_server": 1e6, "host_threads": 30, "nic_cores": null,
        "normalised": 30.0, "published": 24.0}]}"#;

    fn shown(texts: &[&str]) -> String {
        let mut transactions = Transactions::default();
        for text in texts {
            assert!(transactions.take(text, Path::new("x.json")).unwrap(), "{text}");
        }
        page("x", &[], &DataTypes::default(), &transactions, &crate::OtherResults::default())
    }

    #[test]
    fn each_result_is_shown() {
        let html = shown(&[&measured("weft", "holds"), &measured("fasst", "holds"), STEPS, THREADS]);
        for expected in [
            "Transactions of retwis",
            "weft, 64 under way: 64.0 k transactions/s, 50.0 µs",
            "weft bench txn a &lt; b",
            "+ combined, measured: 1.50×",
            "Median latency at low load, smallbank",
            "7.72",
            "class=\"verdict good\"",
        ] {
            assert!(html.contains(expected), "{expected}");
        }
        // No published value exists for the second step of the first panel.
        assert_eq!(html.matches("published:").count(), 2);
    }

    #[test]
    fn other_results_are_left_out_and_results_without_a_field_are_refused() {
        let mut transactions = Transactions::default();
        for text in ["", "[]", "{}", r#"{"result": "rdt-crash"}"#] {
            assert!(!transactions.take(text, Path::new("x")).unwrap(), "{text}");
        }
        let error = transactions.take(r#"{"result": "txn-steps"}"#, Path::new("x.json")).unwrap_err();
        assert!(error.to_string().contains("x.json"), "{error}");
        assert!(transactions.is_empty());
    }

    #[test]
    fn what_is_violated_or_unchecked_is_not_called_good() {
        assert!(shown(&[&measured("weft", "violation")]).contains("class=\"verdict bad\""));
        assert!(shown(&[&measured("weft", "not checked")]).contains("class=\"verdict open\""));
    }
}
