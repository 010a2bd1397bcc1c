//! The membership service: views and leases.

use weft_time::{Duration, Instant};
use weft_waist::{EngineState, Epoch, NODES_MAX, NodeId, NodeSet, View};

use crate::durable::{Durable, DurableError, NodeRecord, Role};
use crate::lease::{LEASE_MAX, LEASE_MIN};
use crate::membership::{Incarnation, Reason};
use crate::message::Heartbeat;
use crate::status::{MemberStatus, Phase};

/// Parameters of a membership service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceParameters {
    /// Number of configured nodes, 1 to 16: nodes 0 to `nodes` - 1.
    pub nodes: usize,
    /// How many nodes hold the same data: those of part *p* are nodes *p*, *p* + 1, … modulo `nodes`, and there are as
    /// many parts as nodes. If it is `nodes`, each holds all.
    pub replicas: usize,
    /// Length of a lease: whole nanoseconds, [`LEASE_MIN`] to [`LEASE_MAX`].
    pub lease: Duration,
    /// By how many millionths the service's clock may run faster than a node's.
    pub drift_ppm: u32,
    /// The shortest time between two views, unless a member has to go: changes that can wait are collected meanwhile,
    /// because every view starts the transfer to joining members anew.
    pub view_interval: Duration,
}

impl ServiceParameters {
    /// `nodes` nodes, each of which holds all data, with leases of length `lease`, and for the rest: clocks that drift
    /// by 1,000 millionths at most, far more than a quartz or a disciplined clock does, and a quarter of a lease
    /// between views.
    pub fn new(nodes: usize, lease: Duration) -> Self {
        Self { nodes, replicas: nodes, lease, drift_ppm: 1_000, view_interval: lease / 4 }
    }

    /// Time after a grant, on its own clock, after which the service knows that the lease has ended at the node.
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
    /// Length of the lease from the sending of the heartbeat.
    pub lease: Duration,
}

/// The answer to a heartbeat: a lease, or why not.
pub type Answer = Result<Grant, Reason>;

/// The embedded membership service.
///
/// # Rules
/// - Epoch 1 is published once all configured nodes have reported: each is full, and empty.
/// - Epoch 2 waits until every member that is full in it has reported epoch 1. A founder that is told a later view
///   first cannot tell itself from an engine that has forgotten everything. One that dies before that is not in epoch 2
///   as a full member, so nobody waits for it.
/// - A node is in a view with one incarnation. A greater one waits until the older one's lease has ended, or until the
///   older one has said that its engine is lost; then the older is dead, and the next view has the node as joining. If
///   the older one is still heard a lease later, two processes have the same number, and the newcomer is [turned
///   away](Reason::Taken). Neither a process that was started by mistake nor a forged datagram ends a node that lives.
/// - A lesser incarnation than the newest is [told](Reason::Superseded) which that is, and goes on with a greater one.
///   So no incarnation, however large, bars a node for good.
/// - A member whose lease has ended leaves the view, provided that of each part of the data that it replicates another
///   member that holds it has been heard since. A lease alone is no proof of life: its holder may have died just after
///   it was granted, and then the only copy would be the one that is being removed.
/// - The last member that holds a part of the data is never removed. When it is known to be dead, that part is lost;
///   the cluster goes on without it, and is halted when nothing is left.
/// - When no member that holds a part of the data was heard within a lease's time, it is the service that was cut off.
///   As soon as one is back, the others that replicate that part have one more lease's time to return.
/// - A joining member that reports to be synced in the current epoch holds all data that it replicates, and becomes
///   full. If others are joining and alive it waits for them, at most as long as it has taken itself: the view that
///   makes it full starts their transfer anew. So nodes that come back together are full together, not one after the
///   other, and the first of them in at most twice its time. A view that must come makes it full at once.
/// - Members that do not hear each other, one way or both, cannot all stay: every write would wait for them. When
///   members have said for a quarter of a lease that they do not hear others, a largest set of members stays in which
///   all hear each other and the service, and which holds every part of the data that somebody holds: of all such sets
///   one with the most full members, then one with the most members, then the one with the lowest numbers. (VoltDB and
///   the survey of partial partitions by Alfatafta et al., OSDI 2020, choose a largest clique, too.) The others are
///   [told](Reason::Parted), and are granted no lease, so they leave the view as silent members do, when their leases
///   have ended. If there is no such set, nobody is left out.
/// - Nobody enters a view, the first one excepted, unless it and every member that stays hear each other, and it hears
///   the service.
/// - A member that says that its engine is lost, or has been stopped, gives up its lease, and leaves the view in the
///   same way.
/// - A full member that comes back with its data, in the same incarnation, is in the next view what it was: it may have
///   led in the epoch that it reports, and the numbers that it gave must not be given again. So a cluster whose nodes
///   have lost power together goes on as it was, if this service has its state.
/// - A node that has been removed returns empty, with a greater incarnation.
/// - A service that has published nothing, and is told of later epochs, has lost its state. The members of the newest
///   view tell it that view; once all of them have, and none has told of another one since, it goes on from there. None
///   of them has then been told a later view, and a thousand epochs are left out, which it may have published and told
///   to others. A member that has forgotten everything, or is gone, keeps the service from it: what it held may be
///   the only copy.
///
/// # Use
/// `now` comes from one clock and does not run backwards. Hand heartbeats over as soon as they are readable: the
/// service takes the time at which it hears a node for a time at which the node is alive. [`Service::take_unsaved`]
/// comes after every call, and *its result is stored before an answer leaves*; [`Server`] sees to that order.
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
    /// Epochs that are left out before the next one.
    lost_epochs: u32,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    record: NodeRecord,
    /// When the node's lease has ended on every clock.
    lease_end: Instant,
    /// When the node's engine last reported as a member and had its lease renewed.
    heard: Instant,
    /// When it was heard last, whether its lease was renewed or not; `None` if it never was as what it is now.
    spoke: Option<Instant>,
    /// Whom it hears, itself for the service, and since when it has not heard each of the others.
    hears: NodeSet,
    silent_since: [Instant; NODES_MAX],
    /// The latest epoch that its engine has reported as a member.
    reported: Epoch,
    /// The node has come back with its data, and no view has followed: it may have led in this epoch, up to an unknown
    /// length.
    restored: bool,
    /// The latest epoch in which it reported to hold all data while joining, and when it did so first.
    synced: Option<(Epoch, Instant)>,
    /// A life that has reported and is in no view.
    candidate: Option<Life>,
    /// A life that has reported while another one may still live.
    contender: Option<Life>,
    /// While nothing is published: what it claims to be the newest view, and when it has.
    claim: Option<(Heartbeat, View, Instant)>,
}

/// A life that has reported and is in no view.
#[derive(Clone, Copy, Debug)]
struct Life {
    incarnation: Incarnation,
    /// First report.
    since: Instant,
    /// Time of the last report,
    heard: Instant,
    /// and whom it hears.
    hears: NodeSet,
}

/// Epochs that a service may have published, one after the other, before it lost its state and without telling any
/// member of its last view: far more than it does while nodes report.
const EPOCHS_LOST: u32 = 1 << 10;

/// The greatest incarnation that a process may begin with: the wall clock's nanoseconds reach it in 2116. What lies
/// beyond is there for those that follow one which was made up.
const CHOSEN_MAX: u64 = 1 << 62;

impl Node {
    /// Last report of another incarnation than `incarnation` that may still hold the node's number.
    fn holder_heard(&self, incarnation: Incarnation, now: Instant, term: Duration) -> Option<Instant> {
        match self.candidate {
            Some(life) if life.incarnation == incarnation => None,
            Some(life) => (life.heard + term > now).then_some(life.heard),
            None => (self.record.role != Role::Out && self.lease_end > now).then_some(self.heard),
        }
    }

    /// Notes whom the node says that it hears.
    fn note_hears(&mut self, hears: NodeSet, now: Instant) {
        for silent in self.hears.minus(hears).iter() {
            self.silent_since[silent.index()] = now;
        }
        (self.hears, self.spoke) = (hears, Some(now));
    }

