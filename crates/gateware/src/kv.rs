//! The key-value engine in gates, without a NIC around it, as an engine of the waist.
//!
//! [`RtlKv`] drives the module `kv`: it says events, serves the memory port and takes messages and timers. As a
//! [`weft_waist::Engine`] it handles one event at a time, with the time standing still meanwhile, so that it can be held to
//! its twin effect by effect. With [`RtlKv::push`] and [`RtlKv::tick`] events follow each other as fast as the
//! engine takes them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use weft_rdma::QueuePairNumber;
use weft_time::{Duration, Instant};
use weft_waist::{Caller, Configuration, Engine, EngineStatus, Event, Io, Memory, Message, NodeSet};

use crate::CYCLE;
use crate::axi::{AxiPort, Gate, Latency, Pressure, Storage, Timing, axi_ports};
use crate::engine_package::{self as package, EngineConfiguration, EngineEvent, EngineMessage, KvEvents};
use crate::hbm::{Hbm, HbmTiming};
use crate::model::Model;
use crate::model::kv::{Inputs, Outputs, Top};
use crate::package::{AxiRead, BEAT_BYTES as BEAT, Beat, WriteBeat, take};

/// Idle cycles in a row after which nothing is under way.
const IDLE_CYCLES: u32 = 4;

/// Far more cycles than any event takes.
const CYCLES_MAX: u64 = 1_000_000;

/// Bytes of a beat.
const BEAT_BYTES: usize = BEAT as usize;

/// Bytes of a bucket's tags, which lie in front of all slots in the image; in gates they are on chip.
const TAGS_BYTES: usize = 64;

/// Clock cycles have 48 bits.
const CYCLES_LAST: u64 = (1 << 48) - 1;

/// What the engine is built from and what its registers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtlKvConfig {
    /// Buckets of the table: a power of two from 256 to [`crate::engine_package::BUCKETS_MAX`].
    pub buckets: u32,
    /// How long the engine waits for progress before it says again what it has said.
    pub retransmit: Duration,
    /// The longest such wait.
    pub retransmit_max: Duration,
    /// Of the memory that holds the slots.
    pub latency: Latency,
    /// In place of `latency`: that memory is high-bandwidth memory.
    pub hbm: Option<HbmTiming>,
    /// Random back-pressure on the memory port and on messages.
    pub pressure: Option<Pressure>,
    /// Whether a follower acknowledges a write only when it lies in the journal too.
    pub acknowledge_after_memory: bool,
    /// One of the `BUG_` constants of [`crate::engine_package`].
    pub planted_bug: u64,
    /// What storage that reset leaves alone holds: zeros for 0, otherwise random bits.
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
    /// Bytes of the memory that the engine is given, as that of its twin.
    pub fn memory_bytes(&self) -> usize {
        let slots = self.buckets as usize * package::WAYS as usize;
        self.slots_at() + slots * package::SLOT_BYTES as usize
    }

    /// Where the slots begin: address 0 of the memory port.
    fn slots_at(&self) -> usize {
        self.buckets as usize * TAGS_BYTES
    }
}

/// What the engine said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvOutput {
    /// A message to peers.
    Send {
        /// To whom.
        to: NodeSet,
        /// The message's kind.
        kind: u8,
        /// Its content.
        payload: Vec<u8>,
    },
    /// An answer.
    Reply {
        /// To whom.
        to: Caller,
        /// The message's kind.
        kind: u8,
        /// Its content.
        payload: Vec<u8>,
    },
    /// A timer is set, or moved.
    Timer {
        /// Which.
        tag: u32,
        /// To when.
        at: Instant,
    },
}

/// An event that waits to be said.
#[derive(Debug)]
pub(crate) struct Pending {
    pub event: EngineEvent,
    pub payload: Vec<u8>,
    pub configuration: Option<EngineConfiguration>,
}

