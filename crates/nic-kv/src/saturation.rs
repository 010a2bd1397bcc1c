//! Measures the throughput of cards that a client keeps busy, on links of 100 Gb/s.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weft_gateware::{CYCLE, RtlNic};
use weft_kv::{Operation, SESSION_WINDOW, Status};
use weft_nic::{HostCommand, HostEvent, Nic};
use weft_time::{Duration, Instant};
use weft_waist::EngineState;

use super::NicKvError;
use super::rig::{Asked, KEY_BYTES, Setup, answers, wire_bytes, wire_time};

/// Number of keys.
const KEYS: usize = 256;

/// Time-out for the start of the cluster, far longer than it takes.
const FOUNDED_WITHIN: Duration = Duration::from_ms(10);

/// Interval after which a client without an answer repeats its request.
const ASK_AGAIN: Duration = Duration::from_us(200);

/// Time-out for an answer, far longer than any answer takes.
const ANSWERED_WITHIN: Duration = Duration::from_ms(5);

/// Cycles between two checks for unanswered requests.
const LOOK_EVERY: u64 = 1_000;

/// Results of a node under load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    /// Operations outstanding.
    pub outstanding: u64,
    /// Operations answered.
    pub operations: u64,
    /// Duration of the measurement in virtual time.
    pub measured_ns: u64,
    /// Answers with another status than success. The client made a new request for each.
    pub refused: u64,
    /// Requests that were not answered within 200 us, because the card's datagram buffer was full. The client repeated
    /// them.
    pub repeated: u64,
    /// Operations per second.
    pub operations_per_s: f64,
    /// Bytes on the wire that the node sent for each operation.
    pub wire_bytes_out_per_operation: f64,
    /// Share of the node's outgoing link, 100 Gb/s, that was in use.
    pub link_out_share: f64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile of the latencies.
    pub p99_ns: u64,
}

/// Load that is offered to node 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    /// Kind of the operations: get or put.
    pub(super) operation: Operation,
    pub(super) outstanding: u64,
    pub(super) operations: u64,
}

/// The incoming link of a machine.
#[derive(Debug, Default)]
struct Ingress {
    free_at: Instant,
    frames: VecDeque<(Instant, Vec<u8>)>,
}

impl Ingress {
    fn push(&mut self, now: Instant, frame: Vec<u8>) {
        self.free_at = self.free_at.max(now) + wire_time(wire_bytes(frame.len() as u64));
        self.frames.push_back((self.free_at, frame));
    }
}

/// A client of node 0, with the number of its last request.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    requests: u64,
}

/// An unanswered request.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    asked: Asked,
    since: Instant,
    last_asked: Instant,
}

/// Counts at one point of a run.
#[derive(Clone, Copy, Debug)]
struct Reached {
    at: Instant,
    sent_bytes: u64,
    refused: u64,
    repeated: u64,
}

/// Cards, their links, and a client with a link of its own to each card. Frames take the time of their bytes on the
/// wire; propagation takes no time, and there is no switch.
pub(super) struct Network {
    nics: Vec<RtlNic>,
    ingress: Vec<Ingress>,
    hardware: Vec<[u8; 6]>,
    now: Instant,
    /// Bytes that node 0 has sent.
    sent_bytes: u64,
    to_client: Vec<Vec<u8>>,
    sessions: Vec<Session>,
    keys: Vec<[u8; KEY_BYTES]>,
    value_bytes: usize,
}

