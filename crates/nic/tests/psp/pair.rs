//! Two cards on a cable, each with a queue pair and an engine, in plaintext or with PSP.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::{CardConfig, HostCommand, HostEvent, Nic, RdmaDriver, SoftNic, SoftNicConfig};
use weft_service::psp::{Change, Key, Psp};
use weft_time::Instant;
use weft_verbs::{
    AccessFlags, Completion, LocalBuffer, Operation, PathMtu, ProtectionDomain, QueuePairAttributes,
    QueuePairNumber, QueuePairState, ReadyToReceive, ReadyToSend, Region, RegionKeys, RemoteAddress, Target,
    WorkRequest,
};
use weft_waist::{Capabilities, Engine, EngineStatus, Event, Io, Memory, NODES_MAX, NodeId, NodeSet};
use weft_wire::datagram;
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{Endpoint, Flow, emit_roce_frame};
use weft_wire::roce::{self, Bth, Opcode, Packet};

pub const NOW: Instant = Instant::ZERO;
/// The first PSN of both directions.
pub const PSN: u32 = 100;
/// Bytes of the region of each card.
pub const REGION_BYTES: u64 = 4_096;

/// An engine that forwards its host's call to the node whose number is the call's kind.
pub struct Speaker;

impl Engine for Speaker {
    const NEEDS: Capabilities = Capabilities::VERBS;

    fn handle(&mut self, _: Instant, event: Event<'_>, io: &mut Io<'_>) {
        if let Event::Call { message, .. } = event {
            let to = NodeSet::EMPTY.with(NodeId::new(message.kind.into()).unwrap());
            io.effects.send(to, message.kind, &[message.payload]);
        }
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::STARTING
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

pub fn hardware(node: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, node as u8])
}

pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + node as u8)
}

/// The SPI of frames that node `from` sends.
pub const fn spi(from: usize) -> u32 {
    0x100 + from as u32
}

/// The two cards and the cable.
pub struct Pair {
    pub nics: [SoftNic<Speaker>; 2],
    pub numbers: [QueuePairNumber; 2],
    pub keys: [RegionKeys; 2],
    pub completions: [Vec<Completion>; 2],
    /// Number of WRITEs of the first card so far.
    pub writes: u32,
}

impl Pair {
    /// Two cards in plaintext, or with PSP at both ends.
    pub fn new(psp: Option<fn() -> Psp>) -> Self {
        let peers = std::array::from_fn(|node| {
            (node < 2).then(|| SocketAddrV4::new(address(node), datagram::UDP_PORT))
        });
        assert_eq!(peers.len(), NODES_MAX);
        let mut nics = [0, 1].map(|node| {
            let card = CardConfig {
                peers,
                datagram_bytes: 1_432,
                transport: weft_rdma::Config::default(),
                region_bytes: REGION_BYTES as usize,
            };
            let config = SoftNicConfig { hardware: hardware(node), address: address(node), card };
            let mut nic = SoftNic::new(config, vec![(Speaker, Memory::new(64))]);
            nic.add_neighbour(address(1 - node), hardware(1 - node));
            if let Some(psp) = psp {
                nic.set_psp(psp());
                let peer = address(1 - node);
                let [out, inward] = [node, 1 - node].map(|from| (spi(from), Key::Aes256([from as u8; 32])));
                for change in [
                    Change::InstallReceiver { peer, spi: inward.0, key: inward.1 },
                    Change::InstallSender { peer, spi: out.0, key: out.1 },
                ] {
                    nic.submit(NOW, HostCommand::Associate(change));
                }
            }
            nic
        });
        let region = Region {
            domain: ProtectionDomain(0),
            address: 0,
            length: REGION_BYTES,
            access: AccessFlags::ALL,
            target: Target::Hbm,
            write_through: false,
            rpc: None,
        };
        let numbers =
            [0, 1].map(|node: usize| nics[node].create_queue_pair(QueuePairAttributes::default()).unwrap());
        let keys = [0, 1].map(|node: usize| nics[node].register_region(region).unwrap());
        for node in 0..2 {
            let receive = ReadyToReceive {
                destination: address(1 - node).into(),
                destination_qp_num: numbers[1 - node],
                rq_psn: PSN,
                path_mtu: PathMtu::Bytes1024,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 12,
            };
            let send = ReadyToSend { sq_psn: PSN, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 4 };
            nics[node].connect(numbers[node], AccessFlags::ALL, receive, send).unwrap();
        }
        Self { nics, numbers, keys, completions: Default::default(), writes: 0 }
    }

