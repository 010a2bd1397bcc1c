//! Contribution of each part of the design (Xenic section 5.7, figure 9). The baseline is a cluster of cards
//! that works like DrTM+H; each step adds one part. Throughput is measured with Retwis, latency with
//! Smallbank.

use Without::{Aggregation, AsynchronousDma, CardExecution, CombinedRequests, DmaVectors, MultiHop};
use serde::Serialize;
use weft_applications::WorkloadChoice;
use weft_results::table::{Table, microseconds, three_digits, with_prefix};

use super::measure::TxnBench;
use super::system::System;
use super::without::Without;

/// The quantity that a panel of the figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The highest throughput of all loads.
    Throughput,
    /// The median latency at the lowest load.
    Latency,
}

/// A step of the design.
struct Design {
    name: &'static str,
    system: System,
    without: &'static [Without],
    /// The bar in figure 9, as a multiple of the baseline's bar.
    published: Option<f64>,
}

/// Designs of figure 9a. The baseline has 10 % less throughput than DrTM+H. The placement of execution is not
/// a step of the figure.
const THROUGHPUT: [Design; 6] = [
    Design { name: "drtm-h", system: System::DrtmH, without: &[], published: Some(1.11) },
    Design {
        name: "baseline",
        system: System::Weft,
        without: &[MultiHop, CardExecution, CombinedRequests, Aggregation, DmaVectors, AsynchronousDma],
        published: Some(1.0),
    },
    Design {
        name: "+ combined requests",
        system: System::Weft,
        without: &[MultiHop, CardExecution, Aggregation, DmaVectors, AsynchronousDma],
        published: Some(1.47),
    },
    Design {
        name: "+ aggregation",
        system: System::Weft,
        without: &[MultiHop, CardExecution, DmaVectors, AsynchronousDma],
        published: Some(1.98),
    },
    Design {
        name: "+ asynchronous DMA in vectors",
        system: System::Weft,
        without: &[MultiHop, CardExecution],
        published: Some(2.30),
    },
    Design { name: "+ execution on cards, multi-hop", system: System::Weft, without: &[], published: None },
];

/// Designs of figure 9b. The latency of the baseline is 1.37 times that of DrTM+H.
const LATENCY: [Design; 5] = [
    Design { name: "drtm-h", system: System::DrtmH, without: &[], published: Some(0.73) },
    Design {
        name: "baseline",
        system: System::Weft,
        without: &[MultiHop, CardExecution, CombinedRequests],
        published: Some(1.0),
    },
    Design {
        name: "+ combined requests",
        system: System::Weft,
        without: &[MultiHop, CardExecution],
        published: Some(0.80),
    },
    Design {
        name: "+ execution on the own card",
        system: System::Weft,
        without: &[MultiHop],
        published: Some(0.68),
    },
    Design { name: "+ multi-hop", system: System::Weft, without: &[], published: Some(0.58) },
];

/// Index of the design to which all others are relative.
const BASELINE: usize = 1;

/// Results of one design.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepResult {
    /// The feature that this design adds to the previous one.
    pub name: &'static str,
    /// The system.
    pub system: System,
    /// Features of the design that are disabled.
    pub without: Vec<&'static str>,
    /// The highest throughput of all loads.
    pub peak_throughput_per_server: f64,
    /// Median latency of the transactions at the lowest load.
    pub median_latency_low_load_ns: u64,
    /// The panel's quantity, as a multiple of the baseline's.
    pub of_baseline: f64,
    /// The same multiple in figure 9, if the figure has this bar.
    pub published: Option<f64>,
    /// Utilisation of the NIC's cores at the highest throughput, in percent.
    pub nic_percent: f64,
    /// Utilisation of the links at the highest throughput, in percent.
    pub link_percent: f64,
    /// Violations of the run.
    pub wrong: Vec<String>,
}

/// Results of one panel of the figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PanelResult {
    /// The quantity.
    pub quantity: Quantity,
    /// The workload.
    pub workload: &'static str,
    /// Size of the workload.
    pub scale: String,
    /// Results of all designs, in order.
    pub steps: Vec<StepResult>,
}

/// Results of all steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepsResult {
    /// Kind of the result: `txn-steps`.
    pub result: &'static str,
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Servers, each with a shard and clients.
    pub nodes: usize,
    /// Replicas of each shard.
    pub replication: usize,
    /// The panel of throughput, then the panel of latency.
    pub panels: Vec<PanelResult>,
    /// `holds`, `violation`, or `not checked` for strict serializability.
    pub checked: &'static str,
    /// Wall-clock time of the measurement, in seconds.
    pub wall_s: f64,
    /// The command that repeats the measurement.
    pub replay: String,
}

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct StepsBench {
    /// Workloads for throughput, and for latency.
    pub workloads: [WorkloadChoice; 2],
    /// All other parameters. The workload, the system and the disabled features in it are ignored.
    pub each: TxnBench,
}

