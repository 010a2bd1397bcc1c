//! The program on a node's host.

use std::collections::VecDeque;

use weft_cluster::{
    Action, Agent, AgentParameters, ClusterName, Datagram, Hearing, Incarnation, Membership, Misfit, Profile,
    Reason,
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
    /// In which life: a number that no earlier process of the node had.
    pub incarnation: Incarnation,
    /// Interval of reports to the membership service.
    pub agent: AgentParameters,
    /// The cluster, and what its nodes must agree on; `None` where there is one cluster only, which a simulated world
    /// is.
    pub identity: Option<(ClusterName, Profile)>,
}

/// The host's side of an engine in a slot of the card.
#[derive(Debug)]
struct HostedEngine<H> {
    half: H,
    /// Last status reported by the card.
    status: EngineStatus,
    /// The engine was reset and the card has not said so yet: what it says until then is of the former life.
    resetting: bool,
}

/// The program on the host of a node: lease holder and host halves. A world drives it:
///
/// - once, [`Node::begin`];
/// - in: [`Node::host_event`] for what the card says, [`Node::receive_membership`] for datagrams of the membership
///   service, [`Node::receive_beacon`] for beacons of other nodes, [`Node::handle_deadline`] at
///   [`Node::next_deadline`];
/// - out, after each of these: commands go to the [`CardPort`] at once, [`Node::poll_membership`] gives the next
///   heartbeat, [`Node::poll_beacon`] the beacon for every other node, [`Node::poll_report`] what the operator should
///   know, and [`Node::has_stopped`] tells the end.
///
/// **Starting over.** The membership service may leave a node out of a view while it runs (its lease ended). What its
/// engines hold is then old, and they begin again as new members with nothing, in the node's next life: the node
/// resets them and ignores what the card said before it carried that out. Engines whose protocol does not rest on
/// leases keep their data ([`HostHalf::outlives_lease`]).
#[derive(Debug)]
pub struct Node<H> {
    parameters: NodeParameters,
    agent: Agent,
    hearing: Hearing,
    slots: Vec<HostedEngine<H>>,
    /// Engines were told a view in this life of the node.
    is_configured: bool,
    reports: VecDeque<Report>,
    refusal: Option<Reason>,
    misfit: Option<Misfit>,
    stopped: bool,
    /// The node is leaving: its engines serve nothing, and it only tells the membership service.
    leaving: bool,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<PlantedBug>,
}

impl<H: HostHalf> Node<H> {
    /// A node with the halves of its card's engines, in slot order. The engines have just been made.
    pub fn new(parameters: NodeParameters, halves: impl IntoIterator<Item = H>) -> Self {
        let slot = |half| HostedEngine { half, status: EngineStatus::STARTING, resetting: false };
        Self {
            agent: agent(&parameters, parameters.incarnation),
            hearing: Hearing::new(
                parameters.node,
                parameters.identity.as_ref().map_or_else(ClusterName::default, |(name, _)| *name).id(),
            ),
            slots: halves.into_iter().map(slot).collect(),
            is_configured: false,
            reports: VecDeque::new(),
            refusal: None,
            misfit: None,
            stopped: false,
            leaving: false,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            parameters,
        }
    }

