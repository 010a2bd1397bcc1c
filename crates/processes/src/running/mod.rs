//! Load on all engines of a running cluster at once, with a check of the answers.
//!
//! Clients call all engines concurrently until the end of the run, while a script may kill nodes. The check
//! is for the guarantees of the engines: no acknowledged call is lost, and none takes effect twice.

mod decisions;
mod kv;
mod ledger;
mod lock;
mod log;
mod object;
mod result;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time;

use weft_client::{Client, Cluster, EngineDescription, Error, OpenError};
use weft_net::Stop;
use weft_time::Duration;

use crate::callers::join_all;

pub use ledger::ACCOUNTS_MIN;
pub use result::{ClusterResult, EngineResult};

/// Time at the end of a run within which replicas must catch up.
const PATIENCE: time::Duration = time::Duration::from_secs(60);
/// Time between two polls of a waiting thread.
const PAUSE: time::Duration = time::Duration::from_millis(20);

/// A load on all engines of a running cluster.
#[derive(Clone, Debug)]
pub struct ClusterLoad {
    /// The cluster. The load writes to keys, to accounts 0 to 8 of each shard, to objects and to logs.
    pub cluster: Cluster,
    /// Number of clients. Each has its own port and calls every engine; client *i* sends to node *i* first.
    pub clients: u32,
    /// Duration, unless the run is stopped earlier.
    pub length: Duration,
    /// Seed of the calls of each client, though not of their order.
    pub seed: u64,
}

/// State that the threads of a run share which call one engine.
struct Run<'a> {
    load: &'a ClusterLoad,
    stop: &'a Stop,
    started: time::Instant,
    until: time::Instant,
    /// Distinguishes the contents of this run from those of other runs.
    identity: u64,
    /// Number of calls of all engines that have ended.
    done: &'a AtomicU64,
    pauses: Pauses,
}

/// The longest time between two acknowledged changes of one engine, by any clients.
#[derive(Debug, Default)]
struct Pauses {
    /// Time of the latest change, in nanoseconds since the beginning of the run; 0 before the first.
    latest_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Pauses {
    fn note(&self, now_ns: u64) {
        let latest_ns = self.latest_ns.fetch_max(now_ns, Ordering::Relaxed);
        if latest_ns > 0 {
            self.longest_ns.fetch_max(now_ns.saturating_sub(latest_ns), Ordering::Relaxed);
        }
    }
}

impl Run<'_> {
    /// Nanoseconds since the beginning of the run.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).expect("a run takes less than five centuries")
    }

    fn goes_on(&self) -> bool {
        !self.stop.is_requested() && time::Instant::now() < self.until
    }

    /// Notes that a call was acknowledged that changes the state of the engine.
    fn changed(&self) {
        self.pauses.note(self.now_ns());
    }

    /// Repeats `call` until the run is over, with a pause between two calls.
    fn repeat(&self, pause: time::Duration, mut call: impl FnMut()) {
        while self.goes_on() {
            call();
            self.done.fetch_add(1, Ordering::Relaxed);
            thread::sleep(pause);
        }
    }
}

/// Counts of the outcomes of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    acknowledged: u64,
    /// Calls without effect: refused, or begun by no node.
    refused: u64,
    /// Calls with an unknown outcome.
    unknown: u64,
}

impl Count {
    /// Counts a call, and returns its answer if it was answered.
    fn take<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(answer) => {
                self.acknowledged += 1;
                Some(answer)
            }
            Err(error) => {
                *(if error.may_have_happened() { &mut self.unknown } else { &mut self.refused }) += 1;
                None
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown += other.unknown;
    }
}

/// Repeats a request until it is answered, for at most [`PATIENCE`].
fn persist<T>(mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let until = time::Instant::now() + PATIENCE;
    loop {
        match ask() {
            Err(_) if time::Instant::now() < until => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

impl ClusterLoad {
    /// Calls the engines until the time is over or `stop` is requested, and checks the answers. `progress` is
    /// called with the number of calls that have ended.
    ///
    /// # Errors
    /// A client cannot be opened.
    pub fn run(
        &self,
        command: String,
        stop: &Stop,
        mut progress: impl FnMut(u64),
    ) -> Result<ClusterResult, OpenError> {
        let nodes = self.cluster.nodes.len();
        let open = |client| {
            let first = client as usize % nodes;
            Client::open(&Cluster { first, ..self.cluster.clone() })
        };
        let clients = (0..self.clients).map(open).collect::<Result<Vec<_>, _>>()?;
        let started = time::Instant::now();
        let since = time::SystemTime::now().duration_since(time::UNIX_EPOCH).unwrap_or_default();
        let (clients, done) = (clients.as_slice(), &AtomicU64::new(0));
        let run = || Run {
            load: self,
            stop,
            started,
            until: started + time::Duration::from_nanos(self.length.as_ns()),
            identity: since.as_nanos() as u64,
            done,
            pauses: Pauses::default(),
        };
        let engines = thread::scope(|scope| {
            let threads: Vec<_> = self
                .cluster
                .engines
                .iter()
                .map(|engine| {
                    let run = run();
                    scope.spawn(move || drive(&run, clients, engine))
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                progress(done.load(Ordering::Relaxed));
                thread::sleep(PAUSE);
            }
            join_all(threads)
        });
        Ok(ClusterResult::new(command, run().now_ns(), self, engines))
    }
}

/// Calls one engine from all clients, and checks their answers.
fn drive(run: &Run<'_>, clients: &[Client], engine: &EngineDescription) -> EngineResult {
    let result = match engine {
        EngineDescription::KeyValue { .. } => kv::drive(run, clients),
        EngineDescription::Transactions => ledger::drive(run, clients),
        EngineDescription::Object { name, kind } => object::drive(run, clients, name, kind),
        EngineDescription::Log { name } => log::drive(run, clients, name),
        EngineDescription::Rounds => decisions::drive(run, clients),
        EngineDescription::Lock => lock::drive(run, clients),
    };
    EngineResult { longest_pause_ns: run.pauses.longest_ns.load(Ordering::Relaxed), ..result }
}

/// Runs `work` for each client in a thread of its own.
fn for_each<T: Send>(clients: &[Client], work: impl Fn(u32, &Client) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..).zip(clients).map(|(number, client)| scope.spawn(move || work(number, client))).collect();
        join_all(threads)
    })
}

/// Panic message: a client must have a handle for every engine that the cluster's description names.
const DESCRIBED: &str = "the cluster is described with this engine";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_between_two_changes() {
        let pauses = Pauses::default();
        let longest = |now_ns| {
            pauses.note(now_ns);
            pauses.longest_ns.load(Ordering::Relaxed)
        };
        // The time before the first change is none. Two threads may note their changes in the wrong order.
        assert_eq!([40, 50, 70, 65, 75].map(longest), [0, 10, 20, 20, 20]);
    }
}
