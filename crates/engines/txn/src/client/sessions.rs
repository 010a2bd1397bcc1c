//! The sessions that clients have at a node. They make sure that a call is begun at most once, however often
//! the client repeats it.

use std::collections::{BTreeMap, VecDeque};

use weft_time::{Duration, Instant};

use super::message::{Answer, ClientMessage};
use crate::host::{Finished, Half};
use crate::message::Malformed;
use crate::procedure::Outcome;
use crate::transaction::TransactionId;

/// A session may be dropped when its client has sent nothing for this time. It is longer than a client
/// repeats a call, and longer than a datagram can be delayed.
const IDLE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
enum State {
    /// Under way, as the call of the host half with this ticket.
    Running(u64),
    /// Finished, with this answer.
    Over(Answer),
}

/// The latest call of a client.
#[derive(Debug)]
struct Session<A> {
    /// The number that calls of this session must name. No two sessions have the same one. So a
    /// late call that was meant for a dropped session, and arrives after its greeting was repeated, is not
    /// begun.
    number: u64,
    address: A,
    heard: Instant,
    sequence: u64,
    state: State,
}

/// The sessions of a node, since the process was started. A client has one call under way at a time, and its
/// next call has a higher sequence number.
///
/// A restarted node has lost its sessions. Its new sessions get higher numbers, and each call
/// names the session that it is meant for. So the node does not begin a call again that it may
/// have begun before the restart: the outcome of such a call is unknown.
#[derive(Debug)]
pub struct Sessions<A> {
    /// Number of the next session.
    next_session: u64,
    most: usize,
    sessions: BTreeMap<u64, Session<A>>,
    /// The client that each ticket belongs to.
    tickets: BTreeMap<u64, u64>,
    outbox: VecDeque<(A, ClientMessage)>,
}

impl<A: Copy> Sessions<A> {
    /// At most `most` sessions, whose numbers count up from `first`. That must be higher than the
    /// numbers that earlier processes of the node have used, such as the wall clock in nanoseconds.
    pub fn new(first: u64, most: usize) -> Self {
        let (sessions, tickets) = (BTreeMap::new(), BTreeMap::new());
        Self { next_session: first, most, sessions, tickets, outbox: VecDeque::new() }
    }

    /// The incarnation number of the next session: no session has had it or a higher one.
    pub const fn next_session(&self) -> u64 {
        self.next_session
    }

    /// Number of open sessions, and the maximum.
    pub fn count(&self) -> (usize, usize) {
        (self.sessions.len(), self.most)
    }

    /// Handles a message of a client. `serves`: whether the node takes part in the cluster now.
    ///
    /// # Errors
    /// If the message is malformed, or is not one that a client sends. The state is unchanged then.
    pub fn receive(
        &mut self,
        now: Instant,
        from: A,
        (kind, payload): (u8, &[u8]),
        serves: bool,
        half: &mut Half,
    ) -> Result<(), Malformed> {
        match ClientMessage::parse(kind, payload)? {
            ClientMessage::Hello { client } => {
                // Without a free session the client gets no answer, and turns to another node.
                if self.sessions.contains_key(&client) || self.make_room(now) {
                    let next_session = &mut self.next_session;
                    let session = self.sessions.entry(client).or_insert_with(|| Session {
                        number: std::mem::replace(next_session, *next_session + 1),
                        address: from,
                        heard: now,
                        sequence: 0,
                        state: State::Over(Answer::Refused),
                    });
                    (session.address, session.heard) = (from, now);
                    let session = session.number;
                    self.outbox.push_back((from, ClientMessage::Welcome { client, session }));
                }
            }
            ClientMessage::Call { client, session, sequence, request } => {
                let open = self.sessions.get_mut(&client).filter(|open| open.number == session);
                let Some(open) = open else {
                    let none = TransactionId::none(weft_waist::NodeId::new(0).expect("there is a node 0"));
                    let answer = Answer::Ended(none, Outcome::Unknown);
                    self.outbox
                        .push_back((from, ClientMessage::Answered { client, session, sequence, answer }));
                    return Ok(());
                };
                (open.address, open.heard) = (from, now);
                if sequence > open.sequence {
                    open.sequence = sequence;
                    let ticket = if serves { half.call(request) } else { None };
                    open.state = match ticket {
                        Some(ticket) => State::Running(ticket),
                        None => State::Over(Answer::Refused),
                    };
                    self.tickets.extend(ticket.map(|ticket| (ticket, client)));
                }
                if sequence == open.sequence
                    && let State::Over(answer) = &open.state
                {
                    let answer = answer.clone();
                    self.outbox
                        .push_back((from, ClientMessage::Answered { client, session, sequence, answer }));
                }
            }
            ClientMessage::Welcome { .. } | ClientMessage::Answered { .. } => return Err(Malformed::Kind),
        }
        Ok(())
    }

