//! Completion channels and asynchronous events: queues behind file descriptors on which programs wait.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::Raised;

/// `ibv_event_type`, by number.
#[allow(missing_docs, reason = "the names are those of verbs")]
pub mod kind {
    pub const CQ_ERR: u32 = 0;
    pub const QP_REQ_ERR: u32 = 2;
    pub const QP_ACCESS_ERR: u32 = 3;
    pub const COMM_EST: u32 = 4;
    pub const SQ_DRAINED: u32 = 5;
    pub const SRQ_LIMIT_REACHED: u32 = 15;
    pub const QP_LAST_WQE_REACHED: u32 = 16;
}

/// A file descriptor that counts: it can be read once for each time that it was written.
pub fn counting_descriptor() -> RawFd {
    // SAFETY: no memory is involved.
    unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) }
}

/// Increments a descriptor's count.
pub fn count_up(fd: RawFd) {
    let one = 1_u64;
    // SAFETY: eight bytes are what the kernel reads.
    unsafe { libc::write(fd, ptr::from_ref(&one).cast(), 8) };
}

/// Waits until a descriptor's count is positive, unless the program has made it non-blocking, and decrements it.
/// Returns `false`, with `errno` set, if the count is zero.
pub fn count_down(fd: RawFd) -> bool {
    let mut word = 0_u64;
    // SAFETY: eight bytes are what the kernel writes.
    unsafe { libc::read(fd, ptr::from_mut(&mut word).cast(), 8) == 8 }
}

/// A completion channel: a queue of completion queues that have an event.
#[derive(Debug)]
pub struct Channel {
    fd: RawFd,
    waiting: Mutex<VecDeque<usize>>,
}

impl Channel {
    /// A channel behind a [`counting_descriptor`].
    pub fn new(fd: RawFd) -> Self {
        Self { fd, waiting: Mutex::default() }
    }

    /// Reports an event of a completion queue.
    pub fn push(&self, queue: *mut c_void) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(queue as usize);
        count_up(self.fd);
    }

    /// Waits for the next event; `None`, with `errno` set, if there is none and the descriptor is non-blocking.
    pub fn next(&self) -> Option<*mut c_void> {
        loop {
            if !count_down(self.fd) {
                return None;
            }
            // The events of a destroyed queue were removed, but its counts were not.
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if let Some(queue) = next {
                return Some(queue as *mut c_void);
            }
        }
    }

    /// Removes the events of a completion queue; returns their number.
    pub fn forget(&self, queue: *mut c_void) -> u64 {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.len();
        waiting.retain(|&other| other != queue as usize);
        (before - waiting.len()) as u64
    }
}

#[derive(Debug)]
struct Pending {
    kind: u32,
    object: usize,
    raised: Option<Arc<Raised>>,
}

/// The asynchronous events of a context.
#[derive(Debug)]
pub struct AsyncQueue {
    fd: RawFd,
    waiting: Mutex<VecDeque<Pending>>,
}

impl AsyncQueue {
    /// A queue behind a [`counting_descriptor`].
    pub fn new(fd: RawFd) -> Self {
        Self { fd, waiting: Mutex::default() }
    }

    /// Adds an event of an object.
    pub fn push(&self, kind: u32, object: *mut c_void, raised: Option<Arc<Raised>>) {
        let pending = Pending { kind, object: object as usize, raised };
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(pending);
        count_up(self.fd);
    }

    /// Waits for the next event; `None`, with `errno` set, if there is none and the descriptor is non-blocking.
    pub fn next(&self) -> Option<(u32, *mut c_void)> {
        loop {
            if !count_down(self.fd) {
                return None;
            }
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if let Some(event) = next {
                return Some((event.kind, event.object as *mut c_void));
            }
        }
    }

    /// Removes the events of an object.
    pub fn forget(&self, object: *mut c_void) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|event| {
            let stays = event.object != object as usize;
            if let (false, Some(raised)) = (stays, &event.raised) {
                raised.others.fetch_sub(1, Ordering::AcqRel);
            }
            stays
        });
    }
}

/// Sets `errno`.
pub fn set_errno(number: c_int) {
    // SAFETY: the location is this thread's own.
    unsafe { *libc::__errno_location() = number };
}
