//! Waiting for packets: polling, sleeping, or one after the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use weft_time::{Duration, Instant};

use crate::{Clock, Stop, UdpPort, system};

/// While the kernel refuses datagrams, no event signals that it has room again, so the thread wakes after this
/// time.
const RETRY_HELD_BACK: Duration = Duration::from_us(50);

/// What a thread does while it is idle.
///
/// Polling gives the shortest latency and occupies a core. If a poller yields the core after each check, several
/// pollers can share it, each waiting while the others have it; the core never goes idle, from which it would be
/// slow to wake.
///
/// If a thread yields to one that computes, it does not get the core back for that thread's whole time slice, some
/// milliseconds. A sleeping thread is woken at once, because the scheduler prefers it to threads that have used
/// their share. So a thread whose yields take long sleeps for a while where it would poll, and polls again when no
/// other thread contends for the core any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// How long to poll after the last packet before going to sleep.
    pub poll: Duration,
    /// Whether to offer the core to other threads after each check.
    pub yield_core: bool,
}

impl IdlePolicy {
    /// Sleep at once: for a thread that shares its core with many others.
    pub const SLEEP: Self = Self { poll: Duration::ZERO, yield_core: false };
    /// Poll for ever: for a thread that has a core to itself.
    pub const POLL: Self = Self { poll: Duration::from_ps(u64::MAX), yield_core: false };
    /// Poll for ever, offering the core to others after each check: for pollers that share cores.
    pub const SHARE: Self = Self { poll: Duration::from_ps(u64::MAX), yield_core: true };

    /// Poll for `poll`, offering the core to others, then sleep.
    pub const fn share_then_sleep(poll: Duration) -> Self {
        Self { poll, yield_core: true }
    }
}

/// A yield that takes longer than this went to a thread that computes. Pollers that share a core, each with a
/// batch of packets, return it within tens of microseconds; a time slice of Linux's scheduler is 700 us or more.
const KEPT_WAITING: Duration = Duration::from_us(500);
/// How long a thread does not poll after a long yield: the first time, and at most after repeated ones. Each trial
/// costs a time slice, so at most one in a hundred milliseconds is lost where the core stays crowded.
const SHORTEST_PAUSE: Duration = Duration::from_ms(20);
const LONGEST_PAUSE: Duration = Duration::from_ms(1_280);

/// Whether other threads contend for this thread's core, judged by the duration of its yields.
#[derive(Clone, Copy, Debug)]
struct Crowding {
    /// Until when the thread does not poll.
    until: Instant,
    /// Length of the last pause in polling.
    pause: Duration,
}

impl Crowding {
    const NONE: Self = Self { until: Instant::ZERO, pause: Duration::ZERO };

    /// Notes a yield that lasted from `before` to `after`.
    fn note(&mut self, before: Instant, after: Instant) {
        if after.saturating_since(before) >= KEPT_WAITING {
            self.pause = (self.pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            self.until = after + self.pause;
        } else if after >= self.until + self.pause {
            // The thread has polled for as long as its last pause was: the next pause is the shortest again.
            self.pause = Duration::ZERO;
        }
    }

    fn lets_poll(&self, now: Instant) -> bool {
        now >= self.until
    }
}

/// The ports that have something to receive, as a set of indices, and whether the descriptor has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(u64);

/// The key of the descriptor, behind those of the ports.
const DESCRIPTOR: u64 = Poller::MOST_PORTS as u64;
/// The key of the stop. It is not part of [`Ready`].
const STOP: u64 = DESCRIPTOR + 1;

impl Ready {
    /// Whether the port of this index has something to receive.
    pub const fn contains(self, port: usize) -> bool {
        self.0 >> port & 1 == 1
    }

    /// Whether the descriptor given to [`Poller::watch_descriptor`] is readable.
    pub const fn descriptor(self) -> bool {
        self.0 >> DESCRIPTOR & 1 == 1
    }

    /// Adds what is watched under this key.
    fn add(&mut self, key: u64) {
        if key != STOP {
            self.0 |= 1 << key;
        }
    }

    /// Whether neither a port nor the descriptor has something to receive.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Waits for packets on all ports of one thread.
#[derive(Debug)]
pub struct Poller {
    watched: OwnedFd,
    policy: IdlePolicy,
    idle_since: Option<Instant>,
    crowding: Crowding,
}

impl Poller {
    /// The most ports that one poller watches.
    pub const MOST_PORTS: usize = 63;

