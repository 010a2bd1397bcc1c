//! The benchmark in virtual time: machines on one switch, with the times of a cost profile.

use std::cell::RefCell;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::rc::Rc;

use weft_gateware::{OnPath, RtlNic, RtlNicConfig, Service};
use weft_harness::capture::{Capture, CaptureWindow};
use weft_harness::gateware;
use weft_harness::progress::Progress;
use weft_nic::{CardConfig, HostCommand, HostEvent, Nic, NoEngine, RdmaDriver, SoftNic, SoftNicConfig, Work};
use weft_rdma::{MemoryFault, RegionMemory};
use weft_sim::{
    Commands, CostProfile, FaultPlan, Host, LinkConfig, MachineId, NicMachine, NoCrashes, PortConfig,
    SwitchConfig, World,
};
use weft_time::{Duration, Instant};
use weft_verbs::{CompletionOpcode, Target};
use weft_wire::ethernet::MacAddress;

use super::census::Census;
use super::client::{Client, Measurement};
use super::connection::{Connection, EndPlace, Side, card_config, connect, open};
use super::draw::draw;
use super::limit::opcodes_of;
use super::load::Load;
use super::payload::{self, ClientMemory, ServerMemory, Verification};
use super::served::{Served, readings};
use super::server::Server;
use super::trace::FrameTrace;
use super::watch::IncastMonitor;
use super::{RdmaError, Waveform};

/// Time at which the clients start. The servers post their receive requests before.
pub(super) const BEGIN: Instant = Instant::from_ps(1_000_000);

/// Time without completions after which a run fails.
const STALL: Duration = Duration::from_secs(10);

/// The machines and the directions between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    /// A client and a server.
    Pair,
    /// This many machines, each the client of the next machine and the server of the one before.
    Ring(u32),
    /// This many clients of one server, which is the last machine.
    Incast(u32),
}

impl Topology {
    fn machines(self) -> usize {
        match self {
            Self::Pair => 2,
            Self::Ring(machines) => machines as usize,
            Self::Incast(clients) => clients as usize + 1,
        }
    }

    /// Number of connection ends on a machine.
    fn ends(self, machine: usize) -> u32 {
        match self {
            Self::Pair => 1,
            Self::Ring(_) => 2,
            Self::Incast(clients) if machine == clients as usize => clients,
            Self::Incast(_) => 1,
        }
    }

    /// Where the memory of the server of direction `number` begins, in units of the memory size of one
    /// connection end.
    fn server_part(self, number: u64) -> u64 {
        match self {
            Self::Pair => 0,
            Self::Ring(_) => 1,
            Self::Incast(_) => number,
        }
    }

    /// The client machine and the server machine of each direction.
    pub(super) fn directions(self) -> Vec<(usize, usize)> {
        match self {
            Self::Pair => vec![(0, 1)],
            Self::Ring(_) => {
                let machines = self.machines();
                (0..machines).map(|machine| (machine, (machine + 1) % machines)).collect()
            }
            Self::Incast(clients) => (0..clients as usize).map(|client| (client, clients as usize)).collect(),
        }
    }

    fn name(self, machine: usize) -> String {
        match (self, machine) {
            (Self::Pair | Self::Ring(2), 0) => "client".into(),
            (Self::Pair | Self::Ring(2), _) => "server".into(),
            (Self::Incast(clients), _) if machine == clients as usize => "server".into(),
            _ => format!("nic{machine}"),
        }
    }
}

/// Parameters of a run, and the files of it to keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Simulation<'a> {
    pub(super) load: &'a Load,
    pub(super) topology: Topology,
    pub(super) profile: &'a CostProfile,
    /// What processes the data between wire and memory.
    pub(super) on_path: &'a OnPath,
    pub(super) faults: Option<&'a FaultPlan>,
    pub(super) capture: Option<&'a PathBuf>,
    pub(super) trace: bool,
    pub(super) waveform: Option<&'a Waveform>,
    /// Whether queue pairs limit their rates after congestion notifications.
    pub(super) rate_control: bool,
    pub(super) switch: SwitchConfig,
    /// The monitor of an incast; `None` in other runs.
    pub(super) watch: Option<&'a Rc<RefCell<IncastMonitor>>>,
}

