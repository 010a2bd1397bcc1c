//! `weft sim`: fault campaigns.

mod campaign;
mod clients;
mod faults;
mod kv;
mod lock;
mod merge;
mod rdt;
mod rounds;
mod seeds;
mod smr;
mod txn;

use clap::Subcommand;

use self::campaign::FaultCampaign;
use crate::failure::{Failure, Verdict};
use crate::task::Reported;

/// Engine under test.
#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Run the shipped client library against an engine
    Clients(Reported<FaultCampaign<clients::ClientsOptions>>),
    /// Run the key-value store
    Kv(Reported<FaultCampaign<kv::KvOptions>>),
    /// Run locks with fencing tokens
    Lock(Reported<FaultCampaign<lock::LockOptions>>),
    /// Run the replicated data types
    Rdt(Reported<FaultCampaign<rdt::RdtOptions>>),
    /// Run consensus in synchronous rounds
    Rounds(Reported<FaultCampaign<rounds::RoundsOptions>>),
    /// Run the replicated log (Mu)
    Smr(Reported<FaultCampaign<smr::SmrOptions>>),
    /// Run distributed transactions
    Txn(Reported<FaultCampaign<txn::TxnOptions>>),
    /// Join the results of runs that --slice spread over several machines
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
