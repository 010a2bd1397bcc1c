//! RDMA devices for programs: a card behind a UDP socket, or any NIC on a port for frames.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

use weft_nic::{Card, CardConfig, HostCommand, HostEvent, Nic, NoEngine, RdmaDriver};
use weft_time::{Duration, Instant};
use weft_verbs::{Completion, QueuePairNumber, ReceiveRequest, WorkRequest};
use weft_wire::roce;

use crate::{
    Address, BindError, CardPorts, Clock, FramePort, IdlePolicy, Poller, PortOptions, Stop, UdpPort, system,
};

/// A device for verbs with its port, owned by one program: a card or a NIC.
pub trait Device: AsFd {
    /// The management calls of verbs, and access to the memory.
    fn driver(&mut self) -> &mut dyn RdmaDriver;

    /// Executes a command of the host.
    fn submit(&mut self, now: Instant, command: HostCommand<'_>);

    /// The next event for the host.
    fn poll_host(&mut self) -> Option<HostEvent>;

    /// When [`Device::handle_deadline`] must be called.
    fn next_deadline(&self) -> Option<Instant>;

    /// Handles what is due at `now`.
    fn handle_deadline(&mut self, now: Instant);

    /// Processes what has arrived on the port; returns whether anything had.
    ///
    /// # Errors
    /// Only errors after which the port cannot be used any more.
    fn receive(&mut self, clock: Clock) -> io::Result<bool>;

    /// Passes packets that are ready to the port; returns whether there were any.
    ///
    /// # Errors
    /// Only errors after which the port cannot be used any more.
    fn transmit(&mut self, now: Instant) -> io::Result<bool>;

    /// Whether packets wait because the port was full.
    fn is_held_back(&self) -> bool;
}

/// A card without engines behind an ordinary UDP socket: RoCE v2 that needs no privilege.
#[derive(Debug)]
pub struct SocketDevice<A = SocketAddrV4> {
    ports: CardPorts<NoEngine>,
    port: UdpPort<A>,
}

impl SocketDevice {
    /// A card on port 4791 of an IPv4 address of this machine.
    ///
    /// # Errors
    /// The port is in use, or the address is not one of this machine.
    pub fn open(address: Ipv4Addr, config: CardConfig, options: &PortOptions) -> Result<Self, BindError> {
        Self::on(SocketAddrV4::new(address, roce::UDP_PORT), config, options)
    }
}

impl SocketDevice<SocketAddrV6> {
    /// A card on port 4791 of an IPv6 address of this machine. `scope` is the index of the interface for a
    /// link-local address, and 0 for others. Over IPv6 the ICRC covers no identification, so it is checked in
    /// full, and the kernel or a network card may segment on any link. Datagrams without a UDP checksum are
    /// received, too.
    ///
    /// # Errors
    /// The port is in use, or the address is not one of this machine.
    pub fn open_ipv6(
        address: Ipv6Addr,
        scope: u32,
        config: CardConfig,
        options: &PortOptions,
    ) -> Result<Self, BindError> {
        let options = PortOptions { accept_zero_checksum: true, ..*options };
        Self::on(SocketAddrV6::new(address, roce::UDP_PORT, 0, scope), config, &options)
    }
}

impl<A: Address> SocketDevice<A> {
    fn on(address: A, config: CardConfig, options: &PortOptions) -> Result<Self, BindError> {
        let port = UdpPort::bind(address, options)?;
        Ok(Self { ports: CardPorts::new(Card::new(config, Vec::new()), address.ip_address()), port })
    }

    /// The card, for access to its memory and services.
    pub fn card(&mut self) -> &mut Card<NoEngine> {
        self.ports.card_mut()
    }

    /// Counters of the card and of the port by name, in a fixed order.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.ports.card().counters();
        all.push(("identifications_refused", self.ports.identifications_refused()));
        all.push(("other_family", self.ports.unreachable()));
        all.extend(self.port.counters().list());
        all
    }
}

impl<A: Address> Device for SocketDevice<A> {
    fn driver(&mut self) -> &mut dyn RdmaDriver {
        self.ports.card_mut()
    }

    fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        self.ports.card_mut().submit(now, command);
    }

    fn poll_host(&mut self) -> Option<HostEvent> {
        self.ports.card_mut().poll_host()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.ports.card().next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.ports.card_mut().handle_deadline(now);
    }

    fn receive(&mut self, clock: Clock) -> io::Result<bool> {
        let Self { ports, port } = self;
        let mut arrival = None;
        let received = port.receive(|datagram| {
            ports.receive_roce(*arrival.get_or_insert_with(|| clock.now()), datagram);
        })?;
        Ok(received > 0)
    }

    fn transmit(&mut self, now: Instant) -> io::Result<bool> {
        let before = self.port.counters().sent;
        self.ports.transmit_roce(now, &mut self.port);
        self.port.flush()?;
        Ok(self.port.counters().sent > before)
    }

    fn is_held_back(&self) -> bool {
        self.port.queued() > 0
    }
}

impl<A> AsFd for SocketDevice<A> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

