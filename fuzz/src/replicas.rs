//! Replicated logs and data types: a replica whose peers may send anything, and may write anything to the
//! memory that they can access.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use weft_rdt::replica::message::DATA;
use weft_rdt::replica::{Replica, ReplicaParameters, Summaries};
use weft_rdt::{Bounds, Type};
use weft_smr::link::Wiring;
use weft_smr::log::{Log, LogParameters, Wire};
use weft_smr::message::{Control, Granted, PULSE, Request};
use weft_smr::{Delivery, Parameters, Role};
use weft_time::{Duration, Instant};
use weft_verbs::{CompletionStatus, Operation, QueuePairNumber, WorkRequest};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

use crate::input::Input;

/// Number of nodes of the cluster; the engine is that of node 0.
const NODES: usize = 3;
/// The kind of the call with which a host connects the queue pairs of a replica, in both engines.
const WIRE: u8 = 16;
/// The kinds of connection requests, of a log and of a replica of a data type. The kind of the answer that
/// grants one is the next number.
const REQUEST: u8 = 1;
const CONNECT: u8 = 10;
/// The epoch of the founders, which is also their incarnation.
const FOUNDERS: Epoch = Epoch(1);
/// Upper bound of the work requests that an engine may have posted on a queue pair.
const POSTS_MAX: usize = 96;

/// Parses a message between replicas of a log. A valid message is encoded again, and must parse to the same.
pub fn control(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    if let Ok(control) = Control::parse(kind % 4, bytes) {
        assert_eq!(Control::parse(control.kind(), control.encode(&mut [0; 24])), Ok(control));
    }
}

/// A replica of a log.
pub fn log(data: &[u8]) {
    let mut input = Input::new(data);
    let delivery = input.one_of(&[Delivery::WriteThrough, Delivery::Polling]);
    let group = Parameters { slots: 16, slot_bytes: 64, window: 4, delivery, ..Parameters::default() };
    let parameters = LogParameters { group, ..LogParameters::default() };
    let memory = parameters.memory_bytes();
    // A leader, or a candidate, grants write permission to no other node.
    Run::new(Log::new(parameters), memory)
        .run(input, &[0, PULSE], |log| log.group().role() == Role::Follower);
}

/// A replica of an object without conflicting calls. The target `log` covers the logs that conflicting calls
/// need.
pub fn replica(data: &[u8]) {
    let mut input = Input::new(data);
    // Creating a type takes longer than running an input, so types are created once.
    static TYPES: LazyLock<[Arc<Type>; 4]> = LazyLock::new(|| {
        ["g-counter", "2p-set", "pn-set", "lww-register"]
            .map(|name| Type::shipped(name, &Bounds::uniform(8)).expect("it is shipped"))
    });
    let kind = &TYPES[usize::from(input.byte()) % TYPES.len()];
    let mut parameters = ReplicaParameters::new(kind.clone(), NODES);
    (parameters.window, parameters.ring) = (4, 8);
    parameters.summaries = input.one_of(&[Summaries::Rpc, Summaries::Buffered, Summaries::Unbuffered]);
    parameters.entries = input.one_of(&[Delivery::WriteThrough, Delivery::Polling]);
    let (memory, purposes) = (parameters.memory_bytes(), parameters.purposes());
    Run::new(Replica::new(parameters), memory).run(input, &purposes, |_| true);
}

struct Run<E> {
    engine: E,
    memory: Memory,
    effects: Effects,
    now: Instant,
    /// The posted work requests in order, by queue pair.
    posted: Vec<(QueuePairNumber, VecDeque<WorkRequest>)>,
    /// The latest connection request to each peer: its purpose and number.
    asked: Vec<(NodeId, u8, u64)>,
}

impl<E: Engine> Run<E> {
    fn new(engine: E, memory: usize) -> Self {
        let (memory, effects) = (Memory::new(memory), Effects::default());
        Self { engine, memory, effects, now: Instant::ZERO, posted: Vec::new(), asked: Vec::new() }
    }

    fn handle(&mut self, event: Event<'_>) {
        self.effects.clear();
        let mut io = Io { effects: &mut self.effects, memory: &mut self.memory };
        self.engine.handle(self.now, event, &mut io);
        for effect in self.effects.iter() {
            let (queue_pair, request) = match effect {
                Effect::Send { to, kind: REQUEST | CONNECT, payload } => {
                    let payload = self.effects.message(REQUEST, payload).payload;
                    let Ok(Control::Request(asked)) = Control::parse(REQUEST, &payload[..24]) else {
                        panic!("it asks in order");
                    };
                    for peer in to.iter() {
                        self.asked.retain(|(to, group, _)| (*to, *group) != (peer, asked.group));
                        self.asked.push((peer, asked.group, asked.number));
                    }
                    continue;
                }
                Effect::Post { queue_pair, request } => (queue_pair, Some(request)),
                Effect::Connect { queue_pair, .. } => (queue_pair, None),
                _ => continue,
            };
            let place = self.posted.iter().position(|(known, _)| known == queue_pair).unwrap_or_else(|| {
                self.posted.push((*queue_pair, VecDeque::new()));
                self.posted.len() - 1
            });
            let posted = &mut self.posted[place].1;
            match request {
                // A new connection drops the requests posted on the old one.
                None => posted.clear(),
                Some(request) => {
                    let end = request.local.address as usize + request.local.length as usize;
                    assert!(end <= self.memory.image().len(), "it posts from its own memory");
                    posted.push_back(*request);
                    assert!(posted.len() <= POSTS_MAX, "what is posted is bounded");
                }
            }
        }
    }

