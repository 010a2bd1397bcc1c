//! Locks with fencing tokens: each client acquires and releases its own lock. A read is a query, which the
//! leader answers.

use weft_harness::{Contender, ContenderCluster, MakeEngines};
use weft_lock::Client;
use weft_time::Duration;

use super::session;
use crate::lock::simulated::{holds, measured_engines};
use crate::lock::{LockCaller, Workload, check};

/// Clients with a lock each, whose time to live is longer than any run.
const WORKLOAD: Workload = Workload { ttl: Duration::from_secs(60), renewals: 0, ..Workload::ONE };

/// The lock engine as a contender.
#[derive(Clone, Copy, Debug)]
pub struct LockContender;

impl Contender for LockContender {
    type Assembly = MakeEngines;
    type Caller = LockCaller;

    const HOLDS: &'static str = "tokens grow";

    fn assembly(&self, _: usize, _: u32) -> MakeEngines {
        measured_engines()
    }

    fn client(&self, number: u32, nodes: usize) -> (Client, LockCaller) {
        (Client::new(session(number, nodes)), LockCaller::new(WORKLOAD, number, true))
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        check(&holds(cluster)).violations
    }
}
