//! Whatever bytes an engine receives, in whatever phase, it does not panic, and the messages that it sends are
//! well formed.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use weft_rounds::message::{
    Answer, Call, Change, Fetch, Head, Kind, Period, Phase, Proposal, Round, Status, Value,
};
use weft_rounds::{Algorithm, Ckc, Members, Parameters, Record, Register, Rounds, Service, Streams};
use weft_time::Instant;
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

const VALUE_BYTES: usize = 64;
const AREA: usize = 4 * Record::BYTES;
const ROUND: u8 = Kind::Round as u8;
const FETCH: u8 = Kind::Fetch as u8;
const VALUE: u8 = Kind::Value as u8;
const START: u8 = Kind::Start as u8;

fn parameters() -> Parameters {
    Parameters { window: 4, value_bytes: VALUE_BYTES, queue: 2, silence: 4, ..Parameters::default() }
}

fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

/// Node 0 of three.
struct Victim<S> {
    engine: Rounds<Ckc, S>,
    now: Instant,
}

impl<S: Service> Victim<S> {
    fn new(phase: Phase) -> Self {
        let mut victim = Self { engine: Rounds::new(parameters()), now: Instant::ZERO };
        let all = NodeSet::first(3);
        if phase == Phase::Joining {
            victim.configure(View { epoch: Epoch(2), full: all, joining: NodeSet::EMPTY.with(node(0)) });
            victim.tick();
        } else {
            victim.configure(View { epoch: Epoch(1), full: all, joining: NodeSet::EMPTY });
        }
        if phase == Phase::Running {
            victim.handle(Event::Deliver {
                from: node(1),
                message: Message { kind: START, payload: &[0; 8] },
                last: true,
            });
        }
        assert_eq!(victim.engine.phase(), phase);
        victim
    }

    fn configure(&mut self, view: View) {
        let lease_until = Instant::FAR_FUTURE;
        self.handle(Event::Configure(Configuration { node: node(0), view, lease_until }));
    }

    fn tick(&mut self) {
        self.now += parameters().period;
        self.handle(Event::Timer { tag: 0 });
    }

    fn handle(&mut self, event: Event<'_>) {
        let (mut effects, mut memory) = (Effects::default(), Memory::new(0));
        self.engine.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut memory });
        for effect in effects.iter() {
            if let Effect::Send { to, kind, payload } = effect {
                assert!(!to.contains(node(0)));
                let bytes = effects.message(*kind, payload).payload;
                assert!(match *kind {
                    ROUND => Round::parse(bytes, AREA, VALUE_BYTES).is_ok(),
                    FETCH => Fetch::parse(bytes).is_ok(),
                    VALUE => Value::parse(bytes, VALUE_BYTES).is_ok(),
                    _ => true,
                });
            }
        }
    }
}

fn members() -> impl Strategy<Value = Members> {
    prop_oneof![3 => Just(Members::first(3)), 2 => (0u8..8).prop_map(Members::from_bits), 1 => any::<u8>().prop_map(Members::from_bits)]
}

fn record() -> impl Strategy<Value = [u8; Record::BYTES]> {
    let row = prop_oneof![2 => Just(7u8), 1 => 0u8..8];
    let rows = (row.clone(), row.clone(), row)
        .prop_map(|(a, b, c)| [a, b, c, 0, 0, 0, 0, 0].map(Members::from_bits));
    let record = (
        rows,
        prop_oneof![3 => Just(Members::EMPTY), 1 => members()],
        any::<bool>(),
        prop::option::of(members()),
    )
        .prop_map(|(rows, suspected, locked, decision)| {
            Record { rows, suspected, locked, decision }.encode()
        });
    prop_oneof![4 => record, 1 => any::<[u8; Record::BYTES]>(), 1 => Just([0; Record::BYTES])]
}

fn proposal() -> impl Strategy<Value = (bool, Vec<u8>)> {
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..70).prop_map(|bytes| (false, bytes)),
        1 => (members(), members()).prop_map(|(add, remove)| (true, Change { add, remove }.encode().to_vec())),
    ]
}

/// A well-formed message with random fields: kind, rounds ahead of the running one, content.
fn message() -> impl Strategy<Value = (u8, u64, Vec<u8>)> {
    let head = (0u64..4, 0u16..3, members(), prop::option::of((1u8..14, members())));
    let round = (head, proposal(), [record(), record(), record(), record()]).prop_map(
        |((ahead, epoch, members, next), (change, bytes), area)| {
            let proposal = Proposal { change, bytes: &bytes };
            let head = Head { round: 0, epoch, members, next, algorithm: Ckc::ID };
            (ROUND, ahead, [&Round::head(&head, &proposal)[..], &area.concat(), &bytes].concat())
        },
    );
    let fetch = (0u64..8, any::<u8>()).prop_map(|(ahead, wanted)| {
        (FETCH, ahead, Fetch { instance: 0, wanted: Members::from_bits(wanted) }.encode().to_vec())
    });
    let value = (0u64..8, 0usize..3, proposal()).prop_map(|(ahead, proposer, (change, bytes))| {
        let value = Value { instance: 0, proposer, proposal: Proposal { change, bytes: &bytes } };
        (VALUE, ahead, [&value.header()[..], &bytes].concat())
    });
    prop_oneof![
        8 => round,
        1 => fetch,
        2 => value,
        1 => (0u8..40, 0u64..3, prop::collection::vec(any::<u8>(), 0..200)),
        1 => (4u8..6, Just(0), Just(vec![0; 8])),
    ]
}

