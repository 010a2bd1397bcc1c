//! The gateware as a NIC: alone, and two of them connected by a wire.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::thread;

use weft_gateware::{CYCLE, EngineConfig, HbmTiming, Latency, MemoryTiming, Pressure, RtlNic, RtlNicConfig};
use weft_nic::{CardConfig, HostCommand, HostEvent, Nic, RdmaDriver, SoftNic, SoftNicConfig};
use weft_service::{Action, MapKind, Setting, TapKind};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, ApiError, Completion, CompletionStatus, LocalBuffer, Modify, Operation, PathMtu,
    ProtectionDomain, QueuePairAttributes, QueuePairNumber, QueuePairState, ReadyToReceive, ReadyToSend,
    ReceiveRequest, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};
use weft_waist::{Capabilities, Engine, EngineStatus, Event, Io, NODES_MAX};
use weft_wire::arp::{Arp, Operation as ArpOperation, Station};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame;

/// Bytes of host memory and of HBM.
const BYTES: usize = 1 << 20;

/// Latency of the wire.
const WIRE: Duration = Duration::from_ns(500);

fn station(end: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, 1 + end as u8])
}

fn address(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + end as u8)
}

fn config(end: usize) -> RtlNicConfig {
    RtlNicConfig {
        hardware: station(end),
        address: address(end),
        transport: weft_rdma::Config::default(),
        region_bytes: BYTES,
        bits_per_s: 100_000_000_000,
        hbm: Latency { read_cycles: 94, write_cycles: 96 },
        host: Latency { read_cycles: 140, write_cycles: 72 },
        pressure: None,
        power_on_seed: 0,
        psp: None,
        services: false,
        engine: None,
    }
}

/// Two NICs and the wire between them.
struct Pair {
    nics: [RtlNic; 2],
    now: Instant,
    /// When each frame arrives, and at which end.
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    /// All frames that were sent.
    sent: Vec<Sent>,
    events: [Vec<HostEvent>; 2],
    /// One frame in this many is lost; 0: none.
    lose_every: usize,
}

impl Pair {
    fn new(change: impl Fn(&mut RtlNicConfig)) -> Self {
        let nics = [0, 1].map(|end| {
            let mut config = config(end);
            change(&mut config);
            let mut nic = RtlNic::new(&config);
            nic.add_neighbour(address(1 - end), station(1 - end));
            nic
        });
        let events = [Vec::new(), Vec::new()];
        Self { nics, now: Instant::ZERO, wire: VecDeque::new(), sent: Vec::new(), events, lose_every: 0 }
    }

    /// Lets time pass until `done`, or until `limit`. Returns whether `done` was reached.
    fn run(&mut self, limit: Instant, mut done: impl FnMut(&[Vec<HostEvent>; 2]) -> bool) -> bool {
        let mut frame = Vec::new();
        loop {
            for end in 0..2 {
                let nic = &mut self.nics[end];
                if nic.next_deadline().is_some_and(|at| at <= self.now) {
                    nic.handle_deadline(self.now);
                }
                while nic.poll_frame(self.now, &mut frame) {
                    self.sent.push((self.now, end, frame.clone()));
                    if self.lose_every == 0 || !self.sent.len().is_multiple_of(self.lose_every) {
                        self.wire.push_back((self.now + WIRE, 1 - end, frame.clone()));
                    }
                    frame.clear();
                }
                self.events[end].extend(std::iter::from_fn(|| nic.poll_host()));
            }
            if done(&self.events) {
                return true;
            }
            let deadlines = self.nics.iter().filter_map(Nic::next_deadline);
            let Some(next) = deadlines.chain(self.wire.front().map(|(at, ..)| *at)).min() else {
                return false;
            };
            self.now = self.now.max(next);
            if self.now > limit {
                return false;
            }
            while let Some((_, end, bytes)) = self.wire.front().filter(|(at, ..)| *at <= self.now) {
                self.nics[*end].receive_frame(self.now, bytes);
                self.wire.pop_front();
            }
        }
    }

