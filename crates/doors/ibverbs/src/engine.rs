//! The device of this process: its state behind a lock, its socket, and a helper thread that drives it while no
//! program thread polls.
//!
//! A program thread that polls a completion queue also drives the device. A program that only waits for events, or
//! whose memory is only accessed by peers, does not poll; then the helper thread drives the device. The helper
//! sleeps while the program polls. Otherwise it sleeps until a packet arrives or the earliest deadline passes; a call
//! of the program that sets an earlier deadline wakes it.

use std::collections::HashMap;
use std::ffi::c_void;
use std::net::{IpAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, mem, ptr, thread};

use weft_cm::Manager;
use weft_device::{Device, DeviceConfig, Event, Mad};
use weft_net::{BindError, Clock, PortOptions, RoceEnd, RocePath, UdpPort};
use weft_rdma::Transmit;
use weft_time::{Duration, Instant};
use weft_wire::roce;

use crate::events::{AsyncQueue, Channel};
use crate::memory::ProgramMemory;
use crate::options::Options;
use crate::rdmacm::EventTarget;

#[cfg(test)]
mod tests;

/// Number of queue pairs of a device.
pub const QUEUE_PAIRS: usize = 4_096;
/// Number of memory regions of a device.
pub const REGIONS: usize = 16_384;
/// The most requests in one queue.
pub const QUEUE_DEPTH: u32 = 32_768;
/// READs and atomics outstanding on one queue pair, in each direction.
pub const READS: u8 = 16;

/// How long the helper sleeps when the program polls.
const LEAVE_ALONE_NS: i64 = 1_000_000;

/// How often the helper checks the device without success before it sleeps.
const LOOKS: usize = 50;

/// How many successful checks the helper makes before it looks whether the program polls or stops.
const ROUNDS: usize = 64;

/// How long a packet waits that the kernel did not accept, until the helper offers it again.
const OFFER_AGAIN: Duration = Duration::from_us(50);

/// A program that takes completions one by one checks the port once in this many.
const LOOK_EVERY: u32 = 16;

/// State of the helper: it waits for packets, timers and calls.
const WATCHING: u8 = 0;
/// State of the helper: it leaves the device to the program.
const DRIVEN_BY_PROGRAM: u8 = 1;

/// Where the events of an object are reported.
#[derive(Clone)]
pub struct Listener {
    /// The C structure that events refer to.
    pub object: *mut c_void,
    /// The channel for completion events.
    pub channel: Option<Arc<Channel>>,
    /// The context for all other events.
    pub context: Arc<AsyncQueue>,
    /// Numbers of events that the program has yet to acknowledge.
    pub raised: Arc<Raised>,
}

/// Numbers of events that were delivered and not yet acknowledged.
#[derive(Debug, Default)]
pub struct Raised {
    /// Number of outstanding completion events.
    pub completions: AtomicU64,
    /// Number of outstanding asynchronous events.
    pub others: AtomicU64,
}

