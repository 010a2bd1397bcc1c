//! Random requests of all kinds over a wire that loses, duplicates, delays and corrupts.
//!
//! Each queue pair has its own memory on both sides. So a model that executes requests in posting order
//! predicts all memory, completions and engine calls, whatever the wire does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_service::preprocess::Pipeline;
use weft_service::{Action, Direction, MapKind, Services, Setting, TapKind};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, Completion, CompletionOpcode, CompletionStatus, LocalBuffer, Operation, PathMtu,
    QueuePairNumber, QueuePairState, ReceiveRequest, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};

use crate::stage::Connection;
use crate::twin::{Kind, MEMORY_BYTES, Options, Twin};

/// The longest message, in bytes, and the size of each area of a queue pair's memory.
const AREA_BYTES: u64 = 0x1400;

/// Areas of a queue pair in host memory: the source of its requests, which the peer may read; the destination
/// of responses; the destination of messages; and the window that the peer may write, read and change.
const HOST_AREAS: u64 = 4;

/// Maximum number of queue pairs whose areas fit in 128 KiB of host memory.
const QUEUE_PAIRS_MAX: usize = 6;

/// Bytes of the register file for each queue pair.
const REGISTER_BYTES: u64 = 64;

/// Bytes of each call's range, and the number of ranges for each queue pair.
const CALL_BYTES: u64 = 64;
const CALL_PLACES: u64 = 16;

/// Offsets in on-chip memory: of the windows, some of which write through to the same address of HBM, and of
/// the ranges for calls.
const ON_CHIP_AT: u64 = 0x8000;
const CALLS_AT: u64 = 0x1_8000;

/// Maximum number of outstanding requests of one queue pair.
const OUTSTANDING_MAX: usize = 12;

/// Latency of the wire.
const LATENCY: Duration = Duration::from_us(1);

/// The least step of time towards a deadline of a NIC, unless a frame or a request of the host comes sooner.
/// Must be less than the latency of the wire.
const QUANTUM: Duration = Duration::from_ns(200);

/// Duration of a byte at 100 Gb/s.
const PS_PER_BYTE: u64 = 80;

/// Counters that must stay zero under all faults of the wire.
const FORBIDDEN: [&str; 22] = [
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "send_err",
    "sent_invalid_request",
    "sent_access_error",
    "sent_operational_error",
    "rcvd_invalid_request",
    "rcvd_access_error",
    "rcvd_operational_error",
    "violation_key",
    "violation_domain",
    "violation_bounds",
    "violation_permission",
    "drop_unknown_queue_pair",
    "drop_wrong_source",
    "drop_wrong_state",
    "drop_partition_key",
    "drop_malformed",
    "drop_reserved_syndrome",
    "roce_malformed",
    "rpc_malformed",
    "memory_fault",
];

/// Fault rates of the wire, in frames of a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Frames lost.
    pub loss: u32,
    /// Frames duplicated; the second copy arrives later.
    pub duplication: u32,
    /// Frames delayed behind later ones.
    pub reordering: u32,
    /// Frames with one to three flipped bits.
    pub corruption: u32,
}

/// Parameters of a random run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Seed of all random decisions.
    pub seed: u64,
    /// Number of requests, over all queue pairs and both directions.
    pub messages: usize,
    /// Queue pairs of each side.
    pub queue_pairs: usize,
    /// Faults of the wire.
    pub faults: Faults,
    /// Options of the NICs.
    pub options: Options,
}

/// Statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Frames sent by both sides.
    pub frames: u64,
    /// Numbers of frames that the wire lost, duplicated, delayed and corrupted.
    pub faults: [u64; 4],
    /// Requests that have completed.
    pub messages: usize,
    /// Messages that consumed a receive request.
    pub received: usize,
    /// Calls of engines.
    pub calls: usize,
    /// Time of the end, in the world's time.
    pub end: Duration,
    /// Counters of each side that are not zero.
    pub counters: [Vec<(&'static str, u64)>; 2],
}

/// Random numbers.
#[derive(Debug)]
struct Chance(Xoshiro256PlusPlus);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit.max(1)
    }

    fn happens(&mut self, of_a_million: u32) -> bool {
        self.below(1_000_000) < of_a_million.into()
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// An outstanding request.
#[derive(Clone, Copy, Debug)]
struct Pending {
    id: u64,
    signaled: bool,
    opcode: CompletionOpcode,
    bytes: u32,
}

/// A message that consumes a receive request.
#[derive(Debug)]
struct Message {
    /// `None` for a WRITE with immediate, whose payload goes elsewhere.
    content: Option<Vec<u8>>,
    bytes: u32,
    immediate: Option<u32>,
    /// Whether the services mark it.
    marked: bool,
}

/// One direction of one connection: the requests of `side`.
#[derive(Debug)]
struct Flow {
    side: usize,
    index: usize,
    queue_pair: QueuePairNumber,
    left: usize,
    pending: VecDeque<Pending>,
    unsignaled: usize,
    /// A READ since the last fence has read data that a WRITE may change. If the READ were retransmitted
    /// after the WRITE, it would return the new data.
    reads_window: bool,
    calls: u64,
    /// Messages that wait for a receive request, and receive requests that wait for a message.
    messages: VecDeque<Message>,
    receives: VecDeque<(u64, u64)>,
    receives_posted: u64,
    sends: u64,
    /// The expected receive completions of the peer.
    expected_receives: VecDeque<(u64, CompletionOpcode, u32, Option<u32>, bool)>,
    expected_calls: VecDeque<(u8, Vec<u8>)>,
}

/// The regions of one queue pair that the peer may access.
#[derive(Clone, Copy, Debug)]
struct Opened {
    source: RegionKeys,
    windows: [RegionKeys; 4],
    calls: RegionKeys,
}

/// A frame on the wire: arrival time, a serial number to order equal times, the receiving side, and the
/// bytes.
type Arrival = Reverse<(Instant, u64, usize, Vec<u8>)>;

struct World {
    run: Run,
    twins: [Twin; 2],
    chance: Chance,
    now: Instant,
    wire: BinaryHeap<Arrival>,
    wire_free: [Instant; 2],
    serial: u64,
    flows: Vec<Flow>,
    opened: [Vec<Opened>; 2],
    own: [RegionKeys; 2],
    queue_pairs: [Vec<QueuePairNumber>; 2],
    /// The expected contents of all memory at the end, by side and target.
    model: [[Vec<u8>; 4]; 2],
    /// The services of each side, and the payload of a packet, by the index of the queue pair.
    services: [Services; 2],
    path_mtus: Vec<PathMtu>,
    next_id: u64,
    next_host_turn: Instant,
    report: Report,
}

/// Gives the queue pairs of a NIC different services, but none to the first. Returns the services for the model.
fn serve(twin: &mut Twin, queue_pairs: &[QueuePairNumber]) -> Services {
    let mut services = Services::new();
    let pipelines = Pipeline::PRESETS.map(|name| {
        let pipeline = Pipeline::preset(name).expect("a preset");
        let value = twin.load_pipeline(&pipeline);
        assert_eq!(services.load(pipeline), value);
        value
    });
    for (index, number) in queue_pairs.iter().enumerate().skip(1) {
        let setting = match index % 4 {
            0 => {
                Setting { tap: TapKind::Count, action: Action::Mark { threshold: 300 }, ..Setting::default() }
            }
            1 => Setting {
                map: MapKind::Xor,
                tap: TapKind::Inspect,
                value: 0x0123_4567_89ab_cdef,
                action: Action::Mark { threshold: 200 },
            },
            2 => Setting { map: MapKind::Preprocess, value: pipelines[0], ..Setting::default() },
            _ => Setting {
                map: MapKind::Preprocess,
                tap: TapKind::Count,
                value: pipelines[1],
                action: Action::Mark { threshold: 1_000 },
            },
        };
        services.configure(requests_of(index), setting);
        twin.serve(*number, setting);
    }
    services
}

/// The flow of requests that arrive on a queue pair, in the model's services.
fn requests_of(index: usize) -> weft_service::Flow {
    weft_service::Flow { queue_pair: index as u16, direction: Direction::Receive }
}

/// Start of a queue pair's area in host memory.
const fn host_area(queue_pair: usize, area: u64) -> u64 {
    (queue_pair as u64 * HOST_AREAS + area) * AREA_BYTES
}

/// Start and size in bytes of a queue pair's window in a target.
const fn window(queue_pair: usize, target: Target) -> (u64, u64) {
    let place = queue_pair as u64;
    match target {
        Target::Register => (place * REGISTER_BYTES, REGISTER_BYTES),
        Target::OnChip => (ON_CHIP_AT + place * AREA_BYTES, AREA_BYTES),
        Target::Hbm => (place * AREA_BYTES, AREA_BYTES),
        Target::Host => (host_area(queue_pair, 3), AREA_BYTES),
    }
}

/// Bytes of a target that are compared.
const fn image_bytes(target: Target) -> usize {
    match target {
        Target::Register => 512,
        Target::OnChip | Target::Hbm | Target::Host => MEMORY_BYTES,
    }
}

/// Runs random requests between two NICs and compares the results with the model.
///
/// # Errors
/// The first difference: a completion, memory, a call, a counter, or that the run did not end.
///
/// # Panics
/// If the NICs refuse the set-up.
pub fn check(kinds: [Kind; 2], run: &Run) -> Result<Report, String> {
    assert!(run.queue_pairs <= QUEUE_PAIRS_MAX, "at most {QUEUE_PAIRS_MAX} queue pairs");
    let mut world = World::new(kinds, run);
    let context = |error| format!("{}-{} {run:?}: {error}", kinds[0].name(), kinds[1].name());
    world.go().map_err(context)?;
    world.compare().map_err(context)?;
    Ok(world.report)
}

impl World {
    fn new(kinds: [Kind; 2], run: &Run) -> Self {
        let mut chance = Chance(Xoshiro256PlusPlus::seed_from_u64(run.seed));
        let mut twins = [0, 1].map(|side| Twin::new(kinds[side], side, run.options));
        let model = [0, 1].map(|_| Target::ALL.map(|target| vec![0; image_bytes(target)]));
        let mut world_model: [[Vec<u8>; 4]; 2] = model;
        let own = [0, 1].map(|side: usize| {
            let all = Region::host(0, MEMORY_BYTES as u64, AccessFlags::LOCAL_WRITE);
            twins[side].driver().register_region(all).expect("room")
        });
        let opened = [0, 1].map(|side: usize| {
            let open = |twin: &mut Twin, queue_pair| open(twin, queue_pair);
            (0..run.queue_pairs).map(|queue_pair| open(&mut twins[side], queue_pair)).collect()
        });
        for side in 0..2 {
            for target in Target::ALL {
                let image = &mut world_model[side][target as usize];
                chance.0.fill_bytes(image);
                twins[side].fill(target, 0, image);
            }
        }
        let queue_pairs: [Vec<QueuePairNumber>; 2] = [0, 1].map(|side: usize| {
            (0..run.queue_pairs).map(|_| twins[side].create_queue_pair().expect("room")).collect()
        });
        let services = [0, 1].map(|side: usize| {
            if run.options.services { serve(&mut twins[side], &queue_pairs[side]) } else { Services::new() }
        });
        let (mut flows, mut path_mtus) = (Vec::new(), Vec::new());
        let connections = queue_pairs[0].iter().zip(&queue_pairs[1]).map(|(one, other)| [*one, *other]);
        for (index, ends) in connections.enumerate() {
            let path_mtu = chance.pick(&PathMtu::ALL);
            path_mtus.push(path_mtu);
            let connection = Connection {
                path_mtu,
                // Half of the connections start with PSNs close to the maximum, so that they wrap.
                psn: [0, 1].map(|_| {
                    if chance.happens(500_000) {
                        0xff_ffff - chance.below(300) as u32
                    } else {
                        chance.below(1 << 24) as u32
                    }
                }),
                timeout: 7,
                retry_cnt: 7,
                rnr_retry: 7,
                min_rnr_timer: 1,
                rd_atomic: chance.pick(&[1, 2, 4, 16]),
            };
            for side in 0..2 {
                let (receive, send) = connection.attributes(side, ends[1 - side]);
                let number = ends[side];
                twins[side].driver().connect(number, AccessFlags::ALL, receive, send).expect("legal");
                let (ways, way) = (2 * run.queue_pairs, 2 * index + side);
                let share = run.messages / ways + usize::from(way < run.messages % ways);
                flows.push(Flow {
                    side,
                    index,
                    queue_pair: number,
                    left: share,
                    pending: VecDeque::new(),
                    unsignaled: 0,
                    reads_window: false,
                    calls: 0,
                    messages: VecDeque::new(),
                    receives: VecDeque::new(),
                    receives_posted: 0,
                    sends: 0,
                    expected_receives: VecDeque::new(),
                    expected_calls: VecDeque::new(),
                });
            }
        }
        Self {
            run: *run,
            twins,
            chance,
            now: Instant::ZERO,
            wire: BinaryHeap::new(),
            wire_free: [Instant::ZERO; 2],
            serial: 0,
            flows,
            opened,
            own,
            queue_pairs,
            model: world_model,
            services,
            path_mtus,
            next_id: 1,
            next_host_turn: Instant::ZERO,
            report: Report::default(),
        }
    }

    fn go(&mut self) -> Result<(), String> {
        let mut idle_turns = 0;
        loop {
            if self.now >= self.next_host_turn {
                self.host_turn();
                self.next_host_turn = self.now + Duration::from_ns(100 + self.chance.below(1_500));
            }
            let before = self.report.messages + self.report.received;
            self.step()?;
            idle_turns =
                if self.report.messages + self.report.received > before { 0 } else { idle_turns + 1 };
            if idle_turns > 20_000_000 {
                return Err(format!("nothing completes any more: {:?}", self.flows));
            }
            let is_done = self
                .flows
                .iter()
                .all(|flow| flow.left == 0 && flow.pending.is_empty() && flow.expected_receives.is_empty());
            if is_done && self.wire.is_empty() && !self.is_busy() {
                break;
            }
        }
        self.report.end = self.now.saturating_since(Instant::ZERO);
        Ok(())
    }

    /// Whether a NIC has work other than waiting for a timer.
    fn is_busy(&mut self) -> bool {
        let soon = self.now + QUANTUM;
        self.twins.iter_mut().any(|twin| twin.next_deadline().is_some_and(|at| at <= soon))
    }

    /// Advances time to the next event.
    fn step(&mut self) -> Result<(), String> {
        let soon = self.now + QUANTUM;
        let mut next = Instant::FAR_FUTURE;
        if self.flows.iter().any(|flow| flow.left > 0 || flow.sends > flow.receives_posted) {
            next = self.next_host_turn;
        }
        if let Some(Reverse((at, ..))) = self.wire.peek() {
            next = next.min(*at);
        }
        for twin in &mut self.twins {
            if let Some(at) = twin.next_deadline() {
                next = next.min(at.max(soon));
            }
        }
        if next == Instant::FAR_FUTURE {
            return Err(format!("nobody waits for anything: {:?}", self.flows));
        }
        self.now = self.now.max(next);
        for side in 0..2 {
            self.twins[side].advance(self.now);
        }
        while let Some(Reverse((at, ..))) = self.wire.peek()
            && *at <= self.now
        {
            let Reverse((_, _, side, frame)) = self.wire.pop().expect("peeked");
            self.twins[side].receive(self.now, &frame);
        }
        for side in 0..2 {
            for frame in self.twins[side].take_frames() {
                self.send(side, frame);
            }
            for completion in self.twins[side].take_completions() {
                self.complete(side, &completion)?;
            }
            for call in self.twins[side].take_calls() {
                self.take_call(side, &call)?;
            }
        }
        Ok(())
    }

    /// Checks a call of the soft NIC. For the gateware, [`World::compare`] counts calls.
    fn take_call(&mut self, side: usize, call: &crate::twin::Call) -> Result<(), String> {
        let index = self.queue_pairs[side].iter().position(|number| *number == call.queue_pair);
        let index = index.ok_or("a call over a queue pair that nobody has")?;
        let flow = &mut self.flows[2 * index + 1 - side];
        let expected = flow.expected_calls.pop_front();
        if expected.as_ref() != Some(&(call.kind, call.payload.clone()))
            || usize::from(call.slot) != index % 4
        {
            return Err(format!("a call {call:?} where {expected:?} was expected"));
        }
        self.report.calls += 1;
        Ok(())
    }

    /// Puts a frame on the wire, with random faults.
    fn send(&mut self, side: usize, mut frame: Vec<u8>) {
        self.report.frames += 1;
        let bytes = frame.len() as u64 + 24;
        let leaves = self.now.max(self.wire_free[side]);
        self.wire_free[side] = leaves + Duration::from_ps(bytes * PS_PER_BYTE);
        let mut arrives = self.wire_free[side] + LATENCY;
        let faults = self.run.faults;
        if self.chance.happens(faults.loss) {
            self.report.faults[0] += 1;
            return;
        }
        if self.chance.happens(faults.corruption) {
            self.report.faults[3] += 1;
            for _ in 0..=self.chance.below(3) {
                let bit = self.chance.below(8 * frame.len() as u64);
                frame[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
        if self.chance.happens(faults.duplication) {
            self.report.faults[1] += 1;
            let later = arrives + Duration::from_ns(self.chance.below(5_000));
            self.arrive(later, 1 - side, frame.clone());
        }
        if self.chance.happens(faults.reordering) {
            self.report.faults[2] += 1;
            arrives += Duration::from_ns(self.chance.below(3_000));
        }
        self.arrive(arrives, 1 - side, frame);
    }

    fn arrive(&mut self, at: Instant, side: usize, frame: Vec<u8>) {
        self.serial += 1;
        self.wire.push(Reverse((at, self.serial, side, frame)));
    }

    /// The hosts post requests.
    fn host_turn(&mut self) {
        for flow in 0..self.flows.len() {
            while self.flows[flow].left > 0
                && self.flows[flow].pending.len() < OUTSTANDING_MAX
                && self.chance.happens(400_000)
            {
                self.post(flow);
            }
            // Receive requests are sometimes posted late, but never without a message to come.
            let state = &self.flows[flow];
            if state.receives_posted < state.sends && self.chance.happens(700_000) {
                self.post_receive(flow);
            }
        }
    }

    fn post_receive(&mut self, flow: usize) {
        let id = self.id();
        let state = &mut self.flows[flow];
        let (side, index) = (1 - state.side, state.index);
        let address = host_area(index, 2);
        state.receives.push_back((id, address));
        state.receives_posted += 1;
        let local = LocalBuffer { address, length: AREA_BYTES as u32, lkey: self.own[side].lkey };
        let number = self.queue_pairs[side][index];
        self.twins[side].post_receive(number, ReceiveRequest { id, local }).expect("room for what is needed");
        self.match_receives(flow);
    }

    /// Matches messages with receive requests.
    fn match_receives(&mut self, flow: usize) {
        let state = &mut self.flows[flow];
        while !state.messages.is_empty() && !state.receives.is_empty() {
            let message = state.messages.pop_front().expect("not empty");
            let (id, address) = state.receives.pop_front().expect("not empty");
            let opcode = match &message.content {
                Some(content) => {
                    let start = address as usize;
                    let image = &mut self.model[1 - state.side][Target::Host as usize];
                    image[start..start + content.len()].copy_from_slice(content);
                    CompletionOpcode::Receive
                }
                None => CompletionOpcode::ReceiveWriteWithImmediate,
            };
            let Message { bytes, immediate, marked, .. } = message;
            state.expected_receives.push_back((id, opcode, bytes, immediate, marked));
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// A random length: often short, often close to a multiple of an MTU.
    fn length(&mut self, limit: u64) -> u64 {
        let length = match self.chance.below(8) {
            0 => self.chance.below(4),
            1..=3 => 64,
            4 => self.chance.below(256),
            5 => self.chance.pick(&[256, 512, 1_024, 2_048, 4_096]) + self.chance.below(3) - 1,
            _ => self.chance.below(AREA_BYTES),
        };
        length.min(limit)
    }

    /// Posts a random request, and executes it in the model.
    fn post(&mut self, flow: usize) {
        let id = self.id();
        let (side, index) = (self.flows[flow].side, self.flows[flow].index);
        let opened = self.opened[1 - side][index];
        let target = self.chance.pick(&Target::ALL);
        let (base, bytes) = window(index, target);
        let rkey = opened.windows[target as usize].rkey;
        let mut fence = self.chance.happens(20_000);
        let (mut changes_window, mut reads_window) = (false, false);
        let (operation, local_at, length) = match self.chance.below(100) {
            kind @ 0..=42 => {
                let length = self.length(bytes);
                let at = base + self.chance.below(bytes - length + 1);
                let from = host_area(index, 0) + self.chance.below(AREA_BYTES - length + 1);
                let immediate = (kind < 8).then(|| self.chance.0.next_u32());
                let content = self.host(side, from, length);
                let (content, marked) = self.pass(1 - side, index, content);
                self.store(1 - side, index, target, at, &content);
                if immediate.is_some() {
                    self.flows[flow].sends += 1;
                    self.flows[flow].messages.push_back(Message {
                        content: None,
                        bytes: length as u32,
                        immediate,
                        marked,
                    });
                }
                changes_window = true;
                let remote = RemoteAddress { address: at, rkey };
                (Operation::Write { remote, immediate }, from, length)
            }
            43..=54 => {
                let length = self.length(AREA_BYTES);
                let from = host_area(index, 0) + self.chance.below(AREA_BYTES - length + 1);
                let immediate = self.chance.happens(500_000).then(|| self.chance.0.next_u32());
                let content = self.host(side, from, length);
                let (content, marked) = self.pass(1 - side, index, content);
                self.flows[flow].sends += 1;
                self.flows[flow].messages.push_back(Message {
                    bytes: length as u32,
                    content: Some(content),
                    immediate,
                    marked,
                });
                (Operation::Send { immediate }, from, length)
            }
            kind @ 55..=79 => {
                let of_window = kind < 62;
                let (base, bytes, place, rkey) = if of_window {
                    (base, bytes, target, rkey)
                } else {
                    (host_area(index, 0), AREA_BYTES, Target::Host, opened.source.rkey)
                };
                let length = self.length(bytes);
                let at = base + self.chance.below(bytes - length + 1);
                let to = host_area(index, 1) + self.chance.below(AREA_BYTES - length + 1);
                reads_window = of_window;
                let content =
                    self.model[1 - side][place as usize][at as usize..(at + length) as usize].to_vec();
                self.model[side][Target::Host as usize][to as usize..(to + length) as usize]
                    .copy_from_slice(&content);
                (Operation::Read { remote: RemoteAddress { address: at, rkey } }, to, length)
            }
            kind @ 80..=94 => {
                let at = base + 8 * self.chance.below(bytes / 8);
                let to = host_area(index, 1) + self.chance.below(AREA_BYTES - 7);
                let word = self.model[1 - side][target as usize][at as usize..at as usize + 8].to_vec();
                let original = u64::from_le_bytes(word.as_slice().try_into().expect("8 bytes"));
                let remote = RemoteAddress { address: at, rkey };
                let (operation, new) = if kind < 88 {
                    let add = self.chance.0.next_u64();
                    (Operation::FetchAdd { remote, add }, Some(original.wrapping_add(add)))
                } else {
                    let compare =
                        if self.chance.happens(500_000) { original } else { self.chance.0.next_u64() };
                    let swap = self.chance.0.next_u64();
                    let new = (original == compare).then_some(swap);
                    (Operation::CompareSwap { remote, compare, swap }, new)
                };
                // If the comparison fails, the word is neither stored nor written through.
                if let Some(new) = new {
                    self.store(1 - side, index, target, at, &new.to_le_bytes());
                }
                self.model[side][Target::Host as usize][to as usize..to as usize + 8].copy_from_slice(&word);
                changes_window = true;
                (operation, to, 8)
            }
            _ => {
                let place = self.flows[flow].calls % CALL_PLACES;
                self.flows[flow].calls += 1;
                let length = self.chance.below(CALL_BYTES + 1);
                let at = CALLS_AT + (index as u64 * CALL_PLACES + place) * CALL_BYTES;
                let from = host_area(index, 0) + self.chance.below(AREA_BYTES - length + 1);
                let kind = self.chance.below(256) as u8;
                let content = self.host(side, from, length);
                let (content, _) = self.pass(1 - side, index, content);
                let start = at as usize;
                self.model[1 - side][Target::OnChip as usize][start..start + content.len()]
                    .copy_from_slice(&content);
                self.flows[flow].expected_calls.push_back((kind, content));
                let remote = RemoteAddress { address: at, rkey: opened.calls.rkey };
                (Operation::Write { remote, immediate: Some(kind.into()) }, from, length)
            }
        };
        let state = &mut self.flows[flow];
        fence |= changes_window && state.reads_window;
        state.reads_window = reads_window || (state.reads_window && !fence);
        state.left -= 1;
        let signaled = state.left == 0 || state.unsignaled == 3 || self.chance.happens(700_000);
        state.unsignaled = if signaled { 0 } else { state.unsignaled + 1 };
        let opcode = operation.completion_opcode();
        let received = match opcode {
            CompletionOpcode::Read | CompletionOpcode::FetchAdd | CompletionOpcode::CompareSwap => {
                length as u32
            }
            _ => 0,
        };
        state.pending.push_back(Pending { id, signaled, opcode, bytes: received });
        let local = LocalBuffer { address: local_at, length: length as u32, lkey: self.own[side].lkey };
        let mut request = WorkRequest::new(id, operation, local);
        (request.signaled, request.fence) = (signaled, fence);
        let number = state.queue_pair;
        self.twins[side].post_send(self.now, number, request);
        self.match_receives(flow);
    }

    /// Reads the model's host memory.
    fn host(&self, side: usize, at: u64, length: u64) -> Vec<u8> {
        self.model[side][Target::Host as usize][at as usize..(at + length) as usize].to_vec()
    }

    /// The content of a message as the services of the receiving `side` leave it, and whether they mark it. They see
    /// each packet once.
    fn pass(&mut self, side: usize, index: usize, mut content: Vec<u8>) -> (Vec<u8>, bool) {
        let mut marked = false;
        let (services, flow) = (&mut self.services[side], requests_of(index));
        let path_mtu = self.path_mtus[index].bytes();
        for (offset, packet) in (0..).step_by(path_mtu as usize).zip(content.chunks_mut(path_mtu as usize)) {
            let verdict = services.pass(flow, offset, packet);
            marked |= services.accept(flow, verdict);
        }
        (content, marked)
    }

    /// Stores into a window; some windows write through to HBM.
    fn store(&mut self, side: usize, index: usize, target: Target, at: u64, content: &[u8]) {
        let range = at as usize..at as usize + content.len();
        self.model[side][target as usize][range.clone()].copy_from_slice(content);
        if writes_through(index, target) {
            self.model[side][Target::Hbm as usize][range].copy_from_slice(content);
        }
    }

    fn complete(&mut self, side: usize, completion: &Completion) -> Result<(), String> {
        if completion.status != CompletionStatus::Success {
            return Err(format!("{completion:?}"));
        }
        let index = self.queue_pairs[side].iter().position(|number| *number == completion.queue_pair);
        let index = index.ok_or("a completion of a queue pair that nobody has")?;
        if completion.opcode as u8 >= CompletionOpcode::Receive as u8 {
            let expected = self.flows[2 * index + 1 - side].expected_receives.pop_front();
            let Completion { id, opcode, bytes, immediate, .. } = *completion;
            let found = (id, opcode, bytes, immediate, completion.is_marked());
            if expected != Some(found) {
                return Err(format!("{completion:?} where {expected:?} was expected"));
            }
            self.report.received += 1;
            return Ok(());
        }
        let flow = &mut self.flows[2 * index + side];
        while let Some(pending) = flow.pending.pop_front() {
            self.report.messages += 1;
            if pending.id == completion.id {
                let same = pending.signaled
                    && (pending.opcode, pending.bytes) == (completion.opcode, completion.bytes);
                return if same { Ok(()) } else { Err(format!("{completion:?} for {pending:?}")) };
            }
            if pending.signaled {
                return Err(format!("{completion:?} before that of {pending:?}"));
            }
        }
        Err(format!("{completion:?} of nothing that is outstanding"))
    }

    /// Compares memory, calls, states and counters at the end.
    fn compare(&mut self) -> Result<(), String> {
        for side in 0..2 {
            self.twins[side].settle(self.now);
            for target in Target::ALL {
                let image = self.twins[side].image(target, image_bytes(target));
                let model = &self.model[side][target as usize];
                if let Some(at) = image.iter().zip(model).position(|(one, other)| one != other) {
                    let (found, expected) = (image[at], model[at]);
                    return Err(format!(
                        "side {side}, {target:?} at {at:#x}: {found:#x} in place of {expected:#x}"
                    ));
                }
            }
            for (index, number) in self.queue_pairs[side].clone().into_iter().enumerate() {
                let expected = self.services[side].reading(requests_of(index));
                if self.run.options.services && self.twins[side].tap_reading(number) != expected {
                    let read = self.twins[side].tap_reading(number);
                    return Err(format!(
                        "side {side}, queue pair {index}: the tap reads {read:#x}, not {expected:#x}"
                    ));
                }
                let information =
                    self.twins[side].driver().query_queue_pair(number).map_err(|error| error.to_string())?;
                if information.state != QueuePairState::ReadyToSend || information.receive_queued != 0 {
                    return Err(format!("side {side}: {information:?}"));
                }
            }
            let counters = self.twins[side].counters();
            if let Some(wrong) = counters.iter().find(|(name, by)| *by > 0 && FORBIDDEN.contains(name)) {
                return Err(format!("side {side} counted {wrong:?}: {counters:?}"));
            }
            self.report.counters[side] = counters.into_iter().filter(|(_, value)| *value > 0).collect();
        }
        for side in 0..2 {
            let flows = self.flows.iter_mut().skip(1 - side).step_by(2);
            let missing: usize = match self.twins[side].kind() {
                Kind::Soft => flows.map(|flow| flow.expected_calls.len()).sum(),
                Kind::Rtl => {
                    let expected: usize = flows.map(|flow| flow.expected_calls.len()).sum();
                    let counted = self.twins[side].calls() as usize;
                    self.report.calls += counted;
                    expected.abs_diff(counted)
                }
            };
            if missing > 0 {
                return Err(format!("side {side}: calls differ by {missing}"));
            }
        }
        Ok(())
    }
}

/// Whether a window writes through to HBM.
const fn writes_through(queue_pair: usize, target: Target) -> bool {
    matches!(target, Target::OnChip) && queue_pair % 2 == 1
}

/// Registers the regions that the peer may access.
fn open(twin: &mut Twin, queue_pair: usize) -> Opened {
    let mut register = |region| twin.driver().register_region(region).expect("room");
    let source = register(Region::host(host_area(queue_pair, 0), AREA_BYTES, AccessFlags::REMOTE_READ));
    let windows = Target::ALL.map(|target| {
        let (address, length) = window(queue_pair, target);
        let write_through = writes_through(queue_pair, target);
        register(Region { target, write_through, ..Region::host(address, length, AccessFlags::ALL) })
    });
    let length = CALL_PLACES * CALL_BYTES;
    let calls = register(Region {
        target: Target::OnChip,
        rpc: Some((queue_pair % 4) as u8),
        ..Region::host(CALLS_AT + queue_pair as u64 * length, length, AccessFlags::ALL)
    });
    Opened { source, windows, calls }
}
