//! The simulation kernel: machines, links, one switch, and time.

use serde::Serialize;
use std::collections::VecDeque;

use weft_time::{Duration, Instant};

use crate::clock::LocalClock;
use crate::disk::DiskFault;
use crate::faults::{ActiveFaults, Fault, FaultCounts, FaultKind, FaultPlan, LinkDirection, PlanError};
use crate::frames::{FrameId, FramePool};
use crate::link::{Fate, Link, LinkConfig, LinkCounters};
use crate::log::{Direction, DropCause, Event, LogHash, Record, Tap};
use crate::machine::{Director, Machine, MachineId, Machines};
use crate::queue::{Deadlines, EventQueue};
use crate::switch::{Destination, ForwardingTable, SwitchConfig};

/// If machines are woken more often than this while time does not advance, some machine's deadline never
/// moves.
const WAKES_AT_ONE_TIME_MAX: u32 = 1_000_000;

/// Configuration of a machine's port.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// The machine's name in plans and captures, such as `node0`. Names must be unique.
    pub name: String,
    /// Ethernet address, which is a static entry in the switch's table.
    pub address: [u8; 6],
    /// The machine's clock.
    pub clock: LocalClock,
    /// The link from the machine to the switch.
    pub to_switch: LinkConfig,
    /// The link from the switch to the machine.
    pub from_switch: LinkConfig,
    /// The most bytes of frames that wait while the machine is paused. Frames that do not fit are dropped.
    pub paused_bytes_max: usize,
}

impl PortConfig {
    /// A port with default links, a perfect clock, and a megabyte for frames during pauses.
    pub fn new(name: impl Into<String>, address: [u8; 6]) -> Self {
        Self {
            name: name.into(),
            address,
            clock: LocalClock::default(),
            to_switch: LinkConfig::default(),
            from_switch: LinkConfig::default(),
            paused_bytes_max: 1 << 20,
        }
    }
}

/// Numbers of frames in a run, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Frames that machines have sent.
    pub sent: u64,
    /// Copies that duplication faults have added.
    pub duplicated: u64,
    /// Copies that the switch has added by flooding.
    pub flooded: u64,
    /// Frames that machines have received.
    pub delivered: u64,
    /// Dropped by loss faults.
    pub lost: u64,
    /// Dropped because the frame check sequence detected corruption.
    pub fcs_errors: u64,
    /// Dropped because an output queue of the switch was full.
    pub queue_drops: u64,
    /// Dropped by partitions and one-way cuts.
    pub cut: u64,
    /// Frames that were not completely sent when their sender crashed.
    pub aborted: u64,
    /// Arrived at a machine that was down, or that crashed before it handled them.
    pub receiver_down: u64,
    /// Frames that arrived at a paused machine with a full buffer.
    pub receiver_full: u64,
    /// Too short to have an Ethernet header.
    pub malformed: u64,
    /// Addressed to the port that they came from, or flooded when there was no other port.
    pub same_port: u64,
    /// In transit at this moment, including frames that wait for paused machines.
    pub in_flight: u64,
}

impl Traffic {
    /// Whether every frame is accounted for.
    pub const fn is_conserved(&self) -> bool {
        let gone = self.delivered
            + self.lost
            + self.fcs_errors
            + self.queue_drops
            + self.cut
            + self.aborted
            + self.receiver_down
            + self.receiver_full
            + self.malformed
            + self.same_port;
        self.sent + self.duplicated + self.flooded == gone + self.in_flight
    }
}

