//! Peers that behave like Linux's soft RoCE where that matters: small models of a requester and of a
//! responder. They are called literal, because they take acknowledgements literally. Each runs against one
//! NIC, over a wire that loses, duplicates and reorders.
//!
//! Some bugs never appear between two Weft NICs, because their requester evaluates a response more cautiously
//! than Linux does, and their responder sends fewer NAKs.

mod requester;
mod responder;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_rdma::rnr_timer;
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, CompletionStatus, LocalBuffer, PathMtu, QueuePairNumber, ReadyToReceive, ReadyToSend,
    Region, RegionKeys, Target, WorkRequest,
};
use weft_wire::frame::{Endpoint, Flow, Frame, emit_roce_frame};
use weft_wire::icrc::Path;
use weft_wire::roce::{self, Aeth, Bth, Congestion, Opcode, Packet, Syndrome};

use crate::random::Faults;
use crate::twin::{Kind, MEMORY_BYTES, Options, Twin, address, hardware};
use requester::{Operation, Requester};
use responder::Responder;

/// Indices of the sides: the literal peer, and the NIC under test.
const PEER: usize = 0;
const NIC: usize = 1;

/// The peer's queue pair.
const PEER_QUEUE_PAIR: QueuePairNumber = QueuePairNumber(0x11);

/// The first PSNs of both directions: close to the maximum, so that they wrap.
const PEER_PSN: u32 = 0xff_ff00;
const NIC_PSN: u32 = 0xff_fff0;

const PATH_MTU: PathMtu = PathMtu::Bytes256;
const MTU: usize = 256;

/// Limits: outstanding READs and atomics, and outstanding pairs of requests.
const RD_ATOMIC: u8 = 4;
const PAIRS_OUTSTANDING: u64 = 4;

/// Memory layout of each outstanding pair of requests: the size of its range, the offset of its word, and the
/// longest WRITE.
const PLACE: u64 = 0x1000;
const WORD_AT: u64 = 0x800;
const LENGTH_MAX: u64 = 1_000;

/// Retransmission time-out of the requester that models soft RoCE.
const TIME_OUT: Duration = Duration::from_us(100);

/// Timer code in the RNR NAKs of the responder that models soft RoCE, and time-out code of the NIC under
/// test: 10 us and 524 us.
const NOT_READY_TIMER: u8 = 1;
const NIC_TIME_OUT: u8 = 7;

/// Limit of events for each request; no run needs as many.
const EVENTS_MAX: u64 = 20_000;

/// Statistics of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Frames that the wire lost.
    pub lost: u64,
    /// How often the literal requester went back N, or the literal responder reported a gap.
    pub recoveries: u64,
    /// The NIC's counter `duplicate_request`.
    pub duplicates: u64,
}

/// Arrival time, a serial number to order equal times, the receiving side, and the frame.
type Flying = (Instant, u64, usize, Vec<u8>);

/// Frames in flight.
struct Wire {
    flying: BinaryHeap<Reverse<Flying>>,
    serial: u64,
    chance: Xoshiro256PlusPlus,
    faults: Faults,
    lost: u64,
}

impl Wire {
    fn below(&mut self, limit: u64) -> u64 {
        self.chance.next_u64() % limit
    }

    fn happens(&mut self, millionths: u32) -> bool {
        self.below(1_000_000) < u64::from(millionths)
    }

