//! Replies over queue pairs that are reset or destroyed while replies are outstanding: the buffers are freed,
//! and no caller receives another caller's reply.

use std::net::Ipv4Addr;

use weft_nic::{CardConfig, HostCommand, HostEvent, Nic, RdmaDriver, SoftNic, SoftNicConfig};
use weft_time::Instant;
use weft_verbs::{
    AccessFlags, LocalBuffer, Modify, Operation, PathMtu, ProtectionDomain, QueuePairAttributes,
    QueuePairNumber, ReadyToReceive, ReadyToSend, ReceiveRequest, Region, RegionKeys, RemoteAddress, Target,
    WorkRequest,
};
use weft_waist::{Caller, Engine, EngineStatus, Event, Io, Memory, NODES_MAX};
use weft_wire::ethernet::MacAddress;

const NOW: Instant = Instant::ZERO;
/// More replies than a card has buffers.
const ROUNDS: u32 = 700;
/// Kinds of calls: reply at once, defer the reply, send the deferred reply.
const ANSWER: u32 = 1;
const OWE: u32 = 2;
const PAY: u8 = 3;
/// Address of the client's receive buffer.
const INBOX: u64 = 1_024;

/// An engine that replies at once, or later.
#[derive(Default)]
struct Debtor {
    owed: Vec<Caller>,
}

impl Engine for Debtor {
    fn handle(&mut self, _: Instant, event: Event<'_>, io: &mut Io<'_>) {
        let Event::Call { caller, message, .. } = event else { return };
        if message.kind == PAY {
            self.owed.drain(..).for_each(|caller| io.effects.reply(caller, PAY, &[b"late"]));
        } else if u32::from(message.kind) == OWE {
            self.owed.push(caller);
        } else {
            io.effects.reply(caller, message.kind, &[b"soon"]);
        }
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::STARTING
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A client, a server, and a queue pair between them.
struct Pair {
    nics: [SoftNic<Debtor>; 2],
    numbers: [QueuePairNumber; 2],
    local: RegionKeys,
    remote: RegionKeys,
}

fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + node as u8)
}

fn hardware(node: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, node as u8])
}

impl Pair {
    fn new() -> Self {
        let nic = |node| {
            let card = CardConfig {
                peers: [None; NODES_MAX],
                datagram_bytes: 1_472,
                transport: weft_rdma::Config::default(),
                region_bytes: 1 << 16,
            };
            let config = SoftNicConfig { hardware: hardware(node), address: address(node), card };
            let mut nic = SoftNic::new(config, vec![(Debtor::default(), Memory::new(0))]);
            nic.add_neighbour(address(1 - node), hardware(1 - node));
            nic
        };
        let mut nics = [nic(0), nic(1)];
        let local = nics[0].register_region(Region::host(0, 4_096, AccessFlags::LOCAL_WRITE)).unwrap();
        let calls = Region {
            domain: ProtectionDomain(0),
            address: 0,
            length: 64,
            access: AccessFlags::REMOTE_WRITE,
            target: Target::OnChip,
            write_through: false,
            rpc: Some(0),
        };
        let remote = nics[1].register_region(calls).unwrap();
        let numbers =
            nics.each_mut().map(|nic| nic.create_queue_pair(QueuePairAttributes::default()).unwrap());
        let mut pair = Self { nics, numbers, local, remote };
        pair.connect();
        pair
    }

    /// Takes the queue pairs of both ends from RESET to RTS.
    fn connect(&mut self) {
        for node in 0..2 {
            let receive = ReadyToReceive {
                destination: address(1 - node).into(),
                destination_qp_num: self.numbers[1 - node],
                rq_psn: 0,
                path_mtu: PathMtu::Bytes1024,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 12,
            };
            let send = ReadyToSend { sq_psn: 0, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 4 };
            self.nics[node].connect(self.numbers[node], AccessFlags::REMOTE_WRITE, receive, send).unwrap();
        }
    }

    /// Resets the queue pairs of both ends and connects them again.
    fn reset(&mut self) {
        for (nic, number) in self.nics.iter_mut().zip(self.numbers) {
            nic.modify_queue_pair(number, Modify::Reset).unwrap();
        }
        self.connect();
    }

