//! A peer that sends arbitrary packets. Nothing panics, and no byte changes outside the memory that was
//! granted to the peer.

use std::net::Ipv4Addr;

use crate::common::{Connection, Node, connected};
use proptest::prelude::*;
use weft_rdma::Config;
use weft_time::{Duration, Instant};
use weft_verbs::{AccessFlags, Operation, ReceiveRequest, Region, RegionKeys, Target};
use weft_wire::roce::{Aeth, AtomicEth, Bth, Congestion, NakCode, Opcode, Packet, Reth, Syndrome};

/// The only memory that the peer may write; and the memory that receives responses and messages.
const BOX: (u64, u64) = (0x1000, 0x400);
const SINK: (u64, u64) = (0x3000, 0x400);

fn opcode() -> impl Strategy<Value = Opcode> {
    prop::sample::select(&Opcode::ALL[..])
}

fn syndrome() -> impl Strategy<Value = Syndrome> {
    prop_oneof![
        any::<u8>().prop_map(|credits| Syndrome::Ack { credits }),
        any::<u8>().prop_map(|timer| Syndrome::RnrNak { timer }),
        Just(Syndrome::Nak(NakCode::PsnSequenceError)),
        Just(Syndrome::Nak(NakCode::InvalidRequest)),
        Just(Syndrome::Nak(NakCode::RemoteAccessError)),
        Just(Syndrome::Nak(NakCode::RemoteOperationalError)),
        Just(Syndrome::Nak(NakCode::InvalidRdRequest)),
    ]
}

/// Addresses in and around the granted memory, and extreme ones.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![0xf00..0x1500u64, (0x200..0x280u64).prop_map(|word| word * 8), any::<u64>(), Just(u64::MAX)]
}

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![0..0x500u32, any::<u32>(), Just(8), Just(256), Just(1 << 31)]
}

/// A packet's PSN relative to the expected one, whether its key is right, and fields that do not match its
/// opcode.
#[derive(Clone, Debug)]
struct Attack {
    opcode: Opcode,
    psn: i32,
    destination_right: bool,
    key: Option<u32>,
    address: u64,
    length: u32,
    syndrome: Syndrome,
    payload: usize,
    headers: Option<[bool; 5]>,
    word: u64,
    flags: u8,
    post: u8,
}

fn attack() -> impl Strategy<Value = Attack> {
    (
        (opcode(), prop_oneof![4 => Just(0), 2 => -4..5, 1 => any::<i32>()], prop::bool::weighted(0.95)),
        (prop_oneof![3 => Just(None), 1 => any::<u32>().prop_map(Some)], address(), length(), syndrome()),
        (prop_oneof![Just(256usize), 0..300usize, Just(5_000)], any::<u64>(), any::<u8>(), any::<u8>()),
        prop_oneof![9 => Just(None), 1 => any::<[bool; 5]>().prop_map(Some)],
    )
        .prop_map(|(what, whither, rest, headers)| Attack {
            opcode: what.0,
            psn: what.1,
            destination_right: what.2,
            key: whither.0,
            address: whither.1,
            length: whither.2,
            syndrome: whither.3,
            payload: rest.0,
            word: rest.1,
            flags: rest.2,
            post: rest.3,
            headers,
        })
}

/// The node under attack. The test plays its peer.
struct Victim {
    node: Node,
    source: Ipv4Addr,
    keys: RegionKeys,
    now: Instant,
    payload: Vec<u8>,
}

impl Victim {
    fn new() -> Self {
        let [mut node, peer] =
            connected(&Config { max_queue_pairs: 4, ..Config::default() }, &Connection::default());
        // The peer gets no access to the whole memory.
        node.transport.modify_region(node.keys, AccessFlags::NONE).unwrap();
        let region = |(address, length), access| Region::host(address, length, access);
        let keys = node.transport.register_region(region(BOX, AccessFlags::ALL)).unwrap();
        let sink = node.transport.register_region(region(SINK, AccessFlags::LOCAL_WRITE)).unwrap();
        node.keys.lkey = sink.lkey;
        node.memory.image_mut(Target::Host).fill(0xa5);
        Self { node, source: peer.address, keys, now: Instant::ZERO, payload: vec![0x5a; 5_000] }
    }

