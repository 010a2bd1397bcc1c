//! The parameters of a replica: sizes, intervals and variants of the protocol.

use std::sync::Arc;

use weft_smr::message::PULSE;
use weft_smr::{Delivery, NODES_MAX, PulseParameters};
use weft_time::Duration;

use super::message::DATA;
use crate::object::Type;
use crate::verdict::{Category, MethodSet};

/// How summaries are applied (SafarDB, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Summaries {
    /// Each access to the object first reads the other replicas' summaries from memory.
    Unbuffered,
    /// The summaries are periodically read into a copy on chip.
    Buffered,
    /// Each WRITE of a summary calls the engine, which applies it at once.
    Rpc,
}

/// When a non-conflicting update is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitRule {
    /// When a majority of the replicas, the origin included, has the update in memory.
    Majority,
    /// When the update has taken effect at the origin. It is lost if the origin crashes before another
    /// replica has it. The origin may be ahead of a majority by no more calls than a ring holds; further
    /// calls wait.
    Local,
}

/// The most own non-conflicting updates that may be unanswered.
pub const WINDOW_MAX: usize = 256;

/// The most own calls that are folded before they are sent.
pub const FOLD_MAX: usize = 64;

/// The most outstanding work requests on a data connection.
pub(crate) const POSTS_MAX: usize = 64;

/// The most conflicting calls of an origin that may be undecided, in each group.
pub(crate) const ORDERED_WINDOW: usize = 16;

/// The most summaries of an origin for which they are read from memory.
pub const SCANNED_MAX: usize = 64;

/// Which elements are in the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OnHost {
    /// The elements' sort.
    pub sort: &'static str,
    /// The number of the first element in the host's memory; all higher ones are there too.
    pub from: usize,
}

/// Parameters of a replica, which must be the same at all replicas.
#[derive(Clone, Debug)]
pub struct ReplicaParameters {
    /// The data type.
    pub kind: Arc<Type>,
    /// Number of replicas, 1 to 8.
    pub nodes: usize,
    /// How summaries are applied.
    pub summaries: Summaries,
    /// How a replica learns of new entries in a ring.
    pub entries: Delivery,
    /// Reducible methods whose calls are summarized. Calls of other methods go through the ring. So do all
    /// calls of a type with more than [`SCANNED_MAX`] summaries, unless summaries arrive by RPC.
    pub reduce: MethodSet,
    /// Number of own summarized calls that are folded before they are sent, 1 to 64. A fold is sent at the
    /// next heartbeat at the latest, and before any call that may depend on it. Under
    /// [`CommitRule::Majority`] its calls are answered only after that.
    pub fold: usize,
    /// Number of summaries that one poll reads from memory ([`Summaries::Buffered`]). A poll reads the
    /// summaries of at least one origin, and of as many more as this number allows; the next poll continues
    /// with the next origins. With many nodes, to read all summaries may take longer than the interval
    /// between polls, and would delay everything else.
    pub scan: usize,
    /// The elements in the host's memory; `None`: all elements are on the card.
    pub on_host: Option<OnHost>,
    /// When a non-conflicting update is answered.
    pub commit: CommitRule,
    /// The most own non-conflicting updates that may be unanswered, 1 to 256.
    pub window: usize,
    /// Entries of a ring, and of the copies kept for peers that lag: a power of two, at least twice the
    /// window.
    pub ring: u64,
    /// Parameters of each group's log. The engine sets the number of nodes and the sizes of slots and
    /// snapshots itself.
    pub log: weft_smr::Parameters,
    /// Parameters of the heartbeats. All periodic work has the same period, which is longer with more nodes.
    pub pulse: PulseParameters,
    /// Interval of polls, if anything is polled.
    pub poll: Duration,
    /// Time until an unanswered request to a peer is repeated.
    pub retry: Duration,
    /// Time after which an undecided conflicting call is sent to the leader again. That may be another node
    /// than before.
    pub ask_again: Duration,
    /// A planted bug that is switched on.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
}

/// The interval of heartbeats. In each, a replica READs from all peers and serves their READs, besides its
/// work for their calls. With eight nodes, 750 ns are too short for a card even if nothing fails: nodes would
/// take each other for dead. So the interval grows with each node from the fourth on.
fn heartbeat(nodes: usize) -> Duration {
    let for_others = Duration::from_ns(250) * (nodes as u64).saturating_sub(1);
    PulseParameters::default().period.max(for_others)
}

