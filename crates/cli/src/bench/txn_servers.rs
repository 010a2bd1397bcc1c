//! Options for servers, which all measurements of transactions share.

use clap::Args;
use weft_applications::{WorkloadChoice, check_loads};
use weft_bench::txn::{System, TxnBench};
use weft_sim::{CostProfile, NetworkProfile};

use crate::failure::Failure;
use crate::ground::{Ground, NETWORKS, Offers};
use crate::replay::CommandLine;
use crate::{memory, parse};

const NODES: usize = 6;
const REPLICATION: usize = 3;
/// The most accounts or keys of a server with `--quick`.
pub(super) const QUICK_SIZE: u64 = 2_000;
const LINK_GB_PER_S: u64 = 100;

/// The environment of measurements of transactions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServersGround;

impl Offers for ServersGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
    /// SmartNICs whose engines copy data from and to their hosts' memory.
    const PROFILES: &'static [CostProfile] = &[CostProfile::CORES_ALL, CostProfile::CORES];
}

/// The environment of measurements of one system, with a fault plan.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FaultyServersGround;

impl Offers for FaultyServersGround {
    const NETWORKS: &'static [NetworkProfile] = ServersGround::NETWORKS;
    const PROFILES: &'static [CostProfile] = ServersGround::PROFILES;
    const FAULTS: Option<&'static str> = Some(
        "Its times count from the start of the servers. Faults of links and pauses only: no server may crash",
    );
}

/// The cluster, and how it is looked at.
#[derive(Clone, Debug, PartialEq, Args)]
pub(super) struct Servers<O: Offers = ServersGround> {
    /// Number of servers, 1 to 16
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::nodes)]
    nodes: usize,
    /// Replicas of each shard, the primary included, 1 to the number of servers
    #[arg(long, value_name = "N", default_value_t = REPLICATION, value_parser = parse::positive)]
    replication: usize,
    /// Link rate of each server in Gb/s
    #[arg(long, value_name = "N", default_value_t = LINK_GB_PER_S, value_parser = clap::value_parser!(u64).range(1..=800))]
    link: u64,
    /// Skip the check for strict serializability, which takes half of the run time
    #[arg(long)]
    unchecked: bool,
    #[command(flatten)]
    pub(super) ground: Ground<O>,
}

impl<O: Offers> Servers<O> {
    /// A measurement of these servers, with all parts of the design of `weft`.
    pub(super) fn bench(
        &self,
        workload: WorkloadChoice,
        transactions: u64,
        outstanding: Vec<usize>,
    ) -> Result<TxnBench, Failure> {
        let (nodes, replication) = (self.nodes, self.replication);
        if replication > nodes {
            return Err(Failure::new(format!(
                "{nodes} servers cannot hold {replication} replicas of a shard; choose --replication 1 to {nodes}"
            )));
        }
        let bench = TxnBench {
            workload,
            system: System::Weft,
            nodes,
            replication,
            transactions,
            outstanding,
            host_threads: None,
            nic_cores: None,
            profile: self.ground.profile(),
            network: self.ground.network(),
            link_bits_per_s: self.link * 1_000_000_000,
            without: Vec::new(),
            checks: !self.unchecked,
            seed: self.ground.seed,
        };
        check_memory(&bench, memory::available())?;
        Ok(bench)
    }

    /// Adds the options with which a command repeats this choice.
    pub(super) fn replay(&self, line: CommandLine) -> CommandLine {
        let line = line
            .unless(NODES, "--nodes", self.nodes)
            .unless(REPLICATION, "--replication", self.replication)
            .unless(LINK_GB_PER_S, "--link", self.link)
            .flag("--unchecked", self.unchecked);
        self.ground.add_to(line)
    }
}

/// Rejects objects that do not fit into this machine's memory.
fn check_memory(bench: &TxnBench, available: Option<u64>) -> Result<(), Failure> {
    let needed = bench.objects_bytes();
    match available {
        Some(available) if needed > available => Err(Failure::new(format!(
            "the objects of {} servers with {} replicas of each shard alone take about {} MiB, and {} MiB are free; choose a smaller --size, \
             --items or --customers, or fewer --nodes",
            bench.nodes,
            bench.replication,
            needed >> 20,
            available >> 20
        ))),
        _ => Ok(()),
    }
}

/// Parses the loads that `--outstanding` lists.
pub(super) fn outstanding(text: &str) -> Result<Vec<usize>, Failure> {
    let loads: Result<Vec<usize>, _> = text.split(',').map(|load| load.trim().parse()).collect();
    let loads = loads.unwrap_or_default();
    check_loads(&loads).map_err(|error| Failure::new(format!("--outstanding {text}: {error}")))?;
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use weft_applications::WorkloadName;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        servers: Servers,
    }

    #[test]
    fn objects_that_do_not_fit_are_refused() {
        let servers = Command::parse_from(["command"]).servers;
        let workload = WorkloadChoice::new(WorkloadName::Smallbank, 1_000).unwrap();
        let bench = servers.bench(workload, 1_000, vec![1]).unwrap();
        assert_eq!(check_memory(&bench, None), Ok(()));
        assert_eq!(check_memory(&bench, Some(1 << 30)), Ok(()));
        let refused = check_memory(&bench, Some(100_000)).unwrap_err().to_string();
        assert!(refused.contains("choose a smaller --size"), "{refused}");
    }
}
