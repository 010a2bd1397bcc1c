//! The answers of a responder, packet by packet: one response for each READ or atomic that it keeps, and one
//! acknowledgement.

use crate::common::{Connection, Node, connected};
use weft_rdma::Config;
use weft_time::Instant;
use weft_verbs::{AccessFlags, QueuePairState, Target};
use weft_wire::roce::{AtomicEth, Bth, Congestion, NakCode, Opcode, Packet, Reth, Syndrome};

/// The requester's first PSN, and the path MTU.
const FIRST: u32 = 500;
const MTU: u32 = 256;

/// A responder; the tests play its peer.
struct Responder {
    node: Node,
    peer: Node,
}

/// An answer: its opcode, its PSN, and the code of a NAK.
type Answer = (Opcode, u32, Option<NakCode>);

impl Responder {
    fn new(rd_atomic: u8) -> Self {
        let [node, peer] = connected(&Config::default(), &Connection { rd_atomic, ..Connection::default() });
        Self { node, peer }
    }

    fn take(&mut self, opcode: Opcode, psn: u32, fill: impl FnOnce(&mut Packet<'_>, u32)) {
        let bth = Bth {
            opcode,
            solicited: false,
            migration: true,
            pad: 0,
            partition_key: 0xffff,
            congestion: Congestion::default(),
            destination: self.node.queue_pair.0,
            acknowledge: true,
            psn,
        };
        let mut packet = Packet::new(bth, &[]);
        fill(&mut packet, self.node.keys.rkey);
        let source = self.peer.address;
        self.node.transport.receive(Instant::ZERO, source, &packet, &mut self.node.memory);
    }

    /// Sends a WRITE of no bytes.
    fn write(&mut self, psn: u32) {
        let reth = |rkey| Reth { address: 0, rkey, length: 0 };
        self.take(Opcode::WriteOnly, psn, |packet, rkey| packet.reth = Some(reth(rkey)));
    }

    /// Sends a READ request for the packets from number `from` to the end of a READ of `packets` packets,
    /// whose first PSN is `psn`.
    fn read(&mut self, psn: u32, packets: u32, from: u32) {
        let reth = |rkey| Reth { address: u64::from(from * MTU), rkey, length: (packets - from) * MTU };
        self.take(Opcode::ReadRequest, psn + from, |packet, rkey| packet.reth = Some(reth(rkey)));
    }

    fn add(&mut self, psn: u32) {
        let atomic = |rkey| AtomicEth { address: 0, rkey, swap_or_add: 1, compare: 0 };
        self.take(Opcode::FetchAdd, psn, |packet, rkey| packet.atomic = Some(atomic(rkey)));
    }

    /// The next answers, at most `limit`.
    fn answers(&mut self, limit: usize) -> Vec<Answer> {
        let Node { transport, memory, .. } = &mut self.node;
        let answer = || {
            let mut bytes = Vec::new();
            transport.poll_transmit(Instant::ZERO, memory, &mut bytes)?;
            let packet = Packet::parse(&bytes).unwrap();
            let nak = packet.aeth.and_then(|aeth| match aeth.syndrome {
                Syndrome::Nak(code) => Some(code),
                _ => None,
            });
            Some((packet.bth.opcode, packet.bth.psn, nak))
        };
        std::iter::from_fn(answer).take(limit).collect()
    }

    fn state(&self) -> QueuePairState {
        self.node.transport.query_queue_pair(self.node.queue_pair).unwrap().state
    }

    fn revoke(&mut self) {
        self.node.transport.modify_region(self.node.keys, AccessFlags::NONE).unwrap();
    }
}

use Opcode::{
    Acknowledge, AtomicAcknowledge, ReadResponseFirst, ReadResponseLast, ReadResponseMiddle, ReadResponseOnly,
};

#[test]
fn a_duplicate_takes_the_place_of_the_response_under_way() {
    let mut responder = Responder::new(2);
    responder.read(FIRST, 4, 0);
    assert_eq!(
        responder.answers(2),
        [(ReadResponseFirst, FIRST, None), (ReadResponseMiddle, FIRST + 1, None)]
    );
    responder.read(FIRST, 4, 1);
    responder.read(FIRST, 4, 2);
    assert_eq!(
        responder.answers(9),
        [(ReadResponseFirst, FIRST + 2, None), (ReadResponseLast, FIRST + 3, None)]
    );
}

#[test]
fn a_response_to_an_older_request_overtakes_a_later_one_which_then_goes_on() {
    let mut responder = Responder::new(4);
    responder.read(FIRST, 2, 0);
    responder.add(FIRST + 2);
    responder.read(FIRST + 3, 3, 0);
    assert_eq!(responder.answers(4).last(), Some(&(ReadResponseFirst, FIRST + 3, None)));
    responder.add(FIRST + 2);
    responder.read(FIRST, 2, 1);
    let expected = [
        (ReadResponseOnly, FIRST + 1, None),
        (AtomicAcknowledge, FIRST + 2, None),
        (ReadResponseMiddle, FIRST + 4, None),
        (ReadResponseLast, FIRST + 5, None),
    ];
    assert_eq!(responder.answers(9), expected);
    assert_eq!(responder.node.memory.image(Target::Host)[0], 1, "a duplicate atomic is not carried out");
}

#[test]
fn a_fresh_request_takes_the_place_of_a_duplicate_that_waits() {
    let mut responder = Responder::new(1);
    responder.read(FIRST, 2, 0);
    responder.answers(2);
    responder.read(FIRST, 2, 0);
    assert_eq!(responder.answers(1), [(ReadResponseFirst, FIRST, None)]);
    responder.add(FIRST + 2);
    assert_eq!(responder.answers(9), [(AtomicAcknowledge, FIRST + 2, None)]);
    // Duplicates of it find no kept request.
    responder.read(FIRST, 2, 0);
    assert_eq!(responder.answers(9), []);
    assert_eq!(responder.node.transport.counters().drop_unknown_duplicate, 1);
}

#[test]
fn asking_again_makes_no_room_for_further_requests() {
    let mut responder = Responder::new(1);
    responder.read(FIRST, 2, 0);
    responder.answers(1);
    responder.read(FIRST, 2, 1);
    responder.add(FIRST + 2);
    assert_eq!(responder.node.transport.counters().sent_invalid_request, 1);
    assert_eq!(responder.state(), QueuePairState::Error);
}

#[test]
fn only_a_response_that_was_never_complete_fails_the_connection() {
    let mut responder = Responder::new(2);
    responder.read(FIRST, 2, 0);
    responder.read(FIRST + 2, 1, 0);
    responder.answers(2);
    responder.read(FIRST, 2, 1);
    responder.revoke();
    let refusal = (Acknowledge, FIRST + 1, Some(NakCode::RemoteAccessError));
    let refusal_of_the_fresh = (Acknowledge, FIRST + 2, Some(NakCode::RemoteAccessError));
    // The refusal of the duplicate is replaced by that of the new READ after it.
    assert_eq!(responder.answers(9), [refusal_of_the_fresh]);
    assert_eq!(responder.state(), QueuePairState::Error);
    assert_eq!(responder.node.transport.counters().sent_access_error, 2);

    let mut responder = Responder::new(2);
    responder.read(FIRST, 2, 0);
    responder.answers(2);
    responder.read(FIRST, 2, 1);
    responder.revoke();
    assert_eq!(responder.answers(9), [refusal]);
    assert_eq!(responder.state(), QueuePairState::ReadyToSend);

    let mut responder = Responder::new(2);
    responder.read(FIRST, 2, 0);
    responder.answers(1);
    responder.read(FIRST, 2, 1);
    responder.revoke();
    assert_eq!(responder.answers(9), [refusal]);
    assert_eq!(responder.state(), QueuePairState::Error);
}

/// Each line: the WRITEs (W), READs (R) and atomics (A) that arrive, in the order of their PSNs; the indices of
/// those that arrive again; and for each answer to these duplicates, the index of the request whose PSN it has.
#[test]
fn a_duplicate_is_acknowledged_up_to_the_next_read_or_atomic() {
    let cases: [(&str, &[u32], &[u32]); 9] = [
        ("WR", &[0], &[0]),
        ("WA", &[0], &[0]),
        ("WWRW", &[0], &[1]),
        ("WWRW", &[1], &[1]),
        ("WRWA", &[2], &[2]),
        ("WRWA", &[0], &[0]),
        // Two acknowledgements are merged into one, with the higher PSN.
        ("WRWA", &[0, 2], &[2]),
        ("WRWA", &[2, 0], &[2]),
        // The response is sent first.
        ("WRW", &[0, 1], &[1, 0]),
    ];
    for (requests, again, expected) in cases {
        let mut responder = Responder::new(4);
        let send = |responder: &mut Responder, index: u32| match requests.as_bytes()[index as usize] {
            b'W' => responder.write(FIRST + index),
            b'R' => responder.read(FIRST + index, 1, 0),
            _ => responder.add(FIRST + index),
        };
        (0..requests.len() as u32).for_each(|index| send(&mut responder, index));
        responder.answers(9);
        again.iter().for_each(|&index| send(&mut responder, index));
        let psns: Vec<u32> = responder.answers(9).iter().map(|&(_, psn, _)| psn - FIRST).collect();
        assert_eq!(psns, expected, "{requests}, {again:?} again");
    }
}

#[test]
fn the_acknowledgement_that_waits_becomes_that_of_the_latest_request() {
    let mut responder = Responder::new(4);
    responder.write(FIRST);
    responder.read(FIRST + 1, 1, 0);
    responder.answers(9);
    // A new WRITE advances the acknowledgement past the READ, and a duplicate does not move it back.
    responder.write(FIRST);
    responder.write(FIRST + 2);
    responder.write(FIRST);
    assert_eq!(responder.answers(9), [(Acknowledge, FIRST + 2, None)]);
    // A new READ replaces the acknowledgement.
    responder.write(FIRST);
    responder.read(FIRST + 3, 1, 0);
    assert_eq!(responder.answers(9), [(ReadResponseOnly, FIRST + 3, None)]);
    // A NAK stays pending.
    responder.write(FIRST + 5);
    responder.write(FIRST);
    assert_eq!(responder.answers(9), [(Acknowledge, FIRST + 4, Some(NakCode::PsnSequenceError))]);
}
