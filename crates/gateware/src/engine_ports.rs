//! The ports of an engine in the gateware: inputs for events with their payloads, outputs for messages with
//! theirs, and timers.
//!
//! `EnginePorts` plays the card's side of these ports: it offers events one after the other, and checks that
//! the engine obeys the ports' rules. The macro `engine_ports` connects it to the signals of a module.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use weft_time::Instant;
use weft_verbs::QueuePairNumber;
use weft_waist::{Caller, Configuration, Event, Io, Message, NodeSet};

use crate::CYCLE;
use crate::axi::Gate;
use crate::engine_package::{self as package, EngineConfiguration, EngineEvent, EngineMessage};
use crate::package::{BEAT_BYTES as BEAT, Beat, take};

/// Bytes of a beat.
const BEAT_BYTES: usize = BEAT as usize;

/// Clock cycles have 48 bits.
const CYCLES_LAST: u64 = (1 << 48) - 1;

/// A packed beat.
pub(crate) type BeatWords = [u32; Beat::BITS.div_ceil(32) as usize];

/// An output of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineOutput {
    /// A message to peers.
    Send {
        /// The destination nodes.
        to: NodeSet,
        /// The message's kind.
        kind: u8,
        /// Content of the message.
        payload: Vec<u8>,
    },
    /// An answer.
    Reply {
        /// The caller.
        to: Caller,
        /// The message's kind.
        kind: u8,
        /// Content of the message.
        payload: Vec<u8>,
    },
    /// A timer is set, or moved.
    Timer {
        /// Tag of the timer.
        tag: u32,
        /// When the timer fires.
        at: Instant,
    },
}

/// An event that waits to be offered.
#[derive(Debug)]
pub(crate) struct Pending {
    pub event: EngineEvent,
    pub payload: Vec<u8>,
    pub configuration: Option<EngineConfiguration>,
}

/// A message whose payload is still being received.
#[derive(Debug)]
struct Coming {
    message: EngineMessage,
    payload: Vec<u8>,
    begun: bool,
}

/// Values for the inputs of an engine's ports in one cycle.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    pub event: Option<EngineEvent>,
    pub configuration: Option<EngineConfiguration>,
    pub payload: Option<BeatWords>,
    pub message_ready: bool,
    pub body_ready: bool,
}

/// Values of the outputs of an engine's ports in the same cycle.
#[derive(Debug)]
pub(crate) struct Shown {
    pub event_ready: bool,
    pub payload_ready: bool,
    pub message: Option<EngineMessage>,
    pub body: Option<BeatWords>,
    /// A timer's number, and the cycle to which it is set.
    pub timer: Option<(u8, u64)>,
    pub idle: bool,
}

/// Defines `offer_to(&mut Inputs, &Offer)` and `shown_by(&Outputs) -> Shown` for a module with the ports of
/// an engine.
macro_rules! engine_ports {
    ($inputs:ty, $outputs:ty) => {
        pub(crate) fn offer_to(inputs: &mut $inputs, offer: &crate::engine_ports::Offer) {
            inputs.event_valid_i = offer.event.is_some().into();
            if let Some(event) = &offer.event {
                inputs.event_i = event.pack();
            }
            if let Some(configuration) = &offer.configuration {
                inputs.configuration_i = configuration.pack();
            }
            inputs.payload_valid_i = offer.payload.is_some().into();
            if let Some(payload) = &offer.payload {
                inputs.payload_i = *payload;
            }
            inputs.message_ready_i = offer.message_ready.into();
            inputs.body_ready_i = offer.body_ready.into();
        }

        pub(crate) fn shown_by(outputs: &$outputs) -> crate::engine_ports::Shown {
            use crate::engine_package::EngineMessage;
            crate::engine_ports::Shown {
                event_ready: outputs.event_ready_o != 0,
                payload_ready: outputs.payload_ready_o != 0,
                message: (outputs.message_valid_o != 0).then(|| EngineMessage::unpack(&outputs.message_o)),
                body: (outputs.body_valid_o != 0).then_some(outputs.body_o),
                timer: (outputs.timer_valid_o != 0).then_some((outputs.timer_tag_o, outputs.timer_at_o)),
                idle: outputs.idle_o != 0,
            }
        }
    };
}
pub(crate) use engine_ports;

/// The card's side of an engine's ports: the events still to be offered, and the engine's outputs so far.
#[derive(Debug)]
pub(crate) struct EnginePorts {
    gate: Gate,
    events: VecDeque<Pending>,
    /// Payloads of accepted events, each with the offset of its next beat.
    payload: VecDeque<(Vec<u8>, usize)>,
    coming: Option<Coming>,
    said: VecDeque<(u64, EngineOutput)>,
}

impl EnginePorts {
    /// `gate` decides in which cycles messages are accepted.
    pub(crate) fn new(gate: Gate) -> Self {
        Self { gate, events: VecDeque::new(), payload: VecDeque::new(), coming: None, said: VecDeque::new() }
    }

    /// Queues an event.
    pub(crate) fn push(&mut self, event: Event<'_>) {
        self.events.push_back(pending(event));
    }

    /// Number of events that have not been accepted.
    pub(crate) fn waiting(&self) -> usize {
        self.events.len()
    }

    /// The next output of the engine, with the tick in which it was complete.
    pub(crate) fn poll(&mut self) -> Option<(u64, EngineOutput)> {
        self.said.pop_front()
    }