    /// Whether it has not heard this one for so long.
    fn misses(&self, other: NodeId, patience: Duration, now: Instant) -> bool {
        !self.hears.contains(other) && self.silent_since[other.index()] + patience <= now
    }

    /// Notes a life that is in no view.
    fn hear_newcomer(
        &mut self,
        incarnation: Incarnation,
        hears: NodeSet,
        now: Instant,
        term: Duration,
    ) -> Result<(), Reason> {
        let known = |life: Option<Life>| life.filter(|life| life.incarnation == incarnation);
        let Some(holder_heard) = self.holder_heard(incarnation, now, term) else {
            let since = known(self.candidate).or(known(self.contender)).map_or(now, |life| life.since);
            self.candidate = Some(Life { incarnation, since, heard: now, hears });
            self.contender = None;
            return Ok(());
        };
        let since = match self.contender {
            Some(life) if life.incarnation == incarnation => life.since,
            // One process at a time, as long as it reports.
            Some(life) if life.heard + term > now => return Err(Reason::Occupied),
            _ => now,
        };
        // Messages in flight when the newcomer began have arrived a lease later.
        if holder_heard > since + term {
            self.contender = None;
            return Err(Reason::Taken);
        }
        self.contender = Some(Life { incarnation, since, heard: now, hears });
        Err(Reason::Occupied)
    }

    /// Lets a newcomer take the number of a holder whose lease has ended and that has not reported since.
    fn succeed(&mut self, now: Instant) {
        if self.record.role != Role::Out
            && self.candidate.is_none()
            && self.lease_end <= now
            && let Some(life) = self.contender.take()
            && life.heard >= self.heard
        {
            self.candidate = Some(life);
        }
    }
}

/// The view that ought to follow the current one.
struct Plan {
    full: NodeSet,
    joining: NodeSet,
    /// Nodes that enter it with another incarnation than they had.
    reborn: NodeSet,
    /// When the view is due, if no report comes before.
    due: Instant,
}

impl Service {
    /// A service that has published nothing.
    ///
    /// # Panics
    /// If a parameter is outside its documented range.
    pub fn new(parameters: ServiceParameters) -> Self {
        assert!((1..=NODES_MAX).contains(&parameters.nodes), "a cluster has 1 to 16 nodes");
        assert!((1..=parameters.nodes).contains(&parameters.replicas), "a part has 1 to all nodes");
        assert!((LEASE_MIN..=LEASE_MAX).contains(&parameters.lease), "a lease lasts 100 us to one hour");
        assert!(parameters.lease.as_ps().is_multiple_of(1_000), "a lease is a whole number of nanoseconds");
        let node = Node {
            record: NodeRecord::NEVER,
            lease_end: Instant::ZERO,
            heard: Instant::ZERO,
            spoke: None,
            hears: NodeSet::first(NODES_MAX),
            silent_since: [Instant::ZERO; NODES_MAX],
            reported: Epoch(0),
            restored: false,
            synced: None,
            candidate: None,
            contender: None,
            claim: None,
        };
        Self {
            parameters,
            now: Instant::ZERO,
            epoch: Epoch(0),
            published: Instant::ZERO,
            halted: false,
            unsaved: false,
            lost_epochs: 0,
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
        let heard = self.hear(heartbeat);
        // Whatever was said, time has passed.
        self.advance();
        heard?;
        let record = self.nodes[heartbeat.node.index()].record;
        if self.halted {
            Err(Reason::Halted)
        } else if record.role != Role::Out && record.incarnation == Some(heartbeat.incarnation) {
            Ok(Grant { view: self.view(), lease: self.parameters.lease })
        } else if self.is_kept_out(heartbeat.node) {
            Err(Reason::Parted)
        } else {
            Err(Reason::Waiting)
        }
    }

    /// Lets time pass. Call it at [`Service::next_deadline`], or at any other time.
    pub fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.advance();
    }

