//! An engine in a process on the host of an RDMA card.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::{Egress, HostEvent, Peering, Slot};
use weft_rdma::{AccessFlags, Completion, CompletionStatus, Modify, QueuePairNumber};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Event, Io, Memory, Message, NODES_MAX, NodeId, NodeSet,
};
use weft_wire::datagram::{self, Datagram};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{self, Endpoint, Flow, Frame};

use crate::cost::HOST_PROCESS;
use crate::nic_machine::{Command, Commands, Host};

/// The slot of the one engine of a process.
const SLOT: u8 = 0;

/// How a process is reached and whom it knows.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Hardware address of the card's port.
    pub hardware: MacAddress,
    /// IPv4 address of the card's port.
    pub address: Ipv4Addr,
    /// Where each node of the cluster takes Weft datagrams. Only these addresses may speak as peers.
    pub peers: [Option<SocketAddrV4>; NODES_MAX],
    /// The longest datagram, in bytes.
    pub datagram_bytes: usize,
}

/// A process with an engine, beside a card that does verbs and knows no engines: the same engine that a Weft NIC has in a slot, where
/// a host's software would have it.
///
/// Use it as the host of a [`crate::NicMachine`] whose NIC is a [`weft_nic::SoftNic`] of [`weft_nic::NoEngine`] at the pace of
/// [`crate::CostProfile::RDMA_CARD`]. The engine's memory is the host's memory that the card's verbs reach as
/// [`weft_rdma::Target::Host`], from address 0 on. Its posts cross the bus, and so do its completions. Its messages are ordinary
/// frames. It runs on one core, one event after the other, at the cost of [`HOST_PROCESS`]; the change of a permission keeps the core
/// busy for as long as the driver takes for it, and has taken place before the next event.
///
/// `A` is the application, in the same process: the program that would sit on the host of a Weft NIC. Its calls are events of the
/// engine, without a bus between them. What it asks of the card beside that, it asks of the card.
#[derive(Debug)]
pub struct EngineOnHost<E, A> {
    config: HostConfig,
    application: A,
    application_commands: Commands,
    slot: Slot<E>,
    /// Empty but while the engine runs.
    memory: Memory,
    effects: Effects,
    egress: Egress,
    neighbours: Vec<(Ipv4Addr, MacAddress)>,
    connections: Vec<Connection>,
    /// What waits for the core.
    inputs: VecDeque<Input>,
    /// Timers and inputs take turns, so that neither keeps the other from the core.
    timer_had_turn: bool,
    free_at: Instant,
    /// What comes of events that the core has handled, and when.
    outputs: VecDeque<(Instant, Output)>,
    /// Requests posted: tells those of a connection from those of an earlier one on the same queue pair.
    posted: u64,
    dropped: u64,
    payload: Vec<u8>,
}

/// A queue pair of the engine.
#[derive(Debug)]
struct Connection {
    queue_pair: QueuePairNumber,
    peering: Peering,
    /// Serial numbers and tags of the requests that have not completed, in order.
    outstanding: VecDeque<(u64, u64)>,
}

impl Connection {
    /// The tag of the request that has ended; `None` if it was posted before the queue pair was connected again.
    fn complete(&mut self, completion: &Completion) -> Option<u64> {
        // A request that the card refuses ends before those that it has taken.
        let place = self.outstanding.binary_search_by_key(&completion.id, |(serial, _)| *serial).ok()?;
        let (_, tag) = self.outstanding.remove(place)?;
        if completion.status == CompletionStatus::Success {
            // Whatever was posted earlier has succeeded, too, and did not ask to be told.
            self.outstanding.drain(..place);
        }
        Some(tag)
    }
}

#[derive(Debug)]
enum Input {
    Reset,
    Configure(Configuration),
    Call {
        token: u32,
        kind: u8,
        payload: Vec<u8>,
    },
    Frame(Vec<u8>),
    Message {
        from: SocketAddrV4,
        kind: u8,
        payload: Vec<u8>,
        last: bool,
    },
    Completion(Completion),
    /// A post that was not even tried.
    Refused {
        tag: u64,
    },
}

#[derive(Debug)]
enum Output {
    Command(Command),
    Event(HostEvent),
}

