//! The node's half: each call reaches the engine at most once, however often it arrives.

use std::collections::{BTreeMap, VecDeque};

use weft_time::Instant;

use crate::IDLE;
use crate::message::{Body, Malformed, Message, Status};
use crate::window::{Seen, Window};

/// This bit is set in the tokens of clients' calls; a host's own calls have tokens without it.
pub const TOKENS: u32 = 1 << 31;

#[derive(Clone, Debug)]
enum Record {
    /// The engine is executing the call.
    Running,
    /// The call has ended, with this status, kind of answer, and answer.
    Over(Status, u8, Vec<u8>),
}

#[derive(Debug)]
struct Session<A> {
    /// Number of the session, which its calls must contain. No other session has it. So if the session is dropped
    /// and a late copy of its Hello opens another one, a late copy of a call is not executed.
    number: u64,
    address: A,
    received: Instant,
    calls: Window<Record>,
    running: usize,
}

/// A call that the host must pass to the engine with this token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin<'a> {
    /// Token to pass to [`Sessions::finish`].
    pub token: u32,
    /// Kind and content of the call.
    pub body: Body<'a>,
}

#[derive(Debug)]
enum Letter {
    Welcome { client: u64, session: u64 },
    Answered { client: u64, session: u64, sequence: u64, status: Status, kind: u8, bytes: Vec<u8> },
}

/// The sessions of one incarnation of a node. `A` is the type of a client's address.
#[derive(Debug)]
pub struct Sessions<A> {
    /// Number of the next session that is opened.
    next_session: u64,
    most: usize,
    /// The kinds of calls that clients may make.
    admitted: &'static [u8],
    sessions: BTreeMap<u64, Session<A>>,
    /// By token: the client, and the sequence number of the call.
    running: BTreeMap<u32, (u64, u64)>,
    next_token: u32,
    outbox: VecDeque<(A, Letter)>,
}

impl<A: Copy> Sessions<A> {
    /// Sessions for at most `most` clients, each with [`crate::WINDOW`] answers. `first` is the number of the first
    /// session, and must be higher than those of any former process of the node, such as the wall clock's
    /// nanoseconds; each further session takes the next number. Calls of kinds that are not in `admitted` are
    /// answered as not begun, because the engine takes all calls from here for calls of its host.
    pub fn new(first: u64, most: usize, admitted: &'static [u8]) -> Self {
        Self {
            next_session: first,
            most,
            admitted,
            sessions: BTreeMap::new(),
            running: BTreeMap::new(),
            next_token: 0,
            outbox: VecDeque::new(),
        }
    }

