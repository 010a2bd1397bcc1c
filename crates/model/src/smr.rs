//! Model checking of Mu, as [`weft_smr`] implements it: three replicas, two of which lead, a few entries, and an
//! adversary.
//!
//! The replicas are the real groups, with their memory. The network between them guarantees only what verbs
//! guarantee: the requests on one connection are executed in order, each atomically, if its sender has the
//! permission at that time; datagrams arrive in any order or not at all. The adversary decides when messages
//! arrive, which replica each one takes for the leader, which connections fail, and where a WRITE is cut off
//! because its sender dies. Its actions are limited by budgets, and so is the length of the log; within these
//! limits all behaviours are tried.
//!
//! A crashed replica is one to which nothing happens any more, so crashes need no separate action.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::hash::{Hash, Hasher};

use serde::Serialize;
use stateright::{Model, Property};
use weft_smr::message::Control;
use weft_smr::{Delivery, Group, Parameters, Ports, StateMachine, Wiring};
use weft_time::Instant;
use weft_verbs::{AccessFlags, CompletionStatus, Operation, QueuePairNumber, WorkRequest};
use weft_waist::{Effect, Effects, Memory, NodeId, NodeSet};

use crate::exhaustive::{Explore, Path, Properties};

const NODES: usize = 3;
/// The replicas that may lead.
const LEADERS: usize = 2;
/// Offset at which a WRITE is cut: behind the header of a slot and a part of its entry.
const CUT: usize = 36;

const AGREEMENT: &str = "agreement";
const VALIDITY: &str = "validity";
const ANSWERED: &str = "answered is decided";
const BOTH_DECIDE: &str = "both leaders decide";

/// Limits of the adversary's actions and of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Budgets {
    /// Number of entries that each leader proposes.
    pub entries: u8,
    /// Number of times that a replica changes which leader it follows.
    pub changes: u8,
    /// Number of connections that fail.
    pub failures: u8,
    /// Number of WRITEs that are cut off; their senders stop.
    pub cuts: u8,
    /// Number of times that a leader repeats requests for permissions that it lacks.
    pub retries: u8,
}

/// Parameters of an exhaustive check.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// Limits on what the adversary and the leaders may do.
    pub budgets: Budgets,
    parameters: Parameters,
}

/// The checks that `weft check smr` runs.
pub fn suite() -> Vec<Exploration> {
    let budgets = |entries, changes, failures, cuts, retries| {
        Exploration::new(Budgets { entries, changes, failures, cuts, retries })
    };
    vec![budgets(1, 2, 0, 0, 0), budgets(1, 1, 1, 0, 0), budgets(1, 2, 0, 1, 0), budgets(2, 2, 0, 0, 0)]
}

/// The entries applied at a replica: index and content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Applied {
    entries: Vec<(u64, Vec<u8>)>,
    /// Those of them that were answered.
    answered: Vec<(u64, Vec<u8>)>,
}

impl StateMachine for Applied {
    fn apply(&mut self, index: u64, entry: &[u8], ticket: Option<u64>, _: &mut Effects) -> bool {
        self.entries.push((index, entry.to_vec()));
        if ticket.is_some() {
            self.answered.push((index, entry.to_vec()));
        }
        true
    }

    fn abandoned(&mut self, _: u64, _: &mut Effects) {}

    fn snapshot(&mut self, _: u64, _: &mut [u8]) -> usize {
        unreachable!("the log is long enough")
    }

    fn restore(&mut self, _: u64, _: &[u8], _: &mut Effects) -> bool {
        unreachable!("the log is long enough")
    }
}

/// An outstanding request, with its poster's connection number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Posted {
    connection: u32,
    request: WorkRequest,
}

impl Hash for Posted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.connection, self.request.id).hash(state);
    }
}

/// The connection for one replica's requests to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Connection {
    /// Numbers of the connection for which the requester's and the responder's ends are connected; 0 for none.
    /// Requests pass only if they are equal.
    requester: u32,
    responder: u32,
    may_write: bool,
    posted: VecDeque<Posted>,
}

#[derive(Clone, Debug)]
struct Replica {
    group: Group,
    memory: Memory,
    applied: Applied,
    proposed: u8,
    /// Whether the replica believes that the first leader is alive; at the first leader, whether it wants to lead.
    first_leads: bool,
    stopped: bool,
}

impl Replica {
    fn key(&self) -> (&Group, &[u8], &Applied, u8, bool, bool) {
        let Self { group, memory, applied, proposed, first_leads, stopped } = self;
        (group, memory.image(), applied, *proposed, *first_leads, *stopped)
    }
}

