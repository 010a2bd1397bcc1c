//! The membership service as a machine of a simulated cluster.

use weft_cluster::{MEMBERSHIP_PORT, Phase, Server};
use weft_sim::Machine;
use weft_time::Instant;
use weft_waist::{Epoch, View};
use weft_wire::frame::{self, Endpoint, Flow, Frame};

use super::Station;

/// The membership service on a machine of its own, which never crashes; its links may fail.
pub(crate) struct MembershipMachine {
    server: Server<Endpoint>,
    published: Vec<(Instant, View)>,
}

impl MembershipMachine {
    pub(crate) fn new(server: Server<Endpoint>) -> Self {
        Self { server, published: Vec::new() }
    }

    /// All views so far and when they were published, on the machine's clock.
    pub(crate) fn published(&self) -> &[(Instant, View)] {
        &self.published
    }

    pub(crate) fn phase(&self) -> Phase {
        self.server.service().phase()
    }

    pub(crate) fn view(&self) -> View {
        self.server.service().view()
    }

    fn note(&mut self, now: Instant) {
        let view = self.view();
        if view.epoch != self.published.last().map_or(Epoch(0), |(_, view)| view.epoch) {
            self.published.push((now, view));
        }
    }
}

impl Machine for MembershipMachine {
    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if let Ok(Frame::Udp { ethernet, ipv4, udp, payload }) = Frame::parse(bytes)
            && udp.destination_port == MEMBERSHIP_PORT
        {
            let from = Endpoint { hardware: ethernet.source, address: ipv4.source, port: udp.source_port };
            // A malformed heartbeat is counted by the server.
            let _ = self.server.receive(now, from, payload);
            self.note(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.server.next_deadline())
    }

    fn wake(&mut self, now: Instant) {
        self.server.tick(now);
        self.note(now);
    }

    fn poll_frame(&mut self, out: &mut Vec<u8>) -> Option<Instant> {
        // The machine does not crash, so its memory is durable enough.
        let _ = self.server.take_unsaved();
        let (to, datagram) = self.server.poll_transmit()?;
        let source = Station::Membership.endpoint(MEMBERSHIP_PORT);
        frame::emit_udp_frame(out, &Flow { source, destination: to, type_of_service: 0 }, &datagram);
        Some(Instant::ZERO)
    }
}