impl StepsBench {
    /// Runs the measurement. `progress` is called with the number of finished transactions, out of
    /// [`Self::transactions`].
    pub fn run(&self, replay: String, mut progress: impl FnMut(u64)) -> StepsResult {
        let begin = std::time::Instant::now();
        let lowest = self.each.outstanding[..1].to_vec();
        let panels: [(_, &[Design], _); 2] = [
            (Quantity::Throughput, &THROUGHPUT, self.each.outstanding.clone()),
            (Quantity::Latency, &LATENCY, lowest),
        ];
        let mut ended = 0;
        let panels: Vec<PanelResult> = panels
            .into_iter()
            .zip(self.workloads)
            .map(|((quantity, designs, outstanding), workload)| {
                let each = TxnBench { workload, outstanding, ..self.each.clone() };
                let mut steps: Vec<StepResult> = designs
                    .iter()
                    .map(|design| {
                        let step = measure(&each, design, |done| progress(ended + done));
                        ended += each.transactions;
                        step
                    })
                    .collect();
                let of = |step: &StepResult| match quantity {
                    Quantity::Throughput => step.peak_throughput_per_server,
                    Quantity::Latency => step.median_latency_low_load_ns as f64,
                };
                let baseline = of(&steps[BASELINE]);
                steps.iter_mut().for_each(|step| step.of_baseline = of(step) / baseline);
                PanelResult { quantity, workload: workload.name(), scale: workload.scale(), steps }
            })
            .collect();
        let holds = panels.iter().flat_map(|panel| &panel.steps).all(|step| step.wrong.is_empty());
        StepsResult {
            result: "txn-steps",
            world: "sim",
            nodes: self.each.nodes,
            replication: self.each.replication,
            panels,
            checked: match (holds, self.each.checks) {
                (false, _) => "violation",
                (true, true) => "holds",
                (true, false) => "not checked",
            },
            wall_s: begin.elapsed().as_secs_f64(),
            replay,
        }
    }

    /// Number of transactions of all steps together.
    pub const fn transactions(&self) -> u64 {
        self.each.transactions * (THROUGHPUT.len() + LATENCY.len()) as u64
    }
}

fn measure(each: &TxnBench, design: &Design, progress: impl FnMut(u64)) -> StepResult {
    let bench = TxnBench { system: design.system, without: design.without.to_vec(), ..each.clone() };
    let measured = bench.measure(progress);
    let highest = |one: &&super::Point, other: &&super::Point| {
        one.throughput_per_server.total_cmp(&other.throughput_per_server)
    };
    let peak = measured.points.iter().max_by(highest);
    StepResult {
        name: design.name,
        system: design.system,
        without: design.without.iter().map(|part| part.name()).collect(),
        peak_throughput_per_server: measured.peak_throughput_per_server,
        median_latency_low_load_ns: measured.median_latency_low_load_ns,
        of_baseline: 0.0,
        published: design.published,
        nic_percent: peak.map_or(0.0, |point| point.nic_percent),
        link_percent: peak.map_or(0.0, |point| point.link_percent),
        wrong: measured.findings(),
    }
}

impl StepsResult {
    /// The result as text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for panel in &self.panels {
            let (head, quantity, unit) = match panel.quantity {
                Quantity::Throughput => ("Throughput at the peak", "throughput", "tx/s/server"),
                Quantity::Latency => ("Median latency at low load", "p50", "µs"),
            };
            let table = Table::of(&panel.steps)
                .words("design", |step| step.name)
                .numbers(quantity, unit, |step| match panel.quantity {
                    Quantity::Throughput => with_prefix(step.peak_throughput_per_server),
                    Quantity::Latency => microseconds(step.median_latency_low_load_ns),
                })
                .numbers("of the baseline", "×", |step| three_digits(step.of_baseline))
                .numbers("Xenic's", "×", |step| step.published.map_or_else(|| "–".to_owned(), three_digits))
                .numbers("NIC", "%", |step| three_digits(step.nic_percent))
                .numbers("link", "%", |step| three_digits(step.link_percent));
            text += &format!("  {head}, {}: {}\n\n{table}\n", panel.workload, panel.scale);
        }
        text += &format!(
            "  servers     {}, {} replicas\n  checked     {}\n  took        {} s\n  repeat      {}\n",
            self.nodes,
            self.replication,
            self.checked,
            three_digits(self.wall_s),
            self.replay
        );
        for step in self.panels.iter().flat_map(|panel| &panel.steps) {
            for wrong in &step.wrong {
                text += &format!("\n  wrong: {}: {wrong}", step.name);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::measure::tests::bench;
    use weft_applications::WorkloadName;

    #[test]
    fn each_step_takes_latency_away_and_the_last_is_the_whole_design() {
        let workload = |name| WorkloadChoice::new(name, 500).unwrap();
        let workloads = [workload(WorkloadName::Retwis), workload(WorkloadName::Smallbank)];
        let each = TxnBench { outstanding: vec![1, 16], ..bench(WorkloadName::Retwis, 500) };
        let bench = StepsBench { workloads, each };
        let mut most = 0;
        let result = bench.run("weft".into(), |ended| most = most.max(ended));
        assert_eq!(result.checked, "holds", "{result:?}");
        assert!(most >= bench.transactions(), "{most}");
        let [throughput, latency] = &result.panels[..] else { panic!("two panels") };
        for panel in [throughput, latency] {
            assert_eq!(panel.steps[BASELINE].of_baseline, 1.0);
            assert!(panel.steps.last().unwrap().without.is_empty());
        }
        let steps = &latency.steps[BASELINE..];
        assert!(steps.is_sorted_by(|one, next| one.of_baseline > next.of_baseline), "{steps:?}");
        assert!(throughput.steps.last().unwrap().of_baseline > 1.0, "{throughput:?}");
        let text = result.to_text();
        assert!(text.contains("+ multi-hop") && text.contains("2.30"), "{text}");
    }
}