impl Network {
    /// Makes a cluster, waits until it serves clients, and writes a value for each key.
    ///
    /// # Errors
    /// The cluster does not reach that state.
    pub(super) fn new(setup: &Setup, value_bytes: usize) -> Result<Self, NicKvError> {
        let cards = setup.cards();
        let mut nics: Vec<RtlNic> = cards.iter().map(RtlNic::new).collect();
        for nic in &mut nics {
            for card in &cards {
                nic.add_neighbour(card.address, card.hardware);
            }
            for (address, hardware) in Setup::others() {
                nic.add_neighbour(address, hardware);
            }
        }
        let mut network = Self {
            ingress: nics.iter().map(|_| Ingress::default()).collect(),
            hardware: cards.iter().map(|card| card.hardware.0).collect(),
            nics,
            now: Instant::ZERO + CYCLE,
            sent_bytes: 0,
            to_client: Vec::new(),
            sessions: Vec::new(),
            keys: setup.keys().take(KEYS).collect(),
            value_bytes,
        };
        for (node, nic) in network.nics.iter_mut().enumerate() {
            nic.submit(
                network.now,
                HostCommand::Configure { engine: 0, configuration: setup.configuration(node) },
            );
        }
        let mut founded = 0;
        while founded < setup.nodes {
            if network.now > Instant::ZERO + FOUNDED_WITHIN {
                return Err(NicKvError::NotFounded);
            }
            network.step();
            for nic in &mut network.nics {
                while let Some(event) = nic.poll_host() {
                    if let HostEvent::Status { status, .. } = event {
                        founded += usize::from(status.state == EngineState::Full);
                    }
                }
            }
        }
        let fill = Offered { operation: Operation::Put, outstanding: 32, operations: KEYS as u64 };
        network.drive(&fill, 0, |_| {})?;
        Ok(network)
    }

    /// Simulates one clock cycle.
    fn step(&mut self) {
        self.now += CYCLE;
        let now = self.now;
        for (nic, ingress) in self.nics.iter_mut().zip(&mut self.ingress) {
            while ingress.frames.front().is_some_and(|(at, _)| *at <= now) {
                let (_, frame) = ingress.frames.pop_front().expect("seen above");
                nic.receive_frame(now, &frame);
            }
        }
        for node in 0..self.nics.len() {
            let nic = &mut self.nics[node];
            nic.handle_deadline(now);
            let mut frame = Vec::new();
            while nic.poll_frame(now, &mut frame) {
                let frame = std::mem::take(&mut frame);
                if node == 0 {
                    self.sent_bytes += wire_bytes(frame.len() as u64);
                }
                match self.hardware.iter().position(|hardware| frame.starts_with(hardware)) {
                    Some(to) => self.ingress[to].push(now, frame),
                    None => self.to_client.push(frame),
                }
            }
        }
    }

    fn ask(&mut self, asked: &Asked) {
        let now = self.now;
        self.ingress[0].push(now, asked.frame(0));
    }

    /// Keeps node 0 busy. The first operations, a tenth of all, are not measured.
    ///
    /// # Errors
    /// An answer is wrong or missing.
    pub(super) fn saturate(
        &mut self,
        load: &Offered,
        progress: impl FnMut(u64),
    ) -> Result<Saturation, NicKvError> {
        self.drive(load, (load.operations / 10).max(load.outstanding), progress)
    }

