//! Results of the crash experiments, as JSON and as text.

use serde::Serialize;
use weft_results::histogram::Summary;
use weft_results::table::{Column, Table, grouped, three_digits, time_with_unit};
use weft_sim::CostProfile;

use super::fail_over::FailOvers;
use super::observe::{Mark, Run, Timeline};
use super::{CrashBench, Victim};
use crate::rdt::measure::{Measured, RdtBench};
use crate::rdt::system::{Commit, Configuration, System};
use crate::smr::FailOver;

/// Results of one of the two runs of a pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Response times of all operations.
    pub response: Summary,
    /// Response times of queries.
    pub queries: Summary,
    /// Response times of calls.
    pub updates: Summary,
    /// All operations divided by the time of the slowest replica.
    pub operations_per_us: f64,
    /// Virtual time from the first request to the last answer.
    pub virtual_ns: u64,
    /// Hash of the event log of the run.
    pub log_hash: String,
}

impl Outcome {
    fn new(measured: &Measured) -> Self {
        Self {
            response: measured.response,
            queries: measured.queries,
            updates: measured.updates,
            operations_per_us: measured.operations_per_us,
            virtual_ns: measured.virtual_ns,
            log_hash: measured.log_hash.clone(),
        }
    }
}

/// Results of a pair of runs: without a crash and with one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrashResult {
    /// The victim.
    pub crash: Victim,
    /// Index of the victim.
    pub node: usize,
    /// The data type.
    #[serde(rename = "type")]
    pub name: &'static str,
    /// Where engines and clients run.
    pub system: System,
    /// How calls reach the objects.
    pub configuration: Configuration,
    /// Percentage of the operations that call a method.
    pub updates_percent: u8,
    /// The run without a crash.
    pub without: Outcome,
    /// The run in which the node crashes after half of the time.
    pub with: Outcome,
    /// Increase of the mean response time by the crash, in percent.
    pub response_percent: f64,
    /// Increase of the throughput by the crash, in percent.
    pub throughput_percent: f64,
    /// Operations that the crashed node's client had begun; they stay unanswered.
    pub unanswered: u64,
    /// Events after the crash.
    pub marks: Vec<Mark>,
    /// Answers around the crash.
    pub timeline: Timeline,
    /// Times of the phases of the fail-over, if a leader crashed.
    pub fail_over: Option<FailOver>,
    /// Number of calls in both runs.
    pub calls: u64,
    /// Number of steps of replicas that were checked, in both runs.
    pub steps: u64,
    /// `holds`, or `violation`.
    pub checked: &'static str,
    /// Descriptions of the violations.
    pub wrong: Vec<String>,
}

impl CrashResult {
    pub(super) fn new(bench: &RdtBench, crash: Victim, without: &Run, with: &Run) -> Self {
        let [before, after] = [without, with].map(|run| &run.measured);
        let seen = with.seen.clone().unwrap_or_default();
        let more = |with: f64, without: f64| (with / without - 1.0) * 100.0;
        let mut wrong = [before.findings(), after.findings()].concat();
        if crash == Victim::Leader && seen.fail_over.is_none() {
            wrong.push("no node leads after the crash".to_owned());
        }
        Self {
            crash,
            node: seen.node,
            name: bench.name.name(),
            system: bench.system,
            configuration: bench.configuration,
            updates_percent: bench.updates,
            response_percent: more(after.response.mean_ns, before.response.mean_ns),
            throughput_percent: more(after.operations_per_us, before.operations_per_us),
            unanswered: bench.operations - after.response.operations.min(bench.operations),
            without: Outcome::new(before),
            with: Outcome::new(after),
            marks: seen.marks,
            timeline: seen.timeline,
            fail_over: seen.fail_over,
            calls: before.check.calls + after.check.calls,
            steps: before.check.steps + after.check.steps,
            checked: if wrong.is_empty() { "holds" } else { "violation" },
            wrong,
        }
    }
}

