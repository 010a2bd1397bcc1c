//! Features of the design that a measurement may disable.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A feature of the design that a measurement can disable, to measure its effect (Xenic section 5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Without {
    /// Multi-hop: a transaction runs at a remote primary if its keys are in one remote shard, or in this and
    /// one remote shard.
    MultiHop,
    /// Cards run procedures.
    CardExecution,
    /// Hosts execute transactions themselves if all keys are in their own shard.
    HostExecution,
    /// One request both reads and locks a key. Multi-hop requires this feature.
    CombinedRequests,
    /// Replicas receive only the difference to the old value, if the difference is shorter than the new
    /// value.
    LogDifferences,
    /// A coordinator first checks the locks of the keys in its own shard, and reads the keys that it only
    /// reads last.
    OwnKeysOrder,
    /// Several messages are sent in one network frame, and in one packet between card and host.
    Aggregation,
    /// Copies between card and host are submitted in vectors.
    DmaVectors,
    /// A core continues with other work during a copy. If this is disabled, each vector has one copy.
    AsynchronousDma,
}

impl Without {
    /// All features.
    pub const ALL: [Self; 9] = [
        Self::MultiHop,
        Self::CardExecution,
        Self::HostExecution,
        Self::CombinedRequests,
        Self::LogDifferences,
        Self::OwnKeysOrder,
        Self::Aggregation,
        Self::DmaVectors,
        Self::AsynchronousDma,
    ];

    /// Name of the feature.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MultiHop => "multi-hop",
            Self::CardExecution => "card-execution",
            Self::HostExecution => "host-execution",
            Self::CombinedRequests => "combined-requests",
            Self::LogDifferences => "log-differences",
            Self::OwnKeysOrder => "own-keys-order",
            Self::Aggregation => "aggregation",
            Self::DmaVectors => "dma-vectors",
            Self::AsynchronousDma => "asynchronous-dma",
        }
    }
}

impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Without {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no part `{text}` to leave out; choose {names}")
        })
    }
}
