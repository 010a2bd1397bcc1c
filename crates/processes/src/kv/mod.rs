//! The key-value store over real sockets: nodes, membership service and clients are processes of this machine.
//!
//! Nodes and clients are pinned to the cores of the machine in turn.
//!
//! However a run ends, the processes are killed and their folder is removed.

mod client;
mod timeline;

pub use client::{Clients, client_main};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;
use weft_bench::kv::simulated::{BenchLimit, checked, reads_name};
use weft_check::{History, Options, Report};
use weft_cluster::{EnginesConfig, KvConfig};
use weft_kv::ReadPolicy;
use weft_net::process::{ChildProcess, own_executable};
use weft_net::{Clock, Stop};
use weft_results::histogram::{Latencies, Recorder};
use weft_results::{Description, Machine, MachineKind, RunResult, World};
use weft_time::{Duration, Instant};
use weft_waist::NODES_MAX;
use weft_workload::Load;
use weft_workload::Workload;

use self::client::{ClientSettings, RunOrder};
use self::timeline::{Span, Turn};
use crate::cluster::{Addresses, Cluster, ClusterSettings, CoreTurns, END_LIMIT, MTU_BYTES, key_of};
use crate::error::{garbled, machine_description};
use crate::{CLIENT_COMMAND, RealBenchError};

/// A run over real sockets.
#[derive(Clone, Debug)]
pub struct RealBench {
    /// Nodes, 1 to 16, each a process.
    pub nodes: u32,
    /// Workload of the clients.
    pub workload: Workload,
    /// Load of the clients of all processes together.
    pub load: Load,
    /// Number of client processes: a divisor of the number of clients.
    pub client_processes: u32,
    /// End of the workload.
    pub limit: BenchLimit,
    /// Operations that were to start within this time are not measured.
    pub warm_up: Duration,
    /// Seed of keys, kinds of operations and arrival times. A real run cannot be replayed, because the order
    /// of events is not determined.
    pub seed: u64,
    /// Nodes that clients send reads to.
    pub reads: ReadPolicy,
    /// A node to kill.
    pub kill: Option<Kill>,
    /// Length of a lease, in whole milliseconds. After a crash no write completes for about this time.
    pub lease: Duration,
    /// Time for which a process polls before it sleeps.
    pub spin: Duration,
    /// Whether datagrams are sealed under a cluster key.
    pub sealed: bool,
    /// The command that repeats the run.
    pub replay: String,
}

/// A node that is killed during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The node. In every view, each full member leads about the same number of keys.
    pub node: u32,
    /// Time at which the node is killed, since the start of the workload.
    pub after: Duration,
    /// Time at which the node is restarted, since the start of the workload.
    pub restart: Option<Duration>,
}

/// Results of a run.
#[derive(Debug)]
pub struct RealRun {
    /// The measurements.
    pub result: RunResult,
    /// Histogram of the latencies of all operations.
    pub latencies: Latencies,
    /// The history of all requests and answers.
    pub history: History,
    /// The check of the history for linearizability.
    pub report: Report,
    /// Counters of the nodes, one line each.
    pub counters: Vec<String>,
}

/// Time from the start command to the start of the workload; by then the command has reached all processes.
const LEAD_TIME: Duration = Duration::from_ms(50);
/// Interval at which the parent checks its children.
const LOOK_EVERY: Duration = Duration::from_ms(5);
/// Maximum duration of any phase except the workload.
const PHASE_LIMIT: Duration = Duration::from_secs(120);
/// Maximum number of clients: the default number of sessions of a node.
const CLIENTS_MAX: u32 = 1_024;

