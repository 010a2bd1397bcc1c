//! How requesters and responders handle losses while they are already recovering.

use crate::common::{Connection, Node, connected};
use weft_rdma::{Config, Counters, local_ack_timeout, rnr_timer};
use weft_time::{Duration, Instant};
use weft_verbs::Operation;
use weft_wire::roce::{Aeth, Bth, Congestion, NakCode, Opcode, Packet, Syndrome};

const PSN: u32 = 100;
const MTU: u32 = 256;
const TIMEOUT: u8 = 8;

/// A requester; the tests play its peer.
struct Requester {
    node: Node,
    peer: Node,
    now: Instant,
}

impl Requester {
    /// A requester that has sent a READ of four packets.
    fn reading() -> Self {
        let with = Connection { timeout: TIMEOUT, psn: [PSN, 500], ..Connection::default() };
        let [mut node, peer] = connected(&Config::default(), &with);
        let read = Operation::Read { remote: peer.remote(0) };
        let local = node.local(0, 4 * MTU);
        node.post(Instant::ZERO, 1, read, local);
        let mut requester = Self { node, peer, now: Instant::ZERO };
        assert_eq!(requester.requests(), [PSN]);
        requester
    }

    /// The PSNs of the packets that the requester sends.
    fn requests(&mut self) -> Vec<u32> {
        let Node { transport, memory, .. } = &mut self.node;
        let mut bytes = Vec::new();
        let mut request = || {
            bytes.clear();
            transport.poll_transmit(self.now, memory, &mut bytes)?;
            Some(Packet::parse(&bytes).unwrap().bth.psn)
        };
        std::iter::from_fn(&mut request).collect()
    }

    fn take(&mut self, opcode: Opcode, psn: u32, syndrome: Syndrome) {
        let bth = Bth {
            opcode,
            solicited: false,
            migration: true,
            pad: 0,
            partition_key: 0xffff,
            congestion: Congestion::default(),
            destination: self.node.queue_pair.0,
            acknowledge: false,
            psn,
        };
        let payload = [0; MTU as usize];
        let is_data = opcode != Opcode::Acknowledge;
        let mut packet = Packet::new(bth, if is_data { &payload } else { &[] });
        packet.aeth = opcode.has_aeth().then_some(Aeth { syndrome, msn: 0 });
        let source = self.peer.address;
        self.node.transport.receive(self.now, source, &packet, &mut self.node.memory);
    }

    fn respond(&mut self, packet: u32) {
        self.take(Opcode::ReadResponseMiddle, PSN + packet, Syndrome::Ack { credits: 31 });
    }

    fn nak(&mut self, psn: u32, syndrome: Syndrome) {
        self.take(Opcode::Acknowledge, psn, syndrome);
    }

    fn pass(&mut self, duration: Duration) {
        self.now += duration;
        self.node.transport.handle_deadline(self.now);
    }

    fn counters(&self) -> &Counters {
        self.node.transport.counters()
    }
}

#[test]
fn a_stale_stream_restarts_the_time_out_and_costs_one_retry() {
    let timeout = local_ack_timeout(TIMEOUT).unwrap();
    let step = Duration::from_us(100);
    let mut requester = Requester::reading();
    requester.respond(1);
    assert_eq!(requester.requests(), [PSN], "an implied NAK");
    for packet in [2, 3] {
        requester.pass(step);
        requester.respond(packet);
        assert_eq!(requester.requests(), []);
        assert_eq!(requester.node.transport.next_deadline(), Some(requester.now + timeout));
    }
    // The repeated request is lost. The responses to the first one arrive late, and the first of them is
    // missing.
    requester.pass(timeout);
    assert_eq!(requester.requests(), [PSN]);
    for packet in 1..4 {
        requester.pass(step);
        requester.respond(packet);
        assert_eq!(requester.requests(), []);
    }
    assert_eq!(requester.counters().completer_retry_err, 2);
    assert_eq!(requester.counters().implied_nak_seq_err, 1);
    // The loss of another response is a new gap.
    requester.respond(0);
    requester.respond(2);
    assert_eq!(requester.requests(), [PSN + 1]);
    assert_eq!(requester.counters().implied_nak_seq_err, 2);
}

