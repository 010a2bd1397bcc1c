//! The interface between a node's host and a membership service of any kind.

use std::fmt;

use serde::{Deserialize, Serialize};
use weft_time::Instant;
use weft_waist::{Configuration, EngineStatus};

/// What a node's host needs from a membership service.
///
/// The embedded service's [`Agent`](crate::Agent) implements it; a client of an external store such as etcd can,
/// because nothing here says how the two talk. The host reports how its engine is doing and forwards configurations and
/// actions; when to renew, and with whom, is the implementation's own affair.
pub trait Membership {
    /// Reports the status of the host's engine. Call it whenever the status changes; repeating it is harmless.
    fn engine_status(&mut self, now: Instant, status: EngineStatus);

    /// New content of the engine's membership registers, whenever the view or the lease has changed. Only the latest is
    /// kept.
    fn poll_configuration(&mut self) -> Option<Configuration>;

    /// The next action for the host. Each action is given once.
    fn poll_action(&mut self) -> Option<Action>;

    /// When the membership must be driven again, on the node's clock.
    fn next_deadline(&self) -> Instant;

    /// Reason for which the latest request was refused; `None` if it was granted or none has been answered.
    fn refusal(&self) -> Option<Reason>;
}

/// One life of a node's engine. A node that restarts, or whose engine is emptied, takes a greater one: two
/// engines that hold different data never share an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Incarnation(u64);

impl Incarnation {
    /// The least incarnation.
    pub const FIRST: Self = Self(1);
    /// The greatest incarnation: what a signed 64-bit integer holds, because TOML has no other.
    pub const LAST: Self = Self(i64::MAX as u64);

    /// Incarnation `number`, or `None` outside 1 to 2^63 - 1. A process that has no number of its own
    /// takes the wall clock's nanoseconds when it starts.
    pub const fn new(number: u64) -> Option<Self> {
        if number >= Self::FIRST.0 && number <= Self::LAST.0 { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one after it; [`Incarnation::LAST`] has none and stays.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.0 < Self::LAST.0 { Self(self.0 + 1) } else { self }
    }
}

impl TryFrom<u64> for Incarnation {
    type Error = &'static str;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        Self::new(number).ok_or("an incarnation is a number from 1 to 9223372036854775807")
    }
}

impl From<Incarnation> for u64 {
    fn from(incarnation: Incarnation) -> Self {
        incarnation.0
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An action that a membership service asks of a host, besides configuring its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The engine is no member any more. Drop it, then start an empty one and a membership with this incarnation.
    Restart {
        /// The engine's next life.
        incarnation: Incarnation,
    },
    /// Another process runs this node, or the node does not belong to the cluster. Stop, and tell the user.
    Stop,
}

/// Reason for which a heartbeat is not granted a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The node takes part with the next view: at the beginning, once every node has reported. Ask again.
    Waiting,
    /// The node has been removed, or its engine is lost: restart it empty with a greater incarnation.
    Rejoin,
    /// A greater incarnation of the node is registered: go on, empty, with one that is greater still. The clock from
    /// which this one took its incarnation may have gone back.
    Superseded {
        /// The greatest that is known.
        by: Incarnation,
    },
    /// The lease of an earlier life of the node may not have ended. Ask again.
    Occupied,
    /// Another process runs the node, and is alive.
    Taken,
    /// The node and a member do not hear each other, or the node does not hear the service: it stays out of the view
    /// until they do.
    Parted,
    /// Every engine that held all data is gone, so the data is lost. The cluster stays stopped.
    Halted,
    /// No such node is configured.
    UnknownNode,
    /// The node has seen an epoch that the service never published: the service has lost its state.
    Ahead,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting for the next view; before the first one, every node has to report",
            Self::Rejoin => "removed from the cluster; the engine restarts empty",
            Self::Superseded { .. } => "a later start of this node is registered; the engine restarts empty",
            Self::Occupied => "waiting for the lease of this node's former process to end",
            Self::Taken => {
                "another process runs this node and is alive; stop it, or give this one a number of its own"
            }
            Self::Parted => {
                "it and members of the cluster do not hear each other; it is left out until they do: look at the \
                 network between them"
            }
            Self::Halted => {
                "the last node that held all data is gone; start the cluster anew from empty state"
            }
            Self::UnknownNode => "the membership service has no such node; make the configurations agree",
            Self::Ahead => {
                "the membership service has lost its state, and goes on once all members of the newest view have told it \
                 so: restart none of them; if one is gone, stop that service only, restore its state file and start it again"
            }
        })
    }
}
