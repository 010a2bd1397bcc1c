//! The soft NIC: a [`Card`] behind a frame port.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use weft_rdma::Transmit;
use weft_service::Seal;
use weft_service::psp::Psp;
use weft_time::{Duration, Instant};
use weft_waist::{Engine, Memory};
use weft_wire::arp::{Arp, Operation, Station};
use weft_wire::ethernet::{Ethernet, MacAddress};
use weft_wire::frame::{self, Endpoint, Flow, Frame};
use weft_wire::icmp::EchoKind;
use weft_wire::ipv4::{CONGESTION_EXPERIENCED, CONGESTION_MASK};
use weft_wire::{datagram, icrc, roce};

use crate::counters::PortCounters;
use crate::neighbours::{Neighbours, Unanswered};
use crate::waiting::{Content, Outgoing, WAITING_MAX, Waiting};
use crate::{Card, CardConfig, DmaRequest, HostCommand, HostEvent, Nic, Work};

/// The most neighbours whose hardware addresses are kept. It exceeds the number of packets that may wait for
/// an address, so some entries are never waited for and can be replaced.
const NEIGHBOURS_MAX: usize = 256;
const _: () = assert!(NEIGHBOURS_MAX > WAITING_MAX);

/// Configuration of a soft NIC.
#[derive(Clone, Debug)]
pub struct SoftNicConfig {
    /// Hardware address of the port.
    pub hardware: MacAddress,
    /// IPv4 address of the port.
    pub address: Ipv4Addr,
    /// Configuration of the card behind the port.
    pub card: CardConfig,
}

/// A NIC in software. It answers ARP and echo requests, passes RoCE v2 packets and Weft datagrams to its
/// card, and all other frames to the host. If the card has no engines, Weft datagrams go to the host too.
#[derive(Debug)]
pub struct SoftNic<E> {
    hardware: MacAddress,
    address: Ipv4Addr,
    card: Card<E>,
    /// Encrypts and decrypts RoCE packets and Weft datagrams at the port.
    psp: Option<Box<Psp>>,
    /// The frame that was decrypted last.
    opened: Vec<u8>,
    neighbours: Neighbours,
    waiting: Waiting,
    /// Frames that the port sends as answers, and frames that the host transmits.
    ready: VecDeque<Vec<u8>>,
    to_host: VecDeque<Vec<u8>>,
    payload: Vec<u8>,
    counters: PortCounters,
    frames_received: u64,
    /// Core time of the event that caused the output that was polled last.
    cpu_time: Duration,
}

impl<E: Engine> SoftNic<E> {
    /// A NIC with its engines, each with its memory, in slot order.
    pub fn new(config: SoftNicConfig, engines: Vec<(E, Memory)>) -> Self {
        Self::with_card(config.hardware, config.address, Card::new(config.card, engines))
    }

    /// A NIC with an existing card, at these addresses.
    pub fn with_card(hardware: MacAddress, address: Ipv4Addr, card: Card<E>) -> Self {
        Self {
            hardware,
            address,
            card,
            psp: None,
            opened: Vec::new(),
            neighbours: Neighbours::new(NEIGHBOURS_MAX),
            waiting: Waiting::new(),
            ready: VecDeque::new(),
            to_host: VecDeque::new(),
            payload: Vec::new(),
            counters: PortCounters::default(),
            frames_received: 0,
            cpu_time: Duration::ZERO,
        }
    }

    /// Enables PSP: from now on RoCE packets and Weft datagrams are sent and accepted only under a security
    /// association with their peer. [`HostCommand::Associate`] installs associations. Datagrams must leave
    /// room for the overhead of encryption ([`weft_service::psp::OVERHEAD_BYTES`]).
    pub fn set_psp(&mut self, psp: Psp) {
        self.psp = Some(Box::new(psp));
    }

    /// The card behind the port.
    pub fn card(&self) -> &Card<E> {
        &self.card
    }

    /// The card behind the port, mutable, to set up queue pairs and regions.
    pub fn card_mut(&mut self) -> &mut Card<E> {
        &mut self.card
    }

    /// Enters a neighbour's address, so that the first packet need not wait for ARP.
    pub fn add_neighbour(&mut self, address: Ipv4Addr, hardware: MacAddress) {
        self.learn(address, hardware);
    }

    /// Enters a neighbour's address, and sends the packets that waited for it.
    fn learn(&mut self, address: Ipv4Addr, hardware: MacAddress) {
        self.neighbours.learn(address, hardware);
        while let Some(packet) = self.waiting.take(address) {
            let mut frame = Vec::new();
            self.emit(hardware, &packet, &mut frame);
            self.ready.push_back(frame);
        }
    }

