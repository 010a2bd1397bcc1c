//! The clients of a machine: they acquire locks, renew and release them, and note what they were told.

use weft_check::locks::Hold;
use weft_harness::ClientProgram;
use weft_lock::{Client, Name, Outcome, Task};
use weft_session::ClientParameters;
use weft_time::{Duration, Instant};

use weft_harness::histogram::Recorder;
use weft_workload::Random;

/// The kinds of operations that are measured.
pub const KINDS: [&str; 3] = ["acquire", "renew", "release"];
pub(super) const ACQUIRE: usize = 0;
pub(super) const RENEW: usize = 1;
pub(super) const RELEASE: usize = 2;

/// Workload of the clients.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Clients of a machine.
    pub clients: u32,
    /// Locks that they share; with none each client has one of its own.
    pub locks: u64,
    /// For how long a lock is granted.
    pub ttl: Duration,
    /// Renewals of an acquisition, at most.
    pub renewals: u64,
    /// Longest pause of a client between two calls.
    pub pause: Duration,
}

/// One client and its current call.
struct Caller {
    client: Client,
    /// A number of its own for each acquisition.
    owner: u64,
    lock: u64,
    /// The call that is under way: its kind, and when it was begun.
    calls: Option<(usize, Instant)>,
    /// Time of its next action.
    next: Instant,
    /// The index of its latest hold, and how often it was renewed.
    held: Option<(usize, u64)>,
}

/// All clients of a machine.
pub struct Driver {
    workload: Workload,
    callers: Vec<Caller>,
    random: Random,
    /// No more acquisitions begin.
    is_over: bool,
    /// Times on the machine's clock.
    holds: Vec<Hold>,
    recorder: Recorder,
}

fn ns(at: Instant) -> u64 {
    at.as_ps() / 1_000
}

impl Driver {
    /// Clients of the machine of this number in a cluster of so many nodes, which do nothing yet; `change` may change
    /// each of them.
    pub fn new(
        workload: Workload,
        (seed, machine): (u64, u32),
        nodes: usize,
        change: impl Fn(Client) -> Client,
    ) -> Self {
        let caller = |index: u32| {
            let identity = u64::from(machine * workload.clients + index + 1) << 32;
            let parameters = ClientParameters {
                first: index as usize % nodes,
                repeat: Duration::from_us(250),
                pause: Duration::from_us(50),
                give_up: Duration::from_ms(20),
                ..ClientParameters::new(identity, nodes)
            };
            let client = change(Client::new(parameters));
            Caller { client, owner: identity, lock: 0, calls: None, next: Instant::FAR_FUTURE, held: None }
        };
        Self {
            callers: (0..workload.clients).map(caller).collect(),
            random: Random::new(seed, machine),
            is_over: false,
            holds: Vec::new(),
            recorder: Recorder::new(&KINDS, Instant::ZERO, Duration::ZERO),
            workload,
        }
    }

    /// Begins. Calls begun within the warm-up are not measured.
    pub fn begin(&mut self, now: Instant, warm_up: Duration) {
        self.recorder = Recorder::new(&KINDS, now, warm_up);
        self.callers.iter_mut().for_each(|caller| caller.next = now);
    }

    /// Lets no acquisition begin any more.
    pub fn finish(&mut self) {
        self.is_over = true;
    }

    /// Whether nobody waits for an answer.
    pub fn is_idle(&self) -> bool {
        self.callers.iter().all(|caller| caller.calls.is_none())
    }

    /// Spans in which clients believed that they held locks.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Measurements.
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn name(&self, caller: usize) -> Name {
        Name::new(&self.callers[caller].lock.to_be_bytes()).expect("eight bytes")
    }

    /// The client goes by what it knows of its lock no longer than this.
    fn end_hold(&mut self, index: usize, at: Instant) {
        if let Some((hold, _)) = self.callers[index].held {
            let hold = &mut self.holds[hold];
            hold.until_ns = hold.until_ns.min(ns(at)).max(hold.returned_ns);
        }
    }

