//! Services that process payload on a soft card, on a network that loses, duplicates and reorders packets.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_nic::{Card, CardConfig, HostCommand, HostEvent, NoEngine, RdmaDriver};
use weft_rdma::Config;
use weft_service::preprocess::Pipeline;
use weft_service::{Action, MapKind, Setting, TapKind};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, CompletionStatus, LocalBuffer, Operation, PathMtu, QueuePairAttributes, QueuePairNumber,
    ReadyToReceive, ReadyToSend, ReceiveRequest, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};

const BYTES: usize = 1 << 20;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

/// Probabilities of network faults, in hundredths of all packets.
#[derive(Clone, Copy, Default)]
struct Faults {
    lost: u64,
    doubled: u64,
    reordered: u64,
}

const NONE: Faults = Faults { lost: 0, doubled: 0, reordered: 0 };
const MANY: Faults = Faults { lost: 5, doubled: 5, reordered: 10 };

/// Two cards with queue pairs between them.
struct Pair {
    cards: [Card<NoEngine>; 2],
    numbers: Vec<[QueuePairNumber; 2]>,
    keys: [RegionKeys; 2],
    now: Instant,
    chance: Xoshiro256PlusPlus,
    faults: Faults,
}

impl Pair {
    fn new(queue_pairs: usize, reorder_packets: usize, faults: Faults, seed: u64) -> Self {
        let config = CardConfig::without_engines(
            BYTES,
            Config { reorder_packets, read_parts: reorder_packets > 0, ..Config::default() },
        );
        let mut cards = [0, 1].map(|_| Card::new(config.clone(), Vec::new()));
        let keys = [0, 1].map(|end: usize| {
            cards[end].register_region(Region::host(0, BYTES as u64, AccessFlags::ALL)).unwrap()
        });
        let connect = |_| {
            let numbers = [0, 1]
                .map(|end: usize| cards[end].create_queue_pair(QueuePairAttributes::default()).unwrap());
            for end in 0..2 {
                let receive = ReadyToReceive {
                    destination: ADDRESSES[1 - end].into(),
                    destination_qp_num: numbers[1 - end],
                    rq_psn: 0,
                    path_mtu: PathMtu::Bytes1024,
                    max_dest_rd_atomic: 4,
                    min_rnr_timer: 12,
                };
                let send =
                    ReadyToSend { sq_psn: 0, timeout: 8, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 4 };
                cards[end].connect(numbers[end], AccessFlags::ALL, receive, send).unwrap();
            }
            numbers
        };
        let numbers = (0..queue_pairs).map(connect).collect();
        let chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { cards, numbers, keys, now: Instant::ZERO, chance, faults }
    }

    fn happens(&mut self, hundredths: u64) -> bool {
        self.chance.next_u64() % 100 < hundredths
    }

    /// Posts an operation on a queue pair of the first card, with local memory at the same address.
    fn post(&mut self, queue_pair: usize, operation: Operation, address: u64, length: usize) {
        let local = LocalBuffer { address, length: length as u32, lkey: self.keys[0].lkey };
        let command =
            HostCommand::PostSend(self.numbers[queue_pair][0], WorkRequest::new(1, operation, local));
        self.cards[0].submit(self.now, command);
    }

    fn write(&mut self, queue_pair: usize, from: u64, to: u64, length: usize) {
        let remote = RemoteAddress { address: to, rkey: self.keys[1].rkey };
        self.post(queue_pair, Operation::Write { remote, immediate: None }, from, length);
    }

