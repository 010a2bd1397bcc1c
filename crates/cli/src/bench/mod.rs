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
    /// Load all engines of a running cluster at once and check the histories; you may kill nodes meanwhile
    Cluster(Reported<cluster::ClusterOptions>),
    /// Compare engines under the same network, profile, load and faults: throughput and latency over the number of
    /// clients
    Compare(Reported<compare::CompareOptions>),
    /// Measure RDMA into memory that a GPU reads; a GPU kernel checks that data arrive before their completion
    Cuda(Reported<cuda::CudaOptions>),
    /// Measure the replicated key-value store under a workload, and check the history
    Kv(Reported<kv::KvArguments>),
    /// Measure locks with fencing tokens: acquire, renew, release; mutual exclusion is checked
    Lock(Reported<OnNodes<lock::LockOptions>>),
    /// Repeat the measurements of the NIC-KV paper on the gateware's key-value engine, compared with the paper
    NicKv(Reported<nic_kv::NicKvArguments>),
    /// Measure one RDMA operation between a client and a server, compared with the limit of the link or the machine
    Rdma(Reported<rdma::RdmaArguments>),
    /// Measure replicated data types under their workloads, checked after every step
    Rdt(Reported<rdt::RdtOptions>),
    /// Measure what the crash of a replica of a data type costs, and the fail-over of its leader
    RdtCrash(Reported<rdt_crash::RdtCrashOptions>),
    /// Measure replicated objects split between NIC memory and host memory
    RdtHybrid(Reported<rdt_hybrid::RdtHybridOptions>),
    /// Measure consensus in synchronous rounds: lowest stable period, latency and throughput
    Rounds(Reported<rounds::RoundsArguments>),
    /// Measure a processing stage in a NIC's receive path: its throughput, and the correctness of its output
    Service(Reported<service::ServiceOptions>),
    /// Measure the replicated log (Mu, by one-sided WRITEs): appends, fail-over, permission switch
    Smr(Reported<smr::SmrOptions>),
    /// Count the objects that a lookup reads, and its round trips, in the transaction store and other hash tables
    Store(Reported<store::StoreOptions>),
    /// Measure distributed transactions, with engines on SmartNICs or hosts, checked for strict serializability
    Txn(Reported<txn::TxnOptions>),
    /// Measure what each part of the transaction engine's design adds (ablation; figure 9 of the Xenic paper)
    TxnSteps(Reported<txn_steps::StepsOptions>),
    /// Find the fewest host threads and NIC cores for 95 % of the peak throughput (table 3 of the Xenic paper)
    TxnThreads(Reported<txn_threads::ThreadsOptions>),
    /// Measure transactions between real processes on this machine, checked; --kill kills and restarts a node
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
