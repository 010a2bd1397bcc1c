//! A measurement: clients in closed loops, at increasing loads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::Serialize;
use weft_applications::Workload;
use weft_applications::WorkloadChoice;
use weft_check::serializable::Report;
use weft_harness::activity::Activity;
use weft_harness::faults_of;
use weft_results::NodeState;
use weft_results::histogram::Summary;
use weft_sim::{CostProfile, Execution, FaultPlan, HostMeter, NetworkProfile, PlanError};
use weft_time::{Duration, Instant};
use weft_txn::host::{Half, HalfParameters, HalfTables, Local};
use weft_txn::{Parameters, Placement, Transactions, Variant};
use weft_waist::Memory;

use super::books::RunRecord;
use super::checker::Checker;
use super::cluster::{Cluster, Machinery, Node, Server, Totals};
use super::host::NodeHost;
use super::system::System;
use super::tables::Contents;
use super::without::Without;

/// Interval between two checks of a run.
const SLICE: Duration = Duration::from_us(5);
/// Percentage of the transactions at each load that are warm-up. Warm-up also lasts until each client has
/// ended a transaction, or, if some starve, until the requested number has ended.
const WARM_UP_PERCENT: u64 = 20;
/// Time without a finished transaction after which a run counts as stuck.
const STUCK_AFTER: Duration = Duration::from_ms(50);
/// Time after the last answer until all other messages have arrived.
const SETTLE: Duration = Duration::from_us(500);
/// Hardware threads of a host (Xenic section 5).
pub(super) const HOST_THREADS: u32 = 32;
/// Time within which outstanding transactions end and are applied at all replicas.
const DRAIN: Duration = Duration::from_ms(50);

/// Results of one kind of transaction at one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindResult {
    /// Name of the kind.
    pub kind: &'static str,
    /// Committed transactions.
    pub committed: u64,
    /// Transactions that their procedure aborted.
    pub aborted: u64,
    /// Latency from the first call to the last answer, of committed transactions.
    pub latency: Summary,
}

/// Results at one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Outstanding transactions of each server.
    pub outstanding: usize,
    /// Committed transactions that began in the window, per second and server. If the workload counts only
    /// one kind, only transactions of that kind count.
    pub throughput_per_server: f64,
    /// Latency from the first call to the last answer, of all committed transactions.
    pub latency: Summary,
    /// Results by kind of transaction.
    pub kinds: Vec<KindResult>,
    /// Calls that have conflicted in all attempts, in percent of all calls.
    pub conflicts_percent: f64,
    /// Attempts that have conflicted, in percent of all attempts.
    pub attempts_lost_percent: f64,
    /// Bytes of the frames that a server sends, divided by the committed transactions of one server.
    pub bytes_per_transaction: f64,
    /// Frames that a server sends, per committed transaction of one server.
    pub frames_per_transaction: f64,
    /// Messages and completed copies that an engine handles, per committed transaction of one server.
    pub messages_per_transaction: f64,
    /// Copies between card and host, per committed transaction of one server.
    pub dma_per_transaction: f64,
    /// Bytes of these copies, per committed transaction of one server.
    pub dma_bytes_per_transaction: f64,
    /// Average number of copies in a DMA vector.
    pub dma_vector: f64,
    /// Utilisation of each direction of a server's link, in percent.
    pub link_percent: f64,
    /// Utilisation of the NIC's cores, in percent.
    pub nic_percent: f64,
    /// Utilisation of the host's threads, in percent.
    pub host_percent: f64,
    /// Frames that were dropped because a buffer of the switch or of a card was full.
    pub drops: u64,
    /// Virtual time of the measurement.
    pub virtual_ns: u64,
}

/// Measurements without their parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Measurements at each load.
    pub points: Vec<Point>,
    /// The highest throughput of all loads.
    pub peak_throughput_per_server: f64,
    /// Median latency of the transactions at the lowest load.
    pub median_latency_low_load_ns: u64,
    /// Finished transactions, including those of the warm-up.
    pub transactions: u64,
    /// Check of the whole run for strict serializability, if it was checked.
    pub check: Option<Report>,
    /// Further violations.
    pub wrong: Vec<String>,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Transactions over time.
    #[serde(skip)]
    pub activity: Activity,
    /// Hash of the event log of the run.
    pub log_hash: String,
}

impl Measured {
    /// Whether no violation was found.
    pub fn holds(&self) -> bool {
        self.wrong.is_empty() && self.check.as_ref().is_none_or(|report| !report.is_violated())
    }