    /// Runs until `requests` requests of the first card have completed.
    fn complete(&mut self, requests: usize) {
        let mut completed = 0;
        let mut under_way: VecDeque<(usize, Vec<u8>)> = VecDeque::new();
        while completed < requests {
            for end in 0..2 {
                let mut packet = Vec::new();
                while self.cards[end].poll_roce(self.now, &mut packet).is_some() {
                    let packet = std::mem::take(&mut packet);
                    if self.happens(self.faults.lost) {
                        continue;
                    }
                    if self.happens(self.faults.doubled) {
                        under_way.push_back((end, packet.clone()));
                    }
                    if self.happens(self.faults.reordered) {
                        under_way.push_front((end, packet));
                    } else {
                        under_way.push_back((end, packet));
                    }
                }
            }
            self.now += Duration::from_us(1);
            if let Some((end, packet)) = under_way.pop_front() {
                self.cards[1 - end].receive_roce(self.now, IpAddr::V4(ADDRESSES[end]), &packet);
            } else {
                let deadlines = self.cards.iter().filter_map(Card::next_deadline);
                self.now = self.now.max(deadlines.min().expect("somebody waits for something"));
            }
            for card in &mut self.cards {
                card.handle_deadline(self.now);
            }
            while let Some(event) = self.cards[0].poll_host() {
                if let HostEvent::Completion(completion) = event {
                    assert_eq!(completion.status, CompletionStatus::Success);
                    completed += 1;
                }
            }
        }
    }
}

/// Raw rows of the shape of Criteo's data set.
fn rows(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rows = vec![0; bytes];
    Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut rows);
    rows
}

const PREPROCESS: Setting =
    Setting { map: MapKind::Preprocess, tap: TapKind::Count, value: 0, action: Action::None };

/// WRITEs whole rows on two queue pairs, one of which has the pipeline. Returns the second card's memory, and
/// the reading of its tap.
fn run(setting: Setting, reorder_packets: usize, faults: Faults, seed: u64) -> (Vec<u8>, u64) {
    let mut pair = Pair::new(2, reorder_packets, faults, seed);
    pair.cards[1].load_pipeline(Pipeline::preset("criteo").unwrap());
    pair.cards[1].serve(pair.numbers[0][1], setting);
    pair.cards[0].memory().write(Target::Host, 0, &rows(BYTES, 7)).unwrap();
    for (message, length) in LENGTHS.into_iter().enumerate() {
        let place = (message * STRIDE) as u64;
        pair.write(0, place, place, length);
        pair.write(1, place, place + HALF as u64, length);
    }
    pair.complete(2 * LENGTHS.len());
    let counted = pair.cards[1].tap_reading(pair.numbers[0][1]);
    (pair.cards[1].image(Target::Host).to_vec(), counted)
}

const HALF: usize = BYTES / 2;
const STRIDE: usize = 65_536;
/// No path MTU is a multiple of a row's length, so rows cross packets.
const LENGTHS: [usize; 6] = [160, 160 * 7, 160 * 100, 160 * 409, 4, 160 * 33 + 3];

#[test]
fn features_lie_in_memory_as_if_nothing_had_been_lost() {
    let pipeline = Pipeline::preset("criteo").unwrap();
    let raw = rows(BYTES, 7);
    let mut expected = vec![0; BYTES];
    for (message, length) in LENGTHS.into_iter().enumerate() {
        let place = message * STRIDE;
        let mut features = raw[place..place + length].to_vec();
        pipeline.transform(0, &mut features);
        expected[place..place + length].copy_from_slice(&features);
        expected[HALF + place..][..length].copy_from_slice(&raw[place..place + length]);
    }
    let bytes = LENGTHS.iter().sum::<usize>() as u64;
    for reorder_packets in [0, 64] {
        let (memory, counted) = run(PREPROCESS, reorder_packets, NONE, 0);
        assert!(memory == expected && counted == bytes);
        for seed in 0..20 {
            let (memory, counted) = run(PREPROCESS, reorder_packets, MANY, seed);
            assert!(memory == expected, "seed {seed}");
            assert_eq!(counted, bytes, "seed {seed}");
        }
    }
}

#[test]
fn without_a_service_the_bytes_are_those_that_were_sent() {
    let (memory, counted) = run(Setting::default(), 0, MANY, 3);
    let raw = rows(BYTES, 7);
    for (message, length) in LENGTHS.into_iter().enumerate() {
        let place = message * STRIDE;
        assert!(memory[place..place + length] == raw[place..place + length]);
    }
    assert_eq!(counted, 0);
}

