//! Messages decode to what was encoded. All other input is rejected, and never causes a panic.

use proptest::collection::vec;
use proptest::prelude::*;
use weft_time::Instant;
use weft_txn::Room;
use weft_txn::host_port::{HostKind, HostMessage};
use weft_txn::message::{
    Base, Body, Claim, Got, Header, Held, Kind, List, Put, Reader, RecordPart, Replacement, Seen, Status,
    Verdict, Want, write, write_id, write_list,
};
use weft_txn::store::{IndexParameters, Precision, Shape};
use weft_txn::{
    Access, Context, Key, Mode, Parameters, Placement, Procedure, ProcedureId, Procedures, Step,
    TransactionId, Transactions, Version,
};
use weft_verbs::CompletionStatus;
use weft_waist::{
    Caller, Capabilities, Configuration, Effect, Effects, Engine, EngineState, Epoch, Event, Io, Memory,
    Message, NodeId, NodeSet, View,
};

fn key() -> impl Strategy<Value = Key> {
    (0usize..16, 0u64..1 << 56).prop_map(|(shard, local)| Key::new(shard, local))
}

fn want() -> impl Strategy<Value = Want> {
    let mode = prop_oneof![Just(Mode::Read), Just(Mode::Update), Just(Mode::Write)];
    (any::<u8>(), key(), mode).prop_map(|(index, key, mode)| Want { index, access: Access { key, mode } })
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(vec(any::<u8>(), 0..300))
}

fn id() -> impl Strategy<Value = TransactionId> {
    (0usize..16, 1u32..1 << 24, 0u64..1 << 36).prop_map(|(node, epoch, sequence)| {
        TransactionId::new(NodeId::new(node).expect("below 16"), Epoch(epoch), sequence)
    })
}

fn node(index: usize) -> NodeId {
    NodeId::new(index).expect("a node")
}

