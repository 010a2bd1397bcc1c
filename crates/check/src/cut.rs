//! Histories in which all replicas lost their memory and went on from their disks, although writes had been answered
//! before they were on a disk.
//!
//! After each such *cut* the store must be what it was at some earlier instant *t*: every operation that
//! returned before *t* stays, none that was invoked after *t* does, and of those in between each may stay or
//! not. This is buffered durable linearizability (Izraelevitz, Mendes and Scott, DISC 2016): the operations
//! that stay are closed under real-time order exactly if there is such an instant, over all keys. Before the
//! cut the history must be linearizable as it is.
//!
//! Versions say where *t* can be. A version from before a cut that is read after it has stayed, with all earlier
//! versions of its key, and all later ones are lost. So *t* is not before the invocation of any write that stayed, and
//! not after the return of any that is lost. Besides, writes of one *stream* are accepted in the order of their
//! versions, and none is accepted while one that was accepted more than the lag earlier is not on enough disks. So a
//! write that returned more than the lag before another one of its stream was invoked must have stayed.
//!
//! The history with the lost operations left out is then checked as any other. Only where versions leave *t* open,
//! because a key was found absent, several instants are tried.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::History;
use crate::operation::{Call, NEVER, Operation, Outcome, Reply, Version};
use crate::report::{Report, Verdict};
use crate::{Options, check};

/// The most instants that are tried for one cut.
const INSTANTS_MAX: usize = 64;

/// A loss of the memory of all replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// When the replicas began to serve again, in nanoseconds on the history's clock. They answered nothing between
    /// the loss and this time.
    pub served_again_ns: u64,
    /// All writes after the cut have this version or a greater one, and all writes before it have lower ones.
    pub first_version: Version,
}

/// What is known about writes that are answered before they are on a disk.
#[derive(Clone, Copy)]
pub struct Lag<'a> {
    /// How long after it was accepted a write may be on too few disks while its stream accepts others, in nanoseconds.
    pub lag_ns: u64,
    /// The stream of a write of a key with a version.
    pub stream: &'a dyn Fn(&[u8], Version) -> u64,
}

impl fmt::Debug for Lag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lag").field("lag_ns", &self.lag_ns).finish_non_exhaustive()
    }
}

/// The result of [`check_with_cuts`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutReport {
    /// The check of what has stayed: of all operations if nothing was lost.
    pub report: Report,
    /// Answered writes that cuts have lost, as far as later reads show it.
    pub lost_writes: u64,
    /// Why a cut is none that may happen, if it is so.
    pub violation: Option<String>,
}

/// Checks a history with cuts, which are in the order of time.
pub fn check_with_cuts(history: &History, cuts: &[Cut], lag: &Lag<'_>, options: &Options) -> CutReport {
    let operations: Vec<Operation<'_>> = history.operations().collect();
    solve(operations, cuts, 0, lag, options)
}

fn solve(
    operations: Vec<Operation<'_>>,
    cuts: &[Cut],
    since: u64,
    lag: &Lag<'_>,
    options: &Options,
) -> CutReport {
    let plain = |operations: &[Operation<'_>]| CutReport {
        report: check(&recorded(operations), options),
        lost_writes: 0,
        violation: None,
    };
    let Some((cut, later)) = cuts.split_first() else { return plain(&operations) };
    let before = plain(&until(&operations, cut));
    if before.report.verdict != Verdict::Linearizable {
        return before;
    }
    let found = Found::new(&operations, cut, lag);
    if found.contradiction.is_some() {
        return CutReport { violation: found.contradiction, ..before };
    }
    let (least, most) = (found.least.as_ref().map_or(since, |bound| bound.at.max(since)), found.most());
    if let Some(lost) = found.most.as_ref().filter(|_| most < least) {
        let stays = found.least.map_or("the cut before".to_owned(), |bound| bound.text);
        return CutReport { violation: Some(format!("{}, but {stays}", lost.text)), ..before };
    }
    let instants =
        operations.iter().map(|operation| operation.invoked_ns).filter(|at| (least + 1..=most).contains(at));
    let mut instants: Vec<u64> = std::iter::once(least).chain(instants).collect();
    instants.sort_unstable();
    instants.dedup();
    let mut first = None;
    for &instant in instants.iter().take(INSTANTS_MAX) {
        let rest = solve(found.stays(&operations, cut, instant), later, cut.served_again_ns, lag, options);
        if rest.violation.is_none() && rest.report.verdict == Verdict::Linearizable {
            return CutReport { lost_writes: rest.lost_writes + found.lost, ..rest };
        }
        first.get_or_insert(rest);
    }
    let mut report = first.expect("one instant was tried");
    if instants.len() > INSTANTS_MAX && report.violation.is_none() {
        report.report.verdict = Verdict::Undecided;
    }
    report
}

