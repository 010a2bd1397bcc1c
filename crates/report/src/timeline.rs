//! The chart of a run over time: at the top the throughput, below it the state of each node, on one time
//! axis. Events of the cluster are vertical lines through both.

use weft_results::table::{grouped, three_digits, time_with_unit, with_prefix};
use weft_results::{Lane, Mark, MarkKind, NodeState, RunResult, Timeline};

use super::latency::{grid_line, label_at};
use super::markup::{Markup, coordinate};
use super::scale::{Scale, linear_ticks};

const LEFT: f64 = 62.0;
const RIGHT: f64 = 30.0;
const PLOT_HEIGHT: f64 = 190.0;
const LANE_HEIGHT: f64 = 24.0;
const LANE_GAP: f64 = 8.0;
const AXIS_HEIGHT: f64 = 40.0;
const MARK_ROW: f64 = 16.0;
/// Approximate width of a character of a label.
const CHARACTER: f64 = 6.3;
/// The largest number of points. More could not be distinguished on a page.
const MOST_POINTS: usize = 200;

/// One point of the throughput: operations per second from one time to another.
struct Rate {
    from_ns: u64,
    to_ns: u64,
    operations_per_s: f64,
}

/// The throughput, divided into at most [`MOST_POINTS`] parts. The last part ends with the last operation. If
/// that is less than half of a part, it is left out, because it is not representative.
fn rates(timeline: &Timeline, end_ns: u64) -> Vec<Rate> {
    let join = timeline.operations.len().div_ceil(MOST_POINTS).max(1);
    let width = timeline.bucket_ns.saturating_mul(join as u64);
    let mut rates: Vec<Rate> = timeline
        .operations
        .chunks(join)
        .enumerate()
        .map(|(i, chunk)| {
            let from_ns = width.saturating_mul(i as u64);
            let to_ns = from_ns.saturating_add(width).min(end_ns.max(from_ns.saturating_add(1)));
            let operations: u64 = chunk.iter().fold(0, |sum, n| sum.saturating_add(*n));
            Rate {
                from_ns,
                to_ns,
                operations_per_s: operations as f64 * 1e9 / (to_ns - from_ns).max(1) as f64,
            }
        })
        .collect();
    if rates.len() > 1 && rates.last().is_some_and(|rate| rate.to_ns - rate.from_ns < width / 2) {
        rates.pop();
    }
    rates
}

/// Content of a chart.
pub(super) struct Shown<'a> {
    pub(super) timeline: &'a Timeline,
    /// End of the measurement.
    pub(super) measured_to_ns: u64,
    pub(super) lanes: &'a [Lane],
    pub(super) marks: &'a [Mark],
    /// Label of the time axis.
    pub(super) axis: &'a str,
}

/// The chart of a run, `width` units wide; `None` if nothing was recorded.
pub(super) fn chart(width: f64, result: &RunResult) -> Option<Markup> {
    let shown = Shown {
        timeline: &result.timeline,
        measured_to_ns: result.timeline.measured_from_ns.saturating_add(result.measured_ns),
        lanes: &result.lanes,
        marks: &result.marks,
        axis: "time since the run began",
    };
    draw(width, &shown)
}

