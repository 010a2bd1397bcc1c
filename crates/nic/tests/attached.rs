//! Memory of another device, attached to a card: no notification is delivered before the writes that it
//! refers to are visible.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use weft_nic::{
    AttachedMemory, Card, CardConfig, HostCommand, HostEvent, NoEngine, RdmaDriver, attached_address,
};
use weft_rdma::{Config, MemoryFault};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, Completion, CompletionOpcode, CompletionStatus, LocalBuffer, Operation, PathMtu,
    QueuePairAttributes, QueuePairNumber, ReadyToReceive, ReadyToSend, ReceiveRequest, Region, RegionKeys,
    RemoteAddress, Target, WorkRequest,
};

const BYTES: usize = 4_096;

/// What a test sees of the device. Writes stay under way until the test lets them become visible.
#[derive(Debug, Default)]
struct Shared {
    bytes: Vec<u8>,
    under_way: BTreeMap<u64, Vec<(usize, Vec<u8>)>>,
    lets_land: u64,
}

#[derive(Debug)]
struct Slow {
    shared: Arc<Mutex<Shared>>,
    taken: Vec<(usize, Vec<u8>)>,
    marks: u64,
    read: Vec<u8>,
}

impl AttachedMemory for Slow {
    fn read(&mut self, offset: u64, length: usize) -> Result<&[u8], MemoryFault> {
        let mark = self.mark();
        self.shared.lock().unwrap().lets_land = mark;
        assert!(self.has_landed(mark));
        let start = offset as usize;
        let shared = self.shared.lock().unwrap();
        self.read = shared.bytes.get(start..start + length).ok_or(MemoryFault)?.to_vec();
        Ok(&self.read)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        if offset as usize + bytes.len() > BYTES {
            return Err(MemoryFault);
        }
        self.taken.push((offset as usize, bytes.to_vec()));
        Ok(())
    }

    fn submit(&mut self) {}

    fn mark(&mut self) -> u64 {
        self.marks += 1;
        let taken = std::mem::take(&mut self.taken);
        self.shared.lock().unwrap().under_way.insert(self.marks, taken);
        self.marks
    }