impl<E: Engine, A: Host> EngineOnHost<E, A> {
    /// A process with an engine that has just been made.
    pub fn new(engine: E, application: A, config: HostConfig) -> Self {
        Self {
            egress: Egress::new(config.datagram_bytes),
            config,
            application,
            application_commands: Commands::default(),
            slot: Slot::new(engine),
            memory: Memory::new(0),
            effects: Effects::default(),
            neighbours: Vec::new(),
            connections: Vec::new(),
            inputs: VecDeque::new(),
            timer_had_turn: false,
            free_at: Instant::ZERO,
            outputs: VecDeque::new(),
            posted: 0,
            dropped: 0,
            payload: Vec::new(),
        }
    }

    /// Gives a queue pair of the card to the engine: it may post on it, its completions come back to it, and it connects it.
    pub fn assign(&mut self, queue_pair: QueuePairNumber, peering: Peering) {
        assert!(self.connection(queue_pair).is_none(), "{queue_pair} is assigned already");
        self.connections.push(Connection { queue_pair, peering, outstanding: VecDeque::new() });
    }

    /// Enters a neighbour by hand. Others are learned from what they send.
    pub fn add_neighbour(&mut self, address: Ipv4Addr, hardware: MacAddress) {
        match self.neighbours.iter_mut().find(|neighbour| neighbour.0 == address) {
            Some(neighbour) => neighbour.1 = hardware,
            None => self.neighbours.push((address, hardware)),
        }
    }

    /// The engine, for inspection. Its memory is the card's: [`weft_nic::Card::image`].
    pub const fn engine(&self) -> &E {
        &self.slot.engine
    }

    /// The application, for inspection.
    pub const fn application(&self) -> &A {
        &self.application
    }

    /// Lets the caller act as the application: use it within [`crate::NicMachine::with_host`].
    pub fn with_application<R>(
        &mut self,
        now: Instant,
        commands: &mut Commands,
        act: impl FnOnce(&mut A, &mut Commands) -> R,
    ) -> R {
        let result = act(&mut self.application, &mut self.application_commands);
        self.take_commands(commands);
        self.run(now, commands);
        result
    }