    /// The same node with a known bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: PlantedBug) -> Self {
        let node = Self { planted_bug: Some(bug), ..self };
        Self { agent: node.next_agent(node.parameters.incarnation), ..node }
    }

    /// The process begins.
    pub fn begin(&mut self, now: Instant, card: &mut dyn CardPort) {
        for (index, slot) in (0..).zip(&mut self.slots) {
            slot.half.begin(&mut HostIo::new(index, card));
        }
        self.settle(now, card);
    }

    /// The card has something for its host. Frames and completions are none of a node's.
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
                    let serves =
                        (leased || slot.half.outlives_lease()) && slot.status.state == EngineState::Full;
                    let io = &mut HostIo::new(engine, card);
                    slot.half.requested(now, from, (kind, &payload), serves, io);
                }
            }
            HostEvent::Frame(_) | HostEvent::Completion(_) => {}
        }
        self.settle(now, card);
    }

    /// A datagram has come from the address of the membership service.
    pub fn receive_membership(&mut self, now: Instant, bytes: &[u8], card: &mut dyn CardPort) {
        // A message that answers no heartbeat of this incarnation has no effect.
        let _ = self.agent.receive(now, bytes);
        self.settle(now, card);
    }

    /// When [`Node::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        let agent = (!self.stopped).then(|| self.agent.next_deadline().min(self.hearing.next_deadline()));
        self.slots.iter().filter_map(|slot| slot.half.next_deadline()).chain(agent).min()
    }

    /// Handles what is due.
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
        self.agent.peers_heard(now, self.hearing.peers(now));
        self.agent.poll_transmit(now)
    }

    /// The beacon for every other node, if one is due. A node that leaves sends none.
    pub fn poll_beacon(&mut self, now: Instant) -> Option<Datagram> {
        let beacon = self.hearing.poll_transmit(now);
        if self.stopped || self.leaving { None } else { beacon }
    }

    /// Something of the membership protocol has come from `peer`, from where that node's messages come. Whether it was
    /// a beacon.
    pub fn receive_beacon(&mut self, now: Instant, peer: NodeId, bytes: &[u8]) -> bool {
        let is_beacon = self.hearing.receive(now, peer, bytes);
        if let Some(lease) = self.hearing.lease() {
            self.agent.learn_lease(lease);
        }
        is_beacon
    }

    /// The next report for operators.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Whether the node has to end: another process runs it, or it does not belong to the cluster. The last report
    /// says why.
    pub const fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// The engines serve nothing any more: tells the membership service so, which then need not wait for the end of
    /// the lease.
    pub fn leave(&mut self, now: Instant) {
        self.leaving = true;
        self.agent.leave(now);
    }

    /// Whether a node that leaves has nobody to tell, or the service knows.
    pub fn has_left(&self) -> bool {
        self.stopped || self.agent.has_left()
    }

    /// Number of this node.
    pub const fn id(&self) -> NodeId {
        self.parameters.node
    }

    /// In which life it is.
    pub fn incarnation(&self) -> Incarnation {
        self.agent.incarnation()
    }

    /// The newest view that it knows.
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

    /// The reason for which the membership service refuses this node now.
    pub fn refusal(&self) -> Option<Reason> {
        self.agent.refusal()
    }

    /// What the card has reported last of the engine in a slot.
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

    /// The half of a slot, to take out what it keeps for an observer.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn half_mut(&mut self, slot: u8) -> &mut H {
        &mut self.slots[usize::from(slot)].half
    }

    /// Tells the lease holder how far the engines are.
    fn report_status(&mut self, now: Instant) {
        if self.slots.iter().any(|slot| slot.resetting) {
            return;
        }
        // An engine that has its data from a disk knows of a view before this process does.
        let is_told =
            |slot: &HostedEngine<H>| matches!(slot.status.state, EngineState::Restored | EngineState::Lost);
        if !self.is_configured && !self.slots.iter().any(is_told) {
            return self.agent.engine_status(now, EngineStatus::STARTING);
        }
        let view = self.agent.view();
        let in_view = |state| EngineStatus { epoch: view.epoch, state };
        // The view's demand on a node that has all data.
        let complete = in_view(match view.joining.contains(self.id()) {
            true => EngineState::Joining { synced: true },
            false => EngineState::Full,
        });
        let status = |slot: &HostedEngine<H>| match slot.status.state {
            _ if !slot.half.follows_views() => None,
            _ if !slot.half.outlives_lease() => Some(slot.status),
            // Views mean nothing to the engines below: in any of them they lack nothing, or something yet.
            EngineState::Starting => Some(EngineStatus::STARTING),
            EngineState::Joining { synced: false } | EngineState::Restored => {
                Some(in_view(slot.status.state))
            }
            EngineState::Joining { synced: true } | EngineState::Full => Some(complete),
            // Starting over would not bring back what a majority has lost. The engine says so to its callers, and the
            // others go on.
            EngineState::Lost => None,
        };
        let status = combined(self.slots.iter().filter_map(status)).unwrap_or(complete);
        self.agent.engine_status(now, status);
    }

    /// Carries configurations, actions and calls to where they belong.
    fn settle(&mut self, now: Instant, card: &mut dyn CardPort) {
        if self.leaving {
            // The service's answer ends the lease holder. The node has no next life.
            return;
        }
        if let Some(configuration) = self.agent.poll_configuration() {
            if let Some(lease) = self.agent.lease() {
                self.hearing.learn_lease(lease);
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
            if self.slots.iter().any(|slot| slot.half.outlives_lease()) {
                self.report_status(now);
            }
        }
        match self.agent.poll_action() {
            None => {}
            Some(Action::Restart { incarnation }) => self.start_over(now, incarnation, card),
            Some(Action::Stop) => {
                self.stopped = true;
                if self.agent.misfit().is_none() {
                    self.reports.push_back(Report::Taken(self.id()));
                }
            }
        }
        for (index, slot) in (0..).zip(&mut self.slots) {
            slot.half.settle(now, &mut HostIo::new(index, card));
        }
        self.report_refusals();
    }

    /// A joining node's epoch tells its engines in which incarnation they connect their queue pairs.
    #[cfg(feature = "planted-bugs")]
    fn with_former_incarnation(&self, configuration: Configuration) -> Configuration {
        let is_planted = self.planted_bug == Some(PlantedBug::WiredToFormerIncarnation);
        if !is_planted || !configuration.view.joining.contains(self.id()) {
            return configuration;
        }
        Configuration { view: View { epoch: Epoch(1), ..configuration.view }, ..configuration }
    }

    /// Empties the engines whose data rests on the lease, and begins the next incarnation of the node.
    fn start_over(&mut self, now: Instant, incarnation: Incarnation, card: &mut dyn CardPort) {
        let reason = self.agent.refusal().unwrap_or(Reason::Rejoin);
        self.reports.push_back(Report::StartsOver(self.id(), reason));
        for (index, slot) in (0..).zip(&mut self.slots) {
            #[cfg(feature = "planted-bugs")]
            if self.planted_bug == Some(PlantedBug::EnginesKept) {
                continue;
            }
            if !slot.half.outlives_lease() {
                card.submit(HostCommand::Reset { engine: index });
                slot.resetting = slot.status != EngineStatus::STARTING;
                slot.half.start_over(now, incarnation, &mut HostIo::new(index, card));
            }
        }
        self.agent = self.next_agent(incarnation);
        if let Some(lease) = self.hearing.lease() {
            self.agent.learn_lease(lease);
        }
        (self.is_configured, self.refusal, self.misfit) = (false, None, None);
    }

    /// The lease holder of the node's life `incarnation`.
    fn next_agent(&self, incarnation: Incarnation) -> Agent {
        let agent = agent(&self.parameters, incarnation);
        #[cfg(feature = "planted-bugs")]
        if let Some(PlantedBug::Cluster(bug)) = self.planted_bug {
            return agent.with_planted_bug(bug);
        }
        agent
    }

    /// Reports what has changed of how the membership service takes the node.
    fn report_refusals(&mut self) {
        let (refusal, misfit) = (self.agent.refusal(), self.agent.misfit());
        if std::mem::replace(&mut self.refusal, refusal) != refusal
            && let Some(reason) = refusal
        {
            self.reports.push_back(Report::Refused(self.id(), reason));
        }
        if std::mem::replace(&mut self.misfit, misfit) != misfit
            && let Some(misfit) = misfit
        {
            self.reports.push_back(Report::Misfit(self.id(), misfit));
        }
    }
}

/// The lease holder of one life of a node.
fn agent(parameters: &NodeParameters, incarnation: Incarnation) -> Agent {
    let agent = Agent::new(parameters.node, incarnation, parameters.agent);
    match &parameters.identity {
        Some((cluster, profile)) => agent.of_cluster(*cluster, profile.clone()),
        None => agent,
    }
}
