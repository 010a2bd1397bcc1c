//! Queue pairs are created, used and destroyed until each has been used, while others carry traffic; on the
//! gateware and on the soft NIC.

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use weft_gateware::{Latency, RtlNic, RtlNicConfig};
use weft_nic::{CardConfig, HostCommand, HostEvent, Nic, RdmaDriver, SoftNic, SoftNicConfig};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, CompletionStatus, LocalBuffer, Operation, PathMtu, ProtectionDomain, QueuePairAttributes,
    QueuePairNumber, ReadyToReceive, ReadyToSend, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};
use weft_waist::{Engine, EngineStatus, Event, Io, NODES_MAX};
use weft_wire::ethernet::MacAddress;

/// Queue pairs that carry traffic all the time.
const BUSY: usize = 32;
/// Further queue pairs that exist at the same time.
const GUESTS: usize = 52;
/// How often the latter are replaced: 32 + 9 * 52 = 500 queue pairs in total.
const ROUNDS: usize = 9;
/// Messages on each replaced queue pair.
const MESSAGES: u64 = 3;
/// Outstanding messages on each busy queue pair.
const DEPTH: u64 = 4;
/// Bytes of a message.
const BYTES: u64 = 64;
/// Bytes of host memory.
const MEMORY: usize = 1 << 17;
/// Latency of the wire.
const WIRE: Duration = Duration::from_ns(500);
/// Duration of a byte at 100 Gb/s.
const BYTE: Duration = Duration::from_ps(80);

#[derive(Debug)]
enum NoEngine {}

impl Engine for NoEngine {
    fn handle(&mut self, _: Instant, _: Event<'_>, _: &mut Io<'_>) {
        match *self {}
    }
    fn status(&self) -> EngineStatus {
        match *self {}
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        match *self {}
    }
}

fn station(end: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, 1 + end as u8])
}

fn address(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + end as u8)
}

/// Room for no more queue pairs than exist at once, so that indices are reused.
fn transport() -> weft_rdma::Config {
    weft_rdma::Config { max_queue_pairs: BUSY + GUESTS, ..weft_rdma::Config::default() }
}

fn gateware(end: usize) -> RtlNic {
    let memory = Latency { read_cycles: 20, write_cycles: 20 };
    let mut nic = RtlNic::new(&RtlNicConfig {
        hardware: station(end),
        address: address(end),
        transport: transport(),
        region_bytes: MEMORY,
        bits_per_s: 100_000_000_000,
        hbm: memory,
        host: memory,
        pressure: None,
        power_on_seed: 3,
        psp: None,
        services: false,
        engine: None,
    });
    nic.add_neighbour(address(1 - end), station(1 - end));
    nic
}

fn soft(end: usize) -> SoftNic<NoEngine> {
    let card = CardConfig {
        peers: [None; NODES_MAX],
        datagram_bytes: 1_472,
        transport: transport(),
        region_bytes: MEMORY,
    };
    let config = SoftNicConfig { hardware: station(end), address: address(end), card };
    let mut nic = SoftNic::new(config, Vec::new());
    nic.add_neighbour(address(1 - end), station(1 - end));
    nic
}

/// A connection, and its progress.
struct Flow {
    numbers: [QueuePairNumber; 2],
    /// A unique number, which determines the content of its messages and its memory.
    place: u64,
    posted: u64,
    completed: u64,
}

/// Two NICs and the wire between them.
struct Pair<N> {
    nics: [N; 2],
    keys: [RegionKeys; 2],
    now: Instant,
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    wire_free_at: [Instant; 2],
    flows: Vec<Flow>,
    /// Number of flows created so far.
    begun: u64,
}

impl<N: Nic + RdmaDriver> Pair<N> {
    fn new(mut nics: [N; 2]) -> Self {
        let region = Region { target: Target::Host, ..Region::host(0, MEMORY as u64, AccessFlags::ALL) };
        let keys = nics.each_mut().map(|nic| nic.register_region(region).unwrap());
        let mut pair = Self {
            nics,
            keys,
            now: Instant::ZERO,
            wire: VecDeque::new(),
            wire_free_at: [Instant::ZERO; 2],
            flows: Vec::new(),
            begun: 0,
        };
        for _ in 0..BUSY {
            pair.begin();
        }
        pair
    }

    /// Creates and connects a pair of queue pairs.
    fn begin(&mut self) {
        let attributes = QueuePairAttributes { domain: ProtectionDomain(0), max_send_wr: 8, max_recv_wr: 0 };
        let numbers = self.nics.each_mut().map(|nic| nic.create_queue_pair(attributes).unwrap());
        let psn = (0x00ff_fffe + 977 * self.begun as u32) & 0xff_ffff;
        for end in 0..2 {
            let receive = ReadyToReceive {
                destination: address(1 - end).into(),
                destination_qp_num: numbers[1 - end],
                rq_psn: (psn + end as u32) & 0xff_ffff,
                path_mtu: PathMtu::Bytes1024,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 1,
            };
            let send = ReadyToSend {
                sq_psn: (psn + (1 - end) as u32) & 0xff_ffff,
                timeout: 8,
                retry_cnt: 7,
                rnr_retry: 7,
                max_rd_atomic: 4,
            };
            self.nics[end].connect(numbers[end], AccessFlags::ALL, receive, send).unwrap();
        }
        self.flows.push(Flow { numbers, place: self.begun, posted: 0, completed: 0 });
        self.begun += 1;
    }

