//! The minimum number of host threads and of NIC cores that reach 95 % of the peak throughput (Xenic section
//! 5.6, table 3).

use serde::Serialize;
use weft_applications::{WorkloadChoice, WorkloadName};
use weft_results::table::{Table, three_digits, with_prefix};

use super::measure::{HOST_THREADS, TxnBench};
use super::system::System;

/// The share of the highest throughput that must be reached.
const KEPT: f64 = 0.95;
/// Performance of a core of the card relative to a thread of the host: the ratio of their Coremark scores
/// (Xenic section 5.6).
const CORE_OF_A_THREAD: f64 = 0.31;

/// The systems of the table.
pub const SYSTEMS: [System; 3] = [System::Weft, System::DrtmH, System::Fasst];

/// Results of one workload on one system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadsRow {
    /// The workload.
    pub workload: &'static str,
    /// Size of the workload.
    pub scale: String,
    /// The system.
    pub system: System,
    /// The highest throughput of all loads, with all threads and cores.
    pub peak_throughput_per_server: f64,
    /// Minimum number of host threads that reach 95 % of it, with all cores of the card.
    pub host_threads: u32,
    /// Minimum number of cores of the card that reach 95 % of it, with all host threads; null if engines run
    /// on the host.
    pub nic_cores: Option<u32>,
    /// The highest throughput with both of these numbers.
    pub throughput_with_both: f64,
    /// Host threads plus cores of the card; cores are converted into host threads.
    pub normalised: f64,
    /// The same number in table 3.
    pub published: Option<f64>,
    /// Violations of any of the runs.
    pub wrong: Vec<String>,
}

/// Results of the whole table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadsResult {
    /// Kind of the result: `txn-threads`.
    pub result: &'static str,
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Servers, each with a shard and clients.
    pub nodes: usize,
    /// Replicas of each shard.
    pub replication: usize,
    /// Rows, ordered by workload.
    pub rows: Vec<ThreadsRow>,
    /// `holds`, `violation`, or `not checked` for strict serializability.
    pub checked: &'static str,
    /// Wall-clock time of the measurement, in seconds.
    pub wall_s: f64,
    /// The command that repeats the measurement.
    pub replay: String,
}

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct ThreadsBench {
    /// The workloads.
    pub workloads: Vec<WorkloadChoice>,
    /// All other parameters. The workload, the system, the threads and the disabled features in it are
    /// ignored.
    pub each: TxnBench,
}

/// The number of threads in the paper's table 3.
fn published(workload: &str, system: System) -> Option<f64> {
    let row = match workload {
        name if name == WorkloadName::TpccNewOrder.name() => [21.7, 24.0, 32.0],
        name if name == WorkloadName::Retwis.name() => [9.9, 18.0, 24.0],
        name if name == WorkloadName::Smallbank.name() => [9.9, 20.0, 28.0],
        _ => return None,
    };
    SYSTEMS.iter().position(|known| *known == system).map(|place| row[place])
}

/// The smallest number from 1 to `most` that is enough, if `most` is. Every larger number must be enough too.
fn fewest(most: u32, mut is_enough: impl FnMut(u32) -> bool) -> u32 {
    let (mut too_few, mut enough) = (0, most);
    while enough - too_few > 1 {
        let between = too_few + (enough - too_few) / 2;
        if is_enough(between) {
            enough = between;
        } else {
            too_few = between;
        }
    }
    enough
}

/// Runs of one workload on one system.
struct Runs<'a, P> {
    each: &'a TxnBench,
    ended: &'a mut u64,
    progress: &'a mut P,
    wrong: Vec<String>,
}

