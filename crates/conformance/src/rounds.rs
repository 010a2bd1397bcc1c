//! The soft rounds engine and the one in the gateware, compared event by event.
//!
//! A [`Pair`] is one node twice: the soft engine and the one in gates get the same events and must have the
//! same effects: messages byte by byte, in the same order to each destination, timers, status, counters. A
//! pair is an engine itself, so every test network of the soft engine can run pairs.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use weft_gateware::engine_package as package;
use weft_gateware::{CYCLE, Pressure, RtlAllReduce, RtlRounds, RtlRoundsConfig};
use weft_rounds::message::{Answer, Call, Fetch, Kind, Round, Timings, Value};
use weft_rounds::{Algorithm, Ckc, Parameters, Record, Reduce, Rounds};
use weft_time::Instant;
use weft_waist::{Effect, Effects, Engine, EngineStatus, Event, Io, Memory};

use crate::said::Said;

/// Number of events in a trace.
const TRACE_EVENTS: usize = 30;

/// The parameters for which the gates are built.
pub fn parameters() -> Parameters {
    Parameters {
        window: package::ROUNDS_WINDOW,
        value_bytes: package::ROUNDS_PROPOSAL_BYTES as usize,
        queue: package::ROUNDS_QUEUE as usize,
        silence: 4 * package::ROUNDS_WINDOW,
        ..Parameters::default()
    }
}

/// The gates' inputs for these parameters.
///
/// # Panics
/// If the gates are built for other sizes.
fn config(parameters: &Parameters, pressure: Option<Pressure>, power_on_seed: u32) -> RtlRoundsConfig {
    let built = self::parameters();
    let sizes = |parameters: &Parameters| (parameters.window, parameters.value_bytes, parameters.queue);
    assert_eq!(sizes(parameters), sizes(&built), "the gates have these sizes");
    assert_eq!(parameters.quorums, built.quorums, "the gates have the quorums that tolerate the most");
    assert!(parameters.silence <= package::ROUNDS_SILENCE_MAX);
    RtlRoundsConfig {
        period: parameters.period,
        one_way: parameters.one_way,
        silence: parameters.silence as u8,
        pressure,
        power_on_seed,
    }
}

/// The engine in gates for these parameters.
///
/// # Panics
/// If the gates are built for other sizes.
pub fn gates(parameters: &Parameters, pressure: Option<Pressure>, power_on_seed: u32) -> RtlRounds {
    RtlRounds::new(config(parameters, pressure, power_on_seed))
}

/// A message as readable text.
pub fn describe(kind: u8, payload: &[u8]) -> String {
    let area = package::ROUNDS_WINDOW as usize * Record::BYTES;
    let bytes = package::ROUNDS_PROPOSAL_BYTES as usize;
    let text = if kind == Kind::Round as u8 {
        Round::parse(payload, area, bytes).map(|round| {
            let records = || round.area.chunks(Record::BYTES).map(Record::parse).collect::<Vec<_>>();
            let area = if round.head.algorithm == Ckc::ID {
                format!("{:?}", records())
            } else {
                format!("{:02x?}", round.area)
            };
            format!(
                "Round {:?} change {} proposal {:02x?} {area}",
                round.head,
                round.proposal.change,
                &round.proposal.bytes[..round.proposal.bytes.len().min(16)]
            )
        })
    } else if kind == Kind::Fetch as u8 {
        Fetch::parse(payload).map(|fetch| format!("{fetch:?}"))
    } else if kind == Kind::Value as u8 || kind == Call::Decided as u8 {
        Value::parse(payload, bytes).map(|value| format!("{value:?}"))
    } else if kind == Call::Answer as u8 {
        Answer::parse(payload).map(|answer| format!("{answer:?}"))
    } else if kind == Call::Timings as u8 {
        Timings::parse(payload).map(|timings| format!("{timings:?}"))
    } else {
        Ok(format!("kind {kind}, {} bytes", payload.len()))
    };
    text.unwrap_or_else(|error| format!("kind {kind}, malformed: {error}: {payload:02x?}"))
}

fn describe_event(event: &Event<'_>) -> String {
    match event {
        Event::Call { caller, message, .. } => {
            format!("call of {caller:?}: kind {}, {} bytes", message.kind, message.payload.len())
        }
        Event::Deliver { from, message, .. } => {
            format!("from {from}: {}", describe(message.kind, message.payload))
        }
        event => format!("{event:?}"),
    }
}