fn recorded(operations: &[Operation<'_>]) -> History {
    let mut history = History::with_capacity(operations.len());
    operations.iter().for_each(|operation| history.record(*operation).expect("it was in a history before"));
    history
}

/// The operations before a cut. Those that returned after it may have taken effect before it.
fn until<'a>(operations: &[Operation<'a>], cut: &Cut) -> Vec<Operation<'a>> {
    let invoked = operations.iter().filter(|operation| operation.invoked_ns < cut.served_again_ns);
    invoked
        .map(|operation| {
            let reply = operation.reply.filter(|reply| reply.returned_ns < cut.served_again_ns);
            Operation { reply, ..*operation }
        })
        .collect()
}

/// A limit of the instant to which a cut goes back, and why.
struct Bound {
    at: u64,
    text: String,
}

/// A version from before a cut.
#[derive(Clone, Copy)]
struct Written {
    /// When its write was invoked; 0 if nobody knows.
    invoked: u64,
    /// The first return that shows that it took effect.
    settled: u64,
}

/// What the versions say about a cut.
struct Found {
    /// The instant is not before this one.
    least: Option<Bound>,
    /// The instant is not after this one.
    most: Option<Bound>,
    /// Of each key, the version that was found after the cut.
    current: BTreeMap<Vec<u8>, Version>,
    /// Of each key, the greatest version that has certainly stayed.
    stayed: BTreeMap<Vec<u8>, Version>,
    /// A version that has stayed and is lost.
    contradiction: Option<String>,
    served_again: u64,
    /// Number of answered writes that are lost.
    lost: u64,
}

/// Returns the form of an operation that tells about versions.
fn call(operation: &Operation<'_>) -> Call {
    Call {
        index: 0,
        client: operation.client,
        invoked: operation.invoked_ns,
        returned: operation.reply.map_or(NEVER, |reply| reply.returned_ns),
        action: operation.action,
        outcome: operation.reply.map(|reply| reply.outcome),
    }
}

/// The version that an operation read, with the value if it is known.
fn read(call: &Call) -> Option<(Version, Option<u64>)> {
    match call.outcome {
        Some(Outcome::Found { version, value }) => Some((version, Some(value))),
        _ => call.observed_version().map(|version| (version, None)),
    }
}

fn value_of(call: &Call) -> Option<u64> {
    match call.action {
        crate::Action::Put { value } | crate::Action::CompareAndSet { value, .. } => Some(value),
        _ => None,
    }
}