    fn has_landed(&mut self, mark: u64) -> bool {
        let mut shared = self.shared.lock().unwrap();
        let allowed = shared.lets_land;
        let rest = shared.under_way.split_off(&allowed.saturating_add(1));
        for (start, bytes) in std::mem::replace(&mut shared.under_way, rest).into_values().flatten() {
            shared.bytes[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        mark <= allowed
    }
}

/// Two cards with a queue pair; the second has a device's memory attached.
struct Pair {
    cards: [Card<NoEngine>; 2],
    numbers: [QueuePairNumber; 2],
    keys: [RegionKeys; 2],
    device: Arc<Mutex<Shared>>,
}

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const NOW: Instant = Instant::ZERO;

impl Pair {
    fn new() -> Self {
        let config = CardConfig::without_engines(BYTES, Config::default());
        let mut cards = [0, 1].map(|_| Card::new(config.clone(), Vec::new()));
        let device = Arc::new(Mutex::new(Shared { bytes: vec![0; BYTES], ..Shared::default() }));
        let memory = Slow { shared: device.clone(), taken: Vec::new(), marks: 0, read: Vec::new() };
        cards[1].attach(Box::new(memory));
        let starts = [0, attached_address(0)];
        let keys = [0, 1].map(|end: usize| {
            let region = Region::host(starts[end], BYTES as u64, AccessFlags::ALL);
            cards[end].register_region(region).unwrap()
        });
        let numbers =
            [0, 1].map(|end: usize| cards[end].create_queue_pair(QueuePairAttributes::default()).unwrap());
        for end in 0..2 {
            let receive = ReadyToReceive {
                destination: ADDRESSES[1 - end].into(),
                destination_qp_num: numbers[1 - end],
                rq_psn: 0,
                path_mtu: PathMtu::Bytes256,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 12,
            };
            let send = ReadyToSend { sq_psn: 0, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 4 };
            cards[end].connect(numbers[end], AccessFlags::ALL, receive, send).unwrap();
        }
        for id in 0..4 {
            cards[1].post_receive(numbers[1], ReceiveRequest { id, local: LocalBuffer::default() }).unwrap();
        }
        Self { cards, numbers, keys, device }
    }

    fn post(&mut self, operation: Operation, length: u32) {
        let local = LocalBuffer { address: 0, length, lkey: self.keys[0].lkey };
        let command = HostCommand::PostSend(self.numbers[0], WorkRequest::new(1, operation, local));
        self.cards[0].submit(NOW, command);
    }

    fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { address: attached_address(offset), rkey: self.keys[1].rkey }
    }

    /// Delivers packets until there are none.
    fn exchange(&mut self) {
        let mut packet = Vec::new();
        loop {
            let mut sent = false;
            for (end, address) in ADDRESSES.into_iter().enumerate() {
                while self.cards[end].poll_roce_headers(NOW, &mut packet).is_some() {
                    self.cards[1 - end].receive_roce(NOW, IpAddr::V4(address), &packet);
                    packet.clear();
                    sent = true;
                }
            }
            if !sent {
                return;
            }
        }
    }

    fn told(&mut self, end: usize) -> Option<Completion> {
        loop {
            if let HostEvent::Completion(completion) = self.cards[end].poll_host()? {
                assert_eq!(completion.status, CompletionStatus::Success);
                return Some(completion);
            }
        }
    }
}

#[test]
fn news_waits_for_the_data_and_the_acknowledgement_does_not() {
    let mut pair = Pair::new();
    let message: Vec<u8> = (0..1_000).map(|place| place as u8 | 1).collect();
    pair.cards[0].memory().write(Target::Host, 0, &message).unwrap();
    let remote = pair.remote(100);
    pair.post(Operation::Write { remote, immediate: Some(5) }, 1_000);
    assert_eq!(pair.cards[1].next_deadline(), None);
    pair.exchange();
    assert_eq!(pair.told(0).unwrap().opcode, CompletionOpcode::Write);
    assert_eq!(pair.told(1), None);
    assert!(pair.device.lock().unwrap().bytes.iter().all(|byte| *byte == 0));
    // The card requests to be called again at once; but the writes are still not visible.
    let again = pair.cards[1].next_deadline().unwrap();
    assert_eq!(again, NOW);
    pair.cards[1].handle_deadline(again + Duration::from_ns(1));
    assert_eq!(pair.told(1), None);
    pair.device.lock().unwrap().lets_land = u64::MAX;
    pair.cards[1].handle_deadline(again + Duration::from_ns(2));
    let told = pair.told(1).unwrap();
    assert_eq!((told.opcode, told.immediate), (CompletionOpcode::ReceiveWriteWithImmediate, Some(5)));
    assert_eq!(pair.device.lock().unwrap().bytes[100..1_100], message);
    assert_eq!(pair.cards[1].next_deadline(), None);
}

#[test]
fn reads_and_atomics_see_what_was_written_before() {
    let mut pair = Pair::new();
    pair.cards[0].memory().write(Target::Host, 0, &7_u64.to_le_bytes()).unwrap();
    let remote = pair.remote(8);
    pair.post(Operation::Write { remote, immediate: None }, 8);
    pair.post(Operation::FetchAdd { remote, add: 5 }, 8);
    pair.exchange();
    let original = pair.cards[0].memory().read(Target::Host, 0, 8).unwrap();
    assert_eq!(original, 7_u64.to_le_bytes());
    // The length exceeds the limit above which a card does not copy payloads.
    let remote = pair.remote(0);
    pair.post(Operation::Read { remote }, 2_048);
    pair.exchange();
    let read = pair.cards[0].memory().read(Target::Host, 0, 2_048).unwrap();
    assert_eq!(read[8..16], 12_u64.to_le_bytes());
    assert!(read[16..].iter().all(|byte| *byte == 0));
}

#[test]
fn without_attached_memory_its_addresses_are_a_fault() {
    let config = CardConfig::without_engines(BYTES, Config::default());
    let mut card = Card::<NoEngine>::new(config, Vec::new());
    assert_eq!(card.memory().write(Target::Host, attached_address(0), &[1]), Err(MemoryFault));
    assert_eq!(card.memory().read(Target::Host, attached_address(0), 1), Err(MemoryFault));
}
