//! Transactions: messages between nodes, and a node with its host whose peers may send anything.

use std::collections::VecDeque;

use weft_net::transactions::Record;
use weft_time::{Duration, Instant};
use weft_txn::Room;
use weft_txn::client::ClientMessage;
use weft_txn::host::{Half, HalfParameters, HalfTables, Local};
use weft_txn::host_port::HostMessage;
use weft_txn::journal::Entry;
use weft_txn::message::{
    Base, Body, Claim, Drawn, Got, Header, Held, Kind, Lack, Put, Reader, RecordPart, Replacement, Seen,
    Status, Verdict, Want, write, write_id, write_list,
};
use weft_txn::store::{IndexParameters, Precision, Shape};
use weft_txn::{
    Access, Accesses, Context, Cursor, INPUT_MAX, Key, Mode, Page, Parameters, Placement, Procedure,
    ProcedureId, Procedures, Request, Step, TransactionId, Transactions, VALUE_MAX, Version,
};
use weft_verbs::CompletionStatus;
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, EngineState, Epoch, Event, Io, Memory, Message, NodeId,
    NodeSet, View,
};

use crate::input::Input;

/// Number of nodes of the cluster; the engine is that of node 0.
const NODES: usize = 3;
const KINDS: u8 = 19;
const LOG_BYTES: usize = 1 << 14;
/// The table has room for all objects that an input can name, but not if all of them are long.
const SHAPE: Shape = Shape {
    slots: 256,
    segment_slots: 4,
    displacement: Some(8),
    slot_bytes: 64,
    pages: 128,
    page_slots: 4,
    blocks: 8,
    value_bytes_max: VALUE_MAX,
};
const TABLES: HalfTables = HalfTables {
    shape: SHAPE,
    table_address: LOG_BYTES as u64,
    precision: Precision::Runs,
    log_address: 0,
    log_bytes: LOG_BYTES,
};

/// Parses a message between nodes, or one between a card and its host. The former must be encoded to the same
/// bytes, except unused bits.
pub fn message(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    let Ok(kind) = Kind::parse(kind) else {
        visit(HostMessage::parse(kind, bytes).ok());
        return;
    };
    let Some(once) = rewrite(kind, bytes) else { return };
    assert_eq!(once.len(), bytes.len());
    assert_eq!(rewrite(kind, &once), Some(once));
}

/// Parses a message between a client and a node. A valid message is encoded again, and must parse to the
/// same.
pub fn client(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    let Ok(once) = ClientMessage::parse(kind, bytes) else { return };
    let mut written = Vec::new();
    let kind = once.encode(&mut written) as u8;
    assert_eq!(ClientMessage::parse(kind, &written), Ok(once));
}

/// Parses a file of records: its complete records alone must parse to the same.
pub fn record(data: &[u8]) {
    let Ok((record, whole)) = Record::parse(data) else { return };
    assert_eq!(Record::parse(&data[..whole]), Ok((record, whole)));
}

/// Iterates over the lists of a host's message, which were validated by the parser.
fn visit(message: Option<HostMessage<'_>>) {
    let items = match message {
        Some(HostMessage::Begin { wants, .. }) => wants.iter().count(),
        Some(HostMessage::Ran { added, writes, .. }) => added.iter().count() + writes.iter().count(),
        Some(HostMessage::Local(executed)) => {
            executed.claims.iter().count() + executed.writes.iter().count() + executed.read.iter().count()
        }
        Some(HostMessage::Run { got, .. }) => got.iter().count(),
        Some(HostMessage::Page { page, .. } | HostMessage::Keep { page, .. }) => page.puts.iter().count(),
        Some(HostMessage::Restore(Entry::Page(page))) => page.puts.iter().count(),
        // As long as the entry.
        Some(HostMessage::Restore(Entry::Verdicts(verdicts))) => return verdicts.iter().for_each(drop),
        Some(HostMessage::Restore(Entry::State(state))) => return state.held().for_each(drop),
        _ => 0,
    };
    assert!(items <= 3 * usize::from(u8::MAX));
}