    /// Violations, as text.
    pub(super) fn findings(&self) -> Vec<String> {
        let violations = self.check.iter().flat_map(|report| &report.violations);
        violations.map(ToString::to_string).chain(self.wrong.clone()).collect()
    }
}

/// Number of transactions to measure at each of `loads`, `transactions` in total. Higher loads get more,
/// because more transactions are outstanding.
fn shares(transactions: u64, loads: &[usize]) -> Vec<u64> {
    let weight = |load: &usize| u64::from(load.ilog2()) + 1;
    let all: u64 = loads.iter().map(weight).sum();
    loads.iter().map(|load| (transactions * weight(load) / all).max(1)).collect()
}

/// Divisors that convert totals into rates.
#[derive(Clone, Copy, Debug)]
struct Rates {
    nodes: u64,
    link_bits_per_s: u64,
}

impl Rates {
    fn new(machinery: &Machinery) -> Self {
        Self { nodes: machinery.nodes as u64, link_bits_per_s: machinery.link_bits_per_s }
    }

    /// Busy time of all servers, in percent of `time` at each.
    fn percent(&self, busy: Duration, time: Duration) -> f64 {
        100.0 * busy.as_secs_f64() / (time.as_secs_f64() * self.nodes as f64)
    }

    /// Utilisation of the links by these frames, in percent. Each frame includes preamble, check sequence and
    /// gap.
    fn link_percent(&self, totals: &Totals, time: Duration) -> f64 {
        let bits = 8.0 * (totals.bytes + 24 * totals.frames) as f64;
        100.0 * bits / (self.link_bits_per_s as f64 * time.as_secs_f64() * self.nodes as f64)
    }
}

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct TxnBench {
    /// The workload.
    pub workload: WorkloadChoice,
    /// The system.
    pub system: System,
    /// Servers, each with a shard and clients.
    pub nodes: usize,
    /// Replicas of each shard.
    pub replication: usize,
    /// Transactions of all clients together, at all loads.
    pub transactions: u64,
    /// Outstanding transactions of each server at each load, ascending.
    pub outstanding: Vec<usize>,
    /// Threads of the program on each host; `None`: all.
    pub host_threads: Option<u32>,
    /// Cores of the NIC that run engines, for [`System::Weft`]; `None`: all.
    pub nic_cores: Option<u32>,
    /// Cost profile of the NIC, for [`System::Weft`]. The other systems have an RDMA card.
    pub profile: CostProfile,
    /// Network between the servers.
    pub network: NetworkProfile,
    /// Rate of each server's link.
    pub link_bits_per_s: u64,
    /// Features of the design that are disabled.
    pub without: Vec<Without>,
    /// Whether the whole run is checked for strict serializability.
    pub checks: bool,
    /// Seed of the transactions and their order.
    pub seed: u64,
}

impl TxnBench {
    /// Cost profile of the NIC.
    pub(super) fn nic_profile(&self) -> CostProfile {
        let mut profile = match self.system {
            System::Weft => self.profile,
            System::Fasst | System::DrtmH | System::DrtmHNoCache | System::DrtmR => {
                CostProfile::RDMA_CARD_PARALLEL
            }
        };
        if let (true, Some(dma)) = (self.is_without(Without::DmaVectors), &mut profile.dma) {
            dma.vector.value = 1;
        }
        if let (Some(cores), Execution::Cores { threads, .. }) = (self.nic_cores, &mut profile.execution) {
            threads.value = cores.into();
        }
        profile
    }

    /// Cores of the NIC that run engines.
    pub(super) fn cores(&self) -> Option<u32> {
        match self.nic_profile().execution {
            Execution::Cores { threads, .. } => {
                Some(u32::try_from(threads.value).expect("a card has few cores"))
            }
            _ => None,
        }
    }

    /// Threads of the program on each host.
    pub(super) fn threads(&self) -> u32 {
        self.host_threads.unwrap_or(HOST_THREADS)
    }

    fn is_without(&self, part: Without) -> bool {
        self.without.contains(&part)
    }

    fn machinery(&self) -> Machinery {
        Machinery {
            nodes: self.nodes,
            system: self.system,
            profile: self.nic_profile(),
            threads: self.threads(),
            aggregates: !self.is_without(Without::Aggregation),
            waits_for_dma: self.is_without(Without::AsynchronousDma),
            network: self.network,
            link_bits_per_s: self.link_bits_per_s,
            seed: self.seed,
        }
    }

