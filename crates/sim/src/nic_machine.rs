//! A NIC and its host as a machine of the world, at the pace of a cost profile.

use std::collections::VecDeque;

use weft_nic::{DmaDirection, DmaRequest, HostEvent, Nic};
use weft_time::{Duration, Instant};

use crate::cost::{self, CostProfile, Execution};
use crate::host::{Command, Commands, Host, event_bytes};
use crate::late::{Laborious, Late, event_order, is_response, order_of};
use crate::machine::Machine;
use crate::models::{Batch, BusModel, Charge, DmaModel, ProcessorModel};

/// Bytes that cores and their host exchange in one packet, at most: as on the wire.
const HOST_PACKET_BYTES: usize = 1_500;

/// Messages between cores and their host in one batch of work, in packets.
struct Packets {
    aggregates: bool,
    messages: u32,
    bytes: usize,
}

impl Packets {
    const fn new(aggregates: bool) -> Self {
        Self { aggregates, messages: 0, bytes: 0 }
    }

    const fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
    }

    const fn count(&self) -> u32 {
        if self.aggregates { self.bytes.div_ceil(HOST_PACKET_BYTES) as u32 } else { self.messages }
    }
}

/// The first thing in the queue, if its time has come.
fn pop_due<T>(queue: &mut VecDeque<(Instant, T)>, now: Instant) -> Option<T> {
    if queue.front()?.0 > now {
        return None;
    }
    queue.pop_front().map(|(_, thing)| thing)
}

/// What a machine has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How long the NIC was busy: of all its cores together, as far as they share work evenly.
    pub busy: Duration,
    /// Copies from the host's memory that have begun.
    pub dma_reads: u64,
    /// Copies to the host's memory that have begun.
    pub dma_writes: u64,
    /// Their bytes, in both directions.
    pub dma_bytes: u64,
    /// Vectors in which they were handed over.
    pub dma_vectors: u64,
    /// Packets between the NIC and its host, in both directions.
    pub host_packets: u64,
    /// Messages that engines have handled.
    pub messages: u64,
}

/// A NIC and its host.
///
/// Frames wait in a buffer until the NIC is free, and the NIC learns of them only then, so that its clock tells it when
/// it really acts. What it answers leaves after the latency that its work has, in order; except that what comes of an event with labour
/// ([`Nic::labour`]) leaves when a core is through with that, and keeps nothing else waiting: answers to one call, and packets of one queue pair, stay in order. Frames that find the buffer full are dropped
/// and counted.
#[derive(Debug)]
pub struct NicMachine<N, H> {
    nic: N,
    host: H,
    burst_frames: u64,
    inline_bytes: u64,
    receive_bytes_max: u64,
    receive_latency: Duration,
    transmit_latency: Duration,
    processor: ProcessorModel,
    wire_bus: Option<BusModel>,
    host_bus: Option<BusModel>,
    /// When the NIC can begin with the next work.
    free_at: Instant,
    /// The NIC's own deadline, which only work changes.
    nic_deadline: Option<Instant>,
    /// Frames for the NIC, and when they are within its reach.
    inbox: VecDeque<(Instant, Vec<u8>)>,
    inbox_bytes: u64,
    receive_drops: u64,
    /// Frames from the NIC, and when they reach the wire.
    outbox: VecDeque<(Instant, Vec<u8>)>,
    /// Frames that wait for verbs' accesses to memory, or for the labour of their event. Others pass them meanwhile.
    held: Late<Vec<u8>>,
    /// What is to be told to the host when the labour of its event is over,
    told_late: Late<HostEvent>,
    /// and copies to be handed over then.
    asked_late: Late<DmaRequest>,
    /// What was just polled for the host.
    told: Vec<HostEvent>,
    /// What was just polled and waits for labour, until it is known how long.
    laborious: Laborious,
    /// Whether the NIC does nothing but verbs, so that all its frames may have to wait for their accesses.
    verbs_only: bool,
    commands: Commands,
    to_nic: VecDeque<(Instant, Command)>,
    to_host: VecDeque<(Instant, HostEvent)>,
    /// Whether messages between the NIC and its host share packets.
    aggregates: bool,
    dma: Option<DmaModel>,
    /// Whether a core waits for each copy that it asks for.
    waits_for_dma: bool,
    /// Copies that the NIC has asked for, by direction, until its work is done.
    asked: [Vec<DmaRequest>; 2],
    /// Copies on their way, in the order in which they are over, and when.
    copying: VecDeque<(Instant, DmaRequest)>,
    usage: Usage,
    /// Frame buffers to use again.
    spare: Vec<Vec<u8>>,
}

