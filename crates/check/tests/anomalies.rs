//! Anomalies planted in histories: each is detected, shown in a small window and named.

use weft_check::{Action, History, Operation, Options, Outcome, Reply, Report, Start, Verdict, check};

/// A history of one key, written operation by operation.
#[derive(Default)]
struct Script(History);

impl Script {
    fn did(
        mut self,
        client: u32,
        (invoked_ns, returned_ns): (u64, u64),
        action: Action,
        outcome: Outcome,
    ) -> Self {
        let reply = Some(Reply { returned_ns, outcome });
        self.0.record(Operation { client, key: b"account", invoked_ns, action, reply }).expect("valid");
        self
    }

    fn put(self, client: u32, time: (u64, u64), value: u64, version: u64) -> Self {
        self.did(client, time, Action::Put { value }, Outcome::Written { version })
    }

    fn get(self, client: u32, time: (u64, u64), version: u64, value: u64) -> Self {
        self.did(client, time, Action::Get, Outcome::Found { version, value })
    }

    fn get_nothing(self, client: u32, time: (u64, u64)) -> Self {
        self.did(client, time, Action::Get, Outcome::NotFound)
    }

    fn delete(self, client: u32, time: (u64, u64), version: u64) -> Self {
        self.did(client, time, Action::Delete, Outcome::Deleted { version })
    }

    fn swap(self, client: u32, time: (u64, u64), expected: u64, value: u64, version: u64) -> Self {
        self.did(client, time, Action::CompareAndSet { expected, value }, Outcome::Written { version })
    }

    fn unanswered(mut self, client: u32, invoked_ns: u64, action: Action) -> Self {
        self.0.record(Operation { client, key: b"account", invoked_ns, action, reply: None }).expect("valid");
        self
    }

    /// A long correct history of many operations, to which the planted operations are appended; and the time at
    /// which it ends.
    fn after_a_good_life() -> (Self, u64) {
        let mut script = Self::default();
        for version in 1..=500 {
            let at = version * 100;
            script = script.put(0, (at, at + 150), 1_000 + version, version);
            script = script.get(1, (at + 160, at + 190), version, 1_000 + version);
        }
        (script, 100_000)
    }

    fn report(self) -> Report {
        check(&self.0, &Options::default())
    }

    #[track_caller]
    fn shows(self, operations: usize, explanation: &str) -> Report {
        let report = self.report();
        assert_eq!(report.checked(), "violation");
        let [violation] = &report.violations[..] else { panic!("one key is in violation") };
        assert_eq!(violation.explanation, explanation, "\n{violation}");
        assert_eq!(violation.window.operations.len(), operations, "\n{violation}");
        report
    }
}

#[test]
fn stale_read() {
    let (script, t) = Script::after_a_good_life();
    let report = script
        .put(1, (t, t + 10), 7, 501)
        .put(2, (t + 20, t + 30), 8, 502)
        .get(3, (t + 40, t + 50), 501, 7)
        .shows(2, "get by client 3 returned version 501 after version 502 had been acknowledged to client 2");
    assert_eq!(report.lost_acknowledged_writes, 1);
}

#[test]
fn two_reads_in_the_wrong_order() {
    // The put overlaps both reads, so each read alone would be correct.
    Script::default()
        .put(1, (0, 10), 7, 1)
        .put(2, (20, 100), 8, 2)
        .get(3, (30, 40), 2, 8)
        .get(4, (50, 60), 1, 7)
        .shows(2, "get by client 4 returned version 1 after version 2 had been returned to client 3");
}

#[test]
fn lost_update() {
    // Client 2's increment is based on a version that client 1 had overwritten.
    Script::default()
        .put(0, (0, 5), 1, 1)
        .swap(1, (10, 20), 1, 2, 2)
        .swap(2, (30, 40), 1, 2, 3)
        .shows(2, "compare-and-set by client 1 and compare-and-set by client 2 both succeeded on version 1");
}

#[test]
fn update_lost_on_fail_over() {
    let report = Script::default()
        .put(1, (0, 10), 7, 1)
        .put(1, (20, 30), 8, 2)
        .put(2, (40, 50), 9, 2)
        .get(3, (60, 70), 2, 9)
        .shows(2, "put by client 1 and put by client 2 were both given version 2");
    assert_eq!(report.lost_acknowledged_writes, 0);
}

