//! Simulated machines that run clients.

use std::net::SocketAddrV4;

use weft_nic::Egress;
use weft_sim::Machine;
use weft_time::Instant;
use weft_waist::NodeId;
use weft_wire::datagram::{self, Datagram};
use weft_wire::frame::{self, Flow, Frame};

use crate::{ClusterHost, DATAGRAM_BYTES};

/// The UDP port of simulated clients.
const CLIENT_PORT: u16 = 5_000;

/// The slot of the engine that clients call, in every NIC.
pub const CALLED_SLOT: u8 = 0;

/// The clients of one machine as a polled state machine, without input or output of its own.
pub trait ClientProgram {
    /// Handles a message from a node.
    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8]));

    /// When [`ClientProgram::handle_deadline`] must be called.
    fn next_deadline(&self, now: Instant) -> Option<Instant>;

    /// Handles deadlines that have passed.
    fn handle_deadline(&mut self, now: Instant);

    /// Returns the node and the kind of the next message to send, and appends the message's content to
    /// `payload`.
    fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(usize, u8)>;
}

/// A machine that runs clients. Its own work takes no simulated time, because it is the load and not the
/// subject of the measurement.
#[derive(Debug)]
pub struct ClientMachine<C> {
    station: ClusterHost,
    /// Program of the clients.
    pub driver: C,
    egress: Egress,
    now: Instant,
    payload: Vec<u8>,
}

impl<C> ClientMachine<C> {
    /// A machine with the addresses of `station`, which runs the program `driver`.
    pub fn new(station: ClusterHost, driver: C) -> Self {
        let egress = Egress::new(DATAGRAM_BYTES);
        Self { station, driver, egress, now: Instant::ZERO, payload: Vec::new() }
    }
}

impl<C: ClientProgram> Machine for ClientMachine<C> {
    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        self.now = now;
        if let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(bytes)
            && udp.destination_port == CLIENT_PORT
            && let Ok(datagram) = Datagram::parse(payload)
            && let Some(node) = usize::from(ipv4.source.octets()[3]).checked_sub(1)
        {
            for message in datagram.messages().filter(|message| message.engine == CALLED_SLOT) {
                self.driver.receive(now, node, (message.kind, message.payload));
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.driver.next_deadline(self.now)
    }

    fn wake(&mut self, now: Instant) {
        self.now = now;
        self.driver.handle_deadline(now);
    }

    fn poll_frame(&mut self, out: &mut Vec<u8>) -> Option<Instant> {
        self.payload.clear();
        while let Some((node, kind)) = self.driver.poll_transmit(&mut self.payload) {
            let to = SocketAddrV4::new(ClusterHost::node(node).address(), datagram::UDP_PORT);
            let fits = self.egress.push(to, CALLED_SLOT, kind, &self.payload);
            assert!(fits, "a request fits into a datagram");
            self.payload.clear();
        }
        let to = self.egress.poll(&mut self.payload)?;
        let node = NodeId::new(usize::from(to.ip().octets()[3]) - 1).expect("clients speak to nodes only");
        let flow = Flow {
            source: self.station.endpoint(CLIENT_PORT),
            destination: ClusterHost::Node(node).endpoint(datagram::UDP_PORT),
            type_of_service: 0,
        };
        frame::emit_udp_frame(out, &flow, &self.payload);
        self.payload.clear();
        Some(Instant::ZERO)
    }
}
