//! The request to stop, from another thread or from a signal.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::system;

/// A flag that is raised once, and that also wakes a thread that sleeps in a [`Poller`](crate::Poller).
///
/// A flag alone leaves a race: if it is raised between the check and the sleep, the thread would notice it only
/// after the sleep. So the flag also raises an event counter of the kernel (`eventfd`), which is readable from
/// then on.
#[derive(Debug)]
pub struct Stop {
    requested: AtomicBool,
    event: File,
}

static ON_SIGNAL: OnceLock<Stop> = OnceLock::new();

impl Stop {
    /// A flag that is not raised.
    ///
    /// # Errors
    /// The kernel's error, if it grants no more file descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self { requested: AtomicBool::new(false), event: File::from(system::event_counter()?) })
    }

    /// The process-wide flag that SIGINT and SIGTERM raise. The first call installs the signal handlers; after it,
    /// SIGHUP, SIGUSR1 and SIGUSR2 no longer end the process. A second signal of the same kind ends the process at
    /// once, for a user who does not want to wait.
    ///
    /// # Errors
    /// The kernel's error, if it grants no more file descriptors or refuses the handlers.
    pub fn on_signals() -> io::Result<&'static Self> {
        if ON_SIGNAL.get().is_none() {
            let stop = Self::new()?;
            // If two threads get here at the same time, the flag of either is used.
            let _ = ON_SIGNAL.set(stop);
            system::on_stop_signals(|| {
                if let Some(stop) = ON_SIGNAL.get() {
                    stop.request();
                }
            })?;
        }
        Ok(ON_SIGNAL.get().expect("set above"))
    }

    /// Raises the flag. It only does what is allowed in a signal handler.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Release);
        // This fails only after 2^64 - 2 earlier requests.
        let _ = (&self.event).write(&1u64.to_ne_bytes());
    }

    /// Whether the flag is raised.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
