//! The nodes of a simulated cluster: NIC, engine and lease holder. The NIC is software or gateware.

use std::collections::{BTreeMap, BTreeSet};

use weft_cluster::{AgentParameters, Incarnation};
use weft_gateware::{EngineConfig, HbmTiming, MemoryTiming, RtlNic, RtlNicConfig};
use weft_harness::gateware;
use weft_harness::{
    Builder, CALLED_SLOT, ClientMachine, ClusterHost, KeyHolder, MachineOf, NodeHost, Planted, SharedKeys,
    SimulatedNode, StatusChange, Views, incarnation, no_queue_pairs, node_id, running, soft_nic,
};
use weft_kv::{Kv, Parameters, Role};
use weft_nic::{Nic, SoftNic};
use weft_node::{NoHalf, NodeHalf};
use weft_results::NicModel;
use weft_sim::{CostProfile, DiskFault, HostedMachine, Machine, Machines, NicMachine, Wrapper};
use weft_time::Instant;
use weft_waist::{Engine, EngineState, EngineStatus, Epoch, Memory, NODES_MAX, NodeId, NodeSet, View};

use super::disks::StoreDisks;
use crate::kv::Driver;

/// NIC of the nodes, and place of their engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a cluster has one, and it can be copied")]
pub enum NodeNic {
    /// A NIC in software with the engine on it, with the costs of this profile.
    Soft(CostProfile),
    /// The gateware with the engine, simulated cycle by cycle, at these nodes; at the other nodes a NIC in
    /// software with the costs of [`CostProfile::FPGA`].
    Rtl(NodeSet),
    /// The gateware without an engine, simulated cycle by cycle. The engines are software on the host, so
    /// their messages cross PCIe and pass the gateware.
    RtlBeforeHost,
}

impl NodeNic {
    /// The gateware at every node.
    pub const RTL: Self = Self::Rtl(NodeSet::first(NODES_MAX));

    /// The model of the NIC, as results name it.
    pub const fn model(&self) -> NicModel {
        match self {
            Self::Soft(_) => NicModel::Soft,
            Self::Rtl(_) | Self::RtlBeforeHost => NicModel::Rtl,
        }
    }

    /// Place of the engine: on the NIC, or in software on the `host`.
    pub fn engine_on(&self) -> &'static str {
        match self {
            Self::Soft(profile) if *profile == CostProfile::HOST_CARD => "host",
            Self::Soft(_) | Self::Rtl(_) => "nic",
            Self::RtlBeforeHost => "host",
        }
    }

    /// Cost profile of the engine.
    pub const fn profile(&self) -> CostProfile {
        match self {
            Self::Soft(profile) => *profile,
            Self::Rtl(_) => CostProfile::GATEWARE,
            Self::RtlBeforeHost => CostProfile::HOST_SOFTWARE,
        }
    }

    /// Description of what the times are based on, for results.
    pub(super) fn basis(&self) -> String {
        match self {
            Self::Soft(profile) => format!("cost profile `{}`: {}", profile.name, profile.basis),
            Self::Rtl(_) => format!("NICs and engines: {}", CostProfile::GATEWARE.basis),
            Self::RtlBeforeHost => format!(
                "NICs: {}; engines: host software behind PCIe, cores as in cost profile `{}`: {}",
                CostProfile::GATEWARE.basis,
                CostProfile::HOST_CARD.name,
                CostProfile::HOST_CARD.basis
            ),
        }
    }

    /// Whether some engine is in gateware. Then all engines must have its fixed sizes.
    pub(super) const fn has_engine_in_gates(&self) -> bool {
        matches!(self, Self::Rtl(_))
    }
}

/// A NIC in software with the engine in it, and the lease holder on its host.
pub type NodeSoftware = NicMachine<SoftNic<Kv>, NodeHost<NodeHalf>>;

/// A node.
#[expect(clippy::large_enum_variant, reason = "each lies in a box of its own")]
pub enum NodeMachine {
    /// The NIC is software.
    Soft(NodeSoftware),
    /// The NIC is the gateware, with the engine in it.
    Rtl(NicMachine<RtlNic, NodeHost<NodeHalf>>),
    /// The NIC is the gateware, and all the software of a node runs on the host.
    RtlBeforeHost(NicMachine<RtlNic, HostedMachine<NodeSoftware>>),
}

