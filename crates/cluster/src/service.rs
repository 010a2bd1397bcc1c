//! The membership service: who is in the view, and who holds a lease.

use weft_time::{Duration, Instant};
use weft_waist::{Epoch, NODES_MAX, NodeId, NodeSet, View};

use crate::durable::{Durable, DurableError, NodeRecord, Role};
use crate::membership::{HostState, Incarnation, Reason};
use crate::message::{Heartbeat, LEASE_MAX, LEASE_MIN};

/// What a membership service is set up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceParameters {
    /// How many nodes are configured, 1 to 16: nodes 0 to `nodes` - 1.
    pub nodes: usize,
    /// How long a lease lasts: whole nanoseconds, [`LEASE_MIN`] to [`LEASE_MAX`].
    pub lease: Duration,
    /// By how many millionths the service's clock may run faster than a node's.
    pub drift_ppm: u32,
    /// The shortest time between two views, unless a member has to go: changes that can wait are collected meanwhile,
    /// because every view starts the transfer to joining members anew.
    pub view_interval: Duration,
}

impl ServiceParameters {
    /// `nodes` nodes with leases of length `lease`, and for the rest: clocks that drift by 1,000 millionths at
    /// most, far more than a quartz or a disciplined clock does, and a quarter of a lease between views.
    pub fn new(nodes: usize, lease: Duration) -> Self {
        Self { nodes, lease, drift_ppm: 1_000, view_interval: lease / 4 }
    }

    /// How long after a grant, on its own clock, the service knows that the lease has ended at the node.
    fn term(&self) -> Duration {
        let margin = u128::from(self.lease.as_ps()) * u128::from(self.drift_ppm);
        let margin = margin.div_ceil(1_000_000).try_into().unwrap_or(u64::MAX);
        self.lease + Duration::from_ps(margin)
    }
}

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The current view; the node is a member of it.
    pub view: View,
    /// How long the lease lasts from the sending of the heartbeat.
    pub lease: Duration,
}

/// The answer to a heartbeat: a lease, or why not.
pub type Answer = Result<Grant, Reason>;

/// Where the cluster stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first view waits until these nodes have reported.
    Bootstrapping {
        /// Nodes that have not reported yet.
        missing: NodeSet,
    },
    /// There is a view.
    Running,
    /// The last engine that held all data is gone: the data is lost.
    Halted,
}

/// The embedded membership service.
///
/// # Rules
/// - Epoch 1 is published once all configured nodes have reported: each is full, and empty.
/// - A node is in a view with one incarnation. A greater one proves that the older is dead: the next view has the node as
///   joining. A lesser one is [superseded](Reason::Superseded).
/// - A member whose lease has ended leaves the view, provided that another member that holds all data has a lease.
/// - The last member that holds all data is never removed. When it is known to be dead, the cluster is halted.
/// - When no member that holds all data has a lease, it is the service that was cut off. As soon as one is back, the others
///   have one more lease's time to return.
/// - A joining member that reports to be synced in the current epoch holds all data, and becomes full.
/// - A node that has been removed returns empty, with a greater incarnation.
///
/// # Use
/// `now` comes from one clock and does not run backwards. Take what is readable off the network before
/// [`Service::tick`], so that a service that was itself delayed does not hold the delay against the nodes.
/// [`Service::take_unsaved`] comes after every call, and *its result is stored before an answer leaves*; [`Server`]
/// sees to that order.
///
/// [`Server`]: crate::Server
#[derive(Clone, Debug)]
pub struct Service {
    parameters: ServiceParameters,
    now: Instant,
    epoch: Epoch,
    published: Instant,
    halted: bool,
    unsaved: bool,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    record: NodeRecord,
    /// When the node's lease has ended on every clock.
    lease_end: Instant,
    /// The latest epoch in which it reported to hold all data while joining.
    synced: Option<Epoch>,
    /// A life that has reported and is in no view.
    candidate: Option<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    incarnation: Incarnation,
    heard: Instant,
}

/// The view that ought to follow the current one.
struct Plan {
    full: NodeSet,
    joining: NodeSet,
    /// Nodes that enter it with another incarnation than they had.
    reborn: NodeSet,
    /// It must not wait: writes stand still until a member that has gone is out of the view.
    urgent: bool,
}

impl Service {
    /// A service that has published nothing.
    ///
    /// # Panics
    /// If a parameter is outside its documented range.
    pub fn new(parameters: ServiceParameters) -> Self {
        assert!((1..=NODES_MAX).contains(&parameters.nodes), "a cluster has 1 to 16 nodes");
        assert!((LEASE_MIN..=LEASE_MAX).contains(&parameters.lease), "a lease lasts 100 us to one hour");
        assert!(parameters.lease.as_ps().is_multiple_of(1_000), "a lease is a whole number of nanoseconds");
        let node =
            Node { record: NodeRecord::NEVER, lease_end: Instant::ZERO, synced: None, candidate: None };
        Self {
            parameters,
            now: Instant::ZERO,
            epoch: Epoch(0),
            published: Instant::ZERO,
            halted: false,
            unsaved: false,
            nodes: vec![node; parameters.nodes],
        }
    }

