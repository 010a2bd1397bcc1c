//! An engine in a process on the host of an RDMA card.

mod connection;
mod process;

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::{EngineHost, HostEvent, Meter, Peering, messages};
use weft_time::{Duration, Instant};
use weft_verbs::QueuePairNumber;
use weft_waist::{Caller, Engine, Event, Message, NODES_MAX};
use weft_wire::datagram;
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::Frame;

use crate::cost::{HOST_PROCESSOR, HostCost, TwoCoreCost};
use crate::host::{Command, Commands, Host};
use connection::Connection;
use process::{CALLS, Input, Output, Process, WATCH};

/// The slot of the process's only engine.
const SLOT: u8 = 0;

/// Addresses of a process and its peers.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Hardware address of the card's port.
    pub hardware: MacAddress,
    /// IPv4 address of the card's port.
    pub address: Ipv4Addr,
    /// The addresses at which the nodes of the cluster receive Weft datagrams. Only datagrams from these
    /// addresses count as messages of peers.
    pub peers: [Option<SocketAddrV4>; NODES_MAX],
    /// The longest datagram, in bytes.
    pub datagram_bytes: usize,
}

/// A process with an engine on a host whose card does only verbs and has no engines. It is the same engine as
/// in a slot of a Weft NIC, but run by host software.
///
/// Use it as the host of a [`crate::NicMachine`] whose NIC is a [`weft_nic::SoftNic`] of
/// [`weft_nic::NoEngine`] with the profile [`crate::CostProfile::RDMA_CARD`]. The engine's memory is the
/// host's memory, [`weft_verbs::Target::Host`] for the card's verbs, from address 0 on. Its posts and
/// completions cross the bus. Its messages are ordinary frames. It runs on one core, one event after the
/// other, with the costs of [`HOST_PROCESS`](crate::cost::HOST_PROCESS). A change of permissions keeps the
/// core busy for as long as the driver takes, and is effective before the next event.
///
/// With more threads ([`EngineOnHost::with_threads`]) events overlap: each takes as long as on one core, and
/// all share the threads evenly. Two threads on a core are slower than one ([`HOST_PROCESSOR`]); the model
/// charges this to their total throughput, not to the duration of an event. Contention for locks of the
/// engine's state is not charged.
///
/// With two cores for different work ([`EngineOnHost::with_two_cores`]) the first handles calls and
/// completions. The second handles timers, with the memory that they poll, and messages. It sees writes of
/// verbs after they have crossed the bus. Requests on a queue pair keep their order, whichever core posts
/// them.
///
/// `A` is the application, in the same process: the program that would be the host of a Weft NIC. Its calls
/// of the engine do not cross a bus; its other commands go to the card. Its own work ([`Host::take_cpu_time`])
/// keeps threads busy as well, and its commands follow after that work.
#[derive(Debug)]
pub struct EngineOnHost<E, A> {
    application: A,
    application_commands: Commands,
    engines: EngineHost<E>,
    process: Process,
    /// Busy time of the threads, divided by their number.
    busy: Duration,
    /// Throughput of all threads together, in per cent of one thread alone.
    capacity_percent: u64,
}

impl<E: Engine, A: Host> EngineOnHost<E, A> {
    /// A process with a new engine.
    ///
    /// # Panics
    /// If the engine needs copies between the host's memory and its own. Here these are the same memory.
    pub fn new(engine: E, application: A, config: HostConfig) -> Self {
        Self {
            engines: EngineHost::new::<Process>(vec![engine], config.peers)
                .unwrap_or_else(|unmet| panic!("{unmet}")),
            process: Process::new(config),
            application,
            application_commands: Commands::default(),
            capacity_percent: 100,
            busy: Duration::ZERO,
        }
    }

    /// Runs the process on `threads` threads of [`HOST_PROCESSOR`] instead of one.
    pub fn with_threads(mut self, threads: u32) -> Self {
        assert!(threads > 0, "a process has a thread");
        self.capacity_percent = HOST_PROCESSOR.capacity_percent(threads);
        self
    }

    /// Sets the costs of the process, instead of [`HOST_PROCESS`](crate::cost::HOST_PROCESS).
    pub const fn with_cost(mut self, cost: &HostCost) -> Self {
        self.process.cost = *cost;
        self
    }

    /// Runs the process on two cores for different work, with these costs.
    pub fn with_two_cores(mut self, cost: &TwoCoreCost) -> Self {
        self.process.two_cores = Some(*cost);
        self
    }

