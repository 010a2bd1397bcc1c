//! The crash of one replica in the middle of a run: its effect on response time and throughput, and the
//! take-over by another replica (SafarDB section 5.3).
//!
//! Each experiment has two runs with one seed: one without a crash, and one with a crash after half of the
//! duration of the first run. The other clients take over the operations that the crashed node's client had
//! not begun; its outstanding operations stay unanswered. The node does not restart. Both runs are checked:
//! no answered call may be lost, and none may take effect twice.

mod fail_over;
mod observe;
mod result;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use weft_sim::{Fault, FaultPlan, NetworkProfile};
use weft_time::{Duration, Instant};

use super::cluster::ClusterParameters;
use super::measure::RdtBench;
use super::system::{Callers, Card, Commit, Configuration, System};
use super::type_name::TypeName;
use super::workload::Workload;

pub use fail_over::FailOvers;
pub use observe::{Mark, Timeline};
pub use result::{CrashReport, CrashResult, Outcome};

/// The replica that crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// Any replica, of a type whose methods have no groups.
    Replica,
    /// A replica that leads no group.
    Follower,
    /// The replica that leads all groups.
    Leader,
}

impl Victim {
    /// All victims, in the order of the paper's figure.
    pub const ALL: [Self; 3] = [Self::Replica, Self::Follower, Self::Leader];

    /// Name of the victim.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::Follower => "follower",
            Self::Leader => "leader",
        }
    }

    /// The data type of this experiment in SafarDB.
    pub fn usual_type(self) -> TypeName {
        let name = if self == Self::Replica { "2p-set" } else { "account" };
        name.parse().expect("it is shipped")
    }

    /// Index of the victim's node. The lowest node leads.
    const fn node(self, nodes: usize) -> usize {
        match self {
            Self::Leader => 0,
            Self::Replica | Self::Follower => nodes - 1,
        }
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Victim {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|known| known.name() == text);
        known.ok_or_else(|| {
            format!("there is no role `{text}`; choose {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Parameters of the runs.
#[derive(Clone, Debug)]
pub struct CrashBench {
    /// Victims and data types.
    pub experiments: Vec<(Victim, TypeName)>,
    /// Where engines and clients run.
    pub systems: Vec<System>,
    /// Percentages of the operations that call a method; each is measured.
    pub updates: Vec<u8>,
    /// When a call without conflicts is answered.
    pub commit: Commit,
    /// Replicas, each with a client: 3 to 8.
    pub nodes: usize,
    /// Operations of all clients together, in each run.
    pub operations: u64,
    /// Number of further runs of each system in which the leader crashes, to measure fail-over times.
    pub fail_overs: u64,
    /// Network between the cards.
    pub network: NetworkProfile,
    /// Seed of operations and delays.
    pub seed: u64,
}

impl CrashBench {
    /// Number of runs.
    pub fn runs(&self) -> u64 {
        let pairs = self.experiments.len() * self.systems.len() * self.updates.len();
        2 * pairs as u64 + self.fail_overs * self.systems.len() as u64
    }

    /// Makes the runs. `progress` is called with the number of runs made.
    pub fn run(&self, replay: String, mut progress: impl FnMut(u64)) -> CrashReport {
        let begin = std::time::Instant::now();
        let mut results = Vec::new();
        let mut done = 0;
        for &(victim, name) in &self.experiments {
            for &updates in &self.updates {
                for &system in &self.systems {
                    let experiment = Experiment { bench: self.bench(system, name, updates), victim };
                    results.push(experiment.run());
                    done += 2;
                    progress(done);
                }
            }
        }
        let mut fail_overs = Vec::new();
        for &system in self.systems.iter().filter(|_| self.fail_overs > 0) {
            let name = Victim::Leader.usual_type();
            let mut times = Vec::new();
            let mut wrong = Vec::new();
            for number in 0..self.fail_overs {
                let seed = self.seed.wrapping_add(number);
                let bench = RdtBench { seed, ..self.bench(system, name, fail_over::UPDATES) };
                match fail_over::measure(&bench, number) {
                    Ok(time) => times.push(time),
                    Err(what) => wrong.push(what),
                }
                done += 1;
                progress(done);
            }
            fail_overs.push(FailOvers::new(system, name, times, wrong));
        }
        CrashReport::new(self, results, fail_overs, replay, begin.elapsed().as_secs_f64())
    }

    fn bench(&self, system: System, name: TypeName, updates: u8) -> RdtBench {
        RdtBench {
            name,
            system,
            configuration: match system {
                System::Hamband => Configuration::Buffered,
                _ => Configuration::Rpc,
            },
            card: Card::Fpga,
            commit: self.commit,
            callers: Callers::All,
            nodes: self.nodes,
            updates,
            operations: self.operations,
            outstanding: 1,
            keys: super::workload::Sizes::LARGE.keys,
            skew: 0.0,
            network: self.network,
            seed: self.seed,
        }
    }
}

/// One pair of runs.
struct Experiment {
    bench: RdtBench,
    victim: Victim,
}

impl Experiment {
    fn run(&self) -> CrashResult {
        let without = observe::run(&self.bench, None);
        let half = Duration::from_ns(without.measured.virtual_ns / 2);
        let crash = Crash { node: self.victim.node(self.bench.nodes), at: without.began + half };
        let with = observe::run(&self.bench, Some(crash));
        CrashResult::new(&self.bench, self.victim, &without, &with)
    }
}

/// The crash of a node. It takes place at the start of the microsecond that contains `at`.
#[derive(Clone, Copy, Debug)]
struct Crash {
    node: usize,
    at: Instant,
}

impl Crash {
    const fn at_us(self) -> u64 {
        self.at.as_ns() / 1_000
    }

    fn instant(self) -> Instant {
        Instant::ZERO + Duration::from_us(self.at_us())
    }
}

/// Parameters of the cluster of a run, with a crash if one is given.
fn parameters(bench: &RdtBench, crash: Option<Crash>) -> ClusterParameters {
    let faults =
        crash.map(|crash| Fault::Crash { at_us: crash.at_us(), machine: format!("node{}", crash.node) });
    bench.parameters_under(FaultPlan { faults: faults.into_iter().collect() })
}

/// Whether a type's methods are in groups, which a replica leads.
pub fn has_leader(name: TypeName) -> bool {
    let workload = Workload::new(name, 3, 0, super::workload::Sizes::SMALL, 0.0, 0);
    workload.subject().kind().group_count() > 0
}
