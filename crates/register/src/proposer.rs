//! The proposer: it carries out one operation at a time.

use weft_time::{Duration, Instant};

use crate::COORDINATORS_MAX;
use crate::ballot::{Ballot, ProposerId};
use crate::message::{Answer, Datagram, Message, MessageError, Request};
#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;
use crate::value::{VALUE_BYTES_MAX, Value};

/// The wait before an attempt grows at most this many times.
const GROWTHS_MAX: u32 = 6;

/// Parameters of a proposer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProposerParameters {
    /// Number of the cluster to which messages belong.
    pub cluster: u64,
    /// Number of coordinators: 1, 3 or 5.
    pub coordinators: usize,
    /// How long a proposer first waits for answers. Each further wait is twice as long, up to 64 times, and longer for
    /// proposers with greater numbers. An offer that was refused is followed by such a wait, too, so that two
    /// proposers do not refuse each other for ever.
    pub patience: Duration,
}

/// An operation on the register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Report the newest value that a majority of the coordinators knows. It disturbs no other proposer. The value may
    /// be one that is not chosen yet, or never, and a later one may have been chosen.
    Observe,
    /// Read the value.
    Read,
    /// Set the value, if the version is the expected one.
    CompareAndSet {
        /// The version that must be current; 0 before the first value.
        expected: u64,
        /// The new content, at most [`VALUE_BYTES_MAX`].
        bytes: Vec<u8>,
    },
}

/// The end of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A read or an observation found this value, or a compare-and-set has set it.
    Done(Value),
    /// A compare-and-set has had no effect, and will have none, because this value was current.
    Conflict(Value),
    /// Too few coordinators have answered in time, or later values hide whether a compare-and-set has had an effect.
    /// It may have one later, too, until this or another proposer has read or set the value.
    Unknown,
}

/// What a proposer waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The time of the next attempt.
    Pause,
    /// Reports or promises; the value with the greatest ballot so far.
    Learn { accepted: Ballot, value: Value },
    /// Acceptances of this value.
    Offer { value: Value },
}

/// An operation under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Current {
    operation: Operation,
    give_up: Instant,
    /// Ballot of the attempt; [`Ballot::ZERO`] for an observation.
    ballot: Ballot,
    phase: Phase,
    /// The coordinators that have yet to be asked, that have agreed, and that have refused, as bit masks.
    unasked: u8,
    agreed: u8,
    refused: u8,
    /// When the attempt, or the pause before it, ends.
    next: Instant,
    /// Number of waits without success, and of offers that were refused, up to [`GROWTHS_MAX`].
    failures: u32,
    /// Whether the new value of a compare-and-set was offered, in any attempt.
    has_offered: bool,
}

/// A client of the register, which carries out one operation at a time.
///
/// After [`Proposer::start`], [`Proposer::receive`] and [`Proposer::tick`], the host sends what
/// [`Proposer::poll_transmit`] returns until there is no more, and takes [`Proposer::poll_outcome`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposer {
    id: ProposerId,
    parameters: ProposerParameters,
    /// The greatest round that any message has named.
    round: u64,
    current: Option<Current>,
    outcome: Option<Outcome>,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<PlantedBug>,
}

impl Proposer {
    /// A proposer without an operation.
    ///
    /// # Panics
    /// If a parameter is out of range.
    pub fn new(id: ProposerId, parameters: ProposerParameters) -> Self {
        assert!(matches!(parameters.coordinators, 1 | 3 | COORDINATORS_MAX), "1, 3 or 5 coordinators");
        assert!(parameters.patience > Duration::ZERO, "a proposer waits for answers");
        Self {
            id,
            parameters,
            round: 0,
            current: None,
            outcome: None,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }

    /// The same proposer with a deliberate bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: PlantedBug) -> Self {
        Self { planted_bug: Some(bug), ..self }
    }

    /// This proposer's process.
    pub const fn id(&self) -> ProposerId {
        self.id
    }

    /// Whether an operation is under way, or its outcome has not been taken.
    pub const fn is_busy(&self) -> bool {
        self.current.is_some() || self.outcome.is_some()
    }

