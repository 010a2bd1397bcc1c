//! Ports of the operating system that carry Ethernet frames, for NICs that bring their own IP stack.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::system::{self, LONGEST_XDP_FRAME, XdpSocket};

/// No frame is longer: a port without segmentation carries what one Ethernet frame may hold, a jumbo frame too.
const LONGEST_FRAME: usize = 16 << 10;

/// Sends and receives Ethernet frames, without preamble and frame check sequence, and never waits.
pub trait FramePort: AsFd {
    /// Appends the next frame that has arrived to `frame`; `false` if there is none.
    ///
    /// # Errors
    /// Only what makes the port useless.
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool>;

    /// Hands a frame to the network. `false`: it takes none for the moment. A frame that it will never take is lost, as
    /// on any network.
    ///
    /// # Errors
    /// Only what makes the port useless.
    fn transmit(&mut self, frame: &[u8]) -> io::Result<bool>;

    /// Lets the network have the frames that were handed over and that the port has collected: called once behind
    /// several.
    ///
    /// # Errors
    /// Only what makes the port useless.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A descriptor each read of which is a frame, and each write.
#[derive(Debug)]
struct Frames {
    file: File,
    buffer: Vec<u8>,
}

impl Frames {
    fn new(descriptor: OwnedFd) -> Self {
        Self { file: File::from(descriptor), buffer: vec![0; LONGEST_FRAME] }
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            match self.file.read(&mut self.buffer) {
                Ok(length) => {
                    frame.extend_from_slice(&self.buffer[..length]);
                    return Ok(true);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(false),
                    // A packet socket tells once that its interface is down, and goes on when it is up again.
                    Some(libc::EINTR | libc::ENETDOWN) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    fn transmit(&mut self, frame: &[u8]) -> io::Result<bool> {
        loop {
            match self.file.write(frame) {
                // A frame is taken as a whole.
                Ok(_taken) => return Ok(true),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS) => return Ok(false),
                    Some(libc::EINTR) => {}
                    // The interface is down, or the frame is longer or shorter than it allows.
                    Some(libc::EIO | libc::ENETDOWN | libc::EMSGSIZE | libc::EINVAL) => return Ok(true),
                    _ => return Err(error),
                },
            }
        }
    }
}

/// A TAP device: what the kernel sends through the interface is received here, and what is sent here arrives there.
///
/// To make the device takes root (`ip tuntap add dev weft0 mode tap user NAME`); to use one that belongs to the user
/// takes no privilege, where `/dev/net/tun` is open to everybody, as distributions have it.
#[derive(Debug)]
pub struct TapPort(Frames);

impl TapPort {
    /// The TAP device of this name. If there is none it is made, for as long as the port exists, which takes root.
    ///
    /// # Errors
    /// `/dev/net/tun` may not be opened, or the device belongs to somebody else or is in use.
    pub fn open(name: &str) -> io::Result<Self> {
        Self::with_tun(File::options().read(true).write(true).open("/dev/net/tun")?.into(), name)
    }

    /// As [`TapPort::open`], on a descriptor of `/dev/net/tun` that somebody else has opened.
    ///
    /// # Errors
    /// The descriptor is of something else, or the device belongs to somebody else or is in use.
    pub fn with_tun(tun: OwnedFd, name: &str) -> io::Result<Self> {
        system::attach_tap(tun.as_fd(), name)?;
        system::set_nonblocking(tun.as_fd())?;
        Ok(Self(Frames::new(tun)))
    }
}

/// A packet socket: the NIC is one more station on the network of an interface. It takes the capability `CAP_NET_RAW`.
///
/// A frame that the interface has joined from several, or whose checksum it means to fill in later, is malformed to a
/// NIC: such offloads must be off (`ethtool -K INTERFACE gro off lro off`, and `tx off` at the other end of a virtual
/// link).
#[derive(Debug)]
pub struct PacketPort(Frames);

impl PacketPort {
    /// A socket on the interface of this name.
    ///
    /// # Errors
    /// There is no such interface, or the capability is missing.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self(Frames::new(system::packet_socket(name)?)))
    }
}

/// An AF_XDP socket: frames in memory that is shared with the kernel, without its IP stack and, on the way in, without
/// a system call for a thread that polls. It takes the capabilities `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF`.
///
/// All frames of one queue of the interface come here, and the machine itself receives none of them: an interface for
/// the NIC alone, or whose card steers RoCE to a queue of its own (`ethtool -N INTERFACE flow-type udp4 dst-port 4791
/// action QUEUE`; ARP has to come there, too). On a virtual interface, `ip link add … type veth`, that is queue 0. A
/// frame has at most 3,840 bytes, so a path MTU of 2,048. Offloads must be off as for a [`PacketPort`].
#[derive(Debug)]
pub struct XdpPort(XdpSocket);

impl XdpPort {
    /// A socket on a queue of the interface of this name.
    ///
    /// # Errors
    /// There is no such interface or queue, somebody else has it, a capability is missing, or the kernel was built
    /// without AF_XDP.
    pub fn open(interface: &str, queue: u32) -> io::Result<Self> {
        Ok(Self(XdpSocket::open(interface, queue)?))
    }
}

impl FramePort for XdpPort {
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        Ok(self.0.receive(frame))
    }

    fn transmit(&mut self, frame: &[u8]) -> io::Result<bool> {
        if frame.len() > LONGEST_XDP_FRAME || self.0.transmit(frame) {
            return Ok(true);
        }
        self.0.flush()?;
        Ok(self.0.transmit(frame))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for XdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

macro_rules! frame_port {
    ($($port:ty),*) => {$(
        impl FramePort for $port {
            fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
                self.0.receive(frame)
            }

            fn transmit(&mut self, frame: &[u8]) -> io::Result<bool> {
                self.0.transmit(frame)
            }
        }

        impl AsFd for $port {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.file.as_fd()
            }
        }
    )*};
}

frame_port!(TapPort, PacketPort);