impl<P: FnMut(u64)> Runs<'_, P> {
    fn throughput(&mut self, host_threads: Option<u32>, nic_cores: Option<u32>) -> f64 {
        let bench = TxnBench { host_threads, nic_cores, ..self.each.clone() };
        let (before, progress) = (*self.ended, &mut self.progress);
        let measured = bench.measure(|done| progress(before + done));
        *self.ended += self.each.transactions;
        self.wrong.extend(measured.findings());
        measured.peak_throughput_per_server
    }

    fn row(mut self, workload: &WorkloadChoice) -> ThreadsRow {
        let system = self.each.system;
        let (threads, cores) = (HOST_THREADS, self.each.cores());
        let peak = self.throughput(Some(threads), cores);
        let least = peak * KEPT;
        let host_threads = fewest(threads, |threads| self.throughput(Some(threads), cores) >= least);
        let nic_cores =
            cores.map(|most| fewest(most, |cores| self.throughput(Some(threads), Some(cores)) >= least));
        let throughput_with_both = self.throughput(Some(host_threads), nic_cores);
        let cores = f64::from(nic_cores.unwrap_or(0));
        ThreadsRow {
            workload: workload.name(),
            scale: workload.scale(),
            system,
            peak_throughput_per_server: peak,
            host_threads,
            nic_cores,
            throughput_with_both,
            normalised: f64::from(host_threads) + CORE_OF_A_THREAD * cores,
            published: published(workload.name(), system),
            wrong: self.wrong,
        }
    }
}

impl ThreadsBench {
    /// Runs the measurement. `progress` is called with the number of finished transactions.
    pub fn run(&self, replay: String, mut progress: impl FnMut(u64)) -> ThreadsResult {
        let begin = std::time::Instant::now();
        let mut ended = 0;
        let mut rows = Vec::new();
        for &workload in &self.workloads {
            for system in SYSTEMS {
                let each = TxnBench { workload, system, ..self.each.clone() };
                let (ended, progress) = (&mut ended, &mut progress);
                rows.push(Runs { each: &each, ended, progress, wrong: Vec::new() }.row(&workload));
            }
        }
        ThreadsResult {
            result: "txn-threads",
            world: "sim",
            nodes: self.each.nodes,
            replication: self.each.replication,
            checked: match (rows.iter().all(|row| row.wrong.is_empty()), self.each.checks) {
                (false, _) => "violation",
                (true, true) => "holds",
                (true, false) => "not checked",
            },
            rows,
            wall_s: begin.elapsed().as_secs_f64(),
            replay,
        }
    }
}

impl ThreadsResult {
    /// The result as text.
    pub fn to_text(&self) -> String {
        let table = Table::of(&self.rows)
            .words("workload", |row| row.workload)
            .words("system", |row| row.system)
            .numbers("peak", "tx/s/server", |row| with_prefix(row.peak_throughput_per_server))
            .numbers("host threads", "", |row| row.host_threads)
            .numbers("NIC cores", "", |row| {
                row.nic_cores.map_or_else(|| "–".to_owned(), |cores| cores.to_string())
            })
            .numbers("with as few of both", "tx/s/server", |row| with_prefix(row.throughput_with_both))
            .numbers("normalised", "threads", |row| three_digits(row.normalised))
            .numbers("Xenic's", "threads", |row| row.published.map_or_else(|| "–".to_owned(), three_digits));
        let mut scales: Vec<String> =
            self.rows.iter().map(|row| format!("{}: {}", row.workload, row.scale)).collect();
        scales.dedup();
        let mut text = format!(
            "{table}\n  servers     {}, {} replicas\n  scale       {}\n  checked     {}\n  took        {} s\n  repeat      {}\n",
            self.nodes,
            self.replication,
            scales.join("; "),
            self.checked,
            three_digits(self.wall_s),
            self.replay
        );
        for row in &self.rows {
            for wrong in &row.wrong {
                text += &format!("\n  wrong: {} on {}: {wrong}", row.workload, row.system);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_number_that_is_enough_is_found() {
        for least in 1..=24 {
            let mut asked = 0;
            let found = fewest(24, |number| {
                asked += 1;
                number >= least
            });
            assert_eq!(found, least);
            assert!(asked <= 5, "{asked}");
        }
        assert_eq!(fewest(1, |_| false), 1);
    }
}