/// One step: the action, a message, and the position at which it is damaged.
type Step = (usize, (u8, u64, Vec<u8>), usize);

fn attack<S: Service>(phase: Phase, steps: Vec<Step>) {
    let mut victim = Victim::<S>::new(phase);
    for (what, (kind, ahead, mut payload), damage) in steps {
        // Most messages get a round near the running one, because these are handled; some keep a random round.
        if (ROUND..=VALUE).contains(&kind) && payload.len() >= 8 {
            let round = victim.engine.round().unwrap_or(0) + ahead;
            payload[..8].copy_from_slice(&round.saturating_sub(1).to_be_bytes());
        }
        if damage < 30 && !payload.is_empty() {
            let place = damage % payload.len();
            payload[place] ^= 0x81;
        }
        let message = Message { kind, payload: &payload };
        match what {
            0..=2 => victim.tick(),
            3 => victim.handle(Event::Call { caller: Caller::Host(1), message, last: true }),
            4 => victim.handle(Event::Call {
                caller: Caller::Host(2),
                message: Message { kind: Call::Propose as u8, payload: &payload },
                last: true,
            }),
            from => victim.handle(Event::Deliver { from: node(1 + from % 4), message, last: true }),
        }
    }
    // The engine either goes on with the rounds, or has stopped.
    let round = victim.engine.round();
    victim.tick();
    if victim.engine.phase() == Phase::Running && round.is_some() {
        assert_eq!(victim.engine.round(), round.map(|round| round + 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_message_is_fatal(
        phase in prop::sample::select(vec![Phase::Running, Phase::Running, Phase::Ready, Phase::Joining]),
        register in any::<bool>(),
        steps in prop::collection::vec((0usize..13, message(), 0usize..300), 0..120),
    ) {
        if register {
            attack::<Register>(phase, steps);
        } else {
            attack::<Streams>(phase, steps);
        }
    }
}

/// Calls reserved to the host change nothing if another caller makes them, in whatever phase the node is, and are
/// counted.
#[test]
fn strangers_do_not_command_a_node() {
    let strangers = [
        Caller::Endpoint { address: Ipv4Addr::LOCALHOST, port: 9 },
        Caller::QueuePair(weft_verbs::QueuePairNumber(3)),
    ];
    let period = Period(510).encode();
    for phase in [Phase::Ready, Phase::Joining, Phase::Running] {
        for caller in strangers {
            for (call, payload) in [
                (Call::Start, &[][..]),
                (Call::Subscribe, &[]),
                (Call::Leave, &[]),
                (Call::SetPeriod, &period),
            ] {
                let mut victim: Victim<Streams> = Victim::new(phase);
                let state = |victim: &Victim<Streams>| {
                    let engine = &victim.engine;
                    let others =
                        engine.counters().into_iter().filter(|(name, _)| *name != "dropped_not_member");
                    format!(
                        "{:?} {:?} {:?} {:?} {:?}",
                        engine.phase(),
                        engine.timings(),
                        engine.membership(),
                        engine.service(),
                        others.collect::<Vec<_>>()
                    )
                };
                let dropped = |victim: &Victim<Streams>| {
                    let mut counters = victim.engine.counters().into_iter();
                    counters.find(|(name, _)| *name == "dropped_not_member").expect("it is counted").1
                };
                let before = (state(&victim), dropped(&victim));
                let (mut effects, mut memory) = (Effects::default(), Memory::new(0));
                let message = Message { kind: call as u8, payload };
                let io = &mut Io { effects: &mut effects, memory: &mut memory };
                victim.engine.handle(victim.now, Event::Call { caller, message, last: true }, io);
                assert_eq!(before.0, state(&victim), "{call:?} of {caller:?} in {phase:?}");
                assert_eq!(before.1 + 1, dropped(&victim), "{call:?} of {caller:?} in {phase:?}");
                let all: Vec<_> = effects.iter().collect();
                let [Effect::Reply { to, kind, payload }] = all[..] else { panic!("{all:?}") };
                let answer = Answer::parse(effects.message(*kind, payload).payload).unwrap();
                assert_eq!((*to, answer.status), (caller, Status::BadRequest));
            }
        }
    }
}
