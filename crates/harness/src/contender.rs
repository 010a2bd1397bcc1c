//! An engine of any type with its clients and a check of their answers: what campaigns and measurements on the
//! shipped node need of it.

use std::collections::BTreeMap;

use weft_time::{Duration, Instant};
use weft_workload::Random;

use crate::{Assemble, Caller, ClosedLoops, ClusterOf, Pace};

/// Minimum pause of a client after a failed call.
pub(crate) const PAUSE_AFTER_FAILURE: Duration = Duration::from_us(50);
/// Clients of a campaign, and the share of their updates in percent.
pub(crate) const CAMPAIGN_CLIENTS: u32 = 8;
const CAMPAIGN_UPDATES: u8 = 50;
/// Pauses of the clients of a campaign.
const CAMPAIGN_PACE: Pace =
    Pace { longest: Some(Duration::from_us(200)), after_failure: PAUSE_AFTER_FAILURE };

/// A cluster of a contender.
pub type ContenderCluster<T> = ClusterOf<<T as Contender>::Caller, <T as Contender>::Assembly>;

/// An engine, its clients, and the check of the answers that they get.
pub trait Contender: Sync {
    /// Assembles the card of a node and its host halves.
    type Assembly: Assemble;
    /// One of its clients.
    type Caller: Caller;

    /// Verdict if no violation was found.
    const HOLDS: &'static str;
    /// Whether the nodes that serve are those of the membership service's view. Engines with members of their own
    /// serve in other ones.
    const SERVES_BY_LEASES: bool = true;

    /// The assembly of nodes, for a cluster with these numbers of nodes and clients.
    fn assembly(&self, nodes: usize, clients: u32) -> Self::Assembly;

    /// The client of this number, from 0, with its load.
    fn client(&self, number: u32, nodes: usize) -> (<Self::Caller as Caller>::Half, Self::Caller);

    /// Checks the answers of all clients and the final state of the nodes. Returns violations, in words.
    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String>
    where
        Self: Sized;

    /// The clients of each machine in the fault campaign of a seed.
    fn campaign_clients(&self, nodes: usize, seed: u64) -> Vec<ClosedLoops<Self::Caller>> {
        let clients = (0..CAMPAIGN_CLIENTS).map(|number| self.client(number, nodes));
        vec![ClosedLoops::new(clients, CAMPAIGN_UPDATES, CAMPAIGN_PACE, Random::new(seed, 0))]
    }

    /// The nodes that may fail in the fault campaign of a seed: all, unless the engine stops for good when too many
    /// have failed.
    fn failing_nodes(&self, nodes: usize, seed: u64) -> Vec<usize> {
        let _ = seed;
        (0..nodes).collect()
    }

    /// Like [`Contender::judge`] for a run of a fault campaign, which has no faults from `calm_from` on, a time
    /// on the world's clock. Enters figures into `counts`, by name.
    fn judge_campaign(
        &self,
        cluster: &ContenderCluster<Self>,
        calm_from: Instant,
        counts: &mut BTreeMap<&'static str, u64>,
    ) -> Vec<String>
    where
        Self: Sized,
    {
        let _ = calm_from;
        let operations = cluster.drivers().map(|(_, clients)| clients.recorder().operations());
        *counts.entry("operations").or_default() += operations.sum::<u64>();
        self.judge(cluster)
    }
}