/// A cluster in virtual time: machines on the ports of one switch.
///
/// Events happen in the order of their time, and for equal times in the order in which they were scheduled.
/// Machines with the same deadline follow in the order of their numbers. So the seed, the machines and the
/// plan determine a run to the last bit.
pub struct World<M> {
    seed: u64,
    now: Instant,
    switch: SwitchConfig,
    forwarding: ForwardingTable,
    ports: Vec<Port>,
    machines: Machines<M>,
    queue: EventQueue<Pending>,
    deadlines: Deadlines,
    frames: FramePool,
    plan: Vec<Fault<MachineId>>,
    active: ActiveFaults,
    /// Counts of faults that are not counted at a link.
    faults: FaultCounts,
    flooded: u64,
    /// For each pair of sender and receiver, whether a fault cuts them off: `[sender * ports + receiver]`.
    cuts: Vec<bool>,
    log: LogHash,
    taps: Vec<Box<dyn Tap>>,
    wakes_at_now: u32,
}

/// A port of the switch, and the state of the machine behind it.
struct Port {
    name: String,
    clock: LocalClock,
    to_switch: Link,
    from_switch: Link,
    /// The time of each crash of the machine.
    crashes: Vec<Instant>,
    paused_until: Option<Instant>,
    /// Frames that have arrived during the pause, and their bytes.
    waiting: VecDeque<FrameId>,
    waiting_bytes: usize,
    waiting_bytes_max: usize,
    delivered: u64,
    receiver_down: u64,
    receiver_full: u64,
    malformed: u64,
    same_port: u64,
}

/// A future event.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// A frame from this machine reaches the switch. `settled`: whether the link's faults were already
    /// applied to it.
    AtSwitch { from: MachineId, frame: FrameId, settled: bool },
    /// A frame reaches this machine. `settled`: as above.
    AtMachine { to: MachineId, frame: FrameId, settled: bool },
    /// A pause ends, unless it was extended.
    Resume(MachineId),
    /// A fault of the plan starts.
    FaultBegins(usize),
    /// A fault of the plan ends.
    FaultEnds(usize),
}

impl<M: Machine> World<M> {
    /// An empty world at time zero. `seed` determines all randomness in it.
    pub fn new(seed: u64, switch: SwitchConfig) -> Self {
        Self {
            seed,
            now: Instant::ZERO,
            switch,
            forwarding: ForwardingTable::new(switch.learned_addresses_max),
            ports: Vec::new(),
            machines: Machines::new(),
            queue: EventQueue::new(),
            deadlines: Deadlines::default(),
            frames: FramePool::default(),
            plan: Vec::new(),
            active: ActiveFaults::default(),
            faults: FaultCounts::default(),
            flooded: 0,
            cuts: Vec::new(),
            log: LogHash::default(),
            taps: Vec::new(),
            wakes_at_now: 0,
        }
    }

    /// Attaches a machine to the next port.
    ///
    /// # Panics
    /// If another machine has its name or address, or if a fault plan is already set.
    pub fn add_machine(&mut self, config: PortConfig, machine: M) -> MachineId {
        assert!(self.plan.is_empty(), "machines come before the fault plan");
        assert!(
            self.ports.iter().all(|port| port.name != config.name),
            "two machines are named {}",
            config.name
        );
        let id = MachineId::new(self.ports.len());
        self.forwarding.assign(config.address, id);
        let link = 2 * id.index() as u64;
        for tap in &mut self.taps {
            tap.machine(id, &config.name);
        }
        self.ports.push(Port {
            name: config.name,
            clock: config.clock,
            to_switch: Link::new(config.to_switch, self.seed, link),
            from_switch: Link::new(config.from_switch, self.seed, link + 1),
            crashes: Vec::new(),
            paused_until: None,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            waiting_bytes_max: config.paused_bytes_max,
            delivered: 0,
            receiver_down: 0,
            receiver_full: 0,
            malformed: 0,
            same_port: 0,
        });
        self.machines.push(machine);
        self.deadlines.resize(self.ports.len());
        self.cuts = vec![false; self.ports.len() * self.ports.len()];
        self.drain(id);
        id
    }

