//! Says in one sentence what is wrong with a few operations that have no order.

use crate::Start;
use crate::operation::{Action, Call, Outcome, Version};
use crate::register::possible;

/// The sentence for `calls`, a reduced violation.
pub(crate) fn explain(calls: &[Call], start: Start) -> String {
    impossible_outcome(calls)
        .or_else(|| pairs(calls).find_map(|(a, b)| contradiction(a, b)))
        .or_else(|| first_written_twice(calls))
        .or_else(|| version_from_nowhere(calls, start))
        .or_else(|| vanished(calls))
        .or_else(|| reappeared(calls))
        .unwrap_or_else(|| "no order of these operations explains what each of them returned".into())
}

/// What is wrong with two operations that no history of a key can hold together, whatever else happened.
pub(crate) fn contradiction(a: &Call, b: &Call) -> Option<String> {
    one_version_twice(a, b)
        .or_else(|| one_version_replaced_twice(a, b))
        .or_else(|| two_values_of_one_version(a, b))
        .or_else(|| version_went_back(a, b))
        .or_else(|| version_went_back(b, a))
        .or_else(|| read_before_written(a, b))
        .or_else(|| read_before_written(b, a))
}

fn who(call: &Call) -> String {
    let verb = match call.action {
        Action::Get => "get",
        Action::Put { .. } => "put",
        Action::Delete => "delete",
        Action::CompareAndSet { .. } => "compare-and-set",
    };
    format!("{verb} by client {}", call.client)
}

/// What `call` says of the version that it names first.
fn claim(call: &Call) -> String {
    let who = who(call);
    match (call.action, call.outcome) {
        (_, Some(Outcome::Found { version, .. })) => format!("{who} returned version {version}"),
        (_, Some(Outcome::Mismatch { version })) if version > 0 => format!("{who} found version {version}"),
        (Action::CompareAndSet { expected, .. }, Some(Outcome::Written { .. })) if expected > 0 => {
            format!("{who} succeeded on version {expected}")
        }
        (Action::CompareAndSet { .. }, Some(Outcome::Written { version })) => {
            format!("{who} succeeded on an absent key and was given version {version}")
        }
        (_, Some(Outcome::Written { version } | Outcome::Deleted { version })) => {
            format!("{who} was given version {version}")
        }
        _ => format!("{who} found the key absent"),
    }
}

/// How the client of `call` had learnt the greatest version that it names.
fn news(call: &Call) -> String {
    match call.outcome {
        Some(Outcome::Deleted { version }) => {
            format!(
                "the deletion of the key as version {version} had been acknowledged to client {}",
                call.client
            )
        }
        Some(Outcome::Written { version }) => {
            format!("version {version} had been acknowledged to client {}", call.client)
        }
        _ => {
            let version = call.observed_version().unwrap_or(0);
            format!("version {version} had been returned to client {}", call.client)
        }
    }
}

fn pairs(calls: &[Call]) -> impl Iterator<Item = (&Call, &Call)> {
    calls.iter().enumerate().flat_map(|(at, first)| calls[at + 1..].iter().map(move |second| (first, second)))
}

fn greatest_version(call: &Call) -> Option<Version> {
    call.produced_version().or(call.observed_version())
}

fn impossible_outcome(calls: &[Call]) -> Option<String> {
    let wrong = |call: &&Call| call.outcome.is_some_and(|outcome| !possible(call.action, outcome));
    let call = calls.iter().find(wrong)?;
    Some(format!(
        "{} ({}) was answered \"{}\", which is no answer to it in any state",
        who(call),
        call.action,
        call.outcome.expect("has an outcome")
    ))
}

fn one_version_twice(a: &Call, b: &Call) -> Option<String> {
    let version = a.produced_version().filter(|&version| b.produced_version() == Some(version))?;
    Some(format!("{} and {} were both given version {version}", who(a), who(b)))
}

/// The version that a successful compare-and-set replaced; 0 if the key was absent.
fn replaced(call: &Call) -> Option<Version> {
    match (call.action, call.outcome) {
        (Action::CompareAndSet { expected, .. }, Some(Outcome::Written { .. })) => Some(expected),
        _ => None,
    }
}

fn one_version_replaced_twice(a: &Call, b: &Call) -> Option<String> {
    let version = replaced(a).filter(|&version| version != 0 && replaced(b) == Some(version))?;
    Some(format!("{} and {} both succeeded on version {version}", who(a), who(b)))
}

