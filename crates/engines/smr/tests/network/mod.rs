//! A small deterministic network for engines that post verbs: nodes with memory and queue pairs, datagrams, faults.
//!
//! Work requests are executed packet by packet, in order. Each packet's content is taken from the sender's memory
//! when the packet is sent or, in some cases, when it arrives, as with a retransmission. So a WRITE that is longer
//! than a packet may arrive in part and never be completed. A connection on which no packet gets through fails
//! after a while.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod cluster;
pub mod overheard;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::mem::take;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_smr::Wiring;
use weft_time::{Duration, Instant};
use weft_verbs::{AccessFlags, CompletionStatus, Operation, QueuePairNumber, WorkRequest};
use weft_waist::{Caller, Effect, Effects, Engine, Event, Io, Memory, Message, NodeId, engine_address};

/// Bytes in a packet: small, so that WRITEs take several.
pub const PATH_MTU: u32 = 64;
/// Time after which a connection fails if a request is not answered.
const TIME_OUT: Duration = Duration::from_us(60);
const ONE_WAY: [Duration; 2] = [Duration::from_ns(900), Duration::from_ns(1_700)];
const RKEY: u32 = 7;
const CALL_RKEY: u32 = 8;
const MASK: u32 = 0xff_ffff;

pub fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

/// The queue pair for a purpose on which this node makes requests of a peer.
fn request_end(purpose: u8, peer: usize) -> QueuePairNumber {
    QueuePairNumber(0x1000 | u32::from(purpose) << 4 | peer as u32)
}

fn respond_end(purpose: u8, peer: usize) -> QueuePairNumber {
    QueuePairNumber(0x2000 | u32::from(purpose) << 4 | peer as u32)
}

/// The peer and its queue pair to which a queue pair of `node` is connected.
fn other_end(node: usize, queue_pair: QueuePairNumber) -> (usize, QueuePairNumber) {
    let peer = (queue_pair.0 & 0xf) as usize;
    (peer, QueuePairNumber(queue_pair.0 & !0xf ^ 0x3000 | node as u32))
}

/// The connection of a group or the pulse (255) of a node to a peer. The engines are in slot 0.
pub fn wiring(purpose: u8, peer: usize) -> Wiring {
    Wiring {
        request: request_end(purpose, peer),
        respond: respond_end(purpose, peer),
        local_address: engine_address(0, 0),
        lkey: 1,
        remote_address: engine_address(0, 0),
        rkey: RKEY,
        call_rkey: CALL_RKEY,
        path_mtu: PATH_MTU,
    }
}

/// Faults of the network, per mille.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Datagrams that are lost.
    pub loss: u64,
    /// Datagrams that arrive twice.
    pub duplication: u64,
    /// Datagrams and packets that are late, by up to 20 us.
    pub late: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reset,
    Connected,
    Error,
}

/// One end of a connection.
#[derive(Clone, Debug)]
struct QueuePair {
    state: State,
    access: AccessFlags,
    next_psn: u32,
    expected_psn: u32,
    /// Grows with each connection: what arrives for a former connection is dropped.
    connection: u64,
    outstanding: VecDeque<(u64, WorkRequest)>,
    /// Arrival times of the last packet and of the last answer: later ones do not overtake them.
    last_arrival: Instant,
    last_return: Instant,
}

impl QueuePair {
    fn new() -> Self {
        Self {
            state: State::Reset,
            access: AccessFlags::NONE,
            next_psn: 0,
            expected_psn: 0,
            connection: 0,
            outstanding: VecDeque::new(),
            last_arrival: Instant::ZERO,
            last_return: Instant::ZERO,
        }
    }
}

pub struct Node<E> {
    pub engine: E,
    pub memory: Memory,
    timers: BTreeMap<u32, Instant>,
    pub life: u64,
    queue_pairs: BTreeMap<QueuePairNumber, QueuePair>,
    /// Until then the node's engine handles no event, but its card works.
    stuck_until: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Datagram {
        from: usize,
        to: usize,
        kind: u8,
        payload: Vec<u8>,
    },
    Packet(Packet),
    /// A completion at the requester.
    End {
        node: usize,
        life: u64,
        queue_pair: u32,
        connection: u64,
        sequence: u64,
        ok: bool,
        data: Vec<u8>,
    },
    TimeOut {
        node: usize,
        life: u64,
        queue_pair: u32,
        connection: u64,
        sequence: u64,
    },
    Done {
        node: usize,
        life: u64,
        tag: u64,
        ok: bool,
    },
    Call {
        node: usize,
        life: u64,
        kind: u8,
        payload: Vec<u8>,
    },
    Timer {
        node: usize,
        life: u64,
        tag: u32,
    },
}

