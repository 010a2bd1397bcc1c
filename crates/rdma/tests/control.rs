//! Control of queue pairs by their users: states, attributes, limits, errors, congestion marks.

use crate::common::{Connection, Node, connect, connected};
use weft_rdma::{AdditiveIncrease, Config, source_port};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, ApiError, CompletionStatus, Modify, Operation, QueuePairAttributes, QueuePairNumber,
    QueuePairState, ReceiveRequest, WorkRequest,
};
use weft_wire::roce::{Congestion, Packet};

const NOW: Instant = Instant::ZERO;

fn write(peer: &Node) -> Operation {
    Operation::Write { remote: peer.remote(0x2000), immediate: None }
}

/// Delivers all packets in both directions. `mark` decides which packets a switch marks.
fn exchange(nodes: &mut [Node; 2], now: Instant, mark: impl Fn(&mut Packet<'_>) -> bool) {
    loop {
        let mut quiet = true;
        for side in 0..2 {
            let mut out = Vec::new();
            let node = &mut nodes[side];
            if node.transport.poll_transmit(now, &mut node.memory, &mut out).is_none() {
                continue;
            }
            quiet = false;
            let source = node.address;
            let mut packet = Packet::parse(&out).unwrap();
            let marked = mark(&mut packet);
            let peer = &mut nodes[1 - side];
            peer.transport.receive_marked(now, source, &packet, marked, &mut peer.memory);
        }
        if quiet {
            return;
        }
    }
}

#[test]
fn only_the_transitions_of_verbs_are_legal() {
    let mut node = Node::new(1, Config::default());
    let number = node.queue_pair;
    let state = |node: &Node| node.transport.query_queue_pair(number).unwrap().state;
    let wrong = |state| Err(ApiError::WrongState { queue_pair: number, state });
    let init = Modify::Init { access: AccessFlags::NONE };
    let local = node.local(0, 8);

    assert_eq!(
        node.transport.modify_queue_pair(number, Modify::Access(AccessFlags::ALL)),
        wrong(QueuePairState::Reset)
    );
    let receive = ReceiveRequest { id: 0, local };
    assert_eq!(node.transport.post_receive(number, receive), wrong(QueuePairState::Reset));
    node.transport.modify_queue_pair(number, init).unwrap();
    node.transport.modify_queue_pair(number, init).unwrap();
    node.transport.post_receive(number, receive).unwrap();
    let request = WorkRequest::new(1, Operation::Send { immediate: None }, local);
    assert_eq!(node.transport.post_send(NOW, number, request), wrong(QueuePairState::Init));
    node.transport.modify_queue_pair(number, Modify::Error).unwrap();
    assert_eq!(state(&node), QueuePairState::Error);
    assert_eq!(node.completions()[0].status, CompletionStatus::WorkRequestFlushed);
    assert_eq!(node.transport.modify_queue_pair(number, init), wrong(QueuePairState::Error));
    node.transport.modify_queue_pair(number, Modify::Reset).unwrap();
    let peer = ([10, 0, 0, 2].into(), number);
    connect(&mut node.transport, number, peer, 0, 0, &Connection::default());
    assert_eq!(state(&node), QueuePairState::ReadyToSend);
    assert_eq!(node.transport.modify_queue_pair(number, init), wrong(QueuePairState::ReadyToSend));
}

#[test]
fn attributes_out_of_range_are_refused_by_name() {
    let mut node = Node::new(1, Config::default());
    let attributes = QueuePairAttributes { max_send_wr: 1 << 20, ..Default::default() };
    let error = node.transport.create_queue_pair(attributes).unwrap_err();
    assert_eq!(error.to_string(), "max_send_wr is 1048576, which exceeds 4096");
    node.transport.modify_queue_pair(node.queue_pair, Modify::Init { access: AccessFlags::NONE }).unwrap();
    let path = weft_verbs::ReadyToReceive {
        destination: [10, 0, 0, 2].into(),
        destination_qp_num: node.queue_pair,
        rq_psn: 1 << 24,
        path_mtu: weft_verbs::PathMtu::Bytes1024,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 0,
    };
    let error = node.transport.modify_queue_pair(node.queue_pair, Modify::ReadyToReceive(path)).unwrap_err();
    assert_eq!(
        error,
        ApiError::AttributeOutOfRange { attribute: "rq_psn", value: 1 << 24, limit: (1 << 24) - 1 }
    );
}

#[test]
fn five_hundred_and_twelve_queue_pairs_fit() {
    let mut node = Node::new(1, Config::default());
    for _ in 1..512 {
        node.transport.create_queue_pair(QueuePairAttributes::default()).unwrap();
    }
    assert_eq!(
        node.transport.create_queue_pair(QueuePairAttributes::default()),
        Err(ApiError::TooManyQueuePairs(512))
    );
}

#[test]
fn what_cannot_be_carried_out_or_kept_is_refused_and_changes_nothing() {
    let config = Config { completion_queue_depth: 3, ..Config::default() };
    let [mut node, peer] = connected(&config, &Connection { rd_atomic: 0, ..Connection::default() });
    let number = node.queue_pair;
    let local = node.local(0, 16);
    let add = WorkRequest::new(0, Operation::FetchAdd { remote: peer.remote(0), add: 1 }, local);
    assert_eq!(node.transport.post_send(NOW, number, add), Err(ApiError::AtomicLength(16)));
    let read = WorkRequest::new(0, Operation::Read { remote: peer.remote(0) }, local);
    assert_eq!(node.transport.post_send(NOW, number, read), Err(ApiError::NoReadResources));
    let request = WorkRequest::new(0, write(&peer), local);
    for _ in 0..3 {
        node.transport.post_send(NOW, number, request).unwrap();
    }
    assert_eq!(node.transport.post_send(NOW, number, request), Err(ApiError::CompletionQueueFull));
    assert_eq!(node.transport.query_queue_pair(number).unwrap().send_queued, 3);
    // The reserved completion entries are released with the queue pair.
    node.transport.destroy_queue_pair(number).unwrap();
    assert_eq!(node.transport.post_send(NOW, number, request), Err(ApiError::UnknownQueuePair(number)));
    assert!(node.transport.poll_transmit(NOW, &mut node.memory, &mut Vec::new()).is_none());
    assert_eq!(node.transport.next_deadline(), None);

    let small = QueuePairAttributes { max_send_wr: 1, ..Default::default() };
    let number = node.transport.create_queue_pair(small).unwrap();
    connect(&mut node.transport, number, (peer.address, peer.queue_pair), 0, 0, &Connection::default());
    node.transport.post_send(NOW, number, request).unwrap();
    assert_eq!(node.transport.post_send(NOW, number, request), Err(ApiError::QueueFull(1)));
}

/// A queue pair that is destroyed under traffic does not disturb the others, and its number becomes invalid.
#[test]
fn a_queue_pair_can_be_destroyed_under_traffic() {
    let mut nodes =
        connected(&Config::default(), &Connection { timeout: 4, retry_cnt: 1, ..Connection::default() });
    let operation = write(&nodes[1]);
    let local = nodes[0].local(0, 4_000);
    nodes[0].post(NOW, 7, operation, local);
    let number = nodes[1].queue_pair;
    nodes[1].transport.destroy_queue_pair(number).unwrap();
    exchange(&mut nodes, NOW, |_| false);
    assert_eq!(nodes[1].transport.counters().drop_unknown_queue_pair, 16);
    for _ in 0..2 {
        let at = nodes[0].transport.next_deadline().unwrap();
        nodes[0].transport.handle_deadline(at);
        exchange(&mut nodes, at, |_| false);
    }
    assert_eq!(nodes[0].completions()[0].status, CompletionStatus::RetryExceeded);
    assert_eq!(nodes[0].transport.next_deadline(), None);
}

/// If the user requests the ERROR state, all requests complete as flushed: first the send queue, then the
/// receive queue, each in order.
#[test]
fn error_flushes_all_requests_in_order() {
    let [mut node, peer] = connected(&Config::default(), &Connection::default());
    let local = node.local(0, 8);
    for id in 0..3 {
        node.post(NOW, id, write(&peer), local);
        node.transport.post_receive(node.queue_pair, ReceiveRequest { id: 10 + id, local }).unwrap();
    }
    node.transport.modify_queue_pair(node.queue_pair, Modify::Error).unwrap();
    let flushed = node.completions();
    assert_eq!(flushed.iter().map(|completion| completion.id).collect::<Vec<_>>(), [0, 1, 2, 10, 11, 12]);
    assert!(flushed.iter().all(|completion| completion.status == CompletionStatus::WorkRequestFlushed));
    assert!(node.transport.poll_transmit(NOW, &mut node.memory, &mut Vec::new()).is_none());
}

#[test]
fn time_out_code_zero_waits_for_ever() {
    let [mut node, peer] = connected(&Config::default(), &Connection { timeout: 0, ..Connection::default() });
    let local = node.local(0, 8);
    node.post(NOW, 0, write(&peer), local);
    assert!(node.transport.poll_transmit(NOW, &mut node.memory, &mut Vec::new()).is_some());
    assert_eq!(node.transport.next_deadline(), None);
}

/// A mark on a packet returns as a notification, which halves the window. Acknowledged packets increase it
/// again, and a time-out reduces it to one packet. The congestion bits of the base transport header have no
/// effect.
#[test]
fn congestion_marks_and_losses_reach_the_congestion_control() {
    let config =
        Config { window_packets: 32, congestion_control: AdditiveIncrease::boxed, ..Config::default() };
    let mut nodes = connected(&config, &Connection::default());
    let operation = write(&nodes[1]);
    let number = nodes[0].queue_pair;
    let local = nodes[0].local(0, 256);
    let window = |nodes: &[Node; 2]| nodes[0].transport.query_queue_pair(number).unwrap().window;

    nodes[0].post(NOW, 0, operation, local);
    exchange(&mut nodes, NOW, |packet| {
        packet.bth.congestion = Congestion { forward: true, backward: true };
        false
    });
    assert_eq!(window(&nodes), 32);
    assert_eq!(nodes[1].transport.counters().congestion_marks, 0);

    nodes[0].post(NOW, 0, operation, local);
    exchange(&mut nodes, NOW, |packet| packet.bth.opcode.is_request());
    assert_eq!(window(&nodes), 16);
    assert_eq!(nodes[1].transport.counters().congestion_marks, 1);
    assert_eq!(nodes[1].transport.counters().np_cnp_sent, 1);
    assert_eq!(nodes[0].transport.counters().congestion_marks, 1);

    let notification = Packet::congestion_notification(number.0, 0xffff);
    for (source, expected) in [(nodes[1].address, 8), (nodes[0].address, 8)] {
        let node = &mut nodes[0];
        node.transport.receive(NOW, source, &notification, &mut node.memory);
        assert_eq!(window(&nodes), expected, "only the peer can slow a queue pair down");
    }

    let long = nodes[0].local(0, 256 * 20);
    nodes[0].post(NOW, 1, operation, long);
    exchange(&mut nodes, NOW, |_| false);
    assert_eq!(window(&nodes), 10);

    nodes[0].post(NOW, 2, operation, local);
    let mut lost = Vec::new();
    let node = &mut nodes[0];
    node.transport.poll_transmit(NOW, &mut node.memory, &mut lost).unwrap();
    let at = node.transport.next_deadline().unwrap();
    node.transport.handle_deadline(at);
    assert_eq!(window(&nodes), 1);
    exchange(&mut nodes, at + Duration::from_us(1), |_| false);
    assert_eq!(nodes[0].completions().len(), 4);
}

/// A switch with four paths that hashes ports gives each path a fair share of connections, whatever the
/// numbers of the queue pairs are.
#[test]
fn source_ports_spread_over_paths() {
    for (first, step, peer, peer_step) in [(0x11, 1, 0x11, 1), (0x400, 0x200, 0x400, 0x200), (2, 2, 64, 0)] {
        let mut paths = [0u32; 4];
        for index in 0..256 {
            let number = |first: u32, step: u32| QueuePairNumber(first + index * step);
            let port = source_port(number(first, step), number(peer, peer_step));
            assert!(port >= 0xc000);
            paths[usize::from(port % 4)] += 1;
        }
        assert!(
            paths.iter().all(|&path| (40..=96).contains(&path)),
            "{paths:?} from {first:#x} by {step:#x}"
        );
    }
}

/// The UDP source port is constant for a connection and in the dynamic range.
#[test]
fn source_ports_spread_connections_and_stay_with_them() {
    let [mut node, peer] = connected(&Config::default(), &Connection::default());
    let local = node.local(0, 2_000);
    node.post(NOW, 0, write(&peer), local);
    let mut ports = Vec::new();
    let mut out = Vec::new();
    while let Some(transmit) = node.transport.poll_transmit(NOW, &mut node.memory, &mut out) {
        assert_eq!((transmit.destination, transmit.queue_pair), (peer.address.into(), node.queue_pair));
        ports.push(transmit.source_port);
    }
    assert_eq!(ports.len(), 8);
    assert!(ports.iter().all(|&port| port == ports[0] && port >= 0xc000));
}
