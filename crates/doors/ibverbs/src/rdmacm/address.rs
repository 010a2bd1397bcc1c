//! Conversion and resolution of C socket addresses.

use std::ffi::{c_char, c_int};
use std::mem::size_of;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ptr;

use super::abi::rdma_addrinfo;
use super::{RC, TCP, UD, UDP, refuse};
use crate::abi::zeroed;

/// The IPv4 address in a C structure; `None` if it is of another family.
///
/// # Safety
/// `address` must be null or point to as many bytes as its family requires.
pub unsafe fn read(address: *const libc::sockaddr) -> Option<SocketAddrV4> {
    // SAFETY: the caller keeps to this function's contract.
    unsafe {
        if address.is_null() || c_int::from((*address).sa_family) != libc::AF_INET {
            return None;
        }
        let found = *address.cast::<libc::sockaddr_in>();
        let ip = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
        Some(SocketAddrV4::new(ip, u16::from_be(found.sin_port)))
    }
}

fn of(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

/// Writes an IPv4 address into a structure for any address.
pub fn write(place: &mut libc::sockaddr_storage, address: SocketAddrV4) {
    // SAFETY: the place is larger than the address, and aligned for it.
    unsafe { ptr::write(ptr::from_mut(place).cast::<libc::sockaddr_in>(), of(address)) };
}

/// `RAI_PASSIVE`, `RAI_NUMERICHOST`.
const PASSIVE: c_int = 1;
const NUMERIC: c_int = 2;

/// A heap copy of an address, which `rdma_freeaddrinfo` frees.
fn boxed(address: SocketAddrV4) -> *mut libc::sockaddr {
    Box::into_raw(Box::new(of(address))).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    result: *mut *mut rdma_addrinfo,
) -> c_int {
    // SAFETY: the C caller passes valid pointers.
    unsafe {
        let flags = if hints.is_null() { 0 } else { (*hints).ai_flags };
        let mut asked: libc::addrinfo = zeroed();
        asked.ai_family = libc::AF_INET;
        if flags & PASSIVE != 0 {
            asked.ai_flags |= libc::AI_PASSIVE;
        }
        if flags & NUMERIC != 0 {
            asked.ai_flags |= libc::AI_NUMERICHOST;
        }
        let mut found: *mut libc::addrinfo = ptr::null_mut();
        if node.is_null() && service.is_null() {
            return refuse(libc::EINVAL);
        }
        let status = libc::getaddrinfo(node, service, &raw const asked, &raw mut found);
        if status != 0 {
            set_resolution_error(status);
            return status;
        }
        let address = read((*found).ai_addr);
        libc::freeaddrinfo(found);
        let Some(address) = address else { return refuse(libc::EAFNOSUPPORT) };
        let mut info: rdma_addrinfo = zeroed();
        info.ai_flags = flags;
        info.ai_family = libc::AF_INET;
        let (mut kind, mut space) = (0, 0);
        if !hints.is_null() {
            (kind, space) = ((*hints).ai_qp_type, (*hints).ai_port_space);
        }
        info.ai_qp_type = if kind != 0 {
            kind
        } else if space == UDP as c_int {
            UD as c_int
        } else {
            RC as c_int
        };
        let datagrams = info.ai_qp_type == UD as c_int;
        info.ai_port_space = if space != 0 { space } else { (if datagrams { UDP } else { TCP }) as c_int };
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        if flags & PASSIVE != 0 {
            (info.ai_src_addr, info.ai_src_len) = (boxed(address), length);
        } else {
            (info.ai_dst_addr, info.ai_dst_len) = (boxed(address), length);
            let source = if hints.is_null() { None } else { read((*hints).ai_src_addr) };
            if let Some(source) = source {
                (info.ai_src_addr, info.ai_src_len) = (boxed(source), length);
            }
        }
        *result = Box::into_raw(Box::new(info));
    }
    0
}

fn set_resolution_error(status: c_int) {
    if status != libc::EAI_SYSTEM {
        crate::events::set_errno(libc::EADDRNOTAVAIL);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_freeaddrinfo(info: *mut rdma_addrinfo) {
    if info.is_null() {
        return;
    }
    // SAFETY: it and its addresses were allocated above.
    unsafe {
        let info = Box::from_raw(info);
        for address in [info.ai_src_addr, info.ai_dst_addr] {
            if !address.is_null() {
                drop(Box::from_raw(address.cast::<libc::sockaddr_in>()));
            }
        }
    }
}
