//! Calls of the key-value engine by WRITEs into RPC regions, on a node of either kind, with ordinary
//! networking at the same time.
//!
//! A client, whose card is the soft NIC, writes requests into regions of a node over several queue pairs at
//! once, and gets answers as SENDs. Requests of one queue pair are pipelined, and go to the same few
//! addresses, at any alignment, in one packet or more. Some are malformed. Each queue pair has keys of its
//! own, so the correct answer to a request follows from the earlier requests on its queue pair and does not
//! depend on time. Therefore both kinds of node must give the same answers and counts, whatever the wire
//! loses.

use std::collections::{BTreeMap, VecDeque};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_gateware::{EngineConfig, HbmTiming, Latency, MemoryTiming, RtlNic, RtlNicConfig};
use weft_kv::message::{Kind as MessageKind, Reply, Request};
use weft_kv::{Kv, Operation as KvOperation, Parameters, Status};
use weft_nic::{CardConfig, HostCommand, HostEvent, Nic, RdmaDriver, SoftNic, SoftNicConfig};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, Completion, CompletionOpcode, CompletionStatus, LocalBuffer, Operation, PathMtu,
    QueuePairAttributes, QueuePairNumber, ReceiveRequest, Region, RegionKeys, RemoteAddress, Target,
    WorkRequest,
};
use weft_waist::{Configuration, Engine, Epoch, Memory, NODES_MAX, NodeId, NodeSet, View};
use weft_wire::ethernet::{ETHER_TYPE_IPV4, Ethernet};
use weft_wire::frame::{self, Endpoint, Flow as UdpFlow, Frame};
use weft_wire::icmp::{Echo, EchoKind};
use weft_wire::ipv4::{Ipv4, PROTOCOL_ICMP, TIME_TO_LIVE};
use weft_wire::{datagram, roce};

use crate::coverage;
use crate::stage::Connection;
use crate::twin::{self, Kind, MEMORY_BYTES, Options, Twin};

const CLIENT: usize = 0;
const NODE: usize = 1;

/// Size in bytes of an RPC region, and address of the first one.
const REGION_BYTES: u64 = 0x1000;
const REGIONS_AT: u64 = 0x4000;

/// Maximum number of outstanding requests of one queue pair.
const OUTSTANDING: usize = 4;

/// Bytes of the client's host memory for one request or one answer.
const PLACE_BYTES: u64 = 0x800;

/// An engine slot without an engine.
const NOBODY: u8 = 5;

/// Bytes of a key, and number of keys for each queue pair.
const KEY_BYTES: usize = 8;
const KEYS: u64 = 4;

/// Latency of the wire.
const WIRE: Duration = Duration::from_ns(500);

/// Interval between frames of ordinary networking.
const BESIDE_EVERY: Duration = Duration::from_us(2);

/// A UDP port of the client's host.
const CLIENT_PORT: u16 = 6_000;

/// Counters that both kinds have, and that must be equal.
const COUNTERS: [&str; 13] = [
    "rpc_calls",
    "rpc_malformed",
    "messages_without_engine",
    "replies_without_buffer",
    "replies_refused",
    "reads",
    "writes_led",
    "entries_applied",
    "refused_bad_request",
    "refused_busy",
    "dropped_malformed",
    "duplicates_answered",
    "echo_replies",
];

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Seed of all random decisions.
    pub seed: u64,
    /// Number of queue pairs, at most 4.
    pub queue_pairs: usize,
    /// Number of requests on each queue pair.
    pub requests: usize,
    /// RoCE frames of a million that the wire loses.
    pub loss: u32,
}

/// An answer. Its version is replaced by a count: how many different versions the earlier requests of its
/// queue pair have seen. The actual version also depends on the other queue pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the request, given by the client.
    pub request: u64,
    /// Status of the answer.
    pub status: Status,
    /// The count that replaces the version; `None` if there is no version.
    pub version: Option<usize>,
    /// The value, for a get.
    pub value: Vec<u8>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// For each queue pair, the answers in the order of their requests. Answers may arrive in another order:
    /// one from the window may overtake one that needs a table lookup.
    pub answers: Vec<Vec<Answer>>,
    /// Counters of the node, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Numbers of echo replies, frames and datagrams that arrived.
    pub beside: [usize; 3],
}

