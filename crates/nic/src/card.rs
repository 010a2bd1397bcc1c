//! The card without its frame port: the engines and the transport, between datagrams and the host.
//!
//! A world with its own IP stack (the UDP sockets of an operating system) drives a [`Card`] directly.
//! [`crate::SoftNic`] wraps it for worlds that exchange frames.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddrV4};

use weft_rdma::{FlatMemory, PacketSink, RegionMemory, RpcWrite, Transmit, Transport};
use weft_service::preprocess::Pipeline;
use weft_service::{Services, Setting};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, ApiError, Completion, CompletionOpcode, CompletionStatus, LocalBuffer, Modify, Operation,
    QueuePairNumber, Target, WorkRequest,
};
use weft_waist::{Caller, Capabilities, Effects, Engine, Event, Memory, Message, NODES_MAX};
use weft_wire::roce::{Opcode, Packet};

use crate::attached::AttachedMemory;
use crate::counters::{CardCounters, EngineCounters};
use crate::dma::{self, DmaQueue, DmaRequest};
use crate::egress::Egress;
use crate::engine_host::{self, CARD_TAG, EngineHost, Ports, Sender};
use crate::memory::{CardMemory, PayloadPlace, requests_of};
use crate::replies::{Incarnation, REPLY_BYTES, Replies};
use crate::{HostCommand, HostEvent, Meter, Peering, Work};

/// The most timers of all engines that expire at one time. An engine that sets a timer to the time at which it expires
/// would otherwise keep the card busy forever.
const TIMERS_AT_ONCE_MAX: u32 = 10_000;

/// Configuration of a card.
#[derive(Clone, Debug)]
pub struct CardConfig {
    /// The addresses at which the nodes of the cluster receive Weft datagrams. Only datagrams from these
    /// addresses count as messages of peers.
    pub peers: [Option<SocketAddrV4>; NODES_MAX],
    /// The longest datagram in bytes: the network's MTU less 28.
    pub datagram_bytes: usize,
    /// Configuration of the transport.
    pub transport: weft_rdma::Config,
    /// Bytes of memory for each region target. HBM has some more, for the card's own replies.
    pub region_bytes: usize,
}

impl CardConfig {
    /// A card without engines, for verbs only, with `region_bytes` bytes of memory for each target.
    pub const fn without_engines(region_bytes: usize, transport: weft_rdma::Config) -> Self {
        // No Weft datagrams are sent. The length is that of Ethernet without jumbo frames.
        Self { peers: [None; NODES_MAX], datagram_bytes: 1_472, transport, region_bytes }
    }
}

/// Bytes of the word in a call or reply over a queue pair that names the operation.
const RPC_WORD_BYTES: usize = 8;

/// Payloads of at least this many bytes are not copied but sent from their place: a kernel's cost for each
/// additional piece is less than that of the copy.
const LONG_PAYLOAD: usize = 1_024;

/// A packet sink that stores a packet's headers, and its payload unless that is long.
struct Parts<'a> {
    out: &'a mut Vec<u8>,
    /// Bytes of all packets so far, including payloads that were not copied.
    bytes: usize,
    long: usize,
    opcode: Option<Opcode>,
    is_apart: bool,
}

