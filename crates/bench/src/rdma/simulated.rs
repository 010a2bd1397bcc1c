//! The bench in virtual time: two machines on one switch, at the pace of a cost profile.

use std::net::Ipv4Addr;

use weft_gateware::{Latency, RtlNic, RtlNicConfig};
use weft_nic::{HostCommand, HostEvent, Nic, RdmaDriver, SoftNic, SoftNicConfig, Work};
use weft_sim::{
    Commands, CostProfile, Execution, FaultPlan, Figure, Host, LinkConfig, NicMachine, NoCrashes, PortConfig,
    SwitchConfig, World,
};
use weft_time::{Duration, Instant};
use weft_wire::ethernet::{self, Ethernet, MacAddress};
use weft_wire::icrc;
use weft_wire::ipv4::Ipv4;
use weft_wire::roce::Opcode;
use weft_wire::udp::Udp;

use super::client::{Client, Measurement};
use super::connection::{Connection, NoEngine, Side, card_config, connect, open};
use super::load::{Load, RdmaOperation};
use super::payload::{ClientMemory, ServerMemory, Verification};
use super::server::Server;
use super::{Limit, RdmaError};
use crate::progress::Progress;

/// When the client begins: the server's receive requests are posted before.
const BEGIN: Instant = Instant::from_ps(1_000_000);

/// Nothing has completed for so long: nothing will.
const STALL: Duration = Duration::from_secs(10);

/// Bytes of a frame on the wire beside the frame itself: preamble, frame check sequence, gap.
const FRAMING_BYTES: u64 = 8 + 4 + 12;

/// What a run in virtual time yields.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) measurement: Measurement,
    pub(super) verification: Verification,
    pub(super) log_hash: String,
}

/// A NIC that can be measured.
pub(super) trait Candidate: Nic + RdmaDriver + Sized {
    /// The NIC of one side, which knows where the other is.
    fn build(load: &Load, profile: &CostProfile, side: Side) -> Self;
}

impl Candidate for SoftNic<NoEngine> {
    fn build(load: &Load, _: &CostProfile, side: Side) -> Self {
        let card = card_config(load);
        let config = SoftNicConfig { hardware: hardware(side), address: address(side), card };
        let mut nic = SoftNic::new(config, Vec::new());
        nic.add_neighbour(address(side.other()), hardware(side.other()));
        nic
    }
}

impl Candidate for RtlNic {
    /// # Panics
    /// If the profile is not that of a clocked NIC.
    fn build(load: &Load, profile: &CostProfile, side: Side) -> Self {
        let Execution::Clocked { cycle, host_read, host_write } = profile.execution else {
            panic!("{} does not say what lies around the gateware", profile.name)
        };
        let cycles = |figure: Figure| figure.value.div_ceil(cycle.value);
        let latency = |read, write| Latency { read_cycles: cycles(read), write_cycles: cycles(write) };
        let card = card_config(load);
        let mut nic = Self::new(&RtlNicConfig {
            hardware: hardware(side),
            address: address(side),
            transport: card.transport,
            region_bytes: card.region_bytes,
            bits_per_s: LinkConfig::default().bits_per_s,
            hbm: latency(profile.memory.read, profile.memory.write),
            host: latency(host_read, host_write),
            pressure: None,
            power_on_seed: 0,
        });
        nic.add_neighbour(address(side.other()), hardware(side.other()));
        nic
    }
}

/// A NIC whose host's memory is looked after: what a real host does to its buffers before it posts and after a
/// completion. It takes no virtual time, as all that a host does for itself.
#[derive(Debug)]
struct HostedNic<N> {
    nic: N,
    memory: HostMemory,
}

#[derive(Debug)]
enum HostMemory {
    Client(ClientMemory),
    Server(ServerMemory),
}

impl<N: Nic + RdmaDriver> Nic for HostedNic<N> {
    fn receive_frame(&mut self, now: Instant, frame: &[u8]) {
        self.nic.receive_frame(now, frame);
    }

    fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        if let (HostMemory::Client(memory), HostCommand::PostSend(_, request)) = (&self.memory, &command) {
            memory.prepare(self.nic.memory(), request);
        }
        self.nic.submit(now, command);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.nic.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.nic.handle_deadline(now);
    }

    fn poll_frame(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        self.nic.poll_frame(now, frame)
    }

    fn poll_host(&mut self) -> Option<HostEvent> {
        let event = self.nic.poll_host()?;
        if let HostEvent::Completion(completion) = &event {
            let bytes = self.nic.memory();
            match &mut self.memory {
                HostMemory::Client(memory) => memory.complete(bytes, completion),
                HostMemory::Server(memory) => memory.complete(bytes, completion),
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
enum Program {
    Client { client: Box<Client>, begun: bool },
    Server(Server),
}

impl Program {
    fn post(client: &mut Client, now: Instant, commands: &mut Commands) {
        while let Some((queue_pair, request)) = client.next_request(now) {
            commands.submit(HostCommand::PostSend(queue_pair, request));
        }
    }
}

impl Host for Program {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        let HostEvent::Completion(completion) = event else { return };
        match self {
            Self::Client { client, .. } => {
                client.handle(now, &completion);
                Self::post(client, now, commands);
            }
            Self::Server(server) => {
                if let Some((queue_pair, request)) = server.handle(&completion) {
                    commands.submit(HostCommand::PostReceive(queue_pair, request));
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        matches!(self, Self::Client { begun: false, .. }).then_some(BEGIN)
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        if let Self::Client { client, begun } = self {
            *begun = true;
            Self::post(client, now, commands);
        }
    }
}

fn hardware(side: Side) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, 1 + side as u8])
}

fn address(side: Side) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + side as u8)
}

/// Both NICs, connected.
fn connected<N: Candidate>(load: &Load, profile: &CostProfile) -> ((N, Connection), (N, Connection)) {
    let mut client = N::build(load, profile, Side::Client);
    let mut server = N::build(load, profile, Side::Server);
    let here = open(&mut client, load, Side::Client, address(Side::Client));
    let there = open(&mut server, load, Side::Server, address(Side::Server));
    let both = (
        connect(&mut client, load, &here, &there.introduction),
        connect(&mut server, load, &there, &here.introduction),
    );
    let (Some(client_connection), Some(server_connection)) = both else {
        unreachable!("both sides have the same number of queue pairs")
    };
    ((client, client_connection), (server, server_connection))
}

/// Runs `load` between the machines `client` and `server`.
pub(super) fn run<N: Candidate>(
    load: &Load,
    profile: &CostProfile,
    faults: Option<&FaultPlan>,
    progress: &mut Progress,
) -> Result<Outcome, RdmaError> {
    let ((mut client_nic, client_connection), (mut server_nic, server_connection)) =
        connected::<N>(load, profile);
    let client = Client::new(*load, client_connection);
    let server = Server::new(*load, server_connection);
    for (queue_pair, request) in server.first_requests() {
        let posted = server_nic.post_receive(queue_pair, request);
        posted.expect("the queue is as deep as there are requests");
    }
    let client_memory = ClientMemory::new(*load, client_nic.memory());
    let server_memory = ServerMemory::new(*load, server_nic.memory());
    let client_nic = HostedNic { nic: client_nic, memory: HostMemory::Client(client_memory) };
    let server_nic = HostedNic { nic: server_nic, memory: HostMemory::Server(server_memory) };

    let mut world = World::new(load.seed, SwitchConfig::default());
    let client_machine =
        NicMachine::new(client_nic, Program::Client { client: Box::new(client), begun: false }, profile);
    let server_machine = NicMachine::new(server_nic, Program::Server(server), profile);
    let port = |name, side| PortConfig::new(name, hardware(side).0);
    let client = world.add_machine(port("client", Side::Client), client_machine);
    let server = world.add_machine(port("server", Side::Server), server_machine);
    if let Some(plan) = faults {
        world.set_plan(plan)?;
    }

    let (mut completed, mut completed_at) = (0, world.now());
    loop {
        let moved = world.step(completed_at + STALL, &mut NoCrashes);
        let Program::Client { client, .. } = world.machine(client).expect("nothing crashes").host() else {
            unreachable!("the first machine is the client")
        };
        if client.is_done() {
            break;
        }
        if client.completed() > completed {
            (completed, completed_at) = (client.completed(), world.now());
            progress.set(completed);
        } else if !moved {
            return Err(RdmaError::Failed(format!("nothing has completed in {STALL} of virtual time")));
        }
    }
    let log_hash = world.log_hash().to_string();
    // What the server's host has been told is all there once its bus has fallen silent.
    let settle = world.now() + Duration::from_ms(1);
    world.run_until(settle, &mut NoCrashes);
    let (client, server) = (world.crash(client), world.crash(server));
    let (client, server) = (client.expect("it runs"), server.expect("it runs"));
    finish(client, server, log_hash)
}

