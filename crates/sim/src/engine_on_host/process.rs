//! The environment of an engine on a host: it determines the times of the engine's effects.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::{DmaRequest, Egress, HostEvent, Meter, Peering, Ports, Sender};
use weft_time::{Duration, Instant};
use weft_verbs::{AccessFlags, Completion, CompletionStatus, Modify, QueuePairNumber, WorkRequest};
use weft_waist::{Accesses, Caller, Capabilities, Configuration, Effect, Effects, Event, Memory, Message};
use weft_wire::datagram;
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{self, Endpoint, Flow};

use super::HostConfig;
use super::connection::Connection;
use crate::cost::{HOST_PROCESS, HostCost, TwoCoreCost};
use crate::host::Command;

pub(super) const CALLS: usize = 0;
pub(super) const WATCH: usize = 1;

/// The queue of a core, or of several equal ones.
#[derive(Debug, Default)]
pub(super) struct CoreQueue {
    pub(super) inputs: VecDeque<Input>,
    /// Whether a timer was handled last. Timers and inputs alternate, so that neither starves the other.
    pub(super) timer_had_turn: bool,
    /// When the next event can start.
    pub(super) free_at: Instant,
}

#[derive(Debug)]
pub(super) enum Input {
    Reset {
        engine: u8,
    },
    Configure {
        engine: u8,
        configuration: Configuration,
    },
    Call {
        slot: u8,
        token: u32,
        kind: u8,
        payload: Vec<u8>,
    },
    Frame(Vec<u8>),
    Message {
        from: Sender,
        slot: u8,
        kind: u8,
        payload: Vec<u8>,
        last: bool,
        /// When the message was decoded from its frame.
        at: Instant,
    },
    Completion(Completion),
    /// A post that was refused before it reached the card.
    Refused {
        slot: u8,
        tag: u64,
        status: CompletionStatus,
    },
    /// The application's own work. Its commands follow after the work.
    OwnWork {
        duration: Duration,
        commands: Vec<Command>,
    },
}

#[derive(Debug)]
pub(super) enum Output {
    /// A command for the card.
    Command(Command),
    /// An event for the application.
    Event(HostEvent),
    /// A command of the application.
    Asked(Command),
}

/// The threads of a process with an engine, and their shared state.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) config: HostConfig,
    /// The engine's memory. Empty except while the engine runs.
    pub(super) memory: Memory,
    egress: Egress,
    neighbours: Vec<(Ipv4Addr, MacAddress)>,
    pub(super) connections: Vec<Connection>,
    /// The first queue contains calls and completions, and everything else if there is no second core. The
    /// second queue contains timers and messages.
    pub(super) lanes: [CoreQueue; 2],
    pub(super) cost: HostCost,
    pub(super) two_cores: Option<TwoCoreCost>,
    /// CPU time of the engine's computations; `None`: none.
    pub(super) meter: Option<Box<dyn Meter>>,
    /// Writes of verbs that no core has seen yet: their number, and when the latest becomes visible to a
    /// core.
    pub(super) unseen: (u64, Instant),
    /// Outputs of handled events, each with its time, in the order of time.
    pub(super) outputs: VecDeque<(Instant, Output)>,
    /// When the thread is done with the event's effects so far.
    ready: Instant,
    /// Delay of the event's outputs until the core can see the memory that it has read. The core itself is
    /// not delayed.
    unseen_for: Duration,
    /// Whether the event has changed a queue pair through the driver.
    changes_permissions: bool,
    /// Number of requests posted. It distinguishes requests of a connection from those of an earlier
    /// connection of the same queue pair.
    posted: u64,
    /// Number of datagrams dropped because the receiver's hardware address is unknown.
    pub(super) unknown_neighbours: u64,
    payload: Vec<u8>,
}

impl Process {
    pub(super) fn new(config: HostConfig) -> Self {
        Self {
            egress: Egress::new(config.datagram_bytes),
            config,
            memory: Memory::new(0),
            neighbours: Vec::new(),
            connections: Vec::new(),
            lanes: Default::default(),
            cost: HOST_PROCESS,
            two_cores: None,
            meter: None,
            unseen: (0, Instant::ZERO),
            outputs: VecDeque::new(),
            ready: Instant::ZERO,
            unseen_for: Duration::ZERO,
            changes_permissions: false,
            posted: 0,
            unknown_neighbours: 0,
            payload: Vec::new(),
        }
    }

    pub(super) fn add_neighbour(&mut self, address: Ipv4Addr, hardware: MacAddress) {
        match self.neighbours.iter_mut().find(|neighbour| neighbour.0 == address) {
            Some(neighbour) => neighbour.1 = hardware,
            None => self.neighbours.push((address, hardware)),
        }
    }

    pub(super) fn connection(&mut self, queue_pair: QueuePairNumber) -> &mut Connection {
        let connection = self.connections.iter_mut().find(|connection| connection.queue_pair == queue_pair);
        connection.expect("a queue pair is assigned to the engine and gets its connection at once")
    }

    pub(super) fn verb(&self) -> Duration {
        self.two_cores.map_or(self.cost.verb, |cost| cost.verb).duration()
    }

    /// The queue for timers and messages.
    pub(super) const fn watch(&self) -> usize {
        if self.two_cores.is_some() { WATCH } else { CALLS }
    }

    pub(super) fn wait(&mut self, lane: usize, input: Input) {
        self.lanes[lane].inputs.push_back(input);
    }

    /// Schedules an output for `at`, after other outputs for the same time.
    pub(super) fn put_out(&mut self, at: Instant, output: Output) {
        let place = match self.outputs.back() {
            Some((last, _)) if *last > at => self.outputs.partition_point(|(other, _)| *other <= at),
            _ => self.outputs.len(),
        };
        self.outputs.insert(place, (at, output));
    }

