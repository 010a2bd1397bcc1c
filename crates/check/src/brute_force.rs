//! A checker that tries every order with every version, for comparison with the real one; and random small
//! histories.
//!
//! It uses concrete registers, and prunes only orders that an operation's own answer rules out.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::Start;
use crate::contradiction::{self, contradiction};
use crate::operation::{Action, Call, NEVER, Outcome};
use crate::shrink::{shrink, window, without};
use crate::{Answer, explain, search::search, witness};

/// A register: the greatest version ever given, and the present version and value, if any.
#[derive(Clone, Copy)]
struct Register {
    greatest: u64,
    held: Option<(u64, u64)>,
}

fn exists_order(calls: &[Call], start: Start) -> bool {
    let greatest_named =
        calls.iter().flat_map(|call| [call.observed_version(), call.produced_version()]).flatten().max();
    // Besides the versions that outcomes name, each unreported mutation needs at most one more.
    let limit = greatest_named.unwrap_or(0) + calls.len() as u64 + 2;
    let empty = Register { greatest: 0, held: None };
    let mut starts = vec![empty];
    if start == Start::Unknown {
        let mut values: Vec<u64> = calls.iter().filter_map(found_value).collect();
        values.push(u64::MAX);
        for version in 1..=limit {
            starts.extend(
                values.iter().map(|&value| Register { greatest: version, held: Some((version, value)) }),
            );
        }
    }
    starts.into_iter().any(|register| extend(calls, &mut vec![false; calls.len()], register, limit))
}

fn found_value(call: &Call) -> Option<u64> {
    match call.outcome {
        Some(Outcome::Found { value, .. }) => Some(value),
        _ => None,
    }
}

fn extend(calls: &[Call], placed: &mut [bool], register: Register, limit: u64) -> bool {
    let waiting = |placed: &[bool], at: usize| !placed[at] && calls[at].outcome.is_some();
    if !(0..calls.len()).any(|at| waiting(placed, at)) {
        return true;
    }
    for at in 0..calls.len() {
        let late =
            (0..calls.len()).any(|other| waiting(placed, other) && calls[other].returned < calls[at].invoked);
        if placed[at] || late {
            continue;
        }
        placed[at] = true;
        let found =
            next(&calls[at], register, limit).into_iter().any(|after| extend(calls, placed, after, limit));
        placed[at] = false;
        if found {
            return true;
        }
    }
    false
}

