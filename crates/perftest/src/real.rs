//! The benchmark between two processes, over UDP sockets of the operating system.
//!
//! The client starts the server as a child process on another loopback address. As with perftest, they
//! exchange queue pair numbers, PSNs and keys over TCP, and then use RoCE v2 on port 4791. Rounds of RDMA
//! alternate with rounds of plain UDP with datagrams of the same length, between the same processes and
//! addresses, because a machine's speed depends on what else runs on it.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::{Command, id};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weft_net::plain::{PlainLoad, PlainReceiver, PlainSender, ReceiverReport};
use weft_net::process::ChildProcess;
use weft_net::{CardPorts, Clock, Datagram, Endpoint, IdlePolicy, PortOptions, Stop, UdpPort};
use weft_nic::{Card, HostCommand, HostEvent, NoEngine};
use weft_time::{Duration, Instant};
use weft_wire::{icrc, roce};

use super::client::{Client, Measurement};
use super::connection::{EndPlace, Introduction, Side, card_config, connect, open};
use super::load::{Load, RdmaOperation};
use super::payload::{ClientMemory, ServerMemory, Verification};
use super::served::{Served, ServiceRequest, readings};
use super::server::Server;
use super::{Limit, ROUNDS, RdmaError};

/// Time limit for a process to start, or to compare its memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest time without a completion, after which a run fails.
const STALL: Duration = Duration::from_secs(10);

/// Numbers of datagrams in flight that are tried, to find the best one for the plain sender.
const PLAIN_WINDOWS: [u64; 5] = [64, 256, 1_024, 4_096, 16_384];

/// Duration of each trial.
const PLAIN_TRIAL: Duration = Duration::from_ms(100);

/// Number of earlier runs in this process. The addresses are computed from it and the process number.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// A request from the client to the server.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    /// Connect, and serve until [`Request::Finish`], with this service on the card's path.
    Serve { load: Load, client: Introduction, service: Option<ServiceRequest> },
    /// Compare what the messages have left in memory. `sent`: number of messages sent on each queue pair.
    Finish { sent: Vec<u64> },
    /// Receive plain datagrams until the sender says that it has finished.
    Receive { load: PlainLoad, segmentation: bool },
}

/// An answer of the server.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Serving(Introduction),
    Finished(Verification),
    Receiving(SocketAddrV4),
    Received(ReceiverReport),
    Failed(String),
}

/// The TCP connection between the processes. Each request and each answer is one line of JSON.
#[derive(Debug)]
struct Control {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Control {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(stream.try_clone()?), writer: stream })
    }

    fn send(&mut self, message: &impl Serialize) -> Result<(), RdmaError> {
        let mut line = serde_json::to_string(message).expect("messages have string keys");
        line.push('\n');
        Ok(self.writer.write_all(line.as_bytes())?)
    }

    /// Waits for the next message. Returns `None` if the other side has closed the connection.
    fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>, RdmaError> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let foreign =
            |error| RdmaError::Failed(format!("the other process speaks another language: {error}"));
        serde_json::from_str(&line).map(Some).map_err(foreign)
    }

    fn answer(&mut self) -> Result<Answer, RdmaError> {
        match self.receive()? {
            Some(Answer::Failed(reason)) => Err(RdmaError::Failed(format!("the server failed: {reason}"))),
            Some(answer) => Ok(answer),
            None => Err(RdmaError::Failed("the server has ended".into())),
        }
    }
}

fn out_of_turn<T>() -> Result<T, RdmaError> {
    Err(RdmaError::Failed("the other process spoke out of turn".into()))
}

/// The number of UDP payload bytes of most datagrams that carry a message's data.
fn datagram_bytes(load: &Load) -> usize {
    use roce::Opcode;
    let payload = load.size.min(load.mtu).next_multiple_of(4) as usize;
    let several = load.packets() > 1;
    let (opcode, payload) = match load.operation {
        RdmaOperation::Write if several => (Opcode::WriteMiddle, payload),
        RdmaOperation::WriteImm if several => (Opcode::WriteMiddle, payload),
        RdmaOperation::Write => (Opcode::WriteOnly, payload),
        RdmaOperation::WriteImm => (Opcode::WriteOnlyWithImmediate, payload),
        RdmaOperation::Send | RdmaOperation::SendImm if several => (Opcode::SendMiddle, payload),
        RdmaOperation::Send => (Opcode::SendOnly, payload),
        RdmaOperation::SendImm => (Opcode::SendOnlyWithImmediate, payload),
        RdmaOperation::Read if several => (Opcode::ReadResponseMiddle, payload),
        RdmaOperation::Read => (Opcode::ReadResponseOnly, payload),
        RdmaOperation::FetchAdd => (Opcode::FetchAdd, 0),
        RdmaOperation::CmpSwap => (Opcode::CompareSwap, 0),
    };
    opcode.header_bytes() + payload + icrc::BYTES
}