    /// Starts an event: its first effect is ready at `ready`, plus the time of the engine's reads.
    pub(super) const fn start(&mut self, ready: Instant) {
        self.ready = ready;
        self.unseen_for = Duration::ZERO;
        self.changes_permissions = false;
    }

    /// When the thread is done with the last effect of the event.
    pub(super) fn through(&self) -> Instant {
        Instant::ZERO + self.ready.saturating_since(Instant::ZERO + self.unseen_for)
    }

    /// Changes a queue pair through the driver, which takes the time `whole` from now on. The card has the
    /// change after half of that time, before the core goes on.
    fn modify(&mut self, whole: Duration, queue_pair: QueuePairNumber, changes: &[Modify]) {
        self.send_datagrams();
        self.changes_permissions = true;
        let mut half = self.ready + whole / 2;
        if self.two_cores.is_some() {
            let connection = self.connection(queue_pair);
            half = half.max(connection.told_at);
            connection.told_at = half;
        }
        for change in changes {
            self.put_out(half, Output::Command(Command::Modify(queue_pair, *change)));
        }
        self.ready = half + (whole - whole / 2);
    }

    /// Sends all messages so far, before the thread goes on.
    fn send_datagrams(&mut self) {
        let mut payload = std::mem::take(&mut self.payload);
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
                    self.ready += self.cost.frame_send.duration();
                    self.put_out(self.ready, Output::Command(Command::Transmit(frame)));
                }
                None => self.unknown_neighbours += 1,
            }
        }
        self.payload = payload;
    }
}

impl Ports for Process {
    // The engine's memory is the host's memory, so there is nothing to copy.
    const OFFERS: Capabilities = Capabilities::VERBS;
    const NAME: &'static str = "a process on a host";

    fn memory(&mut self, _: u8) -> &mut Memory {
        &mut self.memory
    }

    fn reset(&mut self, _: u8) {
        self.memory.clear();
    }

    fn begin(&mut self, event: &Event<'_>, effects: &Effects) {
        let Accesses { reads, repeated, .. } = self.memory.take_accesses();
        if let Some(meter) = &self.meter {
            self.ready += meter.cpu_time(effects.computations());
        }
        match self.two_cores {
            None => {
                self.ready +=
                    self.cost.memory_read.duration() * reads + self.cost.repeated_read.duration() * repeated;
            }
            Some(cost) => {
                self.ready += cost.cache_read.duration() * repeated;
                if reads > 0 {
                    let (written, seen_at) = std::mem::take(&mut self.unseen);
                    let missed = reads.min(written);
                    self.ready += self.cost.memory_read.duration() * missed
                        + cost.cache_read.duration() * (reads - missed);
                    // The data that was read becomes visible to a core only later, so no output is sent
                    // before. The core itself is not delayed.
                    self.unseen_for = seen_at.saturating_since(self.ready);
                    self.ready += self.unseen_for;
                }
                let is_call = matches!(event, Event::Call { caller: Caller::Host(_), .. });
                let asks = |effect: &Effect| matches!(effect, Effect::Post { .. } | Effect::Send { .. });
                if is_call && effects.iter().any(asks) {
                    self.ready += cost.update.duration();
                }
            }
        }
    }

    fn end(&mut self) {
        self.send_datagrams();
        if self.two_cores.is_some() && self.changes_permissions {
            // The change is effective before the next event on any core.
            for lane in &mut self.lanes {
                lane.free_at = lane.free_at.max(self.ready);
            }
        }
    }

    fn tell(&mut self, event: HostEvent) {
        self.put_out(self.ready, Output::Event(event));
    }

    fn send(&mut self, slot: u8, to: SocketAddrV4, message: Message<'_>) -> bool {
        self.egress.push(to, slot, message.kind, message.payload)
    }

    fn reply_on(&mut self, _: Instant, caller: QueuePairNumber, _: Message<'_>) {
        unreachable!("a card without engines calls none, over {caller} or another queue pair")
    }

    fn post(
        &mut self,
        _: Instant,
        queue_pair: QueuePairNumber,
        mut request: WorkRequest,
    ) -> Result<(), CompletionStatus> {
        self.posted += 1;
        let serial = self.posted;
        let mut posted = self.ready + self.verb();
        let keeps_order = self.two_cores.is_some();
        let connection = self.connection(queue_pair);
        if keeps_order {
            posted = posted.max(connection.told_at);
            connection.told_at = posted;
        }
        connection.post(posted, serial, request.id);
        request.id = serial;
        self.put_out(posted, Output::Command(Command::PostSend(queue_pair, request)));
        self.ready = posted;
        Ok(())
    }

    fn refuse(&mut self, slot: u8, tag: u64, status: CompletionStatus) {
        self.wait(CALLS, Input::Refused { slot, tag, status });
    }

    fn access(&mut self, queue_pair: QueuePairNumber, access: AccessFlags) -> bool {
        self.modify(self.cost.access.duration(), queue_pair, &[Modify::Access(access)]);
        true
    }

    fn connect(
        &mut self,
        queue_pair: QueuePairNumber,
        peering: &Peering,
        send_psn: u32,
        receive_psn: u32,
    ) -> bool {
        self.connection(queue_pair).outstanding.clear();
        let changes = [
            Modify::Reset,
            Modify::Init { access: AccessFlags::REMOTE_READ },
            Modify::ReadyToReceive(peering.ready_to_receive(receive_psn)),
            Modify::ReadyToSend(peering.ready_to_send(send_psn)),
        ];
        self.modify(self.cost.connect.duration(), queue_pair, &changes);
        true
    }

    fn copy(&mut self, request: DmaRequest) {
        unreachable!("{request:?} of an engine that needs no copies")
    }
}
