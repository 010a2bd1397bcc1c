//! Long-running processes: nodes and membership services of a user, and those that benches start.

use std::io;
use std::path::PathBuf;

use clap::Args;
use weft_cluster::{NodeConfig, ServiceConfig};
use weft_net::Stop;
use weft_node::Registry;

use crate::failure::{Failure, Verdict};

/// What a process is told.
#[derive(Clone, Debug, Args)]
pub(crate) struct Configured {
    /// What to be
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

impl Configured {
    /// `weft start`: a node, until SIGINT or SIGTERM.
    pub(crate) fn run_node(self) -> Result<Verdict, Failure> {
        let config = NodeConfig::load(&self.config)?;
        let registered = |transactions| crate::txn::registered(transactions, config.peers.len());
        let application = config.transactions.as_ref().map(registered).transpose()?;
        let mut registry = Registry::new();
        if let Some(application) = &application {
            registry = registry.with_application(&**application);
        }
        weft_net::run_node(&config, &registry, Stop::on_signals()?, &mut io::stdout())?;
        Ok(Verdict::Good)
    }

    /// `weft membership`: a membership service, until SIGINT or SIGTERM.
    pub(crate) fn run_membership(self) -> Result<Verdict, Failure> {
        let config = ServiceConfig::load(&self.config)?;
        weft_net::run_membership(&config, Stop::on_signals()?, &mut io::stdout())?;
        Ok(Verdict::Good)
    }

    /// The clients of `weft bench kv --world net`.
    pub(crate) fn run_client(self) -> Result<Verdict, Failure> {
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