impl Simulation<'_> {
    fn card(&self, machine: usize) -> CardConfig {
        let mut card = card_config(self.load, self.topology.ends(machine));
        card.transport.rate_control = self.rate_control;
        card
    }

    /// The addresses of the other machines.
    fn others(&self, machine: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.topology.machines()).filter(move |other| *other != machine)
    }

    /// The services on the path.
    fn service(&self) -> Option<&Service> {
        match self.on_path {
            OnPath::Services(service) => Some(service),
            OnPath::Nothing | OnPath::Psp => None,
        }
    }
}

/// Results of one direction.
#[derive(Debug)]
pub(super) struct Flowed {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) measurement: Measurement,
}

/// How fast clocked NICs were computed under load. The times are wall-clock times, which the seed does not
/// determine.
#[derive(Clone, Debug)]
pub(super) struct Speed {
    pub(super) wall_s: f64,
    /// Number of computed cycles of each NIC.
    pub(super) cycles: Vec<u64>,
}

/// Results of a run in virtual time.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) directions: Vec<Flowed>,
    pub(super) verification: Verification,
    pub(super) log_hash: String,
    /// The packets on the wire under load.
    pub(super) census: Census,
    pub(super) speed: Option<Speed>,
    pub(super) trace: Option<Vec<u8>>,
}

/// A NIC that can be measured.
pub(super) trait Candidate: Nic + RdmaDriver + Served + Sized {
    /// Creates the NIC of one machine and gives it the addresses of the other machines.
    fn build(simulation: &Simulation<'_>, machine: usize) -> Self;

    /// Number of clock cycles computed so far; `None` if the NIC has no clock.
    fn cycles_run(&self) -> Option<u64> {
        None
    }

    /// Starts to write a waveform.
    fn begin_waveform(&mut self, _: &Waveform) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ends the waveform.
    fn end_waveform(&mut self) {}
}

impl Candidate for SoftNic<NoEngine> {
    fn build(simulation: &Simulation<'_>, machine: usize) -> Self {
        assert!(!matches!(simulation.on_path, OnPath::Psp), "PSP is measured in the gateware");
        let card = simulation.card(machine);
        let config = SoftNicConfig { hardware: hardware(machine), address: address(machine), card };
        let mut nic = SoftNic::new(config, Vec::new());
        for other in simulation.others(machine) {
            nic.add_neighbour(address(other), hardware(other));
        }
        nic
    }
}

impl Candidate for RtlNic {
    fn build(simulation: &Simulation<'_>, machine: usize) -> Self {
        let card = simulation.card(machine);
        let mut nic = Self::new(&simulation.on_path.on_card(RtlNicConfig {
            transport: card.transport,
            region_bytes: card.region_bytes,
            ..gateware::card(hardware(machine), address(machine))
        }));
        for other in simulation.others(machine) {
            nic.add_neighbour(address(other), hardware(other));
            simulation.on_path.associate(&mut nic, address(machine), address(other));
        }
        nic
    }

    fn cycles_run(&self) -> Option<u64> {
        Some(Self::cycles_run(self))
    }

    fn begin_waveform(&mut self, waveform: &Waveform) -> io::Result<()> {
        Self::begin_waveform(self, &waveform.path)
    }

    fn end_waveform(&mut self) {
        Self::end_waveform(self);
    }
}

/// The part of a machine's memory that belongs to one connection end.
struct Part<'a> {
    memory: &'a mut dyn RegionMemory,
    base: u64,
}

impl RegionMemory for Part<'_> {
    fn read(&mut self, target: Target, address: u64, length: usize) -> Result<&[u8], MemoryFault> {
        self.memory.read(target, self.base + address, length)
    }

    fn write(&mut self, target: Target, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.memory.write(target, self.base + address, bytes)
    }
}

/// A NIC together with its host's work on the buffers: what a real host does before it posts a request and
/// after a completion. This takes no virtual time, as with everything that a simulated host does on its own.
#[derive(Debug)]
struct HostedNic<N> {
    nic: N,
    client: Option<ClientMemory>,
    /// The memory of each server of the machine, and the address at which it begins. The client's memory
    /// begins at 0.
    servers: Vec<(ServerMemory, u64)>,
    /// The waveform to write, and whether it has been started. `None` after its end.
    waveform: Option<(Waveform, bool)>,
    waveform_error: Option<io::Error>,
}

