//! The rounds engine in gates, without a NIC around it, as an engine of the waist.
//!
//! [`RtlRounds`] drives the module `rounds`: it says events and takes messages and timers. As a [`weft_waist::Engine`] it handles one
//! event at a time, with the time standing still meanwhile, so that it can be held to its twin effect by effect.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use weft_time::{Duration, Instant};
use weft_waist::{Engine, EngineStatus, Event, Io};

use crate::CYCLE;
use crate::axi::{Gate, Pressure};
use crate::engine_package::{self as package, EngineMessage, RoundsEvents};
use crate::kv::{Coming, KvOutput, Pending, Port, beat, count, cycles_up, pending};
use crate::model::Model;
use crate::model::rounds::{Inputs, Outputs, Top};
use crate::package::{BEAT_BYTES, Beat};

/// Idle cycles in a row after which nothing is under way.
const IDLE_CYCLES: u32 = 4;

/// Far more cycles than any event takes.
const CYCLES_MAX: u64 = 100_000;

/// What the engine's registers hold. Its sizes are the constants `ROUNDS_…` of [`crate::engine_package`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtlRoundsConfig {
    /// Length of a round: whole cycles.
    pub period: Duration,
    /// The shortest one-way delay between two nodes: whole cycles.
    pub one_way: Duration,
    /// A member that was not heard for more rounds than this is proposed for removal: at most
    /// [`crate::engine_package::ROUNDS_SILENCE_MAX`].
    pub silence: u8,
    /// Random back-pressure on messages.
    pub pressure: Option<Pressure>,
    /// What storage that reset leaves alone holds: zeros for 0, otherwise random bits.
    pub power_on_seed: u32,
}

impl Default for RtlRoundsConfig {
    fn default() -> Self {
        Self {
            period: Duration::from_us(2),
            one_way: Duration::from_ns(1_384),
            silence: 32,
            pressure: None,
            power_on_seed: 0,
        }
    }
}

impl RtlRoundsConfig {
    /// The inputs that stay as they are.
    pub(crate) fn inputs(&self) -> Inputs {
        Inputs {
            period_i: self.period.as_ps() / CYCLE.as_ps(),
            one_way_i: self.one_way.as_ps() / CYCLE.as_ps(),
            silence_i: self.silence,
            ..Inputs::default()
        }
    }
}

/// The rounds engine in gates.
#[derive(Debug)]
pub struct RtlRounds {
    config: RtlRoundsConfig,
    model: Model<Top>,
    inputs: Inputs,
    outputs: Outputs,
    ticks: u64,
    idle_cycles: u32,
    gate: Gate,

    events: VecDeque<Pending>,
    /// Payloads of events that have been taken, at their next beat.
    payload: VecDeque<(Vec<u8>, usize)>,
    coming: Option<Coming>,
    said: Vec<KvOutput>,
    counts: Vec<u64>,
}

impl RtlRounds {
    /// An engine that has just been reset and is told nothing yet.
    pub fn new(config: RtlRoundsConfig) -> Self {
        Self {
            model: Model::new(config.power_on_seed),
            inputs: config.inputs(),
            outputs: Outputs::default(),
            ticks: 0,
            idle_cycles: 0,
            gate: Gate::new(config.pressure, 1),
            events: VecDeque::new(),
            payload: VecDeque::new(),
            coming: None,
            said: Vec::new(),
            counts: vec![0; RoundsEvents::FIELDS.len()],
            config,
        }
    }

    /// What it was made from.
    pub const fn config(&self) -> &RtlRoundsConfig {
        &self.config
    }

    /// Cycles that were computed.
    pub const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Computes cycles with the time standing still until nothing is under way.
    fn run(&mut self, cycle: u64) {
        let start = self.ticks;
        self.idle_cycles = 0;
        while self.idle_cycles < IDLE_CYCLES {
            self.tick(cycle);
            assert!(
                self.ticks - start < CYCLES_MAX,
                "rounds: still busy after {CYCLES_MAX} cycles: {} events wait, {} payloads, coming out: {:?}, idle_o: {}",
                self.events.len(),
                self.payload.len(),
                self.coming,
                self.outputs.idle_o
            );
        }
    }