    /// A transaction has ended. Returns it if no client has called it.
    pub fn finish(&mut self, finished: Finished) -> Option<Finished> {
        let Some(client) = self.tickets.remove(&finished.ticket) else { return Some(finished) };
        let session = self.sessions.get_mut(&client)?;
        // The client may have timed out and called something else meanwhile.
        if matches!(session.state, State::Running(ticket) if ticket == finished.ticket) {
            let answer = Answer::Ended(finished.id, finished.outcome);
            session.state = State::Over(answer.clone());
            let (number, sequence) = (session.number, session.sequence);
            let message = ClientMessage::Answered { client, session: number, sequence, answer };
            self.outbox.push_back((session.address, message));
        }
        None
    }

    /// The next message to a client. Appends its content to `out`, and returns the client's address and the
    /// kind.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(A, u8)> {
        let (to, message) = self.outbox.pop_front()?;
        Some((to, message.encode(out) as u8))
    }

    /// Whether there is room for another session. Idle sessions are dropped if necessary.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.sessions.len() >= self.most {
            self.sessions.retain(|_, session| {
                matches!(session.state, State::Running(_)) || now.saturating_since(session.heard) < IDLE
            });
        }
        self.sessions.len() < self.most
    }
}

#[cfg(test)]
mod tests {
    use weft_waist::{Epoch, NodeId};

    use super::*;
    use crate::host::HalfParameters;
    use crate::procedure::{Accesses, ProcedureId, Procedures, Request};

    const SESSION: u64 = 17;

    struct Node {
        sessions: Sessions<u8>,
        half: Half,
        serves: bool,
        now: Instant,
    }

    impl Node {
        fn new(most: usize) -> Self {
            let half = Half::new(
                Procedures::new(Vec::new()),
                HalfParameters { calls: 4, ..Default::default() },
                None,
            );
            Self { sessions: Sessions::new(SESSION, most), half, serves: true, now: Instant::ZERO }
        }

        fn tell(&mut self, message: &ClientMessage) -> Vec<ClientMessage> {
            let mut bytes = Vec::new();
            let kind = message.encode(&mut bytes) as u8;
            self.sessions.receive(self.now, 1, (kind, &bytes), self.serves, &mut self.half).unwrap();
            self.said()
        }

        fn said(&mut self) -> Vec<ClientMessage> {
            let mut bytes = Vec::new();
            std::iter::from_fn(|| {
                bytes.clear();
                let (_, kind) = self.sessions.poll_transmit(&mut bytes)?;
                Some(ClientMessage::parse(kind, &bytes).unwrap())
            })
            .collect()
        }

        fn call(&mut self, client: u64, session: u64, sequence: u64) -> Vec<ClientMessage> {
            let request =
                Request { procedure: ProcedureId(0), input: Vec::new(), accesses: Accesses::default() };
            self.tell(&ClientMessage::Call { client, session, sequence, request })
        }

        fn begun(&mut self) -> usize {
            std::iter::from_fn(|| self.half.poll_card(&[])).count()
        }
    }

    fn finished(ticket: u64) -> Finished {
        let id = TransactionId::new(NodeId::new(0).unwrap(), Epoch(1), ticket);
        Finished { ticket, id, outcome: Outcome::Unanswered, attempts: 1 }
    }

    fn answered(client: u64, sequence: u64, answer: Answer) -> [ClientMessage; 1] {
        [ClientMessage::Answered { client, session: SESSION, sequence, answer }]
    }

