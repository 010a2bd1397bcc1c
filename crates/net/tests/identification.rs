//! The IP identification that really leaves the machine.
//!
//! A TUN interface hands every IP packet that the kernel sends through it to this test, already cut into segments. It
//! needs root, for a network namespace of its own; elsewhere the test says so and does nothing.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use weft_net::{OversizedDatagram, PortOptions, UdpPort};

const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const THERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 2), 4791);

fn check(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A request that concerns the interface of this name.
fn request() -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"weft0") {
        *to = *from as libc::c_char;
    }
    request
}

fn address(address: Ipv4Addr) -> libc::sockaddr {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: both types have the same size, and every bit pattern is a valid sockaddr.
    unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address) }
}

/// Moves this thread into an empty network namespace and gives it one interface, 10.77.0.1/24 with an MTU of 1500.
fn open_tunnel() -> io::Result<File> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    let tunnel = File::options().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: takes no pointers; the descriptor that comes back is nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0))?) };
    let mut device = request();
    device.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    let mut own = request();
    own.ifr_ifru.ifru_addr = address(HERE);
    let mut mask = request();
    mask.ifr_ifru.ifru_netmask = address(Ipv4Addr::new(255, 255, 255, 0));
    let mut flags = request();
    flags.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    for (descriptor, command, request) in [
        (tunnel.as_raw_fd(), libc::TUNSETIFF as libc::Ioctl, &mut device),
        (socket.as_raw_fd(), libc::SIOCSIFADDR as libc::Ioctl, &mut own),
        (socket.as_raw_fd(), libc::SIOCSIFNETMASK as libc::Ioctl, &mut mask),
        (socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &mut flags),
    ] {
        // SAFETY: these commands read and write one ifreq, which the pointer is valid for.
        check(unsafe { libc::ioctl(descriptor, command, &raw mut *request) })?;
    }
    Ok(tunnel)
}

/// Identification, whether fragmentation is forbidden, and UDP payload of the next packet to [`THERE`].
fn next_packet(tunnel: &mut File) -> (u16, bool, Vec<u8>) {
    let mut packet = [0; 2048];
    loop {
        let length = tunnel.read(&mut packet).unwrap();
        let packet = &packet[..length];
        let is_ours = packet[0] >> 4 == 4 && packet[9] == 17 && packet[16..20] == THERE.ip().octets();
        if is_ours {
            let header = usize::from(packet[0] & 15) * 4;
            let identification = u16::from_be_bytes([packet[4], packet[5]]);
            return (identification, packet[6] & 0x40 != 0, packet[header + 8..].to_vec());
        }
    }
}

#[test]
fn datagrams_carry_the_identification_that_their_writer_was_told() {
    let mut tunnel = match open_tunnel() {
        Ok(tunnel) => tunnel,
        Err(error) => return eprintln!("skipped: no network namespace with a TUN interface: {error}"),
    };
    let mut port = UdpPort::bind(SocketAddrV4::new(HERE, 0), &PortOptions::default()).unwrap();

    for number in 0..5u8 {
        assert!(port.push(THERE, &[number; 64]));
        assert_eq!(port.flush().unwrap(), 1);
        assert_eq!(next_packet(&mut tunnel), (0, true, vec![number; 64]), "a datagram of its own");
    }

    for run in 0..3u8 {
        for number in 0..20u8 {
            let length = if number == 19 { 5 } else { 1400 };
            assert!(port.push_with(THERE, length, |identification, buffer| {
                assert_eq!(identification, if number == 0 { 0 } else { u16::from(number) });
                buffer.fill(run + number);
            }));
        }
        if port.flush().unwrap() < 20 {
            assert!(!port.segmentation());
            return eprintln!("skipped: this kernel does not segment for a device without checksum offload");
        }
        for number in 0..20u8 {
            let length = if number == 19 { 5 } else { 1400 };
            let expected = (u16::from(number), true, vec![run + number; length]);
            assert_eq!(next_packet(&mut tunnel), expected, "segment {number}");
        }
    }

    // 1472 bytes fill the MTU of 1500; one more is refused, alone and in a run, and is reported once.
    assert!(port.push(THERE, &[7; 1473]));
    assert!(port.push(THERE, &[8; 1473]));
    assert_eq!(port.flush().unwrap(), 0);
    assert!(port.push(THERE, &[9; 1473]));
    assert_eq!(port.flush().unwrap(), 0);
    assert!(port.push(THERE, &[10; 1472]));
    assert_eq!(port.flush().unwrap(), 1);
    assert_eq!(next_packet(&mut tunnel), (0, true, vec![10; 1472]));
    assert_eq!(port.take_oversized(), Some(OversizedDatagram { to: THERE, length: 1473 }));
    assert_eq!(port.take_oversized(), None);
    assert_eq!(port.counters().oversized + port.counters().refused, 3);
}
