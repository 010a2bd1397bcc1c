//! Whatever bytes an engine receives, in whatever state, it does not panic and can still serve.

use proptest::prelude::*;
use weft_kv::message::{
    Acknowledge, Commit, Cut, Kind, Lengths, Reply, Request, Sealed, StateChunk, StateRequest, What, Write,
};
use weft_kv::{Client, ClientParameters, Kv, Operation, Parameters, Role, Status};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

fn parameters() -> Parameters {
    Parameters { buckets: 256, ways: 2, value_bytes_max: 32, window: 4, sessions: 2, ..Parameters::default() }
}

fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

struct Victim {
    kv: Kv,
    memory: Memory,
    effects: Effects,
    now: Instant,
}

impl Victim {
    /// Node 0 of three: full, sealed between epochs, or joining.
    fn new(state: usize) -> Self {
        let mut victim = Self {
            kv: Kv::new(parameters()),
            memory: Memory::new(parameters().memory_bytes()),
            effects: Effects::default(),
            now: Instant::ZERO,
        };
        let (full, others) = (NodeSet::first(3), NodeSet::first(3).without(node(0)));
        match state {
            0 => victim.configure(1, full, NodeSet::EMPTY),
            1 => {
                victim.configure(1, full, NodeSet::EMPTY);
                victim.configure(2, full, NodeSet::EMPTY);
            }
            _ => victim.configure(2, others, NodeSet::EMPTY.with(node(0))),
        }
        assert_eq!(victim.kv.role(), [Role::Full, Role::Sealed, Role::Joining][state]);
        victim
    }

    fn configure(&mut self, epoch: u32, full: NodeSet, joining: NodeSet) {
        let view = View { epoch: Epoch(epoch), full, joining };
        let lease_until = Instant::ZERO + Duration::from_secs(1000);
        self.handle(Event::Configure(Configuration { node: node(0), view, lease_until }));
    }

    fn handle(&mut self, event: Event<'_>) {
        self.effects.clear();
        self.now += Duration::from_us(100);
        self.kv.handle(self.now, event, &mut Io { effects: &mut self.effects, memory: &mut self.memory });
    }

    /// Passes a client's datagram to the node, which answers it at once. Returns the answer's status and value.
    fn call(&mut self, payload: &[u8]) -> (Status, Vec<u8>) {
        let message = Message { kind: Kind::Request as u8, payload };
        self.handle(Event::Call { caller: Caller::Host(0), message, last: true });
        let answers: Vec<_> = self.effects.iter().collect();
        let [Effect::Reply { kind, payload, .. }] = &answers[..] else { panic!("no answer in {answers:?}") };
        let reply = Reply::parse(self.effects.message(*kind, payload).payload).unwrap();
        (reply.status, reply.value.to_vec())
    }
}

/// The datagram with which a client sends its first request.
fn request(client: u64, operation: Operation, key: u64, value: &[u8]) -> Vec<u8> {
    let key = key.to_be_bytes();
    let header = Request { operation, client, request: 1, expected: 0, key: &key, value }.header();
    [&header[..], &key, value].concat()
}

/// An old datagram arrives again when the node has forgotten its client, and another client has overwritten the key.
#[test]
fn a_put_that_is_repeated_after_any_time_changes_nothing() {
    let mut victim = Victim::new(0);
    victim.configure(2, NodeSet::first(1), NodeSet::EMPTY);
    let old = request(5, Operation::Put, 0, b"old");
    assert_eq!(victim.call(&old).0, Status::Ok);
    assert_eq!(victim.call(&old).0, Status::Ok, "it is answered from its record");
    victim.now += Duration::from_secs(75);
    // There are two sessions, so the node forgets the client that has been silent.
    for (client, key) in [(6, 0), (7, 1)] {
        assert_eq!(victim.call(&request(client, Operation::Put, key, b"new")).0, Status::Ok);
    }
    assert_eq!(victim.call(&old).0, Status::Forgotten);
    victim.now += Duration::from_secs(75);
    assert_eq!(victim.call(&old).0, Status::Forgotten, "although sessions have become free");
    assert_eq!(victim.call(&request(8, Operation::Get, 0, b"")), (Status::Ok, b"new".to_vec()));
}

/// A node that starts over goes on with its counters.
#[test]
fn a_reset_keeps_the_counters() {
    let mut victim = Victim::new(0);
    let message = Message { kind: Kind::Write as u8, payload: &[] };
    victim.handle(Event::Deliver { from: node(1), message, last: true });
    let counted = victim.kv.counters();
    assert!(counted.contains(&("dropped_malformed", 1)), "{counted:?}");
    victim.handle(Event::Reset);
    assert_eq!(victim.kv.role(), Role::Outside);
    assert_eq!(victim.kv.counters(), counted);
}

