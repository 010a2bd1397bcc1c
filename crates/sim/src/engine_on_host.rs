//! An engine in a process on the host of an RDMA card.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::{Egress, HostEvent, Peering, Slot};
use weft_rdma::{AccessFlags, Completion, CompletionStatus, Modify, QueuePairNumber};
use weft_time::{Duration, Instant};
use weft_waist::{
    Accesses, Caller, Configuration, Effect, Effects, Engine, Event, Io, Memory, Message, NODES_MAX, NodeId,
    NodeSet,
};
use weft_wire::datagram::{self, Datagram};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{self, Endpoint, Flow, Frame};

use crate::cost::{HOST_PROCESS, HOST_PROCESSOR, HostCost, TwoCoreCost};
use crate::host::{Command, Commands, Host};

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
/// With more threads ([`EngineOnHost::with_threads`]) events overlap: each takes as long as on one core, and all share the threads
/// evenly. Two on a core are slower than one ([`HOST_PROCESSOR`]), which shows in what they do together and not in how long an event takes. What they
/// would lose by locking each other out of the engine's state is not charged.
///
/// With two cores of different work ([`EngineOnHost::with_two_cores`]) the first has calls and completions and the second timers, with the
/// memory that they look at, and messages. What verbs have written it sees when that has crossed the bus. Requests on a queue pair
/// keep their order whichever core posts them.
///
/// `A` is the application, in the same process: the program that would sit on the host of a Weft NIC. Its calls are events of the
/// engine, without a bus between them. What it asks of the card beside that, it asks of the card. Its labour ([`Host::take_labour`]) keeps
/// threads busy, too, and what it asks for comes after it.
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
    /// How long the threads were busy, divided by their number.
    busy: Duration,
    /// Calls, completions, and without a second core everything else; timers and messages.
    lanes: [Lane; 2],
    cost: HostCost,
    /// What the threads do together, in hundredths of what one does alone.
    capacity_percent: u64,
    two_cores: Option<TwoCoreCost>,
    /// What verbs have written that was not looked at: how often, and when a core sees the latest.
    unseen: (u32, Instant),
    /// What comes of events that were handled, and when, in the order of time.
    outputs: VecDeque<(Instant, Output)>,
    /// Requests posted: tells those of a connection from those of an earlier one on the same queue pair.
    posted: u64,
    dropped: u64,
    payload: Vec<u8>,
}

const CALLS: usize = 0;
const WATCH: usize = 1;

/// What a core, or several that are alike, have to do.
#[derive(Debug, Default)]
struct Lane {
    inputs: VecDeque<Input>,
    /// Timers and inputs take turns, so that neither keeps the other from the core.
    timer_had_turn: bool,
    /// When the next event can begin.
    free_at: Instant,
}

/// A queue pair of the engine.
#[derive(Debug)]
struct Connection {
    queue_pair: QueuePairNumber,
    peering: Peering,
    /// When the card was told something of it last.
    told_at: Instant,
    /// The requests that have not completed, in the order in which the card gets them.
    outstanding: VecDeque<Outstanding>,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    /// When the card gets it.
    at: Instant,
    /// Tells it from all others.
    serial: u64,
    /// The engine's.
    tag: u64,
}

impl Connection {
    /// A request that the card gets at `at`. Threads may post one after the other what the card gets the other way round.
    fn post(&mut self, at: Instant, serial: u64, tag: u64) {
        let place = self.outstanding.partition_point(|other| other.at <= at);
        self.outstanding.insert(place, Outstanding { at, serial, tag });
    }

    /// The tag of the request that has ended; `None` if it was posted before the queue pair was connected again.
    fn complete(&mut self, completion: &Completion) -> Option<u64> {
        // A request that the card refuses ends before those that it has taken.
        let place = self.outstanding.iter().position(|posted| posted.serial == completion.id)?;
        let Outstanding { tag, .. } = self.outstanding.remove(place)?;
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
        /// When it has been taken out of its frame.
        at: Instant,
    },
    Completion(Completion),
    /// A post that was not even tried.
    Refused {
        tag: u64,
    },
    /// The application works, and asks for something when it has done so.
    Labour {
        labour: Duration,
        commands: Vec<Command>,
    },
}

