//! The acceptor: what one coordinator stores, and how it answers.

use crate::ballot::Ballot;
use crate::message::{Answer, Message, MessageError, Request};
#[cfg(feature = "planted-bugs")]
use crate::planted::PlantedBug;
use crate::value::Value;

/// The state of a coordinator. All of it must be on the disk before an answer is sent.
///
/// Its file is a promise in the form of a [message](Message): see [`Acceptor::encode`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acceptor {
    /// Nothing of lower ballots is accepted.
    promised: Ballot,
    /// Ballot of the accepted value.
    accepted: Ballot,
    value: Value,
}

/// Why a state file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The file is damaged, or of another kind.
    #[error("it is no state of a coordinator: {0}")]
    Damaged(#[from] MessageError),
    /// The file belongs to another cluster.
    #[error("it belongs to another cluster")]
    OtherCluster,
    /// The file belongs to the coordinator of another number.
    #[error("it belongs to coordinator {found}, and this is coordinator {configured}")]
    OtherCoordinator {
        /// Number in the file.
        found: u8,
        /// Number of this coordinator.
        configured: u8,
    },
}

impl Default for Acceptor {
    fn default() -> Self {
        Self { promised: Ballot::ZERO, accepted: Ballot::ZERO, value: Value::NONE }
    }
}

impl Acceptor {
    /// Answers a request. The answer may be sent once the new state, if it has changed, is stored.
    pub fn answer(&mut self, request: &Request) -> Answer {
        let answer = match request {
            Request::Query => Answer::Report { accepted: self.accepted, value: self.value.clone() },
            // The same request may arrive twice. A promise that has been followed by an acceptance is not repeated:
            // its proposer has it.
            Request::Prepare { ballot } if *ballot >= self.promised && *ballot > self.accepted => {
                self.promised = *ballot;
                Answer::Promise { ballot: *ballot, accepted: self.accepted, value: self.value.clone() }
            }
            // A ballot has one value, unless two processes have the same incarnation: then the second is refused.
            Request::Accept { ballot, value }
                if *ballot >= self.promised && (*ballot > self.accepted || *value == self.value) =>
            {
                (self.promised, self.accepted) = (*ballot, *ballot);
                self.value.clone_from(value);
                Answer::Accepted { ballot: *ballot }
            }
            Request::Prepare { ballot } | Request::Accept { ballot, .. } => {
                Answer::Refused { ballot: *ballot, promised: self.promised }
            }
        };
        assert!(self.promised >= self.accepted, "what is accepted was promised");
        answer
    }

    /// The ballot that was promised last.
    pub const fn promised(&self) -> Ballot {
        self.promised
    }

    /// The accepted value and its ballot.
    pub const fn accepted(&self) -> (Ballot, &Value) {
        (self.accepted, &self.value)
    }

    /// The state as bytes: a [`Answer::Promise`] of the coordinator, with its checksum, or a [`Answer::Report`] if
    /// nothing was promised.
    pub fn encode(&self, cluster: u64, coordinator: u8) -> Vec<u8> {
        let Self { promised: ballot, accepted, value } = self.clone();
        let answer = match ballot {
            Ballot::ZERO => Answer::Report { accepted, value },
            _ => Answer::Promise { ballot, accepted, value },
        };
        Message::Answer(answer).encode(cluster, coordinator).to_vec()
    }

    /// Parses the state of this coordinator of a cluster.
    ///
    /// # Errors
    /// Why the bytes are not that.
    pub fn decode(cluster: u64, coordinator: u8, bytes: &[u8]) -> Result<Self, StateError> {
        let (of_cluster, found, message) = Message::decode(bytes)?;
        if of_cluster != cluster {
            return Err(StateError::OtherCluster);
        }
        if found != coordinator {
            return Err(StateError::OtherCoordinator { found, configured: coordinator });
        }
        match message {
            Message::Answer(Answer::Report { accepted: Ballot::ZERO, .. }) => Ok(Self::default()),
            Message::Answer(Answer::Promise { ballot, accepted, value }) if ballot >= accepted => {
                Ok(Self { promised: ballot, accepted, value })
            }
            _ => Err(StateError::Damaged(MessageError::Field("kind"))),
        }
    }

