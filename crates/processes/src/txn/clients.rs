//! The clients of a run. They share one port, and each has one outstanding transaction.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering};

use weft_applications::{Audit, Call, Client, Workload};
use weft_net::transactions::TRANSACTIONS_SLOT;
use weft_net::{Clock, Datagram, Endpoint, IdlePolicy, Outgoing, PortOptions, Stop, UdpPort, run};
use weft_nic::Egress;
use weft_results::histogram::Latencies;
use weft_time::{Duration, Instant};
use weft_txn::client::{self, ClientParameters, Ended};
use weft_txn::{Outcome, TransactionId};
use weft_wire::datagram::{BYTES_MAX, Datagram as WeftDatagram};

use super::NetTxnBench;
use crate::RealBenchError;

/// Time-out of a call. Clients of a killed node wait for this time, unless the node is restarted before.
const GIVE_UP: Duration = Duration::from_secs(3);

/// The last attempt of an answered call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub id: TransactionId,
    pub called: Instant,
    pub answered: Instant,
    pub committed: bool,
}

/// Transactions of one kind that ended within the measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Kind {
    pub committed: u64,
    /// Number of transactions that their procedure refused.
    pub refused: u64,
    /// Latencies of committed and refused transactions.
    pub latencies: Latencies,
}

/// The record of all answers to clients.
pub(super) struct ClientRecord {
    pub attempts: Vec<Attempt>,
    pub kinds: Vec<Kind>,
    /// Length of the measurement.
    pub measured: Duration,
    /// Calls with an unknown outcome.
    pub unknown: u64,
    /// Calls that no node has begun.
    pub not_begun: u64,
    /// The longest time without an answer to any client.
    pub longest_silence: Duration,
    pub audit: Box<dyn Audit>,
    /// Violations.
    pub wrong: Vec<String>,
}

struct ClosedLoopClient {
    client: client::Client,
    workload: Box<dyn Client>,
    call: Call,
    /// Time at which the transaction began. After a conflict the call is repeated, so an attempt may begin later.
    began: Instant,
    called: Instant,
}

/// All clients, as one endpoint.
pub(super) struct Clients<'a> {
    lanes: Vec<ClosedLoopClient>,
    /// Identity of the first client; the other clients have the following numbers.
    identity: u64,
    nodes: Vec<SocketAddrV4>,
    clock: Clock,
    measured_from: Instant,
    end: Instant,
    last_answer: Instant,
    egress: Egress,
    bytes: Vec<u8>,
    outgoing: Outgoing,
    ended: &'a AtomicU64,
    stop: &'a Stop,
    told: ClientRecord,
}

impl<'a> Clients<'a> {
    pub fn new(
        bench: &NetTxnBench,
        workload: &dyn Workload,
        nodes: Vec<SocketAddrV4>,
        (begin, clock): (Instant, Clock),
        ended: &'a AtomicU64,
        stop: &'a Stop,
    ) -> Self {
        // The machine's clock makes identities unique over all runs.
        let identity = clock.monotonic_ns(begin) << 16;
        let lanes = (0..bench.clients).map(|index| {
            let first = index as usize % bench.nodes;
            let mut workload = workload.client(first, index / bench.nodes as u32, bench.seed);
            let parameters = ClientParameters {
                first,
                give_up: GIVE_UP,
                ..ClientParameters::new(identity + u64::from(index), bench.nodes)
            };
            let call = workload.next(None);
            ClosedLoopClient {
                client: client::Client::new(parameters),
                workload,
                call,
                began: begin,
                called: begin,
            }
        });
        Self {
            lanes: lanes.collect(),
            identity,
            nodes,
            clock,
            measured_from: begin + bench.warm_up,
            end: bench.end(begin),
            last_answer: begin,
            egress: Egress::new(BYTES_MAX),
            bytes: Vec::new(),
            outgoing: Outgoing::default(),
            ended,
            stop,
            told: ClientRecord {
                attempts: Vec::new(),
                kinds: vec![Kind::default(); workload.kinds().len()],
                measured: bench.length - bench.warm_up,
                unknown: 0,
                not_begun: 0,
                longest_silence: Duration::ZERO,
                audit: workload.audit(),
                wrong: Vec::new(),
            },
        }
    }

