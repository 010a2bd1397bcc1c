//! The thread that owns the client's port.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use weft_net::{
    Clock, Datagram, Directory, Endpoint, IdlePolicy, Outgoing, PortOptions, Seal, Stop, UdpPort, WAKE, run,
};
use weft_time::Instant;

use crate::OpenError;
use crate::core::Core;
use crate::key_mismatch::{KeyMismatch, MismatchCell};

/// Attempts to send the datagram that wakes the thread. If all fail, the next request tries again.
const ATTEMPTS: u32 = 1_000;

/// Wakes the client's thread when there is a new request. It sends a datagram to the thread's own port, so that
/// the thread has to wait only for that port.
#[derive(Debug)]
pub(crate) struct Notifier {
    woken: AtomicBool,
    socket: UdpSocket,
}

impl Notifier {
    fn new(port: SocketAddr) -> io::Result<Self> {
        let host: IpAddr =
            if port.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        let socket = UdpSocket::bind((host, 0))?;
        socket.connect((host, port.port()))?;
        Ok(Self { woken: AtomicBool::new(false), socket })
    }

    /// Called after a request was enqueued: wakes the thread, unless it has been woken since it last took
    /// requests.
    pub fn notify(&self) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        // Sending fails if the kernel is short of memory for a moment.
        for _ in 0..ATTEMPTS {
            if self.socket.send(WAKE).is_ok() {
                return;
            }
            thread::yield_now();
        }
        self.rearm();
    }

    /// Called before the thread takes requests: from now on a new request has to wake it again.
    fn rearm(&self) {
        self.woken.store(false, Ordering::Release);
    }
}

struct Driven {
    core: Core,
    notifier: Arc<Notifier>,
    mismatch: Arc<MismatchCell>,
    outgoing: Outgoing<SocketAddr>,
    directory: Directory,
}

impl Endpoint<SocketAddr> for Driven {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_, SocketAddr>) {
        if let Some(node) = self.directory.find(datagram.from) {
            self.directory.note_heard(node);
            if let Some(mismatch) = KeyMismatch::of_datagram(datagram.bytes) {
                self.mismatch.note(Some(mismatch));
                return;
            }
            self.mismatch.heard();
            self.core.receive(now, node, datagram.bytes);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.core.next_deadline().into_iter().chain(self.directory.next_deadline()).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.core.handle_deadline(now);
        self.directory.check(now);
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort<SocketAddr>]) {
        if ports[0].is_sealed() {
            self.mismatch.note(KeyMismatch::of_port(&ports[0]));
        }
        self.notifier.rearm();
        self.core.take(now);
        let Self { core, outgoing, directory, .. } = self;
        outgoing.transmit(&mut ports[0], |datagram| {
            loop {
                let node = core.poll_transmit(datagram)?;
                directory.note_sent(now, node);
                // A node without an address is one that does not answer.
                if let Some(address) = directory.address(node) {
                    return Some(address);
                }
            }
        });
    }
}

/// The running thread. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Driver {
    pub notifier: Arc<Notifier>,
    pub mismatch: Arc<MismatchCell>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Opens a port and drives `core` over it, with the nodes of `directory`.
    pub fn start(core: Core, directory: Directory, seal: Option<&Seal>) -> Result<Self, OpenError> {
        let mut port = UdpPort::bind(directory.any_address(), &PortOptions::default())?.sealed(seal);
        let notifier = Arc::new(Notifier::new(port.local_address())?);
        port.set_waker(Some(notifier.socket.local_addr()?));
        let mismatch = Arc::new(MismatchCell::default());
        let stop = Arc::new(Stop::new()?);
        let outgoing = Outgoing::default();
        let mut driven = Driven {
            core,
            notifier: Arc::clone(&notifier),
            mismatch: Arc::clone(&mismatch),
            outgoing,
            directory,
        };
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("weft-client".into()).spawn(move || {
            // If the port fails, the queues are dropped, and all outstanding calls end with the error that the
            // client is closed.
            let (mut ports, clock) = ([port], Clock::starting_now());
            if run(&mut driven, &mut ports, clock, IdlePolicy::SLEEP, &stopped).is_ok() {
                driven.core.leave();
                driven.transmit(clock.now(), &mut ports);
                // The message that the client leaves may be lost; then the node drops its session after a while of
                // silence.
                let _ = ports[0].flush();
            }
        })?;
        Ok(Self { notifier, mismatch, stop, thread: Some(thread) })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop.request();
        // An answer may wake a task that drops the last handle in this same thread, which cannot wait for itself.
        if let Some(thread) = self.thread.take().filter(|it| it.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}
