//! A keeper of the membership service: one of several processes that can hold it.

use std::collections::VecDeque;

use weft_register::{
    Datagram as RegisterDatagram, MessageError as RegisterError, Operation, Outcome, Proposer, ProposerId,
    ProposerParameters, Value,
};
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, View};

use crate::durable::Durable;
use crate::identity::ClusterName;
use crate::membership::Incarnation;
use crate::message::{Datagram, Message, MessageError};
#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;
use crate::record::Record;
use crate::server::{Origin, Refused, Server};
use crate::service::{Service, ServiceParameters};
use crate::status::ServiceStatus;

/// Limit of the queue of answers of a keeper that does not hold the service. More are dropped.
const QUEUE_MAX: usize = 64;
/// How many times in a term the holder renews it, and the others look.
const PER_TERM: u64 = 4;

/// Parameters of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeeperParameters {
    /// Those of the service.
    pub service: ServiceParameters,
    /// Number of coordinators of the register: 1, 3 or 5.
    pub coordinators: usize,
    /// How long a keeper holds the service after it has begun its last successful change of the register. If it is at
    /// most half a lease, a successor takes over before leases end.
    pub term: Duration,
}

impl KeeperParameters {
    /// How long after the last change that it has observed a keeper may succeed the holder: longer than a term on the
    /// holder's clock.
    fn succession(&self) -> Duration {
        let margin = u128::from(self.term.as_ps()) * u128::from(self.service.drift_ppm);
        self.term + Duration::from_ps(margin.div_ceil(1_000_000).try_into().unwrap_or(u64::MAX))
    }
}

/// A process that can hold the membership service. Its state is in a register on coordinators.
///
/// # Rules
/// - At most one keeper *holds* the service. It alone grants leases and publishes views. Others answer a node with
///   the number of the holder.
/// - The holder changes the register each quarter of a term. It holds the service until a term after it has begun the
///   last change that has succeeded. Each change is a compare-and-set on the version of the one before.
/// - Whatever the service would store in its state file is such a change. Nothing that depends on it is sent to nodes
///   before it has succeeded.
/// - Another keeper may succeed the holder when it has observed no change for a term, and the drift of the clocks,
///   by a compare-and-set on the version that it has observed. What it has observed may never have been chosen, while
///   another keeper has set another value of the same version. So it first reads the register, and goes on only if the
///   value that is chosen is the one observed. If the compare-and-set succeeds, that was the holder's last change. The
///   holder had begun it before it could be observed, so its term has ended.
/// - A successor continues from the state in the register as a service does that has restarted: any member may have a
///   lease that was granted just before, so none is removed for the length of a lease.
/// - Every successor increments the term, which all answers to nodes carry. A node that has heard of a term does not
///   listen to earlier ones.
///
/// While no majority of the coordinators answers, the holder goes on until its term ends. Then no leases are granted
/// until a majority is back.
///
/// # Use
/// After each call the host sends the requests that [`Keeper::poll_request`] returns, and the datagrams of
/// [`Keeper::poll_transmit`], each until there are no more. It reads the clock for `now` immediately before: the end
/// of the term is checked there. `A` identifies a node's end, as in [`Server`].
#[derive(Clone, Debug)]
pub struct Keeper<A> {
    number: NodeId,
    parameters: KeeperParameters,
    cluster: ClusterName,
    /// Whether nodes must register their configurations.
    registers: bool,
    proposer: Proposer,
    part: Part<A>,
    /// What is in the register, as far as this keeper knows, and since when it knows it.
    seen: Option<Seen>,
    /// When the register is looked at next.
    look: Instant,
    queue: VecDeque<(A, Datagram)>,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<PlantedBug>,
}

#[derive(Clone, Debug)]
struct Seen {
    version: u64,
    writer: ProposerId,
    record: Record,
    since: Instant,
}

#[derive(Clone, Debug)]
enum Part<A> {
    /// Observes the register.
    Standby,
    /// Reads the register before it tries to succeed the holder.
    Confirms,
    /// Has read the value that it had observed.
    Confirmed,
    /// Tries to succeed the holder, since this time.
    Claims { record: Box<Record>, begun: Instant },
    /// Holds the service.
    Holds(Box<Held<A>>),
}

