//! Large histories: correct ones are accepted, and one wrong answer in the middle is found and shown in a small
//! window.

use std::time::Instant;

use crate::synthetic::Synthetic;
use weft_check::{Action, History, Operation, Options, Outcome, Report, check};

fn report(operations: &[Operation<'_>]) -> Report {
    let mut history = History::with_capacity(operations.len());
    for &operation in operations {
        history.record(operation).expect("valid");
    }
    let began = Instant::now();
    let report = check(&history, &Options::default());
    println!("{} operations: {} in {:?}", report.operations, report.checked(), began.elapsed());
    report
}

#[test]
fn ycsb_a_is_accepted() {
    let report = report(&Synthetic::ycsb_a(1_000_000).generate(1));
    assert_eq!((report.checked(), report.lost_acknowledged_writes), ("linearizable", 0));
}

#[test]
fn one_hot_key_of_all_operations_is_accepted() {
    let hot = Synthetic { keys: 1, clients: 256, per_mille: [300, 200, 200], ..Synthetic::ycsb_a(200_000) };
    assert_eq!(report(&hot.generate(2)).checked(), "linearizable");
}

#[test]
fn many_lost_replies_are_accepted() {
    for version_step in [1, 3] {
        for seed in 0..20 {
            let lossy = Synthetic {
                clients: 16,
                keys: 20,
                per_mille: [400, 200, 200],
                lost_per_mille: 30,
                version_step,
                ..Synthetic::ycsb_a(20_000)
            };
            assert_eq!(report(&lossy.generate(seed)).checked(), "linearizable", "seed {seed}");
        }
    }
}

#[test]
fn a_stale_read_in_a_large_history_is_shown_small() {
    for seed in 0..4 {
        let mut operations = Synthetic::ycsb_a(200_000).generate(seed);
        let key = operations[0].key;
        let is_found = |operation: &Operation<'_>| {
            operation.key == key
                && matches!(operation.reply.map(|reply| reply.outcome), Some(Outcome::Found { .. }))
        };
        let old = operations.iter().position(&is_found).expect("some get");
        let new = 100_000 + operations[100_000..].iter().position(is_found).expect("some get");
        let stale = operations[old].reply.expect("answered").outcome;
        operations[new].reply.as_mut().expect("answered").outcome = stale;
        let report = report(&operations);
        assert_eq!((report.checked(), report.keys_in_violation), ("violation", 1));
        let violation = &report.violations[0];
        println!("{violation}");
        assert!(violation.window.operations.len() <= 3, "{violation}");
        assert!(violation.window.operations.iter().any(|operation| operation.index as usize == new));
    }
}

#[test]
fn a_phantom_read_among_lost_replies_is_found() {
    for seed in 0..4 {
        let lossy = Synthetic {
            keys: 5,
            lost_per_mille: 10,
            per_mille: [500, 300, 100],
            ..Synthetic::ycsb_a(20_000)
        };
        let mut operations = lossy.generate(seed);
        let at = operations.iter().skip(10_000).position(|operation| {
            matches!(operation.reply.map(|reply| reply.outcome), Some(Outcome::Found { .. }))
        });
        let at = 10_000 + at.expect("some get");
        if let Some(reply) = &mut operations[at].reply
            && let Outcome::Found { value, .. } = &mut reply.outcome
        {
            *value += 1_000_000;
        }
        let report = report(&operations);
        assert_eq!(report.checked(), "violation");
        let violation = &report.violations[0];
        println!("{violation}");
        assert!(violation.window.operations.len() <= 4, "{violation}");
        assert!(violation.window.operations.iter().any(|operation| operation.action == Action::Get));
    }
}
