//! A node joins and then takes over from a leader that still runs, step by step.

use weft_lock::message::{Answer, AnswerKind, Call};
use weft_lock::{Lock, Name, Parameters};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, EngineState, Epoch, Event, Io, Memory, Message, NodeId,
    NodeSet, View,
};

const TTL: Duration = Duration::from_ms(1);

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// Messages of an engine to its peer, and its answers.
#[derive(Default)]
struct Said {
    messages: Vec<(u8, Vec<u8>)>,
    answers: Vec<Answer>,
}

fn tell(engine: &mut Lock, us: u64, event: Event<'_>) -> Said {
    let mut effects = Effects::default();
    engine.handle(at(us), event, &mut Io { effects: &mut effects, memory: &mut Memory::new(0) });
    let mut said = Said::default();
    for effect in effects.iter() {
        match effect {
            Effect::Send { kind, payload, .. } => {
                said.messages.push((*kind, effects.message(*kind, payload).payload.to_vec()));
            }
            Effect::Reply { kind, payload, .. } => {
                said.answers.push(Answer::parse(*kind, effects.message(*kind, payload).payload).unwrap());
            }
            _ => {}
        }
    }
    said
}

fn configure(engine: &mut Lock, us: u64, node: usize, epoch: u32, [full, joining]: [u16; 2]) -> Said {
    let (full, joining) = (NodeSet::from_bits(full), NodeSet::from_bits(joining));
    let view = View { epoch: Epoch(epoch), full, joining };
    let node = NodeId::new(node).unwrap();
    tell(engine, us, Event::Configure(Configuration { node, view, lease_until: Instant::FAR_FUTURE }))
}

fn ask(engine: &mut Lock, us: u64, call: Call) -> Said {
    let mut payload = Vec::new();
    let kind = call.encode(&mut payload) as u8;
    tell(
        engine,
        us,
        Event::Call { caller: Caller::Host(0), message: Message { kind, payload: &payload }, last: true },
    )
}

/// Delivers messages to a peer, and returns its messages.
fn carry(said: &Said, from: usize, to: &mut Lock, us: u64) -> Said {
    let mut all = Said::default();
    for (kind, payload) in &said.messages {
        let from = NodeId::new(from).unwrap();
        let one =
            tell(to, us, Event::Deliver { from, message: Message { kind: *kind, payload }, last: true });
        all.messages.extend(one.messages);
        all.answers.extend(one.answers);
    }
    all
}

/// Node 0 has joined the cluster of node 1 and leads epoch 3, whose view node 1 has not received. Owner 7
/// holds lock `a` with the returned token.
fn taken_over(parameters: &Parameters) -> (Lock, Lock, Said, u64) {
    let [mut zero, mut one] = [0, 1].map(|_| Lock::new(parameters.clone()));
    configure(&mut one, 0, 1, 1, [0b10, 0]);
    let name = Name::new(b"a").unwrap();
    let granted = ask(&mut one, 1, Call::Acquire { name, owner: 7, ttl: TTL });
    let token = granted.answers[0].token;
    assert_eq!(granted.answers, [Answer { kind: AnswerKind::Granted, token, time: TTL }]);

    let snapshot = configure(&mut one, 2, 1, 2, [0b10, 0b01]);
    assert_eq!(zero.status().state, EngineState::Starting);
    configure(&mut zero, 2, 0, 2, [0b10, 0b01]);
    assert_eq!(zero.status().state, EngineState::Joining { synced: false });
    carry(&carry(&snapshot, 1, &mut zero, 3), 0, &mut one, 4);
    assert_eq!(zero.status().state, EngineState::Joining { synced: true });
    assert!(one.leads());

    let snapshot = configure(&mut zero, 10, 0, 3, [0b11, 0]);
    (zero, one, snapshot, token)
}