impl Hash for Replica {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq for Replica {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

/// The replicas and the network between them.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct World {
    replicas: [Replica; NODES],
    /// Indexed by requester and responder.
    connections: [[Connection; NODES]; NODES],
    datagrams: BTreeSet<(usize, usize, Vec<u8>, u8)>,
    budgets: [u8; 4],
    now: u64,
}

/// An action of the adversary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A datagram arrives.
    Deliver {
        /// Node that sent it.
        from: usize,
        /// Node that receives it.
        to: usize,
        /// Content of the datagram.
        payload: Vec<u8>,
        /// Kind of the message.
        kind: u8,
    },
    /// The next request of a connection is executed, and completes at its requester.
    CarryOut {
        /// Node that posted the request.
        from: usize,
        /// Node whose memory is accessed.
        to: usize,
    },
    /// A connection fails, with all requests outstanding on it.
    Fail {
        /// Node at the requester's end.
        from: usize,
        /// Node at the responder's end.
        to: usize,
    },
    /// The next request of a connection is executed in part; its requester stops.
    Cut {
        /// Node that posted the request.
        from: usize,
        /// Node whose memory is accessed.
        to: usize,
    },
    /// A replica changes which leader it follows.
    Change {
        /// The replica that changes its leader.
        node: usize,
    },
    /// A leader proposes its next entry.
    Propose {
        /// The replica that leads.
        node: usize,
    },
    /// A leader repeats its requests for permissions that it lacks.
    Retry {
        /// The replica that requests permissions.
        node: usize,
    },
}

fn node(index: usize) -> NodeId {
    NodeId::new(index).expect("there are three")
}

fn entry(leader: usize, number: u8) -> Vec<u8> {
    vec![1 + leader as u8 * 16 + number; 12]
}

impl Exploration {
    /// A check with these limits.
    #[allow(clippy::needless_update, reason = "with planted bugs there is a field more")]
    pub fn new(budgets: Budgets) -> Self {
        let parameters = Parameters {
            nodes: NODES,
            slots: 8,
            slot_bytes: 64,
            window: 2,
            snapshot_bytes: 0,
            delivery: Delivery::WriteThrough,
            retry: weft_time::Duration::from_ps(1),
            patience: weft_time::Duration::from_secs(1),
            ..Parameters::default()
        };
        Self { budgets, parameters }
    }
}

impl Explore for Exploration {
    type Budgets = Budgets;
    const PROPERTIES: Properties =
        Properties { always: &[AGREEMENT, VALIDITY, ANSWERED], both_succeed: BOTH_DECIDE };

    fn budgets(&self) -> Budgets {
        self.budgets
    }

    fn trace(path: &Path<Self>) -> String {
        let mut text = String::new();
        for (world, action) in path {
            match action {
                Some(Action::Deliver { from, to, payload, kind }) => {
                    let control = Control::parse(*kind, payload);
                    writeln!(text, "node {from} to node {to}: {control:?}")
                }
                Some(Action::CarryOut { from, to }) => {
                    let what =
                        world.connections[*from][*to].posted.front().map(|posted| describe(&posted.request));
                    writeln!(text, "node {from} at node {to}: {}", what.unwrap_or_default())
                }
                Some(action) => writeln!(text, "{action:?}"),
                None => {
                    let applied = world.replicas.iter().map(|replica| &replica.applied.entries);
                    writeln!(text, "applied: {:?}", applied.collect::<Vec<_>>())
                }
            }
            .expect("text grows");
        }
        text
    }
}

fn describe(request: &WorkRequest) -> String {
    match request.operation {
        Operation::Write { remote, .. } => {
            format!("write {} bytes to {}", request.local.length, remote.address)
        }
        Operation::Read { remote } => format!("read {} bytes from {}", request.local.length, remote.address),
        other => format!("{other:?}"),
    }
}

impl World {
    fn new(parameters: &Parameters) -> Self {
        let replica = |index: usize| {
            let mut group = Group::new(parameters, 0, 0);
            for peer in (0..NODES).filter(|peer| *peer != index) {
                let wiring = Wiring {
                    request: QueuePairNumber(peer as u32),
                    respond: QueuePairNumber(16 + peer as u32),
                    local_address: 0,
                    lkey: 1,
                    remote_address: 0,
                    rkey: 1,
                    call_rkey: 2,
                    path_mtu: 1 << 20,
                };
                group.wire(peer, wiring);
            }
            let memory = Memory::new(Group::memory_bytes(parameters));
            let applied = Applied::default();
            Replica { group, memory, applied, proposed: 0, first_leads: true, stopped: false }
        };
        let mut world = Self {
            replicas: std::array::from_fn(replica),
            connections: Default::default(),
            datagrams: BTreeSet::new(),
            budgets: [0; 4],
            now: 0,
        };
        // The other replicas start first, so that they are running when the first leader sends its requests.
        for index in (0..NODES).rev() {
            world.act(index, |group, ports| group.start(index, 1, true, ports));
        }
        world
    }

