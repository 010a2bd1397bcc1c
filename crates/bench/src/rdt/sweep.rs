//! Measurements of several types, numbers of nodes, commit rules and systems, with a comparison of the
//! systems.

use serde::Serialize;
use weft_results::table::{Table, three_digits};

use super::result::RdtResult;
use super::system::{Commit, System};
use super::type_name::TypeName;

/// Parameters of the measurements: all combinations are measured.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Data types.
    pub types: Vec<TypeName>,
    /// Numbers of replicas.
    pub nodes: Vec<usize>,
    /// Commit rules.
    pub commits: Vec<Commit>,
    /// Systems. The first one is compared with each of the others.
    pub systems: Vec<System>,
}

impl Sweep {
    /// Number of measurements.
    pub fn runs(&self) -> usize {
        self.types.len() * self.nodes.len() * self.commits.len() * self.systems.len()
    }

    /// Makes all measurements by calling `run` for each. `replay` is the command that repeats all of them.
    ///
    /// # Errors
    /// The first error of `run`.
    pub fn run<E>(
        &self,
        replay: String,
        mut run: impl FnMut(TypeName, usize, Commit, System) -> Result<RdtResult, E>,
    ) -> Result<SweepResult, E> {
        let begin = std::time::Instant::now();
        let mut runs = Vec::with_capacity(self.runs());
        for &name in &self.types {
            for &nodes in &self.nodes {
                for &commit in &self.commits {
                    for &system in &self.systems {
                        runs.push(run(name, nodes, commit, system)?);
                    }
                }
            }
        }
        let holds = runs.iter().all(|run| run.checked == "holds");
        let ratios = runs.chunks(self.systems.len()).flat_map(Ratio::of).collect();
        Ok(SweepResult {
            result: "rdt-sweep",
            world: "sim",
            checked: if holds { "holds" } else { "violation" },
            ratios,
            runs,
            wall_s: begin.elapsed().as_secs_f64(),
            replay,
        })
    }
}

/// Comparison of the first system with another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The data type.
    #[serde(rename = "type")]
    pub name: &'static str,
    /// Replicas.
    pub nodes: u32,
    /// When a call without conflicts is answered.
    pub commit: Commit,
    /// The first system.
    pub system: System,
    /// The other system.
    pub than: System,
    /// Mean response time of the other system divided by that of the first.
    pub response: f64,
    /// Throughput of the first system divided by that of the other.
    pub throughput: f64,
}

impl Ratio {
    fn of(runs: &[RdtResult]) -> impl Iterator<Item = Self> {
        let first = &runs[0];
        runs[1..].iter().map(move |other| Self {
            name: first.name,
            nodes: first.nodes,
            commit: first.commit,
            system: first.system,
            than: other.system,
            response: other.measured.response.mean_ns / first.measured.response.mean_ns,
            throughput: first.measured.operations_per_us / other.measured.operations_per_us,
        })
    }
}

/// Results of all measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepResult {
    /// Kind of the result: `rdt-sweep`.
    pub result: &'static str,
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// `holds` if all runs hold.
    pub checked: &'static str,
    /// Comparisons of systems.
    pub ratios: Vec<Ratio>,
    /// Results of all measurements.
    pub runs: Vec<RdtResult>,
    /// Wall-clock time of the simulations, in seconds.
    pub wall_s: f64,
    /// The command that repeats the measurements.
    pub replay: String,
}

impl SweepResult {
    /// The result as text.
    pub fn to_text(&self) -> String {
        let ahead = |run: &RdtResult, of: fn(&Ratio) -> f64| {
            let is_of = |ratio: &&Ratio| {
                (ratio.name, ratio.nodes, ratio.commit, ratio.than)
                    == (run.name, run.nodes, run.commit, run.system)
            };
            self.ratios.iter().find(is_of).map_or_else(String::new, |ratio| three_digits(of(ratio)))
        };
        let table = Table::of(&self.runs)
            .words("type", |run| run.name)
            .numbers("nodes", "", |run| run.nodes)
            .words("commit", |run| run.commit)
            .words("system", |run| run.system)
            .numbers("response", "ns", |run| three_digits(run.measured.response.mean_ns))
            .numbers("queries", "ns", |run| three_digits(run.measured.queries.mean_ns))
            .numbers("updates", "ns", |run| three_digits(run.measured.updates.mean_ns))
            .numbers("throughput", "op/µs", |run| three_digits(run.measured.operations_per_us))
            .numbers("response ahead", "times", |run| ahead(run, |ratio| ratio.response))
            .numbers("throughput ahead", "times", |run| ahead(run, |ratio| ratio.throughput))
            .words("checked", |run| run.checked);
        let mut text = format!(
            "{table}\n  checked  {}\n  took     {} s\n  repeat   {}\n",
            self.checked,
            three_digits(self.wall_s),
            self.replay
        );
        for run in self.runs.iter().filter(|run| run.checked != "holds") {
            let first = run.measured.findings().into_iter().next().unwrap_or_default();
            text += &format!("\n  wrong: {first}\n         {}\n", run.replay);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use weft_sim::{FaultPlan, NetworkProfile};

    use super::*;
    use crate::rdt::{Callers, Card, Configuration, RdtBench};

    #[test]
    fn the_others_are_compared_with_the_first() {
        let sweep = Sweep {
            types: ["g-counter", "account"].map(|name| name.parse().unwrap()).to_vec(),
            nodes: vec![3, 4],
            commits: vec![Commit::Majority],
            systems: vec![System::Weft, System::WeftLog, System::Waverunner],
        };
        let run = |name, nodes, commit, system| {
            let bench = RdtBench {
                name,
                system,
                card: Card::Fpga,
                configuration: Configuration::Rpc,
                commit,
                callers: Callers::All,
                nodes,
                updates: 20,
                operations: 600,
                outstanding: 1,
                keys: 64,
                skew: 0.0,
                network: NetworkProfile::SWITCH,
                seed: 7,
            };
            bench.run(&FaultPlan::default(), format!("again {name} {nodes} {system}"), |_| {})
        };
        let result = sweep.run("again".into(), run).unwrap();
        assert_eq!((result.runs.len(), result.ratios.len(), sweep.runs()), (12, 8, 12));
        assert_eq!(result.checked, "holds");
        let (first, last) = (&result.runs[9].measured, &result.runs[11].measured);
        let ratio = &result.ratios[7];
        assert_eq!((ratio.name, ratio.nodes, ratio.than), ("account", 4, System::Waverunner));
        assert_eq!(ratio.response, last.response.mean_ns / first.response.mean_ns);
        assert_eq!(ratio.throughput, first.operations_per_us / last.operations_per_us);
        assert!(ratio.response > 1.0);
        let text = result.to_text();
        assert!(text.contains("waverunner") && text.contains("repeat   again"), "{text}");
        assert!(weft_results::to_json(&result).starts_with("{\n  \"result\": \"rdt-sweep\""));
    }
}
