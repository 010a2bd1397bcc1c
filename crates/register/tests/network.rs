//! A network with loss, duplication and reordering, coordinators that crash and keep their disks, and proposers that
//! pause and crash.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_check::{Action, History, Reply};
use weft_register::{
    Acceptor, Coordinator, Datagram, Operation, Outcome, Proposer, ProposerId, ProposerParameters, Value,
};
use weft_time::{Duration, Instant};

const CLUSTER: u64 = 7;
const PROPOSERS: usize = 3;
const LENGTH: Instant = Instant::from_ps(2_000_000_000_000);
const PATIENCE: Duration = Duration::from_ms(10);

/// What goes wrong, in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Messages lost.
    loss: u64,
    /// Messages that arrive twice.
    duplicates: u64,
    /// Messages that take up to 60 ms, rather than 4 ms.
    stragglers: u64,
    /// Requests at which a coordinator crashes: before it has stored its state, or before it has answered.
    crashes: u64,
    /// Operations in which the proposer pauses.
    pauses: u64,
    /// Operations in which the proposer crashes.
    ends: u64,
}

impl Faults {
    pub const NONE: Self = Self { loss: 0, duplicates: 0, stragglers: 0, crashes: 0, pauses: 0, ends: 0 };
    pub const ALL: Self =
        Self { loss: 100, duplicates: 100, stragglers: 100, crashes: 50, pauses: 100, ends: 50 };
}

/// Numbers of operations, by their ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub read: u64,
    pub set: u64,
    pub conflicts: u64,
    pub unknown: u64,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.set += other.set;
        self.conflicts += other.conflicts;
        self.unknown += other.unknown;
    }
}

#[derive(Debug)]
enum Event {
    /// A datagram reaches a coordinator.
    Request { coordinator: usize, from: usize, datagram: Datagram },
    /// A datagram reaches a proposer.
    Answer { proposer: usize, datagram: Datagram },
    /// A proposer's deadline, or the time at which it begins its next operation.
    Wake { proposer: usize },
    /// A coordinator starts again.
    Start { coordinator: usize },
}

struct Client {
    proposer: Proposer,
    /// When a pause ends.
    paused_until: Instant,
    /// The operation under way, with the time of its call.
    called: Option<(Instant, Action)>,
    /// When the next operation begins.
    next_call: Instant,
    /// The newest version that it knows.
    version: u64,
}

pub struct Network {
    random: Xoshiro256PlusPlus,
    faults: Faults,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    count: u64,
    coordinators: Vec<Option<Coordinator<usize>>>,
    disks: Vec<Vec<u8>>,
    clients: Vec<Client>,
    values: u64,
    history: History,
    done: Done,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<weft_register::PlantedBug>,
}