impl PacketSink for Parts<'_> {
    #[inline]
    fn put(&mut self, packet: &Packet<'_>) {
        self.opcode = Some(packet.bth.opcode);
        self.bytes += packet.wire_bytes();
        self.is_apart = packet.payload.len() >= self.long && packet.bth.pad == 0;
        if self.is_apart { packet.emit_headers(self.out) } else { packet.emit(self.out) }
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Engines, queue pairs and memory: a NIC without its frame port.
///
/// Inputs may be batched before the outputs are drained with [`Card::poll_datagram`], [`Card::poll_roce`] and
/// [`Card::poll_host`].
#[derive(Debug)]
pub struct Card<E> {
    engines: EngineHost<E>,
    ports: CardPorts,
    rpc_bytes: Vec<u8>,
    /// CPU time of the event that caused the output that was polled last.
    polled_cpu_time: Duration,
    /// When the transport's outputs were last processed.
    served: Instant,
    /// The slots whose clients the host serves, as a bit set.
    clients_on_host: u64,
}

/// A notification of the transport to the card.
#[derive(Debug)]
enum Notification {
    Call(RpcWrite),
    Completion(Completion),
}

/// The environment of a card's engines, which executes their effects.
#[derive(Debug)]
struct CardPorts {
    egress: Egress,
    transport: Transport,
    memory: CardMemory,
    /// Notifications that wait until the attached memory has reached their marks.
    held: VecDeque<(u64, Notification)>,
    /// Refused posts of engines: slot, tag and reason. Each is delivered as a separate event.
    refused: VecDeque<(u8, u64, CompletionStatus)>,
    dma: DmaQueue,
    /// Events for the host, each with the CPU time of the engine event that caused it.
    host_events: VecDeque<(Duration, HostEvent)>,
    replies: Replies,
    counters: CardCounters,
    meter: Option<Box<dyn Meter>>,
    work: Work,
    /// CPU time of the event whose effects are being executed.
    event_cpu_time: Duration,
    /// The longest CPU time, since the work was last taken, of an event that has used the transport. Packets
    /// keep their order, so all packets sent meanwhile are delayed by it.
    transport_cpu_time: Duration,
}

impl<E: Engine> Card<E> {
    /// A card with its engines, each with its memory, in slot order.
    pub fn new(config: CardConfig, engines: Vec<(E, Memory)>) -> Self {
        let mut transport = Transport::new(config.transport);
        let replies = Replies::new(config.region_bytes, &mut transport);
        let bytes_behind = |target| match target {
            Target::Hbm => config.region_bytes + REPLY_BYTES,
            Target::Register | Target::OnChip | Target::Host => config.region_bytes,
        };
        let (engines, memories): (Vec<E>, Vec<Memory>) = engines.into_iter().unzip();
        let ports = CardPorts {
            egress: Egress::new(config.datagram_bytes),
            transport,
            dma: DmaQueue::new(engines.len()),
            memory: CardMemory::new(FlatMemory::with_sizes(bytes_behind), memories),
            held: VecDeque::new(),
            refused: VecDeque::new(),
            host_events: VecDeque::new(),
            replies,
            counters: CardCounters::default(),
            meter: None,
            work: Work::default(),
            event_cpu_time: Duration::ZERO,
            transport_cpu_time: Duration::ZERO,
        };
        Self {
            engines: EngineHost::new::<CardPorts>(engines, config.peers).expect("a card offers all"),
            ports,
            rpc_bytes: Vec::new(),
            polled_cpu_time: Duration::ZERO,
            served: Instant::ZERO,
            clients_on_host: 0,
        }
    }

    /// The engine in a slot, and its memory.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn engine(&self, slot: u8) -> (&E, &Memory) {
        (self.engines.engine(slot), &self.ports.memory.engines[usize::from(slot)])
    }

    /// The engine in a slot, mutable, so that an observer can take out what it has recorded.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn engine_mut(&mut self, slot: u8) -> &mut E {
        self.engines.engine_mut(slot)
    }

    /// The transport, on which queue pairs are created and regions registered.
    pub fn transport(&mut self) -> &mut Transport {
        &mut self.ports.transport
    }

    /// The memory of the regions, without that of the engines.
    pub fn region_memory(&mut self) -> &mut FlatMemory {
        &mut self.ports.memory.regions
    }

    /// The memory of one region target, without that of the engines.
    pub fn image(&self, target: Target) -> &[u8] {
        self.ports.memory.regions.image(target)
    }

    /// Attaches memory of another device, which replaces any attached before. Its addresses are those of
    /// [`crate::attached_address`] in [`Target::Host`]. Regions must be registered there.
    pub fn attach(&mut self, memory: Box<dyn AttachedMemory>) {
        self.ports.memory.attached = Some(memory);
    }

    /// Detaches the memory. Notifications that wait for its writes are dropped.
    pub fn detach(&mut self) -> Option<Box<dyn AttachedMemory>> {
        self.ports.held.clear();
        self.ports.memory.attached.take()
    }

    /// Loads a preprocessing pipeline. The returned number is the value of settings that use it.
    pub fn load_pipeline(&mut self, pipeline: Pipeline) -> u64 {
        self.services().load(pipeline)
    }

    /// Sets the service that processes the payload of SENDs and WRITEs to a queue pair before it is stored.
    /// It applies from the next packet on, until the queue pair is destroyed. Offsets count in each message.
    ///
    /// # Panics
    /// If the card has more queue pairs than there are settings ([`weft_service::QUEUE_PAIRS`]).
    pub fn serve(&mut self, queue_pair: QueuePairNumber, setting: Setting) {
        let queue_pairs = self.ports.transport.config().max_queue_pairs;
        assert!(
            queue_pairs <= weft_service::QUEUE_PAIRS.into(),
            "{queue_pairs} queue pairs have no settings"
        );
        self.services().configure(requests_of(queue_pair), setting);
    }

    /// The reading of a queue pair's tap.
    pub fn tap_reading(&self, queue_pair: QueuePairNumber) -> u64 {
        let services = self.ports.memory.services.as_ref();
        services.map_or(0, |services| services.reading(requests_of(queue_pair)))
    }

    /// The services. They are created with their first use.
    fn services(&mut self) -> &mut Services {
        self.ports.memory.services.get_or_insert_default()
    }

    /// Removes the service settings of a destroyed queue pair.
    pub(crate) fn forget_service(&mut self, queue_pair: QueuePairNumber) {
        if let Some(services) = &mut self.ports.memory.services {
            services.configure(requests_of(queue_pair), Setting::default());
        }
    }

    /// Whether the card has engines, which take Weft datagrams.
    pub(crate) fn has_engines(&self) -> bool {
        !self.engines.is_empty()
    }

    /// All memory of this card that verbs can access.
    pub(crate) fn card_memory(&mut self) -> &mut CardMemory {
        &mut self.ports.memory
    }

    /// Processes the transport's outputs after a call of the driver, which takes no time.
    pub(crate) fn serve_driver(&mut self) {
        self.serve_transport(self.served);
    }

    /// Sets whether messages to one destination share datagrams, which is the default. For measurements of
    /// the benefit.
    pub fn set_aggregation(&mut self, aggregates: bool) {
        self.ports.egress.set_aggregation(aggregates);
    }

    /// Sets what says how long computations of the engines take.
    pub fn set_meter(&mut self, meter: Box<dyn Meter>) {
        self.ports.meter = Some(meter);
    }

    /// Assigns a queue pair to an engine. The engine may post on it, gets its completions, and connects it to
    /// `peering`.
    pub fn assign(&mut self, queue_pair: QueuePairNumber, slot: u8, peering: Peering) {
        self.engines.assign(queue_pair, slot, peering);
    }

    /// Passes messages of clients to the engine in `slot` to the host instead, as [`HostEvent::Request`]: its
    /// host half keeps the clients' sessions.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn serve_clients_on_host(&mut self, slot: u8) {
        assert!(usize::from(slot) < self.engines.len().min(64), "slot {slot} has no engine");
        self.clients_on_host |= 1 << slot;
    }

    /// Handles a Weft datagram: delivers each message to the engine in its slot.
    pub fn receive_datagram(&mut self, now: Instant, from: SocketAddrV4, bytes: &[u8]) {
        let Some(datagram) = self.engines.open(bytes) else { return };
        let sender = self.engines.sender(from);
        for (slot, message, last) in engine_host::messages(&datagram) {
            match sender {
                Sender::Client(from)
                    if self.clients_on_host.checked_shr(slot.into()).unwrap_or(0) & 1 != 0 =>
                {
                    let (kind, payload) = (message.kind, message.payload.to_vec());
                    let request = HostEvent::Request { engine: slot, from, kind, payload };
                    self.ports.host_events.push_back((Duration::ZERO, request));
                }
                _ => self.dispatch(now, slot, sender.event(message, last)),
            }
        }
        self.serve_transport(now);
    }

    /// Handles a RoCE v2 packet, from its BTH to its last pad byte, whose ICRC is correct and that has no
    /// congestion mark.
    pub fn receive_roce(&mut self, now: Instant, from: impl Into<IpAddr>, packet: &[u8]) {
        self.receive_roce_marked(now, from, packet, false);
    }

    /// As [`Card::receive_roce`]. `marked`: whether the IP header has "congestion experienced".
    pub fn receive_roce_marked(
        &mut self,
        now: Instant,
        from: impl Into<IpAddr>,
        packet: &[u8],
        marked: bool,
    ) {
        let Ok(packet) = Packet::parse(packet) else {
            self.ports.counters.roce_malformed += 1;
            return;
        };
        self.ports.counters.roce_received += 1;
        self.ports.transport.receive_marked(now, from, &packet, marked, &mut self.ports.memory);
        self.serve_transport(now);
    }

    /// Counts a RoCE packet that was dropped because its ICRC is wrong.
    pub fn count_icrc_error(&mut self) {
        self.ports.counters.icrc_errors += 1;
    }

    /// Executes a command of the host. Only the frame port transmits frames.
    ///
    /// # Panics
    /// If the command is to transmit a frame.
    pub fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        match command {
            HostCommand::Reset { engine } => self.dispatch(now, engine, Event::Reset),
            HostCommand::Configure { engine, configuration } => {
                self.dispatch(now, engine, Event::Configure(configuration));
            }
            HostCommand::Call { engine, token, kind, payload } => {
                let message = Message { kind, payload };
                self.dispatch(now, engine, Event::Call { caller: Caller::Host(token), message, last: true });
            }
            HostCommand::Respond { engine, to, kind, payload } => {
                let fits = self.ports.egress.push(to, engine, kind, payload);
                self.ports.counters.responses_too_large += u64::from(!fits);
            }
            HostCommand::PostSend(queue_pair, request) => {
                if let Err(refusal) = self.ports.post_for_host(now, queue_pair, request) {
                    self.ports.host_events.push_back((Duration::ZERO, HostEvent::Completion(refusal)));
                }
            }
            HostCommand::PostReceive(queue_pair, request) => {
                if let Err(error) = self.ports.transport.post_receive(queue_pair, request) {
                    let refusal =
                        refusal(queue_pair, request.id, CompletionOpcode::Receive, status_of(&error));
                    self.ports.host_events.push_back((Duration::ZERO, HostEvent::Completion(refusal)));
                }
            }
            HostCommand::Modify(queue_pair, change) => {
                let refused = self.ports.transport.modify_queue_pair(queue_pair, change).is_err();
                self.ports.counters.modifications_refused += u64::from(refused);
            }
            HostCommand::Associate(_) => self.ports.counters.associations_refused += 1,
            HostCommand::Transmit(_) => panic!("a card without a frame port cannot transmit frames"),
        }
        // A request that is posted in the state ERROR completes at once.
        self.serve_transport(now);
    }

    /// When [`Card::handle_deadline`] must be called next.
    pub fn next_deadline(&self) -> Option<Instant> {
        // Attached memory does not report when writes become visible, so it is polled at once.
        let held = (!self.ports.held.is_empty()).then_some(self.served);
        self.engines.next_timer().into_iter().chain(self.ports.transport.next_deadline()).chain(held).min()
    }

    /// Handles every expired timer.
    pub fn handle_deadline(&mut self, now: Instant) {
        let mut expired = 0;
        while let Some((slot, tag)) = self.engines.take_due_timer(now) {
            expired += 1;
            assert!(
                expired < TIMERS_AT_ONCE_MAX,
                "time stands still: the engine in slot {slot} sets timer {tag} to {now} again and again"
            );
            self.dispatch(now, slot, Event::Timer { tag });
        }
        if self.ports.transport.next_deadline().is_some_and(|at| at <= now) {
            self.ports.transport.handle_deadline(now);
        }
        self.serve_transport(now);
    }

    /// Replaces the content of `out` by the next Weft datagram, whose bytes are not copied, and returns its
    /// destination.
    pub fn poll_datagram(&mut self, out: &mut Vec<u8>) -> Option<SocketAddrV4> {
        let (to, cpu_time) = self.ports.egress.poll_with_cpu_time(out)?;
        self.polled_cpu_time = cpu_time;
        self.ports.counters.datagrams_sent += 1;
        self.ports.work.frames_sent += 1;
        Some(to)
    }

    /// Appends the next RoCE v2 packet, without its ICRC, to `out`, and returns its destination.
    pub fn poll_roce(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, _) = self.poll_packet(now, out, usize::MAX)?;
        Some(transmit)
    }

    /// As [`Card::poll_roce`], but the payload of a long packet is not copied if its place is returned.
    /// [`Card::payload`] returns it until the card is used otherwise.
    pub fn poll_roce_headers(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<(Transmit, Option<PayloadPlace>)> {
        // Bytes of attached memory cannot be borrowed.
        let long = if self.ports.memory.attached.is_none() { LONG_PAYLOAD } else { usize::MAX };
        self.poll_packet(now, out, long)
    }

    /// A payload that [`Card::poll_roce_headers`] has not copied.
    ///
    /// # Panics
    /// If there is no such payload.
    pub fn payload(&self, place: PayloadPlace) -> &[u8] {
        self.ports.memory.at(place).expect("the payload was read when its packet was made")
    }

    /// Appends the next packet to `out`, except a payload of at least `long` bytes without padding.
    fn poll_packet(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        long: usize,
    ) -> Option<(Transmit, Option<PayloadPlace>)> {
        self.ports.memory.last_read = None;
        if let Some(attached) = &mut self.ports.memory.attached {
            attached.submit();
        }
        let mut sink = Parts { bytes: out.len(), out, long, opcode: None, is_apart: false };
        let transmit = self.ports.transport.poll_transmit(now, &mut self.ports.memory, &mut sink)?;
        let Parts { opcode, is_apart, .. } = sink;
        if let Some((target, bytes)) = self.ports.memory.last_read {
            self.count_read(opcode, target, bytes);
        }
        self.polled_cpu_time = self.ports.transport_cpu_time;
        self.ports.counters.roce_sent += 1;
        self.ports.work.frames_sent += 1;
        Some((transmit, self.ports.memory.last_place.filter(|_| is_apart)))
    }

    /// Counts the memory reads for a packet. The packets of a message are read one after the other while they
    /// are sent, so only the first waits for memory. The payload of a request may be on the card already,
    /// since it comes along with the request.
    fn count_read(&mut self, opcode: Option<Opcode>, target: Target, bytes: usize) {
        let Some(opcode) = opcode else { return };
        let begins = opcode.starts_message();
        match (target, opcode.is_response()) {
            (Target::Hbm, true) => {
                self.ports.work.verbs.reads += u64::from(begins);
                self.ports.work.verbs.bytes += bytes as u64;
            }
            (Target::Host, true) => self.ports.work.host_memory.responses += u64::from(begins),
            (Target::Host, false) if begins => {
                let largest = &mut self.ports.work.host_memory.request_bytes;
                *largest = (*largest).max(bytes as u32);
            }
            _ => {}
        }
    }

    /// The next event for the host.
    pub fn poll_host(&mut self) -> Option<HostEvent> {
        let (cpu_time, event) = self.ports.host_events.pop_front()?;
        self.polled_cpu_time = cpu_time;
        Some(event)
    }

    /// The next copy between the host's memory and an engine's that the world must execute.
    pub fn poll_dma(&mut self) -> Option<DmaRequest> {
        let (cpu_time, request) = self.ports.dma.pop()?;
        self.polled_cpu_time = cpu_time;
        Some(request)
    }

    /// CPU time of the event whose output was polled last. The card does not wait for it: the world delays
    /// the output by it.
    pub const fn cpu_time(&self) -> Duration {
        self.polled_cpu_time
    }

    /// Executes a copy that [`Card::poll_dma`] has returned, and notifies the engine.
    pub fn complete_dma(&mut self, now: Instant, request: &DmaRequest) {
        if self.ports.dma.is_wanted(request) {
            let host = self.ports.memory.regions.image_mut(Target::Host);
            let status = dma::copy(request, host, &mut self.ports.memory.engines[usize::from(request.slot)]);
            self.dispatch(now, request.slot, Event::Done { tag: request.tag, status });
            self.serve_transport(now);
        }
    }

    /// Executes all copies, also those that engines request meanwhile. For a world in which the host's memory
    /// is the card's.
    pub fn complete_all_dma(&mut self, now: Instant) {
        while let Some(request) = self.poll_dma() {
            self.complete_dma(now, &request);
        }
    }

    /// Work since the last call of this function. Received frames are not included; the frame port counts
    /// them.
    pub fn take_work(&mut self) -> Work {
        for memory in &mut self.ports.memory.engines {
            self.ports.work.memory += memory.take_accesses();
            self.ports.work.host_state += memory.take_host_accesses();
        }
        self.ports.work.verbs += std::mem::take(&mut self.ports.memory.written);
        self.ports.work.host_writes += std::mem::take(&mut self.ports.memory.host_writes);
        self.ports.transport_cpu_time = Duration::ZERO;
        std::mem::take(&mut self.ports.work)
    }

    /// Counters of the card, its transport and its engines, in this order.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.own_counters();
        all.extend(self.engines.engine_counters());
        all
    }

    /// Counters of the card and its transport, without those of its engines.
    pub fn own_counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.engines.counters();
        all.extend(self.ports.counters.list());
        all.extend(self.ports.transport.counters().list());
        all
    }

    /// The help text of each of [`Card::own_counters`], by name.
    pub fn counter_help() -> impl Iterator<Item = (&'static str, &'static str)> {
        let own = EngineCounters::HELP.iter().chain(CardCounters::HELP);
        own.chain(weft_rdma::Counters::HELP).copied()
    }

    /// Delivers an event to an engine, and then its refused posts.
    fn dispatch(&mut self, now: Instant, slot: u8, event: Event<'_>) {
        self.engines.handle(now, slot, event, &mut self.ports);
        while let Some((slot, tag, status)) = self.ports.refused.pop_front() {
            self.engines.handle(now, slot, Event::Done { tag, status }, &mut self.ports);
        }
    }

    /// Processes the transport's notifications for engines and the host.
    fn serve_transport(&mut self, now: Instant) {
        self.served = now;
        while let Some(notification) = self.ports.next_notification() {
            match notification {
                Notification::Call(write) => self.call(now, write),
                Notification::Completion(completion) => self.complete(now, completion),
            }
        }
    }

    /// Delivers a completed WRITE into an RPC region to its engine. The immediate data, or else the first
    /// word, names the operation.
    fn call(&mut self, now: Instant, write: RpcWrite) {
        let mut bytes = std::mem::take(&mut self.rpc_bytes);
        let stored = self.ports.memory.read(write.target, write.address, write.length as usize);
        bytes.clear();
        bytes.extend_from_slice(stored.expect("the transport has just stored it there"));
        let operation = match write.immediate {
            Some(kind) => Some((kind.into(), &bytes[..])),
            None => bytes.split_first_chunk().map(|(word, rest)| (u64::from_be_bytes(*word), rest)),
        };
        match operation.and_then(|(kind, payload)| Some((u8::try_from(kind).ok()?, payload))) {
            Some((kind, payload)) => {
                let incarnation = Incarnation::of(write.queue_pair, &self.ports.transport);
                let caller = incarnation.map_or(Caller::QueuePair(write.queue_pair), Incarnation::caller);
                let event = Event::Call { caller, message: Message { kind, payload }, last: true };
                self.dispatch(now, write.engine, event);
            }
            None => self.ports.counters.rpc_malformed += 1,
        }
        self.rpc_bytes = bytes;
    }

    /// Delivers a completion to the owner of its queue pair: the card's own replies, an engine, or the host.
    fn complete(&mut self, now: Instant, completion: Completion) {
        if completion.id & CARD_TAG != 0 && completion.opcode == CompletionOpcode::Send {
            self.ports.replies.give_back(completion.queue_pair, completion.id & !CARD_TAG);
            return;
        }
        match self.engines.owner(completion.queue_pair) {
            Some(slot) => {
                self.dispatch(now, slot, Event::Done { tag: completion.id, status: completion.status });
            }
            None => self.ports.host_events.push_back((Duration::ZERO, HostEvent::Completion(completion))),
        }
    }
}