/// A node with the key-value engine.
#[derive(Debug)]
enum Node {
    Soft(Box<SoftNic<Kv>>),
    Rtl(Box<RtlNic>),
}

impl Node {
    fn new(kind: Kind) -> Self {
        let parameters = Parameters::gateware(256);
        let (hardware, address) = (twin::hardware(NODE), twin::address(NODE));
        let transport = twin::transport();
        let mut node = match kind {
            Kind::Soft => {
                let card = CardConfig {
                    peers: [None; NODES_MAX],
                    datagram_bytes: 1_472,
                    transport,
                    region_bytes: MEMORY_BYTES,
                };
                let engine = (Kv::new(parameters.clone()), Memory::new(parameters.memory_bytes()));
                Self::Soft(Box::new(SoftNic::new(SoftNicConfig { hardware, address, card }, vec![engine])))
            }
            Kind::Rtl => {
                let engine = EngineConfig {
                    needs: Kv::NEEDS,
                    peers: [None; NODES_MAX],
                    buckets: parameters.buckets,
                    retransmit: parameters.retransmit,
                    retransmit_max: parameters.retransmit_max,
                    acknowledge_after_memory: false,
                    planted_bug: 0,
                    memory: MemoryTiming::Hbm(HbmTiming::WIDE_PORT),
                };
                let mut nic = RtlNic::new(&RtlNicConfig {
                    hardware,
                    address,
                    transport,
                    region_bytes: MEMORY_BYTES,
                    bits_per_s: 100_000_000_000,
                    hbm: Latency { read_cycles: 94, write_cycles: 96 },
                    host: Latency { read_cycles: 140, write_cycles: 72 },
                    pressure: None,
                    power_on_seed: 3,
                    psp: None,
                    services: false,
                    engine: Some(engine),
                });
                if coverage::is_on() {
                    nic.watch();
                }
                Self::Rtl(Box::new(nic))
            }
        };
        match &mut node {
            Self::Soft(nic) => nic.add_neighbour(twin::address(CLIENT), twin::hardware(CLIENT)),
            Self::Rtl(nic) => nic.add_neighbour(twin::address(CLIENT), twin::hardware(CLIENT)),
        }
        node
    }

    fn nic(&mut self) -> &mut dyn Nic {
        match self {
            Self::Soft(nic) => &mut **nic,
            Self::Rtl(nic) => &mut **nic,
        }
    }

    fn driver(&mut self) -> &mut dyn RdmaDriver {
        match self {
            Self::Soft(nic) => &mut **nic,
            Self::Rtl(nic) => &mut **nic,
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Self::Rtl(nic) = self
            && coverage::is_on()
        {
            let arcs = nic.look().cloned().unwrap_or_default();
            coverage::note(&nic.events(), &arcs);
        }
    }
}

/// A WRITE into an RPC region.
#[derive(Clone, Debug)]
struct Call {
    slot: u8,
    immediate: Option<u32>,
    bytes: Vec<u8>,
    /// The expected answer, if any, except its version.
    answer: Option<(u64, Status, Vec<u8>)>,
}

/// A queue pair and its client.
#[derive(Debug)]
struct Flow {
    numbers: [QueuePairNumber; 2],
    /// The rkeys of its regions: one that calls the engine, and one for a slot without an engine.
    regions: [(u64, RegionKeys); 2],
    chance: Xoshiro256PlusPlus,
    left: usize,
    writes: usize,
    /// Expected answers, by request.
    awaited: BTreeMap<u64, (Status, Vec<u8>)>,
    next_place: u64,
    next_answer: u64,
    next_request: u64,
    /// The expected contents of the store.
    model: BTreeMap<u64, Vec<u8>>,
    /// Status, version and value of the answers received, by request.
    answers: BTreeMap<u64, (Status, u64, Vec<u8>)>,
}

struct World {
    client: Twin,
    node: Node,
    keys: RegionKeys,
    flows: Vec<Flow>,
    chance: Xoshiro256PlusPlus,
    loss: u32,
    now: Instant,
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    /// Ordinary networking: numbers of frames sent, and of frames answered or arrived.
    sent: [usize; 3],
    beside: [usize; 3],
    to_send: usize,
    next_beside: Instant,
    /// Frames of the client that must reach the node's host, in order.
    ordinary: VecDeque<Vec<u8>>,
}

fn below(chance: &mut Xoshiro256PlusPlus, limit: u64) -> u64 {
    chance.next_u64() % limit
}

fn noise(chance: &mut Xoshiro256PlusPlus, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|_| chance.next_u64() as u8).collect()
}

