//! Client halves: how the clients of all engines are driven, and how an engine makes one of a session.

use std::fmt::Debug;

use weft_time::Instant;

use crate::client::{CallId, Client, ClientParameters, Ended, Verdict};
use crate::message::Body;

/// The client half of an engine's protocol, with the same methods for all engines. It does no input or output and
/// reads no clock: its driver passes in messages and the time.
///
/// After each call of any other method, call [`ClientHalf::poll_transmit`] until it returns `None`: the method may
/// have queued messages.
pub trait ClientHalf {
    /// What a client asks for.
    type Task<'a>;
    /// How a call ends.
    type Outcome<'a>;

    /// Starts a call. Returns `None` if too many are outstanding.
    fn start(&mut self, now: Instant, task: Self::Task<'_>) -> Option<CallId>;

    /// Processes a message from a node. Returns the call that it completes, with its outcome. Malformed messages and
    /// those for other clients are ignored.
    fn receive<'a>(
        &mut self,
        now: Instant,
        node: usize,
        message: (u8, &'a [u8]),
    ) -> Option<(CallId, Self::Outcome<'a>)>;

    /// When [`ClientHalf::handle_deadline`] must be called.
    fn next_deadline(&self) -> Option<Instant>;

    /// Handles expired deadlines. At most one call ends each time, so call it until it returns `None`.
    fn handle_deadline(&mut self, now: Instant) -> Option<(CallId, Self::Outcome<'static>)>;

    /// Returns the node and the kind of the next message to send, and appends the message's content to `out`.
    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)>;

    /// Ends the client, which makes no more calls: [`ClientHalf::poll_transmit`] returns its last messages.
    fn leave(&mut self) {}
}

/// The task of a client half.
pub type TaskOf<'a, H> = <H as ClientHalf>::Task<'a>;
/// The outcome of a client half's call.
pub type OutcomeOf<'a, H> = <H as ClientHalf>::Outcome<'a>;

/// A call to begin, beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct NewCall<N> {
    /// Kind of the body.
    pub kind: u8,
    /// The only node that may take the call; `None` for any.
    pub node: Option<usize>,
    /// Whether the call may be executed twice without harm.
    pub is_repeatable: bool,
    /// What is needed when the call ends.
    pub note: N,
}

/// The calls of an engine whose clients have sessions: the bytes of tasks, and the meaning of answers.
pub trait Calls {
    /// See [`ClientHalf::Task`].
    type Task<'a>;
    /// See [`ClientHalf::Outcome`].
    type Outcome<'a>;
    /// What a client keeps about an outstanding call.
    type Note: Copy + Debug;

    /// Begins a call in a cluster of `nodes` nodes, and appends its bytes to `bytes`.
    fn begin(
        &self,
        now: Instant,
        nodes: usize,
        task: Self::Task<'_>,
        bytes: &mut Vec<u8>,
    ) -> NewCall<Self::Note>;

    /// What an answer means for its call.
    fn judge(body: Body<'_>) -> Verdict;

    /// The outcome of a call that ends now.
    fn end<'a>(&self, now: Instant, note: Self::Note, ended: Ended<'a>) -> Self::Outcome<'a>;
}

/// The client half of an engine whose clients have sessions.
#[derive(Clone, Debug)]
pub struct SessionClient<C: Calls> {
    session: Client,
    nodes: usize,
    calls: C,
    /// Outstanding calls.
    notes: Vec<(CallId, C::Note)>,
    bytes: Vec<u8>,
}

impl<C: Calls + Default> SessionClient<C> {
    /// A client without outstanding calls.
    ///
    /// # Panics
    /// As [`Client::new`].
    pub fn new(parameters: ClientParameters) -> Self {
        Self::with_calls(parameters, C::default())
    }
}

impl<C: Calls> SessionClient<C> {
    /// A client without outstanding calls, which makes these.
    ///
    /// # Panics
    /// As [`Client::new`].
    pub fn with_calls(parameters: ClientParameters, calls: C) -> Self {
        let nodes = parameters.nodes;
        Self { session: Client::new(parameters), nodes, calls, notes: Vec::new(), bytes: Vec::new() }
    }

    /// Number of outstanding calls.
    pub fn outstanding(&self) -> usize {
        self.session.outstanding()
    }

    /// Whether another call can start.
    pub fn can_start(&self) -> bool {
        self.session.can_start()
    }

    fn end<'a>(&mut self, now: Instant, call: CallId, ended: Ended<'a>) -> (CallId, C::Outcome<'a>) {
        let place = self.notes.iter().position(|(known, _)| *known == call).expect("what ends was begun");
        let (_, note) = self.notes.swap_remove(place);
        (call, self.calls.end(now, note, ended))
    }
}

impl<C: Calls> ClientHalf for SessionClient<C> {
    type Task<'a> = C::Task<'a>;
    type Outcome<'a> = C::Outcome<'a>;

    fn start(&mut self, now: Instant, task: C::Task<'_>) -> Option<CallId> {
        self.bytes.clear();
        let NewCall { kind, node, is_repeatable, note } =
            self.calls.begin(now, self.nodes, task, &mut self.bytes);
        let body = Body { kind, bytes: &self.bytes };
        let call = match is_repeatable {
            true => self.session.start_repeatable(now, node, body)?,
            false => self.session.start(now, node, body)?,
        };
        self.notes.push((call, note));
        Some(call)
    }

    fn receive<'a>(
        &mut self,
        now: Instant,
        node: usize,
        message: (u8, &'a [u8]),
    ) -> Option<(CallId, C::Outcome<'a>)> {
        let completion = self.session.receive(now, node, message, C::judge).ok()??;
        Some(self.end(now, completion.call, completion.ended))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.session.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<(CallId, C::Outcome<'static>)> {
        let completion = self.session.handle_deadline(now)?;
        Some(self.end(now, completion.call, completion.ended))
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.session.poll_transmit(out)
    }
}