impl CardPorts {
    /// Posts a request for the host. The host's tags must not have the card's own bit, or the completion
    /// would be taken for that of a reply.
    fn post_for_host(
        &mut self,
        now: Instant,
        queue_pair: QueuePairNumber,
        request: WorkRequest,
    ) -> Result<(), Completion> {
        let posted = if request.id & CARD_TAG == 0 {
            self.post(now, queue_pair, request)
        } else {
            Err(CompletionStatus::LocalQueuePairOperationError)
        };
        let opcode = request.operation.completion_opcode();
        posted.map_err(|status| refusal(queue_pair, request.id, opcode, status))
    }

    /// The next notification of the transport. It is held back until all writes to attached memory that it
    /// may refer to are visible.
    fn next_notification(&mut self) -> Option<Notification> {
        let Some(memory) = &mut self.memory.attached else { return poll_notification(&mut self.transport) };
        while let Some(notification) = poll_notification(&mut self.transport) {
            self.held.push_back((memory.mark(), notification));
        }
        let (mark, _) = self.held.front()?;
        if !memory.has_landed(*mark) {
            return None;
        }
        self.held.pop_front().map(|(_, notification)| notification)
    }

    /// Replies to a call over a queue pair: a SEND of the message from the reply buffers.
    fn answer(&mut self, now: Instant, caller: QueuePairNumber, message: Message<'_>) {
        let length = RPC_WORD_BYTES + message.payload.len();
        if !Replies::fits(length) {
            self.counters.replies_without_buffer += 1;
            return;
        }
        let Some(incarnation) = Incarnation::of_caller(caller, &self.transport) else {
            self.counters.replies_refused += 1;
            return;
        };
        let Some(buffer) = self.replies.take(incarnation, &self.transport) else {
            self.counters.replies_without_buffer += 1;
            return;
        };
        let address = self.replies.address(buffer);
        let word = u64::from(message.kind).to_be_bytes();
        let buffers = &mut self.memory.regions;
        let stored = buffers
            .write(Target::Hbm, address, &word)
            .and_then(|()| buffers.write(Target::Hbm, address + RPC_WORD_BYTES as u64, message.payload));
        assert_eq!(stored, Ok(()), "the reply buffers lie in installed memory");
        let local = LocalBuffer { address, length: length as u32, lkey: self.replies.lkey() };
        let tag = self.replies.tag(buffer);
        let request = WorkRequest::new(CARD_TAG | tag, Operation::Send { immediate: None }, local);
        if self.post(now, incarnation.queue_pair(), request).is_err() {
            self.replies.give_back(incarnation.queue_pair(), tag);
            self.counters.replies_refused += 1;
        }
    }
}