    #[test]
    fn a_call_is_begun_once_and_answered_as_often_as_it_is_asked_for() {
        let mut node = Node::new(2);
        assert_eq!(
            node.tell(&ClientMessage::Hello { client: 5 }),
            [ClientMessage::Welcome { client: 5, session: SESSION }]
        );
        for _ in 0..3 {
            assert_eq!(node.call(5, SESSION, 1), []);
        }
        assert_eq!(node.begun(), 1);
        node.sessions.finish(finished(1));
        let expected = answered(5, 1, Answer::Ended(finished(1).id, Outcome::Unanswered));
        assert_eq!(node.said(), expected);
        assert_eq!(node.call(5, SESSION, 1), expected);
        // A late or repeated greeting does not reset the session.
        node.tell(&ClientMessage::Hello { client: 5 });
        assert_eq!(node.call(5, SESSION, 1), expected);
        assert_eq!(node.begun(), 0);
        assert_eq!(node.call(5, SESSION, 2), []);
        assert_eq!(node.call(5, SESSION, 1), [], "the client knows better");
        assert_eq!(node.begun(), 1);
    }

    #[test]
    fn a_client_that_has_given_up_is_not_answered() {
        let mut node = Node::new(1);
        node.tell(&ClientMessage::Hello { client: 5 });
        node.call(5, SESSION, 1);
        node.call(5, SESSION, 2);
        node.sessions.finish(finished(1));
        assert_eq!(node.said(), []);
        node.sessions.finish(finished(2));
        assert_eq!(node.said(), answered(5, 2, Answer::Ended(finished(2).id, Outcome::Unanswered)));
    }

    #[test]
    fn what_is_refused_stays_refused() {
        let mut node = Node::new(1);
        node.tell(&ClientMessage::Hello { client: 5 });
        node.serves = false;
        assert_eq!(node.call(5, SESSION, 1), answered(5, 1, Answer::Refused));
        node.serves = true;
        assert_eq!(node.call(5, SESSION, 1), answered(5, 1, Answer::Refused));
        assert_eq!(node.begun(), 0);
        assert_eq!(node.call(5, SESSION, 2), []);
    }

    #[test]
    fn another_life_does_not_know_what_the_former_has_done() {
        let mut node = Node::new(1);
        node.tell(&ClientMessage::Hello { client: 5 });
        for (client, session) in [(5, SESSION - 1), (6, SESSION)] {
            let said = node.call(client, session, 9);
            assert!(
                matches!(
                    &said[..],
                    [ClientMessage::Answered { answer: Answer::Ended(_, Outcome::Unknown), .. }]
                ),
                "{said:?}"
            );
        }
        assert_eq!(node.begun(), 0);
    }

    #[test]
    fn what_is_repeated_after_its_session_was_forgotten_is_not_begun_again() {
        let mut node = Node::new(1);
        node.tell(&ClientMessage::Hello { client: 5 });
        assert_eq!(node.call(5, SESSION, 1), []);
        assert_eq!(node.begun(), 1);
        node.sessions.finish(finished(1));
        node.said();
        node.now = Instant::ZERO + IDLE;
        assert_eq!(node.tell(&ClientMessage::Hello { client: 6 }).len(), 1);
        node.now = Instant::ZERO + IDLE * 2;
        // Both datagrams arrive again. The greeting opens a new session, whose incarnation is not the one
        // that the call names.
        let welcome = ClientMessage::Welcome { client: 5, session: SESSION + 2 };
        assert_eq!(node.tell(&ClientMessage::Hello { client: 5 }), [welcome]);
        assert!(matches!(
            node.call(5, SESSION, 1)[..],
            [ClientMessage::Answered { answer: Answer::Ended(_, Outcome::Unknown), .. }]
        ));
        assert_eq!(node.begun(), 0);
    }

    #[test]
    fn only_idle_sessions_make_room() {
        let mut node = Node::new(2);
        node.tell(&ClientMessage::Hello { client: 1 });
        node.tell(&ClientMessage::Hello { client: 2 });
        node.call(2, SESSION + 1, 1);
        assert_eq!(node.tell(&ClientMessage::Hello { client: 3 }), []);
        node.now = Instant::ZERO + IDLE;
        assert_eq!(node.tell(&ClientMessage::Hello { client: 3 }).len(), 1);
        assert_eq!(
            node.tell(&ClientMessage::Hello { client: 4 }),
            [],
            "a call is under way in one, the other is new"
        );
    }
}
