//! Locks with fencing tokens: each client acquires and releases its own lock. A read is a query, which the
//! leader answers.

use weft_harness::{Caller, Contender, ContenderCluster, Ended, MakeEngines, Turn, UPDATE};
use weft_lock::{Client, Outcome, Task};
use weft_time::{Duration, Instant};

use super::session;
use crate::lock::simulated::{holds, measured_engines};
use crate::lock::{LockCaller, Workload, check};

/// Clients with a lock each, whose time to live is longer than any run.
const WORKLOAD: Workload = Workload { ttl: Duration::from_secs(60), renewals: 0, ..Workload::ONE };

/// One client: the load on its lock as updates, and queries as reads.
pub struct LockReader {
    load: LockCaller,
    /// Kind of the current call in the load; `None` for a query.
    update: Option<usize>,
    wrong: Vec<String>,
}

impl LockReader {
    fn new(number: u32) -> Self {
        Self { load: LockCaller::new(WORKLOAD, number), update: None, wrong: Vec::new() }
    }
}

impl Caller for LockReader {
    type Half = Client;

    fn choose(&mut self, turn: &mut Turn<'_>) -> Option<usize> {
        let kind = turn.update_or_read()?;
        self.update = if kind == UPDATE { Some(self.load.choose(turn)?) } else { None };
        Some(kind)
    }

    fn begin(&mut self, now: Instant, _: usize) -> Task {
        match self.update {
            Some(kind) => self.load.begin(now, kind),
            None => Task::Query { name: self.load.name() },
        }
    }

    /// Checks queries here: only this client uses its lock, so what it holds has the token that it was granted.
    fn end(&mut self, now: Instant, outcome: Outcome) -> Ended {
        match outcome {
            _ if self.update.is_some() => self.load.end(now, outcome),
            Outcome::Held { token, .. } => {
                if self.load.token().is_some_and(|held| held != token) {
                    self.wrong.push(format!("a client's own lock is held with token {token}"));
                }
                Ended::Done
            }
            Outcome::Free => Ended::Done,
            _ => Ended::Failed,
        }
    }
}

/// The lock engine as a contender.
#[derive(Clone, Copy, Debug)]
pub struct LockContender;

impl Contender for LockContender {
    type Assembly = MakeEngines;
    type Caller = LockReader;

    const HOLDS: &'static str = "tokens grow";

    fn assembly(&self, _: usize, _: u32) -> MakeEngines {
        measured_engines()
    }

    fn client(&self, number: u32, nodes: usize) -> (Client, LockReader) {
        (Client::new(session(number, nodes)), LockReader::new(number))
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        let mut wrong = check(&holds(cluster, |caller| &caller.load)).violations;
        let callers = cluster.drivers().flat_map(|(_, clients)| clients.callers());
        wrong.extend(callers.flat_map(|caller| caller.wrong.iter().cloned()));
        wrong
    }
}

#[cfg(test)]
mod tests {
    use weft_workload::Random;

    use super::*;

    /// Makes one call, an update or a query, which ends with this outcome.
    fn call(reader: &mut LockReader, updates: u8, outcome: Outcome) -> Ended {
        let kind = reader.choose(&mut Turn::new(&mut Random::new(1, 0), false, updates));
        reader.begin(Instant::ZERO, kind.expect("the run goes on"));
        reader.end(Instant::ZERO, outcome)
    }

    #[test]
    fn a_query_must_find_the_token_that_was_granted() {
        let ttl = WORKLOAD.ttl;
        let mut reader = LockReader::new(0);
        assert_eq!(call(&mut reader, 0, Outcome::Held { token: 4, remaining: ttl }), Ended::Done);
        call(&mut reader, 100, Outcome::Granted { token: 5, ttl, until: Instant::ZERO + ttl });
        assert_eq!(call(&mut reader, 0, Outcome::Held { token: 5, remaining: ttl }), Ended::Done);
        assert_eq!(reader.wrong, [""; 0]);
        call(&mut reader, 0, Outcome::Held { token: 6, remaining: ttl });
        assert_eq!(reader.wrong, ["a client's own lock is held with token 6"]);
        assert_eq!(call(&mut reader, 0, Outcome::Unknown), Ended::Failed);
    }
}