#[test]
fn duplicate_apply() {
    // The put of value 7 takes effect a second time, as version 3.
    let (script, t) = Script::after_a_good_life();
    script
        .put(1, (t, t + 10), 7, 501)
        .put(2, (t + 20, t + 30), 8, 502)
        .get(3, (t + 40, t + 50), 503, 7)
        .shows(
            2,
            "get by client 3 returned version 503 after version 502 had been acknowledged to client 2, \
             and no operation in between can have written it",
        );
}

#[test]
fn read_from_the_future() {
    Script::default()
        .put(1, (0, 10), 7, 1)
        .get(2, (20, 30), 2, 8)
        .put(1, (40, 50), 8, 2)
        .shows(2, "get by client 2 returned version 2 before put by client 1 was invoked");
}

#[test]
fn resurrected_delete() {
    Script::default().put(1, (0, 10), 7, 1).delete(2, (20, 30), 2).get(3, (40, 50), 1, 7).shows(
        2,
        "get by client 3 returned version 1 after the deletion of the key as version 2 had been \
             acknowledged to client 2",
    );
}

#[test]
fn vanished_write() {
    let report = Script::default().put(1, (0, 10), 7, 1).get_nothing(2, (20, 30)).shows(
        2,
        "get by client 2 found the key absent after version 1 had been acknowledged to client 1, \
         and nothing deleted it",
    );
    assert_eq!(report.lost_acknowledged_writes, 1);
}

#[test]
fn compare_and_set_succeeds_twice() {
    // The operations overlap, so their times alone do not show the violation.
    Script::default()
        .put(0, (0, 5), 1, 1)
        .swap(1, (10, 50), 1, 2, 2)
        .swap(2, (20, 40), 1, 3, 3)
        .shows(2, "compare-and-set by client 1 and compare-and-set by client 2 both succeeded on version 1");
    Script::default().swap(1, (10, 50), 0, 2, 1).swap(2, (20, 40), 0, 3, 2).shows(
        2,
        "compare-and-set by client 1 and compare-and-set by client 2 both succeeded on an absent key, \
         and nothing deleted it",
    );
}

#[test]
fn wrong_value() {
    Script::default()
        .put(1, (0, 10), 7, 1)
        .get(2, (20, 30), 1, 9)
        .shows(2, "version 1 holds value 0x7 for put by client 1 and value 0x9 for get by client 2");
}

#[test]
fn answer_that_is_no_answer() {
    Script::default().did(1, (0, 10), Action::Put { value: 7 }, Outcome::NotFound).shows(
        1,
        "put by client 1 (put value 0x7) was answered \"not found\", which is no answer to it in any state",
    );
}

#[test]
fn an_unanswered_write_may_act_late_once_or_never() {
    let script = || Script::default().put(1, (0, 10), 7, 1).unanswered(2, 20, Action::Put { value: 8 });
    assert_eq!(script().get(3, (100, 110), 1, 7).report().verdict, Verdict::Linearizable);
    assert_eq!(
        script().get(3, (100, 110), 1, 7).get(3, (200, 210), 2, 8).report().verdict,
        Verdict::Linearizable
    );
    assert_eq!(script().get(3, (100, 110), 5, 8).report().verdict, Verdict::Linearizable);
    assert_eq!(script().get(3, (5, 15), 2, 8).report().verdict, Verdict::Violation);
    // The value may appear once, not twice.
    let twice = script().get(3, (100, 110), 2, 8).put(1, (120, 130), 9, 3).get(3, (140, 150), 4, 8);
    assert_eq!(twice.report().verdict, Verdict::Violation);
}

#[test]
fn unanswered_writes_may_build_on_each_other() {
    let script = || {
        let swap = Action::CompareAndSet { expected: 2, value: 9 };
        Script::default()
            .put(1, (0, 10), 7, 1)
            .unanswered(2, 20, Action::Put { value: 8 })
            .unanswered(3, 20, swap)
    };
    assert_eq!(script().get(4, (30, 40), 3, 9).report().verdict, Verdict::Linearizable);
    assert_eq!(script().get(4, (30, 40), 2, 9).report().verdict, Verdict::Violation);
}

