//! The node's half of the client protocol. It handles the clients' datagrams, calls the engine for them, and keeps
//! recent decisions for readers.

use std::collections::VecDeque;

use weft_session::{Begin, Body, Malformed, Sessions};
use weft_time::Instant;

use crate::members::MEMBERS_MAX;
use crate::message::{self, Call, Value};

/// Kinds of a client's request for decisions, and of its answer. The engine does not handle them.
///
/// ```text
/// Read       0 instance(8)   8 proposer(1) begins(1) zero(6)
///            begins: 1 reads from the first decision on, 0 reads the decisions after this one
/// Decisions  0 forgotten(1) zero(1) count(2) zero(4)
///            8 { instance(8)   8 proposer(1) zero(1) bytes(2) zero(4)   16 content, padded to 8 }
///            forgotten: this node no longer has all decisions between the requested position and the first one here
/// ```
pub(crate) const READ: u8 = 64;
pub(crate) const DECISIONS: u8 = 65;

/// Position of a decision in the order: instance and proposer.
pub type Position = (u64, u8);

/// Parses a [`READ`] request: the position after which to read, `None` for the beginning.
pub(crate) fn parse_read(bytes: &[u8]) -> Option<Option<Position>> {
    let (instance, rest) = bytes.split_at_checked(8)?;
    let instance = u64::from_be_bytes(instance.try_into().expect("eight bytes"));
    (rest.len() == 8).then(|| (rest[1] == 0).then_some((instance, rest[0])))
}

/// Encodes a [`READ`] request.
pub(crate) fn read(after: Option<Position>) -> [u8; 16] {
    let (instance, proposer) = after.unwrap_or_default();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&instance.to_be_bytes());
    (bytes[8], bytes[9]) = (proposer, u8::from(after.is_none()));
    bytes
}

const HEAD: usize = 8;
const DECISION_HEAD: usize = 16;

/// The decided proposals in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decisions<'a> {
    /// Whether this node lacks decisions between the requested position and the first of these.
    pub forgotten: bool,
    count: usize,
    bytes: &'a [u8],
}

/// A decided proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided<'a> {
    /// The instance and the proposer: the same at all nodes.
    pub place: Position,
    /// The proposal's bytes.
    pub proposal: &'a [u8],
}

impl<'a> Decisions<'a> {
    /// Parses an answer; `None` if it is malformed.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let count = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let all = Self { forgotten: head[0] != 0, count, bytes: rest };
        let mut walk = all.iter();
        let whole = walk.by_ref().count() == count && walk.rest.is_empty();
        whole.then_some(all)
    }

    /// Number of decisions in the answer.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether the node has no decision after the requested position.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All decisions, in order.
    pub fn iter(&self) -> DecisionsIter<'a> {
        DecisionsIter { left: self.count, rest: self.bytes }
    }
}

/// Iterator over the decisions of an answer, returned by [`Decisions::iter`].
#[derive(Clone, Debug)]
pub struct DecisionsIter<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for DecisionsIter<'a> {
    type Item = Decided<'a>;

    fn next(&mut self) -> Option<Decided<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (head, rest) = self.rest.split_at_checked(DECISION_HEAD)?;
        let length = usize::from(u16::from_be_bytes([head[10], head[11]]));
        let (content, rest) = rest.split_at_checked(length.next_multiple_of(8))?;
        self.rest = rest;
        let instance = u64::from_be_bytes(head[..8].try_into().expect("eight bytes"));
        Some(Decided { place: (instance, head[8]), proposal: &content[..length] })
    }
}

/// Parameters of a [`ClientServer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientServerParameters {
    /// Number of the first session, higher than those of any former incarnation of the node.
    pub first_session: u64,
    /// Number of clients whose sessions are kept.
    pub clients: usize,
    /// The longest proposal in bytes: the same as in the engine's parameters.
    pub value_bytes: usize,
    /// Number of decisions that are kept for readers.
    pub kept: usize,
    /// The longest answer in bytes. It must fit into a datagram and hold a decision of the longest proposal.
    pub answer_bytes: usize,
}