impl NodeMachine {
    /// The part of the node that is software.
    const fn software(&self) -> Option<&NodeSoftware> {
        match self {
            Self::Soft(machine) => Some(machine),
            Self::Rtl(_) => None,
            Self::RtlBeforeHost(machine) => Some(machine.host().machine()),
        }
    }

    const fn gateware(&self) -> Option<&RtlNic> {
        match self {
            Self::Soft(_) => None,
            Self::Rtl(machine) => Some(machine.nic()),
            Self::RtlBeforeHost(machine) => Some(machine.nic()),
        }
    }

    fn engine(&self) -> Option<(&Kv, &Memory)> {
        self.software().map(|machine| machine.nic().card().engine(CALLED_SLOT))
    }

    /// The lease holder.
    pub(super) const fn host(&self) -> &NodeHost<NodeHalf> {
        match self {
            Self::Soft(machine) => machine.host(),
            Self::Rtl(machine) => machine.host(),
            Self::RtlBeforeHost(machine) => machine.host().machine().host(),
        }
    }

    /// The newest epoch that the node has recovered from disks alone.
    pub(super) fn recovered_from_disks(&self) -> Option<Epoch> {
        self.engine().and_then(|(engine, _)| engine.recovered_from_disks())
    }

    /// Status of the engine.
    fn status(&self) -> EngineStatus {
        self.engine().map_or(self.host().node().engine_status(CALLED_SLOT), |(engine, _)| engine.status())
    }

    /// A digest of the state of the node, if its memory is readable.
    pub(super) fn digest(&self) -> Option<u64> {
        self.engine().map(|(engine, memory)| engine.state_digest(memory))
    }
}

impl SimulatedNode for NodeMachine {
    /// An engine in gates does not report the microseconds in which it changes epochs.
    fn is_full(&self) -> bool {
        self.engine()
            .map_or(self.status().state == EngineState::Full, |(engine, _)| engine.role() == Role::Full)
    }

    fn is_full_in(&self, epoch: Epoch) -> bool {
        self.is_full() && self.status().epoch == epoch
    }

    fn lease_until(&self) -> Instant {
        self.host().node().lease_until()
    }

    fn describe(&self) -> String {
        let EngineStatus { epoch, state } = self.status();
        let role = self.engine().map_or(state.to_string(), |(engine, _)| format!("{:?}", engine.role()));
        let refusal = self.host().node().refusal();
        let refusal = refusal.map_or(String::new(), |reason| format!(", refused: {reason}"));
        format!("{role} ({state}) in {epoch}{refusal}")
    }

    /// Counters of the software and, with `rtl_` before their names, those of the gateware.
    fn counters(&self) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        if let Some(software) = self.software() {
            all.extend(software.nic().counters().into_iter().map(|(name, count)| (name.to_owned(), count)));
        }
        if let Some(gateware) = self.gateware() {
            all.push(("rtl_cycles".to_owned(), gateware.cycles_run()));
            all.extend(gateware.counters().into_iter().map(|(name, count)| (format!("rtl_{name}"), count)));
        }
        all
    }
}

