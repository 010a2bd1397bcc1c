//! Writes a text into the memory of another process, by RDMA over ordinary UDP sockets.
//!
//!     cargo run -p weft-net --example remote_write -- serve 127.0.0.2
//!     cargo run -p weft-net --example remote_write -- 127.0.0.1 127.0.0.2 "a text"
//!
//! With the name of a TAP device as a third argument, the server is a soft NIC with its own IP stack on that
//! device, at the given address. The TAP device must belong to the user.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use weft_net::{
    ConnectionOptions, Context, Device, FrameDevice, IdlePolicy, Introduction, PortOptions, RemoteMemory,
    SocketDevice, TapPort, connect,
};
use weft_nic::{CardConfig, NoEngine, SoftNic, SoftNicConfig};
use weft_time::Duration;
use weft_verbs::{AccessFlags, LocalBuffer, Operation, Region, RemoteAddress, Target, WorkRequest};
use weft_wire::ethernet::MacAddress;

type Failure = Box<dyn std::error::Error>;

const MEMORY_BYTES: u64 = 4_096;
/// TCP port on which the programs exchange introductions before they use RDMA.
const MEETING_PORT: u16 = 18_515;

/// Registers the memory, creates a queue pair, and connects it with that of the program at the other end of
/// `stream`.
fn meet<D: Device>(
    context: &mut Context<D>,
    address: Ipv4Addr,
    stream: &TcpStream,
) -> Result<(Introduction, Introduction, u32), Failure> {
    let driver = context.driver();
    let keys = driver.register_region(Region::host(0, MEMORY_BYTES, AccessFlags::ALL))?;
    let start = RemoteAddress { address: 0, rkey: keys.rkey };
    let own = Introduction {
        gid: address.into(),
        number: driver.create_queue_pair(Default::default())?,
        psn: 0xff_fff0,
        memory: Some(RemoteMemory { start, length: MEMORY_BYTES }),
    };
    let peer = own.exchange(stream)?;
    connect(driver, &own, &peer, &ConnectionOptions::default())?;
    Ok((own, peer, keys.lkey))
}

/// Lets one client write, and prints the text that it has written when it closes the TCP connection.
fn serve<D: Device>(mut context: Context<D>, address: Ipv4Addr) -> Result<(), Failure> {
    let mut stream = TcpListener::bind((Ipv4Addr::UNSPECIFIED, MEETING_PORT))?.accept()?.0;
    meet(&mut context, address, &stream)?;
    stream.set_nonblocking(true)?;
    while stream.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
        context.progress(Duration::from_ms(1))?;
    }
    let bytes = context.driver().memory().read(Target::Host, 0, 64).expect("the memory is longer");
    println!("written: {}", String::from_utf8_lossy(bytes).trim_end_matches('\0'));
    Ok(())
}

fn write(address: Ipv4Addr, server: Ipv4Addr, text: &str, device: SocketDevice) -> Result<(), Failure> {
    let mut context = Context::new(device, IdlePolicy::SLEEP)?;
    let stream = TcpStream::connect((server, MEETING_PORT))?;
    let (own, peer, lkey) = meet(&mut context, address, &stream)?;
    let memory = peer.memory.ok_or("the peer has no memory to offer")?;
    context.driver().memory().write(Target::Host, 0, text.as_bytes()).map_err(|_| "the text is too long")?;
    let local = LocalBuffer { address: 0, length: text.len() as u32, lkey };
    let operation = Operation::Write { remote: memory.start, immediate: None };
    context.post_send(own.number, WorkRequest::new(1, operation, local));
    println!("completed: {:?}", context.wait(Duration::from_secs(5))?.ok_or("no answer")?.status);
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let card = CardConfig::without_engines(MEMORY_BYTES as usize, weft_rdma::Config::default());
    let socket = |address| SocketDevice::open(address, card.clone(), &PortOptions::default());
    match words[..] {
        ["serve", address] => {
            let address = address.parse()?;
            serve(Context::new(socket(address)?, IdlePolicy::SLEEP)?, address)
        }
        ["serve", address, tap] => {
            let address = address.parse()?;
            let config = SoftNicConfig { hardware: MacAddress([2, 0, 0, 0, 0, 2]), address, card };
            let nic = SoftNic::<NoEngine>::new(config, Vec::new());
            serve(Context::new(FrameDevice::new(nic, TapPort::open(tap)?), IdlePolicy::SLEEP)?, address)
        }
        [address, server, text] => {
            let address = address.parse()?;
            write(address, server.parse()?, text, socket(address)?)
        }
        _ => Err("serve ADDRESS [TAP], or ADDRESS SERVER TEXT".into()),
    }
}
