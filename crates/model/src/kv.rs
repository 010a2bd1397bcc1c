//! Model checking of the key-value store, as [`weft_kv`] implements it: three nodes, two clients that call a few
//! operations on two keys, and an adversary.
//!
//! The nodes are the real engines, with their memory. Every message that was ever sent may arrive at any time, any
//! number of times, or never. So messages are lost, duplicated and reordered in all ways. The adversary also decides
//! when a client begins an operation, and at which node; when the membership service removes a node, or makes one that
//! joins a full member; which view a node learns of, and when; and when timers fire. Its actions are limited by
//! budgets; within these limits all behaviours are tried.
//!
//! An operation's first request arrives as soon as the client begins it, and each reply as soon as it was sent. Later
//! arrivals add nothing: they would only let more orders explain the answers. What does matter is that a request may
//! arrive again, at any node, even long after the operation was answered.
//!
//! Of the membership service the model keeps what the protocol relies on: there is one sequence of views; a view
//! without a node is published after that node's lease has ended; one full member always stays; a node that joins
//! becomes full once it has reported that it has all data. A crashed node is one to which nothing happens, so crashes
//! need no separate action. With a node that joins there are millions of states: that check is part of `make nightly`.

mod clients;
mod world;

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;
use stateright::{Model, Property};
use weft_kv::message::{Acknowledge, Commit, Kind, Sealed, StateChunk, StateRequest, Write as Replicated};
use weft_kv::{Parameters, Role};
use weft_time::Duration;

use crate::exhaustive::{Explore, Path, Properties};
use clients::CLIENTS;
pub use clients::{Call, Key, Programs};
pub use world::{Datagram, World};
use world::{Steps, node};

const NODES: usize = 3;

const LINEARIZABLE: &str = "answers are linearizable";
const REPEATABLE: &str = "an update has one answer";
const ALIVE: &str = "no full member is lost";
const BOTH_END: &str = "both clients have all answers";

/// Limits of the adversary's actions, and what the clients call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Budgets {
    /// The operations of each client, which it calls one after the other.
    pub programs: Programs,
    /// Number of times that a request arrives again.
    pub repeats: u8,
    /// Whether node 2 has lost its data and joins when the clients begin.
    pub joins: bool,
    /// Number of nodes that are removed.
    pub removals: u8,
    /// Number of timers that fire.
    pub timers: u8,
}

/// Parameters of an exhaustive check.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// Limits on what the adversary and the clients may do.
    pub budgets: Budgets,
    parameters: Parameters,
    steps: Steps,
}

/// The checks that `weft check kv` runs.
pub fn suite() -> Vec<Exploration> {
    use Call::{Create, Delete, Get, Put};
    use Key::{A, B};
    let none =
        Budgets { programs: [&[(Put, A)], &[(Get, A)]], repeats: 0, joins: false, removals: 0, timers: 0 };
    let budgets = [
        Budgets { programs: [&[(Put, A), (Delete, A)], &[(Get, A)]], repeats: 1, ..none },
        Budgets { timers: 2, ..none },
        Budgets { programs: [&[(Put, A)], &[(Get, A), (Get, A)]], removals: 1, ..none },
        Budgets { repeats: 1, removals: 1, ..none },
        Budgets { programs: [&[(Create, A)], &[(Create, A)]], removals: 1, ..none },
        Budgets { programs: [&[(Put, A), (Get, B)], &[(Put, B)]], removals: 1, ..none },
        Budgets { removals: 2, ..none },
    ];
    budgets.map(Exploration::new).into()
}

/// An action of the adversary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client begins its next operation: the request arrives at a node.
    Begin {
        /// The client.
        client: usize,
        /// The node.
        node: usize,
    },
    /// The request of an operation that was begun arrives again.
    Repeat {
        /// The client.
        client: usize,
        /// Place of the operation in the client's program.
        place: usize,
        /// The node.
        node: usize,
    },
    /// A message arrives.
    Deliver(Arc<Datagram>),
    /// A timer fires.
    Fire {
        /// The node that has set it.
        node: usize,
        /// Its tag.
        tag: u32,
    },
    /// A node learns of a view.
    Learn {
        /// The node.
        node: usize,
        /// Place of the view among those that were published.
        view: usize,
    },
    /// The lease of a node ends, and the next view is without it.
    Remove {
        /// The node.
        node: usize,
    },
    /// The next view makes a node that has all data a full member.
    Promote {
        /// The node.
        node: usize,
    },
}