#[derive(Clone, Debug)]
struct Held<A> {
    server: Server<A>,
    /// What is in the register, and its version.
    record: Record,
    version: u64,
    /// The change under way, or the last one: when it was begun, and what it stores, if that is new.
    begun: Instant,
    storing: Option<Durable>,
    /// When the term ends.
    until: Instant,
}

impl<A: Copy> Keeper<A> {
    /// The keeper of this number, in this incarnation of its process.
    ///
    /// # Panics
    /// If a parameter is out of range.
    pub fn new(number: NodeId, incarnation: Incarnation, parameters: KeeperParameters) -> Self {
        assert!(parameters.term > Duration::ZERO, "a term lasts for a while");
        let cluster = ClusterName::default();
        Self {
            number,
            parameters,
            cluster,
            registers: false,
            proposer: proposer(number, incarnation, parameters, cluster),
            part: Part::Standby,
            seen: None,
            look: Instant::ZERO,
            queue: VecDeque::with_capacity(QUEUE_MAX),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }

    /// The same keeper for the nodes of `cluster`, each of which must send its profile before it is accepted.
    #[must_use]
    pub fn of_cluster(self, cluster: ClusterName) -> Self {
        let ProposerId { incarnation, .. } = self.proposer.id();
        let incarnation = Incarnation::new(incarnation).expect("it was one");
        let proposer = proposer(self.number, incarnation, self.parameters, cluster);
        Self { cluster, registers: true, proposer, ..self }
    }

    /// The same keeper with a deliberate bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: PlantedBug) -> Self {
        Self { planted_bug: Some(bug), ..self }
    }

    /// Processes a datagram from a node. The caller must read the clock for `now` after it has received it. `origin`
    /// judges whether `from` belongs to the node: see [`Server::receive_from`].
    ///
    /// # Errors
    /// [`MessageError`] if the datagram is no valid heartbeat.
    pub fn receive_from(
        &mut self,
        now: Instant,
        from: A,
        bytes: &[u8],
        origin: impl FnOnce(NodeId) -> Origin,
    ) -> Result<(), MessageError> {
        self.advance(now);
        if let Part::Holds(held) = &mut self.part {
            held.server.receive_from(now, from, bytes, origin)?;
            self.advance(now);
            return Ok(());
        }
        let (cluster, message) = Message::decode(bytes)?;
        let Message::Heartbeat { token, heartbeat, .. } = message else {
            return Err(MessageError::Field("kind"));
        };
        if cluster == self.cluster.id() && self.queue.len() < QUEUE_MAX {
            let holder = self.holder().filter(|holder| *holder != self.number);
            let answer = Message::Elsewhere {
                node: heartbeat.node,
                incarnation: heartbeat.incarnation,
                token,
                holder,
            };
            self.queue.push_back((from, answer.encode(cluster)));
        }
        Ok(())
    }

    /// Processes a datagram from a coordinator.
    ///
    /// # Errors
    /// [`RegisterError`] if the datagram is no answer to this cluster's keepers.
    pub fn receive_answer(&mut self, now: Instant, bytes: &[u8]) -> Result<(), RegisterError> {
        self.proposer.receive(now, bytes)?;
        self.advance(now);
        Ok(())
    }

    /// Advances the time. Call it at [`Keeper::next_deadline`]; further calls do no harm.
    pub fn tick(&mut self, now: Instant) {
        self.proposer.tick(now);
        if let Part::Holds(held) = &mut self.part {
            held.server.tick(now);
        }
        self.advance(now);
    }

    /// When [`Keeper::tick`] must be called if no datagram arrives before.
    pub fn next_deadline(&self) -> Instant {
        let begins = if self.proposer.is_busy() {
            Instant::FAR_FUTURE
        } else {
            match &self.part {
                Part::Holds(held) => held.begun + self.parameters.term / PER_TERM,
                _ => self.look.min(self.may_succeed()),
            }
        };
        let holds = match &self.part {
            Part::Holds(held) => held.until.min(held.server.next_deadline()),
            _ => Instant::FAR_FUTURE,
        };
        begins.min(holds).min(self.proposer.next_deadline())
    }

    /// The next request to a coordinator, and that coordinator's number.
    pub fn poll_request(&mut self) -> Option<(u8, RegisterDatagram)> {
        self.proposer.poll_transmit()
    }