impl<N: Nic, H: Host> NicMachine<N, H> {
    /// A NIC and a host that know nothing of each other yet.
    pub fn new(nic: N, host: H, profile: &CostProfile) -> Self {
        Self {
            host,
            burst_frames: profile.burst_frames.value,
            inline_bytes: match profile.execution {
                Execution::Verbs { inline_bytes, .. } => inline_bytes.value,
                _ => 0,
            },
            receive_bytes_max: profile.receive_buffer_bytes.value,
            receive_latency: cost::total(profile.receive),
            transmit_latency: cost::total(profile.transmit),
            processor: ProcessorModel::new(profile),
            wire_bus: profile.wire_bus.as_ref().map(BusModel::new),
            host_bus: profile.host_bus.as_ref().map(BusModel::new),
            free_at: Instant::ZERO,
            nic_deadline: nic.next_deadline(),
            nic,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            receive_drops: 0,
            outbox: VecDeque::new(),
            held: Late::new(),
            told_late: Late::new(),
            asked_late: Late::new(),
            told: Vec::new(),
            laborious: Laborious::default(),
            verbs_only: matches!(profile.execution, Execution::Verbs { .. }),
            commands: Commands::default(),
            to_nic: VecDeque::new(),
            to_host: VecDeque::new(),
            aggregates: true,
            dma: profile.dma.as_ref().map(DmaModel::new),
            waits_for_dma: false,
            asked: Default::default(),
            copying: VecDeque::new(),
            usage: Usage::default(),
            spare: Vec::new(),
        }
    }

    /// Says whether messages between the NIC and its host share packets, as they do at first: to measure what that is good for.
    pub const fn set_aggregation(&mut self, aggregates: bool) {
        self.aggregates = aggregates;
    }

    /// Says whether a core that asks for a copy between card and host waits until it is over, one copy after the other, and does nothing else
    /// meanwhile; at first none does (Xenic 4.3.1): to measure what that is good for.
    pub const fn set_waits_for_dma(&mut self, waits: bool) {
        self.waits_for_dma = waits;
    }

    /// The NIC, for inspection.
    pub const fn nic(&self) -> &N {
        &self.nic
    }

    /// The NIC and the host's program, to take out what they keep for an observer.
    pub const fn parts_mut(&mut self) -> (&mut N, &mut H) {
        (&mut self.nic, &mut self.host)
    }

    /// The host's program, for inspection.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// The NIC and the host's program, when the machine is no longer needed.
    pub fn into_parts(self) -> (N, H) {
        (self.nic, self.host)
    }

    /// Frames that found the receive buffer full.
    pub const fn receive_drops(&self) -> u64 {
        self.receive_drops
    }

    /// What has been done so far.
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Lets the caller act as the host's program: use it within [`crate::World::with_machine`], which then sends
    /// what comes of it.
    pub fn with_host<R>(&mut self, now: Instant, act: impl FnOnce(&mut H, &mut Commands) -> R) -> R {
        let result = self.run(act);
        self.send_commands(now);
        result
    }

    /// Runs the host's program, with its memory.
    fn run<R>(&mut self, act: impl FnOnce(&mut H, &mut Commands) -> R) -> R {
        if let Some(memory) = self.nic.host_memory() {
            std::mem::swap(memory, &mut self.commands.host_memory);
        }
        let result = act(&mut self.host, &mut self.commands);
        if let Some(memory) = self.nic.host_memory() {
            std::mem::swap(memory, &mut self.commands.host_memory);
        }
        result
    }

    /// Puts what the host has submitted on its way to the NIC.
    fn send_commands(&mut self, now: Instant) {
        while let Some(command) = self.commands.queue.pop_front() {
            let at =
                self.host_bus.as_mut().map_or(now, |bus| bus.to_card(now, command.bytes(self.inline_bytes)));
            self.to_nic.push_back((at, command));
        }
    }

    /// Gives the host what has come for it.
    fn run_host(&mut self, now: Instant) {
        while let Some(event) = pop_due(&mut self.to_host, now) {
            self.run(|host, commands| host.handle(now, event, commands));
        }
        self.send_commands(now);
    }

    /// When there will be work for the NIC and it can begin with it.
    fn work_at(&self) -> Option<Instant> {
        let frame = self.inbox.front().map(|(at, _)| *at);
        let command = self.to_nic.front().map(|(at, _)| *at);
        let copied = self.copying.front().map(|(at, _)| *at);
        [frame, command, copied, self.nic_deadline].into_iter().flatten().min().map(|at| at.max(self.free_at))
    }

