//! A NIC and its host as a machine of the world, with the times of a cost profile.

use std::collections::VecDeque;

use weft_nic::{DmaDirection, DmaRequest, HostEvent, Nic};
use weft_time::{Duration, Instant};

use crate::cost::{self, CostProfile, Execution};
use crate::delay_queue::{DelayQueue, Outcome, event_order, is_response, order_of};
use crate::host::{Command, Commands, Host, event_bytes};
use crate::machine::Machine;
use crate::models::{Batch, BusModel, Charge, DmaModel, ProcessorModel};

/// The most bytes that cores and their host exchange in one packet, as on the wire.
const HOST_PACKET_BYTES: usize = 1_500;

/// Counts the packets between cores and their host in one batch of work.
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

/// Removes the first item of the queue, if it is due.
fn pop_due<T>(queue: &mut VecDeque<(Instant, T)>, now: Instant) -> Option<T> {
    if queue.front()?.0 > now {
        return None;
    }
    queue.pop_front().map(|(_, thing)| thing)
}

/// Resource usage of a machine so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Busy time of the NIC: of all its cores together, as far as they share the work evenly.
    pub busy: Duration,
    /// Copies from the host's memory that were started.
    pub dma_reads: u64,
    /// Copies to the host's memory that were started.
    pub dma_writes: u64,
    /// Bytes of the copies, in both directions.
    pub dma_bytes: u64,
    /// Vectors in which the copies were submitted.
    pub dma_vectors: u64,
    /// Packets between the NIC and its host, in both directions.
    pub host_packets: u64,
    /// Messages that engines have handled.
    pub messages: u64,
}

/// A NIC and its host.
///
/// Frames wait in a buffer until the NIC is free, and only then are passed to the NIC, so that its clock
/// shows the time at which it handles them. Its outputs leave after the latency of their work. From a
/// pipeline they leave in order. From cores, each output leaves when a core has finished it, including the
/// event's additional cost ([`Nic::cpu_time`]), and delays no other output. Only replies to one call, and
/// packets of one queue pair, stay in order. Frames that arrive when the buffer is full are dropped and
/// counted.
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
    /// When the NIC can start the next work.
    free_at: Instant,
    /// The NIC's own deadline, which changes only when the NIC works.
    nic_deadline: Option<Instant>,
    /// Frames for the NIC, and when they are available to it.
    inbox: VecDeque<(Instant, Vec<u8>)>,
    inbox_bytes: u64,
    receive_drops: u64,
    /// Frames from the NIC, and when they reach the wire.
    outbox: VecDeque<(Instant, Vec<u8>)>,
    /// Frames that wait for verbs' accesses to memory, or for cores. Other frames overtake them meanwhile.
    held: DelayQueue<Vec<u8>>,
    /// Events for the host that wait for a core.
    delayed_events: DelayQueue<HostEvent>,
    /// Copies that wait for a core before they are submitted.
    delayed_copies: DelayQueue<DmaRequest>,
    /// Events that were just polled for the host.
    new_events: Vec<HostEvent>,
    /// Outputs that were just polled. How long they wait for cores is not known yet.
    outcome: Outcome,
    /// Whether the NIC does only verbs. Then all its frames may have to wait for verbs' accesses to memory.
    verbs_only: bool,
    commands: Commands,
    to_nic: VecDeque<(Instant, Command)>,
    to_host: VecDeque<(Instant, HostEvent)>,
    /// Whether messages between the NIC and its host share packets.
    aggregates: bool,
    dma: Option<DmaModel>,
    /// Whether a core waits for the completion of each copy that it requests.
    waits_for_dma: bool,
    /// Copies that are to be submitted together, by direction.
    asked: [Vec<DmaRequest>; 2],
    /// Copies under way and when they complete, in this order.
    copying: VecDeque<(Instant, DmaRequest)>,
    usage: Usage,
    /// Frame buffers for reuse.
    spare: Vec<Vec<u8>>,
}