    /// The next datagram to a node, with its address.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(A, Datagram)> {
        self.advance(now);
        if let Some(answer) = self.queue.pop_front() {
            return Some(answer);
        }
        match &mut self.part {
            Part::Holds(held) => held.server.poll_transmit(),
            _ => None,
        }
    }

    /// The keeper that holds the service, as far as this one knows.
    pub fn holder(&self) -> Option<NodeId> {
        let seen = self.seen.as_ref().filter(|seen| seen.version > 0)?;
        NodeId::new(usize::from(seen.writer.number))
    }

    /// The server of the service, if this keeper holds it at `now`.
    pub fn held(&self, now: Instant) -> Option<&Server<A>> {
        match &self.part {
            Part::Holds(held) if now < held.until => Some(&held.server),
            _ => None,
        }
    }

    /// Status of the service, if this keeper holds it at `now`.
    pub fn status(&self, now: Instant) -> Option<ServiceStatus> {
        Some(ServiceStatus { holder: Some(self.number), ..self.held(now)?.status(now) })
    }

    /// The next misconfigured node to report to the operator: see [`Server::poll_refused`].
    pub fn poll_refused(&mut self) -> Option<Refused<A>> {
        match &mut self.part {
            Part::Holds(held) => held.server.poll_refused(),
            _ => None,
        }
    }

    /// The term that this keeper knows.
    pub fn term(&self) -> u32 {
        match (&self.part, &self.seen) {
            (Part::Holds(held), _) => held.record.term,
            (_, seen) => seen.as_ref().map_or(0, |seen| seen.record.term),
        }
    }

    /// The view in the register, as far as this keeper knows.
    pub fn view(&self) -> View {
        let durable = self.seen.as_ref().and_then(|seen| seen.record.durable.as_ref());
        durable.map_or_else(View::default, Durable::view)
    }

    /// Takes the end of an operation, and begins the next one.
    fn advance(&mut self, now: Instant) {
        if let Part::Holds(held) = &self.part
            && now >= held.until
        {
            self.part = Part::Standby;
        }
        if let Some(outcome) = self.proposer.poll_outcome() {
            self.end(now, outcome);
        }
        if !self.proposer.is_busy() {
            self.begin(now);
        }
    }

    fn end(&mut self, now: Instant, outcome: Outcome) {
        let (is_done, value) = match outcome {
            Outcome::Done(value) => (true, Some(value)),
            Outcome::Conflict(value) => (false, Some(value)),
            Outcome::Unknown => (false, None),
        };
        let is_known = value.as_ref().is_some_and(|value| self.see(now, value));
        let length = self.length();
        self.part = match std::mem::replace(&mut self.part, Part::Standby) {
            Part::Claims { record, begun } => match value.filter(|_| is_done && now < begun + length) {
                Some(value) => Part::Holds(Box::new(self.hold(now, *record, value.version, begun))),
                None => Part::Standby,
            },
            Part::Holds(mut held) => match value.filter(|_| is_done) {
                Some(value) => {
                    held.version = value.version;
                    held.until = held.begun + length;
                    if let Some(durable) = held.storing.take() {
                        held.record.durable = Some(durable);
                        held.server.stored(now);
                    }
                    Part::Holds(held)
                }
                // Somebody else has changed the register, or nobody knows: the term may be over.
                None => Part::Standby,
            },
            Part::Confirms if is_known => Part::Confirmed,
            // The change of a term that has ended.
            Part::Confirms | Part::Confirmed | Part::Standby => Part::Standby,
        };
    }

    /// Notes the value of the register. Returns whether it was known.
    fn see(&mut self, now: Instant, value: &Value) -> bool {
        let Value { version, writer, bytes } = value;
        let nodes = self.parameters.service.nodes;
        let is_usable = |record: &Record| {
            let is_ours = record.durable.as_ref().is_none_or(|durable| durable.nodes().len() == nodes);
            is_ours && record.term < u32::MAX
        };
        // Only keepers write to the register. One that cannot use what another has written does not succeed it.
        let Some(record) = Record::decode(bytes).filter(is_usable) else {
            self.seen = None;
            return false;
        };
        let is_same =
            |seen: &Seen| seen.version == *version && seen.writer == *writer && seen.record == record;
        let is_known = self.seen.as_ref().is_some_and(is_same);
        if !is_known {
            self.seen = Some(Seen { version: *version, writer: *writer, record, since: now });
        }
        is_known
    }

    /// When this keeper may succeed the holder. Keepers with greater numbers wait longer, so that they do not meet.
    fn may_succeed(&self) -> Instant {
        let turn = self.parameters.term / (2 * PER_TERM) * self.number.index() as u64;
        match &self.seen {
            None => Instant::FAR_FUTURE,
            // Nobody has ever held the service.
            Some(seen) if seen.version == 0 => seen.since + turn,
            #[cfg(feature = "planted-bugs")]
            Some(seen) if self.planted_bug == Some(PlantedBug::SuccessorInHaste) => {
                seen.since + self.parameters.term / PER_TERM
            }
            Some(seen) => seen.since + self.parameters.succession() + turn,
        }
    }

    fn begin(&mut self, now: Instant) {
        let quarter = self.parameters.term / PER_TERM;
        let may_succeed = self.may_succeed();
        match &mut self.part {
            Part::Holds(held) => {
                held.storing = held.server.take_unsaved();
                if held.storing.is_none() && now < held.begun + quarter {
                    return;
                }
                let durable = held.storing.clone().or_else(|| held.record.durable.clone());
                let record = Record { term: held.record.term, durable };
                let Some(bytes) = record.encode() else {
                    // Nobody can continue with a state that does not fit, so it never existed.
                    self.part = Part::Standby;
                    return;
                };
                held.begun = now;
                let operation = Operation::CompareAndSet { expected: held.version, bytes };
                self.proposer.start(now, operation, held.until.max(now));
            }
            Part::Confirmed => {
                let Some(seen) = &self.seen else { return };
                let record = Record { term: seen.record.term + 1, durable: seen.record.durable.clone() };
                let Some(bytes) = record.encode() else { return };
                let operation = Operation::CompareAndSet { expected: seen.version, bytes };
                self.part = Part::Claims { record: Box::new(record), begun: now };
                self.proposer.start(now, operation, now + self.parameters.term);
            }
            Part::Standby | Part::Claims { .. } if now >= may_succeed => {
                self.part = Part::Confirms;
                self.proposer.start(now, Operation::Read, now + self.parameters.term);
            }
            Part::Standby | Part::Claims { .. } if now >= self.look => {
                self.look = now + quarter;
                self.proposer.start(now, Operation::Observe, now + quarter);
            }
            Part::Standby | Part::Claims { .. } | Part::Confirms => {}
        }
    }

    /// The service of a keeper that has just succeeded, `begun` when it began to.
    fn hold(&self, now: Instant, record: Record, version: u64, begun: Instant) -> Held<A> {
        let service = match &record.durable {
            Some(durable) => Service::restore(self.parameters.service, durable, now)
                .expect("keepers of a cluster have the same number of nodes"),
            None => Service::new(self.parameters.service),
        };
        let server = Server::new(service).in_term(record.term);
        let server = match self.registers {
            true => server.of_cluster(self.cluster, record.durable.as_ref().and_then(Durable::profile)),
            false => server,
        };
        let until = begun + self.length();
        Held { server, record, version, begun, storing: None, until }
    }

    /// How long this keeper holds the service after the beginning of a change.
    fn length(&self) -> Duration {
        #[cfg(feature = "planted-bugs")]
        if self.planted_bug == Some(PlantedBug::TermOverrun) {
            return self.parameters.term * 8;
        }
        self.parameters.term
    }
}

