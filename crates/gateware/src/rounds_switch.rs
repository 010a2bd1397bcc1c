//! Rounds engines in the gateware, connected by a switch and clocked in lock step, to measure the duration of
//! a round.
//!
//! There are no datagrams, MACs or hosts in between. A message that leaves an engine's port reaches its
//! peers' ports one cycle later, because the switch has a register, plus the latency of the path. Messages
//! pass beat by beat; those of different senders are delivered one after the other.

use std::collections::{BTreeMap, VecDeque};

use weft_time::Instant;
use weft_waist::{Caller, Configuration, Epoch, Event, Message, NodeId, NodeSet, View};

use crate::CYCLE;
use crate::engine_package::{self as package, EngineEvent, EngineMessage, RoundsEvents};
use crate::engine_ports::{BeatWords, Offer, Pending, Port, beat, pending};
use crate::model::Model;
use crate::model::rounds::{Inputs, Outputs, Top};
use crate::package::{BEAT_BYTES, Beat};
use crate::rounds::RtlRoundsConfig;
use crate::rounds::consensus::{inputs, offer_to, shown_by};

/// Cycles from the nominal start of a round until its message takes effect at a peer, over a path without
/// latency.
const ONE_WAY: u64 = 7;

/// Proposals that a host keeps outstanding.
const UNDER_WAY: usize = 6;

/// Tokens of the host's calls: for proposals, and for all others.
const PROPOSALS: u32 = 1;
const OTHERWISE: u32 = 2;

/// A message in the switch, or a payload of the host: its beats, each with the cycle in which it is
/// available.
#[derive(Debug)]
struct Packet {
    event: EngineEvent,
    there: u64,
    /// The first beat has been accepted.
    begun: bool,
    beats: VecDeque<(u64, BeatWords)>,
}

/// An engine and its incoming packets.
#[derive(Debug)]
struct EngineUnderTest {
    model: Model<Top>,
    inputs: Inputs,
    outputs: Outputs,
    /// Events of the host and of the timer, which precede those of the switch.
    local: VecDeque<Pending>,
    timer: Option<u64>,
    /// Arriving packets, by sender.
    coming: Vec<VecDeque<Packet>>,
    /// The sender whose packet is offered, and the sender that had the last turn.
    offered: Option<usize>,
    turn: usize,
    /// Accepted events whose beats are still being transferred.
    passing: VecDeque<Packet>,
    /// Destinations of the message that is leaving; empty for an answer to the host.
    sending: NodeSet,
    under_way: usize,
    /// While set, the engine gets no events until every peer's next message is available.
    held: bool,
    timer_taken: u64,
    /// When this engine's last message of a round started to leave, and when the first beat of the last
    /// peer's message was accepted.
    announced: u64,
    heard: u64,
    counts: RoundsRun,
}

/// Counts over a number of cycles, at one node unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundsRun {
    /// Clock cycles.
    pub cycles: u64,
    /// Rounds begun.
    pub rounds: u64,
    /// Messages of rounds accepted.
    pub messages: u64,
    /// Messages that came too late, members not received from, proposals dropped and nodes that fenced
    /// themselves, summed over all nodes.
    pub failures: u64,
    /// Values that were released.
    pub decided_values: u64,
    /// Bytes of the released values.
    pub decided_bytes: u64,
}

/// Durations within a round, in cycles of 4 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundsFigures {
    /// From the event that ends a round until the first message of the next one takes effect. In between, all
    /// instances were stepped, the oldest left and a new one opened, because every round does this.
    pub round_cycles: u64,
    /// From the event that ends a round until the message with the next instance's proposal starts to leave,
    /// and until the first beat of a peer's message of the next round is accepted, whichever is later. Such a
    /// message takes effect with its last beat.
    pub instance_cycles: u64,
    /// From one message of a round that takes effect to the next.
    pub packet_cycles: u64,
    /// The shortest round with which all nodes receive each other's messages in every round and decide every
    /// proposal.
    pub min_round_period_cycles: u64,
    /// Counts with rounds of that period.
    pub at_min_period: RoundsRun,
}

impl RoundsRun {
    /// Released values in one second.
    pub fn decided_values_per_s(&self) -> f64 {
        self.decided_values as f64 / self.seconds()
    }

