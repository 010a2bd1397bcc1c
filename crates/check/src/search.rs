//! The exact search for an order of one key's operations that explains what each of them returned.
//!
//! It is the search of Wing and Gong with Lowe's memory of visited configurations ("Testing for
//! linearizability", 2017), made near-linear by what versions tell:
//!
//! - *An operation that changes nothing goes first.* If it can be placed where the order stands and leaves
//!   the state as it is, an order that places it later stays valid when it is moved here.
//! - *Versions order everything that names one.* A mutation that was given version w comes after every
//!   operation that names a smaller version, so at most one reported mutation can be next.
//! - *An unreported mutation is placed only for an observer.* If the operation after it would be legal
//!   without it, the order without it is valid too. So every unreported mutation in an order with the
//!   fewest of them is directly followed by an operation that depends on it.
//! - *Equal unreported actions that are both invoked are interchangeable*; one of them is tried.
//!
//! Where every operation was answered, the first three leave no choice, and the search walks the history
//! once. Choices arise around operations without a reply; there it remembers configurations exactly (no
//! hashes stand for them), so "no order" is a proof.

use std::collections::HashSet;

use crate::Start;
use crate::operation::{Action, Call, NEVER};
use crate::register::{State, possible};

/// Result of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An order that explains everything: positions in the searched slice. Operations without a reply that
    /// do not occur in it never took effect.
    Order(Vec<u32>),
    /// There is no such order.
    NoOrder,
    /// The effort ran out first.
    OutOfEffort,
}

/// No version is named.
const NONE: u32 = u32::MAX;
/// Placed operations that cost as much as remembering one configuration.
const REMEMBERING_COST: u64 = 16;
/// Where alternatives are open, a configuration is remembered each time so many operations have entered,
/// so that paths that have joined again are recognised although neither has a choice left.
const CHECKPOINT_DISTANCE: usize = 64;

/// Searches `calls`, which are sorted by invocation and hold neither refused operations nor gets without a
/// reply. `effort` is the number of placements that it may try; what is left of it stays there.
pub(crate) fn search(calls: &[Call], start: Start, effort: &mut u64) -> Answer {
    if calls.iter().any(|call| call.outcome.is_some_and(|outcome| !possible(call.action, outcome))) {
        return Answer::NoOrder;
    }
    Search::new(calls, effort).run(start)
}

struct Search<'a> {
    calls: &'a [Call],
    effort: &'a mut u64,
    /// Operations with a reply, by invocation.
    reported: Vec<u32>,
    /// Mutations without one, by invocation.
    unreported: Vec<u32>,
    /// Every version that a reported operation names, ascending.
    versions: Vec<u64>,
    /// Whether a reported mutation was given the version.
    has_mutation: Vec<bool>,
    /// Number of operations naming the version that are not placed yet (one that observes a version and produces
    /// another counts for both).
    outstanding: Vec<u32>,
    /// For each call, the positions in `versions` of the version that it observes and that it produces.
    named: Vec<[u32; 2]>,
    /// The order so far.
    order: Vec<u32>,
    remembered: HashSet<Box<[u64]>>,
}

/// Operations that are placed, and the state that they leave.
#[derive(Clone)]
struct Configuration {
    state: State,
    /// Reported operations from this position of `reported` on are not placed, and returned only after the
    /// earliest return of the open ones.
    entered: usize,
    /// The entered operations that are not placed.
    open: Vec<u32>,
    /// The earliest return of the open ones. Only operations invoked by then can be next.
    earliest_return: u64,
    /// No operation that names an earlier one of `versions` is outstanding.
    first_version: usize,
    /// Bit set of the placed unreported mutations.
    placed_unreported: Vec<u64>,
    /// The last operation placed was an unreported mutation, so that the next has to depend on it.
    wants_observer: bool,
    /// Length of the order.
    placed: usize,
}

#[derive(Clone, Copy)]
struct Move {
    who: Mover,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mover {
    /// A reported operation, as a position in the calls.
    Reported(u32),
    /// An unreported one, as a position in `unreported`.
    Unreported(usize),
}

impl<'a> Search<'a> {
    fn new(calls: &'a [Call], effort: &'a mut u64) -> Self {
        let (reported, unreported): (Vec<u32>, Vec<u32>) =
            (0..calls.len() as u32).partition(|&call| calls[call as usize].outcome.is_some());
        let mut versions: Vec<u64> = calls
            .iter()
            .flat_map(|call| [call.observed_version(), call.produced_version()])
            .flatten()
            .collect();
        versions.sort_unstable();
        versions.dedup();
        let mut has_mutation = vec![false; versions.len()];
        let mut outstanding = vec![0; versions.len()];
        let position = |version: Option<u64>| {
            version.map_or(NONE, |version| versions.binary_search(&version).expect("collected above") as u32)
        };
        let named: Vec<[u32; 2]> = calls
            .iter()
            .map(|call| [position(call.observed_version()), position(call.produced_version())])
            .collect();
        for &[observed, produced] in &named {
            for version in [observed, produced] {
                if version != NONE {
                    outstanding[version as usize] += 1;
                }
            }
            if produced != NONE {
                has_mutation[produced as usize] = true;
            }
        }
        Self {
            calls,
            effort,
            order: Vec::with_capacity(reported.len()),
            reported,
            unreported,
            versions,
            has_mutation,
            outstanding,
            named,
            remembered: HashSet::new(),
        }
    }

