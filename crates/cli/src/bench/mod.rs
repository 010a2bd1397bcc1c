//! `weft bench`: runs one measurement.

mod cluster;
mod compare;
mod cuda;
pub(crate) mod kv;
mod lock;
mod nic_kv;
pub(crate) mod node_nic;
mod on_nodes;
mod rdma;
mod rdt;
mod rdt_crash;
mod rdt_hybrid;
mod rounds;
mod service;
mod smr;
mod store;
mod txn;
mod txn_net;
mod txn_servers;
mod txn_steps;
mod txn_threads;

use clap::Subcommand;

use self::on_nodes::OnNodes;
use crate::failure::{Failure, Verdict};
use crate::task::Reported;

/// Subject of the benchmark.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Load all engines of a running cluster at once and check the histories; nodes may be killed meanwhile
    Cluster(Reported<cluster::ClusterOptions>),
    /// Engines side by side under one network, profile, load and fault plan: curves over the number of clients
    Compare(Reported<compare::CompareOptions>),
    /// RDMA into memory that a GPU reads, beside host memory; a kernel checks that data precede completions
    Cuda(Reported<cuda::CudaOptions>),
    /// Replicated key-value store under a workload, with a checked history
    Kv(Reported<kv::KvArguments>),
    /// Locks with fencing tokens: acquire, renew, release, checked
    Lock(Reported<OnNodes<lock::LockOptions>>),
    /// NIC-KV's measurements on the key-value engine in gates, beside the published figures
    NicKv(Reported<nic_kv::NicKvArguments>),
    /// One RDMA verb between a client and a server, beside the limit of the link or the machine
    Rdma(Reported<rdma::RdmaArguments>),
    /// Replicated data types under their workloads, checked after every step
    Rdt(Reported<rdt::RdtOptions>),
    /// Cost of the crash of a replica of a data type, and fail-over of its leader
    RdtCrash(Reported<rdt_crash::RdtCrashOptions>),
    /// Replicated objects split between the card's and the host's memory, over access share and skew
    RdtHybrid(Reported<rdt_hybrid::RdtHybridOptions>),
    /// Consensus in synchronous rounds: lowest stable period, latency and throughput
    Rounds(Reported<rounds::RoundsArguments>),
    /// A service on the path of a card: what it costs, and whether what it leaves in memory is right
    Service(Reported<service::ServiceOptions>),
    /// Replicated log of one-sided writes (Mu): appends, fail-over, permission switch
    Smr(Reported<smr::SmrOptions>),
    /// Objects and roundtrips per lookup of the transaction store, beside other tables (Xenic, table 2)
    Store(Reported<store::StoreOptions>),
    /// Distributed transactions, with engines on SmartNICs or hosts, checked for strict serializability
    Txn(Reported<txn::TxnOptions>),
    /// Ablation of the transaction engine's design (Xenic's figure 9), beside the published figures
    TxnSteps(Reported<txn_steps::StepsOptions>),
    /// Fewest threads and cores for 95 % of the peak (Xenic's table 3), beside the published figures
    TxnThreads(Reported<txn_threads::ThreadsOptions>),
    /// Transactions over real processes on this machine, checked; a node may be killed and restarted
    TxnNet(Reported<txn_net::TxnNetOptions>),
}

impl Bench {
    /// Runs the measurement.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Cluster(arguments) => arguments.run(),
            Self::Compare(arguments) => arguments.run(),
            Self::Cuda(arguments) => arguments.run(),
            Self::Kv(arguments) => arguments.run(),
            Self::Lock(arguments) => arguments.run(),
            Self::NicKv(arguments) => arguments.run(),
            Self::Rdma(arguments) => arguments.run(),
            Self::Rdt(arguments) => arguments.run(),
            Self::RdtCrash(arguments) => arguments.run(),
            Self::RdtHybrid(arguments) => arguments.run(),
            Self::Rounds(arguments) => arguments.run(),
            Self::Service(arguments) => arguments.run(),
            Self::Smr(arguments) => arguments.run(),
            Self::Store(arguments) => arguments.run(),
            Self::Txn(arguments) => arguments.run(),
            Self::TxnSteps(arguments) => arguments.run(),
            Self::TxnThreads(arguments) => arguments.run(),
            Self::TxnNet(arguments) => arguments.run(),
        }
    }
}
