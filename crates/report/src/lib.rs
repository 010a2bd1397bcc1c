//! One self-contained page that shows results. It can be read offline, in print, and in light and dark mode.
//! [`perfetto`] writes traces for Perfetto's viewer.
//!
//! The page loads no other files and runs no scripts. It contains its style and drawings, and its content
//! policy forbids everything else.

mod bars;
pub mod curves;
mod data_types;
mod latency;
mod markup;
mod other;
pub mod perfetto;
mod scale;
mod svg;
mod timeline;
mod transactions;

pub use data_types::DataTypes;
use markup::Markup;
pub use other::OtherResults;
pub use svg::{Drawing, drawings};
pub use transactions::Transactions;

use weft_results::table::{grouped, microseconds, three_digits, time_with_unit, with_prefix};
use weft_results::{Checked, LatencyResult, MachineKind, RunResult};

/// The width of a chart in its own units. The page scales the chart.
const CHART_WIDTH: f64 = 980.0;

/// One result on the page.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Name of the run, for pages that compare several: `simulated`, `real`, ...
    pub name: &'a str,
    /// The measurements.
    pub result: &'a RunResult,
    /// The folder of the result file, relative to the folder of the page. Links to the run's files begin with
    /// it. Empty if both folders are the same.
    pub folder: &'a str,
}

/// The page as HTML: runs of the key-value store, measurements of data types and of transactions, and other
/// kinds of results.
pub fn page(
    title: &str,
    runs: &[Run<'_>],
    types: &DataTypes,
    transactions: &Transactions,
    others: &OtherResults,
) -> String {
    let mut page = Markup::new();
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
        .raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
        .raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n")
        .element("title", &[], title)
        .raw("\n<style>\n")
        .raw(include_str!("style.css"))
        .raw("</style>\n</head>\n<body>\n<main>\n<header>")
        .raw(WOVEN)
        .element("h1", &[], title)
        .raw("</header>\n");
    verdict(&mut page, runs, types, transactions, others);
    if runs.len() > 1 {
        page.raw("<section>\n").element("h2", &[], "Side by side");
        comparison(&mut page, runs);
        let series: Vec<_> =
            runs.iter().map(|run| latency::Series { name: run.name, latency: &run.result.latency }).collect();
        latency_figure(&mut page, "Latency of all operations", &series);
        page.raw("</section>\n");
    }
    for run in runs {
        section(&mut page, run);
    }
    types.sections(&mut page);
    transactions.sections(&mut page);
    others.sections(&mut page);
    page.raw("<footer>Rest the pointer on a chart to read its values. ")
        .raw("Times marked simulated follow from cost models and say nothing about this machine.</footer>\n")
        .raw("</main>\n</body>\n</html>\n");
    page.finish()
}

/// The logo: two threads that are woven over and under two others.
const WOVEN: &str = "<svg viewBox=\"0 0 34 34\" aria-hidden=\"true\"><g fill=\"none\" stroke-width=\"5\" stroke-linecap=\"round\">\
<path d=\"M3 11H31M3 23H31\" stroke=\"var(--s0)\"/>\
<path d=\"M11 3V7M11 15V31M23 3V19M23 27V31\" stroke=\"var(--s1)\"/></g></svg>";

fn is_good(result: &RunResult) -> bool {
    result.checked == Checked::Exclusive
        || result.checked == Checked::Linearizable && result.lost_acknowledged_writes == Some(0)
}

fn is_bad(result: &RunResult) -> bool {
    matches!(result.checked, Checked::NotLinearizable | Checked::NotExclusive)
        || result.lost_acknowledged_writes.is_some_and(|lost| lost > 0)
}

fn verdict(
    page: &mut Markup,
    runs: &[Run<'_>],
    types: &DataTypes,
    transactions: &Transactions,
    others: &OtherResults,
) {
    let operations = runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.result.operations));
    let bad: Vec<_> = runs.iter().filter(|run| is_bad(run.result)).map(|run| run.name).collect();
    let open: Vec<_> =
        runs.iter().filter(|run| !is_bad(run.result) && !is_good(run.result)).map(|run| run.name).collect();
    let (class, head, body) = if runs.is_empty()
        && types.is_empty()
        && transactions.is_empty()
        && others.is_empty()
    {
        ("verdict open", "Nothing to show", "No result was given.".to_owned())
    } else if !types.hold() {
        let body = "A run of a data type breaks a rule; its command below repeats it.".to_owned();
        ("verdict bad", "Violation", body)
    } else if transactions.are_violated() {
        let body = "A run of transactions breaks a rule; its command below repeats it.".to_owned();
        ("verdict bad", "Violation", body)
    } else if others.are_violated() {
        let body = "A result below says that a check failed; its command repeats it.".to_owned();
        ("verdict bad", "Violation", body)
    } else if !bad.is_empty() {
        let body = format!(
            "The history breaks what the protocol promises: {}. The seed and the command below repeat it.",
            bad.join(", ")
        );
        ("verdict bad", "Violation", body)
    } else if !open.is_empty() {
        ("verdict open", "Not fully checked", format!("Without a complete check: {}.", open.join(", ")))
    } else if !transactions.hold() {
        let body = "Some runs of transactions were not checked for strict serializability.".to_owned();
        ("verdict open", "Not fully checked", body)
    } else if !others.hold() {
        let body = "Some results below were not checked.".to_owned();
        ("verdict open", "Not fully checked", body)
    } else if runs.is_empty() && !others.is_empty() {
        ("verdict good", "All checks passed", "No result below says that a check failed.".to_owned())
    } else if runs.is_empty() && types.is_empty() {
        let body =
            "Every history is strictly serializable, and the tables keep the invariants of their workload.";
        ("verdict good", "Strictly serializable", body.to_owned())
    } else if runs.is_empty() {
        let body = "Every call of every run was checked: convergence, invariants, exactly once, one order in each group.";
        ("verdict good", "All rules hold", body.to_owned())
    } else {
        let body = format!(
            "All {} measured operations are in a checked history. No acknowledged write was lost.",
            grouped(operations)
        );
        ("verdict good", "Linearizable", body)
    };
    page.open("div", &[("class", class.into())])
        .element("b", &[], head)
        .element("span", &[], &body)
        .close("div")
        .line_break();
}