/// Puts the operation into the immediate value, or in front of the payload.
fn named(chance: &mut Xoshiro256PlusPlus, kind: u8, payload: &[u8]) -> (Option<u32>, Vec<u8>) {
    if below(chance, 2) == 0 {
        (Some(kind.into()), payload.to_vec())
    } else {
        (None, [&u64::from(kind).to_be_bytes()[..], payload].concat())
    }
}

impl Flow {
    /// The next WRITE: a request, or sometimes a malformed one.
    fn next(&mut self, index: usize) -> Call {
        let chance = &mut self.chance;
        let request_kind = MessageKind::Request as u8;
        let mut call = Call { slot: 0, immediate: None, bytes: Vec::new(), answer: None };
        match below(chance, 20) {
            // No word that names an operation, or an invalid one.
            0 => {
                call.bytes = {
                    let length = below(chance, 8);
                    noise(chance, length)
                }
            }
            1 => (call.immediate, call.bytes) = (Some(0x101), noise(chance, 40)),
            2 => call.bytes = [&[1, 0, 0, 0, 0, 0, 0, request_kind][..], &noise(chance, 60)].concat(),
            // A kind of message that clients do not send.
            3 => {
                let kind = 3 + below(chance, 200) as u8;
                let length = below(chance, 200);
                let payload = noise(chance, length);
                (call.immediate, call.bytes) = named(chance, kind, &payload);
            }
            // Shorter than a request.
            4 => {
                let length = below(chance, Request::HEADER as u64);
                let payload = noise(chance, length);
                (call.immediate, call.bytes) = named(chance, request_kind, &payload);
            }
            // A slot without an engine.
            5 => {
                call.slot = NOBODY;
                let payload = noise(chance, 70);
                (call.immediate, call.bytes) = named(chance, request_kind, &payload);
            }
            // A request with a wrong length field.
            6 => {
                let mut payload = self.request(index, KvOperation::Put, 0, 50).0;
                payload.pop();
                let chance = &mut self.chance;
                (call.immediate, call.bytes) = named(chance, request_kind, &payload);
                call.answer = Some((self.next_request - 1, Status::BadRequest, Vec::new()));
            }
            choice => {
                let operation = match choice % 5 {
                    0 | 1 => KvOperation::Get,
                    2 | 3 => KvOperation::Put,
                    _ => KvOperation::Delete,
                };
                let key = below(chance, KEYS);
                let length = [1, 8, 24, 100, 512, 1_000, 1_024][below(chance, 7) as usize];
                let (payload, value) = self.request(index, operation, key, length);
                let (status, found) = match operation {
                    KvOperation::Get => match self.model.get(&key) {
                        Some(value) => (Status::Ok, value.clone()),
                        None => (Status::NotFound, Vec::new()),
                    },
                    KvOperation::Put => {
                        self.model.insert(key, value);
                        (Status::Ok, Vec::new())
                    }
                    _ => match self.model.remove(&key) {
                        Some(_) => (Status::Ok, Vec::new()),
                        None => (Status::NotFound, Vec::new()),
                    },
                };
                (call.immediate, call.bytes) = named(&mut self.chance, request_kind, &payload);
                call.answer = Some((self.next_request - 1, status, found));
            }
        }
        call
    }

    /// Encodes a request. Returns it and its value.
    fn request(&mut self, index: usize, operation: KvOperation, key: u64, length: u64) -> (Vec<u8>, Vec<u8>) {
        let value = if operation == KvOperation::Put { noise(&mut self.chance, length) } else { Vec::new() };
        let request = Request {
            operation,
            client: 1 + index as u64,
            request: self.next_request,
            expected: 0,
            key: &key_of(index, key),
            value: &value,
        };
        self.next_request += 1;
        ([&request.header()[..], request.key, request.value].concat(), value)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (word, rest) = bytes.split_first_chunk().ok_or("an answer without a word")?;
        if u64::from_be_bytes(*word) != u64::from(MessageKind::Reply as u8) {
            return Err(format!("an answer of kind {word:02x?}"));
        }
        let reply = Reply::parse(rest).map_err(|error| error.to_string())?;
        let expected = self.awaited.remove(&reply.request).ok_or("an answer that nobody waits for")?;
        let found = (reply.status, reply.value.to_vec());
        if found != expected || reply.epoch != Epoch(1) {
            return Err(format!("{found:02x?} in place of {expected:02x?}"));
        }
        self.answers.insert(reply.request, (found.0, reply.version, found.1));
        Ok(())
    }