proptest! {
    #[test]
    fn lists_are_read_as_they_were_written(
        wants in vec(want(), 0..64),
        values in vec((key(), any::<u64>(), value()), 0..20),
        ids in vec((id(), any::<u16>(), any::<u16>()), 0..60),
    ) {
        let mut out = Vec::new();
        write_list(&mut out, wants.iter().copied());
        let mut reader = Reader(&out);
        prop_assert_eq!(List::<Want>::read(&mut reader).unwrap().iter().collect::<Vec<_>>(), wants);
        prop_assert!(reader.finish().is_ok());

        let version = Version::from_bits;
        let puts: Vec<_> = values
            .iter()
            .map(|(key, bits, value)| Put { key: *key, version: version(*bits), value: value.as_deref() })
            .collect();
        out.clear();
        write_list(&mut out, puts.iter().copied());
        prop_assert_eq!(List::<Put<'_>>::read(&mut Reader(&out)).unwrap().iter().collect::<Vec<_>>(), puts);
        let seen: Vec<_> =
            values.iter().map(|(key, bits, _)| Seen { key: *key, version: version(*bits) }).collect();
        out.clear();
        write_list(&mut out, seen.iter().copied());
        prop_assert_eq!(List::<Seen>::read(&mut Reader(&out)).unwrap().iter().collect::<Vec<_>>(), seen);
        let got: Vec<_> = values
            .iter()
            .map(|(_, bits, value)| Got { index: 5, read: version(*bits), new: version(!bits), value: value.as_deref() })
            .collect();
        out.clear();
        write_list(&mut out, got.iter().copied());
        prop_assert_eq!(List::<Got<'_>>::read(&mut Reader(&out)).unwrap().iter().collect::<Vec<_>>(), got);
        let held: Vec<_> = ids
            .iter()
            .map(|(id, shards, held)| Held { id: *id, shards: *shards, held: *held, verdict: Verdict::Committed })
            .collect();
        out.clear();
        write_list(&mut out, held.iter().copied());
        prop_assert_eq!(List::<Held>::read(&mut Reader(&out)).unwrap().iter().collect::<Vec<_>>(), held);
    }

    #[test]
    fn a_header_and_a_place_are_read_as_they_were_written(
        epoch: u32, decided in 0u64..1 << 40, behind: u32, id in id(), shard in 0usize..16, part in 0u8..10,
    ) {
        let header = Header { epoch: Epoch(epoch), decided, truncated: decided.saturating_sub(behind.into()) };
        let mut out = Vec::new();
        header.encode(&mut out);
        let place = RecordPart { id, shard, part, parts: part + 1 };
        write::place(&mut out, &place);
        let mut reader = Reader(&out);
        prop_assert_eq!(Header::parse(&mut reader).unwrap(), header);
        let body = Body::parse(Kind::Logged, reader).unwrap();
        let Body::Logged { place: read } = body else { panic!("another body") };
        prop_assert_eq!(read, place);
    }

    #[test]
    fn any_bytes_are_a_message_or_refused(kind: u8, bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(kind) = Kind::parse(kind) {
            let _ = Body::parse(kind, Reader(&bytes));
        }
        let _ = HostMessage::parse(kind, &bytes);
    }

    /// Messages of peers and clients about unknown attempts do no harm, whether they are well-formed or not.
    #[test]
    fn an_engine_survives_what_a_peer_says(
        messages in vec((0u8..19, id(), vec(any::<u8>(), 0..80), 0u64..40, any::<bool>()), 1..60),
    ) {
        let mut node_0 = Node::new([]);
        for (kind, id, bytes, decided, with_id) in messages {
            let mut payload = Vec::new();
            Header { epoch: Epoch(1), decided, truncated: 0 }.encode(&mut payload);
            let header_bytes = payload.len();
            if with_id {
                write_id(&mut payload, id);
            }
            payload.extend_from_slice(&bytes);
            let message = Message { kind, payload: &payload };
            node_0.handle(Event::Deliver { from: node(1), message, last: true });
            let message = Message { kind: 64 + kind, payload: &payload[header_bytes..] };
            node_0.handle(Event::Call { caller: Caller::Host(1), message, last: true });
        }
    }
}

/// A procedure that always aborts.
struct Refusal;

impl Procedure for Refusal {
    fn name(&self) -> &'static str {
        "refusal"
    }

    fn run(&self, _: &mut Context<'_>) -> Step {
        Step::Abort(1)
    }
}

/// A procedure that stays on the host.
struct OnHost;

impl Procedure for OnHost {
    fn name(&self) -> &'static str {
        "on host"
    }

    fn run(&self, _: &mut Context<'_>) -> Step {
        Step::Commit
    }

    fn ship(&self) -> bool {
        false
    }
}

fn procedures() -> Procedures {
    Procedures::new(vec![Box::new(Refusal), Box::new(OnHost)])
}

/// An engine of node 0, and the messages that it sends.
struct Node {
    engine: Transactions,
    memory: Memory,
    effects: Effects,
}

impl Node {
    /// Node 0 of three founders. Its engine holds these objects of 1,000 bytes in its own tables.
    fn new(objects: impl IntoIterator<Item = Key>) -> Self {
        Self::of(Placement::Host, objects)
    }

    /// The same with tables at `placement`. On a card, the objects are in the index.
    fn of(placement: Placement, objects: impl IntoIterator<Item = Key>) -> Self {
        let parameters = Parameters { window: 16, log_bytes: 1 << 16, ..Parameters::new(3, 2) };
        let mut engine = Transactions::new(parameters, procedures(), placement);
        for key in objects {
            match placement {
                Placement::Card { .. } => engine.warm(key, &[1; 1000]),
                _ => engine.load(key, &[1; 1000]),
            }
        }
        let memory = Memory::new(Transactions::memory_bytes(&parameters, &placement));
        let mut node = Self { engine, memory, effects: Effects::default() };
        node.configure(View { epoch: Epoch(1), full: NodeSet::first(3), joining: NodeSet::EMPTY });
        node
    }