impl<N: Nic, H: Host> NicMachine<N, H> {
    /// A NIC and a host that have not exchanged anything yet.
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
            held: DelayQueue::new(),
            delayed_events: DelayQueue::new(),
            delayed_copies: DelayQueue::new(),
            new_events: Vec::new(),
            outcome: Outcome::default(),
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

    /// Sets whether messages between the NIC and its host share packets, which is the default. For
    /// measurements of the benefit.
    pub const fn set_aggregation(&mut self, aggregates: bool) {
        self.aggregates = aggregates;
    }

    /// Sets whether a core that requests a copy between card and host waits until the copy is complete, one copy
    /// after the other. By default no core waits (Xenic 4.3.1). For measurements of the benefit.
    pub const fn set_waits_for_dma(&mut self, waits: bool) {
        self.waits_for_dma = waits;
    }

    /// The NIC, for inspection.
    pub const fn nic(&self) -> &N {
        &self.nic
    }

    /// The NIC and the host's program, mutable, so that an observer can take out what they have recorded.
    pub const fn parts_mut(&mut self) -> (&mut N, &mut H) {
        (&mut self.nic, &mut self.host)
    }

    /// The host's program, for inspection.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// Takes the machine apart into the NIC and the host's program.
    pub fn into_parts(self) -> (N, H) {
        (self.nic, self.host)
    }

    /// Number of frames dropped because the receive buffer was full.
    pub const fn receive_drops(&self) -> u64 {
        self.receive_drops
    }

    /// Resource usage so far.
    pub const fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Lets the caller act as the host's program. Use it within [`crate::World::with_machine`], which then
    /// sends the outputs.
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

    /// Sends the host's commands across the bus to the NIC.
    fn send_commands(&mut self, now: Instant) {
        while let Some(command) = self.commands.queue.pop_front() {
            let at =
                self.host_bus.as_mut().map_or(now, |bus| bus.to_card(now, command.bytes(self.inline_bytes)));
            self.to_nic.push_back((at, command));
        }
    }

    /// Delivers events to the host that have arrived.
    fn run_host(&mut self, now: Instant) {
        while let Some(event) = pop_due(&mut self.to_host, now) {
            self.run(|host, commands| host.handle(now, event, commands));
        }
        self.send_commands(now);
    }

    /// When the NIC can start its next work, if there is any.
    fn work_at(&self) -> Option<Instant> {
        let frame = self.inbox.front().map(|(at, _)| *at);
        let command = self.to_nic.front().map(|(at, _)| *at);
        let copied = self.copying.front().map(|(at, _)| *at);
        [frame, command, copied, self.nic_deadline].into_iter().flatten().min().map(|at| at.max(self.free_at))
    }

    /// Holds back, until `until`, those of the new frames that wait for verbs' accesses to memory.
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

    /// Holds back those of the new frames that would overtake held ones of their queue pair: a card sends
    /// requests in the order of their PSNs, and responses too.
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

    /// Delays the outputs that were just polled until a core is done with them.
    fn wait_for_cores(&mut self, charge: &Charge) {
        let Outcome { mut frames, events: mut told, copies: mut asked } = std::mem::take(&mut self.outcome);
        for (cpu_time, frame) in frames.drain(..) {
            let until = self.processor.ready(charge, cpu_time);
            let behind = self.held.last(order_of(&frame).as_ref(), |held| order_of(held));
            self.held.insert(behind.map_or(until, |behind| behind.max(until)), frame);
        }
        for (cpu_time, event) in told.drain(..) {
            let until = self.processor.ready(charge, cpu_time);
            let behind = self.delayed_events.last(event_order(&event).as_ref(), event_order);
            self.delayed_events.insert(behind.map_or(until, |behind| behind.max(until)), event);
        }
        for (cpu_time, request) in asked.drain(..) {
            self.delayed_copies.insert(self.processor.ready(charge, cpu_time), request);
        }
        self.outcome = Outcome { frames, events: told, copies: asked };
    }

