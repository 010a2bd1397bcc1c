//! Rounds: parsing of messages, and a node that participates while it gets arbitrary ones.

use weft_rounds::message::{Answer, Change, Fetch, Kind, Phase, Round, Value};
use weft_rounds::{Ckc, Parameters, Record, Register, Rounds, Service, Streams};
use weft_time::Instant;
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

use crate::input::Input;

const VALUE_BYTES: usize = 64;
const WINDOW: u64 = 4;
const AREA: usize = WINDOW as usize * Record::BYTES;

/// Number of nodes of the cluster; the engine is that of node 0.
const NODES: usize = 3;

/// Parses one of the engine's messages. A valid message is encoded again, and must parse to the same.
pub fn message(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    match kind % 5 {
        0 => {
            if let Ok(round) = Round::parse(bytes, AREA, VALUE_BYTES) {
                let mut again = Round::head(&round.head, &round.proposal).to_vec();
                again.extend_from_slice(round.area);
                again.resize(Round::proposal_at(AREA), 0);
                again.extend_from_slice(round.proposal.bytes);
                assert_eq!(Round::parse(&again, AREA, VALUE_BYTES), Ok(round));
                for record in round.area.chunks_exact(Record::BYTES).filter_map(Record::parse) {
                    assert_eq!(Record::parse(&record.encode()), Some(record));
                }
            }
        }
        1 => {
            if let Ok(fetch) = Fetch::parse(bytes) {
                assert_eq!(Fetch::parse(&fetch.encode()), Ok(fetch));
            }
        }
        2 => {
            if let Ok(value) = Value::parse(bytes, VALUE_BYTES) {
                let again = [&value.header()[..], value.proposal.bytes].concat();
                assert_eq!(Value::parse(&again, VALUE_BYTES), Ok(value));
            }
        }
        3 => {
            if let Ok(change) = Change::parse(bytes) {
                assert_eq!(Change::parse(&change.encode()), Ok(change));
            }
        }
        _ => {
            if let Ok(answer) = Answer::parse(bytes) {
                assert_eq!(Answer::parse(&answer.encode()), Ok(answer));
            }
        }
    }
}

/// A node whose peers may send anything: it must not panic, nor send anything malformed.
pub fn node(data: &[u8]) {
    let mut input = Input::new(data);
    if input.coin() { run::<Register>(input) } else { run::<Streams>(input) }
}

fn run<S: Service>(mut input: Input<'_>) {
    let parameters = Parameters {
        window: WINDOW,
        value_bytes: VALUE_BYTES,
        queue: 2,
        silence: 4,
        ..Parameters::default()
    };
    let period = parameters.period;
    let mut engine = Rounds::<Ckc, S>::new(parameters);
    let (mut now, mut memory, mut effects) = (Instant::ZERO, Memory::new(0), Effects::default());
    let mut epoch = 0;
    let mut steps = 0;
    while !input.is_empty() && steps < 400 {
        steps += 1;
        let kind = input.byte();
        let from = NodeId::new(usize::from(input.byte()) % (NODES + 1)).expect("a few nodes");
        let mut payload = Vec::new();
        let event = match kind % 16 {
            0..4 => {
                now += period;
                Event::Timer { tag: 0 }
            }
            4 => {
                epoch += 1;
                let (all, own) = (NodeSet::first(NODES), NodeId::new(0).expect("node 0"));
                let joining = if input.coin() { NodeSet::EMPTY.with(own) } else { NodeSet::EMPTY };
                let view = View { epoch: Epoch(epoch), full: all, joining };
                Event::Configure(Configuration { node: own, view, lease_until: Instant::FAR_FUTURE })
            }
            5 => Event::Deliver {
                from,
                message: Message { kind: Kind::Start as u8, payload: &[0; 8] },
                last: true,
            },
            6 | 7 => {
                let length = usize::from(input.byte());
                payload.extend_from_slice(input.bytes(length));
                let message = Message { kind: input.byte() % 40, payload: &payload };
                Event::Call { caller: Caller::Host(1), message, last: true }
            }
            8..14 => {
                // A message of a round close to the current one, with random records and a random proposal.
                let round = input
                    .near(engine.round().map_or(0, |round| round + 1))
                    .saturating_sub(u64::from(input.coin()));
                payload.resize(Round::proposal_at(AREA), 0);
                payload[..8].copy_from_slice(&round.to_be_bytes());
                payload[8..10].copy_from_slice(&(input.near(1) as u16).to_be_bytes());
                payload[10] = input.near(7) as u8;
                payload[11] = if input.rarely() { input.byte() } else { 0 };
                (payload[14], payload[15]) = (1, input.near(7) as u8);
                let area = input.bytes(AREA);
                payload[Round::HEAD..Round::HEAD + area.len()].copy_from_slice(area);
                let length = usize::from(input.byte() % 72);
                payload.extend_from_slice(input.bytes(length));
                let length = payload.len() - Round::proposal_at(AREA);
                payload[12..14].copy_from_slice(&(length as u16).to_be_bytes());
                Event::Deliver {
                    from,
                    message: Message { kind: Kind::Round as u8, payload: &payload },
                    last: true,
                }
            }
            _ => {
                let length = usize::from(input.byte());
                payload.extend_from_slice(input.bytes(length));
                let message = Message { kind: input.byte() % 40, payload: &payload };
                Event::Deliver { from, message, last: true }
            }
        };
        effects.clear();
        engine.handle(now, event, &mut Io { effects: &mut effects, memory: &mut memory });
        for effect in effects.iter() {
            let Effect::Send { kind, payload, .. } = effect else { continue };
            let bytes = effects.message(*kind, payload).payload;
            assert!(engine.phase() != Phase::Fenced, "a fenced node says nothing");
            assert!(match *kind {
                kind if kind == Kind::Round as u8 => Round::parse(bytes, AREA, VALUE_BYTES).is_ok(),
                kind if kind == Kind::Fetch as u8 => Fetch::parse(bytes).is_ok(),
                kind if kind == Kind::Value as u8 => Value::parse(bytes, VALUE_BYTES).is_ok(),
                _ => true,
            });
        }
    }
}