/// One packet of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    from: usize,
    life: u64,
    queue_pair: u32,
    connection: u64,
    sequence: u64,
    psn: u32,
    sent_at: Instant,
    /// Offset of the packet in its request.
    at: u32,
    last: bool,
    bytes: Vec<u8>,
    request: Request,
}

/// A work request with an ordering, as the queue of due events needs it. Only `sequence` decides the order.
#[derive(Clone, Copy, Debug)]
struct Request(WorkRequest);

impl PartialEq for Request {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Request {}

impl PartialOrd for Request {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Request {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

pub struct Network<E> {
    pub now: Instant,
    rng: Xoshiro256PlusPlus,
    pub faults: Faults,
    pub nodes: Vec<Option<Node<E>>>,
    /// When each node last crashed.
    died_at: Vec<Instant>,
    pub cut: BTreeMap<(usize, usize), bool>,
    /// A test's choice of datagrams that are lost, by sender, receiver, kind and content.
    pub loses: fn(usize, usize, u8, &[u8]) -> bool,
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    sequence: u64,
    lives: u64,
    /// The engines' replies: node, caller, kind, content.
    pub replies: VecDeque<(usize, Caller, u8, Vec<u8>)>,
    pub events: u64,
    /// Number of packets refused because their sender had no permission.
    pub refused: u64,
    /// A log of what happened, if a test asks for it.
    pub story: Option<Vec<String>>,
}

impl<E: Engine> Network<E> {
    pub fn new(seed: u64, nodes: usize) -> Self {
        Self {
            now: Instant::ZERO,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            faults: Faults::default(),
            nodes: (0..nodes).map(|_| None).collect(),
            died_at: vec![Instant::ZERO; nodes],
            cut: BTreeMap::new(),
            loses: |_, _, _, _| false,
            due: BinaryHeap::new(),
            sequence: 0,
            lives: 0,
            replies: VecDeque::new(),
            events: 0,
            refused: 0,
            story: None,
        }
    }

    pub fn random(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.random(1000) < per_mille
    }

    fn schedule(&mut self, at: Instant, due: Due) {
        self.sequence += 1;
        self.due.push(Reverse((at, self.sequence, due)));
    }

    /// Starts a node, with memory of zeros.
    pub fn start(&mut self, index: usize, engine: E, memory_bytes: usize) {
        self.lives += 1;
        self.nodes[index] = Some(Node {
            engine,
            memory: Memory::new(memory_bytes),
            timers: BTreeMap::new(),
            life: self.lives,
            queue_pairs: BTreeMap::new(),
            stuck_until: Instant::ZERO,
        });
    }

    pub fn crash(&mut self, index: usize) {
        self.nodes[index] = None;
        self.died_at[index] = self.now;
    }

    /// Stalls a node's engine for this length of time. A stall in progress is never shortened, because events that
    /// wait for the engine must stay in order.
    pub fn stick(&mut self, index: usize, length: Duration) {
        if let Some(node) = &mut self.nodes[index] {
            node.stuck_until = node.stuck_until.max(self.now + length);
        }
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut.get(&(from, to)).copied().unwrap_or(false)
    }

    fn delay(&mut self) -> Duration {
        let mut delay = ONE_WAY[0] + Duration::from_ps(self.random((ONE_WAY[1] - ONE_WAY[0]).as_ps()));
        if self.chance(self.faults.late) {
            delay += Duration::from_ns(self.random(20_000));
        }
        delay
    }

    // Engines.

