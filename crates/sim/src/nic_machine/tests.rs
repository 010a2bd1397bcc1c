//! A NIC machine with a NIC that echoes.

use std::net::Ipv4Addr;

use weft_nic::{HostCommand, Work};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{Endpoint, Flow, emit_udp_frame};
use weft_wire::roce::{self, Opcode};

use super::*;
use crate::figure::Figure;
use crate::{NoCrashes, PortConfig, SwitchConfig, World};

const TO_HOST: u8 = 1;

/// Returns every frame to its sender, or passes it to its host if byte 14 of the frame says so. Byte 15 is
/// the number of memory reads. A call contains a frame to send.
#[derive(Debug, Default)]
struct EchoNic {
    answers: VecDeque<Vec<u8>>,
    events: VecDeque<HostEvent>,
    received: Vec<Instant>,
    work: Work,
    memory_reads: u64,
    alarm: Option<Instant>,
    /// Copies to request when the timer fires, and when they were completed.
    copies: Vec<DmaRequest>,
    copied: Vec<(Instant, u64)>,
    /// Additional cost of each output of a frame whose byte 16 requests it, in microseconds.
    cpu_times: VecDeque<Duration>,
    cpu_time: Duration,
}

impl Nic for EchoNic {
    fn receive_frame(&mut self, now: Instant, frame: &[u8]) {
        self.received.push(now);
        self.work.frames_received += 1;
        self.work.messages += 1;
        self.work.memory.reads += self.memory_reads + u64::from(frame[15]);
        let cpu_time = Duration::from_us(frame[16].into());
        self.work.cpu_time += cpu_time;
        self.cpu_times.push_back(cpu_time);
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
        self.events.push_back(HostEvent::Reply { engine: 0, token: 9, kind: 0, payload: Vec::new() });
    }

    fn poll_frame(&mut self, _: Instant, frame: &mut Vec<u8>) -> bool {
        assert!(frame.is_empty());
        let Some(answer) = self.answers.pop_front() else { return false };
        frame.extend_from_slice(&answer);
        self.work.frames_sent += 1;
        self.cpu_time = self.cpu_times.pop_front().unwrap_or_default();
        true
    }

    fn poll_host(&mut self) -> Option<HostEvent> {
        let event = self.events.pop_front()?;
        self.cpu_time = self.cpu_times.pop_front().unwrap_or_default();
        Some(event)
    }

    fn cpu_time(&self) -> Duration {
        self.cpu_time
    }

    fn poll_dma(&mut self) -> Option<DmaRequest> {
        self.cpu_time = self.cpu_times.front().copied().unwrap_or_default();
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

/// Calls once, or sends many frames, and records events.
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
    world.add_machine(PortConfig::new("echo", address(1)), NicMachine::new(echo, Caller::default(), profile));
    world
}

/// Time from one port to another for a smallest frame on default links.
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
    // The call crosses the bus; the frame leaves 4 cycles later and crosses the network.
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
    // Frames of 60 bytes back to back, 148.8 million per second, to cores that can echo 23 million.
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
    let under_way = machine.held.iter().count() as u64;
    assert_eq!(sent, answered + under_way + waiting + machine.receive_drops());
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
    // A core makes a packet of the event for the host.
    let told_at = alarm + Duration::from_ps(89_136);
    let at = BusModel::new(&CostProfile::CORES.host_bus.unwrap()).to_host(told_at, 16);
    assert_eq!(told[..], [(at, HostEvent::Reply { engine: 0, token: 9, kind: 0, payload: Vec::new() })]);
}

#[test]
fn copies_take_the_time_of_their_queue_and_are_over_in_vectors() {
    let alarm = Instant::ZERO + ns(5_000);
    let copy = |direction, host| DmaRequest::new(direction, host, 0, 64);
    // The copies are taken from the end: 16 reads, which are two vectors, and a write.
    let reads = (0..16).map(|host| copy(DmaDirection::Read, host));
    let copies = std::iter::once(copy(DmaDirection::Write, 99)).chain(reads).collect();
    let nic = EchoNic { alarm: Some(alarm), copies, ..EchoNic::default() };
    let mut machine = NicMachine::new(nic, Caller::default(), &CostProfile::CORES);
    while let Some(at) = machine.next_deadline() {
        machine.wake(at);
    }
    let copied = &machine.nic().copied;
    // When the NIC has submitted three vectors, it has also sent one packet to its host.
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
    // Each copy keeps its core busy for as long as it takes.
    let cores = ProcessorModel::new(&CostProfile::CORES).cores();
    assert!(alone.busy >= together.busy + ns(30 * 1_295) / cores, "{together:?} {alone:?}");
}

#[test]
fn what_is_ready_does_not_wait_for_the_cpu_time_of_others() {
    let mut machine = NicMachine::new(EchoNic::default(), Caller::default(), &CostProfile::CORES);
    for (number, cpu_time) in [(1, 3), (2, 0), (3, 1)] {
        let mut request = frame(0, 1);
        (request[16], request[17]) = (cpu_time, number);
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
    // A frame's own work, and its share of the additional costs of all frames.
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

/// A core that is done with a short piece of work does not wait for cores that have started a long one
/// before.
#[test]
fn what_cores_are_through_with_passes_what_they_have_begun_before() {
    let profile = CostProfile {
        burst_frames: Figure { value: 1, ..CostProfile::CORES.burst_frames },
        ..CostProfile::CORES
    };
    let mut machine = NicMachine::new(EchoNic::default(), Caller::default(), &profile);
    let mut long = frame(0, 1);
    long[15] = 40;
    machine.receive(Instant::ZERO, &long);
    machine.receive(Instant::ZERO, &frame(0, 2));
    let mut sent = Vec::new();
    let mut buffer = Vec::new();
    while let Some(at) = machine.next_deadline() {
        machine.wake(at);
        buffer.clear();
        while machine.poll_frame(&mut buffer).is_some() {
            sent.push(buffer[5]);
            buffer.clear();
        }
    }
    assert_eq!(sent, [2, 1]);
}

/// If two replies to a call were reordered, the host would take the older one for the newer.
#[test]
fn answers_to_a_call_stay_in_order_whatever_cpu_time_they_wait_for() {
    let mut nic = EchoNic::default();
    for (token, kind, cpu_time) in [(7, 1, 3), (7, 2, 0), (8, 1, 0)] {
        nic.events.push_back(HostEvent::Reply { engine: 0, token, kind, payload: Vec::new() });
        nic.cpu_times.push_back(Duration::from_us(cpu_time));
    }
    nic.alarm = Some(Instant::ZERO);
    let mut machine = NicMachine::new(nic, Caller::default(), &CostProfile::CORES);
    while let Some(at) = machine.next_deadline() {
        machine.wake(at);
    }
    let told: Vec<_> = machine.host().told.iter().map(|(_, event)| event.clone()).collect();
    let reply = |token, kind| HostEvent::Reply { engine: 0, token, kind, payload: Vec::new() };
    // The reply of the timer comes last.
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

/// If an acknowledgement overtook a READ's response, the requester would take that for a gap, and repeat
/// everything.
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