impl Found {
    fn new(operations: &[Operation<'_>], cut: &Cut, lag: &Lag<'_>) -> Self {
        let mut keys: BTreeMap<&[u8], Vec<Call>> = BTreeMap::new();
        for operation in operations {
            keys.entry(operation.key).or_default().push(call(operation));
        }
        let mut found = Self {
            least: None,
            most: None,
            current: BTreeMap::new(),
            stayed: BTreeMap::new(),
            contradiction: None,
            served_again: cut.served_again_ns,
            lost: 0,
        };
        let all: BTreeMap<&[u8], BTreeMap<Version, Written>> =
            keys.iter().map(|(key, calls)| (*key, written(calls, cut))).collect();
        let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
        for (key, versions) in &all {
            for (version, written) in versions {
                let newest = newest.entry((lag.stream)(key, *version)).or_default();
                *newest = (*newest).max(written.invoked);
            }
        }
        for (key, versions) in &all {
            let name = || crate::words::hex(key);
            let current = current(&keys[key], cut);
            let answered = answered_after(&keys[key], cut);
            let is_old = |(version, written): &(&Version, &Written)| {
                written.settled.saturating_add(lag.lag_ns) < newest[&(lag.stream)(key, **version)]
            };
            let must = versions.iter().filter(is_old).map(|(version, _)| *version).max();
            let stayed = [current, answered, must].into_iter().flatten().max();
            for (version, written) in versions.range(..=stayed.unwrap_or(0)) {
                let why = if must.is_some_and(|must| must >= *version) {
                    "is older than the lag"
                } else {
                    "is there"
                };
                let text =
                    || format!("version {version} of {}, invoked at {} ns, {why}", name(), written.invoked);
                found.raise(written.invoked, text);
            }
            if let (Some(current), Some(stayed)) = (current, stayed.filter(|stayed| Some(*stayed) > current))
            {
                let why = if Some(stayed) == answered {
                    "was answered after the cut"
                } else {
                    "is older than the lag"
                };
                let text = || format!("version {stayed} of {} {why}, but version {current} is found", name());
                found.contradiction.get_or_insert_with(text);
            }
            if let Some(current) = current {
                for (version, written) in versions.range(current + 1..) {
                    found.lost += u64::from(written.settled != NEVER);
                    let text = || {
                        format!(
                            "version {version} of {}, answered at {} ns, is lost",
                            name(),
                            written.settled
                        )
                    };
                    found.lower(written.settled, text);
                }
                found.current.insert(key.to_vec(), current);
            }
            if let Some(stayed) = stayed {
                found.stayed.insert(key.to_vec(), stayed);
            }
        }
        found
    }

    fn raise(&mut self, at: u64, text: impl FnOnce() -> String) {
        if self.least.as_ref().is_none_or(|bound| at > bound.at) {
            self.least = Some(Bound { at, text: text() });
        }
    }

    fn lower(&mut self, at: u64, text: impl FnOnce() -> String) {
        if self.most.as_ref().is_none_or(|bound| at < bound.at) {
            self.most = Some(Bound { at, text: text() });
        }
    }

    fn most(&self) -> u64 {
        self.most.as_ref().map_or(self.served_again, |bound| bound.at.min(self.served_again))
    }

    /// The operations that have stayed if the cut goes back to `instant`, and those after the cut.
    fn stays<'a>(&self, operations: &[Operation<'a>], cut: &Cut, instant: u64) -> Vec<Operation<'a>> {
        let again = cut.served_again_ns;
        let stay = |operation: &Operation<'a>| {
            let call = call(operation);
            let by_then = |outcome| Some(Reply { returned_ns: instant.max(call.invoked), outcome });
            if call.invoked >= again || call.returned <= instant {
                return Some(*operation);
            }
            let Some(outcome) = call.outcome else {
                // It was repeated until after the cut, or is lost.
                let invoked_ns = if call.invoked > instant { again } else { call.invoked };
                return Some(Operation { invoked_ns, ..*operation });
            };
            match call.produced_version() {
                Some(version) if version >= cut.first_version => {
                    Some(Operation { invoked_ns: again, ..*operation })
                }
                Some(_) if call.invoked > instant => None,
                Some(version) => {
                    let known = |of: &BTreeMap<Vec<u8>, Version>| of.get(operation.key).copied();
                    let has_stayed = known(&self.stayed).is_some_and(|stayed| version <= stayed);
                    let is_lost = known(&self.current).is_some_and(|current| version > current);
                    let reply = if has_stayed { by_then(outcome) } else { None };
                    (!is_lost).then_some(Operation { reply, ..*operation })
                }
                None => None,
            }
        };
        operations.iter().filter_map(stay).collect()
    }
}