impl<N: Candidate> HostedNic<N> {
    /// Starts and ends the waveform at the right times.
    fn follow_waveform(&mut self, now: Instant) {
        let Some((waveform, begun)) = &mut self.waveform else { return };
        if !*begun && now >= waveform.from {
            *begun = true;
            self.waveform_error = self.nic.begin_waveform(waveform).err();
        }
        if now >= waveform.until {
            self.nic.end_waveform();
            self.waveform = None;
        }
    }
}

/// Whether a completion is that of a receive request.
fn is_receive(opcode: CompletionOpcode) -> bool {
    matches!(opcode, CompletionOpcode::Receive | CompletionOpcode::ReceiveWriteWithImmediate)
}

impl<N: Candidate> Nic for HostedNic<N> {
    fn receive_frame(&mut self, now: Instant, frame: &[u8]) {
        self.nic.receive_frame(now, frame);
    }

    fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        if let (Some(memory), HostCommand::PostSend(_, request)) = (&self.client, &command) {
            memory.prepare(self.nic.memory(), request);
        }
        self.nic.submit(now, command);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.nic.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        if self.waveform.is_some() {
            self.follow_waveform(now);
        }
        self.nic.handle_deadline(now);
    }

    fn poll_frame(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        self.nic.poll_frame(now, frame)
    }

    fn poll_host(&mut self) -> Option<HostEvent> {
        let event = self.nic.poll_host()?;
        if let HostEvent::Completion(completion) = &event {
            match (&mut self.client, self.servers.first_mut()) {
                (_, Some((memory, base))) if is_receive(completion.opcode) => {
                    let mut part = Part { memory: self.nic.memory(), base: *base };
                    memory.complete(&mut part, completion);
                }
                (Some(memory), _) => memory.complete(self.nic.memory(), completion),
                _ => {}
            }
        }
        Some(event)
    }

    fn take_work(&mut self) -> Work {
        self.nic.take_work()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.nic.counters()
    }
}

/// The program on a machine's host.
#[derive(Debug)]
struct Program {
    client: Option<Box<Client>>,
    begun: bool,
    /// The servers of the machine. More than one is possible only if the operation takes no receive requests.
    servers: Vec<Server>,
}

impl Program {
    fn post(&mut self, now: Instant, commands: &mut Commands) {
        let Some(client) = &mut self.client else { return };
        while let Some((queue_pair, request)) = client.next_request(now) {
            commands.submit(HostCommand::PostSend(queue_pair, request));
        }
    }

    /// Starts the latency measurement, after all clients have finished their load.
    fn release(&mut self, now: Instant, commands: &mut Commands) {
        if let Some(client) = &mut self.client {
            client.release();
        }
        self.post(now, commands);
    }
}

impl Host for Program {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        let HostEvent::Completion(completion) = event else { return };
        match (&mut self.client, self.servers.first_mut()) {
            (_, Some(server)) if is_receive(completion.opcode) => {
                if let Some((queue_pair, request)) = server.handle(&completion) {
                    commands.submit(HostCommand::PostReceive(queue_pair, request));
                }
            }
            (Some(client), _) => {
                client.handle(now, &completion);
                self.post(now, commands);
            }
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        (self.client.is_some() && !self.begun).then_some(BEGIN)
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        self.begun = true;
        self.post(now, commands);
    }
}

fn hardware(machine: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, 1 + machine as u8])
}

fn address(machine: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + machine as u8)
}

type PerftestMachine<N> = NicMachine<HostedNic<N>, Program>;