    /// Lets a replica handle an event.
    fn act<R>(&mut self, index: usize, act: impl FnOnce(&mut Group, &mut Ports<'_>) -> R) -> R {
        let mut effects = Effects::default();
        let replica = &mut self.replicas[index];
        let now = Instant::from_ps(self.now);
        let ports = &mut Ports::new(now, &mut effects, &mut replica.memory, &mut replica.applied);
        let result = act(&mut replica.group, ports);
        replica.group.take_counters();
        replica.memory.take_accesses();
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload.to_vec();
                    for to in to.iter() {
                        self.datagrams.insert((index, to.index(), payload.clone(), *kind));
                    }
                }
                Effect::Post { queue_pair, request } => {
                    let connection = &mut self.connections[index][queue_pair.0 as usize];
                    let posted = Posted { connection: connection.requester, request: *request };
                    connection.posted.push_back(posted);
                }
                Effect::Connect { queue_pair, send_psn, receive_psn } => match queue_pair.0 {
                    peer @ 0..16 => self.connections[index][peer as usize].requester = *send_psn + 1,
                    peer => {
                        let connection = &mut self.connections[peer as usize - 16][index];
                        (connection.responder, connection.may_write) = (*receive_psn + 1, false);
                        // Requests of former connections are refused.
                        connection.posted.retain(|posted| posted.connection == *receive_psn + 1);
                    }
                },
                Effect::Access { queue_pair, access } => {
                    let connection = &mut self.connections[queue_pair.0 as usize - 16][index];
                    connection.may_write = access.contains(AccessFlags::REMOTE_WRITE);
                }
                Effect::Reply { .. } | Effect::SetTimer { .. } => {
                    unreachable!("a group answers nobody and sets no timer")
                }
                Effect::HostRead { .. } | Effect::HostWrite { .. } => {
                    unreachable!("a group leaves the host's memory alone")
                }
            }
        }
        result
    }

    /// Executes the next request of a connection; with `cut`, only its beginning.
    fn carry_out(&mut self, from: usize, to: usize, cut: bool) {
        let connection = &mut self.connections[from][to];
        let Some(posted) = connection.posted.pop_front() else { return };
        let Posted { connection: of, request } = posted;
        if connection.responder != of {
            return;
        }
        let (current, may_write) = (connection.requester == of, connection.may_write);
        let local = request.local.address as usize;
        let bytes = request.local.length as usize;
        let ok = match request.operation {
            Operation::Write { remote, immediate } if may_write => {
                let bytes = if cut { bytes.min(CUT) } else { bytes };
                let content = self.replicas[from].memory.image()[local..local + bytes].to_vec();
                let at = remote.address as usize;
                self.replicas[to].memory.image_mut()[at..at + bytes].copy_from_slice(&content);
                if immediate.is_some() && !cut {
                    self.act(to, Group::poll);
                }
                true
            }
            Operation::Read { remote } => {
                let at = remote.address as usize;
                let content = self.replicas[to].memory.image()[at..at + bytes].to_vec();
                if current {
                    self.replicas[from].memory.image_mut()[local..local + bytes].copy_from_slice(&content);
                }
                true
            }
            _ => false,
        };
        if !ok {
            let connection = &mut self.connections[from][to];
            connection.responder = 0;
            connection.posted.clear();
        }
        if current && !cut {
            self.complete(from, request.id, ok);
        }
    }

    fn complete(&mut self, index: usize, tag: u64, ok: bool) {
        let status = if ok { CompletionStatus::Success } else { CompletionStatus::WorkRequestFlushed };
        self.act(index, |group, ports| group.done(tag, status, ports));
    }

    fn change(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        replica.first_leads = !replica.first_leads;
        let first_leads = replica.first_leads;
        let all = NodeSet::first(NODES);
        if index == 0 {
            let until = if first_leads { Instant::ZERO } else { Instant::FAR_FUTURE };
            self.act(0, |group, ports| group.pause_candidacy(until, ports));
        } else {
            let candidates = if first_leads { all } else { all.without(node(0)) };
            self.act(index, |group, ports| group.view(all, candidates, ports));
        }
    }

    /// All entries that were applied or answered at any replica.
    fn all_applied(&self) -> impl Iterator<Item = &(u64, Vec<u8>)> {
        self.replicas.iter().flat_map(|replica| &replica.applied.entries)
    }
}

