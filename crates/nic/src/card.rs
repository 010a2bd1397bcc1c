//! The card without its frame port: engines and transport between datagrams and the host.
//!
//! A world that owns an IP stack (the UDP sockets of an operating system) drives a [`Card`] directly; where frames
//! matter, [`crate::SoftNic`] wraps it.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use weft_rdma::{
    ApiError, Completion, CompletionOpcode, CompletionStatus, FlatMemory, LocalBuffer, Operation,
    QueuePairNumber, RegionMemory, RpcWrite, Target, Transmit, Transport, WorkRequest,
};
use weft_time::Instant;
use weft_waist::{Caller, Effect, Effects, Engine, Event, Memory, Message, NODES_MAX, NodeId};
use weft_wire::datagram::Datagram;
use weft_wire::roce::Packet;

use crate::counters::CardCounters;
use crate::egress::Egress;
use crate::replies::{REPLY_BYTES, Replies};
use crate::slot::Slot;
use crate::{HostCommand, HostEvent, Work};

/// How a card is built.
#[derive(Clone, Debug)]
pub struct CardConfig {
    /// Where each node of the cluster takes Weft datagrams. Only these addresses may speak as peers.
    pub peers: [Option<SocketAddrV4>; NODES_MAX],
    /// The longest datagram, in bytes: the network's MTU less 28.
    pub datagram_bytes: usize,
    /// The transport's limits.
    pub transport: weft_rdma::Config,
    /// Bytes of memory behind each region target. High-bandwidth memory has some more, for the card's own answers.
    pub region_bytes: usize,
}

/// Bytes of the word that names an operation in a call or answer over a queue pair.
const RPC_WORD_BYTES: usize = 8;

/// Set in the tags of the card's own SENDs, and therefore in nobody else's.
const REPLY_TAG: u64 = 1 << 63;

/// Engines, queue pairs and memory: all of a NIC that does not know frames.
///
/// Inputs may be batched before draining with [`Card::poll_datagram`], [`Card::poll_roce`] and [`Card::poll_host`].
#[derive(Debug)]
pub struct Card<E> {
    peers: [Option<SocketAddrV4>; NODES_MAX],
    slots: Vec<Slot<E>>,
    effects: Effects,
    egress: Egress,
    transport: Transport,
    region_memory: FlatMemory,
    /// Which engine owns a queue pair: its completions are that engine's. The host owns the others.
    owners: Vec<(QueuePairNumber, u8)>,
    host_events: VecDeque<HostEvent>,
    replies: Replies,
    rpc_bytes: Vec<u8>,
    counters: CardCounters,
    work: Work,
    /// When the transport was served last.
    served: Instant,
}

impl<E: Engine> Card<E> {
    /// A card with its engines, each with its memory, in slot order.
    pub fn new(config: CardConfig, engines: Vec<(E, Memory)>) -> Self {
        assert!(engines.len() <= usize::from(u8::MAX), "a slot's number has one byte");
        let mut transport = Transport::new(config.transport);
        let replies = Replies::new(config.region_bytes, &mut transport);
        let bytes_behind = |target| match target {
            Target::Hbm => config.region_bytes + REPLY_BYTES,
            Target::Register | Target::OnChip | Target::Host => config.region_bytes,
        };
        Self {
            peers: config.peers,
            slots: engines.into_iter().map(|(engine, memory)| Slot::new(engine, memory)).collect(),
            effects: Effects::default(),
            egress: Egress::new(config.datagram_bytes),
            transport,
            region_memory: FlatMemory::with_sizes(bytes_behind),
            replies,
            rpc_bytes: Vec::new(),
            owners: Vec::new(),
            host_events: VecDeque::new(),
            counters: CardCounters::default(),
            work: Work::default(),
            served: Instant::ZERO,
        }
    }

