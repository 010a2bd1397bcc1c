//! Tests of two devices on a wire that can lose packets.

use std::net::IpAddr;

use weft_device::{
    Attributes, Change, CompletionQueueNumber, Device, DeviceConfig, Element, Event, HostMemory,
    MemoryRegion, Notify, QueuePairInit, ROUTE_HEADER_BYTES, SendOperation, SendRequest, State,
    WorkCompletion,
};
use weft_rdma::{Config, MemoryFault};
use weft_time::Instant;
use weft_verbs::{
    AccessFlags, CompletionOpcode, CompletionStatus, Operation, PathMtu, ProtectionDomain, RegionKeys,
    RemoteAddress,
};
use weft_wire::roce::Service;

/// Address at which the memory of each program begins.
const BASE: u64 = 0x10_0000;
const BYTES: u64 = 64 << 10;
const KEY: u32 = 0x1111_1111;

struct Memory(Vec<u8>);

impl Memory {
    fn range(&self, address: u64, length: usize) -> Result<std::ops::Range<usize>, MemoryFault> {
        let start = address.checked_sub(BASE).ok_or(MemoryFault)? as usize;
        let end = start.checked_add(length).filter(|&end| end <= self.0.len()).ok_or(MemoryFault)?;
        Ok(start..end)
    }
}

impl HostMemory for Memory {
    fn load(&mut self, address: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        let range = self.range(address, out.len())?;
        out.copy_from_slice(&self.0[range]);
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let range = self.range(address, bytes.len())?;
        self.0[range].copy_from_slice(bytes);
        Ok(())
    }
}

struct End {
    address: IpAddr,
    device: Device<Memory>,
    domain: ProtectionDomain,
    queue: CompletionQueueNumber,
    keys: RegionKeys,
    shared: Option<usize>,
    number: u32,
    service: Service,
}

impl End {
    fn new(last: u8, service: Service, shared: bool) -> Self {
        let address = IpAddr::from([10, 0, 0, last]);
        let transport = Config { max_queue_pairs: 8, max_regions: 16, ..Config::default() };
        let config = DeviceConfig { address, path_mtu: PathMtu::Bytes1024, transport };
        let mut device = Device::new(config, Memory(vec![0; BYTES as usize]));
        let domain = device.allocate_domain().unwrap();
        let region =
            MemoryRegion { domain, address: BASE, iova: BASE, length: BYTES, access: AccessFlags::ALL };
        let keys = device.register_memory(region).unwrap();
        let queue = device.create_completion_queue(64);
        let shared = shared.then(|| device.create_shared_receive(domain, 8, 2, 0).unwrap());
        let init = QueuePairInit {
            service,
            domain,
            send_completions: queue,
            receive_completions: queue,
            shared,
            max_send_wr: 4,
            max_recv_wr: 4,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline_data: 64,
            sq_sig_all: false,
        };
        let number = device.create_queue_pair(&init).unwrap();
        Self { address, device, domain, queue, keys, shared, number, service }
    }

    fn connect(&mut self, to: IpAddr, number: u32) {
        let datagram = self.service == Service::UnreliableDatagram;
        let init = Change {
            access: (!datagram).then_some(AccessFlags::ALL),
            queue_key: Some(KEY),
            ..Change::to(State::Init)
        };
        let receive = Change {
            destination: Some(to),
            destination_qp_num: Some(number),
            path_mtu: Some(PathMtu::Bytes256),
            rq_psn: Some(7),
            max_dest_rd_atomic: Some(4),
            min_rnr_timer: Some(1),
            ..Change::to(State::ReadyToReceive)
        };
        let send = Change {
            sq_psn: Some(7),
            timeout: Some(14),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            max_rd_atomic: Some(4),
            ..Change::to(State::ReadyToSend)
        };
        for change in [init, receive, send] {
            self.device.modify_queue_pair(self.number, change).unwrap();
        }
    }

    fn element(&self, offset: u64, length: u32) -> Element {
        Element { address: BASE + offset, length, lkey: self.keys.lkey }
    }

