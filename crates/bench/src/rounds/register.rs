//! Clients of the replicated register, on a separate machine. They read, write and compare-and-set the
//! register, and record their history.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use weft_check::{Action, History, Operation, Outcome, Reply};
use weft_harness::{ClusterHost, DATAGRAM_BYTES, address};
use weft_kv::{Client, ClientParameters, ReadPolicy, Task};
use weft_nic::Egress;
use weft_sim::{Machine, Stream};
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, NodeSet};
use weft_wire::datagram::{self, Datagram};
use weft_wire::frame::{self, Flow, Frame};
use weft_workload::{MIN_VALUE_BYTES, fill_value, fingerprint};

use super::host::ROUNDS_SLOT;

/// The UDP port of the clients.
const PORT: u16 = 5_000;
/// Number of clients.
const CLIENTS: u64 = 6;
/// Size of a written value, in bytes.
const VALUE_BYTES: usize = 24;
/// Initial and maximum time until an unanswered request is repeated.
const TIMEOUT: Duration = Duration::from_us(40);
const TIMEOUT_MAX: Duration = Duration::from_us(160);
/// Time-out of a request. The request may have taken effect.
const GIVE_UP: Duration = Duration::from_us(600);

/// The machine of the clients.
const STATION: ClusterHost = ClusterHost::Clients(0);

/// A client and its outstanding request.
struct RegisterClient {
    client: Client,
    job: Option<(Instant, Action)>,
    /// The version that the client has read last, for compare-and-set.
    seen: u64,
}

/// The machine that runs the clients.
pub(super) struct RegisterClients {
    slots: Vec<RegisterClient>,
    random: Stream,
    asking: bool,
    begin: Instant,
    values: u64,
    ready: VecDeque<usize>,
    egress: Egress,
    payload: Vec<u8>,
    history: History,
    answered_at: Instant,
}

impl RegisterClients {
    /// Clients that send their first requests at `begin`.
    pub(super) fn new(nodes: usize, seed: u64, begin: Instant) -> Self {
        let client = |id| {
            Client::new(ClientParameters {
                key_bytes: 0,
                reads: ReadPolicy::AnyReplica,
                timeout: TIMEOUT,
                timeout_max: TIMEOUT_MAX,
                pause: TIMEOUT / 4,
                give_up: GIVE_UP,
                ..ClientParameters::new(id, NodeSet::first(nodes))
            })
        };
        Self {
            slots: (1..=CLIENTS)
                .map(|id| RegisterClient { client: client(id), job: None, seen: 0 })
                .collect(),
            random: Stream::new(seed, "register clients", 0),
            asking: true,
            begin,
            values: 0,
            ready: VecDeque::new(),
            egress: Egress::new(DATAGRAM_BYTES),
            payload: Vec::new(),
            history: History::new(),
            answered_at: begin,
        }
    }

    /// The history so far. Outstanding requests are in it without an answer.
    pub(super) fn history(&self) -> History {
        let mut history = self.history.clone();
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some((invoked, action)) = slot.job {
                record(&mut history, index, invoked, action, None);
            }
        }
        history
    }

    /// Time of the last answer.
    pub(super) fn answered_at(&self) -> Instant {
        self.answered_at
    }

    /// Stops new requests.
    pub(super) fn stop(&mut self) {
        self.asking = false;
    }

    /// Makes idle clients send requests.
    fn start(&mut self, now: Instant) {
        for index in 0..self.slots.len() {
            if self.slots[index].job.is_some() || !self.asking || now < self.begin {
                continue;
            }
            let mut value = [0; VALUE_BYTES];
            self.values += 1;
            fill_value(self.values, &mut value);
            let value_id = fingerprint(&value);
            let slot = &mut self.slots[index];
            let (task, action) = match self.random.below(10) {
                0..4 => (Task::Get { key: &[] }, Action::Get),
                4..7 => (Task::Put { key: &[], value: &value }, Action::Put { value: value_id }),
                7..9 => (
                    Task::CompareAndSet { key: &[], expected: slot.seen, value: &value },
                    Action::CompareAndSet { expected: slot.seen, value: value_id },
                ),
                _ => (Task::Delete { key: &[] }, Action::Delete),
            };
            slot.client.start(now, task).expect("a client asks one thing at a time");
            slot.job = Some((now, action));
            self.ready.push_back(index);
        }
    }

    fn complete(&mut self, now: Instant, index: usize, outcome: weft_kv::Outcome<'_>) {
        let slot = &mut self.slots[index];
        let (invoked, action) = slot.job.take().expect("it was asked");
        let outcome = recorded(action, outcome);
        if let Some(
            Outcome::Found { version, .. } | Outcome::Written { version } | Outcome::Mismatch { version },
        ) = outcome
        {
            slot.seen = version;
        }
        if outcome.is_some() {
            self.answered_at = now;
        }
        let reply = outcome.map(|outcome| Reply { returned_ns: now.as_ns(), outcome });
        record(&mut self.history, index, invoked, action, reply);
    }
}