    fn completions(&self, end: usize) -> Vec<Completion> {
        let events = self.events[end].iter();
        events
            .filter_map(|event| match event {
                HostEvent::Completion(completion) => Some(*completion),
                _ => None,
            })
            .collect()
    }

    /// Runs until an end has this many completions.
    fn run_to_completions(&mut self, end: usize, count: usize) {
        let limit = self.now + Duration::from_ms(100);
        let completed = |events: &[Vec<HostEvent>; 2]| {
            events[end].iter().filter(|event| matches!(event, HostEvent::Completion(_))).count() >= count
        };
        let done = self.run(limit, completed);
        assert!(
            done,
            "only {:?} at {}; {:?}",
            self.completions(end),
            self.now,
            self.nics.each_ref().map(counters)
        );
    }
}

/// The counters that are not zero.
fn counters(nic: &RtlNic) -> Vec<(&'static str, u64)> {
    nic.counters().into_iter().filter(|(_, value)| *value > 0).collect()
}

/// A connection over host memory.
struct Connection {
    numbers: [QueuePairNumber; 2],
    keys: [RegionKeys; 2],
}

fn attributes() -> QueuePairAttributes {
    QueuePairAttributes { domain: ProtectionDomain(0), max_send_wr: 512, max_recv_wr: 512 }
}

fn connect<N: RdmaDriver>(nics: &mut [N; 2], mtu: PathMtu, target: Target) -> Connection {
    let keys = nics.each_mut().map(|nic| {
        let bytes = if target == Target::OnChip { 4_096 } else { BYTES as u64 };
        let region = Region { target, ..Region::host(0, bytes, AccessFlags::ALL) };
        nic.register_region(region).unwrap()
    });
    let numbers = nics.each_mut().map(|nic| nic.create_queue_pair(attributes()).unwrap());
    for end in 0..2 {
        let receive = ReadyToReceive {
            destination: address(1 - end).into(),
            destination_qp_num: numbers[1 - end],
            rq_psn: 0xff_fff0,
            path_mtu: mtu,
            max_dest_rd_atomic: 16,
            min_rnr_timer: 1,
        };
        let send =
            ReadyToSend { sq_psn: 0xff_fff0, timeout: 8, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 16 };
        nics[end].connect(numbers[end], AccessFlags::ALL, receive, send).unwrap();
    }
    Connection { numbers, keys }
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

impl Connection {
    fn write(&self, id: u64, from: u64, to: u64, length: u32) -> WorkRequest {
        let remote = RemoteAddress { address: to, rkey: self.keys[1].rkey };
        let local = LocalBuffer { address: from, length, lkey: self.keys[0].lkey };
        WorkRequest::new(id, Operation::Write { remote, immediate: None }, local)
    }
}

#[test]
fn a_nic_without_work_stands_still() {
    let mut nic = RtlNic::new(&config(0));
    let mut now = Instant::ZERO;
    while let Some(at) = nic.next_deadline() {
        now = at;
        nic.handle_deadline(now);
        // After reset the engine's table of sessions clears itself, a word a cycle.
        assert!(
            now < Instant::from_ps(20_000_000),
            "the gateware does not come to rest: {:?}",
            counters(&nic)
        );
    }
    let cycles = nic.cycles_run();
    nic.handle_deadline(now + Duration::from_secs(1));
    assert_eq!(nic.cycles_run(), cycles);
    assert!(nic.poll_host().is_none());
}

#[test]
#[should_panic(
    expected = "the engine needs queue pairs (Post, Access, Connect), which the gateware's slot does not offer"
)]
fn an_engine_with_queue_pairs_does_not_fit_the_slot() {
    let engine = EngineConfig {
        needs: Capabilities::VERBS,
        peers: [None; NODES_MAX],
        buckets: 256,
        retransmit: Duration::from_us(20),
        retransmit_max: Duration::from_us(80),
        acknowledge_after_memory: false,
        planted_bug: 0,
        memory: MemoryTiming::Hbm(HbmTiming::WIDE_PORT),
    };
    RtlNic::new(&RtlNicConfig { engine: Some(engine), ..config(0) });
}