    /// Keeps `outstanding` operations outstanding until all have been answered.
    fn drive(
        &mut self,
        load: &Offered,
        warm_up: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<Saturation, NicKvError> {
        // Each client has at most half of a session's window outstanding on average, so no client has to wait
        // for its oldest request.
        let clients = load.outstanding.div_ceil(SESSION_WINDOW / 2) as usize;
        self.sessions.resize(self.sessions.len().max(clients), Session::default());
        let mut waiting: BTreeMap<(usize, u64), Waiting> = BTreeMap::new();
        let mut latencies = Vec::with_capacity(load.operations as usize);
        let total = load.operations + warm_up;
        let (mut asked, mut answered, mut again, mut repeated) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut refused: Vec<[u8; KEY_BYTES]> = Vec::new();
        let mut began = Reached { at: self.now, sent_bytes: self.sent_bytes, refused: 0, repeated: 0 };
        let mut turn = 0;
        let mut cycles = 0_u64;
        let mut ended = None;
        while ended.is_none() || !waiting.is_empty() {
            // Requests continue until the last measured one is answered: with fewer outstanding, the node would not be
            // under load.
            while ended.is_none() && (waiting.len() as u64) < load.outstanding {
                // A request may start when the request one window before it has been answered.
                let may_ask = |client: usize| {
                    let oldest = waiting.range((client, 0)..(client + 1, 0)).next();
                    oldest.is_none_or(|((_, request), _)| {
                        self.sessions[client].requests + 1 < request + SESSION_WINDOW
                    })
                };
                let Some(client) =
                    (0..clients).map(|step| (turn + step) % clients).find(|&client| may_ask(client))
                else {
                    break;
                };
                turn = client + 1;
                let key = refused.pop().unwrap_or_else(|| {
                    asked += 1;
                    self.keys[asked as usize % self.keys.len()]
                });
                self.sessions[client].requests += 1;
                let request = Asked {
                    operation: load.operation,
                    client: 1 + client as u64,
                    request: self.sessions[client].requests,
                    key,
                    value_bytes: self.value_bytes,
                };
                let now = self.now;
                waiting.insert(
                    (client, request.request),
                    Waiting { asked: request, since: now, last_asked: now },
                );
                self.ask(&request);
            }
            self.step();
            cycles += 1;
            let now = self.now;
            for frame in std::mem::take(&mut self.to_client) {
                let mut wrong = false;
                answers(&frame, |answer| {
                    let of = (answer.client as usize - 1, answer.request);
                    let Some(request) = waiting.remove(&of) else { return };
                    if answer.status != Status::Ok {
                        again += 1;
                        refused.push(request.asked.key);
                        return;
                    }
                    wrong |= !request.asked.is_answered_by(answer.value);
                    answered += 1;
                    if answered > warm_up && answered <= total {
                        latencies.push((now - request.since).as_ns());
                    }
                    let reached = Reached { at: now, sent_bytes: self.sent_bytes, refused: again, repeated };
                    if answered == warm_up {
                        began = reached;
                    } else if answered == total {
                        ended = Some(reached);
                    }
                });
                if wrong {
                    return Err(NicKvError::WrongAnswer);
                }
                progress(answered);
            }
            if cycles.is_multiple_of(LOOK_EVERY) {
                let late: Vec<Asked> = waiting
                    .values_mut()
                    .filter(|request| now - request.last_asked >= ASK_AGAIN)
                    .map(|request| {
                        request.last_asked = now;
                        request.asked
                    })
                    .collect();
                repeated += late.len() as u64;
                late.iter().for_each(|asked| self.ask(asked));
                if waiting.values().any(|request| now - request.since >= ANSWERED_WITHIN) {
                    return Err(NicKvError::Unanswered);
                }
            }
        }
        let operations = latencies.len() as u64;
        latencies.sort_unstable();
        let ended = ended.expect("it is what the loop waits for");
        let measured = ended.at - began.at;
        let sent = ended.sent_bytes - began.sent_bytes;
        let seconds = measured.as_ps() as f64 / 1e12;
        Ok(Saturation {
            outstanding: load.outstanding,
            operations,
            measured_ns: measured.as_ns(),
            refused: ended.refused - began.refused,
            repeated: ended.repeated - began.repeated,
            operations_per_s: operations as f64 / seconds,
            wire_bytes_out_per_operation: sent as f64 / operations as f64,
            link_out_share: sent as f64 * 8.0 / 100e9 / seconds,
            p50_ns: quantile(&latencies, 0.5),
            p99_ns: quantile(&latencies, 0.99),
        })
    }
}

/// The smallest sorted value that is not exceeded by this share of the values.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<u64> = (1..=100).collect();
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.99)), (50, 99));
        assert_eq!((quantile(&[7], 0.99), quantile(&[], 0.5)), (7, 0));
    }

    #[test]
    fn a_link_carries_one_frame_after_the_other() {
        let mut ingress = Ingress::default();
        let now = Instant::ZERO + Duration::from_ns(100);
        ingress.push(now, vec![0; 101]);
        ingress.push(now, vec![0; 226]);
        let times: Vec<u64> = ingress.frames.iter().map(|(at, _)| (*at - now).as_ns()).collect();
        assert_eq!(times, [10, 30]);
    }
}