impl ReplicaParameters {
    /// Default parameters for `nodes` replicas of an object of this type, with RPC for everything.
    pub fn new(kind: Arc<Type>, nodes: usize) -> Self {
        Self {
            reduce: (0..kind.method_count()).collect(),
            kind,
            nodes,
            summaries: Summaries::Rpc,
            entries: Delivery::WriteThrough,
            fold: 1,
            scan: SCANNED_MAX,
            on_host: None,
            commit: CommitRule::Majority,
            window: 16,
            ring: 256,
            log: weft_smr::Parameters::default(),
            pulse: PulseParameters { period: heartbeat(nodes), ..PulseParameters::default() },
            poll: Duration::from_ns(500),
            retry: Duration::from_us(20),
            ask_again: Duration::from_us(10),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn check(&self) -> Result<(), ReplicaParametersError> {
        let require = |holds, what| if holds { Ok(()) } else { Err(ReplicaParametersError(what)) };
        require((1..=NODES_MAX).contains(&self.nodes), "nodes must be 1 to 8")?;
        require((1..=WINDOW_MAX).contains(&self.window), "window must be 1 to 256")?;
        require(
            self.ring.is_power_of_two() && self.ring >= 2 * self.window as u64 && self.ring <= 1 << 20,
            "ring must be a power of two, from twice the window to 2^20",
        )?;
        require((1..=FOLD_MAX).contains(&self.fold), "fold must be 1 to 64")?;
        require(self.ring >= 2 * self.fold as u64, "ring must be at least twice the fold")?;
        require(self.kind.group_count() <= weft_smr::GROUPS_MAX, "a type has at most six groups")
    }

    /// The purposes of queue pairs. Each ordered pair of nodes has one queue pair for each purpose.
    pub fn purposes(&self) -> Vec<u8> {
        [PULSE, DATA].into_iter().chain(0..self.kind.group_count() as u8).collect()
    }

    /// Parameters of the heartbeats, for this number of nodes.
    pub(crate) fn pulse(&self) -> PulseParameters {
        PulseParameters { nodes: self.nodes, ..self.pulse }
    }

    /// Number of replicas in a majority.
    pub fn majority(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// The path that a method's calls take.
    pub(crate) fn path(&self, method: usize) -> Path {
        let coordination = self.kind.coordination(method);
        match coordination.category {
            Category::Conflicting => {
                Path::Ordered(coordination.group.expect("conflicting methods are in a group"))
            }
            Category::Reducible if self.reduce.contains(method) && self.is_scannable() => Path::Summary,
            _ => Path::Ring,
        }
    }

    /// Whether the calls of a method are combined into summaries.
    pub fn is_summarized(&self, method: usize) -> bool {
        self.path(method) == Path::Summary
    }

    fn is_scannable(&self) -> bool {
        let all = (0..self.kind.method_count()).filter(|&method| self.reduce.contains(method));
        let slots = all.filter_map(|method| Some(self.kind.summary(method)?.slots));
        self.summaries == Summaries::Rpc || slots.sum::<usize>() <= SCANNED_MAX
    }

    #[cfg(feature = "planted-bugs")]
    pub(crate) fn planted(&self, bug: PlantedBug) -> bool {
        self.planted_bug == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    #[allow(clippy::unused_self, reason = "there is nothing to look at without the feature")]
    pub(crate) fn planted(&self, _: PlantedBug) -> bool {
        false
    }
}

/// The parameter that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReplicaParametersError(&'static str);

/// The path that a method's calls take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Combined into a summary.
    Summary,
    /// One by one through the origin's ring.
    Ring,
    /// Through the log of this group.
    Ordered(usize),
}

/// Known mistakes in the replication of data types. With the feature `planted-bugs` a replica can have one of
/// them, to show that a checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// Calls carry no dependencies.
    MissingDependencies,
    /// A summary holds the latest call instead of all of them.
    DeltaSummary,
    /// A call is answered before a majority has it.
    AnswerBeforeMajority,
    /// A call is sent although calls that it depends on may still be lost.
    UnstableDependencies,
    /// Calls that a leader has checked take effect although it no longer leads.
    StaleTerm,
    /// An ordered call that was forwarded twice takes effect twice.
    ForgottenCall,
    /// A replica that has lost its memory serves with the state of only one other replica.
    HastyJoin,
    /// Calls of a dead replica that have reached only some replicas are not copied to the others.
    NotUniform,
}

impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [Self; 8] = [
        Self::MissingDependencies,
        Self::DeltaSummary,
        Self::AnswerBeforeMajority,
        Self::UnstableDependencies,
        Self::StaleTerm,
        Self::ForgottenCall,
        Self::HastyJoin,
        Self::NotUniform,
    ];

    /// The bug's name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingDependencies => "missing-dependencies",
            Self::DeltaSummary => "delta-summary",
            Self::AnswerBeforeMajority => "answer-before-majority",
            Self::UnstableDependencies => "unstable-dependencies",
            Self::StaleTerm => "stale-term",
            Self::ForgottenCall => "forgotten-call",
            Self::HastyJoin => "hasty-join",
            Self::NotUniform => "not-uniform",
        }
    }
}
