//! Measures how long an RDMA WRITE takes on each kind of port, one kind after the other, over a virtual link
//! between two network namespaces. It needs root, and `ip` of iproute2.
//!
//!     cargo run --release -p weft-net --example latency [BYTES [MESSAGES [ROUNDS]]]
//!
//! A card over a UDP socket uses the kernel's IP stack on both sides; on packet and AF_XDP sockets a soft NIC uses
//! its own. Both ends poll. Each message is posted when the previous one has completed.

#[path = "../tests/interface/mod.rs"]
mod interface;

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use weft_net::{
    Clock, ConnectionOptions, Context, Device, FrameDevice, FramePort, IdlePolicy, Introduction, PacketPort,
    PortOptions, RemoteMemory, SocketDevice, XdpPort, connect,
};
use weft_nic::{CardConfig, NoEngine, SoftNic, SoftNicConfig};
use weft_time::Duration;
use weft_verbs::{
    AccessFlags, CompletionStatus, LocalBuffer, Operation, PathMtu, Region, RemoteAddress, WorkRequest,
};
use weft_wire::ethernet::MacAddress;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const MEMORY_BYTES: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Socket,
    Packet,
    Xdp,
}

/// The kinds of ports, with their names.
const KINDS: [(Kind, &str); 3] =
    [(Kind::Socket, "UDP socket"), (Kind::Packet, "packet socket"), (Kind::Xdp, "AF_XDP socket")];

/// Client and server: names of their interfaces, and last bytes of their addresses.
const ENDS: [(&str, u8); 2] = [("client", 1), ("server", 2)];

fn card() -> CardConfig {
    CardConfig::without_engines(MEMORY_BYTES, weft_rdma::Config::default())
}

fn kernel_address(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, 0, ENDS[end].1)
}

fn socket(end: usize) -> Result<SocketDevice, Failure> {
    let options = PortOptions { segmentation: false, ..PortOptions::default() };
    Ok(SocketDevice::open(kernel_address(end), card(), &options)?)
}

fn nic_address(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, 0, 10 + ENDS[end].1)
}

fn nic<P: FramePort>(port: P, end: usize) -> FrameDevice<SoftNic<NoEngine>, P> {
    let (hardware, address) = (MacAddress([2, 0, 0, 0, 78, ENDS[end].1]), nic_address(end));
    FrameDevice::new(SoftNic::new(SoftNicConfig { hardware, address, card: card() }, Vec::new()), port)
}

/// Calls a function with a device of the given kind at the given end, the device's address, and further arguments.
macro_rules! with_device {
    ($kind:expr, $end:literal, $function:ident $(, $argument:expr)*) => {
        match $kind {
            Kind::Socket => $function(socket($end)?, kernel_address($end) $(, $argument)*),
            Kind::Packet => {
                $function(nic(PacketPort::open(ENDS[$end].0)?, $end), nic_address($end) $(, $argument)*)
            }
            Kind::Xdp => {
                $function(nic(XdpPort::open(ENDS[$end].0, 0)?, $end), nic_address($end) $(, $argument)*)
            }
        }
    };
}

/// Opens one end, connects it with the other, and returns it with the other's introduction.
fn open<D: Device>(
    device: D,
    address: Ipv4Addr,
    send: &Sender<Introduction>,
    receive: &Receiver<Introduction>,
) -> Result<(Context<D>, Introduction, Introduction, u32), Failure> {
    let mut context = Context::new(device, IdlePolicy::POLL)?;
    let driver = context.driver();
    let keys = driver.register_region(Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL))?;
    let start = RemoteAddress { address: 0, rkey: keys.rkey };
    let own = Introduction {
        gid: address.into(),
        number: driver.create_queue_pair(Default::default())?,
        psn: 7,
        memory: Some(RemoteMemory { start, length: MEMORY_BYTES as u64 }),
    };
    send.send(own)?;
    let peer = receive.recv()?;
    let options = ConnectionOptions { path_mtu: PathMtu::Bytes1024, ..ConnectionOptions::default() };
    connect(driver, &own, &peer, &options)?;
    Ok((context, own, peer, keys.lkey))
}

/// Serves until the client has finished.
fn serve<D: Device>(
    device: D,
    address: Ipv4Addr,
    send: &Sender<Introduction>,
    receive: &Receiver<Introduction>,
    done: &AtomicBool,
) -> Result<(), Failure> {
    let (mut context, own, ..) = open(device, address, send, receive)?;
    while !done.swap(false, Ordering::Acquire) {
        context.progress(Duration::from_us(50))?;
    }
    drop(context);
    Ok(send.send(own)?)
}