/// The chart, `width` units wide; `None` if nothing was recorded.
pub(super) fn draw(width: f64, result: &Shown<'_>) -> Option<Markup> {
    let rates = rates(result.timeline, result.measured_to_ns);
    let lanes_end = result.lanes.iter().flat_map(|lane| &lane.states).map(|span| span.to_ns);
    let marks_end = result.marks.iter().map(|mark| mark.at_ns);
    let end = rates.last().map(|rate| rate.to_ns).into_iter().chain(lanes_end).chain(marks_end).max()?.max(1);
    let x = Scale::new((0.0, end as f64), (LEFT, width - RIGHT));

    let rows = mark_rows(result.marks, &x, width - RIGHT);
    let top = MARK_ROW * f64::from(rows.iter().map(|(_, row)| row + 1).max().unwrap_or(0)) + 10.0;
    let plot_bottom = top + PLOT_HEIGHT;
    let lanes_top = plot_bottom + 18.0;
    let lanes_bottom = lanes_top + (LANE_HEIGHT + LANE_GAP) * result.lanes.len() as f64 - LANE_GAP;
    let axis = if result.lanes.is_empty() { plot_bottom } else { lanes_bottom + 8.0 };
    let height = axis + AXIS_HEIGHT;

    let mut svg = Markup::new();
    let view = format!("0 0 {width} {}", coordinate(height));
    svg.open(
        "svg",
        &[("viewBox", view.into()), ("role", "img".into()), ("aria-label", "throughput over time".into())],
    );

    // The grid and the warm-up period are drawn first, under everything else.
    let warm_up = x.at(result.timeline.measured_from_ns as f64);
    if warm_up > LEFT + 1.0 {
        let title = format!("warm-up: {}, not measured", time_with_unit(result.timeline.measured_from_ns));
        svg.titled("rect", &rectangle("warmup", (LEFT, warm_up), (top, plot_bottom)), &title);
        if warm_up - LEFT > 60.0 {
            label_at(&mut svg, ((LEFT + warm_up) / 2.0, top + 14.0), "middle", "warm-up");
        }
    }
    let most = rates.iter().map(|rate| rate.operations_per_s).fold(0.0, f64::max);
    let (ticks, top_rate) = linear_ticks(most, 5);
    let y = Scale::new((0.0, top_rate), (plot_bottom, top));
    for tick in ticks {
        grid_line(&mut svg, (LEFT, width - RIGHT), (y.at(tick), y.at(tick)));
        label_at(&mut svg, (LEFT - 8.0, y.at(tick) + 4.0), "end", &short(&with_prefix(tick)));
    }
    let (unit, unit_ns) = time_unit(end);
    let (ticks, _) = linear_ticks(end as f64 / unit_ns, 8);
    for tick in ticks.into_iter().filter(|tick| tick * unit_ns <= x.end()) {
        let at = x.at(tick * unit_ns);
        grid_line(&mut svg, (at, at), (axis, axis + 5.0));
        label_at(&mut svg, (at, axis + 18.0), "middle", &format!("{} {unit}", short(&three_digits(tick))));
    }
    label_at(&mut svg, ((LEFT + width - RIGHT) / 2.0, height - 4.0), "middle", result.axis);

    throughput(&mut svg, &rates, &x, &y);
    let lane_top = |i: usize| lanes_top + (LANE_HEIGHT + LANE_GAP) * i as f64;
    for (i, lane) in result.lanes.iter().enumerate() {
        lane_bars(&mut svg, lane, &x, lane_top(i));
    }
    for (mark, row) in rows {
        let at = x.at(mark.at_ns as f64);
        let class = match mark.kind {
            MarkKind::Fault => "mark fault",
            MarkKind::Repair => "mark repair",
            MarkKind::ViewChange => "mark view",
        };
        let baseline = MARK_ROW * f64::from(row) + 12.0;
        let title = format!("{} after {}", mark.label, time_with_unit(mark.at_ns));
        svg.open("g", &[("class", class.into())]).element("title", &[], &title);
        let bottom = if result.lanes.is_empty() { plot_bottom } else { lanes_bottom };
        let ends = [
            ("x1", coordinate(at)),
            ("x2", coordinate(at)),
            ("y1", coordinate(baseline - 10.0)),
            ("y2", coordinate(bottom)),
        ];
        svg.open("line", &ends).close("line");
        let (place, anchor) = label_side(&mark.label, at, width - RIGHT);
        let place = [("x", coordinate(place)), ("y", coordinate(baseline)), ("text-anchor", anchor.into())];
        svg.element("text", &place, &mark.label).close("g");
    }
    for (i, lane) in result.lanes.iter().enumerate() {
        lane_words(&mut svg, lane, &x, lane_top(i));
    }
    svg.close("svg").line_break();
    Some(svg)
}