impl Model for Exploration {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let Budgets { changes, failures, cuts, retries, .. } = self.budgets;
        let mut world = World::new(&self.parameters);
        world.budgets = [changes, failures, cuts, retries];
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let runs = |index: usize| !world.replicas[index].stopped;
        for (from, to, payload, kind) in &world.datagrams {
            if runs(*to) {
                actions.push(Action::Deliver { from: *from, to: *to, payload: payload.clone(), kind: *kind });
            }
        }
        let [changes, failures, cuts, retries] = world.budgets;
        for from in 0..LEADERS {
            for to in 0..NODES {
                let connection = &world.connections[from][to];
                let Some(next) = connection.posted.front() else { continue };
                actions.push(Action::CarryOut { from, to });
                if !runs(from) {
                    continue;
                }
                if failures > 0 {
                    actions.push(Action::Fail { from, to });
                }
                let is_write = matches!(next.request.operation, Operation::Write { .. });
                if cuts > 0 && is_write && next.request.local.length as usize > CUT {
                    actions.push(Action::Cut { from, to });
                }
            }
            let replica = &world.replicas[from];
            if replica.group.is_leading() && replica.proposed < self.budgets.entries && runs(from) {
                actions.push(Action::Propose { node: from });
            }
            if retries > 0 && runs(from) && replica.group.role() != weft_smr::Role::Follower {
                actions.push(Action::Retry { node: from });
            }
        }
        if changes > 0 {
            actions.extend((0..NODES).filter(|index| runs(*index)).map(|node| Action::Change { node }));
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Deliver { from, to, payload, kind } => {
                let control = Control::parse(kind, &payload).expect("replicas say well-formed things");
                next.datagrams.remove(&(from, to, payload, kind));
                next.act(to, |group, ports| group.deliver(from, &control, ports));
            }
            Action::CarryOut { from, to } => next.carry_out(from, to, false),
            Action::Fail { from, to } => {
                next.budgets[1] -= 1;
                let connection = &mut next.connections[from][to];
                let failed = connection.posted.pop_front().expect("something was posted");
                let current = connection.requester == failed.connection;
                // The remaining requests are dropped. The case that some of them were executed before the failure
                // is the case of a later failure.
                connection.posted.clear();
                connection.responder = 0;
                if current {
                    next.complete(from, failed.request.id, false);
                }
            }
            Action::Cut { from, to } => {
                next.budgets[2] -= 1;
                next.replicas[from].stopped = true;
                next.carry_out(from, to, true);
                for connection in &mut next.connections[from] {
                    connection.posted.clear();
                }
            }
            Action::Change { node } => {
                next.budgets[0] -= 1;
                next.change(node);
            }
            Action::Propose { node } => {
                let replica = &mut next.replicas[node];
                let number = replica.proposed;
                replica.proposed += 1;
                let entry = entry(node, number);
                let taken = next.act(node, |group, ports| group.propose(number.into(), &entry, ports));
                taken.ok()?;
            }
            Action::Retry { node } => {
                next.budgets[3] -= 1;
                next.now += 1_000;
                next.act(node, Group::tick);
            }
        }
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(AGREEMENT, |_, world: &World| {
                let mut all: Vec<_> = world.all_applied().collect();
                all.sort_unstable();
                all.dedup();
                all.windows(2).all(|pair| pair[0].0 != pair[1].0)
            }),
            Property::always(VALIDITY, |model: &Self, world: &World| {
                let proposed = |applied: &Vec<u8>| {
                    (0..LEADERS).any(|leader| {
                        (0..model.budgets.entries).any(|number| *applied == entry(leader, number))
                    })
                };
                world.all_applied().all(|(_, applied)| proposed(applied))
            }),
            Property::always(ANSWERED, |_, world: &World| {
                // An answered entry is in the logs of a majority, so no other entry may be applied at its index.
                world.replicas.iter().flat_map(|replica| &replica.applied.answered).all(
                    |(index, answered)| {
                        world.all_applied().all(|(at, applied)| at != index || applied == answered)
                    },
                )
            }),
            Property::sometimes(BOTH_DECIDE, |_, world: &World| {
                (0..LEADERS).all(|leader| !world.replicas[leader].applied.answered.is_empty())
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Budgets = Budgets { entries: 1, changes: 1, failures: 0, cuts: 0, retries: 0 };

    #[test]
    fn a_leader_and_the_next_agree() {
        let explored = Exploration::new(SMALL).run(2, |_| {});
        assert!(explored.violations.is_empty(), "{}", explored.violations[0].1);
        assert!(explored.states > 1_000, "{}", explored.states);
    }
}
