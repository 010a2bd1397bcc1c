//! The disks of a simulated cluster, and the limits of their faults.

use weft_cluster::Incarnation;
use weft_node::{KvHalf, KvLog};
use weft_sim::{DiskFault, MachineDisk};
use weft_store::{Parameters, SECTOR};
use weft_waist::{NodeId, NodeSet, View};

/// Limits of disk faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRegime {
    /// All data remains on undamaged disks, so the cluster must be live again in time.
    OneGoodCopy,
    /// Any disk may be damaged. The cluster may stop, but must not give a wrong answer.
    Arbitrary,
}

/// A known bug in the store, in the host half, or in the handling of a lost disk.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskBug {
    /// A bug of the store.
    Store(weft_store::PlantedBug),
    /// A bug of the host half.
    Log(weft_node::LogBug),
    /// A node that has lost its disk restarts with its first incarnation.
    LostDiskKeepsLife,
}

#[cfg(feature = "planted-bugs")]
impl DiskBug {
    /// All bugs.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_stores = weft_store::PlantedBug::ALL.into_iter().map(Self::Store);
        of_stores.chain(weft_node::LogBug::ALL.into_iter().map(Self::Log)).chain([Self::LostDiskKeepsLife])
    }

    /// Name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store(bug) => bug.name(),
            Self::Log(bug) => bug.name(),
            Self::LostDiskKeepsLife => "lost-disk-keeps-life",
        }
    }
}

/// The disks of a cluster.
#[derive(Debug)]
pub(super) struct Disks {
    all: Vec<MachineDisk>,
    sizes: Parameters,
    regime: DiskRegime,
    /// How many nodes have a write on disk when it is answered.
    copies: usize,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<DiskBug>,
}

impl Disks {
    /// Empty disks. The log is smaller than the megabyte that a node writes in a run, so that snapshots are
    /// taken.
    pub(super) fn new(nodes: usize, seed: u64, regime: DiskRegime, copies: usize) -> Self {
        let sizes = Parameters::new(32, 256, 256);
        let log = sizes.log_place();
        let snapshots = log.start - 2 * sizes.snapshot_sectors * SECTOR as u64..log.start;
        let disk = |node| MachineDisk::new(sizes.disk_bytes(), snapshots.clone(), seed, node as u64);
        Self {
            all: (0..nodes).map(disk).collect(),
            sizes,
            regime,
            copies,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }

    /// The same disks, with a planted bug.
    #[cfg(feature = "planted-bugs")]
    pub(super) fn with_planted_bug(self, planted_bug: Option<DiskBug>) -> Self {
        Self { planted_bug, ..self }
    }

    /// The disk of a node.
    pub(super) fn of(&self, node: usize) -> &MachineDisk {
        &self.all[node]
    }

    /// Whether all data survives a loss of the disks of the nodes in `without`, and of all damaged ones: whether enough
    /// other full members have undamaged disks. Only those in `current` count, which are up to date: another one may be
    /// about to leave the view, because the membership service cannot know about damage.
    pub(super) fn may_be_all(&self, without: NodeSet, current: NodeSet, view: &View) -> bool {
        let is_lost = |id: NodeId| without.contains(id) || self.all[id.index()].is_damaged();
        let holders = current.intersection(view.full).iter().filter(|id| !is_lost(*id)).count();
        let needed = (view.full.len() + 1).saturating_sub(self.copies).max(1);
        self.regime == DiskRegime::Arbitrary || !view.full.iter().any(is_lost) || holders >= needed
    }

    /// Whether this fault would leave a node with a disk that is damaged and fails. The node will end because its disk
    /// fails, and loses its data. That may be long after the fault, when the service has removed the other members
    /// that had the data: it cannot know about damage.
    pub(super) fn would_lose_node(&self, node: usize, fault: DiskFault) -> bool {
        let disk = &self.all[node];
        let is_lost = if fault.is_damage() {
            disk.fails()
        } else {
            matches!(fault, DiskFault::Failing(true) | DiskFault::Full(true)) && disk.is_damaged()
        };
        self.regime == DiskRegime::OneGoodCopy && is_lost
    }

    /// Whether a node that has stopped because of its disk can be restarted.
    pub(super) fn is_repaired(&self, node: usize) -> bool {
        !self.all[node].fails()
    }

    /// The host half of a node that starts with the incarnation of its log, or with `fresh` if the log has
    /// none.
    pub(super) fn open(&self, node: NodeId, fresh: Incarnation) -> (KvHalf, Incarnation, MachineDisk) {
        let disk = self.all[node.index()].clone();
        // The disk works again, because the operator has repaired it before the restart.
        disk.inject(DiskFault::Failing(false));
        disk.inject(DiskFault::Full(false));
        let log = KvLog::with_sizes(self.sizes(), Box::new(disk.clone()), fresh, || disk.wait())
            .expect("a disk that works has been made for this store");
        let is_lost = log.damage().is_some();
        if is_lost {
            disk.is_whole_again();
        }
        let (half, incarnation) = self.planted(log.incarnation(), KvHalf::new(log), is_lost);
        (half, incarnation, disk)
    }

    #[cfg(feature = "planted-bugs")]
    fn sizes(&self) -> Parameters {
        let planted_bug = if let Some(DiskBug::Store(bug)) = self.planted_bug { Some(bug) } else { None };
        Parameters { planted_bug, ..self.sizes }
    }

    #[cfg(not(feature = "planted-bugs"))]
    const fn sizes(&self) -> Parameters {
        self.sizes
    }

    #[cfg(feature = "planted-bugs")]
    fn planted(&self, incarnation: Incarnation, half: KvHalf, is_lost: bool) -> (KvHalf, Incarnation) {
        match self.planted_bug {
            Some(DiskBug::Log(bug)) => (half.with_planted_bug(bug), incarnation),
            Some(DiskBug::LostDiskKeepsLife) if is_lost => (half, weft_harness::incarnation(0)),
            _ => (half, incarnation),
        }
    }

    #[cfg(not(feature = "planted-bugs"))]
    fn planted(&self, incarnation: Incarnation, half: KvHalf, _: bool) -> (KvHalf, Incarnation) {
        (half, incarnation)
    }
}