    /// The content of a message, which differs from that of every other message.
    fn bytes(place: u64, number: u64) -> [u8; BYTES as usize] {
        let word = (place << 32 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut bytes = [0; BYTES as usize];
        for (index, part) in (0..).zip(bytes.chunks_mut(8)) {
            part.copy_from_slice(&word.rotate_left(index).to_le_bytes());
        }
        bytes
    }

    /// The address of a message. Every flow has its own range.
    fn address(place: u64, number: u64) -> u64 {
        (place * DEPTH + number % DEPTH) * BYTES
    }

    fn post(&mut self, flow: usize) {
        let Flow { numbers, place, posted, .. } = &mut self.flows[flow];
        let number = *posted;
        *posted += 1;
        let at = Self::address(*place, number);
        self.nics[0].memory().write(Target::Host, at, &Self::bytes(*place, number)).unwrap();
        let local = LocalBuffer { address: at, length: BYTES as u32, lkey: self.keys[0].lkey };
        let remote = RemoteAddress { address: at, rkey: self.keys[1].rkey };
        let request =
            WorkRequest::new(*place << 32 | number, Operation::Write { remote, immediate: None }, local);
        self.nics[0].submit(self.now, HostCommand::PostSend(numbers[0], request));
    }

    /// Advances to the next event.
    fn step(&mut self) {
        let deadlines = self.nics.iter().filter_map(Nic::next_deadline);
        let next = deadlines.chain(self.wire.front().map(|(at, ..)| *at)).min();
        // A NIC without a clock has its frames ready at once.
        self.now = self.now.max(next.unwrap_or(self.now));
        assert!(self.now < Instant::ZERO + Duration::from_secs(1), "nothing completes any more");
        while let Some((_, end, frame)) = self.wire.front().filter(|(at, ..)| *at <= self.now) {
            self.nics[*end].receive_frame(self.now, frame);
            self.wire.pop_front();
        }
        let mut frame = Vec::new();
        for end in 0..2 {
            if self.nics[end].next_deadline().is_some_and(|at| at <= self.now) {
                self.nics[end].handle_deadline(self.now);
            }
            while self.nics[end].poll_frame(self.now, &mut frame) {
                let begins = self.wire_free_at[end].max(self.now);
                self.wire_free_at[end] = begins + BYTE * (frame.len() as u64 + 24);
                let at = self.wire_free_at[end] + WIRE;
                let place = self.wire.partition_point(|(other, ..)| *other <= at);
                self.wire.insert(place, (at, 1 - end, std::mem::take(&mut frame)));
            }
            while let Some(event) = self.nics[end].poll_host() {
                let HostEvent::Completion(completion) = event else { panic!("{event:?}") };
                assert_eq!(end, 0, "the receiver has asked for nothing");
                let flow = self.flows.iter_mut().find(|flow| flow.place == completion.id >> 32);
                let flow = flow.expect("a completion of a queue pair that is gone");
                assert_eq!(completion.status, CompletionStatus::Success);
                assert_eq!(completion.queue_pair, flow.numbers[0]);
                assert_eq!(completion.id & 0xffff_ffff, flow.completed, "once each, and in order");
                let (place, number) = (flow.place, flow.completed);
                flow.completed += 1;
                let arrived =
                    self.nics[1].memory().read(Target::Host, Self::address(place, number), BYTES as usize);
                assert_eq!(arrived.unwrap(), Self::bytes(place, number));
            }
        }
    }

    /// Keeps the busy queue pairs at full depth.
    fn load(&mut self) {
        for flow in 0..BUSY {
            while self.flows[flow].posted - self.flows[flow].completed < DEPTH {
                self.post(flow);
            }
        }
    }
}

fn come_and_go<N: Nic + RdmaDriver>(nics: [N; 2]) {
    let mut pair = Pair::new(nics);
    let mut numbers = Vec::new();
    for _ in 0..ROUNDS {
        let before: Vec<u64> = pair.flows[..BUSY].iter().map(|flow| flow.completed).collect();
        for _ in 0..GUESTS {
            pair.begin();
            let guest = pair.flows.len() - 1;
            (0..MESSAGES).for_each(|_| pair.post(guest));
            pair.load();
            // New queue pairs are created while this one is in use.
            (0..20).for_each(|_| pair.step());
        }
        while pair.flows[BUSY..].iter().any(|flow| flow.completed < MESSAGES) {
            pair.load();
            pair.step();
        }
        pair.load();
        for flow in pair.flows.drain(BUSY..).collect::<Vec<_>>() {
            numbers.push(flow.numbers[0]);
            for (nic, number) in pair.nics.iter_mut().zip(flow.numbers) {
                nic.destroy_queue_pair(number).unwrap();
                assert!(nic.query_queue_pair(number).is_err());
            }
            pair.load();
            (0..5).for_each(|_| pair.step());
        }
        let served = pair.flows.iter().zip(before).all(|(flow, before)| flow.completed > before);
        assert!(served, "a busy queue pair has stood still");
    }
    assert_eq!(pair.begun as usize, 500);
    // There are fewer indices than that, so they are reused, each time with a different number.
    let different: BTreeSet<u32> = numbers.iter().map(|number| number.0).collect();
    assert_eq!(different.len(), GUESTS * ROUNDS);
    while pair.flows.iter().any(|flow| flow.completed < flow.posted) {
        pair.step();
    }
}

#[test]
fn on_the_gateware() {
    come_and_go([0, 1].map(gateware));
}

#[test]
fn on_the_soft_nic() {
    come_and_go([0, 1].map(soft));
}
