//! Long-running processes: nodes and membership services that a user starts, and processes that a node or a benchmark
//! starts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, io};

use clap::Args;
use weft_cluster::{ClusterConfig, NodeConfig};
use weft_net::log::{self, LogFormat, LogLevel};
use weft_net::{ExitWatch, Stop};
use weft_node::Registry;
use weft_waist::{NODES_MAX, NodeId};

use crate::client::CONFIG;
use crate::failure::{Failure, Verdict};

/// The subcommand of a node's watcher.
pub(crate) const WATCHER_COMMAND: &str = "watch-exit";

/// Level and format of the log.
#[derive(Clone, Copy, Debug, Args)]
struct LogOptions {
    /// Lowest severity to log: error, warn, info, debug, trace, or off for none
    #[arg(long, value_name = "LEVEL", env = log::LEVEL_VARIABLE, default_value = "info", value_parser = parse_level)]
    log_level: LogLevel,
    /// Format of log lines on standard output: text or json
    #[arg(long = "log", value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

fn parse_level(name: &str) -> Result<LogLevel, String> {
    name.parse().map_err(|_| "choose error, warn, info, debug, trace or off".to_owned())
}

impl LogOptions {
    /// Sends the log of this process to standard output.
    fn install(self) {
        let subscriber = log::subscriber(self.log_format, self.log_level, io::stdout);
        // This fails only if a log was set up before; the command runs one node or one service, and sets up
        // the log once.
        let _ = tracing::subscriber::set_global_default(subscriber);
    }
}

/// A node of a cluster.
#[derive(Clone, Debug, Args)]
struct NodeChoice {
    /// Configuration file of the cluster, the same for all nodes
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// Index of this node among the `[[node]]` sections, from 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..NODES_MAX as i64))]
    node: u16,
}

impl NodeChoice {
    fn load(&self) -> Result<NodeConfig, Failure> {
        let cluster = ClusterConfig::load(&self.config)?;
        let node = NodeId::new(self.node.into()).expect("the parser knows how many nodes there may be");
        cluster.node(node).map_err(|error| Failure::at(&self.config, error))
    }
}

/// The node to run.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArguments {
    #[command(flatten)]
    choice: NodeChoice,
    #[command(flatten)]
    log: LogOptions,
}

impl NodeArguments {
    /// Runs a node, until SIGINT or SIGTERM (`weft start`).
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let config = self.choice.load()?;
        let registered = |transactions| crate::txn::registered(transactions, config.peers.len());
        let application = config.engines.transactions.as_ref().map(registered).transpose()?;
        let mut registry = Registry::new();
        if let Some(application) = &application {
            registry = registry.with_application(&**application);
        }
        self.log.install();
        let stop = Stop::on_signals()?;
        let watch = ExitWatch::is_for(&config).then(|| start_watcher(&self.choice.config, config.node));
        let watch = watch.transpose().unwrap_or_else(|error| {
            let node = config.node.index();
            tracing::warn!(
                node,
                "node {node} has no watcher ({error}): if it is killed, the others wait for its lease to end"
            );
            None
        });
        weft_net::run_watched_node(&config, &registry, stop, watch)?;
        Ok(Verdict::Good)
    }
}

/// Starts the process that notifies the membership service if this one is killed.
fn start_watcher(config: &Path, node: NodeId) -> io::Result<ExitWatch> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(WATCHER_COMMAND).arg("--config").arg(config).args(["--node", &node.index().to_string()]);
    // It outlives this process by some milliseconds, so it has none of this one's output.
    let mut watcher = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(ExitWatch::new(watcher.stdin.take().expect("it was piped")))
}

/// The node to watch.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatcherArguments {
    #[command(flatten)]
    choice: NodeChoice,
}

impl WatcherArguments {
    /// Waits until the process at the other end of standard input has ended.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let config = self.choice.load()?;
        // A signal for both processes must not end this one before it knows how the node has ended.
        Stop::on_signals()?;
        weft_net::watch_exit(&config, io::stdin().lock())?;
        Ok(Verdict::Good)
    }
}

/// The cluster whose membership service to run.
#[derive(Clone, Debug, Args)]
pub(crate) struct MembershipArguments {
    /// Configuration file of the cluster, the same as that of its nodes
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    #[command(flatten)]
    log: LogOptions,
}

impl MembershipArguments {
    /// Runs a membership service, until SIGINT or SIGTERM (`weft membership`).
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let config = ClusterConfig::load(&self.config)?;
        if !config.membership.coordinators.is_empty() {
            let reason =
                "[membership] coordinators: every node is a keeper of the service; weft start runs both";
            return Err(Failure::at(&self.config, reason));
        }
        if let Some(node) = config.membership.node {
            return Err(Failure::at(
                &self.config,
                format_args!(
                    "[membership] node = {0}: the process of node {0} runs the service; remove the line to run it alone",
                    node.index()
                ),
            ));
        }
        self.log.install();
        weft_net::run_membership(&config.service(), Stop::on_signals()?)?;
        Ok(Verdict::Good)
    }
}

/// Parameters of a benchmark's clients.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientArguments {
    /// File that says what the clients do
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

impl ClientArguments {
    /// Runs the clients of `weft bench kv --world net`.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        weft_processes::kv::client_main(&self.config)?;
        Ok(Verdict::Good)
    }
}

/// Parameters of a process that a benchmark starts.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    arguments: Vec<String>,
}

impl Arguments {
    /// Runs the server of `weft bench rdma --world net`.
    pub(crate) fn run_rdma_server(self) -> Result<Verdict, Failure> {
        weft_perftest::child_main(&self.arguments)?;
        Ok(Verdict::Good)
    }
}
