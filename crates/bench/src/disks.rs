//! The disks of a simulated cluster, and the limits of their faults.

use std::ops::AddAssign;

use serde::Serialize;
use weft_harness::Campaign;
use weft_sim::{DiskFault, FaultKinds, FaultPlan, MachineDisk};
use weft_store::{Parameters, SECTOR};
use weft_waist::NodeId;

/// Limits of disk faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRegime {
    /// All data remains on undamaged disks, so the cluster must be live again in time.
    OneGoodCopy,
    /// Any disk may be damaged. The cluster may stop, but must not give a wrong answer.
    Arbitrary,
}

/// Effects of disk faults in a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskFigures {
    /// Number of power failures of several nodes at once.
    pub power_cuts: u64,
    /// Writes that were acknowledged as durable and were lost at the end.
    pub durable_writes_lost: u64,
    /// Writes that were answered before they were on disk, and were lost with the memory of all nodes.
    pub undurable_writes_lost: u64,
    /// Number of runs in which any number of disks may be damaged.
    pub arbitrary_runs: u64,
    /// Number of these runs in which all data was lost and the cluster stopped.
    pub halted_runs: u64,
}

impl AddAssign for DiskFigures {
    fn add_assign(&mut self, run: Self) {
        let Self { power_cuts, durable_writes_lost, undurable_writes_lost, arbitrary_runs, halted_runs } =
            run;
        self.power_cuts += power_cuts;
        self.durable_writes_lost += durable_writes_lost;
        self.undurable_writes_lost += undurable_writes_lost;
        self.arbitrary_runs += arbitrary_runs;
        self.halted_runs += halted_runs;
    }
}

/// Whether the nodes of a campaign have disks.
pub fn has_disks(runs: &Campaign) -> bool {
    let of_plan =
        |plan: &FaultPlan| plan.faults.iter().any(|fault| FaultKinds::NONE.with(fault.kind()).has_disks());
    runs.plan.as_ref().map_or(runs.kinds.has_disks(), of_plan)
}

/// The disks of a cluster.
#[derive(Debug)]
pub(crate) struct Disks {
    all: Vec<MachineDisk>,
    sizes: Parameters,
    regime: DiskRegime,
}

impl Disks {
    /// Empty disks.
    pub fn new(nodes: usize, seed: u64, regime: DiskRegime, sizes: Parameters) -> Self {
        let log = sizes.log_place();
        let snapshots = log.start - 2 * sizes.snapshot_sectors * SECTOR as u64..log.start;
        let disk = |node| MachineDisk::new(sizes.disk_bytes(), snapshots.clone(), seed, node as u64);
        Self { all: (0..nodes).map(disk).collect(), sizes, regime }
    }

    /// The sizes of the stores on them.
    pub const fn sizes(&self) -> Parameters {
        self.sizes
    }

    /// Limits of their faults.
    pub const fn regime(&self) -> DiskRegime {
        self.regime
    }

    /// The disk of a node.
    pub fn of(&self, node: usize) -> &MachineDisk {
        &self.all[node]
    }

    /// The disk of a node that is started: it works again, because the operator has repaired it before the restart.
    pub fn repaired(&self, node: NodeId) -> MachineDisk {
        let disk = self.all[node.index()].clone();
        disk.inject(DiskFault::Failing(false));
        disk.inject(DiskFault::Full(false));
        disk
    }

    /// Whether this fault would leave a node with a disk that is damaged and fails. The node will end because its disk
    /// fails, and loses its data. That may be long after the fault, when the service has removed the other members
    /// that had the data: it cannot know about damage.
    pub fn would_lose_node(&self, node: usize, fault: DiskFault) -> bool {
        let disk = &self.all[node];
        let is_lost = if fault.is_damage() {
            disk.fails()
        } else {
            matches!(fault, DiskFault::Failing(true) | DiskFault::Full(true)) && disk.is_damaged()
        };
        self.regime == DiskRegime::OneGoodCopy && is_lost
    }

    /// Whether a node that has stopped because of its disk can be restarted.
    pub fn is_repaired(&self, node: usize) -> bool {
        !self.all[node].fails()
    }
}