    /// Holds those of the frames that were just built which wait for verbs' accesses, until `until`.
    fn hold(&mut self, first: usize, until: Instant) {
        for _ in first..self.outbox.len() {
            let (at, frame) = self.outbox.remove(first).expect("the queue is as long as it says");
            if self.verbs_only || is_response(&frame) {
                self.held.insert(until, frame);
            } else {
                self.outbox.push_back((at, frame));
            }
        }
    }

    /// Holds those of the frames that were just built which would pass held ones of their queue pair: a card sends requests, and responses, in
    /// the order of their numbers.
    fn keep_order(&mut self, first: usize) {
        let mut index = first;
        while let Some((_, frame)) = self.outbox.get(index) {
            match self.held.last(order_of(frame).as_ref(), |held| order_of(held)) {
                Some(until) => {
                    let (_, frame) = self.outbox.remove(index).expect("it was just looked at");
                    self.held.insert(until, frame);
                }
                None => index += 1,
            }
        }
    }

    /// Lets what was just polled wait for its labour.
    fn wait_for_labour(&mut self, charge: &Charge) {
        let Laborious { mut frames, mut told, mut asked } = std::mem::take(&mut self.laborious);
        for (labour, frame) in frames.drain(..) {
            let until = self.processor.ready(charge, labour);
            let behind = self.held.last(order_of(&frame).as_ref(), |held| order_of(held));
            self.held.insert(behind.map_or(until, |behind| behind.max(until)), frame);
        }
        for (labour, event) in told.drain(..) {
            let until = self.processor.ready(charge, labour);
            let behind = self.told_late.last(event_order(&event).as_ref(), event_order);
            self.told_late.insert(behind.map_or(until, |behind| behind.max(until)), event);
        }
        for (labour, request) in asked.drain(..) {
            self.asked_late.insert(self.processor.ready(charge, labour), request);
        }
        self.laborious = Laborious { frames, told, asked };
    }

    /// Lets go of what need not wait any more.
    fn release(&mut self, now: Instant) {
        while let Some((at, frame)) = self.held.pop_due(now) {
            let crossed = self.wire_bus.as_mut().map_or(at, |bus| bus.to_card(at, frame.len()));
            self.outbox.push_back((crossed + self.transmit_latency, frame));
        }
        while let Some((at, event)) = self.told_late.pop_due(now) {
            self.tell(at, event);
        }
        while let Some(at) = self.asked_late.next().filter(|at| *at <= now) {
            while let Some((_, request)) = self.asked_late.pop_due(at) {
                self.asked[request.direction as usize].push(request);
            }
            let waiting = self.begin_dma(at) / self.processor.cores();
            self.usage.busy += waiting;
            self.free_at = self.free_at.max(at) + waiting;
        }
    }

    /// Puts something on its way to the host. This queue is in order: what is ready before its predecessor waits for it.
    fn tell(&mut self, ready: Instant, event: HostEvent) {
        let at = self.host_bus.as_mut().map_or(ready, |bus| bus.to_host(ready, event_bytes(&event)));
        self.to_host.push_back((at, event));
    }

    /// Takes the copies that the NIC asks for. Returns the vectors that they fill.
    fn take_dma(&mut self) -> u32 {
        while let Some(request) = self.nic.poll_dma() {
            match self.nic.labour() {
                Duration::ZERO => self.asked[request.direction as usize].push(request),
                labour => self.laborious.asked.push((labour, request)),
            }
        }
        let late = &mut self.laborious.asked;
        if self.asked.iter().all(Vec::is_empty) && late.is_empty() {
            return 0;
        }
        late.sort_by_key(|(labour, request)| (*labour, request.direction as usize));
        let vector = self.vector(self.dma.as_ref().expect("the engines' profile lets them copy"));
        let vectors = |copies: usize| copies.div_ceil(vector) as u32;
        let together = self.laborious.asked.chunk_by(|(labour, request), (other, next)| {
            (labour, request.direction) == (other, next.direction)
        });
        self.asked.iter().map(|asked| vectors(asked.len())).sum::<u32>()
            + together.map(|copies| vectors(copies.len())).sum::<u32>()
    }

    /// The most copies that a core hands over together: who waits for a copy has asked for that one only.
    fn vector(&self, dma: &DmaModel) -> usize {
        if self.waits_for_dma { 1 } else { dma.vector() }
    }