impl Ports for CardPorts {
    const OFFERS: Capabilities = Capabilities::ALL;
    const NAME: &'static str = "a card";

    fn memory(&mut self, slot: u8) -> &mut Memory {
        &mut self.memory.engines[usize::from(slot)]
    }

    fn reset(&mut self, slot: u8) {
        self.memory.engines[usize::from(slot)].clear();
        self.dma.forget(slot);
    }

    fn begin(&mut self, _: &Event<'_>, effects: &Effects) {
        let cpu_time =
            self.meter.as_ref().map_or(Duration::ZERO, |meter| meter.cpu_time(effects.computations()));
        self.work.messages += 1;
        self.work.cpu_time += cpu_time;
        self.event_cpu_time = cpu_time;
    }

    fn end(&mut self) {
        self.event_cpu_time = Duration::ZERO;
    }

    fn tell(&mut self, event: HostEvent) {
        self.host_events.push_back((self.event_cpu_time, event));
    }

    fn send(&mut self, slot: u8, to: SocketAddrV4, message: Message<'_>) -> bool {
        self.egress.push_after(self.event_cpu_time, to, slot, message.kind, message.payload)
    }

    fn reply_on(&mut self, now: Instant, caller: QueuePairNumber, message: Message<'_>) {
        self.transport_cpu_time = self.transport_cpu_time.max(self.event_cpu_time);
        self.answer(now, caller, message);
    }