impl Exploration {
    /// A check with these limits.
    pub fn new(budgets: Budgets) -> Self {
        let parameters = Parameters {
            key_bytes: 8,
            value_bytes_max: 8,
            buckets: weft_kv::PARTITIONS,
            ways: 1,
            window: 2,
            waiting_reads: 2,
            sessions: CLIENTS,
            retransmit: Duration::from_ps(1),
            retransmit_max: Duration::from_ps(1),
            ..Parameters::default()
        };
        Self { budgets, parameters, steps: Steps::default() }
    }
}

impl Explore for Exploration {
    type Budgets = Budgets;
    const PROPERTIES: Properties =
        Properties { always: &[LINEARIZABLE, REPEATABLE, ALIVE], both_succeed: BOTH_END };

    fn budgets(&self) -> Budgets {
        self.budgets
    }

    fn trace(path: &Path<Self>) -> String {
        let mut text = String::new();
        for (world, action) in path {
            match action {
                Some(Action::Begin { client, node }) => {
                    let place = world.clients.begun(*client);
                    let (call, key) = world.budgets.programs[*client][place];
                    writeln!(text, "client {client} to node {node}: request {}, {call} {key}", place + 1)
                }
                Some(Action::Repeat { client, place, node }) => {
                    writeln!(text, "client {client} to node {node}: request {} again", place + 1)
                }
                Some(Action::Deliver(datagram)) => {
                    let Datagram { from, to, kind, payload } = &**datagram;
                    writeln!(text, "node {from} to node {to}: {}", describe(*kind, payload))
                }
                Some(Action::Learn { node, view }) => {
                    writeln!(text, "node {node} learns of {:?}", world.views[*view])
                }
                Some(action) => writeln!(text, "{action:?}"),
                None => write!(text, "{}", world.clients.describe(&world.budgets.programs)),
            }
            .expect("text grows");
        }
        text
    }
}

fn describe(kind: u8, payload: &[u8]) -> String {
    match kind {
        kind if kind == Kind::Write as u8 => format!("{:?}", Replicated::parse(payload, 8)),
        kind if kind == Kind::Acknowledge as u8 => format!("{:?}", Acknowledge::parse(payload)),
        kind if kind == Kind::Commit as u8 => format!("{:?}", Commit::parse(payload)),
        kind if kind == Kind::Sealed as u8 => format!("{:?}", Sealed::parse(payload)),
        kind if kind == Kind::StateRequest as u8 => format!("{:?}", StateRequest::parse(payload)),
        kind if kind == Kind::StateChunk as u8 => format!("{:?}", StateChunk::parse(payload)),
        kind => format!("message of kind {kind}"),
    }
}