    fn parameters(&self) -> Parameters {
        let mut parameters = Parameters::new(self.nodes, self.replication);
        parameters.record = self.checks;
        parameters.variant = match self.system {
            System::Weft => Variant {
                multi_hop: !self.is_without(Without::MultiHop) && !self.is_without(Without::CombinedRequests),
                combined: !self.is_without(Without::CombinedRequests),
                ship_to_card: !self.is_without(Without::CardExecution),
                log_differences: !self.is_without(Without::LogDifferences),
                order_own_keys: !self.is_without(Without::OwnKeysOrder),
                ..Variant::default()
            },
            System::Fasst => Variant::FASST,
            System::DrtmH => Variant::DRTMH,
            System::DrtmHNoCache => Variant::DRTMH_NO_CACHE,
            System::DrtmR => Variant::DRTMR,
        };
        parameters
    }

    fn cluster(&self, plan: &FaultPlan) -> Result<Cluster, PlanError> {
        let workload = self.workload.make(self.nodes);
        let books = RunRecord::new(workload.kinds().len(), workload.audit(), self.checks);
        let books = Rc::new(RefCell::new(books));
        let meter = HostMeter::new(workload.procedures().names());
        let lanes = *self.outstanding.last().expect("there is a load");
        let (parameters, procedures) = (self.parameters(), workload.procedures());
        let contents = Contents::count(&*workload, self.nodes, self.replication);
        let contents = contents.with_room(self.workload.inserts(self.transactions_at_most(lanes)));
        let (on_card, tables) = contents.on_card(&parameters);
        let linked = contents.linked(self.replication);
        let placement = |node| match self.system {
            System::Weft => on_card,
            System::Fasst => Placement::Host,
            System::DrtmH | System::DrtmHNoCache | System::DrtmR => Placement::Linked { node, shape: linked },
        };
        let tables = (self.system == System::Weft).then_some(tables);
        let server = |node| {
            let placement = placement(node);
            let mut engine = Transactions::new(parameters, procedures.clone(), placement);
            let mut memory = Memory::new(Transactions::memory_bytes(&parameters, &placement));
            let calls = HalfParameters {
                calls: lanes,
                local: if self.is_without(Without::HostExecution) {
                    Local::Nothing
                } else {
                    Local::Unshipped
                },
                record: self.checks,
                ..HalfParameters::default()
            };
            let mut half = Half::new(procedures.clone(), calls, tables);
            // The operating system allocates zeroed pages only when they are written, so unused memory costs
            // nothing.
            let bytes = |tables: HalfTables| tables.table_address as usize + tables.table_bytes();
            let mut host_memory = vec![0; tables.map_or(0, bytes)];
            for step in 0..self.replication {
                let shard = (node + self.nodes - step) % self.nodes;
                workload.load(shard, &mut |key, value| match self.system {
                    System::Weft => half.load(&mut host_memory, key, value),
                    System::Fasst => engine.load(key, value),
                    System::DrtmH | System::DrtmHNoCache | System::DrtmR => {
                        engine.load_linked(&mut memory, key, value)
                    }
                });
            }
            half.reports(&host_memory).for_each(|report| engine.learn(&report));
            half.room().into_iter().for_each(|room| engine.learn_room(room));
            if self.system == System::Weft {
                workload.load(node, &mut |key, value| engine.warm(key, value));
            }
            memory.take_accesses();
            let clients = (0..lanes).map(|lane| workload.client(node, lane as u32, self.seed));
            let applies = self.system == System::Weft;
            let host =
                NodeHost::new(node, self.nodes, half, clients, meter.clone(), applies, Rc::clone(&books));
            Server { engine, memory, host, host_memory, meter: meter.clone() }
        };
        let mut servers: Vec<Server> = (0..self.nodes).map(server).collect();
        if matches!(self.system, System::DrtmH | System::DrtmR) {
            self.remember(&*workload, &mut servers);
        }
        Cluster::new(&self.machinery(), books, servers.into_iter(), plan)
    }

    /// Size of all objects on all servers in bytes, with keys and versions. Tables, indexes and logs take at
    /// least as much in addition.
    pub fn objects_bytes(&self) -> u64 {
        let workload = self.workload.make(self.nodes);
        let mut shard = 0;
        // All shards have the same size.
        workload.load(0, &mut |_, value| shard += value.len() as u64 + 16);
        shard * (self.nodes * self.replication) as u64
    }

