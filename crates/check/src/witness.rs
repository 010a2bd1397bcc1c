//! Verifies independently an order that the search has found: with a concrete register, one operation at a time.
//!
//! This code shares nothing with the search. So an order that it accepts proves linearizability even if the search
//! were wrong.

use crate::Start;
use crate::operation::{Action, Call, Outcome, ValueId, Version};

/// Whether `order` has every operation with a reply exactly once, and others at most once; whether they can take
/// effect in this order within their intervals; and whether a register gives the answers that they received.
pub(crate) fn explains(calls: &[Call], order: &[u32], start: Start) -> bool {
    places_all(calls, order) && respects_time(calls, order) && returns_the_same(calls, order, start)
}

fn places_all(calls: &[Call], order: &[u32]) -> bool {
    let mut placed = vec![false; calls.len()];
    for &call in order {
        if std::mem::replace(&mut placed[call as usize], true) {
            return false;
        }
    }
    calls.iter().zip(placed).all(|(call, placed)| placed || call.outcome.is_none())
}

/// Every operation takes effect at the earliest time that its predecessors and its invocation allow.
fn respects_time(calls: &[Call], order: &[u32]) -> bool {
    let mut now = 0;
    order.iter().map(|&call| &calls[call as usize]).all(|call| {
        now = now.max(call.invoked);
        now <= call.returned
    })
}

/// A register: the greatest version ever given, and its content. If the value is `None`, the first get determines
/// it.
struct Register {
    greatest: Version,
    held: Option<(Version, Option<ValueId>)>,
}

fn returns_the_same(calls: &[Call], order: &[u32], start: Start) -> bool {
    let sequence: Vec<&Call> = order.iter().map(|&call| &calls[call as usize]).collect();
    let mut register = match start {
        Start::Empty => Register { greatest: 0, held: None },
        Start::Unknown => register_before(&sequence),
    };
    (0..sequence.len()).all(|at| apply(&mut register, sequence[at], &sequence[at + 1..]))
}

/// Applies `call`, which is followed by `later`; returns false if the register gives another answer. A mutation
/// without a reported version gets the one that later operations name, or otherwise the smallest.
fn apply(register: &mut Register, call: &Call, later: &[&Call]) -> bool {
    let current = register.held.map_or(0, |(version, _)| version);
    let unreported = match call.outcome {
        None => named_version(later).unwrap_or(register.greatest.saturating_add(1)),
        Some(_) => 0,
    };
    let mut give = |version: Version, value: Option<ValueId>| {
        let greater = version > register.greatest;
        register.greatest = version;
        register.held = value.map(|value| (version, Some(value)));
        greater
    };
    match (call.action, call.outcome) {
        (Action::Get, Some(Outcome::Found { version, value })) => {
            let Some((held_version, held_value)) = &mut register.held else { return false };
            *held_version == version && *held_value.get_or_insert(value) == value
        }
        (Action::Get | Action::Delete, Some(Outcome::NotFound)) => current == 0,
        (Action::Put { value }, Some(Outcome::Written { version })) => give(version, Some(value)),
        (Action::Delete, Some(Outcome::Deleted { version })) => current != 0 && give(version, None),
        (Action::CompareAndSet { expected, value }, Some(Outcome::Written { version })) => {
            current == expected && give(version, Some(value))
        }
        (Action::CompareAndDelete { expected }, Some(Outcome::Deleted { version })) => {
            current != 0 && current == expected && give(version, None)
        }
        (
            Action::CompareAndSet { expected, .. } | Action::CompareAndDelete { expected },
            Some(Outcome::Mismatch { version }),
        ) => current == version && current != expected,
        (Action::Put { value }, None) => give(unreported, Some(value)),
        (Action::Delete, None) => current != 0 && give(unreported, None),
        (Action::CompareAndSet { expected, value }, None) => {
            current == expected && give(unreported, Some(value))
        }
        (Action::CompareAndDelete { expected }, None) => {
            current != 0 && current == expected && give(unreported, None)
        }
        _ => false,
    }
}

/// The version at which `later` operations find the key present, if one of them names it before the next change.
fn named_version(later: &[&Call]) -> Option<Version> {
    for call in later {
        match (call.action, call.outcome) {
            (_, Some(Outcome::Found { version, .. } | Outcome::Mismatch { version })) if version != 0 => {
                return Some(version);
            }
            (_, Some(Outcome::Mismatch { .. })) => {}
            (Action::CompareAndSet { expected, .. } | Action::CompareAndDelete { expected }, _)
                if expected != 0 =>
            {
                return Some(expected);
            }
            (_, Some(Outcome::NotFound)) => {}
            _ => return None,
        }
    }
    None
}

/// A register with which `sequence` can begin, if there is one.
fn register_before(sequence: &[&Call]) -> Register {
    let version = match sequence.first().map(|call| (call.action, call.outcome)) {
        None | Some((Action::Put { .. }, _) | (_, Some(Outcome::NotFound))) => 0,
        Some((Action::Delete, _)) => 1,
        _ => named_version(sequence).unwrap_or(0),
    };
    Register { greatest: version, held: (version > 0).then_some((version, None)) }
}
