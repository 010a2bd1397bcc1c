//! The thread that owns the client's port.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use weft_net::{Clock, Datagram, Endpoint, IdlePolicy, PortOptions, Stop, UdpPort, run};
use weft_time::Instant;

use crate::OpenError;
use crate::core::Core;

/// Attempts to wake the thread before the next request must notify again.
const ATTEMPTS: u32 = 1_000;

/// Wakes the thread when there is a new request: by a datagram to its port, so that it waits for one thing only.
#[derive(Debug)]
pub(crate) struct Notifier {
    woken: AtomicBool,
    socket: UdpSocket,
}

impl Notifier {
    fn new(port: u16) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        Ok(Self { woken: AtomicBool::new(false), socket })
    }

    /// Once a request was left.
    pub fn notify(&self) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        // The kernel may be short of memory for a moment.
        for _ in 0..ATTEMPTS {
            if self.socket.send(&[0]).is_ok() {
                return;
            }
            thread::yield_now();
        }
        self.rearm();
    }

    /// Before requests are taken.
    fn rearm(&self) {
        self.woken.store(false, Ordering::Release);
    }
}

struct Driven {
    core: Core,
    notifier: Arc<Notifier>,
    bytes: Vec<u8>,
}

impl Endpoint for Driven {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_>) {
        self.core.receive(now, datagram.from, datagram.bytes);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.core.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.core.handle_deadline(now);
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort]) {
        self.notifier.rearm();
        self.core.take(now);
        self.bytes.clear();
        while let Some(to) = self.core.poll_transmit(&mut self.bytes) {
            // Datagrams that a full port refuses are repeated after a while.
            ports[0].push(to, &self.bytes);
            self.bytes.clear();
        }
    }
}

/// The running thread. It ends with this.
#[derive(Debug)]
pub(crate) struct Driver {
    pub notifier: Arc<Notifier>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Opens a port and drives `core` over it.
    pub fn start(core: Core) -> Result<Self, OpenError> {
        let port = UdpPort::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), &PortOptions::default())?;
        let notifier = Arc::new(Notifier::new(port.local_address().port())?);
        let stop = Arc::new(Stop::new()?);
        let mut driven = Driven { core, notifier: Arc::clone(&notifier), bytes: Vec::new() };
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("weft-client".into()).spawn(move || {
            // If the port fails, all that wait are told that the client is closed: their promises are dropped.
            let (mut ports, clock) = ([port], Clock::starting_now());
            if run(&mut driven, &mut ports, clock, IdlePolicy::SLEEP, &stopped).is_ok() {
                driven.core.leave();
                driven.transmit(clock.now(), &mut ports);
                // Who does not hear the goodbye forgets the client when it has been silent for long.
                let _ = ports[0].flush();
            }
        })?;
        Ok(Self { notifier, stop, thread: Some(thread) })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop.request();
        // A task that is woken by an answer may drop the last handle in this very thread.
        if let Some(thread) = self.thread.take().filter(|it| it.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}