    fn fill(&mut self, offset: usize, bytes: &[u8]) {
        self.device.host().0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn bytes(&mut self, offset: usize, length: usize) -> Vec<u8> {
        self.device.host().0[offset..offset + length].to_vec()
    }

    fn post(&mut self, id: u64, operation: SendOperation, elements: &[Element], inline: bool) {
        let request =
            SendRequest { id, operation, elements, inline, signaled: true, fence: false, solicited: true };
        self.device.post_send(Instant::ZERO, self.number, &request).unwrap();
    }

    fn polled(&mut self) -> Vec<WorkCompletion> {
        std::iter::from_fn(|| self.device.poll(self.queue)).collect()
    }

    fn attributes(&mut self) -> Attributes {
        self.device.query_queue_pair(self.number).unwrap()
    }
}

fn pair(service: Service, shared: bool) -> [End; 2] {
    let mut ends = [End::new(1, service, false), End::new(2, service, shared)];
    for end in 0..2 {
        let (to, number) = (ends[1 - end].address, ends[1 - end].number);
        ends[end].connect(to, number);
    }
    ends
}

/// Delivers packets until there are none. Counts them, and drops those for whose count `lose` returns `true`.
fn carry(ends: &mut [End; 2], lose: impl Fn(usize) -> bool) {
    let mut count = 0;
    loop {
        let mut moved = false;
        for end in 0..2 {
            let mut packet = Vec::new();
            while let Some(transmit) = ends[end].device.poll_transmit(Instant::ZERO, &mut packet) {
                let (from, peer) = (ends[end].address, 1 - end);
                assert_eq!(transmit.destination, ends[peer].address);
                if !lose(count) {
                    ends[peer].device.receive(Instant::ZERO, from, &packet);
                }
                (moved, count) = (true, count + 1);
                packet.clear();
            }
        }
        if !moved {
            return;
        }
    }
}

const SEND: SendOperation = SendOperation::Connected(Operation::Send { immediate: Some(0xfeed) });

#[test]
fn lists_are_gathered_and_scattered() {
    for service in [Service::ReliableConnection, Service::UnreliableConnection] {
        let mut ends = pair(service, false);
        let bytes: Vec<u8> = (0..900_u32).map(|byte| byte as u8).collect();
        ends[0].fill(0, &bytes[..300]);
        ends[0].fill(5_000, &bytes[300..]);
        let lists = [ends[0].element(0, 300), ends[0].element(5_000, 600)];
        let places = [ends[1].element(100, 500), ends[1].element(2_000, 1), ends[1].element(9_000, 399)];
        let (device, number) = (&mut ends[1].device, ends[1].number);
        device.post_receive(number, 77, &places).unwrap();
        ends[0].post(5, SEND, &lists, false);
        carry(&mut ends, |_| false);
        let sent = ends[0].polled();
        assert_eq!((sent.len(), sent[0].id, sent[0].status), (1, 5, CompletionStatus::Success));
        let got = ends[1].polled();
        assert_eq!((got[0].id, got[0].bytes, got[0].immediate), (77, 900, Some(0xfeed)), "{service:?}");
        let parts = [ends[1].bytes(100, 500), ends[1].bytes(2_000, 1), ends[1].bytes(9_000, 399)];
        assert_eq!(parts.concat(), bytes);
    }
}

#[test]
fn inline_bytes_are_those_of_the_call() {
    let mut ends = pair(Service::ReliableConnection, false);
    ends[0].fill(0, b"before");
    let list = [Element { lkey: 0, ..ends[0].element(0, 6) }];
    let place = [ends[1].element(0, 100)];
    let (device, number) = (&mut ends[1].device, ends[1].number);
    device.post_receive(number, 1, &place).unwrap();
    ends[0].post(1, SEND, &list, true);
    ends[0].fill(0, b"behind");
    carry(&mut ends, |_| false);
    assert_eq!(ends[1].bytes(0, 6), b"before");
}

#[test]
fn a_wrong_key_is_a_completion_in_error() {
    for service in [Service::ReliableConnection, Service::UnreliableConnection] {
        let mut ends = pair(service, false);
        let wrong = [ends[0].element(0, 4), Element { lkey: 0xdead, ..ends[0].element(0, 4) }];
        ends[0].post(9, SEND, &wrong, false);
        ends[0].post(10, SEND, &[], false);
        carry(&mut ends, |_| false);
        let ended: Vec<_> = ends[0].polled().iter().map(|end| (end.id, end.status)).collect();
        let expected =
            [(9, CompletionStatus::LocalProtectionError), (10, CompletionStatus::WorkRequestFlushed)];
        assert_eq!(ended, expected, "{service:?}");
        assert_eq!(ends[0].attributes().state, State::Error);
    }
}

#[test]
fn a_region_lies_where_it_is_registered_and_is_named_as_it_was_told() {
    let mut ends = pair(Service::ReliableConnection, false);
    let domain = ends[1].domain;
    let access = AccessFlags::ALL;
    let apart = MemoryRegion { domain, address: BASE + 512, iova: 0x7000, length: 64, access };
    let keys = ends[1].device.register_memory(apart).unwrap();
    ends[0].fill(0, b"hello");
    let list = [ends[0].element(0, 5)];
    let remote = RemoteAddress { address: 0x7010, rkey: keys.rkey };
    ends[0].post(1, SendOperation::Connected(Operation::Write { remote, immediate: None }), &list, false);
    let back = [ends[0].element(100, 5)];
    ends[0].post(2, SendOperation::Connected(Operation::Read { remote }), &back, false);
    carry(&mut ends, |_| false);
    assert_eq!(ends[1].bytes(512 + 16, 5), b"hello");
    assert_eq!(ends[0].bytes(100, 5), b"hello");
    assert_eq!(ends[0].polled().len(), 2);
    ends[1].device.deregister_memory(keys.lkey).unwrap();
    ends[0].post(3, SendOperation::Connected(Operation::Read { remote }), &back, false);
    carry(&mut ends, |_| false);
    assert_eq!(ends[0].polled()[0].status, CompletionStatus::RemoteAccessError);
    assert!(
        std::iter::from_fn(|| ends[1].device.poll_event())
            .any(|event| matches!(event, Event::AccessError(_)))
    );
}

#[test]
fn a_shared_receive_queue_serves_and_tells_that_it_runs_low() {
    for service in [Service::ReliableConnection, Service::UnreliableConnection] {
        let mut ends = pair(service, true);
        let shared = ends[1].shared.unwrap();
        for id in 0..3 {
            let place = [ends[1].element(1_000 * id, 100)];
            ends[1].device.post_shared_receive(shared, 100 + id, &place).unwrap();
        }
        ends[1].device.limit_shared_receive(shared, 2).unwrap();
        assert_eq!(ends[1].device.poll_event(), None);
        for id in 0..2 {
            ends[0].post(id, SEND, &[], false);
        }
        carry(&mut ends, |_| false);
        let got: Vec<_> = ends[1].polled().iter().map(|end| end.id).collect();
        assert_eq!(got, [100, 101], "{service:?}");
        let events: Vec<_> = std::iter::from_fn(|| ends[1].device.poll_event()).collect();
        assert_eq!(events, [Event::LimitReached(shared as u32)]);
        assert!(ends[1].device.destroy_shared_receive(shared).is_err(), "it is in use");
        let number = ends[1].number;
        ends[1].device.destroy_queue_pair(number).unwrap();
        ends[1].device.destroy_shared_receive(shared).unwrap();
    }
}

#[test]
fn a_datagram_has_its_header_its_sender_and_its_key() {
    let mut ends = pair(Service::UnreliableDatagram, false);
    let header = ROUTE_HEADER_BYTES as u32;
    let place = [ends[1].element(0, header + 10)];
    let (device, number) = (&mut ends[1].device, ends[1].number);
    device.post_receive(number, 3, &place).unwrap();
    ends[0].fill(0, b"datagram");
    let list = [ends[0].element(0, 8)];
    let destination = ends[1].address;
    let to =
        |queue_key| SendOperation::Datagram { destination, queue_pair: number, queue_key, immediate: None };
    ends[0].post(1, to(KEY + 1), &list, false);
    ends[0].post(2, to(KEY), &list, false);
    carry(&mut ends, |_| false);
    assert_eq!(ends[0].polled().len(), 2);
    let got = ends[1].polled();
    assert_eq!((got.len(), got[0].id, got[0].bytes), (1, 3, header + 8));
    assert_eq!(got[0].source, Some(ends[0].number));
    assert_eq!(ends[1].bytes(40, 8), b"datagram");
    assert_eq!(ends[1].bytes(32, 4), [10, 0, 0, 1], "the source of the IPv4 header");
    assert_eq!(ends[1].device.dropped(), 1);
}

#[test]
fn an_unreliable_connection_loses_whole_messages() {
    let mut ends = pair(Service::UnreliableConnection, false);
    for id in 0..2 {
        let place = [ends[1].element(10_000 * id, 1_000)];
        let (device, number) = (&mut ends[1].device, ends[1].number);
        device.post_receive(number, id, &place).unwrap();
    }
    ends[0].fill(0, &[1; 600]);
    ends[0].fill(600, &[2; 600]);
    let lists = [[ends[0].element(0, 600)], [ends[0].element(600, 600)]];
    for (id, list) in lists.iter().enumerate() {
        ends[0].post(id as u64, SEND, list, false);
    }
    carry(&mut ends, |packet| packet == 1);
    assert_eq!(ends[0].polled().len(), 2, "the sender does not know");
    let got = ends[1].polled();
    assert_eq!((got.len(), got[0].id, got[0].bytes), (1, 0, 600), "the request of the lost message serves");
    assert_eq!(ends[1].bytes(0, 600), [2; 600]);
}

#[test]
fn a_drained_send_queue_keeps_what_is_posted_meanwhile() {
    let mut ends = pair(Service::ReliableConnection, false);
    for id in 0..2 {
        let (device, number) = (&mut ends[1].device, ends[1].number);
        device.post_receive(number, id, &[]).unwrap();
    }
    ends[0].post(1, SEND, &[], false);
    let drain = Change { drained_event: Some(true), ..Change::to(State::SendQueueDrained) };
    let number = ends[0].number;
    ends[0].device.modify_queue_pair(number, drain).unwrap();
    ends[0].post(2, SEND, &[], false);
    carry(&mut ends, |_| false);
    assert_eq!(ends[0].polled().len(), 1);
    assert_eq!(ends[0].device.poll_event(), Some(Event::SendQueueDrained(number)));
    ends[0].device.modify_queue_pair(number, Change::to(State::ReadyToSend)).unwrap();
    carry(&mut ends, |_| false);
    assert_eq!(ends[0].polled()[0].id, 2);
}

#[test]
fn events_are_those_that_were_asked_for() {
    let mut ends = pair(Service::ReliableConnection, false);
    let queue = ends[1].queue;
    ends[1].device.request_notification(queue, Notify::Solicited);
    let (device, number) = (&mut ends[1].device, ends[1].number);
    device.post_receive(number, 1, &[]).unwrap();
    ends[0].post(1, SEND, &[], false);
    carry(&mut ends, |_| false);
    assert_eq!(ends[1].device.poll_event(), Some(Event::Completion(queue)));
    assert_eq!(ends[1].polled()[0].opcode, CompletionOpcode::Receive);
    assert!(!ends[1].device.is_armed());
}

#[test]
fn what_is_in_use_stays() {
    let mut ends = pair(Service::ReliableConnection, false);
    let End { device, domain, queue, keys, number, .. } = &mut ends[0];
    assert!(device.deallocate_domain(*domain).is_err());
    assert!(device.destroy_completion_queue(*queue).is_err());
    device.destroy_queue_pair(*number).unwrap();
    device.destroy_completion_queue(*queue).unwrap();
    assert!(device.deallocate_domain(*domain).is_err(), "a region");
    device.deregister_memory(keys.lkey).unwrap();
    device.deallocate_domain(*domain).unwrap();
    assert!(device.query_queue_pair(*number).is_err());
}