    /// Hands over the copies that were asked for, at `at`. Returns how long cores wait for them, all together.
    fn begin_dma(&mut self, at: Instant) -> Duration {
        let mut waiting = Duration::ZERO;
        let Some(vector) = self.dma.as_ref().map(|dma| self.vector(dma)) else { return waiting };
        let Some(dma) = &mut self.dma else { return waiting };
        for (asked, direction) in self.asked.iter_mut().zip([DmaDirection::Read, DmaDirection::Write]) {
            for vector in asked.chunks(vector) {
                let bytes = vector.iter().map(|request| request.length as usize).sum();
                let over = dma.submit(at, direction, vector.len(), bytes, self.host_bus.as_mut());
                if self.waits_for_dma {
                    waiting += over - at;
                }
                let place = self.copying.partition_point(|(other, _)| *other <= over);
                for (index, request) in vector.iter().enumerate() {
                    self.copying.insert(place + index, (over, *request));
                }
                self.usage.dma_bytes += bytes as u64;
                self.usage.dma_vectors += 1;
                match direction {
                    DmaDirection::Read => self.usage.dma_reads += vector.len() as u64,
                    DmaDirection::Write => self.usage.dma_writes += vector.len() as u64,
                }
            }
            asked.clear();
        }
        waiting
    }

    /// Gives the NIC what waits for it, and takes what comes of it.
    fn run_nic(&mut self, now: Instant) {
        let mut batch = Batch::default();
        while let Some(request) = pop_due(&mut self.copying, now) {
            self.nic.complete_dma(now, &request);
        }
        let mut from_host = Packets::new(self.aggregates);
        while let Some(command) = pop_due(&mut self.to_nic, now) {
            from_host.add(command.bytes(self.inline_bytes));
            if let Command::Transmit(frame) = &command {
                batch.bytes_fetched = batch.bytes_fetched.max(frame.len() as u64);
            }
            self.commands.spare.extend(command.submit_to(&mut self.nic, now));
        }
        for _ in 0..self.burst_frames {
            let Some(frame) = pop_due(&mut self.inbox, now) else { break };
            self.inbox_bytes -= frame.len() as u64;
            batch.bytes_received += frame.len() as u64;
            self.nic.receive_frame(now, &frame);
            self.spare.push(frame);
        }
        if self.nic.next_deadline().is_some_and(|at| at <= now) {
            self.nic.handle_deadline(now);
        }
        let sent_before = self.outbox.len();
        let mut to_host = Packets::new(self.aggregates);
        let mut told = std::mem::take(&mut self.told);
        loop {
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.clear();
            if !self.nic.poll_frame(now, &mut frame) {
                self.spare.push(frame);
                break;
            }
            batch.bytes_sent += frame.len() as u64;
            match self.nic.labour() {
                Duration::ZERO => self.outbox.push_back((now, frame)),
                labour => self.laborious.frames.push((labour, frame)),
            }
        }
        while let Some(event) = self.nic.poll_host() {
            to_host.add(event_bytes(&event));
            let labour = self.nic.labour();
            let must_wait = !self.told_late.is_empty() || !self.laborious.told.is_empty();
            match labour {
                Duration::ZERO if !must_wait => told.push(event),
                labour => self.laborious.told.push((labour, event)),
            }
        }
        batch.dma_vectors = self.take_dma();
        if self.host_bus.is_some() {
            batch.host_packets = (from_host.count(), to_host.count());
        }
        // What it has cost is known only when all is done, so the times of what came of it are set in hindsight.
        batch.work = self.nic.take_work();
        let charge = self.processor.charge(now, &batch);
        if batch.work.host_writes > 0 {
            let (count, _) = self.commands.host_writes;
            self.commands.host_writes = (count + batch.work.host_writes, now);
        }
        // Cores that wait for copies are missing for other work.
        self.free_at = charge.free + self.begin_dma(charge.done) / self.processor.cores();
        self.usage.busy += self.free_at - now;
        self.usage.host_packets += u64::from(batch.host_packets.0 + batch.host_packets.1);
        self.usage.messages += u64::from(batch.work.messages);
        self.nic_deadline = self.nic.next_deadline();
        if charge.verbs_done > charge.done {
            self.hold(sent_before, charge.verbs_done);
        } else if self.processor.keeps_order() && !self.held.is_empty() {
            self.keep_order(sent_before);
        }
        for (at, frame) in self.outbox.range_mut(sent_before..) {
            let crossed =
                self.wire_bus.as_mut().map_or(charge.done, |bus| bus.to_card(charge.done, frame.len()));
            *at = crossed + self.transmit_latency;
        }
        for event in told.drain(..) {
            self.tell(charge.done, event);
        }
        self.told = told;
        self.wait_for_labour(&charge);
    }
}

