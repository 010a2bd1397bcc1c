//! The system calls that the standard library does not offer: the only unsafe code of this crate.

#![allow(unsafe_code)]

mod interfaces;
mod messages;
mod xdp;

use std::ffi::c_int;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::OnceLock;

pub(crate) use interfaces::{attach_tap, packet_socket, set_nonblocking};
pub(crate) use messages::{Messages, Piece, Sending};
pub(crate) use xdp::{LONGEST_XDP_FRAME, XdpSocket};

/// Converts a system call's result: -1 means that `errno` has the error.
fn check(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is valid for a write of one timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
    assert_eq!(result, 0, "Linux always has CLOCK_MONOTONIC");
    // SAFETY: a successful call has filled it in.
    let time = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sets an integer option of a socket.
pub(crate) fn set_option(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the pointer is valid for a read of the length given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// An integer option of a socket.
pub(crate) fn option(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: both pointers are valid for writes, the first of `length` bytes.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    })?;
    Ok(value)
}

/// Number of datagrams that the kernel has dropped because the socket's receive buffer was full.
pub(crate) fn receive_buffer_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // The statistics of SO_MEMINFO are an array of u32; its length and SK_MEMINFO_DROPS are in linux/sock_diag.h.
    const STATISTICS: usize = 9;
    const DROPS: usize = 8;
    let mut values = [0u32; STATISTICS];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: both pointers are valid for writes, the first of `length` bytes.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(values[DROPS])
}

/// An `eventfd`, not yet raised.
pub(crate) fn event_counter() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let descriptor = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: the descriptor is open and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// An empty set of descriptors to watch (`epoll`).
pub(crate) fn watch_set() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let descriptor = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the descriptor is open and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Adds `watched` to the set: it is reported with `key` when it becomes readable.
pub(crate) fn watch(set: BorrowedFd<'_>, watched: BorrowedFd<'_>, key: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: key };
    // SAFETY: the pointer is valid for a read of one event.
    check(unsafe {
        libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_ADD, watched.as_raw_fd(), &raw mut event)
    })?;
    Ok(())
}

/// Changes the events for which a descriptor of the set is watched: readable, writable, or both.
pub(crate) fn watch_again(
    set: BorrowedFd<'_>,
    watched: BorrowedFd<'_>,
    key: u64,
    (readable, writable): (bool, bool),
) -> io::Result<()> {
    let flag = |is_set: bool, flag: c_int| if is_set { flag as u32 } else { 0 };
    let events = flag(readable, libc::EPOLLIN) | flag(writable, libc::EPOLLOUT);
    let mut event = libc::epoll_event { events, u64: key };
    // SAFETY: the pointer is valid for a read of one event.
    check(unsafe {
        libc::epoll_ctl(set.as_raw_fd(), libc::EPOLL_CTL_MOD, watched.as_raw_fd(), &raw mut event)
    })?;
    Ok(())
}

/// The most descriptors that one call reports; the next call reports others.
pub(crate) const EVENTS_AT_ONCE: usize = 16;