    /// Passes the engine's outputs on as effects.
    pub(crate) fn emit(&mut self, io: &mut Io<'_>) {
        for (_, output) in self.said.drain(..) {
            match output {
                EngineOutput::Send { to, kind, payload } => io.effects.send(to, kind, &[&payload]),
                EngineOutput::Reply { to, kind, payload } => io.effects.reply(to, kind, &[&payload]),
                EngineOutput::Timer { tag, at } => io.effects.set_timer(tag, at),
            }
        }
    }

    /// Values for the engine's inputs in this cycle.
    pub(crate) fn offer(&mut self) -> Offer {
        // An event may be offered while the previous payload is transferred, but not before that transfer has
        // begun.
        let event = self.events.front().filter(|_| self.payload.len() < 2);
        let is_coming = self.coming.is_some();
        Offer {
            event: event.map(|pending| pending.event),
            configuration: event.and_then(|pending| pending.configuration),
            payload: self.payload.front().map(|(bytes, at)| beat(bytes, *at).pack()),
            message_ready: !is_coming && self.gate.is_open(),
            body_ready: is_coming && self.gate.is_open(),
        }
    }

    /// Processes the engine's outputs of cycle `tick`, in which `offer` was driven. Returns whether nothing
    /// is in progress.
    ///
    /// # Panics
    /// If the engine breaks the rules of its ports.
    pub(crate) fn take(&mut self, tick: u64, offer: &Offer, shown: Shown) -> bool {
        let mut quiet = shown.idle && self.events.is_empty() && self.payload.is_empty();
        if offer.payload.is_some()
            && shown.payload_ready
            && let Some((bytes, at)) = self.payload.front_mut()
        {
            *at += BEAT_BYTES;
            if *at >= bytes.len() {
                self.payload.pop_front();
            }
        }
        if offer.event.is_some() && shown.event_ready {
            let taken = self.events.pop_front().expect("it was offered");
            if !taken.payload.is_empty() {
                self.payload.push_back((taken.payload, 0));
            }
        }
        if let Some(coming) = &mut self.coming {
            quiet = false;
            match &shown.body {
                Some(body) if offer.body_ready => coming.take(&Beat::unpack(body)),
                Some(_) => {}
                None => assert!(!coming.begun, "engine: the payload of {:x?} pauses", coming.message),
            }
        }
        if let Some(message) = shown.message {
            quiet = false;
            if offer.message_ready {
                self.coming = Some(Coming { message, payload: Vec::new(), begun: false });
            }
        }
        if let Some(coming) = self.coming.take_if(|coming| coming.is_complete()) {
            self.said.push_back((tick, coming.output()));
        }
        if let Some((tag, cycle)) = shown.timer {
            quiet = false;
            let at = Instant::ZERO + CYCLE * cycle;
            self.said.push_back((tick, EngineOutput::Timer { tag: tag.into(), at }));
        }
        quiet
    }
}

/// Totals of each field of a struct of event pulses and small counts.
#[derive(Debug)]
pub(crate) struct Tally {
    fields: &'static [(&'static str, u32)],
    counts: Vec<u64>,
}

impl Tally {
    /// Totals for a struct with these fields (name, bits).
    pub(crate) fn new(fields: &'static [(&'static str, u32)]) -> Self {
        Self { fields, counts: vec![0; fields.len()] }
    }

    /// Adds the events of one cycle.
    pub(crate) fn add(&mut self, words: &[u32]) {
        if words.iter().all(|&word| word == 0) {
            return;
        }
        let mut at = self.fields.iter().map(|(_, bits)| bits).sum();
        for ((_, bits), count) in self.fields.iter().zip(&mut self.counts) {
            at -= bits;
            *count += take(words, at, *bits);
        }
    }

    /// The totals by name.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.fields.iter().zip(&self.counts).map(|((name, _), count)| (*name, *count)).collect()
    }
}

impl Coming {
    fn take(&mut self, beat: &Beat) {
        self.begun = true;
        let left = usize::from(self.message.bytes) - self.payload.len();
        let bytes = left.min(BEAT_BYTES);
        assert!(left > 0, "engine: more payload than {:x?} has", self.message);
        assert_eq!(beat.last, left <= BEAT_BYTES, "engine: the last beat of {:x?}", self.message);
        if beat.last {
            assert_eq!(usize::from(beat.empty), BEAT_BYTES - bytes, "engine: the end of {:x?}", self.message);
        }
        let lanes: Vec<u8> = beat.data.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(lanes[bytes..].iter().all(|&byte| byte == 0), "engine: padding of {:x?}", self.message);
        self.payload.extend(&lanes[..bytes]);
    }

    fn is_complete(&self) -> bool {
        self.payload.len() == usize::from(self.message.bytes)
    }

    fn output(self) -> EngineOutput {
        let Self { message, payload, .. } = self;
        let kind = message.message;
        if message.reply {
            EngineOutput::Reply { to: from_caller(&message.caller), kind, payload }
        } else {
            EngineOutput::Send { to: NodeSet::from_bits(message.to), kind, payload }
        }
    }
}

/// A port of any width, as words.
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

/// The first cycle at or after a time.
pub(crate) fn cycles_up(time: Instant) -> u64 {
    time.as_ps().div_ceil(CYCLE.as_ps())
}

/// The beat of up to 64 bytes of a payload, from offset `at` on.
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

/// An event in the encoding of the gateware.
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
        // The last cycle that is not after the end of the lease.
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
        other => panic!("engine: a caller is of kind {other}"),
    }
}