/// Parses a message and encodes it again.
fn rewrite(kind: Kind, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader(bytes);
    let header = Header::parse(&mut reader).ok()?;
    let body = Body::parse(kind, reader).ok()?;
    let mut out = Vec::new();
    header.encode(&mut out);
    let into = &mut out;
    match body {
        Body::Execute { id, wants } => write::execute(into, id, wants.iter()),
        Body::Executed { id, shard, status, atomic, got } => {
            write::executed(into, id, shard, status, atomic);
            write_list(into, got.iter());
        }
        Body::Validate { id, shard, seen } => write::validate(into, id, shard, seen.iter()),
        Body::Validated { id, shard, status } => write::validated(into, id, shard, status),
        Body::Log { place, shards, needs, writes } => write::log(into, &place, shards, needs, writes.iter()),
        Body::Logged { place } => write::place(into, &place),
        Body::Refused { place, shards, lack } => write::refused(into, &place, shards, lack),
        Body::End { id } | Body::Withdraw { id } | Body::Withdrawn { id } => {
            write_id(into, id);
        }
        Body::Marks { heard, written, applied, asks } => write::marks(into, heard, written, applied, asks),
        Body::Ship { id, procedure, input, wants, local } => {
            write::ship(into, id, procedure, input, wants.iter(), local.iter());
        }
        Body::Shipped { id, status, reason, shards, answer } => {
            write::shipped(into, id, status, reason, shards, answer);
        }
        Body::Report { asks, base, decided, part, parts, held } => {
            write::report(into, asks, (&base, &decided), (part, parts), held.iter());
        }
        Body::Settled { acts } => into.push(u8::from(acts)),
        Body::Copy { shard, from } => copy(into, shard, from),
        Body::Lock { id, claims } => write::lock(into, id, claims.iter()),
        Body::Locked { id, shard, status, drawn } => locked(into, id, shard, status, drawn.iter()),
        Body::Copied(Page { shard, from, next, puts }) => copied(into, shard, from, next, puts.iter()),
    }
    Some(out)
}

fn cursor(out: &mut Vec<u8>, cursor: Cursor) {
    out.extend_from_slice(&cursor.segment.to_be_bytes());
    out.extend_from_slice(&cursor.key.to_be_bytes());
}

fn copy(out: &mut Vec<u8>, shard: usize, from: Cursor) {
    out.push(shard as u8);
    cursor(out, from);
}

fn copied<'a>(
    out: &mut Vec<u8>,
    shard: usize,
    from: Cursor,
    next: Cursor,
    puts: impl Iterator<Item = Put<'a>>,
) {
    copy(out, shard, from);
    cursor(out, next);
    write_list(out, puts);
}

fn locked(
    out: &mut Vec<u8>,
    id: TransactionId,
    shard: usize,
    status: Status,
    drawn: impl Iterator<Item = Drawn>,
) {
    write_id(out, id);
    out.extend_from_slice(&[shard as u8, status as u8]);
    write_list(out, drawn);
}

/// A node with its host, whose peers may send any message about attempts, objects and views. It must not
/// panic nor send anything malformed, and must only copy between its own parts of both memories.
pub fn node(data: &[u8]) {
    let mut input = Input::new(data);
    let mut node = Node::new(&mut input);
    node.configure(&mut input);
    let mut steps = 0;
    while !input.is_empty() && steps < 400 {
        steps += 1;
        let kind = input.byte();
        match kind % 16 {
            0 => {
                node.now += Duration::from_us(u64::from(input.byte()));
                node.half.wake(node.now);
                node.handle(Event::Timer { tag: 0 });
            }
            1..4 => node.end_copy(input.byte()),
            4 | 5 => node.tell_host(),
            6 | 7 => node.tell_card(),
            8 => {
                let mut accesses = Accesses::default();
                for _ in 0..1 + input.byte() % 4 {
                    let mode = mode(&mut input);
                    accesses.add(key(&mut input), mode).expect("few keys");
                }
                let (procedure, length) = (ProcedureId(u16::from(input.byte() % 4)), input.byte() % 16);
                let bytes = input.bytes(length.into()).to_vec();
                let _ = node.half.call(Request { procedure, input: bytes, accesses });
                node.tell_card();
            }
            9 if input.rarely() => node.configure(&mut input),
            _ => node.deliver(&mut input),
        }
    }
}

