//! The key-value engine in the gateware, without a NIC around it, as a [`weft_waist::Engine`].
//!
//! [`RtlKv`] drives the module `kv`: it offers events, serves the memory port and receives messages and
//! timers. As a [`weft_waist::Engine`] it processes one event at a time while the time stands still, so that
//! its effects can be compared with those of its twin one by one. With [`RtlKv::push`] and [`RtlKv::tick`],
//! events follow each other as fast as the engine accepts them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use weft_time::{Duration, Instant};
use weft_waist::{Engine, EngineStatus, Event, Io, Memory};

use crate::CYCLE;
use crate::axi::{AxiPort, Gate, Latency, Pressure, Storage, Timing, axi_ports};
use crate::axi::{Hbm, HbmTiming};
use crate::engine_package::{self as package, KvEvents};
use crate::engine_ports::{EngineOutput, EnginePorts, Port, Tally, cycles_up, engine_ports};
use crate::model::Model;
use crate::model::kv::{Inputs, Outputs, Top};
use crate::package::{AxiRead, BEAT_BYTES as BEAT, WriteBeat};

/// Consecutive idle cycles after which the engine counts as idle.
const IDLE_CYCLES: u32 = 4;

/// Far more cycles than any event takes.
const CYCLES_MAX: u64 = 1_000_000;

/// Bytes of a beat.
const BEAT_BYTES: usize = BEAT as usize;

/// Bytes of a bucket's tags, which precede all slots in the memory image. The gateware keeps its tags on
/// chip.
const TAGS_BYTES: usize = 64;

/// Parameters of the engine, and values of its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtlKvConfig {
    /// Buckets of the table: a power of two from 256 to [`crate::engine_package::BUCKETS_MAX`].
    pub buckets: u32,
    /// Time without progress after which the engine repeats its messages.
    pub retransmit: Duration,
    /// The longest such wait.
    pub retransmit_max: Duration,
    /// Latency of the memory that holds the slots.
    pub latency: Latency,
    /// If set, replaces `latency` by the timing of high-bandwidth memory.
    pub hbm: Option<HbmTiming>,
    /// Random back-pressure on the memory port and on messages.
    pub pressure: Option<Pressure>,
    /// Whether a follower acknowledges a write only when it is in the journal in memory, too.
    pub acknowledge_after_memory: bool,
    /// One of the `BUG_` constants of [`crate::engine_package`].
    pub planted_bug: u64,
    /// Initial content of storage that reset does not clear: zeros for 0, otherwise random bits.
    pub power_on_seed: u32,
}

impl Default for RtlKvConfig {
    fn default() -> Self {
        Self {
            buckets: 256,
            retransmit: CYCLE * package::RETRANSMIT,
            retransmit_max: CYCLE * package::RETRANSMIT_MAX,
            latency: Latency { read_cycles: 40, write_cycles: 40 },
            hbm: None,
            pressure: None,
            acknowledge_after_memory: false,
            planted_bug: package::BUG_NONE,
            power_on_seed: 0,
        }
    }
}

impl RtlKvConfig {
    /// Bytes of the engine's memory, equal to that of its twin.
    pub fn memory_bytes(&self) -> usize {
        let slots = self.buckets as usize * package::WAYS as usize;
        self.slots_at() + slots * package::SLOT_BYTES as usize
    }

    /// Offset of the slots, which is address 0 of the memory port.
    fn slots_at(&self) -> usize {
        self.buckets as usize * TAGS_BYTES
    }
}

/// The memory behind the port: the slots, then the journals, which only the gateware has.
struct Slots<'a> {
    memory: &'a mut Memory,
    base: usize,
    beyond: &'a mut BTreeMap<u64, [u8; BEAT_BYTES]>,
}

impl Slots<'_> {
    /// Offset of a word in the image, if it is inside.
    fn place(&self, address: u64) -> Option<usize> {
        let place = usize::try_from(address).ok()?.checked_add(self.base)?;
        (place + BEAT_BYTES <= self.memory.image().len()).then_some(place)
    }
}

impl Storage for Slots<'_> {
    fn store(&mut self, address: u64, beat: &WriteBeat) -> bool {
        match self.place(address) {
            Some(place) => {
                // The engine always writes whole words.
                let mut word = [0; BEAT_BYTES];
                word[..].store(0, beat);
                assert_eq!(beat.strobe, u64::MAX, "kv: a slot is written in whole words");
                self.memory.write(place, &word);
                true
            }
            None => self.beyond.entry(address).or_insert([0; BEAT_BYTES])[..].store(0, beat),
        }
    }

    fn load(&mut self, address: u64, last: bool) -> AxiRead {
        let mut word = [0; BEAT_BYTES];
        match self.place(address) {
            Some(place) => word.copy_from_slice(self.memory.read(place, BEAT_BYTES)),
            None => word = self.beyond.get(&address).copied().unwrap_or(word),
        }
        word[..].load(0, last)
    }
}

