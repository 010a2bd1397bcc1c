//! `weft bench`: one measurement.

mod cluster;
pub(crate) mod kv;
mod nic_kv;
pub(crate) mod node_nic;
mod rdma;
mod rdt;
mod rdt_crash;
mod rdt_hybrid;
mod rounds;
mod smr;
mod store;
mod txn;
mod txn_net;
mod txn_servers;
mod txn_steps;
mod txn_threads;

use clap::Subcommand;

use crate::failure::{Failure, Verdict};
use crate::task::Reported;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// All engines of a running cluster under load at once, with checked histories; nodes may be killed meanwhile
    Cluster(Reported<cluster::ClusterOptions>),
    /// The replicated key-value store under a workload, with a checked history
    Kv(kv::KvArguments),
    /// NIC-KV's measurements again, on the key-value engine in gates, beside the paper's figures
    NicKv(nic_kv::NicKvArguments),
    /// One verb of RDMA between a client and a server, beside what the link or the machine allows
    Rdma(rdma::RdmaArguments),
    /// Replicated data types under their workloads, with every step checked
    Rdt(Reported<rdt::RdtOptions>),
    /// The crash of one replica of a data type: what it costs, and how another one leads
    RdtCrash(Reported<rdt_crash::RdtCrashOptions>),
    /// Records or accounts on the card and in the host's memory, over the share of accesses, skew and folded updates
    RdtHybrid(Reported<rdt_hybrid::RdtHybridOptions>),
    /// Synchronous rounds and their consensus: the lowest stable period, and what is decided
    Rounds(Reported<rounds::RoundsArguments>),
    /// Appends to the replicated log of one-sided writes (Mu), and how soon another node leads
    Smr(Reported<smr::SmrOptions>),
    /// What a lookup reads over the bus: the table of the transactions' objects and its index on the card, beside others
    Store(Reported<store::StoreOptions>),
    /// Distributed transactions, with engines on SmartNICs or on hosts, checked for strict serializability
    Txn(Reported<txn::TxnOptions>),
    /// What each part of the design of transactions adds (Xenic's figure 9), beside the published figures
    TxnSteps(Reported<txn_steps::StepsOptions>),
    /// How few threads and cores do as many transactions as all (Xenic's table 3), beside the published figures
    TxnThreads(Reported<txn_threads::ThreadsOptions>),
    /// Transactions across real processes on this machine, checked; one may be killed and come back
    TxnNet(Reported<txn_net::TxnNetOptions>),
}

impl Bench {
    /// Measures it.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Cluster(arguments) => arguments.run(),
            Self::Kv(arguments) => arguments.run(),
            Self::NicKv(arguments) => arguments.run(),
            Self::Rdma(arguments) => arguments.run(),
            Self::Rdt(arguments) => arguments.run(),
            Self::RdtCrash(arguments) => arguments.run(),
            Self::RdtHybrid(arguments) => arguments.run(),
            Self::Rounds(arguments) => arguments.run(),
            Self::Smr(arguments) => arguments.run(),
            Self::Store(arguments) => arguments.run(),
            Self::Txn(arguments) => arguments.run(),
            Self::TxnSteps(arguments) => arguments.run(),
            Self::TxnThreads(arguments) => arguments.run(),
            Self::TxnNet(arguments) => arguments.run(),
        }
    }
}