/// Takes the machines apart and compares what they hold.
fn finish<N: Candidate>(
    client: NicMachine<HostedNic<N>, Program>,
    server: NicMachine<HostedNic<N>, Program>,
    log_hash: String,
) -> Result<Outcome, RdmaError> {
    let (client_nic, client) = client.into_parts();
    let (mut server_nic, server) = server.into_parts();
    let (Program::Client { client, .. }, Program::Server(server)) = (client, server) else {
        unreachable!("one machine is the client and one the server")
    };
    let (HostMemory::Client(client_memory), HostMemory::Server(server_memory)) =
        (client_nic.memory, server_nic.memory)
    else {
        unreachable!("one machine is the client and one the server")
    };
    let measurement = client.finish().map_err(RdmaError::Failed)?;
    server.finish(&measurement.sent).map_err(RdmaError::Failed)?;
    let mut verification = server_memory.finish(server_nic.nic.memory(), &measurement.sent);
    verification.merge(client_memory.verification());
    Ok(Outcome { measurement, verification, log_hash })
}

/// What one direction of the link can carry: nothing but packets of the operation, with all that surrounds them.
pub(super) fn limit(load: &Load) -> Limit {
    let LinkConfig { bits_per_s, .. } = LinkConfig::default();
    // The direction that carries more of the operation: of a READ its response.
    let opcodes = |first, middle, last, only| {
        let packets = load.packets();
        (0..packets).map(move |packet| match (packet == 0, packet + 1 == packets) {
            (true, true) => only,
            (true, false) => first,
            (false, false) => middle,
            (false, true) => last,
        })
    };
    use Opcode::{
        CompareSwap, FetchAdd, ReadResponseFirst, ReadResponseLast, ReadResponseMiddle, ReadResponseOnly,
        SendFirst, SendLast, SendLastWithImmediate, SendMiddle, SendOnly, SendOnlyWithImmediate, WriteFirst,
        WriteLast, WriteLastWithImmediate, WriteMiddle, WriteOnly, WriteOnlyWithImmediate,
    };
    let headers: Vec<Opcode> = match load.operation {
        RdmaOperation::Write => opcodes(WriteFirst, WriteMiddle, WriteLast, WriteOnly).collect(),
        RdmaOperation::WriteImm => {
            opcodes(WriteFirst, WriteMiddle, WriteLastWithImmediate, WriteOnlyWithImmediate).collect()
        }
        RdmaOperation::Send => opcodes(SendFirst, SendMiddle, SendLast, SendOnly).collect(),
        RdmaOperation::SendImm => {
            opcodes(SendFirst, SendMiddle, SendLastWithImmediate, SendOnlyWithImmediate).collect()
        }
        RdmaOperation::Read => {
            opcodes(ReadResponseFirst, ReadResponseMiddle, ReadResponseLast, ReadResponseOnly).collect()
        }
        RdmaOperation::FetchAdd => vec![FetchAdd],
        RdmaOperation::CmpSwap => vec![CompareSwap],
    };
    let mut wire_bytes = 0;
    for (packet, opcode) in (0..).zip(headers) {
        let payload = if opcode.has_payload() { (load.size - packet * load.mtu).min(load.mtu) } else { 0 };
        let roce = opcode.header_bytes() + payload.next_multiple_of(4) as usize + icrc::BYTES;
        let frame = Ethernet::BYTES + Ipv4::BYTES + Udp::BYTES + roce;
        wire_bytes += frame.max(ethernet::FRAME_BYTES_MIN) as u64 + FRAMING_BYTES;
    }
    let messages_per_s = bits_per_s as f64 / (8 * wire_bytes) as f64;
    Limit {
        goodput_bits_per_s: messages_per_s * f64::from(load.size) * 8.0,
        messages_per_s,
        what: format!(
            "the wire: {} Gb/s, {wire_bytes} bytes a message with all headers, ICRC, frame check sequence, preamble and gap",
            bits_per_s / 1_000_000_000
        ),
    }
}
