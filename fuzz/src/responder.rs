//! The transport, given arbitrary packets.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use weft_rdma::{Config, FlatMemory, MemoryFault, RegionMemory, Transport};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, CompletionOpcode, LocalBuffer, Modify, Operation, PathMtu, ProtectionDomain,
    QueuePairAttributes, QueuePairNumber, QueuePairState, ReadyToReceive, ReadyToSend, ReceiveRequest,
    Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};
use weft_wire::roce::{Aeth, AtomicEth, Bth, Congestion, MASK_24, Opcode, Packet, Reth, Syndrome, pad_bytes};

use crate::input::Input;

/// Bytes of memory behind each target.
const MEMORY_BYTES: usize = 0x1000;

/// Initial value of all memory bytes.
const UNTOUCHED: u8 = 0xa5;

const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER_QUEUE_PAIR: QueuePairNumber = QueuePairNumber(0x77);
const PATH_MTU: PathMtu = PathMtu::Bytes256;

/// The protection domain of the queue pair.
const DOMAIN: ProtectionDomain = ProtectionDomain(0);

/// Regions of every kind, with gaps between them.
fn regions() -> [Region; 6] {
    let plain = Region::host(0x100, 0x400, AccessFlags::ALL);
    let read_only = AccessFlags::REMOTE_READ;
    [
        plain,
        Region { target: Target::Hbm, address: 0x800, length: 0x200, access: read_only, ..plain },
        Region { target: Target::OnChip, address: 0x200, length: 0x200, write_through: true, ..plain },
        Region { address: 0x800, length: 0x200, rpc: Some(3), ..plain },
        Region { address: 0xb00, length: 0x100, domain: ProtectionDomain(7), ..plain },
        // Extends beyond the end of memory.
        Region { target: Target::Register, address: 0xf00, length: 0x1000, ..plain },
    ]
}

/// The keys of the currently registered regions, shared by the memory and the code that registers.
type Registered = Rc<RefCell<[Option<RegionKeys>; 6]>>;

/// Memory that panics if the transport accesses it outside registered regions of its queue pair's domain.
struct Guarded {
    flat: FlatMemory,
    registered: Registered,
}

impl Guarded {
    fn check(&self, target: Target, address: u64, length: usize, write: bool) {
        let inside = |region: &Region| {
            let through = write && region.write_through && target == Target::Hbm;
            let begins = address.checked_sub(region.address);
            region.domain == DOMAIN
                && (region.target == target || through)
                && begins.is_some_and(|begin| begin + length as u64 <= region.length)
        };
        let registered = self.registered.borrow();
        let reachable =
            regions().iter().zip(&*registered).any(|(region, keys)| keys.is_some() && inside(region));
        assert!(reachable || length == 0, "{target:?} at {address:#x}, {length} bytes, write: {write}");
    }
}

impl RegionMemory for Guarded {
    fn read(&mut self, target: Target, address: u64, length: usize) -> Result<&[u8], MemoryFault> {
        self.check(target, address, length, false);
        self.flat.read(target, address, length)
    }

    fn write(&mut self, target: Target, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.check(target, address, bytes.len(), true);
        self.flat.write(target, address, bytes)
    }
}

/// A transport with one connected queue pair; the input decides the actions of its peer and its owner, and
/// the time.
pub fn responder(data: &[u8]) {
    let mut input = Input::new(data);
    let mut bench = Bench::new();
    while !input.is_empty() {
        bench.step(&mut input);
    }
    bench.drain(usize::MAX);
    bench.check_memory();
}

struct Bench {
    transport: Transport,
    memory: Guarded,
    registered: Registered,
    number: QueuePairNumber,
    now: Instant,
    /// The id of the next request, ascending.
    next_id: u64,
    /// The ids of the last send request and the last receive request that completed.
    completed: [Option<u64>; 2],
}

impl Bench {
    fn new() -> Self {
        let mut transport = Transport::new(Config {
            max_queue_pairs: 2,
            max_regions: 8,
            completion_queue_depth: 16,
            rpc_queue_depth: 2,
            max_queue_depth: 8,
            max_rd_atomic: 4,
            window_packets: 8,
            acknowledge_interval: 4,
            host_credit_bytes: Some(0x1000),
            ..Config::default()
        });
        let keys = regions().map(|region| Some(transport.register_region(region).expect("there is room")));
        let registered = Rc::new(RefCell::new(keys));
        let mut flat = FlatMemory::new(MEMORY_BYTES);
        for target in Target::ALL {
            flat.image_mut(target).fill(UNTOUCHED);
        }
        let attributes = QueuePairAttributes { domain: DOMAIN, max_send_wr: 8, max_recv_wr: 8 };
        let number = transport.create_queue_pair(attributes).expect("there is room");
        let memory = Guarded { flat, registered: Rc::clone(&registered) };
        let mut bench = Self {
            transport,
            memory,
            registered,
            number,
            now: Instant::ZERO,
            next_id: 0,
            completed: [None; 2],
        };
        bench.connect(0xff_fffe);
        bench
    }

