//! A NIC of Weft, the guest, and the network between them, in real time.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_net::{Clock, PortOptions, SocketDevice};
use weft_nic::{CardConfig, HostCommand, HostEvent, Nic, NoEngine, RdmaDriver, SoftNic, SoftNicConfig};
use weft_time::{Duration, Instant};
use weft_verbs::{Completion, QueuePairNumber, ReceiveRequest, WorkRequest};
use weft_wire::ethernet::MacAddress;

use crate::faults::{Line, Rates, Tally};
use crate::guest::{Guest, Input};
use crate::sockets::SocketNic;

/// Weft's address.
pub const WEFT: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// The guest's address.
pub const LINUX: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// The addresses of Weft and of the guest over IPv6, for NICs that support it.
const WEFT_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 1);
const LINUX_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 2);

/// The addresses of Weft and of the guest.
pub const fn addresses(ipv6: bool) -> [IpAddr; 2] {
    if ipv6 { [IpAddr::V6(WEFT_IPV6), IpAddr::V6(LINUX_IPV6)] } else { [IpAddr::V4(WEFT), IpAddr::V4(LINUX)] }
}
const HARDWARE: MacAddress = MacAddress([2, 0, 0, 0, 9, 1]);

/// The guest has ended, or its agent has refused a command.
#[derive(Debug)]
pub struct Trouble(pub String);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self(format!("the guest or what it needs: {error}"))
    }
}

/// The interface of a NIC in this test: data path and driver.
pub trait Device: Nic {
    fn driver(&mut self) -> &mut dyn RdmaDriver;
}

impl Device for SoftNic<NoEngine> {
    fn driver(&mut self) -> &mut dyn RdmaDriver {
        self
    }
}

#[cfg(feature = "gateware")]
impl Device for weft_gateware::RtlNic {
    fn driver(&mut self) -> &mut dyn RdmaDriver {
        self
    }
}

fn transport(seed: u64) -> weft_rdma::Config {
    weft_rdma::Config { key_seed: seed, ..weft_rdma::Config::default() }
}

fn card(bytes: usize, seed: u64) -> CardConfig {
    CardConfig::without_engines(bytes, transport(seed))
}

/// A card behind a UDP socket, with `bytes` of host memory; and the user of this process.
pub fn sockets(bytes: usize, seed: u64, clock: Clock, ipv6: bool) -> Result<(Box<dyn Device>, u32), Trouble> {
    let (card, [address, _]) = (card(bytes, seed), addresses(ipv6));
    // Segmentation is off, as on any real link over IPv4.
    let options = PortOptions { segmentation: false, ..PortOptions::default() };
    match address {
        IpAddr::V4(address) => {
            SocketNic::open("weft0", clock, || SocketDevice::open(address, card, &options))
        }
        IpAddr::V6(address) => {
            SocketNic::open("weft0", clock, || SocketDevice::open_ipv6(address, 0, card, &options))
        }
    }
}

/// A soft NIC with `bytes` of host memory.
pub fn soft(bytes: usize, seed: u64) -> Box<dyn Device> {
    let card = card(bytes, seed);
    let config = SoftNicConfig { hardware: HARDWARE, address: WEFT, card };
    Box::new(SoftNic::<NoEngine>::new(config, Vec::new()))
}

/// The gateware with `bytes` of host memory.
#[cfg(feature = "gateware")]
pub fn rtl(bytes: usize, seed: u64) -> Box<dyn Device> {
    use weft_gateware::{Latency, RtlNic, RtlNicConfig};
    let mut nic = RtlNic::new(&RtlNicConfig {
        hardware: HARDWARE,
        address: WEFT,
        transport: transport(seed),
        region_bytes: bytes,
        bits_per_s: 100_000_000_000,
        hbm: Latency { read_cycles: 40, write_cycles: 20 },
        host: Latency { read_cycles: 150, write_cycles: 60 },
        pressure: None,
        power_on_seed: seed as u32,
        psp: None,
        services: false,
        engine: None,
    });
    // Its driver does not use ARP.
    nic.add_neighbour(LINUX, crate::guest::HARDWARE);
    Box::new(nic)
}

/// Maximum time for the guest to boot, and for the agent to answer.
const PATIENCE: Duration = Duration::from_secs(300);

pub struct World {
    pub nic: Box<dyn Device>,
    guest: Guest,
    clock: Clock,
    to_linux: Line,
    to_weft: Line,
    answers: VecDeque<String>,
    completions: Vec<Completion>,
    frame: Vec<u8>,
}

