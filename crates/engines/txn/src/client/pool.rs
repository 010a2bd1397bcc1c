//! Several clients as one client half, because each of them has one call under way at a time.

use weft_session::{CallId, ClientHalf};
use weft_time::Instant;

use super::{Client, ClientParameters, Ended};
use crate::procedure::Request;

/// A client half with as many outstanding calls as it has clients. To the nodes, each of them is a client of its own.
#[derive(Debug)]
pub struct Pool {
    /// The clients, with their latest calls.
    clients: Vec<(Client, CallId)>,
    last: CallId,
}

impl Pool {
    /// Clients without calls.
    ///
    /// # Panics
    /// As [`Client::new`].
    pub fn new(clients: impl IntoIterator<Item = ClientParameters>) -> Self {
        let clients = clients.into_iter().map(|parameters| (Client::new(parameters), CallId(0)));
        Self { clients: clients.collect(), last: CallId(0) }
    }
}

impl ClientHalf for Pool {
    type Task<'a> = &'a Request;
    type Outcome<'a> = Ended;

    fn start(&mut self, now: Instant, request: &Request) -> Option<CallId> {
        let (client, call) = self.clients.iter_mut().find(|(client, _)| !client.is_busy())?;
        self.last.0 += 1;
        *call = self.last;
        client.start(now, request.clone());
        Some(*call)
    }

    fn receive(
        &mut self,
        now: Instant,
        node: usize,
        (kind, payload): (u8, &[u8]),
    ) -> Option<(CallId, Ended)> {
        let receive = |(client, call): &mut (Client, CallId)| {
            client.receive(now, node, kind, payload).map(|ended| (*call, ended))
        };
        self.clients.iter_mut().find_map(receive)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.clients.iter().filter_map(|(client, _)| client.next_deadline()).min()
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<(CallId, Ended)> {
        let handle =
            |(client, call): &mut (Client, CallId)| client.handle_deadline(now).map(|ended| (*call, ended));
        self.clients.iter_mut().find_map(handle)
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.clients.iter_mut().find_map(|(client, _)| client.poll_transmit(out))
    }
}
