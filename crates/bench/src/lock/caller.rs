//! A simulated client: it acquires a lock, renews and releases it, and records when it held it.

use weft_check::locks::Hold;
use weft_harness::{Caller, ClosedLoops, Ended, Pace, Turn};
use weft_lock::{Client, Name, Outcome, Task};
use weft_session::ClientParameters;
use weft_time::{Duration, Instant};
use weft_workload::Random;

use super::holds::Holds;
use super::{ACQUIRE, KINDS, RELEASE, RENEW, Workload};

/// One client.
pub struct LockCaller {
    client: Client,
    workload: Workload,
    /// The owner of the current acquisition, unique in the run.
    owner: u64,
    lock: u64,
    kind: usize,
    begun: Instant,
    /// Token of the lock that the client holds, and number of its renewals; `None` if it holds no lock.
    held: Option<(u64, u64)>,
    /// Times in which the client believed that it held locks, on its machine's clock.
    holds: Holds,
}

/// The clients of the machine with this number, in a cluster of `nodes` nodes. `plant` can plant a bug in a
/// client.
pub(super) fn clients(
    workload: Workload,
    (seed, machine): (u64, u32),
    nodes: usize,
    plant: impl Fn(Client) -> Client,
) -> ClosedLoops<LockCaller> {
    let caller = |index: u32| {
        let owner = u64::from(machine * workload.clients + index + 1) << 32;
        let parameters = ClientParameters {
            first: index as usize % nodes,
            repeat: Duration::from_us(250),
            pause: Duration::from_us(50),
            give_up: Duration::from_ms(20),
            ..ClientParameters::new(owner, nodes)
        };
        LockCaller {
            client: plant(Client::new(parameters)),
            workload,
            owner,
            lock: 0,
            kind: ACQUIRE,
            begun: Instant::ZERO,
            held: None,
            holds: Holds::default(),
        }
    };
    // With these pauses, some holders call again only after their lock has expired.
    let pace = Pace { longest: Some(workload.pause), after_failure: Duration::ZERO };
    ClosedLoops::new((0..workload.clients).map(caller), 100, pace, Random::new(seed, machine))
}

fn ns(at: Instant) -> u64 {
    at.as_ps() / 1_000
}

impl LockCaller {
    /// Times in which the client believed that it held locks.
    pub fn holds(&self) -> &[Hold] {
        self.holds.all()
    }

    fn end(&mut self, now: Instant, outcome: Outcome) -> Ended {
        if outcome != Outcome::Unknown && self.held.is_some() {
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
                Ended::Done
            }
            Outcome::Free => Ended::Done,
            Outcome::BadRequest => panic!("the calls of this client are in range"),
            Outcome::Held { .. } | Outcome::Lost | Outcome::Full | Outcome::Unknown => Ended::Failed,
        }
    }
}

impl Caller for LockCaller {
    const KINDS: &'static [&'static str] = &KINDS;

    fn choose(&mut self, turn: &mut Turn<'_>) -> Option<usize> {
        let Workload { locks, renewals, .. } = self.workload;
        let (renews, lock) = (turn.random.below(4) > 0, turn.random.below(locks.max(1)));
        match self.held {
            Some((_, renewed)) if renewed < renewals && renews => Some(RENEW),
            Some(_) => Some(RELEASE),
            None if turn.is_ending => None,
            None => {
                self.owner += 1;
                self.lock = if locks == 0 { self.owner >> 32 } else { lock };
                Some(ACQUIRE)
            }
        }
    }

    fn begin(&mut self, now: Instant, kind: usize) {
        let name = Name::new(&self.lock.to_be_bytes()).expect("eight bytes");
        let task = match (kind, self.held) {
            (RENEW, Some((token, _))) => Task::Renew { name, token },
            (RELEASE, Some((token, _))) => {
                self.holds.end(ns(now));
                Task::Release { name, token }
            }
            _ => Task::Acquire { name, owner: self.owner, ttl: self.workload.ttl },
        };
        (self.kind, self.begun) = (kind, now);
        self.client.start(now, &task).expect("a client has one call under way");
    }

    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8])) -> Option<Ended> {
        let outcome = self.client.receive(now, node, message).ok()??.outcome;
        Some(self.end(now, outcome))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.client.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<Ended> {
        let outcome = self.client.handle_deadline(now)?.outcome;
        Some(self.end(now, outcome))
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.client.poll_transmit(out)
    }
}
