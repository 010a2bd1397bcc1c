//! Model checking of the register, as [`weft_register`] implements it: three coordinators, two proposers, a few
//! operations, and an adversary.
//!
//! Coordinators and proposers are the real state machines. Every request that was ever sent may arrive at any time,
//! any number of times, or never. So requests are lost, doubled and reordered in all ways. The adversary also decides
//! when an operation begins, when a proposer's wait ends, when it gives an operation up, and when a coordinator
//! restarts from its disk. The number of operations and the rounds of ballots are limited; within these limits all
//! behaviours are tried.
//!
//! An answer arrives at once or never. Later arrivals add nothing: a proposer that waits does nothing that others
//! could see, so the arrival can be exchanged with all steps of others before it, and what the proposer sends then may
//! arrive late anyway. A crashed or paused process is one to which nothing happens, so neither needs a separate
//! action.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;
use stateright::{Model, Property};
use weft_register::{
    Acceptor, Answer, Ballot, Operation, Outcome, Proposer, ProposerId, ProposerParameters, Request, Value,
};
use weft_time::Instant;

use crate::exhaustive::{Explore, Path, Properties};

const COORDINATORS: usize = 3;
const PROPOSERS: usize = 2;
/// When an operation is given up. No wait ends later.
const GIVE_UP: Instant = Instant::from_ps(1 << 40);

const AGREEMENT: &str = "each version has one value";
const ANSWERED: &str = "what is answered is chosen";
const REFUSED: &str = "a conflict has no effect";
const RECENT: &str = "an answer is not older than the call";
const BOTH_SET: &str = "both proposers set a value";

/// Limits of the adversary's actions and of the proposers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Budgets {
    /// Number of compare-and-sets of each proposer. A read is a compare-and-set that conflicts.
    pub operations: [u8; PROPOSERS],
    /// The last round in which a proposer makes an attempt.
    pub rounds: u64,
    /// Number of waits that end.
    pub waits: u8,
    /// Number of operations that are given up.
    pub given_up: u8,
}

/// Parameters of an exhaustive check.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// Limits on what the adversary and the proposers may do.
    pub budgets: Budgets,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<weft_register::PlantedBug>,
}

/// The checks that `weft check register` runs.
pub fn suite() -> Vec<Exploration> {
    let budgets = |operations, rounds, waits, given_up| {
        Exploration::new(Budgets { operations, rounds, waits, given_up })
    };
    vec![budgets([1, 1], 2, 1, 0), budgets([1, 2], 2, 0, 0), budgets([2, 1], 2, 0, 1)]
}

/// A proposer with its operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    proposer: Proposer,
    /// Number of operations begun.
    begun: u8,
    /// The newest version that it knows.
    version: u64,
    /// The newest version that was answered to any proposer before its operation began.
    floor: u64,
    /// What the compare-and-set under way would set.
    offer: Option<Value>,
}

/// Coordinators, proposers, and all messages that were sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    acceptors: [Acceptor; COORDINATORS],
    clients: [Client; PROPOSERS],
    requests: BTreeSet<(usize, usize, Request)>,
    /// Which coordinators have ever accepted which value with which ballot, as a bit mask.
    accepted: BTreeMap<(Ballot, Value), u8>,
    /// Values that compare-and-sets were told to have set, and values that they were told not to have set.
    set: BTreeSet<Value>,
    refused: BTreeSet<Value>,
    /// The newest version that was answered.
    newest: u64,
    /// Whether an answer was not chosen, or older than its call.
    unchosen: bool,
    stale: bool,
    waits: u8,
    given_up: u8,
}

/// An action of the adversary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A proposer begins its next operation.
    Begin {
        /// The proposer.
        proposer: usize,
    },
    /// A request of a proposer arrives at a coordinator.
    Request {
        /// The proposer.
        from: usize,
        /// The coordinator.
        to: usize,
        /// The request.
        request: Request,
        /// Whether the answer arrives.
        is_answered: bool,
    },
    /// A wait of a proposer ends.
    Wait {
        /// The proposer.
        proposer: usize,
    },
    /// A proposer gives its operation up.
    GiveUp {
        /// The proposer.
        proposer: usize,
    },
    /// A coordinator restarts from its disk.
    Restart {
        /// The coordinator.
        coordinator: usize,
    },
}

impl Exploration {
    /// A check with these limits.
    pub fn new(budgets: Budgets) -> Self {
        Self {
            budgets,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }

    /// The same check of state machines with a deliberate bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: weft_register::PlantedBug) -> Self {
        Self { planted_bug: Some(bug), ..self }
    }