/// The node's half of the client protocol, for all clients of one engine of rounds. `A` is the type of a client's
/// address.
///
/// | the node gets | it does |
/// |---|---|
/// | a message of kind [`crate::client::FIRST_KIND`] or above, for the engine's slot | calls [`ClientServer::receive`], and passes the returned call to the engine as one of the host, with the returned token |
/// | a reply to its Subscribe, of kind [`Call::Decided`] | [`ClientServer::decided`] |
/// | a reply to a token with the bit [`weft_session::TOKENS`] | [`ClientServer::replied`] |
/// | a view in which it is joining | [`ClientServer::joins`] |
/// | after each of these | calls [`ClientServer::poll_transmit`] until it returns `None`, and sends the datagrams to the clients |
#[derive(Debug)]
pub struct ClientServer<A> {
    parameters: ClientServerParameters,
    sessions: Sessions<A>,
    kept: VecDeque<Kept>,
    /// Whether decisions are missing between the last one that is kept, or the foundation, and the next one.
    gap_ahead: bool,
}

/// A decision that is kept for readers.
#[derive(Debug)]
struct Kept {
    place: Position,
    proposal: Vec<u8>,
    /// Whether decisions are missing between this one and the one before it, or the foundation.
    after_gap: bool,
}

impl<A: Copy> ClientServer<A> {
    /// A server without clients, at a node that founds the cluster: nothing was decided before.
    ///
    /// # Panics
    /// If `kept` is 0, or a decision of the longest proposal does not fit into an answer.
    pub fn new(parameters: ClientServerParameters) -> Self {
        let decision = HEAD + DECISION_HEAD + parameters.value_bytes.next_multiple_of(8);
        assert!(parameters.kept > 0 && parameters.answer_bytes >= decision, "a decision fits into an answer");
        let admitted = &[Call::Propose as u8, Call::Status as u8, READ];
        Self {
            sessions: Sessions::new(parameters.first_session, parameters.clients, admitted),
            kept: VecDeque::with_capacity(parameters.kept + 1),
            gap_ahead: false,
            parameters,
        }
    }