    /// The state after a restart, with a deliberate bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn restored_with(self, bug: Option<PlantedBug>) -> Self {
        match bug {
            Some(PlantedBug::PromiseForgotten) => Self { promised: self.accepted, ..self },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ballot::ProposerId;
    use crate::message::tests::{ballots, values};

    fn ballot(round: u64, number: u8) -> Ballot {
        Ballot { round, proposer: ProposerId { number, incarnation: 1 } }
    }

    fn value(version: u64) -> Value {
        Value { version, writer: ProposerId { number: 1, incarnation: 1 }, bytes: vec![version as u8] }
    }

    fn prepare(round: u64, number: u8) -> Request {
        Request::Prepare { ballot: ballot(round, number) }
    }

    fn accept(round: u64, number: u8, version: u64) -> Request {
        Request::Accept { ballot: ballot(round, number), value: value(version) }
    }

    #[test]
    fn a_promise_keeps_lower_ballots_out() {
        let mut acceptor = Acceptor::default();
        let promise = Answer::Promise { ballot: ballot(2, 1), accepted: Ballot::ZERO, value: Value::NONE };
        assert_eq!(acceptor.answer(&prepare(2, 1)), promise);
        assert_eq!(acceptor.answer(&prepare(2, 1)), promise, "a request that arrives twice");
        let refused =
            |round, number| Answer::Refused { ballot: ballot(round, number), promised: ballot(2, 1) };
        assert_eq!(acceptor.answer(&prepare(2, 0)), refused(2, 0));
        assert_eq!(acceptor.answer(&accept(1, 9, 1)), refused(1, 9));
        assert_eq!(acceptor.accepted(), (Ballot::ZERO, &Value::NONE));
    }

    #[test]
    fn what_is_accepted_is_reported_to_later_ballots() {
        let mut acceptor = Acceptor::default();
        acceptor.answer(&prepare(1, 1));
        assert_eq!(acceptor.answer(&accept(1, 1, 1)), Answer::Accepted { ballot: ballot(1, 1) });
        assert_eq!(acceptor.answer(&accept(1, 1, 1)), Answer::Accepted { ballot: ballot(1, 1) });
        let report = Answer::Report { accepted: ballot(1, 1), value: value(1) };
        assert_eq!(acceptor.answer(&Request::Query), report);
        // A ballot that was accepted is over.
        let refused = Answer::Refused { ballot: ballot(1, 1), promised: ballot(1, 1) };
        assert_eq!(acceptor.answer(&prepare(1, 1)), refused);
        let promise = Answer::Promise { ballot: ballot(2, 0), accepted: ballot(1, 1), value: value(1) };
        assert_eq!(acceptor.answer(&prepare(2, 0)), promise);
        assert_eq!(acceptor.answer(&accept(2, 0, 9)), Answer::Accepted { ballot: ballot(2, 0) });
        let refused = Answer::Refused { ballot: ballot(2, 0), promised: ballot(2, 0) };
        assert_eq!(acceptor.answer(&accept(2, 0, 8)), refused, "a ballot has one value");
        // An acceptance needs no promise of the same coordinator.
        assert_eq!(acceptor.answer(&accept(3, 0, 2)), Answer::Accepted { ballot: ballot(3, 0) });
        assert_eq!(acceptor.promised(), ballot(3, 0));
    }

    #[test]
    fn a_query_promises_nothing() {
        let mut acceptor = Acceptor::default();
        acceptor.answer(&prepare(1, 1));
        let before = acceptor.clone();
        acceptor.answer(&Request::Query);
        assert_eq!(acceptor, before);
    }

    #[test]
    fn a_state_belongs_to_one_coordinator_of_one_cluster() {
        let bytes = Acceptor::default().encode(7, 1);
        assert_eq!(Acceptor::decode(7, 1, &bytes), Ok(Acceptor::default()));
        assert_eq!(Acceptor::decode(8, 1, &bytes), Err(StateError::OtherCluster));
        let other = StateError::OtherCoordinator { found: 1, configured: 2 };
        assert_eq!(Acceptor::decode(7, 2, &bytes), Err(other));
        assert!(matches!(Acceptor::decode(7, 1, &bytes[1..]), Err(StateError::Damaged(_))));
        let query = Message::Request(Request::Query).encode(7, 1);
        assert!(matches!(Acceptor::decode(7, 1, &query), Err(StateError::Damaged(_))));
    }

    proptest! {
        #[test]
        fn a_state_survives_a_round_trip(one in ballots(), other in ballots(), value in values()) {
            let acceptor = Acceptor { promised: one.max(other), accepted: one.min(other), value };
            prop_assert_eq!(Acceptor::decode(3, 0, &acceptor.encode(3, 0)), Ok(acceptor));
        }
    }
}
