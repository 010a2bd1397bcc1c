//! The chart of latency distributions: latency as a function of the percentile. Each further nine of the
//! percentile takes the same width of the axis.

use weft_results::LatencyResult;
use weft_results::histogram::QuantilePoint;
use weft_results::table::{grouped, time_with_unit};

use super::markup::{Markup, coordinate};
use super::scale::{Scale, logarithmic_ticks};

const HEIGHT: f64 = 330.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 186.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Smallest vertical distance between the names of two lines.
const NAME_HEIGHT: f64 = 15.0;

/// One line of the chart.
pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    pub(super) latency: &'a LatencyResult,
}

/// Number of nines of a quantile: 0.9 has one, 0.99 two.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// Position of the slowest of `operations` operations. Higher quantiles have not been measured.
fn most_nines(operations: u64) -> f64 {
    (operations.max(2) as f64).log10()
}

/// The chart, `width` units wide; `None` if nothing was measured.
pub(super) fn chart(width: f64, series: &[Series<'_>]) -> Option<Markup> {
    let series: Vec<_> = series.iter().filter(|series| !series.latency.distribution.is_empty()).collect();
    let operations = series.iter().map(|series| series.latency.summary.operations).max()?;
    let least = series.iter().map(|series| series.latency.summary.min_ns).min()?;
    let most = series.iter().map(|series| series.latency.summary.max_ns).max()?;
    let ticks = logarithmic_ticks(least as f64, most as f64);
    let x = Scale::new((0.0, most_nines(operations)), (LEFT, width - RIGHT));
    let y = Scale::new((ticks[0].log10(), ticks[ticks.len() - 1].log10()), (HEIGHT - BOTTOM, TOP));

    let mut svg = Markup::new();
    let view = format!("0 0 {width} {HEIGHT}");
    svg.open(
        "svg",
        &[("viewBox", view.into()), ("role", "img".into()), ("aria-label", "latency distribution".into())],
    );
    for tick in ticks {
        let at = y.at(tick.log10());
        grid_line(&mut svg, (LEFT, width - RIGHT), (at, at));
        let label = tick_time(tick as u64);
        label_at(&mut svg, (LEFT - 8.0, at + 4.0), "end", &label);
    }
    let mut percentiles = vec![(0.0, "0 %".to_owned()), (0.5, "50 %".to_owned())];
    percentiles.extend((1..=most_nines(operations).floor() as usize).map(|n| {
        let label = match n {
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            _ => format!("99.{} %", "9".repeat(n - 2)),
        };
        (1.0 - 10f64.powi(-(n as i32)), label)
    }));
    for (quantile, label) in percentiles {
        let at = x.at(nines(quantile));
        grid_line(&mut svg, (at, at), (TOP, HEIGHT - BOTTOM));
        label_at(&mut svg, (at, HEIGHT - BOTTOM + 18.0), "middle", &label);
    }
    label_at(
        &mut svg,
        ((LEFT + width - RIGHT) / 2.0, HEIGHT - 6.0),
        "middle",
        "share of operations that took at most so long",
    );

    let mut names = Vec::new();
    for (i, series) in series.iter().enumerate() {
        let place = |point: &QuantilePoint| {
            let right = most_nines(series.latency.summary.operations);
            (x.at(nines(point.quantile).min(right)), y.at((point.latency_ns.max(1) as f64).log10()))
        };
        let points: Vec<_> = series.latency.distribution.iter().map(place).collect();
        let path: String = points
            .iter()
            .enumerate()
            .map(|(i, (x, y))| {
                format!("{}{} {}", if i == 0 { "M" } else { "L" }, coordinate(*x), coordinate(*y))
            })
            .collect();
        svg.open("path", &[("class", format!("series s{}", i % 4).into()), ("d", path.into())]).close("path");
        for point in &series.latency.distribution {
            let (x, y) = place(point);
            let title = format!(
                "{}: {} of the operations ({}) took at most {}",
                series.name,
                percent(point.quantile),
                grouped(point.operations),
                time_with_unit(point.latency_ns)
            );
            let circle =
                [("class", "touch".into()), ("cx", coordinate(x)), ("cy", coordinate(y)), ("r", "7".into())];
            svg.titled("circle", &circle, &title);
        }
        let (_, end) = *points.last()?;
        names.push((end, i, series.name));
    }
    // The names are at the height at which their lines end, and are moved apart if they would overlap.
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = TOP;
    for (end, i, name) in names {
        let at = (end + 4.0).max(free + NAME_HEIGHT * 0.7);
        free = at + NAME_HEIGHT * 0.3;
        let class = format!("name s{}", i % 4);
        svg.element(
            "text",
            &[("class", class.into()), ("x", coordinate(width - RIGHT + 10.0)), ("y", coordinate(at))],
            name,
        );
    }
    svg.close("svg").line_break();
    Some(svg)
}

fn percent(quantile: f64) -> String {
    let text = format!("{:.4}", quantile * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn tick_time(ns: u64) -> String {
    let (number, unit) = match ns {
        0..1_000 => (ns, "ns"),
        1_000..1_000_000 => (ns / 1_000, "µs"),
        1_000_000..1_000_000_000 => (ns / 1_000_000, "ms"),
        _ => (ns / 1_000_000_000, "s"),
    };
    format!("{number} {unit}")
}

pub(super) fn grid_line(svg: &mut Markup, x: (f64, f64), y: (f64, f64)) {
    let ends = [
        ("class", "grid".into()),
        ("x1", coordinate(x.0)),
        ("x2", coordinate(x.1)),
        ("y1", coordinate(y.0)),
        ("y2", coordinate(y.1)),
    ];
    svg.open("line", &ends).close("line");
}

pub(super) fn label_at(svg: &mut Markup, at: (f64, f64), anchor: &'static str, label: &str) {
    let place = [
        ("class", "tick".into()),
        ("x", coordinate(at.0)),
        ("y", coordinate(at.1)),
        ("text-anchor", anchor.into()),
    ];
    svg.element("text", &place, label);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_has_the_same_room() {
        assert!((nines(0.9) - 1.0).abs() < 1e-9);
        assert!((nines(0.999) - 3.0).abs() < 1e-9);
        assert!((nines(0.5) - 0.301).abs() < 1e-3);
    }

    #[test]
    fn nothing_measured_is_no_chart() {
        assert!(chart(900.0, &[]).is_none());
        assert!(chart(900.0, &[Series { name: "a", latency: &LatencyResult::default() }]).is_none());
    }

    #[test]
    fn labels_are_plain() {
        assert_eq!(percent(0.5), "50 %");
        assert_eq!(percent(0.99951), "99.951 %");
        assert_eq!(tick_time(50_000), "50 µs");
    }
}