    fn answers(&self) -> Vec<Answer> {
        let mut versions = Vec::new();
        let answers = self.answers.iter().map(|(&request, (status, version, value))| {
            let version = (*version != 0).then(|| {
                let known = versions.iter().position(|known| known == version);
                known.unwrap_or_else(|| {
                    versions.push(*version);
                    versions.len() - 1
                })
            });
            Answer { request, status: *status, version, value: value.clone() }
        });
        answers.collect()
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.writes == 0 && self.awaited.is_empty()
    }
}

/// A key of one queue pair.
fn key_of(index: usize, key: u64) -> [u8; KEY_BYTES] {
    (key << 8 | index as u64).to_be_bytes()
}

/// Address in the client's memory of a request that a queue pair sends, or of an answer that it receives.
const fn place(index: usize, place: u64, receives: bool) -> u64 {
    (index as u64 * 2 + receives as u64) * OUTSTANDING as u64 * PLACE_BYTES
        + place % OUTSTANDING as u64 * PLACE_BYTES
}

fn view(epoch: u32, full: &[usize]) -> Configuration {
    let node = |index| NodeId::new(index).expect("few nodes");
    let full = full.iter().fold(0, |bits, index| bits | 1 << index);
    Configuration {
        node: node(0),
        view: View { epoch: Epoch(epoch), full: NodeSet::from_bits(full), joining: NodeSet::from_bits(0) },
        lease_until: Instant::ZERO + Duration::from_secs(100),
    }
}

