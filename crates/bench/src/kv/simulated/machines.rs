//! The machines of the clients of a simulated cluster.

use std::net::SocketAddrV4;

use weft_harness::{DATAGRAM_BYTES, Station};
use weft_nic::Egress;
use weft_sim::Machine;
use weft_time::Instant;
use weft_waist::NodeId;
use weft_wire::datagram::{self, Datagram};
use weft_wire::frame::{self, Flow, Frame};

use crate::kv::Driver;

/// The UDP port of simulated clients.
const CLIENT_PORT: u16 = 5_000;

/// The engine's slot in every NIC.
pub(super) const KV_SLOT: u8 = 0;

/// A machine full of clients. It answers at once and without cost: it is the load, not what is measured.
pub(super) struct ClientMachine {
    station: Station,
    pub(super) driver: Driver,
    egress: Egress,
    now: Instant,
    payload: Vec<u8>,
}

impl ClientMachine {
    pub(super) fn new(station: Station, driver: Driver) -> Self {
        let egress = Egress::new(DATAGRAM_BYTES);
        Self { station, driver, egress, now: Instant::ZERO, payload: Vec::new() }
    }
}

impl Machine for ClientMachine {
    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        self.now = now;
        if let Ok(Frame::Udp { udp, payload, .. }) = Frame::parse(bytes)
            && udp.destination_port == CLIENT_PORT
            && let Ok(datagram) = Datagram::parse(payload)
        {
            for message in datagram.messages().filter(|message| message.engine == KV_SLOT) {
                self.driver.receive(now, message.kind, message.payload);
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
        while let Some((node, kind)) = self.driver.poll_transmit(&mut self.payload) {
            let to = SocketAddrV4::new(Station::Node(node).address(), datagram::UDP_PORT);
            let fits = self.egress.push(to, KV_SLOT, kind, &self.payload);
            assert!(fits, "a request fits into a datagram");
            self.payload.clear();
        }
        self.payload.clear();
        let to = self.egress.poll(&mut self.payload)?;
        let node = NodeId::new(usize::from(to.ip().octets()[3]) - 1).expect("clients speak to nodes only");
        let flow = Flow {
            source: self.station.endpoint(CLIENT_PORT),
            destination: Station::Node(node).endpoint(datagram::UDP_PORT),
            type_of_service: 0,
        };
        frame::emit_udp_frame(out, &flow, &self.payload);
        self.payload.clear();
        Some(Instant::ZERO)
    }
}