#[test]
fn numbers_and_keys_are_those_of_the_soft_nic() {
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
    fn drive(nic: &mut impl RdmaDriver) -> (Vec<QueuePairNumber>, Vec<RegionKeys>) {
        let region = Region::host(0, 64, AccessFlags::ALL);
        let first = nic.create_queue_pair(attributes()).unwrap();
        let second = nic.create_queue_pair(attributes()).unwrap();
        nic.destroy_queue_pair(first).unwrap();
        assert_eq!(nic.destroy_queue_pair(first), Err(ApiError::UnknownQueuePair(first)));
        let third = nic.create_queue_pair(attributes()).unwrap();
        let one = nic.register_region(region).unwrap();
        assert_eq!(nic.deregister_region(one), Ok(region));
        assert_eq!(nic.deregister_region(one), Err(ApiError::UnknownRegion));
        let other = nic.register_region(region).unwrap();
        assert_eq!(nic.query_queue_pair(third).unwrap().state, QueuePairState::Reset);
        let wrong = nic.modify_queue_pair(third, Modify::Access(AccessFlags::ALL));
        assert_eq!(wrong, Err(ApiError::WrongState { queue_pair: third, state: QueuePairState::Reset }));
        (vec![first, second, third], vec![one, other])
    }
    let card = CardConfig {
        peers: [None; NODES_MAX],
        datagram_bytes: 1_472,
        transport: weft_rdma::Config::default(),
        region_bytes: BYTES,
    };
    let soft = SoftNicConfig { hardware: station(0), address: address(0), card };
    let mut soft: SoftNic<NoEngine> = SoftNic::new(soft, Vec::new());
    assert_eq!(drive(&mut RtlNic::new(&config(0))), drive(&mut soft));
}

#[test]
fn frames_of_the_host_pass_and_arp_is_answered() {
    let mut pair = Pair::new(|_| {});
    // A frame with an unused EtherType.
    let mut ordinary = [&station(1).0[..], &station(0).0[..], &[0x88, 0xb5]].concat();
    ordinary.extend(pattern(300, 1));
    pair.nics[0].submit(Instant::ZERO, HostCommand::Transmit(&ordinary));
    let limit = Instant::from_ps(100_000_000);
    assert!(pair.run(limit, |events| !events[1].is_empty()), "{:?}", pair.nics.each_ref().map(counters));
    assert_eq!(pair.events[1], [HostEvent::Frame(ordinary)]);

    let question = Arp {
        operation: ArpOperation::Request,
        sender: Station { hardware: station(7), address: address(7) },
        target: Station { hardware: MacAddress([0; 6]), address: address(0) },
    };
    let mut request = Vec::new();
    frame::emit_arp_frame(&mut request, MacAddress::BROADCAST, &question);
    pair.nics[0].receive_frame(pair.now, &request);
    pair.sent.clear();
    let now = pair.now;
    pair.run(now + Duration::from_us(10), |_| false);
    let mut reply = Vec::new();
    frame::emit_arp_frame(&mut reply, station(7), &question.answered_by(station(0)));
    let (at, _, bytes) = &pair.sent[0];
    assert_eq!(bytes[..reply.len()], reply);
    assert!(*at - now < CYCLE * 100);
}