/// Results of all experiments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrashReport {
    /// Kind of the result: `rdt-crash`.
    pub result: &'static str,
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Replicas, each with a client.
    pub nodes: usize,
    /// Operations of all clients together, in each run.
    pub operations: u64,
    /// When a call without conflicts is answered.
    pub commit: Commit,
    /// Network between the cards.
    pub network: &'static str,
    /// Basis of the times, by system.
    pub basis: Vec<String>,
    /// Seed of operations and delays.
    pub seed: u64,
    /// Results of each pair of runs.
    pub experiments: Vec<CrashResult>,
    /// Times of many fail-overs, by system.
    pub fail_overs: Vec<FailOvers>,
    /// `holds`, or `violation`.
    pub checked: &'static str,
    /// Wall-clock time of the simulation, in seconds.
    pub wall_s: f64,
    /// The command that repeats the experiments.
    pub replay: String,
}

impl CrashReport {
    pub(super) fn new(
        bench: &CrashBench,
        experiments: Vec<CrashResult>,
        fail_overs: Vec<FailOvers>,
        replay: String,
        wall_s: f64,
    ) -> Self {
        let basis = |system: &System| {
            let profile = match system {
                System::Hamband => &CostProfile::RDMA_CARD,
                _ => &CostProfile::FPGA_APPLICATION,
            };
            format!("{system}: cost profile `{}`: {}", profile.name, profile.basis)
        };
        let holds = experiments.iter().all(|result| result.wrong.is_empty())
            && fail_overs.iter().all(|times| times.wrong.is_empty());
        Self {
            result: "rdt-crash",
            world: "sim",
            nodes: bench.nodes,
            operations: bench.operations,
            commit: bench.commit,
            network: bench.network.name,
            basis: bench.systems.iter().map(basis).collect(),
            seed: bench.seed,
            experiments,
            fail_overs,
            checked: if holds { "holds" } else { "violation" },
            wall_s,
            replay,
        }
    }

    /// The result as text.
    pub fn to_text(&self) -> String {
        let table = Table::of(&self.experiments)
            .words("crash", |result| result.crash)
            .words("type", |result| result.name)
            .words("system", |result| result.system)
            .numbers("updates", "%", |result| result.updates_percent)
            .numbers("response", "ns", |result| three_digits(result.without.response.mean_ns))
            .numbers("with crash", "ns", |result| three_digits(result.with.response.mean_ns))
            .numbers("", "%", |result| format!("{:+.1}", result.response_percent))
            .numbers("throughput", "op/µs", |result| three_digits(result.without.operations_per_us))
            .numbers("with crash", "op/µs", |result| three_digits(result.with.operations_per_us))
            .numbers("", "%", |result| format!("{:+.1}", result.throughput_percent))
            .numbers("no answer", "op", |result| result.unanswered)
            .words("checked", |result| result.checked);
        let mut text = table.to_string();
        let single = self.experiments.iter().filter_map(|result| {
            let fail_over = result.fail_over?;
            Some((format!("{}, {} % updates", result.system, result.updates_percent), fail_over))
        });
        let mut table = Table::new([
            Column::words("fail-over"),
            Column::numbers("detected", ""),
            Column::numbers("permissions", ""),
            Column::numbers("taken over", ""),
            Column::numbers("first commit", ""),
            Column::numbers("in all", ""),
        ]);
        let mut any = false;
        for (name, times) in single {
            any = true;
            let parts = [
                times.detected_ns,
                times.permission_ns,
                times.takeover_ns,
                times.first_commit_ns,
                times.total_ns,
            ];
            table.row([name].into_iter().chain(parts.map(time_with_unit)));
        }
        if any {
            text += &format!("\n{table}");
        }
        if !self.fail_overs.is_empty() {
            text += &format!("\n{}", self.quantiles());
        }
        let calls: u64 = self.experiments.iter().map(|result| result.calls).sum();
        let steps: u64 = self.experiments.iter().map(|result| result.steps).sum();
        text += &format!(
            "\n  runs        {} nodes, {} operations each, commit {}, network {}\n  checked     {}: {} calls, {} steps of \
             replicas\n  took        {} s\n  repeat      {}\n",
            self.nodes,
            grouped(self.operations),
            self.commit,
            self.network,
            self.checked,
            grouped(calls),
            grouped(steps),
            three_digits(self.wall_s),
            self.replay
        );
        let wrong = self.experiments.iter().flat_map(|result| {
            let what = format!("crash of a {}, {}, {}", result.crash, result.name, result.system);
            result.wrong.iter().map(move |wrong| format!("{what}: {wrong}"))
        });
        let more = self.fail_overs.iter().flat_map(|times| &times.wrong).cloned();
        for wrong in wrong.chain(more) {
            text += &format!("\n  wrong: {wrong}");
        }
        text
    }