impl Raised {
    /// Waits until all events have been acknowledged, as `ibv_destroy_cq(3)` requires.
    pub fn wait(&self) {
        while self.completions.load(Ordering::Acquire) > 0 || self.others.load(Ordering::Acquire) > 0 {
            thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

// SAFETY: the pointer is only a name here.
unsafe impl Send for Listener {}

/// The state that the lock protects.
pub struct State {
    /// The device with its queue pairs.
    pub device: Device<ProgramMemory>,
    end: Link,
    /// Where events are reported, by the device's number of the completion queue.
    pub completion_queues: HashMap<usize, Listener>,
    /// The same, by queue pair number.
    pub queue_pairs: HashMap<u32, Listener>,
    /// The same, by number of the shared receive queue.
    pub shared: HashMap<u32, Listener>,
    /// The connection manager, for librdmacm.
    pub manager: Manager,
    /// Where events of connections are reported, by connection number.
    pub connections: HashMap<u32, EventTarget>,
    /// Where connection requests are reported, by service.
    pub listeners: HashMap<u64, EventTarget>,
    /// Number of requests posted since the port was last checked.
    unsent: u32,
    /// Number of polls in a row without result.
    idle: u32,
    /// Number of completions taken since the port was last checked.
    taken: u32,
    /// When the helper, which sleeps, looks by itself. [`Instant::ZERO`] if it is awake or was woken: no deadline is
    /// earlier.
    alarm: Instant,
}

struct Link {
    port: UdpPort<SocketAddrV4>,
    path: RocePath,
    clock: Clock,
}

/// A device with its socket.
pub struct Engine {
    options: Options,
    state: Mutex<State>,
    wake: OwnedFd,
    socket: RawFd,
    polls: AtomicU64,
    helper: AtomicU8,
    /// Whether some completion queue is armed, that is, a program waits for its next event.
    armed: AtomicBool,
    stop: AtomicBool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The engine of this process, while a context is open, and the number of contexts.
static OPEN: Mutex<Option<(Arc<Engine>, usize)>> = Mutex::new(None);

/// The state of a lock whose holder has panicked can be used, because the process is about to abort anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine of this process. It is opened if no context has it open.
///
/// # Errors
/// The socket cannot be opened.
pub fn acquire(options: &Options) -> Result<Arc<Engine>, OpenError> {
    let mut open = lock(&OPEN);
    if let Some((engine, users)) = open.as_mut() {
        *users += 1;
        return Ok(Arc::clone(engine));
    }
    let engine = Engine::start(options)?;
    *open = Some((Arc::clone(&engine), 1));
    Ok(engine)
}

/// Called when a context is closed: closes the engine with the last context.
pub fn release() {
    let mut open = lock(&OPEN);
    let Some((engine, users)) = open.as_mut() else { return };
    *users -= 1;
    if *users == 0 {
        engine.stop.store(true, Ordering::Release);
        engine.wake();
        *open = None;
    }
}

/// Why a device cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The port cannot be opened.
    Bind(BindError),
    /// The kernel refuses another resource.
    Io(io::Error),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bind(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl OpenError {
    /// The value for `errno`.
    pub fn number(&self) -> i32 {
        match self {
            Self::Bind(BindError::InUse { .. }) => libc::EADDRINUSE,
            Self::Bind(BindError::NotLocal { .. }) => libc::EADDRNOTAVAIL,
            Self::Bind(_) => libc::EACCES,
            Self::Io(error) => error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

impl Engine {
    fn start(options: &Options) -> Result<Arc<Self>, OpenError> {
        let port = PortOptions { longest_datagram: 9_000, ..PortOptions::default() };
        let port = UdpPort::bind(SocketAddrV4::new(options.address, roce::UDP_PORT), &port)
            .map_err(OpenError::Bind)?;
        let socket = port.as_fd().as_raw_fd();
        // SAFETY: no memory is involved.
        let wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if wake < 0 {
            return Err(OpenError::Io(io::Error::last_os_error()));
        }
        // SAFETY: it was just opened, and nobody else has it.
        let wake = unsafe { OwnedFd::from_raw_fd(wake) };
        let clock = Clock::starting_now();
        let config = DeviceConfig {
            address: options.address.into(),
            path_mtu: options.mtu,
            transport: weft_rdma::Config {
                max_queue_pairs: QUEUE_PAIRS,
                max_regions: REGIONS,
                max_queue_depth: QUEUE_DEPTH,
                completion_queue_depth: 1 << 20,
                max_rd_atomic: READS,
                window_packets: 256,
                burst_packets: 64,
                acknowledge_interval: 32,
                timeout_floor: Duration::from_ms(4),
                key_seed: u64::from(std::process::id()) << 32 | clock.origin_ns() & 0xffff_ffff,
                ..weft_rdma::Config::default()
            },
        };
        let state = State {
            device: Device::new(config, ProgramMemory),
            end: Link { port, path: RocePath::new(options.address.into()), clock },
            completion_queues: HashMap::new(),
            queue_pairs: HashMap::new(),
            shared: HashMap::new(),
            manager: Manager::new(options.address.into(), clock.origin_ns(), clock.origin_ns() as u32),
            connections: HashMap::new(),
            listeners: HashMap::new(),
            unsent: 0,
            idle: 0,
            taken: 0,
            alarm: Instant::ZERO,
        };
        let engine = Arc::new(Self {
            options: options.clone(),
            state: Mutex::new(state),
            wake,
            socket,
            polls: AtomicU64::new(0),
            helper: AtomicU8::new(WATCHING),
            armed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let helper = Arc::clone(&engine);
        // Signals must be handled by the program's own threads.
        let spawned = without_signals(|| {
            thread::Builder::new().name("weft-device".into()).spawn(move || helper.help())
        });
        spawned.map_err(OpenError::Io)?;
        Ok(engine)
    }

    /// The options with which the engine was opened.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn wake(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes are what the kernel reads.
        unsafe { libc::write(self.wake.as_raw_fd(), ptr::from_ref(&one).cast(), 8) };
    }

    /// Lets the device make progress and delivers events; returns whether anything moved.
    pub fn progress(&self, state: &mut State) -> bool {
        let moved = state.progress();
        self.deliver(state);
        moved
    }

    /// Delivers events to the programs that wait for them, and wakes the helper if it would miss a deadline.
    pub fn deliver(&self, state: &mut State) {
        state.manage();
        let mut told = false;
        while let Some(event) = state.device.poll_event() {
            told = true;
            state.tell(event);
        }
        if told {
            self.armed.store(state.device.is_armed(), Ordering::Release);
        }
        if state.misses_a_deadline() {
            state.alarm = Instant::ZERO;
            self.wake();
        }
    }

    /// Called when a program polls for completions.
    pub fn poll(&self, state: &mut State) {
        self.polls.fetch_add(1, Ordering::Relaxed);
        if self.progress(state) {
            state.idle = 0;
            return;
        }
        state.idle += 1;
    }

    /// Whether a program has polled without result so often that it should yield its core.
    pub fn should_yield(state: &State) -> bool {
        state.idle > 64
    }

    /// Called when requests were posted. They are sent at once, or, if the program polls anyway, with its next
    /// poll.
    pub fn posted(&self, state: &mut State, requests: u32) {
        let first = state.unsent == 0;
        state.unsent += requests;
        let nobody_polls = self.helper.load(Ordering::Acquire) == WATCHING;
        if first || nobody_polls || self.armed.load(Ordering::Acquire) {
            state.transmit();
            self.deliver(state);
        }
    }

    /// Called when a completion queue is armed: the helper must drive the device.
    pub fn arm(&self, state: &mut State) {
        self.armed.store(true, Ordering::Release);
        state.transmit();
        self.deliver(state);
        if self.helper.load(Ordering::Acquire) == DRIVEN_BY_PROGRAM {
            self.wake();
        }
    }

    /// Body of the helper thread.
    fn help(&self) {
        let mut polls = self.polls.load(Ordering::Relaxed);
        while !self.stop.load(Ordering::Acquire) {
            let now = self.polls.load(Ordering::Relaxed);
            if now != polls && !self.armed.load(Ordering::Acquire) {
                polls = now;
                self.helper.store(DRIVEN_BY_PROGRAM, Ordering::Release);
                self.sleep(false, Some(Duration::from_ns(LEAVE_ALONE_NS as u64)));
                continue;
            }
            polls = now;
            self.helper.store(WATCHING, Ordering::Release);
            let mut looks = 0;
            let mut rounds = 0;
            let wait = loop {
                let mut state = self.lock();
                state.alarm = Instant::ZERO;
                if self.progress(&mut state) {
                    (looks, rounds) = (0, rounds + 1);
                } else {
                    looks += 1;
                }
                if looks == LOOKS {
                    break state.set_alarm();
                }
                drop(state);
                if rounds == ROUNDS || self.stop.load(Ordering::Acquire) {
                    break Some(Duration::ZERO);
                }
                if looks > 0 {
                    thread::yield_now();
                }
            };
            if wait != Some(Duration::ZERO) {
                self.sleep(true, wait);
            }
        }
    }

    /// Sleeps until the helper is woken, a packet arrives (if `packets`), or the time is over.
    fn sleep(&self, packets: bool, limit: Option<Duration>) {
        let readable = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [readable(self.wake.as_raw_fd()), readable(self.socket)];
        let count = if packets { 2 } else { 1 };
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: (limit.as_ns() / 1_000_000_000) as _,
            tv_nsec: (limit.as_ns() % 1_000_000_000) as _,
        });
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the array has `count` places, and the time outlives the call.
        unsafe { libc::ppoll(fds.as_mut_ptr(), count, limit, ptr::null()) };
        if fds[0].revents != 0 {
            let mut word = 0_u64;
            // SAFETY: eight bytes are what the kernel writes.
            unsafe { libc::read(self.wake.as_raw_fd(), ptr::from_mut(&mut word).cast(), 8) };
        }
    }
}

impl State {
    /// The time of the device's clock.
    pub fn now(&self) -> Instant {
        self.end.clock.now()
    }

    /// Whether a program that finds completions should check the port, too.
    pub fn should_look(&mut self) -> bool {
        self.taken = (self.taken + 1) % LOOK_EVERY;
        self.taken == 0
    }

    /// Lets the device receive, handle deadlines and send; returns whether anything moved.
    fn progress(&mut self) -> bool {
        let Self { device, end: Link { port, path, clock }, .. } = self;
        let mut now = None;
        // Errors of the socket are ignored: an unusable socket shows by time-outs.
        let mut end = EndRef(device);
        let received = port.receive(|datagram| {
            path.receive(*now.get_or_insert_with(|| clock.now()), datagram, &mut end);
        });
        let now = now.unwrap_or_else(|| clock.now());
        if device.next_deadline().is_some_and(|deadline| deadline <= now) {
            device.handle_deadline(now);
        }
        let sent = self.transmit_at(now);
        self.unsent = 0;
        sent || received.is_ok_and(|count| count > 0)
    }

    fn transmit(&mut self) {
        let now = self.now();
        self.transmit_at(now);
    }

    fn transmit_at(&mut self, now: Instant) -> bool {
        let Self { device, end: Link { port, path, .. }, .. } = self;
        path.transmit(now, port, &mut EndRef(device));
        port.flush().is_ok_and(|count| count > 0)
    }

    /// Lets the connection manager make progress.
    fn manage(&mut self) {
        let mut now = None;
        while let Some(Mad { peer, bytes }) = self.device.poll_mad() {
            let now = *now.get_or_insert_with(|| self.end.clock.now());
            self.manager.receive(now, peer, &bytes);
        }
        if let Some(deadline) = self.manager.next_deadline()
            && deadline <= self.now()
        {
            let now = self.now();
            self.manager.handle_deadline(now);
        }
        let mut sends = false;
        while let Some((peer, bytes)) = self.manager.poll_transmit() {
            self.device.send_mad(Mad { peer, bytes: bytes.to_vec() });
            sends = true;
        }
        if sends {
            self.transmit();
        }
        self.deliver_connection_events();
    }

    /// When somebody must let the device make progress, although no packet arrives.
    fn next_deadline(&self) -> Option<Instant> {
        if self.end.port.queued() > 0 {
            return Some(self.now() + OFFER_AGAIN);
        }
        self.device.next_deadline().into_iter().chain(self.manager.next_deadline()).min()
    }

    /// Notes that the helper goes to sleep; returns how long it may sleep.
    fn set_alarm(&mut self) -> Option<Duration> {
        let deadline = self.next_deadline();
        self.alarm = deadline.unwrap_or(Instant::FAR_FUTURE);
        deadline.map(|deadline| deadline.saturating_since(self.now()))
    }

    /// Whether the helper sleeps beyond the next deadline, because it was set after the helper fell asleep.
    fn misses_a_deadline(&self) -> bool {
        self.alarm > Instant::ZERO && self.next_deadline().is_some_and(|deadline| deadline < self.alarm)
    }

    fn tell(&self, event: Event) {
        use crate::events::kind;
        let queue_pair = |number, kind| {
            if let Some(listener) = self.queue_pairs.get(&number) {
                listener.tell(kind);
            }
        };
        match event {
            Event::Completion(number) => {
                if let Some(listener) = self.completion_queues.get(&number.0)
                    && let Some(channel) = &listener.channel
                {
                    listener.raised.completions.fetch_add(1, Ordering::AcqRel);
                    channel.push(listener.object);
                }
            }
            Event::CompletionQueueError(number) => {
                if let Some(listener) = self.completion_queues.get(&number.0) {
                    listener.tell(kind::CQ_ERR);
                }
            }
            Event::Established(number) => queue_pair(number, kind::COMM_EST),
            Event::SendQueueDrained(number) => queue_pair(number, kind::SQ_DRAINED),
            Event::RequestError(number) => queue_pair(number, kind::QP_REQ_ERR),
            Event::AccessError(number) => queue_pair(number, kind::QP_ACCESS_ERR),
            Event::LastRequestReached(number) => queue_pair(number, kind::QP_LAST_WQE_REACHED),
            Event::LimitReached(number) => {
                if let Some(listener) = self.shared.get(&number) {
                    listener.tell(kind::SRQ_LIMIT_REACHED);
                }
            }
        }
    }
}

impl Listener {
    fn tell(&self, kind: u32) {
        self.raised.others.fetch_add(1, Ordering::AcqRel);
        self.context.push(kind, self.object, Some(Arc::clone(&self.raised)));
    }
}

/// The device as one end of a RoCE path.
struct EndRef<'a>(&'a mut Device<ProgramMemory>);

impl RoceEnd for EndRef<'_> {
    fn receive_roce(&mut self, now: Instant, from: IpAddr, packet: &[u8]) {
        self.0.receive(now, from, packet);
    }

    fn count_icrc_error(&mut self) {}

    fn poll_roce(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        self.0.poll_transmit(now, out)
    }
}

/// Runs `then` with all signals blocked; threads that it starts inherit this.
fn without_signals<T>(then: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are valid where they are used.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = then();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        result
    }
}