    /// Messages that were malformed, of another engine, too large, or for somebody who has no known address, and posts on queue
    /// pairs that are not the engine's.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn connection(&mut self, queue_pair: QueuePairNumber) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.queue_pair == queue_pair)
    }

    /// Takes what the application has asked for: calls are the engine's, the rest the card's.
    fn take_commands(&mut self, commands: &mut Commands) {
        while let Some(command) = self.application_commands.take() {
            match command {
                Command::Reset => self.inputs.push_back(Input::Reset),
                Command::Configure(configuration) => self.inputs.push_back(Input::Configure(configuration)),
                Command::Call { engine: SLOT, token, kind, payload } => {
                    self.inputs.push_back(Input::Call { token, kind, payload });
                }
                Command::Call { .. } => self.dropped += 1,
                command => commands.pass_on(command),
            }
        }
    }

    /// Gives out what is ready at `now`.
    fn give_out(&mut self, now: Instant, commands: &mut Commands) {
        while self.outputs.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, output)) = self.outputs.pop_front()
        {
            match output {
                Output::Command(command) => commands.pass_on(command),
                Output::Event(event) => {
                    self.application.handle(now, event, &mut self.application_commands);
                    self.take_commands(commands);
                }
            }
        }
    }

    /// Does what the core can do at `now`.
    fn run(&mut self, now: Instant, commands: &mut Commands) {
        self.memory.exchange(commands.host_memory());
        loop {
            self.give_out(now, commands);
            if self.free_at > now {
                break;
            }
            let timer = if self.timer_had_turn && !self.inputs.is_empty() {
                None
            } else {
                self.slot.take_due_timer(now)
            };
            self.timer_had_turn = timer.is_some();
            if let Some(tag) = timer {
                let ready = self.tell(now, now + HOST_PROCESS.verb.duration(), Event::Timer { tag });
                self.free_at = ready;
            } else if let Some(input) = self.inputs.pop_front() {
                self.free_at = self.take(now, input);
            } else {
                break;
            }
        }
        self.memory.exchange(commands.host_memory());
    }

    /// Handles one input. Returns when the core is through with it.
    fn take(&mut self, now: Instant, input: Input) -> Instant {
        let operation = HOST_PROCESS.operation.duration();
        let verb = HOST_PROCESS.verb.duration();
        match input {
            Input::Reset => {
                self.slot.clear();
                self.memory.clear();
                self.tell(now, now + operation, Event::Reset)
            }
            Input::Configure(configuration) => {
                self.tell(now, now + operation, Event::Configure(configuration))
            }
            Input::Call { token, kind, payload } => {
                let message = Message { kind, payload: &payload };
                let call = Event::Call { caller: Caller::Host(token), message, last: true };
                self.tell(now, now + operation, call)
            }
            Input::Refused { tag } => {
                let status = CompletionStatus::LocalQueuePairOperationError;
                self.tell(now, now + verb, Event::Done { tag, status })
            }
            Input::Completion(completion) => {
                let connection = self.connection(completion.queue_pair).expect("only the engine's are kept");
                match connection.complete(&completion) {
                    Some(tag) => self.tell(now, now + verb, Event::Done { tag, status: completion.status }),
                    None => now + verb,
                }
            }
            Input::Frame(frame) => self.take_frame(now, &frame),
            Input::Message { from, kind, payload, last } => {
                let message = Message { kind, payload: &payload };
                let peer =
                    self.config.peers.iter().position(|peer| *peer == Some(from)).and_then(NodeId::new);
                let event = match peer {
                    Some(from) => Event::Deliver { from, message, last },
                    None => Event::Call { caller: from.into(), message, last },
                };
                self.tell(now, now + operation, event)
            }
        }
    }

    /// Takes a frame apart: its messages are the next inputs, each an event of its own.
    fn take_frame(&mut self, now: Instant, bytes: &[u8]) -> Instant {
        let Ok(Frame::Udp { ethernet, ipv4, udp, payload }) = Frame::parse(bytes) else {
            unreachable!("only Weft datagrams are kept")
        };
        if let Ok(datagram) = Datagram::parse(payload) {
            self.add_neighbour(ipv4.source, ethernet.source);
            let from = SocketAddrV4::new(ipv4.source, udp.source_port);
            let behind = self.inputs.len();
            for message in datagram.messages().filter(|message| message.engine == SLOT) {
                let (kind, payload) = (message.kind, message.payload.to_vec());
                self.inputs.push_back(Input::Message { from, kind, payload, last: false });
            }
            if let Some(Input::Message { last, .. }) = self.inputs.range_mut(behind..).next_back() {
                *last = true;
            }
            self.inputs.rotate_left(behind);
        } else {
            self.dropped += 1;
        }
        now + HOST_PROCESS.frame_receive.duration()
    }

    /// Hands one event to the engine at `now`; the first of its effects is ready at `ready` and the time of its reads later. Returns
    /// when the last is.
    fn tell(&mut self, now: Instant, ready: Instant, event: Event<'_>) -> Instant {
        let Self { slot, memory, effects, .. } = self;
        slot.engine.handle(now, event, &mut Io { effects, memory });
        let reading = HOST_PROCESS.memory_read.duration() * u64::from(self.memory.take_accesses().reads);
        let mut ready = ready + reading + self.effects.total_labour();
        if let Some(status) = self.slot.take_status() {
            self.outputs.push_back((ready, Output::Event(HostEvent::Status { engine: SLOT, status })));
        }
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.iter() {
            ready = self.carry_out(ready, effect, &effects);
        }
        effects.clear();
        self.effects = effects;
        self.send_datagrams(ready)
    }

    /// Carries out an effect from `at` on. Returns when the core is through with it.
    fn carry_out(&mut self, at: Instant, effect: &Effect, effects: &Effects) -> Instant {
        match effect {
            Effect::Send { to, kind, payload } => self.send(*to, effects.message(*kind, payload)),
            Effect::Reply { to, kind, payload } => {
                let message = effects.message(*kind, payload);
                match *to {
                    Caller::Host(token) => {
                        let (kind, payload) = (message.kind, message.payload.to_vec());
                        let reply = HostEvent::Reply { token, kind, payload };
                        self.outputs.push_back((at, Output::Event(reply)));
                    }
                    Caller::Endpoint { address, port } => {
                        self.push(SocketAddrV4::new(address, port), message)
                    }
                    Caller::QueuePair(_) => unreachable!("a card without engines calls none"),
                }
            }
            Effect::SetTimer { tag, at } => self.slot.set_timer(*tag, *at),
            Effect::Post { queue_pair, request } => {
                self.posted += 1;
                let serial = self.posted;
                let Some(connection) = self.connection(*queue_pair) else {
                    self.dropped += 1;
                    self.inputs.push_back(Input::Refused { tag: request.id });
                    return at;
                };
                connection.outstanding.push_back((serial, request.id));
                let mut request = *request;
                request.id = serial;
                let posted = at + HOST_PROCESS.verb.duration();
                self.outputs.push_back((posted, Output::Command(Command::PostSend(*queue_pair, request))));
                return posted;
            }
            Effect::Access { queue_pair, access } => {
                if self.connection(*queue_pair).is_none() {
                    self.dropped += 1;
                    return at;
                }
                let at = self.send_datagrams(at);
                return self.modify(
                    at,
                    HOST_PROCESS.access.duration(),
                    *queue_pair,
                    &[Modify::Access(*access)],
                );
            }
            Effect::Connect { queue_pair, send_psn, receive_psn } => {
                let Some(connection) = self.connection(*queue_pair) else {
                    self.dropped += 1;
                    return at;
                };
                connection.outstanding.clear();
                let peering = connection.peering;
                let at = self.send_datagrams(at);
                let changes = [
                    Modify::Reset,
                    Modify::Init { access: AccessFlags::REMOTE_READ },
                    Modify::ReadyToReceive(peering.ready_to_receive(*receive_psn)),
                    Modify::ReadyToSend(peering.ready_to_send(*send_psn)),
                ];
                return self.modify(at, HOST_PROCESS.connect.duration(), *queue_pair, &changes);
            }
            Effect::HostRead { .. } | Effect::HostWrite { .. } => {
                panic!("the memory of an engine on the host is the host's: there is nothing to copy")
            }
        }
        at
    }

    /// Has the driver change a queue pair, which takes it `whole` from `at` on: the card has the change half way through, long before the
    /// core goes on. Returns when it does.
    fn modify(
        &mut self,
        at: Instant,
        whole: Duration,
        queue_pair: QueuePairNumber,
        changes: &[Modify],
    ) -> Instant {
        let half = at + whole / 2;
        let commands = changes.iter().map(|change| Output::Command(Command::Modify(queue_pair, *change)));
        self.outputs.extend(commands.map(|command| (half, command)));
        at + whole
    }

    fn send(&mut self, to: NodeSet, message: Message<'_>) {
        for node in to.iter() {
            match self.config.peers[node.index()] {
                Some(peer) => self.push(peer, message),
                None => self.dropped += 1,
            }
        }
    }

    fn push(&mut self, to: SocketAddrV4, message: Message<'_>) {
        if !self.egress.push(to, SLOT, message.kind, message.payload) {
            self.dropped += 1;
        }
    }

    /// Sends all that was said from `ready` on. Returns when the core is through with it.
    fn send_datagrams(&mut self, mut ready: Instant) -> Instant {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        while let Some(to) = self.egress.poll(&mut payload) {
            let known = self.neighbours.iter().find(|neighbour| neighbour.0 == *to.ip());
            match known {
                Some(&(address, hardware)) => {
                    let HostConfig { hardware: own, address: source, .. } = self.config;
                    let flow = Flow {
                        source: Endpoint { hardware: own, address: source, port: datagram::UDP_PORT },
                        destination: Endpoint { hardware, address, port: to.port() },
                        type_of_service: 0,
                    };
                    let mut frame = Vec::new();
                    frame::emit_udp_frame(&mut frame, &flow, &payload);
                    ready += HOST_PROCESS.frame_send.duration();
                    self.outputs.push_back((ready, Output::Command(Command::Transmit(frame))));
                }
                None => self.dropped += 1,
            }
            payload.clear();
        }
        self.payload = payload;
        ready
    }

    /// Whether a frame is for the engine.
    fn is_datagram(&self, bytes: &[u8]) -> bool {
        matches!(
            Frame::parse(bytes),
            Ok(Frame::Udp { ipv4, udp, .. })
                if ipv4.destination == self.config.address && udp.destination_port == datagram::UDP_PORT
        )
    }
}

impl<E: Engine, A: Host> Host for EngineOnHost<E, A> {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        match event {
            HostEvent::Frame(frame) if self.is_datagram(&frame) => {
                self.inputs.push_back(Input::Frame(frame));
            }
            HostEvent::Completion(completion) if self.connection(completion.queue_pair).is_some() => {
                self.inputs.push_back(Input::Completion(completion));
            }
            event => {
                self.application.handle(now, event, &mut self.application_commands);
                self.take_commands(commands);
            }
        }
        self.run(now, commands);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let input = (!self.inputs.is_empty()).then_some(self.free_at);
        let timer = self.slot.next_timer().map(|at| at.max(self.free_at));
        let output = self.outputs.front().map(|(at, _)| *at);
        [input, timer, output, self.application.next_deadline()].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        if self.application.next_deadline().is_some_and(|at| at <= now) {
            self.application.wake(now, &mut self.application_commands);
            self.take_commands(commands);
        }
        self.run(now, commands);
    }
}