    /// Processes a message of a client. `serves` says whether the node takes part in the cluster now. The returned
    /// call, if any, must be passed to the engine before the next message is processed; its outcome must be passed
    /// to [`Sessions::finish`].
    ///
    /// # Errors
    /// No client sends such a message. Nothing has changed then.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        from: A,
        (kind, payload): (u8, &'a [u8]),
        serves: bool,
    ) -> Result<Option<Begin<'a>>, Malformed> {
        match Message::parse(kind, payload)? {
            Message::Hello { client } => {
                // If there is no room for a session, the client gets no answer, and tries another node.
                if self.sessions.contains_key(&client) || self.make_room(now) {
                    let next_session = &mut self.next_session;
                    let session = self.sessions.entry(client).or_insert_with(|| Session {
                        number: std::mem::replace(next_session, *next_session + 1),
                        address: from,
                        received: now,
                        calls: Window::default(),
                        running: 0,
                    });
                    (session.address, session.received) = (from, now);
                    let session = session.number;
                    self.outbox.push_back((from, Letter::Welcome { client, session }));
                }
                Ok(None)
            }
            Message::Call { client, session, sequence, body } => {
                Ok(self.call(now, from, (client, session, sequence), body, serves))
            }
            Message::Welcome { .. } | Message::Answered { .. } => Err(Malformed::Kind(kind)),
        }
    }

    fn call<'a>(
        &mut self,
        now: Instant,
        from: A,
        (client, session, sequence): (u64, u64, u64),
        body: Body<'a>,
        serves: bool,
    ) -> Option<Begin<'a>> {
        let answered =
            |status, kind, bytes| Letter::Answered { client, session, sequence, status, kind, bytes };
        let Some(open) = self.sessions.get_mut(&client).filter(|open| open.number == session) else {
            self.outbox.push_back((from, answered(Status::Unknown, 0, Vec::new())));
            return None;
        };
        (open.address, open.received) = (from, now);
        match open.calls.find(sequence) {
            Seen::Same(Record::Over(status, kind, bytes)) => {
                self.outbox.push_back((from, answered(*status, *kind, bytes.clone())));
                None
            }
            // A call in execution is answered when it ends; the client no longer waits for an old one.
            Seen::Same(Record::Running) | Seen::Old => None,
            Seen::New if !serves || !self.admitted.contains(&body.kind) => {
                open.calls.record(sequence, Record::Over(Status::NotBegun, 0, Vec::new()));
                self.outbox.push_back((from, answered(Status::NotBegun, 0, Vec::new())));
                None
            }
            Seen::New => {
                while self.running.contains_key(&(TOKENS | self.next_token)) {
                    self.next_token = (self.next_token + 1) & !TOKENS;
                }
                let token = TOKENS | self.next_token;
                self.next_token = (self.next_token + 1) & !TOKENS;
                open.calls.record(sequence, Record::Running);
                open.running += 1;
                self.running.insert(token, (client, sequence));
                Some(Begin { token, body })
            }
        }
    }

    /// The number of the next session, which no session has had.
    pub const fn next_session(&self) -> u64 {
        self.next_session
    }

    /// Number of clients with a session, and the most there can be.
    pub fn count(&self) -> (usize, usize) {
        (self.sessions.len(), self.most)
    }

    /// Number of calls that the engine has not answered.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Ends the call with this token: with the engine's answer, or with `None` if the engine did not execute it
    /// and never will. Does nothing if no call has this token.
    pub fn finish(&mut self, token: u32, answer: Option<Body<'_>>) {
        let Some((client, sequence)) = self.running.remove(&token) else { return };
        let Some(open) = self.sessions.get_mut(&client) else { return };
        open.running -= 1;
        // If the client has stopped waiting for the call, a later call may have taken its slot.
        let Some(record) = open.calls.get_mut(sequence) else { return };
        let (status, body) = answer.map_or((Status::NotBegun, Body::NONE), |body| (Status::Answer, body));
        *record = Record::Over(status, body.kind, body.bytes.to_vec());
        let (session, kind, bytes) = (open.number, body.kind, body.bytes.to_vec());
        self.outbox
            .push_back((open.address, Letter::Answered { client, session, sequence, status, kind, bytes }));
    }

    /// The next message to a client: appends its content to `out`, and returns (address, kind).
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(A, u8)> {
        let (to, letter) = self.outbox.pop_front()?;
        let message = match &letter {
            Letter::Welcome { client, session } => Message::Welcome { client: *client, session: *session },
            Letter::Answered { client, session, sequence, status, kind, bytes } => Message::Answered {
                client: *client,
                session: *session,
                sequence: *sequence,
                status: *status,
                body: Body { kind: *kind, bytes },
            },
        };
        Some((to, message.encode(out) as u8))
    }

    /// Whether there is room for another session; if necessary, drops sessions that are idle.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.sessions.len() >= self.most {
            self.sessions
                .retain(|_, session| session.running > 0 || now.saturating_since(session.received) < IDLE);
        }
        self.sessions.len() < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: u64 = 17;
    const ASKED: Body<'static> = Body { kind: 32, bytes: b"ask" };
    const ANSWER: Body<'static> = Body { kind: 40, bytes: b"answer" };

    struct Node {
        sessions: Sessions<u8>,
        serves: bool,
        now: Instant,
        begun: Vec<u32>,
    }

    impl Node {
        fn new(most: usize) -> Self {
            let sessions = Sessions::new(SESSION, most, &[ASKED.kind]);
            Self { sessions, serves: true, now: Instant::ZERO, begun: Vec::new() }
        }

        fn tell(&mut self, message: &Message<'_>) -> Vec<(Status, Vec<u8>)> {
            let mut bytes = Vec::new();
            let kind = message.encode(&mut bytes) as u8;
            let begin = self.sessions.receive(self.now, 1, (kind, &bytes), self.serves).unwrap();
            self.begun.extend(begin.map(|begin| {
                assert_eq!(begin.body, ASKED);
                begin.token
            }));
            self.said()
        }

        fn said(&mut self) -> Vec<(Status, Vec<u8>)> {
            let mut bytes = Vec::new();
            let mut all = Vec::new();
            while let Some((_, kind)) = self.sessions.poll_transmit(&mut bytes) {
                if let Message::Answered { status, body, .. } = Message::parse(kind, &bytes).unwrap() {
                    all.push((status, body.bytes.to_vec()));
                } else {
                    all.push((Status::NotBegun, b"welcome".to_vec()));
                }
                bytes.clear();
            }
            all
        }

        fn hello(&mut self, client: u64) -> bool {
            !self.tell(&Message::Hello { client }).is_empty()
        }

        fn call(&mut self, client: u64, session: u64, sequence: u64) -> Vec<(Status, Vec<u8>)> {
            self.tell(&Message::Call { client, session, sequence, body: ASKED })
        }
    }

    fn answered() -> Vec<(Status, Vec<u8>)> {
        vec![(Status::Answer, b"answer".to_vec())]
    }

    #[test]
    fn a_call_is_begun_once_and_answered_as_often_as_it_is_asked_for() {
        let mut node = Node::new(2);
        assert!(node.hello(5));
        for _ in 0..3 {
            assert_eq!(node.call(5, SESSION, 1), []);
        }
        let [token] = node.begun[..] else { panic!("{:?}", node.begun) };
        assert_eq!(node.sessions.running(), 1);
        node.sessions.finish(token, Some(ANSWER));
        assert_eq!(node.said(), answered());
        assert_eq!(node.call(5, SESSION, 1), answered());
        // A late or duplicate Hello does not drop the session, and an engine's answer counts once.
        assert!(node.hello(5));
        node.sessions.finish(token, None);
        assert_eq!(node.call(5, SESSION, 1), answered());
        assert_eq!((node.begun.len(), node.sessions.running()), (1, 0));
    }

    #[test]
    fn a_window_of_calls_is_under_way_at_a_time() {
        let mut node = Node::new(1);
        node.hello(5);
        for sequence in (1..=16).rev() {
            assert_eq!(node.call(5, SESSION, sequence), []);
        }
        assert_eq!(node.begun.len(), 16);
        // Call number 17 shows that the client no longer waits for number 1.
        assert_eq!(node.call(5, SESSION, 17), []);
        assert_eq!(node.call(5, SESSION, 1), []);
        assert_eq!(node.begun.len(), 17);
        let [first, last] = [node.begun[15], node.begun[16]];
        node.sessions.finish(first, Some(ANSWER));
        assert_eq!(node.said(), []);
        node.sessions.finish(last, Some(ANSWER));
        assert_eq!(node.said(), answered());
    }

    #[test]
    fn what_was_not_begun_stays_so() {
        let mut node = Node::new(1);
        node.hello(5);
        node.serves = false;
        let not_begun = [(Status::NotBegun, Vec::new())];
        assert_eq!(node.call(5, SESSION, 1), not_begun);
        node.serves = true;
        assert_eq!(node.call(5, SESSION, 1), not_begun);
        assert_eq!(node.call(5, SESSION, 2), []);
        let token = node.begun[0];
        node.sessions.finish(token, None);
        assert_eq!(node.said(), not_begun);
        assert_eq!((node.call(5, SESSION, 2), node.begun.len()), (not_begun.to_vec(), 1));
    }

    #[test]
    fn what_clients_may_not_call_is_not_begun() {
        let mut node = Node::new(1);
        node.hello(5);
        let body = Body { kind: 16, bytes: b"start" };
        let said = node.tell(&Message::Call { client: 5, session: SESSION, sequence: 1, body });
        assert_eq!((said, node.begun.len()), (vec![(Status::NotBegun, Vec::new())], 0));
    }

    #[test]
    fn another_session_does_not_know_what_the_former_has_done() {
        let mut node = Node::new(1);
        node.hello(5);
        for (client, session) in [(5, SESSION - 1), (6, SESSION)] {
            assert_eq!(node.call(client, session, 9), [(Status::Unknown, Vec::new())]);
        }
        assert!(node.begun.is_empty());
    }

    #[test]
    fn what_is_repeated_after_its_session_was_forgotten_is_not_begun_again() {
        let mut node = Node::new(1);
        assert!(node.hello(5));
        assert_eq!(node.call(5, SESSION, 1), []);
        node.sessions.finish(node.begun[0], Some(ANSWER));
        assert_eq!(node.said(), answered());
        node.now = Instant::ZERO + IDLE;
        assert!(node.hello(6));
        node.now = Instant::ZERO + IDLE * 2;
        // Late copies of both datagrams arrive: the Hello opens another session than the one that the call names.
        assert!(node.hello(5));
        assert_eq!(node.call(5, SESSION, 1), [(Status::Unknown, Vec::new())]);
        assert_eq!(node.begun.len(), 1);
        assert_eq!(node.call(5, SESSION + 2, 1), []);
        assert_eq!(node.begun.len(), 2);
    }

    #[test]
    fn only_idle_sessions_make_room() {
        let mut node = Node::new(2);
        assert!(node.hello(1) && node.hello(2));
        node.call(2, SESSION + 1, 1);
        assert!(!node.hello(3));
        node.now = Instant::ZERO + IDLE;
        assert!(node.hello(3));
        assert!(!node.hello(4), "a call is under way in one, the other is new");
        node.sessions.finish(node.begun[0], Some(ANSWER));
        assert!(node.hello(4));
    }
}