impl World {
    fn new(kind: Kind, seed: u64, loss: u32, configuration: Configuration) -> Self {
        let mut client = Twin::new(Kind::Soft, CLIENT, Options::default());
        let region = Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL);
        let keys = client.driver().register_region(region).expect("room");
        let mut node = Node::new(kind);
        node.nic().submit(Instant::ZERO, HostCommand::Configure { engine: 0, configuration });
        Self {
            client,
            node,
            keys,
            flows: Vec::new(),
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            loss,
            // The engine needs this time to clear its tables.
            now: Instant::ZERO + Duration::from_us(50),
            wire: VecDeque::new(),
            sent: [0; 3],
            beside: [0; 3],
            to_send: 0,
            next_beside: Instant::ZERO,
            ordinary: VecDeque::new(),
        }
    }

    /// Connects another queue pair.
    fn connect(&mut self, left: usize) {
        let index = self.flows.len();
        let path_mtu = if index.is_multiple_of(2) { PathMtu::Bytes256 } else { PathMtu::Bytes1024 };
        let connection = Connection { path_mtu, timeout: 6, ..Connection::default() };
        let client = self.client.create_queue_pair().expect("room");
        let driver = self.node.driver();
        let node = driver.create_queue_pair(QueuePairAttributes::default()).expect("room");
        let (receive, send) = connection.attributes(NODE, client);
        driver.connect(node, AccessFlags::ALL, receive, send).expect("legal");
        let target = [Target::OnChip, Target::Hbm, Target::Host][index % 3];
        let regions = [0, NOBODY].map(|slot| {
            let address = REGIONS_AT + (2 * index as u64 + u64::from(slot != 0)) * REGION_BYTES;
            let access = AccessFlags::ALL;
            let region = Region { target, rpc: Some(slot), ..Region::host(address, REGION_BYTES, access) };
            (address, driver.register_region(region).expect("room"))
        });
        let (receive, send) = connection.attributes(CLIENT, node);
        self.client.driver().connect(client, AccessFlags::ALL, receive, send).expect("legal");
        self.flows.push(Flow {
            numbers: [client, node],
            regions,
            chance: Xoshiro256PlusPlus::seed_from_u64(self.chance.next_u64()),
            left,
            writes: 0,
            awaited: BTreeMap::new(),
            next_place: 0,
            next_answer: 0,
            next_request: 1,
            model: BTreeMap::new(),
            answers: BTreeMap::new(),
        });
    }

    /// Lets time pass until `done`.
    fn go(&mut self, mut done: impl FnMut(&mut Self) -> bool) -> Result<(), String> {
        let limit = self.now + Duration::from_ms(200);
        loop {
            self.client.advance(self.now);
            self.node.nic().handle_deadline(self.now);
            self.collect()?;
            for index in 0..self.flows.len() {
                self.call_next(index);
            }
            self.network_beside();
            self.client.advance(self.now);
            self.collect()?;
            if done(self) {
                return Ok(());
            }
            let deadlines = [self.client.next_deadline(), self.node.nic().next_deadline()];
            let beside = (self.to_send > 0).then_some(self.next_beside);
            let arrival = self.wire.front().map(|(at, ..)| *at);
            let next = deadlines.into_iter().chain([beside, arrival]).flatten().min();
            self.now = self.now.max(next.ok_or("nothing happens any more")?);
            if self.now > limit {
                let waiting: Vec<_> =
                    self.flows.iter().map(|flow| (flow.left, flow.writes, flow.awaited.len())).collect();
                return Err(format!("it does not end: {waiting:?}, {:?}", self.node.nic().counters()));
            }
            while self.wire.front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, side, frame) = self.wire.pop_front().expect("looked at above");
                if side == CLIENT {
                    self.client.receive(self.now, &frame);
                } else {
                    self.node.nic().receive_frame(self.now, &frame);
                }
            }
        }
    }

    /// Collects the frames and completions of client and node.
    fn collect(&mut self) -> Result<(), String> {
        let mut frames: Vec<(usize, Vec<u8>)> =
            self.client.take_frames().into_iter().map(|frame| (NODE, frame)).collect();
        let mut frame = Vec::new();
        while self.node.nic().poll_frame(self.now, &mut frame) {
            frames.push((CLIENT, std::mem::take(&mut frame)));
        }
        for (side, frame) in frames {
            let is_roce = matches!(
                Frame::parse(&frame),
                Ok(Frame::Udp { udp, .. }) if udp.destination_port == roce::UDP_PORT
            );
            if !is_roce || below(&mut self.chance, 1_000_000) >= self.loss.into() {
                self.wire.push_back((self.now + WIRE, side, frame));
            }
        }
        for completion in self.client.take_completions() {
            self.complete(&completion)?;
        }
        while let Some(event) = self.node.nic().poll_host() {
            match event {
                HostEvent::Frame(frame) if self.ordinary.pop_front() == Some(frame.clone()) => {
                    self.beside[1] += 1
                }
                HostEvent::Status { .. } => {}
                other => return Err(format!("the node's host is told {other:02x?}")),
            }
        }
        for frame in std::mem::take(&mut self.client.host_frames) {
            match Frame::parse(&frame) {
                Ok(Frame::Echo { echo, .. }) if echo.kind == EchoKind::Reply => self.beside[0] += 1,
                Ok(Frame::Udp { udp, .. }) if udp.destination_port == CLIENT_PORT => self.beside[2] += 1,
                other => return Err(format!("the client's host is told {other:02x?}")),
            }
        }
        Ok(())
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), String> {
        let of = |flow: &&mut Flow| flow.numbers[CLIENT] == completion.queue_pair;
        let Some(flow) = self.flows.iter_mut().find(of) else { return Ok(()) };
        if completion.status != CompletionStatus::Success {
            return Err(format!("{completion:?}"));
        }
        if completion.opcode != CompletionOpcode::Receive {
            flow.writes -= 1;
            return Ok(());
        }
        let at = completion.id;
        let memory = self.client.driver().memory();
        let bytes = memory.read(Target::Host, at, completion.bytes as usize).expect("installed").to_vec();
        let of = |flow: &&mut Flow| flow.numbers[CLIENT] == completion.queue_pair;
        self.flows.iter_mut().find(of).expect("found above").take(&bytes)
    }

    /// Writes the next request of a queue pair, if it may have another outstanding.
    fn call_next(&mut self, index: usize) {
        while let Some(flow) = self.flows.get_mut(index)
            && flow.left > 0
            && flow.writes.max(flow.awaited.len()) < OUTSTANDING
        {
            flow.left -= 1;
            let call = flow.next(index);
            self.write(index, &call);
        }
    }

    fn write(&mut self, index: usize, call: &Call) {
        let flow = &mut self.flows[index];
        let number = flow.numbers[CLIENT];
        let from = place(index, flow.next_place, false);
        let to = place(index, flow.next_answer, true);
        flow.next_place += 1;
        flow.writes += 1;
        if let Some(answer) = &call.answer {
            flow.next_answer += 1;
            let (request, status, value) = answer.clone();
            flow.awaited.insert(request, (status, value));
        }
        let (address, keys) = flow.regions[usize::from(call.slot == NOBODY)];
        // Few addresses, at any alignment, so messages overwrite earlier ones.
        let remote = RemoteAddress { address: address + below(&mut flow.chance, 130), rkey: keys.rkey };
        if call.answer.is_some() {
            let local = LocalBuffer { address: to, length: PLACE_BYTES as u32, lkey: self.keys.lkey };
            self.client.post_receive(number, ReceiveRequest { id: to, local }).expect("room");
        }
        self.client.fill(Target::Host, from, &call.bytes);
        let local = LocalBuffer { address: from, length: call.bytes.len() as u32, lkey: self.keys.lkey };
        let operation = Operation::Write { remote, immediate: call.immediate };
        self.client.post_send(self.now, number, WorkRequest::new(from, operation, local));
    }

    /// The client's host sends an echo request, a frame, or a request in a datagram.
    fn network_beside(&mut self) {
        if self.to_send == 0 || self.now < self.next_beside {
            return;
        }
        self.to_send -= 1;
        self.next_beside = self.now + BESIDE_EVERY;
        let kind = self.to_send % 3;
        let length = 46 + below(&mut self.chance, 1_000);
        let bytes = noise(&mut self.chance, length);
        let mut frame = Vec::new();
        let [client, node] = [(CLIENT, CLIENT_PORT), (NODE, datagram::UDP_PORT)].map(|(side, port)| {
            Endpoint { hardware: twin::hardware(side), address: twin::address(side), port }
        });
        match kind {
            0 => {
                let ethernet = Ethernet {
                    destination: node.hardware,
                    source: client.hardware,
                    ether_type: ETHER_TYPE_IPV4,
                };
                let ipv4 = Ipv4 {
                    type_of_service: 0,
                    identification: 0,
                    dont_fragment: true,
                    time_to_live: TIME_TO_LIVE,
                    protocol: PROTOCOL_ICMP,
                    source: client.address,
                    destination: node.address,
                };
                let sequence = self.sent[0] as u16;
                let echo = Echo { kind: EchoKind::Request, identifier: 1, sequence, payload: &bytes };
                frame::emit_echo_frame(&mut frame, &ethernet, &ipv4, &echo);
            }
            1 => {
                frame = [&node.hardware.0[..], &client.hardware.0[..], &[0x88, 0xb5], &bytes[..]].concat();
                self.ordinary.push_back(frame.clone());
            }
            _ => {
                let value = &bytes[..200.min(bytes.len())];
                let request = Request {
                    operation: KvOperation::Put,
                    client: 100,
                    request: 1 + self.sent[2] as u64,
                    expected: 0,
                    key: &key_of(100, 0),
                    value,
                };
                let mut builder = datagram::Builder::new(1_472);
                let parts = [&request.header()[..], request.key, request.value];
                assert!(builder.try_push_parts(0, MessageKind::Request as u8, &parts), "it is short");
                let flow = UdpFlow { source: client, destination: node, type_of_service: 0 };
                frame::emit_udp_frame(&mut frame, &flow, builder.finish());
            }
        }
        self.sent[kind] += 1;
        self.wire.push_back((self.now + WIRE, NODE, frame));
    }

    fn counter(&mut self, name: &str) -> u64 {
        self.node.nic().counters().iter().filter(|(known, _)| *known == name).map(|(_, value)| value).sum()
    }
}