    /// When [`Service::tick`] may have an effect, if no report comes before.
    pub fn next_deadline(&self) -> Instant {
        if self.halted || self.epoch == Epoch(0) {
            return Instant::FAR_FUTURE;
        }
        // The end of a lease is no such moment by itself: what follows from it waits for the heartbeat of another node.
        // But a life of the same node may wait for it.
        let contended = self.nodes.iter().filter(|node| node.contender.is_some() && node.candidate.is_none());
        let succession = contended.map(|node| node.lease_end).filter(|end| *end > self.now).min();
        let view = match self.plan() {
            Some(plan) if self.differs(&plan) => plan.due,
            _ => Instant::FAR_FUTURE,
        };
        succession.map_or(view, |end| view.min(end))
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

    /// The service's knowledge of each node at `now`.
    pub(crate) fn members_at(&self, now: Instant) -> Vec<MemberStatus> {
        let member = |node: &Node| {
            let is_member = node.record.role != Role::Out;
            let lease_left = node.lease_end.saturating_since(now);
            MemberStatus {
                incarnation: node.record.incarnation,
                lease_left: if is_member { lease_left } else { Duration::ZERO },
                silent: (node.heard > Instant::ZERO).then(|| now.saturating_since(node.heard)),
                reported: node.reported,
            }
        };
        self.nodes.iter().map(member).collect()
    }

    /// Whether a lease of `node` may hold.
    pub(crate) fn is_leased(&self, node: NodeId) -> bool {
        let known = self.nodes.get(node.index());
        known.is_some_and(|node| node.record.role != Role::Out && node.lease_end > self.now)
    }

    /// Number of nodes, and number of those that hold the same data.
    pub fn size(&self) -> (usize, usize) {
        (self.parameters.nodes, self.parameters.replicas)
    }

    /// Phase of the cluster.
    pub fn phase(&self) -> Phase {
        if self.halted {
            Phase::Halted
        } else if self.epoch == Epoch(0) {
            Phase::Bootstrapping { missing: self.select(|node| node.candidate.is_none()) }
        } else {
            Phase::Running
        }
    }

    /// Notes what a heartbeat says, or refuses it outright.
    fn hear(&mut self, heartbeat: Heartbeat) -> Result<(), Reason> {
        let Heartbeat { node, incarnation, status, hears, .. } = heartbeat;
        let known = self.nodes.get_mut(node.index()).ok_or(Reason::UnknownNode)?;
        if self.halted {
            return Err(Reason::Halted);
        }
        if self.epoch == Epoch(0) {
            known.claim = heartbeat.claim.map(|view| (heartbeat, view, self.now));
        }
        if status.epoch > self.epoch {
            self.adopt();
            return Err(Reason::Ahead);
        }
        let (now, term) = (self.now, self.parameters.term());
        let newest = known.candidate.map(|candidate| candidate.incarnation).max(known.record.incarnation);
        let follows = newest.is_some_and(|newest| incarnation == newest.next());
        if newest.is_some_and(|newest| incarnation < newest)
            || incarnation.get() > CHOSEN_MAX && !follows && newest != Some(incarnation)
        {
            return Err(Reason::Superseded { by: newest.unwrap_or(Incarnation::FIRST) });
        }
        if known.record.incarnation == Some(incarnation) {
            if known.record.role == Role::Out {
                return Err(Reason::Rejoin);
            }
            let is_half = status.state == EngineState::Restored && known.record.role != Role::Full;
            if status.state == EngineState::Lost || is_half {
                // The node serves nothing any more, so nobody has to wait for its lease.
                known.lease_end = now;
                return Err(Reason::Rejoin);
            }
            known.note_hears(hears, now);
            if !self.kept().contains(node) {
                return Err(Reason::Parted);
            }
            self.renew(heartbeat);
            return Ok(());
        }
        // Whatever an engine holds that no view knows, it is not this cluster's data.
        if status.state != EngineState::Starting {
            return Err(Reason::Rejoin);
        }
        known.hear_newcomer(incarnation, hears, now, term)
    }

    /// Goes on with the newest view that is claimed, once all of its members claim it.
    fn adopt(&mut self) {
        let claims = self.nodes.iter().filter_map(|node| node.claim);
        let Some((_, view, _)) = claims.max_by_key(|(_, view, _)| view.epoch) else { return };
        let claims_it = |id: NodeId| {
            let claim = self.nodes.get(id.index()).and_then(|node| node.claim);
            claim.is_some_and(|(_, claimed, _)| claimed == view)
        };
        if self.epoch != Epoch(0) || !view.members().iter().all(claims_it) {
            return;
        }
        self.epoch = view.epoch;
        self.published = self.now;
        self.lost_epochs = EPOCHS_LOST;
        self.unsaved = true;
        let lease_end = self.now + self.parameters.term();
        for id in view.members().iter() {
            let node = &mut self.nodes[id.index()];
            let (heartbeat, _, heard) = node.claim.expect("all of them claim it");
            let role = if view.full.contains(id) { Role::Full } else { Role::Joining };
            node.record = NodeRecord { role, incarnation: Some(heartbeat.incarnation) };
            // A lease of the service that was here before may hold.
            (node.lease_end, node.heard, node.reported) = (lease_end, heard, heartbeat.status.epoch);
            node.note_hears(heartbeat.hears, heard);
        }
        self.nodes.iter_mut().for_each(|node| node.claim = None);
    }

    /// Extends the lease of a member and notes its progress.
    fn renew(&mut self, heartbeat: Heartbeat) {
        let cut_off = self.parts_without_holder();
        let lease_end = self.now + self.parameters.term();
        let node = &mut self.nodes[heartbeat.node.index()];
        node.lease_end = lease_end;
        node.heard = self.now;
        node.reported = node.reported.max(heartbeat.status.epoch);
        let epoch = heartbeat.status.epoch;
        node.restored |= heartbeat.status.state == EngineState::Restored && epoch == self.epoch;
        let known = node.synced.is_some_and(|(synced, _)| synced == epoch);
        if heartbeat.status.state == (EngineState::Joining { synced: true }) && !known {
            node.synced = Some((epoch, self.now));
        }
        let still_cut_off = self.parts_without_holder();
        for part in cut_off.into_iter().filter(|part| !still_cut_off.contains(part)) {
            for id in self.replicas_of(part).iter() {
                let node = &mut self.nodes[id.index()];
                node.lease_end = node.lease_end.max(lease_end);
            }
        }
    }

    /// Publishes the next view if it is time for one.
    fn advance(&mut self) {
        if self.halted {
            return;
        }
        let now = self.now;
        self.nodes.iter_mut().for_each(|node| node.succeed(now));
        if self.epoch == Epoch(0) {
            if self.nodes.iter().all(|node| node.candidate.is_some()) {
                let all = NodeSet::first(self.nodes.len());
                self.publish(&Plan { full: all, joining: NodeSet::EMPTY, reborn: all, due: self.now });
            }
            return;
        }
        let Some(plan) = self.plan() else {
            self.halt();
            return;
        };
        if self.now >= plan.due && self.differs(&plan) {
            self.publish(&plan);
        }
    }

    /// The next view at this moment; `None` if no node would hold the data.
    fn plan(&self) -> Option<Plan> {
        let view = self.view();
        let dead = self.select(|node| node.record.role != Role::Out && node.candidate.is_some());
        let whole = self.whole();
        if whole.is_empty() {
            return None;
        }
        // Of two nodes, at most one was heard after the other's lease had ended. So of each part one that holds it
        // remains.
        let is_survived = |member: NodeId| {
            let end = self.nodes[member.index()].lease_end;
            let mut parts = (0..self.nodes.len()).filter(|&part| self.replicas_of(part).contains(member));
            parts.all(|part| {
                let others = whole.intersection(self.replicas_of(part)).without(member);
                others.iter().any(|other| self.nodes[other.index()].heard >= end)
            })
        };
        let removed: NodeSet = self.members().filter(|&id| !dead.contains(id) && is_survived(id)).collect();
        let present = |candidate: Life| candidate.heard + self.parameters.term() > self.now;
        let comes = self.select(|node| node.candidate.is_some_and(present));
        let stays = self.kept().minus(removed.union(dead));
        // Those with the lowest numbers first, if newcomers do not hear each other.
        let reborn = comes.iter().fold(NodeSet::EMPTY, |reborn, id| {
            if self.fits(id, stays, reborn) { reborn.with(id) } else { reborn }
        });
        let full = whole.minus(removed);
        let caught_up_or_gone = whole.union(removed).union(dead);
        let joining = view.joining.minus(caught_up_or_gone).union(reborn);
        let is_founded = self.epoch > Epoch(1)
            || full.iter().all(|founder| self.nodes[founder.index()].reported == Epoch(1));
        let due = if !is_founded {
            // That waits for heartbeats, not for time.
            Instant::FAR_FUTURE
        } else if !removed.union(dead).is_empty() || self.nodes.iter().any(|node| node.restored) {
            // Writes stand still until a member that has gone is out of the view.
            self.published
        } else {
            let due = self.published + self.parameters.view_interval;
            if reborn.is_empty() { due.max(self.patience(joining)) } else { due }
        };
        Some(Plan { full, joining, reborn, due })
    }

    /// How long members that are synced wait for these, which are still joining: twice as long as the first of them has
    /// taken. Whoever is silent is not waited for.
    fn patience(&self, joining: NodeSet) -> Instant {
        let is_under_way = |id: NodeId| self.nodes[id.index()].lease_end > self.now;
        let whole = self.whole();
        let synced = whole.iter().filter_map(|id| self.nodes[id.index()].synced);
        let first = synced.filter(|(epoch, _)| *epoch == self.epoch).map(|(_, at)| at).min();
        match first {
            Some(first) if joining.iter().any(is_under_way) => first + (first - self.published),
            _ => self.published,
        }
    }

    fn differs(&self, plan: &Plan) -> bool {
        let view = self.view();
        let is_restored = self.nodes.iter().any(|node| node.restored);
        plan.full != view.full || plan.joining != view.joining || !plan.reborn.is_empty() || is_restored
    }

    fn publish(&mut self, plan: &Plan) {
        assert!(!plan.full.is_empty(), "a view has a full member");
        assert!(plan.full.intersection(plan.joining).is_empty(), "a member is either full or joining");
        let step = 1 + std::mem::take(&mut self.lost_epochs);
        let Some(epoch) = self.epoch.0.checked_add(step) else {
            self.halt();
            return;
        };
        self.epoch = Epoch(epoch);
        self.published = self.now;
        self.unsaved = true;
        let lease_end = self.now + self.parameters.term();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let Some(id) = NodeId::new(index) else { continue };
            node.restored = false;
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
                (node.hears, node.spoke) = (candidate.hears, Some(candidate.heard));
                node.silent_since = [self.now; NODES_MAX];
                node.reported = Epoch(0);
                node.synced = None;
                node.contender = None;
            }
        }
        // Whether those that have just come hear the others, and these them, is known a little later.
        for node in &mut self.nodes {
            plan.reborn.iter().for_each(|id| node.silent_since[id.index()] = self.now);
        }
    }

    fn halt(&mut self) {
        self.halted = true;
        self.unsaved = true;
    }

    /// The nodes that hold a part of the data when they are full.
    fn replicas_of(&self, part: usize) -> NodeSet {
        let ring = (0..self.parameters.replicas).map(|step| (part + step) % self.nodes.len());
        ring.filter_map(NodeId::new).collect()
    }

    /// Members that hold all data that they replicate: full ones, and joining ones that are synced in this epoch and
    /// alive. A synced one has acknowledged every write since, so it may take the place of the last full one. Engines
    /// that are known to be dead are left out.
    fn whole(&self) -> NodeSet {
        self.select(|node| {
            let synced =
                node.synced.is_some_and(|(epoch, _)| epoch == self.epoch) && node.lease_end > self.now;
            node.candidate.is_none()
                && (node.record.role == Role::Full || node.record.role == Role::Joining && synced)
        })
    }

    /// The members that are left out because they do not hear others or are not heard by them.
    pub fn parted(&self) -> NodeSet {
        self.view().members().minus(self.kept())
    }

    /// What a member that is left out and the others do not hear, in words.
    pub fn parted_from(&self, node: NodeId) -> String {
        let number = node.index();
        let Some(known) = self.nodes.get(number) else { return "there is no such node".to_owned() };
        let names = |set: NodeSet| {
            let names: Vec<_> = set.iter().map(|other| format!("node {}", other.index())).collect();
            names.join(", ")
        };
        if !known.hears.contains(node) {
            return "it does not hear the membership service".to_owned();
        }
        let others = self.view().members().without(node);
        let unheard = others.minus(known.hears);
        let deaf: NodeSet = others.iter().filter(|id| !self.nodes[id.index()].hears.contains(node)).collect();
        let [unheard, deaf] = [unheard, deaf].map(names);
        match (unheard.is_empty(), deaf.is_empty()) {
            (true, _) => format!("{deaf} cannot hear it"),
            (_, true) => format!("it cannot hear {unheard}"),
            _ => format!("it cannot hear {unheard}, and {deaf} cannot hear it"),
        }
    }

    /// The members that may stay: all, unless some do not hear others. See the rules.
    fn kept(&self) -> NodeSet {
        let (now, patience) = (self.now, self.parameters.lease / 4);
        let members = self.view().members();
        let misses = |one: NodeId, other: NodeId| self.nodes[one.index()].misses(other, patience, now);
        // Who is silent leaves when its lease has ended, and what it has said does not count.
        let heard: NodeSet = members.iter().filter(|id| self.speaks(*id)).collect();
        let deaf: NodeSet = heard.iter().filter(|&id| misses(id, id)).collect();
        let hearing = heard.minus(deaf);
        // For each node those that it cannot stay together with.
        let mut apart = [NodeSet::EMPTY; NODES_MAX];
        for one in hearing.iter() {
            for other in hearing.without(one).iter().filter(|&other| misses(one, other)) {
                apart[one.index()] = apart[one.index()].with(other);
                apart[other.index()] = apart[other.index()].with(one);
            }
        }
        let parted: NodeSet = hearing.iter().filter(|id| !apart[id.index()].is_empty()).collect();
        if parted.union(deaf).is_empty() {
            return members;
        }
        let holders = self.whole().intersection(heard);
        let parts = (0..self.nodes.len()).map(|part| self.replicas_of(part).intersection(holders));
        let parts: Vec<NodeSet> = parts.filter(|replicas| !replicas.is_empty()).collect();
        let is_whole = |set: NodeSet| parts.iter().all(|part| !part.intersection(set).is_empty());
        let full = self.having(Role::Full);
        let choices = (0..1u32 << parted.len()).map(|choice| {
            let chosen = parted.iter().enumerate().filter(|(rank, _)| choice >> rank & 1 == 1);
            hearing.minus(parted).union(chosen.map(|(_, id)| id).collect())
        });
        let hear_each_other =
            |set: NodeSet| set.iter().all(|id| apart[id.index()].intersection(set).is_empty());
        let best = choices.filter(|&set| hear_each_other(set) && is_whole(set)).max_by_key(|set| {
            // The lowest number is the highest bit then.
            (set.intersection(full).len(), set.len(), set.bits().reverse_bits())
        });
        best.map_or(members, |best| members.minus(heard.minus(best)))
    }

    /// Whether a member was heard within a lease's time, in the life in which it is one.
    fn speaks(&self, id: NodeId) -> bool {
        let node = &self.nodes[id.index()];
        node.candidate.is_none() && node.spoke.is_some_and(|at| at + self.parameters.term() > self.now)
    }

    /// Whether a node that is in no view hears the service, and it and those that stay and other newcomers hear each
    /// other. A silent member that cannot be removed, because it alone holds some data, keeps nobody out.
    fn fits(&self, id: NodeId, stays: NodeSet, newcomers: NodeSet) -> bool {
        let newcomer_hears = |id: NodeId| self.nodes[id.index()].candidate.map(|life| life.hears);
        let Some(hears) = newcomer_hears(id) else { return false };
        let speaking = stays.without(id).iter().filter(|other| self.speaks(*other));
        let by_members = speaking.map(|other| (other, self.nodes[other.index()].hears));
        let by_newcomers = newcomers.iter().filter_map(|other| Some((other, newcomer_hears(other)?)));
        let mut others = by_members.chain(by_newcomers);
        hears.contains(id) && others.all(|(other, theirs)| hears.contains(other) && theirs.contains(id))
    }

    /// Whether a newcomer has been waiting for a while because it and the members do not hear each other.
    fn is_kept_out(&self, id: NodeId) -> bool {
        let patience = self.parameters.lease / 4;
        let candidate = self.nodes[id.index()].candidate;
        self.epoch > Epoch(0)
            && candidate.is_some_and(|life| life.since + patience <= self.now)
            && !self.fits(id, self.kept(), NodeSet::EMPTY)
    }

    /// The parts of the data of which no holder was heard within a lease's time. That somebody's lease was extended
    /// without being heard does not count.
    fn parts_without_holder(&self) -> Vec<usize> {
        let whole = self.whole().iter();
        let is_heard = |id: &NodeId| self.nodes[id.index()].heard + self.parameters.term() > self.now;
        let holders: NodeSet = whole.filter(is_heard).collect();
        (0..self.nodes.len())
            .filter(|&part| self.replicas_of(part).intersection(holders).is_empty())
            .collect()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use weft_waist::EngineStatus;

    const LEASE: Duration = Duration::from_ms(100);

    fn parameters(nodes: usize) -> ServiceParameters {
        ServiceParameters { drift_ppm: 10_000, ..ServiceParameters::new(nodes, LEASE) }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn beat(
        service: &mut Service,
        ms: u64,
        node: usize,
        life: u64,
        epoch: u32,
        state: EngineState,
    ) -> Answer {
        beat_hearing(service, ms, (node, life), (epoch, state), NodeSet::first(16))
    }

    fn beat_hearing(
        service: &mut Service,
        ms: u64,
        (node, life): (usize, u64),
        (epoch, state): (u32, EngineState),
        hears: NodeSet,
    ) -> Answer {
        let (node, incarnation) = (NodeId::new(node).unwrap(), Incarnation::new(life).unwrap());
        let status = EngineStatus { epoch: Epoch(epoch), state };
        service.heartbeat(at(ms), Heartbeat { node, incarnation, status, hears, claim: None })
    }

    /// The node's life 10 says that its engine is lost, as it does before it starts over.
    fn loses(service: &mut Service, ms: u64, node: usize) {
        let epoch = service.view().epoch.0;
        assert_eq!(beat(service, ms, node, 10, epoch, EngineState::Lost), Err(Reason::Rejoin));
    }

    fn superseded_by(life: u64) -> Answer {
        Err(Reason::Superseded { by: Incarnation::new(life).unwrap() })
    }

    fn sets(service: &Service) -> (u32, Vec<usize>, Vec<usize>) {
        let view = service.view();
        let indices = |set: NodeSet| set.iter().map(NodeId::index).collect();
        (view.epoch.0, indices(view.full), indices(view.joining))
    }

    /// Epoch 1 is published at time 0, and nobody has reported it.
    fn founding(nodes: usize) -> Service {
        let mut service = Service::new(parameters(nodes));
        for node in 0..nodes {
            let answer = beat(&mut service, 0, node, 10, 0, EngineState::Starting);
            assert_eq!(answer.is_ok(), node == nodes - 1);
        }
        assert_eq!(sets(&service), (1, (0..nodes).collect(), vec![]));
        service
    }

    /// Nodes that are all full in epoch 1 and have said so, with leases from time 0.
    fn running(nodes: usize) -> Service {
        let mut service = founding(nodes);
        for node in 0..nodes {
            assert!(beat(&mut service, 0, node, 10, 1, EngineState::Full).is_ok());
        }
        service
    }

    #[test]
    fn a_silent_member_is_removed_when_its_lease_has_certainly_ended() {
        let mut service = running(3);
        assert!(beat(&mut service, 50, 0, 10, 1, EngineState::Full).is_ok());
        assert!(beat(&mut service, 60, 1, 10, 1, EngineState::Full).is_ok());
        // 100 ms and 1 % for drift.
        assert!(beat(&mut service, 100, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 1);
        assert!(beat(&mut service, 101, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![0, 1], vec![]));
        assert_eq!(beat(&mut service, 110, 2, 10, 1, EngineState::Full), Err(Reason::Rejoin));
        assert_eq!(beat(&mut service, 110, 2, 9, 1, EngineState::Full), superseded_by(10));
        assert_eq!(beat(&mut service, 110, 2, 11, 1, EngineState::Full), Err(Reason::Rejoin));
    }

    #[test]
    fn members_that_come_back_with_their_data_go_on_in_the_next_view() {
        let mut service = running(3);
        let durable = service.take_unsaved().unwrap();
        // All nodes and the service lose power.
        let mut service = Service::restore(parameters(3), &durable, at(1_000)).unwrap();
        let restored = EngineState::Restored;
        // The founders are waited for, as ever.
        for node in [0, 1, 2] {
            assert_eq!(sets(&service).0, 1);
            assert!(beat(&mut service, 1_001, node, 10, 1, restored).is_ok());
        }
        assert_eq!(sets(&service), (2, vec![0, 1, 2], vec![]));
        // They have not led in epoch 2: no further view is needed.
        for node in [0, 1, 2] {
            assert!(beat(&mut service, 1_002, node, 10, 1, restored).is_ok());
        }
        assert_eq!(sets(&service).0, 2);
        // A node that does not come back in time is left out, and has to join.
        for ms in [1_050, 1_104, 1_110] {
            assert!(beat(&mut service, ms, 0, 10, 2, EngineState::Full).is_ok());
            assert!(beat(&mut service, ms, 1, 10, 2, EngineState::Full).is_ok());
        }
        assert_eq!(sets(&service), (3, vec![0, 1], vec![]));
        assert_eq!(beat(&mut service, 1_120, 2, 10, 1, restored), Err(Reason::Rejoin));
    }

    #[test]
    fn a_joining_member_that_comes_back_begins_again() {
        let mut service = running(2);
        loses(&mut service, 50, 1);
        assert!(beat(&mut service, 50, 1, 11, 0, EngineState::Starting).is_ok());
        assert_eq!(sets(&service), (2, vec![0], vec![1]));
        assert_eq!(beat(&mut service, 60, 1, 11, 2, EngineState::Restored), Err(Reason::Rejoin));
    }

    #[test]
    fn a_lease_is_no_proof_of_life() {
        let mut service = running(2);
        // Node 1 dies right after this, and until 191 ms its lease says nothing about that.
        assert!(beat(&mut service, 90, 1, 10, 1, EngineState::Full).is_ok());
        for ms in [101, 150] {
            service.tick(at(ms));
            assert_eq!(sets(&service).0, 1);
            assert_eq!(service.next_deadline(), Instant::FAR_FUTURE);
        }
        // Node 0, whose lease has ended meanwhile, has the only copy.
        for ms in [160, 190] {
            assert!(beat(&mut service, ms, 0, 10, 1, EngineState::Full).is_ok());
            assert_eq!(sets(&service).0, 1);
        }
        assert!(beat(&mut service, 191, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![0], vec![]));
    }

    #[test]
    fn a_member_without_all_data_outlives_nobody() {
        let mut service = running(2);
        loses(&mut service, 50, 1);
        assert!(beat(&mut service, 50, 1, 11, 0, EngineState::Starting).is_ok());
        assert_eq!(sets(&service), (2, vec![0], vec![1]));
        for ms in [101, 150, 200] {
            assert!(beat(&mut service, ms, 1, 11, 2, EngineState::Joining { synced: false }).is_ok());
            assert_eq!(sets(&service).0, 2);
        }
        assert!(beat(&mut service, 201, 1, 11, 2, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&service), (3, vec![0, 1], vec![]));
        // No node with all data had a lease: node 0 gets one more.
        assert!(beat(&mut service, 301, 1, 11, 3, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 3);
        assert!(beat(&mut service, 302, 1, 11, 3, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (4, vec![1], vec![]));
    }

    /// Part *p* of the data is at as many nodes as there are replicas, from *p* on.
    fn running_in_a_ring(nodes: usize, replicas: usize) -> Service {
        let mut service = Service::new(ServiceParameters { replicas, ..parameters(nodes) });
        for (epoch, state) in [(0, EngineState::Starting), (1, EngineState::Full)] {
            for node in 0..nodes {
                let _ = beat(&mut service, 0, node, 10, epoch, state);
            }
        }
        service
    }

    #[test]
    fn of_each_part_one_that_holds_it_remains() {
        let mut service = running_in_a_ring(5, 2);
        // Nodes 1 and 2, the only ones with part 1, are silent, and so is node 4, whose parts others have.
        for ms in [50, 100, 150] {
            for node in [0, 3] {
                assert!(beat(&mut service, ms, node, 10, 1, EngineState::Full).is_ok());
            }
        }
        assert_eq!(sets(&service), (2, vec![0, 1, 2, 3], vec![]));
        // One of them is back: the other gets one more lease's time.
        assert!(beat(&mut service, 160, 2, 10, 1, EngineState::Full).is_ok());
        for ms in [200, 240, 260, 262] {
            assert_eq!(sets(&service).0, 2, "before {ms} ms");
            for node in [0, 2, 3] {
                assert!(beat(&mut service, ms, node, 10, 2, EngineState::Full).is_ok());
            }
        }
        assert_eq!(sets(&service), (3, vec![0, 2, 3], vec![]));
    }

    #[test]
    fn what_is_known_to_be_lost_stops_nobody() {
        let mut service = running_in_a_ring(5, 2);
        for node in [1, 2] {
            loses(&mut service, 50, node);
            assert!(beat(&mut service, 50, node, 11, 0, EngineState::Starting).is_ok());
        }
        assert_eq!(sets(&service), (3, vec![0, 3, 4], vec![1, 2]));
    }

    #[test]
    fn a_single_member_stays_however_long_it_is_silent() {
        let mut service = running(1);
        service.tick(at(500));
        assert!(beat(&mut service, 1_000, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (1, vec![0], vec![]));
    }

    #[test]
    fn no_view_follows_before_its_full_members_know_the_first() {
        let mut service = founding(3);
        loses(&mut service, 10, 2);
        let answer = beat(&mut service, 10, 2, 11, 0, EngineState::Starting);
        assert_eq!(answer, Err(Reason::Waiting));
        assert!(beat(&mut service, 20, 0, 10, 1, EngineState::Full).is_ok());
        // Asking for the first view is not knowing it.
        assert_eq!(beat(&mut service, 30, 1, 10, 0, EngineState::Starting).unwrap().view.epoch, Epoch(1));
        assert_eq!(service.next_deadline(), Instant::FAR_FUTURE);
        service.tick(at(40));
        assert_eq!(sets(&service).0, 1);
        assert_eq!(beat(&mut service, 50, 1, 10, 1, EngineState::Full).unwrap().view.epoch, Epoch(2));
        assert_eq!(sets(&service), (2, vec![0, 1], vec![2]));
    }

    #[test]
    fn a_founder_that_dies_before_it_knows_the_first_view_is_removed() {
        let mut service = founding(3);
        // Node 0 is heard, but node 1 is still expected to learn of the first view.
        for ms in [50, 100] {
            assert!(beat(&mut service, ms, 0, 10, 1, EngineState::Full).is_ok());
        }
        assert!(beat(&mut service, 60, 1, 10, 0, EngineState::Starting).is_ok());
        assert!(beat(&mut service, 130, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 1);
        assert_eq!(service.next_deadline(), Instant::FAR_FUTURE);
        // Both are dead, and nobody waits for their reports.
        assert!(beat(&mut service, 201, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![0], vec![]));
    }

    #[test]
    fn a_restored_service_asks_again_who_knows_the_first_view() {
        let durable = running(2).take_unsaved().unwrap();
        let mut service = Service::restore(parameters(2), &durable, at(0)).unwrap();
        loses(&mut service, 10, 1);
        let answer = beat(&mut service, 10, 1, 11, 0, EngineState::Starting);
        assert_eq!(answer, Err(Reason::Waiting));
        assert_eq!(sets(&service).0, 1);
        assert!(beat(&mut service, 20, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![0], vec![1]));
    }

    #[test]
    fn when_all_leases_lapse_together_the_silent_have_one_more() {
        let mut service = running(3);
        service.tick(at(500));
        assert_eq!(sets(&service).0, 1);
        assert_eq!(service.next_deadline(), Instant::FAR_FUTURE);
        for ms in [500, 550, 600] {
            assert!(beat(&mut service, ms, 0, 10, 1, EngineState::Full).is_ok());
        }
        assert!(beat(&mut service, 600, 2, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 1);
        assert!(beat(&mut service, 601, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![0, 2], vec![]));
    }

    /// Each holds its part with two others. Those who are given time because one of them is back have not been heard,
    /// and may be dead: they do not make up for the holders of another part.
    #[test]
    fn of_each_part_the_silent_have_one_more_lease() {
        let mut service = running_in_a_ring(6, 3);
        for node in [0, 1, 2, 4] {
            assert!(beat(&mut service, 400, node, 10, 1, EngineState::Full).is_ok());
        }
        assert!(beat(&mut service, 400, 3, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (1, (0..6).collect(), vec![]));
    }

    #[test]
    fn the_last_full_member_stays() {
        let mut service = running(2);
        assert!(beat(&mut service, 90, 1, 10, 1, EngineState::Full).is_ok());
        assert!(beat(&mut service, 101, 1, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![1], vec![]));
        assert!(beat(&mut service, 110, 0, 11, 0, EngineState::Starting).is_err());
        service.tick(at(126));
        assert_eq!(sets(&service), (3, vec![1], vec![0]));
        for ms in [150, 250, 350, 450] {
            assert!(beat(&mut service, ms, 0, 11, 3, EngineState::Joining { synced: false }).is_ok());
        }
        assert_eq!(sets(&service).0, 3);
        assert_eq!(beat(&mut service, 460, 1, 12, 0, EngineState::Starting), Err(Reason::Halted));
        assert_eq!(service.phase(), Phase::Halted);
        let halted = service.take_unsaved().unwrap();
        assert!(halted.halted());
        let mut service = Service::restore(parameters(2), &halted, at(0)).unwrap();
        assert_eq!(
            beat(&mut service, 1, 0, 11, 3, EngineState::Joining { synced: true }),
            Err(Reason::Halted)
        );
    }

    #[test]
    fn a_synced_member_takes_the_place_of_the_last_full_one() {
        let mut service = running(2);
        loses(&mut service, 50, 0);
        assert!(beat(&mut service, 50, 0, 11, 0, EngineState::Starting).is_ok());
        assert_eq!(sets(&service), (2, vec![1], vec![0]));
        // Too early for another view, but not for one that must be.
        assert!(beat(&mut service, 60, 0, 11, 2, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&service).0, 2);
        loses(&mut service, 61, 1);
        assert!(beat(&mut service, 61, 1, 11, 0, EngineState::Starting).is_ok());
        assert_eq!(sets(&service), (3, vec![0], vec![1]));
    }

    #[test]
    fn changes_that_can_wait_are_collected() {
        let mut service = running(4);
        for (node, ms) in [(1, 200), (2, 210), (3, 220)] {
            assert!(beat(&mut service, ms - 150, node, 10, 1, EngineState::Full).is_ok());
            assert!(beat(&mut service, ms - 149, 0, 10, 1, EngineState::Full).is_ok());
        }
        assert!(beat(&mut service, 130, 0, 10, 1, EngineState::Full).is_ok());
        for ms in [151, 161, 171] {
            assert!(beat(&mut service, ms, 0, 10, 1, EngineState::Full).is_ok());
        }
        assert_eq!(sets(&service), (4, vec![0], vec![]));
        for node in 1..4 {
            let answer = beat(&mut service, 172, node, 11, 0, EngineState::Starting);
            assert_eq!(answer, Err(Reason::Waiting));
        }
        assert_eq!(service.next_deadline(), at(196));
        service.tick(at(196));
        assert_eq!(sets(&service), (5, vec![0], vec![1, 2, 3]));
        // Synced in an earlier epoch is not synced.
        assert!(beat(&mut service, 230, 1, 11, 4, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&service).0, 5);
        assert!(beat(&mut service, 231, 1, 11, 5, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&service).0, 5);
        // It has taken 35 ms, and waits for the others as long.
        for ms in [240, 265] {
            assert!(beat(&mut service, ms, 1, 11, 5, EngineState::Joining { synced: true }).is_ok());
            assert_eq!(sets(&service).0, 5);
            assert_eq!(service.next_deadline(), at(266));
        }
        service.tick(at(266));
        assert_eq!(sets(&service), (6, vec![0, 1], vec![2, 3]));
    }

    /// Nodes 1 to 3 have come back at 50 ms, and node 0 holds everything.
    fn three_come_back() -> Service {
        let mut service = running(4);
        for node in 1..4 {
            loses(&mut service, 50, node);
            assert!(beat(&mut service, 50, node, 11, 0, EngineState::Starting).is_ok());
        }
        let epoch = service.view().epoch.0;
        assert!(beat(&mut service, 60, 0, 10, epoch, EngineState::Full).is_ok());
        for node in 1..4 {
            assert!(beat(&mut service, 60, node, 11, epoch, EngineState::Joining { synced: false }).is_ok());
        }
        assert_eq!(sets(&service), (4, vec![0], vec![1, 2, 3]));
        service
    }

    #[test]
    fn who_comes_back_together_is_full_together() {
        let mut service = three_come_back();
        let epoch = service.view().epoch.0;
        for (ms, node) in [(100, 2), (110, 1)] {
            assert!(beat(&mut service, ms, node, 11, epoch, EngineState::Joining { synced: true }).is_ok());
            assert_eq!(sets(&service).0, epoch);
        }
        assert!(beat(&mut service, 120, 3, 11, epoch, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&service), (epoch + 1, vec![0, 1, 2, 3], vec![]));
    }

    #[test]
    fn who_is_synced_waits_for_nobody_that_is_silent_and_in_no_view_that_must_come() {
        let mut silent = three_come_back();
        let epoch = silent.view().epoch.0;
        for ms in [110, 140] {
            assert!(beat(&mut silent, ms, 0, 10, epoch, EngineState::Full).is_ok());
        }
        // Nodes 2 and 3 were heard last at 60 ms; node 1 would wait until far later.
        assert!(beat(&mut silent, 150, 1, 11, epoch, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&silent).0, epoch);
        silent.tick(at(161));
        assert!(sets(&silent).1.contains(&1), "{:?}", sets(&silent));

        let mut dead = three_come_back();
        assert!(beat(&mut dead, 100, 1, 11, epoch, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&dead).0, epoch);
        assert_eq!(beat(&mut dead, 105, 3, 11, epoch, EngineState::Lost), Err(Reason::Rejoin));
        assert!(beat(&mut dead, 105, 3, 12, 0, EngineState::Starting).is_ok());
        assert_eq!(sets(&dead), (epoch + 1, vec![0, 1], vec![2, 3]));
    }

    #[test]
    fn a_newcomer_does_not_replace_a_node_that_lives() {
        let mut service = running(2);
        // A second process with the number of node 1, which goes on reporting.
        for ms in (10..=110).step_by(25) {
            assert_eq!(beat(&mut service, ms, 1, 11, 0, EngineState::Starting), Err(Reason::Occupied));
            for node in 0..2 {
                assert!(beat(&mut service, ms, node, 10, 1, EngineState::Full).is_ok());
            }
        }
        assert!(beat(&mut service, 112, 1, 10, 1, EngineState::Full).is_ok());
        assert_eq!(beat(&mut service, 113, 1, 11, 0, EngineState::Starting), Err(Reason::Taken));
        assert_eq!(sets(&service), (1, vec![0, 1], vec![]));
        assert_eq!(service.next_deadline(), Instant::FAR_FUTURE);
    }

    #[test]
    fn a_newcomer_takes_the_number_when_the_lease_of_its_holder_has_ended() {
        let mut service = running(2);
        assert!(beat(&mut service, 40, 1, 10, 1, EngineState::Full).is_ok());
        assert_eq!(beat(&mut service, 60, 1, 11, 0, EngineState::Starting), Err(Reason::Occupied));
        assert!(beat(&mut service, 90, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(service.next_deadline(), at(141));
        service.tick(at(140));
        assert_eq!(sets(&service).0, 1);
        // No further report is needed for that.
        service.tick(at(141));
        assert_eq!(sets(&service), (2, vec![0], vec![1]));
        assert!(beat(&mut service, 150, 1, 11, 2, EngineState::Joining { synced: false }).is_ok());
    }

    #[test]
    fn a_forged_incarnation_neither_ends_a_node_nor_bars_it() {
        let forged = Incarnation::LAST.get();
        let mut service = running(2);
        assert_eq!(beat(&mut service, 10, 1, forged, 0, EngineState::Starting), superseded_by(10));
        assert_eq!(beat(&mut service, 10, 1, 1 << 62, 0, EngineState::Starting), Err(Reason::Occupied));
        for ms in [50, 100, 150] {
            for node in 0..2 {
                assert!(beat(&mut service, ms, node, 10, 1, EngineState::Full).is_ok());
            }
        }
        // Once node 1 has been cut off, one that nobody contradicts is taken; node 1 itself comes back as the one after
        // it.
        for ms in [200, 251, 260] {
            assert!(beat(&mut service, ms, 0, 10, 1, EngineState::Full).is_ok());
        }
        assert!(beat(&mut service, 270, 1, 1 << 62, 0, EngineState::Starting).is_err());
        service.tick(at(290));
        assert_eq!(sets(&service), (3, vec![0], vec![1]));
        assert_eq!(beat(&mut service, 300, 1, 10, 1, EngineState::Full), superseded_by(1 << 62));
        let next = (1 << 62) + 1;
        assert_eq!(beat(&mut service, 310, 1, next, 0, EngineState::Starting), Err(Reason::Occupied));
        for ms in [350, 391] {
            assert!(beat(&mut service, ms, 0, 10, 3, EngineState::Full).is_ok());
        }
        assert!(beat(&mut service, 420, 0, 10, 3, EngineState::Full).is_ok());
        assert!(beat(&mut service, 430, 1, next, 0, EngineState::Starting).is_ok());
        assert_eq!(service.incarnation(NodeId::new(1).unwrap()), Incarnation::new(next));
    }

    #[test]
    fn who_says_that_it_leaves_is_out_of_the_view_as_soon_as_another_is_heard() {
        let mut service = running(3);
        assert!(service.is_leased(NodeId::new(2).unwrap()));
        loses(&mut service, 10, 2);
        assert!(!service.is_leased(NodeId::new(2).unwrap()));
        assert!(beat(&mut service, 11, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![0, 1], vec![]));
    }

    #[test]
    fn a_lost_engine_gets_no_lease() {
        let mut service = running(2);
        assert_eq!(beat(&mut service, 50, 0, 10, 1, EngineState::Lost), Err(Reason::Rejoin));
        assert!(beat(&mut service, 90, 1, 10, 1, EngineState::Full).is_ok());
        assert!(beat(&mut service, 101, 1, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![1], vec![]));
    }

    #[test]
    fn a_service_that_forgot_says_so() {
        let mut service = Service::new(parameters(2));
        assert_eq!(beat(&mut service, 0, 0, 10, 3, EngineState::Full), Err(Reason::Ahead));
        assert_eq!(beat(&mut service, 0, 2, 10, 0, EngineState::Starting), Err(Reason::UnknownNode));
        assert_eq!(service.phase(), Phase::Bootstrapping { missing: NodeSet::first(2) });
    }

    /// The node's life 10 claims a view of nodes 0 to 2 in which the last is joining.
    fn claims(service: &mut Service, ms: u64, node: usize, epoch: u32) -> Answer {
        let (id, incarnation) = (NodeId::new(node).unwrap(), Incarnation::new(10).unwrap());
        let joining = NodeSet::EMPTY.with(NodeId::new(2).unwrap());
        let view = View { epoch: Epoch(epoch), full: NodeSet::first(2), joining };
        let state = if node == 2 { EngineState::Joining { synced: false } } else { EngineState::Full };
        let status = EngineStatus { epoch: Epoch(epoch), state };
        let hears = NodeSet::first(16);
        let heartbeat = Heartbeat { node: id, incarnation, status, hears, claim: Some(view) };
        service.heartbeat(at(ms), heartbeat)
    }

    #[test]
    fn a_service_that_forgot_goes_on_once_all_members_of_the_newest_view_claim_it() {
        let mut service = Service::new(parameters(4));
        for (ms, node) in [(0, 0), (1, 1), (2, 0)] {
            assert_eq!(claims(&mut service, ms, node, 3), Err(Reason::Ahead));
        }
        assert_eq!(service.take_unsaved(), None);
        assert_eq!(claims(&mut service, 3, 2, 3), Err(Reason::Ahead));
        assert_eq!(sets(&service), (3, vec![0, 1], vec![2]));
        assert_eq!(service.take_unsaved().unwrap().view(), service.view());
        assert!(beat(&mut service, 4, 0, 10, 3, EngineState::Full).is_ok());
        // A life that the service does not know has no data of this cluster.
        assert_eq!(beat(&mut service, 5, 3, 10, 3, EngineState::Full), Err(Reason::Rejoin));
        assert_eq!(beat(&mut service, 5, 1, 9, 3, EngineState::Full), superseded_by(10));
        // Leases that the former service had granted may hold for one more lease's time; then silent members leave.
        assert!(beat(&mut service, 103, 0, 10, 3, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 3);
        assert!(beat(&mut service, 105, 0, 10, 3, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (3 + 1 + EPOCHS_LOST, vec![0], vec![]));
    }

    #[test]
    fn a_service_that_forgot_does_not_go_on_without_a_member_that_may_hold_more() {
        let mut service = Service::new(parameters(3));
        // One node knows a later view than the others were told.
        for (ms, node, epoch) in [(0, 0, 3), (1, 1, 4), (2, 2, 3), (3, 0, 3)] {
            assert_eq!(claims(&mut service, ms, node, epoch), Err(Reason::Ahead));
        }
        assert_eq!(service.view().epoch, Epoch(0));
        // It comes back empty, and its claim is void with its data.
        assert_eq!(beat(&mut service, 4, 1, 11, 0, EngineState::Starting), Err(Reason::Waiting));
        assert_eq!(claims(&mut service, 5, 0, 3), Err(Reason::Ahead));
        assert_eq!(service.view().epoch, Epoch(0));
    }

    /// From 10 ms on each of these nodes, all full in epoch 1, reports every 10 ms whom it hears; until `until_ms`, or
    /// until a view follows.
    fn parted_until(service: &mut Service, hears: &[&[usize]], until_ms: u64) -> u64 {
        let set = |nodes: &[usize]| nodes.iter().filter_map(|node| NodeId::new(*node)).collect::<NodeSet>();
        for ms in (10..=until_ms).step_by(10) {
            for (node, hears) in hears.iter().enumerate() {
                let _ = beat_hearing(service, ms, (node, 10), (1, EngineState::Full), set(hears));
                if service.view().epoch > Epoch(1) {
                    return ms;
                }
            }
        }
        until_ms
    }

    #[test]
    fn of_two_members_that_do_not_hear_each_other_one_leaves_the_view() {
        let mut service = running(3);
        // Nodes 1 and 2 are parted; 0 hears both and both hear it.
        let at = parted_until(&mut service, &[&[0, 1, 2], &[0, 1], &[0, 2]], 400);
        assert_eq!(sets(&service), (2, vec![0, 1], vec![]));
        assert!(at <= 150, "a quarter of a lease, and the lease, and less than a heartbeat: {at} ms");
    }

    #[test]
    fn of_those_that_do_not_hear_each_other_the_fewest_leave() {
        // Node 0 is parted from 1 and 2: it goes, although its number is the lowest.
        let mut service = running(4);
        parted_until(&mut service, &[&[0, 3], &[1, 2, 3], &[1, 2, 3], &[0, 1, 2, 3]], 400);
        assert_eq!(sets(&service), (2, vec![1, 2, 3], vec![]));
    }

    #[test]
    fn a_member_that_one_other_does_not_hear_leaves_as_if_nobody_heard_the_other() {
        let mut service = running(3);
        parted_until(&mut service, &[&[0, 1, 2], &[0, 1], &[0, 1, 2]], 400);
        assert_eq!(sets(&service), (2, vec![0, 1], vec![]));
    }

    #[test]
    fn a_member_that_does_not_hear_the_service_leaves_the_view() {
        let mut service = running(2);
        parted_until(&mut service, &[&[], &[1, 0]], 400);
        assert_eq!(sets(&service), (2, vec![1], vec![]));
        // Its next life stays out as long as it hears nothing, and as long as node 1 does not hear it.
        let beats = |service: &mut Service, ms, hears: NodeSet| {
            let _ = beat_hearing(service, ms, (1, 10), (2, EngineState::Full), NodeSet::first(2));
            beat_hearing(service, ms, (0, 11), (0, EngineState::Starting), hears)
        };
        assert_eq!(beats(&mut service, 500, NodeSet::EMPTY), Err(Reason::Waiting));
        assert_eq!(beats(&mut service, 530, NodeSet::EMPTY), Err(Reason::Parted));
        assert_eq!(beats(&mut service, 540, NodeSet::first(1)), Err(Reason::Parted));
        assert_eq!(sets(&service).0, 2);
        assert!(beats(&mut service, 550, NodeSet::first(2)).is_ok());
        assert_eq!(sets(&service), (3, vec![1], vec![0]));
    }

    #[test]
    fn a_member_that_is_parted_for_less_than_a_quarter_of_a_lease_stays() {
        let mut service = running(2);
        assert_eq!(parted_until(&mut service, &[&[0], &[0, 1]], 30), 30);
        for ms in [31, 60, 120, 180, 240] {
            for node in 0..2 {
                assert!(beat(&mut service, ms, node, 10, 1, EngineState::Full).is_ok(), "at {ms} ms");
            }
        }
        assert!(service.parted().is_empty());
    }

    #[test]
    fn who_is_parted_from_a_member_that_dies_stays_in_its_place() {
        let mut service = running(2);
        parted_until(&mut service, &[&[0], &[1]], 60);
        assert_eq!(service.parted(), NodeSet::EMPTY.with(NodeId::new(1).unwrap()));
        // Node 0 is not heard any more. Node 1 has had no lease for a while, and holds all data.
        for ms in [100, 150] {
            let _ = beat_hearing(
                &mut service,
                ms,
                (1, 10),
                (1, EngineState::Full),
                NodeSet::first(2).without(NodeId::new(0).unwrap()),
            );
        }
        // Nobody who held a lease was heard for a lease's time, so node 0 has one more to come back.
        for ms in [170, 200, 240, 275] {
            assert!(beat(&mut service, ms, 1, 10, 1, EngineState::Full).is_ok(), "at {ms} ms");
        }
        assert_eq!(sets(&service), (2, vec![1], vec![]));
    }

    #[test]
    fn the_only_holder_of_a_part_is_not_left_out() {
        // Part p is held by nodes p and p + 1. Without node 2, node 1 alone holds part 1, and node 3 part 2.
        let mut service = Service::new(ServiceParameters { replicas: 2, ..parameters(4) });
        for node in 0..4 {
            let _ = beat(&mut service, 0, node, 10, 0, EngineState::Starting);
        }
        for node in 0..4 {
            assert!(beat(&mut service, 0, node, 10, 1, EngineState::Full).is_ok());
        }
        loses(&mut service, 1, 2);
        for node in [1, 3] {
            assert!(beat(&mut service, 2, node, 10, 1, EngineState::Full).is_ok());
        }
        assert_eq!(sets(&service), (2, vec![0, 1, 3], vec![]));
        let mut parts = |from_ms: u64, apart: [usize; 2]| {
            for ms in (from_ms..from_ms + 400).step_by(10) {
                for node in [0, 1, 3] {
                    let unheard = apart.iter().filter(|one| apart.contains(&node) && **one != node);
                    let all = NodeSet::first(4);
                    let hears = unheard.fold(all, |all, one| all.without(NodeId::new(*one).unwrap()));
                    let epoch = service.view().epoch.0;
                    let _ = beat_hearing(&mut service, ms, (node, 10), (epoch, EngineState::Full), hears);
                }
            }
            sets(&service)
        };
        assert_eq!(parts(10, [1, 3]), (2, vec![0, 1, 3], vec![]), "neither can go");
        assert_eq!(parts(500, [0, 1]), (3, vec![1, 3], vec![]), "what node 0 holds, others hold, too");
        // Node 3 dies, and stays in the view. Node 0 comes back and does not hear it.
        let hears = NodeSet::first(2);
        for ms in (1_000..1_200).step_by(20) {
            let _ = beat_hearing(&mut service, ms, (1, 10), (3, EngineState::Full), NodeSet::first(4));
            let _ = beat_hearing(&mut service, ms, (0, 11), (0, EngineState::Starting), hears);
        }
        assert_eq!(sets(&service), (4, vec![1, 3], vec![0]));
    }

    #[test]
    fn a_restored_service_waits_for_leases_that_it_does_not_remember() {
        let mut before = running(2);
        let durable = before.take_unsaved().unwrap();
        assert_eq!(before.take_unsaved(), None);
        let mut service = Service::restore(parameters(2), &durable, at(10)).unwrap();
        assert!(beat(&mut service, 60, 0, 10, 1, EngineState::Full).is_ok());
        assert!(beat(&mut service, 110, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 1);
        assert!(beat(&mut service, 111, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![0], vec![]));
        let error = Service::restore(parameters(3), &durable, at(10)).unwrap_err();
        assert_eq!(error.to_string(), "it describes 2 nodes, but 3 are configured");
    }

    proptest! {
        #[test]
        fn no_heartbeat_breaks_the_rules(
            nodes in 1usize..=16,
            steps in prop::collection::vec((0u64..60, 0usize..16, 1u64..5, 0u32..12, 0u8..5, any::<u16>()), 0..300),
        ) {
            let mut service = running(nodes);
            let mut now = 0;
            for (pause, node, life, epoch, state, hears) in steps {
                let before = service.view();
                now += pause;
                let state = match state {
                    0 => EngineState::Starting,
                    1 | 2 => EngineState::Joining { synced: state == 2 },
                    3 => EngineState::Full,
                    _ => EngineState::Lost,
                };
                // A third hears everybody.
                let hears = if hears % 3 == 0 { NodeSet::first(16) } else { NodeSet::from_bits(hears) };
                let answer = beat_hearing(&mut service, now, (node, life * 4), (epoch, state), hears);
                let view = service.view();
                prop_assert!(!view.full.is_empty());
                prop_assert!(view == before || view.epoch.0 == before.epoch.0 + 1);
                prop_assert!(view.full.iter().all(|node| before.members().contains(node)));
                if let Ok(grant) = answer {
                    prop_assert_eq!(grant.view, view);
                    prop_assert!(view.members().contains(NodeId::new(node).unwrap()));
                }
                prop_assert!(service.next_deadline() > at(now), "a deadline that has passed wakes its host for ever");
            }
        }
    }
}
