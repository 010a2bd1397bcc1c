//! Monitors a running node for stalls: logs waits for a peer, or for a lease, that last longer than a lease.

use weft_cluster::status::EngineReport;
use weft_cluster::{DEFAULT_LEASE, NodeConfig, Text};
use weft_nic::Card;
use weft_node::{HostHalf, Node, NodeEngine, NodeHalf, Stall, Stalls};
use weft_time::{Duration, Instant};
use weft_waist::{Engine, NodeId};

use crate::{Address, OversizedDatagram, UdpPort};

/// Number of checks per length of a lease.
const CHECKS_PER_LEASE: u64 = 4;

/// Monitors the engines of a node, and its lease.
#[derive(Debug)]
pub(crate) struct NodeMonitor {
    node: NodeId,
    peers: usize,
    /// Names of the engines in the configuration, by slot.
    engines: Vec<String>,
    stalls: Stalls,
    next_look: Instant,
    /// Since when the node has no lease, and whether that was logged.
    without_lease: Option<(Instant, bool)>,
}

impl NodeMonitor {
    pub(crate) fn new(config: &NodeConfig) -> Self {
        let engines: Vec<String> = config.engines.slots().iter().map(ToString::to_string).collect();
        let slots = u8::try_from(engines.len()).expect("a slot's number has one byte");
        Self {
            node: config.node,
            peers: config.peers.len(),
            engines,
            stalls: Stalls::new(slots),
            next_look: Instant::ZERO,
            without_lease: None,
        }
    }

    pub(crate) fn next_check(&self) -> Instant {
        self.next_look
    }

    /// Checks for stalls, if a check is due.
    pub(crate) fn check(&mut self, now: Instant, node: &Node<NodeHalf>, card: &Card<NodeEngine>) {
        if now < self.next_look {
            return;
        }
        let lease = node.lease().unwrap_or(DEFAULT_LEASE);
        self.next_look = now + lease / CHECKS_PER_LEASE;
        for slot in 0..node.slots() {
            for peer in (0..self.peers).filter_map(NodeId::new).filter(|peer| *peer != self.node) {
                let mark = card.engine(slot).0.waits_for(peer);
                if let Some(stall) = self.stalls.note(now, lease, (slot, peer), mark) {
                    self.log(&stall);
                }
            }
        }
        self.check_lease(now, lease, node);
    }

    /// Status of the engine in `slot`.
    pub(crate) fn engine(
        &self,
        slot: u8,
        now: Instant,
        node: &Node<NodeHalf>,
        card: &Card<NodeEngine>,
    ) -> EngineReport {
        let engine = card.engine(slot).0;
        let lease = node.lease().unwrap_or(DEFAULT_LEASE);
        let (leads, shards) = engine.shards_led();
        let on_card = if let NodeEngine::KeyValue(engine) = engine { Some(engine.sessions()) } else { None };
        let (sessions, sessions_max) = node.half(slot).sessions().or(on_card).unwrap_or_default();
        let peers = (0..self.peers).filter_map(NodeId::new).filter(|peer| *peer != self.node);
        EngineReport {
            slot,
            name: Text::new(&self.engines[usize::from(slot)]).expect("names are short and plain"),
            status: engine.status(),
            leads,
            shards,
            sessions: sessions as u32,
            sessions_max: sessions_max as u32,
            waits_for: peers.filter(|peer| engine.waits_for(*peer).is_some()).collect(),
            stalled_for: self.stalls.stalled_for(now, lease, slot),
        }
    }

    fn log(&self, stall: &Stall) {
        let (number, peer) = (self.node.index(), stall.peer.index());
        let engine = &self.engines[usize::from(stall.slot)];
        let Seconds(lasted_s) = Seconds::of(stall.lasted);
        if stall.is_over {
            let line =
                format_args!("node {number} goes on: {engine} has waited {lasted_s} s for node {peer}");
            tracing::info!(node = number, peer, %engine, lasted_s, "{line}");
        } else {
            let line =
                format_args!("node {number} stalls: {engine} has been waiting {lasted_s} s for node {peer}");
            tracing::warn!(node = number, peer, %engine, lasted_s, "{line}");
        }
    }

    /// A lease that is not renewed is a stall, too: the node waits for the membership service. Before the first
    /// lease the node's reports say why it waits, so nothing is logged here.
    fn check_lease(&mut self, now: Instant, lease: Duration, node: &Node<NodeHalf>) {
        let number = self.node.index();
        if now < node.lease_until() {
            if let Some((since, true)) = self.without_lease.take() {
                let Seconds(lasted_s) = Seconds::of(now.saturating_since(since));
                let line = format_args!("node {number} goes on: it was without a lease for {lasted_s} s");
                tracing::info!(node = number, lasted_s, "{line}");
            }
        } else if node.lease_until() > Instant::ZERO {
            let (since, is_logged) = self.without_lease.get_or_insert((node.lease_until(), false));
            if now.saturating_since(*since) >= lease && !std::mem::replace(is_logged, true) {
                let line = "its lease has ended, and the membership service does not answer";
                tracing::warn!(node = number, "node {number} stalls: {line}");
            }
        }
    }
}

/// A time in seconds, rounded to the millisecond.
struct Seconds(f64);

impl Seconds {
    fn of(time: Duration) -> Self {
        Self((time.as_ns() / 1_000_000) as f64 / 1_000.0)
    }
}

/// Checks for datagrams longer than the path MTU. They are lost, and requests that need them wait without limit.
#[derive(Debug)]
pub(crate) struct OversizeMonitor {
    node: NodeId,
    is_logged: bool,
}

impl OversizeMonitor {
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node, is_logged: false }
    }

    /// Logs the first such datagram of any port.
    pub(crate) fn check<A: Address>(&mut self, ports: &mut [UdpPort<A>]) {
        let oversized = ports.iter_mut().find_map(UdpPort::take_oversized);
        if let Some(OversizedDatagram { to, length }) = oversized.filter(|_| !self.is_logged) {
            self.is_logged = true;
            let number = self.node.index();
            let line = "the path takes no datagram of so many bytes, and they are lost; lower mtu_bytes in [cluster]";
            tracing::error!(node = number, %to, length, "node {number}: {length} bytes to {to}: {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;
    use crate::PortOptions;
    use crate::log::tests::logged;
    use crate::log::{LogFormat, LogLevel};

    #[test]
    fn a_path_that_takes_less_than_is_configured_is_told_of_once() {
        let options = PortOptions { longest_datagram: 100, ..PortOptions::default() };
        let mut ports = [UdpPort::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &options).unwrap()];
        let to = ports[0].local_address();
        let mut watch = OversizeMonitor::new(NodeId::new(1).unwrap());
        let text = logged(LogFormat::Text, LogLevel::INFO, || {
            watch.check(&mut ports);
            for _ in 0..2 {
                ports[0].push(to, &[0; 101]);
                watch.check(&mut ports);
            }
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.contains(&format!("ERROR node 1: 101 bytes to {to}: ")) && text.contains("mtu_bytes"),
            "{text}"
        );
    }
}