    /// Upper bound on the number of transactions of all clients: those before, in and after the windows, and
    /// those that are outstanding.
    const fn transactions_at_most(&self, lanes: usize) -> u64 {
        3 * self.transactions + 2 * (lanes * self.nodes * self.outstanding.len()) as u64
    }

    /// Fills the address caches of all coordinators, as they are in DrTM+H after some time.
    fn remember(&self, workload: &dyn Workload, servers: &mut [Server]) {
        for primary in 0..self.nodes {
            let mut addresses = Vec::new();
            let Server { engine, memory, .. } = &servers[primary];
            workload.load(primary, &mut |key, _| {
                addresses.push((key, engine.address_of(memory, key).expect("it was loaded")));
            });
            for other in (0..self.nodes).filter(|other| *other != primary) {
                addresses.iter().for_each(|(key, address)| servers[other].engine.remember(*key, *address));
            }
        }
    }

    /// Runs the measurement. `progress` is called with the number of finished transactions.
    pub(super) fn measure(&self, progress: impl FnMut(u64)) -> Measured {
        self.measure_under(&FaultPlan::default(), progress).expect("an empty plan fits")
    }

    /// Runs the measurement under faults of links and pauses of servers, with times from the start of the
    /// run. Servers have a fixed view, so they must not crash: crashes of the plan are left out.
    pub(super) fn measure_under(
        &self,
        plan: &FaultPlan,
        mut progress: impl FnMut(u64),
    ) -> Result<Measured, PlanError> {
        let mut run = Run::new(self, self.cluster(plan)?, plan);
        run.found();
        let mut points = Vec::new();
        for (&load, share) in self.outstanding.iter().zip(shares(self.transactions, &self.outstanding)) {
            if run.is_stuck {
                break;
            }
            points.extend(run.point(load, share, &mut progress));
        }
        Ok(run.end(points))
    }
}

/// A running measurement.
struct Run<'a> {
    bench: &'a TxnBench,
    kinds: &'static [&'static str],
    cluster: Cluster,
    rates: Rates,
    checker: Checker,
    /// Time at which the last transaction ended, and number of ended transactions.
    moved: (Instant, u64),
    /// Time at which the last fault ends.
    last_fault: Instant,
    activity: Activity,
    is_stuck: bool,
}

impl<'a> Run<'a> {
    fn new(bench: &'a TxnBench, cluster: Cluster, plan: &FaultPlan) -> Self {
        Self {
            bench,
            kinds: bench.workload.make(bench.nodes).kinds(),
            cluster,
            rates: Rates::new(&bench.machinery()),
            checker: Checker::new(),
            moved: (Instant::ZERO, 0),
            last_fault: plan.ends_at(),
            activity: Activity::new(bench.nodes, SLICE, plan),
            is_stuck: false,
        }
    }

    /// Runs until `is_over` returns true, or until the run is stuck.
    fn run_until(&mut self, mut is_over: impl FnMut(&Cluster) -> bool) {
        self.moved.0 = self.cluster.world.now();
        while !is_over(&self.cluster) && !self.is_stuck {
            self.cluster.run_for(SLICE);
            if self.bench.checks {
                self.checker.take(&mut self.cluster);
            }
            let (now, ended) = (self.cluster.world.now(), self.cluster.books.borrow().ended);
            self.activity.look(now, ended, |node| match self.cluster.node(node).host().is_full() {
                true => NodeState::Serving,
                false => NodeState::Joining,
            });
            if ended > self.moved.1 {
                self.moved = (now, ended);
            }
            if now > self.moved.0.max(self.last_fault) + STUCK_AFTER {
                self.is_stuck = true;
                let open = self.cluster.books.borrow().open;
                let said = format!("nothing has ended for {STUCK_AFTER}: {open} calls are under way");
                self.cluster.books.borrow_mut().wrong.push(said);
            }
        }
    }

    /// Runs until all nodes are full members.
    fn found(&mut self) {
        self.run_until(|cluster| cluster.nodes().all(|node| node.host().is_full()));
    }

