//! The disks of a simulated cluster of stores.

use weft_cluster::Incarnation;
use weft_node::{EngineLog, KvHalf};
use weft_sim::MachineDisk;
use weft_store::Parameters;
use weft_waist::{NodeId, NodeSet, View};

use crate::disks::{DiskRegime, Disks};

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

/// The disks of a cluster of stores.
#[derive(Debug)]
pub(super) struct StoreDisks {
    disks: Disks,
    /// How many nodes have a write on disk when it is answered.
    copies: usize,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<DiskBug>,
}

impl StoreDisks {
    /// Empty disks. The log is smaller than the megabyte that a node writes in a run, so that snapshots are
    /// taken.
    pub(super) fn new(nodes: usize, seed: u64, regime: DiskRegime, copies: usize) -> Self {
        let disks = Disks::new(nodes, seed, regime, Parameters::new(32, 256, 256));
        Self {
            disks,
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

    /// The disks themselves.
    pub(super) const fn inner(&self) -> &Disks {
        &self.disks
    }

    /// Whether all data survives a loss of the disks of the nodes in `without`, and of all damaged ones: whether enough
    /// other full members have undamaged disks. Only those in `current` count, which are up to date: another one may be
    /// about to leave the view, because the membership service cannot know about damage.
    pub(super) fn may_be_all(&self, without: NodeSet, current: NodeSet, view: &View) -> bool {
        let is_lost = |id: NodeId| without.contains(id) || self.disks.of(id.index()).is_damaged();
        let holders = current.intersection(view.full).iter().filter(|id| !is_lost(*id)).count();
        let needed = (view.full.len() + 1).saturating_sub(self.copies).max(1);
        self.disks.regime() == DiskRegime::Arbitrary || !view.full.iter().any(is_lost) || holders >= needed
    }

    /// The host half of a node that starts with the incarnation of its log, or with `fresh` if the log has
    /// none.
    pub(super) fn open(&self, node: NodeId, fresh: Incarnation) -> (KvHalf, Incarnation, MachineDisk) {
        let disk = self.disks.repaired(node);
        let log = EngineLog::of_store(self.sizes(), Box::new(disk.clone()), fresh, || disk.wait())
            .expect("a disk that works has been made for this store");
        let is_lost = log.loss().is_some();
        if is_lost {
            disk.is_whole_again();
        }
        let (half, incarnation) = self.planted(log.incarnation(), KvHalf::new(log), is_lost);
        (half, incarnation, disk)
    }

    #[cfg(feature = "planted-bugs")]
    fn sizes(&self) -> Parameters {
        let planted_bug = if let Some(DiskBug::Store(bug)) = self.planted_bug { Some(bug) } else { None };
        Parameters { planted_bug, ..self.disks.sizes() }
    }

    #[cfg(not(feature = "planted-bugs"))]
    const fn sizes(&self) -> Parameters {
        self.disks.sizes()
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