/// A well-formed message with random fields. Their values are small, so that many are plausible.
fn message() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let small = 0u64..7;
    let epoch = 0u32..4;
    let lengths = || prop::collection::vec(0u64..4, 16).prop_map(|list| Lengths::try_from(list).unwrap());
    let operation = prop::sample::select(vec![
        Operation::Get,
        Operation::Put,
        Operation::Delete,
        Operation::CompareAndSet,
        Operation::CompareAndDelete,
        Operation::Scan,
        Operation::Backup,
    ]);
    let status =
        prop::sample::select(vec![Status::Ok, Status::NotFound, Status::Mismatch, Status::TableFull]);
    let value = prop::collection::vec(any::<u8>(), 0..40);
    let write =
        (epoch.clone(), operation.clone(), status, (0u64..7, 0u64..7), 0u64..3, 0u64..40, value.clone())
            .prop_map(|(epoch, operation, status, (number, committed), client, key, value)| {
                let epoch = Epoch(epoch);
                let key = key.to_be_bytes();
                let version = weft_kv::version(epoch, number);
                let write = Write {
                    epoch,
                    operation,
                    status,
                    number,
                    committed,
                    client,
                    request: number,
                    version,
                    key: &key,
                    value: &value,
                };
                (Kind::Write as u8, [&write.header()[..], &key, &value].concat())
            });
    let acknowledge = (epoch.clone(), small.clone(), small.clone(), any::<bool>(), any::<bool>()).prop_map(
        |(epoch, accepted, committed, gap, asks)| {
            let durable = gap.then_some(committed);
            let message = Acknowledge { epoch: Epoch(epoch), accepted, committed, durable, gap, asks };
            let mut bytes = [0; Acknowledge::BYTES_MAX];
            let length = message.encode(&mut bytes);
            (Kind::Acknowledge as u8, bytes[..length].to_vec())
        },
    );
    let commit = (epoch.clone(), small.clone()).prop_map(|(epoch, committed)| {
        (Kind::Commit as u8, Commit { epoch: Epoch(epoch), committed }.encode().to_vec())
    });
    let sealed = (epoch.clone(), epoch.clone(), any::<u16>(), any::<u16>(), lengths(), lengths()).prop_map(
        |(epoch, base, members, heard, accepted, cut)| {
            let sealed = Sealed {
                epoch: Epoch(epoch),
                base: Epoch(base),
                base_members: NodeSet::from_bits(members | 7),
                heard: NodeSet::from_bits(heard),
                certain: NodeSet::from_bits(heard & members),
                accepted,
                cuts: [
                    Cut { epoch: Epoch(base), lengths: cut },
                    Cut::default(),
                    Cut::default(),
                    Cut::default(),
                ],
            };
            let mut bytes = [0; Sealed::BYTES_MAX];
            let length = sealed.encode(&mut bytes);
            (Kind::Sealed as u8, bytes[..length].to_vec())
        },
    );
    let what = prop::sample::select(vec![What::Buckets, What::Sessions]);
    let state_request = (epoch.clone(), 0u32..4, what.clone(), prop_oneof![0u32..300, any::<u32>()])
        .prop_map(|(epoch, attempt, what, from)| {
            let request = StateRequest { epoch: Epoch(epoch), attempt, what, from };
            (Kind::StateRequest as u8, request.encode().to_vec())
        });
    let records = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..500),
        Just(vec![0; 392]),
        (0u64..40).prop_map(|key| {
            [
                &weft_kv::version(Epoch(2), 1).to_be_bytes()[..],
                &[0, 8, 0, 0, 0, 0, 0, 0],
                &key.to_be_bytes(),
                &[1; 8],
            ]
            .concat()
        }),
    ];
    let chunk = (
        epoch,
        0u32..4,
        what,
        any::<bool>(),
        (0u32..2, prop_oneof![0u32..300, any::<u32>()]),
        small,
        records,
    )
        .prop_map(|(epoch, attempt, what, last, (from, next), tag, records)| {
            let chunk =
                StateChunk { epoch: Epoch(epoch), attempt, what, last, from, next, tag, records: &records };
            (Kind::StateChunk as u8, [&chunk.header()[..], &records].concat())
        });
    let request = (operation, 0u64..4, 0u64..20, 0u64..40, value).prop_map(
        |(operation, client, request, key, value)| {
            let key = key.to_be_bytes();
            let header =
                Request { operation, client, request, expected: 0, key: &key, value: &value }.header();
            (Kind::Request as u8, [&header[..], &key, &value].concat())
        },
    );
    prop_oneof![
        4 => write,
        2 => acknowledge,
        1 => commit,
        1 => sealed,
        1 => state_request,
        2 => chunk,
        3 => request,
        1 => (any::<u8>(), prop::collection::vec(any::<u8>(), 0..200)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_message_is_fatal(
        state in 0usize..3,
        steps in prop::collection::vec((0usize..5, message(), any::<bool>(), any::<prop::sample::Index>(), 0u8..10), 0..60),
    ) {
        let mut victim = Victim::new(state);
        for (from, (kind, mut payload), last, place, damage) in steps {
            if damage == 0 && !payload.is_empty() {
                payload.truncate(place.index(payload.len()));
            } else if damage == 1 && !payload.is_empty() {
                let place = place.index(payload.len());
                payload[place] ^= 0x81;
            }
            let message = Message { kind, payload: &payload };
            match from {
                0 => victim.handle(Event::Timer { tag: u32::from(damage) * 7 }),
                4 => victim.handle(Event::Call { caller: Caller::Host(1), message, last }),
                from => victim.handle(Event::Deliver { from: node(from), message, last }),
            }
        }
        // In a view of which the node is the only member nothing can stay undecided, whatever messages came
        // before.
        let epoch = victim.kv.status().epoch.0 + 1;
        victim.configure(epoch, NodeSet::first(1), NodeSet::EMPTY);
        prop_assert!(matches!(victim.kv.role(), Role::Full | Role::Lost));
        prop_assert_eq!(victim.kv.undecided(), 0);
    }

    #[test]
    fn clients_take_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 0u8..4) {
        let mut client = Client::new(ClientParameters::new(1, NodeSet::first(3)));
        client.start(Instant::ZERO, weft_kv::Task::Get { key: &[0; 8] }).unwrap();
        let _ = client.receive(Instant::ZERO, kind, &bytes);
        prop_assert!(client.next_deadline().is_some());
    }
}