    /// Measures `share` transactions with `load` of them outstanding at each server.
    fn point(&mut self, load: usize, share: u64, progress: &mut impl FnMut(u64)) -> Option<Point> {
        self.cluster.books.borrow_mut().begin_load(load);
        self.cluster.nudge();
        let before = self.cluster.books.borrow().ended;
        let warm_up = share * WARM_UP_PERCENT / 100;
        let clients = load * self.bench.nodes;
        self.run_until(|cluster| {
            let books = cluster.books.borrow();
            let ended = books.ended - before;
            ended >= share || ended >= warm_up && books.settled == clients
        });
        self.cluster.books.borrow_mut().begin_window();
        let (begin, earlier) = (self.cluster.world.now(), self.cluster.totals());
        self.run_until(|cluster| {
            let books = cluster.books.borrow();
            progress(books.ended);
            books.begun >= share - warm_up
        });
        let time = self.cluster.world.now() - begin;
        let used = self.cluster.totals().since(&earlier);
        let (calls, conflicts, attempts) = self.cluster.books.borrow_mut().end_window();
        // Clients continue after the window, so that its outstanding transactions meet the same contention as
        // before. The time is limited to the length of the window, because a starving transaction might never
        // end.
        let until = begin + time + time;
        self.run_until(|cluster| cluster.books.borrow().awaited == 0 || cluster.world.now() >= until);
        self.cluster.books.borrow_mut().lanes = 0;
        self.run_until(|cluster| cluster.books.borrow().awaited == 0);
        let books = self.cluster.books.borrow();
        let committed = books.committed();
        if committed == 0 {
            return None;
        }
        let counted = match self.bench.workload.counted() {
            None => committed,
            Some(name) => {
                let kind = self.kinds.iter().position(|kind| *kind == name).expect("the workload has it");
                books.kinds[kind].committed
            }
        };
        let each = |count: u64| count as f64 / committed as f64;
        let kinds = self.kinds.iter().zip(&books.kinds).map(|(kind, books)| KindResult {
            kind,
            committed: books.committed,
            aborted: books.aborted,
            latency: books.latencies.summary(),
        });
        Some(Point {
            outstanding: load,
            throughput_per_server: counted as f64 / time.as_secs_f64() / self.bench.nodes as f64,
            latency: books.latencies().summary(),
            kinds: kinds.collect(),
            conflicts_percent: 100.0 * conflicts as f64 / calls.max(1) as f64,
            attempts_lost_percent: 100.0 * (1.0 - (calls - conflicts) as f64 / attempts.max(1) as f64),
            bytes_per_transaction: each(used.bytes),
            frames_per_transaction: each(used.frames),
            messages_per_transaction: each(used.messages),
            dma_per_transaction: each(used.dma_copies),
            dma_bytes_per_transaction: each(used.dma_bytes),
            dma_vector: used.dma_copies as f64 / used.dma_vectors.max(1) as f64,
            link_percent: self.rates.link_percent(&used, time),
            nic_percent: self.rates.percent(used.nic_busy, time),
            host_percent: self.rates.percent(used.host_busy, time),
            drops: used.drops,
            virtual_ns: time.as_ns(),
        })
    }

    /// Runs until all transactions have ended, and checks the final state.
    fn end(mut self, points: Vec<Point>) -> Measured {
        self.cluster.books.borrow_mut().lanes = 0;
        if !self.is_stuck {
            let until = self.cluster.world.now() + DRAIN;
            self.run_until(|cluster| {
                let quiet = |node: &Node| node.host().is_idle() && node.engine().is_quiet();
                cluster.nodes().all(quiet) || cluster.world.now() >= until
            });
            // Messages in flight, such as commits for which no client waits, arrive in this time.
            self.cluster.run_for(SETTLE);
        }
        let quiet = self.cluster.nodes().all(|node| node.host().is_idle() && node.engine().is_quiet());
        let books = Rc::clone(&self.cluster.books);
        let mut books = books.borrow_mut();
        if !quiet && !self.is_stuck {
            books.wrong.push(format!("not everything has ended {DRAIN} after the last call"));
        }
        for (index, node) in self.cluster.nodes().enumerate() {
            node.for_each_object(|key, _, value| {
                if key.shard() == index {
                    books.object(key, value);
                }
            });
        }
        let wrong = books.findings();
        let transactions = books.ended;
        drop(books);
        let check = self.bench.checks.then(|| {
            self.checker.take(&mut self.cluster);
            self.checker.check(&self.cluster, self.bench.replication)
        });
        let peak = points.iter().map(|point| point.throughput_per_server).fold(0.0, f64::max);
        Measured {
            peak_throughput_per_server: peak,
            median_latency_low_load_ns: points.first().map_or(0, |point| point.latency.p50_ns),
            points,
            transactions,
            check,
            wrong,
            faults: faults_of(&self.cluster.world),
            activity: self.activity,
            log_hash: self.cluster.world.log_hash().to_string(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