    /// Releases the outputs whose time has come.
    fn release(&mut self, now: Instant) {
        while let Some((at, frame)) = self.held.pop_due(now) {
            let crossed = self.wire_bus.as_mut().map_or(at, |bus| bus.to_card(at, frame.len()));
            self.outbox.push_back((crossed + self.transmit_latency, frame));
        }
        while let Some((at, event)) = self.delayed_events.pop_due(now) {
            self.tell(at, event);
        }
        while let Some(at) = self.delayed_copies.next().filter(|at| *at <= now) {
            while let Some((_, request)) = self.delayed_copies.pop_due(at) {
                self.asked[request.direction as usize].push(request);
            }
            // Cores that wait for copies are not available for other work.
            let waiting = self.begin_dma(at) / self.processor.cores();
            self.usage.busy += waiting;
            self.free_at = self.free_at.max(at) + waiting;
        }
    }

    /// Sends an event to the host. The queue keeps its order: a ready event waits for earlier ones.
    fn tell(&mut self, ready: Instant, event: HostEvent) {
        let at = self.host_bus.as_mut().map_or(ready, |bus| bus.to_host(ready, event_bytes(&event)));
        self.to_host.push_back((at, event));
    }

    /// Takes the copies that the NIC requests. Returns the number of vectors that they fill.
    fn take_dma(&mut self) -> u32 {
        while let Some(request) = self.nic.poll_dma() {
            assert!(
                !self.processor.is_in_order(),
                "an engine copies to or from host memory, which only cost profiles of SmartNIC cores simulate: \
                 choose `cores` or `cores-all`"
            );
            self.outcome.copies.push((self.nic.cpu_time(), request));
        }
        let asked = &mut self.outcome.copies;
        if asked.is_empty() {
            return 0;
        }
        asked.sort_by_key(|(cpu_time, request)| (*cpu_time, request.direction as usize));
        let vector = self.vector(self.dma.as_ref().expect("the engines' profile lets them copy"));
        let together = self.outcome.copies.chunk_by(|(cpu_time, request), (other, next)| {
            (cpu_time, request.direction) == (other, next.direction)
        });
        together.map(|copies| copies.len().div_ceil(vector) as u32).sum()
    }

    /// The most copies that a core submits together. With waiting cores, an engine that waits for a copy has
    /// requested only that one.
    fn vector(&self, dma: &DmaModel) -> usize {
        if self.waits_for_dma { 1 } else { dma.vector() }
    }

    /// Submits the requested copies at `at`. Returns how long cores wait for them in total.
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

    /// Passes the waiting work to the NIC, and takes the outputs.
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
        let mut told = std::mem::take(&mut self.new_events);
        loop {
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.clear();
            if !self.nic.poll_frame(now, &mut frame) {
                self.spare.push(frame);
                break;
            }
            batch.bytes_sent += frame.len() as u64;
            if self.processor.is_in_order() {
                self.outbox.push_back((now, frame));
            } else {
                self.outcome.frames.push((self.nic.cpu_time(), frame));
            }
        }
        while let Some(event) = self.nic.poll_host() {
            to_host.add(event_bytes(&event));
            if self.processor.is_in_order() {
                told.push(event);
            } else {
                self.outcome.events.push((self.nic.cpu_time(), event));
            }
        }
        batch.dma_vectors = self.take_dma();
        if self.host_bus.is_some() {
            batch.host_packets = (from_host.count(), to_host.count());
        }
        // The cost is known only at the end, so the times of the outputs are set afterwards.
        batch.work = self.nic.take_work();
        let charge = self.processor.charge(now, &batch);
        if batch.work.host_writes > 0 {
            let (count, _) = self.commands.host_writes;
            self.commands.host_writes = (count + batch.work.host_writes, now);
        }
        self.free_at = charge.free;
        self.usage.busy += self.free_at - now;
        self.usage.host_packets += u64::from(batch.host_packets.0 + batch.host_packets.1);
        self.usage.messages += batch.work.messages;
        self.nic_deadline = self.nic.next_deadline();
        if charge.verbs_done > charge.done {
            self.hold(sent_before, charge.verbs_done);
        } else if self.verbs_only && !self.held.is_empty() {
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
        self.new_events = told;
        self.wait_for_cores(&charge);
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
        let late = [self.held.next(), self.delayed_events.next(), self.delayed_copies.next()];
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
mod tests;