    fn quantiles(&self) -> Table {
        let mut table = Table::new([
            Column::words("over many leaders"),
            Column::numbers("crashes", ""),
            Column::numbers("min", ""),
            Column::numbers("p50", ""),
            Column::numbers("p99", ""),
            Column::numbers("max", ""),
        ]);
        for times in &self.fail_overs {
            let rows = [("fail-over", times.fail_over_ns), ("permission switch", times.permission_switch_ns)];
            for (name, quantiles) in rows {
                let [min, p50, p99, max] =
                    [quantiles.min, quantiles.p50, quantiles.p99, quantiles.max].map(time_with_unit);
                let (name, count) = (format!("{name}, {}", times.system), grouped(times.each.len() as u64));
                table.row([name, count, min, p50, p99, max]);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use weft_sim::NetworkProfile;

    use super::super::observe::SUSPECTED_BEFORE;
    use super::*;

    fn bench() -> CrashBench {
        let experiments = Victim::ALL.map(|victim| (victim, victim.usual_type()));
        CrashBench {
            experiments: experiments.to_vec(),
            systems: vec![System::Weft, System::Hamband],
            updates: vec![20],
            commit: Commit::Majority,
            nodes: 4,
            operations: 4_000,
            fail_overs: 3,
            network: NetworkProfile::SWITCH,
            seed: 7,
        }
    }

    #[test]
    fn survivors_do_the_rest_and_nothing_is_lost() {
        let report = bench().run("again".to_owned(), |_| {});
        assert_eq!(report.checked, "holds", "{}", report.to_text());
        assert_eq!((report.experiments.len(), report.fail_overs.len()), (6, 2));
        for result in &report.experiments {
            // Only calls that the crashed node's client had begun stay unanswered.
            assert!(result.unanswered <= 1, "{result:?}");
            assert_eq!(result.with.response.operations + result.unanswered, 4_000);
            assert_eq!(result.without.response.operations, 4_000);
            // A crash is detected a few heartbeats later, unless the node was suspected before.
            let noticed =
                result.marks.iter().find(|mark| mark.label.starts_with("taken for dead")).expect("noticed");
            assert!(noticed.label == SUSPECTED_BEFORE || noticed.at_ns >= 1_500, "{result:?}");
            assert_eq!(result.fail_over.is_some(), result.crash == Victim::Leader);
            assert!(result.timeline.operations.iter().sum::<u64>() > 0);
        }
        for times in &report.fail_overs {
            assert_eq!(times.each.len(), 3);
        }
        // Fail-over is faster on cards than in processes.
        assert!(report.fail_overs[0].fail_over_ns.max < report.fail_overs[1].fail_over_ns.min);
        assert!(
            report.fail_overs[0].permission_switch_ns.max < report.fail_overs[1].permission_switch_ns.min
        );
    }

    #[test]
    fn a_replica_may_take_along_what_it_answered_by_itself() {
        for (victim, name) in [(Victim::Replica, "2p-set"), (Victim::Leader, "account")] {
            let experiments = vec![(victim, name.parse().unwrap())];
            let bench = CrashBench {
                experiments,
                commit: Commit::Local,
                fail_overs: 0,
                systems: vec![System::Weft],
                ..bench()
            };
            let report = bench.run("again".to_owned(), |_| {});
            assert_eq!(report.checked, "holds", "{}", report.to_text());
        }
    }

    #[test]
    fn a_seed_decides_everything() {
        let bench = CrashBench { systems: vec![System::Weft], operations: 2_000, ..bench() };
        let [first, second] = [(); 2].map(|()| {
            let mut report = bench.run(String::new(), |_| {});
            report.wall_s = 0.0;
            report
        });
        assert_eq!(first, second);
    }
}