impl Network {
    pub fn new(seed: u64, coordinators: usize, faults: Faults) -> Self {
        let disks: Vec<_> =
            (0..coordinators).map(|number| Acceptor::default().encode(CLUSTER, number as u8)).collect();
        let client = |number: usize| Client {
            proposer: proposer(number, 1, coordinators),
            paused_until: Instant::ZERO,
            called: None,
            next_call: Instant::ZERO,
            version: 0,
        };
        let mut network = Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            faults,
            now: Instant::ZERO,
            events: BTreeMap::new(),
            count: 0,
            coordinators: (0..coordinators).map(|_| None).collect(),
            disks,
            clients: (0..PROPOSERS).map(client).collect(),
            values: 0,
            history: History::new(),
            done: Done::default(),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        };
        (0..coordinators).for_each(|coordinator| network.start(coordinator));
        (0..PROPOSERS).for_each(|proposer| network.schedule(Instant::ZERO, Event::Wake { proposer }));
        network
    }

    #[cfg(feature = "planted-bugs")]
    pub fn with_planted_bug(mut self, bug: weft_register::PlantedBug) -> Self {
        self.planted_bug = Some(bug);
        for client in &mut self.clients {
            client.proposer = client.proposer.clone().with_planted_bug(bug);
        }
        self
    }

    /// Runs to the end and returns the history of all operations.
    pub fn run(mut self) -> (History, Done) {
        while let Some(((time, _), event)) = self.events.pop_first() {
            if time > LENGTH {
                break;
            }
            self.now = self.now.max(time);
            self.step(event);
        }
        for number in 0..PROPOSERS {
            self.record(number, None);
        }
        (self.history, self.done)
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Start { coordinator } => self.start(coordinator),
            Event::Request { coordinator, from, datagram } => self.request(coordinator, from, &datagram),
            Event::Answer { proposer, datagram } => {
                let until = self.clients[proposer].paused_until;
                if self.now < until {
                    self.schedule(until, Event::Answer { proposer, datagram });
                    return;
                }
                let client = &mut self.clients[proposer].proposer;
                client.receive(self.now, &datagram).expect("coordinators send well-formed answers");
                self.attend(proposer);
            }
            Event::Wake { proposer } => {
                let until = self.clients[proposer].paused_until;
                if self.now < until {
                    self.schedule(until, Event::Wake { proposer });
                    return;
                }
                self.clients[proposer].proposer.tick(self.now);
                self.attend(proposer);
            }
        }
    }

    fn start(&mut self, coordinator: usize) {
        let acceptor = Acceptor::decode(CLUSTER, coordinator as u8, &self.disks[coordinator]);
        let acceptor = acceptor.expect("the coordinator has written it");
        #[cfg(feature = "planted-bugs")]
        let acceptor = acceptor.restored_with(self.planted_bug);
        self.coordinators[coordinator] = Some(Coordinator::new(CLUSTER, coordinator as u8, acceptor));
    }

    fn request(&mut self, number: usize, from: usize, datagram: &Datagram) {
        let crashes = self.chance(self.faults.crashes);
        let is_stored = self.chance(500);
        let Some(coordinator) = &mut self.coordinators[number] else { return };
        coordinator.receive(from, datagram).expect("proposers send well-formed requests");
        let state = coordinator.take_unsaved();
        if let Some(state) = state.filter(|_| !crashes || is_stored) {
            self.disks[number] = state;
        }
        if crashes {
            self.coordinators[number] = None;
            let pause = self.between(0, 20);
            self.schedule(self.now + pause, Event::Start { coordinator: number });
            return;
        }
        while let Some((to, datagram)) =
            self.coordinators[number].as_mut().and_then(Coordinator::poll_transmit)
        {
            self.send(|| Event::Answer { proposer: to, datagram });
        }
    }

    /// What a proposer's host does after every call.
    fn attend(&mut self, number: usize) {
        if let Some(outcome) = self.clients[number].proposer.poll_outcome() {
            let pause = self.between(0, 20);
            self.clients[number].next_call = self.now + pause;
            self.record(number, Some(outcome));
        }
        if !self.clients[number].proposer.is_busy() && self.now >= self.clients[number].next_call {
            self.call(number);
        }
        while let Some((to, datagram)) = self.clients[number].proposer.poll_transmit() {
            self.send(|| Event::Request { coordinator: usize::from(to), from: number, datagram });
        }
        let client = &self.clients[number];
        let next = if client.proposer.is_busy() { client.proposer.next_deadline() } else { client.next_call };
        self.schedule(next, Event::Wake { proposer: number });
    }

    fn call(&mut self, number: usize) {
        if self.chance(self.faults.ends) {
            // A new process knows nothing, and has a new incarnation.
            let ProposerId { incarnation, .. } = self.clients[number].proposer.id();
            let fresh = proposer(number, incarnation + 1, self.coordinators.len());
            #[cfg(feature = "planted-bugs")]
            let fresh = match self.planted_bug {
                Some(bug) => fresh.with_planted_bug(bug),
                None => fresh,
            };
            self.clients[number].proposer = fresh;
        }
        let reads = self.chance(300);
        let patience = self.between(20, 300);
        self.values += 1;
        let client = &mut self.clients[number];
        let (operation, action) = if reads {
            (Operation::Read, Action::Get)
        } else {
            let (expected, value) = (client.version, self.values);
            let bytes = value.to_be_bytes().to_vec();
            (Operation::CompareAndSet { expected, bytes }, Action::CompareAndSet { expected, value })
        };
        client.called = Some((self.now, action));
        client.proposer.start(self.now, operation, self.now + patience);
        if self.chance(self.faults.pauses) {
            let pause = self.between(1, 200);
            self.clients[number].paused_until = self.now + pause;
        }
    }

    /// Records the end of a proposer's operation; `None` if it does not end.
    fn record(&mut self, number: usize, outcome: Option<Outcome>) {
        let client = &mut self.clients[number];
        let Some((called, action)) = client.called.take() else { return };
        let outcome = match (action, outcome) {
            (_, None | Some(Outcome::Unknown)) => {
                self.done.unknown += 1;
                None
            }
            (Action::Get, Some(Outcome::Done(Value { version: 0, .. }))) => {
                self.done.read += 1;
                client.version = 0;
                Some(weft_check::Outcome::NotFound)
            }
            (Action::Get, Some(Outcome::Done(Value { version, bytes, .. }))) => {
                self.done.read += 1;
                client.version = version;
                let value = u64::from_be_bytes(bytes.try_into().expect("values have 8 bytes"));
                Some(weft_check::Outcome::Found { version, value })
            }
            (_, Some(Outcome::Done(Value { version, .. }))) => {
                self.done.set += 1;
                client.version = version;
                Some(weft_check::Outcome::Written { version })
            }
            (_, Some(Outcome::Conflict(Value { version, .. }))) => {
                self.done.conflicts += 1;
                client.version = version;
                Some(weft_check::Outcome::Mismatch { version })
            }
        };
        let returned_ns = self.now.as_ns();
        let operation = weft_check::Operation {
            client: number as u32,
            key: b"register",
            invoked_ns: called.as_ns(),
            action,
            reply: outcome.map(|outcome| Reply { returned_ns, outcome }),
        };
        self.history.record(operation).expect("the history has room");
    }

    fn send(&mut self, event: impl Fn() -> Event) {
        let copies = 1 + u64::from(self.chance(self.faults.duplicates));
        for _ in 0..copies {
            if self.chance(self.faults.loss) {
                continue;
            }
            let longest = if self.chance(self.faults.stragglers) { 60 } else { 4 };
            let delay = self.between(0, longest);
            self.schedule(self.now + Duration::from_us(50) + delay, event());
        }
    }

    fn schedule(&mut self, time: Instant, event: Event) {
        self.count += 1;
        self.events.insert((time, self.count), event);
    }

    /// Whether something happens that does so `thousandths` times in a thousand.
    fn chance(&mut self, thousandths: u64) -> bool {
        self.random.next_u64() % 1_000 < thousandths
    }

    fn between(&mut self, shortest_ms: u64, longest_ms: u64) -> Duration {
        let (shortest, longest) = (Duration::from_ms(shortest_ms), Duration::from_ms(longest_ms));
        shortest + Duration::from_ps(self.random.next_u64() % (longest - shortest).as_ps().max(1))
    }
}

fn proposer(number: usize, incarnation: u64, coordinators: usize) -> Proposer {
    let id = ProposerId { number: number as u8, incarnation };
    let parameters = ProposerParameters { cluster: CLUSTER, coordinators, patience: PATIENCE };
    Proposer::new(id, parameters)
}
