//! The interpreter of effects: it holds the engines in their slots, delivers events to them and executes
//! their effects.

use std::net::SocketAddrV4;

use weft_time::Instant;
use weft_verbs::{AccessFlags, CompletionStatus, QueuePairNumber, WorkRequest};
use weft_waist::{
    Caller, Capabilities, Effect, Effects, Engine, Event, Io, Memory, Message, NODES_MAX, NodeId, Unmet,
};
use weft_wire::datagram::Datagram;

use crate::HostEvent;
use crate::counters::EngineCounters;
use crate::dma::{DmaDirection, DmaRequest};
use crate::ownership::{Ownership, Peering};
use crate::slot::EngineSlot;

/// A bit that is set in the tags of the card's own requests, and in no tag of an engine or the host.
pub(crate) const CARD_TAG: u64 = 1 << 63;

/// The environment of the engines of an [`EngineHost`]. It executes effects, and reports the completion of
/// those that take time.
pub trait Ports {
    /// Capabilities offered to engines.
    const OFFERS: Capabilities;

    /// Name of this environment in error messages.
    const NAME: &'static str;

    /// The memory of the engine in `slot`.
    fn memory(&mut self, slot: u8) -> &mut Memory;

    /// Called when the engine in `slot` is about to be reset. Its memory must be set to zero, and its
    /// outstanding copies must not complete any more.
    fn reset(&mut self, slot: u8);

    /// Called when an engine has handled `event`. The calls that follow, until [`Ports::end`], execute
    /// `effects`.
    fn begin(&mut self, event: &Event<'_>, effects: &Effects);

    /// Called when the effects of the event were executed.
    fn end(&mut self);

    /// Sends an event to the host.
    fn tell(&mut self, event: HostEvent);

    /// Sends a message of the engine in `slot`. Returns `false` if it is too long for a datagram.
    fn send(&mut self, slot: u8, to: SocketAddrV4, message: Message<'_>) -> bool;

    /// Replies to a call that came over a queue pair.
    fn reply_on(&mut self, now: Instant, caller: QueuePairNumber, message: Message<'_>);

    /// Posts a request on a queue pair of the engine.
    ///
    /// # Errors
    /// The status of the completion, if the request is refused.
    fn post(
        &mut self,
        now: Instant,
        queue_pair: QueuePairNumber,
        request: WorkRequest,
    ) -> Result<(), CompletionStatus>;

    /// Called when a post of the engine in `slot` was refused. The engine must be notified by a separate
    /// event.
    fn refuse(&mut self, slot: u8, tag: u64, status: CompletionStatus);

    /// Changes the peer's permissions on a queue pair of the engine. Returns `false` if its state does not
    /// allow that.
    fn access(&mut self, queue_pair: QueuePairNumber, access: AccessFlags) -> bool;

    /// Takes a queue pair of the engine, in whatever state it is, through RESET to RTS. Returns `false` if
    /// that fails.
    fn connect(
        &mut self,
        queue_pair: QueuePairNumber,
        peering: &Peering,
        send_psn: u32,
        receive_psn: u32,
    ) -> bool;

    /// Starts a copy between the host's memory and the engine's.
    fn copy(&mut self, request: DmaRequest);
}

/// The sender of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A node of the cluster.
    Peer(NodeId),
    /// Any other sender.
    Client(SocketAddrV4),
}

impl Sender {
    /// The event that delivers a message of this sender to an engine.
    pub fn event(self, message: Message<'_>, last: bool) -> Event<'_> {
        match self {
            Self::Peer(from) => Event::Deliver { from, message, last },
            Self::Client(from) => Event::Call { caller: from.into(), message, last },
        }
    }
}

/// The messages of a datagram, each with its slot, and whether it is the last of a batch: the next message,
/// if any, is for another slot.
pub fn messages<'a>(datagram: &Datagram<'a>) -> impl Iterator<Item = (u8, Message<'a>, bool)> {
    let mut messages = datagram.messages().peekable();
    std::iter::from_fn(move || {
        let message = messages.next()?;
        let last = messages.peek().is_none_or(|next| next.engine != message.engine);
        Some((message.engine, Message { kind: message.kind, payload: message.payload }, last))
    })
}

/// Engines in their slots, with their timers, peers and queue pairs. It is part of a card, or of a process on
/// a host.
///
/// It delivers events to engines, one at a time, and decodes their effects. [`Ports`] executes these.
#[derive(Debug)]
pub struct EngineHost<E> {
    slots: Vec<EngineSlot<E>>,
    /// The addresses at which the nodes of the cluster receive Weft datagrams. Only datagrams from these
    /// addresses count as messages of peers.
    peers: [Option<SocketAddrV4>; NODES_MAX],
    ownership: Ownership,
    /// Effects of the present event. Empty between events.
    effects: Effects,
    counters: EngineCounters,
}

impl<E: Engine> EngineHost<E> {
    /// Takes new engines, in slot order, for the environment `P`, and the addresses of the cluster's nodes.
    ///
    /// # Errors
    /// If an engine needs a capability that the environment does not offer.
    pub fn new<P: Ports>(engines: Vec<E>, peers: [Option<SocketAddrV4>; NODES_MAX]) -> Result<Self, Unmet> {
        assert!(engines.len() <= usize::from(u8::MAX), "a slot's number has one byte");
        for engine in &engines {
            engine.needs().check(P::OFFERS, P::NAME)?;
        }
        Ok(Self {
            slots: engines.into_iter().map(EngineSlot::new).collect(),
            peers,
            ownership: Ownership::default(),
            effects: Effects::default(),
            counters: EngineCounters::default(),
        })
    }

    /// Number of engines.
    pub const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no engines.
    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The engine in a slot.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn engine(&self, slot: u8) -> &E {
        &self.slots[usize::from(slot)].engine
    }

    /// The engine in a slot, mutable, so that an observer can take out what it has recorded.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn engine_mut(&mut self, slot: u8) -> &mut E {
        &mut self.slots[usize::from(slot)].engine
    }

    /// Assigns a queue pair to an engine. The engine may post on it, gets its completions, and connects it to
    /// `peering`.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn assign(&mut self, queue_pair: QueuePairNumber, slot: u8, peering: Peering) {
        assert!(usize::from(slot) < self.slots.len(), "slot {slot} has no engine");
        self.ownership.assign(queue_pair, slot, peering);
    }

