//! The replicated register under the clients of the key-value engine: their history is linearizable, whatever one
//! of three nodes, its links and its crashes do, and every request takes effect once.

use std::collections::BTreeMap;

use crate::lock_step::LockStep;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_check::{Action, History, Operation, Options, Outcome, Reply, Verdict, check};
use weft_kv::{Client, ClientParameters, Outcome as Told, ReadPolicy, Task};
use weft_rounds::message::Phase;
use weft_rounds::{Ckc, Parameters, Register};
use weft_time::Duration;
use weft_waist::{Caller, NodeSet};

const CLIENTS: usize = 4;
/// Call kinds of the key-value engine.
const REPLY: u8 = 2;

fn parameters() -> Parameters {
    Parameters { window: 4, value_bytes: 128, queue: 4, silence: 16, ..Parameters::default() }
}

struct World {
    group: LockStep<Ckc, Register>,
    rng: Xoshiro256PlusPlus,
    clients: Vec<Client>,
    /// By client and request number: the operation, and when it started.
    asked: Vec<BTreeMap<u64, (Action, u64)>>,
    /// The latest version that each client has seen.
    known: Vec<u64>,
    values: u64,
    history: History,
    epoch: u32,
    crashes: u64,
}

impl World {
    fn new(seed: u64, nodes: usize) -> Self {
        let clients = (0..CLIENTS).map(|client| {
            Client::new(ClientParameters {
                key_bytes: 0,
                reads: ReadPolicy::AnyReplica,
                timeout: Duration::from_us(30),
                timeout_max: Duration::from_us(120),
                pause: Duration::from_us(5),
                ..ClientParameters::new(client as u64 + 7, NodeSet::first(nodes))
            })
        });
        Self {
            group: LockStep::new(nodes, parameters()),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            clients: clients.collect(),
            asked: vec![BTreeMap::new(); CLIENTS],
            known: vec![0; CLIENTS],
            values: 0,
            history: History::new(),
            epoch: 1,
            crashes: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    fn ask(&mut self, client: usize) {
        let dice = self.random(100);
        self.values += 1;
        let value = self.values.to_be_bytes();
        let expected = self.known[client];
        let (task, action) = match dice {
            0..40 => (Task::Get { key: &[] }, Action::Get),
            40..65 => (Task::Put { key: &[], value: &value }, Action::Put { value: self.values }),
            65..75 => (Task::Delete { key: &[] }, Action::Delete),
            _ => (
                Task::CompareAndSet { key: &[], expected, value: &value },
                Action::CompareAndSet { expected, value: self.values },
            ),
        };
        let request = self.clients[client].start(self.group.now, task).unwrap();
        self.asked[client].insert(request.0, (action, self.group.now.as_ns()));
    }

    fn record(&mut self, client: usize, request: u64, reply: Option<Reply>) {
        let (action, invoked_ns) = self.asked[client].remove(&request).expect("it was asked once");
        let operation = Operation { client: client as u32, key: b"", invoked_ns, action, reply };
        self.history.record(operation).unwrap();
    }

    /// Lets the clients send and repeat requests, and the nodes answer.
    fn drive(&mut self, asking: bool) {
        for client in 0..CLIENTS {
            let given_up = self.clients[client].handle_deadline(self.group.now);
            assert_eq!(given_up, None, "a request was given up");
            while asking
                && self.clients[client].outstanding() < 2
                && self.clients[client].can_start()
                && self.random(2) == 0
            {
                self.ask(client);
            }
            let mut payload = Vec::new();
            while let Some((to, kind)) = self.clients[client].poll_transmit(&mut payload) {
                self.group.call(to.index(), kind, client as u32, &payload);
                payload.clear();
            }
        }
        for (_, caller, kind, bytes) in std::mem::take(&mut self.group.replies) {
            let Caller::Host(client) = caller else { panic!("a host asked") };
            if kind != REPLY || self.random(100) < 5 {
                continue;
            }
            let client = client as usize;
            let Some(completion) = self.clients[client].receive(self.group.now, kind, &bytes).unwrap() else {
                continue;
            };
            let request = completion.request.0;
            let (action, _) = self.asked[client][&request];
            let outcome = match completion.outcome {
                Told::Value { version, value } => {
                    self.known[client] = version;
                    Outcome::Found { version, value: u64::from_be_bytes(value.try_into().unwrap()) }
                }
                Told::Done { version } if action == Action::Delete => Outcome::Deleted { version },
                Told::Done { version } => Outcome::Written { version },
                Told::NotFound => Outcome::NotFound,
                Told::Mismatch { version } => {
                    self.known[client] = version;
                    Outcome::Mismatch { version }
                }
                outcome => panic!("{outcome:?}"),
            };
            self.record(client, request, Some(Reply { returned_ns: self.group.now.as_ns(), outcome }));
        }
    }

    /// Runs rounds. With `faults`, the node `faulty` crashes and its links are cut; its host restarts it.
    fn run(&mut self, rounds: u64, faulty: usize, faults: bool) {
        let mut cut = Vec::new();
        for round in 0..rounds {
            if faults && self.random(20) == 0 {
                let nodes = self.group.nodes.len() as u64;
                cut.clear();
                for _ in 0..self.random(3) {
                    let other = self.random(nodes) as usize;
                    cut.push(if self.random(2) == 0 { (faulty, other) } else { (other, faulty) });
                }
            }
            if faults && self.random(150) == 0 {
                self.crashes += 1;
                self.group.nodes[faulty] = None;
            }
            let engine = self.group.nodes[faulty].as_ref();
            let stopped = engine.is_none_or(|engine| matches!(engine.phase(), Phase::Fenced | Phase::Left));
            if stopped && self.random(30) == 0 {
                self.epoch += 1;
                self.group.join(faulty, self.epoch);
            }
            self.group.rounds(1, |from, to| cut.contains(&(from, to)));
            self.drive(round + 150 < rounds);
        }
    }
}

#[test]
fn what_clients_see_is_linearizable() {
    let (mut operations, mut crashes, mut rejoined) = (0, 0, 0);
    for seed in 0..30 {
        println!("seed {seed}");
        let nodes = 3 + seed as usize % 3;
        let mut world = World::new(seed, nodes);
        let faulty = nodes - 1;
        world.run(1_500, faulty, true);
        world.run(500, faulty, false);
        for client in 0..CLIENTS {
            assert_eq!(world.clients[client].outstanding(), 0, "client {client} still waits");
        }
        let report = check(&world.history, &Options::default());
        assert_eq!(report.verdict, Verdict::Linearizable, "{report:?}");
        let states: Vec<_> = world.group.nodes.iter().flatten().map(|node| node.service().peek()).collect();
        assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
        assert!(world.group.nodes.iter().flatten().all(|node| node.service().is_complete()));
        operations += world.history.len();
        crashes += world.crashes;
        rejoined += u32::from(world.epoch > 1);
    }
    println!("{operations} operations, {crashes} crashes, {rejoined} runs with a node that came back");
    assert!(operations > 10_000 && crashes > 30 && rejoined > 20);
}
