//! The engines that can be compared, and the conditions under which a comparison is fair.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use weft_harness::{AnyContender, Campaign};
use weft_sim::{CostProfile, PlanError};

use super::lock::LockContender;
use super::log::CONTENT_BYTES_MAX;
use super::transactions::{REPLICAS, TransactionsContender};
use super::{CompareBench, LogContender, ObjectContender, RoundsContender, StoreContender};

/// Bytes of a value in fault campaigns, where an engine has values.
pub const CAMPAIGN_VALUE_BYTES: usize = 64;

/// An engine of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineName {
    /// The key-value store (NIC-KV).
    Kv,
    /// The replicated log (Mu).
    Smr,
    /// A replicated data type (SafarDB).
    Rdt,
    /// Transactions (Xenic).
    Txn,
    /// Locks, the worked example.
    Lock,
    /// Consensus in rounds. It can be in campaigns, not in comparisons.
    Rounds,
}

/// The feature that an engine lacks for a run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{engine} {lacks}; {remedy}")]
pub struct Unfit {
    engine: EngineName,
    lacks: String,
    /// Advice for another choice of options.
    remedy: String,
}

/// Reason for refusing a comparison.
#[derive(Debug, Error)]
pub enum CompareError {
    /// An engine lacks a feature that an option requires, so it would not do the same work as the others.
    #[error("{0}, or leave {engine} out of --engines", engine = .0.engine)]
    OtherBasis(#[from] Unfit),
    /// The fault plan does not fit the cluster.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl EngineName {
    /// All engines, in the order of the documentation.
    pub const ALL: [Self; 6] = [Self::Kv, Self::Smr, Self::Rdt, Self::Txn, Self::Lock, Self::Rounds];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::Smr => "smr",
            Self::Rdt => "rdt",
            Self::Txn => "txn",
            Self::Lock => "lock",
            Self::Rounds => "rounds",
        }
    }

    /// Description of the engine's update.
    pub(super) fn update(self, value_bytes: usize) -> String {
        match self {
            Self::Kv => format!("put of {value_bytes} bytes"),
            Self::Smr => format!("append of {value_bytes} bytes"),
            Self::Rdt => "increment of a pn-counter".to_owned(),
            Self::Txn => "deposit on an account".to_owned(),
            Self::Lock => "acquire or release".to_owned(),
            Self::Rounds => format!("proposal of {value_bytes} bytes"),
        }
    }

    /// Replicas that have an update when it is answered.
    pub(super) const fn acknowledged(self) -> &'static str {
        match self {
            Self::Kv | Self::Txn | Self::Lock => "every live replica",
            Self::Smr | Self::Rdt | Self::Rounds => "a majority",
        }
    }

    /// Consistency of a read. `None`: the engine has no comparable reads.
    pub(super) const fn reads(self) -> Option<&'static str> {
        match self {
            Self::Kv => Some("linearizable, any replica"),
            Self::Smr | Self::Rounds => None,
            Self::Rdt => Some("the replica's own state"),
            Self::Txn => Some("serializable"),
            Self::Lock => Some("linearizable, the leader"),
        }
    }

    /// Whether the engine's calls carry a value of a chosen size.
    const fn has_values(self) -> bool {
        matches!(self, Self::Kv | Self::Smr | Self::Rounds)
    }

    const fn nodes_max(self) -> usize {
        match self {
            Self::Kv | Self::Txn | Self::Lock => weft_waist::NODES_MAX,
            Self::Smr | Self::Rdt => weft_smr::NODES_MAX,
            Self::Rounds => weft_rounds::MEMBERS_MAX,
        }
    }

    pub(super) fn unfit(self, lacks: String, remedy: impl Into<String>) -> Result<(), Unfit> {
        Err(Unfit { engine: self, lacks, remedy: remedy.into() })
    }

    /// Rejects a cluster in which the engine cannot run.
    pub(super) fn check(self, nodes: usize, profile: &CostProfile) -> Result<(), Unfit> {
        if nodes > self.nodes_max() {
            return self.unfit(format!("has at most {} nodes", self.nodes_max()), "give fewer --nodes");
        }
        if self == Self::Txn && profile.dma.is_none() {
            let lacks =
                format!("copies from its host's memory, and profile {} has no queues for that", profile.name);
            return self.unfit(lacks, "give --profile cores");
        }
        Ok(())
    }

    /// Rejects runs in which no fault campaign of the engine's clients is possible.
    ///
    /// # Errors
    /// The engine does not fit such a cluster, or may not survive such faults.
    pub fn check_campaign(self, runs: &Campaign, profile: &CostProfile) -> Result<(), Unfit> {
        // With more nodes than replicas, crashes that the campaign allows could lose a shard.
        if self == Self::Txn && runs.nodes > REPLICAS {
            return self.unfit(format!("has {REPLICAS} replicas here"), "give fewer --nodes");
        }
        if self == Self::Rounds && runs.plan.is_some() {
            let lacks = "stop for good if half of the nodes fail at once, which a plan may do".to_owned();
            return self.unfit(lacks, "give kinds of faults, which strike a minority");
        }
        self.check(runs.nodes, profile)
    }

    /// The engine with its clients. `value_bytes` is the size of a value, for engines that have values.
    pub fn contender(self, value_bytes: usize) -> Box<dyn AnyContender> {
        match self {
            Self::Kv => Box::new(StoreContender { value_bytes }),
            Self::Smr => Box::new(LogContender { value_bytes }),
            Self::Rdt => Box::new(ObjectContender),
            Self::Txn => Box::new(TransactionsContender),
            Self::Lock => Box::new(LockContender),
            Self::Rounds => Box::new(RoundsContender::new(value_bytes)),
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "nic-kv" => {
                Err("nic-kv is the store in gates, whose times are cycles and not those of a cost profile; \
                 choose kv, the same protocol in software, or `weft bench nic-kv`"
                    .to_owned())
            }
            _ => Self::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("there is no engine `{text}`; the engines are {names}")
            }),
        }
    }
}