    /// Replaces the queue pairs of both ends by new ones.
    fn replace(&mut self) {
        for (nic, number) in self.nics.iter_mut().zip(&mut self.numbers) {
            nic.destroy_queue_pair(*number).unwrap();
            *number = nic.create_queue_pair(QueuePairAttributes::default()).unwrap();
        }
        self.connect();
    }

    /// The client calls; frames of the server are not delivered yet.
    fn call(&mut self, kind: u32) {
        let receive = ReceiveRequest {
            id: 1,
            local: LocalBuffer { address: INBOX, length: 64, lkey: self.local.lkey },
        };
        self.nics[0].submit(NOW, HostCommand::PostReceive(self.numbers[0], receive));
        let write = Operation::Write {
            remote: RemoteAddress { address: 0, rkey: self.remote.rkey },
            immediate: Some(kind),
        };
        let nothing = LocalBuffer { address: 0, length: 0, lkey: self.local.lkey };
        self.nics[0].submit(NOW, HostCommand::PostSend(self.numbers[0], WorkRequest::new(2, write, nothing)));
        self.carry(0);
    }

    /// The server's engine sends its deferred replies.
    fn pay(&mut self) {
        self.nics[1].submit(NOW, HostCommand::Call { engine: 0, token: 1, kind: PAY, payload: &[] });
    }

    /// Delivers the frames of node `from` to the other node.
    fn carry(&mut self, from: usize) {
        let mut frame = Vec::new();
        while self.nics[from].poll_frame(NOW, &mut frame) {
            self.nics[1 - from].receive_frame(NOW, &frame);
            frame.clear();
        }
    }

    /// The first word and the content of the reply that the client gets, if any.
    fn answer(&mut self) -> Option<(u8, Vec<u8>)> {
        (0..4).for_each(|turn| self.carry(1 - turn % 2));
        let mut received = None;
        while let Some(event) = self.nics[0].poll_host() {
            if let HostEvent::Completion(completion) = event
                && completion.id == 1
            {
                let memory = self.nics[0].memory();
                let bytes = memory.read(Target::Host, INBOX, completion.bytes as usize).unwrap();
                received = Some((bytes[7], bytes[8..].to_vec()));
            }
        }
        received
    }

    fn counter(&self, name: &str) -> u64 {
        self.nics[1].counters().iter().find(|(counter, _)| *counter == name).expect("a counter").1
    }
}

/// Each round ends with a reply that was never acknowledged.
fn lives(mut end: impl FnMut(&mut Pair)) {
    let mut pair = Pair::new();
    for _ in 0..ROUNDS {
        pair.call(ANSWER);
        end(&mut pair);
    }
    assert_eq!(pair.counter("replies_without_buffer"), 0);
    pair.call(ANSWER);
    assert_eq!(pair.answer(), Some((ANSWER as u8, b"soon".to_vec())));
}

#[test]
fn a_reset_gives_the_buffers_of_answers_back() {
    lives(Pair::reset);
}

#[test]
fn a_queue_pair_that_is_destroyed_gives_the_buffers_of_answers_back() {
    lives(Pair::replace);
}

#[test]
fn buffers_of_answers_that_are_on_their_way_stay_lent() {
    let mut pair = Pair::new();
    for round in 0..64 {
        pair.call(ANSWER);
        // Every second reply arrives, after the next call.
        if round % 2 == 1 {
            assert_eq!(pair.answer(), Some((ANSWER as u8, b"soon".to_vec())));
        }
    }
    assert_eq!(pair.counter("replies_without_buffer") + pair.counter("replies_refused"), 0);
}

#[test]
fn an_answer_that_is_owed_to_an_earlier_connection_is_refused() {
    for end in [Pair::reset, Pair::replace] {
        let mut pair = Pair::new();
        pair.call(OWE);
        end(&mut pair);
        pair.pay();
        assert_eq!((pair.answer(), pair.counter("replies_refused")), (None, 1));
        // The new caller receives its reply.
        pair.call(OWE);
        pair.pay();
        assert_eq!(pair.answer(), Some((PAY, b"late".to_vec())));
    }
}
