//! Locks: no two callers hold one at the same time, and tokens only grow.

use std::time::Duration;

use weft_bench::lock::{LockCaller, Workload};
use weft_check::locks::{Hold, check};
use weft_client::Client;
use weft_workload::Random;

use super::{Count, DESCRIBED, EngineResult, Run, for_each};
use crate::lock::Caller;

const PAUSE: Duration = Duration::from_millis(5);
/// Few locks, so that callers compete. After a leader was killed, its successor waits for the time to live
/// before it grants locks.
const WORKLOAD: Workload = Workload { locks: 2, renewals: 2, ..Workload::ONE };

pub(super) fn drive(run: &Run<'_>, clients: &[Client]) -> EngineResult {
    let parts = for_each(clients, |number, client| {
        let load = LockCaller::new(WORKLOAD, number).with_locks_from(run.identity);
        let random = Random::new(run.load.seed, number);
        let mut caller = Caller::new(client.lock().expect(DESCRIBED), load, random, run.started);
        let mut count = Count::default();
        run.repeat(PAUSE, || {
            caller.cycle(|_, _, result| {
                if count.take(result).is_some() {
                    run.changed();
                }
            });
        });
        (count, caller.holds().to_vec())
    });
    let mut count = Count::default();
    parts.iter().for_each(|(part, _)| count.add(*part));
    let holds: Vec<Hold> = parts.into_iter().flat_map(|(_, holds)| holds).collect();
    let mut findings: Vec<_> = check(&holds).iter().map(ToString::to_string).collect();
    if holds.is_empty() {
        findings.push("no lock was granted".to_owned());
    }
    EngineResult::new("lock", count, "exclusive, tokens grow", findings)
}
