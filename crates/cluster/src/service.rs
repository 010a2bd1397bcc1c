//! The membership service: views and leases.

use weft_time::{Duration, Instant};
use weft_waist::{EngineState, Epoch, NODES_MAX, NodeId, NodeSet, View};

use crate::durable::{Durable, DurableError, Holders, NodeRecord, Role};
use crate::lease::{LEASE_MAX, LEASE_MIN};
use crate::membership::{Incarnation, Reason};
use crate::message::Heartbeat;
#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;
use crate::status::{MemberStatus, Phase};

/// Parameters of a membership service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceParameters {
    /// Number of configured nodes, 1 to 16: nodes 0 to `nodes` - 1.
    pub nodes: usize,
    /// How many nodes hold the same data. There are as many parts of the data as nodes; part *p* is held by nodes
    /// *p*, *p* + 1, … modulo `nodes`. If `replicas` equals `nodes`, each node holds all data.
    pub replicas: usize,
    /// How many full members have a write on disk before it is answered; all of them if there are fewer. 0: the
    /// nodes keep their data in memory only.
    pub durable_copies: usize,
    /// Length of a lease: whole nanoseconds, [`LEASE_MIN`] to [`LEASE_MAX`].
    pub lease: Duration,
    /// By how many parts per million the service's clock may run faster than a node's.
    pub drift_ppm: u32,
    /// The shortest time between two views, unless a member has to be removed. Every view restarts the transfer to
    /// joining members, so changes that can wait are collected meanwhile.
    pub view_interval: Duration,
}

impl ServiceParameters {
    /// Parameters for `nodes` nodes, each of which holds all data, with leases of length `lease`. Clocks drift by
    /// at most 1,000 parts per million, far more than a quartz or a synchronised clock does; views are at least a
    /// quarter of a lease apart.
    pub fn new(nodes: usize, lease: Duration) -> Self {
        Self { nodes, replicas: nodes, durable_copies: 0, lease, drift_ppm: 1_000, view_interval: lease / 4 }
    }

    /// Of `full` members, the number that have together every answered write on their disks.
    fn quorum(&self, full: usize) -> usize {
        full + 1 - self.durable_copies.min(full)
    }

    /// Time after a grant, on the service's clock, after which the lease has certainly ended at the node.
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

/// The answer to a heartbeat: a lease, or the reason for the refusal.
pub type Answer = Result<Grant, Reason>;

/// The embedded membership service.
///
/// # Rules
/// - Epoch 1 is published once all configured nodes have reported: each is full, and empty.
/// - Epoch 2 waits until every member that will be full in it has reported epoch 1. A founder whose first view is
///   a later one could not tell itself from an engine that has lost its memory. A founder that dies before is not
///   a full member of epoch 2, so its report is not awaited.
/// - A node is in a view with one incarnation. A greater one waits until the older one's lease has ended, or until
///   the older one has reported that its engine is lost. Then the older one counts as dead, and the next view has
///   the node as joining. If the older one still sends heartbeats a lease later, two processes have the same
///   number, and the newer one is [refused](Reason::Taken). So neither a process that was started by mistake nor a
///   forged datagram ends a node that is alive.
/// - An incarnation that is smaller than the newest receives the [newest](Reason::Superseded), and continues with
///   a greater one. So no incarnation, however large, excludes a node for good.
/// - A member whose lease has ended leaves the view, provided that for each part of the data that it holds,
///   another holder has sent a heartbeat since. A lease alone does not prove that its holder is alive: the holder
///   may have died just after the grant, and then the member to be removed would have the only copy.
/// - The last member that holds a part of the data is never removed. When it is known to be dead, that part is
///   lost; the cluster goes on without it, and is halted when nothing is left.
/// - If the service has received no heartbeat of any holder of a part within the length of a lease, the service
///   itself was cut off. As soon as one holder is back, the other holders of that part have one more lease's time
///   to return.
/// - A joining member that reports to be synced in the current epoch holds all data that it replicates, and
///   becomes full. Since the view that makes it full restarts the transfer to other joining members, it first
///   waits for those that are alive, at most as long as its own transfer took. So nodes that come back together
///   become full together, and the first of them after at most twice its time. A view that is needed for another
///   reason makes it full at once.
/// - Members that do not receive each other's beacons, in one direction or both, cannot all stay: every write
///   would wait for them. When members have reported this for a quarter of a lease, the service keeps a largest
///   set of members in which all receive each other and the service, and which holds every part of the data that
///   any member holds. Among such sets it prefers the one with the most full members, then with the most members,
///   then with the lowest numbers. (VoltDB and the survey of partial partitions by Alfatafta et al., OSDI 2020,
///   choose a largest clique, too.) The other members are [refused](Reason::Partitioned) a lease, so they leave the
///   view as silent members do, when their leases have ended. If there is no such set, all members stay.
/// - A node enters a view, except the first one, only if it and every member that stays receive each other's
///   beacons, and it receives the service's answers.
/// - A member that reports that its engine is lost or was stopped loses its lease at once, and leaves the view in the
///   same way.
/// - A full member that comes back with its data, in the same incarnation, has its former role in the next view. A
///   new view is needed, because the member may have led in the epoch that it reports, and the numbers of its
///   writes in that epoch must not be used again. So if all nodes lose power together, the cluster continues as it
///   was, provided that this service has its state.
/// - Where nodes keep their data on disks, a node that comes back may lack the last writes, and the node that had
///   them may lose power at any time. So full members leave the view only if those that remain have every answered
///   write on their disks: see `Service::is_safe`. If they do not, a new view with the same members follows, and
///   every member that receives it first completes its disk, and reports to be sealed. If the remaining members were
///   restored and are too few, writes are lost, and the cluster is halted.
/// - A node that has been removed returns empty, with a greater incarnation.
/// - A service that has published nothing, and receives later epochs in heartbeats, has lost its state. The
///   members of the newest view claim that view. Once all of them have, and none has claimed another one since,
///   the service continues from that view: none of them has received a later one. It skips a thousand epochs,
///   which it may have published to other nodes before. If a member of the view has lost its memory or is gone,
///   the service does not continue: that member's data may have been the only copy.
///
/// - The service never waits for its disk. While a change is being stored, it hears heartbeats as always, makes no
///   other change, and answers from the state that *is* stored: it renews the leases of those members of the stored
///   view that also stay in the new one, and everybody else has to wait. So no message depends on a state that a crash
///   may lose, a slow disk ends no lease of a member that stays, and the time that the disk takes is nobody's silence.
/// - A service that did not run for more than a quarter of a lease has not heard what nodes sent meanwhile. So a member
///   whose lease has ended since, or is about to end, stays for a quarter of a lease, in which it can be heard. That
///   holds once for each of its heartbeats: a service that is always late still removes dead members.
///
/// # Use
/// `now` comes from one clock and never decreases. Pass heartbeats in as soon as they arrive: the service takes
/// the time of the call as a time at which the node was alive. Call [`Service::take_unsaved`] after every call,
/// store its result, and then call [`Service::stored`]. *Answers of calls after which [`Service::has_unsaved`] holds
/// are sent after that*; [`Server`] ensures that order.
///
/// [`Server`]: crate::Server
#[derive(Clone, Debug)]
pub struct Service {
    parameters: ServiceParameters,
    now: Instant,
    epoch: Epoch,
    published: Instant,
    halted: bool,
    /// Whether the state differs from the snapshot that was taken last.
    unsaved: bool,
    /// What is on stable storage, and the snapshot that is on the way there. What others learn rests on the former.
    stored: Durable,
    storing: Option<Durable>,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<PlantedBug>,
    /// Number of epochs to skip before the next one.
    lost_epochs: u32,
    /// The full members of the last view that all of its full members have begun, and of later views.
    holders: Vec<Holders>,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    record: NodeRecord,
    /// When the node's lease has ended on every clock.
    lease_end: Instant,
    /// When the node last reported as a member and had its lease renewed.
    heard: Instant,
    /// Since then its lease was extended because the service did not run.
    extended: bool,
    /// When the node last reported, whether its lease was renewed or not; `None` if this incarnation never did as
    /// a member.
    last_heartbeat: Option<Instant>,
    /// The nodes whose beacons it receives (with itself, if it receives the service's answers), and since when it
    /// has not received those of each other node.
    receives_from: NodeSet,
    silent_since: [Instant; NODES_MAX],
    /// The latest epoch that the node has reported as a member.
    reported: Epoch,
    /// The newest view that this incarnation may have received.
    granted: Epoch,
    /// The latest epoch whose beginning it reported to have on its disk.
    opened: Epoch,
    /// The latest epoch for which it reported to have every answered write on its disk, before it began it.
    sealed: Epoch,
    /// The node has come back with its data, and no view has followed: it may have led in this epoch, and accepted
    /// an unknown number of writes.
    restored: bool,
    /// The node has come back with its data, and may lack the last writes.
    uncertain: bool,
    /// The latest epoch in which it reported to hold all data while joining, and when it first did so.
    synced: Option<(Epoch, Instant)>,
    /// An incarnation that has reported and can enter the next view.
    candidate: Option<NewIncarnation>,
    /// An incarnation that has reported while an older one may still be alive.
    rival_incarnation: Option<NewIncarnation>,
    /// While no view is published: the node's heartbeat, the view that it claims to be the newest, and when.
    claim: Option<(Heartbeat, View, Instant)>,
}

/// An incarnation that has reported and is in no view.
#[derive(Clone, Copy, Debug)]
struct NewIncarnation {
    incarnation: Incarnation,
    /// Time of the first report.
    since: Instant,
    /// Time of the last report.
    heard: Instant,
    /// The nodes from which it receives beacons.
    receives_from: NodeSet,
}

/// The most epochs that a service may have published before it lost its state without any member of its last view
/// receiving them: far more than it publishes while nodes report.
const EPOCHS_LOST: u32 = 1 << 10;

/// The greatest incarnation that a process may choose: the nanoseconds of the wall clock reach it in 2116. Greater
/// ones are only for successors of an incarnation that was made up.
const CHOSEN_MAX: u64 = 1 << 62;

impl Node {
    /// When another incarnation last reported that may still hold the node's number.
    fn holder_reported(&self, incarnation: Incarnation, now: Instant, term: Duration) -> Option<Instant> {
        match self.candidate {
            Some(newcomer) if newcomer.incarnation == incarnation => None,
            Some(newcomer) => (newcomer.heard + term > now).then_some(newcomer.heard),
            None => (self.record.role != Role::Out && self.lease_end > now).then_some(self.heard),
        }
    }

