//! The agent: it runs on a node's host and holds the node's lease.

use weft_time::{Duration, Instant};
use weft_waist::{Configuration, EngineState, EngineStatus, Epoch, NODES_MAX, NodeId, NodeSet, View};

use crate::identity::ClusterName;
use crate::lease::LEASE_MIN;
use crate::membership::{Action, Incarnation, Membership, Reason};
use crate::message::{Datagram, Heartbeat, Message, MessageError, Token};
#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;
use crate::profile::{Difference, Profile};

/// Number of heartbeats that an agent remembers. Answers to older heartbeats are ignored.
const REMEMBERED: usize = 16;
/// Number of unanswered heartbeats after which an agent tries the next keeper.
const PATIENCE: u32 = 2;

/// Intervals of an agent's heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentParameters {
    /// The time between heartbeats while the node holds no lease.
    pub idle_interval: Duration,
    /// Heartbeats per lease. An unanswered heartbeat is repeated after a quarter of their interval.
    pub per_lease: u32,
    /// Number of keepers of the membership service; 1 if the service is one process. The agent reports to
    /// [`Agent::keeper`].
    pub keepers: usize,
}

impl Default for AgentParameters {
    /// Every 50 ms without a lease; four heartbeats per lease, so that the loss of three in a row does no harm.
    fn default() -> Self {
        Self { idle_interval: Duration::from_ms(50), per_lease: 4, keepers: 1 }
    }
}

/// The client of the embedded membership service on each node's host: one agent for each incarnation of the node's
/// engine.
///
/// Whenever an event has occurred or [`Membership::next_deadline`] has come, the host sends the heartbeat that
/// [`Agent::poll_transmit`] returns, forwards [`Membership::poll_configuration`] to the engine, and carries out
/// [`Membership::poll_action`]. After an action the agent sends nothing more; for [`Action::Restart`] the host
/// makes a new agent.
#[derive(Clone, Debug)]
pub struct Agent {
    node: NodeId,
    incarnation: Incarnation,
    parameters: AgentParameters,
    cluster: ClusterName,
    profile: Option<Profile>,
    mismatch: Option<Mismatch>,
    status: EngineStatus,
    /// The other nodes from which this node receives beacons; all, until [`Agent::peers_heard`] is called.
    peers_heard: NodeSet,
    view: View,
    /// The greatest term of the membership service that has answered.
    term: u32,
    /// The keeper to which heartbeats go.
    keeper: usize,
    /// Number of heartbeats sent to it since the last answer.
    unanswered: u32,
    lease_until: Instant,
    /// The length of the last lease granted, or the length of leases that a peer has reported.
    lease: Option<Duration>,
    refusal: Option<Reason>,
    next_token: Token,
    /// When the latest heartbeats were sent; that of token `t` is at index `t % REMEMBERED`.
    sent: [Option<(Token, Instant)>; REMEMBERED],
    last_sent: Option<Instant>,
    /// Whether an answer has arrived since the last heartbeat was sent.
    answered: bool,
    /// When the newest heartbeat that was answered had been sent.
    newest_answered: Option<Instant>,
    /// Whether the last heartbeat reported that this node receives the service's answers.
    has_told_service: bool,
    /// Since when a heartbeat is due outside the regular interval.
    urgent_since: Option<Instant>,
    reconfigured: bool,
    action: Option<Action>,
    ended: bool,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<PlantedBug>,
}

/// Why a node does not belong to the cluster of the membership service that it has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The service belongs to another cluster.
    #[error(
        "[cluster] name = \"{ours}\" here and \"{theirs}\" at the membership service; correct the name, or the \
         service's address"
    )]
    Cluster {
        /// Name of the node's cluster.
        ours: ClusterName,
        /// Name of the service's cluster.
        theirs: ClusterName,
    },
    /// The node's configuration differs from that of the other nodes.
    #[error("{0}")]
    Configuration(Difference),
}

/// Why an agent ignores a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The datagram is no valid message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The message is for another node or another incarnation, or of a kind that a service does not send.
    #[error("the message is not for this node's agent")]
    NotForUs,
    /// The message belongs to another cluster.
    #[error("the message is another cluster's")]
    OtherCluster,
    /// The message answers a heartbeat that was not sent, is too old, or has been answered.
    #[error("the message answers no heartbeat that waits for an answer")]
    Unexpected,
    /// The message comes from a keeper that has been succeeded.
    #[error("the message is of an earlier term of the membership service")]
    EarlierTerm,
    /// The message has another view for an epoch whose view is known.
    #[error("the membership service contradicts itself about a view")]
    Contradiction,
}