fn port(address: Ipv4Addr, number: u16, segmentation: bool) -> Result<UdpPort, RdmaError> {
    // 512 KiB of buffers: bytes that were written are still in the second-level cache when the kernel copies
    // them, and the peer can process the first half of a window while the second half is written.
    let options = if segmentation {
        PortOptions { batch: 8, ..PortOptions::default() }
    } else {
        PortOptions { segmentation, batch: 128, longest_datagram: 8_192, ..PortOptions::default() }
    };
    Ok(UdpPort::bind(SocketAddrV4::new(address, number), &options)?)
}

/// The polling threads share the machine with others. While they have nothing to do, they offer their core to
/// others, and sleep if that lasts: the kernel gives the core to a sleeping thread as soon as it wakes up,
/// but to a thread that yields only after all others.
const IDLE: IdlePolicy = IdlePolicy::share_then_sleep(Duration::from_us(20));

fn run(endpoint: &mut impl Endpoint, port: UdpPort, stop: &Stop) -> Result<(), RdmaError> {
    Ok(weft_net::run(endpoint, &mut [port], Clock::starting_now(), IDLE, stop)?)
}

/// The client's card, memory and program, on one port.
struct ClientEndpoint<'a> {
    ports: CardPorts<NoEngine>,
    memory: ClientMemory,
    client: Client,
    stop: &'a Stop,
    completed: u64,
    patience: Instant,
}

impl ClientEndpoint<'_> {
    /// Handles completions, and posts the next requests.
    fn serve_host(&mut self, now: Instant) {
        let card = self.ports.card_mut();
        while let Some(event) = card.poll_host() {
            if let HostEvent::Completion(completion) = event {
                self.memory.complete(card.region_memory(), &completion);
                self.client.handle(now, &completion);
            }
        }
        while let Some((queue_pair, request)) = self.client.next_request(now) {
            self.memory.prepare(card.region_memory(), &request);
            card.submit(now, HostCommand::PostSend(queue_pair, request));
        }
        if self.client.is_done() {
            self.stop.request();
        }
    }
}

impl Endpoint for ClientEndpoint<'_> {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_>) {
        self.ports.receive_roce(now, datagram);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let transport = self.ports.card().next_deadline();
        Some(transport.map_or(self.patience, |at| at.min(self.patience)))
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.ports.card_mut().handle_deadline(now);
        if now >= self.patience {
            if self.client.completed() == self.completed {
                self.client.fail(format!("nothing has completed in {STALL}"));
            }
            self.completed = self.client.completed();
            self.patience = now + STALL;
        }
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort]) {
        self.serve_host(now);
        self.ports.transmit_roce(now, &mut ports[0]);
    }
}

/// The server's card, memory and program, on one port.
struct ServerEndpoint {
    ports: CardPorts<NoEngine>,
    memory: ServerMemory,
    server: Server,
}

impl Endpoint for ServerEndpoint {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_>) {
        self.ports.receive_roce(now, datagram);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.ports.card().next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.ports.card_mut().handle_deadline(now);
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort]) {
        let card = self.ports.card_mut();
        while let Some(event) = card.poll_host() {
            if let HostEvent::Completion(completion) = event {
                self.memory.complete(card.region_memory(), &completion);
                if let Some((queue_pair, request)) = self.server.handle(&completion) {
                    card.submit(now, HostCommand::PostReceive(queue_pair, request));
                }
            }
        }
        self.ports.transmit_roce(now, &mut ports[0]);
    }
}

