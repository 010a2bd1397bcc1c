//! Reduces a violation to the few operations that show it.
//!
//! Leaving out an operation can turn a good history into an anomaly (a get whose put is missing). Every reduction
//! here is *harmless*: from any order that explains the operations before the reduction, removing those left out
//! gives an order that explains the remaining ones. So if the reduced history has no order, neither has the whole.

use crate::Start;
use crate::operation::{Action, Call, NEVER, Outcome, Version};
use crate::search::{Answer, search};

/// A reduced violation.
#[derive(Debug)]
pub(crate) struct Shrunk {
    /// The remaining operations, sorted by invocation. Operations that extend beyond the window have lost their
    /// outcome: they may have taken effect inside the window, outside, or never.
    pub(crate) calls: Vec<Call>,
    /// Possible states of the key before the first of them.
    pub(crate) start: Start,
}

/// Reduces `calls`, which have no order from `start`. The result has none either.
pub(crate) fn shrink(calls: &[Call], start: Start, mut effort: u64) -> Shrunk {
    let mut shows = |calls: &[Call], start| search(calls, start, &mut effort) == Answer::NoOrder;

    // Every prefix of a good history is good. So there is a shortest bad prefix, and bisection finds it.
    let mut ends: Vec<u64> = reported(calls).map(|call| call.returned).collect();
    ends.sort_unstable();
    let to = match least(&ends, |to| shows(&window(calls, 0, to), start)) {
        Some(to) => to,
        None => NEVER,
    };
    let calls = window(calls, 0, to);

    // Every suffix of a good history is good as well, if nothing is assumed about its initial state.
    let mut begins: Vec<u64> = reported(&calls).map(|call| call.invoked).collect();
    begins.sort_unstable_by(|a, b| b.cmp(a));
    let from = least(&begins, |from| shows(&window(&calls, from, to), Start::Unknown));
    let (mut calls, start) = match from {
        Some(from) => (window(&calls, from, to), Start::Unknown),
        None => (calls, start),
    };

    loop {
        let before = calls.len();
        drop_reads(&mut calls, |calls| shows(calls, start));
        for call in (0..before).rev() {
            if let Some(fewer) = without(&calls, call)
                && shows(&fewer, start)
            {
                calls = fewer;
            }
        }
        if calls.len() == before {
            return Shrunk { calls, start };
        }
    }
}

fn reported(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().filter(|call| call.outcome.is_some())
}

/// The first of `candidates` for which `holds` is true, provided that it is true for all candidates after it;
/// `None` if it is false for the last one.
fn least(candidates: &[u64], mut holds: impl FnMut(u64) -> bool) -> Option<u64> {
    let &last = candidates.last()?;
    if !holds(last) {
        return None;
    }
    let at = candidates.partition_point(|&candidate| candidate != last && !holds(candidate));
    Some(candidates[at])
}

/// The operations in a window from `from` to `to`: those completely inside are unchanged; mutations that extend
/// beyond the window lose their outcome. If an operation began before `from`, the initial state of the window must
/// be unknown.
///
/// The reduction is harmless. All operations left out at the front precede all those invoked inside. An operation
/// that extends over the front edge takes effect either before all of these, which the unknown initial state
/// covers, or inside.
pub(crate) fn window(calls: &[Call], from: u64, to: u64) -> Vec<Call> {
    let cut = |call: &Call| {
        let inside = call.invoked >= from && call.returned <= to;
        match call.outcome {
            _ if call.invoked > to => None,
            None => Some(*call),
            Some(_) if call.returned < from => None,
            Some(_) if inside => Some(*call),
            Some(outcome) => {
                outcome.took_effect().then_some(Call { outcome: None, returned: NEVER, ..*call })
            }
        }
    };
    calls.iter().filter_map(cut).collect()
}