fn record(history: &mut History, client: usize, invoked: Instant, action: Action, reply: Option<Reply>) {
    let operation = Operation { client: client as u32, key: b"", invoked_ns: invoked.as_ns(), action, reply };
    history.record(operation).expect("time runs forward");
}

/// Converts an outcome for the history; `None` if it is unknown.
fn recorded(action: Action, outcome: weft_kv::Outcome<'_>) -> Option<Outcome> {
    Some(match outcome {
        weft_kv::Outcome::Value { version, value } => Outcome::Found { version, value: fingerprint(value) },
        weft_kv::Outcome::Done { version } if action == Action::Delete => Outcome::Deleted { version },
        weft_kv::Outcome::Done { version } => Outcome::Written { version },
        weft_kv::Outcome::NotFound => Outcome::NotFound,
        weft_kv::Outcome::Mismatch { version } => Outcome::Mismatch { version },
        weft_kv::Outcome::TableFull | weft_kv::Outcome::SessionsFull | weft_kv::Outcome::BadRequest => {
            Outcome::Refused
        }
        weft_kv::Outcome::Scanned { .. } => unreachable!("a register is not scanned"),
        weft_kv::Outcome::Unknown => return None,
    })
}

impl Machine for RegisterClients {
    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if let Ok(Frame::Udp { udp, payload, .. }) = Frame::parse(bytes)
            && udp.destination_port == PORT
            && let Ok(datagram) = Datagram::parse(payload)
        {
            for message in datagram.messages().filter(|message| message.engine == ROUNDS_SLOT) {
                // Every reply contains the identity of its client.
                let Ok(reply) = weft_kv::message::Reply::parse(message.payload) else { continue };
                let Some(index) = self.slots.iter().position(|slot| slot.client.id() == reply.client) else {
                    continue;
                };
                match self.slots[index].client.receive(now, message.kind, message.payload) {
                    Ok(Some(completion)) => self.complete(now, index, completion.outcome),
                    Ok(None) => self.ready.push_back(index),
                    Err(_) => {}
                }
            }
            self.start(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let idle = self.asking && self.slots.iter().any(|slot| slot.job.is_none());
        let begin = idle.then_some(self.begin);
        self.slots.iter().filter_map(|slot| slot.client.next_deadline()).chain(begin).min()
    }

    fn wake(&mut self, now: Instant) {
        for index in 0..self.slots.len() {
            while let Some(completion) = self.slots[index].client.handle_deadline(now) {
                self.complete(now, index, completion.outcome);
            }
            self.ready.push_back(index);
        }
        self.start(now);
    }

    fn poll_frame(&mut self, out: &mut Vec<u8>) -> Option<Instant> {
        while let Some(&index) = self.ready.front() {
            match self.slots[index].client.poll_transmit(&mut self.payload) {
                Some((node, kind)) => {
                    let to = SocketAddrV4::new(address(node.index()), datagram::UDP_PORT);
                    assert!(
                        self.egress.push(to, ROUNDS_SLOT, kind, &self.payload),
                        "a request fits into a datagram"
                    );
                    self.payload.clear();
                }
                None => {
                    self.ready.pop_front();
                }
            }
        }
        let to = self.egress.poll(&mut self.payload)?;
        let node = NodeId::new(usize::from(to.ip().octets()[3]) - 1).expect("clients ask nodes only");
        let flow = Flow {
            source: STATION.endpoint(PORT),
            destination: ClusterHost::Node(node).endpoint(datagram::UDP_PORT),
            type_of_service: 0,
        };
        frame::emit_udp_frame(out, &flow, &self.payload);
        self.payload.clear();
        Some(Instant::ZERO)
    }
}

const _: () = assert!(VALUE_BYTES >= MIN_VALUE_BYTES, "values are numbered");
