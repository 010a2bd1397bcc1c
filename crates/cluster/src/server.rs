//! The membership service as a server of datagrams.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;

use weft_time::Instant;
use weft_waist::{EngineState, Epoch, NODES_MAX, NodeId, NodeSet};

use crate::agent::Mismatch;
use crate::durable::Durable;
use crate::identity::ClusterName;
use crate::membership::{Incarnation, Reason};
use crate::message::{Datagram, Heartbeat, Message, MessageError, Token};
#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;
use crate::profile::{Difference, Holder, Profile};
use crate::registry::Registry;
use crate::service::{Grant, Service};
use crate::status::ServiceStatus;
use crate::text::Text;

/// Limit of the queue of answers: far more than one call adds. Answers are dropped only if the host does not send
/// them.
const QUEUE_MAX: usize = 64;
/// A server that has not run for this part of a lease has missed what nodes sent meanwhile. It runs twice as often.
const PAUSES_PER_LEASE: u64 = 4;
/// Limit of the queue of misconfigured nodes that the host has yet to report.
const MISFITS_MAX: usize = 16;

/// A [`Service`] that receives and sends datagrams.
///
/// `A` identifies the other end: a socket address, or a node in the simulator. After each call, the host begins to
/// store the snapshot that [`Server::take_unsaved`] returns, and sends the datagrams that [`Server::poll_transmit`]
/// returns until there are no more. Those that depend on the snapshot are among them when the host has called
/// [`Server::stored`]. Meanwhile the server answers what it can answer from the stored state: see [`Service`]. If
/// storing fails, the host stops: no answer may depend on a state that is not stored.
#[derive(Clone, Debug)]
pub struct Server<A> {
    service: Service,
    cluster: ClusterName,
    /// The term in which a keeper holds the service; 0 if the service is one process.
    term: u32,
    /// The registered profiles, if nodes must register them.
    registry: Option<Registry>,
    /// Misconfigured nodes to report to the operator, and the last incarnation of each node that was reported.
    mismatches: VecDeque<Refused<A>>,
    told: [Option<Incarnation>; NODES_MAX],
    addresses: [Option<A>; NODES_MAX],
    queue: VecDeque<(A, Datagram)>,
    /// Datagrams that depend on a change that has yet to be stored.
    held: VecDeque<(A, Datagram)>,
    /// When the server last ran.
    ran: Option<Instant>,
    counters: ServerCounters,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<PlantedBug>,
    /// With a planted bug: a newer snapshot, while the previous one is stored.
    #[cfg(feature = "planted-bugs")]
    kept_back: Option<Durable>,
}

weft_counters::counters! {
    /// Counters of messages that a membership service has received and refused.
    pub struct ServerCounters {
        /// Heartbeats received.
        heartbeats,
        /// Heartbeats of the cluster's nodes that were refused a lease.
        heartbeats_refused,
        /// Heartbeats of nodes that do not belong to the cluster.
        heartbeats_of_misfits,
        /// Datagrams that are no valid heartbeat.
        datagrams_malformed,
        /// Answers dropped because the queue was full.
        answers_overflowed,
        /// Heartbeats dropped because the node's name does not resolve to the address from which they come.
        heartbeats_from_elsewhere,
    }
}

/// What a host knows about the address from which a node has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is the node's.
    Own,
    /// The node is known by a name that does not resolve to the address, or not yet. The heartbeat is dropped; the node
    /// repeats it.
    Elsewhere,
    /// It is another one than the service's configuration has for the node.
    Other {
        /// The address.
        ours: Text,
        /// The address in the service's configuration.
        theirs: Text,
    },
}

impl Origin {
    /// A report from `from` of a node that has the address `configured`.
    pub fn at_address(from: IpAddr, configured: IpAddr) -> Self {
        if from == configured {
            Self::Own
        } else {
            Self::Other { ours: Text::of(from), theirs: Text::of(configured) }
        }
    }
}

