//! One NIC in a test: soft or gateware, with the same names, numbers and keys.

use std::net::Ipv4Addr;

use weft_gateware::{Latency, Pressure, RtlNic, RtlNicConfig};
use weft_nic::{Card, CardConfig, HostCommand, HostEvent, Nic, RdmaDriver, SoftNic, SoftNicConfig};
use weft_service::Setting;
use weft_service::preprocess::Pipeline;
use weft_time::{Duration, Instant};
use weft_verbs::{ApiError, Completion, QueuePairNumber, ReceiveRequest, Target, WorkRequest};
use weft_waist::{Caller, Engine, EngineStatus, Event, Io, Memory, NODES_MAX};
use weft_wire::ethernet::MacAddress;
use weft_wire::roce::MASK_24;

use crate::coverage;

/// Bytes of host memory and of HBM of a NIC.
pub const MEMORY_BYTES: usize = 0x2_0000;

/// Bytes of the gateware's register file.
pub const REGISTER_BYTES: usize = 512;

/// Number of engine slots of a soft NIC. The engines only record their calls.
const SLOTS: u8 = 4;

/// Bytes of an engine's memory, which nothing uses.
const ENGINE_BYTES: usize = 64;

/// A NIC is quiet if its next deadline is further away than this: it waits for a timer and not for its clock.
const QUIET: Duration = Duration::from_ns(64);

/// Limit of steps of [`QUIET`] until a NIC is quiet.
const STEPS_MAX: usize = 1_000_000;

/// The implementation of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The reference, in software.
    Soft,
    /// The gateware, Verilated.
    Rtl,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Soft, Self::Rtl];

    /// All pairs of client and server.
    pub const PAIRS: [[Self; 2]; 4] =
        [[Self::Soft, Self::Soft], [Self::Rtl, Self::Rtl], [Self::Soft, Self::Rtl], [Self::Rtl, Self::Soft]];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft",
            Self::Rtl => "rtl",
        }
    }
}

/// A call of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The engine's slot.
    pub slot: u8,
    /// The queue pair over which the call came.
    pub queue_pair: QueuePairNumber,
    /// The kind of the message: from the immediate value or the first word.
    pub kind: u8,
    /// The message's content.
    pub payload: Vec<u8>,
}

/// Options of a NIC in addition to those that [`Twin::new`] gives to all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Random back-pressure on the gateware's ports.
    pub pressure: Option<Pressure>,
    /// Seed of the initial contents of the gateware's storage that reset does not clear.
    pub power_on_seed: u32,
    /// Latency of the memories behind the gateware; `None` for each memory's default.
    pub memory_latency: Option<Latency>,
    /// Number of packets ahead of the expected PSN that are kept, up to the gateware's number of places.
    pub reorder_packets: usize,
    /// Whether responses say that a missing part of a READ may be requested alone.
    pub read_parts: bool,
    /// Whether the gateware has services. A soft NIC always has them.
    pub services: bool,
}

/// An engine that records its calls.
#[derive(Debug, Default)]
pub struct Recorder {
    calls: Vec<(QueuePairNumber, u8, Vec<u8>)>,
}

impl Engine for Recorder {
    fn handle(&mut self, _now: Instant, event: Event<'_>, _io: &mut Io<'_>) {
        if let Event::Call { caller: Caller::QueuePair(queue_pair), message, .. } = event {
            let number = QueuePairNumber(queue_pair.0 & MASK_24);
            self.calls.push((number, message.kind, message.payload.to_vec()));
        }
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::STARTING
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[derive(Debug)]
enum Device {
    Soft(Box<SoftNic<Recorder>>),
    Rtl(Box<RtlNic>),
}

/// A NIC and its outputs.
#[derive(Debug)]
pub struct Twin {
    kind: Kind,
    device: Device,
    hardware: MacAddress,
    address: Ipv4Addr,
    now: Instant,
    queue_pairs: Vec<QueuePairNumber>,
    /// Number of calls of each engine that have been passed on.
    calls_seen: [usize; SLOTS as usize],
    frames: Vec<Vec<u8>>,
    completions: Vec<Completion>,
    calls: Vec<Call>,
    /// Frames that the NIC passed to its host.
    pub host_frames: Vec<Vec<u8>>,
}

/// MAC address of the NIC on one side.
pub const fn hardware(side: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, 1 + side as u8])
}

/// IPv4 address of the NIC on one side.
pub const fn address(side: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + side as u8)
}

/// Configuration of the transport of both kinds. Values that are fixed in the gateware are set for the soft
/// twin.
pub fn transport() -> weft_rdma::Config {
    weft_rdma::Config {
        max_queue_pairs: 512,
        max_regions: 1_024,
        max_rd_atomic: 16,
        window_packets: 64,
        acknowledge_interval: 16,
        burst_packets: 1,
        key_seed: 7,
        ..weft_rdma::Config::default()
    }
}