axi_ports!(Inputs, Outputs, drive_memory, memory_request: memory_aw_ready_i memory_w_ready_i memory_b_valid_i
    memory_b_response_i memory_ar_ready_i memory_r_valid_i memory_r_i; memory_aw_valid_o memory_aw_o memory_w_valid_o
    memory_w_o memory_ar_valid_o memory_ar_o memory_r_ready_o);

engine_ports!(Inputs, Outputs);

/// The key-value engine in gates.
#[derive(Debug)]
pub struct RtlKv {
    config: RtlKvConfig,
    model: Model<Top>,
    inputs: Inputs,
    outputs: Outputs,
    ticks: u64,
    idle_cycles: u32,
    ports: EnginePorts,
    memory: AxiPort,
    beyond: BTreeMap<u64, [u8; BEAT_BYTES]>,
    tally: Tally,
}

impl RtlKv {
    /// An engine that was just reset and has no view yet.
    ///
    /// # Panics
    /// If the number of buckets is out of range.
    pub fn new(config: RtlKvConfig) -> Self {
        assert!(
            config.buckets.is_power_of_two() && (256..=package::BUCKETS_MAX).contains(&config.buckets.into()),
            "kv: {} buckets",
            config.buckets
        );
        let timing = match config.hbm {
            Some(timing) => Timing::Hbm(Hbm::new(timing)),
            None => Timing::Fixed(config.latency),
        };
        let inputs = Inputs {
            bucket_mask_i: (config.buckets - 1) as _,
            retransmit_i: config.retransmit.as_ps() / CYCLE.as_ps(),
            retransmit_max_i: config.retransmit_max.as_ps() / CYCLE.as_ps(),
            acknowledge_after_memory_i: config.acknowledge_after_memory.into(),
            planted_bug_i: config.planted_bug as _,
            ..Inputs::default()
        };
        let mut engine = Self {
            config,
            model: Model::new(config.power_on_seed),
            inputs,
            outputs: Outputs::default(),
            ticks: 0,
            idle_cycles: 0,
            ports: EnginePorts::new(Gate::new(config.pressure, 2)),
            memory: AxiPort::with_timing(timing, Gate::new(config.pressure, 1)),
            beyond: BTreeMap::new(),
            tally: Tally::new(KvEvents::FIELDS),
        };
        // After reset the table frees its slots without accessing the memory.
        engine.run(0, &mut Memory::new(0));
        engine
    }

    /// Parameters of the engine.
    pub const fn config(&self) -> &RtlKvConfig {
        &self.config
    }

    /// Number of cycles that were simulated.
    pub const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Queues an event.
    pub fn push(&mut self, event: Event<'_>) {
        self.ports.push(event);
        self.idle_cycles = 0;
    }

    /// Number of events that have not been accepted.
    pub fn waiting(&self) -> usize {
        self.ports.waiting()
    }

    /// Whether nothing is in progress.
    pub fn is_idle(&self) -> bool {
        self.idle_cycles >= IDLE_CYCLES
    }

    /// The next output of the engine, with the tick in which it was complete.
    pub fn poll(&mut self) -> Option<(u64, EngineOutput)> {
        self.ports.poll()
    }

    /// Simulates cycles while the time stands still, until nothing is in progress.
    ///
    /// # Panics
    /// If that takes longer than anything should, or an assertion of the gateware fails.
    pub fn run(&mut self, cycle: u64, memory: &mut Memory) {
        let start = self.ticks;
        while !self.is_idle() {
            self.tick(cycle, memory);
            assert!(
                self.ticks - start < CYCLES_MAX,
                "kv: still busy after {CYCLES_MAX} cycles: {:?}, memory is busy: {}, idle_o: {}",
                self.ports,
                self.memory.is_busy(),
                self.outputs.idle_o
            );
        }
    }

    /// Simulates one clock cycle.
    ///
    /// # Panics
    /// If the engine breaks the rules of its ports, or an assertion of the gateware fails.
    pub fn tick(&mut self, cycle: u64, memory: &mut Memory) {
        let tick = self.ticks;
        let inputs = &mut self.inputs;
        inputs.now_i = cycle;
        let offer = self.ports.offer();
        offer_to(inputs, &offer);
        let mut slots = Slots { memory, base: self.config.slots_at(), beyond: &mut self.beyond };
        drive_memory(inputs, &self.memory.answer(tick, &mut slots));

        self.model.step(inputs, &mut self.outputs, CYCLE.as_ps() * tick);
        self.ticks += 1;

        let outputs = &self.outputs;
        self.memory.take(tick, &memory_request(outputs));
        let quiet = self.ports.take(tick, &offer, shown_by(outputs)) && !self.memory.is_busy();
        self.tally.add(&outputs.events_o.words());
        self.idle_cycles = if quiet { self.idle_cycles + 1 } else { 0 };
    }

    /// Starts a waveform file, in which every simulated cycle takes 4 ns.
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

impl Engine for RtlKv {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        self.push(event);
        self.run(cycles_up(now), io.memory);
        self.ports.emit(io);
    }

    fn status(&self) -> EngineStatus {
        package::status(&self.outputs.status_o.words())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.tally.counters()
    }
}
