//! The program on a node's host.

use std::collections::VecDeque;

use weft_cluster::{
    Action, Agent, AgentParameters, Beacons, ClusterName, Datagram, Incarnation, Membership, Mismatch,
    Profile, Reason,
};
use weft_nic::{HostCommand, HostEvent};
use weft_time::{Duration, Instant};
#[cfg(feature = "planted-bugs")]
use weft_waist::{Configuration, Epoch};
use weft_waist::{EngineState, EngineStatus, NodeId, View};

use crate::half::{CardPort, HostHalf, HostIo};
#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;
use crate::report::Report;
use crate::status::combined;

/// Parameters of a node.
#[derive(Clone, Debug)]
pub struct NodeParameters {
    /// Number of this node.
    pub node: NodeId,
    /// Incarnation: a number that no earlier process of the node had.
    pub incarnation: Incarnation,
    /// Interval of heartbeats to the membership service.
    pub agent: AgentParameters,
    /// Name of the cluster, and the profile on which its nodes must agree; `None` in simulations, which have only
    /// one cluster.
    pub identity: Option<(ClusterName, Profile)>,
}

/// The host's side of an engine in a slot of the card.
#[derive(Debug)]
struct HostedEngine<H> {
    half: H,
    /// Last status reported by the card.
    status: EngineStatus,
    /// The engine was reset and the card has not confirmed it yet: until then, its events belong to the former
    /// incarnation.
    resetting: bool,
}

/// The program on the host of a node: the agent and the host halves. The caller drives it:
///
/// - once, by [`Node::begin`];
/// - with inputs: [`Node::host_event`] for events of the card, [`Node::receive_membership`] for datagrams of the
///   membership service, [`Node::receive_beacon`] for beacons of other nodes, [`Node::handle_deadline`] at
///   [`Node::next_deadline`];
/// - for outputs, after each of these: commands go to the [`CardPort`] at once, [`Node::poll_membership`] returns
///   the next heartbeat, [`Node::poll_beacon`] the beacon for every other node, [`Node::poll_report`] reports for
///   the operator, and [`Node::has_stopped`] tells whether the node has to end.
///
/// **Restart of engines.** The membership service may exclude a running node from a view (because its lease
/// ended). The data of its engines is then outdated, and they have to join again, empty, in the node's next
/// incarnation: the node resets them and ignores the card's events from before the reset. Engines whose protocol
/// does not depend on leases keep their data ([`HostHalf::keeps_data_without_lease`]).
#[derive(Debug)]
pub struct Node<H> {
    parameters: NodeParameters,
    agent: Agent,
    beacons: Beacons,
    slots: Vec<HostedEngine<H>>,
    /// Whether the engines have received a view in this incarnation of the node.
    is_configured: bool,
    reports: VecDeque<Report>,
    refusal: Option<Reason>,
    mismatch: Option<Mismatch>,
    stopped: bool,
    /// The node is leaving: its engines serve nothing, and it only notifies the membership service.
    leaving: bool,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<PlantedBug>,
}

impl<H: HostHalf> Node<H> {
    /// A node with the host halves of its card's engines, in slot order. The engines must be new.
    pub fn new(parameters: NodeParameters, halves: impl IntoIterator<Item = H>) -> Self {
        let slot = |half| HostedEngine { half, status: EngineStatus::STARTING, resetting: false };
        Self {
            agent: agent(&parameters, parameters.incarnation),
            beacons: Beacons::new(
                parameters.node,
                parameters.identity.as_ref().map_or_else(ClusterName::default, |(name, _)| *name).id(),
            ),
            slots: halves.into_iter().map(slot).collect(),
            is_configured: false,
            reports: VecDeque::new(),
            refusal: None,
            mismatch: None,
            stopped: false,
            leaving: false,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            parameters,
        }
    }