/// Measures the times of single messages and returns them sorted; a warm-up of a fifth as many messages is not
/// counted.
fn measure<D: Device>(
    device: D,
    address: Ipv4Addr,
    send: &Sender<Introduction>,
    receive: &Receiver<Introduction>,
    done: &AtomicBool,
    (bytes, messages): (u64, u64),
) -> Result<Vec<Duration>, Failure> {
    let (mut context, own, peer, lkey) = open(device, address, send, receive)?;
    let local = LocalBuffer { address: 0, length: bytes as u32, lkey };
    let remote = peer.memory.ok_or("the server has no memory to offer")?.start;
    let clock = Clock::starting_now();
    let mut times = Vec::new();
    for number in 0..messages + messages / 5 {
        let request = WorkRequest::new(number, Operation::Write { remote, immediate: None }, local);
        let begin = clock.now();
        context.post_send(own.number, request);
        let completion = context.wait(Duration::from_secs(5))?.ok_or("no answer")?;
        if completion.status != CompletionStatus::Success {
            return Err(format!("a WRITE ended with {:?}", completion.status).into());
        }
        if number >= messages / 5 {
            times.push(clock.now().saturating_since(begin));
        }
    }
    times.sort_unstable();
    // Both ends are closed before the next measurement begins.
    drop(context);
    done.store(true, Ordering::Release);
    receive.recv()?;
    Ok(times)
}

/// Configures the interface of one end, in this thread's network namespace.
fn set_up(end: usize) -> io::Result<()> {
    let (interface, _) = ENDS[end];
    interface::ip(&["address", "add", &format!("{}/24", kernel_address(end)), "dev", interface])?;
    interface::ip(&["link", "set", interface, "up"])
}

fn main() -> Result<(), Failure> {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |place: usize, otherwise| numbers.get(place).copied().unwrap_or(otherwise);
    let (bytes, messages, rounds) = (number(0, 64), number(1, 5_000), number(2, 5));
    if bytes > MEMORY_BYTES as u64 || messages == 0 || rounds == 0 {
        return Err(format!("at most {MEMORY_BYTES} bytes, and at least one message and one round").into());
    }
    interface::enter_namespace()?;
    let ((to_server, from_client), (to_client, from_server)) = (channel(), channel());
    let ((thread_is, thread_of), (begin, begins)) = (channel(), channel::<Kind>());
    let (moved, is_moved) = channel::<()>();
    let done = AtomicBool::new(false);
    let mut times = vec![Vec::new(); KINDS.len()];
    thread::scope(|scope| {
        let done = &done;
        let server = scope.spawn(move || -> Result<(), Failure> {
            interface::enter_namespace()?;
            let own = std::fs::read_link("/proc/thread-self")?;
            thread_is.send(own.file_name().ok_or("no thread")?.to_string_lossy().into_owned())?;
            is_moved.recv()?;
            set_up(1)?;
            for kind in begins {
                with_device!(kind, 1, serve, &to_client, &from_client, done)?;
            }
            Ok(())
        });
        let thread: String = thread_of.recv()?;
        interface::ip(&[
            "link", "add", "client", "type", "veth", "peer", "name", "server", "netns", &thread,
        ])?;
        moved.send(())?;
        set_up(0)?;
        let client = (|| -> Result<(), Failure> {
            for _ in 0..rounds {
                for (place, (kind, _)) in KINDS.into_iter().enumerate() {
                    begin.send(kind)?;
                    let what = (bytes, messages);
                    times[place].push(with_device!(kind, 0, measure, &to_server, &from_server, done, what)?);
                }
            }
            Ok(())
        })();
        done.store(client.is_err(), Ordering::Release);
        drop((begin, to_server));
        let served = server.join().expect("the server does not panic");
        client.and(served)
    })?;
    println!("WRITEs of {bytes} bytes, us: median of {rounds} rounds [range]");
    println!("{:<15} {:>20} {:>20}", "port", "p50", "p99");
    for (times, (_, name)) in times.iter().zip(KINDS) {
        let column = |share: usize| {
            let mut of_rounds: Vec<f64> = times
                .iter()
                .map(|times| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e6)
                .collect();
            of_rounds.sort_by(f64::total_cmp);
            let [first, median, last] = [0, of_rounds.len() / 2, of_rounds.len() - 1].map(|at| of_rounds[at]);
            format!("{median:.1} [{first:.1}-{last:.1}]")
        };
        println!("{name:<15} {:>20} {:>20}", column(50), column(99));
    }
    Ok(())
}
