//! `weft sim`: fault campaigns.

mod clients;
mod findings;
mod kv;
mod lock;
mod merge;
mod nodes;
mod rdt;
mod rounds;
mod seeds;
mod smr;
mod txn;

use clap::Subcommand;

use self::nodes::OnNodes;
use crate::failure::{Failure, Verdict};
use crate::task::Reported;

/// Engine under test.
#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// The clients that ship, at any engine
    Clients(Reported<OnNodes<clients::ClientsOptions>>),
    /// Replicated key-value store
    Kv(Reported<kv::KvCampaign>),
    /// Locks with fencing tokens: the worked example of an engine
    Lock(Reported<OnNodes<lock::LockOptions>>),
    /// Replicated data types
    Rdt(Reported<rdt::RdtCampaign>),
    /// Consensus in synchronous rounds
    Rounds(Reported<rounds::RoundsCampaign>),
    /// Replicated log of one-sided writes (Mu)
    Smr(Reported<smr::SmrCampaign>),
    /// Distributed transactions
    Txn(Reported<txn::TxnCampaign>),
    /// Join the results of a campaign's slices
    Merge(Reported<merge::Merge>),
}

impl Sim {
    /// Runs the campaign.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Clients(campaign) => campaign.run(),
            Self::Kv(campaign) => campaign.run(),
            Self::Lock(campaign) => campaign.run(),
            Self::Rdt(campaign) => campaign.run(),
            Self::Rounds(campaign) => campaign.run(),
            Self::Smr(campaign) => campaign.run(),
            Self::Txn(campaign) => campaign.run(),
            Self::Merge(merge) => merge.run(),
        }
    }
}