    /// The same node with a deliberate bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: PlantedBug) -> Self {
        let node = Self { planted_bug: Some(bug), ..self };
        Self { agent: node.next_agent(node.parameters.incarnation), ..node }
    }

    /// Starts the node.
    pub fn begin(&mut self, now: Instant, card: &mut dyn CardPort) {
        for (index, slot) in (0..).zip(&mut self.slots) {
            slot.half.begin(&mut HostIo::new(index, card));
        }
        self.settle(now, card);
    }

    /// Processes an event of the card. Nodes ignore frames and completions.
    pub fn host_event(&mut self, now: Instant, event: HostEvent, card: &mut dyn CardPort) {
        match event {
            HostEvent::Status { engine, status } => {
                let Some(slot) = self.slots.get_mut(usize::from(engine)) else { return };
                slot.status = status;
                slot.resetting &= status != EngineStatus::STARTING;
                if !slot.resetting {
                    slot.half.status(now, status, &mut HostIo::new(engine, card));
                    self.report_status(now);
                }
            }
            HostEvent::Reply { engine, token, kind, payload } => {
                if let Some(slot) = self.slots.get_mut(usize::from(engine)).filter(|slot| !slot.resetting) {
                    slot.half.replied(now, token, (kind, &payload), &mut HostIo::new(engine, card));
                }
            }
            HostEvent::Request { engine, from, kind, payload } => {
                let leased = now < self.agent.lease_until();
                if let Some(slot) = self.slots.get_mut(usize::from(engine)).filter(|slot| !slot.resetting) {
                    let serves = (leased || slot.half.keeps_data_without_lease())
                        && slot.status.state == EngineState::Full;
                    let io = &mut HostIo::new(engine, card);
                    slot.half.requested(now, from, (kind, &payload), serves, io);
                }
            }
            HostEvent::Frame(_) | HostEvent::Completion(_) => {}
        }
        self.settle(now, card);
    }

    /// Processes a datagram from the address of the membership service.
    pub fn receive_membership(&mut self, now: Instant, bytes: &[u8], card: &mut dyn CardPort) {
        // Messages that answer no heartbeat of this incarnation are ignored.
        let _ = self.agent.receive(now, bytes);
        self.settle(now, card);
    }

    /// When [`Node::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        let agent = (!self.stopped).then(|| self.agent.next_deadline().min(self.beacons.next_deadline()));
        self.slots.iter().filter_map(|slot| slot.half.next_deadline()).chain(agent).min()
    }

    /// Handles expired deadlines.
    pub fn handle_deadline(&mut self, now: Instant, card: &mut dyn CardPort) {
        for slot in &mut self.slots {
            if slot.half.next_deadline().is_some_and(|at| at <= now) {
                slot.half.handle_deadline(now);
            }
        }
        self.settle(now, card);
    }

    /// The next heartbeat for the membership service, if one is due.
    pub fn poll_membership(&mut self, now: Instant) -> Option<Datagram> {
        if self.stopped {
            return None;
        }
        self.agent.peers_heard(now, self.beacons.peers(now));
        self.agent.poll_transmit(now)
    }

    /// The keeper of the membership service to which heartbeats go: see [`Agent::keeper`].
    pub const fn keeper(&self) -> usize {
        self.agent.keeper()
    }

    /// The beacon for every other node, if one is due. A leaving node sends none.
    pub fn poll_beacon(&mut self, now: Instant) -> Option<Datagram> {
        let beacon = self.beacons.poll_transmit(now);
        if self.stopped || self.leaving { None } else { beacon }
    }

    /// Processes a datagram of the membership protocol that arrived from the address of `peer`. Returns whether it
    /// was a beacon.
    pub fn receive_beacon(&mut self, now: Instant, peer: NodeId, bytes: &[u8]) -> bool {
        let is_beacon = self.beacons.receive(now, peer, bytes);
        if let Some(lease) = self.beacons.lease() {
            self.agent.learn_lease(lease);
        }
        is_beacon
    }

    /// The next report for operators.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Whether the node has to end: another process runs it, or it does not belong to the cluster. The last report
    /// has the reason.
    pub const fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Call this when the engines serve nothing any more: it notifies the membership service, which then need not
    /// wait for the end of the lease.
    pub fn leave(&mut self, now: Instant) {
        self.leaving = true;
        self.agent.leave(now);
    }

    /// Whether a leaving node may end: the service has confirmed it, or need not be notified.
    pub fn has_left(&self) -> bool {
        self.stopped || self.agent.has_left()
    }

    /// Number of this node.
    pub const fn id(&self) -> NodeId {
        self.parameters.node
    }

    /// The node's incarnation.
    pub fn incarnation(&self) -> Incarnation {
        self.agent.incarnation()
    }

    /// The newest view that the node has received.
    pub fn view(&self) -> View {
        self.agent.view()
    }

    /// End of its lease, on its own clock.
    pub fn lease_until(&self) -> Instant {
        self.agent.lease_until()
    }

    /// Length of the lease, if one was granted to this incarnation.
    pub const fn lease(&self) -> Option<Duration> {
        self.agent.lease()
    }

    /// Why the membership service refuses this node at present, if it does.
    pub fn refusal(&self) -> Option<Reason> {
        self.agent.refusal()
    }

    /// The last status that the card has reported for the engine in a slot.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn engine_status(&self, slot: u8) -> EngineStatus {
        self.slots[usize::from(slot)].status
    }

    /// Number of engines of the card.
    pub fn slots(&self) -> u8 {
        u8::try_from(self.slots.len()).expect("a slot's number has one byte")
    }

    /// The half of a slot.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn half(&self, slot: u8) -> &H {
        &self.slots[usize::from(slot)].half
    }

    /// The half of a slot, for observers that take out data it keeps for them.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn half_mut(&mut self, slot: u8) -> &mut H {
        &mut self.slots[usize::from(slot)].half
    }

    /// Reports the combined status of the engines to the agent.
    fn report_status(&mut self, now: Instant) {
        if self.slots.iter().any(|slot| slot.resetting) {
            return;
        }
        // An engine that has restored its data from a disk has a view before this process receives one.
        let is_told =
            |slot: &HostedEngine<H>| matches!(slot.status.state, EngineState::Restored | EngineState::Lost);
        if !self.is_configured && !self.slots.iter().any(is_told) {
            return self.agent.engine_status(now, EngineStatus::STARTING);
        }
        let view = self.agent.view();
        let in_view = |state| EngineStatus { epoch: view.epoch, state };
        // The state that a node with all data should report in the view.
        let complete = in_view(match view.joining.contains(self.id()) {
            true => EngineState::Joining { synced: true },
            false => EngineState::Full,
        });
        let status = |slot: &HostedEngine<H>| match slot.status.state {
            _ if !slot.half.follows_views() => None,
            _ if !slot.half.keeps_data_without_lease() => Some(slot.status),
            // The engines below do not depend on views: in any view, they either have all data or are still
            // fetching it.
            EngineState::Starting => Some(EngineStatus::STARTING),
            EngineState::Joining { synced: false } | EngineState::Restored => {
                Some(in_view(slot.status.state))
            }
            EngineState::Joining { synced: true } | EngineState::Sealed | EngineState::Full => Some(complete),
            // Restarting the engine would not bring back the data that a majority has lost. The engine reports the
            // loss to its callers, and the other engines go on.
            EngineState::Lost => None,
        };
        let status = combined(self.slots.iter().filter_map(status)).unwrap_or(complete);
        self.agent.engine_status(now, status);
    }

    /// Passes configurations and actions from the agent to the engines, and lets the halves submit commands.
    fn settle(&mut self, now: Instant, card: &mut dyn CardPort) {
        if self.leaving {
            // The node has no next incarnation; the service's answer to the last heartbeat ends the agent.
            return;
        }
        if let Some(configuration) = self.agent.poll_configuration() {
            if let Some(lease) = self.agent.lease() {
                self.beacons.learn_lease(lease);
            }
            #[cfg(feature = "planted-bugs")]
            let configuration = self.with_former_incarnation(configuration);
            for (index, slot) in (0..).zip(&mut self.slots) {
                let io = &mut HostIo::new(index, card);
                slot.half.configure(now, &configuration, io);
                if slot.half.follows_views() {
                    io.configure(configuration);
                }
            }
            self.is_configured = true;
            if self.slots.iter().any(|slot| slot.half.keeps_data_without_lease()) {
                self.report_status(now);
            }
        }
        match self.agent.poll_action() {
            None => {}
            Some(Action::Restart { incarnation }) => self.rejoin(now, incarnation, card),
            Some(Action::Stop) => {
                self.stopped = true;
                if self.agent.mismatch().is_none() {
                    self.reports.push_back(Report::Taken(self.id()));
                }
            }
        }
        for (index, slot) in (0..).zip(&mut self.slots) {
            slot.half.settle(now, &mut HostIo::new(index, card));
        }
        self.report_refusals();
    }

    /// A planted bug: a joining node's engines take the epoch as the incarnation with which they connect their
    /// queue pairs, and here it is the wrong one.
    #[cfg(feature = "planted-bugs")]
    fn with_former_incarnation(&self, configuration: Configuration) -> Configuration {
        let is_planted = self.planted_bug == Some(PlantedBug::WiredToFormerIncarnation);
        if !is_planted || !configuration.view.joining.contains(self.id()) {
            return configuration;
        }
        Configuration { view: View { epoch: Epoch(1), ..configuration.view }, ..configuration }
    }

    /// Resets the engines whose data depends on the lease, and begins the next incarnation of the node.
    fn rejoin(&mut self, now: Instant, incarnation: Incarnation, card: &mut dyn CardPort) {
        let reason = self.agent.refusal().unwrap_or(Reason::Rejoin);
        self.reports.push_back(Report::Rejoins(self.id(), reason));
        for (index, slot) in (0..).zip(&mut self.slots) {
            #[cfg(feature = "planted-bugs")]
            if self.planted_bug == Some(PlantedBug::EnginesKept) {
                continue;
            }
            if !slot.half.keeps_data_without_lease() {
                card.submit(HostCommand::Reset { engine: index });
                slot.resetting = slot.status != EngineStatus::STARTING;
                slot.half.rejoin(now, incarnation, &mut HostIo::new(index, card));
            }
        }
        self.agent = self.next_agent(incarnation);
        if let Some(lease) = self.beacons.lease() {
            self.agent.learn_lease(lease);
        }
        (self.is_configured, self.refusal, self.mismatch) = (false, None, None);
    }

    /// The agent for `incarnation` of the node.
    fn next_agent(&self, incarnation: Incarnation) -> Agent {
        let agent = agent(&self.parameters, incarnation).after(&self.agent);
        #[cfg(feature = "planted-bugs")]
        if let Some(PlantedBug::Cluster(bug)) = self.planted_bug {
            return agent.with_planted_bug(bug);
        }
        agent
    }

    /// Queues reports about refusals by the membership service that have changed.
    fn report_refusals(&mut self) {
        let (refusal, mismatch) = (self.agent.refusal(), self.agent.mismatch());
        if std::mem::replace(&mut self.refusal, refusal) != refusal
            && let Some(reason) = refusal
        {
            self.reports.push_back(Report::Refused(self.id(), reason));
        }
        if std::mem::replace(&mut self.mismatch, mismatch) != mismatch
            && let Some(mismatch) = mismatch
        {
            self.reports.push_back(Report::Mismatch(self.id(), mismatch));
        }
    }
}

/// The agent for one incarnation of a node.
fn agent(parameters: &NodeParameters, incarnation: Incarnation) -> Agent {
    let agent = Agent::new(parameters.node, incarnation, parameters.agent);
    match &parameters.identity {
        Some((cluster, profile)) => agent.of_cluster(*cluster, profile.clone()),
        None => agent,
    }
}