    /// Brings the queue pair from RESET to RTS; both directions start at `psn`.
    fn connect(&mut self, psn: u32) {
        for change in [
            Modify::Init { access: AccessFlags::ALL },
            Modify::ReadyToReceive(ReadyToReceive {
                destination: PEER.into(),
                destination_qp_num: PEER_QUEUE_PAIR,
                rq_psn: psn,
                path_mtu: PATH_MTU,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 1,
            }),
            Modify::ReadyToSend(ReadyToSend {
                sq_psn: psn,
                timeout: 1,
                retry_cnt: 2,
                rnr_retry: 2,
                max_rd_atomic: 4,
            }),
        ] {
            self.transport.modify_queue_pair(self.number, change).expect("a legal transition");
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..=6 => self.receive_plausible(input),
            7 => {
                let length = usize::from(input.byte());
                self.receive(PEER, input.bytes(length));
            }
            8 | 9 => self.post_send(input),
            10 => {
                let request = ReceiveRequest { id: self.next_id, local: self.local(input) };
                self.next_id += u64::from(self.transport.post_receive(self.number, request).is_ok());
            }
            11 => {
                self.now += Duration::from_ns(u64::from(input.half()) * 16);
                self.transport.handle_deadline(self.now);
                assert!(self.transport.next_deadline().is_none_or(|at| at > self.now));
            }
            12 | 13 => self.drain(input.byte().into()),
            14 => self.change_region(input),
            _ => self.change_queue_pair(input),
        }
    }

    /// A packet of the peer with mostly valid fields.
    fn receive_plausible(&mut self, input: &mut Input<'_>) {
        let own = self.transport.query_queue_pair(self.number).expect("it exists");
        let opcode = input.one_of(&Opcode::ALL);
        let is_response =
            opcode.has_aeth() || opcode.has_atomic_ack() || opcode == Opcode::ReadResponseMiddle;
        let psn = if is_response {
            u64::from(own.sq_psn).wrapping_sub(u64::from(input.byte() & 15))
        } else {
            u64::from(own.rq_psn)
        };
        let flags = input.byte();
        let payload_bytes = match input.byte() {
            _ if !opcode.has_payload() => 0,
            choice @ 0..0x80 => usize::from(choice),
            0x80..0xf0 => PATH_MTU.bytes() as usize,
            choice => PATH_MTU.bytes() as usize + usize::from(choice & 15),
        };
        let payload = vec![flags; payload_bytes];
        let bth = Bth {
            opcode,
            solicited: flags & 1 != 0,
            migration: true,
            pad: pad_bytes(payload_bytes),
            partition_key: if input.rarely() { input.half() } else { 0xffff },
            congestion: Congestion { forward: flags & 2 != 0, backward: flags & 4 != 0 },
            destination: input.near(self.number.0.into()) as u32 & MASK_24,
            acknowledge: flags & 8 != 0,
            psn: input.near(psn) as u32 & MASK_24,
        };
        let remote = self.remote(input);
        let length = match input.byte() {
            0xff => input.word(),
            choice @ 0..0x80 => choice.into(),
            choice => u32::from(choice & 15) * PATH_MTU.bytes(),
        };
        let length = if input.coin() { length } else { payload_bytes as u32 };
        let syndrome = Syndrome::from_u8(input.byte()).unwrap_or(Syndrome::ACK);
        let packet = Packet {
            reth: opcode.has_reth().then_some(Reth { address: remote.address, rkey: remote.rkey, length }),
            atomic: opcode.has_atomic().then_some(AtomicEth {
                address: remote.address,
                rkey: remote.rkey,
                swap_or_add: u64::MAX,
                compare: u64::from_ne_bytes([UNTOUCHED; 8]),
            }),
            aeth: opcode.has_aeth().then_some(Aeth { syndrome, msn: flags.into() }),
            atomic_ack: opcode.has_atomic_ack().then_some(1),
            immediate: opcode.has_immediate().then_some(2),
            ..Packet::new(bth, &payload)
        };
        let source = if input.rarely() { Ipv4Addr::LOCALHOST } else { PEER };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        self.receive(source, &bytes);
    }

    fn receive(&mut self, source: Ipv4Addr, bytes: &[u8]) {
        if let Ok(packet) = Packet::parse(bytes) {
            let marked = packet.bth.congestion.forward;
            self.transport.receive_marked(self.now, source, &packet, marked, &mut self.memory);
        }
    }

    fn post_send(&mut self, input: &mut Input<'_>) {
        let (local, remote) = (self.local(input), self.remote(input));
        let immediate = input.coin().then_some(5);
        let operation = match input.byte() % 5 {
            0 => Operation::Send { immediate },
            1 => Operation::Write { remote, immediate },
            2 => Operation::Read { remote },
            3 => Operation::FetchAdd { remote, add: 1 },
            _ => Operation::CompareSwap { remote, compare: 0, swap: 1 },
        };
        let flags = input.byte();
        let request = WorkRequest {
            signaled: flags & 1 == 0,
            fence: flags & 2 != 0,
            solicited: flags & 4 != 0,
            ..WorkRequest::new(self.next_id, operation, local)
        };
        self.next_id += u64::from(self.transport.post_send(self.now, self.number, request).is_ok());
    }