    /// Starts an operation, which ends at `give_up` at the latest.
    ///
    /// # Panics
    /// If the proposer is busy, or if the content is too long.
    pub fn start(&mut self, now: Instant, operation: Operation, give_up: Instant) {
        assert!(!self.is_busy(), "a proposer carries out one operation at a time");
        if let Operation::CompareAndSet { bytes, .. } = &operation {
            assert!(bytes.len() <= VALUE_BYTES_MAX, "the content of a value is bounded");
        }
        self.current = Some(Current {
            operation,
            give_up,
            ballot: Ballot::ZERO,
            phase: Phase::Pause,
            unasked: 0,
            agreed: 0,
            refused: 0,
            next: now,
            failures: 0,
            has_offered: false,
        });
        self.tick(now);
    }

    /// Processes a datagram from a coordinator.
    ///
    /// # Errors
    /// [`MessageError`] if the datagram is no answer to this cluster's proposers; nothing has changed then.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) -> Result<(), MessageError> {
        let (cluster, coordinator, message) = Message::decode(bytes)?;
        if cluster != self.parameters.cluster {
            return Err(MessageError::OtherCluster);
        }
        match message {
            Message::Answer(answer) if usize::from(coordinator) < self.parameters.coordinators => {
                self.take(now, coordinator, answer);
                Ok(())
            }
            _ => Err(MessageError::NotForUs),
        }
    }

    /// Processes the answer of a coordinator.
    pub fn take(&mut self, now: Instant, coordinator: u8, answer: Answer) {
        if let Answer::Refused { promised, .. } = &answer {
            self.round = self.round.max(promised.round);
        }
        let Some(current) = &mut self.current else { return };
        let from = 1 << coordinator;
        match (answer, &mut current.phase) {
            (Answer::Report { accepted, value }, Phase::Learn { .. }) if current.ballot == Ballot::ZERO => {
                self.learn(from, accepted, value);
            }
            (Answer::Promise { ballot, accepted, value }, Phase::Learn { .. })
                if ballot == current.ballot =>
            {
                self.learn(from, accepted, value);
            }
            (Answer::Accepted { ballot }, Phase::Offer { value }) if ballot == current.ballot => {
                current.agreed |= from;
                let value = value.clone();
                if self.has_majority() {
                    self.finish(value);
                }
            }
            // A repeated request of an attempt that has gone on is refused, too, because of the attempt itself.
            (Answer::Refused { ballot, promised }, phase)
                if ballot == current.ballot && promised > ballot && *phase != Phase::Pause =>
            {
                current.refused |= from;
                // Without a majority that can still agree, the attempt has failed.
                if current.refused.count_ones() as usize > self.parameters.coordinators / 2 {
                    // The ballot was too low from the beginning, or somebody else has just begun: of two proposers
                    // that meet, the one that is further gives way.
                    match phase {
                        Phase::Learn { .. } => self.attempt(now),
                        Phase::Offer { .. } | Phase::Pause => self.pause(now),
                    }
                }
            }
            _ => {}
        }
        if let Some(Current { phase: Phase::Learn { accepted, value }, .. }) = &self.current
            && self.has_majority()
        {
            let (accepted, value) = (*accepted, value.clone());
            self.learned(now, accepted, value);
        }
    }

    /// Advances the time. Call it at [`Proposer::next_deadline`]; further calls do no harm.
    pub fn tick(&mut self, now: Instant) {
        let Some(current) = &mut self.current else { return };
        if now >= current.give_up {
            self.end(Outcome::Unknown);
        } else if now >= current.next {
            let has_failed = u32::from(current.phase != Phase::Pause);
            current.failures = (current.failures + has_failed).min(GROWTHS_MAX);
            if current.phase != Phase::Pause && current.refused == 0 {
                // Requests or answers were lost, or coordinators are away.
                current.unasked = all(self.parameters.coordinators) & !current.agreed;
                self.wait(now);
            } else {
                self.attempt(now);
            }
        }
    }

    /// When [`Proposer::tick`] must be called.
    pub fn next_deadline(&self) -> Instant {
        self.current.as_ref().map_or(Instant::FAR_FUTURE, |current| current.next.min(current.give_up))
    }

    /// The next request to send, and the number of the coordinator to which it goes.
    pub fn poll_request(&mut self) -> Option<(u8, Request)> {
        let current = self.current.as_mut().filter(|current| current.unasked != 0)?;
        let coordinator = current.unasked.trailing_zeros() as u8;
        current.unasked &= current.unasked - 1;
        let ballot = current.ballot;
        let request = match &current.phase {
            Phase::Learn { .. } if ballot == Ballot::ZERO => Request::Query,
            Phase::Learn { .. } => Request::Prepare { ballot },
            Phase::Offer { value } => Request::Accept { ballot, value: value.clone() },
            Phase::Pause => unreachable!("nobody is asked during a pause"),
        };
        Some((coordinator, request))
    }

    /// The next datagram to send, and the number of the coordinator to which it goes.
    pub fn poll_transmit(&mut self) -> Option<(u8, Datagram)> {
        let (coordinator, request) = self.poll_request()?;
        Some((coordinator, Message::Request(request).encode(self.parameters.cluster, coordinator)))
    }

    /// The end of the operation. Each is returned once.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    fn has_majority(&self) -> bool {
        let agreed = self.current.as_ref().map_or(0, |current| current.agreed.count_ones());
        agreed as usize > self.parameters.coordinators / 2
    }

    /// Begins an attempt with a ballot of its own.
    fn attempt(&mut self, now: Instant) {
        let coordinators = self.parameters.coordinators;
        #[cfg(feature = "planted-bugs")]
        let reuses = self.planted_bug == Some(PlantedBug::BallotReused);
        #[cfg(not(feature = "planted-bugs"))]
        let reuses = false;
        let Some(current) = &mut self.current else { return };
        if current.operation != Operation::Observe {
            if self.round >= Ballot::ROUND_MAX {
                // Only a damaged coordinator names such a round.
                self.end(Outcome::Unknown);
                return;
            }
            let is_first = current.ballot == Ballot::ZERO && self.round > 0;
            self.round += u64::from(!(reuses && is_first));
            current.ballot = Ballot { round: self.round, proposer: self.id };
        }
        current.phase = Phase::Learn { accepted: Ballot::ZERO, value: Value::NONE };
        (current.unasked, current.agreed, current.refused) = (all(coordinators), 0, 0);
        self.wait(now);
    }

    /// Ends the attempt. The next one begins after a pause.
    fn pause(&mut self, now: Instant) {
        let Some(current) = &mut self.current else { return };
        (current.phase, current.unasked) = (Phase::Pause, 0);
        current.failures = (current.failures + 1).min(GROWTHS_MAX);
        self.wait(now);
    }

    /// Sets when the attempt or the pause ends.
    fn wait(&mut self, now: Instant) {
        let ProposerParameters { patience, .. } = self.parameters;
        let share = 16 + u64::from(self.id.number % 16);
        let Some(current) = &mut self.current else { return };
        current.next = now + patience * (1 << current.failures) * share / 16;
    }

    /// Notes what a coordinator has accepted.
    fn learn(&mut self, from: u8, found: Ballot, found_value: Value) {
        #[cfg(feature = "planted-bugs")]
        let takes_any = self.planted_bug == Some(PlantedBug::AnyAccepted);
        #[cfg(not(feature = "planted-bugs"))]
        let takes_any = false;
        let Some(current) = &mut self.current else { return };
        let Phase::Learn { accepted, value } = &mut current.phase else { return };
        let is_newer = if takes_any { *accepted == Ballot::ZERO } else { found > *accepted };
        if is_newer {
            (*accepted, *value) = (found, found_value);
        }
        current.agreed |= from;
    }

    /// A majority has reported, or promised to accept nothing of lower ballots.
    fn learned(&mut self, now: Instant, accepted: Ballot, value: Value) {
        // So that the next attempt is not refused at once.
        self.round = self.round.max(accepted.round);
        let coordinators = self.parameters.coordinators;
        let Some(current) = &mut self.current else { return };
        let offer = match &current.operation {
            Operation::Observe => {
                self.end(Outcome::Done(value));
                return;
            }
            Operation::CompareAndSet { expected, bytes }
                if value.version == *expected && value.version < Value::VERSION_MAX =>
            {
                current.has_offered = true;
                Value { version: expected + 1, writer: self.id, bytes: bytes.clone() }
            }
            Operation::Read | Operation::CompareAndSet { .. } => value,
        };
        current.phase = Phase::Offer { value: offer };
        (current.unasked, current.agreed) = (all(coordinators), 0);
        self.wait(now);
    }

    /// A majority has accepted this value.
    fn finish(&mut self, value: Value) {
        let Some(current) = &self.current else { return };
        let outcome = match &current.operation {
            Operation::Observe | Operation::Read => Outcome::Done(value),
            Operation::CompareAndSet { expected, bytes } => {
                let next = expected.saturating_add(1);
                let is_ours = value.version == next && value.writer == self.id && value.bytes == *bytes;
                if is_ours && current.has_offered {
                    Outcome::Done(value)
                } else if current.has_offered && value.version > next {
                    Outcome::Unknown
                } else {
                    Outcome::Conflict(value)
                }
            }
        };
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        assert!(self.outcome.is_none(), "an operation ends once");
        (self.current, self.outcome) = (None, Some(outcome));
    }
}

