//! Every kind of malformed packet, on both kinds of NIC.

use crate::side_by_side;
use weft_conformance::malformed::{CASES, suffer};
use weft_conformance::rules::{is_exceptional, malformed_exception};
use weft_conformance::twin::Kind;
use weft_verbs::QueuePairState;

fn check(kind: Kind) {
    let failures: Vec<_> = side_by_side::map(CASES, |case| {
        let expected = suffer(case, Kind::Soft);
        let found = if kind == Kind::Soft { expected.clone() } else { suffer(case, kind) };
        let exception = malformed_exception(case.name, kind);
        let counter = exception.map_or(case.counter, |exception| exception.counter);
        let answer = exception.map_or(case.answer, |exception| exception.answer);
        match (&expected, &found) {
            (_, Err(error)) => Some(format!("{}: {error}", case.name)),
            (_, Ok(found)) if found.answer() != answer => {
                Some(format!("{}: answers `{}`, not `{answer}`", case.name, found.answer()))
            }
            (_, Ok(found)) if found.counter(counter) == 0 => {
                Some(format!("{}: {counter} is not among {:?}", case.name, found.counters))
            }
            (_, Ok(found)) if exception.is_none() && case.fatal != (found.state == QueuePairState::Error) => {
                Some(format!("{}: the queue pair is in {}", case.name, found.state))
            }
            (Ok(expected), Ok(found)) if !is_exceptional(case.name) && expected != found => {
                Some(format!("{}:\n  {expected:?}\n  {found:?}", case.name))
            }
            _ => None,
        }
    });
    let failures: Vec<_> = failures.into_iter().flatten().collect();
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), CASES.len(), failures.join("\n"));
}

#[test]
fn soft_takes_every_bad_packet_as_the_rules_say() {
    check(Kind::Soft);
}

#[test]
fn rtl_takes_every_bad_packet_as_soft_does() {
    check(Kind::Rtl);
}

#[test]
fn there_are_enough_kinds_and_each_has_a_name() {
    let names: std::collections::BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), CASES.len());
    assert!(CASES.len() >= 40);
}