impl RealBench {
    /// Runs the benchmark. `progress` is called with the number of completed operations. A request to `stop`
    /// ends the run.
    ///
    /// # Errors
    /// See [`RealBenchError`]. If a process ends unexpectedly, the error has its name, its exit status and
    /// the end of its output.
    pub fn run(&self, stop: &Stop, mut progress: impl FnMut(u64)) -> Result<RealRun, RealBenchError> {
        self.check().map_err(RealBenchError::Invalid)?;
        let folder = tempfile::Builder::new().prefix("weft-bench-").tempdir()?;
        let addresses = Addresses::of_process(std::process::id());
        let clock = Clock::starting_now();
        let settings = ClusterSettings {
            nodes: self.nodes,
            engines: EnginesConfig {
                kv: Some(KvConfig {
                    value_bytes: self.workload.value_bytes() as u32,
                    capacity_keys: self.capacity_keys(),
                    ..KvConfig::DEFAULT
                }),
                ..EnginesConfig::default()
            },
            lease: self.lease,
            spin: self.spin,
            sealed: self.sealed,
            turns: CoreTurns::of_machine(),
        };
        let mut parts = Parts {
            cluster: Cluster::start(folder.path(), addresses, &settings)?,
            clients: self.start_clients(folder.path(), addresses, &settings.turns, clock)?,
            stop,
        };
        parts.tell("load")?;
        parts.finish_phase(clock)?;

        let begin = clock.now() + LEAD_TIME;
        for index in 0..self.client_processes {
            let order = serde_json::to_string(&self.order(index, begin)).map_err(garbled)?;
            parts.clients[index as usize].process.send_line(&format!("run {order}"))?;
        }
        let turns = self.watch(&mut parts, clock, begin, &mut progress)?;
        let end = clock.now();

        parts.cluster.wait_until_whole()?;
        let highest = parts.clients.iter().map(|client| client.highest_record).max().unwrap_or(0);
        parts.tell(&format!("read-back {highest}"))?;
        parts.finish_phase(clock)?;
        parts.tell("save")?;
        for client in &mut parts.clients {
            client.process.finish(END_LIMIT)?;
        }
        parts.cluster.stop()?;

        let (recorder, history) = collect(&parts.clients)?;
        let report = weft_check::check(&history, &Options::default());
        let span = Span { begin_ns: clock.monotonic_ns(begin), end_ns: clock.monotonic_ns(end) };
        let announcements = &parts.cluster.announcements;
        let mut result = RunResult::new(self.description(), &recorder);
        result.checked = checked(&report);
        result.check_report =
            report.violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        result.lost_acknowledged_writes = Some(report.lost_acknowledged_writes);
        result.marks = timeline::marks(announcements, &turns, span);
        result.lanes = timeline::lanes(self.nodes, announcements, &turns, span);
        let kills = turns.iter().filter(|turn| turn.down).count() as u64;
        result.faults = BTreeMap::from([("crash".to_owned(), kills)]);
        result.faults.retain(|_, count| *count > 0);
        let counters = std::mem::take(&mut parts.cluster.counters);
        Ok(RealRun { result, latencies: recorder.overall(), history, report, counters })
    }

    /// Checks the parameters. The error is one line.
    fn check(&self) -> Result<(), String> {
        let clients = self.load.clients();
        if !(1..=NODES_MAX as u32).contains(&self.nodes) {
            return Err(format!("a cluster has 1 to {NODES_MAX} nodes, not {}", self.nodes));
        }
        if !(1..=CLIENTS_MAX).contains(&clients) {
            return Err(format!("a run has 1 to {CLIENTS_MAX} clients, not {clients}"));
        }
        if self.client_processes == 0 || !clients.is_multiple_of(self.client_processes) {
            return Err(format!(
                "{clients} clients cannot be spread evenly over {} processes; choose a divisor",
                self.client_processes
            ));
        }
        if let Some(kill) = self.kill {
            if kill.node >= self.nodes {
                return Err(format!("node {} cannot be killed: there are {} nodes", kill.node, self.nodes));
            }
            if self.nodes == 1 {
                return Err("the only node cannot be killed: no other one has its data".to_owned());
            }
            if kill.restart.is_some_and(|restart| restart <= kill.after) {
                return Err("a node restarts after it was killed, not before".to_owned());
            }
        }
        Ok(())
    }

    /// Capacity of the store: all records, and the inserts of the workload up to a bound.
    fn capacity_keys(&self) -> u32 {
        let inserts = match self.limit {
            BenchLimit::Operations(operations) => operations / 8,
            BenchLimit::After(_) => 1_000_000,
        };
        let inserts = if self.workload.name() == "ycsb-d" { inserts } else { 0 };
        u32::try_from(self.workload.records() + inserts).unwrap_or(u32::MAX).max(65_536)
    }