    /// A service that continues where `durable` was taken. Any member may hold a lease that was granted just
    /// before, so nobody is removed for one lease's time from `now`.
    ///
    /// # Errors
    /// If the snapshot is of a cluster of another size.
    ///
    /// # Panics
    /// If a parameter is outside its documented range.
    pub fn restore(
        parameters: ServiceParameters,
        durable: &Durable,
        now: Instant,
    ) -> Result<Self, DurableError> {
        let mut service = Self::new(parameters);
        let (found, configured) = (durable.nodes().len(), parameters.nodes);
        if found != configured {
            return Err(DurableError::Nodes { found, configured });
        }
        service.now = now;
        service.published = now;
        service.epoch = durable.view().epoch;
        service.halted = durable.halted();
        for (node, record) in service.nodes.iter_mut().zip(durable.nodes()) {
            node.record = *record;
            node.lease_end = now + parameters.term();
        }
        Ok(service)
    }

    /// Takes a node's heartbeat, received at `now`, and answers it.
    pub fn heartbeat(&mut self, now: Instant, heartbeat: Heartbeat) -> Answer {
        self.now = self.now.max(now);
        let Heartbeat { node: id, incarnation, status } = heartbeat;
        let known = self.nodes.get(id.index()).ok_or(Reason::UnknownNode)?;
        if self.halted {
            return Err(Reason::Halted);
        }
        if status.epoch > self.epoch {
            return Err(Reason::Ahead);
        }
        let newest = known.candidate.map(|candidate| candidate.incarnation).max(known.record.incarnation);
        if newest.is_some_and(|newest| incarnation < newest) {
            return Err(Reason::Superseded);
        }
        if known.record.incarnation == Some(incarnation) {
            if known.record.role == Role::Out || status.state == HostState::Lost {
                return Err(Reason::Rejoin);
            }
            self.renew(heartbeat);
        } else {
            // Whatever an engine holds that no view knows, it is not this cluster's data.
            if status.state != HostState::Starting {
                return Err(Reason::Rejoin);
            }
            let heard = self.now;
            self.nodes[id.index()].candidate = Some(Candidate { incarnation, heard });
        }
        self.advance();
        let record = self.nodes[id.index()].record;
        if self.halted {
            Err(Reason::Halted)
        } else if record.role != Role::Out && record.incarnation == Some(incarnation) {
            Ok(Grant { view: self.view(), lease: self.parameters.lease })
        } else {
            Err(Reason::Waiting)
        }
    }

