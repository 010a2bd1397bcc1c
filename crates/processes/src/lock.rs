//! Locks in a cluster of real processes, called through the shipped client library.

use std::time;

use weft_bench::lock::{KINDS, LockCaller, Workload, check};
use weft_check::locks::Hold;
use weft_client::{Client, EngineDescription, Error, Locks};
use weft_cluster::{EnginesConfig, LockConfig};
use weft_harness::{Caller as _, Ended, Turn};
use weft_lock::Outcome;
use weft_net::Stop;
use weft_results::MeasuredRun;
use weft_time::{Duration, Instant};
use weft_workload::Random;

use crate::{Called, Calls, ProcessCallers, RealBenchError};

/// One caller, which makes one call after the other.
pub(crate) struct Caller {
    locks: Locks,
    load: LockCaller,
    random: Random,
    started: time::Instant,
}

impl Caller {
    /// A caller with this load. All callers of a run have started at the same time.
    pub fn new(locks: Locks, load: LockCaller, random: Random, started: time::Instant) -> Self {
        Self { locks, load, random, started }
    }

    /// Times in which the caller believed that it held locks, since the start of the run.
    pub fn holds(&self) -> &[Hold] {
        self.load.holds()
    }

    fn at(&self, at: time::Instant) -> Instant {
        Instant::ZERO + Duration::from_ns(at.saturating_duration_since(self.started).as_nanos() as u64)
    }

    /// Acquires a lock, renews it, and releases it. `ended` is called for each call with its kind, its start, and
    /// whether it succeeded.
    pub fn cycle(&mut self, mut ended: impl FnMut(usize, time::Instant, Result<(), Error>)) {
        let mut has_begun = false;
        while let Some(kind) = self.load.choose(&mut Turn::new(&mut self.random, has_begun, 100)) {
            has_begun = true;
            let begun = time::Instant::now();
            let at = self.at(begun);
            let answer = self.locks.call(self.load.begin(at, kind)).wait();
            let outcome = match answer {
                // The client's thread has another clock.
                Ok(Outcome::Granted { token, ttl, .. }) => {
                    Outcome::Granted { token, ttl, until: at + weft_lock::usable(ttl) }
                }
                Ok(outcome) => outcome,
                Err(_) => Outcome::Unknown,
            };
            let now = self.at(time::Instant::now());
            let is_done = self.load.end(now, outcome) == Ended::Done;
            let refused = Error::Refused("somebody else holds the lock, or has held it since");
            ended(kind, begun, answer.and_then(|_| is_done.then_some(()).ok_or(refused)));
        }
    }
}

/// Measures the callers of a workload. `progress` is called with the number of calls that have ended.
///
/// # Errors
/// See [`RealBenchError`].
pub fn measure(
    callers: &ProcessCallers,
    workload: Workload,
    replay: String,
    stop: &Stop,
    progress: impl FnMut(u64),
) -> Result<MeasuredRun, RealBenchError> {
    let engines = EnginesConfig { lock: Some(LockConfig::DEFAULT), ..EnginesConfig::default() };
    let called = Called { engines, description: EngineDescription::Lock, kinds: &KINDS };
    let call = |client: &Client, number, calls: &mut Calls<'_>| {
        let locks = client.lock().expect("the cluster is described with locks");
        let load = LockCaller::new(workload, number);
        let mut caller = Caller::new(locks, load, Random::new(callers.seed, number), calls.started);
        while calls.go_on() {
            caller.cycle(|kind, begun, result| calls.end(kind, begun, result.is_ok()));
        }
        caller.holds().to_vec()
    };
    let description = workload.description(replay);
    callers.measure_workload(description, called, (stop, progress), call, |holds| check(&holds.concat()))
}