    fn receive_arp(&mut self, arp: &Arp) {
        if arp.target.address != self.address {
            return;
        }
        // Only neighbours whose address was requested, or that request this port's address, get an entry. So
        // an unsolicited reply cannot redirect a neighbour's traffic.
        if arp.operation == Operation::Request || self.neighbours.expects(arp.sender.address) {
            self.learn(arp.sender.address, arp.sender.hardware);
        }
        if arp.operation == Operation::Request {
            let mut reply = Vec::new();
            frame::emit_arp_frame(&mut reply, arp.sender.hardware, &arp.answered_by(self.hardware));
            self.ready.push_back(reply);
            self.counters.arp_replies += 1;
        }
    }

    fn pass_to_host(&mut self, bytes: &[u8]) {
        self.counters.frames_to_host += 1;
        self.to_host.push_back(bytes.to_vec());
    }

    /// Sends an ARP request for `address`.
    fn ask(&mut self, address: Ipv4Addr) {
        let arp = Arp {
            operation: Operation::Request,
            sender: Station { hardware: self.hardware, address: self.address },
            target: Station { hardware: MacAddress([0; 6]), address },
        };
        let mut request = Vec::new();
        frame::emit_arp_frame(&mut request, MacAddress::BROADCAST, &arp);
        self.ready.push_back(request);
    }

    /// Appends the frame of `packet` to a neighbour to `out`.
    fn emit(&self, hardware: MacAddress, packet: &Outgoing, out: &mut Vec<u8>) {
        let flow = Flow {
            source: Endpoint { hardware: self.hardware, address: self.address, port: packet.source_port },
            destination: Endpoint { hardware, address: *packet.to.ip(), port: packet.to.port() },
            type_of_service: packet.type_of_service,
        };
        match packet.content {
            Content::Datagram => frame::emit_udp_frame(out, &flow, &packet.payload),
            Content::Roce => frame::emit_roce_bytes_frame(out, &flow, &packet.payload),
        }
    }

    fn is_ours(&self, ethernet: &Ethernet) -> bool {
        ethernet.destination == self.hardware || ethernet.destination.is_multicast()
    }
}

impl<E: Engine> Nic for SoftNic<E> {
    fn receive_frame(&mut self, now: Instant, bytes: &[u8]) {
        self.frames_received += 1;
        self.counters.frames_received += 1;
        match Ethernet::parse(bytes) {
            Ok((ethernet, _)) if !self.is_ours(&ethernet) => {
                self.counters.frames_for_others += 1;
                return;
            }
            _ => {}
        }
        let Some(psp) = &mut self.psp else { return self.receive_plain(now, bytes) };
        let mut opened = std::mem::take(&mut self.opened);
        opened.clear();
        opened.extend_from_slice(bytes);
        // A refusal is counted by PSP.
        if psp.open(&mut opened).is_ok() {
            self.receive_plain(now, &opened);
        }
        self.opened = opened;
    }

    fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        match (command, &mut self.psp) {
            (HostCommand::Transmit(bytes), _) => self.ready.push_back(bytes.to_vec()),
            // A refusal is counted by PSP.
            (HostCommand::Associate(change), Some(psp)) => drop(psp.change(&change)),
            (command, _) => self.card.submit(now, command),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.card.next_deadline().into_iter().chain(self.neighbours.next_deadline()).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        while let Some(unanswered) = self.neighbours.expire(now) {
            match unanswered {
                Unanswered::Request(address) => self.ask(address),
                Unanswered::Unreachable(address) => {
                    while self.waiting.take(address).is_some() {
                        self.counters.neighbour_unresolved += 1;
                    }
                }
            }
        }
        self.card.handle_deadline(now);
    }