/// A procedure that treats its keys as its input says, one byte for each; it may request one more key.
struct Any {
    ship: bool,
}

impl Procedure for Any {
    fn name(&self) -> &'static str {
        "any"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        let at = |context: &Context<'_>, place: usize| context.input().get(place).copied().unwrap_or(3);
        if context.round() == 0 && at(context, 0) & 8 != 0 {
            context.add(Key::new(usize::from(at(context, 1) % 16), 1), Mode::Update);
            return Step::More;
        }
        for index in 0..context.keys().len() {
            let read = context.value(index).map_or(0, <[u8]>::len);
            match at(context, index) % 8 {
                0 => return Step::Abort(read as u8),
                1 => context.delete(index),
                2 => context.write(index, &[read as u8; 300]),
                3 | 4 if context.keys()[index].mode.locks() => context.write(index, &[read as u8; 8]),
                _ => context.answer(&read.to_be_bytes()),
            }
        }
        Step::Commit
    }

    fn ship(&self) -> bool {
        self.ship
    }
}

/// A copy in progress between the memories of card and host.
#[derive(Clone, Copy, Debug)]
struct Copying {
    tag: u64,
    to_host: bool,
    near: usize,
    host: usize,
    length: usize,
}

struct Node {
    engine: Transactions,
    memory: Memory,
    effects: Effects,
    half: Half,
    host: Vec<u8>,
    now: Instant,
    view: View,
    copies: Vec<Copying>,
    /// Messages to the host: token, kind and content. They are neither lost nor reordered.
    up: VecDeque<(u32, u8, Vec<u8>)>,
}

impl Node {
    fn new(input: &mut Input<'_>) -> Self {
        let mut parameters = Parameters::new(NODES, 2);
        (parameters.window, parameters.operations, parameters.log_bytes) = (16, 8, LOG_BYTES);
        let index =
            IndexParameters { precision: Precision::Runs, ahead: 0, entries: 24, value_bytes_max: VALUE_MAX };
        let placement = match input.coin() {
            true => Placement::Host,
            false => Placement::Card { shape: SHAPE, index, table_address: TABLES.table_address },
        };
        let tables = (placement != Placement::Host).then_some(TABLES);
        let procedures =
            || Procedures::new(vec![Box::new(Any { ship: true }), Box::new(Any { ship: false })]);
        let calls = HalfParameters { calls: 32, attempts: 3, local: Local::All, ..HalfParameters::default() };
        let mut node = Self {
            engine: Transactions::new(parameters, procedures(), placement),
            memory: Memory::new(Transactions::memory_bytes(&parameters, &placement)),
            effects: Effects::default(),
            half: Half::new(procedures(), calls, tables),
            host: vec![0; LOG_BYTES + tables.map_or(0, |tables| tables.table_bytes())],
            now: Instant::ZERO,
            view: View::default(),
            copies: Vec::new(),
            up: VecDeque::new(),
        };
        for key in (0..4).flat_map(|local| [0, 2].map(|shard| Key::new(shard, local))) {
            match tables {
                None => node.engine.load(key, &[7; 8]),
                Some(_) => node.half.load(&mut node.host, key, &[7; 8]),
            }
        }
        node.half.reports(&node.host).for_each(|report| node.engine.learn(&report));
        node.half.room().into_iter().for_each(|room| node.engine.learn_room(room));
        node
    }

    /// Changes to the next view: this node founds the cluster or joins it, and becomes full once it holds all
    /// data. Any of the other nodes may be missing.
    fn configure(&mut self, input: &mut Input<'_>) {
        let own = NodeId::new(0).expect("node 0");
        let mut epoch = Epoch(self.view.epoch.0 + 1);
        let (full, joining) = (input.byte(), input.byte());
        let is_full = match self.engine.status().state {
            EngineState::Starting => full & 1 == 0,
            EngineState::Joining { synced } => synced,
            _ => true,
        };
        let others = |bits: u8| NodeSet::from_bits(u16::from(bits) & 0b110);
        if self.view.epoch == Epoch(0) && !is_full {
            epoch = Epoch(2);
        }
        let mut view = View { epoch, full: others(!full), joining: others(full & joining) };
        let set = if is_full { &mut view.full } else { &mut view.joining };
        *set = set.with(own);
        self.view = view;
        let lease_until = if input.rarely() { self.now } else { Instant::FAR_FUTURE };
        self.handle(Event::Configure(Configuration { node: own, view, lease_until }));
    }