fn next(call: &Call, register: Register, limit: u64) -> Vec<Register> {
    let current = register.held.map_or(0, |(version, _)| version);
    let write = |version: u64, value: u64| Register { greatest: version, held: Some((version, value)) };
    let delete = |version: u64| Register { greatest: version, held: None };
    let fresh = register.greatest + 1..=limit;
    match (call.action, call.outcome) {
        (Action::Get, Some(Outcome::Found { version, value })) if register.held == Some((version, value)) => {
            vec![register]
        }
        (Action::Get | Action::Delete, Some(Outcome::NotFound)) if current == 0 => vec![register],
        (Action::Put { value }, Some(Outcome::Written { version })) if version > register.greatest => {
            vec![write(version, value)]
        }
        (Action::Delete, Some(Outcome::Deleted { version }))
            if current != 0 && version > register.greatest =>
        {
            vec![delete(version)]
        }
        (Action::CompareAndSet { expected, value }, Some(Outcome::Written { version }))
            if current == expected && version > register.greatest =>
        {
            vec![write(version, value)]
        }
        (Action::CompareAndDelete { expected }, Some(Outcome::Deleted { version }))
            if current != 0 && current == expected && version > register.greatest =>
        {
            vec![delete(version)]
        }
        (
            Action::CompareAndSet { expected, .. } | Action::CompareAndDelete { expected },
            Some(Outcome::Mismatch { version }),
        ) if current == version && version != expected => {
            vec![register]
        }
        (Action::Put { value }, None) => fresh.map(|version| write(version, value)).collect(),
        (Action::Delete, None) if current != 0 => fresh.map(delete).collect(),
        (Action::CompareAndSet { expected, value }, None) if current == expected => {
            fresh.map(|version| write(version, value)).collect()
        }
        (Action::CompareAndDelete { expected }, None) if current != 0 && current == expected => {
            fresh.map(delete).collect()
        }
        _ => Vec::new(),
    }
}

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    /// A history that a register could have answered: operations take effect at points in time, and get intervals
    /// around these.
    fn history(&mut self, start: Start) -> Vec<Call> {
        let count = 1 + self.below(7);
        let (spread, lost, gap) = (1 + self.below(12), self.below(7), 1 + self.below(2));
        let mut register = Register { greatest: 0, held: None };
        if start == Start::Unknown && self.below(2) == 0 {
            let version = 1 + self.below(3);
            register = Register { greatest: version, held: Some((version, self.below(3))) };
        }
        let mut calls = Vec::new();
        for index in 0..count {
            let point = 20 + index * 3;
            let value = self.below(4);
            let version = register.greatest + 1 + self.below(gap);
            let current = register.held.map_or(0, |(version, _)| version);
            let (action, outcome) = match self.below(10) {
                0..3 => (
                    Action::Get,
                    register
                        .held
                        .map_or(Outcome::NotFound, |(version, value)| Outcome::Found { version, value }),
                ),
                3..5 => (Action::Put { value }, Outcome::Written { version }),
                5 if current == 0 => (Action::Delete, Outcome::NotFound),
                5 => (Action::Delete, Outcome::Deleted { version }),
                6..8 => {
                    let expected = if self.below(2) == 0 { current } else { self.below(4) }.max(1);
                    let outcome = if expected == current {
                        Outcome::Deleted { version }
                    } else {
                        Outcome::Mismatch { version: current }
                    };
                    (Action::CompareAndDelete { expected }, outcome)
                }
                _ => {
                    let expected = if self.below(2) == 0 { current } else { self.below(4) };
                    let outcome = if expected == current {
                        Outcome::Written { version }
                    } else {
                        Outcome::Mismatch { version: current }
                    };
                    (Action::CompareAndSet { expected, value }, outcome)
                }
            };
            let unreported = self.below(8) < lost;
            if unreported && self.below(3) == 0 {
                // The operation never took effect, so any invocation time is possible.
            } else {
                match (action, outcome) {
                    (
                        Action::Put { value } | Action::CompareAndSet { value, .. },
                        Outcome::Written { version },
                    ) => {
                        register = Register { greatest: version, held: Some((version, value)) };
                    }
                    (_, Outcome::Deleted { version }) => {
                        register = Register { greatest: version, held: None }
                    }
                    _ => {}
                }
            }
            if unreported && action == Action::Get {
                continue;
            }
            calls.push(Call {
                index: index as u32,
                client: index as u32,
                invoked: point - self.below(spread),
                returned: if unreported { NEVER } else { point + self.below(spread) },
                action,
                outcome: (!unreported).then_some(outcome),
            });
        }
        calls.sort_by_key(|call| call.invoked);
        calls
    }

    /// Changes one property of one operation.
    fn perturb(&mut self, calls: &mut [Call]) {
        if calls.is_empty() {
            return;
        }
        let at = self.below(calls.len() as u64) as usize;
        let donor = calls[self.below(calls.len() as u64) as usize];
        let nudge = |version: &mut u64, up: bool| {
            *version = if up { *version + 1 } else { version.saturating_sub(1) }
        };
        let up = self.below(2) == 0;
        let call = &mut calls[at];
        match self.below(5) {
            0 if call.outcome.is_some() && donor.outcome.is_some() => call.outcome = donor.outcome,
            1 => {
                if let Action::CompareAndSet { expected, .. } | Action::CompareAndDelete { expected } =
                    &mut call.action
                {
                    nudge(expected, up);
                }
            }
            2 if call.outcome.is_some() => {
                let length = call.returned - call.invoked;
                call.invoked = 1 + self.below(50);
                call.returned = call.invoked + length;
            }
            3 if call.outcome.is_some() && call.action == Action::Get => {
                call.outcome = Some(Outcome::NotFound)
            }
            _ => {
                if let Some(
                    Outcome::Found { version, .. }
                    | Outcome::Written { version }
                    | Outcome::Deleted { version }
                    | Outcome::Mismatch { version },
                ) = &mut call.outcome
                {
                    nudge(version, up);
                }
            }
        }
        calls.sort_by_key(|call| call.invoked);
    }
}

fn agree(calls: &[Call], start: Start) -> bool {
    let expected = exists_order(calls, start);
    match search(calls, start, &mut u64::MAX.clone()) {
        Answer::Order(order) => {
            assert!(expected, "accepted, but no order exists: {calls:#?} from {start:?}");
            assert!(
                witness::explains(calls, &order, start),
                "{order:?} does not explain {calls:#?} from {start:?}"
            );
        }
        Answer::NoOrder => assert!(!expected, "rejected, but an order exists: {calls:#?} from {start:?}"),
        Answer::OutOfEffort => panic!("gave up: {calls:#?}"),
    }
    expected
}

