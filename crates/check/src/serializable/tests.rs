//! Each hand-made anomaly is found and has the right name; harmless histories pass.

use super::*;

const A: u64 = 0xa;
const B: u64 = 0xb;

/// A history under construction.
#[derive(Default)]
struct Run {
    history: History,
    sequence: u64,
}

fn value(version: u64) -> [u8; 8] {
    version.to_le_bytes()
}

fn present(accesses: &[(u64, u64)]) -> Vec<Access> {
    accesses.iter().map(|&(key, version)| Access::present(key, version, &value(version))).collect()
}

impl Run {
    fn add(&mut self, started_ps: u64, fate: Fate, reads: &[Access], writes: &[Access]) -> &mut Self {
        self.sequence += 1;
        let id = TransactionId { coordinator: 2, epoch: 1, sequence: self.sequence };
        self.history.record(&Transaction { id, started_ps, fate, reads, writes });
        self
    }

    /// Adds a transaction that committed, with its reads and writes as keys and versions.
    fn commit(&mut self, time: (u64, u64), reads: &[(u64, u64)], writes: &[(u64, u64)]) -> &mut Self {
        self.add(time.0, Fate::Committed { ended_ps: time.1 }, &present(reads), &present(writes))
    }

    fn replica(&mut self, state: Vec<Access>) -> &mut Self {
        self.history.final_state("node1", |_| true, state, &Options::default());
        self
    }

    fn check(&mut self) -> Report {
        check(std::mem::take(&mut self.history), &Options::default())
    }

    fn passes(&mut self) -> Report {
        let report = self.check();
        assert!(!report.is_violated(), "{:?}", report.violations);
        report
    }

    /// The only violation in the history.
    fn violation(&mut self) -> Violation {
        let report = self.check();
        assert!(report.is_violated());
        assert_eq!(report.violations.len(), 1, "{:?}", report.violations);
        println!("{}", report.violations[0]);
        report.violations[0].clone()
    }

    fn anomaly(&mut self) -> Anomaly {
        match self.violation() {
            Violation::Cycle { anomaly, .. } => anomaly,
            other => panic!("not a cycle: {other}"),
        }
    }
}

#[test]
fn a_serial_history_passes() {
    let report = Run::default()
        .commit((0, 10), &[(A, 0)], &[(A, 1), (B, 1)])
        .commit((20, 30), &[(A, 1), (B, 1)], &[(A, 4)])
        .commit((40, 50), &[(A, 4), (B, 1)], &[])
        .passes();
    assert_eq!((report.transactions, report.keys, report.reads, report.writes), (3, 2, 5, 3));
    assert_eq!(report.checked(), "strictly serializable");
}

#[test]
fn a_lost_update_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[(A, 0)], &[(A, 1)]).commit((0, 10), &[(A, 0)], &[(A, 2)]);
    assert_eq!(run.anomaly(), Anomaly::LostUpdate);
}

#[test]
fn write_skew_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[(A, 0), (B, 0)], &[(A, 1)]).commit((0, 10), &[(A, 0), (B, 0)], &[(B, 1)]);
    assert_eq!(run.anomaly(), Anomaly::WriteSkew);
}

#[test]
fn read_skew_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 1), (B, 1)]).commit((0, 10), &[(A, 1), (B, 0)], &[]);
    assert_eq!(run.anomaly(), Anomaly::ReadSkew);
}

#[test]
fn a_dirty_write_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 1), (B, 2)]).commit((0, 10), &[], &[(A, 2), (B, 1)]);
    assert_eq!(run.anomaly(), Anomaly::DirtyWrite);
}

#[test]
fn circular_information_flow_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[(B, 1)], &[(A, 1)]).commit((0, 10), &[(A, 1)], &[(B, 1)]);
    assert_eq!(run.anomaly(), Anomaly::CircularInformationFlow);
}

/// Two transactions write different keys, and two readers see the writes in opposite orders.
#[test]
fn a_long_fork_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 1)])
        .commit((0, 10), &[], &[(B, 1)])
        .commit((0, 10), &[(A, 1), (B, 0)], &[])
        .commit((0, 10), &[(A, 0), (B, 1)], &[]);
    let Violation::Cycle { anomaly: Anomaly::WriteSkew, steps } = run.violation() else {
        panic!("not the right kind")
    };
    assert_eq!(steps.len(), 4);
}

#[test]
fn a_stale_read_is_serializable_but_not_strictly() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 1)]).commit((11, 20), &[(A, 0)], &[]);
    let report = run.check();
    assert_eq!((report.cycles, report.cycles_in_real_time_only), (1, 1));
    assert_eq!(
        report.violations[0].to_string(),
        "out of real time: node2/1/1 ended at 10 ps, before node2/1/2 started at 11 ps; \
         node2/1/2 read version 0 of key 0xa, which node2/1/1 overwrote with version 1"
    );
}

#[test]
fn a_transaction_that_starts_as_another_ends_is_concurrent() {
    Run::default().commit((0, 10), &[], &[(A, 1)]).commit((10, 20), &[(A, 0)], &[]).passes();
}

