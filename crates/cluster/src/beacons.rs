//! Beacons: datagrams between nodes by which each node detects which peers it can receive from.

use weft_time::{Duration, Instant};
use weft_waist::{NODES_MAX, NodeId, NodeSet};

use crate::identity::ClusterId;
use crate::message::{Datagram, Message};

/// Number of beacons that a node sends to each other node within the length of a lease. If all of them are lost,
/// the peer counts as silent.
const PER_LEASE: u64 = 8;
/// The longest interval between beacons: leases may be long, but a node that starts must soon receive beacons of
/// the others.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Interval between beacons at a node that does not know the length of leases yet.
const IDLE_INTERVAL: Duration = Duration::from_ms(50);

/// The peers from which a node receives beacons.
///
/// Every node sends beacons to every other node several times within the length of a lease, whether it is a member
/// or not. It reports to the membership service from which nodes it has received beacons. The
/// [`Service`](crate::Service) excludes nodes from the view that do not receive each other's.
#[derive(Clone, Debug)]
pub struct Beacons {
    node: NodeId,
    cluster: ClusterId,
    /// Length of leases, as this node or a peer was granted one.
    lease: Option<Duration>,
    heard: [Option<Instant>; NODES_MAX],
    next: Instant,
}

impl Beacons {
    /// The state of `node` before the first beacon has arrived.
    pub fn new(node: NodeId, cluster: ClusterId) -> Self {
        Self { node, cluster, lease: None, heard: [None; NODES_MAX], next: Instant::ZERO }
    }

    /// Length of leases, once the node or a peer has been granted one.
    pub const fn lease(&self) -> Option<Duration> {
        self.lease
    }

    /// Notes that the node has been granted a lease of this length.
    pub fn learn_lease(&mut self, lease: Duration) {
        if self.lease.replace(lease) != Some(lease) {
            // The interval so far may have been too long for this lease: send a beacon now.
            self.next = Instant::ZERO;
        }
    }

    /// When [`Beacons::poll_transmit`] returns the next beacon, and when [`Beacons::peers`] should be polled
    /// again.
    pub const fn next_deadline(&self) -> Instant {
        self.next
    }

    /// The beacon to send to every other node at `now`, if one is due.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if now < self.next {
            return None;
        }
        self.next = now + self.lease.map_or(IDLE_INTERVAL, |lease| (lease / PER_LEASE).min(INTERVAL_MAX));
        Some(Message::Beacon { node: self.node, lease: self.lease }.encode(self.cluster))
    }

    /// Processes a datagram from `peer`. Returns whether it is a beacon of that node.
    pub fn receive(&mut self, now: Instant, peer: NodeId, bytes: &[u8]) -> bool {
        let Ok((cluster, Message::Beacon { node, lease })) = Message::decode(bytes) else { return false };
        let is_ours = cluster == self.cluster && node == peer && node != self.node;
        if is_ours {
            // The peer may have just started, and waits for a beacon of this node. Or the interval so far may have been
            // too long for leases of this length. In both cases send one at once.
            let learns = self.lease.is_none() && lease.is_some();
            if learns || !self.peers(now).contains(node) {
                self.next = self.next.min(now);
            }
            self.heard[node.index()] = Some(now);
            // Until the node is granted a lease itself, it uses the length that its peers report.
            self.lease = self.lease.or(lease);
        }
        is_ours
    }

    /// Peers from which a beacon has arrived within the length of a lease.
    pub fn peers(&self, now: Instant) -> NodeSet {
        let is_late = |at: Instant| self.lease.is_some_and(|lease| now.saturating_since(at) >= lease);
        let is_heard = |node: &NodeId| self.heard[node.index()].is_some_and(|at| !is_late(at));
        (0..NODES_MAX).filter_map(NodeId::new).filter(is_heard).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_ms(80);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn beacons(node: usize) -> Beacons {
        Beacons::new(NodeId::new(node).unwrap(), ClusterId::default())
    }

    #[test]
    fn a_peer_is_heard_for_a_lease_after_its_last_beacon() {
        let (mut member, mut newcomer) = (beacons(0), beacons(1));
        let [zero, one] = [0, 1].map(|node| NodeId::new(node).unwrap());
        member.learn_lease(LEASE);
        let beacon = member.poll_transmit(at(0)).unwrap();
        assert_eq!(member.poll_transmit(at(9)), None);
        newcomer.poll_transmit(at(0)).unwrap();
        assert!(newcomer.receive(at(1), zero, &beacon));
        assert_eq!(newcomer.next_deadline(), at(1), "whom it has just begun to hear it tells at once");
        assert!(!newcomer.receive(at(1), one, &beacon), "it is not whom it says that it is");
        assert_eq!(newcomer.lease(), Some(LEASE), "from its peer");
        assert_eq!(newcomer.peers(at(80)), NodeSet::EMPTY.with(zero));
        assert_eq!(newcomer.peers(at(81)), NodeSet::EMPTY);
        assert_eq!(newcomer.poll_transmit(at(81)).map(|_| newcomer.next_deadline()), Some(at(91)));
    }

    #[test]
    fn a_node_that_learns_that_leases_are_short_sends_beacons_more_often() {
        let mut founder = beacons(0);
        founder.poll_transmit(at(1)).unwrap();
        assert_eq!(founder.next_deadline(), at(51));
        founder.learn_lease(Duration::from_ms(8));
        assert!(founder.poll_transmit(at(2)).is_some());
        assert_eq!(founder.next_deadline(), at(3));
        founder.learn_lease(Duration::from_ms(8));
        assert_eq!(founder.next_deadline(), at(3));
    }

    /// Its next beacon was due in 50 ms, and the service excludes a node after a quarter of a lease.
    #[test]
    fn a_node_that_learns_from_a_peer_that_leases_are_short_sends_beacons_more_often() {
        let (mut member, mut newcomer) = (beacons(0), beacons(1));
        let (zero, lease) = (NodeId::new(0).unwrap(), Duration::from_ms(8));
        newcomer.receive(at(0), zero, &member.poll_transmit(at(0)).unwrap());
        newcomer.poll_transmit(at(1)).unwrap();
        member.learn_lease(lease);
        newcomer.receive(at(2), zero, &member.poll_transmit(at(2)).unwrap());
        assert!(newcomer.poll_transmit(at(2)).is_some());
        newcomer.learn_lease(lease);
        assert_eq!(newcomer.next_deadline(), at(3));
    }

    #[test]
    fn beacons_of_others_are_none() {
        let mut here = beacons(0);
        let one = NodeId::new(1).unwrap();
        let other = Message::Beacon { node: one, lease: None }.encode(ClusterId(9));
        assert!(!here.receive(at(0), one, &other) && !here.receive(at(0), one, b"WFTM"));
        assert_eq!(here.peers(at(0)), NodeSet::EMPTY);
    }
}
