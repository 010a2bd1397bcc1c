//! A node's sessions of its clients: each call is begun at most once, however often it is requested.

use std::collections::{BTreeMap, VecDeque};

use weft_time::{Duration, Instant};

use super::message::{Answer, ClientMessage};
use crate::host::{Finished, Half};
use crate::message::Malformed;
use crate::procedure::Outcome;
use crate::transaction::TransactionId;

/// A session of which nothing was heard for so long may be forgotten: longer than a client repeats a call and any
/// datagram lives.
const IDLE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
enum State {
    /// Under way, with this ticket of the host half.
    Running(u64),
    /// Over.
    Over(Answer),
}

/// The latest call of a client.
#[derive(Debug)]
struct Session<A> {
    /// What its calls have to name: no other session had it, so a call that was meant for one that is forgotten, and
    /// arrives again after its greeting, is not begun.
    life: u64,
    address: A,
    heard: Instant,
    sequence: u64,
    state: State,
}

/// The sessions of a node, in one life of it. A client has one call under way at a time; its next one has a higher
/// sequence.
///
/// A node that was restarted has forgotten its sessions. It has another *life* then, and calls name the life that
/// they are for, so that one that the former life may have begun is not begun again: its outcome is unknown.
#[derive(Debug)]
pub struct Sessions<A> {
    /// That of the next session.
    next_life: u64,
    most: usize,
    sessions: BTreeMap<u64, Session<A>>,
    /// Client of each ticket.
    tickets: BTreeMap<u64, u64>,
    outbox: VecDeque<(A, ClientMessage)>,
}

impl<A: Copy> Sessions<A> {
    /// At most `most` sessions from this life on: a number that is higher than those of other processes of the node, as
    /// the wall clock's nanoseconds are. Each session takes the next one.
    pub fn new(life: u64, most: usize) -> Self {
        let (sessions, tickets) = (BTreeMap::new(), BTreeMap::new());
        Self { next_life: life, most, sessions, tickets, outbox: VecDeque::new() }
    }

    /// The life from which on nobody had a session here.
    pub const fn next_life(&self) -> u64 {
        self.next_life
    }

    /// Number of clients with a session, and the most there can be.
    pub fn count(&self) -> (usize, usize) {
        (self.sessions.len(), self.most)
    }