impl World {
    /// Waits until the agent in the guest is ready.
    pub fn new(nic: Box<dyn Device>, guest: Guest, seed: u64, clock: Clock) -> Result<Self, Trouble> {
        let mut world = Self {
            nic,
            guest,
            clock,
            to_linux: Line::new(seed),
            to_weft: Line::new(!seed),
            answers: VecDeque::new(),
            completions: Vec::new(),
            frame: Vec::new(),
        };
        match world.answer()?.as_str() {
            "ready" => Ok(world),
            other => Err(Trouble(format!("the agent begins with '{other}'"))),
        }
    }

    /// Sets the faults of the network, in both directions, from now on.
    pub fn set_faults(&mut self, rates: Rates) {
        for line in [&mut self.to_linux, &mut self.to_weft] {
            line.rates = rates;
            line.tally = Tally::default();
        }
    }

    /// Counts of the network since then: to Linux, and to Weft.
    pub fn tallies(&self) -> [Tally; 2] {
        [self.to_linux.tally, self.to_weft.tally]
    }

    pub fn post_send(&mut self, queue_pair: QueuePairNumber, request: WorkRequest) {
        self.nic.submit(self.clock.now(), HostCommand::PostSend(queue_pair, request));
    }

    pub fn post_receive(&mut self, queue_pair: QueuePairNumber, request: ReceiveRequest) {
        self.nic.submit(self.clock.now(), HostCommand::PostReceive(queue_pair, request));
    }

    /// Sends a command to the agent. Returns the words of its answer.
    pub fn command(&mut self, line: &str) -> Result<Vec<String>, Trouble> {
        Ok(self.commands(&[line.to_owned()])?.remove(0))
    }

    /// Sends several commands to the agent before reading their answers.
    pub fn commands(&mut self, lines: &[String]) -> Result<Vec<Vec<String>>, Trouble> {
        // The agent writes an answer to each line before it reads the next. Only a few lines at a time fit
        // into the buffers in between.
        let mut answers = Vec::new();
        for part in lines.chunks(32) {
            self.guest.command(&(part.join("\n") + "\n"))?;
            for line in part {
                let answer = self.answer()?;
                let mut words = answer.split_whitespace().map(str::to_owned);
                if words.next().as_deref() != Some("ok") {
                    return Err(Trouble(format!("the agent answers '{answer}' to '{line}'")));
                }
                answers.push(words.collect());
            }
        }
        Ok(answers)
    }

    fn answer(&mut self) -> Result<String, Trouble> {
        let limit = self.clock.now() + PATIENCE;
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Ok(answer);
            }
            if self.clock.now() >= limit {
                return Err(Trouble("the agent does not answer".into()));
            }
            self.step(limit)?;
        }
    }

    /// Completions of Weft: `count` of them, or fewer if `limit` expires.
    pub fn completions(&mut self, count: usize, limit: Duration) -> Result<Vec<Completion>, Trouble> {
        let limit = self.clock.now() + limit;
        while self.completions.len() < count && self.clock.now() < limit {
            self.step(limit)?;
        }
        Ok(std::mem::take(&mut self.completions))
    }

    /// Runs the test until the next event, or until `limit`.
    fn step(&mut self, limit: Instant) -> Result<(), Trouble> {
        self.drain()?;
        let deadlines =
            [self.nic.next_deadline(), self.to_linux.next_deadline(), self.to_weft.next_deadline()];
        let due = deadlines.into_iter().flatten().min().unwrap_or(limit).min(limit);
        let wait = due.saturating_since(self.clock.now());
        let mut next =
            self.guest.inputs.recv_timeout(std::time::Duration::from_nanos(wait.as_ps() / 1_000)).ok();
        while let Some(input) = next {
            match input {
                Input::Frame(frame) => {
                    let now = self.clock.now();
                    for frame in self.to_weft.carry(now, frame) {
                        self.nic.receive_frame(now, &frame);
                    }
                    self.drain()?;
                }
                Input::Line(line) => self.answers.push_back(line),
                Input::End => return Err(Trouble("the guest has ended; see .tools/rxe/console".into())),
            }
            next = self.guest.inputs.try_recv().ok();
        }
        let now = self.clock.now();
        while let Some(frame) = self.to_weft.release(now) {
            self.nic.receive_frame(now, &frame);
        }
        while let Some(frame) = self.to_linux.release(now) {
            self.guest.transmit(&frame)?;
        }
        self.nic.handle_deadline(now);
        self.drain()
    }

    fn drain(&mut self) -> Result<(), Trouble> {
        let now = self.clock.now();
        self.frame.clear();
        while self.nic.poll_frame(now, &mut self.frame) {
            for frame in self.to_linux.carry(now, std::mem::take(&mut self.frame)) {
                self.guest.transmit(&frame)?;
            }
        }
        while let Some(event) = self.nic.poll_host() {
            if let HostEvent::Completion(completion) = event {
                self.completions.push(completion);
            }
        }
        let _ = self.nic.take_work();
        Ok(())
    }
}
