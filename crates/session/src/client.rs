//! The client's half: it numbers calls and repeats them until they are answered or reach their time-out.

use weft_time::{Duration, Instant};

use crate::message::{Body, Malformed, Message, Status};
use crate::window::WINDOW;
use crate::{GIVE_UP_MAX, IDLE};

/// Number of unanswered Hello messages after which another node is tried.
const GREETINGS: u32 = 3;

/// Parameters of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientParameters {
    /// Identity of the client: a number that no other client has, past or present.
    pub identity: u64,
    /// Number of nodes of the cluster, at least 1.
    pub nodes: usize,
    /// The node to call first.
    pub first: usize,
    /// Time after which an unanswered message is repeated; it doubles each time, up to eight times.
    pub repeat: Duration,
    /// Pause after a node has refused a call; it doubles in the same way.
    pub pause: Duration,
    /// Time after its start at which an unanswered call ends: at most [`GIVE_UP_MAX`].
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
            pause: Duration::from_ms(2),
            give_up: Duration::from_secs(5),
        }
    }
}

/// The client's number for a call, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended<'a> {
    /// The engine's answer.
    Answer(Body<'a>),
    /// The call was not begun and never will be.
    NotBegun,
    /// Unknown: the call was executed at most once, and may still be.
    Unknown,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The call that has ended, as numbered by the client.
    pub call: CallId,
    /// The node to which the call was sent last.
    pub node: usize,
    /// How the call has ended.
    pub ended: Ended<'a>,
}

/// What an engine's answer means for its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The answer ends the call.
    Final,
    /// The engine did nothing: the same node is called again after a pause.
    Later,
    /// The engine did nothing: the next node is called after a pause, unless the call is for this node only.
    Elsewhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Number of Hello messages sent to the node.
    Greeting(u32),
    /// The call was sent to the node.
    Called { session: u64, sequence: u64 },
    /// The client waits before it tries again.
    Pausing,
}

#[derive(Clone, Debug)]
struct Open {
    id: CallId,
    kind: u8,
    bytes: Vec<u8>,
    node: usize,
    /// Whether the call is for this node only.
    pinned: bool,
    /// Whether the call may be executed twice without harm.
    repeatable: bool,
    stage: Stage,
    /// Whether there is something to send.
    due: bool,
    /// Number of repetitions in this stage, and of pauses so far.
    repeated: u32,
    paused: u32,
    /// Deadline of the current stage.
    at: Instant,
    give_up_at: Instant,
}

/// What a client has recorded about a node.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The session's number at the node, from its Welcome message.
    session: Option<u64>,
    /// The highest session number that the node has sent: a message with a lower one arrives late.
    latest: u64,
    /// The last sequence number used at the node.
    sequence: u64,
    /// When the last valid message arrived.
    received: Instant,
}

/// A client, with at most [`WINDOW`] calls outstanding. It is pure: its driver passes messages and time in.
///
/// After each call of any other method, call [`Client::poll_transmit`] until it returns `None`: the method may
/// have queued messages.
#[derive(Clone, Debug)]
pub struct Client {
    parameters: ClientParameters,
    nodes: Vec<Node>,
    /// The node to use for the next call.
    node: usize,
    last: u64,
    open: Vec<Open>,
}

fn doubled(time: Duration, times: u32) -> Duration {
    time * (1 << times.min(3))
}

impl Client {
    /// A client without calls.
    ///
    /// # Panics
    /// If there is no node, `first` is not the index of a node, or `give_up` is longer than [`GIVE_UP_MAX`].
    pub fn new(parameters: ClientParameters) -> Self {
        assert!(parameters.first < parameters.nodes, "a client asks one of the nodes");
        assert!(parameters.give_up <= GIVE_UP_MAX, "nodes forget a session after a while");
        Self {
            parameters,
            nodes: vec![Node::default(); parameters.nodes],
            node: parameters.first,
            last: 0,
            open: Vec::with_capacity(WINDOW as usize),
        }
    }

    /// Number of outstanding calls.
    pub fn outstanding(&self) -> usize {
        self.open.len()
    }

    /// Whether [`Client::start`] accepts another call.
    pub fn can_start(&self) -> bool {
        self.open.len() < WINDOW as usize
    }

