//! Hybrid mode (SafarDB section 5.4): some of the records or accounts are in the card's memory, the others in
//! the host's memory behind the bus. One replication interface serves both.
//!
//! Elements with numbers below a bound are on the card. The share of accesses to them is a parameter. Within
//! each part, the popularity of keys follows a Zipf distribution. A call or a query waits for its reads of
//! the host's memory, and so does a replica that applies the call; writes to the host's memory are charged
//! too. Updates that combine may be folded before they are sent.

use serde::Serialize;
use weft_results::histogram::Summary;
use weft_results::table::{Table, grouped, three_digits};
use weft_sim::{CostProfile, NetworkProfile};

use super::measure::RdtBench;
use super::split::Split;
use super::system::{Callers, Card, Commit, Configuration, System};
use super::type_name::TypeName;

/// The points to measure: all combinations of these parameters.
#[derive(Clone, Debug)]
pub struct HybridBench {
    /// Data types with keys.
    pub names: Vec<TypeName>,
    /// Percentages of the accesses that go to keys on the card; each is measured.
    pub on_card: Vec<u8>,
    /// Percentages of the operations that call a method; each is measured.
    pub updates: Vec<u8>,
    /// Zipf skews of the keys of each part, 0 to 2; each is measured.
    pub skews: Vec<f64>,
    /// Numbers of combining calls that are folded before they are sent; each is measured.
    pub summarize: Vec<usize>,
    /// When a call without conflicts is answered.
    pub commit: Commit,
    /// Replicas, each with a client.
    pub nodes: usize,
    /// Operations of all clients together, at each point.
    pub operations: u64,
    /// Number of records or accounts.
    pub keys: usize,
    /// Number of records or accounts on the card.
    pub card_keys: usize,
    /// Network between the cards.
    pub network: NetworkProfile,
    /// Seed of operations and delays.
    pub seed: u64,
}

/// Results of one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HybridPoint {
    /// The data type.
    #[serde(rename = "type")]
    pub name: &'static str,
    /// Percentage of the operations that call a method.
    pub updates_percent: u8,
    /// Percentage of the accesses that go to keys on the card.
    pub on_card_percent: u8,
    /// Skew of the popularity of keys.
    pub skew: f64,
    /// Number of calls that are folded before they are sent.
    pub summarize: usize,
    /// Response times of all operations.
    pub response: Summary,
    /// Response times of queries.
    pub queries: Summary,
    /// Response times of calls.
    pub updates: Summary,
    /// All operations divided by the time of the slowest replica.
    pub operations_per_us: f64,
    /// Calls that were refused because they were not permissible, in percent of all calls.
    pub refused_percent: f64,
    /// Steps of replicas that were checked.
    pub steps: u64,
    /// `holds`, or `violation`.
    pub checked: &'static str,
    /// Descriptions of the violations.
    pub wrong: Vec<String>,
    /// Hash of the event log of the run.
    pub log_hash: String,
}

/// Results of all points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HybridReport {
    /// Kind of the result: `rdt-hybrid`.
    pub result: &'static str,
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Basis of the times.
    pub basis: String,
    /// Replicas, each with a client.
    pub nodes: usize,
    /// Operations of all clients together, at each point.
    pub operations: u64,
    /// When a call without conflicts is answered.
    pub commit: Commit,
    /// Number of records or accounts.
    pub keys: usize,
    /// Number of records or accounts on the card.
    pub card_keys: usize,
    /// Network between the cards.
    pub network: &'static str,
    /// Seed of operations and delays.
    pub seed: u64,
    /// Results of each point.
    pub points: Vec<HybridPoint>,
    /// `holds`, or `violation`.
    pub checked: &'static str,
    /// Wall-clock time of the simulation, in seconds.
    pub wall_s: f64,
    /// The command that repeats the measurement.
    pub replay: String,
}

impl HybridBench {
    /// Number of points.
    pub fn count(&self) -> u64 {
        let Self { names, on_card, updates, skews, summarize, .. } = self;
        [names.len(), on_card.len(), updates.len(), skews.len(), summarize.len()]
            .into_iter()
            .map(|length| length as u64)
            .product()
    }

    /// Measures all points. `progress` is called with the number of points done.
    pub fn run(&self, replay: String, mut progress: impl FnMut(u64)) -> HybridReport {
        let begin = std::time::Instant::now();
        let mut points = Vec::new();
        for &name in &self.names {
            for &skew in &self.skews {
                for &fold in &self.summarize {
                    for &updates in &self.updates {
                        for &on_card in &self.on_card {
                            let split = Split { card_keys: self.card_keys, on_card, fold };
                            points.push(self.point(name, updates, skew, split));
                            progress(points.len() as u64);
                        }
                    }
                }
            }
        }
        let profile = &CostProfile::FPGA_APPLICATION;
        HybridReport {
            result: "rdt-hybrid",
            world: "sim",
            basis: format!("cost profile `{}`: {}", profile.name, profile.basis),
            nodes: self.nodes,
            operations: self.operations,
            commit: self.commit,
            keys: self.keys,
            card_keys: self.card_keys,
            network: self.network.name,
            seed: self.seed,
            checked: if points.iter().all(|point| point.checked == "holds") { "holds" } else { "violation" },
            points,
            wall_s: begin.elapsed().as_secs_f64(),
            replay,
        }
    }