    /// Completes the oldest work request of a queue pair; a READ returns data of the input.
    fn end(&mut self, input: &mut Input<'_>) {
        let choice = usize::from(input.byte());
        let waiting: Vec<usize> =
            (0..self.posted.len()).filter(|&place| !self.posted[place].1.is_empty()).collect();
        let Some(&place) = waiting.get(choice % waiting.len().max(1)) else { return };
        let Some(request) = self.posted[place].1.pop_front() else { return };
        if let Operation::Read { .. } = request.operation {
            let at = request.local.address as usize;
            let length = request.local.length as usize;
            self.memory.image_mut()[at..at + length].fill(0);
            self.words(at, length, input);
        }
        let failed = input.rarely();
        let status = if failed { CompletionStatus::WorkRequestFlushed } else { CompletionStatus::Success };
        self.handle(Event::Done { tag: request.id, status });
    }

    /// Overwrites some words of a part of the memory with data of the input.
    fn words(&mut self, at: usize, length: usize, input: &mut Input<'_>) {
        for _ in 0..input.byte() % 8 {
            let place = at + 8 * (usize::from(input.half()) % (length / 8).max(1));
            let number = match input.byte() % 4 {
                0 => input.long(),
                1 => u64::from(input.byte()),
                2 => u64::MAX - u64::from(input.byte()),
                _ => 1 << (input.byte() % 64),
            };
            if let Some(word) = self.memory.image_mut().get_mut(place..place + 8) {
                word.copy_from_slice(&number.to_be_bytes());
            }
        }
    }

    /// A peer requests a connection or grants one that was requested; its message also says which nodes it
    /// considers alive.
    fn connect(&mut self, from: NodeId, purposes: &[u8], input: &mut Input<'_>) {
        let choice = usize::from(input.byte());
        let asked = self.asked.get(choice % self.asked.len().max(1)).filter(|_| input.coin()).copied();
        let first = u64::from(FOUNDERS.0) << 32;
        let (from, group, number) =
            asked.unwrap_or((from, input.one_of(purposes), first + u64::from(input.byte())));
        let number = input.near(number);
        let control = match asked {
            Some(_) => {
                let incarnation = input.near(FOUNDERS.0.into()) as u32;
                Control::Granted(Granted { group, number, incarnation })
            }
            None => {
                let psn = u32::from(input.half());
                Control::Request(Request { group, number, connection: input.near(first + 1), psn })
            }
        };
        let mut payload = control.encode(&mut [0; 24]).to_vec();
        let mut kind = control.kind();
        if group == DATA {
            kind += CONNECT - REQUEST;
            payload.extend((0..8).flat_map(|_| (input.near(FOUNDERS.0.into()) as u32).to_be_bytes()));
        }
        let message = Message { kind, payload: &payload };
        self.handle(Event::Deliver { from, message, last: true });
    }

    fn run(mut self, mut input: Input<'_>, purposes: &[u8], may_write: fn(&E) -> bool) {
        for &group in purposes {
            for peer in 1..NODES {
                let number = u32::from(group) << 4 | peer as u32;
                let wiring = Wiring {
                    request: QueuePairNumber(0x1000 | number),
                    respond: QueuePairNumber(0x2000 | number),
                    local_address: 0,
                    lkey: 1,
                    remote_address: 0,
                    rkey: 1,
                    call_rkey: 2,
                    path_mtu: 1_024,
                };
                let payload = Wire { group, peer, wiring }.encode();
                let message = Message { kind: WIRE, payload: &payload };
                self.handle(Event::Call { caller: Caller::Host(1), message, last: true });
            }
        }
        let (own, all) = (NodeId::new(0).expect("node 0"), NodeSet::first(NODES));
        let this = NodeSet::EMPTY.with(own);
        let view = match input.coin() {
            false => View { epoch: FOUNDERS, full: all, joining: NodeSet::EMPTY },
            true => View { epoch: Epoch(2), full: all.without(own), joining: this },
        };
        let configuration = Configuration { node: own, view, lease_until: Instant::FAR_FUTURE };
        self.handle(Event::Configure(configuration));
        let mut steps = 0;
        while !input.is_empty() && steps < 400 {
            steps += 1;
            let kind = input.byte();
            let from = NodeId::new(usize::from(input.byte()) % (NODES + 1)).expect("a few nodes");
            match kind % 8 {
                7 if kind & 8 == 0 => self.connect(from, purposes, &mut input),
                0 | 1 => {
                    self.now += Duration::from_us(1 + u64::from(input.byte()));
                    self.handle(Event::Timer { tag: u32::from(kind >> 3) % 2 });
                }
                2 | 3 => self.end(&mut input),
                4 if may_write(&self.engine) => {
                    let length = self.memory.image().len();
                    let at = usize::from(input.half()) * 8 % length;
                    self.words(at, 512.min(length - at), &mut input);
                }
                choice => {
                    // Valid lengths, and numbers of the current incarnation.
                    let length = input.one_of(&[16, 24, 48, 56, 64, 32, 8, 12]);
                    let mut payload = vec![0; length];
                    let given = input.bytes(length);
                    payload[..given.len()].copy_from_slice(given);
                    let of_kind = input.byte();
                    let message = Message { kind: of_kind % 64, payload: &payload };
                    self.handle(match choice {
                        5 => Event::Call { caller: Caller::Host(1), message, last: true },
                        6 => {
                            let message = Message { kind: 240 + of_kind % 4, payload: &payload };
                            Event::Call {
                                caller: Caller::QueuePair(QueuePairNumber(0x2001)),
                                message,
                                last: true,
                            }
                        }
                        _ => Event::Deliver { from, message, last: true },
                    });
                }
            }
        }
    }
}