    fn handle(&mut self, event: Event<'_>) {
        self.effects.clear();
        let mut io = Io { effects: &mut self.effects, memory: &mut self.memory };
        self.engine.handle(Instant::ZERO, event, &mut io);
    }

    fn configure(&mut self, view: View) {
        let lease_until = Instant::FAR_FUTURE;
        self.handle(Event::Configure(Configuration { node: node(0), view, lease_until }));
    }

    /// Node 1 sends this message in `epoch`.
    fn deliver(&mut self, epoch: Epoch, kind: Kind, body: impl FnOnce(&mut Vec<u8>)) {
        let mut payload = Vec::new();
        Header { epoch, decided: 0, truncated: 0 }.encode(&mut payload);
        body(&mut payload);
        let message = Message { kind: kind as u8, payload: &payload };
        self.handle(Event::Deliver { from: node(1), message, last: true });
    }

    /// The message of this kind that the engine has just sent.
    fn said(&self, wanted: Kind) -> Option<&[u8]> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Send { kind, payload, .. } if *kind == wanted as u8 => {
                Some(self.effects.message(*kind, payload).payload)
            }
            _ => None,
        })
    }
}

#[test]
fn a_report_may_name_a_coordinator_that_is_none() {
    let mut node_0 = Node::new([]);
    let epoch = Epoch(2);
    let full = NodeSet::first(2);
    node_0.configure(View { epoch, full, joining: NodeSet::EMPTY });
    let id = TransactionId::new(node(15), Epoch(1), 3);
    let held = Held { id, shards: 1, held: 1, verdict: Verdict::Undecided };
    let base = Base { epoch: Epoch(1), full: NodeSet::first(3), joining: NodeSet::EMPTY };
    node_0.deliver(epoch, Kind::Report, |out| {
        write::report(out, true, (&base, &[0; 16]), (0, 1), [held].into_iter())
    });
    node_0.deliver(epoch, Kind::Settled, |out| out.push(1));
    let refused = node_0.engine.counted().unavailable;
    let message = Message { kind: 64, payload: &[0, 0, 0, 0, 0] };
    node_0.handle(Event::Call { caller: Caller::Host(1), message, last: true });
    assert_eq!(node_0.engine.counted().unavailable, refused, "it serves in the new view");
}

/// After a refused shipment, a record of the attempt may still be logged. It is acknowledged by LOGGED, and
/// the outcome of the run is not repeated.
#[test]
fn what_was_refused_may_be_logged_nevertheless() {
    let key = Key::new(0, 1);
    let mut node_0 = Node::new([key]);
    let id = TransactionId::new(node(1), Epoch(1), 0);
    let want = Want { index: 0, access: Access { key, mode: Mode::Update } };
    let nothing = std::iter::empty::<Got<'_>>();
    node_0.deliver(Epoch(1), Kind::Ship, |out| {
        write::ship(out, id, ProcedureId(0), &[], [want].into_iter(), nothing);
    });
    let place = RecordPart { id, shard: 2, part: 0, parts: 1 };
    let put = Put { key: Key::new(2, 1), version: Version::from_bits(1 << 40), value: None };
    node_0.deliver(Epoch(1), Kind::Log, |out| {
        write::log(out, &place, 1 << 2, Room::default(), [put].into_iter())
    });
    let sent = node_0.effects.iter().filter_map(|effect| match effect {
        Effect::Send { kind, .. } => Some(*kind),
        _ => None,
    });
    assert_eq!(sent.collect::<Vec<_>>(), [Kind::Logged as u8]);
}