    /// Bits of released values in one second.
    pub fn decided_bits_per_s(&self) -> f64 {
        8.0 * self.decided_bytes as f64 / self.seconds()
    }

    fn seconds(&self) -> f64 {
        self.cycles as f64 * CYCLE.as_ps() as f64 * 1e-12
    }
}

/// Engines connected by a switch.
#[derive(Debug)]
pub struct RoundsSwitch {
    stations: Vec<EngineUnderTest>,
    cycle: u64,
    latency: u64,
    value: Vec<u8>,
    failures: u64,
}

fn call(kind: u64, payload: &[u8]) -> Pending {
    let token = if kind == package::ROUNDS_CALL_PROPOSE { PROPOSALS } else { OTHERWISE };
    pending(Event::Call {
        caller: Caller::Host(token),
        message: Message { kind: kind as u8, payload },
        last: true,
    })
}

impl RoundsSwitch {
    /// Creates `nodes` founders with rounds of `period` cycles, and lets them start. Their hosts propose
    /// values of `value_bytes` bytes, or none if 0. Paths take `latency` cycles in addition to the switch's
    /// register.
    ///
    /// # Panics
    /// If there are more than [`package::ROUNDS_MEMBERS_MAX`] nodes or a value is too long.
    pub fn new(nodes: usize, value_bytes: usize, period: u64, latency: u64) -> Self {
        assert!((1..=package::ROUNDS_MEMBERS_MAX as usize).contains(&nodes), "rounds: {nodes} nodes");
        assert!(value_bytes <= package::ROUNDS_PROPOSAL_BYTES as usize, "rounds: {value_bytes} bytes");
        let config = RtlRoundsConfig {
            period: CYCLE * period,
            one_way: CYCLE * (ONE_WAY + latency),
            ..RtlRoundsConfig::default()
        };
        let view = View { epoch: Epoch(1), full: NodeSet::first(nodes), joining: NodeSet::EMPTY };
        let station = |index: usize| {
            let node = NodeId::new(index).expect("a cluster has few nodes");
            let configuration = Configuration { node, view, lease_until: Instant::FAR_FUTURE };
            EngineUnderTest {
                model: Model::new(0),
                inputs: inputs(&config),
                outputs: Outputs::default(),
                local: [pending(Event::Configure(configuration)), call(package::ROUNDS_CALL_SUBSCRIBE, &[])]
                    .into(),
                timer: None,
                coming: (0..nodes).map(|_| VecDeque::new()).collect(),
                offered: None,
                turn: 0,
                passing: VecDeque::new(),
                sending: NodeSet::EMPTY,
                under_way: 0,
                held: false,
                timer_taken: 0,
                announced: 0,
                heard: 0,
                counts: RoundsRun::default(),
            }
        };
        let mut switch = Self {
            stations: (0..nodes).map(station).collect(),
            cycle: 1_000,
            latency,
            value: vec![0xa5; value_bytes],
            failures: 0,
        };
        (0..20).for_each(|_| switch.step());
        switch.stations[0].local.push_back(call(package::ROUNDS_CALL_START, &[]));
        // Until all nodes have started and their rounds are aligned.
        (0..64 * period).for_each(|_| switch.step());
        switch.failures = 0;
        switch
    }

    /// Runs for this many cycles. Returns the counts of node 0.
    pub fn run(&mut self, cycles: u64) -> RoundsRun {
        let before = self.stations[0].counts;
        let failures = self.failures;
        (0..cycles).for_each(|_| self.step());
        let after = self.stations[0].counts;
        RoundsRun {
            cycles,
            rounds: after.rounds - before.rounds,
            messages: after.messages - before.messages,
            failures: self.failures - failures,
            decided_values: after.decided_values - before.decided_values,
            decided_bytes: after.decided_bytes - before.decided_bytes,
        }
    }