fn throughput(svg: &mut Markup, rates: &[Rate], x: &Scale, y: &Scale) {
    let (Some(first), Some(last)) = (rates.first(), rates.last()) else { return };
    let mut line = String::new();
    for rate in rates {
        let (from, to, at) =
            (x.at(rate.from_ns as f64), x.at(rate.to_ns as f64), y.at(rate.operations_per_s));
        let (from, to, at) = (coordinate(from), coordinate(to), coordinate(at));
        line.push_str(&format!("{}{from} {at}H{to}", if line.is_empty() { "M" } else { "L" }));
    }
    let (left, right) = (coordinate(x.at(first.from_ns as f64)), coordinate(x.at(last.to_ns as f64)));
    let zero = coordinate(y.at(0.0));
    let area = format!("{line}L{right} {zero}L{left} {zero}Z");
    svg.open("path", &[("class", "area s0".into()), ("d", area.into())]).close("path");
    svg.open("path", &[("class", "series s0".into()), ("d", line.into())]).close("path");
    for rate in rates {
        let title = format!(
            "{} to {}: {} operations/s",
            time_with_unit(rate.from_ns),
            time_with_unit(rate.to_ns),
            grouped(rate.operations_per_s.round() as u64)
        );
        let across = across(x, rate.from_ns, rate.to_ns);
        svg.titled("rect", &rectangle("touch", across, (y.at(y.end()), y.at(0.0))), &title);
    }
}

fn lane_bars(svg: &mut Markup, lane: &Lane, x: &Scale, top: f64) {
    label_at(svg, (LEFT - 8.0, top + LANE_HEIGHT / 2.0 + 4.0), "end", &lane.name);
    let bottom = top + LANE_HEIGHT;
    for span in &lane.states {
        let class = match span.state {
            NodeState::Serving => "state serving",
            NodeState::Joining => "state joining",
            NodeState::Fenced => "state fenced",
            NodeState::Down => "state down",
        };
        let (from, to) = (time_with_unit(span.from_ns), time_with_unit(span.to_ns));
        let title = format!("{} {} from {from} to {to}", lane.name, span.state);
        svg.titled("rect", &rectangle(class, across(x, span.from_ns, span.to_ns), (top, bottom)), &title);
    }
    for span in &lane.leads {
        let share = f64::from(span.led) / f64::from(span.partitions.max(1));
        let level = bottom - LANE_HEIGHT * share.min(1.0);
        let (from, to) = (time_with_unit(span.from_ns), time_with_unit(span.to_ns));
        let title = format!(
            "{} leads {} of {} partitions in epoch {}, from {from} to {to}",
            lane.name, span.led, span.partitions, span.epoch
        );
        svg.titled("rect", &rectangle("lead", across(x, span.from_ns, span.to_ns), (level, bottom)), &title);
    }
}

/// Labels in the bars, if they fit. They are drawn last, so that no line crosses them.
fn lane_words(svg: &mut Markup, lane: &Lane, x: &Scale, top: f64) {
    let states = lane.states.iter().filter(|span| span.state != NodeState::Serving);
    let states = states.map(|span| (span.state.to_string(), across(x, span.from_ns, span.to_ns)));
    let leads = lane.leads.iter().map(|span| {
        (format!("leads {} of {}", span.led, span.partitions), across(x, span.from_ns, span.to_ns))
    });
    for (words, (from, to)) in states.chain(leads) {
        if words.chars().count() as f64 * CHARACTER + 8.0 < to - from {
            let place = [
                ("class", "words".into()),
                ("x", coordinate((from + to) / 2.0)),
                ("y", coordinate(top + LANE_HEIGHT / 2.0 + 4.0)),
                ("text-anchor", "middle".into()),
            ];
            svg.element("text", &place, &words);
        }
    }
}

