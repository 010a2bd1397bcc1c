//! Acknowledged writes that are missing in the last read of a key.

use crate::history::History;
use crate::operation::{Action, Call, Outcome, Version};

/// Counts the acknowledged mutations that the final read of their key contradicts.
///
/// The *final read* of a key is its answered get with the latest invocation (of several, the one that returned
/// last). A mutation counts if it was acknowledged as written or deleted before the final read was invoked.
///
/// - If the read found version v, each counting mutation with a version greater than v is lost.
/// - If the read found nothing and some delete can explain it, nothing is lost. A delete can explain it if it was
///   invoked before the read returned and either has no known outcome, or has a version greater than those of all
///   counting writes.
/// - If the read found nothing and no delete can explain it, the writes with a version greater than that of the
///   latest acknowledged delete are lost.
///
/// A key without a get contributes nothing. A history can be in violation without a loss by this count (a stale
/// read in the middle), but a loss is always a violation.
pub fn lost_acknowledged_writes(history: &History) -> u64 {
    let mut lost = 0;
    history.for_each_key(|_, calls| lost += lost_of_key(calls));
    lost
}

pub(crate) fn lost_of_key(calls: &[Call]) -> u64 {
    let answered = |call: &&Call| {
        matches!((call.action, call.outcome), (Action::Get, Some(Outcome::Found { .. } | Outcome::NotFound)))
    };
    let Some(read) = calls.iter().filter(answered).max_by_key(|call| (call.invoked, call.returned)) else {
        return 0;
    };
    let before = || calls.iter().filter(|call| call.precedes(read));
    let count_greater = |floor: Version| {
        before().filter(|call| call.produced_version().is_some_and(|version| version > floor)).count() as u64
    };
    if let Some(Outcome::Found { version, .. }) = read.outcome {
        return count_greater(version);
    }
    let written = |call: &Call| match call.outcome {
        Some(Outcome::Written { version }) => Some(version),
        _ => None,
    };
    let deleted = |call: &Call| match call.outcome {
        Some(Outcome::Deleted { version }) => Some(version),
        None if call.action.removes() => Some(Version::MAX),
        _ => None,
    };
    let last_write = before().filter_map(written).max().unwrap_or(0);
    let last_delete =
        calls.iter().filter(|call| call.invoked <= read.returned).filter_map(deleted).max().unwrap_or(0);
    if last_delete >= last_write { 0 } else { count_greater(last_delete) }
}