impl Model for Exploration {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.steps, &self.parameters, self.budgets)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let left = &world.budgets;
        actions.extend(world.datagrams.iter().cloned().map(Action::Deliver));
        // Clients call updates at nodes that lead the key, now or in an earlier view.
        let nodes = |(call, key): (Call, Key)| {
            let leaders = world.leaders(key);
            (0..NODES).filter(move |index| call.reads() || leaders.contains(node(*index)))
        };
        for client in 0..CLIENTS {
            let program = left.programs[client];
            if let Some(place) = world.clients.next(&left.programs, client) {
                actions.extend(nodes(program[place]).map(|node| Action::Begin { client, node }));
            }
            let begun = if left.repeats > 0 { world.clients.begun(client) } else { 0 };
            for (place, call) in program[..begun].iter().enumerate() {
                actions.extend(nodes(*call).map(|node| Action::Repeat { client, place, node }));
            }
        }
        let newest = world.newest();
        for index in 0..NODES {
            for (place, view) in world.views.iter().enumerate() {
                if world.can_learn(index, view) {
                    actions.push(Action::Learn { node: index, view: place });
                }
            }
            let is_member = newest.members().contains(node(index));
            if left.removals > 0 && is_member && !newest.full.without(node(index)).is_empty() {
                actions.push(Action::Remove { node: index });
            }
            if world.is_synced(index) {
                actions.push(Action::Promote { node: index });
            }
            if left.timers > 0 {
                actions.extend(world.timers(index).map(|tag| Action::Fire { node: index, tag }));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let steps = &self.steps;
        match action {
            Action::Begin { client, node } => world.after(|next| {
                let place = next.clients.begun(client);
                next.clients.begin(client);
                next.call(steps, client, place, node);
            }),
            Action::Repeat { client, place, node } => world.after(|next| {
                next.budgets.repeats -= 1;
                next.call(steps, client, place, node);
            }),
            Action::Deliver(datagram) => world.deliver(steps, datagram),
            Action::Fire { node, tag } => world.after(|next| {
                next.budgets.timers -= 1;
                next.fire(steps, node, tag);
            }),
            Action::Learn { node, view } => world.after(|next| next.learn(steps, node, world.views[view])),
            Action::Remove { node } => world.after(|next| {
                next.budgets.removals -= 1;
                next.remove(steps, node);
            }),
            Action::Promote { node } => world.after(|next| next.promote(node)),
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(LINEARIZABLE, |_, world: &World| world.clients.is_linearizable()),
            Property::always(REPEATABLE, |_, world: &World| world.clients.is_repeatable()),
            Property::always(ALIVE, |_, world: &World| {
                world.newest().full.iter().all(|node| world.nodes[node.index()].kv().role() != Role::Lost)
            }),
            Property::sometimes(BOTH_END, |model: &Self, world: &World| {
                (0..CLIENTS).all(|client| world.clients.has_ended(&model.budgets.programs, client))
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Budgets = Budgets {
        programs: [&[(Call::Put, Key::A)], &[(Call::Get, Key::A)]],
        repeats: 0,
        joins: false,
        removals: 1,
        timers: 0,
    };

    #[test]
    fn a_read_beside_a_write_and_a_removal() {
        let explored = Exploration::new(SMALL).run(2, |_| {});
        assert!(explored.violations.is_empty(), "{}", explored.violations[0].1);
        assert!(explored.both_succeed && explored.states > 1_000, "{}", explored.states);
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn planted_bugs_are_found() {
        use weft_kv::PlantedBug;
        let repeated = Budgets { repeats: 1, removals: 0, ..SMALL };
        for (bug, budgets, property) in [
            (PlantedBug::AcknowledgeBeforeReplicating, SMALL, LINEARIZABLE),
            (PlantedBug::StaleReadAtFollower, SMALL, LINEARIZABLE),
            (PlantedBug::LostUpdateOnFailover, SMALL, LINEARIZABLE),
            (PlantedBug::EpochNotChecked, SMALL, LINEARIZABLE),
            (PlantedBug::DuplicateApply, repeated, REPEATABLE),
        ] {
            let mut check = Exploration::new(budgets);
            check.parameters.planted_bug = Some(bug);
            let explored = check.run(2, |_| {});
            let found: Vec<_> = explored.violations.iter().map(|(property, _)| *property).collect();
            println!("{bug:?}: {} states, {} s, {found:?}", explored.states, explored.seconds);
            assert!(found.contains(&property), "{bug:?} went unnoticed");
        }
    }

    #[test]
    #[ignore = "takes minutes; part of `make nightly`"]
    fn a_node_joins_beside_a_write_and_a_read() {
        let programs: Programs = [&[(Call::Put, Key::A), (Call::Get, Key::A)], &[]];
        let explored =
            Exploration::new(Budgets { programs, joins: true, removals: 0, ..SMALL }).run(2, |_| {});
        println!("{} states, {} s", explored.states, explored.seconds);
        assert!(explored.violations.is_empty(), "{}", explored.violations[0].1);
        assert!(explored.both_succeed);
    }
}
