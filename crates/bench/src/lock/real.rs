//! Locks in a cluster of real processes, called through the shipped client library.

use std::time;

use weft_check::locks::Hold;
use weft_client::{Acquired, Client, EngineDescription, Error, Lease, Locks};
use weft_cluster::{EnginesConfig, LockConfig};
use weft_net::Stop;
use weft_results::MeasuredRun;
use weft_workload::Random;

use super::holds::Holds;
use super::{ACQUIRE, KINDS, RELEASE, RENEW, Workload, check};
use crate::kv::real::RealBenchError;
use crate::{Called, Calls, ProcessCallers};

/// One caller, which acquires a lock, renews it and releases it.
pub(crate) struct Caller {
    locks: Locks,
    number: u32,
    acquisitions: u64,
    started: time::Instant,
    random: Random,
    holds: Holds,
}

impl Caller {
    /// A caller with this number. All callers of a run have started at the same time.
    pub fn new(locks: Locks, number: u32, seed: u64, started: time::Instant) -> Self {
        let random = Random::new(seed, number);
        Self { locks, number, acquisitions: 0, started, random, holds: Holds::default() }
    }

    /// Times in which the caller believed that it held locks, since the start of the run.
    pub fn holds(&self) -> &[Hold] {
        self.holds.all()
    }

    fn ns(&self, at: time::Instant) -> u64 {
        at.saturating_duration_since(self.started).as_nanos() as u64
    }

    /// Acquires a lock, renews it, and releases it. `ended` is called for each call with its kind, its start, and
    /// whether it succeeded. Names of locks begin with `prefix`.
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
        let acquired = self.locks.acquire(&name, ttl).wait().and_then(|acquired| match acquired {
            Acquired::Granted(lease) => Ok(lease),
            Acquired::Held(_) => Err(Error::Refused("somebody else holds the lock")),
        });
        ended(ACQUIRE, begun, acquired.clone().map(drop));
        let Ok(lease) = acquired else { return };
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
        let over = Error::Refused("the time to live was over");
        ended(RELEASE, begun, released.and_then(|is_released| is_released.then_some(()).ok_or(over)));
    }

    fn hold(&mut self, lock: u64, lease: &Lease, begun: time::Instant, is_renewal: bool) {
        self.holds.begin(Hold {
            lock,
            owner: u64::from(self.number) << 32 | self.acquisitions,
            token: lease.token,
            invoked_ns: self.ns(begun),
            returned_ns: self.ns(time::Instant::now()),
            until_ns: self.ns(lease.until),
            is_renewal,
        });
    }

    /// Ends the latest hold now.
    fn end_hold(&mut self) {
        self.holds.end(self.ns(time::Instant::now()));
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
        let mut caller = Caller::new(locks, number, callers.seed, calls.started);
        while calls.go_on() {
            caller.cycle("", &workload, |kind, begun, result| calls.end(kind, begun, result.is_ok()));
        }
        caller.holds().to_vec()
    };
    let description = workload.description(replay);
    callers.measure_workload(description, called, (stop, progress), call, |holds| check(&holds.concat()))
}
