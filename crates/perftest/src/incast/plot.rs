//! A page that shows rates and queues over time.

use weft_report::curves::{Axis, Figure, Line, Point, page};

use super::result::{IncastResult, IncastRun};
use crate::watch::Interval;

/// One self-contained page with the rates of each run and the queues of all runs.
pub fn plot(result: &IncastResult) -> String {
    let mut figures: Vec<Figure> = result.runs.iter().map(|run| rates(result, run)).collect();
    figures.push(Figure {
        title: format!(
            "The switch's queue towards the server, which holds {} KiB: the longest in each interval",
            result.queue_limit_bytes >> 10
        ),
        x: axis("us"),
        y: axis("KiB"),
        lines: result
            .runs
            .iter()
            .map(|run| {
                line(result, run, &run.congestion.to_string(), "KiB", |one| {
                    one.queue_bytes_max as f64 / 1_024.0
                })
            })
            .collect(),
    });
    page(&format!("{} clients of one server, NIC {}", result.clients, result.nic), &figures)
}

fn axis(label: &str) -> Axis {
    Axis { label: label.into(), is_logarithmic: false }
}

/// The rate received at the server in each interval: of the fastest client, of the slowest client, and the
/// average.
fn rates(result: &IncastResult, run: &IncastRun) -> Figure {
    let gigabits = |bytes: f64| bytes * 8.0 / result.interval_ns as f64;
    let of = |name: &str, choose: &dyn Fn(&[u64]) -> f64| {
        line(result, run, name, "Gb/s", |one| gigabits(choose(&one.received_bytes)))
    };
    Figure {
        title: format!("Rates of the clients on the wire, congestion control: {}", run.congestion),
        x: axis("us"),
        y: axis("Gb/s"),
        lines: vec![
            of("fastest", &|bytes| bytes.iter().copied().max().unwrap_or(0) as f64),
            of("mean", &|bytes| bytes.iter().sum::<u64>() as f64 / bytes.len().max(1) as f64),
            of("slowest", &|bytes| bytes.iter().copied().min().unwrap_or(0) as f64),
        ],
    }
}

fn line(
    result: &IncastResult,
    run: &IncastRun,
    name: &str,
    unit: &str,
    of: impl Fn(&Interval) -> f64,
) -> Line {
    let points = run.intervals.iter().enumerate().map(|(index, interval)| {
        let (x, y) = ((index as u64 * result.interval_ns) as f64 / 1e3, of(interval));
        Point { x, y, title: format!("{name}: {x:.0} us, {y:.1} {unit}") }
    });
    Line { name: name.into(), points: points.collect() }
}
