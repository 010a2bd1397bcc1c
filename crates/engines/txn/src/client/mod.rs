//! The client half: it calls transactions at the nodes of a cluster, each at most once.
//!
//! A [`Client`] has one call under way at a time. It first greets a node, which answers with the number of
//! the session (`session`). Then it sends the call, and repeats it until the node answers or the
//! call times out. A node that does not answer a greeting, or that refuses, has begun nothing, so the client
//! turns to the next node. A node that was called and no longer answers may have begun the transaction. Then
//! the client turns to no other node, and the outcome is [`Outcome::Unknown`].
//!
//! [`Sessions`] is the node's side of this protocol.

mod message;
mod pool;
mod sessions;

pub use message::{Answer, ClientKind, ClientMessage};
pub use pool::Pool;
pub use sessions::Sessions;

use weft_time::{Duration, Instant};

use crate::procedure::{Outcome, Request};
use crate::transaction::TransactionId;

/// Unanswered greetings after which the client turns to the next node.
const GREETINGS: u32 = 3;

/// Parameters of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientParameters {
    /// A number that is unique among all clients.
    pub identity: u64,
    /// Nodes of the cluster, at least 1.
    pub nodes: usize,
    /// The node that the client turns to first.
    pub first: usize,
    /// Time until an unanswered request is repeated.
    pub repeat: Duration,
    /// Pause before the client turns to the next node, after one has refused.
    pub pause: Duration,
    /// Time after which a call times out, from its start. At most 20 s, because nodes keep a session for 60
    /// s.
    pub give_up: Duration,
}

impl ClientParameters {
    /// Default times, for a network within a building.
    pub const fn new(identity: u64, nodes: usize) -> Self {
        Self {
            identity,
            nodes,
            first: 0,
            repeat: Duration::from_ms(50),
            pause: Duration::from_ms(5),
            give_up: Duration::from_secs(5),
        }
    }
}

/// Outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The outcome that a node reported, or [`Outcome::Unknown`] if no node answered. With the identifier of
    /// the transaction's last attempt, if a node has reported it.
    Outcome(Option<TransactionId>, Outcome),
    /// No node accepted the call: it was not begun and never will be.
    NotBegun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Greetings that the client has sent to this node.
    Greeting(u32),
    /// The client has called the node, in the session with this incarnation number.
    Called(u64),
    /// The client pauses, because a node has refused.
    Pausing,
}

#[derive(Debug)]
struct Open {
    request: Request,
    stage: Stage,
    /// A message is to be sent.
    due: bool,
    /// Deadline of the stage.
    at: Instant,
    give_up_at: Instant,
}

/// A client. It is pure: its driver passes in messages and the time.
#[derive(Debug)]
pub struct Client {
    parameters: ClientParameters,
    /// The node that the client turns to at present.
    node: usize,
    /// Incarnation number of the session at that node, once the node has sent it.
    session: Option<u64>,
    sequence: u64,
    open: Option<Open>,
}

impl Client {
    /// A client without a session or a call.
    ///
    /// # Panics
    /// If there is no node.
    pub fn new(parameters: ClientParameters) -> Self {
        assert!(parameters.first < parameters.nodes, "a client asks one of the nodes");
        Self { parameters, node: parameters.first, session: None, sequence: 0, open: None }
    }

    /// Whether a call is under way.
    pub const fn is_busy(&self) -> bool {
        self.open.is_some()
    }

    /// Starts a call.
    ///
    /// # Panics
    /// If a call is under way.
    pub fn start(&mut self, now: Instant, request: Request) {
        assert!(self.open.is_none(), "a client has one call under way at a time");
        let give_up_at = now + self.parameters.give_up;
        self.open = Some(Open { request, stage: Stage::Pausing, due: false, at: now, give_up_at });
        self.ask(now);
    }