    /// Sets what says how long the engine's computations take.
    pub fn with_meter(mut self, meter: Box<dyn Meter>) -> Self {
        self.process.meter = Some(meter);
        self
    }

    /// Busy time of the process: of all threads together, as far as they share the work evenly.
    pub const fn busy(&self) -> Duration {
        self.busy
    }

    /// Assigns a queue pair of the card to the engine. The engine may post on it, gets its completions, and
    /// connects it.
    pub fn assign(&mut self, queue_pair: QueuePairNumber, peering: Peering) {
        assert!(self.engines.owner(queue_pair).is_none(), "{queue_pair} is assigned already");
        self.engines.assign(queue_pair, SLOT, peering);
        self.process.connections.push(Connection::new(queue_pair));
    }

    /// Enters a neighbour's address. Addresses of other neighbours are learned from their messages.
    pub fn add_neighbour(&mut self, address: Ipv4Addr, hardware: MacAddress) {
        self.process.add_neighbour(address, hardware);
    }

    /// The engine, for inspection. Its memory is part of the card's: [`weft_nic::Card::image`].
    pub fn engine(&self) -> &E {
        self.engines.engine(SLOT)
    }

    /// The engine, mutable, so that an observer can take out what it has recorded.
    pub fn engine_mut(&mut self) -> &mut E {
        self.engines.engine_mut(SLOT)
    }

    /// The application, for inspection.
    pub const fn application(&self) -> &A {
        &self.application
    }

    /// Lets the caller act as the application. Use it within [`crate::NicMachine::with_host`].
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

