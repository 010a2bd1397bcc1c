//! Measures the round trip of a small datagram between two processes over loopback, for each idle policy.
//!
//!     cargo run --release -p weft-net --example echo [round trips [bytes]]

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

/// Sends every datagram back.
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

/// Has one datagram under way at a time. One that gets lost is sent again after a while, and shows in the tail.
struct Client<'a> {
    to: SocketAddrV4,
    bytes: Vec<u8>,
    round_trips: usize,
    clock: Clock,
    stop: &'a Stop,
    sent_at: Option<Instant>,
    times: Vec<Duration>,
}

const RESEND: Duration = Duration::from_ms(100);

impl Endpoint for Client<'_> {
    fn receive(&mut self, _now: Instant, _port: usize, _datagram: Datagram<'_>) {
        // The loop's time is that of the whole batch; a measurement wants its own.
        if let Some(sent_at) = self.sent_at.take() {
            self.times.push(self.clock.now() - sent_at);
        }
        if self.times.len() == self.round_trips {
            self.stop.request();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.sent_at.map(|sent_at| sent_at + RESEND)
    }

    fn handle_deadline(&mut self, _now: Instant) {
        self.sent_at = None;
    }

    fn transmit(&mut self, _now: Instant, ports: &mut [UdpPort]) {
        if self.sent_at.is_none()
            && self.times.len() < self.round_trips
            && ports[0].push(self.to, &self.bytes)
        {
            self.sent_at = Some(self.clock.now());
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
    let bytes = arguments.get(1).map_or(Ok(64), |bytes| bytes.parse())?;
    println!("{:<20} {:>12} {:>12} {:>12} {:>12}", "idle policy", "round trips", "p50", "p99", "p99.9");
    for (name, policy) in POLICIES {
        let mut command = own_executable();
        command.args(["serve", name]);
        let mut server = ChildProcess::start("echo server", command)?;
        let to = server.wait_for_line("ready ", Duration::from_secs(5))?.parse()?;
        let mut ports = [UdpPort::bind(LOOPBACK, &PortOptions::default())?];
        let (stop, clock) = (Stop::new()?, Clock::starting_now());
        let times = Vec::with_capacity(round_trips);
        let bytes = vec![0; bytes];
        let mut client = Client { to, bytes, round_trips, clock, stop: &stop, sent_at: None, times };
        run(&mut client, &mut ports, clock, policy, &stop)?;
        server.stop(Duration::from_secs(5))?;
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