    /// The engine in a slot and its memory.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn engine(&self, slot: u8) -> (&E, &Memory) {
        let slot = &self.slots[usize::from(slot)];
        (&slot.engine, &slot.memory)
    }

    /// The transport, to create queue pairs and register regions.
    pub fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// The memory behind the regions.
    pub fn region_memory(&mut self) -> &mut FlatMemory {
        &mut self.region_memory
    }

    /// Takes what a call of the driver has brought about, which takes no time.
    pub(crate) fn serve_driver(&mut self) {
        self.serve_transport(self.served);
    }

    /// Gives a queue pair to an engine: it may post on it, and its completions come back to it.
    pub fn assign(&mut self, queue_pair: QueuePairNumber, slot: u8) {
        assert!(usize::from(slot) < self.slots.len(), "slot {slot} has no engine");
        self.owners.push((queue_pair, slot));
    }

    /// A Weft datagram has arrived: hands each message to the engine in its slot.
    pub fn receive_datagram(&mut self, now: Instant, from: SocketAddrV4, bytes: &[u8]) {
        let Ok(datagram) = Datagram::parse(bytes) else {
            self.counters.datagrams_malformed += 1;
            return;
        };
        self.counters.datagrams_received += 1;
        let peer = self.peers.iter().position(|peer| *peer == Some(from)).and_then(NodeId::new);
        let mut messages = datagram.messages().peekable();
        while let Some(message) = messages.next() {
            let last = messages.peek().is_none_or(|next| next.engine != message.engine);
            let content = Message { kind: message.kind, payload: message.payload };
            let event = match peer {
                Some(from) => Event::Deliver { from, message: content, last },
                None => Event::Call { caller: from.into(), message: content, last },
            };
            self.dispatch(now, message.engine, event);
        }
    }

    /// A RoCE v2 packet, from its BTH to its last pad byte, has arrived and its ICRC was right.
    pub fn receive_roce(&mut self, now: Instant, from: Ipv4Addr, packet: &[u8]) {
        let Ok(packet) = Packet::parse(packet) else {
            self.counters.roce_malformed += 1;
            return;
        };
        self.counters.roce_received += 1;
        self.transport.receive(now, from, &packet, &mut self.region_memory);
        self.serve_transport(now);
    }

    /// Counts a RoCE packet that was dropped for its ICRC.
    pub fn count_icrc_error(&mut self) {
        self.counters.icrc_errors += 1;
    }

    /// Does what the host asks. Frames are the frame port's.
    ///
    /// # Panics
    /// If asked to transmit a frame.
    pub fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        match command {
            HostCommand::Reset => {
                for slot in 0..self.slots.len() {
                    self.slots[slot].clear();
                    self.dispatch(now, slot as u8, Event::Reset);
                }
            }
            HostCommand::Configure(configuration) => {
                for slot in 0..self.slots.len() {
                    self.dispatch(now, slot as u8, Event::Configure(configuration));
                }
            }
            HostCommand::Call { engine, token, kind, payload } => {
                let message = Message { kind, payload };
                self.dispatch(now, engine, Event::Call { caller: Caller::Host(token), message, last: true });
            }
            HostCommand::PostSend(queue_pair, request) => {
                if let Err(refusal) = self.post_for_owner(now, queue_pair, request) {
                    self.host_events.push_back(HostEvent::Completion(refusal));
                }
            }
            HostCommand::PostReceive(queue_pair, request) => {
                if let Err(error) = self.transport.post_receive(queue_pair, request) {
                    let refusal =
                        refusal(queue_pair, request.id, CompletionOpcode::Receive, status_of(&error));
                    self.host_events.push_back(HostEvent::Completion(refusal));
                }
            }
            HostCommand::Transmit(_) => panic!("a card without a frame port cannot transmit frames"),
        }
        // What is posted in ERROR completes at once.
        self.serve_transport(now);
    }

    /// When [`Card::handle_deadline`] wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        let timers = self.slots.iter().filter_map(Slot::next_timer);
        timers.chain(self.transport.next_deadline()).min()
    }

    /// Fires every timer that is due.
    pub fn handle_deadline(&mut self, now: Instant) {
        for slot in 0..self.slots.len() {
            while let Some(tag) = self.slots[slot].take_due_timer(now) {
                self.dispatch(now, slot as u8, Event::Timer { tag });
            }
        }
        if self.transport.next_deadline().is_some_and(|at| at <= now) {
            self.transport.handle_deadline(now);
            self.serve_transport(now);
        }
    }

    /// Appends the next Weft datagram to `out` and says where it goes.
    pub fn poll_datagram(&mut self, out: &mut Vec<u8>) -> Option<SocketAddrV4> {
        let to = self.egress.poll(out)?;
        self.counters.datagrams_sent += 1;
        self.work.frames_sent += 1;
        Some(to)
    }

    /// Appends the next RoCE v2 packet, without its ICRC, to `out` and says where it goes.
    pub fn poll_roce(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.transport.poll_transmit(now, &mut self.region_memory, out)?;
        self.counters.roce_sent += 1;
        self.work.frames_sent += 1;
        Some(transmit)
    }

    /// The next thing for the host.
    pub fn poll_host(&mut self) -> Option<HostEvent> {
        self.host_events.pop_front()
    }

    /// What was done since the last call. Frames received are the frame port's to count.
    pub fn take_work(&mut self) -> Work {
        for slot in &mut self.slots {
            let accesses = slot.memory.take_accesses();
            self.work.memory.reads += accesses.reads;
            self.work.memory.writes += accesses.writes;
            self.work.memory.bytes += accesses.bytes;
        }
        std::mem::take(&mut self.work)
    }

    /// Counters of the card, its transport and its engines, in this order.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.counters.list();
        all.extend(self.transport.counters().iter());
        all.extend(self.slots.iter().flat_map(|slot| slot.engine.counters()));
        all
    }

    /// Hands one event to an engine and carries out its effects.
    fn dispatch(&mut self, now: Instant, slot: u8, event: Event<'_>) {
        let Some(place) = self.slots.get_mut(usize::from(slot)) else {
            self.counters.messages_without_engine += 1;
            return;
        };
        self.work.messages += 1;
        self.counters.messages_delivered += 1;
        place.handle(now, event, &mut self.effects);
        if let Some(status) = place.take_status() {
            self.host_events.push_back(HostEvent::Status { engine: slot, status });
        }
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.iter() {
            self.carry_out(now, slot, effect, &effects);
        }
        effects.clear();
        self.effects = effects;
    }

    fn carry_out(&mut self, now: Instant, slot: u8, effect: &Effect, effects: &Effects) {
        match effect {
            Effect::Send { to, kind, payload } => {
                let message = effects.message(*kind, payload);
                for node in to.iter() {
                    match self.peers[node.index()] {
                        Some(peer) => self.send(peer, slot, message),
                        None => self.counters.messages_without_peer += 1,
                    }
                }
            }
            Effect::Reply { to, kind, payload } => {
                let message = effects.message(*kind, payload);
                match *to {
                    Caller::Endpoint { address, port } => {
                        self.send(SocketAddrV4::new(address, port), slot, message)
                    }
                    Caller::Host(token) => self.host_events.push_back(HostEvent::Reply {
                        token,
                        kind: message.kind,
                        payload: message.payload.to_vec(),
                    }),
                    Caller::QueuePair(queue_pair) => self.reply_on(now, queue_pair, message),
                }
            }
            Effect::SetTimer { tag, at } => self.slots[usize::from(slot)].set_timer(*tag, *at),
            Effect::Post { queue_pair, request } => {
                if let Err(refusal) = self.post_for_owner(now, *queue_pair, *request) {
                    // The refusal is the completion; it comes back as an event of its own, whoever owns the queue pair.
                    self.dispatch(now, slot, Event::Done { tag: refusal.id, status: refusal.status });
                }
            }
        }
    }

    fn send(&mut self, to: SocketAddrV4, slot: u8, message: Message<'_>) {
        if !self.egress.push(to, slot, message.kind, message.payload) {
            self.counters.messages_too_large += 1;
        }
    }

    /// Posts for the host or an engine, whose tags leave the card's own bit alone: its completion would be taken for that of
    /// an answer.
    fn post_for_owner(
        &mut self,
        now: Instant,
        queue_pair: QueuePairNumber,
        request: WorkRequest,
    ) -> Result<(), Completion> {
        if request.id & REPLY_TAG != 0 {
            let (id, opcode) = (request.id, request.operation.completion_opcode());
            return Err(refusal(queue_pair, id, opcode, CompletionStatus::LocalQueuePairOperationError));
        }
        self.post(now, queue_pair, request)
    }

    /// Posts a request; a refusal is turned into the completion that says so.
    fn post(
        &mut self,
        now: Instant,
        queue_pair: QueuePairNumber,
        request: WorkRequest,
    ) -> Result<(), Completion> {
        let (id, opcode) = (request.id, request.operation.completion_opcode());
        self.transport
            .post_send(now, queue_pair, request)
            .map_err(|error| refusal(queue_pair, id, opcode, status_of(&error)))
    }

    /// Answers an RPC: a SEND of kind and content from the reply buffers.
    fn reply_on(&mut self, now: Instant, queue_pair: QueuePairNumber, message: Message<'_>) {
        let length = RPC_WORD_BYTES + message.payload.len();
        let Some(buffer) = self.replies.take(length) else {
            self.counters.replies_without_buffer += 1;
            return;
        };
        let address = self.replies.address(buffer);
        let word = u64::from(message.kind).to_be_bytes();
        let stored = self.region_memory.write(Target::Hbm, address, &word).and_then(|()| {
            self.region_memory.write(Target::Hbm, address + RPC_WORD_BYTES as u64, message.payload)
        });
        assert_eq!(stored, Ok(()), "the reply buffers lie in installed memory");
        let local = LocalBuffer { address, length: length as u32, lkey: self.replies.lkey() };
        let request =
            WorkRequest::new(REPLY_TAG | u64::from(buffer), Operation::Send { immediate: None }, local);
        if self.post(now, queue_pair, request).is_err() {
            self.replies.give_back(buffer);
            self.counters.replies_refused += 1;
        }
    }

    /// Takes what the transport has for engines and the host.
    fn serve_transport(&mut self, now: Instant) {
        self.served = now;
        loop {
            if let Some(write) = self.transport.poll_rpc() {
                self.call(now, write);
            } else if let Some(completion) = self.transport.poll_completion() {
                self.complete(now, completion);
            } else {
                return;
            }
        }
    }

    /// A completed write into an RPC region: the immediate value, or else the first word, names the operation.
    fn call(&mut self, now: Instant, write: RpcWrite) {
        let mut bytes = std::mem::take(&mut self.rpc_bytes);
        let stored = self.region_memory.read(write.target, write.address, write.length as usize);
        bytes.clear();
        bytes.extend_from_slice(stored.expect("the transport has just stored it there"));
        let operation = match write.immediate {
            Some(kind) => Some((kind.into(), &bytes[..])),
            None => bytes.split_first_chunk().map(|(word, rest)| (u64::from_be_bytes(*word), rest)),
        };
        match operation.and_then(|(kind, payload)| Some((u8::try_from(kind).ok()?, payload))) {
            Some((kind, payload)) => {
                let caller = Caller::QueuePair(write.queue_pair);
                let event = Event::Call { caller, message: Message { kind, payload }, last: true };
                self.dispatch(now, write.engine, event);
            }
            None => self.counters.rpc_malformed += 1,
        }
        self.rpc_bytes = bytes;
    }

    /// Gives a completion to whoever owns the queue pair: the card's own replies, an engine, or the host.
    fn complete(&mut self, now: Instant, completion: Completion) {
        if completion.id & REPLY_TAG != 0 && completion.opcode == CompletionOpcode::Send {
            self.replies.give_back((completion.id & !REPLY_TAG) as u16);
            return;
        }
        match self.owners.iter().find(|(queue_pair, _)| *queue_pair == completion.queue_pair) {
            Some(&(_, slot)) => {
                self.dispatch(now, slot, Event::Done { tag: completion.id, status: completion.status });
            }
            None => self.host_events.push_back(HostEvent::Completion(completion)),
        }
    }
}

/// The completion of a request that could not even be posted.
fn refusal(
    queue_pair: QueuePairNumber,
    id: u64,
    opcode: CompletionOpcode,
    status: CompletionStatus,
) -> Completion {
    Completion { id, status, opcode, bytes: 0, immediate: None, queue_pair, vendor_error: 0 }
}

fn status_of(error: &ApiError) -> CompletionStatus {
    match error {
        ApiError::MessageTooLong(_) | ApiError::AtomicLength(_) => CompletionStatus::LocalLengthError,
        _ => CompletionStatus::LocalQueuePairOperationError,
    }
}
