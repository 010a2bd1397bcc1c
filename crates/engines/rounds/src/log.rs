//! State machine replication: a register whose operations are all ordered by the consensus.
//!
//! Clients use the messages of the key-value engine, with an empty key. A node collects requests into one
//! proposal. When the proposal is decided, every node executes its requests, in order, and the node that proposed
//! it answers. Reads are ordered, too, so that no lease is needed. A request that is decided twice takes effect
//! once, because every node keeps the outcomes of the last sixteen requests of each client.
//!
//! A joining node requests the state after some instance from a member, and meanwhile keeps the decisions it
//! receives.

use std::collections::VecDeque;

use weft_kv::message::{Malformed, Reply, Request};
use weft_kv::{Operation, Status as Outcome};
use weft_session::{Seen, Window};
use weft_waist::{Caller, Epoch, Io, Message, NodeId, NodeSet};

use crate::algorithm::Decision;
use crate::message::{ROUNDS_MAX, Status};
use crate::parameters::Parameters;
use crate::service::{Context, Queue, Service};

/// Kinds of a client's request and its answer in the key-value engine.
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// Between nodes: `first(8)` requests the state after all instances before some `after` >= `first`.
const ASK: u8 = 32;
/// The answer in parts: `after(8)   8 part(2) parts(2) zero(4)   16 bytes`.
const STATE: u8 = 33;
const PART_HEADER: usize = 16;
const PART_BYTES: usize = 1_024;

/// Number of clients with a session. If there are more, the client that was silent for longest is forgotten.
const CLIENTS: usize = 64;
/// Number of instances whose decisions a joining node keeps.
const KEPT: usize = 64;
/// Rounds between two state requests of a joining node.
const ASK_EVERY: u64 = 8;

const WINDOW: usize = weft_session::WINDOW as usize;

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Bytes that a request takes in a proposal: padded, so that the next one is aligned.
fn padded(request: usize) -> usize {
    request.next_multiple_of(8)
}

/// The requests in a proposal.
fn requests(mut bytes: &[u8]) -> impl Iterator<Item = Request<'_>> {
    std::iter::from_fn(move || {
        let value = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        let request = parse(bytes.get(..Request::HEADER + value)?).ok()?;
        bytes = bytes.get(padded(Request::HEADER + value)..).unwrap_or_default();
        Some(request)
    })
}

/// Parses a request to the register, which has the operations of the key-value engine in gateware.
fn parse(bytes: &[u8]) -> Result<Request<'_>, Malformed> {
    let request = Request::parse(bytes, 0)?;
    let operation = request.operation;
    if operation.is_beyond_gates() { Err(Malformed::Operation(operation as u8)) } else { Ok(request) }
}

/// Outcomes of a client's latest requests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    client: u64,
    /// Number of its last operation.
    used: u64,
    /// Outcome and version of each request.
    records: Window<(Outcome, u64)>,
}

impl Session {
    const BYTES: usize = 16 + 24 * WINDOW;

    fn new(client: u64) -> Self {
        Self { client, used: 0, records: [Some((0, (Outcome::Ok, 0))); WINDOW].into() }
    }
}

/// The state that all nodes have in common: it depends only on the order of decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    /// Number of operations executed, and so the number of the last one.
    executed: u64,
    /// Number of the operation that wrote the value; 0 if there is no value.
    version: u64,
    value: Vec<u8>,
    sessions: Vec<Session>,
}

impl State {
    const HEADER: usize = 32;

    fn new(value_bytes: usize) -> Self {
        Self {
            executed: 0,
            version: 0,
            value: Vec::with_capacity(value_bytes),
            sessions: Vec::with_capacity(CLIENTS),
        }
    }

