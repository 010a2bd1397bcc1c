//! Interfaces in a network namespace of the test's own thread. This needs root.

// Each test file uses only a part of this module.
#![allow(dead_code)]

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

fn check(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A request that concerns the interface of this name.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
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

/// Moves this thread into an empty network namespace.
pub fn enter_namespace() -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(())
}

/// Creates a TUN interface of this name, which carries IP packets.
pub fn open_tun(name: &str) -> io::Result<File> {
    let tunnel = File::options().read(true).write(true).open("/dev/net/tun")?;
    let mut device = request(name);
    device.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the command reads and writes one ifreq, which the pointer is valid for.
    check(unsafe { libc::ioctl(tunnel.as_raw_fd(), libc::TUNSETIFF as libc::Ioctl, &raw mut device) })?;
    Ok(tunnel)
}

/// Gives an interface an address in a network with a 24-bit prefix and brings it up, with an MTU of 1500.
pub fn set_up(name: &str, own: Ipv4Addr) -> io::Result<()> {
    // SAFETY: takes no pointers; the descriptor that comes back is nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0))?) };
    let (mut here, mut mask, mut flags) = (request(name), request(name), request(name));
    here.ifr_ifru.ifru_addr = address(own);
    mask.ifr_ifru.ifru_netmask = address(Ipv4Addr::new(255, 255, 255, 0));
    flags.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    for (command, request) in [
        (libc::SIOCSIFADDR as libc::Ioctl, &mut here),
        (libc::SIOCSIFNETMASK as libc::Ioctl, &mut mask),
        (libc::SIOCSIFFLAGS as libc::Ioctl, &mut flags),
    ] {
        // SAFETY: these commands read and write one ifreq, which the pointer is valid for.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), command, &raw mut *request) })?;
    }
    Ok(())
}

/// Creates a virtual link with these two ends, both up, with the offloads off that only the kernel's stack can
/// complete.
pub fn virtual_link(one: &str, other: &str) -> io::Result<()> {
    ip(&["link", "add", one, "type", "veth", "peer", "name", other])?;
    for end in [one, other] {
        // Keep the kernel's neighbour discovery packets off the link.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
        ip(&["link", "set", end, "up"])?;
    }
    Ok(())
}

/// Runs `ip` (of iproute2) with these arguments.
pub fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = std::process::Command::new("ip").args(arguments).output()?;
    let said = || io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    if output.status.success() { Ok(()) } else { Err(said()) }
}
