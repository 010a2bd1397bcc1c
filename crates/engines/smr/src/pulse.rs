//! Failure detection by pull-score heartbeats (Mu, section 5.1): nodes read counters in the memory of the others.
//!
//! ```text
//! 0     own block: 0 counter(8)  8 could lead(4) incarnation(4)  16 applied entries of group 0 to 5 (8 each)
//!       could lead: one bit for each group
//! 64    for each peer its block as read
//! ```
//!
//! Every period a node increments its counter and READs the counters of the others. It keeps a score from 0 to 15
//! for each: plus one when the counter has moved, minus one when it has not, or when a READ does not complete. A
//! node whose score falls below 2 is dead, one whose score rises above 6 is alive; in between, nothing changes. A
//! replica that could not lead says so in a bit beside its counter, so that the next one leads at once. Its
//! counter goes on, so that the others still wait until it has applied entries. (In Mu such a replica stops its
//! counter: fate-sharing.)

use weft_time::{Duration, Instant};
use weft_verbs::CompletionStatus;
use weft_waist::{Effects, Memory, NodeSet};

use crate::layout::put;
use crate::link::{Ended, Link, State, Transfer, Wiring, tag, tagged};
use crate::message::{self, Control, Granted, PULSE, Request, node, send};
use crate::parameters::NODES_MAX;
use crate::slot::word;

/// The most groups of an engine: a block has room for the applied lengths of so many.
pub const GROUPS_MAX: usize = 6;

const BLOCK: usize = 64;
const SCORE_MAX: u8 = 15;
/// A node whose score is above this is alive.
const ALIVE: u8 = 6;
/// A node whose score is below this is dead.
const DEAD: u8 = 2;

/// Parameters of heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PulseParameters {
    /// Number of nodes, 1 to 8.
    pub nodes: usize,
    /// Time from one increment to the next.
    pub period: Duration,
    /// Number of periods after which a READ counts as missed.
    pub patience: u8,
    /// Time until an unanswered request for a connection is repeated.
    pub retry: Duration,
}

impl Default for PulseParameters {
    /// A period of 750 ns, and up to 4.5 us for a READ.
    fn default() -> Self {
        Self { nodes: 3, period: Duration::from_ns(750), patience: 6, retry: Duration::from_us(20) }
    }
}

/// What this node has recorded about a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Peer {
    score: u8,
    /// Whether the peer could lead, one bit per group.
    could_lead: u8,
    counter: u64,
    /// Number of periods since the outstanding READ was posted.
    waited: u8,
    /// Number of the peer's latest request for a connection.
    seen: u64,
    connection: u64,
}

/// A peer's report beside its heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Incarnation of the peer.
    pub incarnation: u32,
    /// Number of entries that the peer has applied, by group.
    pub applied: [u64; GROUPS_MAX],
}

/// The heartbeats of a node, shared by all groups of its engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pulse {
    parameters: PulseParameters,
    base: usize,
    node: usize,
    incarnation: u32,
    started: bool,
    counter: u64,
    wirings: [Option<Wiring>; NODES_MAX],
    links: Vec<Link<()>>,
    peers: [Peer; NODES_MAX],
    alive: NodeSet,
}

impl Pulse {
    /// The heartbeats of a node that is not started yet. Their memory begins at offset `memory_base` of the
    /// engine's memory, a multiple of 64.
    pub fn new(parameters: PulseParameters, memory_base: usize) -> Self {
        assert!((1..=NODES_MAX).contains(&parameters.nodes) && memory_base.is_multiple_of(BLOCK));
        Self {
            parameters,
            base: memory_base,
            node: 0,
            incarnation: 0,
            started: false,
            counter: 0,
            wirings: [None; NODES_MAX],
            links: (0..parameters.nodes).map(|_| Link::new(2)).collect(),
            peers: [Peer::default(); NODES_MAX],
            alive: NodeSet::EMPTY,
        }
    }

    /// Bytes of memory that the heartbeats take, a multiple of 64.
    pub fn memory_bytes(parameters: &PulseParameters) -> usize {
        BLOCK * (1 + parameters.nodes)
    }

    /// Sets the connection to a peer.
    pub fn wire(&mut self, peer: usize, wiring: Wiring) {
        self.wirings[peer] = Some(wiring);
    }

    /// Whether the connections to all peers are set.
    pub fn is_wired(&self, node: usize) -> bool {
        (0..self.parameters.nodes).all(|peer| peer == node || self.wirings[peer].is_some())
    }

    /// Starts the heartbeats of node `node` as this incarnation. A founder assumes that all other nodes are alive;
    /// any other node assumes that none is.
    ///
    /// # Panics
    /// If the node is not wired.
    pub fn start(&mut self, node: usize, incarnation: u32, founding: bool, memory: &mut Memory) {
        assert!(self.is_wired(node));
        (self.node, self.incarnation, self.started) = (node, incarnation, true);
        self.links.iter_mut().for_each(|link| link.start(incarnation));
        put(memory, self.base + 8, incarnation.into());
        let score = if founding { SCORE_MAX } else { 0 };
        for peer in self.others() {
            self.peers[peer].score = score;
            self.peers[peer].could_lead = if founding { u8::MAX } else { 0 };
        }
        let all = NodeSet::first(self.parameters.nodes).without(message::node(node));
        self.alive = if founding { all } else { NodeSet::EMPTY };
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.node;
        (0..self.parameters.nodes).filter(move |&peer| peer != own)
    }