    /// Executes one request. `None` if it is so old that its client has ended it.
    fn execute(&mut self, request: &Request<'_>) -> Option<(Outcome, u64)> {
        self.executed += 1;
        let executed = self.executed;
        let mutates = request.operation != Operation::Get;
        if mutates {
            let session = self.session(request.client);
            session.used = executed;
            match session.records.find(request.request) {
                Seen::Same(&known) => return Some(known),
                Seen::Old => return None,
                Seen::New => {}
            }
        }
        let present = self.version > 0;
        let writes = match request.operation {
            Operation::Get | Operation::Delete if !present => Err(Outcome::NotFound),
            Operation::CompareAndSet if request.expected != self.version => Err(Outcome::Mismatch),
            Operation::Get => Ok(false),
            Operation::Put | Operation::Delete | Operation::CompareAndSet => Ok(true),
            Operation::CompareAndDelete | Operation::Scan | Operation::Backup => {
                unreachable!("`parse` refuses it")
            }
        };
        if writes == Ok(true) {
            self.value.clear();
            self.value.extend_from_slice(request.value);
            self.version = if request.operation == Operation::Delete { 0 } else { executed };
        }
        let outcome = writes.err().unwrap_or(Outcome::Ok);
        // A delete returns its own version; a failure returns the current version.
        let version = if writes == Ok(true) { executed } else { self.version };
        if mutates {
            self.session(request.client).records.record(request.request, (outcome, version));
        }
        Some((outcome, version))
    }

    fn session(&mut self, client: u64) -> &mut Session {
        if let Some(index) = self.sessions.iter().position(|session| session.client == client) {
            return &mut self.sessions[index];
        }
        if self.sessions.len() < CLIENTS {
            self.sessions.push(Session::new(client));
            return self.sessions.last_mut().expect("it was added");
        }
        let oldest = self.sessions.iter_mut().min_by_key(|session| session.used).expect("there are some");
        *oldest = Session::new(client);
        oldest
    }

    /// Layout: `executed(8) version(8) value length(8) sessions(8)`, the value, padded, the sessions.
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        for field in [self.executed, self.version, self.value.len() as u64, self.sessions.len() as u64] {
            bytes.extend_from_slice(&field.to_be_bytes());
        }
        bytes.extend_from_slice(&self.value);
        bytes.resize(Self::HEADER + padded(self.value.len()), 0);
        for session in &self.sessions {
            bytes.extend_from_slice(&session.client.to_be_bytes());
            bytes.extend_from_slice(&session.used.to_be_bytes());
            for record in session.records.records() {
                let (request, &(outcome, version)) = record.expect("a session has a record in every place");
                for field in [request, outcome as u64, version] {
                    bytes.extend_from_slice(&field.to_be_bytes());
                }
            }
        }
    }

    /// Replaces the state by one that another node has encoded. Returns whether the bytes were valid.
    fn decode(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() < Self::HEADER {
            return false;
        }
        let [executed, version, value, sessions] = [0, 8, 16, 24].map(|at| be64(bytes, at));
        let (value, sessions) = (value.min(1 << 16) as usize, sessions.min(CLIENTS as u64) as usize);
        let sessions_at = Self::HEADER + padded(value);
        let fits = bytes.len() == sessions_at + sessions * Session::BYTES && value <= self.value.capacity();
        if !fits || executed >= ROUNDS_MAX {
            return false;
        }
        let outcome = |code: u64| {
            const OUTCOMES: [Outcome; 3] = [Outcome::Ok, Outcome::NotFound, Outcome::Mismatch];
            OUTCOMES.into_iter().find(|outcome| *outcome as u64 == code)
        };
        let mut all = bytes[sessions_at..].chunks_exact(Session::BYTES);
        if all.clone().any(|session| (0..WINDOW).any(|at| outcome(be64(session, 24 + 24 * at)).is_none())) {
            return false;
        }
        (self.executed, self.version) = (executed, version);
        self.value.clear();
        self.value.extend_from_slice(&bytes[Self::HEADER..Self::HEADER + value]);
        self.sessions.clear();
        self.sessions.extend(all.by_ref().map(|session| {
            Session {
                client: be64(session, 0),
                used: be64(session, 8),
                records: std::array::from_fn(|at| {
                    let at = 16 + 24 * at;
                    let outcome = outcome(be64(session, at + 8)).expect("it was checked");
                    Some((be64(session, at), (outcome, be64(session, at + 16))))
                })
                .into(),
            }
        }));
        true
    }
}

/// The state transfer to a joining node.
#[derive(Clone, Debug)]
struct Arrival {
    /// The first instance whose decisions are in `kept`.
    from: u64,
    kept: VecDeque<(u64, Vec<u8>)>,
    /// The node whose state is arriving, the last instance reflected in it, and its number of parts.
    source: Option<(usize, u64, usize)>,
    parts: u64,
    bytes: Vec<u8>,
}