    /// Makes calls until the end of the run, from a port at this address.
    pub fn run(mut self, address: Ipv4Addr, spin: Duration) -> Result<ClientRecord, RealBenchError> {
        let mut ports = [UdpPort::bind(SocketAddrV4::new(address, 0), &PortOptions::default())?];
        let now = self.clock.now();
        for lane in 0..self.lanes.len() {
            self.call(now, lane);
        }
        let (clock, stop) = (self.clock, self.stop);
        run(&mut self, &mut ports, clock, IdlePolicy::share_then_sleep(spin), stop)?;
        Ok(self.told)
    }

    fn call(&mut self, now: Instant, lane: usize) {
        let lane = &mut self.lanes[lane];
        if lane.call.begins {
            lane.began = now;
        }
        lane.called = now;
        lane.client.start(now, lane.call.request.clone());
    }

    /// Records the end of a call, and lets its client continue.
    fn end(&mut self, now: Instant, index: usize, ended: Ended) {
        let lane = &mut self.lanes[index];
        let told = &mut self.told;
        let outcome = match ended {
            Ended::NotBegun => {
                told.not_begun += 1;
                // The call is repeated, as it is after a conflict.
                Outcome::Conflict
            }
            Ended::Outcome(id, outcome) => {
                let committed = match &outcome {
                    Outcome::Committed { answer } => {
                        told.audit.committed(&lane.call.request, answer);
                        true
                    }
                    Outcome::Unanswered => {
                        told.audit.unknown(&lane.call.request);
                        true
                    }
                    Outcome::Unknown => {
                        told.unknown += 1;
                        told.audit.unknown(&lane.call.request);
                        false
                    }
                    Outcome::Aborted { .. } | Outcome::Conflict => false,
                    Outcome::Full | Outcome::Unavailable | Outcome::Faulty(_) => {
                        told.wrong.push(format!("a call ended with {outcome:?}"));
                        false
                    }
                };
                let called = lane.called;
                told.attempts.extend(id.map(|id| Attempt { id, called, answered: now, committed }));
                outcome
            }
        };
        let answered = matches!(outcome, Outcome::Committed { .. } | Outcome::Aborted { .. });
        if answered && now >= self.measured_from && now < self.end {
            let kind = &mut told.kinds[lane.call.kind];
            match outcome {
                Outcome::Committed { .. } => kind.committed += 1,
                _ => kind.refused += 1,
            }
            kind.latencies.record(now - lane.began);
        }
        if answered {
            self.ended.fetch_add(1, Ordering::Relaxed);
            told.longest_silence = told.longest_silence.max(now - self.last_answer);
            self.last_answer = now;
        }
        lane.call = lane.workload.next(Some(&outcome));
        if now < self.end {
            self.call(now, index);
        } else if self.lanes.iter().all(|lane| !lane.client.is_busy()) {
            self.stop.request();
        }
    }
}

impl Endpoint for Clients<'_> {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_>) {
        let Some(node) = self.nodes.iter().position(|node| *node == datagram.from) else { return };
        let Ok(parsed) = WeftDatagram::parse(datagram.bytes) else { return };
        for message in parsed.messages().filter(|message| message.engine == TRANSACTIONS_SLOT) {
            // All messages to clients begin with the client's identity.
            let Some(client) = message.payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)) else {
                continue;
            };
            let index = client.wrapping_sub(self.identity) as usize;
            let Some(lane) = self.lanes.get_mut(index) else { continue };
            if let Some(ended) = lane.client.receive(now, node, message.kind, message.payload) {
                self.end(now, index, ended);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(|lane| lane.client.next_deadline()).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        for index in 0..self.lanes.len() {
            if let Some(ended) = self.lanes[index].client.handle_deadline(now) {
                self.end(now, index, ended);
            }
        }
    }

    fn transmit(&mut self, _now: Instant, ports: &mut [UdpPort]) {
        for lane in &mut self.lanes {
            // When a call was sent, the next one may be due at once.
            self.bytes.clear();
            if let Some((node, kind)) = lane.client.poll_transmit(&mut self.bytes) {
                let fits = self.egress.push(self.nodes[node], TRANSACTIONS_SLOT, kind, &self.bytes);
                assert!(fits, "a call fits into a datagram");
            }
        }
        self.outgoing.transmit(&mut ports[0], |datagram| self.egress.poll(datagram));
    }
}