impl Twin {
    /// Creates the NIC of one side, with the other side as a neighbour.
    pub fn new(kind: Kind, side: usize, options: Options) -> Self {
        let mut twin = Self::at(kind, hardware(side), address(side), options);
        twin.add_neighbour(address(1 - side), hardware(1 - side));
        twin
    }

    /// Creates a NIC with these addresses.
    pub fn at(kind: Kind, hardware: MacAddress, address: Ipv4Addr, options: Options) -> Self {
        let transport = weft_rdma::Config {
            reorder_packets: options.reorder_packets,
            read_parts: options.read_parts,
            ..transport()
        };
        let device = match kind {
            Kind::Soft => {
                let card = CardConfig {
                    peers: [None; NODES_MAX],
                    datagram_bytes: 1_472,
                    transport,
                    region_bytes: MEMORY_BYTES,
                };
                let config = SoftNicConfig { hardware, address, card };
                let engines = (0..SLOTS).map(|_| (Recorder::default(), Memory::new(ENGINE_BYTES)));
                Device::Soft(Box::new(SoftNic::new(config, engines.collect())))
            }
            Kind::Rtl => {
                let mut nic = RtlNic::new(&RtlNicConfig {
                    hardware,
                    address,
                    transport,
                    region_bytes: MEMORY_BYTES,
                    bits_per_s: 100_000_000_000,
                    hbm: options.memory_latency.unwrap_or(Latency { read_cycles: 40, write_cycles: 20 }),
                    host: options.memory_latency.unwrap_or(Latency { read_cycles: 150, write_cycles: 60 }),
                    pressure: options.pressure,
                    power_on_seed: options.power_on_seed,
                    psp: None,
                    services: options.services,
                    engine: None,
                });
                if coverage::is_on() {
                    nic.watch();
                }
                Device::Rtl(Box::new(nic))
            }
        };
        Self {
            kind,
            device,
            hardware,
            address,
            now: Instant::ZERO,
            queue_pairs: Vec::new(),
            calls_seen: [0; SLOTS as usize],
            frames: Vec::new(),
            completions: Vec::new(),
            calls: Vec::new(),
            host_frames: Vec::new(),
        }
    }

    /// The NIC's kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The NIC's MAC and IPv4 addresses.
    pub const fn station(&self) -> (MacAddress, Ipv4Addr) {
        (self.hardware, self.address)
    }

    fn nic(&mut self) -> &mut dyn Nic {
        match &mut self.device {
            Device::Soft(nic) => &mut **nic,
            Device::Rtl(nic) => &mut **nic,
        }
    }

    /// The driver's interface.
    pub fn driver(&mut self) -> &mut dyn RdmaDriver {
        match &mut self.device {
            Device::Soft(nic) => &mut **nic,
            Device::Rtl(nic) => &mut **nic,
        }
    }

    /// The gateware NIC, if it is of that kind.
    pub fn rtl(&mut self) -> Option<&mut RtlNic> {
        match &mut self.device {
            Device::Soft(_) => None,
            Device::Rtl(nic) => Some(nic),
        }
    }

    /// Adds a static neighbour.
    pub fn add_neighbour(&mut self, address: Ipv4Addr, hardware: MacAddress) {
        match &mut self.device {
            Device::Soft(nic) => nic.add_neighbour(address, hardware),
            Device::Rtl(nic) => nic.add_neighbour(address, hardware),
        }
    }

    /// Creates a queue pair in state RESET.
    ///
    /// # Errors
    /// Like [`RdmaDriver::create_queue_pair`].
    pub fn create_queue_pair(&mut self) -> Result<QueuePairNumber, ApiError> {
        let number = self.driver().create_queue_pair(weft_verbs::QueuePairAttributes::default())?;
        self.queue_pairs.push(number);
        Ok(number)
    }

    /// The first `length` bytes of a memory.
    pub fn image(&mut self, target: Target, length: usize) -> Vec<u8> {
        self.driver().memory().read(target, 0, length).expect("installed").to_vec()
    }

    /// Writes to memory.
    pub fn fill(&mut self, target: Target, address: u64, bytes: &[u8]) {
        self.driver().memory().write(target, address, bytes).expect("installed");
    }

    /// Loads a preprocessing pipeline, and returns the value of settings that use it.
    pub fn load_pipeline(&mut self, pipeline: &Pipeline) -> u64 {
        match &mut self.device {
            Device::Soft(nic) => nic.card_mut().load_pipeline(pipeline.clone()),
            Device::Rtl(nic) => nic.load_pipeline(pipeline).expect("the gates can run it"),
        }
    }

    /// Sets the services of a queue pair.
    pub fn serve(&mut self, queue_pair: QueuePairNumber, setting: Setting) {
        match &mut self.device {
            Device::Soft(nic) => nic.card_mut().serve(queue_pair, setting),
            Device::Rtl(nic) => nic.serve(queue_pair, setting).expect("it exists"),
        }
    }