#[test]
fn the_sniffer_captures_what_passes_once_it_is_on() {
    let mut pair = Pair::new(|_| {});
    let frames = [301, 60, 1_514].map(|length| {
        let mut frame = [&station(1).0[..], &station(0).0[..], &[0x88, 0xb5]].concat();
        frame.extend(pattern(length - frame.len(), length as u8));
        frame
    });
    for (sent, frame) in frames.iter().enumerate() {
        if sent == 1 {
            // The first frame has passed before the sniffer is enabled.
            pair.nics.iter_mut().for_each(RtlNic::sniff);
        }
        pair.nics[0].submit(pair.now, HostCommand::Transmit(frame));
        let limit = pair.now + Duration::from_us(10);
        pair.run(limit, |_| false);
        assert_eq!(pair.events[1].len(), sent + 1, "{:?}", pair.nics.each_ref().map(counters));
    }
    for (end, interface) in [(0, 1), (1, 0)] {
        for frame in &frames[1..] {
            let block = pair.nics[end].poll_sniffed().expect("it was captured");
            let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
            let length = frame.len() as u32;
            // Block type, block length, interface, captured length and original length.
            assert_eq!([0, 4, 8, 20, 24].map(word), [6, block.len() as u32, interface, length, length]);
            assert_eq!(block[28..28 + frame.len()], *frame);
        }
        assert_eq!(pair.nics[end].poll_sniffed(), None);
    }
}

#[test]
fn a_write_arrives_and_completes() {
    for target in [Target::Host, Target::Hbm, Target::OnChip] {
        let mut pair = Pair::new(|_| {});
        let connection = connect(&mut pair.nics, PathMtu::Bytes1024, target);
        let bytes = pattern(2_500, 3);
        pair.nics[0].memory().write(target, 100, &bytes).unwrap();
        pair.nics[0].submit(
            pair.now,
            HostCommand::PostSend(connection.numbers[0], connection.write(7, 100, 1_001, 2_500)),
        );
        pair.run_to_completions(0, 1);
        let completion = pair.completions(0)[0];
        assert_eq!((completion.id, completion.status), (7, CompletionStatus::Success));
        assert_eq!(pair.nics[1].memory().read(target, 1_001, 2_500).unwrap(), bytes);
        assert_eq!(pair.nics[1].memory().read(target, 1_000, 1).unwrap(), [0]);
    }
}

#[test]
fn services_end_with_their_queue_pair() {
    let mut pair = Pair::new(|config| {
        config.services = true;
        // So the next queue pair has the same index.
        config.transport.max_queue_pairs = 1;
    });
    let setting = Setting { map: MapKind::Xor, tap: TapKind::Count, value: 0x55, ..Setting::default() };
    let bytes = pattern(200, 3);
    pair.nics[0].memory().write(Target::Host, 0, &bytes).unwrap();
    for (run, counted) in [200, 0].into_iter().enumerate() {
        let connection = connect(&mut pair.nics, PathMtu::Bytes1024, Target::Host);
        let number = connection.numbers[1];
        if run == 0 {
            pair.nics[1].serve(number, setting).unwrap();
        }
        let write = connection.write(1, 0, 1_000, 200);
        pair.nics[0].submit(pair.now, HostCommand::PostSend(connection.numbers[0], write));
        pair.run_to_completions(0, run + 1);
        let is_changed = pair.nics[1].memory().read(Target::Host, 1_000, 200).unwrap() != bytes;
        assert_eq!((is_changed, pair.nics[1].tap_reading(number)), (run == 0, Ok(counted)));
        for end in 0..2 {
            pair.nics[end].destroy_queue_pair(connection.numbers[end]).unwrap();
        }
        let unknown = ApiError::UnknownQueuePair(number);
        assert_eq!(pair.nics[1].serve(number, setting), Err(unknown));
        assert_eq!(pair.nics[1].tap_reading(number), Err(unknown));
    }
}