/// The replicated register, a [`Service`] above a consensus.
#[derive(Clone, Debug)]
pub struct Register {
    value_bytes: usize,
    node: usize,
    queue: Queue,
    /// Requests in the node's own undecided proposals, in order: instance, caller, client, request.
    under_way: VecDeque<(u64, Caller, u64, u64)>,
    state: State,
    /// The next instance to be executed.
    next: u64,
    /// The state transfer; `None` once the state is complete.
    arrival: Option<Arrival>,
    /// Buffer in which the state is encoded for other nodes.
    encoded: Vec<u8>,
}

impl Register {
    /// Whether the node has the complete state and answers requests.
    pub fn is_complete(&self) -> bool {
        self.arrival.is_none()
    }

    /// The version and value of the register, read without ordering: for tests.
    pub fn peek(&self) -> (u64, &[u8]) {
        (self.state.version, &self.state.value)
    }

    fn answer(
        &self,
        caller: Caller,
        (client, request): (u64, u64),
        (status, version, value): (Outcome, u64, &[u8]),
        context: &Context,
        io: &mut Io<'_>,
    ) {
        let (epoch, full) = (Epoch(context.epoch.into()), context.members.to_nodes());
        let reply = Reply { status, client, request, version, epoch, full, value };
        io.effects.reply(caller, REPLY, &[&reply.header(), value]);
    }

    fn execute(&mut self, bytes: &[u8], own: Option<u64>, context: &Context, io: &mut Io<'_>) {
        for request in requests(bytes) {
            let outcome = self.state.execute(&request);
            let caller = own.and_then(|instance| self.take_under_way(instance)).map(|(caller, ..)| caller);
            if let (Some(caller), Some((status, version))) = (caller, outcome) {
                let reads = request.operation == Operation::Get && status == Outcome::Ok;
                let value = if reads { &self.state.value[..] } else { &[] };
                let identity = (request.client, request.request);
                self.answer(caller, identity, (status, version, value), context, io);
            }
        }
    }

    /// Removes and returns the next request of this node's proposals, if it was proposed in `instance` or earlier.
    fn take_under_way(&mut self, instance: u64) -> Option<(Caller, u64, u64)> {
        let (proposed, caller, client, request) = *self.under_way.front()?;
        if proposed > instance {
            return None;
        }
        self.under_way.pop_front();
        Some((caller, client, request))
    }

    fn ask(&self, context: &Context, io: &mut Io<'_>) {
        let Some(arrival) = &self.arrival else { return };
        let others = context.members.without(self.node);
        if let Some(other) = others.iter().nth((self.next / ASK_EVERY) as usize % others.len().max(1)) {
            let to = NodeSet::EMPTY.with(NodeId::new(other).expect("members are nodes"));
            io.effects.send(to, ASK, &[&arrival.from.to_be_bytes()]);
        }
    }

    /// Sends the whole state to a joining node.
    fn donate(&mut self, to: usize, io: &mut Io<'_>) {
        let mut encoded = std::mem::take(&mut self.encoded);
        self.state.encode(&mut encoded);
        let parts = encoded.len().div_ceil(PART_BYTES);
        for (part, bytes) in encoded.chunks(PART_BYTES).enumerate() {
            let mut header = [0; PART_HEADER];
            header[..8].copy_from_slice(&self.next.to_be_bytes());
            header[8..10].copy_from_slice(&(part as u16).to_be_bytes());
            header[10..12].copy_from_slice(&(parts as u16).to_be_bytes());
            let to = NodeSet::EMPTY.with(NodeId::new(to).expect("members are nodes"));
            io.effects.send(to, STATE, &[&header, bytes]);
        }
        self.encoded = encoded;
    }