    /// The reading of a queue pair's tap.
    pub fn tap_reading(&mut self, queue_pair: QueuePairNumber) -> u64 {
        match &mut self.device {
            Device::Soft(nic) => nic.card().tap_reading(queue_pair),
            Device::Rtl(nic) => nic.tap_reading(queue_pair).expect("it exists"),
        }
    }

    /// The time up to which the NIC has run.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The NIC's next deadline.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.nic().next_deadline()
    }

    /// Delivers a frame without giving the NIC time to process it.
    pub fn receive(&mut self, now: Instant, frame: &[u8]) {
        self.now = self.now.max(now);
        let now = self.now;
        self.nic().receive_frame(now, frame);
        self.collect();
    }

    /// Posts a work request. If the NIC refuses it, a completion reports the error.
    pub fn post_send(&mut self, now: Instant, queue_pair: QueuePairNumber, request: WorkRequest) {
        self.now = self.now.max(now);
        let now = self.now;
        self.nic().submit(now, HostCommand::PostSend(queue_pair, request));
        self.collect();
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// Like [`RdmaDriver::post_receive`].
    pub fn post_receive(
        &mut self,
        queue_pair: QueuePairNumber,
        request: ReceiveRequest,
    ) -> Result<(), ApiError> {
        self.driver().post_receive(queue_pair, request)
    }

    /// Lets time pass until `now`.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let now = self.now;
        self.nic().handle_deadline(now);
        self.collect();
    }

    /// Lets time pass until the NIC is quiet, that is, idle or waiting for a timer.
    ///
    /// # Panics
    /// If the NIC never becomes quiet.
    pub fn settle(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.collect();
        self.quieten();
        if coverage::is_on()
            && let Some(nic) = self.rtl()
        {
            nic.look();
            // The observation takes clock cycles.
            self.quieten();
        }
    }

    fn quieten(&mut self) {
        for _ in 0..STEPS_MAX {
            match self.next_deadline() {
                Some(at) if at <= self.now + QUIET => self.advance(self.now + QUIET),
                _ => return,
            }
        }
        panic!("{}: never quiet", self.kind.name());
    }

    /// Collects all outputs.
    fn collect(&mut self) {
        let now = self.now;
        let mut frame = Vec::new();
        while self.nic().poll_frame(now, &mut frame) {
            self.frames.push(std::mem::take(&mut frame));
        }
        while let Some(event) = self.nic().poll_host() {
            match event {
                HostEvent::Completion(completion) => self.completions.push(completion),
                HostEvent::Frame(frame) => self.host_frames.push(frame),
                HostEvent::Status { .. } | HostEvent::Reply { .. } | HostEvent::Request { .. } => {}
            }
        }
        if let Device::Soft(nic) = &self.device {
            collect_soft(nic.card(), &mut self.calls_seen, &mut self.calls);
        }
    }

    /// Removes and returns the frames that the NIC has sent.
    pub fn take_frames(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.frames)
    }

    /// Removes and returns the NIC's completions.
    pub fn take_completions(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.completions)
    }

    /// Removes and returns the engine calls of a soft NIC, which its engines record.
    pub fn take_calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }

    /// Number of calls that named an operation. The gateware has no engine here, so it counts them as
    /// messages without one.
    pub fn calls(&self) -> u64 {
        match &self.device {
            Device::Soft(_) => self.calls_seen.iter().sum::<usize>() as u64,
            Device::Rtl(nic) => nic.counter("messages_without_engine"),
        }
    }

    /// Named counters.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        match &self.device {
            Device::Soft(nic) => nic.counters(),
            Device::Rtl(nic) => nic.counters(),
        }
    }

    /// The value of one counter; zero if this kind has none with this name.
    pub fn counter(&self, name: &str) -> u64 {
        match &self.device {
            Device::Soft(nic) => {
                nic.counters().iter().filter(|(known, _)| *known == name).map(|(_, value)| value).sum()
            }
            Device::Rtl(nic) => nic.counter(name),
        }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        if let Some(nic) = self.rtl()
            && coverage::is_on()
        {
            let arcs = nic.look().cloned().unwrap_or_default();
            coverage::note(&nic.events(), &arcs);
        }
    }
}

fn collect_soft(card: &Card<Recorder>, seen: &mut [usize; SLOTS as usize], calls: &mut Vec<Call>) {
    for (slot, seen) in (0..SLOTS).zip(seen) {
        let (engine, _) = card.engine(slot);
        for (queue_pair, kind, payload) in &engine.calls[*seen..] {
            calls.push(Call { slot, queue_pair: *queue_pair, kind: *kind, payload: payload.clone() });
        }
        *seen = engine.calls.len();
    }
}
