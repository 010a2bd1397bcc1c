//! The sizes, intervals and configurations of a replica.

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
    /// Each access to the object reads the others' summaries from memory first.
    Unbuffered,
    /// They are periodically read into a copy on chip.
    Buffered,
    /// Each WRITE of one calls the engine, which takes it in at once.
    Rpc,
}

/// When a call without conflicts is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitRule {
    /// When a majority of the replicas, its own included, has it in memory.
    Majority,
    /// When it has taken effect at its own replica: it is lost if that one crashes before another has it. No more
    /// calls than a ring has room for are ahead of what a majority has: further ones wait.
    Local,
}

/// The most own updates without conflicts that may be unanswered.
pub const WINDOW_MAX: usize = 256;

/// The most own calls that are folded before they are sent.
pub const FOLD_MAX: usize = 64;

/// The most work requests that are outstanding on a data connection.
pub(crate) const POSTS_MAX: usize = 64;

/// Conflicting calls of an origin that may be undecided, by group.
pub(crate) const ORDERED_WINDOW: usize = 16;

/// The most summaries of an origin that are looked through when they are read from memory.
pub const SCANNED_MAX: usize = 64;

/// Elements that lie in the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OnHost {
    /// Of which sort.
    pub sort: &'static str,
    /// Elements from this number on.
    pub from: usize,
}

/// Parameters of a replica. All replicas use the same.
#[derive(Clone, Debug)]
pub struct ReplicaParameters {
    /// The data type.
    pub kind: Arc<Type>,
    /// Replicas, 1 to 8.
    pub nodes: usize,
    /// How summaries are applied.
    pub summaries: Summaries,
    /// How a replica learns of new entries in a ring.
    pub entries: Delivery,
    /// Reducible methods that are summarized. The others go through the ring, as do those of a type with more than
    /// [`SCANNED_MAX`] summaries unless they come by RPC.
    pub reduce: MethodSet,
    /// Own summarized calls that are folded before they are sent, 1 to 64. They are sent at the next heartbeat at the
    /// latest, and before anything that may depend on them. Under [`CommitRule::Majority`] they are answered only
    /// after that.
    pub fold: usize,
    /// Summaries that are read from memory in one look at what has come ([`Summaries::Buffered`]): those of one other
    /// origin at least, and then of as many more as this allows; it is the turn of the next ones at the next look.
    /// Those of many nodes together may take the memory longer than there is from one look to the next, and then
    /// everything else waits.
    pub scan: usize,
    /// Elements that lie in the host's memory; nothing: all are on the card.
    pub on_host: Option<OnHost>,
    /// When a call without conflicts is answered.
    pub commit: CommitRule,
    /// Own updates without conflicts that may be unanswered, 1 to 256.
    pub window: usize,
    /// Entries of a ring, and of the copies kept for lagging peers: a power of two, at least twice the window.
    pub ring: u64,
    /// Of each group's log. The number of nodes, the bytes of a slot and of a snapshot are the engine's to choose.
    pub log: weft_smr::Parameters,
    /// Of the heartbeats. Their period is also that of everything that is done now and then; it is longer where there
    /// are more nodes.
    pub pulse: PulseParameters,
    /// From one look at the memory to the next, where something is polled.
    pub poll: Duration,
    /// Time until an unanswered request to a peer is repeated.
    pub retry: Duration,
    /// Time after which an undecided conflicting call is sent to the leader again, which may not have led before.
    pub ask_again: Duration,
    /// A known bug to run with.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
}

/// From one heartbeat to the next. Each READs from all others and answers theirs, beside what a replica does for
/// their calls: with eight nodes 750 ns are too short on a card even if nothing fails, and nodes would hold each
/// other for dead. So each other node adds its part from four nodes on.
fn heartbeat(nodes: usize) -> Duration {
    let for_others = Duration::from_ns(250) * (nodes as u64).saturating_sub(1);
    PulseParameters::default().period.max(for_others)
}

impl ReplicaParameters {
    /// So many replicas of an object of that type, by RPC throughout.
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

    /// Whether a replica can run with these.
    ///
    /// # Errors
    /// The first one that is out of range.
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

    /// Purposes of queue pairs. For each purpose, every ordered pair of nodes has a queue pair of its own.
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

    /// Path of a method's calls.
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

/// The member of [`ReplicaParameters`] that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReplicaParametersError(&'static str);

/// Path of the calls of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Combined into a summary.
    Summary,
    /// One by one through the origin's ring.
    Ring,
    /// Through the log of that group.
    Ordered(usize),
}

/// Known ways to get the replication of data types wrong. With the feature `planted-bugs` a replica can be told to
/// have one of them, which proves that a checker would see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// Calls do not say what they depend on.
    MissingDependencies,
    /// A summary holds the latest call instead of all of them.
    DeltaSummary,
    /// A call is answered before a majority has it.
    AnswerBeforeMajority,
    /// A call is sent although what it depends on may be lost yet.
    UnstableDependencies,
    /// Calls checked by a leader count although it leads no longer.
    StaleTerm,
    /// An ordered call that was forwarded twice takes effect twice.
    ForgottenCall,
    /// A replica that has lost its memory serves with what one other has.
    HastyJoin,
    /// Calls that a dead replica has sent to some only are not fetched from others.
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

    /// Name on command lines: lower case, words joined by hyphens.
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