/// All coordinators, as a bit mask.
const fn all(coordinators: usize) -> u8 {
    (1 << coordinators) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptor::Acceptor;

    const PARAMETERS: ProposerParameters =
        ProposerParameters { cluster: 7, coordinators: 3, patience: Duration::from_ms(10) };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn proposer(number: u8) -> Proposer {
        Proposer::new(ProposerId { number, incarnation: 1 }, PARAMETERS)
    }

    fn set(expected: u64, byte: u8) -> Operation {
        Operation::CompareAndSet { expected, bytes: vec![byte] }
    }

    fn value(version: u64, number: u8, byte: u8) -> Value {
        Value { version, writer: ProposerId { number, incarnation: 1 }, bytes: vec![byte] }
    }

    /// Carries all requests to those coordinators that are up, until there are no more.
    fn serve(proposer: &mut Proposer, acceptors: &mut [Acceptor; 3], up: u8, now: Instant) {
        while let Some((to, request)) = proposer.poll_request() {
            if up >> to & 1 == 1 {
                let answer = acceptors[usize::from(to)].answer(&request);
                proposer.take(now, to, answer);
            }
        }
    }

    #[test]
    fn a_value_is_set_and_read() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let mut one = proposer(0);
        for (operation, outcome) in [
            (Operation::Read, Outcome::Done(Value::NONE)),
            (set(0, 5), Outcome::Done(value(1, 0, 5))),
            (Operation::Read, Outcome::Done(value(1, 0, 5))),
            (Operation::Observe, Outcome::Done(value(1, 0, 5))),
            (set(0, 6), Outcome::Conflict(value(1, 0, 5))),
            (set(1, 6), Outcome::Done(value(2, 0, 6))),
            (set(9, 6), Outcome::Conflict(value(2, 0, 6))),
        ] {
            one.start(at(0), operation, at(100));
            serve(&mut one, &mut acceptors, 0b101, at(0));
            assert_eq!(one.poll_outcome(), Some(outcome));
            assert!(!one.is_busy());
        }
    }

    #[test]
    fn without_a_majority_an_operation_ends_in_time() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let mut one = proposer(0);
        for operation in [set(0, 5), Operation::Read, Operation::Observe] {
            one.start(at(0), operation, at(100));
            let mut asked = Vec::new();
            while one.is_busy() {
                let now = one.next_deadline();
                serve(&mut one, &mut acceptors, 0b001, now);
                one.tick(now);
                asked.push(now);
                if one.poll_outcome() == Some(Outcome::Unknown) {
                    break;
                }
            }
            assert_eq!(asked, [at(10), at(30), at(70), at(100)], "waits grow");
        }
    }

    #[test]
    fn a_lost_request_is_repeated_to_those_that_have_not_answered() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let mut one = proposer(0);
        one.start(at(0), set(0, 5), at(100));
        serve(&mut one, &mut acceptors, 0b010, at(0));
        one.tick(at(10));
        let (to, request) = one.poll_request().unwrap();
        assert_eq!(to, 0, "coordinator 1 has promised");
        let first = Ballot { round: 1, proposer: one.id() };
        assert_eq!(request, Request::Prepare { ballot: first });
        serve(&mut one, &mut acceptors, 0b111, at(10));
        assert_eq!(one.poll_outcome(), Some(Outcome::Done(value(1, 0, 5))));
    }

    #[test]
    fn a_refused_attempt_is_repeated_with_a_greater_ballot() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let (mut one, mut other) = (proposer(0), proposer(1));
        other.start(at(0), set(0, 7), at(100));
        serve(&mut other, &mut acceptors, 0b111, at(0));
        other.poll_outcome();
        one.start(at(1), set(1, 5), at(100));
        serve(&mut one, &mut acceptors, 0b111, at(1));
        assert_eq!(one.poll_outcome(), Some(Outcome::Done(value(2, 0, 5))));
    }

    #[test]
    fn a_refused_offer_is_followed_by_a_pause() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let (mut one, mut other) = (proposer(0), proposer(1));
        one.start(at(0), set(0, 5), at(100));
        for _ in 0..2 {
            let (to, request) = one.poll_request().unwrap();
            one.take(at(0), to, acceptors[usize::from(to)].answer(&request));
        }
        other.start(at(1), Operation::Read, at(100));
        serve(&mut other, &mut acceptors, 0b111, at(1));
        assert_eq!(other.poll_outcome(), Some(Outcome::Done(Value::NONE)));
        serve(&mut one, &mut acceptors, 0b111, at(2));
        assert_eq!(one.poll_outcome(), None);
        assert_eq!(one.next_deadline(), at(22));
        one.tick(at(22));
        serve(&mut one, &mut acceptors, 0b111, at(22));
        assert_eq!(one.poll_outcome(), Some(Outcome::Done(value(1, 0, 5))));
    }

    #[test]
    fn answers_that_arrive_twice_do_not_prolong_a_pause() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let (mut one, mut other) = (proposer(0), proposer(1));
        one.start(at(0), set(0, 5), at(100));
        for _ in 0..2 {
            let (to, request) = one.poll_request().unwrap();
            one.take(at(0), to, acceptors[usize::from(to)].answer(&request));
        }
        other.start(at(1), Operation::Read, at(100));
        serve(&mut other, &mut acceptors, 0b111, at(1));
        let requests: Vec<_> = std::iter::from_fn(|| one.poll_request()).collect();
        for ms in [2, 3, 4] {
            for (to, request) in &requests {
                let answer = acceptors[usize::from(*to)].answer(request);
                one.take(at(ms), *to, answer);
            }
        }
        assert_eq!(one.next_deadline(), at(22));
    }

    #[test]
    fn a_repeated_request_of_the_own_attempt_is_no_refusal() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let mut one = proposer(0);
        one.start(at(0), set(0, 5), at(100));
        let ballot = Ballot { round: 1, proposer: one.id() };
        for _ in 0..2 {
            let (to, request) = one.poll_request().unwrap();
            one.take(at(0), to, acceptors[usize::from(to)].answer(&request));
        }
        // All coordinators accept the offer, but only one is heard, and the first requests arrive again.
        for (to, request) in std::iter::from_fn(|| one.poll_request()).collect::<Vec<_>>() {
            let answer = acceptors[usize::from(to)].answer(&request);
            if to == 0 {
                one.take(at(1), to, answer);
            } else {
                let again = acceptors[usize::from(to)].answer(&Request::Prepare { ballot });
                assert_eq!(again, Answer::Refused { ballot, promised: ballot });
                one.take(at(1), to, again);
            }
        }
        one.tick(at(10));
        serve(&mut one, &mut acceptors, 0b111, at(10));
        assert_eq!(one.poll_outcome(), Some(Outcome::Done(value(1, 0, 5))));
    }

    #[test]
    fn a_proposer_finds_its_own_offer_again() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let (mut one, mut other) = (proposer(0), proposer(1));
        one.start(at(0), set(0, 5), at(100));
        for _ in 0..2 {
            let (to, request) = one.poll_request().unwrap();
            let answer = acceptors[usize::from(to)].answer(&request);
            one.take(at(0), to, answer);
        }
        // Coordinator 0 accepts the offer, and nobody is told. Another proposer finds it and completes it.
        let (to, request) = one.poll_request().unwrap();
        assert!(matches!(request, Request::Accept { .. }));
        acceptors[usize::from(to)].answer(&request);
        while one.poll_request().is_some() {}
        other.start(at(1), Operation::Read, at(100));
        serve(&mut other, &mut acceptors, 0b011, at(1));
        if other.poll_outcome().is_none() {
            other.tick(other.next_deadline());
            serve(&mut other, &mut acceptors, 0b011, at(2));
        }
        // The first proposer repeats its offer, is refused, and finds that it has taken effect.
        while one.is_busy() && one.outcome.is_none() {
            let now = one.next_deadline();
            one.tick(now);
            serve(&mut one, &mut acceptors, 0b111, now);
        }
        assert_eq!(one.poll_outcome(), Some(Outcome::Done(value(1, 0, 5))));
    }

    #[test]
    fn what_later_values_hide_is_unknown() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let (mut one, mut other) = (proposer(0), proposer(1));
        one.start(at(0), set(0, 5), at(1_000));
        for _ in 0..2 {
            let (to, request) = one.poll_request().unwrap();
            let answer = acceptors[usize::from(to)].answer(&request);
            one.take(at(0), to, answer);
        }
        let (to, request) = one.poll_request().unwrap();
        acceptors[usize::from(to)].answer(&request);
        while one.poll_request().is_some() {}
        for expected in [1, 2] {
            other.start(at(1), set(expected, 9), at(1_000));
            while other.outcome.is_none() {
                serve(&mut other, &mut acceptors, 0b011, at(1));
                other.tick(other.next_deadline());
            }
            assert!(matches!(other.poll_outcome(), Some(Outcome::Done(_))));
        }
        while one.outcome.is_none() {
            let now = one.next_deadline();
            one.tick(now);
            serve(&mut one, &mut acceptors, 0b111, now);
        }
        assert_eq!(one.poll_outcome(), Some(Outcome::Unknown));
    }

    #[test]
    fn two_proposers_that_start_together_do_not_refuse_each_other_for_ever() {
        let mut acceptors: [Acceptor; 3] = Default::default();
        let mut both = [proposer(0), proposer(1)];
        both.iter_mut().for_each(|proposer| proposer.start(at(0), Operation::Read, at(10_000)));
        // Requests of both alternate, which is worst.
        let mut ended = 0;
        while ended < 2 {
            let now = both.iter().map(Proposer::next_deadline).min().unwrap();
            assert!(now < at(10_000), "both wait");
            loop {
                let mut is_quiet = true;
                for proposer in &mut both {
                    if let Some((to, request)) = proposer.poll_request() {
                        let answer = acceptors[usize::from(to)].answer(&request);
                        proposer.take(now, to, answer);
                        is_quiet = false;
                    }
                }
                if is_quiet {
                    break;
                }
            }
            ended += both.iter_mut().filter_map(Proposer::poll_outcome).count();
            both.iter_mut().for_each(|proposer| proposer.tick(now));
        }
    }

    #[test]
    fn answers_of_others_are_refused() {
        let mut one = proposer(0);
        one.start(at(0), Operation::Observe, at(100));
        let report = Message::Answer(Answer::Report { accepted: Ballot::ZERO, value: Value::NONE });
        assert_eq!(one.receive(at(1), &report.encode(8, 0)), Err(MessageError::OtherCluster));
        assert_eq!(one.receive(at(1), &report.encode(7, 3)), Err(MessageError::NotForUs));
        let query = Message::Request(Request::Query);
        assert_eq!(one.receive(at(1), &query.encode(7, 0)), Err(MessageError::NotForUs));
        one.receive(at(1), &report.encode(7, 0)).unwrap();
        one.receive(at(1), &report.encode(7, 0)).unwrap();
        assert_eq!(one.poll_outcome(), None, "one coordinator is no majority");
        one.receive(at(1), &report.encode(7, 2)).unwrap();
        assert_eq!(one.poll_outcome(), Some(Outcome::Done(Value::NONE)));
    }
}