impl Agent {
    /// An agent for `node` in `incarnation`, with an empty engine.
    ///
    /// # Panics
    /// If a parameter is zero.
    pub fn new(node: NodeId, incarnation: Incarnation, parameters: AgentParameters) -> Self {
        assert!(parameters.per_lease > 0, "an agent sends heartbeats");
        assert!(parameters.idle_interval > Duration::ZERO, "an agent rests between heartbeats");
        assert!(parameters.keepers > 0, "somebody keeps the membership service");
        Self {
            node,
            incarnation,
            parameters,
            cluster: ClusterName::default(),
            profile: None,
            mismatch: None,
            status: EngineStatus::STARTING,
            peers_heard: NodeSet::first(NODES_MAX),
            view: View::default(),
            term: 0,
            keeper: 0,
            unanswered: 0,
            lease_until: Instant::ZERO,
            lease: None,
            refusal: None,
            next_token: 1,
            sent: [None; REMEMBERED],
            last_sent: None,
            answered: false,
            newest_answered: None,
            has_told_service: false,
            urgent_since: None,
            reconfigured: false,
            action: None,
            ended: false,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }

    /// The same agent with a deliberate bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: PlantedBug) -> Self {
        Self { planted_bug: Some(bug), ..self }
    }

    /// The same agent as a member of `cluster`, whose nodes must agree on `profile`.
    #[must_use]
    pub fn of_cluster(self, cluster: ClusterName, profile: Profile) -> Self {
        Self { cluster, profile: Some(profile), ..self }
    }

    /// The same agent in the process of `former`, whose node's engine was emptied: it reports to the same keeper, and
    /// does not listen to earlier terms either.
    #[must_use]
    pub fn after(self, former: &Self) -> Self {
        Self { term: former.term, keeper: former.keeper, ..self }
    }

    /// Number of the keeper to which the next heartbeat goes: the one that answered last, until it is silent or
    /// names another one.
    pub const fn keeper(&self) -> usize {
        self.keeper
    }

    /// The greatest term of the membership service that has answered.
    pub const fn term(&self) -> u32 {
        self.term
    }