    fn proposer(&self, number: usize) -> Proposer {
        let parameters = ProposerParameters {
            cluster: 0,
            coordinators: COORDINATORS,
            patience: weft_time::Duration::from_ps(1),
        };
        let proposer = Proposer::new(ProposerId { number: number as u8, incarnation: 1 }, parameters);
        #[cfg(feature = "planted-bugs")]
        if let Some(bug) = self.planted_bug {
            return proposer.with_planted_bug(bug);
        }
        proposer
    }

    /// The state of a coordinator after a restart. All of it was on the disk before anything was sent.
    fn restarted(&self, acceptor: &Acceptor) -> Acceptor {
        let acceptor = acceptor.clone();
        #[cfg(feature = "planted-bugs")]
        let acceptor = acceptor.restored_with(self.planted_bug);
        acceptor
    }
}

impl Explore for Exploration {
    type Budgets = Budgets;
    const PROPERTIES: Properties =
        Properties { always: &[AGREEMENT, ANSWERED, REFUSED, RECENT], both_succeed: BOTH_SET };

    fn budgets(&self) -> Budgets {
        self.budgets
    }

    fn trace(path: &Path<Self>) -> String {
        let value = |value: &Value| format!("version {} of proposer {}", value.version, value.writer.number);
        let mut text = String::new();
        for (world, action) in path {
            match action {
                Some(Action::Request { from, to, request, is_answered }) => {
                    let what = match request {
                        Request::Query => "query".to_owned(),
                        Request::Prepare { ballot } => format!("prepare {ballot}"),
                        Request::Accept { ballot, value: offered } => {
                            format!("accept {ballot}: {}", value(offered))
                        }
                    };
                    let answer = match world.acceptors[*to].clone().answer(request) {
                        _ if !is_answered => "the answer is lost".to_owned(),
                        Answer::Report { value: accepted, .. } | Answer::Promise { value: accepted, .. } => {
                            format!("has {}", value(&accepted))
                        }
                        Answer::Accepted { .. } => "accepted".to_owned(),
                        Answer::Refused { promised, .. } => format!("refused, promised {promised}"),
                    };
                    writeln!(text, "proposer {from} to coordinator {to}: {what} -> {answer}")
                }
                Some(action) => writeln!(text, "{action:?}"),
                None => {
                    let accepted = world
                        .accepted
                        .iter()
                        .map(|((ballot, accepted), by)| format!("{ballot} {} by {by:03b}", value(accepted)));
                    writeln!(text, "accepted: {}", accepted.collect::<Vec<_>>().join("; "))
                }
            }
            .expect("text grows");
        }
        text
    }
}

impl World {
    fn new(exploration: &Exploration) -> Self {
        let client = |number: usize| Client {
            proposer: exploration.proposer(number),
            begun: 0,
            version: 0,
            floor: 0,
            offer: None,
        };
        Self {
            acceptors: Default::default(),
            clients: std::array::from_fn(client),
            requests: BTreeSet::new(),
            accepted: BTreeMap::new(),
            set: BTreeSet::new(),
            refused: BTreeSet::new(),
            newest: 0,
            unchosen: false,
            stale: false,
            waits: exploration.budgets.waits,
            given_up: exploration.budgets.given_up,
        }
    }

    /// The values that a majority has accepted with one ballot, in the order of ballots.
    fn chosen(&self) -> impl Iterator<Item = &Value> {
        let is_chosen = |by: u8| by.count_ones() as usize > COORDINATORS / 2;
        self.accepted.iter().filter(move |(_, by)| is_chosen(**by)).map(|((_, value), _)| value)
    }

    /// What a proposer's host does after every call: take the end of the operation, and send.
    fn attend(&mut self, number: usize) {
        if let Some(outcome) = self.clients[number].proposer.poll_outcome() {
            let offer = self.clients[number].offer.take();
            let answered = match outcome {
                Outcome::Done(value) => {
                    self.set.extend(offer.map(|_| value.clone()));
                    Some(value)
                }
                Outcome::Conflict(value) => {
                    self.refused.extend(offer);
                    Some(value)
                }
                Outcome::Unknown => None,
            };
            if let Some(value) = answered {
                let is_chosen = self.chosen().any(|chosen| *chosen == value);
                self.unchosen |= !is_chosen;
                self.stale |= value.version < self.clients[number].floor;
                self.newest = self.newest.max(value.version);
                self.clients[number].version = value.version;
            }
        }
        while let Some((to, request)) = self.clients[number].proposer.poll_request() {
            self.requests.insert((number, usize::from(to), request));
        }
    }