    /// Notes from which nodes this node receives beacons.
    fn note_receives_from(&mut self, receives_from: NodeSet, now: Instant) {
        for silent in self.receives_from.minus(receives_from).iter() {
            self.silent_since[silent.index()] = now;
        }
        (self.receives_from, self.last_heartbeat) = (receives_from, Some(now));
    }

    /// Whether it has not received beacons of `other` for at least `patience`.
    fn misses(&self, other: NodeId, patience: Duration, now: Instant) -> bool {
        !self.receives_from.contains(other) && self.silent_since[other.index()] + patience <= now
    }

    /// Notes a report of an incarnation that is in no view.
    fn note_new_incarnation(
        &mut self,
        incarnation: Incarnation,
        receives_from: NodeSet,
        now: Instant,
        term: Duration,
    ) -> Result<(), Reason> {
        let known = |newcomer: Option<NewIncarnation>| {
            newcomer.filter(|newcomer| newcomer.incarnation == incarnation)
        };
        let Some(holder_heard) = self.holder_reported(incarnation, now, term) else {
            let since = known(self.candidate)
                .or(known(self.rival_incarnation))
                .map_or(now, |newcomer| newcomer.since);
            self.candidate = Some(NewIncarnation { incarnation, since, heard: now, receives_from });
            self.rival_incarnation = None;
            return Ok(());
        };
        let since = match self.rival_incarnation {
            Some(newcomer) if newcomer.incarnation == incarnation => newcomer.since,
            // One new process at a time may wait, as long as it reports.
            Some(newcomer) if newcomer.heard + term > now => return Err(Reason::Occupied),
            _ => now,
        };
        // Messages that were in flight when the new process started have arrived a lease later. So a later report
        // means that the older process is alive.
        if holder_heard > since + term {
            self.rival_incarnation = None;
            return Err(Reason::Taken);
        }
        self.rival_incarnation = Some(NewIncarnation { incarnation, since, heard: now, receives_from });
        Err(Reason::Occupied)
    }