#[test]
fn what_had_not_started_cannot_have_been_read() {
    let mut run = Run::default();
    run.commit((0, 10), &[(A, 1)], &[]).add(20, Fate::Unknown, &[], &present(&[(A, 1)]));
    assert_eq!(run.anomaly(), Anomaly::Stale);
}

/// The order in real time also holds across transactions that have no key in common.
#[test]
fn a_stale_read_behind_others_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 1)])
        .commit((5, 12), &[], &[(0x77, 1)])
        .commit((11, 30), &[], &[(0x78, 1)])
        .commit((25, 40), &[(A, 0), (B, 0)], &[]);
    assert_eq!(run.anomaly(), Anomaly::Stale);
}

#[test]
fn versions_against_real_time_are_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 2)]).commit((11, 20), &[], &[(A, 1)]);
    assert_eq!(run.anomaly(), Anomaly::Stale);
}

#[test]
fn the_shortest_cycle_is_shown() {
    let mut run = Run::default();
    // A ring of ten transactions with read-to-write dependencies, and a chord that makes a cycle of three.
    for index in 0..10u64 {
        let mut reads = vec![(100 + index, 0)];
        if index == 2 {
            reads.push((100, 0));
        }
        let next = 100 + (index + 9) % 10;
        run.commit((0, 10), &reads, &[(next, 1)]);
    }
    let Violation::Cycle { steps, .. } = run.violation() else { panic!("not a cycle") };
    assert_eq!(steps.len(), 2);
}

#[test]
fn a_read_of_nothing_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[(A, 7)], &[]);
    assert!(matches!(run.violation(), Violation::Unwritten { key: A, version: 7, .. }));
    // A read of the right value under a version that no transaction wrote is a violation, too.
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 4)]);
    let read = Access::present(A, 7, &value(4));
    run.add(20, Fate::Committed { ended_ps: 30 }, &[read], &[]);
    assert!(matches!(run.violation(), Violation::Unwritten { key: A, version: 7, .. }));
}

#[test]
fn a_read_of_the_own_write_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[(A, 7)], &[(A, 7)]);
    assert!(matches!(run.violation(), Violation::OwnWrite { key: A, version: 7, written: 7, .. }));
    run.add(0, Fate::Committed { ended_ps: 10 }, &[Access::absent(A, 8)], &present(&[(A, 7)]));
    assert!(matches!(run.violation(), Violation::OwnWrite { key: A, version: 8, written: 7, .. }));
}

#[test]
fn what_was_there_before_may_be_read() {
    let options = Options { initial_version: 7, ..Options::default() };
    let mut run = Run::default();
    run.commit((0, 10), &[(A, 7)], &[(A, 8)]).commit((20, 30), &[(A, 7)], &[]);
    let report = check(std::mem::take(&mut run.history), &options);
    assert_eq!((report.wrong_reads, report.cycles_in_real_time_only), (0, 1));
}

#[test]
fn an_aborted_read_is_found() {
    let mut run = Run::default();
    run.add(0, Fate::Aborted, &[], &present(&[(A, 1)])).commit((0, 10), &[(A, 1)], &[]);
    let violation = run.violation();
    assert!(matches!(violation, Violation::AbortedRead { key: A, version: 1, .. }), "{violation}");
}

#[test]
fn a_torn_value_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 1)]).add(
        0,
        Fate::Committed { ended_ps: 10 },
        &[Access::present(A, 1, b"torn")],
        &[],
    );
    assert!(matches!(run.violation(), Violation::WrongValue { key: A, version: 1, .. }));
}

#[test]
fn a_doubled_version_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 1)]).commit((0, 10), &[], &[(A, 1)]);
    assert!(matches!(run.violation(), Violation::Doubled { key: A, version: 1, .. }));
}

#[test]
fn deletions_are_writes_and_absence_is_read() {
    let committed = Fate::Committed { ended_ps: 10 };
    Run::default()
        .add(0, committed, &present(&[(A, 0)]), &present(&[(A, 1)]))
        .add(0, committed, &present(&[(A, 1)]), &[Access::absent(A, 5)])
        // The absent key may be reported with the version of a later deletion in its neighbourhood.
        .add(0, committed, &[Access::absent(A, 9), Access::absent(B, 9)], &present(&[(A, 12)]))
        .add(0, committed, &present(&[(A, 12)]), &[])
        .passes();
}

#[test]
fn an_absence_that_cannot_be_is_found() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 1)]).add(
        0,
        Fate::Committed { ended_ps: 10 },
        &[Access::absent(A, 3)],
        &[],
    );
    assert!(matches!(run.violation(), Violation::WronglyAbsent { key: A, version: 3, written: 1, .. }));
}

#[test]
fn what_was_there_in_the_beginning_is_not_absent() {
    let committed = Fate::Committed { ended_ps: 10 };
    let mut run = Run::default();
    run.add(0, committed, &[Access::absent(A, 0)], &[]).commit((0, 10), &[(A, 0)], &[]);
    assert!(matches!(run.violation(), Violation::WronglyAbsent { key: A, writer: None, .. }));
    // The read is correct if the key was deleted, perhaps by a transaction with an unknown outcome.
    run.add(0, committed, &[Access::absent(A, 1)], &[]).commit((0, 10), &[(A, 0)], &[]).add(
        0,
        Fate::Unknown,
        &[],
        &[Access::absent(A, 1)],
    );
    assert_eq!(run.passes().unknown_but_seen, 1);
}