    /// Makes the client's next call.
    fn call(&mut self, now: Instant, index: usize) {
        let (locks, renewals) = (self.workload.locks, self.workload.renewals);
        let (renews, lock) = (self.random.below(4) > 0, self.random.below(locks.max(1)));
        let caller = &mut self.callers[index];
        let (kind, token) = match caller.held {
            Some((hold, renewed)) if renewed < renewals && renews => (RENEW, self.holds[hold].token),
            Some((hold, _)) => (RELEASE, self.holds[hold].token),
            None if self.is_over => {
                caller.next = Instant::FAR_FUTURE;
                return;
            }
            None => (ACQUIRE, 0),
        };
        if kind == ACQUIRE {
            caller.owner += 1;
            caller.lock = if locks == 0 { caller.owner >> 32 } else { lock };
        }
        let name = self.name(index);
        let task = match kind {
            ACQUIRE => Task::Acquire { name, owner: self.callers[index].owner, ttl: self.workload.ttl },
            RENEW => Task::Renew { name, token },
            _ => Task::Release { name, token },
        };
        if kind == RELEASE {
            self.end_hold(index, now);
        }
        let caller = &mut self.callers[index];
        caller.client.start(now, &task).expect("a client has one call under way");
        (caller.calls, caller.next) = (Some((kind, now)), Instant::FAR_FUTURE);
    }

    /// A call has ended.
    fn end(&mut self, now: Instant, index: usize, outcome: Outcome) {
        let (kind, begun) = self.callers[index].calls.take().expect("what ends was begun");
        let is_done = matches!(outcome, Outcome::Granted { .. } | Outcome::Free);
        if is_done {
            self.recorder.record(kind, begun, now);
        } else {
            self.recorder.record_failure(kind, begun);
        }
        let pause = self.workload.pause.as_ps();
        // Some holders oversleep.
        let pause = Duration::from_ps(if pause == 0 { 0 } else { self.random.below(pause) });
        self.callers[index].next = now + pause;
        if outcome != Outcome::Unknown {
            self.end_hold(index, now);
        }
        match outcome {
            Outcome::Granted { token, until, .. } => {
                let Caller { lock, owner, held, .. } = self.callers[index];
                let renewed = held.map_or(0, |(_, renewed)| renewed + 1);
                self.callers[index].held = Some((self.holds.len(), renewed));
                self.holds.push(Hold {
                    lock,
                    owner,
                    token,
                    invoked_ns: ns(begun),
                    returned_ns: ns(now),
                    until_ns: ns(until).max(ns(now)),
                    is_renewal: kind != ACQUIRE,
                });
            }
            Outcome::BadRequest => panic!("what this driver asks is in range"),
            Outcome::Held { .. } | Outcome::Free | Outcome::Lost | Outcome::Full | Outcome::Unknown => {
                self.callers[index].held = None;
            }
        }
    }
}

impl ClientProgram for Driver {
    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8])) {
        // The identity in a message finds its client: all others ignore it.
        for index in 0..self.callers.len() {
            if let Ok(Some(completion)) = self.callers[index].client.receive(now, node, message) {
                self.end(now, index, completion.outcome);
                return;
            }
        }
    }

    fn next_deadline(&self, _: Instant) -> Option<Instant> {
        let of =
            |caller: &Caller| [Some(caller.next), caller.client.next_deadline()].into_iter().flatten().min();
        self.callers.iter().filter_map(of).min().filter(|at| *at < Instant::FAR_FUTURE)
    }

    fn handle_deadline(&mut self, now: Instant) {
        for index in 0..self.callers.len() {
            while let Some(completion) = self.callers[index].client.handle_deadline(now) {
                self.end(now, index, completion.outcome);
            }
            if self.callers[index].next <= now {
                self.call(now, index);
            }
        }
    }

    fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.callers.iter_mut().find_map(|caller| caller.client.poll_transmit(payload))
    }
}
