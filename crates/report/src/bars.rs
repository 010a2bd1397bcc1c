//! A histogram of times, by node, with a logarithmic axis.

use weft_results::table::time_with_unit;

use super::latency::{grid_line, label_at};
use super::markup::{Markup, coordinate};
use super::scale::{Scale, linear_ticks, logarithmic_ticks};
use super::timeline::short;

const HEIGHT: f64 = 250.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 186.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Number of bars for each doubling of the time.
const PER_DOUBLING: f64 = 6.0;

/// One series of the histogram.
pub(super) struct Bars<'a> {
    pub(super) name: &'a str,
    pub(super) times_ns: Vec<u64>,
}

/// The chart, `width` units wide; `None` if there are no times.
pub(super) fn chart(width: f64, label: &str, all: &[Bars<'_>]) -> Option<Markup> {
    let times = || all.iter().flat_map(|bars| bars.times_ns.iter().copied());
    let (least, most) = (times().min()?, times().max()?);
    let ticks = logarithmic_ticks(least as f64, most as f64);
    let ends = (ticks[0].log2(), ticks[ticks.len() - 1].log2());
    let x = Scale::new(ends, (LEFT, width - RIGHT));
    let bin = |ns: u64| ((ns.max(1) as f64).log2() * PER_DOUBLING).floor() as i32;
    let counts: Vec<Vec<(i32, usize)>> = all.iter().map(|bars| count(&bars.times_ns, bin)).collect();
    let highest = counts.iter().flatten().map(|(_, count)| *count).max()?;
    let (heights, top) = linear_ticks(highest as f64, 4);
    let y = Scale::new((0.0, top), (HEIGHT - BOTTOM, TOP));

    let mut svg = Markup::new();
    let view = format!("0 0 {width} {HEIGHT}");
    svg.open("svg", &[("viewBox", view.into()), ("role", "img".into()), ("aria-label", label.into())]);
    for height in heights.into_iter().filter(|height| height.fract() == 0.0) {
        let at = y.at(height);
        grid_line(&mut svg, (LEFT, width - RIGHT), (at, at));
        label_at(&mut svg, (LEFT - 8.0, at + 4.0), "end", &format!("{height}"));
    }
    for tick in ticks {
        let at = x.at(tick.log2());
        grid_line(&mut svg, (at, at), (TOP, HEIGHT - BOTTOM));
        label_at(&mut svg, (at, HEIGHT - BOTTOM + 18.0), "middle", &short(&time_with_unit(tick as u64)));
    }
    label_at(&mut svg, ((LEFT + width - RIGHT) / 2.0, HEIGHT - 6.0), "middle", label);
    for (i, (bars, counts)) in all.iter().zip(&counts).enumerate() {
        for &(bin, count) in counts {
            let edge = |bin: i32| f64::from(bin) / PER_DOUBLING;
            let (from, to) = (x.at(edge(bin)), x.at(edge(bin + 1)));
            let title = format!(
                "{}: {count} from {} to {}",
                bars.name,
                time_with_unit(edge(bin).exp2().round() as u64),
                time_with_unit(edge(bin + 1).exp2().round() as u64)
            );
            let rectangle = [
                ("class", format!("bar s{}", i % 4).into()),
                ("x", coordinate(from)),
                ("y", coordinate(y.at(count as f64))),
                ("width", coordinate((to - from - 1.0).max(1.0))),
                ("height", coordinate(y.at(0.0) - y.at(count as f64))),
            ];
            svg.titled("rect", &rectangle, &title);
        }
        let class = format!("name s{}", i % 4);
        let height = TOP + 12.0 + 18.0 * i as f64;
        let place =
            [("class", class.into()), ("x", coordinate(width - RIGHT + 10.0)), ("y", coordinate(height))];
        svg.element("text", &place, bars.name);
    }
    svg.close("svg").line_break();
    Some(svg)
}

/// Number of times in each bin that is not empty.
fn count(times_ns: &[u64], bin: impl Fn(u64) -> i32) -> Vec<(i32, usize)> {
    let mut bins: Vec<i32> = times_ns.iter().map(|ns| bin(*ns)).collect();
    bins.sort_unstable();
    bins.chunk_by(|one, other| one == other).map(|equal| (equal[0], equal.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_one_bar() {
        let bars = |times_ns: &[u64]| Bars { name: "a & b", times_ns: times_ns.to_vec() };
        assert!(chart(900.0, "time", &[bars(&[])]).is_none());
        let svg = chart(900.0, "time", &[bars(&[1_000, 1_001, 5_000]), bars(&[80_000])]).unwrap().finish();
        for expected in ["a &amp; b: 2 from", ": 1 from 4", "bar s1"] {
            assert!(svg.contains(expected), "{expected}: {svg}");
        }
        assert_eq!(svg.matches("class=\"bar").count(), 3);
    }
}
