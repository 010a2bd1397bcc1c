//! Pairs of operations that contradict each other, so that no history of a key can contain both.
//!
//! Most bugs produce such a pair, and all pairs are found without a search. So a violation of a busy key with many
//! unanswered operations is reported even though a search would have too many choices, and the report needs only
//! two operations.

use crate::operation::{Action, Call, Outcome};
use crate::words::{describe_client, describe_outcome, describe_version};

/// A contradicting pair among `calls`, which are sorted by invocation, if there is one.
pub(crate) fn find(calls: &[Call]) -> Option<[Call; 2]> {
    out_of_order(calls).or_else(|| about_one_version(calls))
}

/// Compares each operation with the greatest version that had returned before it was invoked.
fn out_of_order(calls: &[Call]) -> Option<[Call; 2]> {
    let mut by_return: Vec<&Call> = calls.iter().filter(|call| call.greatest_version().is_some()).collect();
    by_return.sort_unstable_by_key(|call| call.returned);
    let mut returned = by_return.into_iter().peekable();
    let mut greatest: Option<&Call> = None;
    calls.iter().find_map(|call| {
        while let Some(earlier) = returned.next_if(|earlier| earlier.precedes(call)) {
            if greatest.is_none_or(|greatest| earlier.greatest_version() > greatest.greatest_version()) {
                greatest = Some(earlier);
            }
        }
        greatest.filter(|greatest| contradiction(greatest, call).is_some()).map(|greatest| [*greatest, *call])
    })
}

/// Compares the operations that name a version with the first one that wrote it, the first one that returned its
/// value, and the first one that replaced it.
fn about_one_version(calls: &[Call]) -> Option<[Call; 2]> {
    let mut naming: Vec<(u64, &Call)> = calls
        .iter()
        .flat_map(|call| [call.observed_version(), call.produced_version()].map(|version| (version, call)))
        .filter_map(|(version, call)| Some((version?, call)))
        .collect();
    naming.sort_by_key(|&(version, _)| version);
    naming.chunk_by(|(a, _), (b, _)| a == b).find_map(|group| {
        let version = group[0].0;
        let first = |is: fn(&Call, u64) -> bool| {
            group.iter().find(|(_, call)| is(call, version)).map(|&(_, call)| call)
        };
        let wrote = first(|call, version| call.produced_version() == Some(version));
        let told = first(|call, _| matches!(call.outcome, Some(Outcome::Found { .. })));
        let replaced = first(|call, version| call.replaced_version() == Some(version));
        [wrote, told, replaced].into_iter().flatten().find_map(|first| {
            let other = group
                .iter()
                .find(|(_, call)| call.index != first.index && contradiction(first, call).is_some());
            other.map(
                |&(_, other)| {
                    if first.invoked <= other.invoked { [*first, *other] } else { [*other, *first] }
                },
            )
        })
    })
}

/// The contradiction between `a` and `b`, if they cannot both be part of a history of one key.
pub(crate) fn contradiction(a: &Call, b: &Call) -> Option<String> {
    one_version_twice(a, b)
        .or_else(|| one_version_replaced_twice(a, b))
        .or_else(|| two_values_of_one_version(a, b))
        .or_else(|| read_before_written(a, b))
        .or_else(|| read_before_written(b, a))
        .or_else(|| version_went_back(a, b))
        .or_else(|| version_went_back(b, a))
}

fn one_version_twice(a: &Call, b: &Call) -> Option<String> {
    let version = a.produced_version().filter(|&version| b.produced_version() == Some(version))?;
    Some(format!("{} and {} were both given version {version}", describe_client(a), describe_client(b)))
}

fn one_version_replaced_twice(a: &Call, b: &Call) -> Option<String> {
    let version =
        a.replaced_version().filter(|&version| version != 0 && b.replaced_version() == Some(version))?;
    Some(format!("{} and {} both succeeded on version {version}", describe_client(a), describe_client(b)))
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
            describe_client(a),
            describe_client(b)
        )
    })
}

fn version_went_back(earlier: &Call, later: &Call) -> Option<String> {
    let reached = earlier.greatest_version().filter(|_| earlier.precedes(later))?;
    let goes_back = match later.observed_version() {
        Some(observed) => observed < reached,
        None => later.produced_version()? <= reached,
    };
    goes_back.then(|| format!("{} after {}", describe_version(later), describe_outcome(earlier)))
}

fn read_before_written(reader: &Call, writer: &Call) -> Option<String> {
    let read = writer.produced_version().is_some() && reader.observed_version() == writer.produced_version();
    (read && reader.precedes(writer))
        .then(|| format!("{} before {} was invoked", describe_version(reader), describe_client(writer)))
}