    /// Delays the end of a round at the last node until its peers' messages of the next round are available,
    /// so that it processes them without a pause. Returns the cycles from the end to the first message that
    /// takes effect, from that to the next one, and until the node's own message leaves and a peer's starts
    /// to be accepted.
    fn changes(&mut self) -> [u64; 3] {
        let node = self.stations.len() - 1;
        // Starts in the middle of a round.
        while self.stations[node].timer.is_none_or(|at| at != self.cycle + 1) {
            self.step();
        }
        self.step();
        self.stations[node].held = true;
        let start = self.stations[node].timer_taken;
        while self.stations[node].held {
            self.step();
        }
        let (mut counted, mut left, mut resumed) = (Vec::new(), None, None);
        for _ in 0..200 {
            let before = self.stations[node].counts;
            self.step();
            let after = self.stations[node].counts;
            let ended = self.stations[node].timer_taken;
            if ended == start {
                continue;
            }
            if after.messages > before.messages && counted.len() < 2 {
                counted.push(self.cycle - 1 - ended);
            }
            let station = &self.stations[node];
            let since = |at: u64| (at > ended).then(|| at - ended);
            left = left.or(since(station.announced));
            resumed = resumed.or(since(station.heard));
        }
        [counted[0], counted[1] - counted[0], left.max(resumed).expect("a round has begun")]
    }

    /// Simulates one cycle of every engine.
    pub fn step(&mut self) {
        let now = self.cycle;
        let mut out: BTreeMap<usize, (Option<EngineMessage>, Option<BeatWords>)> = BTreeMap::new();
        for (index, station) in self.stations.iter_mut().enumerate() {
            let said = station.step(index, now, &self.value, &mut self.failures);
            out.insert(index, said);
        }
        let there = now + 1 + self.latency;
        for (from, (message, body)) in out {
            if let Some(message) = message {
                let to = if message.reply { NodeSet::EMPTY } else { NodeSet::from_bits(message.to) };
                self.stations[from].sending = to;
                for peer in to.iter() {
                    let event = EngineEvent {
                        kind: package::EVENT_DELIVER as u8,
                        from: from as u8,
                        message: message.message,
                        bytes: message.bytes,
                        ..EngineEvent::default()
                    };
                    let packet = Packet { event, there, begun: false, beats: VecDeque::new() };
                    self.stations[peer.index()].coming[from].push_back(packet);
                }
            }
            if let Some(body) = body {
                for peer in self.stations[from].sending.iter() {
                    // The last packet of that sender, in whichever queue it is.
                    let station = &mut self.stations[peer.index()];
                    let behind = station.coming[from].back_mut();
                    let packet = match behind {
                        Some(packet) => packet,
                        None => station
                            .passing
                            .iter_mut()
                            .rev()
                            .find(|packet| usize::from(packet.event.from) == from)
                            .expect("its event was taken before its payload"),
                    };
                    packet.beats.push_back((there, body));
                }
            }
        }
        self.cycle += 1;
    }
}

impl EngineUnderTest {
    /// Simulates one cycle. Returns a message that leaves and a beat of its payload.
    fn step(
        &mut self,
        index: usize,
        now: u64,
        value: &[u8],
        failures: &mut u64,
    ) -> (Option<EngineMessage>, Option<BeatWords>) {
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
            self.local.push_front(pending(Event::Timer { tag: 0 }));
        }
        if !value.is_empty() && self.local.is_empty() && self.under_way < UNDER_WAY && self.counts.rounds > 0
        {
            self.under_way += 1;
            self.local.push_back(call(package::ROUNDS_CALL_PROPOSE, value));
        }
        if self.held {
            let peers = (0..self.coming.len()).filter(|&peer| peer != index);
            self.held = peers.into_iter().any(|peer| self.coming[peer].is_empty());
        }

        // An event may be offered while the previous payload is transferred, but not before that transfer has
        // begun.
        let may_offer = self.passing.len() < 2 && !self.held;
        if self.offered.is_none() && self.local.is_empty() {
            let senders = self.coming.len();
            self.offered = (1..=senders)
                .map(|behind| (self.turn + behind) % senders)
                .find(|&sender| self.coming[sender].front().is_some_and(|packet| packet.there <= now));
        }
        let (mut event, mut configuration) = (None, None);
        if may_offer && let Some(sender) = self.offered {
            event = self.coming[sender].front().map(|packet| packet.event);
        } else if may_offer && let Some(pending) = self.local.front() {
            (event, configuration) = (Some(pending.event), pending.configuration);
        }
        let payload = self.passing.front().and_then(|packet| packet.beats.front());
        let payload = payload.filter(|(there, _)| *there <= now).map(|(_, beat)| *beat);
        let offer = Offer { event, configuration, payload, message_ready: true, body_ready: true };
        self.inputs.now_i = now;
        offer_to(&mut self.inputs, &offer);