#[test]
fn a_time_out_before_the_read_counts_as_going_back_for_its_response() {
    let mut requester = Requester::reading();
    (0..4).for_each(|packet| requester.respond(packet));
    let (write, local) =
        (Operation::Write { remote: requester.peer.remote(0), immediate: None }, requester.node.local(0, 8));
    requester.node.post(requester.now, 2, write, local);
    let (read, local) =
        (Operation::Read { remote: requester.peer.remote(0) }, requester.node.local(0, 2 * MTU));
    requester.node.post(requester.now, 3, read, local);
    assert_eq!(requester.requests(), [PSN + 4, PSN + 5]);
    requester.pass(local_ack_timeout(TIMEOUT).unwrap());
    assert_eq!(requester.requests(), [PSN + 4, PSN + 5]);
    requester.respond(6);
    assert_eq!(requester.requests(), []);
    assert_eq!(requester.counters().implied_nak_seq_err, 0);
}

#[test]
fn nothing_but_its_end_or_progress_ends_the_wait_for_a_receiver() {
    let mut requester = Requester::reading();
    requester.nak(PSN, Syndrome::RnrNak { timer: 12 });
    let end = requester.now + rnr_timer(12);
    requester.pass(Duration::from_us(100));
    requester.nak(PSN, Syndrome::Nak(NakCode::PsnSequenceError));
    requester.respond(1);
    assert_eq!(requester.requests(), []);
    assert_eq!(requester.node.transport.next_deadline(), Some(end));
    assert_eq!(requester.counters().rcvd_seq_err, 1);
    assert_eq!(requester.counters().implied_nak_seq_err, 0);
    assert_eq!(requester.counters().completer_retry_err, 1, "for the receiver");
    // The first response is progress, so the gap after it is a new one.
    requester.respond(0);
    requester.nak(PSN + 1, Syndrome::Nak(NakCode::PsnSequenceError));
    assert_eq!(requester.requests(), [PSN + 1]);
    assert_eq!(requester.counters().completer_retry_err, 2);
}

/// The packets that the node sends now.
fn sent(node: &mut Node) -> Vec<Vec<u8>> {
    let one = || {
        let mut bytes = Vec::new();
        node.transport.poll_transmit(Instant::ZERO, &mut node.memory, &mut bytes).map(|_| bytes)
    };
    std::iter::from_fn(one).collect()
}

/// The responder has a place for one packet. Once the first gap is filled, it reports the next one, and the requester
/// goes back for it. While all comes again, there is nothing to report.
#[test]
fn what_was_not_kept_is_reported_once() {
    let with = Connection { timeout: TIMEOUT, psn: [PSN, 500], ..Connection::default() };
    let [mut requester, mut responder] =
        connected(&Config { reorder_packets: 1, ..Config::default() }, &with);
    let write = Operation::Write { remote: responder.remote(0), immediate: None };
    let local = requester.local(0, 6 * MTU);
    requester.post(Instant::ZERO, 1, write, local);
    let requests = sent(&mut requester);
    assert_eq!(requests.len(), 6);
    let mut answers = |request: usize| -> Vec<(u32, Syndrome, bool)> {
        let packet = Packet::parse(&requests[request]).unwrap();
        responder.transport.receive(Instant::ZERO, requester.address, &packet, &mut responder.memory);
        let answers = sent(&mut responder);
        let answers = answers.iter().map(|bytes| Packet::parse(bytes).unwrap());
        answers
            .map(|answer| (answer.bth.psn - PSN, answer.aeth.unwrap().syndrome, answer.bth.acknowledge))
            .collect()
    };
    let gap = Syndrome::Nak(NakCode::PsnSequenceError);
    assert_eq!(answers(1), [(0, gap, true)]);
    (2..6).for_each(|request| assert_eq!(answers(request), []));
    assert_eq!(answers(0), [(2, gap, false)]);
    (2..5).for_each(|request| assert_eq!(answers(request), []));
    assert_eq!(answers(5), [(5, Syndrome::Ack { credits: 31 }, false)]);
}