fn across(x: &Scale, from_ns: u64, to_ns: u64) -> (f64, f64) {
    (x.at(from_ns as f64), x.at(to_ns as f64))
}

fn rectangle(
    class: &'static str,
    x: (f64, f64),
    y: (f64, f64),
) -> [(&'static str, std::borrow::Cow<'static, str>); 5] {
    [
        ("class", class.into()),
        ("x", coordinate(x.0)),
        ("y", coordinate(y.0)),
        ("width", coordinate((x.1 - x.0).max(0.0))),
        ("height", coordinate((y.1 - y.0).max(0.0))),
    ]
}

/// Chooses the side of its line on which a label has enough space.
fn label_side(label: &str, at: f64, right: f64) -> (f64, &'static str) {
    if at + 5.0 + label.chars().count() as f64 * CHARACTER > right {
        (at - 5.0, "end")
    } else {
        (at + 5.0, "start")
    }
}

/// Assigns a row for its label to each mark: the first row in which the label overlaps no other.
fn mark_rows<'a>(marks: &'a [Mark], x: &Scale, right: f64) -> Vec<(&'a Mark, u32)> {
    let mut taken: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut marks: Vec<_> = marks.iter().collect();
    marks.sort_by_key(|mark| mark.at_ns);
    marks
        .into_iter()
        .map(|mark| {
            let at = x.at(mark.at_ns as f64);
            let length = mark.label.chars().count() as f64 * CHARACTER + 12.0;
            let (from, to) = if label_side(&mark.label, at, right).1 == "end" {
                (at - length, at)
            } else {
                (at, at + length)
            };
            let free = |row: &Vec<(f64, f64)>| row.iter().all(|span| to <= span.0 || span.1 <= from);
            let row = taken.iter().position(free).unwrap_or_else(|| {
                taken.push(Vec::new());
                taken.len() - 1
            });
            taken[row].push((from, to));
            (mark, row as u32)
        })
        .collect()
}

fn time_unit(end_ns: u64) -> (&'static str, f64) {
    match end_ns {
        0..1_000 => ("ns", 1.0),
        1_000..1_000_000 => ("µs", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

/// A number without zeros at the end of its fraction: `2.00 M` becomes `2 M`.
pub(super) fn short(number: &str) -> String {
    let (digits, unit) = number.split_once(' ').unwrap_or((number, ""));
    let digits =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    if unit.is_empty() { digits.to_owned() } else { format!("{digits} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_every_operation_and_end_with_the_last() {
        let timeline = Timeline { bucket_ns: 1_000, measured_from_ns: 0, operations: vec![10; 400] };
        let rates = rates(&timeline, 400_000);
        assert_eq!(rates.len(), 200);
        assert!(rates.iter().all(|rate| (rate.operations_per_s - 1e7).abs() < 1.0));
    }

    #[test]
    fn a_part_that_was_cut_off_counts_by_its_length_or_not_at_all() {
        let timeline = Timeline { bucket_ns: 1_000, measured_from_ns: 0, operations: vec![10, 10, 8] };
        let long = rates(&timeline, 2_800);
        assert_eq!(long.len(), 3);
        assert!((long[2].operations_per_s - 1e7).abs() < 1.0);
        assert_eq!(rates(&timeline, 2_100).len(), 2);
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let mut result = weft_results::example(weft_results::World::Sim);
        for mark in &mut result.marks {
            mark.at_ns = 50_000_000;
        }
        let x = Scale::new((0.0, 1e8), (0.0, 1000.0));
        let mut rows: Vec<u32> =
            mark_rows(&result.marks, &x, 1000.0).into_iter().map(|(_, row)| row).collect();
        rows.sort_unstable();
        assert_eq!(rows, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!(short("2.00 M"), "2 M");
        assert_eq!(short("150 k"), "150 k");
        assert_eq!(short("0.500"), "0.5");
        assert_eq!(short("100"), "100");
    }
}
