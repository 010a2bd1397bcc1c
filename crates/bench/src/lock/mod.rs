//! Locks with fencing tokens: fault campaigns and measurements.

mod caller;
pub mod simulated;

pub use caller::LockCaller;

use serde_json::json;
use weft_check::locks::{self, Hold};
use weft_results::{Check, Checked, WorkloadDescription};
use weft_time::Duration;

/// The kinds of calls that are measured.
pub const KINDS: [&str; 3] = ["acquire", "renew", "release"];
const ACQUIRE: usize = 0;
const RENEW: usize = 1;
const RELEASE: usize = 2;

/// Workload of the clients.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Number of clients of a machine.
    pub clients: u32,
    /// Number of locks that all clients share; 0 gives each client its own lock.
    pub locks: u64,
    /// Time to live of a lock.
    pub ttl: Duration,
    /// Number of renewals of an acquisition.
    pub renewals: u64,
    /// Whether a client may release a lock before it has renewed it as often.
    pub releases_early: bool,
    /// Longest pause of a client between two calls.
    pub pause: Duration,
}

impl Workload {
    /// One client with a lock of its own, which it renews once.
    pub const ONE: Self = Self {
        clients: 1,
        locks: 0,
        ttl: Duration::from_secs(1),
        renewals: 1,
        releases_early: false,
        pause: Duration::ZERO,
    };

    /// The description of a run with this workload.
    pub fn description(&self, replay: String) -> WorkloadDescription {
        let locks = if self.locks == 0 { json!("one for each client") } else { json!(self.locks) };
        let parameters = vec![
            ("clients", json!(self.clients)),
            ("locks", locks),
            ("ttl_us", json!(self.ttl.as_ns() / 1_000)),
            ("renewals", json!(self.renewals)),
            ("acknowledged", json!("by every live replica")),
            ("engine_on", json!("nic")),
        ];
        WorkloadDescription { name: "lock", parameters, replay }
    }
}

/// Checks the holds of all clients, on one clock.
pub fn check(holds: &[Hold]) -> Check {
    let violations: Vec<_> = locks::check(holds).iter().map(ToString::to_string).collect();
    let checked = if violations.is_empty() { Checked::Exclusive } else { Checked::NotExclusive };
    Check { checked, violations }
}
