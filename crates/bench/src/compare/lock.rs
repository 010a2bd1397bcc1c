//! Locks with fencing tokens: each client acquires and releases its own lock. A read is a query, which the
//! leader answers.

use std::rc::Rc;

use weft_harness::{Caller, Contender, ContenderCluster, Ended, MakeEngines, UPDATE};
use weft_lock::{Client, Name, Outcome, Task};
use weft_node::EngineChoice;
use weft_time::{Duration, Instant};

use super::session;

/// Time to live of a lock: longer than any run.
const TTL: Duration = Duration::from_secs(60);

/// The lock engine as a contender.
#[derive(Clone, Copy, Debug)]
pub struct LockContender;

/// One client of the locks, with its expectations.
pub struct LockCaller {
    client: Client,
    number: u32,
    /// Token of the lock that it holds.
    held: Option<u64>,
    /// The lowest token that its next grant may have.
    least: u64,
    call: Task,
    wrong: Vec<String>,
}

impl Contender for LockContender {
    type Assembly = MakeEngines;
    type Caller = LockCaller;

    const HOLDS: &'static str = "tokens grow";

    fn assembly(&self, _: usize, _: u32) -> MakeEngines {
        Rc::new(|| {
            vec![EngineChoice::Lock(weft_lock::Parameters {
                locks: 16_384,
                ..weft_lock::Parameters::default()
            })]
        })
    }

    fn caller(&self, number: u32, nodes: usize) -> LockCaller {
        let call = Task::Query { name: name(number) };
        LockCaller {
            client: Client::new(session(number, nodes)),
            number,
            held: None,
            least: 0,
            call,
            wrong: Vec::new(),
        }
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        cluster.drivers().flat_map(|(_, clients)| clients.callers()).flat_map(|it| it.wrong.clone()).collect()
    }
}

fn name(number: u32) -> Name {
    Name::new(&number.to_be_bytes()).expect("four bytes")
}

impl LockCaller {
    /// Checks an outcome. Only this client uses its lock, so it is the only holder, and its tokens grow. A
    /// call with an unknown outcome may have taken effect: if the lock is still held by its owner, the next
    /// acquisition gets the same token. After an acknowledged release the next token must be higher.
    fn end(&mut self, outcome: Outcome) -> Ended {
        match (self.call, outcome) {
            (Task::Acquire { .. }, Outcome::Granted { token, .. }) => {
                if token < self.least {
                    let Self { least, number, .. } = self;
                    self.wrong.push(format!("lock {number} is granted with token {token}, below {least}"));
                }
                (self.held, self.least) = (Some(token), token);
            }
            (Task::Release { token, .. }, Outcome::Free) => (self.held, self.least) = (None, token + 1),
            (Task::Query { .. }, Outcome::Held { token, .. })
                if self.held.is_some_and(|held| held != token) =>
            {
                self.wrong.push(format!("lock {} is held with token {token}", self.number));
            }
            (Task::Query { .. }, Outcome::Held { .. } | Outcome::Free) => {}
            _ => {
                self.held = None;
                return Ended::Failed;
            }
        }
        Ended::Done
    }
}

impl Caller for LockCaller {
    fn begin(&mut self, now: Instant, kind: usize) {
        let is_update = kind == UPDATE;
        let name = name(self.number);
        self.call = match self.held {
            _ if !is_update => Task::Query { name },
            Some(token) => Task::Release { name, token },
            None => Task::Acquire { name, owner: u64::from(self.number) + 1, ttl: TTL },
        };
        self.client.start(now, &self.call).expect("a client has one call under way");
    }

    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8])) -> Option<Ended> {
        let outcome = self.client.receive(now, node, message).ok()??.outcome;
        Some(self.end(outcome))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.client.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<Ended> {
        let outcome = self.client.handle_deadline(now)?.outcome;
        Some(self.end(outcome))
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.client.poll_transmit(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the client acquire its lock with this token as the answer.
    fn acquire(caller: &mut LockCaller, token: u64) {
        caller.call = Task::Acquire { name: name(0), owner: 1, ttl: TTL };
        caller.end(Outcome::Granted { token, ttl: TTL, until: Instant::ZERO });
    }

    #[test]
    fn a_token_comes_back_only_if_the_lock_may_still_be_held() {
        let mut caller = LockContender.caller(0, 3);
        acquire(&mut caller, 5);
        acquire(&mut caller, 5);
        assert!(caller.wrong.is_empty(), "{:?}", caller.wrong);
        caller.call = Task::Release { name: name(0), token: 5 };
        caller.end(Outcome::Unknown);
        acquire(&mut caller, 5);
        assert!(caller.wrong.is_empty(), "the release may not have been carried out: {:?}", caller.wrong);
        caller.call = Task::Release { name: name(0), token: 5 };
        caller.end(Outcome::Free);
        acquire(&mut caller, 5);
        assert_eq!(caller.wrong.len(), 1, "a lock that was released is granted with a new token");
    }
}