/// The fifth packet is lost, so the four behind it are kept. Each message of 1,100 bytes has a packet that is marked.
#[test]
fn kept_requests_are_marked_like_others() {
    const LENGTHS: [u32; 6] = [1_100, 500, 1_100, 500, 1_100, 500];
    let mut pair = Pair::new(|config| {
        config.services = true;
        config.transport.reorder_packets = 64;
    });
    pair.lose_every = 5;
    let connection = connect(&mut pair.nics, PathMtu::Bytes1024, Target::Host);
    let action = Action::Mark { threshold: 600 };
    let setting = Setting { tap: TapKind::Count, action, ..Setting::default() };
    pair.nics[1].serve(connection.numbers[1], setting).unwrap();
    for (id, length) in (0..).zip(LENGTHS) {
        let local = LocalBuffer { address: 0, length: 2_000, lkey: connection.keys[1].lkey };
        pair.nics[1].post_receive(connection.numbers[1], ReceiveRequest { id, local }).unwrap();
        let local = LocalBuffer { address: 0, length, lkey: connection.keys[0].lkey };
        let request = WorkRequest::new(id, Operation::Send { immediate: None }, local);
        pair.nics[0].submit(pair.now, HostCommand::PostSend(connection.numbers[0], request));
    }
    pair.run_to_completions(0, 6);
    pair.run_to_completions(1, 6);
    let marked: Vec<bool> = pair.completions(1).iter().map(Completion::is_marked).collect();
    assert_eq!(marked, LENGTHS.map(|length| length == 1_100));
    let requests = pair.sent.iter().filter(|(_, end, _)| *end == 0).count();
    assert_eq!(requests, 9 + 1, "what was kept was sent again");
}

/// One request is lost, and some twenty behind it are kept: more than twice the bytes that the card has credit for.
/// Once the gap is filled, they wait for the host.
#[test]
fn kept_requests_are_not_dropped_for_lack_of_credit() {
    const MESSAGES: u64 = 40;
    const BYTES: u32 = 4_096;
    let mut pair = Pair::new(|config| config.transport.reorder_packets = 64);
    pair.lose_every = 31;
    let connection = connect(&mut pair.nics, PathMtu::Bytes4096, Target::Host);
    for id in 0..MESSAGES {
        let local = LocalBuffer { address: 0, length: BYTES, lkey: connection.keys[1].lkey };
        pair.nics[1].post_receive(connection.numbers[1], ReceiveRequest { id, local }).unwrap();
        let local = LocalBuffer { address: 0, length: BYTES, lkey: connection.keys[0].lkey };
        let request = WorkRequest::new(id, Operation::Send { immediate: None }, local);
        pair.nics[0].submit(pair.now, HostCommand::PostSend(connection.numbers[0], request));
    }
    pair.run_to_completions(0, MESSAGES as usize);
    let requests = pair.sent.iter().filter(|(_, end, _)| *end == 0).count();
    assert_eq!(requests, MESSAGES as usize + 1, "only the lost request is sent again");
}

#[test]
#[should_panic(expected = "the card has no services")]
fn a_card_without_services_refuses_settings() {
    let mut nic = RtlNic::new(&config(0));
    let number = nic.create_queue_pair(attributes()).unwrap();
    let _ = nic.serve(number, Setting::default());
}

#[test]
fn more_requests_than_the_gateware_holds_complete_in_order() {
    let mut pair = Pair::new(|_| {});
    let connection = connect(&mut pair.nics, PathMtu::Bytes1024, Target::Host);
    for number in 0..500 {
        let signaled = number % 100 == 99;
        let request = WorkRequest { signaled, ..connection.write(number, 64 * number, 64 * number, 64) };
        pair.nics[0].submit(pair.now, HostCommand::PostSend(connection.numbers[0], request));
    }
    pair.run_to_completions(0, 5);
    let ids: Vec<u64> = pair.completions(0).iter().map(|completion| completion.id).collect();
    assert_eq!(ids, [99, 199, 299, 399, 499]);
}

#[test]
fn sends_find_their_receive_requests_through_loss() {
    let mut pair = Pair::new(|_| {});
    pair.lose_every = 7;
    let connection = connect(&mut pair.nics, PathMtu::Bytes256, Target::Host);
    let message = |number: u64| pattern(700, number as u8);
    for number in 0..100 {
        let local = LocalBuffer { address: 1_024 * number, length: 1_024, lkey: connection.keys[1].lkey };
        pair.nics[1]
            .post_receive(connection.numbers[1], ReceiveRequest { id: 1_000 + number, local })
            .unwrap();
        pair.nics[0].memory().write(Target::Host, 1_024 * number, &message(number)).unwrap();
        let local = LocalBuffer { address: 1_024 * number, length: 700, lkey: connection.keys[0].lkey };
        let request = WorkRequest::new(number, Operation::Send { immediate: Some(number as u32) }, local);
        pair.nics[0].submit(pair.now, HostCommand::PostSend(connection.numbers[0], request));
    }
    pair.run_to_completions(0, 100);
    pair.run_to_completions(1, 100);
    for (number, completion) in (0..).zip(pair.completions(1)) {
        assert_eq!((completion.id, completion.status), (1_000 + number, CompletionStatus::Success));
        assert_eq!((completion.bytes, completion.immediate), (700, Some(number as u32)));
        let stored = pair.nics[1].memory().read(Target::Host, 1_024 * number, 700).unwrap();
        assert_eq!(stored, message(number));
    }
}