#[test]
fn agrees_with_brute_force() {
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(1));
    let mut verdicts = [0u32; 2];
    for round in 0..200_000 {
        let start = if round % 4 == 0 { Start::Unknown } else { Start::Empty };
        let mut calls = random.history(start);
        assert!(agree(&calls, start), "a register answered {calls:#?}");
        for _ in 0..1 + random.below(3) {
            random.perturb(&mut calls);
            verdicts[usize::from(agree(&calls, start))] += 1;
        }
    }
    // Both verdicts occur often enough for the comparison to be meaningful.
    assert!(verdicts.iter().all(|&count| count > 50_000), "{verdicts:?}");
}

#[test]
fn reductions_of_good_histories_are_good() {
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(2));
    let mut reductions = 0;
    for round in 0..100_000 {
        let start = if round % 2 == 0 { Start::Unknown } else { Start::Empty };
        let mut calls = random.history(start);
        random.perturb(&mut calls);
        if !exists_order(&calls, start) {
            continue;
        }
        for (a, b) in
            calls.iter().flat_map(|a| calls.iter().map(move |b| (a, b))).filter(|(a, b)| a.index != b.index)
        {
            assert_eq!(contradiction(a, b), None, "{a:?} and {b:?} are part of a good history");
        }
        for position in 0..calls.len() {
            if let Some(fewer) = without(&calls, position) {
                assert!(exists_order(&fewer, start), "{position} of {calls:#?} is needed, from {start:?}");
                reductions += 1;
            }
        }
        let (from, to) = (random.below(50), random.below(60));
        assert!(exists_order(&window(&calls, 0, to), start), "until {to}: {calls:#?}");
        assert!(
            exists_order(&window(&calls, from, to), Start::Unknown),
            "from {from} until {to}: {calls:#?}"
        );
    }
    assert!(reductions > 50_000, "{reductions}");
}

#[test]
fn shrunk_violations_are_violations() {
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(3));
    let (mut seen, mut pairs, mut unexplained) = (0, 0, 0);
    for _ in 0..60_000 {
        let mut calls = random.history(Start::Empty);
        random.perturb(&mut calls);
        if exists_order(&calls, Start::Empty) {
            continue;
        }
        let any_pair =
            calls.iter().any(|a| calls.iter().any(|b| a.index != b.index && contradiction(a, b).is_some()));
        let pair = contradiction::find(&calls);
        assert_eq!(pair.is_some(), any_pair, "{calls:#?}");
        if let Some(pair) = pair {
            assert!(!exists_order(&pair, Start::Unknown), "{pair:#?}");
            pairs += 1;
        }
        let shrunk = shrink(&calls, Start::Empty, u64::MAX);
        assert!(!exists_order(&shrunk.calls, shrunk.start), "{calls:#?} became {shrunk:#?}");
        seen += 1;
        unexplained += u32::from(explain::explain(&shrunk.calls, shrunk.start).starts_with("no order"));
    }
    assert!(seen > 12_000 && pairs > 5_000, "{seen}, {pairs}");
    // Most violations have a simple explanation.
    assert!(unexplained * 3 < seen, "{unexplained} of {seen}");
}

#[test]
fn verification_refuses_every_order_of_a_bad_history() {
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(4));
    let mut orders = 0;
    for _ in 0..60_000 {
        let mut calls = random.history(Start::Empty);
        random.perturb(&mut calls);
        if calls.len() > 4 || exists_order(&calls, Start::Empty) {
            continue;
        }
        for _ in 0..12 {
            let mut order: Vec<u32> = (0..calls.len() as u32).collect();
            for last in (1..order.len()).rev() {
                order.swap(last, random.below(last as u64 + 1) as usize);
            }
            assert!(!witness::explains(&calls, &order, Start::Empty), "{order:?} of {calls:#?}");
            orders += 1;
        }
    }
    assert!(orders > 50_000, "{orders}");
}

#[test]
fn verification_wants_every_answered_operation_once() {
    let put = Call {
        index: 0,
        client: 0,
        invoked: 0,
        returned: 10,
        action: Action::Put { value: 1 },
        outcome: Some(Outcome::Written { version: 1 }),
    };
    let later = Call { invoked: 20, returned: 30, outcome: Some(Outcome::Written { version: 2 }), ..put };
    assert!(witness::explains(&[put, later], &[0, 1], Start::Empty));
    assert!(!witness::explains(&[put, later], &[0], Start::Empty));
    assert!(!witness::explains(&[put, later], &[0, 1, 1], Start::Empty));
    assert!(!witness::explains(&[put, Call { outcome: put.outcome, ..later }], &[0, 1], Start::Empty));
    // An order that follows the versions, but not time.
    let swapped = [Call { outcome: later.outcome, ..put }, Call { outcome: put.outcome, ..later }];
    assert!(!witness::explains(&swapped, &[1, 0], Start::Empty));
}