fn proposer(
    number: NodeId,
    incarnation: Incarnation,
    parameters: KeeperParameters,
    cluster: ClusterName,
) -> Proposer {
    let id = ProposerId { number: number.index() as u8, incarnation: incarnation.get() };
    // A change that fails at first is repeated several times within a quarter of a term.
    let patience = parameters.term / (8 * PER_TERM);
    let coordinators = parameters.coordinators;
    Proposer::new(id, ProposerParameters { cluster: cluster.id().0, coordinators, patience })
}

#[cfg(test)]
mod tests {
    use weft_register::{Acceptor, Coordinator};
    use weft_waist::{EngineStatus, Epoch, NodeSet};

    use super::*;
    use crate::identity::ClusterId;
    use crate::message::Heartbeat;

    const LEASE: Duration = Duration::from_ms(100);
    const TERM: Duration = Duration::from_ms(40);
    const ALL: u8 = 0b111;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn keeper(number: usize) -> Keeper<u8> {
        let service = ServiceParameters::new(1, LEASE);
        let parameters = KeeperParameters { service, coordinators: 3, term: TERM };
        Keeper::new(NodeId::new(number).unwrap(), Incarnation::FIRST, parameters)
    }

    fn coordinators() -> [Coordinator<u8>; 3] {
        [0, 1, 2].map(|number| Coordinator::new(ClusterId::default().0, number, Acceptor::default()))
    }

