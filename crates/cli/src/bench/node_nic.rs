//! The NIC of simulated nodes, and where the nodes' engines run.

use clap::{Args, ValueEnum};
use weft_bench::kv::simulated::NodeNic;
use weft_results::NicModel;
use weft_sim::CostProfile;
use weft_waist::NodeSet;

use crate::failure::Failure;
use crate::parse;
use crate::replay::CommandLine;

/// The most nodes of a cluster with engines in gateware.
const GATES_NODES_MAX: usize = 8;

/// Place of the engine of a node with the gateware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EnginePlace {
    /// In gates, on the NIC.
    #[default]
    Nic,
    /// In software, on the host behind the NIC.
    Host,
}

/// Parameters of the nodes' NIC.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct NodeNicOptions {
    /// NIC: soft (in software) or rtl (the gateware, simulated cycle by cycle; only in the simulator)
    #[arg(long, value_name = "soft|rtl", default_value = "soft", value_parser = parse::nic)]
    pub(crate) nic: NicModel,
    /// Place of the engine with --nic rtl: nic (in gateware on the NIC) or host (in software on the host)
    #[arg(long, value_enum, value_name = "nic|host", default_value_t, hide_possible_values = true)]
    pub(crate) engine: EnginePlace,
    /// Nodes with gateware under --nic rtl, as 0,2; the others have software NICs [default: all]
    #[arg(long, value_name = "NODES", value_parser = parse::node_set)]
    pub(crate) rtl_nodes: Option<NodeSet>,
}

impl Default for NodeNicOptions {
    fn default() -> Self {
        Self { nic: NicModel::Soft, engine: EnginePlace::Nic, rtl_nodes: None }
    }
}

impl NodeNicOptions {
    /// The NIC for a cluster of `nodes` nodes; `profile` is the cost profile of software NICs.
    ///
    /// # Errors
    /// The options contradict each other, or there are more nodes than engines in gateware support.
    pub(crate) fn choose(&self, nodes: usize, profile: Option<CostProfile>) -> Result<NodeNic, Failure> {
        if self.nic == NicModel::Soft {
            if self.engine == EnginePlace::Host || self.rtl_nodes.is_some() {
                return Err(Failure::new("--engine and --rtl-nodes are for the gateware; choose --nic rtl"));
            }
            return Ok(NodeNic::Soft(profile.unwrap_or(CostProfile::FPGA)));
        }
        if profile.is_some() {
            return Err(Failure::new(
                "the gateware takes its own time; leave --profile out or choose --nic soft",
            ));
        }
        match (self.engine, self.rtl_nodes) {
            (EnginePlace::Host, None) => Ok(NodeNic::RtlBeforeHost),
            (EnginePlace::Host, Some(_)) => {
                Err(Failure::new("--rtl-nodes is for engines in gates; leave --engine host out"))
            }
            (EnginePlace::Nic, _) if nodes > GATES_NODES_MAX => Err(Failure::new(format!(
                "engines in gates have windows for {GATES_NODES_MAX} nodes; choose at most so many, or --engine host"
            ))),
            (EnginePlace::Nic, None) => Ok(NodeNic::RTL),
            (EnginePlace::Nic, Some(gates)) => match gates.iter().find(|node| node.index() >= nodes) {
                Some(node) => Err(Failure::new(format!("there is no {node} in a cluster of {nodes}"))),
                None => Ok(NodeNic::Rtl(gates)),
            },
        }
    }

    /// Adds the options with which a command repeats this choice.
    pub(crate) fn add_to(&self, line: CommandLine) -> CommandLine {
        let Self { nic, engine, rtl_nodes } = self;
        let line = line.unless(NicModel::Soft, "--nic", *nic);
        let line = match engine {
            EnginePlace::Nic => line,
            EnginePlace::Host => line.option("--engine", "host"),
        };
        line.given("--rtl-nodes", rtl_nodes.map(list))
    }
}

/// A list of nodes, which `parse::node_set` parses back.
fn list(nodes: NodeSet) -> String {
    let numbers: Vec<String> = nodes.iter().map(|node| node.index().to_string()).collect();
    numbers.join(",")
}

#[cfg(test)]
mod tests {
    use weft_waist::NodeId;

    use super::*;

    #[test]
    fn what_does_not_go_together_is_refused() {
        let choose =
            |options: NodeNicOptions, nodes| options.choose(nodes, None).map_err(|error| error.to_string());
        let rtl = || NodeNicOptions { nic: NicModel::Rtl, ..NodeNicOptions::default() };
        assert_eq!(choose(rtl(), 8), Ok(NodeNic::RTL));
        assert!(choose(rtl(), 9).unwrap_err().contains("--engine host"));
        let host = NodeNicOptions { engine: EnginePlace::Host, ..rtl() };
        assert_eq!(choose(host.clone(), 9), Ok(NodeNic::RtlBeforeHost));
        let first = Some(NodeSet::first(1));
        assert_eq!(
            choose(NodeNicOptions { rtl_nodes: first, ..rtl() }, 3),
            Ok(NodeNic::Rtl(NodeSet::first(1)))
        );
        assert!(choose(NodeNicOptions { rtl_nodes: first, ..host }, 3).is_err());
        let beyond = Some(NodeSet::EMPTY.with(NodeId::new(3).unwrap()));
        assert!(choose(NodeNicOptions { rtl_nodes: beyond, ..rtl() }, 3).unwrap_err().contains("node3"));
        assert!(rtl().choose(3, Some(CostProfile::FPGA)).is_err());
        assert!(choose(NodeNicOptions { rtl_nodes: first, ..NodeNicOptions::default() }, 3).is_err());
    }

    #[test]
    fn a_list_of_nodes_is_read_as_it_is_written() {
        let nodes = NodeSet::from_bits(0b1000_0101);
        assert_eq!(list(nodes), "0,2,7");
        assert_eq!(parse::node_set("0,2,7"), Ok(nodes));
    }
}
