//! The membership service behind a datagram socket.

use std::collections::VecDeque;

use weft_time::Instant;
use weft_waist::{NODES_MAX, NodeId};

use crate::durable::Durable;
use crate::message::{Datagram, Message, MessageError};
use crate::service::Service;

/// Answers that wait for the host: far more than one call adds, so only a host that does not send loses any.
const QUEUE_MAX: usize = 64;

/// A [`Service`] that takes and gives datagrams.
///
/// `A` is how the world names the other end: a socket address, or a node. After each call, the host first stores
/// what [`Server::take_unsaved`] gives, and then sends what [`Server::poll_transmit`] gives until there is no more.
/// If storing fails, the host stops: what it could not store must not be acted upon.
#[derive(Clone, Debug)]
pub struct Server<A> {
    service: Service,
    addresses: [Option<A>; NODES_MAX],
    queue: VecDeque<(A, Datagram)>,
    received: u64,
    refused: u64,
    malformed: u64,
    overflowed: u64,
}

impl<A: Copy> Server<A> {
    /// A server for `service`.
    pub fn new(service: Service) -> Self {
        Self {
            service,
            addresses: [None; NODES_MAX],
            queue: VecDeque::with_capacity(QUEUE_MAX),
            received: 0,
            refused: 0,
            malformed: 0,
            overflowed: 0,
        }
    }

    /// Takes a datagram that was received from `from`. `now` is read after that.
    ///
    /// # Errors
    /// [`MessageError`] if it is no heartbeat; it changes nothing but a counter.
    pub fn receive(&mut self, now: Instant, from: A, bytes: &[u8]) -> Result<(), MessageError> {
        let message = Message::decode(bytes).and_then(|message| match message {
            Message::Heartbeat { token, heartbeat } => Ok((token, heartbeat)),
            _ => Err(MessageError::Field("kind")),
        });
        let (token, heartbeat) = message.inspect_err(|_| self.malformed += 1)?;
        self.received += 1;
        let before = self.service.view().epoch;
        let answer = self.service.heartbeat(now, heartbeat);
        let (node, incarnation) = (heartbeat.node, heartbeat.incarnation);
        let answer = match answer {
            Ok(grant) => Message::Grant { node, incarnation, token, view: grant.view, lease: grant.lease },
            Err(reason) => {
                self.refused += 1;
                Message::Refusal { node, incarnation, token, epoch: self.service.view().epoch, reason }
            }
        };
        self.push(from, &answer);
        self.addresses[node.index()] = Some(from);
        if self.service.view().epoch != before {
            self.notify(Some(node));
        }
        Ok(())
    }

    /// Lets time pass: see [`Service::tick`].
    pub fn tick(&mut self, now: Instant) {
        let before = self.service.view().epoch;
        self.service.tick(now);
        if self.service.view().epoch != before {
            self.notify(None);
        }
    }

    /// When to call [`Server::tick`] if nothing is received before.
    pub fn next_deadline(&self) -> Instant {
        self.service.next_deadline()
    }

    /// The snapshot to store before anything is sent.
    #[must_use]
    pub fn take_unsaved(&mut self) -> Option<Durable> {
        self.service.take_unsaved()
    }

    /// The next datagram to send, and where to. There is none as long as a snapshot waits to be taken.
    pub fn poll_transmit(&mut self) -> Option<(A, Datagram)> {
        if self.service.has_unsaved() { None } else { self.queue.pop_front() }
    }

    /// The service itself.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// What was received and what was refused, by name.
    pub fn counters(&self) -> [(&'static str, u64); 4] {
        [
            ("heartbeats", self.received),
            ("heartbeats_refused", self.refused),
            ("datagrams_malformed", self.malformed),
            ("answers_overflowed", self.overflowed),
        ]
    }

    /// Tells every node but `except` that there is a view to ask for, so that the change does not wait for their next
    /// heartbeats.
    fn notify(&mut self, except: Option<NodeId>) {
        let epoch = self.service.view().epoch;
        for node in (0..NODES_MAX).filter_map(NodeId::new) {
            if let Some(address) = self.addresses[node.index()].filter(|_| Some(node) != except) {
                self.push(address, &Message::Notice { node, epoch });
            }
        }
    }

    fn push(&mut self, to: A, message: &Message) {
        if self.queue.len() == QUEUE_MAX {
            self.overflowed += 1;
        } else {
            self.queue.push_back((to, message.encode()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_time::Duration;

    use super::*;
    use crate::membership::Incarnation;
    use crate::message::Heartbeat;
    use crate::service::ServiceParameters;
    use weft_waist::EngineStatus;

    fn server(nodes: usize) -> Server<u16> {
        Server::new(Service::new(ServiceParameters::new(nodes, Duration::from_ms(100))))
    }

    fn heartbeat(node: usize, token: u64) -> Datagram {
        let (node, incarnation) = (NodeId::new(node).unwrap(), Incarnation::FIRST);
        Message::Heartbeat {
            token,
            heartbeat: Heartbeat { node, incarnation, status: EngineStatus::STARTING },
        }
        .encode()
    }

    #[test]
    fn nothing_leaves_before_the_view_is_taken_to_be_saved() {
        let mut server = server(2);
        server.receive(Instant::ZERO, 100, &heartbeat(0, 5)).unwrap();
        server.receive(Instant::ZERO, 101, &heartbeat(1, 6)).unwrap();
        assert_eq!(server.poll_transmit(), None);
        assert_eq!(server.take_unsaved().unwrap().view(), server.service().view());
        let sent: Vec<_> = std::iter::from_fn(|| server.poll_transmit())
            .map(|(to, bytes)| format!("{to} {}", Message::decode(&bytes).unwrap()))
            .collect();
        assert_eq!(
            sent,
            [
                "100 refusal node0#1 at epoch 0: Waiting",
                "101 grant node1#1 epoch 1: full {0, 1} joining {} for 100 ms",
                "100 notice node0 epoch 1",
            ]
        );
    }

    #[test]
    fn a_host_that_does_not_send_loses_answers_only() {
        let mut server = server(2);
        for token in 0..100 {
            server.receive(Instant::ZERO, 100, &heartbeat(0, token)).unwrap();
        }
        assert_eq!(server.counters()[3], ("answers_overflowed", 36));
        assert_eq!(std::iter::from_fn(|| server.poll_transmit()).count(), 64);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_counted(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
            let mut server = server(2);
            prop_assert!(server.receive(Instant::ZERO, 0, &bytes).is_err());
            prop_assert_eq!(server.counters()[2], ("datagrams_malformed", 1));
            prop_assert_eq!(server.poll_transmit(), None);
        }
    }
}
