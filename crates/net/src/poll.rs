//! Waiting for packets: polling, sleeping, or one after the other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use weft_time::{Duration, Instant};

use crate::{Clock, Stop, system};

/// While the kernel refuses datagrams, nothing wakes a sleeper when it would take them: look again after this long.
const RETRY_HELD_BACK: Duration = Duration::from_us(50);

/// What a thread does while there is nothing to do.
///
/// Polling answers soonest and occupies a core. Yielding the core between two looks lets several pollers share
/// one, at the cost of the others' turns; it never lets the core fall asleep, which is what makes waking slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// How long to poll after the last packet before going to sleep.
    pub poll: Duration,
    /// Whether to offer the core to other threads between two looks.
    pub yield_core: bool,
}

impl IdlePolicy {
    /// Sleep at once: for a thread that shares its core with much else.
    pub const SLEEP: Self = Self { poll: Duration::ZERO, yield_core: false };
    /// Poll for ever: for a thread that has a core to itself.
    pub const POLL: Self = Self { poll: Duration::from_ps(u64::MAX), yield_core: false };
    /// Poll for ever, offering the core to others between two looks: for pollers that share cores.
    pub const SHARE: Self = Self { poll: Duration::from_ps(u64::MAX), yield_core: true };

    /// Poll for `poll`, offering the core to others, then sleep.
    pub const fn share_then_sleep(poll: Duration) -> Self {
        Self { poll, yield_core: true }
    }
}

/// Which ports have something to receive: a set of indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(u64);

impl Ready {
    /// Whether the port of this index has something to receive.
    pub const fn contains(self, port: usize) -> bool {
        self.0 >> port & 1 == 1
    }

    /// Adds the port that is watched under this key; other keys are not a port's.
    fn add(&mut self, key: u64) {
        if key < Poller::MOST_PORTS as u64 {
            self.0 |= 1 << key;
        }
    }

    /// Whether no port has.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Watches the ports of one thread.
#[derive(Debug)]
pub struct Poller {
    watched: OwnedFd,
    policy: IdlePolicy,
    idle_since: Option<Instant>,
}

impl Poller {
    /// The most ports that one poller watches.
    pub const MOST_PORTS: usize = 63;

    /// Watches `ports`, by their index, and `stop`.
    ///
    /// # Errors
    /// The kernel's, if it grants no more file descriptors.
    ///
    /// # Panics
    /// If there are more than [`Poller::MOST_PORTS`] ports.
    pub fn new(ports: &[impl AsFd], stop: &Stop, policy: IdlePolicy) -> io::Result<Self> {
        assert!(ports.len() <= Self::MOST_PORTS);
        let watched = system::watch_set()?;
        for (key, port) in ports.iter().enumerate() {
            system::watch(watched.as_fd(), port.as_fd(), key as u64)?;
        }
        system::watch(watched.as_fd(), stop.as_fd(), Self::MOST_PORTS as u64)?;
        Ok(Self { watched, policy, idle_since: None })
    }

    /// Which ports have something to receive. Does not wait.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn ready(&self) -> io::Result<Ready> {
        let mut ready = Ready::default();
        system::readable(self.watched.as_fd(), |key| ready.add(key))?;
        Ok(ready)
    }

    /// Notes that there was something to do: the polling time starts anew. Returns whether there is any, so that the
    /// ports deserve another look before [`Poller::idle`].
    pub fn busy(&mut self) -> bool {
        self.idle_since = None;
        self.policy.poll > Duration::ZERO
    }

    /// Passes the time as the policy says. Returns at the latest when a packet arrives, the stop is requested, a signal
    /// is handled or `deadline` has come; while it polls, after every look. Tells which ports have something to
    /// receive. `held_back` says that the kernel has refused datagrams for the moment.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn idle(&mut self, clock: Clock, deadline: Option<Instant>, held_back: bool) -> io::Result<Ready> {
        let now = clock.now();
        let since = *self.idle_since.get_or_insert(now);
        if now.saturating_since(since) < self.policy.poll {
            if self.policy.yield_core {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            return self.ready();
        }
        let until_deadline = deadline.map(|deadline| deadline.saturating_since(now));
        let limit = if held_back {
            Some(until_deadline.map_or(RETRY_HELD_BACK, |time| time.min(RETRY_HELD_BACK)))
        } else {
            until_deadline
        };
        // Rounded up: woken before the deadline, the thread would have to sleep once more.
        let limit_ns = limit.map(|time| time.as_ps().div_ceil(1_000));
        let mut ready = Ready::default();
        system::sleep(self.watched.as_fd(), limit_ns, |key| ready.add(key))?;
        Ok(ready)
    }
}