/// A heartbeat of a node that does not belong to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<A> {
    /// Address of the node.
    pub from: A,
    /// Number that it claims.
    pub node: NodeId,
    /// Why the node does not belong to the cluster, from the node's point of view.
    pub mismatch: Mismatch,
}

/// The text for the operator of the service.
impl<A: fmt::Display> fmt::Display for Refused<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refuses node {} at {}: ", self.node.index(), self.from)?;
        match &self.mismatch {
            Mismatch::Cluster { theirs, .. } => write!(f, "it is not of cluster \"{theirs}\""),
            Mismatch::Configuration(Difference { key, ours, theirs, holder }) => {
                write!(f, "{key} is {ours} there and {theirs} at {holder}")
            }
        }
    }
}

impl<A: Copy> Server<A> {
    /// A server for `service`, of a cluster with the default name, whose nodes do not register their
    /// configurations.
    pub fn new(service: Service) -> Self {
        Self {
            service,
            cluster: ClusterName::default(),
            term: 0,
            registry: None,
            mismatches: VecDeque::with_capacity(MISFITS_MAX),
            told: [None; NODES_MAX],
            addresses: [None; NODES_MAX],
            queue: VecDeque::with_capacity(QUEUE_MAX),
            held: VecDeque::with_capacity(QUEUE_MAX),
            ran: None,
            counters: ServerCounters::default(),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            #[cfg(feature = "planted-bugs")]
            kept_back: None,
        }
    }