    fn poll_frame(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                out.extend_from_slice(&bytes);
                self.cpu_time = Duration::ZERO;
            } else {
                let Some(packet) = self.poll_card(now) else { return false };
                let Some(payload) = self.send(now, packet, out) else { continue };
                self.payload = payload;
                self.cpu_time = self.card.cpu_time();
            }
            if self.psp.as_mut().is_none_or(|psp| psp.seal(out).is_ok()) {
                self.counters.frames_sent += 1;
                return true;
            }
            // PSP has counted the refusal. The transport or the engine retransmits.
            out.clear();
        }
    }

    fn poll_host(&mut self) -> Option<HostEvent> {
        if let Some(frame) = self.to_host.pop_front() {
            self.cpu_time = Duration::ZERO;
            return Some(HostEvent::Frame(frame));
        }
        let event = self.card.poll_host()?;
        self.cpu_time = self.card.cpu_time();
        Some(event)
    }

    fn poll_dma(&mut self) -> Option<DmaRequest> {
        let request = self.card.poll_dma()?;
        self.cpu_time = self.card.cpu_time();
        Some(request)
    }

    fn cpu_time(&self) -> Duration {
        self.cpu_time
    }

    fn complete_dma(&mut self, now: Instant, request: &DmaRequest) {
        self.card.complete_dma(now, request);
    }

    fn host_memory(&mut self) -> Option<&mut Vec<u8>> {
        Some(self.card.region_memory().bytes_mut(weft_verbs::Target::Host))
    }

    fn take_work(&mut self) -> Work {
        Work { frames_received: std::mem::take(&mut self.frames_received), ..self.card.take_work() }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.counters.list();
        all.extend(self.card.counters());
        all.extend(self.psp.iter().flat_map(|psp| psp.counters().list()));
        all
    }
}

impl<E: Engine> SoftNic<E> {
    /// Handles a frame that is in plaintext, or was decrypted.
    fn receive_plain(&mut self, now: Instant, bytes: &[u8]) {
        match Frame::parse(bytes) {
            Err(_) => self.counters.frames_malformed += 1,
            Ok(Frame::Arp { arp, .. }) => self.receive_arp(&arp),
            Ok(Frame::Echo { ethernet, ipv4, echo })
                if ipv4.destination == self.address && echo.kind == EchoKind::Request =>
            {
                let mut reply = Vec::new();
                let (ethernet, ipv4) = (ethernet.answered_by(self.hardware), ipv4.answered());
                frame::emit_echo_frame(&mut reply, &ethernet, &ipv4, &echo.answered());
                self.ready.push_back(reply);
                self.counters.echo_replies += 1;
            }
            Ok(Frame::Udp { ipv4, udp, payload, .. }) if ipv4.destination == self.address => {
                match udp.destination_port {
                    datagram::UDP_PORT if self.card.has_engines() => {
                        let from = SocketAddrV4::new(ipv4.source, udp.source_port);
                        self.card.receive_datagram(now, from, payload);
                    }
                    roce::UDP_PORT => match icrc::Path::new(&ipv4, &udp).verify(payload) {
                        Ok(packet) => {
                            let marked = ipv4.type_of_service & CONGESTION_MASK == CONGESTION_EXPERIENCED;
                            self.card.receive_roce_marked(now, ipv4.source, packet, marked);
                        }
                        Err(_) => self.card.count_icrc_error(),
                    },
                    _ => self.pass_to_host(bytes),
                }
            }
            Ok(_) => self.pass_to_host(bytes),
        }
    }

    /// The next packet of the card.
    fn poll_card(&mut self, now: Instant) -> Option<Outgoing> {
        let mut payload = std::mem::take(&mut self.payload);
        if let Some(to) = self.card.poll_datagram(&mut payload) {
            let source_port = datagram::UDP_PORT;
            return Some(Outgoing {
                content: Content::Datagram,
                source_port,
                to,
                type_of_service: 0,
                payload,
            });
        }
        payload.clear();
        while let Some(transmit) = self.card.poll_roce(now, &mut payload) {
            // An engine or the driver may have connected a queue pair to an IPv6 address, without the check
            // of this port.
            let IpAddr::V4(address) = transmit.destination else {
                self.counters.neighbour_unresolved += 1;
                payload.clear();
                continue;
            };
            let to = SocketAddrV4::new(address, roce::UDP_PORT);
            let Transmit { source_port, type_of_service, .. } = transmit;
            return Some(Outgoing { content: Content::Roce, source_port, to, type_of_service, payload });
        }
        self.payload = payload;
        None
    }

    /// Appends the frame of `packet` to `out`, and returns the packet's buffer. `None` if the packet waits
    /// for its neighbour's address, or was dropped because too many packets wait.
    fn send(&mut self, now: Instant, packet: Outgoing, out: &mut Vec<u8>) -> Option<Vec<u8>> {
        let address = *packet.to.ip();
        if let Some(hardware) = self.neighbours.hardware_address(address) {
            self.emit(hardware, &packet, out);
            return Some(packet.payload);
        }
        if self.waiting.is_full() {
            self.counters.neighbour_unresolved += 1;
            return None;
        }
        self.waiting.keep(packet);
        if self.neighbours.wait_for(now, address) {
            self.ask(address);
        }
        None
    }
}
