//! Measures the round trip of a small datagram between processes over loopback, for each idle policy.
//!
//!     cargo run --release -p weft-net --example echo [round trips [servers]]
//!
//! With several servers, as many as a write has replicas, each round trip sends to all of them and ends with the
//! last answer.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_net::process::{ChildProcess, own_executable};
use weft_net::{Clock, Datagram, Endpoint, IdlePolicy, PortOptions, Stop, UdpPort, run};
use weft_time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

const LOOPBACK: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
const POLICIES: [(&str, IdlePolicy); 4] = [
    ("poll", IdlePolicy::POLL),
    ("share", IdlePolicy::SHARE),
    ("share 50us, sleep", IdlePolicy::share_then_sleep(Duration::from_us(50))),
    ("sleep", IdlePolicy::SLEEP),
];

/// A server that sends every datagram back.
#[derive(Default)]
struct Server {
    pending: Vec<(SocketAddrV4, Vec<u8>)>,
}

impl Endpoint for Server {
    fn receive(&mut self, _now: Instant, _port: usize, datagram: Datagram<'_>) {
        self.pending.push((datagram.from, datagram.bytes.to_vec()));
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn handle_deadline(&mut self, _now: Instant) {}

    fn transmit(&mut self, _now: Instant, ports: &mut [UdpPort]) {
        for (from, bytes) in self.pending.drain(..) {
            ports[0].push(from, &bytes);
        }
    }
}

const PAYLOAD_BYTES: usize = 64;
const PATIENCE: Duration = Duration::from_ms(100);

/// A client with one round trip at a time. If a datagram is lost, the round trip ends after a time-out, which
/// shows in the tail of the distribution.
struct Client<'a> {
    servers: Vec<SocketAddrV4>,
    round_trips: usize,
    clock: Clock,
    stop: &'a Stop,
    started: Option<Instant>,
    answers: usize,
    times: Vec<Duration>,
}

impl Endpoint for Client<'_> {
    fn receive(&mut self, _now: Instant, _port: usize, datagram: Datagram<'_>) {
        let late = datagram.bytes.first_chunk() != Some(&self.times.len().to_be_bytes());
        if late {
            return;
        }
        self.answers += 1;
        if self.answers < self.servers.len() {
            return;
        }
        // The loop reads the clock once per batch; a measurement needs the time of this datagram.
        if let Some(started) = self.started.take() {
            self.times.push(self.clock.now() - started);
        }
        if self.times.len() == self.round_trips {
            self.stop.request();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.started.map(|started| started + PATIENCE)
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.times.push(now - self.started.take().expect("a deadline is set"));
        if self.times.len() == self.round_trips {
            self.stop.request();
        }
    }

    fn transmit(&mut self, _now: Instant, ports: &mut [UdpPort]) {
        if self.started.is_some() || self.times.len() == self.round_trips {
            return;
        }
        self.answers = 0;
        self.started = Some(self.clock.now());
        let mut payload = [0; PAYLOAD_BYTES];
        *payload.first_chunk_mut().expect("longer than a number") = self.times.len().to_be_bytes();
        for server in &self.servers {
            ports[0].push(*server, &payload);
        }
    }
}

fn policy(name: &str) -> Result<IdlePolicy, Failure> {
    let found = POLICIES.iter().find(|(known, _)| *known == name);
    found.map(|(_, policy)| *policy).ok_or_else(|| format!("no idle policy is called \"{name}\"").into())
}

fn serve(idle: &str) -> Result<(), Failure> {
    let mut ports = [UdpPort::bind(LOOPBACK, &PortOptions::default())?];
    let stop = Stop::on_signals()?;
    println!("ready {}", ports[0].local_address());
    run(&mut Server::default(), &mut ports, Clock::starting_now(), policy(idle)?, stop)?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, idle] = arguments.as_slice()
        && role == "serve"
    {
        return serve(idle);
    }
    let round_trips = arguments.first().map_or(Ok(100_000), |count| count.parse())?;
    let servers = arguments.get(1).map_or(Ok(1), |servers| servers.parse())?;
    println!("{:<20} {:>12} {:>12} {:>12} {:>12}", "idle policy", "round trips", "p50", "p99", "p99.9");
    let cores = std::thread::available_parallelism()?.get();
    for (name, policy) in POLICIES {
        if policy == IdlePolicy::POLL && servers + 1 > cores {
            // There are more polling processes than cores, so they would wait for the scheduler, not for each
            // other.
            println!("{name:<20} not measured: {} processes on {cores} cores", servers + 1);
            continue;
        }
        let (mut children, mut addresses) = (Vec::new(), Vec::new());
        for number in 0..servers {
            let mut command = own_executable();
            command.args(["serve", name]);
            let mut child = ChildProcess::start(format!("echo server {number}"), command)?;
            addresses.push(child.wait_for_line("ready ", Duration::from_secs(5))?.parse()?);
            children.push(child);
        }
        let mut ports = [UdpPort::bind(LOOPBACK, &PortOptions::default())?];
        let (stop, clock) = (Stop::new()?, Clock::starting_now());
        let times = Vec::with_capacity(round_trips);
        let mut client =
            Client { servers: addresses, round_trips, clock, stop: &stop, started: None, answers: 0, times };
        run(&mut client, &mut ports, clock, policy, &stop)?;
        for mut child in children {
            child.stop(Duration::from_secs(5))?;
        }
        client.times.sort_unstable();
        let percentile =
            |per_mille: usize| client.times[(round_trips * per_mille / 1000).min(round_trips - 1)];
        println!(
            "{name:<20} {round_trips:>12} {:>12} {:>12} {:>12}",
            percentile(500).to_string(),
            percentile(990).to_string(),
            percentile(999).to_string()
        );
    }
    Ok(())
}