    /// Stores a part of the state. With the last part the node is complete.
    fn arrive(&mut self, from: usize, message: &[u8], context: &Context, io: &mut Io<'_>) {
        let Some(arrival) = &mut self.arrival else { return };
        if message.len() < PART_HEADER {
            return;
        }
        let (header, bytes) = message.split_at(PART_HEADER);
        let field = |at| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
        let (after, part, parts) = (be64(header, 0), field(8), field(10));
        let last = part + 1 == parts;
        if after < arrival.from
            || after >= ROUNDS_MAX
            || part >= parts
            || parts > 64
            || bytes.len() > PART_BYTES
            || !last && bytes.len() < PART_BYTES
        {
            return;
        }
        if arrival.source != Some((from, after, parts)) {
            (arrival.source, arrival.parts) = (Some((from, after, parts)), 0);
            arrival.bytes.clear();
            arrival.bytes.resize(parts * PART_BYTES, 0);
        }
        let at = part * PART_BYTES;
        arrival.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        arrival.parts |= 1 << part;
        if last {
            arrival.bytes.truncate(at + bytes.len());
        }
        let complete = arrival.parts.count_ones() as usize == parts;
        if complete && self.state.decode(&arrival.bytes) {
            let arrival = self.arrival.take().expect("it is under way");
            for (_, kept) in arrival.kept.iter().filter(|(instance, _)| *instance >= after) {
                self.execute(kept, None, context, io);
            }
            self.next = self.next.max(after);
        }
    }
}

impl Service for Register {
    fn new(parameters: &Parameters) -> Self {
        Self {
            value_bytes: parameters.value_bytes,
            node: 0,
            queue: Queue::new(parameters),
            under_way: VecDeque::with_capacity(
                parameters.slots() as usize * (parameters.value_bytes / Request::HEADER),
            ),
            state: State::new(parameters.value_bytes),
            next: 0,
            arrival: None,
            encoded: Vec::with_capacity(State::HEADER + parameters.value_bytes + CLIENTS * Session::BYTES),
        }
    }

    fn start(&mut self, node: usize, first: u64, founding: bool, _: &mut Io<'_>) {
        self.node = node;
        self.state = State::new(self.value_bytes);
        self.next = first;
        self.arrival = (!founding).then(|| Arrival {
            from: first,
            kept: VecDeque::with_capacity(KEPT),
            source: None,
            parts: 0,
            bytes: Vec::new(),
        });
    }

    fn call(
        &mut self,
        caller: Caller,
        message: Message<'_>,
        context: &Context,
        io: &mut Io<'_>,
    ) -> Result<(), Status> {
        let Some((client, number)) =
            (message.kind == REQUEST).then(|| Request::identity(message.payload)).flatten()
        else {
            return Err(Status::BadRequest);
        };
        let fits = padded(message.payload.len()) <= self.value_bytes;
        let refusal = if !fits || parse(message.payload).is_err() {
            Some(Outcome::BadRequest)
        } else if context.takes_proposals().is_err() || !self.is_complete() {
            Some(Outcome::NotServing)
        } else {
            self.queue.push(caller, message.payload).err().map(|_| Outcome::Busy)
        };
        if let Some(outcome) = refusal {
            self.answer(caller, (client, number), (outcome, 0, &[]), context, io);
        }
        Ok(())
    }

    fn deliver(&mut self, from: usize, message: Message<'_>, context: &Context, io: &mut Io<'_>) -> bool {
        match message.kind {
            ASK => {
                if message.payload.len() == 8 && self.is_complete() && self.next >= be64(message.payload, 0) {
                    self.donate(from, io);
                }
            }
            STATE => self.arrive(from, message.payload, context, io),
            _ => return false,
        }
        true
    }

    /// Puts as many queued requests into the proposal as fit.
    fn propose(&mut self, instance: u64, proposal: &mut [u8]) -> usize {
        let mut length = 0;
        while let Some((caller, bytes)) = self.queue.front()
            && length + padded(bytes.len()) <= proposal.len()
            && let Some((client, request)) = Request::identity(bytes)
        {
            proposal[length..length + bytes.len()].copy_from_slice(bytes);
            proposal[length + bytes.len()..length + padded(bytes.len())].fill(0);
            length += padded(bytes.len());
            self.under_way.push_back((instance, caller, client, request));
            self.queue.pop();
        }
        length
    }

    fn decide(&mut self, decision: &Decision<'_>, context: &Context, io: &mut Io<'_>) {
        let Decision { instance, proposer, proposal } = *decision;
        if proposal.change {
            return;
        }
        if let Some(arrival) = &mut self.arrival {
            if arrival.kept.len() == KEPT
                && let Some((oldest, _)) = arrival.kept.pop_front()
            {
                arrival.from = oldest + 1;
            }
            arrival.kept.push_back((instance, proposal.bytes.to_vec()));
            return;
        }
        if instance >= self.next {
            let own = (proposer == self.node).then_some(instance);
            self.execute(proposal.bytes, own, context, io);
        }
    }