    /// The keys of a region and an address in it; rarely random ones.
    fn place(&self, input: &mut Input<'_>) -> (u64, RegionKeys) {
        if input.rarely() {
            return (input.long(), RegionKeys { lkey: input.word(), rkey: input.word() });
        }
        let index = usize::from(input.byte()) % regions().len();
        let (region, keys) = (regions()[index], self.registered.borrow()[index]);
        let offset = match input.byte() {
            0 => u64::from(input.half()),
            choice => u64::from(choice & !7) * 2,
        };
        // Keys that were never allocated stand for those of a deregistered region.
        (region.address.wrapping_add(offset), keys.unwrap_or(RegionKeys { lkey: 1, rkey: 2 }))
    }

    fn remote(&self, input: &mut Input<'_>) -> RemoteAddress {
        let (address, keys) = self.place(input);
        RemoteAddress { address, rkey: keys.rkey }
    }

    fn local(&self, input: &mut Input<'_>) -> LocalBuffer {
        let (address, keys) = self.place(input);
        let length = if input.coin() { 8 } else { u32::from(input.byte()) * 4 };
        LocalBuffer { address, length, lkey: keys.lkey }
    }

    fn change_region(&mut self, input: &mut Input<'_>) {
        let index = usize::from(input.byte()) % regions().len();
        let slot = &mut self.registered.borrow_mut()[index];
        match (*slot, input.byte() % 3) {
            (None, _) => {
                *slot = Some(self.transport.register_region(regions()[index]).expect("there is room"))
            }
            (Some(keys), 0) => {
                let region = self.transport.deregister_region(keys).expect("it is registered");
                assert_eq!(
                    (region.address, region.length),
                    (regions()[index].address, regions()[index].length)
                );
                *slot = None;
            }
            (Some(keys), choice) => {
                let access = if choice == 1 { AccessFlags::ALL } else { AccessFlags::REMOTE_WRITE };
                self.transport.modify_region(keys, access).expect("it is registered");
            }
        }
    }

    fn change_queue_pair(&mut self, input: &mut Input<'_>) {
        match input.byte() % 5 {
            0 => {
                self.transport.modify_queue_pair(self.number, Modify::Error).expect("always legal");
                self.drain(usize::MAX);
            }
            1 => self.transport.return_host_credits(input.half().into()),
            2 => {
                let packet = Packet::congestion_notification(self.number.0, 0xffff);
                self.transport.receive(self.now, PEER, &packet, &mut self.memory);
            }
            3 => {
                let access = if input.coin() { AccessFlags::ALL } else { AccessFlags::NONE };
                // Refused unless the queue pair is connected.
                let _ = self.transport.modify_queue_pair(self.number, Modify::Access(access));
            }
            _ => {
                self.transport.modify_queue_pair(self.number, Modify::Reset).expect("always legal");
                self.connect(input.near(0) as u32 & MASK_24);
            }
        }
    }

    /// Removes at most this many packets, and all completions and calls.
    fn drain(&mut self, packets: usize) {
        let mut bytes = Vec::new();
        for _ in 0..packets {
            bytes.clear();
            let Some(transmit) = self.transport.poll_transmit(self.now, &mut self.memory, &mut bytes) else {
                break;
            };
            assert_eq!((transmit.destination, transmit.queue_pair), (PEER.into(), self.number));
            let packet = Packet::parse(&bytes).expect("what is sent can be parsed");
            assert_eq!(packet.bth.destination, PEER_QUEUE_PAIR.0);
            assert!(packet.payload.len() <= PATH_MTU.bytes() as usize);
        }
        while let Some(completion) = self.transport.poll_completion() {
            assert!(completion.id < self.next_id, "{completion:?} was never posted");
            let is_receive = matches!(
                completion.opcode,
                CompletionOpcode::Receive | CompletionOpcode::ReceiveWriteWithImmediate
            );
            let last = &mut self.completed[usize::from(is_receive)];
            assert!(last.is_none_or(|last| last < completion.id), "{completion:?} comes after {last:?}");
            *last = Some(completion.id);
        }
        while self.transport.poll_rpc().is_some() {}
        let state = self.transport.query_queue_pair(self.number).expect("it exists");
        assert!(state.state != QueuePairState::Error || state.send_queued == 0, "requests stay in ERROR");
    }

    /// Checks that no byte has changed outside of the regions to which writes are allowed.
    fn check_memory(&self) {
        for target in Target::ALL {
            for (address, &byte) in self.memory.flat.image(target).iter().enumerate() {
                let inside = |region: &Region| {
                    let reaches = region.target == target || (region.write_through && target == Target::Hbm);
                    let range = region.address..region.address + region.length;
                    reaches && region.domain == DOMAIN && range.contains(&(address as u64))
                };
                assert!(byte == UNTOUCHED || regions().iter().any(inside), "{target:?} at {address:#x}");
            }
        }
    }
}