#[derive(Debug)]
enum Output {
    /// For the card.
    Command(Command),
    /// For the application.
    Event(HostEvent),
    /// Of the application.
    Asked(Command),
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
            lanes: Default::default(),
            cost: HOST_PROCESS,
            capacity_percent: 100,
            two_cores: None,
            unseen: (0, Instant::ZERO),
            busy: Duration::ZERO,
            outputs: VecDeque::new(),
            posted: 0,
            dropped: 0,
            payload: Vec::new(),
        }
    }

    /// Lets the process run on `threads` threads of [`HOST_PROCESSOR`] in place of one.
    pub fn with_threads(mut self, threads: u32) -> Self {
        assert!(threads > 0, "a process has a thread");
        self.capacity_percent = HOST_PROCESSOR.capacity_percent(threads);
        self
    }

    /// Lets the process work at these costs in place of [`HOST_PROCESS`].
    pub const fn with_cost(mut self, cost: &HostCost) -> Self {
        self.cost = *cost;
        self
    }

    /// Lets the process run on two cores with different work, at these costs.
    pub fn with_two_cores(mut self, cost: &TwoCoreCost) -> Self {
        self.two_cores = Some(*cost);
        self
    }

    /// How long the process was busy: all threads together, as far as they share the work evenly.
    pub const fn busy(&self) -> Duration {
        self.busy
    }

    /// Gives a queue pair of the card to the engine: it may post on it, its completions come back to it, and it connects it.
    pub fn assign(&mut self, queue_pair: QueuePairNumber, peering: Peering) {
        assert!(self.connection(queue_pair).is_none(), "{queue_pair} is assigned already");
        let told_at = Instant::ZERO;
        self.connections.push(Connection { queue_pair, peering, told_at, outstanding: VecDeque::new() });
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

    /// The engine, to take out what it keeps for an observer.
    pub const fn engine_mut(&mut self) -> &mut E {
        &mut self.slot.engine
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

    fn verb(&self) -> Duration {
        self.two_cores.map_or(self.cost.verb, |cost| cost.verb).duration()
    }

    /// Where timers and messages are handled.
    const fn watch(&self) -> usize {
        if self.two_cores.is_some() { WATCH } else { CALLS }
    }

    fn wait(&mut self, lane: usize, input: Input) {
        self.lanes[lane].inputs.push_back(input);
    }

    /// Takes what the application has asked for.
    fn take_commands(&mut self, commands: &mut Commands) {
        let labour = self.application.take_labour().total;
        if labour > Duration::ZERO {
            let asked = std::iter::from_fn(|| self.application_commands.take()).collect();
            self.wait(CALLS, Input::Labour { labour, commands: asked });
        }
        while let Some(command) = self.application_commands.take() {
            self.take_command(command, commands);
        }
    }

    /// Calls are the engine's, the rest the card's.
    fn take_command(&mut self, command: Command, commands: &mut Commands) {
        match command {
            Command::Reset => self.wait(CALLS, Input::Reset),
            Command::Configure(configuration) => self.wait(CALLS, Input::Configure(configuration)),
            Command::Call { engine: SLOT, token, kind, payload } => {
                self.wait(CALLS, Input::Call { token, kind, payload });
            }
            Command::Call { .. } => self.dropped += 1,
            command => commands.pass_on(command),
        }
    }

    /// Keeps what comes at `at` for then, behind what comes at the same time.
    fn put_out(&mut self, at: Instant, output: Output) {
        let place = match self.outputs.back() {
            Some((last, _)) if *last > at => self.outputs.partition_point(|(other, _)| *other <= at),
            _ => self.outputs.len(),
        };
        self.outputs.insert(place, (at, output));
    }

    /// Gives out what is ready at `now`.
    fn give_out(&mut self, now: Instant, commands: &mut Commands) {
        while self.outputs.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, output)) = self.outputs.pop_front()
        {
            match output {
                Output::Command(command) => commands.pass_on(command),
                Output::Asked(command) => self.take_command(command, commands),
                Output::Event(event) => {
                    self.application.handle(now, event, &mut self.application_commands);
                    self.take_commands(commands);
                }
            }
        }
    }

    /// Does what the threads can begin at `now`.
    fn run(&mut self, now: Instant, commands: &mut Commands) {
        self.memory.exchange(commands.host_memory());
        if let Some(cost) = &self.two_cores {
            let (writes, at) = commands.take_host_writes();
            if writes > 0 {
                self.unseen = (self.unseen.0 + writes, at + cost.visible.duration());
            }
        }
        loop {
            self.give_out(now, commands);
            let calls = self.run_lane(CALLS, now);
            let watch = self.two_cores.is_some() && self.run_lane(WATCH, now);
            if !calls && !watch {
                break;
            }
        }
        self.memory.exchange(commands.host_memory());
    }

    /// Handles one event, if a thread is free for it. Says whether it has.
    fn run_lane(&mut self, number: usize, now: Instant) -> bool {
        let lane = &mut self.lanes[number];
        if lane.free_at > now {
            return false;
        }
        let has_timers = number == if self.two_cores.is_some() { WATCH } else { CALLS };
        let timer = if !has_timers || lane.timer_had_turn && !lane.inputs.is_empty() {
            None
        } else {
            self.slot.take_due_timer(now)
        };
        lane.timer_had_turn = timer.is_some();
        let (begun, ended) = if let Some(tag) = timer {
            let look = self.two_cores.map_or(self.cost.verb, |cost| cost.timer).duration();
            (now, self.tell(now, now + look, Event::Timer { tag }))
        } else if let Some(input) = lane.inputs.pop_front() {
            let begun = if let Input::Message { at, .. } = &input { now.max(*at) } else { now };
            (begun, self.take(now, begun, input))
        } else {
            return false;
        };
        let busy = (ended - begun) * 100 / self.capacity_percent;
        let free_at = now + busy;
        self.lanes[number].free_at = self.lanes[number].free_at.max(free_at);
        self.busy += busy;
        true
    }

    /// Handles one input, on a thread that begins at `begun` with it. Returns when it is through.
    fn take(&mut self, now: Instant, begun: Instant, input: Input) -> Instant {
        let operation = self.cost.operation.duration();
        let call = self.two_cores.map_or(self.cost.operation, |cost| cost.call).duration();
        let verb = self.verb();
        match input {
            Input::Reset => {
                self.slot.clear();
                self.memory.clear();
                self.tell(now, begun + call, Event::Reset)
            }
            Input::Configure(configuration) => self.tell(now, begun + call, Event::Configure(configuration)),
            Input::Call { token, kind, payload } => {
                let message = Message { kind, payload: &payload };
                let event = Event::Call { caller: Caller::Host(token), message, last: true };
                self.tell(now, begun + call, event)
            }
            Input::Refused { tag } => {
                let status = CompletionStatus::LocalQueuePairOperationError;
                self.tell(now, begun + verb, Event::Done { tag, status })
            }
            Input::Completion(completion) => {
                let connection = self.connection(completion.queue_pair).expect("only the engine's are kept");
                match connection.complete(&completion) {
                    Some(tag) => self.tell(now, begun + verb, Event::Done { tag, status: completion.status }),
                    None => begun + verb,
                }
            }
            Input::Labour { labour, commands } => {
                let ended = begun + labour;
                for command in commands {
                    self.put_out(ended, Output::Asked(command));
                }
                ended
            }
            Input::Frame(frame) => self.take_frame(begun, &frame),
            Input::Message { from, kind, payload, last, .. } => {
                let message = Message { kind, payload: &payload };
                let peer =
                    self.config.peers.iter().position(|peer| *peer == Some(from)).and_then(NodeId::new);
                let event = match peer {
                    Some(from) => Event::Deliver { from, message, last },
                    None => Event::Call { caller: from.into(), message, last },
                };
                self.tell(now, begun + operation, event)
            }
        }
    }

    /// Takes a frame apart: its messages are the next inputs, each an event of its own.
    fn take_frame(&mut self, begun: Instant, bytes: &[u8]) -> Instant {
        let taken = begun + self.cost.frame_receive.duration();
        let Ok(Frame::Udp { ethernet, ipv4, udp, payload }) = Frame::parse(bytes) else {
            unreachable!("only Weft datagrams are kept")
        };
        if let Ok(datagram) = Datagram::parse(payload) {
            self.add_neighbour(ipv4.source, ethernet.source);
            let from = SocketAddrV4::new(ipv4.source, udp.source_port);
            let watch = self.watch();
            let inputs = &mut self.lanes[watch].inputs;
            let behind = inputs.len();
            for message in datagram.messages().filter(|message| message.engine == SLOT) {
                let (kind, payload) = (message.kind, message.payload.to_vec());
                inputs.push_back(Input::Message { from, kind, payload, last: false, at: taken });
            }
            if let Some(Input::Message { last, .. }) = inputs.range_mut(behind..).next_back() {
                *last = true;
            }
            inputs.rotate_left(behind);
        } else {
            self.dropped += 1;
        }
        taken
    }

    /// Hands one event to the engine at `now`; the first of its effects is ready at `ready` and the time of its reads later. Returns
    /// when the thread is through with the last.
    fn tell(&mut self, now: Instant, ready: Instant, event: Event<'_>) -> Instant {
        let is_call = matches!(event, Event::Call { caller: Caller::Host(_), .. });
        let Self { slot, memory, effects, .. } = self;
        slot.engine.handle(now, event, &mut Io { effects, memory });
        let Accesses { reads, repeated, .. } = self.memory.take_accesses();
        let mut ready = ready + self.effects.total_labour();
        let mut effects = std::mem::take(&mut self.effects);
        let mut unseen_for = Duration::ZERO;
        match self.two_cores {
            None => {
                ready += self.cost.memory_read.duration() * u64::from(reads)
                    + self.cost.repeated_read.duration() * u64::from(repeated);
            }
            Some(cost) => {
                ready += cost.cache_read.duration() * u64::from(repeated);
                if reads > 0 {
                    let (written, seen_at) = std::mem::take(&mut self.unseen);
                    let missed = reads.min(written);
                    ready += self.cost.memory_read.duration() * u64::from(missed)
                        + cost.cache_read.duration() * u64::from(reads - missed);
                    // What it has read a core sees later: nothing comes of it before. The core has looked then, and is not kept.
                    unseen_for = seen_at.saturating_since(ready);
                    ready += unseen_for;
                }
                let asks = |effect: &Effect| matches!(effect, Effect::Post { .. } | Effect::Send { .. });
                if is_call && effects.iter().any(asks) {
                    ready += cost.update.duration();
                }
            }
        }
        if let Some(status) = self.slot.take_status() {
            self.put_out(ready, Output::Event(HostEvent::Status { engine: SLOT, status }));
        }
        let mut changes_permissions = false;
        for effect in effects.iter() {
            ready = self.carry_out(ready, effect, &effects);
            changes_permissions |= matches!(effect, Effect::Access { .. } | Effect::Connect { .. });
        }
        effects.clear();
        self.effects = effects;
        ready = self.send_datagrams(ready);
        if self.two_cores.is_some() && changes_permissions {
            // It has taken place before the next event, on whichever core.
            for lane in &mut self.lanes {
                lane.free_at = lane.free_at.max(ready);
            }
        }
        Instant::ZERO + ready.saturating_since(Instant::ZERO + unseen_for)
    }

    /// Carries out an effect from `at` on. Returns when the thread is through with it.
    fn carry_out(&mut self, at: Instant, effect: &Effect, effects: &Effects) -> Instant {
        match effect {
            Effect::Send { to, kind, payload } => self.send(*to, effects.message(*kind, payload)),
            Effect::Reply { to, kind, payload } => {
                let message = effects.message(*kind, payload);
                match *to {
                    Caller::Host(token) => {
                        let (kind, payload) = (message.kind, message.payload.to_vec());
                        let reply = HostEvent::Reply { token, kind, payload };
                        self.put_out(at, Output::Event(reply));
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
                let verb = self.verb();
                let keeps_order = self.two_cores.is_some();
                let Some(connection) = self.connection(*queue_pair) else {
                    self.dropped += 1;
                    self.wait(CALLS, Input::Refused { tag: request.id });
                    return at;
                };
                let mut posted = at + verb;
                if keeps_order {
                    posted = posted.max(connection.told_at);
                    connection.told_at = posted;
                }
                connection.post(posted, serial, request.id);
                let mut request = *request;
                request.id = serial;
                self.put_out(posted, Output::Command(Command::PostSend(*queue_pair, request)));
                return posted;
            }
            Effect::Access { queue_pair, access } => {
                if self.connection(*queue_pair).is_none() {
                    self.dropped += 1;
                    return at;
                }
                let at = self.send_datagrams(at);
                return self.modify(at, self.cost.access.duration(), *queue_pair, &[Modify::Access(*access)]);
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
                return self.modify(at, self.cost.connect.duration(), *queue_pair, &changes);
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
        let mut half = at + whole / 2;
        if self.two_cores.is_some() {
            let connection = self.connection(queue_pair).expect("it was looked up");
            half = half.max(connection.told_at);
            connection.told_at = half;
        }
        let commands = changes.iter().map(|change| Output::Command(Command::Modify(queue_pair, *change)));
        for command in commands {
            self.put_out(half, command);
        }
        half + (whole - whole / 2)
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

    /// Sends all that was said from `ready` on. Returns when the thread is through with it.
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
                    ready += self.cost.frame_send.duration();
                    self.put_out(ready, Output::Command(Command::Transmit(frame)));
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
                self.wait(self.watch(), Input::Frame(frame));
            }
            HostEvent::Completion(completion) if self.connection(completion.queue_pair).is_some() => {
                self.wait(CALLS, Input::Completion(completion));
            }
            event => {
                self.application.handle(now, event, &mut self.application_commands);
                self.take_commands(commands);
            }
        }
        self.run(now, commands);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let [calls, watch] =
            self.lanes.each_ref().map(|lane| (!lane.inputs.is_empty()).then_some(lane.free_at));
        let timer = self.slot.next_timer().map(|at| at.max(self.lanes[self.watch()].free_at));
        let output = self.outputs.front().map(|(at, _)| *at);
        [calls, watch, timer, output, self.application.next_deadline()].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        if self.application.next_deadline().is_some_and(|at| at <= now) {
            self.application.wake(now, &mut self.application_commands);
            self.take_commands(commands);
        }
        self.run(now, commands);
    }
}

#[cfg(test)]
mod tests {
    use weft_rdma::{CompletionOpcode, PathMtu};

    use super::*;

    #[test]
    fn what_two_threads_have_posted_ends_in_the_order_of_the_card() {
        let peering = Peering {
            destination: Ipv4Addr::LOCALHOST,
            destination_qp_num: QueuePairNumber(1),
            path_mtu: PathMtu::Bytes1024,
            timeout: 3,
            retry_cnt: 7,
            max_rd_atomic: 4,
        };
        let queue_pair = QueuePairNumber(1);
        let mut connection =
            Connection { queue_pair, peering, told_at: Instant::ZERO, outstanding: VecDeque::new() };
        for (at, serial, tag) in [(20, 1, 100), (10, 2, 200), (10, 3, 300)] {
            connection.post(Instant::from_ps(at), serial, tag);
        }
        let mut ended = |id| {
            connection.complete(&Completion {
                id,
                status: CompletionStatus::Success,
                opcode: CompletionOpcode::Write,
                queue_pair,
                bytes: 0,
                immediate: None,
                vendor_error: 0,
            })
        };
        assert_eq!([2, 3, 1, 1].map(&mut ended), [Some(200), Some(300), Some(100), None]);
    }
}