fn two_values_of_one_version(a: &Call, b: &Call) -> Option<String> {
    let held = |call: &Call| match (call.action, call.outcome) {
        (_, Some(Outcome::Found { version, value })) => Some((version, value)),
        (Action::Put { value } | Action::CompareAndSet { value, .. }, Some(Outcome::Written { version })) => {
            Some((version, value))
        }
        _ => None,
    };
    let ((version, value), (other_version, other_value)) = (held(a)?, held(b)?);
    (version == other_version && value != other_value).then(|| {
        format!(
            "version {version} holds value {value:#x} for {} and value {other_value:#x} for {}",
            who(a),
            who(b)
        )
    })
}

fn version_went_back(earlier: &Call, later: &Call) -> Option<String> {
    let reached = greatest_version(earlier).filter(|_| earlier.precedes(later))?;
    let goes_back = match later.observed_version() {
        Some(observed) => observed < reached,
        None => later.produced_version()? <= reached,
    };
    goes_back.then(|| format!("{} after {}", claim(later), news(earlier)))
}

fn read_before_written(reader: &Call, writer: &Call) -> Option<String> {
    let read = writer.produced_version().is_some() && reader.observed_version() == writer.produced_version();
    (read && reader.precedes(writer)).then(|| format!("{} before {} was invoked", claim(reader), who(writer)))
}

fn first_written_twice(calls: &[Call]) -> Option<String> {
    if calls.iter().any(|call| matches!(call.action, Action::Delete)) {
        return None;
    }
    let mut firsts = calls.iter().filter(|call| replaced(call) == Some(0));
    let (a, b) = (firsts.next()?, firsts.next()?);
    Some(format!("{} and {} both succeeded on an absent key, and nothing deleted it", who(a), who(b)))
}

fn version_from_nowhere(calls: &[Call], start: Start) -> Option<String> {
    calls.iter().find_map(|call| {
        let version = call.observed_version()?;
        let written_by = |other: &&Call| other.produced_version() == Some(version);
        if let Some(writer) = calls.iter().find(written_by) {
            return call
                .precedes(writer)
                .then(|| format!("{} before {} was invoked", claim(call), who(writer)));
        }
        let may_have_written = |other: &Call| {
            let value = match other.action {
                Action::Put { value } | Action::CompareAndSet { value, .. } => value,
                Action::Get | Action::Delete => return false,
            };
            let matches = match call.outcome {
                Some(Outcome::Found { value: found, .. }) => value == found,
                _ => true,
            };
            other.outcome.is_none() && matches && other.invoked <= call.returned
        };
        if calls.iter().any(may_have_written) {
            return None;
        }
        if start == Start::Empty {
            return Some(format!("{}, which no operation had written", claim(call)));
        }
        let earlier = calls.iter().find(|other| {
            other.precedes(call) && greatest_version(other).is_some_and(|reached| reached < version)
        })?;
        Some(format!(
            "{} after {}, and no operation in between can have written it",
            claim(call),
            news(earlier)
        ))
    })
}

fn vanished(calls: &[Call]) -> Option<String> {
    if calls.iter().any(|call| {
        matches!((call.action, call.outcome), (Action::Delete, Some(Outcome::Deleted { .. }) | None))
    }) {
        return None;
    }
    ordered_pairs(calls).find_map(|(earlier, later)| {
        (later.observed_absence() && greatest_version(earlier).is_some())
            .then(|| format!("{} after {}, and nothing deleted it", claim(later), news(earlier)))
    })
}

fn reappeared(calls: &[Call]) -> Option<String> {
    ordered_pairs(calls).find_map(|(earlier, later)| {
        let absent = earlier.observed_absence() && earlier.produced_version().is_none()
            || matches!(earlier.outcome, Some(Outcome::Deleted { .. }));
        let present =
            later.observed_version().is_some() || matches!(later.outcome, Some(Outcome::Deleted { .. }));
        let wrote = calls.iter().any(|call| {
            !call.precedes(earlier)
                && !later.precedes(call)
                && matches!(call.action, Action::Put { .. } | Action::CompareAndSet { .. })
                && call.outcome.is_none_or(Outcome::took_effect)
        });
        (absent && present && !wrote).then(|| {
            let found = claim(later);
            format!(
                "{found} after {} found or left the key absent, and nothing wrote it in between",
                who(earlier)
            )
        })
    })
}

/// Pairs of which the first returned before the second was invoked.
fn ordered_pairs(calls: &[Call]) -> impl Iterator<Item = (&Call, &Call)> {
    calls
        .iter()
        .flat_map(move |earlier| calls.iter().map(move |later| (earlier, later)))
        .filter(|(earlier, later)| earlier.precedes(later))
}