    /// Starts a call, at `node` only if one is given. Returns `None` if [`WINDOW`] calls are outstanding.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn start(&mut self, now: Instant, node: Option<usize>, body: Body<'_>) -> Option<CallId> {
        self.begin(now, node, body, false)
    }

    /// Starts a call that changes nothing, as [`Client::start`] does. If it is unknown whether it was executed, it
    /// is started again.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn start_repeatable(&mut self, now: Instant, node: Option<usize>, body: Body<'_>) -> Option<CallId> {
        self.begin(now, node, body, true)
    }

    fn begin(
        &mut self,
        now: Instant,
        node: Option<usize>,
        body: Body<'_>,
        repeatable: bool,
    ) -> Option<CallId> {
        assert!(node.is_none_or(|node| node < self.nodes.len()), "a call is for one of the nodes");
        if !self.can_start() {
            return None;
        }
        self.last += 1;
        let id = CallId(self.last);
        self.open.push(Open {
            id,
            kind: body.kind,
            bytes: body.bytes.to_vec(),
            node: node.unwrap_or(self.node),
            pinned: node.is_some(),
            repeatable,
            stage: Stage::Pausing,
            due: false,
            repeated: 0,
            paused: 0,
            at: now,
            give_up_at: now + self.parameters.give_up,
        });
        self.ask(now, self.open.len() - 1);
        Some(id)
    }

    /// Sends the call to the node, after a Hello message if there is no session.
    fn ask(&mut self, now: Instant, index: usize) {
        let (at, next) = (self.open[index].node, self.nodes[self.open[index].node].sequence + 1);
        let is_taken = self.open.iter().any(|open| {
            matches!(open.stage, Stage::Called { sequence, .. }
                if open.node == at && sequence % WINDOW == next % WINDOW)
        });
        let (node, open) = (&mut self.nodes[at], &mut self.open[index]);
        if now.saturating_since(node.received) >= IDLE / 2 {
            // The node may have dropped this client's session.
            node.session = None;
        }
        open.repeated = 0;
        open.stage = match node.session {
            Some(_) if is_taken => {
                open.at = now + self.parameters.pause;
                open.stage = Stage::Pausing;
                return;
            }
            Some(session) => {
                node.sequence = next;
                Stage::Called { session, sequence: next }
            }
            None => Stage::Greeting(1),
        };
        (open.due, open.at) = (true, now + self.parameters.repeat);
    }

    /// Handles that a node has refused a call, or does not answer Hello messages: pauses, then tries the same node
    /// or the next.
    fn leave(&mut self, now: Instant, index: usize, goes_on: bool) {
        let (open, nodes) = (&mut self.open[index], self.nodes.len());
        let pause = doubled(self.parameters.pause, open.paused);
        (open.stage, open.due, open.at) = (Stage::Pausing, false, now + pause);
        open.paused += 1;
        if goes_on && !open.pinned {
            if self.node == open.node {
                self.node = (open.node + 1) % nodes;
            }
            open.node = (open.node + 1) % nodes;
        }
    }

    /// Processes a message from `node`. `judge` gets an engine's answer and returns what it means. Returns `None`
    /// if no call has ended. Messages that are not for this client are ignored.
    ///
    /// # Errors
    /// The bytes are no valid message.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        node: usize,
        (kind, payload): (u8, &'a [u8]),
        judge: impl FnOnce(Body<'a>) -> Verdict,
    ) -> Result<Option<Completion<'a>>, Malformed> {
        match Message::parse(kind, payload)? {
            Message::Hello { .. } | Message::Call { .. } => Err(Malformed::Kind(kind)),
            Message::Welcome { client, session } => {
                if client == self.parameters.identity {
                    self.welcomed(now, node, session);
                }
                Ok(None)
            }
            Message::Answered { client, session, sequence, status, body } => {
                let called = Stage::Called { session, sequence };
                let is_it = |open: &Open| open.node == node && open.stage == called;
                let Some(index) = self.open.iter().position(is_it) else { return Ok(None) };
                if client != self.parameters.identity {
                    return Ok(None);
                }
                self.nodes[node].received = now;
                let verdict = match status {
                    Status::Answer => judge(body),
                    Status::NotBegun => Verdict::Elsewhere,
                    Status::Unknown => {
                        self.nodes[node].session = None;
                        if self.open[index].repeatable {
                            self.leave(now, index, false);
                            return Ok(None);
                        }
                        return Ok(Some(self.end(index, Ended::Unknown)));
                    }
                };
                if verdict == Verdict::Final {
                    return Ok(Some(self.end(index, Ended::Answer(body))));
                }
                self.leave(now, index, verdict == Verdict::Elsewhere);
                Ok(None)
            }
        }
    }

    fn welcomed(&mut self, now: Instant, node: usize, session: u64) {
        let greeting = |open: &Open| open.node == node && matches!(open.stage, Stage::Greeting(_));
        let Some(known) = self.nodes.get_mut(node).filter(|known| session >= known.latest) else { return };
        if self.open.iter().any(greeting) {
            (known.session, known.latest, known.received) = (Some(session), session, now);
            for index in 0..self.open.len() {
                if greeting(&self.open[index]) {
                    self.ask(now, index);
                }
            }
        }
    }

    fn end<'a>(&mut self, index: usize, ended: Ended<'a>) -> Completion<'a> {
        let open = self.open.swap_remove(index);
        Completion { call: open.id, node: open.node, ended }
    }

    /// When [`Client::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.open.iter().map(|open| open.at.min(open.give_up_at)).min()
    }

    /// Handles one expired deadline. Call it until it returns `None`.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<Completion<'static>> {
        for index in 0..self.open.len() {
            let open = &mut self.open[index];
            if open.give_up_at <= now {
                let was_called = matches!(open.stage, Stage::Called { .. });
                let is_default = !open.pinned && self.node == open.node;
                if is_default {
                    self.node = (open.node + 1) % self.nodes.len();
                }
                let ended = if was_called { Ended::Unknown } else { Ended::NotBegun };
                return Some(self.end(index, ended));
            }
            if open.at > now {
                continue;
            }
            match open.stage {
                Stage::Pausing => self.ask(now, index),
                Stage::Greeting(GREETINGS) => self.leave(now, index, true),
                Stage::Greeting(greetings) => {
                    open.stage = Stage::Greeting(greetings + 1);
                    (open.due, open.at) = (true, now + self.parameters.repeat);
                }
                Stage::Called { .. } => {
                    open.repeated += 1;
                    (open.due, open.at) = (true, now + doubled(self.parameters.repeat, open.repeated));
                }
            }
        }
        None
    }

    /// The next message to send: appends its content to `out`, and returns (node, kind).
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        let client = self.parameters.identity;
        let index = self.open.iter().position(|open| open.due)?;
        let open = &mut self.open[index];
        open.due = false;
        let node = open.node;
        let message = match open.stage {
            Stage::Called { session, sequence } => {
                let body = Body { kind: open.kind, bytes: &open.bytes };
                Message::Call { client, session, sequence, body }
            }
            Stage::Greeting(_) | Stage::Pausing => Message::Hello { client },
        };
        let kind = message.encode(out) as u8;
        if kind == crate::Kind::Hello as u8 {
            // One Hello message serves all calls that wait for the session.
            let same = |open: &&mut Open| open.node == node && matches!(open.stage, Stage::Greeting(_));
            self.open.iter_mut().filter(same).for_each(|open| open.due = false);
        }
        Some((node, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: Body<'static> = Body { kind: 32, bytes: b"ask" };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn client() -> Client {
        let mut client = Client::new(ClientParameters::new(9, 3));
        client.start(at(0), None, ASK).unwrap();
        client
    }

    fn says(client: &mut Client) -> Vec<(usize, Option<(u64, u64)>)> {
        let mut all = Vec::new();
        let mut bytes = Vec::new();
        while let Some((node, kind)) = client.poll_transmit(&mut bytes) {
            all.push(match Message::parse(kind, &bytes).unwrap() {
                Message::Hello { client: 9 } => (node, None),
                Message::Call { client: 9, session, sequence, body } => {
                    assert_eq!(body, ASK);
                    (node, Some((session, sequence)))
                }
                other => panic!("{other:?}"),
            });
            bytes.clear();
        }
        all
    }

    fn receives(client: &mut Client, ms: u64, node: usize, message: Message<'_>) -> Option<(u64, bool)> {
        let mut bytes = Vec::new();
        let kind = message.encode(&mut bytes) as u8;
        let judge = |body: Body<'_>| match body.bytes {
            b"later" => Verdict::Later,
            b"elsewhere" => Verdict::Elsewhere,
            _ => Verdict::Final,
        };
        let completion = client.receive(at(ms), node, (kind, &bytes), judge).unwrap()?;
        Some((completion.call.0, completion.ended == Ended::Unknown))
    }

    fn welcome(session: u64) -> Message<'static> {
        Message::Welcome { client: 9, session }
    }

    fn answered(session: u64, sequence: u64, status: Status, bytes: &'static [u8]) -> Message<'static> {
        Message::Answered { client: 9, session, sequence, status, body: Body { kind: 40, bytes } }
    }

    #[test]
    fn a_call_is_repeated_at_its_node_until_it_is_answered() {
        let mut client = client();
        assert_eq!(says(&mut client), [(0, None)]);
        assert_eq!(receives(&mut client, 1, 0, welcome(5)), None);
        for wait in [50, 100, 200, 400, 400] {
            assert_eq!(says(&mut client), [(0, Some((5, 1)))]);
            let due = client.next_deadline().unwrap();
            assert_eq!(client.open[0].at, due);
            assert!(wait >= 50 && client.handle_deadline(due).is_none());
        }
        let answer = answered(5, 1, Status::Answer, b"done");
        for (node, other) in [
            (1, answer),
            (0, answered(4, 1, Status::Unknown, b"")),
            (0, answered(5, 2, Status::NotBegun, b"")),
        ] {
            assert_eq!(receives(&mut client, 900, node, other), None);
        }
        let Message::Answered { session, sequence, status, body, .. } = answer else { unreachable!() };
        let others = Message::Answered { client: 8, session, sequence, status, body };
        assert_eq!(receives(&mut client, 900, 0, others), None, "another client's");
        assert_eq!(receives(&mut client, 900, 0, answer), Some((1, false)));
        assert_eq!(receives(&mut client, 901, 0, answer), None);
        assert_eq!((client.outstanding(), client.next_deadline()), (0, None));
    }

    #[test]
    fn a_client_leaves_a_node_that_does_not_greet_or_accepts_nothing() {
        let mut client = client();
        for _ in 0..3 {
            assert_eq!(says(&mut client), [(0, None)]);
            assert_eq!(client.handle_deadline(client.next_deadline().unwrap()), None);
        }
        assert_eq!(says(&mut client), []);
        client.handle_deadline(client.next_deadline().unwrap());
        assert_eq!(says(&mut client), [(1, None)]);
        receives(&mut client, 160, 1, welcome(6));
        assert_eq!(says(&mut client), [(1, Some((6, 1)))]);
        assert_eq!(receives(&mut client, 161, 1, answered(6, 1, Status::Answer, b"later")), None);
        client.handle_deadline(client.next_deadline().unwrap());
        assert_eq!(says(&mut client), [(1, Some((6, 2)))], "it is another call");
        assert_eq!(receives(&mut client, 170, 1, answered(6, 2, Status::NotBegun, b"")), None);
        client.handle_deadline(client.next_deadline().unwrap());
        assert_eq!(says(&mut client), [(2, None)]);
        let completion = client.handle_deadline(at(5_000)).unwrap();
        assert_eq!((completion.call.0, completion.ended), (1, Ended::NotBegun));
    }

    #[test]
    fn a_silent_node_leaves_the_outcome_unknown() {
        let mut client = client();
        receives(&mut client, 1, 0, welcome(5));
        says(&mut client);
        assert_eq!(client.handle_deadline(at(5_000)).unwrap().ended, Ended::Unknown);
        client.start(at(5_001), None, ASK).unwrap();
        assert_eq!(says(&mut client), [(1, None)]);
        receives(&mut client, 5_002, 1, welcome(5));
        says(&mut client);
        assert_eq!(receives(&mut client, 5_003, 1, answered(5, 1, Status::Unknown, b"")), Some((2, true)));
    }

    #[test]
    fn one_greeting_serves_all_calls_and_an_old_session_none() {
        let mut client = client();
        for _ in 1..WINDOW {
            client.start(at(0), Some(0), ASK).unwrap();
        }
        assert_eq!(client.start(at(0), None, ASK), None);
        assert_eq!(says(&mut client), [(0, None)]);
        receives(&mut client, 1, 0, welcome(5));
        assert_eq!(says(&mut client).len(), 16);
        for sequence in 1..=WINDOW {
            let unknown = answered(5, sequence, Status::Unknown, b"");
            assert!(receives(&mut client, 2, 0, unknown).is_some());
        }
        client.start(at(3), None, ASK).unwrap();
        receives(&mut client, 4, 0, welcome(4));
        assert_eq!(says(&mut client), [(0, None)], "a former session's greeting comes late");
        receives(&mut client, 4, 0, welcome(6));
        assert_eq!(says(&mut client), [(0, Some((6, 17)))]);
    }

    #[test]
    fn what_changes_nothing_is_begun_again() {
        let mut client = Client::new(ClientParameters::new(9, 3));
        client.start_repeatable(at(0), None, ASK).unwrap();
        receives(&mut client, 1, 0, welcome(5));
        assert_eq!(says(&mut client), [(0, Some((5, 1)))]);
        assert_eq!(receives(&mut client, 2, 0, answered(5, 1, Status::Unknown, b"")), None);
        client.handle_deadline(client.next_deadline().unwrap());
        assert_eq!(says(&mut client), [(0, None)]);
    }

    #[test]
    fn after_silence_a_node_is_greeted_again() {
        let mut client = client();
        receives(&mut client, 1, 0, welcome(5));
        receives(&mut client, 2, 0, answered(5, 1, Status::Answer, b""));
        says(&mut client);
        client.start(at(29_000), None, ASK).unwrap();
        assert_eq!(says(&mut client), [(0, Some((5, 2)))]);
        receives(&mut client, 29_001, 0, answered(5, 2, Status::Answer, b""));
        client.start(at(60_000), None, ASK).unwrap();
        assert_eq!(says(&mut client), [(0, None)]);
    }
}
