//! Locks in a cluster of real processes, called by the client that ships.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time;

use weft_check::locks::Hold;
use weft_client::{Acquired, Client, Cluster as ClusterDescription, EngineDescription, Error, Lease, Locks};
use weft_cluster::{EnginesConfig, LockConfig, PeerConfig};
use weft_net::Stop;
use weft_time::{Duration, Instant};

use super::driver::{ACQUIRE, KINDS, RELEASE, RENEW, Workload};
use super::simulated::{checked, description};
use crate::kv::real::cluster::{Addresses, Cluster, ClusterSettings, CoreTurns};
use crate::kv::real::{RealBenchError, machine_description};
use weft_harness::histogram::Recorder;
use weft_harness::result::{Machine, MachineKind, MeasuredRun, RunResult, World};
use weft_workload::Random;

/// A lease that a machine which is busy with other things does not lose.
const LEASE: Duration = Duration::from_ms(500);
/// Interval of progress reports.
const LOOK_EVERY: time::Duration = time::Duration::from_millis(20);
/// Callers that share a port: as many calls as a client has under way.
const CALLERS_OF_A_CLIENT: u32 = 16;

/// One caller, which acquires a lock, renews it and releases it.
pub(crate) struct Caller {
    locks: Locks,
    number: u32,
    acquisitions: u64,
    started: time::Instant,
    random: Random,
    /// Spans in which it believed that it held locks, since the beginning.
    pub holds: Vec<Hold>,
}

impl Caller {
    /// A caller with this number. All callers of a run have started at the same time.
    pub fn new(locks: Locks, number: u32, seed: u64, started: time::Instant) -> Self {
        let random = Random::new(seed, number);
        Self { locks, number, acquisitions: 0, started, random, holds: Vec::new() }
    }

    fn ns(&self, at: time::Instant) -> u64 {
        at.saturating_duration_since(self.started).as_nanos() as u64
    }

    /// Acquires a lock, renews it, and releases it; tells each call that has ended with its kind, when it was begun,
    /// and whether it did what it was to. Names begin with `prefix`.
    pub fn cycle(
        &mut self,
        prefix: &str,
        workload: &Workload,
        mut ended: impl FnMut(usize, time::Instant, Result<(), Error>),
    ) {
        let own = u64::from(self.number);
        let lock = if workload.locks == 0 { own } else { self.random.below(workload.locks) };
        let name = format!("{prefix}{lock}");
        self.acquisitions += 1;
        let ttl = time::Duration::from_nanos(workload.ttl.as_ns());
        let begun = time::Instant::now();
        let acquired = self.locks.acquire(&name, ttl).wait();
        let granted = match acquired {
            Ok(Acquired::Granted(lease)) => Ok(lease),
            Ok(Acquired::Held(_)) => Err(Error::Refused("somebody else holds the lock")),
            Err(error) => Err(error),
        };
        ended(ACQUIRE, begun, granted.clone().map(drop));
        let Ok(lease) = granted else { return };
        self.hold(lock, &lease, begun, false);
        for _ in 0..workload.renewals {
            let begun = time::Instant::now();
            let renewed = self.locks.renew(&name, lease.token).wait();
            let renewed =
                renewed.and_then(|it| it.ok_or(Error::Refused("somebody else has held the lock since")));
            ended(RENEW, begun, renewed.clone().map(drop));
            match renewed {
                Ok(lease) => {
                    self.end_hold();
                    self.hold(lock, &lease, begun, true);
                }
                Err(error) if error.may_have_happened() => {}
                Err(_) => return self.end_hold(),
            }
        }
        self.end_hold();
        let begun = time::Instant::now();
        let released = self.locks.release(&name, lease.token).wait();
        let released = released.and_then(|is_released| match is_released {
            true => Ok(()),
            false => Err(Error::Refused("the time to live was over")),
        });
        ended(RELEASE, begun, released);
    }

    fn hold(&mut self, lock: u64, lease: &Lease, begun: time::Instant, is_renewal: bool) {
        let returned_ns = self.ns(time::Instant::now());
        self.holds.push(Hold {
            lock,
            owner: u64::from(self.number) << 32 | self.acquisitions,
            token: lease.token,
            invoked_ns: self.ns(begun),
            returned_ns,
            until_ns: self.ns(lease.until).max(returned_ns),
            is_renewal,
        });
    }

