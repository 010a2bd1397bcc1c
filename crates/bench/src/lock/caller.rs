//! A simulated client: it acquires a lock, renews and releases it, and records when it held it.

use weft_check::locks::Hold;
use weft_harness::{Caller, Ended, READ, Turn};
use weft_lock::{Client, Name, Outcome, Task};
use weft_time::Instant;

use super::holds::Holds;
use super::{ACQUIRE, KINDS, QUERY, RELEASE, RENEW, Workload};

/// The load of one client.
pub struct LockCaller {
    workload: Workload,
    /// Whether the client makes queries, too: the reads of its load.
    queries: bool,
    /// The owner of the current acquisition, unique in the run.
    owner: u64,
    /// Whether the current acquisition may have the lock without the client's knowledge.
    is_unknown: bool,
    lock: u64,
    kind: usize,
    begun: Instant,
    /// Token of the lock that the client holds, and number of its renewals; `None` if it holds no lock.
    held: Option<(u64, u64)>,
    /// Times in which the client believed that it held locks, on its machine's clock.
    holds: Holds,
}

fn ns(at: Instant) -> u64 {
    at.as_ps() / 1_000
}

impl LockCaller {
    /// The load of the client of this number, which is unique in the run.
    pub(crate) fn new(workload: Workload, number: u32, queries: bool) -> Self {
        Self {
            workload,
            queries,
            owner: u64::from(number + 1) << 32,
            is_unknown: false,
            lock: u64::from(number + 1),
            kind: ACQUIRE,
            begun: Instant::ZERO,
            held: None,
            holds: Holds::default(),
        }
    }

    /// Times in which the client believed that it held locks.
    pub fn holds(&self) -> &[Hold] {
        self.holds.all()
    }
}

impl Caller for LockCaller {
    type Half = Client;

    const KINDS: &'static [&'static str] = &KINDS;

    fn choose(&mut self, turn: &mut Turn<'_>) -> Option<usize> {
        if self.queries && turn.update_or_read()? == READ {
            return Some(QUERY);
        }
        let Workload { locks, renewals, .. } = self.workload;
        let (renews, lock) = (turn.random.below(4) > 0, turn.random.below(locks.max(1)));
        match self.held {
            Some((_, renewed)) if renewed < renewals && renews => Some(RENEW),
            Some(_) => Some(RELEASE),
            None if turn.is_ending => None,
            None => {
                // A lock of the client's own stays with an acquisition of unknown outcome until its time is over,
                // and comes back to its owner only.
                if locks > 0 || !self.is_unknown {
                    self.owner += 1;
                }
                if locks > 0 {
                    self.lock = lock;
                }
                Some(ACQUIRE)
            }
        }
    }

    fn begin(&mut self, now: Instant, kind: usize) -> Task {
        (self.kind, self.begun) = (kind, now);
        let name = Name::new(&self.lock.to_be_bytes()).expect("eight bytes");
        match (kind, self.held) {
            (QUERY, _) => Task::Query { name },
            (RENEW, Some((token, _))) => Task::Renew { name, token },
            (RELEASE, Some((token, _))) => {
                self.holds.end(ns(now));
                Task::Release { name, token }
            }
            _ => Task::Acquire { name, owner: self.owner, ttl: self.workload.ttl },
        }
    }

    fn end(&mut self, now: Instant, outcome: Outcome) -> Ended {
        let is_answered = matches!(outcome, Outcome::Granted { .. } | Outcome::Free);
        if self.kind == QUERY {
            let is_held = matches!(outcome, Outcome::Held { .. });
            return if is_answered || is_held { Ended::Done } else { Ended::Failed };
        }
        self.is_unknown = outcome == Outcome::Unknown;
        if !self.is_unknown && self.held.is_some() {
            self.holds.end(ns(now));
        }
        let renewed = self.held.take().map_or(0, |(_, renewed)| renewed + 1);
        match outcome {
            Outcome::Granted { token, until, .. } => {
                self.held = Some((token, renewed));
                self.holds.begin(Hold {
                    lock: self.lock,
                    owner: self.owner,
                    token,
                    invoked_ns: ns(self.begun),
                    returned_ns: ns(now),
                    until_ns: ns(until),
                    is_renewal: self.kind == RENEW,
                });
            }
            Outcome::BadRequest => panic!("the calls of this client are in range"),
            Outcome::Free | Outcome::Held { .. } | Outcome::Lost | Outcome::Full | Outcome::Unknown => {}
        }
        if is_answered { Ended::Done } else { Ended::Failed }
    }
}

#[cfg(test)]
mod tests {
    use weft_check::locks;
    use weft_time::Duration;
    use weft_workload::Random;

    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    /// Lets the client begin its next call at this time, which ends with this outcome a nanosecond later.
    fn call(caller: &mut LockCaller, at_ns: u64, outcome: Outcome) {
        let now = Instant::ZERO + Duration::from_ns(at_ns);
        let kind = if caller.held.is_some() { RELEASE } else { ACQUIRE };
        if kind == ACQUIRE {
            let chosen = caller.choose(&mut Turn::new(&mut Random::new(1, 0), false, 100));
            assert_eq!(chosen, Some(ACQUIRE));
        }
        caller.begin(now, kind);
        caller.end(now + Duration::from_ns(1), outcome);
    }

    #[test]
    fn a_token_comes_back_only_if_the_lock_may_still_be_held() {
        let ttl = TTL;
        let granted = Outcome::Granted { token: 5, ttl, until: Instant::ZERO + ttl };
        let workload = Workload { clients: 1, locks: 0, ttl, renewals: 0, pause: Duration::ZERO };
        let mut caller = LockCaller::new(workload, 0, false);
        call(&mut caller, 10, Outcome::Unknown);
        call(&mut caller, 20, granted);
        call(&mut caller, 30, Outcome::Unknown);
        call(&mut caller, 40, granted);
        assert_eq!(locks::check(caller.holds()), [], "the release may not have been carried out");
        call(&mut caller, 50, Outcome::Free);
        call(&mut caller, 60, granted);
        let wrong = locks::check(caller.holds());
        assert_eq!(wrong.len(), 1, "a lock that was released is granted with a new token: {wrong:?}");
    }
}