    /// Sends the call to the node, or a greeting if the client has no session there.
    fn ask(&mut self, now: Instant) {
        let open = self.open.as_mut().expect("a call is under way");
        open.stage = match self.session {
            Some(session) => {
                self.sequence += 1;
                Stage::Called(session)
            }
            None => Stage::Greeting(1),
        };
        (open.due, open.at) = (true, now + self.parameters.repeat);
    }

    fn go_to_next_node(&mut self) {
        self.node = (self.node + 1) % self.parameters.nodes;
        self.session = None;
    }

    /// Handles a message from `node`, and returns how the call has ended, if it has. Messages of other calls
    /// and from other nodes are ignored.
    pub fn receive(&mut self, now: Instant, node: usize, kind: u8, payload: &[u8]) -> Option<Ended> {
        let message = ClientMessage::parse(kind, payload).ok()?;
        let open = self.open.as_mut().filter(|_| node == self.node)?;
        match message {
            ClientMessage::Welcome { client, session } if client == self.parameters.identity => {
                if matches!(open.stage, Stage::Greeting(_)) {
                    self.session = Some(session);
                    self.ask(now);
                }
                None
            }
            ClientMessage::Answered { client, session, sequence, answer }
                if client == self.parameters.identity
                    && open.stage == Stage::Called(session)
                    && sequence == self.sequence =>
            {
                match answer {
                    Answer::Ended(id, outcome) => {
                        self.open = None;
                        let id = (outcome != Outcome::Unknown).then_some(id);
                        if id.is_none() {
                            self.session = None;
                        }
                        Some(Ended::Outcome(id, outcome))
                    }
                    Answer::Refused => {
                        (open.stage, open.at) = (Stage::Pausing, now + self.parameters.pause);
                        self.go_to_next_node();
                        None
                    }
                }
            }
            _ => None,
        }
    }

    /// When [`Client::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.at.min(open.give_up_at))
    }

    /// Handles expired deadlines, and returns the outcome of the call if it has ended.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<Ended> {
        let open = self.open.as_mut()?;
        if now >= open.give_up_at {
            let ended = match open.stage {
                Stage::Called(_) => Ended::Outcome(None, Outcome::Unknown),
                Stage::Greeting(_) | Stage::Pausing => Ended::NotBegun,
            };
            self.open = None;
            self.go_to_next_node();
            return Some(ended);
        }
        if now < open.at {
            return None;
        }
        match open.stage {
            Stage::Pausing => self.ask(now),
            Stage::Greeting(GREETINGS) => {
                self.go_to_next_node();
                self.ask(now);
            }
            Stage::Greeting(greetings) => {
                open.stage = Stage::Greeting(greetings + 1);
                (open.due, open.at) = (true, now + self.parameters.repeat);
            }
            Stage::Called(_) => (open.due, open.at) = (true, now + self.parameters.repeat),
        }
        None
    }

    /// The next message to send. Appends its content to `out`, and returns the receiving node and the kind.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        let open = self.open.as_mut().filter(|open| open.due)?;
        open.due = false;
        let client = self.parameters.identity;
        let message = match open.stage {
            Stage::Called(session) => ClientMessage::Call {
                client,
                session,
                sequence: self.sequence,
                request: open.request.clone(),
            },
            Stage::Greeting(_) | Stage::Pausing => ClientMessage::Hello { client },
        };
        Some((self.node, message.encode(out) as u8))
    }
}

#[cfg(test)]
mod tests {
    use weft_waist::{Epoch, NodeId};

    use super::*;
    use crate::procedure::{Accesses, ProcedureId};

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn client() -> Client {
        let mut client = Client::new(ClientParameters::new(9, 3));
        let accesses = Accesses::default();
        client.start(at(0), Request { procedure: ProcedureId(1), input: vec![7], accesses });
        client
    }

    fn says(client: &mut Client) -> Option<(usize, ClientMessage)> {
        let mut bytes = Vec::new();
        let (node, kind) = client.poll_transmit(&mut bytes)?;
        Some((node, ClientMessage::parse(kind, &bytes).unwrap()))
    }