    /// Lets time pass. Call it at [`Service::next_deadline`], or at any other time.
    pub fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.advance();
    }

    /// When [`Service::tick`] may change something, if nobody reports before.
    pub fn next_deadline(&self) -> Instant {
        if self.halted || self.epoch == Epoch(0) {
            return Instant::FAR_FUTURE;
        }
        let leases = self.members().map(|id| self.nodes[id.index()].lease_end);
        // A lease that has ended without consequence waits for a heartbeat of another node, not for time.
        let lapse = leases.filter(|&end| end > self.now).min().unwrap_or(Instant::FAR_FUTURE);
        match self.plan() {
            Some(plan) if self.differs(&plan) => lapse.min(self.published + self.parameters.view_interval),
            _ => lapse,
        }
    }

    /// The snapshot to store, if there is one that has not been taken. It must be on stable storage before any
    /// answer leaves that was given since the one before.
    #[must_use]
    pub fn take_unsaved(&mut self) -> Option<Durable> {
        if !std::mem::take(&mut self.unsaved) {
            return None;
        }
        let records = self.nodes.iter().map(|node| node.record).collect();
        Some(Durable::new(self.epoch, self.halted, records).expect("the service keeps to its own rules"))
    }

    /// Whether [`Service::take_unsaved`] would return a snapshot.
    pub fn has_unsaved(&self) -> bool {
        self.unsaved
    }

    /// The newest published view; epoch 0 and nobody before the first.
    pub fn view(&self) -> View {
        View { epoch: self.epoch, full: self.having(Role::Full), joining: self.having(Role::Joining) }
    }

    /// The life with which `node` is or was in the newest view that had it.
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.nodes.get(node.index())?.record.incarnation
    }

    /// Where the cluster stands.
    pub fn phase(&self) -> Phase {
        if self.halted {
            Phase::Halted
        } else if self.epoch == Epoch(0) {
            Phase::Bootstrapping { missing: self.select(|node| node.candidate.is_none()) }
        } else {
            Phase::Running
        }
    }

    /// Extends the lease of a member and notes its progress.
    fn renew(&mut self, heartbeat: Heartbeat) {
        let was_cut_off = self.holders().is_empty();
        let lease_end = self.now + self.parameters.term();
        let node = &mut self.nodes[heartbeat.node.index()];
        node.lease_end = lease_end;
        if heartbeat.status.state == (HostState::Joining { synced: true }) {
            node.synced = Some(heartbeat.status.epoch);
        }
        if was_cut_off && !self.holders().is_empty() {
            for node in &mut self.nodes {
                node.lease_end = node.lease_end.max(lease_end);
            }
        }
    }

    /// Publishes the next view if it is time for one.
    fn advance(&mut self) {
        if self.halted {
            return;
        }
        if self.epoch == Epoch(0) {
            if self.nodes.iter().all(|node| node.candidate.is_some()) {
                let all = NodeSet::first(self.nodes.len());
                self.publish(&Plan { full: all, joining: NodeSet::EMPTY, reborn: all, urgent: true });
            }
            return;
        }
        let Some(plan) = self.plan() else {
            self.halt();
            return;
        };
        let due = plan.urgent || self.now >= self.published + self.parameters.view_interval;
        if due && self.differs(&plan) {
            self.publish(&plan);
        }
    }

    /// What the next view would be at this moment; `None` if nobody would hold the data.
    fn plan(&self) -> Option<Plan> {
        let view = self.view();
        let is_alive = |node: &Node| node.lease_end > self.now;
        let dead = self.select(|node| node.record.role != Role::Out && node.candidate.is_some());
        let whole = self.whole();
        if whole.is_empty() {
            return None;
        }
        let lapsed =
            self.members().filter(|&id| !dead.contains(id) && !is_alive(&self.nodes[id.index()])).collect();
        let removed = if self.holders().is_empty() { NodeSet::EMPTY } else { lapsed };
        let present = |candidate: Candidate| candidate.heard + self.parameters.term() > self.now;
        let reborn = self.select(|node| node.candidate.is_some_and(present));
        let full = difference(whole, removed);
        let caught_up_or_gone = whole.union(removed).union(dead);
        let joining = difference(view.joining, caught_up_or_gone).union(reborn);
        Some(Plan { full, joining, reborn, urgent: !removed.union(dead).is_empty() })
    }

    fn differs(&self, plan: &Plan) -> bool {
        let view = self.view();
        plan.full != view.full || plan.joining != view.joining || !plan.reborn.is_empty()
    }

    fn publish(&mut self, plan: &Plan) {
        assert!(!plan.full.is_empty(), "a view has a full member");
        assert!(plan.full.intersection(plan.joining).is_empty(), "a member is either full or joining");
        let Some(epoch) = self.epoch.0.checked_add(1) else {
            self.halt();
            return;
        };
        self.epoch = Epoch(epoch);
        self.published = self.now;
        self.unsaved = true;
        let lease_end = self.now + self.parameters.term();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let Some(id) = NodeId::new(index) else { continue };
            node.record.role = match (plan.full.contains(id), plan.joining.contains(id)) {
                (true, _) => Role::Full,
                (_, true) => Role::Joining,
                _ => Role::Out,
            };
            if plan.reborn.contains(id)
                && let Some(candidate) = node.candidate.take()
            {
                node.record.incarnation = Some(candidate.incarnation);
                node.lease_end = lease_end;
                node.synced = None;
            }
        }
    }

    fn halt(&mut self) {
        self.halted = true;
        self.unsaved = true;
    }

    /// Members that hold all data: full ones, and joining ones that are synced in this epoch and alive. A synced one has
    /// acknowledged every write since, so it may take the place of the last full one. Engines that are known
    /// to be dead are left out.
    fn whole(&self) -> NodeSet {
        self.select(|node| {
            let synced = node.synced == Some(self.epoch) && node.lease_end > self.now;
            node.candidate.is_none()
                && (node.record.role == Role::Full || node.record.role == Role::Joining && synced)
        })
    }

    /// Those of them that have a lease.
    fn holders(&self) -> NodeSet {
        self.whole().iter().filter(|id| self.nodes[id.index()].lease_end > self.now).collect()
    }

    fn members(&self) -> impl Iterator<Item = NodeId> {
        self.view().members().iter()
    }

    fn having(&self, role: Role) -> NodeSet {
        self.select(|node| node.record.role == role)
    }

    fn select(&self, wanted: impl Fn(&Node) -> bool) -> NodeSet {
        let ids = (0..self.nodes.len()).filter_map(NodeId::new);
        ids.filter(|id| wanted(&self.nodes[id.index()])).collect()
    }
}

fn difference(set: NodeSet, less: NodeSet) -> NodeSet {
    NodeSet::from_bits(set.bits() & !less.bits())
}