    fn begin(&mut self, number: usize) {
        let client = &mut self.clients[number];
        client.begun += 1;
        client.floor = self.newest;
        let bytes = vec![client.begun];
        let (version, writer) = (client.version + 1, client.proposer.id());
        client.offer = Some(Value { version, writer, bytes: bytes.clone() });
        let operation = Operation::CompareAndSet { expected: client.version, bytes };
        client.proposer.start(Instant::ZERO, operation, GIVE_UP);
        self.attend(number);
    }

    /// Whether a proposer makes an attempt in a later round than this.
    fn exceeds(&self, rounds: u64) -> bool {
        self.requests.iter().any(|(_, _, request)| match request {
            Request::Query => false,
            Request::Prepare { ballot } | Request::Accept { ballot, .. } => ballot.round > rounds,
        })
    }
}

impl Model for Exploration {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (from, to, request) in &world.requests {
            for is_answered in [true, false] {
                actions.push(Action::Request { from: *from, to: *to, request: request.clone(), is_answered });
            }
        }
        for (proposer, client) in world.clients.iter().enumerate() {
            if !client.proposer.is_busy() && client.begun < self.budgets.operations[proposer] {
                actions.push(Action::Begin { proposer });
            }
            if client.proposer.is_busy() && world.waits > 0 {
                actions.push(Action::Wait { proposer });
            }
            if client.proposer.is_busy() && world.given_up > 0 {
                actions.push(Action::GiveUp { proposer });
            }
        }
        actions.extend((0..COORDINATORS).map(|coordinator| Action::Restart { coordinator }));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Begin { proposer } => next.begin(proposer),
            Action::Request { from, to, request, is_answered } => {
                let answer = next.acceptors[to].answer(&request);
                if let (Answer::Accepted { ballot }, Request::Accept { value, .. }) = (&answer, request) {
                    *next.accepted.entry((*ballot, value)).or_default() |= 1 << to;
                }
                if is_answered {
                    next.clients[from].proposer.take(Instant::ZERO, to as u8, answer);
                    next.attend(from);
                }
            }
            Action::Wait { proposer } => {
                next.waits -= 1;
                let client = &mut next.clients[proposer].proposer;
                client.tick(client.next_deadline());
                next.attend(proposer);
            }
            Action::GiveUp { proposer } => {
                next.given_up -= 1;
                next.clients[proposer].proposer.tick(GIVE_UP);
                next.attend(proposer);
            }
            Action::Restart { coordinator } => {
                next.acceptors[coordinator] = self.restarted(&next.acceptors[coordinator]);
            }
        }
        (next != *world && !next.exceeds(self.budgets.rounds)).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(AGREEMENT, |_, world: &World| {
                let chosen: Vec<_> = world.chosen().collect();
                chosen.is_sorted_by_key(|value| value.version)
                    && chosen.windows(2).all(|pair| pair[0].version < pair[1].version || pair[0] == pair[1])
            }),
            Property::always(ANSWERED, |_, world: &World| !world.unchosen),
            Property::always(REFUSED, |_, world: &World| {
                world.chosen().all(|value| !world.refused.contains(value))
            }),
            Property::always(RECENT, |_, world: &World| !world.stale),
            Property::sometimes(BOTH_SET, |_, world: &World| {
                let writers: BTreeSet<_> = world.set.iter().map(|value| value.writer).collect();
                writers.len() == PROPOSERS
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operations: [u8; 2], rounds: u64, waits: u8, given_up: u8) -> Exploration {
        Exploration::new(Budgets { operations, rounds, waits, given_up })
    }

    #[test]
    fn two_proposers_agree() {
        let explored = check([1, 1], 2, 0, 0).run(2, |_| {});
        assert!(explored.violations.is_empty(), "{}", explored.violations[0].1);
        assert!(explored.states > 10_000, "{}", explored.states);
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn every_planted_bug_is_found() {
        use weft_register::PlantedBug;
        for (bug, check) in [
            (PlantedBug::PromiseForgotten, check([1, 1], 2, 0, 0)),
            (PlantedBug::AnyAccepted, check([1, 1], 3, 1, 0)),
            (PlantedBug::BallotReused, check([2, 1], 2, 0, 1)),
        ] {
            let explored = check.with_planted_bug(bug).run(2, |_| {});
            println!("{bug:?}: {} states, {} s", explored.states, explored.seconds);
            assert!(!explored.violations.is_empty(), "{bug:?} went unnoticed");
        }
    }
}
