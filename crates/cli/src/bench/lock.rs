//! `weft bench lock`: how long it takes to acquire, renew and release a lock, simulated or with real
//! processes.

use clap::Args;
use weft_bench::lock::{Workload, simulated};
use weft_harness::Contest;
use weft_net::Stop;
use weft_processes::{ProcessCallers, RealBenchError, lock as real};
use weft_results::MeasuredRun;
use weft_sim::PlanError;
use weft_time::Duration;

use super::on_nodes::WorkloadOptions;
use crate::replay::CommandLine;

const TTL_MS: u64 = 1_000;

/// Definitions of the measurements.
const DEFINITIONS: &str = "\
Each client acquires a lock, renews it --renewals times and releases it, one call after the other. In the simulator \
the engine runs on the NIC and the clients' sessions on its host, so each call crosses the host bus. A grant and a \
release wait for every live replica, a renewal for none. Checked: no two clients hold a lock at the same time, and \
tokens only grow.";

/// Options of the locks' clients.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct LockOptions {
    /// Number of locks that the clients share; 0 gives each client its own
    #[arg(long, value_name = "N", default_value_t = 0)]
    locks: u64,
    /// Number of renewals of each acquisition
    #[arg(long, value_name = "N", default_value_t = 1)]
    renewals: u64,
    /// Time to live in ms
    #[arg(long, value_name = "MS", default_value_t = TTL_MS, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    ttl_ms: u64,
}

impl WorkloadOptions for LockOptions {
    const KIND: &'static str = "bench lock";

    fn simulate(&self, contest: &Contest, clients: u32, replay: String) -> Result<MeasuredRun, PlanError> {
        simulated::measure(contest, self.workload(clients), replay)
    }

    fn call(
        &self,
        callers: &ProcessCallers,
        replay: String,
        stop: &Stop,
        progress: impl FnMut(u64),
    ) -> Result<MeasuredRun, RealBenchError> {
        real::measure(callers, self.workload(callers.callers), replay, stop, progress)
    }

    fn add_to(&self, line: CommandLine) -> CommandLine {
        line.unless(0, "--locks", self.locks).unless(1, "--renewals", self.renewals).unless(
            TTL_MS,
            "--ttl-ms",
            self.ttl_ms,
        )
    }
}

impl LockOptions {
    const fn workload(&self, clients: u32) -> Workload {
        let (locks, renewals) = (self.locks, self.renewals);
        Workload { clients, locks, ttl: Duration::from_ms(self.ttl_ms), renewals, ..Workload::ONE }
    }
}
