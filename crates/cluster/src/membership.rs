//! The interface between a node's host and a membership service of any kind.

use std::fmt;

use serde::{Deserialize, Serialize};
use weft_time::Instant;
use weft_waist::{Configuration, EngineStatus};

/// The interface that a node's host uses of a membership service.
///
/// The [`Agent`](crate::Agent) of the embedded service implements it. A client of an external store such as etcd
/// could, too, because the interface says nothing about messages. The host reports the state of its engine and
/// carries out configurations and actions; the implementation decides when to renew the lease, and with which
/// server.
pub trait Membership {
    /// Reports the status of the host's engine. Call it whenever the status changes; repeating it is harmless.
    fn engine_status(&mut self, now: Instant, status: EngineStatus);

    /// The new content of the engine's membership registers, if the view or the lease has changed. Only the latest
    /// is kept.
    fn poll_configuration(&mut self) -> Option<Configuration>;

    /// The next action that the host must carry out. Each action is returned once.
    fn poll_action(&mut self) -> Option<Action>;

    /// When the implementation must be polled again, on the node's clock.
    fn next_deadline(&self) -> Instant;

    /// Why the last answered request was refused; `None` if it was granted or none has been answered.
    fn refusal(&self) -> Option<Reason>;
}

/// Number of one incarnation of a node's engine. A node that restarts, or whose engine is emptied, takes a greater
/// one: two engines that hold different data never have the same incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Incarnation(u64);

impl Incarnation {
    /// The smallest incarnation.
    pub const FIRST: Self = Self(1);
    /// The greatest incarnation: the largest signed 64-bit integer, because TOML has no larger integers.
    pub const LAST: Self = Self(i64::MAX as u64);

    /// Incarnation `number`, or `None` outside 1 to 2^63 - 1. A process without a stored number takes the
    /// nanoseconds of the wall clock at its start.
    pub const fn new(number: u64) -> Option<Self> {
        if number >= Self::FIRST.0 && number <= Self::LAST.0 { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next incarnation; [`Incarnation::LAST`] has none and is returned unchanged.
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

/// An action that a membership service requires of a host, besides configuring its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The engine is no member any more. Drop it, then start an empty engine and a new membership with this
    /// incarnation.
    Restart {
        /// The incarnation of the new engine.
        incarnation: Incarnation,
    },
    /// Another process runs this node, or the node does not belong to the cluster. Stop, and notify the user.
    Stop,
}

/// Why a heartbeat is not granted a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The node will be a member of the next view; the first view waits until every node has reported. Repeat the
    /// request.
    Waiting,
    /// The node has been removed, or its engine is lost: restart it, empty, with a greater incarnation.
    Rejoin,
    /// A greater incarnation of the node is registered: restart it, empty, with one that is greater still. The
    /// clock from which this process took its incarnation may have been set back.
    Superseded {
        /// The greatest incarnation that is registered.
        by: Incarnation,
    },
    /// The lease of an earlier incarnation of the node may not have ended. Repeat the request.
    Occupied,
    /// Another process runs the node, and is alive.
    Taken,
    /// The node and a member do not receive each other's beacons, or the node does not receive the service's
    /// answers: it stays out of the view until they do.
    Partitioned,
    /// All engines that held all data are gone, so the data is lost. The cluster stays stopped.
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
            Self::Partitioned => {
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
