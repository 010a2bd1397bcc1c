//! All engines of a running cluster under load at once, and what its clients were told, checked.
//!
//! Clients call the engines side by side until they are told to stop; somebody else kills nodes meanwhile. What must
//! hold is what the engines promise: nothing that was acknowledged is lost, and nothing happens twice.

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

pub use ledger::ACCOUNTS_MIN;
pub use result::{ClusterResult, EngineResult};

/// Time that the end of a run allows for replicas to catch up.
const PATIENCE: time::Duration = time::Duration::from_secs(60);
/// Time between two polls of a waiting thread.
const PAUSE: time::Duration = time::Duration::from_millis(20);

/// A load on all engines of a running cluster.
#[derive(Clone, Debug)]
pub struct ClusterLoad {
    /// The cluster. Keys, accounts 0 to 8 of each shard, objects and logs are written to.
    pub cluster: Cluster,
    /// Each has a port of its own and calls every engine; client *i* asks node *i* first.
    pub clients: u32,
    /// For how long, unless it is stopped earlier.
    pub length: Duration,
    /// Decides the calls of each client, though not their order.
    pub seed: u64,
}

/// State that the threads of a run share.
struct Run<'a> {
    load: &'a ClusterLoad,
    stop: &'a Stop,
    started: time::Instant,
    until: time::Instant,
    /// Tells the contents of this run from those of another.
    identity: u64,
    done: AtomicU64,
}

impl Run<'_> {
    /// Now, on the clock that all clients share, in nanoseconds.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).expect("a run takes less than five centuries")
    }

    fn goes_on(&self) -> bool {
        !self.stop.is_requested() && time::Instant::now() < self.until
    }

    /// Calls again and again until the run is over, with a pause between two calls.
    fn repeat(&self, pause: time::Duration, mut call: impl FnMut()) {
        while self.goes_on() {
            call();
            self.done.fetch_add(1, Ordering::Relaxed);
            thread::sleep(pause);
        }
    }
}

/// Outcomes of calls, as far as their errors tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    acknowledged: u64,
    /// Refused, or begun by no node: without effect.
    refused: u64,
    /// Unknown.
    unknown: u64,
}

impl Count {
    /// Takes in one more call: what it was answered, if it was.
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

/// Asks until there is an answer, or patience ends.
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
    /// Calls until the time is over or `stop` is requested, and checks. `progress` is told how many calls have ended.
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
        let run = Run {
            load: self,
            stop,
            started,
            until: started + time::Duration::from_nanos(self.length.as_ns()),
            identity: since.as_nanos() as u64,
            done: AtomicU64::new(0),
        };
        let (run, clients) = (&run, clients.as_slice());
        let engines = thread::scope(|scope| {
            let threads: Vec<_> = self
                .cluster
                .engines
                .iter()
                .map(|engine| scope.spawn(move || drive(run, clients, engine)))
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                progress(run.done.load(Ordering::Relaxed));
                thread::sleep(PAUSE);
            }
            let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        Ok(ClusterResult::new(command, run.now_ns(), self, engines))
    }
}

/// Calls one engine from all clients, and checks what they were told.
fn drive(run: &Run<'_>, clients: &[Client], engine: &EngineDescription) -> EngineResult {
    match engine {
        EngineDescription::KeyValue { .. } => kv::drive(run, clients),
        EngineDescription::Transactions => ledger::drive(run, clients),
        EngineDescription::Object { name, kind } => object::drive(run, clients, name, kind),
        EngineDescription::Log { name } => log::drive(run, clients, name),
        EngineDescription::Rounds => decisions::drive(run, clients),
        EngineDescription::Lock => lock::drive(run, clients),
    }
}

/// Runs `work` for each client in a thread of its own.
fn for_each<T: Send>(clients: &[Client], work: impl Fn(u32, &Client) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..).zip(clients).map(|(number, client)| scope.spawn(move || work(number, client))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    })
}

/// Panic message of an engine's handle: the description of the cluster has named the engine.
const DESCRIBED: &str = "the cluster is described with this engine";
