//! Features of the design that a measurement may disable.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A part of the design that a measurement may leave out, to see what it is good for (Xenic section 5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Without {
    /// Transactions of one shard, or the own and another, run at the other's primary.
    MultiHop,
    /// Procedures run on cards.
    CardExecution,
    /// Hosts execute by themselves what stays on them and is of their own shards.
    HostExecution,
    /// A key is read and locked by one request. Nothing runs at another primary without it.
    CombinedRequests,
    /// Replicas get the difference of a value, where that is shorter.
    LogDifferences,
    /// A coordinator looks first whether its own keys are locked, and reads last those that it only reads.
    OwnKeysOrder,
    /// Messages share frames, and packets between card and host.
    Aggregation,
    /// Copies between card and host are handed over in vectors.
    DmaVectors,
    /// A core goes on with other work while a copy is under way. Who waits for a copy hands over no other one with it.
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