    /// Processes a message of a client. `serves` says whether the node takes part in the cluster now. The returned
    /// call, if any, must be made at the engine before the next message is processed.
    ///
    /// # Errors
    /// No client sends such a message. Nothing has changed then.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        from: A,
        message: (u8, &'a [u8]),
        serves: bool,
    ) -> Result<Option<Begin<'a>>, Malformed> {
        let begin = self.sessions.receive(now, from, message, serves)?;
        let Some(Begin { token, body: Body { kind: READ, bytes } }) = begin else { return Ok(begin) };
        let answer = parse_read(bytes).map(|after| self.read(after));
        self.sessions.finish(token, answer.as_ref().map(|answer| Body { kind: DECISIONS, bytes: answer }));
        Ok(None)
    }

    fn read(&self, after: Option<Position>) -> Vec<u8> {
        let first = self.kept.partition_point(|kept| after.is_some_and(|after| kept.place <= after));
        let forgotten = self.kept.get(first).map_or(self.gap_ahead, |kept| kept.after_gap);
        let mut answer = vec![0; HEAD];
        answer[0] = u8::from(forgotten);
        let mut count = 0_u16;
        for Kept { place: (instance, proposer), proposal, after_gap } in self.kept.iter().skip(first) {
            let bytes = DECISION_HEAD + proposal.len().next_multiple_of(8);
            if answer.len() + bytes > self.parameters.answer_bytes || (*after_gap && count > 0) {
                break;
            }
            let end = answer.len() + bytes;
            answer.extend_from_slice(&instance.to_be_bytes());
            answer.extend_from_slice(&[*proposer, 0]);
            answer.extend_from_slice(&(proposal.len() as u16).to_be_bytes());
            answer.extend_from_slice(&[0; 4]);
            answer.extend_from_slice(proposal);
            answer.resize(end, 0);
            count += 1;
        }
        answer[2..4].copy_from_slice(&count.to_be_bytes());
        answer
    }

    /// Keeps a decision that the engine reports to its subscriber, the host. Changes of the members are not kept.
    ///
    /// # Errors
    /// The bytes are no valid decision.
    pub fn decided(&mut self, payload: &[u8]) -> Result<(), message::Malformed> {
        let value = Value::parse(payload, self.parameters.value_bytes)?;
        debug_assert!(value.proposer < MEMBERS_MAX);
        let place = (value.instance, value.proposer as u8);
        if value.proposal.change || self.kept.back().is_some_and(|last| last.place >= place) {
            return Ok(());
        }
        let after_gap = std::mem::take(&mut self.gap_ahead);
        self.kept.push_back(Kept { place, proposal: value.proposal.bytes.to_vec(), after_gap });
        if self.kept.len() > self.parameters.kept {
            self.kept.pop_front();
            self.kept.front_mut().expect("at least one is kept").after_gap = true;
        }
        Ok(())
    }

    /// The node asks the members to admit it: it learns of no decision until they have.
    pub fn joins(&mut self) {
        self.gap_ahead = true;
    }

    /// Processes the engine's answer to the call with this token.
    pub fn replied(&mut self, token: u32, kind: u8, payload: &[u8]) {
        self.sessions.finish(token, Some(Body { kind, bytes: payload }));
    }

    /// The next message to a client: appends its content to `out`, and returns (address, kind).
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(A, u8)> {
        self.sessions.poll_transmit(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Proposal;

    fn server() -> ClientServer<u8> {
        ClientServer::new(ClientServerParameters {
            first_session: 1,
            clients: 4,
            value_bytes: 64,
            kept: 3,
            answer_bytes: 120,
        })
    }

    fn decide(server: &mut ClientServer<u8>, instance: u64, proposer: usize, bytes: &[u8]) {
        let value = Value { instance, proposer, proposal: Proposal { change: false, bytes } };
        server.decided(&[&value.header()[..], bytes].concat()).unwrap();
    }

    fn places(server: &ClientServer<u8>, after: Option<Position>) -> (bool, Vec<Position>) {
        let bytes = server.read(after);
        let all = Decisions::parse(&bytes).unwrap();
        assert!(all.iter().all(|decided| decided.proposal == [decided.place.1; 20]));
        (all.forgotten, all.iter().map(|decided| decided.place).collect())
    }

    #[test]
    fn decisions_are_told_in_order_from_where_the_reader_is() {
        let mut server = server();
        assert_eq!(places(&server, None), (false, vec![]));
        for (instance, proposer) in [(4, 0), (4, 2), (7, 1)] {
            decide(&mut server, instance, proposer, &[proposer as u8; 20]);
            decide(&mut server, instance, proposer, &[9; 20]);
        }
        // With these parameters an answer holds two decisions.
        assert_eq!(places(&server, None), (false, vec![(4, 0), (4, 2)]));
        assert_eq!(places(&server, Some((4, 0))), (false, vec![(4, 2), (7, 1)]));
        assert_eq!(places(&server, Some((5, 0))), (false, vec![(7, 1)]));
        assert_eq!(places(&server, Some((7, 1))), (false, vec![]));
        decide(&mut server, 8, 0, &[0; 20]);
        assert_eq!(places(&server, None), (true, vec![(4, 2), (7, 1)]));
        assert_eq!(places(&server, Some((4, 0))), (true, vec![(4, 2), (7, 1)]));
        assert_eq!(places(&server, Some((4, 2))), (false, vec![(7, 1), (8, 0)]));
    }

    #[test]
    fn a_joining_node_does_not_know_earlier_outcomes() {
        let mut server = server();
        server.joins();
        assert_eq!(places(&server, None), (true, vec![]));
        decide(&mut server, 100, 1, &[1; 20]);
        assert_eq!(places(&server, Some((90, 0))), (true, vec![(100, 1)]));
        assert_eq!(places(&server, Some((100, 1))), (false, vec![]));
    }

    #[test]
    fn a_rejoining_node_does_not_know_what_was_decided_meanwhile() {
        let mut server = server();
        decide(&mut server, 4, 0, &[0; 20]);
        server.joins();
        assert_eq!(places(&server, None), (false, vec![(4, 0)]));
        assert_eq!(places(&server, Some((4, 0))), (true, vec![]));
        decide(&mut server, 90, 1, &[1; 20]);
        decide(&mut server, 91, 1, &[1; 20]);
        assert_eq!(places(&server, None), (false, vec![(4, 0)]), "an answer has no gap");
        assert_eq!(places(&server, Some((4, 0))), (true, vec![(90, 1), (91, 1)]));
        assert_eq!(places(&server, Some((90, 1))), (false, vec![(91, 1)]));
    }

    #[test]
    fn a_change_of_the_members_is_not_told() {
        let mut server = server();
        let value = Value { instance: 1, proposer: 0, proposal: Proposal { change: true, bytes: &[0; 8] } };
        server.decided(&[&value.header()[..], &[0; 8]].concat()).unwrap();
        assert_eq!(places(&server, None), (false, vec![]));
        assert!(server.decided(&[0; 8]).is_err());
    }
}