    /// The same server with a deliberate bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: PlantedBug) -> Self {
        Self { planted_bug: Some(bug), service: self.service.with_planted_bug(bug), ..self }
    }

    /// The same server for the nodes of `cluster`, each of which must send its profile before it is accepted.
    /// `agreed` is the profile on which they had agreed when the service was stopped.
    #[must_use]
    pub fn of_cluster(self, cluster: ClusterName, agreed: Option<Profile>) -> Self {
        let (nodes, replicas) = self.service.size();
        Self { cluster, registry: Some(Registry::new(nodes, replicas, agreed)), ..self }
    }

    /// The same server in this term of its keeper.
    #[must_use]
    pub fn in_term(self, term: u32) -> Self {
        Self { term, ..self }
    }

    /// Processes a datagram from `from`. The caller must read the clock for `now` after it has received the
    /// datagram.
    ///
    /// # Errors
    /// [`MessageError`] if the datagram is no valid heartbeat; only a counter changes then.
    pub fn receive(&mut self, now: Instant, from: A, bytes: &[u8]) -> Result<(), MessageError> {
        self.receive_from(now, from, bytes, |_| Origin::Own)
    }

    /// As [`Server::receive`], for a host that knows where nodes are: `origin` judges whether `from` belongs to the
    /// node that reports. Two processes with different addresses cannot report as the same node, and at one address
    /// only one process at a time owns the port.
    ///
    /// # Errors
    /// As [`Server::receive`].
    pub fn receive_from(
        &mut self,
        now: Instant,
        from: A,
        bytes: &[u8],
        origin: impl FnOnce(NodeId) -> Origin,
    ) -> Result<(), MessageError> {
        let message = Message::decode(bytes).and_then(|(cluster, message)| match message {
            Message::Heartbeat { token, heartbeat, profile } => Ok((cluster, token, heartbeat, profile)),
            _ => Err(MessageError::Field("kind")),
        });
        let (cluster, token, heartbeat, profile) =
            message.inspect_err(|_| self.counters.datagrams_malformed += 1)?;
        self.counters.heartbeats += 1;
        #[cfg(feature = "planted-bugs")]
        let heartbeat = match self.planted_bug {
            Some(PlantedBug::PartitionedKept) => {
                Heartbeat { receives_from: NodeSet::first(NODES_MAX), ..heartbeat }
            }
            _ => heartbeat,
        };
        let mismatch = if cluster == self.cluster.id() {
            match origin(heartbeat.node) {
                Origin::Own => self.register(heartbeat, profile.as_ref())?,
                Origin::Elsewhere => {
                    self.counters.heartbeats_from_elsewhere += 1;
                    return Ok(());
                }
                Origin::Other { ours, theirs } => {
                    let key = Text::of(format_args!("[[node]] {}", heartbeat.node.index()));
                    let holder = Holder::Service;
                    Some(Mismatch::Configuration(Difference { key, ours, theirs, holder }))
                }
            }
        } else {
            // The node knows its own cluster's name, and the answer does not contain it.
            Some(Mismatch::Cluster { ours: ClusterName::default(), theirs: self.cluster })
        };
        if let Some(mismatch) = mismatch {
            self.turn_away(from, token, heartbeat, mismatch);
            return Ok(());
        }
        self.run(now);
        let before = self.service.decided().epoch;
        let was_leased = self.service.is_leased(heartbeat.node);
        let answer = self.service.heartbeat(now, heartbeat);
        let (node, incarnation, term) = (heartbeat.node, heartbeat.incarnation, self.term);
        let epoch = self.service.decided().epoch;
        // Nobody learns the number of a view that has yet to be stored.
        let told = if self.service.has_unsaved() { epoch } else { self.service.view().epoch };
        let answer = match answer {
            Ok(Grant { view, lease }) => Message::Grant { node, incarnation, token, term, view, lease },
            Err(reason) => {
                self.counters.heartbeats_refused += 1;
                Message::Refusal { node, incarnation, token, term, epoch: told, reason }
            }
        };
        self.push(from, &answer);
        // Notices are sent to the address of the process that may hold the node's number.
        let contends = matches!(
            answer,
            Message::Refusal {
                reason: Reason::Occupied | Reason::Taken | Reason::Superseded { .. } | Reason::UnknownNode,
                ..
            }
        );
        if !contends {
            self.addresses[node.index()] = Some(from);
        }
        if epoch != before {
            self.notify(Some(node), epoch);
        } else if was_leased && !self.service.is_leased(node) && heartbeat.status.state == EngineState::Lost {
            // The next view waits for a heartbeat of another member, so notify the others, who then send one.
            // Notify them only once, when the lease is given up: if no view follows because the cluster has
            // halted, lost engines would otherwise notify each other for ever.
            self.notify(Some(node), Epoch(told.0.saturating_add(1)));
        }
        Ok(())
    }

    /// Compares the profile of a starting node with those of the others.
    fn register(
        &mut self,
        heartbeat: Heartbeat,
        profile: Option<&Profile>,
    ) -> Result<Option<Mismatch>, MessageError> {
        let is_starting = heartbeat.status.state == EngineState::Starting;
        let Some(registry) = self.registry.as_mut().filter(|_| is_starting) else { return Ok(None) };
        let Some(profile) = profile else {
            self.counters.datagrams_malformed += 1;
            return Err(MessageError::Field("profile"));
        };
        // The service itself refuses the number of a node that does not exist.
        if heartbeat.node.index() >= self.service.size().0 {
            return Ok(None);
        }
        let members = self.service.decided().members();
        Ok(registry.register(heartbeat.node, profile, members).map(Mismatch::Configuration))
    }

    fn turn_away(&mut self, from: A, token: Token, heartbeat: Heartbeat, mismatch: Mismatch) {
        self.counters.heartbeats_of_misfits += 1;
        let Heartbeat { node, incarnation, .. } = heartbeat;
        let answer = match mismatch {
            Mismatch::Cluster { theirs, .. } => {
                Message::OtherCluster { node, incarnation, token, name: theirs }
            }
            Mismatch::Configuration(difference) => {
                Message::OtherConfiguration { node, incarnation, token, difference }
            }
        };
        self.push(from, &answer);
        let told = &mut self.told[node.index()];
        if *told != Some(incarnation) && self.mismatches.len() < MISFITS_MAX {
            *told = Some(incarnation);
            self.mismatches.push_back(Refused { from, node, mismatch });
        }
    }

    /// The next misconfigured node to report to the operator. Each incarnation is reported once.
    pub fn poll_refused(&mut self) -> Option<Refused<A>> {
        self.mismatches.pop_front()
    }

    /// Members that the next view excludes because they and others do not receive each other's beacons.
    pub fn partitioned(&self) -> NodeSet {
        self.service.partitioned()
    }

    /// The profile on which the nodes that have registered agree.
    pub fn agreed(&self) -> Option<Profile> {
        self.registry.as_ref().and_then(Registry::agreed)
    }

    /// Advances the time: see [`Service::tick`].
    pub fn tick(&mut self, now: Instant) {
        self.run(now);
        let before = self.service.decided().epoch;
        self.service.tick(now);
        let epoch = self.service.decided().epoch;
        if epoch != before {
            self.notify(None, epoch);
        }
    }

    /// Notes that the server runs at `now`. If it has not run for long although it was due, it has heard nothing since.
    fn run(&mut self, now: Instant) {
        if let Some(ran) = self.ran.replace(now)
            && now.saturating_since(ran) > self.service.lease() / PAUSES_PER_LEASE
        {
            self.service.note_pause(ran, now);
        }
    }

    /// When [`Server::tick`] must be called if no datagram arrives before.
    pub fn next_deadline(&self) -> Instant {
        let looks =
            self.ran.map_or(Instant::FAR_FUTURE, |ran| ran + self.service.lease() / (2 * PAUSES_PER_LEASE));
        looks.min(self.service.next_deadline())
    }

    /// The snapshot that must be stored, unless one is being stored.
    #[must_use]
    pub fn take_unsaved(&mut self) -> Option<Durable> {
        let durable = self.service.take_unsaved()?;
        #[cfg(feature = "planted-bugs")]
        let durable = match self.planted_bug {
            Some(PlantedBug::AnswerBeforeStored) => {
                let former = self.kept_back.replace(durable);
                self.publish(Instant::ZERO);
                former?
            }
            _ => durable,
        };
        Some(match &self.registry {
            Some(registry) => durable.of_cluster(self.cluster, registry.agreed()),
            None => durable,
        })
    }

    /// Notes that the snapshot which was taken last is on stable storage at `now`.
    ///
    /// # Panics
    /// If no snapshot is being stored.
    pub fn stored(&mut self, now: Instant) {
        #[cfg(feature = "planted-bugs")]
        if self.planted_bug == Some(PlantedBug::AnswerBeforeStored) {
            return;
        }
        self.publish(now);
    }

    /// Lets go what depends on the snapshot.
    fn publish(&mut self, now: Instant) {
        self.service.stored(now);
        self.queue.append(&mut self.held);
    }

    /// The next datagram to send, with its destination.
    pub fn poll_transmit(&mut self) -> Option<(A, Datagram)> {
        self.queue.pop_front()
    }

    /// Status of the service.
    pub fn status(&self, now: Instant) -> ServiceStatus {
        ServiceStatus {
            cluster: self.cluster,
            phase: self.service.phase(),
            view: self.service.view(),
            replicas: self.service.size().1 as u8,
            holder: None,
            term: self.term,
            nodes: self.service.members_at(now),
        }
    }

    /// The service behind this server.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Counters of received and refused messages.
    pub fn counters(&self) -> ServerCounters {
        self.counters
    }

    /// Notifies every node but `except` of a new view, so that it takes effect before their next regular
    /// heartbeats.
    fn notify(&mut self, except: Option<NodeId>, epoch: Epoch) {
        for node in (0..NODES_MAX).filter_map(NodeId::new) {
            if let Some(address) = self.addresses[node.index()].filter(|_| Some(node) != except) {
                self.push(address, &Message::Notice { node, epoch });
            }
        }
    }

    fn push(&mut self, to: A, message: &Message) {
        if self.queue.len() + self.held.len() == QUEUE_MAX {
            self.counters.answers_overflowed += 1;
            return;
        }
        let queue = if self.service.has_unsaved() { &mut self.held } else { &mut self.queue };
        queue.push_back((to, message.encode(self.cluster.id())));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_time::Duration;

    use super::*;
    use crate::identity::ClusterId;
    use crate::profile::tests::{ledger, store};
    use crate::service::ServiceParameters;
    use weft_waist::EngineStatus;

    fn server(nodes: usize) -> Server<u16> {
        Server::new(Service::new(ServiceParameters::new(nodes, Duration::from_ms(100))))
    }

    fn heartbeat(node: usize, token: u64) -> Datagram {
        let (node, incarnation) = (NodeId::new(node).unwrap(), Incarnation::FIRST);
        Message::Heartbeat {
            token,
            heartbeat: Heartbeat {
                node,
                incarnation,
                status: EngineStatus::STARTING,
                receives_from: NodeSet::first(16),
                claim: None,
            },
            profile: None,
        }
        .encode(ClusterId::default())
    }

    #[test]
    fn an_operator_is_told_who_is_left_out_because_it_does_not_hear_the_others() {
        let mut server = server(2);
        assert_eq!(server.partitioned(), NodeSet::EMPTY);
        for ms in (0..=80).step_by(10) {
            for index in 0..2 {
                let node = NodeId::new(index).unwrap();
                let heartbeat = Heartbeat {
                    node,
                    incarnation: Incarnation::FIRST,
                    status: match server.service().view().epoch {
                        Epoch(0) => EngineStatus::STARTING,
                        epoch => EngineStatus { epoch, state: EngineState::Full },
                    },
                    receives_from: NodeSet::EMPTY.with(node),
                    claim: None,
                };
                let message = Message::Heartbeat { token: ms, heartbeat, profile: None };
                let bytes = message.encode(ClusterId::default());
                let _ = server.receive(Instant::ZERO + Duration::from_ms(ms), index as u16, &bytes);
            }
        }
        assert_eq!(server.partitioned(), NodeSet::EMPTY.with(NodeId::new(1).unwrap()));
    }

    fn registration(cluster: &str, node: usize, profile: Profile) -> Datagram {
        let (node, incarnation) = (NodeId::new(node).unwrap(), Incarnation::FIRST);
        let heartbeat = Heartbeat {
            node,
            incarnation,
            status: EngineStatus::STARTING,
            receives_from: NodeSet::first(16),
            claim: None,
        };
        let cluster = ClusterName::new(cluster).unwrap().id();
        Message::Heartbeat { token: 1, heartbeat, profile: Some(profile) }.encode(cluster)
    }

    fn sent(server: &mut Server<u16>) -> Vec<String> {
        if server.take_unsaved().is_some() {
            server.stored(Instant::ZERO);
        }
        texts(server)
    }

    fn texts(server: &mut Server<u16>) -> Vec<String> {
        std::iter::from_fn(|| server.poll_transmit())
            .map(|(to, bytes)| format!("{to} {}", Message::decode(&bytes).unwrap().1))
            .collect()
    }

    #[test]
    fn a_node_of_another_cluster_founds_nothing() {
        let mut server = server(2).of_cluster(ClusterName::new("ledger").unwrap(), None);
        server.receive(Instant::ZERO, 100, &registration("ledger", 0, ledger(2, 10))).unwrap();
        server.receive(Instant::ZERO, 101, &registration("weft", 1, ledger(2, 10))).unwrap();
        server.receive(Instant::ZERO, 101, &registration("weft", 1, ledger(2, 10))).unwrap();
        assert_eq!(
            sent(&mut server),
            [
                "100 refusal node0#1 at epoch 0: Waiting",
                "101 refusal node1#1: of cluster ledger",
                "101 refusal node1#1: of cluster ledger",
            ]
        );
        assert_eq!(server.poll_refused().unwrap().from, 101);
        assert_eq!(server.poll_refused(), None, "each life is told of once");
        assert_eq!(server.counters().list()[2], ("heartbeats_of_misfits", 2));
    }

    #[test]
    fn a_node_reports_from_where_its_peers_know_it() {
        let mut server = server(2).of_cluster(ClusterName::default(), None);
        let own = |node: usize| IpAddr::from([10, 0, 0, node as u8 + 1]);
        let from = |from: IpAddr| move |node: NodeId| Origin::at_address(from, own(node.index()));
        for node in [0, 1] {
            let bytes = registration("weft", node, ledger(2, 10));
            server.receive_from(Instant::ZERO, 100, &bytes, from(own(node))).unwrap();
        }
        sent(&mut server);
        assert_eq!(server.service().view().epoch.0, 1);
        // The same heartbeat from another address renews nothing.
        let before = server.service().clone();
        server.receive_from(Instant::ZERO, 666, &heartbeat(1, 9), from(own(7))).unwrap();
        assert_eq!(
            sent(&mut server),
            ["666 refusal node1#1: [[node]] 1 is 10.0.0.8 here and 10.0.0.2 at the membership service; \
              make the configurations agree"]
        );
        assert_eq!(format!("{:?}", server.service()), format!("{before:?}"));
        // A node known by name may be there soon: it gets no answer, and repeats its heartbeat.
        server.receive_from(Instant::ZERO, 666, &heartbeat(1, 10), |_| Origin::Elsewhere).unwrap();
        assert_eq!(sent(&mut server), [""; 0]);
        assert_eq!(format!("{:?}", server.service()), format!("{before:?}"));
        assert_eq!(server.counters().list()[5], ("heartbeats_from_elsewhere", 1));
    }

    #[test]
    fn a_node_that_is_configured_in_another_way_does_not_count() {
        let mut server = server(2).of_cluster(ClusterName::default(), None);
        server.receive(Instant::ZERO, 100, &registration("weft", 0, ledger(2, 1_000))).unwrap();
        server.receive(Instant::ZERO, 101, &registration("weft", 1, store(2, 64))).unwrap();
        assert_eq!(server.service().view().epoch.0, 0);
        assert_eq!(
            server.poll_refused().unwrap().to_string(),
            "refuses node 1 at 101: [kv] is present there and absent at node 0"
        );
        assert_eq!(
            sent(&mut server)[1],
            "101 refusal node1#1: [kv] is present here and absent at node 0; \
             make the configurations agree"
        );
        assert!(
            server.receive(Instant::ZERO, 101, &heartbeat(1, 3)).is_err(),
            "who tells nothing founds nothing"
        );
        server.receive(Instant::ZERO, 101, &registration("weft", 1, ledger(2, 1_000))).unwrap();
        let durable = server.take_unsaved().unwrap();
        assert_eq!(durable.profile(), Some(ledger(2, 1_000)));
        assert_eq!(Durable::from_toml(&durable.to_toml()), Ok(durable));
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    #[test]
    fn what_depends_on_a_view_leaves_when_it_is_stored() {
        let mut server = server(2);
        server.receive(at(0), 100, &heartbeat(0, 5)).unwrap();
        server.receive(at(0), 101, &heartbeat(1, 6)).unwrap();
        assert_eq!(texts(&mut server), ["100 refusal node0#1 at epoch 0: Waiting"]);
        let decided = server.take_unsaved().unwrap().view();
        server.receive(at(1), 100, &heartbeat(0, 7)).unwrap();
        assert_eq!(texts(&mut server), ["100 refusal node0#1 at epoch 0: Waiting"], "no stored view has it");
        assert_eq!((server.service().view().epoch, server.status(at(1)).view.epoch), (Epoch(0), Epoch(0)));
        assert_eq!(server.take_unsaved(), None, "it is being stored");
        server.stored(at(2));
        assert_eq!(server.service().view(), decided);
        assert_eq!(
            texts(&mut server),
            ["101 grant node1#1 epoch 1: full {0, 1} joining {} for 100 ms", "100 notice node0 epoch 1",]
        );
    }

    /// A server of two full members, which were last heard at 10 ms.
    fn running() -> Server<u16> {
        let mut server = server(2);
        let report = |server: &mut Server<u16>, ms, node, state| {
            report(server, at(ms), node, state);
            sent(server);
        };
        for (ms, state) in [(0, EngineState::Starting), (10, EngineState::Full)] {
            (0..2).for_each(|node| report(&mut server, ms, node, state));
        }
        server
    }

    fn report(server: &mut Server<u16>, now: Instant, node: usize, state: EngineState) {
        let epoch = if state == EngineState::Starting { Epoch(0) } else { Epoch(1) };
        let (node, incarnation) = (NodeId::new(node).unwrap(), Incarnation::FIRST);
        let status = EngineStatus { epoch, state };
        let heartbeat =
            Heartbeat { node, incarnation, status, receives_from: NodeSet::first(16), claim: None };
        let message = Message::Heartbeat { token: 1, heartbeat, profile: None };
        server.receive(now, 0, &message.encode(ClusterId::default())).unwrap();
    }

    #[test]
    fn the_time_in_which_the_server_did_not_run_is_nobodys_silence() {
        // It did not run from 20 to 120 ms. What both have sent meanwhile is read now.
        let mut server = running();
        server.tick(at(20));
        report(&mut server, at(120), 0, EngineState::Full);
        server.tick(at(120));
        report(&mut server, at(121), 1, EngineState::Full);
        assert_eq!(server.service().view(), server.service().decided());
        assert_eq!(server.service().view().full.len(), 2);
        // Node 1 is silent from here on, and the server is always late. It prolongs the lease only once.
        let mut late = (150..500).step_by(30).map(|ms| {
            report(&mut server, at(ms), 0, EngineState::Full);
            (ms, server.service().decided().full.len())
        });
        assert_eq!(late.find(|(_, full)| *full == 1), Some((240, 1)), "a quarter of a lease after 210 ms");
    }

    #[test]
    fn a_server_looks_often_enough_to_notice_that_it_did_not_run() {
        let mut server = running();
        for step in 1..100 {
            let due = server.next_deadline();
            assert!(due <= at(10) + Duration::from_us(12_500) * step, "{due:?}");
            server.tick(due);
            report(&mut server, due, 0, EngineState::Full);
            if server.service().decided().full.len() == 1 {
                assert!((at(110)..at(125)).contains(&due), "nothing was missed: {due:?}");
                return;
            }
        }
        panic!("the silent member stays");
    }

    #[test]
    fn a_host_that_does_not_send_loses_answers_only() {
        let mut server = server(2);
        for token in 0..100 {
            server.receive(Instant::ZERO, 100, &heartbeat(0, token)).unwrap();
        }
        assert_eq!(server.counters().list()[4], ("answers_overflowed", 36));
        assert_eq!(std::iter::from_fn(|| server.poll_transmit()).count(), 64);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_counted(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
            let mut server = server(2);
            prop_assert!(server.receive(Instant::ZERO, 0, &bytes).is_err());
            prop_assert_eq!(server.counters().list()[3], ("datagrams_malformed", 1));
            prop_assert_eq!(server.poll_transmit(), None);
        }
    }

    #[test]
    fn lost_engines_of_a_halted_cluster_do_not_wake_one_another() {
        let record = crate::NodeRecord { role: crate::Role::Full, incarnation: Some(Incarnation::FIRST) };
        let halted = Durable::new(Epoch(3), true, vec![record; 2]).unwrap();
        let parameters = ServiceParameters::new(2, Duration::from_ms(10));
        let mut server = Server::new(Service::restore(parameters, &halted, Instant::ZERO).unwrap());
        for node in [0, 1, 0] {
            let status = EngineStatus { epoch: Epoch(3), state: EngineState::Lost };
            let node = NodeId::new(node).unwrap();
            let heartbeat = Heartbeat {
                node,
                incarnation: Incarnation::FIRST,
                status,
                receives_from: NodeSet::first(16),
                claim: None,
            };
            let bytes =
                Message::Heartbeat { token: 1, heartbeat, profile: None }.encode(ClusterId::default());
            server.receive(Instant::ZERO, node.index(), &bytes).unwrap();
            let told: Vec<_> = std::iter::from_fn(|| server.poll_transmit()).map(|(to, _)| to).collect();
            assert_eq!(told, [node.index()], "a refusal, and no notice for others");
        }
    }
}