/// Runs requests over several queue pairs, with ordinary networking at the same time.
///
/// # Errors
/// The first error: a wrong answer, a lost frame, or that the run did not end.
///
/// # Panics
/// If a NIC refuses the set-up.
pub fn run(kind: Kind, run: &Run) -> Result<Outcome, String> {
    let context = |error| format!("{} {run:?}: {error}", kind.name());
    let mut world = World::new(kind, run.seed, run.loss, view(1, &[0]));
    for _ in 0..run.queue_pairs {
        world.connect(run.requests);
    }
    world.to_send = run.requests;
    world
        .go(|world| world.flows.iter().all(Flow::is_done) && world.to_send == 0 && world.sent == world.beside)
        .map_err(context)?;
    // Surplus answers would arrive within this time.
    let end = world.now + Duration::from_ms(1);
    world.to_send = 1;
    world.next_beside = end;
    world.go(|world| world.now >= end && world.sent == world.beside).map_err(context)?;
    let counters = world.node.nic().counters();
    let sum = |name: &str| counters.iter().filter(|(known, _)| *known == name).map(|(_, value)| value).sum();
    Ok(Outcome {
        answers: world.flows.iter().map(Flow::answers).collect(),
        counters: COUNTERS.map(|name| (name, sum(name))).to_vec(),
        beside: world.beside,
    })
}