/// Serves one round of RDMA. At its end, checks the memory and answers with the result.
fn serve(
    control: &mut Control,
    address: Ipv4Addr,
    load: Load,
    client: &Introduction,
    service: Option<&ServiceRequest>,
) -> Result<(), RdmaError> {
    load.check()?;
    let service = service.map(ServiceRequest::service).transpose()?.flatten();
    let port = port(address, roce::UDP_PORT, true)?;
    let mut card = Card::new(card_config(&load, 1), Vec::new());
    let local = open(&mut card, &load, EndPlace { side: Side::Server, machine: 0, base: 0, address });
    let Some(connection) = connect(&mut card, &load, &local, client) else { return out_of_turn() };
    if let Some(service) = &service {
        card.serve_all(service, connection.queue_pairs())?;
    }
    let server = Server::new(load, connection);
    for (queue_pair, request) in server.first_requests() {
        let posted = card.transport().post_receive(queue_pair, request);
        posted.expect("the queue is as deep as there are requests");
    }
    let memory = ServerMemory::new(load, card.region_memory(), service.clone());
    let mut endpoint = ServerEndpoint { ports: CardPorts::new(card, address), memory, server };
    control.send(&Answer::Serving(local.introduction))?;
    // Another thread must wait for the client's next request while this thread serves.
    let stop = Stop::new()?;
    let asked = thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let asked = control.receive();
            stop.request();
            asked
        });
        run(&mut endpoint, port, &stop)?;
        waiter.join().expect("reading a line does not panic")
    })?;
    let sent = match asked {
        Some(Request::Finish { sent }) if sent.len() == load.busy as usize => sent,
        _ => return out_of_turn(),
    };
    let ServerEndpoint { mut ports, memory, server } = endpoint;
    let readings = readings(ports.card_mut(), service.as_ref(), server.queue_pairs());
    server.finish(&sent).map_err(RdmaError::Failed)?;
    let verification = memory.finish(ports.card_mut().region_memory(), &sent, &readings);
    control.send(&Answer::Finished(verification))
}

/// Serves one round of plain datagrams.
fn receive_plain(
    control: &mut Control,
    address: Ipv4Addr,
    load: PlainLoad,
    segmentation: bool,
) -> Result<(), RdmaError> {
    let port = port(address, 0, segmentation)?;
    let stop = Stop::new()?;
    let mut receiver = PlainReceiver::new(load, &stop);
    control.send(&Answer::Receiving(port.local_address()))?;
    run(&mut receiver, port, &stop)?;
    control.send(&Answer::Received(receiver.report()))
}

/// The main function of the server's process: writes the address on which it listens to standard output,
/// serves one client, and returns when the client closes the connection. `weft bench-rdma-server` calls it.
/// Its only argument is the IPv4 address to serve on.
///
/// # Errors
/// If the argument is missing or wrong, a port is in use, or the connection fails.
pub fn child_main(arguments: &[String]) -> Result<(), RdmaError> {
    let [address] = arguments else { return Err(RdmaError::ServerArguments) };
    let address: Ipv4Addr = address.parse().map_err(|_| RdmaError::ServerArguments)?;
    let listener = TcpListener::bind((address, 0))?;
    println!("{LISTENING}{}", listener.local_addr()?);
    let mut control = Control::new(listener.accept()?.0)?;
    while let Some(request) = control.receive()? {
        let served = match request {
            Request::Serve { load, client, service } => {
                serve(&mut control, address, load, &client, service.as_ref())
            }
            Request::Receive { load, segmentation } => {
                receive_plain(&mut control, address, load, segmentation)
            }
            Request::Finish { .. } => out_of_turn(),
        };
        if let Err(error) = served {
            control.send(&Answer::Failed(error.to_string()))?;
        }
    }
    Ok(())
}

/// Prefix of the line in which the server's process prints its address.
const LISTENING: &str = "listening ";

/// The client's side of all rounds.
#[derive(Debug)]
pub(super) struct Rig {
    control: Control,
    address: Ipv4Addr,
    /// The server's process. It ends when this value is dropped.
    _server: ChildProcess,
}