    fn handle(&mut self, event: Event<'_>) {
        self.effects.clear();
        let mut io = Io { effects: &mut self.effects, memory: &mut self.memory };
        self.engine.handle(self.now, event, &mut io);
        for effect in self.effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    assert!(to.iter().all(|peer| (1..NODES).contains(&peer.index())), "it sends to peers");
                    let kind = Kind::parse(*kind).expect("a kind");
                    let mut reader = Reader(self.effects.message(kind as u8, payload).payload);
                    Header::parse(&mut reader).expect("a header");
                    Body::parse(kind, reader).expect("a message");
                }
                Effect::Reply { to, kind, payload } => {
                    let Caller::Host(token) = *to else { panic!("only the host calls") };
                    let payload = self.effects.message(*kind, payload).payload.to_vec();
                    HostMessage::parse(*kind, &payload).expect("a message for the host");
                    self.up.push_back((token, *kind, payload));
                }
                Effect::HostRead { tag, host, memory, length } => {
                    self.copies.push(Copying::new(*tag, false, *memory, *host, *length));
                }
                Effect::HostWrite { tag, memory, host, length } => {
                    self.copies.push(Copying::new(*tag, true, *memory, *host, *length));
                    assert!(*host as usize + *length as usize <= LOG_BYTES, "a card writes the log");
                }
                Effect::SetTimer { .. } => {}
                other => panic!("this engine has no {other:?}"),
            }
        }
        for Copying { near, host, length, .. } in &self.copies {
            assert!(near + length <= self.memory.image().len() && host + length <= self.host.len());
        }
    }

    /// Completes one of the copies in progress, usually the oldest.
    fn end_copy(&mut self, choice: u8) {
        if self.copies.is_empty() {
            return;
        }
        let place = if choice < 192 { 0 } else { usize::from(choice) % self.copies.len() };
        let Copying { tag, to_host, near, host, length } = self.copies.remove(place);
        let near = &mut self.memory.image_mut()[near..near + length];
        let host = &mut self.host[host..host + length];
        if to_host {
            host.copy_from_slice(near)
        } else {
            near.copy_from_slice(host)
        }
        self.handle(Event::Done { tag, status: CompletionStatus::Success });
    }

    fn tell_host(&mut self) {
        let Some((token, kind, payload)) = self.up.pop_front() else { return };
        self.half.receive(self.now, token, kind, &payload, &mut self.host).expect("a message of the card");
        while self.half.poll_finished().is_some() {}
    }

    fn tell_card(&mut self) {
        let Some(message) = self.half.poll_card(&self.host) else { return };
        let (caller, payload) = (Caller::Host(message.token), message.payload);
        let message = Message { kind: message.kind, payload: &payload };
        self.handle(Event::Call { caller, message, last: true });
    }

    /// Delivers a message from a peer, or from a node that is not one.
    fn deliver(&mut self, input: &mut Input<'_>) {
        let from = NodeId::new(1 + usize::from(input.byte()) % NODES).expect("a node");
        let kind = input.byte();
        let mut payload = Vec::new();
        let decided = u64::from(input.byte() % 64);
        let truncated = decided - u64::from(input.byte()).min(decided);
        let epoch = Epoch(input.near(self.view.epoch.0.into()) as u32);
        Header { epoch, decided, truncated }.encode(&mut payload);
        match Kind::parse(kind % (KINDS + 2)) {
            Ok(kind) => self.body(kind, &mut payload, input),
            Err(_) => {
                let length = usize::from(input.byte());
                payload.extend_from_slice(input.bytes(length));
            }
        }
        let kind = if kind % (KINDS + 2) < KINDS { kind % (KINDS + 2) } else { input.byte() % KINDS };
        let message = Message { kind, payload: &payload };
        self.handle(Event::Deliver { from, message, last: true });
    }

    /// The body of a mostly valid message, about few attempts and objects.
    fn body(&self, kind: Kind, out: &mut Vec<u8>, input: &mut Input<'_>) {
        let id = self.id(input);
        let shard = shard(input);
        match kind {
            Kind::Execute => write::execute(out, id, wants(input)),
            Kind::Executed => {
                write::executed(out, id, shard, status(input), input.coin());
                write_list(out, self.got(input));
            }
            Kind::Validate => {
                let seen: Vec<Seen> = (0..input.byte() % 4)
                    .map(|_| Seen { key: key(input), version: self.version(input) })
                    .collect();
                write::validate(out, id, shard, seen.into_iter());
            }
            Kind::Validated => write::validated(out, id, shard, status(input)),
            Kind::Log => {
                let place = place(id, shard, input);
                let shards = u16::from(input.byte() % 8) | 1 << shard;
                let needs = Room { pages: u32::from(input.byte() % 4), blocks: u32::from(input.byte() % 4) };
                let puts = self.puts(shard, input);
                if input.coin() {
                    // The previous value, which was read, differs in one byte.
                    let base = self.version(input);
                    let read = |put: &Put<'static>| put.value.map(|value| (base, former(value.len())));
                    let replacements = puts.map(|put| Replacement { put, read: read(&put) });
                    write::log_differences(out, &place, shards, needs, replacements);
                } else {
                    write::log(out, &place, shards, needs, puts);
                }
            }
            Kind::Logged => write::place(out, &place(id, shard, input)),
            Kind::Refused => {
                let lack = [Lack::Log, Lack::Passing, Lack::Table][usize::from(input.byte() % 3)];
                write::refused(out, &place(id, shard, input), input.byte().into(), lack);
            }
            Kind::End | Kind::Withdraw | Kind::Withdrawn => write_id(out, id),
            Kind::Marks => {
                let heard = u64::from(input.byte());
                write::marks(out, heard, input.long(), input.long(), input.coin());
            }
            Kind::Ship => {
                let procedure = ProcedureId(u16::from(input.byte() % 4));
                let length = usize::from(input.byte()).min(INPUT_MAX) % 20;
                let bytes = input.bytes(length);
                let wants = wants(input);
                write::ship(out, id, procedure, bytes, wants, self.got(input));
            }
            Kind::Shipped => {
                let (status, reason) = (status(input), input.byte());
                write::shipped(out, id, status, reason, u16::from(input.byte()), &[1, 2]);
            }
            Kind::Report => {
                let full = NodeSet::from_bits(u16::from(input.byte() % 8));
                let base = Base { epoch: Epoch(u32::from(input.byte()) % 4), full, joining: NodeSet::EMPTY };
                let parts = 1 + u16::from(input.byte() % 2);
                let part = u16::from(input.byte()) % parts;
                let verdicts = [Verdict::Undecided, Verdict::Committed, Verdict::Aborted];
                let held: Vec<Held> = (0..input.byte() % 4)
                    .map(|_| Held {
                        id: self.id(input),
                        shards: u16::from(input.byte()),
                        held: u16::from(input.byte()),
                        verdict: input.one_of(&verdicts),
                    })
                    .collect();
                let decided = std::array::from_fn(|_| u64::from(input.byte()));
                write::report(out, input.coin(), (&base, &decided), (part, parts), held.into_iter());
            }
            Kind::Settled => out.push(input.byte()),
            Kind::Copy => copy(out, shard, place_in_table(input)),
            Kind::Lock => {
                let claims: Vec<Claim> =
                    wants(input).map(|want| Claim { want, version: self.version(input) }).collect();
                write::lock(out, id, claims.into_iter());
            }
            Kind::Locked => {
                let drawn: Vec<Drawn> = (0..input.byte() % 4)
                    .map(|_| Drawn { index: input.byte() % 6, new: self.version(input) })
                    .collect();
                locked(out, id, shard, status(input), drawn.into_iter());
            }
            Kind::Copied => {
                let from = place_in_table(input);
                let next = if input.coin() { Cursor::END } else { place_in_table(input) };
                copied(out, shard, from, next, self.puts(shard, input));
            }
        }
    }

    /// The id of an attempt of any node, mostly of the current epoch and with a small number.
    fn id(&self, input: &mut Input<'_>) -> TransactionId {
        let own = input.byte();
        let coordinator = if own >= 0xf0 { usize::from(own & 15) } else { usize::from(own) % NODES };
        let epoch = (input.near(self.view.epoch.0.into()) as u32 & 0xff_ffff).max(1);
        let sequence = u64::from(input.byte() % 40);
        TransactionId::new(NodeId::new(coordinator).expect("below 16"), Epoch(epoch), sequence)
    }

    /// A version that the node may have assigned itself, or a random one.
    fn version(&self, input: &mut Input<'_>) -> Version {
        let first = u64::from(self.view.epoch.0) << 40;
        Version::from_bits(match input.byte() {
            0xff => input.long(),
            number @ 0xf0.. => u64::from(number & 15),
            number => first + u64::from(number % 32),
        })
    }

    fn got(&self, input: &mut Input<'_>) -> impl Iterator<Item = Got<'static>> + use<> {
        let items: Vec<_> = (0..input.byte() % 4)
            .map(|_| Got {
                index: input.byte() % 6,
                read: self.version(input),
                new: self.version(input),
                value: value(input),
            })
            .collect();
        items.into_iter()
    }

    fn puts(&self, shard: usize, input: &mut Input<'_>) -> impl Iterator<Item = Put<'static>> + use<> {
        let items: Vec<_> = (0..input.byte() % 4)
            .map(|_| {
                let key = Key::new(shard, u64::from(input.byte() % 8));
                Put { key, version: self.version(input), value: value(input) }
            })
            .collect();
        items.into_iter()
    }
}

impl Copying {
    fn new(tag: u64, to_host: bool, near: u64, host: u64, length: u32) -> Self {
        Self { tag, to_host, near: near as usize, host: host as usize, length: length as usize }
    }
}

/// A shard of this cluster; rarely one that does not exist.
fn shard(input: &mut Input<'_>) -> usize {
    let byte = usize::from(input.byte());
    if byte >= 0xf0 { byte & 15 } else { byte % NODES }
}

fn key(input: &mut Input<'_>) -> Key {
    let shard = shard(input);
    Key::new(shard, u64::from(input.byte() % 8))
}

fn mode(input: &mut Input<'_>) -> Mode {
    input.one_of(&[Mode::Read, Mode::Update, Mode::Write])
}

fn status(input: &mut Input<'_>) -> Status {
    Status::parse(input.byte() % 12 % 7).expect("a status")
}

fn value(input: &mut Input<'_>) -> Option<&'static [u8]> {
    const BYTES: [u8; VALUE_MAX] = [9; VALUE_MAX];
    input
        .one_of(&[Some(8), None, Some(0), Some(40), Some(300), Some(VALUE_MAX)])
        .map(|length| &BYTES[..length])
}

/// A value of this length that differs from the new value in one byte.
fn former(length: usize) -> &'static [u8] {
    const BYTES: [u8; VALUE_MAX] = {
        let mut bytes = [9; VALUE_MAX];
        bytes[20] = 8;
        bytes
    };
    &BYTES[..length]
}

fn wants(input: &mut Input<'_>) -> impl Iterator<Item = Want> + use<> {
    let items: Vec<_> = (0..input.byte() % 5)
        .map(|place| {
            let index = if input.rarely() { input.byte() } else { place };
            Want { index, access: Access { key: key(input), mode: mode(input) } }
        })
        .collect();
    items.into_iter()
}

fn place(id: TransactionId, shard: usize, input: &mut Input<'_>) -> RecordPart {
    let parts = 1 + input.byte() % 3;
    RecordPart { id, shard, part: input.byte() % parts, parts }
}

fn place_in_table(input: &mut Input<'_>) -> Cursor {
    match input.byte() {
        0..128 => Cursor::START,
        128..250 => Cursor { segment: u32::from(input.byte()), key: u64::from(input.byte()) },
        _ => Cursor { segment: input.word(), key: input.long() },
    }
}
