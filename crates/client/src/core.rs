//! All request queues of a client, and the datagrams from and to the nodes: no socket, no clock, no thread.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::Egress;
use weft_time::Instant;
use weft_wire::datagram::Datagram;

use crate::requests::AnyQueue;

/// Routes messages between the queues, by slot, and the nodes, by number.
pub(crate) struct Core {
    /// The request queues, by slot.
    queues: Vec<Box<dyn AnyQueue>>,
    egress: Egress,
    payload: Vec<u8>,
}

impl Core {
    pub fn new(datagram_bytes: usize, queues: Vec<Box<dyn AnyQueue>>) -> Self {
        Self { queues, egress: Egress::new(datagram_bytes), payload: Vec::new() }
    }

    /// Takes the requests that other threads have enqueued.
    pub fn take(&mut self, now: Instant) {
        self.queues.iter_mut().for_each(|queue| queue.take(now));
    }

    /// Processes a datagram of a node. Datagrams in other formats are ignored.
    pub fn receive(&mut self, now: Instant, node: usize, bytes: &[u8]) {
        let Ok(datagram) = Datagram::parse(bytes) else { return };
        for message in datagram.messages() {
            if let Some(queue) = self.queues.get_mut(usize::from(message.engine)) {
                queue.receive(now, node, (message.kind, message.payload));
            }
        }
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.next_deadline()).min()
    }

    pub fn handle_deadline(&mut self, now: Instant) {
        self.queues.iter_mut().for_each(|queue| queue.handle_deadline(now));
    }

    /// Ends the sessions of all engines: no more requests will be sent.
    pub fn leave(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.end_session());
    }

    /// Replaces the content of `out` by the next datagram and returns the node that gets it.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        for (slot, queue) in self.queues.iter_mut().enumerate() {
            loop {
                self.payload.clear();
                let Some((node, kind)) = queue.poll_transmit(&mut self.payload) else { break };
                let fits = self.egress.push(destination(node), slot as u8, kind, &self.payload);
                assert!(fits, "longer requests are refused before");
            }
        }
        self.egress.poll(out).map(|to| usize::from(to.port()))
    }
}

/// A node as a destination of messages: its number is the port.
fn destination(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, node as u16)
}
