//! Transactions across real processes on this machine: nodes, a membership service, and clients over UDP on loopback.
//!
//! Nodes and membership service run the current executable, as in [`crate::kv`]; the clients are a
//! thread of this process. Every node records reads and writes ([`weft_net::transactions::read_record`]);
//! every client records its answers and their times. The whole history is checked at the end.

mod check;
mod clients;
mod result;

pub use result::NetTxnResult;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use weft_applications::{ApplicationName, Workload};
use weft_cluster::{EnginesConfig, TransactionsConfig};
use weft_net::{Clock, Stop};
use weft_time::{Duration, Instant};

use self::check::Checked;
use self::clients::{ClientRecord, Clients};
use crate::RealBenchError;
use crate::cluster::{Addresses, Cluster, ClusterSettings, CoreTurns, record_of};

/// Length of a lease: long enough that nodes keep theirs on a busy machine.
const LEASE: Duration = Duration::from_ms(500);
/// Time after the last answer until all other messages have arrived. Nodes send decisions together with later
/// messages.
const SETTLE: std::time::Duration = std::time::Duration::from_millis(400);
/// Interval at which the parent checks its processes.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(5);

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct NetTxnBench {
    /// The application.
    pub application: ApplicationName,
    /// Size of each shard.
    pub size: u64,
    /// Processes, each with a shard.
    pub nodes: usize,
    /// Replicas of each shard.
    pub replicas: usize,
    /// Number of clients, each with one outstanding transaction. They are spread over the nodes.
    pub clients: u32,
    /// Time for which the clients make calls.
    pub length: Duration,
    /// Length of the warm-up. Transactions that end in it are not measured.
    pub warm_up: Duration,
    /// The folder in which the nodes keep their data, in a folder of the run that is removed at the end. `None`: they
    /// keep it in memory.
    pub data_dir: Option<PathBuf>,
    /// The nodes that are killed (SIGKILL) at the same time and then restarted.
    pub kill: Vec<usize>,
    /// How often that happens: in each of so many equal parts of the length, the nodes are killed after a third, and
    /// restarted after half of it.
    pub kills: u32,
    /// Time for which a process polls before it sleeps.
    pub spin: Duration,
    /// Seed of the calls of the clients.
    pub seed: u64,
}

/// What happens to the nodes that are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Restart,
}

/// A folder that is removed at the end of the run.
fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("weft-bench-");
    builder
}

impl NetTxnBench {
    /// Runs the measurement. `progress` is called with the number of ended transactions. A request to `stop`
    /// ends the run.
    ///
    /// # Errors
    /// See [`RealBenchError`].
    ///
    /// # Panics
    /// If the size is invalid, or the application has no workload.
    pub fn run(
        &self,
        replay: String,
        stop: &Stop,
        mut progress: impl FnMut(u64),
    ) -> Result<NetTxnResult, RealBenchError> {
        let workload = self.application.workload(self.size, self.nodes).expect("what is measured is a load");
        let folder = temporary().tempdir()?;
        let data = match &self.data_dir {
            None => None,
            Some(path) => {
                let fail = |source| RealBenchError::Folder { path: path.clone(), source };
                Some(temporary().tempdir_in(path).map_err(fail)?)
            }
        };
        let addresses = Addresses::of_process(std::process::id());
        let settings = ClusterSettings {
            nodes: self.nodes as u32,
            engines: EnginesConfig {
                transactions: Some(TransactionsConfig {
                    procedures: self.application.name().to_owned(),
                    size: self.size,
                    replicas: self.replicas,
                    record: None,
                }),
                data_dir: data.as_ref().map(|data| data.path().to_owned()),
                ..EnginesConfig::default()
            },
            lease: LEASE,
            spin: self.spin,
            sealed: false,
            turns: CoreTurns::of_machine(),
        };
        let mut cluster = Cluster::start(folder.path(), addresses, &settings)?;
        let mut told = self.call(&mut cluster, addresses, &*workload, stop, &mut progress)?;
        cluster.wait_until_whole()?;
        thread::sleep(SETTLE);
        cluster.stop()?;
        let records = (0..self.nodes).map(|node| record_of(folder.path(), node));
        let checked = Checked::of(records, &mut told, self.replicas)?;
        let counters = std::mem::take(&mut cluster.counters);
        Ok(NetTxnResult::new(self, &*workload, told, checked, counters, replay))
    }

    /// Runs the clients, and meanwhile kills and restarts a node.
    fn call(
        &self,
        cluster: &mut Cluster,
        addresses: Addresses,
        workload: &dyn Workload,
        stop: &Stop,
        progress: &mut impl FnMut(u64),
    ) -> Result<ClientRecord, RealBenchError> {
        let clock = Clock::starting_now();
        let begin = clock.now();
        let node_addresses: Vec<_> = (0..self.nodes as u32).map(|node| addresses.datagrams(node)).collect();
        let (ended, clients_stop) = (AtomicU64::new(0), Stop::new()?);
        let clients = Clients::new(self, workload, node_addresses, (begin, clock), &ended, &clients_stop);
        let mut due = self.faults(begin);
        thread::scope(|scope| {
            let running = scope.spawn(|| clients.run(addresses.clients(), self.spin));
            let watched = (|| {
                while !running.is_finished() {
                    thread::sleep(LOOK_EVERY);
                    match due.pop_if(|(at, _)| *at <= clock.now()) {
                        None => {}
                        Some((_, Fault::Kill)) => cluster.kill_nodes(&self.kill),
                        Some((_, Fault::Restart)) => {
                            self.kill.iter().try_for_each(|node| cluster.start_node(*node as u32))?;
                        }
                    }
                    cluster.listen()?;
                    progress(ended.load(Ordering::Relaxed));
                    if stop.is_requested() {
                        return Err(RealBenchError::Interrupted);
                    }
                }
                Ok(())
            })();
            clients_stop.request();
            let told = running.join().expect("a client does not panic");
            watched.and(told)
        })
    }

    /// What happens to the nodes that are killed, the last first.
    fn faults(&self, begin: Instant) -> Vec<(Instant, Fault)> {
        let kills = u64::from(self.kills);
        let at = |sixths: u64| begin + self.length * sixths / (6 * kills);
        let times =
            (0..kills).flat_map(|part| [(at(6 * part + 2), Fault::Kill), (at(6 * part + 3), Fault::Restart)]);
        let mut faults: Vec<_> = times.collect();
        faults.reverse();
        faults
    }

    /// Time after which clients begin no new transactions.
    fn end(&self, begin: Instant) -> Instant {
        begin + self.length
    }
}