impl CompareBench {
    /// Rejects engines that would not do the same work as the others under these options.
    pub(super) fn check(&self) -> Result<(), Unfit> {
        for (number, &engine) in self.engines.iter().enumerate() {
            if self.engines[..number].contains(&engine) {
                return engine.unfit("is named twice".to_owned(), "name it once");
            }
            if engine == EngineName::Rounds {
                let lacks = "decide at the pace of their period, whatever the load".to_owned();
                return engine.unfit(lacks, "measure the shortest one with `weft bench rounds`");
            }
            if self.updates < 100 && engine.reads().is_none() {
                let lacks = "has no reads that see every update".to_owned();
                return engine.unfit(lacks, "give --updates 100");
            }
            if self.has_value_bytes && !engine.has_values() {
                let lacks = "has calls without a value of a chosen size".to_owned();
                return engine.unfit(lacks, "give no --value-bytes");
            }
            if engine == EngineName::Smr && self.value_bytes > CONTENT_BYTES_MAX {
                let lacks = format!("has entries of at most {CONTENT_BYTES_MAX} bytes");
                return engine.unfit(lacks, "give a smaller --value-bytes");
            }
            engine.check(self.contest.nodes, &self.contest.profile)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weft_harness::{Contest, Load};
    use weft_sim::NetworkProfile;
    use weft_time::Duration;

    use super::*;

    #[test]
    fn a_measurement_in_which_no_call_is_answered_is_a_violation() {
        // Behind this card no leader is elected in time.
        let contest =
            Contest { profile: CostProfile::HOST_CARD, ..Contest::new(3, Duration::from_us(500), 7) };
        let load = Load { clients: 1, updates: 100 };
        let standing = contest.run(&LogContender { value_bytes: 8 }, load).unwrap();
        assert_eq!((standing.checked, standing.throughput_ops_per_s), ("violation", 0.0));
        assert!(standing.violations.iter().any(|it| it.contains("no call was answered")), "{standing:?}");
    }

    #[test]
    fn clients_that_ship_are_told_the_truth_whatever_fails() {
        for (engine, seed) in
            [(EngineName::Smr, 1), (EngineName::Rdt, 2), (EngineName::Lock, 2), (EngineName::Rounds, 1)]
        {
            let (runs, ground) = (Campaign::new(3, seed..=seed), (NetworkProfile::SWITCH, CostProfile::FPGA));
            engine.check_campaign(&runs, &ground.1).unwrap();
            let contender = engine.contender(CAMPAIGN_VALUE_BYTES);
            let result = contender.campaign(&runs, ground, &|seed| seed.to_string(), &mut |_| {}).unwrap();
            assert_eq!(result.findings.violations, [], "{engine}");
            assert!(
                result.figures.counts["operations"] > 500 && result.faults["crash"] > 0,
                "{engine}: {result:?}"
            );
        }
    }
}