    fn run(mut self, start: Start) -> Answer {
        let first = Configuration {
            state: match start {
                Start::Empty => State::EMPTY,
                Start::Unknown => State::Anything,
            },
            entered: 0,
            open: Vec::new(),
            earliest_return: NEVER,
            first_version: 0,
            placed_unreported: vec![0; self.unreported.len().div_ceil(64)],
            wants_observer: false,
            placed: 0,
        };
        let mut alternatives: Vec<(Configuration, Option<Move>)> = vec![(first, None)];
        let mut moves = Vec::new();
        while let Some((mut here, mut chosen)) = alternatives.pop() {
            self.rewind(here.placed);
            loop {
                let entered_before = here.entered;
                if let Some(chosen) = chosen {
                    self.make(&mut here, chosen);
                }
                self.settle(&mut here);
                if here.open.is_empty() && here.entered == self.reported.len() {
                    return Answer::Order(self.order);
                }
                self.moves(&here, &mut moves);
                let at_checkpoint = here.entered / CHECKPOINT_DISTANCE
                    != entered_before / CHECKPOINT_DISTANCE
                    && !(alternatives.is_empty() && self.remembered.is_empty());
                if !self.spend(1 + here.open.len() as u64 / 8) {
                    return Answer::OutOfEffort;
                }
                if moves.len() > 1 || at_checkpoint {
                    if !self.spend(REMEMBERING_COST) {
                        return Answer::OutOfEffort;
                    }
                    if !self.remembered.insert(here.exact_key()) {
                        break;
                    }
                }
                let Some((&next, others)) = moves.split_first() else { break };
                here.placed = self.order.len();
                alternatives.extend(others.iter().rev().map(|&other| (here.clone(), Some(other))));
                chosen = Some(next);
            }
        }
        Answer::NoOrder
    }

    fn spend(&mut self, effort: u64) -> bool {
        match self.effort.checked_sub(effort) {
            Some(left) => {
                *self.effort = left;
                true
            }
            None => {
                *self.effort = 0;
                false
            }
        }
    }

    fn place(&mut self, call: u32) {
        self.order.push(call);
        for version in self.named[call as usize] {
            if version != NONE {
                self.outstanding[version as usize] -= 1;
            }
        }
    }

    fn rewind(&mut self, placed: usize) {
        for call in self.order.drain(placed..) {
            for version in self.named[call as usize] {
                if version != NONE {
                    self.outstanding[version as usize] += 1;
                }
            }
        }
    }

    /// Whether `call` can be placed in `state` without changing it.
    fn changes_nothing(&self, state: State, call: u32) -> bool {
        let call = &self.calls[call as usize];
        let outcome = call.outcome.expect("a reported operation");
        !outcome.took_effect() && state.after(call.action, outcome) == Some(state)
    }

    fn make(&mut self, here: &mut Configuration, chosen: Move) {
        here.state = chosen.state;
        match chosen.who {
            Mover::Reported(call) => {
                here.open.retain(|&open| open != call);
                here.wants_observer = false;
                self.place(call);
            }
            Mover::Unreported(position) => {
                here.placed_unreported[position / 64] |= 1 << (position % 64);
                here.wants_observer = true;
                self.place(self.unreported[position]);
            }
        }
    }

    /// Places everything that changes nothing, and lets operations enter until one was invoked after an
    /// open one had returned.
    fn settle(&mut self, here: &mut Configuration) {
        let mut open = std::mem::take(&mut here.open);
        here.earliest_return = NEVER;
        open.retain(|&call| {
            let stays = !self.changes_nothing(here.state, call);
            if stays {
                here.earliest_return = here.earliest_return.min(self.calls[call as usize].returned);
            } else {
                self.place(call);
                here.wants_observer = false;
            }
            stays
        });
        while let Some(&call) = self.reported.get(here.entered) {
            if self.calls[call as usize].invoked > here.earliest_return {
                break;
            }
            here.entered += 1;
            if self.changes_nothing(here.state, call) {
                self.place(call);
                here.wants_observer = false;
            } else {
                here.earliest_return = here.earliest_return.min(self.calls[call as usize].returned);
                open.push(call);
            }
        }
        here.open = open;
        while self.outstanding.get(here.first_version) == Some(&0) {
            here.first_version += 1;
        }
    }

