//! The key-value store: every key is a linearizable register.

use std::time::Duration;

use weft_check::{Action, History, Operation, Outcome, Reply, Start, Verdict, lines};
use weft_client::{Client, CompareAndSet, Error, KeyValue};
use weft_workload::Random;
use xxhash_rust::xxh3::xxh3_64;

use super::{Count, DESCRIBED, EngineResult, Run, for_each};

/// Number of keys that all clients share. It is small, so that clients access the same keys.
const KEYS: u64 = 16;
const PAUSE: Duration = Duration::from_millis(2);

/// One client and its history.
struct Caller<'a> {
    run: &'a Run<'a>,
    kv: KeyValue,
    client: u32,
    written: u64,
    history: History,
    count: Count,
}

pub(super) fn drive(run: &Run<'_>, clients: &[Client]) -> EngineResult {
    let parts = for_each(clients, |number, client| {
        let kv = client.kv().expect(DESCRIBED);
        let mut random = Random::new(run.load.seed, number);
        let mut caller =
            Caller { run, kv, client: number, written: 0, history: History::new(), count: Count::default() };
        run.repeat(PAUSE, || caller.call(random.below(KEYS) as u8, random.below(100)));
        // Final reads belong to the history, so that the check sees a lost write.
        (0..KEYS).for_each(|key| caller.call(key as u8, 0));
        (caller.history, caller.count)
    });
    let mut count = Count::default();
    parts.iter().for_each(|(_, part)| count.add(*part));
    let history = History::merge(parts.into_iter().map(|(history, _)| history));
    // Keys may have been written before the run.
    let history = history.map(|history| lines::KeyValueRun { start: Start::Unknown, seed: None, history });
    let findings = history.as_ref().map_or_else(|error| vec![error.to_string()], findings);
    EngineResult {
        history: history.ok().map(lines::Run::from),
        ..EngineResult::new("kv", count, "linearizable", findings)
    }
}

/// Findings of the checker.
fn findings(run: &lines::KeyValueRun) -> Vec<String> {
    let report = run.check();
    let mut findings: Vec<_> =
        report.violations.iter().map(|violation| violation.explanation.clone()).collect();
    if report.lost_acknowledged_writes > 0 {
        findings.push(format!("{} acknowledged writes are lost", report.lost_acknowledged_writes));
    }
    if report.verdict == Verdict::Undecided {
        findings.push(format!("{} keys are undecided: the history is too long", report.keys_undecided));
    }
    findings
}

impl Caller<'_> {
    /// Makes one call; `which`, from 0 to 99, chooses its kind.
    fn call(&mut self, number: u8, which: u64) {
        let mut key = vec![b'-'; self.kv.key_bytes()];
        if let Some(last) = key.last_mut() {
            *last = b'a' + number;
        }
        self.written += 1;
        let content =
            [self.run.identity, u64::from(self.client), self.written].map(u64::to_le_bytes).concat();
        let value = xxh3_64(&content);
        let invoked_ns = self.run.now_ns();
        let (action, result) = match which {
            0..50 => (
                Action::Get,
                self.kv.get(&key).wait().map(|found| match found {
                    None => Outcome::NotFound,
                    Some(found) => Outcome::Found { version: found.version, value: xxh3_64(&found.value) },
                }),
            ),
            50..85 => {
                let written = self.kv.put(&key, &content).wait();
                (Action::Put { value }, written.map(|version| Outcome::Written { version }))
            }
            85..95 => {
                let expected = match self.kv.get(&key).wait() {
                    Ok(found) => found.map_or(0, |found| found.version),
                    Err(_) => return,
                };
                let set = self.kv.compare_and_set(&key, expected, &content).wait();
                (
                    Action::CompareAndSet { expected, value },
                    set.map(|set| match set {
                        CompareAndSet::Done { version } => Outcome::Written { version },
                        CompareAndSet::Mismatch { version } => Outcome::Mismatch { version },
                    }),
                )
            }
            _ => (
                Action::Delete,
                self.kv.delete(&key).wait().map(|deleted| match deleted {
                    None => Outcome::NotFound,
                    Some(version) => Outcome::Deleted { version },
                }),
            ),
        };
        self.record(&key, invoked_ns, action, result);
    }

    fn record(&mut self, key: &[u8], invoked_ns: u64, action: Action, result: Result<Outcome, Error>) {
        let may_have_happened = result.as_ref().is_err_and(Error::may_have_happened);
        let outcome = match self.count.take(result) {
            Some(outcome) => {
                if action != Action::Get {
                    self.run.changed();
                }
                Some(outcome)
            }
            None if may_have_happened => None,
            None => Some(Outcome::Refused),
        };
        let reply = outcome.map(|outcome| Reply { returned_ns: self.run.now_ns(), outcome });
        let operation = Operation { client: self.client, key, invoked_ns, action, reply };
        self.history.record(operation).expect("keys are short and time does not go back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two writes, and a read that returns this version of the key.
    fn told(version: u64) -> Vec<String> {
        let mut history = History::new();
        let mut record = |at: u64, action, outcome| {
            let reply = Some(Reply { returned_ns: at + 5, outcome });
            history.record(Operation { client: 0, key: b"a", invoked_ns: at, action, reply }).unwrap();
        };
        record(0, Action::Put { value: 10 }, Outcome::Written { version: 1 });
        record(10, Action::Put { value: 20 }, Outcome::Written { version: 2 });
        record(20, Action::Get, Outcome::Found { version, value: 10 * version });
        findings(&lines::KeyValueRun { start: Start::Unknown, seed: None, history })
    }

    #[test]
    fn a_lost_write_is_found() {
        assert_eq!(told(2), Vec::<String>::new());
        assert!(told(1)[0].contains("returned version 1 after version 2"), "{:?}", told(1));
    }
}