    /// The frames that a card has to send.
    pub fn take(&mut self, node: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut frame = Vec::new();
        while self.nics[node].poll_frame(NOW, &mut frame) {
            all.push(std::mem::take(&mut frame));
        }
        while let Some(event) = self.nics[node].poll_host() {
            if let HostEvent::Completion(completion) = event {
                self.completions[node].push(completion);
            }
        }
        all
    }

    /// Delivers frames until neither card sends any, and returns them with their senders.
    pub fn settle(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            let before = all.len();
            for from in 0..2 {
                for frame in self.take(from) {
                    self.nics[1 - from].receive_frame(NOW, &frame);
                    all.push((from, frame));
                }
            }
            if all.len() == before {
                return all;
            }
        }
    }

    /// The first card posts an operation on the 8 bytes at `at` of both regions.
    pub fn post(&mut self, id: u64, at: u64, operation: impl FnOnce(RemoteAddress) -> Operation) {
        let remote = RemoteAddress { address: at, rkey: self.keys[1].rkey };
        let local = LocalBuffer { address: at, length: 8, lkey: self.keys[0].lkey };
        let request = WorkRequest::new(id, operation(remote), local);
        self.nics[0].submit(NOW, HostCommand::PostSend(self.numbers[0], request));
    }

    /// The first card WRITEs its 8 bytes at `at` to the second card.
    pub fn post_write(&mut self, at: u64) {
        self.writes += 1;
        self.post(self.writes.into(), at, |remote| Operation::Write { remote, immediate: None });
    }

    /// The 8 bytes at `at` of a card's region.
    pub fn memory(&mut self, node: usize, at: u64) -> [u8; 8] {
        self.nics[node].memory().read(Target::Hbm, at, 8).unwrap().try_into().unwrap()
    }

    pub fn store(&mut self, node: usize, at: u64, bytes: [u8; 8]) {
        self.nics[node].memory().write(Target::Hbm, at, &bytes).unwrap();
    }

    pub fn state(&mut self, node: usize) -> QueuePairState {
        self.nics[node].query_queue_pair(self.numbers[node]).unwrap().state
    }

    pub fn count(&self, node: usize, name: &str) -> u64 {
        self.nics[node].counters().iter().find(|(counter, _)| *counter == name).expect("it exists").1
    }

    /// Number of packets that have reached a card's transport or engines, valid or not.
    pub fn reached(&self, node: usize) -> u64 {
        ["roce_received", "roce_malformed", "icrc_errors", "datagrams_received", "datagrams_malformed"]
            .map(|name| self.count(node, name))
            .iter()
            .sum()
    }

    /// A forged frame to card `to` that seems to come from the other card. The adversary knows queue pair,
    /// PSN and keys.
    pub fn forge(&self, to: usize, opcode: Opcode, psn: u32, fill: impl FnOnce(&mut Packet<'_>)) -> Vec<u8> {
        self.forge_with(to, opcode, psn, &[], fill)
    }

    /// A forged frame with a payload.
    pub fn forge_with(
        &self,
        to: usize,
        opcode: Opcode,
        psn: u32,
        payload: &[u8],
        fill: impl FnOnce(&mut Packet<'_>),
    ) -> Vec<u8> {
        let end = |node, port| Endpoint { hardware: hardware(node), address: address(node), port };
        let flow =
            Flow { source: end(1 - to, 0xc123), destination: end(to, roce::UDP_PORT), type_of_service: 0 };
        let bth = Bth {
            opcode,
            solicited: false,
            migration: false,
            pad: 0,
            partition_key: 0xffff,
            congestion: Default::default(),
            destination: self.numbers[to].0,
            acknowledge: opcode.is_request(),
            psn,
        };
        let mut packet = Packet::new(bth, payload);
        fill(&mut packet);
        let mut frame = Vec::new();
        emit_roce_frame(&mut frame, &flow, &packet);
        frame
    }
}