    /// Watches `ports`, by their indices, and `stop`.
    ///
    /// # Errors
    /// The kernel's error, if it grants no more file descriptors.
    ///
    /// # Panics
    /// If there are more than [`Poller::MOST_PORTS`] ports.
    pub fn new(ports: &[impl AsFd], stop: &Stop, policy: IdlePolicy) -> io::Result<Self> {
        assert!(ports.len() <= Self::MOST_PORTS);
        let watched = system::watch_set()?;
        for (key, port) in ports.iter().enumerate() {
            system::watch(watched.as_fd(), port.as_fd(), key as u64)?;
        }
        system::watch(watched.as_fd(), stop.as_fd(), STOP)?;
        Ok(Self { watched, policy, idle_since: None, crowding: Crowding::NONE })
    }

    /// Watches one more descriptor, which may be a set of descriptors itself.
    ///
    /// # Errors
    /// The kernel's error, if it cannot watch it.
    pub fn watch_descriptor(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        system::watch(self.watched.as_fd(), descriptor, DESCRIPTOR)
    }

    /// The ports that have something to receive. Does not wait.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn ready(&self) -> io::Result<Ready> {
        let mut ready = Ready::default();
        system::readable(self.watched.as_fd(), |key| ready.add(key))?;
        Ok(ready)
    }

    /// Notes that the thread had work, so that its polling time starts again. Returns whether the policy polls, so
    /// that the thread should check the ports once more before [`Poller::idle`].
    pub fn busy(&mut self) -> bool {
        self.idle_since = None;
        self.policy.poll > Duration::ZERO
    }

    /// Waits as the policy says, at the longest until a packet arrives, the stop is requested, a signal is handled
    /// or `deadline` has come; while polling, returns after every check. Returns the ports that have something to
    /// receive. `held_back` says that the kernel has refused datagrams for the moment.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn idle(&mut self, clock: Clock, deadline: Option<Instant>, held_back: bool) -> io::Result<Ready> {
        let now = clock.now();
        let since = *self.idle_since.get_or_insert(now);
        if now.saturating_since(since) < self.policy.poll && self.crowding.lets_poll(now) {
            if self.policy.yield_core {
                thread::yield_now();
                self.crowding.note(now, clock.now());
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
        // Rounded up: if the thread woke before the deadline, it would have to sleep once more.
        let limit_ns = limit.map(|time| time.as_ps().div_ceil(1_000));
        let mut ready = Ready::default();
        system::sleep(self.watched.as_fd(), limit_ns, |key| ready.add(key))?;
        Ok(ready)
    }
}

impl Stop {
    /// Sleeps until the stop is requested, for at most `limit`; returns whether it is requested.
    ///
    /// # Errors
    /// The kernel's error, if it grants no more file descriptors.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let (clock, no_ports): (_, [UdpPort; 0]) = (Clock::starting_now(), []);
        let mut poller = Poller::new(&no_ports, self, IdlePolicy::SLEEP)?;
        let end = clock.now() + limit;
        while !self.is_requested() && clock.now() < end {
            poller.idle(clock, Some(end), false)?;
        }
        Ok(self.is_requested())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn a_thread_that_is_kept_waiting_stops_polling_for_a_while() {
        let mut crowding = Crowding::NONE;
        crowding.note(at(0), at(499));
        assert!(crowding.lets_poll(at(499)), "another poller had a batch");
        crowding.note(at(1_000), at(4_000));
        assert!(!crowding.lets_poll(at(23_999)) && crowding.lets_poll(at(24_000)));
        // The first trial fails again, and so do later ones: each pause is twice the one before.
        crowding.note(at(24_000), at(27_000));
        assert!(!crowding.lets_poll(at(66_999)) && crowding.lets_poll(at(67_000)));
        let mut now = 67_000;
        for _ in 0..10 {
            crowding.note(at(now), at(now + 3_000));
            now = crowding.until.as_ns() / 1_000;
        }
        assert_eq!(crowding.pause, LONGEST_PAUSE);
    }

    #[test]
    fn undisturbed_polling_for_as_long_as_a_pause_shortens_the_next_pause() {
        let mut crowding = Crowding::NONE;
        crowding.note(at(0), at(1_000));
        crowding.note(at(21_000), at(22_000));
        assert_eq!(crowding.pause, SHORTEST_PAUSE * 2);
        crowding.note(at(62_000), at(62_010));
        assert_eq!(crowding.pause, SHORTEST_PAUSE * 2, "one good look is not enough");
        crowding.note(at(102_000), at(102_010));
        crowding.note(at(103_000), at(104_000));
        assert_eq!(crowding.pause, SHORTEST_PAUSE);
    }
}