    /// The heartbeat to send to the service at `now`, if one is due. The caller must read the clock before it
    /// sends the heartbeat.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if now < self.next_deadline() {
            return None;
        }
        if !self.answered && self.unanswered >= PATIENCE {
            self.turn_to((self.keeper + 1) % self.parameters.keepers);
        }
        self.unanswered += 1;
        let token = self.next_token;
        self.next_token += 1;
        self.sent[token as usize % REMEMBERED] = Some((token, now));
        self.last_sent = Some(now);
        self.answered = false;
        self.urgent_since = None;
        // The service has lost its state, and can continue from this view.
        let claim = Some(self.view).filter(|view| {
            self.refusal == Some(Reason::Ahead)
                && self.status.state != EngineState::Starting
                && view.members().contains(self.node)
        });
        let receives_from = self.receives_from(now);
        self.has_told_service = receives_from.contains(self.node);
        let heartbeat = Heartbeat {
            node: self.node,
            incarnation: self.incarnation,
            status: self.status,
            receives_from,
            claim,
        };
        let profile = self.profile.clone().filter(|_| self.status.state == EngineState::Starting);
        Some(Message::Heartbeat { token, heartbeat, profile }.encode(self.cluster.id()))
    }

    /// Processes a datagram from the service.
    ///
    /// # Errors
    /// Why the datagram is ignored; it has changed nothing then.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) -> Result<(), ReceiveError> {
        if self.ended {
            return Err(ReceiveError::NotForUs);
        }
        let (cluster, message) = Message::decode(bytes)?;
        if cluster != self.cluster.id() && !matches!(message, Message::OtherCluster { .. }) {
            return Err(ReceiveError::OtherCluster);
        }
        match message {
            Message::Grant { node, incarnation, token, term, view, lease } => {
                self.check_recipient(node, incarnation)?;
                self.check_term(term)?;
                if view.epoch == self.view.epoch && view != self.view {
                    return Err(ReceiveError::Contradiction);
                }
                let sent = self.answered(token)?;
                self.term = term;
                #[cfg(feature = "planted-bugs")]
                let sent = if self.planted_bug == Some(PlantedBug::LeaseFromReceipt) { now } else { sent };
                self.lease = Some(lease);
                self.refusal = None;
                self.mismatch = None;
                self.accept(view, sent + lease);
            }
            Message::Refusal { node, incarnation, token, term, reason, epoch: _ } => {
                self.check_recipient(node, incarnation)?;
                self.check_term(term)?;
                self.answered(token)?;
                self.term = term;
                self.refusal = Some(reason);
                self.action = match reason {
                    Reason::Rejoin => Some(Action::Restart { incarnation: self.incarnation.next() }),
                    // If another process of this node is alive, this process will be refused when it reports as a
                    // new incarnation.
                    Reason::Superseded { by } => {
                        Some(Action::Restart { incarnation: by.max(self.incarnation).next() })
                    }
                    Reason::Taken => Some(Action::Stop),
                    Reason::Waiting
                    | Reason::Halted
                    | Reason::UnknownNode
                    | Reason::Ahead
                    | Reason::Occupied
                    | Reason::Partitioned => None,
                };
                self.ended = self.action.is_some();
            }
            Message::Elsewhere { node, incarnation, token, holder } => {
                self.check_recipient(node, incarnation)?;
                self.take_sent(token)?;
                let next = (self.keeper + 1) % self.parameters.keepers;
                match holder.map(NodeId::index).filter(|&holder| holder < self.parameters.keepers) {
                    Some(holder) if holder != self.keeper => {
                        self.turn_to(holder);
                        self.urgent_since.get_or_insert(now);
                    }
                    // It names itself, or nobody: the next keeper is asked at the next heartbeat.
                    _ => self.turn_to(next),
                }
                return Ok(());
            }
            Message::Notice { node, epoch } => {
                if node != self.node {
                    return Err(ReceiveError::NotForUs);
                }
                if epoch > self.view.epoch {
                    self.urgent_since.get_or_insert(now);
                }
            }
            Message::OtherCluster { node, incarnation, token, name } => {
                self.check_recipient(node, incarnation)?;
                self.answered(token)?;
                self.end_with(Mismatch::Cluster { ours: self.cluster, theirs: name });
            }
            Message::OtherConfiguration { node, incarnation, token, difference } => {
                self.check_recipient(node, incarnation)?;
                self.answered(token)?;
                self.end_with(Mismatch::Configuration(difference));
            }
            Message::Heartbeat { .. } | Message::Beacon { .. } => return Err(ReceiveError::NotForUs),
        }
        // The service admits a new node to a view only after a heartbeat in which the node reports that it
        // receives the service's answers.
        if self.refusal == Some(Reason::Waiting) && !self.has_told_service {
            self.urgent_since.get_or_insert(now);
        }
        Ok(())
    }

    /// Ends an agent whose node was never a member. A node that holds data waits for a service of its own cluster
    /// instead: a service started with a wrong name must not stop all nodes.
    fn end_with(&mut self, mismatch: Mismatch) {
        self.mismatch = Some(mismatch);
        if self.view.epoch == Epoch(0) {
            self.action = Some(Action::Stop);
            self.ended = true;
        }
    }

    /// Reports to the service that the engine has stopped for good, so that the service need not wait for the end
    /// of the lease. [`Agent::has_left`] tells when the service has confirmed it. Call it after the engine has
    /// stopped, not before.
    pub fn leave(&mut self, now: Instant) {
        self.status.state = EngineState::Lost;
        self.lease_until = Instant::ZERO;
        self.urgent_since.get_or_insert(now);
    }

    /// Whether the node has left: the service has confirmed it, or the node was never a member.
    pub fn has_left(&self) -> bool {
        self.ended || self.view.epoch == Epoch(0)
    }

    /// Sets the nodes from which this node receives beacons. If they have changed, the service is notified at
    /// once.
    pub fn peers_heard(&mut self, now: Instant, peers: NodeSet) {
        let peers = peers.without(self.node);
        if std::mem::replace(&mut self.peers_heard, peers) != peers && !self.ended {
            self.urgent_since.get_or_insert(now);
        }
    }

    /// Sets the length of leases that a peer has reported. With it, a node without a lease sends as many
    /// heartbeats as one with a lease.
    pub fn learn_lease(&mut self, lease: Duration) {
        self.lease.get_or_insert(lease);
    }

    /// The peers from which the node receives beacons, and the node itself if it receives the service's answers.
    fn receives_from(&self, now: Instant) -> NodeSet {
        let is_late = |sent: Instant| self.lease.is_some_and(|lease| now.saturating_since(sent) >= lease);
        match self.newest_answered {
            Some(sent) if !is_late(sent) => self.peers_heard.with(self.node),
            _ => self.peers_heard.without(self.node),
        }
    }

    /// Why the service refuses this node for good, if it does.
    pub fn mismatch(&self) -> Option<Mismatch> {
        self.mismatch
    }

    /// The node to which this agent belongs.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Incarnation of the node's engine.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The newest view that the agent has received.
    pub fn view(&self) -> View {
        self.view
    }

    /// End of the lease, on the node's clock. From that instant on the node serves no requests.
    pub fn lease_until(&self) -> Instant {
        self.lease_until
    }

    /// Length of the last lease granted, or the length of leases that a peer has reported.
    pub const fn lease(&self) -> Option<Duration> {
        self.lease
    }

    fn check_recipient(&self, node: NodeId, incarnation: Incarnation) -> Result<(), ReceiveError> {
        let is_ours = node == self.node && incarnation == self.incarnation;
        if is_ours { Ok(()) } else { Err(ReceiveError::NotForUs) }
    }

    /// Keepers that have been succeeded are not listened to.
    fn check_term(&self, term: u32) -> Result<(), ReceiveError> {
        #[cfg(feature = "planted-bugs")]
        if self.planted_bug == Some(PlantedBug::EarlierTermAccepted) {
            return Ok(());
        }
        if term < self.term { Err(ReceiveError::EarlierTerm) } else { Ok(()) }
    }

    /// Reports to another keeper from now on.
    fn turn_to(&mut self, keeper: usize) {
        (self.keeper, self.unanswered) = (keeper, 0);
    }

    /// Returns when the heartbeat of `token` was sent. It is returned once.
    fn take_sent(&mut self, token: Token) -> Result<Instant, ReceiveError> {
        let place = &mut self.sent[token as usize % REMEMBERED];
        let (_, sent) = place.take_if(|(known, _)| *known == token).ok_or(ReceiveError::Unexpected)?;
        Ok(sent)
    }

    /// Returns when the heartbeat of `token` was sent, and marks it as answered by the service.
    fn answered(&mut self, token: Token) -> Result<Instant, ReceiveError> {
        let sent = self.take_sent(token)?;
        (self.answered, self.unanswered) = (true, 0);
        self.newest_answered = self.newest_answered.max(Some(sent));
        Ok(sent)
    }

    /// A lease counts from the sending of its own heartbeat, so that a late answer extends it by less. The
    /// service's guarantee is about time, not about the view that came with the lease: the lease remains valid in
    /// later views.
    fn accept(&mut self, view: View, lease_until: Instant) {
        if view.epoch > self.view.epoch {
            self.view = view;
            self.reconfigured = true;
        }
        if lease_until > self.lease_until {
            self.lease_until = lease_until;
            self.reconfigured = true;
        }
    }

    fn interval(&self) -> Duration {
        match self.lease {
            Some(lease) => lease.max(LEASE_MIN) / u64::from(self.parameters.per_lease),
            None => self.parameters.idle_interval,
        }
    }
}