#[test]
fn pages_behind_the_last_are_refused_or_empty() {
    let cursor = |segment: u32, key: u64| [&[0][..], &segment.to_be_bytes(), &key.to_be_bytes()].concat();
    for (segment, key) in [(u32::MAX, 0), (u32::MAX, 7)] {
        assert!(Body::parse(Kind::Copy, Reader(&cursor(segment, key))).is_err());
    }
    let mut node_0 = Node::new([Key::new(0, 1), Key::new(0, 2)]);
    let epoch = Epoch(2);
    node_0.configure(View { epoch, full: NodeSet::first(1), joining: NodeSet::EMPTY.with(node(1)) });
    for (segment, objects) in [(0, 1), (5, 0)] {
        node_0.deliver(epoch, Kind::Copy, |out| out.extend_from_slice(&cursor(segment, 0)));
        let sent = node_0.effects.iter().find_map(|effect| match effect {
            Effect::Send { kind, payload, .. } => Some(node_0.effects.message(*kind, payload)),
            _ => None,
        });
        let mut reader = Reader(sent.expect("an answer").payload);
        Header::parse(&mut reader).unwrap();
        match Body::parse(Kind::Copied, reader) {
            Ok(Body::Copied(page)) => assert_eq!(page.puts.len(), objects),
            other => panic!("{other:?}"),
        }
    }
}

/// A withdrawn attempt may still take effect at other nodes, if all replicas that have withdrawn it crash. So
/// no other attempt may lock its keys before it ends.
#[test]
fn what_is_withdrawn_keeps_its_locks_until_it_ends() {
    let key = Key::new(0, 1);
    let mut node_0 = Node::new([key]);
    let attempt = |sequence| TransactionId::new(node(1), Epoch(1), sequence);
    let execute = |node_0: &mut Node, sequence| {
        let want = Want { index: 0, access: Access { key, mode: Mode::Update } };
        node_0.deliver(Epoch(1), Kind::Execute, |out| {
            write::execute(out, attempt(sequence), [want].into_iter())
        });
        let mut reader = Reader(node_0.said(Kind::Executed).expect("an answer"));
        Header::parse(&mut reader).unwrap();
        match Body::parse(Kind::Executed, reader) {
            Ok(Body::Executed { status, got, .. }) => (status, got.iter().next().map(|got| got.new)),
            other => panic!("{other:?}"),
        }
    };
    let (status, version) = execute(&mut node_0, 0);
    assert_eq!(status, Status::Ok);
    let place = RecordPart { id: attempt(0), shard: 0, part: 0, parts: 1 };
    let put = Put { key, version: version.expect("it is locked"), value: Some(b"new") };
    node_0.deliver(Epoch(1), Kind::Log, |out| write::log(out, &place, 1, Room::default(), [put].into_iter()));
    assert!(node_0.said(Kind::Logged).is_some());
    let id = attempt(0);
    node_0.deliver(Epoch(1), Kind::Withdraw, |out| write_id(out, id));
    assert!(node_0.said(Kind::Withdrawn).is_some());
    assert_eq!(execute(&mut node_0, 1), (Status::Conflict, None), "it is withdrawn, and has not ended");
    node_0.deliver(Epoch(1), Kind::End, |out| write_id(out, id));
    assert_eq!(execute(&mut node_0, 2).0, Status::Ok);
}

/// A view change decides all attempts of earlier views. If such an attempt's run were logged in the new view,
/// joining nodes would log records that the others have aborted.
#[test]
fn what_a_run_of_a_former_view_has_left_is_not_logged() {
    let key = Key::new(0, 1);
    let mut node_0 = Node::new([key]);
    let begin = [&[0, 1, 0, 0, 1, 0, 1][..], &key.bits().to_be_bytes()].concat();
    let message = Message { kind: HostKind::Begin as u8, payload: &begin };
    node_0.handle(Event::Call { caller: Caller::Host(1), message, last: true });
    let id = TransactionId::new(node(0), Epoch(1), 0);
    let run = |effect: &Effect| matches!(effect, Effect::Reply { kind, .. } if *kind == HostKind::Run as u8);
    assert!(node_0.effects.iter().any(run), "the host is to run it");
    let mut ran = Vec::new();
    write_id(&mut ran, id);
    ran.extend_from_slice(&[0, 0, 0]);
    write_list(&mut ran, [Put { key, version: Version::ZERO, value: Some(b"new") }].into_iter());
    ran.extend_from_slice(&[0, 0]);
    let message = Message { kind: HostKind::Ran as u8, payload: &ran };
    let ran = Event::Call { caller: Caller::Host(1), message, last: true };
    // The other members have not sent their reports yet.
    node_0.configure(View {
        epoch: Epoch(2),
        full: NodeSet::first(2),
        joining: NodeSet::EMPTY.with(node(2)),
    });
    node_0.handle(ran);
    assert!(node_0.said(Kind::Log).is_none());
}