/// The danger if a new leader does not wait: the former leader still renews locks, and only the holder knows.
fn two_leaders(parameters: &Parameters) -> bool {
    let (mut zero, mut one, _, token) = taken_over(parameters);
    let renewed = ask(&mut one, 500, Call::Renew { name: Name::new(b"a").unwrap(), token });
    let query = ask(&mut zero, 500, Call::Query { name: Name::new(b"a").unwrap() });
    renewed.answers[0].kind == AnswerKind::Granted && query.answers[0].kind != AnswerKind::Elsewhere
}

#[test]
fn a_leader_serves_once_all_members_have_entered_its_epoch() {
    assert!(!two_leaders(&Parameters::default()));
    let (mut zero, mut one, snapshot, token) = taken_over(&Parameters::default());
    let name = Name::new(b"a").unwrap();
    // The other node is in the previous epoch and drops messages of this one.
    assert!(carry(&snapshot, 0, &mut one, 900).messages.is_empty());
    configure(&mut one, 901, 1, 3, [0b11, 0]);
    let accepted = carry(&snapshot, 0, &mut one, 902);
    carry(&accepted, 1, &mut zero, 910);
    assert!(zero.leads() && !one.leads());
    // From now on the holder has its whole time to live, whatever the former leader has answered.
    let acquire = Call::Acquire { name, owner: 8, ttl: TTL };
    for (us, left) in [(911, 999), (1_909, 1)] {
        let time = Duration::from_us(left);
        assert_eq!(ask(&mut zero, us, acquire).answers, [Answer { kind: AnswerKind::Held, token, time }]);
    }
    let granted = ask(&mut zero, 1_910, acquire);
    assert!(granted.answers.is_empty(), "the other one has not accepted it");
    let other = NodeId::new(1).unwrap();
    assert_eq!((zero.waits_for(other), one.waits_for(NodeId::new(0).unwrap())), (Some(1), None));
    let granted = carry(&carry(&granted, 0, &mut one, 1_911), 1, &mut zero, 1_912);
    assert_eq!(granted.answers[0].kind, AnswerKind::Granted);
    assert_eq!(zero.waits_for(other), None);
    assert!(granted.answers[0].token > token);
    let renewed = ask(&mut zero, 1_913, Call::Renew { name, token });
    assert_eq!(renewed.answers[0].kind, AnswerKind::Lost);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn the_planted_bug_is_caught() {
    let planted_bug = Some(weft_lock::PlantedBug::ServeBeforeEntered);
    assert!(two_leaders(&Parameters { planted_bug, ..Parameters::default() }));
}

/// A node without the data does not lead, and a full member that has missed epoch 1 does not claim to have
/// data.
#[test]
fn without_the_data_a_node_is_lost() {
    let mut engine = Lock::new(Parameters::default());
    configure(&mut engine, 0, 0, 5, [0b11, 0]);
    assert_eq!(engine.status().state, EngineState::Lost);
    tell(&mut engine, 1, Event::Reset);
    assert_eq!(engine.status().state, EngineState::Starting);
}

/// Arbitrary bytes change nothing and never cause a panic.
#[test]
fn hostile_messages_are_dropped() {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut zero, mut one, _, token) = taken_over(&Parameters::default());
    for us in 0..20_000 {
        let mut payload = vec![0; [0, 16, 20, 96, 96, 97][random.next_u64() as usize % 6]];
        for _ in 0..random.next_u64() % 12 {
            let place = random.next_u64() as usize % payload.len().max(1);
            payload.get_mut(place).into_iter().for_each(|byte| *byte = random.next_u64() as u8 % 4);
        }
        let message = Message { kind: random.next_u64() as u8 % 5, payload: &payload };
        let from = NodeId::new(random.next_u64() as usize % 3).unwrap();
        let event = match random.next_u64() % 2 {
            0 => Event::Deliver { from, message, last: true },
            _ => Event::Call { caller: Caller::Host(0), message, last: true },
        };
        for engine in [&mut zero, &mut one] {
            tell(engine, 1_000 + us, event);
        }
    }
    assert!(one.locks().any(|(name, owner, held)| name.as_bytes() == b"a" && (owner, held) == (7, token)));
    assert!(one.counters().iter().any(|(name, count)| *name == "dropped_malformed" && *count > 1_000));
}
