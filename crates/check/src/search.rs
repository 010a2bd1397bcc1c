//! The exact search for an order of one key's operations that explains what each of them returned.
//!
//! The search is that of Wing and Gong, with Lowe's memory of visited configurations ("Testing for
//! linearizability", 2017). Versions make it near-linear:
//!
//! - *An operation that changes nothing goes first.* If an operation can be placed at the current point and leaves
//!   the state unchanged, then an order that places it later is still valid when it is moved to this point.
//! - *Versions order all operations that name one.* A mutation that got version w comes after every operation that
//!   names a smaller version, so at most one reported mutation can be next.
//! - *An unreported mutation is placed only for an observer.* If the operation after it would be legal without it,
//!   the order without it is valid, too. So in an order with the fewest unreported mutations, each one is directly
//!   followed by an operation that depends on it.
//! - *Equal unreported actions that are both invoked are interchangeable*; only one of them is tried.
//!
//! If every operation was answered, the first three rules leave no choice, and the search goes through the history
//! once. Operations without a reply introduce choices. For these, the search remembers visited configurations
//! exactly (not by hashes), so "no order" is a proof.

use std::collections::HashSet;

use crate::Start;
use crate::operation::{Action, Call, NEVER};
use crate::register::{State, possible};

/// Result of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An order that explains all answers: indices in the searched slice. Operations without a reply that are not
    /// in it never took effect.
    Order(Vec<u32>),
    /// There is no such order.
    NoOrder,
    /// The search used up its effort before.
    OutOfEffort,
}

/// Marks that a call names no version.
const NONE: u32 = u32::MAX;
/// The cost of remembering one configuration, in placed operations.
const REMEMBERING_COST: u64 = 16;
/// While alternatives are open, a configuration is remembered after every this many operations that have entered.
/// So paths that lead to the same configuration are recognised even when neither has a choice left.
const CHECKPOINT_DISTANCE: usize = 64;

/// Searches `calls`, which are sorted by invocation, without refused operations and without gets that have no
/// reply. `effort` is the number of placements that it may try; on return it is the remaining number.
pub(crate) fn search(calls: &[Call], start: Start, effort: &mut u64) -> Answer {
    if calls.iter().any(|call| call.outcome.is_some_and(|outcome| !possible(call.action, outcome))) {
        return Answer::NoOrder;
    }
    Search::new(calls, effort).run(start)
}

struct Search<'a> {
    calls: &'a [Call],
    effort: &'a mut u64,
    /// Operations with a reply, ordered by invocation.
    reported: Vec<u32>,
    /// Mutations without a reply, ordered by invocation.
    unreported: Vec<u32>,
    /// Every version that a reported operation names, ascending.
    versions: Vec<u64>,
    /// Whether a reported mutation got the version.
    has_mutation: Vec<bool>,
    /// Number of operations that name the version and are not placed yet. An operation that observes a version and
    /// produces another counts for both.
    outstanding: Vec<u32>,
    /// For each call, the indices in `versions` of the version that it observes and of the one that it produces.
    named: Vec<[u32; 2]>,
    /// The order so far.
    order: Vec<u32>,
    remembered: HashSet<Box<[u64]>>,
}

/// The set of operations that are placed, and the state to which they lead.
#[derive(Clone)]
struct Configuration {
    state: State,
    /// Reported operations from this index of `reported` on are neither placed nor open: they were invoked after
    /// the earliest return of an open one.
    entered: usize,
    /// The operations of `reported[..entered]` that are not placed yet, as indices of the calls.
    open: Vec<u32>,
    /// The earliest return time of the open operations. Only operations invoked by then can be next.
    earliest_return: u64,
    /// Index in `versions`: no operation that names an earlier version is outstanding.
    first_version: usize,
    /// Bit set of the placed unreported mutations.
    placed_unreported: Vec<u64>,
    /// Whether the last placed operation was an unreported mutation, so that the next one has to depend on it.
    wants_observer: bool,
    /// Number of placed operations.
    placed: usize,
}

#[derive(Clone, Copy)]
struct Move {
    who: Mover,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mover {
    /// A reported operation, as an index of the calls.
    Reported(u32),
    /// An unreported operation, as an index of `unreported`.
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

    /// Places all operations that change nothing. Lets operations enter, in the order of invocation, up to the
    /// first that was invoked after the earliest return of an open one.
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

    /// Whether placing `call` respects the order of versions: no outstanding operation names a smaller version
    /// than those that it names.
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

    /// Computes all possible next moves, the likeliest first.
    fn moves(&self, here: &Configuration, moves: &mut Vec<Move>) {
        moves.clear();
        for &call in &here.open {
            if let Some(state) = self.reported_move(here, here.state, here.wants_observer, call) {
                // Reads that lead to the same state can all follow at once, so only one of them is tried as the
                // first.
                let reads = self.named[call as usize][1] == NONE;
                if !(reads && moves.iter().any(|other| other.state == state)) {
                    moves.push(Move { who: Mover::Reported(call), state });
                }
            }
        }
        // The greatest version that an unreported mutation can have got. No other mutation has the version of a
        // reported one, but a version that was only observed can belong to an unreported one.
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

    /// The unreported mutations that time allows to be next, with their positions.
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

    /// Whether an operation that depends on the unreported mutation at `position`, which has led to `state`, can
    /// directly follow it.
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

/// Whether the action's effect depends on the version that it finds.
const fn compares(action: Action) -> bool {
    matches!(action, Action::CompareAndSet { .. } | Action::CompareAndDelete { .. })
}

impl Configuration {
    /// The part of the configuration that determines all further search.
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