    /// Schedules the faults of `plan`. All machines must have been added, and time must not have advanced.
    ///
    /// # Errors
    /// The first error in the plan. Then the world has no plan.
    ///
    /// # Panics
    /// If the world has a plan, or time has advanced.
    pub fn set_plan(&mut self, plan: &FaultPlan) -> Result<(), PlanError> {
        assert!(self.plan.is_empty() && self.now == Instant::ZERO, "a world has one plan from the start");
        plan.check()?;
        let resolve = |(index, fault): (usize, &Fault)| {
            fault.resolve(|name| {
                self.machine_named(name).ok_or_else(|| PlanError::UnknownMachine {
                    fault: index + 1,
                    machine: name.to_owned(),
                    known: self.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", "),
                })
            })
        };
        self.plan = plan.faults.iter().enumerate().map(resolve).collect::<Result<_, _>>()?;
        self.active = ActiveFaults::new(self.plan.len());
        for (index, fault) in self.plan.iter().enumerate() {
            self.queue.schedule(fault.begin(), Pending::FaultBegins(index));
            if fault.end() > fault.begin() {
                self.queue.schedule(fault.end(), Pending::FaultEnds(index));
            }
        }
        Ok(())
    }

    /// Adds an observer.
    pub fn add_tap(&mut self, mut tap: Box<dyn Tap>) {
        for (index, port) in self.ports.iter().enumerate() {
            tap.machine(MachineId::new(index), &port.name);
        }
        self.taps.push(tap);
    }

    /// The present time of the world.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The present time on the clock of `machine`.
    pub fn local_now(&self, machine: MachineId) -> Instant {
        self.ports[machine.index()].clock.local(self.now)
    }

    /// The clock of `machine`.
    pub fn clock(&self, machine: MachineId) -> LocalClock {
        self.ports[machine.index()].clock
    }

    /// The name of `machine`.
    pub fn name(&self, machine: MachineId) -> &str {
        &self.ports[machine.index()].name
    }

    /// The machine with this name.
    pub fn machine_named(&self, name: &str) -> Option<MachineId> {
        self.ports.iter().position(|port| port.name == name).map(MachineId::new)
    }

    /// All machines.
    pub const fn machines(&self) -> &Machines<M> {
        &self.machines
    }

    /// The machine; `None` if it has crashed.
    pub fn machine(&self, machine: MachineId) -> Option<&M> {
        self.machines.get(machine)
    }

    /// Lets the caller act on a machine, such as by a call of its host, and then sends the machine's frames.
    /// `None` if the machine has crashed or is paused.
    pub fn with_machine<R>(
        &mut self,
        machine: MachineId,
        act: impl FnOnce(&mut M, Instant) -> R,
    ) -> Option<R> {
        let port = &self.ports[machine.index()];
        if port.paused_until.is_some() {
            return None;
        }
        let result = act(self.machines.slot(machine).as_mut()?, port.clock.local(self.now));
        self.drain(machine);
        Some(result)
    }

    /// Number of crashes of `machine`.
    pub fn incarnation(&self, machine: MachineId) -> u32 {
        self.ports[machine.index()].crashes.len() as u32
    }

    /// The hash of all events so far.
    pub const fn log_hash(&self) -> LogHash {
        self.log
    }

    /// Number of injected faults of each kind.
    pub fn fault_counts(&self) -> FaultCounts {
        let mut counts = self.faults;
        for link in self.ports.iter().flat_map(|port| [&port.to_switch.counters, &port.from_switch.counters])
        {
            counts.loss += link.lost;
            counts.duplication += link.duplicated;
            counts.reordering += link.reordered;
            counts.corruption += link.corrupted;
            counts.corruption_caught_by_fcs += link.fcs_errors;
        }
        counts
    }

    /// Frames on the link of `machine`: to the switch, and from it.
    pub fn link_counters(&self, machine: MachineId) -> (LinkCounters, LinkCounters) {
        let port = &self.ports[machine.index()];
        (port.to_switch.counters, port.from_switch.counters)
    }

    /// The outcomes of all frames.
    pub fn traffic(&self) -> Traffic {
        let mut traffic =
            Traffic { flooded: self.flooded, in_flight: self.frames.in_flight(), ..Traffic::default() };
        for port in &self.ports {
            traffic.sent += port.to_switch.counters.frames;
            traffic.delivered += port.delivered;
            traffic.receiver_down += port.receiver_down;
            traffic.receiver_full += port.receiver_full;
            traffic.malformed += port.malformed;
            traffic.same_port += port.same_port;
            for link in [&port.to_switch.counters, &port.from_switch.counters] {
                traffic.duplicated += link.duplicated;
                traffic.lost += link.lost;
                traffic.fcs_errors += link.fcs_errors;
                traffic.queue_drops += link.queue_drops;
                traffic.cut += link.cut;
                traffic.aborted += link.aborted;
            }
        }
        traffic
    }

    /// The time of the next event, if there is one.
    pub fn next_at(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map_or(Instant::FAR_FUTURE, |(at, _)| at);
        Some(self.queue.next_at().min(deadline)).filter(|&at| at < Instant::FAR_FUTURE)
    }

    /// Handles the next event, if it is due at `until` or before. Otherwise advances time to `until` and
    /// returns `false`.
    pub fn step(&mut self, until: Instant, director: &mut impl Director<M>) -> bool {
        let event_at = self.queue.next_at();
        let deadline = self.deadlines.first();
        let deadline_at = deadline.map_or(Instant::FAR_FUTURE, |(at, _)| at);
        if event_at.min(deadline_at) > until {
            self.now = self.now.max(until);
            return false;
        }
        match deadline {
            Some((at, machine)) if at < event_at => {
                self.advance(at);
                self.wake(MachineId::new(machine));
            }
            _ => {
                let Some((at, event)) = self.queue.pop() else { return false };
                self.advance(at);
                self.happen(event, director);
            }
        }
        true
    }

    /// Handles all events that are due at `until` or before.
    pub fn run_until(&mut self, until: Instant, director: &mut impl Director<M>) {
        while self.step(until, director) {}
    }

    /// Stops a machine whose program has ended, without asking the director. Returns its last state.
    /// [`World::start_again`] starts it again.
    pub fn stop(&mut self, machine: MachineId) -> Option<M> {
        self.take_down(machine)
    }

    /// Restarts a machine that was stopped, unless it runs already.
    pub fn start_again(&mut self, machine: MachineId, director: &mut impl Director<M>) {
        self.bring_back(machine, director);
    }

    /// Crashes a machine, without asking the director. Returns its last state; `None` if it was down.
    pub fn crash(&mut self, machine: MachineId) -> Option<M> {
        let remains = self.take_down(machine)?;
        self.faults.crash += 1;
        Some(remains)
    }

    fn take_down(&mut self, machine: MachineId) -> Option<M> {
        let remains = self.machines.slot(machine).take()?;
        let port = &mut self.ports[machine.index()];
        port.crashes.push(self.now);
        port.to_switch.reset(self.now);
        port.paused_until = None;
        port.waiting_bytes = 0;
        let waiting = std::mem::take(&mut port.waiting);
        self.deadlines.set(machine.index(), Instant::FAR_FUTURE);
        self.report(&Event::Crashed(machine));
        for frame in waiting {
            self.ports[machine.index()].receiver_down += 1;
            self.drop_frame(frame, machine, DropCause::ReceiverDown);
        }
        Some(remains)
    }

    /// Puts a machine in the place of a crashed one.
    ///
    /// # Panics
    /// If the machine is running.
    pub fn restart(&mut self, machine: MachineId, replacement: M) {
        self.faults.restart += 1;
        self.put_back(machine, replacement);
    }

    fn put_back(&mut self, machine: MachineId, replacement: M) {
        let slot = self.machines.slot(machine);
        assert!(slot.is_none(), "{machine} runs");
        *slot = Some(replacement);
        self.report(&Event::Restarted(machine, self.incarnation(machine)));
        self.drain(machine);
    }

    /// Pauses a machine until `until`, or for longer if it is already paused for longer. No effect on a
    /// crashed machine.
    pub fn pause(&mut self, machine: MachineId, until: Instant) {
        if self.machines.get(machine).is_none() || until <= self.now {
            return;
        }
        let port = &mut self.ports[machine.index()];
        port.paused_until = port.paused_until.max(Some(until));
        self.faults.pause += 1;
        self.deadlines.set(machine.index(), Instant::FAR_FUTURE);
        self.queue.schedule(until, Pending::Resume(machine));
        self.report(&Event::Paused(machine));
    }

    fn advance(&mut self, to: Instant) {
        debug_assert!(to >= self.now, "time runs forward");
        if to > self.now {
            self.wakes_at_now = 0;
        }
        self.now = to;
    }

    fn wake(&mut self, machine: MachineId) {
        self.wakes_at_now += 1;
        assert!(
            self.wakes_at_now < WAKES_AT_ONE_TIME_MAX,
            "time stands still: {} asks to be woken at {} again and again",
            self.name(machine),
            self.local_now(machine)
        );
        let local = self.local_now(machine);
        if let Some(target) = self.machines.slot(machine) {
            self.log.record(self.now, Record::Woken, machine.index() as u64, &[]);
            target.wake(local);
            self.drain(machine);
        }
    }

    fn happen(&mut self, event: Pending, director: &mut impl Director<M>) {
        match event {
            Pending::AtSwitch { from, frame, settled } => self.at_switch(from, frame, settled),
            Pending::AtMachine { to, frame, settled } => self.at_machine(to, frame, settled),
            Pending::Resume(machine) => self.resume(machine),
            Pending::FaultBegins(index) => self.begin_fault(index, director),
            Pending::FaultEnds(index) => {
                let kind = self.plan[index].kind();
                match self.plan[index].clone() {
                    Fault::Pause { .. } => {}
                    Fault::Outage { machine, .. } => self.bring_back(machine, director),
                    Fault::Power { machines, .. } => {
                        machines.into_iter().for_each(|machine| self.bring_back(machine, director));
                    }
                    Fault::IoError { machine, .. } => {
                        director.disk_fault(&self.machines, machine, DiskFault::Failing(false));
                    }
                    Fault::Full { machine, .. } => {
                        director.disk_fault(&self.machines, machine, DiskFault::Full(false));
                    }
                    Fault::SlowDisk { machine, .. } => {
                        director.disk_fault(&self.machines, machine, DiskFault::Slow(1));
                    }
                    _ => {
                        self.active.set(index, false);
                        self.apply_active_faults();
                    }
                }
                self.report(&Event::FaultEnded(kind));
            }
        }
    }

    /// Sends a machine's frames, and notes its deadline.
    fn drain(&mut self, id: MachineId) {
        let Some(machine) = self.machines.slot(id) else { return };
        let port = &mut self.ports[id.index()];
        let incarnation = port.crashes.len() as u32;
        loop {
            let frame = self.frames.take();
            let place = self.frames.get_mut(frame);
            let Some(departure) = machine.poll_frame(&mut place.bytes) else {
                self.frames.release(frame);
                break;
            };
            let ready = port.clock.world(departure).max(self.now);
            place.last_bit = port.to_switch.transmit(ready, place.bytes.len());
            place.incarnation = incarnation;
            let arrival = place.last_bit + port.to_switch.propagation();
            self.queue.schedule(arrival, Pending::AtSwitch { from: id, frame, settled: false });
        }
        let deadline = match machine.next_deadline() {
            Some(local) if port.paused_until.is_none() => port.clock.world(local).max(self.now),
            _ => Instant::FAR_FUTURE,
        };
        self.deadlines.set(id.index(), deadline);
    }

    fn at_switch(&mut self, from: MachineId, frame: FrameId, settled: bool) {
        if !settled {
            let port = &mut self.ports[from.index()];
            let (last_bit, incarnation) = {
                let frame = self.frames.get(frame);
                (frame.last_bit, frame.incarnation)
            };
            if port.crashes.get(incarnation as usize).is_some_and(|&crash| crash < last_bit) {
                port.to_switch.counters.aborted += 1;
                return self.drop_frame(frame, from, DropCause::SenderCrashed);
            }
            self.observe(last_bit, from, Direction::Out, frame);
            let fate = self.ports[from.index()].to_switch.decide(&mut self.frames.get_mut(frame).bytes);
            let again = |frame| Pending::AtSwitch { from, frame, settled: true };
            if !self.meet_fate(fate, from, frame, again) {
                return;
            }
        }
        match self.forwarding.forward(from, &self.frames.get(frame).bytes) {
            Destination::Malformed => {
                self.ports[from.index()].malformed += 1;
                self.drop_frame(frame, from, DropCause::Malformed);
            }
            Destination::Port(to) if to != from => self.enqueue(from, to, frame),
            Destination::Flood if self.ports.len() > 1 => {
                let last = if from.index() == self.ports.len() - 1 {
                    from.index() - 1
                } else {
                    self.ports.len() - 1
                };
                for to in (0..last).filter(|&to| to != from.index()) {
                    let copy = self.frames.copy(frame);
                    self.flooded += 1;
                    self.enqueue(from, MachineId::new(to), copy);
                }
                self.enqueue(from, MachineId::new(last), frame);
            }
            Destination::Port(_) | Destination::Flood => {
                self.ports[from.index()].same_port += 1;
                self.drop_frame(frame, from, DropCause::SamePort);
            }
        }
    }

    /// Adds a frame to the output queue of a port.
    fn enqueue(&mut self, from: MachineId, to: MachineId, frame: FrameId) {
        let cut = self.cuts[from.index() * self.ports.len() + to.index()];
        let link = &mut self.ports[to.index()].from_switch;
        if cut {
            link.counters.cut += 1;
            return self.drop_frame(frame, to, DropCause::Cut);
        }
        let ready = self.now + self.switch.forwarding_latency;
        let length = self.frames.get(frame).bytes.len();
        if !link.has_room(ready, length, self.switch.queue_bytes) {
            link.counters.queue_drops += 1;
            return self.drop_frame(frame, to, DropCause::QueueFull);
        }
        if let Some(marking) = &self.switch.marking {
            link.mark(ready, marking, &mut self.frames.get_mut(frame).bytes);
        }
        let arrival = link.transmit(ready, length) + link.propagation();
        if !self.taps.is_empty() {
            let waiting = link.waiting_bytes(ready);
            self.taps.iter_mut().for_each(|tap| tap.queue(ready, to, waiting));
        }
        self.queue.schedule(arrival, Pending::AtMachine { to, frame, settled: false });
    }

    fn at_machine(&mut self, to: MachineId, frame: FrameId, settled: bool) {
        if !settled {
            let fate = self.ports[to.index()].from_switch.decide(&mut self.frames.get_mut(frame).bytes);
            let again = |frame| Pending::AtMachine { to, frame, settled: true };
            if !self.meet_fate(fate, to, frame, again) {
                return;
            }
        }
        let port = &mut self.ports[to.index()];
        if self.machines.get(to).is_none() {
            port.receiver_down += 1;
            return self.drop_frame(frame, to, DropCause::ReceiverDown);
        }
        if port.paused_until.is_some() {
            let bytes = self.frames.get(frame).bytes.len();
            if port.waiting_bytes + bytes > port.waiting_bytes_max {
                port.receiver_full += 1;
                return self.drop_frame(frame, to, DropCause::ReceiverFull);
            }
            port.waiting_bytes += bytes;
            port.waiting.push_back(frame);
            return;
        }
        self.deliver(to, frame);
        self.drain(to);
    }

    /// Delivers a frame to a running machine.
    fn deliver(&mut self, to: MachineId, frame: FrameId) {
        self.observe(self.now, to, Direction::In, frame);
        let port = &mut self.ports[to.index()];
        port.delivered += 1;
        let local = port.clock.local(self.now);
        if let Some(machine) = self.machines.slot(to) {
            machine.receive(local, &self.frames.get(frame).bytes);
        }
        self.frames.release(frame);
    }

    /// Applies the fate of a frame, and returns whether it continues at this moment. `again` creates the
    /// event for a frame that continues later.
    fn meet_fate(
        &mut self,
        fate: Fate,
        machine: MachineId,
        frame: FrameId,
        again: impl Fn(FrameId) -> Pending,
    ) -> bool {
        match fate {
            Fate::Lost => self.drop_frame(frame, machine, DropCause::Loss),
            Fate::FcsError => self.drop_frame(frame, machine, DropCause::FcsError),
            Fate::Arrives { late_by, copy_after } => {
                if let Some(after) = copy_after {
                    let copy = self.frames.copy(frame);
                    self.queue.schedule(self.now + late_by + after, again(copy));
                }
                if late_by == Duration::ZERO {
                    return true;
                }
                self.queue.schedule(self.now + late_by, again(frame));
            }
        }
        false
    }

    fn drop_frame(&mut self, frame: FrameId, machine: MachineId, cause: DropCause) {
        self.frames.release(frame);
        self.report(&Event::Dropped(machine, cause));
    }

    fn resume(&mut self, machine: MachineId) {
        let port = &mut self.ports[machine.index()];
        if port.paused_until.is_none_or(|until| until > self.now) {
            return;
        }
        port.paused_until = None;
        port.waiting_bytes = 0;
        self.report(&Event::Resumed(machine));
        while let Some(frame) = self.ports[machine.index()].waiting.pop_front() {
            self.deliver(machine, frame);
        }
        self.drain(machine);
    }

    /// The machine that replaces a crashed one.
    fn successor(&self, machine: MachineId, director: &mut impl Director<M>) -> M {
        director.restart(machine, self.incarnation(machine), self.local_now(machine))
    }

    /// Restarts a machine that is down.
    fn bring_back(&mut self, machine: MachineId, director: &mut impl Director<M>) {
        if self.machines.get(machine).is_none() {
            let replacement = self.successor(machine, director);
            self.put_back(machine, replacement);
        }
    }

    fn cut_power(&mut self, which: &[MachineId], director: &mut impl Director<M>) {
        if !director.may_lose_power(&self.machines, which) {
            self.faults.disk_skipped += 1;
            return self.report(&Event::CrashVetoed(which[0]));
        }
        self.faults.power += 1;
        self.report(&Event::FaultBegan(FaultKind::Power));
        for &machine in which {
            let remains = self.take_down(machine);
            director.lost_power(machine, remains);
        }
    }

    fn strike_disk(
        &mut self,
        machine: MachineId,
        (kind, fault): (FaultKind, DiskFault),
        director: &mut impl Director<M>,
    ) {
        let is_struck = director.disk_fault(&self.machines, machine, fault);
        let count = match kind {
            _ if !is_struck => &mut self.faults.disk_skipped,
            FaultKind::Torn => &mut self.faults.torn,
            FaultKind::Lost => &mut self.faults.lost,
            FaultKind::Misdirect => &mut self.faults.misdirect,
            FaultKind::Rot => &mut self.faults.rot,
            FaultKind::IoError => &mut self.faults.io_error,
            FaultKind::Full => &mut self.faults.full,
            _ => &mut self.faults.slow_disk,
        };
        *count += 1;
        if is_struck {
            self.report(&Event::FaultBegan(kind));
        }
    }

    fn begin_fault(&mut self, index: usize, director: &mut impl Director<M>) {
        let kind = self.plan[index].kind();
        let fault = self.plan[index].clone();
        match fault {
            Fault::Crash { machine, .. } => {
                if self.machines.get(machine).is_none() {
                    self.faults.crash_skipped += 1;
                } else if !director.may_crash(&self.machines, machine) {
                    self.faults.crash_skipped += 1;
                    self.report(&Event::CrashVetoed(machine));
                } else if let Some(remains) = self.crash(machine) {
                    director.crashed(machine, remains);
                }
                return;
            }
            Fault::Restart { machine, .. } => {
                if self.machines.get(machine).is_none() {
                    let replacement = self.successor(machine, director);
                    self.restart(machine, replacement);
                }
                return;
            }
            Fault::Outage { machine, .. } => {
                if self.machines.get(machine).is_some() && !director.may_crash(&self.machines, machine) {
                    self.report(&Event::CrashVetoed(machine));
                } else if let Some(remains) = self.take_down(machine) {
                    self.faults.outage += 1;
                    self.report(&Event::FaultBegan(FaultKind::Outage));
                    director.crashed(machine, remains);
                }
                return;
            }
            Fault::Pause { machine, .. } => {
                let until = self.plan[index].end();
                self.report(&Event::FaultBegan(FaultKind::Pause));
                return self.pause(machine, until);
            }
            Fault::Power { machines, .. } => return self.cut_power(&machines, director),
            Fault::Torn { machine, .. } => {
                return self.strike_disk(machine, (kind, DiskFault::Torn), director);
            }
            Fault::Lost { machine, .. } => {
                return self.strike_disk(machine, (kind, DiskFault::Lost), director);
            }
            Fault::Misdirect { machine, .. } => {
                return self.strike_disk(machine, (kind, DiskFault::Misdirected), director);
            }
            Fault::Rot { machine, .. } => return self.strike_disk(machine, (kind, DiskFault::Rot), director),
            Fault::IoError { machine, .. } => {
                return self.strike_disk(machine, (kind, DiskFault::Failing(true)), director);
            }
            Fault::Full { machine, .. } => {
                return self.strike_disk(machine, (kind, DiskFault::Full(true)), director);
            }
            Fault::SlowDisk { machine, times, .. } => {
                return self.strike_disk(machine, (kind, DiskFault::Slow(times)), director);
            }
            _ => {}
        }
        match kind {
            FaultKind::Partition => self.faults.partition += 1,
            FaultKind::OneWayCut => self.faults.one_way_cut += 1,
            FaultKind::PartialPartition => self.faults.partial_partition += 1,
            FaultKind::SlowLink => self.faults.slow_link += 1,
            _ => {}
        }
        self.active.set(index, true);
        self.apply_active_faults();
        self.report(&Event::FaultBegan(kind));
    }

    fn apply_active_faults(&mut self) {
        let machines = self.ports.len();
        for (index, port) in self.ports.iter_mut().enumerate() {
            let machine = MachineId::new(index);
            port.to_switch.faults = self.active.on_link(&self.plan, machine, LinkDirection::FromMachine);
            port.from_switch.faults = self.active.on_link(&self.plan, machine, LinkDirection::ToMachine);
        }
        for (pair, cut) in self.cuts.iter_mut().enumerate() {
            let (from, to) = (MachineId::new(pair / machines), MachineId::new(pair % machines));
            *cut = self.active.cuts(&self.plan, from, to);
        }
    }

    /// Logs a frame at a machine's port, and shows it to the taps.
    fn observe(&mut self, at: Instant, machine: MachineId, direction: Direction, frame: FrameId) {
        let bytes = &self.frames.get(frame).bytes;
        let record = match direction {
            Direction::In => Record::Delivered,
            Direction::Out => Record::Sent,
        };
        self.log.record(at, record, machine.index() as u64, bytes);
        for tap in &mut self.taps {
            tap.frame(at, machine, direction, bytes);
        }
    }

    fn report(&mut self, event: &Event) {
        self.log.record_event(self.now, event);
        for tap in &mut self.taps {
            tap.event(self.now, event);
        }
    }
}