    fn send(&mut self, now: Instant, to: usize, frame: &[u8]) {
        if self.happens(self.faults.loss) {
            self.lost += 1;
            return;
        }
        for _ in 0..1 + u32::from(self.happens(self.faults.duplication)) {
            let late = if self.happens(self.faults.reordering) { self.below(10_000) } else { 0 };
            self.serial += 1;
            let at = now + Duration::from_ns(1_000 + late);
            self.flying.push(Reverse((at, self.serial, to, frame.to_vec())));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.flying.peek().map(|Reverse((at, ..))| *at)
    }
}

/// A NIC, and the wire between it and its literal peer.
struct Scene {
    nic: Twin,
    number: QueuePairNumber,
    keys: RegionKeys,
    wire: Wire,
    now: Instant,
}

impl Scene {
    fn new(kind: Kind, seed: u64, faults: Faults, retry_cnt: u8) -> Self {
        let mut nic = Twin::new(kind, NIC, Options::default());
        let region = Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL);
        let keys = nic.driver().register_region(region).expect("room");
        let number = nic.create_queue_pair().expect("room");
        let receive = ReadyToReceive {
            destination: address(PEER).into(),
            destination_qp_num: PEER_QUEUE_PAIR,
            rq_psn: PEER_PSN,
            path_mtu: PATH_MTU,
            max_dest_rd_atomic: RD_ATOMIC,
            min_rnr_timer: NOT_READY_TIMER,
        };
        let send = ReadyToSend {
            sq_psn: NIC_PSN,
            timeout: NIC_TIME_OUT,
            retry_cnt,
            rnr_retry: 7,
            max_rd_atomic: RD_ATOMIC,
        };
        nic.driver().connect(number, AccessFlags::ALL, receive, send).expect("legal");
        let chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let wire = Wire { flying: BinaryHeap::new(), serial: 0, chance, faults, lost: 0 };
        let mut scene = Self { nic, number, keys, wire, now: Instant::ZERO };
        scene.settle();
        scene
    }

    /// Lets the NIC run until it is quiet.
    fn settle(&mut self) {
        self.nic.settle(self.now);
        self.now = self.now.max(self.nic.now());
        for frame in self.nic.take_frames() {
            self.wire.send(self.now, PEER, &frame);
        }
    }

    /// Sends a packet of the peer.
    fn send(&mut self, packet: &Packet<'_>) {
        let end = |side, port| Endpoint { hardware: hardware(side), address: address(side), port };
        let flow =
            Flow { source: end(PEER, 0xc123), destination: end(NIC, roce::UDP_PORT), type_of_service: 0 };
        let mut frame = Vec::new();
        emit_roce_frame(&mut frame, &flow, packet);
        self.wire.send(self.now, NIC, &frame);
    }

    /// Advances to the next event, but not past `limit`. Returns a frame that arrives at the peer, if that is
    /// the event.
    fn step(&mut self, limit: Option<Instant>) -> Option<Vec<u8>> {
        let arrival = self.wire.next();
        let times = [arrival, self.nic.next_deadline(), limit];
        let next = times.into_iter().flatten().min().expect("somebody waits for something");
        self.now = self.now.max(next);
        if arrival == Some(next) {
            let Reverse((_, _, side, frame)) = self.wire.flying.pop().expect("peeked");
            if side == PEER {
                return Some(frame);
            }
            self.nic.receive(self.now, &frame);
        }
        self.settle();
        None
    }
}

/// Runs the model of soft RoCE's requester against the NIC. The requester sends `pairs` pairs of requests, with
/// up to four pairs outstanding: each is a WRITE to a range of memory, followed by a READ of the range or a
/// FETCH_ADD on a word beside it.
///
/// # Errors
/// A description of the failure; most importantly, a READ that completed without its data.
pub fn request(kind: Kind, seed: u64, pairs: u64, faults: Faults) -> Result<Report, String> {
    let mut scene = Scene::new(kind, seed, faults, 7);
    let mut requester = Requester::new(scene.number, scene.keys.rkey, MTU, PEER_PSN);
    let mut words = [0_u64; PAIRS_OUTSTANDING as usize];
    for (place, word) in words.iter().enumerate() {
        scene.nic.fill(Target::Host, place as u64 * PLACE + WORD_AT, &word.to_le_bytes());
    }
    let mut expected: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let (mut posted, mut completed) = (0, 0);
    let mut deadline = scene.now + TIME_OUT;
    for _ in 0..EVENTS_MAX * pairs {
        // The second request of each pair completes the pair. A range is reused when its previous pair has
        // completed.
        while posted < pairs && posted < completed / 2 + PAIRS_OUTSTANDING {
            let place = posted % PAIRS_OUTSTANDING;
            let at = place * PLACE;
            let mut bytes = vec![0; 1 + scene.wire.below(LENGTH_MAX) as usize];
            scene.wire.chance.fill_bytes(&mut bytes);
            requester.post(2 * posted, at, Operation::Write(bytes.clone()));
            if scene.wire.happens(500_000) {
                requester.post(2 * posted + 1, at, Operation::Read(bytes.len()));
                expected.insert(2 * posted + 1, bytes);
            } else {
                let word = &mut words[place as usize];
                let add = scene.wire.chance.next_u64();
                requester.post(2 * posted + 1, at + WORD_AT, Operation::Add(add));
                expected.insert(2 * posted + 1, word.to_le_bytes().to_vec());
                *word = word.wrapping_add(add);
            }
            posted += 1;
        }
        if completed == 2 * pairs {
            let duplicates = scene.nic.counter("duplicate_request");
            return Ok(Report { lost: scene.wire.lost, recoveries: requester.retries, duplicates });
        }
        while let Some(packet) = requester.transmit() {
            scene.send(&packet);
        }
        let before = requester.oldest();
        match scene.step(Some(deadline)) {
            Some(frame) => parse(&frame, |packet| requester.receive(packet))?,
            None if scene.now >= deadline => {
                requester.time_out();
                deadline = scene.now + TIME_OUT;
            }
            None => {}
        }
        if requester.oldest() > before {
            deadline = scene.now + TIME_OUT;
        }
        for completion in requester.take_completions() {
            assert_eq!(completion.id, completed, "in order");
            completed += 1;
            if let Some(data) = expected.remove(&completion.id)
                && data != completion.buffer
            {
                return Err(format!("pair {} of seed {seed}: success with wrong data", completion.id / 2));
            }
        }
    }
    Err(format!("seed {seed}: only {completed} of {} requests complete", 2 * pairs))
}

