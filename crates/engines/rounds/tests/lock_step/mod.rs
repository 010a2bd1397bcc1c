//! Nodes with equal clocks: every round's messages arrive in the middle of the round, or are lost.
#![allow(dead_code)]

use weft_rounds::message::{Answer, Call, Phase, Value};
use weft_rounds::{Algorithm, Members, Parameters, Rounds, Service, Streams};
use weft_time::Instant;
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

pub fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

pub struct LockStep<A, S = Streams> {
    pub now: Instant,
    pub parameters: Parameters,
    pub nodes: Vec<Option<Rounds<A, S>>>,
    /// Messages in flight: from, to, kind, content.
    pub flights: Vec<(usize, usize, u8, Vec<u8>)>,
    /// The nodes' replies: node, caller, kind, content.
    pub replies: Vec<(usize, Caller, u8, Vec<u8>)>,
}

impl<A: Algorithm, S: Service> LockStep<A, S> {
    /// Founders in their first round, each with a subscriber.
    pub fn new(nodes: usize, parameters: Parameters) -> Self {
        let mut group = Self {
            now: Instant::ZERO,
            nodes: (0..nodes).map(|_| Some(Rounds::new(parameters.clone()))).collect(),
            parameters,
            flights: Vec::new(),
            replies: Vec::new(),
        };
        let founding = View { epoch: Epoch(1), full: NodeSet::first(nodes), joining: NodeSet::EMPTY };
        for index in 0..nodes {
            group.configure(index, founding);
            group.call(index, Call::Subscribe as u8, 0, &[]);
        }
        group.call(0, Call::Start as u8, 0, &[]);
        group.now += group.parameters.one_way;
        group.deliver(&mut |_, _| false);
        group.handle(0, Event::Timer { tag: 0 });
        group.replies.clear();
        group
    }

    pub fn configure(&mut self, index: usize, view: View) {
        let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
        self.handle(index, Event::Configure(configuration));
    }

    /// Restarts a node with empty state, and has it ask the others to add it.
    pub fn join(&mut self, index: usize, epoch: u32) {
        let engine = self.nodes[index].get_or_insert_with(|| Rounds::new(self.parameters.clone()));
        assert_ne!(engine.phase(), Phase::Running);
        let full = NodeSet::first(self.nodes.len()).without(node(index));
        self.configure(index, View { epoch: Epoch(epoch), full, joining: NodeSet::EMPTY.with(node(index)) });
    }

    pub fn call(&mut self, index: usize, kind: u8, caller: u32, payload: &[u8]) {
        let (caller, message) = (Caller::Host(caller), Message { kind, payload });
        self.handle(index, Event::Call { caller, message, last: true });
    }

    pub fn handle(&mut self, index: usize, event: Event<'_>) {
        let Some(engine) = self.nodes[index].as_mut() else { return };
        let (mut effects, mut memory) = (Effects::default(), Memory::new(0));
        engine.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut memory });
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let bytes = effects.message(*kind, payload).payload.to_vec();
                    self.flights.extend(to.iter().map(|to| (index, to.index(), *kind, bytes.clone())));
                }
                Effect::Reply { to, kind, payload } => {
                    let bytes = effects.message(*kind, payload).payload.to_vec();
                    self.replies.push((index, *to, *kind, bytes));
                }
                Effect::SetTimer { .. } => {}
                Effect::Post { .. }
                | Effect::Access { .. }
                | Effect::Connect { .. }
                | Effect::HostRead { .. }
                | Effect::HostWrite { .. } => {
                    panic!("the engine has no queue pairs and leaves the host's memory alone")
                }
            }
        }
    }

    /// Delivers all messages in flight, except those that are lost.
    pub fn deliver(&mut self, lost: &mut dyn FnMut(usize, usize) -> bool) {
        for (from, to, kind, payload) in std::mem::take(&mut self.flights) {
            if !lost(from, to) {
                let message = Message { kind, payload: &payload };
                self.handle(to, Event::Deliver { from: node(from), message, last: true });
            }
        }
    }

    /// Runs rounds: delivers each round's messages, then ends it.
    pub fn rounds(&mut self, count: u64, mut lost: impl FnMut(usize, usize) -> bool) {
        for _ in 0..count {
            self.deliver(&mut lost);
            self.now += self.parameters.period;
            for index in 0..self.nodes.len() {
                self.handle(index, Event::Timer { tag: 0 });
            }
        }
    }

    pub fn phase(&self, index: usize) -> Phase {
        self.nodes[index].as_ref().unwrap().phase()
    }

    pub fn members(&self, index: usize) -> Members {
        self.nodes[index].as_ref().unwrap().membership().members()
    }

    /// The decisions that a node's subscriber got: instance, proposer, content.
    pub fn told(&self, index: usize) -> Vec<(u64, usize, Vec<u8>)> {
        let own =
            self.replies.iter().filter(|(node, _, kind, _)| (*node, *kind) == (index, Call::Decided as u8));
        own.map(|(.., bytes)| Value::parse(bytes, self.parameters.value_bytes).unwrap())
            .map(|value| (value.instance, value.proposer, value.proposal.bytes.to_vec()))
            .collect()
    }

    /// A node's answers to calls.
    pub fn answers(&self, index: usize) -> Vec<Answer> {
        let own =
            self.replies.iter().filter(|(node, _, kind, _)| (*node, *kind) == (index, Call::Answer as u8));
        own.map(|(.., bytes)| Answer::parse(bytes).unwrap()).collect()
    }
}
