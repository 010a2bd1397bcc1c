//! Draws the measurements as curves on one page.

use weft_report::curves::{Axis, Figure, Line, Point};
use weft_results::table::{grouped, with_prefix};

use super::result::{NicKvResult, SaturationRun};
use super::{CYCLE_NS, paper};

/// One self-contained page with the curves of a result.
pub fn page(result: &NicKvResult) -> String {
    let figures = [hbm(result), sizes(result), loads(result), nodes(result)];
    weft_report::curves::page("NIC-KV, measured again", &figures.into_iter().flatten().collect::<Vec<_>>())
}

fn point(name: &str, x: f64, y: f64, unit: &str) -> Point {
    Point { x, y, title: format!("{name}: {} {unit}, {} ns", with_prefix(x), grouped(y as u64)) }
}

fn line(name: &str, points: impl Iterator<Item = (f64, f64)>, unit: &str) -> Line {
    Line { name: name.into(), points: points.map(|(x, y)| point(name, x, y, unit)).collect() }
}

fn hbm(result: &NicKvResult) -> Option<Figure> {
    let ours = |name, of: fn(&super::HbmAccess) -> u64| {
        line(name, result.hbm.iter().map(|access| (access.bytes.into(), of(access) as f64)), "bytes")
    };
    let paper = |name, ns: &[u64; 6]| {
        let points = paper::SIZES.iter().zip(ns).map(|(size, ns)| (f64::from(*size), *ns as f64));
        line(name, points, "bytes")
    };
    (!result.hbm.is_empty()).then(|| Figure {
        title: "Between MAC and HBM, by size (table 5.3)".into(),
        x: Axis { label: "bytes".into(), is_logarithmic: true },
        y: Axis { label: "ns".into(), is_logarithmic: false },
        lines: vec![
            ours("WRITE", |access| paper::mac_receive(access.bytes) + access.write_cycles * CYCLE_NS),
            paper("paper, write", &paper::HBM_WRITE),
            ours("READ", |access| paper::mac_transmit(access.bytes) + access.read_cycles * CYCLE_NS),
            paper("paper, read", &paper::HBM_READ),
        ],
    })
}

fn sizes(result: &NicKvResult) -> Option<Figure> {
    let of = |name, cycles: fn(&super::SizeRun) -> u64| {
        let points = result.sizes.iter().map(|run| (f64::from(run.bytes), (cycles(run) * CYCLE_NS) as f64));
        line(name, points, "bytes")
    };
    (result.sizes.len() > 1).then(|| Figure {
        title: "Replication by size of the value, without MAC and memory (paper, 1,024 bytes: read 272 ns, write 284 ns)".into(),
        x: Axis { label: "bytes".into(), is_logarithmic: true },
        y: Axis { label: "ns".into(), is_logarithmic: false },
        lines: vec![
            of("read", |run| run.read.replication_cycles()),
            of("write", |run| run.write.replica.replication_cycles()),
            of("leader", |run| run.write.leader.replication_cycles()),
            of("write ack", |run| run.write.acknowledge.replication_cycles()),
        ],
    })
}

fn loads(result: &NicKvResult) -> Option<Figure> {
    let mut lines: Vec<Line> = Vec::new();
    let mut last: Option<&SaturationRun> = None;
    for run in &result.curve {
        let is_new = last.is_none_or(|last| {
            (&last.load, last.value_bytes, last.nodes) != (&run.load, run.value_bytes, run.nodes)
        });
        let name = if run.operation == "put" {
            format!("writes, {} B, {} nodes", run.value_bytes, run.nodes)
        } else {
            format!("gets, {} B", run.value_bytes)
        };
        if is_new {
            lines.push(Line { name: name.clone(), points: Vec::new() });
        }
        let measured = &run.measured;
        let line = lines.last_mut().expect("one was added");
        line.points.push(Point {
            x: measured.operations_per_s,
            y: measured.p50_ns as f64,
            title: format!(
                "{name}: {} outstanding, {} operations/s, p50 {} ns, p99 {} ns",
                measured.outstanding,
                with_prefix(measured.operations_per_s),
                grouped(measured.p50_ns),
                grouped(measured.p99_ns)
            ),
        });
        last = Some(run);
    }
    (!lines.is_empty()).then(|| Figure {
        title: "Median latency against throughput, 1 to 256 outstanding".into(),
        x: Axis { label: "operations/s".into(), is_logarithmic: true },
        y: Axis { label: "ns".into(), is_logarithmic: true },
        lines,
    })
}

fn nodes(result: &NicKvResult) -> Option<Figure> {
    let of = |name, cycles: fn(&super::NodesRun) -> u64| {
        let points = result.nodes.iter().map(|run| (run.nodes as f64, (cycles(run) * CYCLE_NS) as f64));
        line(name, points, "nodes")
    };
    (result.nodes.len() > 1).then(|| Figure {
        title: "A leader write by nodes, without MACs and network".into(),
        x: Axis { label: "nodes".into(), is_logarithmic: false },
        y: Axis { label: "ns".into(), is_logarithmic: false },
        lines: vec![
            of("request to answer", |run| run.write.whole_cycles),
            of("first to last copy", |run| run.write.copies_cycles),
            of("leader", |run| run.write.leader.replication_cycles()),
            of("replica", |run| run.write.replica.replication_cycles()),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::super::result::example;
    use super::*;

    #[test]
    fn a_page_loads_nothing() {
        let page = page(&example());
        assert!(page.contains("NIC-KV, measured again") && page.contains("<svg"));
        for forbidden in ["http://", "https://", "<script", "<link", "src="] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }
}