/// A message whose payload is coming out.
#[derive(Debug)]
pub(crate) struct Coming {
    pub message: EngineMessage,
    pub payload: Vec<u8>,
    pub begun: bool,
}

/// The memory behind the port: slots, then what the engine keeps for itself.
struct Slots<'a> {
    memory: &'a mut Memory,
    base: usize,
    beyond: &'a mut BTreeMap<u64, [u8; BEAT_BYTES]>,
}

impl Slots<'_> {
    /// Where a word lies in the image, if it does.
    fn place(&self, address: u64) -> Option<usize> {
        let place = usize::try_from(address).ok()?.checked_add(self.base)?;
        (place + BEAT_BYTES <= self.memory.image().len()).then_some(place)
    }
}

impl Storage for Slots<'_> {
    fn store(&mut self, address: u64, beat: &WriteBeat) -> bool {
        match self.place(address) {
            Some(place) => {
                // The engine writes whole words.
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

/// A port of any width.
pub(crate) trait Port {
    fn words(&self) -> Vec<u32>;
}

macro_rules! integer_ports {
    ($($kind:ty)*) => {
        $(impl Port for $kind {
            fn words(&self) -> Vec<u32> {
                vec![u64::from(*self) as u32, (u64::from(*self) >> 32) as u32]
            }
        })*
    };
}

integer_ports!(u8 u16 u32 u64);

impl<const N: usize> Port for [u32; N] {
    fn words(&self) -> Vec<u32> {
        self.to_vec()
    }
}

/// The key-value engine in gates.
#[derive(Debug)]
pub struct RtlKv {
    config: RtlKvConfig,
    model: Model<Top>,
    inputs: Inputs,
    outputs: Outputs,
    ticks: u64,
    idle_cycles: u32,
    port: AxiPort,
    gate: Gate,
    beyond: BTreeMap<u64, [u8; BEAT_BYTES]>,

    events: VecDeque<Pending>,
    /// Payloads of events that have been taken, at their next beat.
    payload: VecDeque<(Vec<u8>, usize)>,
    coming: Option<Coming>,
    said: VecDeque<(u64, KvOutput)>,
    counts: Vec<u64>,
}

impl RtlKv {
    /// An engine that has just been reset and is told no view yet.
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
            port: AxiPort::with_timing(timing, Gate::new(config.pressure, 1)),
            gate: Gate::new(config.pressure, 2),
            beyond: BTreeMap::new(),
            events: VecDeque::new(),
            payload: VecDeque::new(),
            coming: None,
            said: VecDeque::new(),
            counts: vec![0; KvEvents::FIELDS.len()],
        };
        // The table frees its slots by itself, without touching the memory.
        engine.run(0, &mut Memory::new(0));
        engine
    }

    /// What it was made from.
    pub const fn config(&self) -> &RtlKvConfig {
        &self.config
    }

    /// Cycles that were computed.
    pub const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Says an event as soon as those before it have been taken.
    pub fn push(&mut self, event: Event<'_>) {
        self.events.push_back(pending(event));
        self.idle_cycles = 0;
    }

    /// How many events wait to be taken.
    pub fn waiting(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.idle_cycles >= IDLE_CYCLES
    }

    /// The next thing that the engine said, with the tick in which it ended.
    pub fn poll(&mut self) -> Option<(u64, KvOutput)> {
        self.said.pop_front()
    }

    /// Computes cycles with the time standing still until nothing is under way.
    ///
    /// # Panics
    /// If that takes longer than anything should, or an assertion of the gateware fails.
    pub fn run(&mut self, cycle: u64, memory: &mut Memory) {
        let start = self.ticks;
        while !self.is_idle() {
            self.tick(cycle, memory);
            assert!(
                self.ticks - start < CYCLES_MAX,
                "kv: still busy after {CYCLES_MAX} cycles: {} events wait, {} payloads, a message is coming out: {:?}, \
                 memory is busy: {}, idle_o: {}",
                self.events.len(),
                self.payload.len(),
                self.coming,
                self.port.is_busy(),
                self.outputs.idle_o
            );
        }
    }

    /// Computes one clock cycle.
    ///
    /// # Panics
    /// If the engine breaks the rules of its ports, or an assertion of the gateware fails.
    pub fn tick(&mut self, cycle: u64, memory: &mut Memory) {
        let tick = self.ticks;
        let inputs = &mut self.inputs;
        inputs.now_i = cycle;
        // An event may be said together with the payload before it, but not before that has begun.
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
        let mut slots = Slots { memory, base: self.config.slots_at(), beyond: &mut self.beyond };
        drive_memory(inputs, &self.port.answer(tick, &mut slots));

        self.model.step(inputs, &mut self.outputs, CYCLE.as_ps() * tick);
        self.ticks += 1;

        let outputs = &self.outputs;
        self.port.take(tick, &memory_request(outputs));
        let mut quiet = outputs.idle_o != 0 && self.events.is_empty() && self.payload.is_empty();
        if inputs.payload_valid_i != 0
            && outputs.payload_ready_o != 0
            && let Some((bytes, at)) = self.payload.front_mut()
        {
            *at += BEAT_BYTES;
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
                None => assert!(!coming.begun, "kv: the payload of {:x?} pauses", coming.message),
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
            self.said.push_back((tick, coming.output()));
        }
        if outputs.timer_valid_o != 0 {
            let at = Instant::ZERO + CYCLE * outputs.timer_at_o;
            self.said.push_back((tick, KvOutput::Timer { tag: outputs.timer_tag_o.into(), at }));
            quiet = false;
        }
        count(&mut self.counts, KvEvents::FIELDS, &outputs.events_o.words());
        quiet &= !self.port.is_busy();
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

impl Engine for RtlKv {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        self.push(event);
        self.run(cycles_up(now), io.memory);
        for (_, output) in self.said.drain(..) {
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
        KvEvents::FIELDS.iter().zip(&self.counts).map(|((name, _), count)| (*name, *count)).collect()
    }
}

impl Coming {
    pub(crate) fn take(&mut self, beat: &Beat) {
        self.begun = true;
        let left = usize::from(self.message.bytes) - self.payload.len();
        let bytes = left.min(BEAT_BYTES);
        assert!(left > 0, "kv: more payload than {:x?} has", self.message);
        assert_eq!(beat.last, left <= BEAT_BYTES, "kv: the last beat of {:x?}", self.message);
        if beat.last {
            assert_eq!(usize::from(beat.empty), BEAT_BYTES - bytes, "kv: the end of {:x?}", self.message);
        }
        let lanes: Vec<u8> = beat.data.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(lanes[bytes..].iter().all(|&byte| byte == 0), "kv: padding of {:x?}", self.message);
        self.payload.extend(&lanes[..bytes]);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.payload.len() == usize::from(self.message.bytes)
    }

    pub(crate) fn output(self) -> KvOutput {
        let Self { message, payload, .. } = self;
        let kind = message.message;
        if message.reply {
            KvOutput::Reply { to: from_caller(&message.caller), kind, payload }
        } else {
            KvOutput::Send { to: NodeSet::from_bits(message.to), kind, payload }
        }
    }
}

/// Adds pulses and small counts of one cycle, of a struct with these fields.
pub(crate) fn count(counts: &mut [u64], fields: &[(&str, u32)], words: &[u32]) {
    if words.iter().all(|&word| word == 0) {
        return;
    }
    let mut at = fields.iter().map(|(_, bits)| bits).sum();
    for ((_, bits), count) in fields.iter().zip(counts) {
        at -= bits;
        *count += take(words, at, *bits);
    }
}

/// The cycle at or after a time.
pub(crate) fn cycles_up(time: Instant) -> u64 {
    time.as_ps().div_ceil(CYCLE.as_ps())
}

/// Up to 64 bytes of a payload.
pub(crate) fn beat(bytes: &[u8], at: usize) -> Beat {
    let part = &bytes[at..bytes.len().min(at + BEAT_BYTES)];
    let mut lanes = [0; BEAT_BYTES];
    lanes[..part.len()].copy_from_slice(part);
    let word = |index: usize| {
        u32::from_le_bytes([lanes[index], lanes[index + 1], lanes[index + 2], lanes[index + 3]])
    };
    Beat {
        last: at + BEAT_BYTES >= bytes.len(),
        empty: (BEAT_BYTES - part.len()) as u8,
        data: std::array::from_fn(|index| word(4 * index)),
    }
}

pub(crate) fn pending(event: Event<'_>) -> Pending {
    let quiet = EngineEvent::default();
    let kind = |kind: u64| kind as u8;
    let with = |event: EngineEvent, message: Message<'_>| Pending {
        event: EngineEvent {
            message: message.kind,
            bytes: u16::try_from(message.payload.len()).expect("a message has less than 64 KiB"),
            ..event
        },
        payload: message.payload.to_vec(),
        configuration: None,
    };
    let without = |event| Pending { event, payload: Vec::new(), configuration: None };
    match event {
        Event::Reset => without(EngineEvent { kind: kind(package::EVENT_RESET), last: true, ..quiet }),
        Event::Configure(configuration) => Pending {
            configuration: Some(configured(&configuration)),
            ..without(EngineEvent { kind: kind(package::EVENT_CONFIGURE), last: true, ..quiet })
        },
        Event::Call { caller, message, last } => {
            let caller = to_caller(caller);
            with(EngineEvent { kind: kind(package::EVENT_CALL), last, caller, ..quiet }, message)
        }
        Event::Deliver { from, message, last } => {
            let from = from.index() as u8;
            with(EngineEvent { kind: kind(package::EVENT_DELIVER), last, from, ..quiet }, message)
        }
        Event::Done { tag, status } => {
            let status = status.number();
            without(EngineEvent { kind: kind(package::EVENT_DONE), last: true, tag, status, ..quiet })
        }
        Event::Timer { tag } => {
            let tag = tag.into();
            without(EngineEvent { kind: kind(package::EVENT_TIMER), last: true, tag, ..quiet })
        }
    }
}

fn configured(configuration: &Configuration) -> EngineConfiguration {
    EngineConfiguration {
        node: configuration.node.index() as u8,
        epoch: configuration.view.epoch.0,
        full: configuration.view.full.bits(),
        joining: configuration.view.joining.bits(),
        // The lease ends at the latest cycle that is not after it.
        lease_until: (configuration.lease_until.as_ps() / CYCLE.as_ps()).min(CYCLES_LAST),
    }
}

fn to_caller(caller: Caller) -> package::Caller {
    let kind = |kind: u64| kind as u8;
    match caller {
        Caller::Endpoint { address, port } => {
            package::Caller { kind: kind(package::CALLER_ENDPOINT), mac: 0, address: address.to_bits(), port }
        }
        Caller::Host(token) => {
            package::Caller { kind: kind(package::CALLER_HOST), mac: 0, address: token, port: 0 }
        }
        Caller::QueuePair(number) => {
            package::Caller { kind: kind(package::CALLER_QUEUE_PAIR), mac: 0, address: number.0, port: 0 }
        }
    }
}

fn from_caller(caller: &package::Caller) -> Caller {
    match u64::from(caller.kind) {
        package::CALLER_ENDPOINT => {
            Caller::Endpoint { address: Ipv4Addr::from_bits(caller.address), port: caller.port }
        }
        package::CALLER_HOST => Caller::Host(caller.address),
        package::CALLER_QUEUE_PAIR => Caller::QueuePair(QueuePairNumber(caller.address)),
        other => panic!("kv: a caller is of kind {other}"),
    }
}