#[test]
fn error_flushes_what_waits_in_hardware_and_in_software() {
    let mut pair = Pair::new(|_| {});
    let connection = connect(&mut pair.nics, PathMtu::Bytes1024, Target::Host);
    for id in 0..100 {
        let request = ReceiveRequest { id, local: LocalBuffer::default() };
        pair.nics[0].post_receive(connection.numbers[0], request).unwrap();
    }
    pair.nics[0].modify_queue_pair(connection.numbers[0], Modify::Error).unwrap();
    pair.run_to_completions(0, 100);
    for (id, completion) in (0..).zip(pair.completions(0)) {
        assert_eq!((completion.id, completion.status), (id, CompletionStatus::WorkRequestFlushed));
    }
    let state = pair.nics[0].query_queue_pair(connection.numbers[0]).unwrap().state;
    assert_eq!(state, QueuePairState::Error);
}

/// When a frame was sent, from which end, and the frame.
type Sent = (Instant, usize, Vec<u8>);

/// Everything that two NICs send in some time, under loss, back-pressure and random initial storage.
fn busy_run(seed: u64) -> (Vec<Sent>, [Vec<HostEvent>; 2], [u64; 2]) {
    let mut pair = Pair::new(|config| {
        config.pressure = Some(Pressure { seed, stalls_of_256: 40 });
        config.power_on_seed = seed as u32;
    });
    pair.lose_every = 11;
    let connection = connect(&mut pair.nics, PathMtu::Bytes1024, Target::Host);
    for id in 0..60 {
        let length = 1 + (id as u32 * 977) % 5_000;
        let request = connection.write(id, 5_000 * id, 3 * id, length);
        pair.nics[0].submit(pair.now, HostCommand::PostSend(connection.numbers[0], request));
        pair.nics[0].submit(pair.now, HostCommand::Transmit(&pattern(60 + id as usize * 20, 5)));
    }
    let limit = pair.now + Duration::from_us(300);
    pair.run(limit, |_| false);
    let cycles = pair.nics.each_ref().map(RtlNic::cycles_run);
    (pair.sent, pair.events, cycles)
}

#[test]
fn worlds_on_two_threads_give_what_they_give_one_after_the_other() {
    let one_after_the_other = [1, 2].map(busy_run);
    let at_once = thread::scope(|scope| {
        [1, 2].map(|seed| scope.spawn(move || busy_run(seed))).map(|thread| thread.join().unwrap())
    });
    assert!(one_after_the_other[0].0.len() > 60);
    assert!(one_after_the_other == at_once, "two runs of one seed differ");
}

#[cfg(feature = "fst")]
#[test]
fn a_waveform_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut nic = RtlNic::new(&config(0));
    // Several waveform files may be written in one run, one after the other.
    for window in 1..=2 {
        let path = folder.path().join(format!("{window}.fst"));
        nic.begin_waveform(&path).unwrap();
        nic.submit(Instant::ZERO, HostCommand::Transmit(&pattern(500, 1)));
        nic.handle_deadline(Instant::ZERO + CYCLE * (50 * window));
        nic.end_waveform();
        assert!(std::fs::metadata(&path).unwrap().len() > 1_000);
    }
    assert!(nic.begin_waveform(&folder.path().join("no/such/folder.fst")).is_err());
}
