//! Measures the rate of plain UDP datagrams between two processes over loopback.
//!
//!     cargo run --release -p weft-net --example plain_limit [poll|share|sleep [seconds]]
//!
//! The first argument says how both processes wait when they are idle; by default each polls on its own core.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_net::plain::{PlainLoad, PlainReceiver, PlainSender, ReceiverReport, SenderReport};
use weft_net::process::{ChildProcess, own_executable};
use weft_net::{Clock, IdlePolicy, PortOptions, Stop, UdpPort, run};
use weft_time::Duration;

type Failure = Box<dyn std::error::Error>;

const LOOPBACK: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);

fn options(segmentation: bool) -> PortOptions {
    PortOptions { segmentation, ..PortOptions::default() }
}

fn policy(name: &str) -> Result<IdlePolicy, Failure> {
    match name {
        "poll" => Ok(IdlePolicy::POLL),
        "share" => Ok(IdlePolicy::SHARE),
        "sleep" => Ok(IdlePolicy::SLEEP),
        other => Err(format!("\"{other}\" is none of poll, share and sleep").into()),
    }
}

/// The child process: receives, and prints its report as JSON.
fn receive(load: &str, segmentation: &str, idle: &str) -> Result<(), Failure> {
    let stop = Stop::new()?;
    let mut receiver = PlainReceiver::new(serde_json::from_str(load)?, &stop);
    let mut ports = [UdpPort::bind(LOOPBACK, &options(segmentation.parse()?))?];
    println!("ready {}", ports[0].local_address());
    run(&mut receiver, &mut ports, Clock::starting_now(), policy(idle)?, &stop)?;
    println!("report {}", serde_json::to_string(&receiver.report())?);
    Ok(())
}

fn measure(
    load: PlainLoad,
    segmentation: bool,
    idle: &str,
) -> Result<(SenderReport, ReceiverReport), Failure> {
    let mut command = own_executable();
    command.args(["receive", &serde_json::to_string(&load)?, &segmentation.to_string(), idle]);
    let mut child = ChildProcess::start("receiver", command)?;
    let to = child.wait_for_line("ready ", Duration::from_secs(5))?.parse()?;
    let stop = Stop::new()?;
    let mut sender = PlainSender::new(load, to, &stop);
    let mut ports = [UdpPort::bind(LOOPBACK, &options(segmentation))?];
    run(&mut sender, &mut ports, Clock::starting_now(), policy(idle)?, &stop)?;
    let report = child.wait_for_line("report ", Duration::from_secs(5))?;
    Ok((sender.report(), serde_json::from_str(&report)?))
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, load, segmentation, idle] = arguments.as_slice()
        && role == "receive"
    {
        return receive(load, segmentation, idle);
    }
    let idle = arguments.first().map_or("poll", String::as_str);
    let seconds = arguments.get(1).map_or(Ok(2), |seconds| seconds.parse())?;
    println!(
        "{:>8} {:>12} {:>7} {:>14} {:>9} {:>8} {:>7}",
        "bytes", "segmentation", "window", "datagrams/s", "Gb/s", "lost", "stalls"
    );
    for (datagram_bytes, segmentation, window) in [
        (64, false, 256),
        (64, false, 1024),
        (64, true, 1024),
        (64, true, 4096),
        (64, true, 16_384),
        (1024, false, 256),
        (1024, true, 512),
        (1024, true, 2048),
        (4096, false, 128),
        (4096, true, 64),
        (4096, true, 128),
        (4096, true, 256),
        (4096, true, 512),
        (65_507, false, 16),
    ] {
        let load = PlainLoad { datagram_bytes, window, duration: Duration::from_secs(seconds) };
        let (sent, received) = measure(load, segmentation, idle)?;
        println!(
            "{datagram_bytes:>8} {segmentation:>12} {window:>7} {:>14.0} {:>9.2} {:>8} {:>7}",
            received.datagrams_per_s(),
            received.goodput_bits_per_s() / 1e9,
            received.lost,
            sent.stalls
        );
    }
    Ok(())
}