    fn start_clients(
        &self,
        folder: &Path,
        addresses: Addresses,
        turns: &CoreTurns,
        clock: Clock,
    ) -> Result<Vec<ClientProcess>, RealBenchError> {
        let mut clients = Vec::new();
        for lane in 0..self.client_processes {
            let (history, recorder) =
                (folder.join(format!("history{lane}")), folder.join(format!("recorder{lane}.json")));
            let nodes = (0..self.nodes).map(|node| addresses.datagrams(node));
            let settings = ClientSettings {
                workload: self.workload.name().to_owned(),
                distribution: self.workload.distribution().to_string(),
                records: self.workload.records(),
                value_bytes: self.workload.value_bytes(),
                clients: self.load.clients() / self.client_processes,
                operations_per_s: match self.load {
                    Load::Closed { .. } => None,
                    Load::Open { operations_per_s, .. } => {
                        Some(operations_per_s / f64::from(self.client_processes))
                    }
                },
                lane,
                lanes: self.client_processes,
                seed: self.seed,
                address: addresses.clients(),
                nodes: nodes.collect(),
                reads: self.reads.into(),
                datagram_bytes: (MTU_BYTES as usize - 28).min(weft_wire::datagram::BYTES_MAX),
                spin: self.spin,
                core: turns.core(self.nodes + lane),
                key_file: self.sealed.then(|| key_of(folder)),
                origin_ns: clock.origin_ns(),
                history: history.clone(),
                recorder: recorder.clone(),
            };
            let path = folder.join(format!("client{lane}.json"));
            let text = serde_json::to_string(&settings).map_err(garbled)?;
            std::fs::write(&path, text)
                .map_err(|source| RealBenchError::Folder { path: path.clone(), source })?;
            let mut command = own_executable();
            command.arg(CLIENT_COMMAND).arg("--config").arg(&path);
            let mut process = ChildProcess::start_listening(format!("client process {lane}"), command)?;
            process.wait_for_line("ready", END_LIMIT)?;
            clients.push(ClientProcess {
                process,
                history,
                recorder,
                done: true,
                completed: 0,
                highest_record: 0,
            });
        }
        Ok(clients)
    }

    fn order(&self, index: u32, begin: Instant) -> RunOrder {
        let (operations, length) = match self.limit {
            BenchLimit::Operations(all) => {
                let (processes, index) = (u64::from(self.client_processes), u64::from(index));
                (Some(all / processes + u64::from(index < all % processes)), Duration::ZERO)
            }
            BenchLimit::After(length) => (None, length),
        };
        RunOrder { begin, warm_up: self.warm_up, operations, end: begin + length }
    }

    /// Waits for the end of the workload, and kills and restarts a node meanwhile.
    fn watch(
        &self,
        parts: &mut Parts<'_>,
        clock: Clock,
        begin: Instant,
        progress: &mut impl FnMut(u64),
    ) -> Result<Vec<Turn>, RealBenchError> {
        let mut due = Vec::new();
        if let Some(kill) = self.kill {
            due.extend(kill.restart.map(|after| (begin + after, kill.node, false)));
            due.push((begin + kill.after, kill.node, true));
        }
        let mut turns = Vec::new();
        parts.clients.iter_mut().for_each(|client| client.done = false);
        while parts.look()? {
            if let Some(&(at, node, down)) = due.last()
                && at <= clock.now()
            {
                due.pop();
                let at_ns = clock.monotonic_ns(clock.now());
                if down {
                    parts.cluster.kill_nodes(&[node as usize]);
                } else {
                    parts.cluster.start_node(node)?;
                }
                turns.push(Turn { at_ns, node, down });
            }
            progress(parts.clients.iter().map(|client| client.completed).sum());
        }
        // If the workload ends before the planned restart, the node is restarted now, because all nodes must
        // be members for the final check.
        if let Some((_, node, false)) = due.first().copied().filter(|_| due.len() == 1) {
            parts.cluster.start_node(node)?;
            turns.push(Turn { at_ns: clock.monotonic_ns(clock.now()), node, down: false });
        }
        Ok(turns)
    }

