//! Figures with curves of one quantity as a function of another, on a separate page.

use weft_results::table::with_prefix;

use super::WOVEN;
use super::latency::{grid_line, label_at};
use super::markup::{Markup, coordinate};
use super::scale::{Scale, linear_ticks, logarithmic_ticks};
use super::timeline::short;

const WIDTH: f64 = 980.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 186.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Smallest vertical distance between the names of two lines.
const NAME_HEIGHT: f64 = 15.0;
/// Colours of lines, each with dashes of its own; further lines repeat them, wider.
const COLOURS: usize = 5;

/// An axis of a figure.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity or its unit.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub is_logarithmic: bool,
}

/// A measured point.
#[derive(Clone, Debug)]
pub struct Point {
    /// The value on the horizontal axis.
    pub x: f64,
    /// The value on the vertical axis.
    pub y: f64,
    /// Text that is shown when the pointer is on the point.
    pub title: String,
}

/// A curve.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name of the curve.
    pub name: String,
    /// The points, in the order in which they are connected.
    pub points: Vec<Point>,
}

/// A figure with at most five curves.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Title of the figure.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves.
    pub lines: Vec<Line>,
}

/// A page that shows figures. It loads no other files and runs no scripts.
pub fn page(title: &str, figures: &[Figure]) -> String {
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
    for figure in figures {
        page.raw("<section>\n").element("h2", &[], &figure.title).raw("<figure>\n");
        if let Some(chart) = chart(figure) {
            page.append(chart);
        }
        page.raw("</figure>\n</section>\n");
    }
    page.raw("<footer>Rest the pointer on a curve to read its values.</footer>\n")
        .raw("</main>\n</body>\n</html>\n");
    page.finish()
}

/// Ticks of an axis, and the conversion from a value to a position between them.
struct PlacedTicks {
    ticks: Vec<f64>,
    scale: Scale,
    is_logarithmic: bool,
}

impl PlacedTicks {
    fn new(axis: &Axis, values: impl Iterator<Item = f64> + Clone, to: (f64, f64)) -> Self {
        let most = values.clone().fold(0.0, f64::max);
        if axis.is_logarithmic {
            let ticks = logarithmic_ticks(values.fold(f64::INFINITY, f64::min), most);
            let ends = (ticks[0].log10(), ticks[ticks.len() - 1].log10());
            return Self { ticks, scale: Scale::new(ends, to), is_logarithmic: true };
        }
        let (ticks, end) = linear_ticks(most, 5);
        Self { ticks, scale: Scale::new((0.0, end), to), is_logarithmic: false }
    }

    fn at(&self, value: f64) -> f64 {
        self.scale.at(if self.is_logarithmic { value.max(1.0).log10() } else { value })
    }
}

/// Only the figure, without a page; `None` if it has no points.
pub(super) fn chart(figure: &Figure) -> Option<Markup> {
    let points = figure.lines.iter().flat_map(|line| &line.points);
    points.clone().next()?;
    let x = PlacedTicks::new(&figure.x, points.clone().map(|point| point.x), (LEFT, WIDTH - RIGHT));
    let y = PlacedTicks::new(&figure.y, points.map(|point| point.y), (HEIGHT - BOTTOM, TOP));
    let mut svg = Markup::new();
    let view = format!("0 0 {WIDTH} {HEIGHT}");
    let label = figure.title.as_str();
    svg.open("svg", &[("viewBox", view.into()), ("role", "img".into()), ("aria-label", label.into())]);
    for &tick in &y.ticks {
        let at = y.at(tick);
        grid_line(&mut svg, (LEFT, WIDTH - RIGHT), (at, at));
        label_at(
            &mut svg,
            (LEFT - 8.0, at + 4.0),
            "end",
            &format!("{} {}", short(&with_prefix(tick)), figure.y.label),
        );
    }
    for &tick in &x.ticks {
        let at = x.at(tick);
        grid_line(&mut svg, (at, at), (TOP, HEIGHT - BOTTOM));
        label_at(&mut svg, (at, HEIGHT - BOTTOM + 18.0), "middle", &short(&with_prefix(tick)));
    }
    label_at(&mut svg, ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0), "middle", &figure.x.label);
    let mut names = Vec::new();
    for (i, line) in figure.lines.iter().enumerate() {
        let places: Vec<_> = line.points.iter().map(|point| (x.at(point.x), y.at(point.y))).collect();
        let step = |(at, (x, y)): (usize, &(f64, f64))| {
            format!("{}{} {}", if at == 0 { "M" } else { "L" }, coordinate(*x), coordinate(*y))
        };
        let path: String = places.iter().enumerate().map(step).collect();
        svg.open("path", &[("class", format!("series {}", class_of(i)).into()), ("d", path.into())])
            .close("path");
        for (point, (x, y)) in line.points.iter().zip(&places) {
            let circle = [
                ("class", "touch".into()),
                ("cx", coordinate(*x)),
                ("cy", coordinate(*y)),
                ("r", "7".into()),
            ];
            svg.titled("circle", &circle, &point.title);
        }
        names.extend(places.last().map(|(_, end)| (*end, i, &line.name)));
    }
    // The names are at the height at which their lines end, and are moved apart if they would overlap.
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = TOP;
    for (end, i, name) in names {
        let at = (end + 4.0).max(free + NAME_HEIGHT * 0.7);
        free = at + NAME_HEIGHT * 0.3;
        let class = format!("name s{}", i % COLOURS);
        let place = [("class", class.into()), ("x", coordinate(WIDTH - RIGHT + 10.0)), ("y", coordinate(at))];
        svg.element("text", &place, name);
    }
    svg.close("svg").line_break();
    Some(svg)
}

/// The style of a line.
fn class_of(line: usize) -> String {
    let wide = if line < COLOURS { "" } else { " wide" };
    format!("s{}{wide}", line % COLOURS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_without_points_is_no_chart() {
        let axis = |is_logarithmic| Axis { label: "ns".into(), is_logarithmic };
        let figure = |points| Figure {
            title: "a < b".into(),
            x: axis(true),
            y: axis(false),
            lines: vec![Line { name: "one".into(), points }],
        };
        assert!(chart(&figure(Vec::new())).is_none());
        let points = vec![
            Point { x: 128.0, y: 10.0, title: "first".into() },
            Point { x: 1_024.0, y: 30.0, title: "second".into() },
        ];
        let html = page("curves", &[figure(points)]);
        assert!(html.contains("a &lt; b") && html.contains(">second<") && html.contains("name s0"));
    }
}
