//! Unsupported parts of librdmacm: sockets over verbs, multicast.

use std::ffi::c_int;

use super::refuse;

/// Programs also call this function for ordinary descriptors, so it is supported for these.
#[unsafe(no_mangle)]
unsafe extern "C" fn rpoll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller's array.
    unsafe { libc::poll(fds, count, timeout) }
}

macro_rules! not_offered {
    ($($name:ident),* $(,)?) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name() -> isize {
            refuse(libc::EOPNOTSUPP) as isize
        })*
    };
}

not_offered!(
    raccept,
    rbind,
    rclose,
    rconnect,
    rfcntl,
    rgetpeername,
    rgetsockname,
    rgetsockopt,
    riomap,
    riounmap,
    riowrite,
    rlisten,
    rread,
    rreadv,
    rrecv,
    rrecvfrom,
    rrecvmsg,
    rselect,
    rsend,
    rsendmsg,
    rsendto,
    rsetsockopt,
    rshutdown,
    rsocket,
    rwrite,
    rwritev,
    rdma_join_multicast,
    rdma_join_multicast_ex,
    rdma_leave_multicast,
    rdma_set_local_ece,
    rdma_get_remote_ece,
);