    /// The slot of the engine that owns a queue pair; `None` if no engine does.
    pub fn owner(&self, queue_pair: QueuePairNumber) -> Option<u8> {
        self.ownership.owner(queue_pair)
    }

    /// Decodes a datagram. `None` if it is malformed, which is counted.
    pub fn open<'a>(&mut self, bytes: &'a [u8]) -> Option<Datagram<'a>> {
        let datagram = Datagram::parse(bytes).ok();
        self.counters.datagrams_malformed += u64::from(datagram.is_none());
        self.counters.datagrams_received += u64::from(datagram.is_some());
        datagram
    }

    /// The sender with this address.
    pub fn sender(&self, from: SocketAddrV4) -> Sender {
        let peer = self.peers.iter().position(|peer| *peer == Some(from)).and_then(NodeId::new);
        peer.map_or(Sender::Client(from), Sender::Peer)
    }

    /// When the next timer of any engine expires.
    pub fn next_timer(&self) -> Option<Instant> {
        self.slots.iter().filter_map(EngineSlot::next_timer).min()
    }

    /// Removes a timer that has expired at `now`, and returns its slot and tag.
    pub fn take_due_timer(&mut self, now: Instant) -> Option<(u8, u32)> {
        (0..).zip(&mut self.slots).find_map(|(number, slot)| Some((number, slot.take_due_timer(now)?)))
    }

    /// Delivers an event to the engine in `slot`, and executes its effects. A message for an empty slot is
    /// counted.
    pub fn handle(&mut self, now: Instant, slot: u8, event: Event<'_>, ports: &mut impl Ports) {
        let Some(place) = self.slots.get_mut(usize::from(slot)) else {
            self.counters.messages_without_engine += 1;
            return;
        };
        self.counters.messages_delivered += 1;
        if matches!(event, Event::Reset) {
            place.clear();
            ports.reset(slot);
        }
        let mut io = Io { effects: &mut self.effects, memory: ports.memory(slot) };
        place.engine.handle(now, event, &mut io);
        let status = place.take_status();
        let mut effects = std::mem::take(&mut self.effects);
        ports.begin(&event, &effects);
        if let Some(status) = status {
            ports.tell(HostEvent::Status { engine: slot, status });
        }
        for effect in effects.iter() {
            self.carry_out(now, slot, effect, &effects, ports);
        }
        ports.end();
        effects.clear();
        self.effects = effects;
    }

    fn carry_out(
        &mut self,
        now: Instant,
        slot: u8,
        effect: &Effect,
        effects: &Effects,
        ports: &mut impl Ports,
    ) {
        let needs = self.slots[usize::from(slot)].needs;
        let declared = match effect {
            Effect::Post { .. } | Effect::Access { .. } | Effect::Connect { .. } => needs.verbs,
            Effect::HostRead { .. } | Effect::HostWrite { .. } => needs.host_memory,
            Effect::Send { .. } | Effect::Reply { .. } | Effect::SetTimer { .. } => true,
        };
        assert!(declared, "{effect:?} is not among what the engine has said that it needs");
        match effect {
            Effect::Send { to, kind, payload } => {
                let message = effects.message(*kind, payload);
                for node in to.iter() {
                    match self.peers[node.index()] {
                        Some(peer) => self.send(slot, peer, message, ports),
                        None => self.counters.messages_without_peer += 1,
                    }
                }
            }
            Effect::Reply { to, kind, payload } => {
                let message = effects.message(*kind, payload);
                match *to {
                    Caller::Endpoint { address, port } => {
                        self.send(slot, SocketAddrV4::new(address, port), message, ports);
                    }
                    Caller::Host(token) => {
                        let (kind, payload) = (message.kind, message.payload.to_vec());
                        ports.tell(HostEvent::Reply { engine: slot, token, kind, payload });
                    }
                    Caller::QueuePair(queue_pair) => ports.reply_on(now, queue_pair, message),
                }
            }
            Effect::SetTimer { tag, at } => self.slots[usize::from(slot)].set_timer(*tag, *at),
            Effect::Post { queue_pair, request } => {
                let allowed =
                    self.ownership.peering(*queue_pair, slot).is_some() && request.id & CARD_TAG == 0;
                let posted = if allowed {
                    ports.post(now, *queue_pair, *request)
                } else {
                    Err(CompletionStatus::LocalQueuePairOperationError)
                };
                if let Err(status) = posted {
                    self.counters.queue_pair_effects_refused += 1;
                    ports.refuse(slot, request.id, status);
                }
            }
            Effect::Access { queue_pair, access } => {
                let peering = self.ownership.peering(*queue_pair, slot);
                let changed = peering.is_some_and(|_| ports.access(*queue_pair, *access));
                self.counters.queue_pair_effects_refused += u64::from(!changed);
            }
            Effect::Connect { queue_pair, send_psn, receive_psn } => {
                let peering = self.ownership.peering(*queue_pair, slot);
                let connected = peering
                    .is_some_and(|peering| ports.connect(*queue_pair, &peering, *send_psn, *receive_psn));
                self.counters.queue_pair_effects_refused += u64::from(!connected);
            }
            Effect::HostRead { tag, host, memory, length } => {
                let request = DmaRequest::new(DmaDirection::Read, *host, *memory, *length);
                ports.copy(DmaRequest { slot, tag: *tag, ..request });
            }
            Effect::HostWrite { tag, memory, host, length } => {
                let request = DmaRequest::new(DmaDirection::Write, *host, *memory, *length);
                ports.copy(DmaRequest { slot, tag: *tag, ..request });
            }
        }
    }

    fn send(&mut self, slot: u8, to: SocketAddrV4, message: Message<'_>, ports: &mut impl Ports) {
        self.counters.messages_too_large += u64::from(!ports.send(slot, to, message));
    }

    /// Counters of received and refused messages, by name, in a fixed order.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.list()
    }

    /// The engines' own counters, in slot order.
    pub fn engine_counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.slots.iter().flat_map(|slot| slot.engine.counters())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_verbs::{LocalBuffer, Operation, PathMtu};
    use weft_waist::EngineStatus;
    use weft_wire::datagram::Builder;

    use super::*;

    /// Posts on the queue pair whose number is the call's kind, with one tag for each payload byte (the
    /// card's tag for `0xff`), and sets a timer.
    #[derive(Debug, Default)]
    struct Puppet {
        memory_at_reset: Option<u8>,
    }

    const QUEUE_PAIR: QueuePairNumber = QueuePairNumber(3);

    impl Engine for Puppet {
        const NEEDS: Capabilities = Capabilities::VERBS;

        fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
            match event {
                Event::Reset => self.memory_at_reset = Some(io.memory.image()[0]),
                Event::Call { message, .. } => {
                    for tag in message.payload {
                        let tag = if *tag == 0xff { CARD_TAG } else { (*tag).into() };
                        let local = LocalBuffer { address: 0, length: 0, lkey: 0 };
                        let request = WorkRequest::new(tag, Operation::Send { immediate: None }, local);
                        io.effects.post(QueuePairNumber(message.kind.into()), request);
                    }
                    io.effects.set_timer(1, now);
                }
                _ => {}
            }
        }

        fn status(&self) -> EngineStatus {
            EngineStatus::STARTING
        }

        fn counters(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    /// An environment that accepts posts, and records completions.
    #[derive(Debug)]
    struct Recorder {
        memory: Memory,
        posted: Vec<u64>,
        refused: Vec<(u8, u64, CompletionStatus)>,
    }

    impl Ports for Recorder {
        const OFFERS: Capabilities = Capabilities::VERBS;
        const NAME: &'static str = "a recorder";

        fn memory(&mut self, _: u8) -> &mut Memory {
            &mut self.memory
        }

        fn reset(&mut self, _: u8) {
            self.memory.clear();
        }

        fn begin(&mut self, _: &Event<'_>, _: &Effects) {}

        fn end(&mut self) {}

        fn tell(&mut self, event: HostEvent) {
            panic!("{event:?} is no effect of this engine")
        }

        fn send(&mut self, _: u8, to: SocketAddrV4, _: Message<'_>) -> bool {
            panic!("this engine sends nothing to {to}")
        }

        fn reply_on(&mut self, _: Instant, caller: QueuePairNumber, _: Message<'_>) {
            panic!("this engine answers nothing on {caller}")
        }

        fn post(
            &mut self,
            _: Instant,
            queue_pair: QueuePairNumber,
            request: WorkRequest,
        ) -> Result<(), CompletionStatus> {
            assert_eq!(queue_pair, QUEUE_PAIR);
            self.posted.push(request.id);
            Ok(())
        }

        fn refuse(&mut self, slot: u8, tag: u64, status: CompletionStatus) {
            self.refused.push((slot, tag, status));
        }

        fn access(&mut self, queue_pair: QueuePairNumber, _: AccessFlags) -> bool {
            panic!("this engine leaves {queue_pair} as it is")
        }

        fn connect(&mut self, queue_pair: QueuePairNumber, _: &Peering, _: u32, _: u32) -> bool {
            panic!("this engine leaves {queue_pair} as it is")
        }

        fn copy(&mut self, request: DmaRequest) {
            panic!("this engine copies nothing: {request:?}")
        }
    }

    fn host() -> (EngineHost<Puppet>, Recorder) {
        let mut host = EngineHost::new::<Recorder>(vec![Puppet::default()], [None; NODES_MAX]).unwrap();
        let peering = Peering {
            destination: Ipv4Addr::LOCALHOST,
            destination_qp_num: QUEUE_PAIR,
            path_mtu: PathMtu::Bytes1024,
            timeout: 3,
            retry_cnt: 7,
            max_rd_atomic: 4,
        };
        host.assign(QUEUE_PAIR, 0, peering);
        (host, Recorder { memory: Memory::new(1), posted: Vec::new(), refused: Vec::new() })
    }

    fn call(kind: u8, payload: &[u8]) -> Event<'_> {
        Event::Call { caller: Caller::Host(1), message: Message { kind, payload }, last: true }
    }

    #[test]
    fn a_message_is_the_last_if_none_for_its_engine_follows_at_once() {
        let mut builder = Builder::new(1472);
        for (engine, kind) in [(0, 1), (0, 2), (1, 3), (0, 4)] {
            assert!(builder.try_push(engine, kind, b""));
        }
        let datagram = Datagram::parse(builder.finish()).unwrap();
        let found: Vec<_> =
            messages(&datagram).map(|(slot, message, last)| (slot, message.kind, last)).collect();
        // As in gateware, which examines only the next message.
        assert_eq!(found, [(0, 1, false), (0, 2, true), (1, 3, true), (0, 4, true)]);
    }

    #[test]
    fn an_engine_posts_on_its_own_queue_pairs_with_its_own_tags() {
        let (mut host, mut ports) = host();
        host.handle(Instant::ZERO, 0, call(3, &[7, 0xff, 8]), &mut ports);
        host.handle(Instant::ZERO, 0, call(4, &[9]), &mut ports);
        assert_eq!(ports.posted, [7, 8]);
        let status = CompletionStatus::LocalQueuePairOperationError;
        assert_eq!(ports.refused, [(0, CARD_TAG, status), (0, 9, status)]);
        assert!(host.counters().contains(&("queue_pair_effects_refused", 2)));
    }

    #[test]
    fn a_reset_engine_has_no_timers_and_finds_its_memory_empty() {
        let (mut host, mut ports) = host();
        ports.memory.image_mut()[0] = 5;
        host.handle(Instant::ZERO, 0, call(3, &[]), &mut ports);
        assert_eq!(host.next_timer(), Some(Instant::ZERO));
        host.handle(Instant::ZERO, 0, Event::Reset, &mut ports);
        assert_eq!(host.engine(0).memory_at_reset, Some(0));
        assert_eq!(host.take_due_timer(Instant::ZERO), None);
    }

    /// An engine that copies from the host's memory, and may fail to declare that capability.
    #[derive(Debug)]
    struct Copier {
        needs: Capabilities,
    }

    impl Engine for Copier {
        fn needs(&self) -> Capabilities {
            self.needs
        }

        fn handle(&mut self, _: Instant, _: Event<'_>, io: &mut Io<'_>) {
            io.effects.host_read(1, 0, 0, 1);
        }

        fn status(&self) -> EngineStatus {
            EngineStatus::STARTING
        }

        fn counters(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    #[test]
    fn an_engine_is_not_put_where_it_cannot_run() {
        let copier = Copier { needs: Capabilities::HOST_MEMORY };
        let unmet = EngineHost::new::<Recorder>(vec![copier], [None; NODES_MAX]).unwrap_err();
        assert_eq!(unmet.missing, Capabilities::HOST_MEMORY);
        assert!(unmet.to_string().ends_with("which a recorder does not offer"), "{unmet}");
    }

    #[test]
    #[should_panic(expected = "not among what the engine has said that it needs")]
    fn an_engine_does_nothing_that_it_has_not_declared() {
        let copier = Copier { needs: Capabilities::CORE };
        let mut engines = EngineHost::new::<Recorder>(vec![copier], [None; NODES_MAX]).unwrap();
        let (_, mut ports) = host();
        engines.handle(Instant::ZERO, 0, Event::Reset, &mut ports);
    }
}