#[test]
fn a_phantom_is_found() {
    let committed = Fate::Committed { ended_ps: 10 };
    let mut run = Run::default();
    // Each transaction inserts a key that the other found absent.
    run.add(0, committed, &[Access::absent(A, 0)], &present(&[(B, 1)])).add(
        0,
        committed,
        &[Access::absent(B, 0)],
        &present(&[(A, 1)]),
    );
    assert_eq!(run.anomaly(), Anomaly::WriteSkew);
}

#[test]
fn a_transaction_without_an_answer_counts_only_if_seen() {
    let report = Run::default()
        .add(0, Fate::Unknown, &present(&[(A, 0)]), &present(&[(A, 1)]))
        .commit((50, 60), &[(A, 0)], &[(A, 2)])
        .passes();
    assert_eq!((report.transactions, report.unknown_and_unseen), (1, 1));
    // In this history another transaction has read one of the writes.
    let mut run = Run::default();
    run.add(0, Fate::Unknown, &present(&[(A, 0)]), &present(&[(A, 1), (B, 1)]))
        .commit((50, 60), &[(A, 0)], &[(A, 2)])
        .commit((50, 60), &[(B, 1)], &[]);
    assert_eq!(run.anomaly(), Anomaly::LostUpdate);
    // A transaction with an unknown outcome has no end, so others may precede it at any later time.
    let report = Run::default()
        .add(0, Fate::Unknown, &[], &present(&[(A, 5)]))
        .commit((50, 60), &[(A, 0)], &[(A, 3)])
        .commit((70, 80), &[(A, 5)], &[])
        .passes();
    assert_eq!((report.transactions, report.unknown_but_seen), (3, 1));
}

#[test]
fn what_one_without_an_answer_read_counts_too() {
    let mut run = Run::default();
    run.add(0, Fate::Unknown, &[], &present(&[(A, 1)]))
        .add(0, Fate::Unknown, &present(&[(A, 1)]), &present(&[(B, 1)]))
        .commit((5, 6), &[(B, 1), (A, 0)], &[]);
    assert_eq!(run.anomaly(), Anomaly::ReadSkew);
}

#[test]
fn a_deletion_without_an_answer_may_have_been() {
    let committed = Fate::Committed { ended_ps: 10 };
    let history = |run: &mut Run| {
        run.add(0, committed, &[], &present(&[(A, 1)])).add(0, Fate::Unknown, &[], &[Access::absent(A, 3)]);
    };
    let mut run = Run::default();
    history(&mut run);
    run.add(0, committed, &[Access::absent(A, 4)], &[]);
    assert_eq!(run.passes().unknown_but_seen, 1);
    history(&mut run);
    assert_eq!(run.replica(Vec::new()).passes().unknown_but_seen, 1);
    history(&mut run);
    assert_eq!(run.replica(present(&[(A, 1)])).passes().unknown_but_seen, 0);
}

#[test]
fn a_lost_write_is_found() {
    let history = |run: &mut Run| {
        run.commit((0, 10), &[], &[(A, 1), (B, 1)]).commit((20, 30), &[], &[(A, 2)]);
    };
    let mut run = Run::default();
    history(&mut run);
    run.replica(present(&[(A, 2), (B, 1)])).passes();
    history(&mut run);
    run.replica(present(&[(A, 1), (B, 1)]));
    assert_eq!(
        run.violation().to_string(),
        "node1 holds version 1 of key 0xa, although node2/1/4 committed version 2"
    );
    history(&mut run);
    run.replica(present(&[(A, 2)]));
    assert!(matches!(run.violation(), Violation::Lost { key: B, found: None, .. }));
    history(&mut run);
    run.replica(vec![Access::present(A, 2, b"other"), Access::present(B, 1, &value(1))]);
    assert!(matches!(run.violation(), Violation::Lost { key: A, found: Some(2), .. }));
    history(&mut run);
    run.replica(present(&[(A, 2), (B, 1), (0xc, 9)]));
    assert!(matches!(run.violation(), Violation::FromNowhere { key: 0xc, version: 9, .. }));
}

#[test]
fn a_replica_answers_for_what_it_holds_only() {
    let mut run = Run::default();
    run.commit((0, 10), &[], &[(A, 1), (B, 1)]);
    run.history.final_state("node3", |key| key == A, present(&[(A, 1)]), &Options::default());
    run.passes();
}

#[test]
fn a_final_state_tells_of_one_without_an_answer() {
    let mut run = Run::default();
    run.add(0, Fate::Unknown, &[], &present(&[(A, 1), (B, 1)]));
    // The transaction took effect at one key and not at the other.
    run.replica(present(&[(A, 1)]));
    assert!(matches!(run.violation(), Violation::Lost { key: B, .. }));
}
