//! TAP devices and packet sockets: descriptors that carry Ethernet frames.

use std::ffi::{CString, c_int};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;

/// Makes reads and writes of a descriptor non-blocking.
pub(crate) fn set_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointers.
    let flags = check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: takes no pointers.
    check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Attaches a descriptor of `/dev/net/tun` to the TAP device of this name. Its frames have no additional header of
/// the kernel.
pub(crate) fn attach_tap(tun: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The name must leave room for a terminating zero.
    if name.len() >= request.ifr_name.len() || name.bytes().any(|byte| byte == 0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the command reads and writes one ifreq, which the pointer is valid for.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as libc::Ioctl, &raw mut request) })?;
    Ok(())
}

/// A packet socket that receives all frames of the interface of this name, including those for other hosts, but
/// not those that this machine sends.
pub(crate) fn packet_socket(name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: the pointer is valid for reads up to the terminating zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // Protocol 0: nothing arrives until the socket is bound to the interface.
    // SAFETY: takes no pointers.
    let descriptor = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the descriptor is open and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let ignore: c_int = 1;
    // SAFETY: all-zero is a valid packet_mreq and a valid sockaddr_ll.
    let (mut membership, mut address) =
        unsafe { (zeroed::<libc::packet_mreq>(), zeroed::<libc::sockaddr_ll>()) };
    membership.mr_ifindex = index as c_int;
    membership.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as c_int;
    let options: [(c_int, *const libc::c_void, usize); 2] = [
        (libc::PACKET_IGNORE_OUTGOING, (&raw const ignore).cast(), size_of::<c_int>()),
        (libc::PACKET_ADD_MEMBERSHIP, (&raw const membership).cast(), size_of::<libc::packet_mreq>()),
    ];
    for (option, value, length) in options {
        // SAFETY: the pointer is valid for a read of the length given.
        check(unsafe {
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, value, length as libc::socklen_t)
        })?;
    }
    // SAFETY: the pointer is valid for a read of the length given.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })?;
    Ok(socket)
}