/// A shipped transaction that turns out to need more keys restarts. The second attempt does not conflict with
/// the locks that the first one took on this node.
#[test]
fn a_restarted_transaction_does_not_conflict_with_itself() {
    let keys = [Key::new(0, 1), Key::new(1, 1)];
    let mut node_0 = Node::new(keys);
    let mut begin = vec![0, 0, 0, 0];
    let wants =
        (0..).zip(keys).map(|(index, key)| Want { index, access: Access { key, mode: Mode::Update } });
    write_list(&mut begin, wants);
    let message = Message { kind: HostKind::Begin as u8, payload: &begin };
    node_0.handle(Event::Call { caller: Caller::Host(1), message, last: true });
    assert!(node_0.said(Kind::Ship).is_some());
    let id = TransactionId::new(node(0), Epoch(1), 0);
    node_0.deliver(Epoch(1), Kind::Shipped, |out| write::shipped(out, id, Status::More, 0, 0, &[]));
    assert_eq!(node_0.engine.counted().recalled, 1);
    assert_eq!(node_0.engine.counted().conflicts, 0);
    assert!(node_0.said(Kind::Execute).is_some());
}

/// A function that encodes the body of a message.
type Writer<'a> = &'a dyn Fn(&mut Vec<u8>);

/// Requests to lock, run or end an attempt are accepted from its coordinator only. Other nodes do not know
/// what the coordinator has requested.
#[test]
fn nobody_speaks_for_another_coordinator() {
    let want = Want { index: 0, access: Access { key: Key::new(0, 1), mode: Mode::Update } };
    for (coordinator, heard) in [(1, true), (2, false), (0, false)] {
        let id = TransactionId::new(node(coordinator), Epoch(1), 0);
        let says: [(Kind, Writer<'_>); 6] = [
            (Kind::Execute, &|out| write::execute(out, id, [want].into_iter())),
            (Kind::Lock, &|out| write::lock(out, id, [Claim { want, version: Version::ZERO }].into_iter())),
            (Kind::Validate, &|out| {
                let seen = Seen { key: want.access.key, version: Version::ZERO };
                write::validate(out, id, 0, [seen].into_iter());
            }),
            (Kind::Ship, &|out| {
                write::ship(out, id, ProcedureId(0), &[], [want].into_iter(), [].into_iter())
            }),
            (Kind::Withdraw, &|out| write_id(out, id)),
            (Kind::End, &|out| write_id(out, id)),
        ];
        for (kind, body) in says {
            let mut node_0 = Node::new([want.access.key]);
            node_0.deliver(Epoch(1), kind, body);
            assert_eq!(node_0.engine.counted().malformed, 0, "{kind:?}");
            let answers = node_0.effects.iter().any(|effect| matches!(effect, Effect::Send { .. }));
            assert_eq!(answers, heard && kind != Kind::End, "{kind:?} of node {coordinator}");
            assert_eq!(node_0.engine.counted().stale == 0, heard, "{kind:?} of node {coordinator}");
        }
    }
}

/// Between two views a node locks nothing, and counts what it has dropped.
#[test]
fn what_arrives_before_the_node_serves_is_dropped() {
    let key = Key::new(0, 1);
    let mut node_0 = Node::new([key]);
    let epoch = Epoch(2);
    node_0.configure(View { epoch, full: NodeSet::first(2), joining: NodeSet::EMPTY });
    let want = Want { index: 0, access: Access { key, mode: Mode::Update } };
    for dropped in 1..3 {
        let id = TransactionId::new(node(1), epoch, dropped);
        node_0.deliver(epoch, Kind::Execute, |out| write::execute(out, id, [want].into_iter()));
        assert!(node_0.said(Kind::Executed).is_none());
        assert_eq!(node_0.engine.counted().not_serving, dropped);
    }
}

#[test]
fn a_record_of_another_view_is_not_kept() {
    for (epoch, kept) in [(1, true), (2, false)] {
        let mut node_0 = Node::new([]);
        let place =
            RecordPart { id: TransactionId::new(node(1), Epoch(epoch), 0), shard: 2, part: 0, parts: 1 };
        let put = Put { key: Key::new(2, 1), version: Version::from_bits(1 << 40), value: None };
        node_0.deliver(Epoch(1), Kind::Log, |out| {
            write::log(out, &place, 1 << 2, Room::default(), [put].into_iter())
        });
        assert_eq!(node_0.said(Kind::Logged).is_some(), kept);
    }
}

/// Encodes LOG with one write, as a difference to version `base` of a row.
fn changed(out: &mut Vec<u8>, id: TransactionId, key: Key, base: Version) {
    let shard = key.shard();
    let place = RecordPart { id, shard, part: 0, parts: 1 };
    let put = Put { key, version: Version::from_bits(1 << 40), value: Some(&[1; 64]) };
    let replacement = Replacement { put, read: Some((base, &[[0; 8], [1; 8]].concat().repeat(4))) };
    assert!(write::log_differences(out, &place, 1 << shard, Room::default(), [replacement].into_iter()));
}

/// A backup that gets a difference to a value that it does not have stops: it neither makes up a value nor
/// panics.
#[test]
fn a_change_of_something_else_stops_the_backup() {
    for known in [false, true] {
        let key = Key::new(2, 1);
        let mut node_0 = if known { Node::new([key]) } else { Node::new([]) };
        let id = TransactionId::new(node(1), Epoch(1), 0);
        node_0.deliver(Epoch(1), Kind::Log, |out| changed(out, id, key, Version::from_bits(9)));
        assert!(node_0.said(Kind::Logged).is_some(), "what it is to is not known before it is applied");
        node_0.deliver(Epoch(1), Kind::End, |out| write_id(out, id));
        assert_eq!(node_0.engine.counted().strays, 1);
        assert_eq!(node_0.engine.status().state, EngineState::Lost);
    }
}

/// Two placements of a primary's tables: in the engine's memory, and in the host's memory behind an index.
fn placements() -> [Placement; 2] {
    let shape = Shape {
        slots: 128,
        segment_slots: 4,
        displacement: Some(8),
        slot_bytes: 64,
        pages: 64,
        page_slots: 4,
        blocks: 128,
        value_bytes_max: 1000,
    };
    let index = IndexParameters { precision: Precision::Runs, ahead: 0, entries: 16, value_bytes_max: 1000 };
    [Placement::Host, Placement::Card { shape, index, table_address: 1 << 16 }]
}

#[test]
fn an_engine_needs_copies_if_its_tables_are_at_its_host() {
    let [near, far] = placements().map(|placement| Node::of(placement, []).engine.needs());
    assert_eq!((near, far), (Capabilities::CORE, Capabilities::HOST_MEMORY));
}

/// A primary, and the records that peers send it.
struct Primary {
    node: Node,
    key: Key,
    attempts: u64,
}

impl Primary {
    fn new(placement: Placement) -> Self {
        let key = Key::new(0, 1);
        Self { node: Node::of(placement, [key]), key, attempts: 0 }
    }

    /// Another attempt locks and reads the key. Returns the attempt, the version of its write, and the value
    /// that it has read.
    fn execute(&mut self) -> (TransactionId, Version, Vec<u8>) {
        let id = TransactionId::new(node(1), Epoch(1), self.attempts);
        self.attempts += 1;
        let want = Want { index: 0, access: Access { key: self.key, mode: Mode::Update } };
        self.node.deliver(Epoch(1), Kind::Execute, |out| write::execute(out, id, [want].into_iter()));
        let mut reader = Reader(self.node.said(Kind::Executed).expect("an answer"));
        Header::parse(&mut reader).unwrap();
        let Ok(Body::Executed { got, .. }) = Body::parse(Kind::Executed, reader) else { panic!() };
        let got = got.iter().next().expect("it is not locked");
        (id, got.new, got.value.expect("it is there").to_vec())
    }

    /// Whether the primary logs these writes of the attempt. The attempt ends in any case.
    fn keeps(&mut self, id: TransactionId, writes: &[Replacement<'_>]) -> bool {
        let place = RecordPart { id, shard: 0, part: 0, parts: 1 };
        self.node.deliver(Epoch(1), Kind::Log, |out| {
            write::log_differences(out, &place, 1, Room::default(), writes.iter().copied());
        });
        let copy = self.node.effects.iter().find_map(|effect| match effect {
            Effect::HostWrite { tag, .. } => Some(*tag),
            _ => None,
        });
        if let Some(tag) = copy {
            self.node.handle(Event::Done { tag, status: CompletionStatus::Success });
        }
        let kept = self.node.said(Kind::Logged).is_some();
        self.node.deliver(Epoch(1), Kind::End, |out| write_id(out, id));
        kept
    }
}

fn changed_in_the_middle(row: &[u8]) -> Vec<u8> {
    let mut row = row.to_vec();
    row[500] = 7;
    row
}

/// Readers at a primary see a write that the host has not applied yet. The primary builds the value from the
/// difference and the former value.
#[test]
fn a_primary_shows_what_a_write_changes() {
    for placement in placements() {
        let mut primary = Primary::new(placement);
        let (id, version, old) = primary.execute();
        let new = changed_in_the_middle(&old);
        let put = Put { key: primary.key, version, value: Some(&new) };
        assert!(primary.keeps(id, &[Replacement { put, read: Some((weft_txn::LOADED, &old)) }]));
        assert_eq!(primary.execute().2, new);
    }
}

#[test]
fn a_primary_refuses_what_it_could_not_show() {
    for placement in placements() {
        let mut primary = Primary::new(placement);
        let (id, version, old) = primary.execute();
        let new = changed_in_the_middle(&old);
        let put = Put { key: primary.key, version, value: Some(&new) };
        let former = Version::from_bits(9);
        assert!(!primary.keeps(id, &[Replacement { put, read: Some((former, &old)) }]));
        let (id, version, old) = primary.execute();
        let longer = [&new[..], &new[..]].concat();
        let put = Put { key: primary.key, version, value: Some(&longer) };
        let base = [&old[..], &old[..]].concat();
        assert!(!primary.keeps(id, &[Replacement { put, read: Some((weft_txn::LOADED, &base)) }]));
        assert_eq!(primary.execute().2, old);
    }
    let mut primary = Primary::new(placements()[1]);
    let (id, version, _) = primary.execute();
    let put = Put { key: primary.key, version, value: Some(&[2; 1001]) };
    assert!(!primary.keeps(id, &[Replacement { put, read: None }]), "its tables do not hold the value");
}

#[test]
fn a_record_may_name_a_key_twice() {
    for placement in placements() {
        let mut primary = Primary::new(placement);
        let (id, version, old) = primary.execute();
        let new = changed_in_the_middle(&old);
        let put = Put { key: primary.key, version, value: Some(&new) };
        let changes = Replacement { put, read: Some((weft_txn::LOADED, &old)) };
        assert!(primary.keeps(id, &[changes, changes]));
        assert_eq!(primary.execute().2, new);
        let mut primary = Primary::new(placement);
        let (id, version, _) = primary.execute();
        let whole = Replacement { put: Put { key: primary.key, version, value: Some(&[2; 9]) }, read: None };
        assert!(primary.keeps(id, &[whole, whole]));
        assert_eq!(primary.execute().2, [2; 9]);
    }
}