/// Creates the machines with their programs and connects them.
fn machines<N: Candidate>(simulation: &Simulation<'_>) -> Vec<PerftestMachine<N>> {
    let Simulation { load, topology, profile, .. } = *simulation;
    let directions = topology.directions();
    let machines = topology.machines();
    let mut nics: Vec<HostedNic<N>> = (0..machines)
        .map(|machine| HostedNic {
            nic: N::build(simulation, machine),
            client: None,
            servers: Vec::new(),
            waveform: simulation.waveform.filter(|_| machine == 0).map(|waveform| (waveform.clone(), false)),
            waveform_error: None,
        })
        .collect();
    let mut programs: Vec<Program> =
        (0..machines).map(|_| Program { client: None, begun: false, servers: Vec::new() }).collect();
    for (number, &(from, to)) in (0..).zip(&directions) {
        // Each direction has different data. Only the first one measures the latency of single messages.
        let load = match number {
            0 => *load,
            _ => Load { seed: draw(load.seed, number, 0), latency_messages: 0, ..*load },
        };
        let server_base = topology.server_part(number) * payload::memory_bytes(&load);
        let place = |side, machine: usize| EndPlace {
            side,
            machine: machine as u32,
            base: if side == Side::Server { server_base } else { 0 },
            address: address(machine),
        };
        let here = open(&mut nics[from].nic, &load, place(Side::Client, from));
        let there = open(&mut nics[to].nic, &load, place(Side::Server, to));
        let both = (
            connect(&mut nics[from].nic, &load, &here, &there.introduction),
            connect(&mut nics[to].nic, &load, &there, &here.introduction),
        );
        let (Some(client), Some(server)) = both else {
            unreachable!("both sides have the same number of queue pairs")
        };
        let client: Connection = client;
        if let Some(service) = simulation.service() {
            nics[to].nic.serve_all(service, server.queue_pairs()).expect("checked before anything else");
        }
        let server = Server::new(load, server);
        for (queue_pair, request) in server.first_requests() {
            let posted = nics[to].nic.post_receive(queue_pair, request);
            posted.expect("the queue is as deep as there are requests");
        }
        nics[from].client = Some(ClientMemory::new(load, nics[from].nic.memory()));
        let mut part = Part { memory: nics[to].nic.memory(), base: server_base };
        let memory = ServerMemory::new(load, &mut part, simulation.service().cloned());
        nics[to].servers.push((memory, server_base));
        let client = Client::new(load, client);
        let client = if directions.len() > 1 { client.hold() } else { client };
        programs[from].client = Some(Box::new(client));
        programs[to].servers.push(server);
    }
    let both = nics.into_iter().zip(programs);
    both.map(|(nic, program)| NicMachine::new(nic, program, profile)).collect()
}