    fn hears(client: &mut Client, ms: u64, node: usize, message: &ClientMessage) -> Option<Ended> {
        let mut bytes = Vec::new();
        let kind = message.encode(&mut bytes);
        client.receive(at(ms), node, kind as u8, &bytes)
    }

    fn welcome(session: u64) -> ClientMessage {
        ClientMessage::Welcome { client: 9, session }
    }

    fn answered(session: u64, sequence: u64, answer: Answer) -> ClientMessage {
        ClientMessage::Answered { client: 9, session, sequence, answer }
    }

    fn id() -> TransactionId {
        TransactionId::new(NodeId::new(0).unwrap(), Epoch(1), 4)
    }

    #[test]
    fn a_call_is_repeated_at_its_node_until_it_is_answered() {
        let mut client = client();
        assert_eq!(says(&mut client), Some((0, ClientMessage::Hello { client: 9 })));
        assert_eq!(says(&mut client), None);
        assert_eq!(hears(&mut client, 1, 0, &welcome(5)), None);
        for repetition in 1..4 {
            let (node, message) = says(&mut client).unwrap();
            assert_eq!(node, 0);
            assert!(matches!(message, ClientMessage::Call { session: 5, sequence: 1, .. }), "{message:?}");
            let due = client.next_deadline().unwrap();
            assert_eq!(due, at(1) + Duration::from_ms(50) * repetition);
            assert_eq!(client.handle_deadline(due), None);
        }
        let outcome = Outcome::Committed { answer: vec![3] };
        let answer = answered(5, 1, Answer::Ended(id(), outcome.clone()));
        assert_eq!(hears(&mut client, 160, 1, &answer), None, "another node was not asked");
        assert_eq!(hears(&mut client, 160, 0, &answered(4, 1, Answer::Refused)), None, "another session");
        assert_eq!(hears(&mut client, 160, 0, &answered(5, 2, Answer::Refused)), None, "another call");
        assert_eq!(hears(&mut client, 160, 0, &answer), Some(Ended::Outcome(Some(id()), outcome)));
        assert_eq!(hears(&mut client, 161, 0, &answer), None);
        assert!(!client.is_busy() && client.next_deadline().is_none());
    }

    #[test]
    fn a_client_leaves_a_node_that_does_not_greet_or_refuses() {
        let mut client = client();
        for _ in 0..3 {
            assert_eq!(says(&mut client).unwrap().0, 0);
            assert_eq!(client.handle_deadline(client.next_deadline().unwrap()), None);
        }
        assert_eq!(says(&mut client), Some((1, ClientMessage::Hello { client: 9 })));
        hears(&mut client, 160, 1, &welcome(6));
        assert!(matches!(says(&mut client), Some((1, ClientMessage::Call { sequence: 1, .. }))));
        assert_eq!(hears(&mut client, 161, 1, &answered(6, 1, Answer::Refused)), None);
        assert_eq!(says(&mut client), None);
        assert_eq!(client.next_deadline(), Some(at(166)));
        client.handle_deadline(at(166));
        assert_eq!(says(&mut client), Some((2, ClientMessage::Hello { client: 9 })));
        assert_eq!(client.handle_deadline(at(5_000)), Some(Ended::NotBegun));
    }

    #[test]
    fn a_silent_node_leaves_the_outcome_unknown() {
        let mut client = client();
        hears(&mut client, 1, 0, &welcome(5));
        says(&mut client);
        assert_eq!(client.handle_deadline(at(5_000)), Some(Ended::Outcome(None, Outcome::Unknown)));
        let request = Request { procedure: ProcedureId(1), input: Vec::new(), accesses: Accesses::default() };
        client.start(at(5_001), request);
        assert_eq!(says(&mut client), Some((1, ClientMessage::Hello { client: 9 })));
        hears(&mut client, 5_002, 1, &welcome(5));
        says(&mut client);
        let unknown = answered(5, 2, Answer::Ended(id(), Outcome::Unknown));
        assert_eq!(hears(&mut client, 5_003, 1, &unknown), Some(Ended::Outcome(None, Outcome::Unknown)));
    }
}