    fn description(&self) -> Description {
        let load_name = match self.load {
            Load::Closed { .. } => json!("closed loop"),
            Load::Open { operations_per_s, .. } => json!(format!("open loop, {operations_per_s:.0} ops/s")),
        };
        let parameters = [
            ("clients", json!(self.load.clients())),
            ("client_processes", json!(self.client_processes)),
            ("load", load_name),
            ("records", json!(self.workload.records())),
            ("value_bytes", json!(self.workload.value_bytes())),
            ("distribution", json!(self.workload.distribution().to_string())),
            ("reads", json!(reads_name(self.reads))),
            ("lease_ms", json!(self.lease.as_ns() / 1_000_000)),
            ("spin_us", json!(self.spin.as_ns() / 1_000)),
            ("sealed", json!(self.sealed)),
            ("acknowledged", json!("by every live replica")),
        ];
        Description {
            world: World::Net,
            nic: "soft".into(),
            nodes: self.nodes,
            workload: self.workload.name().into(),
            seed: self.seed,
            replay: self.replay.clone(),
            machine: Machine { kind: MachineKind::Real, description: machine_description() },
            parameters: parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

/// One process of clients, and its output.
struct ClientProcess {
    process: ChildProcess,
    history: PathBuf,
    recorder: PathBuf,
    done: bool,
    completed: u64,
    highest_record: u64,
}

impl ClientProcess {
    /// Reads the output of the process.
    fn listen(&mut self) -> Result<(), RealBenchError> {
        while let Some(line) = self.process.next_line(Duration::ZERO)? {
            let mut words = line.split(' ');
            let word = words.next();
            let mut number = || words.next().and_then(|word| word.parse().ok());
            let understood = match word {
                Some("at") => number().map(|completed| self.completed = completed),
                Some("done") => number().zip(number()).map(|(completed, highest)| {
                    (self.done, self.completed, self.highest_record) = (true, completed, highest);
                }),
                _ => None,
            };
            understood.ok_or_else(|| garbled(&line))?;
        }
        Ok(())
    }
}

/// All processes of a run.
struct Parts<'a> {
    cluster: Cluster,
    clients: Vec<ClientProcess>,
    stop: &'a Stop,
}

impl Parts<'_> {
    /// Sends a command to all clients.
    fn tell(&mut self, line: &str) -> Result<(), RealBenchError> {
        for client in &mut self.clients {
            client.done = false;
            client.process.send_line(line)?;
        }
        Ok(())
    }

    /// Reads the output of all processes, then sleeps for a short time. Returns `false` when all clients are
    /// done.
    fn look(&mut self) -> Result<bool, RealBenchError> {
        self.cluster.listen()?;
        self.clients.iter_mut().try_for_each(ClientProcess::listen)?;
        if self.stop.is_requested() {
            return Err(RealBenchError::Interrupted);
        }
        let goes_on = self.clients.iter().any(|client| !client.done);
        if goes_on {
            std::thread::sleep(std::time::Duration::from_nanos(LOOK_EVERY.as_ns()));
        }
        Ok(goes_on)
    }

    /// Waits until all clients are done.
    fn finish_phase(&mut self, clock: Clock) -> Result<(), RealBenchError> {
        let end = clock.now() + PHASE_LIMIT;
        while self.look()? {
            if clock.now() > end {
                return Err(RealBenchError::Invalid(format!(
                    "loading or reading back was not over after {PHASE_LIMIT}; choose fewer records"
                )));
            }
        }
        Ok(())
    }
}

/// Merges the measurements and histories of all client processes.
fn collect(clients: &[ClientProcess]) -> Result<(Recorder, History), RealBenchError> {
    let (mut recorders, mut histories) = (Vec::new(), Vec::new());
    for client in clients {
        let path = &client.recorder;
        let text = std::fs::read_to_string(path)
            .map_err(|source| RealBenchError::Folder { path: path.clone(), source })?;
        recorders.push(serde_json::from_str(&text).map_err(garbled)?);
        histories.push(History::load(&client.history)?);
    }
    let recorder = Recorder::merged(recorders).ok_or_else(|| garbled("there is no client"))?;
    Ok((recorder, History::merge(histories)?))
}