impl Rig {
    /// Starts the server with `command` and the server's address as one more argument.
    pub(super) fn start(mut command: Command) -> Result<Self, RdmaError> {
        // Loopback has 2^24 addresses. Each run uses two that no other run uses.
        let run = id().wrapping_add(RUNS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37)) & 0xffff;
        let [high, low] = (run as u16).to_be_bytes();
        let (client, server) = (Ipv4Addr::new(127, high, low, 1), Ipv4Addr::new(127, high, low, 2));
        command.arg(server.to_string());
        let mut child = ChildProcess::start("the server", command)?;
        let listening = child.wait_for_line(LISTENING, PATIENCE)?;
        let control = Control::new(TcpStream::connect(&listening)?)?;
        control.writer.set_read_timeout(Some(std::time::Duration::from_nanos(PATIENCE.as_ns())))?;
        Ok(Self { control, address: client, _server: child })
    }

    /// Runs one round of RDMA, with a service on the server's path or without.
    pub(super) fn measure(
        &mut self,
        load: &Load,
        service: Option<&ServiceRequest>,
    ) -> Result<(Measurement, Verification), RdmaError> {
        let port = port(self.address, roce::UDP_PORT, true)?;
        let mut card = Card::new(card_config(load, 1), Vec::new());
        let local = open(
            &mut card,
            load,
            EndPlace { side: Side::Client, machine: 0, base: 0, address: self.address },
        );
        self.control.send(&Request::Serve {
            load: *load,
            client: local.introduction.clone(),
            service: service.cloned(),
        })?;
        let Answer::Serving(server) = self.control.answer()? else { return out_of_turn() };
        let Some(connection) = connect(&mut card, load, &local, &server) else { return out_of_turn() };
        let memory = ClientMemory::new(*load, card.region_memory());
        let client = Client::new(*load, connection);
        let stop = Stop::new()?;
        let mut endpoint = ClientEndpoint {
            ports: CardPorts::new(card, self.address),
            memory,
            client,
            stop: &stop,
            completed: 0,
            patience: Instant::ZERO + STALL,
        };
        run(&mut endpoint, port, &stop)?;
        let measurement = endpoint.client.finish().map_err(RdmaError::Failed);
        let sent = measurement.as_ref().map_or(Vec::new(), |measurement| measurement.sent.clone());
        self.control.send(&Request::Finish { sent })?;
        // The client's error is more specific than the server's.
        let answer = self.control.answer();
        let measurement = measurement?;
        let Answer::Finished(mut verification) = answer? else { return out_of_turn() };
        verification.merge(endpoint.memory.verification());
        Ok((measurement, verification))
    }

    /// Runs one round of plain UDP. Returns the number of datagrams per second.
    pub(super) fn measure_plain(&mut self, round: &PlainRound) -> Result<f64, RdmaError> {
        let &PlainRound { load, segmentation } = round;
        self.control.send(&Request::Receive { load, segmentation })?;
        let Answer::Receiving(to) = self.control.answer()? else { return out_of_turn() };
        let stop = Stop::new()?;
        run(&mut PlainSender::new(load, to, &stop), port(self.address, 0, segmentation)?, &stop)?;
        let Answer::Received(report) = self.control.answer()? else { return out_of_turn() };
        Ok(report.datagrams_per_s())
    }

    /// Finds the best settings of a plain sender of datagrams like those of `load`.
    pub(super) fn best_plain(
        &mut self,
        load: &Load,
        segmentation: bool,
        duration: Duration,
    ) -> Result<PlainRound, RdmaError> {
        let datagram_bytes = datagram_bytes(load);
        let mut best = (0.0, PLAIN_WINDOWS[0]);
        for window in PLAIN_WINDOWS {
            let load = PlainLoad { datagram_bytes, window, duration: PLAIN_TRIAL };
            let rate = self.measure_plain(&PlainRound { load, segmentation })?;
            if rate > best.0 {
                best = (rate, window);
            }
        }
        let load = PlainLoad { datagram_bytes, window: best.1, duration };
        Ok(PlainRound { load, segmentation })
    }
}

/// Parameters of a round of plain UDP.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainRound {
    load: PlainLoad,
    segmentation: bool,
}

impl PlainRound {
    /// The limit for messages of `packets` packets, if plain UDP carries this many of them per second.
    pub(super) fn limit(&self, packets: f64, messages_per_s: f64) -> Limit {
        let PlainLoad { datagram_bytes, window, .. } = self.load;
        let calls = if self.segmentation { "segmented sends" } else { "sends of their own" };
        Limit {
            goodput_bits_per_s: messages_per_s * packets * datagram_bytes as f64 * 8.0,
            messages_per_s,
            what: format!(
                "plain UDP between the same two processes: datagrams of {datagram_bytes} bytes in {calls}, {window} under \
                 way, {packets} to a message; median of {ROUNDS} rounds that alternate"
            ),
        }
    }
}
