//! The nodes of a simulated cluster: NIC, engine and lease holder, with the NIC in software or in gates.

use std::net::SocketAddrV4;

use weft_cluster::Incarnation;
use weft_gateware::{Latency, RtlNic, RtlNicConfig};
use weft_kv::{Kv, Parameters};
use weft_nic::{CardConfig, Nic, SoftNic, SoftNicConfig};
use weft_sim::{CostProfile, Execution, Figure, HostedMachine, LinkConfig, Machine, NicMachine};
use weft_waist::{Memory, NODES_MAX, NodeId};
use weft_wire::datagram;

use super::machines::{LeaseHost, Station};
use crate::rdma::NicModel;

/// Bytes of UDP payload in one datagram: Ethernet's 1,500 less 28.
pub(super) const DATAGRAM_BYTES: usize = 1_472;

/// What NIC the nodes have, and where their engines run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a cluster has one, and it can be copied")]
pub enum NodeNic {
    /// In software, with the engine in it, at the pace of this profile.
    Soft(CostProfile),
    /// The gateware, cycle by cycle. It hosts no engines: they are software on its host, and what they hear and say passes
    /// the gateware and crosses PCIe.
    Rtl,
}

impl NodeNic {
    /// Which NIC, as results say it.
    pub const fn model(&self) -> NicModel {
        match self {
            Self::Soft(_) => NicModel::Soft,
            Self::Rtl => NicModel::Rtl,
        }
    }

    /// Where the engine runs: on the NIC, or in software on the `host`.
    pub fn engine_on(&self) -> &'static str {
        match self {
            Self::Soft(profile) if *profile != CostProfile::HOST_CARD => "nic",
            Self::Soft(_) | Self::Rtl => "host",
        }
    }

    /// The profile of the engine's costs.
    pub const fn profile(&self) -> CostProfile {
        match self {
            Self::Soft(profile) => *profile,
            Self::Rtl => CostProfile::HOST_SOFTWARE,
        }
    }

    /// What the times rest on.
    pub(super) fn basis(&self) -> String {
        match self {
            Self::Soft(profile) => format!("cost profile `{}`: {}", profile.name, profile.basis),
            Self::Rtl => format!(
                "NICs: {}; engines: host software behind PCIe, cores as in cost profile `{}`: {}",
                CostProfile::GATEWARE.basis,
                CostProfile::HOST_CARD.name,
                CostProfile::HOST_CARD.basis
            ),
        }
    }
}

/// A NIC in software with the engine in it, and the lease holder on its host.
pub(super) type NodeSoftware = NicMachine<SoftNic<Kv>, LeaseHost>;

/// A node.
#[expect(clippy::large_enum_variant, reason = "each lies in a box of its own")]
pub(super) enum NodeMachine {
    /// Its NIC is software.
    Soft(NodeSoftware),
    /// Its NIC is the gateware, and all the software of a node runs on the host.
    Rtl(NicMachine<RtlNic, HostedMachine<NodeSoftware>>),
}

impl NodeMachine {
    /// The part that is software: all but the gateware.
    pub(super) const fn software(&self) -> &NodeSoftware {
        match self {
            Self::Soft(machine) => machine,
            Self::Rtl(machine) => machine.host().machine(),
        }
    }

    pub(super) fn as_machine(&self) -> &dyn Machine {
        match self {
            Self::Soft(machine) => machine,
            Self::Rtl(machine) => machine,
        }
    }

    pub(super) fn as_machine_mut(&mut self) -> &mut dyn Machine {
        match self {
            Self::Soft(machine) => machine,
            Self::Rtl(machine) => machine,
        }
    }

    /// Counters of the software and, with `rtl_` before their names, those of the gateware.
    pub(super) fn counters(&self) -> Vec<(String, u64)> {
        let software = self.software().nic().counters();
        let mut all: Vec<_> = software.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        if let Self::Rtl(machine) = self {
            let gateware = machine.nic().counters();
            all.push(("rtl_cycles".to_owned(), machine.nic().cycles_run()));
            all.extend(gateware.into_iter().map(|(name, count)| (format!("rtl_{name}"), count)));
        }
        all
    }
}

/// What decides how nodes are built.
#[derive(Clone, Debug)]
pub(super) struct NodeBuilder {
    pub(super) stations: Vec<Station>,
    pub(super) engine: Parameters,
    pub(super) nic: NodeNic,
}

impl NodeBuilder {
    /// A node at the beginning of one of its lives, empty. The first life is number 0.
    pub(super) fn build(&self, node: NodeId, life: u32) -> NodeMachine {
        // Each life has room for incarnations of its own: a node that must rejoin takes the next one.
        let incarnation = Incarnation::new(1 + (u64::from(life) << 32)).expect("a small number");
        let software =
            |profile| NicMachine::new(self.soft_nic(node), LeaseHost::new(node, incarnation), profile);
        match &self.nic {
            NodeNic::Soft(profile) => NodeMachine::Soft(software(profile)),
            NodeNic::Rtl => {
                let host = HostedMachine::new(software(&CostProfile::HOST_SOFTWARE));
                NodeMachine::Rtl(NicMachine::new(self.rtl_nic(node, life), host, &CostProfile::GATEWARE))
            }
        }
    }

    fn soft_nic(&self, node: NodeId) -> SoftNic<Kv> {
        let mut peers = [None; NODES_MAX];
        for station in &self.stations {
            if let Station::Node(peer) = station {
                peers[peer.index()] = Some(SocketAddrV4::new(station.address(), datagram::UDP_PORT));
            }
        }
        let card = CardConfig {
            peers,
            datagram_bytes: DATAGRAM_BYTES,
            transport: no_queue_pairs(),
            region_bytes: 0,
        };
        let station = Station::Node(node);
        let config = SoftNicConfig { hardware: station.hardware(), address: station.address(), card };
        let engine = (Kv::new(self.engine.clone()), Memory::new(self.engine.memory_bytes()));
        let mut nic = SoftNic::new(config, vec![engine]);
        for neighbour in &self.stations {
            nic.add_neighbour(neighbour.address(), neighbour.hardware());
        }
        nic
    }

    /// The gateware after a reset, with other bits in its memories at each power-on.
    fn rtl_nic(&self, node: NodeId, life: u32) -> RtlNic {
        let CostProfile {
            execution: Execution::Clocked { cycle, host_read, host_write }, memory: hbm, ..
        } = CostProfile::GATEWARE
        else {
            unreachable!("the gateware is clocked")
        };
        let cycles = |figure: Figure| figure.value.div_ceil(cycle.value);
        let latency = |read, write| Latency { read_cycles: cycles(read), write_cycles: cycles(write) };
        let station = Station::Node(node);
        RtlNic::new(&RtlNicConfig {
            hardware: station.hardware(),
            address: station.address(),
            transport: no_queue_pairs(),
            region_bytes: 0,
            bits_per_s: LinkConfig::default().bits_per_s,
            hbm: latency(hbm.read, hbm.write),
            host: latency(host_read, host_write),
            pressure: None,
            power_on_seed: life << 8 | (node.index() as u32 + 1),
        })
    }
}

/// Nodes of a cluster speak datagrams only.
fn no_queue_pairs() -> weft_rdma::Config {
    weft_rdma::Config { max_queue_pairs: 1, completion_queue_depth: 1, ..Default::default() }
}