/// Runs a load.
pub(super) fn run<N: Candidate>(
    simulation: &Simulation<'_>,
    progress: &mut Progress,
) -> Result<Outcome, RdmaError> {
    let Simulation { load, topology, .. } = *simulation;
    let mut world = World::new(load.seed, simulation.switch);
    let mut stations: Vec<MachineId> = Vec::new();
    for (number, machine) in machines::<N>(simulation).into_iter().enumerate() {
        let port = PortConfig::new(topology.name(number), hardware(number).0);
        stations.push(world.add_machine(port, machine));
    }
    if let Some(plan) = simulation.faults {
        world.set_plan(plan)?;
    }
    let census = Rc::new(RefCell::new(Census::new(&opcodes_of(load.operation))));
    world.add_tap(Box::new(Rc::clone(&census)));
    let capture = simulation.capture.map(|folder| {
        let capture = Rc::new(RefCell::new(Capture::new(folder.clone(), CaptureWindow::ALL)));
        world.add_tap(Box::new(Rc::clone(&capture)));
        capture
    });
    let trace = simulation.trace.then(|| {
        let trace = Rc::new(RefCell::new(FrameTrace::new(LinkConfig::default().bits_per_s)));
        world.add_tap(Box::new(Rc::clone(&trace)));
        trace
    });

    if let Some(watch) = simulation.watch {
        world.add_tap(Box::new(Rc::clone(watch)));
    }

    let client_of = |world: &World<PerftestMachine<N>>, direction: (usize, usize)| {
        let machine = world.machine(stations[direction.0]).expect("nothing crashes");
        let client = machine.host().client.as_deref().expect("each direction begins at a client");
        (client.completed(), client.is_through(), client.is_done())
    };
    let cycles = |world: &World<PerftestMachine<N>>| -> Option<Vec<u64>> {
        let machine = |id: &MachineId| world.machine(*id).expect("nothing crashes").nic().nic.cycles_run();
        stations.iter().map(machine).collect()
    };
    let (begun, cycles_before) = (std::time::Instant::now(), cycles(&world));
    let mut speed = None;
    let mut loaded = None;
    let (mut completed, mut completed_at) = (0, world.now());
    loop {
        let moved = world.step(completed_at + STALL, &mut NoCrashes);
        let mut all = (0, true, true);
        for (number, direction) in topology.directions().into_iter().enumerate() {
            let (completed, through, done) = client_of(&world, direction);
            if let Some(watch) = simulation.watch {
                watch.borrow_mut().completed(world.now(), number, completed);
            }
            all = (all.0 + completed, all.1 && through, all.2 && done);
        }
        if all.1 && loaded.is_none() {
            loaded = Some(census.borrow().clone());
            let wall_s = begun.elapsed().as_secs_f64();
            speed = cycles(&world).zip(cycles_before.as_ref()).map(|(after, before)| Speed {
                wall_s,
                cycles: after.iter().zip(before).map(|(after, before)| after - before).collect(),
            });
            for &machine in stations.iter().filter(|_| topology != Topology::Pair) {
                world.with_machine(machine, |machine, now| {
                    machine.with_host(now, |host, commands| host.release(now, commands))
                });
            }
            continue;
        }
        if all.2 {
            break;
        }
        if all.0 > completed {
            (completed, completed_at) = (all.0, world.now());
            progress.set(completed);
        } else if !moved {
            return Err(RdmaError::Failed(format!("nothing has completed in {STALL} of virtual time")));
        }
    }
    let log_hash = world.log_hash().to_string();
    // During this time, the notifications that are still on the bus of a server's host arrive.
    let settle = world.now() + Duration::from_ms(1);
    world.run_until(settle, &mut NoCrashes);
    if let Some(capture) = capture {
        capture.borrow_mut().finish()?;
    }
    let trace = trace.map(|trace| trace.borrow_mut().finish());
    if let (Some(watch), Some(&server)) = (simulation.watch, stations.last()) {
        let counters = |id: &MachineId| world.machine(*id).expect("nothing crashes").nic().counters();
        watch.borrow_mut().finish(world.link_counters(server).1, stations.iter().map(counters));
    }
    let stations = stations.into_iter().map(|machine| world.crash(machine).expect("it runs")).collect();
    let (directions, verification) = finish(simulation, stations)?;
    let census = loaded.unwrap_or_else(|| census.borrow().clone());
    Ok(Outcome { directions, verification, log_hash, census, speed, trace })
}

/// Ends the programs of all machines, and compares the memory contents.
fn finish<N: Candidate>(
    simulation: &Simulation<'_>,
    stations: Vec<PerftestMachine<N>>,
) -> Result<(Vec<Flowed>, Verification), RdmaError> {
    let topology = simulation.topology;
    let mut parts: Vec<(HostedNic<N>, Program)> = stations.into_iter().map(NicMachine::into_parts).collect();
    let mut verification = Verification::default();
    let mut directions = Vec::new();
    for (from, to) in topology.directions() {
        let client = parts[from].1.client.take().expect("each direction begins at a client");
        let measurement = client.finish().map_err(RdmaError::Failed)?;
        let (nic, program) = &mut parts[to];
        let server = program.servers.remove(0);
        let readings = readings(&mut nic.nic, simulation.service(), server.queue_pairs());
        server.finish(&measurement.sent).map_err(RdmaError::Failed)?;
        let (memory, base) = nic.servers.remove(0);
        let mut part = Part { memory: nic.nic.memory(), base };
        verification.merge(&memory.finish(&mut part, &measurement.sent, &readings));
        verification.merge(parts[from].0.client.as_ref().expect("it was there").verification());
        directions.push(Flowed { from: topology.name(from), to: topology.name(to), measurement });
    }
    let first = &mut parts[0].0;
    match first.waveform_error.take() {
        Some(error) => Err(RdmaError::Io(error)),
        None if first.waveform.as_ref().is_some_and(|(_, begun)| !begun) => {
            Err(RdmaError::Failed("the run was over before the waveform's window began".into()))
        }
        None => Ok((directions, verification)),
    }
}