/// The NIC sends `messages` SENDs to a literal responder, which answers each with up to `not_ready` RNR NAKs.
///
/// # Errors
/// A description of the failure; most importantly, a SEND that failed.
pub fn respond(
    kind: Kind,
    seed: u64,
    messages: u64,
    not_ready: u32,
    retry_cnt: u8,
    faults: Faults,
) -> Result<Report, String> {
    let mut scene = Scene::new(kind, seed, faults, retry_cnt);
    let mut image = vec![0; MEMORY_BYTES];
    scene.wire.chance.fill_bytes(&mut image);
    scene.nic.fill(Target::Host, 0, &image);
    let mut responder = Responder::new(NIC_PSN, NOT_READY_TIMER);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    let mut completed = 0;
    for _ in 0..EVENTS_MAX * messages {
        if completed == messages {
            return if responder.messages == sent {
                Ok(Report { lost: scene.wire.lost, recoveries: responder.gaps, duplicates: 0 })
            } else {
                Err(format!("seed {seed}: other messages than were sent"))
            };
        }
        if sent.len() as u64 == completed {
            responder.not_ready = not_ready;
            let length = 1 + scene.wire.below(LENGTH_MAX);
            let at = scene.wire.below(MEMORY_BYTES as u64 - length);
            let local = LocalBuffer { address: at, length: length as u32, lkey: scene.keys.lkey };
            let request = WorkRequest::new(completed, weft_verbs::Operation::Send { immediate: None }, local);
            scene.nic.post_send(scene.now, scene.number, request);
            sent.push(image[at as usize..(at + length) as usize].to_vec());
            scene.settle();
        }
        if let Some(frame) = scene.step(Some(scene.now + rnr_timer(NOT_READY_TIMER)))
            && let Some((psn, syndrome)) = parse(&frame, |packet| responder.receive(packet))
        {
            scene.send(&acknowledgement(scene.number, psn, syndrome));
        }
        for completion in scene.nic.take_completions() {
            if completion.status != CompletionStatus::Success {
                return Err(format!("seed {seed}, message {completed}: {}", completion.status.name()));
            }
            completed += 1;
        }
    }
    Err(format!("seed {seed}: only {completed} of {messages} messages complete"))
}

fn acknowledgement(destination: QueuePairNumber, psn: u32, syndrome: Syndrome) -> Packet<'static> {
    let bth = Bth {
        opcode: Opcode::Acknowledge,
        solicited: false,
        migration: true,
        pad: 0,
        partition_key: 0xffff,
        congestion: Congestion::default(),
        destination: destination.0,
        acknowledge: false,
        psn,
    };
    Packet { aeth: Some(Aeth { syndrome, msn: 0 }), ..Packet::new(bth, &[]) }
}

/// Parses a frame of the NIC.
fn parse<T>(frame: &[u8], read: impl FnOnce(&Packet<'_>) -> T) -> T {
    let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(frame) else { panic!("a RoCE frame") };
    let packet = Path::new(&ipv4, &udp).verify(payload).and_then(Packet::parse).expect("a NIC's own packet");
    read(&packet)
}
