//! The guest: QEMU without privileges, a stream of Ethernet frames, and the agent's command lines.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use weft_wire::ethernet::MacAddress;

/// Output of the guest.
#[derive(Debug)]
pub enum Input {
    Frame(Vec<u8>),
    Line(String),
    /// The guest has ended.
    End,
}

/// A running guest; dropping this value ends it.
#[derive(Debug)]
pub struct Guest {
    machine: Child,
    pub inputs: Receiver<Input>,
    frames: UnixStream,
    lines: UnixStream,
}

/// Attempts to connect, because QEMU may take a minute to start.
const CONNECT_ATTEMPTS: u32 = 3_000;

/// The guest's MAC address.
pub const HARDWARE: MacAddress = MacAddress([2, 0, 0, 0, 9, 2]);

impl Guest {
    /// Starts the guest whose kernel and initramfs are in `image`. Its console is written to `console` in
    /// that folder.
    pub fn start(image: &Path, address: &str, mtu: u32) -> io::Result<Self> {
        let sockets = image.join(format!("sockets-{}", std::process::id()));
        std::fs::create_dir_all(&sockets)?;
        let (frames_at, lines_at) = (sockets.join("frames"), sockets.join("lines"));
        let listeners = (UnixListener::bind(&frames_at)?, UnixListener::bind(&lines_at)?);
        for listener in [&listeners.0, &listeners.1] {
            listener.set_nonblocking(true)?;
        }
        let mut machine = Command::new("qemu-system-x86_64")
            .args([
                "-accel",
                "tcg",
                "-m",
                "512",
                "-smp",
                "1",
                "-nodefaults",
                "-no-reboot",
                "-display",
                "none",
            ])
            .arg("-kernel")
            .arg(image.join("vmlinuz"))
            .arg("-initrd")
            .arg(image.join("initramfs"))
            .arg("-append")
            .arg(format!("console=ttyS0 quiet panic=-1 weft.address={address} weft.mtu={mtu}"))
            .arg("-serial")
            .arg(format!("file:{}", image.join("console").display()))
            .arg("-netdev")
            .arg(format!("stream,id=port,server=off,addr.type=unix,addr.path={}", frames_at.display()))
            .args(["-device", &format!("virtio-net-pci,netdev=port,mac={HARDWARE}")])
            .args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=lines"])
            .arg("-chardev")
            .arg(format!("socket,id=lines,path={}", lines_at.display()))
            .stdin(Stdio::null())
            // Suppresses warnings about features that TCG does not emulate.
            .stderr(Stdio::null())
            .spawn()?;
        let (sender, inputs) = channel();
        let (frames, lines) = match (accept(&listeners.0, &mut machine), accept(&listeners.1, &mut machine)) {
            (Ok(frames), Ok(lines)) => (frames, lines),
            (Err(error), _) | (_, Err(error)) => {
                let _ = machine.kill();
                let _ = machine.wait();
                let _ = std::fs::remove_dir_all(&sockets);
                return Err(error);
            }
        };
        std::fs::remove_dir_all(&sockets)?;
        let guest = Self { machine, inputs, frames, lines };
        let (frames, lines) = (guest.frames.try_clone()?, guest.lines.try_clone()?);
        let also = sender.clone();
        thread::spawn(move || receive_frames(frames, &also));
        thread::spawn(move || receive_lines(lines, &sender));
        Ok(guest)
    }

    /// Sends a frame on the guest's network.
    pub fn transmit(&mut self, frame: &[u8]) -> io::Result<()> {
        let length = u32::try_from(frame.len()).expect("a frame is short").to_be_bytes();
        self.frames.write_all(&[&length, frame].concat())
    }

    /// Sends commands to the agent, one in a line.
    pub fn command(&mut self, lines: &str) -> io::Result<()> {
        self.lines.write_all(lines.as_bytes())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.machine.kill();
        let _ = self.machine.wait();
    }
}

/// Accepts the connection that QEMU opens when it starts.
fn accept(listener: &UnixListener, machine: &mut Child) -> io::Result<UnixStream> {
    for _ in 0..CONNECT_ATTEMPTS {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if let Some(status) = machine.try_wait()? {
            return Err(io::Error::other(format!("QEMU has ended: {status}")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(io::Error::other("QEMU does not connect"))
}

/// Each frame is preceded by its length, 4 bytes in network order.
fn receive_frames(stream: UnixStream, inputs: &Sender<Input>) {
    let mut stream = BufReader::new(stream);
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        if stream.read_exact(&mut frame).is_err() || inputs.send(Input::Frame(frame)).is_err() {
            break;
        }
    }
    let _ = inputs.send(Input::End);
}

fn receive_lines(stream: UnixStream, inputs: &Sender<Input>) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if inputs.send(Input::Line(line)).is_err() {
            break;
        }
    }
    let _ = inputs.send(Input::End);
}
