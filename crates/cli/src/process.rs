//! Long-running processes: nodes and membership services of a user, and those that benches start.

use std::io;
use std::path::PathBuf;

use clap::Args;
use weft_cluster::{ClusterConfig, EngineConfig, NodeConfig, ObjectConfig};
use weft_net::Stop;
use weft_net::transactions::run_transactions;
use weft_waist::{NODES_MAX, NodeId};

use crate::failure::{Failure, Verdict};

/// The name of a cluster's configuration unless told.
pub(crate) const CONFIG: &str = "weft.toml";

/// Which node to be.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArguments {
    /// The configuration of the cluster, the same for all of its nodes
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// Which node to be: 0 is the first one of the configuration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..NODES_MAX as i64))]
    node: u16,
}

impl NodeArguments {
    /// `weft start`: a node, until SIGINT or SIGTERM.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let cluster = ClusterConfig::load(&self.config)?;
        let node = NodeId::new(self.node.into()).expect("the parser knows how many nodes there may be");
        let config = cluster.node(node).map_err(|error| Failure::at(&self.config, error))?;
        check_types(&config).map_err(|reason| Failure::at(&self.config, reason))?;
        let mut out = io::stdout();
        let served = served(&config).map_err(|reason| Failure::at(&self.config, reason))?;
        for engine in config.engines.slots().iter().filter(|engine| **engine != served) {
            eprintln!("weft: {}: {engine} is not served by nodes yet", self.config.display());
        }
        match served {
            EngineConfig::Transactions(transactions) => {
                let application = crate::txn::registered(transactions, config.peers.len())?;
                run_transactions(&config, &*application, Stop::on_signals()?, &mut out)?;
            }
            _ => weft_net::run_node(&config, Stop::on_signals()?, &mut out)?,
        }
        Ok(Verdict::Good)
    }
}

/// Whether the data types of all objects exist.
fn check_types(config: &NodeConfig) -> Result<(), String> {
    let is_unknown = |object: &&ObjectConfig| weft_rdt::types::by_name(&object.data_type).is_none();
    config.engines.objects.iter().find(is_unknown).map_or(Ok(()), |object| {
        let (name, data_type, known) = (&object.name, &object.data_type, weft_rdt::types::NAMES.join(", "));
        Err(format!("[[object]] {name}: there is no data type `{data_type}`; the types are {known}"))
    })
}

/// The engine that a node runs: until it has room for several, one of the first two kinds.
fn served(config: &NodeConfig) -> Result<EngineConfig<'_>, &'static str> {
    match (&config.engines.kv, &config.engines.transactions) {
        (Some(kv), None) => Ok(EngineConfig::Kv(kv)),
        (None, Some(transactions)) => Ok(EngineConfig::Transactions(transactions)),
        (Some(_), Some(_)) => {
            Err("[kv] and [transactions] are not served together yet; give each a file of its own")
        }
        (None, None) => {
            Err("nodes serve [kv] and [transactions] only, as yet; add one of them, or use the simulator")
        }
    }
}

/// Whose membership service to be.
#[derive(Clone, Debug, Args)]
pub(crate) struct MembershipArguments {
    /// The configuration of the cluster, the same as for its nodes
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
}

impl MembershipArguments {
    /// `weft membership`: a membership service, until SIGINT or SIGTERM.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let config = ClusterConfig::load(&self.config)?;
        if let Some(node) = config.membership.node {
            return Err(Failure::at(
                &self.config,
                format_args!(
                    "[membership] node = {0}: the process of node {0} runs the service; remove the line to run it alone",
                    node.index()
                ),
            ));
        }
        weft_net::run_membership(&config.service(), Stop::on_signals()?, &mut io::stdout())?;
        Ok(Verdict::Good)
    }
}

/// What the clients of a bench are told.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientArguments {
    /// What to do
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

impl ClientArguments {
    /// The clients of `weft bench kv --world net`.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        weft_bench::kv::real::client_main(&self.config)?;
        Ok(Verdict::Good)
    }
}

/// What a bench tells a process that it starts.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    arguments: Vec<String>,
}

impl Arguments {
    /// The server of `weft bench rdma --world net`.
    pub(crate) fn run_rdma_server(self) -> Result<Verdict, Failure> {
        weft_bench::rdma::child_main(&self.arguments)?;
        Ok(Verdict::Good)
    }
}
