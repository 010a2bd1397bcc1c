//! Explains in one sentence why no order of a few operations is possible.

use crate::Start;
use crate::contradiction::contradiction;
use crate::operation::{Action, Call, Outcome};
use crate::register::possible;
use crate::words::{describe_client, describe_outcome, describe_version};

/// The sentence for `calls`, a violation that was reduced to few operations.
pub(crate) fn explain(calls: &[Call], start: Start) -> String {
    impossible_outcome(calls)
        .or_else(|| pairs(calls).find_map(|(a, b)| contradiction(a, b)))
        .or_else(|| first_written_twice(calls))
        .or_else(|| version_from_nowhere(calls, start))
        .or_else(|| vanished(calls))
        .or_else(|| reappeared(calls))
        .unwrap_or_else(|| "no order of these operations explains what each of them returned".into())
}

fn pairs(calls: &[Call]) -> impl Iterator<Item = (&Call, &Call)> {
    calls.iter().enumerate().flat_map(|(at, first)| calls[at + 1..].iter().map(move |second| (first, second)))
}

fn impossible_outcome(calls: &[Call]) -> Option<String> {
    let wrong = |call: &&Call| call.outcome.is_some_and(|outcome| !possible(call.action, outcome));
    let call = calls.iter().find(wrong)?;
    Some(format!(
        "{} ({}) was answered \"{}\", which is no answer to it in any state",
        describe_client(call),
        call.action,
        call.outcome.expect("has an outcome")
    ))
}

fn first_written_twice(calls: &[Call]) -> Option<String> {
    if calls.iter().any(|call| call.action.removes()) {
        return None;
    }
    let mut firsts = calls.iter().filter(|call| call.replaced_version() == Some(0));
    let (a, b) = (firsts.next()?, firsts.next()?);
    Some(format!(
        "{} and {} both succeeded on an absent key, and nothing deleted it",
        describe_client(a),
        describe_client(b)
    ))
}

fn version_from_nowhere(calls: &[Call], start: Start) -> Option<String> {
    calls.iter().find_map(|call| {
        let version = call.observed_version()?;
        let written_by = |other: &&Call| other.produced_version() == Some(version);
        if let Some(writer) = calls.iter().find(written_by) {
            return call.precedes(writer).then(|| {
                format!("{} before {} was invoked", describe_version(call), describe_client(writer))
            });
        }
        let may_have_written = |other: &Call| {
            let value = match other.action {
                Action::Put { value } | Action::CompareAndSet { value, .. } => value,
                Action::Get | Action::Delete | Action::CompareAndDelete { .. } => return false,
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
            return Some(format!("{}, which no operation had written", describe_version(call)));
        }
        let earlier = calls.iter().find(|other| {
            other.precedes(call) && other.greatest_version().is_some_and(|reached| reached < version)
        })?;
        Some(format!(
            "{} after {}, and no operation in between can have written it",
            describe_version(call),
            describe_outcome(earlier)
        ))
    })
}

fn vanished(calls: &[Call]) -> Option<String> {
    if calls
        .iter()
        .any(|call| call.action.removes() && matches!(call.outcome, Some(Outcome::Deleted { .. }) | None))
    {
        return None;
    }
    ordered_pairs(calls).find_map(|(earlier, later)| {
        (later.observed_absence() && earlier.greatest_version().is_some()).then(|| {
            format!("{} after {}, and nothing deleted it", describe_version(later), describe_outcome(earlier))
        })
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
            let found = describe_version(later);
            format!(
                "{found} after {} found or left the key absent, and nothing wrote it in between",
                describe_client(earlier)
            )
        })
    })
}

/// Pairs whose first operation returned before the second was invoked.
fn ordered_pairs(calls: &[Call]) -> impl Iterator<Item = (&Call, &Call)> {
    calls
        .iter()
        .flat_map(move |earlier| calls.iter().map(move |later| (earlier, later)))
        .filter(|(earlier, later)| earlier.precedes(later))
}