    /// Takes a message of a client. `serves`: whether the node takes part in the cluster now.
    ///
    /// # Errors
    /// If it is none that a client sends; nothing has changed then.
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
                // A client that finds no room gets no answer, and asks another node.
                if self.sessions.contains_key(&client) || self.make_room(now) {
                    let next_life = &mut self.next_life;
                    let session = self.sessions.entry(client).or_insert_with(|| Session {
                        life: std::mem::replace(next_life, *next_life + 1),
                        address: from,
                        heard: now,
                        sequence: 0,
                        state: State::Over(Answer::Refused),
                    });
                    (session.address, session.heard) = (from, now);
                    let life = session.life;
                    self.outbox.push_back((from, ClientMessage::Welcome { client, life }));
                }
            }
            ClientMessage::Call { client, life, sequence, request } => {
                let session = self.sessions.get_mut(&client).filter(|session| session.life == life);
                let Some(session) = session else {
                    let none = TransactionId::none(weft_waist::NodeId::new(0).expect("there is a node 0"));
                    let answer = Answer::Ended(none, Outcome::Unknown);
                    self.outbox.push_back((from, ClientMessage::Answered { client, life, sequence, answer }));
                    return Ok(());
                };
                (session.address, session.heard) = (from, now);
                if sequence > session.sequence {
                    session.sequence = sequence;
                    let ticket = if serves { half.call(request) } else { None };
                    session.state = match ticket {
                        Some(ticket) => State::Running(ticket),
                        None => State::Over(Answer::Refused),
                    };
                    self.tickets.extend(ticket.map(|ticket| (ticket, client)));
                }
                if sequence == session.sequence
                    && let State::Over(answer) = &session.state
                {
                    let answer = answer.clone();
                    self.outbox.push_back((from, ClientMessage::Answered { client, life, sequence, answer }));
                }
            }
            ClientMessage::Welcome { .. } | ClientMessage::Answered { .. } => return Err(Malformed::Kind),
        }
        Ok(())
    }

    /// A transaction has ended. Gives it back if it is no client's.
    pub fn finish(&mut self, finished: Finished) -> Option<Finished> {
        let Some(client) = self.tickets.remove(&finished.ticket) else { return Some(finished) };
        let session = self.sessions.get_mut(&client)?;
        // A client that has given up has called something else meanwhile.
        if matches!(session.state, State::Running(ticket) if ticket == finished.ticket) {
            let answer = Answer::Ended(finished.id, finished.outcome);
            session.state = State::Over(answer.clone());
            let (life, sequence) = (session.life, session.sequence);
            let message = ClientMessage::Answered { client, life, sequence, answer };
            self.outbox.push_back((session.address, message));
        }
        None
    }

    /// The next message to a client: appends its content to `out`, and tells to whom it goes and its kind.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(A, u8)> {
        let (to, message) = self.outbox.pop_front()?;
        Some((to, message.encode(out) as u8))
    }

    /// Whether there is room for another session, if need be in place of one that is idle.
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

    const LIFE: u64 = 17;

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
            Self { sessions: Sessions::new(LIFE, most), half, serves: true, now: Instant::ZERO }
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

        fn call(&mut self, client: u64, life: u64, sequence: u64) -> Vec<ClientMessage> {
            let request =
                Request { procedure: ProcedureId(0), input: Vec::new(), accesses: Accesses::default() };
            self.tell(&ClientMessage::Call { client, life, sequence, request })
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
        [ClientMessage::Answered { client, life: LIFE, sequence, answer }]
    }

    #[test]
    fn a_call_is_begun_once_and_answered_as_often_as_it_is_asked_for() {
        let mut node = Node::new(2);
        assert_eq!(
            node.tell(&ClientMessage::Hello { client: 5 }),
            [ClientMessage::Welcome { client: 5, life: LIFE }]
        );
        for _ in 0..3 {
            assert_eq!(node.call(5, LIFE, 1), []);
        }
        assert_eq!(node.begun(), 1);
        node.sessions.finish(finished(1));
        let expected = answered(5, 1, Answer::Ended(finished(1).id, Outcome::Unanswered));
        assert_eq!(node.said(), expected);
        assert_eq!(node.call(5, LIFE, 1), expected);
        // A greeting that comes late or again forgets nothing.
        node.tell(&ClientMessage::Hello { client: 5 });
        assert_eq!(node.call(5, LIFE, 1), expected);
        assert_eq!(node.begun(), 0);
        assert_eq!(node.call(5, LIFE, 2), []);
        assert_eq!(node.call(5, LIFE, 1), [], "the client knows better");
        assert_eq!(node.begun(), 1);
    }

    #[test]
    fn who_has_given_up_is_not_answered() {
        let mut node = Node::new(1);
        node.tell(&ClientMessage::Hello { client: 5 });
        node.call(5, LIFE, 1);
        node.call(5, LIFE, 2);
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
        assert_eq!(node.call(5, LIFE, 1), answered(5, 1, Answer::Refused));
        node.serves = true;
        assert_eq!(node.call(5, LIFE, 1), answered(5, 1, Answer::Refused));
        assert_eq!(node.begun(), 0);
        assert_eq!(node.call(5, LIFE, 2), []);
    }

    #[test]
    fn another_life_does_not_know_what_the_former_has_done() {
        let mut node = Node::new(1);
        node.tell(&ClientMessage::Hello { client: 5 });
        for (client, life) in [(5, LIFE - 1), (6, LIFE)] {
            let said = node.call(client, life, 9);
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
        assert_eq!(node.call(5, LIFE, 1), []);
        assert_eq!(node.begun(), 1);
        node.sessions.finish(finished(1));
        node.said();
        node.now = Instant::ZERO + IDLE;
        assert_eq!(node.tell(&ClientMessage::Hello { client: 6 }).len(), 1);
        node.now = Instant::ZERO + IDLE * 2;
        // Both datagrams come again: the greeting opens another session than the call names.
        let welcome = ClientMessage::Welcome { client: 5, life: LIFE + 2 };
        assert_eq!(node.tell(&ClientMessage::Hello { client: 5 }), [welcome]);
        assert!(matches!(
            node.call(5, LIFE, 1)[..],
            [ClientMessage::Answered { answer: Answer::Ended(_, Outcome::Unknown), .. }]
        ));
        assert_eq!(node.begun(), 0);
    }

    #[test]
    fn only_idle_sessions_make_room() {
        let mut node = Node::new(2);
        node.tell(&ClientMessage::Hello { client: 1 });
        node.tell(&ClientMessage::Hello { client: 2 });
        node.call(2, LIFE + 1, 1);
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