    /// The latest hold ends now.
    fn end_hold(&mut self) {
        let now_ns = self.ns(time::Instant::now());
        if let Some(hold) = self.holds.last_mut() {
            hold.until_ns = hold.until_ns.min(now_ns).max(hold.returned_ns);
        }
    }
}

/// A measurement of real processes.
#[derive(Clone, Debug)]
pub struct RealBench {
    /// Processes.
    pub nodes: usize,
    /// Workload of the clients.
    pub workload: Workload,
    /// For how long, after the warm-up.
    pub length: Duration,
    /// Calls begun in this time are not measured.
    pub warm_up: Duration,
    /// Time for which a process polls before it sleeps.
    pub spin: Duration,
    /// Decides the locks of the clients.
    pub seed: u64,
}

impl RealBench {
    /// Measures; `progress` is told how many calls have ended. A request to `stop` ends it.
    ///
    /// # Errors
    /// See [`RealBenchError`].
    pub fn run(
        &self,
        replay: String,
        stop: &Stop,
        mut progress: impl FnMut(u64),
    ) -> Result<MeasuredRun, RealBenchError> {
        let folder = tempfile::Builder::new().prefix("weft-bench-").tempdir()?;
        let addresses = Addresses::of_process(std::process::id());
        let lock = Some(LockConfig::DEFAULT);
        let settings = ClusterSettings {
            nodes: self.nodes as u32,
            engines: EnginesConfig { lock, ..EnginesConfig::default() },
            lease: LEASE,
            spin: self.spin,
            turns: CoreTurns::of_machine(),
        };
        let mut cluster = Cluster::start(folder.path(), addresses, &settings)?;
        let nodes =
            (0..self.nodes as u32).map(|node| PeerConfig::new(addresses.node(node)).datagram_address());
        let described = ClusterDescription::new(nodes.collect()).with(EngineDescription::Lock);
        let count = self.workload.clients.div_ceil(CALLERS_OF_A_CLIENT);
        let open = |_| Client::open(&described).map_err(|error| RealBenchError::Invalid(error.to_string()));
        let clients = (0..count).map(open).collect::<Result<Vec<_>, _>>()?;
        let started = time::Instant::now();
        let until = started + time::Duration::from_nanos((self.warm_up + self.length).as_ns());
        let done = AtomicU64::new(0);
        let call = |number: u32| {
            let client = &clients[(number / CALLERS_OF_A_CLIENT) as usize];
            let locks = client.lock().expect("the cluster is described with locks");
            let mut caller = Caller::new(locks, number, self.seed, started);
            let mut recorder = Recorder::new(&KINDS, Instant::ZERO, self.warm_up);
            let at = |at: time::Instant| {
                Instant::ZERO + Duration::from_ns(at.saturating_duration_since(started).as_nanos() as u64)
            };
            while time::Instant::now() < until && !stop.is_requested() {
                caller.cycle("", &self.workload, |kind, begun, result| {
                    done.fetch_add(1, Ordering::Relaxed);
                    match result {
                        Ok(()) => recorder.record(kind, at(begun), at(time::Instant::now())),
                        Err(_) => recorder.record_failure(kind, at(begun)),
                    }
                });
            }
            (recorder, caller.holds)
        };
        let (call, progress, done) = (&call, &mut progress, &done);
        let parts: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.workload.clients).map(|number| scope.spawn(move || call(number))).collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                progress(done.load(Ordering::Relaxed));
                thread::sleep(LOOK_EVERY);
            }
            threads.into_iter().map(|thread| thread.join().expect("a caller does not panic")).collect()
        });
        cluster.stop()?;
        if stop.is_requested() {
            return Err(RealBenchError::Interrupted);
        }
        let (recorders, holds): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let recorder = recorders.into_iter().reduce(|mut all: Recorder, one| {
            all.merge(&one);
            all
        });
        let recorder = recorder.expect("there are clients");
        let machine = Machine { kind: MachineKind::Real, description: machine_description() };
        let description = description(World::Net, self.nodes, (&self.workload, self.seed), machine, replay);
        let result = checked(RunResult::new(description, &recorder), &holds.concat());
        Ok(MeasuredRun { result, latencies: recorder.overall() })
    }
}
