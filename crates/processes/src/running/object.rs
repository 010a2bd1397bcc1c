//! Replicated objects: counters and accounts. At the end all replicas have the same value, which includes all
//! acknowledged calls.

use std::thread;
use std::time::{Duration, Instant};

use weft_client::{Client, Error, Object, Update};
use weft_workload::Random;

use super::{Count, DESCRIBED, EngineResult, PATIENCE, Run, for_each};

const PAUSE: Duration = Duration::from_millis(5);

/// Sums over the calls of a client, or of all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    count: Count,
    /// Sum added and sum subtracted by acknowledged calls.
    known: (i64, i64),
    /// Sum added and sum subtracted by calls with an unknown outcome, if they took effect.
    unknown: (i64, i64),
    /// The smallest value that a query returned.
    least: i64,
}

/// Methods of a type.
struct Kind {
    add: &'static str,
    take: &'static str,
    read: &'static str,
    /// Whether the value is never negative.
    covered: bool,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        match name {
            "pn-counter" => Some(Self { add: "increment", take: "decrement", read: "value", covered: false }),
            "account" => Some(Self { add: "deposit", take: "withdraw", read: "balance", covered: true }),
            _ => None,
        }
    }
}

pub(super) fn drive(run: &Run<'_>, clients: &[Client], name: &str, kind: &str) -> EngineResult {
    let Some(kind) = Kind::of(kind) else {
        return EngineResult::new(name, Count::default(), "not called", Vec::new());
    };
    let object = |client: &Client| client.object(name).expect(DESCRIBED);
    let replicas = run.load.cluster.nodes.len();
    let values = |agree: &dyn Fn(&[i64]) -> bool| settled(&object(&clients[0]), replicas, &kind, agree);
    let before = values(&|_| true);
    let parts = for_each(clients, |number, client| {
        let object = object(client);
        let mut random = Random::new(run.load.seed ^ 2, number);
        let mut books = Tally::default();
        run.repeat(PAUSE, || books.call(run, &object, &kind, &mut random));
        books
    });
    let mut books = Tally::default();
    parts.iter().for_each(|part| books.add(part));
    let findings = match before {
        Ok(before) => {
            // A replica that was just restarted catches up with the others, so the check is repeated.
            let after = values(&|values| books.findings(&kind, before[0], values).is_empty());
            after.map_or_else(
                |error| vec![format!("the replicas cannot be read: {error}")],
                |after| books.findings(&kind, before[0], &after),
            )
        }
        Err(error) => vec![format!("the replicas cannot be read: {error}")],
    };
    EngineResult::new(name, books.count, "nothing lost, nothing twice", findings)
}

/// The values at the replicas, as soon as they are equal and within the expected range; if this takes too
/// long, the last values.
fn settled(
    object: &Object,
    replicas: usize,
    kind: &Kind,
    agree: &dyn Fn(&[i64]) -> bool,
) -> Result<Vec<i64>, Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        let ask = |replica| object.at(replica)?.query(kind.read, &[]).wait();
        let values: Result<Vec<i64>, _> = (0..replicas).map(ask).collect();
        match values {
            Ok(values) if values.iter().all(|value| *value == values[0]) && agree(&values) => {
                return Ok(values);
            }
            values if Instant::now() >= until => return values,
            _ => thread::sleep(super::PAUSE),
        }
    }
}

impl Tally {
    fn call(&mut self, run: &Run<'_>, object: &Object, kind: &Kind, random: &mut Random) {
        let amount = 1 + random.below(9) as i64;
        match random.below(10) {
            0..5 => {
                let result = object.update(kind.add, &[amount]).wait();
                if result.as_ref().is_err_and(Error::may_have_happened) {
                    self.unknown.0 += amount;
                }
                self.known.0 += if self.update(run, result) { amount } else { 0 };
            }
            5..8 => {
                let result = object.update(kind.take, &[amount]).wait();
                if result.as_ref().is_err_and(Error::may_have_happened) {
                    self.unknown.1 += amount;
                }
                self.known.1 += if self.update(run, result) { amount } else { 0 };
            }
            _ => {
                if let Some(value) = self.count.take(object.query(kind.read, &[]).wait()) {
                    self.least = self.least.min(value);
                }
            }
        }
    }

    /// Counts an update. Returns whether it is known to have taken effect.
    fn update(&mut self, run: &Run<'_>, result: Result<Update, Error>) -> bool {
        let result = match result {
            Ok(Update::Refused) => Err(Error::Refused("the type's guard")),
            other => other,
        };
        let has_effect = self.count.take(result).is_some();
        if has_effect {
            run.changed();
        }
        has_effect
    }

    fn add(&mut self, other: &Self) {
        self.count.add(other.count);
        self.known = (self.known.0 + other.known.0, self.known.1 + other.known.1);
        self.unknown = (self.unknown.0 + other.unknown.0, self.unknown.1 + other.unknown.1);
        self.least = self.least.min(other.least);
    }

    fn findings(&self, kind: &Kind, before: i64, after: &[i64]) -> Vec<String> {
        let mut findings = Vec::new();
        let certain = before + self.known.0 - self.known.1;
        let (low, high) = (certain - self.unknown.1, certain + self.unknown.0);
        for (replica, value) in after.iter().enumerate() {
            if !(low..=high).contains(value) {
                findings.push(format!(
                    "replica {replica} holds {value}, and it must be {low} to {high} by what was acknowledged"
                ));
            }
        }
        if after.iter().any(|value| *value != after[0]) {
            findings.push(format!("the replicas differ: {after:?}"));
        }
        if let Some(value) = after.iter().chain([&self.least]).find(|value| kind.covered && **value < 0) {
            findings.push(format!("the balance was {value}"));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_wrong_answers_are_found() {
        let account = Kind::of("account").unwrap();
        let books = Tally { known: (30, 10), unknown: (5, 2), ..Tally::default() };
        let findings = |books: &Tally, after: &[i64]| books.findings(&account, 100, after);
        for value in [118, 120, 125] {
            assert_eq!(findings(&books, &[value; 3]), Vec::<String>::new());
        }
        for value in [117, 126] {
            assert!(findings(&books, &[value; 3])[0].contains("must be 118 to 125"));
        }
        assert!(findings(&books, &[120, 120, 121])[0].contains("differ"));
        let overdrawn = Tally { least: -1, ..books };
        assert!(findings(&overdrawn, &[120; 3])[0].contains("the balance was -1"));
        let counter = Kind::of("pn-counter").unwrap();
        assert_eq!(overdrawn.findings(&counter, 100, &[120; 3]), Vec::<String>::new());
    }
}