impl Membership for Agent {
    fn engine_status(&mut self, now: Instant, status: EngineStatus) {
        if status != self.status {
            let urgent = matches!(
                status.state,
                EngineState::Joining { synced: true }
                    | EngineState::Lost
                    | EngineState::Restored
                    | EngineState::Sealed
            );
            self.status = status;
            if urgent {
                self.urgent_since.get_or_insert(now);
            }
        }
    }

    fn poll_configuration(&mut self) -> Option<Configuration> {
        std::mem::take(&mut self.reconfigured).then_some(Configuration {
            node: self.node,
            view: self.view,
            lease_until: self.lease_until,
        })
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    fn next_deadline(&self) -> Instant {
        if self.ended {
            return Instant::FAR_FUTURE;
        }
        let pause = if self.answered { self.interval() } else { self.interval() / 4 };
        let regular = self.last_sent.map_or(Instant::ZERO, |sent| sent + pause);
        self.urgent_since.map_or(regular, |since| regular.min(since))
    }

    fn refusal(&self) -> Option<Reason> {
        self.refusal
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::ClusterId;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn agent() -> Agent {
        Agent::new(NodeId::new(1).unwrap(), Incarnation::new(7).unwrap(), AgentParameters::default())
    }

    fn token(agent: &mut Agent, ms: u64) -> Token {
        match Message::decode(&agent.poll_transmit(at(ms)).expect("a heartbeat is due")) {
            Ok((_, Message::Heartbeat { token, .. })) => token,
            other => panic!("{other:?}"),
        }
    }

    fn grant(token: Token, epoch: u32) -> Datagram {
        let view = View { epoch: Epoch(epoch), full: NodeSet::first(3), joining: NodeSet::EMPTY };
        let (node, incarnation) = (NodeId::new(1).unwrap(), Incarnation::new(7).unwrap());
        Message::Grant { node, incarnation, token, term: 0, view, lease: Duration::from_ms(100) }
            .encode(ClusterId::default())
    }

    fn refusal(token: Token, reason: Reason) -> Datagram {
        let (node, incarnation) = (NodeId::new(1).unwrap(), Incarnation::new(7).unwrap());
        Message::Refusal { node, incarnation, token, term: 0, epoch: Epoch(3), reason }
            .encode(ClusterId::default())
    }

    #[test]
    fn a_lease_counts_from_the_heartbeat_that_it_answers() {
        let mut agent = agent();
        let first = token(&mut agent, 10);
        let second = token(&mut agent, 30);
        agent.receive(at(40), &grant(second, 1)).unwrap();
        let configuration = agent.poll_configuration().unwrap();
        assert_eq!(configuration.lease_until, at(130));
        assert_eq!(configuration.view.epoch, Epoch(1));
        // The late answer to the earlier heartbeat neither shortens nor extends the lease.
        agent.receive(at(50), &grant(first, 1)).unwrap();
        assert_eq!(agent.poll_configuration(), None);
        assert_eq!(agent.lease_until(), at(130));
        // A duplicate of an answer is ignored.
        assert_eq!(agent.receive(at(60), &grant(second, 1)), Err(ReceiveError::Unexpected));
        assert_eq!(agent.receive(at(60), &grant(99, 1)), Err(ReceiveError::Unexpected));
    }

    #[test]
    fn a_node_that_never_was_a_member_gives_up_when_told_that_it_does_not_fit() {
        let (node, incarnation) = (NodeId::new(1).unwrap(), Incarnation::new(7).unwrap());
        let name = ClusterName::new("ledger").unwrap();
        let foreign = |token| Message::OtherCluster { node, incarnation, token, name }.encode(name.id());
        let mut newcomer = agent();
        let first = token(&mut newcomer, 10);
        newcomer.receive(at(11), &foreign(first)).unwrap();
        assert_eq!(newcomer.poll_action(), Some(Action::Stop));
        let told = newcomer.mismatch().unwrap().to_string();
        assert!(
            told.starts_with("[cluster] name = \"weft\" here and \"ledger\" at the membership service"),
            "{told}"
        );

        // A node that holds data waits: the service may have been started with a wrong configuration.
        let mut member = agent();
        let first = token(&mut member, 10);
        member.receive(at(11), &grant(first, 1)).unwrap();
        let second = token(&mut member, 50);
        member.receive(at(51), &foreign(second)).unwrap();
        assert_eq!(member.poll_action(), None);
        assert!(member.mismatch().is_some());
        let third = token(&mut member, 90);
        member.receive(at(91), &grant(third, 1)).unwrap();
        assert_eq!(member.mismatch(), None);
    }

    #[test]
    fn a_node_that_leaves_tells_the_service_at_once() {
        let mut agent = agent();
        assert!(agent.has_left(), "nobody knows it");
        let first = token(&mut agent, 10);
        agent.receive(at(11), &grant(first, 1)).unwrap();
        assert!(!agent.has_left());
        agent.leave(at(12));
        assert_eq!(agent.lease_until(), Instant::ZERO);
        let (_, message) = Message::decode(&agent.poll_transmit(at(12)).unwrap()).unwrap();
        let Message::Heartbeat { token, heartbeat, .. } = message else { panic!("{message}") };
        assert_eq!(heartbeat.status.state, EngineState::Lost);
        agent.receive(at(13), &refusal(token, Reason::Rejoin)).unwrap();
        assert!(agent.has_left());
    }

    #[test]
    fn a_grant_of_another_cluster_is_none() {
        let mut agent = agent();
        let first = token(&mut agent, 10);
        let (_, message) = Message::decode(&grant(first, 1)).unwrap();
        let other = ClusterName::new("ledger").unwrap().id();
        assert_eq!(agent.receive(at(11), &message.encode(other)), Err(ReceiveError::OtherCluster));
        assert_eq!(agent.lease_until(), Instant::ZERO);
    }

    #[test]
    fn an_unanswered_heartbeat_is_repeated_soon() {
        let mut agent = agent();
        assert_eq!(agent.next_deadline(), Instant::ZERO);
        let first = token(&mut agent, 0);
        assert_eq!(agent.next_deadline(), Instant::ZERO + Duration::from_us(12_500));
        agent.receive(at(1), &grant(first, 1)).unwrap();
        assert_eq!(agent.next_deadline(), at(25));
        assert_eq!(agent.poll_transmit(at(24)), None);
        token(&mut agent, 25);
        assert_eq!(agent.next_deadline(), at(25) + Duration::from_us(6_250));
    }

    #[test]
    fn a_keeper_that_was_succeeded_is_not_listened_to() {
        let mut agent = agent();
        let in_term = |token, term| {
            let view = View { epoch: Epoch(1), full: NodeSet::first(3), joining: NodeSet::EMPTY };
            let (node, incarnation) = (NodeId::new(1).unwrap(), Incarnation::new(7).unwrap());
            Message::Grant { node, incarnation, token, term, view, lease: Duration::from_ms(100) }
                .encode(ClusterId::default())
        };
        let first = token(&mut agent, 10);
        let second = token(&mut agent, 30);
        agent.receive(at(31), &in_term(second, 4)).unwrap();
        assert_eq!((agent.term(), agent.lease_until()), (4, at(130)));
        assert_eq!(agent.receive(at(32), &in_term(first, 3)), Err(ReceiveError::EarlierTerm));
        let third = token(&mut agent, 60);
        let refused = refusal(third, Reason::Rejoin);
        assert_eq!(agent.receive(at(61), &refused), Err(ReceiveError::EarlierTerm));
        assert_eq!(agent.poll_action(), None);
        agent.receive(at(62), &in_term(third, 5)).unwrap();
        assert_eq!((agent.term(), agent.lease_until()), (5, at(160)));
        // Nor does the agent of the next incarnation.
        let mut next =
            Agent::new(agent.node(), agent.incarnation(), AgentParameters::default()).after(&agent);
        let first = token(&mut next, 70);
        assert_eq!(next.receive(at(71), &in_term(first, 4)), Err(ReceiveError::EarlierTerm));
    }

    #[test]
    fn a_node_finds_the_keeper_that_holds_the_service() {
        let parameters = AgentParameters { keepers: 3, ..AgentParameters::default() };
        let mut agent = Agent::new(NodeId::new(1).unwrap(), Incarnation::new(7).unwrap(), parameters);
        let elsewhere = |token, holder| {
            let (node, incarnation) = (NodeId::new(1).unwrap(), Incarnation::new(7).unwrap());
            Message::Elsewhere { node, incarnation, token, holder }.encode(ClusterId::default())
        };
        let keeper = |number| NodeId::new(number);
        // Two heartbeats without an answer, then the next keeper.
        assert_eq!((token(&mut agent, 0), agent.keeper()), (1, 0));
        assert_eq!((token(&mut agent, 20), agent.keeper()), (2, 0));
        let third = token(&mut agent, 40);
        assert_eq!(agent.keeper(), 1);
        // It names the holder, which is asked at once.
        agent.receive(at(41), &elsewhere(third, keeper(0))).unwrap();
        assert_eq!((agent.keeper(), agent.next_deadline()), (0, at(41)));
        // Who names itself, nobody or no keeper is no help.
        let mut ms = 41;
        for (holder, next) in [(keeper(0), 1), (None, 2), (keeper(7), 0)] {
            let asked = token(&mut agent, ms);
            agent.receive(at(ms), &elsewhere(asked, holder)).unwrap();
            assert_eq!(agent.keeper(), next);
            assert!(agent.next_deadline() > at(ms), "it waits a little");
            ms += 20;
        }
        let asked = token(&mut agent, ms);
        agent.receive(at(ms), &grant(asked, 1)).unwrap();
        assert_eq!(agent.keeper(), 0, "who answers is asked again");
        assert_eq!(agent.receive(at(ms), &elsewhere(asked, None)), Err(ReceiveError::Unexpected));
    }

    #[test]
    fn a_notice_or_being_synced_hurries() {
        let mut agent = agent();
        let first = token(&mut agent, 0);
        agent.receive(at(1), &grant(first, 4)).unwrap();
        let notice = |epoch| {
            Message::Notice { node: NodeId::new(1).unwrap(), epoch: Epoch(epoch) }
                .encode(ClusterId::default())
        };
        agent.receive(at(2), &notice(4)).unwrap();
        assert_eq!(agent.next_deadline(), at(25));
        agent.receive(at(2), &notice(5)).unwrap();
        assert_eq!(agent.next_deadline(), at(2));
        let second = token(&mut agent, 2);
        agent.receive(at(3), &grant(second, 5)).unwrap();
        assert_eq!(agent.next_deadline(), at(27));
        agent.engine_status(
            at(4),
            EngineStatus { epoch: Epoch(5), state: EngineState::Joining { synced: false } },
        );
        assert_eq!(agent.next_deadline(), at(27));
        agent.engine_status(
            at(5),
            EngineStatus { epoch: Epoch(5), state: EngineState::Joining { synced: true } },
        );
        assert_eq!(agent.next_deadline(), at(5));
    }

    #[test]
    fn a_removed_engine_ends_its_agent() {
        let restart = |number| Some(Action::Restart { incarnation: Incarnation::new(number).unwrap() });
        for (reason, action) in [
            (Reason::Rejoin, restart(8)),
            (Reason::Superseded { by: Incarnation::new(1 << 62).unwrap() }, restart((1 << 62) + 1)),
            (Reason::Taken, Some(Action::Stop)),
            (Reason::Occupied, None),
            (Reason::Waiting, None),
            (Reason::Halted, None),
        ] {
            let mut agent = agent();
            let first = token(&mut agent, 0);
            agent.receive(at(1), &refusal(first, reason)).unwrap();
            assert_eq!(agent.refusal(), Some(reason));
            assert_eq!(agent.poll_action(), action);
            assert_eq!(agent.poll_action(), None);
            assert_eq!(agent.poll_transmit(at(1_000)).is_none(), action.is_some());
        }
    }

    #[test]
    fn what_is_not_for_this_life_is_ignored() {
        let mut agent = agent();
        let first = token(&mut agent, 0);
        agent.receive(at(1), &grant(first, 2)).unwrap();
        let mut other =
            Agent::new(NodeId::new(1).unwrap(), Incarnation::new(8).unwrap(), AgentParameters::default());
        let second = token(&mut other, 0);
        assert_eq!(other.receive(at(1), &grant(second, 2)), Err(ReceiveError::NotForUs));
        let third = token(&mut agent, 50);
        let view = View { epoch: Epoch(2), full: NodeSet::first(2), joining: NodeSet::EMPTY };
        let (node, incarnation) = (NodeId::new(1).unwrap(), Incarnation::new(7).unwrap());
        let lease = Duration::from_ms(100);
        let contradiction = Message::Grant { node, incarnation, token: third, term: 0, view, lease }
            .encode(ClusterId::default());
        assert_eq!(agent.receive(at(51), &contradiction), Err(ReceiveError::Contradiction));
        let short = agent.receive(at(51), b"WFTM");
        assert_eq!(short, Err(ReceiveError::Message(MessageError::Length(4))));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..48), 0..8),
        ) {
            let mut agent = agent();
            let before = format!("{agent:?}");
            for bytes in datagrams {
                prop_assert!(agent.receive(at(1), &bytes).is_err());
            }
            prop_assert_eq!(before, format!("{agent:?}"));
        }
    }
}
