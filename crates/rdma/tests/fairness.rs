//! Queue pairs share the wire fairly, and responses and requests do not starve each other.

use std::net::Ipv4Addr;

use crate::common::{Connection, MEMORY_BYTES, connect};
use weft_rdma::{Config, FlatMemory, Transport};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, LocalBuffer, Operation, PathMtu, QueuePairAttributes, QueuePairNumber, Region, RegionKeys,
    RemoteAddress, WorkRequest,
};
use weft_wire::roce::{Opcode, Packet};

const QUEUE_PAIRS: usize = 500;

struct End {
    transport: Transport,
    memory: FlatMemory,
    address: Ipv4Addr,
    keys: RegionKeys,
    queue_pairs: Vec<QueuePairNumber>,
}

/// Two NICs with 500 connections between them.
fn ends() -> [End; 2] {
    ends_with(Config::default())
}

fn ends_with(config: Config) -> [End; 2] {
    let mut ends = [1, 2].map(|name| {
        let mut transport = Transport::new(config.clone());
        let keys = transport.register_region(Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL)).unwrap();
        let attributes = QueuePairAttributes { max_send_wr: 16, max_recv_wr: 1, ..Default::default() };
        let queue_pairs =
            (0..QUEUE_PAIRS).map(|_| transport.create_queue_pair(attributes).unwrap()).collect();
        let memory = FlatMemory::new(MEMORY_BYTES);
        End { transport, memory, address: Ipv4Addr::new(10, 0, 0, name), keys, queue_pairs }
    });
    let with = Connection { path_mtu: PathMtu::Bytes1024, timeout: 14, ..Connection::default() };
    for index in 0..QUEUE_PAIRS {
        let [one, other] = [0, 1].map(|side| (ends[side].address, ends[side].queue_pairs[index]));
        connect(&mut ends[0].transport, one.1, other, 0, 0, &with);
        connect(&mut ends[1].transport, other.1, one, 0, 0, &with);
    }
    ends
}

fn post(end: &mut End, peer: RegionKeys, index: usize, now: Instant, read: bool, length: u32) {
    let remote = RemoteAddress { address: 0, rkey: peer.rkey };
    let operation =
        if read { Operation::Read { remote } } else { Operation::Write { remote, immediate: None } };
    let local = LocalBuffer { address: 0x1_0000, length, lkey: end.keys.lkey };
    let request = WorkRequest::new(index as u64, operation, local);
    end.transport.post_send(now, end.queue_pairs[index], request).unwrap();
}

/// Sends one packet from `ends[side]`, if it has one. Returns its queue pair and its opcode.
fn step(ends: &mut [End; 2], side: usize, now: Instant) -> Option<(QueuePairNumber, Opcode)> {
    let mut out = Vec::new();
    let end = &mut ends[side];
    let transmit = end.transport.poll_transmit(now, &mut end.memory, &mut out)?;
    let source = end.address;
    let packet = Packet::parse(&out).unwrap();
    let peer = &mut ends[1 - side];
    peer.transport.receive(now, source, &packet, &mut peer.memory);
    Some((transmit.queue_pair, packet.bth.opcode))
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one of n has everything.
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// 32 of 500 queue pairs always have messages of 1 to 16 packets queued; some have many more messages than
/// others. In each step the wire takes one packet.
#[test]
fn thirty_two_busy_of_five_hundred_share_the_wire_evenly() {
    let mut ends = ends();
    let keys = ends[1].keys;
    let busy: Vec<usize> = (0..32).map(|index| index * 15 + 7).collect();
    let mut shares = vec![0; QUEUE_PAIRS];
    let mut now = Instant::ZERO;
    for (place, &index) in busy.iter().enumerate() {
        for _ in 0..1 + place % 8 {
            post(&mut ends[0], keys, index, now, false, 1_024 * (1 + place as u32 % 16));
        }
    }
    for _ in 0..20_000 {
        now += Duration::from_ns(100);
        let (number, _) = step(&mut ends, 0, now).expect("there is always something to send");
        shares[ends[0].queue_pairs.iter().position(|&other| other == number).unwrap()] += 1;
        while step(&mut ends, 1, now).is_some() {}
        while let Some(completion) = ends[0].transport.poll_completion() {
            let place = busy.iter().position(|&index| index as u64 == completion.id).unwrap();
            post(&mut ends[0], keys, busy[place], now, false, 1_024 * (1 + place as u32 % 16));
        }
    }
    let shares: Vec<u64> = busy.iter().map(|&index| shares[index]).collect();
    assert!(jain(&shares) >= 0.99, "{} {shares:?}", jain(&shares));
}

/// A turn ends after a burst, before and after the first packet of a longer message, or if the queue pair has
/// no more packets. Posts and acknowledgements during a turn do not put the queue pair into the list twice.
#[test]
fn a_turn_may_have_several_packets() {
    let mut ends = ends_with(Config { burst_packets: 4, ..Config::default() });
    let keys = ends[1].keys;
    for (index, packets) in [(0, 6), (1, 6), (2, 3)] {
        post(&mut ends[0], keys, index, Instant::ZERO, false, 1_024 * packets);
    }
    let mut order = Vec::new();
    while let Some((number, _)) = step(&mut ends, 0, Instant::ZERO) {
        let index = ends[0].queue_pairs.iter().position(|&other| other == number).unwrap();
        order.push(index);
        if order.len() == 2 {
            post(&mut ends[0], keys, index, Instant::ZERO, false, 1_024);
        }
        while step(&mut ends, 1, Instant::ZERO).is_some() {}
    }
    assert_eq!(order, [0, 1, 2, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 0, 1, 1]);
    assert_eq!(std::iter::from_fn(|| ends[0].transport.poll_completion()).count(), 4);
}

/// On one connection both ends READ and WRITE continuously. Both kinds of packets get their share of the
/// wire.
#[test]
fn responses_and_requests_of_one_queue_pair_take_turns() {
    let mut ends = ends();
    let keys = [ends[0].keys, ends[1].keys];
    let mut now = Instant::ZERO;
    let (mut responses, mut requests) = (0, 0);
    for index in [0, 0, 0, 0] {
        post(&mut ends[1], keys[0], index, now, true, 16_384);
        post(&mut ends[0], keys[1], index, now, false, 16_384);
    }
    for _ in 0..2_000 {
        now += Duration::from_ns(100);
        if let Some((_, opcode)) = step(&mut ends, 0, now) {
            if opcode.is_response() { responses += 1 } else { requests += 1 }
        }
        step(&mut ends, 1, now);
        for side in 0..2 {
            while ends[side].transport.poll_completion().is_some() {
                post(&mut ends[side], keys[1 - side], 0, now, side == 1, 16_384);
            }
        }
    }
    assert!(responses > 800 && requests > 800, "{responses} responses, {requests} requests");
}