    fn point(&self, name: TypeName, updates: u8, skew: f64, split: Split) -> HybridPoint {
        let bench = RdtBench {
            name,
            system: System::Weft,
            configuration: Configuration::Rpc,
            card: Card::Fpga,
            commit: self.commit,
            callers: Callers::All,
            nodes: self.nodes,
            updates,
            operations: self.operations,
            outstanding: 1,
            keys: self.keys,
            skew,
            network: self.network,
            seed: self.seed,
        };
        let measured = bench.measure_split(Some(split), |_| {});
        HybridPoint {
            name: name.name(),
            updates_percent: updates,
            on_card_percent: split.on_card,
            skew,
            summarize: split.fold,
            response: measured.response,
            queries: measured.queries,
            updates: measured.updates,
            operations_per_us: measured.operations_per_us,
            refused_percent: measured.refused_percent,
            steps: measured.check.steps,
            checked: if measured.holds() { "holds" } else { "violation" },
            wrong: measured.findings(),
            log_hash: measured.log_hash,
        }
    }
}

impl HybridReport {
    /// The result as text.
    pub fn to_text(&self) -> String {
        let table = Table::of(&self.points)
            .words("type", |point| point.name)
            .numbers("skew", "", |point| point.skew)
            .numbers("folded", "", |point| point.summarize)
            .numbers("updates", "%", |point| point.updates_percent)
            .numbers("on card", "%", |point| point.on_card_percent)
            .numbers("response", "ns", |point| three_digits(point.response.mean_ns))
            .numbers("queries", "ns", |point| three_digits(point.queries.mean_ns))
            .numbers("updates", "ns", |point| three_digits(point.updates.mean_ns))
            .numbers("throughput", "op/µs", |point| three_digits(point.operations_per_us))
            .numbers("refused", "%", |point| three_digits(point.refused_percent))
            .words("checked", |point| point.checked);
        let steps: u64 = self.points.iter().map(|point| point.steps).sum();
        let mut text = format!(
            "{table}\n  runs        {} nodes, {} operations each, commit {}, network {}\n  keys        {}, of which {} on the \
             card\n  checked     {}: {} steps of replicas\n  took        {} s\n  card        {}\n  repeat      {}\n",
            self.nodes,
            grouped(self.operations),
            self.commit,
            self.network,
            grouped(self.keys as u64),
            grouped(self.card_keys as u64),
            self.checked,
            grouped(steps),
            three_digits(self.wall_s),
            self.basis,
            self.replay
        );
        for point in &self.points {
            for wrong in &point.wrong {
                text += &format!("\n  wrong: {}, {} % on card: {wrong}", point.name, point.on_card_percent);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use weft_harness::node_id;
    use weft_sim::{Fault, FaultPlan};
    use weft_time::{Duration, Instant};
    use weft_waist::NodeSet;

    use super::super::cluster::Cluster;
    use super::*;

    fn bench() -> HybridBench {
        HybridBench {
            names: vec!["ycsb".parse().unwrap(), "smallbank".parse().unwrap()],
            on_card: vec![0, 50, 100],
            updates: vec![20],
            skews: vec![0.0],
            summarize: vec![1],
            commit: Commit::Majority,
            nodes: 3,
            operations: 3_000,
            keys: 256,
            card_keys: 32,
            network: NetworkProfile::SWITCH,
            seed: 7,
        }
    }

    #[test]
    fn more_on_the_card_is_faster_and_all_rules_hold() {
        let bench = bench();
        let report = bench.run(String::new(), |_| {});
        assert_eq!(
            (report.checked, report.points.len() as u64),
            ("holds", bench.count()),
            "{}",
            report.to_text()
        );
        for points in report.points.chunks(3) {
            let means: Vec<f64> = points.iter().map(|point| point.queries.mean_ns).collect();
            // A query of a key in the host's memory waits for the bus only.
            assert!(means[0] > means[2] + 500.0 && means[0] < means[2] + 700.0, "{means:?}");
            assert!(means[1] > means[2] && means[1] < means[0], "{means:?}");
            assert!(points[0].updates.mean_ns > points[2].updates.mean_ns, "{points:?}");
        }
        // If all keys are on the card, the host's memory makes no difference.
        let plain = RdtBench {
            name: bench.names[0],
            system: System::Weft,
            configuration: Configuration::Rpc,
            card: Card::Fpga,
            commit: bench.commit,
            callers: Callers::All,
            nodes: 3,
            updates: 20,
            operations: 3_000,
            outstanding: 1,
            keys: 32,
            skew: 0.0,
            network: bench.network,
            seed: 7,
        };
        let plain = plain.measure_split(None, |_| {});
        assert!((plain.queries.mean_ns - report.points[2].queries.mean_ns).abs() < 2.0);
    }

    /// Number of messages that replicas have received from each other, per folded call.
    fn taken_in(fold: usize, commit: Commit) -> f64 {
        let HybridBench { nodes, keys, card_keys, network, seed, .. } = bench();
        let bench = RdtBench {
            name: "ycsb".parse().unwrap(),
            system: System::Weft,
            configuration: Configuration::Rpc,
            card: Card::Fpga,
            commit,
            callers: Callers::All,
            nodes,
            updates: 50,
            operations: 3_000,
            outstanding: 1,
            keys,
            skew: 1.2,
            network,
            seed,
        };
        let mut parameters = bench.parameters();
        let split = Split { card_keys, on_card: 40, fold };
        parameters.workload = parameters.workload.with_popularity(split.popularity(keys, bench.skew));
        parameters.split = Some(split);
        let mut cluster = Cluster::new(&parameters).unwrap();
        while !cluster.books.borrow().all_done()
            && cluster.machines.now() < Instant::ZERO + Duration::from_ms(50)
        {
            cluster.machines.run_for(Duration::from_us(20));
        }
        assert!(cluster.books.borrow().all_done());
        let calls = cluster.machines.sum("summarized");
        assert!(calls > 1_000, "{calls}");
        cluster.machines.sum("absorbed") as f64 / calls as f64
    }

    #[test]
    fn folding_saves_messages_and_costs_time_only_those_who_wait_for_it() {
        for commit in [Commit::Local, Commit::Majority] {
            // Without folding, each call is a message to each of the two other replicas.
            assert!((1.99..=2.0).contains(&taken_in(1, commit)), "{commit:?}");
        }
        // With skew 1.2 some calls of a fold have the same key, which takes one message.
        let folded = taken_in(5, Commit::Local);
        assert!(folded < 1.9, "{folded}");
        let points = |names: &[&str], commit| {
            let names = names.iter().map(|name| name.parse().unwrap()).collect();
            let bench = HybridBench {
                names,
                commit,
                on_card: vec![40],
                updates: vec![50],
                summarize: vec![1, 5],
                skews: vec![0.0, 1.2],
                ..bench()
            };
            let report = bench.run(String::new(), |_| {});
            assert_eq!(report.checked, "holds", "{}", report.to_text());
            report.points
        };
        let local = points(&["ycsb"], Commit::Local);
        let change = local[1].response.mean_ns / local[0].response.mean_ns;
        assert!((0.98..1.02).contains(&change), "{local:?}");
        // A call with commit rule `majority` waits until its fold is sent.
        let majority = points(&["ycsb", "smallbank"], Commit::Majority);
        assert!(majority[1].response.mean_ns > majority[0].response.mean_ns, "{majority:?}");
    }

    /// A replica crashes after some replicas have received a part of its fold. All survivors must end in the
    /// same state.
    #[test]
    fn a_crash_leaves_no_half_of_a_fold() {
        for seed in 1..=6 {
            let bench = RdtBench {
                name: "ycsb".parse().unwrap(),
                system: System::Weft,
                configuration: Configuration::Rpc,
                card: Card::Fpga,
                commit: Commit::Majority,
                callers: Callers::All,
                nodes: 3,
                updates: 60,
                operations: 2_000,
                outstanding: 6,
                keys: 64,
                skew: 0.0,
                network: NetworkProfile::DETPU,
                seed,
            };
            let mut parameters = bench.parameters();
            parameters.split = Some(Split { card_keys: 8, on_card: 50, fold: 4 });
            (parameters.redistribute, parameters.heartbeat) = (true, None);
            let crash = Fault::Crash { at_us: 300 + 7 * seed, machine: "node2".to_owned() };
            parameters.plan = FaultPlan { faults: vec![crash] };
            let mut cluster = Cluster::new(&parameters).unwrap();
            cluster.books.borrow_mut().begins_at = Instant::ZERO + cluster.connecting();
            while !cluster.books.borrow().all_done()
                && cluster.machines.now() < Instant::ZERO + Duration::from_ms(50)
            {
                cluster.machines.run_for(Duration::from_us(20));
                cluster.nudge();
            }
            let measured = bench.conclude(&mut cluster, NodeSet::EMPTY.with(node_id(2)));
            assert!(measured.holds(), "seed {seed}: {:?} {:?}", measured.check, measured.wrong);
            assert!(measured.response.operations > 1_900, "seed {seed}: {:?}", measured.response);
        }
    }
}
