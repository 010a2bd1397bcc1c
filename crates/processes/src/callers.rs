//! Measures threads that call an engine of a cluster of real processes through the shipped client library.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time;

use weft_client::{Client, Cluster as ClusterDescription, EngineDescription};
use weft_cluster::EnginesConfig;
use weft_net::Stop;
use weft_results::histogram::Recorder;
use weft_results::{Check, Machine, MachineKind, MeasuredRun, WorkloadDescription, World};
use weft_time::{Duration, Instant};

use crate::RealBenchError;
use crate::cluster::{Addresses, Cluster, ClusterSettings, CoreTurns};
use crate::error::machine_description;

/// Length of a lease: long enough that nodes keep theirs on a busy machine.
const LEASE: Duration = Duration::from_ms(500);
/// Interval of progress reports.
const LOOK_EVERY: time::Duration = time::Duration::from_millis(20);
/// Number of callers that share a client: the maximum number of outstanding calls of a client.
const CALLERS_OF_A_CLIENT: u32 = 16;

/// A measurement of callers. Each is a thread with one outstanding call.
#[derive(Clone, Debug)]
pub struct ProcessCallers {
    /// Number of nodes, each a process.
    pub nodes: usize,
    /// Number of callers.
    pub callers: u32,
    /// Duration of the measurement, after the warm-up.
    pub length: Duration,
    /// Length of the warm-up. Calls that begin in it are not measured.
    pub warm_up: Duration,
    /// Time for which a process polls before it sleeps.
    pub spin: Duration,
    /// Seed of the calls.
    pub seed: u64,
}

/// The engine that is called.
#[derive(Clone, Debug)]
pub struct Called<'a> {
    /// The engines of each process.
    pub engines: EnginesConfig,
    /// Description of the called engine for clients.
    pub description: EngineDescription,
    /// Names of the kinds of its calls.
    pub kinds: &'a [&'a str],
}

/// Records the calls of one caller.
pub struct Calls<'a> {
    /// The beginning of the run, which is the same for all callers.
    pub started: time::Instant,
    until: time::Instant,
    stop: &'a Stop,
    ended: &'a AtomicU64,
    recorder: Recorder,
}

impl Calls<'_> {
    /// Whether the run goes on.
    pub fn go_on(&self) -> bool {
        !self.stop.is_requested() && time::Instant::now() < self.until
    }

    /// Records that a call of this kind has ended now. `is_done` says whether it succeeded.
    pub fn end(&mut self, kind: usize, begun: time::Instant, is_done: bool) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if is_done {
            self.recorder.record(kind, self.at(begun), self.at(time::Instant::now()));
        } else {
            self.recorder.record_failure(kind, self.at(begun));
        }
    }

    fn at(&self, at: time::Instant) -> Instant {
        Instant::ZERO + Duration::from_ns(at.saturating_duration_since(self.started).as_nanos() as u64)
    }
}

/// Waits for the ends of all threads. A panic of a thread goes on here.
pub(crate) fn join_all<T>(threads: Vec<thread::ScopedJoinHandle<'_, T>>) -> Vec<T> {
    let join = |thread: thread::ScopedJoinHandle<'_, T>| {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    threads.into_iter().map(join).collect()
}

impl ProcessCallers {
    /// Starts a cluster with an engine, runs `call` in a thread for each caller, with the number of the caller, and
    /// checks what the threads return. `progress` is called with the number of calls that have ended. A request to
    /// `stop` ends the run.
    ///
    /// # Errors
    /// See [`RealBenchError`].
    pub fn measure_workload<T: Send>(
        &self,
        workload: WorkloadDescription,
        called: Called<'_>,
        (stop, mut progress): (&Stop, impl FnMut(u64)),
        call: impl Fn(&Client, u32, &mut Calls<'_>) -> T + Sync,
        check: impl FnOnce(Vec<T>) -> Check,
    ) -> Result<MeasuredRun, RealBenchError> {
        let Called { engines, description, kinds } = called;
        let folder = tempfile::Builder::new().prefix("weft-bench-").tempdir()?;
        let addresses = Addresses::of_process(std::process::id());
        let turns = CoreTurns::of_machine();
        let settings = ClusterSettings {
            nodes: self.nodes as u32,
            engines,
            lease: LEASE,
            spin: self.spin,
            sealed: false,
            turns,
        };
        let mut cluster = Cluster::start(folder.path(), addresses, &settings)?;
        let nodes = (0..self.nodes as u32).map(|node| addresses.datagrams(node).into());
        let described = ClusterDescription::new(nodes.collect()).with(description);
        let open = |_| Client::open(&described).map_err(|error| RealBenchError::Invalid(error.to_string()));
        let clients =
            (0..self.callers.div_ceil(CALLERS_OF_A_CLIENT)).map(open).collect::<Result<Vec<_>, _>>()?;
        let started = time::Instant::now();
        let until = started + time::Duration::from_nanos((self.warm_up + self.length).as_ns());
        let ended = AtomicU64::new(0);
        let run = |number: u32| {
            let recorder = Recorder::new(kinds, Instant::ZERO, self.warm_up);
            let mut calls = Calls { started, until, stop, ended: &ended, recorder };
            let found = call(&clients[(number / CALLERS_OF_A_CLIENT) as usize], number, &mut calls);
            (calls.recorder, found)
        };
        let (run, progress, ended) = (&run, &mut progress, &ended);
        let parts: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.callers).map(|number| scope.spawn(move || run(number))).collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                progress(ended.load(Ordering::Relaxed));
                thread::sleep(LOOK_EVERY);
            }
            join_all(threads)
        });
        cluster.stop()?;
        if stop.is_requested() {
            return Err(RealBenchError::Interrupted);
        }
        let (recorders, found): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let recorder = Recorder::merged(recorders).expect("there are callers");
        let machine = Machine { kind: MachineKind::Real, description: machine_description() };
        let description = workload.of_run(World::Net, machine, self.nodes, self.seed);
        Ok(MeasuredRun::new(description, &recorder, check(found)))
    }
}