    /// The peers that are alive.
    pub fn alive(&self) -> NodeSet {
        self.alive
    }

    /// Live peers that could lead this group.
    pub fn candidates(&self, group: u8) -> NodeSet {
        let could_lead = |peer: &weft_waist::NodeId| self.peers[peer.index()].could_lead >> group & 1 != 0;
        self.alive.iter().filter(could_lead).collect()
    }

    /// Score of a peer's liveness, 0 to 15.
    pub fn score(&self, peer: usize) -> u8 {
        self.peers[peer].score
    }

    /// Publishes in the node's block how many entries of a group this node has applied.
    pub fn set_applied(&self, group: u8, applied: u64, memory: &mut Memory) {
        put(memory, self.base + 16 + 8 * usize::from(group), applied);
    }

    /// The last report of a peer.
    pub fn heads(&self, peer: usize, memory: &Memory) -> Heads {
        let block = &memory.image()[self.inbox(peer)..][..BLOCK];
        Heads {
            incarnation: word(block, 8) as u32,
            applied: std::array::from_fn(|group| word(block, 16 + 8 * group)),
        }
    }

    fn inbox(&self, peer: usize) -> usize {
        self.base + BLOCK * (1 + peer)
    }

    /// Handles a period of the timer. `could_lead` has a bit for each group. Returns whether the set of live peers
    /// has changed.
    pub fn tick(&mut self, now: Instant, could_lead: u8, effects: &mut Effects, memory: &mut Memory) -> bool {
        if !self.started {
            return false;
        }
        self.counter += 1;
        put(memory, self.base, self.counter);
        put(memory, self.base + 8, u64::from(could_lead) << 32 | u64::from(self.incarnation));
        for index in self.others() {
            let wiring = self.wirings[index].as_ref().expect("a started pulse is wired");
            let (peer, link) = (&mut self.peers[index], &mut self.links[index]);
            if link.state == State::Up && link.outstanding() == 0 {
                let to = self.base + BLOCK * (1 + index);
                let transfer = Transfer::Read { from: self.base, to, bytes: BLOCK };
                link.post((), transfer, tag(PULSE, index), wiring, effects);
                peer.waited = 0;
                continue;
            }
            peer.waited = peer.waited.saturating_add(1);
            if peer.waited > self.parameters.patience {
                peer.score = peer.score.saturating_sub(1);
            }
            if link.state != State::Up && now >= link.asked_at + self.parameters.retry {
                let request = link.ask(now, PULSE, wiring, effects);
                send(index, &Control::Request(request), effects);
            }
        }
        self.judge()
    }

    /// Computes the set of live peers from the scores. Returns whether it has changed.
    fn judge(&mut self) -> bool {
        let mut alive = self.alive;
        for peer in self.others() {
            match self.peers[peer].score {
                ..DEAD => alive = alive.without(node(peer)),
                score if score > ALIVE => alive = alive.with(node(peer)),
                _ => {}
            }
        }
        alive != std::mem::replace(&mut self.alive, alive)
    }

    /// Handles a message of a peer.
    pub fn deliver(&mut self, from: usize, message: &Control, effects: &mut Effects) {
        if !self.started || from >= self.parameters.nodes || from == self.node {
            return;
        }
        match message {
            Control::Request(request) => self.requested(from, request, effects),
            Control::Granted(granted) => {
                self.links[from].granted(granted.number);
            }
        }
    }

    fn requested(&mut self, from: usize, request: &Request, effects: &mut Effects) {
        let peer = &mut self.peers[from];
        if request.number <= peer.seen {
            return;
        }
        peer.seen = request.number;
        if std::mem::replace(&mut peer.connection, request.connection) != request.connection {
            let wiring = self.wirings[from].as_ref().expect("a started pulse is wired");
            // A new connection permits READs, and heartbeats need nothing else.
            effects.connect(wiring.respond, 0, request.psn);
        }
        let granted = Granted { group: PULSE, number: request.number, incarnation: self.incarnation };
        send(from, &Control::Granted(granted), effects);
    }

    /// Handles a completion. Returns whether the set of live peers, or of those that could lead, has changed. Tags
    /// of groups are ignored.
    pub fn done(&mut self, tag: u64, status: CompletionStatus, memory: &Memory) -> bool {
        let (group, index) = tagged(tag);
        if group != PULSE || index >= self.links.len() {
            return false;
        }
        let mut changed = false;
        if let Ended::Done(()) = self.links[index].done(tag, status) {
            let counter = word(memory.image(), self.inbox(index));
            let could_lead = (word(memory.image(), self.inbox(index) + 8) >> 32) as u8;
            let peer = &mut self.peers[index];
            let moved = counter != std::mem::replace(&mut peer.counter, counter);
            changed = could_lead != std::mem::replace(&mut peer.could_lead, could_lead);
            peer.score = if moved { (peer.score + 1).min(SCORE_MAX) } else { peer.score.saturating_sub(1) };
        }
        self.judge() || changed
    }
}