/// One node, twice: the soft engine and the one in gates, with the same algorithm.
#[derive(Debug)]
pub struct Pair<A: Algorithm = Ckc, G = RtlRounds> {
    soft: Rounds<A>,
    gates: G,
    memory: Memory,
    events: u64,
    trace: VecDeque<String>,
    effects: [Effects; 2],
}

impl Pair {
    /// Creates two engines that have no view yet.
    pub fn new(parameters: &Parameters, pressure: Option<Pressure>, power_on_seed: u32) -> Self {
        Self::of(parameters, gates(parameters, pressure, power_on_seed))
    }
}

impl Pair<Reduce, RtlAllReduce> {
    /// Creates two engines with the all-reduce that have no view yet.
    pub fn all_reduce(parameters: &Parameters, pressure: Option<Pressure>, power_on_seed: u32) -> Self {
        Self::of(parameters, RtlAllReduce::new(config(parameters, pressure, power_on_seed)))
    }
}

impl<A: Algorithm, G: Engine> Pair<A, G> {
    fn of(parameters: &Parameters, gates: G) -> Self {
        Self {
            soft: Rounds::new(parameters.clone()),
            gates,
            memory: Memory::new(0),
            events: 0,
            trace: VecDeque::new(),
            effects: Default::default(),
        }
    }

    /// The soft engine. The other has the same state.
    pub fn soft(&self) -> &Rounds<A> {
        &self.soft
    }

    fn story(&self, event: &str) -> String {
        self.trace.iter().map(|line| &**line).chain([event]).collect()
    }
}

impl<A: Algorithm, G: Engine> Engine for Pair<A, G> {
    /// Gives both engines the same event. Returns the effects of the soft engine.
    ///
    /// # Panics
    /// If the effects differ; prints a trace.
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        // The gateware's time is a whole number of cycles.
        let now = Instant::from_ps(now.as_ps().next_multiple_of(CYCLE.as_ps()));
        self.events += 1;
        if self.trace.len() >= TRACE_EVENTS {
            self.trace.pop_front();
        }
        let mut text = format!("  {} at {now}: {}\n", self.events, describe_event(&event));
        let [soft_effects, gates_effects] = &mut self.effects;
        soft_effects.clear();
        gates_effects.clear();
        self.soft.handle(now, event, &mut Io { effects: soft_effects, memory: &mut self.memory });
        let soft = Said::of(soft_effects);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.gates.handle(now, event, &mut Io { effects: gates_effects, memory: &mut self.memory });
        }));
        if let Err(panic) = ran {
            eprintln!("{}the soft engine says\n{}", self.story(&text), soft.text(describe));
            resume_unwind(panic);
        }
        let gates = Said::of(gates_effects);
        let (soft_status, gates_status) = (self.soft.status(), self.gates.status());
        let counts = (self.soft.counters(), self.gates.counters());
        let differ: Vec<_> = counts.0.iter().zip(&counts.1).filter(|(soft, gates)| soft != gates).collect();
        assert!(
            soft == gates && soft_status == gates_status && differ.is_empty(),
            "{}the twins differ: the soft engine is {soft_status:?} and says\n{}the gates are {gates_status:?} and say\n{}\
             first: {}; counters: {differ:?}",
            self.story(&text),
            soft.text(describe),
            gates.text(describe),
            soft.first_difference(&gates),
        );
        text.push_str(&soft.text(describe));
        self.trace.push_back(text);
        for effect in self.effects[0].iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    io.effects.send(*to, *kind, &[self.effects[0].message(*kind, payload).payload]);
                }
                Effect::Reply { to, kind, payload } => {
                    io.effects.reply(*to, *kind, &[self.effects[0].message(*kind, payload).payload]);
                }
                Effect::SetTimer { tag, at } => io.effects.set_timer(*tag, *at),
                Effect::Post { .. }
                | Effect::Access { .. }
                | Effect::Connect { .. }
                | Effect::HostRead { .. }
                | Effect::HostWrite { .. } => {
                    panic!("this engine has no queue pairs and leaves the host's memory alone")
                }
            }
        }
    }

    fn status(&self) -> EngineStatus {
        self.soft.status()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.soft.counters()
    }
}