/// A queue pair is destroyed while the store still owes it answers. These are refused, and a later queue pair
/// with the same index gets none of them.
///
/// # Errors
/// A description of the failure.
///
/// # Panics
/// If a NIC refuses the set-up.
pub fn gone(kind: Kind) -> Result<u64, String> {
    // The other full member does not exist, so entries that this node leads stay undecided.
    let mut world = World::new(kind, 1, 0, view(1, &[0, 1]));
    world.connect(0);
    let mut owed = Vec::new();
    for key in 0..8 {
        let (payload, _) = world.flows[0].request(0, KvOperation::Put, key, 40);
        let call =
            Call { slot: 0, immediate: Some(MessageKind::Request as u32), bytes: payload, answer: None };
        world.write(0, &call);
        world.go(|world| world.flows[0].writes == 0)?;
        owed.push(key);
    }
    let end = world.now + Duration::from_us(100);
    world.to_send = 1;
    world.next_beside = end;
    world.go(|world| world.now >= end)?;
    let [client, node] = world.flows[0].numbers;
    world.client.driver().destroy_queue_pair(client).expect("it is there");
    world.node.driver().destroy_queue_pair(node).expect("it is there");
    world.flows.clear();
    world.connect(0);
    let now = world.now;
    world.node.nic().submit(now, HostCommand::Configure { engine: 0, configuration: view(2, &[0]) });
    let end = world.now + Duration::from_ms(1);
    world.to_send = 1;
    world.next_beside = end;
    world.go(|world| world.now >= end)?;
    let (refused, sends) = (world.counter("replies_refused"), world.counter("rdma_sends"));
    // Requests that this node does not lead were answered earlier.
    if refused == 0 || refused + sends != owed.len() as u64 {
        return Err(format!("{refused} refused and {sends} sent of {}", owed.len()));
    }
    Ok(refused)
}

/// More simultaneous calls than the gateware has room for, and then a call that is longer than its buffers.
///
/// # Errors
/// A description of the failure.
///
/// # Panics
/// If a NIC refuses the set-up.
pub fn too_much() -> Result<(), String> {
    let mut world = World::new(Kind::Rtl, 1, 0, view(1, &[0]));
    world.connect(0);
    const CALLS: u64 = 60;
    for _ in 0..CALLS {
        let bytes = [&9_u64.to_be_bytes()[..], &[0; 24]].concat();
        world.write(0, &Call { slot: 0, immediate: None, bytes, answer: None });
    }
    world.go(|world| world.flows[0].writes == 0)?;
    let found = ["rpc_calls", "dropped_malformed"].map(|name| world.counter(name));
    if world.counter("drop_rpc_queue_full") == 0 || found != [CALLS; 2] {
        return Err(format!("{found:?}, {:?}", world.node.nic().counters()));
    }
    let bytes = vec![0; PLACE_BYTES as usize];
    world.write(0, &Call { slot: 0, immediate: Some(9), bytes, answer: None });
    world.go(|world| world.flows[0].writes == 0)?;
    let end = world.now + Duration::from_us(10);
    world.to_send = 1;
    world.next_beside = end;
    world.go(|world| world.now >= end)?;
    let found = ["rpc_calls", "dropped_malformed", "calls_without_buffer"].map(|name| world.counter(name));
    if found != [CALLS + 1, CALLS, 1] { Err(format!("{found:?}")) } else { Ok(()) }
}