fn headings(page: &mut Markup, headings: &[(&str, &str)]) {
    page.raw("<div class=\"scroll\"><table>\n<tr>");
    for (name, unit) in headings {
        page.open("th", &[]).text(name);
        if !unit.is_empty() {
            page.raw("<br><small>").text(unit).raw("</small>");
        }
        page.close("th");
    }
    page.raw("</tr>\n");
}

fn cells<'a>(page: &mut Markup, cells: impl IntoIterator<Item = (&'static str, &'a str)>) {
    page.open("tr", &[]);
    for (class, cell) in cells {
        page.element("td", &[("class", class.into())], cell);
    }
    page.close("tr").line_break();
}

fn comparison(page: &mut Markup, runs: &[Run<'_>]) {
    page.raw("<h3>Results</h3>");
    headings(
        page,
        &[
            ("run", ""),
            ("throughput", "operations/s"),
            ("p50", "µs"),
            ("p99", "µs"),
            ("p99.9", "µs"),
            ("lost writes", ""),
            ("checked", ""),
        ],
    );
    for run in runs {
        let result = run.result;
        let lost = result.lost_acknowledged_writes.map_or_else(|| "–".to_owned(), grouped);
        let class = if is_bad(result) {
            "bad"
        } else if is_good(result) {
            "good"
        } else {
            "open"
        };
        cells(
            page,
            [
                ("", run.name),
                ("", &three_digits(result.throughput_ops_per_s)),
                ("", &microseconds(result.p50_ns)),
                ("", &microseconds(result.p99_ns)),
                ("", &microseconds(result.p999_ns)),
                ("", &lost),
                (class, &result.checked.to_string()),
            ],
        );
    }
    page.raw("</table></div>\n");
    let basis = |run: &Run<'_>| (run.result.machine.kind, run.result.machine.description.clone());
    if runs.iter().any(|run| basis(run) != basis(&runs[0])) {
        page.element("p", &[("class", "open".into())], DIFFERENT_BASES);
    }
}

/// Text next to a table of results that cannot be compared.
const DIFFERENT_BASES: &str = "These runs stand on different bases (simulated, Verilated or real; cost profile; \
network): their times and rates do not compare engines. Each section below names its basis.";

fn latency_figure(page: &mut Markup, title: &str, series: &[latency::Series<'_>]) {
    if let Some(chart) = latency::chart(CHART_WIDTH, series) {
        page.element("h3", &[], title).raw("<figure>").append(chart).raw("</figure>\n");
    }
}

fn section(page: &mut Markup, run: &Run<'_>) {
    let result = run.result;
    page.raw("<section>\n<div class=\"title\">");
    page.element("h2", &[], &format!("{} on {} nodes", result.workload, result.nodes));
    let (kind, badge) = match result.machine.kind {
        MachineKind::Simulated => ("simulated", "badge simulated"),
        MachineKind::Verilated => ("Verilated", "badge verilated"),
        MachineKind::Real => ("real", "badge real"),
    };
    page.element("span", &[("class", badge.into())], kind);
    let description = format!("{} NIC, world {}: {}", result.nic, result.world, result.machine.description);
    page.element("span", &[("class", "soft".into())], &description).raw("</div>\n");
    figures(page, result);
    if let Some(chart) = timeline::chart(CHART_WIDTH, result) {
        let title = if result.lanes.is_empty() {
            "Throughput, operations/s"
        } else {
            "Throughput, operations/s, and the cluster"
        };
        page.element("h3", &[], title).raw("<figure>").append(chart).raw("</figure>\n");
        if !result.lanes.is_empty() {
            page.raw(LANE_LEGEND);
        }
    }
    operations(page, result);
    if !result.check_report.is_empty() {
        page.raw("<h3>What the check found</h3>").element("pre", &[], &result.check_report).line_break();
    }
    facts(page, result);
    page.raw("<h3>Repeat this run</h3>").element("code", &[], &result.replay).line_break();
    files(page, run);
    page.raw("</section>\n");
}

const LANE_LEGEND: &str = "<ul class=\"legend\"><li><i class=\"serving\"></i>serving</li>\
<li><i class=\"lead\"></i>share of partitions led</li><li><i class=\"joining\"></i>joining</li>\
<li><i class=\"fenced\"></i>fenced</li><li><i class=\"down\"></i>down</li></ul>\n";

fn figures(page: &mut Markup, result: &RunResult) {
    page.raw("<dl class=\"figures\">");
    let throughput = with_prefix(result.throughput_ops_per_s);
    let (number, prefix) = throughput.split_once(' ').unwrap_or((&throughput, ""));
    figure(page, "throughput", number, &format!("{prefix} ops/s"));
    for (name, ns) in [("p50", result.p50_ns), ("p99", result.p99_ns), ("p99.9", result.p999_ns)] {
        let time = time_with_unit(ns);
        let (number, unit) = time.split_once(' ').unwrap_or((&time, ""));
        figure(page, name, number, unit);
    }
    let lost = result.lost_acknowledged_writes.map_or_else(|| "–".to_owned(), grouped);
    figure(
        page,
        "lost writes",
        &lost,
        if result.lost_acknowledged_writes.is_none() { "not checked" } else { "" },
    );
    page.raw("</dl>\n");
}

fn figure(page: &mut Markup, name: &str, number: &str, unit: &str) {
    page.raw("<div>").element("dt", &[], name).open("dd", &[]).text(number).raw(" ");
    page.element("small", &[], unit.trim()).close("dd").raw("</div>");
}

fn operations(page: &mut Markup, result: &RunResult) {
    let all = ("all".to_owned(), &result.latency);
    let mut kinds: Vec<(String, &LatencyResult)> = result
        .by_operation
        .iter()
        .map(|(kind, operation)| (kind.replace('_', "-"), &operation.latency))
        .collect();
    if kinds.len() != 1 {
        kinds.push(all);
    }
    let series: Vec<_> =
        kinds.iter().map(|(name, latency)| latency::Series { name: name.as_str(), latency }).collect();
    latency_figure(page, "Latency by operation", &series);
    page.raw("<h3>Operations</h3>");
    headings(
        page,
        &[
            ("operation", ""),
            ("count", ""),
            ("failed", ""),
            ("min", "µs"),
            ("mean", "µs"),
            ("p50", "µs"),
            ("p90", "µs"),
            ("p99", "µs"),
            ("p99.9", "µs"),
            ("max", "µs"),
        ],
    );
    let failed = |name: &str| {
        let failed =
            result.by_operation.iter().filter(|(kind, _)| name == "all" || kind.replace('_', "-") == name);
        failed.fold(0u64, |sum, (_, operation)| sum.saturating_add(operation.failed))
    };
    for (name, latency) in &kinds {
        let summary = &latency.summary;
        let times = [
            microseconds(summary.min_ns),
            three_digits(summary.mean_ns / 1e3),
            microseconds(summary.p50_ns),
            microseconds(summary.p90_ns),
            microseconds(summary.p99_ns),
            microseconds(summary.p999_ns),
            microseconds(summary.max_ns),
        ];
        let counts = [name.clone(), grouped(summary.operations), grouped(failed(name))];
        cells(page, counts.iter().chain(&times).map(|cell| ("", cell.as_str())));
    }
    page.raw("</table></div>\n");
}

fn facts(page: &mut Markup, result: &RunResult) {
    page.raw("<h3>The run</h3><dl class=\"facts\">");
    let mut fact = |name: &str, value: &str| {
        page.raw("<div>").element("dt", &[], name).element("dd", &[], value).raw("</div>");
    };
    fact("seed", &result.seed.to_string());
    fact(
        "log hash",
        result.log_hash.as_deref().unwrap_or("none: a run in real time cannot be replayed to the bit"),
    );
    fact("checked", &result.checked.to_string());
    fact("measured for", &time_with_unit(result.measured_ns));
    for (name, value) in &result.parameters {
        let value = match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.as_u64().map_or_else(|| other.to_string(), grouped),
        };
        fact(&name.replace('_', " "), &value);
    }
    for (kind, count) in &result.faults {
        fact(&format!("faults: {}", kind.replace('_', " ")), &grouped(*count));
    }
    page.raw("</dl>\n");
}

fn files(page: &mut Markup, run: &Run<'_>) {
    if run.result.files.is_empty() {
        return;
    }
    page.raw("<h3>Files</h3><ul class=\"files\">");
    for file in &run.result.files {
        let target = relative_link(run.folder, &file.path);
        page.raw("<li>").element("a", &[("href", target.into())], &file.title).raw("</li>");
    }
    page.raw("</ul>\n");
}

/// A link relative to the page's folder, with all special characters escaped.
fn relative_link(folder: &str, path: &str) -> String {
    let whole = if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") };
    let mut link = String::from("./");
    for byte in whole.trim_start_matches('/').bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                link.push(char::from(byte))
            }
            other => link.push_str(&format!("%{other:02X}")),
        }
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_results::{Mark, MarkKind, World, example};

    fn two_runs(first: &RunResult, second: &RunResult) -> String {
        let runs = [
            Run { name: "simulated", result: first, folder: "" },
            Run { name: "real", result: second, folder: "net" },
        ];
        page(
            "A cluster that loses a leader",
            &runs,
            &DataTypes::default(),
            &Transactions::default(),
            &OtherResults::default(),
        )
    }

    /// Checks that every element that is opened is closed, in the right order. The page is written so that it
    /// fulfils this simple rule.
    fn assert_well_formed(page: &str) {
        const VOID: [&str; 4] = ["!doctype", "meta", "br", "path/"];
        let mut open = Vec::new();
        for (at, _) in page.match_indices('<') {
            let tag = &page[at + 1..at + page[at..].find('>').expect("a tag ends")];
            let name = tag.split([' ', '\n']).next().unwrap();
            if let Some(name) = name.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "at {at}");
            } else if !tag.ends_with('/') && !VOID.contains(&name) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn a_page_is_well_formed_and_loads_nothing() {
        let html = two_runs(&example(World::Sim), &example(World::Net));
        assert_well_formed(&html);
        for forbidden in ["http://", "https://", "<script", "<link", "<img", "src=", "@import", "url("] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
        for expected in [
            "node1 crashes",
            "epoch 2",
            "leads 21 of 64",
            "weft bench kv --world sim --nodes 3",
            "href=\"./sim/node0-port0.pcapng\"",
            "href=\"./net/sim/trace.perfetto\"",
            "99.9 %",
            "9f86d081884c7d65",
            "prefers-color-scheme: dark",
            "class=\"verdict good\"",
        ] {
            assert!(html.contains(expected), "{expected}");
        }
    }

    #[test]
    fn figures_on_the_page_are_those_of_the_result() {
        let result = example(World::Sim);
        let html = page(
            "x",
            &[Run { name: "one", result: &result, folder: "" }],
            &DataTypes::default(),
            &Transactions::default(),
            &OtherResults::default(),
        );
        assert!(html.contains(&format!("<td class=\"\">{}</td>", grouped(result.operations))));
        assert!(html.contains(&format!("<td class=\"\">{}</td>", microseconds(result.p99_ns))));
        assert!(!html.contains("Side by side"));
    }

    #[test]
    fn the_verdict_follows_the_checks() {
        let good = example(World::Sim);
        let mut bad = example(World::Net);
        bad.checked = Checked::NotLinearizable;
        bad.check_report = "client 3 read 5 <after> 6 was acknowledged".into();
        let html = two_runs(&good, &bad);
        assert!(html.contains("class=\"verdict bad\"") && html.contains("promises: real."));
        assert!(html.contains("5 &lt;after&gt; 6"));
        bad.checked = Checked::NotChecked;
        assert!(two_runs(&good, &bad).contains("class=\"verdict open\""));
        bad.checked = Checked::Linearizable;
        bad.lost_acknowledged_writes = Some(1);
        assert!(two_runs(&good, &bad).contains("class=\"verdict bad\""));
        assert!(
            page("x", &[], &DataTypes::default(), &Transactions::default(), &OtherResults::default())
                .contains("class=\"verdict open\"")
        );
    }

    #[test]
    fn hostile_text_stays_text() {
        let mut result = example(World::Sim);
        let hostile = "</title></text><script>alert(1)</script>\" onload=\"x";
        result.workload = hostile.into();
        result.replay = hostile.into();
        result.machine.description = hostile.into();
        result.marks.push(Mark { at_ns: 1, kind: MarkKind::Fault, node: None, label: hostile.into() });
        result.lanes[0].name = hostile.into();
        result.files[0].path = "javascript:alert(1)".into();
        result.files[1].path = "//elsewhere/x?y#z".into();
        result.parameters.insert(hostile.into(), hostile.into());
        let html = page(
            hostile,
            &[Run { name: hostile, result: &result, folder: "" }],
            &DataTypes::default(),
            &Transactions::default(),
            &OtherResults::default(),
        );
        assert_well_formed(&html);
        assert!(!html.contains("<script") && !html.contains("\" onload"));
        assert!(html.contains("href=\"./javascript%3Aalert%281%29\""));
        assert!(html.contains("href=\"./elsewhere/x%3Fy%23z\""));
    }

    /// A result from a file may contain any values that its types allow.
    #[test]
    fn extreme_figures_do_not_break_the_page() {
        let mut result = example(World::Sim);
        result.timeline.bucket_ns = u64::MAX;
        result.timeline.measured_from_ns = u64::MAX;
        result.measured_ns = u64::MAX;
        result.timeline.operations = vec![u64::MAX; 500];
        result.throughput_ops_per_s = f64::MAX;
        result.latency.distribution[0].latency_ns = u64::MAX;
        result.latency.distribution[1].quantile = 7.0;
        result.latency.summary.max_ns = u64::MAX;
        result.latency.summary.min_ns = u64::MAX;
        result.lanes[0].states[0].from_ns = u64::MAX;
        result.lanes[0].leads[0].partitions = 0;
        let html = page(
            "x",
            &[Run { name: "one", result: &result, folder: "" }],
            &DataTypes::default(),
            &Transactions::default(),
            &OtherResults::default(),
        );
        assert_well_formed(&html);
        assert!(!html.contains("NaN") && !html.contains("inf"));
        result.timeline = Default::default();
        result.latency = LatencyResult::default();
        result.by_operation.clear();
        result.marks.clear();
        result.lanes.clear();
        assert_well_formed(&page(
            "x",
            &[Run { name: "one", result: &result, folder: "" }],
            &DataTypes::default(),
            &Transactions::default(),
            &OtherResults::default(),
        ));
    }

    /// Writes the page to the path in WEFT_REPORT_EXAMPLE, so that one can look at it.
    #[test]
    fn an_example_can_be_looked_at() {
        let html = two_runs(&example(World::Sim), &example(World::Net));
        if let Some(path) = std::env::var_os("WEFT_REPORT_EXAMPLE") {
            std::fs::write(path, &html).unwrap();
        }
        assert!(html.len() < 400_000, "{} bytes", html.len());
    }
}
