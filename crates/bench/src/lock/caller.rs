//! The load of one client, simulated or real: it acquires a lock, renews and releases it, and records when it held
//! it.

use weft_check::locks::Hold;
use weft_harness::{Caller, Ended, Turn};
use weft_lock::{Client, Name, Outcome, Task};
use weft_time::Instant;

use super::{ACQUIRE, KINDS, RELEASE, RENEW, Workload};

/// The load of one client.
pub struct LockCaller {
    workload: Workload,
    /// The owner of the current acquisition, unique in the run.
    owner: u64,
    /// Begin of the first call of unknown outcome since which this owner may have the lock without knowing it.
    unknown_since: Option<Instant>,
    /// Number of the first lock that clients share.
    first_lock: u64,
    lock: u64,
    kind: usize,
    begun: Instant,
    /// Token of the lock that the client holds, and number of its renewals; `None` if it holds no lock.
    held: Option<(u64, u64)>,
    /// Times in which the client believed that it held locks, on its machine's clock.
    holds: Vec<Hold>,
}

fn ns(at: Instant) -> u64 {
    at.as_ps() / 1_000
}

impl LockCaller {
    /// The load of the client of this number, which is unique in the run.
    pub fn new(workload: Workload, number: u32) -> Self {
        Self {
            workload,
            owner: u64::from(number + 1) << 32,
            unknown_since: None,
            first_lock: 0,
            lock: u64::from(number + 1),
            kind: ACQUIRE,
            begun: Instant::ZERO,
            held: None,
            holds: Vec::new(),
        }
    }

    /// The same, but shared locks have the numbers from `first_lock` on.
    #[must_use]
    pub fn with_locks_from(self, first_lock: u64) -> Self {
        Self { first_lock, ..self }
    }

    /// Name of the client's current lock.
    pub(crate) fn name(&self) -> Name {
        Name::new(&self.lock.to_be_bytes()).expect("eight bytes")
    }

    /// Token of the lock that the client holds.
    pub(crate) fn token(&self) -> Option<u64> {
        self.held.map(|(token, _)| token)
    }

    /// Times in which the client believed that it held locks.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Ends the latest hold at this time, unless it has ended before.
    fn end_hold(&mut self, at_ns: u64) {
        if let Some(hold) = self.holds.last_mut() {
            hold.until_ns = hold.until_ns.min(at_ns).max(hold.returned_ns);
        }
    }
}

impl Caller for LockCaller {
    type Half = Client;

    const KINDS: &'static [&'static str] = &KINDS;

    fn choose(&mut self, turn: &mut Turn<'_>) -> Option<usize> {
        let Workload { locks, renewals, releases_early, .. } = self.workload;
        let (renews, lock) = (turn.random.below(4) > 0, turn.random.below(locks.max(1)));
        let renews = renews || !releases_early;
        match self.held {
            Some((_, renewed)) if renewed < renewals && renews => Some(RENEW),
            Some(_) => Some(RELEASE),
            None if turn.is_ending => None,
            None => {
                // Of a lock of its own, a client acquires again what it may have: nobody else waits for its end.
                if locks > 0 || self.unknown_since.is_none() {
                    (self.owner, self.unknown_since) = (self.owner + 1, None);
                }
                if locks > 0 {
                    self.lock = self.first_lock + lock;
                }
                Some(ACQUIRE)
            }
        }
    }

    fn begin(&mut self, now: Instant, kind: usize) -> Task {
        (self.kind, self.begun) = (kind, now);
        let name = self.name();
        match (kind, self.held) {
            (RENEW, Some((token, _))) => Task::Renew { name, token },
            (RELEASE, Some((token, _))) => {
                self.end_hold(ns(now));
                Task::Release { name, token }
            }
            _ => Task::Acquire { name, owner: self.owner, ttl: self.workload.ttl },
        }
    }

    fn end(&mut self, now: Instant, outcome: Outcome) -> Ended {
        let asked = self.unknown_since.take().unwrap_or(self.begun);
        if outcome == Outcome::Unknown {
            self.unknown_since = Some(asked);
        } else if self.held.is_some() {
            self.end_hold(ns(now));
        }
        let renewed = self.held.take().map_or(0, |(_, renewed)| renewed + 1);
        match outcome {
            Outcome::Granted { token, until, .. } => {
                self.held = Some((token, renewed));
                // What the owner has already is granted with the same token.
                let is_known = self.holds.last().is_some_and(|hold| hold.token == token);
                // The answer may arrive after the time to live.
                self.holds.push(Hold {
                    lock: self.lock,
                    owner: self.owner,
                    token,
                    invoked_ns: ns(asked),
                    returned_ns: ns(now),
                    until_ns: ns(until).max(ns(now)),
                    is_renewal: self.kind == RENEW || is_known,
                });
            }
            Outcome::BadRequest => panic!("the calls of this client are in range"),
            Outcome::Free | Outcome::Held { .. } | Outcome::Lost | Outcome::Full | Outcome::Unknown => {}
        }
        let is_done = matches!(outcome, Outcome::Granted { .. } | Outcome::Free);
        if is_done { Ended::Done } else { Ended::Failed }
    }
}

#[cfg(test)]
mod tests {
    use weft_check::locks;
    use weft_time::Duration;
    use weft_workload::Random;

    use super::*;

    /// Lets the client begin its next call at this time, which ends with this outcome a nanosecond later.
    fn call(caller: &mut LockCaller, at_ns: u64, outcome: Outcome) {
        let now = Instant::ZERO + Duration::from_ns(at_ns);
        let kind = caller.choose(&mut Turn::new(&mut Random::new(1, 0), false, 100));
        caller.begin(now, kind.expect("the run goes on"));
        caller.end(now + Duration::from_ns(1), outcome);
    }

    #[test]
    fn a_token_comes_back_only_if_the_lock_may_still_be_held() {
        let ttl = Duration::from_secs(60);
        let granted = Outcome::Granted { token: 5, ttl, until: Instant::ZERO + ttl };
        let workload = Workload { ttl, renewals: 0, ..Workload::ONE };
        let mut caller = LockCaller::new(workload, 0);
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