#[test]
fn a_send_is_a_message_too() {
    let mut pair = Pair::new(1, 0, MANY, 1);
    let number = pair.load();
    let local = LocalBuffer { address: 64, length: 1_600, lkey: pair.keys[1].lkey };
    pair.cards[1].post_receive(pair.numbers[0][1], ReceiveRequest { id: 0, local }).unwrap();
    let mut rows = rows(1_600, 9);
    pair.cards[0].memory().write(Target::Host, 0, &rows).unwrap();
    pair.post(0, Operation::Send { immediate: None }, 0, 1_600);
    pair.complete(1);
    Pipeline::preset("balboa").unwrap().transform(0, &mut rows);
    assert!(pair.cards[1].image(Target::Host)[64..1_664] == rows);
    assert_eq!(number, 0);
}

/// A SEND is marked if one of its packets reaches the threshold: the first of 1,024 bytes or the second of 576. Lost,
/// repeated and kept packets change nothing, and the next message has a mark of its own.
#[test]
fn a_message_is_marked_if_one_of_its_packets_is() {
    let marked_in = |action, reorder_packets, seed| {
        let mut pair = Pair::new(1, reorder_packets, MANY, seed);
        let setting = Setting { tap: TapKind::Count, action, ..Setting::default() };
        pair.cards[1].serve(pair.numbers[0][1], setting);
        let local = LocalBuffer { address: 0, length: 2_000, lkey: pair.keys[1].lkey };
        for (id, length) in (0..).zip([1_600, 1_024, 576, 0]) {
            pair.cards[1].post_receive(pair.numbers[0][1], ReceiveRequest { id, local }).unwrap();
            pair.post(0, Operation::Send { immediate: None }, 0, length);
        }
        pair.complete(4);
        let events = std::iter::from_fn(|| pair.cards[1].poll_host());
        let completions = events.filter_map(|event| match event {
            HostEvent::Completion(completion) => Some(completion.is_marked()),
            _ => None,
        });
        completions.collect::<Vec<_>>()
    };
    let marked = |action| {
        let alone = marked_in(action, 0, 4);
        for seed in 0..20 {
            assert_eq!(marked_in(action, 64, seed), alone, "seed {seed}");
        }
        alone
    };
    assert_eq!(marked(Action::Mark { threshold: 577 }), [true, true, false, false]);
    assert_eq!(marked(Action::Mark { threshold: 576 }), [true, true, true, false]);
    assert_eq!(marked(Action::Mark { threshold: 0 }), [true, true, true, false]);
    assert_eq!(marked(Action::Mark { threshold: 1_025 }), [false; 4]);
    assert_eq!(marked(Action::None), [false; 4]);
}

impl Pair {
    /// Loads BALBOA's pipeline on the second card, for the first queue pair.
    fn load(&mut self) -> u64 {
        let value = self.cards[1].load_pipeline(Pipeline::preset("balboa").unwrap());
        self.cards[1].serve(self.numbers[0][1], Setting { value, ..PREPROCESS });
        value
    }
}

/// A new queue pair does not inherit the service of the queue pair that it replaces.
#[test]
fn a_service_ends_with_its_queue_pair() {
    let mut pair = Pair::new(1, 0, NONE, 1);
    pair.load();
    let former = pair.numbers[0][1];
    pair.cards[1].destroy_queue_pair(former).unwrap();
    let config = weft_service::QUEUE_PAIRS;
    let again = (0..config).map(|_| pair.cards[1].create_queue_pair(QueuePairAttributes::default()));
    let index = |number: QueuePairNumber| number.0 % u32::from(config);
    let same = again.map_while(Result::ok).find(|number| index(*number) == index(former));
    assert!(same.is_some_and(|number| number != former && pair.cards[1].tap_reading(number) == 0));
}