/// Leaves out reads, in ever smaller groups, while `shows` holds.
fn drop_reads(calls: &mut Vec<Call>, mut shows: impl FnMut(&[Call]) -> bool) {
    let is_read = |call: &Call| call.outcome.is_some_and(|outcome| !outcome.took_effect());
    let mut group = calls.len();
    while group > 0 {
        let mut at = 0;
        while at < calls.len() {
            let end = (at + group).min(calls.len());
            let mut fewer = calls.clone();
            let mut position = 0;
            fewer.retain(|call| {
                position += 1;
                !((at..end).contains(&(position - 1)) && is_read(call))
            });
            if fewer.len() < calls.len() && shows(&fewer) {
                *calls = fewer;
            } else {
                at = end;
            }
        }
        group /= 2;
    }
}

/// `calls` without the one at `position`, and without those that depend on it; `None` if that might not be
/// harmless, or if there is no such call.
///
/// An operation that changes nothing can be left out alone. A mutation is left out together with all operations
/// that may have observed the key as it left it; then only the next mutation can have followed it.
pub(crate) fn without(calls: &[Call], position: usize) -> Option<Vec<Call>> {
    let gone = calls.get(position)?;
    let mut rest = calls.to_vec();
    rest.remove(position);
    let harmless = match (gone.action, gone.outcome) {
        (_, Some(Outcome::Written { version })) => {
            // If a compare-and-delete observed a version that is left out, its deletion is left out, too.
            !remove_observers(&mut rest, version) || !depends_on_absence(&rest)
        }
        (Action::Delete | Action::CompareAndDelete { .. }, Some(Outcome::Deleted { .. }) | None) => {
            !depends_on_absence(&rest)
        }
        (Action::Put { value } | Action::CompareAndSet { value, .. }, None) => {
            !rest.iter().any(|call| may_observe_unreported(call, value, &rest))
        }
        _ => true,
    };
    // A successful delete may have needed the value that is left out.
    let leaves_a_value = !gone.action.removes();
    let changed = gone.outcome.is_none_or(Outcome::took_effect);
    let deleted_after = |call: &Call| match call.outcome {
        Some(Outcome::Deleted { version }) => gone.produced_version().is_none_or(|gone| version > gone),
        _ => false,
    };
    let may_be_needed = changed && leaves_a_value && rest.iter().any(deleted_after);
    let swapped_after = |call: &Call| {
        gone.produced_version().is_some() && unreported_swap(call).is_some_and(|expected| expected != 0)
    };
    let may_be_swapped = changed && leaves_a_value && rest.iter().any(swapped_after);
    (harmless && !may_be_needed && !may_be_swapped).then_some(rest)
}

/// Whether some operation requires that the key was absent.
fn depends_on_absence(calls: &[Call]) -> bool {
    calls.iter().any(|call| call.observed_absence() || unreported_swap(call) == Some(0))
}

/// The version that a compare-and-set or compare-and-delete expected, if it has no outcome.
fn unreported_swap(call: &Call) -> Option<Version> {
    match (call.action, call.outcome) {
        (Action::CompareAndSet { expected, .. } | Action::CompareAndDelete { expected }, None) => {
            Some(expected)
        }
        _ => None,
    }
}

/// Removes all operations that observed `version`, and recursively those that observed the versions that these
/// wrote. Returns whether one of them is a deletion.
fn remove_observers(calls: &mut Vec<Call>, version: Version) -> bool {
    let mut versions = vec![version];
    let mut deletions = false;
    while let Some(version) = versions.pop() {
        calls.retain(|call| {
            let stays = call.observed_version() != Some(version);
            if !stays {
                versions.extend(call.produced_version());
                deletions |= call.action.removes();
            }
            stays
        });
    }
    deletions
}

/// Whether `call` may have observed the key as an unreported write of `value` left it.
fn may_observe_unreported(call: &Call, value: u64, all: &[Call]) -> bool {
    if unreported_swap(call).is_some_and(|expected| expected != 0) {
        return true;
    }
    let Some(version) = call.observed_version() else { return false };
    // A version that a reported mutation got, or that was read with another value, cannot be that of the
    // unreported write.
    !all.iter().any(|other| {
        other.produced_version() == Some(version)
            || matches!(other.outcome, Some(Outcome::Found { version: v, value: x }) if v == version && x != value)
    })
}