    pub fn handle(&mut self, index: usize, event: Event<'_>) {
        let Some(node) = self.nodes[index].as_mut() else { return };
        let life = node.life;
        let mut effects = Effects::default();
        node.engine.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut node.memory });
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload;
                    for peer in to.iter() {
                        assert_ne!(peer.index(), index, "no engine sends to itself");
                        self.datagram(index, peer.index(), *kind, payload);
                    }
                }
                Effect::Reply { kind, payload, to } => {
                    let payload = effects.message(*kind, payload).payload.to_vec();
                    self.replies.push_back((index, *to, *kind, payload));
                }
                Effect::SetTimer { tag, at } => {
                    self.nodes[index].as_mut().expect("it runs").timers.insert(*tag, *at);
                    self.schedule((*at).max(self.now), Due::Timer { node: index, life, tag: *tag });
                }
                Effect::Post { queue_pair, request } => self.post(index, *queue_pair, *request),
                Effect::Access { queue_pair, access } => {
                    let queue_pair = self.queue_pair(index, *queue_pair);
                    if queue_pair.state == State::Connected {
                        queue_pair.access = *access;
                    }
                }
                Effect::Connect { queue_pair, send_psn, receive_psn } => {
                    let queue_pair = self.queue_pair(index, *queue_pair);
                    let connection = queue_pair.connection + 1;
                    *queue_pair = QueuePair {
                        state: State::Connected,
                        access: AccessFlags::REMOTE_READ,
                        next_psn: *send_psn,
                        expected_psn: *receive_psn,
                        connection,
                        ..QueuePair::new()
                    };
                }
                Effect::HostRead { .. } | Effect::HostWrite { .. } => {
                    panic!("this engine leaves the host's memory alone")
                }
            }
        }
    }

    fn datagram(&mut self, from: usize, to: usize, kind: u8, payload: &[u8]) {
        if let Some(story) = &mut self.story {
            let control = weft_smr::message::Control::parse(kind, payload);
            story.push(format!("{:>9} {from} -> {to}: {control:?}", self.now.as_ns()));
        }
        if self.is_cut(from, to) || (self.loses)(from, to, kind, payload) || self.chance(self.faults.loss) {
            return;
        }
        let packet = Due::Datagram { from, to, kind, payload: payload.to_vec() };
        if self.chance(self.faults.duplication) {
            let again = self.now + self.delay() + Duration::from_ns(self.random(200_000));
            self.schedule(again, packet.clone());
        }
        let at = self.now + self.delay();
        self.schedule(at, packet);
    }

    // Verbs.

    fn queue_pair(&mut self, node: usize, number: QueuePairNumber) -> &mut QueuePair {
        let node = self.nodes[node].as_mut().expect("it runs");
        node.queue_pairs.entry(number).or_insert_with(QueuePair::new)
    }

    fn post(&mut self, index: usize, number: QueuePairNumber, request: WorkRequest) {
        let (now, life) = (self.now, self.nodes[index].as_ref().expect("it runs").life);
        self.sequence += 1;
        let sequence = self.sequence;
        let queue_pair = self.queue_pair(index, number);
        if queue_pair.state != State::Connected {
            self.schedule(now, Due::Done { node: index, life, tag: request.id, ok: false });
            return;
        }
        queue_pair.outstanding.push_back((sequence, request));
        assert!(queue_pair.outstanding.len() <= 80, "a send queue is bounded");
        let connection = queue_pair.connection;
        let mut psn = queue_pair.next_psn;
        let mut arrival = queue_pair.last_arrival;
        let length = match request.operation {
            Operation::Write { .. } => request.local.length,
            _ => 0,
        };
        let packets = request.local.length.div_ceil(PATH_MTU).max(1);
        queue_pair.next_psn = (psn + packets) & MASK;
        let start = (request.local.address - engine_address(0, 0)) as usize;
        let mut sent_at = now;
        let (to, _) = other_end(index, number);
        if let Some(story) = &mut self.story {
            let what = match request.operation {
                Operation::Write { remote, .. } => {
                    format!("write {:#x}", remote.address - engine_address(0, 0))
                }
                Operation::Read { remote } => format!("read {:#x}", remote.address - engine_address(0, 0)),
                other => format!("{other:?}"),
            };
            story.push(format!("{:>9} {index} => {to}: {what} {} bytes", now.as_ns(), request.local.length));
        }
        let mut at = 0;
        loop {
            let bytes = length.saturating_sub(at).min(PATH_MTU);
            let last = at + bytes >= length;
            let memory = &self.nodes[index].as_ref().expect("it runs").memory;
            let bytes = memory.image()[start + at as usize..][..bytes as usize].to_vec();
            let delay = self.delay();
            arrival = arrival.max(sent_at + delay);
            let taken = bytes.len() as u32;
            let queue_pair = number.0;
            let packet = Packet {
                from: index,
                life,
                queue_pair,
                connection,
                sequence,
                psn,
                sent_at,
                at,
                last,
                bytes,
                request: Request(request),
            };
            if !self.is_cut(index, to) {
                self.schedule(arrival, Due::Packet(packet));
            }
            if last {
                break;
            }
            (at, psn) = (at + taken, (psn + 1) & MASK);
            sent_at += Duration::from_ns(20 + self.random(400));
        }
        self.queue_pair(index, number).last_arrival = arrival;
        let time_out = Due::TimeOut { node: index, life, queue_pair: number.0, connection, sequence };
        self.schedule(now + TIME_OUT, time_out);
    }

    /// The request that `packet` belongs to, if it is still outstanding at its requester.
    fn outstanding(&self, packet: &Packet) -> Option<&WorkRequest> {
        let node = self.nodes[packet.from].as_ref().filter(|node| node.life == packet.life)?;
        let queue_pair = node.queue_pairs.get(&QueuePairNumber(packet.queue_pair))?;
        if queue_pair.connection != packet.connection || queue_pair.state != State::Connected {
            return None;
        }
        let found = queue_pair.outstanding.iter().find(|(sequence, _)| *sequence == packet.sequence);
        found.map(|(_, request)| request)
    }

    fn arrive(&mut self, mut packet: Packet) {
        let request = packet.request.0;
        let number = QueuePairNumber(packet.queue_pair);
        let (to, other) = other_end(packet.from, number);
        if self.nodes[to].is_none() {
            return;
        }
        let outstanding = self.outstanding(&packet).is_some();
        if outstanding && !packet.bytes.is_empty() && self.chance(200) {
            // The packet was lost and is retransmitted, with the content that the memory has now.
            let start = (request.local.address - engine_address(0, 0)) as usize + packet.at as usize;
            let length = packet.bytes.len();
            let memory = &self.nodes[packet.from].as_ref().expect("it is outstanding").memory;
            packet.bytes.copy_from_slice(&memory.image()[start..start + length]);
        }
        let queue_pair = self.queue_pair(to, other);
        if queue_pair.state != State::Connected || queue_pair.expected_psn != packet.psn {
            return;
        }
        let (access, remote, is_write, immediate) = match request.operation {
            Operation::Write { remote, immediate } => (AccessFlags::REMOTE_WRITE, remote, true, immediate),
            Operation::Read { remote } => (AccessFlags::REMOTE_READ, remote, false, None),
            other => panic!("no engine posts {other:?}"),
        };
        assert!(remote.rkey == RKEY || remote.rkey == CALL_RKEY && immediate.is_some());
        let permitted = queue_pair.access.contains(access);
        let packets = if is_write { 1 } else { request.local.length.div_ceil(PATH_MTU).max(1) };
        queue_pair.expected_psn = (packet.psn + packets) & MASK;
        if !permitted {
            queue_pair.state = State::Error;
            self.refused += 1;
        }
        let at = (remote.address - engine_address(0, 0)) as usize;
        let node = self.nodes[to].as_mut().expect("it runs");
        let mut data = Vec::new();
        if permitted && is_write {
            let at = at + packet.at as usize;
            node.memory.image_mut()[at..at + packet.bytes.len()].copy_from_slice(&packet.bytes);
            if packet.last && remote.rkey == CALL_RKEY {
                let payload =
                    node.memory.image()[at - packet.at as usize..][..request.local.length as usize].to_vec();
                let kind = immediate.expect("a call names its kind") as u8;
                let life = node.life;
                self.schedule(self.now, Due::Call { node: to, life, kind, payload });
            }
        } else if permitted {
            data = node.memory.image()[at..at + request.local.length as usize].to_vec();
        }
        if !packet.last && permitted || self.is_cut(to, packet.from) {
            return;
        }
        let Packet { from, life, queue_pair, connection, sequence, .. } = packet;
        let end = Due::End { node: from, life, queue_pair, connection, sequence, ok: permitted, data };
        let at = self.now + self.delay();
        if let Some(poster) = self.connected(from, life, queue_pair, connection) {
            poster.last_return = at.max(poster.last_return);
            let at = poster.last_return;
            self.schedule(at, end);
        }
    }

    /// Fails the connection of a requester: all its outstanding work requests complete with an error.
    fn fail(&mut self, index: usize, number: QueuePairNumber) {
        let queue_pair = self.queue_pair(index, number);
        queue_pair.state = State::Error;
        let outstanding = take(&mut queue_pair.outstanding);
        let life = self.nodes[index].as_ref().expect("it runs").life;
        for (_, request) in outstanding {
            self.schedule(self.now, Due::Done { node: index, life, tag: request.id, ok: false });
        }
    }

    fn lives(&self, index: usize, life: u64) -> bool {
        self.nodes[index].as_ref().is_some_and(|node| node.life == life)
    }

    /// The queue pair of a due event, unless the node or the connection has changed since.
    fn connected(&mut self, index: usize, life: u64, number: u32, connection: u64) -> Option<&mut QueuePair> {
        if !self.lives(index, life) {
            return None;
        }
        let queue_pair = self.queue_pair(index, QueuePairNumber(number));
        (queue_pair.connection == connection && queue_pair.state == State::Connected).then_some(queue_pair)
    }

    // Time.

    fn carry_out(&mut self, due: Due) {
        match due {
            Due::Packet(packet) => {
                // Packets that a crashed node had not sent yet are dropped; those that it had sent arrive.
                let sent =
                    self.lives(packet.from, packet.life) || self.died_at[packet.from] >= packet.sent_at;
                if sent {
                    self.arrive(packet);
                }
            }
            Due::End { node, life, queue_pair, connection, sequence, ok, data } => {
                let number = QueuePairNumber(queue_pair);
                let Some(found) = self.connected(node, life, queue_pair, connection) else { return };
                let Some((first, request)) = found.outstanding.front().copied() else { return };
                if !ok {
                    self.fail(node, number);
                    return;
                }
                if first != sequence {
                    // The answer to an earlier request was lost. This model retransmits no requests, so the
                    // connection will fail.
                    return;
                }
                found.outstanding.pop_front();
                if matches!(request.operation, Operation::Read { .. }) {
                    let at = (request.local.address - engine_address(0, 0)) as usize;
                    let memory = &mut self.nodes[node].as_mut().expect("it runs").memory;
                    memory.image_mut()[at..at + data.len()].copy_from_slice(&data);
                }
                self.schedule(self.now, Due::Done { node, life, tag: request.id, ok: true });
            }
            Due::TimeOut { node, life, queue_pair, connection, sequence } => {
                let Some(found) = self.connected(node, life, queue_pair, connection) else { return };
                if found.outstanding.front().is_some_and(|(first, _)| *first <= sequence) {
                    self.fail(node, QueuePairNumber(queue_pair));
                }
            }
            Due::Datagram { from, to, kind, payload } => {
                let message = Message { kind, payload: &payload };
                self.handle(to, Event::Deliver { from: node(from), message, last: true });
            }
            Due::Done { node, life, tag, ok } => {
                let status =
                    if ok { CompletionStatus::Success } else { CompletionStatus::WorkRequestFlushed };
                if self.lives(node, life) {
                    self.handle(node, Event::Done { tag, status });
                }
            }
            Due::Call { node, life, kind, payload } => {
                if self.lives(node, life) {
                    let message = Message { kind, payload: &payload };
                    let caller = Caller::QueuePair(QueuePairNumber(0));
                    self.handle(node, Event::Call { caller, message, last: true });
                }
            }
            Due::Timer { node: index, life, tag } => {
                let now = self.now;
                let Some(node) = self.nodes[index].as_mut() else { return };
                if node.life == life && node.timers.get(&tag).is_some_and(|&timer| timer <= now) {
                    node.timers.remove(&tag);
                    self.handle(index, Event::Timer { tag });
                }
            }
        }
    }

    /// The node whose engine handles a due event, if any.
    fn engine_of(due: &Due) -> Option<usize> {
        match due {
            Due::Datagram { to, .. } => Some(*to),
            Due::Done { node, .. } | Due::Call { node, .. } | Due::Timer { node, .. } => Some(*node),
            Due::Packet(_) | Due::End { .. } | Due::TimeOut { .. } => None,
        }
    }

    fn step(&mut self) {
        let Reverse((at, _, due)) = self.due.pop().expect("something is due");
        self.now = at;
        self.events += 1;
        if let Some(index) = Self::engine_of(&due)
            && let Some(node) = self.nodes[index].as_mut()
            && node.stuck_until > at
        {
            let until = node.stuck_until;
            self.schedule(until, due);
            return;
        }
        self.carry_out(due);
    }

    /// Runs until `until`, one event after the other; calls `after` after each.
    pub fn run_until(&mut self, until: Instant, mut after: impl FnMut(&mut Self)) {
        while self.due.peek().is_some_and(|Reverse((at, ..))| *at <= until) {
            self.step();
            after(self);
        }
        self.now = until;
    }
}