/// Calls `found` with the key of each watched descriptor that is readable, without waiting.
pub(crate) fn readable(set: BorrowedFd<'_>, mut found: impl FnMut(u64)) -> io::Result<()> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_AT_ONCE];
    // SAFETY: the pointer is valid for writes of EVENTS_AT_ONCE events.
    let count = unsafe { libc::epoll_wait(set.as_raw_fd(), events.as_mut_ptr(), EVENTS_AT_ONCE as c_int, 0) };
    match check(count) {
        Ok(count) => events[..count as usize].iter().for_each(|event| found(event.u64)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Sleeps until a watched descriptor is readable, a signal arrives or the time, in nanoseconds, is over. Then
/// reports as [`readable`].
pub(crate) fn sleep(
    set: BorrowedFd<'_>,
    limit_ns: Option<u64>,
    mut found: impl FnMut(u64),
) -> io::Result<()> {
    let limit = limit_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as _,
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_AT_ONCE];
    // SAFETY: the second argument is valid for writes of EVENTS_AT_ONCE events; the fourth is null or points to a live
    // timespec, whose layout on 64-bit Linux is the kernel's; a null signal mask, of any length, is allowed.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            set.as_raw_fd(),
            events.as_mut_ptr(),
            EVENTS_AT_ONCE as c_int,
            limit,
            ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    match check(count as c_int) {
        Ok(count) => events[..count as usize].iter().for_each(|event| found(event.u64)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        // Linux before 5.11 can wait with such a fine limit only by `ppoll` on the set's descriptor.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            let mut poll = libc::pollfd { fd: set.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the first pointer is valid for one pollfd; the others as above.
            match check(unsafe { libc::ppoll(&raw mut poll, 1, limit, ptr::null()) }) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => return readable(set, found),
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The cores on which this thread may run, in ascending order.
pub(crate) fn cores() -> io::Result<Vec<u32>> {
    // SAFETY: all-zero is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for a write of the length given; thread 0 is the calling one.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: the numbers are those that a set holds.
    let contains = |core: &u32| unsafe { libc::CPU_ISSET(*core as usize, &set) };
    Ok((0..libc::CPU_SETSIZE as u32).filter(contains).collect())
}

/// Pins this thread, and threads and children that it starts later, to one core.
pub(crate) fn keep_to_core(core: u32) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as u32 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: all-zero is a valid, empty set, and `core` was checked to be in range.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core as usize, &mut set);
        set
    };
    // SAFETY: the pointer is valid for a read of the length given; thread 0 is the calling one.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) })?;
    Ok(())
}

/// Asks the kernel not to back a range of memory with huge pages. The first access to a page waits until the kernel
/// has found and zeroed it. With pages of 2 MiB that took 14 ms on average in a virtual machine, and up to 0.3 s, in
/// which a node loses its lease; with pages of 4 KiB 3 us, and up to 8 ms.
pub(crate) fn refuse_huge_pages(bytes: &[u8]) {
    // The kernel refuses if it has no huge pages.
    let _ = advise(bytes, libc::MADV_NOHUGEPAGE);
}

/// Takes the memory of a range now, in huge pages where the kernel has them: random reads of a large table then miss
/// the processor's translation cache less often.
pub(crate) fn populate(bytes: &[u8]) -> io::Result<()> {
    let _ = advise(bytes, libc::MADV_HUGEPAGE);
    advise(bytes, libc::MADV_POPULATE_WRITE)
}

/// Gives advice that does not change what `bytes` hold, for the whole pages among them: the memory around belongs to
/// the allocator.
fn advise(bytes: &[u8], advice: c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let first = bytes.as_ptr().align_offset(page);
    let Some(length) = bytes.len().checked_sub(first).map(|length| length / page * page) else {
        return Ok(());
    };
    // SAFETY: the range lies within `bytes`, and none of the advice given here changes what it holds.
    check(unsafe { libc::madvise(bytes.as_ptr().add(first).cast_mut().cast(), length, advice) })?;
    Ok(())
}

/// Makes this thread's timers precise. By default the kernel delays them by up to 50 us to group them.
pub(crate) fn make_timers_precise() {
    // SAFETY: takes no pointers. It cannot fail with these arguments.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

static STOP_ACTION: OnceLock<fn()> = OnceLock::new();

/// Calls `action` on the first SIGINT and on the first SIGTERM, and ignores SIGHUP, SIGUSR1 and SIGUSR2. `action`
/// may only do what is allowed in a signal handler.
pub(crate) fn on_stop_signals(action: fn()) -> io::Result<()> {
    extern "C" fn handle(_signal: c_int) {
        // SAFETY: a thread's errno is always there. The interrupted code may be about to read it, so it is put back.
        unsafe {
            let errno = libc::__errno_location();
            let saved = *errno;
            if let Some(action) = STOP_ACTION.get() {
                action();
            }
            *errno = saved;
        }
    }
    STOP_ACTION.get_or_init(|| action);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: all-zero is a valid sigaction (no flags, an empty mask, the default handler).
        let mut disposition: libc::sigaction = unsafe { std::mem::zeroed() };
        disposition.sa_sigaction = handle as extern "C" fn(c_int) as libc::sighandler_t;
        disposition.sa_flags = libc::SA_RESETHAND;
        // SAFETY: the pointer is valid for a read; the handler does only what is async-signal-safe.
        check(unsafe { libc::sigaction(signal, &raw const disposition, ptr::null_mut()) })?;
    }
    extern "C" fn pass(_signal: c_int) {}
    // The node goes on if its terminal closes, or if a tool sends a signal to reload its configuration. A handler,
    // unlike SIG_IGN, is not inherited by programs that the process starts.
    for signal in [libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: as above.
        let mut disposition: libc::sigaction = unsafe { std::mem::zeroed() };
        disposition.sa_sigaction = pass as extern "C" fn(c_int) as libc::sighandler_t;
        disposition.sa_flags = libc::SA_RESTART;
        // SAFETY: the pointer is valid for a read; the handler does nothing.
        check(unsafe { libc::sigaction(signal, &raw const disposition, ptr::null_mut()) })?;
    }
    Ok(())
}

/// Makes the kernel kill the child when the thread that starts it ends for any reason.
pub(crate) fn die_with_parent(command: &mut Command) {
    // SAFETY: takes no pointers.
    let parent = unsafe { libc::getpid() };
    let arrange = move || {
        // SAFETY: takes no pointers.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) })?;
        // The parent may have ended before the request was made.
        // SAFETY: takes no pointers.
        if unsafe { libc::getppid() } != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure calls only prctl and getppid, and allocates nothing.
    unsafe { command.pre_exec(arrange) };
}

/// Sends a signal to a child that has not been waited for, so that its number cannot belong to another process.
pub(crate) fn signal_child(child: &std::process::Child, signal: c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::kill(child.id() as libc::pid_t, signal) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_refuses_huge_pages_keeps_its_content() {
        for length in [0, 1, 4_095, 4_096, 100_000, 8 << 20] {
            let mut bytes = vec![7u8; length];
            refuse_huge_pages(&bytes);
            assert!(bytes.iter().all(|&byte| byte == 7));
            bytes.fill(8);
            assert!(bytes.iter().all(|&byte| byte == 8));
        }
    }

    #[test]
    fn populated_memory_is_there_and_keeps_its_content() {
        let bytes = vec![0u8; 8 << 20];
        populate(&bytes).unwrap();
        let pages = bytes.len() / 4_096 - 1;
        let mut resident = vec![0u8; pages];
        let first = bytes.as_ptr().align_offset(4_096);
        // SAFETY: the range lies within `bytes`, and the kernel writes a byte for each of its pages.
        check(unsafe {
            libc::mincore(bytes.as_ptr().add(first).cast_mut().cast(), pages * 4_096, resident.as_mut_ptr())
        })
        .unwrap();
        assert!(resident.iter().all(|&page| page & 1 == 1));
        assert!(bytes.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn the_kernel_knows_which_memory_refuses_huge_pages() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            eprintln!("skipped: this kernel has no transparent huge pages");
            return;
        }
        let bytes = vec![0u8; 8 << 20];
        refuse_huge_pages(&bytes);
        // In smaps a mapping begins with its addresses and ends with its flags, of which `nh` is the advice.
        let middle = bytes.as_ptr() as usize + bytes.len() / 2;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let addresses = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
        };
        let mapping =
            maps.lines().skip_while(|line| !addresses(line).is_some_and(|found| found.contains(&middle)));
        let flags = mapping.into_iter().find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.contains(" nh"), "{flags}");
    }
}