    fn post(
        &mut self,
        now: Instant,
        queue_pair: QueuePairNumber,
        request: WorkRequest,
    ) -> Result<(), CompletionStatus> {
        self.transport_cpu_time = self.transport_cpu_time.max(self.event_cpu_time);
        self.transport.post_send(now, queue_pair, request).map_err(|error| status_of(&error))
    }

    fn refuse(&mut self, slot: u8, tag: u64, status: CompletionStatus) {
        self.refused.push_back((slot, tag, status));
    }

    fn access(&mut self, queue_pair: QueuePairNumber, access: AccessFlags) -> bool {
        self.transport.modify_queue_pair(queue_pair, Modify::Access(access)).is_ok()
    }

    fn connect(
        &mut self,
        queue_pair: QueuePairNumber,
        peering: &Peering,
        send_psn: u32,
        receive_psn: u32,
    ) -> bool {
        if self.transport.modify_queue_pair(queue_pair, Modify::Reset).is_err() {
            return false;
        }
        self.transport.forget_completions(queue_pair);
        let (receive, send) = (peering.ready_to_receive(receive_psn), peering.ready_to_send(send_psn));
        self.transport.connect(queue_pair, AccessFlags::REMOTE_READ, receive, send).is_ok()
    }

    fn copy(&mut self, request: DmaRequest) {
        self.dma.push(self.event_cpu_time, request);
    }
}

/// The next notification of the transport; calls of engines come first.
fn poll_notification(transport: &mut Transport) -> Option<Notification> {
    let call = transport.poll_rpc().map(Notification::Call);
    call.or_else(|| transport.poll_completion().map(Notification::Completion))
}

/// The completion of a request whose post was refused.
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