    /// Carries all requests to those coordinators that are up, and the answers back, until there are no more.
    fn serve(keeper: &mut Keeper<u8>, coordinators: &mut [Coordinator<u8>; 3], up: u8, now: Instant) {
        while let Some((to, request)) = keeper.poll_request() {
            if up >> to & 1 == 0 {
                continue;
            }
            let coordinator = &mut coordinators[usize::from(to)];
            coordinator.receive(0, &request).unwrap();
            let _ = coordinator.take_unsaved();
            while let Some((_, answer)) = coordinator.poll_transmit() {
                keeper.receive_answer(now, &answer).unwrap();
            }
        }
    }

    /// Lets time pass to `until`.
    fn pass(keeper: &mut Keeper<u8>, coordinators: &mut [Coordinator<u8>; 3], up: u8, until: Instant) {
        while keeper.next_deadline() <= until {
            let now = keeper.next_deadline();
            keeper.tick(now);
            serve(keeper, coordinators, up, now);
        }
    }

    fn heartbeat(token: u64) -> Datagram {
        let heartbeat = Heartbeat {
            node: NodeId::new(0).unwrap(),
            incarnation: Incarnation::FIRST,
            status: EngineStatus::STARTING,
            receives_from: NodeSet::first(1),
            claim: None,
        };
        Message::Heartbeat { token, heartbeat, profile: None }.encode(ClusterId::default())
    }

    fn answer(keeper: &mut Keeper<u8>, now: Instant) -> Option<Message> {
        keeper.poll_transmit(now).map(|(_, bytes)| Message::decode(&bytes).unwrap().1)
    }