    fn close(&mut self, instance: u64, context: &Context, io: &mut Io<'_>) {
        self.next = self.next.max(instance + 1);
        if instance.is_multiple_of(ASK_EVERY) {
            self.ask(context, io);
        }
        // Proposals of this node up to this instance that were not decided never will be: the requests had no
        // effect.
        while let Some((caller, client, request)) = self.take_under_way(instance) {
            self.answer(caller, (client, request), (Outcome::Busy, 0, &[]), context, io);
        }
    }

    fn stop(&mut self, context: &Context, io: &mut Io<'_>) {
        while let Some((_, caller, client, request)) = self.under_way.pop_front() {
            self.answer(caller, (client, request), (Outcome::NotServing, 0, &[]), context, io);
        }
        while let Some((caller, bytes)) = self.queue.front() {
            let identity = Request::identity(bytes).unwrap_or_default();
            self.answer(caller, identity, (Outcome::NotServing, 0, &[]), context, io);
            self.queue.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use weft_session::WINDOW;

    use super::*;

    fn request(client: u64, request: u64, operation: Operation, expected: u64, value: &[u8]) -> Request<'_> {
        Request { operation, client, request, expected, key: &[], value }
    }

    #[test]
    fn a_request_takes_effect_once() {
        let mut state = State::new(64);
        let put = request(7, 1, Operation::Put, 0, b"red");
        assert_eq!(state.execute(&put), Some((Outcome::Ok, 1)));
        assert_eq!(state.execute(&request(8, 1, Operation::Put, 0, b"blue")), Some((Outcome::Ok, 2)));
        assert_eq!(state.execute(&put), Some((Outcome::Ok, 1)), "as it was told before");
        assert_eq!(state.value, b"blue");
        let swap = request(7, 2, Operation::CompareAndSet, 2, b"green");
        assert_eq!(state.execute(&swap), Some((Outcome::Ok, 4)));
        assert_eq!(
            state.execute(&request(8, 2, Operation::CompareAndSet, 2, b"grey")),
            Some((Outcome::Mismatch, 4))
        );
        assert_eq!(state.execute(&request(8, 3, Operation::Delete, 0, b"")), Some((Outcome::Ok, 6)));
        assert_eq!(state.execute(&request(8, 4, Operation::Get, 0, b"")), Some((Outcome::NotFound, 0)));
        // A later request of the client has taken its slot, so the client has ended this one.
        state.execute(&request(7, 1 + WINDOW, Operation::Put, 0, b"white"));
        assert_eq!(state.execute(&put), None);
    }

    #[test]
    fn the_client_that_was_silent_for_longest_is_forgotten() {
        let mut state = State::new(64);
        for client in 0..=CLIENTS as u64 {
            state.execute(&request(client, 1, Operation::Put, 0, b"x"));
        }
        assert_eq!(state.sessions.len(), CLIENTS);
        assert!(state.sessions.iter().all(|session| session.client != 0));
    }

    proptest! {
        #[test]
        fn a_state_survives_the_way_to_another_node(
            requests in prop::collection::vec((0u64..5, 1u64..40, 0usize..3, 0u64..4, prop::collection::vec(any::<u8>(), 1..60)), 0..50),
            (place, damage) in (any::<prop::sample::Index>(), any::<u8>()),
        ) {
            let mut state = State::new(64);
            for (client, number, operation, expected, value) in &requests {
                let request = match operation {
                    0 => request(*client, *number, Operation::Put, 0, value),
                    1 => request(*client, *number, Operation::CompareAndSet, *expected, value),
                    _ => request(*client, *number, Operation::Delete, 0, &[]),
                };
                state.execute(&request);
            }
            let (mut bytes, mut other) = (Vec::new(), State::new(64));
            state.encode(&mut bytes);
            prop_assert!(other.decode(&bytes));
            prop_assert_eq!(&other, &state);
            // Damaged bytes decode to another state, or are refused.
            let place = place.index(bytes.len());
            prop_assert!(!other.decode(&bytes[..place]));
            bytes[place] ^= damage;
            if other.decode(&bytes) {
                other.execute(&request(1, 100, Operation::Put, 0, b"on it goes"));
            }
        }
    }
}
