//! Checks that a cluster serves again soon after a partial partition has begun.

use weft_sim::{Fault, FaultPlan};
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, NodeSet, View};

use crate::{Builder, Cluster, SimulatedNode};

/// Bound on the time from the beginning of a partial partition until the other nodes serve, in leases. A node
/// notices the silence after one lease and reports it within a quarter; the service acts on the report within
/// two; the lease of the excluded node ends after one more.
const LEASES: u64 = 4;

/// A partial partition that begins while no other fault is active.
#[derive(Debug)]
struct Parting {
    begin: Instant,
    /// Nodes of the first set and nodes of the second do not receive each other's frames.
    sides: [NodeSet; 2],
    is_deaf: bool,
    /// Number of crashes and outages before the partition began, if the cluster was whole then.
    crashes: Option<u64>,
    is_over: bool,
}

/// The partial partitions of a run.
#[derive(Debug)]
pub struct Partings {
    partings: Vec<Parting>,
    bound: Duration,
    checked: u64,
}

impl Partings {
    /// The partial partitions of `plan` that begin while no other fault is active and last long enough for
    /// the check.
    pub fn new(plan: &FaultPlan, nodes: usize, lease: Duration) -> Self {
        let bound = lease * LEASES;
        let lasts = |fault: &Fault| fault.end().saturating_since(fault.begin()) > bound;
        let is_alone = |this: &Fault| {
            let overlaps =
                |other: &Fault| other.begin() <= this.begin() + bound && this.begin() <= other.end();
            plan.faults.iter().filter(|other| overlaps(other)).count() == 1
        };
        let parting = |fault: &Fault| {
            let Fault::PartialPartition { from, to, one_way, .. } = fault else { return None };
            let side = |names: &[String]| {
                let nodes = (0..nodes).filter_map(NodeId::new);
                nodes.filter(|node| names.contains(&node.to_string())).collect::<NodeSet>()
            };
            let is_deaf = *one_way && from.iter().any(|name| name == "membership0");
            let (begin, sides) = (fault.begin(), [side(from), side(to)]);
            Some(Parting { begin, sides, is_deaf, crashes: None, is_over: false })
        };
        let alone = plan.faults.iter().filter(|fault| lasts(fault) && is_alone(fault));
        Self { partings: alone.filter_map(parting).collect(), bound, checked: 0 }
    }

    /// Number of partial partitions that were checked.
    pub const fn checked(&self) -> u64 {
        self.checked
    }

    /// Checks the cluster. Returns a violation, if there is one. This must be called often.
    pub fn look<B: Builder<Node: SimulatedNode>>(&mut self, cluster: &Cluster<B>) -> Option<String> {
        let bound = self.bound;
        let at = |parting: &Parting| match parting.crashes {
            None => parting.begin,
            Some(_) => parting.begin + bound,
        };
        let is_due = |parting: &&mut Parting| !parting.is_over && at(parting) <= cluster.now();
        let parting = self.partings.iter_mut().find(is_due)?;
        let faults = cluster.world.fault_counts();
        let crashes = faults.crash + faults.outage + faults.power;
        let Some(before) = parting.crashes.replace(crashes) else {
            parting.is_over = !cluster.is_whole();
            return None;
        };
        parting.is_over = true;
        if before != crashes {
            return None;
        }
        self.checked += 1;
        let View { epoch, full, joining } = cluster.view();
        let [one, other] = parting.sides.map(|side| side.intersection(full.union(joining)));
        let is_parted =
            if parting.is_deaf { !other.is_empty() } else { !one.is_empty() && !other.is_empty() };
        let idle: Vec<_> = full.iter().filter(|node| !cluster.serves_in_view(node.index())).collect();
        let is_wrong = is_parted || full.is_empty() || !joining.is_empty() || !idle.is_empty();
        is_wrong.then(|| {
            let [one, other] = parting.sides;
            format!(
                "{bound} after {one:?} and {other:?} have ceased to hear each other the view is {epoch}, full \
                 {full:?}, joining {joining:?}, and {idle:?} do not serve"
            )
        })
    }
}