    #[test]
    fn the_first_keeper_holds_the_service_and_answers_when_its_state_is_in_the_register() {
        let mut coordinators = coordinators();
        let mut first = keeper(0);
        pass(&mut first, &mut coordinators, ALL, at(0));
        assert!(first.held(at(0)).is_some());
        assert_eq!((first.term(), first.holder()), (1, NodeId::new(0)));
        first.receive_from(at(1), 9, &heartbeat(1), |_| Origin::Own).unwrap();
        assert_eq!(first.held(at(1)).unwrap().service().view().epoch, Epoch(0));
        assert_eq!(answer(&mut first, at(1)), None, "the view is not in the register");
        assert_eq!(first.view().epoch, Epoch(0));
        serve(&mut first, &mut coordinators, 0b110, at(2));
        assert_eq!(first.view().epoch, Epoch(1));
        match answer(&mut first, at(2)) {
            Some(Message::Grant { term: 1, view, .. }) => assert_eq!(view.epoch, Epoch(1)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_holder_stops_a_term_after_the_beginning_of_its_last_renewal() {
        let mut coordinators = coordinators();
        let mut first = keeper(0);
        pass(&mut first, &mut coordinators, ALL, at(25));
        // It has renewed at 10 and 20 ms; from then on, one coordinator is no majority.
        pass(&mut first, &mut coordinators, 0b001, at(59));
        assert!(first.held(at(59)).is_some());
        first.receive_from(at(59), 9, &heartbeat(1), |_| Origin::Own).unwrap();
        pass(&mut first, &mut coordinators, 0b001, at(60));
        assert!(first.held(at(60)).is_none());
        first.receive_from(at(61), 9, &heartbeat(2), |_| Origin::Own).unwrap();
        match answer(&mut first, at(61)) {
            Some(Message::Elsewhere { token: 2, holder: None, .. }) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_successor_waits_for_the_end_of_the_term_and_continues_from_the_state() {
        let mut coordinators = coordinators();
        let (mut first, mut second) = (keeper(0), keeper(1));
        pass(&mut first, &mut coordinators, ALL, at(1));
        pass(&mut second, &mut coordinators, ALL, at(2));
        first.receive_from(at(3), 9, &heartbeat(1), |_| Origin::Own).unwrap();
        serve(&mut first, &mut coordinators, ALL, at(3));
        second.receive_from(at(4), 9, &heartbeat(2), |_| Origin::Own).unwrap();
        match answer(&mut second, at(4)) {
            Some(Message::Elsewhere { token: 2, holder, .. }) => assert_eq!(holder, NodeId::new(0)),
            other => panic!("{other:?}"),
        }
        // It sees the change at its next look, at 10 ms; its turn is an eighth of a term after that of keeper 0.
        let wait = TERM + Duration::from_us(40) + TERM / 8;
        pass(&mut second, &mut coordinators, ALL, at(10) + (wait - Duration::from_ps(1)));
        assert!(second.holder() == NodeId::new(0));
        pass(&mut second, &mut coordinators, ALL, at(10) + wait);
        assert_eq!((second.term(), second.holder()), (2, NodeId::new(1)));
        let server = second.held(at(10) + wait).expect("it holds the service");
        assert_eq!(server.service().view().epoch, Epoch(1));
        // The former holder, whose clock is slow, learns it from its next renewal.
        pass(&mut first, &mut coordinators, ALL, at(13));
        assert!(first.held(at(13)).is_none());
        assert_eq!(first.holder(), NodeId::new(1));
    }

    /// Carries the next request, and the answer if it is not lost.
    fn carry_one(
        keeper: &mut Keeper<u8>,
        coordinators: &mut [Coordinator<u8>; 3],
        now: Instant,
        is_answered: bool,
    ) {
        let (to, request) = keeper.poll_request().expect("there is a request");
        let coordinator = &mut coordinators[usize::from(to)];
        coordinator.receive(0, &request).unwrap();
        let _ = coordinator.take_unsaved();
        while let Some((_, answer)) = coordinator.poll_transmit().filter(|_| is_answered) {
            keeper.receive_answer(now, &answer).unwrap();
        }
    }

    #[test]
    fn what_was_observed_and_never_chosen_gives_no_right_to_succeed() {
        let mut coordinators = coordinators();
        let (mut first, mut second, mut third) = (keeper(0), keeper(1), keeper(2));
        pass(&mut first, &mut coordinators, ALL, at(0));
        pass(&mut second, &mut coordinators, ALL, at(1));
        pass(&mut third, &mut coordinators, ALL, at(1));
        // One coordinator alone accepts the first renewal, as version 2, and keeper 2 sees it there.
        first.tick(at(10));
        for is_answered in [true, true, false] {
            carry_one(&mut first, &mut coordinators, at(10), is_answered);
        }
        pass(&mut third, &mut coordinators, 0b011, at(12));
        assert_eq!(third.seen.as_ref().unwrap().version, 2);
        // The other coordinators do not know it. There, keeper 1 succeeds keeper 0 with another version 2.
        pass(&mut second, &mut coordinators, 0b110, at(50));
        assert!(second.held(at(80)).is_some());
        // Keeper 2 hears nothing until its turn has come.
        pass(&mut third, &mut coordinators, 0, at(70));
        pass(&mut third, &mut coordinators, ALL, at(80));
        assert!(third.held(at(80)).is_none(), "keeper 1 holds the service");
        assert_eq!(third.holder(), NodeId::new(1));
    }

    #[test]
    fn a_record_of_another_cluster_is_not_continued() {
        let mut coordinators = coordinators();
        let mut first = keeper(0);
        pass(&mut first, &mut coordinators, ALL, at(1));
        first.receive_from(at(3), 9, &heartbeat(1), |_| Origin::Own).unwrap();
        serve(&mut first, &mut coordinators, ALL, at(3));
        let service = ServiceParameters::new(2, LEASE);
        let parameters = KeeperParameters { service, coordinators: 3, term: TERM };
        let mut larger: Keeper<u8> = Keeper::new(NodeId::new(1).unwrap(), Incarnation::FIRST, parameters);
        pass(&mut larger, &mut coordinators, ALL, at(1_000));
        assert!(larger.held(at(1_000)).is_none(), "it has another number of nodes");
    }
}
