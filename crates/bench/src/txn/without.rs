//! Features of the design that a measurement may disable.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A part of the design that a measurement may disable, to measure its effect (Xenic section 5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Without {
    /// Multi-hop: transactions with keys of one remote shard, or of this and one remote shard, run at the
    /// remote primary.
    MultiHop,
    /// Procedures run on cards.
    CardExecution,
    /// Hosts execute transactions themselves that have only keys of their own shard.
    HostExecution,
    /// One request reads and locks a key. Multi-hop requires it.
    CombinedRequests,
    /// Replicas get the difference to the old value if that is shorter.
    LogDifferences,
    /// A coordinator checks the locks of its own keys first, and reads the keys that it only reads last.
    OwnKeysOrder,
    /// Several messages share a frame, and a packet between card and host.
    Aggregation,
    /// Copies between card and host are submitted in vectors.
    DmaVectors,
    /// A core continues with other work during a copy. Without this, vectors have one copy.
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