#[test]
fn an_unanswered_delete_explains_absence() {
    let script = || Script::default().put(1, (0, 10), 7, 1).unanswered(2, 20, Action::Delete);
    let report = script().get_nothing(3, (30, 40)).report();
    assert_eq!((report.verdict, report.lost_acknowledged_writes), (Verdict::Linearizable, 0));
    assert_eq!(script().get_nothing(3, (30, 40)).get(3, (50, 60), 1, 7).report().verdict, Verdict::Violation);
}

#[test]
fn refused_operations_and_unanswered_gets_say_nothing() {
    let report = Script::default()
        .put(1, (0, 10), 7, 1)
        .did(2, (20, 30), Action::Put { value: 9 }, Outcome::Refused)
        .unanswered(3, 20, Action::Get)
        .get(3, (40, 50), 1, 7)
        .report();
    assert_eq!((report.verdict, report.operations, report.keys), (Verdict::Linearizable, 4, 1));
}

#[test]
fn a_store_with_a_past_needs_an_unknown_start() {
    let mut script = Script::default().get(1, (0, 10), 41, 7).put(1, (20, 30), 8, 42);
    assert_eq!(check(&script.0, &Options::default()).verdict, Verdict::Violation);
    let unknown = Options { start: Start::Unknown, ..Options::default() };
    assert_eq!(check(&script.0, &unknown).verdict, Verdict::Linearizable);
    script = script.get(2, (40, 50), 41, 7);
    assert_eq!(check(&script.0, &unknown).verdict, Verdict::Violation);
}

#[test]
fn without_effort_a_choice_is_undecided() {
    let mut script = Script::default();
    for value in 0..12 {
        script = script.unanswered(1, 0, Action::CompareAndSet { expected: value % 4, value });
        script = script.unanswered(1, 0, Action::Delete);
    }
    for value in 0..6 {
        script = script.get_nothing(2, (10, 1_000)).get(3, (10, 1_000), 10 + value, 100 + value);
    }
    let report = check(&script.0, &Options { effort: 40, ..Options::default() });
    assert_eq!((report.checked(), report.keys_undecided), ("undecided", 1));
    assert_eq!(script.report().checked(), "violation");
}

#[test]
fn losses_are_counted() {
    let lost = |script: Script| weft_check::lost_acknowledged_writes(&script.0);
    let three = || Script::default().put(1, (0, 10), 1, 1).put(1, (20, 30), 2, 2).put(1, (40, 50), 3, 3);
    assert_eq!(lost(three().get(2, (60, 70), 3, 3)), 0);
    assert_eq!(lost(three().get(2, (60, 70), 1, 1)), 2);
    assert_eq!(lost(three().get_nothing(2, (60, 70))), 3);
    // The write was not acknowledged before the read was invoked.
    assert_eq!(lost(three().get(2, (45, 70), 2, 2)), 0);
    // Only the last read counts.
    assert_eq!(lost(three().get(2, (60, 70), 1, 1).get(2, (80, 90), 3, 3)), 0);
    assert_eq!(lost(three().delete(2, (60, 70), 4).get_nothing(2, (80, 90))), 0);
    assert_eq!(lost(three().delete(2, (60, 70), 4).get(2, (80, 90), 3, 3)), 1);
    assert_eq!(lost(three().delete(2, (60, 70), 4).put(1, (71, 72), 5, 5).get_nothing(2, (80, 90))), 1);
}

#[test]
fn a_violation_reads_well() {
    let report = Script::default()
        .put(1, (1_000, 2_500), 0xa, 1)
        .put(2, (2_600, 4_000), 0xb, 2)
        .get(3, (4_200, 5_000), 1, 0xa)
        .report();
    let expected = "\
key account: get by client 3 returned version 1 after version 2 had been acknowledged to client 2
window from 2600 ns to 5000 ns; before it, the key may hold anything

  client  invoked (ns)  returned (ns)  operation      outcome
       2          2600           4000  put value 0xb  written as version 2
       3          4200           5000  get            found version 1, value 0xa

  client 2        |-------------------------------|
  client 3                                            |------------------|
";
    assert_eq!(report.violations[0].to_string(), expected, "\n{}", report.violations[0]);
    let json = serde_json::to_value(&report).expect("serializable");
    assert_eq!(json["verdict"], "violation");
    assert_eq!(json["violations"][0]["key"], "account");
    assert_eq!(json["violations"][0]["window"]["operations"][1]["outcome"]["found"]["version"], 1);
}