/// The versions of a key from before a cut.
fn written(calls: &[Call], cut: &Cut) -> BTreeMap<Version, Written> {
    let mut versions: BTreeMap<Version, Written> = BTreeMap::new();
    let mut note = |version: Version, invoked: Option<u64>, settled: u64| {
        if (1..cut.first_version).contains(&version) {
            let written = versions.entry(version).or_insert(Written { invoked: 0, settled: NEVER });
            written.invoked = written.invoked.max(invoked.unwrap_or(0));
            written.settled = written.settled.min(settled);
        }
    };
    // A write without an answer is known by its value.
    let mut unanswered: BTreeMap<u64, u64> = BTreeMap::new();
    for (call, value) in calls.iter().filter_map(|call| Some((call, value_of(call)?))) {
        if call.outcome.is_none() {
            let invoked = unanswered.entry(value).or_insert(call.invoked);
            *invoked = call.invoked.min(*invoked);
        }
    }
    for call in calls {
        let returned = if call.returned < cut.served_again_ns { call.returned } else { NEVER };
        if let Some(version) = call.produced_version() {
            note(version, Some(call.invoked), returned);
        }
        if let Some((version, value)) = read(call) {
            note(version, value.and_then(|value| unanswered.get(&value).copied()), returned);
        }
    }
    // What shows a version shows all earlier ones.
    let mut settled = NEVER;
    for written in versions.values_mut().rev() {
        settled = settled.min(written.settled);
        written.settled = settled;
    }
    versions
}

/// The version from before a cut that a key has after it, if some operation shows it.
fn current(calls: &[Call], cut: &Cut) -> Option<Version> {
    let after = calls.iter().filter(|call| call.invoked >= cut.served_again_ns);
    after.filter_map(read).map(|(version, _)| version).filter(|version| *version < cut.first_version).max()
}