    fn suffer(&mut self, attack: &Attack) {
        let node = &mut self.node;
        let information = node.transport.query_queue_pair(node.queue_pair).unwrap();
        // The node under attack sometimes posts a request itself.
        let (at, length) = SINK;
        let local = node.local(at, length as u32 / 2);
        let remote = node.remote(0x40);
        let operation = match attack.post % 8 {
            0 => Some((Operation::Read { remote }, local)),
            1 => Some((Operation::FetchAdd { remote, add: 1 }, node.local(at, 8))),
            2 => Some((Operation::Write { remote, immediate: None }, local)),
            _ => None,
        };
        if let Some((operation, local)) = operation {
            let request = weft_verbs::WorkRequest::new(1, operation, local);
            let _ = node.transport.post_send(self.now, node.queue_pair, request);
        }
        if attack.post % 8 == 3 {
            let request = ReceiveRequest { id: 2, local: node.local(at + length / 2, 300) };
            let _ = node.transport.post_receive(node.queue_pair, request);
        }

        let near = if attack.opcode.is_response() { information.sq_psn } else { information.rq_psn };
        let has = attack.headers.unwrap_or([
            attack.opcode.has_reth(),
            attack.opcode.has_atomic(),
            attack.opcode.has_aeth(),
            attack.opcode.has_atomic_ack(),
            attack.opcode.has_immediate(),
        ]);
        let rkey = attack.key.unwrap_or(self.keys.rkey);
        let word = attack.word;
        let packet = Packet {
            bth: Bth {
                opcode: attack.opcode,
                solicited: attack.flags & 1 > 0,
                migration: attack.flags & 2 > 0,
                pad: attack.flags >> 6,
                partition_key: if attack.flags & 60 == 60 { 7 } else { 0xffff },
                congestion: Congestion { forward: attack.flags & 4 > 0, backward: attack.flags & 8 > 0 },
                destination: if attack.destination_right { node.queue_pair.0 } else { word as u32 },
                acknowledge: attack.flags & 16 > 0,
                psn: near.wrapping_add_signed(attack.psn),
            },
            reth: has[0].then_some(Reth { address: attack.address, rkey, length: attack.length }),
            atomic: has[1].then_some(AtomicEth {
                address: attack.address,
                rkey,
                swap_or_add: word,
                compare: word,
            }),
            aeth: has[2].then_some(Aeth { syndrome: attack.syndrome, msn: word as u32 }),
            atomic_ack: has[3].then_some(word),
            immediate: has[4].then_some(word as u32),
            payload: &self.payload[..attack.payload],
        };
        let marked = attack.flags & 3 == 3;
        node.transport.receive_marked(self.now, self.source, &packet, marked, &mut node.memory);
        if attack.flags & 32 > 0 {
            let mut out = Vec::new();
            while node.transport.poll_transmit(self.now, &mut node.memory, &mut out).is_some() {
                Packet::parse(&out).expect("what a victim answers is well formed");
                out.clear();
            }
        }
        self.now += Duration::from_us(u64::from(attack.post) * 10);
        node.transport.handle_deadline(self.now);
        while node.transport.poll_completion().is_some() {}
        while node.transport.poll_rpc().is_some() {}
    }