    /// Lets a new incarnation replace an older one whose lease has ended and that has not reported since.
    fn replace_expired(&mut self, now: Instant) {
        if self.record.role != Role::Out
            && self.candidate.is_none()
            && self.lease_end <= now
            && let Some(newcomer) = self.rival_incarnation.take()
            && newcomer.heard >= self.heard
        {
            self.candidate = Some(newcomer);
        }
    }
}

/// The view that should follow the current one.
struct Plan {
    full: NodeSet,
    joining: NodeSet,
    /// Nodes that enter the view with a new incarnation.
    with_new_incarnation: NodeSet,
    /// Whether the view is needed although its members are the same.
    seals: bool,
    /// When the view is due, if no heartbeat changes the plan before.
    due: Instant,
}

impl Service {
    /// A service that has published no view.
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
            extended: false,
            last_heartbeat: None,
            receives_from: NodeSet::first(NODES_MAX),
            silent_since: [Instant::ZERO; NODES_MAX],
            reported: Epoch(0),
            granted: Epoch(0),
            opened: Epoch(0),
            sealed: Epoch(0),
            restored: false,
            uncertain: false,
            synced: None,
            candidate: None,
            rival_incarnation: None,
            claim: None,
        };
        let nothing = Durable::new(Epoch(0), false, vec![NodeRecord::NEVER; parameters.nodes]);
        Self {
            parameters,
            now: Instant::ZERO,
            epoch: Epoch(0),
            published: Instant::ZERO,
            halted: false,
            unsaved: false,
            stored: nothing.expect("nothing has happened"),
            storing: None,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            lost_epochs: 0,
            holders: Vec::new(),
            nodes: vec![node; parameters.nodes],
        }
    }

    /// A service that continues from `durable`. Any member may hold a lease that was granted just before the
    /// service stopped, so no member is removed for one lease's time from `now`.
    ///
    /// # Errors
    /// If the snapshot belongs to a cluster of another size.
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
        service.holders = durable.holders().to_vec();
        service.stored = durable.clone();
        for (node, record) in service.nodes.iter_mut().zip(durable.nodes()) {
            node.record = *record;
            node.granted = service.epoch;
            node.lease_end = now + parameters.term();
        }
        Ok(service)
    }

    /// The same service with a deliberate bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub(crate) fn with_planted_bug(self, bug: PlantedBug) -> Self {
        Self { planted_bug: Some(bug), ..self }
    }

    /// Processes a node's heartbeat, received at `now`, and answers it.
    pub fn heartbeat(&mut self, now: Instant, heartbeat: Heartbeat) -> Answer {
        self.now = self.now.max(now);
        #[cfg(feature = "planted-bugs")]
        if self.storing.is_some() && self.planted_bug == Some(PlantedBug::DeafWhileStoring) {
            return Err(Reason::Waiting);
        }
        let heard = self.hear(heartbeat);
        if self.storing.is_some() {
            // The node learns that the service hears it, and nothing that may be lost.
            return self.renewal_meanwhile(heartbeat, heard.is_ok()).ok_or(Reason::Waiting);
        }
        // Whatever the heartbeat's result, time has passed.
        self.advance();
        heard.and_then(|()| self.answer(heartbeat))
    }

    fn answer(&mut self, heartbeat: Heartbeat) -> Answer {
        let record = self.nodes[heartbeat.node.index()].record;
        if self.halted {
            Err(Reason::Halted)
        } else if record.role != Role::Out && record.incarnation == Some(heartbeat.incarnation) {
            self.nodes[heartbeat.node.index()].granted = self.epoch;
            Ok(Grant { view: self.decided(), lease: self.parameters.lease })
        } else if self.is_kept_out(heartbeat.node) {
            Err(Reason::Partitioned)
        } else {
            Err(Reason::Waiting)
        }
    }

    /// While a change is being stored: the lease of a member of the stored view that stays, if its heartbeat was
    /// accepted.
    fn renewal_meanwhile(&mut self, heartbeat: Heartbeat, is_accepted: bool) -> Option<Grant> {
        let index = heartbeat.node.index();
        let is_member = |record: &NodeRecord| {
            record.role != Role::Out && record.incarnation == Some(heartbeat.incarnation)
        };
        let stays = is_accepted && !self.halted && is_member(&self.nodes.get(index)?.record);
        #[cfg(feature = "planted-bugs")]
        let stays = stays || self.planted_bug == Some(PlantedBug::RemovedRenewed);
        if !stays || !is_member(&self.stored.nodes()[index]) {
            return None;
        }
        let view = self.stored.view();
        let node = &mut self.nodes[index];
        node.granted = node.granted.max(view.epoch);
        Some(Grant { view, lease: self.parameters.lease })
    }

    /// Advances the time. Call it at [`Service::next_deadline`]; further calls do no harm.
    pub fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.advance();
    }

    /// When [`Service::tick`] may have an effect, if no heartbeat arrives before.
    pub fn next_deadline(&self) -> Instant {
        if self.halted || self.epoch == Epoch(0) || self.storing.is_some() {
            return Instant::FAR_FUTURE;
        }
        // The end of a lease alone has no effect: the change that it allows waits for a heartbeat of another node.
        // The exception is a new incarnation of the same node that waits for it.
        let contended =
            self.nodes.iter().filter(|node| node.rival_incarnation.is_some() && node.candidate.is_none());
        let succession = contended.map(|node| node.lease_end).filter(|end| *end > self.now).min();
        let view = match self.plan() {
            Some(plan) if self.differs(&plan) => plan.due,
            _ => Instant::FAR_FUTURE,
        };
        succession.map_or(view, |end| view.min(end))
    }

    /// The latest snapshot, if it has not been taken yet and none is being stored. [`Service::stored`] must be called
    /// when it is on stable storage.
    #[must_use]
    pub fn take_unsaved(&mut self) -> Option<Durable> {
        if self.storing.is_some() || !std::mem::take(&mut self.unsaved) {
            return None;
        }
        self.storing = Some(self.snapshot());
        self.storing.clone()
    }

    fn snapshot(&self) -> Durable {
        let records = self.nodes.iter().map(|node| node.record).collect();
        let durable = Durable::new(self.epoch, self.halted, records);
        durable.expect("the service keeps to its own rules").held_by(self.holders.clone())
    }

    /// Publishes the snapshot that was taken last: it is on stable storage at `now`. What it changes takes effect now,
    /// however long that has taken.
    ///
    /// # Panics
    /// If no snapshot was taken since the last call.
    pub fn stored(&mut self, now: Instant) {
        let stored = self.storing.take().expect("a snapshot was taken");
        assert!(!self.unsaved, "nothing is decided while a change is being stored");
        assert!(stored.view().epoch >= self.stored.view().epoch, "epochs never decrease");
        self.now = self.now.max(now);
        let former = std::mem::replace(&mut self.stored, stored);
        if self.stored.view().epoch > former.view().epoch {
            let is_new = |id: &NodeId| {
                let (before, now) = (former.nodes()[id.index()], self.stored.nodes()[id.index()]);
                before.role == Role::Out || before.incarnation != now.incarnation
            };
            self.begin(self.decided().members().iter().filter(is_new).collect());
        }
    }

    /// Whether [`Service::take_unsaved`] would return a snapshot: the last call has changed the state.
    pub fn has_unsaved(&self) -> bool {
        self.unsaved
    }

    /// The newest published view, which is on stable storage; before the first, epoch 0 without members.
    pub fn view(&self) -> View {
        self.stored.view()
    }

    /// The newest view, which may have yet to be stored.
    pub(crate) fn decided(&self) -> View {
        View { epoch: self.epoch, full: self.having(Role::Full), joining: self.having(Role::Joining) }
    }

    /// The incarnation of `node` in the newest view that had it.
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.stored.nodes().get(node.index())?.incarnation
    }

    /// The service's records of each node at `now`.
    pub(crate) fn members_at(&self, now: Instant) -> Vec<MemberStatus> {
        let member = |(node, stored): (&Node, &NodeRecord)| {
            let is_member = stored.role != Role::Out;
            let lease_left = node.lease_end.saturating_since(now);
            MemberStatus {
                incarnation: stored.incarnation,
                lease_left: if is_member { lease_left } else { Duration::ZERO },
                silent: (node.heard > Instant::ZERO).then(|| now.saturating_since(node.heard)),
                reported: node.reported,
            }
        };
        self.nodes.iter().zip(self.stored.nodes()).map(member).collect()
    }

    /// Whether `node` may hold a lease.
    pub(crate) fn is_leased(&self, node: NodeId) -> bool {
        let known = self.nodes.get(node.index());
        known.is_some_and(|node| node.record.role != Role::Out && node.lease_end > self.now)
    }

    /// Length of a lease.
    pub(crate) const fn lease(&self) -> Duration {
        self.parameters.lease
    }

    /// Number of nodes, and number of those that hold the same data.
    pub fn size(&self) -> (usize, usize) {
        (self.parameters.nodes, self.parameters.replicas)
    }

    /// Phase of the cluster.
    pub fn phase(&self) -> Phase {
        if self.stored.halted() {
            Phase::Halted
        } else if self.view().epoch == Epoch(0) {
            Phase::Bootstrapping { missing: self.select(|node| node.candidate.is_none()) }
        } else {
            Phase::Running
        }
    }

    /// Processes the content of a heartbeat, or refuses it.
    fn hear(&mut self, heartbeat: Heartbeat) -> Result<(), Reason> {
        let Heartbeat { node, incarnation, status, receives_from, .. } = heartbeat;
        let known = self.nodes.get_mut(node.index()).ok_or(Reason::UnknownNode)?;
        if self.halted {
            return Err(Reason::Halted);
        }
        if self.epoch == Epoch(0) {
            known.claim = heartbeat.claim.map(|view| (heartbeat, view, self.now));
        }
        // Nobody can know a view that has yet to be stored.
        if status.epoch > self.stored.view().epoch {
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
                // The node serves no requests any more, so nothing has to wait for the end of its lease.
                known.lease_end = now;
                return Err(Reason::Rejoin);
            }
            known.note_receives_from(receives_from, now);
            if !self.kept().contains(node) {
                return Err(Reason::Partitioned);
            }
            self.renew(heartbeat);
            return Ok(());
        }
        // The engine claims to hold data, but no view has this incarnation, so its data is not this cluster's.
        if status.state != EngineState::Starting {
            return Err(Reason::Rejoin);
        }
        known.note_new_incarnation(incarnation, receives_from, now, term)
    }

    /// Continues from the newest view that is claimed, once all of its members claim it.
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
            // The former incarnation of this service may have granted a lease that is still valid.
            (node.lease_end, node.heard, node.reported) = (lease_end, heard, heartbeat.status.epoch);
            node.granted = view.epoch;
            node.note_receives_from(heartbeat.receives_from, heard);
        }
        self.nodes.iter_mut().for_each(|node| node.claim = None);
        self.note_holders();
    }

    /// Adds the current view to the holders, if it has other full members than the view before it.
    fn note_holders(&mut self) {
        let full = self.having(Role::Full);
        let is_known = self.holders.last().is_some_and(|last| last.full == full);
        if self.parameters.durable_copies > 0 && !is_known {
            self.holders.push(Holders { since: self.epoch, full });
        }
    }

    /// Forgets the holders of earlier views, if all full members have begun the current one.
    fn settle(&mut self, is_begun: bool) {
        let full = self.having(Role::Full);
        let has_begun = |id: NodeId| self.nodes[id.index()].opened == self.epoch;
        let is_known = self.holders.len() == 1 || self.storing.is_some();
        if self.parameters.durable_copies > 0 && !is_known && (is_begun || full.iter().all(has_begun)) {
            self.holders = vec![Holders { since: self.epoch, full }];
            self.unsaved = true;
        }
    }

    /// Whether `rest`, without the full members that leave the view, has every answered write on its disks, whenever
    /// its members lose power. That is so in two cases:
    ///
    /// - One of them has begun some epoch, so it has all writes of earlier ones; and of the full members of that epoch
    ///   and of each later one, enough are among them.
    /// - One of them has sealed its epoch for the current view, and cannot begin that, because a member that leaves
    ///   has not received the view.
    fn is_safe(&self, rest: NodeSet, leave: NodeSet) -> bool {
        if self.parameters.durable_copies == 0 {
            return true;
        }
        let of = |id: NodeId| &self.nodes[id.index()];
        let begun = rest.iter().map(|id| of(id).opened).max().unwrap_or(Epoch(0));
        let ends = self.holders.iter().skip(1).map(|next| next.since).chain([Epoch(u32::MAX)]);
        let mut later =
            self.holders.iter().zip(ends).filter(|(_, end)| *end > begun).map(|(held, _)| held.full);
        let has_enough = |full: NodeSet| rest.intersection(full).len() >= self.parameters.quorum(full.len());
        let is_cut_off = |id: NodeId| of(id).granted < self.epoch && of(id).record.role == Role::Full;
        later.all(has_enough)
            || rest.iter().any(|id| of(id).sealed == self.epoch) && leave.iter().any(is_cut_off)
    }

    /// Extends the lease of a member and notes its progress.
    fn renew(&mut self, heartbeat: Heartbeat) {
        let cut_off = self.parts_without_holder();
        let lease_end = self.now + self.parameters.term();
        let node = &mut self.nodes[heartbeat.node.index()];
        node.lease_end = lease_end;
        (node.heard, node.extended) = (self.now, false);
        node.reported = node.reported.max(heartbeat.status.epoch);
        let epoch = heartbeat.status.epoch;
        let state = heartbeat.status.state;
        node.restored |= state == EngineState::Restored && epoch == self.epoch;
        node.uncertain = state == EngineState::Restored;
        match state {
            EngineState::Full | EngineState::Restored => node.opened = node.opened.max(epoch),
            EngineState::Sealed => node.sealed = node.sealed.max(epoch),
            EngineState::Starting | EngineState::Joining { .. } | EngineState::Lost => {}
        }
        let known = node.synced.is_some_and(|(synced, _)| synced == epoch);
        if heartbeat.status.state == (EngineState::Joining { synced: true }) && !known {
            node.synced = Some((epoch, self.now));
        }
        // A joining node has copied the data of each full member, so all of them had begun the epoch.
        self.settle(epoch == self.epoch && state == EngineState::Joining { synced: true });
        let still_cut_off = self.parts_without_holder();
        for part in cut_off.into_iter().filter(|part| !still_cut_off.contains(part)) {
            for id in self.replicas_of(part).iter() {
                let node = &mut self.nodes[id.index()];
                node.lease_end = node.lease_end.max(lease_end);
            }
        }
    }

    /// Publishes the next view if it is due.
    fn advance(&mut self) {
        if self.halted || self.storing.is_some() {
            return;
        }
        let now = self.now;
        self.nodes.iter_mut().for_each(|node| node.replace_expired(now));
        if self.epoch == Epoch(0) {
            if self.nodes.iter().all(|node| node.candidate.is_some()) {
                let all = NodeSet::first(self.nodes.len());
                self.publish(&Plan {
                    full: all,
                    joining: NodeSet::EMPTY,
                    with_new_incarnation: all,
                    seals: false,
                    due: self.now,
                });
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

    /// The next view as of now; `None` if no node in it would hold the data.
    fn plan(&self) -> Option<Plan> {
        let view = self.decided();
        let dead = self.select(|node| node.record.role != Role::Out && node.candidate.is_some());
        let whole = self.whole();
        if whole.is_empty() {
            return None;
        }
        // For each part of the data, a member is removed only if another holder has sent a heartbeat after the
        // member's lease had ended. Of two nodes, at most one has done so after the other's lease had ended. So
        // one holder of each part remains.
        let is_survived = |member: NodeId| {
            let end = self.nodes[member.index()].lease_end;
            let mut parts = (0..self.nodes.len()).filter(|&part| self.replicas_of(part).contains(member));
            parts.all(|part| {
                let others = whole.intersection(self.replicas_of(part)).without(member);
                others.iter().any(|other| self.nodes[other.index()].heard >= end)
            })
        };
        let removed: NodeSet = self.members().filter(|&id| !dead.contains(id) && is_survived(id)).collect();
        let present = |candidate: NewIncarnation| candidate.heard + self.parameters.term() > self.now;
        let comes = self.select(|node| node.candidate.is_some_and(present));
        let stays = self.kept().minus(removed.union(dead));
        // If new nodes do not receive each other's beacons, those with the lowest numbers enter first.
        let with_new_incarnation = comes.iter().fold(NodeSet::EMPTY, |with_new_incarnation, id| {
            if self.fits(id, stays, with_new_incarnation) {
                with_new_incarnation.with(id)
            } else {
                with_new_incarnation
            }
        });
        let full = whole.minus(removed);
        let leaving = removed.union(dead).intersection(view.full);
        if !leaving.is_empty() && !self.is_safe(full, leaving) {
            return self.plan_unsafe(whole, dead, full);
        }
        let caught_up_or_gone = whole.union(removed).union(dead);
        let joining = view.joining.minus(caught_up_or_gone).union(with_new_incarnation);
        let is_founded = self.epoch > Epoch(1)
            || full.iter().all(|founder| self.nodes[founder.index()].reported == Epoch(1));
        let due = if !is_founded {
            // The view waits for heartbeats of the founders, not for time.
            Instant::FAR_FUTURE
        } else if !removed.union(dead).is_empty() || self.nodes.iter().any(|node| node.restored) {
            // Writes are blocked until the removed member is out of the view.
            self.published
        } else {
            let due = self.published + self.parameters.view_interval;
            if with_new_incarnation.is_empty() { due.max(self.patience(joining)) } else { due }
        };
        Some(Plan { full, joining, with_new_incarnation, seals: false, due })
    }

    /// The next view while members cannot leave because the `rest` may lack writes: all stay, and a new view lets
    /// the others complete their disks. `None` if the writes are lost.
    fn plan_unsafe(&self, whole: NodeSet, dead: NodeSet, rest: NodeSet) -> Option<Plan> {
        let is_uncertain = |id: NodeId| self.nodes[id.index()].uncertain;
        if whole.iter().all(is_uncertain) && !self.is_safe(whole, dead) {
            return None;
        }
        let view = self.decided();
        let full = view.full.union(whole);
        let knows_view = |id: NodeId| {
            let node = &self.nodes[id.index()];
            node.opened == self.epoch
                || node.sealed == self.epoch
                || node.synced.is_some_and(|(epoch, _)| epoch == self.epoch)
        };
        let seals = rest.iter().any(|id| knows_view(id) && !is_uncertain(id));
        let is_due = seals || self.nodes.iter().any(|node| node.restored);
        let due = if is_due { self.published } else { Instant::FAR_FUTURE };
        Some(Plan {
            full,
            joining: view.joining.minus(full),
            with_new_incarnation: NodeSet::EMPTY,
            seals,
            due,
        })
    }

    /// Until when synced members wait for the given members, which are still joining: twice as long as the first
    /// of them has taken. Silent members are not waited for.
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
        let view = self.decided();
        let is_restored = self.nodes.iter().any(|node| node.restored);
        plan.full != view.full
            || plan.joining != view.joining
            || !plan.with_new_incarnation.is_empty()
            || plan.seals
            || is_restored
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
        self.unsaved = true;
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let Some(id) = NodeId::new(index) else { continue };
            node.restored = false;
            node.record.role = match (plan.full.contains(id), plan.joining.contains(id)) {
                (true, _) => Role::Full,
                (_, true) => Role::Joining,
                _ => Role::Out,
            };
            if plan.with_new_incarnation.contains(id)
                && let Some(candidate) = node.candidate.take()
            {
                node.record.incarnation = Some(candidate.incarnation);
                (node.receives_from, node.last_heartbeat) = (candidate.receives_from, Some(candidate.heard));
                node.extended = false;
                node.reported = Epoch(0);
                (node.granted, node.opened, node.sealed) = (Epoch(0), Epoch(0), Epoch(0));
                node.uncertain = false;
                node.synced = None;
                node.rival_incarnation = None;
            }
        }
        self.begin(plan.with_new_incarnation);
        self.note_holders();
    }

    /// The decided view, in which these members are new, begins now: at the decision, and again when it is stored.
    fn begin(&mut self, new: NodeSet) {
        let (now, lease_end) = (self.now, self.now + self.parameters.term());
        self.published = now;
        // Whether the new members and the others receive each other's beacons is reported slightly later: restart
        // their timers.
        for node in &mut self.nodes {
            new.iter().for_each(|id| node.silent_since[id.index()] = now);
        }
        for id in new.iter() {
            let node = &mut self.nodes[id.index()];
            (node.lease_end, node.silent_since) = (lease_end, [now; NODES_MAX]);
        }
    }

    /// Notes that the service did not run from `since` to `now`: see the rules.
    pub(crate) fn note_pause(&mut self, since: Instant, now: Instant) {
        self.now = self.now.max(now);
        let until = self.now + self.parameters.lease / 4;
        let ends = |node: &Node| node.lease_end > since && node.lease_end < until;
        for node in self.nodes.iter_mut().filter(|node| ends(node) && !node.extended) {
            (node.lease_end, node.extended) = (until, true);
        }
    }

    fn halt(&mut self) {
        self.halted = true;
        self.unsaved = true;
    }

    /// The nodes that hold this part of the data when they are full.
    fn replicas_of(&self, part: usize) -> NodeSet {
        let ring = (0..self.parameters.replicas).map(|step| (part + step) % self.nodes.len());
        ring.filter_map(NodeId::new).collect()
    }

    /// Members that hold all data that they replicate: full members, and joining ones that are synced in this
    /// epoch and alive. A synced member has acknowledged every write since, so it can replace the last full one.
    /// Engines that are known to be dead do not count.
    fn whole(&self) -> NodeSet {
        self.select(|node| {
            let synced =
                node.synced.is_some_and(|(epoch, _)| epoch == self.epoch) && node.lease_end > self.now;
            node.candidate.is_none()
                && (node.record.role == Role::Full || node.record.role == Role::Joining && synced)
        })
    }

    /// The members that are excluded because they and others do not receive each other's beacons.
    pub fn partitioned(&self) -> NodeSet {
        self.decided().members().minus(self.kept())
    }

    /// Which beacons between an excluded member and the others are missing, in words.
    pub fn partitioned_from(&self, node: NodeId) -> String {
        let number = node.index();
        let Some(known) = self.nodes.get(number) else { return "there is no such node".to_owned() };
        let names = |set: NodeSet| {
            let names: Vec<_> = set.iter().map(|other| format!("node {}", other.index())).collect();
            names.join(", ")
        };
        if !known.receives_from.contains(node) {
            return "it does not hear the membership service".to_owned();
        }
        let others = self.decided().members().without(node);
        let unheard = others.minus(known.receives_from);
        let deaf: NodeSet =
            others.iter().filter(|id| !self.nodes[id.index()].receives_from.contains(node)).collect();
        let [unheard, deaf] = [unheard, deaf].map(names);
        match (unheard.is_empty(), deaf.is_empty()) {
            (true, _) => format!("{deaf} cannot hear it"),
            (_, true) => format!("it cannot hear {unheard}"),
            _ => format!("it cannot hear {unheard}, and {deaf} cannot hear it"),
        }
    }

    /// The members that may stay: all, unless some do not receive the beacons of others. See the rules.
    fn kept(&self) -> NodeSet {
        let (now, patience) = (self.now, self.parameters.lease / 4);
        let members = self.decided().members();
        let misses = |one: NodeId, other: NodeId| self.nodes[one.index()].misses(other, patience, now);
        // A silent member leaves when its lease has ended; its last report does not count here.
        let heard: NodeSet = members.iter().filter(|id| self.speaks(*id)).collect();
        let deaf: NodeSet = heard.iter().filter(|&id| misses(id, id)).collect();
        let hearing = heard.minus(deaf);
        // For each node the nodes with which it cannot stay.
        let mut apart = [NodeSet::EMPTY; NODES_MAX];
        for one in hearing.iter() {
            for other in hearing.without(one).iter().filter(|&other| misses(one, other)) {
                apart[one.index()] = apart[one.index()].with(other);
                apart[other.index()] = apart[other.index()].with(one);
            }
        }
        let partitioned: NodeSet = hearing.iter().filter(|id| !apart[id.index()].is_empty()).collect();
        if partitioned.union(deaf).is_empty() {
            return members;
        }
        let holders = self.whole().intersection(heard);
        let parts = (0..self.nodes.len()).map(|part| self.replicas_of(part).intersection(holders));
        let parts: Vec<NodeSet> = parts.filter(|replicas| !replicas.is_empty()).collect();
        let is_whole = |set: NodeSet| parts.iter().all(|part| !part.intersection(set).is_empty());
        let full = self.having(Role::Full);
        let choices = (0..1u32 << partitioned.len()).map(|choice| {
            let chosen = partitioned.iter().enumerate().filter(|(rank, _)| choice >> rank & 1 == 1);
            hearing.minus(partitioned).union(chosen.map(|(_, id)| id).collect())
        });
        let hear_each_other =
            |set: NodeSet| set.iter().all(|id| apart[id.index()].intersection(set).is_empty());
        let best = choices.filter(|&set| hear_each_other(set) && is_whole(set)).max_by_key(|set| {
            // Reversing the bits makes the lowest node number the highest bit.
            (set.intersection(full).len(), set.len(), set.bits().reverse_bits())
        });
        best.map_or(members, |best| members.minus(heard.minus(best)))
    }

    /// Whether the current incarnation of a member has sent a heartbeat within the length of a lease.
    fn speaks(&self, id: NodeId) -> bool {
        let node = &self.nodes[id.index()];
        node.candidate.is_none()
            && node.last_heartbeat.is_some_and(|at| at + self.parameters.term() > self.now)
    }

    /// Whether a node can enter the view: it receives the service's answers, and it, the staying members and the
    /// other new nodes receive each other's beacons. A silent member that cannot be removed, because it alone
    /// holds some data, does not keep a node out.
    fn fits(&self, id: NodeId, stays: NodeSet, newcomers: NodeSet) -> bool {
        let newcomer_receives_from =
            |id: NodeId| self.nodes[id.index()].candidate.map(|newcomer| newcomer.receives_from);
        let Some(receives_from) = newcomer_receives_from(id) else { return false };
        let speaking = stays.without(id).iter().filter(|other| self.speaks(*other));
        let by_members = speaking.map(|other| (other, self.nodes[other.index()].receives_from));
        let by_newcomers = newcomers.iter().filter_map(|other| Some((other, newcomer_receives_from(other)?)));
        let mut others = by_members.chain(by_newcomers);
        receives_from.contains(id)
            && others.all(|(other, theirs)| receives_from.contains(other) && theirs.contains(id))
    }

    /// Whether a new node has waited for a while because it and the members do not receive each other's beacons.
    fn is_kept_out(&self, id: NodeId) -> bool {
        let patience = self.parameters.lease / 4;
        let candidate = self.nodes[id.index()].candidate;
        self.epoch > Epoch(0)
            && candidate.is_some_and(|newcomer| newcomer.since + patience <= self.now)
            && !self.fits(id, self.kept(), NodeSet::EMPTY)
    }

    /// The parts of the data none of whose holders has sent a heartbeat within the length of a lease. A lease that
    /// was extended without a heartbeat does not count.
    fn parts_without_holder(&self) -> Vec<usize> {
        let whole = self.whole().iter();
        let is_heard = |id: &NodeId| self.nodes[id.index()].heard + self.parameters.term() > self.now;
        let holders: NodeSet = whole.filter(is_heard).collect();
        (0..self.nodes.len())
            .filter(|&part| self.replicas_of(part).intersection(holders).is_empty())
            .collect()
    }

    fn members(&self) -> impl Iterator<Item = NodeId> {
        self.decided().members().iter()
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
        number: u64,
        epoch: u32,
        state: EngineState,
    ) -> Answer {
        beat_receiving(service, ms, (node, number), (epoch, state), NodeSet::first(16))
    }

    fn beat_receiving(
        service: &mut Service,
        ms: u64,
        (node, number): (usize, u64),
        (epoch, state): (u32, EngineState),
        receives_from: NodeSet,
    ) -> Answer {
        let (node, incarnation) = (NodeId::new(node).unwrap(), Incarnation::new(number).unwrap());
        let status = EngineStatus { epoch: Epoch(epoch), state };
        hear(service, ms, Heartbeat { node, incarnation, status, receives_from, claim: None })
    }

    /// The answer to a heartbeat, of a service whose disk takes no time.
    fn hear(service: &mut Service, ms: u64, heartbeat: Heartbeat) -> Answer {
        let answer = service.heartbeat(at(ms), heartbeat);
        store(service, ms);
        answer
    }

    fn tick(service: &mut Service, ms: u64) {
        service.tick(at(ms));
        store(service, ms);
    }

    fn store(service: &mut Service, ms: u64) {
        if service.take_unsaved().is_some() {
            service.stored(at(ms));
        }
    }

    /// Incarnation 10 of the node reports that its engine is lost, as it does before it restarts.
    fn loses(service: &mut Service, ms: u64, node: usize) {
        let epoch = service.view().epoch.0;
        assert_eq!(beat(service, ms, node, 10, epoch, EngineState::Lost), Err(Reason::Rejoin));
    }

    fn superseded_by(number: u64) -> Answer {
        Err(Reason::Superseded { by: Incarnation::new(number).unwrap() })
    }

    fn sets(service: &Service) -> (u32, Vec<usize>, Vec<usize>) {
        let view = service.view();
        let indices = |set: NodeSet| set.iter().map(NodeId::index).collect();
        (view.epoch.0, indices(view.full), indices(view.joining))
    }

    /// A service that published epoch 1 at time 0; no node has reported it.
    fn founding(nodes: usize) -> Service {
        let mut service = Service::new(parameters(nodes));
        for node in 0..nodes {
            let answer = beat(&mut service, 0, node, 10, 0, EngineState::Starting);
            assert_eq!(answer.is_ok(), node == nodes - 1);
        }
        assert_eq!(sets(&service), (1, (0..nodes).collect(), vec![]));
        service
    }

    /// Nodes that are full in epoch 1 and have reported it, with leases from time 0.
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
        // The lease ends after 100 ms and 1 % for drift.
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
        let service = running(3);
        let durable = service.stored.clone();
        // All nodes and the service lose power.
        let mut service = Service::restore(parameters(3), &durable, at(1_000)).unwrap();
        let restored = EngineState::Restored;
        // As always, epoch 2 waits for the founders' reports of epoch 1.
        for node in [0, 1, 2] {
            assert_eq!(sets(&service).0, 1);
            assert!(beat(&mut service, 1_001, node, 10, 1, restored).is_ok());
        }
        assert_eq!(sets(&service), (2, vec![0, 1, 2], vec![]));
        // The nodes have not led in epoch 2, so no further view is needed.
        for node in [0, 1, 2] {
            assert!(beat(&mut service, 1_002, node, 10, 1, restored).is_ok());
        }
        assert_eq!(sets(&service).0, 2);
        // A node that does not come back in time is removed, and has to join.
        for ms in [1_050, 1_104, 1_110] {
            assert!(beat(&mut service, ms, 0, 10, 2, EngineState::Full).is_ok());
            assert!(beat(&mut service, ms, 1, 10, 2, EngineState::Full).is_ok());
        }
        assert_eq!(sets(&service), (3, vec![0, 1], vec![]));
        assert_eq!(beat(&mut service, 1_120, 2, 10, 1, restored), Err(Reason::Rejoin));
    }

    /// Three nodes with two copies on disk, which have begun epoch 2 and have leases from 10 ms.
    fn running_on_disks() -> Service {
        let mut service = Service::new(ServiceParameters { durable_copies: 2, ..parameters(3) });
        for (epoch, state) in [(0, EngineState::Starting), (1, EngineState::Full)] {
            for node in 0..3 {
                let _ = beat(&mut service, 0, node, 10, epoch, state);
            }
        }
        assert!(beat(&mut service, 5, 0, 10, 1, EngineState::Restored).is_ok());
        for node in 0..3 {
            assert!(beat(&mut service, 10, node, 10, 2, EngineState::Full).is_ok());
        }
        assert_eq!(sets(&service), (2, vec![0, 1, 2], vec![]));
        service
    }

    #[test]
    fn a_member_that_alone_may_lack_copies_on_disk_first_seals() {
        let mut service = running_on_disks();
        for ms in [60, 112] {
            assert!(beat(&mut service, ms, 0, 10, 2, EngineState::Full).is_ok());
        }
        assert_eq!(sets(&service), (3, vec![0, 1, 2], vec![]));
        assert!(beat(&mut service, 113, 0, 10, 2, EngineState::Full).is_ok(), "its disk is not complete");
        assert_eq!(sets(&service).0, 3);
        assert!(beat(&mut service, 114, 0, 10, 3, EngineState::Sealed).is_ok());
        assert_eq!(sets(&service), (4, vec![0], vec![]));

        let mut service = running_on_disks();
        for ms in [60, 112] {
            assert!(beat(&mut service, ms, 0, 10, 2, EngineState::Full).is_ok());
            assert!(beat(&mut service, ms, 1, 10, 2, EngineState::Full).is_ok());
        }
        assert_eq!(sets(&service), (3, vec![0, 1], vec![]), "two of three have all");
    }

    /// A service that has lost power with all nodes, of which only node 0 has come back and reported.
    fn one_of_three_is_back() -> Service {
        let durable = running_on_disks().stored;
        assert_eq!(Durable::from_toml(&durable.to_toml()), Ok(durable.clone()));
        let parameters = ServiceParameters { durable_copies: 2, ..parameters(3) };
        let mut service = Service::restore(parameters, &durable, at(1_000)).unwrap();
        for ms in [1_001, 1_050, 1_100, 1_105] {
            assert!(beat(&mut service, ms, 0, 10, 2, EngineState::Restored).is_ok());
            assert_eq!(sets(&service), (3, vec![0, 1, 2], vec![]), "at {ms} ms");
        }
        service
    }

    #[test]
    fn restored_members_go_on_when_there_are_enough() {
        let mut service = one_of_three_is_back();
        assert!(beat(&mut service, 1_110, 1, 10, 2, EngineState::Restored).is_ok());
        assert_eq!(sets(&service), (4, vec![0, 1], vec![]));
    }

    #[test]
    fn too_few_restored_members_halt() {
        let mut service = one_of_three_is_back();
        assert_eq!(beat(&mut service, 1_110, 1, 11, 0, EngineState::Starting), Err(Reason::Waiting));
        assert_eq!(sets(&service), (3, vec![0, 1, 2], vec![]), "node 2 may come back");
        assert_eq!(beat(&mut service, 1_111, 2, 11, 0, EngineState::Starting), Err(Reason::Halted));
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
        // Node 1 dies right after this heartbeat; its lease lasts until 191 ms.
        assert!(beat(&mut service, 90, 1, 10, 1, EngineState::Full).is_ok());
        for ms in [101, 150] {
            tick(&mut service, ms);
            assert_eq!(sets(&service).0, 1);
            assert_eq!(service.next_deadline(), Instant::FAR_FUTURE);
        }
        // Node 0, whose lease has ended meanwhile, has the only copy of the data.
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
        // No node with all data had a lease, so node 0 gets one more lease's time.
        assert!(beat(&mut service, 301, 1, 11, 3, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 3);
        assert!(beat(&mut service, 302, 1, 11, 3, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (4, vec![1], vec![]));
    }

    /// A ring of nodes: part *p* of the data is on `replicas` nodes, from node *p* on.
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
        // Nodes 1 and 2, the only holders of part 1, are silent, and so is node 4, whose parts have other holders.
        for ms in [50, 100, 150] {
            for node in [0, 3] {
                assert!(beat(&mut service, ms, node, 10, 1, EngineState::Full).is_ok());
            }
        }
        assert_eq!(sets(&service), (2, vec![0, 1, 2, 3], vec![]));
        // One of them is back, so the other gets one more lease's time.
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
        tick(&mut service, 500);
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
        // A heartbeat that requests the first view does not show that the node has it.
        assert_eq!(beat(&mut service, 30, 1, 10, 0, EngineState::Starting).unwrap().view.epoch, Epoch(1));
        assert_eq!(service.next_deadline(), Instant::FAR_FUTURE);
        tick(&mut service, 40);
        assert_eq!(sets(&service).0, 1);
        assert_eq!(beat(&mut service, 50, 1, 10, 1, EngineState::Full).unwrap().view.epoch, Epoch(2));
        assert_eq!(sets(&service), (2, vec![0, 1], vec![2]));
    }

    #[test]
    fn a_founder_that_dies_before_it_knows_the_first_view_is_removed() {
        let mut service = founding(3);
        // Node 0 reports; node 1 is still expected to report the first view.
        for ms in [50, 100] {
            assert!(beat(&mut service, ms, 0, 10, 1, EngineState::Full).is_ok());
        }
        assert!(beat(&mut service, 60, 1, 10, 0, EngineState::Starting).is_ok());
        assert!(beat(&mut service, 130, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 1);
        assert_eq!(service.next_deadline(), Instant::FAR_FUTURE);
        // Nodes 1 and 2 are dead, so their reports are not awaited.
        assert!(beat(&mut service, 201, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![0], vec![]));
    }

    #[test]
    fn a_restored_service_asks_again_who_knows_the_first_view() {
        let durable = running(2).stored;
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
        tick(&mut service, 500);
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

    /// Each node holds its part together with two others. Nodes that get more time because another holder is back
    /// have sent nothing themselves and may be dead: they do not count as holders of another part.
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
        tick(&mut service, 126);
        assert_eq!(sets(&service), (3, vec![1], vec![0]));
        for ms in [150, 250, 350, 450] {
            assert!(beat(&mut service, ms, 0, 11, 3, EngineState::Joining { synced: false }).is_ok());
        }
        assert_eq!(sets(&service).0, 3);
        assert_eq!(beat(&mut service, 460, 1, 12, 0, EngineState::Starting), Err(Reason::Halted));
        assert_eq!(service.phase(), Phase::Halted);
        let halted = service.stored.clone();
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
        // It is too early for a view that can wait, but not for one that is needed.
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
        tick(&mut service, 196);
        assert_eq!(sets(&service), (5, vec![0], vec![1, 2, 3]));
        // A node that reported to be synced in an earlier epoch is not synced in this one.
        assert!(beat(&mut service, 230, 1, 11, 4, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&service).0, 5);
        assert!(beat(&mut service, 231, 1, 11, 5, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&service).0, 5);
        // The transfer to node 1 took 35 ms, so it waits for the others as long.
        for ms in [240, 265] {
            assert!(beat(&mut service, ms, 1, 11, 5, EngineState::Joining { synced: true }).is_ok());
            assert_eq!(sets(&service).0, 5);
            assert_eq!(service.next_deadline(), at(266));
        }
        tick(&mut service, 266);
        assert_eq!(sets(&service), (6, vec![0, 1], vec![2, 3]));
    }

    /// A service whose nodes 1 to 3 have come back at 50 ms, while node 0 holds all data.
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
    fn nodes_that_return_together_are_full_together() {
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
    fn a_synced_node_does_not_wait_for_a_silent_node_that_no_coming_view_needs() {
        let mut silent = three_come_back();
        let epoch = silent.view().epoch.0;
        for ms in [110, 140] {
            assert!(beat(&mut silent, ms, 0, 10, epoch, EngineState::Full).is_ok());
        }
        // Nodes 2 and 3 last reported at 60 ms; node 1 would wait for them until much later.
        assert!(beat(&mut silent, 150, 1, 11, epoch, EngineState::Joining { synced: true }).is_ok());
        assert_eq!(sets(&silent).0, epoch);
        tick(&mut silent, 161);
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
        // A second process has the number of node 1, which still sends heartbeats.
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
        tick(&mut service, 140);
        assert_eq!(sets(&service).0, 1);
        // The view does not need a further heartbeat.
        tick(&mut service, 141);
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
        // Once node 1 is cut off, another process with its number is accepted. Node 1 itself then comes back as
        // the following incarnation.
        for ms in [200, 251, 260] {
            assert!(beat(&mut service, ms, 0, 10, 1, EngineState::Full).is_ok());
        }
        assert!(beat(&mut service, 270, 1, 1 << 62, 0, EngineState::Starting).is_err());
        tick(&mut service, 290);
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
    fn a_leaving_node_is_out_of_the_view_as_soon_as_another_is_heard() {
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

    /// Incarnation 10 of the node claims a view of nodes 0 to 2 in which node 2 is joining.
    fn claims(service: &mut Service, ms: u64, node: usize, epoch: u32) -> Answer {
        let (id, incarnation) = (NodeId::new(node).unwrap(), Incarnation::new(10).unwrap());
        let joining = NodeSet::EMPTY.with(NodeId::new(2).unwrap());
        let view = View { epoch: Epoch(epoch), full: NodeSet::first(2), joining };
        let state = if node == 2 { EngineState::Joining { synced: false } } else { EngineState::Full };
        let status = EngineStatus { epoch: Epoch(epoch), state };
        let receives_from = NodeSet::first(16);
        let heartbeat = Heartbeat { node: id, incarnation, status, receives_from, claim: Some(view) };
        hear(service, ms, heartbeat)
    }

    #[test]
    fn a_service_that_forgot_goes_on_once_all_members_of_the_newest_view_claim_it() {
        let mut service = Service::new(parameters(4));
        for (ms, node) in [(0, 0), (1, 1), (2, 0)] {
            assert_eq!(claims(&mut service, ms, node, 3), Err(Reason::Ahead));
        }
        assert_eq!(service.stored.view().epoch, Epoch(0));
        assert_eq!(claims(&mut service, 3, 2, 3), Err(Reason::Ahead));
        assert_eq!(sets(&service), (3, vec![0, 1], vec![2]));
        assert_eq!(service.stored.view(), service.decided());
        assert!(beat(&mut service, 4, 0, 10, 3, EngineState::Full).is_ok());
        // An incarnation that is in no view of the service has no data of this cluster.
        assert_eq!(beat(&mut service, 5, 3, 10, 3, EngineState::Full), Err(Reason::Rejoin));
        assert_eq!(beat(&mut service, 5, 1, 9, 3, EngineState::Full), superseded_by(10));
        // Leases that the former service granted may be valid for one more lease's time; then silent members are
        // removed.
        assert!(beat(&mut service, 103, 0, 10, 3, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 3);
        assert!(beat(&mut service, 105, 0, 10, 3, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (3 + 1 + EPOCHS_LOST, vec![0], vec![]));
    }

    #[test]
    fn a_service_that_forgot_does_not_go_on_without_a_member_that_may_hold_more() {
        let mut service = Service::new(parameters(3));
        // Node 1 has received a later view than the others.
        for (ms, node, epoch) in [(0, 0, 3), (1, 1, 4), (2, 2, 3), (3, 0, 3)] {
            assert_eq!(claims(&mut service, ms, node, epoch), Err(Reason::Ahead));
        }
        assert_eq!(service.view().epoch, Epoch(0));
        // Node 1 comes back empty: its claim is void, since its data is lost.
        assert_eq!(beat(&mut service, 4, 1, 11, 0, EngineState::Starting), Err(Reason::Waiting));
        assert_eq!(claims(&mut service, 5, 0, 3), Err(Reason::Ahead));
        assert_eq!(service.view().epoch, Epoch(0));
    }

    /// From 10 ms on, each of these nodes, all full in epoch 1, reports every 10 ms whose beacons it receives,
    /// until `until_ms`, or until a view follows.
    fn partitioned_until(service: &mut Service, receives_from: &[&[usize]], until_ms: u64) -> u64 {
        let set = |nodes: &[usize]| nodes.iter().filter_map(|node| NodeId::new(*node)).collect::<NodeSet>();
        for ms in (10..=until_ms).step_by(10) {
            for (node, receives_from) in receives_from.iter().enumerate() {
                let _ = beat_receiving(service, ms, (node, 10), (1, EngineState::Full), set(receives_from));
                if service.view().epoch > Epoch(1) {
                    return ms;
                }
            }
        }
        until_ms
    }

    #[test]
    fn the_beacons_that_are_missing_are_named() {
        let missing = |receives_from: &[&[usize]], node| {
            let mut service = running(receives_from.len());
            partitioned_until(&mut service, receives_from, 20);
            service.partitioned_from(NodeId::new(node).unwrap())
        };
        let one_way: [&[usize]; 3] = [&[0, 1, 2], &[0, 1], &[0, 1, 2]];
        assert_eq!(missing(&one_way, 1), "it cannot hear node 2");
        assert_eq!(missing(&one_way, 2), "node 1 cannot hear it");
        let neither: [&[usize]; 3] = [&[0, 1, 2], &[0, 1], &[0, 2]];
        assert_eq!(missing(&neither, 1), "it cannot hear node 2, and node 2 cannot hear it");
        assert_eq!(missing(&[&[], &[0, 1]], 0), "it does not hear the membership service");
        assert_eq!(missing(&one_way, 5), "there is no such node");
    }

    #[test]
    fn of_two_members_that_do_not_hear_each_other_one_leaves_the_view() {
        let mut service = running(3);
        // Nodes 1 and 2 do not receive each other's beacons; node 0 and both of them do.
        let at = partitioned_until(&mut service, &[&[0, 1, 2], &[0, 1], &[0, 2]], 400);
        assert_eq!(sets(&service), (2, vec![0, 1], vec![]));
        assert!(at <= 150, "a quarter of a lease, and the lease, and less than a heartbeat: {at} ms");
    }

    #[test]
    fn of_those_that_do_not_hear_each_other_the_fewest_leave() {
        // Node 0 and nodes 1 and 2 do not receive each other's beacons: node 0 is removed, although its number is
        // the lowest.
        let mut service = running(4);
        partitioned_until(&mut service, &[&[0, 3], &[1, 2, 3], &[1, 2, 3], &[0, 1, 2, 3]], 400);
        assert_eq!(sets(&service), (2, vec![1, 2, 3], vec![]));
    }

    #[test]
    fn a_member_that_one_other_does_not_hear_leaves_as_if_nobody_heard_the_other() {
        let mut service = running(3);
        partitioned_until(&mut service, &[&[0, 1, 2], &[0, 1], &[0, 1, 2]], 400);
        assert_eq!(sets(&service), (2, vec![0, 1], vec![]));
    }

    #[test]
    fn a_member_that_does_not_hear_the_service_leaves_the_view() {
        let mut service = running(2);
        partitioned_until(&mut service, &[&[], &[1, 0]], 400);
        assert_eq!(sets(&service), (2, vec![1], vec![]));
        // Node 0's next incarnation stays out as long as it receives no beacons, and as long as node 1 does not
        // receive its.
        let beats = |service: &mut Service, ms, receives_from: NodeSet| {
            let _ = beat_receiving(service, ms, (1, 10), (2, EngineState::Full), NodeSet::first(2));
            beat_receiving(service, ms, (0, 11), (0, EngineState::Starting), receives_from)
        };
        assert_eq!(beats(&mut service, 500, NodeSet::EMPTY), Err(Reason::Waiting));
        assert_eq!(beats(&mut service, 530, NodeSet::EMPTY), Err(Reason::Partitioned));
        assert_eq!(beats(&mut service, 540, NodeSet::first(1)), Err(Reason::Partitioned));
        assert_eq!(sets(&service).0, 2);
        assert!(beats(&mut service, 550, NodeSet::first(2)).is_ok());
        assert_eq!(sets(&service), (3, vec![1], vec![0]));
    }

    #[test]
    fn a_member_that_is_partitioned_for_less_than_a_quarter_of_a_lease_stays() {
        let mut service = running(2);
        assert_eq!(partitioned_until(&mut service, &[&[0], &[0, 1]], 30), 30);
        for ms in [31, 60, 120, 180, 240] {
            for node in 0..2 {
                assert!(beat(&mut service, ms, node, 10, 1, EngineState::Full).is_ok(), "at {ms} ms");
            }
        }
        assert!(service.partitioned().is_empty());
    }

    #[test]
    fn a_node_partitioned_from_a_member_that_dies_stays_in_the_view() {
        let mut service = running(2);
        partitioned_until(&mut service, &[&[0], &[1]], 60);
        assert_eq!(service.partitioned(), NodeSet::EMPTY.with(NodeId::new(1).unwrap()));
        // Node 0 is silent. Node 1 has had no lease for a while, and holds all data.
        for ms in [100, 150] {
            let _ = beat_receiving(
                &mut service,
                ms,
                (1, 10),
                (1, EngineState::Full),
                NodeSet::first(2).without(NodeId::new(0).unwrap()),
            );
        }
        // No node with a lease has sent a heartbeat for a lease's time, so node 0 has one more to come back.
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
                    let receives_from = unheard.fold(all, |all, one| all.without(NodeId::new(*one).unwrap()));
                    let epoch = service.view().epoch.0;
                    let _ = beat_receiving(
                        &mut service,
                        ms,
                        (node, 10),
                        (epoch, EngineState::Full),
                        receives_from,
                    );
                }
            }
            sets(&service)
        };
        assert_eq!(parts(10, [1, 3]), (2, vec![0, 1, 3], vec![]), "neither can go");
        assert_eq!(parts(500, [0, 1]), (3, vec![1, 3], vec![]), "what node 0 holds, others hold, too");
        // Node 3 dies, and stays in the view. Node 0 comes back and does not receive its beacons.
        let receives_from = NodeSet::first(2);
        for ms in (1_000..1_200).step_by(20) {
            let _ = beat_receiving(&mut service, ms, (1, 10), (3, EngineState::Full), NodeSet::first(4));
            let _ = beat_receiving(&mut service, ms, (0, 11), (0, EngineState::Starting), receives_from);
        }
        assert_eq!(sets(&service), (4, vec![1, 3], vec![0]));
    }

    #[test]
    fn a_restored_service_waits_for_leases_that_it_does_not_remember() {
        let durable = running(2).stored;
        let mut service = Service::restore(parameters(2), &durable, at(10)).unwrap();
        assert!(beat(&mut service, 60, 0, 10, 1, EngineState::Full).is_ok());
        assert!(beat(&mut service, 110, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service).0, 1);
        assert!(beat(&mut service, 111, 0, 10, 1, EngineState::Full).is_ok());
        assert_eq!(sets(&service), (2, vec![0], vec![]));
        let error = Service::restore(parameters(3), &durable, at(10)).unwrap_err();
        assert_eq!(error.to_string(), "it describes 2 nodes, but 3 are configured");
    }

    fn heartbeat(node: usize, number: u64, epoch: u32, state: EngineState) -> Heartbeat {
        Heartbeat {
            node: NodeId::new(node).unwrap(),
            incarnation: Incarnation::new(number).unwrap(),
            status: EngineStatus { epoch: Epoch(epoch), state },
            receives_from: NodeSet::first(16),
            claim: None,
        }
    }

    /// Three full members, of which node 1 has restarted; a view with its new incarnation is being stored since 62 ms.
    fn storing() -> Service {
        let mut service = running(3);
        loses(&mut service, 61, 1);
        let answer = service.heartbeat(at(62), heartbeat(1, 11, 0, EngineState::Starting));
        assert_eq!(answer.unwrap().view.epoch, Epoch(2));
        assert!(service.take_unsaved().is_some());
        service
    }

    /// Nodes 0 and 2 renew their leases meanwhile, and the new incarnation of node 1 reports.
    fn renew_until(service: &mut Service, end: u64) {
        for ms in (70..end).step_by(10) {
            for node in [0, 2] {
                let answer = service.heartbeat(at(ms), heartbeat(node, 10, 1, EngineState::Full));
                assert_eq!(answer.unwrap().view, service.view(), "it stays");
            }
            let waits = service.heartbeat(at(ms), heartbeat(1, 11, 0, EngineState::Starting));
            assert_eq!(waits, Err(Reason::Waiting));
            service.tick(at(ms));
            assert_eq!((service.take_unsaved(), service.next_deadline()), (None, Instant::FAR_FUTURE));
        }
    }

    #[test]
    fn while_a_view_is_stored_its_members_keep_the_leases_of_the_stored_one() {
        let mut service = storing();
        assert_eq!((service.view().epoch, service.decided().epoch), (Epoch(1), Epoch(2)));
        // The disk takes three leases.
        renew_until(&mut service, 400);
        for (node, number) in [(1, 10), (2, 9), (3, 10)] {
            let waits = service.heartbeat(at(400), heartbeat(node, number, 1, EngineState::Full));
            assert_eq!(waits, Err(Reason::Waiting));
        }
        service.stored(at(400));
        assert_eq!(sets(&service), (2, vec![0, 2], vec![1]));
        for node in [0, 2] {
            assert!(beat(&mut service, 401, node, 10, 1, EngineState::Full).is_ok());
        }
        assert!(beat(&mut service, 401, 1, 11, 0, EngineState::Starting).is_ok());
        assert_eq!(beat(&mut service, 401, 1, 10, 1, EngineState::Full), superseded_by(11));
        assert_eq!(sets(&service).0, 2, "nobody was silent");
    }

    #[test]
    fn while_a_view_is_stored_who_leaves_gets_no_lease() {
        let mut service = running(3);
        for (ms, node) in [(60, 0), (60, 1)] {
            assert!(beat(&mut service, ms, node, 10, 1, EngineState::Full).is_ok());
        }
        let answer = service.heartbeat(at(101), heartbeat(0, 10, 1, EngineState::Full));
        assert_eq!(answer.unwrap().view.full.len(), 2, "node 2 was silent");
        assert!(service.take_unsaved().is_some());
        let late = heartbeat(2, 10, 1, EngineState::Full);
        assert_eq!(service.heartbeat(at(102), late), Err(Reason::Waiting));
        service.stored(at(103));
        assert_eq!(service.heartbeat(at(104), late), Err(Reason::Rejoin));
    }

    #[test]
    fn new_members_have_their_time_from_when_their_view_is_stored() {
        let mut service = storing();
        renew_until(&mut service, 400);
        service.stored(at(400));
        // Node 1 could not know that it is a member, so the others have not received its beacons.
        let others = NodeSet::first(3).without(NodeId::new(1).unwrap());
        let mut report = |ms, receives_from| {
            for node in [0, 2] {
                let state = (2, EngineState::Full);
                assert!(beat_receiving(&mut service, ms, (node, 10), state, receives_from).is_ok());
            }
            (service.partitioned().len(), sets(&service).0)
        };
        assert_eq!([401, 424].map(|ms| report(ms, others)), [(0, 2); 2]);
        assert_eq!([450, 475, 500].map(|ms| report(ms, NodeSet::first(3))), [(0, 2); 3]);
        assert_eq!(report(502, NodeSet::first(3)), (0, 3), "it is silent");
    }

    proptest! {
        #[test]
        fn no_answer_rests_on_what_a_crash_may_lose(
            nodes in 1usize..=5,
            steps in prop::collection::vec((0u64..60, 0usize..5, 1u64..5, 0u32..12, 0u8..5, 0u8..8), 0..300),
        ) {
            let mut service = running(nodes);
            let mut now = 0;
            for (pause, node, number, epoch, state, store_ends) in steps {
                now += pause;
                let state = match state {
                    0 => EngineState::Starting,
                    1 | 2 => EngineState::Joining { synced: state == 2 },
                    3 => EngineState::Full,
                    _ => EngineState::Lost,
                };
                let (stored, decided) = (service.view(), service.decided());
                let was_storing = service.storing.is_some();
                let answer = service.heartbeat(at(now), heartbeat(node, number * 5, epoch, state));
                prop_assert_eq!(service.view(), stored);
                let members = stored.members().intersection(decided.members());
                if was_storing {
                    prop_assert_eq!(service.decided(), decided, "one change at a time");
                    prop_assert!(!service.has_unsaved());
                    match answer {
                        Ok(grant) => {
                            prop_assert_eq!(grant.view, stored);
                            prop_assert!(members.contains(NodeId::new(node).unwrap()));
                        }
                        Err(reason) => prop_assert_eq!(reason, Reason::Waiting),
                    }
                } else {
                    prop_assert!(answer.is_err() || answer.unwrap().view == service.decided());
                }
                let _ = service.take_unsaved();
                if service.storing.is_some() && store_ends == 0 {
                    let decided = service.decided();
                    service.stored(at(now));
                    prop_assert_eq!(service.view(), decided);
                }
            }
        }

        #[test]
        fn no_heartbeat_breaks_the_rules(
            nodes in 1usize..=16,
            steps in prop::collection::vec((0u64..60, 0usize..16, 1u64..5, 0u32..12, 0u8..5, any::<u16>()), 0..300),
        ) {
            let mut service = running(nodes);
            let mut now = 0;
            for (pause, node, number, epoch, state, receives_from) in steps {
                let before = service.view();
                now += pause;
                let state = match state {
                    0 => EngineState::Starting,
                    1 | 2 => EngineState::Joining { synced: state == 2 },
                    3 => EngineState::Full,
                    _ => EngineState::Lost,
                };
                // A third of the heartbeats report beacons from all nodes.
                let receives_from = if receives_from % 3 == 0 { NodeSet::first(16) } else { NodeSet::from_bits(receives_from) };
                let answer = beat_receiving(&mut service, now, (node, number * 4), (epoch, state), receives_from);
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