/// The greatest version from before a cut that was answered to its writer after it.
fn answered_after(calls: &[Call], cut: &Cut) -> Option<Version> {
    let crossing = calls.iter().filter(|call| call.returned >= cut.served_again_ns);
    crossing.filter_map(Call::produced_version).filter(|version| *version < cut.first_version).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;

    const CUT: Cut = Cut { served_again_ns: 1_000, first_version: 100 };

    fn operation(
        key: &'static [u8],
        invoked_ns: u64,
        returned_ns: u64,
        action: Action,
        outcome: Outcome,
    ) -> Operation<'static> {
        let reply = Some(Reply { returned_ns, outcome });
        Operation { client: 1, key, invoked_ns, action, reply }
    }

    fn put(key: &'static [u8], version: Version, invoked: u64, returned: u64) -> Operation<'static> {
        operation(key, invoked, returned, Action::Put { value: version }, Outcome::Written { version })
    }

    fn delete(key: &'static [u8], version: Version, invoked: u64, returned: u64) -> Operation<'static> {
        operation(key, invoked, returned, Action::Delete, Outcome::Deleted { version })
    }

    fn get(key: &'static [u8], version: Version, invoked: u64) -> Operation<'static> {
        let outcome =
            if version == 0 { Outcome::NotFound } else { Outcome::Found { version, value: version } };
        operation(key, invoked, invoked + 10, Action::Get, outcome)
    }

    /// The violation, if there is one, with one stream a key.
    fn violation_of(cuts: &[Cut], operations: &[Operation<'_>]) -> Option<String> {
        let stream = |key: &[u8], _| u64::from(key[0]);
        let lag = Lag { lag_ns: 100, stream: &stream };
        let report = check_with_cuts(&recorded(operations), cuts, &lag, &Options::default());
        let text = || report.report.violations.iter().map(ToString::to_string).collect::<String>();
        match report.report.verdict {
            _ if report.violation.is_some() => report.violation,
            Verdict::Linearizable => None,
            _ => Some(text()),
        }
    }

    fn violation(operations: &[Operation<'_>]) -> Option<String> {
        violation_of(&[CUT], operations)
    }

    #[test]
    fn the_last_writes_of_all_keys_may_be_lost() {
        let history = [
            put(b"a", 1, 0, 10),
            put(b"b", 2, 100, 110),
            put(b"a", 3, 200, 210),
            get(b"a", 3, 220),
            put(b"b", 4, 250, 260),
            get(b"a", 1, 1_000),
            get(b"b", 2, 1_010),
        ];
        assert_eq!(violation(&history), None);
        let report = check_with_cuts(
            &recorded(&history),
            &[CUT],
            &Lag { lag_ns: 500, stream: &|_, _| 0 },
            &Options::default(),
        );
        assert_eq!(report.lost_writes, 2);
        assert!(violation_of(&[], &history).is_some(), "without a cut, nothing may be lost");
    }

    #[test]
    fn a_write_does_not_stay_without_one_that_was_answered_before() {
        let lost = [put(b"a", 1, 0, 10), put(b"b", 2, 20, 30), get(b"b", 2, 1_000), get(b"a", 0, 1_010)];
        let text = violation(&lost).unwrap();
        assert!(text.contains("version 1"), "{text}");
        let overlapping =
            [put(b"a", 1, 0, 25), put(b"b", 2, 20, 30), get(b"b", 2, 1_000), get(b"a", 0, 1_010)];
        assert_eq!(violation(&overlapping), None);
    }

    #[test]
    fn what_was_read_before_a_later_write_stays_with_it() {
        let history = [
            put(b"a", 1, 0, 10),
            put(b"a", 2, 20, 900),
            get(b"a", 2, 30),
            put(b"b", 3, 50, 60),
            get(b"b", 3, 1_000),
            get(b"a", 1, 1_020),
        ];
        let text = violation(&history).unwrap();
        assert!(text.contains("version 2 of 61, answered at 40 ns, is lost, but version 3 of 62"), "{text}");
    }

    #[test]
    fn a_write_that_is_older_than_the_lag_stays() {
        let lost = |invoked| {
            violation(&[
                put(b"a", 1, 0, 10),
                put(b"a", 2, 20, 30),
                put(b"a", 3, invoked, invoked + 10),
                get(b"a", 1, 1_000),
            ])
        };
        assert_eq!(lost(130), None);
        let text = lost(131).unwrap();
        assert!(text.contains("version 2 of 61 is older than the lag, but version 1 is found"), "{text}");
    }

    #[test]
    fn a_lost_write_does_not_come_back() {
        let history = [
            put(b"a", 1, 0, 10),
            put(b"a", 2, 20, 30),
            get(b"a", 1, 1_000),
            get(b"a", 2, 1_020),
            get(b"a", 1, 1_040),
        ];
        assert!(violation(&history).is_some());
        assert!(violation(&history[..4]).is_some(), "version 2 after version 1");
    }

    #[test]
    fn an_answer_after_the_cut_belongs_to_a_write_that_stayed() {
        let answered = [put(b"a", 1, 0, 10), put(b"a", 2, 20, 1_050), get(b"a", 1, 1_100)];
        assert!(violation(&answered).is_some(), "version 2 was answered from a lost record");
        let again =
            [put(b"a", 1, 0, 10), put(b"a", 100, 20, 1_050), get(b"a", 1, 1_000), get(b"a", 100, 1_100)];
        assert_eq!(violation(&again), None, "it was executed after the cut");
    }

    #[test]
    fn an_absent_key_leaves_open_which_deletion_stayed() {
        let base =
            [put(b"a", 1, 0, 10), delete(b"a", 2, 20, 30), put(b"a", 3, 40, 50), delete(b"a", 4, 60, 70)];
        let with = |more: &[Operation<'static>]| violation(&[&base[..], more].concat());
        assert_eq!(with(&[get(b"a", 0, 1_000)]), None);
        assert_eq!(
            with(&[put(b"b", 5, 55, 57), get(b"b", 5, 1_000), get(b"a", 0, 1_020)]),
            None,
            "both deletions"
        );
        assert!(with(&[put(b"b", 5, 55, 57), get(b"b", 0, 1_000), get(b"a", 4, 1_020)]).is_some());
        let neither = [put(b"b", 5, 35, 37), put(b"a", 6, 80, 90), get(b"b", 0, 1_000), get(b"a", 6, 1_020)];
        assert!(with(&neither).is_some(), "version 5 is lost and version 6 is not");
    }

    #[test]
    fn every_cut_is_judged_by_itself() {
        let second = Cut { served_again_ns: 2_000, first_version: 200 };
        let history = |last| {
            [
                put(b"a", 1, 0, 10),
                put(b"a", 2, 20, 30),
                get(b"a", 1, 1_000),
                put(b"a", 100, 1_020, 1_030),
                put(b"a", 101, 1_040, 1_050),
                get(b"a", last, 2_000),
            ]
        };
        let judge = |last| violation_of(&[CUT, second], &history(last));
        assert_eq!([101, 100, 1].map(&judge), [None, None, None]);
        assert!(judge(2).is_some(), "the first cut has lost it");
    }
}