    fn check_memory(&self) {
        let granted = |address: u64| {
            [BOX, SINK].iter().any(|&(start, length)| (start..start + length).contains(&address))
        };
        for target in Target::ALL {
            for (address, &byte) in self.node.memory.image(target).iter().enumerate() {
                let untouched = if target == Target::Host { 0xa5 } else { 0 };
                assert!(
                    byte == untouched || target == Target::Host && granted(address as u64),
                    "{address:#x}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_packets_neither_panic_nor_leave_their_region(attacks in prop::collection::vec(attack(), 1..40)) {
        let mut victim = Victim::new();
        for attack in &attacks {
            victim.suffer(attack);
        }
        victim.check_memory();
    }
}

/// Packets for an unknown queue pair, from another source or of another partition are dropped, each with its
/// own counter.
#[test]
fn what_is_not_for_a_queue_pair_is_dropped_and_counted() {
    let [mut node, peer] = connected(&Config::default(), &Connection::default());
    let bth = Bth {
        opcode: Opcode::SendOnly,
        solicited: false,
        migration: true,
        pad: 0,
        partition_key: 0xffff,
        congestion: Congestion::default(),
        destination: node.queue_pair.0,
        acknowledge: true,
        psn: 500,
    };
    let now = Instant::ZERO;
    let mut receive = |source, bth| {
        node.transport.receive(now, source, &Packet::new(bth, &[]), &mut node.memory);
        *node.transport.counters()
    };
    assert_eq!(receive(peer.address, Bth { destination: 0x1234, ..bth }).drop_unknown_queue_pair, 1);
    assert_eq!(receive(Ipv4Addr::LOCALHOST, bth).drop_wrong_source, 1);
    assert_eq!(receive(peer.address, Bth { partition_key: 0x8001, ..bth }).drop_partition_key, 1);
    let ghost = Bth { opcode: Opcode::ReadResponseMiddle, psn: 100, ..bth };
    assert_eq!(receive(peer.address, ghost).drop_ghost_response, 1);
    assert_eq!(receive(peer.address, Bth { opcode: Opcode::WriteOnly, ..bth }).drop_malformed, 1);
    let mut out = Vec::new();
    assert!(node.transport.poll_transmit(now, &mut node.memory, &mut out).is_none(), "nobody is answered");

    let idle = node.transport.create_queue_pair(Default::default()).unwrap();
    let to_idle = Packet::new(Bth { destination: idle.0, ..bth }, &[]);
    node.transport.receive(now, peer.address, &to_idle, &mut node.memory);
    assert_eq!(node.transport.counters().drop_wrong_state, 1);
}

/// A message must end before the next begins, must have the length that it announced, and all its packets but
/// the last must be full.
#[test]
fn opcodes_and_lengths_that_do_not_follow_are_invalid_requests() {
    use Opcode::{
        ReadRequest, SendFirst, SendLast, SendMiddle, WriteFirst, WriteLast, WriteMiddle, WriteOnly,
    };
    let wrong: [&[(Opcode, u32, usize)]; 12] = [
        &[(SendMiddle, 0, 256)],
        &[(SendLast, 0, 8)],
        &[(WriteLast, 0, 8)],
        &[(SendFirst, 0, 256), (WriteLast, 0, 8)],
        &[(WriteFirst, 512, 256), (SendLast, 0, 8)],
        &[(WriteFirst, 512, 256), (WriteOnly, 8, 8)],
        &[(WriteFirst, 512, 256), (ReadRequest, 8, 0)],
        &[(SendFirst, 0, 255)],
        &[(SendFirst, 0, 256), (SendLast, 0, 0)],
        &[(WriteOnly, 300, 300)],
        &[(WriteOnly, 9, 8)],
        &[(WriteFirst, 512, 256), (WriteMiddle, 0, 256)],
    ];
    for packets in wrong {
        let [mut node, peer] = connected(&Config::default(), &Connection::default());
        let request = ReceiveRequest { id: 0, local: node.local(0, 0x1000) };
        node.transport.post_receive(node.queue_pair, request).unwrap();
        let payload = [0; 512];
        for (index, &(opcode, length, bytes)) in packets.iter().enumerate() {
            assert_eq!(
                node.transport.counters().sent_invalid_request,
                0,
                "{packets:?}: only the last is wrong"
            );
            let bth = Bth {
                opcode,
                solicited: false,
                migration: true,
                pad: 0,
                partition_key: 0xffff,
                congestion: Congestion::default(),
                destination: node.queue_pair.0,
                acknowledge: true,
                psn: 500 + index as u32,
            };
            let mut packet = Packet::new(bth, &payload[..bytes]);
            packet.reth = opcode.has_reth().then_some(Reth { address: 0, rkey: node.keys.rkey, length });
            node.transport.receive(Instant::ZERO, peer.address, &packet, &mut node.memory);
        }
        assert_eq!(node.transport.counters().sent_invalid_request, 1, "{packets:?}");
    }
}

/// A peer that has more READs outstanding than agreed is refused.
#[test]
fn more_reads_than_agreed_are_an_invalid_request() {
    let [mut node, peer] =
        connected(&Config::default(), &Connection { rd_atomic: 2, ..Connection::default() });
    for index in 0..3 {
        let bth = Bth {
            opcode: Opcode::ReadRequest,
            solicited: false,
            migration: true,
            pad: 0,
            partition_key: 0xffff,
            congestion: Congestion::default(),
            destination: node.queue_pair.0,
            acknowledge: true,
            psn: 500 + index,
        };
        let mut packet = Packet::new(bth, &[]);
        packet.reth = Some(Reth { address: 0, rkey: node.keys.rkey, length: 8 });
        assert_eq!(node.transport.counters().sent_invalid_request, 0);
        node.transport.receive(Instant::ZERO, peer.address, &packet, &mut node.memory);
    }
    assert_eq!(node.transport.counters().sent_invalid_request, 1);
}
