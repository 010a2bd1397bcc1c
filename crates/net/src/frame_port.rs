//! Operating-system ports for Ethernet frames, used by NICs with their own IP stack.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::system::{self, LONGEST_XDP_FRAME, XdpSocket};

/// Upper bound of a frame's length: without segmentation, a port carries single Ethernet frames, at most jumbo
/// frames.
const LONGEST_FRAME: usize = 16 << 10;

/// Sends and receives Ethernet frames, without preamble and frame check sequence, and never blocks.
pub trait FramePort: AsFd {
    /// Appends the next frame that has arrived to `frame`; `false` if there is none.
    ///
    /// # Errors
    /// Only errors after which the port cannot be used any more.
    fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<bool>;

    /// Passes a frame to the network. Returns `false` if the port is full at the moment. A frame that the port can
    /// never send is dropped, as on any network.
    ///
    /// # Errors
    /// Only errors after which the port cannot be used any more.
    fn transmit(&mut self, frame: &[u8]) -> io::Result<bool>;

    /// Sends the frames that the port has collected. Call it once after several calls of [`FramePort::transmit`].
    ///
    /// # Errors
    /// Only errors after which the port cannot be used any more.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A descriptor on which each read and each write is one frame.
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
                    // A packet socket reports once that its interface is down, and works again when the interface
                    // is up.
                    Some(libc::EINTR | libc::ENETDOWN) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    fn transmit(&mut self, frame: &[u8]) -> io::Result<bool> {
        loop {
            match self.file.write(frame) {
                // The kernel accepts a frame only as a whole.
                Ok(_taken) => return Ok(true),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS) => return Ok(false),
                    Some(libc::EINTR) => {}
                    // The interface is down, or the frame's length is not allowed: drop the frame.
                    Some(libc::EIO | libc::ENETDOWN | libc::EMSGSIZE | libc::EINVAL) => return Ok(true),
                    _ => return Err(error),
                },
            }
        }
    }
}

/// A TAP device: it receives the frames that the kernel sends through the interface, and the frames that it sends
/// arrive there.
///
/// Creating the device needs root (`ip tuntap add dev weft0 mode tap user NAME`). Using a device that belongs to
/// the user needs no privilege where `/dev/net/tun` is accessible to all users, as in common distributions.
#[derive(Debug)]
pub struct TapPort(Frames);

impl TapPort {
    /// Opens the TAP device of this name. If it does not exist, it is created for as long as the port exists,
    /// which needs root.
    ///
    /// # Errors
    /// `/dev/net/tun` cannot be opened, or the device belongs to another user or is in use.
    pub fn open(name: &str) -> io::Result<Self> {
        Self::with_tun(File::options().read(true).write(true).open("/dev/net/tun")?.into(), name)
    }

    /// As [`TapPort::open`], on a descriptor of `/dev/net/tun` that another program has opened.
    ///
    /// # Errors
    /// The descriptor is not of `/dev/net/tun`, or the device belongs to another user or is in use.
    pub fn with_tun(tun: OwnedFd, name: &str) -> io::Result<Self> {
        system::attach_tap(tun.as_fd(), name)?;
        system::set_nonblocking(tun.as_fd())?;
        Ok(Self(Frames::new(tun)))
    }
}

/// A packet socket: the NIC is one more host on the network of an interface. It needs the capability
/// `CAP_NET_RAW`.
///
/// Offloads must be off (`ethtool -K INTERFACE gro off lro off`, and `tx off` at the other end of a virtual link):
/// a NIC takes frames that the interface has joined, or whose checksum is not filled in yet, for malformed.
#[derive(Debug)]
pub struct PacketPort(Frames);

impl PacketPort {
    /// Opens a socket on the interface of this name.
    ///
    /// # Errors
    /// There is no such interface, or the capability is missing.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self(Frames::new(system::packet_socket(name)?)))
    }
}

/// An AF_XDP socket: frames in memory that is shared with the kernel. It bypasses the kernel's IP stack, and a
/// polling thread receives without system calls. It needs the capabilities `CAP_NET_RAW`, `CAP_NET_ADMIN` and
/// `CAP_BPF`.
///
/// The socket receives all frames of one queue of the interface, and the machine itself none of them. So use an
/// interface that only the NIC uses, or a network card that steers RoCE to a separate queue (`ethtool -N INTERFACE
/// flow-type udp4 dst-port 4791 action QUEUE`; ARP has to arrive there, too). On a virtual interface, `ip link add
/// … type veth`, that is queue 0. A frame has at most 3,840 bytes, which allows a path MTU of 2,048. Offloads must
/// be off as for a [`PacketPort`].
#[derive(Debug)]
pub struct XdpPort(XdpSocket);

impl XdpPort {
    /// Opens a socket on a queue of the interface of this name.
    ///
    /// # Errors
    /// The interface or queue does not exist or is in use, a capability is missing, or the kernel was built
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