    /// Counters of received, dropped and refused messages, by name, in a fixed order; then the engine's own
    /// counters.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.engines.counters();
        all.push(("neighbour_unresolved", self.process.unknown_neighbours));
        all.extend(self.engines.engine_counters());
        all
    }

    /// Processes the application's work and commands.
    fn take_commands(&mut self, commands: &mut Commands) {
        let duration = self.application.take_cpu_time().total;
        if duration > Duration::ZERO {
            let asked = std::iter::from_fn(|| self.application_commands.take()).collect();
            self.process.wait(CALLS, Input::OwnWork { duration, commands: asked });
        }
        while let Some(command) = self.application_commands.take() {
            self.take_command(command, commands);
        }
    }

    /// Passes calls to the engine, and other commands to the card.
    fn take_command(&mut self, command: Command, commands: &mut Commands) {
        match command {
            Command::Reset { engine } => self.process.wait(CALLS, Input::Reset { engine }),
            Command::Configure { engine, configuration } => {
                self.process.wait(CALLS, Input::Configure { engine, configuration });
            }
            Command::Call { engine: slot, token, kind, payload } => {
                self.process.wait(CALLS, Input::Call { slot, token, kind, payload });
            }
            command => commands.pass_on(command),
        }
    }

    /// Delivers the outputs that are ready at `now`.
    fn give_out(&mut self, now: Instant, commands: &mut Commands) {
        while self.process.outputs.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, output)) = self.process.outputs.pop_front()
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

    /// Starts everything that the threads can start at `now`.
    fn run(&mut self, now: Instant, commands: &mut Commands) {
        self.process.memory.exchange(commands.host_memory());
        if let Some(cost) = &self.process.two_cores {
            let (writes, at) = commands.take_host_writes();
            if writes > 0 {
                self.process.unseen = (self.process.unseen.0 + writes, at + cost.visible.duration());
            }
        }
        loop {
            self.give_out(now, commands);
            let calls = self.run_lane(CALLS, now);
            let watch = self.process.two_cores.is_some() && self.run_lane(WATCH, now);
            if !calls && !watch {
                break;
            }
        }
        self.process.memory.exchange(commands.host_memory());
    }

    /// Handles one event, if a thread is free for it. Returns whether it did.
    fn run_lane(&mut self, number: usize, now: Instant) -> bool {
        let lane = &mut self.process.lanes[number];
        if lane.free_at > now {
            return false;
        }
        let has_timers = number == if self.process.two_cores.is_some() { WATCH } else { CALLS };
        let timer = if !has_timers || lane.timer_had_turn && !lane.inputs.is_empty() {
            None
        } else {
            self.engines.take_due_timer(now)
        };
        lane.timer_had_turn = timer.is_some();
        let (begun, ended) = if let Some((slot, tag)) = timer {
            let look = self.process.two_cores.map_or(self.process.cost.verb, |cost| cost.timer).duration();
            (now, self.tell(now, now + look, slot, Event::Timer { tag }))
        } else if let Some(input) = lane.inputs.pop_front() {
            let begun = if let Input::Message { at, .. } = &input { now.max(*at) } else { now };
            (begun, self.take(now, begun, input))
        } else {
            return false;
        };
        let busy = (ended - begun) * 100 / self.capacity_percent;
        let free_at = now + busy;
        self.process.lanes[number].free_at = self.process.lanes[number].free_at.max(free_at);
        self.busy += busy;
        true
    }

    /// Handles one input on a thread that starts at `begun`. Returns when the thread is done.
    fn take(&mut self, now: Instant, begun: Instant, input: Input) -> Instant {
        let operation = self.process.cost.operation.duration();
        let call = self.process.two_cores.map_or(self.process.cost.operation, |cost| cost.call).duration();
        let verb = self.process.verb();
        match input {
            Input::Reset { engine } => self.tell(now, begun + call, engine, Event::Reset),
            Input::Configure { engine, configuration } => {
                self.tell(now, begun + call, engine, Event::Configure(configuration))
            }
            Input::Call { slot, token, kind, payload } => {
                let message = Message { kind, payload: &payload };
                let event = Event::Call { caller: Caller::Host(token), message, last: true };
                self.tell(now, begun + call, slot, event)
            }
            Input::Refused { slot, tag, status } => {
                self.tell(now, begun + verb, slot, Event::Done { tag, status })
            }
            Input::Completion(completion) => {
                let (queue_pair, status) = (completion.queue_pair, completion.status);
                match self.process.connection(queue_pair).complete(&completion) {
                    Some(tag) => self.tell(now, begun + verb, SLOT, Event::Done { tag, status }),
                    None => begun + verb,
                }
            }
            Input::OwnWork { duration, commands } => {
                let ended = begun + duration;
                for command in commands {
                    self.process.put_out(ended, Output::Asked(command));
                }
                ended
            }
            Input::Frame(frame) => self.take_frame(begun, &frame),
            Input::Message { from, slot, kind, payload, last, .. } => {
                let message = Message { kind, payload: &payload };
                self.tell(now, begun + operation, slot, from.event(message, last))
            }
        }
    }

    /// Decodes a frame. Its messages become the next inputs, each an event of its own.
    fn take_frame(&mut self, begun: Instant, bytes: &[u8]) -> Instant {
        let taken = begun + self.process.cost.frame_receive.duration();
        let Ok(Frame::Udp { ethernet, ipv4, udp, payload }) = Frame::parse(bytes) else {
            unreachable!("only Weft datagrams are kept")
        };
        if let Some(datagram) = self.engines.open(payload) {
            self.process.add_neighbour(ipv4.source, ethernet.source);
            let from = self.engines.sender(SocketAddrV4::new(ipv4.source, udp.source_port));
            let watch = self.process.watch();
            let inputs = &mut self.process.lanes[watch].inputs;
            let behind = inputs.len();
            inputs.extend(messages(&datagram).map(|(slot, message, last)| Input::Message {
                from,
                slot,
                kind: message.kind,
                payload: message.payload.to_vec(),
                last,
                at: taken,
            }));
            inputs.rotate_left(behind);
        }
        taken
    }

    /// Delivers an event to an engine at `now`. The first effect is ready at `ready`, plus the time of the
    /// engine's reads. Returns when the thread is done with the last effect.
    fn tell(&mut self, now: Instant, ready: Instant, slot: u8, event: Event<'_>) -> Instant {
        self.process.start(ready);
        self.engines.handle(now, slot, event, &mut self.process);
        self.process.through()
    }

    /// Whether a frame is for the engine.
    fn is_datagram(&self, bytes: &[u8]) -> bool {
        matches!(
            Frame::parse(bytes),
            Ok(Frame::Udp { ipv4, udp, .. })
                if ipv4.destination == self.process.config.address && udp.destination_port == datagram::UDP_PORT
        )
    }
}

impl<E: Engine, A: Host> Host for EngineOnHost<E, A> {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        match event {
            HostEvent::Frame(frame) if self.is_datagram(&frame) => {
                self.process.wait(self.process.watch(), Input::Frame(frame));
            }
            HostEvent::Completion(completion) if self.engines.owner(completion.queue_pair).is_some() => {
                self.process.wait(CALLS, Input::Completion(completion));
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
            self.process.lanes.each_ref().map(|lane| (!lane.inputs.is_empty()).then_some(lane.free_at));
        let timer =
            self.engines.next_timer().map(|at| at.max(self.process.lanes[self.process.watch()].free_at));
        let output = self.process.outputs.front().map(|(at, _)| *at);
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