    /// Computes one clock cycle.
    fn tick(&mut self, cycle: u64) {
        let inputs = &mut self.inputs;
        inputs.now_i = cycle;
        let event = self.events.front().filter(|_| self.payload.len() < 2);
        inputs.event_valid_i = event.is_some().into();
        if let Some(pending) = event {
            inputs.event_i = pending.event.pack();
            if let Some(configuration) = &pending.configuration {
                inputs.configuration_i = configuration.pack();
            }
        }
        inputs.payload_valid_i = (!self.payload.is_empty()).into();
        if let Some((bytes, at)) = self.payload.front() {
            inputs.payload_i = beat(bytes, *at).pack();
        }
        let (message_ready, body_ready) =
            (self.coming.is_none() && self.gate.is_open(), self.coming.is_some() && self.gate.is_open());
        inputs.message_ready_i = message_ready.into();
        inputs.body_ready_i = body_ready.into();

        self.model.step(inputs, &mut self.outputs, CYCLE.as_ps() * self.ticks);
        self.ticks += 1;

        let outputs = &self.outputs;
        let mut quiet = outputs.idle_o != 0 && self.events.is_empty() && self.payload.is_empty();
        if inputs.payload_valid_i != 0
            && outputs.payload_ready_o != 0
            && let Some((bytes, at)) = self.payload.front_mut()
        {
            *at += BEAT_BYTES as usize;
            if *at >= bytes.len() {
                self.payload.pop_front();
            }
        }
        if inputs.event_valid_i != 0 && outputs.event_ready_o != 0 {
            let taken = self.events.pop_front().expect("it was said");
            if !taken.payload.is_empty() {
                self.payload.push_back((taken.payload, 0));
            }
        }
        let body = (outputs.body_valid_o != 0).then(|| Beat::unpack(&outputs.body_o));
        if let Some(coming) = &mut self.coming {
            quiet = false;
            match body {
                Some(beat) if body_ready => coming.take(&beat),
                Some(_) => {}
                None => assert!(!coming.begun, "rounds: the payload of {:x?} pauses", coming.message),
            }
        }
        if outputs.message_valid_o != 0 {
            quiet = false;
            if message_ready {
                let message = EngineMessage::unpack(&outputs.message_o);
                self.coming = Some(Coming { message, payload: Vec::new(), begun: false });
            }
        }
        if let Some(coming) = self.coming.take_if(|coming| coming.is_complete()) {
            self.said.push(coming.output());
        }
        if outputs.timer_valid_o != 0 {
            let at = Instant::ZERO + CYCLE * outputs.timer_at_o;
            self.said.push(KvOutput::Timer { tag: outputs.timer_tag_o.into(), at });
            quiet = false;
        }
        count(&mut self.counts, RoundsEvents::FIELDS, &outputs.events_o.words());
        self.idle_cycles = if quiet { self.idle_cycles + 1 } else { 0 };
    }

    /// Begins to write a waveform file, in which every computed cycle takes 4 ns.
    ///
    /// # Errors
    /// The file cannot be opened, or the crate was built without the feature `fst`.
    pub fn begin_trace(&mut self, path: &Path) -> io::Result<()> {
        self.model.begin_trace(path)
    }

    /// Closes the waveform file, if there is one.
    pub fn end_trace(&mut self) {
        self.model.end_trace();
    }
}

impl Engine for RtlRounds {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        self.events.push_back(pending(event));
        self.run(cycles_up(now));
        for output in self.said.drain(..) {
            match output {
                KvOutput::Send { to, kind, payload } => io.effects.send(to, kind, &[&payload]),
                KvOutput::Reply { to, kind, payload } => io.effects.reply(to, kind, &[&payload]),
                KvOutput::Timer { tag, at } => io.effects.set_timer(tag, at),
            }
        }
    }

    fn status(&self) -> EngineStatus {
        package::status(&self.outputs.status_o.words())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        RoundsEvents::FIELDS.iter().zip(&self.counts).map(|((name, _), count)| (*name, *count)).collect()
    }
}
