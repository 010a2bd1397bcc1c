//! Measures the time until another replica leads, over many runs.

use serde::Serialize;
use weft_time::Duration;

use super::observe;
use super::{Crash, Victim};
use crate::rdt::measure::RdtBench;
use crate::rdt::system::System;
use crate::rdt::type_name::TypeName;
use crate::smr::{FailOver, Quantiles};

/// Percentage of the operations that call a method.
pub(super) const UPDATES: u8 = 25;
/// Operations of each client: enough for the time before and after the crash.
const OPERATIONS_EACH: u64 = 1_000;
/// Time of the earliest crash after the clients have begun.
const AFTER: Duration = Duration::from_us(100);
/// Additional delay of the crash in each further run. It is not a multiple of the heartbeat period. The
/// delays repeat after [`TIMES`] runs.
const LATER: Duration = Duration::from_us(7);
const TIMES: u64 = 40;

/// The times of all fail-overs of a system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailOvers {
    /// Where engines and clients run.
    pub system: System,
    /// The data type.
    #[serde(rename = "type")]
    pub name: &'static str,
    /// From the crash to the first conflicting call that the new leader has decided and answered.
    pub fail_over_ns: Quantiles,
    /// From the request for permissions until a majority has revoked the old permission, granted the new one
    /// and acknowledged it.
    pub permission_switch_ns: Quantiles,
    /// Times of each fail-over, in the order of the seeds.
    pub each: Vec<FailOver>,
    /// Violations, as text.
    pub wrong: Vec<String>,
}

impl FailOvers {
    pub(super) fn new(system: System, name: TypeName, each: Vec<FailOver>, wrong: Vec<String>) -> Self {
        let quantiles = |of: fn(&FailOver) -> u64| Quantiles::of(each.iter().map(of).collect());
        Self {
            system,
            name: name.name(),
            fail_over_ns: quantiles(|fail_over| fail_over.total_ns),
            permission_switch_ns: quantiles(|fail_over| fail_over.permission_ns),
            each,
            wrong,
        }
    }
}

/// Crashes the leader in one run.
///
/// # Errors
/// The violations, as text.
pub(super) fn measure(bench: &RdtBench, number: u64) -> Result<FailOver, String> {
    let bench = RdtBench { operations: OPERATIONS_EACH * bench.nodes as u64, ..bench.clone() };
    let at = observe::begins_at(&bench) + AFTER + LATER * (number % TIMES);
    let node = Victim::Leader.node(bench.nodes);
    let run = observe::run(&bench, Some(Crash { node, at }));
    let seed = bench.seed;
    if !run.measured.holds() {
        return Err(format!("seed {seed}: {}", run.measured.findings().join("; ")));
    }
    run.seen
        .and_then(|seen| seen.fail_over)
        .ok_or_else(|| format!("seed {seed}: no node leads after the crash"))
}