impl<N: Nic, H: Host> Machine for NicMachine<N, H> {
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        let length = frame.len() as u64;
        if self.inbox_bytes + length > self.receive_bytes_max {
            self.receive_drops += 1;
            return;
        }
        let received = now + self.receive_latency;
        let at = self.wire_bus.as_mut().map_or(received, |bus| bus.to_host(received, frame.len()));
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.inbox_bytes += length;
        self.inbox.push_back((at, buffer));
    }

    fn next_deadline(&self) -> Option<Instant> {
        let told = self.to_host.front().map(|(at, _)| *at);
        let late = [self.held.next(), self.told_late.next(), self.asked_late.next()];
        let all = [self.work_at(), told, self.host.next_deadline()].into_iter().chain(late);
        all.flatten().min()
    }

    fn wake(&mut self, now: Instant) {
        self.release(now);
        if self.host.next_deadline().is_some_and(|at| at <= now) {
            self.run(|host, commands| host.wake(now, commands));
        }
        self.run_host(now);
        if self.work_at().is_some_and(|at| at <= now) {
            self.run_nic(now);
            self.run_host(now);
        }
    }

    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
        let (at, mut bytes) = self.outbox.pop_front()?;
        std::mem::swap(frame, &mut bytes);
        self.spare.push(bytes);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_nic::{HostCommand, Work};
    use weft_wire::ethernet::MacAddress;
    use weft_wire::frame::{Endpoint, Flow, emit_udp_frame};
    use weft_wire::roce::{self, Opcode};

    use super::*;
    use crate::{NoCrashes, PortConfig, SwitchConfig, World};

    const TO_HOST: u8 = 1;

    /// Sends every frame back to its sender, or gives it to its host if its byte 14 says so; byte 15 counts the reads that
    /// it needs. A call is a frame to send.
    #[derive(Debug, Default)]
    struct EchoNic {
        answers: VecDeque<Vec<u8>>,
        events: VecDeque<HostEvent>,
        received: Vec<Instant>,
        work: Work,
        memory_reads: u32,
        alarm: Option<Instant>,
        /// Copies to ask for at the alarm, and when they were completed.
        copies: Vec<DmaRequest>,
        copied: Vec<(Instant, u64)>,
        /// What a frame whose byte 16 says so costs of labour in microseconds, for each output.
        labours: VecDeque<Duration>,
        labour: Duration,
    }

    impl Nic for EchoNic {
        fn receive_frame(&mut self, now: Instant, frame: &[u8]) {
            self.received.push(now);
            self.work.frames_received += 1;
            self.work.messages += 1;
            self.work.memory.reads += self.memory_reads + u32::from(frame[15]);
            let labour = Duration::from_us(frame[16].into());
            self.work.labour += labour;
            self.work.labour_longest = self.work.labour_longest.max(labour);
            self.labours.push_back(labour);
            if frame[14] == TO_HOST {
                self.events.push_back(HostEvent::Frame(frame.to_vec()));
            } else {
                let mut answer = [&frame[6..12], &frame[..6], &frame[12..]].concat();
                answer[14] = TO_HOST;
                self.answers.push_back(answer);
            }
        }

        fn submit(&mut self, _: Instant, command: HostCommand<'_>) {
            if let HostCommand::Call { payload, .. } = command {
                self.work.messages += 1;
                self.answers.push_back(payload.to_vec());
            }
        }

        fn next_deadline(&self) -> Option<Instant> {
            self.alarm
        }

        fn handle_deadline(&mut self, now: Instant) {
            assert!(self.alarm.take().is_some_and(|at| at <= now));
            self.events.push_back(HostEvent::Reply { token: 9, kind: 0, payload: Vec::new() });
        }

        fn poll_frame(&mut self, _: Instant, frame: &mut Vec<u8>) -> bool {
            assert!(frame.is_empty());
            let Some(answer) = self.answers.pop_front() else { return false };
            frame.extend_from_slice(&answer);
            self.work.frames_sent += 1;
            self.labour = self.labours.pop_front().unwrap_or_default();
            true
        }

        fn poll_host(&mut self) -> Option<HostEvent> {
            let event = self.events.pop_front()?;
            self.labour = self.labours.pop_front().unwrap_or_default();
            Some(event)
        }

        fn labour(&self) -> Duration {
            self.labour
        }

        fn poll_dma(&mut self) -> Option<DmaRequest> {
            self.labour = self.labours.front().copied().unwrap_or_default();
            if self.alarm.is_some() { None } else { self.copies.pop() }
        }

        fn complete_dma(&mut self, now: Instant, request: &DmaRequest) {
            self.copied.push((now, request.host));
        }

        fn take_work(&mut self) -> Work {
            std::mem::take(&mut self.work)
        }

        fn counters(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    /// Calls once, or floods, and keeps what it is told.
    #[derive(Debug, Default)]
    struct Caller {
        call_at: Option<Instant>,
        calls: u32,
        told: Vec<(Instant, HostEvent)>,
    }

    impl Host for Caller {
        fn handle(&mut self, now: Instant, event: HostEvent, _: &mut Commands) {
            self.told.push((now, event));
        }

        fn next_deadline(&self) -> Option<Instant> {
            self.call_at
        }

        fn wake(&mut self, _: Instant, commands: &mut Commands) {
            self.call_at = None;
            for token in 0..self.calls {
                commands.submit(HostCommand::Call { engine: 0, token, kind: 0, payload: &frame(1, 0) });
            }
        }
    }

    fn address(machine: u8) -> [u8; 6] {
        [2, 0, 0, 0, 0, machine]
    }

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let mut frame = [address(to), address(from)].concat();
        frame.resize(60, 0);
        frame
    }

    fn ns(ns: u64) -> Duration {
        Duration::from_ns(ns)
    }

    fn world(profile: &CostProfile, caller: Caller, echo: EchoNic) -> World<NicMachine<EchoNic, Caller>> {
        let mut world = World::new(1, SwitchConfig::default());
        world.add_machine(
            PortConfig::new("caller", address(0)),
            NicMachine::new(EchoNic::default(), caller, profile),
        );
        world.add_machine(
            PortConfig::new("echo", address(1)),
            NicMachine::new(echo, Caller::default(), profile),
        );
        world
    }

    /// From one port to the other, for a smallest frame on default links.
    const NETWORK: Duration = Duration::from_ps(2 * (5_760 + 10_000) + 300_000);

    #[test]
    fn an_idle_fpga_answers_after_the_sum_of_its_parts() {
        let start = Instant::ZERO + ns(1_000);
        let caller = Caller { call_at: Some(start), calls: 1, ..Caller::default() };
        let echo = EchoNic { memory_reads: 1, ..EchoNic::default() };
        let mut world = world(&CostProfile::FPGA, caller, echo);
        let end = Instant::ZERO + ns(100_000);
        world.run_until(end, &mut NoCrashes);
        let bus = BusModel::new(&CostProfile::FPGA.host_bus.unwrap());
        // The call crosses the bus, the frame leaves 4 cycles later and passes the network.
        let called = bus.clone().to_card(start, 76);
        let arrived = called + ns(16) + ns(120 + 71) + NETWORK;
        let served = arrived + ns(71 + 152);
        assert_eq!(world.machine(crate::MachineId::new(1)).unwrap().nic().received, [served]);
        // The answer waits for the memory.
        let answered = served + ns(376) + ns(120 + 71) + NETWORK + ns(71 + 152);
        let told = bus.clone().to_host(answered + ns(16), 76);
        let machine = world.machine(crate::MachineId::new(0)).unwrap();
        assert_eq!(machine.nic().received, [answered]);
        let mut answer = frame(0, 1);
        answer[14] = TO_HOST;
        assert_eq!(machine.host().told, [(told, HostEvent::Frame(answer))]);
    }

    #[test]
    fn behind_a_bus_frames_are_later_and_the_host_is_near() {
        let caller = Caller { call_at: Some(Instant::ZERO), calls: 1, ..Caller::default() };
        let mut world = world(&CostProfile::HOST_CARD, caller, EchoNic::default());
        world.run_until(Instant::ZERO + ns(100_000), &mut NoCrashes);
        let bus = BusModel::new(&CostProfile::HOST_CARD.wire_bus.unwrap());
        let work = Duration::from_ps(139_130 + 278_261);
        let sent = bus.clone().to_card(Instant::ZERO + work, 60) + ns(162);
        let served = bus.clone().to_host(sent + NETWORK + ns(88), 60);
        assert_eq!(world.machine(crate::MachineId::new(1)).unwrap().nic().received, [served]);
    }

    #[test]
    fn a_saturated_host_does_what_it_can_and_drops_the_rest() {
        // Frames of 60 bytes back to back: 148.8 million a second, to cores that can echo 23 million.
        let mut machine = NicMachine::new(EchoNic::default(), Caller::default(), &CostProfile::HOST_CARD);
        let (mut now, mut sent, mut answered) = (Instant::ZERO, 0u64, 0u64);
        let end = Instant::ZERO + Duration::from_ms(2);
        let mut buffer = Vec::new();
        while now < end {
            while let Some(at) = machine.next_deadline().filter(|&at| at <= now) {
                machine.wake(at);
                buffer.clear();
                while machine.poll_frame(&mut buffer).is_some() {
                    answered += 1;
                    buffer.clear();
                }
            }
            machine.receive(now, &frame(0, 1));
            sent += 1;
            now += Duration::from_ps(6_720);
        }
        let expected = 23_000_000 * 2 / 1_000;
        assert!(answered.abs_diff(expected) < expected / 50, "{answered} answers, {expected} expected");
        let waiting = machine.inbox.len() as u64;
        assert_eq!(sent, answered + waiting + machine.receive_drops());
        assert!(machine.receive_drops() > sent / 2);
        assert!(machine.inbox_bytes <= 1 << 20);
        assert_eq!(machine.inbox_bytes, waiting * 60);
    }

    #[test]
    fn events_reach_the_host_in_order() {
        let mut machine = NicMachine::new(EchoNic::default(), Caller::default(), &CostProfile::FPGA);
        for reads in [5, 0] {
            let mut event = frame(0, 1);
            (event[14], event[15]) = (TO_HOST, reads);
            machine.receive(Instant::ZERO, &event);
        }
        while let Some(at) = machine.next_deadline() {
            machine.wake(at);
        }
        let told: Vec<_> = machine.host().told.iter().map(|(at, event)| (*at, event.clone())).collect();
        // The second one was ready first, and waits.
        let served = Instant::ZERO + ns(71 + 152);
        assert_eq!(machine.nic().received, [served, served + ns(16)]);
        assert_eq!(told.len(), 2);
        assert!(matches!(&told[0].1, HostEvent::Frame(frame) if frame[15] == 5));
        assert!(told.iter().all(|(at, _)| *at >= served + ns(5 * 376)));
    }

    #[test]
    fn timers_of_the_nic_fire_and_reach_the_host() {
        let alarm = Instant::ZERO + ns(5_000);
        let echo = EchoNic { alarm: Some(alarm), ..EchoNic::default() };
        let mut world = world(&CostProfile::CORES, Caller::default(), echo);
        world.run_until(Instant::ZERO + ns(100_000), &mut NoCrashes);
        let told = &world.machine(crate::MachineId::new(1)).unwrap().host().told;
        // A core makes a packet of what it tells the host.
        let told_at = alarm + Duration::from_ps(89_136);
        let at = BusModel::new(&CostProfile::CORES.host_bus.unwrap()).to_host(told_at, 16);
        assert_eq!(told[..], [(at, HostEvent::Reply { token: 9, kind: 0, payload: Vec::new() })]);
    }

    #[test]
    fn copies_take_the_time_of_their_queue_and_are_over_in_vectors() {
        let alarm = Instant::ZERO + ns(5_000);
        let copy = |direction, host| DmaRequest::new(direction, host, 0, 64);
        // Taken from the end: 16 reads, which are two vectors, and a write.
        let reads = (0..16).map(|host| copy(DmaDirection::Read, host));
        let copies = std::iter::once(copy(DmaDirection::Write, 99)).chain(reads).collect();
        let nic = EchoNic { alarm: Some(alarm), copies, ..EchoNic::default() };
        let mut machine = NicMachine::new(nic, Caller::default(), &CostProfile::CORES);
        while let Some(at) = machine.next_deadline() {
            machine.wake(at);
        }
        let copied = &machine.nic().copied;
        // The NIC is one packet to its host further when it has handed over three vectors.
        let begun = alarm + Duration::from_ps((89_136 + 3 * 190_000) / 16).max(ns(190));
        let first = copied.first().unwrap();
        assert!(first.1 == 99 && first.0 >= begun + ns(570) && first.0 < begun + ns(1_000), "{first:?}");
        let order: Vec<u64> = copied[1..].iter().map(|(_, host)| *host).collect();
        assert!(order.iter().copied().eq((0..16).rev()), "{order:?}");
        assert!(copied[1..].iter().all(|(at, _)| *at >= begun + ns(1_295)));
        let usage = machine.usage();
        assert_eq!((usage.dma_reads, usage.dma_writes, usage.dma_vectors), (16, 1, 3));
        assert_eq!((usage.dma_bytes, usage.host_packets), (17 * 64, 1));
    }

    #[test]
    fn a_core_that_waits_for_its_copies_does_nothing_else() {
        let run = |waits: bool| {
            let copies = (0..30).map(|host| DmaRequest::new(DmaDirection::Read, host, 0, 64)).collect();
            let nic = EchoNic { alarm: Some(Instant::ZERO + ns(5_000)), copies, ..EchoNic::default() };
            let mut machine = NicMachine::new(nic, Caller::default(), &CostProfile::CORES);
            machine.set_waits_for_dma(waits);
            while let Some(at) = machine.next_deadline() {
                machine.wake(at);
            }
            assert_eq!(machine.nic().copied.len(), 30);
            *machine.usage()
        };
        let (together, alone) = (run(false), run(true));
        assert_eq!((together.dma_vectors, alone.dma_vectors), (2, 30));
        // Each copy keeps its core for as long as it takes.
        let cores = ProcessorModel::new(&CostProfile::CORES).cores();
        assert!(alone.busy >= together.busy + ns(30 * 1_295) / cores, "{together:?} {alone:?}");
    }

    #[test]
    fn what_is_ready_does_not_wait_for_the_labour_of_others() {
        let mut machine = NicMachine::new(EchoNic::default(), Caller::default(), &CostProfile::CORES);
        for (number, labour) in [(1, 3), (2, 0), (3, 1)] {
            let mut request = frame(0, 1);
            (request[16], request[17]) = (labour, number);
            machine.receive(Instant::ZERO, &request);
        }
        let (mut sent, mut buffer) = (Vec::new(), Vec::new());
        while let Some(at) = machine.next_deadline() {
            machine.wake(at);
            while let Some(at) = machine.poll_frame(&mut buffer) {
                sent.push((buffer[17], at));
            }
        }
        let CostProfile { receive, transmit, .. } = CostProfile::CORES;
        let received = Instant::ZERO + cost::total(receive);
        assert!(machine.nic().received.iter().all(|at| *at == received), "they are one batch");
        // A frame's own work, and the share that the labour of all takes of the threads.
        let own = Duration::from_ps(89_136 + 44_568 + 89_136);
        let shared = (own * 3 + Duration::from_ns(4 * 3_260)) / 16;
        let left = |own| received + own + cost::total(transmit);
        let expected = [
            (2, left(shared)),
            (3, left(own + Duration::from_ns(3_260))),
            (1, left(own + Duration::from_ns(3 * 3_260))),
        ];
        assert_eq!(sent, expected);
    }

    /// The host would take the last of two answers to a call for the newer one.
    #[test]
    fn answers_to_a_call_stay_in_order_whatever_labour_they_wait_for() {
        let mut nic = EchoNic::default();
        for (token, kind, labour) in [(7, 1, 3), (7, 2, 0), (8, 1, 0)] {
            nic.events.push_back(HostEvent::Reply { token, kind, payload: Vec::new() });
            nic.labours.push_back(Duration::from_us(labour));
        }
        nic.alarm = Some(Instant::ZERO);
        let mut machine = NicMachine::new(nic, Caller::default(), &CostProfile::CORES);
        while let Some(at) = machine.next_deadline() {
            machine.wake(at);
        }
        let told: Vec<_> = machine.host().told.iter().map(|(_, event)| event.clone()).collect();
        let reply = |token, kind| HostEvent::Reply { token, kind, payload: Vec::new() };
        // The alarm's own reply comes last.
        assert_eq!(told, [reply(8, 1), reply(9, 0), reply(7, 1), reply(7, 2)]);
    }

    /// A response to a queue pair.
    fn response(queue_pair: u8, number: u8) -> Vec<u8> {
        let end = |machine| Endpoint {
            hardware: MacAddress(address(machine)),
            address: Ipv4Addr::new(10, 0, 0, machine),
            port: roce::UDP_PORT,
        };
        let flow = Flow { source: end(0), destination: end(1), type_of_service: 0 };
        let payload = [Opcode::Acknowledge as u8, 0, 0, 0, 0, 0, 0, queue_pair, 0, 0, 0, number];
        let mut frame = Vec::new();
        emit_udp_frame(&mut frame, &flow, &payload);
        frame
    }

    /// An acknowledgement that passed a READ's response would look like a gap to its requester, who would ask for everything again.
    #[test]
    fn nothing_passes_what_waits_for_memory_on_its_queue_pair() {
        let mut machine = NicMachine::new(EchoNic::default(), Caller::default(), &CostProfile::RDMA_CARD);
        let (now, until) = (Instant::ZERO + ns(10), Instant::ZERO + ns(560));
        machine.held.insert(until, response(5, 1));
        machine.outbox.extend([response(5, 2), response(6, 1), response(5, 3)].map(|frame| (now, frame)));
        machine.keep_order(0);
        assert!(machine.outbox.iter().eq(&[(now, response(6, 1))]));
        let expected = [1, 2, 3].map(|number| (until, response(5, number)));
        assert!(machine.held.iter().eq(&expected));
    }

    #[test]
    fn the_caller_may_act_as_the_host() {
        let mut world = world(&CostProfile::FPGA, Caller::default(), EchoNic::default());
        let id = crate::MachineId::new(0);
        world.with_machine(id, |machine, now| {
            machine.with_host(now, |_, commands| {
                commands.submit(HostCommand::Call { engine: 0, token: 0, kind: 0, payload: &frame(1, 0) });
            });
        });
        world.run_until(Instant::ZERO + ns(100_000), &mut NoCrashes);
        assert_eq!(world.machine(id).unwrap().host().told.len(), 1);
    }
}