    /// Whether placing `call` leaves no smaller version outstanding than those it names.
    fn keeps_version_order(&self, here: &Configuration, call: u32) -> bool {
        let first = here.first_version as u32;
        let [observed, produced] = self.named[call as usize];
        if produced == NONE {
            return observed == NONE || observed == first;
        }
        let smallest_other = if observed == first && self.outstanding[here.first_version] == 1 {
            let later = &self.outstanding[here.first_version + 1..];
            first + 1 + later.iter().position(|&count| count > 0).expect("the produced version") as u32
        } else {
            first
        };
        smallest_other == produced
    }

    /// All next moves, the likeliest first.
    fn moves(&self, here: &Configuration, moves: &mut Vec<Move>) {
        moves.clear();
        for &call in &here.open {
            if let Some(state) = self.reported_move(here, here.state, here.wants_observer, call) {
                // Reads that lead to the same state all follow at once, whichever goes first.
                let reads = self.named[call as usize][1] == NONE;
                if !(reads && moves.iter().any(|other| other.state == state)) {
                    moves.push(Move { who: Mover::Reported(call), state });
                }
            }
        }
        // The greatest version that an unreported mutation can have been given: a reported mutation has its
        // version to itself, a version that was only observed can be an unreported mutation's.
        let greatest = match self.versions.get(here.first_version) {
            None => u64::MAX,
            Some(&version) => version - u64::from(self.has_mutation[here.first_version]),
        };
        if here.state.least_version() >= greatest {
            return;
        }
        for (position, &call) in self.unreported_candidates(here) {
            let action = self.calls[call as usize].action;
            if here.wants_observer && !compares(action) {
                continue;
            }
            let Some(state) = here.state.after_unreported(action) else { continue };
            if state.least_version() > greatest || !self.has_observer(here, state, position, greatest) {
                continue;
            }
            let same_action = |other: &Move| match other.who {
                Mover::Unreported(other) => self.calls[self.unreported[other] as usize].action == action,
                Mover::Reported(_) => false,
            };
            if !moves.iter().any(same_action) {
                moves.push(Move { who: Mover::Unreported(position), state });
            }
        }
    }

    /// The unreported mutations that can be next in time, with their positions.
    fn unreported_candidates(&self, here: &Configuration) -> impl Iterator<Item = (usize, &u32)> {
        self.unreported
            .iter()
            .enumerate()
            .take_while(|&(_, &call)| self.calls[call as usize].invoked <= here.earliest_return)
            .filter(|&(position, _)| here.placed_unreported[position / 64] >> (position % 64) & 1 == 0)
    }

    /// The state after the open operation `call` in `state`, if it can be next.
    fn reported_move(
        &self,
        here: &Configuration,
        state: State,
        as_observer: bool,
        call: u32,
    ) -> Option<State> {
        let Call { action, outcome, .. } = self.calls[call as usize];
        if as_observer && matches!(action, Action::Put { .. }) {
            return None;
        }
        let after = state.after(action, outcome.expect("a reported operation"))?;
        self.keeps_version_order(here, call).then_some(after)
    }

    /// Whether an operation that depends on the unreported mutation at `position` can directly follow it,
    /// when it has led to `state`.
    fn has_observer(&self, here: &Configuration, state: State, position: usize, greatest: u64) -> bool {
        here.open.iter().any(|&call| self.reported_move(here, state, true, call).is_some())
            || self.unreported_candidates(here).any(|(other, &call)| {
                let action = self.calls[call as usize].action;
                other != position
                    && compares(action)
                    && state.after_unreported(action).is_some_and(|after| after.least_version() <= greatest)
            })
    }
}

/// Whether an operation depends on the version that it finds, whatever it reports.
const fn compares(action: Action) -> bool {
    matches!(action, Action::CompareAndSet { .. } | Action::CompareAndDelete { .. })
}

impl Configuration {
    /// Everything that the rest of the search depends on.
    fn exact_key(&self) -> Box<[u64]> {
        let (tag, version, value) = match self.state {
            State::Anything => (0, 0, None),
            State::Absent { highest } => (1, highest, None),
            State::Present { version, exact, value } => (2 + u64::from(exact), version, value),
        };
        let flags = tag | u64::from(value.is_some()) << 2 | u64::from(self.wants_observer) << 3;
        let mut key = Vec::with_capacity(4 + self.open.len() + self.placed_unreported.len());
        key.extend([flags, version, value.unwrap_or(0), self.entered as u64]);
        key.extend_from_slice(&self.placed_unreported);
        key.extend(self.open.iter().map(|&call| u64::from(call)));
        key.into()
    }
}