/// Any NIC on any port for frames, for example the soft NIC on a TAP device, or the gateware on a packet socket.
#[derive(Debug)]
pub struct FrameDevice<N, P> {
    nic: N,
    port: P,
    received: Vec<u8>,
    /// A frame that the port could not send yet; empty if there is none.
    outgoing: Vec<u8>,
}

impl<N: Nic + RdmaDriver, P: FramePort> FrameDevice<N, P> {
    /// `nic` on `port`. Frames carry the NIC's own MAC address, not that of the port's interface.
    pub fn new(nic: N, port: P) -> Self {
        Self { nic, port, received: Vec::new(), outgoing: Vec::new() }
    }

    /// The NIC, which sends and receives frames through the port.
    pub fn nic(&mut self) -> &mut N {
        &mut self.nic
    }
}

impl<N: Nic + RdmaDriver, P: FramePort> Device for FrameDevice<N, P> {
    fn driver(&mut self) -> &mut dyn RdmaDriver {
        &mut self.nic
    }

    fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        self.nic.submit(now, command);
    }

    fn poll_host(&mut self) -> Option<HostEvent> {
        self.nic.poll_host()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.nic.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.nic.handle_deadline(now);
    }

    fn receive(&mut self, clock: Clock) -> io::Result<bool> {
        self.received.clear();
        let mut now = None;
        while self.port.receive(&mut self.received)? {
            self.nic.receive_frame(*now.get_or_insert_with(|| clock.now()), &self.received);
            self.received.clear();
        }
        Ok(now.is_some())
    }

    fn transmit(&mut self, now: Instant) -> io::Result<bool> {
        let mut sent = false;
        while !self.outgoing.is_empty() || self.nic.poll_frame(now, &mut self.outgoing) {
            if !self.port.transmit(&self.outgoing)? {
                break;
            }
            self.outgoing.clear();
            sent = true;
        }
        self.port.flush()?;
        Ok(sent)
    }

    fn is_held_back(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

impl<N, P: AsFd> AsFd for FrameDevice<N, P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

/// A device with the machine's clock, driven by the program's own thread. The device makes progress only during
/// [`Context::wait`] or [`Context::progress`]; a program whose memory is only accessed by its peer must call them,
/// too.
#[derive(Debug)]
pub struct Context<D> {
    device: D,
    clock: Clock,
    poller: Poller,
    completions: VecDeque<Completion>,
}

impl<D: Device> Context<D> {
    /// `policy` says how the thread waits for packets.
    ///
    /// # Errors
    /// The kernel's error, if it grants no more file descriptors.
    pub fn new(device: D, policy: IdlePolicy) -> io::Result<Self> {
        let poller = Poller::new(&[device.as_fd()], &Stop::new()?, policy)?;
        system::make_timers_precise();
        Ok(Self { device, clock: Clock::starting_now(), poller, completions: VecDeque::new() })
    }

    /// The device that the context drives.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// The management calls of verbs, and the memory.
    pub fn driver(&mut self) -> &mut dyn RdmaDriver {
        self.device.driver()
    }

    /// Posts to a send queue. An invalid request completes with an error.
    pub fn post_send(&mut self, queue_pair: QueuePairNumber, request: WorkRequest) {
        self.device.submit(self.clock.now(), HostCommand::PostSend(queue_pair, request));
    }

    /// Posts to a receive queue. An invalid request completes with an error.
    pub fn post_receive(&mut self, queue_pair: QueuePairNumber, request: ReceiveRequest) {
        self.device.submit(self.clock.now(), HostCommand::PostReceive(queue_pair, request));
    }

    /// The oldest completion, if there is one. The device makes no progress in this call.
    pub fn poll(&mut self) -> Option<Completion> {
        while let Some(event) = self.device.poll_host() {
            if let HostEvent::Completion(completion) = event {
                self.completions.push_back(completion);
            }
        }
        self.completions.pop_front()
    }

    /// Lets the device receive, handle deadlines and send, then waits for the next event, for at most `limit`.
    ///
    /// # Errors
    /// Only errors after which the device cannot be used any more.
    pub fn progress(&mut self, limit: Duration) -> io::Result<()> {
        self.progress_until(self.clock.now() + limit)
    }

    fn progress_until(&mut self, limit: Instant) -> io::Result<()> {
        let mut moved = self.device.receive(self.clock)?;
        let now = self.clock.now();
        if self.device.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.device.handle_deadline(now);
            moved = true;
        }
        moved |= self.device.transmit(now)?;
        if moved {
            self.poller.busy();
            return Ok(());
        }
        let deadline = self.device.next_deadline().map_or(limit, |deadline| deadline.min(limit));
        self.poller.idle(self.clock, Some(deadline), self.device.is_held_back())?;
        Ok(())
    }

    /// Lets the device make progress until there is a completion, for at most `limit`.
    ///
    /// # Errors
    /// Only errors after which the device cannot be used any more.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<Completion>> {
        let limit = self.clock.now() + limit;
        loop {
            let completion = self.poll();
            if completion.is_some() || self.clock.now() >= limit {
                return Ok(completion);
            }
            self.progress_until(limit)?;
        }
    }
}