        self.model.step(&self.inputs, &mut self.outputs, CYCLE.as_ps() * now);

        let shown = shown_by(&self.outputs);
        if offer.payload.is_some() && shown.payload_ready {
            let packet = self.passing.front_mut().expect("a beat of it was offered");
            if u64::from(packet.event.message) == package::ROUNDS_MESSAGE_ROUND
                && !std::mem::replace(&mut packet.begun, true)
            {
                self.heard = now;
            }
            let (_, beat) = packet.beats.pop_front().expect("it was offered");
            if Beat::unpack(&beat).last {
                self.passing.pop_front();
            }
        }
        if offer.event.is_some() && shown.event_ready {
            let packet = match self.offered.take() {
                Some(sender) => {
                    self.turn = sender;
                    self.coming[sender].pop_front().expect("it was offered")
                }
                None => {
                    let Pending { event, payload, .. } = self.local.pop_front().expect("it was offered");
                    if u64::from(event.kind) == package::EVENT_TIMER {
                        self.timer_taken = now;
                    }
                    let beats = (0..payload.len()).step_by(BEAT_BYTES as usize);
                    let beats = beats.map(|at| (now, beat(&payload, at).pack())).collect();
                    // 15 is no peer's number, so beats of peers are not appended to this packet.
                    Packet { event: EngineEvent { from: 15, ..event }, there: now, begun: false, beats }
                }
            };
            if packet.event.bytes > 0 {
                self.passing.push_back(packet);
            }
        }
        if let Some((_, at)) = shown.timer {
            self.timer = Some(at);
        }
        let is_round = |message: &EngineMessage| u64::from(message.message) == package::ROUNDS_MESSAGE_ROUND;
        if shown.message.as_ref().is_some_and(is_round) {
            self.announced = now;
        }
        if let Some(message) = shown.message.filter(|message| message.reply) {
            if u64::from(message.message) == package::ROUNDS_DECIDED {
                self.counts.decided_values += 1;
                self.counts.decided_bytes += u64::from(message.bytes) - package::ROUNDS_HEAD_BYTES;
            } else if message.caller.address == PROPOSALS {
                self.under_way -= 1;
                let answer = Beat::unpack(&self.outputs.body_o);
                *failures += u64::from(answer.data[0] as u8 != 0);
            }
        }
        let events = RoundsEvents::unpack(&std::array::from_fn(|word| self.outputs.events_o.words()[word]));
        self.counts.rounds += u64::from(events.rounds);
        self.counts.messages += u64::from(events.messages);
        *failures += u64::from(events.late) + u64::from(events.unheard) + u64::from(events.fenced);
        (shown.message, shown.body)
    }
}

/// Measures the duration of a round among `nodes`, with values of `value_bytes` bytes. Paths take `latency`
/// cycles in addition to the switch's register.
///
/// # Panics
/// Like [`RoundsSwitch::new`], or if no period up to 512 cycles plus `latency` is stable.
pub fn figures(nodes: usize, value_bytes: usize, latency: u64) -> RoundsFigures {
    // Without values a message has one beat, so only the engine itself takes time.
    let [round_cycles, packet_cycles, _] = RoundsSwitch::new(nodes, 0, 128 + latency, latency).changes();
    let [_, _, instance_cycles] = RoundsSwitch::new(nodes, value_bytes, 256 + latency, latency).changes();
    // Tests periods from the longest down, since every period above a stable one is stable as well.
    let rounds = 2_000;
    let stable = |period: u64| {
        let run = RoundsSwitch::new(nodes, value_bytes, period, latency).run(rounds * period);
        let expected = nodes as u64 * run.rounds;
        let decides = value_bytes == 0 || run.decided_values + 2 * nodes as u64 >= expected;
        (run.failures == 0 && run.rounds + 1 >= rounds && decides).then_some(run)
    };
    let mut best = None;
    for period in (8..=512 + latency).rev() {
        // Far above the minimum a coarse step suffices.
        if period > 64 + latency && period % 16 != 0 {
            continue;
        }
        match stable(period) {
            Some(run) => best = Some((period, run)),
            None => break,
        }
    }
    let (min_round_period_cycles, at_min_period) = best.expect("some period is stable");
    RoundsFigures { round_cycles, instance_cycles, packet_cycles, min_round_period_cycles, at_min_period }
}
