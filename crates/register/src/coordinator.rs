//! A coordinator: an acceptor as a server of datagrams.

use std::collections::VecDeque;

use crate::acceptor::Acceptor;
use crate::message::{Answer, Datagram, Message, MessageError};

/// Limit of the queue of answers: more than proposers have requests under way. Answers are dropped only if the host
/// does not send them.
const QUEUE_MAX: usize = 64;

weft_counters::counters! {
    /// Counters of requests that a coordinator has received and refused.
    pub struct CoordinatorCounters {
        /// Requests received by the coordinator.
        requests,
        /// Requests refused because of a promise to a later attempt.
        requests_refused,
        /// Datagrams that are no valid request to this coordinator.
        requests_malformed,
        /// Answers dropped because the queue was full.
        register_answers_overflowed,
    }
}

/// An [`Acceptor`] that receives and sends datagrams.
///
/// `A` identifies the other end: a socket address, or a machine in the simulator. After each call, the host first
/// stores the state that [`Coordinator::take_unsaved`] returns, and then sends the datagrams that
/// [`Coordinator::poll_transmit`] returns until there are no more. If storing fails, the host stops: no answer may
/// depend on a state that is not stored.
#[derive(Clone, Debug)]
pub struct Coordinator<A> {
    cluster: u64,
    number: u8,
    acceptor: Acceptor,
    unsaved: bool,
    queue: VecDeque<(A, Datagram)>,
    counters: CoordinatorCounters,
}

impl<A> Coordinator<A> {
    /// The coordinator of this number, from 0, of a cluster, with its stored state, or with
    /// [`Acceptor::default`] when it starts for the first time.
    pub fn new(cluster: u64, number: u8, acceptor: Acceptor) -> Self {
        Self {
            cluster,
            number,
            acceptor,
            unsaved: false,
            queue: VecDeque::with_capacity(QUEUE_MAX),
            counters: CoordinatorCounters::default(),
        }
    }

    /// Processes a datagram from `from`.
    ///
    /// # Errors
    /// [`MessageError`] if the datagram is no request to this coordinator; only a counter changes then.
    pub fn receive(&mut self, from: A, bytes: &[u8]) -> Result<(), MessageError> {
        let request = Message::decode(bytes).and_then(|(cluster, coordinator, message)| match message {
            _ if cluster != self.cluster => Err(MessageError::OtherCluster),
            // Otherwise one process behind two addresses would count as two coordinators.
            _ if coordinator != self.number => Err(MessageError::NotForUs),
            Message::Request(request) => Ok(request),
            Message::Answer(_) => Err(MessageError::NotForUs),
        });
        let request = request.inspect_err(|_| self.counters.requests_malformed += 1)?;
        self.counters.requests += 1;
        let before = self.acceptor.clone();
        let answer = self.acceptor.answer(&request);
        self.unsaved |= self.acceptor != before;
        self.counters.requests_refused += u64::from(matches!(answer, Answer::Refused { .. }));
        if self.queue.len() == QUEUE_MAX {
            self.counters.register_answers_overflowed += 1;
        } else {
            let datagram = Message::Answer(answer).encode(self.cluster, self.number);
            self.queue.push_back((from, datagram));
        }
        Ok(())
    }

    /// The state that must be stored before anything is sent.
    #[must_use]
    pub fn take_unsaved(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.unsaved).then(|| self.acceptor.encode(self.cluster, self.number))
    }

    /// The next datagram to send, with its destination. `None` while a state has yet to be taken.
    pub fn poll_transmit(&mut self) -> Option<(A, Datagram)> {
        if self.unsaved { None } else { self.queue.pop_front() }
    }

    /// The state.
    pub const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    /// Counters of received and refused requests.
    pub fn counters(&self) -> CoordinatorCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ballot::{Ballot, ProposerId};
    use crate::message::Request;

    #[test]
    fn nothing_is_sent_before_the_state_is_stored() {
        let mut coordinator = Coordinator::new(7, 1, Acceptor::default());
        let ballot = Ballot { round: 1, proposer: ProposerId { number: 0, incarnation: 5 } };
        let prepare = Message::Request(Request::Prepare { ballot });
        coordinator.receive('a', &prepare.encode(7, 1)).unwrap();
        assert!(coordinator.poll_transmit().is_none());
        let state = coordinator.take_unsaved().unwrap();
        assert_eq!(Acceptor::decode(7, 1, &state).unwrap().promised(), ballot);
        let (to, answer) = coordinator.poll_transmit().unwrap();
        assert_eq!(to, 'a');
        assert!(matches!(Message::decode(&answer), Ok((7, 1, Message::Answer(Answer::Promise { .. })))));
        // The repeated request changes nothing.
        coordinator.receive('a', &prepare.encode(7, 1)).unwrap();
        assert_eq!(coordinator.take_unsaved(), None);
        assert!(coordinator.poll_transmit().is_some());
    }

    #[test]
    fn what_is_not_for_this_coordinator_is_counted_and_dropped() {
        let mut coordinator = Coordinator::new(7, 1, Acceptor::default());
        let query = Message::Request(Request::Query);
        let ballot = Ballot { round: 1, proposer: ProposerId { number: 0, incarnation: 5 } };
        let answer = Message::Answer(Answer::Accepted { ballot });
        assert_eq!(coordinator.receive('a', &query.encode(8, 1)), Err(MessageError::OtherCluster));
        assert_eq!(coordinator.receive('a', &query.encode(7, 0)), Err(MessageError::NotForUs));
        assert_eq!(coordinator.receive('a', &answer.encode(7, 1)), Err(MessageError::NotForUs));
        assert_eq!(coordinator.receive('a', b"WFTR"), Err(MessageError::Length(4)));
        assert_eq!(coordinator.counters().requests_malformed, 4);
        assert!(coordinator.poll_transmit().is_none());
    }
}