impl Wrapper for NodeMachine {
    fn inner(&self) -> &dyn Machine {
        match self {
            Self::Soft(machine) => machine,
            Self::Rtl(machine) => machine,
            Self::RtlBeforeHost(machine) => machine,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Machine {
        match self {
            Self::Soft(machine) => machine,
            Self::Rtl(machine) => machine,
            Self::RtlBeforeHost(machine) => machine,
        }
    }
}

/// Builds nodes, and allows crashes as long as all data survives.
pub struct NodeBuilder {
    pub(super) stations: Vec<ClusterHost>,
    /// Number of keepers of the membership service; 1 if it is one process.
    pub(super) keepers: usize,
    pub(super) engine: Parameters,
    pub(super) nic: NodeNic,
    pub(super) planted: Planted,
    /// The keys of all machines, if frames are sealed.
    pub(super) keys: Option<SharedKeys>,
    /// Status over time of crashed incarnations, by node.
    pub(super) former: BTreeMap<usize, Vec<StatusChange>>,
    /// The disks of the nodes, if they have any.
    pub(super) disks: Option<StoreDisks>,
    /// Epochs that crashed nodes have recovered from disks alone.
    pub(super) recovered: BTreeSet<Epoch>,
}

impl Builder for NodeBuilder {
    type Node = NodeMachine;
    type Clients = ClientMachine<Driver>;

    fn build(&mut self, node: usize, life: u32, _: Instant) -> NodeMachine {
        self.node(node_id(node), life)
    }

    /// A node may crash if another node or a disk has all data of the newest view. The protocol does not
    /// survive the loss of the last copy.
    fn may_crash(&mut self, machines: &Machines<MachineOf<Self>>, victim: usize, view: &View) -> bool {
        let is_in_memory = running(machines).any(|(index, node)| {
            let EngineStatus { epoch, state } = node.status();
            index != victim
                && view.full.contains(node_id(index))
                && state == EngineState::Full
                && epoch == view.epoch
        });
        is_in_memory || self.may_be_all(machines, NodeSet::EMPTY, view)
    }

    fn crashed(&mut self, node: usize, remains: NodeMachine) {
        if let Some(disks) = &self.disks {
            disks.inner().of(node).kill_process();
        }
        self.keep(node, &remains);
    }

    fn may_lose_power(&mut self, machines: &Machines<MachineOf<Self>>, _: &[usize], view: &View) -> bool {
        self.may_be_all(machines, NodeSet::EMPTY, view)
    }

    fn lost_power(&mut self, node: usize, remains: Option<NodeMachine>) {
        if let Some(disks) = &self.disks {
            disks.inner().of(node).cut_power();
        }
        if let Some(remains) = remains {
            self.keep(node, &remains);
        }
    }

    fn disk_fault(
        &mut self,
        machines: &Machines<MachineOf<Self>>,
        node: usize,
        fault: DiskFault,
        view: &View,
    ) -> bool {
        let id = node_id(node);
        let may_be = match fault {
            _ if fault.is_damage() => self.may_be_all(machines, NodeSet::EMPTY.with(id), view),
            DiskFault::Failing(true) | DiskFault::Full(true) => self.may_crash(machines, node, view),
            _ => true,
        };
        let is_allowed = |disks: &&StoreDisks| may_be && !disks.inner().would_lose_node(node, fault);
        let Some(disks) = self.disks.as_ref().filter(is_allowed) else { return false };
        disks.inner().of(node).inject(fault);
        true
    }
}

impl NodeBuilder {
    /// Keeps what is told about an incarnation when the run has ended.
    fn keep(&mut self, node: usize, remains: &NodeMachine) {
        self.former.entry(node).or_default().extend(remains.host().changes());
        self.recovered.extend(remains.recovered_from_disks());
    }

    /// Whether all data of the view survives a loss of the memory of all nodes, and of the disks of those in `without`.
    fn may_be_all(&self, machines: &Machines<MachineOf<Self>>, without: NodeSet, view: &View) -> bool {
        let is_current = |node: &NodeMachine| node.status().epoch == view.epoch;
        let current = running(machines).filter(|(_, node)| is_current(node)).map(|(index, _)| node_id(index));
        self.disks.as_ref().is_some_and(|disks| disks.may_be_all(without, current.collect(), view))
    }

    /// A node with empty memory whose process starts for the time number `life`, from 0.
    fn node(&self, node: NodeId, life: u32) -> NodeMachine {
        let incarnation = incarnation(life);
        let software =
            |profile| NicMachine::new(self.soft_nic(node), self.lease_holder(node, incarnation), profile);
        match &self.nic {
            NodeNic::Soft(profile) => NodeMachine::Soft(software(profile)),
            NodeNic::Rtl(gates) if !gates.contains(node) => NodeMachine::Soft(software(&CostProfile::FPGA)),
            NodeNic::Rtl(_) => {
                let nic = self.rtl_nic(node, life, Some(self.engine_config()));
                let host = self.lease_holder(node, incarnation);
                NodeMachine::Rtl(NicMachine::new(nic, host, &CostProfile::GATEWARE))
            }
            NodeNic::RtlBeforeHost => {
                assert!(self.keys.is_none(), "a host with the engine installs no keys in the card");
                let host = HostedMachine::new(software(&CostProfile::HOST_SOFTWARE));
                let nic = self.rtl_nic(node, life, None);
                NodeMachine::RtlBeforeHost(NicMachine::new(nic, host, &CostProfile::GATEWARE))
            }
        }
    }

    /// Configuration of the engine in gateware: the parameters of the engine in software.
    fn engine_config(&self) -> EngineConfig {
        let mut peers = [None; NODES_MAX];
        for station in &self.stations {
            if let ClusterHost::Node(peer) = station {
                peers[peer.index()] = Some(station.address());
            }
        }
        EngineConfig {
            needs: Kv::NEEDS,
            peers,
            buckets: self.engine.buckets,
            retransmit: self.engine.retransmit,
            retransmit_max: self.engine.retransmit_max,
            acknowledge_after_memory: false,
            planted_bug: planted_bug(&self.engine),
            memory: MemoryTiming::Hbm(HbmTiming::WIDE_PORT),
        }
    }

    /// Number of nodes of the cluster.
    pub(super) fn nodes(&self) -> usize {
        self.stations.iter().filter(|station| matches!(station, ClusterHost::Node(_))).count()
    }

    /// The program on a node's host.
    fn lease_holder(&self, node: NodeId, fresh: Incarnation) -> NodeHost<NodeHalf> {
        let agent = AgentParameters { keepers: self.keepers, ..AgentParameters::default() };
        let views = Views::Service(agent, self.nodes());
        let host = if let Some(disks) = &self.disks {
            let (half, incarnation, disk) = disks.open(node, fresh);
            NodeHost::new(node, incarnation, views, [NodeHalf::KeyValue(half)], self.planted).with_disk(disk)
        } else {
            NodeHost::new(node, fresh, views, [NodeHalf::None(NoHalf)], self.planted)
        };
        host.with_keys(self.holder(node))
    }

    /// The keys of a node, if frames are sealed.
    fn holder(&self, node: NodeId) -> Option<KeyHolder> {
        self.keys.as_ref().map(|keys| KeyHolder::new(keys, ClusterHost::Node(node)))
    }

    fn soft_nic(&self, node: NodeId) -> SoftNic<Kv> {
        let engine = (Kv::new(self.engine.clone()), Memory::new(self.engine.memory_bytes()));
        let (place, stations) = ((node.index(), self.nodes()), self.stations.iter().copied());
        soft_nic(place, no_queue_pairs(), vec![engine], stations, self.holder(node).as_ref())
    }

    /// The gateware after a reset. At each power-on its memories have other random contents.
    fn rtl_nic(&self, node: NodeId, life: u32, engine: Option<EngineConfig>) -> RtlNic {
        let station = ClusterHost::Node(node);
        let mut nic = RtlNic::new(&RtlNicConfig {
            transport: no_queue_pairs(),
            psp: self.holder(node).map(|holder| holder.config()),
            power_on_seed: life << 8 | (node.index() as u32 + 1),
            engine,
            ..gateware::card(station.hardware(), station.address())
        });
        for neighbour in &self.stations {
            nic.add_neighbour(neighbour.address(), neighbour.hardware());
        }
        nic
    }
}

/// Number of the planted bug in gateware; 0 if none is planted.
#[cfg(feature = "planted-bugs")]
fn planted_bug(parameters: &Parameters) -> u8 {
    let place = |bug| weft_kv::PlantedBug::ALL.iter().position(|known| *known == bug);
    parameters.planted_bug.and_then(place).map_or(0, |place| 1 + place as u8)
}

#[cfg(not(feature = "planted-bugs"))]
const fn planted_bug(_: &Parameters) -> u8 {
    0
}
